use super::*;

/// A graph of nodes valued by their index and edges valued by their ends.
fn dag(nodes: u32, edges: &[(u32, u32)]) -> Dag<u32, (u32, u32)> {
    let mut dag = Dag::with_capacity(nodes as usize, edges.len());
    for value in 0..nodes {
        dag.add_node(value);
    }
    for &(from, to) in edges {
        dag.set_edge(NodeId(from), NodeId(to), (from, to));
    }
    dag
}

fn ids<'a, E: 'a>(neighbours: Neighbours<'a, E>) -> Vec<u32> {
    neighbours.map(|(id, _)| id.as_u32()).collect()
}

#[test]
fn a_new_graph_is_empty() {
    let dag: Dag<(), ()> = Dag::default();
    assert!(dag.is_empty());
    assert_eq!((dag.node_count(), dag.edge_count(), dag.id_bound()), (0, 0, 0));
    assert_eq!(dag.nodes().count() + dag.edges().count(), 0);
    dag.check_invariants();
}

#[test]
fn ids_survive_the_removal_of_other_nodes() {
    let mut dag = dag(3, &[(0, 1), (1, 2)]);
    assert_eq!(dag.remove_node(NodeId(0)), Some(0));
    assert_eq!(dag.node(NodeId(2)), Some(&2));
    assert_eq!(dag[NodeId(1)], 1);
    assert_eq!(dag.node_ids().collect::<Vec<_>>(), [NodeId(1), NodeId(2)]);
    assert_eq!(dag.node_count(), 2);
    assert_eq!(dag.id_bound(), 3);
}

#[test]
fn the_id_of_a_removed_node_is_used_again() {
    let mut dag = dag(3, &[(0, 1), (1, 2)]);
    dag.remove_node(NodeId(1));
    assert_eq!(dag.add_node(9), NodeId(1));
    assert_eq!(dag.successors(NodeId(1)).len() + dag.predecessors(NodeId(1)).len(), 0);
    assert_eq!(dag.id_bound(), 3);
    dag.check_invariants();
}

#[test]
fn removing_a_node_removes_its_edges_in_both_directions() {
    let mut dag = dag(4, &[(0, 1), (1, 1), (1, 2), (0, 2), (3, 1)]);
    assert_eq!(dag.remove_node(NodeId(1)), Some(1));
    assert_eq!(dag.remove_node(NodeId(1)), None);
    assert_eq!(dag.edges().collect::<Vec<_>>(), [(NodeId(0), NodeId(2), &(0, 2))]);
    assert_eq!(dag.edge_count(), 1);
    dag.check_invariants();
}

#[test]
fn a_pair_has_one_edge_and_setting_it_again_returns_the_old_value() {
    let mut dag = dag(2, &[]);
    let (a, b) = (NodeId(0), NodeId(1));
    assert_eq!(dag.set_edge(a, b, (1, 1)), None);
    assert_eq!(dag.set_edge(a, b, (2, 2)), Some((1, 1)));
    assert_eq!(dag.edge_count(), 1);
    assert_eq!(dag.edge(a, b), Some(&(2, 2)));
    assert_eq!(dag.edge(b, a), None);
}

#[test]
fn both_directions_between_two_nodes_are_two_edges() {
    let mut dag = dag(2, &[(0, 1), (1, 0)]);
    assert_eq!(dag.edge_count(), 2);
    assert_eq!(dag.remove_edge(NodeId(0), NodeId(1)), Some((0, 1)));
    assert!(dag.contains_edge(NodeId(1), NodeId(0)));
    dag.check_invariants();
}

#[test]
fn merging_an_edge_adds_it_or_folds_it_into_the_present_one() {
    let mut dag = dag(2, &[]);
    let (a, b) = (NodeId(0), NodeId(1));
    let sum = |old: &mut (u32, u32), new: (u32, u32)| old.0 += new.0;
    assert!(dag.merge_edge(a, b, (1, 0), sum));
    assert!(!dag.merge_edge(a, b, (2, 0), sum));
    assert_eq!(dag.edge(a, b), Some(&(3, 0)));
    assert_eq!(dag.edge_count(), 1);
}

