use super::{check_errors, check_lenient};

#[test]
fn a_trailing_comma_is_optional() {
    check_lenient("$x = [1, 2,]\n", "(bind $x (list 1 2))", "1:12 TrailingComma");
    check_lenient("$x = [\n\t1,\n\t2\n]\n", "(bind $x (list 1 2))", "3:3 MissingTrailingComma");
    check_lenient("$x = {1 => 2,}\n", "(bind $x (map 1=>2))", "1:14 TrailingComma");
    check_lenient("$x = struct{a => 1,}\n", "(bind $x (struct a=>1))", "1:20 TrailingComma");
    check_lenient("$x = f(1,)\n", "(bind $x (call f 1))", "1:10 TrailingComma");
    check_lenient("func f($a,) { 1 }\n", "(func f (params $a) 1)", "1:11 TrailingComma");
    check_lenient("class c($a,) {}\n", "(class c (params $a) (do))", "1:12 TrailingComma");
    check_lenient("$f func(str,) str = 1\n", "(bind $f:func(str)str 1)", "1:13 TrailingComma");
    check_lenient("$f struct{a str;} = 1\n", "(bind $f:struct{a str} 1)", "1:17 TrailingComma");
    check_lenient("test \"x\" { a => 1 }\n", "(res test \"x\" (a 1))", "1:18 MissingTrailingComma");
    check_lenient("test \"x\" {\n\ta => 1\n}\n", "(res test \"x\" (a 1))", "2:8 MissingTrailingComma");
    check_lenient(
        "test \"x\" {\n\tBefore => T[\"a\"]\n}\n",
        "(res test \"x\" (before t[\"a\"]))",
        "2:18 MissingTrailingComma",
    );
}

#[test]
fn elements_may_share_lines() {
    check_lenient("$x = [\n\t1, 2,\n]\n", "(bind $x (list 1 2))", "2:5 ElementsPerLine");
    check_lenient("$x = [1,\n\t2]\n", "(bind $x (list 1 2))", "1:9 ElementsPerLine");
    check_lenient("$x = [1,\n]\n", "(bind $x (list 1))", "1:9 ElementsPerLine");
    check_lenient("$x = [\n\t1]\n", "(bind $x (list 1))", "2:3 ElementsPerLine");
}

#[test]
fn the_final_newline_is_optional() {
    check_lenient("$x = 1", "(bind $x 1)", "1:7 MissingFinalNewline");
    check_lenient("$x = 1 # c", "(bind $x 1)", "1:7 MissingFinalNewline");
    check_lenient("test \"x\" {}", "(res test \"x\")", "1:12 MissingFinalNewline");
}

#[test]
fn a_block_may_stand_on_one_line() {
    check_lenient(
        "if $x { test \"a\" {} } else { $y = 1 }\n",
        "(if $x (do (res test \"a\")) (do (bind $y 1)))",
        "1:21 OneLineBlock\n1:37 OneLineBlock",
    );
    check_lenient("class c { include d }\n", "(class c - (do (include d)))", "1:21 OneLineBlock");
}

#[test]
fn newlines_mean_nothing_inside_brackets() {
    check_lenient("$x = (\n1)\n", "(bind $x (paren 1))", "1:7 NewlineInBrackets");
    check_lenient("$x = $y[\n0]\n", "(bind $x (index $y 0))", "1:9 NewlineInBrackets");
    check_lenient("$x = {1\n=> 2}\n", "(bind $x (map 1=>2))", "1:8 NewlineInBrackets");
    check_lenient("$x map{str:\nint} = 1\n", "(bind $x:map{str:int} 1)", "1:12 NewlineInBrackets");
    check_lenient(
        "$x struct{\na str;\nb int\n} = 1\n",
        "(bind $x:struct{a str;b int} 1)",
        "1:11 NewlineInBrackets\n2:7 NewlineInBrackets\n3:6 NewlineInBrackets",
    );
    check_lenient("test \"x\" {\n\ta =>\n\t1,\n}\n", "(res test \"x\" (a 1))", "2:6 NewlineInBrackets");
    check_lenient("A[\n\"a\"\n]\n", "(edge a[\"a\"])", "1:3 NewlineInBrackets\n2:4 NewlineInBrackets");
    check_lenient(
        "$x = (if $c { 1 }\nelse { 2 })\n",
        "(bind $x (paren (if $c 1 2)))",
        "1:18 NewlineInBrackets",
    );
}

