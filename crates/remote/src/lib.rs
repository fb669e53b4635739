//! Agentless operation of other hosts over ssh: logins, tunnels, and this program started there.
//!
//! The central type is the [`Login`]: whom to reach and how to prove who is who. From it come
//!
//! - a [`Tunnel`], through which a store on the other side is used as if it were here;
//! - a [`Launched`], this very program on the other side, which has our store as its own: nothing has to be installed
//!   there, nothing listens there, and nothing is left there;
//! - a [`Service`], this program on the other side, which goes on there without us.
//!
//! ```text
//!      here                                ssh                        there
//!   Launched ── stop, programs ──────▶ standard input ──▶ Far ── what `mgmt run` is told
//!      │     ◀── converged ───────── standard output ◀──  │
//!      └ store ◀───── questions, answers ─────────────▶ Socket      (both on the same two streams)
//!   log lines, by host ◀──────────────  standard error ◀── log lines
//! ```
//!
//! All of it goes through the `ssh` program of the system, one process and one connection for each host: so a user's
//! configuration, agents, hardware keys, certificates and jump hosts work as they are used to, and the distribution
//! repairs what has to be repaired. A library would bring its own cryptography and its own idea of all of these.
//!
//! Invariants
//! - A host proves who it is: its key is known, or pinned. Nobody is ever asked whether to trust one.
//! - Nobody is asked for a password unless that was allowed; then this program asks, one question at a time.
//! - Everything that waits for the other side is bounded, apart from the run that was started there.
//! - No text from here becomes a command there: the script is constant, and words for it are quoted.
//! - What the other side says is bounded, and shown without control characters.
//! - Whatever is started there ends when its standard input does, so it ends with this process, however that ends; and it
//!   removes what it has made.
//!
//! Deliberately absent: passwords kept anywhere, agents forwarded, and a daemon on either side.

mod binary;
mod far;
mod host_key;
mod launch;
mod link;
mod login;
mod prompt;
mod said;
mod script;
mod service;
mod target;
mod tunnel;

pub use far::{Far, Streams, Told};
pub use host_key::HostKey;
pub use launch::{Ended, Launch, Launched, News, Place};
#[doc(hidden)]
pub use link::read_hostile;
pub use link::{Handed, Rest, Stop};
pub use login::{Identity, Login, SshError};
pub use prompt::{Prompts, ask_entry};
pub use said::clean;
pub use service::{Runs, Service, Visit, await_entry};
pub use target::{Target, TargetError};
pub use tunnel::{Distant, Near, Tunnel};
