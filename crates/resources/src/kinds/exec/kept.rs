//! What a run leaves in the state directory: its output, and how new the files of `mtimes` were.
//!
//! One file each, readable by us alone, replaced as a whole. The file `mtimes` is written last, because it is what
//! keeps the command from running again.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use mgmt_resource::{Error, Result, ResultExt};
use mgmt_sys::ManagedPath;
use mgmt_sys::dir::Parent;
use mgmt_sys::handle::Attributes;
use mgmt_sys::replace::{Durability, Expect, InPlace, Replacement};
use mgmt_sys::stat::Timestamp;
use mgmt_value::Str;

use super::Outputs;

/// More than this was never written.
const LARGEST: u64 = 64 << 20;

/// The first line of the file `mtimes`. A file that starts otherwise is one that we cannot read.
const HEADER: &[u8] = b"mtimes 1\n";

/// What the last run that succeeded has left.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Kept {
    pub(super) outputs: Outputs,
    /// Unset when the command never ran with `mtimes`.
    pub(super) seen: Option<Seen>,
}

impl Kept {
    /// Reads it. A directory that is not there is a run that never was.
    pub(super) fn load(directory: &Path) -> Result<Kept> {
        let path = managed(directory)?;
        let parent = match Parent::open_itself(&path) {
            Ok(parent) => parent,
            Err(error) if error.is_not_found() || error.is_parent_missing() => return Ok(Kept::default()),
            Err(error) => return Err(Error::new(error)),
        };
        let read = |name: &str| read(&parent, name).context("cannot read what the last run left");
        Ok(Kept {
            outputs: Outputs {
                output: read("output")?.map(Str::from),
                stdout: read("stdout")?.map(Str::from),
                stderr: read("stderr")?.map(Str::from),
            },
            seen: read("mtimes")?.and_then(|bytes| Seen::decode(&bytes)),
        })
    }

    /// Writes what differs from `old`, which is what the directory holds.
    pub(super) fn store(&self, old: &Kept, directory: &Path, durability: Durability) -> Result<()> {
        let parent = make(directory)?;
        let (new, old, seen) = (&self.outputs, &old.outputs, &old.seen);
        let streams = [
            ("output", &new.output, &old.output),
            ("stdout", &new.stdout, &old.stdout),
            ("stderr", &new.stderr, &old.stderr),
        ];
        for (name, new, old) in streams {
            if new != old {
                write(&parent, name, new.as_deref(), durability)?;
            }
        }
        if self.seen != *seen {
            write(&parent, "mtimes", self.seen.as_ref().map(Seen::encode).as_deref(), durability)?;
        }
        Ok(())
    }
}

/// How new each file of `mtimes` was at a run.
///
/// Kept as data and not as the time of the run: a file that changes while the command runs is seen the next time,
/// and a clock that jumps changes nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Seen(BTreeMap<Str, Timestamp>);

impl Seen {
    /// Looks at the files. Blocks.
    pub(super) fn now(paths: &[Str]) -> Result<Seen> {
        let look = |path: &Str| match std::fs::metadata(path.as_path()) {
            Ok(found) => {
                let nanoseconds = u32::try_from(found.mtime_nsec()).unwrap_or(0);
                Ok((path.clone(), Timestamp { seconds: found.mtime(), nanoseconds }))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Err(Error::new(format_args!("{path:?} in `mtimes` does not exist")))
            }
            Err(error) => Err(Error::new(format_args!("cannot look at {path:?} in `mtimes`: {error}"))),
        };
        paths.iter().map(look).collect::<Result<_>>().map(Seen)
    }

    /// A file that is newer than it was at `last`. One that was not looked at then is compared with the newest that
    /// was, so that adding an old file to the list is no reason to run.
    pub(super) fn newer_than<'a>(&'a self, last: &Seen) -> Option<&'a Str> {
        let newest = last.0.values().max();
        let newer = |(path, time): &(&Str, &Timestamp)| Some(*time) > last.0.get(*path).or(newest);
        self.0.iter().find(newer).map(|(path, _)| path)
    }

    /// Records of `SECONDS NANOSECONDS PATH`, each ended by a NUL, which no path can hold.
    fn encode(&self) -> Vec<u8> {
        let mut bytes = HEADER.to_vec();
        for (path, time) in &self.0 {
            bytes.extend_from_slice(format!("{} {} ", time.seconds, time.nanoseconds).as_bytes());
            bytes.extend_from_slice(path);
            bytes.push(0);
        }
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Seen> {
        let mut seen = BTreeMap::new();
        for record in bytes.strip_prefix(HEADER)?.split_inclusive(|&byte| byte == 0) {
            let mut parts = record.strip_suffix(&[0])?.splitn(3, |&byte| byte == b' ');
            let mut next = || parts.next();
            let seconds = std::str::from_utf8(next()?).ok()?.parse().ok()?;
            let nanoseconds = std::str::from_utf8(next()?).ok()?.parse().ok()?;
            seen.insert(Str::new(next()?), Timestamp { seconds, nanoseconds });
        }
        Some(Seen(seen))
    }
}

