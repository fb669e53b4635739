//! Why a resource could not do its work.

use std::fmt;

/// A failure, as a chain from what was tried to why it did not work.
#[derive(Debug)]
pub enum Error {
    /// We were asked to stop; nothing is wrong with the resource.
    Cancelled,
    /// Something went wrong.
    Failed {
        /// What was tried, and why it failed, outermost first.
        message: String,
        /// What a person can do about it.
        hint: Option<String>,
    },
}

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// A failure with a message for people.
    pub fn new(message: impl fmt::Display) -> Error {
        Error::Failed { message: message.to_string(), hint: None }
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn with_hint(self, hint: impl fmt::Display) -> Error {
        match self {
            Error::Failed { message, .. } => Error::Failed { message, hint: Some(hint.to_string()) },
            Error::Cancelled => Error::Cancelled,
        }
    }

    /// Puts what was tried in front.
    #[must_use]
    pub fn context(self, what: impl fmt::Display) -> Error {
        match self {
            Error::Failed { message, hint } => Error::Failed { message: format!("{what}: {message}"), hint },
            Error::Cancelled => Error::Cancelled,
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Error::Failed { hint, .. } => hint.as_deref(),
            Error::Cancelled => None,
        }
    }

    /// Whether we were asked to stop.
    pub fn is_cancelled(&self) -> bool {
        matches!(self, Error::Cancelled)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Cancelled => f.write_str("cancelled"),
            Error::Failed { message, .. } => f.write_str(message),
        }
    }
}

impl std::error::Error for Error {}

/// Says what was tried when something fails.
pub trait ResultExt<T> {
    /// Puts what was tried in front of the error.
    fn context(self, what: impl fmt::Display) -> Result<T>;
}

impl<T, E: fmt::Display> ResultExt<T> for std::result::Result<T, E> {
    fn context(self, what: impl fmt::Display) -> Result<T> {
        self.map_err(|error| Error::new(format_args!("{what}: {error}")))
    }
}
