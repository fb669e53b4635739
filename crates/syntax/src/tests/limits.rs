//! Large and deep inputs.

use crate::{Code, MAX_DEPTH, Source, format, parse, tests::dump, with_deep_stack};

/// Runs on a stack as small as that of a test or of a task, so that recursion that is too deep shows.
fn on_small_stack<T: Send>(run: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let small = std::thread::Builder::new().stack_size(2 << 20);
        small.spawn_scoped(scope, run).unwrap().join().unwrap()
    })
}

/// Parses, formats, walks and drops the tree of a text.
fn codes(text: &str) -> Vec<Code> {
    on_small_stack(|| {
        let parsed = parse(text);
        assert_eq!(parsed.syntax().text(), text);
        assert!(parsed.depth() <= MAX_DEPTH);
        let _ = format(text);
        with_deep_stack(parsed.depth(), || dump(text)).unwrap();
        parsed.errors().iter().map(|error| error.code).collect()
    })
}

/// What can be inside itself: what is before and after it. The innermost is `1`, or nothing where statements are.
const NESTED_VALUES: &[(&str, &str)] = &[
    ("(", ")"),
    ("[", "]"),
    ("[1, ", ", 2]"),
    ("{1 => ", "}"),
    ("{", " => 1}"),
    ("struct{a => ", "}"),
    ("f(", ")"),
    ("$f(1, ", ")"),
    ("func() { ", " }"),
    ("func($x int) int { ", " }"),
    ("func() { ", " }()"),
    ("if $c { ", " } else { 2 }"),
    ("if $c { 1 } else { ", " }"),
    ("if ", " { 1 } else { 2 }"),
    ("not ", ""),
    ("$x[", "]"),
    ("[\n\t", ",\n]"),
];
const NESTED_STATEMENTS: &[(&str, &str)] = &[
    ("class c {\n", "}\n"),
    ("if $c {\n", "}\n"),
    ("if $c {\n} else {\n", "}\n"),
    ("for $i, $v in $l {\n", "}\n"),
    ("forkv $k, $v in $m {\n", "}\n"),
    ("if true { ", " }"),
];
const NESTED_TYPES: &[(&str, &str)] = &[
    ("[]", ""),
    ("map{str: ", "}"),
    ("struct{a ", "}"),
    ("func(", ") int"),
    ("func() ", ""),
    ("func($a ", ") int"),
];
const LINKS: &[&str] = &[
    " + 1",
    " - 1",
    " + 1 * 2",
    " and true",
    " or $b",
    " <|> $b",
    "->f",
    "[0]",
    "->f <|> 1",
    "\n\t+ 1",
    " +\n\tf(1)",
];
/// `else if`, at the end of which is `else`.
const LADDERS: &[(&str, &str, &str)] = &[
    ("if $c {}", " else if $d {}", " else {}\n"),
    ("$x = if $c { 0 }", " else if $d { 1 }", " else { 2 }\n"),
    ("$x = if $c {\n\t0\n}", " else if $d {\n\t1\n}", " else {\n\t2\n}\n"),
];

/// Texts with everything that nests or chains, so many times.
fn deep_texts(times: usize) -> impl Iterator<Item = String> {
    let nest = move |(open, close): (&str, &str), inner: &str| {
        format!("{}{inner}{}", open.repeat(times), close.repeat(times))
    };
    let values = NESTED_VALUES.iter().map(move |&pair| format!("$x = {}\n", nest(pair, "1")));
    let statements = NESTED_STATEMENTS.iter().map(move |&pair| nest(pair, "") + "\n");
    let types = NESTED_TYPES.iter().map(move |&pair| format!("$x {} = 1\n", nest(pair, "int")));
    let chains = LINKS.iter().map(move |link| format!("$x = $a{}\n", link.repeat(times)));
    let ladders =
        LADDERS.iter().map(move |(first, next, last)| format!("{first}{}{last}", next.repeat(times)));
    values.chain(statements).chain(types).chain(chains).chain(ladders)
}

