//! `mgmt docs`: the reference, generated from the program itself.

use std::path::{Path, PathBuf};

use super::kinds::ReferenceFormat;
use crate::failure::{Exit, Failure};
use crate::reference;
use crate::terminal::Terminal;

/// Print the reference documentation
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Print the reference of kinds, functions, metaparameters, commands, exit codes, variables and error codes
    Reference {
        /// How to print it [default: text]
        #[arg(long, value_name = "FORMAT")]
        format: Option<ReferenceFormat>,

        /// Write the pages into this directory instead; needs `--format markdown`
        #[arg(long, value_name = "DIRECTORY")]
        output: Option<PathBuf>,
    },
}

pub(crate) fn run(arguments: &Arguments, terminal: &Terminal) -> Result<Exit, Failure> {
    let What::Reference { format, output } = &arguments.what;
    match (ReferenceFormat::of(*format, terminal), output) {
        (ReferenceFormat::Markdown, Some(directory)) => write(directory)?,
        (_, Some(_)) => {
            return Err(Failure::usage("`--output` needs `--format markdown`"));
        }
        (ReferenceFormat::Markdown, None) => {
            let pages: Vec<_> = reference::pages().into_iter().map(|(_, text)| text).collect();
            terminal.data(&pages.join("\n"));
        }
        (ReferenceFormat::Json, None) => {
            let schemas: Vec<_> = reference::public_kinds().collect();
            terminal.data(&reference::json(&schemas));
        }
        (ReferenceFormat::Text, None) => {
            let pages: Vec<_> = reference::public_kinds().map(reference::text).collect();
            terminal.data(&pages.join("\n"));
        }
    }
    Ok(Exit::OK)
}

fn write(directory: &Path) -> Result<(), Failure> {
    for (name, text) in reference::pages() {
        let path = directory.join(name);
        let parent = path.parent().unwrap_or(directory);
        std::fs::create_dir_all(parent)
            .and_then(|()| std::fs::write(&path, text))
            .map_err(|error| Failure::failed(format!("cannot write {}: {error}", path.display())))?;
    }
    Ok(())
}
