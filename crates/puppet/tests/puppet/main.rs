//! The Puppet front-end: catalogues in, orders and resource graphs out, held against Puppet itself.
//!
//! The runner (`cargo xtask test`) gives each of these modules a process of its own.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics is a test that fails")]

mod both_ways;
mod golden;
mod merge;
mod orders;
mod parameters;
mod puppet_8;
mod relations;
mod schedules;
mod translate;
mod translated;
