//! Client of an installed Puppet: one warm Ruby process that compiles manifests and applies single resources.
//!
//! The central type is [`Puppet`], a handle. Behind it is one Ruby process that runs a script of ours inside the
//! installed Puppet. The script is part of this program and is handed over through a pipe; nothing is installed or written.
//! Starting Ruby and loading Puppet takes a second or more, and gathering facts as long again; a compile after that takes
//! milliseconds. That is why the process stays.
//!
//! Invariants
//! - No input of a user is an argument or a variable of a process: code, parameters and secrets travel through pipes.
//! - What modules and providers print cannot disturb the conversation: it has descriptors of its own, and what is printed
//!   is logged.
//! - Every question is answered or fails. A process that dies takes its open questions with it, and the next question starts
//!   another one; one that dies again and again is not started for a while; one that does not answer is killed, with all
//!   that it started.
//! - Nothing grows without bound: the length of an answer, the lines of output that are kept, the messages of a request.
//! - Resources that wait at the same time are given to it together, by type; what becomes of one makes no difference to another.
//! - A process ends with the last handle.
//!
//! A catalogue may also come from a Puppet server ([`Input::Agent`]), over HTTPS and with the certificate of this host.
//!
//! Deliberately absent: what a catalogue means (the crate `puppet` knows), and any list of types.

mod agent;
mod answer;
mod batch;
mod conversation;
mod http;
mod installation;
mod plain;
mod puppet;
mod seen;

pub use answer::{
    Applied, Change, Compiled, Generated, Hello, Message, Raised, Refused, Relation, Relations, TypeFacts,
};
pub use installation::{Installation, Missing};
#[doc(hidden)]
pub use puppet::hear_hostile;
pub use puppet::{Apply, Input, Puppet, PuppetError, Settings, WeakPuppet};
pub use seen::Seen;
