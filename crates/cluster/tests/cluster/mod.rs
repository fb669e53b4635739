//! Hosts, servers, a network and a clock, all played with a seed.
//!
//! [`servers`] is what etcd does, as far as it matters here, and [`network`] how it is reached; [`story`] is the hosts,
//! and [`faults`] what happens to them; [`judge`] says what must never be, and what must be in the end.

/// Writes a line of the trace, if there is one.
macro_rules! tell {
    ($story:expr, $($text:tt)*) => {
        if let Some(trace) = &mut $story.trace {
            let _ = write!(trace, "{:>9} ", $story.now);
            let _ = writeln!(trace, $($text)*);
        }
    };
}

mod faults;
pub(crate) mod judge;
mod network;
pub(crate) mod servers;
pub(crate) mod story;
