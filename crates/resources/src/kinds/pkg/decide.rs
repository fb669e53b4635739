//! What has to happen, from what is known of the packages.

use std::cmp::Ordering;

use mgmt_resource::{Error, Invalid, Result, did_you_mean};
use mgmt_value::Str;

use super::backend::{Available, Changes, Installed};
use super::{Names, Pkg};

/// What a valid `state` means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted<'a> {
    Installed,
    Uninstalled,
    Newest,
    /// Not there, and nothing left of its configuration.
    Purged,
    Version(&'a Str),
}

impl Wanted<'_> {
    pub(super) const INSTALLED: &'static str = "installed";
    pub(super) const UNINSTALLED: &'static str = "uninstalled";
    pub(super) const NEWEST: &'static str = "newest";
    pub(super) const PURGED: &'static str = "purged";

    pub(super) fn read(state: &Str) -> Result<Wanted<'_>, Invalid> {
        let expected = "expected `installed`, `newest`, `uninstalled`, `purged` or a version";
        match state.as_bytes() {
            b"installed" => return Ok(Wanted::Installed),
            b"uninstalled" => return Ok(Wanted::Uninstalled),
            b"newest" => return Ok(Wanted::Newest),
            b"purged" => return Ok(Wanted::Purged),
            b"" => return Err(Invalid::field("state", format!("is empty; {expected}"))),
            _ => {}
        }
        // Every distribution numbers its versions; a word without a number is a slip.
        let is_version = state.first().is_some_and(u8::is_ascii_alphanumeric)
            && state.iter().any(u8::is_ascii_digit)
            && state.iter().all(|byte| byte.is_ascii_alphanumeric() || b".+~:-_^".contains(byte));
        if is_version {
            return Ok(Wanted::Version(state));
        }
        let invalid = Invalid::field("state", format!("{expected}, found {state:?}"));
        let words = [Wanted::INSTALLED, Wanted::UNINSTALLED, Wanted::NEWEST, Wanted::PURGED];
        let meant = match state.as_bytes() {
            b"latest" | b"updated" | b"upgraded" => Some(Wanted::NEWEST),
            b"present" | b"exists" => Some(Wanted::INSTALLED),
            b"purge" => Some(Wanted::PURGED),
            b"absent" | b"removed" => Some(Wanted::UNINSTALLED),
            _ => did_you_mean(&state.to_text(), words.into_iter()),
        };
        Err(match meant {
            Some(meant) => invalid.with_hint(format!("did you mean `{meant}`?")),
            None => invalid,
        })
    }
}

/// One package of a group, and what is known of it.
#[derive(Debug)]
pub(super) struct Member<'a> {
    pub(super) name: &'a Str,
    pub(super) pkg: &'a Pkg,
    pub(super) wanted: Wanted<'a>,
    pub(super) installed: Option<Installed>,
    /// It is gone, and its configuration is still there.
    pub(super) leftovers: bool,
}

impl Member<'_> {
    /// The complete version that is installed.
    fn version(&self) -> Option<&Str> {
        self.installed.as_ref().filter(|installed| installed.complete).map(|installed| &installed.version)
    }

    /// Whether it is right, as far as that can be told without the package lists. `None`: they have to say.
    pub(super) fn is_right(&self) -> Option<bool> {
        match self.version_is_right() {
            Some(true) => Some(self.hold_is_right()),
            other => other,
        }
    }

    /// Whether it is on hold as it should be. What is not there cannot be.
    fn hold_is_right(&self) -> bool {
        let held = self.installed.as_ref().map(|installed| installed.held);
        self.pkg.hold.is_none_or(|hold| held.is_none_or(|held| held == hold))
    }

    fn version_is_right(&self) -> Option<bool> {
        match (self.wanted, self.version()) {
            (Wanted::Uninstalled, _) => Some(self.installed.is_none()),
            (Wanted::Purged, _) => Some(self.installed.is_none() && !self.leftovers),
            (Wanted::Installed, version) => Some(version.is_some()),
            (Wanted::Version(wanted), version) => Some(version == Some(wanted)),
            (Wanted::Newest, None) => Some(false),
            (Wanted::Newest, Some(_)) => None,
        }
    }

    /// Whether the package lists have to be asked before anything is done.
    pub(super) fn needs_lists(&self) -> bool {
        !matches!(self.wanted, Wanted::Uninstalled | Wanted::Purged) && self.version_is_right() != Some(true)
    }

    /// Whether the lists have what is wanted.
    pub(super) fn is_available(&self, available: Option<&Available>) -> bool {
        let Some(available) = available else { return false };
        match self.wanted {
            Wanted::Version(version) => available.versions.contains(version),
            // What is installed can stay, even if nobody offers it any more.
            Wanted::Newest | Wanted::Installed => available.candidate.is_some() || self.version().is_some(),
            Wanted::Uninstalled | Wanted::Purged => true,
        }
    }
}

