//! Text to tokens. Nothing is dropped: the tokens laid end to end are the text.

use crate::{
    error::{Code, Diagnostics, SyntaxError},
    kind::SyntaxKind,
    leniency::{Leniencies, LeniencyKind},
};
use logos::Logos;
use rowan::{TextRange, TextSize};

/// The tokens of a text: all of them, and the ones that the grammar looks at.
pub(crate) struct Lexed<'t> {
    pub(crate) text: &'t str,
    kinds: Vec<SyntaxKind>,
    /// Where each token starts, and the end of the text.
    starts: Vec<u32>,
    /// Never empty: the last one is [`SyntaxKind::EndOfFile`].
    pub(crate) significant: Vec<Token>,
}

/// A token that is not trivia.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token {
    pub(crate) kind: SyntaxKind,
    /// There is a newline between the token before and this one. False for the first token of a file.
    pub(crate) after_newline: bool,
    /// Nothing at all is between the token before and this one.
    pub(crate) glued: bool,
    /// There is text that means nothing between the token before and this one.
    pub(crate) after_unknown: bool,
    /// Its place among all tokens.
    pub(crate) raw: u32,
}

impl<'t> Lexed<'t> {
    pub(crate) fn new(text: &'t str, errors: &mut Diagnostics, leniencies: &mut Leniencies) -> Self {
        let estimate = text.len() / 3 + 8;
        let mut lexed = Lexed {
            text,
            kinds: Vec::with_capacity(estimate),
            starts: Vec::with_capacity(estimate),
            significant: Vec::with_capacity(estimate / 2),
        };
        let mut after_newline = false;
        let mut glued = false;
        let mut after_unknown = false;
        let offset = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
        if offset > 0 {
            lexed.push(SyntaxKind::Whitespace, 0);
            leniencies.add(range(0, offset), LeniencyKind::ByteOrderMark);
        }
        let mut lexer = SyntaxKind::lexer(&text[offset..]);
        let mut carriage_returns = false;
        while let Some(result) = lexer.next() {
            let span = lexer.span();
            let start = span.start + offset;
            let slice = lexer.slice();
            let mut kind = match result {
                Ok(kind) => kind,
                Err(()) if slice.starts_with('"') => SyntaxKind::UnterminatedString,
                Err(()) => SyntaxKind::Unknown,
            };
            match kind {
                SyntaxKind::Newline => {
                    after_newline = true;
                    if slice.len() == 2 && !carriage_returns {
                        carriage_returns = true;
                        leniencies.add(range(start, 2), LeniencyKind::CarriageReturn);
                    }
                }
                SyntaxKind::Unknown => {
                    after_unknown = true;
                    errors.add(|| unknown(slice, range(start, slice.len())));
                }
                SyntaxKind::UnterminatedString => {
                    errors.add(|| {
                        SyntaxError::new(Code::UnterminatedString, range(start, 1), "this string has no end")
                            .hint("close it with `\"`")
                    });
                }
                SyntaxKind::BadWord => {
                    kind = if slice.starts_with(|first: char| first.is_ascii_uppercase()) {
                        SyntaxKind::Capitalized
                    } else {
                        SyntaxKind::Identifier
                    };
                    errors.add(|| bad_word(slice, range(start, slice.len())));
                }
                _ => {}
            }
            if !kind.is_trivia() {
                let raw = lexed.kinds.len() as u32;
                lexed.significant.push(Token { kind, after_newline, glued, after_unknown, raw });
                after_newline = false;
                after_unknown = false;
            }
            glued = !kind.is_trivia();
            lexed.push(kind, start);
        }
        lexed.starts.push(text.len() as u32);
        let raw = lexed.kinds.len() as u32;
        lexed.significant.push(Token {
            kind: SyntaxKind::EndOfFile,
            after_newline,
            glued,
            after_unknown,
            raw,
        });
        lexed
    }

    fn push(&mut self, kind: SyntaxKind, start: usize) {
        self.kinds.push(kind);
        self.starts.push(start as u32);
    }

    /// How many tokens there are, trivia included.
    pub(crate) fn len(&self) -> u32 {
        self.kinds.len() as u32
    }

    pub(crate) fn kind(&self, raw: u32) -> SyntaxKind {
        self.kinds[raw as usize]
    }

    pub(crate) fn start(&self, raw: u32) -> u32 {
        self.starts[raw as usize]
    }

    pub(crate) fn range(&self, raw: u32) -> TextRange {
        let end = self.starts.get(raw as usize + 1).unwrap_or(&self.starts[raw as usize]);
        TextRange::new(self.start(raw).into(), (*end).into())
    }

    pub(crate) fn text_of(&self, raw: u32) -> &'t str {
        &self.text[self.range(raw)]
    }
}

pub(crate) fn range(start: usize, len: usize) -> TextRange {
    TextRange::at(TextSize::new(start as u32), TextSize::new(len as u32))
}

fn unknown(text: &str, range: TextRange) -> SyntaxError {
    if text == "\r" {
        return SyntaxError::new(Code::CarriageReturn, range, "a carriage return without a line feed")
            .hint("end lines with a line feed, or with both");
    }
    let error = SyntaxError::new(
        Code::UnknownCharacter,
        range,
        format!("`{}` means nothing in mcl", text.escape_debug().take(40).collect::<String>()),
    );
    match text {
        "%" => error.hint("there is no remainder operator; see `math.mod`"),
        "'" => error.hint("strings are written in double quotes"),
        "`" => error.hint("strings are written in double quotes"),
        "\\" => error
            .hint("a line cannot be continued with a backslash; break it after an operator or in brackets"),
        "?" => error.hint("a condition of a field is written `field => $condition ?: $value,`"),
        "\u{a0}" => error.hint("this is a non-breaking space; use a plain one"),
        _ if text.starts_with(['“', '”', '„', '‘', '’', '«', '»']) => {
            error.hint("use plain double quotes")
        }
        _ => error,
    }
}

fn bad_word(word: &str, range: TextRange) -> SyntaxError {
    let (rule, fixed) = if word.starts_with('_') || word.ends_with('_') {
        ("a name does not start or end with an underscore", word.trim_matches('_').to_owned())
    } else if word[1..].contains(|inner: char| inner.is_ascii_uppercase()) {
        if word.starts_with(|first: char| first.is_ascii_uppercase()) {
            ("only the first letter of a kind is a capital", capitalized(word))
        } else {
            ("a name has no capital letters", word.to_ascii_lowercase())
        }
    } else {
        ("this is not a name", word.to_ascii_lowercase())
    };
    let error = SyntaxError::new(Code::BadName, range, format!("{rule}: `{word}`"));
    if fixed.is_empty() || fixed == word { error } else { error.hint(format!("write `{fixed}`")) }
}

fn capitalized(word: &str) -> String {
    let mut fixed = word.to_ascii_lowercase();
    if let Some(first) = fixed.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    fixed
}
