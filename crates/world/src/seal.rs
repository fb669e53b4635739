//! Deploys that are signed, so that a host runs nothing that somebody else has put into the store.
//!
//! Whoever deploys signs a [`Statement`]: which program it is, the digests of its files, and a number that only grows. The
//! text of it is kept as it was signed, beside the signature. A host that was given public keys ([`Trust`]) runs what the
//! statement says, and nothing that only stands beside it.
//!
//! - The statement is verified before anything of the deploy is read. Files are named by their digests, so all of them are
//!   covered.
//! - A host remembers, on its own disk, the highest number that it has accepted from each key. What is older is refused, even
//!   if the store was emptied and filled again with what was once right. The number is the time in microseconds, or one
//!   more than the last, so that it grows even in a new store.
//! - A host that has never heard of a key has nothing to compare with. For it, a statement may say until when it may be
//!   begun with; a host that has accepted it in time may go on with it afterwards.
//!
//! Deliberately absent: chains of certificates, and any way to revoke a key but to stop naming it.

mod keys;

use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64ct::{Base64, Encoding as _};
use mgmt_sys::replace::Durability;
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest as _, Sha256};

pub use keys::{KeyError, PublicKey, SigningKey};

use crate::deploy::{Deploy, Program};
use crate::error::Result as LocalResult;
use crate::local::Folders;
use crate::record::{self, FORMAT, Record};
use crate::tree::Blob;

/// What is signed begins with this, so that no signature can be taken for one of something else.
const PURPOSE: &[u8] = b"mgmt deploy\0";

/// What somebody has said about a deploy, and the proof of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seal {
    /// The statement, exactly as it was signed.
    statement: String,
    /// The public key, in base64.
    key: String,
    /// The signature, in base64.
    signature: String,
}

/// What is said about a deploy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Statement {
    format: u64,
    sequence: u64,
    /// Until when it may be begun with, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    until: Option<u64>,
    #[serde(flatten)]
    program: Program,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hash: Option<String>,
    files: Blob,
}

/// Who signs deploys.
pub struct Signer {
    /// With this.
    pub key: SigningKey,
    /// For how long hosts may begin with them; for ever if nothing is said.
    pub valid_for: Option<Duration>,
}

/// Whose deploys a host runs, and what it has accepted of them already.
pub struct Trust {
    keys: Vec<PublicKey>,
    folders: Folders,
}

/// Why a deploy is not run.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// Nobody has signed it.
    #[error("nobody has signed it")]
    Unsigned,
    /// Somebody else has.
    #[error("it is signed with a key that this host was not given: {key}")]
    Stranger {
        /// Which key.
        key: PublicKey,
    },
    /// The signature is of something else.
    #[error("its signature is not one of this deploy")]
    Forged,
    /// It cannot be understood.
    #[error("what was signed cannot be understood: {reason}")]
    Unclear {
        /// Why.
        reason: String,
    },
    /// A newer one was accepted.
    #[error(
        "it is older than one that this host has accepted before: it may have been put into the store again"
    )]
    Replayed,
    /// It came too late.
    #[error("it was to be begun with until {until} seconds after 1970")]
    Expired {
        /// In seconds since 1970.
        until: u64,
    },
    /// What was accepted before is not known.
    #[error(transparent)]
    Memory(#[from] crate::LocalError),
}

impl Signer {
    /// Signs what is about to be deployed after `newest`.
    pub(crate) fn seal(
        &self,
        program: &Program,
        hash: Option<&String>,
        files: &Blob,
        newest: Option<&Deploy>,
    ) -> Seal {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let last = newest.and_then(|newest| self.opened(newest)).map_or(0, |last| last.sequence);
        let statement = Statement {
            format: FORMAT,
            sequence: u64::try_from(now.as_micros()).unwrap_or(u64::MAX).max(last.saturating_add(1)),
            until: self.valid_for.map(|time| now.saturating_add(time).as_secs()),
            program: program.clone(),
            hash: hash.cloned(),
            files: files.clone(),
        };
        // A struct of texts and numbers always has a text.
        let statement = serde_json::to_string(&statement).unwrap_or_default();
        let signature = self.key.sign(&message(&statement));
        let key = Base64::encode_string(self.key.public().bytes());
        Seal { statement, key, signature: Base64::encode_string(&signature) }
    }

    /// Whether a deploy is one that this key has signed, as it is.
    pub(crate) fn has_signed(&self, deploy: &Deploy) -> bool {
        self.opened(deploy).is_some_and(|statement| {
            (&statement.program, &statement.hash, &statement.files)
                == (&deploy.program, &deploy.hash, &deploy.files)
        })
    }

    fn opened(&self, deploy: &Deploy) -> Option<Statement> {
        open(deploy.seal.as_ref()?, std::slice::from_ref(self.key.public()))
            .ok()
            .map(|(_, statement)| statement)
    }
}

