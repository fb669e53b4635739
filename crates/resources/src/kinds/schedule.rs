//! `schedule`: this host offers to do what only some hosts should do.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use mgmt_resource::{
    Cancel, Checked, Context, Error, Host, Invalid, Kind, Nothing, Offer, OnLeave, Resource, Result,
    ResultExt, SharedChanges, Strategy, Watch, WatchStream,
};
use mgmt_value::Str;

/// Volunteers this host for something that only some hosts should do.
///
/// Each host with such a resource offers itself under a name, and one of them, elected by all, chooses among the offers.
/// Whoever wants to know who was chosen asks the function `world.schedule`. A host that is gone is replaced as soon as its
/// offer has ended.
///
/// A host that cannot reach the store cannot know whether it is still chosen. `ttl` seconds after the store has last confirmed
/// its offer, `world.schedule` leaves it out, and what depends on that is cancelled, whatever its `onleave` is. Others are
/// chosen `grace` seconds later. With the strategy `rr`, the command of one host has thereby ended before that of another
/// starts, also when mgmt is stopped or killed: a watchdog ends the commands then. A watchdog that is killed together with mgmt
/// can do nothing, and a command that leaves its process group is not found.
///
/// ```mcl
/// import "world"
///
/// schedule "database" {
///     max => 1,
/// }
///
/// if $hostname in world.schedule("database") {
///     svc "postgresql" {
///         state => "running",
///     }
/// }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Resource)]
#[resource(kind = "schedule")]
pub struct Schedule {
    /// What the offer is for; the name if it is not given.
    pub namespace: Str,
    /// How to choose: `rr`, where whoever is chosen stays chosen and others follow in turn, or `alpha`, where the first of
    /// the alphabet are chosen. The default is `rr`. If hosts differ, the newest offer counts.
    pub strategy: Option<Str>,
    /// How many hosts to choose. The default is 1. If hosts differ, the newest offer counts.
    pub max: Option<i64>,
    /// The offer stays when this host is gone. It ends with `withdraw`.
    pub persist: bool,
    /// For how many seconds this host may take itself for chosen without word from the store. The default is 10. When it is gone
    /// without having withdrawn its offer, that ends after `ttl` and `grace`.
    pub ttl: Option<i64>,
    /// For how many seconds the offer stays after this host has ceased to take itself for chosen, so that what the choice has
    /// started can stop before another host is chosen. The default is 12: a command of `exec` is killed 10 s after it was asked to
    /// stop. Only this implementation has it.
    pub grace: Option<i64>,
    /// Take an offer back instead.
    pub withdraw: bool,
}

impl Schedule {
    fn namespace<'a>(&'a self, name: &'a Str) -> &'a Str {
        if self.namespace.is_empty() { name } else { &self.namespace }
    }

    fn offer(&self) -> Result<Offer, Invalid> {
        let mut offer = Offer { persist: self.persist, ..Offer::default() };
        if let Some(strategy) = &self.strategy {
            let known = || Strategy::ALL.map(|(name, _)| format!("`{name}`")).join(" or ");
            offer.strategy = strategy.as_str().and_then(Strategy::named).ok_or_else(|| {
                Invalid::field("strategy", format!("there is no strategy {strategy:?}; expected {}", known()))
            })?;
        }
        let positive = |field: &'static str, value: i64| {
            u32::try_from(value).map_err(|_| {
                Invalid::field(field, format!("expected a number from 0 to {}, found {value}", u32::MAX))
            })
        };
        // As elsewhere, 0 is the same as nothing.
        if let Some(max) = self.max.filter(|max| *max != 0) {
            offer.max = positive("max", max)?;
        }
        if let Some(ttl) = self.ttl.filter(|ttl| *ttl != 0) {
            offer.ttl = Some(positive("ttl", ttl)?);
        }
        if let Some(grace) = self.grace {
            offer.grace = Duration::from_secs(positive("grace", grace)?.into());
        }
        Ok(offer)
    }
}

impl Kind for Schedule {
    type State = ();
    type Sends = Nothing;

    fn validate(&self, name: &Str) -> Result<(), Invalid> {
        if self.namespace(name).is_empty() {
            return Err(Invalid::field("namespace", "is empty"));
        }
        self.offer()?;
        let has_ttl = self.ttl.is_some_and(|ttl| ttl > 0);
        if self.persist && self.grace.is_some() {
            return Err(Invalid::field("grace", "an offer that stays for ever has no grace")
                .with_hint("leave out `grace` or `persist`"));
        }
        if self.persist && has_ttl {
            return Err(Invalid::field("ttl", "an offer that stays for ever has no time to live")
                .with_hint("leave out `ttl` or `persist`"));
        }
        if self.withdraw
            && (self.strategy.is_some()
                || self.max.is_some()
                || self.persist
                || has_ttl
                || self.grace.is_some())
        {
            return Err(Invalid::field("withdraw", "an offer that is taken back has no other properties")
                .with_hint("leave out `strategy`, `max`, `persist`, `ttl` and `grace`"));
        }
        Ok(())
    }

    fn watches(&self, name: &Str) -> Vec<Watch> {
        let namespace = self.namespace(name).clone();
        let told = Str::from(format!("schedule {namespace:?}"));
        let start = move |host: &Host| {
            let followed =
                Followed { offers: host.shared.watch_own(), chosen: host.shared.watch_schedule(&namespace) };
            Ok(Box::new(followed) as Box<dyn WatchStream>)
        };
        vec![Watch::Stream { key: told, start: Arc::new(start) }]
    }

    async fn check_apply(&self, (): &mut (), cx: &mut Context<'_>) -> Result<Checked> {
        let namespace = self.namespace(&cx.id.name);
        let offer = self.offer().map_err(Error::new)?;
        let change = async {
            match self.withdraw {
                true => cx.host.shared.withdraw(namespace, cx.apply).await,
                false => cx.host.shared.volunteer(namespace, &offer, cx.apply).await,
            }
        };
        let changed = tokio::select! {
            changed = change => changed.context("cannot change the offer")?,
            () = cx.cancel.cancelled() => return Err(Error::Cancelled),
        };
        if changed && cx.apply {
            cx.info(if self.withdraw { "withdrawn" } else { "volunteered" });
        }
        Ok(if changed { Checked::Changed } else { Checked::Right })
    }

    /// A store that does not answer may take for ever.
    fn on_stop(&self) -> OnLeave {
        OnLeave::Cancel
    }

    fn equivalent(&self, name: &Str, other: &Schedule) -> bool {
        let spelled_out = |one: &Schedule| Schedule { namespace: one.namespace(name).clone(), ..one.clone() };
        self == other || spelled_out(self) == spelled_out(other)
    }
}

/// What becomes of the offer, and who is chosen.
struct Followed {
    offers: Box<dyn SharedChanges>,
    chosen: Box<dyn SharedChanges>,
}

impl WatchStream for Followed {
    fn next<'a>(&'a mut self, cancel: &'a Cancel) -> Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>> {
        Box::pin(async move {
            tokio::select! {
                changed = self.offers.next() => changed.context("cannot follow the offers any longer"),
                changed = self.chosen.next() => changed.context("cannot follow the choice any longer"),
                () = cancel.cancelled() => Err(Error::Cancelled),
            }
        })
    }
}
