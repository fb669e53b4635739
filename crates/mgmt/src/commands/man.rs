//! `mgmt man`

use std::fmt::Write as _;

use clap_mangen::Man;

use crate::commands::exit_codes;
use crate::environment;
use crate::failure::{Exit, Failure};
use crate::terminal::Terminal;

/// Print the manual page of the program or of a command
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The command; none is the program itself
    #[arg(value_name = "COMMAND")]
    command: Option<String>,
}

pub(crate) fn run(arguments: &Arguments, terminal: &Terminal) -> Result<Exit, Failure> {
    let mut definition = crate::cli::definition();
    definition.build();
    let command = match &arguments.command {
        None => definition,
        Some(name) => match definition.find_subcommand(name) {
            Some(command) => command.clone(),
            None => {
                return Err(Failure::usage(format!("there is no command `{name}`"))
                    .hint("`mgmt help` lists the commands"));
            }
        },
    };
    // No date on the page: the same program gives the same page, whenever it was built.
    let mut page = Vec::new();
    Man::new(command)
        .date("")
        .render(&mut page)
        .map_err(|error| Failure::failed(format!("cannot write the page: {error}")))?;
    terminal.data(&String::from_utf8_lossy(&page));
    if arguments.command.is_none() {
        terminal.data(&more());
    }
    Ok(Exit::OK)
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
