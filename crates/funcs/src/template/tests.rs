use std::cell::Cell;

use super::run;
use crate::Failure;
use crate::modules::tests::Nothing;
use mgmt_value::{Type, Value};

fn shown(template: &str, vars: Option<&Value>) -> String {
    match run(&Nothing, &Cell::default(), &template.into(), vars) {
        Ok(text) => text.to_text().into_owned(),
        Err(Failure::Catchable(message)) => format!("C: {message}"),
        Err(Failure::Fatal(message)) => format!("F: {message}"),
    }
}

fn data() -> Value {
    let texts = |items: &[&str]| Value::list(Type::Str, items.iter().map(Value::str).collect());
    Value::structure([
        ("name", Value::str("web")),
        ("count", Value::Int(3)),
        ("ratio", Value::Float(1_000_000.0)),
        ("on", Value::Bool(true)),
        ("list", texts(&["a", "b", "c"])),
        ("empty", texts(&[])),
        ("raw_query", Value::str("q")),
        (
            "map",
            Value::map(
                Type::Str,
                Type::Int,
                [("y", 2), ("x", 1)].map(|(k, v)| (Value::str(k), Value::Int(v))),
            ),
        ),
        ("ints", Value::map(Type::Int, Type::Str, [(Value::Int(7), Value::str("seven"))])),
    ])
}

#[track_caller]
fn check(template: &str, expected: &str) {
    assert_eq!(shown(template, Some(&data())), expected, "{template}");
}

#[test]
fn values_print_like_go_prints_them() {
    check("plain é", "plain é");
    check("{{ .Name }}-{{.Count}}-{{.On}}", "web-3-true");
    check("{{ .Ratio }} {{ 1.5 }} {{ 0.00001 }} {{ 100000.0 }}", "1e+06 1.5 1e-05 100000");
    check("{{ .List }} {{ .Map }} {{ .Ints }} {{ .Empty }}", "[a b c] map[x:1 y:2] map[7:seven] []");
    check("{{ .Raw_query }}{{ .Map.x }}", "q1");
    assert_eq!(shown("{{ . }}", None), "<no value>");
    assert_eq!(shown("{{ . }}", Some(&Value::Float(42.0))), "42");
    assert_eq!(
        shown("{{ .A }} {{ .B }}", Some(&Value::structure([("b", Value::Int(1)), ("a", Value::Int(2))]))),
        "2 1"
    );
    assert_eq!(
        shown("{{ . }}", Some(&Value::structure([("b", Value::Int(1)), ("a", Value::Int(2))]))),
        "map[A:2 B:1]"
    );
}

#[test]
fn actions_decide_and_repeat() {
    check("{{ if .On }}yes{{ else }}no{{ end }}", "yes");
    check("{{ if eq .Count 1 }}1{{ else if eq .Count 3 }}3{{ else }}?{{ end }}", "3");
    check("{{ if .Empty }}x{{ end }}{{ if not .Empty }}y{{ end }}", "y");
    check("{{ range .List }}<{{ . }}>{{ end }}", "<a><b><c>");
    check("{{ range $i, $x := .List }}{{ $i }}{{ $x }}{{ end }}", "0a1b2c");
    check("{{ range $k, $v := .Map }}{{ $k }}={{ $v }};{{ end }}", "x=1;y=2;");
    check("{{ range .Empty }}x{{ else }}none{{ end }}", "none");
    check("{{ range 3 }}{{ . }}{{ end }}{{ range $i := 2 }}{{ $i }}{{ end }}", "01201");
    check("{{ range .List }}{{ if eq . \"b\" }}{{ continue }}{{ end }}{{ . }}{{ end }}", "ac");
    check("{{ range .List }}{{ if eq . \"b\" }}{{ break }}{{ end }}{{ . }}{{ end }}", "a");
    check("{{ with .Name }}{{ . }}{{ $.Count }}{{ end }}{{ with .Empty }}x{{ else }}e{{ end }}", "web3e");
    check("{{ with .Empty }}x{{ else with .Name }}{{ . }}{{ end }}", "web");
}

