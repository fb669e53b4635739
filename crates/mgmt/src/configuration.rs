//! Where a graph comes from: the front-ends, their files, and what is wrong with them.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValue, TypedValueParser};
use clap::error::ErrorKind;
use mgmt_diagnostics::{Source, SourceMap};
use mgmt_resource::ResourceGraph;

use crate::failure::Failure;
use crate::terminal::{Tally, Terminal};

/// A way to write a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrontEnd {
    /// A program in mcl.
    Lang,
    /// A YAML file.
    Yaml,
    /// A manifest of Puppet.
    Puppet,
    /// A program in mcl and a manifest of Puppet, as one graph.
    LangPuppet,
    /// Nothing at all.
    Empty,
}

/// Reads the name of a front-end, with a word for whoever gives something else.
#[derive(Clone, Debug)]
pub(crate) struct FrontEndParser;

impl TypedValueParser for FrontEndParser {
    type Value = FrontEnd;

    fn parse_ref(
        &self,
        command: &clap::Command,
        _: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<FrontEnd, clap::Error> {
        let message = match value.to_string_lossy().as_ref() {
            "lang" => return Ok(FrontEnd::Lang),
            "yaml" => return Ok(FrontEnd::Yaml),
            "empty" => return Ok(FrontEnd::Empty),
            "puppet" => return Ok(FrontEnd::Puppet),
            "langpuppet" => return Ok(FrontEnd::LangPuppet),
            file if file.ends_with(".mcl") => format!(
                "expected the name of a front-end, found a program; write `mgmt {} lang {file}`\n",
                command.get_name()
            ),
            file if file.ends_with(".pp") => format!(
                "expected the name of a front-end, found a manifest; write `mgmt {} puppet {file}`\n",
                command.get_name()
            ),
            file if file.ends_with(".yaml") || file.ends_with(".yml") || Path::new(value).exists() => {
                format!(
                    "expected the name of a front-end, found a file; write `mgmt {} yaml {file}`\n",
                    command.get_name()
                )
            }
            word => format!(
                "there is no front-end `{word}`; expected `lang`, `yaml`, `puppet`, `langpuppet` or `empty`\n"
            ),
        };
        Err(clap::Error::raw(ErrorKind::InvalidValue, message).with_cmd(command))
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let values = [
            PossibleValue::new("lang").help("A program in mcl"),
            PossibleValue::new("yaml").help("A graph in a YAML file"),
            PossibleValue::new("puppet").help("A manifest of Puppet"),
            PossibleValue::new("langpuppet").help("A program in mcl and a manifest of Puppet, as one graph"),
            PossibleValue::new("empty").help("No graph"),
        ];
        Some(Box::new(values.into_iter()))
    }
}

/// A file with a graph, or standard input.
#[derive(Clone, Debug)]
pub(crate) struct Input {
    path: PathBuf,
    strict: bool,
}

impl Input {
    /// `-` is standard input. With `strict`, keys that nobody reads are errors.
    pub(crate) fn new(path: &Path, strict: bool) -> Input {
        Input { path: path.to_owned(), strict }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn is_standard_input(&self) -> bool {
        self.path == Path::new("-")
    }

    /// What to call it in messages.
    pub(crate) fn name(&self) -> Cow<'_, str> {
        if self.is_standard_input() { "standard input".into() } else { self.path.to_string_lossy() }
    }

    /// Whether reading it a second time gives what is then in it: a pipe would not.
    pub(crate) fn can_be_read_again(&self) -> bool {
        // A file that is away for a moment will be a file when it is back.
        !self.is_standard_input() && self.path.metadata().map_or(true, |found| found.is_file())
    }

    /// Reads it, no further than a graph may be long.
    pub(crate) fn read(&self) -> Result<Vec<u8>, Failure> {
        let failed = |error: std::io::Error| Failure::usage(format!("cannot read {}: {error}", self.name()));
        let limit = mgmt_yaml::MAX_SIZE as u64 + 1;
        let mut content = Vec::new();
        if self.is_standard_input() {
            std::io::stdin().lock().take(limit).read_to_end(&mut content).map_err(failed)?;
        } else {
            let file = File::open(&self.path).map_err(failed)?;
            self.mistrust(&file);
            file.take(limit).read_to_end(&mut content).map_err(failed)?;
        }
        Ok(content)
    }

    /// Whoever can write to the file decides what root does.
    fn mistrust(&self, file: &File) {
        let Ok(found) = file.metadata() else { return };
        if rustix::process::geteuid().is_root() && found.is_file() && found.mode() & 0o002 != 0 {
            tracing::warn!(
                "anyone on this host can write to {} (mode {:04o}), and so decide what is done as root",
                self.name(),
                found.mode() & 0o7777
            );
        }
    }
}

/// A graph and where it came from.
#[derive(Clone)]
pub(crate) struct Loaded {
    pub(crate) graph: ResourceGraph,
    pub(crate) name: String,
    pub(crate) content: Vec<u8>,
    /// The host that it is meant for, if it says so.
    pub(crate) remote: Option<String>,
}

/// Reads a file into a graph, and shows what is wrong with it.
pub(crate) fn load(input: &Input, terminal: &Terminal) -> Result<Loaded, Failure> {
    parse(input, input.read()?, terminal)
}

/// Makes a graph of what was read, and shows what is wrong with it.
pub(crate) fn parse(input: &Input, content: Vec<u8>, terminal: &Terminal) -> Result<Loaded, Failure> {
    let (loaded, _, mistake) = parse_and_explain(input, content, terminal);
    loaded.ok_or_else(|| {
        let code = crate::commands::exit_codes::USAGE;
        mistake.map_or_else(|| Failure::shown(code), |mistake| Failure::shown_as(code, mistake))
    })
}

/// The same, and how much was shown.
pub(crate) fn parse_and_show(
    input: &Input,
    content: Vec<u8>,
    terminal: &Terminal,
) -> (Option<Loaded>, Tally) {
    let (loaded, tally, _) = parse_and_explain(input, content, terminal);
    (loaded, tally)
}

/// The same, and the first error in one line.
fn parse_and_explain(
    input: &Input,
    content: Vec<u8>,
    terminal: &Terminal,
) -> (Option<Loaded>, Tally, Option<String>) {
    let options = mgmt_yaml::ParseOptions { strict: input.strict, ..mgmt_yaml::ParseOptions::default() };
    let name = input.name();
    let parsed = mgmt_yaml::parse_with(&content, &name, &mgmt_resources::KINDS, &options);
    let tally = if parsed.diagnostics.is_empty() {
        Tally::default()
    } else {
        let sources = SourceMap::of(&*name, &*Source::lossy_text(&content));
        terminal.diagnostics(&parsed.diagnostics, &sources)
    };
    let loaded = parsed.graph.map(|found| {
        let name = found.name.display().to_string();
        let remote = found.remote.map(|remote| remote.display().to_string());
        Loaded { graph: found.graph, name, content, remote }
    });
    let first = parsed.diagnostics.iter().find(|found| found.is_error());
    (loaded, tally, first.map(|first| first.message.clone()))
}
