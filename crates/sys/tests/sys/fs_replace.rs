//! Replacing files: whole or not at all, with the right attributes, and never through a name of something else.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use crate::fs_common;
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::fs_common::{Scratch, UNDECLARED, as_nobody, mode, replace};
use mgmt_sys::handle::Attributes;
use mgmt_sys::replace::{Durability, Expect, InPlace, Replacement, is_temporary, sweep_temporaries};
use mgmt_sys::{Kind, xattr};
use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};

#[test]
fn a_missing_file_is_created_with_its_attributes() {
    let scratch = Scratch::new();
    let parent = scratch.parent();
    let declared =
        Attributes { owner: Some(1234), group: Some(2345), mode: Some(0o4751), label: Some(b"a:b:c:s0") };
    let stat = replace(&parent, "file", b"new", &declared, Expect::Absent).unwrap();
    assert_eq!((stat.uid, stat.gid, stat.mode, stat.size, stat.links), (1234, 2345, 0o4751, 3, 1));
    assert_eq!(std::fs::read(scratch.at("file")).unwrap(), b"new");
    assert_eq!(parent.lstat_entry(b"file").unwrap().unwrap(), stat);
    assert_eq!(xattr::label(&parent.open_entry(b"file").unwrap()).unwrap().unwrap(), b"a:b:c:s0");
    assert_eq!(scratch.names(), ["file"]);
}

#[test]
fn without_a_declaration_a_new_file_has_the_usual_mode() {
    let scratch = Scratch::new();
    std::fs::write(scratch.at("reference"), "").unwrap();
    let stat = replace(&scratch.parent(), "file", b"", &UNDECLARED, Expect::Absent).unwrap();
    assert_eq!(stat.mode, std::fs::metadata(scratch.at("reference")).unwrap().mode() & 0o7777);
}

#[test]
fn every_durability_puts_the_same_content_in_place() {
    let scratch = Scratch::new();
    let parent = scratch.parent();
    for (durability, content) in
        [(Durability::Full, "1"), (Durability::Data, "22"), (Durability::None, "333")]
    {
        let mut new = Replacement::begin(&parent, b"file", InPlace::Refuse).unwrap();
        new.write_all(content.as_bytes()).unwrap();
        new.commit(&UNDECLARED, Expect::Anything, durability).unwrap();
        assert_eq!(std::fs::read_to_string(scratch.at("file")).unwrap(), content);
    }
}

#[test]
fn content_comes_from_bytes_files_and_streams_in_order() {
    let scratch = Scratch::new();
    let parent = scratch.parent();
    let big: Vec<u8> = (0..300_000_u32).map(|index| (index % 253) as u8).collect();
    std::fs::write(scratch.at("big"), &big).unwrap();
    std::fs::write(scratch.at("empty"), "").unwrap();
    let mut new = Replacement::begin(&parent, b"file", InPlace::Refuse).unwrap();
    new.write_all(b"first ").unwrap();
    new.copy_from(&parent.open_regular(b"big").unwrap()).unwrap();
    new.copy_from(&parent.open_regular(b"empty").unwrap()).unwrap();
    assert_eq!(new.copy_from_reader(&mut &b" last"[..]).unwrap(), 5);
    let proc = mgmt_sys::dir::Parent::open(&mgmt_sys::ManagedPath::new("/proc/version").unwrap()).unwrap();
    new.copy_from(&proc.open_regular(b"version").unwrap()).unwrap();
    new.commit(&UNDECLARED, Expect::Absent, Durability::None).unwrap();
    let version = std::fs::read("/proc/version").unwrap();
    let expected = [b"first ", &big[..], b" last", &version].concat();
    assert!(std::fs::read(scratch.at("file")).unwrap() == expected);
}

