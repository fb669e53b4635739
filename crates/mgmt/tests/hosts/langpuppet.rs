//! A program and a manifest as one graph, with the real Puppet.
#![allow(missing_docs, clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::path::Path;

use mgmt_test_support::program::{RunningProgram, holds, mgmt_output};
use rustix::process::Signal;
use serde_json::Value;

/// A graph as `mgmt graph` shows it: names of vertices, and edges as pairs.
struct Graph {
    name: String,
    vertices: BTreeSet<String>,
    edges: BTreeSet<(String, String)>,
}

impl Graph {
    fn of(arguments: &[&str]) -> Graph {
        let said = mgmt_output(&[&["graph", "--format", "json", "--no-autoedges"], arguments].concat());
        assert_eq!(said.code, 0, "{}", said.stderr);
        let document: Value = serde_json::from_str(&said.stdout).unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let list = |name: &str| document[name].as_array().unwrap().clone();
        Graph {
            name: text(&document["graph"]),
            vertices: list("vertices").iter().map(|vertex| text(&vertex["id"])).collect(),
            edges: list("edges").iter().map(|edge| (text(&edge["from"]), text(&edge["to"]))).collect(),
        }
    }

    fn sizes(&self) -> (usize, usize) {
        (self.vertices.len(), self.edges.len())
    }

    /// What comes right before and right after a vertex.
    fn around(&self, name: &str) -> (Vec<&str>, Vec<&str>) {
        let before = self.edges.iter().filter(|(_, to)| to == name).map(|(from, _)| from.as_str());
        let after = self.edges.iter().filter(|(from, _)| from == name).map(|(_, to)| to.as_str());
        (before.collect(), after.collect())
    }
}

/// The graphs of an example: that of both, and the program's alone.
fn example(program: &str, manifest: &str) -> [Graph; 2] {
    let place = tempfile::tempdir().unwrap();
    let (lang, puppet) = (place.path().join("main.mcl"), place.path().join("site.pp"));
    std::fs::write(&lang, program).unwrap();
    std::fs::write(&puppet, manifest).unwrap();
    let (lang, puppet) = (lang.to_str().unwrap(), puppet.to_str().unwrap());
    let both = Graph::of(&["langpuppet", "--lang", lang, "--puppet", puppet]);
    let ours = Graph::of(&["lang", lang]);
    assert!(both.name.starts_with(&format!("{}+", ours.name)), "{}", both.name);
    [ours, both]
}

#[test]
fn example_1_nothing_in_common_stays_apart() {
    let [ours, both] = example(
        "file \"/tmp/mgmt_dir/\" { state => \"exists\", }\nfile \"/tmp/mgmt_dir/a\" { state => \"exists\", }\n",
        "file { '/tmp/puppet_dir': ensure => directory }\nfile { '/tmp/puppet_dir/a': ensure => file }\n",
    );
    assert_eq!(ours.sizes(), (2, 0));
    assert_eq!(both.sizes(), (10, 10));
    let (before, after) = both.around("file[/tmp/puppet_dir]");
    assert_eq!(before, ["noop[admissible_Class[Main]]"]);
    assert_eq!(after, ["file[/tmp/puppet_dir/a]", "noop[completed_Class[Main]]"]);
}

#[test]
fn example_2_one_handover() {
    let [ours, both] = example(
        "noop \"puppet_handover_to_mgmt\" {}\n\
         file \"/tmp/mgmt_dir/\" { state => \"exists\", }\nfile \"/tmp/mgmt_dir/a\" { state => \"exists\", }\n\
         Noop[\"puppet_handover_to_mgmt\"] -> File[\"/tmp/mgmt_dir/\"]\n",
        "class mgmt_handover_to_mgmt {}\ninclude mgmt_handover_to_mgmt\n\
         file { '/tmp/puppet_dir': ensure => directory }\nfile { '/tmp/puppet_dir/a': ensure => file }\n\
         File['/tmp/puppet_dir/a'] -> Class['mgmt_handover_to_mgmt']\n",
    );
    assert_eq!((ours.sizes(), both.sizes()), ((3, 1), (11, 14)));
    let (before, after) = both.around("noop[handover_to_mgmt]");
    assert_eq!(before, ["file[/tmp/puppet_dir/a]", "noop[admissible_Stage[main]]"]);
    assert_eq!(after, ["file[/tmp/mgmt_dir/]", "noop[completed_Stage[main]]"]);
}

