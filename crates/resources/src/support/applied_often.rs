//! Resources that are never right: whoever is changed by every check is not checked at every event, but once in an interval.

use std::time::{Duration, Instant};

/// So many changes one after the other, and the resource is taken for one that is never right.
const MAX_CHANGES_IN_A_ROW: u32 = 3;

/// The last outcomes of a resource that is looked at after events and in an interval.
#[derive(Debug, Default)]
pub(crate) struct AppliedOften {
    changes: u32,
    /// When it was changed last.
    last: Option<Instant>,
}

impl AppliedOften {
    /// Whether the last checks have all changed something, and the next one is not due before the interval is over. Half of the interval is
    /// enough: clocks differ.
    pub(crate) fn is_over(&self, interval: Duration) -> bool {
        self.changes >= MAX_CHANGES_IN_A_ROW && self.last.is_some_and(|last| last.elapsed() < interval / 2)
    }

    /// Notes an outcome. Says whether it is the change after which events do not count any more.
    pub(crate) fn note(&mut self, has_changed: bool) -> bool {
        if !has_changed {
            *self = AppliedOften::default();
            return false;
        }
        self.changes = self.changes.saturating_add(1);
        self.last = Some(Instant::now());
        self.changes == MAX_CHANGES_IN_A_ROW
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_changed_by_every_check_waits_for_its_interval() {
        let (hour, mut often) = (Duration::from_secs(3600), AppliedOften::default());
        assert!(!often.note(true) && !often.note(true) && !often.is_over(hour));
        assert!(often.note(true) && often.is_over(hour));
        assert!(!often.is_over(Duration::ZERO));
        assert!(!often.note(false) && !often.is_over(hour));
        assert!(!often.note(true) && !often.is_over(hour));
    }
}
