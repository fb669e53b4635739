//! Users and groups of the host, by name or by number.
//!
//! Everything goes through the C library, so that accounts from a directory service are found like those in
//! `/etc/passwd`; [`local`] spares it questions that it would answer from there. Such a lookup may wait for the network:
//! asynchronous code calls it through [`lookup`].

pub(crate) mod local;

use std::ffi::CString;

use mgmt_resource::{Error, Identity, Result};
use mgmt_sys::process::Credentials;
use mgmt_value::Str;
use nix::errno::Errno;
use nix::unistd::{Gid, Group, Uid, User, getgrouplist};

/// The number of a declared user. A bare number needs no account.
pub(crate) fn user_id(declared: &Str) -> Result<u32> {
    find_user(declared).map(|(uid, _)| uid)
}

/// The number of a declared group. A bare number needs no entry.
pub(crate) fn group_id(declared: &Str) -> Result<u32> {
    let number = number_of("group", declared)?;
    let known = match number {
        Some(gid) => known("group", declared, Group::from_gid(Gid::from_raw(gid)))?,
        None => None,
    };
    let known = match known {
        None => named("group", declared, Group::from_name)?,
        found => found,
    };
    match (known, number) {
        (Some(group), _) => Ok(group.gid.as_raw()),
        (None, Some(gid)) => Ok(gid),
        (None, None) => Err(missing("group", declared)),
    }
}

/// Who a command runs as when these are declared; empty means not declared. `None` means: as this process.
///
/// A user brings its primary group and every other group it is a member of, as a login would. A declared group
/// takes the place of the primary one. A group alone leaves the user as it is, and no other groups.
pub(crate) fn credentials(user: &Str, group: &Str) -> Result<Option<Credentials>> {
    let group = if group.is_empty() { None } else { Some(group_id(group)?) };
    if user.is_empty() {
        let uid = Uid::effective().as_raw();
        return Ok(group.map(|gid| Credentials { uid, gid, groups: vec![gid] }));
    }
    let (uid, account) = find_user(user)?;
    let Some(gid) = group.or(account.as_ref().map(|account| account.gid.as_raw())) else {
        return Err(Error::new(format_args!(
            "there is no account with the number {uid}, so its group is not known"
        ))
        .with_hint("set `group` as well"));
    };
    let groups = match account.and_then(|account| CString::new(account.name).ok()) {
        None => vec![gid],
        Some(name) => getgrouplist(&name, Gid::from_raw(gid))
            .map_err(|errno| failed("the groups of user", user, errno))?
            .into_iter()
            .map(Gid::as_raw)
            .collect(),
    };
    Ok(Some(Credentials { uid, gid, groups }))
}

/// Runs a lookup where it may block.
pub(crate) async fn lookup<T: Send + 'static>(
    look: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    match tokio::task::spawn_blocking(look).await {
        Ok(result) => result,
        // The pool only refuses work while the program ends.
        Err(_) => Err(Error::Cancelled),
    }
}

/// The same for code that cannot wait: other tasks of this thread are moved away for as long as it takes.
pub(crate) fn lookup_now<T>(look: impl FnOnce() -> Result<T>) -> Result<T> {
    use tokio::runtime::{Handle, RuntimeFlavor};
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(look),
        _ => look(),
    }
}

/// What a declared user is to automatic edges.
pub(crate) fn user_identity(declared: &Str) -> Identity {
    match number_of("user", declared) {
        Ok(Some(uid)) => Identity::UserNumber(uid),
        _ => Identity::User(declared.clone()),
    }
}

/// What a declared group is to automatic edges.
pub(crate) fn group_identity(declared: &Str) -> Identity {
    match number_of("group", declared) {
        Ok(Some(gid)) => Identity::GroupNumber(gid),
        _ => Identity::Group(declared.clone()),
    }
}

/// A declared user, with its account if there is one.
fn find_user(declared: &Str) -> Result<(u32, Option<User>)> {
    let number = number_of("user", declared)?;
    let known = match number {
        Some(uid) => known("user", declared, User::from_uid(Uid::from_raw(uid)))?,
        None => None,
    };
    let known = match known {
        None => named("user", declared, User::from_name)?,
        found => found,
    };
    match (known, number) {
        (Some(user), _) => Ok((user.uid.as_raw(), Some(user))),
        (None, Some(uid)) => Ok((uid, None)),
        (None, None) => Err(missing("user", declared)),
    }
}

