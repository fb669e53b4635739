//! `tidy`: removes what has grown old or large.
//!
//! [`Tidy`] is the declaration. `pattern` compares a name with a pattern of a shell; `walk` goes through the directory.
//!
//! Invariants
//! - Nothing is entered or removed through a symbolic link, and nothing of another mount.
//! - Of a directory, everything is judged by what it was before anything in it was removed.
//! - A directory is removed only if it is empty.
//!
//! Deliberately absent: events. Nothing tells when something has grown old, so it is looked at when the resource starts, when
//! another one notifies it, and every so often with the metaparameter `poll`.

mod pattern;
mod walk;

use mgmt_resource::{Checked, Context, Error, Invalid, Kind, Nothing, Resource, Result};
use mgmt_sys::ManagedPath;
use mgmt_value::Str;

/// Removes files that have grown old or large, in a directory or below it.
///
/// What is old enough or large enough goes; with neither `age` nor `size`, everything does that `matches`. Directories go
/// only with `rmdirs`, and only if they are empty. Symbolic links are removed like files and never followed; other mounts are
/// left alone.
///
/// Nothing tells when a file grows old: set the metaparameter `poll` to look again every so many seconds.
///
/// Only this implementation has this kind.
///
/// ```mcl
/// tidy "/var/tmp" {
///     age => 604800,
///     matches => ["*.log"],
///     recurse => true,
///
///     Meta:poll => 3600,
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Resource)]
#[resource(kind = "tidy", blocking)]
pub struct Tidy {
    /// The file or directory; the name if not given.
    pub path: Str,
    /// How many seconds it must not have been used or changed. Unset, its age does not matter.
    pub age: Option<u64>,
    /// What counts for `age`: when it was last read (`atime`), when its content was last written (`mtime`), or when anything
    /// about it was last changed (`ctime`).
    pub by: Str,
    /// How many bytes it must have. Unset, its size does not matter.
    pub size: Option<u64>,
    /// Patterns as in a shell. If there are some, the last part of its path has to be like one of them.
    pub matches: Vec<Str>,
    /// What is below the directory counts, too.
    pub recurse: bool,
    /// How far below: 1 is what is directly in it. Unset, there is no limit.
    pub depth: Option<u32>,
    /// Remove directories as well, if they are old or large enough themselves and empty.
    pub rmdirs: bool,
    /// Paths that stay, whatever they are; of those that end in a slash, all below stays, too. Those that other resources of the graph make,
    /// edit or read stay anyway.
    pub keep: Vec<Str>,
}

impl Default for Tidy {
    fn default() -> Tidy {
        Tidy {
            path: Str::EMPTY,
            age: None,
            by: "atime".into(),
            size: None,
            matches: Vec::new(),
            recurse: false,
            depth: None,
            rmdirs: false,
            keep: Vec::new(),
        }
    }
}

/// Which time of a file counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Read,
    Written,
    Changed,
}

impl Kind for Tidy {
    type State = ();
    type Sends = Nothing;

    fn validate(&self, name: &Str) -> Result<(), Invalid> {
        let path = self.managed_path(name)?;
        if path.is_root() {
            let field = (!self.path.is_empty()).then_some("path");
            return Err(Invalid { field, ..Invalid::new("the root directory can't be tidied") });
        }
        self.read_by()?;
        if self.depth == Some(0) {
            return Err(Invalid::field(
                "depth",
                "expected 1 or more; leave out `recurse` for the path alone",
            ));
        }
        if self.depth.is_some() && !self.recurse {
            return Err(Invalid::field("depth", "needs `recurse => true`"));
        }
        let everything = self.age.is_none() && self.size.is_none() && self.matches.is_empty();
        if everything && self.recurse && path.components().count() == 1 {
            let message = format!("this would remove everything in {path}, at the top of the file system");
            return Err(Invalid::field("recurse", message)
                .with_hint("say how old or large it has to be, or what it is called"));
        }
        for kept in &self.keep {
            ManagedPath::new(kept).map_err(|error| Invalid::field("keep", error.to_string()))?;
        }
        Ok(())
    }

    async fn check_apply(&self, (): &mut (), cx: &mut Context<'_>) -> Result<Checked> {
        let path = self.managed_path(&cx.id.name).map_err(Error::new)?;
        walk::tidy(self, self.read_by().map_err(Error::new)?, &path, cx)
    }
}

impl Tidy {
    fn managed_path(&self, name: &Str) -> Result<ManagedPath, Invalid> {
        let path = if self.path.is_empty() { name } else { &self.path };
        ManagedPath::new(path).map_err(|error| Invalid::field("path", error.to_string()))
    }

    fn read_by(&self) -> Result<By, Invalid> {
        match &*self.by {
            b"atime" => Ok(By::Read),
            b"mtime" => Ok(By::Written),
            b"ctime" => Ok(By::Changed),
            other => {
                let message = format!("expected `atime`, `mtime` or `ctime`, found {:?}", Str::from(other));
                Err(Invalid::field("by", message))
            }
        }
    }
}
