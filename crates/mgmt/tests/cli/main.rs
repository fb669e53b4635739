//! The program as people use it: commands, their output and their exit codes.
//!
//! The runner (`cargo xtask test`) gives each of these modules a process of its own.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics is a test that fails")]

mod beside;
mod bundled_modules;
mod changes;
mod check_lang;
mod deploy_files;
mod deploy_recovery;
mod examples;
mod firstboot;
mod fmt;
mod formats;
mod get;
mod graph;
mod graph_settle;
mod how_to;
mod mcl_examples;
mod metrics;
mod metrics_states;
mod prefix;
mod progress;
mod recovery;
mod repl;
mod run_lang;
mod run_lang_events;
mod running;
mod service;
mod signals;
mod usage;
mod world;
