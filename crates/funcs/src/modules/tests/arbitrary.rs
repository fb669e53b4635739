//! No argument makes a function panic.

use std::cell::Cell;

use mgmt_value::{Str, Type, Value};
use proptest::prelude::*;

use super::{Nothing, call};
use crate::{Body, Form, Memory, library, quote, template};

/// Texts that look like something.
const TEXTS: [&[u8]; 28] = [
    b"",
    b"a",
    b" a b ",
    "é日\u{301}".as_bytes(),
    b"\xff\xe2\x82",
    b"0",
    b"-1",
    b"9223372036854775808",
    b"1e400",
    b"0x1p-1075",
    b"1_0",
    b"%s%d%v%T%%",
    b"%",
    b"{{ . }}",
    b"{{ range 3 }}{{ . }}{{ end }}",
    b"[a-z]+(",
    b"\\Q(\\E*?",
    b"/a/../b/./c//",
    b"../..",
    b"192.0.2.1/24",
    b"::ffff:1.2.3.4/97",
    b"[::1]:80",
    b"http://u@h:1/p?q#f",
    b"2006-01-02 15:04:05.000 MST",
    b"\"a\\n\"",
    b"{\"a\": [1, null]}",
    b"&eacute;&#xff;&",
    b"Zm9v\n",
];

const INTS: [i64; 11] = [0, 1, -1, 2, 7, 36, 64, 1000, 1_443_158_163, i64::MIN, i64::MAX];

const FLOATS: [f64; 11] =
    [0.0, -0.0, 0.5, 1.5, -2.5, 1e19, 1e308, 5e-324, f64::NAN, f64::INFINITY, f64::NEG_INFINITY];

/// A value of a type, chosen by a number. Variables stand for ints, texts or lists.
fn value(ty: &Type, choice: &mut u64) -> Value {
    *choice = choice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    let pick = (*choice >> 33) as usize;
    match ty {
        Type::Bool => Value::Bool(pick.is_multiple_of(2)),
        Type::Str => Value::str(TEXTS[pick % TEXTS.len()]),
        Type::Int => Value::Int(INTS[pick % INTS.len()]),
        Type::Float => Value::Float(FLOATS[pick % FLOATS.len()]),
        Type::List(element) => {
            let items = (0..pick % 4).map(|_| value(element, choice)).collect();
            Value::list(substituted(element), items)
        }
        Type::Map(types) => {
            let entries: Vec<_> =
                (0..pick % 4).map(|_| (value(&types.0, choice), value(&types.1, choice))).collect();
            Value::map(substituted(&types.0), substituted(&types.1), entries)
        }
        Type::Struct(fields) => {
            let fields: Vec<_> = fields.iter().map(|(name, ty)| (name.clone(), value(ty, choice))).collect();
            Value::structure(fields)
        }
        Type::Var(_) => value(&substituted(ty), choice),
        Type::Func(_) | Type::Variant | Type::Nil => Value::Nil,
    }
}

fn substituted(ty: &Type) -> Type {
    match ty {
        Type::Var(1) => Type::Str,
        Type::Var(_) => Type::list(Type::Int),
        Type::List(element) => Type::list(substituted(element)),
        Type::Map(types) => Type::map(substituted(&types.0), substituted(&types.1)),
        ty => ty.clone(),
    }
}

fn arguments(form: &Form, choice: &mut u64) -> Vec<Value> {
    form.parameters.iter().map(|parameter| value(&parameter.ty, choice)).collect()
}

#[test]
fn pure_functions_answer_everything_and_always_the_same() {
    let functions = library().modules().flat_map(|module| module.functions).copied();
    for function in functions.chain(library().operators()) {
        for (form, seed) in function.forms().iter().flat_map(|form| (0..300).map(move |seed| (form, seed))) {
            let arguments = arguments(form, &mut (seed * 7919));
            let call = || match function.body {
                Body::Pure(body) => Some(body(&arguments)),
                Body::Typed(body) => Some(body(&substituted(&form.result), &arguments)),
                Body::Host(_) | Body::Live { .. } | Body::Graph(_) => None,
            };
            let (Some(first), Some(second)) = (call(), call()) else { continue };
            // By text, because a NaN does not equal itself.
            assert_eq!(format!("{first:?}"), format!("{second:?}"), "{function:?} {arguments:?}");
            if let (Ok(result), true) = (&first, form.is_closed()) {
                assert_eq!(result.ty(), form.result, "{function:?} {arguments:?}");
            }
        }
    }
}

