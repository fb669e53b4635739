//! `tidy` on real files.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics is a test that fails")]

use crate::engine_common;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use crate::common::{Run, TestEnv, refused};
use mgmt_engine::{Level, Preparation};
use mgmt_resource::{Checked, Kind as _, Meta, ResourceGraph, Spec};
use mgmt_resources::tidy::Tidy;
use mgmt_value::Str;

const HOUR: Duration = Duration::from_secs(3600);

/// A file of this age and size.
fn make(path: &Path, age: Duration, size: usize) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, vec![b'x'; size]).unwrap();
    let time = SystemTime::now() - age;
    let times = fs::FileTimes::new().set_accessed(time).set_modified(time);
    fs::File::options().write(true).open(path).unwrap().set_times(times).unwrap();
}

/// All paths below a directory.
fn tree(root: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut left = vec![root.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            found.insert(entry.path().strip_prefix(root).unwrap().display().to_string());
            if entry.file_type().unwrap().is_dir() {
                left.push(entry.path());
            }
        }
    }
    found
}

fn name(path: &Path) -> Str {
    path.to_str().unwrap().into()
}

#[tokio::test]
async fn nothing_goes_while_a_part_of_the_program_has_no_value() {
    let (bench, place) = (TestEnv::new(), tempfile::tempdir().unwrap());
    let old = place.path().join("old");
    make(&old, HOUR, 1);
    let tidy = Tidy { recurse: true, age: Some(60), by: "mtime".into(), ..Tidy::default() };
    let mut vertex = bench.vertex(name(place.path()), tidy);
    bench.host.incomplete.store(true, Ordering::Release);
    for run in [Run::LOOK, Run::APPLY] {
        let error = vertex.run(run).await.error();
        assert!(error.contains("part of the program has no value yet"), "{error}");
    }
    assert!(old.exists());
    bench.host.incomplete.store(false, Ordering::Release);
    assert_eq!(vertex.apply().await.checked(), Checked::Changed);
    assert!(!old.exists());
}

/// Looking changes nothing and says what applying does; applying again changes nothing.
async fn leaves(root: &Path, tidy: Tidy, expected: &[&str]) {
    let bench = TestEnv::new();
    let before = tree(root);
    let mut vertex = bench.vertex(name(root), tidy.clone());
    assert_eq!(vertex.look().await.checked(), Checked::Changed, "{tidy:?}");
    assert_eq!(tree(root), before, "looking has changed something: {tidy:?}");
    assert_eq!(vertex.apply().await.checked(), Checked::Changed, "{tidy:?}");
    assert_eq!(tree(root), expected.iter().map(|&path| path.to_owned()).collect(), "{tidy:?}");
    assert_eq!(vertex.apply().await.checked(), Checked::Right, "{tidy:?}");
    assert_eq!(vertex.look().await.checked(), Checked::Right, "{tidy:?}");
}