/// The number that is written there, if it is a number.
fn number_of(what: &str, declared: &Str) -> Result<Option<u32>> {
    if declared.is_empty() || !declared.iter().all(u8::is_ascii_digit) {
        return Ok(None);
    }
    // The largest number means "leave as it is" to the kernel.
    let number =
        declared.as_str().and_then(|digits| digits.parse().ok()).filter(|&number| number != u32::MAX);
    number.map(Some).ok_or_else(|| {
        Error::new(format_args!(
            "{} is no number of a {what}, the largest is {}",
            declared.display(),
            u32::MAX - 1
        ))
    })
}

fn named<T>(what: &str, declared: &Str, find: fn(&str) -> nix::Result<Option<T>>) -> Result<Option<T>> {
    match declared.as_str() {
        Some(name) => known(what, declared, find(name)),
        None => Ok(None),
    }
}

/// Reads the answer of a lookup. Some sources say "no such entry" with an error.
fn known<T>(what: &str, declared: &Str, answer: nix::Result<Option<T>>) -> Result<Option<T>> {
    match answer {
        Err(Errno::ENOENT | Errno::ESRCH | Errno::EBADF | Errno::EPERM) => Ok(None),
        Err(errno) => Err(failed(what, declared, errno)),
        Ok(found) => Ok(found),
    }
}

fn failed(what: &str, declared: &Str, errno: Errno) -> Error {
    Error::new(format_args!("cannot look up {what} {declared:?}: {}", errno.desc()))
}

fn missing(what: &str, declared: &Str) -> Error {
    Error::new(format_args!("there is no {what} {declared:?} on this host"))
        .with_hint(format_args!("declare it before this resource, or write the number of the {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_found() {
        assert_eq!(user_id(&"root".into()).unwrap(), 0);
        assert_eq!(user_id(&"0".into()).unwrap(), 0);
        assert_eq!(group_id(&"root".into()).unwrap(), 0);
        assert_eq!(group_id(&"0".into()).unwrap(), 0);
    }

    #[test]
    fn a_bare_number_needs_no_account() {
        assert_eq!(user_id(&"3999999999".into()).unwrap(), 3_999_999_999);
        assert_eq!(group_id(&"3999999999".into()).unwrap(), 3_999_999_999);
    }

    #[test]
    fn a_number_that_means_unchanged_is_refused() {
        for wrong in ["4294967295", "99999999999999999999"] {
            assert!(user_id(&wrong.into()).unwrap_err().to_string().contains("4294967294"), "{wrong}");
            assert!(group_id(&wrong.into()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_unknown_name_is_an_error_with_a_hint() {
        for wrong in ["no-such-account", "-1", "+1", " 1", "a\0b"] {
            let error = user_id(&wrong.into()).unwrap_err();
            assert!(error.to_string().contains("there is no user"), "{error}");
            assert!(error.hint().is_some());
            assert!(group_id(&wrong.into()).unwrap_err().to_string().contains("there is no group"));
        }
        assert!(user_id(&Str::new(b"\xff\xfe")).is_err());
    }

    #[test]
    fn a_user_brings_its_primary_group_and_a_declared_one_replaces_it() {
        let nobody = User::from_name("nobody").unwrap().unwrap();
        let who = credentials(&"nobody".into(), &Str::EMPTY).unwrap().unwrap();
        assert_eq!((who.uid, who.gid), (nobody.uid.as_raw(), nobody.gid.as_raw()));
        assert!(who.groups.contains(&who.gid) && !who.groups.contains(&0));
        let who = credentials(&"nobody".into(), &"4242".into()).unwrap().unwrap();
        assert_eq!((who.uid, who.gid), (nobody.uid.as_raw(), 4242));
        assert!(who.groups.contains(&4242));
    }

    #[test]
    fn a_group_alone_leaves_the_user() {
        let who = credentials(&Str::EMPTY, &"4242".into()).unwrap().unwrap();
        assert_eq!(who, Credentials { uid: Uid::effective().as_raw(), gid: 4242, groups: vec![4242] });
        assert_eq!(credentials(&Str::EMPTY, &Str::EMPTY).unwrap(), None);
    }

    #[test]
    fn a_number_without_account_needs_a_group() {
        let error = credentials(&"3999999999".into(), &Str::EMPTY).unwrap_err();
        assert_eq!(error.hint(), Some("set `group` as well"));
        let who = credentials(&"3999999999".into(), &"7".into()).unwrap().unwrap();
        assert_eq!(who, Credentials { uid: 3_999_999_999, gid: 7, groups: vec![7] });
    }

    #[test]
    fn identities_tell_names_from_numbers() {
        assert_eq!(user_identity(&"1000".into()), Identity::UserNumber(1000));
        assert_eq!(user_identity(&"joe".into()), Identity::User("joe".into()));
        assert_eq!(group_identity(&"7".into()), Identity::GroupNumber(7));
        assert_eq!(group_identity(&"wheel".into()), Identity::Group("wheel".into()));
    }
}
