//! Retry of a deploy that cannot run: on events, and with exponential backoff and jitter.

use std::hash::BuildHasher as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use mgmt_engine::Preparation;
use mgmt_health::RefusedDeploy;
use mgmt_lang::{Outcome, Running};
use mgmt_store::{Deploy, DeployError, UnreadableDeploy};
use tokio::sync::watch;

use super::super::First;
use super::super::program::Loaded as LoadedProgram;
use super::super::told::Told;
use super::Arrival;
use super::load::{Directory, Loader, Offer, Refusal, Runnable};
use crate::program::events::Sources;
use crate::program::surroundings::Surroundings;

/// The delay before the first retry.
const MIN_DELAY: Duration = Duration::from_secs(1);
/// The longest delay.
const MAX_DELAY: Duration = Duration::from_secs(300);
/// The longest delay while the disk is full, because no event tells that there is room again.
const MAX_DELAY_FOR_SPACE: Duration = Duration::from_secs(30);

/// How long the graph of a program waits for values that are not there yet, as it does when the program runs.
const VALUES_TIMEOUT: Duration = Duration::from_secs(10);

/// The newest deploy, which cannot run, and when it is tried again.
pub(super) struct Retry {
    /// None if its record cannot be read, so that there is nothing but to read it again.
    pub(super) arrival: Option<Arrival>,
    /// None if its number cannot be read.
    deploy: Option<u64>,
    /// In seconds since 1970.
    since: u64,
    error: String,
    attempts: u32,
    /// None if time cannot change it.
    next: Option<Instant>,
    last: Instant,
}

impl Retry {
    /// A deploy could not run. `before` is what was known of it.
    pub(super) fn new(arrival: Arrival, refusal: &Refusal, before: Option<Retry>) -> Retry {
        let longest = if refusal.needs_space { MAX_DELAY_FOR_SPACE } else { MAX_DELAY };
        let (deploy, error) = (Some(arrival.number()), refusal.failure.reason().to_owned());
        let retry = Retry::after(before, deploy, error, longest);
        Retry { arrival: Some(arrival), next: retry.next.filter(|_| refusal.is_passing), ..retry }
    }

    /// The record of the newest deploy cannot be read.
    pub(super) fn unreadable(unreadable: &UnreadableDeploy, before: Option<Retry>) -> Retry {
        let error = format!("its record cannot be read: {}", unreadable.reason);
        Retry::after(before, unreadable.id, error, MAX_DELAY)
    }

    fn after(before: Option<Retry>, deploy: Option<u64>, error: String, longest: Duration) -> Retry {
        let before = before.filter(|before| before.deploy == deploy);
        let attempts = before.as_ref().map_or(0, |before| before.attempts).saturating_add(1);
        let since = before.map_or_else(unix_now, |before| before.since);
        let last = Instant::now();
        let next = Some(last + delay(attempts, longest, random()));
        Retry { arrival: None, deploy, since, error, attempts, next, last }
    }

    /// Whether it is this deploy.
    pub(super) fn is_of(&self, arrival: &Arrival) -> bool {
        self.deploy == Some(arrival.number())
    }

    /// Whether it is a newer one than this.
    pub(super) fn is_newer_than(&self, arrival: &Arrival) -> bool {
        self.deploy.is_some_and(|deploy| deploy > arrival.number())
    }

    /// The deploy, as messages name it.
    pub(super) fn name(&self) -> String {
        self.report().name()
    }

    pub(super) fn error(&self) -> &str {
        &self.error
    }

    /// The time until the next attempt, for people.
    pub(super) fn when(&self) -> String {
        match self.next {
            Some(next) => {
                let left = next.saturating_duration_since(Instant::now());
                format!("retrying in {}s", left.as_secs_f64().ceil())
            }
            None => "retrying when it or the store changes, or on SIGHUP".to_owned(),
        }
    }

    pub(super) fn report(&self) -> RefusedDeploy {
        let next =
            self.next.map(|next| unix_now() + next.saturating_duration_since(Instant::now()).as_secs());
        RefusedDeploy { deploy: self.deploy, since: self.since, error: self.error.clone(), next }
    }

    /// When the next attempt is due.
    pub(super) fn due(&self) -> Option<Instant> {
        self.next
    }

    /// It was tried once more, with the same result.
    pub(super) fn postpone(&mut self) {
        self.attempts = self.attempts.saturating_add(1);
        self.last = Instant::now();
        self.next = Some(self.last + delay(self.attempts, MAX_DELAY, random()));
    }

    /// Has it tried as soon as an event allows, but not more often than once in the shortest delay.
    pub(super) fn hurry(&mut self) {
        let soon = (self.last + MIN_DELAY).max(Instant::now());
        self.next = Some(self.next.map_or(soon, |next| next.min(soon)));
    }
}

/// The program of this run, which the store did not take. It is offered again with backoff.
pub(super) struct Publishing {
    pub(super) offer: Offer,
    pub(super) told: Arc<Told>,
    /// The number that it would have got.
    pub(super) number: u64,
    /// An attempt is being made: what is heard of the store may be its outcome.
    pub(super) is_busy: Arc<watch::Sender<bool>>,
}

