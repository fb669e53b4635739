//! `mgmt get`: the modules of a program that come from elsewhere.

use std::path::PathBuf;

use mgmt_diagnostics::{Diagnostic, FileId, Label, SourceMap};
use mgmt_lang::module::{Disk, Entry, ResolveError, Resolver};
use mgmt_modules::{
    DownloadError, DownloadOptions, DownloadOutcome, DownloadProblem, DownloadProgress, Downloaded,
    DownloadedModule, download,
};
use mgmt_telemetry::{Format, escape, json_line};
use serde_json::json;

use crate::commands::exit_codes;
use crate::environment;
use crate::failure::{Exit, Failure};
use crate::legacy_lang::{LegacyIgnored, no_effect};
use crate::terminal::Terminal;

/// Download the modules that programs import from elsewhere
///
/// Finds every import of an address in the programs and in the modules that are found on the way, fetches what is not
/// there with `git`, and writes `mgmt.lock` beside each program: the commit and the content of each module. With a
/// lock file, exactly what it names is fetched. Modules that are there are compared with it and left alone.
///
/// Exit code 0: all modules are there. 1: at least one is not, or is not the one that is locked. 2: a program
/// could not be read, or nothing could be downloaded at all.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Files, directories with a module, or `-` for standard input
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<String>,

    /// Take the newest commit of each module, and write that to the lock file
    #[arg(long)]
    update: bool,

    /// Where modules are kept [env: MGMT_MODULE_PATH] [default: what the metadata says, or `modules/` beside the program]
    #[arg(long, alias = "lp-module-path", value_name = "DIRECTORY")]
    module_path: Option<PathBuf>,

    /// The most that the files of one module may have together, in MiB
    #[arg(long, value_name = "MIB", default_value_t = DEFAULT_MAX_SIZE)]
    max_size: u64,

    #[command(flatten)]
    ignored: LegacyIgnored,
    // Earlier versions had these of `run` here, too.
    #[arg(long, hide = true)]
    noop: bool,
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true, hide = true)]
    sema: Option<i64>,
}

pub(crate) fn run(arguments: &Arguments, terminal: &Terminal) -> Result<Exit, Failure> {
    let mut warnings = arguments.ignored.warnings();
    for (is_given, flag) in [(arguments.noop, "--noop"), (arguments.sema.is_some(), "--sema")] {
        if is_given {
            warnings.push(no_effect(flag, "nothing is run"));
        }
    }
    warnings.iter().for_each(|warning| terminal.warning(warning));
    let paths = match arguments.paths.as_slice() {
        // The name of the front-end was wanted once, and is for the other commands.
        [front_end, rest @ ..] if front_end == "lang" && !rest.is_empty() => rest,
        paths => paths,
    };
    let module_path =
        arguments.module_path.clone().or_else(|| environment::MODULE_PATH.get().map(PathBuf::from));
    let resolver = Resolver::new(&Disk, module_path);
    let options =
        DownloadOptions { update: arguments.update, max_size: arguments.max_size.saturating_mul(1 << 20) };
    let mut report = Report { terminal, counts: Counts::default(), code: exit_codes::OK };
    for path in paths {
        let entry = match Entry::parse_among(path, &Disk) {
            Ok(entry) => entry,
            Err(error) => {
                report.failed(&Failure {
                    hints: error.hint.into_iter().collect(),
                    ..Failure::usage(error.message)
                });
                continue;
            }
        };
        match download(&entry, &resolver, options, &mut |progress| report.progress(progress)) {
            Ok(result) => report.finished(&result, &resolver),
            Err(error) => report.fatal(&error),
        }
    }
    report.summary();
    Ok(Exit(report.code))
}

/// Downloads what one program lacks, or the newest of everything, for commands that were asked to do so first.
pub(crate) fn before(
    entry: &Entry,
    module_path: Option<PathBuf>,
    update: bool,
    terminal: &Terminal,
) -> Result<(), Failure> {
    if *entry == Entry::StandardInput {
        return Err(Failure::usage(
            "standard input can be read once, so `--download` cannot look at it first",
        )
        .hint("write the program to a file"));
    }
    let resolver = Resolver::new(&Disk, module_path);
    let options = DownloadOptions { update, max_size: DEFAULT_MAX_SIZE << 20 };
    let mut report = Report { terminal, counts: Counts::default(), code: exit_codes::OK };
    match download(entry, &resolver, options, &mut |progress| report.progress(progress)) {
        Ok(result) => report.finished(&result, &resolver),
        Err(error) => report.fatal(&error),
    }
    match report.code {
        exit_codes::OK => Ok(()),
        code => Err(Failure::shown(code)),
    }
}

/// The most that the files of one module may have together, in MiB, if nobody says otherwise.
const DEFAULT_MAX_SIZE: u64 = 1024;

/// Says what becomes of the modules.
struct Report<'a> {
    terminal: &'a Terminal,
    counts: Counts,
    code: u8,
}

