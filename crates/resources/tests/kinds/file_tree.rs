//! Whole directories: copying them and purging them.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use crate::file_common;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::file_common::{TestEnv, run};
use mgmt_resource::{Checked, GraphView, Id, Resource};
use mgmt_resources::file::{File, Memory};
use mgmt_value::Str;

fn copy(world: &TestEnv) -> File {
    File { source: world.path("source/"), recurse: true, ..world.exists("d/") }
}

fn purge(world: &TestEnv) -> File {
    File { recurse: true, purge: true, ..world.exists("d/") }
}

fn source(world: &TestEnv) {
    world.write("source/a", "a");
    world.write("source/sub/b", "b");
    world.write("source/sub/deep/c", "c");
    world.set_mode("source/a", 0o4711);
    world.set_mode("source/sub", 0o1770);
    std::fs::create_dir(world.at("source/empty")).unwrap();
    world.link("source/link", "sub/b");
    world.link("source/to-directory", "sub");
    world.link("source/dangling", "nowhere");
}

#[test]
fn a_tree_is_copied_with_its_modes_and_links() {
    let world = TestEnv::new();
    source(&world);
    world.converges(&copy(&world));
    assert_eq!(world.names("d"), world.names("source"));
    assert_eq!(world.read("d/sub/deep/c"), b"c");
    assert_eq!((world.mode("d/a"), world.mode("d/sub")), (0o711, 0o1770));
    for (name, text) in [("link", "sub/b"), ("to-directory", "sub"), ("dangling", "nowhere")] {
        assert_eq!(std::fs::read_link(world.at("d").join(name)).unwrap().as_os_str(), OsStr::new(text));
    }
    assert_eq!(world.mode("d/empty"), world.mode("source/empty"));
}

#[test]
fn a_directory_that_hands_down_its_group_does_so_in_a_copy() {
    let world = TestEnv::new();
    source(&world);
    std::fs::create_dir(world.at("d")).unwrap();
    world.set_owner("d", 0, 8);
    world.set_mode("d", 0o2755);
    world.converges(&copy(&world));
    assert_eq!((world.owner("d/sub/deep/c"), world.mode("d/sub")), ((0, 8), 0o3770));
}

#[test]
fn drift_anywhere_in_a_copied_tree_is_repaired() {
    let world = TestEnv::new();
    source(&world);
    let file = copy(&world);
    world.converges(&file);
    world.write("d/sub/deep/c", "C");
    world.converges(&file);
    run("rm", &["-r".as_ref(), world.at("d/sub").as_os_str()]);
    world.converges(&file);
    std::fs::remove_file(world.at("d/link")).unwrap();
    world.link("d/link", "elsewhere");
    world.converges(&file);
    world.write("source/sub/new", "new");
    world.converges(&file);
    assert_eq!(world.read("d/sub/new"), b"new");
    run("rm", &["-r".as_ref(), world.at("d").as_os_str()]);
    world.converges(&file);
}

#[test]
fn what_the_source_does_not_have_stays_unless_purged() {
    let world = TestEnv::new();
    source(&world);
    world.write("d/kept", "");
    world.write("d/sub/kept", "");
    world.write("d/other/kept", "");
    world.converges(&copy(&world));
    assert!(world.is_there("d/kept") && world.is_there("d/sub/kept") && world.is_there("d/other/kept"));
    world.converges(&File { purge: true, ..copy(&world) });
    assert_eq!(world.names("d"), world.names("source"));
    assert_eq!(world.names("d/sub"), world.names("source/sub"));
}

#[test]
fn a_purged_directory_without_source_becomes_empty() {
    let world = TestEnv::new();
    world.write("outside/kept", "kept");
    world.write("d/f", "");
    world.write("d/sub/deep/f", "");
    world.link("d/link", world.at("outside"));
    world.fifo("d/fifo");
    world.converges(&purge(&world));
    assert_eq!(world.names("d"), [""; 0]);
    assert_eq!(world.read("outside/kept"), b"kept");
}

