//! The service that knows all machines, as far as it is needed.

use std::convert::Infallible;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use mgmt_resource::{Cancel, Error, Host, Result, Watch, WatchStream};
use mgmt_value::Str;
use mgmt_watch::{Bus, BusError, BusPath, BusService, BusValue, Followed, Service, Signal, Topic};

const NAME: &str = "org.freedesktop.machine1";
const PATH: &str = "/org/freedesktop/machine1";
const MANAGER: &str = "org.freedesktop.machine1.Manager";
const MACHINE: &str = "org.freedesktop.machine1.Machine";
const PROPERTIES: &str = "org.freedesktop.DBus.Properties";
/// There if and only if the host was booted with systemd.
const BOOTED: &str = "/run/systemd/system";

/// What tells the first process of a system to power it off: SIGRTMIN+4.
const POWER_OFF: i32 = 38;
/// SIGKILL.
const KILL: i32 = 9;
/// How long a machine may take to end in order, and by force.
const IN_ORDER: Duration = Duration::from_secs(90);
const BY_FORCE: Duration = Duration::from_secs(10);
/// How long until a machine that is to end is told so again.
const REMINDER: Duration = Duration::from_secs(1);

pub(super) struct Machined(Arc<BusService>);

/// A machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Machine {
    /// `opening`, `running` or `closing`.
    pub(super) state: String,
    /// The unit that it runs in.
    pub(super) unit: String,
}

impl Machined {
    /// It may not be connected yet; it starts when it is called. To be called in a runtime.
    pub(super) fn find() -> Result<Machined> {
        if !Path::new(BOOTED).is_dir() {
            return Err(Error::new("this host does not run systemd, which containers of this kind need")
                .with_hint("manage them only on hosts that were booted with systemd"));
        }
        let service = Service { name: NAME, subscribe: None, topic };
        Ok(Machined(BusService::of(Bus::System, service)))
    }

    /// A machine, if there is one of this name.
    pub(super) async fn machine(&self, name: &str) -> Result<Option<Machine>> {
        match self.look(name).await {
            Ok(machine) => Ok(Some(machine)),
            // It may have gone while we looked, and its object with it.
            Err(BusError::Refused { name, .. })
                if [".NoSuchMachine", ".UnknownObject", ".UnknownMethod"]
                    .iter()
                    .any(|end| name.ends_with(end)) =>
            {
                Ok(None)
            }
            Err(error) => Err(failure(format_args!("cannot look at the machine {name}"), error)),
        }
    }

    async fn look(&self, name: &str) -> Result<Machine, BusError> {
        let path = self.0.call::<_, BusPath>(PATH, MANAGER, "GetMachine", &name).await?;
        let property = async |property: &str| {
            let value =
                self.0.call::<_, BusValue>(path.as_str(), PROPERTIES, "Get", &(MACHINE, property)).await?;
            <&str>::try_from(&value).map(str::to_owned).map_err(|_| BusError::Unexpected {
                call: format!("{MACHINE}.{property}"),
                why: "it is no text".to_owned(),
            })
        };
        Ok(Machine { state: property("State").await?, unit: property("Unit").await? })
    }

