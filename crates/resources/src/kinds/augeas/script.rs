//! What `augtool` is told: commands, one a line, and how a text is written in them.
//!
//! Invariants
//! - A text that is written here is one word of one command, whatever is in it, and is read as exactly this text. What no word can
//!   be is refused, before anything is started.
//! - Behind each step stands a mark, on both outputs. What is told between two marks belongs to the step between them.
//!
//! The reader of commands is an editor of lines: a control character is a key to it. A tab and the end of a line have names, and the
//! others are refused. In a path it counts brackets, also those in quotes, and so only those that are balanced can be told.

use super::{Augeas, AugeasInsert, AugeasSet};

/// The file in the root that `augtool` is given.
pub(super) const TEXT: &str = "text";
/// The tree that is made of it.
pub(super) const TREE: &str = "/files/text";
/// No command, and no node: both are told, the one as an error and the other as an answer.
pub(super) const MARK: &str = "mgmt-mark";

/// What a part of the commands does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Step<'a> {
    /// Nothing: it shows what a mark looks like.
    Begin,
    /// Reads the file.
    Load,
    Remove(&'a [u8]),
    Insert(&'a AugeasInsert),
    Clear(&'a [u8]),
    Set(&'a AugeasSet),
    /// Writes the file.
    Save,
}

/// A text cannot be told, for this reason.
#[derive(Debug, PartialEq)]
pub(super) struct Inexpressible(pub(super) &'static str);

/// All that is to be done, in this order.
pub(super) fn steps(declared: &Augeas) -> Vec<Step<'_>> {
    let mut steps = vec![Step::Begin, Step::Load];
    steps.extend(declared.rm.iter().map(|path| Step::Remove(path)));
    steps.extend(declared.ins.iter().map(Step::Insert));
    steps.extend(declared.clear.iter().map(|path| Step::Clear(path)));
    steps.extend(declared.sets.iter().map(Step::Set));
    steps.push(Step::Save);
    steps
}

impl Step<'_> {
    /// Adds its commands, and the mark behind them.
    pub(super) fn write(&self, lens: &[u8], script: &mut Vec<u8>) -> Result<(), Inexpressible> {
        match self {
            Step::Begin => {}
            Step::Load => {
                command(script, &[b"set", b"/augeas/context", TREE.as_bytes()]);
                command(script, &[b"transform", &value(lens)?, b"incl", b"/text"]);
                command(script, &[b"load"]);
                command(script, &[b"print", b"/augeas//error"]);
            }
            Step::Remove(at) => command(script, &[b"rm", &path(at)?]),
            Step::Clear(at) => command(script, &[b"clear", &path(at)?]),
            Step::Set(set) => command(script, &[b"set", &path(&set.path)?, &value(&set.value)?]),
            Step::Insert(insert) => insert.write(script)?,
            Step::Save => {
                command(script, &[b"save"]);
                command(script, &[b"print", b"/augeas//error"]);
            }
        }
        command(script, &[b"get", format!("/{MARK}").as_bytes()]);
        command(script, &[MARK.as_bytes()]);
        Ok(())
    }
}

impl AugeasInsert {
    /// Nobody can be asked in between. So the node beside it is one that is only there if there is nothing of `unless`, and the
    /// answer tells which of the two it was. Not the nodes themselves are shown, in which anything may be.
    fn write(&self, script: &mut Vec<u8>) -> Result<(), Inexpressible> {
        let place: &[u8] = if self.before { b"before" } else { b"after" };
        if self.unless.is_empty() {
            command(script, &[b"ins", &value(&self.label)?, place, &path(&self.path)?]);
            return Ok(());
        }
        command(script, &[b"defvar", b"there", &path(&self.unless)?]);
        command(script, &[b"match", b"\"/augeas/version[count($there) > 0]\""]);
        command(script, &[b"defvar", b"beside", &path(&self.path)?]);
        command(script, &[b"ins", &value(&self.label)?, place, b"\"$beside[count($there) = 0]\""]);
        Ok(())
    }
}

fn command(script: &mut Vec<u8>, words: &[&[u8]]) {
    script.extend(words.join(&b' '));
    script.push(b'\n');
}

/// A path of the declaration as a word. It begins below the tree however it begins. What stands behind a `|` begins there, too,
/// because the tree is the context.
pub(super) fn path(path: &[u8]) -> Result<Vec<u8>, Inexpressible> {
    let path = path.trim_ascii();
    let slash: &[u8] = if path.starts_with(b"/") { b"" } else { b"/" };
    let mut word = [b"\"", TREE.as_bytes(), slash].concat();
    let mut open = 0_usize;
    let mut bytes = path.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            b'[' => open += 1,
            b']' => open = open.checked_sub(1).ok_or(UNBALANCED)?,
            _ => {}
        }
        match (byte, bytes.peek()) {
            // The one pair that is taken as it is, and not counted.
            (b'\\', Some(b'[' | b']')) => {
                word.push(byte);
                word.extend(bytes.next());
            }
            _ => push(&mut word, byte)?,
        }
    }
    if open > 0 {
        return Err(UNBALANCED);
    }
    // A slash at the end is thrown away, also if it is the end of a name.
    if path.ends_with(b"\\/") {
        return Err(Inexpressible("augtool cannot be told of a name that ends with a slash"));
    }
    word.push(b'"');
    Ok(word)
}