impl Publishing {
    /// Reports why, and tries until the store takes it.
    pub(super) async fn publish(self, mut error: DeployError) -> Deploy {
        let (since, mut attempts) = (unix_now(), 1_u32);
        loop {
            let delay = delay(attempts, MAX_DELAY_FOR_SPACE, random());
            let error_text = format!("cannot give the program of this run to other hosts: {error}");
            tracing::error!("{error_text}; it runs here; retrying in {}s", delay.as_secs_f64().ceil());
            self.told.deploy_refused(Some(RefusedDeploy {
                deploy: Some(self.number),
                since,
                error: error_text,
                next: Some(unix_now() + delay.as_secs()),
            }));
            tokio::time::sleep(delay).await;
            self.is_busy.send_replace(true);
            let published = self.offer.publish().await;
            self.is_busy.send_replace(false);
            match published {
                Ok(deploy) => return deploy,
                Err(again) => error = again,
            }
            attempts = attempts.saturating_add(1);
        }
    }
}

fn unix_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn random() -> u64 {
    std::collections::hash_map::RandomState::new().hash_one(0)
}

/// The delay after so many attempts: doubled each time, up to a longest one, and up to a fifth more or less by chance.
fn delay(attempts: u32, longest: Duration, random: u64) -> Duration {
    let doubled = MIN_DELAY.saturating_mul(1_u32.checked_shl(attempts.saturating_sub(1)).unwrap_or(u32::MAX));
    let percent = u32::try_from(random % 41).unwrap_or(0) + 80;
    doubled.min(longest).saturating_mul(percent) / 100
}

/// Evaluates a program that could not run beside the one that does, without any effect, until an event changes its outcome.
pub(super) struct Rehearsal {
    loaded: LoadedProgram,
    how: Preparation,
    /// Its first graph was refused, so it is no news.
    skip_first: bool,
    /// Its files.
    _directory: Option<Arc<Directory>>,
}

impl Rehearsal {
    /// A rehearsal of what could not run, if it is a program.
    pub(super) fn of(failed: Runnable, refusal: &Refusal) -> Option<Rehearsal> {
        let First::Program(loaded) = failed.what else { return None };
        let skip_first = !refusal.failure.message.is_empty();
        Some(Rehearsal { loaded, how: failed.how, skip_first, _directory: failed.directory })
    }

    /// Waits until it has another graph than the one that was refused, and one that can run. Says all the time whether there is none.
    pub(super) async fn changed(self, loader: Arc<Loader>, is_hopeless: Arc<AtomicBool>) {
        let checked = Arc::clone(&self.loaded.checked);
        let means = &loader.means;
        let surroundings = Arc::new(Surroundings::of(&means.host, &means.shared, checked.deploy.clone()));
        let mut sources = Sources::new(Some(Arc::clone(&means.engine)), Arc::clone(&surroundings));
        let host = Arc::clone(&surroundings);
        let mut running = tokio::task::block_in_place(|| Running::new(checked, mgmt_resources::KINDS, host));
        let happenings = Arc::clone(&sources.happenings);
        let mut skip = self.skip_first;
        let (began, mut is_pending) = (Instant::now(), false);
        loop {
            surroundings.look_at_the_clock();
            let outcome = tokio::task::block_in_place(|| running.stabilize());
            if let Some(parts) = running.frozen_parts() {
                is_pending = parts.iter().any(|part| part.error.is_none());
            }
            let left = VALUES_TIMEOUT.checked_sub(began.elapsed()).filter(|_| is_pending);
            match outcome {
                _ if left.is_some() => {}
                Outcome::Graph(graph) => {
                    let can_run = loader.prepares(&graph, &self.how).is_ok();
                    if !std::mem::take(&mut skip) && can_run {
                        return;
                    }
                    is_hopeless.store(!can_run, Ordering::Release);
                }
                // Without a reason there is not enough memory now.
                Outcome::Wrong(wrong) => is_hopeless.store(!wrong.is_empty(), Ordering::Release),
                Outcome::Unchanged | Outcome::Changed(_) | Outcome::Waiting => {}
            }
            // Each graph is the whole one.
            running.was_refused();
            sources.apply(running.watch_changes());
            let happened = match left {
                Some(left) => tokio::time::timeout(left, happenings.next()).await.unwrap_or_default(),
                None => happenings.next().await,
            };
            happened.iter().for_each(|watch| running.happened(watch));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_longest_and_differ_by_chance() {
        for (attempts, seconds) in [(1, 1), (2, 2), (3, 4), (9, 256), (10, 300), (40, 300), (u32::MAX, 300)] {
            let expected = Duration::from_secs(seconds);
            for random in 0..100 {
                let found = delay(attempts, MAX_DELAY, random);
                assert!(found >= expected * 4 / 5 && found <= expected * 6 / 5, "{attempts}: {found:?}");
            }
        }
        assert_eq!(delay(40, MAX_DELAY_FOR_SPACE, 20), MAX_DELAY_FOR_SPACE);
        assert_ne!(delay(5, MAX_DELAY, 0), delay(5, MAX_DELAY, 40));
    }
}
