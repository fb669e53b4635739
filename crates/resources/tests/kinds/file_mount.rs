//! Full disks, read-only disks, bound files and mounts inside trees, each in a mount namespace of its own.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::ffi::OsStr;
use std::path::Path;

use crate::file_common::{TestEnv, in_private_mounts, run};
use mgmt_resource::{Checked, Id};
use mgmt_resources::file::File;

fn mount(arguments: &[&str], source: &Path, target: &Path) {
    let mut all: Vec<&OsStr> = arguments.iter().map(OsStr::new).collect();
    all.extend([source.as_os_str(), target.as_os_str()]);
    run("mount", &all);
}

/// Mounts go before the world that they are in.
struct Mounted<'a>(&'a TestEnv, Vec<&'static str>);

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        for name in self.1.iter().rev() {
            run("umount", &[self.0.at(name).as_os_str()]);
        }
    }
}

#[test]
fn a_full_disk_leaves_the_old_file_and_no_temporary() {
    if !in_private_mounts("a_full_disk_leaves_the_old_file_and_no_temporary") {
        return;
    }
    let world = TestEnv::new();
    std::fs::create_dir(world.at("small")).unwrap();
    mount(&["-t", "tmpfs", "-o", "size=64k"], Path::new("none"), &world.at("small"));
    let _mounted = Mounted(&world, vec!["small"]);
    world.write("small/f", "old");
    world.write("source", vec![b'x'; 100_000]);
    let copy = File { source: world.path("source"), ..world.exists("small/f") };
    let joined = File { fragments: vec![world.path("source")], ..world.exists("small/f") };
    for file in [world.content("small/f", vec![b'x'; 100_000]), copy, joined] {
        let error = world.apply(&file).unwrap_err();
        assert!(error.to_string().contains("small/f: No space left on device"), "{error}");
        assert!(error.hint().unwrap().contains("untouched"), "{error:?}");
        assert_eq!((world.read("small/f"), world.names("small")), (b"old".to_vec(), vec!["f".to_owned()]));
    }
    let forced = File { force: true, ..world.content("small/d", vec![b'x'; 100_000]) };
    world.write("small/d/inside", "kept");
    world.apply(&forced).unwrap_err();
    assert_eq!(world.read("small/d/inside"), b"kept");
}

#[test]
fn a_read_only_disk_is_an_error_that_says_so() {
    if !in_private_mounts("a_read_only_disk_is_an_error_that_says_so") {
        return;
    }
    let world = TestEnv::new();
    world.write("disk/f", "old");
    mount(&["--bind"], &world.at("disk"), &world.at("disk"));
    let _mounted = Mounted(&world, vec!["disk"]);
    mount(&["-o", "remount,ro,bind"], Path::new("none"), &world.at("disk"));
    let changes = [
        world.content("disk/f", "new"),
        world.absent("disk/f"),
        world.exists("disk/d/"),
        File { mode: "0600".into(), ..world.file("disk/f") },
        File { symlink: true, source: "x".into(), ..world.exists("disk/l") },
    ];
    for file in changes {
        world.refuses_when(&file, true, "Read-only file system", "mount that file system writable");
        assert_eq!(world.look(&file).unwrap(), Checked::Changed);
    }
    world.is_right(&world.content("disk/f", "old"));
}

#[test]
fn a_bound_file_is_written_only_when_that_was_allowed() {
    if !in_private_mounts("a_bound_file_is_written_only_when_that_was_allowed") {
        return;
    }
    let world = TestEnv::new();
    world.write("real", "old");
    world.write("f", "");
    mount(&["--bind"], &world.at("real"), &world.at("f"));
    let _mounted = Mounted(&world, vec!["f"]);
    let file = File { mode: "0600".into(), ..world.content("f", "new") };
    let error = world.apply(&file).unwrap_err();
    assert!(error.to_string().contains("a mount point of its own"), "{error}");
    assert!(error.hint().unwrap().contains("`atomic => false`"));
    assert_eq!(world.read("real"), b"old");
    world.converges(&File { atomic: false, ..file });
    assert_eq!((world.read("real"), world.mode("real")), (b"new".to_vec(), 0o600));
    assert_eq!(world.names(""), ["f", "real"]);
}

#[test]
fn removing_and_purging_never_cross_into_another_mount() {
    if !in_private_mounts("removing_and_purging_never_cross_into_another_mount") {
        return;
    }
    let world = TestEnv::new();
    world.write("precious/f", "kept");
    world.write("d/sub/f", "");
    std::fs::create_dir_all(world.at("d/sub/mnt")).unwrap();
    // The same file system, so that only the mount tells the difference.
    mount(&["--bind"], &world.at("precious"), &world.at("d/sub/mnt"));
    let _mounted = Mounted(&world, vec!["d/sub/mnt"]);
    let purge = File { purge: true, recurse: true, ..world.exists("d/") };
    let absent = File { recurse: true, ..world.absent("d/") };
    world.refuses_when(&purge, true, "d/sub/mnt is a mount point", "");
    world.refuses_when(&absent, true, "d/sub/mnt is a mount point", "");
    world.refuses_when(&File { recurse: true, ..world.absent("d/sub/mnt/") }, true, "is a mount point", "");
    assert_eq!((world.read("precious/f"), world.is_there("d/sub/f")), (b"kept".to_vec(), true));

    // With something managed in the mount the way there is kept, and the rest of the mount is left alone.
    world.graph(&[("inner", world.content("d/sub/mnt/managed", ""))]);
    world.converges(&purge);
    assert_eq!(world.names("d/sub"), ["mnt"]);
    assert_eq!(world.read("precious/f"), b"kept");

    // Copying into a mount is fine; purging what is in it is not.
    world.write("source/sub/mnt/new", "new");
    world.converges(&File { source: world.path("source/"), ..purge });
    assert_eq!(world.names("precious"), ["f", "new"]);
}

#[test]
fn what_is_declared_through_a_bind_mount_is_not_purged() {
    if !in_private_mounts("what_is_declared_through_a_bind_mount_is_not_purged") {
        return;
    }
    let world = TestEnv::new();
    for name in ["data/deep/home/declared", "data/deep/home/surplus", "data/deep/surplus", "data/surplus"] {
        world.write(name, "");
    }
    for name in ["home", "all"] {
        std::fs::create_dir(world.at(name)).unwrap();
    }
    mount(&["--bind"], &world.at("data/deep/home"), &world.at("home"));
    mount(&["--bind"], &world.at("data"), &world.at("all"));
    let _mounted = Mounted(&world, vec!["home", "all"]);
    world.graph_of(vec![(Id::new("file", "a"), Box::new(world.exists("home/declared")))]);
    for root in ["data/", "all/"] {
        world.write("data/surplus", "");
        let purge = File { recurse: true, purge: true, ..world.exists(root) };
        assert_eq!(world.apply(&purge).unwrap(), Checked::Changed, "{root}");
        assert_eq!(world.names("data"), ["deep"], "{root}");
        assert_eq!(world.names("data/deep/home"), ["declared"], "{root}");
    }
}
