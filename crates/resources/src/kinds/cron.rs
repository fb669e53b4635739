//! `cron`: services that start at certain times.
//!
//! [`Cron`] is the declaration: a timer of systemd. `unit` writes its unit file, `check` keeps the file and the timer as
//! declared. The service manager is the one that `svc` talks to.
//!
//! Invariants
//! - A unit file that has changed is read by the service manager, and the timer starts anew, before it counts as right.
//! - What is to be gone is stopped and disabled before its file is removed, so nothing is left of it.
//! - Nothing that is declared can add lines to the unit file.

mod check;
mod unit;

use mgmt_resource::{
    Checked, Context, Identity, Invalid, Kind, Nothing, Order, Resource, Result, Want, Watch,
};
use mgmt_sys::ManagedPath;
use mgmt_value::Str;

use crate::kinds::svc::decide::Startup;
use crate::kinds::svc::{unit_directories, unit_name, watch};
use crate::support::presence::Presence;

/// What a timer may count from.
const TRIGGERS: [&str; 6] =
    ["OnCalendar", "OnActiveSec", "OnBootSec", "OnStartupSec", "OnUnitActiveSec", "OnUnitInactiveSec"];

/// Starts a service of systemd at certain times, by a timer.
///
/// The timer has the name of the resource, and is written to `/etc/systemd/system/NAME.timer`. The service that it starts must
/// be there: bring it with a `pkg`, or write its unit file with a `file`, which then comes first by itself, as does a `svc` for
/// it.
///
/// When somebody changes the file, or stops or disables the timer, it is put right at once. When what is declared changes, the
/// timer starts anew. If another resource notifies this one, the timer starts anew, too.
///
/// ```mcl
/// cron "backup" {
///     trigger => "OnCalendar",
///     time => "03:00",
///     persistent => true,
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Resource)]
#[resource(kind = "cron", edges, refresh, receive)]
pub struct Cron {
    /// The unit that is started. If it is left out, it is `NAME.service`.
    pub unit: Str,
    /// `exists`: the timer runs. `absent`: there is neither a timer nor its file.
    pub state: Str,
    /// `enabled`: the timer is started when the host boots. `disabled`: not. If it is empty, it stays as it is.
    pub startup: Str,
    /// Use the service manager of the user that runs this program instead of the system's. The file is in
    /// `~/.config/systemd/user/` then.
    pub session: bool,
    /// What `time` means: `OnCalendar` for times of the day and the week, `OnActiveSec`, `OnBootSec`, `OnStartupSec`,
    /// `OnUnitActiveSec` or `OnUnitInactiveSec` for a time span that begins when the timer starts, the host boots, the service
    /// manager starts, or the unit was last started or stopped.
    pub trigger: Str,
    /// When, in the words of systemd: `Mon..Fri 22:30`, `*:0/15`, `daily`, or a time span such as `1h 30min`.
    pub time: Str,
    /// How far the timer may be off, as a time span. If it is left out, systemd takes a minute.
    pub accuracysec: Str,
    /// A random delay up to this time span, so that not all hosts start at once.
    pub randomizeddelaysec: Str,
    /// With `OnCalendar`: if the host was off at the time, catch up when it is on again.
    pub persistent: bool,
    /// Wake the host up.
    pub wakesystem: bool,
    /// Keep the timer after it has elapsed for the last time. If this is false, a timer that has elapsed is at rest, and is not
    /// started again.
    pub remainafterelapse: bool,
    /// What is told about the timer. Unset, it says who made it; empty, nothing is told.
    pub description: Option<Str>,
}

impl Default for Cron {
    fn default() -> Cron {
        Cron {
            unit: Str::EMPTY,
            state: "exists".into(),
            startup: "enabled".into(),
            session: false,
            trigger: Str::EMPTY,
            time: Str::EMPTY,
            accuracysec: Str::EMPTY,
            randomizeddelaysec: Str::EMPTY,
            persistent: false,
            wakesystem: false,
            remainafterelapse: true,
            description: None,
        }
    }
}

/// What a `cron` remembers.
#[derive(Default)]
pub struct Remembered {
    /// The timer runs, or has run, as declared.
    started: bool,
}

impl Kind for Cron {
    type State = Remembered;
    type Sends = Nothing;

    fn validate(&self, name: &Str) -> Result<(), Invalid> {
        timer_name(name)?;
        let state = Presence::read(&self.state)?;
        Startup::read(&self.startup)?;
        self.started_unit(name).map_err(|invalid| Invalid { field: Some("unit"), ..invalid })?;
        self.file(name)?;
        let lines = [
            ("time", Some(&self.time)),
            ("accuracysec", Some(&self.accuracysec)),
            ("randomizeddelaysec", Some(&self.randomizeddelaysec)),
            ("description", self.description.as_ref()),
        ];
        for (field, text) in lines.into_iter().filter_map(|(field, text)| Some((field, text?))) {
            unit::check_text(field, text)?;
        }
        if state == Presence::Absent && self.trigger.is_empty() {
            return Ok(());
        }
        if !TRIGGERS.iter().any(|trigger| trigger.as_bytes() == self.trigger.as_bytes()) {
            let known = TRIGGERS.map(|trigger| format!("`{trigger}`")).join(", ");
            let found = match self.trigger.is_empty() {
                true => "is missing".to_owned(),
                false => format!("there is no trigger {:?}", self.trigger),
            };
            return Err(Invalid::field("trigger", format!("{found}; expected one of {known}")));
        }
        match self.time.trim_ascii().is_empty() {
            true => Err(Invalid::field("time", "is missing; expected a time such as `daily` or `1h 30min`")),
            false => Ok(()),
        }
    }

