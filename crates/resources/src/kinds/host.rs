//! `host`: names of hosts in `/etc/hosts`.
//!
//! [`Host`] is the declaration. `entry` reads lines, finds those of a host in a text, and changes the text; it knows nothing of
//! files.
//!
//! Deliberately absent: names that are other hosts' aliases. A line belongs to the first name in it.

mod entry;

use std::net::IpAddr;

use mgmt_resource::{
    Checked, Context, Error, Identity, Invalid, Kind, Nothing, Order, Resource, Result, Want, Watch,
};
use mgmt_sys::ManagedPath;
use mgmt_sys::replace::InPlace;
use mgmt_value::Str;

use self::entry::{Entry, Wanted, check_name, entries};
use crate::support::presence::Presence;
use crate::support::text_file::TextFile;

const HOSTS: &str = "/etc/hosts";
const MODE: u32 = 0o644;

/// Keeps the address of a host in `/etc/hosts`, or keeps the host out of it.
///
/// An entry is a line: an address, the name of the host, and perhaps other names and a comment. It is known by the name and by
/// the sort of its address, so a host can have an entry with an IPv4 address and another with an IPv6 address; those are two
/// resources with the same `hostname`. An entry that differs is changed where it is, a missing one is added at the end, and a
/// second one for the same name and sort is removed. All other lines are left alone, also those that have the name among their
/// aliases.
///
/// The file is replaced in one step and keeps its owner and mode; where it cannot be replaced, as in a container that it is
/// mounted into, it is written to. Whenever it changes, it is looked at again.
///
/// ```mcl
/// host "db1.example.com" {
///     state => "exists",
///     ip => "192.0.2.7",
///     aliases => ["db1"],
/// }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Resource)]
#[resource(kind = "host", edges, receive, reverse, blocking)]
pub struct Host {
    /// `exists`: the entry is to be there. `absent`: there is to be none for this name; if `ip` is set, none with this address.
    pub state: Str,
    /// The name of the host. If it is left out, it is the name of the resource.
    pub hostname: Str,
    /// The address.
    pub ip: Str,
    /// Other names of the host, in this order. If they are left out, they stay as they are; an empty list means that there are
    /// none.
    pub aliases: Option<Vec<Str>>,
    /// What stands behind a `#` at the end of the line. If it is left out, it stays as it is; if it is empty, there is none.
    pub comment: Option<Str>,
    /// The file. If it is left out, it is `/etc/hosts`.
    pub file: Str,
}

impl Kind for Host {
    type State = ();
    type Sends = Nothing;

    fn validate(&self, name: &Str) -> Result<(), Invalid> {
        self.wanted(name)?;
        self.managed_path().map(|_| ())
    }

    fn watches(&self, _: &Str) -> Vec<Watch> {
        let path = self.managed_path().ok();
        path.map(|path| Watch::Path { path: path.as_bytes().into(), recursive: false }).into_iter().collect()
    }

    async fn check_apply(&self, (): &mut (), cx: &mut Context<'_>) -> Result<Checked> {
        let (presence, wanted) = self.wanted(&cx.id.name).map_err(Error::new)?;
        let checked = self.text_file()?.edit(cx, |text| match presence {
            Presence::Exists => wanted.put_into(text.unwrap_or_default()),
            Presence::Absent => wanted.removed_from(text.unwrap_or_default()),
        })?;
        if checked == Checked::Changed && cx.apply {
            cx.info(if presence == Presence::Exists { "put into the file" } else { "removed from the file" });
        }
        Ok(checked)
    }

    fn wants(&self, _: &Str) -> Vec<Want> {
        let Ok(path) = self.managed_path() else { return Vec::new() };
        let path = Str::from(path.as_bytes());
        let before = vec![Identity::Path(path.clone()), Identity::PackageFile(path.clone())];
        vec![Want::Each(Order::Before, before), Want::ParentOf(path)]
    }

    /// The entry as it is, or none if there is none.
    fn reversed(&self, name: &Str) -> Result<Option<Host>> {
        let (presence, wanted) = self.wanted(name).map_err(Error::new)?;
        let text = self.text_file()?.read()?.unwrap_or_default();
        let present = entries(&text).find(|entry| wanted.is_about(entry));
        let blank =
            Host { hostname: self.hostname(name).clone(), file: self.file.clone(), ..Host::default() };
        Ok(match present {
            Some(Entry { address, aliases, comment, .. }) => Some(Host {
                state: "exists".into(),
                ip: address.into(),
                aliases: Some(aliases.iter().map(Str::new).collect()),
                comment: Some(Str::new(comment)),
                ..blank
            }),
            None if presence == Presence::Exists => {
                Some(Host { state: "absent".into(), ip: self.ip.clone(), ..blank })
            }
            None => None,
        })
    }

    fn equivalent(&self, name: &Str, other: &Host) -> bool {
        let plain = |host: &Host| {
            let file = host.managed_path().ok();
            Host { hostname: host.hostname(name).clone(), file: Str::EMPTY, ..host.clone() }.with(file)
        };
        self == other || plain(self) == plain(other)
    }
}