#[test]
fn nothing_is_purged_through_a_link() {
    let world = TestEnv::new();
    world.write("real/precious", "kept");
    world.link("d", "real");
    world.refuses(&purge(&world), "d is a symbolic link, not a directory", "force");
    world.converges(&File { force: true, ..purge(&world) });
    assert_eq!((world.read("real/precious"), world.names("d")), (b"kept".to_vec(), vec![]));
}

#[test]
fn what_other_resources_manage_is_not_purged() {
    let world = TestEnv::new();
    for name in [
        "managed",
        "managed2",
        "sub/deep/managed",
        "sub/surplus",
        "sub/deep/surplus",
        "own/anything",
        "surplus",
    ] {
        world.write(format!("d/{name}"), "");
    }
    world.graph(&[
        ("one", world.content("d/managed", "")),
        // By name alone, and by the parts of a path.
        (world.path("d/sub/deep/managed").as_str().unwrap(), File::default()),
        ("two", File { dirname: world.path("d/"), basename: "own/".into(), ..File::default() }),
        ("elsewhere", world.content("dd/surplus", "")),
        (file_common::NAME, purge(&world)),
    ]);
    world.converges(&purge(&world));
    assert_eq!(world.names("d"), ["managed", "own", "sub"]);
    assert_eq!(world.names("d/sub"), ["deep"]);
    assert_eq!(world.names("d/sub/deep"), ["managed"]);
    assert_eq!(world.names("d/own"), ["anything"]);
}

#[test]
fn what_resources_of_any_kind_name_is_not_purged() {
    let world = TestEnv::new();
    for name in ["line", "left/to/puppet", "created", "kept/x", "surplus", "old", "backed-up.old"] {
        world.write(format!("d/{name}"), "");
    }
    let line = mgmt_resources::line::Line {
        file: world.path("d/line"),
        state: "exists".into(),
        ..Default::default()
    };
    let pippet = mgmt_resources::pippet::Pippet {
        r#type: "thing".into(),
        title: "t".into(),
        paths: vec![world.path("d/left/to/puppet")],
        ..Default::default()
    };
    // What a condition looks at is nobody's own.
    let exec = mgmt_resources::exec::Exec {
        creates: world.path("d/created"),
        watchfiles: vec![world.path("d/surplus")],
        ..Default::default()
    };
    let backed = File { backup: ".old".into(), ..world.content("d/backed-up", "") };
    world.graph_of(vec![
        (Id::new("line", "a"), Box::new(line)),
        (Id::new("pippet", "b"), Box::new(pippet)),
        (Id::new("exec", "c"), Box::new(exec)),
        (Id::new("file", "d"), Box::new(backed)),
    ]);
    let file = File { keep: vec![world.path("d/kept")], ..purge(&world) };
    world.converges(&file);
    assert_eq!(world.names("d"), ["backed-up.old", "created", "kept", "left", "line"]);
    assert_eq!((world.names("d/left/to"), world.names("d/kept")), (vec!["puppet".into()], vec!["x".into()]));
}

#[test]
fn a_copy_purges_nothing_in_a_directory_of_another_resource_and_leaves_kept_paths_as_they_are() {
    let world = TestEnv::new();
    for name in ["source/theirs/new", "source/kept/new", "d/theirs/local", "d/kept/local", "d/surplus"] {
        world.write(name, "");
    }
    world.graph_of(vec![(Id::new("file", "a"), Box::new(world.exists("d/theirs/")))]);
    let copy = File { source: world.path("source/"), keep: vec![world.path("d/kept")], ..purge(&world) };
    world.converges(&copy);
    assert_eq!(world.names("d"), ["kept", "theirs"]);
    assert_eq!(world.names("d/theirs"), ["local", "new"]);
    assert_eq!(world.names("d/kept"), ["local"]);
    // Also without purging anything.
    std::fs::remove_dir_all(world.at("d/kept")).unwrap();
    assert_eq!(world.apply(&File { purge: false, ..copy }).unwrap(), Checked::Right);
    assert_eq!(world.names("d"), ["theirs"]);
}

