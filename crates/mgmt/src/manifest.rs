//! Manifests of Puppet: where they are, what becomes of them, and what is wrong with them.

mod masked;
mod options;

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::io::Read as _;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use mgmt_diagnostics::{Diagnostic, FileId, Severity, Source, SourceMap};
use mgmt_puppet::{Containers, Decision, Looked, TranslateOptions, Translated, is_decision, translate};
use mgmt_puppet_process::{Compiled, Hello, Input, Puppet, PuppetError, Seen, Settings};
use mgmt_resource::ResourceGraph;

use crate::commands::exit_codes;
use crate::failure::Failure;
use crate::program::package::{self, Package};
use crate::terminal::{Tally, Terminal};

pub(crate) use options::PuppetArguments;

/// What a text that is in no file is called.
const INLINE: &str = "the code";

/// What a manifest is called among the files of a deploy that had no directory.
const MAIN: &str = "site.pp";

/// What stands for the catalogue of a Puppet server.
pub(crate) const AGENT: &str = "agent";

/// The longest text that is read from standard input.
const LONGEST: u64 = 64 << 20;

/// The flags of every command that takes a manifest.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Puppet")]
pub(crate) struct ManifestArguments {
    /// The manifest, for the front-ends `puppet` and `langpuppet`: a file, a directory with manifests or an environment, `-` for
    /// standard input, the code itself in quotes, or `agent` for what the Puppet server has for this host
    #[arg(long = "puppet", short = 'p', value_name = "INPUT", value_hint = clap::ValueHint::AnyPath)]
    pub(crate) puppet: Option<PathBuf>,

    /// The program, for the front-end `langpuppet`: a file, a directory with a module, or the program itself in quotes
    #[arg(long, alias = "code", value_name = "INPUT", value_hint = clap::ValueHint::AnyPath)]
    pub(crate) lang: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) settings: PuppetArguments,

    /// With `langpuppet`: only warn of a `noop "puppet_NAME"` without a class `mgmt_NAME`, and of a class without `noop`
    #[arg(long)]
    pub(crate) allow_unmatched: bool,

    /// Bring about only resources with one of these tags, which are the names of their classes, too [default: as in Puppet's
    /// settings]
    #[arg(long, value_name = "TAGS", value_delimiter = ',')]
    pub(crate) tags: Vec<String>,

    /// Leave out resources with one of these tags [default: as in Puppet's settings]
    #[arg(long, value_name = "TAGS", value_delimiter = ',')]
    pub(crate) skip_tags: Vec<String>,

    #[arg(long, value_name = "INPUT", hide = true)]
    pub(crate) lp_lang: Option<PathBuf>,

    #[arg(long, value_name = "INPUT", hide = true)]
    pub(crate) lp_puppet: Option<PathBuf>,
}

impl ManifestArguments {
    /// Somebody has written the flags of a program and a manifest in the way of earlier versions, which needs no front-end.
    pub(crate) fn asks_for_both(&self) -> bool {
        self.lp_lang.is_some() || self.lp_puppet.is_some() || (self.lang.is_some() && self.puppet.is_some())
    }

    /// Something of what is named, to know where it is.
    pub(crate) fn either(&self) -> Option<&Path> {
        [&self.lang, &self.lp_lang, &self.puppet, &self.lp_puppet].into_iter().find_map(Option::as_deref)
    }

    /// The program and the manifest of `langpuppet`.
    pub(crate) fn both(&self) -> Result<(&Path, &Path), Failure> {
        let lang = only("lang", self.lang.as_deref(), self.lp_lang.as_deref())?;
        let puppet = only("puppet", self.puppet.as_deref(), self.lp_puppet.as_deref())?;
        let missing = |what: &str, flag: &str| {
            Failure::usage(format!("the front-end `langpuppet` needs {what}: `--{flag}` is missing"))
                .hint("write `langpuppet --lang PROGRAM --puppet MANIFEST`")
        };
        match (lang, puppet) {
            (None, _) => Err(missing("a program", "lang")),
            (_, None) => Err(missing("a manifest", "puppet")),
            (Some(lang), Some(puppet)) => Ok((lang, puppet)),
        }
    }
}

