//! Hostile input. Whatever the bytes are: no panic, and every label lies on one line within them.
//!
//! Each of the fuzz tests is a plain test of two seconds under `cargo test`, or of `FUZZ_SECONDS`, and a fuzz target
//! for `cargo bolero`.
//! What they and people have found is kept in `corpus/`, with what is to be said about it beside each file.

#![allow(clippy::unwrap_used, reason = "a test may fail like that")]

use std::path::{Path, PathBuf};
use std::time::Duration;

use mgmt_yaml::{Parsed, Positions, parse};

/// Parses and checks what must hold for any input.
fn survives(source: &[u8]) -> Parsed {
    let parsed = parse(source, "fuzz.yaml", &mgmt_resources::KINDS);
    let errors = parsed.diagnostics.iter().any(|diagnostic| diagnostic.is_error());
    assert_eq!(parsed.graph.is_none(), errors);
    for diagnostic in &parsed.diagnostics {
        assert!(diagnostic.labels.iter().filter(|label| label.primary).count() <= 1);
        for label in diagnostic.labels.iter().filter(|label| !label.span.is_whole()) {
            let bytes = source.get(label.span.range());
            assert!(bytes.is_some_and(|bytes| !bytes.contains(&b'\n')), "{diagnostic:?}");
        }
        assert!(!diagnostic.message.contains(|c: char| c.is_control()), "{diagnostic:?}");
        assert!(mgmt_yaml::CODES.iter().any(|(code, ..)| Some(*code) == diagnostic.code));
    }
    if let Some(graph) = &parsed.graph {
        graph.graph.check_invariants();
        assert!(graph.graph.check_acyclic().is_ok());
    }
    parsed
}