const UNBALANCED: Inexpressible =
    Inexpressible("augtool takes brackets in pairs, also those in quotes, and here one is missing");

/// A value or the name of a node as a word.
pub(super) fn value(text: &[u8]) -> Result<Vec<u8>, Inexpressible> {
    let mut word = vec![b'"'];
    text.iter().try_for_each(|byte| push(&mut word, *byte))?;
    word.push(b'"');
    Ok(word)
}

fn push(word: &mut Vec<u8>, byte: u8) -> Result<(), Inexpressible> {
    match byte {
        b'\\' | b'"' => word.extend([b'\\', byte]),
        b'\t' => word.extend(b"\\t"),
        b'\n' => word.extend(b"\\n"),
        0..0x20 | 0x7f => {
            return Err(Inexpressible("augtool cannot be told of a control character but tab and newline"));
        }
        _ => word.push(byte),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How `augtool` reads a word of a path, or of a value.
    fn read(word: &[u8], is_path: bool) -> Option<Vec<u8>> {
        let (mut text, mut quoted, mut open) = (Vec::new(), false, 0);
        let mut bytes = word.iter().copied().peekable();
        while let Some(byte) = bytes.next() {
            match byte {
                b'\\' => match bytes.next()? {
                    bracket @ (b'[' | b']') => text.extend([b'\\', bracket]),
                    b't' => text.push(b'\t'),
                    b'n' => text.push(b'\n'),
                    plain @ (b'\\' | b'"') => text.push(plain),
                    _ => return None,
                },
                b'"' if !is_path || open == 0 => quoted = !quoted,
                byte => {
                    open += i32::from(byte == b'[') - i32::from(byte == b']');
                    if (is_path && open < 0) || !quoted || byte == b'\n' {
                        return None;
                    }
                    text.push(byte);
                }
            }
        }
        (!quoted && (open == 0 || !is_path)).then_some(text)
    }

    #[test]
    fn every_text_is_one_word_that_is_read_as_it_was_or_is_refused() {
        let letters = br#"\"'[]/|=(), #$a	
"#;
        // All texts of up to four of these.
        let mut texts = vec![Vec::new()];
        for at in 0..3000 {
            let text: Vec<u8> = texts[at].clone();
            texts.extend(letters.iter().map(|letter| [&text[..], &[*letter]].concat()));
        }
        let (mut told, mut refused) = (0, 0);
        for text in &texts {
            assert_eq!(read(&value(text).unwrap(), false).as_ref(), Some(text));
            let trimmed = text.trim_ascii();
            let slash: &[u8] = if trimmed.starts_with(b"/") { b"" } else { b"/" };
            let Ok(word) = path(text) else {
                refused += 1;
                continue;
            };
            told += 1;
            let wanted = [TREE.as_bytes(), slash, trimmed].concat();
            assert_eq!(read(&word, true), Some(wanted), "{:?}", text.escape_ascii().to_string());
        }
        assert!(told > 10_000 && refused > 1000, "{told} {refused}");
    }

    #[test]
    fn keys_are_refused() {
        for key in (0..0x20).chain([0x7f]).filter(|key| !b"\t\n".contains(key)) {
            assert!(value(&[b'a', key]).unwrap_err().0.contains("control"), "{key}");
            assert!(path(&[b'a', key, b'b']).unwrap_err().0.contains("control"), "{key}");
        }
        assert_eq!(value("é".as_bytes()).unwrap(), "\"é\"".as_bytes());
        assert_eq!(path(b"a[. = 'b]']"), Err(UNBALANCED));
        assert!(path(b"a\\/").is_err());
    }
}
