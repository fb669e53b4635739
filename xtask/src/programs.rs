//! Test runner: units side by side, as many as there are processors, and one more for each processor as long as the machine is
//! idle all the same.
//!
//! A unit is one process. It is one top-level module of an integration test program, with `--exact` and the list of its tests, so
//! that what needs a process of its own (descriptors that are counted, limits, global state) has one, although few programs are
//! linked. The tests beside the code of a crate are one unit together.
//!
//! Most of our tests wait for something (a host that boots, a daemon, an event), so that one unit alone leaves the machine idle.
//! What a unit writes is shown in one piece when it ends; how idle the machine was, at the end.
//!
//! A unit that runs for longer than [`UNIT_TIMEOUT`] is killed and has failed. A unit that failed is run once more, alone, after
//! all others: if it fails again, it is broken. If it passes, it is flaky: it is named at the end, and its tests have to be mended.

use std::collections::{BTreeMap, VecDeque};
use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::step::{Failed, cargo, say, show, step_in, workspace};

/// Units that take long, the longest first. They start first, or the others would have to wait for them at the end. All others are
/// short, and any order will do.
const LONG: [&str; 42] = [
    "puppet",
    "pkg_packagekit",
    "agent",
    "security",
    "flow",
    "fault_lab",
    "agent_real",
    "clustering",
    "plan",
    "scaffold",
    "puppet_twins",
    "swaps",
    "package",
    "tutorial",
    "firewalld",
    "svc",
    "remote",
    "remote_kind",
    "langpuppet",
    "how_to",
    "soak",
    "chaos",
    "cron",
    "hostname",
    "gsettings",
    "host_examples",
    "secrets",
    "nspawn",
    "faults",
    "cluster_faults",
    "process",
    "shared_state",
    "etcd_shared_state",
    "etcd_store",
    "relations",
    "pippet",
    "pkg",
    "cluster_sim",
    "translate",
    "mcl_examples",
    "instructions",
    "cluster",
];

/// One more unit is started when more than half a processor had nothing to do for so long.
const LULL: Duration = Duration::from_secs(2);

/// Longer than any unit takes on a machine that is busy with other things. A unit that takes longer hangs.
const UNIT_TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// How long a unit has for its end when it is asked to end, before it is killed.
const KILL_DELAY: Duration = Duration::from_secs(10);

/// The exit codes of `timeout` when the time is over: the program ended when it was asked to, or had to be killed.
const TIMED_OUT: [i32; 2] = [124, 137];

/// Options of test programs that have a value behind them.
const OPTIONS_WITH_VALUE: [&str; 6] =
    ["--test-threads", "--skip", "--format", "--color", "--logfile", "--shuffle-seed"];

/// A program with tests, as cargo has built it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Program {
    pub(crate) name: String,
    pub(crate) executable: PathBuf,
    /// The directory of the package, where its tests expect to be run.
    pub(crate) package: PathBuf,
    /// It is below `tests/`, not beside the code.
    pub(crate) is_integration: bool,
}

/// Tests that run in one process.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Unit {
    pub(crate) program: Program,
    /// The top-level module; none if all tests of the program are this unit.
    pub(crate) module: Option<String>,
    /// The paths of its tests, those that are ignored included.
    pub(crate) tests: Vec<String>,
}

/// How many tests there were.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Counts {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) ignored: usize,
}

/// What came of all units.
pub(crate) struct Report {
    pub(crate) counts: Counts,
    /// The names of units that failed twice.
    pub(crate) failed: Vec<String>,
}

/// How the process of a unit ended.
struct Ended {
    unit: Unit,
    result: std::io::Result<Finished>,
    took: Duration,
}

struct Finished {
    code: Option<i32>,
    output: String,
}

