//! What a run changes, said once by the kind for everybody: the log of a run that only looks, the history, the plan.
//!
//! A kind describes a change where it decides on it, before it asks whether it may: so what a plan says and what a run
//! does are one description, not two that could differ.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use mgmt_sys::error::Escaped;
use mgmt_sys::preflight::Claim;
use serde::{Deserialize, Serialize};

/// The longest text whose difference is shown.
pub const LONGEST_TEXT: usize = 64 << 10;
/// As many effects of one run are told; of more, how many there are.
const MOST: usize = 256;
/// The longest word before or after a change.
const LONGEST_WORD: usize = 512;

/// One thing that a run changes, or would change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effect {
    /// What is done.
    pub action: Action,
    /// What it is done to: a path, a unit, a package, a command.
    pub what: Box<str>,
    /// Which side of it, if not all: `mode`, `content`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aspect: Option<Cow<'static, str>>,
    /// What is there now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Box<str>>,
    /// What is there then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Box<str>>,
    /// What comes of it cannot be told beforehand.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub opaque: bool,
    /// It rests on something that this look could not see, and that a run will see; or it is asked of the kernel, a daemon or a
    /// tool, which may refuse.
    #[serde(skip)]
    pub presumed: bool,
    /// It is about something that not everybody may read: nothing of that is told, here or in the cause.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub private: bool,
    /// The text before and after, for whoever shows the difference.
    #[serde(skip)]
    pub texts: Option<Box<Texts>>,
}

/// A text before and after.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Texts {
    /// Nothing: there was none.
    pub before: Option<Box<[u8]>>,
    /// Nothing: there is none then.
    pub after: Option<Box<[u8]>>,
}

/// They may be secrets, and are long.
impl fmt::Debug for Texts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Texts(..)")
    }
}

/// What is done to something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// It was not there.
    Create,
    /// It is another then.
    Change,
    /// It is gone then.
    Remove,
    /// A command.
    Run,
    /// There are more that are not told.
    More,
}

impl Action {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Action::Create => "create",
            Action::Change => "change",
            Action::Remove => "remove",
            Action::Run => "run",
            Action::More => "more",
        }
    }
}

impl Effect {
    fn new(action: Action, what: impl fmt::Display) -> Effect {
        Effect {
            action,
            what: what.to_string().into(),
            aspect: None,
            before: None,
            after: None,
            opaque: false,
            presumed: false,
            private: false,
            texts: None,
        }
    }

    /// Something comes to be.
    pub fn create(what: impl fmt::Display) -> Effect {
        Effect::new(Action::Create, what)
    }

    /// Something becomes another.
    pub fn change(what: impl fmt::Display) -> Effect {
        Effect::new(Action::Change, what)
    }

    /// Something goes.
    pub fn remove(what: impl fmt::Display) -> Effect {
        Effect::new(Action::Remove, what)
    }

    /// A command runs. What it does, only it knows.
    pub fn run(command: impl fmt::Display) -> Effect {
        Effect { opaque: true, ..Effect::new(Action::Run, command) }
    }

    /// Which side of it.
    #[must_use]
    pub fn aspect(self, aspect: impl Into<Cow<'static, str>>) -> Effect {
        Effect { aspect: Some(aspect.into()), ..self }
    }

    /// What is there now.
    #[must_use]
    pub fn before(self, before: impl fmt::Display) -> Effect {
        Effect { before: Some(word(before)), ..self }
    }

    /// What is there then.
    #[must_use]
    pub fn after(self, after: impl fmt::Display) -> Effect {
        Effect { after: Some(word(after)), ..self }
    }

    /// Only the kernel, a daemon or a tool can tell whether it comes about.
    #[must_use]
    pub fn presumed(self) -> Effect {
        Effect { presumed: true, ..self }
    }

    /// It is about a secret: what was there and will be there is not told.
    #[must_use]
    pub fn secret(self) -> Effect {
        Effect { private: true, before: None, after: None, texts: None, ..self }
    }

