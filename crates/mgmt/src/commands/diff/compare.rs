//! Two graphs, resource by resource, and the order that each asks for.

use std::collections::{BTreeMap, HashMap, HashSet};

use mgmt_graph::{NodeId, Reachability};
use mgmt_resource::{Fields as _, Id, Identity, Meta, Origin, ResourceGraph, Spec};
use mgmt_value::{Str, Value};

/// What is different.
#[derive(Debug, Default)]
pub(super) struct Difference {
    pub(super) resources: Vec<Changed>,
    pub(super) order: Vec<Order>,
    /// How many resources are the same.
    pub(super) same: usize,
}

impl Difference {
    pub(super) fn is_none(&self) -> bool {
        self.resources.is_empty() && self.order.is_empty()
    }
}

/// On which side something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Only in the first.
    Removed,
    /// Only in the second.
    Added,
    /// In both, and not the same.
    Differs,
}

/// A resource that is not the same on both sides.
#[derive(Debug)]
pub(super) struct Changed {
    pub(super) id: Id,
    pub(super) change: Change,
    /// Where it was declared, in the first and in the second.
    pub(super) origins: [Option<Origin>; 2],
    /// What differs.
    pub(super) fields: Vec<FieldChange>,
}

/// A parameter that is not the same on both sides.
#[derive(Debug)]
pub(super) struct FieldChange {
    pub(super) name: String,
    /// Nobody should see what it is.
    pub(super) is_secret: bool,
    pub(super) values: [Value; 2],
}

/// One has to come before another, on one side alone.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) from: Id,
    pub(super) to: Id,
    pub(super) change: Change,
    /// The order is the same, but who is notified is not.
    pub(super) notify: bool,
}

/// Compares two graphs that could run.
pub(super) fn compare(first: &ResourceGraph, second: &ResourceGraph, with_order: bool) -> Difference {
    let (first, second) = (&by_path(first), &by_path(second));
    let (ours, theirs) = (index(first), index(second));
    let mut difference = Difference::default();
    for (key, &node) in &ours {
        let Some(spec) = first.node(node) else { continue };
        match theirs.get(key).and_then(|&other| second.node(other)) {
            None => difference.resources.push(Changed {
                id: spec.id.clone(),
                change: Change::Removed,
                origins: [spec.origin.clone(), None],
                fields: Vec::new(),
            }),
            Some(other) if same(spec, other) => difference.same += 1,
            Some(other) => difference.resources.push(Changed {
                id: spec.id.clone(),
                change: Change::Differs,
                origins: [spec.origin.clone(), other.origin.clone()],
                fields: fields(spec, other),
            }),
        }
    }
    for (key, &node) in theirs.iter().filter(|(key, _)| !ours.contains_key(*key)) {
        let Some(spec) = second.node(node) else { continue };
        difference.resources.push(Changed {
            id: key.0.clone(),
            change: Change::Added,
            origins: [None, spec.origin.clone()],
            fields: Vec::new(),
        });
    }
    if with_order {
        difference.order = order(first, second, &ours, &theirs);
    }
    difference
}

/// Files under the names of their paths, whatever they are called: they are the same file. What of another type gives way to
/// them, or may stay in their place, is not compared: every file of a manifest says it, and hardly one of a program.
fn by_path(graph: &ResourceGraph) -> ResourceGraph {
    let mut graph = graph.clone();
    for (_, spec) in graph.nodes_mut().filter(|(_, spec)| spec.id.kind == "file" && !spec.meta.hidden) {
        let path = spec.resource.provides(&spec.id.name).into_iter().find_map(|identity| match identity {
            Identity::Path(path) => Some(path),
            _ => None,
        });
        let Some(path) = path else { continue };
        let mut resource = spec.resource.boxed_clone();
        for field in ["path", "dirname", "basename"] {
            // They are texts.
            let _ = resource.set(field, &Value::Str(Str::EMPTY));
        }
        for field in ["instead", "anytype"] {
            // They are truths.
            let _ = resource.set(field, &Value::Bool(false));
        }
        spec.resource = resource.into();
        spec.id.name = path;
    }
    graph
}

/// Every resource that is more than a point of the order. Hidden ones may share the name of one that is not.
type Index = BTreeMap<(Id, bool), NodeId>;

fn index(graph: &ResourceGraph) -> Index {
    let resources = graph.nodes().filter(|(_, spec)| spec.id.kind != "noop");
    resources.map(|(node, spec)| ((spec.id.clone(), spec.meta.hidden), node)).collect()
}

fn same(one: &Spec, other: &Spec) -> bool {
    one.resource.same_as(&one.id.name, &*other.resource)
        && one.meta.same_as(&other.meta)
        && one.receives == other.receives
}

