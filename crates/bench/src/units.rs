//! Units of systemd that somebody stops, on a host that is booted for it.
//!
//! systemd itself says when a unit went down, when its start began and when it was up again. What lies between the first
//! two is ours; the rest is its own.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use mgmt_resource::{ResourceGraph, Spec};
use mgmt_resources::svc::Svc;
use mgmt_sys::replace::Durability;
use mgmt_watch::{Bus, BusPath, BusService, BusSignals, BusValue, Service, Topic};

use crate::booted::in_booted_host;
use crate::report::{Report, Spread, percentile};
use crate::world::World;

const UNITS: usize = 200;
/// How often a unit is stopped in one run.
const STOPS: usize = 400;
/// How often everything is measured; the median counts.
const RUNS: usize = 3;

const NAME: &str = "org.freedesktop.systemd1";
const PATH: &str = "/org/freedesktop/systemd1";
const MANAGER: &str = "org.freedesktop.systemd1.Manager";
const UNIT: &str = "org.freedesktop.systemd1.Unit";
const PROPERTIES: &str = "org.freedesktop.DBus.Properties";
const LIMIT: Duration = Duration::from_secs(30);

/// One repair, in microseconds.
#[derive(Clone, Copy)]
struct Repair {
    /// From down to the beginning of the start.
    ours: u64,
    /// From the beginning of the start to up.
    start: u64,
}

pub(crate) fn run(report: &mut Report) {
    report.section(
        "200 watched units, one stopped by somebody, to running again; median of 3 runs (lowest to highest)",
    );
    let told = match in_booted_host(&["units"]) {
        Ok(told) => told,
        Err(why) => return report.figure("cannot be measured: no host could be booted", why.trim(), None),
    };
    let mut runs: HashMap<&str, Vec<Vec<Repair>>> = HashMap::new();
    for line in told.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["run", who] => runs.entry(who).or_default().push(Vec::new()),
            [who, ours, start] => {
                let repair = Repair { ours: ours.parse().unwrap(), start: start.parse().unwrap() };
                runs.get_mut(who).unwrap().last_mut().unwrap().push(repair);
            }
            _ => {}
        }
    }
    let [ours, raw] = ["ours", "raw"].map(|who| runs.remove(who).unwrap());
    for (word, part) in [("p50", 0.5), ("p99", 0.99)] {
        let time = spread(&ours, part, |repair| repair.ours);
        report.time_spread(&format!("{word}, from stopped to the beginning of the start"), time, None);
        let bare = spread(&raw, part, |repair| repair.ours);
        report.ratio(
            "  against a loop that waits for the signal and starts",
            1,
            time.median,
            bare.median,
            None,
        );
        let own = spread(&ours, part, |repair| repair.start);
        report.time_spread("  what systemd takes for the start itself", own, None);
        let whole = spread(&ours, part, |repair| repair.ours + repair.start);
        report.ratio("  from stopped to running, against the start alone", 1, whole.median, own.median, None);
    }
}

fn spread(runs: &[Vec<Repair>], part: f64, clock: impl Fn(&Repair) -> u64) -> Spread {
    let of_run = |run: &Vec<Repair>| {
        let mut times: Vec<Duration> =
            run.iter().map(|repair| Duration::from_micros(clock(repair))).collect();
        times.sort();
        percentile(&times, part)
    };
    Spread::of(runs.iter().map(of_run).collect())
}

/// The part that runs on the booted host.
pub(crate) fn child() {
    // Started means that the program runs, and not only that there is a process for it.
    let unit = "[Service]\nType=exec\nExecStart=/bin/sleep infinity\n[Unit]\nStartLimitIntervalSec=0\n";
    std::fs::write("/etc/systemd/system/bench@.service", unit).unwrap();
    // What a unit that runs wants stays known when it is stopped; otherwise systemd forgets when that was.
    let wanted: Vec<String> = (0..UNITS).map(name).collect();
    let keeper = format!("[Unit]\nWants={}\n", wanted.join(" "));
    std::fs::write("/etc/systemd/system/bench.target", keeper).unwrap();
    for words in [&["daemon-reload"][..], &["start", "bench.target"]] {
        assert!(std::process::Command::new("systemctl").args(words).status().unwrap().success());
    }
    for _ in 0..RUNS {
        {
            let prefix = tempfile::tempdir().unwrap();
            let mut world = World::start(prefix.path(), Durability::None);
            world.converge(graph());
            println!("run ours");
            measure("ours", false);
        }
        println!("run raw");
        measure("raw", true);
    }
    println!("done");
}

fn graph() -> ResourceGraph {
    let mut graph = ResourceGraph::with_capacity(UNITS, 0);
    for number in 0..UNITS {
        let svc = Svc { state: "running".into(), ..Svc::default() };
        graph.add_node(Spec::new(name(number).as_str(), svc));
    }
    graph
}

fn name(number: usize) -> String {
    format!("bench@{number}.service")
}

/// Stops one unit after the other and waits until it runs again, which is our doing if nobody else does it.
fn measure(who: &str, repairs: bool) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let subscribe = Some((PATH, MANAGER, "Subscribe"));
        let service = Service { name: NAME, subscribe, topic: |_| Topic::None };
        let manager = BusService::of(Bus::System, service);
        manager.ready().await.unwrap();
        for number in 0..STOPS {
            let repair =
                tokio::time::timeout(LIMIT, stop(&manager, &name(number * 7 % UNITS), repairs)).await;
            let Repair { ours, start } = repair.expect("a unit is not started again");
            println!("{who} {ours} {start}");
        }
    });
}

async fn stop(manager: &Arc<BusService>, unit: &str, repairs: bool) -> Repair {
    let mut signals = manager.signals();
    let call = async |method: &str| {
        manager.call::<_, BusPath>(PATH, MANAGER, method, &(unit, "replace")).await.unwrap()
    };
    call("StopUnit").await;
    removed(&mut signals, unit).await;
    if repairs {
        call("StartUnit").await;
    }
    removed(&mut signals, unit).await;
    let path = manager.call::<_, BusPath>(PATH, MANAGER, "GetUnit", &unit).await.unwrap();
    let properties = manager
        .call::<_, HashMap<String, BusValue>>(path.as_str(), PROPERTIES, "GetAll", &UNIT)
        .await
        .unwrap();
    let time = |name: &str| u64::try_from(properties.get(name).unwrap()).unwrap();
    let (down, begun, up) = (
        time("InactiveEnterTimestampMonotonic"),
        time("InactiveExitTimestampMonotonic"),
        time("ActiveEnterTimestampMonotonic"),
    );
    assert!(0 < down && down <= begun && begun <= up, "{unit}: {down} {begun} {up}");
    // Let what was caused by it pass, so that every stop meets a quiet host.
    tokio::time::sleep(Duration::from_millis(5)).await;
    Repair { ours: begun - down, start: up - begun }
}

/// Waits for the end of a job for the unit.
async fn removed(signals: &mut BusSignals, unit: &str) {
    loop {
        let signal = signals.next().await.unwrap();
        let header = signal.header();
        if header.member().is_some_and(|member| member.as_str() == "JobRemoved")
            && let Ok((_, _, of, _)) = signal.body().deserialize::<(u32, BusPath, String, String)>()
            && of == unit
        {
            return;
        }
    }
}
