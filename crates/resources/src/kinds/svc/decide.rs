//! What has to happen to a unit, from plain facts.

use mgmt_resource::Invalid;
use mgmt_value::Str;

/// Whether it shall run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Running,
    Stopped,
}

/// Whether it shall be started when the host boots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Startup {
    Enabled,
    Disabled,
    /// Nobody can start it, not even by hand.
    Masked,
}

impl Startup {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Startup::Enabled => "enabled",
            Startup::Disabled => "disabled",
            Startup::Masked => "masked",
        }
    }
}

impl State {
    /// `None`: either way.
    pub(crate) fn read(word: &Str) -> Result<Option<State>, Invalid> {
        let meant = match word.as_bytes() {
            b"" => return Ok(None),
            b"running" => return Ok(Some(State::Running)),
            b"stopped" => return Ok(Some(State::Stopped)),
            b"started" | b"start" | b"active" | b"up" | b"exists" | b"run" => Some("running"),
            b"stop" | b"inactive" | b"dead" | b"down" | b"absent" => Some("stopped"),
            _ => None,
        };
        Err(refused("state", word, "`running` or `stopped`", meant))
    }
}

impl Startup {
    /// `None`: either way.
    pub(crate) fn read(word: &Str) -> Result<Option<Startup>, Invalid> {
        let meant = match word.as_bytes() {
            b"" => return Ok(None),
            b"enabled" => return Ok(Some(Startup::Enabled)),
            b"disabled" => return Ok(Some(Startup::Disabled)),
            b"masked" => return Ok(Some(Startup::Masked)),
            b"enable" | b"yes" | b"true" | b"on" | b"boot" | b"auto" => Some("enabled"),
            b"mask" => Some("masked"),
            b"disable" | b"no" | b"false" | b"off" | b"manual" => Some("disabled"),
            _ => None,
        };
        Err(refused("startup", word, "`enabled`, `disabled` or `masked`", meant))
    }
}

fn refused(field: &'static str, word: &Str, expected: &str, meant: Option<&str>) -> Invalid {
    let refused = Invalid::field(field, format!("expected {expected}, found {word:?}"));
    match meant {
        Some(meant) => refused.with_hint(format!("did you mean `{meant}`?")),
        None => refused.with_hint("leave it out to leave the service as it is"),
    }
}

/// What the service manager knows about a unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// `loaded`, `not-found`, `bad-setting`, `error`, `masked`.
    pub(crate) load: String,
    /// `active`, `reloading`, `inactive`, `failed`, `activating`, `deactivating`.
    pub(crate) active: String,
    /// `enabled`, `disabled`, `static`, and more; empty without a file.
    pub(crate) file: String,
    /// Its files have changed since they were read.
    pub(crate) is_stale: bool,
}

impl Facts {
    /// Whether it runs, or is on its way there.
    pub(crate) fn runs(&self) -> bool {
        !matches!(self.active.as_str(), "inactive" | "failed" | "maintenance" | "deactivating")
    }
}

/// What has to happen, in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) startup: Option<Startup>,
    pub(crate) job: Option<Job>,
}

/// Something that the service manager is asked to do with a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Job {
    Start,
    Stop,
    /// Reloads or restarts what runs.
    Refresh,
    /// Stops what runs, and starts it again.
    Restart,
}

impl Plan {
    pub(crate) fn is_empty(&self) -> bool {
        *self == Plan::default()
    }
}

/// Why what is wanted cannot be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Impossible {
    pub(crate) message: String,
    pub(crate) hint: String,
}

/// What has to happen so that a unit of which these are the facts is as wanted.
pub(crate) fn plan(
    unit: &str,
    facts: &Facts,
    state: Option<State>,
    startup: Option<Startup>,
    refresh: bool,
) -> Result<Plan, Impossible> {
    loadable(unit, facts, state, startup)?;
    let startup = match startup {
        Some(startup) => change_of_startup(unit, facts, startup)?,
        None => None,
    };
    let job = match (state, facts.active.as_str()) {
        (Some(State::Running), "active" | "reloading" | "refreshing") => None,
        (Some(State::Running), _) => Some(Job::Start),
        // A unit that is on its way up, or that waits to be restarted, has not stopped.
        (Some(State::Stopped), "inactive" | "failed" | "maintenance") => None,
        (Some(State::Stopped), _) => Some(Job::Stop),
        (None, _) => None,
    };
    let runs = !matches!(facts.active.as_str(), "inactive" | "failed" | "maintenance");
    let job = job.or((refresh && runs && state != Some(State::Stopped)).then_some(Job::Refresh));
    Ok(Plan { startup, job })
}

/// Whether there is a unit that can be as wanted.
fn loadable(
    unit: &str,
    facts: &Facts,
    state: Option<State>,
    startup: Option<Startup>,
) -> Result<(), Impossible> {
    let needs_one = state == Some(State::Running) || startup == Some(Startup::Enabled);
    if !needs_one {
        return Ok(());
    }
    let fail = |message: String, hint: &str| Err(Impossible { message, hint: hint.to_owned() });
    match facts.load.as_str() {
        "not-found" => fail(
            format!("there is no unit {unit}"),
            "install the package that brings it, or write its unit file with a `file` resource",
        ),
        "masked" => fail(
            format!("{unit} is masked, so that nobody can start or enable it"),
            &format!("unmask it: systemctl unmask {unit}"),
        ),
        "bad-setting" | "error" => fail(
            format!("systemd cannot use the unit file of {unit}"),
            &format!("look at what is wrong with it: systemctl status {unit}"),
        ),
        _ => Ok(()),
    }
}

