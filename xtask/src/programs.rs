//! Test programs side by side: what `cargo test` runs one after the other, as many at once as there are processors, and one more
//! for each processor as long as the machine is idle all the same.
//!
//! Most of our tests wait for something (a host that boots, a daemon, an event), so that one program alone leaves the
//! machine idle. What a program writes is shown in one piece when it ends; how idle the machine was, at the end.
//!
//! A program that failed is run once more, alone, after all others: what fails then is broken. What passes then was disturbed
//! by its neighbours; it is named at the end, with what it said, and is a fault of the test to be mended.

use std::collections::VecDeque;
use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::step::{Failed, cargo, say, show, workspace};

/// Programs that take long go first, the longest one first, or the others would have to wait for them at the end. All others
/// are short, and any order will do.
const LONG: [&str; 40] = [
    "puppet",
    "pkg_packagekit",
    "agent",
    "security",
    "fault_lab",
    "agent_real",
    "clustering",
    "plan",
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

/// One more program is begun when more than half a processor had nothing to do for so long.
const LULL: Duration = Duration::from_secs(2);

/// A program with tests, as cargo has built it.
#[derive(Debug, PartialEq)]
pub(crate) struct Program {
    pub(crate) name: String,
    pub(crate) executable: PathBuf,
    /// The directory of the package, where its tests expect to be run.
    pub(crate) package: PathBuf,
}

struct Ended {
    program: Program,
    result: std::io::Result<Output>,
    took: Duration,
}

/// Builds the test programs that each of `selections` names (arguments of `cargo test`), then runs them with `arguments`, and
/// fails with the names of those that failed.
pub(crate) fn run(selections: &[&[&str]], arguments: &[&str]) -> Result<(), Failed> {
    let mut waiting = Vec::new();
    for selection in selections {
        waiting.append(&mut build(selection)?);
    }
    waiting.sort_by_key(|program| LONG.iter().position(|name| program.name == *name).unwrap_or(LONG.len()));
    let count = waiting.len();
    let waiting = Mutex::new(VecDeque::from(waiting));
    let disturbed = Mutex::new(Vec::new());
    let next = || lock(&waiting).pop_front();
    let work = |program: Program| {
        let ended = run_one(program, arguments);
        // Held while it is shown, so that two programs do not write at once.
        let mut disturbed = lock(&disturbed);
        if ended.has_passed() {
            tell(&ended, "");
        } else {
            // Marked, as these are not the last words about it.
            tell(&ended, "| ");
            disturbed.push(ended.program);
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
                    if let Some(program) = next() {
                        work(program);
                    }
                }
            });
        }
    });
    let idle = before.zip(Spent::now()).map_or(0.0, |(before, now)| now.idle_since(before));
    say(&format!(
        "\n{count} programs in {:.0} s, in which {:.0} % of {processors} processors were idle\n",
        began.elapsed().as_secs_f32(),
        idle * 100.0
    ));
    let mut failed = Vec::new();
    let mut passed_alone = Vec::new();
    for program in disturbed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        let ended = run_one(program, arguments);
        tell(&ended, "");
        let to = if ended.has_passed() { &mut passed_alone } else { &mut failed };
        to.push(ended.program.full_name());
    }
    if !passed_alone.is_empty() {
        say(&format!("\nunsteady, passed only when run again alone: {}\n", passed_alone.join(", ")));
    }
    if failed.is_empty() {
        say(&format!("\nall {count} test programs passed\n"));
        return Ok(());
    }
    Err(Failed::new(format!("{} of {count} test programs failed: {}", failed.len(), failed.join(", "))))
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
/// that one lull brings one program.
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
    Some(Program { name, executable, package })
}

/// The text behind a name in a line of JSON; nothing if it has escapes, which paths of builds do not.
fn text(line: &str, name: &str) -> Option<String> {
    let (_, rest) = line.split_once(&format!(r#""{name}":""#))?;
    let (text, _) = rest.split_once('"')?;
    (!text.contains('\\')).then(|| text.to_owned())
}

fn run_one(program: Program, arguments: &[&str]) -> Ended {
    let begin = Instant::now();
    // Whoever was started in the background ignores these signals, and so does all that it starts.
    let result = Command::new("env")
        .arg("--default-signal=INT,QUIT")
        .arg(&program.executable)
        .args(arguments)
        .current_dir(&program.package)
        .env("CARGO", cargo())
        .env("CARGO_MANIFEST_DIR", &program.package)
        .stdin(Stdio::null())
        .output();
    Ended { program, result, took: begin.elapsed() }
}

impl Program {
    /// The folder of its package, and its name.
    pub(crate) fn full_name(&self) -> String {
        format!("{}/{}", self.package.file_name().unwrap_or_default().to_string_lossy(), self.name)
    }
}

impl Ended {
    fn has_passed(&self) -> bool {
        self.result.as_ref().is_ok_and(|output| output.status.success())
    }
}

/// Shows how a program ended, each of its lines behind `mark`.
fn tell(ended: &Ended, mark: &str) {
    say(&format!("\n     Running {} ({:.1} s)\n", ended.program.full_name(), ended.took.as_secs_f32()));
    match &ended.result {
        Ok(output) => {
            for text in [&output.stderr, &output.stdout] {
                say(&marked(&String::from_utf8_lossy(text), mark));
            }
        }
        Err(error) => say(&format!("cannot run {}: {error}\n", ended.program.executable.display())),
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

    #[test]
    fn every_long_program_is_one_that_there_is_and_is_named_once() {
        let mut names = LONG.to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), LONG.len());
        for name in LONG {
            let is_there = std::fs::read_dir(workspace().join("crates")).unwrap().any(|entry| {
                let tests = entry.unwrap().path().join("tests");
                tests.join(name).with_extension("rs").exists() || tests.join(name).join("main.rs").exists()
            });
            assert!(is_there, "{name}");
        }
    }

    #[test]
    fn test_programs_are_found_in_what_cargo_says() {
        let line = r#"{"reason":"compiler-artifact","package_id":"x","manifest_path":"/w/crates/store/Cargo.toml","target":{"kind":["test"],"name":"store","test":true},"profile":{"opt_level":"0","test":true},"features":[],"filenames":["/t/deps/store-0a"],"executable":"/t/deps/store-0a","fresh":true}"#;
        let expected = Program {
            name: "store".into(),
            executable: "/t/deps/store-0a".into(),
            package: "/w/crates/store".into(),
        };
        assert_eq!(program(line), Some(expected));
        assert_eq!(program(&line.replace(r#""0","test":true"#, r#""0","test":false"#)), None);
        assert_eq!(program(&line.replace(r#""/t/deps/store-0a","fresh""#, r#"null,"fresh""#)), None);
        assert_eq!(program(r#"{"reason":"build-finished","success":true}"#), None);
    }
}
