//! What a replacement takes over from the file it replaces. The list is in the documentation of [`crate::replace`].

use std::ffi::CStr;

use rustix::fs::{AtFlags, StatxAttributes, StatxFlags, statx};

use crate::dir::Parent;
use crate::error::{Cause, Error, Result};
use crate::file::OpenedFile;
use crate::handle::{Attributes, Handle, Node, Via};
use crate::mode::{default_file_mode, is_dangerous};
use crate::replace::Expect;
use crate::stat::{Kind, Stat};
use crate::xattr::{self, ACCESS_LIST, SELINUX};

/// The regular file that is about to be replaced.
pub(crate) enum Existing {
    Open(OpenedFile),
    /// One that we may not read.
    Pinned(Handle),
}

/// Owner, group and mode of the new file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) owner: Option<u32>,
    pub(crate) group: Option<u32>,
    pub(crate) mode: u32,
}

impl Existing {
    /// Opens what is to be replaced, if it is a regular file, and checks that it is what the caller expects.
    pub(crate) fn find(parent: &Parent, name: &[u8], expect: Expect) -> Result<Option<Self>> {
        // Only a file is opened: opening a device can have effects of its own.
        let kind = match expect {
            Expect::Absent => None,
            Expect::Same(seen) => Some(seen.kind),
            Expect::Anything => parent.lstat_entry(name)?.map(|stat| stat.kind),
        };
        if kind != Some(Kind::File) {
            return Ok(None);
        }
        let found = match parent.open_regular(name) {
            Ok(file) => Ok(Existing::Open(file)),
            Err(error) if error.is_permission_denied() => parent.open_entry(name).map(Existing::Pinned),
            Err(error) => Err(error),
        };
        match (found, expect) {
            (Ok(existing), Expect::Same(seen)) if !existing.stat().same_version(&seen) => {
                Err(parent.error("replace", name, Cause::Raced))
            }
            (Ok(existing), _) if existing.stat().kind == Kind::File => Ok(Some(existing)),
            (Ok(_), _) => Ok(None),
            // Gone, or something else by now.
            (Err(error), Expect::Same(_)) if error.is_not_found() || error.found_kind().is_some() => {
                Err(parent.error("replace", name, Cause::Raced))
            }
            (Err(error), _) if error.is_not_found() || error.found_kind().is_some() => Ok(None),
            (Err(error), _) => Err(error),
        }
    }

    /// Whether this file is the root of a mount, so that nothing can be renamed over it. Only asked in earnest when it
    /// lies on another device than its neighbours; for the rest the rename itself finds out.
    pub(crate) fn is_mounted_over(&self, neighbour: &Stat) -> bool {
        let (Via::Open(fd) | Via::Pinned(fd)) = self.via();
        // Layered file systems show different devices within one directory, so the device alone says nothing.
        self.stat().device != neighbour.device
            && statx(fd, c"", AtFlags::EMPTY_PATH, StatxFlags::TYPE)
                .is_ok_and(|got| got.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
    }

    pub(crate) fn stat(&self) -> &Stat {
        match self {
            Existing::Open(file) => file.stat(),
            Existing::Pinned(handle) => handle.stat(),
        }
    }
}

impl Node for Existing {
    fn via(&self) -> Via<'_> {
        match self {
            Existing::Open(file) => file.via(),
            Existing::Pinned(handle) => handle.via(),
        }
    }

    fn at(&self) -> Box<[u8]> {
        match self {
            Existing::Open(file) => file.at(),
            Existing::Pinned(handle) => handle.at(),
        }
    }
}

/// Decides owner, group and mode from what is declared and what was there.
pub(crate) fn plan(existing: Option<&Stat>, declared: &Attributes<'_>) -> Plan {
    let Some(old) = existing else {
        let mode = declared.mode.unwrap_or_else(default_file_mode);
        return Plan { owner: declared.owner, group: declared.group, mode };
    };
    let owner = declared.owner.unwrap_or(old.uid);
    let group = declared.group.unwrap_or(old.gid);
    let moved = owner != old.uid || group != old.gid;
    let mode = declared.mode.unwrap_or(match old.mode {
        mode if moved || old.links > 1 || is_dangerous(mode) => mode & 0o1777,
        mode => mode,
    });
    Plan { owner: Some(owner), group: Some(group), mode }
}

/// Copies the attributes that outlive the content. `mode` is what the new file is going to have.
pub(crate) fn carry(old: &impl Node, new: &impl Node, mode: u32, with_label: bool) -> Result<()> {
    let names = xattr::names(old)?;
    let mut has_list = false;
    for name in names.split_inclusive(|&byte| byte == 0) {
        let Ok(name) = CStr::from_bytes_with_nul(name) else { continue };
        let wanted =
            name == ACCESS_LIST || (name == SELINUX && with_label) || name.to_bytes().starts_with(b"user.");
        if !wanted {
            continue;
        }
        let Some(value) = read_if_allowed(old, name)? else { continue };
        if name == ACCESS_LIST {
            has_list = true;
            let list = with_mode(&value, mode)
                .ok_or_else(|| Error::new("replace", old.at(), Cause::UnknownAccessList))?;
            xattr::set(new, name, &list)?;
        } else if name == SELINUX {
            let label: Vec<u8> = value.into_iter().filter(|&byte| byte != 0).collect();
            xattr::ensure_label(new, &label)?;
        } else {
            xattr::set(new, name, &value)?;
        }
    }
    if !has_list {
        drop_inherited_list(new)?;
    }
    Ok(())
}

