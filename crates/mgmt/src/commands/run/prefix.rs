//! The working directory: which one, whether it can be trusted, and who else uses it.

use std::ffi::OsString;
use std::fs::{DirBuilder, File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::environment;
use crate::failure::Failure;

/// Where root keeps its state.
const OF_ROOT: &str = "/var/lib/mgmt";
/// The file that says who uses the prefix.
const LOCK: &str = "lock";
/// Directories and files are for us alone.
const DIRECTORY_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// A working directory that is ours: nobody else can write to it, and no other instance uses it.
///
/// A temporary one is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Prefix {
    path: PathBuf,
    is_temporary: bool,
    /// Held for as long as the prefix is used; the kernel lets go of it however we end.
    _lock: File,
}

/// Which directory to use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// This one.
    Path(PathBuf),
    /// This one or, if it cannot be made, a new one.
    PathOrTemporary(PathBuf),
    /// A new one.
    Temporary,
}

/// What the choice depends on besides the flags.
#[derive(Clone, Debug, Default)]
pub(crate) struct Surroundings {
    pub(crate) is_root: bool,
    pub(super) mgmt_prefix: Option<OsString>,
    pub(super) state_directory: Option<OsString>,
    pub(super) xdg_cache_home: Option<OsString>,
    pub(super) home: Option<OsString>,
}

impl Surroundings {
    pub(crate) fn of_this_process() -> Surroundings {
        Surroundings {
            is_root: rustix::process::geteuid().is_root(),
            mgmt_prefix: environment::PREFIX.get(),
            state_directory: environment::STATE_DIRECTORY.get(),
            xdg_cache_home: environment::XDG_CACHE_HOME.get(),
            home: environment::HOME.get(),
        }
    }
}

impl Choice {
    /// The flag, the variable, the service manager's directory, and then what is usual for the user; in this order.
    pub(crate) fn new(
        flag: Option<PathBuf>,
        temporary: bool,
        allow_temporary: bool,
        surroundings: &Surroundings,
    ) -> Result<Choice, Failure> {
        if temporary {
            return Ok(Choice::Temporary);
        }
        let usual = flag
            .or_else(|| surroundings.mgmt_prefix.clone().map(PathBuf::from))
            .or_else(|| usual(surroundings));
        match usual {
            Some(path) if allow_temporary => Ok(Choice::PathOrTemporary(path)),
            Some(path) => Ok(Choice::Path(path)),
            None if allow_temporary => Ok(Choice::Temporary),
            None => Err(Failure::usage("there is no place for the working directory: HOME is not set")
                .hint("give one with `--prefix DIRECTORY`, or use `--tmp-prefix`")),
        }
    }
}

fn usual(surroundings: &Surroundings) -> Option<PathBuf> {
    if let Some(list) = &surroundings.state_directory {
        let first = list.as_bytes().split(|byte| *byte == b':').find(|path| !path.is_empty());
        if let Some(first) = first {
            return Some(PathBuf::from(OsString::from_vec(first.to_vec())));
        }
    }
    if surroundings.is_root {
        return Some(PathBuf::from(OF_ROOT));
    }
    // A relative path in this variable is to be ignored, says the standard that defines it.
    let cache = surroundings.xdg_cache_home.clone().map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || surroundings.home.clone().map(|home| PathBuf::from(home).join(".cache"));
    cache.or_else(home).map(|cache| cache.join("mgmt"))
}

impl Prefix {
    /// Makes the directory if need be, checks it, and takes it.
    pub(crate) fn open(choice: &Choice, hostname: &str) -> Result<Prefix, Failure> {
        let (path, is_temporary) = match choice {
            Choice::Path(path) => (ours(path)?, false),
            Choice::Temporary => (temporary(hostname)?, true),
            Choice::PathOrTemporary(path) => match ours(path) {
                Ok(path) => (path, false),
                Err(failure) => {
                    let path = temporary(hostname)?;
                    tracing::warn!("{}; using a temporary prefix instead", failure.message);
                    (path, true)
                }
            },
        };
        let lock = take(&path)?;
        Ok(Prefix { path, is_temporary, _lock: lock })
    }

    /// Whether a running mgmt has this directory.
    pub(crate) fn is_taken(path: &Path) -> bool {
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        let file =
            OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path.join(LOCK));
        // It is let go of at once.
        file.is_ok_and(|file| matches!(file.try_lock_shared(), Err(std::fs::TryLockError::WouldBlock)))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn is_temporary(&self) -> bool {
        self.is_temporary
    }

