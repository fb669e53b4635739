//! From a declared graph to one that can run: checks, automatic edges, groups, reversals.
//!
//! A graph that fails here is refused as a whole, and whatever runs goes on running.

use std::fmt;
use std::time::{Duration, Instant};

use mgmt_graph::{Cycle, NodeId};
use mgmt_resource::{Id, ResourceGraph, Spec};
use mgmt_value::Str;
use rustc_hash::FxHashMap;

use crate::{autoedge, autogroup};

/// From so many resources on, it takes longer to look at them than to start a thread that looks as well.
const MANY: usize = 1_000;

/// What holds for every resource of a graph.
#[derive(Clone, Debug)]
pub struct Preparation {
    /// Look only.
    pub noop: bool,
    /// A semaphore of this size around every resource.
    pub sema: Option<u32>,
    /// Add automatic edges.
    pub autoedges: bool,
    /// Group automatically.
    pub autogroup: bool,
}

impl Default for Preparation {
    fn default() -> Preparation {
        Preparation { noop: false, sema: None, autoedges: true, autogroup: true }
    }
}

impl Preparation {
    /// What holds for every resource, on top of what one says itself.
    pub(crate) fn lay_over(&self, spec: &mut Spec) {
        // Not written when there is nothing to write, so that resources keep sharing what they share.
        if self.noop {
            spec.meta.noop = true;
        }
        if let Some(size) = self.sema {
            spec.meta.sema.push(Str::from(format!(":{size}")));
        }
    }
}

/// A graph that can run.
#[derive(Debug)]
pub struct Prepared {
    /// The graph.
    pub graph: ResourceGraph,
    /// How many automatic edges were added.
    pub automatic_edges: usize,
    /// How many resources were merged into groups.
    pub grouped: usize,
    /// Some declarations of the program have never been evaluated, so what is not in the graph may be declared.
    pub incomplete: bool,
    /// Things that a person should know.
    pub warnings: Vec<String>,
    /// How long it took.
    pub took: Duration,
}

/// Why a graph cannot run.
#[derive(Debug, PartialEq, Eq)]
pub enum SwapError {
    /// A resource is not right.
    Invalid {
        /// Which.
        id: Id,
        /// Why.
        message: String,
        /// What to do.
        hint: Option<String>,
    },
    /// Two resources have one name.
    Duplicate(Id),
    /// A resource receives from one that is not there or does not send.
    Receive {
        /// The receiver.
        id: Id,
        /// Why not.
        message: String,
    },
    /// Resources wait for each other.
    Cycle(Vec<Id>),
    /// The engine has ended.
    Stopped,
}

impl fmt::Display for SwapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SwapError::Invalid { id, message, .. } => write!(f, "{id}: {message}"),
            SwapError::Duplicate(id) => write!(f, "{id} is declared twice, with different content"),
            SwapError::Receive { id, message } => write!(f, "{id}: {message}"),
            SwapError::Cycle(ids) => {
                f.write_str("these resources wait for each other: ")?;
                for (i, id) in ids.iter().enumerate() {
                    write!(f, "{}{id}", if i == 0 { "" } else { " -> " })?;
                }
                Ok(())
            }
            SwapError::Stopped => f.write_str("the engine has ended"),
        }
    }
}

impl std::error::Error for SwapError {}

/// Makes a graph ready. `reversals` are the resources that undo what an earlier graph declared.
pub fn prepare(
    mut graph: ResourceGraph,
    reversals: Vec<Spec>,
    how: &Preparation,
) -> Result<Prepared, SwapError> {
    let began = Instant::now();
    let mut warnings = Vec::new();
    // What undoes an earlier graph has edges, too.
    let early = how.autoedges && reversals.is_empty() && graph.node_count() >= MANY;
    let (names, found) = match early {
        true => check_and_find(&graph),
        false => (check(&graph), None),
    };
    check_receives(&mut graph, &names?)?;
    for reversal in reversals {
        graph.add_node(reversal);
    }
    for (_, spec) in graph.nodes_mut() {
        how.lay_over(spec);
    }
    let automatic = match (how.autoedges, found) {
        (false, _) => Vec::new(),
        (true, Some(found)) => autoedge::put(&mut graph, found),
        (true, None) => autoedge::add(&mut graph),
    };
    let dropped = autoedge::drop_from_cycles(&mut graph, &automatic).map_err(|c| cycle(&graph, &c))?;
    warnings.extend(contradictions(&graph, &dropped));
    let grouped = match how.autogroup {
        true => autogroup::group(&mut graph).map_err(|c| cycle(&graph, &c))?,
        false => 0,
    };
    let automatic_edges = automatic.len() - dropped.len();
    Ok(Prepared { graph, automatic_edges, grouped, incomplete: false, warnings, took: began.elapsed() })
}

