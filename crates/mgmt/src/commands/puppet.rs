//! `mgmt puppet`: what becomes of a manifest.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use mgmt_puppet::{Decision, Outcome, ProgramOptions};
use mgmt_resource::{FieldSpec, Spec};
use mgmt_telemetry::Format;
use mgmt_value::Value;
use serde_json::json;

use crate::failure::{Exit, Failure};
use crate::manifest::{Attempt, Manifest, PuppetArguments, load_alone, load_with_secrets};
use crate::terminal::Terminal;

/// Show what becomes of a manifest of Puppet
///
/// The manifest is compiled by the Puppet that is installed, and translated. Nothing is run.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Print each resource and what it is here, or the graph that they make
    Print {
        /// What to print
        #[arg(long, value_name = "FORMAT", default_value = "text")]
        format: PrintFormat,

        #[command(flatten)]
        subject: Subject,
    },
    /// Count what is native and what is left to Puppet, with the reasons
    Stats(Subject),
    /// Print a program in mcl that does the same, as far as that is native
    ///
    /// Resources are in the order of the manifest, each with its place. Classes and defined types are classes; values from Hiera are variables where the manifest
    /// names them. What is left to Puppet is a comment that says why. Secrets are left out, and a comment is in their place. `mgmt diff puppet:site.pp program.mcl`
    /// tells whether both are the same.
    Translate {
        /// Write the program to `main.mcl` in this directory, which is made, and texts from templates to files below `files` in it
        #[arg(long, value_name = "DIRECTORY", value_hint = clap::ValueHint::DirPath)]
        output: Option<PathBuf>,

        #[command(flatten)]
        subject: Subject,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum PrintFormat {
    /// A line for each resource
    Text,
    /// The graph, as a file for the front-end `yaml`. Secrets are left out; a graph that has some cannot be run from it
    Yaml,
}

#[derive(Debug, clap::Args)]
struct Subject {
    /// A file, a directory with manifests or an environment, `-` for standard input, or the code itself in quotes
    #[arg(value_name = "INPUT", value_hint = clap::ValueHint::AnyPath)]
    input: PathBuf,

    #[command(flatten)]
    settings: PuppetArguments,
}

pub(crate) fn run(arguments: &Arguments, terminal: &Terminal) -> Result<Exit, Failure> {
    let (Command::Print { subject, .. } | Command::Stats(subject) | Command::Translate { subject, .. }) =
        &arguments.command;
    let manifest = Manifest::new(subject.input.as_os_str(), &subject.settings, false)?;
    if let Command::Print { format: PrintFormat::Yaml, .. } = &arguments.command {
        return print_graph(&manifest, terminal);
    }
    if let Command::Translate { output, .. } = &arguments.command {
        return write_program(&manifest, output.as_deref(), terminal);
    }
    let attempt = load_alone(&manifest, terminal)?;
    if attempt.graph.is_none() && attempt.decisions.is_empty() {
        attempt.into_graph()?;
        return Ok(Exit::OK);
    }
    terminal.data(&match (&arguments.command, terminal.format()) {
        (Command::Print { .. }, Format::Human) => print(&attempt.decisions),
        (_, Format::Human) => stats(&attempt.decisions),
        (_, Format::Json) => document(&attempt),
    });
    Ok(if attempt.graph.is_some() { Exit::OK } else { Exit(super::exit_codes::FAILED) })
}

/// The graph as a file.
fn print_graph(manifest: &Manifest, terminal: &Terminal) -> Result<Exit, Failure> {
    let (attempt, secrets, _) = load_with_secrets(manifest, terminal)?;
    let (graph, name) = attempt.into_graph()?;
    let is_secret = secret_among(&secrets);
    let comment = format!("generated from puppet catalog for {name}");
    let options = mgmt_yaml::WriteOptions { name: &name, comment: &comment, is_secret: &is_secret };
    let text = mgmt_yaml::write(&graph, &options).map_err(|wrong| {
        let names: Vec<String> = wrong.iter().map(ToString::to_string).collect();
        Failure::failed(format!("these names would mean something else in YAML: {}", names.join(", ")))
    })?;
    terminal.data(&text);
    Ok(Exit::OK)
}

/// The graph as a program.
fn write_program(manifest: &Manifest, output: Option<&Path>, terminal: &Terminal) -> Result<Exit, Failure> {
    let (mut attempt, secrets, containers) = load_with_secrets(manifest, terminal)?;
    let decisions = std::mem::take(&mut attempt.decisions);
    let (graph, _) = attempt.into_graph()?;
    let is_secret = secret_among(&secrets);
    let options = ProgramOptions { is_secret: &is_secret, with_files: output.is_some() };
    let program = mgmt_puppet::program(&graph, &decisions, &containers, &options);
    let text = mgmt_syntax::format(&program.text).map_err(|errors| {
        let first = errors.first().map(|error| error.message.clone()).unwrap_or_default();
        Failure::failed(format!("what was translated is no program: {first}"))
            .hint("this is a mistake of `mgmt puppet translate`; please report it")
    })?;
    let Some(directory) = output else {
        terminal.data(&text);
        return Ok(Exit::OK);
    };
    let failed = |path: &Path, error: &std::io::Error| {
        Failure::failed(format!("cannot write {}: {error}", path.display()))
    };
    // Nothing that is there already is overwritten.
    std::fs::create_dir(directory).map_err(|error| failed(directory, &error))?;
    let files = program.files.iter().map(|(path, text)| (path.as_str(), text.as_bytes()));
    for (path, content) in files.chain([("main.mcl", text.as_bytes())]) {
        let path = directory.join(path);
        let parent = path.parent().unwrap_or(directory);
        std::fs::create_dir_all(parent).map_err(|error| failed(parent, &error))?;
        std::fs::write(&path, content).map_err(|error| failed(&path, &error))?;
    }
    Ok(Exit::OK)
}

/// Tells whether a value is nobody's business, or has something in it that is.
fn secret_among(secrets: &[String]) -> impl Fn(&Spec, &FieldSpec, &Value) -> bool {
    move |spec, field, value| {
        let text = value.to_string();
        // The environment of a command is a secret only if there is one in it; all commands have one.
        let is_environment = spec.id.kind == "exec" && field.name == "env";
        (field.secret && !is_environment) || secrets.iter().any(|secret| text.contains(secret))
    }
}

fn place(decision: &Decision) -> String {
    decision.origin.as_ref().map_or_else(String::new, |origin| format!("{}:{}: ", origin.file, origin.line))
}

fn because(outcome: &Outcome) -> Vec<String> {
    match outcome {
        Outcome::Passive => Vec::new(),
        Outcome::Native(_, reasons)
        | Outcome::Puppet(reasons)
        | Outcome::Refused(reasons)
        | Outcome::LeftOut(reasons) => reasons.iter().map(ToString::to_string).collect(),
    }
}

fn print(decisions: &[Decision]) -> String {
    let mut text = String::new();
    for decision in decisions {
        let outcome = match &decision.outcome {
            Outcome::Native(kind, losses) if losses.is_empty() => format!("native, {kind}"),
            Outcome::Native(kind, _) => {
                format!("native, {kind}, not quite the same: {}", because(&decision.outcome).join("; "))
            }
            Outcome::Passive => "does nothing by itself".to_owned(),
            Outcome::Puppet(_) => format!("left to Puppet: {}", because(&decision.outcome).join("; ")),
            Outcome::Refused(_) => format!("refused: {}", because(&decision.outcome).join("; ")),
            Outcome::LeftOut(_) => format!("left out: {}", because(&decision.outcome).join("; ")),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}{}: {outcome}", place(decision), decision.reference);
    }
    text
}

fn stats(decisions: &[Decision]) -> String {
    let (mut native, mut lossy, mut left, mut refused, mut ignored, mut passive) = (0, 0, 0, 0, 0, 0);
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    for decision in decisions {
        match &decision.outcome {
            Outcome::Native(_, losses) if losses.is_empty() => native += 1,
            Outcome::Native(..) => lossy += 1,
            Outcome::Passive => passive += 1,
            Outcome::Puppet(_) => left += 1,
            Outcome::Refused(_) => refused += 1,
            Outcome::LeftOut(_) => ignored += 1,
        }
        for reason in because(&decision.outcome) {
            *reasons.entry(format!("{}: {reason}", decision.kind)).or_default() += 1;
        }
    }
    let mut text = format!(
        "{native:>7} native\n{lossy:>7} native, not quite the same\n{left:>7} left to Puppet\n{refused:>7} refused\n\
         {ignored:>7} left out\n{passive:>7} do nothing by themselves\n"
    );
    let mut reasons: Vec<(String, usize)> = reasons.into_iter().collect();
    reasons.sort_by(|(one, count), (other, more)| more.cmp(count).then(one.cmp(other)));
    for (reason, count) in reasons {
        let _ = writeln!(text, "{count:>5}x {reason}");
    }
    text
}

fn document(attempt: &Attempt) -> String {
    let resources: Vec<_> = attempt
        .decisions
        .iter()
        .map(|decision| {
            let (outcome, kind) = match &decision.outcome {
                Outcome::Native(kind, _) => ("native", Some(*kind)),
                Outcome::Passive => ("passive", Some("noop")),
                Outcome::Puppet(_) => ("puppet", Some("pippet")),
                Outcome::Refused(_) => ("refused", None),
                Outcome::LeftOut(_) => ("left out", None),
            };
            json!({
                "resource": decision.reference,
                "type": decision.kind,
                "outcome": outcome,
                "kind": kind,
                "reasons": because(&decision.outcome),
                "file": decision.origin.as_ref().map(|origin| &*origin.file),
                "line": decision.origin.as_ref().map(|origin| origin.line),
            })
        })
        .collect();
    mgmt_telemetry::json_line(&json!({ "type": "puppet", "format_version": 1, "resources": resources }))
}
