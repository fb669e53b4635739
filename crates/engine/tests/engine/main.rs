//! The engine on real files, and its pure core under simulated time.
//!
//! The runner (`cargo xtask test`) gives each of these modules a process of its own.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics is a test that fails")]

mod adjust;
mod broken;
mod common;
mod driver;
mod echo;
mod groups_and_edges;
mod parallel;
mod reports;
mod sim;
mod sim_core;
mod streams;
mod windows;
