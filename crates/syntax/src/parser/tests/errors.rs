use super::check_errors;
use crate::{Code, parse, tests::dump};

/// The first error has this code.
#[track_caller]
fn check_code(text: &str, code: Code) {
    assert_eq!(parse(text).errors().first().map(|error| error.code), Some(code), "{text:?}");
}

#[test]
fn commas_need_elements() {
    for (text, place) in [
        ("$x = [,1]\n", "1:7"),
        ("$x = [1, , 2]\n", "1:10"),
        ("$x = [\n\t1,\n\t,\n]\n", "3:2"),
        ("$x = f(, 1)\n", "1:8"),
        ("$x = f(1,, 2)\n", "1:10"),
    ] {
        check_errors(text, &format!("{place} expected a value, found `,` (remove the comma)"));
        check_code(text, Code::ExtraComma);
    }
    check_errors("$x = {1 => 2,,}\n", "1:14 expected `key => value`, found `,` (remove the comma)");
    check_errors("$x = struct{,a => 1}\n", "1:13 expected `name => value`, found `,` (remove the comma)");
    check_errors("$f = func(,$x) { 1 }\n", "1:11 expected a parameter, found `,` (remove the comma)");
    check_errors("$f func(, str) str = 1\n", "1:9 expected a type, found `,` (remove the comma)");
    check_errors("$f struct{; x str} = 1\n", "1:11 expected a field name, like `a int`, found `;`");
}

#[test]
fn a_missing_comma_is_shown_where_it_belongs() {
    check_errors(
        "$x = [\n\t1 # one\n\t2,\n]\n",
        "2:3 expected `,` between two values, found `2` (add a comma)",
    );
    check_errors("$x = [1 2]\n", "1:9 expected `,` between two values, found `2` (add a comma)");
    check_errors(
        "test \"x\" {\n\ta => 1\n\tb => 2,\n}\n",
        "2:8 expected `,` between two items, found `b` (add a comma)",
    );
    assert_eq!(dump("test \"x\" {\n\ta => 1\n\tb => 2,\n}\n"), "(res test \"x\" (a 1) (b 2))");
    check_code("$x = [1 2]\n", Code::MissingComma);
}

#[test]
fn an_open_bracket_is_named_once() {
    for text in ["$x = [1, 2\n$y = 3\n", "$x = [\n\t1,\n\t2,\n$y = 3\n"] {
        let parsed = parse(text);
        assert_eq!(parsed.errors().len(), 1, "{:?}", parsed.errors());
        let error = &parsed.errors()[0];
        assert_eq!(error.code, Code::UnclosedBracket);
        assert_eq!(usize::from(error.label.as_ref().unwrap().range.start()), text.find('[').unwrap());
        assert!(dump(text).ends_with("\n(bind $y 3)"));
    }
    check_errors("test \"x\" {\n\ta => 1,\n\ntest \"y\" {\n}\n", "4:1 expected `}`, found `test`");
    check_errors("if $x {\n\t$y = 1\n", "2:8 expected `}`, found the end of the file");
    check_errors(
        "$x = f(1, (2, 3)\n",
        "1:13 expected `)`, found `,`\n1:17 expected `)`, found the end of the file",
    );
    check_errors("$x = [(1]\n", "1:9 expected `)`, found `]`");
}

#[test]
fn a_late_closer_is_no_second_mistake() {
    check_errors("$x = f(1\n$y = 2\n)\n", "2:1 expected `)`, found `$`");
    check_errors("if $x\n\ttest \"a\" {}\n}\n$y = 1\n", "1:6 expected `{`, found the end of the line");
}

#[test]
fn a_stray_closer_is_named() {
    check_errors("test \"t\" {}\n)\n$y = 1\n", "2:1 `)` closes nothing");
    check_errors("$x = [1, 2]]\n", "1:12 `]` closes nothing");
    check_errors("}\n", "1:1 `}` closes nothing");
}

#[test]
fn independent_mistakes_are_all_reported() {
    check_errors(
        "$x == 1\nclass Foo {\n\t$y = -$z\n\timport fmt\n}\nif $a = 1 {\n\t$q = [1,,2]\n}\n$ok = 1\n",
        "1:4 `==` compares; a bind has one `=` (write `=`)\n\
         2:7 expected a class name, found the capitalised `Foo` (names are lower case: `foo`)\n\
         3:7 there is no unary minus (write `0 - …`)\n\
         4:9 expected a string, found `fmt` (write `import \"fmt\"`)\n\
         6:7 `=` binds; a comparison is written `==` (write `==`)\n\
         7:10 expected a value, found `,` (remove the comma)",
    );
}

