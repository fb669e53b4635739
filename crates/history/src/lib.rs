//! Audit log: what was changed, when and why, as a bounded, durable record.
//!
//! ```text
//!   engine ─▶ Recorder (a Witness) ─▶ queue ─▶ one thread: words, JSON, one write for all that waits ─▶ Journal
//!                                                                                      history, why ◀─ read()
//! ```
//!
//! The central type is [`Record`]: one run of a resource that changed something, or failed in a new way, with the chain
//! that led to it: event, values of the program with their places, parameters, effects. Effects are what the kind said
//! itself ([`mgmt_resource::Effect`]), so history and plan speak with one voice.
//!
//! Decisions
//! - **Lines of JSON in numbered files**, appended to, never changed: readable with anything, and a reader needs no lock.
//!   The newest file is written to; when it is long enough the next begins and the oldest goes. So the record is bounded,
//!   whatever happens.
//! - **The engine's thread only queues.** Everything that costs something is done by one other thread. It writes at once,
//!   and then rests for ten milliseconds, so that a burst is a few writes: a record is in the page cache, out of reach of
//!   our own death, a moment after the change. The disk is asked to keep it once a second at most.
//! - **A record is written without being made.** What the engine tells is shown straight into the line; a [`Record`] is
//!   what comes of reading it. A test holds the two together.
//! - **A damaged record is left out and counted.** Every line ends with a checksum. Whatever does not read as a record is no
//!   record. A file that does not end with a line break gets one before it is written to.
//! - **Nothing here stops work.** A disk that is full is a warning, once, and records are lost until there is room again.
//! - **Secrets do not come here.** The value of a secret parameter is never told by the engine. If an effect is private,
//!   because not everybody may read what it is about, the values in its cause are left out too.
//!
//! [`unified`] shows two texts as a line diff, for history and plan alike.
//!
//! Deliberately absent: an index. The record is small enough to be read as a whole.

mod diff;
mod journal;
mod line;
mod record;
mod recorder;

pub use diff::unified;
pub use journal::{Journal, Limits, read};
pub use record::{CauseRecord, EffectRecord, FieldRecord, HandedRecord, Outcome, Record, ValueRecord};
pub use recorder::Recorder;
