//! firewalld, as far as it is needed.

use std::sync::Arc;
use std::time::Duration;

use mgmt_resource::{Error, Result};
use mgmt_watch::{Bus, BusError, BusPath, BusService, Service, Signal, Topic};

use super::ports::Ports;

const NAME: &str = "org.fedoraproject.FirewallD1";
const PATH: &str = "/org/fedoraproject/FirewallD1";
const ZONE: &str = "org.fedoraproject.FirewallD1.zone";
const CONFIG_PATH: &str = "/org/fedoraproject/FirewallD1/config";
const CONFIG: &str = "org.fedoraproject.FirewallD1.config";
const CONFIG_ZONE: &str = "org.fedoraproject.FirewallD1.config.zone";
/// How long a firewalld that stops may take to start again.
const PATIENCE: Duration = Duration::from_secs(20);
/// It does one thing at a time, and reading everything again is one.
const LIMIT: Duration = Duration::from_secs(60);
/// Of entries that stay until somebody removes them.
const FOR_EVER: i32 = 0;

/// firewalld.
pub(super) struct Daemon(pub(super) Arc<BusService>);

/// Which rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Those that hold now.
    Runtime,
    /// Those that hold from the next time that firewalld reads its files.
    Permanent,
}

/// What a zone lets in.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    pub(super) services: Vec<String>,
    pub(super) ports: Vec<Ports>,
}

impl Daemon {
    /// It may not be connected yet. To be called in a runtime.
    pub(super) fn find() -> Daemon {
        Daemon(BusService::of(Bus::System, Service { name: NAME, subscribe: None, topic }))
    }

    /// Whether it runs. One that may just be restarting is waited for.
    pub(super) async fn is_running(&self, may_restart: bool) -> Result<bool> {
        // Before the first look, so that no start is missed.
        let mut starts = self.0.follow("");
        if self.0.is_running().await.map_err(unreachable)? {
            return Ok(true);
        }
        let started = async {
            while starts.next().await.is_ok() {
                if self.0.is_running().await.unwrap_or(false) {
                    return;
                }
            }
            std::future::pending::<()>().await;
        };
        Ok(may_restart && tokio::time::timeout(PATIENCE, started).await.is_ok())
    }

    /// A zone by its name; without one, the default zone.
    pub(super) async fn zone(&self, name: &str) -> Result<String> {
        if !name.is_empty() {
            return Ok(name.to_owned());
        }
        let zone = self.call::<_, String>(PATH, NAME, "getDefaultZone", &()).await;
        zone.map_err(|error| failure("cannot tell the default zone", error))
    }

    /// What a zone lets in. Nothing if there is no such zone.
    pub(super) async fn found(&self, place: Place, zone: &str) -> Result<Option<Found>> {
        match self.look(place, zone).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if code(&error) == Some("INVALID_ZONE") => Ok(None),
            Err(error) => Err(failure(format_args!("cannot look at the zone {zone}"), error)),
        }
    }

    async fn look(&self, place: Place, zone: &str) -> Result<Found, BusError> {
        let (services, ports) = match place {
            Place::Runtime => {
                let services = self.call::<_, Vec<String>>(PATH, ZONE, "getServices", &zone).await?;
                let ports = self.call::<_, Vec<Vec<String>>>(PATH, ZONE, "getPorts", &zone).await?;
                let pair = |port: Vec<String>| <[String; 2]>::try_from(port).ok().map(|[a, b]| (a, b));
                (services, ports.into_iter().filter_map(pair).collect())
            }
            Place::Permanent => {
                let path = self.config_path(zone).await?;
                let services =
                    self.call::<_, Vec<String>>(path.as_str(), CONFIG_ZONE, "getServices", &()).await?;
                type Pairs = Vec<(String, String)>;
                (services, self.call::<_, Pairs>(path.as_str(), CONFIG_ZONE, "getPorts", &()).await?)
            }
        };
        let ports = ports.iter().filter_map(|(numbers, protocol)| Ports::of(numbers, protocol)).collect();
        Ok(Found { services, ports })
    }

    /// Lets a service in, or keeps it out.
    pub(super) async fn set_service(
        &self,
        place: Place,
        zone: &str,
        service: &str,
        lets_in: bool,
    ) -> Result<()> {
        let method = if lets_in { "addService" } else { "removeService" };
        let set = async {
            match (place, lets_in) {
                (Place::Runtime, true) => self.told(ZONE, method, &(zone, service, FOR_EVER)).await,
                (Place::Runtime, false) => self.told(ZONE, method, &(zone, service)).await,
                (Place::Permanent, _) => {
                    let path = self.config_path(zone).await?;
                    self.call::<_, ()>(path.as_str(), CONFIG_ZONE, method, &service).await
                }
            }
        };
        done(set.await, || format!("cannot {} the service {service} in the zone {zone}", verb(lets_in)))
    }

    /// Lets ports in, or keeps them out.
    pub(super) async fn set_ports(
        &self,
        place: Place,
        zone: &str,
        ports: Ports,
        lets_in: bool,
    ) -> Result<()> {
        let method = if lets_in { "addPort" } else { "removePort" };
        let numbers = ports.numbers();
        let (numbers, protocol) = (numbers.as_str(), ports.protocol());
        let set = async {
            match (place, lets_in) {
                (Place::Runtime, true) => self.told(ZONE, method, &(zone, numbers, protocol, FOR_EVER)).await,
                (Place::Runtime, false) => self.told(ZONE, method, &(zone, numbers, protocol)).await,
                (Place::Permanent, _) => {
                    let path = self.config_path(zone).await?;
                    self.call::<_, ()>(path.as_str(), CONFIG_ZONE, method, &(numbers, protocol)).await
                }
            }
        };
        done(set.await, || format!("cannot {} {ports} in the zone {zone}", verb(lets_in)))
    }

    /// The zone as it is in files.
    async fn config_path(&self, zone: &str) -> Result<BusPath, BusError> {
        self.call::<_, BusPath>(CONFIG_PATH, CONFIG, "getZoneByName", &zone).await
    }

    /// A change of what holds now, which is answered with the name of the zone.
    async fn told<B>(&self, interface: &str, method: &str, arguments: &B) -> Result<(), BusError>
    where
        B: serde::Serialize + mgmt_watch::BusArguments + Sync,
    {
        self.call::<_, String>(PATH, interface, method, arguments).await.map(|_| ())
    }

    async fn call<B, R>(
        &self,
        path: &str,
        interface: &str,
        method: &str,
        arguments: &B,
    ) -> Result<R, BusError>
    where
        B: serde::Serialize + mgmt_watch::BusArguments + Sync,
        R: for<'d> serde::Deserialize<'d> + mgmt_watch::BusAnswer,
    {
        self.0.call_within(LIMIT, path, interface, method, arguments).await
    }
}