#[test]
fn binds_gone_wrong() {
    check_errors("$x == 1\n", "1:4 `==` compares; a bind has one `=` (write `=`)");
    check_code("$x == 1\n", Code::BindEquals);
    assert_eq!(dump("$x == 1\n"), "(bind $x 1)");
    check_errors("$x\n$y = 1\n", "1:3 expected `=`, found the end of the line");
    check_errors("$x =\n$y = 1\n", "1:5 expected a value, found the end of the line");
    check_errors("$x = 1 +\n$y = 1\n", "1:9 expected a value, found the end of the line");
    check_errors(
        "x = 1\n",
        "1:3 expected the name of a resource, found `=` (to bind a variable write `$x = …`)",
    );
    check_errors("$x.y = 1\n", "1:3 a name that is defined here has no dots");
    check_errors(
        "$f(1)\n",
        "1:3 expected `=`, found `(` (a call alone does nothing; bind its result: `$x = $f(…)`)",
    );
    check_errors("$x []struct{a int}\n", "1:19 expected `=`, found the end of the line");
    check_errors(
        "$x = 1; $y = 2\n",
        "1:7 statements do not end with `;` (put each statement on its own line)",
    );
    check_errors(
        "$x = 1 2\n",
        "1:8 expected the end of the line, found `2` (each statement stands on its own line)",
    );
}

#[test]
fn reserved_words_are_not_names() {
    check_errors(
        "$if = 1\n",
        "1:2 expected a name, found the reserved word `if` (choose another name, such as `my_if`)",
    );
    check_errors(
        "func map() { 1 }\n",
        "1:6 expected a function name, found the reserved word `map` (choose another name, such as `my_map`)",
    );
    check_errors(
        "test \"x\" {\n\tint => 1,\n\tok => 2,\n}\n",
        "2:2 expected a field name, found the reserved word `int` (choose another name, such as `my_int`)",
    );
    check_errors(
        "$x = struct{in => 1}\n",
        "1:13 expected a field name, found the reserved word `in` (choose another name, such as `my_in`)",
    );
    check_errors(
        "$x = $s->map\n",
        "1:10 expected a field name, found the reserved word `map` (choose another name, such as `my_map`)",
    );
    check_errors(
        "import \"x\" as for\n",
        "1:15 expected a name or `*`, found the reserved word `for` (choose another name, such as `my_for`)",
    );
    for word in "if else for forkv true false and or not bool str int float struct variant func class include import as panic".split(' ') {
        check_code(&format!("${word} = 1\n"), Code::ReservedWord);
        check_code(&format!("class {word} {{}}\n"), Code::ReservedWord);
    }
}

#[test]
fn words_are_checked_as_a_whole() {
    check_errors("$fooBar = 1\n", "1:2 a name has no capital letters: `fooBar` (write `foobar`)");
    check_errors("$foo_ = 1\n", "1:2 a name does not start or end with an underscore: `foo_` (write `foo`)");
    check_errors("$_foo = 1\n", "1:2 a name does not start or end with an underscore: `_foo` (write `foo`)");
    check_errors(
        "HTTP[\"a\"] -> Http[\"b\"]\n",
        "1:1 only the first letter of a kind is a capital: `HTTP` (write `Http`)",
    );
    check_errors("$x = HTTP\n", "1:6 only the first letter of a kind is a capital: `HTTP` (write `Http`)");
    check_errors(
        "$fooBar_ = 1\n",
        "1:2 a name does not start or end with an underscore: `fooBar_` (write `foobar`)",
    );
    check_errors("$_ = 1\n", "1:2 a name does not start or end with an underscore: `_`");
    check_code("$x = é\n", Code::UnknownCharacter);
    check_errors(
        "$x = “a”\n",
        "1:6 `“` means nothing in mcl (use plain double quotes)\n1:8 `”` means nothing in mcl (use plain double quotes)",
    );
}

