//! `regexp`

use mgmt_funcs_derive::function;
use mgmt_value::Str;

use crate::declare::module;
use crate::{Failure, text};

mod translate;

module! {
    path: "regexp",
    doc: "Regular expressions.",
    functions: [r#match],
}

/// Whether a pattern occurs somewhere in a text; `^` and `$` stand for its ends.
///
/// The syntax is that of RE2. `\d`, `\w`, `\s` and `\b` know ASCII only, `\pL` and the like know all of Unicode. There are no
/// back-references and no look-around, so that the time is always proportional to the length of the text. A pattern that
/// cannot be read is a fatal error.
///
/// ```mcl
/// regexp.match("^h[a-z]+$", "hello") == true
/// regexp.match("(?i)WORLD", "hello world") == true
/// ```
#[function]
fn r#match(pattern: &Str, s: &[u8]) -> Result<bool, Failure> {
    let unreadable =
        |reason: &str| Failure::fatal(format!("the pattern {pattern:?} can't be read: {reason}"));
    let source = pattern.as_str().ok_or_else(|| unreadable("it is not UTF-8"))?;
    let translated = translate::translate(source).map_err(unreadable)?;
    let built = regex::RegexBuilder::new(&translated).nest_limit(1000).build();
    let regex = built.map_err(|error| unreadable(last_line(&error.to_string())))?;
    // A byte that is not UTF-8 counts as one character of its own.
    let text = text::map(s, |character| character);
    Ok(regex.is_match(&String::from_utf8_lossy(&text)))
}

/// The error's own drawing shows the translated pattern, which nobody has written.
fn last_line(message: &str) -> &str {
    message.lines().last().map_or(message, |line| line.trim_start_matches("error: "))
}

#[cfg(test)]
mod tests {
    use crate::modules::tests::shown;
    use mgmt_value::Value;

    #[test]
    fn patterns_are_searched_for() {
        for (pattern, text, expected) in [
            ("b", "abc", true),
            ("^b", "abc", false),
            ("", "", true),
            ("^$", "", true),
            (r"^\d+$", "123", true),
            (r"^\d$", "٣", false),
            (r"^\w$", "é", false),
            (r"^\W$", "é", true),
            (r"^[\w-]+$", "a-b_c", true),
            (r"^[\W]$", "é", true),
            (r"^[^\d]$", "5", false),
            (r"^\s$", "\u{a0}", false),
            (r"^\s$", "\u{b}", false),
            (r"\bé", "é", false),
            (r"^\pL$", "é", true),
            (r"^\p{^Greek}\P{L}$", "a1", true),
            (r"^\Qa.b\E.$", "a.bc", true),
            (r"\Qa.b", "a.b", true),
            (r"^\101\x41\x{41}$", "AAA", true),
            (r"^[[:alpha:]]+$", "ab", true),
            (r"^[[:^alpha:]]+$", "12", true),
            (r"^[a[]+$", "a[", true),
            (r"^[a&&b]+$", "a&b", true),
            (r"^[--~~]+$", "~", true),
            (r"^[]a]+$", "a]", true),
            (r"^[^]a]+$", "b", true),
            (r"^[a-]+$", "a-", true),
            (r"^[\]\-\\]+$", r"]-\", true),
            (r"^a{2}$", "aa", true),
            (r"^a{,2}$", "a{,2}", true),
            (r"^{a}$", "{a}", true),
            (r"^a{x$", "a{x", true),
            (r"(?i)^É$", "é", true),
            (r"(?is:A.)", "a\n", true),
            (r"a.b", "a\nb", false),
            (r"(?m)^b$", "a\nb\nc", true),
            (r"(?P<x>a)(?<y>b)(?:c)", "abc", true),
            (r"\<a\>", "<a>", true),
            (r"a*?b", "b", true),
            (r"^.$", "é", true),
            (r"a$", "a\n", false),
            ("#x y", "#x y", true),
        ] {
            let found = shown("regexp.match", &[Value::str(pattern), Value::str(text)]);
            assert_eq!(found, expected.to_string(), "{pattern} {text}");
        }
    }

    #[test]
    fn a_stray_byte_is_one_character() {
        assert_eq!(shown("regexp.match", &[Value::str("^a.b$"), Value::str(b"a\xffb")]), "true");
        assert_eq!(shown("regexp.match", &[Value::str("^a..b$"), Value::str(b"a\xe2\x82b")]), "true");
        assert_eq!(shown("regexp.match", &[Value::str("^a.b$"), Value::str(b"a\xe2\x82b")]), "false");
    }

    #[test]
    fn what_is_no_pattern_is_fatal() {
        for pattern in [
            "(",
            ")",
            "[",
            "[a",
            "a**",
            "a*+",
            "a{2}{3}",
            "*a",
            "a{1001}",
            "a{2,1}",
            r"\1",
            r"\8",
            r"\z\Z",
            r"\C",
            r"\u0041",
            r"\",
            "(?x)a",
            "(?=a)",
            "(?<=a)",
            "(?P=x)",
            "[z-a]",
            "[[:nope:]]",
            r"\pX",
            r"\x{110000}",
            "(?P<a>)(?P<a>)",
            "(?",
            "(?-)",
            "(?P<é>a)",
            r"\Q(\E(",
        ] {
            let found = shown("regexp.match", &[Value::str(pattern), Value::str("a")]);
            assert!(found.starts_with("F: the pattern"), "{pattern}: {found}");
        }
        assert!(shown("regexp.match", &[Value::str(b"\xff"), Value::str("")]).ends_with("it is not UTF-8"));
        let deep = "(".repeat(100_000);
        assert!(shown("regexp.match", &[Value::str(deep), Value::str("")]).starts_with("F: "));
        let large = "((a{100}){100}){100}";
        assert!(shown("regexp.match", &[Value::str(large), Value::str("")]).starts_with("F: "));
    }
}
