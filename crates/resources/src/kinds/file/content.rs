//! Regular files: what should be in them, whether it is, and putting it there.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use mgmt_resource::Checked;
use mgmt_sys::ManagedPath;
use mgmt_sys::dir::Parent;
use mgmt_sys::error::{Cause, Escaped};
use mgmt_sys::file::OpenedFile;
use mgmt_sys::handle::Attributes;
use mgmt_sys::mode::default_file_mode;
use mgmt_sys::replace::{Durability, Expect, InPlace, Replacement, is_temporary, sweep_temporaries};
use mgmt_sys::stat::{Kind, Stat};
use mgmt_sys::tree::{Limits, list, remove_tree};

use super::File;
use super::attributes::{Wanted, foresee_owner, kept, settle};
use super::bucket;
use super::check::Run;
use super::declaration::{Input, State};
use super::download::Fetched;
use super::effects;
use super::memory::{Moment, Verified};
use super::trouble::{Result, Trouble, not_kept, unless_gone};
use super::validation;
use crate::support::foresee;

/// The most that is compared at once.
const CHUNK: usize = 128 * 1024;
/// How often a long copy says how far it is.
const PROGRESS_PERIOD: std::time::Duration = std::time::Duration::from_secs(10);

/// The permission bits that a copy takes over from its source. The others grant rights that nobody declared.
const COPIED_BITS: u32 = 0o777;

/// Where a file is to be.
pub(super) struct Place<'a> {
    pub(super) parent: &'a Parent,
    pub(super) name: &'a [u8],
    /// For messages.
    pub(super) path: &'a [u8],
    pub(super) durability: Durability,
}

impl Place<'_> {
    /// Pushes an entry that was made or removed to the disk, as hard as is wanted.
    pub(super) fn store(&self) -> Result<()> {
        if self.durability == Durability::Full {
            self.parent.sync()?;
        }
        Ok(())
    }
}

/// What should be in a file, open for comparing and copying.
pub(super) enum Content<'a> {
    /// Whatever is in it.
    Untouched,
    Bytes(&'a [u8]),
    /// The same as in this file.
    Source(OpenedFile, [Stat; 1]),
    /// These files one after the other. They are opened one at a time, so there may be any number.
    Parts(Vec<ManagedPath>, Vec<Stat>),
}

impl<'a> Content<'a> {
    /// Opens what the content comes from. Nothing if it is missing and only looking: another resource will make it.
    pub(super) fn open<'c: 'a>(run: &Run<'_, 'c>, input: &'a Input) -> Result<Option<Content<'a>>> {
        // While a plan is made: what an earlier resource will have put there.
        if let Input::Source(source) = input
            && let Some(foreseen) = run.cx.foreseen
            && let Some(Some(content)) = foreseen.file(source.as_bytes())
        {
            return Ok(Some(Content::Bytes(content)));
        }
        let opened = match input {
            Input::Untouched => Ok(Content::Untouched),
            Input::Content(content) => Ok(Content::Bytes(content)),
            Input::Source(source) => open_source(source).map(Content::of_file),
            Input::Remote => match run.fetched {
                Some(Fetched::Copy(copy)) => open_source(copy).map(Content::of_file),
                Some(Fetched::Right(seen)) if run.is_still(seen)? => Ok(Content::Untouched),
                Some(Fetched::Other) => return Ok(None),
                // What is there now is not what was looked at.
                _ => Err(Trouble::Raced),
            },
            Input::Fragments(fragments) => open_parts(run, fragments),
        };
        match opened {
            Ok(content) => Ok(Some(content)),
            Err(Trouble::System(error))
                if error.is_not_found()
                    && !run.cx.apply
                    && ManagedPath::new(error.path()).is_ok_and(|path| run.is_promised(&path)) =>
            {
                Ok(None)
            }
            Err(trouble) => {
                if let (Trouble::System(error), Input::Source(_) | Input::Fragments(_)) = (&trouble, input) {
                    run.source_stays_missing(error);
                }
                Err(trouble)
            }
        }
    }

    /// The same as in a file that is open already.
    pub(super) fn of_file(file: OpenedFile) -> Content<'static> {
        let stat = *file.stat();
        Content::Source(file, [stat])
    }

