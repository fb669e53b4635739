//! Tokens to a tree, by recursive descent.
//!
//! The grammar reads significant tokens and writes [`Event`]s; [`crate::tree`] turns those into a tree and puts the
//! trivia back. The parser never fails: what it cannot use goes into an [`SyntaxKind::Error`] node.
//!
//! **Newlines** are trivia, but each token knows whether one stands before it; the rules are on the page of the crate.
//! Inside brackets [`Parser::newline_ends`] is false, and [`Parser::current`] does not show them.
//!
//! **Errors.** One mistake gives one error: [`Parser::error`] is silent at the token where the last error was
//! reported or where the last recovery ended.
//!
//! **Depth.** The tree goes no deeper than [`MAX_DEPTH`]; beyond it the rest of the bracket group is skipped with one
//! error. Chains of operators count as well, since they nest to the left. The parser calls itself for what is nested,
//! but not for chains. It starts on the stack that there is, and starts again on a larger one when it has
//! gone [`SHALLOW`] deep.

mod expression;
mod list;
mod recovery;
mod resource;
mod statement;
#[cfg(test)]
mod tests;
mod types;

use crate::{
    error::{Code, Diagnostics, SyntaxError},
    kind::SyntaxKind::{self, *},
    leniency::{Leniencies, LeniencyKind},
    lexer::{Lexed, Token},
    stack::{self, MAX_DEPTH, SHALLOW},
};
use text_size::TextRange;

/// One step of a walk over the tree that the parser saw.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// A node starts. If `parent` is not zero, the node that many events further on encloses this one.
    Open {
        kind: SyntaxKind,
        parent: u32,
    },
    Close,
    /// The next significant token, under the kind that the grammar gives it.
    Token {
        kind: SyntaxKind,
    },
}

/// What the parser saw.
pub(crate) struct Parsed {
    pub(crate) events: Vec<Event>,
    /// How many constructs are inside each other at most.
    pub(crate) depth: u32,
}

/// Parses. Errors and leniencies are added to the given lists.
pub(crate) fn parse(lexed: &Lexed<'_>, errors: &mut Diagnostics, leniencies: &mut Leniencies) -> Parsed {
    let (known_errors, known_leniencies) = (errors.list.len(), leniencies.list.len());
    let start_again = |errors: &mut Diagnostics, leniencies: &mut Leniencies, limits| {
        errors.list.truncate(known_errors);
        leniencies.list.truncate(known_leniencies);
        Parser::run(lexed, errors, leniencies, limits)
    };
    if stack::has_room_for(MAX_DEPTH) {
        return start_again(errors, leniencies, Limits::DEEP).0;
    }
    let (parsed, gave_up) = start_again(errors, leniencies, Limits::SHALLOW_FIRST);
    if !gave_up {
        return parsed;
    }
    match stack::with_deep_stack(MAX_DEPTH, || start_again(errors, leniencies, Limits::DEEP).0) {
        Ok(parsed) => parsed,
        Err(_) => start_again(errors, leniencies, Limits::SHALLOW_ONLY).0,
    }
}

/// How deep the parser goes.
#[derive(Clone, Copy)]
struct Limits {
    /// How deep it calls itself.
    recursion: u32,
    /// How deep the tree gets. If this is more, the parser gives up at the other limit and has to start again.
    tree: u32,
}

impl Limits {
    const SHALLOW_FIRST: Limits = Limits { recursion: SHALLOW, tree: MAX_DEPTH };
    const DEEP: Limits = Limits { recursion: MAX_DEPTH, tree: MAX_DEPTH };
    /// When there is no memory for a larger stack.
    const SHALLOW_ONLY: Limits = Limits { recursion: SHALLOW, tree: SHALLOW };
}

pub(crate) struct Parser<'t> {
    lexed: &'t Lexed<'t>,
    tokens: &'t [Token],
    position: usize,
    /// The token whose newline was accepted: [`Parser::current`] shows the token itself from then on.
    passed_newline: usize,
    /// A newline ends what is being read. False inside brackets.
    newline_ends: bool,
    /// How many of each kind of bracket are open, to tell whose closer a misplaced one is.
    open_brackets: [u32; 3],
    /// How many closers of each kind may come without an opener, because the opener's error was reported.
    forgiven: [u32; 3],
    /// Where the names in the function type that is being read are.
    argument_names: Vec<usize>,
    limits: Limits,
    /// The parser went too deep for its stack, and what it returns means nothing.
    gave_up: bool,
    depth: u32,
    /// The greatest depth reached below the expression that is being read.
    deepest: u32,
    events: Vec<Event>,
    errors: &'t mut Diagnostics,
    error_position: usize,
    leniencies: &'t mut Leniencies,
}

