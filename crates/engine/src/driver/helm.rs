//! Where the driver stands: one thread at a time decides, whichever has news.
//!
//! The engine's own thread is there for what comes from outside and for time. A thread that has done a run attends to
//! what follows by itself, and so does the lookout of the hub for what it has seen. A run that follows alone is then
//! theirs to do: from an event to its repair nobody else has to be woken, and along a chain of resources nobody at all.

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError, TryLockError};
use std::time::Duration;

use super::Driver;
use super::inbox::{Holds, Inbox, Share};
use super::run::Job;
use super::sync::{AtomicBool, Instant, Mutex, MutexGuard, Ordering, spin_loop};

pub(super) struct Helm {
    /// Gone once the engine has ended. Held while decisions are made, never while something runs.
    driver: Mutex<Option<Driver>>,
    /// A thread is gone that somebody counts on. A panic while deciding shows in the lock as well.
    broken: AtomicBool,
    pub(super) inbox: Arc<Inbox>,
}

impl Helm {
    /// As long as most decisions take: less than it takes to wake somebody.
    pub(super) const A_MOMENT: Duration = Duration::from_micros(30);

    pub(super) fn new(inbox: Arc<Inbox>) -> Helm {
        Helm { driver: Mutex::new(None), broken: AtomicBool::new(false), inbox }
    }

    /// Puts the driver in its place.
    pub(super) fn man(&self, driver: Driver) {
        *self.driver.lock().unwrap_or_else(PoisonError::into_inner) = Some(driver);
    }

    /// Sees to everything that has come before the next graph, and gives back a run if it is the only one that follows.
    ///
    /// If somebody else is just deciding, that is waited for at most so long; then it is left to the engine's thread.
    pub(super) fn attend(&self, patience: Duration) -> Option<Job> {
        self.attend_to(Share::UpToGraph, patience)
    }

    pub(super) fn attend_to(&self, share: Share, patience: Duration) -> Option<Job> {
        let Some(mut place) = self.enter(patience) else {
            self.inbox.call();
            return None;
        };
        place.as_mut()?.step(share, true)
    }

    fn enter(&self, patience: Duration) -> Option<MutexGuard<'_, Option<Driver>>> {
        let began = Instant::now();
        loop {
            match self.driver.try_lock() {
                Ok(place) => return Some(place),
                Err(TryLockError::WouldBlock) if began.elapsed() < patience => spin_loop(),
                Err(_) => return None,
            }
        }
    }

    /// The same for somebody who must not be kept: anything but events of resources is left to the engine's thread.
    pub(super) fn attend_to_changes(&self) -> Option<Job> {
        match self.inbox.holds() {
            Holds::Nothing => None,
            // A message that comes meanwhile is left to whoever has put it there.
            Holds::Changes => self.attend_to(Share::Changes, Self::A_MOMENT),
            Holds::Messages => {
                self.inbox.call();
                None
            }
        }
    }

    /// The engine's thread: until the engine has stopped. `None`: a thread has panicked, this one or another.
    pub(super) fn keep(&self) -> Option<Driver> {
        loop {
            let turn = catch_unwind(AssertUnwindSafe(|| self.turn())).unwrap_or(ControlFlow::Break(None));
            match turn {
                ControlFlow::Continue(()) => self.inbox.rest(),
                ControlFlow::Break(Some(driver)) => return Some(driver),
                ControlFlow::Break(None) => {
                    self.abandon();
                    return None;
                }
            }
        }
    }

    fn turn(&self) -> ControlFlow<Option<Driver>> {
        let Ok(mut place) = self.driver.lock() else { return ControlFlow::Break(None) };
        let broken = self.broken.load(Ordering::Relaxed);
        match place.as_mut().filter(|_| !broken) {
            Some(driver) if !driver.stopped => {
                driver.step(Share::All, false);
                ControlFlow::Continue(())
            }
            Some(_) => ControlFlow::Break(place.take()),
            None => ControlFlow::Break(None),
        }
    }

    /// A thread has panicked, which is a mistake of ours. What it had in hand is lost, so nothing goes on.
    pub(super) fn break_off(&self) {
        self.broken.store(true, Ordering::Relaxed);
        self.inbox.call();
    }

    /// Whoever waits for an answer learns that there will be none.
    fn abandon(&self) {
        let driver = self.driver.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.inbox.close();
        if let Some(driver) = driver {
            driver.abandon();
        }
    }
}
