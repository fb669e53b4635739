use super::{check, check_graph, graph};

/// A command and a file that receives.
fn with(recv: &str) -> String {
    format!(
        "graph: x\nresources:\n  file:\n  - name: f\n    recv: {recv}\n  exec:\n  - name: e\n    cmd: date\n"
    )
}

#[test]
fn receiving_implies_an_edge() {
    let source = with("{content: {kind: exec, name: e, key: stdout}}");
    check_graph(&source, "file[f]\nexec[e]\nexec[e] -> file[f]");
    let graph = graph(&source);
    let (_, spec) = graph.graph.nodes().next().unwrap();
    let [receive] = &*spec.receives else { panic!("{:?}", spec.receives) };
    assert_eq!(
        (receive.field, receive.from.to_string().as_str(), receive.key),
        ("content", "exec[e]", "stdout")
    );
}

#[test]
fn a_sent_value_of_any_type_fits() {
    check_graph(&with("{content: {kind: exec, name: e, key: any}}"), "file[f]\nexec[e]\nexec[e] -> file[f]");
}

#[test]
fn an_edge_beside_the_implied_one_is_no_repetition() {
    let source = with("{content: {kind: exec, name: e, key: stdout}}")
        + "edges:\n- {from: {kind: exec, name: e}, to: {kind: file, name: f}, notify: true}\n";
    check(&source, "");
    check_graph(&source, "file[f]\nexec[e]\nexec[e] => file[f]");
}

#[test]
fn what_cannot_be_received_is_an_error() {
    let hint = "write `parameter: {kind: …, name: …, key: …}`";
    for (recv, expected) in [
        (
            "{contnt: {kind: exec, name: e, key: stdout}}",
            "E Y0501 5:12 file has no parameter `contnt` to receive | did you mean `content`?",
        ),
        (
            "{content: {kind: exec, name: e, key: stdin}}",
            "E Y0503 5:48 exec does not send `stdin` | exec sends stdout, status, any",
        ),
        (
            "{content: {kind: file, name: f, key: x}}",
            "E Y0503 5:48 file does not send `x` | file sends nothing",
        ),
        (
            "{content: {kind: exec, name: e, key: status}}",
            "E Y0504 5:48 `content` is str, and `status` is sent as int",
        ),
        (
            "{content: {kind: exec, name: d, key: stdout}}",
            "E Y0402 5:21 there is no resource exec[d] | did you mean exec[e]?",
        ),
        (
            "{content: {kind: exc, name: e, key: stdout}}",
            "E Y0201 5:28 there is no kind `exc` | did you mean `exec`?",
        ),
        (
            "{content: {kind: exec}}",
            &format!("E Y0502 5:21 the sender of `content` lacks name, key | {hint}"),
        ),
        ("{content: exec}", &format!("E Y0502 5:21 the sender of `content` lacks kind, name, key | {hint}")),
        (
            "[content]",
            "E Y0502 5:11 `recv` expects a map, found a list | write `recv: {parameter: {kind: …, name: …, key: …}}`",
        ),
        (
            "{content: {kind: exec, name: e, key: stdout}, Content: {kind: exec, name: e, key: stdout}}",
            "E Y0502 5:57 `content` is received twice",
        ),
        ("{content: {kind: exec, name: e, key: stdout, more: 1}}", "W Y0204 5:56 a sender has no key `more`"),
        ("", ""),
    ] {
        check(&with(recv), expected);
    }
}

#[test]
fn a_hidden_resource_sends_nothing() {
    check(
        "graph: x\nresources:\n  file:\n  - {name: f, recv: {content: {kind: exec, name: e, key: stdout}}}\n  exec:\n  - {name: e, cmd: date, meta: {hidden: true}}\n",
        "E Y0505 4:31 exec[e] is hidden and sends nothing",
    );
}

#[test]
fn a_circle_through_received_values_is_found() {
    check(
        "graph: x
resources:
  exec:
  - {name: a, cmd: x, recv: {shell: {kind: exec, name: b, key: stdout}}}
  - {name: b, cmd: y, recv: {shell: {kind: exec, name: a, key: stdout}}}
  - {name: c, cmd: y, recv: {shell: {kind: exec, name: c, key: stdout}}}
",
        "E Y0405 4:37 the edges go in a circle: exec[a] -> exec[b] -> exec[a] | take one of these edges out @5:37 exec[a] before exec[b]
         E Y0404 6:37 exec[c] can't come before itself",
    );
}
