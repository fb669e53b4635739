//! Entries of a list of keys.

use mgmt_value::Str;

use super::base64::{decode, encode};

/// One entry.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    options: Vec<Vec<u8>>,
    kind: Vec<u8>,
    /// The key as bytes, by which an entry is known.
    blob: Vec<u8>,
    pub(super) comment: Vec<u8>,
}

impl Entry {
    /// Reads an entry that a person has declared.
    pub(super) fn read(text: &Str) -> Result<Entry, String> {
        let line = text.trim_ascii();
        if line.iter().any(|byte| b"\n\r\0".contains(byte)) {
            return Err("expected one entry, found more than one line".into());
        }
        if line.is_empty() {
            return Err("expected an entry, found nothing".into());
        }
        if line.starts_with(b"#") {
            return Err("expected an entry, found a comment line".into());
        }
        let entry = Entry::parse(line).ok_or(
            "expected options, if any, and then a type such as `ssh-ed25519`, the key in base64, and a comment, if any; a \
             character may be missing",
        )?;
        let is_right = |option: &Vec<u8>| check_option(option).is_ok();
        if entry.options.iter().all(is_right) {
            Ok(entry)
        } else {
            Err("has an option that is not well-formed".into())
        }
    }

    /// Makes an entry of its parts. On failure names the part.
    pub(super) fn of(
        options: &[Str],
        kind: &Str,
        key: &Str,
        comment: &Str,
    ) -> Result<Entry, (&'static str, String)> {
        for option in options {
            check_option(option).map_err(|why| ("options", format!("{option:?} is no option: {why}")))?;
        }
        let blob = decode(key).filter(|blob| is_whole(blob));
        let blob = blob.ok_or(("key", "is no key in base64; a character may be missing".to_owned()))?;
        if kind_of(&blob) != Some(kind) {
            let found = Str::new(kind_of(&blob).unwrap_or_default());
            return Err(("type", format!("is {kind:?}, but the key says that it is {found:?}")));
        }
        if comment.iter().any(u8::is_ascii_control) {
            return Err(("comment", "has a control character".into()));
        }
        let comment = comment.trim_ascii().to_vec();
        Ok(Entry {
            options: options.iter().map(|option| option.to_vec()).collect(),
            kind: kind.to_vec(),
            blob,
            comment,
        })
    }

    /// The entry as a line, without its end.
    pub(super) fn line(&self) -> Vec<u8> {
        let mut line = self.options.join(&b","[..]);
        if !line.is_empty() {
            line.push(b' ');
        }
        line.extend_from_slice(&self.kind);
        line.push(b' ');
        line.extend_from_slice(encode(&self.blob).as_bytes());
        if !self.comment.is_empty() {
            line.push(b' ');
            line.extend_from_slice(&self.comment);
        }
        line
    }

    /// The text with the entry in it. Nothing if it is there already, and only once.
    pub(super) fn put_into(&self, text: &[u8]) -> Option<Vec<u8>> {
        let mut new = Vec::with_capacity(text.len() + 1024);
        let (mut found, mut changed) = (false, false);
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            match Entry::parse(line).filter(|entry| entry.blob == self.blob) {
                None => new.extend_from_slice(line),
                // The first one counts, and a second one could allow more.
                Some(_) if found => changed = true,
                Some(entry) => {
                    found = true;
                    if self.is_fulfilled_by(&entry) {
                        new.extend_from_slice(line);
                    } else {
                        let comment =
                            if self.comment.is_empty() { entry.comment } else { self.comment.clone() };
                        new.extend(Entry { comment, ..self.clone() }.line());
                        new.extend_from_slice(&line[line.trim_ascii_end().len()..]);
                        changed = true;
                    }
                }
            }
        }
        if found {
            return changed.then_some(new);
        }
        let end: &[u8] = if text.split(|byte| *byte == b'\n').next().is_some_and(|line| line.ends_with(b"\r"))
        {
            b"\r\n"
        } else {
            b"\n"
        };
        if !text.is_empty() && !text.ends_with(b"\n") {
            new.extend_from_slice(end);
        }
        new.extend(self.line());
        new.extend_from_slice(end);
        Some(new)
    }

    /// The text without the key. Nothing if it is nowhere in it.
    pub(super) fn removed_from(&self, text: &[u8]) -> Option<Vec<u8>> {
        let lines = text.split_inclusive(|byte| *byte == b'\n');
        let is_other = |line: &&[u8]| Entry::parse(line).is_none_or(|entry| entry.blob != self.blob);
        let new = lines.filter(is_other).collect::<Vec<_>>().concat();
        (new.len() != text.len()).then_some(new)
    }

    fn is_fulfilled_by(&self, other: &Entry) -> bool {
        self.options == other.options
            && self.kind == other.kind
            && (self.comment.is_empty() || self.comment == other.comment)
    }

    /// Reads a line as `sshd` does. Nothing if it is no entry.
    fn parse(line: &[u8]) -> Option<Entry> {
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with(b"#") {
            return None;
        }
        if let Some((kind, blob, comment)) = parse_key(line) {
            return Some(Entry { options: Vec::new(), kind, blob, comment });
        }
        let (options, rest) = split_options(line)?;
        let (kind, blob, comment) = parse_key(rest.trim_ascii_start())?;
        Some(Entry { options, kind, blob, comment })
    }
}