#[test]
fn example_3_there_and_back() {
    let [ours, both] = example(
        "noop \"puppet_handover\" {}\nnoop \"puppet_handback\" {}\n\
         file \"/tmp/mgmt_dir/\" { state => \"exists\", }\nfile \"/tmp/mgmt_dir/a\" { state => \"exists\", }\n\
         file \"/tmp/puppet_dir/mgmt_tree/puppet_subtree/state-file\" { state => \"exists\", }\n\
         File[\"/tmp/mgmt_dir/\"] -> Noop[\"puppet_handover\"]\n\
         Noop[\"puppet_handback\"] -> File[\"/tmp/puppet_dir/mgmt_tree/puppet_subtree/state-file\"]\n",
        "class mgmt_handover {}\nclass mgmt_handback {}\n\
         class important_stuff { file { '/tmp/puppet_dir': ensure => directory } }\n\
         include mgmt_handover, mgmt_handback, important_stuff\n\
         Class['mgmt_handover'] -> Class['important_stuff'] -> Class['mgmt_handback']\n",
    );
    assert_eq!((ours.sizes(), both.sizes()), ((5, 2), (14, 18)));
    let (before, after) = both.around("noop[handover]");
    assert_eq!(before, ["file[/tmp/mgmt_dir/]", "noop[admissible_Stage[main]]"]);
    assert_eq!(after, ["noop[admissible_Class[Important_stuff]]", "noop[completed_Stage[main]]"]);
    let (before, after) = both.around("noop[handback]");
    assert_eq!(before, ["noop[admissible_Stage[main]]", "noop[completed_Class[Important_stuff]]"]);
    let file = "file[/tmp/puppet_dir/mgmt_tree/puppet_subtree/state-file]";
    assert_eq!(after, [file, "noop[completed_Stage[main]]"]);
}

#[test]
fn example_4_the_manifest_is_in_the_middle() {
    let [ours, both] = example(
        "print \"first\" { msg => \"first\", }\nnoop \"puppet_first_handover\" {}\n\
         noop \"puppet_second_handover\" {}\nprint \"third\" { msg => \"third\", }\n\
         Print[\"first\"] -> Noop[\"puppet_first_handover\"]\nNoop[\"puppet_second_handover\"] -> Print[\"third\"]\n",
        "class mgmt_first_handover {}\nclass mgmt_second_handover {}\ninclude mgmt_first_handover, mgmt_second_handover\n\
         Class['mgmt_first_handover'] -> notify { 'second message': } -> Class['mgmt_second_handover']\n",
    );
    assert_eq!((ours.sizes(), both.sizes()), ((4, 2), (11, 15)));
    for (from, to) in [
        ("print[first]", "noop[first_handover]"),
        ("noop[first_handover]", "msg[second message]"),
        ("msg[second message]", "noop[second_handover]"),
        ("noop[second_handover]", "print[third]"),
    ] {
        assert!(both.edges.contains(&(from.to_owned(), to.to_owned())), "{from} -> {to}");
    }
}

#[test]
fn what_is_missing_on_the_command_line_is_named() {
    let expect = |arguments: &[&str], part: &str| {
        let said = mgmt_output(arguments);
        assert_eq!(said.code, 2, "{arguments:?}: {}", said.stderr);
        assert!(said.stderr.contains(part), "{arguments:?}: {}", said.stderr);
    };
    for command in ["run", "graph", "check", "deploy"] {
        expect(&[command, "langpuppet", "--puppet", "x.pp"], "`--lang` is missing");
        expect(&[command, "langpuppet", "--lp-lang", "x.mcl"], "`--puppet` is missing");
        expect(&[command, "langpuppet", "--lang", "a", "--lp-lang", "b", "--puppet", "c"], "mean the same");
    }
    expect(&["run", "--lp-lang", "x.mcl"], "`--puppet` is missing");
    expect(&["run", "langpuppet", "x.mcl", "--puppet", "x.pp"], "takes a program and a manifest");
}

#[test]
fn a_mistake_between_the_two_is_told_by_check_with_both_places() {
    let place = tempfile::tempdir().unwrap();
    let (lang, puppet) = (place.path().join("main.mcl"), place.path().join("site.pp"));
    std::fs::write(&lang, "noop \"x\" {}\nnoop \"puppet_handovre\" {}\n").unwrap();
    std::fs::write(&puppet, "class mgmt_handover {}\ninclude mgmt_handover\n").unwrap();
    let arguments = ["langpuppet", "--lang", lang.to_str().unwrap(), "--puppet", puppet.to_str().unwrap()];
    let wrong = mgmt_output(&[&["check"], &arguments[..]].concat());
    assert_eq!(wrong.code, 1, "{}", wrong.stderr);
    for part in ["error[P0301]", "main.mcl:2)", "did you mean `puppet_handover`", "site.pp:1)", "--> "] {
        assert!(wrong.stderr.contains(part), "{part}: {}", wrong.stderr);
    }
    let allowed = mgmt_output(&[&["check", "--allow-unmatched"], &arguments[..]].concat());
    assert_eq!(allowed.code, 0, "{}", allowed.stderr);
    assert!(allowed.stderr.contains("warning[P0301]"), "{}", allowed.stderr);
}

