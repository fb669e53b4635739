//! Somebody who keeps a thousand files right and has nothing to do.

use std::time::Duration;

use super::ground::{Going, Ground, paths, until};
use super::inputs::Job;
use super::tools::Tool;
use super::works::{CONTENT, all_right};
use super::{Figure, Missing, Table};

/// How many files are kept right.
pub(crate) const FILES: usize = 1_000;
/// What the kernel tells in ticks, it tells in hundredths of a second.
const TICKS: f64 = 100.0;

/// Memory, and the share of a processor, over a while. All tools at the same time: nobody disturbs the others by doing nothing.
pub(crate) fn run(ground: &Ground, tools: &[Tool], time: Duration, table: &mut Table<'_>) {
    let files = if ground.quick { 20 } else { FILES };
    let [memory, processor] = ["memory", "processor"].map(|what| format!("idle with {files} files: {what}"));
    let mut going = Vec::new();
    for tool in tools {
        let home = ground.place();
        let paths = paths(&home.join("files"), files);
        let program = tool.write(&Job::Files { paths: &paths, content: CONTENT }, &home);
        table.begin(&memory, tool);
        match start(ground, tool, &program, &paths) {
            Ok(child) => going.push((tool, child, paths)),
            Err(why) => {
                table.put(&memory, tool, Figure::None(why));
                table.put(&processor, tool, Figure::None(why));
            }
        }
    }
    // What follows the last file is no idleness.
    std::thread::sleep(if ground.quick { Duration::from_secs(1) } else { Duration::from_secs(10) });
    let before: Vec<f64> = going.iter().map(|(_, child, _)| worked(child.0.id())).collect();
    std::thread::sleep(time);
    let figures: Vec<(f64, f64)> =
        going.iter().map(|(_, child, _)| (resident(child.0.id()), worked(child.0.id()))).collect();
    for (((tool, child, paths), before), (resident, worked)) in going.iter_mut().zip(before).zip(figures) {
        // Whoever has ended in between needs nothing, and does nothing either.
        let is_good = child.is_there() && all_right(paths);
        let share = (worked - before).max(0.0) / time.as_secs_f64() * 100.0;
        let figure = |figure| if is_good { figure } else { Figure::None(Missing::NotDone) };
        table.put(&memory, tool, figure(Figure::Amount(resident, "MB")));
        table.put(&processor, tool, figure(Figure::Amount(share, "%")));
    }
}

/// A run that goes on and has brought about all files.
fn start(
    ground: &Ground,
    tool: &Tool,
    program: &std::path::Path,
    paths: &[std::path::PathBuf],
) -> Result<Going, Missing> {
    let mut command = tool.forever(program).ok_or(Missing::NoSuchThing)?;
    let child = Going(command.spawn().map_err(|_| Missing::Failed)?);
    let done = until(ground.limit, Duration::from_millis(100), || all_right(paths));
    if done { Ok(child) } else { Err(Missing::NotDone) }
}

fn resident(id: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0) / 1024.0
}

/// Seconds that a process has had of the processors. The kernel knows it to the nanosecond for threads that are there, and to the
/// tick with those that have ended.
fn worked(id: u32) -> f64 {
    let nanoseconds = |entry: std::io::Result<std::fs::DirEntry>| {
        let text = std::fs::read_to_string(entry.ok()?.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<f64>().ok()
    };
    let threads = std::fs::read_dir(format!("/proc/{id}/task"));
    let there: f64 = threads.map_or(0.0, |threads| threads.filter_map(nanoseconds).sum());
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    (there / 1e9).max(ticks(&stat).unwrap_or(0.0) / TICKS)
}

/// Ticks in user and in system mode: the words after the name, which may have blanks and brackets in it.
fn ticks(stat: &str) -> Option<f64> {
    let words: Vec<&str> = stat.rsplit_once(") ")?.1.split_whitespace().collect();
    Some(words.get(11)?.parse::<f64>().ok()? + words.get(12)?.parse::<f64>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_line_about_a_process_is_understood() {
        let line = "77 (a) b) S 1 77 77 0 -1 4194560 1 0 0 0 150 25 0 0 20 0 1 0 5 0 0";
        assert_eq!(ticks(line), Some(175.0));
        assert_eq!(ticks(""), None);
    }

    #[test]
    fn work_is_seen() {
        let before = worked(std::process::id());
        let mut sum = 0_u64;
        while worked(std::process::id()) <= before {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(resident(std::process::id()) > 0.0);
    }
}
