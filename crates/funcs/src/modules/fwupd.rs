//! `sys/fwupd`

use mgmt_funcs_derive::function;

use crate::declare::module;
use crate::{Failure, Host, Watch};

module! {
    path: "sys/fwupd",
    doc: "Updates of firmware.",
    functions: [reboot_needed],
}

/// Whether some device waits for a restart of the machine to finish an update of its firmware.
///
/// Without a system bus or without the daemon it is false.
///
/// ```mcl,no_run
/// fwupd.reboot_needed() == false
/// ```
#[function(live = vec![Watch::Bus("org.freedesktop.fwupd")])]
fn reboot_needed(host: &dyn Host) -> Result<bool, Failure> {
    host.firmware_wants_restart()
}
