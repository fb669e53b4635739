//! What is generic, and what is not.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::common::{checked, evaluated};
use mgmt_diagnostics::Severity;
use mgmt_lang::Checked;
use mgmt_lang::module::Memory;

fn program(text: &str) -> (Checked, Memory) {
    program_with(text, &[])
}

fn program_with(text: &str, others: &[(&str, &str)]) -> (Checked, Memory) {
    let mut files = Memory::from([("/main.mcl", text)]);
    for (path, text) in others {
        files.insert(path, *text);
    }
    (checked(&files), files)
}

/// The severity and the code of everything that is said, without what is only not used.
#[track_caller]
fn said(checked: &Checked) -> Vec<(Severity, &'static str)> {
    let said = checked.diagnostics.iter().map(|found| (found.severity, found.code.unwrap()));
    said.filter(|(_, code)| !code.starts_with("M08")).collect()
}

/// It checks, and does not panic: the programs below panic if something is not as they expect.
#[track_caller]
fn runs(text: &str) {
    runs_with(text, &[]);
}

#[track_caller]
fn runs_with(text: &str, others: &[(&str, &str)]) {
    let (checked, files) = program_with(text, others);
    assert_eq!(said(&checked), [], "{:#?}", checked.diagnostics);
    if let Err(wrong) = evaluated(&checked, &files) {
        panic!("{wrong:#?}");
    }
}

#[track_caller]
fn fails(text: &str, code: &'static str) {
    let (checked, _) = program(text);
    assert_eq!(said(&checked), [(Severity::Error, code)], "{:#?}", checked.diagnostics);
}

#[track_caller]
fn warns(text: &str, code: &'static str) {
    let (checked, _) = program(text);
    assert_eq!(said(&checked), [(Severity::Warning, code)], "{:#?}", checked.diagnostics);
    assert!(checked.is_right());
}

