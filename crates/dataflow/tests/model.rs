//! Random graphs against a model that computes everything from scratch.

use std::sync::Arc;

use mgmt_dataflow::{Attach, Catch, Graph, NodeId, ScopeId, State};

type Flow = Graph<i64, String>;

/// What a node should be, as an expression.
#[derive(Debug)]
enum Plan {
    Constant(i64),
    Source(usize),
    Add(Arc<Plan>, Arc<Plan>),
    /// Equal for many inputs, so that waves stop.
    Sign(Arc<Plan>),
    /// Fails for odd values.
    Even(Arc<Plan>),
    /// One of several, by the value of the first, modulo their number.
    Choice(Arc<Plan>, Vec<Arc<Plan>>),
    /// The second while the first fails.
    Guard(Arc<Plan>, Arc<Plan>),
    /// As many copies of the second as the first says, added up.
    Repeat(Arc<Plan>, Arc<Plan>),
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn plan(&mut self, depth: u32, sources: usize) -> Arc<Plan> {
        let deeper = |this: &mut Random| this.plan(depth - 1, sources);
        Arc::new(match if depth == 0 { self.below(2) } else { self.below(9) } {
            0 => Plan::Constant(self.below(7) as i64 - 3),
            1 | 8 => Plan::Source(self.below(sources)),
            2 => Plan::Add(deeper(self), deeper(self)),
            3 => Plan::Sign(deeper(self)),
            4 => Plan::Even(deeper(self)),
            5 => {
                let branches = (0..2 + self.below(2)).map(|_| deeper(self)).collect();
                Plan::Choice(deeper(self), branches)
            }
            6 => Plan::Guard(deeper(self), deeper(self)),
            _ => Plan::Repeat(deeper(self), deeper(self)),
        })
    }
}

fn copies(value: i64) -> i64 {
    value.rem_euclid(4)
}

fn model(plan: &Plan, sources: &[State<i64, String>]) -> State<i64, String> {
    let of = |plan: &Plan| model(plan, sources);
    match plan {
        Plan::Constant(value) => State::Value(*value),
        Plan::Source(index) => sources[*index].clone(),
        Plan::Add(a, b) => match (of(a), of(b)) {
            (State::Value(a), State::Value(b)) => State::Value(a.wrapping_add(b)),
            (State::Failed(why), _) | (_, State::Failed(why)) => State::Failed(why),
            _ => State::Undefined,
        },
        Plan::Sign(a) => match of(a) {
            State::Value(a) => State::Value(a.signum()),
            other => other,
        },
        Plan::Even(a) => match of(a) {
            State::Value(a) if a % 2 != 0 => State::Failed(format!("{a} is odd")),
            other => other,
        },
        Plan::Choice(by, branches) => match of(by) {
            State::Value(by) => of(&branches[by.rem_euclid(branches.len() as i64) as usize]),
            other => other,
        },
        Plan::Guard(a, b) => match of(a) {
            State::Failed(_) => of(b),
            other => other,
        },
        Plan::Repeat(by, each) => match of(by) {
            State::Value(by) if copies(by) == 0 => State::Value(0),
            State::Value(by) => match of(each) {
                State::Value(each) => State::Value(each.wrapping_mul(copies(by))),
                other => other,
            },
            other => other,
        },
    }
}

struct Choose {
    branches: Vec<Arc<Plan>>,
    sources: Arc<Vec<NodeId>>,
}

impl Attach<i64, String> for Choose {
    fn same(&self, old: &i64, new: &i64) -> bool {
        let count = self.branches.len() as i64;
        old.rem_euclid(count) == new.rem_euclid(count)
    }

    fn attach(&mut self, graph: &mut Flow, scope: ScopeId, value: &i64) -> Option<NodeId> {
        let branch = &self.branches[value.rem_euclid(self.branches.len() as i64) as usize];
        Some(build(graph, scope, branch, &self.sources))
    }
}

struct Copies {
    each: Arc<Plan>,
    sources: Arc<Vec<NodeId>>,
}

impl Attach<i64, String> for Copies {
    fn same(&self, old: &i64, new: &i64) -> bool {
        copies(*old) == copies(*new)
    }

