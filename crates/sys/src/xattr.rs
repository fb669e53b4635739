//! Extended attributes of things that are open, never of a path.
//!
//! A missing attribute is `None`; a file system without attributes is an error for which
//! [`Error::is_unsupported`] holds.

use std::ffi::CStr;

use rustix::fs::{
    XattrFlags, fgetxattr, flistxattr, fremovexattr, fsetxattr, getxattr, listxattr, removexattr, setxattr,
};
use rustix::io::Errno;

use crate::error::{Cause, Error, Result};
use crate::handle::{Node, Via, proc_cause, proc_path};

/// Where SELinux keeps the security context of a file.
pub const SELINUX: &CStr = c"security.selinux";
/// Where the access control list of a file is kept, beyond its mode.
pub const ACCESS_LIST: &CStr = c"system.posix_acl_access";

/// The longest value the kernel stores.
const LONGEST: usize = 65536;
/// Enough for any label and most lists, so that one call does.
const USUAL: usize = 256;

/// The value of one attribute.
pub fn get(node: &impl Node, name: &CStr) -> Result<Option<Vec<u8>>> {
    let mut value = vec![0; USUAL];
    loop {
        let got = match node.via() {
            Via::Open(fd) => fgetxattr(fd, name, &mut value).map_err(Cause::System),
            Via::Pinned(fd) => getxattr(proc_path(fd).as_str(), name, &mut value).map_err(proc_cause),
        };
        match got {
            Ok(length) => {
                value.truncate(length);
                return Ok(Some(value));
            }
            Err(Cause::System(Errno::NODATA)) => return Ok(None),
            Err(Cause::System(Errno::RANGE)) if value.len() < LONGEST => value.resize(LONGEST, 0),
            Err(cause) => return Err(Error::new("read an attribute of", node.at(), cause)),
        }
    }
}

/// Sets one attribute, whether it was there or not.
pub fn set(node: &impl Node, name: &CStr, value: &[u8]) -> Result<()> {
    let flags = XattrFlags::empty();
    match node.via() {
        Via::Open(fd) => fsetxattr(fd, name, value, flags).map_err(Cause::System),
        Via::Pinned(fd) => setxattr(proc_path(fd).as_str(), name, value, flags).map_err(proc_cause),
    }
    .map_err(|cause| Error::new("set an attribute of", node.at(), cause))
}

/// Takes one attribute away and tells whether it was there.
pub fn remove(node: &impl Node, name: &CStr) -> Result<bool> {
    let removed = match node.via() {
        Via::Open(fd) => fremovexattr(fd, name).map_err(Cause::System),
        Via::Pinned(fd) => removexattr(proc_path(fd).as_str(), name).map_err(proc_cause),
    };
    match removed {
        Ok(()) => Ok(true),
        Err(Cause::System(Errno::NODATA)) => Ok(false),
        Err(cause) => Err(Error::new("remove an attribute of", node.at(), cause)),
    }
}

/// The names of all attributes we may see, each ended by a NUL. Empty where the file system has none.
pub(crate) fn names(node: &impl Node) -> Result<Vec<u8>> {
    let mut list = vec![0; USUAL];
    loop {
        let got = match node.via() {
            Via::Open(fd) => flistxattr(fd, &mut list).map_err(Cause::System),
            Via::Pinned(fd) => listxattr(proc_path(fd).as_str(), &mut list).map_err(proc_cause),
        };
        match got {
            Ok(length) => {
                list.truncate(length);
                return Ok(list);
            }
            Err(Cause::System(Errno::OPNOTSUPP)) => return Ok(Vec::new()),
            Err(Cause::System(Errno::RANGE)) if list.len() < LONGEST => list.resize(LONGEST, 0),
            Err(cause) => return Err(Error::new("list the attributes of", node.at(), cause)),
        }
    }
}

/// The SELinux label without its NUL. None where there is none or the file system keeps none.
pub fn label(node: &impl Node) -> Result<Option<Vec<u8>>> {
    match get(node, SELINUX) {
        Ok(value) => Ok(value.map(|mut label| {
            label.retain(|&byte| byte != 0);
            label
        })),
        Err(error) if error.is_unsupported() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Makes the SELinux label `wanted`, where empty means none, and tells whether that was a change.
pub fn ensure_label(node: &impl Node, wanted: &[u8]) -> Result<bool> {
    let current = label(node)?;
    if current.as_deref().unwrap_or_default() == wanted {
        return Ok(false);
    }
    if node.may_be_planted() {
        return Err(Error::new("label", node.at(), Cause::MayBePlanted));
    }
    if wanted.is_empty() { remove(node, SELINUX) } else { set(node, SELINUX, wanted).map(|()| true) }
}
