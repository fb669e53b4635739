//! Someone exchanges what lies at our path, and the directories above it, as fast as a processor can.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::os::unix::fs::{MetadataExt as _, lchown, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::fs_common::{Scratch, UNDECLARED, managed, names, replace};
use mgmt_sys::dir::Parent;
use mgmt_sys::handle::Attributes;
use mgmt_sys::replace::{Durability, Expect, InPlace, Replacement};
use rustix::fs::{RenameFlags, renameat_with};

const ROUNDS: usize = 20_000;

/// Runs `attack` on another thread until `work` is done.
fn under_attack(attack: impl Fn() + Sync, work: impl FnOnce()) {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let attacker = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                attack();
            }
        });
        work();
        done.store(true, Ordering::Relaxed);
        attacker.join().unwrap();
    });
}

struct Victim<'a>(&'a Path);

impl<'a> Victim<'a> {
    fn new(path: &'a Path) -> Self {
        std::fs::write(path, "precious").unwrap();
        Self(path)
    }

    #[track_caller]
    fn assert_untouched(&self) {
        assert_eq!(std::fs::read(self.0).unwrap(), b"precious");
        let metadata = std::fs::symlink_metadata(self.0).unwrap();
        assert_eq!((metadata.uid(), metadata.gid(), metadata.mode() & 0o7777), (0, 0, 0o644));
    }
}

#[test]
fn a_victim_behind_the_last_component_is_never_touched() {
    let scratch = Scratch::in_memory();
    let path = scratch.at("victim");
    let victim = Victim::new(&path);
    let (target, prepared) = (scratch.at("file"), scratch.at("prepared"));
    let parent = scratch.parent();
    let declared = Attributes { owner: Some(1234), group: Some(2345), mode: Some(0o4711), label: None };
    let (mut placed, mut refused) = (0, 0);
    under_attack(
        || {
            let _ = std::fs::write(&prepared, "planted");
            let _ = std::fs::rename(&prepared, &target);
            let _ = symlink("victim", &prepared);
            let _ = std::fs::rename(&prepared, &target);
            let _ = std::fs::remove_file(&target);
            let _ = std::fs::create_dir(&target);
            let _ = std::fs::remove_dir(&target);
            let _ = std::fs::hard_link(scratch.at("victim"), &target);
        },
        || {
            for round in 0..ROUNDS {
                let expect = match (round % 3, parent.lstat_entry(b"file").unwrap()) {
                    (0, _) => Expect::Anything,
                    (_, Some(seen)) => Expect::Same(seen),
                    (_, None) => Expect::Absent,
                };
                match replace(&parent, "file", b"new", &declared, expect) {
                    Ok(_) => placed += 1,
                    Err(_) => refused += 1,
                }
                if round % 1000 == 0 {
                    victim.assert_untouched();
                }
            }
        },
    );
    victim.assert_untouched();
    assert!(placed > 0 && refused > 0, "{placed} placed, {refused} refused: there was no race");
    assert!(!scratch.names().iter().any(|name| name.ends_with(".tmp")));
}

#[test]
fn attributes_set_under_attack_never_reach_a_victim() {
    let scratch = Scratch::in_memory();
    let path = scratch.at("victim");
    let victim = Victim::new(&path);
    let (target, prepared) = (scratch.at("file"), scratch.at("prepared"));
    let parent = scratch.parent();
    let declared = Attributes { owner: Some(1234), group: Some(2345), mode: Some(0o4711), label: None };
    let (mut changed, mut refused) = (0, 0);
    under_attack(
        || {
            let _ = std::fs::write(&prepared, "planted");
            let _ = std::fs::rename(&prepared, &target);
            let _ = symlink("victim", &prepared);
            let _ = std::fs::rename(&prepared, &target);
        },
        || {
            for round in 0..ROUNDS {
                let done = if round % 2 == 0 {
                    parent.open_regular(b"file").and_then(|file| file.set_attributes(&declared))
                } else {
                    parent.open_entry(b"file").and_then(|entry| entry.set_attributes(&declared))
                };
                if done.is_ok() { changed += 1 } else { refused += 1 }
            }
        },
    );
    victim.assert_untouched();
    assert!(changed > 0 && refused > 0, "{changed} changed, {refused} refused: there was no race");
}

