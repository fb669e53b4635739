//! `svc`: services, and other units of systemd.
//!
//! [`Svc`] is the declaration. `decide` says what has to happen, from plain facts; `check` asks the service manager for
//! the facts and has it done; `manager` is that manager, as far as it is needed; `watch` hears of changes.
//!
//! Invariants
//! - Nothing is asked for repeatedly: a change of a unit, of its files, or of the manager itself is an event.
//! - Every call has a time limit. A job is awaited until it ends, as some services take long to start; whoever waits
//!   can be cancelled.
//! - A job is known by its path, so that somebody else's job for the same unit is never taken for ours.
//!
//! Deliberately absent: the session of another user than our own.

mod check;
pub(crate) mod decide;
mod last_start;
pub(crate) mod manager;
pub(crate) mod watch;

pub(crate) use check::describe;
pub use last_start::LastStart;

use std::time::Duration;

use mgmt_resource::{
    Checked, Context, Identity, Invalid, Kind, Nothing, Order, Resource, Result, Want, Watch,
};
use mgmt_value::Str;

use self::decide::{Startup, State};

/// Kinds of units that can be started, stopped and enabled. Slices and scopes come and go with what is in them, and
/// devices with the hardware.
const SUFFIXES: [&[u8]; 8] =
    [b".service", b".socket", b".timer", b".path", b".target", b".mount", b".automount", b".swap"];
/// Of all that systemd allows in names. The rest is used escaped.
const NAME_CHARACTERS: &[u8] = b":-_.\\@";
const LONGEST_NAME: usize = 255;
/// Where a unit can come from; systemd takes the first.
const SYSTEM_UNITS: [&str; 5] = [
    "/etc/systemd/system/",
    "/run/systemd/system/",
    "/usr/local/lib/systemd/system/",
    "/usr/lib/systemd/system/",
    "/lib/systemd/system/",
];
const SESSION_UNITS: [&str; 3] = ["/etc/systemd/user/", "/run/systemd/user/", "/usr/lib/systemd/user/"];

/// Starts, stops, enables or disables a service of systemd.
///
/// The name of the resource is the name of the service, without or with `.service`. Other units are managed under their
/// full names: `fstrim.timer`, `ssh.socket`, `getty@tty2.service`.
///
/// When a service is started or stopped by somebody else, dies, or is enabled or disabled, it is looked at again at once.
/// When its unit file has changed on disk, the service manager is made to read it again first.
///
/// If another resource notifies this one, the service is reloaded, or restarted if it cannot be reloaded; if it is not
/// running, it is left alone. A service that has to be started anyway is not reloaded on top.
///
/// A service that does not exist counts as stopped and as disabled.
///
/// A service comes after the `file` resource for its unit file, after those for its drop-ins, and after the installed
/// `pkg` that brings it.
///
/// ```mcl
/// svc "nginx" {
///     state => "running",
///     startup => "enabled",
/// }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Resource)]
#[resource(kind = "svc", edges, refresh)]
pub struct Svc {
    /// `running` or `stopped`. If it is left out, the service is neither started nor stopped.
    pub state: Str,
    /// `enabled`: started when the host boots. `disabled`: not. `masked`: nobody can start it, which only this implementation
    /// has; combine it with `stopped`. If it is left out, it stays as it is. Units that others
    /// pull in, or that are made when the host boots, count as enabled, and cannot be disabled.
    pub startup: Str,
    /// Use the service manager of the user that runs this program instead of the system's.
    pub session: bool,
    /// When another resource notifies this one, restart the service. Otherwise it is only reloaded if it can be. Only this
    /// implementation has it.
    pub restart: bool,
    /// Unmask a unit that is to run or to be enabled. Otherwise it is an error that it is masked. Only this implementation
    /// has it.
    pub unmask: bool,
    /// Take a unit that was started and ends soon by itself for right, with a warning, and start it again after so many seconds. 0: that it
    /// does not stay is an error, and it is started again at once. Only this implementation has it.
    pub restart_interval: u32,
}

impl Kind for Svc {
    type State = LastStart;
    type Sends = Nothing;

    fn validate(&self, name: &Str) -> Result<(), Invalid> {
        unit_name(name)?;
        State::read(&self.state)?;
        Startup::read(&self.startup)?;
        Ok(())
    }

