//! Listing directories and removing trees.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use crate::fs_common;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::fs_common::{Scratch, as_nobody, names};
use mgmt_sys::Kind;
use mgmt_sys::error::Cause;
use mgmt_sys::tree::{Limits, list, remove_tree};
use rustix::fs::{CWD, Mode, RenameFlags, mkfifoat, renameat_with};

const LIMITS: Limits = Limits { entries: 10_000, depth: 100 };

#[test]
fn a_listing_is_sorted_and_knows_the_kinds() {
    let scratch = Scratch::new();
    for name in [&b"b"[..], b"a", b"\xff", b"Z"] {
        std::fs::write(scratch.at(OsStr::from_bytes(name)), "").unwrap();
    }
    std::fs::create_dir(scratch.at("dir")).unwrap();
    symlink("dir", scratch.at("link")).unwrap();
    mkfifoat(CWD, scratch.at("fifo"), Mode::from_raw_mode(0o600)).unwrap();
    let _listener = UnixListener::bind(scratch.at("socket")).unwrap();
    let listed = list(&scratch.parent(), &LIMITS).unwrap();
    let listed: Vec<(&[u8], Kind)> = listed.iter().map(|entry| (&*entry.name, entry.kind)).collect();
    let expected: [(&[u8], Kind); 8] = [
        (b"Z", Kind::File),
        (b"a", Kind::File),
        (b"b", Kind::File),
        (b"dir", Kind::Directory),
        (b"fifo", Kind::Fifo),
        (b"link", Kind::Symlink),
        (b"socket", Kind::Socket),
        (b"\xff", Kind::File),
    ];
    assert_eq!(listed, expected);
}

#[test]
fn a_listing_of_thousands_is_complete_and_a_longer_one_is_refused() {
    let scratch = Scratch::new();
    for number in 0..3000 {
        std::fs::write(scratch.at(format!("{number:04}")), "").unwrap();
    }
    let parent = scratch.parent();
    let listed = list(&parent, &LIMITS).unwrap();
    assert!(
        listed
            .iter()
            .map(|entry| String::from_utf8_lossy(&entry.name))
            .eq((0..3000).map(|number| format!("{number:04}")))
    );
    assert_eq!(list(&parent, &Limits { entries: 3000, depth: 1 }).unwrap().len(), 3000);
    let error = list(&parent, &Limits { entries: 2999, depth: 1 }).unwrap_err();
    assert!(
        error.to_string().ends_with(": there are more than 2999 entries, the limit set for it"),
        "{error}"
    );
}

#[test]
fn a_tree_is_removed_and_what_its_links_point_to_is_not() {
    let scratch = Scratch::new();
    std::fs::create_dir_all(scratch.at("outside/deep")).unwrap();
    std::fs::write(scratch.at("outside/deep/file"), "precious").unwrap();
    std::fs::create_dir_all(scratch.at("tree/a/b/c")).unwrap();
    std::fs::create_dir_all(scratch.at("tree/empty")).unwrap();
    std::fs::write(scratch.at("tree/a/b/file"), "").unwrap();
    std::fs::write(scratch.at("tree/a").join(OsStr::from_bytes(b"odd\xff\n")), "").unwrap();
    symlink("../outside", scratch.at("tree/link")).unwrap();
    symlink("../../../..", scratch.at("tree/a/b/up")).unwrap();
    symlink(scratch.at("outside"), scratch.at("tree/a/absolute")).unwrap();
    mkfifoat(CWD, scratch.at("tree/fifo"), Mode::from_raw_mode(0o600)).unwrap();
    assert_eq!(remove_tree(&scratch.parent(), b"tree", &LIMITS).unwrap(), 11);
    assert_eq!(scratch.names(), ["outside"]);
    assert_eq!(names(&scratch.at("outside/deep")), ["file"]);
}

#[test]
fn a_link_a_file_and_nothing_are_trees_too() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.at("outside")).unwrap();
    std::fs::write(scratch.at("outside/file"), "").unwrap();
    symlink("outside", scratch.at("link")).unwrap();
    std::fs::write(scratch.at("file"), "").unwrap();
    let parent = scratch.parent();
    assert_eq!(remove_tree(&parent, b"link", &LIMITS).unwrap(), 1);
    assert_eq!(remove_tree(&parent, b"file", &LIMITS).unwrap(), 1);
    assert_eq!(remove_tree(&parent, b"none", &LIMITS).unwrap(), 0);
    assert_eq!(names(&scratch.at("outside")), ["file"]);
    assert!(remove_tree(&parent, b"..", &LIMITS).is_err());
    assert!(remove_tree(&parent, b"outside/file", &LIMITS).is_err());
    assert_eq!(names(&scratch.at("outside")), ["file"]);
}

