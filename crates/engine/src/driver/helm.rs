//! Where the driver stands: one thread at a time decides, whichever has news.
//!
//! The engine's own thread is there for what comes from outside and for time. A thread that has done a run attends to
//! what follows by itself, and so does the lookout of the hub for what it has seen. A run that follows alone is then
//! theirs to do: from an event to its repair nobody else has to be woken, and along a chain of resources nobody at all.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use super::Driver;
use super::inbox::{Holds, Inbox};
use super::run::Job;

pub(super) struct Helm {
    /// Gone once the engine has ended. Held while decisions are made, never while something runs.
    driver: Mutex<Option<Driver>>,
    pub(super) inbox: Arc<Inbox>,
}

impl Helm {
    /// As long as most decisions take: less than it takes to wake somebody.
    pub(super) const A_MOMENT: Duration = Duration::from_micros(30);

    pub(super) fn new(inbox: Arc<Inbox>) -> Helm {
        Helm { driver: Mutex::new(None), inbox }
    }

    /// Puts the driver in its place.
    pub(super) fn man(&self, driver: Driver) {
        *self.driver.lock().unwrap_or_else(PoisonError::into_inner) = Some(driver);
    }

    /// Sees to everything that has come, and gives back a run if it is the only one that follows.
    ///
    /// If somebody else is just deciding, that is waited for at most so long; then it is left to the engine's thread.
    pub(super) fn attend(&self, patience: Duration) -> Option<Job> {
        let Some(mut place) = self.enter(patience) else {
            self.inbox.call();
            return None;
        };
        place.as_mut()?.step(true)
    }

    fn enter(&self, patience: Duration) -> Option<MutexGuard<'_, Option<Driver>>> {
        let began = Instant::now();
        loop {
            match self.driver.try_lock() {
                Ok(place) => return Some(place),
                Err(TryLockError::WouldBlock) if began.elapsed() < patience => std::hint::spin_loop(),
                Err(_) => return None,
            }
        }
    }

    /// The same for somebody who must not be kept: anything but events of resources is left to the engine's thread.
    pub(super) fn attend_to_changes(&self) -> Option<Job> {
        match self.inbox.holds() {
            Holds::Nothing => None,
            Holds::Changes => self.attend(Self::A_MOMENT),
            Holds::Messages => {
                self.inbox.call();
                None
            }
        }
    }

    /// The engine's thread: until the engine has stopped. `None`: deciding has panicked, here or elsewhere.
    pub(super) fn keep(&self) -> Option<Driver> {
        loop {
            let mut place = match self.driver.lock() {
                Ok(place) => place,
                Err(broken) => {
                    // Whoever waits for an answer learns that there will be none.
                    broken.into_inner().take();
                    self.inbox.close();
                    return None;
                }
            };
            if place.as_ref()?.stopped {
                return place.take();
            }
            place.as_mut()?.step(false);
            drop(place);
            self.inbox.rest();
        }
    }
}