#[test]
fn an_edge_to_itself_is_stored_and_removed_like_any_other() {
    let mut dag = dag(1, &[(0, 0)]);
    let id = NodeId(0);
    assert_eq!((dag.out_degree(id), dag.in_degree(id), dag.edge_count()), (1, 1, 1));
    dag.check_invariants();
    assert_eq!(dag.remove_edge(id, id), Some((0, 0)));
    assert_eq!((dag.out_degree(id), dag.in_degree(id), dag.edge_count()), (0, 0, 0));
    dag.check_invariants();
}

#[test]
fn looking_at_what_is_not_there_finds_nothing() {
    let mut dag = dag(2, &[(0, 1)]);
    let unknown = NodeId(7);
    assert!(!dag.contains(unknown));
    assert_eq!(dag.node(unknown), None);
    assert_eq!(dag.node_mut(unknown), None);
    assert_eq!(dag.remove_node(unknown), None);
    assert_eq!(dag.edge(unknown, NodeId(0)), None);
    assert_eq!(dag.remove_edge(NodeId(0), unknown), None);
    assert_eq!(dag.remove_edge(NodeId(1), NodeId(0)), None);
    assert_eq!(dag.successors(unknown).len() + dag.predecessors(unknown).len(), 0);
    assert_eq!(dag.in_degree(unknown) + dag.out_degree(unknown), 0);
    assert_eq!(dag.edge_count(), 1);
}

#[test]
#[should_panic(expected = "edge to node 5, which is not in the graph")]
fn an_edge_to_an_unknown_node_is_a_programming_error() {
    dag(1, &[]).set_edge(NodeId(0), NodeId(5), (0, 0));
}

#[test]
#[should_panic(expected = "node 1 is not in the graph")]
fn indexing_an_unknown_node_is_a_programming_error() {
    let _ = dag(1, &[])[NodeId(1)];
}

#[test]
fn neighbours_are_ascending_whatever_the_order_of_insertion() {
    let dag = dag(5, &[(0, 3), (0, 1), (0, 4), (0, 2), (4, 1), (2, 1)]);
    assert_eq!(ids(dag.successors(NodeId(0))), [1, 2, 3, 4]);
    assert_eq!(ids(dag.predecessors(NodeId(1))), [0, 2, 4]);
    assert_eq!(dag.successors(NodeId(4)).next(), Some((NodeId(1), &(4, 1))));
    assert_eq!(dag.predecessors(NodeId(1)).last(), Some((NodeId(4), &(4, 1))));
    let edges: Vec<_> = dag.edges().map(|(from, to, _)| (from.as_u32(), to.as_u32())).collect();
    assert_eq!(edges, [(0, 1), (0, 2), (0, 3), (0, 4), (2, 1), (4, 1)]);
}

#[test]
fn values_can_be_changed_in_place() {
    let mut dag = dag(2, &[(0, 1)]);
    dag[NodeId(0)] = 10;
    *dag.node_mut(NodeId(1)).unwrap() = 11;
    *dag.edge_mut(NodeId(0), NodeId(1)).unwrap() = (5, 5);
    dag.nodes_mut().for_each(|(id, value)| *value += id.as_u32());
    assert_eq!(dag.nodes().map(|(_, &value)| value).collect::<Vec<_>>(), [10, 12]);
    assert_eq!(dag.edge(NodeId(0), NodeId(1)), Some(&(5, 5)));
}

#[test]
fn sources_and_sinks_are_the_ends() {
    let dag = dag(4, &[(1, 0), (1, 2)]);
    assert_eq!(dag.sources().collect::<Vec<_>>(), [NodeId(1), NodeId(3)]);
    assert_eq!(dag.sinks().collect::<Vec<_>>(), [NodeId(0), NodeId(2), NodeId(3)]);
}

