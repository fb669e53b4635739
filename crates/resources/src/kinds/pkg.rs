//! `pkg`: packages of the distribution.
//!
//! [`Pkg`] is the declaration. `decide` says what has to happen, from plain facts, and `check` asks for the facts and has
//! it done; both speak to a `backend`. There are two, `apt` and `packagekit`, and `choose` says which of them does what
//! where both are there. `edges` says what of a package others may wait for.
//!
//! Invariants
//! - A check that finds everything right reads the package database and starts no program, except for `newest`, which
//!   asks once per change of the package lists.
//! - A whole group is one transaction. In this process there is never more than one.
//! - Nobody is waited for without end: not for a lock, not for a daemon that is silent, stands still or has died.
//! - Nothing is handed to the package tools that is not known to be the name of a package, as their names and patterns
//!   can mean other things.
//! - After a transaction the database is read again; tools that only say that they succeeded are not believed.
//!
//! Deliberately absent: package sources and their keys, which are files; pins, which are respected, as are holds unless `hold`
//! is set.

mod apt;
mod backend;
mod check;
mod choose;
mod decide;
mod edges;
mod packagekit;

use std::fmt;

use mgmt_resource::{Checked, Context, Identity, Invalid, Kind, Nothing, Resource, Result, Want, Watch};
use mgmt_value::Str;

use self::decide::Wanted;

/// Installs, updates or removes a package of the distribution.
///
/// The name of the resource is the name of the package, for another architecture than the host's own with that
/// architecture after a colon: `libc6:i386`.
///
/// Packages that are in the same state and stand in no order to each other are installed together, in one transaction.
/// Whenever somebody changes packages with other tools, they are looked at again at once; while such a tool is at
/// work, this resource waits for it.
///
/// Changed configuration files are kept. Package lists are fetched when a package is not in them, and for `newest` when
/// they are older than an hour; nothing is fetched when only looking. Removing a package removes those that need it, and
/// leaves its configuration files.
///
/// PackageKit does the work where it runs or can be started; which way is taken, and why, is in the log. On Debian and its
/// relatives the databases of `dpkg` and `apt` say what is there and what can be had, and `apt` itself does the work
/// where PackageKit is not, and what PackageKit would not do right: when it believes to be offline, which it does
/// without a default route even if all package sources are files; when something is half installed; for packages of
/// another architecture; for lists that nobody has signed; and behind a proxy that the environment names. Elsewhere
/// PackageKit does all of it, and only knows the newest version and the installed one.
///
/// `apt` is told not to install recommended packages along. PackageKit cannot be told: there the settings of the host
/// decide, which on Debian install them unless `APT::Install-Recommends` is set to `false`.
///
/// An installed package comes before every `file` and `svc` resource for something that it brings, and before every
/// `exec` that runs one of its programs. What a package brings is only known once it is installed, so the first
/// installation needs an edge of your own.
///
/// The same package may be declared twice, as `installed` and as `newest`; it is then the newest.
///
/// ```mcl
/// pkg ["nginx", "curl"] {
///     state => "installed",
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Resource)]
#[resource(kind = "pkg", edges, group, batch)]
pub struct Pkg {
    /// `installed`: in any version. `newest`: in the newest version that the package lists have, and again whenever
    /// they have a newer one. `uninstalled`: not at all. `purged`: not at all, and its configuration neither, which only
    /// this implementation has. Anything else is the exact version, `1.2.3-4` for example.
    pub state: Str,
    /// With a version: install it also if a newer one is there.
    pub allowdowngrade: bool,
    /// Install packages also if nobody has signed them.
    pub allowuntrusted: bool,
    /// Don't warn about packages that are not free software. Which ones can be installed is up to the package sources
    /// of the host.
    pub allownonfree: bool,
    /// Don't warn about packages that the distribution does not support. Which ones can be installed is up to the
    /// package sources of the host.
    pub allowunsupported: bool,
    /// Whether the package is on hold, so that nobody updates or removes it by accident: this resource still brings it to
    /// its state. If it is left out, a package that is on hold is left alone. Needs `apt`. Only this implementation has it.
    pub hold: Option<bool>,
}

impl Default for Pkg {
    fn default() -> Pkg {
        Pkg {
            state: Wanted::INSTALLED.into(),
            allowdowngrade: false,
            allowuntrusted: false,
            allownonfree: false,
            allowunsupported: false,
            hold: None,
        }
    }
}

impl Kind for Pkg {
    type State = ();
    type Sends = Nothing;

    fn validate(&self, name: &Str) -> Result<(), Invalid> {
        if !is_name(name) {
            return Err(Invalid::new(format!("{name:?} is not the name of a package"))
                .with_hint("a name has letters, digits, and `+`, `-`, `.` or `_` inside, and no blanks"));
        }
        Wanted::read(&self.state).map(|_| ())
    }

    fn watches(&self, _: &Str) -> Vec<Watch> {
        match backend::find() {
            Ok(backend) => backend.watches(self.state.as_bytes() == Wanted::NEWEST.as_bytes()),
            // The check says what is wrong.
            Err(_) => Vec::new(),
        }
    }

    async fn check_apply(&self, (): &mut (), cx: &mut Context<'_>) -> Result<Checked> {
        check::check(self, cx).await
    }

