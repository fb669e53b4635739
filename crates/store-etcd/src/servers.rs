//! Endpoints: the servers of an etcd cluster, asked one after the other until one answers.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use http::uri::PathAndQuery;
use prost::Message;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout_at};
use tonic::client::Grpc;
use tonic::metadata::{AsciiMetadataValue, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Streaming};
use tonic_prost::ProstCodec;

use super::failure::{Failure, plain};
use super::settings::{Address, Dialer, EtcdLogin, EtcdSettings, EtcdSettingsError, Scheme};
use super::wire;

/// The largest answer that is read. What does not fit is asked for in smaller parts.
pub(super) const LARGEST_ANSWER: usize = 64 << 20;

/// The shortest time that one of several servers gets for an answer.
const SHORTEST_ATTEMPT: Duration = Duration::from_secs(1);

/// How often the members of the cluster are asked for.
const REFRESH_EVERY: Duration = Duration::from_secs(60);

/// How often a call logs in again before it gives up: once for a proof that has run out, and once more for each other
/// call that was logging in at the same time.
const LOGINS: u32 = 3;

/// What is asked for, and what follows from that.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    path: &'static str,
    /// Doing it twice is no harm.
    repeatable: bool,
    /// Only a server that has a leader can answer well.
    with_leader: bool,
    /// How long it may take, if that is longer than usual.
    time: Duration,
}

impl Call {
    /// Something that may be done twice.
    pub(super) const fn read(path: &'static str) -> Self {
        Self { path, repeatable: true, with_leader: true, time: Duration::ZERO }
    }

    /// Something that must not be done twice.
    pub(super) const fn change(path: &'static str) -> Self {
        Self { path, repeatable: false, with_leader: true, time: Duration::ZERO }
    }

    /// Something that a server can do that has lost its leader.
    pub(super) const fn alone(mut self) -> Self {
        self.with_leader = false;
        self
    }

    /// Something that may take this long.
    pub(super) const fn within(mut self, time: Duration) -> Self {
        self.time = time;
        self
    }
}

const AUTHENTICATE: Call = Call::read("/etcdserverpb.Auth/Authenticate");
const MEMBERS: Call = Call::read("/etcdserverpb.Cluster/MemberList").alone();

/// The servers of an etcd, asked one after the other until one answers.
///
/// The first to be asked is the one that answered last. Whoever fails is asked again when all others have failed.
#[derive(Debug)]
pub(super) struct Servers {
    dialer: Dialer,
    login: Option<EtcdLogin>,
    deadline: Duration,
    follow_members: bool,
    /// What the user has named. Never forgotten, whoever else joins or leaves.
    seeds: Vec<Arc<Server>>,
    /// Held for a look or an exchange, never while waiting for anything.
    list: Mutex<List>,
    /// Held for a look or an exchange, like the list.
    token: Mutex<Token>,
    /// Held while somebody logs in, so that others wait for the outcome instead of logging in as well.
    logging_in: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct List {
    servers: Vec<Arc<Server>>,
    current: usize,
    /// When the members were last asked for.
    refreshed: Option<Instant>,
}

/// One server, and the connection to it, which comes and goes by itself.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) address: Address,
    endpoint: Endpoint,
    /// Made at the first call, since it needs a runtime.
    channel: OnceLock<Channel>,
}

/// The proof that we have logged in. Counted, so that one that has run out is thrown away once.
#[derive(Debug, Default)]
struct Token {
    number: u64,
    state: Proof,
}

#[derive(Clone, Default)]
enum Proof {
    #[default]
    Missing,
    /// This etcd asks nobody who they are.
    NotNeeded,
    Held(AsciiMetadataValue),
}

impl std::fmt::Debug for Proof {
    /// Without the token.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Proof::Missing => "Missing",
            Proof::NotNeeded => "NotNeeded",
            Proof::Held(_) => "Held",
        })
    }
}

