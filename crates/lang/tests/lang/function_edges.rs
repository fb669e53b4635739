//! What functions do at their edges, as a program sees it.
#![allow(missing_docs, clippy::unwrap_used)]

use crate::function_host::messages;

/// The error is one that `<|>` catches.
const CAUGHT: &str = "(caught)";
/// The program is wrong, or ends.
const FATAL: &str = "(fatal)";

/// Looks at expressions, each with the text of its value.
fn check(modules: &[&str], cases: &[(&str, &str)]) {
    let imports: String = modules.iter().map(|module| format!("import \"{module}\"\n")).collect();
    let mut wrong = Vec::new();
    for (expression, expected) in cases {
        let program = format!(
            "import \"fmt\"\n{imports}print \"value\" {{\n\tmsg => fmt.printf(\"%v\", {expression}) <|> \"{CAUGHT}\",\n}}\n"
        );
        let found = match messages(&program) {
            Ok(shown) => shown.join("\n"),
            Err(_) => FATAL.to_owned(),
        };
        if found != *expected {
            wrong.push(format!("{expression}\n  is       {found}\n  expected {expected}"));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn numbers() {
    check(
        &["convert", "math", "golang/strconv"],
        &[
            ("9223372036854775807 + 1", "-9223372036854775808"),
            ("1 / 2", "0.5"),
            ("1.0 / -0.0", CAUGHT),
            ("0.1 + 0.2", "0.30000000000000004"),
            ("1000000000000000000000.0 * 1.0", "1000000000000000000000"),
            ("42.0", "42"),
            ("0.0 == -0.0", "true"),
            ("convert.str_to_int(\"+7\")", "7"),
            ("convert.str_to_int(\" 7\")", CAUGHT),
            ("convert.str_to_int(\"1_000\")", CAUGHT),
            ("convert.str_to_int(\"0x10\")", CAUGHT),
            ("convert.str_to_int(\"9223372036854775808\")", CAUGHT),
            ("convert.str_to_float(\"0x1.8p3\")", "12"),
            ("convert.str_to_float(\"1_23.5\")", "123.5"),
            ("convert.str_to_float(\"1__2\")", CAUGHT),
            ("convert.str_to_float(\"-InFinity\")", "-Inf"),
            ("convert.str_to_float(\"nan\")", "NaN"),
            ("convert.str_to_float(\"1e-400\")", "0"),
            ("convert.to_int(-7.8)", "-7"),
            ("convert.parse_bool(\"T\")", "true"),
            ("convert.parse_bool(\" true\")", CAUGHT),
            ("math.mod(-7, 3)", "-1"),
            ("math.mod(7.5, -2.0)", "1.5"),
            ("math.mod(1.0, 0.0)", CAUGHT),
            ("math.pow(-8.0, 0.5)", CAUGHT),
            ("math.pow(0.0, 0.0)", "1"),
            ("math.sqrt(-0.0)", "-0"),
            ("math.minus1(-9223372036854775807 - 1)", "9223372036854775807"),
            ("strconv.parse_int(\"0b1_01\", 0, 64)", "5"),
            ("strconv.parse_int(\"0x_ff\", 0, 64)", "255"),
            ("strconv.parse_int(\"017\", 0, 64)", "15"),
            ("strconv.parse_int(\"1_7\", 10, 64)", FATAL),
            ("strconv.parse_int(\"128\", 10, 8)", FATAL),
            ("strconv.parse_int(\"-128\", 10, 8)", "-128"),
            ("strconv.parse_int(\"zz\", 36, 0)", "1295"),
            ("strconv.parse_int(\"1\", 1, 0)", FATAL),
            ("strconv.format_int(-255, 16)", "-ff"),
            ("strconv.format_int(1, 37)", FATAL),
            ("strconv.parse_float(\"0.1\", 32)", "0.10000000149011612"),
        ],
    );
}

#[test]
fn numbers_of_the_mathematics_library() {
    check(
        &["golang/math"],
        &[
            ("math.max(math.na_n(), math.inf(1))", "+Inf"),
            ("math.max(math.na_n(), 1.0)", "NaN"),
            ("math.min(math.inf(-1), math.na_n())", "-Inf"),
            ("math.min(0.0, -0.0)", "-0"),
            ("math.max(-0.0, 0.0)", "0"),
            ("math.dim(math.inf(1), math.inf(1))", "NaN"),
            ("math.dim(1.0, 2.0)", "0"),
            ("math.hypot(math.na_n(), math.inf(-1))", "+Inf"),
            ("math.ilogb(0.0)", "-2147483648"),
            ("math.ilogb(math.inf(1))", "2147483647"),
            ("math.logb(8.0)", "3"),
            ("math.logb(0.0)", "-Inf"),
            ("math.is_inf(math.inf(-1), 1)", "false"),
            ("math.is_inf(math.inf(-1), 0)", "true"),
            ("math.pow_10(309)", "+Inf"),
            ("math.pow_10(-324)", "0"),
            ("math.pow_10(2)", "100"),
            ("math.round(-2.5)", "-3"),
            ("math.round_to_even(2.5)", "2"),
            ("math.mod(5.0, 0.0)", "NaN"),
            ("math.mod(-5.0, 3.0)", "-2"),
            ("math.remainder(5.0, 3.0)", "-1"),
            ("math.gamma(-1.0)", "NaN"),
            ("math.gamma(5.0)", "24"),
            ("math.gamma(math.inf(-1))", "NaN"),
            ("math.erfinv(1.0)", "+Inf"),
            ("math.erfinv(2.0)", "NaN"),
            ("math.erfcinv(2.0)", "-Inf"),
            ("math.atanh(1.0)", "+Inf"),
            ("math.cos(math.inf(1))", "NaN"),
            ("math.y_0(0.0)", "-Inf"),
            ("math.yn(1, 0.0)", "-Inf"),
            ("math.jn(0, 0.0)", "1"),
            ("math.signbit(-0.0)", "true"),
            ("math.nextafter(1.0, 2.0) > 1.0", "true"),
            ("math.nextafter(0.0, 0.0)", "0"),
            ("math.pow(-1.0, math.inf(1))", "1"),
            ("math.pow(math.na_n(), 0.0)", "1"),
            ("math.ldexp(0.5, 4)", "8"),
            ("math.ldexp(1.0, 99999)", "+Inf"),
            ("math.cbrt(-27.0)", "-3"),
            ("math.sqrt(-1.0)", "NaN"),
            ("math.log(0.0)", "-Inf"),
            ("math.fma(2.0, 3.0, 4.0)", "10"),
        ],
    );
}

#[test]
fn texts() {
    check(
        &["strings"],
        &[
            ("strings.split(\"\", \"\")", "[]"),
            ("strings.split(\"\", \",\")", "[\"\"]"),
            ("strings.split(\"aéb\", \"\")", "[\"a\", \"é\", \"b\"]"),
            ("strings.split(\",a,\", \",\")", "[\"\", \"a\", \"\"]"),
            ("strings.replace_all(\"aé\", \"\", \"-\")", "-a-é-"),
            ("strings.replace_all(\"aaa\", \"aa\", \"b\")", "ba"),
            ("strings.left_pad(\"5\", \"ab\", 4)", "abab5"),
            ("strings.left_pad(\"5\", \"0\", -1)", "5"),
            ("strings.right_pad(\"5\", \"0\", 3)", "500"),
            ("strings.substr(\"hello\", 5, 5)", ""),
            ("strings.substr(\"hello\", 2, 1)", CAUGHT),
            ("strings.substr(\"hello\", -1, 1)", CAUGHT),
            ("len(strings.substr(\"é\", 0, 1))", "1"),
            ("strings.to_lower(\"ΑΣ\")", "ασ"),
            ("strings.to_lower(\"İ\")", "i"),
            ("strings.to_upper(\"ß\")", "ß"),
            ("strings.trim_space(\"\u{a0} a\u{85}\")", "a"),
            ("strings.join_nonempty([\"a\", \"\", \" \", \"b\",], \"-\")", "a- -b"),
            ("strings.contains(\"a\", \"\")", "true"),
            ("\"a\" in [\"b\", \"a\",]", "true"),
            ("len(\"é\")", "2"),
        ],
    );
}

#[test]
fn texts_of_the_other_library() {
    check(
        &["golang/strings", "golang/strconv"],
        &[
            ("strings.count(\"é\", \"\")", "2"),
            ("strings.index(\"chicken\", \"\")", "0"),
            ("strings.last_index(\"go\", \"\")", "2"),
            ("strings.index_any(\"golang\", \"\")", "-1"),
            ("strings.last_index_any(\"golang\", \"go\")", "5"),
            ("strings.repeat(\"a\", -1)", FATAL),
            ("strings.repeat(\"a\", 9223372036854775807)", FATAL),
            ("strings.replace(\"oink oink\", \"\", \"-\", 2)", "-o-ink oink"),
            ("strings.replace(\"aaa\", \"a\", \"b\", -1)", "bbb"),
            ("strings.replace(\"aaa\", \"a\", \"b\", 0)", "aaa"),
            ("strings.equal_fold(\"Straße\", \"STRAßE\")", "true"),
            ("strings.equal_fold(\"K\", \"k\")", "true"),
            ("strings.title(\"hello world's a_b\")", "Hello World'S A_b"),
            ("strings.trim(\"xxhixx\", \"x\")", "hi"),
            ("strings.trim_left(\"héé\", \"h\")", "éé"),
            ("strings.trim_suffix(\"a.go.go\", \".go\")", "a.go"),
            ("strings.compare(\"a\", \"b\")", "-1"),
            ("strings.contains_any(\"a\", \"\")", "false"),
            ("strings.join([], \",\")", ""),
            ("strconv.quote(\"\u{1}é\u{200b}\")", "\"\\x01é\\u200b\""),
            ("strconv.quote_to_ascii(\"é☺\")", "\"\\u00e9\\u263a\""),
            ("strconv.unquote(\"'x'\")", "x"),
            ("strconv.unquote(\"'xy'\")", FATAL),
            ("strconv.unquote(\"`a`\")", "a"),
            ("strconv.unquote(\"x\")", FATAL),
            ("strconv.can_backquote(\"a\u{feff}\")", "false"),
            ("strconv.quoted_prefix(\"x\")", FATAL),
        ],
    );
}

#[test]
fn paths() {
    check(
        &["golang/path", "golang/path/filepath"],
        &[
            ("path.base(\"\")", "."),
            ("path.base(\"///\")", "/"),
            ("path.clean(\"/../a/./b//c/..\")", "/a/b"),
            ("path.clean(\"\")", "."),
            ("path.dir(\"a\")", "."),
            ("path.dir(\"/a/b/\")", "/a/b"),
            ("path.ext(\"a.b/c\")", ""),
            ("path.ext(\"a.tar.gz\")", ".gz"),
            ("path.join([\"\", \"\",])", ""),
            ("path.join([\"a\", \"\", \"../b\",])", "b"),
            ("path.match(\"*\", \"a/b\")", "false"),
            ("path.match(\"[^a]\", \"b\")", "true"),
            ("path.match(\"[\", \"a\")", FATAL),
            ("path.match(\"[]a]\", \"a\")", FATAL),
            ("path.match(\"a\\\\*\", \"a*\")", "true"),
            ("path.match(\"[-]\", \"-\")", FATAL),
            ("filepath.rel(\"/a\", \"/b/c\")", "../b/c"),
            ("filepath.rel(\"a\", \"/b\")", FATAL),
            ("filepath.rel(\"../a\", \"b\")", FATAL),
            ("filepath.rel(\"/a/b\", \"/a/b\")", "."),
            ("filepath.is_local(\"a/../../b\")", "false"),
            ("filepath.is_local(\"a/../b\")", "true"),
            ("filepath.is_local(\"\")", "false"),
            ("filepath.localize(\".\")", "."),
            ("filepath.localize(\"a//b\")", FATAL),
            ("filepath.localize(\"a/..\")", FATAL),
            ("filepath.volume_name(\"/a\")", ""),
        ],
    );
}

#[test]
fn addresses() {
    check(
        &["net"],
        &[
            ("net.cidr_to_ip(\" ::ffff:192.0.2.1/120 \")", "192.0.2.1"),
            ("net.cidr_to_prefix(\"192.0.2.1/024\")", "24"),
            ("net.cidr_to_prefix(\"192.0.2.1/33\")", CAUGHT),
            ("net.cidr_to_ip(\"fe80::1%eth0/64\")", CAUGHT),
            ("net.cidr_to_ip(\"192.0.2.01/24\")", CAUGHT),
            ("net.cidr_to_network(\"192.0.2.99/26\")", "192.0.2.64/26"),
            ("net.cidr_to_first(\" 192.0.2.0/024\")", "192.0.2.1"),
            ("net.cidr_to_first(\"192.0.2.13/24\")", "192.0.2.14"),
            ("net.cidr_to_first(\"192.0.2.255/24\")", CAUGHT),
            ("net.cidr_to_last(\"192.0.2.1/32\")", "192.0.2.1"),
            ("net.cidr_to_last(\"2001:db8::/126\")", "2001:db8::3"),
            ("net.ip_in_cidr(\"::ffff:192.0.2.1\", \"192.0.2.0/24\")", "true"),
            ("net.ip_in_cidr(\"x\", \"192.0.2.0/24\")", CAUGHT),
            ("net.is_mac(\"00:11:22:AA:bb:cc\")", "false"),
            ("net.macfmt(\"00-11-22-AA-bb-cc\")", "00:11:22:aa:bb:cc"),
            ("net.macfmt(\"00-11:22-AA-bb-cc\")", CAUGHT),
            ("net.oldmacfmt(\"00:11:22:AA:bb:cc\")", "00-11-22-aa-bb-cc"),
            ("net.split_hostport(\"::1:80\")", CAUGHT),
            ("net.split_hostport(\"[::1%lo]:\")", "struct{host: \"::1%lo\"; port: \"\"}"),
            ("net.split_hostport(\"a\")", CAUGHT),
            ("net.split_hostport(\"[a]b:1\")", CAUGHT),
            (
                "net.url_parser(\"mailto:x\")",
                "struct{scheme: \"mailto\"; host: \"\"; path: \"\"; raw_query: \"\"}",
            ),
            ("net.url_parser(\"/a\")", CAUGHT),
            ("net.url_parser(\"http://a/%zz\")", CAUGHT),
            (
                "net.url_parser(\"HTTP://[::1]:80?q\")",
                "struct{scheme: \"http\"; host: \"[::1]:80\"; path: \"\"; raw_query: \"q\"}",
            ),
        ],
    );
}

#[test]
fn lists_maps_and_functions_over_them() {
    check(
        &["iter", "list", "map"],
        &[
            ("iter.range(3)", "[0, 1, 2]"),
            ("iter.range(3, 0)", "[]"),
            ("iter.range(5, 0, -2)", "[5, 3, 1]"),
            ("iter.range(0, 3, 0)", FATAL),
            ("iter.range(9223372036854775806, 9223372036854775807, 5)", "[9223372036854775806]"),
            ("iter.flatten([[1,], [], [2, 3,],])", "[1, 2, 3]"),
            ("iter.reduce([1,], func($a, $b) { $a + $b })", "1"),
            ("iter.reduce([1, 2, 3,], func($a, $b) { $a - $b })", "-4"),
            ("iter.reduce(7, iter.range(0), func($a, $b) { $a + $b })", "7"),
            ("iter.reduce(iter.range(0), func($a, $b) { $a + $b })", FATAL),
            ("iter.zip([1, 2,], [\"a\",], func($a, $b) { $b })", "[\"a\"]"),
            ("iter.filter([1, 2, 3,], func($x) { $x > 1 })", "[2, 3]"),
            ("list.concat([1,], [2,], [3,])", "[1, 2, 3]"),
            ("map.keys({\"b\" => 1, \"a\" => 2,})", "[\"a\", \"b\"]"),
            ("map.values({\"b\" => 1, \"a\" => 2,})", "[2, 1]"),
            ("map.lookup({1 => \"a\",}, 2)", CAUGHT),
            ("[1, 2,][-1]", CAUGHT),
            ("[1, 2,][2]", CAUGHT),
            ("[[1,],] == [[1,],]", "true"),
            ("struct{a => 1, b => 2,} == struct{b => 2, a => 1,}", FATAL),
            ("false and [true,][1]", CAUGHT),
        ],
    );
}

#[test]
fn encodings_and_patterns() {
    check(
        &["encoding", "regexp", "golang/html"],
        &[
            ("encoding.base64_decode(\"aGk=\\n\")", "hi"),
            ("encoding.base64_decode(\"aGk\")", FATAL),
            ("encoding.base64_decode(\"aGl=\")", "hi"),
            ("encoding.decode_json(\"[1, 2] rest\", \"[]int\")", "[1, 2]"),
            ("encoding.decode_json(\"1.0\", \"int\")", FATAL),
            ("encoding.decode_json(\"1e3\", \"float\")", "1000"),
            ("encoding.decode_json(\"null\", \"str\")", FATAL),
            ("encoding.decode_json(\"{\\\"a\\\": 1, \\\"a\\\": 2}\", \"map{str: int}\")", "{\"a\": 2}"),
            ("encoding.decode_json(\"{\\\"a\\\": 1, \\\"b\\\": 2}\", \"struct{a int}\")", FATAL),
            (
                "encoding.decode_json_flexible(\"{\\\"c\\\": 1, \\\"b\\\": 2}\", \"struct{a str; b int}\")",
                "struct{a: \"\"; b: 2}",
            ),
            ("regexp.match(\"^\\\\d+$\", \"١٢\")", "false"),
            ("regexp.match(\"(\", \"\")", FATAL),
            ("regexp.match(\"\\\\Qa.b\\\\E\", \"axb\")", "false"),
            ("regexp.match(\"\\\\pL\", \"é\")", "true"),
            ("regexp.match(\"a{1001}\", \"\")", FATAL),
            ("html.escape_string(\"<'\\\"&>\")", "&lt;&#39;&#34;&amp;&gt;"),
            ("html.unescape_string(\"&lt&eacute;&#x41;&nosuch;\")", "<éA&nosuch;"),
        ],
    );
}

#[test]
fn formats_and_templates() {
    check(
        &["golang", "datetime", "os"],
        &[
            ("fmt.printf(\"%v %v\", [\"a\",], \"a\")", "[\"a\"] a"),
            ("fmt.printf(\"%T\", struct{a => 1,})", "struct{a int}"),
            ("fmt.printf(\"é %%\")", "é %"),
            ("fmt.printf(\"%s\")", FATAL),
            ("fmt.printf(\"%s\", \"a\", \"b\")", FATAL),
            ("fmt.printf(\"é %s%%\", \"x\")", "é x%"),
            ("fmt.printf(\"%q\", \"a\\n\")", "\"a\\n\""),
            ("fmt.printf(\"%f\", 42.0)", "42"),
            ("fmt.printf(\"%5d\", 1)", FATAL),
            ("fmt.printf(\"%d\", \"x\")", FATAL),
            ("golang.template(\"{{ . }}\")", "<no value>"),
            ("golang.template(\"{{ . }}\", [1, 2,])", "[1 2]"),
            ("golang.template(\"{{ . }}\", 1000000.0 * 1.0)", "1e+06"),
            ("golang.template(\"{{ .Name }}\", struct{name => \"x\",})", "x"),
            ("golang.template(\"{{ .name }}\", {\"name\" => \"x\",})", "x"),
            ("golang.template(\"{{ .nope }}\", {\"name\" => \"x\",})", FATAL),
            ("golang.template(\"{{ index . \\\"nope\\\" }}\", {\"name\" => \"x\",})", "<no value>"),
            ("golang.template(\"{{ sys_getenv \\\"NO_SUCH_VARIABLE\\\" }}\")", CAUGHT),
            ("golang.template(\"{{ end }}\")", FATAL),
            ("golang.template(\"{{ range . }}{{ . }}{{ else }}-{{ end }}\", [\"b\", \"a\",])", "ba"),
            ("datetime.weekday(-1)", FATAL),
            ("os.parse_distro_uid(\"debian12\")", "struct{distro: \"\"; version: \"\"; arch: \"\"}"),
            ("os.expand_home(\"~\")", "~"),
            ("os.user_exists(\"\")", "false"),
            ("os.home(\"no-such-user\")", FATAL),
            ("os.readfile(\"/\")", FATAL),
        ],
    );
}

#[test]
fn what_needs_the_host() {
    check(
        &[
            "datetime",
            "deploy",
            "example",
            "golang/math/rand",
            "golang/os/exec",
            "local",
            "math",
            "net/http",
            "sys",
            "test",
            "util",
            "value",
            "world",
            "world/collect",
        ],
        &[
            ("local.vardir(\"/x/\")", FATAL),
            ("local.vardir(\"x\")", FATAL),
            ("local.vardir(\"\")", FATAL),
            ("local.vardir(\"a/../../x/\")", FATAL),
            ("local.pool(\"\", \"x\")", FATAL),
            ("local.pool(\"a/b\", \"x\")", FATAL),
            ("[local.pool(\"n\", \"a\"), local.pool(\"m\", \"a\"),]", "[1, 1]"),
            ("random1(-1)", FATAL),
            ("random1(65536)", FATAL),
            ("len(random1(65535))", "65535"),
            ("random1(0)", ""),
            ("sys.getenv(\"\")", CAUGHT),
            ("sys.hasenv(\"A=B\")", "false"),
            ("deploy.abspath(\"x\")", FATAL),
            ("deploy.abspath(\"\")", "/"),
            ("deploy.abspath(\"/x\")", "/x"),
            ("deploy.readfile(\"x\")", FATAL),
            ("deploy.file_exists(\"x\")", FATAL),
            ("deploy.directory(\"/a\")", FATAL),
            ("deploy.directory(\"a/\")", FATAL),
            ("deploy.bootstrap_packages(\"plan9\")", FATAL),
            ("math.fortytwo() + 0.5", "42.5"),
            ("math.fortytwo() + 1", "43"),
            ("world.getval(\"\")", FATAL),
            ("world.kvlookup(\"\")", FATAL),
            ("world.schedule(\"\")", FATAL),
            ("collect.res(\"\")", FATAL),
            ("value.get_int(\"\")", FATAL),
            ("value.get_int(\"absent\")", "struct{value: 0; ready: false}"),
            ("value.get_str(\"absent\")", "struct{value: \"\"; ready: false}"),
            ("http.response(\"\")", FATAL),
            ("example.errorbool(true)", FATAL),
            ("example.str2int(\"x\")", "0"),
            ("exec.look_path(\"no-such-program\")", FATAL),
            ("exec.look_path(\"/etc\")", FATAL),
            ("rand.intn(0)", FATAL),
            ("util.hostname_mapper({\"aa:bb:cc:dd:ee:ff\" => \"x\",})", ""),
            ("history(1, -1)", FATAL),
            ("history(1, 0)", "1"),
            ("test.one_stream(-1)", FATAL),
            ("test.one_stream(0)", ""),
            ("panic_debug(true, \"x\")", FATAL),
            (
                "datetime.format(0, \"it is 2006\") == datetime.format(0, \"it is \") + datetime.format(0, \"2006\")",
                "true",
            ),
            ("datetime.hour(-1)", FATAL),
        ],
    );
}