    /// The text before and after. Texts that are too long to be shown are left out.
    #[must_use]
    pub fn texts(self, before: Option<&[u8]>, after: Option<&[u8]>) -> Effect {
        let long = [before, after].into_iter().flatten().any(|text| text.len() > LONGEST_TEXT);
        if long {
            return self;
        }
        let texts = Texts { before: before.map(Box::from), after: after.map(Box::from) };
        Effect { texts: Some(Box::new(texts)), ..self }
    }

    /// The texts, for showing how one becomes the other. Nothing of what is private, which only those may know that come after
    /// it in a plan.
    pub fn shown_texts(&self) -> Option<&Texts> {
        self.texts.as_deref().filter(|_| !self.private)
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.action.word(), Escaped(self.what.as_bytes()))?;
        if let Some(aspect) = &self.aspect {
            write!(f, " {}", Escaped(aspect.as_bytes()))?;
        }
        let shown = |word: &str| Escaped(word.as_bytes()).to_string();
        match (&self.before, &self.after) {
            (Some(before), Some(after)) => write!(f, ": {} -> {}", shown(before), shown(after))?,
            (Some(before), None) => write!(f, ": was {}", shown(before))?,
            (None, Some(after)) => write!(f, ": {}", shown(after))?,
            (None, None) => {}
        }
        if self.private {
            f.write_str(" (not shown: not everybody may read it)")?;
        }
        Ok(())
    }
}

