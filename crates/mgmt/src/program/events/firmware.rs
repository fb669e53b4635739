//! Updates of firmware, as the daemon `fwupd` tells of them.

use std::collections::HashMap;

use mgmt_watch::{Bus, BusError, BusService, BusValue, Service, Topic};

const FWUPD: Service = Service { name: "org.freedesktop.fwupd", subscribe: None, topic: |_| Topic::All };
const PATH: &str = "/";
const INTERFACE: &str = "org.freedesktop.fwupd";
/// The state of an update that a restart finishes.
const NEEDS_RESTART: u32 = 4;

/// Finds out whether a device waits for a restart, now and whenever the daemon says something.
pub(super) async fn follow(told: impl Fn(bool)) {
    let service = BusService::of(Bus::System, FWUPD);
    // From here on nothing that it says is missed.
    let mut signals = service.follow("");
    if let Err(error) = service.ready().await {
        tracing::debug!("nobody tells of firmware: {error}");
        told(false);
        service.connected().await;
    }
    // Now the beginning is behind us, and that alone can fail.
    let _ = signals.next().await;
    let mut known = None;
    loop {
        match look(&service, known).await {
            Ok(wanted) => known = Some(wanted),
            Err(error) => tracing::debug!("the daemon for firmware does not answer: {error}"),
        }
        told(known.unwrap_or(false));
        if signals.next().await.is_err() {
            // The bus went away before the first event.
            service.connected().await;
        }
    }
}

/// Asks the daemon. The first question starts it; when it has ended because nobody needed it, that is no reason to start it
/// again, and what it said last stays true.
async fn look(service: &BusService, known: Option<bool>) -> Result<bool, BusError> {
    if let Some(known) = known
        && !service.is_running().await?
    {
        return Ok(known);
    }
    let devices: Vec<HashMap<String, BusValue>> = service.call(PATH, INTERFACE, "GetDevices", &()).await?;
    let waits = |device: &HashMap<String, BusValue>| {
        let state = device.get("UpdateState").map(u32::try_from);
        matches!(state, Some(Ok(NEEDS_RESTART)))
    };
    Ok(devices.iter().any(waits))
}