#[derive(Default)]
struct Counts {
    downloaded: usize,
    unchanged: usize,
    problems: usize,
}

impl Report<'_> {
    fn say(&self, human: &str, json: &serde_json::Value) {
        self.terminal.output().notice(&match self.terminal.format() {
            Format::Human => format!("{}\n", escape(human)),
            Format::Json => json_line(json),
        });
    }

    fn progress(&mut self, progress: DownloadProgress<'_>) {
        match progress {
            DownloadProgress::Waiting { modules } => self.say(
                &format!("waiting for another `mgmt get` in {}", modules.display()),
                &json!({ "type": "waiting", "directory": modules.display().to_string() }),
            ),
            DownloadProgress::Fetching { url } => {
                self.say(&format!("downloading {url}"), &json!({ "type": "downloading", "url": url }));
            }
            DownloadProgress::Unauthenticated { url } => self.terminal.warning(&format!(
                "anybody on the way can change what comes from {url}; prefer `https` or `ssh`, or look at it before \
                 you use it"
            )),
            DownloadProgress::Ready(module) => self.ready(module),
        }
    }

    fn ready(&mut self, module: &DownloadedModule) {
        let DownloadedModule { key, url, commit, hash, outcome } = module;
        let short = |commit: &str| commit.chars().take(12).collect::<String>();
        let at = commit.as_deref().map_or_else(|| "commit not known".to_owned(), short);
        let (word, human) = match outcome {
            DownloadOutcome::Fetched => ("fetched", format!("{key} {at}")),
            DownloadOutcome::Replaced { from } => ("replaced", format!("{key} {} -> {at}", short(from))),
            DownloadOutcome::Unchanged => ("unchanged", format!("{key} {at}, unchanged")),
            DownloadOutcome::Foreign => {
                ("foreign", format!("{key} was not downloaded by `mgmt get`, and is left alone"))
            }
        };
        match outcome {
            DownloadOutcome::Fetched | DownloadOutcome::Replaced { .. } => self.counts.downloaded += 1,
            DownloadOutcome::Unchanged | DownloadOutcome::Foreign => self.counts.unchanged += 1,
        }
        self.say(
            &human,
            &json!({ "type": "module", "module": key, "url": url, "commit": commit, "hash": hash, "outcome": word }),
        );
    }

    fn finished(&mut self, result: &Downloaded, resolver: &Resolver<'_>) {
        for problem in &result.problems {
            self.problem(problem);
        }
        if let Some(file) = &result.wrote_lock {
            let name = resolver.display(file);
            self.say(&format!("wrote {name}"), &json!({ "type": "lock", "file": name }));
        }
    }

    fn problem(&mut self, problem: &DownloadProblem) {
        self.counts.problems += 1;
        self.code = self.code.max(exit_codes::FAILED);
        let sources = problem.place.as_ref().map(|place| SourceMap::of(&*place.display, &*place.text));
        let diagnostic = Diagnostic {
            hints: problem.hints.clone(),
            ..Diagnostic::error(&*problem.message)
                .at(problem.place.as_ref().map(|place| FileId::FIRST.span_of(place.span.clone())))
        };
        self.terminal.diagnostic(&diagnostic, &sources.unwrap_or_default());
    }

    fn fatal(&mut self, error: &DownloadError) {
        if let DownloadError::Program(ResolveError::BadMetadata { display, text, note }) = error {
            let diagnostic = Diagnostic::error(&*note.message)
                .with_label(Label::primary(FileId::FIRST.span_of(note.span.clone())))
                .maybe_hint(note.hint.as_deref());
            self.terminal.diagnostic(&diagnostic, &SourceMap::of(&**display, &**text));
            self.counts.problems += 1;
            self.code = self.code.max(exit_codes::USAGE);
            return;
        }
        self.failed(&Failure { hints: error.hint().into_iter().collect(), ..Failure::usage(error) });
    }

    fn failed(&mut self, failure: &Failure) {
        self.counts.problems += 1;
        self.code = self.code.max(failure.code);
        self.terminal.failure(failure);
    }

    fn summary(&self) {
        let Counts { downloaded, unchanged, problems } = self.counts;
        let human = match downloaded + unchanged {
            0 if problems == 0 => "no modules to download".to_owned(),
            modules => {
                let parts = [(downloaded, "downloaded"), (unchanged, "unchanged"), (problems, "problems")];
                let parts = parts.iter().filter(|(count, _)| *count > 0);
                let parts: Vec<_> = parts.map(|(count, what)| format!("{count} {what}")).collect();
                format!("{modules} {}: {}", if modules == 1 { "module" } else { "modules" }, parts.join(", "))
            }
        };
        let json = json!({
            "type": "summary",
            "format_version": 1,
            "downloaded": downloaded,
            "unchanged": unchanged,
            "problems": problems,
        });
        self.say(&human, &json);
    }
}
