//! Metaparameters: what holds for every kind.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, LazyLock};

use mgmt_resource_derive::Fields;
use mgmt_value::Str;

use crate::Window;
use crate::schema::Fields as _;
use crate::{Invalid, OnLeave};

/// What may be said about any resource, whatever its kind.
#[derive(Clone, Debug, PartialEq, Fields)]
#[fields(path = crate)]
pub struct Meta {
    /// Check only: report what would change and change nothing.
    pub noop: bool,
    /// The number of retries after a failure, `delay` apart, of the watch and of the check separately; -1 is for ever.
    /// When they are used up, time alone leads to no further attempt, but an event, another graph, a reload and `mgmt retry` each lead to one. If it is not
    /// declared, a failure is retried for ever with exponential backoff: after 1 s, 2 s, 4 s and so on up to 5 minutes, and at once
    /// when something changes that the resource watches or depends on.
    pub retry: Option<i16>,
    /// Give all retries that `retry` declares back after each success.
    pub retryreset: bool,
    /// The time between retries that `retry` declares, in milliseconds.
    pub delay: u64,
    /// How long one check and apply may take, in milliseconds; 0 is for ever.
    pub timeout: u64,
    /// Check every so many seconds instead of watching; negative: check once at the start and never again.
    pub poll: i32,
    /// How many events per second may lead to a check. A finite limit needs a `burst`.
    pub limit: f64,
    /// How many events may come at once before `limit` is felt.
    pub burst: i64,
    /// Give all retries that `retry` declares back when the resource is declared differently.
    pub reset: bool,
    /// Semaphores to hold during check and apply, each as `id` (one at a time) or `id:count`.
    pub sema: Vec<Str>,
    /// When another graph runs and the resource is failing, set its watch up anew and give all retries back.
    pub rewatch: bool,
    /// Succeed at least once before a later graph may remove or change the resource.
    pub realize: bool,
    /// Allow a name that starts with a dollar sign.
    pub dollar: bool,
    /// Be in the graph, to be exported or collected, but never run. Hidden resources may share a name.
    pub hidden: bool,
    /// The hosts that may collect the resource; `*` is every host.
    pub export: Vec<Str>,
    /// Undo the resource when it disappears from the graph.
    pub reverse: bool,
    /// Find the order relative to other resources automatically.
    pub autoedge: bool,
    /// Allow to be served together with similar resources.
    pub autogroup: bool,
    /// When the resource may be looked at and changed. Words that have all to be fulfilled: hours (`22:00-4:30`, of which one is
    /// enough, and which may go over midnight), days of the week on which they begin (`sat`), and how often: `hourly`, `daily`,
    /// `weekly`, `monthly` (`hourly/2` is twice an hour, and `calendar` beside it means in another hour, day, week or month
    /// than the last time) or `never`. At all other times the resource is left alone, and what comes after it does not wait.
    pub window: Vec<Str>,
    /// What becomes of a run that is under way when the resource leaves the graph: `cancel` stops it as `timeout` would, `finish` lets it
    /// finish. Unset, the kind decides: a command of `exec` and the copy of a `source` are cancelled, everything else finishes.
    /// What depends on `world.schedule` is cancelled in any case when its host is no longer chosen.
    pub onleave: Str,
}

/// The metaparameters of one resource. Most resources say nothing special and share one set; whoever changes something
/// gets a set of its own.
#[derive(Clone, PartialEq)]
pub struct SharedMeta(Arc<Meta>);

impl Default for SharedMeta {
    fn default() -> SharedMeta {
        static DEFAULT: LazyLock<Arc<Meta>> = LazyLock::new(Arc::default);
        SharedMeta(Arc::clone(&DEFAULT))
    }
}

impl From<Meta> for SharedMeta {
    fn from(meta: Meta) -> SharedMeta {
        let default = SharedMeta::default();
        if *default == meta { default } else { SharedMeta(Arc::new(meta)) }
    }
}

impl Deref for SharedMeta {
    type Target = Meta;
    fn deref(&self) -> &Meta {
        &self.0
    }
}

impl DerefMut for SharedMeta {
    fn deref_mut(&mut self) -> &mut Meta {
        Arc::make_mut(&mut self.0)
    }
}

impl fmt::Debug for SharedMeta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Default for Meta {
    fn default() -> Meta {
        Meta {
            noop: false,
            retry: None,
            retryreset: false,
            delay: 0,
            timeout: 0,
            poll: 0,
            limit: f64::INFINITY,
            burst: 0,
            reset: false,
            sema: Vec::new(),
            rewatch: false,
            realize: false,
            dollar: false,
            hidden: false,
            export: Vec::new(),
            reverse: false,
            autoedge: true,
            autogroup: true,
            window: Vec::new(),
            onleave: Str::default(),
        }
    }
}

