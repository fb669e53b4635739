//! The real Puppet: compiled with, killed, kept waiting, printed over.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use mgmt_puppet_process::{Apply, Compiled, Input, Installation, Puppet, PuppetError, Refused, Settings};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

/// One process serves all tests that do it no harm.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());
static PUPPET: LazyLock<Puppet> = LazyLock::new(|| Puppet::new(Settings::default()));

const PATIENCE: Duration = Duration::from_secs(120);

fn run<T>(work: impl Future<Output = T>) -> T {
    RUNTIME.block_on(async { tokio::time::timeout(PATIENCE, work).await.expect("Puppet takes for ever") })
}

fn compile(code: &str) -> Result<Compiled, PuppetError> {
    run(PUPPET.compile_warm(&Input::Code(code.to_owned())))
}

fn refused(result: Result<Compiled, PuppetError>) -> Refused {
    match result {
        Err(PuppetError::Refused(refused)) => *refused,
        other => panic!("expected a no, found {other:?}"),
    }
}

fn resource<'c>(compiled: &'c Compiled, kind: &str, title: &str) -> &'c Value {
    let resources = compiled.catalogue["resources"].as_array().unwrap();
    resources.iter().find(|found| found["type"] == kind && found["title"] == title).unwrap()
}

fn write(path: &Path, text: &str) -> PathBuf {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
    path.to_owned()
}

fn resource_to_apply(kind: &str, title: &str, parameters: Value) -> Apply {
    Apply {
        kind: kind.into(),
        title: title.into(),
        parameters,
        sensitive: Vec::new(),
        refresh: false,
        context: Vec::new(),
    }
}

#[test]
fn code_is_compiled_with_rich_data() {
    let compiled = compile(
        "file { '/tmp/a': content => Binary('AAH/'), mode => '0644' }\n\
         notify { 'b': message => Sensitive('hush'), require => File['/tmp/a'] }",
    )
    .unwrap();
    let file = resource(&compiled, "File", "/tmp/a");
    assert_eq!(file["parameters"]["content"], json!({ "__ptype": "Binary", "__pvalue": "AAH/" }));
    let notify = resource(&compiled, "Notify", "b");
    assert_eq!(notify["sensitive_parameters"], json!(["message"]));
    assert_eq!(notify["line"], 2);
}

#[test]
fn defect_19_a_deferred_value_is_resolved() {
    let compiled = compile("notify { 'a': message => Deferred('sprintf', ['%s-%s', 'x', 'y']) }").unwrap();
    assert_eq!(resource(&compiled, "Notify", "a")["parameters"]["message"], "x-y");
}

#[test]
fn defect_23_code_of_a_megabyte_is_compiled_and_not_seen_by_others() {
    let code = format!("# {}\nnotify {{ 'end': }}", "canary ".repeat(150_000));
    resource(&compile(&code).unwrap(), "Notify", "end");
    let id = run(PUPPET.process_id()).unwrap();
    let line = std::fs::read(format!("/proc/{id}/cmdline")).unwrap();
    assert!(!String::from_utf8_lossy(&line).contains("canary"));
}

#[test]
fn a_warning_has_a_place() {
    let place = tempfile::tempdir().unwrap();
    let file =
        write(&place.path().join("a.pp"), "\n\nwarning('mind')\nnotify { 'x': message => \"${nowhere}\" }\n");
    let compiled = run(PUPPET.compile_warm(&Input::Manifest(file.clone()))).unwrap();
    let found = compiled.messages.iter().find(|message| message.message.contains("nowhere")).unwrap();
    assert_eq!((found.level.as_str(), found.line), ("warning", Some(4)));
    assert_eq!(found.file.as_deref(), file.to_str());
    assert!(compiled.messages.iter().any(|message| message.message == "mind"));
}

#[test]
fn a_mistake_has_a_place() {
    let place = tempfile::tempdir().unwrap();
    let file = write(&place.path().join("a.pp"), "notify { 'hi': }\nfile { '/tmp/x' mode => '0644' }\n");
    let refused = refused(run(PUPPET.compile_warm(&Input::Manifest(file.clone()))));
    let [error] = refused.errors.as_slice() else { panic!("{:?}", refused.errors) };
    assert_eq!((error.file.as_deref(), error.line, error.column), (file.to_str(), Some(2), Some(17)));
    assert_eq!(error.message, "Syntax error at 'mode'");
    assert!(refused.files.contains(&file), "{:?}", refused.files);
}

