//! Which process serves whom.

use std::sync::{Mutex, PoisonError};

use mgmt_puppet_process::{Puppet, Settings, WeakPuppet};

/// The process for these settings: the one that others use already, or a new one. It ends with the last handle.
pub(super) fn shared(settings: &Settings) -> Puppet {
    // There is one process for each set of settings on a host, whichever graph its resources are in; so this is the
    // program's and not the engine's. The list holds on to nothing.
    static PRESENT: Mutex<Vec<WeakPuppet>> = Mutex::new(Vec::new());
    let mut present = PRESENT.lock().unwrap_or_else(PoisonError::into_inner);
    present.retain(|puppet| puppet.upgrade().is_some());
    if let Some(puppet) =
        present.iter().filter_map(WeakPuppet::upgrade).find(|puppet| puppet.settings() == settings)
    {
        return puppet;
    }
    let puppet = Puppet::new(settings.clone());
    present.push(puppet.downgrade());
    puppet
}
