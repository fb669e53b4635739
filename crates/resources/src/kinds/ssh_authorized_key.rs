//! `ssh:authorized_key`: keys that let somebody in.
//!
//! [`SshAuthorizedKey`] is the declaration. `entry` reads entries, finds them by their key in a text, and changes the text; it
//! knows nothing of files.

mod base64;
mod entry;

use std::sync::{Mutex, PoisonError};

use mgmt_resource::{
    Checked, Context, Effect, Error, Identity, Invalid, Kind, Needed, Nothing, Order, Resource, Result, Want,
    Watch,
};
use mgmt_sys::ManagedPath;
use mgmt_sys::dir::Parent;
use mgmt_sys::handle::Attributes;
use mgmt_sys::replace::InPlace;
use mgmt_value::Str;

use self::entry::Entry;
use crate::support::home::{self, Located};
use crate::support::presence::Presence;
use crate::support::text_file::{TextFile, explain};
use crate::support::{follow, shadow};

/// The mode that `sshd` expects of the file, and of its directory.
const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;
/// How often it is tried to put a key into a directory that somebody takes away.
const ATTEMPTS: usize = 5;

/// Keeps a key in the list of those that let somebody in over SSH, or keeps it out.
///
/// The entry is `content`, or made of `type`, `key`, `options` and `comment`, or it is the name of the resource. An entry is
/// known by its key: one with the same key and other options is changed, not added a second time, and it is removed whatever
/// its options are. A comment that is not declared stays as it is. All other lines are left alone.
///
/// The file is replaced in one step and keeps its owner and mode. Symbolic links that the user could have made are not
/// followed. Whenever the file changes, or the account of the user comes or moves, the key is looked at again.
///
/// A key comes after its `user`.
///
/// ```mcl
/// ssh:authorized_key "ada at work" {
///     state => "exists",
///     user => "ada",
///     type => "ssh-ed25519",
///     key => "AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f",
///     comment => "ada@work.example.com",
///     options => ["no-agent-forwarding"],
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Resource)]
#[resource(kind = "ssh:authorized_key", edges, receive, blocking)]
pub struct SshAuthorizedKey {
    /// `exists`: the key is to let somebody in. `absent`: it is not to be in the file.
    pub state: Str,
    /// The file: an absolute path, or one that begins with `~/` or `~user/` and is found in that home directory. If it is left
    /// out, it is `.ssh/authorized_keys` in the home directory of `user`, or of the user that runs this program.
    pub file: Str,
    /// Whom the key lets in. A file or directory that has to be made belongs to this user.
    pub user: Str,
    /// The whole entry, as in a public key file.
    pub content: Str,
    /// What the key may do and not do, each as `sshd` knows it: `no-pty`, `from="192.0.2.0/24"`.
    pub options: Vec<Str>,
    /// The type of the key, such as `ssh-ed25519`.
    pub r#type: Str,
    /// The key itself, in base64.
    pub key: Str,
    /// What stands after the key, mostly whose it is.
    pub comment: Str,
    /// Make the directory `.ssh` if it is not there.
    pub mkdir: bool,
}

impl Default for SshAuthorizedKey {
    fn default() -> SshAuthorizedKey {
        SshAuthorizedKey {
            state: Str::EMPTY,
            file: Str::EMPTY,
            user: Str::EMPTY,
            content: Str::EMPTY,
            options: Vec::new(),
            r#type: Str::EMPTY,
            key: Str::EMPTY,
            comment: Str::EMPTY,
            mkdir: true,
        }
    }
}

impl Kind for SshAuthorizedKey {
    type State = ();
    type Sends = Nothing;

    fn validate(&self, name: &Str) -> Result<(), Invalid> {
        Presence::read(&self.state)?;
        if !self.user.is_empty() {
            shadow::check_name("user", &self.user).map_err(|why| Invalid::field("user", why))?;
        }
        if !self.file.is_empty() {
            home::check("file", &self.file)?;
        }
        self.entry(name).map(|_| ())
    }

