//! Programs that run: what an event costs, how soon there is a first graph, and what a node weighs.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::hint::black_box;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mgmt_dataflow::{Graph, NodeId, State};
use mgmt_funcs::{Failure, Host, Watch};
use mgmt_lang::module::{Entry, Memory};
use mgmt_lang::{Checked, Environment, Outcome, Running};
use mgmt_sys::replace::Durability;
use mgmt_value::Str;

use crate::processor_time;
use crate::report::{Report, Spread};
use crate::world::{World, scratch};

const RUNS: usize = 5;

pub(crate) fn run(report: &mut Report) {
    layers(report);
    stream(report);
    coming_and_going(report);
    first(report);
    weight(report);
}

/// Twenty layers of twenty-five functions, each of two of the layer before; all of them driven by one source.
fn layers(report: &mut Report) {
    const DEEP: usize = 20;
    const WIDE: usize = 25;
    const EVENTS: usize = 20_000;
    report.section("500 functions in 20 layers, all driven by one source");
    let mut graph: Graph<i64, String> = Graph::new();
    let source = graph.source(Graph::<i64, String>::ROOT);
    let mut layer: Vec<NodeId> = vec![source; WIDE];
    for _ in 0..DEEP {
        let node = |at: usize| {
            let inputs = [layer[at], layer[(at + 1) % WIDE]];
            graph.compute(Graph::<i64, String>::ROOT, &inputs, |inputs: &[&i64]| {
                State::Value(inputs[0].wrapping_mul(3).wrapping_add(*inputs[1]))
            })
        };
        layer = (0..WIDE).map(node).collect();
    }
    layer.iter().for_each(|&node| graph.mark_output(node));
    let mut pairs = Vec::new();
    for run in 0..RUNS {
        let began = Instant::now();
        for event in 0..EVENTS {
            graph.set(source, State::Value((run * EVENTS + event) as i64));
            black_box(graph.settle());
        }
        let ours = began.elapsed();
        let began = Instant::now();
        for event in 0..EVENTS {
            let mut values = [black_box((run * EVENTS + event) as i64); WIDE];
            for _ in 0..DEEP {
                let before = values;
                for (at, value) in values.iter_mut().enumerate() {
                    *value = before[at].wrapping_mul(3).wrapping_add(before[(at + 1) % WIDE]);
                }
                values = black_box(values);
            }
        }
        pairs.push((ours, began.elapsed()));
    }
    let best = Spread::of(pairs.iter().map(|(ours, _)| *ours).collect()).median;
    let text = format!("{:.0} events/s", EVENTS as f64 / best.as_secs_f64());
    report.figure("events per second", &text, None);
    report.ratio_spread("an event, against the bare arithmetic", EVENTS, &pairs, None);
}

/// A world with one value that the benchmark changes.
#[derive(Default)]
struct Changing(Mutex<Str>);

impl Host for Changing {
    fn world_string(&self, _: &Str) -> Result<Option<Str>, Failure> {
        Ok(Some(self.0.lock().unwrap().clone()))
    }

    fn world_strings(&self, _: &Str) -> Result<BTreeMap<Str, Str>, Failure> {
        Ok(BTreeMap::new())
    }
}

/// A program of so many resources, of which one depends on a value that changes.
fn program(resources: usize) -> String {
    let mut text = String::from("import \"world\"\n$tick = world.getval(\"tick\")->value\n");
    text.push_str("value \"follows\" {\n\tany => \"at ${tick}\",\n}\n");
    for number in 1..resources {
        let _ = write!(text, "value \"resource{number}\" {{\n\tany => \"text of {number}\",\n}}\n");
    }
    text
}

fn check(text: &str) -> Arc<Checked> {
    let mut files = Memory::default();
    files.insert("/main.mcl", text.as_bytes());
    let environment = Environment {
        kinds: &mgmt_resources::KINDS,
        library: mgmt_funcs::library(),
        files: &files,
        module_path: None,
        lints: false,
    };
    let checked = mgmt_lang::check(&Entry::File("/main.mcl".into()), &environment).unwrap();
    assert!(checked.is_right());
    Arc::new(checked)
}

/// Processor time of an event, from the value to the resource that has run.
fn stream(report: &mut Report) {
    const SIZES: [usize; 3] = [10, 1_000, 10_000];
    report.section("one of N resources follows a value that changes 1000 times a second, processor time");
    let mut times = SIZES.map(|_| Vec::new());
    for _ in 0..RUNS {
        for (times, resources) in times.iter_mut().zip(SIZES) {
            times.push(events(resources));
        }
    }
    for (index, resources) in SIZES.into_iter().enumerate() {
        let pairs: Vec<(Duration, Duration)> =
            times[index].iter().copied().zip(times[0].iter().copied()).collect();
        match index {
            0 => report.time_spread("an event, 10 resources", Spread::of(times[0].clone()), None),
            _ => report.ratio_spread(
                &format!("an event, {resources} resources, against 10 of them"),
                1,
                &pairs,
                Some(2.0),
            ),
        }
    }
}

