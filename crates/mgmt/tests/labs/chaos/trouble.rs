//! The troubles: each breaks part of the site and hinders its repair for a while.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rustix::fs::FlockOperation;
use rustix::process::{Pid, Signal, kill_process};

use crate::chaos::site::{
    self, ACCOUNTS, DIRECTORIES, DOWNLOADED, FILES, PACKAGE, SERVICES, VOLUME, attempt, command,
    directory_path, file_path, succeeds,
};
use mgmt_test_support::numbers::Numbers;
use mgmt_test_support::program::wait_until_stopped;

/// The time within which the agent closes a file that it has open for writing.
const REMOUNT_LIMIT: Duration = Duration::from_secs(60);

/// What can go wrong.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Trouble {
    /// Files and directories are edited, truncated, removed and get other modes.
    Edits,
    /// A parent directory is renamed away, and back.
    MovedParent,
    /// The volume has no space left.
    FullVolume,
    /// The volume has no inodes left.
    NoInodes,
    /// The volume is read-only.
    ReadOnlyVolume,
    /// A broken file cannot be changed.
    ImmutableFile,
    /// Services die, are stopped and disabled.
    DeadServices,
    /// The message bus restarts.
    RestartedBus,
    /// The message bus is away, and services stop meanwhile.
    BusAway,
    /// A name does not resolve, and what is downloaded from it is gone.
    UnresolvableName,
    /// A package is gone, and the package database is locked.
    LockedPackages,
    /// Accounts and groups are removed.
    RemovedAccounts,
    /// Lines, host entries, keys and kernel parameters are lost.
    LostLines,
}

pub(crate) const ALL: [Trouble; 13] = [
    Trouble::Edits,
    Trouble::MovedParent,
    Trouble::FullVolume,
    Trouble::NoInodes,
    Trouble::ReadOnlyVolume,
    Trouble::ImmutableFile,
    Trouble::DeadServices,
    Trouble::RestartedBus,
    Trouble::BusAway,
    Trouble::UnresolvableName,
    Trouble::LockedPackages,
    Trouble::RemovedAccounts,
    Trouble::LostLines,
];

