//! The graph against a naive model of it, over random operations and random graphs.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};

use mgmt_graph::{Cycle, Dag, Delta, NodeId, Reachability, diff};
use proptest::prelude::*;

type Graph = Dag<u8, u8>;

/// Ids to values and pairs of ids to values: slow and obviously right.
#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    nodes: BTreeMap<u32, u8>,
    edges: BTreeMap<(u32, u32), u8>,
}

#[derive(Clone, Debug)]
enum Operation {
    AddNode(u8),
    RemoveNode(u32),
    SetEdge(u32, u32, u8),
    MergeEdge(u32, u32, u8),
    RemoveEdge(u32, u32),
    Retain(u8),
    RetainEdges(u8),
}

/// Enough for every shape that matters, few enough that ids collide and are reused.
const IDS: u32 = 12;

fn operation() -> impl Strategy<Value = Operation> {
    let id = 0..IDS;
    prop_oneof![
        6 => any::<u8>().prop_map(Operation::AddNode),
        2 => id.clone().prop_map(Operation::RemoveNode),
        8 => (id.clone(), id.clone(), any::<u8>()).prop_map(|(from, to, value)| Operation::SetEdge(from, to, value)),
        4 => (id.clone(), id.clone(), any::<u8>()).prop_map(|(from, to, value)| Operation::MergeEdge(from, to, value)),
        3 => (id.clone(), id).prop_map(|(from, to)| Operation::RemoveEdge(from, to)),
        1 => (2u8..5).prop_map(Operation::Retain),
        1 => (2u8..5).prop_map(Operation::RetainEdges),
    ]
}

/// A graph made by random operations, free ids and all. May have cycles.
fn any_graph() -> impl Strategy<Value = (Graph, Model)> {
    prop::collection::vec(operation(), 0..60).prop_map(|operations| {
        let (mut dag, mut model) = (Graph::new(), Model::default());
        for operation in &operations {
            apply(operation, &mut dag, &mut model);
        }
        (dag, model)
    })
}

/// As [`any_graph`], without the edges that point from a larger rank to a smaller one, the ranks being shuffled.
fn acyclic_graph() -> impl Strategy<Value = (Graph, Model)> {
    let ranks = Just((0..200).collect::<Vec<u32>>()).prop_shuffle();
    (any_graph(), ranks).prop_map(|((mut dag, mut model), ranks)| {
        let forward = |from: u32, to: u32| ranks[from as usize] < ranks[to as usize];
        dag.retain_edges(|from, to, _| forward(from.as_u32(), to.as_u32()));
        model.edges.retain(|&(from, to), _| forward(from, to));
        (dag, model)
    })
}

/// Applies an operation to both and checks that both give the same answer.
fn apply(operation: &Operation, dag: &mut Graph, model: &mut Model) {
    let id = NodeId::from_index;
    match *operation {
        Operation::AddNode(value) => {
            let new = dag.add_node(value);
            assert_eq!(model.nodes.insert(new.as_u32(), value), None, "{new} is taken");
        }
        Operation::RemoveNode(node) => {
            assert_eq!(dag.remove_node(id(node)), model.nodes.remove(&node));
            model.edges.retain(|&(from, to), _| from != node && to != node);
        }
        Operation::SetEdge(from, to, value) => {
            if model.has(from, to) {
                assert_eq!(dag.set_edge(id(from), id(to), value), model.edges.insert((from, to), value));
            }
        }
        Operation::MergeEdge(from, to, value) => {
            if model.has(from, to) {
                let new =
                    dag.merge_edge(id(from), id(to), value, |old, value| *old = old.wrapping_add(value));
                assert_eq!(new, !model.edges.contains_key(&(from, to)));
                let present = model.edges.entry((from, to)).or_default();
                *present = present.wrapping_add(value);
            }
        }
        Operation::RemoveEdge(from, to) => {
            assert_eq!(dag.remove_edge(id(from), id(to)), model.edges.remove(&(from, to)));
        }
        Operation::Retain(divisor) => {
            let keep = |value: u8| !value.is_multiple_of(divisor);
            dag.retain(|_, value| keep(*value));
            model.nodes.retain(|_, value| keep(*value));
            let nodes = &model.nodes;
            model.edges.retain(|(from, to), _| nodes.contains_key(from) && nodes.contains_key(to));
        }
        Operation::RetainEdges(divisor) => {
            dag.retain_edges(|_, _, value| !value.is_multiple_of(divisor));
            model.edges.retain(|_, value| !value.is_multiple_of(divisor));
        }
    }
}

