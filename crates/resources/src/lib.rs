//! Every resource kind, one file (or folder) each.
//!
//! To add a kind: write its file, and add one line to [`KINDS`]. Its fields, docs, YAML form, reference page and
//! completion come from the struct.

mod account;
pub mod exec;

use mgmt_resource::{Registry, Schema, schema_of};

/// All kinds.
pub const KINDS: Registry = Registry::new(ALL);

const ALL: &[fn() -> &'static Schema] = &[
    schema_of::<exec::Exec>,
];