/// One of two spellings of a flag.
fn only<'a>(
    flag: &str,
    today: Option<&'a Path>,
    before: Option<&'a Path>,
) -> Result<Option<&'a Path>, Failure> {
    match (today, before) {
        (Some(_), Some(_)) => {
            Err(Failure::usage(format!("`--{flag}` and `--lp-{flag}` mean the same")).hint("leave out one"))
        }
        (today, before) => Ok(today.or(before)),
    }
}

/// A manifest, and the Puppet that compiles it.
#[derive(Clone)]
pub(crate) struct Manifest {
    input: Input,
    puppet: Puppet,
    strict: bool,
    way: options::Way,
    /// Where Puppet's file of settings is, once it has told.
    settings_file: Arc<OnceLock<PathBuf>>,
    told: Arc<Mutex<ToldBefore>>,
}

/// What was told in all the times that a manifest was compiled.
#[derive(Default)]
struct ToldBefore {
    /// Warnings and notes, which are not told again.
    once: HashSet<String>,
    /// The errors of the last time.
    errors: Vec<String>,
}

/// Whether errors are told that were there the last time, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Errors {
    Always,
    /// Only if there are others than the last time.
    OnceEach,
}

/// What came of a manifest.
pub(crate) struct Attempt {
    /// The graph and its name, if it is right.
    pub(crate) graph: Option<(ResourceGraph, String)>,
    pub(crate) decisions: Vec<Decision>,
    /// What it was made from.
    pub(crate) sources: Sources,
    pub(crate) tally: Tally,
    /// What is wrong with it, and where, in one line.
    pub(crate) mistake: Option<String>,
    /// Puppet could not be asked.
    pub(crate) is_out_of_reach: bool,
}

/// What a compile has looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sources {
    /// Files that are there, and files that would make a difference if they were.
    pub(crate) files: Vec<PathBuf>,
    /// Directories of which every file counts.
    pub(crate) directories: Vec<PathBuf>,
    /// Directories with facts.
    pub(crate) facts: Vec<PathBuf>,
    /// What its translation has looked at on this host.
    pub(crate) looked: Vec<Looked>,
    /// Puppet's file of settings, which need not be there.
    pub(crate) settings: Option<PathBuf>,
    /// How the files were when they were read, if that is known.
    pub(crate) seen: Option<Seen>,
}

impl Sources {
    /// Whether something may be other than it was when it was read.
    pub(crate) fn are_outdated(&self) -> bool {
        let files = self.files.iter().map(PathBuf::as_path);
        let directories = self.directories.iter().map(PathBuf::as_path);
        self.seen.as_ref().is_none_or(|seen| seen.is_outdated(files, directories))
    }

    /// All paths, each with whether everything below it counts.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&Path, bool)> {
        let files = self.files.iter().map(|path| (path.as_path(), false));
        let looked = self.looked.iter().map(|looked| (looked.path(), false));
        let settings = self.settings.iter().map(|path| (path.as_path(), false));
        files.chain(self.directories.iter().map(|path| (path.as_path(), true))).chain(looked).chain(settings)
    }

    /// Whether the translation would be another one, although what was compiled is the same.
    pub(crate) fn has_other_contents(&self) -> bool {
        !self.looked.iter().all(Looked::is_as_before)
    }
}

impl Manifest {
    /// What an argument means: a file, a directory, `-`, or the code itself.
    pub(crate) fn new(
        argument: &OsStr,
        arguments: &PuppetArguments,
        strict: bool,
    ) -> Result<Manifest, Failure> {
        let puppet = Puppet::new(arguments.settings()?);
        let settings_file = Arc::new(OnceLock::new());
        if let Some(file) = &puppet.settings().configuration {
            // Nobody else has it yet.
            let _ = settings_file.set(file.clone());
        }
        Ok(Manifest {
            input: input(argument)?,
            puppet,
            strict,
            way: arguments.way(),
            settings_file,
            told: Arc::default(),
        })
    }

