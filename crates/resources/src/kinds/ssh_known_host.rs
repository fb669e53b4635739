//! `ssh:known_host`: the keys by which hosts are known.

use mgmt_resource::{
    Checked, Context, Error, Identity, Invalid, Kind, Nothing, Order, Resource, Result, Want, Watch,
};
use mgmt_sys::ManagedPath;
use mgmt_sys::replace::InPlace;
use mgmt_value::Str;

use crate::support::presence::Presence;
use crate::support::text_file::TextFile;

const KNOWN_HOSTS: &str = "/etc/ssh/ssh_known_hosts";
const MODE: u32 = 0o644;

/// Keeps the key of a host among those that `ssh` knows, or keeps it out.
///
/// An entry is known by the first name in it and by the type of its key, so a host can have one of each type. One that differs is
/// changed where it is, a missing one is added at the end, and a second one for the same name and type is removed. All other lines
/// are left alone, also those with hashed names.
///
/// The file is replaced in one step. Whenever it changes, it is looked at again.
///
/// Only this implementation has this kind.
///
/// ```mcl
/// ssh:known_host "git.example.com" {
///     state => "exists",
///     type => "ssh-ed25519",
///     key => "AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f",
///     aliases => ["git", "192.0.2.9"],
/// }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Resource)]
#[resource(kind = "ssh:known_host", edges, receive, blocking)]
pub struct SshKnownHost {
    /// `exists`: the key is to be there. `absent`: it is not to be there.
    pub state: Str,
    /// The name of the host. If it is left out, it is the name of the resource.
    pub hostname: Str,
    /// Other names and addresses of the host, in this order. If they are left out, they stay as they are.
    pub aliases: Option<Vec<Str>>,
    /// The type of the key, `ssh-ed25519` for example.
    pub r#type: Str,
    /// The key itself, in base64.
    pub key: Str,
    /// The file. If it is left out, it is `/etc/ssh/ssh_known_hosts`.
    pub file: Str,
}

impl Kind for SshKnownHost {
    type State = ();
    type Sends = Nothing;

