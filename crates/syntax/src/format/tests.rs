use super::format;

/// The text is formatted like this, and stays so.
#[track_caller]
fn check(text: &str, expected: &str) {
    let formatted = format(text).unwrap_or_else(|errors| panic!("{text:?}: {errors:?}"));
    assert_eq!(formatted, expected, "{text:?}");
    assert_eq!(format(&formatted).as_deref(), Ok(expected), "the second time");
}

/// The text is canonical.
#[track_caller]
fn check_same(text: &str) {
    check(text, text);
}

#[test]
fn a_text_with_syntax_errors_is_left_alone() {
    let errors = format("$x = [1,,2]\n$y = \"\\z\"\n").unwrap_err();
    assert_eq!(errors.len(), 1);
    assert_eq!(errors[0].to_string(), "expected a value, found `,` (remove the comma)");
}

#[test]
fn mistakes_inside_strings_do_not_matter() {
    check("$x=\"\\z ${} é\"", "$x = \"\\z ${} é\"\n");
}

#[test]
fn an_empty_text_stays_empty() {
    check_same("");
    check("\n\n", "");
    check("  \t", "");
    check("\u{feff}", "");
    check_same("# only this\n");
    check("\n\n# only this", "# only this\n");
}

#[test]
fn one_blank_line_stays_and_more_become_one() {
    check("\n\n$a = 1\n\n\n\n$b = 2\n$c = 3\n\n\n", "$a = 1\n\n$b = 2\n$c = 3\n");
    check_same("if true {\n\n\t$x = 1\n\n}\n");
    check("$x = [\n\n\n\t1,\n\n\n\n\t2,\n\n\n]\n", "$x = [\n\n\t1,\n\n\t2,\n\n]\n");
    check_same("test \"x\" {\n\n\ta => 1,\n\n\tb => 2,\n\n}\n");
    check("func f() {\n\n\n\t1\n\n\n}\n", "func f() {\n\n\t1\n\n}\n");
}

#[test]
fn one_tab_per_level() {
    check(
        "if $a {\n  if $b {\n      $x = [\n1,\n]\n}\n}\n",
        "if $a {\n\tif $b {\n\t\t$x = [\n\t\t\t1,\n\t\t]\n\t}\n}\n",
    );
}

#[test]
fn lists_keep_the_layout_of_their_author() {
    check("$x=[1,2 ,3]\n", "$x = [1, 2, 3]\n");
    check("$x = [1, 2,]\n", "$x = [1, 2]\n");
    check("$x = [\n1,2,\n]\n", "$x = [\n\t1,\n\t2,\n]\n");
    check("$x = [\n1\n]\n", "$x = [\n\t1,\n]\n");
    check("$x = [1,\n2]\n", "$x = [\n\t1,\n\t2,\n]\n");
    check("$x = [1\n]\n", "$x = [\n\t1,\n]\n");
    check("$x = [\n\n]\n", "$x = []\n");
    check_same("$x = [[1, 2], [\n\t3,\n]]\n");
    check("$x={1=>2,3=>4}\n", "$x = {1 => 2, 3 => 4}\n");
    check("$x={\n1=>2}\n", "$x = {\n\t1 => 2,\n}\n");
    check("$x={\n}\n", "$x = {}\n");
    check("$x=struct {a=>1,b=>\"two\"}\n", "$x = struct{a => 1, b => \"two\"}\n");
    check("$x=struct{\na=>1}\n", "$x = struct{\n\ta => 1,\n}\n");
    check("$x=struct{\n}\n", "$x = struct{}\n");
    check("$x = f (\n1,2)\n", "$x = f(\n\t1,\n\t2,\n)\n");
    check("$x = f (\n)\n", "$x = f()\n");
    check_same("$x = f(1, [\n\t2,\n], func() {\n\t3\n})\n");
    check("class c (\n$a,$b str) {}\n", "class c(\n\t$a,\n\t$b str,\n) {}\n");
    check("class c ( ) {}\n", "class c() {}\n");
    check_same("class c {}\n");
}