#[test]
fn all_mistakes_of_a_text_are_told() {
    let refused = refused(compile("$Bad = 1\n$Worse = 2\n"));
    let lines: Vec<_> = refused.errors.iter().map(|error| error.line).collect();
    assert_eq!(lines, [Some(1), Some(2)], "{:?}", refused.errors);
}

#[test]
fn what_is_wrong_with_resources_is_told_without_the_name_of_the_node() {
    for (code, expected) in [
        ("file { '/tmp/x': conent => 'y' }", "no parameter named 'conent'"),
        ("nonsense { 'x': }", "Unknown resource type: 'nonsense'"),
        ("fail('no way')", "no way"),
        ("notify { 'a': require => File['/nowhere'] }", "File[/nowhere]"),
        ("include nothing", "Could not find class ::nothing"),
    ] {
        let refused = refused(compile(code));
        let [error] = refused.errors.as_slice() else { panic!("{code}: {:?}", refused.errors) };
        assert!(error.message.contains(expected) && !error.message.contains("on node"), "{error:?}");
    }
    // It goes on serving.
    compile("notify { 'x': }").unwrap();
}

#[test]
fn the_files_of_an_environment_are_told() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join("some-site").join(name);
    let site = write(&at("manifests/site.pp"), "include web\n");
    let class = write(
        &at("modules/web/manifests/init.pp"),
        "class web(String $who) { file { '/tmp/w': content => \"${who}${template('web/t.erb')}${epp('web/t.epp')}${file('web/f')}\" } }",
    );
    let template = write(&at("modules/web/templates/t.erb"), "<%= 1 + 1 %>");
    let typed = write(&at("modules/web/templates/t.epp"), "<%= 2 + 2 %>");
    let plain = write(&at("modules/web/files/f"), "plain");
    let hiera = write(
        &at("hiera.yaml"),
        "version: 5\ndefaults: {datadir: data, data_hash: yaml_data}\nhierarchy:\n- {name: a, path: none.yaml}\n- {name: b, path: common.yaml}\n",
    );
    let data = write(&at("data/common.yaml"), "web::who: me\n");
    let compiled = run(PUPPET.compile_warm(&Input::Environment(place.path().join("some-site")))).unwrap();
    assert_eq!(resource(&compiled, "File", "/tmp/w")["parameters"]["content"], "me24plain");
    for file in [&site, &class, &template, &typed, &plain, &hiera, &data] {
        assert!(compiled.files.contains(file), "{} is not in {:?}", file.display(), compiled.files);
    }
    assert!(compiled.absent.contains(&at("data/none.yaml")), "{:?}", compiled.absent);
    assert!(compiled.directories.contains(&at("manifests")), "{:?}", compiled.directories);
    assert_eq!(compiled.modules["web"], at("modules/web"));
    // Nothing is remembered that could be out of date.
    write(&at("data/common.yaml"), "web::who: you\n");
    let compiled = run(PUPPET.compile_warm(&Input::Environment(place.path().join("some-site")))).unwrap();
    assert_eq!(resource(&compiled, "File", "/tmp/w")["parameters"]["content"], "you24plain");
}

#[test]
fn output_of_modules_does_not_disturb() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    write(&at("manifests/site.pp"), "notify { 'x': message => noisy() }\n");
    write(
        &at("modules/noise/lib/puppet/functions/noisy.rb"),
        "Puppet::Functions.create_function(:noisy) do\n  def noisy\n    puts '{\"id\":1}' * 20_000\n    $stdout.puts 'x'\n    \
         STDERR.puts 'warning ' * 30_000\n    system('echo aloud')\n    'said'\n  end\nend\n",
    );
    let compiled = run(PUPPET.compile_warm(&Input::Environment(place.path().to_owned()))).unwrap();
    assert_eq!(resource(&compiled, "Notify", "x")["parameters"]["message"], "said");
}

#[test]
fn defect_21_many_warnings_do_not_block() {
    let compiled = compile("range(1, 3000).each |$n| { warning(\"number ${n} ${$n * 1000} and some more words to make it long\") }").unwrap();
    assert_eq!(
        compiled.messages.iter().filter(|message| message.message.starts_with("number ")).count(),
        1000
    );
}

