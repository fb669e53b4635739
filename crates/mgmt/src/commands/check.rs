//! `mgmt check`: are programs and graphs right?

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueHint;
use mgmt_diagnostics::{FileId, Severity};
use mgmt_resource::ResourceGraph;
use mgmt_telemetry::{Format, json_line};
use serde_json::json;

use crate::commands::exit_codes;
use crate::commands::graph::compute::Computing;
use crate::configuration::{self, Input};
use crate::failure::{Exit, Failure};
use crate::legacy_lang::{LegacyIgnored, LegacySteps, no_effect};
use crate::manifest::{self, Manifest, ManifestArguments};
use crate::program;
use crate::terminal::{Tally, Terminal};

/// Check programs and graphs without running anything
///
/// Reads each program with all that it imports and checks its syntax, names, types and resources; reads each graph and
/// goes through the same preparation as `run`. Nothing is run or written, and nothing downloaded unless asked for. All mistakes are shown at once.
///
/// Exit code 0: all are right, perhaps with warnings. 1: at least one is not. 2: at least one could not be read.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "mgmt check [OPTIONS] [lang|yaml|puppet|empty] PATH...\n       mgmt check [OPTIONS] langpuppet --lang PATH --puppet PATH"
)]
pub(crate) struct Arguments {
    /// Files, directories with a module, `-` for standard input, or a program itself in quotes
    ///
    /// What ends in `.yaml` or `.yml` is a graph, except for the `metadata.yaml` of a module; what ends in `.pp` is a manifest
    /// of Puppet, which has to be installed; all else is a program in mcl. The word `lang`, `yaml` or `puppet` before the first
    /// one says how all of them are written. The graph `empty` is always right.
    #[arg(value_name = "PATH", value_hint = ValueHint::AnyPath)]
    inputs: Vec<OsString>,

    /// Do not look for what is allowed and probably not meant
    #[arg(long)]
    no_lints: bool,

    /// Warnings make the exit code 1
    #[arg(long)]
    deny_warnings: bool,

    /// Where downloaded modules are [env: MGMT_MODULE_PATH] [default: what the metadata says, or `modules/` beside the
    /// program]
    #[arg(long, alias = "lp-module-path", value_name = "DIRECTORY", value_hint = ValueHint::DirPath)]
    module_path: Option<PathBuf>,

    /// Download the modules that are not there first, as `mgmt get` does
    #[arg(long, alias = "lp-download")]
    download: bool,

    /// In a graph, keys that nobody reads are errors and not warnings; in a manifest, what would be left to Puppet is
    #[arg(long)]
    strict: bool,

    #[command(flatten)]
    manifest: ManifestArguments,

    #[command(flatten)]
    steps: LegacySteps,
    #[command(flatten)]
    ignored: LegacyIgnored,
    // An earlier version held the format against `mgmt fmt`.
    #[arg(long, hide = true)]
    skip_fmt: bool,
}

/// How long the values of a program may take to be there that is to be joined with a manifest.
const WAIT: Duration = Duration::from_secs(10);

/// How something is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    Mcl,
    Yaml,
    Puppet,
}

pub(crate) fn run(arguments: &Arguments, terminal: &Terminal) -> Result<Exit, Failure> {
    let result = check(arguments, terminal);
    let Some(_) = terminal.sarif() else { return result };
    // What is in the document is not said anywhere else, so the reason to end belongs there, too.
    let exit = result.unwrap_or_else(|failure| {
        terminal.failure(&failure);
        Exit(failure.code)
    });
    terminal.data(&terminal.sarif().unwrap_or_default());
    Ok(exit)
}

