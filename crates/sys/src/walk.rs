//! Opening a directory by its path without being led astray.
//!
//! The usual case is one `openat2` that refuses every symbolic link. Only when that fails is the path walked component
//! by component, with every step relative to the handle of the step before. The walk follows a symbolic link only when
//! nobody but root or we could have put it there, and names the component that stands in the way.
//!
//! The walk keeps the handle of every directory above, so that `..` in a link's target goes back the way it came: a
//! directory that someone moves away meanwhile does not take us along.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, fstat, mkdirat, openat, openat2, readlinkat};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::error::{Cause, Distrust, Error, Result};
use crate::path::MAX_COMPONENTS;
use crate::stat::{Kind, Stat};

/// As many links as the kernel itself follows.
const MAX_LINKS: usize = 40;

const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Whether directories that are missing are to be made.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    Report,
    Create,
}

/// Opens the directory `path`, which is absolute and clean.
pub(crate) fn open_directory(path: &[u8], missing: Missing) -> Result<OwnedFd> {
    // Set once, when the kernel turns out to be older than the call.
    static ABSENT: AtomicBool = AtomicBool::new(false);
    if !ABSENT.load(Ordering::Relaxed) {
        let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        match openat2(CWD, path, DIRECTORY, Mode::empty(), resolve) {
            Ok(fd) => return Ok(fd),
            Err(Errno::NOSYS) => ABSENT.store(true, Ordering::Relaxed),
            // A link, a missing directory, a sandbox that forbids the call: the walk finds out which.
            Err(_) => {}
        }
    }
    walk(path, missing)
}

/// Opens the directory `path` component by component.
pub(crate) fn walk(path: &[u8], missing: Missing) -> Result<OwnedFd> {
    let mut walk = Walk::start(path)?;
    while let Some(step) = walk.pending.pop() {
        walk.take(step, missing)?;
    }
    walk.handles.pop().ok_or_else(|| Error::new("open", path, Errno::NOENT))
}

struct Walk<'a> {
    /// The path that was asked for.
    asked: &'a [u8],
    /// One handle per directory from the root down to where we are. Never empty.
    handles: Vec<OwnedFd>,
    /// Where we are, for messages: one name per handle after the first.
    names: Vec<Box<[u8]>>,
    /// What is still to be walked, the next step last.
    pending: Vec<Step>,
    links: usize,
}

struct Step {
    name: Box<[u8]>,
    /// Came out of a link's target rather than out of the path that was asked for.
    from_link: bool,
}

impl<'a> Walk<'a> {
    fn start(asked: &'a [u8]) -> Result<Self> {
        let root =
            openat(CWD, c"/", DIRECTORY, Mode::empty()).map_err(|errno| Error::new("open", *b"/", errno))?;
        let mut walk = Self { asked, handles: vec![root], names: Vec::new(), pending: Vec::new(), links: 0 };
        walk.push(asked, false);
        Ok(walk)
    }

    fn push(&mut self, path: &[u8], from_link: bool) {
        let names = path.rsplit(|&byte| byte == b'/').filter(|name| !matches!(*name, b"" | b"."));
        self.pending.extend(names.map(|name| Step { name: name.into(), from_link }));
    }

    fn take(&mut self, step: Step, missing: Missing) -> Result<()> {
        if *step.name == *b".." {
            if self.handles.len() > 1 {
                self.handles.pop();
                self.names.pop();
            }
            return Ok(());
        }
        let flags = DIRECTORY | OFlags::NOFOLLOW;
        let here = self.here();
        let mut opened = openat(here, &*step.name, flags, Mode::empty());
        if opened.as_ref().err() == Some(&Errno::NOENT) {
            if missing == Missing::Report || step.from_link {
                return Err(Error::new("open", self.asked, Cause::Missing(self.at(&step.name))));
            }
            match mkdirat(here, &*step.name, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => opened = openat(here, &*step.name, flags, Mode::empty()),
                Err(errno) => return Err(Error::new("make the directory", self.at(&step.name), errno)),
            }
        }
        match opened {
            Ok(fd) => self.enter(fd, step.name),
            Err(Errno::NOTDIR | Errno::LOOP) => self.take_other(step),
            Err(errno) => Err(Error::new("open", self.at(&step.name), errno)),
        }
    }

    /// Takes a step onto something that is not a directory.
    fn take_other(&mut self, step: Step) -> Result<()> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let failed = |errno| Error::new("open", self.at(&step.name), errno);
        let fd = openat(self.here(), &*step.name, flags, Mode::empty()).map_err(failed)?;
        let stat = Stat::from(fstat(&fd).map_err(failed)?);
        match stat.kind {
            Kind::Directory => self.enter(fd, step.name),
            Kind::Symlink => {
                self.trust(&step.name, &stat)?;
                // Read through the handle whose owner was just checked, so that no other link can slip in.
                let target = readlinkat(&fd, c"", Vec::new())
                    .map_err(|errno| Error::new("open", self.at(&step.name), errno))?;
                self.follow(target.as_bytes());
                Ok(())
            }
            kind => Err(Error::new("open", self.asked, Cause::NotADirectory(self.at(&step.name), kind))),
        }
    }

    fn enter(&mut self, fd: OwnedFd, name: Box<[u8]>) -> Result<()> {
        if self.handles.len() > MAX_COMPONENTS {
            return Err(Error::new("open", self.asked, Cause::TooDeep(MAX_COMPONENTS)));
        }
        self.handles.push(fd);
        self.names.push(name);
        Ok(())
    }

    /// A link is trusted when root or we made it, in a directory where nobody else could exchange it for another.
    fn trust(&mut self, name: &[u8], link: &Stat) -> Result<()> {
        self.links += 1;
        if self.links > MAX_LINKS {
            return Err(Error::new("open", self.asked, Cause::TooManyLinks(self.at(name))));
        }
        let directory = fstat(self.here()).map_err(|errno| Error::new("look at", self.at(b""), errno))?;
        let directory = Stat::from(directory);
        let distrust = if link.uid != 0 && link.uid != geteuid().as_raw() {
            Distrust::Owner
        } else if directory.mode & 0o022 != 0 && directory.mode & 0o1000 == 0 {
            Distrust::WritableDirectory
        } else {
            return Ok(());
        };
        Err(Error::new(
            "open",
            self.asked,
            Cause::UntrustedLink { link: self.at(name), owner: link.uid, distrust },
        ))
    }

    fn follow(&mut self, target: &[u8]) {
        if target.first() == Some(&b'/') {
            self.handles.truncate(1);
            self.names.clear();
        }
        self.push(target, true);
    }

    fn here(&self) -> &OwnedFd {
        // The root's handle is never popped.
        &self.handles[self.handles.len() - 1]
    }

    /// The path of the entry `name` where we are.
    fn at(&self, name: &[u8]) -> Box<[u8]> {
        let mut path = Vec::new();
        for above in &self.names {
            path.push(b'/');
            path.extend_from_slice(above);
        }
        path.push(b'/');
        path.extend_from_slice(name);
        path.into()
    }
}
