//! Large and deep inputs.

use crate::{Code, Source, format, parse, tests::dump};

/// Parses on a small stack, so that recursion that is too deep shows.
fn parse_on_small_stack(text: String) -> Vec<Code> {
    let run = move || {
        let parsed = parse(&text);
        assert_eq!(parsed.syntax().text().len(), rowan::TextSize::of(text.as_str()));
        let _ = format(&text);
        dump(&text);
        parsed.errors().iter().map(|error| error.code).collect()
    };
    std::thread::Builder::new().stack_size(2 << 20).spawn(run).unwrap().join().unwrap()
}

#[test]
fn deep_nesting_gives_one_error() {
    const MANY: usize = 5_000;
    for opener in
        ["[", "(", "{", "f(", "func() {", "if ", "not ", "$x[", "struct{a => ", "[func(){{1=>(", "!"]
    {
        let codes = parse_on_small_stack(format!("$x = {}", opener.repeat(MANY)));
        assert!(codes.contains(&Code::TooDeep), "{opener:?}: {codes:?}");
        let codes = parse_on_small_stack(format!("$x = {}\n$y = 1\n", opener.repeat(MANY)));
        assert!(codes.contains(&Code::TooDeep), "{opener:?}: {codes:?}");
    }
    for (text, close) in [
        ("class c {\n", "}\n"),
        ("if true { ", " }"),
        ("if true {} else ", ""),
        ("for $a, $b in [] {\n", "}\n"),
    ] {
        let codes = parse_on_small_stack(format!("{}{}", text.repeat(MANY), close.repeat(MANY)));
        assert_eq!(codes.first(), Some(&Code::TooDeep), "{text:?}");
    }
    for text in ["[]", "map{str:", "struct{a ", "func(", "func() "] {
        let codes = parse_on_small_stack(format!("$x {} = 1\n", text.repeat(MANY)));
        assert!(codes.contains(&Code::TooDeep), "{text:?}: {codes:?}");
    }
}

#[test]
fn a_million_open_brackets_give_one_error() {
    let codes = parse_on_small_stack(format!("$x = {}\n", "[".repeat(1_000_000)));
    assert_eq!(codes, [Code::TooDeep]);
}

#[test]
fn long_chains_give_one_error() {
    const MANY: usize = 5_000;
    for link in [" + 1", " <|> $a", "->f", "[0]", "->f <|> 1", "\n\t+ 1", "(1)"] {
        let codes = parse_on_small_stack(format!("$x = $a{}\n$y = 1\n", link.repeat(MANY)));
        assert!(codes.contains(&Code::TooDeep), "{link:?}: {codes:?}");
    }
}

#[test]
fn what_is_deep_but_within_the_limit_is_fine() {
    for depth in [100, 250] {
        let text = format!("$x = {}1{}\n", "[".repeat(depth), "]".repeat(depth));
        assert_eq!(parse_on_small_stack(text.clone()), []);
        assert_eq!(format(&text).as_deref(), Ok(text.as_str()));
    }
    let sum = format!("$x = 1{}\n", " + 1 * 2".repeat(250));
    assert_eq!(parse_on_small_stack(sum.clone()), []);
    assert_eq!(format(&sum).as_deref(), Ok(sum.as_str()));
    let codes = parse_on_small_stack(format!("$x = 1{}\n", " + 1".repeat(256)));
    assert_eq!(codes, [Code::TooDeep]);
}

#[test]
fn what_follows_deep_nesting_is_still_read() {
    let text = format!("$x = {}{}\n$y = 1\n", "[".repeat(1000), "]".repeat(1000));
    assert_eq!(parse_on_small_stack(text.clone()), [Code::TooDeep]);
    assert!(dump(&text).ends_with("(bind $y 1)"));
}

#[test]
fn garbage_takes_linear_time() {
    // Were the time quadratic, this would take hours.
    const SIZE: usize = 200_000;
    for piece in [
        "\\\"\n",
        "\"",
        "'",
        "é",
        "$",
        "@",
        "\r",
        "{",
        "}\n",
        "[,",
        "$x = \"",
        "a b ",
        "(\n",
        "#",
        "-",
        "1.",
        "if ",
        "$x = 1 +\n",
    ] {
        let text = piece.repeat(SIZE / piece.len());
        let parsed = parse(&text);
        assert_eq!(parsed.syntax().text().len(), rowan::TextSize::of(text.as_str()));
        assert!(parsed.errors().len() <= crate::error::Diagnostics::LIMIT + 1);
        let _ = format(&text);
    }
}

#[test]
fn a_text_that_is_too_long_is_refused() {
    let source = Source::bounded("$x = 1\n", 3);
    assert_eq!(source.errors[0].code, Code::TooLarge);
    assert_eq!(source.errors.len(), 1);
}

#[test]
fn bytes_that_are_no_text_are_placed() {
    let error = crate::decode(b"$x = \"\xff\"\n").unwrap_err();
    assert_eq!(error.to_string(), "the text is not UTF-8: byte 0xff at offset 6 (save the file as UTF-8)");
    assert_eq!(error.range.start(), 6.into());
    assert_eq!(crate::decode("é".as_bytes()), Ok("é"));
}
