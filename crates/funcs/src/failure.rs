//! Errors of functions.

use mgmt_value::Mismatch;

/// Why a function has no value. The message says what was wrong and what was expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// `<|>` can put another value in its place.
    #[error("{0}")]
    Catchable(String),
    /// The program ends.
    #[error("{0}")]
    Fatal(String),
}

impl Failure {
    /// A failure that `<|>` can replace.
    pub fn catchable(message: impl Into<String>) -> Failure {
        Failure::Catchable(message.into())
    }

    /// A failure that ends the program.
    pub fn fatal(message: impl Into<String>) -> Failure {
        Failure::Fatal(message.into())
    }

    /// The same failure with words in front.
    #[must_use]
    pub fn within(self, context: impl std::fmt::Display) -> Failure {
        match self {
            Failure::Catchable(message) => Failure::Catchable(format!("{context}: {message}")),
            Failure::Fatal(message) => Failure::Fatal(format!("{context}: {message}")),
        }
    }
}

impl From<Mismatch> for Failure {
    fn from(mismatch: Mismatch) -> Failure {
        Failure::Fatal(mismatch.to_string())
    }
}
