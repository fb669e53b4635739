//! Wire format of the socket store: questions and answers.

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use std::io;
use std::time::Duration;

use crate::store::{Batch, Commit, Lease, LeaseId, Limits, Snapshot, Span, StoreError, Transaction};

/// What is understood on both sides. Another number is another language.
pub(crate) const VERSION: u32 = 1;

/// The longest question. Values and their escapes fit in.
pub(crate) const LONGEST_QUESTION: usize = 64 << 20;

/// The longest answer: everything below some prefix.
pub(crate) const LONGEST_ANSWER: usize = 1 << 30;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Question {
    pub(crate) id: u64,
    pub(crate) ask: Ask,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Ask {
    /// The first question.
    Hello {
        version: u32,
    },
    Read(Vec<Span>),
    Commit(Transaction),
    Grant(Duration),
    Keep(LeaseId),
    Revoke(LeaseId),
    /// Begins to follow keys. The number of the question stands for it.
    Follow(Span),
    /// What is new for whoever asked this question.
    Next(u64),
    /// Follows no more.
    End(u64),
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Reply {
    pub(crate) id: u64,
    pub(crate) answer: Result<Answer, StoreError>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Answer {
    Hello { version: u32, limits: Limits },
    Read(Snapshot),
    Commit(Commit),
    Granted(Lease),
    Kept(bool),
    Done,
    News(Batch),
}

pub(crate) async fn write(to: &mut (impl AsyncWrite + Unpin), message: &impl Serialize) -> io::Result<()> {
    let text = serde_json::to_vec(message).map_err(io::Error::other)?;
    let length = u32::try_from(text.len()).map_err(io::Error::other)?;
    to.write_all(&length.to_be_bytes()).await?;
    to.write_all(&text).await?;
    to.flush().await
}

/// Reads a message; none at the end.
pub(crate) async fn read<T: DeserializeOwned>(
    from: &mut (impl AsyncRead + Unpin),
    longest: usize,
) -> io::Result<Option<T>> {
    let mut length = [0; 4];
    match from.read_exact(&mut length).await {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let length = usize::try_from(u32::from_be_bytes(length)).map_err(io::Error::other)?;
    if length > longest {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a message of {length} bytes")));
    }
    // As it comes, not as it is promised.
    let mut text = Vec::new();
    from.take(length as u64).read_to_end(&mut text).await?;
    if text.len() < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    serde_json::from_slice(&text).map(Some).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}
