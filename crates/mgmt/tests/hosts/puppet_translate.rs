//! Manifests as programs: what is printed does the same, and what it does not do is told.
#![allow(missing_docs, clippy::unwrap_used)]

use std::path::Path;

use mgmt_puppet::{
    Containers, Decision, Outcome, ProgramOptions, TranslateOptions, program, secrets, translate,
};
use mgmt_puppet_process::{Input, Puppet, Settings};
use mgmt_resources::KINDS;
use mgmt_test_support::program::{CommandOutput, mgmt_output};

fn translated(manifest: &Path) -> CommandOutput {
    mgmt_output(&["puppet", "translate", manifest.to_str().unwrap()])
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
        let options = ProgramOptions { is_secret: &|_, _, _| false, with_files: false };
        let containers = Containers::new(&compiled, &"code".into());
        let program = program(&graph, &decisions, &containers, &options).text;
        let program = mgmt_syntax::format(&program).unwrap_or_else(|_| panic!("{name}: {program}"));
        let lacks = program.contains("which mcl cannot say") || !secrets(&compiled.catalogue).is_empty();
        if lacks || decisions.iter().any(is_left) {
            continue;
        }
        let [mcl, yaml] = ["mcl", "yaml"].map(|ending| place.path().join(&name).with_extension(ending));
        let options = mgmt_yaml::WriteOptions { name: &name, comment: "", is_secret: &|_, _, _| false };
        std::fs::write(&mcl, &program).unwrap();
        std::fs::write(&yaml, mgmt_yaml::write(&graph, &options).unwrap()).unwrap();
        let compared = mgmt_output(&["diff", yaml.to_str().unwrap(), mcl.to_str().unwrap()]);
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
        "class a {\n",
        &format!("# {}:2\n\tfile \"/tmp/a\" {{\n", site.display()),
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
    let compared = mgmt_output(&["diff", "--no-order", site.to_str().unwrap(), program.to_str().unwrap()]);
    let lines: Vec<&str> = compared.stdout.lines().filter(|line| !line.starts_with(' ')).collect();
    let expected = ["- file[/tmp/bytes]", "- pippet[Cron[c]]", "~ file[/tmp/secret]"];
    let all = |expected: &[&str]| expected.iter().all(|part| lines.iter().any(|line| line.starts_with(part)));
    assert!(compared.code == 1 && all(&expected), "{}{}", compared.stdout, compared.stderr);
    assert!(!compared.stdout.contains("file[/tmp/a]"), "{}", compared.stdout);
    let wrong = mgmt_output(&["puppet", "translate", "notify { 'x' }"]);
    assert!(wrong.code != 0 && wrong.stdout.is_empty(), "{wrong:?}");
}

/// A site as people write them: classes, defined types, templates and data.
const SITE: [(&str, &str); 8] = [
    (
        "hiera.yaml",
        "version: 5\ndefaults: {datadir: data, data_hash: yaml_data}\nhierarchy: [{name: common, path: common.yaml}]\n",
    ),
    (
        "data/common.yaml",
        "web::greeting: welcome here\nweb::groups: [crew, staff]\nweb::unused: unused\nsite::motd: \"line one\\nline two\\n\"\n",
    ),
    (
        "modules/web/manifests/init.pp",
        "class web(String $greeting, Array[String] $groups, String $unused) {\n  file { '/tmp/mgmt-zz': ensure => directory }\n  \
         file { '/tmp/mgmt-zz/greeting': content => \"${greeting}\\n\" }\n  file { '/tmp/mgmt-zz/same text': content => 'welcome here' }\n  \
         file { '/tmp/mgmt-zz/page': content => template('web/page.erb') }\n  file { '/tmp/mgmt-zz/static': content => epp('web/static.epp') }\n  \
         user { 'joe': ensure => present, groups => $groups }\n  web::vhost { 'one': port => 80 }\n  web::vhost { 'two': port => 8080 }\n  \
         web::odd { 'left': way => 'file' }\n  web::odd { 'right': way => 'group' }\n  web::odd { 'next': way => 'file' }\n}\n",
    ),
    (
        "modules/web/manifests/vhost.pp",
        "define web::vhost(Integer $port, String $root = '/srv') {\n  \
         file { \"/tmp/mgmt-zz/${title}.conf\": content => \"Listen ${port}\\nRoot ${root}/${name}\\n\" }\n  \
         ~> exec { \"reload ${title}\": command => \"/bin/echo ${title}\", refreshonly => true }\n  web::log { $title: }\n}\n",
    ),
    (
        "modules/web/manifests/log.pp",
        "define web::log {\n  file { \"/tmp/mgmt-zz/${name}.log\": ensure => file }\n}\n",
    ),
    (
        "modules/web/manifests/odd.pp",
        "define web::odd($way) {\n  if $way == 'file' {\n    file { \"/tmp/mgmt-zz/${title}\": ensure => file }\n  } else {\n    group { $title: ensure => present }\n  }\n}\n",
    ),
    ("modules/web/templates/page.erb", "<html>\n<h1><%= @greeting %></h1>\n</html>\n"),
    (
        "manifests/site.pp",
        "$motd = lookup('site::motd')\ninclude web\nfile { '/tmp/mgmt-zz/motd': content => $motd, require => Class['web'] }\n",
    ),
];