fn check(arguments: &Arguments, terminal: &Terminal) -> Result<Exit, Failure> {
    let named = arguments.manifest.puppet.as_ref().map(|input| [input.clone().into_os_string()]);
    let (language, inputs) = match front_end(arguments)? {
        Some((FrontEnd::Empty, [])) => return Ok(Exit::OK),
        Some((FrontEnd::Empty, _)) => return Err(Failure::usage("the front-end `empty` takes no file")),
        Some((FrontEnd::Both, [])) => {
            let mut checking = Checking::new(arguments, terminal);
            checking.both()?;
            checking.summary();
            return Ok(Exit(checking.code));
        }
        Some((FrontEnd::Both, _)) => {
            return Err(Failure::usage(
                "the front-end `langpuppet` takes a program and a manifest, and nothing else",
            )
            .hint("write `mgmt check langpuppet --lang PROGRAM --puppet MANIFEST`"));
        }
        Some((FrontEnd::Written(Language::Puppet), rest)) => match (&named, rest) {
            (Some(_), [_, ..]) => {
                return Err(Failure::usage("there are two manifests").hint("leave out `--puppet`"));
            }
            (Some(named), []) => (Some(Language::Puppet), named.as_slice()),
            (None, rest) => (Some(Language::Puppet), rest),
        },
        Some((FrontEnd::Written(language), rest)) => (Some(language), rest),
        None => (None, arguments.inputs.as_slice()),
    };
    if inputs.is_empty() {
        return Err(Failure::usage("there is nothing to check").hint(
            "write `mgmt check PATH...`; `.` is the module in this directory, and `-` is standard input",
        ));
    }
    let mut warnings = arguments.steps.warnings("check");
    warnings.extend(arguments.ignored.warnings());
    if arguments.skip_fmt {
        warnings.push(no_effect("--skip-fmt", "`mgmt fmt --check` checks the format"));
    }
    warnings.iter().for_each(|warning| terminal.warning(warning));
    let mut checking = Checking::new(arguments, terminal);
    // It can be read once, and is right or wrong once.
    let mut standard_input = false;
    for input in inputs {
        if input == "-" && std::mem::replace(&mut standard_input, true) {
            continue;
        }
        match language.unwrap_or_else(|| by_name(input)) {
            Language::Mcl => checking.program(input),
            Language::Yaml => checking.graph(Path::new(input)),
            Language::Puppet => checking.manifest(input),
        }
    }
    checking.summary();
    Ok(Exit(checking.code))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FrontEnd {
    Written(Language),
    /// A program and a manifest as one graph.
    Both,
    Empty,
}

/// The word before the first path, and what is behind it.
fn front_end(arguments: &Arguments) -> Result<Option<(FrontEnd, &[OsString])>, Failure> {
    let Some((word, rest)) = arguments.inputs.split_first() else {
        // The flags of a manifest need no word, as for `run`.
        let both = arguments.manifest.asks_for_both().then_some(FrontEnd::Both);
        let named = arguments.manifest.puppet.as_ref().map(|_| FrontEnd::Written(Language::Puppet));
        return Ok(both.or(named).map(|found| (found, &[][..])));
    };
    let found = match word.to_str() {
        Some("lang") => FrontEnd::Written(Language::Mcl),
        Some("yaml") => FrontEnd::Written(Language::Yaml),
        Some("puppet") => FrontEnd::Written(Language::Puppet),
        Some("empty") => FrontEnd::Empty,
        Some("langpuppet") => FrontEnd::Both,
        _ => return Ok(None),
    };
    Ok(Some((found, rest)))
}

/// How something is written, as far as its name says.
pub(crate) fn by_name(input: &OsStr) -> Language {
    let path = Path::new(input);
    let is_graph = path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml");
    if is_graph && path.file_name() != Some(OsStr::new("metadata.yaml")) {
        Language::Yaml
    } else if path.extension().is_some_and(|extension| extension == "pp") {
        Language::Puppet
    } else {
        Language::Mcl
    }
}

/// A check under way.
struct Checking<'a> {
    terminal: &'a Terminal,
    arguments: &'a Arguments,
    options: program::Options,
    /// What has been shown. Several programs may import the same file, and its mistakes are shown once.
    shown: HashSet<Mistake>,
    counts: Counts,
    code: u8,
}

