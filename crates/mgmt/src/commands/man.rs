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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use clap::error::ErrorKind;

    use super::*;

    /// Every command that people see, with the words that lead to it, whatever there will be.
    fn all(command: &clap::Command, path: &[String], found: &mut Vec<(Vec<String>, clap::Command)>) {
        found.push((path.to_vec(), command.clone()));
        for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
            all(below, &[path, &[below.get_name().to_owned()]].concat(), found);
        }
    }

    fn commands() -> Vec<(Vec<String>, clap::Command)> {
        let mut found = Vec::new();
        all(&definition(), &[], &mut found);
        found
    }

    #[test]
    fn every_command_has_a_page_that_says_what_it_does() {
        let place = tempfile::tempdir().unwrap();
        write(&definition(), place.path()).unwrap();
        let commands = commands();
        for (path, command) in &commands {
            let file = [&["mgmt".to_owned()], &path[..]].concat().join("-");
            let page = std::fs::read_to_string(place.path().join(format!("{file}.1"))).unwrap();
            assert!(page.contains(".SH NAME") && page.contains(".SH SYNOPSIS"), "{file}");
            let about = command.get_about().unwrap_or_else(|| panic!("{file} does not say what it does"));
            let first = about.to_string().split_whitespace().next().unwrap().to_owned();
            assert!(page.contains(&first), "{file}");
            for flag in command.get_arguments().filter_map(clap::Arg::get_long) {
                let hidden = command.get_arguments().any(|a| a.get_long() == Some(flag) && a.is_hide_set());
                assert!(
                    hidden || page.contains(&flag.replace('-', "\\-")),
                    "{file} has no word about --{flag}"
                );
            }
        }
        assert_eq!(
            std::fs::read_dir(place.path()).unwrap().count(),
            commands.len(),
            "and no page is left over"
        );
        assert!(commands.len() > 30, "{}", commands.len());
    }

    #[test]
    fn every_command_and_every_flag_has_help() {
        for (path, command) in commands() {
            let line =
                ["mgmt".to_owned()].into_iter().chain(path.iter().cloned()).chain(["--help".to_owned()]);
            let told = crate::cli::definition().try_get_matches_from(line).unwrap_err();
            assert_eq!(told.kind(), ErrorKind::DisplayHelp, "{path:?}");
            assert!(told.to_string().contains("Usage: mgmt"), "{path:?}: {told}");
            for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
                assert!(
                    argument.get_help().is_some(),
                    "{path:?}: nothing is said of `{}`",
                    argument.get_id()
                );
            }
        }
    }
}
