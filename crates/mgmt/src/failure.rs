//! How the program ends.

use std::fmt;

use crate::commands::exit_codes;

/// The program ends as it should, with this code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exit(pub(crate) u8);

impl Exit {
    pub(crate) const OK: Exit = Exit(exit_codes::OK);
}

/// The program ends because something is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The exit code.
    pub(crate) code: u8,
    /// What is wrong; empty if it was already said.
    pub(crate) message: String,
    /// What to do about it.
    pub(crate) hints: Vec<String>,
    /// What is wrong, in one line, if it was already said in more.
    pub(crate) shown: Option<String>,
}

impl Failure {
    /// The run failed.
    pub(crate) fn failed(message: impl fmt::Display) -> Failure {
        Failure { code: exit_codes::FAILED, message: message.to_string(), hints: Vec::new(), shown: None }
    }

    /// The command line or the configuration is wrong.
    pub(crate) fn usage(message: impl fmt::Display) -> Failure {
        Failure { code: exit_codes::USAGE, ..Failure::failed(message) }
    }

    /// The reason has been shown already.
    pub(crate) fn shown(code: u8) -> Failure {
        Failure { code, message: String::new(), hints: Vec::new(), shown: None }
    }

    /// The reason has been shown already, and is this in one line.
    pub(crate) fn shown_as(code: u8, reason: impl Into<String>) -> Failure {
        Failure { shown: Some(reason.into()), ..Failure::shown(code) }
    }

    /// What is wrong, in one line, whether it was already said or not.
    pub(crate) fn reason(&self) -> &str {
        match &self.shown {
            _ if !self.message.is_empty() => &self.message,
            Some(shown) => shown,
            None => "the reason is in the log",
        }
    }

    /// Adds what to do about it.
    pub(crate) fn hint(mut self, hint: impl fmt::Display) -> Failure {
        self.hints.push(hint.to_string());
        self
    }
}
