//! Any bytes can be parsed and formatted.
//!
//! Under `cargo test` this runs the corpus and a bounded number of random inputs; `cargo bolero test` runs it for as long
//! as one likes. The corpus is in `__fuzz__`, one directory per test.

use mgmt_syntax::{Code, decode, format, parse};

/// How many random inputs a plain test run tries.
const ITERATIONS: usize = 2000;

fn check(bytes: &[u8]) {
    let text = match decode(bytes) {
        Ok(text) => text,
        Err(error) => {
            assert!(usize::from(error.range.start()) < bytes.len());
            return;
        }
    };
    let parsed = parse(text);
    assert_eq!(parsed.syntax().to_string(), text);
    for error in parsed.errors() {
        assert!(text.get(std::ops::Range::<usize>::from(error.range)).is_some(), "{error:?}");
    }
    match format(text) {
        Ok(formatted) => assert_eq!(format(&formatted), Ok(formatted.clone())),
        Err(errors) => {
            assert!(errors.iter().all(|error| error.code != Code::FormatterBug));
            assert!(parsed.errors().iter().any(|error| !error.code.is_in_string()));
        }
    }
}

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
