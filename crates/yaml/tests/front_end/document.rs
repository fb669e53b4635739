use super::{check, check_graph, check_strict, graph};

#[test]
fn the_smallest_graph_is_a_name() {
    let graph = graph("graph: x\n");
    assert_eq!(graph.name, "x");
    assert!(graph.graph.is_empty() && graph.comment.is_empty() && graph.remote.is_none());
}

#[test]
fn a_comment_is_kept() {
    assert_eq!(graph("graph: x\ncomment: see here\n").comment, "see here");
}

#[test]
fn a_graph_needs_a_name() {
    check("comment: x\n", "E Y0101 1:1 the graph has no name | add `graph: some_name` to the top level");
    for empty in ["''", "", "~", "null"] {
        check(
            &format!("comment: x\ngraph: {empty}\n"),
            &format!(
                "E Y0101 2:{} the name of the graph is empty | add `graph: some_name` to the top level",
                if empty.is_empty() { 6 } else { 8 }
            ),
        );
    }
    check("graph: [a]\n", "E Y0206 1:8 the name of the graph has to be text, found a list");
}

#[test]
fn a_document_that_is_no_map_is_refused() {
    let hint = "the top level is a map with the keys `graph`, `resources` and `edges`";
    check("- graph: x\n", &format!("E Y0007 1:1 expected a graph, found a list | {hint}"));
    check("just text\n", &format!("E Y0007 1:1 expected a graph, found `just text` | {hint}"));
    check("42\n", &format!("E Y0007 1:1 expected a graph, found `42` | {hint}"));
    check("---\n", &format!("E Y0007 2:1 expected a graph, found nothing | {hint}"));
    check("", "E Y0007 1:1 the file is empty | the smallest graph is `graph: some_name`");
    check("# only a comment\n\n", "E Y0007 1:1 the file is empty | the smallest graph is `graph: some_name`");
}

#[test]
fn a_second_document_is_refused_and_the_first_is_looked_at() {
    check(
        "graph: ''\n---\ngraph: y\n",
        "E Y0101 1:8 the name of the graph is empty | add `graph: some_name` to the top level
         E Y0006 2:1 a second document starts here | a graph file holds one document; move this one into a file of its own",
    );
    check_graph("---\ngraph: x\n...\n", "");
}

#[test]
fn unknown_sections_are_ignored_with_a_suggestion() {
    let source = "graph: x\nresource:\n  noop: []\nEdges: []\nwhatever: {a: [b]}\n";
    check(
        source,
        "W Y0102 2:1 `resource` means nothing at the top level | did you mean `resources`?
         W Y0102 4:1 `Edges` means nothing at the top level | did you mean `edges`?
         W Y0102 5:1 `whatever` means nothing at the top level",
    );
    check_strict(
        source,
        "E Y0102 2:1 `resource` means nothing at the top level | did you mean `resources`?
         E Y0102 4:1 `Edges` means nothing at the top level | did you mean `edges`?
         E Y0102 5:1 `whatever` means nothing at the top level",
    );
}

#[test]
fn empty_sections_are_fine() {
    check_graph("graph: x\nresources:\nedges:\ncollect:\ncomment:\n", "");
    check_graph("graph: x\nresources: {}\nedges: []\ncollect: []\ncomment: ''\n", "");
    check_graph("graph: x\nresources:\n  noop:\n  file: []\n", "");
}

#[test]
fn sections_of_the_wrong_shape_are_all_reported() {
    check(
        "graph: x\nresources: [noop]\nedges: {a: b}\ncollect: file\n",
        "E Y0103 2:12 `resources` expects a map from kinds to lists, found a list | write the kind as a key, and its resources as a list below it
         E Y0103 3:8 `edges` expects a list, found a map | start each item with `- `, or write `[]` for none
         E Y0103 4:10 `collect` expects a list, found `file` | start each item with `- `, or write `[]` for none",
    );
    check(
        "graph: x\nresources:\n  noop: {name: one}\n  file:\n  - just text\n  -\n",
        "E Y0103 3:9 `noop` expects a list, found a map | start each item with `- `, or write `[]` for none
         E Y0103 5:5 expected a resource of kind file, found `just text` | a resource is a map with a `name`, such as `- name: one`
         E Y0103 6:4 expected a resource of kind file, found nothing | a resource is a map with a `name`, such as `- name: one`",
    );
}

#[test]
fn remote_is_accepted_with_a_warning_that_shows_no_password() {
    let source = "graph: x\nremote: \"ssh://root:password@hostname:22\"\n";
    check(
        source,
        "W Y0105 2:1 `remote` only counts for `mgmt run --remote FILE` | leave it out, or run the file with `--remote`",
    );
    let parsed = mgmt_yaml::parse(source.as_bytes(), "test.yaml", &super::kinds::KINDS);
    assert_eq!(parsed.graph.unwrap().remote.unwrap(), "ssh://root:password@hostname:22");
}

#[test]
fn json_is_yaml() {
    check_graph(
        r#"{"graph": "x", "resources": {"noop": [{"name": "a"}, {"name": "b"}]},
            "edges": [{"name": "e", "from": {"kind": "noop", "name": "a"}, "to": {"kind": "noop", "name": "b"}}]}"#,
        "noop[a]\nnoop[b]\nnoop[a] -> noop[b]",
    );
}
