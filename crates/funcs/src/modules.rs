//! Every module, one file each.

use crate::Module;

mod convert;
mod fmt;
mod golang;
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
    &golang::html::DECLARED,
    &golang::math::DECLARED,
    &golang::rand::DECLARED,
    &golang::os::DECLARED,
    &golang::exec::DECLARED,
    &golang::path::DECLARED,
    &golang::filepath::DECLARED,
    &golang::runtime::DECLARED,
    &golang::strconv::DECLARED,
    &golang::strings::DECLARED,
    &iter::DECLARED,
    &list::DECLARED,
    &map::DECLARED,
    &math::DECLARED,
    &strings::DECLARED,
];

#[cfg(test)]
mod tests;