#[test]
fn mapping_keeps_ids_and_shape_and_leaves_free_ids_free() {
    let mut dag = dag(4, &[(3, 0), (0, 2), (1, 2)]);
    dag.remove_node(NodeId(1));
    let mapped = dag.map(|id, value| format!("{id}:{value}"), |from, to, value| (from, to, *value));
    let moved =
        dag.clone().into_map(|id, value| format!("{id}:{value}"), |from, to, value| (from, to, value));
    assert_eq!(mapped, moved);
    assert_eq!(mapped[NodeId(3)], "3:3");
    assert_eq!(mapped.edge(NodeId(3), NodeId(0)), Some(&(NodeId(3), NodeId(0), (3, 0))));
    assert_eq!(mapped.edge_count(), 2);
    let mut mapped = mapped;
    assert_eq!(mapped.add_node(String::new()), NodeId(1));
    mapped.check_invariants();
}

#[test]
fn retain_removes_what_is_refused_and_its_edges() {
    let mut dag = dag(4, &[(0, 1), (1, 2), (2, 3)]);
    dag.retain(|id, value| {
        *value += 100;
        id != NodeId(1)
    });
    assert_eq!(dag.nodes().map(|(_, &value)| value).collect::<Vec<_>>(), [100, 102, 103]);
    assert_eq!(dag.edges().count(), 1);

    dag.retain_edges(|from, to, value| {
        assert_eq!((from, to, *value), (NodeId(2), NodeId(3), (2, 3)));
        false
    });
    assert_eq!((dag.node_count(), dag.edge_count()), (3, 0));
}

#[test]
fn equality_ignores_history() {
    let straight = dag(3, &[(0, 1), (1, 2)]);
    let mut detour = dag(3, &[(0, 2), (1, 2), (0, 1)]);
    assert_ne!(straight, detour);
    detour.remove_edge(NodeId(0), NodeId(2));
    assert_eq!(straight, detour);
    detour.remove_node(NodeId(2));
    assert_ne!(straight, detour);
    detour.add_node(2);
    detour.set_edge(NodeId(1), NodeId(2), (1, 2));
    assert_eq!(straight, detour);
    detour.set_edge(NodeId(1), NodeId(2), (0, 0));
    assert_ne!(straight, detour);
}

#[test]
fn a_clone_is_independent() {
    let mut dag = dag(2, &[(0, 1)]);
    let copy = dag.clone();
    dag.remove_node(NodeId(0));
    assert_eq!(copy.edge(NodeId(0), NodeId(1)), Some(&(0, 1)));
    copy.check_invariants();
}

#[test]
fn the_one_line_form_counts_nodes_and_edges() {
    let dag = dag(3, &[(0, 1), (1, 2)]);
    assert_eq!(dag.to_string(), "Vertices(3), Edges(2)");
    assert!(format!("{dag:?}").contains("(#1, #2, (1, 2))"));
}

#[test]
fn a_node_with_very_many_neighbours_stays_consistent() {
    let count = 5_000;
    let mut dag = dag(count + 1, &[]);
    let hub = NodeId(0);
    for leaf in (1..=count).rev() {
        dag.set_edge(hub, NodeId(leaf), (0, leaf));
    }
    dag.check_invariants();
    assert!(ids(dag.successors(hub)).into_iter().eq(1..=count));
    for leaf in (1..=count).step_by(2) {
        dag.remove_node(NodeId(leaf));
    }
    dag.check_invariants();
    assert_eq!(dag.out_degree(hub), count as usize / 2);
    assert_eq!(dag.edge(hub, NodeId(4_000)), Some(&(0, 4_000)));
    dag.remove_node(hub);
    assert_eq!(dag.edge_count(), 0);
    dag.check_invariants();
}
