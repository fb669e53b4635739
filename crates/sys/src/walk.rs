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

/// For reading, without waiting for anybody, and not through a link.
pub(crate) const REGULAR: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

/// Pins something without opening it, and not through a link.
const PINNED: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Whether directories that are missing are to be made.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    Report,
    Create,
}

/// Opens the directory `path`, which is absolute and clean.
pub(crate) fn open_directory(path: &[u8], missing: Missing) -> Result<OwnedFd> {
    match open_without_links(path, DIRECTORY) {
        Some(fd) => Ok(fd),
        None => walk(path, missing),
    }
}

/// Opens the file `path`, which is absolute, for reading and without blocking. The last component too may be a link that
/// is trusted.
pub(crate) fn open_file(path: &[u8]) -> Result<OwnedFd> {
    open_trusted(path, REGULAR)
}

/// Pins whatever `path`, which is absolute, leads to, without opening it. The last component too may be a link that is
/// trusted.
pub(crate) fn pin(path: &[u8]) -> Result<OwnedFd> {
    open_trusted(path, PINNED)
}

fn open_trusted(path: &[u8], flags: OFlags) -> Result<OwnedFd> {
    // A link in the last place can be pinned, but is not what it leads to.
    let is_end = |fd: &OwnedFd| !flags.contains(OFlags::PATH) || !is_link(fd);
    if let Some(fd) = open_without_links(path, flags).filter(is_end) {
        return Ok(fd);
    }
    let mut walk = Walk::start(path)?;
    loop {
        let Some(step) = walk.pending.pop() else { return walk.end(path, flags) };
        if !walk.pending.is_empty() || *step.name == *b".." {
            walk.take(step, Missing::Report)?;
            continue;
        }
        match openat(walk.here(), &*step.name, flags, Mode::empty()) {
            Ok(fd) if is_end(&fd) => return Ok(fd),
            Ok(_) | Err(Errno::LOOP) => walk.take_other(step)?,
            Err(errno) => return Err(Error::new("open", path, errno)),
        }
    }
}

fn is_link(fd: &OwnedFd) -> bool {
    fstat(fd).is_ok_and(|raw| Stat::from(raw).kind == Kind::Symlink)
}