#[test]
fn a_stream_that_fails_leaves_everything_as_it_was() {
    struct Broken;
    impl std::io::Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("the wire was cut"))
        }
    }
    let scratch = Scratch::new();
    let parent = scratch.parent();
    std::fs::write(scratch.at("file"), "old").unwrap();
    let mut new = Replacement::begin(&parent, b"file", InPlace::Refuse).unwrap();
    let error = new.copy_from_reader(&mut b"some".chain(Broken)).unwrap_err();
    assert!(error.to_string().ends_with("file: reading the new content failed: the wire was cut"), "{error}");
    drop(new);
    assert_eq!(std::fs::read(scratch.at("file")).unwrap(), b"old");
    assert_eq!(scratch.names(), ["file"]);
}

#[test]
fn a_dropped_replacement_leaves_nothing_behind() {
    let scratch = Scratch::new();
    let parent = scratch.parent();
    let mut new = Replacement::begin(&parent, b"file", InPlace::Refuse).unwrap();
    new.write_all(b"half").unwrap();
    assert!(scratch.names().iter().all(|name| is_temporary(name.as_bytes())));
    drop(new);
    assert_eq!(scratch.names(), [""; 0]);
}

/// Whether the file system can make files without a name; else they have one, and are renamed.
fn makes_unnamed(scratch: &Scratch) -> bool {
    let flags = rustix::fs::OFlags::TMPFILE | rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::CLOEXEC;
    rustix::fs::open(scratch.path(), flags, rustix::fs::Mode::RUSR).is_ok()
}

fn begin_new<'a>(parent: &'a mgmt_sys::dir::Parent, content: &[u8], mode: u32) -> Replacement<'a> {
    let mut new = Replacement::begin_new(parent, b"file", InPlace::Refuse, mode).unwrap();
    new.write_all(content).unwrap();
    new
}

#[test]
fn a_new_file_has_no_name_until_it_is_complete() {
    for scratch in [Scratch::new(), Scratch::in_memory()] {
        let parent = scratch.parent();
        let new = begin_new(&parent, b"half", 0o644);
        assert!(!makes_unnamed(&scratch) || scratch.names().is_empty());
        drop(new);
        assert_eq!(scratch.names(), [""; 0]);

        let declared =
            Attributes { owner: Some(1234), group: Some(2345), mode: Some(0o4751), label: Some(b"a:b:c:s0") };
        // A file system in memory may not take labels of this kind.
        let declared = if scratch.path().starts_with("/dev/shm") {
            Attributes { label: None, ..declared }
        } else {
            declared
        };
        let (stat, made) = mgmt_sys::made::noting(|| {
            begin_new(&parent, b"new", 0o4751).commit(&declared, Expect::Absent, Durability::Full).unwrap()
        });
        assert_eq!((stat.uid, stat.gid, stat.mode, stat.size, stat.links), (1234, 2345, 0o4751, 3, 1));
        assert_eq!(parent.lstat_entry(b"file").unwrap().unwrap(), stat);
        assert_eq!(std::fs::read(scratch.at("file")).unwrap(), b"new");
        assert_eq!(scratch.names(), ["file"]);
        if makes_unnamed(&scratch) {
            let path = std::os::unix::ffi::OsStrExt::as_bytes(scratch.at("file").as_os_str()).into();
            assert_eq!(made, mgmt_sys::made::Made::One(path));
        }
    }
}

#[test]
fn a_new_file_has_the_declared_mode_whatever_was_expected() {
    let scratch = Scratch::new();
    let parent = scratch.parent();
    for (expected, declared) in [(0o644, 0o644), (0o644, 0o600), (0o777, 0o777), (0o600, 0o6755), (0, 0o444)]
    {
        let new = begin_new(&parent, b"x", expected);
        let stat = new.commit(&mode(declared), Expect::Absent, Durability::None).unwrap();
        assert_eq!(stat.mode, declared, "{expected:o}");
        std::fs::remove_file(scratch.at("file")).unwrap();
    }
}