    /// Ends a machine: in order if it can, and by force if that takes too long. Tells whether it is gone.
    pub(super) async fn end(&self, name: &str) -> Result<bool> {
        let mut told = self.0.follow(name);
        for (whom, signal, patience) in [("leader", POWER_OFF, IN_ORDER), ("all", KILL, BY_FORCE)] {
            match self.0.call::<_, ()>(PATH, MANAGER, "KillMachine", &(name, whom, signal)).await {
                // It has gone by itself.
                Err(BusError::Refused { name, .. }) if name.ends_with(".NoSuchMachine") => return Ok(true),
                Err(error) => return Err(failure(format_args!("cannot end the machine {name}"), error)),
                Ok(()) => {}
            }
            let until = tokio::time::Instant::now() + patience;
            while self.machine(name).await?.is_some() {
                match tokio::time::timeout_at(until, told.next()).await {
                    Ok(event) => event.map_err(unreachable)?,
                    Err(_) => break,
                }
            }
            if self.machine(name).await?.is_none() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Tells a machine to end, again and again. A system that is just coming up does not listen yet, and one that is told
    /// twice ends once.
    pub(super) async fn remind(&self, name: &str) -> Infallible {
        loop {
            tokio::time::sleep(REMINDER).await;
            // If it is gone, whoever waits for that knows it already.
            let _ = self.0.call::<_, ()>(PATH, MANAGER, "KillMachine", &(name, "leader", POWER_OFF)).await;
        }
    }

    /// Whether there is an image of this name.
    pub(super) async fn has_image(&self, name: &str) -> Result<bool> {
        match self.0.call::<_, BusPath>(PATH, MANAGER, "GetImage", &name).await {
            Ok(_) => Ok(true),
            Err(BusError::Refused { name, .. }) if name.ends_with(".NoSuchImage") => Ok(false),
            Err(error) => Err(failure(format_args!("cannot look for the image {name}"), error)),
        }
    }
}

fn failure(what: impl std::fmt::Display, error: BusError) -> Error {
    let failed = Error::new(format_args!("{what}: {error}"));
    match &error {
        BusError::Refused { name, .. }
            if [".ServiceUnknown", ".NameHasNoOwner", ".Spawn.ServiceNotFound"]
                .iter()
                .any(|end| name.ends_with(end)) =>
        {
            Error::new(format_args!("{what}: systemd-machined is not there"))
                .with_hint("install it: the package is mostly called systemd-container")
        }
        BusError::Refused { name, .. } if name.contains("AccessDenied") => {
            failed.with_hint("run this program as root")
        }
        BusError::Unreachable { .. } => unreachable(error),
        _ => failed.with_hint("systemctl status systemd-machined tells more"),
    }
}

fn unreachable(error: BusError) -> Error {
    Error::new(format_args!("cannot talk to systemd-machined: {error}"))
        .with_hint("install and start the message bus: the package is mostly called dbus")
}

/// Machines that come and go.
pub(super) fn watch(machine: &Str) -> Watch {
    let topic = machine.to_text().into_owned();
    let key = Str::from(format!("nspawn {topic}"));
    let start = move |_: &Host| {
        let followed = Machined::find()?.0.follow(&topic);
        Ok(Box::new(Told(followed)) as Box<dyn WatchStream>)
    };
    Watch::Stream { key, start: Arc::new(start) }
}

struct Told(Followed);

impl WatchStream for Told {
    fn next<'a>(&'a mut self, cancel: &'a Cancel) -> Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>> {
        Box::pin(async move {
            tokio::select! {
                event = self.0.next() => event.map_err(unreachable),
                () = cancel.cancelled() => Err(Error::Cancelled),
            }
        })
    }
}

/// Which machine a signal is about.
fn topic(signal: &Signal) -> Topic {
    match signal.header().member().map(|member| member.to_string()).as_deref() {
        Some("MachineNew" | "MachineRemoved") => match signal.body().deserialize::<(String, BusPath)>() {
            Ok((machine, _)) => Topic::One(machine),
            Err(_) => Topic::All,
        },
        _ => Topic::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_concern_the_machine_they_name() {
        let signal = |member: &str| Signal::signal(PATH.to_owned(), MANAGER.to_owned(), member.to_owned());
        let path = BusPath::try_from("/org/freedesktop/machine1/machine/web").unwrap();
        for member in ["MachineNew", "MachineRemoved"] {
            let told = signal(member).build(&("web", path.clone())).unwrap();
            assert_eq!(topic(&told), Topic::One("web".into()));
        }
        assert_eq!(topic(&signal("MachineNew").build(&7_u32).unwrap()), Topic::All);
        assert_eq!(topic(&signal("Other").build(&()).unwrap()), Topic::None);
    }

    #[test]
    fn a_missing_service_is_told_by_the_name_of_its_package() {
        let name = "org.freedesktop.DBus.Error.ServiceUnknown".to_owned();
        let error = failure("cannot look", BusError::Refused { name, message: "x".into() });
        assert!(error.hint().unwrap().contains("systemd-container"));
    }
}
