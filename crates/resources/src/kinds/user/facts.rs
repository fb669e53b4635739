//! What is known about an account.

use std::collections::BTreeSet;
use std::ffi::CString;
use std::os::unix::ffi::OsStringExt;

use mgmt_resource::{Error, Result};
use mgmt_value::Str;
use nix::errno::Errno;
use nix::unistd::{User as Found, getgrouplist};

use super::User;
use crate::support::account::local::Accounts;
use crate::support::shadow::hash;

/// What is there.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// The account, if it is there.
    pub(super) account: Option<Account>,
    /// The user that has the wanted number.
    pub(super) holder: Option<String>,
    /// The name of the wanted primary group, if it is wanted by its number.
    pub(super) wanted_group: Option<String>,
    /// Whether there is a group of the same name.
    pub(super) namesake: bool,
}

/// An account.
#[derive(Debug, Default)]
pub(super) struct Account {
    pub(super) uid: u32,
    pub(super) gid: u32,
    /// The name of the primary group, if it has one.
    pub(super) group: Option<String>,
    /// The other groups, if they are managed.
    pub(super) groups: BTreeSet<String>,
    pub(super) home: Vec<u8>,
    /// The home directory is a symbolic link, which may lead anywhere.
    pub(super) home_is_link: bool,
    pub(super) shell: Vec<u8>,
    pub(super) comment: Vec<u8>,
    /// Whether the password has the wanted hash. True if it is not managed.
    pub(super) hash_is_right: bool,
}

impl Facts {
    /// Looks. Blocks, perhaps for long if a directory service is asked.
    pub(super) fn find(user: &User, name: &str) -> Result<Facts> {
        let failed =
            |errno: Errno| Error::new(format_args!("cannot look up the user {name}: {}", errno.desc()));
        let accounts = Accounts::now();
        let account = match accounts.user_named(name).map_err(failed)? {
            Some(found) => Some(Account::read(user, found, &accounts)?),
            None => None,
        };
        let holder = match user.uid {
            Some(uid) => accounts.user_numbered(uid).map_err(failed)?,
            None => None,
        };
        let wanted_group = match user.gid {
            Some(gid) => group_name(gid, &accounts)?,
            None => None,
        };
        let namesake = accounts.group_named(name).map_err(failed)?.is_some();
        Ok(Facts { account, holder: holder.map(|holder| holder.name), wanted_group, namesake })
    }
}

impl Account {
    fn read(user: &User, found: Found, accounts: &Accounts) -> Result<Account> {
        let gid = found.gid.as_raw();
        let mut groups = BTreeSet::new();
        if user.groups.is_some() {
            let failed =
                |why: &str| Error::new(format_args!("cannot look up the groups of {}: {why}", found.name));
            let name = CString::new(found.name.as_str()).map_err(|_| failed("it has a NUL byte"))?;
            for other in getgrouplist(&name, found.gid).map_err(|errno| failed(errno.desc()))? {
                if other != found.gid {
                    let named = group_name(other.as_raw(), accounts)?;
                    groups.insert(named.ok_or_else(|| failed(&format!("the group {other} has no name")))?);
                }
            }
        }
        let hash_is_right = match &user.password {
            Some(wanted) => hash::read(&found.name)?.as_ref() == Some(wanted.reveal()),
            None => true,
        };
        let home_is_link = std::fs::symlink_metadata(&found.dir).is_ok_and(|home| home.is_symlink());
        Ok(Account {
            home_is_link,
            uid: found.uid.as_raw(),
            gid,
            group: group_name(gid, accounts)?,
            groups,
            home: found.dir.into_os_string().into_vec(),
            shell: found.shell.into_os_string().into_vec(),
            comment: found.gecos.into_bytes(),
            hash_is_right,
        })
    }
}

fn group_name(gid: u32, accounts: &Accounts) -> Result<Option<String>> {
    let found = accounts.group_numbered(gid);
    let found = found
        .map_err(|errno| Error::new(format_args!("cannot look up the group {gid}: {}", errno.desc())))?;
    Ok(found.map(|name| Str::from(name).to_text().into_owned()))
}