impl Servers {
    pub(super) fn new(settings: &EtcdSettings) -> Result<Self, EtcdSettingsError> {
        let dialer = Dialer::new(settings)?;
        let mut seeds: Vec<Arc<Server>> = Vec::new();
        for text in &settings.endpoints {
            let address = Address::parse(text, settings.tls.is_some())?;
            if !seeds.iter().any(|known| known.address == address) {
                seeds.push(Arc::new(Server::new(&dialer, address)?));
            }
        }
        if seeds.is_empty() {
            return Err(EtcdSettingsError::NoEndpoint);
        }
        // Whoever is behind a socket of this host is not reached by what the members say of themselves.
        let tunnelled = seeds.iter().any(|seed| seed.address.scheme == Scheme::Unix);
        Ok(Self {
            dialer,
            login: settings.login.clone(),
            deadline: settings.deadline,
            follow_members: settings.follow_members && !tunnelled,
            list: Mutex::new(List { servers: seeds.clone(), current: 0, refreshed: None }),
            seeds,
            token: Mutex::default(),
            logging_in: tokio::sync::Mutex::default(),
        })
    }

    /// Asks servers until one answers or the time is over.
    pub(super) async fn call<Q, A>(&self, call: Call, question: Q) -> Result<A, Failure>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        self.attempts(call, |server, until| {
            let question = question.clone();
            async move { self.unary(&server, call, question, until).await }
        })
        .await
    }

    /// Opens a stream in both directions at one server. The first question has to be waiting already, since etcd says
    /// nothing before it is asked.
    pub(super) async fn open<Q, A>(
        &self,
        call: Call,
        questions: mpsc::UnboundedReceiver<Q>,
    ) -> Result<Streaming<A>, Failure>
    where
        Q: Message + 'static,
        A: Message + Default + Send + 'static,
    {
        let (server, _) = self.pick();
        let until = Instant::now() + self.deadline;
        let opened = timeout_at(until, self.stream(&server, call, questions)).await;
        let failure = match opened {
            Ok(Ok(answers)) => return Ok(answers),
            Ok(Err(failure)) => failure,
            Err(_) => Failure::Unknown(late(self.deadline)),
        };
        if matches!(failure, Failure::Untried(_) | Failure::Unknown(_)) {
            self.failed(&server);
        }
        Err(at(&server, failure))
    }

    /// Asks servers for a single answer on a stream until one gives it or the time is over.
    pub(super) async fn exchange<Q, A>(&self, call: Call, question: Q) -> Result<A, Failure>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + Send + 'static,
    {
        self.attempts(call, |server, until| {
            let (sender, questions) = mpsc::unbounded_channel();
            let sent = sender.send(question.clone());
            async move {
                debug_assert!(sent.is_ok(), "the other end is here");
                let answer = async {
                    let mut answers: Streaming<A> = self.stream(&server, call, questions).await?;
                    let answer = answers.message().await.map_err(|status| Failure::of(&status))?;
                    answer.ok_or_else(|| Failure::Unknown("the stream ended without an answer".to_owned()))
                };
                timeout_at(until, answer).await.unwrap_or_else(|_| Err(Failure::Unknown(late(self.deadline))))
            }
        })
        .await
    }

    /// Asks one server alone, found by its address, which need not be one of those that are asked by themselves.
    pub(super) async fn call_at<Q, A>(&self, address: &str, call: Call, question: Q) -> Result<A, Failure>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        let refused = |error: EtcdSettingsError| {
            Failure::Answer(super::failure::Answer {
                code: tonic::Code::InvalidArgument,
                text: error.to_string(),
            })
        };
        let tls = self.seeds.iter().any(|seed| seed.address.scheme == Scheme::Https);
        let address = Address::parse(address, tls).map_err(refused)?;
        let known = self.list().servers.iter().find(|server| server.address == address).cloned();
        let server = match known {
            Some(server) => server,
            None => Arc::new(Server::new(&self.dialer, address).map_err(refused)?),
        };
        let until = Instant::now() + self.deadline.max(call.time);
        let mut logins = 0;
        loop {
            let number = self.proof().number;
            match self.unary(&server, call, question.clone(), until).await {
                Err(Failure::Token(_)) if self.login.is_some() && logins < LOGINS => {
                    self.forget_token(number);
                    logins += 1;
                }
                outcome => return outcome.map_err(|failure| at(&server, failure)),
            }
        }
    }

    /// The addresses that are asked, the first one first.
    pub(super) fn addresses(&self) -> Vec<String> {
        let list = self.list();
        let count = list.servers.len();
        let from = (0..count).filter_map(|step| list.servers.get((list.current + step) % count));
        from.map(|server| server.address.url.clone()).collect()
    }

    /// Throws the proof away that we have logged in.
    pub(super) fn forget(&self) {
        let number = self.proof().number;
        self.forget_token(number);
    }

    async fn attempts<A, F>(
        &self,
        call: Call,
        attempt: impl Fn(Arc<Server>, Instant) -> F,
    ) -> Result<A, Failure>
    where
        F: Future<Output = Result<A, Failure>>,
    {
        let end = Instant::now() + self.deadline;
        // A change is not begun when the time is over before it is known whether the server lets us in: nobody could say
        // whether it was sent.
        let spare = if call.repeatable { Duration::ZERO } else { self.deadline / 3 };
        let mut tried = 0;
        let mut logins = 0;
        let mut pause = Duration::from_millis(20);
        loop {
            let (server, count) = self.pick();
            let until = if call.repeatable && count > 1 {
                let share = self.deadline / u32::try_from(count.min(4)).unwrap_or(4);
                end.min(Instant::now() + share.max(SHORTEST_ATTEMPT))
            } else {
                end
            };
            let number = self.proof().number;
            let failure = match attempt(Arc::clone(&server), until).await {
                Ok(answer) => {
                    self.refresh().await;
                    return Ok(answer);
                }
                Err(failure) => failure,
            };
            match &failure {
                Failure::Token(_) if self.login.is_some() && logins < LOGINS => {
                    self.forget_token(number);
                    logins += 1;
                    continue;
                }
                Failure::Untried(_) => self.failed(&server),
                Failure::Unknown(_) if call.repeatable => self.failed(&server),
                Failure::Unknown(_) => {
                    self.failed(&server);
                    return Err(at(&server, failure));
                }
                _ => return Err(failure),
            }
            tried += 1;
            // All have failed: most likely they are choosing a leader, or one of them is just starting.
            let rest = if tried % count == 0 { pause } else { Duration::ZERO };
            if Instant::now() + rest + spare >= end {
                return Err(at(&server, failure));
            }
            if !rest.is_zero() {
                sleep(rest).await;
                pause = (pause * 2).min(Duration::from_millis(500));
            }
        }
    }

    async fn unary<Q, A>(
        &self,
        server: &Server,
        call: Call,
        question: Q,
        until: Instant,
    ) -> Result<A, Failure>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let left = until.saturating_duration_since(Instant::now());
        let answer = async {
            let token = self.token(server, until).await?;
            let mut request = Request::new(question);
            request.set_timeout(left);
            self.describe(&mut request, call, token);
            let mut grpc = server.ready().await?;
            let codec: ProstCodec<Q, A> = ProstCodec::default();
            let answer = grpc.unary(request, PathAndQuery::from_static(call.path), codec).await;
            answer.map(tonic::Response::into_inner).map_err(|status| Failure::of(&status))
        };
        timeout_at(until, answer).await.unwrap_or_else(|_| Err(Failure::Unknown(late(left))))
    }

    async fn stream<Q, A>(
        &self,
        server: &Server,
        call: Call,
        questions: mpsc::UnboundedReceiver<Q>,
    ) -> Result<Streaming<A>, Failure>
    where
        Q: Message + 'static,
        A: Message + Default + Send + 'static,
    {
        let token = self.token(server, Instant::now() + self.deadline).await?;
        let mut request = Request::new(Questions(questions));
        self.describe(&mut request, call, token);
        let mut grpc = server.ready().await?;
        let codec: ProstCodec<Q, A> = ProstCodec::default();
        let answers = grpc.streaming(request, PathAndQuery::from_static(call.path), codec).await;
        answers.map(tonic::Response::into_inner).map_err(|status| Failure::of(&status))
    }

    fn describe<Q>(&self, request: &mut Request<Q>, call: Call, token: Option<AsciiMetadataValue>) {
        if call.with_leader {
            request.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
        }
        if let Some(token) = token {
            request.metadata_mut().insert("token", token);
        }
    }

    /// The proof of who we are, if we are somebody.
    async fn token(&self, server: &Server, until: Instant) -> Result<Option<AsciiMetadataValue>, Failure> {
        let Some(login) = &self.login else { return Ok(None) };
        if let Some(proven) = self.proven() {
            return Ok(proven);
        }
        let _alone = self.logging_in.lock().await;
        if let Some(proven) = self.proven() {
            return Ok(proven);
        }
        let mut request =
            Request::new(wire::Authenticate { name: login.user.clone(), password: login.password.clone() });
        request.set_timeout(until.saturating_duration_since(Instant::now()));
        let mut grpc = server.ready().await?;
        let codec: ProstCodec<wire::Authenticate, wire::Authenticated> = ProstCodec::default();
        let path = PathAndQuery::from_static(AUTHENTICATE.path);
        match grpc.unary(request, path, codec).await {
            Ok(answer) => {
                let value = AsciiMetadataValue::try_from(answer.into_inner().token)
                    .map_err(|_| Failure::Untried("the token that etcd gave is no text".to_owned()))?;
                self.prove(Proof::Held(value.clone()));
                Ok(Some(value))
            }
            Err(status) if status.message() == "etcdserver: authentication is not enabled" => {
                self.prove(Proof::NotNeeded);
                Ok(None)
            }
            // Logging in changes nothing, so the call that wanted it has not been tried.
            Err(status) => Err(match Failure::of(&status) {
                Failure::Unknown(reason) => Failure::Untried(reason),
                other => other,
            }),
        }
    }

    /// Nobody has asked us for a proof.
    pub(super) fn is_unproven(&self) -> bool {
        self.login.is_none() || matches!(self.proof().state, Proof::NotNeeded)
    }

    /// Throws a proof away that is not accepted any more, unless somebody else has replaced it since.
    fn forget_token(&self, number: u64) {
        let mut token = self.proof();
        if token.number == number {
            token.state = Proof::Missing;
        }
    }

    fn proof(&self) -> MutexGuard<'_, Token> {
        self.token.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What there is of a proof: one to be shown, or that none is needed; or nothing.
    fn proven(&self) -> Option<Option<AsciiMetadataValue>> {
        match &self.proof().state {
            Proof::Missing => None,
            Proof::NotNeeded => Some(None),
            Proof::Held(value) => Some(Some(value.clone())),
        }
    }

    fn prove(&self, state: Proof) {
        let mut token = self.proof();
        token.number += 1;
        token.state = state;
    }

    fn pick(&self) -> (Arc<Server>, usize) {
        let list = self.list();
        let count = list.servers.len();
        let server = list.servers.get(list.current % count.max(1)).or_else(|| self.seeds.first());
        #[expect(
            clippy::expect_used,
            reason = "`new` refuses an empty list of seeds, and seeds are never removed"
        )]
        let server = server.expect("there is a seed");
        (Arc::clone(server), count.max(1))
    }

    /// Others are asked first from now on.
    fn failed(&self, server: &Arc<Server>) {
        let mut list = self.list();
        let count = list.servers.len().max(1);
        if list.servers.get(list.current).is_some_and(|current| Arc::ptr_eq(current, server)) {
            list.current = (list.current + 1) % count;
        }
    }

    /// Asks who else belongs to the cluster, if that was long ago.
    async fn refresh(&self) {
        if !self.follow_members {
            return;
        }
        let server = {
            let mut list = self.list();
            let now = Instant::now();
            if list.refreshed.is_some_and(|then| now.duration_since(then) < REFRESH_EVERY) {
                return;
            }
            list.refreshed = Some(now);
            list.servers.get(list.current).cloned()
        };
        let Some(server) = server else { return };
        let until = Instant::now() + self.deadline.min(SHORTEST_ATTEMPT);
        let asked = self.unary(&server, MEMBERS, wire::MemberList { linearizable: false }, until).await;
        let answer: wire::Members = match asked {
            Ok(answer) => answer,
            Err(_) => {
                // Not now; the next call asks again, maybe somebody else.
                self.list().refreshed = None;
                return;
            }
        };
        let urls = answer.members.iter().filter(|member| !member.name.is_empty() && !member.learner);
        self.follow(urls.flat_map(|member| &member.client_urls));
    }

    /// Takes addresses into the list that the members say of themselves, and drops those that they say no more.
    ///
    /// Nobody can lead us away from encryption by that, nor to whatever listens on this host unless the user has sent
    /// us there. The seeds stay in any case.
    pub(super) fn follow<'a>(&self, urls: impl Iterator<Item = &'a String>) {
        let encrypted = self.seeds.iter().any(|seed| seed.address.scheme == Scheme::Https);
        let local = self.seeds.iter().any(|seed| seed.address.local);
        let mut list = self.list();
        let mut servers = self.seeds.clone();
        for url in urls.take(64) {
            let Ok(address) = Address::parse(url, encrypted) else { continue };
            if address.scheme == Scheme::Unix || (address.local && !local) {
                continue;
            }
            if servers.iter().any(|known| known.address == address) {
                continue;
            }
            let known = list.servers.iter().find(|known| known.address == address).cloned();
            match known.map_or_else(|| Server::new(&self.dialer, address).map(Arc::new), Ok) {
                Ok(server) => servers.push(server),
                Err(error) => tracing::debug!(%error, "a member of etcd has an address that cannot be used"),
            }
        }
        let current = list.servers.get(list.current).cloned();
        let at =
            servers.iter().position(|server| current.as_ref().is_some_and(|one| Arc::ptr_eq(one, server)));
        list.current = at.unwrap_or(0);
        list.servers = servers;
    }

    fn list(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Server {
    fn new(dialer: &Dialer, address: Address) -> Result<Self, EtcdSettingsError> {
        Ok(Self { endpoint: dialer.endpoint(&address)?, address, channel: OnceLock::new() })
    }

    /// Something to send a call with. That it is not to be had means that nothing was sent.
    async fn ready(&self) -> Result<Grpc<Channel>, Failure> {
        let channel = self.channel.get_or_init(|| self.endpoint.connect_lazy()).clone();
        let mut grpc = Grpc::new(channel).max_decoding_message_size(LARGEST_ANSWER);
        grpc.ready().await.map_err(|error| Failure::Untried(plain(&super::settings::said(&error))))?;
        Ok(grpc)
    }
}

/// Says which server it was.
fn at(server: &Server, failure: Failure) -> Failure {
    let name = &server.address.url;
    match failure {
        Failure::Untried(reason) => Failure::Untried(format!("{name}: {reason}")),
        Failure::Unknown(reason) => Failure::Unknown(format!("{name}: {reason}")),
        other => other,
    }
}

fn late(time: Duration) -> String {
    format!("no answer within {} s", time.as_secs_f32())
}

/// Questions on their way to a server.
struct Questions<Q>(mpsc::UnboundedReceiver<Q>);

impl<Q> futures_core::Stream for Questions<Q> {
    type Item = Q;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Q>> {
        self.0.poll_recv(context)
    }
}
