//! A directory for one run of `augtool`: all that it sees of the host but its lenses.
//!
//! Invariants
//! - Nobody else can enter it, and it is made, not found. It belongs to whoever `augtool` runs as.
//! - It is removed with all that is in it, whatever becomes of the run. What a killed process has left is removed by the next.
//! - What is read from it is a regular file of bounded length that is in it: no link is followed.
//!
//! As root, `augtool` runs as the account that the package makes for this, or as a number that no account has: nothing of the host
//! belongs to it, and there is no home in which it would keep a history. Who is not root, or must not take that number, runs it as
//! himself.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::Duration;

use mgmt_sys::process::Credentials;
use rustix::fs::OFlags;

use super::script::TEXT;
use crate::support::account::local::Accounts;

/// An account that has no rights, which is what it is for. `contrib/systemd/mgmt.sysusers` makes it.
const HELPER: &str = "mgmt-helper";
/// Between those that systemd gives away and `nobody`: a number that is kept unused, for where that account is not there.
const NOBODYS: u32 = 65533;
const NAME: &str = "mgmt-augeas-";
/// After how long nobody uses one any more. A run is stopped much sooner.
const LEFT: Duration = Duration::from_secs(3600);
/// The longest text that is read.
const LONGEST: u64 = 64 << 20;

/// The reader of commands takes every letter as it is, and reads no other settings than these.
const SETTINGS: &[u8] = b"set editing-mode emacs\nset disable-completion on\nset convert-meta off\n\
set input-meta on\nset output-meta on\nset bell-style none\nset enable-bracketed-paste off\n";
const INPUTRC: &str = "inputrc";

#[derive(Debug)]
pub(super) struct Place {
    path: PathBuf,
    /// Who it belongs to, if not to us.
    pub(super) who: Option<Credentials>,
}

impl Place {
    /// Makes one with a text in it.
    pub(super) fn with(text: &[u8]) -> io::Result<Place> {
        static SWEPT: Once = Once::new();
        let places = places();
        SWEPT.call_once(|| places.iter().for_each(|place| sweep(place)));
        let mut place = Place { path: make(&places)?, who: None };
        // To a file without a line, `augtool` would add an empty one.
        let text = Some((TEXT, text)).filter(|(_, text)| !text.is_empty());
        let files: Vec<(&str, &[u8])> = text.into_iter().chain([(INPUTRC, SETTINGS)]).collect();
        for (name, content) in &files {
            let mut options = OpenOptions::new();
            options
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(place.path.join(name))?
                .write_all(content)?;
        }
        if rustix::process::geteuid().is_root() {
            place.give_away(helper(&Accounts::now()), files.iter().map(|(name, _)| *name));
        }
        Ok(place)
    }

    /// The directory last: as long as it is ours, nobody else can be in it.
    fn give_away<'a>(&mut self, who: Credentials, names: impl Iterator<Item = &'a str>) {
        let paths = names.map(|name| self.path.join(name)).chain([self.path.clone()]);
        for path in paths.collect::<Vec<_>>() {
            if let Err(error) = chown(&path, Some(who.uid), Some(who.gid)) {
                // A container may not have the number. As root, all can be read nevertheless.
                tracing::debug!(target: "mgmt::resource", "augtool runs as we do: {error}");
                return;
            }
        }
        self.who = Some(who);
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Nothing of our own environment but these.
    pub(super) fn environment(&self) -> [(OsString, OsString); 4] {
        [
            ("LC_ALL".into(), "C".into()),
            ("TERM".into(), "dumb".into()),
            ("HOME".into(), self.path.clone().into()),
            ("INPUTRC".into(), self.path.join(INPUTRC).into()),
        ]
    }

    /// The text that is there now. Without a file it is empty.
    pub(super) fn text(&self) -> io::Result<Vec<u8>> {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let flags = flags.bits().cast_signed();
        let file = match OpenOptions::new().read(true).custom_flags(flags).open(self.path.join(TEXT)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            file => file?,
        };
        let mut text = Vec::new();
        if !file.metadata()?.is_file() || file.take(LONGEST + 1).read_to_end(&mut text)? as u64 > LONGEST {
            return Err(io::Error::new(ErrorKind::InvalidData, "no text, or too long a one"));
        }
        Ok(text)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            tracing::debug!(target: "mgmt::resource", "cannot remove {}: {error}", self.path.display());
        }
    }
}