    /// What was packed into a directory, with the settings that were packed with it.
    pub(crate) fn unpacked(argument: &OsStr, directory: &Path) -> Result<Manifest, Failure> {
        let conf = Some(directory.join(package::CONF)).filter(|conf| conf.is_file());
        let manifest = Manifest::new(argument, &PuppetArguments::of_file(conf.as_deref()), false)?;
        match std::fs::read(directory.join(package::OPTIONS)) {
            Ok(content) => {
                let (options, way) = options::unpacked(&content)?;
                let puppet = Puppet::new(Settings { options, ..manifest.puppet.settings().clone() });
                Ok(Manifest { puppet, way, ..manifest })
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(manifest),
            Err(error) => Err(Failure::failed(format!("cannot read Puppet's settings: {error}"))),
        }
    }

    /// The same, of which only some resources count.
    pub(crate) fn with_tags(self, arguments: &ManifestArguments) -> Manifest {
        let mut settings = self.puppet.settings().clone();
        for (name, tags) in [("tags", &arguments.tags), ("skip_tags", &arguments.skip_tags)] {
            if !tags.is_empty() {
                settings.options.push((name.to_owned(), tags.join(",")));
            }
        }
        let puppet = if settings == *self.puppet.settings() { self.puppet } else { Puppet::new(settings) };
        Manifest { puppet, ..self }
    }

    /// What to call it.
    pub(crate) fn name(&self) -> String {
        match &self.input {
            Input::Manifest(path) | Input::Environment(path) => path.display().to_string(),
            Input::Code(_) => INLINE.to_owned(),
            Input::Agent => "the catalogue of the Puppet server".to_owned(),
        }
    }

    /// A server compiles it, and nobody tells when it would be another one.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.input == Input::Agent
    }

    /// Nobody else may bring about on this host what a server has for it.
    pub(crate) async fn refuse_rival(&self) -> Result<(), Failure> {
        if !self.is_elsewhere() {
            return Ok(());
        }
        // Whoever cannot be asked tells why when there is something to compile.
        match self.puppet.rival().await {
            Ok(Some(process)) => Err(Failure::failed(format!(
                "Puppet's own agent works on this host (process {process}), and the two would undo each other's changes"
            ))
            .hint("stop it, or tell it to do nothing: `puppet agent --disable 'mgmt takes its place'`")),
            _ => Ok(()),
        }
    }

    /// Its files, for other hosts. A directory brings along what is in it; what a file needs beside itself has to be there.
    /// Puppet's settings go with them.
    pub(crate) fn package(&self) -> Result<Package, Failure> {
        let read = |path: &Path| {
            std::fs::read(path)
                .map_err(|error| Failure::usage(format!("cannot read {}: {error}", path.display())))
        };
        let mut package = match &self.input {
            Input::Code(code) => package::single(MAIN, code.clone().into_bytes()),
            // Each host asks for its own.
            Input::Agent => Ok(Package { files: mgmt_store::Tree::default(), entry: AGENT.to_owned() }),
            Input::Environment(path) => package::directory(path),
            Input::Manifest(path) if path.is_dir() => package::directory(path),
            Input::Manifest(path) => package::single(MAIN, read(path)?),
        }?;
        if let Some(conf) = &self.puppet.settings().configuration {
            let file = mgmt_store::File { executable: false, content: read(conf)? };
            package.files.insert(package::CONF, file).map_err(Failure::usage)?;
        }
        if let Some(content) = options::packed(self.puppet.settings(), self.way) {
            let file = mgmt_store::File { executable: false, content };
            package.files.insert(package::OPTIONS, file).map_err(Failure::usage)?;
        }
        Ok(package)
    }