#[test]
fn what_a_newer_graph_declares_is_not_purged_by_a_run_that_began_before() {
    /// A graph that changes after a run has asked for the first time.
    struct Changing(Str, AtomicU64);
    impl GraphView for Changing {
        fn each(&self, show: &mut dyn FnMut(&Id, &dyn Resource)) -> bool {
            if self.1.fetch_add(1, Ordering::SeqCst) > 0 {
                show(&Id::new("file", "new"), &File { path: self.0.clone(), ..File::default() });
            }
            true
        }

        fn version(&self) -> u64 {
            self.1.load(Ordering::SeqCst).min(1)
        }
    }
    let world = TestEnv::new();
    for name in ["d/new", "d/surplus"] {
        world.write(name, "");
    }
    *world.host.view.write().unwrap() = Some(Arc::new(Changing(world.path("d/new"), AtomicU64::new(0))));
    assert_eq!(world.apply(&purge(&world)).unwrap(), Checked::Changed);
    assert_eq!(world.names("d"), ["new"]);
}

#[test]
fn old_contents_of_copied_files_are_not_purged() {
    let world = TestEnv::new();
    world.write("source/a", "new");
    for (name, content) in [("d/a", "old"), ("d/a.old.old", ""), ("d/b.old", "")] {
        world.write(name, content);
    }
    world.converges(&File { source: world.path("source/"), backup: ".old".into(), ..purge(&world) });
    assert_eq!(world.names("d"), ["a", "a.old"]);
    assert_eq!(world.read("d/a.old"), b"old");
}

#[test]
fn what_is_named_through_a_link_is_not_purged() {
    let world = TestEnv::new();
    for name in ["x", "sub/deep/y", "sub/surplus", "inside/z", "surplus"] {
        world.write(format!("d/{name}"), "");
    }
    std::os::unix::fs::symlink(world.at("d"), world.at("link")).unwrap();
    std::os::unix::fs::symlink(world.at("d/sub"), world.at("below")).unwrap();
    std::os::unix::fs::symlink("inside", world.at("d/within")).unwrap();
    world.graph(&[
        ("x", world.content("link/x", "")),
        ("y", world.content("below/deep/y", "")),
        ("z", world.content("d/within/z", "")),
        ("new", world.content("link/not/there/yet", "")),
        (file_common::NAME, purge(&world)),
    ]);
    world.converges(&purge(&world));
    assert_eq!(world.names("d"), ["inside", "sub", "within", "x"]);
    assert_eq!((world.names("d/sub"), world.names("d/sub/deep")), (vec!["deep".into()], vec!["y".into()]));
    assert_eq!(world.names("d/inside"), ["z"]);
}

#[test]
fn a_file_that_another_program_is_just_writing_is_not_purged() {
    let world = TestEnv::new();
    for name in ["motd20260131-4711-1a2b3c", "x.dpkg-new", "plain"] {
        world.write(format!("d/{name}"), "");
    }
    world.converges(&purge(&world));
    assert_eq!(world.names("d"), ["motd20260131-4711-1a2b3c", "x.dpkg-new"]);
    // One that nobody has written to for long was left behind.
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    std::fs::File::options().write(true).open(world.at("d/x.dpkg-new")).unwrap().set_modified(old).unwrap();
    world.converges(&purge(&world));
    assert_eq!(world.names("d"), ["motd20260131-4711-1a2b3c"]);
    // Puppet locks the name of such a file with a directory.
    std::fs::create_dir(world.at("d/motd20260131-4711-4d5e6f.lock")).unwrap();
    std::fs::create_dir(world.at("d/motd20260131-4711-4d5e6f")).unwrap();
    world.converges(&purge(&world));
    assert_eq!(world.names("d"), ["motd20260131-4711-1a2b3c", "motd20260131-4711-4d5e6f.lock"]);
}

#[test]
fn a_claim_may_stand_for_any_ending_and_for_a_part_of_a_file() {
    let world = TestEnv::new();
    for name in ["key.crt", "key", "ke", "keys/x", "tree.cnf", "stray", "sub/key.crt"] {
        world.write(format!("d/{name}"), "");
    }
    let mut noop = mgmt_resources::noop::Noop::default();
    let at = |name: &str| mgmt_value::Str::from(world.at(name).display().to_string());
    noop.paths = vec![at("d/key*"), at("d/tree.cnf/section/value")];
    world.graph_of(vec![(mgmt_resource::Id::new("noop", "n"), Box::new(noop))]);
    world.converges(&purge(&world));
    assert_eq!(world.names("d"), ["key", "key.crt", "keys", "tree.cnf"]);
    assert_eq!(world.names("d/keys"), ["x"]);
}

