//! The monitor: compares what `mgmt status` and the metrics say with what the oracle sees, about twice a second.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::chaos::site::{self, Expectation};

/// The working directory of the agent.
pub(crate) const PREFIX: &str = "/chaos-prefix";
/// The port of its metrics.
pub(crate) const METRICS_PORT: u16 = 9237;
/// The number of samples in a row in which the agent may claim to be converged while the same resource is wrong: it takes a
/// moment from a change to its event. On a busy machine samples take longer, too.
const MAX_FALSE_CLAIMS: u32 = 6;
/// The time that such samples may span: a watch on the message bus counts as failed once the bus has been away for 5 s, and a
/// status is published within a second.
const MAX_FALSE_CLAIM_TIME: Duration = Duration::from_secs(8);
/// The number of samples in a row in which status and metrics may differ although neither of them changes: a status is published
/// within a second.
const MAX_DISAGREEMENTS: u32 = 6;
const SAMPLE_INTERVAL: Duration = Duration::from_millis(500);

/// Samples on a thread of its own.
pub(crate) struct Monitor {
    shared: Arc<Shared>,
    thread: Option<std::thread::JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    latest: Mutex<Latest>,
}

#[derive(Default)]
struct Latest {
    samples: u64,
    converged: u64,
    degraded: u64,
    /// All resources were right before and after a status that said converged.
    healthy_at: Option<Instant>,
    wrong: Vec<String>,
    status: Option<Value>,
    failure: Option<String>,
}

/// Samples in a row.
#[derive(Default)]
struct Streaks {
    /// Of each resource: since when, and how many.
    false_claims: BTreeMap<String, (Option<Instant>, u32)>,
    /// What the status and the metrics counted, and for how many samples they have differed like that.
    disagreement: Option<(Counts, Counts, u32)>,
}

/// The number of resources in each state.
type Counts = BTreeMap<String, u64>;

