//! Programs that are written piece by piece.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use mgmt_lang::module::{Entry, Memory};
use mgmt_lang::{Environment, Input, Onlooker, Session, View, evaluate, input_of};

fn environment(files: &Memory) -> Environment<'_> {
    Environment {
        kinds: &mgmt_resources::KINDS,
        library: mgmt_funcs::library(),
        files,
        module_path: None,
        lints: false,
    }
}

/// A session of these pieces, all of which are right.
#[track_caller]
fn session(pieces: &[&str]) -> Session {
    let files = Memory::default();
    let mut session = Session::default();
    for piece in pieces {
        session = session.with(piece);
        let (told, is_right) = session.check(&environment(&files)).unwrap().verdict();
        assert!(is_right, "{piece}: {told:#?}");
    }
    session
}

#[track_caller]
fn answer(session: &Session, files: &Memory, expression: &str) -> String {
    let view = session.ask(expression, &environment(files)).unwrap();
    let (told, is_right) = view.verdict();
    assert!(is_right, "{told:#?}");
    let host = Onlooker::new(files, view.checked.deploy.clone(), "host".into());
    let graph = evaluate(&view.checked, &mgmt_resources::KINDS, &host).unwrap();
    view.answer(&graph).unwrap().to_string()
}

#[track_caller]
fn value(pieces: &[&str], expression: &str) -> String {
    answer(&session(pieces), &Memory::default(), expression)
}

fn asked(pieces: &[&str], expression: &str) -> View {
    session(pieces).ask(expression, &environment(&Memory::default())).unwrap()
}

/// The message of the first mistake, and the text that it is about.
#[track_caller]
fn mistake(view: &View) -> (String, String) {
    let (told, is_right) = view.verdict();
    assert!(!is_right, "{told:#?}");
    let first = told.into_iter().find(|found| found.is_error()).unwrap();
    let text = view.sources.text(first.span().unwrap()).to_owned();
    (first.message, text)
}

#[test]
fn a_text_is_one_thing_or_the_other() {
    for (text, expected) in [
        ("", Input::Nothing),
        ("# a comment", Input::Nothing),
        ("1 + 2", Input::Expression),
        ("-5", Input::Expression),
        ("$x", Input::Expression),
        ("fmt.printf(\"%d\", 1)", Input::Expression),
        ("if true { 1 } else { 2 }", Input::Expression),
        ("struct{a => 1,}", Input::Expression),
        ("$x = 1", Input::Statements),
        ("import \"fmt\"", Input::Statements),
        ("file \"/x\" {}", Input::Statements),
        ("File[\"/x\"] -> File[\"/y\"]", Input::Statements),
        ("$x = 1\n$y = 2", Input::Statements),
        ("[1,", Input::Unfinished),
        ("class c {", Input::Unfinished),
        ("func f($x) {\n$x + (", Input::Unfinished),
        ("\"a ( in a string\"", Input::Expression),
        ("[1 2]", Input::Expression),
        ("$x = = 2", Input::Statements),
        ("1 2", Input::Expression),
    ] {
        assert_eq!(input_of(text), expected, "{text}");
    }
}

#[test]
fn an_expression_has_a_value_and_a_type() {
    assert_eq!(value(&[], "1 + 2"), "3");
    assert_eq!(value(&[], "-5"), "-5");
    assert_eq!(value(&[], "\"a\" # and a comment"), "\"a\"");
    assert_eq!(value(&[], "{\"a\" => [1, 2],}"), "{\"a\": [1, 2]}");
    assert_eq!(asked(&[], "[1.5]").answer_type().unwrap(), "[]float");
    assert_eq!(asked(&["$x = \"a\""], "$x").answer_type().unwrap(), "str");
}

#[test]
fn what_was_typed_before_is_there() {
    let pieces = [
        "import \"fmt\"",
        "$x = 20",
        "func twice($n) { $n + $n }",
        "class c($n) {\n\t$m = $n + 1\n}",
        "include c(4) as k",
    ];
    assert_eq!(value(&pieces, "fmt.printf(\"%d %d\", twice($x), $k.m)"), "\"40 5\"");
}

