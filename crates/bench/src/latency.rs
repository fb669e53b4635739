//! From an edit of a managed file to its repair.

use std::mem::MaybeUninit;
use std::path::Path;
use std::time::{Duration, Instant};

use mgmt_resource::{ResourceGraph, Spec};
use mgmt_resources::file::File;
use mgmt_sys::replace::Durability;
use mgmt_value::Str;
use rustix::fs::inotify;

use crate::report::{Report, Spread, percentile};
use crate::world::{World, scratch};

const EDITS: usize = 1_000;
/// How often everything is measured; the median counts.
const RUNS: usize = 5;
const GOOD: &[u8] = b"managed content, which somebody keeps changing\n";

/// Two clocks for each edit, because neither is the whole truth: opening, writing and closing the file is the editor's
/// own time, but whoever repairs may begin before it is over.
#[derive(Clone, Copy)]
struct Repair {
    /// From before the edit.
    whole: Duration,
    /// From when the edit had returned.
    rest: Duration,
}

pub(crate) fn run(report: &mut Report) {
    report.section("edit of a managed file to repaired, 1000 edits, median of 5 runs (lowest to highest)");
    for (place, directory) in [("disk", "/var/tmp"), ("memory", "/dev/shm")] {
        let mut floors = Vec::new();
        let mut times = [Vec::new(), Vec::new()];
        // Nothing is removed before all is measured, see `calm`.
        let mut kept = Vec::new();
        for _ in 0..RUNS {
            calm(place);
            let scratched = scratch(Path::new(directory));
            floors.push(raw(scratched.path()));
            kept.push(scratched);
            for (others, times) in [0, 10_000].into_iter().zip(&mut times) {
                calm(place);
                let scratched = scratch(Path::new(directory));
                times.push(ours(scratched.path(), others));
                kept.push(scratched);
            }
        }
        for (others, times) in [0, 10_000].into_iter().zip(&times) {
            for (word, part, target) in [("p50", 0.5, 1), ("p99", 0.99, 5)] {
                let name = format!("{word}, {place}, beside {others} other files");
                let whole = spread(times, part, |repair| repair.whole);
                let target = Some(Duration::from_millis(target));
                report.time_spread(&format!("{name}, from before the edit"), whole, target);
                let floor = spread(&floors, part, |repair| repair.whole);
                report.ratio("  against a bare inotify loop", 1, whole.median, floor.median, None);
                let rest = spread(times, part, |repair| repair.rest);
                report.time_spread("  from after the edit", rest, None);
            }
        }
    }
}

/// Waits until nobody has to pay for what was done before.
///
/// When ext4 makes a file it looks at every inode that was freed in the last five seconds, and passes over it. Every
/// repair frees one, on both sides, so that a run would be the slower the more the one before it has repaired.
fn calm(place: &str) {
    rustix::fs::sync();
    if place == "disk" {
        std::thread::sleep(Duration::from_secs(6));
    }
}

/// A percentile of each run.
fn spread(runs: &[Vec<Repair>], part: f64, clock: impl Fn(&Repair) -> Duration) -> Spread {
    let of_run = |run: &Vec<Repair>| {
        let mut times: Vec<Duration> = run.iter().map(&clock).collect();
        times.sort();
        percentile(&times, part)
    };
    Spread::of(runs.iter().map(of_run).collect())
}

/// The engine repairs.
fn ours(directory: &Path, others: usize) -> Vec<Repair> {
    let path = directory.join("managed");
    let mut graph = ResourceGraph::new();
    let file =
        |content: &[u8]| File { state: "exists".into(), content: Some(Str::new(content)), ..File::default() };
    graph.add_node(Spec::new(path.to_str().unwrap(), file(GOOD)));
    for number in 0..others {
        let name = directory.join(format!("other{number}"));
        graph.add_node(Spec::new(name.to_str().unwrap(), file(b"other")));
    }
    let prefix = directory.join("prefix");
    std::fs::create_dir(&prefix).unwrap();
    let mut world = World::start(&prefix, Durability::None);
    world.converge(graph);
    measure(&path)
}

/// A thread that waits for one inotify event and writes the file again, atomically, repairs.
fn raw(directory: &Path) -> Vec<Repair> {
    let path = directory.join("managed");
    std::fs::write(&path, GOOD).unwrap();
    let watch = inotify::init(inotify::CreateFlags::CLOEXEC).unwrap();
    let flags = inotify::WatchFlags::MODIFY | inotify::WatchFlags::MOVED_TO;
    inotify::add_watch(&watch, directory, flags).unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let repair = || {
            let mut buffer = [MaybeUninit::uninit(); 4096];
            let mut reader = inotify::Reader::new(&watch, &mut buffer);
            while reader.next().is_ok() && !stop.load(std::sync::atomic::Ordering::Relaxed) {
                if std::fs::read(&path).unwrap() != GOOD {
                    let temporary = path.with_extension("new");
                    std::fs::write(&temporary, GOOD).unwrap();
                    std::fs::rename(&temporary, &path).unwrap();
                }
            }
        };
        scope.spawn(repair);
        let times = measure(&path);
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        std::fs::write(&path, "the end").unwrap();
        times
    })
}

/// Edits the file and waits until it is right again, many times.
///
/// Waiting is by inotify, too: a loop that looked all the time would take a processor from whoever repairs.
fn measure(path: &Path) -> Vec<Repair> {
    let watch = inotify::init(inotify::CreateFlags::CLOEXEC).unwrap();
    let flags = inotify::WatchFlags::MOVED_TO | inotify::WatchFlags::CLOSE_WRITE;
    inotify::add_watch(&watch, path.parent().unwrap(), flags).unwrap();
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut reader = inotify::Reader::new(&watch, &mut buffer);
    let edit = |_| {
        let before = Instant::now();
        std::fs::write(path, "drift").unwrap();
        let after = Instant::now();
        while std::fs::read(path).is_ok_and(|content| content != GOOD) {
            assert!(after.elapsed() < Duration::from_secs(10), "the file is not repaired");
            reader.next().unwrap();
        }
        let repair = Repair { whole: before.elapsed(), rest: after.elapsed() };
        // Let the echo of the repair pass, so that every edit meets a quiet engine.
        std::thread::sleep(Duration::from_millis(1));
        repair
    };
    (0..EDITS).map(edit).collect()
}
