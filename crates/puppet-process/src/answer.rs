//! What the process answers, as data.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::Value;

use crate::seen::Seen;

/// A part of an answer; nothing where there is none, or where the answer is not made of parts.
pub(crate) fn taken(answer: &mut Value, part: &str) -> Value {
    answer.get_mut(part).map(Value::take).unwrap_or_default()
}

/// What a process says about itself when it has started.
#[derive(Clone, Debug, Deserialize)]
pub struct Hello {
    /// The version of the conversation.
    pub protocol: u32,
    /// The version of Puppet.
    pub puppet: String,
    /// The version of Ruby.
    pub ruby: String,
    /// Its file of settings, which need not be there.
    #[serde(default)]
    pub config: Option<PathBuf>,
    /// Why that file cannot be read. Puppet goes on as if there were none.
    #[serde(default)]
    pub mistake: Option<Raised>,
    /// What this host is called.
    pub certname: String,
    /// The environment that is used unless something else says otherwise.
    pub environment: String,
    /// Seconds between two runs of an agent.
    pub runinterval: u64,
    /// Where old contents of files are kept.
    pub bucket: PathBuf,
    /// Nothing is to be changed, unless a resource says otherwise.
    pub noop: bool,
    /// Only resources with one of these tags count; all of them, if there is none.
    pub tags: Vec<String>,
    /// Resources with one of these tags do not count.
    pub skip_tags: Vec<String>,
    /// Files with authorities that Puppet trusts for HTTPS, besides those of the host. They need not be there.
    #[serde(default)]
    pub authorities: Vec<PathBuf>,
    /// What Puppet fetches over HTTP comes through a proxy.
    #[serde(default)]
    pub proxied: bool,
    /// Schedules do not count.
    #[serde(default)]
    pub ignoreschedules: bool,
}

/// What went wrong in Ruby.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct Raised {
    pub(crate) message: String,
    pub(crate) file: Option<String>,
    pub(crate) line: Option<u32>,
    pub(crate) column: Option<u32>,
}

/// A compiled catalogue, and what it was made from.
#[derive(Debug, Deserialize)]
pub struct Compiled {
    /// The catalogue, in Puppet's own form with rich data.
    pub catalogue: Value,
    /// Automatic relations of types whose rules only their own Ruby knows.
    #[serde(default)]
    pub relations: Vec<Relation>,
    /// Absolute paths that resources make or edit, by reference; a resource of which its type could not tell is not in it. Nothing at all if
    /// Puppet's own types were not asked.
    #[serde(default)]
    pub paths: Option<BTreeMap<String, Vec<String>>>,
    /// What resources generate besides, where something is purged. Nothing for a resource that only tells when it is applied.
    #[serde(default)]
    pub generated: BTreeMap<String, Option<Generated>>,
    /// What was looked up in Puppet's data, by key: texts, numbers, and lists of them.
    #[serde(default)]
    pub lookups: BTreeMap<String, Value>,
    /// What is known of types that come from modules, by name.
    #[serde(default)]
    pub types: BTreeMap<String, TypeFacts>,
    /// Where each module is.
    #[serde(default)]
    pub modules: BTreeMap<String, PathBuf>,
    /// Where modules are looked for, in this order.
    #[serde(default)]
    pub modulepath: Vec<PathBuf>,
    /// What was read.
    #[serde(default)]
    pub files: Vec<PathBuf>,
    /// What was looked for and was not there.
    #[serde(default)]
    pub absent: Vec<PathBuf>,
    /// Directories of which every manifest was read.
    #[serde(default)]
    pub directories: Vec<PathBuf>,
    /// Directories with facts.
    #[serde(default)]
    pub fact_directories: Vec<PathBuf>,
    /// What was read, as it was, if that is known.
    #[serde(default)]
    pub seen: Option<Seen>,
    /// What Puppet said about it.
    #[serde(skip)]
    pub messages: Vec<Message>,
}