    /// What the content was when it was opened, to recognise it later.
    fn inputs(&self) -> &[Stat] {
        match self {
            Content::Untouched | Content::Bytes(_) => &[],
            Content::Source(_, stat) => stat,
            Content::Parts(_, stats) => stats,
        }
    }

    /// How long it is.
    pub(super) fn length(&self) -> u64 {
        match self {
            Content::Untouched => 0,
            Content::Bytes(bytes) => bytes.len() as u64,
            Content::Source(_, stats) => stats.iter().map(|stat| stat.size).sum(),
            Content::Parts(_, stats) => stats.iter().map(|stat| stat.size).sum(),
        }
    }

    /// The whole of it, if it is short enough to be shown.
    pub(super) fn text(&self) -> Option<std::borrow::Cow<'_, [u8]>> {
        let most = mgmt_resource::LONGEST_TEXT as u64;
        if self.length() > most {
            return None;
        }
        match self {
            Content::Untouched => Some((&[][..]).into()),
            Content::Bytes(bytes) => Some((*bytes).into()),
            Content::Source(file, _) => Some(file.read(most).ok()?.into()),
            Content::Parts(paths, stats) => {
                let mut text = Vec::new();
                for (path, seen) in paths.iter().zip(stats) {
                    text.extend(reopen(path, seen).ok()?.read(most).ok()?);
                }
                Some(text.into())
            }
        }
    }

    /// The permission bits that come along with the content.
    fn mode(&self, run: &Run<'_, '_>) -> Option<u32> {
        match self {
            // What is kept of an address has permissions of our own.
            Content::Source(file, _) if run.wish.file.sourcemode && run.fetched.is_none() => {
                Some(file.stat().mode & COPIED_BITS)
            }
            _ => None,
        }
    }

    fn is_in(&self, run: &Run<'_, '_>, target: &OpenedFile) -> Result<bool> {
        match self {
            Content::Untouched => Ok(true),
            Content::Bytes(bytes) => Ok(target.equals(bytes)?),
            Content::Source(source, _) => is_copy(run, target, source),
            Content::Parts(paths, stats) => {
                if stats.iter().map(|stat| stat.size).sum::<u64>() != target.stat().size {
                    return Ok(false);
                }
                let mut buffers = Buffers::new(run);
                let mut offset = 0;
                for (path, seen) in paths.iter().zip(stats) {
                    match buffers.compare(target, offset, &reopen(path, seen)?)? {
                        Some(length) => offset += length,
                        None => return Ok(false),
                    }
                }
                Ok(offset == target.stat().size)
            }
        }
    }

    fn write_to(&self, run: &Run<'_, '_>, new: &mut Replacement<'_>) -> Result<()> {
        match self {
            Content::Untouched => {}
            Content::Bytes(bytes) => new.write_all(bytes)?,
            Content::Source(source, _) => copy_whole(run, new, source)?,
            Content::Parts(paths, stats) => {
                for (path, seen) in paths.iter().zip(stats) {
                    copy_whole(run, new, &reopen(path, seen)?)?;
                }
            }
        }
        Ok(())
    }
}

/// The usual case in as few calls as can be: a file is there, and all of it is right. Whatever else may be the case is for
/// those to find out who can do something about it.
pub(super) fn is_right_at_a_glance(
    run: &Run<'_, '_>,
    input: &Input,
    wanted: &Wanted<'_>,
    verified: &mut Verified,
) -> bool {
    let Input::Content(bytes) = input else { return false };
    let File { createonly, anytype, .. } = *run.wish.file;
    // What was seen before need not be read again, and what a plan foresees is not to be seen.
    if createonly || anytype || wanted.label.is_some() || !verified.is_empty() || run.cx.foreseen.is_some() {
        return false;
    }
    let looked = Moment::now();
    let Some(file) = OpenedFile::open_if_plain(&run.wish.path) else { return false };
    let is_right = wanted.fits(file.stat()) && file.equals(bytes).unwrap_or(false);
    if is_right {
        verified.keep(file.stat(), &[], looked);
    }
    is_right
}

