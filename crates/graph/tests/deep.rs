//! A million nodes in a row, walked with little stack: nothing may recurse on the size of the graph.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use mgmt_graph::{Dag, NodeId, Reachability, diff};

const LENGTH: u32 = 1_000_000;

fn with_little_stack(work: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(128 << 10).spawn(work).unwrap().join().unwrap();
}

fn chain() -> Dag<u32, ()> {
    let mut dag = Dag::with_capacity(LENGTH as usize, LENGTH as usize);
    let mut last = dag.add_node(0);
    for value in 1..LENGTH {
        let next = dag.add_node(value);
        dag.set_edge(last, next, ());
        last = next;
    }
    dag
}

#[test]
fn a_chain_of_a_million_nodes_needs_no_stack() {
    with_little_stack(|| {
        let mut dag = chain();
        let (first, middle, last) = (0, LENGTH / 2, LENGTH - 1);
        let [first, middle, last] = [first, middle, last].map(NodeId::from_index);
        let length = LENGTH as usize;

        assert!(dag.topological_order().unwrap().into_iter().eq(dag.node_ids()));
        assert!(dag.topological_order_by(|_, value| std::cmp::Reverse(value)).unwrap().is_sorted());
        assert!(dag.has_path(first, last) && !dag.has_path(last, first));
        assert_eq!(dag.shortest_path(first, last).unwrap().len(), length);
        assert_eq!(dag.descendants(first).len(), length - 1);
        assert_eq!(dag.ancestors(last).len(), length - 1);
        assert_eq!(dag.components().len(), 1);
        let closure = Reachability::among(&dag, &[last, first, middle]).unwrap();
        assert!(closure.reaches(1, 0) && closure.reaches(1, 2) && !closure.reaches(0, 2));
        assert!(diff(&dag, &dag, |v| v, |v| v, |a, b| a == b, |_, _| true).is_empty());

        dag.set_edge(last, first, ());
        assert_eq!(dag.check_acyclic().unwrap_err().nodes.len(), length + 1);
    });
}
