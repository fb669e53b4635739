//! System calls on a real file system, and real processes.
//!
//! The runner (`cargo xtask test`) gives each of these modules a process of its own.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics is a test that fails")]

mod fs_common;
mod fs_mount;
mod fs_parent;
mod fs_race;
mod fs_replace;
mod fs_tree;
mod fs_trusted;
mod process_run;
