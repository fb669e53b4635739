//! `line`: lines of a file that somebody else may have written.
//!
//! [`Line`] is the declaration. `edit` finds, adds and removes a block of lines in some bytes and knows nothing of files;
//! `home` reads a path that begins with a tilde. The file itself is read and replaced here.
//!
//! Invariants
//! - The file is replaced in one step, and only if it still is what was read; otherwise it is read again.
//! - Nothing but the declared lines changes: not the ends of other lines, not what follows the last newline.
//! - Two resources of this process never edit one file at the same time, so no number of them can starve each other.
//! - A file that was written a moment ago is left to its writer until it is quiet: who truncates a file and then writes it
//!   would otherwise write into what has just been replaced, and all but our lines would be lost.
//!
//! `pattern` finds the place of one line by regular expressions.

mod edit;
mod home;
mod pattern;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use mgmt_resource::{
    Checked, Context, Error, Identity, Invalid, Kind, Needed, Nothing, Order, Resource, Result, Want, Watch,
};
use mgmt_sys::ManagedPath;
use mgmt_sys::dir::Parent;
use mgmt_sys::error::Cause;
use mgmt_sys::handle::Attributes;
use mgmt_sys::replace::{Expect, InPlace, Replacement};
use mgmt_sys::stat::{self, Stat};
use mgmt_value::Str;

use self::edit::Block;
use self::home::Located;
use self::pattern::{Ambiguous, Patterns};
use crate::support::text_file;

/// The longest file that is edited.
const LONGEST: u64 = 64 << 20;
/// How often a file that changes under our hands is looked at again.
const ATTEMPTS: usize = 5;
/// How long a file must not have been written before it is replaced.
const QUIET: Duration = Duration::from_millis(100);
/// How long that is waited for. A file that is written all the time never is quiet.
const PATIENCE: Duration = Duration::from_secs(2);
/// The mode of a file that we make. Its content is not ours to show around.
const NEW_MODE: u32 = 0o600;

/// Keeps lines in a file, or keeps them out of it, and leaves the rest of the file alone.
///
/// A line is there if it is in the file exactly as it is written, white space included; how lines end, with or without
/// a carriage return, does not matter. Several lines have to stand one after the other. Missing lines are added at the
/// end of the file, which gets a newline before them if it needs one; a file that does not exist is made, readable by
/// its owner alone. Unwanted lines are removed wherever they are.
///
/// The file is replaced in one step and keeps its owner, mode and attributes. A symbolic link is not followed. Somebody
/// else who has just written to the file is given a tenth of a second to finish.
///
/// ```mcl
/// line "the printer" {
///     file => "/etc/hosts",
///     state => "exists",
///     content => "192.0.2.7 printer",
/// }
/// ```
///
/// With `match`, one line takes the place of another:
///
/// ```mcl
/// line "root stays out" {
///     file => "/etc/ssh/sshd_config",
///     state => "exists",
///     content => "PermitRootLogin no",
///     match => "^#?PermitRootLogin ",
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Resource)]
#[resource(kind = "line", edges, receive, blocking)]
pub struct Line {
    /// The file: an absolute path, or one that begins with `~/` or `~user/` and is found in that home directory. A new
    /// file in the home of a named user belongs to that user.
    pub file: Str,
    /// `exists`: the lines are to be in the file. `absent`: they are to be nowhere in it.
    pub state: Str,
    /// The line, or several lines with newlines between them. A newline at the end makes no difference. If it is empty,
    /// nothing is done.
    pub content: Str,
    /// Leave out white space at the beginning and at the end of `content`.
    pub trim: bool,
    /// A regular expression. Where `content`, which is one line then, is nowhere in the file, it takes the place of the line that matches.
    /// Only this implementation has it.
    pub r#match: Str,
    /// A regular expression. A new line goes behind the line that matches, instead of to the end. Only this implementation has it.
    pub after: Str,
    /// Several lines may match. Otherwise that is an error. Only this implementation has it.
    pub multiple: bool,
    /// A line that matches gives way. When false, it is as good as the wanted one. Only this implementation has it.
    pub replace: bool,
    /// Every line that matches gives way, also where the wanted one is there. Only this implementation has it.
    pub replaceall: bool,
    /// Where nothing matches, add the line. Only this implementation has it.
    pub append: bool,
    /// With `absent`: remove what matches, and not what is `content`. Only this implementation has it.
    pub removematches: bool,
}

impl Default for Line {
    fn default() -> Line {
        Line {
            file: Str::EMPTY,
            state: Str::EMPTY,
            content: Str::EMPTY,
            trim: false,
            r#match: Str::EMPTY,
            after: Str::EMPTY,
            multiple: false,
            replace: true,
            replaceall: false,
            append: true,
            removematches: false,
        }
    }
}

/// What a valid `state` means.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Exists,
    Absent,
}

