use super::{check, check_graph, kinds, render};
use mgmt_yaml::{ParseOptions, parse, parse_with};

#[test]
fn a_file_that_is_not_text_is_refused() {
    for (source, expected) in [
        (&b"graph: \xff\xfe\n"[..], "E Y0002 1:8 byte 7 is not UTF-8 | save the file as UTF-8"),
        (b"graph: \xe2\x82", "E Y0002 1:8 byte 7 is not UTF-8 | save the file as UTF-8"),
        (b"\xff\xfeg\0", "E Y0002 1:1 the file is UTF-16 | save it as UTF-8"),
        (
            b"graph: a\0b",
            "E Y0002 1:9 the file holds a NUL byte, so it is not text | a graph file is UTF-8 text",
        ),
    ] {
        super::same(&render(source, &parse(source, "test.yaml", &kinds::KINDS)), expected);
    }
}

#[test]
fn a_file_that_is_too_large_is_refused() {
    let options = ParseOptions { max_size: 9, ..ParseOptions::default() };
    let parsed = parse_with(b"graph: x\n\n", "test.yaml", &kinds::KINDS, &options);
    super::same(&render(b"", &parsed), "E Y0001 1:1 the file is 10 bytes long, and the limit is 9");
    assert!(parse_with(b"graph: x\n", "test.yaml", &kinds::KINDS, &options).graph.is_some());
}

#[test]
fn the_first_syntax_error_is_shown_with_what_helps() {
    check(
        "graph: x\nresources:\n\tnoop: []\n",
        "E Y0003 3:2 this is not YAML: tabs disallowed within this context (block indentation) | indent with spaces; YAML does not take tabs there",
    );
    check(
        "graph: x\nresources:\n  noop:\n  - name: @@one\n",
        "E Y0003 4:11 this is not YAML: unexpected character: `@' | put text that starts with this character in quotes",
    );
    check(
        "graph: x\ncomment: a: b\n",
        "E Y0003 2:11 this is not YAML: mapping values are not allowed in this context | put text that contains `: ` in quotes, or look at the indentation of this line",
    );
    check(
        "graph: x\ncomment: \"never closed\n",
        "E Y0003 2:10 this is not YAML: while scanning a quoted scalar, found unexpected end of stream | a quote is opened and never closed",
    );
    check(
        "graph: *nobody\n",
        "E Y0003 1:8 this is not YAML: while parsing node, found unknown anchor | an alias `*name` needs an anchor `&name` before it",
    );
}

#[test]
fn positions_count_characters_and_not_bytes() {
    check(
        "# ünïcödé €\ngraph: \"ü\" # ö\ncömment: {ä: 𝄞, é: 1}\n",
        "W Y0102 3:1 `cömment` means nothing at the top level | did you mean `comment`?",
    );
}

#[test]
fn nesting_is_bounded_with_aliases_followed() {
    let deep = |n: usize| format!("graph: x\ncomment: {}{}\n", "[".repeat(n), "]".repeat(n));
    check(&deep(63), "E Y0206 2:10 `comment` has to be text, found a list");
    check(&deep(64), "E Y0004 2:73 lists and maps are nested more than 64 deep");
    check(&deep(100_000), "E Y0004 2:265 lists and maps are nested more than 64 deep");
    let blocks = (0..200).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect::<String>();
    check(&blocks, "E Y0004 65:65 lists and maps are nested more than 64 deep");
    let dashes = format!("graph:\n {}\n", "- ".repeat(5000));
    check(&dashes, "E Y0004 2:128 lists and maps are nested more than 64 deep");
    let half = format!("{}1{}", "[".repeat(40), "]".repeat(40));
    let twice = format!("a: &a {half}\nb: {}*a{}\n", "[".repeat(40), "]".repeat(40));
    check(&twice, "E Y0004 2:44 lists and maps are nested more than 64 deep");
}

#[test]
fn aliases_do_not_fill_the_memory() {
    let mut bomb = String::from("graph: x\na: &a [x, x, x, x, x, x, x, x, x, x]\n");
    for (from, to) in "abcdefgh".chars().zip("bcdefghi".chars()) {
        let aliases = vec![format!("*{from}"); 10].join(", ");
        bomb += &format!("{to}: &{to} [{aliases}]\n");
    }
    check(&bomb, "E Y0005 8:8 the aliases of this file expand to too much @7:4 this is repeated");
    let long = format!("graph: x\na: &a {}\nb: [{}]\n", "x".repeat(1 << 20), vec!["*a"; 40].join(", "));
    check(&long, "E Y0005 3:129 the aliases of this file expand to too much @2:4 this is repeated");
    check("graph: &a [*a]\n", "E Y0005 1:12 the alias stands inside its own anchor @1:8 the anchor");
}

