//! One connection per bus.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, LazyLock, Mutex, Weak};
use std::time::Duration;

use serde::Serialize;
use tokio::runtime::{Handle, Id};
use tokio::sync::Semaphore;
use zbus::connection::Builder;
use zbus::{DynamicType, Message, MessageStream};

use super::{Bus, BusError, LIMIT, lock};

/// The bus itself.
pub(super) const DAEMON: &str = "org.freedesktop.DBus";
const DAEMON_PATH: &str = "/org/freedesktop/DBus";
/// How long it may take to get to the bus.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
const SYSTEM_ADDRESS: &str = "unix:path=/run/dbus/system_bus_socket";

/// How many calls may wait for their answers. Buses refuse more, mostly beyond 128.
const PENDING: usize = 64;

/// A connection to a bus, for all services on it, and the calls that may still be made.
#[derive(Debug)]
pub(super) struct Connection(zbus::Connection, Semaphore);

type Slot = Arc<tokio::sync::Mutex<Weak<Connection>>>;

/// One place for each bus, locked while somebody connects, so that nobody else does.
static CONNECTIONS: LazyLock<Mutex<HashMap<(Id, Bus), Slot>>> = LazyLock::new(Mutex::default);

/// The connection to the bus, which is made if there is none.
pub(super) async fn connect(bus: Bus) -> Result<Arc<Connection>, BusError> {
    let slot = {
        let mut connections = lock(&CONNECTIONS);
        connections.retain(|_, slot| Arc::strong_count(slot) > 1 || slot.try_lock().is_ok_and(is_used));
        Arc::clone(connections.entry((Handle::current().id(), bus)).or_default())
    };
    let mut slot = slot.lock().await;
    if let Some(present) = slot.upgrade().filter(|connection| !connection.0.is_closed()) {
        return Ok(present);
    }
    let address = address(bus);
    let unreachable = |why: String| BusError::Unreachable { bus, address: address.clone(), why };
    let attempt = Builder::address(address.as_str()).build();
    let connection = match tokio::time::timeout(CONNECT_LIMIT, attempt).await {
        Ok(Ok(connection)) => Arc::new(Connection(connection, Semaphore::new(PENDING))),
        Ok(Err(error)) => return Err(unreachable(error.to_string())),
        Err(_) => return Err(unreachable(format!("no answer within {} seconds", CONNECT_LIMIT.as_secs()))),
    };
    *slot = Arc::downgrade(&connection);
    Ok(connection)
}

fn is_used(slot: tokio::sync::MutexGuard<'_, Weak<Connection>>) -> bool {
    slot.strong_count() > 0
}

/// Where the bus is, by the rules that all programs follow.
fn address(bus: Bus) -> String {
    let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    match bus {
        Bus::System => variable("DBUS_SYSTEM_BUS_ADDRESS").unwrap_or_else(|| SYSTEM_ADDRESS.to_owned()),
        Bus::Session => variable("DBUS_SESSION_BUS_ADDRESS").unwrap_or_else(|| {
            let directory = variable("XDG_RUNTIME_DIR")
                .unwrap_or_else(|| format!("/run/user/{}", rustix::process::geteuid().as_raw()));
            format!("unix:path={directory}/bus")
        }),
    }
}

impl Connection {
    pub(super) async fn call<B: Serialize + DynamicType + Sync>(
        &self,
        limit: Duration,
        destination: &str,
        path: &str,
        interface: &str,
        method: &str,
        arguments: &B,
    ) -> Result<Message, BusError> {
        let call = || format!("{interface}.{method}");
        // Whoever is before us is done within a limit. It is never closed.
        let _turn = self.1.acquire().await;
        let answer = self.0.call_method(Some(destination), path, Some(interface), method, arguments);
        match tokio::time::timeout(limit, answer).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(failure(call(), error)),
            Err(_) => Err(BusError::Late { call: call(), seconds: limit.as_secs() }),
        }
    }

    /// Messages that match a rule.
    pub(super) async fn select(&self, rule: &str, queue: usize) -> Result<MessageStream, BusError> {
        // In a task of its own, because whoever waits for it may be taken away meanwhile: a rule that the bus has been asked
        // for has to be known here, or it would stay as long as the connection.
        let (connection, rule) = (self.0.clone(), rule.to_owned());
        let stream = tokio::spawn(async move {
            MessageStream::for_match_rule(rule.as_str(), &connection, NonZeroUsize::new(queue)).await
        });
        match tokio::time::timeout(LIMIT, stream).await {
            Ok(Ok(Ok(stream))) => Ok(stream),
            Ok(Ok(Err(error))) => Err(failure(format!("{DAEMON}.AddMatch"), error)),
            Ok(Err(_)) => Err(BusError::Gone("the connection to the bus")),
            Err(_) => Err(BusError::Late { call: format!("{DAEMON}.AddMatch"), seconds: LIMIT.as_secs() }),
        }
    }

    /// The connection behind a name, if there is one.
    pub(super) async fn owner(&self, name: &str) -> Result<Option<String>, BusError> {
        match self.call(LIMIT, DAEMON, DAEMON_PATH, DAEMON, "GetNameOwner", &name).await {
            Ok(answer) => {
                let owner = answer.body().deserialize::<String>();
                owner.map(Some).map_err(|error| failure(format!("{DAEMON}.GetNameOwner"), error))
            }
            Err(BusError::Refused { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn failure(call: String, error: zbus::Error) -> BusError {
    match error {
        zbus::Error::MethodError(name, message, _) => {
            BusError::Refused { message: message.unwrap_or_else(|| name.to_string()), name: name.to_string() }
        }
        zbus::Error::FDO(error) => BusError::Refused {
            name: zbus::DBusError::name(&*error).to_string(),
            message: zbus::DBusError::description(&*error).unwrap_or(&error.to_string()).to_owned(),
        },
        zbus::Error::InputOutput(_) => BusError::Gone("the connection to the bus"),
        error => BusError::Unexpected { call, why: error.to_string() },
    }
}
