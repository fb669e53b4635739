//! The etcd store on real servers.
//!
//! The runner (`cargo xtask test`) gives each of these modules a process of its own.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics is a test that fails")]

mod etcd;
mod etcd_common;
mod etcd_shared_state;
mod etcd_store;
