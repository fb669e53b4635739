use super::*;

/// The parts as text: `<name>` for a variable, `\u{..}` for an escape.
#[track_caller]
fn check(inside: &str, expected: &str) {
    let (parts, errors) = parts(inside, 1.into());
    assert_eq!(errors, [], "{inside:?}");
    let shown: Vec<String> = parts
        .iter()
        .map(|part| match part {
            StringPart::Text { value, .. } => (*value).to_owned(),
            StringPart::Escape { value, .. } => format!("[{}]", u32::from(*value)),
            StringPart::Variable { name, .. } => format!("<{name}>"),
            StringPart::Invalid { .. } => "?".to_owned(),
        })
        .collect();
    assert_eq!(shown.concat(), expected, "{inside:?}");
    lie_end_to_end(inside, &parts);
}

fn lie_end_to_end(inside: &str, parts: &[StringPart<'_>]) {
    let mut at = TextSize::new(1);
    for part in parts {
        assert_eq!(part.range().start(), at, "{inside:?}");
        at = part.range().end();
    }
    assert_eq!(usize::from(at), inside.len() + 1, "{inside:?}");
}

/// The one error is at this piece of the text, with this message.
#[track_caller]
fn check_error(inside: &str, place: &str, message: &str) {
    let (parts, errors) = parts(inside, 0.into());
    assert_eq!(errors.len(), 1, "{inside:?}: {errors:?}");
    assert_eq!(&inside[errors[0].range], place, "{inside:?}");
    assert_eq!(errors[0].message, message, "{inside:?}");
    assert!(parts.iter().any(|part| matches!(part, StringPart::Invalid { .. })));
}

#[test]
fn the_table_of_what_is_valid() {
    check("", "");
    check("abc", "abc");
    check("${x}", "<x>");
    check("${a.b.c}", "<a.b.c>");
    check("$x", "$x");
    check("$ {x}", "$ {x}");
    check("$", "$");
    check("$$", "$$");
    check("$$$", "$$$");
    check("$${x}", "$<x>");
    check("$$${x}", "$$<x>");
    check("\\${x}", "[36]{x}");
    check("\\\\${x}", "[92]<x>");
    check("\\\\\\$", "[92][36]");
    check("{x}", "{x}");
    check("${foo_}${a__b}", "<foo_><a__b>");
    check("${in}", "<in>");
    check("a${x}é${y}\n", "a<x>é<y>\n");
    check("\\a\\b\\t\\n\\v\\f\\r\\\\\\\"\\$", "[7][8][9][10][11][12][13][92][34][36]");
}

#[test]
fn the_table_of_what_is_not() {
    let name = "only the name of a variable can stand in `${…}`";
    check_error("a${}b", "${}", "`${}` names no variable");
    check_error("a${x", "${x", "`${` without its `}`");
    check_error("${", "${", "`${` without its `}`");
    check_error("${1}", "1", name);
    check_error("${X}", "X", name);
    check_error("${x y}", " ", name);
    check_error("${f()}", "(", name);
    check_error("${$x}", "$", "expected a variable name and `}` after `${`");
    check_error("${x.}", ".", name);
    check_error("${é}", "é", name);
    check_error("\\z", "\\z", "unknown escape sequence `\\z`");
    check_error("ab\\0", "\\0", "unknown escape sequence `\\0`");
    check_error("\\x41", "\\x", "unknown escape sequence `\\x`");
    check_error("\\u00e9", "\\u", "unknown escape sequence `\\u`");
    check_error("\\é", "\\é", "unknown escape sequence `\\é`");
    check_error("a\\\nb", "\\\n", "unknown escape sequence `\\\\n`");
    check_error("a\\", "\\", "a backslash alone at the end of a string");
}

#[test]
fn one_mistake_does_not_hide_the_next() {
    let (parts, errors) = parts("${} \\z ${ok} ${x ${y} z}", 0.into());
    assert_eq!(errors.len(), 3, "{errors:?}");
    let names = parts.iter().filter(|part| matches!(part, StringPart::Variable { .. }));
    assert_eq!(names.count(), 2);
    lie_end_to_end_from_zero("${} \\z ${ok} ${x ${y} z}", &parts);
}

fn lie_end_to_end_from_zero(inside: &str, parts: &[StringPart<'_>]) {
    let mut at = TextSize::new(0);
    for part in parts {
        assert_eq!(part.range().start(), at, "{inside:?}");
        at = part.range().end();
    }
    assert_eq!(usize::from(at), inside.len());
}

/// The pieces as text and place: `<name>` for a variable.
#[track_caller]
fn check_pieces(inside: &str, expected: &[&str]) {
    let shown: Vec<String> = pieces(inside, 0.into())
        .iter()
        .map(|piece| match piece {
            StringPiece::Text { value, range } => format!("{value}@{}", &inside[*range]),
            StringPiece::Variable { name, range, name_range } => {
                assert_eq!(&inside[*name_range], *name);
                format!("<{name}>@{}", &inside[*range])
            }
        })
        .collect();
    assert_eq!(shown, expected, "{inside:?}");
}

#[test]
fn pieces_join_text_and_escapes() {
    check_pieces("", &[]);
    check_pieces("abc", &["abc@abc"]);
    check_pieces("a\\tb\\\\${x.y}\\$z$", &["a\tb\\@a\\tb\\\\", "<x.y>@${x.y}", "$z$@\\$z$"]);
    check_pieces("${a}${b}", &["<a>@${a}", "<b>@${b}"]);
    check_pieces("a${}b", &["a@a", "b@b"]);
}

#[test]
fn only_a_string_without_variables_and_mistakes_is_plain() {
    assert!(matches!(plain("a b"), Some(Cow::Borrowed("a b"))));
    assert_eq!(plain("").as_deref(), Some(""));
    assert_eq!(plain("$ \\$ \\n").as_deref(), Some("$ $ \n"));
    for not_plain in ["${a}", "a${b}", "\\q", "a${}", "${", "\\", "${}a"] {
        assert_eq!(plain(not_plain), None, "{not_plain:?}");
    }
}
