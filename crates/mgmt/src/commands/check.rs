//! `mgmt check`: is a graph right?

use std::path::PathBuf;

use crate::commands::exit_codes;
use crate::configuration::{self, FrontEnd, FrontEndParser, Input};
use crate::failure::{Exit, Failure};
use crate::terminal::Terminal;

/// Check files without running anything
///
/// Reads each file, checks every resource in it, and goes through the same preparation as `run`. Exit code 0: all are
/// right. 1: at least one is not. 2: at least one could not be read.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How the files are written
    #[arg(value_name = "FRONT-END", value_parser = FrontEndParser)]
    front_end: FrontEnd,

    /// The files; `-` is standard input
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Keys that nobody reads are errors, not warnings
    #[arg(long)]
    strict: bool,
}

pub(crate) fn run(arguments: &Arguments, terminal: &Terminal) -> Result<Exit, Failure> {
    match (arguments.front_end, arguments.files.is_empty()) {
        (FrontEnd::Empty, true) => return Ok(Exit::OK),
        (FrontEnd::Empty, false) => return Err(Failure::usage("the front-end `empty` takes no file")),
        (FrontEnd::Yaml, true) => {
            return Err(Failure::usage("there is nothing to check")
                .hint("write `mgmt check yaml FILE...`; `-` is standard input"));
        }
        (FrontEnd::Yaml, false) => {}
    }
    let mut code = exit_codes::OK;
    for file in &arguments.files {
        let input = Input::new(file, arguments.strict);
        let content = match input.read() {
            Ok(content) => content,
            Err(failure) => {
                terminal.failure(&failure);
                code = code.max(exit_codes::USAGE);
                continue;
            }
        };
        if !is_right(&input, content, terminal) {
            code = code.max(exit_codes::FAILED);
        }
    }
    Ok(Exit(code))
}

fn is_right(input: &Input, content: Vec<u8>, terminal: &Terminal) -> bool {
    let Ok(loaded) = configuration::parse(input, content, terminal) else { return false };
    match mgmt_engine::prepare(loaded.graph, Vec::new(), &mgmt_engine::Preparation::default()) {
        Ok(prepared) => {
            for warning in &prepared.warnings {
                terminal.warning(&format!("{}: {warning}", input.name()));
            }
            true
        }
        Err(error) => {
            terminal.failure(&Failure::failed(format!("{}: {error}", input.name())));
            false
        }
    }
}
