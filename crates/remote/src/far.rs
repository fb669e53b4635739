//! The side that was started by another.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::Duration;

use mgmt_store::Store;
use mgmt_store::socket::Socket;
use tokio::io::AsyncWriteExt as _;
use tokio::sync::{mpsc, watch};

use crate::link::{Frame, Handed, Order, Report, Stop, send_store};

/// The way back to the one who has started this program here.
pub struct Far {
    /// Its store.
    pub store: Arc<dyn Store>,
    /// What else it has to say.
    pub told: mpsc::UnboundedReceiver<Told>,
    converged: watch::Sender<Option<bool>>,
}

/// What the one who has started us has to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// To end.
    Stop(Stop),
    /// Nothing any more: it is gone, or the connection is lost.
    Gone,
}

/// The other side lets us hear from it more often than that.
const SILENCE: Duration = Duration::from_secs(60);

/// Frames that wait to be sent or to be read.
const WAITING: usize = 64;

/// Standard input and output, which lead to the one who has started us.
#[derive(Debug)]
pub struct Streams {
    input: File,
    output: File,
}

impl Streams {
    /// Takes them. From now on, what is printed goes to standard error, and there is nothing to read.
    pub fn take() -> io::Result<Streams> {
        let input = io::stdin().as_fd().try_clone_to_owned()?;
        let output = io::stdout().as_fd().try_clone_to_owned()?;
        rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
        rustix::stdio::dup2_stdout(io::stderr())?;
        Ok(Streams { input: input.into(), output: output.into() })
    }
}

impl Far {
    /// Uses them. Gives the programs that are handed over, too, the newest last.
    pub async fn begin(streams: Streams) -> io::Result<(Far, mpsc::Receiver<Handed>)> {
        let Streams { input, output } = streams;
        let (reports, outgoing) = mpsc::channel(WAITING);
        let (converged, telling) = watch::channel(None);
        tokio::spawn(tell_converged(telling, reports.clone()));
        let (incoming, frames) = mpsc::channel(WAITING);
        // The streams may be anything; a thread can read and write all of it.
        std::thread::Builder::new().name("far-read".to_owned()).spawn(move || read(input, &incoming))?;
        std::thread::Builder::new().name("far-write".to_owned()).spawn(move || write(output, outgoing))?;
        let (near, far) = tokio::io::duplex(WAITING << 10);
        let (from_store, to_store) = tokio::io::split(far);
        tokio::spawn(send_store(from_store, reports));
        let (hand, programs) = mpsc::channel(WAITING);
        let (tell, told) = mpsc::unbounded_channel();
        tokio::spawn(sort(frames, to_store, hand, tell));
        let (reading, writing) = tokio::io::split(near);
        let store = Socket::over(reading, writing).await.map_err(io::Error::other)?;
        Ok((Far { store: Arc::new(store), told, converged }, programs))
    }

    /// Tells whether there is nothing to be done here.
    pub fn converged(&self, yes: bool) {
        self.converged.send_replace(Some(yes));
    }
}

/// Tells the newest state. What was so in between is nobody's business.
async fn tell_converged(mut converged: watch::Receiver<Option<bool>>, reports: mpsc::Sender<Frame>) {
    while converged.changed().await.is_ok() {
        let Some(yes) = *converged.borrow_and_update() else { continue };
        if reports.send(Frame::Report(Report::Converged(yes))).await.is_err() {
            return;
        }
    }
}

/// Gives each frame to whom it is for.
async fn sort(
    mut frames: mpsc::Receiver<Frame>,
    mut to_store: tokio::io::WriteHalf<tokio::io::DuplexStream>,
    hand: mpsc::Sender<Handed>,
    tell: mpsc::UnboundedSender<Told>,
) {
    while let Ok(Some(frame)) = tokio::time::timeout(SILENCE, frames.recv()).await {
        match frame {
            Frame::Order(Order::Alive) | Frame::Report(_) => {}
            Frame::Order(Order::Stop(stop)) => {
                let _ = tell.send(Told::Stop(stop));
            }
            Frame::Program(bytes) => match Handed::decoded(&bytes) {
                Ok(handed) => {
                    let _ = hand.send(handed).await;
                }
                Err(error) => tracing::error!("a program cannot be understood: {error}"),
            },
            Frame::Store(bytes) => {
                let _ = to_store.write_all(&bytes).await;
            }
        }
    }
    let _ = tell.send(Told::Gone);
}

fn read(mut from: File, frames: &mpsc::Sender<Frame>) {
    let mut next = || -> io::Result<Frame> {
        let mut head = [0; 5];
        from.read_exact(&mut head)?;
        let (letter, length) = Frame::announced(head)?;
        let mut content = Vec::new();
        (&mut from).take(length as u64).read_to_end(&mut content)?;
        match content.len() == length {
            true => Frame::decoded(letter, content),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    };
    while let Ok(frame) = next() {
        if frames.blocking_send(frame).is_err() {
            return;
        }
    }
}

fn write(mut to: File, mut frames: mpsc::Receiver<Frame>) {
    while let Some(frame) = frames.blocking_recv() {
        let Ok(bytes) = frame.encoded() else { return };
        if to.write_all(&bytes).is_err() {
            return;
        }
    }
}
