//! The pure cores cost what they did: instructions counted by callgrind, in the build that the tests have anyway.
//!
//! A count is the same on a busy machine and on an idle one, so it can be judged where seconds cannot. `instructions.txt`
//! has what a unit of each work cost when it was last looked at; whoever makes it cost more than a twentieth more has to say so
//! by writing the new figure there (`BLESS=1 cargo test -p mgmt-bench --test instructions`), where a reader sees it. Each work
//! is done at two sizes: a unit of the larger one must not cost noticeably more than a unit of the smaller one.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics is a test that fails")]
#![allow(clippy::print_stdout, reason = "the figures")]

#[path = "../src/programs.rs"]
#[allow(dead_code, reason = "one program of many is enough here")]
mod programs;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use mgmt_dataflow::{Graph, State};
use mgmt_engine::core::{Action, Core, Delta, Link, Outcome, Rules, Settings, Vertex};
use mgmt_engine::{Cause, Ended, MemberEffects, Ran, Witness as _, add_automatic_edges, group_automatically};
use mgmt_graph::diff;
use mgmt_history::{Journal, Limits, Recorder};
use mgmt_lang::Environment;
use mgmt_lang::module::{Entry, Memory};
use mgmt_resource::{Edge, Effect, ResourceGraph, Spec};
use mgmt_resources::file::File;
use mgmt_resources::noop::Noop;

/// A work: its name, what its unit is, its two sizes, and how it is done. What has several threads is counted whole, and the start and
/// the end of the process, which are the same in both sizes, are taken away.
struct Work {
    name: &'static str,
    unit: &'static str,
    sizes: [usize; 2],
    work: fn(usize),
}

const WORKS: [Work; 8] = [
    Work { name: "parse", unit: "line", sizes: [500, 2_000], work: parse },
    Work { name: "infer", unit: "line", sizes: [500, 2_000], work: infer },
    Work { name: "dataflow", unit: "event through 60 functions", sizes: [20, 80], work: dataflow },
    Work { name: "schedule", unit: "step of one of 500 vertices", sizes: [200, 800], work: schedule },
    Work { name: "diff", unit: "resource", sizes: [500, 2_000], work: difference },
    Work { name: "autoedge", unit: "resource", sizes: [500, 2_000], work: autoedge },
    Work { name: "autogroup", unit: "resource", sizes: [500, 2_000], work: autogroup },
    Work { name: WHOLE, unit: "change, until it is written", sizes: [1_000, 4_000], work: record },
];

/// How much more than noted a unit may cost. Counts are the same to the last instruction from run to run, but a library of the
/// system may be another one.
const TOLERANCE: f64 = 1.05;
/// How much more a unit may cost in four times the work. Trees and tables grow with the logarithm.
const GROWTH: f64 = 1.35;
/// The work that has a thread of its own.
const WHOLE: &str = "record";
/// Which work is to be done in this process, which is counted.
const ASKED: &str = "MGMT_COUNTED_WORK";

#[test]
fn the_pure_cores_cost_no_more_than_they_did() {
    if let Ok(asked) = std::env::var(ASKED) {
        return counted(&asked);
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/instructions.txt");
    let noted: BTreeMap<String, f64> = std::fs::read_to_string(&file)
        .unwrap_or_default()
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            Some((words.next()?.to_owned(), words.next()?.parse().unwrap()))
        })
        .collect();
    let (mut now, mut wrong) = (String::from(HEADER), String::new());
    for work in WORKS {
        let idle = if work.name == WHOLE { count(work.name, 0) } else { 0 };
        let each = |size: usize| count(work.name, size).saturating_sub(idle) as f64 / size as f64;
        let [small, large] = work.sizes.map(each);
        println!("{:<10} {large:>10.0} instructions per {} ({small:.0} in less work)", work.name, work.unit);
        let _ = writeln!(now, "{:<10} {large:>9.0}  {}", work.name, work.unit);
        if large > small * GROWTH {
            let _ = writeln!(
                wrong,
                "{}: {small:.0} per {}, {large:.0} in four times the work",
                work.name, work.unit
            );
        }
        match noted.get(work.name) {
            Some(noted) if large <= noted * TOLERANCE => {}
            Some(noted) => {
                let _ = writeln!(wrong, "{}: {large:.0} per {}, noted are {noted:.0}", work.name, work.unit);
            }
            None => wrong.push_str(&format!("{}: nothing is noted\n", work.name)),
        }
    }
    if std::env::var_os("BLESS").is_some() {
        return std::fs::write(&file, now).unwrap();
    }
    assert!(wrong.is_empty(), "too many instructions; BLESS=1 notes the new figures\n{wrong}");
}