    fn watches(&self, _: &Str) -> Vec<Watch> {
        let file = self.declared_file();
        if file.starts_with(b"/") {
            return vec![Watch::Path { path: file, recursive: false }];
        }
        let key = Str::from([b"home ", file.as_bytes()].concat());
        let locate = move || {
            let located = home::locate(&file).ok().flatten();
            let path = located.map(|located| Str::new(located.path.as_bytes()));
            path.into_iter().chain([Str::from(shadow::PASSWD)]).collect()
        };
        vec![follow::paths(key, locate)]
    }

    // A home directory may be another one each time.
    fn claimed_paths(&self, _: &Str) -> Vec<Str> {
        let located = home::locate(&self.declared_file()).ok().flatten();
        located.map(|located| Str::new(located.path.as_bytes())).into_iter().collect()
    }

    async fn check_apply(&self, (): &mut (), cx: &mut Context<'_>) -> Result<Checked> {
        let presence = Presence::read(&self.state).map_err(Error::new)?;
        let entry = self.entry(&cx.id.name).map_err(Error::new)?;
        let Some(located) = self.locate()? else {
            // Another resource may be about to make the account, and only a run that changes things can tell.
            return match presence {
                Presence::Absent => Ok(Checked::Right),
                Presence::Exists if cx.may_come(Needed::User(&self.account())) => {
                    let file = self.declared_file();
                    cx.describe(Effect { private: true, ..Effect::change(file.display()).aspect("content") });
                    Ok(Checked::Changed)
                }
                Presence::Exists => {
                    Err(Error::new(format_args!("there is no user {:?} on this host", self.account()))
                        .with_hint("declare the user, too"))
                }
            };
        };
        let Located { path, owner } = located;
        let file = TextFile { path, owner, mode: FILE_MODE, in_place: InPlace::Refuse };
        let mut attempt = 1;
        loop {
            match self.settle(&file, &entry, presence, cx) {
                // Somebody may have taken the directory away between our making it and our using it.
                Err(error) if attempt < ATTEMPTS && !error.is_cancelled() && is_adrift(&file.path) => {
                    cx.effects.clear();
                    attempt += 1;
                }
                done => return done,
            }
        }
    }

    fn wants(&self, _: &Str) -> Vec<Want> {
        let mut before = Vec::new();
        if let Some(user) = Some(self.account()).filter(|user| !user.is_empty()) {
            before.push(Identity::User(user));
        }
        let Ok(path) = ManagedPath::new(self.declared_file()) else {
            return vec![Want::Each(Order::Before, before)];
        };
        let path = Str::from(path.as_bytes());
        before.push(Identity::Path(path.clone()));
        vec![Want::Each(Order::Before, before), Want::ParentOf(path)]
    }

    fn equivalent(&self, name: &Str, other: &SshAuthorizedKey) -> bool {
        let plain = |key: &SshAuthorizedKey| {
            let entry = key.entry(name).ok().map(|entry| (entry.line(), entry.comment));
            (entry, key.state.clone(), key.declared_file(), key.user.clone(), key.mkdir)
        };
        self == other || plain(self) == plain(other)
    }
}

impl SshAuthorizedKey {
    fn settle(
        &self,
        file: &TextFile,
        entry: &Entry,
        presence: Presence,
        cx: &Context<'_>,
    ) -> Result<Checked> {
        let mut checked = Checked::Right;
        if presence == Presence::Exists && self.mkdir {
            checked = make_directory(file, cx).map_err(|error| explain(&error))?;
        }
        let edited = file.edit(cx, |text| match presence {
            Presence::Exists => entry.put_into(text.unwrap_or_default()),
            Presence::Absent => entry.removed_from(text.unwrap_or_default()),
        })?;
        if edited == Checked::Changed && cx.apply {
            cx.info(if presence == Presence::Exists { "put into the file" } else { "removed from the file" });
        }
        Ok(checked.and(edited))
    }

