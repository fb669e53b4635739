//! The mcl language as text: lexer, lossless parser, typed tree, formatter.
//!
//! The central type is [`Parse`]: the tree of a text together with everything that is wrong with the text. [`parse`]
//! never fails. [`ast`] looks at the tree as typed nodes, [`format()`] writes it in its canonical form, [`LineIndex`]
//! turns offsets into lines and columns, and [`StringPiece`] is what stands between the quotes of a string.
//!
//! ```
//! let parse = mgmt_syntax::parse("$x = [1, 2\n");
//! assert_eq!(parse.syntax().to_string(), "$x = [1, 2\n");
//! assert_eq!(parse.errors()[0].to_string(), "expected `]`, found the end of the file");
//! assert_eq!(mgmt_syntax::format("$x=[1,2,]").unwrap(), "$x = [1, 2]\n");
//! ```
//!
//! # Invariants
//!
//! * The tree is lossless: its text is the text that was parsed, for every input.
//! * A node other than the whole file neither starts nor ends with trivia, so its range is exact.
//! * One mistake gives one error, and independent mistakes are all reported (up to a few hundred).
//! * Constructs nest [`MAX_DEPTH`] deep and no deeper; each level is at most three nodes. [`parse`], [`format()`] and
//!   dropping a tree are safe on any stack of 2 MiB. Who walks a tree by recursion does so in [`with_deep_stack`].
//! * Time is linear in the length of the text, also for garbage.
//! * The formatter changes nothing but trivia, optional commas, the spelling of numbers, and `{K: V}` to
//!   `map{K: V}`. It checks that for every text that it formats. What it writes it leaves alone the next time.
//!
//! # The language
//!
//! What is accepted is more than what is canonical: trailing commas are optional, a block may stand on one line,
//! newlines may stand inside brackets and around operators, and a few more; [`LeniencyKind`] is the whole list, and
//! each use is recorded in [`Parse::leniencies`].
//!
//! A newline ends a statement. Inside any bracket pair, and so inside every body that holds an expression, newlines
//! mean nothing. At statement level an expression goes on over a newline that stands after a binary operator, or before
//! one: no statement starts with an operator. Two things at the start of a line never continue what is before
//! it, not even inside brackets, because they are far more often an element whose comma was forgotten: a number
//! with a minus glued to it, and an opening bracket. `else` and the `{` of a block stand on the line of what they follow.
//!
//! After a complete operand a minus is an operator, also when it touches the number behind it. `in` is a name behind
//! a `$` and nowhere else. A brace where a type may stand opens a map type; between the parentheses and the body
//! of a function it does so only if a simple type and a colon follow.
//!
//! # What is deliberately absent
//!
//! No names are resolved, nothing is checked against a type, no sugar is expanded, and no file is read: this crate
//! knows text alone. There is no way to change a tree; edits are made to the text.

pub mod ast;
mod codes;
mod error;
mod format;
mod kind;
mod leniency;
mod lexer;
mod line_index;
mod node;
mod parser;
mod stack;
mod string;
mod tree;

pub use codes::CODES;
pub use error::{Code, Label, SyntaxError};
pub use format::format;
pub use kind::SyntaxKind;
pub use leniency::{Leniency, LeniencyKind};
pub use line_index::{LineColumn, LineIndex, Utf16Position};
pub use node::{Children, Elements, SyntaxElement, SyntaxNode, SyntaxToken};
pub use stack::{MAX_DEPTH, with_deep_stack};
pub use string::{StringPart, StringPiece};
pub use text_size::{TextRange, TextSize};

use error::Diagnostics;
use leniency::Leniencies;
use lexer::Lexed;
use node::Whole;
use parser::Parsed;
use std::sync::Arc;
use tree::Tree;

/// What to do about a `return`.
pub const NO_RETURN: &str =
    "there is no `return`: the value of a function is its last expression, and a class has no value";

/// A parsed text: its tree, and what is wrong with it.
///
/// Cheap to clone and safe to send to another thread.
#[derive(Clone, Debug)]
pub struct Parse {
    whole: Arc<Whole>,
    depth: u32,
    errors: Vec<SyntaxError>,
    leniencies: Vec<Leniency>,
}

/// Parses a text.
#[must_use]
pub fn parse(text: &str) -> Parse {
    parse_shared(&Arc::from(text))
}