/// Opens `path` in one call if there is no link anywhere in it. Nothing if there is, or if anything else stands in the
/// way: a missing directory, a sandbox that forbids the call, an old kernel. The walk finds out which.
pub(crate) fn open_without_links(path: &[u8], flags: OFlags) -> Option<OwnedFd> {
    // Set once, when the kernel turns out to be older than the call.
    static ABSENT: AtomicBool = AtomicBool::new(false);
    if ABSENT.load(Ordering::Relaxed) {
        return None;
    }
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let opened = openat2(CWD, path, flags, Mode::empty(), resolve);
    if opened.as_ref().err() == Some(&Errno::NOSYS) {
        ABSENT.store(true, Ordering::Relaxed);
    }
    opened.ok()
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
        let failed = |errno| Error::new("open", self.at(&step.name), errno);
        let fd = openat(self.here(), &*step.name, PINNED, Mode::empty()).map_err(failed)?;
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

    /// The path ends in the directory where the walk is.
    fn end(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd> {
        if !flags.contains(OFlags::PATH) {
            return Err(Error::new("open", path, Errno::ISDIR));
        }
        openat(self.here(), c".", DIRECTORY, Mode::empty()).map_err(|errno| Error::new("open", path, errno))
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

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::{PermissionsExt as _, lchown, symlink};
    use std::path::Path;

    use super::*;

    /// Opens by the fast way and by the walk alone, as on a kernel without `openat2`; both must agree.
    fn open(path: &Path) -> Result<Stat> {
        let bytes = path.as_os_str().as_bytes();
        let fast = open_directory(bytes, Missing::Report).map(|fd| Stat::from(fstat(fd).unwrap()));
        let walked = walk(bytes, Missing::Report).map(|fd| Stat::from(fstat(fd).unwrap()));
        match (&fast, &walked) {
            (Ok(fast), Ok(walked)) => assert!(fast.same_file(walked)),
            (Err(fast), Err(walked)) => assert_eq!(fast.to_string(), walked.to_string()),
            _ => panic!("{fast:?} but {walked:?}"),
        }
        walked
    }

    fn stat(path: &Path) -> Stat {
        rustix::fs::stat(path).unwrap().into()
    }

    fn scratch() -> tempfile::TempDir {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(scratch.path().join("real/deep/er")).unwrap();
        scratch
    }

    #[track_caller]
    fn same(path: &Path, as_path: &Path) {
        assert!(open(path).unwrap().same_file(&stat(as_path)));
    }

    #[test]
    fn plain_directories_are_opened() {
        let scratch = scratch();
        same(&scratch.path().join("real/deep/er/"), &scratch.path().join("real/deep/er"));
        same(Path::new("/"), Path::new("/"));
    }

    #[test]
    fn links_of_root_and_ours_are_followed() {
        let scratch = scratch();
        let at = |name: &str| scratch.path().join(name);
        symlink(at("real"), at("absolute")).unwrap();
        symlink("real/deep/../deep", at("relative")).unwrap();
        symlink("../../absolute/deep/.././deep", at("real/deep/up")).unwrap();
        symlink("../../../../../../../../../../../../../../../../", at("top")).unwrap();
        same(&at("absolute/deep"), &at("real/deep"));
        same(&at("relative/er"), &at("real/deep/er"));
        same(&at("real/deep/up/er"), &at("real/deep/er"));
        same(&at("top"), Path::new("/"));
    }

    #[test]
    fn dots_in_a_link_go_back_to_the_real_parent() {
        let scratch = scratch();
        let at = |name: &str| scratch.path().join(name);
        symlink("real/deep", at("short")).unwrap();
        // Through the letters this would be `real`; through the link it is `real/deep/..`.
        symlink("short/../deep/er", at("dots")).unwrap();
        same(&at("dots"), &at("real/deep/er"));
    }

    #[test]
    fn a_link_of_someone_else_is_refused_and_named() {
        let scratch = scratch();
        let link = scratch.path().join("link");
        symlink("real", &link).unwrap();
        lchown(&link, Some(1234), None).unwrap();
        let error = open(&link.join("deep")).unwrap_err();
        assert!(error.is_permission_denied());
        let message = error.to_string();
        let expected = format!(
            "cannot open {link}/deep: the symbolic link {link} on the way belongs to user 1234, who is neither root \
             nor us, and is not followed; make it a directory, or give the link to root (chown -h root {link}) if it \
             is meant",
            link = link.display()
        );
        assert_eq!(message, expected);
    }

    #[test]
    fn a_link_where_others_can_write_is_refused_unless_sticky() {
        let scratch = scratch();
        let shared = scratch.path().join("shared");
        std::fs::create_dir(&shared).unwrap();
        symlink("../real", shared.join("link")).unwrap();
        for (mode, trusted) in [(0o755, true), (0o775, false), (0o757, false), (0o777, false), (0o1777, true)]
        {
            std::fs::set_permissions(&shared, std::fs::Permissions::from_mode(mode)).unwrap();
            match open(&shared.join("link/deep")) {
                Ok(_) => assert!(trusted, "{mode:o}"),
                Err(error) => {
                    assert!(!trusted, "{mode:o}: {error}");
                    let Cause::UntrustedLink { link, owner: 0, distrust } = error.cause() else {
                        panic!("{error}")
                    };
                    assert_eq!(&**link, shared.join("link").as_os_str().as_bytes());
                    assert_eq!(*distrust, Distrust::WritableDirectory);
                    assert!(error.to_string().contains("set its sticky bit"), "{error}");
                }
            }
        }
    }

    #[test]
    fn an_untrusted_link_behind_a_trusted_one_is_refused() {
        let scratch = scratch();
        let at = |name: &str| scratch.path().join(name);
        symlink("second/deep", at("first")).unwrap();
        symlink("real", at("second")).unwrap();
        lchown(at("second"), Some(1234), None).unwrap();
        let error = open(&at("first")).unwrap_err();
        assert!(
            error.to_string().contains(&format!("the symbolic link {}", at("second").display())),
            "{error}"
        );
    }

    #[test]
    fn a_loop_of_links_ends() {
        let scratch = scratch();
        let at = |name: &str| scratch.path().join(name);
        symlink("pong", at("ping")).unwrap();
        symlink("ping", at("pong")).unwrap();
        let error = open(&at("ping/x")).unwrap_err();
        assert!(matches!(error.cause(), Cause::TooManyLinks(_)), "{error}");
        let mut target = at("real");
        for hop in 0..41 {
            let link = at(&format!("hop{hop}"));
            symlink(&target, &link).unwrap();
            target = link;
        }
        assert!(open(&at("hop39")).is_ok());
        assert!(open(&at("hop40")).is_err());
    }

    #[test]
    fn the_first_missing_component_is_named() {
        let scratch = scratch();
        let error = open(&scratch.path().join("real/none/such")).unwrap_err();
        assert!(error.is_parent_missing());
        let root = scratch.path().display();
        assert_eq!(
            error.to_string(),
            format!("cannot open {root}/real/none/such: {root}/real/none does not exist")
        );
        symlink("nowhere/at/all", scratch.path().join("dangling")).unwrap();
        let error = open(&scratch.path().join("dangling/x")).unwrap_err();
        let expected = format!("/dangling/x: {root}/nowhere does not exist");
        assert!(error.to_string().ends_with(&expected), "{error}");
        symlink(scratch.path().join("nowhere"), scratch.path().join("real/absolute")).unwrap();
        let error = open(&scratch.path().join("real/absolute/x")).unwrap_err();
        let expected = format!("/absolute/x: {root}/nowhere does not exist");
        assert!(error.to_string().ends_with(&expected), "{error}");
    }

    #[test]
    fn a_component_that_is_no_directory_is_named() {
        let scratch = scratch();
        std::fs::write(scratch.path().join("file"), "").unwrap();
        let error = open(&scratch.path().join("file/x/y")).unwrap_err();
        let root = scratch.path().display();
        assert_eq!(
            error.to_string(),
            format!("cannot open {root}/file/x/y: {root}/file is a regular file, not a directory")
        );
        assert_eq!(error.found_kind(), Some(Kind::File));
    }

    #[test]
    fn missing_directories_are_made_only_where_the_path_says() {
        let scratch = scratch();
        let at = |name: &str| scratch.path().join(name);
        let make = |path: &Path| open_directory(path.as_os_str().as_bytes(), Missing::Create);
        make(&at("real/new/and/deeper")).unwrap();
        assert!(at("real/new/and/deeper").is_dir());
        symlink("real", at("link")).unwrap();
        make(&at("link/other")).unwrap();
        assert!(at("real/other").is_dir());
        symlink("nowhere", at("dangling")).unwrap();
        assert!(make(&at("dangling/x")).unwrap_err().is_parent_missing());
        assert!(!at("nowhere").exists());
    }

    #[test]
    fn names_that_are_not_text_are_walked() {
        let scratch = scratch();
        let odd = scratch.path().join(std::ffi::OsStr::from_bytes(b"odd\xff\n"));
        std::fs::create_dir(&odd).unwrap();
        symlink(std::ffi::OsStr::from_bytes(b"odd\xff\n"), scratch.path().join("link")).unwrap();
        same(&scratch.path().join("link"), &odd);
    }

    #[test]
    fn a_link_cannot_lead_deeper_than_a_path_could() {
        let scratch = scratch();
        let mut deep = scratch.path().to_owned();
        for _ in 0..100 {
            deep.push("d");
        }
        std::fs::create_dir_all(&deep).unwrap();
        symlink(&deep, scratch.path().join("far")).unwrap();
        let down = "d/".repeat(200);
        std::fs::create_dir_all(deep.join(&down)).unwrap();
        let error = open(&scratch.path().join("far").join(&down)).unwrap_err();
        assert!(matches!(error.cause(), Cause::TooDeep(_)), "{error}");
    }
}
