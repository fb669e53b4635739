//! One task that follows keys for all watches of a client, over one stream.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustc_hash::FxHashMap;
use tokio::sync::{Notify, mpsc};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep_until};
use tonic::Streaming;

use super::Core;
use super::board::{Board, Found, Line, WatchId};
use super::failure::{Failure, plain};
use super::read::{Detail, read};
use super::servers::Call;
use super::wire;
use crate::store::{Batch, Pending, Snapshot, Span, StoreError, Watch};

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
    board: Mutex<Board>,
    /// The board has work for the task.
    work: Notify,
}

impl Shared {
    fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hub {
    pub(super) fn new(core: Arc<Core>) -> Self {
        Self { core, shared: Arc::default(), task: Mutex::new(None) }
    }

    pub(super) fn watch(self: Arc<Self>, span: Span) -> Reader {
        let news = Arc::new(Notify::new());
        let id = self.shared.board().add(span, Arc::clone(&news));
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
                let found = self.hub.shared.board().take(self.id);
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
        if self.hub.shared.board().remove(self.id) {
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
    errands: JoinSet<Errand>,
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
enum Errand {
    Listed(Vec<(WatchId, Result<Snapshot, StoreError>)>),
    Compared(WatchId, Line, Result<Snapshot, StoreError>),
    Opened(u64, Result<Streaming<wire::WatchNews>, Failure>),
}

/// What has happened.
enum Happened {
    Work,
    Done(Errand),
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
            errands: JoinSet::new(),
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
                Happened::Done(Errand::Listed(lists)) => self.listed(lists),
                Happened::Done(Errand::Compared(id, line, outcome)) => self.compared(id, line, outcome),
                Happened::Done(Errand::Opened(number, outcome)) => self.opened(number, outcome),
                Happened::News(Ok(Some(news))) => self.news(news),
                Happened::News(Ok(None)) => self.broken("etcd ended the stream"),
                Happened::News(Err(status)) => self.stream_failed(Failure::of(&status)),
            }
        }
    }

    /// Begins whatever can be begun.
    fn begin(&mut self) {
        let now = Instant::now();
        let unused = self.shared.board().take_unused();
        if let Some(stream) = &mut self.stream {
            for line in unused {
                stream.leave(line);
            }
        }
        if now < self.not_before {
            return;
        }
        while self.errands.len() < LISTS {
            let mut board = self.shared.board();
            let together = std::iter::from_fn(|| board.start_listing(now)).take(TOGETHER).collect::<Vec<_>>();
            drop(board);
            if together.is_empty() {
                break;
            }
            let core = Arc::clone(&self.core);
            self.errands.spawn(async move { Errand::Listed(list(&core, together).await) });
        }
        if now >= self.next_compare {
            self.start_comparing(now);
        }
        self.follow();
    }

    /// Begins to compare those with what there is for which that was long ago. Looking for them costs a walk over all
    /// watches, so it is done now and then.
    fn start_comparing(&mut self, now: Instant) {
        while self.errands.len() < LISTS {
            let stale = now.checked_sub(self.core.compare_every);
            let found = stale.and_then(|before| self.shared.board().start_comparing(before));
            let Some((id, span, line)) = found else {
                self.next_compare = now + self.look_every();
                return;
            };
            let core = Arc::clone(&self.core);
            self.errands
                .spawn(async move { Errand::Compared(id, line, read(&core, &[span], Detail::Keys).await) });
        }
    }

    fn look_every(&self) -> Duration {
        (self.core.compare_every / 4).clamp(Duration::from_millis(50), Duration::from_secs(30))
    }

    /// Asks for the changes of all that have been listed, over a new stream if there is none.
    fn follow(&mut self) {
        if !self.shared.board().wants_stream() {
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
            let Some((id, span, start)) = self.shared.board().start_following(line) else { break };
            self.next_line += 1;
            // What has been listed has bounds, so nothing is lost here.
            if let Ok((key, end)) = self.core.namespace.range(&span) {
                stream.follow(line, id, key, end, start);
            }
        }
        if let (true, Some(questions)) = (fresh, questions) {
            let core = Arc::clone(&self.core);
            let number = stream.number;
            self.errands
                .spawn(async move { Errand::Opened(number, core.servers.open(WATCH, questions).await) });
        }
    }

    async fn wait(&mut self) -> Happened {
        let now = Instant::now();
        let mut wake = self.next_compare.max(now + Duration::from_millis(50));
        if self.errands.len() < LISTS
            && let Some(next) = self.shared.board().next_listing()
        {
            wake = wake.min(next);
        }
        if self.shared.board().wants_stream() {
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
            Some(Ok(done)) = self.errands.join_next() => Happened::Done(done),
            news = news => Happened::News(news),
            () = sleep_until(wake) => Happened::Time,
        }
    }

    fn listed(&mut self, lists: Vec<(WatchId, Result<Snapshot, StoreError>)>) {
        for (id, outcome) in lists {
            match outcome {
                Ok(snapshot) => self.shared.board().listed(id, snapshot),
                Err(error) => {
                    if error.is_passing() {
                        self.trouble(&error.to_string());
                    }
                    self.shared.board().not_listed(id, error);
                }
            }
        }
    }

    fn compared(&mut self, id: WatchId, line: Line, outcome: Result<Snapshot, StoreError>) {
        // That it failed tells nothing: whoever follows learns of an outage in its own way.
        let Ok(snapshot) = outcome else { return };
        let mut board = self.shared.board();
        if board.compare(id, line, &snapshot) {
            tracing::debug!(
                watch = id,
                "what is followed differs from what there is; all of it is read again"
            );
            board.lose(id);
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
        let mut board = self.shared.board();
        if news.canceled {
            stream.lines.remove(&news.id);
            tracing::debug!(
                watch = id,
                compacted = news.compacted,
                reason = plain(&news.reason),
                "watch canceled"
            );
            board.lose(id);
        } else if !news.events.is_empty() {
            board.news((id, news.id), &self.core.namespace, news.events, news.fragment);
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
        let mut board = self.shared.board();
        if let Some(id) = id
            && board.is_behind(id, revision)
        {
            // Either this server lags behind the one that was read from, or it has lost its data since. Nobody knows.
            board.lose(id);
        }
        drop(board);
        self.pause = FIRST_PAUSE;
        if let Some(begin) = self.outage.take() {
            let seconds = begin.elapsed().as_secs_f32();
            tracing::info!(seconds, "etcd answers again");
        }
    }

    /// Gives the stream up. Everything is read again.
    fn broken(&mut self, reason: &str) {
        if let Some(stream) = self.stream.take() {
            self.shared.board().lose_all(stream.lines.into_values());
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
mod tests {
    use super::*;
    use crate::etcd::{EtcdSettings, Namespace, Servers};

    /// A task that has asked for the changes of two keys and has got no answer yet, over a stream that leads nowhere.
    struct Bench {
        follower: Follower,
        ids: [WatchId; 2],
        /// What was asked.
        questions: mpsc::UnboundedReceiver<wire::WatchAsk>,
    }

    impl Bench {
        fn new() -> Self {
            let settings = EtcdSettings::new(["127.0.0.1:1"]);
            let core = Core {
                servers: Servers::new(&settings).unwrap(),
                namespace: Namespace::new("/m"),
                compare_every: Duration::from_secs(600),
            };
            let mut follower = Follower::new(Arc::new(core), Arc::default());
            let (stream, questions) = Stream::new(1);
            follower.stream = Some(stream);
            let ids = ["/a", "/b"].map(|key| {
                let mut board = follower.shared.board();
                let id = board.add(Span::Key(key.to_owned()), Arc::default());
                assert!(matches!(board.take(id), Found::Wait(true)));
                assert!(board.start_listing(Instant::now()).is_some());
                board.listed(id, Snapshot { revision: 10, entries: Vec::new() });
                assert!(matches!(board.take(id), Found::News(_)));
                assert!(matches!(board.take(id), Found::Wait(true)));
                id
            });
            follower.follow();
            let mut bench = Self { follower, ids, questions };
            assert_eq!(bench.asked(), ["follow 1 from 11", "follow 2 from 11"]);
            bench
        }

        fn asked(&mut self) -> Vec<String> {
            let mut asked = Vec::new();
            while let Ok(question) = self.questions.try_recv() {
                asked.push(match question.kind {
                    Some(wire::WatchAskKind::Create(create)) => {
                        format!("follow {} from {}", create.id, create.start)
                    }
                    Some(wire::WatchAskKind::Cancel(cancel)) => format!("leave {}", cancel.id),
                    None => "nothing".to_owned(),
                });
            }
            asked
        }

        fn hear(&mut self, news: wire::WatchNews) {
            self.follower.news(news);
        }

        fn is_open(&self) -> bool {
            self.follower.stream.is_some()
        }

        /// Which of the two has to be read again.
        fn lost(&mut self) -> [bool; 2] {
            let mut board = self.follower.shared.board();
            let mut found = Vec::new();
            while let Some(when) = board.next_listing()
                && let Some((id, _)) = board.start_listing(when)
            {
                found.push(id);
            }
            self.ids.map(|id| found.contains(&id))
        }
    }

    fn at(revision: i64) -> Option<wire::Header> {
        Some(wire::Header { revision, ..wire::Header::default() })
    }

    fn created(id: i64, revision: i64) -> wire::WatchNews {
        wire::WatchNews { header: at(revision), id, created: true, ..wire::WatchNews::default() }
    }

    fn written(id: i64, key: &str, modified: i64) -> wire::WatchNews {
        let entry = wire::KeyValue { key: key.into(), modified, ..wire::KeyValue::default() };
        let events = vec![wire::Event { kind: 0, entry: Some(entry) }];
        wire::WatchNews { header: at(modified), id, events, ..wire::WatchNews::default() }
    }

    #[test]
    fn a_moment_is_shared_by_those_who_asked_together() {
        let names = ["/a", "/a/1", "/a/2", "/ab", "/b"];
        let entry = |key: &str| crate::store::Entry {
            key: key.to_owned(),
            value: Vec::new(),
            created: 1,
            modified: 1,
            lease: None,
        };
        let snapshot = Snapshot { revision: 3, entries: names.map(entry).to_vec() };
        let of = |span: Span| {
            part(&snapshot, &span).entries.into_iter().map(|entry| entry.key).collect::<Vec<_>>()
        };
        assert_eq!(of(Span::Key("/a".to_owned())), ["/a"]);
        assert_eq!(of(Span::Key("/aa".to_owned())), [""; 0]);
        assert_eq!(of(Span::Prefix("/a/".to_owned())), ["/a/1", "/a/2"]);
        assert_eq!(of(Span::Prefix("/a".to_owned())), ["/a", "/a/1", "/a/2", "/ab"]);
        assert_eq!(of(Span::Prefix("/c".to_owned())), [""; 0]);
        assert_eq!(of(Span::Prefix(String::new())), names);
    }

    #[tokio::test]
    async fn news_go_to_the_watch_that_asked_for_them() {
        let mut bench = Bench::new();
        bench.hear(created(1, 10));
        bench.hear(created(2, 10));
        bench.hear(written(2, "/m/b", 11));
        bench.hear(written(77, "/m/a", 11));
        let [a, b] = bench.ids;
        let mut board = bench.follower.shared.board();
        assert!(matches!(board.take(a), Found::Wait(_)));
        assert!(matches!(board.take(b), Found::News(batch) if batch.revision == 11 && !batch.whole));
        drop(board);
        assert_eq!(bench.lost(), [false, false]);
    }

    #[tokio::test]
    async fn a_stream_that_makes_no_sense_is_given_up_with_all_that_it_told() {
        let nameless = wire::WatchNews { header: None, id: 1, ..wire::WatchNews::default() };
        let zero = wire::WatchNews { header: at(0), id: 1, ..wire::WatchNews::default() };
        let refused = wire::WatchNews { canceled: true, ..created(-1, 10) };
        for nonsense in [nameless, zero, refused, created(2, 10), created(5, 10)] {
            let mut bench = Bench::new();
            bench.hear(nonsense.clone());
            assert!(!bench.is_open(), "{nonsense:?}");
            assert_eq!(bench.lost(), [true, true], "{nonsense:?}");
            assert!(bench.follower.outage.is_some());
        }
        let mut bench = Bench::new();
        for (id, open) in [(1, true), (2, true), (3, false)] {
            bench.hear(created(id, 10));
            assert_eq!(bench.is_open(), open, "nobody asked for a third");
        }
    }

    #[tokio::test]
    async fn a_watch_that_is_cancelled_is_read_again_and_others_go_on() {
        let mut bench = Bench::new();
        bench.hear(created(1, 10));
        bench.hear(wire::WatchNews {
            header: at(20),
            id: 1,
            canceled: true,
            compacted: 15,
            ..wire::WatchNews::default()
        });
        assert!(bench.is_open());
        assert_eq!(bench.lost(), [true, false]);
    }

    #[tokio::test]
    async fn a_server_that_is_behind_what_was_read_is_doubted() {
        let mut bench = Bench::new();
        bench.hear(created(1, 9));
        assert!(bench.is_open());
        assert_eq!(bench.lost(), [true, false]);
        bench.follower.begin();
        assert_eq!(bench.asked(), ["leave 1"]);
        // What still comes for it is for nobody.
        bench.hear(written(1, "/m/a", 11));
        let id = bench.ids[0];
        assert!(matches!(bench.follower.shared.board().take(id), Found::Wait(_)));
    }

    #[tokio::test]
    async fn who_leaves_is_not_followed_any_more() {
        let mut bench = Bench::new();
        bench.hear(created(1, 10));
        bench.hear(created(2, 10));
        assert!(bench.follower.shared.board().remove(bench.ids[1]));
        bench.follower.begin();
        assert_eq!(bench.asked(), ["leave 2"]);
        bench.hear(written(2, "/m/b", 11));
        assert!(bench.is_open());
    }

    #[tokio::test]
    async fn pauses_grow_while_nothing_works_and_shrink_when_something_does() {
        let mut bench = Bench::new();
        bench.follower.broken("a test");
        let first = bench.follower.pause;
        bench.follower.trouble("still waiting");
        assert_eq!(bench.follower.pause, first, "what fails in one outage at the same time counts once");
        for _ in 0..20 {
            bench.follower.not_before = Instant::now();
            bench.follower.trouble("again");
        }
        assert_eq!(bench.follower.pause, LONGEST_PAUSE);
        let (mut stream, _questions) = Stream::new(2);
        stream.follow(9, 9, Vec::new(), Vec::new(), 1);
        bench.follower.stream = Some(stream);
        bench.hear(created(9, 10));
        assert_eq!((bench.follower.pause, bench.follower.outage), (FIRST_PAUSE, None));
    }
}