#[test]
fn a_new_file_never_takes_the_place_of_one_that_appeared() {
    let scratch = Scratch::new();
    let parent = scratch.parent();
    let new = begin_new(&parent, b"ours", 0o644);
    std::fs::write(scratch.at("file"), "theirs").unwrap();
    let (error, made) =
        mgmt_sys::made::noting(|| new.commit(&UNDECLARED, Expect::Absent, Durability::None).unwrap_err());
    assert!(error.is_raced(), "{error}");
    assert_eq!(made, mgmt_sys::made::Made::Nothing);
    assert_eq!(std::fs::read(scratch.at("file")).unwrap(), b"theirs");
    assert_eq!(scratch.names(), ["file"]);
}

#[test]
fn a_file_without_a_name_can_replace_another_after_all() {
    let scratch = Scratch::new();
    let parent = scratch.parent();
    let seen = replace(&parent, "file", b"old", &mode(0o640), Expect::Absent).unwrap();
    let (stat, made) = mgmt_sys::made::noting(|| {
        begin_new(&parent, b"newer", 0o644).commit(&UNDECLARED, Expect::Same(seen), Durability::None).unwrap()
    });
    assert_eq!((stat.mode, stat.size), (0o640, 5));
    assert_eq!(made, mgmt_sys::made::Made::Nothing);
    assert_eq!(std::fs::read(scratch.at("file")).unwrap(), b"newer");
    assert_eq!(scratch.names(), ["file"]);
}

#[test]
fn what_is_not_declared_is_carried_over() {
    let scratch = Scratch::new();
    let parent = scratch.parent();
    std::fs::write(scratch.at("file"), "old").unwrap();
    chown(scratch.at("file"), Some(1234), Some(2345)).unwrap();
    std::fs::set_permissions(scratch.at("file"), std::fs::Permissions::from_mode(0o4750)).unwrap();
    let old = parent.open_entry(b"file").unwrap();
    xattr::set(&old, c"user.color", b"green").unwrap();
    xattr::set(&old, c"user.empty", b"").unwrap();
    xattr::set(&old, xattr::SELINUX, b"system_u:object_r:etc_t:s0\0").unwrap();
    xattr::set(&old, c"trusted.secret", b"x").unwrap();
    // A capability vouches for the old content and must not pass to the new one.
    let capability = [&0x0200_0000_u32.to_le_bytes()[..], &[0xff; 16]].concat();
    xattr::set(&old, c"security.capability", &capability).unwrap();

    let stat = replace(&parent, "file", b"new", &UNDECLARED, Expect::Anything).unwrap();
    assert_eq!((stat.uid, stat.gid, stat.mode), (1234, 2345, 0o4750));
    let new = parent.open_entry(b"file").unwrap();
    assert_eq!(xattr::get(&new, c"user.color").unwrap().unwrap(), b"green");
    assert_eq!(xattr::get(&new, c"user.empty").unwrap().unwrap(), b"");
    assert_eq!(xattr::label(&new).unwrap().unwrap(), b"system_u:object_r:etc_t:s0");
    assert_eq!(xattr::get(&new, c"trusted.secret").unwrap(), None);
    assert_eq!(xattr::get(&new, c"security.capability").unwrap(), None);

    let declared = Attributes { owner: Some(7), group: None, mode: None, label: Some(b"") };
    let stat = replace(&parent, "file", b"newer", &declared, Expect::Same(stat)).unwrap();
    assert_eq!((stat.uid, stat.gid, stat.mode), (7, 2345, 0o750));
    let newer = parent.open_entry(b"file").unwrap();
    assert_eq!(xattr::label(&newer).unwrap(), None);
    assert_eq!(xattr::get(&newer, c"user.color").unwrap().unwrap(), b"green");
}

/// An access list as the kernel stores it: user 1000 may do `user`, within `mask`.
fn access_list(mode: u16, user: u16) -> Vec<u8> {
    let nobody = u32::MAX;
    let entries = [
        (1, mode >> 6 & 7, nobody),
        (2, user, 1000),
        (4, 0, nobody),
        (16, mode >> 3 & 7, nobody),
        (32, mode & 7, nobody),
    ];
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        list.extend(u16::to_le_bytes(tag));
        list.extend(permissions.to_le_bytes());
        list.extend(u32::to_le_bytes(id));
    }
    list
}

