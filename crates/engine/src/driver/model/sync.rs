//! Locks, signals, threads and the time, where the order of threads is chosen and not a matter of chance.

use std::ops::Add;
use std::sync::{Arc, LockResult};
use std::time::Duration;

pub(super) use shuttle::hint::spin_loop;
pub(super) use shuttle::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
pub(super) use shuttle::sync::{Mutex, MutexGuard};
pub(super) use shuttle::thread;

std::thread_local! {
    /// The time of the model, in nanoseconds. All threads of the model are one thread of the system.
    static TIME: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// A moment. It is a little later whenever somebody looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Instant(u64);

const A_LOOK: u64 = 10_000;

impl Instant {
    pub(super) fn now() -> Instant {
        TIME.set(TIME.get() + A_LOOK);
        Instant(TIME.get())
    }

    pub(super) fn elapsed(self) -> Duration {
        Instant::now().saturating_duration_since(self)
    }

    pub(super) fn saturating_duration_since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// It is at least then.
    fn has_come(self) {
        TIME.set(TIME.get().max(self.0));
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;

    fn add(self, duration: Duration) -> Instant {
        Instant(self.0 + u64::try_from(duration.as_nanos()).unwrap())
    }
}

/// A signal on which a wait may end because its time is over.
#[derive(Default)]
pub(super) struct Condvar(Arc<shuttle::sync::Condvar>);

impl Condvar {
    pub(super) fn new() -> Condvar {
        Condvar::default()
    }

    pub(super) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        self.0.wait(guard)
    }

    /// Somebody else has the time come, at any moment, and gives the signal then. Whoever waits has to see for itself why it was
    /// woken, as with any other signal.
    pub(super) fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        time: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, ())> {
        let (until, signal) = (Instant::now() + time, Arc::clone(&self.0));
        let awake = Arc::new(AtomicBool::new(false));
        let is_awake = Arc::clone(&awake);
        thread::spawn(move || {
            // A signal that is given before somebody waits for it is lost, and time is not.
            while !is_awake.load(Ordering::SeqCst) {
                until.has_come();
                signal.notify_all();
                thread::yield_now();
            }
        });
        let woken = self.0.wait(guard);
        awake.store(true, Ordering::SeqCst);
        match woken {
            Ok(guard) => Ok((guard, ())),
            Err(poisoned) => Err(std::sync::PoisonError::new((poisoned.into_inner(), ()))),
        }
    }

    pub(super) fn notify_one(&self) {
        self.0.notify_one();
    }

    pub(super) fn notify_all(&self) {
        self.0.notify_all();
    }
}
