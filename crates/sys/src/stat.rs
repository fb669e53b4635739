//! What the kernel knows about one file.

use std::fmt;

use rustix::fs::FileType;

/// What is known about one entry of the file system, never of what a symbolic link points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stat {
    /// The device of the file system it lies on.
    pub device: u64,
    /// Its number on that device.
    pub inode: u64,
    /// What it is.
    pub kind: Kind,
    /// The twelve permission bits: setuid, setgid, sticky and three times read, write, execute.
    pub mode: u32,
    /// The owner's number.
    pub uid: u32,
    /// The group's number.
    pub gid: u32,
    /// Length in bytes.
    pub size: u64,
    /// How many names it has.
    pub links: u64,
    /// When its content last changed.
    pub modified: Timestamp,
    /// When anything about it last changed.
    pub changed: Timestamp,
}

/// A moment as the file system stores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    /// Seconds since 1970, possibly before it.
    pub seconds: i64,
    /// Nanoseconds within the second.
    pub nanoseconds: u32,
}

/// What an entry of the file system is. Displays with its article: `a FIFO`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A character device.
    CharacterDevice,
    /// A block device.
    BlockDevice,
    /// Something the kernel does not name.
    Unknown,
}

impl Stat {
    /// Whether both are the same file.
    pub fn same_file(&self, other: &Stat) -> bool {
        self.device == other.device && self.inode == other.inode
    }

    /// Whether both are the same file in the same state: nothing was written, replaced or re-labelled in between.
    pub fn same_version(&self, other: &Stat) -> bool {
        self.same_file(other)
            && self.size == other.size
            && self.modified == other.modified
            && self.changed == other.changed
            && self.kind == other.kind
    }
}

#[allow(
    clippy::useless_conversion,
    clippy::unnecessary_cast,
    reason = "the field types differ by architecture"
)]
impl From<rustix::fs::Stat> for Stat {
    fn from(raw: rustix::fs::Stat) -> Self {
        Self {
            device: raw.st_dev as u64,
            inode: raw.st_ino as u64,
            kind: FileType::from_raw_mode(raw.st_mode).into(),
            mode: raw.st_mode as u32 & 0o7777,
            uid: raw.st_uid,
            gid: raw.st_gid,
            size: u64::try_from(raw.st_size).unwrap_or(0),
            links: raw.st_nlink as u64,
            modified: Timestamp { seconds: raw.st_mtime as i64, nanoseconds: raw.st_mtime_nsec as u32 },
            changed: Timestamp { seconds: raw.st_ctime as i64, nanoseconds: raw.st_ctime_nsec as u32 },
        }
    }
}

impl Timestamp {
    #[allow(clippy::unnecessary_cast, reason = "the field types differ by architecture")]
    pub(crate) fn accessed(raw: &rustix::fs::Stat) -> Timestamp {
        Timestamp { seconds: raw.st_atime as i64, nanoseconds: raw.st_atime_nsec as u32 }
    }
}

impl From<FileType> for Kind {
    fn from(file_type: FileType) -> Self {
        match file_type {
            FileType::RegularFile => Kind::File,
            FileType::Directory => Kind::Directory,
            FileType::Symlink => Kind::Symlink,
            FileType::Fifo => Kind::Fifo,
            FileType::Socket => Kind::Socket,
            FileType::CharacterDevice => Kind::CharacterDevice,
            FileType::BlockDevice => Kind::BlockDevice,
            FileType::Unknown => Kind::Unknown,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::File => "a regular file",
            Kind::Directory => "a directory",
            Kind::Symlink => "a symbolic link",
            Kind::Fifo => "a FIFO",
            Kind::Socket => "a socket",
            Kind::CharacterDevice => "a character device",
            Kind::BlockDevice => "a block device",
            Kind::Unknown => "of an unknown kind",
        })
    }
}