fn fields(one: &Spec, other: &Spec) -> Vec<FieldChange> {
    let mut changes = Vec::new();
    for field in one.resource.schema().fields {
        let values = [&one.resource, &other.resource].map(|it| it.get(field.name).unwrap_or(Value::Nil));
        if values[0] != values[1] {
            changes.push(FieldChange { name: field.name.to_owned(), is_secret: field.secret, values });
        }
    }
    for field in Meta::FIELDS {
        let values = [&one.meta, &other.meta].map(|meta| (field.get)(&**meta));
        if values[0] != values[1] {
            changes.push(FieldChange { name: format!("meta {}", field.name), is_secret: false, values });
        }
    }
    for (name, spec, from) in one
        .receives
        .iter()
        .filter(|receive| !other.receives.contains(receive))
        .map(|receive| (receive.field, 0, format!("{}.{}", receive.from, receive.key)))
        .chain(
            other
                .receives
                .iter()
                .filter(|receive| !one.receives.contains(receive))
                .map(|receive| (receive.field, 1, format!("{}.{}", receive.from, receive.key))),
        )
    {
        let mut values = [Value::Nil, Value::Nil];
        values[spec] = Value::Str(from.as_str().into());
        changes.push(FieldChange { name: format!("recv {name}"), is_secret: false, values });
    }
    changes
}

/// Compares what comes before what among the resources that both have.
fn order(first: &ResourceGraph, second: &ResourceGraph, ours: &Index, theirs: &Index) -> Vec<Order> {
    let common: Vec<(&Id, NodeId, NodeId)> =
        ours.iter().filter_map(|(key, &node)| Some((&key.0, node, *theirs.get(key)?))).collect();
    let mut found = Vec::new();
    let sides = [
        (first, second, common.iter().map(|row| (row.1, row.2)).collect::<Vec<_>>(), Change::Removed),
        (second, first, common.iter().map(|row| (row.2, row.1)).collect::<Vec<_>>(), Change::Added),
    ];
    for (graph, other, pairs, change) in sides {
        let positions: HashMap<NodeId, usize> =
            pairs.iter().enumerate().map(|(at, (node, _))| (*node, at)).collect();
        let counterparts: Vec<NodeId> = pairs.iter().map(|(_, other)| *other).collect();
        // A graph that could run has no cycle.
        let Ok(reachable) = Reachability::among(other, &counterparts) else { continue };
        let there: HashMap<NodeId, usize> =
            counterparts.iter().enumerate().map(|(at, node)| (*node, at)).collect();
        for (from, (node, counterpart)) in pairs.iter().enumerate() {
            let told: HashSet<usize> = notified(other, *counterpart, &there);
            let tells = notified(graph, *node, &positions);
            let mut next: Vec<usize> = following(graph, *node, &positions);
            next.sort_unstable();
            let id = |at: usize| common[at].0.clone();
            for to in next {
                let can_be_told =
                    graph.node(pairs[to].0).is_some_and(|spec| spec.resource.schema().traits.refresh);
                if !reachable.reaches(from, to) {
                    found.push(Order { from: id(from), to: id(to), change, notify: false });
                } else if can_be_told && tells.contains(&to) && !told.contains(&to) {
                    found.push(Order { from: id(from), to: id(to), change, notify: true });
                }
            }
        }
    }
    found
}

/// The resources that come right after one, with nothing but points of the order in between, or what only this side has.
fn following(graph: &ResourceGraph, from: NodeId, positions: &HashMap<NodeId, usize>) -> Vec<usize> {
    let (mut found, mut seen, mut left) = (Vec::new(), HashSet::new(), vec![from]);
    while let Some(node) = left.pop() {
        for (next, _) in graph.successors(node) {
            if !seen.insert(next) {
                continue;
            }
            match positions.get(&next) {
                Some(at) => found.push(*at),
                None => left.push(next),
            }
        }
    }
    found
}

/// The resources that are told of a change of one, directly or by points that tell it on.
fn notified(graph: &ResourceGraph, from: NodeId, positions: &HashMap<NodeId, usize>) -> HashSet<usize> {
    let (mut found, mut seen, mut left) = (HashSet::new(), HashSet::new(), vec![from]);
    while let Some(node) = left.pop() {
        for (next, edge) in graph.successors(node) {
            if !edge.notify || !seen.insert(next) {
                continue;
            }
            if let Some(at) = positions.get(&next) {
                found.insert(*at);
            } else if graph.node(next).is_some_and(tells_on) {
                left.push(next);
            }
        }
    }
    found
}

fn tells_on(spec: &Spec) -> bool {
    spec.id.kind == "noop" && spec.resource.get("forward") == Some(Value::Bool(true))
}

#[cfg(test)]
mod tests {
    use mgmt_resource::Edge;

    use super::*;

