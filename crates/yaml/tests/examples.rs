//! The examples are read as they are shipped.

#![allow(clippy::unwrap_used, reason = "a test may fail like that")]

use std::path::Path;

use mgmt_diagnostics::Severity;

#[test]
fn every_example_is_read_without_a_warning_except_the_old_one() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/yaml");
    let mut count = 0;
    let mut open = vec![directory];
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        let source = std::fs::read(&path).unwrap();
        let parsed = mgmt_yaml::parse(&source, "example.yaml", &mgmt_resources::KINDS);
        let old = path.file_name().unwrap() == "of-2016.yaml";
        let unexpected = parsed
            .diagnostics
            .iter()
            .filter(|found| !(old && ["Y0104", "Y0205"].contains(&found.code.unwrap())));
        let unexpected: Vec<_> =
            unexpected.map(|found| format!("{} {}", found.code.unwrap(), found.message)).collect();
        assert!(unexpected.is_empty(), "{}: {unexpected:#?}", path.display());
        assert_eq!(parsed.diagnostics.is_empty(), !old, "{}", path.display());
        let graph = parsed.graph.unwrap();
        assert_eq!(
            path.file_stem().unwrap().to_str(),
            graph.name.as_str(),
            "a graph is called like its file"
        );
        assert!(!graph.graph.is_empty() && source.starts_with(b"# "), "an example says what there is to see");
        count += 1;
    }
    assert!(count >= 12);
}

#[test]
fn two_declarations_that_one_resource_fulfils_become_one() {
    let source = "graph: x\nresources:\n  pkg:\n  - {name: hello, state: installed}\n  - {name: hello, state: newest}\n";
    let parsed = mgmt_yaml::parse(source.as_bytes(), "test.yaml", &mgmt_resources::KINDS);
    let codes: Vec<_> =
        parsed.diagnostics.iter().map(|found| (found.severity, found.code.unwrap())).collect();
    assert_eq!(codes, [(Severity::Warning, "Y0209")]);
    let graph = parsed.graph.unwrap().graph;
    let states: Vec<_> = graph.nodes().map(|(_, spec)| spec.resource.get("state")).collect();
    assert_eq!(states, [Some(mgmt_value::Value::str("newest"))]);
}

/// One message, as earlier versions had it translated by Puppet: the smallest document of that origin.
const OF_PUPPET: &str = r#"---
graph: host.example.com
comment: generated from puppet catalog for host.example.com
resources:
  noop:
  - name: admissible_Stage[main]
  - name: completed_Stage[main]
  - name: admissible_Class[Settings]
  - name: completed_Class[Settings]
  - name: admissible_Class[Main]
  - name: completed_Class[Main]
  msg:
  - name: hi
    body: hi
    priority: Notice
edges:
- name: Whit[Admissible_stage[Main]] -> Whit[Admissible_class[Settings]]
  from:
    kind: noop
    name: admissible_Stage[main]
  to:
    kind: noop
    name: admissible_Class[Settings]
- name: Whit[Admissible_class[Settings]] -> Whit[Completed_class[Settings]]
  from: {kind: noop, name: "admissible_Class[Settings]"}
  to: {kind: noop, name: "completed_Class[Settings]"}
- name: Whit[Completed_class[Settings]] -> Whit[Completed_stage[Main]]
  from: {kind: noop, name: "completed_Class[Settings]"}
  to: {kind: noop, name: "completed_Stage[main]"}
- name: Whit[Admissible_stage[Main]] -> Whit[Admissible_class[Main]]
  from: {kind: noop, name: "admissible_Stage[main]"}
  to: {kind: noop, name: "admissible_Class[Main]"}
- name: Whit[Admissible_class[Main]] -> Notify[hi]
  from: {kind: noop, name: "admissible_Class[Main]"}
  to: {kind: msg, name: hi}
- name: Notify[hi] -> Whit[Completed_class[Main]]
  from: {kind: msg, name: hi}
  to: {kind: noop, name: "completed_Class[Main]"}
- name: Whit[Completed_class[Main]] -> Whit[Completed_stage[Main]]
  from: {kind: noop, name: "completed_Class[Main]"}
  to: {kind: noop, name: "completed_Stage[main]"}
"#;

#[test]
fn the_smallest_document_of_a_manifest_is_read() {
    let parsed = mgmt_yaml::parse(OF_PUPPET.as_bytes(), "puppet.yaml", &mgmt_resources::KINDS);
    assert!(parsed.diagnostics.is_empty(), "{:?}", parsed.diagnostics);
    let read = parsed.graph.unwrap();
    assert_eq!(read.name, "host.example.com");
    assert_eq!((read.graph.node_count(), read.graph.edges().count()), (7, 7));
}

#[test]
fn bytes_in_the_way_of_ruby_are_bytes() {
    let source = "---\ngraph: x\nresources:\n  file:\n  - name: /tmp/a\n    path: \"/tmp/a\"\n    state: exists\n    \
                  content: !binary |-\n      AAH/\n";
    let parsed = mgmt_yaml::parse(source.as_bytes(), "puppet.yaml", &mgmt_resources::KINDS);
    assert!(parsed.diagnostics.is_empty(), "{:?}", parsed.diagnostics);
    let graph = parsed.graph.unwrap().graph;
    let content = graph.nodes().next().unwrap().1.resource.get("content");
    assert_eq!(content, Some(mgmt_value::Value::Str(mgmt_value::Str::from(vec![0_u8, 1, 255]))));
}
