//! Making a file what is declared.
//!
//! The file is read, what becomes of it is found out, and it is replaced if it still is what was read. Two resources that edit one
//! file take turns, so no number of them can keep each other from coming to an end.

use std::hash::{DefaultHasher, Hash, Hasher};

use mgmt_resource::{Checked, Context, Error, Result};
use mgmt_sys::ManagedPath;
use mgmt_sys::replace::InPlace;
use sha2::{Digest, Sha256};
use tokio::sync::{Mutex, MutexGuard};

use super::{Augeas, augtool};
use crate::support::account::lookup_now;
use crate::support::text_file::TextFile;

/// The mode of a file that we make. What is in it may be a secret.
const NEW_MODE: u32 = 0o600;
/// How often a file that changes under our hands is looked at again.
const ATTEMPTS: usize = 10;

/// The text in which the edits changed nothing, so that an event behind which nothing changed starts no process.
///
/// It is known by a digest of the text and of the declaration, whose parameters may be received and so change.
#[derive(Default)]
pub struct Memory(Option<[u8; 32]>);

/// Makes a file what is declared, or tells whether it is.
pub(super) async fn edit(
    declared: &Augeas,
    path: ManagedPath,
    memory: &mut Memory,
    cx: &Context<'_>,
) -> Result<Checked> {
    let _turn = tokio::select! {
        turn = turn(&path) => turn,
        () = cx.cancel.cancelled() => return Err(Error::Cancelled),
    };
    let file = TextFile { path, owner: None, mode: NEW_MODE, in_place: InPlace::Refuse };
    let mut known = Vec::new();
    // While a plan is made, this is asked for behind the back of an empty file.
    if let Some(text) = file.foreseen(cx) {
        known.push(Known::of(declared, text, memory, cx).await?);
    }
    for _ in 0..ATTEMPTS {
        let mut unknown = None;
        let checked = lookup_now(|| {
            file.edit(cx, |content| {
                let text = content.unwrap_or_default();
                match known.iter().find(|known| known.text == text) {
                    Some(known) => known.new.clone(),
                    None => {
                        unknown = Some(text.to_vec());
                        None
                    }
                }
            })
        })?;
        match unknown {
            Some(text) => known.push(Known::of(declared, text, memory, cx).await?),
            None => return Ok(checked),
        }
    }
    Err(Error::new("the file changes all the time")
        .with_hint("find out who else writes there; two resources or programs may be at odds"))
}

/// A text, and what becomes of it; nothing if it is right.
struct Known {
    text: Vec<u8>,
    new: Option<Vec<u8>>,
}

impl Known {
    async fn of(declared: &Augeas, text: Vec<u8>, memory: &mut Memory, cx: &Context<'_>) -> Result<Known> {
        // Formats are made of lines, and the last one may lack its end.
        let mut old = text.clone();
        if !old.is_empty() && !old.ends_with(b"\n") {
            old.push(b'\n');
        }
        if memory.0 == Some(digest(declared, &old)) {
            return Ok(Known { text, new: None });
        }
        let new = augtool::edited(declared, &old, cx).await?;
        if new == old {
            memory.0 = Some(digest(declared, &old));
            return Ok(Known { text, new: None });
        }
        match augtool::edited(declared, &new, cx).await {
            Ok(again) if again == new => {}
            Err(error) if error.is_cancelled() => return Err(error),
            _ => {
                return Err(Error::new(
                    "the edits would change their own result again, and never come to an end",
                )
                .with_hint("give each member of `ins` an `unless` that tells that its node is there"));
            }
        }
        // Once it is written, it is right.
        memory.0 = Some(digest(declared, &new));
        Ok(Known { text, new: Some(new) })
    }
}

/// Of all that decides whether a text is right.
fn digest(declared: &Augeas, text: &[u8]) -> [u8; 32] {
    // Taken apart by name, so that a new parameter cannot be forgotten here. Where the file is makes no difference.
    let Augeas { file: _, lens, sets, rm, ins, clear } = declared;
    let mut hash = Sha256::new();
    let mut put = |part: &[u8]| {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    };
    put(lens);
    for (number, paths) in [(0, rm), (1, clear)] {
        paths.iter().for_each(|path| [&[number], &path[..]].into_iter().for_each(&mut put));
    }
    for set in sets {
        [&[2], &set.path[..], &set.value[..]].into_iter().for_each(&mut put);
    }
    for insert in ins {
        let before = [u8::from(insert.before)];
        let parts: [&[u8]; 5] = [&[3], &insert.label, &insert.path, &before, &insert.unless];
        parts.into_iter().for_each(&mut put);
    }
    put(&[4]);
    put(text);
    hash.finalize().into()
}

/// Waits until no other resource of this kind looks at the file.
async fn turn(path: &ManagedPath) -> MutexGuard<'static, ()> {
    // One lock for several paths now and then costs a moment; a table of all paths would grow for ever.
    static TURNS: [Mutex<()>; 64] = [const { Mutex::const_new(()) }; 64];
    let mut hasher = DefaultHasher::new();
    path.hash(&mut hasher);
    let slot = (hasher.finish() % TURNS.len() as u64) as usize;
    TURNS[slot].lock().await
}