#[test]
fn only_spared_surplus_is_no_change_even_when_only_looking() {
    let world = TestEnv::new();
    world.write("d/managed", "");
    world.write("d/sub/managed", "");
    world.graph(&[("one", world.content("d/managed", "")), ("two", world.content("d/sub/managed", ""))]);
    world.is_right(&purge(&world));
}

#[test]
fn a_file_that_another_resource_manages_is_not_overwritten_by_a_copy() {
    let world = TestEnv::new();
    source(&world);
    world.write("d/sub/b", "of another resource");
    world.graph(&[
        ("file", world.content("d/sub/b", "of another resource")),
        ("directory", File { mode: "0711".into(), owner: "5".into(), ..world.exists("d/sub/") }),
    ]);
    world.set_owner("d/sub", 5, 0);
    let file = File { owner: "7".into(), purge: true, ..copy(&world) };
    world.converges(&file);
    assert_eq!(world.read("d/sub/b"), b"of another resource");
    assert_eq!((world.owner("d/sub").0, world.owner("d/sub/deep").0), (5, 7));
    assert_eq!(world.read("d/sub/deep/c"), b"c");
}

#[test]
fn the_declared_owner_is_that_of_everything_copied_and_of_nothing_else() {
    let world = TestEnv::new();
    source(&world);
    world.write("d/kept", "");
    let file = File { owner: "7".into(), group: "8".into(), mode: "0711".into(), ..copy(&world) };
    world.converges(&file);
    for name in ["d", "d/a", "d/sub", "d/sub/deep/c", "d/link"] {
        assert_eq!(world.owner(name), (7, 8), "{name}");
    }
    assert_eq!(world.owner("d/kept"), (0, 0));
    assert_eq!((world.mode("d"), world.mode("d/sub")), (0o711, 0o1770));
    for name in ["d", "d/sub", "d/sub/deep/c", "d/dangling"] {
        world.set_owner(name, 0, 0);
        world.converges(&file);
    }
}

#[test]
fn types_change_within_a_tree_only_by_force_and_in_one_pass() {
    let world = TestEnv::new();
    source(&world);
    let file = copy(&world);
    let forced = File { force: true, purge: true, ..file.clone() };
    world.write("d/a/was/a/directory", "");
    world.refuses_when(&file, true, "d/a is a directory, not a regular file", "force");
    world.converges(&forced);
    assert_eq!(world.read("d/a"), b"a");
    run("rm", &["-r".as_ref(), world.at("d/sub").as_os_str()]);
    world.write("d/sub", "was a file");
    world.refuses_when(&file, true, "d/sub is a regular file, not a directory", "force");
    world.converges(&forced);
    std::fs::remove_file(world.at("d/link")).unwrap();
    world.write("d/link", "was a file");
    world.refuses_when(&file, true, "d/link is a regular file, not a symbolic link", "force");
    world.converges(&forced);
    std::fs::remove_file(world.at("d/a")).unwrap();
    world.link("d/a", world.at("source/sub/b"));
    world.refuses_when(&file, true, "d/a is a symbolic link, not a regular file", "force");
    world.converges(&forced);
    assert_eq!(world.read("source/sub/b"), b"b");
    std::fs::remove_file(world.at("d/a")).unwrap();
    world.fifo("d/a");
    world.refuses_when(&forced, true, "d/a is a FIFO, not a regular file", "remove it first");
}

#[test]
fn a_special_file_in_the_source_is_an_error_that_names_it() {
    let world = TestEnv::new();
    std::fs::create_dir_all(world.at("source/sub")).unwrap();
    std::fs::create_dir_all(world.at("d/sub")).unwrap();
    world.fifo("source/sub/pipe");
    let message = format!("cannot copy {}: it is a FIFO", world.path("source/sub/pipe").display());
    world.refuses_when(&copy(&world), true, &message, "");
}

