//! N files of 200 bytes: create them, find them right, watch them.

use std::fs::File as StdFile;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mgmt_engine::Witness;
use mgmt_history::{Journal, Limits, Recorder};
use mgmt_resource::{ResourceGraph, Spec};
use mgmt_resources::file::File;
use mgmt_sys::replace::Durability;
use mgmt_value::Str;
use rustix::fs::{AtFlags, Mode, OFlags};

use crate::processor_time;
use crate::report::{Report, median};
use crate::world::{World, disk, scratch};

/// How often what is judged is measured.
const RUNS: usize = 5;
/// Files in one directory.
const PER_DIRECTORY: usize = 100;

/// Where there is no disk: what is left is the work itself.
pub(crate) fn memory(report: &mut Report) {
    report.section("files in memory, 200 bytes each");
    one_size(report, 10_000, Durability::None, "in memory", || scratch(Path::new("/dev/shm")));
}

pub(crate) fn run(report: &mut Report) {
    report.section("files, 200 bytes each");
    let mut per_file = Vec::new();
    for count in [1_000, 10_000, 100_000] {
        let warm = one_size(report, count, Durability::None, "no fsync", disk);
        per_file.push((count, warm));
    }
    one_size(report, 10_000, Durability::Full, "fsync of file and directory", disk);
    if let (Some((small, first)), Some((large, last))) = (per_file.first(), per_file.last()) {
        #[expect(clippy::cast_precision_loss, reason = "counts are small")]
        let growth = (last.as_secs_f64() / *large as f64) / (first.as_secs_f64() / *small as f64);
        let text = format!("{growth:.2} × per file from {small} to {large}");
        report.figure("warm check, growth of the cost per file", &text, Some((growth <= 1.5, "flat".into())));
    }
}

/// What it costs to keep what was changed, and why: the same files, made with a history and without one, in turn.
pub(crate) fn history(report: &mut Report, program: &Path) {
    report.section("the history of changes");
    whole_runs(report, program);
    // Without a program to read, what is left is the engine and what it does.
    recorded(report, "by the engine, on disk", None, disk);
    recorded(report, "by the engine, in memory", None, || scratch(Path::new("/dev/shm")));
}

/// How often the whole program runs with a history, and as often without one.
const RUNS_IN_TURN: usize = 150;

/// The files benchmark as people see it: the whole program, from its start to its end.
fn whole_runs(report: &mut Report, program: &Path) {
    let directory = disk();
    let mut pairs = Vec::new();
    for turn in 0..RUNS_IN_TURN {
        let measure = |is_recorded: bool| {
            let home = directory.path().join(format!("{turn}-{is_recorded}"));
            let paths = paths(&home.join("files"), FILES);
            let text = home.join("main.mcl");
            std::fs::write(&text, declarations(&paths)).unwrap();
            let mut command = Command::new(program);
            command.arg("run").arg("--prefix").arg(home.join("prefix"));
            command.args(["--fsync=none", "--converger-timeout=0", "--converged-exit"]);
            if !is_recorded {
                command.arg("--no-history");
            }
            command.arg("lang").arg(&text).stdout(Stdio::null()).stderr(Stdio::null());
            rustix::fs::sync();
            let mut status = None;
            let time = timed(|| status = Some(command.status().unwrap()));
            assert!(status.is_some_and(|status| status.success()), "{command:?}");
            assert!(paths.iter().all(|path| raw_check(path, &[b'x'; 200])));
            time
        };
        // Whoever comes first has it easier or harder.
        let is_first = turn % 2 == 0;
        let (first, second) = (measure(is_first), measure(!is_first));
        pairs.push(if is_first { (first, second) } else { (second, first) });
    }
    report.paired(&format!("cold create, {FILES} files, recorded, whole run"), FILES, &pairs, Some(1.03));
}

fn declarations(paths: &[PathBuf]) -> String {
    use std::fmt::Write as _;
    let content = "x".repeat(200);
    paths.iter().fold(String::new(), |mut text, path| {
        let path = path.display();
        writeln!(text, "file \"{path}\" {{\n\tstate => \"exists\",\n\tcontent => \"{content}\",\n}}")
            .unwrap();
        text
    })
}

