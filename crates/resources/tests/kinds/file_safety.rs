//! Attacks: links and files that appear at the wrong moment, and secrets that must not be seen.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests")]

use std::os::unix::fs::MetadataExt as _;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::file_common::{TestEnv, as_nobody};
use mgmt_resource::Checked;
use mgmt_resources::file::{File, Memory};

/// How often an attacker must have struck before a test believes that the attack does not work.
const STRIKES: u64 = 20_000;

/// Attacks in one thread while another keeps the resource right, until both have had their chance.
fn under_attack(strike: impl Fn(u64) + Sync, mut work: impl FnMut()) {
    const RUNS: u64 = 1_000;
    let done = AtomicBool::new(false);
    let strikes = AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                strike(strikes.fetch_add(1, Ordering::Relaxed));
            }
        });
        let mut runs = 0;
        while runs < RUNS || strikes.load(Ordering::Relaxed) < STRIKES {
            work();
            runs += 1;
        }
        done.store(true, Ordering::Relaxed);
    });
}

/// Files in place of the victim.
fn victim(world: &TestEnv) -> impl Fn() + '_ {
    world.write("victim", "untouched");
    world.set_mode("victim", 0o600);
    let seen = world.at("victim").metadata().unwrap();
    move || {
        let now = world.at("victim").metadata().unwrap();
        assert_eq!(world.read("victim"), b"untouched");
        assert_eq!((now.mode(), now.uid(), now.ino()), (seen.mode(), seen.uid(), seen.ino()));
    }
}

#[test]
fn a_link_that_flips_in_the_last_component_leads_nowhere() {
    let world = TestEnv::in_memory();
    let untouched = victim(&world);
    let target = world.at("f");
    let strike = |count: u64| {
        let staged = world.at("staged");
        if count.is_multiple_of(2) {
            let _ = std::os::unix::fs::symlink(world.at("victim"), &staged);
        } else {
            let _ = std::fs::write(&staged, "planted");
        }
        let _ = std::fs::rename(&staged, &target);
    };
    let with_mode = File { mode: "0666".into(), owner: "7".into(), ..world.content("f", "new") };
    let mut memory = Memory::default();
    let mut count = 0;
    under_attack(strike, || {
        count += 1;
        let file = match count % 3 {
            0 => with_mode.clone(),
            1 => File { force: true, ..with_mode.clone() },
            _ => world.absent("f"),
        };
        // Refusing is fine, following is not.
        let _ = world.run(&file, &mut memory, true);
    });
    untouched();
    assert!(!world.names("").iter().any(|name| name.starts_with(".mgmt-")));
}

#[test]
fn a_parent_that_flips_to_a_link_of_another_user_leads_nowhere() {
    let world = TestEnv::in_memory();
    world.write("elsewhere/f", "untouched");
    world.write("way/f", "");
    let strike = |count: u64| {
        if count.is_multiple_of(2) {
            let _ = std::fs::rename(world.at("way"), world.at("aside"));
            let _ = std::os::unix::fs::symlink(world.at("elsewhere"), world.at("link"));
            let _ = std::os::unix::fs::lchown(world.at("link"), Some(7), Some(7));
            let _ = std::fs::rename(world.at("link"), world.at("way"));
        } else {
            let _ = std::fs::remove_file(world.at("way"));
            let _ = std::fs::rename(world.at("aside"), world.at("way"));
        }
    };
    let mut memory = Memory::default();
    let mut count = 0;
    under_attack(strike, || {
        count += 1;
        let file = world.content("way/f", if count % 2 == 0 { "one" } else { "two" });
        let _ = world.run(&file, &mut memory, true);
        let _ = world.run(&world.absent("way/f"), &mut Memory::default(), true);
    });
    assert_eq!(world.read("elsewhere/f"), b"untouched");
    assert_eq!(world.names("elsewhere"), ["f"]);
}

