//! Watch hub: one task that follows keys for all watches of a client, over one stream.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustc_hash::FxHashMap;
use tokio::sync::{Notify, mpsc};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep_until};
use tonic::Streaming;

use super::Core;
use super::failure::{Failure, plain};
use super::read::{Detail, read};
use super::servers::Call;
use super::watch_table::{Found, Line, WatchId, WatchTable};
use super::wire;
use mgmt_store::{Batch, Pending, Snapshot, Span, StoreError, Watch};

const WATCH: Call = Call::read("/etcdserverpb.Watch/Watch");

/// How many lists are read at the same time.
const LISTS: usize = 8;

/// How many watches are listed with one question.
const TOGETHER: usize = 32;

/// How long to wait after trouble, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(3);

/// One task that follows keys for all watches of a client, over one stream.
///
/// It starts when somebody first waits for news, and ends when the client and all its watches are gone.
#[derive(Debug)]
pub(super) struct Hub {
    core: Arc<Core>,
    shared: Arc<Shared>,
    task: Mutex<Option<JoinHandle<()>>>,
}

/// What the task and the readers share.
#[derive(Debug, Default)]
struct Shared {
    /// Held for a look or an exchange, never while waiting for anything.
    table: Mutex<WatchTable>,
    /// The table has work for the task.
    work: Notify,
}

impl Shared {
    fn watch_table(&self) -> MutexGuard<'_, WatchTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hub {
    pub(super) fn new(core: Arc<Core>) -> Self {
        Self { core, shared: Arc::default(), task: Mutex::new(None) }
    }

    pub(super) fn watch(self: Arc<Self>, span: Span) -> Reader {
        let news = Arc::new(Notify::new());
        let id = self.shared.watch_table().add(span, Arc::clone(&news));
        Reader { hub: self, id, news }
    }

    /// Starts the task. To be called where a runtime is.
    fn start(&self) {
        let mut task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        if task.as_ref().is_none_or(JoinHandle::is_finished) {
            let follower = Follower::new(Arc::clone(&self.core), Arc::clone(&self.shared));
            *task = Some(tokio::spawn(follower.run()));
        }
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        let task = self.task.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(task) = task {
            task.abort();
        }
    }
}

/// The reader's end of a watch.
#[derive(Debug)]
pub(super) struct Reader {
    hub: Arc<Hub>,
    id: WatchId,
    news: Arc<Notify>,
}

impl Watch for Reader {
    fn next(&mut self) -> Pending<'_, Batch> {
        Box::pin(async move {
            self.hub.start();
            loop {
                let found = self.hub.shared.watch_table().take(self.id);
                match found {
                    Found::News(batch) => return Ok(batch),
                    Found::End(error) => return Err(error),
                    Found::Wait(work) => {
                        if work {
                            self.hub.shared.work.notify_one();
                        }
                    }
                }
                self.news.notified().await;
            }
        })
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        if self.hub.shared.watch_table().remove(self.id) {
            self.hub.shared.work.notify_one();
        }
    }
}

/// The task.
struct Follower {
    core: Arc<Core>,
    shared: Arc<Shared>,
    stream: Option<Stream>,
    /// Streams are counted, so that one that opens too late is not taken for another.
    streams: u64,
    next_line: Line,
    commands: JoinSet<WatchCommand>,
    /// Nothing is tried before that.
    not_before: Instant,
    pause: Duration,
    /// Since when nothing works.
    outage: Option<Instant>,
    /// When to look for watches that have to be compared with what there is.
    next_compare: Instant,
}

/// A stream of news, and who reads what on it.
struct Stream {
    number: u64,
    questions: mpsc::UnboundedSender<wire::WatchAsk>,
    /// Missing until etcd has said the first word.
    answers: Option<Streaming<wire::WatchNews>>,
    lines: FxHashMap<Line, WatchId>,
    /// Lines that have been asked for, in order.
    asked: VecDeque<Line>,
}

