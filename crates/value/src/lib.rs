//! Types and values of the configuration language.
//!
//! The central type is [`Value`]. Everything that crosses a boundary between a front-end and a resource (a parameter, a metaparameter,
//! a sent value, an exported resource) is a [`Value`] of some [`Type`]. The crate knows nothing about programs, graphs
//! or hosts.
//!
//! Invariants
//! - A [`Str`] is bytes. Most are UTF-8, none has to be; text for people is made by [`Str::display`].
//! - A value carries enough to know its own type, also when it is an empty list or map.
//! - A [`Secret`] is never shown, in whatever way it is printed; nor is any value that is in the message of a panic
//!   ([`panic_words`]).
//! - Map entries are sorted and their keys are unique, so hash and comparison need no second pass.
//! - Integer conversion never wraps: a number that does not fit is an error that names the number and the width.
//!
//! Deliberately absent: type variables beyond a number to print, inference, and any notion of time or change.

mod json;
mod native;
mod panics;
mod parse;
mod secret;
mod str;
mod text;
mod ty;
mod value;

pub use json::{JsonError, from_json, to_json, to_json_as};
pub use native::{Complex, Mismatch, Native, value_of};
pub use panics::{UNSHOWN, catch_expected_panic, is_panic_expected, panic_words};
pub use secret::{Secret, Wipe};
pub use str::Str;
pub use ty::{FuncType, Type};
pub use value::{Function, List, Map, Struct, Value};
