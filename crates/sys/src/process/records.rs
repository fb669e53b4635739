//! Records of running commands, so that a command does not outlive a killed agent.
//!
//! A process that is killed cannot end its children, and the kernel can be asked to do that only for the child itself, not
//! for what the child started. So the process group of a command is written down below the state directory as soon as it
//! exists, and the record goes when the group has ended or the command has left it behind on purpose. Whoever starts with the
//! same state directory next [ends what is left](end_left_behind).
//!
//! A number of a process can be used again, so a record has the moment when the leader was started, its session and the boot.
//! Members are signalled through a handle that was opened before they were looked at. Records are not flushed to the disk: a
//! power failure ends the commands, too.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open, pidfd_send_signal};

use super::Signal;

/// The longest name in a record. Longer ones are cut.
const MAX_NAME_LEN: usize = 200;
/// How often a group is looked for again after it was killed: it may have forked meanwhile.
const KILL_ROUNDS: usize = 20;

static DIRECTORY: Mutex<Option<PathBuf>> = Mutex::new(None);

/// What a record says of a command besides its process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// Who runs it, for messages.
    pub name: String,
    /// What asks it to stop.
    pub signal: Signal,
    /// It belongs to a choice of the cluster: the watchdog ends it when this process is gone or the deadline of the choice has passed.
    pub choice: Option<u64>,
}

/// A command that was still running at the next start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftBehind {
    /// Who ran it.
    pub name: String,
    /// Its process group.
    pub group: i32,
    /// It did not end when it was asked to, and was killed.
    pub killed: bool,
}

/// Commands that say so are recorded in this directory from now on.
pub fn keep_records_in(directory: PathBuf) {
    *DIRECTORY.lock().unwrap_or_else(PoisonError::into_inner) = Some(directory);
}

