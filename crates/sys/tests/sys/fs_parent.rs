//! Looking at and changing single entries through the handle of their directory.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, lchown, symlink};
use std::os::unix::net::UnixListener;

use crate::fs_common::{Scratch, UNDECLARED, as_nobody, managed, mode, names};
use mgmt_sys::Kind;
use mgmt_sys::dir::Parent;
use mgmt_sys::error::Cause;
use mgmt_sys::handle::Attributes;
use mgmt_sys::replace::Expect;
use mgmt_sys::xattr;
use rustix::fs::{CWD, FileType, Mode, mkfifoat, mknodat};

#[test]
fn the_parent_of_a_path_is_opened_and_the_root_has_none() {
    let scratch = Scratch::new();
    let parent = Parent::open(&managed(&scratch.at("motd"))).unwrap();
    assert_eq!(parent.stat().unwrap().inode, std::fs::metadata(scratch.path()).unwrap().ino());
    let Err(error) = Parent::open(&mgmt_sys::ManagedPath::new("/").unwrap()) else { panic!("opened") };
    assert_eq!(
        error.to_string(),
        "cannot open the parent of /: the root directory is not an entry of any directory"
    );
}

#[test]
fn missing_parents_can_be_made_on_the_way() {
    let scratch = Scratch::new();
    let path = managed(&scratch.at("a/b/c"));
    assert!(Parent::open(&path).is_err_and(|error| error.is_parent_missing()));
    Parent::open_or_create(&path).unwrap();
    assert!(scratch.at("a/b").is_dir());
    assert!(!scratch.at("a/b/c").exists());
}

#[test]
fn a_regular_file_is_opened_with_what_is_known_of_it() {
    let scratch = Scratch::new();
    std::fs::write(scratch.at("file"), "hello").unwrap();
    std::fs::set_permissions(scratch.at("file"), std::fs::Permissions::from_mode(0o6751)).unwrap();
    std::fs::hard_link(scratch.at("file"), scratch.at("other")).unwrap();
    let file = scratch.parent().open_regular(b"file").unwrap();
    let metadata = std::fs::metadata(scratch.at("file")).unwrap();
    let stat = file.stat();
    assert_eq!((stat.device, stat.inode), (metadata.dev(), metadata.ino()));
    assert_eq!((stat.kind, stat.mode, stat.size, stat.links), (Kind::File, 0o6751, 5, 2));
    assert_eq!((stat.uid, stat.gid), (metadata.uid(), metadata.gid()));
    assert_eq!(
        (stat.modified.seconds, i64::from(stat.modified.nanoseconds)),
        (metadata.mtime(), metadata.mtime_nsec())
    );
    assert_eq!(
        (stat.changed.seconds, i64::from(stat.changed.nanoseconds)),
        (metadata.ctime(), metadata.ctime_nsec())
    );
}

#[test]
fn anything_but_a_regular_file_is_refused_by_its_kind_and_never_hangs() {
    let scratch = Scratch::new();
    mkfifoat(CWD, scratch.at("fifo"), Mode::from_raw_mode(0o666)).unwrap();
    mknodat(
        CWD,
        scratch.at("tty"),
        FileType::CharacterDevice,
        Mode::from_raw_mode(0o666),
        rustix::fs::makedev(5, 0),
    )
    .unwrap();
    mknodat(
        CWD,
        scratch.at("block"),
        FileType::BlockDevice,
        Mode::from_raw_mode(0o666),
        rustix::fs::makedev(250, 77),
    )
    .unwrap();
    let _listener = UnixListener::bind(scratch.at("socket")).unwrap();
    std::fs::create_dir(scratch.at("directory")).unwrap();
    std::fs::write(scratch.at("file"), "").unwrap();
    symlink("file", scratch.at("link")).unwrap();
    let parent = scratch.parent();
    for (name, kind, text) in [
        ("fifo", Kind::Fifo, "a FIFO"),
        ("tty", Kind::CharacterDevice, "a character device"),
        ("block", Kind::BlockDevice, "a block device"),
        ("socket", Kind::Socket, "a socket"),
        ("directory", Kind::Directory, "a directory"),
        ("link", Kind::Symlink, "a symbolic link"),
    ] {
        let Err(error) = parent.open_regular(name.as_bytes()) else { panic!("opened {name}") };
        assert_eq!(error.found_kind(), Some(kind), "{error}");
        let path = scratch.at(name);
        assert_eq!(
            error.to_string(),
            format!("cannot open {}: it is {text}, not a regular file", path.display())
        );
        assert_eq!(parent.lstat_entry(name.as_bytes()).unwrap().unwrap().kind, kind);
        assert_eq!(parent.open_entry(name.as_bytes()).unwrap().stat().kind, kind);
    }
    assert!(
        parent
            .open_regular(b"missing")
            .is_err_and(|error| error.is_not_found() && !error.is_parent_missing())
    );
    assert_eq!(parent.lstat_entry(b"missing").unwrap(), None);
}