#[test]
fn the_newer_definition_takes_the_place_of_the_older() {
    assert_eq!(value(&["$x = 1", "$y = $x + 1", "$x = 10"], "$y"), "11");
    assert_eq!(value(&["func f() { 1 }", "func f() { 2 }"], "f()"), "2");
    assert_eq!(value(&["import \"fmt\"", "import \"fmt\"", "$a = 1\n$b = 2", "$a = 5"], "$a + $b"), "7");
}

#[test]
fn a_definition_that_breaks_another_is_refused() {
    let session = session(&["$x = 1", "$y = $x + 1"]).with("$x = \"a\"");
    let view = session.check(&environment(&Memory::default())).unwrap();
    assert!(!view.verdict().1);
}

#[test]
fn a_mistake_is_told_about_the_piece_that_it_is_in() {
    assert_eq!(mistake(&asked(&["$x = 1"], "1 + $missing")).1, "$missing");
    assert_eq!(mistake(&asked(&["$x = 1"], "[1 2]")).1, "2");
    assert_eq!(mistake(&asked(&[], "\"no end")).1, "\"");
    // Nothing uses it, and still it is wrong.
    let view = session(&["$x = 1"]).with("$y = $x + \"a\"").check(&environment(&Memory::default())).unwrap();
    let (told, is_right) = view.verdict();
    assert!(!is_right);
    let span = told[0].span().unwrap();
    assert_eq!(&*view.sources.get(span.file).unwrap().name, "<input 2>");
    assert_eq!(told[0].hints.iter().filter(|hint| hint.contains("nothing uses")).count(), 0);
}

#[test]
fn a_question_does_not_wait_for_resources() {
    let session = session(&["file \"/x\" {\n\tstate => \"exists\",\n}", "$x = 2"]);
    assert_eq!(answer(&session, &Memory::default(), "$x"), "2");
    let view = session.check(&environment(&Memory::default())).unwrap();
    assert_eq!(view.answer_type(), None);
    let files = Memory::default();
    let host = Onlooker::new(&files, "/", "host".into());
    let graph = evaluate(&view.checked, &mgmt_resources::KINDS, &host).unwrap();
    assert_eq!(graph.nodes().map(|(_, spec)| spec.id.to_string()).collect::<Vec<_>>(), ["file[/x]"]);
}

#[test]
fn a_session_stands_on_a_program_and_its_imports() {
    let files = Memory::from([
        ("/p/main.mcl", "import \"lib/n.mcl\"\n$m = $n.two + 1\n"),
        ("/p/lib/n.mcl", "$two = 2\n"),
        ("/p/lib/o.mcl", "$three = 3\n"),
    ]);
    let session = Session::on(Entry::File("/p/main.mcl".into()), &environment(&files)).unwrap();
    assert_eq!(answer(&session, &files, "$m"), "3");
    let session = session.with("import \"lib/o.mcl\" as other").with("$m = $other.three * 10");
    assert_eq!(answer(&session, &files, "$m + $n.two"), "32");
    assert!(Session::on(Entry::File("/p/none.mcl".into()), &environment(&files)).is_err());
}

#[test]
fn names_are_known_with_their_types() {
    let view = session(&[
        "import \"fmt\"",
        "$x = [1]",
        "func f($n int) int { $n }",
        "class c() {\n\t$m = \"a\"\n}",
        "include c as k",
    ])
    .check(&environment(&Memory::default()))
    .unwrap();
    let names = view.names();
    let about = |text: &str| names.iter().find(|name| name.text == text).map(|name| name.about.clone());
    assert_eq!(about("$x").unwrap(), "[]int");
    assert_eq!(about("f").unwrap(), "func f($n int) int");
    assert_eq!(about("$k.m").unwrap(), "str");
    assert!(about("fmt.printf").is_some());
    assert!(about("c").is_some());
}

#[test]
fn a_thousand_definitions_of_one_name_are_one() {
    let files = Memory::default();
    let mut session = Session::default().with("$y = 1");
    for at in 0..1000 {
        session = session.with(&format!("$x = {at}"));
    }
    assert_eq!(answer(&session, &files, "$x + $y"), "1000");
    assert!(session.check(&environment(&files)).unwrap().sources.iter().count() < 10);
}
