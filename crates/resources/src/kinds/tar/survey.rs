//! What is to be in the archive, found without following a link.

use std::collections::HashMap;

use mgmt_resource::{Context, Error};
use mgmt_sys::ManagedPath;
use mgmt_sys::dir::Parent;
use mgmt_sys::error::{Cause, Escaped};
use mgmt_sys::replace::is_temporary;
use mgmt_sys::stat::{Kind, Stat, Timestamp};
use mgmt_sys::tree::{Entry, Limits, list};

use super::{Archive, Content, Member};
use crate::support::derived_file::{Ingredients, Trouble};

/// The most entries of an archive.
const MOST: usize = 1_000_000;

/// Everything that goes into the archive, in its order.
pub(super) struct Survey {
    found: Vec<Found>,
    /// One for each directory that something was found in.
    directories: Vec<ManagedPath>,
}

impl PartialEq for Survey {
    fn eq(&self, other: &Survey) -> bool {
        self.found == other.found
    }
}

#[derive(PartialEq)]
struct Found {
    /// Its name in the archive, with a slash at the end of a directory.
    stored: Box<[u8]>,
    /// Its name in its directory.
    name: Box<[u8]>,
    /// Which directory, by its place in the list.
    directory: usize,
    stat: Same,
    /// Of a symbolic link.
    target: Option<Box<[u8]>>,
}

/// Something that is the same only as long as nothing has been done to it.
struct Same(Stat);

impl PartialEq for Same {
    fn eq(&self, other: &Same) -> bool {
        let attributes = |stat: &Stat| (stat.mode, stat.uid, stat.gid);
        // What happens in a directory is told by what is in it; its number of links is nobody's concern.
        self.0.same_version(&other.0) && attributes(&self.0) == attributes(&other.0)
    }
}

impl Ingredients for Survey {
    fn changed(&self) -> Option<Timestamp> {
        self.found.iter().map(|found| found.stat.0.changed).max()
    }
}

/// A directory that the walk is in. One is open for each level, and none beside.
struct Level {
    directory: Parent,
    path: ManagedPath,
    /// What stands before the names of its entries in the archive.
    prefix: Box<[u8]>,
    /// Its place in the list of directories.
    place: usize,
    entries: std::vec::IntoIter<Entry>,
}

impl Survey {
    pub(super) fn take(
        inputs: &[ManagedPath],
        output: &ManagedPath,
        cx: &Context<'_>,
    ) -> Result<Survey, Trouble> {
        let mut survey = Survey { found: Vec::new(), directories: Vec::new() };
        for input in inputs {
            survey.add_input(input, output, cx)?;
        }
        survey.refuse_collisions()?;
        Ok(survey)
    }

    fn add_input(
        &mut self,
        input: &ManagedPath,
        output: &ManagedPath,
        cx: &Context<'_>,
    ) -> Result<(), Trouble> {
        if input.is_directory() {
            return self.add_tree(Parent::open_itself(input)?, input.clone(), b"", output, cx);
        }
        let parent = Parent::open(input)?;
        let name = input.file_name().unwrap_or_default();
        let stat = match parent.lstat_entry(name)? {
            Some(stat) => stat,
            // Says that it is missing.
            None => *parent.open_entry(name)?.stat(),
        };
        if stat.kind == Kind::Directory {
            let prefix = [name, b"/"].concat();
            return self.add_tree(parent.open_dir(name)?, input.to_directory(), &prefix, output, cx);
        }
        self.directories.extend(input.parent());
        self.add(&parent, self.directories.len() - 1, name, b"", stat)
    }

    fn add_tree(
        &mut self,
        directory: Parent,
        path: ManagedPath,
        prefix: &[u8],
        output: &ManagedPath,
        cx: &Context<'_>,
    ) -> Result<(), Trouble> {
        let mut levels = vec![self.enter(directory, path, prefix)?];
        while let Some(level) = levels.last_mut() {
            let Some(entry) = level.entries.next() else {
                levels.pop();
                continue;
            };
            cx.checkpoint().map_err(Trouble::Told)?;
            // What we or another of us are about to put in place.
            if is_temporary(&entry.name) {
                continue;
            }
            let Some(stat) = level.directory.lstat_entry(&entry.name)? else {
                return Err(Trouble::Changing(level.path.to_string()));
            };
            // Bounds the depth, too.
            let at = level.path.join(&entry.name).map_err(told)?;
            if at == *output {
                return Err(told(format_args!("{} has the archive itself in it", level.path)));
            }
            self.add(&level.directory, level.place, &entry.name, &level.prefix, stat)?;
            if stat.kind == Kind::Directory {
                let prefix = [&level.prefix, &*entry.name, b"/"].concat();
                let path = at.to_directory();
                let directory =
                    level.directory.open_dir(&entry.name).map_err(|error| vanished(error, &path))?;
                levels.push(self.enter(directory, path, &prefix)?);
            }
        }
        Ok(())
    }

