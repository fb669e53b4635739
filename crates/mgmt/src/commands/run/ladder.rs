//! How signals end the program: each climbs one rung.
//!
//! The first lets what runs finish, the second cancels it, the third interrupts it by force; more do nothing. A person
//! at a terminal presses ^C again when it takes too long. A service manager signals only once, so after a first signal
//! other than SIGINT the remaining rungs are climbed by the clock.

use std::time::{Duration, Instant};

use mgmt_engine::Level;

use crate::commands::exit_codes::Ending;

/// How long each rung gets when the clock climbs.
const PATIENCE: Duration = Duration::from_secs(15);

/// What came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// SIGINT
    Interrupt,
    /// SIGTERM
    Terminate,
}

impl Stop {
    pub(super) fn name(self) -> &'static str {
        match self {
            Stop::Interrupt => "SIGINT",
            Stop::Terminate => "SIGTERM",
        }
    }
}

/// What a rung means, for the log.
pub(super) fn describe(level: Level) -> &'static str {
    match level {
        Level::Graceful => "stopping, what is running may finish",
        Level::Cancel => "cancelling what is running",
        Level::Interrupt => "interrupting what is running",
    }
}

/// Where we are.
#[derive(Debug, Default)]
pub(super) struct Ladder {
    rungs: usize,
    last: Option<Stop>,
    next: Option<Instant>,
}

const RUNGS: [Level; 3] = [Level::Graceful, Level::Cancel, Level::Interrupt];

impl Ladder {
    /// A signal came. Gives what to do, if anything.
    pub(super) fn signal(&mut self, stop: Stop, now: Instant) -> Option<Level> {
        let level = *RUNGS.get(self.rungs)?;
        self.last = Some(stop);
        self.climb(now, self.rungs == 0 && stop != Stop::Interrupt || self.next.is_some());
        Some(level)
    }

    /// The program ends for a reason of its own. That takes the first rung, and the clock climbs from there.
    pub(super) fn begin(&mut self, now: Instant) -> Option<Level> {
        if self.rungs > 0 {
            return None;
        }
        self.climb(now, true);
        Some(RUNGS[0])
    }

    /// The time of [`Ladder::deadline`] has come. Gives what to do, if anything.
    pub(super) fn expire(&mut self, now: Instant) -> Option<Level> {
        self.next.filter(|next| *next <= now)?;
        let level = *RUNGS.get(self.rungs)?;
        self.climb(now, true);
        Some(level)
    }

    fn climb(&mut self, now: Instant, by_clock: bool) {
        self.rungs += 1;
        self.next = (by_clock && self.rungs < RUNGS.len()).then(|| now + PATIENCE);
    }

    /// When the clock climbs next.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.next
    }

    /// How the program ends if it ends now; `None` before the first signal.
    pub(super) fn ending(&self) -> Option<Ending> {
        match (self.rungs, self.last?) {
            (0 | 1, _) => Some(Ending::Graceful),
            (_, Stop::Interrupt) => Some(Ending::Interrupted),
            (_, Stop::Terminate) => Some(Ending::Terminated),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_signal_climbs_one_rung_and_later_ones_do_nothing() {
        let now = Instant::now();
        let mut ladder = Ladder::default();
        assert_eq!(ladder.ending(), None);
        assert_eq!(ladder.signal(Stop::Interrupt, now), Some(Level::Graceful));
        assert_eq!(ladder.ending(), Some(Ending::Graceful));
        assert_eq!(ladder.deadline(), None);
        assert_eq!(ladder.signal(Stop::Terminate, now), Some(Level::Cancel));
        assert_eq!(ladder.deadline(), None, "the first was SIGINT: a person is there");
        assert_eq!(ladder.ending(), Some(Ending::Terminated));
        assert_eq!(ladder.signal(Stop::Interrupt, now), Some(Level::Interrupt));
        assert_eq!(ladder.signal(Stop::Interrupt, now), None);
        assert_eq!(ladder.ending(), Some(Ending::Interrupted));
    }

    #[test]
    fn after_sigterm_the_clock_climbs_fifteen_seconds_per_rung() {
        let start = Instant::now();
        let mut ladder = Ladder::default();
        assert_eq!(ladder.signal(Stop::Terminate, start), Some(Level::Graceful));
        let first = ladder.deadline().unwrap();
        assert_eq!(first - start, PATIENCE);
        assert_eq!(ladder.expire(start), None, "not yet");
        assert_eq!(ladder.expire(first), Some(Level::Cancel));
        let second = ladder.deadline().unwrap();
        assert_eq!(second - first, PATIENCE);
        assert_eq!(ladder.expire(second), Some(Level::Interrupt));
        assert_eq!(ladder.deadline(), None);
        assert_eq!(ladder.ending(), Some(Ending::Terminated));
    }

    #[test]
    fn an_end_of_its_own_takes_the_first_rung() {
        let start = Instant::now();
        let mut ladder = Ladder::default();
        assert_eq!(ladder.begin(start), Some(Level::Graceful));
        assert_eq!(ladder.begin(start), None);
        assert_eq!(ladder.ending(), None, "no signal came");
        assert_eq!(ladder.expire(start + PATIENCE), Some(Level::Cancel));
        assert_eq!(ladder.ending(), None, "still no signal");
        assert_eq!(ladder.signal(Stop::Interrupt, start), Some(Level::Interrupt));
        assert_eq!(ladder.ending(), Some(Ending::Interrupted));
    }

    #[test]
    fn a_signal_in_between_takes_the_next_rung_and_the_clock_goes_on() {
        let start = Instant::now();
        let mut ladder = Ladder::default();
        ladder.signal(Stop::Terminate, start);
        let later = start + Duration::from_secs(1);
        assert_eq!(ladder.signal(Stop::Terminate, later), Some(Level::Cancel));
        assert_eq!(ladder.deadline(), Some(later + PATIENCE));
        assert_eq!(ladder.expire(later + PATIENCE), Some(Level::Interrupt));
    }
}
