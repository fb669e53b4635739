//! `mgmt fmt`: mcl files in their canonical form.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};

use mgmt_diagnostics::{FileId, Source, SourceMap};
use mgmt_syntax::SyntaxError;
use mgmt_sys::dir::Parent;
use mgmt_sys::handle::Attributes;
use mgmt_sys::replace::{Durability, Expect, InPlace, Replacement};
use mgmt_sys::{Kind, ManagedPath, tree};
use mgmt_telemetry::{Format, escape, json_line};
use serde_json::json;

use crate::commands::exit_codes;
use crate::failure::{Exit, Failure};
use crate::terminal::Terminal;

/// No program is nearly as long, and what is longer was hardly meant.
const MAX_SIZE: u64 = 64 << 20;
/// The most entries of directories that are looked at.
const MAX_ENTRIES: usize = 1_000_000;

/// Write mcl files in their canonical form
///
/// Each file is replaced in one step and keeps its owner and its mode; one that is canonical already is not touched, and
/// neither is one with syntax errors, which are shown. In a directory all `*.mcl` are meant, at any depth, but not those
/// in hidden directories. Symbolic links are never followed.
///
/// Exit code 0: all is well, also if files were changed. 1: a file has syntax errors or, with `--check` or `--diff`,
/// would change. 2: a file could not be read or written.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Files and directories; `-` is standard input, formatted to standard output
    #[arg(value_name = "PATH", default_value = ".")]
    paths: Vec<PathBuf>,

    /// Change nothing; print the names of the files that would change
    #[arg(long, visible_alias = "test", visible_short_alias = 't')]
    check: bool,

    /// Change nothing; print what would change
    #[arg(long)]
    diff: bool,

    /// Say what is done with each file
    #[arg(long, short)]
    verbose: bool,
}

/// What to do with a file that is not canonical.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Write,
    Name,
    Diff,
}

pub(crate) fn run(arguments: &Arguments, terminal: &Terminal) -> Result<Exit, Failure> {
    let action = match (arguments.diff, arguments.check) {
        (true, _) => Action::Diff,
        (false, true) => Action::Name,
        (false, false) => Action::Write,
    };
    let mut report = Report { terminal, action, verbose: arguments.verbose, counts: Counts::default() };
    let mut search = Search::default();
    let is_standard_input = |path: &&PathBuf| path.as_path() == Path::new("-");
    if arguments.paths.iter().any(|path| is_standard_input(&path)) {
        report.take("standard input", format_standard_input(terminal, action));
    }
    for path in arguments.paths.iter().filter(|path| !is_standard_input(path)) {
        if let Err(message) = search.add(path) {
            search.problems.push(message);
        }
    }
    for message in search.problems {
        report.take("", Outcome::Failed(message));
    }
    format_all(&search.files.into_iter().collect::<Vec<_>>(), &mut report);
    // An editor that sends a text through wants nothing but the text.
    if arguments.verbose || !arguments.paths.iter().all(|path| is_standard_input(&path)) {
        report.summary();
    }
    Ok(Exit(report.exit_code()))
}

/// The files that are meant, and what stood in the way of finding them.
#[derive(Default)]
struct Search {
    /// With the name that the person knows each by.
    files: BTreeMap<ManagedPath, String>,
    problems: Vec<String>,
    entries: usize,
}

impl Search {
    /// Adds what an argument means.
    fn add(&mut self, argument: &Path) -> Result<(), String> {
        let path = managed(argument)?;
        let is_directory = match path.file_name() {
            Some(name) if !path.is_directory() => {
                let found = Parent::open(&path).and_then(|parent| parent.lstat_entry(name)).map_err(text)?;
                found.is_some_and(|found| found.kind == Kind::Directory)
            }
            _ => true,
        };
        if is_directory {
            let shown = if argument == Path::new(".") { Path::new("") } else { argument };
            self.walk(path, shown.to_owned())
        } else {
            self.files.insert(path, argument.to_string_lossy().into_owned());
            Ok(())
        }
    }

