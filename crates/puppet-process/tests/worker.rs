//! What Puppet brings about for us is what it brings about by itself; and what breaks in between is told.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use mgmt_puppet_process::{Apply, Input, Installation, Puppet, PuppetError, Settings};
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(120);

/// Every path below a directory with what it is, who owns it and what is in it. Whatever names the directory itself is left out.
fn tree(root: &Path) -> BTreeMap<PathBuf, (u32, u32, String)> {
    let mut found = BTreeMap::new();
    let mut left = vec![root.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let stat = path.symlink_metadata().unwrap();
            let content = match stat.is_file() {
                true => String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned(),
                false => std::fs::read_link(&path).map(|to| to.display().to_string()).unwrap_or_default(),
            };
            let content = content.replace(root.to_str().unwrap(), "ROOT");
            // Puppet says when it has written a table.
            let content =
                content.lines().filter(|line| !line.starts_with("# HEADER")).collect::<Vec<_>>().join("\n");
            if stat.is_dir() {
                left.push(path.clone());
            }
            found.insert(path.strip_prefix(root).unwrap().to_owned(), (stat.mode(), stat.uid(), content));
        }
    }
    found
}

/// One of each type that comes with Puppet and can be kept to a directory, in the forms that broke when Puppet was given what it had made
/// of them itself.
fn manifest(root: &Path) -> String {
    let root = root.display();
    format!(
        "file {{ '{root}/content': content => \"one\\ntwo \\u00e9\\n\", mode => '0640' }}\n\
         file {{ '{root}/binary': content => Binary('AAH/'), owner => 0 }}\n\
         file {{ '{root}/directory': ensure => directory, mode => '0644' }}\n\
         file {{ '{root}/link': ensure => link, target => 'content' }}\n\
         file {{ '{root}/gone': ensure => absent }}\n\
         file {{ '{root}/secret': content => Sensitive('hush'), mode => '0600' }}\n\
         exec {{ 'umask': command => '/usr/bin/touch {root}/umask', umask => '077', creates => '{root}/umask' }}\n\
         exec {{ 'list': command => ['/usr/bin/touch', '{root}/a b'], unless => [['/usr/bin/test', '-e', '{root}/a b']] }}\n\
         tidy {{ '{root}/old': age => '1w', recurse => true, matches => '*.tmp', type => mtime }}\n\
         host {{ 'h': ip => '192.0.2.1', host_aliases => ['a', 'b'], target => '{root}/hosts' }}\n\
         ssh_authorized_key {{ 'me@here': user => 'root', target => '{root}/keys', type => 'ssh-rsa', key => 'AAAA' }}\n\
         sshkey {{ 'h': type => 'ssh-rsa', key => 'AAAA', target => '{root}/known' }}\n\
         notify {{ 'hello': }}\n"
    )
}

fn prepare(root: &Path) {
    std::fs::create_dir_all(root.join("old")).unwrap();
    std::fs::write(root.join("gone"), "").unwrap();
    for (name, age) in [("a.tmp", 30), ("b.tmp", 1), ("c.txt", 30)] {
        let path = root.join("old").join(name);
        std::fs::write(&path, "").unwrap();
        let time = SystemTime::now() - Duration::from_secs(age * 86400);
        std::fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
    }
}