impl Host {
    /// Checks the parameters, and what they come to.
    fn wanted<'a>(&'a self, name: &'a Str) -> Result<(Presence, Wanted<'a>), Invalid> {
        let presence = Presence::read(&self.state)?;
        let hostname = self.hostname(name);
        check_name(hostname).map_err(|why| match self.hostname.is_empty() {
            true => Invalid::new(why).with_hint("set `hostname` if the resource is to be called otherwise"),
            false => Invalid::field("hostname", why),
        })?;
        if presence == Presence::Exists && self.ip.is_empty() {
            return Err(Invalid::field("ip", "is missing; expected the address of the host"));
        }
        if !self.ip.is_empty() && entry::address(&self.ip).is_none() {
            return Err(Invalid::field(
                "ip",
                format!("expected an address like `192.0.2.7` or `2001:db8::7`, found {:?}", self.ip),
            ));
        }
        let aliases = self.aliases.as_deref().unwrap_or_default();
        for (position, alias) in aliases.iter().enumerate() {
            check_name(alias).map_err(|why| Invalid::field("aliases", why))?;
            if alias.eq_ignore_ascii_case(hostname) || aliases[..position].contains(alias) {
                return Err(Invalid::field("aliases", format!("{alias:?} is there already")));
            }
        }
        if let Some(comment) = &self.comment
            && (comment.iter().any(u8::is_ascii_control) || comment.trim_ascii().len() != comment.len())
        {
            return Err(Invalid::field(
                "comment",
                "has a control character, or white space at its beginning or end",
            ));
        }
        let wanted = Wanted {
            hostname,
            ip: &self.ip,
            aliases: self.aliases.as_deref(),
            comment: self.comment.as_ref(),
        };
        Ok((presence, wanted))
    }

    fn hostname<'a>(&'a self, name: &'a Str) -> &'a Str {
        if self.hostname.is_empty() { name } else { &self.hostname }
    }

    fn managed_path(&self) -> Result<ManagedPath, Invalid> {
        if self.file.ends_with(b"/") {
            return Err(Invalid::field(
                "file",
                format!("{:?} ends in a slash, which means a directory", self.file),
            ));
        }
        let path = if self.file.is_empty() { HOSTS.as_bytes() } else { &self.file };
        ManagedPath::new(path).map_err(|error| Invalid::field("file", error.to_string()))
    }

    fn text_file(&self) -> Result<TextFile> {
        let path = self.managed_path().map_err(Error::new)?;
        Ok(TextFile { path, owner: None, mode: MODE, in_place: InPlace::Allow })
    }

    fn with(self, file: Option<ManagedPath>) -> Host {
        Host { file: file.map(|file| file.as_bytes().into()).unwrap_or_default(), ..self }
    }
}

/// The address of an entry in the one form that can be compared.
type Address<'a> = (IpAddr, &'a str);

#[cfg(test)]
mod tests {
    use super::*;

    fn host(ip: &str) -> Host {
        Host { state: "exists".into(), ip: ip.into(), ..Host::default() }
    }

    fn refused(host: &Host) -> Invalid {
        Kind::validate(host, &"printer".into()).unwrap_err()
    }

    #[test]
    fn bad_parameters_are_refused() {
        for wrong in
            ["", "192.0.2", "192.0.2.256", "printer", "192.0.2.7 ", "::g", "192.0.2.7%eth0", "fe80::1%"]
        {
            assert_eq!(refused(&host(wrong)).field, Some("ip"), "{wrong:?}");
        }
        for fine in ["192.0.2.7", "::1", "2001:DB8::7", "fe80::1%eth0"] {
            assert!(Kind::validate(&host(fine), &"printer".into()).is_ok(), "{fine}");
        }
        let absent = Host { state: "absent".into(), ..Host::default() };
        assert!(Kind::validate(&absent, &"printer".into()).is_ok());
        assert_eq!(refused(&Host { state: "present".into(), ..host("::1") }).field, Some("state"));
        assert!(
            Kind::validate(&host("::1"), &"a b".into()).unwrap_err().hint.unwrap().contains("`hostname`")
        );
        for wrong in ["a b", "-a", "a#b", ".a", "a..b", "a\n", &"a".repeat(254)] {
            assert_eq!(
                refused(&Host { hostname: wrong.into(), ..host("::1") }).field,
                Some("hostname"),
                "{wrong}"
            );
        }
        for wrong in [&["a b"][..], &[""], &["Printer"], &["a", "a"]] {
            let aliases = Some(wrong.iter().map(|alias| Str::from(*alias)).collect());
            assert_eq!(refused(&Host { aliases, ..host("::1") }).field, Some("aliases"), "{wrong:?}");
        }
        assert_eq!(refused(&Host { comment: Some("a\nb".into()), ..host("::1") }).field, Some("comment"));
        for wrong in ["etc/hosts", "/etc/"] {
            assert_eq!(refused(&Host { file: wrong.into(), ..host("::1") }).field, Some("file"), "{wrong:?}");
        }
    }

    #[test]
    fn defaults_that_are_spelled_out_are_the_same_declaration() {
        let spelled = Host { hostname: "printer".into(), file: "/etc/./hosts".into(), ..host("::1") };
        assert!(host("::1").equivalent(&"printer".into(), &spelled));
        assert!(!host("::1").equivalent(&"other".into(), &spelled));
        assert!(!host("::1").equivalent(&"printer".into(), &Host { aliases: Some(Vec::new()), ..spelled }));
    }
}
