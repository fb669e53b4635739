//! `mgmt kinds`: the kinds of resources.

use clap::ValueEnum;

use crate::failure::{Exit, Failure};
use crate::reference;
use crate::terminal::Terminal;

/// List the kinds of resources, or describe one
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The kind to describe
    #[arg(value_name = "KIND")]
    kind: Option<String>,

    /// How to print it [default: text]
    #[arg(long, value_name = "FORMAT")]
    format: Option<ReferenceFormat>,
}

/// How the reference is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReferenceFormat {
    /// Lines for people
    Text,
    /// One JSON document
    Json,
    /// Pages of a book
    Markdown,
}

impl ReferenceFormat {
    /// The one that is asked for.
    pub(crate) fn of(given: Option<ReferenceFormat>, terminal: &Terminal) -> ReferenceFormat {
        terminal.data_format(given, ReferenceFormat::Json, ReferenceFormat::Text)
    }
}

pub(crate) fn run(arguments: &Arguments, terminal: &Terminal) -> Result<Exit, Failure> {
    let schemas = match &arguments.kind {
        None => reference::public_kinds().collect(),
        Some(kind) => match mgmt_resources::KINDS.get(kind) {
            Some(schema) => vec![schema],
            None => {
                let failure = Failure::usage(format!("there is no kind `{kind}`"));
                return Err(match mgmt_resources::KINDS.suggest(kind) {
                    Some(near) => failure.hint(format!("did you mean `{near}`?")),
                    None => failure.hint("`mgmt kinds` lists all kinds"),
                });
            }
        },
    };
    terminal.data(&match (ReferenceFormat::of(arguments.format, terminal), &arguments.kind) {
        (ReferenceFormat::Text, None) => reference::list(&schemas),
        (ReferenceFormat::Text, Some(_)) => schemas.iter().map(|schema| reference::text(schema)).collect(),
        (ReferenceFormat::Json, _) => reference::json(&schemas),
        (ReferenceFormat::Markdown, _) => schemas.iter().map(|schema| reference::kind_page(schema)).collect(),
    });
    Ok(Exit::OK)
}
