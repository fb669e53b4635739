//! The event hubs on what the kernel and real daemons report.
//!
//! The runner (`cargo xtask test`) gives each of these modules a process of its own.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics is a test that fails")]

mod bus;
mod files;
mod kernel;
mod limits;
mod random;
mod scale;
mod test_env;
