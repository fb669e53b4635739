//! The pieces of work.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use super::tools::{Job, Tool};
use super::{Figure, Row};
use crate::report::median;

/// Whoever took longer than this for a tenth of the files is not asked for all of them.
const LONGEST: Duration = Duration::from_secs(10);
/// Content of a file, in which nothing means anything to any tool.
const CONTENT: &str = "two hundred bytes of text that mean nothing at all to any of the tools which are compared here, neither quotes nor brackets nor dollars in it, so that all of them write the same into each of the files ok";
/// Files in one directory.
const PER_DIRECTORY: usize = 100;

/// Where everything happens: not in memory, as hosts have disks.
fn place() -> tempfile::TempDir {
    tempfile::tempdir_in("/var/tmp").unwrap()
}

pub(crate) fn paths(directory: &Path, count: usize) -> Vec<PathBuf> {
    let path = |number: usize| {
        let directory = directory.join(format!("d{}", number / PER_DIRECTORY));
        std::fs::create_dir_all(&directory).unwrap();
        directory.join(format!("f{number}"))
    };
    (0..count).map(path).collect()
}

/// How long a tool takes for its program, if it ends well.
fn once(tool: &Tool, program: &Path) -> Option<Duration> {
    timed(&mut tool.once(program)).map(|time| time.saturating_sub(tool.waits()))
}

/// How long a program takes, if it ends well.
fn timed(command: &mut Command) -> Option<Duration> {
    let began = Instant::now();
    let status = command.status().ok()?;
    let took = began.elapsed();
    if !status.success() {
        println!("{command:?} ended with {status}");
    }
    status.success().then_some(took)
}

fn all_right(paths: &[PathBuf]) -> bool {
    // CFEngine ends the last line; nobody else does.
    let is_right = |path: &PathBuf| {
        std::fs::read_to_string(path)
            .is_ok_and(|text| text == CONTENT || text.strip_suffix('\n') == Some(CONTENT))
    };
    paths.iter().all(is_right)
}

/// What the raw loop does for one file that is not there, and for one that may be right.
fn raw_create(path: &Path) {
    use std::io::Write;
    let temporary = path.with_extension("new");
    let mut file = std::fs::File::create_new(&temporary).unwrap();
    file.write_all(CONTENT.as_bytes()).unwrap();
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    std::fs::rename(&temporary, path).unwrap();
}

fn raw_check(path: &Path) {
    use std::io::Read;
    let mut file = std::fs::File::open(path).unwrap();
    assert!(file.metadata().unwrap().is_file());
    let mut text = [0; 256];
    let length = file.read(&mut text).unwrap();
    assert_eq!(&text[..length], CONTENT.as_bytes());
}

/// N files, cold and warm.
pub(crate) fn files(tools: &[Tool], sizes: &[usize]) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut before: BTreeMap<&str, Duration> = BTreeMap::new();
    for size in sizes {
        let (mut cold, mut warm) = (BTreeMap::new(), BTreeMap::new());
        for tool in tools {
            println!("{size} files: {}", tool.name());
            let (first, second) = match before.get(tool.name()) {
                Some(before) if *before > LONGEST => (Figure::None, Figure::None),
                _ => files_of(tool, *size),
            };
            let took = [first, second].map(|figure| match figure {
                Figure::Time(time) => time,
                _ => Duration::MAX,
            });
            before.insert(tool.name(), took[0].saturating_add(took[1]));
            cold.insert(tool.name(), first);
            warm.insert(tool.name(), second);
        }
        rows.push(Row { work: format!("{size} files, cold"), figures: cold });
        rows.push(Row { work: format!("{size} files, warm"), figures: warm });
    }
    rows
}

fn files_of(tool: &Tool, count: usize) -> (Figure, Figure) {
    // The quick ones are measured several times.
    let runs = if matches!(tool, Tool::Raw | Tool::Ours(_)) { 5 } else { 1 };
    let (mut cold, mut warm) = (Vec::new(), Vec::new());
    // Nothing is removed before all is measured: what was freed makes the next creation slower.
    let mut kept = Vec::new();
    for _ in 0..runs {
        let home = place();
        let paths = paths(&home.path().join("files"), count);
        rustix::fs::sync();
        if matches!(tool, Tool::Raw) {
            let began = Instant::now();
            paths.iter().for_each(|path| raw_create(path));
            cold.push(began.elapsed());
            let began = Instant::now();
            paths.iter().for_each(|path| raw_check(path));
            warm.push(began.elapsed());
        } else {
            let program = tool.write(&Job::Files { paths: &paths, content: CONTENT }, home.path());
            let Some(first) = once(tool, &program) else { return (Figure::None, Figure::None) };
            if !all_right(&paths) {
                println!("{}: not all files are right", tool.name());
                return (Figure::None, Figure::None);
            }
            cold.push(first);
            warm.extend(once(tool, &program));
        }
        kept.push(home);
    }
    (Figure::Time(median(cold)), Figure::Time(median(warm)))
}

