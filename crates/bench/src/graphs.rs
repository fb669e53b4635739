//! The pure parts: difference of graphs, automatic edges, automatic groups.

use std::time::{Duration, Instant};

use mgmt_engine::{add_automatic_edges, group_automatically};
use mgmt_graph::diff;
use mgmt_resource::{Edge, ResourceGraph, Spec};
use mgmt_resources::file::File;
use mgmt_resources::noop::Noop;

use crate::report::{Report, median};

pub(crate) fn run(report: &mut Report) {
    report.section("graphs");
    for (count, target) in [(1_000, None), (10_000, Some(4)), (100_000, None)] {
        let (old, new) = (files(count), files(count));
        let time = median((0..5).map(|_| timed(|| same(&old, &new))).collect());
        report.time(
            &format!("difference of two equal graphs, {count}"),
            time,
            target.map(Duration::from_millis),
        );
    }
    for (count, target) in [(1_000, None), (10_000, Some(10)), (100_000, None)] {
        let time = median((0..5).map(|_| automatic_edges(count)).collect());
        report.time(
            &format!("automatic edges, {count} files in a tree"),
            time,
            target.map(Duration::from_millis),
        );
    }
    for (count, target) in [(100, None), (1_000, Some(10)), (10_000, None)] {
        let time = median((0..3).map(|_| group(count, true)).collect());
        report.time(&format!("automatic groups, chain of {count}"), time, target.map(Duration::from_millis));
        let time = median((0..3).map(|_| group(count, false)).collect());
        report.time(&format!("automatic groups, {count} that all group"), time, None);
    }
}

fn timed<T>(work: impl FnOnce() -> T) -> Duration {
    let began = Instant::now();
    std::hint::black_box(work());
    began.elapsed()
}

fn files(count: usize) -> ResourceGraph {
    let mut graph = ResourceGraph::with_capacity(count, count);
    let mut last = None;
    for number in 0..count {
        let directory = number / 100;
        let name = match number % 100 {
            0 => format!("/srv/tree/d{}/e{directory}/", directory % 10),
            _ => format!("/srv/tree/d{}/e{directory}/file{number}", directory % 10),
        };
        let content = (number % 100 != 0).then(|| format!("content {number}").into());
        let node =
            graph.add_node(Spec::new(name, File { state: "exists".into(), content, ..File::default() }));
        if let Some(last) = last.replace(node) {
            graph.set_edge(last, node, Edge::ORDER);
        }
    }
    graph
}

fn same(old: &ResourceGraph, new: &ResourceGraph) {
    let delta = diff(old, new, |s| &s.id, |s| &s.id, Spec::same_as, |a, b| a == b);
    assert!(delta.is_empty());
}

fn automatic_edges(count: usize) -> Duration {
    let mut graph = files(count);
    graph.retain_edges(|_, _, _| false);
    let mut edges = 0;
    let time = timed(|| edges = add_automatic_edges(&mut graph).len());
    assert!(edges >= count - count / 50, "{edges} edges for {count} files");
    time
}

fn group(count: usize, chain: bool) -> Duration {
    let mut graph = ResourceGraph::with_capacity(count, count);
    let mut last = None;
    for number in 0..count {
        let node = graph.add_node(Spec::new(format!("n{number}"), Noop::default()));
        if let Some(last) = last.replace(node).filter(|_| chain) {
            graph.set_edge(last, node, Edge::ORDER);
        }
    }
    let mut merged = 0;
    let time = timed(|| merged = group_automatically(&mut graph).unwrap());
    assert_eq!(merged, if chain { 0 } else { count - 1 });
    time
}
