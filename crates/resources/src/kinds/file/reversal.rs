//! Undoing: what is there before we touch it, written as a `file` resource that brings it back.

use mgmt_resource::{Error, Result};
use mgmt_sys::dir::Parent;
use mgmt_sys::error::Cause;
use mgmt_sys::handle::Node;
use mgmt_sys::stat::{Kind, Stat};
use mgmt_sys::tree::{Limits, list};
use mgmt_sys::xattr;
use mgmt_value::Str;

use super::File;
use super::declaration::{Declaration, Input, State, Target};
use super::trouble::Trouble;

/// The longest content that is kept to be restored.
const LONGEST: u64 = 8 << 20;

/// The resource that undoes `file`. Nothing if there is nothing to undo.
///
/// Only what is declared is undone: a file for which a mode alone is declared gets its mode back, and keeps whatever
/// content it has by then. What did not exist becomes absent, without `recurse`, so that nothing is removed with it
/// that we did not make.
pub(super) fn reversed(file: &File, name: &Str) -> Result<Option<File>> {
    let wish = Declaration::read(file, name)
        .map_err(|invalid| Error::new(format_args!("cannot undo: {invalid}")))?;
    let undo = Undo { wish: &wish };
    undo.reversed().map_err(|trouble| trouble.explain().context("cannot tell how to undo"))
}

struct Undo<'a> {
    wish: &'a Declaration<'a>,
}