/// Makes the place a regular file with this content and these attributes.
pub(super) fn put(
    run: &Run<'_, '_>,
    place: &Place<'_>,
    content: &Content<'_>,
    wanted: &Wanted<'_>,
    verified: &mut Verified,
) -> Result<Checked> {
    let looked = Moment::now();
    match find(place, content, verified)? {
        Found::Nothing if !run.creates() => Err(run.stays_missing()),
        Found::Nothing => write(run, place, content, wanted, None),
        Found::Right(stat) => {
            let label_is_known = wanted.label.is_none() || verified.holds(&stat, content.inputs());
            if wanted.fits(&stat) && label_is_known {
                return Ok(Checked::Right);
            }
            settle_entry(run, place, &stat, wanted)
        }
        Found::File(file) => {
            if !content.is_in(run, &file)? {
                return write(run, place, content, wanted, Some(*file.stat()));
            }
            let settled = settle(run, &file, file.stat(), wanted)?;
            if settled == Checked::Right {
                verified.keep(file.stat(), content.inputs(), looked);
            }
            Ok(settled)
        }
        // Without a state and without content, owner and mode are for whatever is there.
        Found::Other(stat)
            if matches!(content, Content::Untouched)
                && run.wish.state == State::Undefined
                && stat.kind == Kind::Directory =>
        {
            settle_entry(run, place, &stat, wanted)
        }
        Found::Other(stat)
            if (run.forces() || (run.wish.file.instead && stat.kind == Kind::Symlink))
                && (run.creates() || !matches!(content, Content::Untouched))
                && matches!(stat.kind, Kind::Directory | Kind::Symlink) =>
        {
            write(run, place, content, wanted, Some(stat))
        }
        Found::Other(stat) => Err(run.stays_in_the_way(place.path, stat.kind, Kind::File)),
    }
}

/// Makes the place, which is a file of a tree, a copy of its source.
pub(super) fn put_copy(
    run: &Run<'_, '_>,
    place: &Place<'_>,
    source: OpenedFile,
    wanted: &Wanted<'_>,
    before: &HashSet<u128>,
    verified: &mut Verified,
) -> Result<Checked> {
    let looked = Moment::now();
    let content = Content::of_file(source);
    let Content::Source(source, _) = &content else { return Ok(Checked::Right) };
    let Some(stat) = place.parent.lstat_entry(place.name)? else {
        return write(run, place, &content, wanted, None);
    };
    if stat.kind != Kind::File {
        if run.forces() && matches!(stat.kind, Kind::Directory | Kind::Symlink) {
            return write(run, place, &content, wanted, Some(stat));
        }
        return Err(run.stays_in_the_way(place.path, stat.kind, Kind::File));
    }
    if !run.wish.file.createonly && !verified.keep_known(before, &stat, source.stat()) {
        let target = unless_gone(place.parent.open_regular(place.name))?;
        if !is_copy(run, &target, source)? {
            return write(run, place, &content, wanted, Some(*target.stat()));
        }
        verified.keep_file(target.stat(), source.stat(), looked);
    }
    if wanted.fits(&stat) { Ok(Checked::Right) } else { settle_entry(run, place, &stat, wanted) }
}

/// What is at a place.
enum Found {
    Nothing,
    /// A regular file whose content need not be read.
    Right(Stat),
    File(OpenedFile),
    Other(Stat),
}

fn find(place: &Place<'_>, content: &Content<'_>, verified: &Verified) -> Result<Found> {
    if matches!(content, Content::Untouched) || !verified.is_empty() {
        match place.parent.lstat_entry(place.name)? {
            None => return Ok(Found::Nothing),
            Some(stat) if stat.kind != Kind::File => return Ok(Found::Other(stat)),
            Some(stat)
                if matches!(content, Content::Untouched) || verified.holds(&stat, content.inputs()) =>
            {
                return Ok(Found::Right(stat));
            }
            Some(_) => {}
        }
    }
    match place.parent.open_regular(place.name) {
        Ok(file) => Ok(Found::File(file)),
        Err(error) if error.is_not_found() => Ok(Found::Nothing),
        Err(error) if error.found_kind().is_some() => match place.parent.lstat_entry(place.name)? {
            Some(stat) if stat.kind != Kind::File => Ok(Found::Other(stat)),
            _ => Err(Trouble::Raced),
        },
        Err(error) => Err(error.into()),
    }
}

