use super::{check, graph};

/// Sets one field of the kind that has all types, and reads it back.
#[track_caller]
fn value(field: &str, yaml: &str) -> String {
    let graph = graph(&format!("graph: x\nresources:\n  every:\n  - name: one\n    {field}: {yaml}\n"));
    let (_, spec) = graph.graph.nodes().next().unwrap();
    spec.resource.get(field).unwrap().to_string()
}

/// Sets one field of the kind that has all types, and says why that does not work.
#[track_caller]
fn wrong(field: &str, yaml: &str, expected: &str) {
    check(&format!("graph: x\nresources:\n  every:\n  - name: one\n    {field}: {yaml}\n"), expected);
}

#[test]
fn truth_values_have_many_words() {
    for yes in ["true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON", "y", "Y", "!!bool 'yes'"] {
        assert_eq!(value("flag", yes), "true", "{yes}");
    }
    for no in ["false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF", "n", "N"] {
        assert_eq!(value("flag", no), "false", "{no}");
    }
}

#[test]
fn integers_have_many_notations() {
    for (yaml, expected) in [
        ("42", "42"),
        ("-1", "-1"),
        ("0644", "420"),
        ("0o644", "420"),
        ("1_000", "1000"),
        ("0x1f", "31"),
        ("0b101", "5"),
        ("300.0", "300"),
        ("!!int '12'", "12"),
        ("12 # a dozen", "12"),
    ] {
        assert_eq!(value("number", yaml), expected, "{yaml}");
    }
}

#[test]
fn floats_have_many_notations() {
    for (yaml, expected) in [("0.2", 0.2), ("1e3", 1000.0), ("3", 3.0), ("-.5", -0.5), ("0x10", 16.0)] {
        assert_eq!(value("float", yaml).parse::<f64>().unwrap(), expected, "{yaml}");
    }
    let infinite = value("float", ".inf");
    assert!(infinite.to_lowercase().contains("inf"), "{infinite}");
}

#[test]
fn text_is_kept_exactly() {
    for text in
        ["0644", "yes", "1.10", "1_000", "0x1f", ".inf", "a b  c", "2001-01-01", "[not", "'tis", "x # no"]
    {
        let yaml = match text {
            "[not" | "x # no" => format!("'{text}'"),
            "'tis" => "\"'tis\"".to_owned(),
            _ => text.to_owned(),
        };
        assert_eq!(value("text", &yaml), format!("{text:?}"));
    }
    assert_eq!(value("text", "\"a\\tb\\u00e9\""), "\"a\\tbé\"");
    assert_eq!(value("text", "|\n      one\n       two\n"), "\"one\\n two\\n\"");
    assert_eq!(value("text", ">-\n      one\n      two\n"), "\"one two\"");
    assert_eq!(value("text", "one\n      two"), "\"one two\"");
    assert_eq!(value("text", "!!binary aGk="), "\"hi\"");
    // As Ruby writes it.
    assert_eq!(value("text", "!binary |-\n      aGk="), "\"hi\"");
    assert_eq!(value("text", "! 12"), "\"12\"");
}

#[test]
fn nothing_unsets_an_optional_and_leaves_the_rest_at_its_default() {
    for null in ["", "~", "null", "Null", "NULL", "!!null ''"] {
        assert_eq!(value("maybe", null), "nil", "{null}");
        assert_eq!(value("maybe_text", null), "nil", "{null}");
        assert_eq!(value("text", null), "\"\"", "{null}");
        assert_eq!(value("number", null), "7", "{null}");
        assert_eq!(value("flag", null), "true", "{null}");
        assert_eq!(value("list", null), "[\"default\"]", "{null}");
    }
    assert_eq!(value("maybe_text", "''"), "\"\"");
    assert_eq!(value("maybe", "3"), "3");
}

#[test]
fn lists_maps_and_structs_are_decoded_by_their_types() {
    assert_eq!(value("list", "[yes, 0644, 'x', ~]"), "[\"yes\", \"0644\", \"x\", \"\"]");
    assert_eq!(value("list", "\n    - a\n    - b"), "[\"a\", \"b\"]");
    assert_eq!(value("lists", "[[1, 0x2], [], [3]]"), "[[1, 2], [], [3]]");
    assert_eq!(value("map", "{b: 2, a: 0o1}"), "{\"a\": 1, \"b\": 2}");
    assert_eq!(value("numbered", "{2: two, 0x1: one}"), "{1: \"one\", 2: \"two\"}");
    assert_eq!(value("pair", "{number: 3, name: 007}"), "struct{name: \"007\"; number: 3}");
    assert_eq!(value("pair", "{name: }"), "struct{name: \"\"; number: 0}");
}

#[test]
fn a_parameter_of_any_type_takes_the_natural_one() {
    for (yaml, expected) in [
        ("yes", "true"),
        ("12", "12"),
        ("1.5", "1.5"),
        ("hello", "\"hello\""),
        ("'12'", "\"12\""),
        ("!!str 12", "\"12\""),
        ("!!float 12", "12"),
        ("[1, 2]", "[1, 2]"),
        ("[1, a]", "[1, \"a\"]"),
        ("{a: 1, b: 2}", "{\"a\": 1, \"b\": 2}"),
        ("{a: 1, b: x}", "struct{a: 1; b: \"x\"}"),
        ("", "nil"),
    ] {
        assert_eq!(value("any", yaml), expected, "{yaml}");
    }
}

