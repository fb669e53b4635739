use super::{check, check_graph};

/// Three resources and these edges.
fn with(edges: &str) -> String {
    format!(
        "graph: x\nresources:\n  noop: [{{name: one}}, {{name: two}}, {{name: three}}]\n  file: [{{name: one}}, {{name: four}}]\nedges:\n{edges}\n"
    )
}

#[test]
fn edges_connect_and_notify() {
    check_graph(
        &with(
            "- name: e1\n  from: {kind: noop, name: one}\n  to: {kind: Noop, name: two}\n- {from: {kind: noop, name: two}, to: {kind: file, name: four}, notify: yes}",
        ),
        "noop[one]\nnoop[two]\nnoop[three]\nfile[one]\nfile[four]\nnoop[one] -> noop[two]\nnoop[two] => file[four]",
    );
}

#[test]
fn an_edge_needs_both_ends() {
    let hint = "write `- {name: …, from: {kind: …, name: …}, to: {kind: …, name: …}}`";
    check(
        &with("- {name: e}\n- {from: {kind: noop}, to: {name: two}}\n- {from: one, to: [a]}\n- text\n-"),
        &format!(
            "E Y0401 6:3 the edge has no `from` | {hint}
             E Y0401 6:3 the edge has no `to` | {hint}
             E Y0401 7:10 `from` has no `name` | {hint}
             E Y0401 7:28 `to` has no `kind` | {hint}
             E Y0401 8:10 `from` expects a map with `kind` and `name`, found `one` | {hint}
             E Y0401 8:19 `to` expects a map with `kind` and `name`, found a list | {hint}
             E Y0103 9:3 expected an edge, found `text` | {hint}
             E Y0103 10:2 expected an edge, found nothing | {hint}"
        ),
    );
}

#[test]
fn unknown_ends_are_errors_with_suggestions() {
    check(
        &with(
            "- {from: {kind: noop, name: tow}, to: {kind: file, name: three}}\n- {from: {kind: nop, name: one}, to: {kind: noop, name: zzzzz}}\n- {from: {kind: svc, name: one}, to: {kind: noop, name: one}}",
        ),
        "E Y0402 6:29 there is no resource noop[tow] | did you mean noop[two]?
         E Y0402 6:58 there is no resource file[three] | did you mean noop[three]?
         E Y0201 7:17 there is no kind `nop` | did you mean `noop`?
         E Y0402 7:57 there is no resource noop[zzzzz]
         E Y0202 8:17 the kind `svc` is not built yet | this version of the program does not have it",
    );
}

#[test]
fn keys_that_an_edge_does_not_have_are_ignored() {
    check(
        &with(
            "- {from: {kind: noop, name: one, colour: red}, to: {kind: noop, name: two, type: x}, notfy: true}",
        ),
        "W Y0204 6:34 the end of an edge has no key `colour`
         W Y0204 6:76 the end of an edge has no key `type`
         W Y0204 6:86 an edge has no key `notfy` | did you mean `notify`?",
    );
}

#[test]
fn notify_is_a_truth_value() {
    check(
        &with("- {from: {kind: noop, name: one}, to: {kind: noop, name: two}, notify: 'yes'}"),
        "E Y0206 6:72 `notify` expects bool, found the quoted text `yes` | write `true` or `false`, without quotes",
    );
}

#[test]
fn repeated_edges_become_one_that_notifies_if_either_does() {
    let source = with(
        "- {from: {kind: noop, name: one}, to: {kind: noop, name: two}, notify: true}\n- {from: {kind: noop, name: one}, to: {kind: noop, name: two}}",
    );
    check(
        &source,
        "W Y0403 7:3 the edge from noop[one] to noop[two] is given twice | it notifies if either of them does @6:3 given here first",
    );
    check_graph(&source, "noop[one]\nnoop[two]\nnoop[three]\nfile[one]\nfile[four]\nnoop[one] => noop[two]");
}

#[test]
fn an_edge_to_itself_is_an_error() {
    check(
        &with("- {from: {kind: noop, name: one}, to: {kind: noop, name: one}}"),
        "E Y0404 6:3 noop[one] can't come before itself",
    );
}

#[test]
fn each_cycle_is_named_with_all_its_edges() {
    check(
        &with("- {from: {kind: noop, name: one}, to: {kind: noop, name: two}}\n- {from: {kind: noop, name: two}, to: {kind: noop, name: three}}\n- {from: {kind: noop, name: three}, to: {kind: noop, name: one}}\n- {from: {kind: file, name: one}, to: {kind: file, name: four}}\n- {from: {kind: file, name: four}, to: {kind: file, name: one}}\n- {from: {kind: noop, name: one}, to: {kind: file, name: one}}"),
        "E Y0405 6:3 the edges go in a circle: noop[one] -> noop[two] -> noop[three] -> noop[one] | take one of these edges out @7:3 noop[two] before noop[three] @8:3 noop[three] before noop[one]
         E Y0405 9:3 the edges go in a circle: file[one] -> file[four] -> file[one] | take one of these edges out @10:3 file[four] before file[one]",
    );
}

#[test]
fn edges_apply_to_all_resources_of_a_name() {
    check_graph(
        "graph: x
resources:
  noop:
  - {name: one}
  - {name: one, comment: a, meta: {hidden: true}}
  - {name: two, comment: b, meta: {hidden: true}}
  - {name: two, comment: c, meta: {hidden: true}}
edges:
- {from: {kind: noop, name: one}, to: {kind: noop, name: two}}
",
        "noop[one]\nnoop[one]\nnoop[two]\nnoop[two]
         noop[one] -> noop[two]\nnoop[one] -> noop[two]\nnoop[one] -> noop[two]\nnoop[one] -> noop[two]",
    );
}