    /// A directory in it, made if need be.
    pub(crate) fn directory(&self, name: &str) -> Result<PathBuf, Failure> {
        let path = self.path.join(name);
        make(&path).map_err(|error| Failure::failed(format!("cannot create {}: {error}", path.display())))?;
        Ok(path)
    }
}

impl Drop for Prefix {
    fn drop(&mut self) {
        if !self.is_temporary {
            return;
        }
        if let Err(error) = std::fs::remove_dir_all(&self.path) {
            tracing::warn!("cannot remove the temporary prefix {}: {error}", self.path.display());
        }
    }
}

fn make(path: &Path) -> std::io::Result<()> {
    match DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(path) {
        // Something is there that was not found to be a directory, which is no reason yet.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => in_the_way(path),
        made => made,
    }
}

/// Why a directory is not there though something is in its place.
fn in_the_way(path: &Path) -> std::io::Result<()> {
    for above in path.ancestors() {
        match above.metadata() {
            Ok(found) if found.is_dir() => return Ok(()),
            Ok(_) => {
                let message = format!("{} is no directory", above.display());
                return Err(std::io::Error::new(ErrorKind::NotADirectory, message));
            }
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            Err(_) if above.is_symlink() => {
                let message = format!("{} is a link that leads nowhere", above.display());
                return Err(std::io::Error::new(ErrorKind::NotFound, message));
            }
            Err(_) => {}
        }
    }
    Ok(())
}

/// Makes the directory if it is not there, and refuses it if others have a say in it.
fn ours(path: &Path) -> Result<PathBuf, Failure> {
    let refused =
        |why: String| Failure::failed(format!("the prefix {} cannot be used: {why}", path.display()));
    make(path).map_err(|error| {
        let failure = refused(error.to_string());
        match error.kind() {
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                failure.hint("give another with `--prefix DIRECTORY`, or use `--tmp-prefix`")
            }
            _ => failure,
        }
    })?;
    let path = path.canonicalize().map_err(|error| refused(error.to_string()))?;
    let me = rustix::process::geteuid().as_raw();
    let found = path.symlink_metadata().map_err(|error| refused(error.to_string()))?;
    if found.uid() != me {
        return Err(refused(format!("it belongs to user {}, and we are user {me}", found.uid())).hint(
            format!(
                "`chown {me} {}` if its content can be trusted, or use another `--prefix`",
                path.display()
            ),
        ));
    }
    // Others in our group are others, too, when we are root.
    let others = if me == 0 { 0o022 } else { 0o002 };
    if found.mode() & others != 0 {
        return Err(refused(format!("others may write to it (mode {:04o})", found.mode() & 0o7777)).hint(
            format!(
                "`chmod go-w {}` if its content can be trusted, or use another `--prefix`",
                path.display()
            ),
        ));
    }
    for above in path.ancestors().skip(1) {
        let found = above.symlink_metadata().map_err(|error| refused(error.to_string()))?;
        let foreign = found.uid() != me && found.uid() != 0;
        // In a sticky directory nobody can exchange what belongs to us.
        let open = found.mode() & 0o002 != 0 && found.mode() & 0o1000 == 0;
        if foreign || open {
            return Err(refused(format!(
                "others may exchange it, because of the directory {}",
                above.display()
            ))
            .hint("use a `--prefix` whose parents belong to you or to root"));
        }
    }
    Ok(path)
}