    fn watches(&self, name: &Str) -> Vec<Watch> {
        match unit_name(name) {
            Ok(unit) => {
                // The manager does not look at its files by itself.
                let own = unit_directories(self.session).into_iter().next().unwrap_or_default();
                let file = |path: String, recursive| Watch::Path { path: path.into(), recursive };
                let mut watches = vec![
                    watch::unit(self.session, &unit),
                    file(format!("{own}{unit}"), false),
                    file(format!("{own}{unit}.d"), true),
                ];
                let interval = Duration::from_secs(self.restart_interval.into());
                watches.extend((self.restart_interval > 0).then_some(Watch::Interval(interval)));
                watches
            }
            // Such a name does not get past validation.
            Err(_) => Vec::new(),
        }
    }

    async fn check_apply(&self, last: &mut LastStart, cx: &mut Context<'_>) -> Result<Checked> {
        check::check(self, last, cx).await
    }

    fn provides(&self, name: &Str) -> Vec<Identity> {
        match unit_name(name) {
            Ok(unit) => vec![Identity::Unit { name: unit.into(), session: self.session }],
            Err(_) => Vec::new(),
        }
    }

    fn wants(&self, name: &Str) -> Vec<Want> {
        let Ok(unit) = unit_name(name) else { return Vec::new() };
        let directories = unit_directories(self.session);
        let files = |unit: &str| {
            let path = |directory: &String| Identity::Path(format!("{directory}{unit}").into());
            directories.iter().map(path).collect::<Vec<_>>()
        };
        let mut unit_files = files(&unit);
        // `getty@tty2.service` is made of `getty@.service`.
        if let Some((prefix, rest)) = unit.split_once('@')
            && let Some((_, suffix)) = rest.rsplit_once('.')
        {
            unit_files.extend(files(&format!("{prefix}@.{suffix}")));
        }
        let drop_ins =
            directories.iter().map(|directory| Want::Below(format!("{directory}{unit}.d/").into()));
        let cron = Identity::Cron { name: unit.clone().into(), session: self.session };
        let mut wants = vec![Want::First(Order::Before, unit_files), Want::First(Order::After, vec![cron])];
        wants.extend(drop_ins);
        wants
    }

    fn equivalent(&self, _: &Str, other: &Svc) -> bool {
        self == other
    }
}

/// Where unit files can be. The first is where people put theirs.
pub(crate) fn unit_directories(session: bool) -> Vec<String> {
    if !session {
        return SYSTEM_UNITS.map(str::to_owned).to_vec();
    }
    let home = std::env::var("HOME").ok().filter(|home| home.starts_with('/'));
    let own = home.map(|home| format!("{}/.config/systemd/user/", home.trim_end_matches('/')));
    own.into_iter().chain(SESSION_UNITS.map(str::to_owned)).collect()
}

