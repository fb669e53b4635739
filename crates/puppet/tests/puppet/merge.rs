//! One graph of a program and a manifest: the mistakes, each with both places.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use crate::translated;
use std::sync::{Arc, LazyLock};

use mgmt_diagnostics::Severity;
use mgmt_puppet::{Half, Merged, TranslateOptions, merge, translate};
use mgmt_puppet_process::{Input, Puppet, Settings};
use mgmt_resource::{Edge, Origin, ResourceGraph, Spec};
use mgmt_resources::KINDS;
use tokio::runtime::Runtime;

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());
static PUPPET: LazyLock<Puppet> = LazyLock::new(|| Puppet::new(Settings::default()));

/// The graph of a manifest, from the real Puppet.
fn manifest(code: &str) -> ResourceGraph {
    let options = TranslateOptions { inline: Arc::from("site.pp"), ..TranslateOptions::default() };
    let compiled = RUNTIME.block_on(PUPPET.compile_warm(&Input::Code(code.to_owned()))).unwrap();
    translate(&compiled, &KINDS, &options).graph.unwrap()
}

/// The graph of a program: a resource for each line, as `kind name`, and edges as `kind name -> kind name`.
fn program(text: &str) -> ResourceGraph {
    let mut graph = ResourceGraph::new();
    let mut known = std::collections::HashMap::new();
    for (line, text) in (1..).zip(text.lines()) {
        let mut last = None;
        for word in text.split(" -> ") {
            let (kind, name) = word.trim().split_once(' ').unwrap();
            let node = *known.entry(word.trim().to_owned()).or_insert_with(|| {
                let mut spec = Spec::of(name, (KINDS.get(kind).unwrap().make)().into());
                spec.origin = Some(Origin { file: Arc::from("main.mcl"), line, column: 1 });
                graph.add_node(spec)
            });
            if let Some(before) = last.replace(node) {
                graph.set_edge(before, node, Edge::ORDER);
            }
        }
    }
    graph
}

fn merged_with(ours: &ResourceGraph, theirs: &ResourceGraph, allow: bool) -> Merged {
    merge(Half { graph: ours, name: "main.mcl" }, Half { graph: theirs, name: "host" }, allow)
}

/// What is wrong, and what to do about it.
fn mistakes(ours: &str, theirs: &str) -> Vec<(&'static str, String, String)> {
    let (ours, theirs) = (program(ours), manifest(theirs));
    let merged = merged_with(&ours, &theirs, false);
    assert!(merged.graph.is_none(), "{:?}", merged.diagnostics);
    let found = merged.diagnostics.into_iter();
    found.map(|found| (found.code.unwrap(), found.message, found.hints.join("; "))).collect()
}

#[test]
fn a_noop_without_a_class_is_an_error_with_a_suggestion() {
    let found = mistakes("noop puppet_handovr", "class mgmt_handover {}\ninclude mgmt_handover");
    let [(code, noop, hint), (_, class, other)] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(*code, "P0301");
    assert_eq!(
        noop,
        "noop[puppet_handovr] of the program (main.mcl:1) belongs to no class: the manifest has no class `mgmt_handovr`"
    );
    assert_eq!(hint, "did you mean `puppet_handover`? There is a class `mgmt_handover` (site.pp:1)");
    assert!(
        class.starts_with("class `mgmt_handover` of the manifest (site.pp:1) belongs to no `noop`"),
        "{class}"
    );
    assert_eq!(other, "did you mean `class mgmt_handovr`? There is `noop[puppet_handovr]` (main.mcl:1)");
    let found = mistakes("noop puppet_x", "notify { 'x': }");
    assert!(found[0].2.contains("add `class mgmt_x {}` to the manifest"), "{found:?}");
    let found = mistakes("noop x", "class mgmt_x {}\ninclude mgmt_x");
    assert!(found[0].2.contains("add `noop \"puppet_x\" {}` to the program"), "{found:?}");
}