#[test]
fn blocks_are_never_on_one_line() {
    check("if $x { test \"a\" {} } else { }\n", "if $x {\n\ttest \"a\" {}\n} else {}\n");
    check("if $c {\n} else {\n$x = 1}\n", "if $c {} else {\n\t$x = 1\n}\n");
    check("for $i,$v in [1] {\n\n}\n", "for $i, $v in [1] {}\n");
    check("forkv $k ,$v in $m { $x = $k }\n", "forkv $k, $v in $m {\n\t$x = $k\n}\n");
    check("if $a {} else if $b {} else { $x = 1 }\n", "if $a {} else if $b {} else {\n\t$x = 1\n}\n");
}

#[test]
fn resources_have_one_item_per_line() {
    check("test \"x\" { a => 1, b => 2 }\n", "test \"x\" {\n\ta => 1,\n\tb => 2,\n}\n");
    check("test \"x\" {\n}\n", "test \"x\" {}\n");
    check(
        "file[\"a\"]{mode=>$p?:\"0644\",Meta : noop=>true,Meta=>struct{retry=>3},Before=>File [ \"a\" ],Notify=>$p?:Dhcp : Host[$x]}\n",
        "file [\"a\"] {\n\tmode => $p ?: \"0644\",\n\tMeta:noop => true,\n\tMeta => struct{retry => 3},\n\tBefore => File[\"a\"],\n\tNotify => $p ?: Dhcp:Host[$x],\n}\n",
    );
    check("collect  http : server  \"x\" {a=>1}\n", "collect http:server \"x\" {\n\ta => 1,\n}\n");
}

#[test]
fn bodies_are_broken_if_their_value_starts_on_a_new_line() {
    check("func f(){1}\n", "func f() { 1 }\n");
    check("func f() { 1\n}\n", "func f() { 1 }\n");
    check("func f() {\n1 }\n", "func f() {\n\t1\n}\n");
    check("$x = if $c {1} else {\n2}\n", "$x = if $c { 1 } else { 2 }\n");
    check("$x = if $c {\n1} else {2}\n", "$x = if $c {\n\t1\n} else {\n\t2\n}\n");
    check(
        "$x = if $a {1} else if $b {\n2} else {3}\n",
        "$x = if $a {\n\t1\n} else if $b {\n\t2\n} else {\n\t3\n}\n",
    );
    check_same("$x = if $a { 1 } else if $b { 2 } else { 3 }\n");
    check_same("$x = func($a) { $a }(42)\n");
}

#[test]
fn tokens_are_spelled_one_way() {
    check("$x   int=1\n", "$x int = 1\n");
    check("$x=1+2*-3- -4\n", "$x = 1 + 2 * -3 - -4\n");
    check("$x = $a -1\n", "$x = $a - 1\n");
    check("$x = $a-1\n", "$x = $a - 1\n");
    check("$x=not($a)and$b\n", "$x = not ($a) and $b\n");
    check("$x = $ a . b [ 0 ] -> c <|> 1\n", "$x = $a.b[0]->c <|> 1\n");
    check("$x=$a<|>$b\n", "$x = $a <|> $b\n");
    check("$x = 1in[1]\n", "$x = 1 in [1]\n");
    check("$x = contains ( 1 , [1] )\n", "$x = contains(1, [1])\n");
    check("func f ( $a,$b str )int{ $a }\n", "func f($a, $b str) int { $a }\n");
    check("$f=func ($a) int { $a } ( 1 )\n", "$f = func($a) int { $a }(1)\n");
    check("class a : b ( $x ) {}\n", "class a:b($x) {}\n");
    check("include a . b ( 1 ) as c\n", "include a.b(1) as c\n");
    check("include a ( )\n", "include a()\n");
    check_same("include a\n");
    check("import   \"x\"  as  *\n", "import \"x\" as *\n");
    check("import \"x\"as y\n", "import \"x\" as y\n");
    check("panic ( \"x\" )\n", "panic(\"x\")\n");
    check("A [\"x\"]->B[\"y\"]->C : D[\"z\"]\n", "A[\"x\"] -> B[\"y\"] -> C:D[\"z\"]\n");
    check("A[\"x\"] . s->B[\"y\"].r\n", "A[\"x\"].s -> B[\"y\"].r\n");
    check("$x = ((1)+(2))\n", "$x = ((1) + (2))\n");
}

