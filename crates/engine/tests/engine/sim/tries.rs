//! The retry rules, said a second time: backoff, declared retries, prompts.

use mgmt_engine::core::{Retry, Rules};

/// Attempts to check or to watch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tries {
    /// Declared retries that are left, without the one that comes next.
    pub(crate) left: u32,
    /// The next one was taken from them.
    pub(crate) taken: bool,
    /// In a row.
    pub(crate) failures: u32,
    /// Of them, those that time led to.
    pub(crate) by_time: u32,
    /// The last of them during which, or before which, something asked for an attempt.
    pub(crate) asked_in_a_row: u32,
    pub(crate) asked: bool,
    pub(crate) failed_at: u64,
    pub(crate) next: u64,
    pub(crate) gate: u64,
    /// The next attempt, and the present one, follows from something that happened.
    pub(crate) prompted: bool,
    pub(crate) present_prompted: bool,
}

impl Tries {
    pub(crate) fn new(rules: &Rules) -> Tries {
        let left = if let Retry::Times(times) = rules.retry { times } else { 0 };
        Tries { left, ..Tries::default() }
    }

    /// True: it leads to the next attempt.
    pub(crate) fn prompt(&mut self, at: u64) -> bool {
        self.asked = true;
        let at = at.max(self.gate);
        let leads = at != u64::MAX && at <= self.next;
        if leads {
            self.next = at;
            self.prompted = true;
        }
        leads
    }

    pub(crate) fn begin(&mut self) {
        self.present_prompted = std::mem::take(&mut self.prompted);
    }

    /// Whether there had been a failure.
    pub(crate) fn succeed(&mut self) -> bool {
        let failing = self.failures > 0;
        *self = Tries { left: self.left, ..Tries::default() };
        failing
    }

    /// As [`Tries::fail`], but there is always a next one.
    pub(crate) fn fail_to_watch(&mut self, rules: &Rules, now: u64) -> Option<(u64, u64)> {
        let declared = if let Retry::Times(times) = rules.retry { times } else { 0 };
        self.fail(rules, now).or_else(|| Some(backoff(self.by_time.saturating_sub(declared))))
    }

    /// It was not allowed: what had failed still has.
    pub(crate) fn hold(&mut self, now: u64) -> Option<(u64, u64)> {
        self.failures = self.failures.max(1);
        self.next = u64::MAX;
        self.gate = self.gate.max(now);
        (self.taken, self.prompted, self.present_prompted, self.asked) = (false, false, false, false);
        None
    }

    /// Notes a failure. Returns the shortest and the longest pause until the next attempt by time.
    pub(crate) fn fail(&mut self, rules: &Rules, now: u64) -> Option<(u64, u64)> {
        let by_time = self.failures == 0 || !self.present_prompted;
        self.present_prompted = false;
        self.prompted = false;
        let asked = std::mem::take(&mut self.asked) && self.failures > 0;
        self.asked_in_a_row = if asked { self.asked_in_a_row + 1 } else { 0 };
        self.failures += 1;
        self.failed_at = now;
        if by_time {
            self.by_time += 1;
            self.taken = false;
        }
        self.gate = now + growing(self.asked_in_a_row, 5_000_000_000);
        match rules.retry {
            Retry::Backoff => Some(backoff(self.by_time)),
            Retry::Times(_) if !self.taken && self.left == 0 => None,
            Retry::Times(_) | Retry::Forever => {
                if matches!(rules.retry, Retry::Times(_)) && !std::mem::replace(&mut self.taken, true) {
                    self.left -= 1;
                }
                let pause = growing(self.failures, 1_000_000_000).max(rules.delay);
                Some((pause, pause))
            }
        }
    }
}

/// The shortest and the longest pause after so many failures.
fn backoff(failures: u32) -> (u64, u64) {
    let longest = (1..failures).fold(1_000_000_000, |pause: u64, _| (pause * 2).min(300_000_000_000));
    (longest - longest / 4, longest)
}

/// Nothing eight times; then twice as long each time, from a millisecond up.
fn growing(failures: u32, longest: u64) -> u64 {
    if failures > 8 { (9..=failures).fold(500_000, |pause: u64, _| (pause * 2).min(longest)) } else { 0 }
}
