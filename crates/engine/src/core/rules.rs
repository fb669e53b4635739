//! What the core needs to know of a vertex: its metaparameters and a few facts about its kind.

use std::sync::Arc;

/// How a vertex is to be run. Plain data, made by the driver from a declared resource.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    /// Look only.
    pub noop: bool,
    /// What follows a failed attempt.
    pub retry: Retry,
    /// Refill the error budget of the check after each success.
    pub retry_reset: bool,
    /// Wait at least this long before a declared retry, in nanoseconds.
    pub delay: u64,
    /// Instead of watching.
    pub poll: Poll,
    /// Rate of events, per second; infinite for no limit.
    pub limit: f64,
    /// Events that may come at once before the rate is felt.
    pub burst: f64,
    /// A replacement starts with a full error budget.
    pub reset: bool,
    /// Semaphores to hold while running: identity and size.
    pub semaphores: Vec<Semaphore>,
    /// Succeed once before being removed or replaced.
    pub realize: bool,
    /// Never run.
    pub hidden: bool,
    /// The vertex has work even though it is hidden: it is exported.
    pub export: bool,
    /// The kind reacts to notifications.
    pub refreshable: bool,
    /// Which of the two pools runs it.
    pub pool: Pool,
}

/// When a vertex is attempted again after a failure, if nothing prompts it earlier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Retry {
    /// Nothing is declared: for ever, with exponential backoff and jitter.
    #[default]
    Backoff,
    /// Declared: so many times, `delay` apart.
    Times(u32),
    /// Declared: for ever, `delay` apart.
    Forever,
}

/// The number of failures in a row after which the next attempt is put off even though no delay is declared, and the number of
/// prompted attempts that may fail in a row at full speed.
pub(super) const FREE_PROMPTS: u32 = 8;
/// The longest pause that is added to declared retries without a delay.
const MAX_DECLARED_PAUSE: u64 = 1_000_000_000;
/// The longest pause between prompted attempts that keep failing.
const MAX_PROMPT_PAUSE: u64 = 5_000_000_000;
/// The first pause of the backoff.
pub(super) const MIN_BACKOFF: u64 = 1_000_000_000;
/// The longest pause of the backoff.
pub(super) const MAX_BACKOFF: u64 = 300_000_000_000;

/// Nothing for the first few failures in a row, then 1 ms, 2 ms, 4 ms and so on.
fn growing_pause(failures: u32, longest: u64) -> u64 {
    match failures.checked_sub(FREE_PROMPTS + 1) {
        None => 0,
        Some(doublings) => (1_000_000 << doublings.min(20)).min(longest),
    }
}

/// How long a prompted attempt waits after so many prompted attempts that failed in a row.
pub(super) fn prompt_pause(failures: u32) -> u64 {
    growing_pause(failures, MAX_PROMPT_PAUSE)
}

/// How long to wait after so many attempts by time that failed in a row: twice as long each time, less up to a quarter of it, which
/// `noise` decides.
pub(super) fn backoff(failures: u32, noise: u64) -> u64 {
    let longest = (MIN_BACKOFF << failures.saturating_sub(1).min(20)).min(MAX_BACKOFF);
    longest - noise % (longest / 4)
}

impl Rules {
    /// How long a declared retry waits after so many failures in a row. The first few follow each other as declared; a vertex
    /// that is tried for ever without a delay does not occupy a processor: 1 ms, 2 ms, 4 ms, up to a second.
    pub(super) fn pause(&self, failures: u32) -> u64 {
        self.delay.max(growing_pause(failures, MAX_DECLARED_PAUSE))
    }

    /// Whether the driver is to watch.
    pub(super) fn is_watched(&self) -> bool {
        self.poll == Poll::Watch && !self.hidden
    }

    /// A semaphore that is listed twice is held once.
    pub(super) fn normalized(mut self) -> Rules {
        self.semaphores.sort_by(|left, right| left.0.cmp(&right.0));
        self.semaphores.dedup();
        self
    }
}