    /// Adds all files below a directory. What is below one that cannot be read is a problem, and the rest goes on.
    fn walk(&mut self, top: ManagedPath, shown: PathBuf) -> Result<(), String> {
        let mut pending = vec![(top, shown)];
        while let Some((directory, shown)) = pending.pop() {
            let listed =
                open_directory(&directory).and_then(|open| tree::list(&open, &tree::Limits::default()));
            let entries = match listed {
                Ok(entries) => entries,
                Err(error) => {
                    self.problems.push(error.to_string());
                    continue;
                }
            };
            self.entries += entries.len();
            if self.entries > MAX_ENTRIES {
                return Err(format!(
                    "there are more than {MAX_ENTRIES} files and directories; give the directories with mcl files"
                ));
            }
            for entry in entries {
                let is_wanted = match entry.kind {
                    Kind::Directory => !entry.name.starts_with(b"."),
                    Kind::File => entry.name.ends_with(b".mcl"),
                    _ => false,
                };
                if !is_wanted {
                    continue;
                }
                let shown = shown.join(OsStr::from_bytes(&entry.name));
                match directory.join(&entry.name) {
                    Err(error) => self.problems.push(format!("cannot read {}: {error}", shown.display())),
                    Ok(path) if entry.kind == Kind::Directory => pending.push((path, shown)),
                    Ok(path) => {
                        self.files.insert(path, shown.to_string_lossy().into_owned());
                    }
                }
            }
        }
        Ok(())
    }
}

/// The path in the form that changes are made through.
fn managed(path: &Path) -> Result<ManagedPath, String> {
    // What `..` means depends on the links before it, so these are looked up; everything else stays as it was given.
    let absolute = match path.file_name() {
        _ if !path.components().any(|part| part == Component::ParentDir) => std::path::absolute(path),
        None => path.canonicalize().map(|path| path.join("")),
        Some(name) => path.parent().unwrap_or(path).canonicalize().map(|parent| parent.join(name)),
    };
    let absolute = absolute.map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    ManagedPath::new(absolute.as_os_str().as_bytes())
        .map_err(|error| format!("cannot read {}: {error}", path.display()))
}

/// Only a directory that is named with a slash at its end may be a link.
fn open_directory(path: &ManagedPath) -> mgmt_sys::Result<Parent> {
    match path.file_name() {
        Some(name) if !path.is_directory() => Parent::open(path)?.open_dir(name),
        _ => Parent::open_itself(path),
    }
}

fn text(error: mgmt_sys::Error) -> String {
    error.to_string()
}

/// What became of a file.
enum Outcome {
    Canonical,
    /// It was not, and has been or would be changed; with the difference if that is wanted.
    Changed(String),
    /// It cannot be formatted.
    Wrong {
        content: Vec<u8>,
        errors: Vec<SyntaxError>,
    },
    /// It could not be read or written.
    Failed(String),
}

/// Formats the files on all processors, and reports them in their order.
fn format_all(files: &[(ManagedPath, String)], report: &mut Report<'_>) {
    let action = report.action;
    let next = AtomicUsize::new(0);
    let work = |sender: &Sender<(usize, Outcome)>| {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some((path, name)) = files.get(at) else { break };
            let outcome =
                format_file(path, name, action).unwrap_or_else(|error| Outcome::Failed(text(error)));
            if sender.send((at, outcome)).is_err() {
                break;
            }
        }
    };
    let (sender, outcomes) = channel();
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(files.len());
    std::thread::scope(|scope| {
        let work = &work;
        let started = (0..workers).filter(|_| {
            let sender = sender.clone();
            std::thread::Builder::new().spawn_scoped(scope, move || work(&sender)).is_ok()
        });
        if started.count() == 0 {
            work(&sender);
        }
        drop(sender);
        let mut early = BTreeMap::new();
        let mut names = files.iter().enumerate().map(|(at, (_, name))| (at, name)).peekable();
        for (at, outcome) in outcomes {
            early.insert(at, outcome);
            while let Some((at, name)) = names.peek()
                && let Some(outcome) = early.remove(at)
            {
                report.take(name, outcome);
                names.next();
            }
        }
    });
}

fn format_file(path: &ManagedPath, shown: &str, action: Action) -> mgmt_sys::Result<Outcome> {
    let parent = Parent::open(path)?;
    let name = path.file_name().unwrap_or_default();
    let file = parent.open_regular(name)?;
    let content = file.read(MAX_SIZE)?;
    Ok(match canonical(&content) {
        Err(errors) => Outcome::Wrong { content, errors },
        Ok((old, new)) if old == new => Outcome::Canonical,
        Ok((old, new)) => {
            if action == Action::Write {
                let mut replacement = Replacement::begin(&parent, name, InPlace::Refuse)?;
                replacement.write_all(new.as_bytes())?;
                replacement.commit(&Attributes::default(), Expect::Same(*file.stat()), Durability::Data)?;
            }
            Outcome::Changed(difference(shown, old, &new, action))
        }
    })
}