/// Builds the test programs that each of the selections names (arguments of `cargo test`, and those for the tests), runs their
/// units, and says what came of it.
pub(crate) fn run(selections: &[(&[&str], &[&str])]) -> Result<Report, Failed> {
    let mut waiting = Vec::new();
    for (selection, arguments) in selections {
        for program in build(selection)? {
            let units = units(&program, arguments)?;
            waiting.extend(units.into_iter().map(|unit| (unit, *arguments)));
        }
    }
    waiting.sort_by_key(|(unit, _)| LONG.iter().position(|name| unit.name() == *name).unwrap_or(LONG.len()));
    let count = waiting.len();
    let waiting = Mutex::new(VecDeque::from(waiting));
    let state = Mutex::new((Counts::default(), Vec::new()));
    let next = || lock(&waiting).pop_front();
    let work = |unit: Unit, arguments| {
        let ended = run_one(unit, arguments);
        // Held while it is shown, so that two units do not write at once.
        let mut state = lock(&state);
        if ended.has_passed() {
            show_end(&ended, "");
            state.0.add(ended.counts());
        } else {
            // Marked, as it is run once more.
            show_end(&ended, "| ");
            state.1.push((ended.unit, arguments));
        }
    };
    let processors = std::thread::available_parallelism().map_or(2, usize::from);
    let (began, before) = (Instant::now(), Spent::now());
    let looking = Mutex::new(());
    std::thread::scope(|scope| {
        for lane in 0..processors * 2 {
            let (next, work, waiting, looking) = (&next, &work, &waiting, &looking);
            scope.spawn(move || {
                while !lock(waiting).is_empty() {
                    if lane >= processors && !is_idle(looking) {
                        continue;
                    }
                    if let Some((unit, arguments)) = next() {
                        work(unit, arguments);
                    }
                }
            });
        }
    });
    let idle = before.zip(Spent::now()).map_or(0.0, |(before, now)| now.idle_since(before));
    say(&format!(
        "\n{count} units in {:.0} s, in which {:.0} % of {processors} processors were idle\n",
        began.elapsed().as_secs_f32(),
        idle * 100.0
    ));
    let (mut counts, failed_once) = state.into_inner().unwrap_or_else(PoisonError::into_inner);
    let (mut failed, mut flaky) = (Vec::new(), Vec::new());
    for (unit, arguments) in failed_once {
        let ended = run_one(unit, arguments);
        show_end(&ended, "");
        counts.add(ended.counts());
        let to = if ended.has_passed() { &mut flaky } else { &mut failed };
        to.push(ended.unit.full_name());
    }
    if !flaky.is_empty() {
        say(&format!("\nflaky, passed only when run again alone: {}\n", flaky.join(", ")));
    }
    if !failed.is_empty() {
        say(&format!("\n{} of {count} units failed: {}\n", failed.len(), failed.join(", ")));
    }
    Ok(Report { counts, failed })
}

/// Builds a test program of a package, and runs those of its tests whose paths begin with `prefix` in one process, whose output
/// is shown as it comes.
pub(crate) fn run_tests(
    (package, program): (&str, &str),
    prefix: &str,
    options: &[&str],
    variables: &[(&str, String)],
) -> Result<(), Failed> {
    let programs = build(&["--package", package, "--test", program])?;
    let missing = || Failed::new(format!("{package}: there is no test {program}::{prefix}…"));
    let program = programs.first().ok_or_else(missing)?;
    let tests = tests_below(program, prefix)?;
    if tests.is_empty() {
        return Err(missing());
    }
    let mut command = Command::new(&program.executable);
    command.arg("--exact").args(tests).args(options);
    command.env("CARGO", cargo()).env("CARGO_MANIFEST_DIR", &program.package);
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    step_in(&program.package, &mut command)
}

/// The tests of a program whose paths begin with `prefix`.
pub(crate) fn tests_below(program: &Program, prefix: &str) -> Result<Vec<String>, Failed> {
    Ok(list(program, &[])?.into_iter().filter(|test| test.starts_with(prefix)).collect())
}

/// The units of a program, without those none of whose tests is selected by `arguments`.
pub(crate) fn units(program: &Program, arguments: &[&str]) -> Result<Vec<Unit>, Failed> {
    let tests = list(program, arguments)?;
    Ok(divide(program, tests))
}

/// The paths of the tests of a program that `arguments` selects.
fn list(program: &Program, arguments: &[&str]) -> Result<Vec<String>, Failed> {
    let arguments = arguments.iter().filter(|argument| !argument.starts_with("--nocapture"));
    let output = Command::new(&program.executable)
        .args(["--list", "--format", "terse"])
        .args(arguments)
        .current_dir(&program.package)
        .output();
    let output =
        output.map_err(|error| Failed::new(format!("cannot run {}: {error}", program.full_name())))?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Err(Failed::new(format!("cannot list the tests of {}: {errors}", program.full_name())));
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(text.lines().filter_map(|line| Some(line.strip_suffix(": test")?.to_owned())).collect())
}

fn divide(program: &Program, tests: Vec<String>) -> Vec<Unit> {
    let mut modules: BTreeMap<Option<String>, Vec<String>> = BTreeMap::new();
    for test in tests {
        let module = test.split_once("::").map(|(module, _)| module.to_owned());
        modules.entry(module.filter(|_| program.is_integration)).or_default().push(test);
    }
    let unit = |(module, tests)| Unit { program: program.clone(), module, tests };
    modules.into_iter().map(unit).collect()
}

