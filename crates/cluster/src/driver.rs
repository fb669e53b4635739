//! Cluster driver: carries out what a [`Membership`] asks for. It observes, sends requests, starts the server, and keeps what has to be remembered.
//!
//! One task owns the membership. Whatever takes time is done beside it and comes back as an [`Input`], so the task itself
//! never waits, except for the disk when something has to be remembered before anything else is done.

use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep_until, timeout};

use super::disaster_recovery::{DisasterRecoveryError, restart_alone};
use super::disk::{Directory, Remembered};
use super::observe::{ClusterView, observe};
use super::server::{Program, Server, ServerSettings};
use super::{
    Answer, Config, ConfigError, Disk, Input, Membership, Output, Request, Settings, Status, Trouble, keys,
    upkeep,
};
use mgmt_state::StateError;
use mgmt_store::{Span, Store};
use mgmt_store_etcd::cluster::{ClusterError, MemberId as EtcdMember};
use mgmt_store_etcd::{Etcd, EtcdSettings, EtcdSettingsError};

/// A cluster that this host is part of, and may serve.
#[derive(Debug)]
pub struct Cluster {
    store: Etcd,
    status: watch::Receiver<Status>,
    orders: mpsc::UnboundedSender<Order>,
    task: JoinHandle<()>,
}

/// What this host has to know to take part.
#[derive(Clone, Debug)]
pub struct ClusterSettings {
    /// Its name.
    pub host: String,
    /// A directory of its own, for data and for what has to be remembered.
    pub directory: PathBuf,
    /// Where the others are. Without any, this host founds a cluster, unless it remembers one.
    pub seeds: Vec<String>,
    /// How many servers there shall be, if the cluster does not know that yet.
    pub ideal: u32,
    /// How to speak to servers. Its endpoints are ignored.
    pub client: EtcdSettings,
    /// How to start one.
    pub server: ServerSettings,
    /// How long things may take.
    pub times: Settings,
    /// How often it is looked whether the servers need room.
    pub upkeep_every: Duration,
}