#[test]
fn only_a_single_name_is_taken() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.at("d")).unwrap();
    std::fs::write(scratch.at("d/file"), "").unwrap();
    let parent = scratch.parent();
    for name in [&b""[..], b".", b"..", b"d/file", b"/etc/passwd", b"../x", b"a\0b", b"d/", &[b'n'; 256]] {
        assert!(
            parent.open_regular(name).is_err_and(|error| matches!(error.cause(), Cause::Name(_))),
            "{name:?}"
        );
        assert!(parent.open_entry(name).is_err_and(|error| matches!(error.cause(), Cause::Name(_))));
        assert!(parent.open_dir(name).is_err_and(|error| matches!(error.cause(), Cause::Name(_))));
        assert!(parent.lstat_entry(name).is_err_and(|error| matches!(error.cause(), Cause::Name(_))));
        assert!(parent.read_link(name).is_err_and(|error| matches!(error.cause(), Cause::Name(_))));
        assert!(parent.unlink(name).is_err_and(|error| matches!(error.cause(), Cause::Name(_))));
        assert!(parent.rmdir(name).is_err_and(|error| matches!(error.cause(), Cause::Name(_))));
        let linked = parent.create_symlink(name, b"x", Expect::Absent);
        assert!(linked.is_err_and(|error| matches!(error.cause(), Cause::Name(_))));
        let made = parent.make_directory(name, &UNDECLARED);
        assert!(made.is_err_and(|error| matches!(error.cause(), Cause::Name(_))));
    }
    assert!(scratch.at("d/file").exists());
}

#[test]
fn names_that_are_not_text_work_everywhere() {
    let scratch = Scratch::new();
    let parent = scratch.parent();
    let name = b"odd \xff\xfe\n";
    std::fs::write(scratch.at(OsStr::from_bytes(name)), "x").unwrap();
    assert!(parent.open_regular(name).unwrap().equals(b"x").unwrap());
    parent.create_symlink(b"link\xff", name, Expect::Absent).unwrap();
    assert_eq!(parent.read_link(b"link\xff").unwrap(), name);
    parent.make_directory(b"dir\xff", &UNDECLARED).unwrap();
    let inner = parent.open_dir(b"dir\xff").unwrap();
    assert!(!inner.exists(b"\x80").unwrap());
    parent.rmdir(b"dir\xff").unwrap();
    parent.unlink(b"link\xff").unwrap();
    parent.unlink(name).unwrap();
    assert_eq!(scratch.names(), [""; 0]);
    let Err(error) = parent.open_regular(name) else { panic!("opened") };
    let path = scratch.path().display();
    assert_eq!(error.to_string(), format!("cannot open {path}/odd \\xff\\xfe\\n: No such file or directory"));
}

#[test]
fn content_is_compared_to_the_last_byte() {
    let scratch = Scratch::new();
    let parent = scratch.parent();
    // Below, at and beyond one buffer.
    for size in [0_usize, 1, 511, 512, 4096, 128 * 1024, 128 * 1024 + 1, 400_000] {
        let content: Vec<u8> = (0..size).map(|index| (index * 7 % 251) as u8).collect();
        std::fs::write(scratch.at("one"), &content).unwrap();
        std::fs::write(scratch.at("two"), &content).unwrap();
        let one = parent.open_regular(b"one").unwrap();
        assert!(one.equals(&content).unwrap(), "{size}");
        assert!(one.equals_file(&parent.open_regular(b"two").unwrap()).unwrap(), "{size}");
        assert_eq!(one.read(size as u64).unwrap(), content);
        let mut longer = content.clone();
        longer.push(0);
        assert!(!one.equals(&longer).unwrap());
        for place in [0, size / 2, size.saturating_sub(1)] {
            let mut other = content.clone();
            let Some(byte) = other.get_mut(place) else { continue };
            *byte ^= 1;
            assert!(!one.equals(&other).unwrap(), "{size} at {place}");
            std::fs::write(scratch.at("two"), &other).unwrap();
            assert!(!one.equals_file(&parent.open_regular(b"two").unwrap()).unwrap(), "{size} at {place}");
        }
    }
}

