//! Text to tokens. Nothing is dropped: the tokens laid end to end are the text.

use crate::{
    error::{Code, Diagnostics, SyntaxError},
    kind::SyntaxKind,
    leniency::{Leniencies, LeniencyKind},
};
use logos::Logos;
use std::sync::Arc;
use text_size::{TextRange, TextSize};

/// The tokens of a text: all of them, and the ones that the grammar looks at.
#[derive(Debug)]
pub(crate) struct Lexed<'t> {
    pub(crate) text: Text<'t>,
    kinds: Vec<SyntaxKind>,
    /// Where each token starts, and the end of the text.
    starts: Vec<u32>,
    /// Never empty: the last one is [`SyntaxKind::EndOfFile`].
    pub(crate) significant: Vec<Token>,
}

/// The text of tokens.
#[derive(Debug)]
pub(crate) enum Text<'t> {
    Lent(&'t str),
    Shared(Arc<str>),
}

impl std::ops::Deref for Text<'_> {
    type Target = str;

    #[inline]
    fn deref(&self) -> &str {
        match self {
            Text::Lent(text) => text,
            Text::Shared(text) => text,
        }
    }
}

/// A token that is not trivia.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token {
    pub(crate) kind: SyntaxKind,
    /// Bits that say what stands before it; small, because a text has many tokens.
    flags: u8,
    /// Its place among all tokens.
    pub(crate) raw: u32,
}

impl Token {
    const AFTER_NEWLINE: u8 = 1;
    const GLUED: u8 = 2;
    const AFTER_UNKNOWN: u8 = 4;
    const MISSPELLED: u8 = 8;

    /// There is a newline between the token before and this one. False for the first token of a file.
    pub(crate) fn after_newline(self) -> bool {
        self.flags & Self::AFTER_NEWLINE != 0
    }

    /// Nothing at all is between the token before and this one.
    pub(crate) fn is_glued(self) -> bool {
        self.flags & Self::GLUED != 0
    }

    /// There is text that means nothing between the token before and this one.
    pub(crate) fn after_unknown(self) -> bool {
        self.flags & Self::AFTER_UNKNOWN != 0
    }

    /// It is reported already.
    pub(crate) fn is_misspelled(self) -> bool {
        self.flags & Self::MISSPELLED != 0
    }
}

impl<'t> Lexed<'t> {
    pub(crate) fn new(text: &'t str, errors: &mut Diagnostics, leniencies: &mut Leniencies) -> Self {
        let estimate = text.len() / 3 + 8;
        let mut lexed = Lexed {
            text: Text::Lent(text),
            kinds: Vec::with_capacity(estimate),
            starts: Vec::with_capacity(estimate),
            significant: Vec::with_capacity(estimate / 2),
        };
        let offset = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
        if offset > 0 {
            lexed.push(SyntaxKind::Whitespace, 0);
            leniencies.add(range(0, offset), LeniencyKind::ByteOrderMark);
        }
        let mut lexer = SyntaxKind::lexer(&text[offset..]);
        let mut carriage_returns = false;
        // What is known about the next significant token from what stands before it.
        let mut flags = 0;
        while let Some(result) = lexer.next() {
            let place = range(lexer.span().start + offset, lexer.slice().len());
            let (kind, misspelled) = classify(result, lexer.slice(), place, errors);
            match kind {
                SyntaxKind::Newline => {
                    flags |= Token::AFTER_NEWLINE;
                    if lexer.slice().len() > 1 && !std::mem::replace(&mut carriage_returns, true) {
                        leniencies.add(place, LeniencyKind::CarriageReturn);
                    }
                }
                SyntaxKind::Unknown => flags |= Token::AFTER_UNKNOWN,
                _ => {}
            }
            if kind.is_trivia() {
                flags &= !Token::GLUED;
            } else {
                flags |= if misspelled { Token::MISSPELLED } else { 0 };
                let raw = lexed.len();
                lexed.significant.push(Token { kind, flags, raw });
                flags = Token::GLUED;
            }
            lexed.push(kind, place.start().into());
        }
        lexed.starts.push(text.len() as u32);
        let raw = lexed.len();
        lexed.significant.push(Token { kind: SyntaxKind::EndOfFile, flags, raw });
        lexed
    }

