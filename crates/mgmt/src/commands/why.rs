//! `mgmt why`: what led to the last change of a resource.

use std::path::PathBuf;

use mgmt_history::{CauseRecord, Outcome, Record};
use mgmt_telemetry::{Format, escape, json_line};
use serde_json::{Value as Json, json};

use super::exit_codes;
use super::history::{Written, chain, described, effect_line, headline, indented_diff, read};
use crate::failure::{Exit, Failure};
use crate::terminal::Terminal;

/// Notifications are followed back so far.
const DEEPEST: usize = 8;

/// Show what led to the last change of a resource or a path
///
/// From the beginning: what happened, which value of the program changed because of that and where it stands, which parameter
/// took it, and what was changed on the host. Where another resource gave notice or sent a value, its own change follows.
/// Exit code 1: nothing is known of it.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The resource, as `kind[name]` or by its name, or a path or something else that was changed
    #[arg(value_name = "RESOURCE|PATH")]
    about: String,

    /// So many of the last changes
    #[arg(long, short = 'n', value_name = "COUNT", default_value_t = 1)]
    count: usize,

    /// The working directory of the run [env: MGMT_PREFIX]
    #[arg(long, value_name = "DIRECTORY", value_hint = clap::ValueHint::DirPath)]
    prefix: Option<PathBuf>,

    /// The same as `--message-format`, for this command
    #[arg(long, value_name = "FORMAT")]
    format: Option<Written>,
}

pub(crate) fn run(arguments: &Arguments, terminal: &Terminal) -> Result<Exit, Failure> {
    let mut records = Vec::new();
    read(arguments.prefix.as_deref(), terminal, |record| records.push(record))?;
    let about = |at: &usize| records[*at].is_about(&arguments.about);
    let mut found: Vec<usize> = (0..records.len()).rev().filter(about).take(arguments.count.max(1)).collect();
    found.reverse();
    if found.is_empty() && Written::or(arguments.format, terminal) == Format::Human {
        return Err(Failure::failed(format!("nothing is known of a change of {}", escape(&arguments.about)))
            .hint("`mgmt history` lists what is known; `--prefix DIRECTORY` names the run that is meant"));
    }
    match Written::or(arguments.format, terminal) {
        Format::Human => {
            for at in &found {
                terminal.data(&told(&records, *at, 0));
            }
        }
        Format::Json => {
            let changes: Vec<Json> = found.iter().map(|at| explained(&records, *at, 0)).collect();
            terminal.data(&json_line(&json!({
                "type": "why",
                "format_version": 1,
                "about": arguments.about,
                "changes": changes,
            })));
        }
    }
    Ok(if found.is_empty() { Exit(exit_codes::FAILED) } else { Exit::OK })
}

/// A change and what led to it, for people.
fn told(records: &[Record], at: usize, depth: usize) -> String {
    let record = &records[at];
    let indent = depth * 4;
    let line = |word: &str, text: &str| format!("{:indent$}  {word:<8} {text}\n", "");
    let mut text = format!("{:indent$}{}\n", "", headline(record));
    if let Some(origin) = &record.origin {
        text += &line("declared", &format!("at {}", escape(origin)));
    }
    let causes: Vec<String> = record.causes.iter().flat_map(chain).collect();
    for (index, cause) in causes.iter().enumerate() {
        text += &line(if index == 0 { "because" } else { "and so" }, cause);
    }
    for effect in &record.effects {
        text += &line("effect", &effect_line(effect));
        text += &indented_diff(effect, indent + 11);
    }
    for earlier in led_by(records, at) {
        if depth < DEEPEST {
            text += &told(records, earlier, depth + 1);
        }
    }
    text
}

/// The same for programs.
fn explained(records: &[Record], at: usize, depth: usize) -> Json {
    let mut json = described(&records[at]);
    let earlier: Vec<Json> = match depth < DEEPEST {
        true => led_by(records, at).into_iter().map(|at| explained(records, at, depth + 1)).collect(),
        false => Vec::new(),
    };
    if let (Some(object), false) = (json.as_object_mut(), earlier.is_empty()) {
        object.insert("led_by".to_owned(), Json::Array(earlier));
    }
    json
}

/// The changes of other resources that gave notice, or sent a value: of each the last one before.
fn led_by(records: &[Record], at: usize) -> Vec<usize> {
    let mut earlier = Vec::new();
    for cause in &records[at].causes {
        let names: Vec<&str> = match cause {
            CauseRecord::Notified { by } => by.iter().map(String::as_str).collect(),
            CauseRecord::Received { fields } => fields.iter().map(|handed| handed.from.as_str()).collect(),
            _ => Vec::new(),
        };
        earlier.extend(names.into_iter().filter_map(|name| {
            records[..at].iter().rposition(|r| r.outcome == Outcome::Changed && *r.resource == *name)
        }));
    }
    earlier.sort_unstable();
    earlier.dedup();
    earlier
}