    /// Where its own files are, each with whether everything below it counts. It may have none.
    pub(crate) fn places(&self) -> Vec<(PathBuf, bool)> {
        let own = match &self.input {
            Input::Manifest(path) | Input::Environment(path) => Some((path.clone(), path.is_dir())),
            Input::Code(_) | Input::Agent => None,
        };
        let conf = self.puppet.settings().configuration.clone().map(|conf| (conf, false));
        own.into_iter().chain(conf).collect()
    }

    /// Compiles and translates it, and shows what there is to tell.
    pub(crate) async fn load(&self, terminal: &Terminal) -> Attempt {
        self.finish(self.compile().await, terminal, Errors::Always).await
    }

    pub(crate) async fn compile(&self) -> Result<Compiled, PuppetError> {
        self.puppet.compile(&self.input).await
    }

    /// What comes of what was compiled.
    pub(crate) async fn finish(
        &self,
        compiled: Result<Compiled, PuppetError>,
        terminal: &Terminal,
        errors: Errors,
    ) -> Attempt {
        let inline: Arc<str> = Arc::from(INLINE);
        let compiled = match compiled {
            Ok(compiled) => compiled,
            Err(error) => {
                let found = mgmt_puppet::of_error(&error, &inline);
                let (tally, mistake) = (self.show(&found, terminal, errors), mistake(&found));
                let (sources, is_out_of_reach) = match error {
                    PuppetError::Refused(refused) => {
                        let sources = self.sources(refused.files, refused.absent, refused.directories);
                        (Sources { seen: refused.seen, ..sources }, false)
                    }
                    _ => (self.sources(Vec::new(), Vec::new(), Vec::new()), true),
                };
                let decisions = Vec::new();
                return Attempt { graph: None, decisions, sources, tally, mistake, is_out_of_reach };
            }
        };
        let mut options = TranslateOptions {
            strict: self.strict,
            configuration: self.puppet.settings().configuration.clone(),
            settings: options::for_applying(self.puppet.settings(), &self.input),
            ordering: self.way.ordering,
            puppet_only: self.way.puppet_only,
            inline,
            ..TranslateOptions::default()
        };
        if let Ok(hello) = self.puppet.hello().await {
            let Hello { runinterval: interval, bucket, noop, tags, skip_tags, .. } = hello;
            let Hello { ignoreschedules, authorities, proxied, config, .. } = hello;
            let schedules = !ignoreschedules;
            if let Some(file) = config {
                self.settings_file.get_or_init(|| file);
            }
            options = TranslateOptions { interval, bucket, noop, tags, skip_tags, ..options };
            options = TranslateOptions { schedules, authorities, proxied, ..options };
        }
        let Translated { graph, name, decisions, diagnostics, looked } =
            translate(&compiled, &mgmt_resources::KINDS, &options);
        let (tally, mistake) = (self.show(&diagnostics, terminal, errors), mistake(&diagnostics));
        let (facts, seen) = (compiled.fact_directories, compiled.seen);
        let sources = Sources {
            facts,
            seen,
            looked,
            ..self.sources(compiled.files, compiled.absent, compiled.directories)
        };
        let graph = graph.map(|graph| (graph, name));
        Attempt { graph, decisions, sources, tally, mistake, is_out_of_reach: false }
    }

    /// The manifest itself counts even if it could not be read.
    fn sources(
        &self,
        mut files: Vec<PathBuf>,
        absent: Vec<PathBuf>,
        mut directories: Vec<PathBuf>,
    ) -> Sources {
        files.extend(absent);
        match &self.input {
            Input::Manifest(path) if path.is_dir() => directories.push(path.clone()),
            Input::Manifest(path) => files.push(path.clone()),
            Input::Environment(path) => {
                files.extend(["environment.conf", "hiera.yaml"].map(|name| path.join(name)));
                directories.extend(
                    ["manifests", "modules"]
                        .map(|name| path.join(name))
                        .into_iter()
                        .filter(|path| path.is_dir()),
                );
            }
            Input::Code(_) | Input::Agent => {}
        }
        for list in [&mut files, &mut directories] {
            list.sort();
            list.dedup();
        }
        Sources { files, directories, settings: self.settings_file.get().cloned(), ..Sources::default() }
    }

