//! The Puppet front-end: a compiled catalogue in, a resource graph out.
//!
//! Puppet compiles (the crate `puppet-process` asks it to); everything after that is done here. A [`Catalogue`] is what was
//! compiled. [`relate`] finds the order of its resources. [`translate`] makes a resource graph of both: each type has one small
//! rule in `translate/`, which reads compiled parameters and sets fields of a kind of ours. What a rule does not understand
//! is left to Puppet itself, as a `pippet` resource, and told. [`merge`] joins such a graph with that of a program, and
//! [`program`] writes it as one.
//!
//! Invariants
//! - The order is Puppet's own: every edge of it, and no other; tests compare the two.
//! - Only compiled values are used, never values that Puppet's own types have changed: those do not survive being read twice.
//! - A resource is one of ours only if all that was said about it has been understood. Nothing is dropped.
//! - What depends on the whole catalogue is never given to Puppet alone: it would purge what others manage.
//! - What is sensitive is never shown: not in a message, not by `Debug`.
//! - Nothing in a catalogue makes this crate fail otherwise than with a message.
//!
//! Deliberately absent: reading manifests, which is Puppet's part; and any list of our own kinds and parameters other than
//! the registry.

mod automatic;
mod catalogue;
mod codes;
mod conflict;
mod data;
mod diagnostic;
mod merge;
mod program;
mod relations;
mod secrets;
mod translate;

pub use catalogue::{Catalogue, Declared};
pub use codes::CODES;
pub use data::Data;
pub use diagnostic::{Diagnostic, is_decision, of_error};
pub use merge::{Half, Merged, merge};
pub use program::{Containers, Program, ProgramOptions, program};
pub use relations::{Broken, Related, Relations, Vertex, relate};
pub use secrets::secrets;
pub use translate::{Decision, Looked, Ordering, Outcome, Reason, TranslateOptions, Translated, translate};
