//! The same work, done by every tool that is found on the machine, in one run: a table in Markdown, and the same as JSON.
//!
//! What is measured is a whole program, from its start to its end, as somebody would run it; the raw loop, which is the
//! floor, is the same system calls in this process. Where a tool has no such thing, failed, or was too slow
//! with a tenth of the work to be asked for more, its cell says so. Nothing is computed from something else.

mod ground;
mod idle;
mod inputs;
mod limits;
mod page;
mod tools;
mod verdict;
mod works;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use ground::Ground;
use page::{Column, Shown};
use tools::Tool;
use verdict::verdicts;

/// What a tool needed for a piece of work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Figure {
    /// Measured.
    Time(Duration),
    /// Something else than a time: bytes, or the share of a processor.
    Amount(f64, &'static str),
    /// There is no figure.
    None(Missing),
}

impl Figure {
    pub(crate) fn amount(&self) -> Option<f64> {
        match self {
            Figure::Time(time) => Some(time.as_secs_f64()),
            Figure::Amount(amount, _) => Some(*amount),
            Figure::None(_) => None,
        }
    }
}

/// Why there is no figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    NoSuchThing,
    NotAsked,
    Endless,
    Failed,
    NotDone,
    NotQuiet,
}

impl Missing {
    pub(crate) const ALL: [Missing; 6] = [
        Missing::NoSuchThing,
        Missing::NotAsked,
        Missing::Endless,
        Missing::Failed,
        Missing::NotDone,
        Missing::NotQuiet,
    ];

    /// For a cell.
    pub(crate) fn short(self) -> &'static str {
        match self {
            Missing::NoSuchThing => "–",
            Missing::NotAsked => "not asked",
            Missing::Endless => "over the limit",
            Missing::Failed => "failed",
            Missing::NotDone => "not done",
            Missing::NotQuiet => "ended early",
        }
    }

    pub(crate) fn long(self) -> &'static str {
        match self {
            Missing::NoSuchThing => "the tool has no such thing",
            Missing::NotAsked => {
                "the tool took too long for a tenth of it, or did not manage that, and was not asked for all"
            }
            Missing::Endless => "a run did not end within the limit, and was killed",
            Missing::Failed => "a run ended with an error",
            Missing::NotDone => "a run did not bring about what it was to, or not within the limit",
            Missing::NotQuiet => "a run ended before it can have been quiet for as long as it has to be",
        }
    }
}

/// One line of the table.
pub(crate) struct Row {
    pub(crate) work: String,
    pub(crate) figures: BTreeMap<&'static str, Figure>,
}

/// What to compare, and where to write it.
#[derive(Debug, PartialEq)]
pub(crate) struct Settings {
    pub(crate) mgmt: PathBuf,
    pub(crate) upstream: Option<PathBuf>,
    pub(crate) output: Option<PathBuf>,
    /// How long somebody who has nothing to do is looked at; not at all if this is zero.
    pub(crate) idle: Duration,
    /// The largest number of files.
    pub(crate) largest: usize,
    /// How long one run of a tool may take.
    pub(crate) limit: Duration,
    /// Names of tools that are left out.
    pub(crate) without: Vec<String>,
    /// Everything once, to try the harness.
    pub(crate) quick: bool,
}

pub(crate) const OPTIONS: &str = "[--upstream PROGRAM] [--output FILE] [--idle SECONDS] [--largest FILES] [--limit SECONDS] \
                                  [--without TOOLS] [--quick]";

/// The options after `compare`.
pub(crate) fn settings(mgmt: PathBuf, arguments: &[String]) -> Result<Settings, String> {
    let mut settings = Settings {
        mgmt,
        upstream: None,
        output: None,
        idle: Duration::from_secs(60),
        largest: 10_000,
        limit: Duration::from_secs(300),
        without: Vec::new(),
        quick: false,
    };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        if word == "--quick" {
            settings.quick = true;
            continue;
        }
        let mut value = || words.next().ok_or_else(|| format!("`{word}`: expected a value"));
        let number =
            |value: &String| value.parse::<u32>().map_err(|_| format!("`{word} {value}`: expected a number"));
        match word.as_str() {
            "--upstream" => settings.upstream = Some(value()?.into()),
            "--output" => settings.output = Some(value()?.into()),
            "--without" => settings.without.extend(value()?.split(',').map(str::to_lowercase)),
            "--idle" => settings.idle = Duration::from_secs(number(value()?)?.into()),
            "--limit" => settings.limit = Duration::from_secs(number(value()?)?.into()),
            "--largest" => match number(value()?)? {
                0 => return Err("`--largest 0`: nothing is left to compare".to_owned()),
                files => settings.largest = files as usize,
            },
            _ => return Err(format!("unknown option `{word}`; there are {OPTIONS}")),
        }
    }
    for program in settings.upstream.iter_mut().chain([&mut settings.mgmt]) {
        // Every run has a directory of its own, from which another path would lead elsewhere.
        *program = program.canonicalize().map_err(|error| format!("{}: {error}", program.display()))?;
    }
    Ok(settings)
}