#[test]
fn what_has_no_counterpart_can_be_allowed_and_stays_as_it_is() {
    let (ours, theirs) = (
        program("noop puppet_a\nnoop puppet_b"),
        manifest("class mgmt_b {}\nclass mgmt_c {}\ninclude mgmt_b, mgmt_c"),
    );
    let merged = merged_with(&ours, &theirs, true);
    assert!(
        merged
            .diagnostics
            .iter()
            .all(|found| found.severity == Severity::Warning && found.code == Some("P0301"))
    );
    assert_eq!(merged.diagnostics.len(), 2);
    let names: Vec<String> = merged.graph.unwrap().nodes().map(|(_, spec)| spec.id.to_string()).collect();
    for name in
        ["noop[puppet_a]", "noop[b]", "noop[admissible_Class[Mgmt_c]]", "noop[completed_Class[Mgmt_c]]"]
    {
        assert!(names.contains(&name.to_owned()), "{name}: {names:?}");
    }
    assert!(!names.contains(&"noop[puppet_b]".to_owned()));
}

#[test]
fn a_class_that_is_not_empty_is_refused_with_what_is_in_it() {
    let one = "class mgmt_x {\n  notify { 'inside': }\n}\ninclude mgmt_x";
    let found = mistakes("msg y\nnoop puppet_x", one);
    assert_eq!(found[0].0, "P0302");
    assert_eq!(
        found[0].1,
        "class `mgmt_x` of the manifest (site.pp:1), which belongs to `noop[puppet_x]` of the program (main.mcl:2), is not \
         empty: msg[inside] (site.pp:2) would be in it"
    );
    let many = "class mgmt_x {\n  notify { ['a', 'b', 'c', 'd']: }\n}\ninclude mgmt_x";
    let found = mistakes("noop puppet_x", many);
    assert!(
        found[0].1.contains("msg[a] (site.pp:2), msg[b] (site.pp:2), msg[c] (site.pp:2) and 1 more"),
        "{found:?}"
    );
    let nested = "class mgmt_x {\n  contain inner\n}\nclass inner {}\ninclude mgmt_x";
    let found = mistakes("noop puppet_x", nested);
    assert!(found[0].1.contains("noop[admissible_Class[Inner]]"), "{found:?}");
}

#[test]
fn a_class_without_an_end_and_a_graph_without_a_stage_are_no_panic() {
    let ours = program("noop puppet_x");
    let mut theirs = manifest("class mgmt_x {}\ninclude mgmt_x");
    let end =
        |graph: &ResourceGraph, name: &str| graph.nodes().find(|(_, spec)| spec.id.name == *name).unwrap().0;
    theirs.remove_node(end(&theirs, "completed_Class[Mgmt_x]"));
    let merged = merged_with(&ours, &theirs, false);
    assert!(merged.graph.is_none());
    assert!(merged.diagnostics[0].message.ends_with("has no end"), "{:?}", merged.diagnostics);
    theirs.remove_node(end(&theirs, "admissible_Stage[main]"));
    let merged = merged_with(&ours, &theirs, false);
    assert!(
        merged.graph.is_none() && merged.diagnostics[0].code == Some("P0303"),
        "{:?}",
        merged.diagnostics
    );
}

#[test]
fn a_name_that_is_taken_names_both_places() {
    let found = mistakes("noop x\nnoop puppet_x", "class mgmt_x {}\ninclude mgmt_x");
    assert_eq!(found[0].0, "P0203");
    assert!(
        found[0].1.contains("`noop \"puppet_x\"` of the program (main.mcl:2)")
            && found[0].1.contains("(main.mcl:1)"),
        "{found:?}"
    );
    let found = mistakes("noop a\nmsg x", "\n\nnotify { 'x': }");
    assert_eq!(found[0].1, "msg[x] is in the program (main.mcl:2) and in the manifest (site.pp:3)");
}

