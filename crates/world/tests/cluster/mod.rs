//! Hosts, servers, a network and a clock, all played with a seed.
//!
//! [`servers`] is what etcd does, as far as it matters here; [`story`] is the hosts and everything that happens to
//! them; [`judge`] says what must never be, and what must be in the end.

pub(crate) mod judge;
pub(crate) mod random;
pub(crate) mod servers;
pub(crate) mod story;
