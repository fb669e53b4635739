//! Full disks, bound files and mount points, each in a mount namespace of its own.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use crate::fs_common;
use std::ffi::OsStr;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use crate::fs_common::{Scratch, UNDECLARED, in_private_mounts, mode, names, run};
use mgmt_sys::Result;
use mgmt_sys::Stat;
use mgmt_sys::dir::Parent;
use mgmt_sys::error::Cause;
use mgmt_sys::handle::Attributes;
use mgmt_sys::replace::{Durability, Expect, InPlace, Replacement};
use mgmt_sys::tree::{Limits, remove_tree};

fn mount(arguments: &[&str], source: &Path, target: &Path) {
    let mut all: Vec<&OsStr> = arguments.iter().map(OsStr::new).collect();
    all.extend([source.as_os_str(), target.as_os_str()]);
    run("mount", &all);
}

fn mount_tmpfs(target: &Path, options: &str) {
    std::fs::create_dir_all(target).unwrap();
    mount(&["-t", "tmpfs", "-o", options], Path::new("none"), target);
}

/// The mounts of a test go before its scratch directory does.
struct Mounted<'a>(&'a Scratch, Vec<&'static str>);

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        for name in self.1.iter().rev() {
            run("umount", &[self.0.at(name).as_os_str()]);
        }
    }
}

fn replace_in_place(
    parent: &Parent,
    content: &[u8],
    declared: &Attributes<'_>,
    expect: Expect,
) -> Result<Stat> {
    let mut new = Replacement::begin(parent, b"file", InPlace::Allow)?;
    new.write_all(content)?;
    new.commit(declared, expect, Durability::Full)
}

#[test]
fn a_full_disk_leaves_the_old_file_and_no_temporary() {
    if !in_private_mounts("a_full_disk_leaves_the_old_file_and_no_temporary") {
        return;
    }
    let scratch = Scratch::new();
    mount_tmpfs(&scratch.at("small"), "size=64k");
    let _mounted = Mounted(&scratch, vec!["small"]);
    std::fs::write(scratch.at("small/file"), "old").unwrap();
    std::fs::write(scratch.at("source"), vec![b'x'; 100_000]).unwrap();
    let parent = Parent::open(&fs_common::managed(&scratch.at("small/file"))).unwrap();
    let source = scratch.parent().open_regular(b"source").unwrap();
    let path = scratch.at("small/file");
    let expected = format!("cannot replace {}: No space left on device", path.display());
    for way in 0..3 {
        let mut new = Replacement::begin(&parent, b"file", InPlace::Refuse).unwrap();
        let error = match way {
            0 => new.write_all(&[b'x'; 100_000]).unwrap_err(),
            1 => new.copy_from(&source).unwrap_err(),
            _ => new.copy_from_reader(&mut std::io::repeat(b'x')).unwrap_err(),
        };
        assert!(error.to_string().starts_with(&expected), "{error}");
        // A size that is known beforehand is compared with the free space.
        assert_eq!(error.to_string().contains("bytes are needed"), way == 1, "{error}");
        drop(new);
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        assert_eq!(names(&scratch.at("small")), ["file"]);
    }
}

#[test]
fn a_disk_without_room_for_a_name_leaves_the_old_file() {
    if !in_private_mounts("a_disk_without_room_for_a_name_leaves_the_old_file") {
        return;
    }
    let scratch = Scratch::new();
    mount_tmpfs(&scratch.at("small"), "nr_inodes=2");
    let _mounted = Mounted(&scratch, vec!["small"]);
    std::fs::write(scratch.at("small/file"), "old").unwrap();
    let parent = Parent::open(&fs_common::managed(&scratch.at("small/file"))).unwrap();
    let Err(error) = Replacement::begin(&parent, b"file", InPlace::Allow) else { panic!("there was room") };
    assert!(error.to_string().contains("file: No space left on device: all inodes are in use"), "{error}");
    assert_eq!(std::fs::read(scratch.at("small/file")).unwrap(), b"old");
}

