//! Signed deploys: a host with a trust store runs nothing that somebody without a key has put into the store.
//!
//! The central type is [`TrustStore`]: the public keys that a host was given, and what it has accepted of each. A [`Signer`] signs a
//! statement: the program, the digests of its files, the deploy's number in the store, and the series that the number belongs to. The
//! text of it is kept as it was signed, beside the signature ([`Signature`]). A host with public keys runs what the statement says, and
//! nothing that only stands beside it.
//!
//! - The statement is verified before anything of the deploy is read. Files are named by their digests, so all of them are
//!   covered.
//! - A host remembers, on its own disk, the last statement that it has accepted from each key. One that is not newer is refused
//!   ([`Refused::Replayed`]), even if the store was emptied and filled again with what was once right.
//! - Newer means: a higher number of the same series, or a later series. Within a series no clock matters. A series begins with
//!   the first deploy that a key signs in a store, and is named by the signer's time in microseconds; so the numbers of a
//!   new store, which begin with 1 again, are newer than those of the old one.
//! - A statement counts only under the number that was signed ([`Refused::Misplaced`]).
//! - A series that begins more than [`MAX_CLOCK_AHEAD`] in the future is refused until its time comes
//!   ([`Refused::FromTheFuture`]), so that a signer whose clock is ahead cannot lock out others: they begin a series of
//!   the present, which hosts accept. Its statements name the series of the future as void, so that a host that has accepted that
//!   one (its clock was ahead, too, or the signer's is behind) goes over to theirs. No clock of a host counts for that, only the
//!   signature; and a series that is void for a host stays refused there ([`Refused::Void`]).
//! - A store that was restored from a backup gives numbers a second time. What is signed then has to begin a new
//!   series ([`Signer::new_series`]); nobody without the key can.
//! - A host that has never heard of a key has nothing to compare with. For it, a statement may say until when it may be
//!   begun with; a host that has accepted it in time may go on with it afterwards.
//!
//! Statements of earlier versions have a `sequence` instead, the time or one more than the last. It counts as a series of its own.
//!
//! Deliberately absent: chains of certificates, and any way to revoke a key but to stop naming it.

mod keys;

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64ct::{Base64, Encoding as _};
use mgmt_state::record::{self, FORMAT, Record};
use mgmt_state::{Result as StateResult, StateDirectory, StateError};
use mgmt_store::{Blob, Deploy, DeploySigner, Program, Signature, SignedContent};
use mgmt_sys::replace::Durability;
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest as _, Sha256};

pub use keys::{KeyError, PublicKey, SigningKey};

/// What is signed begins with this, so that no signature can be taken for one of something else.
const PURPOSE: &[u8] = b"mgmt deploy\0";

/// What is said about a deploy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Statement {
    format: u64,
    /// The order among statements, for versions that do not know of series.
    sequence: u64,
    /// When the series began, in microseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    series: Option<u64>,
    /// The deploy's number in the store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    number: Option<u64>,
    /// Later series that this one replaces, because they began in the future.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    void: BTreeSet<u64>,
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
    /// Begin a new series, because the store gives numbers a second time.
    pub new_series: bool,
}

/// How far the clock of a signer may be ahead of the clock of a host that has not accepted anything of its series yet.
pub const MAX_CLOCK_AHEAD: Duration = Duration::from_secs(300);

/// The place of a statement among all of its key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Order {
    series: u64,
    number: u64,
}

/// What a host remembers of a key.
#[derive(Default)]
struct Memory {
    /// Where, for messages.
    path: String,
    /// The last statement that was accepted.
    last: Order,
    /// Its digest.
    statement: String,
    /// Later series that it has replaced.
    void: BTreeSet<u64>,
}

/// Whose deploys a host runs, and what it has accepted of them already.
pub struct TrustStore {
    keys: Vec<PublicKey>,
    directory: StateDirectory,
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
        "it is older than one that this host has accepted before (number {number}, accepted {accepted}): it may have been put into \
         the store again"
    )]
    Replayed {
        /// Its number, as it was signed.
        number: u64,
        /// The number of the one that was accepted.
        accepted: u64,
    },
    /// It was signed as another deploy.
    #[error("it was signed as number {signed} and stands in the store as number {found}")]
    Misplaced {
        /// As it was signed.
        signed: u64,
        /// As it is stored.
        found: u64,
    },
    /// Its series was replaced by one of the present.
    #[error(
        "its series began in the future, and a newer deploy that this host has accepted has replaced that series"
    )]
    Void {
        /// In seconds since 1970.
        begins: u64,
    },
    /// The clock of its signer, or of this host, is wrong.
    #[error(
        "its series begins in the future, and at most {} seconds are accepted: the clock of the signer was ahead, or the clock of \
         this host is behind", MAX_CLOCK_AHEAD.as_secs()
    )]
    FromTheFuture {
        /// In seconds since 1970.
        begins: u64,
    },
    /// This host has accepted a series that begins in the future, and nobody has declared it void.
    #[error(
        "it is of an earlier series than one that this host has accepted before, which begins in the future: the clock of this host \
         was ahead then, or is behind now"
    )]
    AcceptedFuture {
        /// In seconds since 1970.
        begins: u64,
        /// Where it is remembered.
        path: String,
    },
    /// It came too late.
    #[error("it was to be begun with until {until} seconds after 1970")]
    Expired {
        /// In seconds since 1970.
        until: u64,
    },
    /// What was accepted before is not known.
    #[error(transparent)]
    Memory(#[from] StateError),
}