fn word(text: impl fmt::Display) -> Box<str> {
    let mut text = text.to_string();
    if text.len() > LONGEST_WORD {
        let end = (0..=LONGEST_WORD).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text.into()
}

/// The effects of one run.
// A lock, because a run is handed around by shared references and may wait on any thread. Nobody ever waits for it.
#[derive(Debug, Default)]
pub struct Effects(Mutex<Vec<Effect>>);

impl Effects {
    /// One more.
    pub fn push(&self, effect: Effect) {
        let mut effects = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match effects.len() {
            0..MOST => effects.push(effect),
            MOST => effects.push(Effect::new(Action::More, 1)),
            _ => {
                if let Some(last) = effects.last_mut() {
                    let count = last.what.parse::<u64>().unwrap_or(0) + 1;
                    last.what = count.to_string().into();
                }
            }
        }
    }

    /// One instead of what was said of the same before.
    pub fn replace(&self, effect: Effect) {
        let mut effects = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        effects.retain(|known| (&known.what, &known.aspect) != (&effect.what, &effect.aspect));
        drop(effects);
        self.push(effect);
    }

    /// Whether one of them makes a path.
    fn makes(&self, path: &[u8]) -> bool {
        let effects = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |effect: &Effect| without_slash(effect.what.as_bytes()) == without_slash(path);
        effects.iter().any(|effect| effect.action == Action::Create && is_it(effect))
    }

    /// Whether what is missing is made by this run itself.
    pub(crate) fn bring(&self, needed: Needed<'_>) -> bool {
        matches!(needed, Needed::Path(path) if self.makes(path))
    }

    /// None: what was described did not come to be, and is looked at again.
    pub fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// All of them.
    pub fn take(&self) -> Vec<Effect> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Something that a run needs and a look at the host has not found.
#[derive(Clone, Copy, Debug)]
pub enum Needed<'a> {
    /// A file or directory.
    Path(&'a [u8]),
    /// A file of this name, in whatever directory.
    FileName(&'a [u8]),
    /// A user, by name.
    User(&'a [u8]),
    /// A group, by name.
    Group(&'a [u8]),
    /// Nothing at a path where something is, or nothing in a directory.
    Absence(&'a [u8]),
    /// Anything else: only known is whether something before it would change.
    Other,
}

/// What earlier resources of a plan will have done, as far as that is known.
#[derive(Clone, Debug, Default)]
pub struct Foreseen {
    files: HashMap<Vec<u8>, Option<Box<[u8]>>>,
    private: std::collections::HashSet<Vec<u8>>,
    /// Paths that will have been created, without a slash at their end.
    created: std::collections::BTreeSet<Vec<u8>>,
    /// Paths at or below which something will have been removed, without a slash at their end.
    removed: std::collections::BTreeSet<Vec<u8>>,
    /// Users and groups that will have been created.
    accounts: std::collections::HashSet<(Account, Vec<u8>)>,
    /// Paths below which anything may appear: a file system will have been mounted there.
    mounted: Vec<Vec<u8>>,
    /// More will have been created than was described.
    uncounted: bool,
    /// Something will have been removed, or a command will have run, which may make room.
    frees: bool,
    /// What file systems are to hold, by their device numbers.
    file_systems: Arc<Mutex<HashMap<u64, FileSystem>>>,
    before: Before,
    denied: Arc<AtomicBool>,
}

/// What a plan needs of one file system.
#[derive(Debug, Default)]
struct FileSystem {
    /// By path.
    claims: HashMap<Vec<u8>, Claim>,
    total: Claim,
    /// It cannot hold all of it.
    is_overbooked: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Account {
    User,
    Group,
}

/// What is known of everything that a resource comes after.
#[derive(Clone, Copy, Debug, Default)]
pub struct Before {
    /// Something of it would change.
    pub changes: bool,
    /// It includes a command or a package installation, which may bring anything.
    pub brings_anything: bool,
}

impl Foreseen {
    /// The content that a file will have: nothing known, nothing there, or this.
    pub fn file(&self, path: &[u8]) -> Option<Option<&[u8]>> {
        self.files.get(path).map(|content| content.as_deref())
    }

    /// Not everybody will be able to read it.
    pub fn is_private(&self, path: &[u8]) -> bool {
        self.private.contains(path)
    }

    /// Begins a look at the next resource, given what comes before it.
    pub fn begin(&mut self, before: Before) {
        self.before = before;
        self.denied = Arc::default();
    }

    /// Whether something that is missing now may be there when the run needs it.
    pub fn may_come(&self, needed: Needed<'_>) -> bool {
        let comes = match needed {
            Needed::Other => return self.before.changes,
            Needed::Path(path) => self.will_be(path),
            Needed::FileName(name) => {
                let is_it = |path: &Vec<u8>| path.rsplit(|byte| *byte == b'/').next() == Some(name);
                self.created.iter().any(is_it)
            }
            Needed::User(name) => self.has_account(Account::User, name),
            Needed::Group(name) => self.has_account(Account::Group, name),
            Needed::Absence(path) => self.will_be_cleared(path),
        };
        let comes = comes || self.before.brings_anything || self.uncounted;
        if !comes {
            self.denied.store(true, Ordering::Relaxed);
        }
        comes
    }

    /// The present look has asked for something that is missing, and nothing before it would bring it: its error is certain.
    pub fn has_denied(&self) -> bool {
        self.denied.load(Ordering::Relaxed)
    }

    fn has_account(&self, account: Account, name: &[u8]) -> bool {
        self.accounts.contains(&(account, name.to_vec()))
    }

    /// A path will have been created, or something in it, or a file system that it may be in.
    fn will_be(&self, path: &[u8]) -> bool {
        let path = without_slash(path);
        let below = self.created.range(path.to_vec()..).next();
        below.is_some_and(|first| is_inside(path, first))
            || self.created.range([path, b"/"].concat()..).next().is_some_and(|first| is_inside(path, first))
            || self.mounted.iter().any(|point| is_inside(point, path))
    }

    /// A path, or something around or below it, will have been removed, or a file system mounted there.
    fn will_be_cleared(&self, path: &[u8]) -> bool {
        let path = without_slash(path);
        let around = |other: &Vec<u8>| is_inside(other, path) || is_inside(path, other);
        self.removed.iter().any(around) || self.mounted.iter().any(around)
    }

    /// The content of a file of this name that will have been written to one of these directories, the first that has one.
    pub fn file_in(&self, directories: &[&str], name: &str) -> Option<&[u8]> {
        directories.iter().find_map(|directory| self.file(format!("{directory}/{name}").as_bytes()).flatten())
    }

    /// What the plan needs of a file system so far, besides one path.
    pub fn claimed(&self, file_system: u64, except: &[u8]) -> Claim {
        let known = self.file_systems.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(known) = known.get(&file_system) else { return Claim::default() };
        known.total - known.claims.get(except).copied().unwrap_or_default()
    }

    /// Takes note of what a path will need of a file system.
    pub fn claim(&self, file_system: u64, path: &[u8], claim: Claim) {
        let mut known = self.file_systems.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.entry(file_system).or_default();
        let before = known.claims.insert(path.to_vec(), claim).unwrap_or_default();
        known.total = known.total + claim - before;
    }

    /// Takes note that a file system has no room for one more of what is planned. Whether that is certain: nothing before makes room.
    pub fn overbook(&self, file_system: u64) -> bool {
        let mut known = self.file_systems.lock().unwrap_or_else(PoisonError::into_inner);
        known.entry(file_system).or_default().is_overbooked = true;
        !self.frees
    }

    /// Whether a path needs room of a file system that cannot hold all that is planned: which of it fits is then a matter of order.
    pub fn may_not_fit(&self, path: &[u8]) -> bool {
        let known = self.file_systems.lock().unwrap_or_else(PoisonError::into_inner);
        known.values().any(|known| known.is_overbooked && known.claims.contains_key(without_slash(path)))
    }

    /// Takes note of what a resource would do.
    pub fn note(&mut self, effects: &[Effect]) {
        self.frees |= effects.iter().any(|effect| matches!(effect.action, Action::Remove | Action::Run));
        for effect in effects {
            let path = effect.what.as_bytes();
            match (&effect.texts, effect.action) {
                (Some(texts), _) => {
                    if effect.private {
                        self.private.insert(path.to_vec());
                    }
                    self.files.insert(path.to_vec(), texts.after.clone());
                }
                (None, Action::Remove) if path.starts_with(b"/") => {
                    self.files.insert(path.to_vec(), None);
                }
                _ => {}
            }
            self.note_presence(effect);
        }
    }

    fn note_presence(&mut self, effect: &Effect) {
        let what = effect.what.as_bytes();
        match (effect.action, effect.aspect.as_deref()) {
            (Action::More, _) => self.uncounted = true,
            (Action::Create | Action::Change, Some("mount")) => {
                self.mounted.push(without_slash(what).to_vec());
                self.created.insert(without_slash(what).to_vec());
            }
            (Action::Create, Some("user")) => {
                self.accounts.insert((Account::User, what.to_vec()));
                // A new user has a group of the same name, unless the host is set up otherwise.
                self.accounts.insert((Account::Group, what.to_vec()));
            }
            (Action::Create, Some("group")) => {
                self.accounts.insert((Account::Group, what.to_vec()));
            }
            (Action::Create, _) if what.starts_with(b"/") => {
                self.created.insert(without_slash(what).to_vec());
            }
            (Action::Remove, _) if what.starts_with(b"/") => {
                let gone = without_slash(what).to_vec();
                self.created.retain(|path| !is_inside(&gone, path));
                self.removed.insert(gone);
            }
            _ => {}
        }
    }
}

fn without_slash(path: &[u8]) -> &[u8] {
    path.strip_suffix(b"/").unwrap_or(path)
}

fn is_inside(outer: &[u8], inner: &[u8]) -> bool {
    inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_effect_reads_as_a_line_and_back_from_json() {
        let effect = Effect::change("/etc/motd").aspect("mode").before("0644").after("0600");
        assert_eq!(effect.to_string(), "change /etc/motd mode: 0644 -> 0600");
        let json = serde_json::to_string(&effect).unwrap();
        assert_eq!(
            json,
            r#"{"action":"change","what":"/etc/motd","aspect":"mode","before":"0644","after":"0600"}"#
        );
        assert_eq!(serde_json::from_str::<Effect>(&json).unwrap(), effect);
    }

    #[test]
    fn a_secret_is_not_told_whatever_was_said_of_it() {
        let private = Effect { private: true, ..Effect::change("x").texts(None, Some(b"hunter5")) };
        assert!(private.shown_texts().is_none() && !format!("{private} {private:?}").contains("hunter"));
        assert!(!serde_json::to_string(&private).unwrap().contains("hunter"));
        let effect =
            Effect::change("x").before("hunter2").after("hunter3").secret().texts(None, Some(b"hunter4"));
        assert!(!format!("{effect} {effect:?}").contains("hunter"));
    }

    #[test]
    fn more_than_can_be_told_is_counted() {
        let effects = Effects::default();
        (0..MOST + 7).for_each(|n| effects.push(Effect::create(n)));
        let told = effects.take();
        assert_eq!(told.len(), MOST + 1);
        assert_eq!(told.last().map(|last| (last.action, &*last.what)), Some((Action::More, "7")));
    }

    #[test]
    fn what_is_missing_may_come_only_if_something_before_would_bring_it() {
        let mut foreseen = Foreseen::default();
        let path = |foreseen: &Foreseen, path: &str| foreseen.may_come(Needed::Path(path.as_bytes()));
        assert!(!path(&foreseen, "/a") && foreseen.has_denied());
        foreseen.begin(Before::default());
        foreseen.note(&[
            Effect::create("/a/b/").aspect("directory"),
            Effect::create("/a/b-c"),
            Effect::create("joe").aspect("user"),
            Effect::create("/m").aspect("mount"),
        ]);
        for there in ["/a", "/a/", "/a/b", "/a/b/", "/m/x/y"] {
            assert!(path(&foreseen, there), "{there}");
        }
        assert!(foreseen.may_come(Needed::User(b"joe")) && foreseen.may_come(Needed::Group(b"joe")));
        assert!(!foreseen.has_denied() && !foreseen.may_come(Needed::Other));
        assert!(
            !path(&foreseen, "/a/b/c") && !path(&foreseen, "/b") && !foreseen.may_come(Needed::User(b"j"))
        );
        foreseen.note(&[Effect::remove("/a/b").aspect("directory")]);
        assert!(!path(&foreseen, "/a/b"));
        foreseen.begin(Before { changes: true, brings_anything: false });
        assert!(!path(&foreseen, "/b") && foreseen.may_come(Needed::Other));
        foreseen.begin(Before { changes: true, brings_anything: true });
        assert!(path(&foreseen, "/b") && !foreseen.has_denied());

        let mut foreseen = Foreseen::default();
        foreseen.note(&[Effect::remove("/d/x").aspect("file")]);
        foreseen.begin(Before { changes: true, brings_anything: false });
        for (there, is_cleared) in
            [("/d", true), ("/d/", true), ("/d/x/y", true), ("/d/y", false), ("/e", false)]
        {
            assert_eq!(foreseen.may_come(Needed::Absence(there.as_bytes())), is_cleared, "{there}");
        }
    }

    #[test]
    fn what_files_need_is_summed_by_file_system_and_counted_once_for_each_path() {
        let mut foreseen = Foreseen::default();
        let claim = |bytes, files| Claim { bytes, files };
        foreseen.claim(1, b"/a", claim(10, 1));
        foreseen.claim(1, b"/b", claim(-3, 0));
        foreseen.claim(2, b"/m/a", claim(5, 1));
        foreseen.claim(1, b"/a", claim(20, 1));
        assert_eq!(foreseen.claimed(1, b"/c"), claim(17, 1));
        assert_eq!(foreseen.claimed(1, b"/a"), claim(-3, 0));
        assert!(!foreseen.may_not_fit(b"/a") && foreseen.overbook(1));
        assert!(
            foreseen.may_not_fit(b"/a") && !foreseen.may_not_fit(b"/c") && !foreseen.may_not_fit(b"/m/a")
        );
        foreseen.note(&[Effect::remove("/d").aspect("file")]);
        assert!(!foreseen.overbook(1), "what is removed makes room");
    }

    #[test]
    fn what_acts_on_a_terminal_is_escaped() {
        assert!(!Effect::create("a\u{1b}[31m\nb").to_string().contains(['\u{1b}', '\n']));
    }
}
