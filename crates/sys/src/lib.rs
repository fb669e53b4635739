//! System calls: safe paths, atomic replacement, child processes

pub mod process;