const HEADER: &str = "\
# Instructions for one unit of each pure core, in an unoptimised build; see instructions.rs.
";

/// Has a work of this size done in a process of its own, and gives the instructions that it took.
fn count(name: &str, size: usize) -> u64 {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("callgrind");
    let parts = ["--collect-atstart=no", "--toggle-collect=*the_counted_part*"];
    let told = Command::new("valgrind")
        .arg("--tool=callgrind")
        .args(parts.iter().filter(|_| name != WHOLE))
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "the_pure_cores_cost_no_more_than_they_did", "--test-threads=1"])
        .env(ASKED, format!("{name} {size}"))
        .output()
        .expect("this test needs valgrind");
    let said = String::from_utf8_lossy(&told.stderr);
    assert!(told.status.success(), "{name}: {said}");
    let text = std::fs::read_to_string(&out).unwrap();
    let total =
        text.lines().find_map(|line| line.strip_prefix("totals: ").or(line.strip_prefix("summary: ")));
    let total = total.unwrap_or_else(|| panic!("{name}: no total in what callgrind wrote; {said}"));
    let total = total.trim().parse().unwrap();
    assert!(total > 0, "{name}: nothing was counted; {said}");
    total
}

/// In the process that is counted.
fn counted(asked: &str) {
    let (name, size) = asked.split_once(' ').unwrap();
    let work = WORKS.iter().find(|work| work.name == name).unwrap();
    (work.work)(size.parse().unwrap());
}

/// Everything in here is counted, and nothing else.
#[inline(never)]
fn the_counted_part<T>(work: impl FnOnce() -> T) -> T {
    black_box(work())
}

fn parse(lines: usize) {
    let text = programs::realistic(lines);
    the_counted_part(|| mgmt_syntax::parse(&text));
}

fn infer(lines: usize) {
    let mut files = Memory::default();
    files.insert("/main.mcl", programs::realistic(lines).as_bytes());
    let environment = Environment {
        kinds: &mgmt_resources::KINDS,
        library: mgmt_funcs::library(),
        files: &files,
        module_path: None,
        lints: false,
    };
    let entry = Entry::File("/main.mcl".into());
    let checked = the_counted_part(|| mgmt_lang::check(&entry, &environment).unwrap());
    assert!(checked.is_right());
}

/// Six layers of ten functions, all driven by one source.
fn dataflow(events: usize) {
    const ROOT: mgmt_dataflow::ScopeId = Graph::<i64, String>::ROOT;
    let mut graph: Graph<i64, String> = Graph::new();
    let source = graph.source(ROOT);
    let mut layer = vec![source; 10];
    for _ in 0..6 {
        let node = |at: usize| {
            let inputs = [layer[at], layer[(at + 1) % 10]];
            graph.compute(ROOT, &inputs, |inputs: &[&i64]| {
                State::Value(inputs[0].wrapping_mul(3) + inputs[1] % 7)
            })
        };
        layer = (0..10).map(node).collect();
    }
    layer.iter().for_each(|&node| graph.mark_output(node));
    the_counted_part(|| {
        for event in 0..events {
            graph.set(source, State::Value(i64::try_from(event).unwrap()));
            black_box(graph.settle());
        }
    });
}