#[test]
fn a_function_works_at_two_types() {
    runs(
        "func same($x) { $x }
        panic(not (same(1) == 1))
        panic(not (same(\"a\") == \"a\"))
        panic(not (same([same(1.5)])[0] == 1.5))
        ",
    );
}

#[test]
fn a_lambda_does_not() {
    fails("$same = func($x) { $x }\npanic($same(1) == 1 and $same(\"a\") == \"a\")\n", "M0501");
    fails("func both($f) { $f(1) == 1 and $f(\"a\") == \"a\" }\npanic(both(func($x) { $x }))\n", "M0501");
}

#[test]
fn a_lambda_that_a_generic_function_returns_has_the_type_of_the_call() {
    runs(
        "func constant($x) { func() { $x } }
        $one = constant(1)
        $a = constant(\"a\")
        panic(not ($one() == 1 and $a() == \"a\"))
        ",
    );
}

#[test]
fn a_class_parameter_has_one_type_within_an_include_and_any_between_them() {
    let class = "class c($x) {\n\t$list = [$x]\n\tpanic(not ($list[0] == $x))\n}\n";
    runs(&format!("{class}include c(1)\ninclude c(\"a\")\ninclude c([true])\n"));
    fails(
        "class c($f) {\n\tpanic($f(1) == 1)\n\tpanic($f(\"a\") == \"b\")\n}\ninclude c(func($x) { $x })\n",
        "M0501",
    );
}

#[test]
fn a_function_inside_a_class_is_generic_in_its_own_parameters_alone() {
    runs(
        "class c($x) {
        	func pair($y) { struct{x => $x, y => $y} }
        	panic(not (pair(1)->y == 1 and pair(\"a\")->y == \"a\" and pair(1)->x == $x))
        }
        include c(\"a\")
        include c(2)
        ",
    );
    fails("class c($x) {\n\tfunc f() { $x }\n\tpanic(f() == 1 and f() == \"a\")\n}\ninclude c(1)\n", "M0501");
}

#[test]
fn captured_variables_are_not_generalised() {
    fails("$f = func($x) { $x }\nfunc g($y) { $f($y) }\npanic(g(1) == 1 and g(\"a\") == \"a\")\n", "M0501");
    runs("$f = func($x) { $x }\nfunc g($y) { $f($y) }\npanic(not (g(1) == 1 and g(2) == 2))\n");
}

#[test]
fn what_a_generic_function_looks_into_is_decided_per_call() {
    runs(
        "func look($c, $k) { $c[$k] }
        func deep($c, $k) { look(look($c, $k), $k) }
        func name($s) { $s->name }
        func outer($s) { name($s->inner) }
        func size($s) { $s->size <|> 7 }
        panic(not (look([1, 2], 1) == 2 and look({\"a\" => \"b\"}, \"a\") == \"b\"))
        panic(not (deep([[\"x\"]], 0) == \"x\" and deep({\"a\" => {\"a\" => 1.5}}, \"a\") == 1.5))
        panic(not (name(struct{name => 1}) == 1 and name(struct{size => 1, name => \"a\"}) == \"a\"))
        panic(not (outer(struct{inner => struct{name => true}})))
        panic(not (size(struct{size => 1}) == 1 and size(struct{}) == 7))
        ",
    );
    fails("func name($s) { $s->name }\npanic(name(struct{size => 1}) == 1)\n", "M0505");
    fails("func look($c) { $c[0] }\npanic(look(struct{a => 1}) == 1)\n", "M0506");
    fails("func sum($a, $b) { $a + $b }\npanic(sum(true, false))\n", "M0508");
}

#[test]
fn operators_of_generic_functions_are_decided_per_call() {
    runs("func sum($a, $b) { $a + $b }\npanic(not (sum(1, 2) == 3 and sum(\"a\", \"b\") == \"ab\"))\n");
}

#[test]
fn an_include_inside_an_included_class_is_seen_through_both_aliases() {
    runs(
        "class inner($y) {
        	$both = [$y, $y]
        }
        class outer($x) {
        	include inner($x) as i
        	$mine = $i.both[0]
        }
        include outer(1) as a
        include outer(\"s\") as b
        panic(not ($a.i.both[1] == 1 and $b.i.both[1] == \"s\" and $b.mine == \"s\" and $a.i.y == 1))
        ",
    );
}

#[test]
fn a_class_inside_a_class_is_included_through_its_alias() {
    runs(
        "class outer($x) {
        	class inner($y) {
        		$pair = struct{x => $x, y => $y}
        	}
        	func get($z) { struct{x => $x, z => $z} }
        }
        include outer(1) as a
        include outer(\"s\") as b
        include a.inner(true) as c
        include b.inner(2.5) as d
        panic(not ($c.pair->x == 1 and $c.pair->y and $d.pair->x == \"s\" and $d.pair->y == 2.5))
        panic(not (a.get(\"z\")->x == 1 and b.get(1)->x == \"s\" and b.get(1)->z == 1))
        ",
    );
}

#[test]
fn an_imported_file_is_generic_per_import() {
    let library =
        ("/lib.mcl", "func same($x) { $x }\nclass c($x) {\n\t$list = [$x]\n}\n$f = func($x) { $x }\n");
    runs_with(
        "import \"lib.mcl\"
        include lib.c(1) as a
        include lib.c(\"s\") as b
        panic(not ($a.list[0] == 1 and $b.list[0] == \"s\"))
        panic(not (lib.same(1) == 1 and lib.same(\"s\") == \"s\"))
        class ints {
        	import \"lib.mcl\" as mine
        	panic(not ($mine.f(1) == 1))
        }
        class texts {
        	import \"lib.mcl\" as mine
        	panic(not ($mine.f(\"s\") == \"s\"))
        }
        include ints
        include texts
        ",
        &[library],
    );
}

#[test]
fn values_know_their_types_inside_of_generic_functions() {
    runs(
        "import \"fmt\"
        import \"iter\"
        func none($x) { if false { [$x] } else { [] } }
        func nothing($x) { if false { {\"a\" => $x} } else { {} } }
        func mapped($l, $f) { iter.map($l, $f) }
        func through($x) { none($x) }
        panic(not (fmt.printf(\"%T\", none(1)) == \"[]int\" and fmt.printf(\"%T\", none(\"a\")) == \"[]str\"))
        panic(not (fmt.printf(\"%T\", nothing(1)) == \"map{str: int}\"))
        panic(not (fmt.printf(\"%T\", through(1.5)) == \"[]float\"))
        panic(not (fmt.printf(\"%T\", mapped(none(1), func($x) { \"a\" })) == \"[]str\"))
        ",
    );
}

#[test]
fn mistakes_in_what_is_not_used_are_warnings() {
    warns("class c {\n\ttest \"a\" { int64 => \"x\", }\n}\n", "M0603");
    warns("class c {\n\tprint \"a\" { msg => $nowhere, }\n}\n", "M0301");
    warns("class c {\n\tinclude nowhere\n}\n", "M0303");
    warns("$a = 1 + \"x\"\n", "M0501");
    warns("func f($x) { $x + 1 + \"a\" }\n", "M0501");
    // Names of what is always looked at are not.
    fails("$a = $nowhere\n", "M0301");
    fails("func f() { nowhere() }\n", "M0302");
}

#[test]
fn what_is_not_used_decides_nothing() {
    runs(
        "import \"fmt\"
        class c($p) {
        	$unused = [$p, 1.5]
        	$none = if false { [$p] } else { [] }
        	panic(not (fmt.printf(\"%T\", $none) == \"[]str\"))
        }
        include c(\"x\")
        "
        .replace("\t$unused = [$p, 1.5]\n", "\t$unused = $p\n")
        .as_str(),
    );
    warns("class c($p) {\n\t$unused = $p + 1\n\tprint \"${p}\" {}\n}\ninclude c(\"x\")\n", "M0501");
}

#[test]
fn functions_that_each_call_the_last_one_twice_are_looked_at_once_each() {
    let mut text = String::from("func f0($x) { $x + 1 }\n");
    for number in 1..30 {
        text += &format!("func f{number}($x) {{ f{}($x) + f{0}($x) }}\n", number - 1);
    }
    text += "if false {\n\ttest \"a\" { int64 => f29(1), }\n}\n";
    let (checked, _) = program(&text);
    assert_eq!(said(&checked), []);
}

#[test]
fn a_type_that_doubles_with_each_function_is_refused_before_it_is_large() {
    // The depth doubles: the type of the last one would be 2³⁰ deep.
    let mut text = String::from("func f0($x) { [$x] }\n");
    for number in 1..30 {
        text += &format!("func f{number}($x) {{ f{}(f{0}($x)) }}\n", number - 1);
    }
    fails(&format!("{text}panic(f29(1) == f29(2))\n"), "M0515");
    // The size doubles, and the depth does not.
    let mut text = String::from("func f0($x) { struct{a => $x, b => $x} }\n");
    for number in 1..30 {
        text += &format!("func f{number}($x) {{ struct{{a => f{}($x), b => f{0}($x)}} }}\n", number - 1);
    }
    let found = said(&program(&format!("{text}panic(f29(1) == f29(2))\n")).0);
    assert!(!found.is_empty() && found.iter().all(|found| *found == (Severity::Error, "M0515")), "{found:?}");
    // The same through classes.
    let mut text = String::from("class c0($x) {\n\t$y = [$x]\n}\n");
    for number in 1..30 {
        let last = number - 1;
        text +=
            &format!("class c{number}($x) {{\n\tinclude c{last}($x) as i\n\tinclude c{last}($i.y) as j\n");
        text += "\t$y = $j.y\n}\n";
    }
    fails(&format!("{text}include c29(1) as k\npanic($k.y == $k.y)\n"), "M0515");
}

#[test]
fn classes_that_each_include_the_last_one_twice_are_looked_at_once_each() {
    let mut text = String::from("class c0($x) {\n\ttest \"${x}\" {}\n}\n");
    for number in 1..30 {
        let last = number - 1;
        text +=
            &format!("class c{number}($x) {{\n\tinclude c{last}($x)\n\tinclude c{last}($x + \"a\")\n}}\n");
    }
    text += "if false {\n\tinclude c29(\"x\")\n}\n";
    assert_eq!(said(&program(&text).0), []);
}

#[test]
fn a_chain_of_binds_and_a_wide_struct_cost_little() {
    let mut text = String::from("$v0 = 1\n");
    for number in 1..2000 {
        text += &format!("$v{number} = $v{} + 1\n", number - 1);
    }
    text += "test \"a\" { int64 => $v1999, }\n";
    runs(&text);
    let fields: Vec<String> = (0..5000).map(|number| format!("f{number} => {number}")).collect();
    let text = format!("$s = struct{{{}}}\ntest \"a\" {{ int64 => $s->f4999, }}\n", fields.join(", "));
    runs(&text);
}

/// A class whose definitions do not all go with every type.
const CHOICE: &str = "class c($x) {
	$more = $x + 1
	$same = $x
	func plus() { $more + $x }
	func pair($y) { struct{x => $x, y => $y} }
}
";

#[test]
fn what_nobody_reads_of_an_include_asks_nothing_of_it() {
    runs(&format!(
        "{CHOICE}include c(1) as a
        include c(\"s\") as b
        panic(not ($a.more == 2 and $b.same == \"s\" and a.plus() == 3))
        panic(not (b.pair(1)->x == \"s\" and b.pair([2])->y == [2] and a.pair(\"t\")->x == 1))
        ",
    ));
}

#[test]
fn what_is_read_of_an_include_must_go_with_it() {
    fails(&format!("{CHOICE}include c(\"s\") as b\npanic($b.more == 2)\n"), "M0501");
    fails(&format!("{CHOICE}include c(\"s\") as b\npanic(b.plus() == 2)\n"), "M0501");
    fails(&format!("{CHOICE}include c(1) as a\npanic($a.same == \"s\")\n"), "M0501");
}

#[test]
fn a_bind_of_a_class_has_one_type_for_all_that_read_it_of_one_include() {
    let class = "class c() {
	$same = func($x) { $x }
	$number = $same(1)
	$text = $same(\"s\")
}
";
    runs(&format!(
        "{class}include c() as a\ninclude c() as b\npanic(not ($a.number == 1 and $b.text == \"s\"))\n"
    ));
    fails(&format!("{class}include c() as a\npanic($a.number == 1 and $a.text == \"s\")\n"), "M0501");
    fails(
        &format!("{class}include c() as a\npanic($a.number == 2)\npanic($a.same(\"s\") == \"t\")\n"),
        "M0501",
    );
}

#[test]
fn what_the_statements_of_a_class_need_holds_for_all_includes() {
    fails(
        "class c($x) {\n\t$more = $x + 1\n\tpanic($more == 0)\n\t$same = $x\n}\ninclude c(\"s\") as b\n",
        "M0501",
    );
}

#[test]
fn classes_inside_of_classes_ask_nothing_before_they_are_used() {
    let class = "class outer($x) {
	$list = [$x]
	class inner($y) {
		$sum = $x + $y
		$both = struct{x => $x, y => $y}
		$count = len($list) + 1
		func first() { $list[0] }
	}
	class strict() {
		panic($x == 0)
		$same = $x
	}
	include inner(true) as known
	$deep = $known.both
}
";
    runs(&format!(
        "{class}include outer(1) as a
        include outer(\"s\") as b
        include a.inner(2) as ai
        include b.inner(true) as bi
        panic(not ($ai.sum == 3 and $bi.both->x == \"s\" and $bi.both->y and $ai.count == 2))
        panic(not (ai.first() == 1 and bi.first() == \"s\"))
        panic(not ($a.deep->x == 1 and $b.deep->x == \"s\" and $b.known.both->y))
        include a.strict() as az
        panic(not ($az.same == 1))
        ",
    ));
    fails(&format!("{class}include outer(\"s\") as b\ninclude b.strict()\n"), "M0501");
    fails(
        &format!("{class}include outer(\"s\") as b\ninclude b.inner(1) as bi\npanic($bi.sum == \"\")\n"),
        "M0501",
    );
    fails(&format!("{class}include outer(1) as a\npanic($a.known.sum == 1)\n"), "M0501");
}

#[test]
fn what_a_class_of_a_class_sees_of_it_is_decided_by_its_readers() {
    // Three definitions deep: each one asks for something only if it is read.
    let class = "class one($x) {
	class two() {
		class three() {
			$number = $x + 1
			$text = $x + \"t\"
			$list = [$x]
		}
		include three() as t
		$number = $t.number
	}
	include two() as w
}
";
    runs(&format!(
        "{class}include one(1) as a
        include one(\"s\") as b
        include one(true) as c
        panic(not ($a.w.number == 2 and $b.w.t.text == \"st\" and $c.w.t.list == [true]))
        include b.w.three() as bt
        panic(not ($bt.list == [\"s\"]))
        ",
    ));
    fails(&format!("{class}include one(true) as c\npanic($c.w.number == 2)\n"), "M0501");
}

#[test]
fn a_list_without_elements_gets_its_type_from_the_reader() {
    let class = "class c($x) {
	$none = []
	$some = list.concat($none, [$x])
}
";
    runs(&format!(
        "import \"list\"
        {class}include c(1) as a
        include c(\"s\") as b
        panic(not ($a.some == [1] and $b.some == [\"s\"] and $a.none == []))
        ",
    ));
    fails(
        &format!(
            "import \"list\"\nimport \"fmt\"\n{class}include c(1) as a\npanic(fmt.printf(\"%v\", $a.none) == \"\")\n"
        ),
        "M0503",
    );
}

#[test]
fn an_imported_file_asks_nothing_for_what_is_not_read() {
    let module = "$same = func($x) { $x }
$number = $same(1)
$text = $same(\"s\")
$none = []
class c($y) {
	$z = $same($y)
	$w = $y
}
";
    let others =
        [("/m.mcl", module), ("/n.mcl", "import \"m.mcl\" as b\n$text = $b.text\n$none = $b.none\n")];
    runs_with(
        "import \"m.mcl\" as a
        import \"n.mcl\" as n
        panic(not ($a.number == 1 and $n.text == \"s\"))
        panic($a.none == [1] or $n.none == [\"x\"])
        include a.c(2) as ac
        include a.c(\"x\") as ax
        panic(not ($ac.z == 2 and $ax.w == \"x\"))
        ",
        &others,
    );
    let (checked, _) =
        program_with("import \"m.mcl\" as a\npanic($a.number == 1 and $a.text == \"s\")\n", &others);
    assert_eq!(said(&checked), [(Severity::Error, "M0501")], "{:#?}", checked.diagnostics);
    let (checked, _) = program_with(
        "import \"m.mcl\" as a\ninclude a.c(\"x\") as ax\npanic($a.number == 2)\npanic($ax.z == \"y\")\n",
        &others,
    );
    assert_eq!(said(&checked), [(Severity::Error, "M0501")], "{:#?}", checked.diagnostics);
}