#[test]
fn an_access_list_is_carried_over_within_the_mode() {
    let scratch = Scratch::new();
    let parent = scratch.parent();
    std::fs::write(scratch.at("file"), "old").unwrap();
    xattr::set(&parent.open_entry(b"file").unwrap(), xattr::ACCESS_LIST, &access_list(0o664, 7)).unwrap();
    let list = || xattr::get(&parent.open_entry(b"file").unwrap(), xattr::ACCESS_LIST).unwrap();
    replace(&parent, "file", b"new", &UNDECLARED, Expect::Anything).unwrap();
    assert_eq!(list().unwrap(), access_list(0o664, 7));
    let stat = replace(&parent, "file", b"newer", &mode(0o640), Expect::Anything).unwrap();
    assert_eq!((list().unwrap(), stat.mode), (access_list(0o640, 7), 0o640));
    let stat = replace(&parent, "file", b"newest", &mode(0o600), Expect::Anything).unwrap();
    assert_eq!((list().unwrap(), stat.mode), (access_list(0o600, 7), 0o600));
}

#[test]
fn a_list_that_the_directory_gives_new_files_does_not_open_an_old_one() {
    let scratch = Scratch::new();
    let parent = scratch.parent();
    replace(&parent, "file", b"old", &mode(0o640), Expect::Absent).unwrap();
    xattr::set(&parent, c"system.posix_acl_default", &access_list(0o775, 7)).unwrap();
    replace(&parent, "file", b"new", &UNDECLARED, Expect::Anything).unwrap();
    let list = |name: &[u8]| xattr::get(&parent.open_entry(name).unwrap(), xattr::ACCESS_LIST).unwrap();
    assert_eq!(list(b"file"), None);
    // A file that is new gets what the directory gives, within its mode.
    let stat = replace(&parent, "fresh", b"", &mode(0o640), Expect::Absent).unwrap();
    assert_eq!((list(b"fresh").unwrap(), stat.mode), (access_list(0o640, 7), 0o640));
}

#[test]
fn other_names_of_the_old_file_keep_the_old_content() {
    let scratch = Scratch::new();
    let parent = scratch.parent();
    std::fs::write(scratch.at("shadow"), "precious").unwrap();
    std::fs::set_permissions(scratch.at("shadow"), std::fs::Permissions::from_mode(0o4700)).unwrap();
    std::fs::hard_link(scratch.at("shadow"), scratch.at("file")).unwrap();
    let declared = Attributes { owner: Some(1234), ..UNDECLARED };
    let stat = replace(&parent, "file", b"new", &declared, Expect::Anything).unwrap();
    assert_eq!((stat.links, stat.mode, stat.uid), (1, 0o700, 1234));
    assert_eq!(std::fs::read(scratch.at("shadow")).unwrap(), b"precious");
    let shadow = std::fs::metadata(scratch.at("shadow")).unwrap();
    assert_eq!((shadow.uid(), shadow.mode() & 0o7777, shadow.nlink()), (0, 0o4700, 1));
}

#[test]
fn a_link_at_the_target_is_replaced_and_never_written_through() {
    let scratch = Scratch::new();
    let parent = scratch.parent();
    std::fs::write(scratch.at("victim"), "precious").unwrap();
    chown(scratch.at("victim"), Some(1234), None).unwrap();
    symlink("victim", scratch.at("file")).unwrap();
    let seen = parent.lstat_entry(b"file").unwrap().unwrap();
    assert_eq!(seen.kind, Kind::Symlink);
    let stat = replace(&parent, "file", b"new", &mode(0o600), Expect::Same(seen)).unwrap();
    assert_eq!((stat.kind, stat.uid), (Kind::File, 0));
    assert_eq!(std::fs::read(scratch.at("victim")).unwrap(), b"precious");
    std::fs::remove_file(scratch.at("file")).unwrap();
    symlink("nowhere", scratch.at("file")).unwrap();
    replace(&parent, "file", b"new", &mode(0o600), Expect::Anything).unwrap();
    assert!(!scratch.at("nowhere").exists());
    assert_eq!(std::fs::read(scratch.at("file")).unwrap(), b"new");
}