/// Something that takes time and has been done.
enum WatchCommand {
    Listed(Vec<(WatchId, Result<Snapshot, StoreError>)>),
    Compared(WatchId, Line, Result<Snapshot, StoreError>),
    Opened(u64, Result<Streaming<wire::WatchNews>, Failure>),
}

/// What has happened.
enum Happened {
    Work,
    Done(WatchCommand),
    News(Result<Option<wire::WatchNews>, tonic::Status>),
    Time,
}

impl Follower {
    fn new(core: Arc<Core>, shared: Arc<Shared>) -> Self {
        Self {
            core,
            shared,
            stream: None,
            streams: 0,
            next_line: 1,
            commands: JoinSet::new(),
            not_before: Instant::now(),
            pause: FIRST_PAUSE,
            outage: None,
            next_compare: Instant::now(),
        }
    }

    async fn run(mut self) {
        loop {
            self.begin();
            match self.wait().await {
                Happened::Work | Happened::Time => {}
                Happened::Done(WatchCommand::Listed(lists)) => self.listed(lists),
                Happened::Done(WatchCommand::Compared(id, line, outcome)) => self.compared(id, line, outcome),
                Happened::Done(WatchCommand::Opened(number, outcome)) => self.opened(number, outcome),
                Happened::News(Ok(Some(news))) => self.news(news),
                Happened::News(Ok(None)) => self.broken("etcd ended the stream"),
                Happened::News(Err(status)) => self.stream_failed(Failure::of(&status)),
            }
        }
    }

    /// Begins whatever can be begun.
    fn begin(&mut self) {
        let now = Instant::now();
        let unused = self.shared.watch_table().take_unused();
        if let Some(stream) = &mut self.stream {
            for line in unused {
                stream.leave(line);
            }
        }
        if now < self.not_before {
            return;
        }
        while self.commands.len() < LISTS {
            let mut table = self.shared.watch_table();
            let together = std::iter::from_fn(|| table.start_listing(now)).take(TOGETHER).collect::<Vec<_>>();
            drop(table);
            if together.is_empty() {
                break;
            }
            let core = Arc::clone(&self.core);
            self.commands.spawn(async move { WatchCommand::Listed(list(&core, together).await) });
        }
        if now >= self.next_compare {
            self.start_comparing(now);
        }
        self.follow();
    }

    /// Begins to compare those with what there is for which that was long ago. Looking for them costs a walk over all
    /// watches, so it is done now and then.
    fn start_comparing(&mut self, now: Instant) {
        while self.commands.len() < LISTS {
            let stale = now.checked_sub(self.core.compare_every);
            let found = stale.and_then(|before| self.shared.watch_table().start_comparing(before));
            let Some((id, span, line)) = found else {
                self.next_compare = now + self.look_every();
                return;
            };
            let core = Arc::clone(&self.core);
            self.commands.spawn(async move {
                WatchCommand::Compared(id, line, read(&core, &[span], Detail::Keys).await)
            });
        }
    }

    fn look_every(&self) -> Duration {
        (self.core.compare_every / 4).clamp(Duration::from_millis(50), Duration::from_secs(30))
    }

    /// Asks for the changes of all that have been listed, over a new stream if there is none.
    fn follow(&mut self) {
        if !self.shared.watch_table().wants_stream() {
            return;
        }
        let fresh = self.stream.is_none();
        let (stream, questions) = match self.stream.take() {
            Some(stream) => (stream, None),
            None => {
                self.streams += 1;
                let (stream, questions) = Stream::new(self.streams);
                (stream, Some(questions))
            }
        };
        let stream = self.stream.insert(stream);
        loop {
            let line = self.next_line;
            let Some((id, span, start)) = self.shared.watch_table().start_following(line) else { break };
            self.next_line += 1;
            // What has been listed has bounds, so nothing is lost here.
            if let Ok((key, end)) = self.core.namespace.range(&span) {
                stream.follow(line, id, key, end, start);
            }
        }
        if let (true, Some(questions)) = (fresh, questions) {
            let core = Arc::clone(&self.core);
            let number = stream.number;
            self.commands.spawn(async move {
                WatchCommand::Opened(number, core.servers.open(WATCH, questions).await)
            });
        }
    }