#[test]
fn a_tree_beyond_the_limits_is_refused_before_anything_is_gone() {
    let scratch = Scratch::new();
    let parent = scratch.parent();
    std::fs::create_dir_all(scratch.at("tree/a/b/c")).unwrap();
    std::fs::write(scratch.at("tree/x"), "").unwrap();
    std::fs::write(scratch.at("tree/a/y"), "").unwrap();
    let error = remove_tree(&parent, b"tree", &Limits { entries: 5, depth: 100 }).unwrap_err();
    assert_eq!(*error.cause(), Cause::TooManyEntries(5), "{error}");
    let error = remove_tree(&parent, b"tree", &Limits { entries: 100, depth: 3 }).unwrap_err();
    assert_eq!(*error.cause(), Cause::TooDeep(3), "{error}");
    let path = scratch.at("tree");
    assert_eq!(
        error.to_string(),
        format!("cannot remove {}: it is more than 3 directories deep", path.display())
    );
    assert!(
        scratch.at("tree/x").exists() && scratch.at("tree/a/y").exists() && scratch.at("tree/a/b/c").exists()
    );
    assert_eq!(remove_tree(&parent, b"tree", &Limits { entries: 6, depth: 4 }).unwrap(), 6);
}

#[test]
fn a_tree_deeper_than_any_path_is_removed_or_refused() {
    let scratch = Scratch::new();
    let parent = scratch.parent();
    let name = "n".repeat(200);
    // Through handles, as its path is far longer than a path can be.
    let mut here = parent.open_dir({
        std::fs::create_dir(scratch.at("tree")).unwrap();
        b"tree"
    });
    for _ in 0..199 {
        here = here.unwrap().make_directory(name.as_bytes(), &fs_common::UNDECLARED);
    }
    drop(here);
    let error = remove_tree(&parent, b"tree", &LIMITS).unwrap_err();
    assert_eq!(*error.cause(), Cause::TooDeep(100));
    assert_eq!(remove_tree(&parent, b"tree", &Limits::default()).unwrap(), 200);
    assert_eq!(scratch.names(), [""; 0]);
}

#[test]
fn a_directory_swapped_for_a_link_during_removal_does_not_lead_outside() {
    let scratch = Scratch::in_memory();
    let parent = scratch.parent();
    std::fs::create_dir_all(scratch.at("outside")).unwrap();
    for number in 0..50 {
        std::fs::write(scratch.at(format!("outside/{number}")), "precious").unwrap();
    }
    symlink("../outside", scratch.at("link")).unwrap();
    let done = AtomicBool::new(false);
    let (mut removed, mut disturbed) = (0, 0);
    std::thread::scope(|scope| {
        let swapper = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let _ = renameat_with(&parent, "tree/a", &parent, "link", RenameFlags::EXCHANGE);
            }
        });
        for _ in 0..1000 {
            // Many entries, so that the directory is listed as one and entered much later.
            let _ = std::fs::create_dir(scratch.at("tree"));
            for number in 0..30 {
                let _ = std::fs::write(scratch.at(format!("tree/{number}")), "");
            }
            let _ = std::fs::create_dir(scratch.at("tree/a"));
            match remove_tree(&parent, b"tree", &LIMITS) {
                Ok(_) => removed += 1,
                Err(_) => disturbed += 1,
            }
            if parent.lstat_entry(b"link").unwrap().is_none_or(|stat| stat.kind != Kind::Symlink) {
                // The link went with the tree and the directory is left in its place.
                let _ = parent.rmdir(b"link");
                let _ = symlink("../outside", scratch.at("link"));
            }
        }
        done.store(true, Ordering::Relaxed);
        swapper.join().unwrap();
    });
    assert_eq!(names(&scratch.at("outside")).len(), 50);
    assert!(removed > 0, "{removed} removed, {disturbed} disturbed");
}

#[test]
fn a_directory_that_may_not_be_read_is_named() {
    if !as_nobody("a_directory_that_may_not_be_read_is_named") {
        return;
    }
    let scratch = Scratch::new();
    std::fs::create_dir_all(scratch.at("tree/a/closed")).unwrap();
    std::fs::write(scratch.at("tree/file"), "").unwrap();
    std::fs::set_permissions(scratch.at("tree/a/closed"), std::fs::Permissions::from_mode(0o000)).unwrap();
    let error = remove_tree(&scratch.parent(), b"tree", &LIMITS).unwrap_err();
    let path = scratch.at("tree/a/closed");
    assert_eq!(error.to_string(), format!("cannot open {}: Permission denied", path.display()));
    assert!(scratch.at("tree/file").exists());
    std::fs::set_permissions(scratch.at("tree/a/closed"), std::fs::Permissions::from_mode(0o700)).unwrap();
}