/// Why a host cannot take part.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// It is not allowed to.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Its settings for servers are wrong.
    #[error(transparent)]
    Settings(#[from] EtcdSettingsError),
    /// What it remembers cannot be read.
    #[error(transparent)]
    Disk(#[from] StateError),
    /// It shall begin again with its data alone, and that does not work.
    #[error(transparent)]
    BeginAgain(#[from] DisasterRecoveryError),
    /// There is no source of random words.
    #[error("cannot make a random word: {0}")]
    Random(std::io::Error),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Leave,
    End,
}

impl Cluster {
    /// Begins. The store can be used at once, and answers as soon as there are servers.
    pub async fn start(settings: ClusterSettings, program: Program) -> Result<Cluster, StartError> {
        let directory = Directory::new(settings.directory.clone());
        if directory.wants_recovery() {
            restart_alone(&program, &settings, &directory, &random_word()?).await?;
        }
        let disk = directory.disk()?;
        let remembered = directory.connection()?.map(|it| it.endpoints).unwrap_or_default();
        let config = Config {
            host: settings.host.clone(),
            instance: random_word()?,
            fresh_identity: random_word()?,
            peers: settings.server.peers.clone(),
            clients: settings.server.clients.clone(),
            seeds: !settings.seeds.is_empty(),
            serve: true,
            ideal: settings.ideal,
            disk: disk.clone(),
            settings: settings.times.clone(),
        };
        let membership = Membership::new(config)?;
        let mut client = settings.client.clone();
        client.endpoints = settings.seeds.iter().chain(&remembered).cloned().collect();
        if disk != Disk::Empty || client.endpoints.is_empty() {
            client.endpoints.extend(settings.server.clients.iter().cloned());
        }
        let store = Etcd::connect(client.clone())?;
        // A change is not begun when two thirds of the time are over, and it must not be begun later than this.
        client.deadline = Duration::from_millis(settings.times.send_within.saturating_mul(3) / 2);
        let inner = Etcd::connect(client)?;
        let (inputs, incoming) = mpsc::unbounded_channel();
        let (orders, ordered) = mpsc::unbounded_channel();
        let (status, told) = watch::channel(Status::default());
        let driver = Driver {
            membership,
            store: store.clone(),
            inner,
            directory,
            program,
            server: None,
            inputs,
            work: JoinSet::new(),
            sight: None,
            reached: false,
            status,
            troubles: Vec::new(),
            began: Instant::now(),
            remembered: None,
            upkeep: JoinSet::new(),
            upkeep_due: Instant::now() + settings.upkeep_every,
            settings,
        };
        let task = tokio::spawn(driver.run(incoming, ordered));
        Ok(Cluster { store, status: told, orders, task })
    }

    /// What all hosts share. It follows the servers as they come and go.
    pub fn store(&self) -> Etcd {
        self.store.clone()
    }

    /// How things are, and when they change.
    pub fn status(&self) -> watch::Receiver<Status> {
        self.status.clone()
    }

    /// Ends. If another host can take the place of this one, that is waited for; if not, this host stays a member, and goes on
    /// when it comes back. When `hurry` completes, nothing more is waited for.
    pub async fn leave(mut self, hurry: impl Future<Output = ()>) {
        let _ = self.orders.send(Order::Leave);
        tokio::select! {
            _ = &mut self.task => return,
            () = hurry => {}
        }
        let _ = self.orders.send(Order::End);
        let _ = (&mut self.task).await;
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Driver {
    membership: Membership,
    /// The one that everybody uses.
    store: Etcd,
    /// The one for the cluster's own affairs, which has less patience.
    inner: Etcd,
    directory: Directory,
    program: Program,
    server: Option<Server>,
    inputs: mpsc::UnboundedSender<Input>,
    /// Looks and requests under way.
    work: JoinSet<Done>,
    /// What was seen last.
    sight: Option<ClusterView>,
    /// The last look has shown something.
    reached: bool,
    status: watch::Sender<Status>,
    /// What should be looked after, and since when that is so, unless it has been told already.
    troubles: Vec<(Trouble, Option<Instant>)>,
    began: Instant,
    remembered: Option<Remembered>,
    upkeep: JoinSet<()>,
    upkeep_due: Instant,
    settings: ClusterSettings,
}

/// What has come of something that was done beside the driver.
enum Done {
    Seen(Box<ClusterView>),
    Unseen,
    Told,
}

/// The driver goes on, or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    GoOn,
    Over,
}

impl Driver {
    async fn run(
        mut self,
        mut incoming: mpsc::UnboundedReceiver<Input>,
        mut ordered: mpsc::UnboundedReceiver<Order>,
    ) {
        let mut news = self.store.watch(Span::Prefix(keys::PREFIX.to_owned()));
        let mut followed = true;
        let mut wake = Instant::now();
        loop {
            let input = tokio::select! {
                () = sleep_until(wake) => Input::Tick,
                Some(input) = incoming.recv() => input,
                Some(order) = ordered.recv() => self.input_of(order),
                Some(done) = self.work.join_next(), if !self.work.is_empty() => {
                    match done {
                        Ok(Done::Seen(sight)) => self.seen(*sight),
                        Ok(Done::Unseen) => self.reached = false,
                        Ok(Done::Told) | Err(_) => {}
                    }
                    continue;
                }
                Some(_) = self.upkeep.join_next(), if !self.upkeep.is_empty() => continue,
                batch = news.next(), if followed => {
                    followed = batch.is_ok();
                    Input::Nudge
                }
            };
            self.warn();
            let outputs = self.membership.step(input, self.now());
            for output in outputs {
                if let Output::Wake(time) = output {
                    wake = self.began + Duration::from_millis(time);
                } else if self.act(output).await == Next::Over {
                    return;
                }
            }
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// A host leaves if somebody can take its place. If nobody can, going away for good would help nobody, and it may be
    /// back soon; if nobody answers, nobody would let it go.
    fn input_of(&self, order: Order) -> Input {
        let Some(sight) = self.sight.as_ref().filter(|_| self.reached) else { return Input::End };
        let keys = &sight.view.keys;
        let spare = keys.volunteers.iter().any(|(host, offer)| {
            let free = offer.value.member.is_none() && !offer.value.leaving;
            free && *host != self.settings.host && !keys.dismissed.contains(host)
        });
        match order {
            Order::Leave if spare => {
                tracing::info!("leaving the cluster: another host takes the place of this one");
                Input::Leave
            }
            Order::Leave | Order::End => Input::End,
        }
    }

    async fn act(&mut self, output: Output) -> Next {
        match output {
            Output::Look(number) => self.look(number),
            Output::Call { call, until, request } => self.call(call, until, request),
            Output::Grant { call, time } => {
                let (etcd, inputs) = (self.inner.clone(), self.inputs.clone());
                self.work.spawn(async move {
                    let lease = etcd.grant(Duration::from_millis(time)).await.ok();
                    let _ = inputs.send(Input::Granted { call, lease });
                    Done::Told
                });
            }
            Output::Keep { call, lease } => {
                let (etcd, inputs) = (self.inner.clone(), self.inputs.clone());
                self.work.spawn(async move {
                    let kept = etcd.keep(lease).await.ok();
                    let _ = inputs.send(Input::Kept { call, kept });
                    Done::Told
                });
            }
            Output::Revoke(lease) => {
                // It ends by itself as well.
                let _ = timeout(Duration::from_secs(1), self.inner.revoke(lease)).await;
            }
            Output::Remember(disk) => return self.remember(disk).await,
            Output::Start(launch) => {
                tracing::info!("starting a server of the cluster, etcd {}", self.program.version());
                self.server = Some(Server::start(
                    &self.program,
                    &self.settings.server,
                    &self.settings.host,
                    &self.directory,
                    &launch,
                    self.inner.clone(),
                    self.inputs.clone(),
                ));
            }
            Output::Stop => match &mut self.server {
                Some(server) => server.stop(),
                None => {
                    let ended = super::Process::Ended { removed: false };
                    let _ = self.inputs.send(Input::Server(ended));
                }
            },
            Output::SetAside => {
                let directory = self.directory.clone();
                let done = tokio::task::spawn_blocking(move || directory.set_aside()).await;
                if let Ok(Err(error)) = done {
                    tracing::error!("cannot set the data of the server aside: {error}");
                    return Next::Over;
                }
                tracing::info!("this host is no longer a member of the cluster; its data has been set aside");
            }
            Output::Wake(_) => {}
            Output::Status(status) => self.tell(*status),
            Output::Left { .. } => return Next::Over,
        }
        Next::GoOn
    }

    /// Without knowing what it has promised, a host must not go on serving.
    async fn remember(&mut self, disk: Disk) -> Next {
        let directory = self.directory.clone();
        let done = tokio::task::spawn_blocking(move || directory.remember(&disk)).await;
        match done {
            Ok(Ok(())) => Next::GoOn,
            Ok(Err(error)) => {
                tracing::error!("this host serves no longer, as it cannot write down what it does: {error}");
                Next::Over
            }
            Err(_) => Next::Over,
        }
    }

    fn look(&mut self, number: u64) {
        let (etcd, inputs) = (self.inner.clone(), self.inputs.clone());
        let time = Duration::from_millis(self.settings.times.look_time);
        self.work.spawn(async move {
            let sight = observe(&etcd, time).await;
            let _ = inputs.send(match &sight {
                Some(sight) => Input::Seen { look: number, view: sight.view.clone() },
                None => Input::Unseen { look: number },
            });
            sight.map_or(Done::Unseen, |sight| Done::Seen(Box::new(sight)))
        });
    }

    fn call(&mut self, call: u64, until: u64, request: Request) {
        let (etcd, inputs) = (self.inner.clone(), self.inputs.clone());
        let leader = self.sight.as_ref().and_then(|sight| sight.address(sight.leader()?)).map(str::to_owned);
        let over = until.saturating_add(self.settings.times.request_time);
        let over = self.began + Duration::from_millis(over);
        let pause = Duration::from_millis(self.settings.times.decide_every);
        if !matches!(request, Request::Commit(_)) {
            tracing::debug!("asking the servers: {request:?}");
        }
        self.work.spawn(async move {
            let answer = tokio::time::timeout_at(over, ask(&etcd, leader, request)).await;
            let answer = answer.unwrap_or(Answer::Unknown);
            if answer != Answer::Done {
                tracing::debug!("the servers say: {answer:?}");
                // Asking again at once would get the same answer.
                tokio::time::sleep(pause).await;
            }
            let _ = inputs.send(Input::Answer { call, answer });
            Done::Told
        });
    }

    /// Takes note of where servers are, and looks after them if that is for this host to do.
    fn seen(&mut self, sight: ClusterView) {
        let endpoints = sight.endpoints();
        if !endpoints.is_empty() {
            self.store.follow(&endpoints);
            self.inner.follow(&endpoints);
            let tls = self.settings.server.tls.as_ref();
            let connection = Remembered {
                endpoints,
                namespace: self.settings.client.namespace.clone(),
                authority: tls.map(|tls| tls.authority.clone()),
                identity: tls.map(|tls| (tls.certificate.clone(), tls.key.clone())),
            };
            if self.remembered.as_ref() != Some(&connection) {
                match self.directory.remember_connection(&connection) {
                    Ok(()) => self.remembered = Some(connection),
                    Err(error) => tracing::warn!("{error}"),
                }
            }
        }
        let decides = sight.view.keys.decider.as_ref().map(|it| it.value.host.as_str());
        if decides == Some(&self.settings.host) && self.upkeep.is_empty() && Instant::now() >= self.upkeep_due
        {
            self.upkeep_due = Instant::now() + self.settings.upkeep_every;
            let (etcd, sight) = (self.store.clone(), sight.clone());
            self.upkeep.spawn(async move {
                if let Err(error) = upkeep::keep_up(&etcd, &sight).await {
                    tracing::debug!("looking after the servers: {error}");
                }
            });
        }
        self.sight = Some(sight);
        self.reached = true;
    }

    /// Warns of what should be looked after, once it has lasted. On the way to anything there is some trouble.
    fn warn(&mut self) {
        let lasting = Duration::from_millis(self.settings.times.look_every.saturating_mul(3));
        for (trouble, since) in &mut self.troubles {
            if since.is_some_and(|since| since.elapsed() >= lasting) {
                tracing::warn!("{trouble}");
                *since = None;
            }
        }
    }

    fn tell(&mut self, status: Status) {
        let before = self.status.borrow().clone();
        self.troubles.retain(|(trouble, _)| status.troubles.contains(trouble));
        for trouble in &status.troubles {
            if !self.troubles.iter().any(|(known, _)| known == trouble) {
                self.troubles.push((trouble.clone(), Some(Instant::now())));
            }
        }
        let mut voters = status.voters.clone();
        voters.sort();
        let mut known = before.voters.clone();
        known.sort();
        if voters != known && !voters.is_empty() {
            tracing::info!("the cluster is served by {}", voters.join(", "));
        }
        if let Some(change) = status.change.as_ref().filter(|change| before.change.as_ref() != Some(*change))
        {
            tracing::info!("the cluster changes: {change}");
        }
        self.status.send_replace(status);
    }
}

async fn ask(etcd: &Etcd, leader: Option<String>, request: Request) -> Answer {
    let outcome = match request {
        Request::Commit(transaction) => match etcd.commit(transaction).await {
            Ok(commit) if commit.done => Ok(()),
            Ok(_) => return Answer::Refused("a condition does not hold".to_owned()),
            Err(error) => Err(ClusterError::Store(error)),
        },
        Request::AddLearner { peers } => etcd.add_learner(peers).await.map(|_| ()),
        Request::Promote(id) => etcd.promote(EtcdMember(id.0)).await,
        Request::Remove(id) => etcd.remove_member(EtcdMember(id.0)).await,
        Request::MoveLeader(id) => match leader {
            Some(leader) => etcd.move_leader(&leader, EtcdMember(id.0)).await,
            None => return Answer::Refused("nobody leads".to_owned()),
        },
    };
    match outcome {
        Ok(()) => Answer::Done,
        Err(ClusterError::Store(error)) if error.is_passing() => Answer::Unknown,
        Err(error) => Answer::Refused(error.to_string()),
    }
}

/// A word that nobody else has.
fn random_word() -> Result<String, StartError> {
    use std::io::Read as _;
    let mut bytes = [0_u8; 16];
    let mut source = std::fs::File::open("/dev/urandom").map_err(StartError::Random)?;
    source.read_exact(&mut bytes).map_err(StartError::Random)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
