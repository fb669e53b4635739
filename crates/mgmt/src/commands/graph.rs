//! `mgmt graph`: what a graph looks like once edges and groups have been found.

pub(crate) mod compute;
mod dot;
mod json;
mod mermaid;
mod settle;
mod svg;
mod text;

use std::collections::{HashMap, HashSet};

use clap::ValueEnum;
use mgmt_graph::NodeId;
use mgmt_resource::{Id, ResourceGraph};
use mgmt_telemetry::Format;

use crate::failure::{Exit, Failure};
use crate::terminal::Terminal;

use compute::{HowArguments, InputArguments};
pub(crate) use text::text;

/// Print the graph of a program or of a graph file
///
/// Shows the resources and the order between them, with automatic edges. Nothing is run: a program is computed once,
/// with the first value of each function, as if it were alone in the world. Commands that its functions need do run.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    input: InputArguments,

    #[command(flatten)]
    how: HowArguments,

    /// How to print it [default: text]
    #[arg(long, value_name = "FORMAT")]
    format: Option<GraphFormat>,

    /// Group resources automatically, as `run` does
    #[arg(long)]
    autogroup: bool,

    /// Group nothing, which is what happens anyway
    #[arg(long, hide = true, conflicts_with = "autogroup")]
    no_autogroup: bool,

    /// Run the graph until it has converged, and show the parameters as they are then
    ///
    /// It has to converge in the time of `--wait`.
    /// This changes the host, as `run` does: files are written, commands are run. Values that change meanwhile do not
    /// lead to another graph. Resources are grouped.
    #[arg(long)]
    settle: bool,

    /// The name that the program takes this host to have
    #[arg(long, value_name = "NAME", default_value = "")]
    hostname: String,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum GraphFormat {
    /// Lines for people, in which a name never ends its line. With `--message-format=json`, names are printed as they are
    Text,
    /// Text for Graphviz
    Dot,
    /// Text for Mermaid, for pages in Markdown
    Mermaid,
    /// A drawing
    Svg,
    /// One JSON document
    Json,
}

pub(crate) fn run(arguments: &Arguments, terminal: &Terminal) -> Result<Exit, Failure> {
    let input = &arguments.input;
    let computing = input.computing(&arguments.how, "graph", &arguments.hostname, terminal);
    let (name, graph) = computing.graph(input.front_end, input.input.as_deref())?;
    let how = mgmt_engine::Preparation {
        autoedges: !arguments.how.no_autoedges,
        autogroup: arguments.autogroup || (arguments.settle && !arguments.no_autogroup),
        ..mgmt_engine::Preparation::default()
    };
    let declared = Declared::of(&graph);
    let to_run = arguments.settle.then(|| graph.clone());
    let mut prepared = mgmt_engine::prepare(graph, Vec::new(), &how)
        .map_err(|error| Failure::usage(format!("the graph cannot run: {error}")))?;
    for warning in &prepared.warnings {
        terminal.warning(warning);
    }
    let unsettled = match to_run {
        Some(graph) => settle::settle(graph, &how, arguments, &mut prepared.graph)?,
        None => None,
    };
    let raw_names = terminal.format() == Format::Json;
    let drawing =
        Drawing { fields: arguments.settle, raw_names, ..Drawing::new(&name, &prepared.graph, &declared) };
    terminal.data(&match terminal.data_format(arguments.format, GraphFormat::Json, GraphFormat::Text) {
        GraphFormat::Text => text(&drawing),
        GraphFormat::Dot => dot::dot(&drawing),
        GraphFormat::Mermaid => mermaid::mermaid(&drawing),
        GraphFormat::Svg => svg::svg(&drawing),
        GraphFormat::Json => json::json(&drawing),
    });
    if let Some(unsettled) = unsettled {
        return Err(Failure::failed(format!("the graph has not converged: {unsettled}")));
    }
    Ok(Exit::OK)
}

/// What is drawn.
pub(crate) struct Drawing<'a> {
    name: &'a str,
    graph: &'a ResourceGraph,
    /// The edges that were declared.
    declared: HashSet<(NodeId, NodeId)>,
    /// Parameters are shown, too.
    fields: bool,
    /// Names in the plain form are not escaped.
    raw_names: bool,
}

/// The edges of a graph before it is prepared.
pub(crate) struct Declared(Vec<(Id, Id)>);

impl Declared {
    pub(crate) fn of(graph: &ResourceGraph) -> Declared {
        let ends = |from, to| Some((graph.node(from)?.id.clone(), graph.node(to)?.id.clone()));
        Declared(graph.edges().filter_map(|(from, to, _)| ends(from, to)).collect())
    }
}

impl<'a> Drawing<'a> {
    pub(crate) fn new(name: &'a str, graph: &'a ResourceGraph, declared: &Declared) -> Drawing<'a> {
        // The edges of a member are those of its group.
        let mut holders: HashMap<&Id, NodeId> = HashMap::new();
        for (node, spec) in graph.nodes() {
            holders.insert(&spec.id, node);
            holders.extend(spec.children.iter().map(|child| (&child.id, node)));
        }
        let pairs = declared.0.iter();
        let declared =
            pairs.filter_map(|(from, to)| Some((*holders.get(from)?, *holders.get(to)?))).collect();
        Drawing { name, graph, declared, fields: false, raw_names: false }
    }

    /// Nobody declared the edge: it follows from what the resources are.
    fn is_automatic(&self, from: NodeId, to: NodeId) -> bool {
        !self.declared.contains(&(from, to))
    }
}