impl Kind for Line {
    type State = ();
    type Sends = Nothing;

    fn validate(&self, _: &Str) -> Result<(), Invalid> {
        let file = |message: String| Err(Invalid::field("file", message));
        if self.file.is_empty() {
            return file("is missing; expected the path of the file that the lines are in".into());
        }
        if !self.file.starts_with(b"~") {
            let path = ManagedPath::new(&self.file);
            path.map_err(|error| Invalid::field("file", error.to_string()))?;
        } else if self.file.contains(&0) || !self.file.contains(&b'/') {
            return file(format!("expected `~/` or `~user/` and a path, found {:?}", self.file));
        }
        if self.file.ends_with(b"/") {
            return file(format!("{:?} ends in a slash, which means a directory", self.file));
        }
        self.patterns()?;
        self.wanted_state().map(|_| ())
    }

    fn watches(&self, _: &Str) -> Vec<Watch> {
        match home::locate(&self.file) {
            Ok(located) => {
                vec![Watch::Path { path: located.path.as_bytes().into(), recursive: false }]
            }
            // The engine tries again, as the metaparameters say: the account may come later.
            Err(_) => {
                let file = self.file.clone();
                let start = move |_: &mgmt_resource::Host| match home::locate(&file) {
                    Ok(_) => {
                        Err(Error::new(format_args!("the home directory in {file:?} has just appeared")))
                    }
                    Err(error) => Err(error),
                };
                vec![Watch::Stream { key: self.file.clone(), start: Arc::new(start) }]
            }
        }
    }

    async fn check_apply(&self, (): &mut (), cx: &mut Context<'_>) -> Result<Checked> {
        let state = self.wanted_state().map_err(Error::new)?;
        let patterns = self.patterns().map_err(Error::new)?;
        let edit = match Block::new(&self.content, self.trim) {
            None if !self.removematches => return Ok(Checked::Right),
            block => How { block, patterns, line: self.single_line() },
        };
        let located = home::locate(&self.file)?;
        let mut ours = alone(&located.path);
        let patient_until = Instant::now() + PATIENCE;
        let mut attempts = 0;
        loop {
            let edit = Edit { state, how: &edit, located: &located, ours: *ours, cx };
            match edit.once(Instant::now() < patient_until) {
                Ok(Found::Right) => return Ok(Checked::Right),
                Ok(Found::Wrong) => return Ok(Checked::Changed),
                Ok(Found::Replaced(stat)) => {
                    *ours = Some(stat);
                    return Ok(Checked::Changed);
                }
                Ok(Found::Busy) => std::thread::sleep(QUIET / 4),
                Ok(Found::Ambiguous(Ambiguous { field, count })) => {
                    let message = format!("{count} lines of {} match `{field}`, and one may", located.path);
                    return Err(
                        Error::new(message).with_hint("make the pattern stricter, or set `multiple => true`")
                    );
                }
                Err(error) if (error.is_raced() || error.is_exists()) && attempts < ATTEMPTS => attempts += 1,
                Err(error) => return Err(explain(&error)),
            }
            cx.checkpoint()?;
        }
    }

    fn wants(&self, _: &Str) -> Vec<Want> {
        let Ok(path) = ManagedPath::new(&self.file) else { return Vec::new() };
        let path = Str::from(path.as_bytes());
        let before = vec![Identity::Path(path.clone()), Identity::PackageFile(path.clone())];
        vec![Want::Each(Order::Before, before), Want::ParentOf(path)]
    }
}

impl Line {
    /// The line without its end.
    fn single_line(&self) -> &[u8] {
        let content: &[u8] = if self.trim { self.content.trim_ascii() } else { &self.content };
        content.strip_suffix(b"\n").unwrap_or(content)
    }

    /// How the place of the line is found, if not by itself.
    fn patterns(&self) -> Result<Option<Patterns>, Invalid> {
        let read = |field: &'static str, pattern: &Str| match pattern.is_empty() {
            true => Ok(None),
            false => pattern::compile(&pattern.to_text()).map(Some).map_err(|why| Invalid::field(field, why)),
        };
        let (matching, after) = (read("match", &self.r#match)?, read("after", &self.after)?);
        if matching.is_none() && (self.removematches || self.replaceall || !self.replace || !self.append) {
            return Err(Invalid::field("match", "is missing"));
        }
        if matching.is_none() && after.is_none() {
            return Ok(None);
        }
        if self.single_line().contains(&b'\n') {
            return Err(Invalid::field(
                "content",
                "is more than one line, which cannot take the place of one",
            ));
        }
        Ok(Some(Patterns {
            matching,
            after,
            multiple: self.multiple,
            replace: self.replace,
            replace_all: self.replaceall,
            append: self.append,
            remove_matches: self.removematches,
        }))
    }

    fn wanted_state(&self) -> Result<State, Invalid> {
        match self.state.as_bytes() {
            b"exists" => Ok(State::Exists),
            b"absent" => Ok(State::Absent),
            b"" => Err(Invalid::field("state", "is missing; expected `exists` or `absent`")),
            _ => {
                Err(Invalid::field("state", format!("expected `exists` or `absent`, found {:?}", self.state)))
            }
        }
    }
}

/// What one attempt found and did.
enum Found {
    Right,
    /// Not right, and only looked at.
    Wrong,
    /// Put right; this is the file now.
    Replaced(Stat),
    /// Not right, but somebody else may still be writing.
    Busy,
    /// It is not known which line is meant.
    Ambiguous(Ambiguous),
}

/// What is to be in a file, or is not.
struct How<'a> {
    block: Option<Block<'a>>,
    patterns: Option<Patterns>,
    /// With patterns: the line.
    line: &'a [u8],
}

