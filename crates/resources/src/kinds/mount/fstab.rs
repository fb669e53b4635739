//! The table of what is mounted at boot.

use mgmt_sys::mount_table::unescape;
use mgmt_sys::path::clean;

use super::options::{self, Options};

pub(super) const FSTAB: &str = "/etc/fstab";

/// A line of the table.
#[derive(Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) device: Vec<u8>,
    pub(super) point: Vec<u8>,
    pub(super) kind: Vec<u8>,
    pub(super) options: Options,
    /// The same as they are to be written, if that matters.
    pub(super) text: Vec<u8>,
    pub(super) freq: u32,
    pub(super) passno: u32,
}

impl Entry {
    /// Reads a line. Nothing if it is empty, a comment, or no entry.
    fn read(line: &[u8]) -> Option<Entry> {
        let line = line.trim_ascii();
        if line.starts_with(b"#") {
            return None;
        }
        let mut fields = line.split(|byte| b" \t".contains(byte)).filter(|field| !field.is_empty());
        let mut text = || fields.next().map(unescape);
        let (device, point, kind) = (text()?, text()?, text()?);
        let options = text().unwrap_or_default();
        let mut number = || match text() {
            None => Some(0),
            Some(digits) => std::str::from_utf8(&digits).ok()?.parse().ok(),
        };
        // What nobody understands is not what is wanted, but it is a line for this mount point.
        let (freq, passno) = (number().unwrap_or(u32::MAX), number().unwrap_or(u32::MAX));
        let text = options;
        let options = options::declared(&options::read(&text));
        Some(Entry { device, point: clean(&point), kind, options, text, freq, passno })
    }

    fn written(&self) -> Vec<u8> {
        let (options, numbers) = (self.options_text(), format!(" {} {}\n", self.freq, self.passno));
        let texts = [&self.device, &self.point, &self.kind, &options].map(|text| escaped(text));
        [texts.join(&b' '), numbers.into_bytes()].concat()
    }
}

impl Entry {
    fn options_text(&self) -> Vec<u8> {
        if self.text.is_empty() { options::written(&self.options) } else { self.text.clone() }
    }

    /// Whether a line says what is wanted. The order of options matters only if it is given.
    fn is_as(&self, wanted: &Entry) -> bool {
        let text = if wanted.text.is_empty() { &wanted.text } else { &self.text };
        let (freq, passno) = (self.freq, self.passno);
        *text == wanted.text
            && (&self.device, &self.point, &self.kind, &self.options, freq, passno)
                == (&wanted.device, &wanted.point, &wanted.kind, &wanted.options, wanted.freq, wanted.passno)
    }
}

/// The table with exactly this line for its mount point, in the place of the first that there was. Nothing if it is so.
pub(super) fn with(table: &[u8], wanted: &Entry) -> Option<Vec<u8>> {
    let mut found = Vec::new();
    let mut new = Vec::with_capacity(table.len());
    for line in table.split_inclusive(|byte| *byte == b'\n') {
        match Entry::read(line).filter(|entry| entry.point == wanted.point) {
            None => new.extend_from_slice(line),
            Some(entry) => {
                if found.is_empty() {
                    new.extend_from_slice(&wanted.written());
                }
                found.push(entry);
            }
        }
    }
    if matches!(&found[..], [only] if only.is_as(wanted)) {
        return None;
    }
    if found.is_empty() {
        if !new.is_empty() && !new.ends_with(b"\n") {
            new.push(b'\n');
        }
        new.extend_from_slice(&wanted.written());
    }
    Some(new)
}

/// The table without any line for a mount point. Nothing if there is none.
pub(super) fn without(table: &[u8], point: &[u8]) -> Option<Vec<u8>> {
    let lines = table.split_inclusive(|byte| *byte == b'\n');
    let is_other = |line: &&[u8]| Entry::read(line).is_none_or(|entry| entry.point != point);
    let new: Vec<u8> = lines.filter(is_other).flatten().copied().collect();
    (new.len() != table.len()).then_some(new)
}

/// Blanks, tabs, newlines and backslashes are written as three octal digits.
fn escaped(text: &[u8]) -> Vec<u8> {
    let mut written = Vec::with_capacity(text.len());
    for (at, byte) in text.iter().enumerate() {
        match byte {
            b' ' | b'\t' | b'\n' | b'\\' => written.extend_from_slice(format!("\\{byte:03o}").as_bytes()),
            // In front it would be a comment.
            b'#' if at == 0 => written.extend_from_slice(b"\\043"),
            _ => written.push(*byte),
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(point: &str, options: &str) -> Entry {
        Entry {
            device: b"/dev/disk one".to_vec(),
            point: point.into(),
            kind: b"ext4".to_vec(),
            options: options::read(options.as_bytes()),
            text: Vec::new(),
            freq: 0,
            passno: 2,
        }
    }

    #[track_caller]
    fn becomes(table: &str, wanted: &Entry, expected: &str) {
        let new = with(table.as_bytes(), wanted).unwrap();
        assert_eq!(String::from_utf8_lossy(&new), expected);
        assert_eq!(with(&new, wanted), None);
        let gone = without(&new, &wanted.point).unwrap();
        assert_eq!(without(&gone, &wanted.point), None);
    }

    #[test]
    fn a_line_takes_the_place_of_the_old_ones_and_all_else_stays() {
        let wanted = entry("/mnt/a b", "ro");
        let line = "/dev/disk\\040one /mnt/a\\040b ext4 ro 0 2\n";
        becomes("", &wanted, line);
        becomes("# comment\nproc /proc proc", &wanted, &format!("# comment\nproc /proc proc\n{line}"));
        becomes(
            "a  /a\text4\n/dev/old /mnt//a\\040b/ xfs ro 0 0\n# /mnt/a\\040b\nb /b ext4\n\n/dev/x /mnt/a\\040b auto\n",
            &wanted,
            &format!("a  /a\text4\n{line}# /mnt/a\\040b\nb /b ext4\n\n"),
        );
        becomes("/dev/disk\\040one /mnt/a\\040b ext4 ro 0 x\n", &wanted, line);
    }

    #[test]
    fn a_line_that_means_the_same_is_left_as_it_is() {
        let wanted = entry("/mnt", "ro,size=1m");
        assert_eq!(with(b"/dev/disk\\040one\t/mnt/   ext4 size=1m,defaults,ro 0 2 # mine\n", &wanted), None);
        assert!(with(b"/dev/disk\\040one /mnt ext4 ro 0 2\n", &wanted).is_some());
        assert!(with(b"/dev/disk\\040one /mnt ext4 ro,size=1m\n", &wanted).is_some());
        let plain = Entry { freq: 0, passno: 0, ..entry("/mnt", "") };
        assert_eq!(with(b"/dev/disk\\040one /mnt ext4\n", &plain), None);
        assert_eq!(with(b"/dev/disk\\040one /mnt ext4 defaults", &plain), None);
    }

    #[test]
    fn strange_signs_survive() {
        let odd = Entry { device: b"#a\\b\tc".to_vec(), ..entry("/x\\040y", "") };
        assert!(Entry::read(&odd.written()).unwrap().is_as(&odd));
        assert_eq!(without(b"a /b c\n", b"/x"), None);
    }
}