    fn provides(&self, name: &Str) -> Vec<Identity> {
        edges::provides(name)
    }

    fn wants(&self, name: &Str) -> Vec<Want> {
        edges::wants(name)
    }

    fn groups_with(&self, other: &dyn Resource) -> bool {
        let Some(other) = other.as_any().downcast_ref::<Pkg>() else { return false };
        self == other && !matches!(Wanted::read(&self.state), Ok(Wanted::Version(_)) | Err(_))
    }

    fn merged(&self, _: &Str, other: &Pkg) -> Option<Pkg> {
        let state = match (Wanted::read(&self.state).ok()?, Wanted::read(&other.state).ok()?) {
            (Wanted::Installed, Wanted::Newest) => &other.state,
            (Wanted::Newest, Wanted::Installed) => &self.state,
            _ if self.state == other.state => &self.state,
            _ => return None,
        };
        let merged = Pkg { state: state.clone(), ..self.clone() };
        (merged == Pkg { state: state.clone(), ..other.clone() }).then_some(merged)
    }
}

/// Whether it can be the name of a package, and means nothing else to a tool that takes it as an argument.
fn is_name(name: &[u8]) -> bool {
    let mut parts = name.splitn(2, |byte| *byte == b':');
    let (name, architecture) = (parts.next().unwrap_or_default(), parts.next());
    let plain = |byte: &u8| byte.is_ascii_alphanumeric();
    name.first().is_some_and(plain)
        && name.len() < 256
        && name.iter().all(|byte| plain(byte) || b"+-._".contains(byte))
        && architecture.is_none_or(|architecture| {
            architecture.first().is_some_and(plain)
                && architecture.len() < 64
                && architecture.iter().all(|byte| plain(byte) || *byte == b'-')
        })
}

/// Names one after the other, for people.
struct Names<'a, T>(&'a [T]);

impl<T: AsRef<[u8]>> fmt::Display for Names<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, name) in self.0.iter().enumerate() {
            let between = if number == 0 { "" } else { ", " };
            write!(f, "{between}{}", Str::new(name).display())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pkg(state: &str) -> Pkg {
        Pkg { state: state.into(), ..Pkg::default() }
    }

    #[test]
    fn what_tools_could_take_for_something_else_is_no_name() {
        for fine in ["a", "g++", "libc6:i386", "libstdc++6", "python3.11", "7zip", "Perl_X", "x:linux-any"] {
            assert!(Kind::validate(&pkg("installed"), &fine.into()).is_ok(), "{fine}");
        }
        for wrong in
            ["", "-y", "--purge", "a b", "./a.deb", "a=1", "a/sid", "~nfoo", "a*", "a:", ":i386", "a\n", "é"]
        {
            assert!(Kind::validate(&pkg("installed"), &wrong.into()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_word_that_is_no_state_is_refused_with_the_one_that_was_meant() {
        let refused = |state: &str| Kind::validate(&pkg(state), &"a".into()).unwrap_err();
        assert!(refused("").message.contains("is empty"));
        assert!(refused("latest").hint.unwrap().contains("`newest`"));
        assert!(refused("present").hint.unwrap().contains("`installed`"));
        assert!(refused("absent").hint.unwrap().contains("`uninstalled`"));
        assert!(refused("instaled").hint.unwrap().contains("`installed`"));
        assert!(refused("-1").message.contains("expected"));
        assert!(refused("1 2").message.contains("expected"));
        for fine in ["installed", "newest", "uninstalled", "1.2.3-4", "2:1.0~rc1+b2", "r7"] {
            assert!(Kind::validate(&pkg(fine), &"a".into()).is_ok(), "{fine}");
        }
    }

    #[test]
    fn packages_in_the_same_state_are_grouped_unless_it_is_a_version() {
        let groups = |a: &Pkg, b: &dyn Resource| Kind::groups_with(a, b);
        for state in ["installed", "newest", "uninstalled"] {
            assert!(groups(&pkg(state), &pkg(state)));
        }
        assert!(!groups(&pkg("installed"), &pkg("newest")));
        assert!(!groups(&pkg("1.0"), &pkg("1.0")));
        assert!(!groups(&pkg("installed"), &Pkg { allowuntrusted: true, ..pkg("installed") }));
        assert!(!groups(&pkg("installed"), &crate::kinds::noop::Noop::default()));
    }

    #[test]
    fn installed_and_newest_is_newest_and_all_else_is_a_contradiction() {
        let merged = |a: &str, b: &str| {
            let merged = |a: &str, b: &str| Kind::merged(&pkg(a), &"a".into(), &pkg(b));
            let both = [merged(a, b), merged(b, a)];
            assert_eq!(both[0], both[1], "the order matters");
            both[0].clone().map(|pkg| pkg.state.to_text().into_owned())
        };
        assert_eq!(merged("installed", "newest").as_deref(), Some("newest"));
        assert_eq!(merged("newest", "newest").as_deref(), Some("newest"));
        for (a, b) in [("installed", "uninstalled"), ("installed", "1.0"), ("1.0", "2.0"), ("newest", "1.0")]
        {
            assert_eq!(merged(a, b), None, "{a} {b}");
        }
        let other = Pkg { allowuntrusted: true, ..pkg("newest") };
        assert_eq!(Kind::merged(&pkg("installed"), &"a".into(), &other), None);
    }
}
