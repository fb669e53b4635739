//! Telling the echo of our own work from news.
//!
//! The hub tells of everything that appears at a watched path, of what a run of ours made there, too. A look at it would
//! find what was just made, so it is left out; with ten thousand new files that is half of all work.
//!
//! It must never be left out when somebody else did something, so nothing here rests on a clock or on how a file looks.
//! It is counting:
//!
//! - A run made the watched path with a hard link, complete from the first moment on, where nothing was before. The
//!   kernel tells of that exactly once, as a creation ([`mgmt_sys::made`]).
//! - The hub tells of a creation apart from everything else, and never of two as one ([`mgmt_watch::Change`]).
//! - So one creation is left out for one that we made; a second one is news, and so is everything that is not a
//!   creation. Whether the one left out was the first or the second does not matter: one look follows, and it follows
//!   both.
//! - If our own creation is never told, because the queue overflowed, or the way to the path or the watch changed, the
//!   hub tells of that, as of everything. From that moment on, or from the next run on, nothing is left out any more.

/// What a vertex has heard of its own path.
#[derive(Default)]
pub(super) struct Echo {
    /// What the last run made has not been told yet.
    expected: bool,
    /// Creations that were told during the present run. Two are as many as any more.
    heard: u8,
}

impl Echo {
    /// A run begins: it sees whatever has happened so far.
    pub(super) fn begin(&mut self) {
        *self = Echo::default();
    }

    /// Anything may have happened, which is news.
    pub(super) fn changed(&mut self) {
        self.expected = false;
    }

    /// The path was created. True: that is news. What is heard during a run is judged when the run ends.
    pub(super) fn created(&mut self, running: bool) -> bool {
        if running {
            self.heard = self.heard.saturating_add(1);
            return false;
        }
        !std::mem::take(&mut self.expected)
    }

    /// A run has ended; `made`: it succeeded and made the path. True: something that was heard meanwhile is news.
    pub(super) fn end(&mut self, made: bool) -> bool {
        let heard = std::mem::take(&mut self.heard);
        self.expected = made && heard == 0;
        heard > u8::from(made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_creation_is_left_out_for_one_that_was_made_before_or_after_the_end_of_the_run() {
        let mut echo = Echo::default();
        echo.begin();
        assert!(!echo.created(true));
        assert!(!echo.end(true));
        assert!(echo.created(false), "a second creation");
        echo.begin();
        assert!(!echo.end(true));
        assert!(!echo.created(false));
        assert!(echo.created(false), "a second creation");
    }

    #[test]
    fn creations_are_news_when_nothing_was_made_or_more_than_one_is_told() {
        let mut echo = Echo::default();
        assert!(echo.created(false));
        echo.begin();
        echo.created(true);
        assert!(echo.end(false));
        echo.begin();
        echo.created(true);
        echo.created(true);
        assert!(echo.end(true));
        assert!(echo.created(false));
    }

    #[test]
    fn nothing_is_left_out_after_anything_else_was_told_or_a_run_began() {
        let mut echo = Echo::default();
        echo.begin();
        assert!(!echo.end(true));
        echo.changed();
        assert!(echo.created(false));
        echo.begin();
        assert!(!echo.end(true));
        echo.begin();
        echo.created(true);
        assert!(echo.end(false));
    }
}
