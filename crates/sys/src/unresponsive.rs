//! Mounts that another process or host serves, and whether it answers.
//!
//! A path on such a mount blocks whoever opens it while its server is dead, and nothing can interrupt that. So before a thread
//! that others need touches a path, it asks here whether the server of the mount answers. On a host without such mounts that
//! is one poll of the mount table. Links on the way are followed by reading them, and none is read on a mount that does not
//! answer.
//!
//! A server can die between the question and the call that follows: the question makes a hang unlikely, not impossible.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::bounded::{Asked, Pool, Question};
use crate::mount_table::unescape;

/// How long the first caller waits for the server of a mount.
const SERVER_PATIENCE: Duration = Duration::from_millis(250);
/// A question without an answer counts as timed out after this time; it stays open.
const SERVER_DEADLINE: Duration = Duration::from_secs(5);
/// A server that has answered is not asked again for this long.
const ANSWER_LIFETIME: Duration = Duration::from_secs(1);
/// As many links as the kernel follows in one path.
const MAX_LINKS: usize = 40;
/// Types of file systems that a server answers for. Those of FUSE all begin with `fuse`.
const SERVED_TYPES: [&[u8]; 14] = [
    b"nfs",
    b"nfs4",
    b"cifs",
    b"smb3",
    b"smbfs",
    b"9p",
    b"ceph",
    b"afs",
    b"coda",
    b"ncpfs",
    b"lustre",
    b"ocfs2",
    b"gfs2",
    b"virtiofs",
];

static TABLE: LazyLock<Mutex<Table>> = LazyLock::new(Mutex::default);
static POOL: LazyLock<Pool<Server>> = LazyLock::new(|| Pool::new(SERVER_DEADLINE, |_| {}));

/// The mount point that a path leads to, if its server does not answer at the moment.
pub fn unresponsive_mount(path: &[u8]) -> Option<Vec<u8>> {
    let mount = served_mount(path)?;
    if lock().has_answered(&mount) {
        return None;
    }
    match POOL.ask(mount.clone(), Server(mount.clone()), SERVER_PATIENCE) {
        Asked::Answer(()) => {
            // An answer that came late is kept by the pool; the next question is to be put afresh.
            POOL.forget(&mount);
            lock().answered.insert(mount, Instant::now());
            None
        }
        Asked::Pending | Asked::TimedOut => Some(mount),
    }
}

/// Whether this host has any mount that another process or host serves. If not, there is nothing to ask.
pub fn has_served_mounts() -> bool {
    lock().has_served()
}

fn lock() -> std::sync::MutexGuard<'static, Table> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The served mount that a path is on or leads through, the first one on the way.
fn served_mount(path: &[u8]) -> Option<Vec<u8>> {
    if !has_served_mounts() {
        return None;
    }
    let mut rest: Vec<Vec<u8>> = components(path);
    let mut physical: Vec<u8> = Vec::new();
    let mut links = 0;
    while let Some(name) = rest.pop() {
        if name == b".." {
            physical.truncate(physical.iter().rposition(|&byte| byte == b'/').unwrap_or(0));
            continue;
        }
        let parent = physical.len();
        physical.push(b'/');
        physical.extend_from_slice(&name);
        if lock().served.contains(&physical) {
            return Some(physical);
        }
        let place = Path::new(std::ffi::OsStr::from_bytes(&physical));
        match rustix::fs::readlink(place, Vec::new()) {
            Ok(link) if links < MAX_LINKS => {
                links += 1;
                physical.truncate(if link.as_bytes().starts_with(b"/") { 0 } else { parent });
                rest.extend(components(link.as_bytes()));
            }
            // A plain file or directory.
            Err(rustix::io::Errno::INVAL) => {}
            // Nothing is there, so nothing below is, either.
            Ok(_) | Err(_) => return None,
        }
    }
    None
}

/// The names in a path, the last one first.
fn components(path: &[u8]) -> Vec<Vec<u8>> {
    let names = path.split(|&byte| byte == b'/').rev();
    names.filter(|name| !name.is_empty() && *name != b".").map(<[u8]>::to_vec).collect()
}

/// The question whether the server of a mount answers.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Server(Vec<u8>);

impl Question for Server {
    type Topic = Vec<u8>;
    type Answer = ();

    fn answer(&self) {
        let place = Path::new(std::ffi::OsStr::from_bytes(&self.0));
        // An error is an answer. The attributes may come from a cache, the figures of the file system never do.
        let _ = rustix::fs::stat(place);
        let _ = rustix::fs::statfs(place);
    }

    fn path(&self) -> Option<&[u8]> {
        Some(&self.0)
    }
}

/// The served mounts, as of the last change of the mount table.
#[derive(Default)]
struct Table {
    file: Option<File>,
    served: Vec<Vec<u8>>,
    /// When a server answered last.
    answered: HashMap<Vec<u8>, Instant>,
}

impl Table {
    /// Whether there is any served mount. Reads the mount table when it has changed.
    fn has_served(&mut self) -> bool {
        let is_new = self.file.is_none();
        if is_new {
            self.file = File::open("/proc/self/mountinfo").ok();
        }
        // Without the table, nothing is known and nothing is asked.
        let Some(file) = &mut self.file else { return false };
        let mut ready = [PollFd::new(file, PollFlags::PRI)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let has_changed = poll(&mut ready, Some(&now)).is_ok_and(|count| count > 0);
        if is_new || has_changed {
            let mut text = Vec::new();
            if file.rewind().is_ok() && file.read_to_end(&mut text).is_ok() {
                self.served = text.split(|&byte| byte == b'\n').filter_map(served_by_line).collect();
                self.answered.clear();
            }
        }
        !self.served.is_empty()
    }

    fn has_answered(&self, mount: &[u8]) -> bool {
        self.answered.get(mount).is_some_and(|at| at.elapsed() < ANSWER_LIFETIME)
    }
}

/// The mount point of `36 35 0:50 / /mnt/point rw,noatime shared:1 - nfs4 server:/x rw`, if a server answers for its type.
fn served_by_line(line: &[u8]) -> Option<Vec<u8>> {
    let mut words = line.split(|&byte| byte == b' ');
    let point = words.nth(4)?;
    let kind = words.skip_while(|word| *word != b"-").nth(1)?;
    ((kind.starts_with(b"fuse") && kind != b"fusectl") || SERVED_TYPES.contains(&kind))
        .then(|| unescape(point))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn served_mounts_are_known_by_their_type() {
        let line =
            |kind: &str| format!(r"36 35 0:50 / /mnt/a\040b rw shared:1 - {kind} server rw").into_bytes();
        for kind in ["nfs4", "fuse", "fuse.sshfs", "fuseblk", "cifs"] {
            assert_eq!(served_by_line(&line(kind)), Some(b"/mnt/a b".to_vec()), "{kind}");
        }
        for kind in ["ext4", "tmpfs", "overlay", "proc", "fusectl"] {
            assert_eq!(served_by_line(&line(kind)), None, "{kind}");
        }
        assert_eq!(served_by_line(b""), None);
    }

    #[test]
    fn a_path_on_a_local_file_system_is_not_asked_about() {
        assert_eq!(unresponsive_mount(b"/"), None);
        assert_eq!(unresponsive_mount(b"/proc/self/status"), None);
        assert_eq!(unresponsive_mount(b"/does/not/exist"), None);
    }
}