#[test]
fn blocks_gone_wrong() {
    check_errors(
        "if $x {\n}\nelse {\n\t$y = 1\n}\n",
        "3:1 `else` stands on the line of the `}` before it (write `} else {`)",
    );
    assert_eq!(dump("if $x {\n}\nelse {\n\t$y = 1\n}\n"), "(if $x (do) (do (bind $y 1)))");
    check_errors(
        "if $x\n{\n}\n",
        "2:1 `{` stands on the line of what it belongs to (move it to the end of the line before)",
    );
    check_errors(
        "else {\n}\n",
        "1:1 expected a statement, found the reserved word `else` (`else` follows the `}` of its `if` on the same line)",
    );
    check_errors("if $x {\n} elif $y {\n}\n", "2:3 expected `else`, found `elif` (write `else if`)");
    check_errors(
        "for $v in $l {\n\t$x = $v\n}\n",
        "1:8 expected `,`, found the reserved word `in` (a loop names the index and the value: `for $index, $value in $list {`)",
    );
    check_errors("class c d {\n\t$x = 1\n}\n", "1:9 expected `{`, found `d`");
    assert_eq!(dump("class c d {\n\t$x = 1\n}\n"), "(class c - (do (bind $x 1)))");
}

#[test]
fn bodies_hold_one_value() {
    check_errors(
        "func f() {\n\t$x = 1\n\t$x + 2\n}\n$y = 1\n",
        "2:5 this body holds one value, and no statements (bind outside of it)",
    );
    check_errors("func f() {\n}\n", "2:1 expected a value, found `}`");
    check_errors(
        "func f() -> int { 1 }\n",
        "1:10 expected a type or `{`, found `->` (the type that is returned follows the `)` directly)",
    );
    check_errors("func f(x) { 1 }\n", "1:8 expected a parameter, found `x` (write `$x`)");
    check_errors(
        "$f func(int) = 1\n",
        "1:14 expected a type, found `=` (a function type names what it returns, like `func(int) str`)",
    );
}

#[test]
fn resources_gone_wrong() {
    check_errors(
        "file { \"/tmp/foo\":\n\tensure => present,\n}\n$x = 1\n",
        "1:18 this looks like Puppet: the name stands inside the braces (in mcl it stands before them: `file \"/tmp/foo\" {`)",
    );
    check_errors(
        "file {\n\ta => 1,\n}\n",
        "1:6 a resource has a name before its `{` (write `file \"name\" {`)",
    );
    check_errors(
        "file {}\n",
        "1:8 expected `{`, found the end of the line (a resource has a name before its body: `file \"name\" {`)",
    );
    check_errors(
        "file \"x\"\n",
        "1:9 expected `{`, found the end of the line (a resource has a body, if only an empty one: `{}`)",
    );
    check_errors(
        "foo(\"x\")\n",
        "1:9 expected `{`, found the end of the line (a class is included: `include foo(…)`; of a function the result is bound: `$x = foo(…)`)",
    );
    check_errors(
        "foo()\n",
        "1:4 expected the name of a resource, found `(` (a class is included: `include foo(…)`; of a function the result is bound: `$x = foo(…)`)",
    );
    check_errors(
        "file[\"y\"] -> svc[\"x\"]\n",
        "1:1 the kind of a resource is capitalised here (like `File[\"name\"]`)",
    );
    check_errors(
        "file[\"y\"]\n",
        "1:10 expected `{`, found the end of the line (a resource has a body, if only an empty one: `{}`; in an edge its kind is capitalised: `File[…] -> …`)",
    );
    check_errors(
        "test \"x\" {\n\tDepend => file[\"y\"],\n\tBefore => http:server[\"z\"],\n}\n",
        "2:12 the kind of a resource is capitalised here (like `File[\"name\"]`)\n3:12 the kind of a resource is capitalised here (like `Http:Server[\"name\"]`)",
    );
    check_errors(
        "func f($x) {\n\treturn $x\n}\n",
        "2:2 expected a value, found `return` (there is no `return`: the value of a function is its last expression, and a class has no value)",
    );
    check_errors(
        "func f() {\n\treturn [1, 2]\n}\n",
        "2:2 expected a value, found `return` (there is no `return`: the value of a function is its last expression, and a class has no value)",
    );
    check_errors(
        "class c {\n\treturn 5\n}\n",
        "2:2 expected a statement, found `return` (there is no `return`: the value of a function is its last expression, and a class has no value)",
    );
    check_errors(
        "return\n",
        "1:1 expected a statement, found `return` (there is no `return`: the value of a function is its last expression, and a class has no value)",
    );
    check_errors(
        "http:server[\"y\"] -> svc[\"x\"]\n",
        "1:1 the kind of a resource is capitalised here (like `Http:Server[\"name\"]`)",
    );
    check_errors(
        "test \"x\" {\n\tDepend => $c ?: http:server[\"y\"],\n}\n",
        "2:18 the kind of a resource is capitalised here (like `Http:Server[\"name\"]`)",
    );
    check_errors(
        "l.web(80)\n",
        "1:2 expected the name of a resource, found `.` (a class is included: `include l.web(…)`; of a function the result is bound: `$x = l.web(…)`)",
    );
    check_errors(
        "web:sub(80)\n",
        "1:12 expected `{`, found the end of the line (a class inside of another one is included through an alias: `include web as a`, then `include a.sub(…)`)",
    );
    check_errors(
        "$x = $a->b.c\n",
        "1:11 a field of a value is not read with a dot (a field of a struct is read as `->c`)",
    );
    check_errors(
        "fmt.printf(\"x\")\n",
        "1:4 expected the name of a resource, found `.` (a class is included: `include fmt.printf(…)`; of a function the result is bound: `$x = fmt.printf(…)`)",
    );
    check_errors(
        "File \"x\" {}\n",
        "1:6 expected `[`, found a string (a capitalised kind names a resource that exists, like `File[\"name\"]`; one is made with `file \"name\" { … }`)",
    );
    check_errors(
        "test \"x\" {\n\ta = 1,\n\tb: 2,\n}\n",
        "2:4 expected `=>`, found `=` (a field is written `name => value,`)\n3:3 expected `=>`, found `:` (a field is written `name => value,`)",
    );
    check_errors("test \"x\" {\n\tcontent \"hello\",\n}\n", "2:10 expected `=>`, found a string");
    check_errors(
        "test \"x\" {\n\tContent => 1,\n}\n",
        "2:2 `Content` is no part of a resource (a field is lower case: `content`)",
    );
    check_errors(
        "test \"x\" {\n\tCONTENT => 1,\n}\n",
        "2:2 `CONTENT` is no part of a resource (a field is lower case: `content`)",
    );
    check_errors(
        "test \"x\" {\n\tFoo:noop => 1,\n}\n",
        "2:2 `Foo` is no part of a resource (a field is lower case: `foo`)",
    );
    check_errors(
        "test \"x\" {\n\tBefore => \"a\",\n}\n",
        "2:2 `Before` is no part of a resource (an edge names a resource: `Before => Kind[\"name\"],`)",
    );
    check_errors(
        "Dhcp:host[\"a\"] -> File[\"b\"]\n",
        "1:6 each part of a kind is capitalised here (like `Dhcp:Host[\"name\"]`)",
    );
}

