//! What hosts share: the suite on the embedded store and through sockets, and the whole under simulated faults.
//!
//! The runner (`cargo xtask test`) gives each of these modules a process of its own.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics is a test that fails")]

mod embedded_store;
mod faults;
mod shared_state;
mod socket_store;
