//! Automatic groups and automatic edges, as tables of small graphs.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::collections::BTreeMap;

use crate::common::{Graph, Probe};
use mgmt_engine::{Preparation, SwapError, group_automatically, prepare};
use mgmt_graph::NodeId;
use mgmt_resource::{Checked, Context, Edge, Invalid, Kind, Nothing, Resource, ResourceGraph, Result, Spec};
use mgmt_value::Str;

/// Reads `a1, a2, a1 -> b1, b1 => c1`: names that start with the same letter may be grouped; `=>` notifies.
fn parse(text: &str) -> ResourceGraph {
    let mut graph = Graph::default();
    let mut nodes: BTreeMap<String, NodeId> = BTreeMap::new();
    let mut node = |graph: &mut Graph, name: &str| {
        let says = Str::from(&name[..1]);
        *nodes
            .entry(name.to_owned())
            .or_insert_with(|| graph.add(name, Probe { together: true, says, ..Probe::default() }))
    };
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let notify = part.contains("=>");
        let chain: Vec<_> =
            part.replace("=>", "->").split("->").map(|name| node(&mut graph, name.trim())).collect();
        for pair in chain.windows(2) {
            graph.0.merge_edge(pair[0], pair[1], Edge { notify }, Edge::merge);
        }
    }
    graph.0
}

/// The groups and edges, sorted: `{a1 a2}`, `{a1 a2} -> b1`.
fn show(graph: &ResourceGraph) -> Vec<String> {
    let name = |node: NodeId| {
        let spec = graph.node(node).unwrap();
        let mut names: Vec<String> = std::iter::once(spec)
            .chain(&spec.children)
            .map(|spec| spec.id.name.to_text().into_owned())
            .collect();
        names.sort();
        if names.len() == 1 { names.remove(0) } else { format!("{{{}}}", names.join(" ")) }
    };
    let mut lines: Vec<String> = graph.nodes().map(|(node, _)| name(node)).collect();
    lines.extend(graph.edges().map(|(from, to, edge)| {
        format!("{} {} {}", name(from), if edge.notify { "=>" } else { "->" }, name(to))
    }));
    lines.sort();
    lines
}

fn check(before: &str, after: &[&str]) {
    let mut graph = parse(before);
    group_automatically(&mut graph).unwrap();
    assert_eq!(show(&graph), after, "{before}");
}

#[test]
fn what_has_no_path_between_is_grouped() {
    check("a1, a2, b1", &["b1", "{a1 a2}"]);
    check("a1 -> b1, a2 -> b1", &["b1", "{a1 a2}", "{a1 a2} -> b1"]);
    check("b1 -> a1, b1 -> a2", &["b1", "b1 -> {a1 a2}", "{a1 a2}"]);
    check(
        "a1 -> b1, a1 -> b2, b1 -> c1, b2 -> c1",
        &["a1", "a1 -> {b1 b2}", "c1", "{b1 b2}", "{b1 b2} -> c1"],
    );
    check(
        "a1 -> b1, b1 -> c1, a2 -> c1",
        &["b1", "b1 -> c1", "c1", "{a1 a2}", "{a1 a2} -> b1", "{a1 a2} -> c1"],
    );
    check("a1 -> b1, b1 -> c1, b2 -> c1", &["a1", "a1 -> {b1 b2}", "c1", "{b1 b2}", "{b1 b2} -> c1"]);
    check(
        "a1 -> b1, b1 -> c1, a2 -> c1, b2 -> c1",
        &["c1", "{a1 a2}", "{a1 a2} -> c1", "{a1 a2} -> {b1 b2}", "{b1 b2}", "{b1 b2} -> c1"],
    );
    check(
        "a1 -> b1 -> c1, a2 -> b2 -> c1",
        &["c1", "{a1 a2}", "{a1 a2} -> {b1 b2}", "{b1 b2}", "{b1 b2} -> c1"],
    );
    check(
        "a1 -> b1 -> c1, a1 -> b2 -> c1, c1 -> d1 -> e1, c1 -> d2 -> e1",
        &[
            "a1",
            "a1 -> {b1 b2}",
            "c1",
            "c1 -> {d1 d2}",
            "e1",
            "{b1 b2}",
            "{b1 b2} -> c1",
            "{d1 d2}",
            "{d1 d2} -> e1",
        ],
    );
    check(
        "p1 -> a1, p1 -> a2, q1 -> a1, q1 -> a2, r1 -> a1, r1 -> a2",
        &["p1", "p1 -> {a1 a2}", "q1", "q1 -> {a1 a2}", "r1", "r1 -> {a1 a2}", "{a1 a2}"],
    );
}

#[test]
fn what_is_in_a_chain_stays_apart() {
    check("a1 -> a2", &["a1", "a1 -> a2", "a2"]);
    check("a1 -> b1 -> a2", &["a1", "a1 -> b1", "a2", "b1", "b1 -> a2"]);
    let mut graph = parse("a1 -> b1 -> a2, a3");
    group_automatically(&mut graph).unwrap();
    assert_eq!(graph.node_count(), 3, "a3 joins exactly one: {:?}", show(&graph));
}

