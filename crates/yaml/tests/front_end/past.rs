use super::{check, check_graph, kinds};
use mgmt_yaml::parse;

/// The form of the first versions: `types`, `type`, and parameters that are gone.
const OF_2016: &str = "---
graph: mygraph
comment: generated from a catalog
types:
  file:
  - name: demo-file
    path: \"/tmp/foo\"
    state: absent
  exec:
  - name: demo-process
    cmd: \"/bin/true\"
    shell: ''
    timeout: 300.0
    watchcmd: ''
    watchshell: ''
    ifcmd: ''
    ifshell: ''
    pollint: 0
    state: present
  - name: second
    cmd: sleep 10s
    timeout: 0
    pollint: 7
    state: present
edges:
- name: e2
  from:
    type: file
    name: demo-file
  to:
    type: exec
    name: demo-process
- name: e3
  from:
    type: exec
    name: demo-process
  to:
    type: exec
    name: second
";

#[test]
fn a_graph_of_2016_is_read_with_one_warning_per_old_word() {
    check(
        OF_2016,
        "W Y0104 4:1 `types` is the old spelling of `resources` | write `resources` instead
         W Y0205 13:5 exec has no parameter `timeout` any more | write `meta: {timeout: 10000}`, in milliseconds; seconds that are given here and are not 0 are taken over
         W Y0205 18:5 exec has no parameter `pollint` any more | write `meta: {poll: 10}`, in seconds; a number that is given here and is not 0 is taken over
         W Y0205 19:5 exec has no parameter `state` any more | leave it out: a command has no state of its own; guard it with `ifcmd`, `nifcmd` or `creates`
         W Y0104 28:5 `type` is the old spelling of `kind` | write `kind` instead; this is said once per file",
    );
    check_graph(
        OF_2016,
        "file[demo-file]\nexec[demo-process]\nexec[second]
         file[demo-file] -> exec[demo-process]\nexec[demo-process] -> exec[second]",
    );
}

#[test]
fn old_timeouts_and_intervals_become_metaparameters() {
    let graph = parse(OF_2016.as_bytes(), "test.yaml", &kinds::KINDS).graph.unwrap();
    let metas: Vec<_> = graph.graph.nodes().map(|(_, spec)| (spec.meta.timeout, spec.meta.poll)).collect();
    assert_eq!(metas, [(0, 0), (300_000, 0), (0, 7)]);
}

#[test]
fn a_metaparameter_counts_more_than_what_it_replaces() {
    let source = "graph: x\nresources:\n  exec:\n  - {name: a, cmd: x, timeout: 10, pollint: 5, meta: {timeout: 0, poll: 1}}\n  - {name: b, cmd: x, timeout: soon, pollint: -3}\n";
    let graph = parse(source.as_bytes(), "test.yaml", &kinds::KINDS).graph.unwrap();
    let metas: Vec<_> = graph.graph.nodes().map(|(_, spec)| (spec.meta.timeout, spec.meta.poll)).collect();
    assert_eq!(metas, [(0, 1), (0, 0)]);
}

#[test]
fn old_and_new_spelling_can_stand_together() {
    let source = "graph: x\ntypes:\n  noop: [{name: one}]\nresources:\n  noop: [{name: two}]\n";
    check_graph(source, "noop[one]\nnoop[two]");
}
