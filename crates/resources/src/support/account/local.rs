//! The accounts in the files of this host, read once for all who ask, for as long as the files do not change.
//!
//! The C library reads a file from its beginning for every question, so that a thousand users cost a million lines.
//!
//! An answer from here is the one that the C library would give: it is only given where the host looks into the files
//! first, and only if the account is there, as the first answer counts. Whatever is not there, and everything on a
//! host whose files are out of the ordinary, is left to the C library.

use std::collections::HashMap;
use std::ffi::CString;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use nix::unistd::{Gid, Group, Uid, User};

use crate::support::shadow::{GROUP, PASSWD};

const ORDER: &str = "/etc/nsswitch.conf";
/// The largest file that is kept.
const LARGEST: u64 = 64 << 20;
/// Two changes within this time may look like one, so what was read so soon after a change is read again.
const SETTLED: Duration = Duration::from_millis(100);

/// All that is known at this moment. Whoever has several questions asks them of one.
pub(crate) struct Accounts(Option<Arc<Local>>);

impl Accounts {
    /// Looks at the files, which are read only if they have changed. Blocks.
    pub(crate) fn now() -> Accounts {
        static READ: Mutex<Option<(Stamp, Option<Arc<Local>>)>> = Mutex::new(None);
        // Held while reading, so that those who come at the same time wait for one reading instead of doing it all.
        let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(stamp) = stamp() else { return Accounts(None) };
        if let Some((seen, local)) = &*read
            && *seen == stamp
        {
            return Accounts(local.clone());
        }
        let local = Local::read().map(Arc::new);
        // A file may have changed between the look at it and the reading; then the next look tells.
        *read = is_settled(&stamp).then(|| (stamp, local.clone()));
        Accounts(local)
    }

    #[cfg(test)]
    pub(crate) fn of(passwd: &str, group: &str) -> Accounts {
        Accounts(Local::of(passwd, group).map(Arc::new))
    }

    pub(crate) fn user_named(&self, name: &str) -> nix::Result<Option<User>> {
        let local = self.local_user_named(name);
        local.map_or_else(|| User::from_name(name), |user| Ok(Some(user.clone())))
    }

    /// An account of the files alone: nobody else is asked.
    pub(crate) fn local_user_named(&self, name: &str) -> Option<&User> {
        let local = self.0.as_ref()?;
        local.users.get(*local.user_names.get(name)?)
    }

    pub(crate) fn user_numbered(&self, uid: u32) -> nix::Result<Option<User>> {
        let local = self.0.as_ref().and_then(|local| local.users.get(*local.user_numbers.get(&uid)?));
        local.map_or_else(|| User::from_uid(Uid::from_raw(uid)), |user| Ok(Some(user.clone())))
    }

    /// A user whose primary group has this number.
    pub(crate) fn user_of_primary_group(&self, gid: u32) -> Option<&User> {
        self.0.as_ref()?.users.iter().find(|user| user.gid.as_raw() == gid)
    }

    /// The number of a group.
    pub(crate) fn group_named(&self, name: &str) -> nix::Result<Option<u32>> {
        let local = self.0.as_ref().and_then(|local| local.group_names.get(name));
        match local {
            Some(gid) => Ok(Some(*gid)),
            None => Ok(Group::from_name(name)?.map(|group| group.gid.as_raw())),
        }
    }

    /// The name of a group.
    pub(crate) fn group_numbered(&self, gid: u32) -> nix::Result<Option<String>> {
        let local = self.0.as_ref().and_then(|local| local.group_numbers.get(&gid));
        match local {
            Some(name) => Ok(Some(name.clone())),
            None => Ok(Group::from_gid(Gid::from_raw(gid))?.map(|group| group.name)),
        }
    }
}

/// What the files say.
#[derive(Debug, Default)]
struct Local {
    users: Vec<User>,
    user_names: HashMap<String, usize>,
    user_numbers: HashMap<u32, usize>,
    group_names: HashMap<String, u32>,
    group_numbers: HashMap<u32, String>,
}

impl Local {
    fn read() -> Option<Local> {
        let order = text(ORDER)?;
        let (users, groups) = (files_come_first(&order, "passwd"), files_come_first(&order, "group"));
        let (passwd, group) = (text(PASSWD)?, text(GROUP)?);
        Local::of(if users { &passwd } else { "" }, if groups { &group } else { "" })
    }

    /// `None` if a line is not what such a line mostly is. The first of several that contradict each other counts.
    fn of(passwd: &str, group: &str) -> Option<Local> {
        let mut local = Local::default();
        for fields in lines(passwd) {
            let [name, password, uid, gid, comment, home, shell] = fields[..] else { return None };
            let user = User {
                name: plain(name)?.to_owned(),
                passwd: CString::new(password).ok()?,
                uid: Uid::from_raw(number(uid)?),
                gid: Gid::from_raw(number(gid)?),
                gecos: CString::new(comment).ok()?,
                dir: PathBuf::from(home),
                shell: PathBuf::from(shell),
            };
            local.user_names.entry(user.name.clone()).or_insert(local.users.len());
            local.user_numbers.entry(user.uid.as_raw()).or_insert(local.users.len());
            local.users.push(user);
        }
        for fields in lines(group) {
            let [name, _, gid, _] = fields[..] else { return None };
            let (name, gid) = (plain(name)?, number(gid)?);
            local.group_names.entry(name.to_owned()).or_insert(gid);
            local.group_numbers.entry(gid).or_insert_with(|| name.to_owned());
        }
        Some(local)
    }
}