    /// `kind name` is a resource, `a -> b` an edge, `a => b` one that notifies; `noop` tells on if its name ends with `!`.
    fn graph(text: &str) -> ResourceGraph {
        let mut graph = ResourceGraph::new();
        let mut known: HashMap<String, NodeId> = HashMap::new();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let mut last: Option<(NodeId, bool)> = None;
            for word in line.split_inclusive([',', ';']) {
                let notify = word.ends_with(';');
                let name = word.trim_end_matches([',', ';']).trim();
                let node = *known.entry(name.to_owned()).or_insert_with(|| {
                    let (kind, name) = name.split_once(' ').unwrap();
                    let mut resource = (mgmt_resources::KINDS.get(kind).unwrap().make)();
                    if name.ends_with('!') {
                        let _ = resource.set("forward", &Value::Bool(true));
                    }
                    graph.add_node(Spec::of(name, resource.into()))
                });
                if let Some((before, notify)) = last.replace((node, notify)) {
                    graph.set_edge(before, node, Edge { notify });
                }
            }
        }
        graph
    }

    fn order_of(first: &str, second: &str) -> Vec<String> {
        let difference = compare(&graph(first), &graph(second), true);
        let arrow = |order: &Order| if order.notify { "=>" } else { "->" };
        let line = |order: &Order| format!("{:?} {} {} {}", order.change, order.from, arrow(order), order.to);
        difference.order.iter().map(line).collect()
    }

    #[test]
    fn an_order_is_the_same_on_whatever_way_it_comes_about() {
        let through = "exec a, noop begin!, exec b, noop end, exec c";
        assert_eq!(order_of(through, "exec a, exec b, exec c"), [""; 0]);
        assert_eq!(order_of("exec a, exec b, exec c", through), [""; 0]);
        // What one side has in between makes no difference for what both have.
        assert_eq!(order_of("exec a, exec x, exec c", "exec a, exec c"), [""; 0]);
    }

    #[test]
    fn what_only_one_side_asks_for_is_named() {
        assert_eq!(
            order_of("exec a, exec b\nexec c", "exec a, exec c\nexec b"),
            ["Removed exec[a] -> exec[b]", "Added exec[a] -> exec[c]"]
        );
    }

    #[test]
    fn who_is_notified_is_compared_where_it_matters() {
        assert_eq!(order_of("exec a; exec b", "exec a, exec b"), ["Removed exec[a] => exec[b]"]);
        assert_eq!(order_of("exec a; noop x!; exec b", "exec a; exec b"), [""; 0]);
        assert_eq!(order_of("exec a; noop x; exec b", "exec a; exec b"), ["Added exec[a] => exec[b]"]);
        // A file does not care.
        assert_eq!(order_of("exec a; file /b", "exec a, file /b"), [""; 0]);
    }

    #[test]
    fn a_file_goes_by_its_path() {
        let (first, mut second) = (graph("file /tmp/x/"), graph("file x"));
        let (_, spec) = second.nodes_mut().next().unwrap();
        let mut resource = spec.resource.boxed_clone();
        assert!(matches!(resource.set("path", &Value::Str("/tmp/x/".into())), Some(Ok(()))));
        spec.resource = resource.into();
        assert!(compare(&first, &second, true).is_none());
        assert!(!compare(&first, &graph("file /tmp/y/"), true).is_none());
        // What is done about something of another type is no difference.
        let (_, spec) = second.nodes_mut().next().unwrap();
        let mut resource = spec.resource.boxed_clone();
        assert!(matches!(resource.set("instead", &Value::Bool(true)), Some(Ok(()))));
        spec.resource = resource.into();
        assert!(compare(&first, &second, true).is_none());
    }

    #[test]
    fn resources_are_compared_parameter_by_parameter() {
        let (first, mut second) = (graph("exec a\nexec b\nnoop x"), graph("exec a\nexec c"));
        let (_, spec) = second.nodes_mut().next().unwrap();
        let mut resource = spec.resource.boxed_clone();
        assert!(matches!(resource.set("cmd", &Value::Str("x".into())), Some(Ok(()))));
        spec.resource = resource.into();
        spec.meta.retry = Some(3);
        let difference = compare(&first, &second, true);
        let found: Vec<(String, Change)> =
            difference.resources.iter().map(|changed| (changed.id.to_string(), changed.change)).collect();
        assert_eq!(
            found,
            [
                ("exec[a]".to_owned(), Change::Differs),
                ("exec[b]".to_owned(), Change::Removed),
                ("exec[c]".to_owned(), Change::Added)
            ]
        );
        let names: Vec<&str> =
            difference.resources[0].fields.iter().map(|field| field.name.as_str()).collect();
        assert_eq!(names, ["cmd", "meta retry"]);
    }
}
