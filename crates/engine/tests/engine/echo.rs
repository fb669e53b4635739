//! The echo of our own work is left out, and nothing else is.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{Graph, Probe, TestEnv, wait};
use mgmt_resource::Spec;
use mgmt_resources::file::File;
use mgmt_sys::ManagedPath;
use mgmt_sys::dir::Parent;
use mgmt_sys::handle::Attributes;
use mgmt_sys::made::{Made, noting};
use mgmt_sys::replace::{Durability, Expect, InPlace, Replacement};

const GOOD: &str = "good";
const EVIL: &str = "evil";

fn file(content: &str) -> File {
    File { state: "exists".into(), content: Some(content.into()), ..File::default() }
}

/// Whether files can be made without a name here, which is what is told apart.
fn can_make_unnamed(directory: &Path) -> bool {
    let directory = ManagedPath::new(directory.to_str().unwrap()).unwrap();
    let parent = Parent::open_itself(&directory).unwrap();
    let (_, made) = noting(|| {
        let new = Replacement::begin_new(&parent, b"try", InPlace::Refuse, 0o600).unwrap();
        new.commit(&Attributes::default(), Expect::Absent, Durability::None).unwrap()
    });
    parent.unlink(b"try").unwrap();
    made != Made::Nothing
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_run_made_is_not_looked_at_again() {
    const FILES: usize = 50;
    let world = TestEnv::new();
    if !can_make_unnamed(world.directory.path()) {
        return;
    }
    let mut graph = Graph::default();
    for number in 0..FILES {
        graph.0.add_node(Spec::new(world.path(&format!("file{number}")), file(GOOD)));
    }
    graph.add("marker", Probe { path: world.path("marker"), text: "right".into(), ..Probe::default() });
    let mut running = world.start();
    running.swap(graph.0).await;
    running.converged().await;
    // What happens to the marker is told after everything that happened before it.
    for round in 1..=3 {
        let before = world.count("marker:wrote");
        std::fs::write(world.directory.path().join("marker"), format!("wrong {round}")).unwrap();
        wait(|| world.count("marker:wrote") > before, "the marker").await;
    }
    wait(|| world.read("marker") == "right", "the marker").await;
    let checks = running.stop().checks;
    let others = u64::try_from(world.count("marker:run")).unwrap();
    assert_eq!(checks, FILES as u64 + others);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_replaced_another_is_looked_at_again() {
    let world = TestEnv::new();
    std::fs::write(world.directory.path().join("file"), EVIL).unwrap();
    let mut graph = Graph::default();
    graph.0.add_node(Spec::new(world.path("file"), file(GOOD)));
    graph.add("marker", Probe { path: world.path("marker"), text: "right".into(), ..Probe::default() });
    let mut running = world.start();
    running.swap(graph.0).await;
    running.converged().await;
    assert_eq!(world.read("file"), GOOD);
    for round in 1..=3 {
        let before = world.count("marker:wrote");
        std::fs::write(world.directory.path().join("marker"), format!("wrong {round}")).unwrap();
        wait(|| world.count("marker:wrote") > before, "the marker").await;
    }
    let checks = running.stop().checks;
    let others = u64::try_from(world.count("marker:run")).unwrap();
    assert!(checks >= 2 + others, "{checks} with {others} of the marker");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_creation_by_somebody_else_is_news() {
    let world = TestEnv::new();
    let path = world.directory.path().join("file");
    std::fs::write(world.directory.path().join("other"), EVIL).unwrap();
    let mut graph = Graph::default();
    graph.0.add_node(Spec::new(world.path("file"), File { state: "absent".into(), ..File::default() }));
    let mut running = world.start();
    running.swap(graph.0).await;
    running.converged().await;
    for round in 0..10 {
        std::fs::hard_link(world.directory.path().join("other"), &path).unwrap();
        wait(|| !path.exists(), &format!("round {round}")).await;
    }
    running.stop();
}

/// What somebody does to the file as soon as it is there.
#[derive(Clone, Copy, Debug)]
enum Meddling {
    /// Writes into it, as many bytes as there are.
    Edit,
    /// Renames another over it, from a directory that nobody watches: the kernel tells of the new name alone.
    Replace,
    /// Takes it away.
    Remove,
    /// Takes it away and makes another with the same number of bytes.
    Recreate,
    /// Takes its place before it is made, so that there are two creations.
    Anticipate,
}

/// The engine makes a file, and somebody who waits for just that changes it within the same tick of the clock.
#[tokio::test(flavor = "multi_thread")]
async fn whatever_happens_right_after_our_own_write_is_repaired() {
    use Meddling::{Anticipate, Edit, Recreate, Remove, Replace};
    for memory in [false, true] {
        let mut world = TestEnv::new();
        if memory {
            let Ok(directory) = tempfile::tempdir_in("/dev/shm") else { continue };
            world.directory = directory;
        }
        let path = world.directory.path().join("file");
        let elsewhere = world.directory.path().join("elsewhere");
        std::fs::create_dir(&elsewhere).unwrap();
        let mut graph = Graph::default();
        graph.0.add_node(Spec::new(world.path("file"), file(GOOD)));
        let mut running = world.start();
        running.swap(graph.0).await;
        running.converged().await;
        let stop = AtomicBool::new(false);
        let meddle = |what: Meddling| {
            let other = elsewhere.join("other");
            std::fs::write(&other, EVIL).unwrap();
            std::fs::remove_file(&path).unwrap();
            if let Anticipate = what {
                // Loses the race now and then, and then meets what was made.
                return drop(std::fs::hard_link(&other, &path));
            }
            while !path.exists() {
                assert!(!stop.load(Ordering::Relaxed), "the file does not come back");
                std::hint::spin_loop();
            }
            // The engine may be at the file, too, so none of this has to succeed.
            match what {
                Edit => {
                    let opened = std::fs::OpenOptions::new().write(true).open(&path);
                    let _ = opened.and_then(|mut file| std::io::Write::write_all(&mut file, EVIL.as_bytes()));
                }
                Replace => drop(std::fs::rename(&other, &path)),
                Remove => drop(std::fs::remove_file(&path)),
                Recreate => {
                    let _ = std::fs::remove_file(&path);
                    let _ = std::fs::write(&path, EVIL);
                }
                Anticipate => {}
            }
        };
        for round in 0..40 {
            for what in [Edit, Replace, Remove, Recreate, Anticipate] {
                tokio::task::block_in_place(|| meddle(what));
                wait(|| world.read("file") == GOOD, &format!("round {round} of {what:?}")).await;
            }
        }
        stop.store(true, Ordering::Relaxed);
        // What is repaired stays so.
        assert_eq!(world.read("file"), GOOD);
        assert_eq!(running.stop().failed, 0);
    }
}
