//! The state that hosts share, as kinds use it: strings and schedules.
//!
//! Kinds know this trait and no store. The crate `store` implements it for its `SharedState`; whoever embeds the engine without a
//! store of hosts can implement it otherwise.

use std::any::Any;
use std::collections::BTreeMap;
use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use mgmt_value::Str;
use serde::{Deserialize, Serialize};

/// The answer of the shared state, or why there is none.
pub type SharedAnswer<'a, T> = Pin<Box<dyn Future<Output = Result<T, SharedStoreError>> + Send + 'a>>;

/// An error of the shared state.
pub type SharedStoreError = Box<dyn Error + Send + Sync>;

/// Strings and schedules that hosts share.
///
/// A call that needs the store waits until the store can be reached. Dropping a call leaves the store as it was or as it was to become.
pub trait SharedStore: Send + Sync {
    /// The string that all hosts share under a key, or none.
    fn shared<'a>(&'a self, key: &'a Str) -> SharedAnswer<'a, Option<Str>>;

    /// The strings that hosts have put under a key, by host.
    fn by_host<'a>(&'a self, key: &'a Str) -> SharedAnswer<'a, BTreeMap<Str, Str>>;

    /// Stores the shared string, or removes it, and tells whether that was a change.
    fn set_shared<'a>(&'a self, key: &'a Str, value: Option<&'a Str>) -> SharedAnswer<'a, bool>;

    /// Stores the string of one host, or removes it, and tells whether that was a change.
    fn set_of_host<'a>(
        &'a self,
        key: &'a Str,
        host: &'a Str,
        value: Option<&'a Str>,
    ) -> SharedAnswer<'a, bool>;

    /// Replaces the shared string, provided that it is still the expected one, and tells whether it was.
    fn replace_shared<'a>(
        &'a self,
        key: &'a Str,
        expected: Option<&'a Str>,
        value: &'a Str,
    ) -> SharedAnswer<'a, bool>;

    /// Follows a key. Whatever changes after this call is told.
    fn watch(&self, key: &Str, scope: Scope) -> Box<dyn SharedChanges>;

    /// Volunteers this host under a name, and tells whether that was a change. With `apply` false, only tells.
    fn volunteer<'a>(&'a self, name: &'a Str, offer: &'a Offer, apply: bool) -> SharedAnswer<'a, bool>;

    /// Volunteers this host no more under a name, and tells whether that was a change. With `apply` false, only tells.
    fn withdraw<'a>(&'a self, name: &'a Str, apply: bool) -> SharedAnswer<'a, bool>;

    /// Follows what this host keeps in the store, its offers included.
    fn watch_own(&self) -> Box<dyn SharedChanges>;

    /// Until when, on the clock that counts suspended time too, this host is chosen under a name; no time if its choice does not
    /// expire. None if it is not chosen, or cannot know.
    fn is_chosen(&self, name: &Str) -> Option<Option<Duration>>;

    /// Follows which hosts are chosen under a name.
    fn watch_schedule(&self, name: &Str) -> Box<dyn SharedChanges>;

    /// The implementation, for a kind that hands the store itself on to another host.
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

/// Notifications of changes. Several changes are told as one if nobody has asked meanwhile.
pub trait SharedChanges: Send {
    /// Waits for the next change. A call that is dropped loses nothing. An error is the end.
    fn next(&mut self) -> SharedAnswer<'_, ()>;
}

/// Which of the two things under a key is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The string that all hosts share.
    Shared,
    /// The strings of all hosts.
    ByHost,
}

/// How long a host has to stop what a choice has started: the ten seconds that a command has before it is killed, and some to
/// evaluate the program and to end the command.
pub const STOP_GRACE: Duration = Duration::from_secs(12);

/// What a host offers when it volunteers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// How to choose.
    pub strategy: Strategy,
    /// How many hosts to choose.
    pub max: u32,
    /// The offer stays when the host is gone.
    pub persist: bool,
    /// How long the offer stays when the host is gone, in seconds. Without this, a host that ends in order takes its offer
    /// back, and one that is gone without a word has it for a while.
    pub ttl: Option<u32>,
    /// How long the offer stays in the store after this host has ceased to take itself for chosen.
    #[serde(skip, default = "default_grace")]
    pub grace: Duration,
}

fn default_grace() -> Duration {
    STOP_GRACE
}

impl Default for Offer {
    fn default() -> Offer {
        Offer { strategy: Strategy::RoundRobin, max: 1, persist: false, ttl: None, grace: STOP_GRACE }
    }
}

/// How hosts are chosen among volunteers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Strategy {
    /// Whoever was chosen stays; others follow in the order in which they came.
    #[serde(rename = "rr")]
    RoundRobin,
    /// The first ones of the alphabet.
    #[serde(rename = "alpha")]
    Alphabetical,
}

impl Strategy {
    /// All of them, with the names that programs use.
    pub const ALL: [(&'static str, Strategy); 2] =
        [("rr", Strategy::RoundRobin), ("alpha", Strategy::Alphabetical)];

    /// The strategy of this name.
    pub fn named(name: &str) -> Option<Strategy> {
        Strategy::ALL.iter().find(|(known, _)| *known == name).map(|(_, strategy)| *strategy)
    }
}
