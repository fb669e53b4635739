//! Message buses: calls to services, and what services say.
//!
//! [`BusService`] is one service on one bus: `systemd` on the system's bus, for example. All who use it share it, and all
//! services of a bus share one connection. Both are there as long as somebody uses them.
//!
//! What a follower may rely on
//! - It hears of every signal under its topic that comes after the service [is ready](BusService::ready), several
//!   perhaps as one event.
//! - When the bus or the service restarts, the connection is made anew, less and less often as long as it fails, and
//!   everybody hears an event then: whatever was missed has to be looked at. Followers get an error when it has been away for
//!   5 seconds. A service that merely starts, because it
//!   was called, costs no connection and loses no signal.
//! - Only what the service itself sends counts, whoever else sends the same.
//! - No call takes longer than its limit, once it is its turn: no more calls wait for answers than a bus allows. The rule by which the bus selects messages is one per service, not one per
//!   follower.

mod connection;

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures_core::Stream;
use tokio::runtime::{Handle, Id};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::AbortHandle;
use zbus::MessageStream;
pub use zbus::{
    DynamicType as BusArguments, OwnedObjectPath as BusPath, OwnedVariant as BusValue, Type as BusAnswer,
};

use self::connection::{Connection, DAEMON, connect};

/// How long a call may take, if it has nothing to wait for.
pub(crate) const LIMIT: Duration = Duration::from_secs(25);
/// How long to wait before another attempt to connect.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// A service that was connected and is not any more counts as unwatched after this time. A restart takes less.
const AWAY_LIMIT: Duration = Duration::from_secs(5);
/// How many signals may wait to be looked at.
const QUEUE: usize = 1024;

/// A message bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bus {
    /// The host's.
    System,
    /// That of the session of the user we run as.
    Session,
}

/// A signal.
pub type Signal = zbus::Message;

/// A service on a bus.
#[derive(Clone, Copy, Debug)]
pub struct Service {
    /// Its name.
    pub name: &'static str,
    /// What has to be called before it sends signals, if anything: path, interface, method.
    pub subscribe: Option<(&'static str, &'static str, &'static str)>,
    /// Who has to hear of a signal.
    pub topic: fn(&Signal) -> Topic,
}

/// Who has to hear of a signal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Topic {
    /// Nobody.
    None,
    /// Those who follow this topic.
    One(String),
    /// All followers.
    All,
}

/// What went wrong on a bus.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BusError {
    /// There is no way to the bus.
    #[error("cannot reach the {bus} at {address}: {why}")]
    Unreachable {
        /// The bus.
        bus: Bus,
        /// Where it was expected.
        address: String,
        /// What the attempt came to.
        why: String,
    },
    /// There was no answer.
    #[error("no answer to {call} within {seconds} seconds")]
    Late {
        /// What was called.
        call: String,
        /// The limit.
        seconds: u64,
    },
    /// The connection or the service has gone away.
    #[error("{0} has gone away")]
    Gone(&'static str),
    /// The service has answered with an error.
    #[error("{message}")]
    Refused {
        /// The kind of error, for programs.
        name: String,
        /// What it says.
        message: String,
    },
    /// The answer is not what was expected.
    #[error("{call} was answered with something unexpected: {why}")]
    Unexpected {
        /// What was called.
        call: String,
        /// What is wrong with the answer.
        why: String,
    },
}

impl BusError {
    /// The bus or the service was away, which passes when it restarts.
    pub fn is_away(&self) -> bool {
        const AWAY: [&str; 4] = ["ServiceUnknown", "NameHasNoOwner", "NoReply", "Disconnected"];
        match self {
            BusError::Gone(_) | BusError::Unreachable { .. } => true,
            BusError::Refused { name, .. } => {
                name.strip_prefix("org.freedesktop.DBus.Error.").is_some_and(|name| AWAY.contains(&name))
            }
            BusError::Late { .. } | BusError::Unexpected { .. } => false,
        }
    }
}

impl std::fmt::Display for Bus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Bus::System => "system bus",
            Bus::Session => "session bus",
        })
    }
}