/// A node that has been started.
#[must_use]
#[derive(Clone, Copy)]
pub(crate) struct Marker(usize);

/// A node that is complete, and may still be put inside another.
#[derive(Clone, Copy)]
pub(crate) struct Completed {
    start: usize,
    kind: SyntaxKind,
}

impl<'t> Parser<'t> {
    /// Parses within the limits. Returns also whether it gave up.
    fn run(
        lexed: &'t Lexed<'t>,
        errors: &'t mut Diagnostics,
        leniencies: &'t mut Leniencies,
        limits: Limits,
    ) -> (Parsed, bool) {
        let mut parser = Parser {
            lexed,
            tokens: &lexed.significant,
            position: 0,
            passed_newline: usize::MAX,
            newline_ends: true,
            open_brackets: [0; 3],
            forgiven: [0; 3],
            argument_names: Vec::new(),
            limits,
            gave_up: false,
            depth: 0,
            deepest: 0,
            events: Vec::with_capacity(lexed.significant.len() * 3),
            errors,
            error_position: usize::MAX,
            leniencies,
        };
        parser.source_file();
        (Parsed { events: parser.events, depth: parser.deepest }, parser.gave_up)
    }
}

impl Parser<'_> {
    // Looking.

    /// The kind of the next token; [`Newline`] if a newline stands before it and ends something here.
    fn current(&self) -> SyntaxKind {
        let token = &self.tokens[self.position];
        if token.after_newline() && self.newline_ends && self.passed_newline != self.position {
            return Newline;
        }
        token.kind
    }

    fn at(&self, kind: SyntaxKind) -> bool {
        self.current() == kind
    }

    /// The kind of the nth token from here, newlines not regarded.
    fn nth(&self, n: usize) -> SyntaxKind {
        self.tokens.get(self.position + n).map_or(EndOfFile, |token| token.kind)
    }

    /// A newline stands before the next token, whether it ends something or not.
    fn after_newline(&self) -> bool {
        self.tokens[self.position].after_newline()
    }

    /// The nth token from here directly follows the one before it.
    fn nth_glued(&self, n: usize) -> bool {
        self.tokens.get(self.position + n).is_some_and(|token| token.is_glued())
    }

    fn text_of_nth(&self, n: usize) -> &str {
        match self.tokens.get(self.position + n) {
            Some(token) if token.kind != EndOfFile => self.lexed.text_of(token.raw),
            _ => "",
        }
    }

    fn range_of(&self, position: usize) -> TextRange {
        match self.tokens[position].kind {
            EndOfFile => self.end_of_previous(position),
            _ => self.lexed.range(self.tokens[position].raw),
        }
    }

    /// The empty range behind the token before the given one.
    fn end_of_previous(&self, position: usize) -> TextRange {
        let end = match position.checked_sub(1) {
            Some(previous) => self.lexed.range(self.tokens[previous].raw).end(),
            None => 0.into(),
        };
        TextRange::empty(end)
    }

    /// Where to show an error about the next token: at the token, or behind the one before if a newline is in the way.
    fn here(&self) -> TextRange {
        match self.current() {
            Newline => self.end_of_previous(self.position),
            _ => self.range_of(self.position),
        }
    }

    /// Names the next token for a message.
    fn found(&self) -> String {
        match self.current() {
            Newline => "the end of the line".to_owned(),
            EndOfFile => "the end of the file".to_owned(),
            Quoted | UnterminatedString => "a string".to_owned(),
            kind if kind.is_keyword() => format!("the reserved word `{}`", self.text_of_nth(0)),
            _ => format!("`{}`", self.text_of_nth(0)),
        }
    }

    // Moving.

    /// Takes the next token into the tree.
    fn bump(&mut self) {
        let kind = self.tokens[self.position].kind;
        self.bump_as(kind);
    }

    /// Takes the next token into the tree under another kind, such as a reserved word that serves as a name.
    fn bump_as(&mut self, kind: SyntaxKind) {
        let token = self.tokens[self.position];
        if token.kind == EndOfFile {
            return;
        }
        if token.after_newline() && !self.newline_ends && self.passed_newline != self.position {
            self.leniencies.add(self.end_of_previous(self.position), LeniencyKind::NewlineInBrackets);
        }
        match token.kind {
            LeftParen => self.open_brackets[0] += 1,
            LeftBracket => self.open_brackets[1] += 1,
            LeftBrace => self.open_brackets[2] += 1,
            RightParen => self.open_brackets[0] = self.open_brackets[0].saturating_sub(1),
            RightBracket => self.open_brackets[1] = self.open_brackets[1].saturating_sub(1),
            RightBrace => self.open_brackets[2] = self.open_brackets[2].saturating_sub(1),
            _ => {}
        }
        self.events.push(Event::Token { kind });
        self.position += 1;
    }

    fn eat(&mut self, kind: SyntaxKind) -> bool {
        let there = self.at(kind);
        if there {
            self.bump();
        }
        there
    }

    /// Takes the token, or says that it was expected.
    fn expect(&mut self, kind: SyntaxKind) -> bool {
        let there = self.eat(kind);
        if !there {
            self.error_expected(kind.spelling());
        }
        there
    }

    /// Accepts the newline before the next token as one that belongs there.
    fn pass_newline(&mut self) {
        self.passed_newline = self.position;
    }

    /// Reads something inside brackets, where newlines mean nothing.
    fn inside_brackets<T>(&mut self, read: impl FnOnce(&mut Self) -> T) -> T {
        let outer = std::mem::replace(&mut self.newline_ends, false);
        let result = read(self);
        self.newline_ends = outer;
        result
    }

    /// Reads something one level deeper, or skips it if that is too deep.
    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> T) -> Option<T> {
        if !self.recursion_fits() {
            return None;
        }
        self.depth += 1;
        self.deepest = self.deepest.max(self.depth);
        let result = read(self);
        self.depth -= 1;
        Some(result)
    }

    /// The parser may go one level deeper. Otherwise it has skipped what is there, or everything if it gave up.
    fn recursion_fits(&mut self) -> bool {
        if self.depth < self.limits.recursion {
            return true;
        }
        if self.limits.recursion < self.limits.tree {
            self.gave_up = true;
            self.position = self.tokens.len() - 1;
        } else {
            self.too_deep();
        }
        false
    }

    // Building.

    fn open(&mut self) -> Marker {
        self.events.push(Event::Open { kind: Error, parent: 0 });
        Marker(self.events.len() - 1)
    }

    fn close(&mut self, marker: Marker, kind: SyntaxKind) -> Completed {
        self.events[marker.0] = Event::Open { kind, parent: 0 };
        self.events.push(Event::Close);
        Completed { start: marker.0, kind }
    }

    /// Starts a node that will enclose one that is already complete.
    fn open_before(&mut self, inner: Completed) -> Marker {
        let outer = self.open();
        if let Event::Open { parent, .. } = &mut self.events[inner.start] {
            *parent = (outer.0 - inner.start) as u32;
        }
        outer
    }

    /// Takes the next token into an error node.
    fn bump_error(&mut self) {
        let marker = self.open();
        self.bump();
        self.close(marker, Error);
    }

    // Complaining.

    /// Reports an error at the next token, unless one was reported there already.
    fn error(&mut self, code: Code, message: impl Into<std::borrow::Cow<'static, str>>) {
        self.report(|parser| SyntaxError::new(code, parser.here(), message));
    }

    fn error_expected(&mut self, expected: &'static str) {
        self.report(|parser| parser.expected(expected));
    }

    /// The error that says what was expected and what is there.
    fn expected(&self, expected: &'static str) -> SyntaxError {
        let quoted = !expected.is_empty() && !expected.contains([' ', '`']);
        let wanted = if quoted { format!("`{expected}`") } else { expected.to_owned() };
        let message = format!("expected {wanted}, found {}", self.found());
        SyntaxError::new(Code::Unexpected, self.here(), message).expected(expected)
    }

    fn report(&mut self, error: impl FnOnce(&Self) -> SyntaxError) {
        if self.error_position == self.position {
            return;
        }
        self.error_position = self.position;
        // Text that means nothing is reported already, and what it stood for is missing here.
        let token = self.tokens[self.position];
        let reported = token.after_unknown() || (token.is_misspelled() && self.current() == token.kind);
        if !reported && self.errors.list.len() < Diagnostics::LIMIT {
            let error = self.suspect_string(error(self));
            self.errors.list.push(error);
        }
    }

    /// Behind a string of several lines, on the line where it ends, an error is often due to that string.
    fn suspect_string(&self, error: SyntaxError) -> SyntaxError {
        const NEAR: usize = 16;
        if error.label.is_some() {
            return error;
        }
        let before = (self.position.saturating_sub(NEAR)..self.position).rev();
        let same_line = before.take_while(|&position| !self.tokens[position + 1].after_newline());
        let strings = same_line.filter(|&position| self.tokens[position].kind == Quoted);
        let mut ranges = strings.map(|position| self.lexed.range(self.tokens[position].raw));
        match ranges.find(|range| self.lexed.text[*range].contains('\n')) {
            Some(range) => {
                let quote = TextRange::at(range.start(), 1.into());
                SyntaxError { code: Code::RunawayString, ..error }
                    .label(quote, "this string goes over several lines; is its closing quote missing?")
            }
            None => error,
        }
    }

    fn lenient(&mut self, kind: LeniencyKind) {
        let range = self.here();
        self.leniencies.add(range, kind);
    }
}
