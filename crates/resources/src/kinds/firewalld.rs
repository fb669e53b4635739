//! `firewalld`: what a zone of the firewall lets in.
//!
//! [`Firewalld`] is the declaration. `ports` reads ports and compares ranges of them, `daemon` is firewalld, as far as it is
//! needed, `check` looks at a zone and changes it, `watch` hears of changes.
//!
//! Invariants
//! - Only what is declared is added or removed; everything else in a zone stays.
//! - Nothing is asked for repeatedly: firewalld tells of every change, of its start, and of having read its files again.
//! - What was changed is looked at again before it counts as right.

mod check;
mod daemon;
mod ports;
mod watch;

use std::collections::BTreeSet;

use mgmt_resource::{
    Checked, Context, Error, Identity, Invalid, Kind, Nothing, Order, Resource, Result, Want, Watch,
};
use mgmt_value::Str;

use self::daemon::Place;
use self::ports::Ports;
use crate::support::account::lookup_now;
use crate::support::presence::Presence;

/// Where people put their own zones and services.
const DIRECTORY: &str = "/etc/firewalld/";

/// Lets services and ports through the firewall of a host that runs firewalld, or keeps them out.
///
/// What is declared holds now and, unless `permanent` is false, also after firewalld has read its files again and after the
/// next boot. Whatever else a zone lets in stays as it is. The name of the resource is free.
///
/// When somebody adds or removes one of the services or ports, with `firewall-cmd` or in a file, when firewalld reads its files
/// again, when it restarts and when it gets another default zone, it is put right at once. While firewalld is stopped nothing
/// happens; the kind `svc` keeps it running.
///
/// The resource comes after the `pkg` and the `svc` of firewalld, and after the `file` resources for its zone and its services.
///
/// With `meta: {reverse: true}` what was not let in before is kept out again when the resource is no longer declared, and what
/// was let in before is let in again.
///
/// ```mcl
/// firewalld "the web server" {
///     zone => "public",
///     services => ["http", "https"],
///     ports => ["8080/tcp"],
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Resource)]
#[resource(kind = "firewalld", edges, receive, reverse)]
pub struct Firewalld {
    /// The zone. If it is left out, it is the zone that firewalld uses by default at the time.
    pub zone: Str,
    /// `exists`: the services and ports are let in. `absent`: they are not. Empty means `exists`.
    pub state: Str,
    /// Services that firewalld knows by name, such as `ssh`; `firewall-cmd --get-services` lists them.
    pub services: Vec<Str>,
    /// Ports with their protocol, such as `80/tcp`, and ranges of ports, such as `6000-6063/tcp`. Protocols are `tcp`, `udp`, `sctp` and
    /// `dccp`. A port counts as let in if a range that contains it is; if it is to be absent, the range loses it.
    pub ports: Vec<Str>,
    /// Also change what firewalld has in its files, so that it holds after the next boot. If this is false, only what holds now
    /// is changed, and again whenever firewalld has forgotten it.
    pub permanent: bool,
}

impl Default for Firewalld {
    fn default() -> Firewalld {
        Firewalld {
            zone: Str::EMPTY,
            state: "exists".into(),
            services: Vec::new(),
            ports: Vec::new(),
            permanent: true,
        }
    }
}

/// What a `firewalld` remembers.
#[derive(Default)]
pub struct Remembered {
    /// firewalld has answered before, so that it may just be restarting.
    has_run: bool,
}

/// What is declared, as it is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Wanted {
    presence: Presence,
    services: BTreeSet<String>,
    ports: BTreeSet<Ports>,
}

impl Kind for Firewalld {
    type State = Remembered;
    type Sends = Nothing;

    fn validate(&self, _: &Str) -> Result<(), Invalid> {
        if !self.zone.is_empty() && !is_name(&self.zone, b"_-./") {
            return Err(Invalid::field("zone", format!("{:?} is not the name of a zone", self.zone))
                .with_hint("firewall-cmd --get-zones lists them"));
        }
        self.wanted().map(|_| ())
    }

    fn watches(&self, _: &Str) -> Vec<Watch> {
        vec![watch::daemon()]
    }

    async fn check_apply(&self, remembered: &mut Remembered, cx: &mut Context<'_>) -> Result<Checked> {
        check::check(self, &mut remembered.has_run, cx).await
    }

    fn wants(&self, _: &Str) -> Vec<Want> {
        let path = |path: String| Identity::Path(path.into());
        let mut before = vec![
            Identity::Unit { name: "firewalld.service".into(), session: false },
            Identity::Package("firewalld".into()),
            path(format!("{DIRECTORY}firewalld.conf")),
        ];
        if !self.zone.is_empty() {
            before.push(path(format!("{DIRECTORY}zones/{}.xml", self.zone.to_text())));
        }
        let service = |service: &Str| path(format!("{DIRECTORY}services/{}.xml", service.to_text()));
        before.extend(self.services.iter().map(service));
        vec![Want::Each(Order::Before, before)]
    }

