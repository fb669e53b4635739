//! The format of `tar`.

use std::io::{self, Write};

use mgmt_resource::{Error, Invalid};
use mgmt_sys::error::Escaped;
use mgmt_sys::file::OpenedFile;
use tar::{EntryType, Header};

use crate::support::derived_file::Trouble;

const BLOCK: usize = 512;
/// The largest number in the short and in the long fields of the format of 1988.
const SHORT: u64 = 0o7_777_777;
const LONG: u64 = 0o77_777_777_777;
/// Where a header has the name, the target of a link, and the beginning of a long name.
const NAME: std::ops::Range<usize> = 0..100;
const LINK: std::ops::Range<usize> = 157..257;
const PREFIX: std::ops::Range<usize> = 345..500;

/// Which of the formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Ustar,
    Pax,
    Gnu,
}

impl Format {
    pub(crate) fn read(format: i64) -> Result<Format, Invalid> {
        match format {
            2 => Ok(Format::Ustar),
            // The later format is the earlier one, with more where that is not enough.
            0 | 4 => Ok(Format::Pax),
            8 => Ok(Format::Gnu),
            other => Err(Invalid::field(
                "format",
                format!("expected 0 (whatever fits), 2 (ustar), 4 (pax) or 8 (gnu), found {other}"),
            )),
        }
    }
}

/// Something in an archive.
pub(crate) struct Member<'a> {
    /// Relative, with a slash at the end of a directory.
    pub(crate) name: &'a [u8],
    pub(crate) mode: u32,
    pub(crate) uid: u64,
    pub(crate) gid: u64,
    /// Seconds since 1970.
    pub(crate) modified: i64,
}

/// What a member is.
pub(crate) enum Content<'a> {
    Directory,
    /// The target, as it is written in the link.
    Link(&'a [u8]),
    /// As long as it was when it was opened.
    File(&'a OpenedFile),
    /// So many bytes, which come piece by piece.
    Pieces(u64, &'a mut Pieces<'a>),
}

/// Gives a content, piece by piece, to whoever is named.
pub(crate) type Pieces<'a> = dyn FnMut(&mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> + 'a;

/// An archive that is being written.
pub(crate) struct Archive<'a> {
    to: &'a mut dyn Write,
    format: Format,
}