#[test]
fn a_directory_is_never_replaced() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.at("file")).unwrap();
    let error = replace(&scratch.parent(), "file", b"new", &UNDECLARED, Expect::Anything).unwrap_err();
    let path = scratch.at("file");
    assert_eq!(error.to_string(), format!("cannot replace {}: Is a directory", path.display()));
    assert_eq!(scratch.names(), ["file"]);
}

#[test]
fn whatever_changed_since_it_was_seen_stays() {
    let scratch = Scratch::new();
    let parent = scratch.parent();
    std::fs::write(scratch.at("file"), "old").unwrap();
    type Change<'a> = (&'a str, &'a dyn Fn());
    let path = scratch.at("file");
    let changes: [Change<'_>; 6] = [
        ("written", &|| std::fs::write(&path, "own").unwrap()),
        ("mode", &|| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o611)).unwrap()),
        ("replaced", &|| {
            std::fs::write(scratch.at("x"), "own").unwrap();
            std::fs::rename(scratch.at("x"), &path).unwrap();
        }),
        ("removed", &|| std::fs::remove_file(&path).unwrap()),
        ("link", &|| {
            let _ = std::fs::remove_file(&path);
            symlink("nowhere", &path).unwrap();
        }),
        ("directory", &|| {
            let _ = std::fs::remove_file(&path);
            std::fs::create_dir(&path).unwrap();
        }),
    ];
    for early in [true, false] {
        for (what, change) in changes {
            let _ = std::fs::remove_dir(&path);
            let _ = std::fs::remove_file(&path);
            std::fs::write(&path, "old").unwrap();
            let seen = *parent.open_regular(b"file").unwrap().stat();
            let mut new = Replacement::begin(&parent, b"file", InPlace::Allow).unwrap();
            if early {
                change();
            }
            new.write_all(b"new").unwrap();
            if !early {
                change();
            }
            let now = parent.lstat_entry(b"file").unwrap();
            let error = new.commit(&UNDECLARED, Expect::Same(seen), Durability::None).unwrap_err();
            assert!(error.is_raced(), "{what}: {error}");
            assert_eq!(parent.lstat_entry(b"file").unwrap(), now, "{what}");
        }
    }
    let _ = std::fs::remove_dir(&path);
    for change in
        [&(|| std::fs::write(&path, "own").unwrap()) as &dyn Fn(), &|| symlink("nowhere", &path).unwrap()]
    {
        let new = Replacement::begin(&parent, b"file", InPlace::Allow).unwrap();
        change();
        let now = parent.lstat_entry(b"file").unwrap();
        let error = new.commit(&UNDECLARED, Expect::Absent, Durability::None).unwrap_err();
        assert!(error.is_raced(), "{error}");
        assert_eq!(parent.lstat_entry(b"file").unwrap(), now);
        std::fs::remove_file(&path).unwrap();
    }
    assert_eq!(scratch.names(), [""; 0]);
}

#[test]
fn a_temporary_that_someone_took_away_is_a_race() {
    let scratch = Scratch::new();
    let parent = scratch.parent();
    std::fs::write(scratch.at("file"), "old").unwrap();
    let new = Replacement::begin(&parent, b"file", InPlace::Refuse).unwrap();
    let temporary = scratch.names().into_iter().find(|name| is_temporary(name.as_bytes())).unwrap();
    std::fs::remove_file(scratch.at(temporary)).unwrap();
    assert!(new.commit(&UNDECLARED, Expect::Anything, Durability::None).unwrap_err().is_raced());
    assert_eq!(std::fs::read(scratch.at("file")).unwrap(), b"old");
}