#[test]
fn classes_defined_types_templates_and_data_are_kept_as_a_person_would_keep_them() {
    let place = tempfile::tempdir().unwrap();
    let site = place.path().join("site");
    for (path, text) in SITE.into_iter().chain([("modules/web/templates/static.epp", "static\ntext $5\n")]) {
        let path = site.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let translated = translated(&site);
    let text = &translated.stdout;
    assert_eq!(translated.code, 0, "{}", translated.stderr);
    for part in [
        "# web::greeting in Hiera\n$web_greeting = \"welcome here\"\n",
        "$web_groups = [\"crew\", \"staff\"]\n",
        "$site_motd = \"line one\nline two\n\"\n",
        "\nclass web_log($name) {\n",
        "\tfile \"/tmp/mgmt-zz/${name}.log\" {\n",
        "\nclass web_vhost($title, $port, $root) {\n",
        "\tfile \"/tmp/mgmt-zz/${title}.conf\" {\n",
        "\t\tcontent => \"Listen ${port}\nRoot ${root}/${title}\n\",\n",
        "\t\tListen => File[\"/tmp/mgmt-zz/${title}.conf\"],\n",
        "\tinclude web_log($title)\n",
        "\tinclude web_vhost(\"one\", \"80\", \"/srv\")\n",
        "\tinclude web_vhost(\"two\", \"8080\", \"/srv\")\n",
        // A use that does something else is a class of its own.
        "\nclass web_odd($title) {\n",
        "\tinclude web_odd(\"left\")\n",
        "\tinclude web_odd(\"next\")\n",
        "\nclass web_odd_right {\n",
        "\tinclude web_odd_right\n",
        "\nclass web {\n",
        "\t\tcontent => \"${web_greeting}\\n\",\n",
        // The same text, by chance: the manifest does not name the variable there.
        "\t\tcontent => \"welcome here\",\n",
        "\t\tcontent => \"<html>\n<h1>${web_greeting}</h1>\n</html>\n\",\n",
        "\t\tcontent => \"static\ntext \\$5\n\",\n",
        "\t\tgroups => $web_groups,\n",
        "\ninclude web\n",
        "\tcontent => $site_motd,\n",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    assert!(!text.contains("unused"), "{text}");
    // The program is the same as the manifest, in one file and in several.
    let program = place.path().join("site.mcl");
    std::fs::write(&program, text).unwrap();
    let output = place.path().join("out");
    let arguments = ["puppet", "translate", "--output", output.to_str().unwrap(), site.to_str().unwrap()];
    let written = mgmt_output(&arguments);
    assert!(written.code == 0 && written.stdout.is_empty(), "{written:?}");
    assert_eq!(
        std::fs::read_to_string(output.join("files/tmp/mgmt-zz/static")).unwrap(),
        "static\ntext $5\n"
    );
    let main = output.join("main.mcl");
    let lines = std::fs::read_to_string(&main).unwrap();
    assert!(lines.contains("content => deploy.readfile(\"/files/tmp/mgmt-zz/static\"),\n"), "{lines}");
    let input = format!("puppet:{}", site.display());
    for program in [&program, &main] {
        let compared = mgmt_output(&["diff", &input, program.to_str().unwrap()]);
        assert_eq!(compared.code, 0, "{}{}\n{text}", compared.stdout, compared.stderr);
        let checked = mgmt_output(&["check", program.to_str().unwrap()]);
        assert!(checked.code == 0 && !checked.stderr.contains("warning"), "{}", checked.stderr);
    }
    // What is there is not overwritten.
    let again = mgmt_output(&arguments);
    assert!(again.code != 0 && again.stderr.contains("cannot write"), "{again:?}");
}

#[test]
fn a_purge_of_a_program_leaves_alone_what_is_still_left_to_puppet() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let manifest = "\
        file { 'ROOT/d': ensure => directory, recurse => true, purge => true, force => true }\n\
        file { 'ROOT/d/native': content => 'x' }\n\
        file { 'ROOT/d/left': content => 'x', audit => 'owner' }\n\
        tidy { 'ROOT/t': recurse => true, matches => ['*'] }\n\
        file { 'ROOT/t/left': content => 'x', audit => 'owner' }\n";
    let root = at("root").display().to_string();
    std::fs::write(at("site.pp"), manifest.replace("ROOT", &root)).unwrap();
    for name in ["d/left", "d/stray", "t/left", "t/stray"] {
        let path = at("root").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "x").unwrap();
    }
    let program = translated(&at("site.pp"));
    assert_eq!(program.code, 0, "{}", program.stderr);
    assert!(program.stdout.contains("is left to Puppet"), "{}", program.stdout);
    std::fs::write(at("site.mcl"), &program.stdout).unwrap();
    let run = ["run", "--tmp-prefix", "--converger-timeout", "1", "--converged-exit", "lang"];
    let said = mgmt_output(&[&run[..], &[at("site.mcl").to_str().unwrap()]].concat());
    assert_eq!(said.code, 0, "{}\n{}", said.stderr, program.stdout);
    let there = |name: &str| at("root").join(name).exists();
    assert!(there("d/native") && there("d/left") && there("t/left"), "{}\n{}", said.stderr, program.stdout);
    assert!(!there("d/stray") && !there("t/stray"), "{}\n{}", said.stderr, program.stdout);
}

#[test]
fn a_defined_type_is_one_class_also_with_something_that_is_left_to_puppet() {
    let place = tempfile::tempdir().unwrap();
    let site = place.path().join("site.pp");
    let manifest = "define host_file {\n  file { \"/tmp/${name}.conf\": content => 'x' }\n  \
                    file { \"/tmp/${name}.left\": content => 'x', audit => 'owner' }\n}\n\
                    host_file { ['alpha', 'omega']: }\n";
    std::fs::write(&site, manifest).unwrap();
    let program = translated(&site);
    let classes = program.stdout.lines().filter(|line| line.starts_with("class ")).count();
    assert_eq!(classes, 1, "{}", program.stdout);
    assert!(program.stdout.contains("each File here is left to Puppet: `audit`"), "{}", program.stdout);
    assert!(program.stdout.contains("include host_file(\"omega\")"), "{}", program.stdout);
}