/// The options among the arguments for tests: those that select tests have done so already.
fn options<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    let (mut options, mut words) = (Vec::new(), arguments.iter().copied());
    while let Some(word) = words.next() {
        let value = if OPTIONS_WITH_VALUE.contains(&word) { words.next() } else { None };
        let selects = ["--skip", "--exact"].iter().any(|option| word.starts_with(option));
        if word.starts_with('-') && !selects {
            options.push(word);
            options.extend(value);
        }
    }
    options
}

/// How the processors have spent their time, in ticks.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Spent {
    idle: u64,
    all: u64,
}

impl Spent {
    fn now() -> Option<Spent> {
        Spent::read(&std::fs::read_to_string("/proc/stat").ok()?)
    }

    fn read(stat: &str) -> Option<Spent> {
        let ticks = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
        let ticks: Vec<u64> = ticks.map(str::parse).collect::<Result<_, _>>().ok()?;
        // Idle, and waiting for a disk. What guests had is part of what is counted before.
        Some(Spent { idle: ticks.get(3)? + ticks.get(4)?, all: ticks.iter().take(8).sum() })
    }

    /// The share of the time since then that was idle.
    fn idle_since(self, before: Spent) -> f64 {
        let (idle, all) = (self.idle.saturating_sub(before.idle), self.all.saturating_sub(before.all));
        idle as f64 / (all as f64).max(1.0)
    }
}