#[test]
fn a_file_that_shrinks_while_compared_is_different() {
    let scratch = Scratch::new();
    let parent = scratch.parent();
    std::fs::write(scratch.at("one"), [7; 1000]).unwrap();
    std::fs::write(scratch.at("two"), [7; 1000]).unwrap();
    let one = parent.open_regular(b"one").unwrap();
    let two = parent.open_regular(b"two").unwrap();
    std::fs::write(scratch.at("one"), [7; 10]).unwrap();
    assert!(!one.equals(&[7; 1000]).unwrap());
    assert!(!one.equals_file(&two).unwrap());
    assert!(!two.equals_file(&one).unwrap());
}

#[test]
fn a_file_larger_than_the_limit_is_not_read() {
    let scratch = Scratch::new();
    std::fs::write(scratch.at("file"), "12345").unwrap();
    let file = scratch.parent().open_regular(b"file").unwrap();
    assert_eq!(file.read(5).unwrap(), b"12345");
    let message = file.read(4).unwrap_err().to_string();
    assert!(message.ends_with("file: it is larger than 4 bytes, the limit set for it"), "{message}");
    // One that grows after it was opened.
    std::fs::write(scratch.at("file"), "1234567890").unwrap();
    assert!(file.read(5).is_err());
    // One whose size the kernel does not tell.
    let proc = Parent::open(&mgmt_sys::ManagedPath::new("/proc/version").unwrap()).unwrap();
    let version = proc.open_regular(b"version").unwrap();
    assert_eq!(version.stat().size, 0);
    assert_eq!(version.read(4096).unwrap(), std::fs::read("/proc/version").unwrap());
    assert!(version.read(3).is_err());
}

#[test]
fn a_link_is_made_and_exchanged_in_one_step() {
    let scratch = Scratch::new();
    let parent = scratch.parent();
    std::fs::write(scratch.at("victim"), "precious").unwrap();
    parent.create_symlink(b"link", b"victim", Expect::Absent).unwrap();
    assert_eq!(parent.read_link(b"link").unwrap(), b"victim");
    let raced = parent.create_symlink(b"link", b"other", Expect::Absent).unwrap_err();
    assert!(raced.is_raced(), "{raced}");
    assert_eq!(parent.read_link(b"link").unwrap(), b"victim");
    let seen = parent.lstat_entry(b"link").unwrap().unwrap();
    parent.create_symlink(b"link", b"other", Expect::Same(seen)).unwrap();
    assert_eq!(parent.read_link(b"link").unwrap(), b"other");
    let raced = parent.create_symlink(b"link", b"third", Expect::Same(seen)).unwrap_err();
    assert!(raced.is_raced(), "{raced}");
    let seen = parent.lstat_entry(b"link").unwrap().unwrap();
    lchown(scratch.at("link"), Some(1234), None).unwrap();
    let raced = parent.create_symlink(b"link", b"third", Expect::Same(seen)).unwrap_err();
    assert!(raced.is_raced(), "{raced}");
    parent.create_symlink(b"victim", b"elsewhere", Expect::Anything).unwrap();
    assert_eq!(parent.read_link(b"victim").unwrap(), b"elsewhere");
    std::fs::create_dir(scratch.at("directory")).unwrap();
    parent.create_symlink(b"directory", b"x", Expect::Anything).unwrap_err();
    assert_eq!(scratch.names(), ["directory", "link", "victim"]);
}

#[test]
fn reading_a_link_that_is_none_says_what_it_is() {
    let scratch = Scratch::new();
    std::fs::write(scratch.at("file"), "").unwrap();
    let error = scratch.parent().read_link(b"file").unwrap_err();
    assert_eq!(error.found_kind(), Some(Kind::File));
    assert!(error.to_string().ends_with("file: it is a regular file, not a symbolic link"), "{error}");
    assert!(scratch.parent().read_link(b"none").unwrap_err().is_not_found());
}