impl Model {
    fn of(dag: &Graph) -> Self {
        Self {
            nodes: dag.nodes().map(|(id, &value)| (id.as_u32(), value)).collect(),
            edges: dag.edges().map(|(from, to, &value)| ((from.as_u32(), to.as_u32()), value)).collect(),
        }
    }

    fn has(&self, from: u32, to: u32) -> bool {
        self.nodes.contains_key(&from) && self.nodes.contains_key(&to)
    }

    /// Fewest edges between each pair that has a path of at least one edge.
    fn distances(&self) -> BTreeMap<(u32, u32), usize> {
        let mut distances: BTreeMap<(u32, u32), usize> = self.edges.keys().map(|&pair| (pair, 1)).collect();
        for through in self.nodes.keys() {
            for from in self.nodes.keys() {
                for to in self.nodes.keys() {
                    let legs = (distances.get(&(*from, *through)), distances.get(&(*through, *to)));
                    if let (Some(first), Some(second)) = legs {
                        let length = first + second;
                        let best = distances.entry((*from, *to)).or_insert(length);
                        *best = length.min(*best);
                    }
                }
            }
        }
        distances
    }

    /// Repeatedly takes the smallest by `key` of the nodes all of whose predecessors have been taken.
    fn order_by(&self, key: impl Fn(u32) -> u8) -> Option<Vec<u32>> {
        let mut order = Vec::new();
        while order.len() < self.nodes.len() {
            let ready = |node: &u32| {
                !order.contains(node)
                    && self.edges.keys().all(|(from, to)| to != node || order.contains(from))
            };
            let next = self.nodes.keys().copied().filter(ready).min_by_key(|&node| (key(node), node))?;
            order.push(next);
        }
        Some(order)
    }

    fn components(&self) -> BTreeSet<Vec<u32>> {
        let mut label: BTreeMap<u32, u32> = self.nodes.keys().map(|&node| (node, node)).collect();
        for _ in &self.nodes {
            for (from, to) in self.edges.keys() {
                let smallest = label[from].min(label[to]);
                label.insert(*from, smallest);
                label.insert(*to, smallest);
            }
        }
        let mut groups: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (node, group) in label {
            groups.entry(group).or_default().push(node);
        }
        groups.into_values().collect()
    }
}

fn indexes(nodes: &[NodeId]) -> Vec<u32> {
    nodes.iter().map(|id| id.as_u32()).collect()
}

fn assert_is_cycle(dag: &Graph, cycle: &Cycle) {
    let nodes = &cycle.nodes;
    assert!(nodes.len() >= 2, "{cycle}");
    assert_eq!(nodes.first(), nodes.last());
    assert_eq!(nodes.iter().min(), nodes.first());
    assert_eq!(nodes[1..].iter().collect::<BTreeSet<_>>().len(), nodes.len() - 1, "{cycle}");
    assert!(nodes.windows(2).all(|pair| dag.contains_edge(pair[0], pair[1])), "{cycle}");
}

fn difference(old: &Graph, new: &Graph, keys: u8) -> Delta {
    diff(old, new, |value| value % keys, |value| value % keys, PartialEq::eq, PartialEq::eq)
}

/// Makes the old model into the new one using only what the delta says and the values of the new graph.
fn patched(old: &Model, delta: &Delta, new: &Graph) -> Model {
    let pairs = || delta.kept.iter().chain(&delta.changed).map(|(old, new)| (old.as_u32(), *new));
    let renamed: BTreeMap<u32, NodeId> = pairs().collect();
    let removed: BTreeSet<_> = delta.removed.iter().map(|id| id.as_u32()).collect();
    let edges_removed: BTreeSet<_> =
        delta.edges_removed.iter().map(|(from, to)| (from.as_u32(), to.as_u32())).collect();

    let mut result = Model::default();
    for (id, value) in old.nodes.iter().filter(|(id, _)| !removed.contains(id)) {
        result.nodes.insert(renamed[id].as_u32(), *value);
    }
    for (pair, value) in old.edges.iter().filter(|(pair, _)| !edges_removed.contains(pair)) {
        result.edges.insert((renamed[&pair.0].as_u32(), renamed[&pair.1].as_u32()), *value);
    }
    for id in delta.added.iter().chain(delta.changed.iter().map(|(_, new)| new)) {
        result.nodes.insert(id.as_u32(), new[*id]);
    }
    for (from, to) in delta.edges_added.iter().chain(delta.edges_changed.iter().map(|(_, new)| new)) {
        result.edges.insert((from.as_u32(), to.as_u32()), *new.edge(*from, *to).unwrap());
    }
    result
}

