//! One run: look, decide, change.

use std::time::{Duration, Instant};

use mgmt_resource::{Checked, Context, Effect, Error, Needed};
use mgmt_sys::ManagedPath;
use mgmt_sys::dir::Parent;
use mgmt_sys::error::Cause;
use mgmt_sys::replace::Durability;
use mgmt_sys::stat::{Kind, Stat};
use mgmt_sys::tree::{Limits, list, remove_tree};

use super::attributes::{Wanted, foresee_owner, kept, settle};
use super::content::{self, Content, Place};
use super::declaration::{Declaration, Input, State, Target};
use super::download::Fetched;
use super::effects;
use super::memory::{Memory, Verified};
use super::trouble::{Result, Trouble, directory_missing, in_the_way, not_kept, not_there, unless_gone};
use super::{File, bucket, link, tree};
use crate::support::foresee;

/// How often a path that changes under our hands is looked at again.
const ATTEMPTS: usize = 5;
/// How long a directory that another resource takes care of may be away.
const COMES_BACK: Duration = Duration::from_secs(5);

/// What a run knows.
pub(super) struct Run<'a, 'c> {
    pub(super) wish: &'a Declaration<'a>,
    pub(super) cx: &'a Context<'c>,
    /// What was found for a source that is at an address.
    pub(super) fetched: Option<&'a Fetched>,
}

/// Looks whether the host is as declared and, if allowed, makes it so.
pub(super) fn check(
    file: &File,
    fetched: Option<&Fetched>,
    memory: &mut Memory,
    cx: &Context<'_>,
) -> mgmt_resource::Result<Checked> {
    memory.be_about(file, &cx.id.name);
    let wish = Declaration::read(file, &cx.id.name).map_err(|invalid| {
        let error = Error::new(&invalid);
        match &invalid.hint {
            Some(hint) => error.with_hint(hint),
            None => error,
        }
    })?;
    let verified = &mut memory.verified;
    let run = Run { wish: &wish, cx, fetched };
    for _ in 1..ATTEMPTS {
        match run.once(verified) {
            Err(trouble) if trouble.is_of_a_moment(cx.apply) => {
                cx.effects.clear();
                cx.checkpoint()?;
            }
            done => return done.map_err(|trouble| run.tell(trouble)),
        }
    }
    run.once(verified).map_err(|trouble| run.tell(trouble))
}