#[test]
fn a_directory_is_made_with_its_attributes() {
    let scratch = Scratch::new();
    let parent = scratch.parent();
    let wanted = Attributes { owner: Some(1234), group: Some(2345), mode: Some(0o2751), label: None };
    parent.make_directory(b"full", &wanted).unwrap();
    let metadata = std::fs::metadata(scratch.at("full")).unwrap();
    assert_eq!((metadata.uid(), metadata.gid(), metadata.mode() & 0o7777), (1234, 2345, 0o2751));
    parent.make_directory(b"plain", &UNDECLARED).unwrap();
    std::fs::create_dir(scratch.at("reference")).unwrap();
    let mode_of = |name: &str| std::fs::metadata(scratch.at(name)).unwrap().mode();
    assert_eq!(mode_of("plain"), mode_of("reference"));
    let Err(error) = parent.make_directory(b"plain", &UNDECLARED) else { panic!("made twice") };
    assert!(error.is_exists());
    std::fs::set_permissions(scratch.path(), std::fs::Permissions::from_mode(0o2700)).unwrap();
    parent.make_directory(b"inherits", &UNDECLARED).unwrap();
    assert_eq!(mode_of("inherits") & 0o7777, mode_of("reference") & 0o777 | 0o2000);
}

#[test]
fn going_down_never_follows_a_link() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.at("real")).unwrap();
    symlink("real", scratch.at("link")).unwrap();
    let parent = scratch.parent();
    parent.open_dir(b"real").unwrap();
    let Err(error) = parent.open_dir(b"link") else { panic!("followed") };
    assert_eq!(error.found_kind(), Some(Kind::Symlink));
    assert!(error.to_string().ends_with("link is a symbolic link, not a directory"), "{error}");
}

#[test]
fn removing_takes_the_entry_and_never_what_a_link_points_to() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.at("real")).unwrap();
    std::fs::write(scratch.at("real/file"), "").unwrap();
    symlink("real", scratch.at("link")).unwrap();
    let parent = scratch.parent();
    assert!(parent.rmdir(b"link").is_err());
    parent.unlink(b"link").unwrap();
    assert!(parent.unlink(b"real").is_err());
    assert!(parent.rmdir(b"real").unwrap_err().is_not_empty());
    assert!(parent.unlink(b"link").unwrap_err().is_not_found());
    assert_eq!(names(&scratch.at("real")), ["file"]);
}

#[test]
fn attributes_are_changed_only_where_they_differ() {
    let scratch = Scratch::new();
    std::fs::write(scratch.at("file"), "").unwrap();
    std::fs::create_dir(scratch.at("directory")).unwrap();
    let parent = scratch.parent();
    let wanted = Attributes { owner: Some(1234), group: Some(2345), mode: Some(0o3710), label: None };
    for name in ["file", "directory"] {
        let handle = parent.open_entry(name.as_bytes()).unwrap();
        assert!(handle.set_attributes(&wanted).unwrap(), "{name}");
        let metadata = std::fs::metadata(scratch.at(name)).unwrap();
        assert_eq!((metadata.uid(), metadata.gid(), metadata.mode() & 0o7777), (1234, 2345, 0o3710));
        assert!(!handle.set_attributes(&wanted).unwrap(), "{name}");
        assert_eq!(std::fs::metadata(scratch.at(name)).unwrap().ctime_nsec(), metadata.ctime_nsec());
    }
    let file = parent.open_regular(b"file").unwrap();
    assert!(!file.set_attributes(&wanted).unwrap());
    assert!(file.set_attributes(&mode(0o600)).unwrap());
    let directory = parent.open_dir(b"directory").unwrap();
    assert!(!directory.set_attributes(&wanted).unwrap());
    assert!(directory.set_attributes(&mode(0o700)).unwrap());
}

#[test]
fn the_owner_of_a_link_is_changed_and_not_of_its_target() {
    let scratch = Scratch::new();
    std::fs::write(scratch.at("victim"), "").unwrap();
    symlink("victim", scratch.at("link")).unwrap();
    let handle = scratch.parent().open_entry(b"link").unwrap();
    assert!(handle.set_attributes(&Attributes { owner: Some(1234), ..UNDECLARED }).unwrap());
    assert_eq!(std::fs::symlink_metadata(scratch.at("link")).unwrap().uid(), 1234);
    assert_eq!(std::fs::metadata(scratch.at("victim")).unwrap().uid(), 0);
    assert!(handle.set_attributes(&mode(0o600)).is_err());
    assert_eq!(std::fs::metadata(scratch.at("victim")).unwrap().mode() & 0o777, 0o644);
}

