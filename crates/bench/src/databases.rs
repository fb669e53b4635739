//! Packages and accounts that are right already: what it costs to see that, beside one look at the database.

use std::collections::HashMap;
use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use mgmt_resource::{ResourceGraph, Spec};
use mgmt_resources::pkg::Pkg;
use mgmt_resources::user::User;
use mgmt_sys::replace::Durability;

use crate::report::Report;
use crate::world::World;

const PACKAGES: usize = 300;
const USERS: u32 = 1_000;
/// How often everything is measured; the median counts.
const RUNS: usize = 9;
/// The first number of the accounts, where nobody else has any.
const FIRST: u32 = 400_000;

/// Each run is a process of its own: the first check reads the database, the second finds it unchanged.
struct Times {
    first: Vec<(Duration, Duration)>,
    again: Vec<(Duration, Duration)>,
}

pub(crate) fn packages(report: &mut Report) {
    report
        .section("300 packages that are installed already, warm check, median of 9 runs (lowest to highest)");
    let query =
        Command::new("dpkg-query").args(["--show", "--showformat=${db:Status-Status} ${Package}\n"]).output();
    let names: Vec<String> = query.map_or(Vec::new(), |output| {
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let installed = text.lines().filter_map(|line| line.strip_prefix("installed "));
        installed.take(PACKAGES).map(str::to_owned).collect()
    });
    if names.len() < PACKAGES {
        return report.figure("cannot be measured: this host has too few packages of dpkg", "", None);
    }
    let raw = || {
        let began = Instant::now();
        let mut query = Command::new("dpkg-query");
        query.args(["--show", "--showformat=${Package} ${db:Status-Status} ${Version}\n"]).args(&names);
        assert!(query.stdin(Stdio::null()).stdout(Stdio::null()).status().unwrap().success());
        began.elapsed()
    };
    for (edges, what) in
        [("plain", "without automatic edges"), ("edges", "with automatic edges, which read what is in them")]
    {
        let times = times(raw, || {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.args(["--child", "packages", edges]).args(&names);
            command
        });
        report.ratio_spread(&format!("first check, {what}"), PACKAGES, &times.first, None);
        report.ratio_spread("  again, nothing has changed", PACKAGES, &times.again, None);
    }
}

pub(crate) fn users(report: &mut Report) {
    report.section("1000 users that are right already, warm check, median of 9 runs (lowest to highest)");
    let directory = tempfile::tempdir().unwrap();
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let (mut passwd, mut group) = (read("/etc/passwd"), read("/etc/group"));
    for number in FIRST..FIRST + USERS {
        writeln!(passwd, "bench{number}:x:{number}:{number}:a user:/home/bench{number}:/bin/sh").unwrap();
        writeln!(group, "bench{number}:x:{number}:").unwrap();
    }
    let own = directory.path().join("passwd");
    std::fs::write(&own, passwd).unwrap();
    std::fs::write(directory.path().join("group"), group).unwrap();
    let times = times(
        || {
            let began = Instant::now();
            assert!(raw_pass(&own));
            began.elapsed()
        },
        || {
            // Nobody else sees these accounts, and what is on this machine is not touched.
            let script = "mount --bind \"$1/passwd\" /etc/passwd && mount --bind \"$1/group\" /etc/group && exec \"$2\" --child users";
            let mut command = Command::new("unshare");
            command.args(["--mount", "--propagation", "private", "--", "sh", "-c", script, "users"]);
            command.arg(directory.path()).arg(std::env::current_exe().unwrap());
            command
        },
    );
    report.ratio_spread("first check, against one pass over the file", USERS as usize, &times.first, None);
    report.ratio_spread("  again, nothing has changed", USERS as usize, &times.again, None);
}

/// Both sides in turn.
fn times(raw: impl Fn() -> Duration, ours: impl Fn() -> Command) -> Times {
    raw();
    let mut times = Times { first: Vec::new(), again: Vec::new() };
    for _ in 0..RUNS {
        let floor = raw();
        let output = ours().output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        let numbers: Vec<u64> = text.split_whitespace().map(|number| number.parse().unwrap()).collect();
        let [first, again] = numbers[..] else { panic!("{text}{errors}") };
        times.first.push((Duration::from_nanos(first), floor));
        times.again.push((Duration::from_nanos(again), floor));
    }
    times
}

/// What looking up all accounts costs at least: reading the file once, and finding each in it.
fn raw_pass(path: &Path) -> bool {
    let text = std::fs::read(path).unwrap();
    let mut found = HashMap::new();
    for line in text.split(|byte| *byte == b'\n') {
        let mut fields = line.split(|byte| *byte == b':');
        if let (Some(name), Some(_), Some(uid)) = (fields.next(), fields.next(), fields.next()) {
            found.insert(name, uid);
        }
    }
    let is_right = |number: u32| {
        found
            .get(format!("bench{number}").as_bytes())
            .is_some_and(|uid| *uid == number.to_string().as_bytes())
    };
    (FIRST..FIRST + USERS).all(is_right)
}

/// The part that runs in a process of its own: prints the nanoseconds of the first check of all, and of a second one.
pub(crate) fn child(arguments: &[String]) {
    let graph = || match arguments {
        [what, edges, names @ ..] if what == "packages" => package_graph(names, edges == "edges"),
        _ => user_graph(),
    };
    for _ in 0..2 {
        let prefix = tempfile::tempdir().unwrap();
        let graph = graph();
        let mut world = World::start(prefix.path(), Durability::None);
        println!("{}", world.converge(graph).as_nanos());
    }
}

fn package_graph(names: &[String], edges: bool) -> ResourceGraph {
    let mut graph = ResourceGraph::with_capacity(names.len(), 0);
    for name in names {
        let mut spec = Spec::new(name.as_str(), Pkg::default());
        // Whatever happens, nothing of this machine is changed.
        (spec.meta.noop, spec.meta.autoedge) = (true, edges);
        graph.add_node(spec);
    }
    graph
}

fn user_graph() -> ResourceGraph {
    let mut graph = ResourceGraph::with_capacity(USERS as usize, 0);
    for number in FIRST..FIRST + USERS {
        let user = User {
            state: "exists".into(),
            uid: Some(number),
            gid: Some(number),
            homedir: Some(format!("/home/bench{number}/").as_str().into()),
            shell: Some("/bin/sh".into()),
            ..User::default()
        };
        let mut spec = Spec::new(format!("bench{number}").as_str(), user);
        spec.meta.noop = true;
        graph.add_node(spec);
    }
    graph
}