#[test]
fn variables_have_scopes() {
    check("{{ $x := 1 }}{{ if true }}{{ $x = 2 }}{{ $y := 3 }}{{ end }}{{ $x }}", "2");
    check("{{ $x := 1 }}{{ if true }}{{ $x := 2 }}{{ end }}{{ $x }}", "1");
    check("{{ $x := \"\" }}{{ range .List }}{{ $x = . }}{{ end }}{{ $x }}", "c");
    check("{{ $m := .Map }}{{ $m.y }}", "2");
    assert!(shown("{{ $x }}", None).contains("undefined variable \"$x\""));
    assert!(shown("{{ if true }}{{ $x := 1 }}{{ end }}{{ $x }}", None).contains("undefined variable"));
    assert!(shown("{{ $x = 1 }}", None).contains("undefined variable"));
}

#[test]
fn white_space_is_trimmed_where_asked() {
    check("a {{- 1 -}} b", "a1b");
    check("a {{ 1 -}} b", "a 1b");
    check("a\n  {{- /* comment */ -}}\n b", "ab");
    check("{{/* comment */}}x", "x");
    check("{{-3}}", "-3");
    check("{{ 1\n}}", "1");
    check("x {{- range .List }} {{ . -}} {{ end }} y", "x a b c y");
}

#[test]
fn templates_call_templates() {
    check(
        "{{ define \"t\" }}[{{ . }}]{{ end }}{{ template \"t\" .Name }}{{ template \"t\" }}",
        "[web][<no value>]",
    );
    check("{{ block \"b\" .Count }}<{{ . }}>{{ end }}", "<3>");
    // As Go 1.26 says it.
    assert!(shown("{{ template \"none\" }}", None).ends_with(
        "template: template:1:12: executing \"template\" at <{{template \"none\"}}>: template \"none\" not defined"
    ));
    assert!(
        shown("{{ define \"t\" }}{{ template \"t\" }}{{ end }}{{ template \"t\" }}", None).ends_with(
            "template: template:1:28: executing \"t\" at <{{template \"t\"}}>: exceeded maximum template depth (100000)"
        )
    );
}

#[test]
fn templates_recurse_and_have_types_as_in_go() {
    let long = "a".repeat(5000);
    let template = format!(
        "{{{{ define \"t\" }}}}{{{{ if . }}}}x{{{{ template \"t\" (slice . 1) }}}}{{{{ end }}}}{{{{ end }}}}{{{{ template \"t\" \"{long}\" }}}}"
    );
    assert_eq!(shown(&template, None), "x".repeat(5000));
    check(
        "{{ range $i, $e := .List }}{{ if eq $i 0 }}{{ continue }}{{ end }}{{ $x := $e }}{{ if eq $i 2 }}{{ break }}{{ end }}{{ $i }}{{ $x }}{{ else }}none{{ end }}{{ range 0 }}{{ else }}E{{ end }}",
        "1bE",
    );
    // As Go 1.26 says it: a number of the template is an `int`, one of the language an `int64`.
    check("{{ printf `%T %T %T` 5 (len .List) .Count }}", "int int int64");
    check(
        "{{ range $i, $e := slice .List 2 }}{{ printf `%T` $i }}{{ end }} {{ range 1 }}{{ printf `%T` . }}{{ end }}",
        "int int",
    );
    check("{{ printf `%T %v` (index .Name 0) (index .Name 0) }} {{ eq .Count 3 }}", "uint8 119 true");
    check("{{ $x := 1 }}{{ range .List }}{{ $x = . }}{{ end }}{{ $x }}", "c");
}

#[test]
fn functions_of_templates() {
    check("{{ len .List }} {{ len .Name }} {{ len .Map }}", "3 3 2");
    check(
        "{{ index .List 1 }} {{ index .Map \"x\" }} {{ index .Ints 7 }} {{ index .Map \"none\" }}",
        "b 1 seven <no value>",
    );
    check("{{ slice .Name 1 }} {{ slice .List 1 2 }}", "eb [b]");
    check("{{ and .On .Count }} {{ or .Empty .Name }} {{ and 0 (index .List 99) }}", "3 web 0");
    check(
        "{{ eq 1 2 1 }} {{ ne 1 2 }} {{ lt 1 2 }} {{ le 2 2 }} {{ gt \"b\" \"a\" }} {{ ge 1.5 2.5 }}",
        "true true true true true false",
    );
    check("{{ print 1 2 \"x\" 3 }}|{{ println \"a\" 1 }}", "1 2x3|a 1\n");
    check(
        "{{ html \"<a&b>\" }} {{ urlquery \"a b&c\" }} {{ js \"it's <x>\" }}",
        "&lt;a&amp;b&gt; a+b%26c it\\'s \\u003Cx\\u003E",
    );
    check("{{ .Name | printf \"%s-%d\" \"x\" }}", "x-%!d(string=web)");
    check("{{ \"b\" | printf \"%s%s\" \"a\" }} {{ (len .List) }}", "ab 3");
    check("{{ 'a' }} {{ `raw\\n` }} {{ \"q\\t\" }} {{ 0x10 }} {{ 1_000 }}", "97 raw\\n q\t 16 1000");
}

