//! Why a declaration is as it is: the values behind it that have changed.

use std::sync::Arc;

use crate::Origin;

/// The values that made a declaration another one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Because {
    /// Each with what it was and what it is.
    pub values: Vec<ChangedValue>,
}

/// A value of a program that has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedValue {
    /// The function whose value it is.
    pub function: Arc<str>,
    /// Where it is called.
    pub origin: Option<Origin>,
    /// What it was, as text; nothing if there was no value.
    pub before: Option<Arc<str>>,
    /// What it is.
    pub after: Option<Arc<str>>,
    /// What woke it.
    pub event: Option<Arc<str>>,
}
