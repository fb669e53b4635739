//! From an edit of a managed file to its repair.

use std::path::Path;
use std::time::{Duration, Instant};

use mgmt_resource::{ResourceGraph, Spec};
use mgmt_resources::file::File;
use mgmt_sys::replace::Durability;
use mgmt_value::Str;
use rustix::fs::inotify;

use crate::report::{Report, percentile};
use crate::world::World;

const EDITS: usize = 1_000;
const GOOD: &[u8] = b"managed content, which somebody keeps changing\n";

pub(crate) fn run(report: &mut Report) {
    report.section("edit of a managed file to repaired, 1000 edits");
    let floor = raw();
    for others in [0, 10_000] {
        let times = ours(others);
        let (p50, p99) = (percentile(&times, 0.5), percentile(&times, 0.99));
        let name = format!("beside {others} other files");
        report.time(&format!("p50 {name}"), p50, Some(Duration::from_millis(1)));
        report.time(&format!("p99 {name}"), p99, Some(Duration::from_millis(5)));
        report.ratio(
            &format!("p50 against a bare inotify loop, {name}"),
            1,
            p50,
            percentile(&floor, 0.5),
            None,
        );
    }
}

/// The engine repairs.
fn ours(others: usize) -> Vec<Duration> {
    let directory = crate::world::scratch();
    let path = directory.path().join("managed");
    let mut graph = ResourceGraph::new();
    let file =
        |content: &[u8]| File { state: "exists".into(), content: Some(Str::new(content)), ..File::default() };
    graph.add_node(Spec::new(path.to_str().unwrap(), file(GOOD)));
    for number in 0..others {
        let name = directory.path().join(format!("other{number}"));
        graph.add_node(Spec::new(name.to_str().unwrap(), file(b"other")));
    }
    let prefix = directory.path().join("prefix");
    std::fs::create_dir(&prefix).unwrap();
    let mut world = World::start(&prefix, Durability::None);
    world.converge(graph);
    measure(&path)
}

/// A thread that waits for one inotify event and writes the file again, atomically, repairs.
fn raw() -> Vec<Duration> {
    let directory = crate::world::scratch();
    let path = directory.path().join("managed");
    std::fs::write(&path, GOOD).unwrap();
    let watch = inotify::init(inotify::CreateFlags::CLOEXEC).unwrap();
    let flags = inotify::WatchFlags::MODIFY | inotify::WatchFlags::MOVED_TO;
    inotify::add_watch(&watch, directory.path(), flags).unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let repair = || {
            let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
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

/// Edits the file and looks until it is right again, many times. Sorted.
fn measure(path: &Path) -> Vec<Duration> {
    let mut times: Vec<Duration> = (0..EDITS)
        .map(|_| {
            let began = Instant::now();
            std::fs::write(path, "drift").unwrap();
            while std::fs::read(path).is_ok_and(|content| content != GOOD) {
                assert!(began.elapsed() < Duration::from_secs(10), "the file is not repaired");
                std::thread::yield_now();
            }
            let time = began.elapsed();
            // Let the echo of the repair pass, so that every edit meets a quiet engine.
            std::thread::sleep(Duration::from_millis(1));
            time
        })
        .collect();
    times.sort();
    times
}