#[test]
fn a_missing_source_is_an_error_and_purges_nothing() {
    let world = TestEnv::new();
    world.write("d/precious", "");
    let file = File { purge: true, ..copy(&world) };
    world.refuses(&file, "source does not exist", "declare file[");
}

#[test]
fn without_a_state_the_directory_must_be_there() {
    let world = TestEnv::new();
    source(&world);
    let file = File { state: "".into(), ..copy(&world) };
    world.refuses(&file, "does not exist, and is only changed", "exists");
    std::fs::create_dir(world.at("d")).unwrap();
    world.converges(&file);
}

#[test]
fn a_tree_is_not_copied_into_itself_through_a_link() {
    let world = TestEnv::new();
    world.write("source/a", "");
    std::fs::create_dir(world.at("source/d")).unwrap();
    world.link("d", "source/d");
    let error = world.apply(&copy(&world)).unwrap_err();
    assert!(error.to_string().contains("lies in its own source"), "{error}");
}

#[test]
fn temporaries_are_neither_copied_nor_purged_while_in_use_but_forgeries_are() {
    let world = TestEnv::new();
    let temporary = ".mgmt-0123456789abcdef.tmp";
    world.write(format!("source/{temporary}"), "half");
    world.apply(&copy(&world)).unwrap();
    assert_eq!(world.names("d"), [""; 0]);
    std::fs::remove_file(world.at(format!("source/{temporary}"))).unwrap();
    // Another process is writing this one.
    world.write(format!("d/{temporary}"), "half");
    let held = std::fs::File::open(world.at(format!("d/{temporary}"))).unwrap();
    held.lock().unwrap();
    let file = purge(&world);
    assert_eq!(world.apply(&file).unwrap(), Checked::Right);
    assert_eq!(world.names("d"), [temporary]);
    // Nobody is writing this one any more.
    drop(held);
    assert_eq!(world.apply(&file).unwrap(), Checked::Right);
    assert_eq!(world.names("d"), [""; 0]);
    // This one only has the name.
    world.write(format!("d/{temporary}"), "half");
    world.set_owner(format!("d/{temporary}"), 7, 7);
    world.converges(&file);
    std::fs::create_dir(world.at("d").join(temporary)).unwrap();
    world.converges(&file);
}

#[test]
fn names_in_a_tree_are_bytes() {
    let world = TestEnv::new();
    std::fs::create_dir(world.at("source")).unwrap();
    for name in [&b"\xff\xfe"[..], b"line\nbreak", b"-rf", b" "] {
        world.write(world.at("source").join(OsStr::from_bytes(name)), name);
    }
    world.converges(&copy(&world));
    assert_eq!(std::fs::read(world.at("d").join(OsStr::from_bytes(b"\xff\xfe"))).unwrap(), b"\xff\xfe");
    run("rm", &["-r".as_ref(), world.at("source").as_os_str()]);
    std::fs::create_dir(world.at("source")).unwrap();
    world.converges(&File { purge: true, ..copy(&world) });
    assert_eq!(world.names("d"), [""; 0]);
}

#[test]
fn a_tree_may_be_deep_but_not_without_end() {
    let world = TestEnv::new();
    let mut path = world.at("source");
    for _ in 0..200 {
        path.push("d");
    }
    std::fs::create_dir_all(&path).unwrap();
    std::fs::write(path.join("f"), "deep").unwrap();
    world.converges(&copy(&world));
    // Deeper than a path can be written, step by step.
    let script = format!("cd {} && for i in $(seq 300); do mkdir d && cd d; done", path.display());
    run("sh", &["-c".as_ref(), script.as_ref()]);
    let error = world.apply(&copy(&world)).unwrap_err();
    assert!(error.to_string().contains("directories"), "{error}");
    run("rm", &["-rf".as_ref(), world.at("source").as_os_str(), world.at("d").as_os_str()]);
}