    /// The opposite for whatever is not as declared now.
    fn reversed(&self, _: &Str) -> Result<Option<Firewalld>> {
        let wanted = self.wanted().map_err(Error::new)?;
        let zone = self.zone.to_text().into_owned();
        let look = async move {
            let daemon = daemon::Daemon::find();
            if !daemon.is_running(false).await? {
                return Err(daemon::not_running());
            }
            let zone = daemon.zone(&zone).await?;
            let found = daemon.found(Place::Runtime, &zone).await?;
            Ok((zone, found))
        };
        // Whoever asks cannot wait for an answer in a runtime of its own.
        let thread = std::thread::spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.map_err(Error::new)?.block_on(look)
        });
        let looked =
            lookup_now(|| thread.join().unwrap_or_else(|_| Err(Error::new("cannot look at the firewall"))));
        let (zone, Some(found)) = looked? else { return Ok(None) };
        let (services, ports) = wanted.differences(&found);
        if services.is_empty() && ports.is_empty() {
            return Ok(None);
        }
        let opposite = match wanted.presence {
            Presence::Exists => "absent",
            Presence::Absent => "exists",
        };
        Ok(Some(Firewalld {
            zone: zone.into(),
            state: opposite.into(),
            services: services.into_iter().map(Str::from).collect(),
            ports: ports.into_iter().map(|ports| Str::from(ports.to_string())).collect(),
            permanent: self.permanent,
        }))
    }

    fn equivalent(&self, _: &Str, other: &Firewalld) -> bool {
        self == other
            || ((&self.zone, self.permanent) == (&other.zone, other.permanent)
                && self.wanted() == other.wanted())
    }
}

impl Firewalld {
    fn wanted(&self) -> Result<Wanted, Invalid> {
        let presence = match self.state.is_empty() {
            true => Presence::Exists,
            false => Presence::read(&self.state)?,
        };
        let service = |service: &Str| match is_name(service, b"_-.") {
            true => Ok(service.to_text().into_owned()),
            false => Err(Invalid::field("services", format!("{service:?} is not the name of a service"))
                .with_hint("firewall-cmd --get-services lists them; what has a number goes to `ports`")),
        };
        let services = self.services.iter().map(service).collect::<Result<_, _>>()?;
        let ports = |text: &Str| Ports::read(text).map_err(|why| Invalid::field("ports", why));
        let ports = self.ports.iter().map(ports).collect::<Result<_, _>>()?;
        Ok(Wanted { presence, services, ports })
    }
}

fn is_name(name: &Str, signs: &[u8]) -> bool {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || signs.contains(byte);
    !name.is_empty() && name.iter().all(is_plain) && name.iter().any(u8::is_ascii_alphanumeric)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn firewalld(services: &[&str], ports: &[&str]) -> Firewalld {
        let texts = |texts: &[&str]| texts.iter().map(|text| Str::from(*text)).collect();
        Firewalld { services: texts(services), ports: texts(ports), ..Firewalld::default() }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let field = |firewalld: Firewalld| Kind::validate(&firewalld, &"web".into()).unwrap_err().field;
        for wrong in ["", "a b", "80/tcp", "..", "é"] {
            assert_eq!(field(firewalld(&[wrong], &[])), Some("services"), "{wrong}");
        }
        for wrong in [
            "",
            "80",
            "tcp",
            "80/",
            "0/tcp",
            "-1/tcp",
            "65536/tcp",
            "80/tcp/udp",
            "90-80/tcp",
            "http/tcp",
            "80/icmp",
        ] {
            assert_eq!(field(firewalld(&[], &[wrong])), Some("ports"), "{wrong}");
        }
        assert_eq!(field(Firewalld { state: "present".into(), ..Firewalld::default() }), Some("state"));
        assert_eq!(field(Firewalld { zone: "a\nb".into(), ..Firewalld::default() }), Some("zone"));
        let fine =
            Firewalld { zone: "dmz".into(), ..firewalld(&["ssh", "kube-api"], &["80/tcp", "6000-6063/udp"]) };
        assert!(Kind::validate(&fine, &"web".into()).is_ok());
    }

    #[test]
    fn the_same_things_in_another_order_or_spelling_are_the_same_declaration() {
        let name = Str::from("web");
        let one = firewalld(&["ssh", "http"], &["80/tcp", "81/udp"]);
        let other =
            Firewalld { state: Str::EMPTY, ..firewalld(&["http", "ssh", "ssh"], &["81-81/udp", "80/TCP"]) };
        assert!(one.equivalent(&name, &other));
        assert!(!one.equivalent(&name, &Firewalld { zone: "dmz".into(), ..one.clone() }));
        assert!(!one.equivalent(&name, &Firewalld { permanent: false, ..one.clone() }));
        assert!(!one.equivalent(&name, &Firewalld { state: "absent".into(), ..one.clone() }));
        assert!(!one.equivalent(&name, &firewalld(&["ssh"], &["80/tcp", "81/udp"])));
    }
}