    /// What Puppet's settings say that makes another graph of the same catalogue.
    pub(crate) async fn settings_told(&self) -> String {
        let hello = self.puppet.hello().await;
        hello.map_or_else(|_| String::new(), |hello| format!("{hello:?}"))
    }

    /// Whether Puppet's file of settings is other than when it was read.
    pub(crate) async fn has_other_settings(&self) -> bool {
        self.puppet.has_other_settings().await
    }

    /// What is known of this host now, without what is never the same twice.
    pub(crate) async fn facts(&self) -> Result<Facts, PuppetError> {
        self.puppet.gather_facts(&self.input).await.map(Facts)
    }

    /// What compiles take as known of this host.
    pub(crate) async fn known_facts(&self) -> Result<Facts, PuppetError> {
        self.puppet.known_facts(&self.input).await.map(Facts)
    }

    /// Compiles with these facts from now on.
    pub(crate) async fn use_facts(&self, facts: &Facts) -> Result<(), PuppetError> {
        self.puppet.use_facts(&facts.0).await
    }

    /// How often an agent of Puppet would look again; nothing if never.
    pub(crate) async fn interval(&self) -> Option<Duration> {
        let seconds = self.puppet.hello().await.map_or(1800, |hello| hello.runinterval);
        (seconds > 0).then(|| Duration::from_secs(seconds))
    }

    /// Shows what there is to tell, and no warning twice.
    pub(crate) fn show(
        &self,
        found: &[mgmt_puppet::Diagnostic],
        terminal: &Terminal,
        errors: Errors,
    ) -> Tally {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let text = |found: &mgmt_puppet::Diagnostic| {
            format!("{:?} {}", found.primary_label().map(|label| &label.span), found.message)
        };
        let wrong: Vec<String> = found.iter().filter(|found| found.is_error()).map(text).collect();
        let is_told_before = errors == Errors::OnceEach && wrong == told.errors;
        told.errors = wrong;
        // What is only worth knowing is told once.
        let new: Vec<&mgmt_puppet::Diagnostic> = found
            .iter()
            .filter(|found| match found.severity {
                Severity::Error => !is_told_before,
                _ => told.once.insert(text(found)),
            })
            .collect();
        let mut texts = Texts::default();
        for diagnostic in &new {
            for label in &diagnostic.labels {
                texts.read(&label.span.file, &self.input);
            }
        }
        let shown: Vec<Diagnostic> = new.into_iter().map(|found| texts.locate(found)).collect();
        terminal.diagnostics(&shown, &texts.sources)
    }
}

/// The first thing that is wrong, with its place.
fn mistake(found: &[mgmt_puppet::Diagnostic]) -> Option<String> {
    let wrong = found.iter().find(|found| found.is_error())?;
    let message = wrong.message.lines().next().unwrap_or_default();
    Some(match wrong.primary_label() {
        Some(label) => format!("{}: {message}", label.span),
        None => message.to_owned(),
    })
}

/// What Puppet knows of a host.
#[derive(Clone, Debug)]
pub(crate) struct Facts(serde_json::Value);

/// What changes all the time, whatever somebody does. A catalogue is not made again for it.
const VOLATILE: &[&str] = &[
    "uptime",
    "uptime_days",
    "uptime_hours",
    "uptime_seconds",
    "seconds",
    "system_uptime",
    "load_averages",
    "memoryfree",
    "memoryfree_mb",
    "swapfree",
    "swapfree_mb",
    "available",
    "available_bytes",
    "used",
    "used_bytes",
    "capacity",
    "speed",
];

