//! Editing a text file that other people and programs edit, too.
//!
//! Invariants
//! - The file is replaced in one step, and only if it still is what was read; otherwise it is read again.
//! - Two resources of this process never edit one file at the same time, so no number of them can starve each other.
//! - A file that was written a moment ago is left to its writer until it is quiet: who truncates a file and then writes it
//!   would otherwise write into what has just been replaced, and all but our part would be lost.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use mgmt_resource::{Checked, Context, Effect, Error, Needed, Result};
use mgmt_sys::ManagedPath;
use mgmt_sys::dir::Parent;
use mgmt_sys::error::{Cause, Escaped};
use mgmt_sys::handle::Attributes;
use mgmt_sys::replace::{Expect, InPlace, Replacement};
use mgmt_sys::stat::{self, Stat};

/// The longest file that is edited.
const LONGEST: u64 = 64 << 20;
/// How often a file that changes under our hands is looked at again.
const ATTEMPTS: usize = 5;
/// How long a file must not have been written before it is replaced.
const QUIET: Duration = Duration::from_millis(100);
/// How long that is waited for. A file that is written all the time never is quiet.
const PATIENCE: Duration = Duration::from_secs(2);

/// What is to become of a content.
type Change<'a> = dyn FnMut(Option<&[u8]>) -> Option<Vec<u8>> + 'a;

/// A file, and how it is made if it is not there.
pub(crate) struct TextFile {
    pub(crate) path: ManagedPath,
    /// User and group of a new file, if they are not ours.
    pub(crate) owner: Option<(u32, u32)>,
    /// The mode of a new file.
    pub(crate) mode: u32,
    /// What to do about a file that cannot be renamed over, such as one that is bound into a container.
    pub(crate) in_place: InPlace,
}

impl TextFile {
    /// Looks at the content, which is nothing if there is no file, and replaces it by what `change` gives. `change` gives
    /// nothing if all is right. Blocks.
    pub(crate) fn edit(
        &self,
        cx: &Context<'_>,
        mut change: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>>,
    ) -> Result<Checked> {
        let mut ours = alone(&self.path);
        let patient_until = Instant::now() + PATIENCE;
        let mut attempts = 0;
        loop {
            let patient = Instant::now() < patient_until;
            match self.once(cx, *ours, patient, &mut change) {
                Ok(Found::Right) => return Ok(Checked::Right),
                Ok(Found::Wrong) => return Ok(Checked::Changed),
                Ok(Found::Replaced(stat)) => {
                    *ours = Some(stat);
                    return Ok(Checked::Changed);
                }
                Ok(Found::Busy) => std::thread::sleep(QUIET / 4),
                Err(error) if (error.is_raced() || error.is_exists()) && attempts < ATTEMPTS => attempts += 1,
                Err(error) => return Err(explain(&error)),
            }
            cx.checkpoint()?;
        }
    }