    fn enter(&mut self, directory: Parent, path: ManagedPath, prefix: &[u8]) -> Result<Level, Trouble> {
        let room = MOST.saturating_sub(self.found.len());
        let limits = Limits { entries: room as u64, ..Limits::default() };
        let entries = list(&directory, &limits).map_err(|error| vanished(error, &path))?;
        self.directories.push(path.clone());
        let place = self.directories.len() - 1;
        Ok(Level { directory, path, prefix: prefix.into(), place, entries: entries.into_iter() })
    }

    fn add(
        &mut self,
        parent: &Parent,
        directory: usize,
        name: &[u8],
        prefix: &[u8],
        stat: Stat,
    ) -> Result<(), Trouble> {
        let slash: &[u8] = if stat.kind == Kind::Directory { b"/" } else { b"" };
        let target = match stat.kind {
            Kind::File | Kind::Directory => None,
            Kind::Symlink => {
                let changing = |_| Trouble::Changing(Escaped(name).to_string());
                Some(parent.read_link(name).map_err(changing)?.into())
            }
            other => {
                let path = [parent.path_bytes(), b"/", name].concat();
                let error = format!("{} is {other}, which cannot be archived", Escaped(&path));
                return Err(Trouble::Told(
                    Error::new(error).with_hint("archive regular files, directories and links"),
                ));
            }
        };
        let stored = [prefix, name, slash].concat().into();
        self.found.push(Found { stored, name: name.into(), directory, stat: Same(stat), target });
        Ok(())
    }

    /// Two of one name would come out as one. Directories are merged.
    fn refuse_collisions(&mut self) -> Result<(), Trouble> {
        let mut seen: HashMap<&[u8], usize> = HashMap::with_capacity(self.found.len());
        let mut again = Vec::new();
        for (place, found) in self.found.iter().enumerate() {
            let plain = found.stored.strip_suffix(b"/").unwrap_or(&found.stored);
            let Some(first) = seen.insert(plain, place) else { continue };
            if self.found[first].stat.0.kind == Kind::Directory && found.stat.0.kind == Kind::Directory {
                again.push(place);
                continue;
            }
            let path = |found: &Found| {
                Escaped(&[self.directories[found.directory].as_bytes(), &found.name].concat()).to_string()
            };
            return Err(told(format_args!(
                "{} and {} would have the same name in the archive: {}",
                path(&self.found[first]),
                path(found),
                Escaped(plain)
            )));
        }
        for place in again.into_iter().rev() {
            self.found.remove(place);
        }
        Ok(())
    }

    pub(super) fn write(&self, archive: &mut Archive<'_>) -> Result<(), Trouble> {
        let mut open: Option<(usize, Parent)> = None;
        for found in &self.found {
            let stat = &found.stat.0;
            let member = Member {
                name: &found.stored,
                mode: stat.mode,
                uid: stat.uid.into(),
                gid: stat.gid.into(),
                modified: stat.modified.seconds,
            };
            match (stat.kind, &found.target) {
                (_, Some(target)) => archive.add(&member, Content::Link(target))?,
                (Kind::Directory, _) => archive.add(&member, Content::Directory)?,
                _ => {
                    let directory = &self.directories[found.directory];
                    let parent = match open.take() {
                        Some((place, parent)) if place == found.directory => parent,
                        _ => Parent::open_itself(directory).map_err(|error| vanished(error, directory))?,
                    };
                    let file =
                        parent.open_regular(&found.name).map_err(|error| vanished(error, directory))?;
                    let changing = || {
                        Trouble::Changing(Escaped(&[parent.path_bytes(), &found.name].concat()).to_string())
                    };
                    if !file.stat().same_version(stat) {
                        return Err(changing());
                    }
                    archive.add(&member, Content::File(&file))?;
                    if !file.current_stat()?.same_version(stat) {
                        return Err(changing());
                    }
                    open = Some((found.directory, parent));
                }
            }
        }
        archive.finish()
    }
}

/// What was there a moment ago, and is not any more or is something else.
fn vanished(error: mgmt_sys::Error, path: &ManagedPath) -> Trouble {
    match error.cause() {
        Cause::NotADirectory(..) | Cause::NotARegularFile(_) | Cause::Missing(_) => {
            Trouble::Changing(path.to_string())
        }
        _ if error.is_not_found() => Trouble::Changing(path.to_string()),
        _ => Trouble::Input(error),
    }
}

fn told(message: impl std::fmt::Display) -> Trouble {
    Trouble::Told(Error::new(message))
}