    fn watches(&self, name: &Str) -> Vec<Watch> {
        // Such names do not get past validation.
        let (Ok(timer), Ok(file)) = (timer_name(name), self.file(name)) else { return Vec::new() };
        let file = file.as_bytes();
        vec![
            watch::unit(self.session, &timer),
            Watch::Path { path: file.into(), recursive: false },
            Watch::Path { path: [file, b".d"].concat().into(), recursive: true },
        ]
    }

    async fn check_apply(&self, remembered: &mut Remembered, cx: &mut Context<'_>) -> Result<Checked> {
        check::check(self, &mut remembered.started, cx).await
    }

    fn provides(&self, name: &Str) -> Vec<Identity> {
        let (Ok(file), Ok(unit)) = (self.file(name), self.started_unit(name)) else { return Vec::new() };
        let cron = Identity::Cron { name: unit.into(), session: self.session };
        vec![cron, Identity::Path(file.as_bytes().into())]
    }

    fn wants(&self, name: &Str) -> Vec<Want> {
        let (Ok(file), Ok(unit)) = (self.file(name), self.started_unit(name)) else { return Vec::new() };
        let path = |directory: &String| Identity::Path(format!("{directory}{unit}").into());
        let units = unit_directories(self.session).iter().map(path).collect();
        vec![Want::First(Order::Before, units), Want::ParentOf(file.as_bytes().into())]
    }

    fn equivalent(&self, name: &Str, other: &Cron) -> bool {
        let plain =
            |cron: &Cron| Cron { unit: cron.started_unit(name).unwrap_or_default().into(), ..cron.clone() };
        self == other || plain(self) == plain(other)
    }
}

impl Cron {
    /// The unit that is started.
    fn started_unit(&self, name: &Str) -> Result<String, Invalid> {
        match self.unit.is_empty() {
            true => Ok(timer_name(name)?.replace(".timer", ".service")),
            false => unit_name(&self.unit),
        }
    }

    /// The unit file of the timer.
    fn file(&self, name: &Str) -> Result<ManagedPath, Invalid> {
        let timer = timer_name(name)?;
        let directory = unit_directories(self.session).into_iter().next().unwrap_or_default();
        if self.session && !directory.contains("/.config/") {
            return Err(Invalid::field(
                "session",
                "the environment does not tell the home directory of the user",
            )
            .with_hint("set HOME"));
        }
        let path = format!("{directory}{timer}");
        ManagedPath::new(path).map_err(|error| Invalid::new(error.to_string()))
    }
}

/// The timer that a resource of this name means.
fn timer_name(name: &Str) -> Result<String, Invalid> {
    let stem = name.strip_suffix(b".timer").unwrap_or(name);
    unit_name(&Str::from([stem, b".timer"].concat()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cron() -> Cron {
        Cron { trigger: "OnCalendar".into(), time: "daily".into(), ..Cron::default() }
    }

    fn refused(cron: &Cron, name: &str) -> Invalid {
        Kind::validate(cron, &name.into()).unwrap_err()
    }

    #[test]
    fn bad_parameters_are_refused() {
        assert!(Kind::validate(&cron(), &"backup".into()).is_ok());
        for name in ["", "a/b", "a b", "../a", ".timer", "a\n", "a@"] {
            assert!(refused(&cron(), name).message.contains("is not the name"), "{name:?}");
        }
        let field = |cron: Cron| refused(&cron, "backup").field;
        assert_eq!(field(Cron { state: "present".into(), ..cron() }), Some("state"));
        assert_eq!(field(Cron { startup: "yes".into(), ..cron() }), Some("startup"));
        assert_eq!(field(Cron { unit: "a b".into(), ..cron() }), Some("unit"));
        assert_eq!(field(Cron { trigger: Str::EMPTY, ..cron() }), Some("trigger"));
        assert_eq!(field(Cron { trigger: "oncalendar".into(), ..cron() }), Some("trigger"));
        assert_eq!(field(Cron { time: " ".into(), ..cron() }), Some("time"));
        assert_eq!(field(Cron { time: "daily\n[Service]".into(), ..cron() }), Some("time"));
        assert_eq!(field(Cron { accuracysec: "1s\\".into(), ..cron() }), Some("accuracysec"));
        assert_eq!(field(Cron { randomizeddelaysec: "1s\0".into(), ..cron() }), Some("randomizeddelaysec"));
        assert_eq!(field(Cron { description: Some("a\nb".into()), ..cron() }), Some("description"));
        let absent = Cron { state: "absent".into(), ..Cron::default() };
        assert!(Kind::validate(&absent, &"backup".into()).is_ok());
        assert_eq!(field(Cron { trigger: "OnBootSec".into(), ..absent }), Some("time"));
    }

    #[test]
    fn a_timer_comes_after_what_it_starts() {
        let wants = Kind::wants(&cron(), &"backup".into());
        let Want::First(Order::Before, units) = &wants[0] else { panic!("{wants:?}") };
        assert!(units.contains(&Identity::Path("/etc/systemd/system/backup.service".into())));
        let provides = Kind::provides(&Cron { unit: "other".into(), ..cron() }, &"backup".into());
        let cron = Identity::Cron { name: "other.service".into(), session: false };
        assert_eq!(provides, [cron, Identity::Path("/etc/systemd/system/backup.timer".into())]);
    }

    #[test]
    fn two_spellings_of_one_declaration_are_the_same() {
        let name = Str::from("backup");
        assert!(cron().equivalent(&name, &Cron { unit: "backup".into(), ..cron() }));
        assert!(cron().equivalent(&name, &Cron { unit: "backup.service".into(), ..cron() }));
        assert!(!cron().equivalent(&name, &Cron { session: true, ..cron() }));
        assert_eq!(timer_name(&"backup.timer".into()).unwrap(), timer_name(&name).unwrap());
    }
}
