//! Through a directory, and out with what is old or large.

use std::collections::HashSet;
use std::rc::Rc;
use std::time::{SystemTime, UNIX_EPOCH};

use mgmt_resource::{Checked, Context, Effect, Error, Result};
use mgmt_sys::ManagedPath;
use mgmt_sys::dir::Parent;
use mgmt_sys::error::Escaped;
use mgmt_sys::replace::{is_fresh_temporary_of_another_program, is_temporary};
use mgmt_sys::stat::{Kind, Stat};
use mgmt_sys::tree::{Entry, Limits, list, same_mount};

use super::pattern::is_like;
use super::{By, Tidy};
use crate::support::claimed_below::{ClaimedBelow, beginnings, begins_like};
use crate::support::foresee;

/// How long a file stays that this program writes in order to rename it.
const OUR_TEMPORARY_GRACE_SECONDS: i64 = 60;

/// Removes what is to go, or says what would.
pub(super) fn tidy(tidy: &Tidy, by: By, path: &ManagedPath, cx: &Context<'_>) -> Result<Checked> {
    let Some(name) = path.file_name() else { return Ok(Checked::Right) };
    let above = match Parent::open(path) {
        Ok(above) => above,
        // Where nothing is, nothing is to be tidied.
        Err(error) if error.is_parent_missing() => return Ok(Checked::Right),
        Err(error) => return Err(Error::new(error)),
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let now = i64::try_from(now).unwrap_or(i64::MAX);
    let kept = Kept::of(tidy, path, cx);
    let mut walk = Walk { tidy, path, by, now, kept, cx, levels: Vec::new(), removed: 0 };
    walk.everything(above, name)?;
    match walk.removed {
        0 => Ok(Checked::Right),
        count => {
            if cx.apply {
                cx.info(format_args!("removed {count}"));
            }
            Ok(Checked::Changed)
        }
    }
}

struct Walk<'a, 'c> {
    tidy: &'a Tidy,
    path: &'a ManagedPath,
    by: By,
    /// Seconds since 1970.
    now: i64,
    kept: Kept,
    cx: &'a Context<'c>,
    /// Directories that are being gone through, each in the one before.
    levels: Vec<Level>,
    removed: u64,
}

/// What stays.
struct Kept {
    paths: HashSet<Vec<u8>>,
    /// Those of which all below stays, too.
    trees: HashSet<Vec<u8>>,
    /// Paths that stand for all that begin like them, without the `*` at their ends.
    beginnings: Vec<Vec<u8>>,
    /// No part of the program may declare others.
    is_complete: bool,
    /// Of the graph that all this is from.
    version: u64,
}

impl Kept {
    fn of(tidy: &Tidy, path: &ManagedPath, cx: &Context<'_>) -> Kept {
        // Asked first, so that no change in between gets lost.
        let version = cx.claims_version();
        let (mut paths, mut trees): (HashSet<Vec<u8>>, HashSet<Vec<u8>>) = Default::default();
        let mut below = ClaimedBelow::new(path);
        for kept in &tidy.keep {
            let is_tree = kept.ends_with(b"/");
            below.places(kept, |place| {
                trees.extend(Some(&place).filter(|_| is_tree).cloned());
                paths.insert(place);
            });
        }
        let is_complete = cx.claimed_paths(|kept| {
            below.places(kept, |place| {
                paths.insert(place);
            });
        });
        Kept { beginnings: beginnings(&paths), paths, trees, is_complete, version }
    }
}

struct Level {
    here: Rc<Parent>,
    name: Box<[u8]>,
    /// It is to go, if it is empty.
    goes: bool,
    pending: Vec<Entry>,
    /// Something stays in it.
    is_kept: bool,
}

impl Walk<'_, '_> {
    fn everything(&mut self, above: Parent, name: &[u8]) -> Result<()> {
        let above = Rc::new(above);
        self.meet(&above, name)?;
        loop {
            self.cx.checkpoint()?;
            let Some(level) = self.levels.last_mut() else { return Ok(()) };
            if let Some(entry) = level.pending.pop() {
                let here = Rc::clone(&level.here);
                self.meet(&here, &entry.name)?;
                continue;
            }
            let Some(level) = self.levels.pop() else { return Ok(()) };
            let outside = self.levels.last().map_or(&above, |level| &level.here);
            let outside = Rc::clone(outside);
            if level.goes && !level.is_kept {
                self.remove(&outside, &level.name, Kind::Directory)?;
            } else {
                self.keep();
            }
        }
    }

    /// Looks at one entry: it stays, it goes, or it is gone through first.
    fn meet(&mut self, here: &Rc<Parent>, name: &[u8]) -> Result<()> {
        let Some(stat) = here.lstat_entry(name).map_err(Error::new)? else { return Ok(()) };
        let goes = self.goes(here, name, &stat)?;
        if stat.kind != Kind::Directory {
            return if goes { self.remove(here, name, stat.kind) } else { self.stays() };
        }
        let deepest = if self.tidy.recurse { self.tidy.depth.unwrap_or(u32::MAX) } else { 0 };
        let is_entered = u32::try_from(self.levels.len()).is_ok_and(|depth| depth < deepest);
        let inside = match here.open_dir(name) {
            Ok(inside) => inside,
            Err(error) if error.is_not_found() => return Ok(()),
            Err(error) => return Err(Error::new(error)),
        };
        let is_left = || self.kept.trees.contains(&at(here, name));
        if !self.levels.is_empty() && (is_left() || !same_mount(here, &inside).map_err(Error::new)?) {
            return self.stays();
        }
        // What is not gone through is looked into only to see whether it is empty.
        let entries = match is_entered || goes {
            true => list(&inside, &Limits::default()).map_err(Error::new)?,
            false => return self.stays(),
        };
        let (pending, is_kept) =
            if is_entered { (entries, false) } else { (Vec::new(), !entries.is_empty()) };
        self.levels.push(Level { here: Rc::new(inside), name: name.into(), goes, pending, is_kept });
        Ok(())
    }

    /// Whether an entry is to go, as far as it can be told from itself.
    fn goes(&mut self, here: &Parent, name: &[u8], stat: &Stat) -> Result<bool> {
        let Tidy { age, size, matches, rmdirs, .. } = self.tidy;
        if stat.kind == Kind::Directory && !rmdirs {
            return Ok(false);
        }
        if !matches.is_empty() && !matches.iter().any(|pattern| is_like(name, pattern)) {
            return Ok(false);
        }
        // It is just being written.
        let is_ours = is_temporary(name)
            && self.now.saturating_sub(stat.modified.seconds) < OUR_TEMPORARY_GRACE_SECONDS;
        if is_ours || is_fresh_temporary_of_another_program(name, Some(stat)) {
            return Ok(false);
        }
        // What a resource of a newer graph has just made stays.
        if self.cx.claims_version() != self.kept.version {
            self.kept = Kept::of(self.tidy, self.path, self.cx);
        }
        let path = at(here, name);
        // A link may be the way to something that stays, and what is claimed below a file is a part of it.
        let is_way = || {
            let inside =
                |kept: &Vec<u8>| kept.strip_prefix(&path[..]).is_some_and(|rest| rest.starts_with(b"/"));
            stat.kind != Kind::Directory && self.kept.paths.iter().any(inside)
        };
        if self.kept.paths.contains(&path) || begins_like(&path, &self.kept.beginnings) || is_way() {
            return Ok(false);
        }
        if let Some(age) = *age {
            let time = match self.by {
                By::Read => here.accessed(name).map_err(Error::new)?,
                By::Written => Some(stat.modified),
                By::Changed => Some(stat.changed),
            };
            let seconds = time.map_or(0, |time| self.now.saturating_sub(time.seconds));
            if u64::try_from(seconds).is_ok_and(|seconds| seconds >= age) {
                return Ok(true);
            }
        }
        Ok(match size {
            Some(size) => stat.size >= *size,
            None => age.is_none(),
        })
    }

    /// Something stays in the directory that is being gone through.
    fn keep(&mut self) {
        if let Some(level) = self.levels.last_mut() {
            level.is_kept = true;
        }
    }

    /// The same, as an outcome.
    #[expect(clippy::unnecessary_wraps, reason = "it is said where others may fail")]
    fn stays(&mut self) -> Result<()> {
        self.keep();
        Ok(())
    }

    fn remove(&mut self, here: &Parent, name: &[u8], kind: Kind) -> Result<()> {
        let path = at(here, name);
        if !self.kept.is_complete {
            return Err(Error::new(format_args!(
                "not removing {}: part of the program has no value yet, and may declare it",
                Escaped(&path)
            )));
        }
        let what = if kind == Kind::Directory { "directory" } else { "file" };
        foresee::removable(self.cx, here, name).map_err(Error::new)?;
        self.cx.describe(Effect::remove(String::from_utf8_lossy(&path)).aspect(what));
        self.removed += 1;
        if !self.cx.apply {
            return Ok(());
        }
        let done = if kind == Kind::Directory { here.rmdir(name) } else { here.unlink(name) };
        match done {
            Err(error) if error.is_not_found() => Ok(()),
            // Somebody has put something into it meanwhile.
            Err(error) if error.is_not_empty() => self.stays(),
            done => done.map_err(Error::new),
        }
    }
}

/// The path of an entry.
fn at(here: &Parent, name: &[u8]) -> Vec<u8> {
    let directory = here.path_bytes();
    let directory = directory.strip_suffix(b"/").unwrap_or(directory);
    [directory, b"/", name].concat()
}