#[test]
fn formats_follow_go() {
    for (call, expected) in [
        ("\"%d|%5d|%-5d|%05d|%+d\" 42 42 42 -42 42", "42|   42|42   |-0042|+42"),
        ("\"%x %X %o %b %c %U %q\" 255 255 8 5 65 65 65", "ff FF 10 101 A U+0041 'A'"),
        (
            "\"%f %.2f %8.3f %e %g %G\" 3.5 3.14159 2.5 1234.5 1e21 1e-7",
            "3.500000 3.14    2.500 1.234500e+03 1e+21 1E-07",
        ),
        (
            "\"%s|%5s|%-5s|%.2s|%q|%x\" \"abc\" \"ab\" \"ab\" \"abc\" \"a\\\"\" \"hi\"",
            "abc|   ab|ab   |ab|\"a\\\"\"|6869",
        ),
        ("\"%v %v %T %T\" 1 \"x\" 1.5 \"\"", "1 x float64 string"),
        ("\"%t %v %%\" true false", "true false %"),
        ("\"%d %d\" 1", "1 %!d(MISSING)"),
        ("\"%d\" 1 \"x\"", "1%!(EXTRA string=x)"),
        ("\"%z\" 1", "%!z(int=1)"),
        ("\"%d\" \"x\"", "%!d(string=x)"),
        ("\"100%\"", "100%!(NOVERB)"),
        ("\"%*d|%#v\" 4 7 \"s\"", "   7|\"s\""),
        ("\"%6.2f|%-8v|%08.3f\" 3.14159 \"ab\" -3.14159", "  3.14|ab      |-003.142"),
    ] {
        check(&format!("{{{{ printf {call} }}}}"), expected);
    }
    // As wide as it gets, and nothing panics.
    for verb in ["%.99999f", "%.99999e", "%.99999g", "%99999.99999f", "%.222222222222222222f"] {
        let wide = run(&Nothing, &Cell::default(), &format!("{{{{ printf \"{verb}\" 1.5 }}}}").into(), None);
        assert!(wide.is_ok(), "{verb}");
    }
    check("{{ printf \"%v %q\" .Map .List }}", "map[x:1 y:2] [\"a\" \"b\" \"c\"]");
    check("{{ printf \"%d\" .Ints }}", "map[7:%!d(string=seven)]");
}

#[test]
fn functions_of_the_language_can_be_called() {
    check("{{ golang_strings_join .List \", \" }}", "a, b, c");
    check("{{ golang_strconv_atoi \"41\" | math_minus1 }}", "40");
    check("{{ golang_math_sqrt 16 }} {{ _concat \"a\" \"b\" }} {{ example_nested_hello }}", "4 ab Hello!");
    check("{{ (net_url_parser \"http://h/p\").Scheme }}", "http");
    assert!(shown("{{ sys_getenv \"NO_SUCH_VARIABLE\" }}", None).starts_with("C: "));
    assert!(shown("{{ golang_strconv_atoi \"x\" }}", None).starts_with("F: can't run the template"));
    for name in ["len_of", "list_lookup", "iter_map", "fmt_printf", "datetime_now"] {
        assert!(shown(&format!("{{{{ {name} }}}}"), None).contains("not defined"), "{name}");
    }
    assert!(
        shown("{{ math_minus1 \"x\" }}", None).contains("wrong type for value; expected int; got string")
    );
    assert!(
        shown("{{ math_minus1 1 2 }}", None).contains("wrong number of args for math_minus1: want 1 got 2")
    );
}

