//! The race lab: somebody exchanges what lies at managed paths as fast as a processor can, while the whole program keeps
//! them right. Whatever becomes of the paths meanwhile, the victim is never touched.
//!
//! Only strikes that hit count: a path that was exchanged, a file that was tried. A million in all, in a minute at most, or
//! `MGMT_RACE_FLIPS` for each attacker (`cargo xtask races`: a million each). How many there were, and how often the
//! program put something right meanwhile, is said at the end. Which path is attacked next, and how, follows from `MGMT_SEED`.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::process::Signal;

use crate::security::resident;
use mgmt_test_support::numbers::{Numbers, seed};
use mgmt_test_support::program::{EVENT_TIMEOUT, eventually, mgmt};

/// Paths under attack at the same time: while one of them is refused, another is being written.
const PATHS: usize = 8;
/// How long a run is attacked before another one takes its place.
const LAP: Duration = Duration::from_millis(600);
/// The account that the attackers have.
const STRANGER: u32 = 65534;
/// What is not to be touched, and what is declared for the paths beside it.
const PRECIOUS: &str = "precious";
const DECLARED: &str = "declared";

/// How often the attackers strike, and how long at most.
fn flips() -> (u64, Duration) {
    match std::env::var("MGMT_RACE_FLIPS").ok().and_then(|flips| flips.parse().ok()) {
        Some(flips) => (flips, Duration::MAX),
        // On a machine that is busy, fewer have to do.
        None => (200_000, Duration::from_secs(8)),
    }
}

/// A program that goes with the test.
struct Attacked(Child);

impl Drop for Attacked {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A place to be attacked in, without a disk, which would only slow the attackers down.
struct TestEnv {
    home: tempfile::TempDir,
}

impl TestEnv {
    fn new() -> TestEnv {
        let home = tempfile::tempdir_in("/dev/shm").unwrap();
        std::fs::set_permissions(home.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        TestEnv { home }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// A directory where the stranger can do what they like.
    fn open_directory(&self, name: &str) -> PathBuf {
        let directory = self.at(name);
        std::fs::create_dir(&directory).unwrap();
        std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(0o1777)).unwrap();
        directory
    }

    /// Keeps a graph right while `strike` is called again and again; it says how often it has hit. `is_right` says whether
    /// the program has had its turn: an attack on somebody who sleeps proves nothing.
    fn attack(
        &self,
        told: &str,
        lap: Duration,
        resources: &str,
        strike: impl Fn(u64, &mut Numbers) -> u64,
        is_right: impl Fn() -> bool,
    ) {
        let (flips, time) = flips();
        let graph = self.at("graph.yaml");
        std::fs::write(&graph, format!("graph: attacked\nresources:\n{resources}")).unwrap();
        let prefix = self.at("prefix");
        let arguments = ["run", "--prefix", prefix.to_str().unwrap(), "yaml", graph.to_str().unwrap()];
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let defence = scope.spawn(|| defend(&arguments, lap, &over));
            // However this ends, the other side ends as well.
            let _ends = Ends(&over);
            eventually("the program is at work", &is_right);
            let mut numbers = Numbers::new(seed());
            let (mut struck, mut hit, mut turns) = (0, 0, 0);
            let began = Instant::now();
            // Goes on beyond its number, if need be, until the program was seen at work in between.
            while (hit < flips && began.elapsed() < time) || (turns < 20 && began.elapsed() < EVENT_TIMEOUT) {
                hit += strike(struck, &mut numbers);
                struck += 1;
                if struck.is_multiple_of(128) {
                    // A moment of calm: whoever is never let in on the race cannot lose it.
                    std::thread::sleep(Duration::from_micros(100));
                    turns += u64::from(is_right());
                    assert!(!defence.is_finished(), "the program has ended");
                }
            }
            let took = began.elapsed();
            over.store(true, Ordering::Relaxed);
            let laps = defence.join().unwrap();
            let changes = self.changes();
            eprintln!(
                "{told}: {hit} hits with {struck} strikes, in {:.1} s; seen right {turns} times, at least {changes} changes in {laps} runs",
                took.as_secs_f32()
            );
            assert!(turns >= 20, "seen at work {turns} times in {struck} strikes: there was no race");
            assert!(changes >= 20, "the program has changed {changes} things: there was no race");
        });
    }
}

impl TestEnv {
    /// How much the program has changed, as far as it remembers.
    fn changes(&self) -> usize {
        let records = std::fs::read_dir(self.at("prefix/history")).unwrap();
        let lines = records.map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap_or_default());
        lines.map(|text| text.lines().filter(|line| line.contains("\"outcome\":\"changed\"")).count()).sum()
    }
}

struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs the program, again and again: a resource that is undone all the time is soon left alone for a while, and a
/// new run knows nothing of that.
fn defend(arguments: &[&str], lap: Duration, over: &AtomicBool) -> u64 {
    let mut laps = 0;
    while !over.load(Ordering::Relaxed) {
        laps += 1;
        // What it has to say of the attack is of no interest, and would be much.
        let child = mgmt(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let mut child = Attacked(child);
        let began = Instant::now();
        while began.elapsed() < lap && !over.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(20));
            assert!(child.0.try_wait().unwrap().is_none(), "the program has ended");
        }
        let resident = resident(child.0.id());
        assert!(resident < 256 << 20, "a flood of events filled the memory: {resident} bytes");
        rustix::process::kill_process(rustix::process::Pid::from_child(&child.0), Signal::TERM).unwrap();
        let until = Instant::now() + EVENT_TIMEOUT;
        while child.0.try_wait().unwrap().is_none() {
            assert!(Instant::now() < until, "the program does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    laps
}

/// Things that are exchanged with what lies at managed paths: one system call for each strike. What comes back is the
/// program's, so that they are made anew now and then.
struct Decoys {
    places: Vec<PathBuf>,
}

impl Decoys {
    fn new(place: &TestEnv, make: impl Fn(&Path, usize)) -> Decoys {
        let directory = place.at("decoys");
        std::fs::create_dir(&directory).unwrap();
        let decoys = Decoys { places: numbered(&directory, "decoy") };
        for number in 0..PATHS {
            make(&decoys.places[number], number);
        }
        decoys
    }

    /// How often it has hit: once, or not at all.
    fn strike(
        &self,
        targets: &[PathBuf],
        count: u64,
        numbers: &mut Numbers,
        make: impl Fn(&Path, usize),
    ) -> u64 {
        let number = numbers.below(PATHS);
        let decoy = &self.places[number];
        if count.is_multiple_of(16) {
            let _ = std::fs::remove_file(decoy);
            make(decoy, number);
        }
        let target = &targets[numbers.below(PATHS)];
        if renameat_with(CWD, decoy, CWD, target, RenameFlags::EXCHANGE).is_ok() {
            return 1;
        }
        // One of them was not there.
        let hit = std::fs::rename(decoy, target).is_ok();
        make(decoy, number);
        u64::from(hit)
    }
}

/// A file that only root should ever write, read or own.
struct Victim {
    path: PathBuf,
    inode: u64,
    /// When its content was written. Whoever writes and restores it shows.
    written: (i64, i64),
}

impl Victim {
    fn new(path: PathBuf) -> Victim {
        std::fs::write(&path, PRECIOUS).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let found = path.metadata().unwrap();
        Victim { path, inode: found.ino(), written: (found.mtime(), found.mtime_nsec()) }
    }

    #[track_caller]
    fn is_untouched(&self) {
        let now = self.path.metadata().unwrap();
        assert_eq!(std::fs::read_to_string(&self.path).unwrap(), PRECIOUS);
        assert_eq!((now.ino(), now.uid(), now.gid(), now.mode() & 0o7777), (self.inode, 0, 0, 0o600));
        assert_eq!((now.mtime(), now.mtime_nsec()), self.written, "it was written to");
    }
}

fn resource(path: &Path, rest: &str) -> String {
    // Who refuses tries again, and at once.
    let meta = "    meta:\n      retry: -1\n      delay: 0\n";
    format!("  - name: {}\n    state: exists\n{rest}{meta}", path.display())
}

fn resources(paths: &[PathBuf], rest: &str) -> String {
    let all: String = paths.iter().map(|path| resource(path, rest)).collect();
    format!("  file:\n{all}")
}

fn numbered(directory: &Path, name: &str) -> Vec<PathBuf> {
    (0..PATHS).map(|number| directory.join(format!("{name}{number}"))).collect()
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn holds_declared(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|found| found.is_file())
        && std::fs::read_to_string(path).is_ok_and(|text| text == DECLARED)
}

#[test]
fn threat_01_symlink_swapped_in_the_last_component() {
    let place = TestEnv::new();
    let victim = Victim::new(place.at("victim"));
    let directory = place.open_directory("open");
    let targets = numbered(&directory, "target");
    let rest = format!("    content: {DECLARED}\n    mode: \"0666\"\n    owner: \"7\"\n");
    let make = |decoy: &Path, number: usize| {
        if number.is_multiple_of(2) {
            let _ = symlink(&victim.path, decoy);
        } else {
            let _ = std::fs::write(decoy, "planted");
        }
        let _ = lchown(decoy, Some(STRANGER), Some(STRANGER));
    };
    let decoys = Decoys::new(&place, make);
    let strike = |count: u64, numbers: &mut Numbers| decoys.strike(&targets, count, numbers, make);
    place.attack("links in the last component", LAP, &resources(&targets, &rest), strike, || {
        targets.iter().any(|path| holds_declared(path))
    });
    victim.is_untouched();
    assert_eq!(names(&directory).iter().filter(|name| name.starts_with(".mgmt-")).count(), 0);
}

#[test]
fn threat_02_symlink_or_rename_of_a_parent() {
    let place = TestEnv::new();
    let vault = place.at("vault");
    std::fs::create_dir(&vault).unwrap();
    let victim = Victim::new(vault.join("file"));
    let directory = place.open_directory("open");
    let parents = numbered(&directory, "parent");
    let others = numbered(&directory, "other");
    for (parent, other) in parents.iter().zip(&others) {
        std::fs::create_dir(parent).unwrap();
        chown(parent, Some(STRANGER), Some(STRANGER)).unwrap();
        symlink(&vault, other).unwrap();
        lchown(other, Some(STRANGER), Some(STRANGER)).unwrap();
    }
    let files: Vec<PathBuf> = parents.iter().map(|parent| parent.join("file")).collect();
    let rest = format!("    content: {DECLARED}\n    mode: \"0666\"\n    owner: \"7\"\n");
    let is_real = |way: &PathBuf| std::fs::symlink_metadata(way).is_ok_and(|found| found.is_dir());
    let strike = |count: u64, numbers: &mut Numbers| {
        let (parent, other) = (&parents[numbers.below(PATHS)], &others[numbers.below(PATHS)]);
        let exchanged = renameat_with(CWD, parent, CWD, other, RenameFlags::EXCHANGE);
        if count.is_multiple_of(64) && is_real(parent) {
            let _ = std::fs::remove_file(parent.join("file"));
        }
        u64::from(exchanged.is_ok())
    };
    let is_right = || {
        let real = parents.iter().filter(|way| is_real(way));
        real.map(|way| way.join("file")).any(|file| holds_declared(&file))
    };
    place.attack("parents", LAP, &resources(&files, &rest), strike, is_right);
    victim.is_untouched();
    assert_eq!(names(&vault), ["file"]);
}

#[test]
fn threat_03_hard_link_to_a_sensitive_file() {
    let place = TestEnv::new();
    let victim = Victim::new(place.at("victim"));
    let directory = place.open_directory("open");
    let targets = numbered(&directory, "target");
    // Half of them only have an owner and a mode, which would reach every name of a file; the others have content.
    let (attributes, contents) = targets.split_at(PATHS / 2);
    let both = "    mode: \"0666\"\n    owner: \"7\"\n";
    let declared = resources(attributes, both)
        + resources(contents, &format!("{both}    content: {DECLARED}\n")).trim_start_matches("  file:\n");
    let make = |decoy: &Path, number: usize| {
        if number.is_multiple_of(2) {
            let _ = std::fs::hard_link(&victim.path, decoy);
        } else {
            let _ = std::fs::write(decoy, "planted");
            let _ = chown(decoy, Some(STRANGER), Some(STRANGER));
        }
    };
    let decoys = Decoys::new(&place, make);
    let strike = |count: u64, numbers: &mut Numbers| decoys.strike(&targets, count, numbers, make);
    let is_right = || {
        let given = |path: &PathBuf| std::fs::symlink_metadata(path).is_ok_and(|found| found.uid() == 7);
        targets.iter().any(given)
    };
    place.attack("hard links", LAP, &declared, strike, is_right);
    victim.is_untouched();
}

#[test]
fn threat_04_change_between_check_and_apply() {
    let place = TestEnv::new();
    let vault = place.at("vault");
    std::fs::create_dir(&vault).unwrap();
    let victim = Victim::new(vault.join("file0"));
    let trees = numbered(&place.open_directory("open"), "tree");
    let asides = numbered(place.home.path(), "aside");
    // What was looked at and found to be a directory to be emptied is a link to the vault when it is emptied.
    let declared: String = trees
        .iter()
        .map(|tree| format!("  - name: {}/\n    state: exists\n    recurse: true\n    purge: true\n    meta:\n      retry: -1\n      delay: 0\n", tree.display()))
        .collect();
    for tree in &trees {
        std::fs::create_dir(tree).unwrap();
    }
    let is_directory = |path: &Path| std::fs::symlink_metadata(path).is_ok_and(|found| found.is_dir());
    let strike = |count: u64, numbers: &mut Numbers| {
        let number = numbers.below(PATHS);
        let (inner, aside) = (trees[number].join("inner"), &asides[number]);
        if renameat_with(CWD, &inner, CWD, aside, RenameFlags::EXCHANGE).is_ok() {
            if count.is_multiple_of(8) && is_directory(aside) {
                let _ = std::fs::write(aside.join("file0"), "surplus");
            }
            return 1;
        }
        // The program has emptied the tree, or this is the beginning. One of the two is a directory, and the other the link.
        if is_directory(aside) {
            let _ = symlink(&vault, &inner);
        } else {
            let _ = symlink(&vault, aside);
            // Not through a link of its own.
            let _ = std::fs::create_dir(&inner).and_then(|()| std::fs::write(inner.join("file0"), "surplus"));
        }
        0
    };
    let is_right = || trees.iter().any(|tree| names(tree).is_empty());
    place.attack("trees", LAP, &format!("  file:\n{declared}"), strike, is_right);
    victim.is_untouched();
    assert_eq!(names(&vault), ["file0"]);
}

#[test]
fn threat_06_secret_readable_for_an_instant() {
    let place = TestEnv::new();
    let directory = place.open_directory("open");
    let targets = numbered(&directory, "target");
    let rest = format!("    content: {DECLARED}\n    mode: \"0600\"\n    owner: \"7\"\n");
    let (reads, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let seen = std::thread::scope(|scope| {
        let reader = scope.spawn(|| read_as_somebody_else(&directory, &reads, &over));
        let ends = Ends(&over);
        let last = std::cell::Cell::new(0);
        let strike = |_: u64, numbers: &mut Numbers| {
            let target = &targets[numbers.below(PATHS)];
            match numbers.below(2) {
                0 => drop(std::fs::remove_file(target)),
                _ => drop(std::fs::write(target, "public")),
            }
            // Calm, for both the program and the reader: each needs a processor as well. What the reader tries is what counts.
            std::thread::sleep(Duration::from_micros(500));
            let now = reads.load(Ordering::Relaxed);
            now - last.replace(now)
        };
        place.attack("another reader", LAP, &resources(&targets, &rest), strike, || {
            targets.iter().any(|path| holds_declared(path))
        });
        std::fs::write(directory.join("open"), "the end is public\n").unwrap();
        let until = reads.load(Ordering::Relaxed) + 1000;
        eventually("the reader goes on", || reader.is_finished() || reads.load(Ordering::Relaxed) > until);
        drop(ends);
        reader.join().unwrap()
    });
    assert!(seen.public > 0, "the other user saw nothing at all");
    assert!(seen.refused > 0, "the other user was never refused, so that there was nothing to hide");
    assert_eq!(seen.secret, 0, "another user has read the secret");
}

/// What another user has read.
#[derive(Debug, Default)]
struct Seen {
    public: u64,
    refused: u64,
    secret: u64,
}

/// Reads whatever has a name in a directory, the temporary ones too, as fast as it can.
fn read_as_somebody_else(directory: &Path, reads: &AtomicU64, over: &AtomicBool) -> Seen {
    use rustix::fs::{Gid, Mode, OFlags, Uid};
    // This thread alone; it ends with what it has become.
    let (user, group) = (Uid::from_raw(STRANGER), Gid::from_raw(STRANGER));
    rustix::thread::set_thread_groups(&[]).unwrap();
    rustix::thread::set_thread_res_gid(Some(group), Some(group), Some(group)).unwrap();
    rustix::thread::set_thread_res_uid(Some(user), Some(user), Some(user)).unwrap();
    let mut seen = Seen::default();
    let mut text = [0; 64];
    while !over.load(Ordering::Relaxed) {
        for name in names(directory) {
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let opened = rustix::fs::open(directory.join(&name), flags, Mode::empty());
            reads.fetch_add(1, Ordering::Relaxed);
            match opened {
                Ok(file) => {
                    let length = rustix::io::read(&file, &mut text).unwrap_or(0);
                    let text = &text[..length];
                    let has = |part: &str| text.windows(part.len()).any(|window| window == part.as_bytes());
                    seen.secret += u64::from(has(DECLARED));
                    seen.public += u64::from(has("public"));
                }
                Err(rustix::io::Errno::ACCESS) => seen.refused += 1,
                Err(_) => {}
            }
        }
    }
    seen
}

#[test]
fn threat_18_event_flood() {
    let place = TestEnv::new();
    let directory = place.open_directory("open");
    let targets = numbered(&directory, "target");
    let (one, other) = (directory.join("one"), directory.join("other"));
    std::fs::write(&one, "somebody's own").unwrap();
    let rest = format!("    content: {DECLARED}\n");
    let strike = |count: u64, numbers: &mut Numbers| {
        let (from, to) = if count.is_multiple_of(2) { (&one, &other) } else { (&other, &one) };
        let renamed = std::fs::rename(from, to);
        if count.is_multiple_of(1024) {
            let _ = std::fs::remove_file(&targets[numbers.below(PATHS)]);
        }
        u64::from(renamed.is_ok())
    };
    let is_right = || targets.iter().all(|path| holds_declared(path));
    place.attack("a flood of events", Duration::MAX, &resources(&targets, &rest), strike, is_right);
}
