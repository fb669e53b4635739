//! Going on after an error.

use super::Parser;
use crate::{
    error::{Code, SyntaxError},
    kind::SyntaxKind::{self, *},
};
use text_size::TextRange;

impl Parser<'_> {
    /// Skips the rest of a statement: to the end of its line, or of the line where its brackets are closed.
    pub(super) fn skip_statement(&mut self) {
        if matches!(self.current(), Newline | EndOfFile) || (self.at(RightBrace) && self.open_brackets[2] > 0)
        {
            return;
        }
        let outer = std::mem::replace(&mut self.newline_ends, true);
        let marker = self.open();
        let mut depth = 0_u32;
        loop {
            match self.current() {
                EndOfFile => break,
                Newline if depth == 0 || self.starts_statement() => break,
                Newline => self.pass_newline(),
                RightBrace if depth == 0 && self.open_brackets[2] > 0 => break,
                kind => {
                    depth = nesting(depth, kind);
                    self.bump();
                }
            }
        }
        self.close(marker, Error);
        self.newline_ends = outer;
        self.error_position = self.position;
    }

    /// Skips what cannot be part of an element: to the next comma or closing bracket, or to where the brackets were
    /// clearly meant to end.
    pub(super) fn skip_element(&mut self) {
        if matches!(self.current(), Comma | EndOfFile) || self.current().is_closer() {
            return;
        }
        let marker = self.open();
        let mut depth = 0_u32;
        loop {
            let kind = self.current();
            match kind {
                EndOfFile | Newline => break,
                Comma if depth == 0 => break,
                _ if depth == 0 && kind.is_closer() => break,
                _ if self.after_newline() && self.starts_statement() => break,
                _ => depth = nesting(depth, kind),
            }
            self.bump();
        }
        self.close(marker, Error);
        self.error_position = self.position;
    }

    /// Skips to an opening brace on the same line, so that the block of a broken header is still read.
    pub(super) fn skip_to_brace(&mut self) {
        if self.at(LeftBrace) || matches!(self.current(), Newline | EndOfFile) {
            return;
        }
        let mut ahead = 0;
        let found = loop {
            let Some(token) = self.tokens.get(self.position + ahead) else { break false };
            match token.kind {
                EndOfFile | RightBrace => break false,
                _ if ahead > 0 && token.after_newline() => break false,
                LeftBrace => break true,
                _ => ahead += 1,
            }
        };
        if found {
            let marker = self.open();
            (0..ahead).for_each(|_| self.bump());
            self.close(marker, Error);
            self.error_position = self.position;
        }
    }

    /// Reports that something is nested too deeply and skips the rest of the bracket group it is in.
    pub(super) fn too_deep(&mut self) {
        self.error_position = usize::MAX;
        self.report(|parser| {
            SyntaxError::new(
                Code::TooDeep,
                parser.here(),
                format!("this is nested too deeply: the limit is {}", parser.limits.tree),
            )
            .hint("give a part of it a name with a bind, and use the name")
        });
        let marker = self.open();
        let mut depth = 0_u32;
        loop {
            match self.current() {
                EndOfFile => break,
                Newline if depth == 0 => break,
                Newline => self.pass_newline(),
                kind if depth == 0 && kind.is_closer() => break,
                kind => {
                    depth = nesting(depth, kind);
                    self.bump();
                }
            }
        }
        self.close(marker, Error);
        self.error_position = self.position;
    }

    /// Takes the closing bracket, or says which opening one is left without.
    pub(super) fn expect_closer(&mut self, closer: SyntaxKind, opener: TextRange) -> bool {
        if self.eat(closer) {
            return true;
        }
        self.report(|parser| {
            let found = parser.expected(closer.spelling());
            SyntaxError { code: Code::UnclosedBracket, ..found }.label(opener, "this bracket is not closed")
        });
        // What comes next may be a statement on its own line.
        self.passed_newline = usize::MAX;
        // The bracket counts as closed, so that no other one waits for its closer.
        if let Some(open) = bracket_index(closer).map(|index| &mut self.open_brackets[index]) {
            *open = open.saturating_sub(1);
        }
        self.forgive(closer);
        false
    }

    /// A closing bracket whose opener was reported as the mistake may still come: it is not another mistake.
    pub(super) fn forgive(&mut self, closer: SyntaxKind) {
        if let Some(index) = bracket_index(closer) {
            self.forgiven[index] += 1;
        }
    }

    /// Takes a closing bracket that closes nothing.
    pub(super) fn stray_closer(&mut self) {
        match bracket_index(self.current()).map(|index| &mut self.forgiven[index]) {
            Some(forgiven) if *forgiven > 0 => *forgiven -= 1,
            _ => self.error(Code::StrayBracket, format!("`{}` closes nothing", self.text_of_nth(0))),
        }
        self.bump_error();
        self.error_position = self.position;
    }

    /// Some bracket that is open around us is closed by this token.
    pub(super) fn closes_something(&self, kind: SyntaxKind) -> bool {
        bracket_index(kind).is_some_and(|index| self.open_brackets[index] > 0)
    }

    /// The next tokens can only be the start of a statement, never a part of an expression or a resource.
    pub(super) fn starts_statement(&self) -> bool {
        let second = self.nth(1);
        match self.nth(0) {
            ClassKw | IncludeKw | ImportKw | ForKw | ForkvKw => true,
            CollectKw => second == Identifier,
            PanicKw => second == LeftParen,
            FuncKw => second == Identifier,
            Dollar => matches!(self.nth(2), Equals | EqualEqual) && second != Equals,
            Identifier => match second {
                Quoted | LeftBracket | Dollar | Colon => self.brace_follows(),
                _ => false,
            },
            Capitalized => match second {
                LeftBracket => true,
                Colon => self.nth(2) == Capitalized && self.nth(3) != Rocket,
                _ => false,
            },
            _ => false,
        }
    }

    /// An opening brace is close by on this line, and nothing before it belongs to the inside of brackets.
    fn brace_follows(&self) -> bool {
        const NEAR: usize = 16;
        let mut depth = 0_u32;
        for token in self.tokens[self.position..].iter().skip(1).take(NEAR) {
            match token.kind {
                _ if token.after_newline() => return false,
                LeftBrace => return true,
                EndOfFile | Rocket => return false,
                Comma if depth == 0 => return false,
                kind => depth = nesting(depth, kind),
            }
        }
        false
    }
}

fn nesting(depth: u32, kind: SyntaxKind) -> u32 {
    if kind.is_opener() {
        depth + 1
    } else if kind.is_closer() {
        depth.saturating_sub(1)
    } else {
        depth
    }
}

fn bracket_index(kind: SyntaxKind) -> Option<usize> {
    match kind {
        LeftParen | RightParen => Some(0),
        LeftBracket | RightBracket => Some(1),
        LeftBrace | RightBrace => Some(2),
        _ => None,
    }
}
