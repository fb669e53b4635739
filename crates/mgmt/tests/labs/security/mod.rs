//! One test for each threat that a root daemon has to answer, named after it, against the whole program.
//!
//! Which test answers which threat is the table in `README.md` beside this; a test reads it and fails if a threat is missing,
//! a test that it names is not there, or one of ours is not in it. What other crates prove already is named there and not
//! repeated here.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]
#![allow(clippy::print_stderr, reason = "who races wants to know how often")]

mod crash;
mod host;
mod hostile;
mod outside;
mod races;
mod reading;
mod store;
mod table;
mod trust;

/// How many bytes of a process are in memory.
pub(crate) fn resident(id: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|kilobytes| kilobytes.parse::<u64>().ok()).unwrap_or(0) << 10
}
