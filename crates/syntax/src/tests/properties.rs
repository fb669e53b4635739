//! What holds for every text.

use super::generate::program;
use crate::{Code, SyntaxElement, SyntaxKind, SyntaxNode, ast::AstNode, format, parse};
use proptest::prelude::*;
use text_size::{TextRange, TextSize};

/// Checks all that must hold for a parsed text.
fn check_invariants(text: &str) -> Result<(), TestCaseError> {
    let parsed = parse(text);
    let root = parsed.syntax();
    prop_assert_eq!(root.to_string(), text, "the tree is lossless");
    let whole = TextRange::up_to(TextSize::of(text));
    for error in parsed.errors() {
        prop_assert!(whole.contains_range(error.range), "{error:?} lies outside of {text:?}");
        prop_assert!(
            text.get(std::ops::Range::<usize>::from(error.range)).is_some(),
            "{error:?} cuts a character of {text:?}"
        );
        prop_assert!(error.label.as_ref().is_none_or(|label| whole.contains_range(label.range)));
    }
    prop_assert!(parsed.errors().is_sorted_by_key(|error| error.range.start()));
    prop_assert!(parsed.leniencies().iter().all(|leniency| whole.contains_range(leniency.range)));
    let laid_out: String = root.tokens().map(|token| token.text().to_owned()).collect();
    prop_assert_eq!(laid_out, text, "the tokens are the text");
    for node in root.descendants() {
        check_node(&node, parsed.errors().is_empty())?;
    }
    super::dump(text);
    Ok(())
}

fn check_node(node: &SyntaxNode, clean: bool) -> Result<(), TestCaseError> {
    prop_assert!(!clean || node.kind() != SyntaxKind::Error, "an error node without an error");
    // Its parts come one after the other, inside of it.
    let mut at = node.text_range().start();
    for element in node.elements() {
        prop_assert!(!element.kind().is_trivia(), "{element:?} is a part of {node:?}");
        let range = match &element {
            SyntaxElement::Node(node) => node.text_range(),
            SyntaxElement::Token(token) => token.text_range(),
        };
        prop_assert!(range.start() >= at, "{element:?} in {node:?} starts before {at:?}");
        at = range.end();
    }
    prop_assert!(at <= node.text_range().end(), "{node:?} ends before its parts");
    if node.kind() == SyntaxKind::SourceFile {
        return Ok(());
    }
    let (first, last) = (node.first_token(), node.last_token());
    prop_assert!(!clean || first.is_some(), "{node:?} is empty");
    if let (Some(first), Some(last)) = (first, last) {
        let range = TextRange::new(first.text_range().start(), last.text_range().end());
        prop_assert_eq!(node.text_range(), range, "{:?} is more than its tokens", node);
        let written: String = node.tokens().map(|token| token.text().to_owned()).collect();
        prop_assert_eq!(written, node.text());
    }
    Ok(())
}

/// The tokens that matter, with the nodes around them: a tree without its layout.
fn skeleton(text: &str) -> String {
    // Commas are optional at the end of a list, numbers have many spellings: the dump knows what they mean.
    super::dump(text)
}

/// Formatting works, keeps the meaning and the comments, and does nothing the second time.
fn check_format(text: &str) -> Result<(), TestCaseError> {
    let formatted = match format(text) {
        Ok(formatted) => formatted,
        Err(errors) => {
            prop_assert!(errors.iter().all(|error| error.code != Code::FormatterBug), "{text:?}");
            return Ok(());
        }
    };
    prop_assert_eq!(format(&formatted), Ok(formatted.clone()), "not stable: {:?}", text);
    prop_assert_eq!(skeleton(&formatted), skeleton(text), "meaning changed: {:?}", text);
    prop_assert_eq!(comments(&formatted), comments(text), "comments changed: {:?}", text);
    prop_assert!(formatted.is_empty() || formatted.ends_with('\n'));
    prop_assert!(!formatted.starts_with('\n') && !formatted.ends_with("\n\n"), "{formatted:?}");
    Ok(())
}

fn comments(text: &str) -> Vec<String> {
    let tokens = parse(text).tree().syntax().tokens();
    tokens.filter(|token| token.kind() == SyntaxKind::Comment).map(|token| token.text().to_owned()).collect()
}

/// Words and signs of the language in any order.
fn soup() -> impl Strategy<Value = String> {
    let words = [
        "$", "x", "$x", "=", "==", "=>", "?:", "<|>", "->", "(", ")", "[", "]", "{", "}", ",", ";", ":", ".",
        "\n", "\n", " ", "#c\n", "\"s\"", "\"", "\"${x}\"", "'q'", "1", "-1", "-", "1.5", "+", "*", "not ",
        "and ", "in ", "if ", "else ", "for ", "forkv ", "func ", "class ", "include ", "import ", "as ",
        "panic", "collect ", "test ", "Test", "Meta", "struct", "map", "int ", "str ", "[]", "true ", "!",
        "&&", "@", "é", "\r", "\r\n", "#", "_a", "aB",
    ];
    prop::collection::vec(prop::sample::select(words.to_vec()), 0..60).prop_map(|words| words.concat())
}

proptest! {
    #[test]
    fn any_text_can_be_parsed_and_formatted(text in "\\PC*") {
        check_invariants(&text)?;
        check_format(&text)?;
    }

    #[test]
    fn any_tokens_can_be_parsed_and_formatted(text in soup()) {
        check_invariants(&text)?;
        check_format(&text)?;
    }

    #[test]
    fn a_valid_program_has_no_errors_and_a_canonical_form(choices in prop::collection::vec(any::<u8>(), 0..400)) {
        let text = program(&choices);
        let errors = super::errors(&text);
        prop_assert_eq!(errors, "", "{}", text);
        check_invariants(&text)?;
        check_format(&text)?;
        prop_assert!(format(&text).is_ok());
    }

    #[test]
    fn a_damaged_program_can_be_parsed(choices in prop::collection::vec(any::<u8>(), 0..400), cut in any::<prop::sample::Index>(), length in 0..20_usize) {
        let mut text: Vec<char> = program(&choices).chars().collect();
        if !text.is_empty() {
            let start = cut.index(text.len());
            text.drain(start..(start + length).min(text.len()));
        }
        let text: String = text.into_iter().collect();
        check_invariants(&text)?;
        check_format(&text)?;
    }
}

#[test]
fn a_canonical_program_has_only_the_leniencies_that_mean_something() {
    use crate::LeniencyKind::*;
    let text =
        "$in = 1\nif $a {} else if $b {}\n$x = 1 +\n\t2\n$l = [1, 2,]\n$s = $a -1\nif $x { $y = (\n1) }";
    let kinds =
        |text: &str| -> Vec<_> { parse(text).leniencies().iter().map(|leniency| leniency.kind).collect() };
    assert_eq!(
        kinds(text),
        [
            InAsName,
            ElseIf,
            NewlineAtOperator,
            TrailingComma,
            GluedMinus,
            NewlineInBrackets,
            OneLineBlock,
            MissingFinalNewline
        ]
    );
    let formatted = format(text).unwrap();
    assert_eq!(
        kinds(&formatted),
        [InAsName, ElseIf, NewlineAtOperator, NewlineInBrackets, NewlineInBrackets]
    );
}