#[test]
fn a_directory_of_a_tree_that_flips_to_a_link_leads_nowhere() {
    let world = TestEnv::in_memory();
    world.write("elsewhere/precious", "untouched");
    world.write("source/sub/f", "new");
    world.write("d/sub/f", "old");
    let strike = |count: u64| {
        if count.is_multiple_of(2) {
            let _ = std::fs::rename(world.at("d/sub"), world.at("aside"));
            let _ = std::os::unix::fs::symlink(world.at("elsewhere"), world.at("d/sub"));
        } else {
            let _ = std::fs::remove_file(world.at("d/sub"));
            let _ = std::fs::rename(world.at("aside"), world.at("d/sub"));
        }
    };
    let copy = File {
        source: world.path("source/"),
        recurse: true,
        purge: true,
        owner: "7".into(),
        ..world.exists("d/")
    };
    let mut count = 0;
    under_attack(strike, || {
        count += 1;
        let _ = world.run(&copy, &mut Memory::default(), true);
        if count % 4 == 0 {
            let empty = File { purge: true, recurse: true, ..world.exists("d/") };
            let _ = world.run(&empty, &mut Memory::default(), true);
        }
    });
    assert_eq!(world.read("elsewhere/precious"), b"untouched");
    assert_eq!(
        (world.names("elsewhere"), world.owner("elsewhere/precious").0),
        (vec!["precious".to_owned()], 0)
    );
}

#[test]
fn a_hard_link_to_a_file_of_another_is_neither_written_nor_given_away() {
    let world = TestEnv::new();
    let untouched = victim(&world);
    // A directory that everybody can write, where anyone could have made this name.
    std::fs::create_dir(world.at("tmp")).unwrap();
    world.set_mode("tmp", 0o1777);
    std::fs::hard_link(world.at("victim"), world.at("tmp/f")).unwrap();
    let error =
        world.apply(&File { owner: "7".into(), mode: "0666".into(), ..world.file("tmp/f") }).unwrap_err();
    assert!(error.to_string().contains("hard links"), "{error}");
    untouched();
    world.apply(&File { mode: "0644".into(), ..world.content("tmp/f", "new") }).unwrap();
    untouched();
    assert_eq!(world.read("tmp/f"), b"new");
}

#[test]
fn a_writer_between_check_and_change_is_not_overwritten_unseen() {
    let world = TestEnv::in_memory();
    world.write("f", "0");
    let file = File { mode: "0644".into(), ..world.content("f", "declared") };
    let strike = |count: u64| {
        let _ = std::fs::write(world.at("staged"), format!("{count}"));
        let _ = std::fs::rename(world.at("staged"), world.at("f"));
    };
    let mut memory = Memory::default();
    under_attack(strike, || match world.run(&file, &mut memory, true) {
        Ok(_) => {}
        Err(error) => assert!(error.to_string().contains("changed whenever it was looked at"), "{error}"),
    });
    world.apply(&file).unwrap();
    world.is_right(&file);
}

#[test]
fn a_fifo_that_appears_at_any_moment_does_not_hang_the_run() {
    let world = TestEnv::in_memory();
    world.fifo("pipe");
    let strike = |count: u64| {
        let _ = std::fs::hard_link(
            world.at(if count.is_multiple_of(2) { "pipe" } else { "plain" }),
            world.at("staged"),
        );
        let _ = std::fs::rename(world.at("staged"), world.at("f"));
    };
    world.write("plain", "x");
    let file = world.content("f", "declared");
    let mut memory = Memory::default();
    under_attack(strike, || {
        let _ = world.run(&file, &mut memory, true);
    });
    assert_eq!(world.read("plain"), b"x");
}

