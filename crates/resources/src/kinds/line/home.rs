//! Paths in a home directory.

use mgmt_resource::{Error, Result};
use mgmt_sys::ManagedPath;
use mgmt_value::Str;
use nix::unistd::{Uid, User};

/// Where a declared file is.
#[derive(Debug)]
pub(super) struct Located {
    pub(super) path: ManagedPath,
    /// The user and group that a new file there belongs to, if not to us.
    pub(super) owner: Option<(u32, u32)>,
}

/// Reads a declared path. One with a tilde needs the account, which may take a look at a directory service.
pub(super) fn locate(declared: &Str) -> Result<Located> {
    let Some(rest) = declared.strip_prefix(b"~") else {
        return Ok(Located { path: managed(declared)?, owner: None });
    };
    let slash = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
    let (name, below) = rest.split_at(slash);
    let user = account(name, declared)?;
    let home = user.dir.as_os_str().as_encoded_bytes();
    if !home.starts_with(b"/") {
        return Err(Error::new(format_args!(
            "cannot tell where {declared:?} is: {} has no home directory",
            user.name
        )));
    }
    let path = managed(&[home, below].concat())?;
    let owner = (!name.is_empty()).then(|| (user.uid.as_raw(), user.gid.as_raw()));
    Ok(Located { path, owner })
}

fn managed(path: &[u8]) -> Result<ManagedPath> {
    ManagedPath::new(path).map_err(|error| Error::new(format_args!("`file`: {error}")))
}

fn account(name: &[u8], declared: &Str) -> Result<User> {
    let found = match std::str::from_utf8(name) {
        Ok("") => User::from_uid(Uid::effective()),
        Ok(name) => User::from_name(name),
        Err(_) => Ok(None),
    };
    let missing = |why: &str| {
        Error::new(format_args!("cannot tell where {declared:?} is: {why}"))
            .with_hint("declare the user before this resource, or write the whole path")
    };
    match found {
        Ok(Some(user)) => Ok(user),
        Ok(None) if name.is_empty() => Err(missing("the present user has no account")),
        Ok(None) => Err(missing(&format!("there is no user {:?}", Str::new(name)))),
        Err(errno) => Err(missing(errno.desc())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(declared: &str) -> (String, Option<(u32, u32)>) {
        let located = locate(&declared.into()).unwrap();
        (located.path.to_string(), located.owner)
    }

    #[test]
    fn a_tilde_is_a_home_directory() {
        assert_eq!(at("/etc/../etc/motd"), ("/etc/motd".to_owned(), None));
        assert_eq!(at("~root/.profile"), ("/root/.profile".to_owned(), Some((0, 0))));
        let me = User::from_uid(Uid::effective()).unwrap().unwrap();
        assert_eq!(at("~/a/b"), (format!("{}/a/b", me.dir.display()), None));
    }

    #[test]
    fn an_unknown_user_is_an_error_with_a_hint() {
        let error = locate(&"~no-such-user/x".into()).unwrap_err();
        assert!(error.to_string().contains("there is no user \"no-such-user\""), "{error}");
        assert!(error.hint().is_some());
        assert!(locate(&Str::new(b"~\xff/x")).is_err());
    }
}