/// How long to try: two seconds, or as the environment says.
fn time() -> Duration {
    let seconds = std::env::var("FUZZ_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    Duration::from_secs(seconds.unwrap_or(2))
}

#[test]
fn any_bytes() {
    bolero::check!().with_test_time(time()).for_each(|bytes: &[u8]| drop(survives(bytes)));
}

/// Pieces of graph files and of YAML, to get deeper than random bytes do.
const PIECES: [&str; 64] = [
    "graph: x\n",
    "resources:\n",
    "edges:\n",
    "collect:\n",
    "types:\n",
    "remote: r\n",
    "  noop:\n",
    "  file:\n",
    "  exec:\n",
    "  print:\n",
    "  test:\n",
    "  - name: a\n",
    "  - name: b\n",
    "  - name: '@@a'\n",
    "    meta:\n",
    "      noop: true\n",
    "      hidden: true\n",
    "      sema: [a]\n",
    "      limit: .inf\n",
    "    recv:\n",
    "      content: {kind: exec, name: a, key: output}\n",
    "    cmd: date\n",
    "    path: /a\n",
    "    timeout: 3\n",
    "- from: {kind: noop, name: a}\n",
    "  to: {kind: noop, name: b}\n",
    "  notify: yes\n",
    "- kind: file\n",
    "  pattern: /b/\n",
    "&a ",
    "*a",
    "*b ",
    "&b ",
    "<<: ",
    "[",
    "]",
    "{",
    "}",
    ",",
    ": ",
    "- ",
    "? ",
    "|\n",
    ">-\n",
    "\"",
    "'",
    "#",
    "\n",
    "  ",
    "\t",
    "\r\n",
    "---\n",
    "...\n",
    "!!int ",
    "!!binary ",
    "! ",
    "%YAML 1.1\n",
    "é",
    "𝄞",
    "\u{feff}",
    "0644",
    "~",
    "\\",
    "@",
];

#[test]
fn any_pieces() {
    bolero::check!().with_type::<Vec<u8>>().with_test_time(time()).for_each(|choices| {
        let source: String =
            choices.iter().map(|choice| PIECES[usize::from(*choice) % PIECES.len()]).collect();
        survives(source.as_bytes());
        survives(format!("graph: x\nresources:\n{source}").as_bytes());
    });
}

#[test]
fn any_damage_to_the_corpus() {
    let corpus: Vec<Vec<u8>> = corpus().iter().map(|file| std::fs::read(file).unwrap()).collect();
    bolero::check!().with_type::<(u8, Vec<(u16, u8)>, u16)>().with_test_time(time()).for_each(
        move |(file, edits, length)| {
            let mut source = corpus[usize::from(*file) % corpus.len()].clone();
            for (at, byte) in edits {
                let at = usize::from(*at) % (source.len() + 1);
                match byte % 4 {
                    0 => source.insert(at, byte.rotate_left(3)),
                    1 if at < source.len() => drop(source.remove(at)),
                    2 if at < source.len() => source[at] = byte.rotate_left(3),
                    _ => source.extend_from_within(at..(at + usize::from(*byte) / 4).min(source.len())),
                }
            }
            source.truncate(usize::from(*length).max(source.len() / 2));
            survives(&source);
        },
    );
}

#[test]
fn huge_scalars_and_long_lines_are_survived() {
    let megabyte = "x".repeat(1 << 20);
    for source in [
        format!("graph: {megabyte}\n"),
        format!("{megabyte}: x\n"),
        format!(
            "graph: x\nresources:\n  noop:\n  - name: {megabyte}\n  - name: {megabyte}\n    {megabyte}: y\n"
        ),
        format!("graph: x\nresources: {{noop: [{}]}}\n", "{name: a}, ".repeat(20_000)),
        format!(
            "graph: x\nresources:\n  noop:\n  - {{name: a}}\nedges:\n{}",
            "- {from: {kind: noop, name: b}, to: {kind: noop, name: c}}\n".repeat(5000)
        ),
        "a: ".repeat(100_000),
        "- ".repeat(100_000),
        "? ".repeat(100_000),
        "[".repeat(1_000_000),
        "{a: ".repeat(100_000),
        "&a ".repeat(100_000),
        "\n".repeat(1 << 20),
        "'".repeat(100_001),
        "\u{feff}".repeat(1000),
    ] {
        survives(source.as_bytes());
    }
}

#[test]
fn hidden_resources_do_not_multiply_edges_beyond_bounds() {
    let mut source = String::from("graph: x\nresources:\n  noop:\n");
    for name in ["a", "b"] {
        for number in 0..1001 {
            source += &format!("  - {{name: {name}, comment: '{number}', meta: {{hidden: true}}}}\n");
        }
    }
    source += "edges:\n- {from: {kind: noop, name: a}, to: {kind: noop, name: b}}\n";
    let parsed = survives(source.as_bytes());
    assert_eq!(parsed.diagnostics.last().unwrap().code, Some("Y0406"));
}

/// Every file of the corpus, in order.
fn corpus() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let files = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = files.filter(|path| path.extension().is_some_and(|end| end == "yaml")).collect();
    files.sort();
    files
}

#[test]
fn the_corpus_says_what_it_said() {
    let bless = std::env::var_os("BLESS").is_some();
    let mut wrong = Vec::new();
    for file in corpus() {
        let source = std::fs::read(&file).unwrap();
        let parsed = survives(&source);
        let positions = Positions::new(&source);
        let mut found = String::new();
        for diagnostic in &parsed.diagnostics {
            let at = diagnostic
                .span()
                .filter(|span| !span.is_whole())
                .map(|span| positions.locate(span.start as usize));
            let at = at.map_or(String::new(), |at| format!("{}:{} ", at.line, at.column));
            found += &format!("{} {at}{}\n", diagnostic.code.unwrap(), diagnostic.message);
        }
        if let Some(graph) = &parsed.graph {
            found += &format!("{} resources, {} edges\n", graph.graph.node_count(), graph.graph.edge_count());
        }
        let beside = file.with_extension("expected");
        if bless {
            std::fs::write(&beside, &found).unwrap();
        }
        if std::fs::read_to_string(&beside).ok().as_deref() != Some(&found) {
            wrong.push(format!("{}:\n{found}", file.display()));
        }
    }
    assert!(corpus().len() >= 30);
    assert!(wrong.is_empty(), "set BLESS=1 to accept\n{}", wrong.join("\n"));
}
