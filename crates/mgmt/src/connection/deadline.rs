//! Deadlines for commands that talk to a store: no command waits for ever, and each says what it waits for.

use std::sync::Arc;
use std::time::Duration;

use mgmt_store::StoreError;
use mgmt_store::{Commit, Lease, LeaseId, Limits, Pending, Snapshot, Span, Store, Transaction, Watch};

/// How long to wait for one answer; none is for ever.
pub(crate) type Timeout = Option<Duration>;

/// How often a command that waits says so, at most.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(10);

/// Reads a timeout such as `10s` or `2m`. A plain number is of seconds.
pub(super) fn parse(text: &str) -> Result<Timeout, String> {
    if let Ok(seconds) = text.parse::<u64>() {
        return Ok((seconds > 0).then(|| Duration::from_secs(seconds)));
    }
    let wrong = || "expected a time such as `10s`, `2m`, or 0 for no limit".to_owned();
    let span: jiff::Span = text.parse().map_err(|_| wrong())?;
    let span = span.to_duration(jiff::SpanRelativeTo::days_are_24_hours()).map_err(|_| wrong())?;
    let time = Duration::try_from(span).map_err(|_| wrong())?;
    Ok((!time.is_zero()).then_some(time))
}

/// Waits for something, says from time to time what for, and gives up when the time is over, if there is a limit.
pub(crate) async fn within<T>(
    place: &str,
    timeout: Timeout,
    work: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let begin = tokio::time::Instant::now();
    let shortest = timeout.map_or(PROGRESS_INTERVAL, |timeout| timeout / 3);
    let interval = PROGRESS_INTERVAL.min(shortest).max(Duration::from_millis(100));
    let mut ticks = tokio::time::interval_at(begin + interval, interval);
    tokio::pin!(work);
    loop {
        tokio::select! {
            biased;
            done = &mut work => return done,
            seconds = over(begin, timeout) => {
                return Err(StoreError::TimedOut { place: place.to_owned(), seconds });
            }
            _ = ticks.tick() => {
                let waited = begin.elapsed().as_secs();
                let limit = timeout.map(|timeout| format!(" of {}s", timeout.as_secs())).unwrap_or_default();
                tracing::warn!("waiting for {place} ({waited}s{limit})");
            }
        }
    }
}

/// Waits until the time is over, and returns it in seconds. Without a limit, it never is.
async fn over(begin: tokio::time::Instant, timeout: Timeout) -> u64 {
    match timeout {
        Some(timeout) => {
            tokio::time::sleep_until(begin + timeout).await;
            timeout.as_secs().max(1)
        }
        None => std::future::pending().await,
    }
}

/// A store whose every call has a deadline. Watches have none: to wait is what they are for.
#[derive(Debug)]
pub(super) struct WithDeadline {
    store: Arc<dyn Store>,
    place: String,
    timeout: Timeout,
}

impl WithDeadline {
    pub(super) fn new(store: Arc<dyn Store>, place: String, timeout: Timeout) -> WithDeadline {
        WithDeadline { store, place, timeout }
    }

    fn call<'a, T: 'a>(&'a self, work: Pending<'a, T>) -> Pending<'a, T> {
        Box::pin(within(&self.place, self.timeout, work))
    }
}

impl Store for WithDeadline {
    fn read(&self, spans: Vec<Span>) -> Pending<'_, Snapshot> {
        self.call(self.store.read(spans))
    }

    fn commit(&self, transaction: Transaction) -> Pending<'_, Commit> {
        self.call(self.store.commit(transaction))
    }

    fn watch(&self, span: Span) -> Box<dyn Watch> {
        self.store.watch(span)
    }

    fn grant(&self, time: Duration) -> Pending<'_, Lease> {
        self.call(self.store.grant(time))
    }

    fn keep(&self, lease: LeaseId) -> Pending<'_, bool> {
        self.call(self.store.keep(lease))
    }

    fn revoke(&self, lease: LeaseId) -> Pending<'_, ()> {
        self.call(self.store.revoke(lease))
    }

    fn ends_with_us(&self) -> bool {
        self.store.ends_with_us()
    }

    fn addresses(&self) -> Vec<String> {
        self.store.addresses()
    }

    fn limits(&self) -> Limits {
        self.store.limits()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        assert_eq!(parse("10s"), Ok(Some(Duration::from_secs(10))));
        assert_eq!(parse("2m"), Ok(Some(Duration::from_secs(120))));
        assert_eq!(parse("7"), Ok(Some(Duration::from_secs(7))));
        assert_eq!((parse("0"), parse("0s")), (Ok(None), Ok(None)));
        for text in ["", "x", "-3s", "-1"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_waited_for_longer_than_asked() {
        let never = std::future::pending::<Result<(), StoreError>>();
        let error = within("the store", Some(Duration::from_secs(30)), never).await.unwrap_err();
        assert_eq!(error.to_string(), "the store has not answered within 30s");
        assert!(!error.is_passing(), "nobody tries it again by itself");
        assert_eq!(within("the store", Some(Duration::from_secs(30)), async { Ok(7) }).await, Ok(7));
        let late = async {
            tokio::time::sleep(Duration::from_secs(3600)).await;
            Ok(7)
        };
        assert_eq!(within("the store", None, late).await, Ok(7));
    }
}