impl Monitor {
    pub(crate) fn start(
        expectations: Vec<Expectation>,
        paused: Arc<AtomicBool>,
        pauses: Arc<AtomicU64>,
    ) -> Monitor {
        let shared = Arc::<Shared>::default();
        let thread = std::thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                let mut streaks = Streaks::default();
                while !shared.stop.load(Ordering::Acquire) {
                    sample(&expectations, (&paused, &pauses), &mut streaks, &shared);
                    std::thread::sleep(SAMPLE_INTERVAL);
                }
            }
        });
        Monitor { shared, thread: Some(thread) }
    }

    /// Waits until everything is right and the agent says so, and gives how long that took.
    pub(crate) fn wait_until_healthy(&self, limit: Duration) -> Result<Duration, String> {
        let began = Instant::now();
        loop {
            let latest = self.shared.latest.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(failure) = &latest.failure {
                return Err(failure.clone());
            }
            if let Some(at) = latest.healthy_at.filter(|at| *at > began) {
                return Ok(at - began);
            }
            if self.thread.as_ref().is_some_and(std::thread::JoinHandle::is_finished) {
                return Err("the monitor has panicked".to_owned());
            }
            if began.elapsed() > limit {
                let Latest { wrong, status, .. } = &*latest;
                let unhealthy =
                    status.as_ref().map_or(&Value::Null, |status| &host(status)["report"]["unhealthy"]);
                return Err(format!(
                    "not right after {limit:?}: {wrong:?}\nunhealthy, says mgmt: {unhealthy:#}"
                ));
            }
            drop(latest);
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Stops and gives a summary.
    pub(crate) fn finish(mut self) -> String {
        self.shared.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
        let latest = self.shared.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(failure) = &latest.failure {
            panic!("{failure}");
        }
        // A run in which nothing was ever seen to be wrong has tested nothing.
        assert!(latest.degraded > 0 && latest.converged > 0, "{} samples", latest.samples);
        format!("{} samples, {} converged, {} degraded", latest.samples, latest.converged, latest.degraded)
    }
}

/// The resources that are wrong.
fn wrong(expectations: &[Expectation]) -> Vec<&str> {
    expectations
        .iter()
        .filter(|expectation| !expectation.holds())
        .map(|expectation| expectation.resource.as_str())
        .collect()
}

fn sample(
    expectations: &[Expectation],
    (paused, pauses): (&AtomicBool, &AtomicU64),
    streaks: &mut Streaks,
    shared: &Shared,
) {
    let began = Instant::now();
    let earlier_pauses = pauses.load(Ordering::Acquire);
    let before = wrong(expectations);
    let status = status();
    let counts = metrics();
    let after = wrong(expectations);
    // An agent that is stopped by a signal knows nothing and says nothing.
    if paused.load(Ordering::Acquire) || pauses.load(Ordering::Acquire) != earlier_pauses {
        return;
    }
    let converged = status.as_ref().is_some_and(|status| state(status) == "converged");
    let still_wrong: Vec<&str> = before.iter().copied().filter(|resource| after.contains(resource)).collect();
    let mut failure = match status.as_ref().filter(|_| !converged) {
        Some(status) => streaks.claim(is_at_rest(status), &unlisted(status, &still_wrong), began),
        None => streaks.claim(converged, &still_wrong, began),
    };
    if let (Some(status), Some(counts)) = (&status, &counts) {
        failure = failure.or(streaks.compare(status, counts));
    }
    let mut latest = shared.latest.lock().unwrap_or_else(PoisonError::into_inner);
    latest.samples += 1;
    latest.converged += u64::from(converged);
    latest.degraded += u64::from(status.as_ref().is_some_and(|status| state(status) == "degraded"));
    if converged && before.is_empty() && after.is_empty() {
        latest.healthy_at = Some(began);
    }
    latest.wrong = after.into_iter().map(str::to_owned).collect();
    latest.status = status;
    latest.failure = latest.failure.take().or(failure);
}

impl Streaks {
    /// Converged implies that every resource is right, and degraded at rest that every other one is.
    fn claim(&mut self, converged: bool, still_wrong: &[&str], began: Instant) -> Option<String> {
        self.false_claims.retain(|resource, _| converged && still_wrong.contains(&resource.as_str()));
        for resource in still_wrong.iter().filter(|_| converged) {
            let (since, count) = self.false_claims.entry((*resource).to_owned()).or_default();
            *count += 1;
            let time = began.duration_since(*since.get_or_insert(began));
            if *count > MAX_FALSE_CLAIMS && time > MAX_FALSE_CLAIM_TIME {
                return Some(format!(
                    "well, says mgmt in {count} samples over {time:?}, and {resource} is wrong"
                ));
            }
        }
        None
    }

    /// Status and metrics count the same, and every resource once. A status is published a little later than the metrics know of
    /// it, so a difference counts only while neither changes.
    fn compare(&mut self, status: &Value, metrics: &Counts) -> Option<String> {
        const STATES: [&str; 6] = ["retrying", "failed", "blocked", "flapping", "stale", "total"];
        if let Some(failure) = counted_twice(&host(status)["report"]) {
            return Some(failure);
        }
        let counts = &host(status)["report"]["counts"];
        let of = |count: &dyn Fn(&str) -> Option<u64>| -> Counts {
            STATES.iter().map(|state| ((*state).to_owned(), count(state).unwrap_or(0))).collect()
        };
        let says = of(&|state| counts[state].as_u64());
        let shows = of(&|state| metrics.get(state).copied());
        let earlier = self.disagreement.take();
        if says == shows {
            return None;
        }
        let samples = match earlier {
            Some((said, showed, samples)) if said == says && showed == shows => samples + 1,
            _ => 1,
        };
        let failure = (samples > MAX_DISAGREEMENTS)
            .then(|| format!("for {samples} samples the status counts {says:?}, the metrics {shows:?}"));
        self.disagreement = Some((says, shows, samples));
        failure
    }
}

/// A resource is in one state: the counts add up to all resources, and no resource is listed twice.
fn counted_twice(report: &Value) -> Option<String> {
    let names = report["unhealthy"].as_array().into_iter().flatten();
    let names: Vec<&str> = names.filter_map(|resource| resource["resource"].as_str()).collect();
    let twice = names.iter().enumerate().find(|(at, name)| names[..*at].contains(name));
    if let Some((_, name)) = twice {
        return Some(format!("{name} is listed twice: {report}"));
    }
    let counts = report["counts"].as_object()?;
    let total = counts.get("total").and_then(Value::as_u64).unwrap_or(0);
    let others = counts.iter().filter(|(state, _)| *state != "total");
    let sum: u64 = others.filter_map(|(_, count)| count.as_u64()).sum();
    (sum > total).then(|| format!("{sum} states of {total} resources: {report}"))
}

/// What `mgmt status` says.
fn status() -> Option<Value> {
    let output = Command::new("/mgmt-test-result/mgmt")
        .args(["status", "--prefix", PREFIX, "--format", "json"])
        .output()
        .unwrap();
    serde_json::from_slice(&output.stdout).ok()
}

/// The only host.
fn host(status: &Value) -> &Value {
    status["hosts"].as_object().and_then(|hosts| hosts.values().next()).unwrap_or(&Value::Null)
}

fn state(status: &Value) -> &str {
    host(status)["state"].as_str().unwrap_or("")
}

/// Nothing is under way, and everything that is unhealthy is listed.
fn is_at_rest(status: &Value) -> bool {
    let report = &host(status)["report"];
    let counts = ["failed", "retrying", "blocked", "flapping", "stale", "unknown"]
        .map(|state| &report["counts"][state]);
    let unhealthy: u64 = counts.iter().filter_map(|count| count.as_u64()).sum();
    let listed = report["unhealthy"].as_array().map_or(0, Vec::len);
    report["quiet"] == true && state(status) == "degraded" && unhealthy == listed as u64
}

/// Those resources that the status does not list as unhealthy.
fn unlisted<'a>(status: &Value, resources: &[&'a str]) -> Vec<&'a str> {
    let listed = host(status)["report"]["unhealthy"].as_array();
    let is_listed = |name: &str| listed.is_some_and(|all| all.iter().any(|one| one["resource"] == name));
    resources.iter().copied().filter(|name| !is_listed(name)).collect()
}

/// The number of resources in each state, and of all states together, by the metrics.
fn metrics() -> Option<Counts> {
    let page = site::fetch(METRICS_PORT, "/metrics")?;
    let lines = page.lines().filter_map(|line| line.strip_prefix("mgmt_resource_state{state=\""));
    let counts = lines.filter_map(|line| {
        let (state, rest) = line.split_once('"')?;
        Some((state.to_owned(), rest.rsplit(' ').next()?.parse().ok()?))
    });
    let mut counts: Counts = counts.collect();
    counts.insert("total".to_owned(), counts.values().sum());
    Some(counts)
}