impl How<'_> {
    /// The text as it is to be. Nothing if that is as it is.
    fn edited(&self, state: State, text: &[u8]) -> Result<Option<Vec<u8>>, Ambiguous> {
        match (&self.patterns, &self.block, state) {
            (Some(patterns), _, State::Exists) => patterns.present(self.line, text),
            (Some(patterns), _, State::Absent) => patterns.absent(self.line, text),
            (None, Some(block), State::Exists) => Ok((!block.is_in(text)).then(|| block.added_to(text))),
            (None, Some(block), State::Absent) => Ok(block.removed_from(text)),
            (None, None, _) => Ok(None),
        }
    }
}

/// What has to be done to a file.
struct Edit<'a, 'c> {
    state: State,
    how: &'a How<'a>,
    located: &'a Located,
    /// What we made of the file the last time.
    ours: Option<Stat>,
    cx: &'a Context<'c>,
}

impl Edit<'_, '_> {
    fn once(&self, patient: bool) -> mgmt_sys::Result<Found> {
        let parent = match Parent::open(&self.located.path) {
            Ok(parent) => parent,
            Err(error) => {
                return match error.cause() {
                    Cause::Missing(_) | Cause::NotADirectory(..) if self.state == State::Absent => {
                        Ok(Found::Right)
                    }
                    // Another resource may be about to make it, and only a run that changes things can tell.
                    Cause::Missing(missing) if self.cx.may_come(Needed::Path(missing)) => {
                        let old = self.foreseen();
                        let text = old.as_deref().unwrap_or_default();
                        match self.how.edited(self.state, text) {
                            Ok(new) => {
                                self.describe(old.as_deref(), new.as_deref().unwrap_or(text), None);
                                Ok(if new.is_some() { Found::Wrong } else { Found::Right })
                            }
                            Err(ambiguous) => Ok(Found::Ambiguous(ambiguous)),
                        }
                    }
                    _ => Err(error),
                };
            }
        };
        // The root is a directory, and refused before.
        let name = self.located.path.file_name().unwrap_or_default();
        let (old, seen) = match parent.open_regular(name) {
            Ok(file) => (file.read(LONGEST)?, Some(*file.stat())),
            Err(error) if error.is_not_found() => (Vec::new(), None),
            Err(error) => return Err(error),
        };
        let old = self.foreseen().unwrap_or(old);
        let new = match self.how.edited(self.state, &old) {
            Ok(None) => return Ok(Found::Right),
            Ok(Some(new)) => new,
            Err(ambiguous) => return Ok(Found::Ambiguous(ambiguous)),
        };
        let described = (seen.is_some() || self.foreseen().is_some()).then_some(&*old);
        if !self.cx.apply {
            crate::support::foresee::replaceable(self.cx, &parent, name, new.len() as u64)?;
            self.describe(described, &new, seen);
            return Ok(Found::Wrong);
        }
        if patient && seen.is_some_and(|seen| !self.is_quiet(&seen)) {
            return Ok(Found::Busy);
        }
        let placed = self.replace(&parent, name, &new, seen)?;
        self.describe(described, &new, seen);
        self.cx.info(match self.state {
            State::Exists => "added",
            State::Absent => "removed",
        });
        Ok(Found::Replaced(placed))
    }

    /// What a resource before this one will have put there, while a plan is made.
    fn foreseen(&self) -> Option<Vec<u8>> {
        self.cx.foreseen_file(self.located.path.as_bytes()).flatten().map(<[u8]>::to_vec)
    }

    fn describe(&self, old: Option<&[u8]>, new: &[u8], seen: Option<Stat>) {
        let path = self.located.path.as_bytes();
        let private = self.cx.foreseen.is_some_and(|foreseen| foreseen.is_private(path));
        let new_mode = if self.foreseen().is_some() && !private { 0o644 } else { NEW_MODE };
        let mode = seen.map_or(new_mode, |stat| stat.mode);
        self.cx.describe(text_file::edited(self.located.path.as_bytes(), old, Some(new), mode));
    }