/// How many processes take turns with themselves, how often each, and with how many files each time. Turns are short, so that whatever
/// slows the machine down for a while slows both sides down, and there are many, so that what hits one side alone does not
/// count.
const PROCESSES: usize = 4;
const TURNS: usize = 15;
const FILES: usize = 5_000;

fn recorded(
    report: &mut Report,
    place: &str,
    target: Option<f64>,
    directory: impl Fn() -> tempfile::TempDir,
) {
    let (mut times, mut work) = (Vec::new(), Vec::new());
    // Nothing is removed before all is measured, as below.
    let mut kept = Vec::new();
    for _ in 0..PROCESSES {
        let directory = directory();
        let arguments = ["turns", &*FILES.to_string(), &*TURNS.to_string()].map(str::to_owned);
        let numbers = numbers(&mut child_command(&arguments, directory.path()));
        for turn in numbers.chunks_exact(4) {
            let [time, worked, bare_time, bare_worked] =
                [0, 1, 2, 3].map(|at| Duration::from_nanos(turn[at]));
            times.push((time, bare_time));
            work.push((worked, bare_worked));
        }
        kept.push(directory);
    }
    report.paired(&format!("cold create, {FILES} files, recorded, {place}"), FILES, &times, target);
    report.paired("  processor time of all threads, all of it written", FILES, &work, None);
}

/// The part in a process of its own that takes turns: prints the nanoseconds and those of processor time with a history, and the
/// same without one, for each turn.
fn turns(count: usize, turns: usize, directory: &Path) {
    // The first engine of a process finds nothing ready, whichever it is.
    one_turn(&directory.join("first"), count.min(500), true);
    for turn in 0..turns {
        let measure = |is_recorded: bool| {
            one_turn(&directory.join(format!("{turn}-{is_recorded}")), count, is_recorded)
        };
        // Whoever comes first has it easier or harder.
        let is_first = turn % 2 == 0;
        let (first, second) = (measure(is_first), measure(!is_first));
        let (with, without) = if is_first { (first, second) } else { (second, first) };
        println!(
            "{} {} {} {}",
            with.0.as_nanos(),
            with.1.as_nanos(),
            without.0.as_nanos(),
            without.1.as_nanos()
        );
    }
}

/// The time until everything is there, and the processor time until everything is also written about it.
fn one_turn(directory: &Path, count: usize, is_recorded: bool) -> (Duration, Duration) {
    let graph = graph(&paths(&directory.join("ours"), count), &[b'x'; 200]);
    let prefix = directory.join("prefix");
    std::fs::create_dir(&prefix).unwrap();
    rustix::fs::sync();
    let witness = is_recorded.then(|| recorder(&prefix));
    let before = processor_time();
    let mut world = World::start_with(&prefix, Durability::None, witness.clone());
    let time = world.converge(graph);
    // What is still to be read of the events that we caused belongs to the work.
    std::thread::sleep(Duration::from_millis(50));
    drop((world, witness));
    (time, processor_time() - before)
}

fn recorder(prefix: &Path) -> Arc<dyn Witness> {
    let journal = Journal::open(prefix.join("history"), Limits::default()).unwrap();
    Arc::new(Recorder::start(journal).unwrap())
}