/// Type, key and comment, if the text begins with a type and a key of that type.
fn parse_key(text: &[u8]) -> Option<(Vec<u8>, Vec<u8>, Vec<u8>)> {
    let (kind, rest) = word(text)?;
    let (key, comment) = word(rest.trim_ascii_start())?;
    let blob = decode(key).filter(|blob| is_whole(blob) && kind_of(blob) == Some(kind))?;
    Some((kind.to_vec(), blob, comment.trim_ascii().to_vec()))
}

fn word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = text.iter().position(|byte| b" \t".contains(byte)).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

/// The options, and what follows them. Blanks and commas in quotes belong to an option, and a quote after a backslash to what
/// is quoted.
fn split_options(text: &[u8]) -> Option<(Vec<Vec<u8>>, &[u8])> {
    let mut options = vec![Vec::new()];
    let (mut quoted, mut escaped) = (false, false);
    for (position, byte) in text.iter().enumerate() {
        match byte {
            b'"' if !escaped => quoted = !quoted,
            b' ' | b'\t' if !quoted => return Some((options, &text[position..])),
            b',' if !quoted => {
                options.push(Vec::new());
                continue;
            }
            _ => {}
        }
        escaped = *byte == b'\\' && !escaped;
        options.last_mut()?.push(*byte);
    }
    None
}

/// Checks that an option is one option, and stays one in a line.
fn check_option(option: &[u8]) -> Result<(), &'static str> {
    if option.is_empty() {
        return Err("it is empty");
    }
    if option.iter().any(u8::is_ascii_control) {
        return Err("it has a control character");
    }
    match split_options(&[option, b" "].concat()) {
        Some((options, b" ")) if options.len() == 1 => Ok(()),
        Some((_, b" ")) => Err("it has a comma outside of quotes; write several options as several"),
        Some(_) => Err("it has a blank outside of quotes"),
        None => Err("a quote is missing"),
    }
}

/// The type that the key itself says it has.
fn kind_of(blob: &[u8]) -> Option<&[u8]> {
    part(blob).map(|(kind, _)| kind).filter(|kind| !kind.is_empty())
}

/// Whether nothing is cut off: a key is a sequence of parts, each with its length. Certificates have others, too.
fn is_whole(blob: &[u8]) -> bool {
    let Some((kind, mut rest)) = part(blob) else { return false };
    if kind.windows(6).any(|window| window == b"-cert-") {
        return !rest.is_empty();
    }
    let mut parts = 0;
    while !rest.is_empty() {
        match part(rest) {
            Some((_, after)) => rest = after,
            None => return false,
        }
        parts += 1;
    }
    parts > 0
}

