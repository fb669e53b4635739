//! The Puppet front-end: a compiled catalogue in, a resource graph out.
//!
//! Puppet compiles (the crate `puppet-process` asks it to); everything after that is done here. A [`Catalogue`] is what was
//! compiled. [`relate`] finds the order of its resources.
//!
//! Invariants
//! - The order is Puppet's own: every edge of it, and no other; tests compare the two.
//! - Only compiled values are used, never values that Puppet's own types have changed: those do not survive being read twice.
//! - What is sensitive is never shown: not in a message, not by `Debug`.
//! - Nothing in a catalogue makes this crate fail otherwise than with a message.
//!
//! Deliberately absent: reading manifests, which is Puppet's part; and any list of our own kinds and parameters other than
//! the registry.

mod automatic;
mod catalogue;
mod data;
mod relations;

pub use catalogue::{Catalogue, Declared};
pub use data::Data;
pub use relations::{Broken, Related, Relations, Vertex, relate};
