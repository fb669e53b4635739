//! `mgmt diff`: what two inputs have the engine do differently.

mod compare;

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::path::Path;

use mgmt_resource::Origin;
use mgmt_telemetry::{Format, escape, json_line};
use serde_json::json;

use crate::commands::check;
use crate::commands::exit_codes;
use crate::commands::graph::compute::{Computed, HowArguments};
use crate::configuration::FrontEnd;
use crate::failure::{Exit, Failure};
use crate::manifest::{ManifestArguments, PuppetArguments};
use crate::terminal::Terminal;
use compare::{Change, Changed, Difference, FieldChange, Order, compare};

/// Show what two inputs have the engine do differently
///
/// Each input is a program in mcl, a graph in YAML, a manifest of Puppet, or a program together with a manifest. Their graphs are
/// computed as `mgmt graph` does, with automatic edges, and compared resource by resource: which are only in one, and which differ in which parameter. Then the
/// order is compared: what has to come before what, and who is notified of whose changes, on whatever way. A `noop` is no more than a point of that order, so it is
/// not compared itself; neither are the two ends that each class of a manifest has.
///
/// Exit code 0: there is no difference. 1: there is one. 2: an input is not right.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The first input, such as `site.pp` or `puppet:environment/`
    ///
    /// What ends in `.yaml` or `.yml` is a graph, what ends in `.pp` is a manifest, and all else is a program. `lang:`, `yaml:` or `puppet:` before it
    /// says how it is written; `langpuppet:PROGRAM,MANIFEST` is both as one graph.
    #[arg(value_name = "A", value_hint = clap::ValueHint::AnyPath)]
    first: OsString,

    /// The second input
    #[arg(value_name = "B", value_hint = clap::ValueHint::AnyPath)]
    second: OsString,

    /// Compare the resources alone, and not their order
    #[arg(long)]
    no_order: bool,

    #[command(flatten)]
    how: HowArguments,

    /// The name that a program takes this host to have
    #[arg(long, value_name = "NAME", default_value = "")]
    hostname: String,

    #[command(flatten)]
    settings: PuppetArguments,

    /// With `langpuppet:`: only warn of points that are on one side alone
    #[arg(long)]
    allow_unmatched: bool,
}

pub(crate) fn run(arguments: &Arguments, terminal: &Terminal) -> Result<Exit, Failure> {
    let inputs = [&arguments.first, &arguments.second];
    if inputs.iter().all(|input| *input == "-") {
        return Err(Failure::usage("standard input can be read once").hint("put one of the two in a file"));
    }
    let mut graphs = Vec::new();
    for input in inputs {
        // That it is not right is no difference.
        let (computed, secrets) = computed(input, arguments, terminal)
            .map_err(|failure| Failure { code: exit_codes::USAGE, ..failure })?;
        let how = mgmt_engine::Preparation {
            autoedges: !arguments.how.no_autoedges,
            autogroup: false,
            ..mgmt_engine::Preparation::default()
        };
        let (name, graph) = computed;
        let prepared = mgmt_engine::prepare(graph, Vec::new(), &how)
            .map_err(|error| Failure::usage(format!("{name}: the graph cannot run: {error}")))?;
        for warning in &prepared.warnings {
            terminal.warning(&format!("{name}: {warning}"));
        }
        graphs.push((prepared.graph, secrets));
    }
    let mut graphs = graphs.into_iter();
    let (Some((first, mut secrets)), Some((second, more))) = (graphs.next(), graphs.next()) else {
        // Two were put in.
        return Ok(Exit::OK);
    };
    secrets.extend(more);
    let difference = compare(&first, &second, !arguments.no_order);
    terminal.data(&match terminal.format() {
        Format::Human => text(&difference, &secrets),
        Format::Json => document(&difference, &secrets),
    });
    Ok(if difference.is_none() { Exit::OK } else { Exit(exit_codes::DIFFERENT) })
}

/// A graph of an input, and the texts in it that nobody should see.
fn computed(
    input: &OsStr,
    arguments: &Arguments,
    terminal: &Terminal,
) -> Result<(Computed, Vec<String>), Failure> {
    let manifest = ManifestArguments {
        settings: arguments.settings.clone(),
        allow_unmatched: arguments.allow_unmatched,
        ..ManifestArguments::default()
    };
    let computing = arguments.how.computing(&manifest, "diff", &arguments.hostname, terminal);
    let graph = match meant(input)? {
        Meant::One(front_end, input) => computing.graph(front_end, Some(&input)),
        Meant::Both(lang, puppet) => computing.both(&lang, &puppet),
        Meant::Nothing => computing.graph(FrontEnd::Empty, None),
    }?;
    Ok((graph, computing.secrets.into_inner()))
}

/// What an argument means.
#[derive(Debug, PartialEq, Eq)]
enum Meant {
    One(FrontEnd, OsString),
    Both(OsString, OsString),
    Nothing,
}