fn fill(root: &Path) {
    let _ = fs::remove_dir_all(root);
    make(&root.join("old.tmp"), 3 * HOUR, 1);
    make(&root.join("old.txt"), 3 * HOUR, 1);
    make(&root.join("new.tmp"), Duration::ZERO, 1);
    make(&root.join("large"), Duration::ZERO, 5000);
    make(&root.join("d/old.tmp"), 3 * HOUR, 1);
    make(&root.join("d/e/old.tmp"), 3 * HOUR, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_old_or_large_goes_and_the_rest_stays() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().join("root");
    let below = Tidy { recurse: true, ..Tidy::default() };
    fill(&root);
    let old = Tidy { age: Some(3600), by: "mtime".into(), ..below.clone() };
    leaves(&root, old.clone(), &["d", "d/e", "large", "new.tmp"]).await;
    fill(&root);
    let tmp = Tidy { matches: vec!["*.tmp".into()], depth: Some(1), ..old.clone() };
    leaves(&root, tmp, &["d", "d/e", "d/e/old.tmp", "d/old.tmp", "large", "new.tmp", "old.txt"]).await;
    fill(&root);
    let large = Tidy { size: Some(5000), ..below.clone() };
    leaves(&root, large, &["d", "d/e", "d/e/old.tmp", "d/old.tmp", "new.tmp", "old.tmp", "old.txt"]).await;
    fill(&root);
    // Either is enough; when they were last read counts as well.
    let either = Tidy { age: Some(3600), size: Some(5000), ..below.clone() };
    leaves(&root, either, &["d", "d/e", "new.tmp"]).await;
    fill(&root);
    // Directories go when they are empty; what others take care of stays, and so does what it is in.
    let keep = vec![name(&root.join("d/e/old.tmp"))];
    let everything = Tidy { rmdirs: true, keep, ..below.clone() };
    leaves(&root, everything, &["d", "d/e", "d/e/old.tmp"]).await;
    fill(&root);
    let inside = Tidy { rmdirs: true, keep: vec![name(&root)], ..below };
    leaves(&root, inside, &[]).await;
    // One file, without going anywhere; and then there is nothing.
    fill(&root);
    let bench = TestEnv::new();
    let mut one = bench.vertex(name(&root.join("old.txt")), Tidy { age: Some(60), ..Tidy::default() });
    assert_eq!(one.apply().await.checked(), Checked::Changed);
    assert_eq!(one.apply().await.checked(), Checked::Right);
    let mut nowhere = bench.vertex(name(&root.join("no/where")), Tidy::default());
    assert_eq!(nowhere.apply().await.checked(), Checked::Right);
}

#[tokio::test(flavor = "multi_thread")]
async fn links_are_removed_and_never_followed() {
    let place = tempfile::tempdir().unwrap();
    let (root, other) = (place.path().join("root"), place.path().join("other"));
    make(&other.join("precious"), 3 * HOUR, 1);
    fs::create_dir(&root).unwrap();
    std::os::unix::fs::symlink(&other, root.join("link")).unwrap();
    let tidy = Tidy { recurse: true, size: Some(0), ..Tidy::default() };
    leaves(&root, tidy, &[]).await;
    assert!(other.join("precious").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_kept_through_a_link_stays_and_so_does_the_link() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().join("root");
    for path in ["d/kept", "e/kept", "d/old"] {
        make(&root.join(path), HOUR, 1);
    }
    std::os::unix::fs::symlink(&root, place.path().join("outside")).unwrap();
    std::os::unix::fs::symlink("e", root.join("within")).unwrap();
    let keep = vec![name(&place.path().join("outside/d/kept")), name(&root.join("within/kept"))];
    let tidy = Tidy { recurse: true, keep, ..Tidy::default() };
    leaves(&root, tidy, &["d", "d/kept", "e", "e/kept", "within"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_below_a_kept_path_with_a_slash_stays() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().join("root");
    for path in ["copied/deep/x", "plain/x"] {
        make(&root.join(path), HOUR, 1);
    }
    let keep = vec![name(&root.join("copied/")), name(&root.join("plain")), name(&root.join(""))];
    let tidy = Tidy { recurse: true, rmdirs: true, keep, ..Tidy::default() };
    leaves(&root, tidy, &["copied", "copied/deep", "copied/deep/x", "plain"]).await;
}

#[tokio::test]
async fn what_is_just_being_written_stays_and_so_does_what_begins_like_a_claim() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path();
    for name in ["x.dpkg-new", ".mgmt-0123456789abcdef.tmp", "motd20260131-4711-1a2b3c", "key.crt", "stray"] {
        make(&root.join(name), Duration::ZERO, 1);
    }
    make(&root.join("old.dpkg-new"), HOUR, 1);
    let keep = vec![name(&root.join("key*"))];
    let tidy = Tidy { recurse: true, keep, ..Tidy::default() };
    leaves(root, tidy, &[".mgmt-0123456789abcdef.tmp", "key.crt", "motd20260131-4711-1a2b3c", "x.dpkg-new"])
        .await;
}

#[test]
fn what_cannot_be_tidied_is_refused() {
    let at = |path: &str, tidy: Tidy| refused(&Tidy { path: path.into(), ..tidy });
    let below = || Tidy { recurse: true, ..Tidy::default() };
    assert!(at("/", Tidy::default()).contains("root directory"));
    assert!(at("relative", Tidy::default()).contains("path"));
    assert!(at("/etc", below()).contains("everything in"));
    assert!(at("/a/b", Tidy { by: "birth".into(), ..below() }).contains("`atime`"));
    assert!(at("/a/b", Tidy { depth: Some(0), ..below() }).contains("`depth`"));
    assert!(at("/a/b", Tidy { depth: Some(1), ..Tidy::default() }).contains("recurse"));
    assert!(at("/a/b", Tidy { keep: vec!["x".into()], ..below() }).contains("`keep`"));
    assert!(Tidy { age: Some(1), ..below() }.validate(&"/tmp".into()).is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn it_looks_again_every_so_often() {
    let place = tempfile::tempdir().unwrap();
    let (root, state) = (place.path().join("root"), place.path().join("state"));
    fs::create_dir(&root).unwrap();
    fs::create_dir(&state).unwrap();
    let (_host, engine, _events) = engine_common::start(&state, Preparation::default());
    let mut graph = ResourceGraph::new();
    let mut spec = Spec::new(name(&root), Tidy { recurse: true, size: Some(100), ..Tidy::default() });
    spec.meta = Meta { poll: 1, ..Meta::default() }.into();
    graph.add_node(spec);
    engine.swap(graph).await.unwrap();
    for number in 0..2 {
        let path = root.join(format!("large{number}"));
        make(&path, Duration::ZERO, 200);
        let gone = async {
            while path.exists() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(120), gone).await.expect("it stays");
    }
    engine.stop(Level::Graceful);
}
