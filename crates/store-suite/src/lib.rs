//! Conformance tests of stores: what every [`Store`](mgmt_store::Store) has to do, and what
//! [`SharedState`](mgmt_store::SharedState) does on top of it.
//!
//! A store's own tests call [`store::all`] and [`shared_state::all`]. Nothing but tests depends on this crate.
#![allow(missing_docs, reason = "the functions are named after the behaviour that they test")]

pub mod shared_state;
pub mod store;