fn meant(input: &OsStr) -> Result<Meant, Failure> {
    let by_name = || match check::by_name(input) {
        check::Language::Mcl => FrontEnd::Lang,
        check::Language::Yaml => FrontEnd::Yaml,
        check::Language::Puppet => FrontEnd::Puppet,
    };
    let Some(text) = input.to_str() else { return Ok(Meant::One(by_name(), input.to_owned())) };
    if text == "empty" && !Path::new(text).exists() {
        return Ok(Meant::Nothing);
    }
    Ok(match text.split_once(':') {
        Some(("lang", rest)) => Meant::One(FrontEnd::Lang, rest.into()),
        Some(("yaml", rest)) => Meant::One(FrontEnd::Yaml, rest.into()),
        Some(("puppet", rest)) => Meant::One(FrontEnd::Puppet, rest.into()),
        Some(("langpuppet", rest)) => match rest.split_once(',') {
            Some((lang, puppet)) => Meant::Both(lang.into(), puppet.into()),
            None => {
                return Err(Failure::usage(format!(
                    "`{text}`: expected a program and a manifest, with a comma between"
                ))
                .hint("write `langpuppet:PROGRAM,MANIFEST`"));
            }
        },
        _ => Meant::One(by_name(), input.to_owned()),
    })
}

fn mark(change: Change) -> char {
    match change {
        Change::Removed => '-',
        Change::Added => '+',
        Change::Differs => '~',
    }
}

/// A value, unless nobody should see it.
fn shown(field: &FieldChange, at: usize, secrets: &[String]) -> String {
    let text = field.values[at].to_string();
    let is_secret = field.is_secret || secrets.iter().any(|secret| text.contains(secret));
    if is_secret { "(secret)".to_owned() } else { text }
}

fn text(difference: &Difference, secrets: &[String]) -> String {
    let mut text = String::new();
    for Changed { id, change, origins, fields } in &difference.resources {
        let places: Vec<String> = origins.iter().flatten().map(place).collect();
        let places = if places.is_empty() { String::new() } else { format!(" ({})", places.join(", ")) };
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(text, "{} {}{places}", mark(*change), escape(&id.to_string()));
        for field in fields {
            let [before, after] = [0, 1].map(|at| shown(field, at, secrets));
            let _ = writeln!(text, "    {}: {} | {}", field.name, escape(&before), escape(&after));
        }
    }
    for Order { from, to, change, notify } in &difference.order {
        let what = if *notify { " notifies " } else { " comes before " };
        let (from, to) = (from.to_string(), to.to_string());
        let _ = writeln!(text, "{} {}{what}{}", mark(*change), escape(&from), escape(&to));
    }
    if difference.is_none() {
        let _ = writeln!(text, "no difference: {}", check::count(difference.same, "resource"));
    } else {
        let _ = writeln!(
            text,
            "{} and {} differ, {} the same",
            check::count(difference.resources.len(), "resource"),
            check::count(difference.order.len(), "relation"),
            difference.same
        );
    }
    text
}

fn place(origin: &Origin) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    let file = Path::new(&*origin.file);
    let file = file.strip_prefix(here).unwrap_or(file);
    escape(&format!("{}:{}", file.display(), origin.line)).into_owned()
}

fn document(difference: &Difference, secrets: &[String]) -> String {
    let word = |change: &Change| match change {
        Change::Removed => "removed",
        Change::Added => "added",
        Change::Differs => "differs",
    };
    let resources: Vec<_> = difference
        .resources
        .iter()
        .map(|Changed { id, change, origins, fields }| {
            let [first, second] = origins.each_ref().map(|origin| origin.as_ref().map(ToString::to_string));
            let fields: Vec<_> = fields
                .iter()
                .map(|field| {
                    let [first, second] = [0, 1].map(|at| shown(field, at, secrets));
                    json!({ "name": field.name, "first": first, "second": second })
                })
                .collect();
            json!({
                "id": id.to_string(),
                "kind": id.kind,
                "name": id.name.to_text(),
                "change": word(change),
                "declared_at": { "first": first, "second": second },
                "fields": fields,
            })
        })
        .collect();
    let order: Vec<_> = difference
        .order
        .iter()
        .map(|Order { from, to, change, notify }| {
            json!({ "from": from.to_string(), "to": to.to_string(), "notify": notify, "change": word(change) })
        })
        .collect();
    json_line(&json!({
        "type": "diff",
        "format_version": 1,
        "equal": difference.is_none(),
        "same": difference.same,
        "resources": resources,
        "order": order,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_says_how_it_is_written_by_its_name_or_by_a_word_before_it() {
        let one = |front_end, input: &str| Meant::One(front_end, input.into());
        for (text, expected) in [
            ("site.pp", one(FrontEnd::Puppet, "site.pp")),
            ("graph.yaml", one(FrontEnd::Yaml, "graph.yaml")),
            ("main.mcl", one(FrontEnd::Lang, "main.mcl")),
            ("puppet:environment/", one(FrontEnd::Puppet, "environment/")),
            ("lang:$x = 1", one(FrontEnd::Lang, "$x = 1")),
            ("langpuppet:a.mcl,b.pp", Meant::Both("a.mcl".into(), "b.pp".into())),
            ("empty", Meant::Nothing),
        ] {
            assert_eq!(meant(OsStr::new(text)).unwrap(), expected, "{text}");
        }
        assert_eq!(meant(OsStr::new("langpuppet:a.mcl")).unwrap_err().code, 2);
    }
}