#[test]
fn a_victim_behind_a_parent_is_never_reached() {
    let scratch = Scratch::in_memory();
    std::fs::create_dir(scratch.at("victims")).unwrap();
    std::fs::create_dir(scratch.at("home")).unwrap();
    std::fs::create_dir(scratch.at("home/real")).unwrap();
    let path = scratch.at("victims/file");
    let victim = Victim::new(&path);
    // In the middle of the path: a directory, or the attacker's link to the victims.
    let (middle, link) = (scratch.at("home/middle"), scratch.at("home/link"));
    symlink("../victims", &link).unwrap();
    lchown(&link, Some(1234), Some(1234)).unwrap();
    let file = managed(&middle.join("file"));
    let (mut placed, mut refused) = (0, 0);
    under_attack(
        || {
            let _ = std::fs::rename(scratch.at("home/real"), &middle);
            let _ = std::fs::rename(&middle, scratch.at("home/real"));
            let _ = std::fs::rename(&link, &middle);
            let _ = std::fs::rename(&middle, &link);
        },
        || {
            for _ in 0..ROUNDS {
                let Ok(parent) = Parent::open(&file) else {
                    refused += 1;
                    continue;
                };
                let mut new = Replacement::begin(&parent, b"file", InPlace::Allow).unwrap();
                new.write_all(b"new").unwrap();
                new.commit(&UNDECLARED, Expect::Anything, Durability::None).unwrap();
                placed += 1;
            }
        },
    );
    victim.assert_untouched();
    assert_eq!(names(&scratch.at("victims")), ["file"]);
    assert!(placed > 0 && refused > 0, "{placed} placed, {refused} refused: there was no race");
}

#[test]
fn a_directory_swapped_for_the_new_one_is_not_given_away() {
    let scratch = Scratch::in_memory();
    std::fs::create_dir(scratch.at("victim")).unwrap();
    std::fs::write(scratch.at("victim/file"), "precious").unwrap();
    let parent = scratch.parent();
    let give = Attributes { owner: Some(1234), mode: Some(0o777), ..UNDECLARED };
    let (mut made, mut refused) = (0, 0);
    under_attack(
        || {
            let _ = renameat_with(&parent, "victim", &parent, "new", RenameFlags::EXCHANGE);
        },
        || {
            for _ in 0..ROUNDS {
                match parent.make_directory(b"new", &give) {
                    Ok(_) => made += 1,
                    Err(error) => {
                        assert!(error.is_exists() || error.is_raced(), "{error}");
                        refused += 1;
                    }
                }
                // Only the empty one goes, under whichever name it is.
                let _ = parent.rmdir(b"new");
                let _ = parent.rmdir(b"victim");
                let _ = renameat_with(&parent, "new", &parent, "victim", RenameFlags::NOREPLACE);
            }
        },
    );
    let victim = std::fs::metadata(scratch.at("victim")).unwrap();
    assert_eq!((victim.uid(), victim.mode() & 0o7777), (0, 0o755));
    assert_eq!(names(&scratch.at("victim")), ["file"]);
    assert!(made > 0 && refused > 0, "{made} made, {refused} refused: there was no race");
}

#[test]
fn two_that_replace_the_same_file_both_leave_it_whole() {
    let scratch = Scratch::in_memory();
    let parent = scratch.parent();
    let contents = [vec![b'a'; 10_000], vec![b'b'; 20_000]];
    std::fs::write(scratch.at("file"), &contents[0]).unwrap();
    let seen_raced = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for content in &contents {
            scope.spawn(|| {
                for _ in 0..2000 {
                    let seen = *parent.open_regular(b"file").unwrap().stat();
                    match replace(&parent, "file", content, &UNDECLARED, Expect::Same(seen)) {
                        Ok(_) => {}
                        Err(error) => {
                            assert!(error.is_raced(), "{error}");
                            seen_raced.store(true, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
        for _ in 0..2000 {
            let file = parent.open_regular(b"file").unwrap();
            assert!(contents.iter().any(|content| file.equals(content).unwrap()));
        }
    });
    assert!(seen_raced.into_inner(), "there was no race");
    assert_eq!(scratch.names(), ["file"]);
}
