//! From the syntax of RE2 to that of the regular expressions of Rust.
//!
//! Both mean nearly the same. Where they differ, the pattern is written out: classes that are ASCII only, characters that
//! are special only there, quoted stretches, octal numbers. What only Rust has is refused.

use std::fmt::Write;
use std::iter::Peekable;
use std::str::Chars;

/// The largest count of a repetition.
const MOST: u32 = 1000;

type Result<T> = std::result::Result<T, &'static str>;

pub(super) fn translate(pattern: &str) -> Result<String> {
    let mut translator = Translator { rest: pattern.chars().peekable(), out: String::new(), repeated: false };
    while let Some(character) = translator.rest.next() {
        translator.one(character)?;
    }
    Ok(translator.out)
}

struct Translator<'a> {
    rest: Peekable<Chars<'a>>,
    out: String,
    /// The last thing was a repetition, which cannot be repeated.
    repeated: bool,
}

impl Translator<'_> {
    fn one(&mut self, character: char) -> Result<()> {
        let repeated = std::mem::take(&mut self.repeated);
        match character {
            '*' | '+' | '?' => self.repetition(repeated, &character.to_string()),
            '{' => match self.counts()? {
                Some(counts) => self.repetition(repeated, &counts),
                None => self.put(r"\{"),
            },
            '[' => self.class(),
            '(' => self.group(),
            '\\' => self.escape(),
            '^' | '$' | '.' | '|' | ')' => self.put(character.encode_utf8(&mut [0; 4])),
            literal => {
                self.literal(literal);
                Ok(())
            }
        }
    }

    fn put(&mut self, translated: &str) -> Result<()> {
        self.out.push_str(translated);
        Ok(())
    }

    fn repetition(&mut self, repeated: bool, operator: &str) -> Result<()> {
        if repeated {
            return Err("a repetition is repeated");
        }
        self.out.push_str(operator);
        if self.rest.next_if_eq(&'?').is_some() {
            self.out.push('?');
        }
        self.repeated = true;
        Ok(())
    }

    /// `{2}`, `{2,}` or `{2,3}`. Anything else is plain text.
    fn counts(&mut self) -> Result<Option<String>> {
        let mut ahead = self.rest.clone();
        let mut text = String::new();
        loop {
            match ahead.next() {
                Some('}') => break,
                Some(character @ ('0'..='9' | ',')) => text.push(character),
                _ => return Ok(None),
            }
        }
        let (low, high) = match text.split_once(',') {
            Some((low, "")) => (low, None),
            Some((low, high)) => (low, Some(high)),
            None => (text.as_str(), None),
        };
        if low.is_empty() || high.is_some_and(|high| high.contains(',')) {
            return Ok(None);
        }
        for count in [Some(low), high].into_iter().flatten() {
            if !count.parse::<u32>().is_ok_and(|count| count <= MOST) {
                return Err("a repetition counts to 1000 at most");
            }
        }
        self.rest = ahead;
        Ok(Some(format!("{{{text}}}")))
    }

    fn group(&mut self) -> Result<()> {
        self.out.push('(');
        if self.rest.next_if_eq(&'?').is_none() {
            return Ok(());
        }
        self.out.push('?');
        let named = self.rest.next_if_eq(&'P').is_some();
        if self.rest.next_if_eq(&'<').is_some() {
            self.out.push_str("P<");
            return self.name();
        }
        if named {
            return Err("expected a name in `(?P<name>…)`");
        }
        loop {
            match self.rest.next() {
                Some(flag @ ('i' | 'm' | 's' | 'U' | '-')) => self.out.push(flag),
                Some(end @ (':' | ')')) => {
                    self.out.push(end);
                    return Ok(());
                }
                _ => return Err("expected a name or some of the flags imsU after `(?`"),
            }
        }
    }

    fn name(&mut self) -> Result<()> {
        loop {
            match self.rest.next() {
                Some('>') => {
                    self.out.push('>');
                    return Ok(());
                }
                Some(character) if character == '_' || character.is_ascii_alphanumeric() => {
                    self.out.push(character);
                }
                _ => return Err("a name of a group consists of letters, digits and `_`"),
            }
        }
    }

    fn escape(&mut self) -> Result<()> {
        match self.rest.next() {
            Some('Q') => {
                self.quoted();
                Ok(())
            }
            Some('b') => self.put(r"(?-u:\b)"),
            Some('B') => self.put(r"(?-u:\B)"),
            Some('A') => self.put(r"\A"),
            Some('z') => self.put(r"\z"),
            Some(letter @ ('d' | 'D' | 'w' | 'W' | 's' | 'S')) => self.put(ascii_class(letter)),
            Some(letter @ ('p' | 'P')) => self.property(letter),
            Some(letter) => {
                let character = self.character(letter)?;
                self.literal(character);
                Ok(())
            }
            None => Err("it ends with a backslash"),
        }
    }

    /// Text up to `\E` or the end stands for itself.
    fn quoted(&mut self) {
        while let Some(character) = self.rest.next() {
            if character == '\\' && self.rest.next_if_eq(&'E').is_some() {
                return;
            }
            self.literal(character);
        }
    }

    fn property(&mut self, letter: char) -> Result<()> {
        let mut name = String::new();
        let mut not = letter == 'P';
        match self.rest.next() {
            Some('{') => {
                not ^= self.rest.next_if_eq(&'^').is_some();
                loop {
                    match self.rest.next() {
                        Some('}') => break,
                        Some(character @ ('_' | 'a'..='z' | 'A'..='Z')) => name.push(character),
                        _ => return Err("expected a name as in `\\p{Greek}`"),
                    }
                }
            }
            Some(category) if category.is_ascii_alphabetic() => name.push(category),
            _ => return Err("expected a letter as in `\\pL` or a name as in `\\p{Greek}`"),
        }
        let _ = write!(self.out, "\\{}{{{name}}}", if not { 'P' } else { 'p' });
        Ok(())
    }

    /// The character that an escape stands for; its first letter has been read.
    fn character(&mut self, letter: char) -> Result<char> {
        match letter {
            'a' => Ok('\u{7}'),
            'f' => Ok('\u{c}'),
            'n' => Ok('\n'),
            'r' => Ok('\r'),
            't' => Ok('\t'),
            'v' => Ok('\u{b}'),
            'x' => self.hexadecimal(),
            '0'..='7' => self.octal(letter),
            letter if letter.is_ascii_punctuation() => Ok(letter),
            letter if letter.is_ascii_control() || letter == ' ' => Ok(letter),
            _ => Err("there is no such escape"),
        }
    }

    fn hexadecimal(&mut self) -> Result<char> {
        const EXPECTED: &str = "expected a character as in `\\x41` or `\\x{10ffff}`";
        let mut digits = String::new();
        if self.rest.next_if_eq(&'{').is_some() {
            while let Some(digit) = self.rest.next_if(char::is_ascii_hexdigit) {
                digits.push(digit);
            }
            self.rest.next_if_eq(&'}').ok_or(EXPECTED)?;
        } else {
            digits.extend(self.rest.by_ref().take(2));
            if digits.len() != 2 {
                return Err(EXPECTED);
            }
        }
        u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32).ok_or(EXPECTED)
    }

    /// A zero, or two digits and more: one digit alone would be a reference to a group.
    fn octal(&mut self, first: char) -> Result<char> {
        let mut number = first.to_digit(8).unwrap_or(0);
        let mut length = 1;
        while length < 3
            && let Some(digit) = self.rest.peek().and_then(|digit| digit.to_digit(8))
        {
            number = number * 8 + digit;
            length += 1;
            self.rest.next();
        }
        if first != '0' && length == 1 {
            return Err("there are no references to groups");
        }
        char::from_u32(number).ok_or("there is no such character")
    }

    fn class(&mut self) -> Result<()> {
        self.out.push('[');
        if self.rest.next_if_eq(&'^').is_some() {
            self.out.push('^');
        }
        let mut first = true;
        loop {
            match self.rest.next().ok_or("a `[` is not closed")? {
                ']' if !first => {
                    self.out.push(']');
                    return Ok(());
                }
                '[' if self.rest.peek() == Some(&':') => self.posix()?,
                '\\' if matches!(self.rest.peek(), Some('d' | 'D' | 'w' | 'W' | 's' | 'S')) => {
                    let letter = self.rest.next().unwrap_or('d');
                    self.out.push_str(ascii_class(letter));
                }
                '\\' if matches!(self.rest.peek(), Some('p' | 'P')) => {
                    let letter = self.rest.next().unwrap_or('p');
                    self.property(letter)?;
                }
                character => self.range(character)?,
            }
            first = false;
        }
    }

    fn range(&mut self, character: char) -> Result<()> {
        let low = self.bound(character)?;
        let mut ahead = self.rest.clone();
        let ranged = ahead.next() == Some('-') && ahead.peek().is_some_and(|next| *next != ']');
        let high = match ranged {
            true => {
                self.rest = ahead;
                let character = self.rest.next().ok_or("a `[` is not closed")?;
                self.bound(character)?
            }
            false => low,
        };
        if high < low {
            return Err("a range in a class is upside down");
        }
        let _ = write!(self.out, "\\x{{{:x}}}-\\x{{{:x}}}", low as u32, high as u32);
        Ok(())
    }

    fn bound(&mut self, character: char) -> Result<char> {
        match character {
            '\\' => {
                let letter = self.rest.next().ok_or("it ends with a backslash")?;
                self.character(letter)
            }
            character => Ok(character),
        }
    }

    fn posix(&mut self) -> Result<()> {
        const NAMES: [&str; 14] = [
            "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct",
            "space", "upper", "word", "xdigit",
        ];
        let mut name = String::new();
        self.rest.next();
        let not = self.rest.next_if_eq(&'^').is_some();
        while let Some(letter) = self.rest.next_if(char::is_ascii_alphabetic) {
            name.push(letter);
        }
        let closed = self.rest.next() == Some(':') && self.rest.next() == Some(']');
        if !closed || !NAMES.contains(&name.as_str()) {
            return Err("there is no such class as `[:name:]`");
        }
        let _ = write!(self.out, "[:{}{name}:]", if not { "^" } else { "" });
        Ok(())
    }

    /// A character that stands for itself.
    fn literal(&mut self, character: char) {
        if character.is_alphanumeric() {
            self.out.push(character);
        } else {
            let _ = write!(self.out, "\\x{{{:x}}}", character as u32);
        }
    }
}

fn ascii_class(letter: char) -> &'static str {
    match letter {
        'd' => "[0-9]",
        'D' => "[^0-9]",
        'w' => "[0-9A-Za-z_]",
        'W' => "[^0-9A-Za-z_]",
        's' => r"[\t\n\x0c\r ]",
        _ => r"[^\t\n\x0c\r ]",
    }
}
