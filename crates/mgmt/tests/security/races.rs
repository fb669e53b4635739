//! The race lab: somebody exchanges what lies at managed paths as fast as a processor can, while the whole program keeps
//! them right. Whatever becomes of the paths meanwhile, the victim is never touched.
//!
//! A million exchanges in all, in a minute at most, or `MGMT_RACE_FLIPS` for each attacker (`cargo xtask races`: a million each). Which path is attacked next, and how, follows from
//! `MGMT_SEED`.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::process::Signal;

use crate::common::numbers::{Numbers, seed};
use crate::common::{PATIENCE, eventually, mgmt};
use crate::resident;

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
struct Place {
    home: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        let home = tempfile::tempdir_in("/dev/shm").unwrap();
        std::fs::set_permissions(home.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        Place { home }
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

    /// Keeps a graph right while `strike` is called again and again. `is_right` says whether the program has had its
    /// turn: an attack on somebody who sleeps proves nothing.
    fn attack(
        &self,
        (flips, time): (u64, Duration),
        lap: Duration,
        resources: &str,
        strike: impl Fn(u64, &mut Numbers),
        is_right: impl Fn() -> bool,
    ) {
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
            let (mut struck, mut turns) = (0, 0);
            let began = Instant::now();
            // Goes on beyond its number, if need be, until the program was seen at work in between.
            while (struck < flips && began.elapsed() < time) || (turns < 20 && began.elapsed() < PATIENCE) {
                strike(struck, &mut numbers);
                struck += 1;
                if struck.is_multiple_of(128) {
                    // A moment of calm: whoever is never let in on the race cannot lose it.
                    std::thread::sleep(Duration::from_micros(100));
                    turns += u64::from(is_right());
                }
                assert!(!defence.is_finished(), "the program has ended");
            }
            assert!(turns >= 20, "seen at work {turns} times in {struck} strikes: there was no race");
        });
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
fn defend(arguments: &[&str], lap: Duration, over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
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
        let until = Instant::now() + PATIENCE;
        while child.0.try_wait().unwrap().is_none() {
            assert!(Instant::now() < until, "the program does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Things that are exchanged with what lies at managed paths: one system call for each strike. What comes back is the
/// program's, so that they are made anew now and then.
struct Decoys {
    places: Vec<PathBuf>,
}

impl Decoys {
    fn new(place: &Place, make: impl Fn(&Path, usize)) -> Decoys {
        let directory = place.at("decoys");
        std::fs::create_dir(&directory).unwrap();
        let decoys = Decoys { places: numbered(&directory, "decoy") };
        for number in 0..PATHS {
            make(&decoys.places[number], number);
        }
        decoys
    }

    fn strike(&self, targets: &[PathBuf], count: u64, numbers: &mut Numbers, make: impl Fn(&Path, usize)) {
        let number = numbers.below(PATHS);
        let decoy = &self.places[number];
        if count.is_multiple_of(16) {
            let _ = std::fs::remove_file(decoy);
            make(decoy, number);
        }
        let target = &targets[numbers.below(PATHS)];
        if renameat_with(CWD, decoy, CWD, target, RenameFlags::EXCHANGE).is_err() {
            let _ = std::fs::rename(decoy, target);
        }
    }
}

/// A file that only root should ever write, read or own.
struct Victim {
    path: PathBuf,
    inode: u64,
}

impl Victim {
    fn new(path: PathBuf) -> Victim {
        std::fs::write(&path, PRECIOUS).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let inode = path.metadata().unwrap().ino();
        Victim { path, inode }
    }

    #[track_caller]
    fn is_untouched(&self) {
        let now = self.path.metadata().unwrap();
        assert_eq!(std::fs::read_to_string(&self.path).unwrap(), PRECIOUS);
        assert_eq!((now.ino(), now.uid(), now.gid(), now.mode() & 0o7777), (self.inode, 0, 0, 0o600));
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
    let place = Place::new();
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
    place.attack(flips(), LAP, &resources(&targets, &rest), strike, || {
        targets.iter().any(|path| holds_declared(path))
    });
    victim.is_untouched();
    assert_eq!(names(&directory).iter().filter(|name| name.starts_with(".mgmt-")).count(), 0);
}

#[test]
fn threat_02_symlink_or_rename_of_a_parent() {
    let place = Place::new();
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
        let _ = renameat_with(CWD, parent, CWD, other, RenameFlags::EXCHANGE);
        if count.is_multiple_of(64) && is_real(parent) {
            let _ = std::fs::remove_file(parent.join("file"));
        }
    };
    let is_right = || {
        let real = parents.iter().filter(|way| is_real(way));
        real.map(|way| way.join("file")).any(|file| holds_declared(&file))
    };
    place.attack(flips(), LAP, &resources(&files, &rest), strike, is_right);
    victim.is_untouched();
    assert_eq!(names(&vault), ["file"]);
}

#[test]
fn threat_03_hard_link_to_a_sensitive_file() {
    let place = Place::new();
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
    place.attack(flips(), LAP, &declared, strike, is_right);
    victim.is_untouched();
}

#[test]
fn threat_04_change_between_check_and_apply() {
    let place = Place::new();
    let vault = place.at("vault");
    std::fs::create_dir(&vault).unwrap();
    let victim = Victim::new(vault.join("file0"));
    let trees = numbered(&place.open_directory("open"), "tree");
    let aside = place.at("aside");
    // What was looked at and found to be a directory to be emptied is a link to the vault when it is emptied.
    let declared: String = trees
        .iter()
        .map(|tree| format!("  - name: {}/\n    state: exists\n    recurse: true\n    purge: true\n    meta:\n      retry: -1\n      delay: 0\n", tree.display()))
        .collect();
    for tree in &trees {
        std::fs::create_dir(tree).unwrap();
    }
    let strike = |_: u64, numbers: &mut Numbers| {
        let inner = trees[numbers.below(PATHS)].join("inner");
        match numbers.below(3) {
            0 => {
                // Not through a link of its own.
                let _ =
                    std::fs::create_dir(&inner).and_then(|()| std::fs::write(inner.join("file0"), "surplus"));
            }
            1 => {
                let _ = symlink(&vault, &aside);
                let _ = renameat_with(CWD, &inner, CWD, &aside, RenameFlags::EXCHANGE);
                // What is aside now may be the link itself.
                let _ = std::fs::remove_file(&aside).or_else(|_| std::fs::remove_dir_all(&aside));
            }
            _ => {
                let _ = std::fs::remove_file(&inner);
            }
        }
    };
    let is_right = || trees.iter().any(|tree| names(tree).is_empty());
    place.attack(flips(), LAP, &format!("  file:\n{declared}"), strike, is_right);
    victim.is_untouched();
    assert_eq!(names(&vault), ["file0"]);
}

#[test]
fn threat_06_secret_readable_for_an_instant() {
    let place = Place::new();
    let directory = place.open_directory("open");
    let targets = numbered(&directory, "target");
    let stop = place.at("stop");
    // Reads whatever has a name, the temporary ones too, as fast as it can.
    let script = format!(
        "cd {} && echo ready && while [ ! -e {} ]; do cat -- .[!.]* * 2>/dev/null; done; exit 0",
        directory.display(),
        stop.display()
    );
    let mut reader = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--", "sh", "-c", &script])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = reader.stdout.take().unwrap();
    let gather = std::thread::spawn(move || {
        let mut seen = String::new();
        std::io::Read::read_to_string(&mut output, &mut seen).map(|_| seen)
    });
    let rest = format!("    content: {DECLARED}\n    mode: \"0600\"\n    owner: \"7\"\n");
    let strike = |count: u64, numbers: &mut Numbers| {
        let target = &targets[numbers.below(PATHS)];
        match numbers.below(2) {
            0 => drop(std::fs::remove_file(target)),
            _ => drop(std::fs::write(target, "public")),
        }
        if count.is_multiple_of(4) {
            // Calm, for both the program and the reader: each needs a processor as well.
            std::thread::sleep(Duration::from_millis(2));
        }
    };
    // The reader needs time for every one of them.
    let (many, time) = flips();
    place.attack((many / 50, time), LAP, &resources(&targets, &rest), strike, || {
        targets.iter().any(|path| holds_declared(path))
    });
    std::fs::write(directory.join("open"), "the end is public\n").unwrap();
    std::thread::sleep(Duration::from_millis(500));
    std::fs::write(&stop, "").unwrap();
    assert!(reader.wait().unwrap().success());
    let seen = gather.join().unwrap().unwrap();
    assert!(seen.contains("public"), "the other user saw nothing at all");
    assert!(!seen.contains(DECLARED), "another user has read the secret");
}

#[test]
fn threat_18_event_flood() {
    let place = Place::new();
    let directory = place.open_directory("open");
    let targets = numbered(&directory, "target");
    let (one, other) = (directory.join("one"), directory.join("other"));
    std::fs::write(&one, "somebody's own").unwrap();
    let rest = format!("    content: {DECLARED}\n");
    let strike = |count: u64, numbers: &mut Numbers| {
        let (from, to) = if count.is_multiple_of(2) { (&one, &other) } else { (&other, &one) };
        let _ = std::fs::rename(from, to);
        if count.is_multiple_of(1024) {
            let _ = std::fs::remove_file(&targets[numbers.below(PATHS)]);
        }
    };
    let is_right = || targets.iter().all(|path| holds_declared(path));
    place.attack(flips(), Duration::MAX, &resources(&targets, &rest), strike, is_right);
}