fn change_of_startup(unit: &str, facts: &Facts, wanted: Startup) -> Result<Option<Startup>, Impossible> {
    let fail = |message: String, hint: &str| Err(Impossible { message, hint: hint.to_owned() });
    match (wanted, facts.file.as_str()) {
        (Startup::Enabled, "enabled" | "static" | "generated" | "alias" | "indirect") => Ok(None),
        (Startup::Enabled, "masked" | "masked-runtime") => fail(
            format!("{unit} is masked, so that nobody can start or enable it"),
            &format!("unmask it: systemctl unmask {unit}"),
        ),
        (Startup::Enabled, "transient" | "bad") => fail(
            format!("{unit} cannot be enabled: systemd calls its unit file `{}`", facts.file),
            "write a unit file with an [Install] section",
        ),
        // Also what is enabled only until the next boot, or linked from elsewhere, or not known yet.
        (Startup::Enabled, _) => Ok(Some(Startup::Enabled)),
        (Startup::Disabled, "enabled" | "enabled-runtime" | "alias") => Ok(Some(Startup::Disabled)),
        (Startup::Masked, "masked") => Ok(None),
        (Startup::Masked, _) => Ok(Some(Startup::Masked)),
        // Nothing starts it for itself; what is pulled in by others, and what is made at boot, has no switch.
        (Startup::Disabled, _) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(active: &str, file: &str) -> Facts {
        Facts { load: "loaded".into(), active: active.into(), file: file.into(), is_stale: false }
    }

    fn job(active: &str, state: Option<State>, refresh: bool) -> Option<Job> {
        plan("a.service", &facts(active, "enabled"), state, None, refresh).unwrap().job
    }

    #[test]
    fn running_is_active_and_stopped_is_at_rest() {
        let (running, stopped) = (Some(State::Running), Some(State::Stopped));
        for (active, start, stop) in [
            ("active", None, Some(Job::Stop)),
            ("reloading", None, Some(Job::Stop)),
            ("inactive", Some(Job::Start), None),
            ("failed", Some(Job::Start), None),
            ("activating", Some(Job::Start), Some(Job::Stop)),
            ("deactivating", Some(Job::Start), Some(Job::Stop)),
        ] {
            assert_eq!(job(active, running, false), start, "{active}");
            assert_eq!(job(active, stopped, false), stop, "{active}");
            assert_eq!(job(active, None, false), None, "{active}");
        }
    }

    #[test]
    fn a_refresh_reaches_only_what_runs_and_is_served_by_a_start() {
        assert_eq!(job("active", Some(State::Running), true), Some(Job::Refresh));
        assert_eq!(job("active", None, true), Some(Job::Refresh));
        assert_eq!(job("inactive", Some(State::Running), true), Some(Job::Start));
        assert_eq!(job("inactive", None, true), None);
        assert_eq!(job("failed", None, true), None);
        assert_eq!(job("active", Some(State::Stopped), true), Some(Job::Stop));
        assert_eq!(job("inactive", Some(State::Stopped), true), None);
    }

    #[test]
    fn every_state_of_a_unit_file_comes_to_rest() {
        let change =
            |file: &str, wanted| plan("a.service", &facts("active", file), None, Some(wanted), false);
        for right in ["enabled", "static", "generated", "indirect", "alias"] {
            assert!(change(right, Startup::Enabled).unwrap().is_empty(), "{right}");
        }
        for wrong in ["disabled", "enabled-runtime", "linked", ""] {
            assert_eq!(change(wrong, Startup::Enabled).unwrap().startup, Some(Startup::Enabled), "{wrong}");
        }
        assert!(change("masked", Startup::Enabled).unwrap_err().hint.contains("unmask"));
        for right in ["disabled", "static", "generated", "indirect", "masked", "linked", "transient", ""] {
            assert!(change(right, Startup::Disabled).unwrap().is_empty(), "{right}");
        }
        for wrong in ["enabled", "enabled-runtime"] {
            assert_eq!(change(wrong, Startup::Disabled).unwrap().startup, Some(Startup::Disabled), "{wrong}");
        }
    }

    #[test]
    fn whatever_is_not_masked_is_masked() {
        let change = |file: &str| {
            plan("a.service", &facts("active", file), None, Some(Startup::Masked), false).unwrap()
        };
        assert!(change("masked").is_empty());
        for wrong in ["enabled", "disabled", "static", "masked-runtime", ""] {
            assert_eq!(change(wrong).startup, Some(Startup::Masked), "{wrong}");
        }
    }

    #[test]
    fn a_missing_unit_is_stopped_and_disabled_and_can_be_nothing_else() {
        let missing = Facts { load: "not-found".into(), ..facts("inactive", "") };
        let plan = |state, startup| plan("a.service", &missing, state, startup, true);
        assert!(plan(Some(State::Stopped), Some(Startup::Disabled)).unwrap().is_empty());
        assert!(plan(None, None).unwrap().is_empty());
        assert!(plan(Some(State::Running), None).unwrap_err().message.contains("no unit a.service"));
        assert!(plan(None, Some(Startup::Enabled)).is_err());
    }
}
