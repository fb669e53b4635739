//! The page: all numbers as text, in the format that Prometheus reads.

use std::fmt::{Display, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use mgmt_health::{ClusterState, HostState, ProgramState};
use mgmt_watch::FileHubStats;

use super::{BOUNDS, Found, Histogram, Metrics, OfKind};

/// What stands before the lines of a page.
pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

impl Metrics {
    /// All numbers, as they are now.
    pub(crate) async fn page(&self) -> String {
        let found = self.look().await;
        let mut page = Page(String::with_capacity(64 << 10));
        self.checks(&mut page);
        page.head("mgmt_graph_start_time_seconds", "gauge", "When the graph that runs has begun to.");
        page.line(
            "mgmt_graph_start_time_seconds",
            "",
            seconds(Duration::from_millis(load(&self.graph_start))),
        );
        page.head("mgmt_resources", "gauge", "Resources in the graph that runs.");
        for (kind, of) in &self.kinds {
            page.line("mgmt_resources", &format!("kind=\"{kind}\""), load(&of.resources));
        }
        self.failures(&mut page);
        page.head(
            "mgmt_repair_seconds",
            "histogram",
            "From an event to the end of the repair that it led to.",
        );
        for (kind, of) in &self.kinds {
            page.histogram("mgmt_repair_seconds", &format!("kind=\"{kind}\""), &of.repair);
        }
        page.head(
            "mgmt_run_seconds",
            "histogram",
            "How long a resource, or a group of them, was looked at and worked on.",
        );
        for (kind, of) in &self.kinds {
            page.histogram("mgmt_run_seconds", &format!("kind=\"{kind}\""), &of.run);
        }
        page.head("mgmt_swap_seconds", "histogram", "How long it took to let another graph run.");
        page.histogram("mgmt_swap_seconds", "", &self.swap);
        page.head(
            "mgmt_converged",
            "gauge",
            "1 if the program is evaluated, every resource is ok and nothing has been under way for a second.",
        );
        page.line("mgmt_converged", "", u64::from(found.report.state() == HostState::Converged));
        states(&mut page, &found);
        page.head("mgmt_deploy", "gauge", "The number of the deploy that runs, 0 without one.");
        page.line("mgmt_deploy", "", load(&self.deploy));
        page.head(
            "mgmt_queue_length",
            "gauge",
            "Events that wait for the engine, and runs that wait for a thread.",
        );
        for (queue, length) in [("events", found.backlog.events), ("runs", found.backlog.runs)] {
            page.line("mgmt_queue_length", &format!("queue=\"{queue}\""), length);
        }
        watched(&mut page, &found.watched);
        page.head("mgmt_store_up", "gauge", "1 if the store of the hosts answers.");
        page.line("mgmt_store_up", "", u64::from(found.store.is_some()));
        if let Some(time) = found.store {
            page.head(
                "mgmt_store_read_seconds",
                "gauge",
                "How long the store has taken to answer this time.",
            );
            page.line("mgmt_store_read_seconds", "", seconds(time));
        }
        page.head("mgmt_build_info", "gauge", "Always 1; the version is a label.");
        page.line("mgmt_build_info", &format!("version=\"{}\"", env!("CARGO_PKG_VERSION")), 1);
        self.process(&mut page);
        page.0
    }

    fn checks(&self, page: &mut Page) {
        const NAME: &str = "mgmt_checkapply_total";
        page.head(NAME, "counter", "How often resources were looked at, and put right if need be.");
        for (kind, OfKind { checks, .. }) in &self.kinds {
            for (apply, checks) in checks.iter().enumerate() {
                for (eventful, checks) in checks.iter().enumerate() {
                    for (errorful, count) in checks.iter().enumerate() {
                        let [apply, eventful, errorful] = [apply, eventful, errorful].map(|yes| yes == 1);
                        let labels = format!(
                            "kind=\"{kind}\",apply=\"{apply}\",eventful=\"{eventful}\",errorful=\"{errorful}\""
                        );
                        page.line(NAME, &labels, load(count));
                    }
                }
            }
        }
    }

    fn failures(&self, page: &mut Page) {
        const NAMES: [&str; 2] = ["soft", "hard"];
        page.head(
            "mgmt_failures_total",
            "counter",
            "Failed attempts of resources: soft, the next attempt is scheduled; hard, the declared retries are used up.",
        );
        for (kind, of) in &self.kinds {
            for (name, count) in NAMES.iter().zip(&of.failures) {
                page.line("mgmt_failures_total", &format!("kind=\"{kind}\",failure=\"{name}\""), load(count));
            }
        }
        page.head("mgmt_retries_total", "counter", "Attempts of resources whose last attempt had failed.");
        for (kind, of) in &self.kinds {
            page.line("mgmt_retries_total", &format!("kind=\"{kind}\""), load(&of.retries));
        }
        let ill: Vec<(&'static str, usize)> =
            self.ill().iter().map(|(id, failing)| (id.kind, failing.which)).collect();
        page.head("mgmt_failures", "gauge", "Resources that have failed and are not well again.");
        for (kind, _) in &self.kinds {
            for (which, name) in NAMES.iter().enumerate() {
                let count = ill.iter().filter(|ill| **ill == (*kind, which)).count();
                page.line("mgmt_failures", &format!("kind=\"{kind}\",failure=\"{name}\""), count);
            }
        }
    }

    /// What the kernel knows about this process.
    fn process(&self, page: &mut Page) {
        let mut gauge = |name: &str, kind: &str, help: &str, value: Option<f64>| {
            if let Some(value) = value {
                page.head(name, kind, help);
                page.line(name, "", value);
            }
        };
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let field = |name: &str| -> Option<f64> {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse().ok()
        };
        let kibibytes = |name: &str| field(name).map(|value| value * 1024.0);
        gauge("process_resident_memory_bytes", "gauge", "Memory in use.", kibibytes("VmRSS:"));
        gauge("process_virtual_memory_bytes", "gauge", "Memory that is mapped.", kibibytes("VmSize:"));
        gauge("process_threads", "gauge", "Threads.", field("Threads:"));
        let descriptors = std::fs::read_dir("/proc/self/fd").ok().map(Iterator::count);
        // The directory itself is one of them.
        #[expect(clippy::cast_precision_loss, reason = "descriptors are few")]
        let descriptors = descriptors.map(|count| count.saturating_sub(1) as f64);
        gauge("process_open_fds", "gauge", "Open file descriptors.", descriptors);
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        let time = Duration::try_from(time).ok().map(|time| time.as_secs_f64());
        gauge("process_cpu_seconds_total", "counter", "Time of the processors.", time);
        let started = self.started.duration_since(UNIX_EPOCH).ok().map(seconds);
        gauge("process_start_time_seconds", "gauge", "When the program has begun.", started);
    }
}

/// The states of resources, program, deploy and hosts.
fn states(page: &mut Page, found: &Found) {
    let report = &found.report;
    let is = |yes: bool| u64::from(yes);
    page.head("mgmt_resource_state", "gauge", "Resources of the graph that runs, by their state.");
    for (state, count) in report.counts.by_state() {
        page.line("mgmt_resource_state", &format!("state=\"{state}\""), count);
    }
    page.head("mgmt_host_state", "gauge", "1 for the state that this host is in.");
    for state in [HostState::Converged, HostState::Working, HostState::Degraded, HostState::Stale] {
        let label = format!("state=\"{}\"", state.name());
        page.line("mgmt_host_state", &label, is(report.state() == state));
    }
    page.head("mgmt_program_state", "gauge", "1 for the state that the program is in.");
    for state in ProgramState::NAMES {
        page.line("mgmt_program_state", &format!("state=\"{state}\""), is(report.program.name() == state));
    }
    let number = |deploy: u64| i64::try_from(deploy).unwrap_or(i64::MAX);
    let refused = report.deploy.refused.as_ref().map_or(0, |refused| refused.deploy.map_or(-1, number));
    page.head(
        "mgmt_deploy_refused",
        "gauge",
        "The number of the deploy that cannot run here, 0 without one, -1 if the number cannot be read.",
    );
    page.line("mgmt_deploy_refused", "", refused);
    page.head("mgmt_noop", "gauge", "1 if the whole graph runs under noop.");
    page.line("mgmt_noop", "", is(report.noop));
    page.head("mgmt_duplicate_host", "gauge", "1 if another agent uses the same host name.");
    page.line("mgmt_duplicate_host", "", is(report.duplicate.is_some()));
    page.head("mgmt_hosts", "gauge", "Hosts that share the store: those that run, and those that are lost.");
    for (state, count) in ["running", "lost"].iter().zip(found.hosts) {
        page.line("mgmt_hosts", &format!("state=\"{state}\""), count);
    }
    page.head("mgmt_cluster_state", "gauge", "1 for the state that the store of the hosts is in.");
    for state in ClusterState::ALL {
        let label = format!("state=\"{}\"", state.name());
        page.line("mgmt_cluster_state", &label, is(found.cluster == Some(state)));
    }
    page.head("mgmt_store_writes_total", "counter", "Transactions that this host has written to the store.");
    page.line("mgmt_store_writes_total", "", found.writes);
}

/// What was lost of the kernel's events, and what is looked at from time to time for want of watches.
fn watched(page: &mut Page, watched: &FileHubStats) {
    page.head("mgmt_file_watches", "gauge", "Directories and files that the kernel watches for us.");
    page.line("mgmt_file_watches", "", watched.watches);
    page.head("mgmt_file_scanned", "gauge", "Paths without a watch, which are looked at from time to time.");
    page.line("mgmt_file_scanned", "", watched.degraded);
    page.head(
        "mgmt_file_overflows_total",
        "counter",
        "How often events of files were lost, and everything was looked at.",
    );
    page.line("mgmt_file_overflows_total", "", watched.overflows);
}

fn load(number: &AtomicU64) -> u64 {
    number.load(Ordering::Relaxed)
}

fn seconds(time: Duration) -> f64 {
    time.as_secs_f64()
}

struct Page(String);

impl Page {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a text cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn line(&mut self, name: &str, labels: &str, value: impl Display) {
        let _ = match labels.is_empty() {
            true => writeln!(self.0, "{name} {value}"),
            false => writeln!(self.0, "{name}{{{labels}}} {value}"),
        };
    }

    fn histogram(&mut self, name: &str, labels: &str, histogram: &Histogram) {
        let comma = if labels.is_empty() { "" } else { "," };
        let mut sum = 0;
        let bounds = BOUNDS.iter().map(f64::to_string).chain(["+Inf".to_owned()]);
        for (bound, count) in bounds.zip(&histogram.counts) {
            sum += load(count);
            self.line(&format!("{name}_bucket"), &format!("{labels}{comma}le=\"{bound}\""), sum);
        }
        self.line(
            &format!("{name}_sum"),
            labels,
            seconds(Duration::from_nanos(load(&histogram.nanoseconds))),
        );
        self.line(&format!("{name}_count"), labels, sum);
    }
}