#[test]
fn an_immutable_file_is_left_alone_with_a_clear_error() {
    struct Immutable(std::fs::File);
    impl Drop for Immutable {
        fn drop(&mut self) {
            ioctl_setflags(&self.0, ioctl_getflags(&self.0).unwrap() - IFlags::IMMUTABLE).unwrap();
        }
    }
    let scratch = Scratch::new();
    std::fs::write(scratch.at("file"), "old").unwrap();
    let file = std::fs::File::open(scratch.at("file")).unwrap();
    ioctl_setflags(&file, ioctl_getflags(&file).unwrap() | IFlags::IMMUTABLE).unwrap();
    let immutable = Immutable(file);
    let error = replace(&scratch.parent(), "file", b"new", &UNDECLARED, Expect::Anything).unwrap_err();
    assert!(error.is_permission_denied());
    let path = scratch.at("file");
    assert_eq!(error.to_string(), format!("cannot replace {}: Operation not permitted", path.display()));
    assert_eq!(std::fs::read(scratch.at("file")).unwrap(), b"old");
    assert_eq!(scratch.names(), ["file"]);
    drop(immutable);
}

#[test]
fn a_secret_is_closed_until_it_is_in_place() {
    let scratch = Scratch::in_memory();
    let parent = scratch.parent();
    std::fs::write(scratch.at("file"), "old").unwrap();
    std::fs::set_permissions(scratch.at("file"), std::fs::Permissions::from_mode(0o666)).unwrap();
    xattr::set(&parent.open_entry(b"file").unwrap(), xattr::ACCESS_LIST, &access_list(0o666, 7)).unwrap();
    let mut new = Replacement::begin(&parent, b"file", InPlace::Refuse).unwrap();
    new.write_all(b"secret").unwrap();
    let temporary = scratch.names().into_iter().find(|name| is_temporary(name.as_bytes())).unwrap();
    let metadata = std::fs::metadata(scratch.at(temporary)).unwrap();
    assert_eq!((metadata.uid(), metadata.mode() & 0o7777), (0, 0o600));
    drop(new);

    // A watcher looks at every temporary it can find while many are made: so many, and until it has seen some.
    let done = AtomicBool::new(false);
    let looked = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                for entry in std::fs::read_dir(scratch.path()).unwrap().flatten() {
                    if is_temporary(entry.file_name().as_encoded_bytes())
                        && let Ok(metadata) = entry.metadata()
                    {
                        assert_eq!(metadata.mode() & 0o077, 0, "seen with mode {:o}", metadata.mode());
                        looked.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
        });
        let patience = std::time::Instant::now() + std::time::Duration::from_secs(120);
        let mut made = 0;
        while !watcher.is_finished()
            && (made < 3000 || looked.load(Ordering::Relaxed) == 0)
            && std::time::Instant::now() < patience
        {
            // An open file to replace, which was never a temporary: the kernel reads a mode after it has found the name, and by then
            // the temporary may be in place.
            std::fs::write(scratch.at("open"), "old").unwrap();
            std::fs::set_permissions(scratch.at("open"), std::fs::Permissions::from_mode(0o666)).unwrap();
            std::fs::rename(scratch.at("open"), scratch.at("file")).unwrap();
            let declared = Attributes { owner: Some(1234), mode: Some(0o600), ..UNDECLARED };
            replace(&parent, "file", b"secret", &declared, Expect::Anything).unwrap();
            made += 1;
        }
        done.store(true, Ordering::Relaxed);
        watcher.join().unwrap();
    });
    assert!(looked.into_inner() > 0, "the watcher never saw a temporary, so this proved nothing");
}