/// One file, from the start of the program to its end.
pub(crate) fn one_file(tools: &[Tool]) -> Row {
    let figure = |tool: &Tool| {
        let home = place();
        let paths = paths(&home.path().join("files"), 1);
        let program = tool.write(&Job::Files { paths: &paths, content: CONTENT }, home.path());
        let runs = if matches!(tool, Tool::Raw | Tool::Ours(_)) { 15 } else { 3 };
        let run = |_| {
            let _ = std::fs::remove_file(&paths[0]);
            if matches!(tool, Tool::Raw) {
                let began = Instant::now();
                raw_create(&paths[0]);
                return Some(began.elapsed());
            }
            once(tool, &program).filter(|_| all_right(&paths))
        };
        let times: Vec<Duration> = (0..runs).filter_map(run).collect();
        if times.is_empty() { Figure::None } else { Figure::Time(median(times)) }
    };
    row("one file, start to done", tools, figure)
}

fn row(work: &str, tools: &[Tool], figure: impl Fn(&Tool) -> Figure) -> Row {
    let figures = tools.iter().map(|tool| {
        println!("{work}: {}", tool.name());
        (tool.name(), figure(tool))
    });
    Row { work: work.to_owned(), figures: figures.collect() }
}

/// A program that ends with the measurement.
pub(crate) struct Going(pub(crate) Child);

impl Drop for Going {
    fn drop(&mut self) {
        let id = rustix::process::Pid::from_child(&self.0);
        let _ = rustix::process::kill_process(id, rustix::process::Signal::TERM);
        let until = Instant::now() + Duration::from_secs(10);
        while Instant::now() < until {
            if self.0.try_wait().is_ok_and(|status| status.is_some()) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn until(limit: Duration, is_so: impl Fn() -> bool) -> bool {
    let end = Instant::now() + limit;
    while Instant::now() < end {
        if is_so() {
            return true;
        }
        std::thread::sleep(Duration::from_micros(50));
    }
    is_so()
}

/// Edits a managed file again and again while a tool runs; how long each repair took.
fn edits(tool: &Tool, program: &Path, paths: &[PathBuf], count: usize) -> Vec<Duration> {
    let Some(mut command) = tool.forever(program) else { return Vec::new() };
    let _going = Going(command.spawn().unwrap());
    if !until(Duration::from_secs(60), || all_right(paths)) {
        return Vec::new();
    }
    // The file may have been right before it has begun.
    std::thread::sleep(Duration::from_secs(3));
    let edit = |_| {
        // Every edit meets somebody who is at rest.
        std::thread::sleep(Duration::from_millis(300));
        std::fs::write(&paths[0], "drift").unwrap();
        let began = Instant::now();
        until(Duration::from_secs(30), || all_right(paths)).then(|| began.elapsed())
    };
    (0..count).filter_map(edit).collect()
}

/// From an edit of a managed file to its repair.
pub(crate) fn repair(tools: &[Tool]) -> Row {
    // Who is edited more often in a row is taken for undone by somebody else, and waits.
    const EDITS: usize = 10;
    const ROUNDS: usize = 5;
    let figure = |tool: &Tool| {
        let home = place();
        let paths = paths(&home.path().join("files"), 1);
        let program = tool.write(&Job::Files { paths: &paths, content: CONTENT }, home.path());
        if matches!(tool, Tool::Raw) {
            return Figure::None;
        }
        if !tool.follows_events() {
            let run = |_| {
                std::fs::write(&paths[0], "drift").unwrap();
                once(tool, &program).filter(|_| all_right(&paths))
            };
            let times: Vec<Duration> = (0..3).filter_map(run).collect();
            return if times.is_empty() { Figure::None } else { Figure::Time(median(times)) };
        }
        let times: Vec<Duration> = (0..ROUNDS).flat_map(|_| edits(tool, &program, &paths, EDITS)).collect();
        if times.len() < ROUNDS * EDITS { Figure::None } else { Figure::Time(median(times)) }
    };
    row("edit to repaired", tools, figure)
}

/// Commands, each after the one before.
pub(crate) fn chain(tools: &[Tool]) -> Row {
    const COMMANDS: usize = 200;
    let figure = |tool: &Tool| {
        let home = place();
        let program = tool.write(&Job::Chain(COMMANDS), home.path());
        if matches!(tool, Tool::Raw) {
            let began = Instant::now();
            for _ in 0..COMMANDS {
                assert!(Command::new("/bin/true").status().unwrap().success());
            }
            return Figure::Time(began.elapsed());
        }
        let runs = if matches!(tool, Tool::Ours(_)) { 3 } else { 1 };
        let times: Vec<Duration> = (0..runs).filter_map(|_| once(tool, &program)).collect();
        if times.is_empty() { Figure::None } else { Figure::Time(median(times)) }
    };
    row("200 commands in a chain", tools, figure)
}

/// Reading a program without running it.
pub(crate) fn checks(tools: &[Tool], sizes: &[usize]) -> Vec<Row> {
    let one = |size: &usize| {
        let figure = |tool: &Tool| {
            let home = place();
            let paths = paths(&home.path().join("files"), *size);
            let program = tool.write(&Job::Files { paths: &paths, content: CONTENT }, home.path());
            let Some(mut command) = tool.check(&program) else { return Figure::None };
            let runs = if matches!(tool, Tool::Ours(_)) { 5 } else { 1 };
            let times: Vec<Duration> = (0..runs).filter_map(|_| timed(&mut command)).collect();
            if times.is_empty() { Figure::None } else { Figure::Time(median(times)) }
        };
        row(&format!("check of {size} resources"), tools, figure)
    };
    sizes.iter().map(one).collect()
}
