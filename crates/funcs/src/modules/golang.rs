//! `golang` and the modules below it, which follow the standard library of Go.

pub(crate) mod exec;
pub(crate) mod filepath;
pub(crate) mod html;
pub(crate) mod math;
pub(crate) mod os;
pub(crate) mod path;
pub(crate) mod rand;
pub(crate) mod runtime;
pub(crate) mod strconv;
pub(crate) mod strings;