impl Trouble {
    /// Breaks something, hinders its repair for `duration`, and takes the hindrance away.
    pub(crate) fn strike(self, agent: &Agent, numbers: &mut Numbers, duration: Duration) {
        let wait = || std::thread::sleep(duration);
        match self {
            Trouble::Edits => edit_files(numbers, 20),
            Trouble::MovedParent => {
                let parent = directory_path(numbers.below(DIRECTORIES));
                let away = Path::new(VOLUME).join("away");
                attempt("mv", &["-T", text(&parent), text(&away)]);
                wait();
                // mgmt may have made the directory anew; then the moved one is not needed.
                attempt("sh", &["-c", "mv -T -n \"$0\" \"$1\"; rm -rf \"$0\"", text(&away), text(&parent)]);
            }
            Trouble::FullVolume => {
                agent.pause();
                edit_files(numbers, 10);
                let filler = Path::new(VOLUME).join("filler");
                attempt("sh", &["-c", "dd if=/dev/zero of=\"$0\" bs=64k 2>/dev/null", text(&filler)]);
                agent.resume();
                wait();
                // The volume may have had no inode for it.
                let _ = fs::remove_file(filler);
            }
            Trouble::NoInodes => {
                agent.pause();
                edit_files(numbers, 10);
                let fill = "mkdir \"$0\"; n=0; while : >\"$0/$n\"; do n=$((n+1)); done 2>/dev/null";
                let filler = Path::new(VOLUME).join("inodes");
                attempt("sh", &["-c", fill, text(&filler)]);
                agent.resume();
                wait();
                attempt("rm", &["-rf", text(&filler)]);
            }
            Trouble::ReadOnlyVolume => {
                agent.pause();
                edit_files(numbers, 10);
                // The volume is busy while the agent has a file open for writing.
                let began = std::time::Instant::now();
                while !succeeds("mount", &["-o", "remount,ro", VOLUME]) {
                    assert!(began.elapsed() < REMOUNT_LIMIT, "the volume stays busy");
                    agent.resume();
                    std::thread::sleep(Duration::from_millis(10));
                    agent.pause();
                }
                agent.resume();
                wait();
                command("mount", &["-o", "remount,rw", VOLUME]);
            }
            Trouble::ImmutableFile => {
                agent.pause();
                let file = file_path(numbers.below(DIRECTORIES), numbers.below(FILES));
                // The directory may have gone by an earlier trouble.
                fs::create_dir_all(file.parent().unwrap()).unwrap();
                fs::write(&file, "immutable\n").unwrap();
                command("chattr", &["+i", text(&file)]);
                agent.resume();
                wait();
                command("chattr", &["-i", text(&file)]);
            }
            Trouble::DeadServices => {
                for action in [["stop"].as_slice(), &["disable"], &["kill", "--signal=KILL"]] {
                    let service = format!("chaos{}.service", numbers.below(SERVICES));
                    attempt("systemctl", &[action, &[&service]].concat());
                }
                attempt("systemctl", &["stop", "chaos-timer0.timer"]);
            }
            Trouble::RestartedBus => {
                // More restarts than systemd allows are the test's doing, not a trouble of its own.
                attempt("systemctl", &["reset-failed", "dbus.service", "dbus.socket"]);
                attempt("systemctl", &["kill", "--signal=KILL", "dbus.service"]);
                attempt("systemctl", &["start", "dbus.service"]);
                attempt("systemctl", &["stop", &format!("chaos{}.service", numbers.below(SERVICES))]);
            }
            Trouble::BusAway => {
                attempt("systemctl", &["reset-failed", "dbus.service", "dbus.socket"]);
                attempt("systemctl", &["stop", "dbus.socket", "dbus.service"]);
                attempt("systemctl", &["stop", &format!("chaos{}.service", numbers.below(SERVICES))]);
                wait();
                // Longer than a watch may count as one without a bus, so that the service is known to be unknown.
                std::thread::sleep(Duration::from_secs(6));
                attempt("systemctl", &["start", "dbus.socket", "dbus.service"]);
            }
            Trouble::UnresolvableName => {
                site::remove_server_name();
                let _ = fs::remove_file(DOWNLOADED);
                wait();
                site::add_server_name();
            }
            Trouble::LockedPackages => {
                // Waits until a package operation of the agent is over: it must not be interrupted halfway.
                let lock = fs::File::create("/var/lib/dpkg/lock-frontend").unwrap();
                rustix::fs::fcntl_lock(&lock, FlockOperation::LockExclusive).unwrap();
                agent.pause();
                attempt("env", &["DPKG_FRONTEND_LOCKED=1", "dpkg", "--force-all", "--remove", PACKAGE]);
                let _ = fs::remove_file("/chaos-made-by-tool");
                agent.resume();
                wait();
            }
            Trouble::RemovedAccounts => {
                let number = numbers.below(ACCOUNTS);
                attempt("userdel", &[&format!("chaosuser{number}")]);
                attempt("groupdel", &[&format!("chaosgroup{number}")]);
            }
            Trouble::LostLines => {
                let _ = fs::remove_file(format!("{VOLUME}/lines"));
                let _ = fs::remove_file("/etc/ssh/ssh_known_hosts");
                let _ = fs::remove_file("/home/chaosuser0.keys");
                let _ = fs::write("/etc/chaos.json", "{\"log\": {}}\n");
                let _ = fs::write("/proc/sys/net/ipv4/ip_forward", "0");
                let _ = fs::write("/etc/hostname", "somebody-else\n");
                let _ = fs::remove_file(format!("/chaos-markers/m{}", numbers.below(8)));
            }
        }
    }
}

/// Breaks files in a few ways.
fn edit_files(numbers: &mut Numbers, count: usize) {
    for _ in 0..count {
        let path = file_path(numbers.below(DIRECTORIES), numbers.below(FILES));
        // mgmt repairs at the same time, so each of these may fail.
        let _ = match numbers.below(4) {
            0 => fs::write(&path, "edited\n"),
            1 => fs::remove_file(&path),
            2 => fs::write(&path, ""),
            _ => rustix::fs::chmod(&path, rustix::fs::Mode::from_raw_mode(0o666)).map_err(Into::into),
        };
    }
    if numbers.below(3) == 0 {
        let _ = fs::remove_dir_all(directory_path(numbers.below(DIRECTORIES)));
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The running agent, which can be paused so that several things break at once.
pub(crate) struct Agent {
    process: Pid,
    paused: Arc<AtomicBool>,
    /// The number of pauses so far, so that a sample knows whether one began and ended while it was taken.
    pauses: Arc<AtomicU64>,
}

impl Agent {
    pub(crate) fn new(process: Pid) -> Agent {
        Agent { process, paused: Arc::default(), pauses: Arc::default() }
    }

    /// Whether it is paused now.
    pub(crate) fn paused(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.paused)
    }

    /// How often it has been paused.
    pub(crate) fn pauses(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.pauses)
    }

    fn pause(&self) {
        self.pauses.fetch_add(1, Ordering::AcqRel);
        self.paused.store(true, Ordering::Release);
        kill_process(self.process, Signal::STOP).unwrap();
        wait_until_stopped(self.process);
    }

    fn resume(&self) {
        kill_process(self.process, Signal::CONT).unwrap();
        self.paused.store(false, Ordering::Release);
    }
}
