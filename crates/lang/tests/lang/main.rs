//! The mcl language as its users meet it: programs in, values, graphs and diagnostics out.
//!
//! The runner (`cargo xtask test`) gives each of these modules a process of its own.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics is a test that fails")]

mod common;
mod diagnostics;
mod embedded;
mod flow;
mod function_edges;
mod function_examples;
mod function_host;
mod fuzz;
mod generate;
mod generics;
mod session;
