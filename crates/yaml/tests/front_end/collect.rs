use super::{check, check_graph, graph};

#[test]
fn an_exported_resource_is_set_aside() {
    let source = "graph: x\nresources:\n  file:\n  - name: '@@motd'\n    state: exists\n";
    check_graph(source, "");
    let graph = graph(source);
    assert_eq!(graph.exported.iter().map(|spec| spec.id.to_string()).collect::<Vec<_>>(), ["file[motd]"]);
}

#[test]
fn a_collected_kind_is_taken_in_and_a_file_is_put_into_the_directory() {
    let source = "
graph: exchange
resources:
  file:
  - name: \"@@motd\"
    path: /tmp/a/motd
    content: \"from a\\n\"
    state: exists
  noop:
  - name: '@@other'
collect:
- kind: file
  pattern: /tmp/collected
edges: []
";
    check_graph(source, "file[motd]");
    let graph = graph(source);
    let (_, spec) = graph.graph.nodes().next().unwrap();
    assert_eq!(spec.resource.get("dirname").unwrap().to_string(), "\"/tmp/collected/\"");
    assert_eq!(graph.exported.len(), 2);
    assert_eq!(graph.exported[0].resource.get("dirname").unwrap().to_string(), "\"\"");
    assert_eq!((graph.collect[0].kind, graph.collect[0].pattern.as_str()), ("file", Some("/tmp/collected")));
}

#[test]
fn without_a_pattern_a_file_stays_where_it_is() {
    let graph = graph(
        "graph: x\nresources:\n  file: [{name: '@@f', path: /a}]\ncollect: [{kind: file, pattern: ''}]\n",
    );
    let (_, spec) = graph.graph.nodes().next().unwrap();
    assert_eq!(spec.resource.get("dirname").unwrap().to_string(), "\"\"");
}

#[test]
fn an_edge_to_an_exported_resource_needs_it_collected() {
    let source = |collect: &str| {
        format!(
            "graph: x\nresources:\n  noop: [{{name: '@@one'}}, {{name: two}}]\nedges:\n- {{from: {{kind: noop, name: one}}, to: {{kind: noop, name: two}}}}\n{collect}"
        )
    };
    check(
        &source(""),
        "E Y0402 5:29 there is no resource noop[one] | exported resources are not part of this graph unless `collect` has their kind",
    );
    check_graph(&source("collect: [{kind: noop}]\n"), "noop[two]\nnoop[one]\nnoop[one] -> noop[two]");
}

#[test]
fn collect_entries_have_a_kind_that_exists() {
    check(
        "graph: x\ncollect:\n- {pattern: x}\n- {kind: fil, pattern: x}\n- {kind: svc}\n- file\n- {kind: file, patern: x}\n",
        "E Y0103 3:3 the collect entry has no `kind`
         E Y0201 4:10 there is no kind `fil` | did you mean `file`?
         E Y0202 5:10 the kind `svc` is not built yet | this version of the program does not have it
         E Y0103 6:3 expected a map with `kind` and `pattern`, found `file`
         W Y0204 7:16 a collect entry has no key `patern`",
    );
}