/// Returns the time of a warm check of all files.
#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn one_size(
    report: &mut Report,
    count: usize,
    durability: Durability,
    policy: &str,
    place: impl Fn() -> tempfile::TempDir,
) -> Duration {
    let judged = count == 10_000;
    let runs = if judged { RUNS } else { 1 };
    let (cold_target, warm_target) = if judged { (Some(2.0), Some(3.0)) } else { (None, None) };
    let content = vec![b'x'; 200];
    let arguments = |what| [what, &*count.to_string(), policy_word(durability)].map(str::to_owned);

    let (mut renamed, mut linked, mut warm, mut work) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut after, mut woken) = (0, 0);
    // Nothing is removed before all is measured: ext4 looks through recently freed inodes whenever it makes a file, so
    // that a run would be slower for what the one before it left behind.
    let mut kept = Vec::new();
    for run in 0..runs {
        let directory = place();
        let ours = || {
            // Each side begins with a disk that has nothing left to do.
            rustix::fs::sync();
            let our_paths = paths(&directory.path().join("ours"), count);
            let (cold, rest) = in_child(&arguments("cold"), directory.path());
            for path in &our_paths {
                assert!(raw_check(path, &content), "{} is not right", path.display());
            }
            (cold, Duration::from_nanos(rest[0]))
        };
        let raw = |way: Way| {
            let raw_paths = paths(&directory.path().join(format!("{way:?}")), count);
            rustix::fs::sync();
            let before = processor_time();
            let cold =
                timed(|| raw_paths.iter().for_each(|path| raw_create(path, &content, durability, way)));
            let worked = processor_time() - before;
            let warm = timed(|| raw_paths.iter().for_each(|path| assert!(raw_check(path, &content))));
            (cold, worked, warm)
        };
        // Whoever comes first meets an empty directory, so they take turns.
        let first = (run % 2 == 1).then(&ours);
        let (raw_renamed, raw_work, _) = raw(Way::Rename);
        let (raw_linked, _, raw_warm) = raw(Way::Link);
        let (cold, our_work) = first.unwrap_or_else(&ours);
        work.push((our_work, raw_work));
        renamed.push((cold, raw_renamed));
        linked.push((cold, raw_linked));
        let (our_warm, rest) = in_child(&arguments("warm"), directory.path());
        warm.push((our_warm, raw_warm));
        (after, woken) = (rest[1], woken.max(rest[2]));
        kept.push(directory);
    }

    report.ratio_spread(&format!("cold create, {count} files, {policy}"), count, &renamed, cold_target);
    report.ratio_spread("  against files without a name, linked", count, &linked, cold_target);
    report.ratio_spread("  processor time of all threads, events included", count, &work, None);
    report.ratio_spread(&format!("warm check, {count} files, {policy}"), count, &warm, warm_target);
    let text = format!("{:.1} MiB, {} bytes per file", after as f64 / 1048576.0, after / count as u64);
    let target = (count == 100_000).then(|| (after >> 20 <= 200, "≤ 200 MiB".into()));
    report.figure(&format!("resident memory, {count} watched files"), &text, target);
    let target = Some((woken == 0, "none".into()));
    report.figure(&format!("wake-ups in 3 idle seconds, {count} files"), &woken.to_string(), target);
    median(warm.into_iter().map(|(ours, _)| ours).collect())
}

fn policy_word(durability: Durability) -> &'static str {
    match durability {
        Durability::Full => "full",
        Durability::Data => "data",
        Durability::None => "none",
    }
}

/// Runs a part in a process of its own, so that neither memory nor threads of another part are measured with it.
/// Returns the time that the engine took, and what else the part printed.
fn in_child(arguments: &[String], directory: &Path) -> (Duration, Vec<u64>) {
    let mut numbers = numbers(&mut child_command(arguments, directory));
    (Duration::from_nanos(numbers.remove(0)), numbers)
}

fn child_command(arguments: &[String], directory: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg("--child").args(arguments).arg(directory);
    command
}

/// The numbers that a command prints.
fn numbers(command: &mut Command) -> Vec<u64> {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.split_whitespace().map(|number| number.parse().unwrap()).collect()
}