#[test]
fn functions_that_look_outside_answer_everything_too() {
    // These would leave something behind, or are about to.
    let skipped = ["mkdir_temp"];
    let functions = library().modules().flat_map(|module| module.functions).copied();
    for function in functions.filter(|function| !skipped.contains(&function.name)) {
        for (form, seed) in function.forms().iter().flat_map(|form| (0..20).map(move |seed| (form, seed))) {
            let arguments = arguments(form, &mut (seed * 104_729));
            let (Body::Host(read) | Body::Live { read, .. }) = function.body else { continue };
            let mut memory = Memory::new(form.result.clone());
            if let (Ok(result), true) = (read(&mut memory, &Nothing, &arguments), form.is_closed()) {
                assert!(result.ty() == form.result || result == Value::Nil, "{function:?} {arguments:?}");
            }
            if let Body::Live { watches, .. } = function.body {
                let _ = watches(&arguments);
            }
        }
    }
}

fn pieces(pieces: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(pieces), 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn quoting_can_always_be_undone(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        for keep in [quote::Keep::Printable, quote::Keep::Ascii, quote::Keep::Graphic] {
            prop_assert_eq!(quote::unquote(quote::quote(&bytes, keep).as_bytes()), Some(bytes.clone()));
        }
    }

    #[test]
    fn base64_can_always_be_undone(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        let encoded = call("encoding.base64_encode", &[Value::str(&bytes)]).unwrap();
        prop_assert_eq!(call("encoding.base64_decode", &[encoded]), Ok(Value::str(&bytes)));
    }

    #[test]
    fn no_template_panics(text in pieces(&[
        "{{", "}}", "{{-", "-}}", " ", "\n", "a", "é", ".", ".A", "$", "$x", ":=", "=", ",", "|", "(", ")", "if ", "range ", "end", "else ",
        "with ", "define ", "block ", "template ", "\"t\"", "`r`", "'c'", "1", "-2.5", "0x", "true", "nil", "break", "continue",
        "index ", "printf ", "\"%5.2f%*d\"", "len ", "slice ", "eq ", "/*", "*/", "math_minus1 ",
    ])) {
        let dot = Value::structure([("a", Value::list(Type::Int, vec![Value::Int(1), Value::Int(2)]))]);
        let _ = template::run(&Nothing, &Cell::default(), &Str::from(text.clone()), Some(&dot));
        let _ = template::run(&Nothing, &Cell::default(), &Str::from(format!("{{{{ {text} }}}}")), Some(&dot));
    }

    #[test]
    fn no_pattern_panics(pattern in pieces(&[
        "a", "é", ".", "*", "+", "?", "{2}", "{2,}", "{,2}", "{", "}", "[", "]", "^", "-", "[:alpha:]", "[^", "\\", "\\d", "\\W", "\\b", "\\pL",
        "\\p{Greek}", "\\Q", "\\E", "\\x41", "\\x{", "\\07", "(", ")", "(?i)", "(?P<n>", "(?:", "|", "$", "&&", "~~",
    ]), text in "\\PC{0,8}") {
        let _ = call("regexp.match", &[Value::str(pattern), Value::str(text)]);
    }

    #[test]
    fn any_text_can_be_formatted(format in pieces(&["%", "%s", "%d", "%v", "%T", "%%", "%q", "%f", "%t", "a", "é"])) {
        let _ = call("fmt.printf", &[Value::str(&format), Value::str("a"), Value::Int(1), Value::Float(1.5)]);
        let verbs = crate::printf_verbs(format.as_bytes());
        if let Ok(verbs) = verbs {
            for verb in verbs {
                prop_assert_eq!(format.as_bytes()[verb.range.start], b'%');
            }
        }
    }
}