/// What an event costs in a program of so many resources.
fn events(resources: usize) -> Duration {
    const EVENTS: u32 = 1_000;
    let directory = scratch(std::path::Path::new("/dev/shm"));
    let mut engine = World::start(directory.path(), Durability::None);
    let value = Arc::new(Changing::default());
    let mut running = Running::new(check(&program(resources)), mgmt_resources::KINDS, value.clone());
    let Outcome::Graph(graph) = running.settle() else { panic!("the first graph is whole") };
    running.watch_changes();
    engine.converge(graph);
    let began = Instant::now();
    let before = processor_time();
    for event in 0..EVENTS {
        let due = began + Duration::from_millis(u64::from(event));
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        *value.0.lock().unwrap() = Str::from(event.to_string());
        running.happened(&Watch::WorldString("tick".into()));
        let Outcome::Changed(change) = running.settle() else { panic!("one resource has changed") };
        assert!(change.is_of_parameters() && change.changed.len() == 1);
        engine.adjust(change.changed);
    }
    (processor_time() - before) / EVENTS
}

/// Processor time of an event that adds or removes a resource: the engine compares whole graphs.
fn coming_and_going(report: &mut Report) {
    const EVENTS: u32 = 50;
    report.section("a resource comes or goes with an event, processor time, median of 5 runs");
    for resources in [10, 1_000, 10_000] {
        let mut times = Vec::new();
        for _ in 0..RUNS {
            let directory = scratch(std::path::Path::new("/dev/shm"));
            let mut engine = World::start(directory.path(), Durability::None);
            let value = Arc::new(Changing::default());
            let text = format!(
                "{}if $tick == \"1\" {{\n\tvalue \"more\" {{\n\t\tany => 1,\n\t}}\n}}\n",
                program(resources)
            );
            let mut running = Running::new(check(&text), mgmt_resources::KINDS, value.clone());
            let Outcome::Graph(graph) = running.settle() else { panic!("the first graph is whole") };
            engine.converge(graph);
            let before = processor_time();
            for event in 0..EVENTS {
                *value.0.lock().unwrap() = Str::from((event % 2).to_string());
                running.happened(&Watch::WorldString("tick".into()));
                let Outcome::Changed(_) = running.settle() else { panic!("one resource comes or goes") };
                let Outcome::Graph(graph) = running.whole() else { panic!("the graph is right") };
                engine.converge(graph);
            }
            times.push((processor_time() - before) / EVENTS);
        }
        report.time_spread(&format!("an event, {resources} resources"), Spread::of(times), None);
    }
}

/// From the text to the first graph.
fn first(report: &mut Report) {
    report.section("first graph of a program, from its text, median of 5 runs (lowest to highest)");
    for resources in [1_000, 10_000] {
        let text = program(resources);
        let (mut whole, mut pairs) = (Vec::new(), Vec::new());
        for _ in 0..RUNS {
            let began = Instant::now();
            let checked = check(&text);
            let checking = began.elapsed();
            let mut running = Running::new(checked, mgmt_resources::KINDS, Arc::new(Changing::default()));
            let Outcome::Graph(graph) = running.settle() else { panic!("the first graph is whole") };
            whole.push(began.elapsed());
            pairs.push((began.elapsed(), checking));
            assert_eq!(graph.node_count(), resources);
        }
        let target = (resources == 10_000).then_some(Duration::from_millis(500));
        report.time_spread(&format!("{resources} resources"), Spread::of(whole), target);
        report.ratio_spread("  against the check alone", resources, &pairs, None);
    }
}

/// Memory, each in a process of its own.
fn weight(report: &mut Report) {
    report.section("resident memory");
    for (what, name) in [("nodes", "per function node"), ("resources", "per resource of a program")] {
        let program = std::env::current_exe().unwrap();
        let output = Command::new(program).args(["--child", "weight", what]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        report.figure(name, &format!("{} bytes", text.trim()), None);
    }
}

/// The part in a process of its own: makes many, and prints what one weighs.
pub(crate) fn child(what: &str) {
    const MANY: usize = 100_000;
    let before = crate::files::resident();
    if what == "nodes" {
        let mut graph: Graph<i64, String> = Graph::new();
        let mut last = graph.source(Graph::<i64, String>::ROOT);
        for _ in 0..MANY {
            last = graph.compute(Graph::<i64, String>::ROOT, &[last], |inputs: &[&i64]| {
                State::Value(inputs[0].wrapping_add(1))
            });
        }
        graph.mark_output(last);
        black_box(graph.settle());
        println!("{}", crate::files::resident().saturating_sub(before) / MANY as u64);
        drop(graph);
    } else {
        let checked = check(&program(MANY));
        // What the checked program weighs is another matter, which the group `lang` shows.
        let before = crate::files::resident();
        let mut running = Running::new(checked, mgmt_resources::KINDS, Arc::new(Changing::default()));
        let graph = running.settle();
        println!("{}", crate::files::resident().saturating_sub(before) / MANY as u64);
        drop(graph);
    }
}
