//! Opening a file that content is read from, and telling mounts apart.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::os::unix::fs::{PermissionsExt as _, lchown, symlink};

use crate::fs_common::{Scratch, in_private_mounts, managed, run};
use mgmt_sys::dir::Parent;
use mgmt_sys::file::OpenedFile;
use mgmt_sys::replace::{InPlace, Replacement};
use mgmt_sys::stat::Kind;
use mgmt_sys::tree::same_mount;

#[test]
fn a_file_is_read_through_links_that_can_be_trusted_and_no_others() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.at("d")).unwrap();
    std::fs::write(scratch.at("d/f"), "text").unwrap();
    symlink("d/../d/f", scratch.at("link")).unwrap();
    symlink(scratch.at("link"), scratch.at("again")).unwrap();
    symlink("d", scratch.at("way")).unwrap();
    let open = |name: &str| OpenedFile::open_trusted(&managed(&scratch.at(name)));
    for name in ["d/f", "link", "again", "way/f"] {
        assert!(open(name).unwrap().equals(b"text").unwrap(), "{name}");
    }
    assert!(open("missing").err().unwrap().is_not_found());
    assert!(open("way/missing").err().unwrap().is_not_found());
    for name in ["d", "way"] {
        assert_eq!(open(name).err().unwrap().found_kind(), Some(Kind::Directory));
    }

    symlink("turn", scratch.at("turn")).unwrap();
    assert!(open("turn").err().unwrap().to_string().contains("too many symbolic links"));
    lchown(scratch.at("link"), Some(7), None).unwrap();
    for name in ["link", "again"] {
        assert!(open(name).err().unwrap().to_string().contains("belongs to user 7"), "{name}");
    }
    let open_to_all = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(scratch.path(), open_to_all).unwrap();
    assert!(open("way/f").err().unwrap().to_string().contains("others can write"));
    assert!(open("d/f").is_ok());
}

#[test]
fn one_look_is_enough_for_a_plain_file_and_for_nothing_else() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.at("d")).unwrap();
    std::fs::write(scratch.at("d/f"), "text").unwrap();
    symlink("f", scratch.at("d/link")).unwrap();
    symlink("d", scratch.at("way")).unwrap();
    run("mkfifo", &[scratch.at("fifo").as_os_str()]);
    let open = |name: &str| OpenedFile::open_if_plain(&managed(&scratch.at(name)));
    assert!(open("d/f").unwrap().equals(b"text").unwrap());
    for name in ["d/link", "way/f", "d", "fifo", "missing", "d/missing", "d/f/below"] {
        assert!(open(name).is_none(), "{name}");
    }
    std::fs::hard_link(scratch.at("d/f"), scratch.at("other")).unwrap();
    assert!(open("d/f").is_none(), "it has another name");
    std::fs::remove_file(scratch.at("other")).unwrap();
    assert!(open("d/f").is_some());
}

#[test]
fn nothing_at_the_end_of_a_link_makes_reading_hang() {
    let scratch = Scratch::new();
    run("mkfifo", &[scratch.at("fifo").as_os_str()]);
    symlink("fifo", scratch.at("link")).unwrap();
    let error = OpenedFile::open_trusted(&managed(&scratch.at("link"))).err().unwrap();
    assert_eq!(error.found_kind(), Some(Kind::Fifo));
}

#[test]
fn what_is_no_regular_file_is_refused_without_opening_it() {
    let scratch = Scratch::new();
    let fifo = scratch.at("fifo");
    run("mkfifo", &[fifo.as_os_str()]);
    let path = fifo.clone();
    // The first reader that opens the FIFO lets the writer go on.
    let writer = std::thread::spawn(move || std::fs::File::options().write(true).open(path).unwrap());
    std::thread::sleep(std::time::Duration::from_millis(200));
    for read in [mgmt_sys::trusted::read, mgmt_sys::trusted::read_following] {
        let error = read(fifo.as_os_str().as_encoded_bytes(), 100).unwrap_err();
        assert_eq!(error.found_kind(), Some(Kind::Fifo));
    }
    std::thread::sleep(std::time::Duration::from_millis(50));
    assert!(!writer.is_finished(), "the FIFO was opened");
    let _both = std::fs::File::options().read(true).write(true).open(&fifo).unwrap();
    writer.join().unwrap();
}

#[test]
fn a_copy_can_be_stopped() {
    let scratch = Scratch::new();
    std::fs::write(scratch.at("source"), vec![b'x'; 300_000]).unwrap();
    let parent = scratch.parent();
    let source = parent.open_regular(b"source").unwrap();
    let mut new = Replacement::begin(&parent, b"copy", InPlace::Refuse).unwrap();
    assert!(!new.copy_from_while(&source, || false).unwrap());
    assert!(new.copy_from_while(&source, || true).unwrap());
    drop(new);
    assert_eq!(scratch.names(), ["source"]);
}

#[test]
fn the_same_file_system_in_another_place_is_another_mount() {
    if !in_private_mounts("the_same_file_system_in_another_place_is_another_mount") {
        return;
    }
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.at("a")).unwrap();
    std::fs::create_dir(scratch.at("b")).unwrap();
    let open = |name: &str| Parent::open_itself(&managed(&scratch.at(name))).unwrap();
    assert!(same_mount(&open("a"), &open("b")).unwrap());
    run("mount", &["--bind".as_ref(), scratch.at("a").as_os_str(), scratch.at("b").as_os_str()]);
    assert!(!same_mount(&open("a"), &open("b")).unwrap());
    run("umount", &[scratch.at("b").as_os_str()]);
}
