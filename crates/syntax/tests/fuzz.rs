//! Any bytes can be parsed, walked and formatted.
//!
//! Under `cargo test` each of these runs its corpus and a bounded number of random inputs; `cargo bolero test` runs it
//! for as long as one likes. The corpus is in `__fuzz__`, one directory per test. What once went wrong belongs there.

use mgmt_syntax::{
    Code, LineIndex, MAX_DEPTH, Parse, TextRange, TextSize,
    ast::{AstNode, Expression, Literal, LiteralValue, Statement, StringLiteral, Type},
    decode, format, parse,
};
use std::ops::Range;

/// How many random inputs a plain test run tries.
const ITERATIONS: usize = 2000;

#[test]
fn bytes() {
    bolero::check!().with_iterations(ITERATIONS).for_each(check);
}

/// Bytes that each stand for a word of the language reach deeper than random ones.
#[test]
fn words() {
    const WORDS: &[&str] = &[
        "$x", "$", "x", "=", "==", "=>", "?:", "<|>", "->", "(", ")", "[", "]", "{", "}", ",", ";", ":", ".",
        "\n", " ", "# c\n", "\"s\"", "\"", "\"${x}\"", "'", "1", "-1", "-", "1.5", "+", "*", "/", "<",
        "not ", "and ", "or ", "in ", "if ", "else ", "for ", "forkv ", "func ", "class ", "include ",
        "import ", "as ", "panic", "collect ", "test ", "Test", "Meta", "Before", "struct", "map", "int ",
        "str ", "variant ", "true ", "!", "&&", "@", "é", "\r", "\r\n", "_a", "aB", "\\",
    ];
    bolero::check!().with_iterations(ITERATIONS).with_type::<Vec<u8>>().for_each(|choices| {
        let text: String = choices.iter().map(|&choice| WORDS[usize::from(choice) % WORDS.len()]).collect();
        check(text.as_bytes());
    });
}

/// A program with everything in it, after some edits: the mistakes that people make.
#[test]
fn damaged() {
    const PROGRAM: &str = include_str!("__fuzz__/bytes/corpus/statements.mcl");
    const EXPRESSIONS: &str = include_str!("__fuzz__/bytes/corpus/expressions.mcl");
    let program = format!("{PROGRAM}{EXPRESSIONS}");
    assert_eq!(parse(&program).errors(), []);
    let pieces: Vec<&str> = program.split_inclusive([' ', '\n', ',', '(', ')', '[', '{', '"', '.']).collect();
    bolero::check!().with_iterations(ITERATIONS / 4).with_type::<Vec<(u16, u8, u16)>>().for_each(|edits| {
        let mut pieces = pieces.clone();
        for &(place, action, other) in edits.iter().take(8) {
            let place = usize::from(place) % pieces.len();
            let other = usize::from(other) % pieces.len();
            match action % 4 {
                0 if pieces.len() > 1 => drop(pieces.remove(place)),
                1 => pieces.insert(place, pieces[other]),
                2 => pieces.swap(place, other),
                _ => pieces.truncate(place.max(1)),
            }
        }
        check(pieces.concat().as_bytes());
    });
}

/// All that holds for any bytes.
fn check(bytes: &[u8]) {
    let text = match decode(bytes) {
        Ok(text) => text,
        Err(error) => {
            assert!(usize::from(error.range.start()) < bytes.len());
            return;
        }
    };
    let parsed = parse(text);
    check_parse(text, &parsed);
    match format(text) {
        Ok(formatted) => {
            assert_eq!(format(&formatted), Ok(formatted.clone()));
            assert!(parse(&formatted).errors().iter().all(|error| error.code.is_in_string()));
        }
        Err(errors) => {
            assert!(errors.iter().all(|error| error.code != Code::FormatterBug));
            assert!(parsed.errors().iter().any(|error| !error.code.is_in_string()));
        }
    }
}

fn check_parse(text: &str, parsed: &Parse) {
    assert_eq!(parsed.syntax().to_string(), text);
    assert!(parsed.depth() <= MAX_DEPTH);
    let index = LineIndex::new(text);
    let is_place = |range: TextRange| text.get(Range::<usize>::from(range)).is_some();
    for error in parsed.errors() {
        assert!(is_place(error.range), "{error:?}");
        assert!(error.label.as_ref().is_none_or(|label| is_place(label.range)), "{error:?}");
        assert_eq!(index.offset(index.line_column(error.range.start())), Some(error.range.start()));
        assert!(!error.to_string().is_empty() && !error.code.id().is_empty());
    }
    assert!(parsed.errors().is_sorted_by_key(|error| error.range.start()));
    assert!(parsed.leniencies().iter().all(|leniency| is_place(leniency.range)));
    let mut in_strings = 0;
    for node in parsed.syntax().descendants() {
        assert!(is_place(node.text_range()));
        if let Some(literal) = Literal::cast(node.clone())
            && let Some(LiteralValue::String(string)) = literal.value()
        {
            check_string(text, &string);
            in_strings += string.errors().len();
        }
        // Nothing is both, and whoever looks at one of them by its kind gets the same node.
        let casts = [
            Statement::cast(node.clone()).is_some(),
            Expression::cast(node.clone()).is_some(),
            Type::cast(node).is_some(),
        ];
        assert!(casts.iter().filter(|is| **is).count() <= 1);
    }
    // What is wrong in the strings is all there is, up to the number of errors that are kept.
    if parsed.errors().iter().all(|error| error.code.is_in_string()) {
        assert_eq!(parsed.errors().len(), in_strings.min(500));
    }
}

/// The parts lie end to end, and the pieces mean what the parts mean.
fn check_string(text: &str, string: &StringLiteral) {
    use mgmt_syntax::{StringPart, StringPiece};
    let mut at = string.range().start() + TextSize::new(1);
    let mut expected = String::new();
    for part in string.parts() {
        assert_eq!(part.range().start(), at);
        at = part.range().end();
        match part {
            StringPart::Text { value, .. } => expected.push_str(value),
            StringPart::Escape { value, .. } => expected.push(value),
            StringPart::Variable { name, name_range, .. } => {
                assert_eq!(&text[name_range], name);
                expected.push_str(name);
            }
            StringPart::Invalid { .. } => {}
        }
    }
    let mut found = String::new();
    for piece in string.pieces() {
        match piece {
            StringPiece::Text { value, .. } => found.push_str(&value),
            StringPiece::Variable { name, .. } => found.push_str(name),
        }
    }
    assert_eq!(found, expected);
    if let Some(plain) = string.plain() {
        assert!(string.errors().is_empty());
        assert_eq!(plain, expected);
    }
}
