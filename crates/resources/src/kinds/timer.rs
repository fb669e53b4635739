//! `timer`: time passes.

use std::time::{Duration, Instant};

use mgmt_resource::{Checked, Context, Invalid, Kind, Nothing, Resource, Result, Watch};
use mgmt_value::Str;

/// Ticks in regular intervals.
///
/// Each tick notifies the resources behind a notifying edge. A notification starts the interval anew, and is passed on,
/// too. Neither is a change of the host: it is not counted, logged or recorded as one, and does not keep the host from
/// converging. With the metaparameter `poll`, a check that comes when an interval is over is the tick.
///
/// ```mcl
/// timer "every minute" {
///     interval => 60,
///
///     Notify => Exec["look"],
/// }
/// exec "look" {
///     cmd => "/usr/bin/uptime",
/// }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Resource)]
#[resource(kind = "timer", refresh)]
pub struct Timer {
    /// The length of an interval in seconds, at least 1.
    pub interval: u32,
}

/// Where the present interval began. A run at its end, or later, is a tick; the first run of all only begins.
///
/// The watch wakes us at the end of an interval, but so do others at any time: a run has to know by itself. Beginnings
/// stay in step with each other, so that one late run does not make the next one early.
#[derive(Debug, Default)]
pub struct Phase {
    began: Option<Instant>,
}

/// How much too early the watch may be. Clocks are read at different moments and to different precision, and a tick that
/// is mistaken for something else would be lost.
const SLACK: Duration = Duration::from_millis(10);

impl Kind for Timer {
    type State = Phase;
    type Sends = Nothing;

    fn validate(&self, _: &Str) -> Result<(), Invalid> {
        if self.interval == 0 {
            return Err(Invalid::field("interval", "expected a number of seconds from 1, found 0"));
        }
        Ok(())
    }

    fn watches(&self, _: &Str) -> Vec<Watch> {
        vec![Watch::Interval(self.length())]
    }

    async fn check_apply(&self, phase: &mut Phase, cx: &mut Context<'_>) -> Result<Checked> {
        let now = Instant::now();
        if phase.began.is_none() || (cx.refresh && cx.apply) {
            let first = phase.began.is_none();
            phase.began = Some(now);
            cx.rearm = true;
            return Ok(if first && !cx.refresh { Checked::Right } else { Checked::Forwarded });
        }
        let ticked = phase.advance(now, self.length());
        Ok(if ticked || cx.refresh { Checked::Forwarded } else { Checked::Right })
    }
}

impl Timer {
    fn length(&self) -> Duration {
        // Validation refuses zero; a value that arrives without validation must not divide by it.
        Duration::from_secs(u64::from(self.interval.max(1)))
    }
}

impl Phase {
    /// Goes on to the present interval, and tells whether that is another one.
    fn advance(&mut self, now: Instant, length: Duration) -> bool {
        let began = *self.began.get_or_insert(now);
        let elapsed = now.saturating_duration_since(began) + SLACK;
        if elapsed < length {
            return false;
        }
        let over = Duration::from_nanos_u128(elapsed.as_nanos() % length.as_nanos());
        self.began = Some(began + (elapsed - over));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const MILLISECOND: Duration = Duration::from_millis(1);

    /// Runs at these moments after the first one, and tells which of them were ticks.
    fn ticks(length: Duration, runs: &[Duration]) -> Vec<bool> {
        let start = Instant::now();
        let mut phase = Phase { began: Some(start) };
        runs.iter().map(|run| phase.advance(start + *run, length)).collect()
    }

    #[test]
    fn runs_before_the_end_of_the_interval_are_no_ticks() {
        assert_eq!(
            ticks(5 * SECOND, &[SECOND, 4 * SECOND, 5 * SECOND, 6 * SECOND]),
            [false, false, true, false]
        );
    }

    #[test]
    fn a_late_run_does_not_cost_the_next_tick() {
        let late = 300 * MILLISECOND;
        assert_eq!(ticks(SECOND, &[SECOND + late, 2 * SECOND, 3 * SECOND]), [true, true, true]);
    }

    #[test]
    fn a_run_that_is_a_moment_early_is_the_tick_and_the_next_is_another() {
        let early = 2 * MILLISECOND;
        assert_eq!(ticks(SECOND, &[SECOND - early, 2 * SECOND - early, 3 * SECOND]), [true, true, true]);
        assert_eq!(ticks(SECOND, &[SECOND - 50 * MILLISECOND, SECOND]), [false, true]);
        assert_eq!(ticks(SECOND, &[SECOND - early, SECOND]), [true, false], "never twice");
    }

    #[test]
    fn intervals_that_were_slept_through_are_one_tick() {
        let runs = [10 * SECOND + 500 * MILLISECOND, 10 * SECOND + 900 * MILLISECOND, 11 * SECOND];
        assert_eq!(ticks(SECOND, &runs), [true, false, true]);
    }

    #[test]
    fn the_longest_interval_has_room() {
        let length = Timer { interval: u32::MAX }.length();
        assert_eq!(ticks(length, &[length - SECOND, length, 2 * length]), [false, true, true]);
    }
}