/// How many files there are to be, smallest first.
fn sizes(largest: usize) -> Vec<usize> {
    let mut sizes: Vec<usize> = [100, 1_000, 10_000].into_iter().filter(|size| *size <= largest).collect();
    if sizes.is_empty() {
        sizes.push(largest);
    }
    sizes
}

/// Compares; whether everything that is claimed is so.
pub(crate) fn run(settings: &Settings) -> bool {
    let tools = tools::found(settings);
    let sizes = sizes(settings.largest);
    let largest = sizes.last().copied().unwrap_or_default();
    let needs_more = tools.iter().any(|tool| matches!(tool, Tool::Upstream(_)));
    let _limits = needs_more.then(|| limits::Limits::raise(largest.max(idle::FILES)));
    let mut table = Table::new(settings, &tools);
    for column in &table.columns {
        println!("{:<10} {}", column.name, column.version);
    }
    let ground = Ground::new(settings.limit, settings.quick);
    works::files(&ground, &tools, &sizes, &mut table);
    works::one_file(&ground, &tools, &mut table);
    works::repair(&ground, &tools, &mut table);
    works::chain(&ground, &tools, &mut table);
    // A check of few is the start of a program, and not a check.
    works::checks(&ground, &tools, &sizes[1.min(sizes.len() - 1)..], &mut table);
    if !settings.idle.is_zero() {
        idle::run(&ground, &tools, settings.idle, &mut table);
    }
    table.finish()
}

/// The table while it is filled: each figure is on the page as soon as it is there.
pub(crate) struct Table<'a> {
    output: Option<&'a Path>,
    about: Vec<(&'static str, String)>,
    columns: Vec<Column>,
    rows: Vec<Row>,
}

impl<'a> Table<'a> {
    fn new(settings: &'a Settings, tools: &[Tool]) -> Table<'a> {
        let columns =
            tools.iter().map(|tool| Column { name: tool.name(), version: tool.version() }).collect();
        Table { output: settings.output.as_deref(), about: about(settings), columns, rows: Vec::new() }
    }

    /// Tells what comes next, which may take a while.
    pub(crate) fn begin(&self, work: &str, tool: &Tool) {
        println!("{work}: {}", tool.name());
    }

    /// Notes a figure. Works are shown in the order in which they first have one.
    pub(crate) fn put(&mut self, work: &str, tool: &Tool, figure: Figure) {
        let at = self.rows.iter().position(|row| row.work == work).unwrap_or_else(|| {
            self.rows.push(Row { work: work.to_owned(), figures: BTreeMap::new() });
            self.rows.len() - 1
        });
        self.rows[at].figures.insert(tool.name(), figure);
        println!("{work}: {}: {figure:?}", tool.name());
        self.write(None);
    }

    fn finish(mut self) -> bool {
        self.about.push(("load at the end", load()));
        let verdicts = verdicts(&self.rows);
        println!("\n{}", self.write(Some(&verdicts)));
        for path in self.output.iter().flat_map(|path| [path.to_path_buf(), path.with_extension("json")]) {
            println!("written to {}", path.display());
        }
        verdicts.iter().for_each(|verdict| println!("{}", verdict.text()));
        verdicts.iter().all(|verdict| verdict.is_so != Some(false))
    }

    fn write(&self, verdicts: Option<&[verdict::Verdict]>) -> String {
        let Table { about, columns, rows, .. } = self;
        let shown = Shown { about, columns, rows, verdicts };
        let page = page::page(&shown);
        if let Some(path) = self.output {
            write(path, &page);
            write(&path.with_extension("json"), &page::json(&shown));
        }
        page
    }
}

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
}

