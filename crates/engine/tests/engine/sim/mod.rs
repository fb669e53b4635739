//! A simulator for the scheduler core.
//!
//! [`world::World`] plays the driver and the host: it declares random graphs, answers actions after random times with
//! random results, floods, jumps the clock, pauses and stops. Time is a number, so a minute takes no time.
//! [`oracle::Oracle`] says independently what may and must happen. The same seed gives the same story.

pub(crate) mod graph;
mod health;
pub(crate) mod judge;
pub(crate) mod oracle;
pub(crate) mod swap;
pub(crate) mod tries;
pub(crate) mod world;
