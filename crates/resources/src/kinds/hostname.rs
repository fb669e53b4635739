//! `hostname`: the names of this host.
//!
//! [`Hostname`] is the declaration. `names` reads the names and sets them directly, `hostnamed` has them set by the service that
//! other programs listen to, `watch` hears of changes.
//!
//! Invariants
//! - What the names are is read from where they are: two files and the kernel. So looking starts no service, and a host
//!   without one is looked at in the same way.
//! - Nothing is asked for repeatedly: a change of a file or of the kernel's name is an event.

mod hostnamed;
mod names;
mod watch;

use mgmt_resource::{
    Checked, Context, Effect, Error, Identity, Invalid, Kind, Nothing, Order, Resource, Result, Want, Watch,
};
use mgmt_value::Str;

use self::hostnamed::Hostnamed;
use self::names::Which;
use crate::support::account::lookup_now;

/// The longest name that the kernel takes.
const LONGEST: usize = 64;

/// Gives this host its name.
///
/// A host has three names: the static one, which it has after every boot and which is in `/etc/hostname`; the transient one, which
/// the kernel has now; and the pretty one, which may have any characters and is in `/etc/machine-info`. All three are set to
/// `hostname`, unless they are declared otherwise; an empty one is not managed.
///
/// They are set by the service `systemd-hostnamed` on hosts that have it, so that all programs hear of it, and directly
/// elsewhere. Whoever changes one of them, in whichever way, it is set again at once.
///
/// ```mcl
/// hostname "web1.example.com" {
///     pretty_hostname => "the web server in the cellar",
/// }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Resource)]
#[resource(kind = "hostname", edges, receive)]
pub struct Hostname {
    /// The name for all that is not declared below. If it is left out, it is the name of the resource.
    pub hostname: Str,
    /// The name for people. Empty: it is not managed.
    pub pretty_hostname: Option<Str>,
    /// The name after every boot. Empty: it is not managed.
    pub static_hostname: Option<Str>,
    /// The name that the kernel has now. Empty: it is not managed.
    pub transient_hostname: Option<Str>,
}

impl Kind for Hostname {
    type State = ();
    type Sends = Nothing;

    fn validate(&self, name: &Str) -> Result<(), Invalid> {
        let mut wanted = self.wanted(name).peekable();
        if wanted.peek().is_none() {
            return Err(Invalid::new(
                "`pretty_hostname`, `static_hostname` and `transient_hostname` are empty, so there is nothing to do",
            ));
        }
        wanted.try_for_each(|(which, value)| {
            let declared = match which {
                Which::Pretty => &self.pretty_hostname,
                Which::Static => &self.static_hostname,
                Which::Transient => &self.transient_hostname,
            };
            check(which, value).map_err(|why| match (declared, self.hostname.is_empty()) {
                (Some(_), _) => Invalid::field(which.field(), why),
                (None, false) => Invalid::field("hostname", why),
                (None, true) => {
                    Invalid::new(why).with_hint("set `hostname` if the resource is to be called otherwise")
                }
            })
        })
    }

    fn watches(&self, name: &Str) -> Vec<Watch> {
        let mut watches: Vec<Watch> = self.wanted(name).map(|(which, _)| watch::of(which)).collect();
        watches.extend(watch::service());
        watches
    }

    async fn check_apply(&self, (): &mut (), cx: &mut Context<'_>) -> Result<Checked> {
        let name = cx.id.name.clone();
        let mut is_served = true;
        let mut effects = Vec::new();
        // One name may follow from another, so all are looked at before any is set.
        for (which, wanted) in self.wanted(&name) {
            let present = lookup_now(|| which.read())?;
            if present.as_ref() == Some(wanted) {
                continue;
            }
            let effect = Effect::change(format_args!("{which} name of the host")).after(wanted.display());
            effects.push(match &present {
                Some(present) => effect.before(present.display()),
                None => effect,
            });
        }
        if effects.is_empty() {
            return Ok(Checked::Right);
        }
        if cx.apply {
            for (which, wanted) in self.wanted(&name) {
                if lookup_now(|| which.read())?.as_ref() == Some(wanted) {
                    continue;
                }
                cx.checkpoint()?;
                set(which, wanted, &mut is_served, cx).await?;
                cx.info(format_args!("the {which} name is {} now", wanted.display()));
            }
        }
        // How they are kept is not what is changed.
        cx.effects.clear();
        effects.into_iter().for_each(|effect| cx.describe(effect.presumed()));
        Ok(Checked::Changed)
    }

    fn wants(&self, name: &Str) -> Vec<Want> {
        let files = self.wanted(name).filter_map(|(which, _)| which.file());
        vec![Want::Each(Order::Before, files.map(|file| Identity::Path(file.into())).collect())]
    }

    fn equivalent(&self, name: &Str, other: &Hostname) -> bool {
        self.wanted(name).eq(other.wanted(name))
    }
}

