//! Symbolic links.

use mgmt_resource::{Checked, Needed};
use mgmt_sys::error::Escaped;
use mgmt_sys::replace::Expect;
use mgmt_sys::stat::{Kind, Stat};

use super::attributes::{Wanted, foresee_owner, settle, settle_new};
use super::check::{Above, Run, is_empty};
use super::content::{self, Place, sweep_once};
use super::declaration::State;
use super::effects;
use super::trouble::{Result, Trouble, unless_gone};

/// Checks a resource that is declared as a link.
pub(super) fn check(run: &Run<'_, '_>, text: &[u8]) -> Result<Checked> {
    let wanted = if run.wish.state == State::Absent { None } else { Some(Wanted::of(run)?) };
    let touched = wanted.is_some_and(|wanted| !wanted.is_empty());
    let parent = match run.above()? {
        Above::Open(parent) => parent,
        Above::Missing(error) => {
            let missing = run.missing_above(error, touched)?;
            if let (Checked::Changed, Some(wanted)) = (missing, &wanted) {
                effects::linked(run, run.wish.path.as_bytes(), text, None, wanted);
            }
            return Ok(missing);
        }
    };
    let place = run.place(&parent);
    match (run.wish.state, wanted) {
        (State::Exists, Some(wanted)) => put(run, &place, text, &wanted),
        (State::Undefined, Some(wanted)) if touched => match parent.lstat_entry(place.name)? {
            None => Err(run.stays_missing()),
            Some(stat) if stat.kind == Kind::Symlink => settle_link(run, &place, &stat, &wanted),
            Some(stat) => Err(run
                .stays_in_the_way(place.path, stat.kind, Kind::Symlink)
                .with_hint("set `state => \"exists\"` to make it a link, or take `symlink` away")),
        },
        (State::Absent, _) => absent(run, &place),
        _ => Ok(Checked::Right),
    }
}

/// Makes the place a link with this text.
pub(super) fn put(run: &Run<'_, '_>, place: &Place<'_>, text: &[u8], wanted: &Wanted<'_>) -> Result<Checked> {
    let found = place.parent.lstat_entry(place.name)?;
    let mut old = None;
    if let Some(stat) = &found {
        if run.wish.file.createonly {
            return content::settle_other(run, place, stat, wanted);
        }
        let gives_way = run.forces() || (run.wish.file.instead && stat.kind == Kind::File);
        if stat.kind != Kind::Symlink && !gives_way {
            return Err(run.stays_in_the_way(place.path, stat.kind, Kind::Symlink));
        }
        if stat.kind == Kind::Directory && !is_empty(place.parent, place.name)? {
            return Err(no_room_for_link(run, place));
        }
        if stat.kind == Kind::Symlink {
            let present = unless_gone(place.parent.read_link(place.name))?;
            if present == text {
                return settle_link(run, place, stat, wanted);
            }
            old = Some(present.to_vec());
        }
    }
    let length = found.as_ref().map(|_| 0);
    crate::support::foresee::replaceable(run.cx, place.parent, place.name, 0, length)?;
    foresee_owner(run, place.parent, place.path, wanted, None)?;
    effects::linked(run, place.path, text, found.map(|stat| (stat.kind, old)), wanted);
    if !run.cx.apply {
        return Ok(Checked::Changed);
    }
    sweep_once(place.parent);
    let expect = match found {
        None => Expect::Absent,
        Some(stat) if stat.kind == Kind::Directory => {
            place.parent.rmdir(place.name).map_err(|error| match error.is_not_empty() {
                true => no_room_for_link(run, place),
                false => error.into(),
            })?;
            Expect::Absent
        }
        Some(stat) => Expect::Same(stat),
    };
    place.parent.create_symlink(place.name, text, expect)?;
    place.store()?;
    run.cx.info(format_args!("linked {} to {}", Escaped(place.path), Escaped(text)));
    if !wanted.is_empty() {
        let handle = unless_gone(place.parent.open_entry(place.name))?;
        // Where others can write, another entry may have taken the place of ours.
        if handle.stat().kind != Kind::Symlink {
            return Err(Trouble::Raced);
        }
        settle_new(run, &handle, handle.stat(), wanted)?;
    }
    Ok(Checked::Changed)
}

/// A directory that is to give way to a link has something in it.
fn no_room_for_link(run: &Run<'_, '_>, place: &Place<'_>) -> Trouble {
    let message =
        format!("cannot put a link in the place of {}: the directory is not empty", Escaped(place.path));
    let _ = run.cx.may_come(Needed::Absence(place.path));
    Trouble::new(message)
        .with_hint("remove it first, with another resource that is `absent` and has `recurse`")
}

fn absent(run: &Run<'_, '_>, place: &Place<'_>) -> Result<Checked> {
    let Some(stat) = place.parent.lstat_entry(place.name)? else { return Ok(Checked::Right) };
    if stat.kind != Kind::Symlink && !run.forces() {
        return Err(run.stays_in_the_way(place.path, stat.kind, Kind::Symlink));
    }
    if stat.kind == Kind::Directory && !is_empty(place.parent, place.name)? {
        return Err(run.not_empty());
    }
    crate::support::foresee::removable(run.cx, place.parent, place.name)?;
    effects::removed(run, place.path, stat.kind);
    if !run.cx.apply {
        return Ok(Checked::Changed);
    }
    if stat.kind == Kind::Directory {
        place.parent.rmdir(place.name).map_err(|error| match error.is_not_empty() {
            true => run.not_empty(),
            false => error.into(),
        })?;
    } else {
        unless_gone(place.parent.unlink(place.name))?;
    }
    place.store()?;
    run.cx.info("removed");
    Ok(Checked::Changed)
}

fn settle_link(run: &Run<'_, '_>, place: &Place<'_>, seen: &Stat, wanted: &Wanted<'_>) -> Result<Checked> {
    if wanted.fits(seen) && wanted.label.is_none() {
        return Ok(Checked::Right);
    }
    let handle = unless_gone(place.parent.open_entry(place.name))?;
    if !handle.stat().same_file(seen) {
        return Err(Trouble::Raced);
    }
    settle(run, &handle, handle.stat(), wanted)
}