    /// The content now. Nothing if there is no file. Blocks.
    pub(crate) fn read(&self) -> Result<Option<Vec<u8>>> {
        let read = || {
            let parent = Parent::open(&self.path)?;
            parent.open_regular(self.path.file_name().unwrap_or_default())?.read(LONGEST)
        };
        match read() {
            Ok(content) => Ok(Some(content)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(explain(&error)),
        }
    }

    fn once(
        &self,
        cx: &Context<'_>,
        ours: Option<Stat>,
        patient: bool,
        change: &mut Change<'_>,
    ) -> mgmt_sys::Result<Found> {
        let parent = match Parent::open(&self.path) {
            Ok(parent) => parent,
            Err(error) if matches!(error.cause(), Cause::Missing(_) | Cause::NotADirectory(..)) => {
                let old = self.foreseen(cx);
                let Some(new) = change(old.as_deref()) else { return Ok(Found::Right) };
                return match error.cause() {
                    // Another resource may be about to make it, and only a run that changes things can tell.
                    Cause::Missing(missing) if cx.may_come(Needed::Path(missing)) => {
                        self.describe(cx, old.as_deref(), &new, None);
                        Ok(Found::Wrong)
                    }
                    _ => Err(error),
                };
            }
            Err(error) => return Err(error),
        };
        // The root is a directory, and no text.
        let name = self.path.file_name().unwrap_or_default();
        let (old, seen) = match parent.open_regular(name) {
            Ok(file) => (Some(file.read(LONGEST)?), Some(*file.stat())),
            Err(error) if error.is_not_found() => (None, None),
            Err(error) => return Err(error),
        };
        let old = match self.foreseen(cx) {
            Some(foreseen) => Some(foreseen),
            None => old,
        };
        let Some(new) = change(old.as_deref()) else { return Ok(Found::Right) };
        if !cx.apply {
            let length = new.len() as u64;
            match self.in_place == InPlace::Refuse || seen.is_none() {
                true => {
                    let present = seen.map(|stat| stat.size);
                    crate::support::foresee::replaceable(cx, &parent, name, length, present)?;
                }
                // What may be written into needs no room beside it.
                false => crate::support::foresee::rewritable(cx, &parent, name)?,
            }
            self.describe(cx, old.as_deref(), &new, seen);
            return Ok(Found::Wrong);
        }
        if patient && seen.is_some_and(|seen| !is_quiet(&seen, ours)) {
            return Ok(Found::Busy);
        }
        let replaced = self.replace(cx, &parent, name, &new, seen)?;
        self.describe(cx, old.as_deref(), &new, seen);
        Ok(Found::Replaced(replaced))
    }

    /// What a resource before this one will have put there, while a plan is made.
    pub(crate) fn foreseen(&self, cx: &Context<'_>) -> Option<Vec<u8>> {
        cx.foreseen_file(self.path.as_bytes()).flatten().map(<[u8]>::to_vec)
    }

    fn describe(&self, cx: &Context<'_>, old: Option<&[u8]>, new: &[u8], seen: Option<Stat>) {
        let mode = seen.map_or(self.mode, |stat| stat.mode);
        let private = cx.foreseen.is_some_and(|foreseen| foreseen.is_private(self.path.as_bytes()));
        let public = self.foreseen(cx).is_some() && !private;
        let mode = if seen.is_none() && public { 0o644 } else { mode };
        cx.describe(edited(self.path.as_bytes(), old, Some(new), mode));
    }

    fn replace(
        &self,
        cx: &Context<'_>,
        parent: &Parent,
        name: &[u8],
        content: &[u8],
        seen: Option<Stat>,
    ) -> mgmt_sys::Result<Stat> {
        let (mut new, attributes, expect) = match seen {
            // Owner, mode and all else are those of the file that is replaced.
            Some(stat) => {
                let new = Replacement::begin(parent, name, self.in_place)?;
                (new, Attributes::default(), Expect::Same(stat))
            }
            None => {
                let attributes = Attributes {
                    owner: self.owner.map(|(user, _)| user),
                    group: self.owner.map(|(_, group)| group),
                    mode: Some(self.mode),
                    label: None,
                };
                let new = Replacement::begin_new(parent, name, self.in_place, self.mode)?;
                (new, attributes, Expect::Absent)
            }
        };
        new.write_all(content)?;
        new.commit(&attributes, expect, cx.host.durability)
    }
}

/// What becomes of a text file. What is in one that not everybody may read is not told.
pub(crate) fn edited(path: &[u8], old: Option<&[u8]>, new: Option<&[u8]>, mode: u32) -> Effect {
    let path = String::from_utf8_lossy(path);
    let bytes = |text: &[u8]| match text.len() {
        1 => "1 byte".to_owned(),
        length => format!("{length} bytes"),
    };
    let effect = match (old, new) {
        (Some(old), Some(new)) => Effect::change(path).aspect("content").before(bytes(old)).after(bytes(new)),
        (None, Some(new)) => Effect::create(path).aspect("file").after(bytes(new)),
        (_, None) => Effect::change(path).aspect("content"),
    };
    Effect { private: mode & 0o004 == 0, ..effect.texts(old, new) }
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
}

/// Whether nobody else has written the file for a while.
fn is_quiet(seen: &Stat, ours: Option<Stat>) -> bool {
    if ours.is_some_and(|ours| ours.same_version(seen)) {
        return true;
    }
    let written = Duration::new(u64::try_from(seen.modified.seconds).unwrap_or(0), seen.modified.nanoseconds);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    // A time in the future says nothing; our patience has an end.
    now.checked_sub(written).is_some_and(|age| age > QUIET)
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

/// Tells an error with what can be done about it.
pub(crate) fn explain(error: &mgmt_sys::Error) -> Error {
    let told = Error::new(error);
    match error.cause() {
        Cause::Missing(directory) => told.with_hint(format_args!("declare file[{}/]", Escaped(directory))),
        Cause::NotARegularFile(stat::Kind::Symlink) => {
            told.with_hint("name the file that the link points to")
        }
        Cause::NotARegularFile(_) => told.with_hint("only regular files can be edited"),
        Cause::TooLarge(_) => told.with_hint("only files that people could edit are edited"),
        Cause::CannotRenameOver => {
            told.with_hint("manage the file that is mounted there; here it cannot be replaced in one step")
        }
        Cause::Raced => {
            told.with_hint("find out who else writes there; two resources or programs may be at odds")
        }
        _ => told,
    }
}