fn shown(text: &str) -> String {
    text.chars().take(60).collect()
}

#[test]
fn what_is_two_thousand_deep_is_fine() {
    for text in deep_texts(2000) {
        on_small_stack(|| {
            let parsed = parse(&text);
            assert_eq!(parsed.errors(), [], "{}", shown(&text));
            let formatted = format(&text).unwrap();
            assert_eq!(format(&formatted).as_ref(), Ok(&formatted), "{}", shown(&text));
            let skeleton = |text: &str| with_deep_stack(parsed.depth(), || dump(text)).unwrap();
            assert_eq!(skeleton(&formatted), skeleton(&text), "{}", shown(&text));
            // A token keeps the whole tree.
            let last = parsed.syntax().last_token().unwrap();
            drop(parsed);
            assert!(text.trim_end().ends_with(last.text()), "{}", shown(&text));
        });
    }
}

#[test]
fn what_is_too_deep_gives_an_error_and_the_rest_is_read() {
    for text in deep_texts(3500) {
        let text = text + "$y = 1\n";
        let codes = codes(&text);
        assert!(codes.contains(&Code::TooDeep), "{}: {codes:?}", shown(&text));
    }
}

#[test]
fn nothing_that_is_left_open_overflows() {
    for (open, _) in NESTED_VALUES.iter().chain(&[("[func(){{1=>(", ""), ("!", ""), ("- ", "")]) {
        for end in ["", "\n$y = 1\n"] {
            let codes = codes(&format!("$x = {}{end}", open.repeat(3500)));
            assert!(!codes.is_empty(), "{open:?}");
        }
    }
    for (open, _) in NESTED_STATEMENTS {
        assert!(!codes(&open.repeat(3500)).is_empty(), "{open:?}");
    }
}

#[test]
fn the_limit_is_exact() {
    let parens = |depth: usize| format!("$x = {}1{}\n", "(".repeat(depth), ")".repeat(depth));
    let sum = |terms: usize| format!("$x = 1{}\n", " + 1".repeat(terms));
    let limit = MAX_DEPTH as usize;
    for text in [parens(limit - 1), sum(limit - 1)] {
        assert_eq!(codes(&text), []);
        assert_eq!(parse(&text).depth(), MAX_DEPTH);
    }
    for text in [parens(limit), sum(limit), sum(100_000)] {
        assert_eq!(codes(&text), [Code::TooDeep]);
    }
    assert_eq!(parse(&sum(limit)).errors()[0].message, "this is nested too deeply: the limit is 3000");
    assert_eq!(parse("$x = 1\n").depth(), 1);
    assert_eq!(parse(&format!("$x = [{}]\n", "1 + 1, ".repeat(500))).depth(), 3);
}

#[test]
fn a_level_is_at_most_three_nodes() {
    for text in deep_texts(1000).chain(deep_texts(3500)) {
        let parsed = parse(&text);
        let mut deepest = 0_u32;
        let mut waiting = vec![(parsed.syntax(), 1)];
        while let Some((node, depth)) = waiting.pop() {
            deepest = deepest.max(depth);
            waiting.extend(node.children().map(|child| (child, depth + 1)));
        }
        assert!(deepest <= 3 * parsed.depth() + 10, "{}: {deepest} {}", shown(&text), parsed.depth());
    }
}

#[test]
fn a_million_open_brackets_give_one_error() {
    assert_eq!(codes(&format!("$x = {}\n", "[".repeat(1_000_000))), [Code::TooDeep]);
}

#[test]
fn what_follows_deep_nesting_is_still_read() {
    let text = format!("$x = {}{}\n$y = 1\n", "[".repeat(5000), "]".repeat(5000));
    assert_eq!(codes(&text), [Code::TooDeep]);
    assert!(with_deep_stack(MAX_DEPTH, || dump(&text)).unwrap().ends_with("(bind $y 1)"));
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
        assert_eq!(parsed.syntax().text(), text);
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
