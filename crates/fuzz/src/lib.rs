//! Deterministic mutation fuzzer, with a target for every parser of untrusted input.
//!
//! The central type is [`Target`]: a name, and a function that takes any bytes and must neither panic nor hang, and may
//! assert what holds of its answer. Each has a directory of inputs in `corpus/`; the [`Fuzzer`] bends, cuts and joins
//! them, always in the same way for the same seed. So it needs no special compiler, runs wherever the tests run, and
//! every failure can be replayed. The input that is being tried lies in a file, so that one which ends the process or hangs is
//! kept, too.
//!
//! What is deliberately absent: coverage. Where it pays, the crates have harnesses of their own for `cargo bolero`
//! (`syntax`, `lang`, `yaml`).

mod mutate;
mod run;
mod targets;

pub use mutate::Fuzzer;
pub use run::{Settings, run};
pub use targets::{TARGETS, Target};