/// Parses a text that the tree may keep as it is.
#[must_use]
pub fn parse_shared(text: &Arc<str>) -> Parse {
    let source = Source::new(text);
    Parse {
        whole: Arc::new(Whole { lexed: source.lexed.with_share(Arc::clone(text)), tree: source.tree }),
        depth: source.depth,
        errors: source.errors,
        leniencies: source.leniencies,
    }
}

/// Turns bytes into text, or says at which byte they stop being UTF-8.
///
/// # Errors
///
/// The bytes are not UTF-8.
pub fn decode(bytes: &[u8]) -> Result<&str, SyntaxError> {
    std::str::from_utf8(bytes).map_err(|error| SyntaxError::not_utf8(error, bytes))
}

impl Parse {
    /// The root of the lossless tree.
    #[must_use]
    pub fn syntax(&self) -> SyntaxNode {
        SyntaxNode::root(&self.whole)
    }

    /// The root as a typed node.
    #[must_use]
    pub fn tree(&self) -> ast::SourceFile {
        ast::SourceFile::of(self)
    }

    /// How many constructs are inside each other at most: what [`with_deep_stack`] wants to know.
    #[must_use]
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// All mistakes, by place. Those inside strings ([`Code::is_in_string`]) leave the tree whole.
    #[must_use]
    pub fn errors(&self) -> &[SyntaxError] {
        &self.errors
    }

    /// What was accepted although it is not canonical, by place.
    #[must_use]
    pub fn leniencies(&self) -> &[Leniency] {
        &self.leniencies
    }
}

/// A parsed text that is still where it was found.
struct Source<'t> {
    lexed: Lexed<'t>,
    tree: Tree,
    depth: u32,
    errors: Vec<SyntaxError>,
    leniencies: Vec<Leniency>,
}

/// Offsets are 32 bits wide, and one of them must be left to stand behind the text.
const MAX_LENGTH: usize = u32::MAX as usize - 1;

impl<'t> Source<'t> {
    fn new(text: &'t str) -> Self {
        Source::bounded(text, MAX_LENGTH)
    }

    /// A text beyond the bound is not looked at: it gives an empty tree and one error.
    fn bounded(text: &'t str, bound: usize) -> Self {
        let mut errors = Diagnostics::default();
        let mut leniencies = Leniencies::default();
        let too_large = text.len() > bound;
        let lexed = Lexed::new(if too_large { "" } else { text }, &mut errors, &mut leniencies);
        if too_large {
            let message = format!("the text has {} bytes; the limit is {bound}", text.len());
            errors.add(|| SyntaxError::new(Code::TooLarge, TextRange::empty(0.into()), message));
        }
        let Parsed { events, depth } = parser::parse(&lexed, &mut errors, &mut leniencies);
        let tree = Tree::new(events);
        let (mut errors, mut leniencies) = (errors.list, leniencies.list);
        errors.sort_by_key(|error| error.range.start());
        drop_inverted(&lexed, &mut errors);
        leniencies.sort_by_key(|leniency| leniency.range.start());
        Source { lexed, tree, depth, errors, leniencies }
    }
}

/// With one quote too many or too few, what should be text is read as code from there on and the other way round. Where
/// that begins can only be guessed, so this keeps a few errors: one per line, up to the first line that begins inside
/// a string, and the one about the quote.
fn drop_inverted(lexed: &Lexed<'_>, errors: &mut Vec<SyntaxError>) {
    const FEW: usize = 5;
    let Some(odd) = errors.iter().find(|error| error.code == Code::UnterminatedString).cloned() else {
        return;
    };
    let newlines: Vec<u32> = lexed.text.match_indices('\n').map(|(at, _)| at as u32).collect();
    let line =
        |error: &SyntaxError| newlines.partition_point(|&newline| newline < error.range.start().into());
    errors.dedup_by_key(|error| line(error));
    let inverted = errors.iter().enumerate().find_map(|(index, error)| {
        let newline = newlines.get(line(error).checked_sub(1)?)?;
        Some((index, lexed.string_around(newline + 1)?))
    });
    if let Some((index, string)) = inverted {
        errors.truncate(index + 1);
        if let Some(error) = errors.pop() {
            let quote = TextRange::at(string.start(), 1.into());
            let label = "this string goes over several lines; is its closing quote missing?";
            errors.push(SyntaxError { code: Code::RunawayString, ..error }.label(quote, label));
        }
    }
    errors.truncate(FEW);
    if !errors.iter().any(|error| matches!(error.code, Code::RunawayString | Code::UnterminatedString)) {
        errors.push(odd);
        errors.sort_by_key(|error| error.range.start());
    }
}

#[cfg(test)]
mod tests;