fn managed(directory: &Path) -> Result<ManagedPath> {
    ManagedPath::new(directory.as_os_str().as_bytes()).context("the state directory")
}

/// Opens the state directory of the resource, and makes it if need be.
fn make(directory: &Path) -> Result<Parent> {
    let path = managed(directory)?;
    let name = path.file_name().ok_or_else(|| Error::new("the state directory cannot be the root"))?;
    let above = Parent::open_or_create(&path).map_err(Error::new)?;
    match above.make_directory(name, &Attributes { mode: Some(0o700), ..Attributes::default() }) {
        Err(error) if error.is_exists() => above.open_dir(name).map_err(Error::new),
        made => made.map_err(Error::new),
    }
}

fn read(parent: &Parent, name: &str) -> mgmt_sys::Result<Option<Vec<u8>>> {
    match parent.open_regular(name.as_bytes()) {
        Ok(file) => file.read(LARGEST).map(Some),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

fn write(parent: &Parent, name: &str, content: Option<&[u8]>, durability: Durability) -> Result<()> {
    let name = name.as_bytes();
    let written = match content {
        Some(content) => Replacement::begin(parent, name, InPlace::Refuse).and_then(|mut new| {
            new.write_all(content)?;
            let closed = Attributes { mode: Some(0o600), ..Attributes::default() };
            new.commit(&closed, Expect::Anything, durability).map(|_| ())
        }),
        None => match parent.unlink(name) {
            Err(error) if error.is_not_found() => Ok(()),
            removed => removed,
        },
    };
    written.context("cannot keep what the command has written")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(entries: &[(&str, i64, u32)]) -> Seen {
        let entry = |&(path, seconds, nanoseconds): &(&str, i64, u32)| {
            (Str::from(path), Timestamp { seconds, nanoseconds })
        };
        Seen(entries.iter().map(entry).collect())
    }

    #[test]
    fn only_a_strictly_newer_file_counts() {
        let last = seen(&[("/a", 10, 5), ("/b", 100, 0)]);
        assert_eq!(seen(&[("/a", 10, 5), ("/b", 100, 0)]).newer_than(&last), None);
        assert_eq!(seen(&[("/a", 10, 4), ("/b", 99, 0)]).newer_than(&last), None);
        assert_eq!(seen(&[("/a", 10, 6)]).newer_than(&last), Some(&"/a".into()));
        assert_eq!(seen(&[("/b", 100, 1)]).newer_than(&last), Some(&"/b".into()));
    }

    #[test]
    fn a_file_that_is_new_in_the_list_is_compared_with_the_newest() {
        let last = seen(&[("/a", 10, 0), ("/b", 100, 0)]);
        assert_eq!(seen(&[("/c", 100, 0)]).newer_than(&last), None);
        assert_eq!(seen(&[("/c", 100, 1)]).newer_than(&last), Some(&"/c".into()));
        assert_eq!(seen(&[("/c", -5, 0)]).newer_than(&Seen::default()), Some(&"/c".into()));
    }

    #[test]
    fn times_survive_being_written_down() {
        let all = seen(&[("/a b\nc", -10, 999_999_999), ("/b", i64::MAX, 0)]);
        assert_eq!(Seen::decode(&all.encode()), Some(all));
        assert_eq!(Seen::decode(HEADER), Some(Seen::default()));
    }

    #[test]
    fn a_file_that_is_not_ours_is_not_understood() {
        for wrong in [
            &b""[..],
            b"2026-01-01\n",
            b"mtimes 2\n1 2 /a\0",
            b"mtimes 1\n1 2 /a",
            b"mtimes 1\n1 x /a\0",
            b"mtimes 1\n1\0",
        ] {
            assert_eq!(Seen::decode(wrong), None, "{}", wrong.escape_ascii());
        }
    }
}