/// Something of another type is there and may stay: it gets the attributes that it can have.
pub(super) fn settle_other(
    run: &Run<'_, '_>,
    place: &Place<'_>,
    seen: &Stat,
    wanted: &Wanted<'_>,
) -> Result<Checked> {
    let wanted = wanted.for_kind(seen.kind);
    match wanted.fits(seen) && wanted.label.is_none() {
        true => Ok(Checked::Right),
        false => settle_entry(run, place, seen, &wanted),
    }
}

/// Changes the attributes of an entry that need not be opened.
fn settle_entry(run: &Run<'_, '_>, place: &Place<'_>, seen: &Stat, wanted: &Wanted<'_>) -> Result<Checked> {
    let handle = unless_gone(place.parent.open_entry(place.name))?;
    if !handle.stat().same_file(seen) {
        return Err(Trouble::Raced);
    }
    settle(run, &handle, handle.stat(), wanted)
}

/// Puts new content in the place of what was seen there.
fn write(
    run: &Run<'_, '_>,
    place: &Place<'_>,
    content: &Content<'_>,
    wanted: &Wanted<'_>,
    seen: Option<Stat>,
) -> Result<Checked> {
    let attributes = new_attributes(run, content, wanted, seen.as_ref());
    wanted.check_safe(place.path, attributes.mode)?;
    foresee(run, place, content, wanted, seen.as_ref())?;
    effects::content(run, place.path, Some(place), content, (wanted, &attributes), seen.as_ref());
    if !run.cx.apply {
        return Ok(Checked::Changed);
    }
    sweep_once(place.parent);
    let in_place = if run.wish.file.atomic { InPlace::Refuse } else { InPlace::Allow };
    let file = &run.wish.file;
    let mut new = match seen {
        // A command that is to look at it needs a name for it.
        _ if !file.validatecmd.is_empty() => Replacement::begin(place.parent, place.name, in_place)?,
        Some(stat) if stat.kind != Kind::Directory => Replacement::begin(place.parent, place.name, in_place)?,
        // A directory goes before the new file comes, so that the name is free then.
        _ => {
            let mode = attributes.mode.unwrap_or_else(default_file_mode);
            Replacement::begin_new(place.parent, place.name, in_place, mode)?
        }
    };
    content.write_to(run, &mut new)?;
    if !file.validatecmd.is_empty() {
        validation::ask(run, place, &new)?;
    }
    if !file.backup.is_empty() && seen.is_some_and(|stat| stat.kind == Kind::File) {
        keep_old(run, place)?;
    }
    if !file.bucket.is_empty() && seen.is_some_and(|stat| stat.kind == Kind::File) {
        bucket::keep(run, place)?;
    }
    let expect = match seen {
        // Only now, with the new content safely next to it.
        Some(stat) if stat.kind == Kind::Directory => {
            remove_tree(place.parent, place.name, &Limits::default())?;
            Expect::Absent
        }
        Some(stat) => Expect::Same(stat),
        None => Expect::Absent,
    };
    let placed = new.commit(&attributes, expect, place.durability)?;
    if let Some(what) = kept(&placed, &attributes) {
        return Err(not_kept(place.path, what));
    }
    match seen {
        Some(_) => run.cx.info(format_args!("replaced {}", Escaped(place.path))),
        None => run.cx.info(format_args!("made {}", Escaped(place.path))),
    }
    Ok(Checked::Changed)
}