/// The unit that a resource of this name means.
pub(crate) fn unit_name(name: &Str) -> Result<String, Invalid> {
    let wrong = |why: &str| {
        Invalid::new(format!("{name:?} is not the name of a service: {why}")).with_hint(
            "use a name like `cron`, `cron.service` or `getty@tty2.service`; systemd-escape makes names of paths",
        )
    };
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || NAME_CHARACTERS.contains(byte);
    let unit = match SUFFIXES.iter().any(|suffix| name.ends_with(suffix)) {
        true => name.to_text().into_owned(),
        false => format!("{}.service", name.to_text()),
    };
    // The dot of the suffix is always there.
    let stem = unit.rsplit_once('.').map_or("", |(stem, _)| stem);
    if stem.is_empty() {
        return Err(wrong("it is empty"));
    }
    if name.contains(&b'/') {
        return Err(wrong("it has a slash"));
    }
    if !name.iter().all(allowed) {
        return Err(wrong("expected letters, digits and `:`, `-`, `_`, `.`, `\\`, `@`"));
    }
    if stem.starts_with(['@', '.']) {
        return Err(wrong("it begins with a sign"));
    }
    if stem.ends_with('@') {
        return Err(wrong("it is a template, of which only instances can run"));
    }
    if [".slice", ".scope", ".device", ".snapshot"].iter().any(|suffix| name.ends_with(suffix.as_bytes())) {
        return Err(wrong("units of this type can be neither started nor enabled"));
    }
    if unit.len() > LONGEST_NAME {
        return Err(wrong("it is too long"));
    }
    Ok(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn svc(state: &str, startup: &str) -> Svc {
        Svc { state: state.into(), startup: startup.into(), ..Svc::default() }
    }

    #[test]
    fn a_name_without_a_type_is_that_of_a_service() {
        let unit = |name: &str| unit_name(&name.into()).unwrap();
        assert_eq!(unit("cron"), "cron.service");
        assert_eq!(unit("cron.service"), "cron.service");
        assert_eq!(unit("fstrim.timer"), "fstrim.timer");
        assert_eq!(unit("getty@tty2"), "getty@tty2.service");
        assert_eq!(unit("org.example.Thing"), "org.example.Thing.service");
        assert_eq!(unit(r"home-a\x2db.mount"), r"home-a\x2db.mount");
    }

    #[test]
    fn what_is_no_name_of_a_unit_is_refused() {
        let long = "a".repeat(255);
        for wrong in [
            "",
            ".service",
            "a b",
            "a/b",
            "../a",
            "é",
            "a\n",
            "a\0",
            "@a",
            "getty@",
            "user.slice",
            "x.scope",
            &long,
        ] {
            let refused = Kind::validate(&svc("", ""), &wrong.into()).unwrap_err();
            assert!(refused.message.contains("is not the name of a service"), "{wrong}: {refused}");
            assert!(Kind::watches(&svc("", ""), &wrong.into()).is_empty());
        }
        assert!(Kind::validate(&svc("", ""), &Str::new(b"\xff")).is_err());
    }

    #[test]
    fn states_and_startups_are_words_of_a_short_list() {
        for (state, startup) in [("", ""), ("running", "enabled"), ("stopped", "disabled")] {
            assert!(Kind::validate(&svc(state, startup), &"a".into()).is_ok());
        }
        let refused =
            |state: &str, startup: &str| Kind::validate(&svc(state, startup), &"a".into()).unwrap_err();
        assert_eq!(refused("started", "").field, Some("state"));
        assert!(refused("started", "").hint.unwrap().contains("`running`"));
        assert_eq!(refused("", "yes").field, Some("startup"));
        assert!(refused("", "disable").hint.unwrap().contains("`disabled`"));
    }

    #[test]
    fn a_service_comes_after_its_unit_file_and_drop_ins_and_before_its_timer() {
        let wants = Kind::wants(&svc("", ""), &"a@b".into());
        let path = |path: &str| Identity::Path(path.into());
        let Want::First(Order::Before, files) = &wants[0] else { panic!("{wants:?}") };
        for file in [
            "/etc/systemd/system/a@b.service",
            "/lib/systemd/system/a@b.service",
            "/etc/systemd/system/a@.service",
        ] {
            assert!(files.contains(&path(file)), "{file}");
        }
        assert!(
            files.iter().position(|file| *file == path("/etc/systemd/system/a@b.service"))
                < files.iter().position(|file| *file == path("/etc/systemd/system/a@.service"))
        );
        let cron = Identity::Cron { name: "a@b.service".into(), session: false };
        assert_eq!(wants[1], Want::First(Order::After, vec![cron]));
        assert!(wants.contains(&Want::Below("/etc/systemd/system/a@b.service.d/".into())));
    }

    #[test]
    fn services_of_the_session_are_others_than_those_of_the_system() {
        let session = Svc { session: true, ..svc("", "") };
        assert_ne!(Kind::provides(&session, &"a".into()), Kind::provides(&svc("", ""), &"a".into()));
        assert_eq!(
            Kind::provides(&session, &"a".into()),
            Kind::provides(&session, &"a.service".into()),
            "both spellings are one service"
        );
        let Want::First(Order::Before, files) = &Kind::wants(&session, &"a".into())[0] else { panic!() };
        assert_ne!(Kind::watches(&session, &"a".into()), Kind::watches(&svc("", ""), &"a".into()));
        assert!(files.contains(&Identity::Path("/etc/systemd/user/a.service".into())));
        assert!(!files.contains(&Identity::Path("/etc/systemd/system/a.service".into())));
    }
}
