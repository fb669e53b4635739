use super::{check_errors, check_expression};

#[test]
fn precedence_is_as_in_the_table() {
    for (text, tree) in [
        ("$a or $b and $c", "(or $a (and $b $c))"),
        ("not $a == $b", "(== (not $a) $b)"),
        ("not $a->b", "(not (-> $a b))"),
        ("not $a[0]", "(not (index $a 0))"),
        ("not not $a", "(not (not $a))"),
        ("$a + $b <|> $c", "(<|> (+ $a $b) $c)"),
        ("$a <|> $b <|> $c", "(<|> (<|> $a $b) $c)"),
        ("$m[\"k\"] <|> \"b\" + \"c\"", "(<|> (index $m \"k\") (+ \"b\" \"c\"))"),
        ("1 + $s->f <|> 2", "(+ 1 (->or $s f 2))"),
        ("$s->f <|> 1 <|> 2", "(<|> (->or $s f 1) 2)"),
        ("$s->f <|> $t->g <|> 2", "(->or $s f (->or $t g 2))"),
        ("$x * $s->f <|> 3 + 4", "(* $x (->or $s f (+ 3 4)))"),
        ("not $s->f <|> true", "(not (->or $s f true))"),
        ("$a == $s->f <|> 1 == 2", "(== $a (->or $s f (== 1 2)))"),
        ("$a->b[0]->c", "(-> (index (-> $a b) 0) c)"),
        ("$a->b[0] <|> 1", "(<|> (index (-> $a b) 0) 1)"),
        ("1 + 2 in [3]", "(in (+ 1 2) (list 3))"),
        ("1 - 2 - 3", "(- (- 1 2) 3)"),
        ("1 / 2 * 3", "(* (/ 1 2) 3)"),
        ("1 + 2 * 3", "(+ 1 (* 2 3))"),
        ("(1 + 2) * 3", "(* (paren (+ 1 2)) 3)"),
        ("$a < $b and $c >= $d", "(and (< $a $b) (>= $c $d))"),
        ("$a + not $b == $c", "(== (+ $a (not $b)) $c)"),
        ("$a != $b or $a <= $c", "(or (!= $a $b) (<= $a $c))"),
    ] {
        check_expression(text, tree);
    }
}

#[test]
fn comparisons_do_not_chain() {
    for text in ["$a < $b == $c", "$a in $b in $c", "1 == 1 == 1"] {
        let place = text.rfind(['=', 'i']).unwrap() - usize::from(text.contains("==")) + 6;
        check_errors(
            &format!("$x = {text}\n"),
            &format!(
                "1:{place} comparisons do not chain (compare two values at a time and join them with `and`, or use parentheses)"
            ),
        );
    }
    check_expression("($a < $b) == $c", "(== (paren (< $a $b)) $c)");
}