#[test]
fn a_cycle_says_who_asks_for_each_edge() {
    let found = mistakes(
        "noop puppet_b -> noop puppet_a",
        "class mgmt_a {}\nclass mgmt_b {}\ninclude mgmt_a, mgmt_b\nClass['mgmt_a'] -> notify { 'm': } -> Class['mgmt_b']",
    );
    let (code, message, _) = &found[0];
    assert_eq!(*code, "P0102");
    for part in [
        "noop[b] (main.mcl:1) -[program]-> noop[a] (main.mcl:1)",
        "noop[a] (main.mcl:1) -[manifest]-> msg[m] (site.pp:4)",
        "msg[m] (site.pp:4) -[manifest]-> noop[b]",
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
}

#[test]
fn a_class_of_a_namespace_is_found_in_both_spellings() {
    let theirs = manifest("class mgmt_a::b {}\ninclude mgmt_a::b");
    for name in ["puppet_a::b", "puppet_a::B"] {
        let ours = program(&format!("noop {name}"));
        let merged = merged_with(&ours, &theirs, false);
        assert!(merged.graph.is_some(), "{:?}", merged.diagnostics);
    }
}

#[test]
fn merging_changes_neither_graph_and_loses_no_edge() {
    let (ours, theirs) = (
        program("msg one -> noop puppet_x -> msg two"),
        manifest(
            "class mgmt_x {}\ninclude mgmt_x\nnotify { 'three': } ~> Class['mgmt_x'] -> notify { 'four': }",
        ),
    );
    let before = (ours.node_count(), ours.edge_count(), theirs.node_count(), theirs.edge_count());
    let first = merged_with(&ours, &theirs, false).graph.unwrap();
    let again = merged_with(&ours, &theirs, false).graph.unwrap();
    assert_eq!(before, (ours.node_count(), ours.edge_count(), theirs.node_count(), theirs.edge_count()));
    assert_eq!((first.node_count(), first.edge_count()), (again.node_count(), again.edge_count()));
    assert_eq!(first.node_count(), ours.node_count() + theirs.node_count() - 2);
    assert_eq!(first.edge_count(), ours.edge_count() + theirs.edge_count() - 1);
    let node = |name: &str| first.nodes().find(|(_, spec)| spec.id.to_string() == name).unwrap().0;
    assert!(first.edge(node("msg[three]"), node("noop[x]")).unwrap().notify);
    assert!(!first.edge(node("noop[x]"), node("msg[four]")).unwrap().notify);
    assert!(first.has_path(node("msg[one]"), node("msg[four]")));
    assert!(first.has_path(node("msg[three]"), node("msg[two]")));
}

#[test]
fn what_the_program_manages_is_not_purged_by_the_manifest() {
    for (ours, theirs, name, field, expected) in [
        (
            "host h",
            "resources { 'host': purge => true }",
            "pippet[Resources[host]]",
            "context",
            "\"title\":\"h\"",
        ),
        (
            "user me",
            "resources { 'x': name => 'user', purge => true }",
            "pippet[Resources[x]]",
            "context",
            "\"title\":\"me\"",
        ),
        (
            "file /tmp/a/b/",
            "file { '/tmp/a': ensure => directory, recurse => true, purge => true, ignore => 'x' }",
            "pippet[File[/tmp/a]]",
            "context",
            "\"title\":\"/tmp/a/b\"",
        ),
    ] {
        let (ours, theirs) = (program(ours), manifest(theirs));
        let merged = merged_with(&ours, &theirs, false);
        let graph = merged.graph.unwrap_or_else(|| panic!("{name}: {:?}", merged.diagnostics));
        let spec = graph.nodes().find(|(_, spec)| spec.id.to_string() == name).unwrap().1;
        let found = match spec.resource.get(field).unwrap() {
            mgmt_value::Value::Str(text) => text.to_text().into_owned(),
            other => other.to_string(),
        };
        assert!(found.contains(expected), "{name}: {found}");
    }
    // Puppet knows these only by what it has written itself.
    for (ours, theirs) in [
        ("crontab c", "resources { 'cron': purge => true }"),
        ("ssh:authorized_key k", "user { 'me': ensure => present, purge_ssh_keys => true }"),
    ] {
        let found = mistakes(ours, theirs);
        let [(code, message, _)] = found.as_slice() else { panic!("{found:?}") };
        assert!(
            *code == "P0304" && message.contains("main.mcl:1") && message.contains("site.pp:1"),
            "{message}"
        );
    }
    // Who purges something else, or nothing, is not in the way.
    for theirs in
        ["resources { 'host': purge => true }", "resources { 'cron': purge => false }", "notify { 'x': }"]
    {
        let (ours, theirs) = (program("crontab c"), manifest(theirs));
        assert!(merged_with(&ours, &theirs, false).graph.is_some());
    }
}

#[test]
fn one_file_is_on_one_side_whatever_it_is_called() {
    for theirs in [
        "file { 'other': path => '/tmp//a/b/', ensure => file }",
        "file { 'other': path => '/tmp/a/b', mode => '0600' }",
        "file { '/tmp/a/b': ensure => directory }",
    ] {
        let found = mistakes("file /tmp/a/b/", theirs);
        let [(code, message, _)] = found.as_slice() else { panic!("{theirs}: {found:?}") };
        assert!(*code == "P0203" && message.contains("/tmp/a/b"), "{message}");
        assert!(message.contains("main.mcl:1") && message.contains("site.pp:1"), "{message}");
    }
}

#[test]
fn one_object_is_on_one_side_whatever_it_is_called_and_whoever_brings_it_about() {
    for (ours, theirs) in [
        ("mount /mnt/x", "mount { '/mnt/x/': ensure => mounted, device => 'tmpfs', fstype => 'tmpfs' }"),
        ("pkg nginx", "package { 'nginx': ensure => absent, install_options => ['--x'] }"),
        ("pkg nginx", "package { 'web': name => 'nginx', provider => apt, install_options => ['--x'] }"),
        ("svc cron.service", "service { 'cron': ensure => running }"),
        ("svc cron", "service { 'cron': ensure => running, start => '/bin/true' }"),
        ("user me", "user { 'me': ensure => present, expiry => absent }"),
        ("group us", "group { 'us': ensure => present, audit => all }"),
        ("host h", "host { 'h': ip => '192.0.2.1', audit => all }"),
    ] {
        let found = mistakes(ours, theirs);
        let [(code, message, _)] = found.as_slice() else { panic!("{theirs}: {found:?}") };
        assert_eq!(*code, "P0203", "{message}");
        assert!(message.contains("main.mcl:1") && message.contains("site.pp:1"), "{message}");
    }
    for (ours, theirs) in [
        ("pkg nginx", "package { 'nginx': ensure => present, provider => gem }"),
        ("pkg nginx", "service { 'nginx': ensure => running, start => '/bin/true' }"),
        ("svc cron.socket", "service { 'cron': ensure => running }"),
    ] {
        let merged = merged_with(&program(ours), &manifest(theirs), false);
        assert!(merged.graph.is_some(), "{theirs}: {:?}", merged.diagnostics);
    }
}

#[test]
fn who_has_the_whole_content_and_who_edits_it_are_told_of_each_other() {
    let edits = "file_line { 'l': path => '/tmp/a/b', line => 'x' }\n";
    let conflicts = |code: &str| {
        let translated = translated::translated(code);
        let found = translated.diagnostics.into_iter().filter(|found| found.code == Some("P0207"));
        found.map(|found| found.message).collect::<Vec<_>>()
    };
    for (whole, count) in [
        ("file { '/tmp/a/b': content => 'x' }", 1),
        ("file { '/tmp/a/b': content => 'x', audit => 'mode' }", 1),
        ("file { '/tmp/a/b': source => '/etc/hostname' }", 1),
        ("concat { '/tmp/a/b': } concat::fragment { 'f': target => '/tmp/a/b', content => 'x' }", 1),
        (
            "concat { '/tmp/a/b': format => yaml } concat::fragment { 'f': target => '/tmp/a/b', content => 'x: 1' }",
            1,
        ),
        ("file { '/tmp/a/b': ensure => file, mode => '0600' }", 0),
        ("file { '/tmp/a/b': content => 'x', replace => false }", 0),
        ("file { '/tmp/a/c': content => 'x' }", 0),
    ] {
        let found = conflicts(&format!("{edits}{whole}"));
        assert_eq!(found.len(), count, "{whole}: {found:?}");
        assert!(found.iter().all(|found| found.contains("line[l] (code:1) edits /tmp/a/b")), "{found:?}");
    }
    let code = "host { 'h': ip => '192.0.2.1' }\nfile { '/etc/hosts': content => 'x' }";
    assert_eq!(conflicts(code).len(), 1);
    // One of the two is in the program.
    let (ours, theirs) = (program("host h"), manifest("file { '/etc/hosts': content => 'x' }"));
    let merged = merged_with(&ours, &theirs, false);
    assert!(merged.graph.is_some());
    let codes: Vec<_> = merged.diagnostics.iter().map(|found| found.code.unwrap()).collect();
    assert_eq!(codes, ["P0207"], "{:?}", merged.diagnostics);
}