    fn entry(&self, name: &Str) -> Result<Entry, Invalid> {
        let in_parts = [
            ("options", self.options.is_empty()),
            ("type", self.r#type.is_empty()),
            ("key", self.key.is_empty()),
        ];
        let in_parts = in_parts.into_iter().chain([("comment", self.comment.is_empty())]);
        if !self.content.is_empty() {
            if let Some((field, _)) = in_parts.into_iter().find(|(_, is_empty)| !is_empty) {
                return Err(Invalid::field(
                    "content",
                    format!("is the whole entry, but `{field}` is set, too"),
                ));
            }
            return Entry::read(&self.content).map_err(|why| Invalid::field("content", why));
        }
        match (self.r#type.is_empty(), self.key.is_empty()) {
            (false, false) => Entry::of(&self.options, &self.r#type, &self.key, &self.comment)
                .map_err(|(field, why)| Invalid::field(field, why)),
            (true, false) => {
                Err(Invalid::field("type", "is missing; a `key` needs one, such as `ssh-ed25519`"))
            }
            (false, true) => Err(Invalid::field("key", "is missing; a `type` needs one")),
            (true, true) if !self.options.is_empty() || !self.comment.is_empty() => Err(Invalid::field(
                "key",
                "is missing; `options` and `comment` belong to a `type` and a `key`",
            )),
            (true, true) => Entry::read(name).map_err(|why| {
                Invalid::new(format!("the name is no entry: {why}"))
                    .with_hint("set `content`, or `type` and `key`, or make the entry the name")
            }),
        }
    }

    /// The file, spelled out.
    fn declared_file(&self) -> Str {
        if self.file.is_empty() {
            return Str::from([b"~", self.user.as_bytes(), b"/.ssh/authorized_keys"].concat());
        }
        self.file.clone()
    }

    /// The user whose account is needed. Empty if it is our own, or none at all.
    fn account(&self) -> Str {
        if !self.user.is_empty() { self.user.clone() } else { home::user_of(&self.file).unwrap_or_default() }
    }

    /// Where the file is. Nothing if an account is missing that it takes to tell.
    fn locate(&self) -> Result<Option<Located>> {
        let Some(mut located) = home::locate(&self.declared_file())? else { return Ok(None) };
        if !self.user.is_empty() {
            let Some(account) = home::locate(&Str::from([b"~", self.user.as_bytes(), b"/"].concat()))? else {
                return Ok(None);
            };
            located.owner = account.owner;
        }
        Ok(Some(located))
    }
}

/// Makes the directory of the file, if it is called `.ssh` and only it is missing.
fn make_directory(file: &TextFile, cx: &Context<'_>) -> mgmt_sys::Result<Checked> {
    // Who finds the directory has to find it complete: another key of the same user may be on its way there.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(directory) = file.path.parent() else { return Ok(Checked::Right) };
    let Some(name) = directory.file_name().filter(|name| *name == b".ssh") else { return Ok(Checked::Right) };
    let above = match Parent::open(&directory) {
        Ok(above) => above,
        // The file itself says what is missing.
        Err(error) if error.is_not_found() => return Ok(Checked::Right),
        Err(error) => return Err(error),
    };
    if above.exists(name)? {
        return Ok(Checked::Right);
    }
    cx.describe(Effect::create(&directory).aspect("directory"));
    if cx.apply {
        let (owner, group) = file.owner.unzip();
        above.make_directory(name, &Attributes { owner, group, mode: Some(DIRECTORY_MODE), label: None })?;
        cx.info("has made the directory .ssh");
    }
    Ok(Checked::Changed)
}

/// Whether the directory of the file, and only that, is missing.
fn is_adrift(path: &ManagedPath) -> bool {
    let parent = |path: &ManagedPath| Parent::open(path).map(drop);
    let above = path.parent().map(|directory| parent(&directory));
    parent(path).is_err_and(|error| error.is_not_found()) && above.is_some_and(|above| above.is_ok())
}

#[cfg(test)]
mod tests {
    use super::entry::tests::{OTHER, RAW};
    use super::*;

    fn key() -> SshAuthorizedKey {
        SshAuthorizedKey { state: "exists".into(), ..SshAuthorizedKey::default() }
    }

    fn parts() -> SshAuthorizedKey {
        SshAuthorizedKey { r#type: "ssh-ed25519".into(), key: RAW.into(), ..key() }
    }

    fn refused(key: &SshAuthorizedKey) -> Invalid {
        Kind::validate(key, &"name".into()).unwrap_err()
    }

    #[test]
    fn an_entry_is_content_or_parts_or_the_name() {
        let line = format!("ssh-ed25519 {RAW} joe");
        let whole = SshAuthorizedKey { content: line.as_str().into(), ..key() };
        let made = SshAuthorizedKey { comment: "joe".into(), ..parts() };
        let entry = |key: &SshAuthorizedKey, name: &str| key.entry(&name.into()).unwrap().line();
        assert_eq!(entry(&whole, "name"), line.as_bytes());
        assert_eq!(entry(&made, "name"), line.as_bytes());
        assert_eq!(entry(&key(), &line), line.as_bytes());
        assert!(whole.equivalent(&"name".into(), &made));
        assert!(!whole.equivalent(&"name".into(), &parts()), "the comment is not declared");
    }

    #[test]
    fn contradictions_are_refused() {
        let line = format!("ssh-ed25519 {RAW}");
        let both = SshAuthorizedKey { content: line.as_str().into(), comment: "joe".into(), ..key() };
        assert!(refused(&both).message.contains("`comment` is set, too"));
        assert_eq!(refused(&SshAuthorizedKey { key: Str::EMPTY, ..parts() }).field, Some("key"));
        assert_eq!(refused(&SshAuthorizedKey { r#type: Str::EMPTY, ..parts() }).field, Some("type"));
        assert_eq!(refused(&SshAuthorizedKey { comment: "joe".into(), ..key() }).field, Some("key"));
        let other = SshAuthorizedKey { r#type: "ssh-rsa".into(), ..parts() };
        assert_eq!(refused(&other).field, Some("type"));
        assert_eq!(refused(&SshAuthorizedKey { key: "AAAA".into(), ..parts() }).field, Some("key"));
        assert!(refused(&key()).hint.unwrap().contains("`content`"));
        assert_eq!(refused(&SshAuthorizedKey { state: Str::EMPTY, ..parts() }).field, Some("state"));
        assert_eq!(refused(&SshAuthorizedKey { user: "a b".into(), ..parts() }).field, Some("user"));
        for wrong in ["keys", "/keys/", "~joe"] {
            assert_eq!(refused(&SshAuthorizedKey { file: wrong.into(), ..parts() }).field, Some("file"));
        }
        for wrong in ["", "a b", "from=\"x", "a\nb", "a,b"] {
            let wrong = SshAuthorizedKey { options: vec![wrong.into()], ..parts() };
            assert_eq!(refused(&wrong).field, Some("options"), "{wrong:?}");
        }
        let two = SshAuthorizedKey { content: format!("{line}\n{OTHER}").into(), ..key() };
        assert!(refused(&two).message.contains("more than one line"));
    }

    #[test]
    fn the_file_of_a_user_is_claimed_where_the_home_is_now() {
        let claimed = |key: SshAuthorizedKey| Kind::claimed_paths(&key, &"name".into());
        let root = SshAuthorizedKey { user: "root".into(), ..parts() };
        assert_eq!(claimed(root.clone()), ["/root/.ssh/authorized_keys"]);
        assert_eq!(claimed(SshAuthorizedKey { file: "/srv/keys".into(), ..root }), ["/srv/keys"]);
        let nobody = SshAuthorizedKey { user: "nobody-of-that-name".into(), ..parts() };
        assert!(claimed(nobody).is_empty());
    }

    #[test]
    fn a_key_comes_after_its_user_and_the_directory() {
        let wants = |key: SshAuthorizedKey| Kind::wants(&key, &"name".into());
        let user = Identity::User("joe".into());
        assert_eq!(
            wants(SshAuthorizedKey { user: "joe".into(), ..parts() }),
            [Want::Each(Order::Before, vec![user.clone()])]
        );
        assert_eq!(
            wants(SshAuthorizedKey { file: "~joe/keys".into(), ..parts() }),
            [Want::Each(Order::Before, vec![user.clone()])]
        );
        let path = Str::from("/srv/keys");
        assert_eq!(
            wants(SshAuthorizedKey { file: "/srv/keys".into(), user: "joe".into(), ..parts() }),
            [Want::Each(Order::Before, vec![user, Identity::Path(path.clone())]), Want::ParentOf(path)]
        );
    }
}