#[test]
fn literals() {
    for (text, tree) in [
        ("true", "true"),
        ("false", "false"),
        ("01134", "1134"),
        ("-13", "-13"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("9223372036854775807", "9223372036854775807"),
        ("000000000000000000000000000000042", "42"),
        ("3.14", "3.14"),
        ("-0.5", "-0.5"),
        ("\"\"", "\"\""),
        ("\"a\\\"b\"", "\"a\\\"b\""),
        ("\"c:\\\\\"", "\"c:\\\\\""),
        ("\"two\nlines # no comment\"", "\"two\nlines # no comment\""),
        ("\"héllo\"", "\"héllo\""),
    ] {
        check_expression(text, tree);
    }
}

#[test]
fn numbers_that_do_not_fit_are_reported_where_they_are() {
    let range = "integers go from -9223372036854775808 to 9223372036854775807";
    check_errors(
        "$x = 18446744073709551615\n",
        &format!("1:6 this integer does not fit in 64 bits ({range})"),
    );
    check_errors(
        "$x = [1, -9223372036854775809]\n",
        &format!("1:10 this integer does not fit in 64 bits ({range})"),
    );
    check_errors(&format!("$x = {}.0\n", "9".repeat(310)), "1:6 this float is too large");
}

#[test]
fn a_minus_belongs_to_a_number_or_between_two_values() {
    check_expression("13 - -1", "(- 13 -1)");
    check_expression("13 --1", "(- 13 -1)");
    check_expression("$a - 1", "(- $a 1)");
    check_expression("[1, -1]", "(list 1 -1)");
    check_expression("f($a, -1)", "(call f $a -1)");
    check_errors("$x = -$y\n", "1:6 there is no unary minus (write `0 - …`)");
    check_errors(
        "$x = - 1\n",
        "1:6 there is no unary minus (a negative number has its minus directly before it)",
    );
}

#[test]
fn containers() {
    for (text, tree) in [
        ("[]", "(list)"),
        ("[1]", "(list 1)"),
        ("[1, 2]", "(list 1 2)"),
        ("[\n\t1,\n\t2,\n]", "(list 1 2)"),
        ("[\n]", "(list)"),
        ("[\n\n\t1,\n\n\t2,\n\n]", "(list 1 2)"),
        ("{}", "(map)"),
        ("{\"a\" => 1, \"b\" => 2}", "(map \"a\"=>1 \"b\"=>2)"),
        ("{\n\t\"a\" => 1,\n}", "(map \"a\"=>1)"),
        ("struct{}", "(struct)"),
        ("struct{a => 1, b => [2]}", "(struct a=>1 b=>(list 2))"),
        ("struct{\n\ta => 1,\n}", "(struct a=>1)"),
        ("{{} => [[]]}", "(map (map)=>(list (list)))"),
    ] {
        check_expression(text, tree);
    }
}

#[test]
fn calls_and_lookups() {
    for (text, tree) in [
        ("foo()", "(call foo)"),
        ("fmt.printf(\"%d\", 42)", "(call fmt.printf \"%d\" 42)"),
        ("fmt . printf ( 1 )", "(call fmt.printf 1)"),
        ("map.lookup($m)", "(call map.lookup $m)"),
        ("collect(1)", "(call collect 1)"),
        ("$f(1)", "(call $f 1)"),
        ("$a.b.c(1)", "(call $a.b.c 1)"),
        ("$ a . b", "$a.b"),
        ("$map", "$map"),
        ("$collect.map", "$collect.map"),
        ("foo()[0]", "(index (call foo) 0)"),
        ("foo()->a", "(-> (call foo) a)"),
        ("func() { 1 }()[0]", "(index (call (func (params) 1)) 0)"),
        ("foo(\n\t1,\n\t2,\n)", "(call foo 1 2)"),
        ("foo(\n)", "(call foo)"),
        ("func($x) { $x }(42)", "(call (func (params $x) $x) 42)"),
        ("func($x int, $y) str {\n\t$x\n}", "(func (params $x:int $y) str $x)"),
        ("func(\n\t$x,\n\t$y int,\n) { 1 }", "(func (params $x $y:int) 1)"),
        ("func() func() int { func() { 1 } }", "(func (params) func()int (func (params) 1))"),
    ] {
        check_expression(text, tree);
    }
}

#[test]
fn only_names_and_lambdas_can_be_called() {
    let hint = "(bind it to a variable first, then call that: `$f = …` and `$f()`)";
    check_errors("$x = foo()()\n", &format!("1:11 the result of a call cannot be called directly {hint}"));
    check_errors("$x = $f()()\n", &format!("1:10 the result of a call cannot be called directly {hint}"));
    check_errors("$x = (func() { 1 })()\n", &format!("1:20 this cannot be called {hint}"));
    check_errors("$x = \"a\"(1)\n", &format!("1:9 this cannot be called {hint}"));
}

#[test]
fn if_expressions() {
    check_expression("if $c { 1 } else { 2 }", "(if $c 1 2)");
    check_expression("if $c {\n\n\t1\n} else {\n\t2\n\n}", "(if $c 1 2)");
    check_expression("if $c { 1 } else { 2 } + 3", "(+ (if $c 1 2) 3)");
    check_expression("if {} == $m { {} } else { $m }", "(if (== (map) $m) (map) $m)");
    check_errors(
        "$x = if $c { 1 }\n$y = 2\n",
        "1:17 expected `else`, found the end of the line (an `if` that gives a value needs an `else` for the other case)",
    );
    check_errors("$x = if $c { } else { 2 }\n", "1:14 expected a value, found `}`");
}

#[test]
fn a_bare_word_is_not_a_value() {
    check_errors(
        "$x = foo\n",
        "1:6 expected `(` after the function name, found the end of the line (a variable is written `$foo`, a string `\"foo\"`)",
    );
    check_errors(
        "$x = [foo, 1]\n",
        "1:7 expected `(` after the function name, found `,` (a variable is written `$foo`, a string `\"foo\"`)",
    );
}

#[test]
fn operators_of_other_languages_are_understood_and_reported() {
    check_errors("$x = $a && $b || !$c\n", "1:9 write `and`\n1:15 write `or`\n1:18 write `not`");
    assert_eq!(crate::tests::dump("$x = $a && $b || !$c\n"), "(bind $x (or (and $a $b) (not $c)))");
    check_errors(
        "$x = $a % 2\n",
        "1:9 `%` means nothing in mcl (there is no remainder operator; see `math.mod`)",
    );
    check_errors("$x = 'a'\n", "1:6 strings are written in double quotes (replace each `'` by `\"`)");
}

#[test]
fn string_errors_point_inside_the_string() {
    check_errors(
        "$x = \"ab\\z\"\n",
        "1:9 unknown escape sequence `\\z` (a backslash is written `\\\\`; the escapes are \\a \\b \\f \\n \\r \\t \\v \\\\ \\\" \\$)",
    );
    check_errors("import \"ab\\z${}\"\n", "");
}
