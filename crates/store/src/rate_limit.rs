//! Token bucket: the rate limit of everything that an agent writes to a shared store.

use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use crate::lock;

/// A rate limit: a burst, and then a steady rate. Waiters wait for a token; nothing is dropped.
#[derive(Debug)]
pub(crate) struct RateLimit {
    bucket: Option<Mutex<Bucket>>,
}

#[derive(Debug)]
struct Bucket {
    burst: u32,
    /// The time in which one token comes.
    period: Duration,
    /// When the bucket is full again. Each token that is taken is one period more.
    full_at: Instant,
}

impl Bucket {
    /// Takes a token, and says how long to wait before it may be used.
    fn take(&mut self, now: Instant) -> Duration {
        let full_at = self.full_at.max(now) + self.period;
        self.full_at = full_at;
        full_at.saturating_duration_since(now).saturating_sub(self.period * self.burst)
    }
}

impl RateLimit {
    /// No limit.
    pub(crate) fn none() -> RateLimit {
        RateLimit { bucket: None }
    }

    /// So many at once, and then so many per second.
    pub(crate) fn new(burst: u32, per_second: u32) -> RateLimit {
        let period = Duration::from_secs(1) / per_second.max(1);
        RateLimit { bucket: Some(Mutex::new(Bucket { burst, period, full_at: Instant::now() })) }
    }

    /// Waits until one more is allowed. A call that is dropped has used its token up.
    pub(crate) async fn acquire(&self) {
        let Some(bucket) = &self.bucket else { return };
        let wait = lock(bucket).take(Instant::now());
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_burst_passes_at_once_and_the_rest_at_the_rate() {
        let limit = RateLimit::new(10, 5);
        let began = Instant::now();
        for _ in 0..10 {
            limit.acquire().await;
        }
        assert_eq!(began.elapsed(), Duration::ZERO);
        for _ in 0..5 {
            limit.acquire().await;
        }
        assert!(began.elapsed().abs_diff(Duration::from_secs(1)) < Duration::from_millis(20));
        // What is not used comes back, and no more than the burst.
        tokio::time::sleep(Duration::from_secs(3600)).await;
        let began = Instant::now();
        for _ in 0..11 {
            limit.acquire().await;
        }
        assert!(began.elapsed().abs_diff(Duration::from_millis(200)) < Duration::from_millis(20));
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_limit_nothing_waits() {
        let (limit, began) = (RateLimit::none(), Instant::now());
        for _ in 0..10_000 {
            limit.acquire().await;
        }
        assert_eq!(began.elapsed(), Duration::ZERO);
    }
}
