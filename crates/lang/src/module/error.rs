//! Why an import has no file.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::files::Mistrusted;
use super::metadata::MetadataNote;

/// Why there is no file. Where the import is that wants it, the caller knows.
#[derive(Debug)]
pub enum ResolveError {
    /// It is not there.
    NotFound {
        /// Its name in messages.
        display: String,
        /// The files that would have been taken.
        tried: Vec<PathBuf>,
        /// The name of something in the same place that may have been meant.
        near: Option<String>,
    },
    /// The directory of a module from elsewhere is there, and has no metadata.
    NoMetadata {
        /// The directory in messages.
        display: String,
    },
    /// A module from elsewhere is not there.
    NotDownloaded {
        /// Where it comes from.
        url: String,
        /// Its directory below a directory of modules.
        key: PathBuf,
        /// The directories that would have been taken, the most specific one first.
        tried: Vec<PathBuf>,
        /// How the user would name the program.
        program: String,
    },
    /// The metadata of a module is wrong.
    BadMetadata {
        /// The file in messages.
        display: String,
        /// Its text.
        text: Arc<str>,
        /// What is wrong, and where.
        note: Box<MetadataNote>,
    },
    /// It is there and cannot be read.
    Unreadable {
        /// Its name in messages.
        display: String,
        /// Why.
        error: io::Error,
    },
    /// A module from elsewhere is not the one that was locked.
    LockMismatch {
        /// How the lock calls it.
        key: String,
        /// Its directory in messages.
        display: String,
        /// The lock file in messages.
        lock: String,
        /// What the lock says.
        expected: String,
        /// What is there.
        found: String,
    },
    /// The lock file is wrong.
    BadLock {
        /// The lock file in messages.
        display: String,
        /// What is wrong with it.
        message: String,
    },
    /// A module from elsewhere imports a file that is not part of it.
    LeadsOut {
        /// The file in messages.
        display: String,
        /// The module in messages.
        module: String,
    },
    /// Somebody else may have decided what is in it.
    Mistrusted {
        /// The file in messages.
        display: String,
        /// Who, and why.
        why: Mistrusted,
    },
    /// It comes with the program, and is no file.
    System {
        /// The name.
        name: String,
    },
}

impl fmt::Display for ResolveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ResolveError::NotFound { display, tried, .. } if tried.len() > 1 => {
                let names: Vec<_> = tried
                    .iter()
                    .filter_map(|path| path.file_name())
                    .map(|name| format!("`{}`", name.display()))
                    .collect();
                write!(f, "there is no module in `{display}`: it has neither {}", names.join(" nor "))
            }
            ResolveError::NotFound { display, .. } => write!(f, "there is no file `{display}`"),
            ResolveError::NoMetadata { display } => {
                write!(f, "`{display}` is not a module: it has no `metadata.yaml`")
            }
            ResolveError::NotDownloaded { url, .. } => {
                write!(f, "the module `{}` has not been downloaded", without_password(url))
            }
            ResolveError::BadMetadata { display, note, .. } => write!(f, "{display}:{note}"),
            ResolveError::Unreadable { display, error } => write!(f, "cannot read `{display}`: {error}"),
            ResolveError::LockMismatch { display, lock, .. } => {
                write!(f, "the module in `{display}` is not the one that `{lock}` names")
            }
            ResolveError::BadLock { display, message } => {
                write!(f, "the lock file `{display}` cannot be used: {message}")
            }
            ResolveError::LeadsOut { display, module } => {
                write!(f, "`{display}` is not part of the downloaded module `{module}`")
            }
            ResolveError::Mistrusted { display, why } if why.path.ends_with(display) => {
                write!(f, "`{display}` is not used: {}", why.reason)
            }
            ResolveError::Mistrusted { display, why } => {
                write!(f, "`{display}` is not used, because of `{}`: {}", why.path.display(), why.reason)
            }
            ResolveError::System { name } => write!(f, "`{name}` is not a file"),
        }
    }
}

impl std::error::Error for ResolveError {}

impl ResolveError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            ResolveError::NotFound { near, .. } => near.as_ref().map(|near| format!("did you mean `{near}`?")),
            ResolveError::NotDownloaded { program, .. } => Some(format!("`mgmt get {program}` downloads it")),
            ResolveError::BadMetadata { note, .. } => note.hint.clone(),
            ResolveError::LockMismatch { .. } => Some(
                "`mgmt get` brings the locked one; if the files were changed by hand, remove the directory first"
                    .into(),
            ),
            ResolveError::BadLock { .. } => {
                Some("restore it from version control; without it, `mgmt get` writes a new one".into())
            }
            ResolveError::LeadsOut { .. } => {
                Some("a downloaded module imports its own files, modules of the program, and addresses".into())
            }
            ResolveError::NoMetadata { .. } => {
                Some("a module from elsewhere needs the file, though it may be empty".into())
            }
            ResolveError::Mistrusted { why, .. } => {
                Some(format!("if what is there can be trusted: `{}`", why.remedy))
            }
            ResolveError::Unreadable { .. } | ResolveError::System { .. } => None,
        }
    }

    /// What the user may want to look at besides: directories and hashes.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        match self {
            ResolveError::NotDownloaded { tried, .. } => {
                tried.iter().map(|path| format!("it is not in {}", path.display())).collect()
            }
            ResolveError::LockMismatch { expected, found, .. } => {
                vec![format!("locked: {expected}"), format!("found: {found}")]
            }
            _ => Vec::new(),
        }
    }
}

/// An address as it may be shown and stored.
pub fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let authority = rest.split('/').next().unwrap_or(rest);
    match authority.rsplit_once('@').and_then(|(user, _)| user.split_once(':')) {
        Some((user, password)) => {
            let behind = &rest[user.len() + 1 + password.len()..];
            format!("{scheme}://{user}{behind}")
        }
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_shown() {
        assert_eq!(without_password("https://me:secret@h/a@b:c"), "https://me@h/a@b:c");
        assert_eq!(without_password("https://me:se@cret@h:1/a"), "https://me@h:1/a");
        for url in ["https://h/a:b@c", "ssh://git@h/a", "git://h:9/a", "x"] {
            assert_eq!(without_password(url), url);
        }
    }
}
