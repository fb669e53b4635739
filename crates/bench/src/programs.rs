//! Programs in the language, made up to be measured. The same arguments always give the same text.

use std::fmt::{Result, Write};

/// A program of about this many lines, with what a large one has. 100 000 lines are 10 000 resources, each with an edge,
/// 5 000 binds of which most need the one before, and 200 classes, each included three times and with nested functions,
/// generic functions, resources and a loop.
pub(crate) fn realistic(lines: usize) -> String {
    let (resources, binds, classes) = (lines / 10, lines / 20, (lines / 500).max(1));
    let mut text = String::with_capacity(lines * 33);
    text.push_str("import \"fmt\"\n\n");
    for number in 0..binds {
        bind(&mut text, number).unwrap();
    }
    for number in 0..classes {
        class(&mut text, number).unwrap();
    }
    for number in 0..classes {
        for times in 0..3 {
            writeln!(text, "include c{number}(\"n{number}-{times}\", [\"a\", \"b{times}\"], {times})")
                .unwrap();
        }
    }
    for number in 0..resources {
        // The first of each five binds is a number, the third a text.
        resource(&mut text, number, number % (binds / 5).max(1) * 5).unwrap();
    }
    text
}

fn bind(text: &mut String, number: usize) -> Result {
    let before = number.saturating_sub(1);
    match number % 5 {
        0 => writeln!(text, "$b{number} = {number}"),
        1 => writeln!(text, "$b{number} = $b{before} + {number}"),
        2 => writeln!(text, "$b{number} = fmt.printf(\"v%d\", $b{before})"),
        3 => writeln!(text, "$b{number} = [\"a${{b{before}}}\", \"b\", $b{before}]"),
        _ => writeln!(
            text,
            "$b{number} = struct{{name => \"n{number}\", list => $b{before}, f => func($x) {{ func($y) {{ $x + $y + \
             $b{} }} }}}}",
            number - 4
        ),
    }
}

fn class(text: &mut String, number: usize) -> Result {
    writeln!(text, "class c{number}($name, $list, $num) {{")?;
    writeln!(text, "\t$twice = func($f, $v) {{ $f($f($v)) }}")?;
    writeln!(text, "\t$n = $twice(func($x) {{ $x + $num }}, {number})")?;
    writeln!(text, "\tfunc pick($s) {{ $s->value }}")?;
    for inner in 0..23 {
        writeln!(text, "\ttest \"${{name}}-{inner}\" {{")?;
        writeln!(text, "\t\tanotherstr => pick(struct{{value => \"x{inner}\"}}),")?;
        writeln!(text, "\t\tint64 => pick(struct{{value => $n}}),")?;
        writeln!(text, "\t\tslicestring => $list,")?;
        writeln!(text, "\t}}")?;
    }
    writeln!(text, "\tfor $i, $v in $list {{")?;
    writeln!(text, "\t\ttest [\"${{name}}-l-${{v}}\"] {{")?;
    writeln!(text, "\t\t\tint64 => $i + $n,")?;
    writeln!(text, "\t\t}}\n\t}}\n}}")
}

fn resource(text: &mut String, number: usize, bind: usize) -> Result {
    writeln!(text, "# resource number {number}")?;
    writeln!(text, "file \"/tmp/mgmt/{number}\" {{")?;
    writeln!(text, "\tstate => $const.res.file.state.exists,")?;
    writeln!(text, "\tcontent => \"hello ${{b{}}} {number}\\n\",", bind + 2)?;
    writeln!(text, "\tmode => if $b{bind} > {number} {{ \"u=rw\" }} else {{ \"0644\" }},")?;
    if let Some(before) = number.checked_sub(1) {
        writeln!(text, "\tDepend => File[\"/tmp/mgmt/{before}\"],")?;
    }
    writeln!(text, "}}")
}

/// The same program as somebody in a hurry would write it: nearly every line differs from the canonical form.
pub(crate) fn untidy(canonical: &str) -> String {
    canonical.replace('\t', "    ").replace(" => ", "=>").replace(" = ", "=").replace(", ", " ,  ")
}

/// Binds in a chain, each made of the one before.
#[derive(Clone, Copy)]
pub(crate) enum Chain {
    /// One more than it.
    Numbers,
    /// A list of it, so that the type grows too.
    Lists,
    /// A struct with it in two fields, so that the type has twice the parts.
    Pairs,
    /// A generic function of it.
    Generic,
    /// A function that calls the one before it.
    Functions,
}