    fn attach(&mut self, graph: &mut Flow, scope: ScopeId, value: &i64) -> Option<NodeId> {
        let each: Vec<NodeId> =
            (0..copies(*value)).map(|_| build(graph, scope, &self.each, &self.sources)).collect();
        Some(graph.compute(scope, &each, |values: &[&i64]| {
            State::Value(values.iter().fold(0i64, |sum, value| sum.wrapping_add(**value)))
        }))
    }
}

struct Instead {
    plan: Arc<Plan>,
    sources: Arc<Vec<NodeId>>,
}

impl Catch<i64, String> for Instead {
    fn catches(&self, _: &String) -> bool {
        true
    }

    fn attach(&mut self, graph: &mut Flow, scope: ScopeId) -> NodeId {
        build(graph, scope, &self.plan, &self.sources)
    }
}

fn build(graph: &mut Flow, scope: ScopeId, plan: &Plan, sources: &Arc<Vec<NodeId>>) -> NodeId {
    match plan {
        Plan::Constant(value) => graph.constant(scope, *value),
        Plan::Source(index) => sources[*index],
        Plan::Add(a, b) => {
            let inputs = [build(graph, scope, a, sources), build(graph, scope, b, sources)];
            graph.compute(scope, &inputs, |values: &[&i64]| State::Value(values[0].wrapping_add(*values[1])))
        }
        Plan::Sign(a) => {
            let a = build(graph, scope, a, sources);
            graph.compute(scope, &[a], |values: &[&i64]| State::Value(values[0].signum()))
        }
        Plan::Even(a) => {
            let a = build(graph, scope, a, sources);
            graph.compute(scope, &[a], |values: &[&i64]| match values[0] % 2 {
                0 => State::Value(*values[0]),
                _ => State::Failed(format!("{} is odd", values[0])),
            })
        }
        Plan::Choice(by, branches) => {
            let by = build(graph, scope, by, sources);
            graph.switch(scope, by, Choose { branches: branches.clone(), sources: sources.clone() })
        }
        Plan::Guard(a, b) => {
            let a = build(graph, scope, a, sources);
            graph.guard(scope, a, Instead { plan: b.clone(), sources: sources.clone() })
        }
        Plan::Repeat(by, each) => {
            let by = build(graph, scope, by, sources);
            graph.switch(scope, by, Copies { each: each.clone(), sources: sources.clone() })
        }
    }
}

fn run(seed: u64, events: usize) {
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let count = 1 + random.below(4);
    let plans: Vec<Arc<Plan>> = (0..1 + random.below(3)).map(|_| random.plan(5, count)).collect();
    let mut graph = Flow::new();
    let sources: Arc<Vec<NodeId>> = Arc::new((0..count).map(|_| graph.source(Flow::ROOT)).collect());
    let mut states = vec![State::Undefined; count];
    let outputs: Vec<NodeId> =
        plans.iter().map(|plan| build(&mut graph, Flow::ROOT, plan, &sources)).collect();
    outputs.iter().for_each(|&output| graph.mark_output(output));
    let mut seen: Vec<State<i64, String>> = vec![State::Undefined; outputs.len()];
    for _ in 0..events {
        for _ in 0..1 + random.below(2) {
            let index = random.below(count);
            states[index] = match random.below(12) {
                0 => State::Undefined,
                1 => State::Failed("the source fails".to_owned()),
                _ => State::Value(random.below(9) as i64 - 4),
            };
            graph.set(sources[index], states[index].clone());
        }
        let delta = graph.settle();
        graph.check_invariants();
        for (index, (&output, plan)) in outputs.iter().zip(&plans).enumerate() {
            let expected = model(plan, &states);
            assert_eq!(*graph.state(output), expected, "seed {seed}, output {index}: {plan:?}");
            if seen[index] != expected {
                assert!(delta.changed.contains(&output), "seed {seed}: output {index} changed in silence");
            }
            seen[index] = expected;
        }
        let (undefined, failed) = (
            seen.iter().filter(|state| matches!(state, State::Undefined)).count(),
            seen.iter().filter(|state| matches!(state, State::Failed(_))).count(),
        );
        // The same node may be an output twice, and counts once.
        let mut unique = outputs.clone();
        unique.sort_unstable();
        unique.dedup();
        if unique.len() == outputs.len() {
            assert_eq!(
                (graph.undefined_outputs(), graph.failed_outputs()),
                (undefined, failed),
                "seed {seed}"
            );
        }
    }
}

