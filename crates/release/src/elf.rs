//! What a binary asks of the system that it runs on.

use crate::{ReleaseError, Result};

/// What a binary needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Needs {
    /// For which processors it is.
    pub machine: Machine,
    /// The libraries that have to be there; none if it is static.
    pub libraries: Vec<String>,
    /// The oldest GNU C library that has all it asks for, if it asks for that one.
    pub glibc: Option<(u32, u32)>,
}

/// A kind of processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    /// x86-64.
    Amd64,
    /// AArch64.
    Arm64,
    /// RISC-V with 64 bits.
    Riscv64,
}

impl Machine {
    /// As Debian calls it.
    pub fn debian(self) -> &'static str {
        match self {
            Machine::Amd64 => "amd64",
            Machine::Arm64 => "arm64",
            Machine::Riscv64 => "riscv64",
        }
    }
}

impl Needs {
    /// Whether it runs wherever there is a kernel.
    pub fn is_static(&self) -> bool {
        self.libraries.is_empty()
    }
}

const DYNAMIC: u32 = 6;
const NEEDED_VERSIONS: u32 = 0x6fff_fffe;
const NEEDED_LIBRARY: u64 = 1;

/// Reads what a binary needs.
pub fn needs(binary: &[u8]) -> Result<Needs> {
    let elf = Elf(binary);
    if binary.get(..6) != Some(&[0x7f, b'E', b'L', b'F', 2, 1]) {
        return Err(ReleaseError::new("not a program for 64 bits, little end first"));
    }
    let machine = match elf.u16(18)? {
        62 => Machine::Amd64,
        183 => Machine::Arm64,
        243 => Machine::Riscv64,
        other => return Err(ReleaseError::new(format!("a program for an unknown machine ({other})"))),
    };
    let mut needs = Needs { machine, libraries: Vec::new(), glibc: None };
    for section in elf.sections()? {
        match section.kind {
            DYNAMIC => needs.libraries = elf.libraries(&section)?,
            NEEDED_VERSIONS => {
                let versions = elf.versions(&section)?;
                needs.glibc = versions.iter().filter_map(|name| glibc(name)).max();
            }
            _ => {}
        }
    }
    Ok(needs)
}

/// The version in a name such as `GLIBC_2.31`.
fn glibc(name: &str) -> Option<(u32, u32)> {
    let mut parts = name.strip_prefix("GLIBC_")?.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

struct Elf<'a>(&'a [u8]);

#[derive(Clone, Copy)]
struct Section {
    kind: u32,
    offset: u64,
    size: u64,
    /// Where its texts are.
    texts: u64,
    count: u32,
}

impl Elf<'_> {
    fn bytes<const N: usize>(&self, at: u64) -> Result<[u8; N]> {
        let at = usize::try_from(at).ok();
        let found = at.and_then(|at| self.0.get(at..)?.first_chunk::<N>());
        found.copied().ok_or_else(|| ReleaseError::new("the program is cut off"))
    }

    fn u16(&self, at: u64) -> Result<u16> {
        self.bytes(at).map(u16::from_le_bytes)
    }

    fn u32(&self, at: u64) -> Result<u32> {
        self.bytes(at).map(u32::from_le_bytes)
    }

    fn u64(&self, at: u64) -> Result<u64> {
        self.bytes(at).map(u64::from_le_bytes)
    }

    fn text(&self, at: u64) -> Result<String> {
        let rest = usize::try_from(at).ok().and_then(|at| self.0.get(at..)).unwrap_or_default();
        let end = rest.iter().position(|byte| *byte == 0);
        let end = end.ok_or_else(|| ReleaseError::new("the program is cut off"))?;
        Ok(String::from_utf8_lossy(&rest[..end]).into_owned())
    }

    fn sections(&self) -> Result<Vec<Section>> {
        let (table, size, count) = (self.u64(0x28)?, u64::from(self.u16(0x3a)?), u64::from(self.u16(0x3c)?));
        let place = |index: u64| table.saturating_add(index.saturating_mul(size));
        let read = |index| {
            let at = place(index);
            let linked = place(u64::from(self.u32(at + 40)?));
            Ok(Section {
                kind: self.u32(at + 4)?,
                offset: self.u64(at + 24)?,
                size: self.u64(at + 32)?,
                texts: self.u64(linked + 24)?,
                count: self.u32(at + 44)?,
            })
        };
        (0..count).map(read).collect()
    }

    fn libraries(&self, section: &Section) -> Result<Vec<String>> {
        let mut libraries = Vec::new();
        for at in (0..section.size / 16).map(|index| section.offset + index * 16) {
            if self.u64(at)? == NEEDED_LIBRARY {
                libraries.push(self.text(section.texts.saturating_add(self.u64(at + 8)?))?);
            }
        }
        Ok(libraries)
    }

    fn versions(&self, section: &Section) -> Result<Vec<String>> {
        let mut versions = Vec::new();
        let mut file = section.offset;
        for _ in 0..section.count {
            let mut version = file.saturating_add(u64::from(self.u32(file + 8)?));
            for _ in 0..self.u16(file + 2)? {
                versions.push(self.text(section.texts.saturating_add(u64::from(self.u32(version + 8)?)))?);
                version = version.saturating_add(u64::from(self.u32(version + 12)?));
            }
            file = file.saturating_add(u64::from(self.u32(file + 12)?));
        }
        Ok(versions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_of_this_system_needs_the_c_library() {
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let needs = needs(&own).unwrap();
        if cfg!(target_env = "gnu") {
            assert!(needs.libraries.iter().any(|name| name == "libc.so.6"), "{needs:?}");
            assert!(needs.glibc.is_some_and(|version| version >= (2, 2)), "{needs:?}");
        }
    }

    #[test]
    fn whatever_is_no_program_is_refused() {
        assert!(needs(b"").is_err());
        assert!(needs(b"#!/bin/sh\n").is_err());
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        for length in [6, 20, 0x40] {
            assert!(needs(&own[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        assert_eq!(glibc("GLIBC_2.2.5"), Some((2, 2)));
        assert!(glibc("GLIBC_2.9") < glibc("GLIBC_2.31"));
        assert_eq!(glibc("GLIBC_PRIVATE"), None);
        assert_eq!(glibc("GCC_3.0"), None);
    }
}