/// While a plan is made: fails where the content could not be put in place.
fn foresee(
    run: &Run<'_, '_>,
    place: &Place<'_>,
    content: &Content<'_>,
    wanted: &Wanted<'_>,
    seen: Option<&Stat>,
) -> Result<()> {
    let Place { parent, name, path, .. } = *place;
    // What may be written into needs no room beside it.
    if !run.wish.file.atomic && seen.is_some() {
        return Ok(foresee::rewritable(run.cx, parent, name)?);
    }
    let length = match content {
        _ if run.cx.apply => 0,
        Content::Source(source, _) => parent.length_of_copy(source),
        Content::Bytes(bytes) => bytes.len() as u64,
        // Parts may have holes.
        Content::Untouched | Content::Parts(..) => 0,
    };
    if seen.is_some_and(|stat| stat.kind == Kind::Directory) {
        foresee::tree_removable(run.cx, parent, name)?;
    }
    foresee::replaceable(run.cx, parent, name, length, seen.map(|stat| stat.size))?;
    foresee_owner(run, parent, path, wanted, seen.filter(|stat| stat.kind == Kind::File))?;
    validation::foresee(run)
}

/// Copies what is about to be replaced to another name beside it.
fn keep_old(run: &Run<'_, '_>, place: &Place<'_>) -> Result<()> {
    let old = unless_gone(place.parent.open_regular(place.name))?;
    let name = [place.name, &run.wish.file.backup].concat();
    let mut copy = Replacement::begin(place.parent, &name, InPlace::Refuse)?;
    copy_whole(run, &mut copy, &old)?;
    let stat = old.stat();
    let attributes = Attributes {
        owner: Some(stat.uid),
        group: Some(stat.gid),
        mode: Some(stat.mode & 0o7777),
        ..Attributes::default()
    };
    copy.commit(&attributes, Expect::Anything, place.durability)?;
    Ok(())
}

/// The attributes of the new file. A declared mode that names only some subjects leaves the rest as it is in the
/// source, in the file that is replaced, or in a file that any program makes.
pub(super) fn new_attributes<'a>(
    run: &Run<'_, '_>,
    content: &Content<'_>,
    wanted: &Wanted<'a>,
    seen: Option<&Stat>,
) -> Attributes<'a> {
    let old = seen.filter(|stat| stat.kind == Kind::File).map(|stat| stat.mode);
    let base = content.mode(run).or(old).unwrap_or_else(default_file_mode);
    let mut attributes = wanted.over(base);
    attributes.mode = attributes.mode.or(content.mode(run));
    attributes
}

/// Removes what a killed run left behind, the first time that this process writes to a directory.
pub(super) fn sweep_once(parent: &Parent) {
    static SWEPT: Mutex<Option<HashSet<Box<[u8]>>>> = Mutex::new(None);
    const MOST: usize = 1 << 16;
    {
        // A panic elsewhere leaves the set as it is, which is good enough.
        let mut swept = SWEPT.lock().unwrap_or_else(PoisonError::into_inner);
        let swept = swept.get_or_insert_default();
        if swept.len() >= MOST {
            swept.clear();
        }
        if swept.contains(parent.path_bytes()) {
            return;
        }
        swept.insert(parent.path_bytes().into());
    }
    sweep(parent);
}

/// Removes the temporaries that nobody writes to any more.
pub(super) fn sweep(parent: &Parent) {
    // Leftovers do no harm, so failing to remove them must not keep us from our work.
    if let Err(error) = sweep_temporaries(parent) {
        tracing::debug!(target: "mgmt::resource", "left temporaries alone: {error}");
    }
}

fn open_source(path: &ManagedPath) -> Result<OpenedFile> {
    let parent = Parent::open(path)?;
    let opened = parent.open_regular(path.file_name().unwrap_or_default());
    match opened {
        Err(error) if matches!(error.cause(), Cause::NotARegularFile(Kind::Symlink)) => {
            Ok(OpenedFile::open_trusted(path)?)
        }
        opened => Ok(opened?),
    }
}

/// Opens a part again; it must not have changed since.
fn reopen(path: &ManagedPath, seen: &Stat) -> Result<OpenedFile> {
    let file = open_source(path)?;
    if file.stat().same_version(seen) { Ok(file) } else { Err(Trouble::Raced) }
}

