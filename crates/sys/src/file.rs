//! Regular files, opened so that nothing planted at the path can hang or mislead us.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{SeekFrom, fstat, seek};
use rustix::io::{Errno, pread, retry_on_intr};

use crate::error::{Cause, Error, Escaped, Result};
use crate::handle::{Attributes, Node, Via, apply};
use crate::path::{Location, ManagedPath};
use crate::sparse;
use crate::stat::{Kind, Stat};
use crate::walk::{REGULAR, open_file, open_without_links};

/// The most that is read at once. Large enough that the number of calls does not matter.
pub(crate) const CHUNK: usize = 128 * 1024;
/// The least room for reading, for files whose size the kernel does not tell.
const SMALLEST: usize = 512;

/// A regular file, open for reading, and what was known of it at that moment.
///
/// All reading is by position, so one opened file can be compared, copied and hashed in any order.
pub struct OpenedFile {
    fd: OwnedFd,
    stat: Stat,
    location: Location,
    planted: bool,
}

impl OpenedFile {
    /// Opens the file at `path`, for reading alone, under the rules of [`Parent::open`](crate::dir::Parent::open) for
    /// every component: a symbolic link is followed, at the end too, when nobody but root or we could have put it there.
    ///
    /// What is opened so is where content comes from, never where it goes to.
    pub fn open_trusted(path: &ManagedPath) -> Result<Self> {
        let fd = open_file(path.without_slash())?;
        // Whatever its links, nothing is ever changed through it.
        Self::new(fd, Location::whole(path), |_| true)
    }

    /// Opens the file at `path` in one call, if that is beyond doubt: no component is a link, and the file is regular and
    /// has no other name. Nothing in every other case; who wants to know more
    /// [opens its parent](crate::dir::Parent::open).
    pub fn open_if_plain(path: &ManagedPath) -> Option<Self> {
        let fd = open_without_links(path.without_slash(), REGULAR)?;
        let file = Self::new(fd, Location::whole(path), |_| false).ok()?;
        (file.stat.links == 1).then_some(file)
    }

    /// Takes over a descriptor, refusing anything but a regular file.
    pub(crate) fn new(fd: OwnedFd, location: Location, planted: impl Fn(&Stat) -> bool) -> Result<Self> {
        let stat: Stat = match fstat(&fd) {
            Ok(raw) => raw.into(),
            Err(errno) => return Err(Error::new("open", &location, errno)),
        };
        if stat.kind != Kind::File {
            return Err(Error::new("open", &location, Cause::NotARegularFile(stat.kind)));
        }
        Ok(Self { fd, stat, location, planted: planted(&stat) })
    }

    /// What it was when it was opened.
    pub fn stat(&self) -> &Stat {
        &self.stat
    }

    /// What it is now.
    pub fn current_stat(&self) -> Result<Stat> {
        fstat(&self.fd).map(Stat::from).map_err(|errno| self.error("look at", errno))
    }

    /// Whether the content is exactly `content`. Sizes are compared first; a file of another length is not read.
    ///
    /// Files whose size the kernel does not tell, as in `/proc`, therefore never compare equal.
    pub fn equals(&self, content: &[u8]) -> Result<bool> {
        if self.stat.size != content.len() as u64 {
            return Ok(false);
        }
        let mut buffer = self.buffer();
        let mut rest = content;
        while !rest.is_empty() {
            let wanted = rest.len().min(buffer.len());
            let got = self.read_at(&mut buffer[..wanted], (content.len() - rest.len()) as u64)?;
            if got.is_empty() || !rest.starts_with(got) {
                return Ok(false);
            }
            rest = &rest[got.len()..];
        }
        Ok(true)
    }

