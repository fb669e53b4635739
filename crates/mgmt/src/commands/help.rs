//! `mgmt help`

use crate::commands::exit_codes;
use crate::environment;
use crate::failure::{Exit, Failure};
use crate::terminal::Terminal;

/// Print help about the program, a command, or a topic
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Arguments {
    /// A command, `exit-codes` or `environment`
    #[arg(value_name = "TOPIC")]
    topic: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments, terminal: &Terminal) -> Result<Exit, Failure> {
    match arguments.topic.first().map(String::as_str) {
        Some("exit-codes" | "exit-code" | "exitcodes") => terminal.data(&exit_codes::text()),
        Some("environment" | "env") => {
            terminal.data(&format!(
                "Environment variables; an empty one counts as unset\n\n{}",
                environment::table()
            ));
        }
        _ => {
            let mut definition = crate::cli::definition();
            definition.build();
            let mut found = &mut definition;
            for word in &arguments.topic {
                found = match found.find_subcommand_mut(word) {
                    Some(command) => command,
                    None => {
                        return Err(Failure::usage(format!("there is no help on `{word}`"))
                            .hint("`mgmt help` lists the commands and topics"));
                    }
                };
            }
            let help =
                if arguments.topic.is_empty() { found.render_help() } else { found.render_long_help() };
            terminal.data(&if terminal.data_color() { help.ansi().to_string() } else { help.to_string() });
        }
    }
    Ok(Exit::OK)
}

/// Breaks a paragraph into lines of at most `width` characters. A longer word has a line of its own.
pub(crate) fn wrap(text: &str, width: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.join("\n")
}

/// Breaks each paragraph of a text into lines. Lines that are indented are examples and stay as they are.
pub(crate) fn paragraphs(text: &str, width: usize) -> String {
    let broken = text.trim().split("\n\n").map(|paragraph| {
        let is_example = paragraph.lines().all(|line| line.starts_with("    ") || line.trim().is_empty());
        if is_example { paragraph.trim_end().to_owned() } else { wrap(paragraph, width) }
    });
    broken.collect::<Vec<_>>().join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_between_paragraphs_stay_as_they_are() {
        let text = "one two\nthree\n\nWrong:\n\n    $x   = 1\n    $y = 2\n\nRight:\n\n    $x = 1";
        assert_eq!(
            paragraphs(text, 9),
            "one two\nthree\n\nWrong:\n\n    $x   = 1\n    $y = 2\n\nRight:\n\n    $x = 1"
        );
        assert_eq!(paragraphs("a b\n\nc  d", 80), "a b\n\nc d");
    }

    #[test]
    fn a_paragraph_is_broken_between_words() {
        assert_eq!(wrap("one two  three\nfour", 9), "one two\nthree\nfour");
        assert_eq!(wrap("averylongword x", 3), "averylongword\nx");
    }
}
