//! The files in which debconf stores answers.
//!
//! A file is a list of records with a blank line behind each; a record is a list of lines with a name, a colon and a value. Lines that begin with a
//! blank belong to the variables of a question, which nobody here needs.

use mgmt_resource::{Error, Result};
use mgmt_sys::ManagedPath;
use mgmt_sys::replace::InPlace;
use mgmt_value::Str;

use crate::support::text_file::TextFile;

/// Answers to passwords are in the second one, and those to all other questions in the first one.
pub(super) const FILES: [&str; 2] = ["/var/cache/debconf/config.dat", "/var/cache/debconf/passwords.dat"];

/// What is stored about a question.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    /// Nothing if nobody has answered.
    pub(super) value: Option<Str>,
    /// The question counts as asked already.
    pub(super) seen: bool,
    /// The packages that ask.
    pub(super) owners: Vec<Str>,
    /// The answer is nobody's business.
    pub(super) is_private: bool,
}

/// What is stored about a question. Blocks.
pub(super) fn answer(question: &Str) -> Result<Option<Answer>> {
    for (path, is_private) in FILES.into_iter().zip([false, true]) {
        let path = ManagedPath::new(path).map_err(Error::new)?;
        let file = TextFile { path, owner: None, mode: 0o600, in_place: InPlace::Refuse };
        let text = file.read()?.unwrap_or_default();
        if let Some(answer) = find(&text, question) {
            return Ok(Some(Answer { is_private, ..answer }));
        }
    }
    Ok(None)
}

fn find(text: &[u8], question: &[u8]) -> Option<Answer> {
    let mut lines = text.split(|byte| *byte == b'\n');
    lines.find(|line| field(line).is_some_and(|(name, value)| name == b"Name" && value == question))?;
    let mut answer = Answer::default();
    for line in lines.take_while(|line| !line.is_empty()) {
        match field(line) {
            Some((b"Value", value)) => answer.value = Some(unescaped(value)),
            Some((b"Flags", value)) => answer.seen = words(value).any(|flag| flag == b"seen"),
            Some((b"Owners", value)) => answer.owners = words(value).map(Str::from).collect(),
            _ => {}
        }
    }
    Some(answer)
}

fn field(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = line.iter().position(|byte| *byte == b':')?;
    let value = &line[colon + 1..];
    Some((&line[..colon], value.strip_prefix(b" ").unwrap_or(value)))
}

fn words(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}

/// Line breaks are written as a backslash and an `n`.
fn unescaped(value: &[u8]) -> Str {
    let mut text = Vec::with_capacity(value.len());
    let mut rest = value;
    while let Some((first, behind)) = rest.split_first() {
        match rest.strip_prefix(b"\\n") {
            Some(behind) => {
                text.push(b'\n');
                rest = behind;
            }
            None => {
                text.push(*first);
                rest = behind;
            }
        }
    }
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"Name: a/b\nTemplate: a/b\nOwners: a\n\nName: tzdata/Areas\nTemplate: tzdata/Areas\nValue: Europe\n\
                          Owners: d-i, tzdata\nFlags: seen\nVariables:\n Value = no\n Name: a/c\n\n\
                          Name: x/empty\nTemplate: x\nValue:\nFlags: other\n\nName: x/lines\nValue: a\\nb\\\\";

    #[test]
    fn what_is_stored_is_found() {
        let found = |question: &str| find(TEXT, question.as_bytes());
        let areas = found("tzdata/Areas").unwrap();
        assert_eq!((areas.value, areas.seen), (Some("Europe".into()), true));
        assert_eq!(areas.owners, ["d-i", "tzdata"].map(Str::from));
        let unanswered = found("a/b").unwrap();
        assert_eq!((unanswered.value, unanswered.seen), (None, false));
        assert_eq!(found("x/empty").unwrap().value, Some("".into()));
        assert!(!found("x/empty").unwrap().seen);
        assert_eq!(found("x/lines").unwrap().value, Some("a\nb\\\\".into()));
        for missing in ["a/c", "tzdata", "", "a"] {
            assert_eq!(found(missing), None, "{missing}");
        }
    }
}
