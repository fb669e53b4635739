//! `mgmt graph`: what a graph looks like once edges and groups have been found.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use mgmt_graph::DotEdge;
use mgmt_lang::{Checked, Outcome, Running};
use mgmt_resource::{ResourceGraph, Spec};
use mgmt_telemetry::escape;
use mgmt_world::Local;
use serde_json::json;

use crate::commands::exit_codes;
use crate::commands::run::prefix::{Choice, Prefix};
use crate::configuration::{self, Input};
use crate::failure::{Exit, Failure};
use crate::program;
use crate::program::events::Sources;
use crate::program::surroundings::Surroundings;
use crate::terminal::Terminal;

/// Print the graph of a program or of a graph file
///
/// Shows the resources and the order between them, with automatic edges. Nothing is run: a program is computed once,
/// with the first value of each function, as if it were alone in the world. Commands that its functions need do run.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How it is written
    #[arg(value_name = "FRONT-END")]
    front_end: FrontEnd,

    /// A file, a directory with a module, `-` for standard input, or a program itself in quotes
    #[arg(value_name = "PATH", value_hint = clap::ValueHint::AnyPath)]
    input: Option<OsString>,

    /// How to print it
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: GraphFormat,

    /// Find no edges automatically
    #[arg(long)]
    no_autoedges: bool,

    /// Group resources automatically, as `run` does
    #[arg(long)]
    autogroup: bool,

    /// Group nothing, which is what happens anyway
    #[arg(long, hide = true, conflicts_with = "autogroup")]
    no_autogroup: bool,

    /// How many seconds the values of a program may take to be there
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    wait: u64,

    /// The name that the program takes this host to have
    #[arg(long, value_name = "NAME", default_value = "")]
    hostname: String,

    /// Where downloaded modules are [env: MGMT_MODULE_PATH]
    #[arg(long, value_name = "DIRECTORY", value_hint = clap::ValueHint::DirPath)]
    module_path: Option<PathBuf>,

    /// In a graph file, keys that nobody reads are errors, not warnings
    #[arg(long)]
    strict: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FrontEnd {
    /// A program in mcl
    Lang,
    /// A graph in a YAML file
    Yaml,
    /// No graph
    Empty,
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
    let (name, graph) = match (arguments.front_end, &arguments.input) {
        (FrontEnd::Lang, Some(input)) => compute(input, arguments, terminal)?,
        (FrontEnd::Yaml, Some(file)) => {
            let loaded = configuration::load(&Input::new(Path::new(file), arguments.strict), terminal)?;
            (loaded.name, loaded.graph)
        }
        (FrontEnd::Lang, None) => {
            return Err(Failure::usage("there is no program").hint("write `mgmt graph lang PATH`"));
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
        autogroup: arguments.autogroup,
        ..mgmt_engine::Preparation::default()
    };
    let prepared = mgmt_engine::prepare(graph, Vec::new(), &how)
        .map_err(|error| Failure::usage(format!("the graph cannot run: {error}")))?;
    for warning in &prepared.warnings {
        terminal.warning(warning);
    }
    terminal.data(&match arguments.format {
        GraphFormat::Text => text(&prepared.graph),
        GraphFormat::Dot => dot(&name, &prepared.graph),
        GraphFormat::Json => document(&name, &prepared.graph),
    });
    Ok(Exit::OK)
}

fn label(spec: &Spec) -> String {
    escape(&spec.id.to_string()).into_owned()
}

/// Computes the graph of a program.
fn compute(
    input: &OsString,
    arguments: &Arguments,
    terminal: &Terminal,
) -> Result<(String, ResourceGraph), Failure> {
    let options = program::Options {
        module_path: program::module_path(arguments.module_path.as_deref()),
        lints: false,
    };
    let checked = program::check(&program::entry(input)?, &options).map_err(|error| {
        program::show_missing(&error, terminal);
        Failure::shown(exit_codes::USAGE)
    })?;
    program::show(&checked.diagnostics, &checked.sources, terminal);
    if !checked.is_right() {
        return Err(Failure::shown(exit_codes::FAILED));
    }
    let name = checked.sources.iter().next().map(|(_, source)| source.name.to_string());
    let checked = Arc::new(checked);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format!("cannot start: {error}")))?;
    let wait = Duration::from_secs(arguments.wait);
    let graph = runtime.block_on(first_graph(&checked, &arguments.hostname, wait))?;
    graph.map(|graph| (name.unwrap_or_default(), graph)).map_err(|wrong| {
        program::show(&wrong, &checked.sources, terminal);
        Failure::shown(exit_codes::FAILED)
    })
}

/// The first graph of a program for which all values are there.
async fn first_graph(
    checked: &Arc<Checked>,
    hostname: &str,
    wait: Duration,
) -> Result<Result<ResourceGraph, Vec<mgmt_lang::Diagnostic>>, Failure> {
    // Functions may keep files; they are gone when the graph has been printed.
    let prefix = Prefix::open(&Choice::Temporary, hostname)?;
    let local = Local::open(prefix.directory("local")?)
        .map_err(|error| Failure::failed(format!("cannot open the local store: {error}")))?;
    let surroundings = Arc::new(Surroundings::new(hostname, &checked.root, Arc::new(local)));
    let mut sources = Sources::new(None, Arc::clone(&surroundings));
    let mut running = tokio::task::block_in_place(|| {
        Running::new(Arc::clone(checked), mgmt_resources::KINDS, surroundings)
    });
    let deadline = tokio::time::Instant::now() + wait;
    loop {
        match tokio::task::block_in_place(|| running.settle()) {
            Outcome::Graph(graph) => return Ok(Ok(graph)),
            Outcome::Unchanged => return Ok(Ok(ResourceGraph::new())),
            Outcome::Wrong(wrong) => return Ok(Err(wrong)),
            Outcome::Waiting => {}
        }
        sources.apply(running.watch_changes());
        match tokio::time::timeout_at(deadline, sources.happenings.next()).await {
            Ok(happened) => happened.iter().for_each(|watch| running.happened(watch)),
            Err(_) => {
                return Err(Failure::failed(format!(
                    "some values were not there after {} s",
                    wait.as_secs()
                ))
                .hint("`--wait SECONDS` gives them more time"));
            }
        }
    }
}

/// Lines for people and simple tools. Names are printed as they are, unless the lines go to a terminal.
fn text(graph: &ResourceGraph) -> String {
    let mut text = String::new();
    for (_, spec) in graph.nodes() {
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(text, "Vertex: {}", plain(spec));
        for child in &spec.children {
            let _ = writeln!(text, "Group: {}: Vertex: {}", plain(spec), plain(child));
        }
    }
    for (from, to, edge) in graph.edges() {
        if let (Some(from), Some(to)) = (graph.node(from), graph.node(to)) {
            let notify = if edge.notify { " # notify" } else { "" };
            let _ = writeln!(text, "Edge: {} -> {}{notify}", plain(from), plain(to));
        }
    }
    text
}

fn plain(spec: &Spec) -> String {
    use std::io::IsTerminal as _;
    match std::io::stdout().is_terminal() {
        true => label(spec),
        false => format!("{}[{}]", spec.id.kind, spec.id.name.to_text()),
    }
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
