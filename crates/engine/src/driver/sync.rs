//! What the threads of the engine meet by: locks, signals, threads and the time.
//!
//! Here it is the standard library's. In the tests, `model` has the files that use it once more, with something else
//! in its place that tries out the orders in which threads can get there.

pub(super) use std::hint::spin_loop;
pub(super) use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
pub(super) use std::sync::{Condvar, Mutex, MutexGuard};
pub(super) use std::thread;
pub(super) use std::time::Instant;
