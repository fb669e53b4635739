//! Which process serves whom.

use std::ops::Deref;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use mgmt_puppet_process::{Puppet, Settings, WeakPuppet};
use tokio::runtime::Handle;
use tokio::time::Instant;

/// How long a process stays after the last resource that has used it. Resources that are looked at one after the other, as for a plan,
/// share one process.
const IDLE_TIMEOUT: Duration = Duration::from_secs(5);

/// A process that nobody may use any more, until when it is kept.
static IDLE: Mutex<Vec<(Puppet, Instant)>> = Mutex::new(Vec::new());

/// A handle to a process. It ends soon after the last one.
#[derive(Debug)]
pub(super) struct Worker {
    puppet: Puppet,
    runtime: Handle,
}

impl Deref for Worker {
    type Target = Puppet;

    fn deref(&self) -> &Puppet {
        &self.puppet
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let until = Instant::now() + IDLE_TIMEOUT;
        let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
        match idle.iter_mut().find(|(puppet, _)| puppet.settings() == self.puppet.settings()) {
            Some(known) => known.1 = until,
            None => {
                idle.push((self.puppet.clone(), until));
                self.runtime.spawn(release(Release(self.puppet.settings().clone())));
            }
        }
    }
}

/// Takes a process off the list, also if the runtime ends before it is time.
struct Release(Settings);

impl Drop for Release {
    fn drop(&mut self) {
        let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|(puppet, _)| *puppet.settings() != self.0);
    }
}

/// Waits until nobody has used a process for a while.
async fn release(release: Release) {
    loop {
        let until = {
            let idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
            idle.iter().find(|(puppet, _)| *puppet.settings() == release.0).map(|(_, until)| *until)
        };
        match until.filter(|until| *until > Instant::now()) {
            Some(until) => tokio::time::sleep_until(until).await,
            None => return,
        }
    }
}

/// The process for these settings: the one that others use already, or a new one.
pub(super) fn shared(settings: &Settings) -> Worker {
    // There is one process for each set of settings on a host, whichever graph its resources are in; so this is the
    // program's and not the engine's. The list holds on to nothing.
    static PRESENT: Mutex<Vec<WeakPuppet>> = Mutex::new(Vec::new());
    let mut present = PRESENT.lock().unwrap_or_else(PoisonError::into_inner);
    present.retain(|puppet| puppet.upgrade().is_some());
    let known = present.iter().filter_map(WeakPuppet::upgrade).find(|puppet| puppet.settings() == settings);
    let puppet = known.unwrap_or_else(|| {
        let puppet = Puppet::new(settings.clone());
        present.push(puppet.downgrade());
        puppet
    });
    Worker { puppet, runtime: Handle::current() }
}