/// What has to change. `available` are the answers for those members that [need lists](Member::needs_lists), in order.
pub(super) fn changes(
    members: &[Member<'_>],
    available: &[Option<Available>],
    compare: impl Fn(&Str, &Str) -> Ordering,
) -> Result<Changes> {
    let mut answers = available.iter();
    let mut changes = Changes::default();
    let mut missing = Vec::new();
    for member in members {
        let answer = if member.needs_lists() { answers.next().and_then(Option::as_ref) } else { None };
        if member.needs_lists() && !member.is_available(answer) {
            missing.push((member, answer));
            continue;
        }
        let is_right = member.version_is_right().unwrap_or_else(|| {
            let candidate = answer.and_then(|answer| answer.candidate.as_ref());
            match (candidate, member.version()) {
                (Some(candidate), Some(version)) => compare(version, candidate) != Ordering::Less,
                (candidate, _) => candidate.is_none(),
            }
        });
        let held = member.installed.as_ref().is_some_and(|installed| installed.held);
        let gone = matches!(member.wanted, Wanted::Uninstalled | Wanted::Purged);
        match member.pkg.hold {
            // It is released for the change.
            Some(_) if held && !is_right => changes.release.push(member.name.clone()),
            Some(false) if held => changes.release.push(member.name.clone()),
            _ => {}
        }
        if member.pkg.hold == Some(true) && !gone && (!held || !is_right) {
            changes.hold.push(member.name.clone());
        }
        if is_right {
            continue;
        }
        if member.pkg.hold.is_none() {
            refuse_held(member)?;
        }
        changes.allow_untrusted |= member.pkg.allowuntrusted;
        match member.wanted {
            Wanted::Uninstalled => changes.remove.push(member.name.clone()),
            Wanted::Purged => changes.purge.push(member.name.clone()),
            Wanted::Installed | Wanted::Newest => changes.install.push((member.name.clone(), None)),
            Wanted::Version(version) => {
                let newer = |found: &Installed| compare(&found.version, version) == Ordering::Greater;
                if let Some(found) = member.installed.as_ref().filter(|found| newer(found)) {
                    changes.allow_downgrade = true;
                    refuse_downgrade(member, found, version)?;
                }
                changes.install.push((member.name.clone(), Some(version.clone())));
            }
        }
    }
    if missing.is_empty() { Ok(changes) } else { Err(not_found(&missing)) }
}

fn refuse_held(member: &Member<'_>) -> Result<()> {
    match &member.installed {
        Some(installed) if installed.held => {
            Err(Error::new(format_args!("{} is on hold and must not be changed", member.name.display()))
                .with_hint(format_args!("release it with `apt-mark unhold {}`", member.name.display())))
        }
        _ => Ok(()),
    }
}

fn refuse_downgrade(member: &Member<'_>, found: &Installed, wanted: &Str) -> Result<()> {
    if member.pkg.allowdowngrade {
        return Ok(());
    }
    let (name, found, wanted) = (member.name.display(), found.version.display(), wanted.display());
    Err(Error::new(format_args!("{name} is installed in version {found}, which is newer than {wanted}"))
        .with_hint("set `allowdowngrade => true` to install the older one"))
}

fn not_found(missing: &[(&Member<'_>, Option<&Available>)]) -> Error {
    if let [(member, Some(available))] = missing
        && let Wanted::Version(wanted) = member.wanted
        && !available.versions.is_empty()
    {
        let (name, wanted, versions) = (member.name.display(), wanted.display(), Names(&available.versions));
        return Error::new(format_args!("{name} is not to be had in version {wanted}"))
            .with_hint(format_args!("the package lists have {versions}"));
    }
    let names: Vec<&Str> = missing.iter().map(|(member, _)| member.name).collect();
    Error::new(format_args!("not found in the package lists: {}", Names(&names)))
        .with_hint("check the spelling, and that a package source of this host has it")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn installed(version: &str) -> Option<Installed> {
        Some(Installed { version: version.into(), complete: true, held: false, section: Str::EMPTY })
    }

    fn available(versions: &[&str]) -> Option<Available> {
        let versions: Vec<Str> = versions.iter().map(|version| Str::from(*version)).collect();
        Some(Available { candidate: versions.first().cloned(), versions })
    }

    /// What happens to a package `a`, in short.
    fn told(pkg: &Pkg, found: Option<Installed>, offered: Option<Available>) -> String {
        let name = Str::from("a");
        let wanted = Wanted::read(&pkg.state).unwrap();
        let members = [Member { name: &name, pkg, wanted, installed: found, leftovers: false }];
        let offered = if members[0].needs_lists() { vec![offered] } else { vec![] };
        match changes(&members, &offered, |a, b| a.as_bytes().cmp(b.as_bytes())) {
            Err(error) => format!("{error} ({})", error.hint().unwrap_or_default()),
            Ok(changes) if changes.is_empty() => "right".into(),
            Ok(changes) => {
                let install = changes.install.iter().map(|(name, version)| match version {
                    Some(version) => format!("install {name:?}={version:?}"),
                    None => format!("install {name:?}"),
                });
                let remove = changes.remove.iter().map(|name| format!("remove {name:?}"));
                let purge = changes.purge.iter().map(|name| format!("purge {name:?}"));
                let hold = changes.hold.iter().map(|name| format!("hold {name:?}"));
                let release = changes.release.iter().map(|name| format!("release {name:?}"));
                release
                    .chain(install)
                    .chain(remove)
                    .chain(purge)
                    .chain(hold)
                    .collect::<Vec<_>>()
                    .join(" ")
                    .replace('"', "")
            }
        }
    }

    fn state(state: &str) -> Pkg {
        Pkg { state: state.into(), ..Pkg::default() }
    }

    #[test]
    fn each_state_asks_for_what_is_missing_and_for_nothing_else() {
        let lists = || available(&["2", "1"]);
        assert_eq!(told(&state("installed"), installed("1"), None), "right");
        assert_eq!(told(&state("installed"), None, lists()), "install a");
        assert_eq!(told(&state("uninstalled"), None, None), "right");
        assert_eq!(told(&state("uninstalled"), installed("1"), None), "remove a");
        assert_eq!(told(&state("purged"), None, None), "right");
        assert_eq!(told(&state("purged"), installed("1"), None), "purge a");
        assert_eq!(told(&state("newest"), installed("2"), lists()), "right");
        assert_eq!(told(&state("newest"), installed("3"), lists()), "right");
        assert_eq!(told(&state("newest"), installed("1"), lists()), "install a");
        assert_eq!(told(&state("newest"), None, lists()), "install a");
        assert_eq!(told(&state("newest"), installed("1"), Some(Available::default())), "right");
        assert_eq!(told(&state("1"), installed("1"), None), "right");
        assert_eq!(told(&state("2"), installed("1"), lists()), "install a=2");
        assert_eq!(told(&state("1"), None, lists()), "install a=1");
    }

    #[test]
    fn what_is_only_half_installed_is_neither_installed_nor_absent() {
        let half = || Some(Installed { complete: false, ..installed("2").unwrap() });
        for (wanted, expected) in [
            ("installed", "install a"),
            ("newest", "install a"),
            ("2", "install a=2"),
            ("uninstalled", "remove a"),
        ] {
            assert_eq!(told(&state(wanted), half(), available(&["2"])), expected, "{wanted}");
        }
    }

    #[test]
    fn an_older_version_needs_permission() {
        let lists = || available(&["2", "1"]);
        assert!(told(&state("1"), installed("2"), lists()).contains("allowdowngrade"));
        let allowed = Pkg { allowdowngrade: true, ..state("1") };
        assert_eq!(told(&allowed, installed("2"), lists()), "install a=1");
    }

    #[test]
    fn what_is_nowhere_to_be_had_is_an_error_with_a_hint() {
        assert!(told(&state("installed"), None, None).contains("not found in the package lists: a"));
        assert!(told(&state("newest"), None, Some(Available::default())).contains("not found"));
        let wrong = told(&state("7"), installed("1"), available(&["2", "1"]));
        assert_eq!(wrong, "a is not to be had in version 7 (the package lists have 2, 1)");
    }

    #[test]
    fn a_hold_is_set_and_released_and_does_not_keep_this_resource_from_its_work() {
        let held = || Some(Installed { held: true, ..installed("1").unwrap() });
        let with = |wanted: &str, hold| Pkg { hold: Some(hold), ..state(wanted) };
        let lists = || available(&["2", "1"]);
        assert_eq!(told(&with("installed", true), held(), None), "right");
        assert_eq!(told(&with("installed", true), installed("1"), None), "hold a");
        assert_eq!(told(&with("installed", false), held(), None), "release a");
        assert_eq!(told(&with("installed", true), None, lists()), "install a hold a");
        assert_eq!(told(&with("2", true), held(), lists()), "release a install a=2 hold a");
        assert_eq!(told(&with("uninstalled", true), held(), None), "release a remove a");
    }

    #[test]
    fn a_package_on_hold_is_left_alone_and_told_about() {
        let held = || Some(Installed { held: true, ..installed("1").unwrap() });
        assert_eq!(told(&state("installed"), held(), None), "right");
        for wanted in ["newest", "2", "uninstalled"] {
            assert!(
                told(&state(wanted), held(), available(&["2", "1"])).contains("apt-mark unhold a"),
                "{wanted}"
            );
        }
    }
}