/// What a resource generates.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
pub struct Generated {
    /// Absolute paths that it makes or edits.
    pub paths: Vec<String>,
    /// Resources, by what names them, as the context of another one.
    #[serde(default)]
    pub resources: Vec<Value>,
}

/// What there is to know of a type.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
pub struct TypeFacts {
    /// It makes other resources, of what is in the catalogue.
    pub generates: bool,
    /// It is nothing by itself.
    pub passive: bool,
    /// Its Ruby writes no file.
    #[serde(default)]
    pub silent: bool,
    /// The directories of modules that its Ruby comes from; with a slash at the end, everything below counts.
    #[serde(default)]
    pub code: Vec<String>,
}

/// One thing happens before another.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
pub struct Relation {
    /// What comes first, as a reference.
    pub from: String,
    /// What comes later.
    pub to: String,
    /// A change of the first is told to the second.
    pub notify: bool,
}

/// Puppet's own order of a catalogue, with containers replaced by their beginning and end.
#[derive(Debug, Deserialize)]
pub struct Relations {
    /// Resources and the two ends of containers, by name.
    pub vertices: Vec<String>,
    /// From, to, and whether a change is told.
    pub edges: Vec<(String, String, bool)>,
}

/// What became of a resource.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
pub struct Applied {
    /// Something was changed.
    pub changed: bool,
    /// It could not be done.
    pub failed: bool,
    /// It was left alone, by a schedule for example.
    pub skipped: bool,
    /// Something would be changed.
    pub would_change: bool,
    /// What happened, property by property.
    pub messages: Vec<String>,
    /// What is other than before, or would be.
    pub changes: Vec<Change>,
    /// Why it failed.
    pub errors: Vec<String>,
    /// What there was to say besides.
    pub warnings: Vec<String>,
}

/// A property that is other than before.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
pub struct Change {
    /// Of which resource, as a reference: the one that was applied, or one that it has generated.
    pub resource: String,
    /// It is one that was generated.
    #[serde(default)]
    pub generated: bool,
    /// Which property.
    pub property: Option<String>,
    /// What it was, if it was there.
    pub before: Option<String>,
    /// What it is now, if it is there.
    pub after: Option<String>,
    /// It is a secret, and its values are not told.
    pub redacted: bool,
}

/// Something that Puppet says.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
pub struct Message {
    /// How much it matters: `debug`, `info`, `notice`, `warning`, `err` and beyond.
    pub level: String,
    /// What it is.
    pub message: String,
    /// Who says it.
    #[serde(default)]
    pub source: String,
    /// The file that it is about.
    pub file: Option<String>,
    /// The line, from 1.
    pub line: Option<u32>,
    /// The column, from 1.
    pub column: Option<u32>,
}

impl Message {
    /// Whether it is about something that went wrong. A fact that cannot be had is not: hosts differ.
    pub fn is_error(&self) -> bool {
        self.source != "Facter" && matches!(self.level.as_str(), "err" | "alert" | "emerg" | "crit")
    }

    /// The same with the place taken out of the text, and the name of the node, which is this one. A place in another file stays.
    #[must_use]
    pub(crate) fn located(mut self) -> Message {
        if let Some((text, node)) = self.message.rsplit_once(" on node ")
            && !node.contains(' ')
        {
            self.message.truncate(text.len());
        }
        let mut inner = String::new();
        while let Some(place) = Place::at_end(&self.message) {
            self.message.truncate(place.start);
            // What a manifest includes, a template for example, has a place of its own.
            if let Some((file, outer)) = place.file.as_ref().zip(self.file.as_ref())
                && file != outer
            {
                let number = |number: Option<u32>| number.map_or_else(String::new, |it| format!(":{it}"));
                inner = format!(" ({file}{}{}){inner}", number(place.line), number(place.column));
                continue;
            }
            self.file = self.file.or(place.file);
            self.line = self.line.or(place.line);
            self.column = self.column.or(place.column);
        }
        self.message.push_str(&inner);
        self
    }
}

