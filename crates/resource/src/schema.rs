//! The schema: the one description of a kind that everything else reads.

use std::any::Any;
use std::fmt;

use mgmt_value::{Mismatch, Type, Value};

use crate::Resource;

/// One field: of a kind, of what a kind sends, or of the metaparameters.
pub struct FieldSpec {
    /// Its name in mcl and YAML.
    pub name: &'static str,
    /// Other names that are accepted, oldest last.
    pub aliases: &'static [&'static str],
    /// Its type.
    pub ty: fn() -> Type,
    /// Unset differs from every value.
    pub optional: bool,
    /// Its doc comment.
    pub doc: &'static str,
    /// Its content must never be shown.
    pub secret: bool,
    /// Reads it.
    pub get: fn(&dyn Any) -> Value,
    /// Stores it.
    pub set: fn(&mut dyn Any, &Value) -> Result<(), Mismatch>,
}

impl fmt::Debug for FieldSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, (self.ty)())
    }
}

/// A struct whose fields are described. Derived, never written by hand.
pub trait Fields: Default + Any {
    /// The fields in order of declaration.
    const FIELDS: &'static [FieldSpec];

    /// Looks a field up by name or alias, whatever its case.
    fn field(name: &str) -> Option<&'static FieldSpec> {
        find_field(Self::FIELDS, name)
    }
}

/// Sends nothing.
#[derive(Clone, Debug, Default)]
pub struct Nothing;

impl Fields for Nothing {
    const FIELDS: &'static [FieldSpec] = &[];
}

/// The derived half of a kind.
pub trait Declared: Fields {
    /// What the derive gathered.
    const KIND: &'static str;
    /// The doc comment of the struct.
    const DOC: &'static str;
    /// The source file, for the reference pages.
    const FILE: &'static str;
    /// The traits that the attribute lists.
    const TRAITS: Traits;
}

/// What a kind can do beyond check and apply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traits {
    /// Takes part in automatic edges.
    pub edges: bool,
    /// May be grouped with others of its family.
    pub group: bool,
    /// A group is served by one call for all members instead of one each.
    pub batch: bool,
    /// Reacts to a notification.
    pub refresh: bool,
    /// Sends values.
    pub send: bool,
    /// Is made to receive values. Every kind may; this one says so in its reference page.
    pub receive: bool,
    /// Can be reversed.
    pub reverse: bool,
    /// Can be asked about by its own kind.
    pub query: bool,
    /// Its check and apply are system calls that block for a short time, and never await.
    pub blocking: bool,
    /// Has a worker of its own while at least one resource of the kind is in the graph.
    pub background: bool,
}

/// Everything there is to know about a kind.
pub struct Schema {
    /// The kind's name.
    pub kind: &'static str,
    /// Its doc comment.
    pub doc: &'static str,
    /// The source file.
    pub file: &'static str,
    /// Its parameters.
    pub fields: &'static [FieldSpec],
    /// The values that it sends.
    pub sends: &'static [FieldSpec],
    /// What it can do.
    pub traits: Traits,
    /// Makes one with default parameters.
    pub make: fn() -> Box<dyn Resource>,
}

impl Schema {
    /// Looks a parameter up by name or alias.
    pub fn field(&self, name: &str) -> Option<&'static FieldSpec> {
        find_field(self.fields, name)
    }

    /// Looks a sent value up.
    pub fn sent(&self, name: &str) -> Option<&'static FieldSpec> {
        find_field(self.sends, name)
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Schema({})", self.kind)
    }
}

fn find_field(fields: &'static [FieldSpec], name: &str) -> Option<&'static FieldSpec> {
    let same = |candidate: &str| candidate.eq_ignore_ascii_case(name);
    fields.iter().find(|field| field.name == name).or_else(|| {
        fields.iter().find(|field| same(field.name) || field.aliases.iter().any(|alias| same(alias)))
    })
}

/// The kinds that a program may use.
#[derive(Clone, Copy, Debug)]
pub struct Registry {
    kinds: &'static [fn() -> &'static Schema],
}

impl Registry {
    /// A registry of these kinds.
    pub const fn new(kinds: &'static [fn() -> &'static Schema]) -> Registry {
        Registry { kinds }
    }

    /// All schemas, in the order of the list.
    pub fn schemas(&self) -> impl Iterator<Item = &'static Schema> {
        self.kinds.iter().map(|schema| schema())
    }

    /// Looks a kind up.
    pub fn get(&self, kind: &str) -> Option<&'static Schema> {
        self.schemas().find(|schema| schema.kind == kind)
    }

    /// The kind that was probably meant. Kinds that start with an underscore are not for people.
    pub fn suggest(&self, kind: &str) -> Option<&'static str> {
        let candidates = self.schemas().map(|schema| schema.kind).filter(|candidate| {
            // `dhcp:server` is no misspelt `http:server`: each part has to be close by itself.
            let parts = || kind.split(':').zip(candidate.split(':'));
            let are_close = parts().all(|(part, other)| did_you_mean(part, [other].into_iter()).is_some());
            !candidate.starts_with('_')
                && (are_close || kind.split(':').count() != candidate.split(':').count())
        });
        did_you_mean(kind, candidates)
    }
}

/// The candidate closest to a misspelt word, if one is close enough to be worth saying.
pub fn did_you_mean<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let letters: Vec<char> = word.chars().flat_map(char::to_lowercase).take(LETTERS).collect();
    let mut limit = (letters.len() / 3).max(1);
    let mut best = None;
    let mut other = Vec::with_capacity(LETTERS);
    for candidate in candidates {
        other.clear();
        other.extend(candidate.chars().flat_map(char::to_lowercase).take(LETTERS));
        // Each letter more or less is an edit.
        if other.len().abs_diff(letters.len()) > limit {
            continue;
        }
        let distance = distance(&letters, &other);
        if distance <= limit {
            best = Some(candidate);
            // Of equally near ones the first.
            let Some(nearer) = distance.checked_sub(1) else { break };
            limit = nearer;
        }
    }
    best
}

/// How many letters of a word are looked at.
const LETTERS: usize = 64;

/// Edits between two words of at most [`LETTERS`] letters; swapping two neighbours is one edit.
fn distance(a: &[char], b: &[char]) -> usize {
    let (mut before, mut last, mut row) = ([0; LETTERS + 1], [0; LETTERS + 1], [0; LETTERS + 1]);
    for (index, edits) in last.iter_mut().enumerate() {
        *edits = index;
    }
    for i in 1..=a.len() {
        row[0] = i;
        for j in 1..=b.len() {
            let cost = usize::from(a[i - 1] != b[j - 1]);
            row[j] = (last[j] + 1).min(row[j - 1] + 1).min(last[j - 1] + cost);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        (before, last, row) = (last, row, before);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_near_miss_is_suggested_and_a_far_one_is_not() {
        let words = || ["content", "source", "state", "mode"].into_iter();
        assert_eq!(did_you_mean("contnet", words()), Some("content"));
        assert_eq!(did_you_mean("Mode", words()), Some("mode"));
        assert_eq!(did_you_mean("owner", words()), None);
        // The nearest, and of equally near ones the first.
        assert_eq!(did_you_mean("mod", ["mood", "mode", "mod1"].into_iter()), Some("mood"));
        assert_eq!(
            did_you_mean("somewhere", ["somewhat", "somewher", "someware"].into_iter()),
            Some("somewher")
        );
        assert_eq!(
            did_you_mean(&"x".repeat(100), [&*"x".repeat(99), ""].into_iter()),
            Some(&*"x".repeat(99))
        );
    }
}
