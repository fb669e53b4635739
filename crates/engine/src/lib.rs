//! The engine: a reconciler that keeps a graph of resources in the declared state.
//!
//! ```text
//!   declared graph ─▶ prepare (check, reversals, automatic edges, groups) ─▶ swap ─▶ core ─▶ driver ─▶ runs
//!                                                                             ▲                │
//!                                                                             └── events ◀─────┘
//! ```
//!
//! [`core`] is the scheduler: pure, it decides what runs when and touches nothing. The central type is [`Engine`], the driver around
//! it: a leader/follower thread pool for runs that make system calls, and tasks for runs that wait. The leader reads file events;
//! the thread that has an event enters the dispatcher, lets the core decide, and does what follows itself if that is one run.
//! [`prepare()`] turns a declared graph into one that can run; a graph that fails there changes nothing.
//!
//! Invariants
//! - One thread at a time is in the dispatcher, and only that one touches the core and the nodes. A run takes what it needs along and
//!   brings it back.
//! - File events always have a reader: the role passes from thread to thread, and stays where it is while no other thread is idle.
//! - A swap names differences only; everything else goes on, with its watch, its state and its pending events.
//! - Every queue is bounded: events of a vertex are one bit, answers one per run.
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
    Handed, Health, MemberEffects, PathWatch, Plan, Ran, Rest, Step, StepError, Summary, SwapReport, Undone,
    Witness, plan, prepare_for,
};
pub use journal::LastRuns;
#[doc(hidden)]
pub use journal::read_hostile_journal;
pub use prepare::{Preparation, Prepared, SwapError, check_spec, prepare};
