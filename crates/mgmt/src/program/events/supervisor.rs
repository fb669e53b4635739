//! Supervision of event sources: one that breaks is set up again, with exponential backoff and jitter.

use std::hash::BuildHasher as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mgmt_funcs::Watch;
use tokio::sync::watch;

use super::Happenings;

/// The delay before the first attempt to set a source up again.
const MIN_DELAY: Duration = Duration::from_secs(1);
/// The longest delay.
const MAX_DELAY: Duration = Duration::from_secs(300);
/// Each delay is shortened by up to this part of it, by chance, so that hosts that failed together do not retry together.
const JITTER: f64 = 0.25;
/// A source that worked for so long starts again at the shortest delay.
const STABLE_AFTER: Duration = Duration::from_secs(60);

/// Where one source reports its events and its state.
#[derive(Clone)]
pub(super) struct SourceEvents {
    happenings: Arc<Happenings>,
    watch: Watch,
}

impl SourceEvents {
    pub(super) fn new(happenings: Arc<Happenings>, watch: Watch) -> SourceEvents {
        SourceEvents { happenings, watch }
    }

    /// Something has happened.
    pub(super) fn event(&self) {
        self.happenings.add(&self.watch);
    }

    /// The source works from now on. What happened before is looked at again.
    pub(super) fn works(&self) {
        self.happenings.source(&self.watch, None);
    }

    /// The source does not work. The value is read all the same, as often as the source is set up again.
    fn is_broken(&self, error: String) {
        self.happenings.source(&self.watch, Some(error));
    }
}

/// Exponential backoff with jitter.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// Waits before the next attempt, or until somebody asks for one. An attempt that was asked for does not lengthen the backoff.
    pub(super) async fn pause(&mut self, hurried: &mut watch::Receiver<()>) {
        let chance = std::collections::hash_map::RandomState::new().hash_one(0) >> 32;
        #[expect(clippy::cast_precision_loss, reason = "a random number needs no more precision")]
        let chance = chance as f64 / f64::from(u32::MAX);
        tokio::select! {
            () = tokio::time::sleep(delay(self.failures, chance)) => {
                self.failures = self.failures.saturating_add(1);
            }
            () = asked(hurried) => {}
        }
    }
}

async fn asked(hurried: &mut watch::Receiver<()>) {
    if hurried.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// The delay after so many failures in a row, where `chance` is between 0 and 1.
fn delay(failures: u32, chance: f64) -> Duration {
    let doubled = MIN_DELAY.saturating_mul(2_u32.saturating_pow(failures.min(16)));
    doubled.min(MAX_DELAY).mul_f64(1.0 - JITTER * chance.clamp(0.0, 1.0))
}

/// Follows a source until it has come to its end, however often it breaks before. `follow` sets it up, says when it
/// [works](SourceEvents::works), and ends with the reason when it breaks.
pub(super) async fn supervise<F, Following>(
    events: SourceEvents,
    mut hurried: watch::Receiver<()>,
    mut follow: F,
) where
    F: FnMut(SourceEvents) -> Following,
    Following: Future<Output = Result<(), String>>,
{
    let mut backoff = Backoff::default();
    loop {
        let started = Instant::now();
        let Err(error) = follow(events.clone()).await else {
            return events.works();
        };
        tracing::debug!("{:?}: {error}", events.watch);
        if started.elapsed() >= STABLE_AFTER {
            backoff = Backoff::default();
        }
        events.is_broken(error);
        backoff.pause(&mut hurried).await;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn delays_double_up_to_five_minutes_and_are_shortened_by_chance() {
        let seconds: Vec<u64> = (0..11).map(|failures| delay(failures, 0.0).as_secs()).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        assert_eq!(delay(u32::MAX, 0.0), MAX_DELAY);
        assert_eq!(delay(0, 1.0), Duration::from_millis(750));
    }

    #[tokio::test(start_paused = true)]
    async fn a_source_that_breaks_is_set_up_again_and_each_time_something_is_read_anew() {
        let happenings = Arc::<Happenings>::default();
        let events = SourceEvents::new(Arc::clone(&happenings), Watch::Links);
        let (hurry, hurried) = watch::channel(());
        let mut attempts = 0;
        let task = tokio::spawn(supervise(events, hurried, move |events| {
            attempts += 1;
            async move {
                if attempts == 3 {
                    events.works();
                    std::future::pending::<()>().await;
                }
                Err(format!("attempt {attempts}"))
            }
        }));
        let state = |error: Option<&str>| [(Watch::Links, error.map(str::to_owned))].into();
        for (error, asked) in [(Some("attempt 1"), false), (Some("attempt 2"), true), (None, false)] {
            let happened = happenings.next().await;
            assert_eq!((happened.sources, happened.events), (state(error), HashSet::from([Watch::Links])));
            if asked {
                hurry.send_replace(());
            }
        }
        task.abort();
    }
}