impl<'a> Run<'a, '_> {
    /// Whether it is to be made when it is missing.
    pub(super) fn creates(&self) -> bool {
        self.wish.state == State::Exists
    }

    pub(super) fn forces(&self) -> bool {
        self.wish.file.force
    }

    /// Pushes an entry that was made or removed to the disk, as hard as the program wants it.
    pub(super) fn store(&self, parent: &Parent) -> Result<()> {
        if self.cx.host.durability == Durability::Full {
            parent.sync()?;
        }
        Ok(())
    }

    /// Whether another `file` resource is going to make `path`. When only looking, it has not, and will not.
    pub(super) fn is_promised(&self, path: &ManagedPath) -> bool {
        let mut promised = false;
        self.cx.others(|id, other| {
            promised = promised
                || other.as_any().downcast_ref::<File>().is_some_and(|other| {
                    State::read(&other.state) == Some(State::Exists)
                        && other.managed_path(&id.name).is_some_and(|managed| {
                            managed.without_slash() == path.without_slash() || path.contains(&managed)
                        })
                });
        });
        promised
    }

    fn once(&self, verified: &mut Verified) -> Result<Checked> {
        if self.wish.path.is_root() {
            return self.root(verified);
        }
        match &self.wish.target {
            Target::Link(text) => link::check(self, text),
            _ if self.wish.state == State::Absent => self.absent(),
            Target::Directory { source } => self.directory(source.as_ref(), verified),
            Target::File(input) => self.file(input, verified),
        }
    }

    fn tell(&self, trouble: Trouble) -> Error {
        match trouble {
            Trouble::Raced => trouble.explain().context(&self.wish.path),
            _ => trouble.explain(),
        }
    }

    /// The directory above, or nothing if it is missing and that is no error; see [`Above`].
    pub(super) fn above(&self) -> Result<Above> {
        match Parent::open(&self.wish.path) {
            Ok(parent) => Ok(Above::Open(parent)),
            Err(error) => match error.cause() {
                Cause::Missing(_) => Ok(Above::Missing(error)),
                // A path below a file is as absent as one below nothing.
                Cause::NotADirectory(..) if self.wish.state == State::Absent => Ok(Above::Missing(error)),
                _ => Err(error.into()),
            },
        }
    }

    /// The path itself, in its directory.
    pub(super) fn place<'p>(&self, parent: &'p Parent) -> Place<'p>
    where
        'a: 'p,
    {
        let durability = self.cx.host.durability;
        Place { parent, name: self.leaf(), path: self.wish.path.as_bytes(), durability }
    }

    /// Whether what was seen at the path is still there, as it was.
    pub(super) fn is_still(&self, seen: &Stat) -> Result<bool> {
        let found = Parent::open(&self.wish.path)?.lstat_entry(self.leaf())?;
        Ok(found.is_some_and(|stat| stat.same_version(seen)))
    }

    /// The last component of the path. The root is dealt with before anyone asks.
    pub(super) fn leaf(&self) -> &'a [u8] {
        self.wish.path.file_name().unwrap_or_default()
    }

    fn absent(&self) -> Result<Checked> {
        let Above::Open(parent) = self.above()? else { return Ok(Checked::Right) };
        let name = self.leaf();
        let Some(stat) = parent.lstat_entry(name)? else { return Ok(Checked::Right) };
        if stat.kind == Kind::Directory {
            return self.remove_directory(&parent, name);
        }
        if self.wish.path.is_directory() && stat.kind != Kind::Symlink && !self.forces() {
            return Err(self.stays_in_the_way(self.wish.path.without_slash(), stat.kind, Kind::Directory));
        }
        foresee::removable(self.cx, &parent, name)?;
        effects::removed(self, self.wish.path.without_slash(), stat.kind);
        if self.cx.apply {
            if !self.wish.file.bucket.is_empty() && stat.kind == Kind::File {
                bucket::keep(self, &self.place(&parent))?;
            }
            unless_gone(parent.unlink(name))?;
            self.store(&parent)?;
            self.cx.info("removed");
        }
        Ok(Checked::Changed)
    }

    fn remove_directory(&self, parent: &Parent, name: &[u8]) -> Result<Checked> {
        if !self.wish.file.recurse && !is_empty(parent, name)? {
            return Err(self.not_empty());
        }
        foresee::tree_removable(self.cx, parent, name)?;
        effects::removed(self, self.wish.path.as_bytes(), Kind::Directory);
        if self.cx.apply {
            if self.wish.file.recurse {
                remove_tree(parent, name, &Limits::default())?;
            } else {
                unless_gone(parent.rmdir(name))?;
            }
            self.store(parent)?;
            self.cx.info("removed");
        }
        Ok(Checked::Changed)
    }

    pub(super) fn not_empty(&self) -> Trouble {
        self.foresee(Needed::Absence(self.wish.path.as_bytes()));
        Trouble::new(format_args!("cannot remove {}: the directory is not empty", self.wish.path))
            .with_hint("set `recurse => true` to remove it with all below it")
    }

    /// A file that is to be changed but not made is not there.
    pub(super) fn stays_missing(&self) -> Trouble {
        self.foresee(Needed::Path(self.wish.path.as_bytes()));
        not_there(&self.wish.path)
    }

    /// Something of another type is where `wanted` should be.
    pub(super) fn stays_in_the_way(&self, path: &[u8], found: Kind, wanted: Kind) -> Trouble {
        self.foresee(Needed::Absence(path));
        in_the_way(path, found, wanted)
    }

    /// What a copy would be made of cannot be opened.
    pub(super) fn source_stays_missing(&self, error: &mgmt_sys::Error) {
        if error.is_not_found() {
            let Cause::Missing(missing) = error.cause() else {
                return self.foresee(Needed::Path(error.path()));
            };
            self.foresee(Needed::Path(missing));
        }
    }

    /// While a plan is made: an error is certain unless something before this resource may bring what it is about.
    fn foresee(&self, needed: Needed<'_>) {
        let _ = self.cx.may_come(needed);
    }

    fn file(&self, input: &Input, verified: &mut Verified) -> Result<Checked> {
        let wanted = Wanted::of(self)?;
        if content::is_right_at_a_glance(self, input, &wanted, verified) {
            return Ok(Checked::Right);
        }
        let touched = !matches!(input, Input::Untouched) || !wanted.is_empty();
        let parent = match self.above()? {
            Above::Open(parent) => parent,
            Above::Missing(error) => {
                let missing = self.missing_above(error, touched)?;
                if missing == Checked::Changed {
                    self.describe_file(input, &wanted)?;
                }
                return Ok(missing);
            }
        };
        let place = self.place(&parent);
        let File { createonly, anytype, .. } = *self.wish.file;
        let found = if createonly || anytype { parent.lstat_entry(place.name)? } else { None };
        let input = match found {
            Some(stat) if stat.kind != Kind::File => {
                return content::settle_other(self, &place, &stat, &wanted);
            }
            Some(_) if createonly => &Input::Untouched,
            _ => input,
        };
        let content = match Content::open(self, input)? {
            Some(content) => content,
            None => {
                let what = effects::path(self.wish.path.as_bytes());
                self.cx.describe(match parent.lstat_entry(place.name)? {
                    Some(stat) if stat.kind == Kind::File => Effect::change(what).aspect("content"),
                    _ => Effect::create(what).aspect("file"),
                });
                return Ok(Checked::Changed);
            }
        };
        if !self.creates() && !touched {
            return Ok(Checked::Right);
        }
        content::put(self, &place, &content, &wanted, verified)
    }

    /// Only looking: what would be made in a directory that is not there yet.
    fn describe_file(&self, input: &Input, wanted: &Wanted<'_>) -> Result<()> {
        let path = self.wish.path.as_bytes();
        let Some(content) = Content::open(self, input)? else {
            self.cx.describe(Effect::create(effects::path(path)).aspect("file"));
            return Ok(());
        };
        let attributes = content::new_attributes(self, &content, wanted, None);
        effects::content(self, path, None, &content, (wanted, &attributes), None);
        Ok(())
    }

    /// Somebody has removed the directory as well, and whoever takes care of it was told a moment after us: waits until it is
    /// there again, which is sooner than another attempt would be, and no failure.
    fn comes_back(&self, error: &mgmt_sys::Error) -> Result<bool> {
        let Cause::Missing(missing) = error.cause() else { return Ok(false) };
        if !self.is_declared(missing) {
            return Ok(false);
        }
        let until = Instant::now() + COMES_BACK;
        let mut pause = Duration::from_millis(1);
        loop {
            self.cx.checkpoint()?;
            std::thread::sleep(pause);
            if matches!(self.above()?, Above::Open(_)) {
                return Ok(true);
            }
            if Instant::now() >= until {
                return Ok(false);
            }
            pause = (pause * 2).min(Duration::from_millis(50));
        }
    }

    /// Whether another resource makes this directory.
    fn is_declared(&self, directory: &[u8]) -> bool {
        let mut declared = false;
        self.cx.others(|id, other| {
            let file = other.as_any().downcast_ref::<File>();
            declared = declared
                || file.filter(|file| State::read(&file.state) == Some(State::Exists)).is_some_and(|file| {
                    let is_directory = |managed: &ManagedPath| managed.is_directory() || file.symlink;
                    let managed = file.managed_path(&id.name).filter(is_directory);
                    managed.is_some_and(|managed| managed.without_slash() == directory)
                });
        });
        declared
    }

    /// When only looking: whether a directory that is missing may be there in a run.
    pub(super) fn may_come(&self, error: &mgmt_sys::Error) -> bool {
        let Cause::Missing(missing) = error.cause() else { return !self.cx.apply };
        !self.cx.apply && self.is_brought(missing)
    }

    fn is_brought(&self, directory: &[u8]) -> bool {
        self.is_declared(directory) || self.cx.may_come(Needed::Path(directory))
    }

    /// When only looking: the first directory on the way that will be missing in a run, too. Whatever makes one of them does not
    /// make those in it.
    fn stays_missing_above<'e>(&'e self, error: &'e mgmt_sys::Error) -> Option<&'e [u8]> {
        let Cause::Missing(missing) = error.cause() else { return None };
        let parent = self.wish.path.parent_bytes().unwrap_or_default();
        if !parent.strip_prefix(&**missing).is_some_and(|rest| rest.starts_with(b"/")) {
            // It is elsewhere, behind a link.
            return (!self.is_brought(missing)).then_some(missing);
        }
        let ends = (missing.len()..parent.len()).filter(|at| parent[*at] == b'/');
        ends.map(|end| &parent[..end]).find(|directory| !self.is_brought(directory))
    }

    /// A directory on the way is missing, and it is not ours to make.
    pub(super) fn missing_above(&self, error: mgmt_sys::Error, touched: bool) -> Result<Checked> {
        match self.wish.state {
            State::Absent => Ok(Checked::Right),
            State::Undefined if !touched => Ok(Checked::Right),
            State::Undefined => Err(self.stays_missing()),
            // Whatever makes the directory in earnest has not made it while only looking.
            State::Exists if !self.cx.apply => match self.stays_missing_above(&error) {
                None => Ok(Checked::Changed),
                Some(directory) => Err(directory_missing(&self.wish.path, directory)),
            },
            State::Exists if self.comes_back(&error)? => Err(Trouble::Raced),
            State::Exists => Err(error.into()),
        }
    }

    fn directory(&self, source: Option<&ManagedPath>, verified: &mut Verified) -> Result<Checked> {
        let wanted = Wanted::of(self)?;
        let works = source.is_some() || self.wish.file.purge || self.wish.file.spread;
        let touched = works || !wanted.is_empty();
        let parent = match self.above()? {
            Above::Open(parent) => parent,
            Above::Missing(_) if self.creates() && self.cx.apply && self.wish.file.recurse => {
                Parent::open_or_create(&self.wish.path)?
            }
            Above::Missing(error) if self.creates() && self.wish.file.recurse => {
                let above = self.nearest_above();
                if above.as_ref().is_some_and(|above| self.is_blocked_below(above)) && !self.may_come(&error)
                {
                    return Err(error.into());
                }
                above.as_ref().map_or(Ok(()), |above| foresee::writable(self.cx, above))?;
                self.describe_directory(source, &wanted, None, verified, above.as_ref())?;
                return Ok(Checked::Changed);
            }
            Above::Missing(error) => {
                let missing = self.missing_above(error, touched)?;
                if missing == Checked::Changed {
                    self.describe_directory(source, &wanted, None, verified, self.nearest_above().as_ref())?;
                }
                return Ok(missing);
            }
        };
        let name = self.leaf();
        let found = parent.lstat_entry(name)?;
        let here = match found {
            None if self.creates() => None,
            None if touched => return Err(self.stays_missing()),
            None => return Ok(Checked::Right),
            Some(stat) if stat.kind == Kind::Directory => {
                if !works && wanted.label.is_none() && wanted.fits(&stat) {
                    return Ok(Checked::Right);
                }
                Some(unless_gone(parent.open_dir(name))?)
            }
            Some(stat) if self.wish.file.createonly => {
                return content::settle_other(self, &self.place(&parent), &stat, &wanted);
            }
            Some(stat) => self.instead_of_directory(&stat)?,
        };
        let Some(here) = here else {
            if !self.cx.apply {
                foresee::replaceable(self.cx, &parent, name, 0, found.as_ref().map(|_| 0))?;
                foresee_owner(self, &parent, self.wish.path.as_bytes(), &wanted, None)?;
                self.describe_directory(source, &wanted, found.as_ref(), verified, Some(&parent))?;
                return Ok(Checked::Changed);
            }
            let here = self.make_directory(&parent, name, found.as_ref(), &wanted)?;
            self.fill(&here, source, &wanted, verified)?;
            return Ok(Checked::Changed);
        };
        let filled = self.fill(&here, source, &wanted, verified)?;
        Ok(settle(self, &here, &here.stat()?, &wanted)?.and(filled))
    }

    /// Something that is not a directory has the directory's name: a link to a directory will do if it can be trusted
    /// and nothing is purged, anything else gives way to `force` (`None`: as if nothing were there). With `instead`, a link
    /// gives way as well, and so does a file.
    fn instead_of_directory(&self, stat: &Stat) -> Result<Option<Parent>> {
        if self.wish.file.instead && self.creates() && matches!(stat.kind, Kind::File | Kind::Symlink) {
            return Ok(None);
        }
        let reason = if stat.kind == Kind::Symlink && !self.wish.file.purge {
            match Parent::open_itself(&self.wish.path) {
                Ok(directory) => return Ok(Some(directory)),
                Err(error) => Trouble::from(error),
            }
        } else {
            self.stays_in_the_way(self.wish.path.without_slash(), stat.kind, Kind::Directory)
        };
        if self.forces() && self.creates() { Ok(None) } else { Err(reason) }
    }

    /// While a plan is made: the directory above that is there already, however far above.
    fn nearest_above(&self) -> Option<Parent> {
        self.cx.foreseen?;
        let mut path = self.wish.path.without_slash();
        loop {
            path = &path[..path.iter().rposition(|byte| *byte == b'/')?];
            let above = ManagedPath::new([path, b"/"].concat()).ok()?;
            if let Ok(parent) = Parent::open_itself(&above) {
                return Some(parent);
            }
        }
    }

    /// Whether something that is no directory, such as a link that leads nowhere, is on the way from a directory above.
    fn is_blocked_below(&self, above: &Parent) -> bool {
        let rest = self.wish.path.without_slash().strip_prefix(above.path_bytes()).unwrap_or_default();
        let next = rest.split(|byte| *byte == b'/').find(|name| !name.is_empty());
        next.is_some_and(|name| matches!(above.lstat_entry(name), Ok(Some(_))))
    }

    /// Only looking: what would be made where no directory is.
    fn describe_directory(
        &self,
        source: Option<&ManagedPath>,
        wanted: &Wanted<'_>,
        in_the_way: Option<&Stat>,
        verified: &mut Verified,
        above: Option<&Parent>,
    ) -> Result<()> {
        if let Some(stat) = in_the_way {
            effects::removed(self, self.wish.path.without_slash(), stat.kind);
        }
        effects::made(self, self.wish.path.as_bytes(), Kind::Directory, wanted, &wanted.over(0));
        match source {
            Some(source) => tree::describe(self, source, wanted, verified, above),
            None => Ok(()),
        }
    }

    fn make_directory(
        &self,
        parent: &Parent,
        name: &[u8],
        in_the_way: Option<&Stat>,
        wanted: &Wanted<'_>,
    ) -> Result<Parent> {
        if let Some(stat) = in_the_way {
            effects::removed(self, self.wish.path.without_slash(), stat.kind);
            unless_gone(parent.unlink(name))?;
        }
        let attributes = wanted.over(0);
        effects::made(self, self.wish.path.as_bytes(), Kind::Directory, wanted, &attributes);
        let directory = parent.make_directory(name, &attributes)?;
        if let Some(what) = kept(&directory.stat()?, &attributes) {
            return Err(not_kept(self.wish.path.as_bytes(), what));
        }
        self.store(parent)?;
        self.cx.info("made the directory");
        Ok(directory)
    }

    fn fill(
        &self,
        here: &Parent,
        source: Option<&ManagedPath>,
        wanted: &Wanted<'_>,
        verified: &mut Verified,
    ) -> Result<Checked> {
        if source.is_none() && !self.wish.file.purge && !self.wish.file.spread {
            return Ok(Checked::Right);
        }
        tree::fill(self, here, source, wanted, verified)
    }

    /// The root directory is always there and has no parent.
    fn root(&self, verified: &mut Verified) -> Result<Checked> {
        let Target::Directory { source } = &self.wish.target else {
            return Err(Trouble::new("the root is a directory"));
        };
        let wanted = Wanted::of(self)?;
        let root = Parent::open_itself(&self.wish.path)?;
        let filled = self.fill(&root, source.as_ref(), &wanted, verified)?;
        Ok(settle(self, &root, &root.stat()?, &wanted)?.and(filled))
    }
}

/// The directory above the path.
pub(super) enum Above {
    Open(Parent),
    Missing(mgmt_sys::Error),
}

pub(super) fn is_empty(parent: &Parent, name: &[u8]) -> Result<bool> {
    match list(&unless_gone(parent.open_dir(name))?, &Limits { entries: 0, depth: 1 }) {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.cause(), Cause::TooManyEntries(_)) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