/// Each side writes a file that the other has to come after.
fn program(place: &Path, text: &str) -> String {
    format!(
        "file \"{0}/ours\" {{ state => \"exists\", content => \"{text}\", }}\nnoop \"puppet_x\" {{}}\n\
         File[\"{0}/ours\"] -> Noop[\"puppet_x\"]\n",
        place.display()
    )
}

fn manifest(place: &Path, text: &str) -> String {
    format!(
        "class mgmt_x {{}}\ninclude mgmt_x\nfile {{ '{0}/theirs': content => '{text}', require => Class['mgmt_x'] }}\n",
        place.display()
    )
}

#[test]
fn either_side_is_followed_alone_and_a_mistake_of_one_does_not_stop_the_other() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let (lang, puppet, ours, theirs) = (at("main.mcl"), at("site.pp"), at("ours"), at("theirs"));
    std::fs::write(&lang, program(place.path(), "1")).unwrap();
    std::fs::write(&puppet, manifest(place.path(), "1")).unwrap();
    let mut run = RunningProgram::start(&[
        "run",
        "--tmp-prefix",
        "--lp-lang",
        lang.to_str().unwrap(),
        "--lp-puppet",
        puppet.to_str().unwrap(),
    ]);
    holds(&theirs, "1");
    holds(&ours, "1");
    std::fs::write(&puppet, manifest(place.path(), "2")).unwrap();
    holds(&theirs, "2");
    std::fs::write(&lang, program(place.path(), "3")).unwrap();
    holds(&ours, "3");
    std::fs::write(&puppet, manifest(place.path(), "4")).unwrap();
    holds(&theirs, "4");
    // One side is wrong for a while; the other goes on, with the last graph of the first.
    std::fs::write(&puppet, "class {").unwrap();
    run.wait_for("still running the previous graph");
    std::fs::write(&lang, program(place.path(), "5")).unwrap();
    holds(&ours, "5");
    std::fs::write(&theirs, "broken").unwrap();
    holds(&theirs, "4");
    // Two that do not fit are told of, and run as soon as they do.
    std::fs::write(&lang, program(place.path(), "6").replace("puppet_x", "puppet_y")).unwrap();
    run.wait_for("evaluation failed; keeping the last good graph");
    std::fs::write(&puppet, manifest(place.path(), "7").replace("mgmt_x", "mgmt_y")).unwrap();
    holds(&theirs, "7");
    holds(&ours, "6");
    run.signal(Signal::INT);
    let (code, lines) = run.end();
    assert_eq!(code, Some(0), "{lines}");
}

#[test]
fn both_are_given_to_a_host_that_runs() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let prefix = at("prefix");
    let prefix = prefix.to_str().unwrap();
    std::fs::write(at("main.mcl"), program(place.path(), "one")).unwrap();
    let environment = at("environment");
    std::fs::create_dir_all(environment.join("manifests")).unwrap();
    std::fs::write(environment.join("manifests/site.pp"), manifest(place.path(), "two")).unwrap();
    std::fs::write(at("puppet.conf"), "[main]\nruninterval = 20m\n").unwrap();
    let mut run = RunningProgram::start(&["run", "--prefix", prefix, "empty"]);
    run.wait_for("graph empty");
    let (lang, conf) = (at("main.mcl"), at("puppet.conf"));
    let (lang, conf) = (lang.to_str().unwrap(), conf.to_str().unwrap());
    let puppet = environment.to_str().unwrap();
    let arguments = ["langpuppet", "--lang", lang, "--puppet", puppet, "--puppet-conf", conf];
    let done = mgmt_output(&[&["deploy", "--prefix", prefix, "--no-git"], &arguments[..]].concat());
    assert_eq!(done.code, 0, "{}", done.stderr);
    holds(&at("ours"), "one");
    holds(&at("theirs"), "two");
    run.signal(Signal::INT);
    let (code, lines) = run.end();
    assert_eq!(code, Some(0), "{lines}");
}