#[test]
fn another_user_never_reads_a_secret() {
    let scratch = Scratch::in_memory();
    std::fs::set_permissions(scratch.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let parent = scratch.parent();
    // Reads everything it can until told to stop, and says so when it was anything but the old content.
    let script =
        "cd \"$1\" && : && while [ ! -e stop ]; do cat .mgmt-*.tmp file; done 2>/dev/null | grep -c canary";
    std::fs::write(scratch.at("file"), "old").unwrap();
    let reader = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--", "sh", "-c", script, "sh"])
        .arg(scratch.path())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("this test needs setpriv");
    for _ in 0..3000 {
        replace(&parent, "file", b"canary\n", &mode(0o600), Expect::Anything).unwrap();
        replace(&parent, "file", b"public\n", &mode(0o644), Expect::Anything).unwrap();
    }
    std::fs::write(scratch.at("stop"), "").unwrap();
    let output = reader.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "0");
}

#[test]
fn left_over_temporaries_are_swept_and_live_ones_are_not() {
    let scratch = Scratch::new();
    let parent = scratch.parent();
    let left = [".mgmt-0000000000000000.tmp", ".mgmt-00000000000000ff.tmp"];
    for name in left {
        std::fs::write(scratch.at(name), "half").unwrap();
    }
    symlink("motd", scratch.at(".mgmt-0000000000000100.tmp")).unwrap();
    let others =
        [".mgmt-0000000000000001.tmp", ".mgmt-0000000000000002.tmp", ".mgmt-0000000000000003.tmp", "motd"];
    std::fs::write(scratch.at(others[0]), "another user's").unwrap();
    chown(scratch.at(others[0]), Some(1234), None).unwrap();
    std::fs::create_dir(scratch.at(others[1])).unwrap();
    symlink("motd", scratch.at(others[2])).unwrap();
    std::os::unix::fs::lchown(scratch.at(others[2]), Some(1234), None).unwrap();
    std::fs::write(scratch.at(others[3]), "").unwrap();
    let mut live = Replacement::begin(&parent, b"file", InPlace::Refuse).unwrap();
    live.write_all(b"new").unwrap();
    assert_eq!(sweep_temporaries(&parent).unwrap(), 3);
    assert_eq!(sweep_temporaries(&parent).unwrap(), 0);
    live.commit(&UNDECLARED, Expect::Absent, Durability::None).unwrap();
    assert_eq!(std::fs::read(scratch.at("file")).unwrap(), b"new");
    assert_eq!(scratch.names(), [others[0], others[1], others[2], "file", "motd"]);
}

#[test]
fn sweeping_at_the_same_time_never_harms_a_replacement() {
    let scratch = Scratch::in_memory();
    let parent = scratch.parent();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let sweeper = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                sweep_temporaries(&parent).unwrap();
            }
        });
        for round in 0..3000_u32 {
            let content = round.to_le_bytes();
            // Caught in the instant between its creation and its lock, a replacement is raced; nothing else.
            match replace(&parent, "file", &content, &UNDECLARED, Expect::Anything) {
                Ok(_) => assert_eq!(std::fs::read(scratch.at("file")).unwrap(), content),
                Err(error) => assert!(error.is_raced(), "{error}"),
            }
        }
        done.store(true, Ordering::Relaxed);
        sweeper.join().unwrap();
    });
    assert_eq!(scratch.names(), ["file"]);
}

#[test]
fn sweeping_at_the_same_time_never_harms_a_link() {
    let scratch = Scratch::in_memory();
    let parent = scratch.parent();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let sweeper = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                sweep_temporaries(&parent).unwrap();
            }
        });
        for round in 0..3000_u32 {
            let target = round.to_string();
            // While somebody sweeps, the directory cannot be held; the next sweep then may make it raced, and nothing else.
            match parent.create_symlink(b"link", target.as_bytes(), Expect::Anything) {
                Ok(()) => {
                    assert_eq!(std::fs::read_link(scratch.at("link")).unwrap().to_str(), Some(&target[..]));
                }
                Err(error) => assert!(error.is_raced(), "{error}"),
            }
        }
        done.store(true, Ordering::Relaxed);
        sweeper.join().unwrap();
    });
    assert_eq!(scratch.names(), ["link"]);
}