#[test]
fn a_new_owner_does_not_inherit_setuid() {
    let scratch = Scratch::new();
    std::fs::write(scratch.at("file"), "").unwrap();
    let set =
        |bits| std::fs::set_permissions(scratch.at("file"), std::fs::Permissions::from_mode(bits)).unwrap();
    let get = || std::fs::metadata(scratch.at("file")).unwrap().mode() & 0o7777;
    let handle = scratch.parent().open_entry(b"file").unwrap();
    // Setgid without group execute is what the kernel itself would leave.
    for bits in [0o4755, 0o2755, 0o6755, 0o2644] {
        chown(scratch.at("file"), Some(0), Some(0)).unwrap();
        set(bits);
        handle.set_attributes(&Attributes { owner: Some(1234), ..UNDECLARED }).unwrap();
        assert_eq!(get(), bits & 0o777, "{bits:o}");
    }
    chown(scratch.at("file"), Some(0), Some(0)).unwrap();
    handle.set_attributes(&Attributes { owner: Some(1234), mode: Some(0o4755), ..UNDECLARED }).unwrap();
    assert_eq!(get(), 0o4755);
}

#[test]
fn nobody_can_own_the_number_that_means_leave_alone() {
    let scratch = Scratch::new();
    std::fs::write(scratch.at("file"), "").unwrap();
    let handle = scratch.parent().open_entry(b"file").unwrap();
    assert!(handle.set_attributes(&Attributes { owner: Some(u32::MAX), ..UNDECLARED }).is_err());
    assert!(handle.set_attributes(&Attributes { group: Some(u32::MAX), ..UNDECLARED }).is_err());
}