#[test]
fn a_bound_file_is_written_in_place_only_when_allowed() {
    if !in_private_mounts("a_bound_file_is_written_in_place_only_when_allowed") {
        return;
    }
    let scratch = Scratch::new();
    mount_tmpfs(&scratch.at("other"), "size=64k");
    let _mounted = Mounted(&scratch, vec!["other"]);
    std::fs::create_dir(scratch.at("etc")).unwrap();
    // Bound from the same file system, and from another.
    for original in ["original", "other/original"] {
        std::fs::write(scratch.at(original), "a long old content").unwrap();
        std::fs::write(scratch.at("etc/file"), "below").unwrap();
        mount(&["--bind"], &scratch.at(original), &scratch.at("etc/file"));
        let _mounted = Mounted(&scratch, vec!["etc/file"]);
        let parent = Parent::open(&fs_common::managed(&scratch.at("etc/file"))).unwrap();

        let error = fs_common::replace(&parent, "file", b"new", &UNDECLARED, Expect::Anything).unwrap_err();
        assert_eq!(*error.cause(), Cause::CannotRenameOver, "{error}");
        assert_eq!(std::fs::read(scratch.at(original)).unwrap(), b"a long old content");

        let seen = parent.lstat_entry(b"file").unwrap().unwrap();
        let declared = Attributes { owner: Some(1234), ..mode(0o4710) };
        let stat = replace_in_place(&parent, b"new", &declared, Expect::Same(seen)).unwrap();
        assert_eq!((stat.inode, stat.size, stat.uid, stat.mode), (seen.inode, 3, 1234, 0o4710));
        assert_eq!(std::fs::read(scratch.at(original)).unwrap(), b"new");
        let stat = replace_in_place(&parent, b"a longer content than before", &mode(0o640), Expect::Anything)
            .unwrap();
        assert_eq!((stat.size, stat.uid, stat.mode), (28, 1234, 0o640));

        let raced = replace_in_place(&parent, b"x", &UNDECLARED, Expect::Same(seen)).unwrap_err();
        assert!(raced.is_raced(), "{raced}");
        let raced = replace_in_place(&parent, b"x", &UNDECLARED, Expect::Absent).unwrap_err();
        assert!(raced.is_raced(), "{raced}");
        assert_eq!(names(&scratch.at("etc")), ["file"]);
    }
    assert_eq!(std::fs::read(scratch.at("etc/file")).unwrap(), b"below");
}

#[test]
fn a_bound_file_with_other_names_is_never_written() {
    if !in_private_mounts("a_bound_file_with_other_names_is_never_written") {
        return;
    }
    let scratch = Scratch::new();
    std::fs::write(scratch.at("original"), "precious").unwrap();
    std::fs::hard_link(scratch.at("original"), scratch.at("shadow")).unwrap();
    std::fs::write(scratch.at("file"), "").unwrap();
    mount(&["--bind"], &scratch.at("original"), &scratch.at("file"));
    let _mounted = Mounted(&scratch, vec!["file"]);
    let error = replace_in_place(&scratch.parent(), b"new", &UNDECLARED, Expect::Anything).unwrap_err();
    assert_eq!(*error.cause(), Cause::HardLinked(2));
    assert!(error.to_string().contains("would show through all its 2 hard links"), "{error}");
    assert_eq!(std::fs::read(scratch.at("shadow")).unwrap(), b"precious");
}

#[test]
fn a_bound_file_in_a_read_only_directory_is_written_in_place() {
    if !in_private_mounts("a_bound_file_in_a_read_only_directory_is_written_in_place") {
        return;
    }
    let scratch = Scratch::new();
    mount_tmpfs(&scratch.at("ro"), "size=64k");
    std::fs::write(scratch.at("ro/file"), "below").unwrap();
    std::fs::write(scratch.at("volume"), "old").unwrap();
    mount(&["--bind"], &scratch.at("volume"), &scratch.at("ro/file"));
    let _mounted = Mounted(&scratch, vec!["ro", "ro/file"]);
    run(
        "mount",
        &["-o", "remount,bind,ro"]
            .map(OsStr::new)
            .into_iter()
            .chain([scratch.at("ro").as_os_str()])
            .collect::<Vec<_>>(),
    );
    let parent = Parent::open(&fs_common::managed(&scratch.at("ro/file"))).unwrap();
    let Err(error) = Replacement::begin(&parent, b"file", InPlace::Refuse) else { panic!("it is read-only") };
    assert!(error.to_string().ends_with("ro/file: Read-only file system"), "{error}");
    replace_in_place(&parent, b"new", &UNDECLARED, Expect::Anything).unwrap();
    assert_eq!(std::fs::read(scratch.at("volume")).unwrap(), b"new");
}

