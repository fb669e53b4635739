//! The engine: keeps a graph of resources in the declared state.
//!
//! ```text
//!   declared graph ─▶ prepare (check, reversals, automatic edges, groups) ─▶ swap ─▶ core ─▶ driver ─▶ runs
//!                                                                             ▲                │
//!                                                                             └── events ◀─────┘
//! ```
//!
//! [`core`] decides what runs when and touches nothing. [`Engine`] is the thin half: one place where the driver stands with
//! the core, a few threads for runs that make system calls, one of which keeps the lookout for file events, and tasks for runs
//! that wait. Whichever thread has news steps up to the driver, decides, and does what follows if that is one run.
//! [`prepare()`] turns what a person declared into what can run; a graph that fails there changes nothing.
//!
//! Invariants
//! - One thread at a time decides, and only that one touches the core and the nodes. A run takes what it needs along and
//!   brings it back.
//! - Somebody always keeps the lookout: it goes from hand to hand, and stays where it is while nobody is free.
//! - A swap names differences only; everything else goes on, with its watch, its state and its pending events.
//! - Everything outside that waits is bounded: events of a vertex are one bit, answers one per run.
//!
//! Deliberately absent: where graphs come from, and what kinds there are.

mod autoedge;
mod autogroup;
pub mod core;
mod driver;
mod journal;
mod prepare;
mod reversal;

pub use autoedge::add as add_automatic_edges;
pub use autogroup::group as group_automatically;
pub use core::Level;
pub use driver::{
    Backlog, Blocked, Cause, Certainty, Ended, Engine, EngineEvent, EngineSettings, Export, FieldChange,
    Handed, Health, MemberEffects, PathWatch, Plan, Ran, Step, StepError, Summary, SwapReport, Undone,
    Witness, plan, prepare_for,
};
pub use journal::LastRuns;
#[doc(hidden)]
pub use journal::read_hostile_journal;
pub use prepare::{Preparation, Prepared, SwapError, check_spec, prepare};