    /// Whether both files have the same content. The same file is equal to itself without reading.
    pub fn equals_file(&self, other: &OpenedFile) -> Result<bool> {
        if self.stat.same_file(&other.stat) {
            return Ok(true);
        }
        if self.stat.size != other.stat.size {
            return Ok(false);
        }
        let mut ours = self.buffer();
        let mut theirs = self.buffer();
        let mut offset = 0;
        loop {
            let left = self.read_at(&mut ours, offset)?;
            if left.is_empty() {
                return Ok(offset == self.stat.size);
            }
            let mut compared = 0;
            while compared < left.len() {
                let wanted = left.len() - compared;
                let right = other.read_at(&mut theirs[..wanted], offset + compared as u64)?;
                if right.is_empty() || !left[compared..].starts_with(right) {
                    return Ok(false);
                }
                compared += right.len();
            }
            offset += left.len() as u64;
        }
    }

    /// The whole content, unless it is longer than `limit` bytes.
    pub fn read(&self, limit: u64) -> Result<Vec<u8>> {
        if self.stat.size > limit {
            return Err(self.error("read", Cause::TooLarge(limit)));
        }
        let mut content = Vec::with_capacity(usize::try_from(self.stat.size).unwrap_or(0));
        self.for_each_chunk(|chunk| {
            if (content.len() + chunk.len()) as u64 > limit {
                return Err(self.error("read", Cause::TooLarge(limit)));
            }
            content.extend_from_slice(chunk);
            Ok(())
        })?;
        Ok(content)
    }

    /// Hands the content to `take` piece by piece, from the beginning to the end.
    pub fn for_each_chunk(&self, mut take: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let mut buffer = self.buffer();
        let mut offset = 0;
        loop {
            let chunk = self.read_at(&mut buffer, offset)?;
            if chunk.is_empty() {
                return Ok(());
            }
            take(chunk)?;
            offset += chunk.len() as u64;
        }
    }

    /// Makes owner, group, mode and label as wanted and tells whether anything was changed, under the rules of
    /// [`Handle::set_attributes`](crate::handle::Handle::set_attributes).
    pub fn set_attributes(&self, wanted: &Attributes<'_>) -> Result<bool> {
        apply(self, &self.current_stat()?, wanted)
    }

    /// Reads some bytes at `offset`; none at the end of the file.
    pub fn read_at<'buffer>(&self, buffer: &'buffer mut [u8], offset: u64) -> Result<&'buffer [u8]> {
        match retry_on_intr(|| pread(&self.fd, &mut *buffer, offset)) {
            Ok(length) => Ok(&buffer[..length]),
            Err(errno) => Err(self.error("read", errno)),
        }
    }

    /// Whether the file has holes, which need not be read to be known.
    pub fn has_holes(&self) -> bool {
        fstat(&self.fd).is_ok_and(|stat| sparse::has_holes(&stat))
    }

    /// Where the next data begins at or after `offset`, or the file ends. The same offset if the file system does not tell.
    pub fn next_data(&self, offset: u64) -> u64 {
        match seek(&self.fd, SeekFrom::Data(offset)) {
            Ok(data) => data,
            Err(Errno::NXIO) => {
                let end = fstat(&self.fd).map_or(0, |stat| u64::try_from(stat.st_size).unwrap_or(0));
                end.max(offset)
            }
            Err(_) => offset,
        }
    }

    /// A buffer as large as reading this file can use, and never larger than [`CHUNK`].
    fn buffer(&self) -> Vec<u8> {
        let size = usize::try_from(self.stat.size).unwrap_or(CHUNK);
        vec![0; size.clamp(SMALLEST, CHUNK)]
    }

    fn error(&self, operation: &'static str, cause: impl Into<Cause>) -> Error {
        Error::new(operation, &self.location, cause)
    }
}

impl Node for OpenedFile {
    fn via(&self) -> Via<'_> {
        Via::Open(self.fd.as_fd())
    }

    fn at(&self) -> Box<[u8]> {
        (&self.location).into()
    }

    fn may_be_planted(&self) -> bool {
        self.planted
    }
}

impl fmt::Debug for OpenedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OpenedFile({})", Escaped(self.location.bytes()))
    }
}

impl AsFd for OpenedFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