impl Facts {
    /// Whether a catalogue would not notice.
    pub(crate) fn same_as(&self, other: &Facts) -> bool {
        fn lasting(value: &serde_json::Value) -> serde_json::Value {
            match value {
                serde_json::Value::Object(entries) => entries
                    .iter()
                    .filter(|(key, _)| !VOLATILE.contains(&key.as_str()))
                    .map(|(key, value)| (key.clone(), lasting(value)))
                    .collect(),
                other => other.clone(),
            }
        }
        lasting(&self.0) == lasting(&other.0)
    }
}

fn input(argument: &OsStr) -> Result<Input, Failure> {
    let path = Path::new(argument);
    if argument == AGENT {
        return Ok(Input::Agent);
    }
    if argument == "-" {
        let mut code = String::new();
        let read = std::io::stdin().lock().take(LONGEST).read_to_string(&mut code);
        read.map_err(|error| Failure::usage(format!("cannot read standard input: {error}")))?;
        return Ok(Input::Code(code));
    }
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    if path.is_dir() {
        let is_environment = ["manifests", "modules", "environment.conf", "hiera.yaml"];
        return Ok(match is_environment.iter().any(|name| path.join(name).exists()) {
            true => Input::Environment(absolute(path)),
            false => Input::Manifest(absolute(path)),
        });
    }
    if path.exists() {
        return Ok(Input::Manifest(absolute(path)));
    }
    let text = argument.to_str().ok_or_else(|| Failure::usage("the manifest is not UTF-8"))?;
    if text.trim().is_empty() {
        return Err(Failure::usage("the manifest is empty").hint("write `mgmt run puppet FILE.pp`"));
    }
    let is_code = text.contains(|letter: char| letter.is_whitespace() || "{}()$".contains(letter));
    if text.ends_with(".pp") || !is_code {
        return Err(Failure::usage(format!("there is no file or directory `{text}`"))
            .hint("give a file, a directory, `-` for standard input, or the code itself in quotes"));
    }
    Ok(Input::Code(text.to_owned()))
}

/// Loads a manifest where nothing else runs.
pub(crate) fn load_alone(manifest: &Manifest, terminal: &Terminal) -> Result<Attempt, Failure> {
    let runtime = crate::runtime::start(None)?;
    Ok(runtime.block_on(manifest.load(terminal)))
}

/// The same, and the texts that nobody should see: as they are, and as they are written in other forms.
pub(crate) fn load_with_secrets(
    manifest: &Manifest,
    terminal: &Terminal,
) -> Result<(Attempt, Vec<String>, Containers), Failure> {
    let runtime = crate::runtime::start(None)?;
    Ok(runtime.block_on(async {
        let compiled = manifest.compile().await;
        let found =
            compiled.as_ref().map(|compiled| mgmt_puppet::secrets(&compiled.catalogue)).unwrap_or_default();
        let inline = Arc::from(INLINE);
        let containers = compiled.as_ref().map(|compiled| Containers::new(compiled, &inline));
        let containers = containers.unwrap_or_default();
        (manifest.finish(compiled, terminal, Errors::Always).await, found, containers)
    }))
}

impl Attempt {
    /// The graph, or the failure of which everything has been shown.
    pub(crate) fn into_graph(self) -> Result<(ResourceGraph, String), Failure> {
        let code = if self.is_out_of_reach { exit_codes::FAILED } else { exit_codes::USAGE };
        let Attempt { graph, mistake, .. } = self;
        graph.ok_or_else(|| {
            mistake.map_or_else(|| Failure::shown(code), |mistake| Failure::shown_as(code, mistake))
        })
    }
}

/// The texts that diagnostics are about.
#[derive(Default)]
struct Texts {
    sources: SourceMap,
    files: HashMap<Arc<str>, Masked>,
    secrets: Vec<String>,
}

