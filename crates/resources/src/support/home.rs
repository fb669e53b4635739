//! Paths in a home directory.

use mgmt_resource::{Error, Invalid, Result};
use mgmt_sys::ManagedPath;
use mgmt_value::Str;
use nix::unistd::{Uid, User};

/// Where a declared file is.
#[derive(Debug)]
pub(crate) struct Located {
    pub(crate) path: ManagedPath,
    /// The user and group that a new file there belongs to, if not to us.
    pub(crate) owner: Option<(u32, u32)>,
}

/// Checks a declared path, which is absolute or begins with `~/` or `~user/`, without asking for the account.
pub(crate) fn check(field: &'static str, declared: &Str) -> Result<(), Invalid> {
    if declared.starts_with(b"~") {
        if declared.contains(&0) || !declared.contains(&b'/') {
            return Err(Invalid::field(
                field,
                format!("expected `~/` or `~user/` and a path, found {declared:?}"),
            ));
        }
    } else {
        ManagedPath::new(declared).map_err(|error| Invalid::field(field, error.to_string()))?;
    }
    match declared.ends_with(b"/") {
        true => Err(Invalid::field(field, format!("{declared:?} ends in a slash, which means a directory"))),
        false => Ok(()),
    }
}

/// The user in whose home directory a declared path is, if it names one.
pub(crate) fn user_of(declared: &Str) -> Option<Str> {
    let rest = declared.strip_prefix(b"~")?;
    let slash = rest.iter().position(|byte| *byte == b'/')?;
    (slash > 0).then(|| Str::new(&rest[..slash]))
}

/// Finds a declared path. One with a tilde needs the account, which may take a look at a directory service. Nothing if there
/// is no such account.
pub(crate) fn locate(declared: &Str) -> Result<Option<Located>> {
    let Some(rest) = declared.strip_prefix(b"~") else {
        return Ok(Some(Located { path: managed(declared)?, owner: None }));
    };
    let slash = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
    let (name, below) = rest.split_at(slash);
    let found = match std::str::from_utf8(name) {
        Ok("") => User::from_uid(Uid::effective()),
        Ok(name) => User::from_name(name),
        Err(_) => Ok(None),
    };
    let cannot = |why: &str| Error::new(format_args!("cannot tell where {declared:?} is: {why}"));
    let Some(user) = found.map_err(|errno| cannot(errno.desc()))? else { return Ok(None) };
    let home = user.dir.as_os_str().as_encoded_bytes();
    if !home.starts_with(b"/") {
        return Err(cannot(&format!("{} has no home directory", user.name)));
    }
    let path = managed(&[home, below].concat())?;
    let owner = (!name.is_empty()).then(|| (user.uid.as_raw(), user.gid.as_raw()));
    Ok(Some(Located { path, owner }))
}

fn managed(path: &[u8]) -> Result<ManagedPath> {
    ManagedPath::new(path).map_err(|error| Error::new(format_args!("`file`: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(declared: &str) -> (String, Option<(u32, u32)>) {
        let located = locate(&declared.into()).unwrap().unwrap();
        (located.path.to_string(), located.owner)
    }

    #[test]
    fn a_tilde_is_a_home_directory() {
        assert_eq!(at("/etc/../etc/motd"), ("/etc/motd".to_owned(), None));
        assert_eq!(at("~root/.profile"), ("/root/.profile".to_owned(), Some((0, 0))));
        let me = User::from_uid(Uid::effective()).unwrap().unwrap();
        assert_eq!(at("~/a/b"), (format!("{}/a/b", me.dir.display()), None));
        assert!(locate(&"~no-such-user/x".into()).unwrap().is_none());
        assert!(locate(&Str::new(b"~\xff/x")).unwrap().is_none());
    }

    #[test]
    fn a_path_may_name_a_user() {
        assert_eq!(user_of(&"~joe/x".into()), Some("joe".into()));
        for none in ["~/x", "/x", "", "~joe"] {
            assert_eq!(user_of(&none.into()), None, "{none}");
        }
    }
}
