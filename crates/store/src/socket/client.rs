//! Client side of the socket store.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::wire::{self, Answer, Ask, LONGEST_ANSWER, Question, Reply, VERSION};
use crate::store::{
    Batch, Commit, Lease, LeaseId, Limits, Pending, Snapshot, Span, Store, StoreError, Transaction, Watch,
};

/// A store that another process has open. When that process ends and comes back, so does this, unless it was reached
/// by a connection that somebody else has made.
#[derive(Clone)]
pub struct Socket(Arc<Inner>);

struct Inner {
    /// Where to find it again.
    path: Option<PathBuf>,
    limits: Limits,
    /// Held while a connection is made, so that everyone gets the same.
    link: tokio::sync::Mutex<Option<Arc<Link>>>,
}

/// How long an answer may take, other than one to the question for news.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long to wait before asking again for a store that is gone.
const AGAIN: Duration = Duration::from_millis(250);

impl Socket {
    /// Connects to the process that serves its store here.
    pub async fn connect(path: &Path) -> Result<Socket, StoreError> {
        let (link, limits) = Link::new(path).await?;
        let link = tokio::sync::Mutex::new(Some(link));
        Ok(Socket(Arc::new(Inner { path: Some(path.to_owned()), limits, link })))
    }

    /// Uses a connection to the process that [answers](super::answer) at its other end. When that ends, so does this.
    pub async fn over(
        reading: impl AsyncRead + Unpin + Send + 'static,
        writing: impl AsyncWrite + Unpin + Send + 'static,
    ) -> Result<Socket, StoreError> {
        let (link, limits) = Link::over(reading, writing).await?;
        let link = tokio::sync::Mutex::new(Some(link));
        Ok(Socket(Arc::new(Inner { path: None, limits, link })))
    }

    async fn ask(&self, ask: Ask) -> Result<Answer, StoreError> {
        let link = self.0.link().await?;
        match tokio::time::timeout(PATIENCE, link.ask(ask)).await {
            Ok(answer) => answer,
            Err(_) => Err(StoreError::Unreachable { reason: format!("no answer for {PATIENCE:?}") }),
        }
    }
}

impl Inner {
    /// The connection, made anew if it has ended.
    async fn link(&self) -> Result<Arc<Link>, StoreError> {
        let mut link = self.link.lock().await;
        if let Some(link) = link.as_ref().filter(|link| !link.has_ended()) {
            return Ok(Arc::clone(link));
        }
        let path = self.path.as_ref().ok_or_else(hung_up)?;
        let (new, _) = Link::new(path).await?;
        *link = Some(Arc::clone(&new));
        Ok(new)
    }
}

fn unexpected<T>(answer: &Answer) -> Result<T, StoreError> {
    Err(StoreError::Refused { reason: format!("it answers something else: {answer:?}") })
}

impl Store for Socket {
    fn read(&self, spans: Vec<Span>) -> Pending<'_, Snapshot> {
        Box::pin(async move {
            match self.ask(Ask::Read(spans)).await? {
                Answer::Read(snapshot) => Ok(snapshot),
                other => unexpected(&other),
            }
        })
    }

    fn commit(&self, transaction: Transaction) -> Pending<'_, Commit> {
        Box::pin(async move {
            transaction.check(self.0.limits)?;
            match self.ask(Ask::Commit(transaction)).await? {
                Answer::Commit(commit) => Ok(commit),
                other => unexpected(&other),
            }
        })
    }

    fn watch(&self, span: Span) -> Box<dyn Watch> {
        Box::new(Following { inner: Arc::clone(&self.0), span, link: None })
    }

    fn grant(&self, time: Duration) -> Pending<'_, Lease> {
        Box::pin(async move {
            match self.ask(Ask::Grant(time)).await? {
                Answer::Granted(lease) => Ok(lease),
                other => unexpected(&other),
            }
        })
    }

    fn keep(&self, lease: LeaseId) -> Pending<'_, bool> {
        Box::pin(async move {
            match self.ask(Ask::Keep(lease)).await? {
                Answer::Kept(kept) => Ok(kept),
                other => unexpected(&other),
            }
        })
    }

    fn revoke(&self, lease: LeaseId) -> Pending<'_, ()> {
        Box::pin(async move {
            match self.ask(Ask::Revoke(lease)).await? {
                Answer::Done => Ok(()),
                other => unexpected(&other),
            }
        })
    }

    fn limits(&self) -> Limits {
        self.0.limits
    }
}

impl fmt::Debug for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Socket").field(&self.0.path).finish()
    }
}

/// One connection.
struct Link {
    questions: mpsc::Sender<Question>,
    waiting: Arc<Mutex<Waiting>>,
    last: AtomicU64,
    tasks: [JoinHandle<()>; 2],
}

type Reader = oneshot::Sender<Result<Answer, StoreError>>;

/// Who waits for an answer, by the number of the question. None once the connection has ended.
struct Waiting(Option<HashMap<u64, Reader>>);

