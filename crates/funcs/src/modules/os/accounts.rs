//! Users.

use mgmt_value::Str;
use nix::unistd::{Uid, User};

use crate::look::{Account, Answer, Question, look_now};
use crate::{Failure, paths};

/// Looks a user up, wherever the system keeps them. May block, so it is asked through `look`.
pub(crate) fn account_named(name: &Str) -> Answer {
    let Some(text) = name.as_str().filter(|text| !text.is_empty() && !text.contains('\0')) else {
        return Answer::Account(None);
    };
    match User::from_name(text) {
        Ok(user) => Answer::Account(user.map(account)),
        // Some sources of accounts answer that way when there is no such user, or when they are not set up.
        Err(nix::errno::Errno::ENOENT | nix::errno::Errno::ESRCH | nix::errno::Errno::EPERM) => {
            Answer::Account(None)
        }
        Err(error) => Answer::Failed(format!("can't look up the user {name:?}: {error}")),
    }
}

/// Looks the user of this process up. May block, so it is asked through `look`.
pub(crate) fn own_account() -> Answer {
    match User::from_uid(Uid::effective()) {
        Ok(user) => Answer::Account(user.map(account)),
        Err(error) => Answer::Failed(format!("can't look up the user of the program: {error}")),
    }
}

fn account(user: User) -> Account {
    Account { uid: user.uid.as_raw(), home: Str::new(user.dir.as_os_str().as_encoded_bytes()) }
}

fn find(question: Question) -> Result<Option<Account>, Failure> {
    match look_now(question)? {
        Answer::Account(account) => Ok(account),
        Answer::Failed(message) => Err(Failure::fatal(message)),
        _ => Ok(None),
    }
}

fn existing(name: &Str) -> Result<Account, Failure> {
    let found = find(Question::Account(name.clone()))?;
    found.ok_or_else(|| Failure::fatal(format!("there is no user {name:?}")))
}

pub(super) fn uid(name: &Str) -> Result<String, Failure> {
    Ok(existing(name)?.uid.to_string())
}

pub(super) fn home(name: &Str) -> Result<Str, Failure> {
    Ok(with_slash(&existing(name)?.home))
}

fn with_slash(path: &[u8]) -> Str {
    if path.ends_with(b"/") { Str::new(path) } else { Str::new([path, b"/"].concat()) }
}

pub(super) fn expand_home(path: &Str) -> Result<Str, Failure> {
    let Some(slash) = path.iter().position(|byte| *byte == b'/').filter(|_| path.starts_with(b"~")) else {
        return Ok(path.clone());
    };
    let home = match &path[1..slash] {
        b"" => current_home()?,
        name => home(&Str::new(name))?,
    };
    let clean = paths::join(&[home.as_bytes(), &path[slash..]]);
    Ok(if path.ends_with(b"/") { with_slash(&clean) } else { Str::new(clean) })
}

fn current_home() -> Result<Str, Failure> {
    match find(Question::OwnAccount)? {
        Some(account) => Ok(account.home),
        None => Err(Failure::fatal(format!("there is no user with the number {}", Uid::effective()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_known_and_others_are_not() {
        assert_eq!(uid(&"root".into()).unwrap(), "0");
        assert_eq!(home(&"root".into()).unwrap(), "/root/");
        for name in ["", "no-such-user", "a\0b"] {
            assert!(find(Question::Account(name.into())).unwrap().is_none());
            assert!(matches!(home(&name.into()), Err(Failure::Fatal(_))));
            assert!(matches!(uid(&name.into()), Err(Failure::Fatal(_))));
        }
        assert!(find(Question::Account(Str::new(b"\xff"))).unwrap().is_none());
    }

    #[test]
    fn only_the_beginning_is_expanded() {
        let expand = |path: &str| expand_home(&path.into()).map(|path| path.to_text().into_owned());
        assert_eq!(expand("~root/a/../b").unwrap(), "/root/b");
        assert_eq!(expand("~root/").unwrap(), "/root/");
        assert_eq!(expand("~root/a/").unwrap(), "/root/a/");
        for same in ["", "~", "~root", "/a/~root/b", "a/~/b", "/a//b/"] {
            assert_eq!(expand(same).unwrap(), same);
        }
        assert!(expand("~/a").unwrap().ends_with("/a"));
        assert!(matches!(expand("~no-such-user/"), Err(Failure::Fatal(_))));
    }
}