/// A new directory that nobody else can enter. It is made, not found, so it cannot have been planted.
fn temporary(hostname: &str) -> Result<PathBuf, Failure> {
    let parent = std::env::temp_dir();
    let failed = |error: std::io::Error| {
        Failure::failed(format!("cannot make a temporary prefix in {}: {error}", parent.display()))
    };
    for attempt in 0_u32..100 {
        let path = parent.join(format!("mgmt-{hostname}-{:016x}", RandomState::new().hash_one(attempt)));
        match DirBuilder::new().mode(DIRECTORY_MODE).create(&path) {
            Ok(()) => return path.canonicalize().map_err(failed),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Err(failed(ErrorKind::AlreadyExists.into()))
}

/// Takes the prefix for this process, or says who has it.
fn take(prefix: &Path) -> Result<File, Failure> {
    let path = prefix.join(LOCK);
    let failed = |error: std::io::Error| Failure::failed(format!("cannot lock {}: {error}", path.display()));
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(FILE_MODE)
        .custom_flags(flags.bits().cast_signed())
        .open(&path)
        .map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(std::fs::TryLockError::Error(error)) => return Err(failed(error)),
        Err(std::fs::TryLockError::WouldBlock) => {
            let mut text = String::new();
            // Nothing readable in it only makes the message shorter.
            let _ = (&file).take(20).read_to_string(&mut text);
            let who = match text.trim().parse::<u32>() {
                Ok(process) => format!(" (process {process})"),
                Err(_) => String::new(),
            };
            return Err(Failure::failed(format!(
                "another mgmt{who} is running with the prefix {}",
                prefix.display()
            ))
            .hint("stop it first, or give this one another `--prefix`"));
        }
    }
    // The number is for messages alone: a full disk does not keep a host from being managed.
    let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn choice(surroundings: &Surroundings) -> PathBuf {
        match Choice::new(None, false, false, surroundings).unwrap() {
            Choice::Path(path) => path,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_choice_follows_its_order() {
        let mut around = Surroundings { home: Some("/home/me".into()), ..Surroundings::default() };
        assert_eq!(choice(&around), Path::new("/home/me/.cache/mgmt"));
        around.xdg_cache_home = Some("relative".into());
        assert_eq!(choice(&around), Path::new("/home/me/.cache/mgmt"));
        around.xdg_cache_home = Some("/cache".into());
        assert_eq!(choice(&around), Path::new("/cache/mgmt"));
        around.is_root = true;
        assert_eq!(choice(&around), Path::new("/var/lib/mgmt"));
        around.state_directory = Some(":/var/lib/one:/var/lib/two".into());
        assert_eq!(choice(&around), Path::new("/var/lib/one"));
        around.mgmt_prefix = Some("/prefix".into());
        assert_eq!(choice(&around), Path::new("/prefix"));
        let flag = Choice::new(Some("/flag".into()), false, true, &around).unwrap();
        assert_eq!(flag, Choice::PathOrTemporary("/flag".into()));
        assert_eq!(Choice::new(None, true, false, &around).unwrap(), Choice::Temporary);
    }

    #[test]
    fn without_a_home_there_is_no_place() {
        let around = Surroundings::default();
        assert_eq!(Choice::new(None, false, false, &around).unwrap_err().code, 2);
        assert_eq!(Choice::new(None, false, true, &around).unwrap(), Choice::Temporary);
    }

    #[test]
    fn a_prefix_is_made_for_us_alone_and_only_one_may_have_it() {
        let scratch = tempfile::tempdir().unwrap();
        let choice = Choice::Path(scratch.path().join("a/b"));
        let prefix = Prefix::open(&choice, "host").unwrap();
        assert_eq!(prefix.path().metadata().unwrap().mode() & 0o7777, 0o700);
        let second = Prefix::open(&choice, "host").unwrap_err();
        assert_eq!(second.code, 1);
        assert!(second.message.contains(&format!("process {}", std::process::id())), "{}", second.message);
        drop(prefix);
        assert!(Prefix::open(&choice, "host").is_ok());
    }

    #[test]
    fn a_prefix_that_others_may_write_to_is_refused_with_a_hint() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("open");
        std::fs::create_dir(&path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777)).unwrap();
        let failure = Prefix::open(&Choice::Path(path.clone()), "host").unwrap_err();
        assert!(failure.message.contains("0777") && failure.hints[0].contains("chmod"), "{failure:?}");
        let below = Prefix::open(&Choice::Path(path.join("below")), "host").unwrap_err();
        assert!(below.message.contains("exchange"), "{below:?}");
        let fallback = Prefix::open(&Choice::PathOrTemporary(path), "host").unwrap();
        assert!(fallback.is_temporary());
    }

    #[test]
    fn what_is_in_the_way_is_named() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        std::fs::write(at("file"), "").unwrap();
        std::os::unix::fs::symlink(at("nowhere"), at("link")).unwrap();
        let refused = |name: &str| Prefix::open(&Choice::Path(at(name)), "host").unwrap_err().message;
        assert!(refused("file").contains("file is no directory"), "{}", refused("file"));
        for name in ["link", "link/below"] {
            assert!(refused(name).contains("link is a link that leads nowhere"), "{}", refused(name));
        }
        assert!(!at("nowhere").exists());
    }

    #[test]
    fn a_temporary_prefix_is_removed_with_all_that_is_in_it() {
        let prefix = Prefix::open(&Choice::Temporary, "some-host").unwrap();
        let path = prefix.path().to_owned();
        assert!(path.file_name().unwrap().to_str().unwrap().starts_with("mgmt-some-host-"));
        assert_eq!(path.metadata().unwrap().mode() & 0o7777, 0o700);
        std::fs::write(prefix.directory("engine/state").unwrap().join("x"), "x").unwrap();
        drop(prefix);
        assert!(!path.exists());
    }
}
