//! Setting damaged state files aside: renamed, never deleted, so that what is in them can still be looked at.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};

/// The mark in the name of every file that was set aside, followed by a number.
pub const MARK: &str = ".damaged-";

/// The number of files of one name that are kept aside. Beyond that, the last one is replaced.
const MAX_KEPT: u32 = 100;

/// Renames a damaged file or directory to the first free name `PATH.damaged-NUMBER`, and returns that name.
///
/// # Errors
///
/// The file cannot be renamed, because it is gone or because the directory cannot be written to.
pub fn set_aside(path: &Path) -> io::Result<PathBuf> {
    for number in 1..MAX_KEPT {
        let aside = numbered(path, number);
        match renameat_with(CWD, path, CWD, &aside, RenameFlags::NOREPLACE) {
            Ok(()) => return Ok(aside),
            Err(rustix::io::Errno::EXIST) => {}
            // A file system without this flag: nobody else uses this directory, so looking first is as good.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
                if aside.symlink_metadata().is_err() {
                    std::fs::rename(path, &aside)?;
                    return Ok(aside);
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
    let last = numbered(path, MAX_KEPT);
    std::fs::rename(path, &last)?;
    Ok(last)
}

/// The line that ends a text file which is verified before it is used.
const CHECKSUM: &[u8] = b"# checksum ";

/// A text with a last line that has its checksum.
pub fn with_checksum(text: &str) -> String {
    format!("{text}# checksum {:016x}\n", checksum(text.as_bytes()))
}

/// The text before the checksum, if that matches; all of it, if there is none. Otherwise, what is wrong.
///
/// # Errors
///
/// The checksum does not match.
pub fn verified(text: &[u8]) -> Result<&[u8], &'static str> {
    let last = text.len().checked_sub(CHECKSUM.len() + 17);
    let Some((body, line)) = last.and_then(|at| text.split_at_checked(at)) else { return Ok(text) };
    let Some(sum) = line.strip_prefix(CHECKSUM).and_then(|line| line.strip_suffix(b"\n")) else {
        return Ok(text);
    };
    match sum == format!("{:016x}", checksum(body)).as_bytes() {
        true => Ok(body),
        false => Err("its checksum does not match"),
    }
}

/// A CRC of 64 bits (ECMA-182): it tells accidents, and is no defence against anybody.
pub fn checksum(bytes: &[u8]) -> u64 {
    let mut crc: u64 = !0;
    for byte in bytes {
        let [first, ..] = crc.to_be_bytes();
        crc = (crc << 8) ^ CRC_TABLE[usize::from(first ^ byte)];
    }
    crc
}

/// What each first byte of a CRC becomes.
static CRC_TABLE: [u64; 256] = crc_table();

const fn crc_table() -> [u64; 256] {
    let mut table = [0; 256];
    let mut index = 0;
    while index < table.len() {
        let mut crc = (index as u64) << 56;
        let mut bit = 0;
        while bit < 8 {
            crc = (crc << 1) ^ ((crc >> 63) * 0x42f0_e1eb_a9ea_3693);
            bit += 1;
        }
        table[index] = crc;
        index += 1;
    }
    table
}

fn numbered(path: &Path, number: u32) -> PathBuf {
    let mut name = OsString::from(path.as_os_str());
    name.push(format!("{MARK}{number}"));
    PathBuf::from(name)
}

/// Sets a file aside and says so: what is wrong with which file, where it is now, or why it could not be set aside.
pub fn set_aside_and_describe(path: &Path, reason: &str) -> String {
    match set_aside(path) {
        Ok(aside) => format!("{} is damaged ({reason}): set aside as {}", path.display(), aside.display()),
        Err(error) => {
            format!("{} is damaged ({reason}), and cannot be set aside: {error}", path.display())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_is_what_files_of_other_runs_have() {
        // CRC-64/WE without its final inversion, by its published check value.
        assert_eq!(checksum(b"123456789"), !0x62ec_59e3_f1a4_f00a);
        assert_eq!(checksum(b""), u64::MAX);
    }

    #[test]
    fn a_flipped_bit_or_a_cut_is_noticed() {
        let text = with_checksum("{\n  \"a\": 1\n}\n");
        let body = b"{\n  \"a\": 1\n}\n";
        assert_eq!(verified(text.as_bytes()), Ok(&body[..]));
        assert_eq!(verified(body), Ok(&body[..]), "earlier versions have written none");
        for at in 0..text.len() {
            for bit in 0..8 {
                let mut damaged = text.clone().into_bytes();
                damaged[at] ^= 1 << bit;
                // One that is no longer found leaves a text that cannot be parsed.
                assert!(verified(&damaged).map_or(true, |found| found.len() == text.len()), "{at}.{bit}");
            }
        }
    }

    #[test]
    fn every_damaged_file_gets_a_name_of_its_own() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("state");
        for number in 1..=3 {
            std::fs::write(&path, number.to_string()).unwrap();
            let aside = set_aside(&path).unwrap();
            assert_eq!(aside, directory.path().join(format!("state.damaged-{number}")));
            assert_eq!(std::fs::read_to_string(&aside).unwrap(), number.to_string());
        }
        assert!(!path.exists());
        assert!(set_aside_and_describe(&path, "it is empty").contains("cannot be set aside"));
    }
}