impl Seal {
    /// The key that it claims to be made with.
    pub fn key(&self) -> Option<PublicKey> {
        PublicKey::new(&Base64::decode_vec(&self.key).ok()?)
    }
}

impl Trust {
    /// Only what is signed with one of these keys is run. What was accepted is remembered in the directory.
    pub fn new(keys: Vec<PublicKey>, directory: PathBuf) -> LocalResult<Trust> {
        Ok(Trust { keys, folders: Folders::new(directory, Durability::Full)? })
    }

    /// The deploy as its signer has stated it, if it may be run. It is remembered, so that nothing older will be.
    pub fn accept(&self, deploy: &Deploy) -> Result<Deploy, Refused> {
        let seal = deploy.seal.as_ref().ok_or(Refused::Unsigned)?;
        let (key, statement) = open(seal, &self.keys)?;
        let folder = self.folders.open(&["accepted"])?;
        let name = format!("{}.json", hex(&Sha256::digest(key.bytes())));
        let digest = hex(&Sha256::digest(seal.statement.as_bytes()));
        let (last, which) = match Record::read(&folder, &name)? {
            None => (0, String::new()),
            Some(record) => {
                let sequence = record.get("sequence")?.as_u64();
                let sequence = sequence.ok_or_else(|| record.corrupt("`sequence` is not a number"))?;
                (sequence, record.get("statement")?.as_str().unwrap_or_default().to_owned())
            }
        };
        let is_the_last = statement.sequence == last && digest == which;
        if statement.sequence <= last && !is_the_last {
            return Err(Refused::Replayed);
        }
        if !is_the_last {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
            if let Some(until) = statement.until.filter(|until| *until < now) {
                return Err(Refused::Expired { until });
            }
            let text = record::text(&json!({
                "format": FORMAT,
                "key": key.to_string(),
                "sequence": statement.sequence,
                "statement": digest,
            }));
            record::write(&folder, &name, &text, Durability::Full)?;
        }
        let Statement { program, hash, files, .. } = statement;
        Ok(Deploy { program, hash, files, ..deploy.clone() })
    }
}

/// What was signed, and by which of these keys.
fn open<'a>(seal: &Seal, keys: &'a [PublicKey]) -> Result<(&'a PublicKey, Statement), Refused> {
    let claimed = seal.key().ok_or(Refused::Forged)?;
    let key = keys.iter().find(|key| **key == claimed).ok_or(Refused::Stranger { key: claimed })?;
    let signature = Base64::decode_vec(&seal.signature).map_err(|_| Refused::Forged)?;
    if !key.has_signed(&message(&seal.statement), &signature) {
        return Err(Refused::Forged);
    }
    understood(&seal.statement).map(|statement| (key, statement))
}

/// Whether this can be signed and understood: for tests with hostile statements.
pub(crate) fn is_clear(statement: &str) -> bool {
    understood(statement).is_ok()
}

fn understood(statement: &str) -> Result<Statement, Refused> {
    let unclear = |reason: String| Refused::Unclear { reason };
    let statement: Statement = serde_json::from_str(statement).map_err(|error| unclear(error.to_string()))?;
    match statement.format {
        FORMAT => Ok(statement),
        format => Err(unclear(format!("it has format {format}, and this version reads {FORMAT}"))),
    }
}