#[test]
fn a_left_over_link_is_swept_while_others_are_made() {
    let scratch = Scratch::in_memory();
    let parent = scratch.parent();
    symlink("motd", scratch.at(".mgmt-0000000000000100.tmp")).unwrap();
    // As whoever makes a link does, here for longer than the sweep takes to ask.
    let directory = std::fs::File::open(scratch.path()).unwrap();
    directory.lock_shared().unwrap();
    std::thread::scope(|scope| {
        let swept = scope.spawn(|| sweep_temporaries(&parent).unwrap());
        std::thread::sleep(std::time::Duration::from_millis(5));
        directory.unlock().unwrap();
        assert_eq!(swept.join().unwrap(), 1);
    });
    assert_eq!(scratch.names(), [""; 0]);
    // Whoever never lets go keeps what is left over, and nobody.
    symlink("motd", scratch.at(".mgmt-0000000000000100.tmp")).unwrap();
    directory.lock_shared().unwrap();
    assert_eq!(sweep_temporaries(&parent).unwrap(), 0);
}

#[test]
fn a_killed_process_leaves_the_old_file_or_the_new_one() {
    const NAME: &str = "a_killed_process_leaves_the_old_file_or_the_new_one";
    const SIZE: usize = 200_000;
    if let Some(directory) = std::env::var_os("MGMT_TEST_REPLACE_FOR_EVER") {
        let parent = mgmt_sys::dir::Parent::open_itself(&fs_common::managed(directory.as_ref())).unwrap();
        loop {
            replace(&parent, "file", &[b'a'; SIZE], &UNDECLARED, Expect::Anything).unwrap();
            replace(&parent, "file", &[b'b'; SIZE], &UNDECLARED, Expect::Anything).unwrap();
        }
    }
    let scratch = Scratch::in_memory();
    let parent = scratch.parent();
    std::fs::write(scratch.at("file"), [b'a'; SIZE]).unwrap();
    let mut swept = 0;
    for round in 0..40_u64 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &mgmt_test_support::current_test::sibling(NAME), "--nocapture"])
            .env("MGMT_TEST_REPLACE_FOR_EVER", scratch.path())
            .stdout(std::process::Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        // Until the child is at work; then a different moment in each round.
        let before = std::fs::metadata(scratch.at("file")).unwrap().ino();
        while std::fs::metadata(scratch.at("file")).unwrap().ino() == before {
            std::thread::yield_now();
        }
        std::thread::sleep(std::time::Duration::from_micros(37 * round));
        child.kill().unwrap();
        child.wait().unwrap();
        let content = std::fs::read(scratch.at("file")).unwrap();
        assert_eq!(content.len(), SIZE);
        assert!(content.iter().all(|&byte| byte == content[0]), "a mixture in round {round}");
        swept += sweep_temporaries(&parent).unwrap();
        assert_eq!(scratch.names(), ["file"]);
    }
    assert!(swept > 0, "no child was killed in the middle, so this proved nothing");
}

#[test]
fn without_the_right_to_keep_the_owner_nothing_is_replaced() {
    if !as_nobody("without_the_right_to_keep_the_owner_nothing_is_replaced") {
        return;
    }
    let scratch = Scratch::new();
    let parent = scratch.parent();
    std::fs::write(scratch.at("file"), "old").unwrap();
    std::fs::set_permissions(scratch.at("file"), std::fs::Permissions::from_mode(0o000)).unwrap();
    let give = Attributes { owner: Some(0), ..UNDECLARED };
    let error = replace(&parent, "file", b"new", &give, Expect::Anything).unwrap_err();
    assert!(error.is_permission_denied(), "{error}");
    assert_eq!(scratch.names(), ["file"]);
    // A file of our own that we may not read can still be replaced and keeps its mode.
    let stat = replace(&parent, "file", b"new", &UNDECLARED, Expect::Anything).unwrap();
    assert_eq!(stat.mode, 0);
    std::fs::set_permissions(scratch.at("file"), std::fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(std::fs::read(scratch.at("file")).unwrap(), b"new");
}
