//! Looks at a zone and makes it as declared.

use mgmt_resource::{Checked, Context, Effect, Error, Needed, Result};

use super::daemon::{Daemon, Found, Place, no_zone, not_running};
use super::ports::Ports;
use super::{Firewalld, Wanted};
use crate::kinds::svc::manager::Manager;
use crate::support::presence::Presence;

/// How often it is tried against somebody who is at work at the same time.
const ATTEMPTS: usize = 3;

pub(super) async fn check(
    firewalld: &Firewalld,
    has_run: &mut bool,
    cx: &mut Context<'_>,
) -> Result<Checked> {
    let wanted = firewalld.wanted().map_err(Error::new)?;
    if wanted.services.is_empty() && wanted.ports.is_empty() {
        return Ok(Checked::Right);
    }
    let daemon = Daemon::find();
    let cancel = cx.cancel;
    let zone = async {
        match daemon.is_running(*has_run || is_starting().await).await? {
            true => daemon.zone(&firewalld.zone.to_text()).await.map(Some),
            false => Ok(None),
        }
    };
    let zone = tokio::select! {
        zone = zone => zone?,
        () = cancel.cancelled() => return Err(Error::Cancelled),
    };
    let zone = match zone {
        Some(zone) => zone,
        // Another resource may be about to start it, and only a run that changes things can tell.
        None if cx.may_come(Needed::Other) => {
            wanted.describe("", None, cx);
            return Ok(Checked::Changed);
        }
        None => return Err(not_running()),
    };
    *has_run = true;
    let places = [Some(Place::Runtime), firewalld.permanent.then_some(Place::Permanent)];
    let mut checked = Checked::Right;
    for place in places.into_iter().flatten() {
        // A change that has begun comes to its end, unless we have to stop at any cost.
        checked = checked.and(tokio::select! {
            settled = wanted.settle(&daemon, place, &zone, cx) => settled?,
            () = cancel.interrupted() => return Err(Error::Cancelled),
        });
    }
    Ok(checked)
}

/// Whether systemd is about to start it, as it does when the host boots, or to restart it.
async fn is_starting() -> bool {
    let look = async { Manager::of(false)?.look("firewalld.service").await };
    look.await.is_ok_and(|seen| {
        matches!(seen.facts.active.as_str(), "activating" | "deactivating" | "reloading")
            || seen.job.is_some()
    })
}

impl Wanted {
    async fn settle(&self, daemon: &Daemon, place: Place, zone: &str, cx: &Context<'_>) -> Result<Checked> {
        let mut checked = Checked::Right;
        for _ in 0..ATTEMPTS {
            let Some(found) = daemon.found(place, zone).await? else {
                return match self.presence {
                    // Another resource may be about to make it, and only a run that changes things can tell.
                    Presence::Exists if cx.may_come(Needed::Other) => {
                        self.describe(zone, Some(place), cx);
                        Ok(Checked::Changed)
                    }
                    Presence::Exists => Err(no_zone(place, zone)),
                    // It lets nothing in.
                    Presence::Absent => Ok(checked),
                };
            };
            let (services, ports) = self.changes(&found);
            if services.is_empty() && ports.is_empty() {
                return Ok(checked);
            }
            checked = Checked::Changed;
            let named = services.iter().cloned().chain(ports.iter().map(ToString::to_string));
            named.for_each(|what| self.describe_one(&what, zone, Some(place), cx));
            if !cx.apply {
                return Ok(checked);
            }
            let lets_in = self.presence == Presence::Exists;
            let verb = if lets_in { "lets in" } else { "keeps out" };
            let when = if place == Place::Permanent { "from the next start" } else { "now" };
            for service in &services {
                cx.checkpoint()?;
                daemon.set_service(place, zone, service, lets_in).await?;
                cx.info(format_args!("the zone {zone} {verb} the service {service} {when}"));
            }
            for ports in ports {
                cx.checkpoint()?;
                daemon.set_ports(place, zone, ports, lets_in).await?;
                cx.info(format_args!("the zone {zone} {verb} {ports} {when}"));
            }
        }
        Err(Error::new(format_args!(
            "the zone {zone} was changed {ATTEMPTS} times, and is still not as declared"
        ))
        .with_hint("somebody else may want something else; two resources or programs may be at odds"))
    }

    /// Only looking: all of it, where there is no zone yet.
    fn describe(&self, zone: &str, place: Option<Place>, cx: &Context<'_>) {
        let all = self.services.iter().cloned().chain(self.ports.iter().map(ToString::to_string));
        all.for_each(|what| self.describe_one(&what, zone, place, cx));
    }

    fn describe_one(&self, what: &str, zone: &str, place: Option<Place>, cx: &Context<'_>) {
        let effect = match self.presence {
            Presence::Exists => Effect::create(what),
            Presence::Absent => Effect::remove(what),
        };
        let when = if place == Some(Place::Permanent) { "from the next start" } else { "now" };
        cx.describe(effect.aspect(format!("in the zone {zone}")).after(when).presumed());
    }

    /// What has to be let in, or kept out. A range of which a part is missing is let in as a whole: firewalld makes one of
    /// two that overlap, but not of two that touch.
    fn changes(&self, found: &Found) -> (Vec<String>, Vec<Ports>) {
        let (services, parts) = self.differences(found);
        if self.presence == Presence::Absent {
            return (services, parts);
        }
        let is_missing = |ports: &&Ports| !ports.without(&found.ports).is_empty();
        (services, self.ports.iter().filter(is_missing).copied().collect())
    }

    /// What is not as declared, exactly.
    pub(super) fn differences(&self, found: &Found) -> (Vec<String>, Vec<Ports>) {
        let lets_in = self.presence == Presence::Exists;
        let services = self.services.iter().filter(|service| found.services.contains(service) != lets_in);
        let ports = self.ports.iter().flat_map(|ports| match lets_in {
            true => ports.without(&found.ports),
            false => ports.within(&found.ports),
        });
        (services.cloned().collect(), ports.collect())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn only_what_is_not_as_declared_is_changed() {
        let ports = |texts: &[&str]| -> BTreeSet<Ports> {
            texts.iter().map(|text| Ports::read(&(*text).into()).unwrap()).collect()
        };
        let mut wanted = Wanted {
            presence: Presence::Exists,
            services: BTreeSet::from(["ssh".to_owned(), "http".to_owned()]),
            ports: ports(&["80/tcp", "100-110/tcp"]),
        };
        let found = Found {
            services: vec!["ssh".into(), "dhcpv6-client".into()],
            ports: ports(&["70-90/tcp", "105/tcp"]).into_iter().collect(),
        };
        let told = |wanted: &Wanted| {
            let (services, ports) = wanted.differences(&found);
            (services, ports.iter().map(Ports::to_string).collect::<Vec<_>>())
        };
        assert_eq!(told(&wanted), (vec!["http".into()], vec!["100-104/tcp".into(), "106-110/tcp".into()]));
        assert_eq!(wanted.changes(&found).1, Vec::from_iter(ports(&["100-110/tcp"])));
        wanted.presence = Presence::Absent;
        assert_eq!(told(&wanted), (vec!["ssh".into()], vec!["80/tcp".into(), "105/tcp".into()]));
    }
}
