//! Units that do not stay: started with success, and ended by themselves soon after.

use std::time::{Duration, Instant};

/// A unit that ends within this time after its start does not stay.
const STAYS_AFTER: Duration = Duration::from_secs(10);

/// When a unit was started last, and what became of it.
#[derive(Debug, Default)]
pub struct LastStart {
    at: Option<Instant>,
    /// It has ended soon after that.
    has_ended: bool,
}

impl LastStart {
    /// Notes a start that has succeeded.
    pub(super) fn started(&mut self, has_ended: bool) {
        *self = LastStart { at: Some(Instant::now()), has_ended };
    }

    /// Whether the last start did not last, as far as is known: the unit has ended, or has to be started again soon after it.
    pub(super) fn is_doubtful(&self) -> bool {
        self.at.is_some_and(|at| self.has_ended || at.elapsed() < STAYS_AFTER)
    }

    /// Whether a unit that does not run is left alone: it did not stay after its last start, which is less than `interval` ago. The second
    /// says whether that was not known before.
    pub(super) fn does_not_stay(&mut self, interval: Duration) -> Option<bool> {
        let since = self.at?.elapsed();
        // Half of it is enough: the interval is measured by another clock.
        if since >= interval / 2 || !(self.has_ended || since < STAYS_AFTER) {
            return None;
        }
        Some(!std::mem::replace(&mut self.has_ended, true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_that_ends_soon_after_its_start_is_left_alone_for_its_interval() {
        let (hour, mut last) = (Duration::from_secs(3600), LastStart::default());
        assert_eq!(last.does_not_stay(hour), None);
        assert!(!last.is_doubtful());
        last.started(false);
        assert!(last.is_doubtful(), "it is started again at once");
        assert_eq!(last.does_not_stay(hour), Some(true));
        assert_eq!(last.does_not_stay(hour), Some(false));
        assert_eq!(last.does_not_stay(Duration::ZERO), None);
        last.started(true);
        assert_eq!(last.does_not_stay(hour), Some(false));
        // One that has run for long is started again at once.
        last.started(false);
        last.at = Instant::now().checked_sub(STAYS_AFTER);
        assert!(last.at.is_none() || last.does_not_stay(hour).is_none());
    }
}