    async fn wait(&mut self) -> Happened {
        let now = Instant::now();
        let mut wake = self.next_compare.max(now + Duration::from_millis(50));
        if self.commands.len() < LISTS
            && let Some(next) = self.shared.watch_table().next_listing()
        {
            wake = wake.min(next);
        }
        if self.shared.watch_table().wants_stream() {
            wake = now;
        }
        wake = wake.max(self.not_before);
        let shared = Arc::clone(&self.shared);
        let news = async {
            match self.stream.as_mut().and_then(|stream| stream.answers.as_mut()) {
                Some(answers) => answers.message().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = shared.work.notified() => Happened::Work,
            Some(Ok(done)) = self.commands.join_next() => Happened::Done(done),
            news = news => Happened::News(news),
            () = sleep_until(wake) => Happened::Time,
        }
    }

    fn listed(&mut self, lists: Vec<(WatchId, Result<Snapshot, StoreError>)>) {
        for (id, outcome) in lists {
            match outcome {
                Ok(snapshot) => self.shared.watch_table().listed(id, snapshot),
                Err(error) => {
                    if error.is_passing() {
                        self.trouble(&error.to_string());
                    }
                    self.shared.watch_table().not_listed(id, error);
                }
            }
        }
    }

    fn compared(&mut self, id: WatchId, line: Line, outcome: Result<Snapshot, StoreError>) {
        // That it failed tells nothing: whoever follows learns of an outage in its own way.
        let Ok(snapshot) = outcome else { return };
        let mut table = self.shared.watch_table();
        if table.compare(id, line, &snapshot) {
            tracing::debug!(
                watch = id,
                "what is followed differs from what there is; all of it is read again"
            );
            table.lose(id);
        }
    }

    fn opened(&mut self, number: u64, outcome: Result<Streaming<wire::WatchNews>, Failure>) {
        let Some(stream) = self.stream.as_mut().filter(|stream| stream.number == number) else { return };
        match outcome {
            Ok(answers) => stream.answers = Some(answers),
            Err(failure) => self.stream_failed(failure),
        }
    }

    fn stream_failed(&mut self, failure: Failure) {
        if let Failure::Token(_) = failure {
            self.core.servers.forget();
        }
        self.broken(&failure.of_read().to_string());
    }

    fn news(&mut self, news: wire::WatchNews) {
        let revision = news.header.as_ref().map_or(0, |header| header.revision);
        let Ok(revision @ 1..) = u64::try_from(revision) else {
            return self.broken("etcd sent news without a revision");
        };
        if news.created {
            return self.created(&news, revision);
        }
        let Some(stream) = &mut self.stream else { return };
        let Some(&id) = stream.lines.get(&news.id) else { return };
        let mut table = self.shared.watch_table();
        if news.canceled {
            stream.lines.remove(&news.id);
            tracing::debug!(
                watch = id,
                compacted = news.compacted,
                reason = plain(&news.reason),
                "watch canceled"
            );
            table.lose(id);
        } else if !news.events.is_empty() {
            table.news((id, news.id), &self.core.namespace, news.events, news.fragment);
        }
    }

    /// Etcd has answered the question that was asked first.
    fn created(&mut self, news: &wire::WatchNews, revision: u64) {
        let Some(stream) = &mut self.stream else { return };
        let Some(line) = stream.asked.pop_front() else {
            return self.broken("etcd follows what nobody asked for");
        };
        if news.canceled {
            // What was just read must not be followed: our proof of who we are has run out since this stream began.
            self.core.servers.forget();
            return self.broken(&plain(&news.reason));
        }
        if news.id != line {
            return self.broken("etcd follows something else than it was asked for");
        }
        let id = stream.lines.get(&line).copied();
        let mut table = self.shared.watch_table();
        if let Some(id) = id
            && table.is_behind(id, revision)
        {
            // Either this server lags behind the one that was read from, or it has lost its data since. Nobody knows.
            table.lose(id);
        }
        drop(table);
        self.pause = FIRST_PAUSE;
        if let Some(begin) = self.outage.take() {
            let seconds = begin.elapsed().as_secs_f32();
            tracing::info!(seconds, "etcd answers again");
        }
    }

    /// Gives the stream up. Everything is read again.
    fn broken(&mut self, reason: &str) {
        if let Some(stream) = self.stream.take() {
            self.shared.watch_table().lose_all(stream.lines.into_values());
        }
        self.trouble(reason);
    }

    /// Waits a little, the longer the more often, and says so once.
    fn trouble(&mut self, reason: &str) {
        let now = Instant::now();
        if self.outage.is_none() {
            self.outage = Some(now);
            tracing::warn!(reason, "etcd does not answer; what is followed is read again when it does");
        }
        if now >= self.not_before {
            self.not_before = now + self.pause;
            self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        }
    }
}

/// Lists watches with one question. If somebody may not know the answer to all of it, each is asked for alone.
async fn list(core: &Core, watches: Vec<(WatchId, Span)>) -> Vec<(WatchId, Result<Snapshot, StoreError>)> {
    let spans: Vec<Span> = watches.iter().map(|(_, span)| span.clone()).collect();
    let outcome = read(core, &spans, Detail::All).await;
    match (outcome, watches.as_slice()) {
        (outcome, [(id, _)]) => vec![(*id, outcome)],
        (Ok(snapshot), _) => watches.iter().map(|(id, span)| (*id, Ok(part(&snapshot, span)))).collect(),
        (Err(error), _) if error.is_passing() => {
            watches.iter().map(|(id, _)| (*id, Err(error.clone()))).collect()
        }
        (Err(_), _) => {
            let mut lists = Vec::new();
            for (id, span) in watches {
                lists.push((id, read(core, &[span], Detail::All).await));
            }
            lists
        }
    }
}

/// What of a moment belongs to a span.
fn part(snapshot: &Snapshot, span: &Span) -> Snapshot {
    let (Span::Key(first) | Span::Prefix(first)) = span;
    let from = snapshot.entries.partition_point(|entry| entry.key.as_str() < first.as_str());
    let entries = snapshot.entries.iter().skip(from).take_while(|entry| span.contains(&entry.key));
    Snapshot { revision: snapshot.revision, entries: entries.cloned().collect() }
}

impl Stream {
    fn new(number: u64) -> (Self, mpsc::UnboundedReceiver<wire::WatchAsk>) {
        let (questions, receiver) = mpsc::unbounded_channel();
        let stream =
            Self { number, questions, answers: None, lines: FxHashMap::default(), asked: VecDeque::new() };
        (stream, receiver)
    }

    fn follow(&mut self, line: Line, id: WatchId, key: Vec<u8>, end: Vec<u8>, start: u64) {
        let start = i64::try_from(start).unwrap_or(i64::MAX);
        let create = wire::WatchCreate { key, end, start, progress: true, id: line, fragment: true };
        self.lines.insert(line, id);
        self.asked.push_back(line);
        self.ask(wire::WatchAskKind::Create(create));
    }

    fn leave(&mut self, line: Line) {
        if self.lines.remove(&line).is_some() {
            self.ask(wire::WatchAskKind::Cancel(wire::WatchCancel { id: line }));
        }
    }

    /// A stream that has ended tells so by itself, so that nobody listens is no error here.
    fn ask(&self, kind: wire::WatchAskKind) {
        let _ended = self.questions.send(wire::WatchAsk { kind: Some(kind) });
    }
}

#[cfg(test)]
mod tests;