#[test]
fn imports_and_includes_gone_wrong() {
    check_errors("import fmt\n", "1:8 expected a string, found `fmt` (write `import \"fmt\"`)");
    check_errors(
        "include \"x\"\n",
        "1:9 expected a class name, found a string (a file or module is brought in with `import`)",
    );
    check_errors("include c as *\n", "1:14 only an `import` can be `as *`");
}

#[test]
fn a_string_without_an_end_stops_at_its_line() {
    check_errors("$x = \"abc\n$y = 1\n", "1:6 this string has no end (close it with `\"`)");
    assert_eq!(dump("$x = \"abc\n$y = 1\n"), "(bind $x \"abc\")\n(bind $y 1)");
    check_errors("$x = \"abc\\\"\n", "1:6 this string has no end (close it with `\"`)");
}

#[test]
fn a_quote_that_was_forgotten_is_suspected() {
    let parsed = parse("test \"foo {}\ntest \"bar\" {}\n");
    assert_eq!(parsed.errors().len(), 1);
    assert_eq!(parsed.errors()[0].code, Code::RunawayString);
    let label = parsed.errors()[0].label.as_ref().unwrap();
    assert_eq!(usize::from(label.range.start()), 5);
    assert!(label.message.contains("closing quote"));
    let parsed = parse("$y = f(AB\") <|> \"\"\n$z = f(\"CD\")\n$q = f(\"EF\")\n$r = \"\"\n");
    let codes: Vec<Code> = parsed.errors().iter().map(|error| error.code).collect();
    assert_eq!(codes, [Code::BadName, Code::RunawayString]);
}

#[test]
fn values_alone_are_not_statements() {
    for text in ["1\n", "\"a\"\n", "[1]\n", "{}\n", "(1)\n"] {
        check_code(text, Code::Unexpected);
    }
    check_errors("map(1)\n", "1:1 expected a statement, found the reserved word `map`");
}
