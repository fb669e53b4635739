//! `mgmt completions`

use clap_complete::Shell;

use crate::failure::{Exit, Failure};
use crate::terminal::Terminal;

/// Print a script that completes mgmt's command line in a shell
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

pub(crate) fn run(arguments: &Arguments, terminal: &Terminal) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut crate::cli::definition(), "mgmt", &mut script);
    terminal.data(&String::from_utf8_lossy(&script));
    Ok(Exit::OK)
}
