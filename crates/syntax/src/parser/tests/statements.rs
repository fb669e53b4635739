use super::{check, check_errors};

#[test]
fn an_empty_file_is_fine() {
    check("", "");
    check("\n", "");
    check("\n# comment\n\n", "");
}

#[test]
fn binds() {
    check("$x = 1\n", "(bind $x 1)");
    check("$x int = 1\n", "(bind $x:int 1)");
    check("$map = 55\n", "(bind $map 55)");
    check("$collect = 55\n", "(bind $collect 55)");
    check("$a__b = 1\n", "(bind $a__b 1)");
    check("$iffy = $int8 + $inside\n", "(bind $iffy (+ $int8 $inside))");
}

#[test]
fn types() {
    for (text, tree) in [
        ("bool", "bool"),
        ("str", "str"),
        ("int", "int"),
        ("float", "float"),
        ("variant", "variant"),
        ("[]str", "[]str"),
        ("[][]int", "[][]int"),
        ("map{str: int}", "map{str:int}"),
        ("map{str: map{int: []float}}", "map{str:map{int:[]float}}"),
        ("struct{}", "struct{}"),
        ("struct{a int}", "struct{a int}"),
        ("struct{a int; b struct{c str}}", "struct{a int;b struct{c str}}"),
        ("func() int", "func()int"),
        ("func(str, $b int) []str", "func(str,$b int)[]str"),
        ("func(\n\tstr,\n\tfunc(int) int,\n) str", "func(str,func(int)int)str"),
    ] {
        check(&format!("$x {text} = 1\n"), &format!("(bind $x:{tree} 1)"));
    }
}

#[test]
fn a_type_names_nothing_twice() {
    check_errors("$x struct{a int; a int} = 1\n", "1:18 duplicate field `a` in a type");
    check_errors("$x func($a int, $b int, $a str) int = 1\n", "1:26 duplicate argument `a` in a type");
    check("$x func($a int, func($a int) int) int = 1\n", "(bind $x:func($a int,func($a int)int)int 1)");
    check("$x struct{a struct{a int}} = 1\n", "(bind $x:struct{a struct{a int}} 1)");
}

#[test]
fn resources() {
    check("test \"x\" {}\n", "(res test \"x\")");
    check("http:server:flag \"x\" {}\n", "(res http:server:flag \"x\")");
    check("test \"x\" { a => 1, b => 2, }\n", "(res test \"x\" (a 1) (b 2))");
    check("test [\"a\", $b] {\n\n\ta => 1,\n}\n", "(res test (list \"a\" $b) (a 1))");
    check("test {\"a\" => 1} {}\n", "(res test (map \"a\"=>1))");
    check("test $a->b <|> \"c\" {}\n", "(res test (->or $a b \"c\"))");
    check("collect file \"x\" {\n\ta => 1,\n}\n", "(collect (res file \"x\" (a 1)))");
    check(
        "file \"/tmp/b\" {\n\tcontent => \"hello\",\n\tmode => $present ?: \"0644\",\n\n\tMeta:noop => true,\n\tMeta => struct{retry => 3},\n\tBefore => File[\"/tmp/a\"],\n\tNotify => $p ?: Dhcp:Host[\"/tmp/a\"],\n\tMeta : poll => $c ?: 60,\n}\n",
        "(res file \"/tmp/b\" (content \"hello\") (mode $present ?: \"0644\") (meta:noop true) (meta (struct retry=>3)) \
         (before file[\"/tmp/a\"]) (notify $p ?: dhcp:host[\"/tmp/a\"]) (meta:poll $c ?: 60))",
    );
}

#[test]
fn edges() {
    check("File[\"a\"] -> File[\"b\"]\n", "(edge file[\"a\"] file[\"b\"])");
    check("A[\"a\"] -> B:C[$b] -> D[[\"c\"]]\n", "(edge a[\"a\"] b:c[$b] d[(list \"c\")])");
    check("A[\"a\"].out -> B[\"b\"].in_put\n", "(edge a[\"a\"].out b[\"b\"].in_put)");
    check("A[\"a\"]\n", "(edge a[\"a\"])");
}

#[test]
fn an_edge_that_sends_has_two_halves_with_a_field() {
    let hint = "an edge that sends has two halves with a field each (like `Exec[\"a\"].output -> File[\"b\"].content`)";
    for text in ["A[\"a\"].x -> B[\"b\"]\n", "A[\"a\"].x\n", "A[\"a\"].x -> B[\"b\"].y -> C[\"c\"].z\n"] {
        check_errors(text, &format!("1:1 {hint}"));
    }
}

#[test]
fn blocks() {
    check("if $c {\n\t$x = 1\n}\n", "(if $c (do (bind $x 1)))");
    check("if $c {} else {\n\ttest \"a\" {}\n}\n", "(if $c (do) (do (res test \"a\")))");
    check("for $i, $v in [1] {\n}\n", "(for $i $v (list 1) (do))");
    check(
        "forkv $k, $v in {\"a\" => 1} {\n\n\t$x = $k\n\n}\n",
        "(forkv $k $v (map \"a\"=>1) (do (bind $x $k)))",
    );
    check("class c {}\n", "(class c - (do))");
    check("class c() {}\n", "(class c (params) (do))");
    check("class a:b:c($x, $y str) {\n\tinclude d\n}\n", "(class a:b:c (params $x $y:str) (do (include d)))");
}

#[test]
fn functions_includes_imports_and_panics() {
    check("func f() { 1 }\n", "(func f (params) 1)");
    check("func f($a, $b str) map{str: int} {\n\t{}\n}\n", "(func f (params $a $b:str) map{str:int} (map))");
    check("include a\n", "(include a)");
    check("include a()\n", "(include a ())");
    check("include a.map(1, 2) as c\n", "(include a.map (1 2) as c)");
    check("import \"fmt\"\n", "(import \"fmt\")");
    check("import \"math\" as m\n", "(import \"math\" as m)");
    check("import \"golang/strings/\" as *\n", "(import \"golang/strings/\" as *)");
    check("panic(\"oops\")\n", "(panic \"oops\")");
    check("panic(\n\ttrue,\n\t\"oops\",\n)\n", "(panic true \"oops\")");
}

#[test]
fn blanks_are_free_between_tokens() {
    check("\tif   true\t{\t\n  $ x=1 # c\n}\t\n", "(if true (do (bind $x 1)))");
    check("$x=1in[1]\n", "(bind $x (in 1 (list 1)))");
}