/// What makes a mistake in a program the same as another: its file, its place, its code and its message.
type Mistake = (String, u32, u32, Option<&'static str>, String);

#[derive(Debug, Default)]
struct Counts {
    checked: usize,
    unreadable: usize,
    tally: Tally,
}

impl<'a> Checking<'a> {
    fn new(arguments: &'a Arguments, terminal: &'a Terminal) -> Checking<'a> {
        Checking {
            terminal,
            arguments,
            options: program::Options {
                module_path: program::module_path(arguments.module_path.as_deref()),
                lints: !arguments.no_lints,
            },
            shown: HashSet::new(),
            counts: Counts::default(),
            code: exit_codes::OK,
        }
    }

    /// Where the two meet is known once the values of the program are there.
    fn both(&mut self) -> Result<(), Failure> {
        let (lang, _) = self.arguments.manifest.both()?;
        self.program(lang.as_os_str());
        if self.code != exit_codes::OK {
            return Ok(());
        }
        // The two count as one.
        self.counts.checked = 0;
        let computing = Computing {
            command: "check",
            terminal: self.terminal,
            module_path: self.arguments.module_path.as_deref(),
            hostname: "",
            wait: WAIT,
            strict: self.arguments.strict,
            manifest: &self.arguments.manifest,
            secrets: std::cell::RefCell::default(),
            files: std::cell::OnceCell::new(),
        };
        match computing.graph(configuration::FrontEnd::LangPuppet, None) {
            Ok((name, graph)) => self.prepared(&name, Some(graph), Tally::default()),
            Err(failure) => {
                self.terminal.failure(&failure);
                self.checked(Tally { errors: 1, warnings: 0 }, false);
            }
        }
        Ok(())
    }

    fn program(&mut self, argument: &OsStr) {
        let entry = match program::entry(argument) {
            Ok(entry) => entry,
            Err(failure) => return self.unreadable(&failure),
        };
        let steps = &self.arguments.steps;
        if (self.arguments.download || steps.downloads())
            && let Err(failure) =
                super::get::before(&entry, self.options.module_path.clone(), steps.update, self.terminal)
        {
            return self.unreadable(&failure);
        }
        if steps.only_download {
            return;
        }
        program::memory_to_check(&entry);
        let checked = match program::check(&entry, &self.options) {
            Ok(checked) => checked,
            Err(error) => {
                program::show_missing(&error, self.terminal);
                if program::is_wrong(&error) {
                    self.checked(Tally { errors: 1, warnings: 0 }, false);
                } else {
                    self.counts.unreadable += 1;
                    self.code = self.code.max(exit_codes::USAGE);
                }
                return;
            }
        };
        let name = |file: FileId| checked.sources.get(file).map(|source| source.name.to_string());
        let has_warnings = checked.diagnostics.iter().any(|found| found.severity == Severity::Warning);
        let shown = &mut self.shown;
        let new = checked.diagnostics.iter().filter(|found| match found.span() {
            Some(span) => shown.insert((
                name(span.file).unwrap_or_default(),
                span.start,
                span.end,
                found.code,
                found.message.clone(),
            )),
            None => true,
        });
        let tally = self.terminal.diagnostics(new, &checked.sources);
        self.checked(tally, checked.is_right() && !(has_warnings && self.arguments.deny_warnings));
    }

    fn graph(&mut self, path: &Path) {
        let input = Input::new(path, self.arguments.strict);
        let content = match input.read() {
            Ok(content) => content,
            Err(failure) => return self.unreadable(&failure),
        };
        let (loaded, tally) = configuration::parse_and_show(&input, content, self.terminal);
        self.prepared(&input.name(), loaded.map(|loaded| loaded.graph), tally);
    }

    fn manifest(&mut self, argument: &OsStr) {
        let settings = &self.arguments.manifest.settings;
        let loaded = Manifest::new(argument, settings, self.arguments.strict).and_then(|manifest| {
            let manifest = manifest.with_tags(&self.arguments.manifest);
            Ok((manifest.name(), manifest::load_alone(&manifest, self.terminal)?))
        });
        match loaded {
            Ok((name, attempt)) => {
                self.prepared(&name, attempt.graph.map(|(graph, _)| graph), attempt.tally);
            }
            Err(failure) => self.unreadable(&failure),
        }
    }

    /// Has a graph go through the same preparation as `run`.
    fn prepared(&mut self, name: &str, graph: Option<ResourceGraph>, mut tally: Tally) {
        let prepare = |graph| mgmt_engine::prepare(graph, Vec::new(), &mgmt_engine::Preparation::default());
        let is_right = match graph.map(prepare) {
            None => false,
            Some(Ok(prepared)) => {
                tally.warnings += prepared.warnings.len();
                for warning in &prepared.warnings {
                    self.terminal.warning(&format!("{name}: {warning}"));
                }
                true
            }
            Some(Err(error)) => {
                tally.errors += 1;
                self.terminal.failure(&Failure::failed(format!("{name}: {error}")));
                false
            }
        };
        self.checked(tally, is_right && !(tally.warnings > 0 && self.arguments.deny_warnings));
    }

    fn checked(&mut self, tally: Tally, is_right: bool) {
        self.counts.checked += 1;
        self.counts.tally.errors += tally.errors;
        self.counts.tally.warnings += tally.warnings;
        if !is_right {
            self.code = self.code.max(exit_codes::FAILED);
        }
    }

    fn unreadable(&mut self, failure: &Failure) {
        self.terminal.failure(failure);
        self.counts.unreadable += 1;
        self.code = self.code.max(exit_codes::USAGE);
    }

    /// The last line. People get none if there is nothing to say.
    fn summary(&self) {
        let Counts { checked, unreadable, tally: Tally { errors, warnings } } = self.counts;
        self.terminal.output().notice(&match self.terminal.format() {
            Format::Human if errors + warnings + unreadable == 0 => return,
            Format::Human => {
                let denied = if self.arguments.deny_warnings { " (denied)" } else { "" };
                let parts: Vec<String> = [
                    (errors > 0).then(|| count(errors, "error")),
                    (warnings > 0).then(|| format!("{}{denied}", count(warnings, "warning"))),
                    (unreadable > 0).then(|| format!("{unreadable} not read")),
                ]
                .into_iter()
                .flatten()
                .collect();
                format!("checked {}: {}\n", count(checked, "program"), parts.join(", "))
            }
            Format::Json => json_line(&json!({
                "type": "summary",
                "format_version": 1,
                "programs": checked,
                "errors": errors,
                "warnings": warnings,
                "unreadable": unreadable,
            })),
        });
    }
}

/// So many of something.
pub(crate) fn count(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_says_how_it_is_written() {
        for (input, language) in [
            ("x.mcl", Language::Mcl),
            ("dir/", Language::Mcl),
            ("-", Language::Mcl),
            ("$x = 1", Language::Mcl),
            ("metadata.yaml", Language::Mcl),
            ("a/metadata.yaml", Language::Mcl),
            ("a/graph.yaml", Language::Yaml),
            ("graph.yml", Language::Yaml),
            ("site.pp", Language::Puppet),
        ] {
            assert_eq!(by_name(OsStr::new(input)), language, "{input}");
        }
    }
}
