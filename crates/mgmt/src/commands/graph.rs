//! `mgmt graph`: what a graph looks like once edges and groups have been found.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::ValueEnum;
use mgmt_graph::DotEdge;
use mgmt_resource::{ResourceGraph, Spec};
use mgmt_telemetry::escape;
use serde_json::json;

use crate::configuration::{self, FrontEnd, FrontEndParser, Input};
use crate::failure::{Exit, Failure};
use crate::terminal::Terminal;

/// Print the graph of a file
///
/// Shows the graph as the engine would run it, with the automatic edges and groups. Nothing is run.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How the file is written
    #[arg(value_name = "FRONT-END", value_parser = FrontEndParser)]
    front_end: FrontEnd,

    /// The file; `-` is standard input
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,

    /// How to print it
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: GraphFormat,

    /// Find no edges automatically
    #[arg(long)]
    no_autoedges: bool,

    /// Group no resources automatically
    #[arg(long)]
    no_autogroup: bool,

    /// Keys that nobody reads are errors, not warnings
    #[arg(long)]
    strict: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum GraphFormat {
    /// Lines for people
    Text,
    /// Text for Graphviz
    Dot,
    /// One JSON document
    Json,
}

pub(crate) fn run(arguments: &Arguments, terminal: &Terminal) -> Result<Exit, Failure> {
    let (name, graph) = match (arguments.front_end, &arguments.file) {
        (FrontEnd::Yaml, Some(file)) => {
            let loaded = configuration::load(&Input::new(file, arguments.strict), terminal)?;
            (loaded.name, loaded.graph)
        }
        (FrontEnd::Yaml, None) => {
            return Err(
                Failure::usage("the front-end `yaml` needs a file").hint("write `mgmt graph yaml FILE`")
            );
        }
        (FrontEnd::Empty, None) => ("empty".to_owned(), ResourceGraph::new()),
        (FrontEnd::Empty, Some(_)) => return Err(Failure::usage("the front-end `empty` takes no file")),
    };
    let how = mgmt_engine::Preparation {
        autoedges: !arguments.no_autoedges,
        autogroup: !arguments.no_autogroup,
        ..mgmt_engine::Preparation::default()
    };
    let prepared = mgmt_engine::prepare(graph, Vec::new(), &how)
        .map_err(|error| Failure::usage(format!("the graph cannot run: {error}")))?;
    for warning in &prepared.warnings {
        terminal.warning(warning);
    }
    terminal.data(&match arguments.format {
        GraphFormat::Text => text(&name, &prepared.graph),
        GraphFormat::Dot => dot(&name, &prepared.graph),
        GraphFormat::Json => document(&name, &prepared.graph),
    });
    Ok(Exit::OK)
}

fn label(spec: &Spec) -> String {
    escape(&spec.id.to_string()).into_owned()
}

fn text(name: &str, graph: &ResourceGraph) -> String {
    let mut text = format!("graph {}\n", escape(name));
    for (_, spec) in graph.nodes() {
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(text, "  {}", label(spec));
        for child in &spec.children {
            let _ = writeln!(text, "    {}", label(child));
        }
    }
    for (from, to, edge) in graph.edges() {
        if let (Some(from), Some(to)) = (graph.node(from), graph.node(to)) {
            let notify = if edge.notify { " (notify)" } else { "" };
            let _ = writeln!(text, "  {} -> {}{notify}", label(from), label(to));
        }
    }
    text
}

fn dot(name: &str, graph: &ResourceGraph) -> String {
    graph.dot(
        name,
        |_, spec| {
            let members = spec.children.iter().map(|child| format!("\n{}", child.id));
            std::iter::once(spec.id.to_string()).chain(members).collect()
        },
        |_, _, edge| DotEdge::from(if edge.notify { "notify" } else { "" }),
    )
}

fn document(name: &str, graph: &ResourceGraph) -> String {
    let vertex = |spec: &Spec| {
        let children: Vec<_> = spec.children.iter().map(|child| child.id.to_string()).collect();
        json!({
            "kind": spec.id.kind,
            "name": spec.id.name.to_text(),
            "id": spec.id.to_string(),
            "declared_at": spec.origin.as_ref().map(ToString::to_string),
            "children": children,
        })
    };
    let edges: Vec<_> = graph
        .edges()
        .filter_map(|(from, to, edge)| {
            let (from, to) = (graph.node(from)?, graph.node(to)?);
            Some(json!({ "from": from.id.to_string(), "to": to.id.to_string(), "notify": edge.notify }))
        })
        .collect();
    let vertices: Vec<_> = graph.nodes().map(|(_, spec)| vertex(spec)).collect();
    mgmt_telemetry::json_line(&json!({
        "format_version": 1,
        "graph": name,
        "vertices": vertices,
        "edges": edges,
    }))
}
