//! What is reported about files and directories, on a real file system.
#![allow(missing_docs, clippy::unwrap_used)]

use crate::test_env;
use std::fs::{self, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;

use crate::test_env::TestEnv;

fn append(env: &TestEnv, below: &str) {
    OpenOptions::new().append(true).open(env.path(below)).unwrap().write_all(b"more").unwrap();
}

fn chmod(env: &TestEnv, below: &str, mode: u32) {
    fs::set_permissions(env.path(below), Permissions::from_mode(mode)).unwrap();
}

#[test]
fn every_way_a_file_can_change_is_reported() {
    let env = TestEnv::new();
    env.watch(1, "f");
    env.expect(&[1], "create", |b| b.write("f", "one"));
    env.expect(&[1], "append", |b| append(b, "f"));
    env.expect(&[1], "truncate", |b| {
        OpenOptions::new().write(true).open(b.path("f")).unwrap().set_len(1).unwrap();
    });
    env.expect(&[1], "chmod", |b| chmod(b, "f", 0o600));
    env.expect(&[1], "chown", |b| std::os::unix::fs::chown(b.path("f"), Some(12345), None).unwrap());
    env.expect(&[1], "touch", |b| {
        let file = OpenOptions::new().write(true).open(b.path("f")).unwrap();
        file.set_modified(std::time::UNIX_EPOCH).unwrap();
    });
    env.expect(&[1], "rename over", |b| {
        b.write("other", "two");
        b.rename("other", "f");
    });
    env.expect(&[1], "append after rename over", |b| append(b, "f"));
    env.expect(&[1], "unlink", |b| fs::remove_file(b.path("f")).unwrap());
    env.expect(&[1], "recreate", |b| b.write("f", "three"));
    env.expect(&[1], "append after recreate", |b| append(b, "f"));
    env.expect(&[1], "rename away", |b| b.rename("f", "g"));
    env.expect_silence(&[1], "the renamed file is not followed", |b| append(b, "g"));
    env.expect(&[1], "hard link", |b| fs::hard_link(b.path("g"), b.path("f")).unwrap());
    env.expect(&[1], "file becomes directory", |b| {
        fs::remove_file(b.path("f")).unwrap();
        b.mkdir("f");
    });
    env.expect(&[1], "entry of the directory", |b| b.write("f/entry", "x"));
    env.expect(&[1], "directory becomes file", |b| {
        fs::remove_dir_all(b.path("f")).unwrap();
        b.write("f", "again");
    });
    env.expect(&[1], "file becomes link", |b| b.relink("nowhere", "f"));
}

#[test]
fn siblings_are_silent() {
    let env = TestEnv::new();
    env.mkdir("d/e");
    env.watch(1, "d/f");
    env.watch_tree(2, "d/e");
    env.expect_silence(&[1, 2], "siblings", |b| {
        b.write("d/ff", "x");
        append(b, "d/ff");
        b.rename("d/ff", "d/g");
        fs::remove_file(b.path("d/g")).unwrap();
        b.mkdir("d/h/i");
        b.write("d/h/i/f", "x");
        b.write("f", "same name, other directory");
        chmod(b, "d", 0o700);
    });
    env.expect(&[1], "the marker that proves it was listening", |b| b.write("d/f", "x"));
}

#[test]
fn an_atomic_save_by_an_editor_is_reported_every_time() {
    let env = TestEnv::new();
    env.write("f", "0");
    env.watch(1, "f");
    for round in 0..5 {
        env.expect(&[1], "atomic save", |b| {
            b.write(".f.tmp", &round.to_string());
            b.rename(".f.tmp", "f");
        });
        env.expect(&[1], "save with a backup", |b| {
            b.rename("f", "f~");
            b.write("f", "new");
        });
    }
}

#[test]
fn a_directory_reports_its_own_entries_and_no_deeper() {
    let env = TestEnv::new();
    env.mkdir("d/sub");
    env.watch(1, "d");
    env.expect(&[1], "create", |b| b.write("d/f", "x"));
    env.expect(&[1], "modify", |b| append(b, "d/f"));
    env.expect(&[1], "chmod of an entry", |b| chmod(b, "d/f", 0o600));
    env.expect(&[1], "remove", |b| fs::remove_file(b.path("d/f")).unwrap());
    env.expect(&[1], "chmod of itself", |b| chmod(b, "d", 0o700));
    env.expect(&[1], "mkdir", |b| b.mkdir("d/new"));
    env.expect_silence(&[1], "deeper", |b| {
        b.write("d/sub/f", "x");
        b.write("d/new/f", "x");
        b.mkdir("d/sub/deep");
    });
    env.expect(&[1], "remove all", |b| fs::remove_dir_all(b.path("d")).unwrap());
    env.expect(&[1], "made again", |b| b.mkdir("d"));
    env.expect(&[1], "entry of the new one", |b| b.write("d/f", "x"));
    env.expect(&[1], "moved away", |b| b.rename("d", "away"));
    env.expect_silence(&[1], "the moved directory is not followed", |b| b.write("away/g", "x"));
}

#[test]
fn a_recursive_watch_reports_any_depth() {
    let env = TestEnv::new();
    env.mkdir("t/a/b/c");
    env.watch_tree(1, "t");
    env.expect(&[1], "deep write", |b| b.write("t/a/b/c/f", "x"));
    env.expect(&[1], "deep append", |b| append(b, "t/a/b/c/f"));
    env.expect(&[1], "mkdir -p and a file at once", |b| {
        b.mkdir("t/x/y/z");
        b.write("t/x/y/z/f", "x");
    });
    env.expect(&[1], "later write in a directory that came later", |b| append(b, "t/x/y/z/f"));
    env.expect(&[1], "moved in", |b| {
        b.mkdir("outside/p/q");
        b.write("outside/p/q/f", "x");
        b.rename("outside", "t/inside");
    });
    env.expect(&[1], "write below what was moved in", |b| append(b, "t/inside/p/q/f"));
    env.expect(&[1], "moved within", |b| b.rename("t/inside/p", "t/a/p"));
    env.expect(&[1], "write below what was moved within", |b| append(b, "t/a/p/q/f"));
    env.expect(&[1], "mkdir below what was moved within", |b| b.mkdir("t/a/p/q/r"));
    env.expect(&[1], "write below that", |b| b.write("t/a/p/q/r/f", "x"));
    env.expect(&[1], "moved out", |b| b.rename("t/a", "out"));
    env.expect_silence(&[1], "what was moved out is not followed", |b| {
        append(b, "out/p/q/f");
        b.mkdir("out/p/new");
    });
    env.expect(&[1], "removed as a whole", |b| fs::remove_dir_all(b.path("t")).unwrap());
    env.expect(&[1], "made again with content", |b| b.mkdir("t/k/l"));
    env.expect(&[1], "write in it", |b| b.write("t/k/l/f", "x"));
}

#[test]
fn links_below_a_recursive_target_are_not_followed() {
    let env = TestEnv::new();
    env.mkdir("t");
    env.mkdir("elsewhere/d");
    env.watch_tree(1, "t");
    env.expect(&[1], "the link itself", |b| b.link("../elsewhere", "t/link"));
    env.expect_silence(&[1], "behind the link", |b| b.write("elsewhere/d/f", "x"));
}

#[test]
fn a_target_whose_parents_do_not_exist_is_waited_for() {
    let env = TestEnv::new();
    env.watch(1, "a/b/c/f");
    env.watch_tree(2, "a/b/c");
    env.expect_silence(&[1, 2], "far ancestors", |b| b.mkdir("a"));
    env.expect(&[2], "parent of the tree", |b| b.mkdir("a/b"));
    env.expect(&[1, 2], "parent of the file", |b| b.mkdir("a/b/c"));
    env.expect(&[1, 2], "the file", |b| b.write("a/b/c/f", "x"));
    env.expect(&[1, 2], "all removed", |b| fs::remove_dir_all(b.path("a")).unwrap());
    env.expect(&[1, 2], "all made at once", |b| {
        b.mkdir("a/b/c");
        b.write("a/b/c/f", "x");
    });
    env.expect(&[1, 2], "and it still listens", |b| append(b, "a/b/c/f"));
}

#[test]
fn moving_a_parent_away_and_back_is_reported() {
    let env = TestEnv::new();
    env.mkdir("a/b/c");
    env.write("a/b/c/f", "x");
    env.watch(1, "a/b/c/f");
    for (from, to) in [("a/b/c", "c2"), ("a/b", "b2"), ("a", "a2")] {
        env.expect(&[1], from, |b| b.rename(from, to));
        let inside = env.path(to).join(env.path("a/b/c/f").strip_prefix(env.path(from)).unwrap());
        env.expect_silence(&[1], "the moved file is not followed", |_| fs::write(&inside, "y").unwrap());
        env.expect(&[1], to, |b| b.rename(to, from));
        env.expect(&[1], "after it came back", |b| append(b, "a/b/c/f"));
    }
    env.expect(&[1], "away and back at once", |b| {
        b.rename("a", "a2");
        b.rename("a2", "a");
    });
    env.expect(&[1], "replaced by another one", |b| {
        b.mkdir("new/b/c");
        b.write("new/b/c/f", "z");
        b.rename("a", "old");
        b.rename("new", "a");
    });
    env.expect(&[1], "the other one", |b| append(b, "a/b/c/f"));
    env.expect_silence(&[1], "the old one", |b| append(b, "old/b/c/f"));
}

#[test]
fn links_among_the_parents_are_followed_and_their_turning_is_reported() {
    let env = TestEnv::new();
    env.mkdir("v1/etc");
    env.mkdir("v2/etc");
    env.write("v1/etc/f", "1");
    env.write("v2/etc/f", "2");
    env.link("v1", "current");
    env.mkdir("deep/er");
    env.link("../../current", "deep/er/link");
    env.watch(1, "current/etc/f");
    env.watch(2, "deep/er/link/etc/f");
    env.expect(&[1, 2], "through the link", |b| append(b, "v1/etc/f"));
    env.expect_silence(&[1, 2], "the other version", |b| append(b, "v2/etc/f"));
    env.expect(&[1, 2], "turned", |b| b.relink("v2", "current"));
    env.expect(&[1, 2], "through the turned link", |b| append(b, "v2/etc/f"));
    env.expect_silence(&[1, 2], "the version before", |b| append(b, "v1/etc/f"));
    env.expect(&[1, 2], "what the link names is moved", |b| b.rename("v2", "v3"));
    env.expect(&[1, 2], "and comes back", |b| b.rename("v3", "v2"));
    env.expect(&[1, 2], "an absolute link", |b| {
        let target = b.path("v1");
        b.relink(target.to_str().unwrap(), "current");
    });
    env.expect(&[1, 2], "through the absolute link", |b| append(b, "v1/etc/f"));
    env.expect(&[1, 2], "the link is removed", |b| fs::remove_file(b.path("current")).unwrap());
    env.expect(&[1, 2], "a directory takes its place", |b| b.mkdir("current/etc"));
    env.expect(&[1, 2], "through the directory", |b| b.write("current/etc/f", "3"));
    env.expect(&[1, 2], "replaced by a link", |b| {
        b.rename("current", "old");
        b.link("v2", "current");
    });
    env.expect(&[1, 2], "through that link", |b| append(b, "v2/etc/f"));
}

#[test]
fn a_link_to_a_directory_above_is_followed() {
    let env = TestEnv::new();
    env.mkdir("a/b");
    env.link("..", "a/b/up");
    env.watch(1, "a/b/up/f");
    env.expect(&[1], "create", |b| b.write("a/f", "x"));
    env.expect(&[1], "append", |b| append(b, "a/f"));
    env.expect_silence(&[1], "another name", |b| b.write("a/g", "x"));
}

#[test]
fn a_directory_that_was_a_step_can_become_an_end() {
    let env = TestEnv::new();
    env.mkdir("a/b");
    env.write("a/f", "x");
    env.watch(1, "a/b/f");
    env.expect_silence(&[1], "a step", |b| append(b, "a/f"));
    env.watch(2, "a/f");
    env.watch(3, "a");
    env.expect(&[2, 3], "an end", |b| append(b, "a/f"));
}

#[test]
fn links_that_go_in_circles_are_waited_out() {
    let env = TestEnv::new();
    env.link("two", "one");
    env.link("one", "two");
    env.link("self/self", "self");
    env.watch(1, "one/f");
    env.watch(2, "self/f");
    env.expect(&[1], "the circle is broken", |b| {
        fs::remove_file(b.path("two")).unwrap();
        b.mkdir("two");
    });
    env.expect(&[1], "and it works", |b| b.write("two/f", "x"));
    env.expect(&[2], "this one too", |b| {
        b.relink("two", "self");
    });
    env.expect(&[1, 2], "and it works", |b| b.write("two/f", "y"));
}

#[test]
fn a_file_among_the_parents_is_waited_out() {
    let env = TestEnv::new();
    env.write("d", "not a directory");
    env.watch(1, "d/f");
    env.expect(&[1], "file becomes directory", |b| {
        fs::remove_file(b.path("d")).unwrap();
        b.mkdir("d");
    });
    env.expect(&[1], "file in it", |b| b.write("d/f", "x"));
}

#[test]
fn a_name_that_cannot_exist_is_waited_for_without_scanning() {
    let env = TestEnv::new();
    env.watch(1, &"x".repeat(300));
    env.watch(2, &format!("{}/f", "x".repeat(300)));
    env.watch(3, &format!("{}f", "d/".repeat(3000)));
    assert_eq!(env.hub.stats().degraded, 0);
    env.expect_silence(&[1, 2], "other names", |b| b.mkdir("d/d"));
}

#[test]
fn subscribers_of_one_path_are_told_separately_and_leave_separately() {
    let env = TestEnv::new();
    let empty = env.hub.stats();
    let one = env.watch(1, "d/f");
    let two = env.watch(2, "d/f");
    let three = env.watch_tree(3, "d");
    env.expect(&[1, 2, 3], "parent", |b| b.mkdir("d/sub/deep"));
    env.expect(&[1, 2, 3], "file", |b| b.write("d/f", "x"));
    env.hub.unsubscribe(one);
    env.expect(&[2, 3], "one less", |b| append(b, "d/f"));
    env.expect_silence(&[1], "who left", |b| append(b, "d/f"));
    env.hub.unsubscribe(one);
    env.hub.unsubscribe(two);
    env.hub.unsubscribe(three);
    env.hub.check_invariants();
    let stats = env.hub.stats();
    assert_eq!((stats.subscriptions, stats.watches), (empty.subscriptions, empty.watches));
    let again = env.watch(4, "d/f");
    assert_ne!(one, again);
    env.hub.unsubscribe(one);
    env.expect(&[4], "an old id does not end a new subscription", |b| append(b, "d/f"));
}

#[test]
fn one_burst_is_one_report() {
    let env = TestEnv::new();
    env.watch(1, "f");
    env.quiesce();
    let before = env.hub.stats();
    env.hub.while_paused(|| {
        for _ in 0..500 {
            env.write("f", "x");
            fs::remove_file(env.path("f")).unwrap();
        }
    });
    env.quiesce();
    let after = env.hub.stats();
    assert!(after.events - before.events >= 1000, "{before:?} {after:?}");
    assert!(env.count(1) <= 5, "{}", env.count(1));
}

#[test]
fn an_idle_hub_does_not_wake_up() {
    let env = TestEnv::new();
    env.mkdir("t/a");
    env.watch_tree(1, "t");
    env.watch(2, "missing/f");
    env.quiesce();
    let before = env.hub.stats();
    std::thread::sleep(std::time::Duration::from_millis(300));
    let after = env.hub.stats();
    // Others may be busy in the same temporary directory: each of their events may wake the hub, nothing else.
    assert!(after.wakeups - before.wakeups <= after.events - before.events, "{before:?} {after:?}");
}

#[test]
fn the_root_can_be_watched() {
    let env = TestEnv::new();
    let root = mgmt_watch::WatchPath::new("/", false).unwrap();
    let id = env.hub.subscribe(mgmt_watch::Token(1), &root);
    env.quiesce();
    env.hub.check_invariants();
    env.hub.unsubscribe(id);
    env.hub.check_invariants();
}

#[test]
fn an_overflow_is_told_to_everybody_and_nothing_is_lost() {
    let env = TestEnv::new();
    env.mkdir("t/a");
    env.mkdir("noise/one");
    env.mkdir("noise/two");
    env.mkdir("gone/sub");
    env.watch(1, "f");
    env.watch_tree(2, "t");
    env.watch(3, "gone/sub/f");
    env.watch(4, "noise");
    env.expect(&[1, 2, 3, 4], "overflow", |b| {
        b.hub.while_paused(|| {
            // In turns, because the kernel merges an event with an equal one before it.
            for number in 0..20_000 {
                chmod(b, ["noise/one", "noise/two"][number % 2], 0o600);
            }
            // These events did not fit any more.
            b.mkdir("t/b/c");
            fs::remove_dir_all(b.path("gone")).unwrap();
            b.mkdir("gone/sub");
        });
    });
    assert!(env.hub.stats().overflows > 0, "{:?}", env.hub.stats());
    env.await_notice(|notice| *notice == mgmt_watch::Notice::Overflow);
    env.expect(&[2], "a directory made during the overflow", |b| b.write("t/b/c/f", "x"));
    env.expect(&[3], "a directory replaced during the overflow", |b| b.write("gone/sub/f", "x"));
    env.expect(&[1], "a plain file", |b| b.write("f", "x"));
}

#[test]
fn a_target_that_becomes_a_directory_later_is_listened_to() {
    for env in [TestEnv::new(), TestEnv::in_memory(mgmt_watch::FileHubOptions::default())] {
        env.mkdir("d");
        for token in 0..20 {
            env.watch(token, &format!("d/{token}"));
        }
        env.expect(&[3], "a directory appears", |b| b.mkdir("d/3"));
        env.expect(&[3], "an entry of it", |b| b.write("d/3/entry", "x"));
        env.expect_silence(&[3], "no longer anything between them", |b| b.write("d/other", "x"));
        env.watch(30, "d/3");
        env.expect(&[3, 30], "another entry, told to one who came later, too", |b| b.write("d/3/more", "x"));
        env.expect(&[4], "a directory is moved there", |b| {
            b.mkdir("away");
            b.rename("away", "d/4");
        });
        env.expect(&[4], "an entry of it", |b| b.write("d/4/entry", "x"));
        // Another directory takes the place of the one that was asked, with one in it from the beginning.
        env.mkdir("e/5");
        env.expect(&[5], "the directory above is exchanged", |b| {
            b.rename("d", "f");
            b.rename("e", "d");
        });
        env.expect(&[5], "an entry of what is in it", |b| b.write("d/5/entry", "x"));
    }
}

#[test]
fn a_creation_is_told_apart_only_if_nothing_else_happened() {
    let env = TestEnv::new();
    env.watch(1, "f");
    env.write("other", "one");
    let link = |b: &TestEnv| fs::hard_link(b.path("other"), b.path("f")).unwrap();
    let created = |what: &str, action: &dyn Fn(&TestEnv)| {
        let before = env.created(1);
        // Events that come together are judged together.
        env.expect(&[1], what, |b| b.hub.while_paused(|| action(b)));
        env.created(1) - before
    };
    assert_eq!(created("a link", &link), 1);
    assert_eq!(created("an edit", &|b| append(b, "f")), 0);
    env.write("new", "two");
    assert_eq!(created("a rename over it", &|b| b.rename("new", "f")), 0);
    let remove = |b: &TestEnv| fs::remove_file(b.path("f")).unwrap();
    assert_eq!(created("a removal", &remove), 0);
    let link_and_edit = |b: &TestEnv| {
        link(b);
        append(b, "f");
    };
    assert_eq!(created("a link and an edit", &link_and_edit), 0);
    let twice = |b: &TestEnv| {
        remove(b);
        link(b);
    };
    assert_eq!(created("a removal and a link", &twice), 0);
    assert_eq!(created("a removal", &remove), 0);
    assert_eq!(created("a rename", &|b| b.rename("other", "f")), 0);
    assert_eq!(created("a removal", &remove), 0);
    assert_eq!(created("a directory", &|b| b.mkdir("f")), 0);
}

#[test]
fn a_sink_may_hold_the_last_handle() {
    use std::sync::{Arc, Mutex, mpsc};

    struct Last {
        hub: Mutex<Option<mgmt_watch::FileHub>>,
        done: Mutex<mpsc::Sender<()>>,
    }
    impl mgmt_watch::Sink for Last {
        fn changed(&self, _: mgmt_watch::Token) {
            drop(self.hub.lock().unwrap().take());
            self.done.lock().unwrap().send(()).unwrap();
        }
        fn notice(&self, _: mgmt_watch::Notice) {}
    }

    let root = tempfile::tempdir().unwrap();
    let (done, finished) = mpsc::channel();
    let sink = Arc::new(Last { hub: Mutex::new(None), done: Mutex::new(done) });
    let hub = mgmt_watch::FileHub::new(Arc::clone(&sink) as Arc<dyn mgmt_watch::Sink>).unwrap();
    let path = mgmt_watch::WatchPath::new(root.path().join("f"), false).unwrap();
    hub.subscribe(mgmt_watch::Token(1), &path);
    *sink.hub.lock().unwrap() = Some(hub);
    fs::write(root.path().join("f"), "x").unwrap();
    finished.recv_timeout(test_env::EVENT_TIMEOUT).unwrap();
}

#[test]
fn mounting_over_a_parent_is_reported() {
    mgmt_test_support::require_root!();
    test_env::run_inside("unshare --mount --propagation private $TEST", "inside_mounting");
}

/// Runs in a mount name space of its own.
#[test]
#[ignore = "started by mounting_over_a_parent_is_reported"]
fn inside_mounting() {
    if !test_env::inside() {
        return;
    }
    let env = TestEnv::new();
    let mount = |arguments: &[&str]| {
        let done = std::process::Command::new(arguments[0]).args(&arguments[1..]).status().unwrap();
        assert!(done.success(), "{arguments:?}");
    };
    env.mkdir("a/b");
    env.mkdir("t/x/y");
    env.mkdir("other/b");
    env.watch(1, "a/b/f");
    env.watch_tree(2, "t");
    let (a, x, other) = (env.path("a"), env.path("t/x"), env.path("other"));
    let (a, x, other) = (a.to_str().unwrap(), x.to_str().unwrap(), other.to_str().unwrap());
    env.expect(&[1], "mounted over", |_| mount(&["mount", "--bind", other, a]));
    env.expect(&[1], "through the mount", |b| b.write("other/b/f", "x"));
    env.expect(&[1], "made read-only", |_| mount(&["mount", "-o", "remount,bind,ro", a]));
    env.expect(&[1], "made writable", |_| mount(&["mount", "-o", "remount,bind,rw", a]));
    env.expect(&[1], "unmounted", |_| mount(&["umount", a]));
    env.expect_silence(&[1], "what was mounted", |b| append(b, "other/b/f"));
    env.expect(&[1], "what was below", |b| b.write("a/b/f", "x"));
    env.expect(&[2], "mounted inside a tree", |_| mount(&["mount", "-t", "tmpfs", "none", x]));
    env.expect(&[2], "inside that mount", |b| b.mkdir("t/x/new"));
    env.expect(&[2], "deeper", |b| b.write("t/x/new/f", "x"));
    env.expect(&[2], "made read-only", |_| mount(&["mount", "-o", "remount,ro", x]));
    env.expect(&[2], "made writable", |_| mount(&["mount", "-o", "remount,rw", x]));
    env.expect(&[2], "unmounted", |_| mount(&["umount", x]));
    env.expect(&[2], "what was below", |b| b.write("t/x/y/f", "x"));
}