/// Who runs without rights. An account of that name that has some is not the one.
fn helper(accounts: &Accounts) -> Credentials {
    let account = accounts.local_user_named(HELPER).map(|user| (user.uid.as_raw(), user.gid.as_raw()));
    let (uid, gid) = account.filter(|(uid, gid)| *uid != 0 && *gid != 0).unwrap_or((NOBODYS, NOBODYS));
    Credentials { uid, gid, groups: Vec::new() }
}

/// Where what runs is kept, in memory; and elsewhere if that is not possible.
fn places() -> Vec<PathBuf> {
    if rustix::process::geteuid().is_root() {
        // Whoever `augtool` runs as has to get there.
        return ["/run", "/tmp"].map(PathBuf::from).into();
    }
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    runtime.into_iter().chain([std::env::temp_dir()]).collect()
}

fn make(places: &[PathBuf]) -> io::Result<PathBuf> {
    let mut failure = io::Error::from(ErrorKind::NotFound);
    for place in places {
        for attempt in 0..8 {
            let path = place.join(format!("{NAME}{:016x}", RandomState::new().hash_one(attempt)));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(path),
                Err(error) => failure = error,
            }
        }
    }
    Err(failure)
}

/// Removes what killed processes have left long ago.
fn sweep(place: &Path) {
    let ours = [NOBODYS, helper(&Accounts::now()).uid, rustix::process::geteuid().as_raw()];
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        if !entry.file_name().as_bytes().starts_with(NAME.as_bytes()) {
            continue;
        }
        let left = entry.metadata().is_ok_and(|found| {
            let old = found.modified().is_ok_and(|at| at.elapsed().is_ok_and(|age| age > LEFT));
            found.is_dir() && ours.contains(&found.uid()) && old
        });
        if left {
            // Somebody else may be doing the same.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn nobody_else_enters_it_and_nothing_is_left() {
        let place = Place::with(b"text").unwrap();
        let path = place.path().to_owned();
        let found = fs::metadata(&path).unwrap();
        assert_eq!(found.mode() & 0o7777, 0o700);
        assert_eq!(place.who.is_some(), rustix::process::geteuid().is_root());
        assert_eq!(place.who.as_ref().map_or(found.uid(), |who| who.uid), found.uid());
        assert_eq!(place.text().unwrap(), b"text");
        assert_eq!(Place::with(b"").unwrap().text().unwrap(), b"");
        fs::create_dir(path.join("more")).unwrap();
        drop(place);
        assert!(!path.exists());
    }

    #[test]
    fn only_an_account_without_rights_is_taken_for_the_helper() {
        let who = |passwd| {
            let helper = helper(&Accounts::of(passwd, ""));
            (helper.uid, helper.gid, helper.groups)
        };
        assert_eq!(who("mgmt-helper:x:990:989::/:/usr/sbin/nologin\n"), (990, 989, vec![]));
        for other in
            ["", "helper:x:990:989::/:/bin/sh\n", "mgmt-helper:x:0:989::/:/\n", "mgmt-helper:x:990:0::/:/\n"]
        {
            assert_eq!(who(other), (NOBODYS, NOBODYS, vec![]), "{other}");
        }
    }

    #[test]
    fn no_link_is_followed_out_of_it() {
        let place = Place::with(b"text").unwrap();
        let text = place.path().join(TEXT);
        fs::remove_file(&text).unwrap();
        symlink("/etc/passwd", &text).unwrap();
        assert!(place.text().is_err());
        fs::remove_file(&text).unwrap();
        fs::create_dir(&text).unwrap();
        assert!(place.text().is_err());
    }

    #[test]
    fn what_was_left_long_ago_is_removed_and_nothing_else() {
        let place = tempfile::tempdir().unwrap();
        let [old, new, other] = [format!("{NAME}1"), format!("{NAME}2"), "other".into()];
        for name in [&old, &new, &other] {
            fs::create_dir(place.path().join(name)).unwrap();
        }
        fs::write(place.path().join(&old).join(TEXT), "secret").unwrap();
        let ago = std::time::SystemTime::now() - 2 * LEFT;
        for name in [&old, &other] {
            fs::File::open(place.path().join(name)).unwrap().set_modified(ago).unwrap();
        }
        sweep(place.path());
        let there = [&old, &new, &other].map(|name| place.path().join(name).exists());
        assert_eq!(there, [false, true, true]);
    }
}