fn read_if_allowed(node: &impl Node, name: &CStr) -> Result<Option<Vec<u8>>> {
    match xattr::get(node, name) {
        Err(error) if error.is_permission_denied() || error.is_unsupported() => Ok(None),
        got => got,
    }
}

/// A directory can give its new files an access list, which the old file did not have. Asking first is cheaper than
/// removing nothing, which the file system would write down.
fn drop_inherited_list(new: &impl Node) -> Result<()> {
    if read_if_allowed(new, ACCESS_LIST)?.is_some() {
        xattr::remove(new, ACCESS_LIST)?;
    }
    Ok(())
}

/// The access list with the entries that mirror the mode set to `mode`, so that setting the list never opens the new
/// file further than it is going to be. Nothing for a form we do not know.
fn with_mode(list: &[u8], mode: u32) -> Option<Vec<u8>> {
    const VERSION: [u8; 4] = 2_u32.to_le_bytes();
    const USER: u16 = 0x01;
    const MASK: u16 = 0x10;
    const OTHER: u16 = 0x20;
    let (entries, rest) = list.strip_prefix(&VERSION)?.as_chunks::<8>();
    if !rest.is_empty() {
        return None;
    }
    let mut out = VERSION.to_vec();
    for entry in entries {
        // Two bytes of tag, two of permissions, four of user or group.
        let shift = match u16::from_le_bytes([entry[0], entry[1]]) {
            USER => Some(6),
            MASK => Some(3),
            OTHER => Some(0),
            _ => None,
        };
        let mut entry = *entry;
        if let Some(shift) = shift {
            entry[2..4].copy_from_slice(&((mode >> shift & 7) as u16).to_le_bytes());
        }
        out.extend_from_slice(&entry);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stat::Timestamp;

    fn old(mode: u32, links: u64) -> Stat {
        let moment = Timestamp { seconds: 0, nanoseconds: 0 };
        let (modified, changed) = (moment, moment);
        Stat {
            device: 1,
            inode: 1,
            kind: Kind::File,
            mode,
            uid: 10,
            gid: 20,
            size: 0,
            links,
            modified,
            changed,
        }
    }

    #[test]
    fn owner_group_and_mode_come_from_the_declaration_or_from_the_old_file() {
        let undeclared = Attributes::default();
        let owner = Attributes { owner: Some(11), ..undeclared };
        let same_owner = Attributes { owner: Some(10), ..undeclared };
        let group = Attributes { group: Some(21), ..undeclared };
        let mode = Attributes { mode: Some(0o4777), ..undeclared };
        for (declared, old, expected) in [
            (undeclared, old(0o640, 1), (10, 20, 0o640)),
            (undeclared, old(0o640, 2), (10, 20, 0o640)),
            (undeclared, old(0o4755, 1), (10, 20, 0o4755)),
            (same_owner, old(0o4755, 1), (10, 20, 0o4755)),
            (owner, old(0o4755, 1), (11, 20, 0o755)),
            (group, old(0o2755, 1), (10, 21, 0o755)),
            (undeclared, old(0o4755, 2), (10, 20, 0o755)),
            (undeclared, old(0o4777, 1), (10, 20, 0o777)),
            (mode, old(0o600, 1), (10, 20, 0o4777)),
        ] {
            let (owner, group, mode) = expected;
            let planned = Plan { owner: Some(owner), group: Some(group), mode };
            assert_eq!(plan(Some(&old), &declared), planned, "{declared:?} over {old:?}");
        }
        assert_eq!(plan(None, &owner), Plan { owner: Some(11), group: None, mode: default_file_mode() });
    }

    #[test]
    fn an_access_list_never_says_more_than_the_mode() {
        let entry = |tag: u16, permissions: u16, id: u32| {
            let mut bytes = tag.to_le_bytes().to_vec();
            bytes.extend(permissions.to_le_bytes());
            bytes.extend(id.to_le_bytes());
            bytes
        };
        let list = |user, mask, other| {
            let entries = [
                entry(0x01, user, u32::MAX),
                entry(0x02, 7, 1000),
                entry(0x04, 5, u32::MAX),
                entry(0x10, mask, u32::MAX),
                entry(0x20, other, u32::MAX),
            ];
            [2_u32.to_le_bytes().to_vec(), entries.concat()].concat()
        };
        assert_eq!(with_mode(&list(7, 7, 7), 0o640), Some(list(6, 4, 0)));
        assert_eq!(with_mode(&list(0, 0, 0), 0o4751), Some(list(7, 5, 1)));
        assert_eq!(with_mode(b"", 0o640), None);
        assert_eq!(with_mode(&[1, 0, 0, 0], 0o640), None);
        assert_eq!(with_mode(&list(7, 7, 7)[..9], 0o640), None);
    }
}