#[test]
fn mistakes_are_named_with_their_place() {
    assert_eq!(
        shown("{{ .Missing }}", Some(&data())),
        "F: can't run the template: template: template:1:3: executing \"template\" at <.Missing>: map has no entry for key \"Missing\""
    );
    assert!(shown("a\n{{ .Name.X }}", Some(&data())).contains(
        "template:2:3: executing \"template\" at <.Name.X>: can't evaluate field X in type string"
    ));
    for (template, message) in [
        ("{{", "unclosed action"),
        ("{{ if true }}", "unexpected EOF"),
        ("{{ end }}", "unexpected {{end}}"),
        ("{{ else }}", "unexpected {{else}}"),
        ("{{ nope }}", "function \"nope\" not defined"),
        ("{{ \"a }}", "unterminated quoted string"),
        ("{{ (1 }}", "unclosed left paren"),
        ("{{ 1) }}", "unexpected"),
        ("{{ }}", "missing value for command"),
        ("{{ break }}", "outside {{range}}"),
        ("{{ 1 | 2 }}", "non executable command"),
        ("{{ ? }}", "unrecognized character"),
        ("{{/* x }}", "unclosed comment"),
        ("{{ 1a }}", "bad number syntax"),
        ("{{ index .List 9 }}", "index out of range: 9"),
        ("{{ len 3 }}", "len of type int"),
        ("{{ lt 1 \"a\" }}", "incompatible types for comparison"),
        ("{{ eq .List .List }}", "uncomparable type"),
        ("{{ range true }}{{ end }}", "range can't iterate over true"),
        ("{{ .Name 1 }}", "Name is not a method but has arguments"),
        ("{{ nil }}", "nil is not a command"),
    ] {
        let found = shown(template, Some(&data()));
        assert!(found.starts_with("F: ") && found.contains(message), "{template}: {found}");
    }
}

#[test]
fn no_template_runs_for_ever_or_exhausts_the_stack() {
    assert!(shown("{{ range 9223372036854775807 }}x{{ end }}", None).contains("too long"));
    assert!(shown(&"{{ if true }}".repeat(100_000), None).contains("nests too deep"));
    assert!(shown(&format!("{{{{ {} }}}}", "(".repeat(100_000)), None).contains("nests too deep"));
}

/// Formats, the number of the values that they are for, and what Go 1.26 makes of them.
const GO_PRINTF: &str = include_str!("printf.txt");

#[test]
fn printf_formats_as_go_does() {
    use std::rc::Rc;

    use super::data::Datum;

    let list = |items: Vec<Datum>| Datum::List(Rc::new(items));
    let ints = [0, 5, -5, 1_234_567, 955].into_iter().map(Datum::int64);
    let floats = [1.5, -0.25, 1e21, 0.0, 100_000.0, 3.0, f64::INFINITY].into_iter().map(Datum::Float);
    let texts = ["ab", "", "h\u{e9}\n\"`"].into_iter().map(Datum::str);
    let others = [
        Datum::Bool(true),
        list(vec![Datum::str("a"), Datum::str("b")]),
        list(vec![Datum::int64(1), Datum::int64(-2)]),
        Datum::map(vec![(Datum::str("k"), Datum::int64(1)), (Datum::str("a"), Datum::str("x"))]),
        list(vec![list(vec![Datum::str("a")]), list(vec![Datum::str("b"), Datum::str("c")])]),
        list(vec![Datum::map(vec![(Datum::str("A"), Datum::int64(1))])]),
        Datum::map(vec![(Datum::int64(2), Datum::str("x"))]),
    ];
    let values: Vec<Datum> = ints.chain(floats).chain(texts).chain(others).collect();
    let several = [Datum::int64(7), Datum::str("x"), Datum::Float(2.5)];
    for line in GO_PRINTF.lines() {
        let parts: Vec<&str> = line.split('\t').collect();
        let format: String = serde_json::from_str(parts[1]).unwrap();
        let expected: String = serde_json::from_str(parts[2]).unwrap();
        let given = match parts[0].parse::<usize>().unwrap() {
            100 => &several[..],
            index => std::slice::from_ref(&values[index]),
        };
        let found = super::format::printf(format.as_bytes(), given);
        assert_eq!(String::from_utf8_lossy(&found), expected, "{} {format:?}", parts[0]);
    }
}