fn verb(lets_in: bool) -> &'static str {
    if lets_in { "let in" } else { "keep out" }
}

/// What somebody else has done in the meantime needs not be done.
fn done(set: Result<(), BusError>, what: impl Fn() -> String) -> Result<()> {
    match set {
        Err(error) if matches!(code(&error), Some("ALREADY_ENABLED" | "NOT_ENABLED")) => Ok(()),
        set => set.map_err(|error| failure(what(), error)),
    }
}

/// The word with which firewalld begins its messages.
fn code(error: &BusError) -> Option<&str> {
    match error {
        BusError::Refused { name, message } if name.starts_with(NAME) => message.split(':').next(),
        _ => None,
    }
}

fn failure(what: impl std::fmt::Display, error: BusError) -> Error {
    if let BusError::Refused { name, .. } = &error
        && (name.ends_with(".ServiceUnknown")
            || name.ends_with(".NameHasNoOwner")
            || name.ends_with(".NoReply"))
    {
        return not_running();
    }
    let hint = match (code(&error), &error) {
        (Some("INVALID_SERVICE"), _) => {
            "firewall-cmd --get-services lists the services that firewalld knows; it knows a new one after firewall-cmd --reload"
        }
        (Some("INVALID_ZONE"), _) => NO_ZONE,
        (_, BusError::Refused { name, .. })
            if name.contains("NotAuthorized") || name.contains("AccessDenied") =>
        {
            "run this program as root"
        }
        (_, BusError::Unreachable { .. }) => return unreachable(error),
        _ => "journalctl --unit firewalld tells more",
    };
    Error::new(format_args!("{what}: {error}")).with_hint(hint)
}

const NO_ZONE: &str = "firewall-cmd --get-zones lists the zones that firewalld knows; it knows a new one after firewall-cmd --reload";

pub(super) fn no_zone(place: Place, zone: &str) -> Error {
    let place = if place == Place::Permanent { " in its files" } else { "" };
    Error::new(format_args!("firewalld has no zone {zone}{place}")).with_hint(NO_ZONE)
}

pub(super) fn not_running() -> Error {
    Error::new("firewalld does not run, so nothing can be let in or kept out").with_hint(
        "install the package firewalld, and have it running with the resource `svc` of that name: systemctl status firewalld tells more",
    )
}

pub(super) fn unreachable(error: BusError) -> Error {
    Error::new(format_args!("cannot talk to firewalld: {error}"))
        .with_hint("install and start the message bus: the package is mostly called dbus")
}

/// Signals after which a zone may let in something else. Few of them come, and nearly all concern the zone that is used most.
fn topic(signal: &Signal) -> Topic {
    match signal.header().member().map(|member| member.to_string()).as_deref() {
        Some(
            "ServiceAdded" | "ServiceRemoved" | "PortAdded" | "PortRemoved" | "ZoneUpdated" | "ZoneAdded"
            | "Reloaded" | "DefaultZoneChanged" | "Updated" | "Removed" | "Renamed",
        ) => Topic::All,
        _ => Topic::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(message: &str) -> BusError {
        BusError::Refused { name: format!("{NAME}.Exception"), message: message.to_owned() }
    }

    #[test]
    fn what_is_done_already_is_no_error_and_all_else_is() {
        for fine in ["ALREADY_ENABLED: 'ssh' already in 'public'", "NOT_ENABLED: 80:tcp"] {
            assert!(done(Err(refused(fine)), String::new).is_ok(), "{fine}");
        }
        let error = done(Err(refused("INVALID_SERVICE: 'x'")), || "cannot let in x".to_owned()).unwrap_err();
        assert!(error.to_string().contains("INVALID_SERVICE"), "{error}");
        assert!(error.hint().unwrap().contains("--get-services"));
        let other = BusError::Refused { name: "org.example.Error".into(), message: "NOT_ENABLED: x".into() };
        assert!(done(Err(other), String::new).is_err(), "this is not from firewalld");
    }

    #[test]
    fn a_firewalld_that_is_gone_does_not_run() {
        let name = "org.freedesktop.DBus.Error.ServiceUnknown".to_owned();
        let error = failure("x", BusError::Refused { name, message: "no".into() });
        assert!(error.to_string().contains("firewalld does not run"), "{error}");
    }
}
