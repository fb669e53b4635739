use super::*;
use crate::{StringPart, parse};

fn first_value(text: &str) -> Expression {
    match parse(text).tree().statements().next() {
        Some(Statement::Bind(bind)) => bind.value().unwrap(),
        other => panic!("no bind in {text:?}: {other:?}"),
    }
}

#[test]
fn a_node_starts_and_ends_with_its_own_tokens() {
    let text = "# before\n$x = foo( # inside\n\t1,\n) # behind\n\n$y = 2\n";
    let value = first_value(text);
    assert_eq!(&text[value.range()], "foo( # inside\n\t1,\n)");
    let statements: Vec<_> = parse(text).tree().statements().map(|statement| statement.range()).collect();
    assert_eq!(&text[statements[0]], "$x = foo( # inside\n\t1,\n)");
    assert_eq!(&text[statements[1]], "$y = 2");
}

#[test]
fn an_item_of_a_resource_ends_with_its_comma() {
    let text = "test \"x\" {\n\ta => 1, # c\n}\n";
    let Some(Statement::Resource(resource)) = parse(text).tree().statements().next() else { panic!() };
    let item = resource.items().next().unwrap();
    assert_eq!(&text[item.range()], "a => 1,");
}

#[test]
fn a_string_knows_its_parts_and_where_they_are() {
    let text = "$x = \"a\\n${b.c}\"\n";
    let Expression::Literal(literal) = first_value(text) else { panic!() };
    let Some(LiteralValue::String(string)) = literal.value() else { panic!() };
    assert_eq!(string.raw(), "a\\n${b.c}");
    assert_eq!(string.errors(), []);
    let places: Vec<&str> = string.parts().iter().map(|part| &text[part.range()]).collect();
    assert_eq!(places, ["a", "\\n", "${b.c}"]);
    let Some(&StringPart::Variable { name, name_range, .. }) = string.parts().last() else { panic!() };
    assert_eq!((name, &text[name_range]), ("b.c", "b.c"));
}

#[test]
fn what_is_wrong_in_a_string_is_in_the_list_of_errors_too() {
    let text = "$x = \"${} \\q\"\n";
    let Expression::Literal(literal) = first_value(text) else { panic!() };
    let Some(LiteralValue::String(string)) = literal.value() else { panic!() };
    assert_eq!(string.errors(), parse(text).errors());
    assert!(parse(text).errors().iter().all(|error| error.code.is_in_string()));
}

#[test]
fn a_number_that_overflows_has_no_value() {
    let Expression::Literal(literal) = first_value("$x = 99999999999999999999\n") else { panic!() };
    assert_eq!(literal.value(), None);
}

#[test]
fn tokens_tell_where_a_name_is() {
    let text = "include a.b(1) as c\nfunc f() { $s->g }\nA[\"x\"].o -> B[\"y\"].i\n";
    let mut statements = parse(text).tree().statements();
    let Some(Statement::Include(include)) = statements.next() else { panic!() };
    assert_eq!(include.alias_token().unwrap().text_range().start(), 18.into());
    let Some(Statement::Function(function)) = statements.next() else { panic!() };
    assert_eq!(&text[function.name_token().unwrap().text_range()], "f");
    let Some(Expression::FieldAccess(access)) = function.body().and_then(|body| body.value()) else {
        panic!()
    };
    assert_eq!(&text[access.field_token().unwrap().text_range()], "g");
    let Some(Statement::Edge(edge)) = statements.next() else { panic!() };
    let fields: Vec<_> = edge.halves().filter_map(|half| half.field()).collect();
    assert_eq!(fields, ["o", "i"]);
}

#[test]
fn a_broken_tree_is_read_without_fear() {
    for text in [
        "$", "$x", "$x =", "if", "for", "class", "import", "include", "func", "test", "A", "collect", "panic",
    ] {
        crate::tests::dump(text);
        crate::tests::dump(&format!("{text} {{"));
        crate::tests::dump(&format!("if $c {{\n{text}"));
    }
}

#[test]
fn a_name_reads_as_text_whatever_its_shape() {
    let text = "import \"golang/x\" as y\n$v = m . f($a.b, $c)\ndhcp:host \"h\" {}\n";
    let mut statements = parse(text).tree().statements();
    let Some(Statement::Import(import)) = statements.next() else { panic!() };
    let name = import.name().unwrap();
    assert_eq!((&*name, &text[name.range()]), ("golang/x", "golang/x"));
    assert!(matches!(import.alias(), Some(ImportAlias::Name(alias)) if alias == "y"));
    let Some(Statement::Bind(bind)) = statements.next() else { panic!() };
    assert_eq!(bind.variable().and_then(|variable| variable.name()).unwrap(), "v");
    let Some(Expression::Call(call)) = bind.value() else { panic!() };
    let Some(Callee::Function(function)) = call.callee() else { panic!() };
    assert_eq!((&*function.name(), &text[function.name().range()]), ("m.f", "m . f"));
    let names: Vec<Name> = call
        .args()
        .into_iter()
        .flat_map(|args| args.args())
        .filter_map(|arg| match arg {
            Expression::Variable(variable) => Some(variable.name()),
            _ => None,
        })
        .collect();
    assert_eq!(names, ["a.b", "c"]);
    assert_eq!(&text[names[1].range()], "c");
    let Some(Statement::Resource(resource)) = statements.next() else { panic!() };
    assert_eq!(resource.kind().unwrap().name(), "dhcp:host");
}

#[test]
fn numbers_have_their_sign() {
    for (text, value) in [
        ("0", LiteralValue::Int(0)),
        ("-42", LiteralValue::Int(-42)),
        ("-9223372036854775808", LiteralValue::Int(i64::MIN)),
        ("1.5", LiteralValue::Float(1.5)),
        ("-0.25", LiteralValue::Float(-0.25)),
    ] {
        let Expression::Literal(literal) = first_value(&format!("$x = {text}\n")) else { panic!() };
        assert_eq!(literal.value(), Some(value), "{text}");
    }
}

#[test]
fn a_string_gives_its_text_and_its_pieces() {
    let text = "$x = \"a\\tb\"\n$y = \"a\\n${b}\"\n";
    let Expression::Literal(literal) = first_value(text) else { panic!() };
    let Some(LiteralValue::String(string)) = literal.value() else { panic!() };
    assert_eq!(string.plain().as_deref(), Some("a\tb"));
    let Some(Statement::Bind(bind)) = parse(text).tree().statements().nth(1) else { panic!() };
    let Some(Expression::Literal(literal)) = bind.value() else { panic!() };
    let Some(LiteralValue::String(string)) = literal.value() else { panic!() };
    assert_eq!(string.plain(), None);
    let places: Vec<&str> = string.pieces().iter().map(|piece| &text[piece.range()]).collect();
    assert_eq!(places, ["a\\n", "${b}"]);
}
