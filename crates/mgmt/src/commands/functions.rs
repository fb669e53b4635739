//! `mgmt functions`: the functions of the language.

use super::kinds::ReferenceFormat;
use crate::failure::{Exit, Failure};
use crate::reference::functions;
use crate::terminal::Terminal;

/// List the functions of the language, or describe one
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// A module such as `strings`, a function such as `fmt.printf`, a class such as `systemd.unit`, or an operator such as
    /// `+`; `builtin` is what needs no import
    #[arg(value_name = "MODULE|NAME", allow_hyphen_values = true)]
    name: Option<String>,

    /// How to print it [default: text]
    #[arg(long, value_name = "FORMAT")]
    format: Option<ReferenceFormat>,
}

pub(crate) fn run(arguments: &Arguments, terminal: &Terminal) -> Result<Exit, Failure> {
    let found = match &arguments.name {
        None => functions::Found::All,
        Some(name) => functions::find(name).ok_or_else(|| missing(name))?,
    };
    terminal.data(&match ReferenceFormat::of(arguments.format, terminal) {
        ReferenceFormat::Text => functions::text(found),
        ReferenceFormat::Json => functions::json(found),
        ReferenceFormat::Markdown => functions::markdown(found),
    });
    Ok(Exit::OK)
}

/// Says that there is no such function.
pub(crate) fn missing(name: &str) -> Failure {
    let failure = Failure::usage(format!("there is no function and no module `{name}`"));
    let names = functions::names();
    // One of the same module that is written nearly like it.
    if let Some((module, member)) = name.rsplit_once('.') {
        let beside = names.iter().filter_map(|other| other.rsplit_once('.'));
        let beside = beside.filter(|(path, _)| *path == module).map(|(_, member)| member);
        if let Some(near) = mgmt_resource::did_you_mean(member, beside) {
            return failure.hint(format!("did you mean `{module}.{near}`?"));
        }
    }
    // Also behind the name of a module that has no such function.
    let last = name.rsplit(['.', '/']).next().unwrap_or(name);
    let namesakes: Vec<String> = functions::namesakes(last)
        .into_iter()
        .map(|function| format!("`{}`", function.full_name()))
        .collect();
    match namesakes.as_slice() {
        [] => {}
        [only] => return failure.hint(format!("did you mean {only}?")),
        several => return failure.hint(format!("several modules have one: {}", several.join(", "))),
    }
    match mgmt_resource::did_you_mean(name, names.iter().map(String::as_str)) {
        Some(near) => failure.hint(format!("did you mean `{near}`?")),
        None => failure.hint("`mgmt functions` lists all of them"),
    }
}
