//! Every module, one file each.

use crate::Module;

mod convert;
mod datetime;
mod deploy;
mod encoding;
mod example;
mod fmt;
mod fwupd;
pub(crate) mod golang;
mod http;
mod iter;
mod list;
mod local;
mod map;
mod math;
mod net;
pub(crate) mod os;
mod provisioner;
mod regexp;
mod strings;
mod sys;
mod test;
mod top;
mod util;
mod value;
mod world;

/// The top level first, then by path.
pub(crate) static ALL: &[&Module] = &[
    &top::DECLARED,
    &convert::DECLARED,
    &datetime::DECLARED,
    &deploy::DECLARED,
    &provisioner::DECLARED,
    &encoding::DECLARED,
    &example::DECLARED,
    &example::nested::DECLARED,
    &fmt::DECLARED,
    &golang::DECLARED,
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
    &local::DECLARED,
    &map::DECLARED,
    &math::DECLARED,
    &net::DECLARED,
    &http::DECLARED,
    &os::DECLARED,
    &regexp::DECLARED,
    &strings::DECLARED,
    &sys::DECLARED,
    &fwupd::DECLARED,
    &test::DECLARED,
    &util::DECLARED,
    &value::DECLARED,
    &world::DECLARED,
    &world::collect::DECLARED,
];

#[cfg(test)]
pub(crate) mod tests;
