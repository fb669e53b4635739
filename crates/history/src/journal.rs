//! Lines in numbered files, of which the oldest go.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::Record;

/// How long the names of files are. They sort as their numbers do.
const DIGITS: usize = 10;
const ENDING: &str = ".jsonl";
/// A longer line is none of ours.
const LONGEST_LINE: u64 = 4 << 20;

/// How much is kept.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// A file of so many bytes is long enough.
    pub file: u64,
    /// So many files.
    pub files: usize,
    /// What was written survives a power failure.
    pub durable: bool,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { file: 4 << 20, files: 8, durable: true }
    }
}

/// The files, open for writing.
#[derive(Debug)]
pub struct Journal {
    directory: PathBuf,
    limits: Limits,
    number: u64,
    file: File,
    length: u64,
    /// The last line has no end.
    torn: bool,
    /// Something has been written that the disk may not have.
    unsynced: bool,
}

impl Journal {
    /// Goes on where the last one stopped. Makes the directory if need be.
    ///
    /// # Errors
    ///
    /// The directory or the file cannot be made or opened.
    pub fn open(directory: PathBuf, limits: Limits) -> io::Result<Journal> {
        match DirBuilder::new().mode(0o700).create(&directory) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let number = numbers(&directory)?.last().copied().unwrap_or(1);
        let (file, length, torn) = open(&directory, number)?;
        Ok(Journal { directory, limits, number, file, length, torn, unsynced: false })
    }

    /// Appends whole lines, each with its end.
    ///
    /// # Errors
    ///
    /// Not all could be written. What is there of it is passed over by readers, and the next lines can be appended.
    pub fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        if self.length >= self.limits.file {
            self.rotate()?;
        }
        let written = match self.torn {
            true => self.file.write_all(b"\n").and_then(|()| self.file.write_all(lines)),
            false => self.file.write_all(lines),
        };
        self.unsynced = true;
        self.length = self.length.saturating_add(lines.len() as u64 + 1);
        self.torn = written.is_err();
        written
    }

    /// Begins another file. The oldest go, so that there is room.
    fn rotate(&mut self) -> io::Result<()> {
        let numbers = numbers(&self.directory)?;
        let keep = self.limits.files.saturating_sub(1);
        for number in &numbers[..numbers.len().saturating_sub(keep)] {
            std::fs::remove_file(self.directory.join(name(*number)))?;
        }
        self.sync()?;
        (self.file, self.length, self.torn) = open(&self.directory, self.number + 1)?;
        self.number += 1;
        Ok(())
    }

    /// Has the disk keep what was written.
    ///
    /// # Errors
    ///
    /// It cannot.
    pub fn sync(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.unsynced) && self.limits.durable { self.file.sync_data() } else { Ok(()) }
    }

    /// Where the files are.
    pub fn directory(&self) -> &Path {
        &self.directory
    }
}

fn open(directory: &Path, number: u64) -> io::Result<(File, u64, bool)> {
    let path = directory.join(name(number));
    let mut file = OpenOptions::new().create(true).append(true).read(true).mode(0o600).open(path)?;
    let length = file.seek(SeekFrom::End(0))?;
    let mut last = [b'\n'];
    if length > 0 {
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
    }
    Ok((file, length, last != [b'\n']))
}

fn name(number: u64) -> String {
    format!("{number:0DIGITS$}{ENDING}")
}

/// The numbers of the files, in their order.
fn numbers(directory: &Path) -> io::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let found = entry?.file_name();
        let number = found.to_str().and_then(|name| name.strip_suffix(ENDING)?.parse().ok());
        numbers.extend(number.filter(|number| *found == *name(*number)));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// Shows every record, from the oldest to the newest, while somebody may be writing, and counts the lines that are damaged.
/// Nothing is there if there is no such directory.
///
/// # Errors
///
/// A file cannot be read.
pub fn read(directory: &Path, mut show: impl FnMut(Record)) -> io::Result<u64> {
    let numbers = match numbers(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        numbers => numbers?,
    };
    let mut damaged = 0;
    for number in numbers {
        let file = match File::open(directory.join(name(number))) {
            // It was the oldest, and has just gone.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            file => file?,
        };
        let mut file = BufReader::with_capacity(64 << 10, file);
        let mut line = Vec::new();
        while (&mut file).take(LONGEST_LINE).read_until(b'\n', &mut line)? > 0 {
            match serde_json::from_slice::<Record>(&line) {
                Ok(record) if record.version > crate::record::VERSION => {}
                Ok(record) if crate::line::is_intact(&line) => show(record),
                // One without an end is being written, or the writer was killed meanwhile.
                _ => damaged += u64::from(line.ends_with(b"\n") && !line.trim_ascii().is_empty()),
            }
            line.clear();
        }
    }
    Ok(damaged)
}