#[test]
fn after_every_event_all_values_are_as_if_computed_from_scratch() {
    let chosen = std::env::var("MGMT_SEED").ok().and_then(|seed| seed.parse().ok());
    match chosen {
        Some(seed) => run(seed, 200),
        None => (0..1500).for_each(|seed| run(seed, 40)),
    }
}

#[test]
fn a_diamond_is_computed_once_and_never_with_a_mixture() {
    let mut graph = Flow::new();
    let source = graph.source(Flow::ROOT);
    let inputs = [source];
    let left = graph.compute(Flow::ROOT, &inputs, |values: &[&i64]| State::Value(values[0] + 1));
    let far = graph.compute(Flow::ROOT, &[left], |values: &[&i64]| State::Value(values[0] - 1));
    let bottom =
        graph.compute(Flow::ROOT, &[source, far], |values: &[&i64]| State::Value(values[0] - values[1]));
    graph.mark_output(bottom);
    graph.set(source, State::Value(1));
    graph.settle();
    for value in 2..100 {
        graph.set(source, State::Value(value));
        let delta = graph.settle();
        assert_eq!(*graph.state(bottom), State::Value(0));
        assert_eq!((delta.computed, delta.changed.len()), (3, 0));
    }
}

#[test]
fn equal_values_stop_the_wave() {
    let mut graph = Flow::new();
    let source = graph.source(Flow::ROOT);
    let sign = graph.compute(Flow::ROOT, &[source], |values: &[&i64]| State::Value(values[0].signum()));
    let mut last = sign;
    for _ in 0..100 {
        last = graph.compute(Flow::ROOT, &[last], |values: &[&i64]| State::Value(values[0] + 1));
    }
    graph.set(source, State::Value(5));
    assert_eq!(graph.settle().computed, 101);
    graph.set(source, State::Value(6));
    assert_eq!(graph.settle().computed, 1);
    graph.set(source, State::Value(-6));
    assert_eq!(graph.settle().computed, 101);
    assert_eq!(*graph.state(last), State::Value(99));
}

#[test]
fn nothing_is_left_of_what_came_and_went() {
    let mut graph = Flow::new();
    let by = graph.source(Flow::ROOT);
    let shared = graph.source(Flow::ROOT);
    let sources = Arc::new(vec![by, shared]);
    let heavy =
        Arc::new(Plan::Add(Arc::new(Plan::Source(1)), Arc::new(Plan::Sign(Arc::new(Plan::Source(1))))));
    let nested = Arc::new(Plan::Repeat(Arc::new(Plan::Source(1)), heavy.clone()));
    let choose = Choose { branches: vec![heavy, nested, Arc::new(Plan::Constant(1))], sources };
    let output = graph.switch(Flow::ROOT, by, choose);
    graph.mark_output(output);
    graph.set(shared, State::Value(3));
    let mut most = 0;
    for turn in 0..1_000_000 {
        graph.set(by, State::Value(turn));
        graph.settle();
        most = most.max(graph.node_count());
    }
    graph.check_invariants();
    assert!(most < 40, "{most} nodes");
}

#[test]
fn a_replacement_lasts_as_long_as_the_failure() {
    let mut graph = Flow::new();
    let source = graph.source(Flow::ROOT);
    let even = build(&mut graph, Flow::ROOT, &Plan::Even(Arc::new(Plan::Source(0))), &Arc::new(vec![source]));
    let instead = Instead { plan: Arc::new(Plan::Constant(-1)), sources: Arc::new(Vec::new()) };
    let guarded = graph.guard(Flow::ROOT, even, instead);
    for (value, expected) in [(2, 2), (3, -1), (5, -1), (8, 8), (9, -1)] {
        graph.set(source, State::Value(value));
        graph.settle();
        assert_eq!(*graph.state(guarded), State::Value(expected));
    }
    assert!(matches!(graph.state(even), State::Failed(_)));
}