impl Hostname {
    /// The names that are managed, in the order in which they are set.
    fn wanted<'a>(&'a self, name: &'a Str) -> impl Iterator<Item = (Which, &'a Str)> {
        let fallback = if self.hostname.is_empty() { name } else { &self.hostname };
        let declared = [
            (Which::Pretty, &self.pretty_hostname),
            (Which::Static, &self.static_hostname),
            (Which::Transient, &self.transient_hostname),
        ];
        declared
            .into_iter()
            .map(move |(which, declared)| (which, declared.as_ref().unwrap_or(fallback)))
            .filter(|(_, value)| !value.is_empty())
    }
}

/// Sets a name by the service if there is one, and directly if there is none or if it does not do it. What did not work once is
/// not tried again in this run.
async fn set(which: Which, wanted: &Str, is_served: &mut bool, cx: &Context<'_>) -> Result<()> {
    if *is_served {
        let served = tokio::select! {
            served = Hostnamed::set(which, wanted) => served,
            () = cx.cancel.cancelled() => return Err(Error::Cancelled),
        };
        if let Err(why) = served {
            tracing::debug!(target: "mgmt::resource", resource = %cx.id, "setting the {which} name directly: {why}");
            *is_served = false;
        }
    }
    lookup_now(|| {
        if which.read()?.as_ref() != Some(wanted) {
            which.write(wanted, cx)?;
        }
        match which.read()? {
            Some(present) if present == *wanted => Ok(()),
            present => Err(Error::new(format_args!("the {which} name was set, but it is {present:?}"))
                .with_hint("somebody else may want another name; two resources or programs may be at odds")),
        }
    })
}

fn check(which: Which, value: &Str) -> Result<(), String> {
    if which == Which::Pretty {
        let is_plain =
            value.as_str().is_some_and(|text| !text.contains(char::is_control) && text.trim() == text);
        return match is_plain {
            true => Ok(()),
            false => {
                Err(format!("{value:?} has a control character, or white space at its beginning or end"))
            }
        };
    }
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_".contains(byte);
    let is_label = |label: &[u8]| {
        label.iter().all(allowed) && !label.is_empty() && !label.starts_with(b"-") && !label.ends_with(b"-")
    };
    match value.len() <= LONGEST && value.split(|byte| *byte == b'.').all(is_label) {
        true => Ok(()),
        false => Err(format!(
            "{value:?} is not the name of a host: expected at most {LONGEST} letters, digits and `-`, with dots between \
             the parts"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(hostname: &Hostname, name: &str) -> Vec<String> {
        hostname.wanted(&name.into()).map(|(which, value)| format!("{which} {}", value.display())).collect()
    }

    #[test]
    fn all_names_come_from_one_unless_they_are_declared() {
        let all = names(&Hostname::default(), "a");
        assert_eq!(all, ["pretty a", "static a", "transient a"]);
        let some = Hostname {
            hostname: "b".into(),
            pretty_hostname: Some("The B".into()),
            transient_hostname: Some(Str::EMPTY),
            ..Hostname::default()
        };
        assert_eq!(names(&some, "a"), ["pretty The B", "static b"]);
    }

    #[test]
    fn the_same_names_are_the_same_declaration() {
        let one = Hostname { hostname: "b".into(), ..Hostname::default() };
        assert!(one.equivalent(&"b".into(), &Hostname::default()));
        assert!(
            !one.equivalent(&"a".into(), &Hostname::default()),
            "another `hostname` is another declaration"
        );
        let spelled = Hostname { static_hostname: Some("b".into()), ..one.clone() };
        assert!(one.equivalent(&"a".into(), &spelled));
    }

    #[test]
    fn what_is_no_name_is_refused() {
        let refused = |hostname: &Hostname, name: &str| Kind::validate(hostname, &name.into()).unwrap_err();
        for wrong in ["a b", "-a", "a-", "a..b", ".a", "a.", "a\n", "é", &"a".repeat(65)] {
            assert!(refused(&Hostname::default(), wrong).hint.unwrap().contains("`hostname`"), "{wrong}");
            let named = Hostname { hostname: wrong.into(), ..Hostname::default() };
            assert_eq!(refused(&named, "a").field, Some("hostname"), "{wrong}");
            let fixed = Hostname { static_hostname: Some(wrong.into()), ..Hostname::default() };
            assert_eq!(refused(&fixed, "a").field, Some("static_hostname"), "{wrong}");
        }
        let pretty = |pretty: &str| Hostname { pretty_hostname: Some(pretty.into()), ..Hostname::default() };
        assert!(Kind::validate(&pretty("Lennart’s \"PC\" $HOME"), &"a".into()).is_ok());
        assert_eq!(refused(&pretty("a\nb"), "a").field, Some("pretty_hostname"));
        let none = Hostname {
            static_hostname: Some(Str::EMPTY),
            transient_hostname: Some(Str::EMPTY),
            ..pretty("")
        };
        assert!(refused(&none, "a").message.contains("nothing to do"));
    }
}
