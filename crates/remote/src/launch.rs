//! This program on another host.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mgmt_store::Store;
use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdout};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::binary::{self, Binary};
use crate::clean;
use crate::link::{Frame, Handed, Order, Report, Stop, send_store, write_frames};
use crate::login::{Login, Process, SshError};
use crate::script::{BEGIN, LAUNCH};
use crate::tunnel::mark;

/// What is to be started where.
pub struct Launch<'a> {
    /// Where.
    pub login: &'a Login,
    /// The program: this one, or its path.
    pub program: &'a Path,
    /// Whether it stays there for the next time.
    pub place: Place,
    /// Install what the program needs there, where it does not run without.
    pub install: bool,
    /// The words for it. It is also told to use a working directory that is removed at the end.
    pub arguments: Vec<String>,
    /// What it has as its store.
    pub store: Arc<dyn Store>,
}

/// Where the program is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Where it is found again the next time: below `/var/lib/mgmt`, or below the cache of users other than root.
    Cache,
    /// Into a new directory that is removed at the end.
    Temporary,
}

/// This program on another host. When this is dropped, it ends there.
pub struct Launched {
    frames: mpsc::Sender<Frame>,
    /// Orders wait for their turn; they are few.
    orders: mpsc::UnboundedSender<Stop>,
    news: mpsc::Receiver<News>,
    /// How many bytes were copied there; none if it was there already.
    pub copied: Option<u64>,
    _tasks: JoinSet<()>,
}

/// What is new of a launched program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// It has printed a line, which can be shown as it is.
    Line(String),
    /// There is nothing to be done there, or there is again.
    Converged(bool),
    /// It has ended. Nothing comes after that.
    Ended(Ended),
}

/// How it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// By itself, with this code.
    Code(u8),
    /// Nobody knows: the connection is lost.
    Lost,
}

/// How often the other side hears from us.
const ALIVE: Duration = Duration::from_secs(10);

/// How long it may take from the last part until the program is in its place.
pub(crate) const ARRIVAL: Duration = Duration::from_secs(180);

/// The same, where other things have to be installed first.
pub(crate) const INSTALLATION: Duration = Duration::from_secs(900);

/// The code of ssh when the connection ends before the program.
const LOST: i32 = 255;

impl Launch<'_> {
    /// Starts it.
    pub async fn start(self) -> Result<Launched, SshError> {
        let Launch { login, program, place, install, arguments, store } = self;
        let binary = Binary::find(program).await?;
        let mark = mark();
        let mut words = binary.words(&mark, place, install);
        words.extend(arguments);
        let script = format!("{BEGIN}{LAUNCH}");
        let options = ["-o".into(), "ClearAllForwardings=yes".into()];
        let mut process = login.start(&options, &script, &words).await?;
        let probe = process.answer(&mark).await?;
        let (is_there, _) = binary::fits(login, &probe)?;
        match is_there {
            true => process.say("go").await?,
            false => binary.copy(&mut process, &mark).await?,
        }
        // What was copied may still be under way on a slow line, and other things may have to be installed.
        process.patience = Some(if install { INSTALLATION } else { ARRIVAL });
        match process.answer(&mark).await?.as_str() {
            "ready" => Ok(Launched::new(process, store, (!is_there).then_some(binary.size))),
            other => Err(SshError::new(format!("{}: {}", login.target, clean(other.as_bytes())))),
        }
    }
}

impl Launched {
    fn new(process: Process, store: Arc<dyn Store>, copied: Option<u64>) -> Launched {
        const WAITING: usize = 64;
        let Process { child, input, output, mut lines, .. } = process;
        let (frames, outgoing) = mpsc::channel(WAITING);
        let (tell, news) = mpsc::channel(WAITING);
        let mut tasks = JoinSet::new();
        tasks.spawn(write_frames(outgoing, input));
        let (near, far) = tokio::io::duplex(WAITING << 10);
        let (reading, writing) = tokio::io::split(near);
        tasks.spawn(mgmt_store::socket::answer(store, reading, writing));
        let (from_store, to_store) = tokio::io::split(far);
        tasks.spawn(send_store(from_store, frames.clone()));
        let (orders, mut given) = mpsc::unbounded_channel();
        let passing_on = frames.clone();
        tasks.spawn(async move {
            while let Some(stop) = given.recv().await {
                if passing_on.send(Frame::Order(Order::Stop(stop))).await.is_err() {
                    return;
                }
            }
        });
        let alive = frames.clone();
        tasks.spawn(async move {
            loop {
                tokio::time::sleep(ALIVE).await;
                if alive.send(Frame::Order(Order::Alive)).await.is_err() {
                    return;
                }
            }
        });
        let said = tell.clone();
        let shown = async move {
            while let Some(line) = lines.recv().await {
                if said.send(News::Line(clean(&line))).await.is_err() {
                    return;
                }
            }
        };
        tasks.spawn(follow(child, output, to_store, tell, shown));
        Launched { frames, orders, news, copied, _tasks: tasks }
    }

    /// Waits for news. After its end, there is only that.
    pub async fn next(&mut self) -> News {
        self.news.recv().await.unwrap_or(News::Ended(Ended::Lost))
    }

    /// Tells it to end.
    pub fn stop(&self, stop: Stop) {
        // If it has ended, that is news of its own.
        let _ = self.orders.send(stop);
    }

    /// Hands it a program to run from now on.
    ///
    /// # Errors
    ///
    /// The program is too large.
    pub async fn hand(&self, program: &Handed) -> io::Result<()> {
        let bytes = program.encoded()?;
        // If it has ended, that is news of its own.
        let _ = self.frames.send(Frame::Program(bytes)).await;
        Ok(())
    }
}

/// Sorts what comes, and tells the end when all of it has come.
async fn follow(
    mut child: Child,
    mut output: BufReader<ChildStdout>,
    mut to_store: tokio::io::WriteHalf<tokio::io::DuplexStream>,
    tell: mpsc::Sender<News>,
    shown: impl Future<Output = ()> + Send + 'static,
) {
    let sorting = async {
        while let Ok(Some(frame)) = Frame::read(&mut output).await {
            match frame {
                Frame::Report(Report::Converged(yes)) => {
                    let _ = tell.send(News::Converged(yes)).await;
                }
                Frame::Store(bytes) => {
                    let _ = to_store.write_all(&bytes).await;
                }
                Frame::Order(_) | Frame::Program(_) => {}
            }
        }
    };
    tokio::join!(sorting, shown);
    let ended = match child.wait().await.ok().and_then(|status| status.code()) {
        Some(LOST) | None => Ended::Lost,
        Some(code) => u8::try_from(code).map_or(Ended::Lost, Ended::Code),
    };
    let _ = tell.send(News::Ended(ended)).await;
}