#[test]
fn types_are_on_one_line() {
    check("$x [ ]str = 1\n", "$x []str = 1\n");
    check("$x map { str :int } = 1\n", "$x map{str: int} = 1\n");
    check("$x {str:int} = 1\n", "$x map{str: int} = 1\n");
    check("$x struct { a int ;b str; } = 1\n", "$x struct{a int; b str} = 1\n");
    check("$x struct{\na int;\nb str\n} = 1\n", "$x struct{a int; b str} = 1\n");
    check("$x struct { } = 1\n", "$x struct{} = 1\n");
    check("$f func ($a int,str)int = 1\n", "$f func($a int, str) int = 1\n");
    check("$f func(\n\tstr,\n\tint,\n) int = 1\n", "$f func(str, int) int = 1\n");
    check("$f func( ) variant = 1\n", "$f func() variant = 1\n");
}

#[test]
fn numbers_have_one_spelling() {
    for (text, expected) in [
        ("007", "7"),
        ("-007", "-7"),
        ("000", "0"),
        ("-0", "0"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("1.0", "1.0"),
        ("1.50", "1.5"),
        ("01.5", "1.5"),
        ("00.5", "0.5"),
        ("3.00", "3.0"),
        ("-0.0", "-0.0"),
        ("0.1000", "0.1"),
        ("0.1", "0.1"),
        ("0.10000000000000000555", "0.1"),
        ("123456789012345678.0", "123456789012345680.0"),
        ("1000000000000000000000000.0", "1000000000000000000000000.0"),
    ] {
        check(&format!("$x = {text}\n"), &format!("$x = {expected}\n"));
    }
}

#[test]
fn lines_broken_at_operators_stay_broken() {
    check("$x = $a +\n$b\n* $c\n", "$x = $a +\n\t$b\n\t\t* $c\n");
    check("$x = $a\nand $b\nand $c\n", "$x = $a\n\tand $b\n\tand $c\n");
    check("$x = $a->b\n->c <|>\n1\n", "$x = $a->b\n\t->c <|>\n\t1\n");
    check("A[1]\n->\nB[2]\n", "A[1]\n\t->\n\tB[2]\n");
    check("$x = (\n1 +\n\n2\n)\n", "$x = (\n\t1 +\n\t\t2\n)\n");
    check("$x = $y[\n0]\n", "$x = $y[\n\t0\n]\n");
    check("$x = $a + # one\n# two\n$b # three\n", "$x = $a + # one\n\t# two\n\t$b # three\n");
    check("$x = not\n$a\n", "$x = not $a\n");
}

#[test]
fn comments_stay_where_they_are() {
    check(
        "# file\n#second\n\n\nimport \"fmt\"\n$x=42# trailing\n# standalone\nfile \"/tmp/hello\" { # header\n# inside\n\tcontent =>    \"hello\",    # field\n\n\t\t# after a blank line\n\tmode=>\"0644\",\n\t\t# before the end\n} # behind\n\n# last\n",
        "# file\n#second\n\nimport \"fmt\"\n$x = 42 # trailing\n# standalone\nfile \"/tmp/hello\" { # header\n\t# inside\n\tcontent => \"hello\", # field\n\n\t# after a blank line\n\tmode => \"0644\",\n\t# before the end\n} # behind\n\n# last\n",
    );
    check_same(
        "if true { # start\n\t# in then\n\ttest \"a\" {}\n\t# before else\n} else { # on else\n\t# in else\n}\n",
    );
    check_same(
        "$x = if true { # head\n\t# above\n\t\"yes\" # after\n\t# before else\n} else { # on else\n\t# above\n\t\"no\" # after\n\t# before the end\n}\n",
    );
    check_same("$l = [ # open\n\t1, # one\n\n\t# between\n\t2,\n\t# before the end\n] # behind\n");
    check_same("$c = f( # open\n\t1,\n\t# before the end\n)\n");
    check_same("func f( # open\n\t$a, # one\n\t# between\n\t$b str,\n) str { # head\n\t$b\n}\n");
    check_same("for $i, $v in [1, 2] { # head\n\t# inside\n}\n");
}

#[test]
fn a_comment_keeps_what_is_empty_open() {
    check_same("$x = [\n\t# nothing yet\n]\n");
    check_same("$x = {\n\t# nothing yet\n}\n");
    check_same("$x = struct{\n\t# nothing yet\n}\n");
    check_same("$x = f(\n\t# nothing yet\n)\n");
    check_same("test \"x\" {\n\t# nothing yet\n}\n");
    check_same("if true {\n\t# nothing yet\n} else {\n\t# nor here\n}\n");
    check_same("class c(\n\t# nothing yet\n) {}\n");
}

#[test]
fn a_comment_inside_breaks_a_list_but_not_a_call() {
    check("$x = [struct{\n\ta => 1, # c\n}]\n", "$x = [\n\tstruct{\n\t\ta => 1, # c\n\t},\n]\n");
    check_same("$x = f(struct{\n\ta => 1, # c\n})\n");
    check("$x = [{ # c\n\t1 => 2,\n}]\n", "$x = [\n\t{ # c\n\t\t1 => 2,\n\t},\n]\n");
    check("func f() { [ # c\n\t1,\n] }\n", "func f() {\n\t[ # c\n\t\t1,\n\t]\n}\n");
}

#[test]
fn a_comment_does_not_move_across_what_is_broken_up() {
    check("if $a { $x = 1 } else { # c\n}\n", "if $a {\n\t$x = 1\n} else { # c\n}\n");
    check("if $a { $x = 1 } # c\n", "if $a {\n\t$x = 1\n} # c\n");
}

#[test]
fn a_comment_in_the_middle_of_a_line_breaks_it() {
    check("$x = {\n\t1 => # one\n2, # two\n}\n", "$x = {\n\t1 => # one\n\t\t2, # two\n}\n");
    check("$x = {\n\t1 =>\n# one\n# two\n2\n}\n", "$x = {\n\t1 => # one\n\t\t# two\n\t\t2,\n}\n");
    check("$x = [\n\t1 # one\n\t, # two\n\t2\n]\n", "$x = [\n\t1, # one\n\t# two\n\t2,\n]\n");
    check("$x struct{ # s\na int; # a\n} = 1\n", "$x struct{ # s\n\ta int # a\n\t} = 1\n");
    check("$x = (func() # c\n{1})\n", "$x = (func() # c\n\t{ 1 })\n");
}

#[test]
fn lines_end_with_a_line_feed() {
    check("$x = 1\r\n# c\r\n\r\n\r\n$y = \"a\r\nb\"\r\n", "$x = 1\n# c\n\n$y = \"a\r\nb\"\n");
    check("#a\rb\r\r\n", "#a\rb\n");
    check("\u{feff}$x = 1", "$x = 1\n");
}

#[test]
fn a_string_of_several_lines_counts_as_such() {
    check_same("$x = \"a\n\n\nb\"\n$y = 1\n");
    check_same("test \"x\" {\n\ta => \"1\n\n2\", # c\n\n\tb => 2,\n}\n");
    check_same("$x = [\"a\nb\", 1]\n");
}