fn lines(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines().filter(|line| !line.is_empty()).map(|line| line.split(':').collect())
}

/// A name that means nothing else: no comment, no reference to a directory service, nothing to be left out.
fn plain(name: &str) -> Option<&str> {
    let first = name.chars().next()?;
    let is_odd = first.is_whitespace() || "#+-".contains(first) || name.contains('\0');
    (!is_odd).then_some(name)
}

fn number(text: &str) -> Option<u32> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// Whether the first place where the host looks for accounts of this sort is its files.
fn files_come_first(order: &str, database: &str) -> bool {
    let line = order
        .lines()
        .find_map(|line| line.trim_start().strip_prefix(database)?.trim_start().strip_prefix(':'));
    line.is_some_and(|line| line.split_whitespace().next() == Some("files"))
}

/// Enough of the files to see that one was changed.
type Stamp = [(u64, u64, u64, i64, i64, i64, i64); 3];

fn stamp() -> Option<Stamp> {
    let look = |path: &str| {
        let found = std::fs::metadata(path).ok()?;
        let (modified, changed) = ((found.mtime(), found.mtime_nsec()), (found.ctime(), found.ctime_nsec()));
        Some((found.dev(), found.ino(), found.size(), modified.0, modified.1, changed.0, changed.1))
    };
    Some([look(PASSWD)?, look(GROUP)?, look(ORDER)?])
}

/// Whether all changes are so old that a later one will look different.
fn is_settled(stamp: &Stamp) -> bool {
    let Ok(now) = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH) else { return false };
    stamp.iter().all(|(.., seconds, nanoseconds)| {
        let changed =
            Duration::new(u64::try_from(*seconds).unwrap_or(0), u32::try_from(*nanoseconds).unwrap_or(0));
        now.checked_sub(changed).is_some_and(|age| age > SETTLED)
    })
}

fn text(path: &str) -> Option<String> {
    let mut text = String::new();
    File::open(Path::new(path)).ok()?.take(LARGEST).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_entry_counts_and_nothing_odd_is_interpreted() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\ntoor:x:0:0::/root:/bin/sh\nroot:x:7:7::/:/bin/sh\n\n";
        let local = Local::of(passwd, "root:x:0:\nwheel:x:0:root\nroot:x:9:\n").unwrap();
        assert_eq!(local.users[local.user_names["root"]].uid.as_raw(), 0);
        assert_eq!(local.users[local.user_numbers[&0]].name, "root");
        assert_eq!(local.group_names["root"], 0);
        assert_eq!(local.group_numbers[&0], "root");
        for odd in [
            "+::::::\n",
            "+@team::::::\n",
            "-a:x:1:1::/:/bin/sh\n",
            "# a comment\n",
            " a:x:1:1::/:/bin/sh\n",
            "a:x:1:1::/\n",
            "a:x::1::/:/bin/sh\n",
            "a:x:-1:1::/:/bin/sh\n",
            "a:x:4294967296:1::/:/bin/sh\n",
            ":x:1:1::/:/bin/sh\n",
        ] {
            assert!(Local::of(&format!("{passwd}{odd}"), "").is_none(), "{odd}");
        }
        assert!(Local::of("", "a:x:1\n").is_none());
    }

    #[test]
    fn files_have_to_come_first() {
        let order = "# passwd: sss files\npasswd:         files systemd\n group : sss files\nshadow: files\n";
        assert!(files_come_first(order, "passwd"));
        assert!(!files_come_first(order, "group"));
        assert!(!files_come_first(order, "hosts"));
        assert!(!files_come_first("passwd:\n", "passwd"));
    }

    #[test]
    fn the_answers_are_those_of_the_c_library() {
        let accounts = Accounts::now();
        for name in ["root", "nobody", "no-such-account"] {
            assert_eq!(accounts.user_named(name), User::from_name(name), "{name}");
            let group = Group::from_name(name).unwrap().map(|group| group.gid.as_raw());
            assert_eq!(accounts.group_named(name).unwrap(), group, "{name}");
        }
        for number in [0, 1, 65_534, 3_999_999_999] {
            assert_eq!(accounts.user_numbered(number), User::from_uid(Uid::from_raw(number)), "{number}");
            let group = Group::from_gid(Gid::from_raw(number)).unwrap().map(|group| group.name);
            assert_eq!(accounts.group_numbered(number).unwrap(), group, "{number}");
        }
    }
}