/// Five hundred vertices, fifty behind each other ten times; one after the other has an event.
fn schedule(steps: usize) {
    const VERTICES: u32 = 500;
    let mut core = Core::new(Settings::default(), 0);
    let link = |at: u32| Link { from: Vertex(at), to: Vertex(at + 1), notify: false, pending: false };
    let delta = Delta {
        add: (0..VERTICES).map(|at| (Vertex(at), Rules::default())).collect(),
        link: (0..VERTICES - 1).filter(|at| at % 50 != 49).map(link).collect(),
        ..Delta::default()
    };
    core.apply(delta, 0);
    answer(&mut core, 0);
    the_counted_part(|| {
        for step in 0..steps {
            let now = u64::try_from(step).unwrap() + 1;
            // The last of a row, so that one event is one run.
            core.changed(Vertex(u32::try_from(step % 10).unwrap() * 50 + 49), now);
            answer(&mut core, now);
        }
    });
}

/// Plays a driver whose watches and runs always succeed, until there is nothing left to do.
fn answer(core: &mut Core, now: u64) {
    loop {
        let actions = core.take_actions();
        if actions.is_empty() {
            return;
        }
        for action in actions {
            match action {
                Action::Watch(vertex, incarnation) => core.watching(vertex, incarnation, now),
                Action::Run(run) => core.finished(run.vertex, Outcome::Right, &[], now),
                _ => {}
            }
        }
    }
}

fn difference(resources: usize) {
    let (old, new) = (files(resources, true), files(resources, true));
    let delta = the_counted_part(|| diff(&old, &new, |s| &s.id, |s| &s.id, Spec::same_as, |a, b| a == b));
    assert!(delta.is_empty());
}

fn autoedge(resources: usize) {
    let mut graph = files(resources, false);
    let edges = the_counted_part(|| add_automatic_edges(&mut graph).len());
    assert!(edges > resources / 2);
}

fn autogroup(resources: usize) {
    let mut graph = ResourceGraph::with_capacity(resources, 0);
    for number in 0..resources {
        graph.add_node(Spec::new(format!("n{number}"), Noop::default()));
    }
    let merged = the_counted_part(|| group_automatically(&mut graph).unwrap());
    assert_eq!(merged, resources - 1);
}

/// Files in directories, fifty in each, in a row or by themselves.
fn files(count: usize, in_a_row: bool) -> ResourceGraph {
    let mut graph = ResourceGraph::with_capacity(count, count);
    let mut last = None;
    for number in 0..count {
        let directory = format!("/srv/tree/{}/", number / 50);
        let is_file = number % 50 != 0;
        let name = if is_file { format!("{directory}file{number}") } else { directory };
        let content = is_file.then(|| format!("content {number}").into());
        let node =
            graph.add_node(Spec::new(name, File { state: "exists".into(), content, ..File::default() }));
        if let Some(last) = last.replace(node).filter(|_| in_a_row) {
            graph.set_edge(last, node, Edge::ORDER);
        }
    }
    graph
}

/// The recorder has a thread that writes; it is waited for.
fn record(records: usize) {
    let place = tempfile::tempdir().unwrap();
    let journal = Journal::open(place.path().join("history"), Limits::default()).unwrap();
    let recorder = Recorder::start(journal).unwrap();
    let spec = Spec::new("/etc/motd", File::default());
    let effect = Effect::create("/etc/motd").aspect("file").after("200 bytes");
    let effects = Arc::new(vec![MemberEffects { id: spec.id.clone(), effects: vec![effect] }]);
    for number in 0..records {
        recorder.ran(Ran {
            id: &spec.id,
            spec: &spec,
            apply: true,
            ended: Ended::Changed,
            error: None,
            took: Duration::from_micros(number as u64),
            since: None,
            causes: &[Cause::Declared { because: None }],
            effects: &effects,
        });
    }
}