#[test]
fn a_quoted_number_or_truth_value_is_an_error() {
    let hint = "take the quotes away: a value in quotes is always text";
    wrong(
        "flag",
        "'yes'",
        &format!(
            "E Y0206 5:11 `flag` expects bool, found the quoted text `yes` | {hint} | `flag`: A truth value."
        ),
    );
    wrong(
        "number",
        "\"12\"",
        &format!(
            "E Y0206 5:13 `number` expects int, found the quoted text `12` | {hint} | `number`: A number."
        ),
    );
    wrong(
        "float",
        "'1.5'",
        &format!(
            "E Y0206 5:12 `float` expects float, found the quoted text `1.5` | {hint} | `float`: A fraction."
        ),
    );
    wrong(
        "number",
        "!!str 12",
        &format!("E Y0206 5:13 `number` expects int, found `12` | {hint} | `number`: A number."),
    );
}

#[test]
fn a_value_of_another_type_names_both() {
    wrong(
        "flag",
        "maybe",
        "E Y0206 5:11 `flag` expects bool, found `maybe` | write `true` or `false` | `flag`: A truth value.",
    );
    wrong(
        "number",
        "ten",
        "E Y0206 5:13 `number` expects int, found `ten` | write a whole number, such as `42`, `0x2a` or `0o52` | `number`: A number.",
    );
    wrong(
        "number",
        "1.5",
        "E Y0206 5:13 `number` expects int, found `1.5` | write a whole number | `number`: A number.",
    );
    wrong(
        "number",
        "089",
        "E Y0206 5:13 `number` expects int, found `089` | a number that starts with 0 is octal and has the digits 0 to 7 only | `number`: A number.",
    );
    wrong(
        "number",
        "99999999999999999999",
        "E Y0206 5:13 `number` expects int, found `99999999999999999999` | the number has to fit 64 bits | `number`: A number.",
    );
    wrong(
        "number",
        "1:30",
        "E Y0206 5:13 `number` expects int, found `1:30` | write a whole number, such as `42`, `0x2a` or `0o52` | `number`: A number.",
    );
    wrong(
        "float",
        "much",
        "E Y0206 5:12 `float` expects float, found `much` | write a number such as `1.5`, or `.inf` | `float`: A fraction.",
    );
    wrong(
        "text",
        "[a]",
        "E Y0206 5:11 `text` expects str, found a list | put the text in quotes if it starts with a bracket | `text`: A text.",
    );
    wrong("text", "!!binary $", "E Y0206 5:11 `text`: the `!!binary` text is not base64 | `text`: A text.");
    wrong(
        "list",
        "one",
        "E Y0206 5:11 `list` expects []str, found `one` | write a list, such as `[a, b]`, also for one item | `list`: Some texts.",
    );
    wrong(
        "map",
        "3",
        "E Y0206 5:10 `map` expects map{str: int}, found `3` | write a map, such as `{key: value}` | `map`: Numbers by name.",
    );
    wrong(
        "complex",
        "3",
        "E Y0206 5:14 `complex` can't be set in YAML: a nil has no written form | `complex`: Not to be set.",
    );
}

#[test]
fn all_mistakes_inside_a_value_are_found() {
    wrong(
        "lists",
        "[[1, x], 2, [y]]",
        "E Y0206 5:17 `lists` expects [][]int, found `x` where int is expected | write a whole number, such as `42`, `0x2a` or `0o52` | `lists`: Some lists of numbers.
         E Y0206 5:21 `lists` expects [][]int, found `2` where []int is expected | write a list, such as `[a, b]`, also for one item | `lists`: Some lists of numbers.
         E Y0206 5:25 `lists` expects [][]int, found `y` where int is expected | write a whole number, such as `42`, `0x2a` or `0o52` | `lists`: Some lists of numbers.",
    );
    wrong(
        "numbered",
        "{one: two, 2: [a]}",
        "E Y0206 5:16 a key of `numbered` has to be int, found `one`
         E Y0206 5:29 `numbered` expects map{int: str}, found a list where str is expected | put the text in quotes if it starts with a bracket | `numbered`: Texts by number.",
    );
    wrong(
        "pair",
        "{nam: x, number: []}",
        "W Y0204 5:12 `pair` has no field `nam` | did you mean `name`?
         E Y0206 5:28 `pair` expects struct{name str; number int}, found a list where int is expected | `pair`: Two things together.",
    );
}

#[test]
fn a_number_has_to_fit() {
    wrong(
        "small",
        "256",
        "E Y0207 5:12 `small`: int `256` does not fit a `uint8` field: it will overflow it | `small`: A small number.",
    );
    wrong(
        "small",
        "-1",
        "E Y0207 5:12 `small`: can't store negative int `-1` into unsigned `uint8` field | `small`: A small number.",
    );
}

#[test]
fn a_secret_is_neither_named_nor_pointed_at() {
    check(
        "graph: x\nresources:\n  lock:\n  - name: one\n    code: hunter2\n  - name: two\n    code: 13\n  - {name: three, code: 99999999999}\n",
        "E Y0206 5:5 `code` expects int, found something else | write a whole number, such as `42`, `0x2a` or `0o52` | `code`: The number that opens it.
         E Y0208 7:5 lock[two]: `code`: an unlucky number
         E Y0207 8:19 `code`: the value does not fit | `code`: The number that opens it.",
    );
}