#[test]
fn a_run_over_a_tree_stops_when_it_is_cancelled() {
    let world = TestEnv::new();
    source(&world);
    let (meta, cancel) = (mgmt_resource::Meta::default(), mgmt_resource::Cancel::default());
    cancel.raise(mgmt_resource::Stage::Cancel);
    let id = mgmt_resource::Id::new("file", "x");
    let mut cx = mgmt_resource::Context {
        id: &id,
        meta: &meta,
        apply: true,
        refresh: false,
        received: &[],
        cancel: &cancel,
        host: &world.host,
        children: &[],
        sent: None,
        rearm: false,
        effects: Default::default(),
        foreseen: None,
    };
    let (file, mut memory) = (copy(&world), Memory::default());
    let future = std::pin::pin!(mgmt_resource::Kind::check_apply(&file, &mut memory, &mut cx));
    let waker = std::task::Waker::noop();
    let std::task::Poll::Ready(result) = future.poll(&mut std::task::Context::from_waker(waker)) else {
        return assert_eq!("pending", "ready");
    };
    assert!(result.unwrap_err().is_cancelled());
}

#[test]
fn what_is_remembered_of_a_tree_is_forgotten_when_a_file_changes() {
    let world = TestEnv::new();
    source(&world);
    let (file, mut memory) = (copy(&world), Memory::default());
    world.run(&file, &mut memory, true).unwrap();
    // Long enough that the last change counts as past, so that the check after it is remembered.
    std::thread::sleep(std::time::Duration::from_millis(4500));
    for _ in 0..3 {
        assert_eq!(world.run(&file, &mut memory, true).unwrap(), Checked::Right);
    }
    for name in ["d/sub/b", "source/sub/deep/c"] {
        world.write(name, "x");
        assert_eq!(world.run(&file, &mut memory, false).unwrap(), Checked::Changed);
        assert_eq!(world.run(&file, &mut memory, true).unwrap(), Checked::Changed);
        assert_eq!(world.run(&file, &mut memory, true).unwrap(), Checked::Right);
    }
    assert_eq!((world.read("d/sub/b"), world.read("d/sub/deep/c")), (b"b".to_vec(), b"x".to_vec()));
}

#[test]
fn owner_group_and_mode_are_given_to_everything_below_but_to_what_others_manage() {
    let world = TestEnv::new();
    world.write("d/a", "a");
    world.write("d/sub/b", "b");
    world.write("d/mine/c", "c");
    world.link("d/link", "a");
    for name in ["d/a", "d/sub/b", "d/mine", "d/mine/c"] {
        world.set_mode(name, 0o700);
    }
    let mine = File { mode: "0700".into(), ..world.exists("d/mine/") };
    world.graph(&[("mine", mine)]);
    let all = File {
        recurse: true,
        spread: true,
        owner: "1".into(),
        group: "2".into(),
        mode: "0640".into(),
        ..world.exists("d/")
    };
    world.converges(&all);
    let seen = |name: &str| (world.mode(name), world.owner(name));
    for (name, mode) in [("d", 0o750), ("d/a", 0o640), ("d/sub", 0o750), ("d/sub/b", 0o640)] {
        assert_eq!(seen(name), (mode, (1, 2)), "{name}");
    }
    assert_eq!(world.owner("d/link"), (1, 2));
    for name in ["d/mine", "d/mine/c"] {
        assert_eq!(seen(name), (0o700, (0, 0)), "{name}");
    }
}

#[test]
fn a_copy_can_have_the_modes_of_anything_new_and_directories_can_be_spared() {
    let world = TestEnv::new();
    source(&world);
    world.write("d/stray", "x");
    world.write("d/old/stray", "x");
    let file = File { sourcemode: false, purge: true, keepdirectories: true, ..copy(&world) };
    world.converges(&file);
    assert_eq!((world.mode("d/a"), world.mode("d/sub")), (0o644, 0o755));
    assert!(!world.at("d/stray").exists() && !world.at("d/old/stray").exists());
    assert!(world.at("d/old").is_dir());
    let spread = File { spread: true, mode: "0600".into(), ..file };
    world.converges(&spread);
    assert_eq!((world.mode("d"), world.mode("d/a"), world.mode("d/sub")), (0o700, 0o600, 0o700));
}