#[test]
fn a_notification_goes_where_it_was_meant_to_go_and_nowhere_else() {
    check(
        "a1 => b1, a2 -> b1, b1 -> c1, a2 => c1",
        &["b1", "b1 -> c1", "c1", "{a1 a2}", "{a1 a2} => b1", "{a1 a2} => c1"],
    );
}

#[test]
fn a_group_holds_the_semaphores_of_all_its_members() {
    let mut graph = parse("a1, a2, a3");
    for (number, (_, spec)) in graph.nodes_mut().enumerate() {
        spec.meta.sema = vec![Str::from(format!("s:{}", number + 1))];
    }
    group_automatically(&mut graph).unwrap();
    let (_, group) = graph.nodes().next().unwrap();
    let mut ids: Vec<_> = group.meta.sema.iter().map(|id| id.to_text().into_owned()).collect();
    ids.sort();
    assert_eq!((graph.node_count(), ids), (1, vec!["s:1".into(), "s:2".into(), "s:3".into()]));
}

#[test]
fn members_that_ask_for_another_treatment_stay_apart() {
    let changes: [fn(&mut mgmt_resource::Meta); 6] = [
        |meta| meta.noop = true,
        |meta| meta.retry = Some(3),
        |meta| meta.poll = 5,
        |meta| meta.timeout = 5,
        |meta| meta.export = vec!["*".into()],
        |meta| meta.autogroup = false,
    ];
    for change in changes {
        let mut graph = parse("a1, a2, a3");
        change(&mut graph.nodes_mut().next().unwrap().1.meta);
        group_automatically(&mut graph).unwrap();
        assert_eq!(graph.node_count(), 2);
    }
}

#[test]
fn a_long_chain_and_a_wide_field_are_no_trouble() {
    let chain: Vec<String> = (0..1_000).map(|number| format!("a{number}")).collect();
    let mut graph = parse(&chain.join(" -> "));
    assert_eq!(group_automatically(&mut graph).unwrap(), 0);
    let mut graph = parse(&chain.join(", "));
    assert_eq!(group_automatically(&mut graph).unwrap(), 999);
    // Those that never group are not compared in pairs, of which there would be a thousand million.
    let mut graph = Graph::default();
    for number in 0..30_000 {
        graph.add(&format!("a{number}"), Probe::default());
    }
    assert_eq!(group_automatically(&mut graph.0).unwrap(), 0);
}

fn provider(is: &str, needs: &str) -> Probe {
    Probe { is: is.into(), needs: needs.into(), ..Probe::default() }
}

#[test]
fn an_automatic_edge_keeps_a_declared_one_and_its_notification() {
    let mut graph = Graph::default();
    let a = graph.add("a", provider("x", ""));
    let b = graph.add("b", provider("", "x"));
    graph.notify(a, b);
    let prepared = prepare(graph.0, Vec::new(), &Preparation::default()).unwrap();
    assert_eq!(prepared.graph.edge(a, b), Some(&Edge::NOTIFY));
}

#[test]
fn a_declared_order_wins_over_an_automatic_edge() {
    let mut graph = Graph::default();
    let a = graph.add("a", provider("x", ""));
    let b = graph.add("b", provider("", "x"));
    graph.edge(b, a);
    let prepared = prepare(graph.0, Vec::new(), &Preparation::default()).unwrap();
    assert_eq!((prepared.graph.edge(a, b), prepared.automatic_edges), (None, 0));
    let warning = "the declared order contradicts the automatic edge probe[a] -> probe[b], which is left out";
    assert_eq!(prepared.warnings, [warning]);
}

#[test]
fn many_contradictions_are_one_warning() {
    let mut graph = Graph::default();
    for number in 0..5 {
        let a = graph.add(&format!("a{number}"), provider(&format!("x{number}"), ""));
        let b = graph.add(&format!("b{number}"), provider("", &format!("x{number}")));
        graph.edge(b, a);
    }
    let prepared = prepare(graph.0, Vec::new(), &Preparation::default()).unwrap();
    let [warning] = &prepared.warnings[..] else { panic!("{:?}", prepared.warnings) };
    assert!(warning.contains("contradicts 5 automatic edges") && warning.contains("and 4 more"), "{warning}");
}

#[test]
fn of_several_providers_the_first_by_name_is_meant() {
    for names in [["m", "k"], ["k", "m"]] {
        let mut graph = Graph::default();
        for name in names {
            graph.add(name, provider("x", ""));
        }
        let b = graph.add("b", provider("", "x"));
        let prepared =
            prepare(graph.0, Vec::new(), &Preparation { autogroup: false, ..Preparation::default() })
                .unwrap();
        let before: Vec<_> = prepared.graph.predecessors(b).map(|(node, _)| node).collect();
        assert_eq!(before.len(), 1);
        assert_eq!(prepared.graph.node(before[0]).unwrap().id.name, "k");
    }
}