/// Waits for a while, and says whether more than half a processor had nothing to do meanwhile. Whoever looks does so alone, so
/// that one lull brings one unit.
fn is_idle(looking: &Mutex<()>) -> bool {
    let _alone = lock(looking);
    let before = Spent::now();
    std::thread::sleep(LULL);
    let processors = std::thread::available_parallelism().map_or(2.0, |count| count.get() as f64);
    before.zip(Spent::now()).is_some_and(|(before, now)| now.idle_since(before) * processors > 0.5)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Builds the test programs that arguments of `cargo test` name.
pub(crate) fn build(selection: &[&str]) -> Result<Vec<Program>, Failed> {
    let mut command = Command::new(cargo());
    command.args(["test", "--no-run", "--message-format=json-render-diagnostics"]).args(selection);
    command.current_dir(workspace()).stdout(Stdio::piped());
    show(&command);
    let cannot = |error: std::io::Error| Failed::new(format!("cannot build the tests: {error}"));
    let mut child = command.spawn().map_err(cannot)?;
    let mut programs = Vec::new();
    if let Some(lines) = child.stdout.take() {
        for line in std::io::BufReader::new(lines).lines() {
            programs.extend(program(&line.map_err(cannot)?));
        }
    }
    let status = child.wait().map_err(cannot)?;
    if !status.success() {
        return Err(Failed::new("the tests do not build"));
    }
    Ok(programs)
}

/// What a line of cargo says about a test program, if it does.
fn program(line: &str) -> Option<Program> {
    let (_, profile) = line.strip_prefix(r#"{"reason":"compiler-artifact""#)?.split_once(r#""profile":{"#)?;
    profile.split('}').next()?.contains(r#""test":true"#).then_some(())?;
    let executable = PathBuf::from(text(line, "executable")?);
    let file = executable.file_name()?.to_str()?;
    let name = file.rsplit_once('-').map_or(file, |(name, _)| name).to_owned();
    let package = Path::new(&text(line, "manifest_path")?).parent()?.to_owned();
    let is_integration = line.contains(r#""kind":["test"]"#);
    Some(Program { name, executable, package, is_integration })
}

/// The text behind a name in a line of JSON; nothing if it has escapes, which paths of builds do not.
fn text(line: &str, name: &str) -> Option<String> {
    let (_, rest) = line.split_once(&format!(r#""{name}":""#))?;
    let (text, _) = rest.split_once('"')?;
    (!text.contains('\\')).then(|| text.to_owned())
}

fn run_one(unit: Unit, arguments: &[&str]) -> Ended {
    let begin = Instant::now();
    let result = output(&unit, arguments);
    Ended { unit, result, took: begin.elapsed() }
}

/// Runs a unit to its end, or to the end of its time. Its output goes to a file: a process that it leaves behind could hold a pipe.
fn output(unit: &Unit, arguments: &[&str]) -> std::io::Result<Finished> {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("mgmt-xtask-unit-{}-{number}", std::process::id()));
    let file = std::fs::File::create(&path)?;
    let Program { executable, package, .. } = &unit.program;
    // With a group of its own, all of which is ended when the time is over, or when this process is gone.
    let status = Command::new("setpriv")
        .args(["--pdeathsig", "TERM", "timeout"])
        .arg(format!("--kill-after={}", KILL_DELAY.as_secs()))
        .arg(UNIT_TIMEOUT.as_secs().to_string())
        // Whoever was started in the background ignores these signals, and so does all that it starts.
        .args(["env", "--default-signal=INT,QUIT"])
        .arg(executable)
        .args(unit.selection())
        .args(options(arguments))
        .current_dir(package)
        .env("CARGO", cargo())
        .env("CARGO_MANIFEST_DIR", package)
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file)
        .status();
    let output = std::fs::read(&path);
    // A file that stays behind in the directory for temporary files does no harm.
    let _ = std::fs::remove_file(&path);
    Ok(Finished { code: status?.code(), output: String::from_utf8_lossy(&output?).into_owned() })
}

impl Program {
    /// The folder of its package, and its name.
    pub(crate) fn full_name(&self) -> String {
        format!("{}/{}", self.package.file_name().unwrap_or_default().to_string_lossy(), self.name)
    }
}

impl Unit {
    /// The module, or the program that is one unit.
    pub(crate) fn name(&self) -> &str {
        self.module.as_deref().unwrap_or(&self.program.name)
    }

    /// The folder of its package, its program and its module.
    pub(crate) fn full_name(&self) -> String {
        match &self.module {
            Some(module) => format!("{}::{module}", self.program.full_name()),
            None => self.program.full_name(),
        }
    }

    /// The arguments that select its tests.
    fn selection(&self) -> impl Iterator<Item = &str> {
        std::iter::once("--exact").chain(self.tests.iter().map(String::as_str))
    }
}

impl Counts {
    pub(crate) fn add(&mut self, more: Counts) {
        self.passed += more.passed;
        self.failed += more.failed;
        self.ignored += more.ignored;
    }

    /// All results in the output of test programs.
    pub(crate) fn of(output: &str) -> Counts {
        let mut counts = Counts::default();
        for line in output.lines().filter_map(|line| line.strip_prefix("test result: ")) {
            let count = |what: &str| {
                let (before, _) = line.split_once(what)?;
                before.rsplit(' ').next()?.parse().ok()
            };
            counts.add(Counts {
                passed: count(" passed;").unwrap_or(0),
                failed: count(" failed;").unwrap_or(0),
                ignored: count(" ignored;").unwrap_or(0),
            });
        }
        counts
    }
}

impl Ended {
    fn has_passed(&self) -> bool {
        self.result.as_ref().is_ok_and(|finished| finished.code == Some(0))
    }

    fn has_timed_out(&self) -> bool {
        let code = self.result.as_ref().ok().and_then(|finished| finished.code);
        self.took >= UNIT_TIMEOUT && code.is_some_and(|code| TIMED_OUT.contains(&code))
    }

    /// Of a unit that was ended before it said its result, every test has failed that is not known to have passed.
    fn counts(&self) -> Counts {
        let output = self.result.as_ref().map_or("", |finished| finished.output.as_str());
        if output.lines().any(|line| line.starts_with("test result: ")) {
            return Counts::of(output);
        }
        let passed =
            output.lines().filter(|line| line.starts_with("test ") && line.ends_with(" ... ok")).count();
        Counts { passed, failed: self.unit.tests.len().saturating_sub(passed).max(1), ignored: 0 }
    }
}

/// Shows how a unit ended, each of its lines behind `mark`.
fn show_end(ended: &Ended, mark: &str) {
    let name = ended.unit.full_name();
    say(&format!("\n     Running {name} ({:.1} s)\n", ended.took.as_secs_f32()));
    match &ended.result {
        Ok(finished) => say(&marked(&finished.output, mark)),
        Err(error) => say(&format!("cannot run {}: {error}\n", ended.unit.program.executable.display())),
    }
    if ended.has_timed_out() {
        say(&format!("{mark}{name}: timed out after {} s and was killed\n", UNIT_TIMEOUT.as_secs()));
    }
}

fn marked(text: &str, mark: &str) -> String {
    text.split_inclusive('\n').map(|line| format!("{mark}{line}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_idle_the_machine_was_is_told_from_its_ticks() {
        let read = |line: &str| Spent::read(&format!("{line}\ncpu0 1 2 3 4 5 6 7 8 9 10\n")).unwrap();
        let before = read("cpu  100 0 100 300 100 0 0 0 50 0");
        assert_eq!(before, Spent { idle: 400, all: 600 });
        let now = read("cpu  200 0 200 400 200 0 0 0 90 0");
        assert_eq!(now.idle_since(before), 0.5);
        assert_eq!(now.idle_since(now), 0.0);
        assert_eq!(Spent::read("something else"), None);
        assert!(Spent::now().is_some_and(|spent| spent.all > 0));
    }

    /// Whether there is a test module, or a program with tests, of this name.
    fn has_unit(directory: &Path, name: &str) -> bool {
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        let mut directories = vec![directory.to_owned()];
        directories.extend(entries.map(|entry| entry.path()).filter(|path| path.join("main.rs").exists()));
        directories.iter().any(|directory| {
            let path = directory.join(name);
            path.with_extension("rs").exists()
                || path.join("mod.rs").exists()
                || path.join("main.rs").exists()
        })
    }

    #[test]
    fn every_long_unit_is_one_that_there_is_and_is_named_once() {
        let mut names = LONG.to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), LONG.len());
        for name in LONG {
            let mut crates = std::fs::read_dir(workspace().join("crates")).unwrap();
            assert!(crates.any(|entry| has_unit(&entry.unwrap().path().join("tests"), name)), "{name}");
        }
    }

    fn program_of(name: &str, is_integration: bool) -> Program {
        let (executable, package) = ("/t/deps/x".into(), "/w/crates/mgmt".into());
        Program { name: name.to_owned(), executable, package, is_integration }
    }

    #[test]
    fn each_module_of_an_integration_test_is_a_unit_and_the_tests_beside_the_code_are_one() {
        let tests = || ["a::one", "b::c::two", "a::three", "four"].map(str::to_owned).to_vec();
        let units = divide(&program_of("cli", true), tests());
        let found: Vec<_> = units.iter().map(|unit| (unit.full_name(), unit.tests.join(" "))).collect();
        let expected =
            [("mgmt/cli", "four"), ("mgmt/cli::a", "a::one a::three"), ("mgmt/cli::b", "b::c::two")];
        assert_eq!(found, expected.map(|(name, tests)| (name.to_owned(), tests.to_owned())));
        let units = divide(&program_of("mgmt", false), tests());
        assert_eq!((units.len(), units[0].name(), units[0].tests.len()), (1, "mgmt", 4));
    }

    #[test]
    fn options_are_for_every_unit_and_what_selects_tests_is_for_the_list() {
        let arguments = ["--test-threads", "1", "name", "--skip", "other", "--exact", "--nocapture"];
        assert_eq!(options(&arguments), ["--test-threads", "1", "--nocapture"]);
    }

    #[test]
    fn tests_are_counted_by_the_results_that_programs_print() {
        let text = "test result: ok. 12 passed; 0 failed; 3 ignored; 0 measured; 0 filtered out; finished in 1s\n\
                    other\ntest result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured\n";
        assert_eq!(Counts::of(text), Counts { passed: 13, failed: 2, ignored: 3 });
        assert_eq!(Counts::of("nothing"), Counts::default());
    }

    #[test]
    fn of_a_unit_that_was_killed_everything_has_failed_that_has_not_passed() {
        let unit =
            divide(&program_of("cli", true), ["a::one", "a::two", "a::three"].map(str::to_owned).to_vec());
        let ended = |output: &str| Ended {
            unit: unit[0].clone(),
            result: Ok(Finished { code: Some(124), output: output.to_owned() }),
            took: UNIT_TIMEOUT,
        };
        let killed = ended("running 3 tests\ntest a::one ... ok\n");
        assert!(killed.has_timed_out() && !killed.has_passed());
        assert_eq!(killed.counts(), Counts { passed: 1, failed: 2, ignored: 0 });
    }

    #[test]
    fn test_programs_are_found_in_what_cargo_says() {
        let line = r#"{"reason":"compiler-artifact","package_id":"x","manifest_path":"/w/crates/store/Cargo.toml","target":{"kind":["test"],"name":"store","test":true},"profile":{"opt_level":"0","test":true},"features":[],"filenames":["/t/deps/store-0a"],"executable":"/t/deps/store-0a","fresh":true}"#;
        let expected = Program {
            name: "store".into(),
            executable: "/t/deps/store-0a".into(),
            package: "/w/crates/store".into(),
            is_integration: true,
        };
        assert_eq!(program(line), Some(expected));
        assert_eq!(program(&line.replace(r#""0","test":true"#, r#""0","test":false"#)), None);
        assert_eq!(program(&line.replace(r#""/t/deps/store-0a","fresh""#, r#"null,"fresh""#)), None);
        assert_eq!(program(r#"{"reason":"build-finished","success":true}"#), None);
    }
}