#[test]
fn the_command_line_gives_the_same_catalogue() {
    let place = tempfile::tempdir().unwrap();
    let file = write(
        &place.path().join("a.pp"),
        "class a { file { '/tmp/a': content => Binary('AAH/') } -> notify { 'ä \\' \" b': } }\ninclude a\nwarning('mind')",
    );
    let input = Input::Manifest(file);
    let (mut warm, plain) =
        (run(PUPPET.compile_warm(&input)).unwrap(), run(PUPPET.compile_plainly(&input)).unwrap());
    // Only our own process tells where a class is.
    for resource in warm.catalogue["resources"].as_array_mut().unwrap() {
        if resource["type"] == "Class" {
            resource.as_object_mut().unwrap().retain(|name, _| name != "file" && name != "line");
        }
    }
    assert_eq!(warm.catalogue["resources"], plain.catalogue["resources"]);
    assert_eq!(warm.catalogue["edges"], plain.catalogue["edges"]);
    assert!(
        plain.messages.iter().any(|message| message.message.ends_with("mind") && !message.is_error()),
        "{:?}",
        plain.messages
    );
    let code = run(PUPPET.compile_plainly(&Input::Code("notify { 'x': }".into()))).unwrap();
    resource(&code, "Notify", "x");
    let refused = refused(run(PUPPET.compile_plainly(&Input::Code("notify { 'x' }".into()))));
    assert_eq!((refused.errors.len(), refused.errors[0].line), (1, Some(1)), "{:?}", refused.errors);
}

#[test]
fn settings_reach_the_process() {
    let place = tempfile::tempdir().unwrap();
    let file = write(
        &place.path().join("puppet.conf"),
        "[main]\ncertname = somebody\nruninterval = 1h\n[agent]\nruninterval = 2m\n",
    );
    let puppet = Puppet::new(Settings { configuration: Some(file), ..Settings::default() });
    let hello = run(puppet.hello()).unwrap();
    // The section of the agent is where administrators write it.
    assert_eq!((hello.certname.as_str(), hello.runinterval), ("somebody", 120));
    let compiled = run(puppet.compile_warm(&Input::Code("notify { $trusted['certname']: }".into()))).unwrap();
    resource(&compiled, "Notify", "somebody");
}

/// Any question starts another process when the settings have changed; the last compile is outdated all the same.
#[test]
fn settings_that_change_after_a_compile_make_it_outdated_whatever_was_asked_since() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("puppet.conf");
    let file = write(&path, "[main]\ncertname = one.example.com\n");
    let puppet = Puppet::new(Settings { configuration: Some(file), ..Settings::default() });
    let input = Input::Code("notify { $trusted['certname']: }".into());
    resource(&run(puppet.compile(&input)).unwrap(), "Notify", "one.example.com");
    assert!(!run(puppet.has_other_settings()));
    write(&path, "[main]\ncertname = two.example.com\n");
    assert!(run(puppet.has_other_settings()));
    assert_eq!(run(puppet.hello()).unwrap().certname, "two.example.com");
    assert!(run(puppet.has_other_settings()));
    resource(&run(puppet.compile(&input)).unwrap(), "Notify", "two.example.com");
    assert!(!run(puppet.has_other_settings()));
}

#[test]
fn an_environment_that_is_not_there_is_told() {
    let options = vec![("environment".to_owned(), "nowhere".to_owned())];
    let puppet = Puppet::new(Settings { options, ..Settings::default() });
    let error = run(puppet.compile_warm(&Input::Code(String::new()))).unwrap_err();
    assert!(error.to_string().contains("nowhere"), "{error}");
}

#[test]
fn a_process_that_dies_is_started_again() {
    let puppet = Puppet::new(Settings::default());
    run(puppet.hello()).unwrap();
    for _ in 0..2 {
        let id = run(puppet.process_id()).unwrap();
        let puppet = puppet.clone();
        run(async move {
            let input = Input::Code("notify { 'x': }".into());
            let ask = tokio::spawn({
                let puppet = puppet.clone();
                async move { puppet.compile_warm(&input).await }
            });
            kill(id);
            ask.await.unwrap().unwrap();
            assert_ne!(puppet.process_id().await, Some(id));
        });
    }
}

fn kill(id: u32) {
    assert!(std::process::Command::new("kill").args(["-KILL", &id.to_string()]).status().unwrap().success());
}