    fn validate(&self, name: &Str) -> Result<(), Invalid> {
        let presence = Presence::read(&self.state)?;
        self.path()?;
        let is_word = |text: &Str| {
            !text.is_empty() && !text.iter().any(|byte| byte.is_ascii_whitespace() || b",#".contains(byte))
        };
        let names = std::iter::once(("hostname", self.hostname(name)));
        let names = names.chain(self.aliases.iter().flatten().map(|alias| ("aliases", alias)));
        for (field, text) in names.chain([("type", &self.r#type)]) {
            if !is_word(text) {
                return Err(Invalid::field(field, format!("expected one word, found {text:?}")));
            }
        }
        let is_base64 = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=".contains(byte);
        if presence == Presence::Exists && (self.key.is_empty() || !self.key.iter().all(is_base64)) {
            return Err(Invalid::field(
                "key",
                "expected a key in base64, as the second word of a `.pub` file",
            ));
        }
        Ok(())
    }

    fn watches(&self, _: &Str) -> Vec<Watch> {
        let path = self.path().ok();
        path.map(|path| Watch::Path { path: path.as_bytes().into(), recursive: false }).into_iter().collect()
    }

    async fn check_apply(&self, (): &mut (), cx: &mut Context<'_>) -> Result<Checked> {
        let presence = Presence::read(&self.state).map_err(Error::new)?;
        let path = self.path().map_err(Error::new)?;
        let file = TextFile { path, owner: None, mode: MODE, in_place: InPlace::Allow };
        let checked = file.edit(cx, |text| self.edited(&cx.id.name, presence, text.unwrap_or_default()))?;
        if checked == Checked::Changed && cx.apply {
            cx.info(if presence == Presence::Exists { "put into the file" } else { "removed from the file" });
        }
        Ok(checked)
    }

    fn wants(&self, _: &Str) -> Vec<Want> {
        let Ok(path) = self.path() else { return Vec::new() };
        let path = Str::from(path.as_bytes());
        let before = vec![Identity::Path(path.clone()), Identity::PackageFile(path.clone())];
        vec![Want::Each(Order::Before, before), Want::ParentOf(path)]
    }
}

impl SshKnownHost {
    fn hostname<'a>(&'a self, name: &'a Str) -> &'a Str {
        if self.hostname.is_empty() { name } else { &self.hostname }
    }

    fn path(&self) -> Result<ManagedPath, Invalid> {
        let path = if self.file.is_empty() { KNOWN_HOSTS.as_bytes() } else { &self.file };
        ManagedPath::new(path).map_err(|error| Invalid::field("file", error.to_string()))
    }

    /// The text as it is to be. Nothing if it is so.
    fn edited(&self, name: &Str, presence: Presence, text: &[u8]) -> Option<Vec<u8>> {
        let mut new: Vec<u8> = Vec::with_capacity(text.len() + 256);
        let mut found = false;
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            let Some(names) = self.names_in(name, line) else {
                new.extend_from_slice(line);
                continue;
            };
            if presence == Presence::Exists && !found {
                let wanted = self.line(name, &names);
                let same = line.trim_ascii() == wanted;
                new.extend_from_slice(if same { line } else { &wanted });
                new.extend_from_slice(if same { b"" } else { b"\n" });
            }
            found = true;
        }
        if presence == Presence::Exists && !found {
            if !new.is_empty() && !new.ends_with(b"\n") {
                new.push(b'\n');
            }
            new.extend(self.line(name, &[]));
            new.push(b'\n');
        }
        (new != text).then_some(new)
    }

    /// The other names in a line, if it is about this host and type.
    fn names_in<'l>(&self, name: &Str, line: &'l [u8]) -> Option<Vec<&'l [u8]>> {
        let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let (names, kind) = (words.next()?, words.next()?);
        let mut names = names.split(|byte| *byte == b',');
        let is_ours = names.next()? == self.hostname(name).as_bytes() && kind == self.r#type.as_bytes();
        is_ours.then(|| names.collect())
    }

    fn line(&self, name: &Str, present: &[&[u8]]) -> Vec<u8> {
        let aliases: Vec<&[u8]> = match &self.aliases {
            Some(aliases) => aliases.iter().map(Str::as_bytes).collect(),
            None => present.to_vec(),
        };
        let names = [&[self.hostname(name).as_bytes()], &aliases[..]].concat().join(&b',');
        [&names[..], self.r#type.as_bytes(), self.key.as_bytes()].join(&b' ')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(aliases: Option<&[&str]>) -> SshKnownHost {
        let aliases = aliases.map(|aliases| aliases.iter().map(|alias| Str::from(*alias)).collect());
        SshKnownHost {
            state: "exists".into(),
            aliases,
            r#type: "ssh-rsa".into(),
            key: "AAAA".into(),
            ..SshKnownHost::default()
        }
    }

    #[test]
    fn an_entry_is_added_changed_where_it_is_and_removed() {
        let edited = |host: &SshKnownHost, presence, text: &str| {
            let new = host.edited(&"h".into(), presence, text.as_bytes());
            new.map(|new| String::from_utf8(new).unwrap())
        };
        let exists = |host: &SshKnownHost, text: &str| {
            let new = edited(host, Presence::Exists, text).unwrap();
            assert_eq!(edited(host, Presence::Exists, &new), None);
            new
        };
        assert_eq!(exists(&host(None), ""), "h ssh-rsa AAAA\n");
        assert_eq!(exists(&host(None), "# x\nh ssh-ed25519 B"), "# x\nh ssh-ed25519 B\nh ssh-rsa AAAA\n");
        let old = "h,a,b ssh-rsa OLD\n|1|x= ssh-rsa C\nh ssh-rsa AGAIN\n";
        assert_eq!(exists(&host(None), old), "h,a,b ssh-rsa AAAA\n|1|x= ssh-rsa C\n");
        assert_eq!(exists(&host(Some(&["c"])), old), "h,c ssh-rsa AAAA\n|1|x= ssh-rsa C\n");
        assert_eq!(edited(&host(None), Presence::Absent, old).unwrap(), "|1|x= ssh-rsa C\n");
        assert_eq!(edited(&host(None), Presence::Absent, "x ssh-rsa h\n"), None);
    }

    #[test]
    fn what_is_no_entry_is_refused() {
        let refused = |host: SshKnownHost| Kind::validate(&host, &"h".into()).unwrap_err().field;
        assert_eq!(Kind::validate(&host(None), &"h".into()), Ok(()));
        assert_eq!(refused(SshKnownHost { key: "a b".into(), ..host(None) }), Some("key"));
        assert_eq!(refused(SshKnownHost { r#type: Str::EMPTY, ..host(None) }), Some("type"));
        assert_eq!(refused(host(Some(&["a,b"]))), Some("aliases"));
        assert_eq!(refused(SshKnownHost { hostname: "a b".into(), ..host(None) }), Some("hostname"));
    }
}
