//! `mgmt man`

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap_mangen::Man;

use crate::commands::exit_codes;
use crate::environment;
use crate::failure::{Exit, Failure};
use crate::place::place;
use crate::terminal::Terminal;

/// Print the manual page of the program or of a command
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The command, such as `run` or `setup svc`; none is the program itself
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,

    /// Write the pages of all commands into this directory instead
    #[arg(long, value_name = "DIRECTORY", conflicts_with = "command", value_hint = clap::ValueHint::DirPath)]
    output: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments, terminal: &Terminal) -> Result<Exit, Failure> {
    let definition = definition();
    if let Some(directory) = &arguments.output {
        write(&definition, directory)?;
        return Ok(Exit::OK);
    }
    let mut command = &definition;
    for word in &arguments.command {
        command = command.find_subcommand(word).ok_or_else(|| {
            Failure::usage(format!("there is no command `{word}`")).hint("`mgmt help` lists the commands")
        })?;
    }
    terminal.data(&page(command)?);
    Ok(Exit::OK)
}

/// The commands, each with the name of its page.
fn definition() -> clap::Command {
    let mut definition = crate::cli::definition();
    definition.build();
    definition
}

/// Writes a page for each command below, and for those below them.
fn write(command: &clap::Command, directory: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(directory)
        .map_err(|error| Failure::failed(format!("cannot make {}: {error}", directory.display())))?;
    let directory = std::path::absolute(directory)
        .map_err(|error| Failure::failed(format!("{}: {error}", directory.display())))?;
    let mut waiting = vec![command];
    while let Some(command) = waiting.pop() {
        place(&directory.join(format!("{}.1", name(command))), page(command)?.as_bytes(), 0o644)?;
        waiting.extend(command.get_subcommands().filter(|command| !command.is_hide_set()));
    }
    Ok(())
}

/// The name of a page: `mgmt-setup-svc`.
fn name(command: &clap::Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}

fn page(command: &clap::Command) -> Result<String, Failure> {
    // No date on the page: the same program gives the same page, whenever it was built.
    let mut page = Vec::new();
    let source = format!("mgmt {}", crate::version::VERSION);
    Man::new(command.clone())
        .title(name(command))
        .source(source)
        .date("")
        .render(&mut page)
        .map_err(|error| Failure::failed(format!("cannot write the page: {error}")))?;
    let mut page = String::from_utf8_lossy(&page).into_owned();
    if name(command) == "mgmt" {
        page.push_str(&more());
    }
    Ok(page)
}

fn more() -> String {
    let mut text = String::from(".SH \"EXIT STATUS\"\n");
    for row in exit_codes::TABLE {
        item(&mut text, row.code, row.when);
    }
    text.push_str(".PP\nWith `run \\-\\-detailed\\-exitcode`, a clean end gives instead\n");
    for row in exit_codes::DETAILED {
        item(&mut text, row.code, row.when);
    }
    text.push_str(".SH ENVIRONMENT\n");
    for variable in environment::ALL {
        item(&mut text, variable.name, variable.meaning);
    }
    text
}

fn item(text: &mut String, term: &str, meaning: &str) {
    let quote = |raw: &str| raw.replace('\\', "\\\\").replace('-', "\\-");
    // A line that starts with a dot or an apostrophe would be a command; `\&` is nothing at all.
    // Writing to a string cannot fail.
    let _ = writeln!(text, ".TP\n\\&{}\n\\&{}", quote(term), quote(meaning));
}