impl Refused {
    /// Time alone can change it.
    pub fn is_passing(&self) -> bool {
        matches!(
            self,
            Refused::FromTheFuture { .. }
                | Refused::AcceptedFuture { .. }
                | Refused::Expired { .. }
                | Refused::Memory(_)
        )
    }
}

impl DeploySigner for Signer {
    fn sign(
        &self,
        content: SignedContent<'_>,
        number: u64,
        stored: &mut dyn Iterator<Item = &Deploy>,
    ) -> Signature {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let own: Vec<Statement> = stored.filter_map(|deploy| self.opened(deploy)).collect();
        let last = own.iter().map(|last| last.sequence).max().unwrap_or(0);
        let (series, void) = self.series(micros(now), &own);
        let statement = Statement {
            format: FORMAT,
            sequence: micros(now).max(last.saturating_add(1)),
            series: Some(series),
            number: Some(number),
            void,
            until: self.valid_for.map(|time| now.saturating_add(time).as_secs()),
            program: content.program.clone(),
            hash: content.hash.cloned(),
            files: content.files.clone(),
        };
        // A struct of texts and numbers always has a text.
        let statement = serde_json::to_string(&statement).unwrap_or_default();
        let signature = self.key.sign(&message(&statement));
        let key = Base64::encode_string(self.key.public().bytes());
        Signature { statement, key, signature: Base64::encode_string(&signature) }
    }

    fn has_signed(&self, deploy: &Deploy) -> bool {
        self.opened(deploy).is_some_and(|statement| {
            (&statement.program, &statement.hash, &statement.files)
                == (&deploy.program, &deploy.hash, &deploy.files)
        })
    }
}

impl Signer {
    /// The series to sign in, and the later ones that it replaces: the series of the last deploy of this key in the store that does
    /// not begin in the future and is not void, or one that begins now.
    fn series(&self, now: u64, own: &[Statement]) -> (u64, BTreeSet<u64>) {
        let limit = now.saturating_add(micros(MAX_CLOCK_AHEAD));
        let declared: BTreeSet<u64> = own.iter().flat_map(|statement| &statement.void).copied().collect();
        let all: BTreeSet<u64> =
            own.iter().map(|statement| statement.order().series).chain(declared.iter().copied()).collect();
        if let Some(ahead) = all.difference(&declared).max().filter(|series| **series > limit) {
            let seconds = (ahead - now) / 1_000_000;
            tracing::warn!(
                "the store has a deploy with this key whose series begins {seconds}s in the future; this deploy replaces the series: \
                 compare the clocks of the hosts that deploy"
            );
        }
        let counts = |series: &u64| *series <= limit && !declared.contains(series);
        let known = own.iter().rev().map(|statement| statement.order().series).find(counts);
        let fresh = || all.range(..=limit).next_back().map_or(now, |last| now.max(last.saturating_add(1)));
        let series = known.filter(|_| !self.new_series).unwrap_or_else(fresh);
        (series, all.into_iter().filter(|later| *later > series).collect())
    }

    fn opened(&self, deploy: &Deploy) -> Option<Statement> {
        open(deploy.signature.as_ref()?, std::slice::from_ref(self.key.public()))
            .ok()
            .map(|(_, statement)| statement)
    }
}

impl TrustStore {
    /// Only what is signed with one of these keys is run. What was accepted is remembered in the directory.
    pub fn new(keys: Vec<PublicKey>, directory: PathBuf) -> StateResult<TrustStore> {
        Ok(TrustStore { keys, directory: StateDirectory::new(directory, Durability::Full)? })
    }

