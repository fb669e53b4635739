//! What goes over the two streams between this program here and this program there.
//!
//! A frame is a letter, a length and a content. Both sides are the same program, by its digest, so there are no versions to
//! agree on.

use std::collections::BTreeMap;
use std::io;

use mgmt_store::{File, Program, Tree};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream};
use tokio::sync::mpsc;

/// A program that the other side is to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handed {
    /// How.
    pub program: Program,
    /// Its files.
    pub files: Tree,
}

/// How a run is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stop {
    /// All hosts have converged, and that was to be the end.
    Converged,
    /// What is running may finish.
    Graceful,
    /// What is running is cancelled.
    Cancel,
    /// What is running is interrupted by force.
    Interrupt,
}

/// One message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    /// From here to there.
    Order(Order),
    /// From there to here.
    Report(Report),
    /// A program, as it is written.
    Program(Vec<u8>),
    /// A piece of the conversation with the store.
    Store(Vec<u8>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Order {
    Stop(Stop),
    /// We are still here.
    Alive,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Report {
    Converged(bool),
}

/// The longest frame that is not a program.
const LONGEST: usize = 1 << 20;

/// The longest program.
const LONGEST_PROGRAM: usize = 1 << 30;

/// A piece of the conversation with the store. Short, so that others get in between.
const PIECE: usize = 64 << 10;

impl Frame {
    /// As it travels.
    pub(crate) fn encoded(&self) -> io::Result<Vec<u8>> {
        let (letter, content) = match self {
            Frame::Order(order) => (b'o', serde_json::to_vec(order)?),
            Frame::Report(report) => (b'r', serde_json::to_vec(report)?),
            Frame::Program(bytes) => (b'p', bytes.clone()),
            Frame::Store(bytes) => (b's', bytes.clone()),
        };
        let length = u32::try_from(content.len()).map_err(io::Error::other)?;
        let mut bytes = Vec::with_capacity(content.len() + 5);
        bytes.push(letter);
        bytes.extend(length.to_be_bytes());
        bytes.extend(content);
        Ok(bytes)
    }

    /// What the first five bytes announce: a letter and how much follows.
    pub(crate) fn announced(head: [u8; 5]) -> io::Result<(u8, usize)> {
        let [letter, length @ ..] = head;
        let length = usize::try_from(u32::from_be_bytes(length)).map_err(io::Error::other)?;
        let longest = if letter == b'p' { LONGEST_PROGRAM } else { LONGEST };
        match length <= longest {
            true => Ok((letter, length)),
            false => Err(io::Error::new(io::ErrorKind::InvalidData, format!("a message of {length} bytes"))),
        }
    }

    pub(crate) fn decoded(letter: u8, content: Vec<u8>) -> io::Result<Frame> {
        Ok(match letter {
            b'o' => Frame::Order(serde_json::from_slice(&content)?),
            b'r' => Frame::Report(serde_json::from_slice(&content)?),
            b'p' => Frame::Program(content),
            b's' => Frame::Store(content),
            other => {
                return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a message of kind {other}")));
            }
        })
    }

    /// Reads one; none at the end.
    pub(crate) async fn read(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Frame>> {
        let mut head = [0; 5];
        match from.read_exact(&mut head).await {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        }
        let (letter, length) = Frame::announced(head)?;
        // As it comes, not as it is promised.
        let mut content = Vec::new();
        from.take(length as u64).read_to_end(&mut content).await?;
        if content.len() < length {
            return Ok(None);
        }
        Frame::decoded(letter, content).map(Some)
    }
}

/// Sends what one side of the store says, until it has nothing more to say.
pub(crate) async fn send_store(mut from: tokio::io::ReadHalf<DuplexStream>, frames: mpsc::Sender<Frame>) {
    let mut piece = vec![0; PIECE];
    while let Ok(length) = from.read(&mut piece).await
        && length > 0
    {
        let Some(bytes) = piece.get(..length) else { return };
        if frames.send(Frame::Store(bytes.to_vec())).await.is_err() {
            return;
        }
    }
}

/// Writes what is to be sent, until nobody has anything to send.
pub(crate) async fn write_frames(mut frames: mpsc::Receiver<Frame>, mut to: impl AsyncWrite + Unpin) {
    while let Some(frame) = frames.recv().await {
        let Ok(bytes) = frame.encoded() else { return };
        if to.write_all(&bytes).await.is_err() || to.flush().await.is_err() {
            return;
        }
    }
}

/// What stands in front of the contents of files.
#[derive(Serialize, Deserialize)]
struct Head {
    program: Program,
    files: BTreeMap<String, Listed>,
}

#[derive(Serialize, Deserialize)]
struct Listed {
    executable: bool,
    size: usize,
}

impl Handed {
    /// As it travels.
    pub(crate) fn encoded(&self) -> io::Result<Vec<u8>> {
        let listed = |file: &File| Listed { executable: file.executable, size: file.content.len() };
        let files = self.files.iter().map(|(path, file)| (path.to_owned(), listed(file))).collect();
        let head = serde_json::to_vec(&Head { program: self.program.clone(), files })?;
        let mut bytes = u32::try_from(head.len()).map_err(io::Error::other)?.to_be_bytes().to_vec();
        bytes.extend(head);
        for (_, file) in self.files.iter() {
            bytes.extend(&file.content);
        }
        match bytes.len() <= LONGEST_PROGRAM {
            true => Ok(bytes),
            false => Err(io::Error::other("the program with its files is too large")),
        }
    }

    pub(crate) fn decoded(bytes: &[u8]) -> io::Result<Handed> {
        let wrong = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why.to_owned());
        let cut = || wrong("a program is cut short");
        let (length, rest) = bytes.split_first_chunk::<4>().ok_or_else(cut)?;
        let length = usize::try_from(u32::from_be_bytes(*length)).map_err(io::Error::other)?;
        let (head, mut contents) = rest.split_at_checked(length).ok_or_else(cut)?;
        let Head { program, files } = serde_json::from_slice(head)?;
        let mut tree = Tree::default();
        for (path, Listed { executable, size }) in files {
            let (content, rest) = contents.split_at_checked(size).ok_or_else(cut)?;
            contents = rest;
            let file = File { executable, content: content.to_vec() };
            tree.insert(&path, file).map_err(|why| wrong(&why))?;
        }
        Ok(Handed { program, files: tree })
    }
}

/// Whatever one side may send, and the programs in it: for tests with hostile input. Gives how many messages there were.
#[doc(hidden)]
pub async fn read_hostile(bytes: &[u8]) -> io::Result<usize> {
    let (mut left, mut count) = (bytes, 0);
    while let Some(frame) = Frame::read(&mut left).await? {
        count += 1;
        if let Frame::Program(program) = frame {
            let handed = Handed::decoded(&program)?;
            assert_eq!(Handed::decoded(&handed.encoded()?)?, handed, "what travels is what was read");
        }
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program() -> Program {
        Program {
            frontend: "lang".to_owned(),
            entry: "main.mcl".to_owned(),
            noop: true,
            sema: 3,
            no_autoedges: false,
            no_autogroup: true,
        }
    }

    fn handed() -> Handed {
        let mut files = Tree::default();
        files.insert("main.mcl", File { executable: false, content: b"print".to_vec() }).unwrap();
        files.insert("files/x", File { executable: true, content: vec![0, 255, 10] }).unwrap();
        Handed { program: program(), files }
    }

    #[test]
    fn a_program_arrives_as_it_was_sent() {
        assert_eq!(Handed::decoded(&handed().encoded().unwrap()).unwrap(), handed());
    }

    #[test]
    fn a_program_that_is_cut_short_or_leads_out_is_refused() {
        let bytes = handed().encoded().unwrap();
        for length in 0..bytes.len() {
            assert!(Handed::decoded(&bytes[..length]).is_err(), "{length}");
        }
        let text = String::from_utf8_lossy(&bytes).replace("files/x", "../xxxx");
        assert!(Handed::decoded(text.as_bytes()).is_err());
    }

    #[tokio::test]
    async fn frames_arrive_in_order_and_nonsense_is_an_error() {
        let frames = [
            Frame::Order(Order::Stop(Stop::Cancel)),
            Frame::Store(vec![1, 2, 3]),
            Frame::Report(Report::Converged(true)),
            Frame::Program(Vec::new()),
        ];
        let bytes: Vec<u8> = frames.iter().flat_map(|frame| frame.encoded().unwrap()).collect();
        let mut from = bytes.as_slice();
        for frame in frames {
            assert_eq!(Frame::read(&mut from).await.unwrap(), Some(frame));
        }
        assert_eq!(Frame::read(&mut from).await.unwrap(), None);
        for nonsense in [&b"s\xff\xff\xff\xff"[..], b"x\0\0\0\0", b"o\0\0\0\x02{}"] {
            assert!(Frame::read(&mut &*nonsense).await.is_err());
        }
    }
}