fn open_parts(run: &Run<'_, '_>, fragments: &[ManagedPath]) -> Result<Content<'static>> {
    let mut paths = Vec::new();
    for fragment in fragments {
        if !fragment.is_directory() {
            paths.push(fragment.clone());
            continue;
        }
        let directory = Parent::open_itself(fragment)?;
        for entry in list(&directory, &Limits::default())? {
            if entry.kind != Kind::Directory && !is_temporary(&entry.name) {
                paths.push(fragment.join(&entry.name).map_err(Trouble::new)?);
            }
        }
    }
    let mut stats = Vec::with_capacity(paths.len());
    for path in &paths {
        run.cx.checkpoint()?;
        stats.push(*open_source(path)?.stat());
    }
    Ok(Content::Parts(paths, stats))
}

/// Copies all of `source`, which must not change meanwhile: half of one version and half of another is neither.
pub(super) fn copy_whole(run: &Run<'_, '_>, new: &mut Replacement<'_>, source: &OpenedFile) -> Result<()> {
    let (size, mut told) = (source.stat().size, std::time::Instant::now());
    let go_on = |done: u64| {
        if told.elapsed() >= PROGRESS_PERIOD {
            told = std::time::Instant::now();
            let percent = done.saturating_mul(100).checked_div(size).unwrap_or(100);
            let (done, size) = (done >> 20, size >> 20);
            tracing::info!(
                target: "mgmt::resource", resource = %run.cx.id,
                "copying the source: {done} of {size} MiB ({percent}%)"
            );
        }
        run.cx.checkpoint().is_ok()
    };
    if !new.copy_from_telling(source, go_on)? {
        run.cx.checkpoint()?;
    }
    if source.current_stat()?.same_version(source.stat()) { Ok(()) } else { Err(Trouble::Raced) }
}

fn is_copy(run: &Run<'_, '_>, target: &OpenedFile, source: &OpenedFile) -> Result<bool> {
    // The kernel's own files say that they are empty, or one page long, whatever is in them.
    const SIZES_THAT_MAY_LIE: [u64; 2] = [0, 4096];
    // What takes no time to read need not be interruptible.
    const SMALL: u64 = 1 << 20;
    let (size, expected) = (target.stat().size, source.stat().size);
    if size == expected && size <= SMALL {
        return Ok(target.equals_file(source)?);
    }
    if size != expected && !SIZES_THAT_MAY_LIE.contains(&expected) {
        return Ok(false);
    }
    if target.stat().same_file(source.stat()) {
        return Ok(true);
    }
    Ok(Buffers::new(run).compare(target, 0, source)? == Some(size))
}

struct Buffers<'a, 'c> {
    run: &'a Run<'a, 'c>,
    target: Vec<u8>,
    part: Vec<u8>,
}

impl<'a, 'c> Buffers<'a, 'c> {
    fn new(run: &'a Run<'a, 'c>) -> Buffers<'a, 'c> {
        Buffers { run, target: vec![0; CHUNK], part: vec![0; CHUNK] }
    }

    /// Whether `target` has the content of `part` from `offset` on; then, how long that is.
    fn compare(&mut self, target: &OpenedFile, offset: u64, part: &OpenedFile) -> Result<Option<u64>> {
        let mut length = 0;
        let have_holes = part.has_holes() && target.has_holes();
        loop {
            self.run.cx.checkpoint()?;
            if have_holes {
                // Two holes are equal, and reading them takes as long as reading data.
                let skipped = target.next_data(offset + length).saturating_sub(offset);
                length = length.max(part.next_data(length).min(skipped));
            }
            let mut rest = part.read_at(&mut self.part, length)?;
            if rest.is_empty() {
                return Ok(Some(length));
            }
            while !rest.is_empty() {
                let room = &mut self.target[..rest.len()];
                let got = target.read_at(room, offset + length)?;
                if got.is_empty() || !rest.starts_with(got) {
                    return Ok(None);
                }
                rest = &rest[got.len()..];
                length += got.len() as u64;
            }
        }
    }
}