    /// The deploy as its signer has stated it, if it may be run. It is remembered, so that nothing older will be.
    pub fn accept(&self, deploy: &Deploy) -> Result<Deploy, Refused> {
        self.accept_at(deploy, SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
    }

    fn accept_at(&self, deploy: &Deploy, now: Duration) -> Result<Deploy, Refused> {
        let signature = deploy.signature.as_ref().ok_or(Refused::Unsigned)?;
        let (key, statement) = open(signature, &self.keys)?;
        let folder = self.directory.open(&["accepted"])?;
        let name = format!("{}.json", hex(&Sha256::digest(key.bytes())));
        let digest = hex(&Sha256::digest(signature.statement.as_bytes()));
        let memory = match Record::read(&folder, &name)? {
            None => Memory::default(),
            Some(record) => Memory::of(&record)?,
        };
        let (order, last) = (statement.order(), memory.last);
        let is_the_last = order == last && digest == memory.statement;
        let limit = micros(now).saturating_add(micros(MAX_CLOCK_AHEAD));
        if memory.void.contains(&order.series) {
            return Err(Refused::Void { begins: order.series / 1_000_000 });
        }
        // The signer has seen the number that was accepted, so nothing that was signed before it can replace it.
        let replaces_last = statement.void.contains(&last.series) && order.number > last.number;
        if order <= last && !is_the_last && !replaces_last {
            return Err(match last.series > limit && order.series <= limit {
                true => Refused::AcceptedFuture { begins: last.series / 1_000_000, path: memory.path },
                false => Refused::Replayed { number: order.number, accepted: last.number },
            });
        }
        statement.is_placed(deploy)?;
        if !is_the_last {
            if order.series > last.series.max(limit) {
                return Err(Refused::FromTheFuture { begins: order.series / 1_000_000 });
            }
            if let Some(until) = statement.until.filter(|until| *until < now.as_secs()) {
                return Err(Refused::Expired { until });
            }
            let void = statement.void.union(&memory.void).filter(|void| **void > order.series);
            let text = record::text(&json!({
                "format": FORMAT,
                "key": key.to_string(),
                "sequence": statement.sequence,
                "series": order.series,
                "number": order.number,
                "void": void.collect::<Vec<_>>(),
                "statement": digest,
            }));
            record::write(&folder, &name, &text, Durability::Full)?;
        }
        Ok(statement.of(deploy))
    }

    /// The deploy as its signer has stated it, for one that this host has accepted and run before: it has to be signed with a key that is
    /// trusted now. Neither its order nor its time counts, because it is not taken from the store.
    pub fn confirm(&self, deploy: &Deploy) -> Result<Deploy, Refused> {
        let signature = deploy.signature.as_ref().ok_or(Refused::Unsigned)?;
        let (_, statement) = open(signature, &self.keys)?;
        statement.is_placed(deploy)?;
        Ok(statement.of(deploy))
    }
}

impl Statement {
    fn order(&self) -> Order {
        Order { series: self.series.unwrap_or(self.sequence), number: self.number.unwrap_or(0) }
    }

    /// It stands where it was signed to stand.
    fn is_placed(&self, deploy: &Deploy) -> Result<(), Refused> {
        match self.number {
            Some(signed) if signed != deploy.id => Err(Refused::Misplaced { signed, found: deploy.id }),
            _ => Ok(()),
        }
    }

    fn of(self, deploy: &Deploy) -> Deploy {
        Deploy { program: self.program, hash: self.hash, files: self.files, ..deploy.clone() }
    }
}

impl Memory {
    /// Earlier versions have remembered no void series, and the first ones only the `sequence`.
    fn of(record: &Record) -> Result<Memory, StateError> {
        let wrong = |member: &str| record.corrupt(format!("`{member}` is not a number"));
        let number = |member: &str| record.get(member)?.as_u64().ok_or_else(|| wrong(member));
        let last = match record.get("series") {
            Ok(_) => Order { series: number("series")?, number: number("number")? },
            Err(_) => Order { series: number("sequence")?, number: 0 },
        };
        let void = match record.get("void") {
            Ok(void) => serde_json::from_value(void.clone()).map_err(|_| wrong("void"))?,
            Err(_) => BTreeSet::new(),
        };
        let statement = record.get("statement")?.as_str().unwrap_or_default().to_owned();
        Ok(Memory { path: record.path().to_owned(), last, statement, void })
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// What was signed, and by which of these keys.
fn open<'a>(signed: &Signature, keys: &'a [PublicKey]) -> Result<(&'a PublicKey, Statement), Refused> {
    let claimed = PublicKey::of(signed).ok_or(Refused::Forged)?;
    let key = keys.iter().find(|key| **key == claimed).ok_or(Refused::Stranger { key: claimed })?;
    let signature = Base64::decode_vec(&signed.signature).map_err(|_| Refused::Forged)?;
    if !key.has_signed(&message(&signed.statement), &signature) {
        return Err(Refused::Forged);
    }
    understood(&signed.statement).map(|statement| (key, statement))
}

/// Entry points for fuzzing. Nothing here may panic, whatever the input.
#[doc(hidden)]
pub mod fuzz_targets {
    /// Whether a text that somebody may have signed is understood.
    pub fn statement(text: &str) -> bool {
        super::understood(text).is_ok()
    }
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

impl fmt::Debug for TrustStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TrustStore").field(&self.keys).finish()
    }
}

#[cfg(test)]
mod tests;