/// What the machine is and what was built, for whoever compares.
fn about(settings: &Settings) -> Vec<(&'static str, String)> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let processor = read("/proc/cpuinfo");
    let processor = processor.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("unknown");
    let memory = read("/proc/meminfo");
    let memory = memory.lines().find_map(|line| line.strip_prefix("MemTotal:")).unwrap_or("unknown").trim();
    let system = read("/etc/os-release");
    let system = system.lines().find_map(|line| line.strip_prefix("PRETTY_NAME=")).unwrap_or("unknown");
    let mut about = vec![
        ("date", jiff::Timestamp::now().strftime("%Y-%m-%d %H:%M UTC").to_string()),
        ("commit", commit()),
        ("profile of the build", profile(&settings.mgmt)),
        ("processor", processor.trim_start_matches([' ', '\t', ':']).to_owned()),
        ("cores", std::thread::available_parallelism().map_or(0, usize::from).to_string()),
        ("memory", memory.to_owned()),
        ("kernel", read("/proc/sys/kernel/osrelease").trim().to_owned()),
        ("system", system.trim_matches('"').to_owned()),
        ("file system", file_system()),
        ("inotify instances per user", read("/proc/sys/fs/inotify/max_user_instances").trim().to_owned()),
        ("limit for one run", format!("{} s", settings.limit.as_secs())),
        ("load at the start", load()),
    ];
    if settings.quick {
        about.push(("quick", "everything was measured once only".to_owned()));
    }
    about
}

fn load() -> String {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split_whitespace().next().unwrap_or_default().to_owned()
}

/// What a command says, in the directory of the sources; nothing if it fails.
fn said(program: &str, arguments: &[&str]) -> Option<String> {
    let output =
        Command::new(program).args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Which commit this is, and whether the sources are those of it.
fn commit() -> String {
    let Some(commit) = said("git", &["rev-parse", "--short=12", "HEAD"]) else { return "unknown".to_owned() };
    match said("git", &["status", "--porcelain", "--untracked-files=no", "--", ":!:docs"]).as_deref() {
        Some("") => commit,
        _ => format!("{commit}, with changes"),
    }
}

/// Cargo puts what it builds where the profile says.
fn profile(program: &Path) -> String {
    let directory = program.parent().and_then(Path::file_name);
    directory.map_or_else(|| "unknown".to_owned(), |name| name.to_string_lossy().into_owned())
}

fn file_system() -> String {
    said("findmnt", &["--noheadings", "--output", "FSTYPE", "--target", "/var/tmp"])
        .unwrap_or_else(|| "unknown".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[&str]) -> Result<Settings, String> {
        settings("/proc/self/exe".into(), &words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn without_options_everything_is_compared() {
        let settings = read(&[]).unwrap();
        assert_eq!((settings.largest, settings.quick, settings.output), (10_000, false, None));
        assert_eq!(settings.idle, Duration::from_secs(60));
    }

    #[test]
    fn options_are_understood_in_any_order() {
        let settings = read(&[
            "--quick",
            "--largest",
            "20",
            "--without",
            "Puppet,pyinfra",
            "--limit",
            "7",
            "--idle",
            "0",
            "--upstream",
            ".",
            "--output",
            "page.md",
        ])
        .unwrap();
        assert_eq!(
            settings,
            Settings {
                mgmt: std::env::current_exe().unwrap(),
                upstream: std::env::current_dir().ok(),
                output: Some("page.md".into()),
                idle: Duration::ZERO,
                largest: 20,
                limit: Duration::from_secs(7),
                without: vec!["puppet".into(), "pyinfra".into()],
                quick: true,
            }
        );
    }

    #[test]
    fn options_that_mean_nothing_are_refused() {
        for words in [
            &["--largest"][..],
            &["--largest", "many"],
            &["--largest", "0"],
            &["--largst", "1"],
            &["--upstream", "/no/such/program"],
        ] {
            assert!(read(words).is_err(), "{words:?}");
        }
    }

    #[test]
    fn there_is_always_a_size() {
        assert_eq!(sizes(20), [20]);
        assert_eq!(sizes(999), [100]);
        assert_eq!(sizes(10_000), [100, 1_000, 10_000]);
    }

    #[test]
    fn the_profile_is_where_the_program_lies() {
        assert_eq!(profile(Path::new("/x/target/release/mgmt")), "release");
    }
}
