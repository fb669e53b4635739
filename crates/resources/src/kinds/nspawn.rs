//! `nspawn`: containers of systemd.
//!
//! [`Nspawn`] is the declaration. `machined` is the service that knows all machines, as far as it is needed; `check` looks at a
//! machine and has it started or stopped by the service manager that `svc` talks to.
//!
//! Invariants
//! - A machine is what `systemd-machined` calls so, whoever has started it; so one that somebody runs by hand counts as running,
//!   and is stopped if it is to be.
//! - Nothing is asked for repeatedly: a machine that comes or goes is an event.
//!
//! Deliberately absent: making images, and settings of a machine, which are files that a `file` resource can write.

mod check;
mod machined;

use mgmt_resource::{
    Checked, Context, Identity, Invalid, Kind, Nothing, Order, Resource, Result, Want, Watch,
};
use mgmt_value::Str;

use crate::kinds::svc::decide::State;
use crate::kinds::svc::watch;

/// The longest name that systemd takes.
const LONGEST: usize = 64;
/// Where images are that somebody makes.
const IMAGES: &str = "/var/lib/machines/";

/// Runs a container of systemd, or keeps it from running.
///
/// The name of the resource is the name of the machine, which is also that of its image: mostly a directory below
/// `/var/lib/machines`. It is started and stopped as the service `systemd-nspawn@NAME.service`, so how it runs is told by the file
/// `/etc/systemd/nspawn/NAME.nspawn`. Whether it is started when the host boots is up to a `svc` of that name.
///
/// When the machine ends, is powered off, or is started by somebody else, it is looked at again at once. If another resource
/// notifies this one, a machine that runs is restarted: do this for its file of settings.
///
/// The machine comes after the `file` resources for its settings, for its image and for everything below, after drop-ins of its service,
/// and after the `pkg` that brings `systemd-nspawn`.
///
/// ```mcl
/// nspawn "build" {
///     state => "running",
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Resource)]
#[resource(kind = "nspawn", edges, refresh, receive)]
pub struct Nspawn {
    /// `running` or `stopped`.
    pub state: Str,
}

impl Default for Nspawn {
    fn default() -> Nspawn {
        Nspawn { state: "running".into() }
    }
}

impl Kind for Nspawn {
    type State = ();
    type Sends = Nothing;

    fn validate(&self, name: &Str) -> Result<(), Invalid> {
        check_name(name)?;
        self.wanted().map(|_| ())
    }

    fn watches(&self, name: &Str) -> Vec<Watch> {
        vec![machined::watch(name), watch::unit(false, &unit(name))]
    }

    async fn check_apply(&self, (): &mut (), cx: &mut Context<'_>) -> Result<Checked> {
        check::check(self, cx).await
    }

    fn provides(&self, name: &Str) -> Vec<Identity> {
        vec![Identity::Unit { name: unit(name).into(), session: false }]
    }

    fn wants(&self, name: &Str) -> Vec<Want> {
        let name = name.to_text();
        let path = |path: String| Identity::Path(path.into());
        let settings = ["/etc/systemd/nspawn/", "/run/systemd/nspawn/", IMAGES];
        let mut before: Vec<Identity> =
            settings.into_iter().map(|directory| path(format!("{directory}{name}.nspawn"))).collect();
        before.extend([
            path(format!("{IMAGES}{name}.raw")),
            Identity::PackageFile("/usr/bin/systemd-nspawn".into()),
            Identity::Package("systemd-container".into()),
        ]);
        vec![
            Want::Each(Order::Before, before),
            Want::Below(format!("{IMAGES}{name}/").into()),
            Want::Below(format!("/etc/systemd/system/systemd-nspawn@{name}.service.d/").into()),
            Want::ParentOf(format!("{IMAGES}{name}").into()),
        ]
    }
}

impl Nspawn {
    fn wanted(&self) -> Result<State, Invalid> {
        State::read(&self.state)?
            .ok_or_else(|| Invalid::field("state", "is empty; expected `running` or `stopped`"))
    }
}

/// The service that runs a machine.
fn unit(name: &Str) -> String {
    format!("systemd-nspawn@{}.service", name.to_text())
}

/// Machines are named as hosts are.
fn check_name(name: &Str) -> Result<(), Invalid> {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_".contains(byte);
    let is_label = |label: &[u8]| {
        !label.is_empty() && label.iter().all(is_plain) && !label.starts_with(b"-") && !label.ends_with(b"-")
    };
    match name.len() <= LONGEST && name.split(|byte| *byte == b'.').all(is_label) {
        true => Ok(()),
        false => Err(Invalid::new(format!("{name:?} is not the name of a machine")).with_hint(format!(
            "expected at most {LONGEST} letters, digits, `-` and `_`, with dots between the parts; machinectl list-images lists them"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_is_refused() {
        let nspawn = |state: &str| Nspawn { state: state.into() };
        for wrong in ["", "a b", "a/b", "..", ".host", "-a", "a-", "é", "a\n", &"a".repeat(65)] {
            let refused = Kind::validate(&nspawn("running"), &wrong.into()).unwrap_err();
            assert!(refused.message.contains("is not the name of a machine"), "{wrong}: {refused}");
        }
        for name in ["a", "web-1", "db.example.com", "7", &"a".repeat(64)] {
            assert!(Kind::validate(&nspawn("stopped"), &name.into()).is_ok(), "{name}");
        }
        for wrong in ["", "up", "exists"] {
            let refused = Kind::validate(&nspawn(wrong), &"a".into()).unwrap_err();
            assert_eq!(refused.field, Some("state"), "{wrong}");
        }
        assert_eq!(Nspawn::default(), nspawn("running"));
    }
}
