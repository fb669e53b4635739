use super::{check, check_graph, check_strict, graph};

#[test]
fn a_resource_knows_where_it_was_declared() {
    let graph = graph("graph: x\nresources:\n  noop:\n  - name: one\n  -   {name: two}\n");
    let origins: Vec<_> =
        graph.graph.nodes().map(|(_, spec)| spec.origin.clone().unwrap().to_string()).collect();
    assert_eq!(origins, ["test.yaml:4:5", "test.yaml:5:7"]);
}

#[test]
fn an_unknown_kind_is_an_error() {
    check(
        "graph: x\nresources:\n  nop:\n  - name: one\n  File:\n  - name: two\n  zzz: []\n",
        "E Y0201 3:3 there is no kind `nop` | did you mean `noop`?
         E Y0201 5:3 there is no kind `File` | did you mean `file`?
         E Y0201 7:3 there is no kind `zzz`",
    );
}

#[test]
fn a_kind_of_other_versions_is_not_built_yet() {
    check(
        "graph: x\nresources:\n  svc:\n  - name: one\n  aws:ec2: []\nedges:\n- {from: {kind: svc, name: one}, to: {kind: svc, name: one}}\n",
        "E Y0202 3:3 the kind `svc` is not built yet | this version of the program does not have it
         E Y0202 5:3 the kind `aws:ec2` is not built yet | this version of the program does not have it",
    );
}

#[test]
fn a_resource_needs_a_name() {
    check(
        "graph: x\nresources:\n  noop:\n  - comment: who am I\n  - name: ''\n  - name:\n  - name: [a]\n    comment: {}\n  - name: '@@'\n  - name: $home\n",
        "E Y0203 4:5 a resource of kind noop has no `name` | add `name: …` to it
         E Y0203 5:11 the name of a resource of kind noop is empty
         E Y0203 6:9 the name of a resource of kind noop is empty
         E Y0206 7:11 `name` has to be text, found a list
         E Y0206 8:14 `comment` expects str, found a map | put the text in quotes if it starts with a bracket | `comment`: Anything.
         E Y0203 9:11 the name of a resource of kind noop is empty
         E Y0203 10:11 the name `$home` starts with a dollar sign | if that is meant, add `meta: {dollar: true}`; variables are not expanded in YAML",
    );
    check_graph(
        "graph: x\nresources:\n  noop:\n  - {name: $home, meta: {dollar: true}}\n  - {name: 007}\n",
        "noop[$home]\nnoop[007]",
    );
}

#[test]
fn unknown_parameters_are_ignored_with_a_suggestion() {
    let source = "graph: x\nresources:\n  noop:\n  - name: one\n    coment: x\n    retry: 3\n    zzzzz: y\n    mta: {}\n";
    check(
        source,
        "W Y0204 5:5 noop has no parameter `coment` | did you mean `comment`?
         W Y0204 6:5 noop has no parameter `retry` | `retry` is a metaparameter: write it inside `meta`
         W Y0204 7:5 noop has no parameter `zzzzz`
         W Y0204 8:5 noop has no parameter `mta` | did you mean `meta`?",
    );
    check_strict(
        "graph: x\nresources:\n  noop:\n  - {name: one, coment: x}\n",
        "E Y0204 4:17 noop has no parameter `coment` | did you mean `comment`?",
    );
}

#[test]
fn a_parameter_under_two_names_is_set_once() {
    let source = "graph: x\nresources:\n  every:\n  - {name: one, maybe_ptr: 1, maybe: 2}\n";
    check(source, "W Y0211 4:31 `maybe_ptr` and `maybe` are the same parameter @4:17 this one is ignored");
}

#[test]
fn what_the_kind_refuses_is_pointed_at() {
    check(
        "graph: x\nresources:\n  file:\n  - name: one\n    state: gone\n  exec:\n  - name: two\n    shell: /bin/sh\n",
        "E Y0208 5:12 file[one]: `state`: expected `exists` or `absent` | leave it out for neither
         E Y0208 7:11 exec[two]: there is no command",
    );
}

#[test]
fn a_hidden_resource_is_not_validated_by_its_kind() {
    check_graph("graph: x\nresources:\n  exec:\n  - {name: two, meta: {hidden: true}}\n", "exec[two]");
}

#[test]
fn what_follows_from_another_mistake_is_not_reported() {
    check(
        "graph: x\nresources:\n  exec:\n  - {name: one, cmd: [a]}\n  - {name: two, cmd: x}\nedges:\n- {from: {kind: exec, name: one}, to: {kind: exec, name: two}}\n",
        "E Y0206 4:22 `cmd` expects str, found a list | put the text in quotes if it starts with a bracket | `cmd`: The command.",
    );
}

#[test]
fn resources_that_say_the_same_become_one() {
    let source =
        "graph: x\nresources:\n  noop:\n  - {name: one, comment: a}\n  - {comment: 'a', name: one}\n";
    check(source, "W Y0209 5:26 noop[one] is declared twice, in the same way @4:12 declared here first");
    check_graph(source, "noop[one]");
}

#[test]
fn resources_that_disagree_are_an_error() {
    check(
        "graph: x\nresources:\n  noop:\n  - {name: one, comment: a}\n  - {name: one, comment: b}\n  - {name: one, meta: {noop: yes}}\n  file:\n  - {name: one}\n",
        "E Y0210 5:12 noop[one] is declared twice, and not in the same way | give one of them another name, or make them the same @4:12 declared here first
         E Y0210 6:12 noop[one] is declared twice, and not in the same way | give one of them another name, or make them the same @4:12 declared here first",
    );
}

#[test]
fn hidden_resources_may_share_a_name() {
    check_graph(
        "graph: x\nresources:\n  noop:\n  - {name: one}\n  - {name: one, comment: a, meta: {hidden: true}}\n  - {name: one, comment: b, meta: {hidden: true}}\n  - {name: one, comment: b, meta: {hidden: true}}\n",
        "noop[one]\nnoop[one]\nnoop[one]",
    );
}