fn resources(catalogue: &Value) -> Vec<Apply> {
    let resources = catalogue["resources"].as_array().unwrap().iter();
    let own = resources.filter(|found| !["Stage", "Class"].iter().any(|kind| found["type"] == *kind));
    own.map(|found| Apply {
        kind: found["type"].as_str().unwrap().to_lowercase(),
        title: found["title"].as_str().unwrap().to_owned(),
        parameters: found["parameters"].clone(),
        sensitive: serde_json::from_value(found["sensitive_parameters"].clone()).unwrap_or_default(),
        refresh: false,
        context: Vec::new(),
    })
    .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_puppet_does_for_us_is_what_it_does_by_itself() {
    let place = tempfile::tempdir().unwrap();
    let (ours, theirs) = (place.path().join("ours"), place.path().join("theirs"));
    prepare(&ours);
    prepare(&theirs);
    let file = place.path().join("site.pp");
    std::fs::write(&file, manifest(&theirs)).unwrap();
    let by_itself = std::process::Command::new("puppet").arg("apply").arg(&file).output().unwrap();
    assert!(by_itself.status.success(), "{}", String::from_utf8_lossy(&by_itself.stderr));
    let puppet = Puppet::new(Settings::default());
    let compiled = puppet.compile_warm(&Input::Code(manifest(&ours))).await.unwrap();
    let resources = resources(&compiled.catalogue);
    assert!(resources.len() >= 13, "{}", resources.len());
    // Looking changes nothing, also at what was notified.
    let before = tree(&ours);
    let notified: Vec<Apply> = resources.iter().map(|it| Apply { refresh: true, ..it.clone() }).collect();
    for all in [&resources, &notified] {
        for applied in puppet.apply(all, true, PATIENCE).await.unwrap() {
            assert!(!applied.failed, "{applied:?}");
        }
        assert_eq!(tree(&ours), before, "looking has changed something");
    }
    for (resource, applied) in resources.iter().zip(puppet.apply(&resources, false, PATIENCE).await.unwrap())
    {
        assert!(!applied.failed, "{resource:?} {applied:?}");
        assert!(!format!("{applied:?}").contains("hush"), "{applied:?}");
    }
    assert_eq!(tree(&ours), tree(&theirs));
    // And then it is right.
    let again = puppet.apply(&resources, false, PATIENCE).await.unwrap();
    for (resource, applied) in resources.iter().zip(again) {
        assert!(resource.kind == "notify" || !applied.changed, "{resource:?} {applied:?}");
    }
}

/// A program that takes the place of Ruby: it reads the script, says hello, and then does this with each question.
fn instead_of_ruby(place: &Path, with_each: &str) -> Settings {
    let ruby = place.join("ruby");
    let hello = r#"{"hello":{"protocol":1,"puppet":"7","ruby":"3","certname":"x","environment":"e","runinterval":1800,"bucket":"/","noop":false,"tags":[],"skip_tags":[]}}"#;
    let text = format!(
        "#!/bin/bash\nhead -c \"$4\" >/dev/null\necho '{hello}'\nwhile read -r question; do\n{with_each}\ndone\n"
    );
    std::fs::write(&ruby, text).unwrap();
    std::fs::set_permissions(&ruby, std::fs::Permissions::from_mode(0o755)).unwrap();
    let installation = Installation { ruby, puppet: place.join("puppet") };
    Settings { installation: Some(installation), ..Settings::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_cannot_be_read_and_a_process_that_dies_again_and_again_are_told() {
    for (with_each, expected) in [
        ("echo nonsense", "cannot be read"),
        ("echo '{\"id\":7000,\"ok\":[]}'; exit 1", "ended"),
        ("echo '{\"no\":\"number\"}'", "not asked"),
        ("exit 3", "3"),
    ] {
        let place = tempfile::tempdir().unwrap();
        let puppet = Puppet::new(instead_of_ruby(place.path(), with_each));
        let ask = || async { puppet.compile_warm(&Input::Code(String::new())).await.unwrap_err() };
        let first = ask().await;
        assert!(matches!(first, PuppetError::Died { .. }), "{with_each}: {first}");
        assert!(first.to_string().contains(expected), "{with_each}: {first}");
        // It is left alone for a while before it is started a seventh time.
        let second = ask().await;
        assert!(matches!(second, PuppetError::Died { .. }), "{second}");
        assert!(matches!(ask().await, PuppetError::TooOften), "{with_each}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_about_something_else_is_no_answer() {
    let place = tempfile::tempdir().unwrap();
    // The numbers of questions are counted from 1.
    let puppet =
        Puppet::new(instead_of_ruby(place.path(), "n=$((n + 1)); echo \"{\\\"id\\\":$n,\\\"ok\\\":[]}\""));
    let resource = Apply {
        kind: "notify".to_owned(),
        title: "x".to_owned(),
        parameters: serde_json::json!({}),
        sensitive: Vec::new(),
        refresh: false,
        context: Vec::new(),
    };
    let error = puppet.apply_one(&resource, false, PATIENCE).await.unwrap_err();
    assert!(matches!(*error, PuppetError::Confused(_)), "{error}");
    let error = puppet.compile_warm(&Input::Code(String::new())).await.unwrap_err();
    assert!(matches!(error, PuppetError::Confused(_)), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_provider_prints_while_it_works_disturbs_no_answer() {
    let place = tempfile::tempdir().unwrap();
    let kind = place.path().join("modules/noise/lib/puppet/type/noise.rb");
    std::fs::create_dir_all(kind.parent().unwrap()).unwrap();
    let text = "Puppet::Type.newtype(:noise) do\n  newparam(:name, namevar: true)\n  newproperty(:state) do\n    \
                def retrieve; puts '{\"id\":1,\"ok\":[]}' * 5_000; :absent; end\n    \
                def set(_); $stdout.puts 'x'; STDOUT.write('{\"id\":2}'); STDERR.puts 'y' * 70_000; system('echo aloud; echo loud >&2'); end\n  \
                end\nend\n";
    std::fs::write(kind, text).unwrap();
    let options = vec![("basemodulepath".to_owned(), place.path().join("modules").display().to_string())];
    let puppet = Puppet::new(Settings { options, ..Settings::default() });
    let noise = |number: usize| Apply {
        kind: "noise".to_owned(),
        title: format!("n{number}"),
        parameters: serde_json::json!({ "state": "loud" }),
        sensitive: Vec::new(),
        refresh: false,
        context: Vec::new(),
    };
    puppet.hello().await.unwrap();
    let id = puppet.process_id().await;
    for round in 0..3 {
        let some: Vec<Apply> = (0..5).map(|number| noise(round * 5 + number)).collect();
        for applied in puppet.apply(&some, false, PATIENCE).await.unwrap() {
            assert!(applied.changed && !applied.failed, "{applied:?}");
        }
    }
    assert_eq!(puppet.process_id().await, id, "it was started again");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_process_of_ours_the_command_line_compiles() {
    let found = Installation::find().unwrap();
    let installation = Installation { ruby: "/bin/false".into(), ..found };
    let puppet = Puppet::new(Settings { installation: Some(installation), ..Settings::default() });
    let code = Input::Code("notify { 'a': } -> notify { 'b': }".to_owned());
    assert!(matches!(puppet.compile_warm(&code).await, Err(PuppetError::NotStarted { .. })));
    let compiled = puppet.compile(&code).await.unwrap();
    let titles: Vec<String> = resources(&compiled.catalogue).into_iter().map(|it| it.title).collect();
    assert_eq!(titles, ["a", "b"]);
    // It says no in the same way, and has no idea of what it has read.
    let refused = puppet.compile(&Input::Code("notify { 'x' }".to_owned())).await.unwrap_err();
    let PuppetError::Refused(refused) = refused else { panic!("{refused}") };
    assert_eq!(refused.errors[0].line, Some(1), "{refused:?}");
    assert!(compiled.seen.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_does_not_end_by_itself_is_killed() {
    let place = tempfile::tempdir().unwrap();
    // It takes no notice of the end of its input, nor of anybody who asks it to end, and starts others that do not either.
    let stubborn =
        "trap '' TERM INT HUP; sleep 600 & echo $! > pid.new; mv pid.new pid; while :; do sleep 600; done";
    let puppet =
        Puppet::new(instead_of_ruby(place.path(), &format!("cd {}; {stubborn}", place.path().display())));
    puppet.hello().await.unwrap();
    let id = puppet.process_id().await.unwrap();
    let (mark, code) = (place.path().join("pid"), Input::Code(String::new()));
    tokio::select! {
        compiled = puppet.compile_warm(&code) => panic!("{compiled:?}"),
        () = async {
            while !mark.exists() {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        } => {}
    }
    let child = std::fs::read_to_string(&mark).unwrap();
    let is_there = |id: &str| Path::new("/proc").join(id.trim()).join("exe").read_link().is_ok();
    assert!(is_there(&id.to_string()) && is_there(&child));
    drop(puppet);
    while is_there(&id.to_string()) || is_there(&child) {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

/// Puppet with modules of a test alone.
fn with_modules(modules: &Path) -> Puppet {
    let options = vec![("modulepath".to_owned(), modules.display().to_string())];
    Puppet::new(Settings { options, ..Settings::default() })
}

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// A resource of the type `thing`, which writes a text to a path.
fn thing(path: &Path) -> Apply {
    Apply {
        kind: "thing".to_owned(),
        title: path.display().to_string(),
        parameters: serde_json::json!({ "ensure": "present" }),
        sensitive: Vec::new(),
        refresh: false,
        context: Vec::new(),
    }
}

/// The type `thing`, whose provider has these confines and writes this.
fn write_thing(modules: &Path, confines: &str, text: &str) {
    let kind = "Puppet::Type.newtype(:thing) do\n  ensurable\n  newparam(:path, namevar: true)\nend\n";
    write(&modules.join("m/lib/puppet/type/thing.rb"), kind);
    let provider = format!(
        "Puppet::Type.type(:thing).provide(:ruby) do\n  {confines}\n  mk_resource_methods\n  \
         def exists?; File.exist?(resource[:path]) && File.read(resource[:path]) == {text}; end\n  \
         def create; File.write(resource[:path], {text}); end\n  def destroy; File.delete(resource[:path]); end\nend\n"
    );
    write(&modules.join("m/lib/puppet/provider/thing/ruby.rb"), &provider);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_applies_knows_the_facts_of_modules() {
    let place = tempfile::tempdir().unwrap();
    let (modules, out) = (place.path().join("modules"), place.path().join("out"));
    let seen = place.path().join("seen");
    let fact = format!("Facter.add(:shape) do\n  setcode {{ File.read('{}') }}\nend\n", seen.display());
    write(&seen, "round");
    write(&modules.join("m/lib/facter/shape.rb"), &fact);
    write(&modules.join("m/facts.d/colour.txt"), "colour=blue\n");
    let text = "\"#{Facter.value(:shape)} #{Facter.value('colour')} #{Facter.value('os.family')}\"";
    write_thing(&modules, "confine shape: %w[round square]\n  confine colour: 'blue'", text);
    let puppet = with_modules(&modules);
    let apply = || async { puppet.apply(&[thing(&out)], false, PATIENCE).await.unwrap().remove(0) };
    let applied = apply().await;
    assert!(applied.changed && !applied.failed, "{applied:?}");
    assert!(std::fs::read_to_string(&out).unwrap().starts_with("round blue "), "{out:?}");
    // What somebody has changed meanwhile is known as well.
    write(&seen, "square");
    assert!(apply().await.changed);
    assert!(std::fs::read_to_string(&out).unwrap().starts_with("square blue "), "{out:?}");
    write(&seen, "flat");
    let applied = apply().await;
    assert!(applied.failed, "{applied:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_is_used_as_soon_as_it_can_be() {
    let place = tempfile::tempdir().unwrap();
    let (modules, out, program) =
        (place.path().join("modules"), place.path().join("out"), place.path().join("program"));
    write_thing(&modules, &format!("commands program: '{}'", program.display()), "'special'");
    write(
        &modules.join("m/lib/puppet/provider/thing/plain.rb"),
        "Puppet::Type.type(:thing).provide(:plain) do\n  def self.specificity; -1; end\n  \
         def exists?; File.exist?(resource[:path]); end\n  def create; File.write(resource[:path], 'plain'); end\nend\n",
    );
    let puppet = with_modules(&modules);
    let apply = || async { puppet.apply(&[thing(&out)], false, PATIENCE).await.unwrap().remove(0) };
    assert!(apply().await.changed);
    assert_eq!(std::fs::read_to_string(&out).unwrap(), "plain");
    // Somebody installs the program of the other one, which is better.
    write(&program, "#!/bin/sh\n");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let applied = apply().await;
    assert!(applied.changed && !applied.failed, "{applied:?}");
    assert_eq!(std::fs::read_to_string(&out).unwrap(), "special");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_type_or_a_provider_that_is_edited_is_loaded_again() {
    let place = tempfile::tempdir().unwrap();
    let (modules, out) = (place.path().join("modules"), place.path().join("out"));
    write_thing(&modules, "", "'one'");
    let puppet = with_modules(&modules);
    let apply = || async { puppet.apply(&[thing(&out)], false, PATIENCE).await.unwrap().remove(0) };
    assert!(apply().await.changed);
    let first = puppet.process_id().await;
    assert!(!apply().await.changed);
    assert_eq!(puppet.process_id().await, first, "it was started again for nothing");
    write_thing(&modules, "", "'two, which is longer'");
    assert!(apply().await.changed);
    assert_eq!(std::fs::read_to_string(&out).unwrap(), "two, which is longer");
    // So it is for whoever compiles: a parameter that a type has now.
    let code = Input::Code(format!("thing {{ '{}': ensure => present, shade => 'dark' }}", out.display()));
    assert!(puppet.compile(&code).await.is_err());
    let kind = "Puppet::Type.newtype(:thing) do\n  ensurable\n  newparam(:path, namevar: true)\n  newparam(:shade)\nend\n";
    write(&modules.join("m/lib/puppet/type/thing.rb"), kind);
    let compiled = puppet.compile(&code).await.unwrap();
    assert!(
        compiled.files.contains(&modules.join("m/lib/puppet/type/thing.rb")),
        "what was loaded is not followed: {:?}",
        compiled.files
    );
    assert!(!apply().await.failed);
}

#[tokio::test(flavor = "multi_thread")]
async fn ruby_that_is_edited_while_it_is_loaded_is_loaded_again() {
    for is_helper in [false, true] {
        let place = tempfile::tempdir().unwrap();
        let (modules, out) = (place.path().join("modules"), place.path().join("out"));
        let library = modules.join("m/lib/puppet");
        write_thing(&modules, "", "'two'");
        let provider = std::fs::read_to_string(library.join("provider/thing/ruby.rb")).unwrap();
        let (path, newer) = match is_helper {
            false => (library.join("provider/thing/ruby.rb"), provider.clone()),
            true => (modules.join("m/lib/puppet_x/helper.rb"), "TEXT = 'two'\n".to_owned()),
        };
        if is_helper {
            let provider = format!("require_relative '../../../puppet_x/helper'\n{provider}");
            write(&library.join("provider/thing/ruby.rb"), &provider.replace("'two'", "TEXT"));
        }
        // Whoever loads it leaves another version behind.
        write(&path, &format!("File.write(__FILE__, {newer:?})\n{}", newer.replace("'two'", "'one'")));
        let puppet = with_modules(&modules);
        for content in ["one", "two"] {
            let applied = puppet.apply(&[thing(&out)], false, PATIENCE).await.unwrap().remove(0);
            assert!(applied.changed && !applied.failed, "{is_helper} {content}: {applied:?}");
            assert_eq!(std::fs::read_to_string(&out).unwrap(), content, "{is_helper}");
        }
        let first = puppet.process_id().await;
        assert!(!puppet.apply(&[thing(&out)], false, PATIENCE).await.unwrap().remove(0).changed);
        assert_eq!(puppet.process_id().await, first, "{is_helper}: it was started again for nothing");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_comes_where_nothing_was_loaded_from_is_used() {
    let better = |content: &str| {
        format!(
            "Puppet::Type.type(:thing).provide(:{content}) do\n  def self.specificity; {} ; end\n  \
             def exists?; File.exist?(resource[:path]) && File.read(resource[:path]) == '{content}'; end\n  \
             def create; File.write(resource[:path], '{content}'); end\nend\n",
            10 * content.len()
        )
    };
    let place = tempfile::tempdir().unwrap();
    let (modules, out) = (place.path().join("modules"), place.path().join("out"));
    write_thing(&modules, "", "'plain'");
    write(&modules.join("n/manifests/init.pp"), "class n {}\n");
    let puppet = with_modules(&modules);
    let apply = || async { puppet.apply(&[thing(&out)], false, PATIENCE).await.unwrap().remove(0) };
    assert!(apply().await.changed);
    // In a module without any, in a directory that is there by then, and in a module that was not there.
    for (path, content) in [
        ("n/lib/puppet/provider/thing/good.rb", "good"),
        ("n/lib/puppet/provider/thing/better.rb", "better"),
        ("o/lib/puppet/provider/thing/superior.rb", "superior"),
    ] {
        write(&modules.join(path), &better(content));
        let applied = apply().await;
        assert!(applied.changed && !applied.failed, "{path}: {applied:?}");
        assert_eq!(std::fs::read_to_string(&out).unwrap(), content);
    }
    let first = puppet.process_id().await;
    assert!(!apply().await.changed);
    assert_eq!(puppet.process_id().await, first, "it was started again for nothing");
}
