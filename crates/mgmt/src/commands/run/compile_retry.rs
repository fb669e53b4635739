//! Exponential backoff with jitter for compiles that have failed, and the program state that follows from them.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mgmt_health::ProgramState;

/// The delay before the first retry where this host compiles by itself,
const MIN_LOCAL_DELAY: Duration = Duration::from_secs(1);
/// and where a server does, for many hosts.
const MIN_SERVER_DELAY: Duration = Duration::from_secs(5);
/// The longest delay between two retries.
const MAX_DELAY: Duration = Duration::from_secs(300);
/// How much of a delay is left to chance, so that hosts that failed together do not retry together.
const JITTER: f64 = 0.2;

/// A compile that has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CompileError {
    /// The manifest has errors.
    Invalid(String),
    /// The manifest could not be compiled now.
    Unavailable(String),
    /// The engine has refused the graph. Time does not change that.
    Refused(String),
}

/// The failures since the last compile that succeeded.
#[derive(Debug, Default)]
pub(super) struct CompileRetry {
    attempts: u32,
    /// When the first of them happened, in seconds since 1970.
    since: u64,
    error: Option<CompileError>,
}

impl CompileRetry {
    /// Notes a failure. Says whether it is another one than before.
    pub(super) fn failed(&mut self, error: CompileError) -> bool {
        if self.error.is_none() {
            self.since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        }
        let is_new = self.error.as_ref() != Some(&error);
        self.attempts = self.attempts.saturating_add(1);
        self.error = Some(error);
        is_new
    }

    /// Notes that a compile has succeeded.
    pub(super) fn succeeded(&mut self) {
        *self = CompileRetry::default();
    }

    /// Has the next delay be the shortest again, because something was edited or somebody has asked.
    pub(super) fn restart(&mut self) {
        self.attempts = self.attempts.min(1);
    }

    /// How long to wait before the next attempt; nothing if the last one has succeeded, or if time makes no difference.
    pub(super) fn delay(&self, is_remote: bool) -> Option<Duration> {
        self.error.as_ref().filter(|error| !matches!(error, CompileError::Refused(_)))?;
        let chance = RandomState::new().build_hasher().finish();
        #[expect(clippy::cast_precision_loss, reason = "a random number needs no more precision")]
        let chance = (chance >> 32) as f64 / f64::from(u32::MAX);
        Some(delay(self.attempts, if is_remote { MIN_SERVER_DELAY } else { MIN_LOCAL_DELAY }, chance))
    }

    /// The state that is reported.
    pub(super) fn state(&self) -> ProgramState {
        let bounded = |error: &str| mgmt_health::bounded_error(error).to_owned();
        match &self.error {
            None => ProgramState::Live,
            Some(CompileError::Invalid(error)) => {
                ProgramState::Invalid { since: self.since, error: bounded(error) }
            }
            Some(CompileError::Unavailable(error) | CompileError::Refused(error)) => {
                ProgramState::Stale { since: self.since, error: bounded(error), whole: false }
            }
        }
    }
}

/// The delay after so many failures, where `chance` is between 0 and 1.
fn delay(attempts: u32, min: Duration, chance: f64) -> Duration {
    let doubled = min.saturating_mul(2_u32.saturating_pow(attempts.saturating_sub(1).min(16)));
    doubled.min(MAX_DELAY).mul_f64(1.0 - JITTER * chance.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_five_minutes_and_are_never_longer() {
        let seconds: Vec<u64> =
            (1..=12).map(|attempts| delay(attempts, MIN_LOCAL_DELAY, 0.0).as_secs()).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
        assert_eq!(delay(u32::MAX, MIN_SERVER_DELAY, 0.0), MAX_DELAY);
        assert_eq!(delay(1, MIN_LOCAL_DELAY, 1.0), Duration::from_millis(800));
    }

    #[test]
    fn a_failure_lasts_until_a_success_and_the_same_one_is_not_new() {
        let mut retry = CompileRetry::default();
        assert_eq!(retry.delay(false), None);
        assert_eq!(retry.state(), ProgramState::Live);
        let error = || CompileError::Invalid("line 1".to_owned());
        assert!(retry.failed(error()));
        assert!(!retry.failed(error()));
        assert!(retry.delay(false).is_some_and(|delay| delay > Duration::from_secs(1)));
        retry.restart();
        assert!(retry.delay(false).is_some_and(|delay| delay <= Duration::from_secs(1)));
        assert!(matches!(retry.state(), ProgramState::Invalid { since, .. } if since > 0));
        assert!(retry.failed(CompileError::Unavailable("no server".to_owned())));
        assert!(matches!(retry.state(), ProgramState::Stale { .. }));
        assert!(retry.failed(CompileError::Refused("two of one name".to_owned())));
        assert_eq!(retry.delay(true), None);
        assert!(retry.state().is_outdated());
        retry.succeeded();
        assert_eq!(retry.delay(true), None);
    }
}
