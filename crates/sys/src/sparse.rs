//! Copying a file with its holes.

use std::os::fd::BorrowedFd;

use rustix::fs::{SeekFrom, Stat as RawStat, copy_file_range, fstat, fstatfs, fstatvfs, ftruncate, seek};
use rustix::io::{Errno, pread, retry_on_intr};

use crate::error::Cause;
use crate::file::CHUNK;
use crate::replace::write_fully;

/// So much is handed to the kernel at once. It cannot be interrupted meanwhile.
const MAX_COPY_LEN: usize = 64 << 20;
/// File systems on which a copy shares the blocks of its source: btrfs, XFS, bcachefs.
const SHARING_FILE_SYSTEMS: [i64; 3] = [0x9123_683e, 0x5846_5342, 0xca45_1a4e];

/// How many bytes the file system of a file has room for, and whether copies on it can share blocks.
fn free(fd: BorrowedFd<'_>) -> Option<(u64, bool)> {
    let room = fstatvfs(fd).ok()?;
    #[allow(
        clippy::useless_conversion,
        clippy::unnecessary_cast,
        reason = "its type differs between machines"
    )]
    let kind = fstatfs(fd).ok()?.f_type as i64;
    // A file system without a size, as a memory file has, does not say.
    let said = (room.f_blocks > 0).then(|| room.f_bavail.saturating_mul(room.f_frsize))?;
    Some((said, SHARING_FILE_SYSTEMS.contains(&kind)))
}

/// Why a copy of a file does not fit into the file system of another, if it does not.
pub(crate) fn missing_room(from: &RawStat, to: &RawStat, on: BorrowedFd<'_>) -> Option<Cause> {
    let needed = length(from);
    let (free, shares) = free(on)?;
    // A copy on the same file system may share its blocks, and then needs no room.
    let fits = needed <= free || (shares && from.st_dev == to.st_dev);
    (!fits).then_some(Cause::NoRoom { needed, free })
}

/// How many bytes a copy of a file takes on the file system of another: none if it may share its blocks.
pub(crate) fn length_of_copy(from: &RawStat, to: &RawStat, on: BorrowedFd<'_>) -> u64 {
    let shares = free(on).is_none_or(|(_, shares)| shares) && from.st_dev == to.st_dev;
    if shares { 0 } else { length(from) }
}

/// The blocks of a file, in bytes.
fn length(stat: &RawStat) -> u64 {
    u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512)
}

/// Whether a file has fewer blocks than its length needs.
pub(crate) fn has_holes(stat: &RawStat) -> bool {
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    u64::try_from(stat.st_blocks).unwrap_or(u64::MAX).saturating_mul(512) < size
}

/// Appends the whole of `from` to `to`, asking before each piece whether to go on. False if it was not to.
pub(crate) fn copy(
    from: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
    go_on: &mut dyn FnMut(u64) -> bool,
) -> rustix::io::Result<bool> {
    let stat = fstat(from)?;
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    if !has_holes(&stat) {
        return copy_range(from, to, 0, u64::MAX, go_on);
    }
    let base = seek(to, SeekFrom::Current(0))?;
    let mut offset = 0;
    while offset < size {
        let data = match seek(from, SeekFrom::Data(offset)) {
            Ok(data) => data,
            // Nothing but a hole is left.
            Err(Errno::NXIO) => break,
            // A file system that does not tell.
            Err(_) if offset == 0 => return copy_range(from, to, 0, u64::MAX, go_on),
            Err(errno) => return Err(errno),
        };
        let hole = seek(from, SeekFrom::Hole(data))?.min(size);
        seek(to, SeekFrom::Start(base + data))?;
        if hole <= data {
            break;
        }
        if !copy_range(from, to, data, hole, go_on)? {
            return Ok(false);
        }
        offset = hole;
    }
    if !go_on(size) {
        return Ok(false);
    }
    ftruncate(to, base + size)?;
    seek(to, SeekFrom::Start(base + size))?;
    Ok(true)
}

