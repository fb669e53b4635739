//! Makes sure that formatting changed nothing that matters.

use crate::{
    Source,
    kind::SyntaxKind::{self, *},
    tree::Item,
};

/// The formatted text parses to the same tree with the same comments.
pub(super) fn same_meaning(before: &Source<'_>, formatted: &str) -> bool {
    let after = Source::new(formatted);
    super::is_well_formed(&after)
        && comments(before).eq(comments(&after))
        && Steps::new(before).eq(Steps::new(&after))
}

fn comments<'s>(source: &'s Source<'_>) -> impl Iterator<Item = &'s str> {
    let lexed = &source.lexed;
    (0..lexed.len()).filter(|raw| lexed.kind(*raw) == Comment).map(|raw| lexed.text_of(raw))
}

/// One step of the walk over what a program means.
#[derive(PartialEq, Debug)]
enum Step<'s> {
    Enter(SyntaxKind),
    Leave,
    Token(SyntaxKind, &'s str),
    Integer(Option<i64>),
    Float(Option<f64>),
}

/// Walks a tree without what may differ: separators, the spelling of numbers, the `map` of a map type.
struct Steps<'s> {
    source: &'s Source<'s>,
    at: usize,
    ends: Vec<u32>,
}

impl<'s> Steps<'s> {
    fn new(source: &'s Source<'s>) -> Self {
        Steps { source, at: 0, ends: Vec::new() }
    }

    fn text(&self, index: u32) -> &'s str {
        self.source.lexed.text_of(self.source.lexed.significant[index as usize].raw)
    }

    /// A number is compared by its value, and the walk goes on behind it.
    fn number(&mut self, end: u32) -> Option<Step<'s>> {
        let tokens = &self.source.tree.items[self.at + 1..end as usize];
        let (Item::Token { index: first, .. }, Item::Token { index: last, kind }) =
            (tokens.first()?, tokens.last()?)
        else {
            return None;
        };
        let negative = first != last;
        let digits = self.text(*last);
        let step = match kind {
            // Parsed with the sign, since the least integer has no positive counterpart.
            Integer if negative => Step::Integer(format!("-{digits}").parse().ok()),
            Integer => Step::Integer(digits.parse().ok()),
            Float => Step::Float(digits.parse().ok().map(|value: f64| if negative { -value } else { value })),
            _ => return None,
        };
        self.at = end as usize;
        Some(step)
    }
}

impl<'s> Iterator for Steps<'s> {
    type Item = Step<'s>;

    fn next(&mut self) -> Option<Step<'s>> {
        loop {
            if self.ends.last().is_some_and(|&end| end as usize <= self.at) {
                self.ends.pop();
                return Some(Step::Leave);
            }
            match *self.source.tree.items.get(self.at)? {
                Item::Node { kind: Literal, end } => {
                    if let Some(number) = self.number(end) {
                        return Some(number);
                    }
                    self.ends.push(end);
                    self.at += 1;
                    return Some(Step::Enter(Literal));
                }
                Item::Node { kind, end } => {
                    self.ends.push(end);
                    self.at += 1;
                    return Some(Step::Enter(kind));
                }
                Item::Token { kind: Comma | Semicolon | MapKw, .. } => self.at += 1,
                Item::Token { kind, index } => {
                    self.at += 1;
                    return Some(Step::Token(kind, self.text(index)));
                }
            }
        }
    }
}
