//! For whom settings are made, and where they are stored.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use mgmt_resource::{Error, Result};
use mgmt_sys::process::Credentials;
use mgmt_value::Str;
use nix::unistd::{Uid, User};

use crate::support::account;
use crate::support::shadow::PASSWD;

/// Where schemas are installed.
pub(super) const SCHEMAS: &str = "/usr/share/glib-2.0/schemas/";
/// Where the administrator of the host stores defaults and locks.
pub(super) const ADMINISTRATOR: &str = "/etc/dconf/";
/// Where programs are looked for.
const PROGRAMS: &str = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";
/// What in our own environment says where our own settings are.
const OWN: [&str; 7] = [
    "XDG_CONFIG_HOME",
    "XDG_RUNTIME_DIR",
    "XDG_DATA_DIRS",
    "DBUS_SESSION_BUS_ADDRESS",
    "DCONF_PROFILE",
    "GSETTINGS_BACKEND",
    "GSETTINGS_SCHEMA_DIR",
];

/// For whom a program runs, and with what.
#[derive(Clone, Debug)]
pub(super) struct Session {
    pub(super) who: Option<Credentials>,
    pub(super) environment: BTreeMap<OsString, OsString>,
    /// There is a message bus for the user. Without one nobody stores what is set.
    pub(super) has_bus: bool,
}

impl Session {
    /// The session of a declared user, or our own. May look at a directory service.
    pub(super) fn find(user: &Str, group: &Str) -> Result<Session> {
        let who = account::credentials(user, group)?;
        let uid = who.as_ref().map_or(Uid::effective(), |who| Uid::from_raw(who.uid));
        let account = User::from_uid(uid).map_err(|errno| {
            Error::new(format_args!("cannot look up the user with the number {uid}: {}", errno.desc()))
        })?;
        let Some(account) = account else {
            return Err(Error::new(format_args!(
                "there is no account with the number {uid}, so its settings have no place"
            ))
            .with_hint("declare the user before this resource"));
        };
        let mut environment: BTreeMap<OsString, OsString> = BTreeMap::new();
        let mut set = |name: &str, value: OsString| environment.insert(name.into(), value);
        set("PATH", PROGRAMS.into());
        set("LC_ALL", "C.UTF-8".into());
        set("HOME", account.dir.clone().into_os_string());
        set("USER", account.name.clone().into());
        set("LOGNAME", account.name.into());
        let runtime = PathBuf::from(format!("/run/user/{uid}"));
        let bus = runtime.join("bus");
        if runtime.is_dir() {
            set("XDG_RUNTIME_DIR", runtime.into_os_string());
        }
        if bus.metadata().is_ok_and(|found| found.file_type().is_socket()) {
            let mut address = OsString::from("unix:path=");
            address.push(bus);
            set("DBUS_SESSION_BUS_ADDRESS", address);
        }
        if user.is_empty() {
            for (name, value) in OWN.iter().filter_map(|name| Some((*name, own(name)?))) {
                set(name, value);
            }
        }
        let has_bus = environment.contains_key(&OsString::from("DBUS_SESSION_BUS_ADDRESS"));
        Ok(Session { who, environment, has_bus })
    }
}

fn own(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// What has to be watched for the settings of a declared user, as things are now.
pub(super) fn stored_in(user: &Str) -> Vec<Str> {
    let path = |path: &Path| Str::new(path.as_os_str().as_bytes());
    let mut watched = vec![
        Str::from(format!("{ADMINISTRATOR}db")),
        Str::from(format!("{ADMINISTRATOR}profile")),
        Str::from(format!("{SCHEMAS}gschemas.compiled")),
    ];
    let uid = if user.is_empty() { Ok(Uid::effective().as_raw()) } else { account::user_id(user) };
    let account = uid.ok().and_then(|uid| User::from_uid(Uid::from_raw(uid)).ok().flatten());
    let configuration = match own("XDG_CONFIG_HOME").filter(|_| user.is_empty()) {
        Some(own) => Some(PathBuf::from(own)),
        None => account.map(|account| account.dir.join(".config")),
    };
    let stored = configuration.filter(|directory| directory.is_absolute());
    watched.extend(stored.map(|directory| path(&directory.join("dconf/user"))));
    if !user.is_empty() {
        // The user may come, or move.
        watched.push(PASSWD.into());
    }
    watched
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_that_is_not_there_is_waited_for_and_one_that_is_has_a_place() {
        let watched = stored_in(&"no-such-user".into());
        assert!(watched.contains(&PASSWD.into()));
        assert!(!watched.iter().any(|path| path.ends_with(b"dconf/user")));
        assert!(stored_in(&"root".into()).contains(&"/root/.config/dconf/user".into()));
        assert!(Session::find(&"no-such-user".into(), &Str::EMPTY).is_err());
        let session = Session::find(&"root".into(), &Str::EMPTY).unwrap();
        assert_eq!(session.environment.get(&OsString::from("HOME")), Some(&OsString::from("/root")));
    }
}
