//! Words of a template.

use crate::quote;

/// What is wrong, and where.
#[derive(Debug)]
pub(super) struct Bad {
    pub(super) at: usize,
    pub(super) message: String,
}

pub(super) fn bad<T>(at: usize, message: impl Into<String>) -> Result<T, Bad> {
    Err(Bad { at, message: message.into() })
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Word {
    /// Text outside of actions.
    Text(Vec<u8>),
    Open,
    Close,
    Space,
    Identifier(String),
    /// `.name`
    Field(String),
    /// `$name`, or `$` alone
    Variable(String),
    Dot,
    Number(String),
    Str(Vec<u8>),
    Character(char),
    /// `:=` `=` `|` `(` `)` `,`
    Sign(&'static str),
}

#[derive(Clone, Debug)]
pub(super) struct Token {
    pub(super) word: Word,
    pub(super) at: usize,
    pub(super) end: usize,
}

/// Splits a template into words. Trim markers have done their work afterwards, and comments are gone.
pub(super) fn lex(source: &[u8]) -> Result<Vec<Token>, Bad> {
    let mut tokens = Vec::new();
    let mut at = 0;
    let mut trim = false;
    loop {
        let open = memchr::memmem::find(&source[at..], b"{{").map(|found| at + found);
        let mut text = &source[at..open.unwrap_or(source.len())];
        if trim {
            text = trim_start(text);
        }
        let Some(open) = open else {
            push_text(&mut tokens, text, at, source.len());
            return Ok(tokens);
        };
        let mut inside = open + 2;
        if source[inside..].starts_with(b"-") && source.get(inside + 1).is_some_and(|byte| is_space(*byte)) {
            text = trim_end(text);
            inside += 2;
        }
        push_text(&mut tokens, text, at, open);
        (at, trim) = match source[inside..].starts_with(b"/*") {
            true => comment(source, inside)?,
            false => {
                tokens.push(Token { word: Word::Open, at: open, end: inside });
                action(source, inside, &mut tokens)?
            }
        };
    }
}

fn push_text(tokens: &mut Vec<Token>, text: &[u8], at: usize, end: usize) {
    if !text.is_empty() {
        tokens.push(Token { word: Word::Text(text.to_vec()), at, end });
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

fn trim_start(text: &[u8]) -> &[u8] {
    &text[text.iter().take_while(|byte| is_space(**byte)).count()..]
}

fn trim_end(text: &[u8]) -> &[u8] {
    &text[..text.len() - text.iter().rev().take_while(|byte| is_space(**byte)).count()]
}

/// Where the action ends, if it does so here, and whether what follows is trimmed.
fn closing(source: &[u8], at: usize) -> Option<(usize, bool)> {
    let rest = &source[at..];
    if rest.starts_with(b"}}") {
        return Some((at + 2, false));
    }
    let trims = rest.first().is_some_and(|byte| is_space(*byte)) && rest[1..].starts_with(b"-}}");
    trims.then_some((at + 4, true))
}

fn comment(source: &[u8], at: usize) -> Result<(usize, bool), Bad> {
    let Some(end) = memchr::memmem::find(&source[at..], b"*/") else { return bad(at, "unclosed comment") };
    match closing(source, at + end + 2) {
        Some(closed) => Ok(closed),
        None => bad(at, "comment ends before closing delimiter"),
    }
}

fn action(source: &[u8], start: usize, tokens: &mut Vec<Token>) -> Result<(usize, bool), Bad> {
    let mut at = start;
    loop {
        if let Some((end, trim)) = closing(source, at) {
            tokens.push(Token { word: Word::Close, at, end });
            return Ok((end, trim));
        }
        let Some(&byte) = source.get(at) else { return bad(start, "unclosed action") };
        let (word, length) = word(&source[at..], byte, at)?;
        // Blanks matter only as something between words.
        tokens.push(Token { word, at, end: at + length });
        at += length;
    }
}

fn word(rest: &[u8], byte: u8, at: usize) -> Result<(Word, usize), Bad> {
    let sign = |text: &'static str| Ok((Word::Sign(text), text.len()));
    match byte {
        byte if is_space(byte) => {
            // One blank before a closing marker belongs to the marker.
            let blanks = rest.iter().take_while(|byte| is_space(**byte)).count();
            let marker = rest[blanks..].starts_with(b"-}}");
            Ok((Word::Space, if marker && blanks > 1 { blanks - 1 } else { blanks }))
        }
        b':' if rest.starts_with(b":=") => sign(":="),
        b'=' => sign("="),
        b'|' => sign("|"),
        b'(' => sign("("),
        b')' => sign(")"),
        b',' => sign(","),
        b'"' | b'`' | b'\'' => quoted(rest, byte, at),
        b'.' if !rest.get(1).is_some_and(u8::is_ascii_digit) => match name(&rest[1..]) {
            "" => Ok((Word::Dot, 1)),
            name => Ok((Word::Field(name.to_owned()), 1 + name.len())),
        },
        b'$' => {
            let name = name(&rest[1..]);
            Ok((Word::Variable(format!("${name}")), 1 + name.len()))
        }
        b'+' | b'-' | b'.' | b'0'..=b'9' => {
            let number = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.');
            let mut length = 1 + rest[1..].iter().take_while(|byte| number(byte)).count();
            // A sign may follow an exponent.
            let exponent = |byte: u8| matches!(byte, b'e' | b'E' | b'p' | b'P');
            if exponent(rest[length - 1]) && matches!(rest.get(length), Some(b'+' | b'-')) {
                length += 1 + rest[length + 1..].iter().take_while(|byte| number(byte)).count();
            }
            Ok((Word::Number(String::from_utf8_lossy(&rest[..length]).into_owned()), length))
        }
        _ => match name(rest) {
            "" => {
                let (_, character, _) =
                    crate::text::runes(&rest[..rest.len().min(4)]).next().unwrap_or((0, '?', 1));
                bad(at, format!("unrecognized character in action: U+{:04X} '{character}'", character as u32))
            }
            name => Ok((Word::Identifier(name.to_owned()), name.len())),
        },
    }
}

fn quoted(rest: &[u8], quote: u8, at: usize) -> Result<(Word, usize), Bad> {
    let length = quote::prefix_length(rest);
    let value = length.and_then(|length| Some((quote::unquote(&rest[..length])?, length)));
    match (quote, value) {
        (b'\'', Some((value, length))) => {
            let character = String::from_utf8_lossy(&value).chars().next().unwrap_or('\u{fffd}');
            Ok((Word::Character(character), length))
        }
        (_, Some((value, length))) => Ok((Word::Str(value), length)),
        (b'\'', None) => bad(at, "unterminated character constant"),
        (b'`', None) => bad(at, "unterminated raw quoted string"),
        (_, None) => bad(at, "unterminated quoted string"),
    }
}

/// The letters, digits and `_` at the beginning.
fn name(rest: &[u8]) -> &str {
    // What cannot be part of a name ends the search, so that a long template is not looked at again and again.
    let candidate = |byte: &u8| *byte >= 0x80 || *byte == b'_' || byte.is_ascii_alphanumeric();
    let length = rest.iter().take_while(|byte| candidate(byte)).count();
    let valid = rest[..length].utf8_chunks().next().map_or("", |chunk| chunk.valid());
    let end =
        valid.find(|character: char| character != '_' && !character.is_alphanumeric()).unwrap_or(valid.len());
    &valid[..end]
}