fn part(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    rest.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A key of the type `ssh-ed25519`, and another one.
    pub(in super::super) const RAW: &str =
        "AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f";
    pub(in super::super) const OTHER: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIP/+/fz7+vn49/b19PPy8fDv7u3s6+rp6Ofm5eTj4uHg other";

    fn entry(text: &str) -> Entry {
        Entry::read(&text.into()).unwrap()
    }

    #[test]
    fn entries_are_read_with_and_without_options() {
        let plain = entry(&format!("  ssh-ed25519   {RAW}\tjoe at home \n"));
        assert_eq!(plain.line(), format!("ssh-ed25519 {RAW} joe at home").as_bytes());
        let options = format!("no-pty,command=\"echo \\\"a, b\\\"\",from=\"a,b\" ssh-ed25519 {RAW}");
        let read = entry(&options);
        assert_eq!(read.options.len(), 3);
        assert_eq!(read.line(), options.as_bytes());
        assert_eq!(read.blob, plain.blob);
    }

    #[test]
    fn what_is_no_entry_is_refused() {
        let key = format!("ssh-ed25519 {RAW}");
        for wrong in [
            "".to_owned(),
            "# ssh-ed25519".to_owned(),
            "ssh-ed25519".to_owned(),
            format!("ssh-rsa {RAW}"),
            format!("ssh-ed25519 {}", &RAW[..64]),
            format!("no-pty, {key}"),
            format!("from=\"a {key}"),
            format!("{key}\n{key}"),
            format!("{key}\0"),
        ] {
            assert!(Entry::read(&wrong.as_str().into()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_entry_is_added_changed_and_removed_by_its_key() {
        let wanted = entry(&format!("no-pty ssh-ed25519 {RAW} joe"));
        let line = String::from_utf8(wanted.line()).unwrap();
        let put = |text: &str| wanted.put_into(text.as_bytes()).map(|new| String::from_utf8(new).unwrap());
        assert_eq!(put(""), Some(format!("{line}\n")));
        assert_eq!(put("# a\n"), Some(format!("# a\n{line}\n")));
        assert_eq!(put(OTHER), Some(format!("{OTHER}\n{line}\n")));
        assert_eq!(put(&format!("{OTHER}\r\n")), Some(format!("{OTHER}\r\n{line}\r\n")));
        assert_eq!(put(&format!("{line}\n{OTHER}")), None);
        assert_eq!(put(&line), None);
        // Other options, another comment, and once too often.
        assert_eq!(put(&format!("ssh-ed25519 {RAW} jim\n{OTHER}\n")), Some(format!("{line}\n{OTHER}\n")));
        assert_eq!(put(&format!("{line}\n{OTHER}\nssh-ed25519 {RAW}")), Some(format!("{line}\n{OTHER}\n")));
        // A line that is commented out is none.
        assert_eq!(put(&format!("#{line}\n")), Some(format!("#{line}\n{line}\n")));
        let removed =
            |text: &str| wanted.removed_from(text.as_bytes()).map(|new| String::from_utf8(new).unwrap());
        assert_eq!(
            removed(&format!("ssh-ed25519 {RAW}\n{OTHER}\n{line}\n# {line}")),
            Some(format!("{OTHER}\n# {line}"))
        );
        assert_eq!(removed(OTHER), None);
        assert_eq!(removed(""), None);
    }

    #[test]
    fn a_comment_that_is_not_declared_stays() {
        let wanted = entry(&format!("ssh-ed25519 {RAW}"));
        assert_eq!(wanted.put_into(format!("ssh-ed25519 {RAW} jim\n").as_bytes()), None);
        let text = format!("no-pty ssh-ed25519 {RAW} jim\n");
        assert_eq!(wanted.put_into(text.as_bytes()), Some(format!("ssh-ed25519 {RAW} jim\n").into_bytes()));
    }

    #[test]
    fn no_text_makes_it_stumble() {
        let wanted = entry(&format!("no-pty ssh-ed25519 {RAW} joe"));
        let line = String::from_utf8(wanted.line()).unwrap();
        for end in 0..line.len() {
            for text in [&line[..end], &line[end..]] {
                let new = wanted.put_into(text.as_bytes()).unwrap_or_else(|| text.into());
                assert_eq!(wanted.put_into(&new), None, "{text}");
                assert_eq!(wanted.removed_from(&wanted.removed_from(&new).unwrap()), None, "{text}");
            }
        }
        for strange in [
            &b"\xff \xfe"[..],
            b"\"",
            b"a\\",
            b",,,, ssh-rsa",
            b"ssh-rsa AAAA",
            b"x AAAAAAAA",
            b"x //////////8=",
        ] {
            assert!(wanted.put_into(strange).is_some_and(|new| new.starts_with(strange)));
        }
    }
}