pub(crate) fn chain(kind: Chain, length: usize) -> String {
    let mut text = String::from("import \"fmt\"\n\nfunc same($x) { $x }\n");
    let first = if let Chain::Functions = kind { "func($x) { $x }" } else { "1" };
    writeln!(text, "$b0 = {first}").unwrap();
    for number in 1..length {
        let before = number - 1;
        match kind {
            Chain::Numbers => writeln!(text, "$b{number} = $b{before} + 1"),
            Chain::Lists => writeln!(text, "$b{number} = [$b{before}]"),
            Chain::Pairs => writeln!(text, "$b{number} = struct{{a => $b{before}, b => $b{before}}}"),
            Chain::Generic => writeln!(text, "$b{number} = same($b{before})"),
            Chain::Functions => writeln!(text, "$b{number} = func($x) {{ $b{before}($x) }}"),
        }
        .unwrap();
    }
    let call = if let Chain::Functions = kind { "(1)" } else { "" };
    used(&mut text, &format!("$b{}{call}", length - 1));
    text
}

/// An expression in which everything is inside of something else.
#[derive(Clone, Copy)]
pub(crate) enum Nest {
    Parentheses,
    Lists,
    Structs,
    Functions,
    Calls,
    Branches,
    /// A chain of operators, of which each has the rest to its left.
    Sum,
    /// A chain of operators, of which each has the rest to its right.
    SumOfParentheses,
}

pub(crate) fn nest(kind: Nest, depth: usize) -> String {
    let (open, core, close): (fn(usize) -> String, _, _) = match kind {
        Nest::Parentheses => (|_| "(".into(), "1", ")"),
        Nest::Lists => (|_| "[".into(), "1", "]"),
        Nest::Structs => (|_| "struct{a => ".into(), "1", "}"),
        Nest::Functions => (|level| format!("func($x{level}) {{ "), "1", " }"),
        Nest::Calls => (|_| "same(".into(), "1", ")"),
        Nest::Branches => (|_| "if $b { 1 } else { ".into(), "1", " }"),
        Nest::Sum => (|_| String::new(), "1", " + 1"),
        Nest::SumOfParentheses => (|_| "1 + (".into(), "1", ")"),
    };
    let mut text = String::from("import \"fmt\"\n\nfunc same($x) { $x }\n$b = same(1) == 1\n$value = ");
    // A sum in parentheses is two levels.
    let depth = if let Nest::SumOfParentheses = kind { depth / 2 } else { depth };
    (0..depth).for_each(|level| text.push_str(&open(level)));
    text.push_str(core);
    (0..depth).for_each(|_| text.push_str(close));
    text.push('\n');
    // Its parameters could be anything, which is right as long as nobody asks.
    used(&mut text, if let Nest::Functions = kind { "$b" } else { "$value" });
    text
}

/// Functions that each call the one before twice.
pub(crate) fn doubling(count: usize) -> String {
    let mut text = String::from("import \"fmt\"\n\nfunc f0($x) { $x + 1 }\n");
    for number in 1..count {
        writeln!(text, "func f{number}($x) {{ f{0}(f{0}($x)) }}", number - 1).unwrap();
    }
    used(&mut text, &format!("f{}(1)", count - 1));
    text
}

/// The same with generic functions whose result has all the parts of the result before twice. No memory holds the last.
pub(crate) fn doubling_generic(count: usize) -> String {
    let mut text = String::from("import \"fmt\"\n\nfunc f0($x) { [$x] }\n");
    for number in 1..count {
        writeln!(text, "func f{number}($x) {{ struct{{a => f{0}($x), b => f{0}($x)}} }}", number - 1)
            .unwrap();
    }
    used(&mut text, &format!("f{}(1)", count - 1));
    text
}

/// Misspelt names, each as near to all the others as to the one that was meant.
pub(crate) fn misspelt(count: usize) -> String {
    let mut text = String::new();
    for number in 0..count {
        writeln!(text, "$some_name_{number} = {number}").unwrap();
        writeln!(text, "test \"t{number}\" {{\n\tint64 => $sone_name_{number},\n}}").unwrap();
    }
    text
}

/// A resource needs the value.
fn used(text: &mut String, value: &str) {
    writeln!(text, "print \"used\" {{\n\tmsg => fmt.printf(\"%v\", {value}),\n}}").unwrap();
}
