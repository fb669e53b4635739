//! Every resource kind, one file (or folder) each.
//!
//! `cargo xtask new-kind NAME` adds a kind: its file in `kinds/`, and two lines in `kinds.rs`: its module, and its struct in the
//! list that [`KINDS`] is made of. Its fields, docs, YAML form, reference page and completion come from the struct. Code that
//! several kinds share is in `support/`.

mod kinds;
mod support;

pub use kinds::*;
