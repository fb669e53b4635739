//! Time, and work that does not grow with the graph.

use super::super::*;
use super::story::Story;
use super::{hidden, refreshable};

#[test]
fn a_clock_that_goes_back_holds_nothing_up() {
    let mut story =
        Story::with("a", &[('a', Rules { retry: Retry::Forever, delay: 10, ..Rules::default() })]);
    story.now = 1000;
    story.begin();
    story.watch_all();
    assert_eq!(story.finish('a', Outcome::Failed), "retry a after 10");
    story.now = 3;
    assert_eq!(story.wait(0), "");
    assert_eq!(story.core.next_deadline(), Some(1010));
    story.now = 1010;
    assert_eq!(story.wait(0), "run a");
    story.now = 0;
    assert_eq!(story.finish('a', Outcome::Right), "");
    assert_eq!(story.changed('a'), "run a");
}

fn chain(length: u32, rules: &Rules) -> Delta {
    let link = |to| Link { from: Vertex(to - 1), to: Vertex(to), notify: true, pending: false };
    Delta {
        add: (0..length).map(|id| (Vertex(id), rules.clone())).collect(),
        link: (1..length).map(link).collect(),
        ..Delta::default()
    }
}

#[test]
fn a_chain_of_a_hundred_thousand_hidden_vertices_settles_in_one_input() {
    let mut core = Core::new(Settings::default(), 0);
    core.apply(chain(100_000, &hidden(false)), 0);
    assert_eq!(core.take_actions(), []);
    assert!(core.has_succeeded(Vertex(99_999)));
    core.check_invariants();
}

#[test]
fn a_chain_of_a_hundred_thousand_vertices_runs_from_end_to_end_without_looking_back() {
    let mut core = Core::new(Settings::default(), 0);
    let once = Rules { poll: Poll::Once, ..refreshable() };
    core.apply(chain(100_000, &once), 0);
    let mut runs = 0;
    while let [.., Action::Run(run)] = core.take_actions()[..] {
        assert_eq!(run.vertex, Vertex(runs));
        runs += 1;
        core.finished(run.vertex, Outcome::Changed, &[], 0);
    }
    assert_eq!(runs, 100_000);
    assert_eq!(core.walk, 0, "nobody had to look for an ancestor");
    core.apply(remove_first(100_000), 0);
    assert_eq!(core.take_actions().len(), 2 * 100_000);
    core.check_invariants();
}

fn remove_first(count: u32) -> Delta {
    Delta { remove: (0..count).map(Vertex).collect(), ..Delta::default() }
}

#[test]
fn an_event_in_a_quiet_graph_costs_the_same_whatever_the_size_of_the_graph() {
    for length in [10, 10_000] {
        let mut core = Core::new(Settings::default(), 0);
        core.apply(chain(length, &Rules { poll: Poll::Once, ..Rules::default() }), 0);
        while let [.., Action::Run(run)] = core.take_actions()[..] {
            core.finished(run.vertex, Outcome::Right, &[], 0);
        }
        let walks = core.walk;
        for id in [0, length / 2, length - 1] {
            core.changed(Vertex(id), 1);
            assert!(matches!(core.take_actions()[..], [Action::Run(_)]), "one run");
            core.finished(Vertex(id), Outcome::Right, &[], 2);
            assert_eq!(core.take_actions(), [], "and no other");
        }
        assert_eq!(core.walk, walks, "and no walk through the graph");
    }
}

/// Not measured, but were each vertex to look at all those before it, this would take minutes.
#[test]
fn a_wave_of_events_down_a_long_chain_looks_at_each_vertex_once() {
    let length = 50_000;
    let mut core = Core::new(Settings::default(), 0);
    core.apply(chain(length, &Rules { poll: Poll::Once, ..Rules::default() }), 0);
    for round in 0..2 {
        let mut runs = 0;
        while let [.., Action::Run(run)] = core.take_actions()[..] {
            assert_eq!(run.vertex, Vertex(runs));
            runs += 1;
            core.finished(run.vertex, Outcome::Right, &[], 0);
        }
        assert_eq!(runs, length);
        for id in 0..length {
            core.changed(Vertex(id), round);
        }
    }
}