/// One warning for all automatic edges that a declared order contradicts, with the first of them.
fn contradictions(graph: &ResourceGraph, dropped: &[(NodeId, NodeId)]) -> Option<String> {
    let (from, to) = dropped.first()?;
    let (from, to) = (&graph.node(*from)?.id, &graph.node(*to)?.id);
    Some(match dropped.len() - 1 {
        0 => format!("the declared order contradicts the automatic edge {from} -> {to}, which is left out"),
        more => format!(
            "the declared order contradicts {} automatic edges, which are left out: {from} -> {to} and {more} more",
            dropped.len()
        ),
    })
}

/// Checks a graph while its automatic edges are found by another thread. None, if there is no thread to be had.
fn check_and_find(graph: &ResourceGraph) -> (Names, Option<Vec<(NodeId, NodeId)>>) {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("mgmt-edges".into());
        let found = thread.spawn_scoped(scope, || autoedge::find(graph));
        (check(graph), found.ok().and_then(|found| found.join().ok()))
    })
}

fn cycle(graph: &ResourceGraph, cycle: &Cycle) -> SwapError {
    SwapError::Cycle(
        cycle.nodes.iter().filter_map(|node| graph.node(*node)).map(|spec| spec.id.clone()).collect(),
    )
}

/// The nodes of a graph by name, or what is wrong with it.
type Names = Result<FxHashMap<Id, NodeId>, SwapError>;

/// Checks every resource by itself, and that names are unique.
fn check(graph: &ResourceGraph) -> Names {
    let mut names = FxHashMap::default();
    names.reserve(graph.node_count());
    for (node, spec) in graph.nodes() {
        check_spec(spec)?;
        if !spec.meta.hidden && names.insert(spec.id.clone(), node).is_some() {
            return Err(SwapError::Duplicate(spec.id.clone()));
        }
    }
    Ok(names)
}

/// Checks one resource.
pub fn check_spec(spec: &Spec) -> Result<(), SwapError> {
    let invalid = |message: String, hint: Option<String>| {
        Err(SwapError::Invalid { id: spec.id.clone(), message, hint })
    };
    if spec.id.name.is_empty() {
        return invalid("the name is empty".into(), None);
    }
    if let Err(error) = spec.meta.validate() {
        return invalid(format!("metaparameter {error}"), error.hint);
    }
    if spec.id.name.starts_with(b"$") && !spec.meta.dollar {
        let hint = "if the dollar sign is meant, set the metaparameter `dollar` to true".to_owned();
        return invalid("the name starts with a dollar sign".into(), Some(hint));
    }
    if spec.meta.hidden {
        return Ok(());
    }
    // A parameter that comes from elsewhere is checked when it has come.
    match spec.resource.validate(&spec.id.name) {
        Err(error) if spec.receives.is_empty() => invalid(error.to_string(), error.hint),
        _ => Ok(()),
    }
}

/// Checks that every received value has a sender of the right type, and makes sure that the sender comes first.
fn check_receives(graph: &mut ResourceGraph, names: &FxHashMap<Id, NodeId>) -> Result<(), SwapError> {
    let mut edges = Vec::new();
    for (node, spec) in graph.nodes() {
        for receive in &spec.receives {
            let fail = |message: String| Err(SwapError::Receive { id: spec.id.clone(), message });
            let Some(sender) = names.get(&receive.from) else {
                return fail(format!(
                    "`{}` comes from {}, which is not in the graph",
                    receive.field, receive.from
                ));
            };
            let Some(sent) = graph.node(*sender).and_then(|s| s.resource.schema().sent(receive.key)) else {
                return fail(format!("{} does not send `{}`", receive.from, receive.key));
            };
            let Some(field) = spec.resource.schema().field(receive.field) else {
                return fail(format!("there is no parameter `{}` to receive", receive.field));
            };
            let (found, expected) = ((sent.ty)(), (field.ty)());
            let dynamic = [&found, &expected].contains(&&mgmt_value::Type::Variant);
            if !dynamic && found != expected {
                return fail(format!(
                    "`{}` is {expected}, but {} sends `{}` as {found}",
                    receive.field, receive.from, receive.key
                ));
            }
            edges.push((*sender, node));
        }
    }
    for (from, to) in edges {
        graph.merge_edge(from, to, mgmt_resource::Edge::ORDER, mgmt_resource::Edge::merge);
    }
    Ok(())
}