pub(super) fn directory() -> Option<PathBuf> {
    DIRECTORY.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// A record that is there. Dropping it removes it.
#[derive(Debug)]
pub(super) struct Record {
    path: PathBuf,
}

impl Record {
    /// Records the group of a leader; nothing if records are not kept.
    pub(super) fn write(leader: Pid, recorded: &Recorded) -> io::Result<Option<Record>> {
        let Some(directory) = directory() else { return Ok(None) };
        let number = leader.as_raw_nonzero().get();
        let stat = Stat::of(number).ok_or_else(|| io::Error::other("/proc does not have the command"))?;
        let name: String = recorded.name.chars().filter(|c| !c.is_control()).take(MAX_NAME_LEN).collect();
        let text = format!(
            "{} {number} {} {} {} {name}\n",
            boot_id()?,
            stat.started,
            stat.session,
            recorded.signal.as_raw()
        );
        let path = directory.join(match recorded.choice {
            Some(choice) => format!("{number}-{}-{choice}", std::process::id()),
            None => number.to_string(),
        });
        std::fs::write(&path, text)?;
        Ok(Some(Record { path }))
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        // One that stays does no harm: what it names is looked at before it is ended.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Ends the commands that a directory has records of, all at once: each gets its own signal, and SIGKILL once `grace` has
/// passed. Blocks until they have ended.
pub fn end_left_behind(directory: &Path, grace: Duration) -> io::Result<Vec<LeftBehind>> {
    end_recorded(directory, grace, |_| true)
}

/// The same for some of the records, by their names.
pub(super) fn end_recorded(
    directory: &Path,
    grace: Duration,
    wanted: impl Fn(&str) -> bool,
) -> io::Result<Vec<LeftBehind>> {
    let boot = boot_id()?;
    let mut groups = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        if !wanted(&entry.file_name().to_string_lossy()) {
            continue;
        }
        let path = entry.path();
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        match Group::parse(&text).filter(|group| group.boot == boot && !group.members().is_empty()) {
            Some(group) => groups.push((group, path)),
            None => remove(&path)?,
        }
    }
    for (group, _) in &groups {
        group.signal(group.signal);
    }
    let until = Instant::now() + grace;
    let mut left = Vec::new();
    for (group, path) in groups {
        let ended = group.ends_until(until);
        let mut rounds = 0..KILL_ROUNDS;
        while !ended && rounds.next().is_some() && group.signal(rustix::process::Signal::KILL) {
            group.ends_until(Instant::now() + Duration::from_millis(100));
        }
        // Only now: whoever is killed meanwhile leaves the rest to the next start.
        remove(&path)?;
        left.push(LeftBehind { name: group.name, group: group.leader, killed: !ended });
    }
    Ok(left)
}

/// Removes a record, unless somebody else has done so.
fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// What a record says.
struct Group {
    boot: String,
    leader: i32,
    started: u64,
    session: i32,
    signal: rustix::process::Signal,
    name: String,
}

impl Group {
    fn parse(text: &str) -> Option<Group> {
        let mut words = text.trim_end().splitn(6, ' ');
        let boot = words.next()?.to_owned();
        let leader = words.next()?.parse().ok()?;
        let started = words.next()?.parse().ok()?;
        let session = words.next()?.parse().ok()?;
        let signal = Signal::from_raw(words.next()?.parse().ok()?)?.rustix();
        Some(Group {
            boot,
            leader,
            started,
            session,
            signal,
            name: words.next().unwrap_or_default().to_owned(),
        })
    }

    /// A process belongs to the group, and not to another one that has its number by now.
    fn has(&self, stat: &Stat) -> bool {
        stat.group == self.leader
            && stat.session == self.session
            && stat.started >= self.started
            && !matches!(stat.state, 'Z' | 'X')
    }

    /// Handles of all members. None if the leader's number belongs to another process by now.
    fn members(&self) -> Vec<OwnedFd> {
        if Stat::of(self.leader).is_some_and(|stat| stat.started != self.started) {
            return Vec::new();
        }
        let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
        let numbers = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let member = |number: i32| {
            // Looked at twice, so that no handle is opened for nothing; the second look is the one that counts.
            Stat::of(number).filter(|stat| self.has(stat))?;
            let handle = pidfd_open(Pid::from_raw(number)?, PidfdFlags::empty()).ok()?;
            Stat::of(number).filter(|stat| self.has(stat)).map(|_| handle)
        };
        numbers.filter_map(member).collect()
    }

    /// Signals all members, and tells whether there were any.
    fn signal(&self, signal: rustix::process::Signal) -> bool {
        let members = self.members();
        for member in &members {
            // One that has ended meanwhile needs no signal. One that is stopped has to go on to end.
            let _ = pidfd_send_signal(member, signal);
            let _ = pidfd_send_signal(member, rustix::process::Signal::CONT);
        }
        !members.is_empty()
    }

    /// Waits until no member is left, and tells whether that is so.
    fn ends_until(&self, until: Instant) -> bool {
        loop {
            let members = self.members();
            let Some(member) = members.first() else { return true };
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let limit =
                Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
            // Interrupted or not, the members are looked at again.
            let _ = poll(&mut [PollFd::new(member, PollFlags::IN)], Some(&limit));
        }
    }
}

/// What the kernel says of a process.
struct Stat {
    state: char,
    group: i32,
    session: i32,
    started: u64,
}

impl Stat {
    fn of(number: i32) -> Option<Stat> {
        let text = std::fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
        // The name before it may have anything in it, brackets too.
        let mut fields = text[text.rfind(')')? + 1..].split_ascii_whitespace();
        let state = fields.next()?.chars().next()?;
        let group = fields.nth(1)?.parse().ok()?;
        let session = fields.next()?.parse().ok()?;
        let started = fields.nth(15)?.parse().ok()?;
        Some(Stat { state, group, session, started })
    }
}

fn boot_id() -> io::Result<String> {
    Ok(std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt as _;

    use super::*;

    fn started(script: &str) -> (std::process::Child, Stat) {
        let mut command = std::process::Command::new("/bin/sh");
        let child = command
            .args(["-c", script])
            .process_group(0)
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let stat = Stat::of(child.id().cast_signed()).unwrap();
        (child, stat)
    }

    fn record(directory: &Path, child: &std::process::Child, stat: &Stat, boot: &str) {
        let text = format!("{boot} {} {} {} 15 exec[a b]\n", child.id(), stat.started, stat.session);
        std::fs::write(directory.join(child.id().to_string()), text).unwrap();
    }

    #[test]
    fn what_is_left_of_a_command_is_ended_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let boot = boot_id().unwrap();
        let ready = directory.path().join("ready");
        let script = format!("trap '' TERM; sleep 1000 & echo > {}; sleep 1000", ready.display());
        let (mut stubborn, stat) = started(&script);
        let records = directory.path().join("records");
        std::fs::create_dir(&records).unwrap();
        record(&records, &stubborn, &stat, &boot);
        let (mut other_boot, stat) = started("exec sleep 1000");
        record(&records, &other_boot, &stat, "another");
        let (mut reused, stat) = started("exec sleep 1000");
        record(&records, &reused, &Stat { started: stat.started - 1, ..stat }, &boot);
        std::fs::write(records.join("1"), "nonsense").unwrap();
        let begun = Instant::now();
        while !ready.exists() {
            assert!(begun.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(10));
        }
        let group = stubborn.id().cast_signed();
        let path = records.join(stubborn.id().to_string());
        let left = std::thread::scope(|scope| {
            let ending = scope.spawn(|| end_left_behind(&records, Duration::from_secs(2)).unwrap());
            std::thread::sleep(Duration::from_millis(500));
            assert!(path.exists(), "a second kill would lose the record of a command that runs");
            ending.join().unwrap()
        });
        assert_eq!(left, [LeftBehind { name: "exec[a b]".into(), group, killed: true }]);
        assert!(!stubborn.wait().unwrap().success());
        assert!(std::fs::read_dir(&records).unwrap().next().is_none());
        assert!(end_left_behind(&records, Duration::ZERO).unwrap().is_empty());
        for child in [&mut other_boot, &mut reused] {
            assert_eq!(child.try_wait().unwrap(), None, "it is somebody else's");
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}