/// A service, for all who use it.
#[derive(Debug)]
pub struct BusService {
    shared: Arc<Shared>,
    /// Keeps the connection, and delivers.
    task: AbortHandle,
}

/// A service belongs to a runtime, as its task does.
type Key = (Id, Bus, &'static str);

/// Services in use.
static SERVICES: LazyLock<Mutex<HashMap<Key, Weak<BusService>>>> = LazyLock::new(Mutex::default);

impl BusService {
    /// The service, which may not be connected yet. To be called in a runtime.
    pub fn of(bus: Bus, service: Service) -> Arc<BusService> {
        let runtime = Handle::current();
        let mut services = lock(&SERVICES);
        services.retain(|_, service| service.strong_count() > 0);
        let key = (runtime.id(), bus, service.name);
        if let Some(present) = services.get(&key).and_then(Weak::upgrade) {
            return present;
        }
        let shared = Arc::new(Shared {
            bus,
            service,
            status: watch::Sender::new(Status::Connecting),
            was_ready: AtomicBool::new(false),
            audience: Mutex::default(),
        });
        let task = runtime.spawn(serve(Arc::clone(&shared))).abort_handle();
        let fresh = Arc::new(BusService { shared, task });
        services.insert(key, Arc::downgrade(&fresh));
        fresh
    }

    /// Waits for the connection, or for the reason why there is none.
    pub async fn ready(&self) -> Result<(), BusError> {
        self.connection().await.map(|_| ())
    }

    /// Waits for the connection, for ever if need be.
    pub async fn connected(&self) {
        let mut status = self.shared.status.subscribe();
        // The sender is ours, so this does not end before.
        let _ = status.wait_for(|status| matches!(status, Status::Ready(_))).await;
    }

    /// Waits for the connection, or for the reason why there is none, as [`ready`](BusService::ready) does. One that was there and
    /// has gone away comes back, mostly: it is waited for so long.
    pub async fn back_within(&self, limit: Duration) -> Result<(), BusError> {
        if self.shared.was_ready.load(Ordering::Relaxed) {
            // What is wrong if it does not come back is told below.
            let _ = tokio::time::timeout(limit, self.connected()).await;
        }
        self.ready().await
    }

    /// Whether the service runs. To ask does not start it.
    pub async fn is_running(&self) -> Result<bool, BusError> {
        let connection = self.connection().await?;
        Ok(connection.owner(self.shared.service.name).await?.is_some())
    }

    /// Calls a method, and waits for the answer for the usual time.
    pub async fn call<B, R>(
        &self,
        path: &str,
        interface: &str,
        method: &str,
        arguments: &B,
    ) -> Result<R, BusError>
    where
        B: serde::Serialize + zbus::DynamicType + Sync,
        R: for<'d> serde::Deserialize<'d> + zbus::Type,
    {
        self.call_within(LIMIT, path, interface, method, arguments).await
    }

    /// Calls a method, and waits for the answer so long.
    pub async fn call_within<B, R>(
        &self,
        limit: Duration,
        path: &str,
        interface: &str,
        method: &str,
        arguments: &B,
    ) -> Result<R, BusError>
    where
        B: serde::Serialize + zbus::DynamicType + Sync,
        R: for<'d> serde::Deserialize<'d> + zbus::Type,
    {
        let connection = self.connection().await?;
        let call = format!("{interface}.{method}");
        let answer =
            connection.call(limit, self.shared.service.name, path, interface, method, arguments).await?;
        let body = answer.body();
        body.deserialize::<R>().map_err(|error| BusError::Unexpected { call, why: error.to_string() })
    }

    /// Follows a topic from now on. The first event comes when the service is ready, unless it is so already.
    pub fn follow(self: &Arc<BusService>, topic: &str) -> Followed {
        let told = Arc::new(Notify::new());
        let number = {
            let mut audience = lock(&self.shared.audience);
            audience.next += 1;
            let number = audience.next;
            audience.followers.entry(topic.to_owned()).or_default().push((number, Arc::clone(&told)));
            number
        };
        // Looked at after the entry: when it becomes ready in between, there is one event too many.
        let is_settled = matches!(*self.shared.status.borrow(), Status::Ready(_));
        Followed { service: Arc::clone(self), topic: topic.to_owned(), number, told, is_settled }
    }

    /// All signals of the service, from now on. It has to be ready.
    pub fn signals(&self) -> BusSignals {
        let (sender, signals) = mpsc::unbounded_channel();
        lock(&self.shared.audience).listeners.push(sender);
        BusSignals { signals, name: self.shared.service.name }
    }

    /// Waits until the service has not been connected for this long, and gives the reason.
    async fn away_for(&self, limit: Duration) -> BusError {
        let mut status = self.shared.status.subscribe();
        loop {
            // The sender is ours, so neither wait ends before.
            let _ = status.wait_for(|status| !matches!(status, Status::Ready(_))).await;
            let back = status.wait_for(|status| matches!(status, Status::Ready(_)));
            if tokio::time::timeout(limit, back).await.is_ok() {
                continue;
            }
            return match &*status.borrow() {
                Status::Failed(error) => error.clone(),
                Status::Connecting | Status::Ready(_) => BusError::Gone(self.shared.service.name),
            };
        }
    }

    async fn connection(&self) -> Result<Arc<Connection>, BusError> {
        let mut status = self.shared.status.subscribe();
        let settled = status.wait_for(|status| !matches!(status, Status::Connecting)).await;
        match settled.as_deref() {
            Ok(Status::Ready(connection)) => Ok(Arc::clone(connection)),
            Ok(Status::Failed(error)) => Err(error.clone()),
            Ok(Status::Connecting) | Err(_) => Err(BusError::Gone("the connection")),
        }
    }
}

impl Drop for BusService {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A topic of a service, as events.
#[derive(Debug)]
pub struct Followed {
    service: Arc<BusService>,
    topic: String,
    number: u64,
    told: Arc<Notify>,
    /// The service has been ready since we are here.
    is_settled: bool,
}

impl Followed {
    /// Waits for the next event. Fails if the service cannot be reached in the beginning, or has been away for 5 seconds: nobody
    /// knows what happens meanwhile. After that the event is its return.
    pub async fn next(&mut self) -> Result<(), BusError> {
        if !self.is_settled {
            match self.was_ready() {
                true => self.service.connected().await,
                false => self.service.ready().await?,
            }
            self.is_settled = true;
            return Ok(());
        }
        tokio::select! {
            biased;
            () = self.told.notified() => Ok(()),
            error = self.service.away_for(AWAY_LIMIT) => {
                self.is_settled = false;
                Err(error)
            }
        }
    }

    /// Whether the service has been reached before, by whomever: it then comes back, mostly, and is waited for.
    pub fn was_ready(&self) -> bool {
        self.service.shared.was_ready.load(Ordering::Relaxed)
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        let mut audience = lock(&self.service.shared.audience);
        if let Some(followers) = audience.followers.get_mut(&self.topic) {
            followers.retain(|(number, _)| *number != self.number);
            if followers.is_empty() {
                audience.followers.remove(&self.topic);
            }
        }
    }
}

/// The signals of a service.
#[derive(Debug)]
pub struct BusSignals {
    signals: mpsc::UnboundedReceiver<Signal>,
    name: &'static str,
}

impl BusSignals {
    /// Waits for the next one. Fails when the connection is lost or the service restarts.
    pub async fn next(&mut self) -> Result<Signal, BusError> {
        self.signals.recv().await.ok_or(BusError::Gone(self.name))
    }
}

#[derive(Debug)]
struct Shared {
    bus: Bus,
    service: Service,
    status: watch::Sender<Status>,
    /// It has been ready before.
    was_ready: AtomicBool,
    audience: Mutex<Audience>,
}

#[derive(Debug)]
enum Status {
    Connecting,
    Ready(Arc<Connection>),
    Failed(BusError),
}

#[derive(Debug, Default)]
struct Audience {
    next: u64,
    followers: HashMap<String, Vec<(u64, Arc<Notify>)>>,
    listeners: Vec<mpsc::UnboundedSender<Signal>>,
}

impl Audience {
    fn tell(&mut self, signal: &Signal, topic: &Topic) {
        self.listeners.retain(|listener| listener.send(signal.clone()).is_ok());
        match topic {
            Topic::None => {}
            Topic::One(topic) => {
                for (_, follower) in self.followers.get(topic).into_iter().flatten() {
                    follower.notify_one();
                }
            }
            Topic::All => self.tell_all(),
        }
    }

    fn tell_all(&self) {
        for (_, follower) in self.followers.values().flatten() {
            follower.notify_one();
        }
    }
}

/// Keeps the service connected, for ever.
async fn serve(shared: Arc<Shared>) {
    let mut pause = SHORTEST_PAUSE;
    loop {
        match Session::open(&shared).await {
            Ok(mut session) => {
                shared.was_ready.store(true, Ordering::Relaxed);
                shared.status.send_replace(Status::Ready(Arc::clone(&session.connection)));
                lock(&shared.audience).tell_all();
                session.deliver(&shared).await;
                // Those who come from now on wait for the next connection.
                shared.status.send_replace(Status::Connecting);
                lock(&shared.audience).listeners.clear();
                pause = SHORTEST_PAUSE;
            }
            Err(error) => {
                shared.status.send_replace(Status::Failed(error));
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
        tokio::time::sleep(pause).await;
    }
}

/// The service while neither it nor the bus goes away.
struct Session {
    connection: Arc<Connection>,
    signals: MessageStream,
    owners: MessageStream,
    /// The connection of the service itself, by which its messages are known. `None`: it does not run.
    owner: Option<String>,
}

impl Session {
    async fn open(shared: &Shared) -> Result<Session, BusError> {
        let connection = connect(shared.bus).await?;
        let name = shared.service.name;
        let signals = connection.select(&format!("type='signal',sender='{name}'"), QUEUE).await?;
        let owners = format!(
            "type='signal',sender='{DAEMON}',interface='{DAEMON}',member='NameOwnerChanged',arg0='{name}'"
        );
        let owners = connection.select(&owners, QUEUE).await?;
        if let Some((path, interface, method)) = shared.service.subscribe {
            match connection.call(LIMIT, name, path, interface, method, &()).await {
                Ok(_) => {}
                // Services remember connections, and ours may be older than this session.
                Err(BusError::Refused { name, .. }) if name.ends_with(".AlreadySubscribed") => {}
                Err(error) => return Err(error),
            }
        }
        let owner = connection.owner(name).await?;
        Ok(Session { connection, signals, owners, owner })
    }

    /// Tells the audience what the service says, until it or the bus goes away.
    async fn deliver(&mut self, shared: &Shared) {
        loop {
            let (signals, owners) = (&mut self.signals, &mut self.owners);
            let signal = tokio::select! {
                biased;
                changed = next(owners) => match changed {
                    // Only the bus itself can send under its own name.
                    Some(Ok(changed)) if sender(&changed).as_deref() != Some(DAEMON) => continue,
                    Some(Ok(changed)) if shared.service.subscribe.is_none() && self.owner.is_none() => {
                        // Its signals come after the news that it is there, so none of them is missed.
                        let Some(owner) = new_owner(&changed) else { return };
                        self.owner = Some(owner);
                        lock(&shared.audience).tell_all();
                        continue;
                    }
                    _ => return,
                },
                signal = next(signals) => match signal {
                    Some(Ok(signal)) => signal,
                    Some(Err(_)) | None => return,
                },
            };
            if self.owner.is_some() && sender(&signal) == self.owner {
                let topic = (shared.service.topic)(&signal);
                lock(&shared.audience).tell(&signal, &topic);
            }
        }
    }
}

fn next(stream: &mut MessageStream) -> impl Future<Output = Option<zbus::Result<Signal>>> + '_ {
    poll_fn(move |cx| Pin::new(&mut *stream).poll_next(cx))
}

/// Who has a name now, if somebody has.
fn new_owner(changed: &Signal) -> Option<String> {
    let (_, _, owner) = changed.body().deserialize::<(String, String, String)>().ok()?;
    Some(owner).filter(|owner| !owner.is_empty())
}

fn sender(message: &Signal) -> Option<String> {
    message.header().sender().map(|sender| sender.to_string())
}

/// A poisoned lock means that somebody panicked while telling; what is in it stays whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