/// Moves all edges of one node to another and removes it.
fn merge_nodes(dag: &mut Graph, keep: NodeId, gone: NodeId) {
    let before: Vec<_> = dag.predecessors(gone).map(|(id, &value)| (id, value)).collect();
    let after: Vec<_> = dag.successors(gone).map(|(id, &value)| (id, value)).collect();
    for (id, value) in before {
        dag.set_edge(id, keep, value);
    }
    for (id, value) in after {
        dag.set_edge(keep, id, value);
    }
    dag.remove_node(gone);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn operations_do_what_they_do_to_the_model(operations in prop::collection::vec(operation(), 0..120)) {
        let (mut dag, mut model) = (Graph::new(), Model::default());
        for operation in &operations {
            apply(operation, &mut dag, &mut model);
            dag.check_invariants();
            prop_assert_eq!(&Model::of(&dag), &model);
            prop_assert_eq!(dag.node_count(), model.nodes.len());
            prop_assert_eq!(dag.edge_count(), model.edges.len());
        }
        for node in 0..dag.id_bound() as u32 + 1 {
            let id = NodeId::from_index(node);
            let after: Vec<_> = dag.successors(id).map(|(to, &value)| ((node, to.as_u32()), value)).collect();
            let before: Vec<_> = dag.predecessors(id).map(|(from, &value)| ((from.as_u32(), node), value)).collect();
            let of_model = |wanted: fn((u32, u32)) -> u32| -> Vec<_> {
                model.edges.iter().filter(|(pair, _)| wanted(**pair) == node).map(|(&pair, &value)| (pair, value)).collect()
            };
            prop_assert_eq!(after, of_model(|pair| pair.0));
            prop_assert_eq!(before, of_model(|pair| pair.1));
            prop_assert_eq!(dag.contains(id), model.nodes.contains_key(&node));
        }
        prop_assert_eq!(dag.map(|_, &value| value, |_, _, &value| value), dag.clone());
        prop_assert_eq!(dag.clone().into_map(|_, value| value, |_, _, value| value), dag);
    }

    #[test]
    fn paths_are_those_of_the_model((dag, model) in any_graph()) {
        let distances = model.distances();
        for (from, _) in dag.nodes() {
            for (to, _) in dag.nodes() {
                let distance = if from == to { Some(0) } else { distances.get(&(from.as_u32(), to.as_u32())).copied() };
                prop_assert_eq!(dag.has_path(from, to), distance.is_some());
                let path = dag.shortest_path(from, to);
                prop_assert_eq!(path.as_ref().map(|path| path.len() - 1), distance);
                if let Some(path) = path {
                    prop_assert_eq!((path.first(), path.last()), (Some(&from), Some(&to)));
                    prop_assert!(path.windows(2).all(|pair| dag.contains_edge(pair[0], pair[1])));
                }
            }
            let node = from.as_u32();
            let others = |pair: fn((u32, u32)) -> (u32, u32)| -> Vec<u32> {
                let ends = distances.keys().map(|&ends| pair(ends));
                ends.filter(|&(here, there)| here == node && there != node).map(|(_, there)| there).collect::<BTreeSet<_>>().into_iter().collect()
            };
            prop_assert_eq!(indexes(&dag.descendants(from)), others(|(from, to)| (from, to)));
            prop_assert_eq!(indexes(&dag.ancestors(from)), others(|(from, to)| (to, from)));
        }
        let components: Vec<_> = dag.components().iter().map(|group| indexes(group)).collect();
        prop_assert_eq!(components, model.components().into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn there_is_an_order_or_a_cycle((dag, model) in any_graph()) {
        let by_value = model.order_by(|node| model.nodes[&node]);
        prop_assert_eq!(dag.check_acyclic().is_ok(), by_value.is_some());
        match dag.topological_order_by(|_, value| *value) {
            Ok(order) => prop_assert_eq!(Some(indexes(&order)), by_value),
            Err(cycle) => {
                assert_is_cycle(&dag, &cycle);
                prop_assert_eq!(dag.topological_order(), Err(cycle.clone()));
                let through = |node: NodeId| model.distances()[&(node.as_u32(), node.as_u32())];
                prop_assert_eq!(cycle.nodes.len() - 1, through(cycle.nodes[0]));
            }
        }
    }

    #[test]
    fn the_order_respects_edges_and_nothing_but_content((dag, model) in acyclic_graph()) {
        let order = dag.topological_order().unwrap();
        let place: BTreeMap<_, _> = order.iter().enumerate().map(|(place, id)| (id.as_u32(), place)).collect();
        prop_assert_eq!(place.keys().collect::<Vec<_>>(), model.nodes.keys().collect::<Vec<_>>());
        prop_assert_eq!(order.len(), place.len());
        prop_assert!(model.edges.keys().all(|(from, to)| place[from] < place[to]));
        prop_assert_eq!(Some(indexes(&dag.topological_order_by(|id, _| id).unwrap())), model.order_by(|_| 0));

        let mut again = dag;
        again.retain_edges(|_, _, _| false);
        for (&(from, to), &value) in model.edges.iter().rev() {
            again.set_edge(NodeId::from_index(from), NodeId::from_index(to), value);
        }
        prop_assert_eq!(again.topological_order().unwrap(), order);
    }

    #[test]
    fn the_difference_applied_to_the_old_graph_gives_the_new((old, old_model) in any_graph(), (new, new_model) in any_graph(), keys in 1u8..=255) {
        let delta = difference(&old, &new, keys);
        prop_assert_eq!(patched(&old_model, &delta, &new), new_model);
        let back = difference(&new, &old, keys);
        prop_assert_eq!(patched(&Model::of(&new), &back, &old), old_model);

        prop_assert!(delta.kept.iter().all(|(before, after)| old[*before] == new[*after]));
        prop_assert!(delta.changed.iter().all(|(before, after)| old[*before] != new[*after] && old[*before] % keys == new[*after] % keys));
        prop_assert!(delta.edges_changed.iter().all(|(before, after)| old.edge(before.0, before.1) != new.edge(after.0, after.1)));
        prop_assert!(delta.kept.is_sorted_by_key(|pair| pair.1) && delta.changed.is_sorted_by_key(|pair| pair.1));
        prop_assert!(delta.added.is_sorted() && delta.removed.is_sorted());
        prop_assert!(delta.edges_added.is_sorted() && delta.edges_removed.is_sorted());
        prop_assert!(delta.edges_changed.is_sorted_by_key(|pair| pair.1));
        prop_assert_eq!(delta.added.len(), back.removed.len());
        prop_assert_eq!(delta.edges_added.len(), back.edges_removed.len());
    }

    #[test]
    fn counterparts_are_paired_in_order_of_id((old, _) in any_graph(), (new, _) in any_graph(), keys in 1u8..6) {
        let delta = difference(&old, &new, keys);
        let mut expected = Vec::new();
        for key in 0..keys {
            let of = |dag: &Graph| dag.nodes().filter(|(_, value)| **value % keys == key).map(|(id, _)| id).collect::<Vec<_>>();
            expected.extend(of(&old).into_iter().zip(of(&new)));
        }
        expected.sort();
        let mut pairs: Vec<_> = delta.kept.iter().chain(&delta.changed).copied().collect();
        pairs.sort();
        prop_assert_eq!(pairs, expected);
    }

    #[test]
    fn a_graph_does_not_differ_from_itself((dag, _) in any_graph(), keys in 1u8..=255) {
        let delta = difference(&dag, &dag.clone(), keys);
        prop_assert!(delta.is_empty());
        prop_assert_eq!(delta.kept.len(), dag.node_count());
    }

    #[test]
    fn the_closure_follows_merges(
        (mut dag, _) in acyclic_graph(),
        picks in prop::collection::vec(0u32..IDS + 2, 0..12),
        merges in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..8),
    ) {
        let mut chosen: Vec<NodeId> = picks.into_iter().map(NodeId::from_index).collect();
        let mut closure = Reachability::among(&dag, &chosen).unwrap();
        let agrees = |closure: &Reachability, dag: &Graph, chosen: &[NodeId]| {
            for (from, &from_id) in chosen.iter().enumerate() {
                for (to, &to_id) in chosen.iter().enumerate() {
                    let expected = if dag.contains(from_id) { dag.has_path(from_id, to_id) } else { from == to };
                    assert_eq!(closure.reaches(from, to), expected, "{from_id} {to_id}");
                }
            }
        };
        agrees(&closure, &dag, &chosen);
        // Unknown ids stand alone and cannot be merged in the graph.
        chosen.retain(|&id| dag.contains(id));
        closure = Reachability::among(&dag, &chosen).unwrap();
        for (first, second) in if chosen.is_empty() { &[] } else { &merges[..] } {
            let (first, second) = (first.index(chosen.len()), second.index(chosen.len()));
            let (keep, gone) = (chosen[first], chosen[second]);
            let viable = !dag.has_path(keep, gone) && !dag.has_path(gone, keep);
            prop_assert_eq!(closure.merge(first, second), viable);
            if viable {
                merge_nodes(&mut dag, keep, gone);
                chosen.iter_mut().filter(|id| **id == gone).for_each(|id| *id = keep);
            }
            prop_assert!(dag.check_acyclic().is_ok());
            agrees(&closure, &dag, &chosen);
        }
    }

    #[test]
    fn dot_text_has_a_line_for_each_node_and_edge((dag, model) in any_graph(), label in ".*") {
        let text = dag.dot(&label, |_, _| label.clone(), |_, _, _| label.as_str().into());
        let lines = |prefix: &str, infix: &str| text.lines().filter(|line| line.starts_with(prefix) && line.contains(infix)).count();
        for (id, _) in dag.nodes() {
            prop_assert_eq!(lines(&format!("\tn{id} [label="), ""), 1);
        }
        for (from, to) in model.edges.keys() {
            let prefix = format!("\tn{from} -> n{to}");
            prop_assert_eq!(text.lines().filter(|line| *line == format!("{prefix};") || line.starts_with(&format!("{prefix} ["))).count(), 1);
        }
        prop_assert_eq!(text.lines().count(), 5 + dag.node_count() + dag.edge_count());
    }
}

proptest! {
    // Few but large: rows of several words, and classes that grow by many merges.
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_wide_closure_follows_many_merges(
        pairs in prop::collection::vec((0u32..200, 0u32..200), 0..250),
        merges in prop::collection::vec((0usize..200, 0usize..200), 0..120),
    ) {
        let mut dag = Graph::new();
        let mut chosen: Vec<NodeId> = (0..200).map(|_| dag.add_node(0)).collect();
        for (one, other) in pairs.into_iter().filter(|(one, other)| one != other) {
            dag.set_edge(NodeId::from_index(one.min(other)), NodeId::from_index(one.max(other)), 0);
        }
        let mut closure = Reachability::among(&dag, &chosen).unwrap();
        for (first, second) in merges {
            let (keep, gone) = (chosen[first], chosen[second]);
            let viable = !dag.has_path(keep, gone) && !dag.has_path(gone, keep);
            prop_assert_eq!(closure.merge(first, second), viable);
            if viable {
                merge_nodes(&mut dag, keep, gone);
                chosen.iter_mut().filter(|id| **id == gone).for_each(|id| *id = keep);
            }
        }
        dag.check_invariants();
        let fresh = Reachability::among(&dag, &chosen).unwrap();
        for from in 0..chosen.len() {
            let below = dag.descendants(chosen[from]);
            for to in 0..chosen.len() {
                let expected = chosen[from] == chosen[to] || below.binary_search(&chosen[to]).is_ok();
                prop_assert_eq!(closure.reaches(from, to), expected);
                prop_assert_eq!(fresh.reaches(from, to), expected);
            }
        }
    }
}
