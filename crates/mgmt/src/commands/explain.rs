//! `mgmt explain`: more about an error code.

use std::fmt::Write as _;

use mgmt_resource::did_you_mean;

use crate::failure::{Exit, Failure};
use crate::terminal::Terminal;

/// Explain an error code
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The code in brackets after `error` or `warning`; none lists them all
    #[arg(value_name = "CODE")]
    code: Option<String>,
}

/// Every code with its title and its explanation.
pub(crate) fn catalogue() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    [mgmt_syntax::CODES, mgmt_lang::CODES, mgmt_yaml::CODES, mgmt_puppet::CODES]
        .into_iter()
        .flatten()
        .copied()
}

pub(crate) fn run(arguments: &Arguments, terminal: &Terminal) -> Result<Exit, Failure> {
    let Some(wanted) = &arguments.code else {
        let mut text = String::new();
        for (code, title, _) in catalogue() {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{code}  {title}");
        }
        terminal.data(&text);
        return Ok(Exit::OK);
    };
    match catalogue().find(|(code, _, _)| code.eq_ignore_ascii_case(wanted)) {
        Some((code, title, explanation)) => {
            terminal.data(&format!("{code}: {title}\n\n{}\n", super::help::paragraphs(explanation, 80)));
            Ok(Exit::OK)
        }
        None => {
            let failure = Failure::usage(format!("there is no code `{wanted}`"));
            let near = did_you_mean(wanted, catalogue().map(|(code, _, _)| code));
            Err(match near {
                Some(code) => failure.hint(format!("did you mean `{code}`?")),
                None => failure.hint("`mgmt explain` lists all codes"),
            })
        }
    }
}