#[test]
fn a_process_that_does_not_answer_is_killed_with_what_it_started() {
    let puppet = Puppet::new(Settings::default());
    let place = tempfile::tempdir().unwrap();
    let mark = place.path().join("pid");
    let command = format!("echo $$ > {}; exec sleep 600", mark.display());
    let parameters = json!({ "command": command, "provider": "shell" });
    let error = run(async {
        // What is loaded at the first use is loaded first.
        let first = [resource_to_apply("exec", "true", json!({ "provider": "shell" }))];
        puppet.apply(&first, false, PATIENCE).await.unwrap();
        let resource = [resource_to_apply("exec", "x", parameters)];
        let asked = puppet.apply(&resource, false, Duration::from_secs(5));
        asked.await.unwrap_err()
    });
    assert!(matches!(error, PuppetError::TimedOut(_)), "{error}");
    let sleeper = std::fs::read_to_string(&mark).unwrap();
    let gone = || !Path::new("/proc").join(sleeper.trim()).join("exe").exists();
    run(async {
        while !gone() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    run(puppet.compile_warm(&Input::Code("notify { 'x': }".into()))).unwrap();
}

/// Whether a process is still there, and more than a number that nobody has asked for yet.
fn is_there(id: &str) -> bool {
    Path::new("/proc").join(id.trim()).join("exe").read_link().is_ok()
}

#[test]
fn a_compile_that_is_cancelled_leaves_no_process() {
    let puppet = Puppet::new(Settings::default());
    let place = tempfile::tempdir().unwrap();
    let mark = place.path().join("pid");
    let code = format!(
        "$x = generate('/bin/sh', '-c', 'echo $$ > {0}.new; mv {0}.new {0}; exec sleep 600')",
        mark.display()
    );
    let code = Input::Code(code);
    let started = async {
        while !mark.exists() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let (ruby, sleeper) = run(async {
        puppet.hello().await.unwrap();
        let ruby = puppet.process_id().await.unwrap().to_string();
        tokio::select! {
            compiled = puppet.compile_warm(&code) => panic!("{compiled:?}"),
            () = started => {}
        }
        (ruby, std::fs::read_to_string(&mark).unwrap())
    });
    assert!(is_there(&ruby) && is_there(&sleeper));
    drop(puppet);
    run(async {
        while is_there(&ruby) || is_there(&sleeper) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
}

#[test]
fn a_ruby_without_puppet_is_told() {
    let place = tempfile::tempdir().unwrap();
    let installation = Installation { ruby: "/bin/false".into(), puppet: place.path().join("puppet") };
    let puppet = Puppet::new(Settings { installation: Some(installation), ..Settings::default() });
    let error = run(puppet.compile_warm(&Input::Code(String::new()))).unwrap_err();
    assert!(matches!(error, PuppetError::NotStarted { .. }), "{error}");
    assert!(error.hint().unwrap().contains("puppet-agent"));
}

#[test]
fn resources_are_applied_and_looked_at() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("a");
    let file =
        |content: &str| [resource_to_apply("file", path.to_str().unwrap(), json!({ "content": content }))];
    let apply = |content: &str, noop| run(PUPPET.apply(&file(content), noop, PATIENCE)).unwrap().remove(0);
    let looked = apply("one", true);
    assert!(looked.would_change && !looked.changed && !path.exists());
    assert!(apply("one", false).changed);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "one");
    let again = apply("one", false);
    assert!(!again.changed && !again.failed);
    let looked = apply("two", true);
    assert!(looked.would_change && !looked.changed);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "one");
}

#[test]
fn defect_12_a_type_that_is_not_there_is_an_error() {
    let wrong = resource_to_apply("nonsense", "x", json!({}));
    let right = resource_to_apply("notify", "x", json!({}));
    let applied = run(PUPPET.apply(&[wrong, right], false, PATIENCE)).unwrap();
    assert!(applied[0].failed && applied[0].errors[0].contains("nonsense"), "{applied:?}");
    assert!(applied[1].changed && !applied[1].failed, "{applied:?}");
}

#[test]
fn defect_24_requests_that_are_wrong_do_not_end_the_process() {
    let before = {
        compile("notify { 'x': }").unwrap();
        run(PUPPET.process_id()).unwrap()
    };
    for wrong in [
        resource_to_apply("file", "relative", json!({})),
        resource_to_apply("file", "", json!({})),
        resource_to_apply("file", "/tmp/x", json!([])),
        resource_to_apply("file", "/tmp/x", json!({ "content": { "__ptype": "Nonsense" } })),
        resource_to_apply("file", "/tmp/x", json!({ "schedule": "nowhen" })),
        resource_to_apply("", "x", Value::Null),
    ] {
        let answer = run(PUPPET.apply(std::slice::from_ref(&wrong), true, PATIENCE));
        assert!(answer.is_err() || answer.unwrap()[0].failed, "{wrong:?}");
    }
    let failing = resource_to_apply("exec", "/bin/false", json!({}));
    let applied = run(PUPPET.apply(&[failing], false, PATIENCE)).unwrap();
    assert!(applied[0].failed && applied[0].errors.iter().any(|error| error.contains("/bin/false")));
    assert_eq!(run(PUPPET.process_id()), Some(before));
}

#[test]
fn defect_30_colours_and_a_raised_log_level_disturb_nothing() {
    let options = [("log_level", "debug"), ("color", "ansi"), ("trace", "true")];
    let options = options.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let puppet = Puppet::new(Settings { options, ..Settings::default() });
    let compiled =
        run(puppet.compile_warm(&Input::Code("warning('careful') notify { 'x': }".into()))).unwrap();
    let warning = compiled.messages.iter().find(|message| message.message.contains("careful")).unwrap();
    assert!(compiled.messages.iter().all(|message| !message.message.contains('\u{1b}')), "{warning:?}");
    let failing = [resource_to_apply("exec", "/bin/false", json!({}))];
    let applied = run(puppet.apply(&failing, false, PATIENCE)).unwrap();
    assert!(applied[0].failed && applied[0].errors.iter().all(|error| !error.contains('\u{1b}')));
}

#[test]
fn defect_31_there_is_no_state_file_unless_a_schedule_needs_it() {
    let place = tempfile::tempdir().unwrap();
    let state = place.path().join("state.yaml");
    let options = vec![("statefile".to_owned(), state.display().to_string())];
    let puppet = Puppet::new(Settings { options, ..Settings::default() });
    let resources: Vec<Apply> =
        (0..50).map(|number| resource_to_apply("notify", &format!("{number}"), json!({}))).collect();
    for resource in resources.chunks(10) {
        run(puppet.apply(resource, false, PATIENCE)).unwrap();
    }
    assert!(!state.exists());
    // What is done once a day is remembered, also by another process.
    let path = place.path().join("a");
    let daily = json!({ "content": "x", "schedule": "daily" });
    let resource = [resource_to_apply("file", path.to_str().unwrap(), daily)];
    assert!(run(puppet.apply(&resource, false, PATIENCE)).unwrap()[0].changed);
    std::fs::remove_file(&path).unwrap();
    let other = Puppet::new(puppet.settings().clone());
    drop(puppet);
    let applied = run(other.apply(&resource, false, PATIENCE)).unwrap();
    assert!(applied[0].skipped && !path.exists(), "{applied:?}");
}

#[test]
fn resources_that_wait_together_are_one_transaction_and_fail_apart() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name).display().to_string();
    let file = |name: &str| resource_to_apply("file", &at(name), json!({ "content": name }));
    // The one below fails with its directory; the same path twice cannot be in one catalogue; a text is no number.
    let below = resource_to_apply("file", &at("none/x"), json!({ "content": "" }));
    let wrong = resource_to_apply("file", &at("w"), json!({ "mode": "x" }));
    let again = resource_to_apply("file", "again", json!({ "path": at("a"), "content": "a" }));
    let resources = [file("a"), below, file("b"), wrong, again, file("c")];
    let applied = run(async {
        let asked = resources.iter().map(|resource| {
            let resource = resource.clone();
            tokio::spawn(async move { PUPPET.apply_one(&resource, false, PATIENCE).await })
        });
        let asked: Vec<_> = asked.collect();
        let mut applied = Vec::new();
        for asked in asked {
            applied.push(asked.await.unwrap().unwrap());
        }
        applied
    });
    let failed: Vec<bool> = applied.iter().map(|applied| applied.failed).collect();
    assert_eq!(failed, [false, true, false, true, false, false], "{applied:#?}");
    assert!(applied[1].errors.iter().all(|error| !error.contains("mode")), "{:?}", applied[1]);
    assert!(applied[3].errors.iter().any(|error| error.contains("mode")), "{:?}", applied[3]);
    for name in ["a", "b", "c"] {
        assert_eq!(std::fs::read_to_string(at(name)).unwrap(), name);
    }
    let change = &applied[2].changes[0];
    assert_eq!(
        (change.resource.as_str(), change.property.as_deref()),
        (&*format!("File[{}]", at("b")), Some("ensure"))
    );
}