/// ` (file: F, line: L, column: C)`, of which any part may be missing.
struct Place {
    start: usize,
    file: Option<String>,
    line: Option<u32>,
    column: Option<u32>,
}

impl Place {
    fn at_end(text: &str) -> Option<Place> {
        let inside = text.strip_suffix(')')?;
        let start = inside.rfind(" (file: ").or_else(|| inside.rfind(" (line: "))?;
        let mut rest = &inside[start + 2..];
        let mut place = Place { start, file: None, line: None, column: None };
        if let Some((before, column)) = rest.rsplit_once("column: ") {
            place.column = Some(column.parse().ok()?);
            rest = before.strip_suffix(", ").unwrap_or(before);
        }
        if let Some((before, line)) = rest.rsplit_once("line: ") {
            place.line = Some(line.parse().ok()?);
            rest = before.strip_suffix(", ").unwrap_or(before);
        }
        place.file = match rest.strip_prefix("file: ") {
            Some(file) => Some(file.to_owned()),
            None if rest.is_empty() => None,
            None => return None,
        };
        // Text in front may end in a comma that led to the place.
        place.start = text[..start].trim_end_matches(',').len();
        Some(place)
    }
}

/// A question that was answered with no.
#[derive(Clone, Debug, Default)]
pub struct Refused {
    /// Everything that is wrong, in Puppet's words.
    pub errors: Vec<Message>,
    /// What else Puppet said.
    pub messages: Vec<Message>,
    /// What was read before that.
    pub files: Vec<PathBuf>,
    /// What was looked for and was not there.
    pub absent: Vec<PathBuf>,
    /// Directories of which every manifest was read.
    pub directories: Vec<PathBuf>,
    /// What was read, as it was, if that is known.
    pub seen: Option<Seen>,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut errors = self.errors.iter();
        match errors.next() {
            Some(first) => f.write_str(&first.message)?,
            None => f.write_str("Puppet did not say why")?,
        }
        match errors.count() {
            0 => Ok(()),
            more => write!(f, " (and {more} more)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn located(text: &str) -> (String, Option<String>, Option<u32>, Option<u32>) {
        let message = Message { message: text.to_owned(), ..Message::default() }.located();
        (message.message, message.file, message.line, message.column)
    }

    #[test]
    fn a_place_at_the_end_is_taken_out_of_the_text() {
        assert_eq!(
            located("Syntax error at 'x' (file: /a b/c.pp, line: 2, column: 17) on node vm"),
            ("Syntax error at 'x'".into(), Some("/a b/c.pp".into()), Some(2), Some(17))
        );
        assert_eq!(
            located("no parameter named 'conent' (line: 1) on File[/tmp/x] (line: 1) on node vm"),
            ("no parameter named 'conent' (line: 1) on File[/tmp/x]".into(), None, Some(1), None)
        );
        assert_eq!(
            located("Evaluation Error: x, (file: /a.pp, line: 3) "),
            ("Evaluation Error: x, (file: /a.pp, line: 3) ".into(), None, None, None)
        );
        assert_eq!(
            located("Evaluation Error: x, (file: /a.pp, line: 3)"),
            ("Evaluation Error: x".into(), Some("/a.pp".into()), Some(3), None)
        );
        assert_eq!(
            located(
                "Invalid EPP: Syntax error at '}' (file: /t.epp, line: 3, column: 7) (file: /a.pp, line: 1, column: 36)"
            ),
            ("Invalid EPP: Syntax error at '}' (/t.epp:3:7)".into(), Some("/a.pp".into()), Some(1), Some(36))
        );
        assert_eq!(located("a (b)"), ("a (b)".into(), None, None, None));
        assert_eq!(located("a (line: b)"), ("a (line: b)".into(), None, None, None));
        assert_eq!(located(" (line: 5)"), ("".into(), None, Some(5), None));
    }
}