impl<'a> Archive<'a> {
    pub(crate) fn new(to: &'a mut dyn Write, format: Format) -> Archive<'a> {
        Archive { to, format }
    }

    pub(crate) fn add(&mut self, member: &Member<'_>, content: Content<'_>) -> Result<(), Trouble> {
        let (kind, link, size): (_, &[u8], _) = match &content {
            Content::Directory => (EntryType::Directory, b"", 0),
            Content::Link(target) => (EntryType::Symlink, target, 0),
            Content::File(file) => (EntryType::Regular, b"", file.stat().size),
            Content::Pieces(size, _) => (EntryType::Regular, b"", *size),
        };
        let header = match self.format {
            Format::Ustar | Format::Pax => self.ustar(member, kind, link, size)?,
            Format::Gnu => self.gnu(member, kind, link, size)?,
        };
        self.to.write_all(header.as_bytes())?;
        match content {
            Content::File(file) => self.copy(file, size),
            Content::Pieces(size, pieces) => self.take(pieces, size),
            Content::Directory | Content::Link(_) => Ok(()),
        }
    }

    /// Two empty blocks.
    pub(crate) fn finish(&mut self) -> Result<(), Trouble> {
        Ok(self.to.write_all(&[0; 2 * BLOCK])?)
    }

    fn ustar(
        &mut self,
        member: &Member<'_>,
        kind: EntryType,
        link: &[u8],
        size: u64,
    ) -> Result<Header, Trouble> {
        let mut header = Header::new_ustar();
        let mut records = Records::default();
        match split(member.name) {
            Some((prefix, name)) => {
                put(&mut header, PREFIX, prefix);
                put(&mut header, NAME, name);
            }
            None => {
                put(&mut header, NAME, member.name);
                records.text("path", member.name);
            }
        }
        put(&mut header, LINK, link);
        if link.len() > LINK.len() {
            records.text("linkpath", link);
        }
        let modified = u64::try_from(member.modified).ok().filter(|modified| *modified <= LONG);
        if modified.is_none() {
            records.add("mtime", member.modified.to_string().as_bytes());
        }
        for (key, number, largest) in
            [("size", size, LONG), ("uid", member.uid, SHORT), ("gid", member.gid, SHORT)]
        {
            if number > largest {
                records.add(key, number.to_string().as_bytes());
            }
        }
        if self.format == Format::Ustar && !records.is_empty() {
            let error = format!("{} does not fit: {}", Escaped(member.name), records.what().join(", "));
            return Err(Trouble::Told(
                Error::new(format_args!("the format of 1988 is too small: {error}"))
                    .with_hint("set `format` to 0"),
            ));
        }
        self.write_records(&records)?;
        let fits = |number: u64, largest: u64| if number > largest { 0 } else { number };
        header.set_size(fits(size, LONG));
        header.set_uid(fits(member.uid, SHORT));
        header.set_gid(fits(member.gid, SHORT));
        header.set_mtime(modified.unwrap_or(0));
        header.set_mode(member.mode);
        header.set_entry_type(kind);
        header.set_cksum();
        Ok(header)
    }

    fn gnu(
        &mut self,
        member: &Member<'_>,
        kind: EntryType,
        link: &[u8],
        size: u64,
    ) -> Result<Header, Trouble> {
        for (text, range, kind) in [(link, LINK, b'K'), (member.name, NAME, b'L')] {
            if text.len() > range.len() {
                self.long(text, kind)?;
            }
        }
        let mut header = Header::new_gnu();
        put(&mut header, NAME, member.name);
        put(&mut header, LINK, link);
        header.set_size(size);
        header.set_uid(member.uid);
        header.set_gid(member.gid);
        header.set_mtime(u64::try_from(member.modified).unwrap_or(0));
        header.set_mode(member.mode);
        header.set_entry_type(kind);
        header.set_cksum();
        Ok(header)
    }

    /// A name that comes before the header that it belongs to.
    fn long(&mut self, text: &[u8], kind: u8) -> Result<(), Trouble> {
        let mut header = Header::new_gnu();
        put(&mut header, NAME, b"././@LongLink");
        header.set_size(text.len() as u64 + 1);
        for zero in [Header::set_uid, Header::set_gid, Header::set_mtime] {
            zero(&mut header, 0);
        }
        header.set_mode(0o644);
        header.set_entry_type(EntryType::new(kind));
        header.set_cksum();
        self.to.write_all(header.as_bytes())?;
        self.to.write_all(text)?;
        self.to.write_all(&[0])?;
        self.pad(text.len() as u64 + 1)
    }

    fn write_records(&mut self, records: &Records) -> Result<(), Trouble> {
        if records.is_empty() {
            return Ok(());
        }
        let mut header = Header::new_ustar();
        put(&mut header, NAME, b"././@PaxHeader");
        header.set_size(records.text.len() as u64);
        for zero in [Header::set_uid, Header::set_gid, Header::set_mtime] {
            zero(&mut header, 0);
        }
        header.set_mode(0o644);
        header.set_entry_type(EntryType::XHeader);
        header.set_cksum();
        self.to.write_all(header.as_bytes())?;
        self.to.write_all(&records.text)?;
        self.pad(records.text.len() as u64)
    }

    fn copy(&mut self, file: &OpenedFile, size: u64) -> Result<(), Trouble> {
        let mut buffer = vec![0; 128 << 10];
        let mut offset = 0;
        while offset < size {
            let wanted = usize::try_from(size - offset).map_or(buffer.len(), |left| left.min(buffer.len()));
            let chunk = file.read_at(&mut buffer[..wanted], offset)?;
            if chunk.is_empty() {
                return Err(Trouble::Changing("a file that became shorter".into()));
            }
            self.to.write_all(chunk)?;
            offset += chunk.len() as u64;
        }
        self.pad(size)
    }

    fn take(&mut self, pieces: &mut Pieces<'_>, size: u64) -> Result<(), Trouble> {
        let (mut written, mut sunk) = (0, Ok(()));
        let read = pieces(&mut |piece| {
            written += piece.len() as u64;
            if written <= size {
                sunk = self.to.write_all(piece);
            }
            match &sunk {
                Ok(()) if written <= size => Ok(()),
                _ => Err(io::ErrorKind::Other.into()),
            }
        });
        sunk?;
        match read {
            Ok(()) if written == size => self.pad(size),
            Err(error) if written <= size && error.kind() != io::ErrorKind::NotFound => {
                Err(Trouble::Told(Error::new(format_args!("cannot read what is to be archived: {error}"))))
            }
            _ => Err(Trouble::Changing("what is to be archived".into())),
        }
    }

    fn pad(&mut self, length: u64) -> Result<(), Trouble> {
        let used = (length % BLOCK as u64) as usize;
        match used {
            0 => Ok(()),
            used => Ok(self.to.write_all(&[0; BLOCK][used..])?),
        }
    }
}

/// What does not fit into a header of 1988.
#[derive(Default)]
struct Records {
    text: Vec<u8>,
    keys: Vec<&'static str>,
}

impl Records {
    fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    fn text(&mut self, key: &'static str, text: &[u8]) {
        // Text is UTF-8 in this format, unless it says otherwise.
        if std::str::from_utf8(text).is_err() {
            self.add("hdrcharset", b"BINARY");
        }
        self.add(key, text);
    }

