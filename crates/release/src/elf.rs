//! What a binary asks of the system that it runs on.

use object::LittleEndian;
use object::elf::{DT_NEEDED, EM_AARCH64, EM_RISCV, EM_X86_64, FileHeader64};
use object::read::elf::FileHeader as _;

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

/// Reads what a binary needs.
pub fn needs(binary: &[u8]) -> Result<Needs> {
    // 64 bits, little end first.
    if binary.get(..6) != Some(&[0x7f, b'E', b'L', b'F', 2, 1]) {
        return Err(ReleaseError::new("not a program for 64 bits, little end first"));
    }
    read(binary).map_err(|error| ReleaseError::new(format!("cannot read the program: {error}")))?
}

fn read(binary: &[u8]) -> object::Result<Result<Needs>> {
    let header = FileHeader64::<LittleEndian>::parse(binary)?;
    let machine = match header.e_machine(LittleEndian) {
        EM_X86_64 => Machine::Amd64,
        EM_AARCH64 => Machine::Arm64,
        EM_RISCV => Machine::Riscv64,
        other => {
            return Ok(Err(ReleaseError::new(format!("a program for an unknown machine ({})", other.0))));
        }
    };
    let mut needs = Needs { machine, libraries: Vec::new(), glibc: None };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let sections = header.sections(LittleEndian, binary)?;
    let dynamic = sections.dynamic_table(LittleEndian, binary)?;
    for entry in dynamic.iter().filter(|entry| entry.tag == DT_NEEDED) {
        needs.libraries.push(text(dynamic.string(entry)?));
    }
    if let Some((mut files, strings)) = sections.gnu_verneed(LittleEndian, binary)? {
        let strings = sections.strings(LittleEndian, binary, strings)?;
        while let Some((_, mut versions)) = files.next()? {
            while let Some(version) = versions.next()? {
                needs.glibc = needs.glibc.max(glibc(&text(version.name(LittleEndian, strings)?)));
            }
        }
    }
    Ok(Ok(needs))
}

/// The version in a name such as `GLIBC_2.31`.
fn glibc(name: &str) -> Option<(u32, u32)> {
    let mut parts = name.strip_prefix("GLIBC_")?.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
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