/// Another user tries to read everything in the directory, as fast as it can, and says what it could see.
#[test]
fn a_secret_is_never_readable_by_another_user() {
    let world = TestEnv::in_memory();
    world.open_to_all();
    std::fs::create_dir(world.at("d")).unwrap();
    world.set_mode("d", 0o755);
    let script = format!(
        "cd {} && echo ready && while [ ! -e ../stop ]; do cat -- .[!.]* * 2>/dev/null; done; exit 0",
        world.at("d").display()
    );
    let mut reader = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--", "sh", "-c", &script])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = std::io::BufReader::new(reader.stdout.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut out, &mut line).unwrap();
    assert_eq!(line, "ready\n");
    let gather = std::thread::spawn(move || {
        let mut seen = Vec::new();
        std::io::Read::read_to_end(&mut out, &mut seen).unwrap();
        seen
    });
    world.write("public", "public canary");
    for count in 0..2_000 {
        let secret = File {
            mode: "0600".into(),
            owner: "7".into(),
            ..world.content("d/f", format!("secret {count}"))
        };
        assert_eq!(world.apply(&secret).unwrap(), Checked::Changed);
        let copied = File { mode: "0640".into(), source: world.path("d/f"), ..world.exists("d/copy") };
        world.apply(&copied).unwrap();
        if count % 3 == 0 {
            world.apply(&world.absent("d/f")).unwrap();
        }
    }
    // So that the reader is known to have read at all.
    world.apply(&File { mode: "0644".into(), ..world.content("d/open", "public canary") }).unwrap();
    let size = || std::fs::metadata(world.at("d/open")).unwrap().len();
    assert_eq!(size(), 13);
    std::thread::sleep(std::time::Duration::from_millis(200));
    world.write("stop", "");
    assert!(reader.wait().unwrap().success());
    let seen = String::from_utf8_lossy(&gather.join().unwrap()).into_owned();
    assert!(seen.contains("public canary"), "the other user saw nothing at all");
    assert!(!seen.contains("secret"), "{seen}");
}

#[test]
fn a_made_directory_is_closed_until_its_owner_is_right() {
    let world = TestEnv::new();
    let file = File { mode: "0700".into(), owner: "7".into(), ..world.exists("d/") };
    world.converges(&file);
    assert_eq!((world.mode("d"), world.owner("d").0), (0o700, 7));
}

#[test]
fn without_rights_errors_are_clear() {
    if !as_nobody("without_rights_errors_are_clear") {
        return;
    }
    let world = TestEnv::new();
    let file = |path: &str| File { path: path.into(), state: "exists".into(), ..File::default() };
    let error = |file: &File| {
        let error = world.apply(file).unwrap_err();
        (error.to_string(), error.hint().unwrap_or_default().to_owned())
    };
    let (message, hint) = error(&File { content: Some("x".into()), ..file("/etc/mgmt-test") });
    assert!(message.contains("/etc/mgmt-test: Permission denied"), "{message}");
    assert!(hint.contains("run as root"), "{hint}");
    let (message, hint) = error(&File { mode: "0600".into(), ..file("/etc/passwd") });
    assert!(message.contains("change the mode of /etc/passwd"), "{message}");
    assert!(hint.contains("run as root"), "{hint}");
    let (message, _) = error(&File { content: Some("x".into()), ..file("/etc/shadow") });
    assert!(message.contains("/etc/shadow: Permission denied"), "{message}");
    let (message, hint) = error(&File { owner: "0".into(), ..world.exists("f") });
    assert!(message.contains("Operation not permitted") && hint.contains("run as root"), "{message} {hint}");
    assert_eq!(world.names(""), [""; 0]);
    // What is ours works.
    world.converges(&File { mode: "0640".into(), ..world.content("f", "mine") });
    world.converges(&File { recurse: true, ..world.exists("a/b/c/") });
}

#[test]
fn two_resources_that_disagree_leave_no_mixture() {
    let world = TestEnv::in_memory();
    let (one, two) = (vec![b'1'; 100_000], vec![b'2'; 100_000]);
    let strike = |_| {
        let _ = world.apply(&world.content("f", &one));
    };
    under_attack_briefly(strike, || {
        let _ = world.apply(&world.content("f", &two));
        let seen = world.read("f");
        assert!(seen == one || seen == two, "a mixture of {} bytes", seen.len());
    });
    assert_eq!(world.names(""), ["f"]);
}

fn under_attack_briefly(strike: impl Fn(u64) + Sync, mut work: impl FnMut()) {
    let done = AtomicBool::new(false);
    work();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut count = 0;
            while !done.load(Ordering::Relaxed) {
                strike(count);
                count += 1;
            }
        });
        (0..500).for_each(|_| work());
        done.store(true, Ordering::Relaxed);
    });
}
