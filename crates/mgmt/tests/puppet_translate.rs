//! Manifests as programs: what is printed does the same, and what it does not do is told.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use std::path::Path;

use common::{Said, said};
use mgmt_puppet::{Decision, Outcome, ProgramOptions, TranslateOptions, program, secrets, translate};
use mgmt_puppet_process::{Input, Puppet, Settings};
use mgmt_resources::KINDS;

fn translated(manifest: &Path) -> Said {
    said(&["puppet", "translate", manifest.to_str().unwrap()])
}

/// Every manifest of which all is native becomes a program with the same graph. One Puppet compiles them all; the graph of each is given to
/// `mgmt diff` as YAML, in which nothing of it is lost.
#[test]
fn a_program_is_the_same_graph_as_its_manifest() {
    let place = tempfile::tempdir().unwrap();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../puppet/tests/golden");
    let mut files: Vec<_> = std::fs::read_dir(golden).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let (runtime, puppet) = (tokio::runtime::Runtime::new().unwrap(), Puppet::new(Settings::default()));
    let (mut wrong, mut same) = (Vec::new(), 0);
    for file in files {
        let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
        let compiled = runtime.block_on(puppet.compile_warm(&Input::Manifest(file.clone()))).unwrap();
        let found = translate(&compiled, &KINDS, &TranslateOptions::default());
        let (graph, decisions) = (found.graph.unwrap(), found.decisions);
        let is_left = |decision: &Decision| matches!(decision.outcome, Outcome::Puppet(_));
        let options = ProgramOptions { is_secret: &|_, _, _| false };
        let program = mgmt_syntax::format(&program(&graph, &decisions, &options)).unwrap();
        let lacks = program.contains("which mcl cannot say") || !secrets(&compiled.catalogue).is_empty();
        if lacks || decisions.iter().any(is_left) {
            continue;
        }
        let [mcl, yaml] = ["mcl", "yaml"].map(|ending| place.path().join(&name).with_extension(ending));
        let options = mgmt_yaml::WriteOptions { name: &name, comment: "", is_secret: &|_, _, _| false };
        std::fs::write(&mcl, &program).unwrap();
        std::fs::write(&yaml, mgmt_yaml::write(&graph, &options).unwrap()).unwrap();
        let compared = said(&["diff", yaml.to_str().unwrap(), mcl.to_str().unwrap()]);
        match compared.code {
            0 => same += 1,
            _ => wrong.push(format!("{name}: {}{}\n{program}", compared.stdout, compared.stderr)),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(same >= 30, "only {same} manifests are all native");
}

#[test]
fn what_is_not_native_and_what_is_secret_is_a_comment_and_keeps_its_place_in_the_order() {
    let place = tempfile::tempdir().unwrap();
    let site = place.path().join("site.pp");
    let manifest = "class a {\n  file { '/tmp/a': content => \"one ${'$'}{x}\\n\" }\n  ~> cron { 'c': command => 'x', audit => all }\n  \
                    ~> service { 's': ensure => running }\n}\ninclude a\n\
                    file { '/tmp/secret': content => Sensitive('canary'), mode => '0600', require => Class['a'] }\n\
                    file { '/tmp/bytes': content => Binary('AAH/') }\n";
    std::fs::write(&site, manifest).unwrap();
    let said_so = translated(&site);
    let text = &said_so.stdout;
    assert_eq!(said_so.code, 0, "{}", said_so.stderr);
    for part in [
        &format!("# {}:2\nfile \"/tmp/a\" {{\n", site.display()),
        "content => \"one \\${x}\\n\",\n",
        &format!("# {}:3: Cron[c] is left to Puppet: `audit` has no counterpart\n", site.display()),
        // Nobody tells it of changes, as the one in between would have; it comes after it nevertheless.
        "\tDepend => File[\"/tmp/a\"],\n",
        "\t# content is a secret, and is left out\n",
        "\tDepend => Svc[\"s\"],\n",
        "which mcl cannot say",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    assert!(!text.contains("canary") && !text.contains("Listen"), "{text}");
    // In the order of the manifest.
    let at = |part: &str| text.find(part).unwrap();
    assert!(at("file \"/tmp/a\"") < at("Cron[c]") && at("Cron[c]") < at("svc \"s\""), "{text}");
    assert!(at("svc \"s\"") < at("file \"/tmp/secret\""), "{text}");
    // What is printed is a program, and the same as the manifest but for what it says.
    let program = place.path().join("site.mcl");
    std::fs::write(&program, text).unwrap();
    let compared = said(&["diff", "--no-order", site.to_str().unwrap(), program.to_str().unwrap()]);
    let lines: Vec<&str> = compared.stdout.lines().filter(|line| !line.starts_with(' ')).collect();
    let expected = ["- file[/tmp/bytes]", "- pippet[Cron[c]]", "~ file[/tmp/secret]"];
    let all = |expected: &[&str]| expected.iter().all(|part| lines.iter().any(|line| line.starts_with(part)));
    assert!(compared.code == 1 && all(&expected), "{}{}", compared.stdout, compared.stderr);
    assert!(!compared.stdout.contains("file[/tmp/a]"), "{}", compared.stdout);
    let wrong = said(&["puppet", "translate", "notify { 'x' }"]);
    assert!(wrong.code != 0 && wrong.stdout.is_empty(), "{wrong:?}");
}
