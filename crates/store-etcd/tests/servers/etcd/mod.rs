//! The client of etcd, against real servers.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics is a test that fails")]

mod basics;
mod cluster;
mod hostile;
mod limits;
mod outage;
mod secure;
mod watch;