#[test]
fn another_name_of_a_file_planted_where_others_write_is_not_given_away() {
    let scratch = Scratch::new();
    std::fs::write(scratch.at("shadow"), "secret").unwrap();
    std::fs::set_permissions(scratch.at("shadow"), std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::create_dir(scratch.at("home")).unwrap();
    std::fs::hard_link(scratch.at("shadow"), scratch.at("home/file")).unwrap();
    let parent = Parent::open(&managed(&scratch.at("home/file"))).unwrap();
    let give = Attributes { owner: Some(1234), mode: Some(0o644), ..UNDECLARED };
    for (owner, bits) in [(1234, 0o755), (0, 0o777), (0, 0o1777), (0, 0o775)] {
        chown(scratch.at("home"), Some(owner), None).unwrap();
        std::fs::set_permissions(scratch.at("home"), std::fs::Permissions::from_mode(bits)).unwrap();
        for declared in [give, mode(0o644), Attributes { label: Some(b"x"), ..UNDECLARED }] {
            let error = parent.open_entry(b"file").unwrap().set_attributes(&declared).unwrap_err();
            assert_eq!(*error.cause(), Cause::MayBePlanted, "{error}");
            let error = parent.open_regular(b"file").unwrap().set_attributes(&declared).unwrap_err();
            assert_eq!(*error.cause(), Cause::MayBePlanted, "{error}");
        }
        // What is right already needs no change and no trust.
        assert!(!parent.open_entry(b"file").unwrap().set_attributes(&mode(0o600)).unwrap());
    }
    let shadow = std::fs::metadata(scratch.at("shadow")).unwrap();
    assert_eq!((shadow.uid(), shadow.mode() & 0o7777), (0, 0o600));
    // Where only root writes, several names are the administrator's wish.
    std::fs::set_permissions(scratch.at("home"), std::fs::Permissions::from_mode(0o755)).unwrap();
    assert!(parent.open_entry(b"file").unwrap().set_attributes(&give).unwrap());
}

#[test]
fn labels_and_attributes_are_read_set_and_removed() {
    let scratch = Scratch::new();
    std::fs::write(scratch.at("file"), "").unwrap();
    std::fs::create_dir(scratch.at("directory")).unwrap();
    let parent = scratch.parent();
    let file = parent.open_regular(b"file").unwrap();
    let pinned = parent.open_entry(b"file").unwrap();
    assert_eq!(xattr::get(&file, c"user.color").unwrap(), None);
    xattr::set(&file, c"user.color", b"green").unwrap();
    assert_eq!(xattr::get(&pinned, c"user.color").unwrap().unwrap(), b"green");
    let long = vec![b'x'; 3000];
    xattr::set(&pinned, c"user.color", &long).unwrap();
    assert_eq!(xattr::get(&file, c"user.color").unwrap().unwrap(), long);
    assert!(xattr::remove(&pinned, c"user.color").unwrap());
    assert!(!xattr::remove(&file, c"user.color").unwrap());

    let directory = parent.open_dir(b"directory").unwrap();
    let context = b"system_u:object_r:etc_t:s0";
    assert!(directory.set_attributes(&Attributes { label: Some(context), ..UNDECLARED }).unwrap());
    assert!(!directory.set_attributes(&Attributes { label: Some(context), ..UNDECLARED }).unwrap());
    xattr::set(&directory, xattr::SELINUX, b"system_u:object_r:etc_t:s0\0").unwrap();
    assert_eq!(xattr::label(&directory).unwrap().unwrap(), context);
    assert!(!xattr::ensure_label(&directory, context).unwrap());
    assert!(xattr::ensure_label(&directory, b"").unwrap());
    assert_eq!(xattr::label(&directory).unwrap(), None);
    assert!(!xattr::ensure_label(&directory, b"").unwrap());
}

#[test]
fn a_file_system_without_attributes_is_told_apart_from_a_missing_attribute() {
    let proc = Parent::open(&mgmt_sys::ManagedPath::new("/proc/version").unwrap()).unwrap();
    let file = proc.open_regular(b"version").unwrap();
    let error = xattr::get(&file, c"user.color").unwrap_err();
    assert!(error.is_unsupported(), "{error}");
    assert_eq!(xattr::label(&file).unwrap(), None);
    assert!(xattr::ensure_label(&file, b"system_u:object_r:etc_t:s0").is_err());
    assert!(!xattr::ensure_label(&file, b"").unwrap());
}

#[test]
fn a_label_on_a_link_never_reaches_its_target() {
    let scratch = Scratch::new();
    std::fs::write(scratch.at("victim"), "").unwrap();
    symlink("victim", scratch.at("link")).unwrap();
    let parent = scratch.parent();
    let link = parent.open_entry(b"link").unwrap();
    xattr::ensure_label(&link, b"system_u:object_r:etc_t:s0").unwrap();
    assert_eq!(xattr::label(&link).unwrap().unwrap(), b"system_u:object_r:etc_t:s0");
    assert_eq!(xattr::label(&parent.open_regular(b"victim").unwrap()).unwrap(), None);
}

#[test]
fn without_rights_the_errors_are_clean() {
    if !as_nobody("without_rights_the_errors_are_clean") {
        return;
    }
    let Err(error) = Parent::open(&mgmt_sys::ManagedPath::new("/root/no/such").unwrap()) else {
        panic!("opened")
    };
    assert!(error.is_permission_denied(), "{error}");
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.at("closed")).unwrap();
    std::fs::write(scratch.at("unreadable"), "").unwrap();
    std::fs::set_permissions(scratch.at("closed"), std::fs::Permissions::from_mode(0o000)).unwrap();
    std::fs::set_permissions(scratch.at("unreadable"), std::fs::Permissions::from_mode(0o000)).unwrap();
    let parent = scratch.parent();
    assert!(parent.open_regular(b"unreadable").is_err_and(|error| error.is_permission_denied()));
    assert!(parent.open_entry(b"unreadable").unwrap().set_attributes(&mode(0o600)).unwrap());
    let closed = parent.open_dir(b"closed").unwrap();
    assert!(closed.lstat_entry(b"x").unwrap_err().is_permission_denied());
    let give = Attributes { owner: Some(0), ..UNDECLARED };
    let error = parent.open_entry(b"unreadable").unwrap().set_attributes(&give).unwrap_err();
    let path = scratch.at("unreadable");
    assert_eq!(
        error.to_string(),
        format!("cannot change the owner of {}: Operation not permitted", path.display())
    );
    // Links of our own are as trusted as those of root.
    symlink("closed", scratch.at("link")).unwrap();
    Parent::open(&managed(&scratch.at("link/x"))).unwrap();
    std::fs::set_permissions(scratch.at("closed"), std::fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn what_is_changed_is_what_was_opened_even_if_the_name_moves_on() {
    let scratch = Scratch::new();
    std::fs::write(scratch.at("file"), "").unwrap();
    std::fs::write(scratch.at("victim"), "").unwrap();
    let handle = scratch.parent().open_entry(b"file").unwrap();
    std::fs::rename(scratch.at("file"), scratch.at("moved")).unwrap();
    symlink("victim", scratch.at("file")).unwrap();
    lchown(scratch.at("file"), Some(1234), None).unwrap();
    handle.set_attributes(&mode(0o4711)).unwrap();
    let mode_of = |name: &str| std::fs::metadata(scratch.at(name)).unwrap().mode() & 0o7777;
    assert_eq!((mode_of("moved"), mode_of("victim")), (0o4711, 0o644));
}