fn format_standard_input(terminal: &Terminal, action: Action) -> Outcome {
    let mut content = Vec::new();
    match std::io::stdin().lock().take(MAX_SIZE + 1).read_to_end(&mut content) {
        Err(error) => return Outcome::Failed(format!("cannot read standard input: {error}")),
        Ok(length) if length as u64 > MAX_SIZE => {
            return Outcome::Failed(format!("standard input is larger than {MAX_SIZE} bytes"));
        }
        Ok(_) => {}
    }
    match canonical(&content) {
        Err(errors) => Outcome::Wrong { content, errors },
        Ok((old, new)) => {
            if action == Action::Write {
                terminal.data(&new);
            }
            if old == new {
                Outcome::Canonical
            } else {
                Outcome::Changed(difference("standard input", old, &new, action))
            }
        }
    }
}

/// The text as it is and as it should be.
fn canonical(content: &[u8]) -> Result<(&str, String), Vec<SyntaxError>> {
    let text = mgmt_syntax::decode(content).map_err(|error| vec![error])?;
    Ok((text, mgmt_syntax::format(text)?))
}

fn difference(name: &str, old: &str, new: &str, action: Action) -> String {
    if action == Action::Diff { mgmt_history::unified(&escape(name), old, new) } else { String::new() }
}

/// Says what became of the files.
struct Report<'a> {
    terminal: &'a Terminal,
    action: Action,
    verbose: bool,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    canonical: usize,
    changed: usize,
    wrong: usize,
    failed: usize,
}

impl Report<'_> {
    fn take(&mut self, name: &str, outcome: Outcome) {
        match outcome {
            Outcome::Canonical => {
                self.counts.canonical += 1;
                self.mention(name, "unchanged");
            }
            Outcome::Changed(difference) => {
                self.counts.changed += 1;
                match self.action {
                    Action::Write => {}
                    Action::Name => self.terminal.data(&format!("{}\n", escape(name))),
                    Action::Diff => self.terminal.data(&difference),
                }
                self.mention(name, self.changed());
            }
            Outcome::Wrong { content, errors } => {
                self.counts.wrong += 1;
                let sources = SourceMap::of(name, &*Source::lossy_text(&content));
                let errors: Vec<_> =
                    errors.iter().map(|error| mgmt_lang::syntax_error(FileId::FIRST, error)).collect();
                self.terminal.diagnostics(&errors, &sources);
                self.mention(name, "left alone");
            }
            Outcome::Failed(message) => {
                self.counts.failed += 1;
                self.terminal.failure(&Failure::usage(message));
            }
        }
    }

    fn changed(&self) -> &'static str {
        if self.action == Action::Write { "formatted" } else { "would be formatted" }
    }

    fn mention(&self, name: &str, outcome: &str) {
        if self.verbose {
            self.terminal.output().notice(&match self.terminal.format() {
                Format::Human => format!("{}: {outcome}\n", escape(name)),
                Format::Json => json_line(&json!({ "type": "file", "file": name, "outcome": outcome })),
            });
        }
    }

    fn summary(&self) {
        let Counts { canonical, changed, wrong, failed } = self.counts;
        let human = || {
            let parts: Vec<String> = [
                (changed, self.changed()),
                (canonical, "unchanged"),
                (wrong, "with syntax errors"),
                (failed, "not read or written"),
            ]
            .into_iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
            match canonical + changed + wrong + failed {
                0 => "no mcl files found\n".to_owned(),
                1 => format!("1 file: {}\n", parts.join(", ")),
                files => format!("{files} files: {}\n", parts.join(", ")),
            }
        };
        self.terminal.output().notice(&match self.terminal.format() {
            Format::Human => human(),
            Format::Json => json_line(&json!({
                "type": "summary",
                "format_version": 1,
                "changed": changed,
                "unchanged": canonical,
                "syntax_errors": wrong,
                "failed": failed,
            })),
        });
    }

    fn exit_code(&self) -> u8 {
        let Counts { changed, wrong, failed, .. } = self.counts;
        if failed > 0 {
            exit_codes::USAGE
        } else if wrong > 0 || (changed > 0 && self.action != Action::Write) {
            exit_codes::FAILED
        } else {
            exit_codes::OK
        }
    }
}
