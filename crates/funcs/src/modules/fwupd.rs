//! `sys/fwupd`

use mgmt_funcs_derive::function;
use mgmt_value::Value;

use crate::declare::module;
use crate::{Failure, Host, Watch};

module! {
    path: "sys/fwupd",
    doc: "Updates of firmware.",
    functions: [reboot_needed],
}

/// Whether some device waits for a restart of the machine to finish an update of its firmware.
///
/// The daemon `fwupd` is asked whenever it says something. Without a system bus or without the daemon it is false.
///
/// ```mcl,host
/// fwupd.reboot_needed() == false
/// ```
#[function(live = vec![Watch::Firmware], signature = "func() bool")]
fn reboot_needed(host: &dyn Host) -> Result<Value, Failure> {
    Ok(host.firmware_wants_restart()?.map_or(Value::Nil, Value::Bool))
}
