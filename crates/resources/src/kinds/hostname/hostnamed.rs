//! The service that sets names and tells everybody.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mgmt_value::Str;
use mgmt_watch::{Bus, BusError, BusService, Service, Signal, Topic};

use super::names::Which;

const NAME: &str = "org.freedesktop.hostname1";
const PATH: &str = "/org/freedesktop/hostname1";
/// There if and only if the host was booted with systemd, which starts the service when it is called.
const BOOTED: &str = "/run/systemd/system";
/// How long it may take, starting included. Where it cannot start, as in some containers, nobody says so.
const LIMIT: Duration = Duration::from_secs(5);

pub(super) struct Hostnamed(pub(super) Arc<BusService>);

impl Hostnamed {
    /// Whether this host can have the service.
    pub(super) fn is_likely() -> bool {
        Path::new(BOOTED).is_dir()
    }

    /// The service, if this host can have it. It may not be connected yet. To be called in a runtime.
    pub(super) fn find() -> Option<Hostnamed> {
        let topic =
            |signal: &Signal| match signal.header().member().map(|member| member.to_string()).as_deref() {
                Some("PropertiesChanged") => Topic::All,
                _ => Topic::None,
            };
        let service = Service { name: NAME, subscribe: None, topic };
        Hostnamed::is_likely().then(|| Hostnamed(BusService::of(Bus::System, service)))
    }

    /// Has a name set.
    pub(super) async fn set(which: Which, value: &Str) -> Result<(), BusError> {
        let Some(service) = Hostnamed::find() else {
            return Err(BusError::Gone("this host has no systemd, and its service"));
        };
        let method = match which {
            Which::Pretty => "SetPrettyHostname",
            Which::Static => "SetStaticHostname",
            Which::Transient => "SetHostname",
        };
        // Nobody is to be asked for a password.
        let interactive = false;
        service.0.call_within::<_, ()>(LIMIT, PATH, NAME, method, &(&*value.to_text(), interactive)).await
    }
}
