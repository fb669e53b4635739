//! Server side of the socket store.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::{JoinHandle, JoinSet};

use super::wire::{self, Answer, Ask, LONGEST_QUESTION, Question, Reply, VERSION};
use crate::store::{Store, StoreError, Watch};

/// Others are served until this is dropped.
#[derive(Debug)]
pub struct Server {
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Questions of one connection that are worked on at the same time. Those that wait for news do not count.
const AT_ONCE: usize = 64;

/// Connections at the same time.
const CONNECTIONS: usize = 256;

/// Serves a store on a socket. One that was left behind in its place is removed.
pub fn serve(store: Arc<dyn Store>, path: &Path) -> io::Result<Server> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // Nobody but the owner may connect, not even for a moment: the directory is the owner's alone, and the kernel says
    // who it is that connects.
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    let task = tokio::spawn(async move {
        let mut connections = JoinSet::new();
        loop {
            while connections.try_join_next().is_some() {}
            match listener.accept().await {
                Ok((stream, _)) if is_welcome(&stream) && connections.len() < CONNECTIONS => {
                    let (reading, writing) = stream.into_split();
                    connections.spawn(answer(Arc::clone(&store), reading, writing));
                }
                Ok(_) => tracing::warn!("somebody was not allowed to use the store"),
                Err(error) => {
                    tracing::warn!("the socket of the store: {error}");
                    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                }
            }
        }
    });
    Ok(Server { task })
}

/// Whether the process at the other end may use the store.
fn is_welcome(stream: &UnixStream) -> bool {
    let own = rustix::process::geteuid().as_raw();
    stream.peer_cred().is_ok_and(|peer| peer.uid() == 0 || peer.uid() == own)
}

type Follower = Arc<tokio::sync::Mutex<Box<dyn Watch>>>;

/// Answers the questions of one connection until it ends. Who is at its other end is for the caller to know.
pub async fn answer(
    store: Arc<dyn Store>,
    mut reading: impl AsyncRead + Unpin,
    mut writing: impl AsyncWrite + Unpin + Send + 'static,
) {
    let (replies, mut outgoing) = mpsc::channel::<Reply>(AT_ONCE);
    let writer = tokio::spawn(async move {
        while let Some(reply) = outgoing.recv().await {
            if wire::write(&mut writing, &reply).await.is_err() {
                return;
            }
        }
    });
    let following: Arc<Mutex<HashMap<u64, Follower>>> = Arc::default();
    let places = Arc::new(Semaphore::new(AT_ONCE));
    // What is still being worked on ends with the connection.
    let mut work = JoinSet::new();
    loop {
        while work.try_join_next().is_some() {}
        let Question { id, ask } = match wire::read(&mut reading, LONGEST_QUESTION).await {
            Ok(Some(question)) => question,
            Ok(None) => break,
            Err(error) => {
                tracing::debug!("a connection to the store ends: {error}");
                break;
            }
        };
        let follower = |id: &u64| following.lock().unwrap_or_else(PoisonError::into_inner).get(id).cloned();
        let known = match &ask {
            Ask::Next(watch) => follower(watch),
            Ask::Follow(span) => {
                let watch = Arc::new(tokio::sync::Mutex::new(store.watch(span.clone())));
                following.lock().unwrap_or_else(PoisonError::into_inner).insert(id, watch);
                None
            }
            Ask::End(watch) => {
                following.lock().unwrap_or_else(PoisonError::into_inner).remove(watch);
                None
            }
            _ => None,
        };
        let place = match &ask {
            Ask::Next(_) => None,
            _ => Arc::clone(&places).acquire_owned().await.ok(),
        };
        let (store, replies) = (Arc::clone(&store), replies.clone());
        work.spawn(async move {
            let answer = answer_one(&*store, ask, known).await;
            // Whoever asked may be gone.
            let _ = replies.send(Reply { id, answer }).await;
            drop(place);
        });
    }
    work.abort_all();
    writer.abort();
}

async fn answer_one(store: &dyn Store, ask: Ask, follower: Option<Follower>) -> Result<Answer, StoreError> {
    Ok(match ask {
        Ask::Hello { .. } => Answer::Hello { version: VERSION, limits: store.limits() },
        Ask::Read(spans) => Answer::Read(store.read(spans).await?),
        Ask::Commit(transaction) => Answer::Commit(store.commit(transaction).await?),
        Ask::Grant(time) => Answer::Granted(store.grant(time).await?),
        Ask::Keep(lease) => Answer::Kept(store.keep(lease).await?),
        Ask::Revoke(lease) => {
            store.revoke(lease).await?;
            Answer::Done
        }
        Ask::Follow(_) | Ask::End(_) => Answer::Done,
        Ask::Next(_) => match follower {
            Some(follower) => Answer::News(follower.lock().await.next().await?),
            None => return Err(StoreError::Refused { reason: "nothing is followed there".to_owned() }),
        },
    })
}