    /// Whether nobody else has written the file for a while.
    fn is_quiet(&self, seen: &Stat) -> bool {
        if self.ours.is_some_and(|ours| ours.same_version(seen)) {
            return true;
        }
        let written =
            Duration::new(u64::try_from(seen.modified.seconds).unwrap_or(0), seen.modified.nanoseconds);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        // A time in the future says nothing; our patience has an end.
        now.checked_sub(written).is_some_and(|age| age > QUIET)
    }

    fn replace(
        &self,
        parent: &Parent,
        name: &[u8],
        content: &[u8],
        seen: Option<Stat>,
    ) -> mgmt_sys::Result<Stat> {
        let (mut new, attributes, expect) = match seen {
            // Owner, mode and all else are those of the file that is replaced.
            Some(stat) => {
                let new = Replacement::begin(parent, name, InPlace::Refuse)?;
                (new, Attributes::default(), Expect::Same(stat))
            }
            None => {
                let owner = self.located.owner;
                let attributes = Attributes {
                    owner: owner.map(|(user, _)| user),
                    group: owner.map(|(_, group)| group),
                    mode: Some(NEW_MODE),
                    label: None,
                };
                let new = Replacement::begin_new(parent, name, InPlace::Refuse, NEW_MODE)?;
                (new, attributes, Expect::Absent)
            }
        };
        new.write_all(content)?;
        new.commit(&attributes, expect, self.cx.host.durability)
    }
}

/// Waits until no other resource of this process edits the file, and gives what the last edit left.
fn alone(path: &ManagedPath) -> MutexGuard<'static, Option<Stat>> {
    // One lock for several paths now and then costs a moment; a table of all paths would grow for ever.
    static EDITED: [Mutex<Option<Stat>>; 64] = [const { Mutex::new(None) }; 64];
    let mut hasher = DefaultHasher::new();
    path.hash(&mut hasher);
    let slot = (hasher.finish() % EDITED.len() as u64) as usize;
    // Whatever it holds was once true, and is compared with what is.
    EDITED[slot].lock().unwrap_or_else(PoisonError::into_inner)
}

fn explain(error: &mgmt_sys::Error) -> Error {
    let told = Error::new(error);
    match error.cause() {
        Cause::Missing(directory) => {
            told.with_hint(format_args!("declare file[{}/]", mgmt_sys::error::Escaped(directory)))
        }
        Cause::NotARegularFile(stat::Kind::Symlink) => {
            told.with_hint("name the file that the link points to")
        }
        Cause::NotARegularFile(_) => told.with_hint("only regular files have lines"),
        Cause::TooLarge(_) => told.with_hint("lines are for files that people could edit"),
        Cause::CannotRenameOver => {
            told.with_hint("manage the file that is mounted there; here it cannot be replaced in one step")
        }
        Cause::Raced => {
            told.with_hint("find out who else writes there; two resources or programs may be at odds")
        }
        _ => told,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(file: &str, state: &str) -> Line {
        Line { file: file.into(), state: state.into(), content: "a".into(), ..Line::default() }
    }

    fn refused(line: &Line) -> String {
        Kind::validate(line, &"name".into()).unwrap_err().to_string()
    }

    #[test]
    fn what_cannot_be_a_file_is_refused_with_a_reason() {
        assert!(refused(&line("", "exists")).contains("is missing"));
        assert!(refused(&line("etc/motd", "exists")).contains("must start with a slash"));
        assert!(refused(&line("/etc/", "exists")).contains("ends in a slash"));
        assert!(refused(&line("~/x/", "exists")).contains("ends in a slash"));
        assert!(refused(&line("~joe", "exists")).contains("`~user/`"));
        assert!(refused(&line("/a\0b", "exists")).contains("NUL"));
        assert!(refused(&line("~/a\0b", "exists")).contains("`~user/`"));
        for fine in ["/etc/motd", "~/.profile", "~joe/.profile", "~no-such-user/x"] {
            assert!(Kind::validate(&line(fine, "absent"), &"name".into()).is_ok(), "{fine}");
        }
    }

    #[test]
    fn the_state_is_one_of_two_words() {
        assert!(refused(&line("/a", "")).contains("is missing"));
        assert!(refused(&line("/a", "present")).contains("found \"present\""));
    }

    #[test]
    fn the_file_its_package_and_its_directory_come_first() {
        let wants = Kind::wants(&line("/etc//x/../motd", "exists"), &"name".into());
        let path = Str::from("/etc/motd");
        let before = vec![Identity::Path(path.clone()), Identity::PackageFile(path.clone())];
        assert_eq!(wants, [Want::Each(Order::Before, before), Want::ParentOf(path)]);
    }
}
