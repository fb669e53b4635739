//! Test support: what the tests of several crates share. A development dependency only; no part of the product.
//!
//! - [`program`]: the program `mgmt` as a process, its output, and [`program::eventually`].
//! - [`current_test`]: the path of the running test, for tests that start their own program again somewhere else.
//! - [`sandbox`]: a view of this machine on an overlay file system; every change is thrown away.
//! - [`booted_host`]: a host with a service manager and a message bus of its own, in namespaces.
//! - [`network`], [`sshd`], [`etcd`], [`bus`], [`package_source`]: networks and servers that a test owns.
//! - [`address`]: loopback addresses whose ports nobody else gets.
//! - [`terminal`]: a pseudo-terminal and what is to be seen on it.
//! - [`clock`], [`numbers`], [`random`]: time and chance under the control of the test.
//! - [`pages`]: the code blocks of the documentation.
//!
//! Invariants: everything that a value starts ends with the value; nothing here listens but on loopback or in a namespace of its
//! own; nothing here needs another crate of the workspace, so that even the leaves can use it.
//!
//! Deliberately absent: hosts with an engine or a store in this process (they are beside the tests of the crates that have
//! engine and store), and any way to pass without doing the work: a test that needs root says so with [`require_root!`].
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics is a test that fails")]

pub mod address;
pub mod booted_host;
pub mod bus;
pub mod clock;
pub mod current_test;
pub mod etcd;
pub mod network;
pub mod numbers;
pub mod package_source;
pub mod pages;
pub mod program;
pub mod random;
pub mod sandbox;
pub mod sshd;
pub mod terminal;

/// Fails a test that needs root if it runs without: it never passes without having done anything.
#[macro_export]
macro_rules! require_root {
    () => {
        assert!($crate::is_root(), "this test needs root: run `cargo xtask test` as root");
    };
}

/// Whether this process runs as root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
