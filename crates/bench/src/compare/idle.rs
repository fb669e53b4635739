//! Somebody who keeps a thousand files right and has nothing to do.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::tools::{Job, Tool};
use super::works::{Going, paths};
use super::{Figure, Row};

const FILES: usize = 1_000;

/// Memory, and the share of a processor, over a while. All tools at the same time: nobody disturbs the others by doing nothing.
pub(crate) fn run(tools: &[Tool], time: Duration) -> [Row; 2] {
    let (mut memory, mut processor) = (BTreeMap::new(), BTreeMap::new());
    let mut going = Vec::new();
    for tool in tools {
        let home = tempfile::tempdir_in("/var/tmp").unwrap();
        let paths = paths(&home.path().join("files"), FILES);
        let program = tool.write(&Job::Files { paths: &paths, content: "idle" }, home.path());
        let Some(mut command) = tool.forever(&program) else { continue };
        println!("idle: {}", tool.name());
        let child = Going(command.spawn().unwrap());
        let end = Instant::now() + Duration::from_secs(90);
        while Instant::now() < end && !paths.iter().all(|path| path.exists()) {
            std::thread::sleep(Duration::from_millis(100));
        }
        going.push((tool.name(), child, home));
    }
    // What follows the last file is no idleness.
    std::thread::sleep(Duration::from_secs(5));
    let before: Vec<f64> = going.iter().map(|(_, child, _)| worked(child.0.id())).collect();
    std::thread::sleep(time);
    for ((name, child, _), before) in going.iter().zip(before) {
        let id = child.0.id();
        memory.insert(*name, Figure::Amount(resident(id), "MB"));
        processor.insert(*name, Figure::Amount((worked(id) - before) / time.as_secs_f64() * 100.0, "%"));
    }
    [
        Row { work: format!("idle with {FILES} files: memory"), figures: memory },
        Row { work: format!("idle with {FILES} files: processor"), figures: processor },
    ]
}

fn resident(id: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0) / 1024.0
}

/// Seconds that all threads of a process have had of the processors, as exactly as the kernel knows.
fn worked(id: u32) -> f64 {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{id}/task")) else { return 0.0 };
    let nanoseconds = |entry: std::io::Result<std::fs::DirEntry>| {
        let text = std::fs::read_to_string(entry.ok()?.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<f64>().ok()
    };
    threads.filter_map(nanoseconds).sum::<f64>() / 1e9
}