    /// The same with a share of the text, which is the one that was lent.
    pub(crate) fn with_share(self, text: Arc<str>) -> Lexed<'static> {
        let Lexed { text: lent, kinds, starts, significant } = self;
        // A text that is too long was not even looked at.
        let text = if lent.len() == text.len() { text } else { Arc::from(&*lent) };
        Lexed { text: Text::Shared(text), kinds, starts, significant }
    }

    fn push(&mut self, kind: SyntaxKind, start: usize) {
        self.kinds.push(kind);
        self.starts.push(start as u32);
    }

    /// How many tokens there are, trivia included.
    pub(crate) fn len(&self) -> u32 {
        self.kinds.len() as u32
    }

    #[inline]
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

    /// The string that the given place is inside of.
    pub(crate) fn string_around(&self, place: u32) -> Option<TextRange> {
        let raw = self.starts.partition_point(|&start| start < place).checked_sub(1)? as u32;
        let inside =
            raw < self.len() && self.kind(raw) == SyntaxKind::Quoted && self.range(raw).end() > place.into();
        inside.then(|| self.range(raw))
    }

    #[inline]
    pub(crate) fn text_of(&self, raw: u32) -> &str {
        let raw = raw as usize;
        &self.text[self.starts[raw] as usize..self.starts[raw + 1] as usize]
    }
}

pub(crate) fn range(start: usize, len: usize) -> TextRange {
    TextRange::at(TextSize::new(start as u32), TextSize::new(len as u32))
}

/// Settles the kind of a token, and reports it if it is not spelled right. Returns whether it was a word or a string
/// that is.
fn classify(
    result: Result<SyntaxKind, ()>,
    text: &str,
    place: TextRange,
    errors: &mut Diagnostics,
) -> (SyntaxKind, bool) {
    match result {
        Ok(SyntaxKind::BadWord) => {
            errors.add(|| bad_word(text, place));
            let capital = text.starts_with(|first: char| first.is_ascii_uppercase());
            (if capital { SyntaxKind::Capitalized } else { SyntaxKind::Identifier }, true)
        }
        Err(()) if text.starts_with('"') => {
            let quote = TextRange::at(place.start(), TextSize::new(1));
            let error = || SyntaxError::new(Code::UnterminatedString, quote, "this string has no end");
            errors.add(|| error().hint("close it with `\"`"));
            (SyntaxKind::UnterminatedString, true)
        }
        Ok(SyntaxKind::Unknown) | Err(()) => {
            errors.add(|| unknown(text, place));
            (SyntaxKind::Unknown, false)
        }
        Ok(kind) => (kind, false),
    }
}

fn unknown(text: &str, range: TextRange) -> SyntaxError {
    if text.starts_with('\r') {
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
    let capital = word.starts_with(|first: char| first.is_ascii_uppercase());
    let rule = if word.starts_with('_') || word.ends_with('_') {
        "a name does not start or end with an underscore"
    } else if capital {
        "only the first letter of a kind is a capital"
    } else {
        "a name has no capital letters"
    };
    let error = SyntaxError::new(Code::BadName, range, format!("{rule}: `{word}`"));
    let fixed = word.trim_matches('_');
    match fixed.is_empty() {
        true => error,
        false if capital => error.hint(format!("write `{}`", capitalized(fixed))),
        false => error.hint(format!("write `{}`", fixed.to_ascii_lowercase())),
    }
}

fn capitalized(word: &str) -> String {
    let mut fixed = word.to_ascii_lowercase();
    if let Some(first) = fixed.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    fixed
}