fn lock(waiting: &Mutex<Waiting>) -> MutexGuard<'_, Waiting> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Link {
    async fn new(path: &Path) -> Result<(Arc<Link>, Limits), StoreError> {
        let unreachable = |error: std::io::Error| StoreError::Unreachable {
            reason: format!("{}: {error}", path.display()),
        };
        let (reading, writing) = UnixStream::connect(path).await.map_err(unreachable)?.into_split();
        Link::over(reading, writing).await
    }

    async fn over(
        mut reading: impl AsyncRead + Unpin + Send + 'static,
        mut writing: impl AsyncWrite + Unpin + Send + 'static,
    ) -> Result<(Arc<Link>, Limits), StoreError> {
        let (questions, mut outgoing) = mpsc::channel::<Question>(64);
        let waiting = Arc::new(Mutex::new(Waiting(Some(HashMap::new()))));
        let ends = Arc::clone(&waiting);
        let writer = tokio::spawn(async move {
            while let Some(question) = outgoing.recv().await {
                if wire::write(&mut writing, &question).await.is_err() {
                    break;
                }
            }
            lock(&ends).0 = None;
        });
        let answered = Arc::clone(&waiting);
        let reader = tokio::spawn(async move {
            while let Ok(Some(Reply { id, answer })) = wire::read(&mut reading, LONGEST_ANSWER).await {
                let reader = lock(&answered).0.as_mut().and_then(|waiting| waiting.remove(&id));
                if let Some(reader) = reader {
                    // Whoever asked may have given up.
                    let _ = reader.send(answer);
                }
            }
            lock(&answered).0 = None;
        });
        let link = Arc::new(Link { questions, waiting, last: AtomicU64::new(0), tasks: [reader, writer] });
        match tokio::time::timeout(PATIENCE, link.ask(Ask::Hello { version: VERSION })).await {
            Ok(Ok(Answer::Hello { version: VERSION, limits })) => Ok((link, limits)),
            Ok(Ok(Answer::Hello { version, .. })) => Err(StoreError::Refused {
                reason: format!("it speaks version {version}, and this program version {VERSION}"),
            }),
            Ok(Ok(other)) => unexpected(&other),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(StoreError::Unreachable { reason: format!("no answer for {PATIENCE:?}") }),
        }
    }

    fn has_ended(&self) -> bool {
        lock(&self.waiting).0.is_none()
    }

    async fn ask(&self, ask: Ask) -> Result<Answer, StoreError> {
        let (_, answer) = self.begin(ask).await?;
        answer.await.unwrap_or_else(|_| Err(hung_up()))
    }

    /// Asks, and leaves waiting for the answer to others.
    async fn begin(
        &self,
        ask: Ask,
    ) -> Result<(u64, oneshot::Receiver<Result<Answer, StoreError>>), StoreError> {
        let id = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let (reader, answer) = oneshot::channel();
        match &mut lock(&self.waiting).0 {
            Some(waiting) => {
                waiting.retain(|_, reader| !reader.is_closed());
                waiting.insert(id, reader);
            }
            None => return Err(hung_up()),
        }
        self.questions.send(Question { id, ask }).await.map_err(|_| hung_up())?;
        Ok((id, answer))
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

fn hung_up() -> StoreError {
    StoreError::Unreachable { reason: "the process that has it open has hung up".to_owned() }
}

struct Following {
    inner: Arc<Inner>,
    span: Span,
    link: Option<Asked>,
}

/// What has been asked of a connection.
struct Asked {
    link: Arc<Link>,
    watch: u64,
    news: Option<oneshot::Receiver<Result<Answer, StoreError>>>,
}

impl Following {
    async fn news(&mut self) -> Result<Batch, StoreError> {
        loop {
            match self.attempt().await {
                Ok(batch) => return Ok(batch),
                Err(error) if error.is_passing() => {
                    self.link = None;
                    tokio::time::sleep(AGAIN).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn attempt(&mut self) -> Result<Batch, StoreError> {
        let asked = match &mut self.link {
            Some(asked) => asked,
            None => {
                let link = self.inner.link().await?;
                let (watch, begun) = link.begin(Ask::Follow(self.span.clone())).await?;
                begun.await.unwrap_or_else(|_| Err(hung_up()))?;
                self.link.insert(Asked { link, watch, news: None })
            }
        };
        let news = match &mut asked.news {
            Some(news) => news,
            None => {
                let (_, news) = asked.link.begin(Ask::Next(asked.watch)).await?;
                asked.news.insert(news)
            }
        };
        let answer = news.await.unwrap_or_else(|_| Err(hung_up()));
        asked.news = None;
        match answer? {
            Answer::News(batch) => Ok(batch),
            other => unexpected(&other),
        }
    }
}

impl Watch for Following {
    fn next(&mut self) -> Pending<'_, Batch> {
        Box::pin(self.news())
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        if let Some(asked) = self.link.take() {
            // Without room for one more question, the connection is about to end anyway or the other side forgets it
            // with the connection.
            let id = asked.link.last.fetch_add(1, Ordering::Relaxed) + 1;
            let _ = asked.link.questions.try_send(Question { id, ask: Ask::End(asked.watch) });
        }
    }
}