impl Meta {
    /// Checks what the types cannot say.
    pub fn validate(&self) -> Result<(), Invalid> {
        if self.retry.is_some_and(|retry| retry < -1) {
            return Err(Invalid::field("retry", "the smallest value is -1, which tries for ever"));
        }
        if self.limit.is_nan() || self.limit < 0.0 {
            return Err(Invalid::field("limit", "expected a rate that is not negative"));
        }
        if self.limit.is_finite() && self.burst <= 0 {
            return Err(Invalid::field("burst", "a finite `limit` needs a `burst` of at least 1"));
        }
        if self.burst < 0 {
            return Err(Invalid::field("burst", "expected a number that is not negative"));
        }
        for id in &self.sema {
            if id.is_empty() {
                return Err(Invalid::field("sema", "a semaphore needs an id"));
            }
            if id.as_str().is_some_and(|id| id.parse::<i64>().is_ok()) {
                return Err(Invalid::field(
                    "sema",
                    format!(
                        "a bare number is not an id; write `some_id:{}` for a semaphore of that size",
                        id.display()
                    ),
                ));
            }
        }
        if self.export.iter().any(|host| host.is_empty()) {
            return Err(Invalid::field("export", "a host name can't be empty; `*` is every host"));
        }
        if !self.onleave.is_empty() && self.on_leave().is_none() {
            let message = format!("expected `cancel` or `finish`, found {:?}", self.onleave);
            return Err(Invalid::field("onleave", message));
        }
        Window::parse(&self.window)?;
        Ok(())
    }

    /// The declared rule for a run that is under way when the resource leaves the graph; without one, the kind's rule holds.
    pub fn on_leave(&self) -> Option<OnLeave> {
        match self.onleave.as_str()? {
            "cancel" => Some(OnLeave::Cancel),
            "finish" => Some(OnLeave::Finish),
            _ => None,
        }
    }

    /// Whether a running resource may go on unchanged when its declaration now says `other`.
    /// The order within `sema`, `export` and `window` does not matter.
    pub fn same_as(&self, other: &Meta) -> bool {
        if std::ptr::eq(self, other) {
            return true;
        }
        let sorted = |list: &[Str]| {
            let mut list = list.to_vec();
            list.sort();
            list.dedup();
            list
        };
        sorted(&self.sema) == sorted(&other.sema)
            && sorted(&self.export) == sorted(&other.export)
            && sorted(&self.window) == sorted(&other.window)
            && self.onleave == other.onleave
            && self.treatment() == other.treatment()
    }

    /// Whether a resource with these metaparameters and one with `other` can be served as one without either
    /// getting something it did not ask for. Semaphores are the exception: a group holds those of all members.
    /// When a resource with a `window` last ran is known of each alone.
    pub fn groups_with(&self, other: &Meta) -> bool {
        self.window.is_empty()
            && other.window.is_empty()
            && self.export == other.export
            && self.onleave == other.onleave
            && self.treatment() == other.treatment()
    }

    /// Everything but the lists and texts.
    fn treatment(&self) -> impl PartialEq + use<> {
        // Taken apart by name, so that a new metaparameter cannot be forgotten here.
        let Meta {
            noop,
            retry,
            retryreset,
            delay,
            timeout,
            poll,
            limit,
            burst,
            reset,
            sema: _,
            rewatch,
            realize,
            dollar,
            hidden,
            export: _,
            reverse,
            autoedge,
            autogroup,
            window: _,
            onleave: _,
        } = *self;
        let numbers = (retry, delay, timeout, poll, limit, burst);
        let switches =
            [noop, retryreset, reset, rewatch, realize, dollar, hidden, reverse, autoedge, autogroup];
        (numbers, switches)
    }

    /// The names of all metaparameters, in their order.
    pub fn names() -> impl Iterator<Item = &'static str> {
        Meta::FIELDS.iter().map(|field| field.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_twenty_in_the_documented_order() {
        let names: Vec<_> = Meta::names().collect();
        assert_eq!(
            names,
            [
                "noop",
                "retry",
                "retryreset",
                "delay",
                "timeout",
                "poll",
                "limit",
                "burst",
                "reset",
                "sema",
                "rewatch",
                "realize",
                "dollar",
                "hidden",
                "export",
                "reverse",
                "autoedge",
                "autogroup",
                "window",
                "onleave"
            ]
        );
    }

    #[test]
    fn a_finite_limit_needs_a_burst() {
        let meta = Meta { limit: 3.0, ..Meta::default() };
        assert!(meta.validate().is_err());
        assert!(Meta { burst: 1, ..meta }.validate().is_ok());
    }

    #[test]
    fn a_bare_number_is_no_semaphore() {
        for (id, good) in [("some_id", true), ("hello:42", true), (":13", true), ("13", false), ("", false)] {
            let meta = Meta { sema: vec![Str::from(id)], ..Meta::default() };
            assert_eq!(meta.validate().is_ok(), good, "{id}");
        }
    }

    #[test]
    fn retryreset_takes_part_in_comparison() {
        assert!(!Meta { retryreset: true, ..Meta::default() }.same_as(&Meta::default()));
        let a = Meta { sema: vec!["a".into(), "b".into()], ..Meta::default() };
        let b = Meta { sema: vec!["b".into(), "a".into()], ..Meta::default() };
        assert!(a.same_as(&b));
    }
}