#[test]
fn a_scalar_can_be_repeated_with_an_alias() {
    check_graph(
        "graph: &name demo\nresources:\n  noop:\n  - name: *name\n  - {name: other, comment: *name}\n",
        "noop[demo]\nnoop[other]",
    );
}

#[test]
fn a_merge_key_brings_what_is_not_given() {
    let source = "
graph: x
resources:
  file:
  - &one
    name: one
    state: exists
    mode: 0644
  - <<: *one
    name: two
    mode: '0600'
  - name: three
    <<: [{state: absent}, *one]
";
    check_graph(source, "file[one]\nfile[two]\nfile[three]");
    let graph = super::graph(source);
    let modes: Vec<_> =
        graph.graph.nodes().map(|(_, spec)| spec.resource.get("mode").unwrap().to_string()).collect();
    assert_eq!(modes, ["\"0644\"", "\"0600\"", "\"0644\""]);
    let states: Vec<_> =
        graph.graph.nodes().map(|(_, spec)| spec.resource.get("state").unwrap().to_string()).collect();
    assert_eq!(states, ["\"exists\"", "\"exists\"", "\"absent\""]);
}

#[test]
fn a_merge_key_needs_a_map() {
    check(
        "graph: x\n<<: 3\n",
        "E Y0009 2:5 `<<` expects a map or a list of maps, found `3` @2:1 merged here",
    );
    check(
        "graph: x\n<<: [{comment: a}, b]\n",
        "E Y0009 2:20 `<<` expects a map or a list of maps, found `b` @2:1 merged here",
    );
    check("graph: x\n'<<': 3\n", "W Y0102 2:1 `<<` means nothing at the top level");
}

#[test]
fn of_a_key_that_is_given_twice_the_last_counts() {
    let source = "graph: x\ngraph: y\n";
    check(source, "W Y0008 2:1 the key `graph` is given twice @1:1 this one is ignored");
    let parsed = parse(source.as_bytes(), "test.yaml", &kinds::KINDS);
    assert_eq!(parsed.graph.unwrap().name, "y");
    let many: String = (0..40).map(|n| format!("  k{n}: {n}\n")).collect();
    check(
        &format!(
            "graph: x\nresources:\n  every:\n  - name: one\n    map:\n{}      k3: 99\n",
            many.replace("  k", "      k")
        ),
        "W Y0008 46:7 the key `k3` is given twice @9:7 this one is ignored",
    );
}

#[test]
fn a_key_has_to_be_text() {
    check(
        "graph: x\n? [a, b]\n: c\n? {a: b}\n: c\n",
        "E Y0010 2:3 expected a key, found a list | every key of a graph file is text; quote it if it starts with `[` or `{`
         E Y0010 4:3 expected a key, found a map | every key of a graph file is text; quote it if it starts with `[` or `{`",
    );
}

#[test]
fn an_unknown_tag_is_ignored() {
    check("graph: !color red\n", "W Y0011 1:8 the tag `!color` is not known and is ignored");
}

#[test]
fn line_ends_and_a_byte_order_mark_do_not_matter() {
    check_graph("\u{feff}graph: x\r\nresources:\r\n  noop:\r\n  - name: one\r\n", "noop[one]");
    check(
        "\u{feff}grahp: x\r\n",
        "W Y0102 1:1 `grahp` means nothing at the top level | did you mean `graph`?
         E Y0101 1:1 the graph has no name | add `graph: some_name` to the top level",
    );
}

#[test]
fn what_an_alias_repeats_is_said_once() {
    check(
        "graph: x\nresources:\n  noop:\n  - &a {name: one, nonsense: 1}\n  - *a\n",
        "W Y0209 4:15 noop[one] is declared twice, in the same way @4:15 declared here first
         W Y0204 4:20 noop has no parameter `nonsense`",
    );
}

#[test]
fn only_the_first_hundred_are_listed() {
    let source: String = "graph: x\n"
        .chars()
        .chain((0..150).flat_map(|n| format!("zzzzzzz{n}: 1\n").chars().collect::<Vec<_>>()))
        .collect();
    let parsed = parse(source.as_bytes(), "test.yaml", &kinds::KINDS);
    assert_eq!(parsed.diagnostics.len(), 101);
    assert_eq!(parsed.diagnostics[100].message, "there are 50 more warnings");
}
