//! Every module, one file each.

use crate::Module;

mod convert;
mod fmt;
mod iter;
mod list;
mod map;
mod math;
mod strings;
mod top;

/// The top level first, then by path.
pub(crate) static ALL: &[&Module] = &[
    &top::DECLARED,
    &convert::DECLARED,
    &fmt::DECLARED,
    &iter::DECLARED,
    &list::DECLARED,
    &map::DECLARED,
    &math::DECLARED,
    &strings::DECLARED,
];

#[cfg(test)]
mod tests;