/// The part that runs in a process of its own: lets the engine manage the files, and prints nanoseconds, nanoseconds of
/// processor time, resident bytes and wake-ups.
pub(crate) fn child(arguments: &[String]) {
    let [what, count, durability, directory] = arguments else { panic!("wrong arguments: {arguments:?}") };
    let directory = Path::new(directory);
    if what == "turns" {
        return turns(count.parse().unwrap(), durability.parse().unwrap(), directory);
    }
    let durability = match durability.as_str() {
        "full" => Durability::Full,
        "data" => Durability::Data,
        _ => Durability::None,
    };
    let paths = paths(&directory.join("ours"), count.parse().unwrap());
    let prefix = directory.join(format!("prefix-{what}"));
    std::fs::create_dir(&prefix).unwrap();
    let graph = graph(&paths, &[b'x'; 200]);
    drop(paths);
    let witness = (what == "recorded").then(|| recorder(&prefix));
    let mut world = World::start_with(&prefix, durability, witness);
    let before = processor_time();
    let time = world.converge(graph);
    // What is still to be read of the events that we caused belongs to the work.
    std::thread::sleep(Duration::from_millis(200));
    let worked = processor_time() - before;
    let (mut memory, mut woken) = (0, 0);
    if what == "warm" {
        std::thread::sleep(Duration::from_millis(1500));
        memory = resident();
        let before = switches();
        std::thread::sleep(Duration::from_secs(3));
        // One is this thread, which wakes to count.
        woken = switches().saturating_sub(before + 1);
    }
    println!("{} {} {memory} {woken}", time.as_nanos(), worked.as_nanos());
}

fn switches() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let status = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("status")).ok());
    let count = |status: String| {
        let line = status.lines().find(|line| line.starts_with("voluntary_ctxt_switches"))?.to_owned();
        line.split_whitespace().last()?.parse::<u64>().ok()
    };
    status.filter_map(count).sum()
}

/// Resident memory in bytes.
pub(crate) fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

fn paths(root: &Path, count: usize) -> Vec<PathBuf> {
    for number in 0..count.div_ceil(PER_DIRECTORY) {
        std::fs::create_dir_all(root.join(format!("d{number}"))).unwrap();
    }
    (0..count).map(|number| root.join(format!("d{}/file{number}", number / PER_DIRECTORY))).collect()
}

fn graph(paths: &[PathBuf], content: &[u8]) -> ResourceGraph {
    let mut graph = ResourceGraph::with_capacity(paths.len(), 0);
    for path in paths {
        let name = Str::from(path.to_str().unwrap());
        // Every file has content of its own, as it would in a real program.
        let content = Some(Str::new(content));
        graph.add_node(Spec::new(name, File { state: "exists".into(), content, ..File::default() }));
    }
    graph
}

fn timed(work: impl FnOnce()) -> Duration {
    let began = Instant::now();
    work();
    began.elapsed()
}

/// How a file comes to be in one step.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// Under another name, then renamed: what most programs do.
    Rename,
    /// Without a name, then linked: what we do, and cheaper than any other way that we know.
    Link,
}

/// What an atomic, durable creation costs at least.
fn raw_create(path: &Path, content: &[u8], durability: Durability, way: Way) {
    let directory = path.parent().unwrap();
    let name = path.file_name().unwrap();
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let parent = rustix::fs::open(directory, flags, Mode::empty()).unwrap();
    let (temporary, flags, mode) = match way {
        Way::Rename => (".temporary", OFlags::CREATE | OFlags::EXCL, 0o600),
        // Nobody can reach it yet.
        Way::Link => (".", OFlags::TMPFILE, 0o644),
    };
    let flags = flags | OFlags::WRONLY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(&parent, temporary, flags, Mode::from_raw_mode(mode)).unwrap();
    let mut file = StdFile::from(file);
    file.write_all(content).unwrap();
    if let Way::Rename = way {
        rustix::fs::fchmod(&file, Mode::from_raw_mode(0o644)).unwrap();
    }
    if durability != Durability::None {
        rustix::fs::fsync(&file).unwrap();
    }
    match way {
        Way::Rename => rustix::fs::renameat(&parent, temporary, &parent, name).unwrap(),
        Way::Link => rustix::fs::linkat(&file, "", &parent, name, AtFlags::EMPTY_PATH).unwrap(),
    }
    if durability == Durability::Full {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::fsync(rustix::fs::openat(&parent, ".", flags, Mode::empty()).unwrap()).unwrap();
    }
}

/// What looking at a file costs at least.
fn raw_check(path: &Path, content: &[u8]) -> bool {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty()).unwrap();
    let stat = rustix::fs::fstat(file.as_fd()).unwrap();
    if u64::try_from(stat.st_size).unwrap() != content.len() as u64 {
        return false;
    }
    let mut found = [0; 256];
    let read = StdFile::from(file).read(&mut found).unwrap();
    &found[..read] == content
}