impl Undo<'_> {
    fn reversed(&self) -> super::trouble::Result<Option<File>> {
        if matches!(self.wish.target, Target::Directory { source: Some(_) }) || self.wish.file.purge {
            return Err(unsupported("a directory that is copied or purged can't be undone"));
        }
        let Some(name) = self.wish.path.file_name() else {
            return self.changed_directory(&Parent::open_itself(&self.wish.path)?);
        };
        let parent = match Parent::open(&self.wish.path) {
            Ok(parent) => parent,
            Err(error) if matches!(error.cause(), Cause::Missing(_) | Cause::NotADirectory(..)) => {
                return Ok(self.was_missing());
            }
            Err(error) => return Err(error.into()),
        };
        let Some(stat) = parent.lstat_entry(name)? else { return Ok(self.was_missing()) };
        match stat.kind {
            Kind::File => self.was_file(&parent, name, &stat),
            Kind::Symlink => self.was_link(&parent, name),
            Kind::Directory => self.was_directory(&parent, name),
            kind if self.replaces(kind) => {
                Err(unsupported(&format!("{} is {kind}, which can't be made again", self.wish.path)))
            }
            _ => Ok(None),
        }
    }

    /// The reversal without anything in it yet.
    fn blank(&self) -> File {
        let trailing: &[u8] = if matches!(self.wish.target, Target::Directory { .. }) { b"/" } else { b"" };
        File {
            path: [self.wish.path.without_slash(), trailing].concat().into(),
            force: self.wish.file.force,
            atomic: self.wish.file.atomic,
            ..File::default()
        }
    }

    fn was_missing(&self) -> Option<File> {
        (self.wish.state == State::Exists).then(|| File {
            state: State::Absent.word().into(),
            symlink: matches!(self.wish.target, Target::Link(_)),
            ..self.blank()
        })
    }

    /// Whether our run takes something of this kind away.
    fn replaces(&self, kind: Kind) -> bool {
        let wanted = match self.wish.target {
            Target::File(_) => Kind::File,
            Target::Directory { .. } => Kind::Directory,
            Target::Link(_) => Kind::Symlink,
        };
        let makes = match self.wish.state {
            State::Absent => return true,
            State::Exists => true,
            State::Undefined => wanted == Kind::File && self.writes(),
        };
        makes && self.wish.file.force && kind != wanted
    }

    /// Whether our run writes to a regular file.
    fn writes(&self) -> bool {
        matches!(&self.wish.target, Target::File(input) if !matches!(input, Input::Untouched))
    }

    fn was_file(&self, parent: &Parent, name: &[u8], stat: &Stat) -> super::trouble::Result<Option<File>> {
        let is_replaced = self.replaces(Kind::File);
        if !is_replaced && !self.writes() {
            let handle = parent.open_entry(name)?;
            return self.attributes_alone(&handle, handle.stat());
        }
        let file = parent.open_regular(name)?;
        if stat.size > LONGEST {
            return Err(unsupported(&format!(
                "{} is {} bytes long, and at most {LONGEST} are kept for undoing",
                self.wish.path, stat.size
            )));
        }
        let content = file.read(LONGEST)?;
        let mut undo = File {
            path: self.wish.path.without_slash().into(),
            state: State::Exists.word().into(),
            content: Some(content.into()),
            force: is_replaced || self.wish.file.force,
            ..self.blank()
        };
        self.restore(&mut undo, &file, file.stat(), true)?;
        Ok(Some(undo))
    }

    fn was_link(&self, parent: &Parent, name: &[u8]) -> super::trouble::Result<Option<File>> {
        let is_link = matches!(self.wish.target, Target::Link(_));
        let handle = parent.open_entry(name)?;
        // A link to a directory stands for the directory, and stays.
        if matches!(self.wish.target, Target::Directory { .. })
            && self.wish.state != State::Absent
            && let Ok(directory) = Parent::open_itself(&self.wish.path)
        {
            return self.changed_directory(&directory);
        }
        let is_turned = is_link && self.wish.state == State::Exists;
        if !is_turned && !self.replaces(Kind::Symlink) {
            return if is_link { self.attributes_alone(&handle, handle.stat()) } else { Ok(None) };
        }
        let mut undo = File {
            path: self.wish.path.without_slash().into(),
            state: State::Exists.word().into(),
            symlink: true,
            source: parent.read_link(name)?.into(),
            force: self.wish.file.force || self.replaces(Kind::Symlink),
            ..self.blank()
        };
        self.restore(&mut undo, &handle, handle.stat(), true)?;
        undo.mode = Str::EMPTY;
        Ok(Some(undo))
    }

    fn was_directory(&self, parent: &Parent, name: &[u8]) -> super::trouble::Result<Option<File>> {
        let directory = parent.open_dir(name)?;
        if !self.replaces(Kind::Directory) {
            return self.changed_directory(&directory);
        }
        if list(&directory, &Limits { entries: 0, depth: 1 }).is_err() {
            return Err(unsupported("a directory that is removed with all in it can't be undone"));
        }
        let mut undo = File {
            path: self.wish.path.to_directory().as_bytes().into(),
            state: State::Exists.word().into(),
            force: true,
            ..self.blank()
        };
        self.restore(&mut undo, &directory, &directory.stat()?, true)?;
        Ok(Some(undo))
    }

    fn changed_directory(&self, directory: &Parent) -> super::trouble::Result<Option<File>> {
        self.attributes_alone(directory, &directory.stat()?)
    }

    /// Undoes what is declared of owner, group, mode and label, and nothing else.
    fn attributes_alone(&self, node: &impl Node, stat: &Stat) -> super::trouble::Result<Option<File>> {
        let mut undo = File { symlink: matches!(self.wish.target, Target::Link(_)), ..self.blank() };
        self.restore(&mut undo, node, stat, false)?;
        let nothing = File { symlink: undo.symlink, ..self.blank() };
        Ok((undo != nothing).then_some(undo))
    }

    /// Notes owner, group, mode and label as they are: those that are declared, or all that a new file would lose.
    fn restore(
        &self,
        undo: &mut File,
        node: &impl Node,
        stat: &Stat,
        all: bool,
    ) -> super::trouble::Result<()> {
        let declared = &self.wish.file;
        if all || !declared.owner.is_empty() {
            undo.owner = stat.uid.to_string().into();
        }
        if all || !declared.group.is_empty() {
            undo.group = stat.gid.to_string().into();
        }
        // A change of owner takes setuid and setgid away.
        let loses_bits = stat.kind == Kind::File
            && stat.mode & 0o6000 != 0
            && !(declared.owner.is_empty() && declared.group.is_empty());
        if stat.kind != Kind::Symlink && (all || loses_bits || !declared.mode.is_empty()) {
            undo.mode = format!("{:04o}", stat.mode).into();
        }
        let label = xattr::label(node)?;
        if declared.selinux.is_some() || (all && label.is_some()) {
            undo.selinux = Some(label.unwrap_or_default().into());
        }
        Ok(())
    }
}

fn unsupported(why: &str) -> Trouble {
    Trouble::new(format_args!("not supported: {why}")).with_hint("set `Meta:reverse => false`")
}