#[test]
fn writing_in_place_without_room_changes_nothing() {
    if !in_private_mounts("writing_in_place_without_room_changes_nothing") {
        return;
    }
    let scratch = Scratch::new();
    mount_tmpfs(&scratch.at("small"), "size=64k");
    std::fs::write(scratch.at("small/original"), "old").unwrap();
    std::fs::set_permissions(scratch.at("small/original"), std::fs::Permissions::from_mode(0o644)).unwrap();
    std::fs::write(scratch.at("file"), "").unwrap();
    mount(&["--bind"], &scratch.at("small/original"), &scratch.at("file"));
    let _mounted = Mounted(&scratch, vec!["small", "file"]);
    let error =
        replace_in_place(&scratch.parent(), &[b'x'; 100_000], &mode(0o600), Expect::Anything).unwrap_err();
    assert!(error.to_string().ends_with("file: No space left on device"), "{error}");
    assert_eq!(std::fs::read(scratch.at("file")).unwrap(), b"old");
    assert_eq!(std::fs::metadata(scratch.at("file")).unwrap().mode() & 0o777, 0o644);
    assert_eq!(scratch.names(), ["file", "small"]);
}

#[test]
fn a_tree_with_something_mounted_in_it_is_refused_whole() {
    if !in_private_mounts("a_tree_with_something_mounted_in_it_is_refused_whole") {
        return;
    }
    let scratch = Scratch::new();
    std::fs::create_dir_all(scratch.at("home")).unwrap();
    std::fs::write(scratch.at("home/precious"), "").unwrap();
    for kind in ["bound from the same file system", "another file system"] {
        std::fs::create_dir_all(scratch.at("tree/z/mounted")).unwrap();
        for file in ["tree/a", "tree/z/b", "tree/~"] {
            std::fs::write(scratch.at(file), "").unwrap();
        }
        if kind == "another file system" {
            mount_tmpfs(&scratch.at("tree/z/mounted"), "size=64k");
            std::fs::write(scratch.at("tree/z/mounted/precious"), "").unwrap();
        } else {
            mount(&["--bind"], &scratch.at("home"), &scratch.at("tree/z/mounted"));
        }
        let _mounted = Mounted(&scratch, vec!["tree/z/mounted"]);
        let error = remove_tree(&scratch.parent(), b"tree", &Limits::default()).unwrap_err();
        let (tree, inside) = (scratch.at("tree"), scratch.at("tree/z/mounted"));
        assert_eq!(
            error.to_string(),
            format!(
                "cannot remove {}: {} is a mount point, and removing a tree never crosses into another mount; unmount \
                 it first",
                tree.display(),
                inside.display()
            ),
            "{kind}"
        );
        assert_eq!(names(&inside), ["precious"], "{kind}");
        assert!(
            scratch.at("tree/a").exists() && scratch.at("tree/z/b").exists() && scratch.at("tree/~").exists()
        );
        let parent = Parent::open(&fs_common::managed(&inside)).unwrap();
        let error = remove_tree(&parent, b"mounted", &Limits::default()).unwrap_err();
        assert!(matches!(error.cause(), Cause::MountPoint(_)), "{kind}: {error}");
    }
    assert_eq!(names(&scratch.at("home")), ["precious"]);
}

#[test]
fn a_file_mounted_in_a_tree_survives_its_removal() {
    if !in_private_mounts("a_file_mounted_in_a_tree_survives_its_removal") {
        return;
    }
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.at("tree")).unwrap();
    std::fs::write(scratch.at("tree/file"), "below").unwrap();
    std::fs::write(scratch.at("precious"), "precious").unwrap();
    mount(&["--bind"], &scratch.at("precious"), &scratch.at("tree/file"));
    let _mounted = Mounted(&scratch, vec!["tree/file"]);
    let error = remove_tree(&scratch.parent(), b"tree", &Limits::default()).unwrap_err();
    assert!(matches!(error.cause(), Cause::MountPoint(_)), "{error}");
    assert_eq!(std::fs::read(scratch.at("precious")).unwrap(), b"precious");
}