#[test]
fn a_line_may_be_broken_at_an_operator() {
    check_lenient("$x = 1 +\n\t2\n", "(bind $x (+ 1 2))", "1:9 NewlineAtOperator");
    check_lenient("$x = 1\n\t+ 2\n$y = 3\n", "(bind $x (+ 1 2))\n(bind $y 3)", "1:7 NewlineAtOperator");
    for operator in ["and", "or", "==", "!=", "<", ">", "<=", ">=", "+", "-", "*", "/", "<|>", "in"] {
        let tree = format!("(bind $x ({operator} $a $b))\n(bind $y 1)");
        check_lenient(
            &format!("$x = $a {operator}\n$b\n$y = 1\n"),
            &tree,
            &format!("1:{} NewlineAtOperator", 9 + operator.len()),
        );
        check_lenient(
            &format!("$x = $a # c\n# d\n\n{operator} $b\n$y = 1\n"),
            &tree,
            "1:8 NewlineAtOperator",
        );
    }
    check_lenient(
        "$x = $a\n->b\n->c\n",
        "(bind $x (-> (-> $a b) c))",
        "1:8 NewlineAtOperator\n2:4 NewlineAtOperator",
    );
    check_lenient("$x = $a->b <|>\n1\n", "(bind $x (->or $a b 1))", "1:15 NewlineAtOperator");
    check_lenient("$x = not\n$a\n", "(bind $x (not $a))", "1:9 NewlineAtOperator");
    check_lenient(
        "A[1] ->\nB[2]\n-> C[3]\n",
        "(edge a[1] b[2] c[3])",
        "1:8 NewlineAtOperator\n2:5 NewlineAtOperator",
    );
}

#[test]
fn a_negative_number_does_not_continue_the_line_before() {
    let bind = "(a value alone does nothing; bind it: `$x = …`)";
    check_errors("$x = 1\n-1\n", &format!("2:1 expected a statement, found `-` {bind}"));
    check_errors("$x = [\n\t1\n\t-1,\n]\n", "2:3 expected `,` between two values, found `-` (add a comma)");
    check_lenient("$x = 1\n- 1\n", "(bind $x (- 1 1))", "1:7 NewlineAtOperator");
}

#[test]
fn a_bracket_does_not_continue_the_line_before() {
    let bind = "(a value alone does nothing; bind it: `$x = …`)";
    check_errors("$x = $y\n[0]\n", &format!("2:1 expected a statement, found `[` {bind}"));
    check_errors("$x = [\n\t$y\n\t[0],\n]\n", "2:4 expected `,` between two values, found `[` (add a comma)");
    check_errors("$x = [\n\t$y\n\t(0),\n]\n", "2:4 expected `,` between two values, found `(` (add a comma)");
}

#[test]
fn else_if_is_short_for_an_if_in_the_else_block() {
    check_lenient("if $a {\n} else if $b {\n} else {\n}\n", "(if $a (do) (if $b (do) (do)))", "2:8 ElseIf");
    check_lenient(
        "$x = if $a { 1 } else if $b { 2 } else { 3 }\n",
        "(bind $x (if $a 1 (if $b 2 3)))",
        "1:23 ElseIf",
    );
}

#[test]
fn in_may_be_the_name_of_a_variable() {
    check_lenient("$in = 1\n", "(bind $in 1)", "1:2 InAsName");
    check_lenient("$x = $in in $a.in\n", "(bind $x (in $in $a.in))", "1:7 InAsName\n1:16 InAsName");
    check_lenient("for $in, $v in $in {}\n", "(for $in $v $in (do))", "1:6 InAsName\n1:17 InAsName");
}

#[test]
fn a_map_type_may_lack_its_word() {
    check_lenient("$x {str: float} = 1\n", "(bind $x:map{str:float} 1)", "1:4 BareMapType");
    check_lenient("func f() {str: int} { {} }\n", "(func f (params) map{str:int} (map))", "1:10 BareMapType");
    check_lenient("func f($a {str: int}) { 1 }\n", "(func f (params $a:map{str:int}) 1)", "1:11 BareMapType");
    check_lenient(
        "$x []{int: {str: int}} = 1\n",
        "(bind $x:[]map{int:map{str:int}} 1)",
        "1:6 BareMapType\n1:12 BareMapType",
    );
}

#[test]
fn a_minus_may_touch_the_number_it_takes_away() {
    check_lenient("$x = $a -1\n", "(bind $x (- $a 1))", "1:9 GluedMinus");
    check_lenient("$x = $a-1.5\n", "(bind $x (- $a 1.5))", "1:8 GluedMinus");
    check_lenient("$x = [3-1, -1]\n", "(bind $x (list (- 3 1) -1))", "1:8 GluedMinus");
}

#[test]
fn lines_may_end_like_on_windows() {
    check_lenient(
        "$x = 1\r\n# c\r\n$y = \"a\r\nb\"\r\n",
        "(bind $x 1)\n(bind $y \"a\r\nb\")",
        "1:7 CarriageReturn",
    );
    check_errors(
        "$x = 1\r$y = 2\n",
        "1:7 a carriage return without a line feed (end lines with a line feed, or with both)",
    );
    check_lenient("$x = 1\r\r\n", "(bind $x 1)", "1:7 CarriageReturn");
    check_errors(
        "# c\r",
        "1:4 a carriage return without a line feed (end lines with a line feed, or with both)",
    );
    let comment = crate::parse("# c\r\r\n").syntax().tokens().next().unwrap();
    assert_eq!(comment.text(), "# c");
}

#[test]
fn a_byte_order_mark_is_skipped() {
    check_lenient("\u{feff}$x = 1\n", "(bind $x 1)", "1:1 ByteOrderMark");
}