fn message(statement: &str) -> Vec<u8> {
    [PURPOSE, statement.as_bytes()].concat()
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(64), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer").field("key", self.key.public()).field("valid_for", &self.valid_for).finish()
    }
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Trust").field(&self.keys).finish()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

    use super::*;

    fn program(entry: &str) -> Program {
        Program {
            frontend: "lang".into(),
            entry: entry.into(),
            noop: false,
            sema: -1,
            no_autoedges: false,
            no_autogroup: false,
        }
    }

    fn signer(seed: u8) -> Signer {
        Signer { key: SigningKey::of_seed([seed; 32]), valid_for: None }
    }

    fn deploy(signer: &Signer, entry: &str, newest: Option<&Deploy>) -> Deploy {
        let (program, files) = (program(entry), Blob { size: 3, chunks: vec!["ab".into()] });
        let seal = Some(signer.seal(&program, None, &files, newest));
        Deploy {
            id: newest.map_or(1, |newest| newest.id + 1),
            program,
            hash: None,
            chain: None,
            repeats: None,
            by: "a".into(),
            at: 0,
            files,
            seal,
        }
    }

    fn trust(directory: &tempfile::TempDir, signer: &Signer) -> Trust {
        Trust::new(vec![signer.key.public().clone()], directory.path().to_owned()).unwrap()
    }

    #[test]
    fn what_is_signed_is_accepted_again_and_again_but_nothing_older() {
        let (directory, signer) = (tempfile::tempdir().unwrap(), signer(1));
        let first = deploy(&signer, "one", None);
        let second = deploy(&signer, "two", Some(&first));
        let trust_ = trust(&directory, &signer);
        assert_eq!(trust_.accept(&first).unwrap(), first);
        assert_eq!(trust_.accept(&first).unwrap(), first, "it may start again");
        assert_eq!(trust_.accept(&second).unwrap().program.entry, "two");
        assert!(matches!(trust_.accept(&first), Err(Refused::Replayed)));
        // Under any number, and after a restart.
        let trust_ = trust(&directory, &signer);
        assert!(matches!(trust_.accept(&Deploy { id: 99, ..first }), Err(Refused::Replayed)));
        assert!(trust_.accept(&second).is_ok());
    }

    #[test]
    fn the_number_grows_even_if_the_clock_does_not() {
        let signer = signer(1);
        let mut newest = deploy(&signer, "one", None);
        for _ in 0..100 {
            let next = deploy(&signer, "one", Some(&newest));
            let (before, after) = (signer.opened(&newest).unwrap(), signer.opened(&next).unwrap());
            assert!(after.sequence > before.sequence);
            newest = next;
        }
        // What a stranger says about it does not count.
        let stranger = Signer { key: SigningKey::of_seed([2; 32]), valid_for: None };
        let mut loud = deploy(&stranger, "x", None);
        let seal = loud.seal.as_mut().unwrap();
        seal.statement = seal.statement.replace(r#""sequence":"#, r#""sequence":9"#);
        let mine = signer.opened(&deploy(&signer, "one", Some(&loud))).unwrap();
        assert!(mine.sequence < 9_000_000_000_000_000);
    }

    #[test]
    fn what_stands_beside_the_statement_does_not_count() {
        let (directory, signer) = (tempfile::tempdir().unwrap(), signer(1));
        let right = deploy(&signer, "one", None);
        let mut wrong = right.clone();
        wrong.program.entry = "evil".into();
        wrong.files.chunks = vec!["cd".into()];
        assert!(!signer.has_signed(&wrong) && signer.has_signed(&right));
        let accepted = trust(&directory, &signer).accept(&wrong).unwrap();
        assert_eq!((accepted.program, accepted.files), (right.program, right.files));
    }

    #[test]
    fn whatever_is_changed_in_a_seal_is_noticed() {
        let (directory, signer) = (tempfile::tempdir().unwrap(), signer(1));
        let (trust, right) = (trust(&directory, &signer), deploy(&signer, "one", None));
        assert!(matches!(trust.accept(&Deploy { seal: None, ..right.clone() }), Err(Refused::Unsigned)));
        let stranger = Signer { key: SigningKey::of_seed([2; 32]), valid_for: None };
        assert!(matches!(trust.accept(&deploy(&stranger, "one", None)), Err(Refused::Stranger { .. })));
        let parts: [fn(&mut Seal) -> &mut String; 3] =
            [|seal| &mut seal.statement, |seal| &mut seal.key, |seal| &mut seal.signature];
        for part in parts {
            let length = part(right.clone().seal.as_mut().unwrap()).len();
            for at in 0..length {
                for bit in [1, 2, 4, 64] {
                    let mut wrong = right.clone();
                    let text = part(wrong.seal.as_mut().unwrap());
                    let mut bytes = std::mem::take(text).into_bytes();
                    bytes[at] ^= bit;
                    *text = String::from_utf8_lossy(&bytes).into_owned();
                    assert!(trust.accept(&wrong).is_err(), "byte {at}: {wrong:?}");
                }
                let mut short = right.clone();
                part(short.seal.as_mut().unwrap()).truncate(at);
                assert!(trust.accept(&short).is_err(), "cut at {at}");
            }
        }
        assert!(trust.accept(&right).is_ok());
    }

    #[test]
    fn what_has_expired_is_only_run_by_those_who_had_begun() {
        let directory = tempfile::tempdir().unwrap();
        let late = Signer { valid_for: Some(Duration::from_secs(3600)), ..signer(1) };
        let right = deploy(&late, "one", None);
        let mut statement = late.opened(&right).unwrap();
        statement.until = Some(1);
        let text = serde_json::to_string(&statement).unwrap();
        let signature = Base64::encode_string(&late.key.sign(&message(&text)));
        let seal = Seal { statement: text, signature, ..right.seal.clone().unwrap() };
        let expired = Deploy { seal: Some(seal), ..right.clone() };
        let trust = trust(&directory, &late);
        assert!(matches!(trust.accept(&expired), Err(Refused::Expired { until: 1 })));
        assert!(trust.accept(&right).is_ok());
        assert!(matches!(trust.accept(&expired), Err(Refused::Replayed)));
    }

    #[test]
    fn a_memory_that_cannot_be_read_refuses_everything() {
        let (directory, signer) = (tempfile::tempdir().unwrap(), signer(1));
        let (trust, right) = (trust(&directory, &signer), deploy(&signer, "one", None));
        trust.accept(&right).unwrap();
        let file =
            std::fs::read_dir(directory.path().join("accepted")).unwrap().next().unwrap().unwrap().path();
        std::fs::write(&file, "{").unwrap();
        assert!(matches!(trust.accept(&right), Err(Refused::Memory(_))));
    }
}
