//! The program under attack and in trouble: faults, kills, threats, chaos, and long runs.
//!
//! The runner (`cargo xtask test`) gives each of these modules a process of its own.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics is a test that fails")]

mod chaos;
mod cluster_faults;
mod fault_lab;
mod faults;
mod history;
mod kill;
mod security;
mod soak;