/// Writes the whole of `from` to `to`, holes too, which may have something else there.
pub(crate) fn copy_all(
    from: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
    go_on: &mut dyn FnMut(u64) -> bool,
) -> rustix::io::Result<bool> {
    copy_range(from, to, 0, u64::MAX, go_on)
}

/// Copies from `offset` to `end`, or to the end of the file.
fn copy_range(
    from: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
    mut offset: u64,
    end: u64,
    go_on: &mut dyn FnMut(u64) -> bool,
) -> rustix::io::Result<bool> {
    let begin = offset;
    while go_on(offset) {
        let length = usize::try_from(end - offset).unwrap_or(usize::MAX).min(MAX_COPY_LEN);
        if length == 0 {
            return Ok(true);
        }
        match copy_file_range(from, Some(&mut offset), to, None, length) {
            Ok(0) if offset > begin => return Ok(true),
            // A special file may give nothing here and something to a read.
            Ok(0) => return copy_by_hand(from, to, offset, end, go_on),
            Ok(_) | Err(Errno::INTR) => {}
            // Different file systems, a special one, an old kernel: copying by hand works or says what is wrong.
            Err(_) => return copy_by_hand(from, to, offset, end, go_on),
        }
    }
    Ok(false)
}

fn copy_by_hand(
    from: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
    mut offset: u64,
    end: u64,
    go_on: &mut dyn FnMut(u64) -> bool,
) -> rustix::io::Result<bool> {
    let mut buffer = vec![0; CHUNK];
    while go_on(offset) {
        let room = usize::try_from(end - offset).unwrap_or(usize::MAX).min(buffer.len());
        let length = retry_on_intr(|| pread(from, &mut buffer[..room], offset))?;
        if length == 0 {
            return Ok(true);
        }
        write_fully(to, &buffer[..length])?;
        offset += length as u64;
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read as _, Seek as _, Write as _};
    use std::os::fd::AsFd as _;
    use std::os::unix::fs::{FileExt as _, MetadataExt as _};

    use super::*;

    #[test]
    fn holes_stay_holes_and_what_is_before_stays() {
        let directory = tempfile::tempdir().unwrap();
        let source =
            File::options().read(true).write(true).create_new(true).open(directory.path().join("a")).unwrap();
        source.set_len(1 << 40).unwrap();
        source.write_all_at(b"begin", 0).unwrap();
        source.write_all_at(b"middle", 1 << 30).unwrap();
        source.write_all_at(b"end", (1 << 40) - 3).unwrap();
        let mut copied =
            File::options().read(true).write(true).create_new(true).open(directory.path().join("b")).unwrap();
        copied.write_all(b"head").unwrap();
        let mut told = 0;
        let done = copy(source.as_fd(), copied.as_fd(), &mut |done| {
            assert!(done >= told, "it goes forward");
            told = done;
            true
        });
        assert_eq!((done, told), (Ok(true), 1 << 40));
        let found = copied.metadata().unwrap();
        assert_eq!(found.len(), (1 << 40) + 4);
        assert!(found.blocks() * 512 < 1 << 20, "{}", found.blocks());
        for (offset, text) in [(0, "headbegin"), ((1 << 30) + 4, "middle"), ((1 << 40) + 1, "end")] {
            let mut bytes = vec![0; text.len()];
            copied.read_exact_at(&mut bytes, offset).unwrap();
            assert_eq!(bytes, text.as_bytes());
        }
        copied.write_all(b"tail").unwrap();
        assert_eq!(copied.metadata().unwrap().len(), (1 << 40) + 8, "what follows is appended");
        copied.rewind().unwrap();
        copied.read_exact(&mut [0; 4]).unwrap();
    }

    #[test]
    fn a_copy_ends_when_it_is_told_to() {
        let directory = tempfile::tempdir().unwrap();
        let source =
            File::options().read(true).write(true).create_new(true).open(directory.path().join("a")).unwrap();
        source.write_all_at(&vec![1; 1 << 20], 0).unwrap();
        let copied = File::create(directory.path().join("b")).unwrap();
        assert_eq!(copy(source.as_fd(), copied.as_fd(), &mut |_| false), Ok(false));
        assert_eq!(copied.metadata().unwrap().len(), 0);
    }
}