/// How often a vertex is looked at without an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Poll {
    /// It is watched.
    Watch,
    /// Every so many nanoseconds.
    Every(u64),
    /// Once.
    Once,
}

/// A counting semaphore. The whole id is its identity: `foo` and `foo:1` are two.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Semaphore(pub Arc<[u8]>);

impl Semaphore {
    /// How many may hold it: the number after the last colon if it is positive, else one.
    pub fn size(&self) -> u32 {
        let after = self.0.rsplit(|byte| *byte == b':').next().unwrap_or_default();
        if after.len() == self.0.len() {
            return 1;
        }
        let number = std::str::from_utf8(after).ok().and_then(|text| text.parse::<u32>().ok());
        number.filter(|size| *size > 0).unwrap_or(1)
    }
}

/// The pool that a run takes a place in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    /// Short system calls on a few threads.
    Blocking = 0,
    /// Waits for something else most of the time.
    Waiting = 1,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            noop: false,
            retry: Retry::Backoff,
            retry_reset: false,
            delay: 0,
            poll: Poll::Watch,
            limit: f64::INFINITY,
            burst: 0.0,
            reset: false,
            semaphores: Vec::new(),
            realize: false,
            hidden: false,
            export: false,
            refreshable: false,
            pool: Pool::Waiting,
        }
    }
}

/// A token bucket: `burst` tokens at most, refilled at `limit` per second.
#[derive(Clone, Debug)]
pub(super) struct Bucket {
    tokens: f64,
    filled_at: u64,
}

impl Bucket {
    pub(super) fn new(rules: &Rules, now: u64) -> Bucket {
        Bucket { tokens: rules.burst, filled_at: now }
    }

    /// Takes a token, now or in advance, and says how long to wait for it.
    /// `None`: it will never come, because the rate is zero.
    pub(super) fn take(&mut self, rules: &Rules, now: u64) -> Option<u64> {
        if rules.limit.is_infinite() {
            return Some(0);
        }
        let elapsed = seconds(now.saturating_sub(self.filled_at));
        self.filled_at = now;
        let refilled = (self.tokens + elapsed * rules.limit).min(rules.burst);
        if refilled < 1.0 && rules.limit <= 0.0 {
            self.tokens = refilled;
            return None;
        }
        self.tokens = refilled - 1.0;
        Some(if self.tokens >= 0.0 { 0 } else { nanoseconds(-self.tokens / rules.limit) })
    }

    /// Undoes a [`Bucket::take`].
    pub(super) fn give_back(&mut self) {
        self.tokens += 1.0;
    }
}

#[expect(clippy::cast_precision_loss, reason = "a rate needs no more than 53 bits of time")]
fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to what fits")]
fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9).ceil().clamp(0.0, 9e18) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_a_semaphore_stands_after_the_last_colon() {
        let cases =
            [("some_id", 1), ("hello:42", 42), ("not:smart:4", 4), (":13", 13), ("x:0", 1), ("x:-2", 1)];
        for (id, size) in cases {
            assert_eq!(Semaphore(id.as_bytes().into()).size(), size, "{id}");
        }
    }

    #[test]
    fn a_bucket_lets_a_burst_through_and_then_keeps_the_rate() {
        let rules = Rules { limit: 2.0, burst: 3.0, ..Rules::default() };
        let mut bucket = Bucket::new(&rules, 0);
        assert_eq!([bucket.take(&rules, 0), bucket.take(&rules, 0), bucket.take(&rules, 0)], [Some(0); 3]);
        assert_eq!(bucket.take(&rules, 0), Some(500_000_000));
        assert_eq!(bucket.take(&rules, 10_000_000_000), Some(0));
    }

    #[test]
    fn a_rate_of_zero_lets_only_the_burst_through() {
        let rules = Rules { limit: 0.0, burst: 1.0, ..Rules::default() };
        let mut bucket = Bucket::new(&rules, 0);
        assert_eq!(bucket.take(&rules, 0), Some(0));
        assert_eq!(bucket.take(&rules, u64::MAX), None);
    }
}
