//! Entry points for fuzzing: what this crate reads and nobody else can. Nothing here may panic, whatever the bytes.

use crate::Tree;
use crate::socket::wire;

/// The files of a deploy: the first line is the list, and the rest is the one chunk that there is, called `ours` in the list.
pub fn files(bytes: &[u8]) -> Option<Tree> {
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let (list, chunk) = bytes.split_at(end);
    crate::tree::read_hostile(list, chunk.get(1..).unwrap_or_default()).ok()
}

/// One side of a conversation over a socket, as questions and as answers. Gives how many of each were understood.
pub async fn conversation(bytes: &[u8]) -> (usize, usize) {
    let (mut questions, mut answers) = (0, 0);
    let mut left = bytes;
    while let Ok(Some(question)) = wire::read::<wire::Question>(&mut left, wire::LONGEST_QUESTION).await {
        let _ = serde_json::to_vec(&question);
        questions += 1;
    }
    let mut left = bytes;
    while let Ok(Some(reply)) = wire::read::<wire::Reply>(&mut left, wire::LONGEST_ANSWER).await {
        let _ = serde_json::to_vec(&reply);
        answers += 1;
    }
    (questions, answers)
}