    /// The length of a record counts its own digits.
    fn add(&mut self, key: &'static str, value: &[u8]) {
        let rest = key.len() + value.len() + 3;
        let mut length = rest + 1;
        while rest + length.to_string().len() != length {
            length = rest + length.to_string().len();
        }
        self.text.extend_from_slice(format!("{length} {key}=").as_bytes());
        self.text.extend_from_slice(value);
        self.text.push(b'\n');
        self.keys.push(key);
    }

    fn what(&self) -> Vec<&'static str> {
        let name = |key: &&'static str| match *key {
            "path" => Some("its name is too long"),
            "linkpath" => Some("its target is too long"),
            "mtime" => Some("its time is out of range"),
            "size" => Some("it is too large"),
            "uid" => Some("the number of its owner is too large"),
            "gid" => Some("the number of its group is too large"),
            _ => None,
        };
        self.keys.iter().filter_map(name).collect()
    }
}

/// As much of a text as there is room for.
fn put(header: &mut Header, range: std::ops::Range<usize>, text: &[u8]) {
    let length = text.len().min(range.len());
    header.as_mut_bytes()[range][..length].copy_from_slice(&text[..length]);
}

/// Splits a name into what goes before a slash and what goes after it, if it is too long for one field.
fn split(name: &[u8]) -> Option<(&[u8], &[u8])> {
    if name.len() <= NAME.len() {
        return Some((b"", name));
    }
    let slashes = name.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
    let fits = |at: &usize| *at <= PREFIX.len() && (1..=NAME.len()).contains(&(name.len() - at - 1));
    slashes.into_iter().find(fits).map(|at| (&name[..at], &name[at + 1..]))
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn archived(format: Format, member: &Member<'_>, content: Content<'_>) -> Result<Vec<u8>, Trouble> {
        let mut bytes = Vec::new();
        let mut archive = Archive::new(&mut bytes, format);
        archive.add(member, content)?;
        archive.finish()?;
        Ok(bytes)
    }

    fn member(name: &[u8]) -> Member<'_> {
        Member { name, mode: 0o7751, uid: 7, gid: 8, modified: 1_700_000_000 }
    }

    #[test]
    fn what_is_written_can_be_read_however_long_or_large() {
        let long = [b"d".repeat(200), b"e".repeat(200)].join(&b'/');
        let names: [&[u8]; 5] =
            [b"a", b"a b/\xc3\xa9/", &long, b"\xff\xfe", &[b"x".repeat(150), b"y".repeat(90)].join(&b'/')];
        for format in [Format::Pax, Format::Gnu] {
            for name in names {
                for target in [&b"../x"[..], &long, b"/etc/./passwd"] {
                    let large = Member { uid: 3_000_000_000, gid: 4_000_000_000, ..member(name) };
                    let bytes = archived(format, &large, Content::Link(target)).ok().unwrap();
                    assert_eq!(bytes.len() % BLOCK, 0);
                    let mut archive = tar::Archive::new(&bytes[..]);
                    let mut entries = archive.entries().unwrap();
                    let mut entry = entries.next().unwrap().unwrap();
                    assert_eq!(*entry.path_bytes(), *name, "{format:?}");
                    assert_eq!(*entry.link_name_bytes().unwrap(), *target, "{format:?}");
                    assert_eq!(entry.header().mode().unwrap(), 0o7751);
                    assert_eq!(entry.header().mtime().unwrap(), 1_700_000_000);
                    if format == Format::Gnu {
                        assert_eq!(entry.header().uid().unwrap(), 3_000_000_000);
                    } else {
                        let pax: Vec<u8> = entry
                            .pax_extensions()
                            .unwrap()
                            .unwrap()
                            .flat_map(|e| e.unwrap().value_bytes().to_vec())
                            .collect();
                        assert!(String::from_utf8_lossy(&pax).contains("3000000000"));
                    }
                    assert!(entry.read(&mut [0]).unwrap() == 0 && entries.next().is_none());
                }
            }
        }
    }

    #[test]
    fn the_format_of_1988_says_what_it_cannot_hold() {
        let refused = |member: &Member<'_>, content| match archived(Format::Ustar, member, content) {
            Err(Trouble::Told(error)) => error.to_string(),
            _ => panic!("taken"),
        };
        let long = b"x".repeat(101);
        assert!(refused(&member(&long), Content::Directory).contains("its name is too long"));
        assert!(refused(&member(b"a"), Content::Link(&long)).contains("its target is too long"));
        assert!(refused(&Member { uid: SHORT + 1, ..member(b"a") }, Content::Directory).contains("owner"));
        assert!(refused(&Member { modified: -1, ..member(b"a") }, Content::Directory).contains("time"));
        let split = [b"x".repeat(155), b"y".repeat(100)].join(&b'/');
        assert!(archived(Format::Ustar, &member(&split), Content::Directory).is_ok());
    }
}