/// Beyond a thousand resources, two threads look at them.
#[test]
fn many_resources_are_prepared_as_few_are() {
    let build = |count: usize| {
        let mut graph = Graph::default();
        for number in 0..count {
            graph.add(&format!("p{number}"), provider(&format!("x{number}"), ""));
            graph.add(&format!("n{number}"), provider("", &format!("x{number}")));
        }
        let (from, to) = (graph.add("from", provider("x", "")), graph.add("to", provider("", "x")));
        graph.notify(from, to);
        graph.0
    };
    let how = Preparation { autogroup: false, ..Preparation::default() };
    for count in [10, 1_000] {
        let prepared = prepare(build(count), Vec::new(), &how).unwrap();
        let lines = show(&prepared.graph);
        let edges: Vec<&String> = lines.iter().filter(|line| line.contains('>')).collect();
        let mut expected: Vec<String> = (0..count).map(|number| format!("p{number} -> n{number}")).collect();
        expected.push("from => to".to_owned());
        expected.sort();
        assert_eq!(edges, expected.iter().collect::<Vec<_>>());
        assert_eq!(prepared.automatic_edges, count);
        // With what undoes an earlier graph, and with one that cannot be.
        let undoes = Spec::new("undoes", provider("", "x0"));
        let prepared = prepare(build(count), vec![undoes], &how).unwrap();
        assert_eq!(prepared.automatic_edges, count + 1);
        let mut graph = Graph(build(count));
        graph.add("p3", provider("", ""));
        let error = prepare(graph.0, Vec::new(), &how).unwrap_err();
        assert!(matches!(error, SwapError::Duplicate(_)), "{error}");
    }
}

#[test]
fn automatic_edges_can_be_declined() {
    let build = || {
        let mut graph = Graph::default();
        graph.add("a", provider("x", ""));
        let b = graph.add("b", provider("", "x"));
        (graph, b)
    };
    let (graph, _) = build();
    let how = Preparation { autoedges: false, ..Preparation::default() };
    assert_eq!(prepare(graph.0, Vec::new(), &how).unwrap().automatic_edges, 0);
    let (mut graph, b) = build();
    graph.meta(b, |meta| meta.autoedge = false);
    assert_eq!(prepare(graph.0, Vec::new(), &Preparation::default()).unwrap().automatic_edges, 0);
}

#[test]
fn two_resources_cannot_have_one_name_unless_hidden() {
    let mut graph = Graph::default();
    graph.add("a", provider("", ""));
    let twin = graph.add("a", provider("x", ""));
    let error = prepare(graph.0.clone(), Vec::new(), &Preparation::default()).unwrap_err();
    assert!(matches!(error, SwapError::Duplicate(_)));
    graph.meta(twin, |meta| meta.hidden = true);
    assert!(prepare(graph.0, Vec::new(), &Preparation::default()).is_ok());
}

/// Three kinds of one family, each of which takes in the next.
macro_rules! nested {
    ($name:ident, $kind:literal, $($takes:ident)?) => {
        /// A member of a family.
        #[derive(Clone, Debug, Default, PartialEq, Resource)]
        #[resource(kind = $kind, group)]
        pub struct $name {
            /// Anything.
            pub text: Str,
        }

        impl Kind for $name {
            type State = ();
            type Sends = Nothing;

            fn validate(&self, _: &Str) -> Result<(), Invalid> {
                Ok(())
            }

            async fn check_apply(&self, (): &mut (), _: &mut Context<'_>) -> Result<Checked> {
                Ok(Checked::Right)
            }

            fn groups_with(&self, other: &dyn Resource) -> bool {
                let _ = other;
                false $(|| other.as_any().is::<$takes>())?
            }
        }
    };
}
nested!(Tree, "tree", Branch);
nested!(Branch, "tree:branch", Leaf);
nested!(Leaf, "tree:branch:leaf",);

#[test]
fn a_group_that_joins_another_one_brings_its_members() {
    let mut graph = ResourceGraph::new();
    graph.add_node(Spec::new("t", Tree::default()));
    graph.add_node(Spec::new("b", Branch::default()));
    graph.add_node(Spec::new("l", Leaf::default()));
    assert_eq!(group_automatically(&mut graph).unwrap(), 2);
    let (_, tree) = graph.nodes().next().unwrap();
    let members: Vec<String> = tree.children.iter().map(|child| child.id.to_string()).collect();
    assert_eq!(
        (tree.id.to_string().as_str(), members.join(" ").as_str()),
        ("tree[t]", "tree:branch[b] tree:branch:leaf[l]")
    );
    assert!(tree.children.iter().all(|child| child.children.is_empty()));
}