/// A text in two forms.
struct Masked {
    /// With its secrets masked.
    secrets: FileId,
    /// With all that is quoted in it masked.
    quoted: FileId,
}

impl Texts {
    fn read(&mut self, file: &Arc<str>, input: &Input) {
        if self.files.contains_key(file) {
            return;
        }
        let text = match input {
            Input::Code(code) if **file == *INLINE => code.clone(),
            _ => std::fs::read(&**file)
                .map(|bytes| Source::lossy_text(&bytes).into_owned())
                .unwrap_or_default(),
        };
        let (shown, secrets) = masked::mask(&text);
        self.secrets.extend(secrets);
        let masked = Masked {
            secrets: self.sources.add(Arc::clone(file), shown),
            quoted: self.sources.add(Arc::clone(file), masked::mask_all(&text)),
        };
        self.files.insert(Arc::clone(file), masked);
    }

    /// A diagnostic with its spans in the masked texts, and without the secrets that are written in them.
    fn locate(&self, found: &mgmt_puppet::Diagnostic) -> Diagnostic {
        let is_decision = is_decision(found);
        let message = masked::without(&found.message, &self.secrets).into_owned();
        let located = found.clone().map_spans(|origin| {
            let Masked { secrets, quoted } = self.files.get(&origin.file)?;
            let file = if is_decision { *quoted } else { *secrets };
            Some(file.span_of(span(&self.sources.get(file)?.text, origin.line, origin.column)))
        });
        Diagnostic { message, ..located }
    }
}

/// From a point to the end of its line.
fn span(text: &str, line: u32, column: u32) -> Range<usize> {
    let mut start = 0;
    for (number, found) in (1..).zip(text.split_inclusive('\n')) {
        if number == line {
            let content = found.trim_end();
            let offset = found
                .char_indices()
                .nth(column.saturating_sub(1) as usize)
                .map_or(content.len(), |(at, _)| at);
            let blank = content.len() - content.trim_start().len();
            let from = offset.max(blank).min(content.len());
            return start + from..start + content.len();
        }
        start += found.len();
    }
    text.len()..text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_is_a_file_a_directory_or_code() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("site.pp");
        std::fs::write(&file, "").unwrap();
        assert_eq!(input(file.as_os_str()).unwrap(), Input::Manifest(file));
        assert!(matches!(input(place.path().as_os_str()).unwrap(), Input::Manifest(_)));
        std::fs::create_dir(place.path().join("manifests")).unwrap();
        assert!(matches!(input(place.path().as_os_str()).unwrap(), Input::Environment(_)));
        assert!(matches!(input(OsStr::new("notify { 'x': }")).unwrap(), Input::Code(_)));
        assert_eq!(input(OsStr::new("agent")).unwrap(), Input::Agent);
        for wrong in ["", " ", "/nowhere/x.pp", "nowhere", "a b.pp"] {
            assert!(input(OsStr::new(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn facts_are_the_same_if_only_time_has_passed() {
        let facts = |free: &str, name: &str| {
            let memory = serde_json::json!({ "system": { "available": free, "total": "8 GiB" } });
            Facts(
                serde_json::json!({ "memory": memory, "hostname": name, "system_uptime": { "seconds": free } }),
            )
        };
        assert!(facts("1", "a").same_as(&facts("2", "a")));
        assert!(!facts("1", "a").same_as(&facts("1", "b")));
    }

    #[test]
    fn a_point_is_shown_with_the_rest_of_its_line() {
        let text = "one\n  two ä x\nthree";
        assert_eq!(&text[span(text, 2, 1)], "two ä x");
        assert_eq!(&text[span(text, 2, 9)], "x");
        assert_eq!(&text[span(text, 3, 1)], "three");
        assert_eq!(span(text, 9, 9), text.len()..text.len());
        assert_eq!(span("", 1, 1), 0..0);
    }
}
