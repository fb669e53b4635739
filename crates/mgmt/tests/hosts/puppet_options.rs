//! What Puppet is told by flags and by its file of settings, and what is told of a manifest while it runs, with the real Puppet.
#![allow(missing_docs, clippy::unwrap_used)]

use mgmt_test_support::program;
use std::path::Path;
use std::process::Command;

use mgmt_test_support::program::{RunningProgram, eventually, holds, mgmt_output};
use rustix::process::Signal;

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// Another content in one step, so that nobody sees half of it.
fn replace(path: &Path, text: &str) {
    let new = path.with_extension("new");
    write(&new, text);
    std::fs::rename(new, path).unwrap();
}

const ONCE: [&str; 5] = ["run", "--tmp-prefix", "--converger-timeout", "1", "--converged-exit"];

/// A type that tells the settings of the process that applies it.
const TELLER: &str = "
Puppet::Type.newtype(:teller) do
  newparam(:path, namevar: true)
  newproperty(:said) do
    def wanted
      \"#{Puppet[:certname]} #{Puppet[:environment]} #{Puppet[:hiera_config]} #{Puppet[:codedir]}\"
    end
    def retrieve
      File.exist?(resource[:path]) ? File.read(resource[:path]) : :absent
    end
    def insync?(is)
      is == wanted
    end
    def set(_)
      File.write(resource[:path], wanted)
    end
  end
end
";

#[test]
fn what_flags_say_reaches_every_process_of_puppet() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name).display().to_string();
    write(&place.path().join("more/teller/lib/puppet/type/teller.rb"), TELLER);
    let class = "class m($who) {\n  file { \"${facts['root']}/compiled\": content => \"${trusted['certname']} ${environment} ${who}\" }\n}\n";
    let class = class.replace("${facts['root']}", place.path().to_str().unwrap());
    write(&place.path().join("code/environments/testing/modules/m/manifests/init.pp"), &class);
    write(
        &place.path().join("code/environments/testing/environment.conf"),
        "modulepath = modules:$basemodulepath\n",
    );
    write(&place.path().join("hiera/hiera.yaml"), "version: 5\nhierarchy:\n- {name: all, path: all.yaml}\n");
    write(&place.path().join("hiera/data/all.yaml"), "m::who: somebody\n");
    let modules = format!("{}:{}", at("code/environments/testing/modules"), at("more"));
    let code = format!("include m\nteller {{ '{}': said => 'now' }}\n", at("applied"));
    let (codedir, hiera) = (at("code"), at("hiera/hiera.yaml"));
    let flags = [
        "--puppet-environment",
        "testing",
        "--puppet-modulepath",
        &modules,
        "--puppet-codedir",
        &codedir,
        "--puppet-certname",
        "web.example.com",
        "--puppet-hiera-config",
        &hiera,
        "--puppet-interval",
        "5m",
    ];
    let run = mgmt_output(&[&ONCE[..], &flags, &["puppet", &code]].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    let read = |name: &str| std::fs::read_to_string(place.path().join(name)).unwrap();
    assert_eq!(read("compiled"), "web.example.com testing somebody");
    assert_eq!(read("applied"), format!("web.example.com testing {hiera} {codedir}"));
    // Every command that takes a manifest takes them.
    let program = place.path().join("main.mcl");
    write(&program, "noop \"x\" {}\n");
    let program = program.to_str().unwrap();
    for words in [
        &["check", "puppet"][..],
        &["graph", "puppet"],
        &["plan", "puppet"],
        &["puppet", "stats"],
        &["puppet", "print"],
        &["graph", "langpuppet", "--lang", program, "--puppet"],
        &["diff", program],
    ] {
        let given = match words[0] {
            "diff" => format!("puppet:{code}"),
            _ => code.clone(),
        };
        let done = mgmt_output(&[words, &[&given], &flags].concat());
        assert!(done.code == i32::from(words[0] == "diff"), "{words:?}: {}{}", done.stdout, done.stderr);
    }
    let print = mgmt_output(&[&["puppet", "print", "--format", "yaml", &code], &flags[..]].concat());
    assert!(print.stdout.contains("interval: 300"), "{}", print.stdout);
    // What is not so is told by Puppet, and what says nothing by us.
    let wrong = mgmt_output(&["check", "--puppet-environment", "nowhere", "puppet", "notify { 'x': }"]);
    assert!(wrong.code != 0 && wrong.stderr.contains("nowhere"), "{}", wrong.stderr);
    let wrong = mgmt_output(&["check", "--puppet-certname", "", "puppet", "notify { 'x': }"]);
    assert!(wrong.code == 2 && wrong.stderr.contains("--puppet-certname"), "{}", wrong.stderr);
}

#[test]
fn what_flags_say_goes_along_with_a_deploy() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let code = format!(
        "file {{ '{}': content => $trusted['certname'], tag => 'yes' }}\nfile {{ '{}': content => 'x' }}\n",
        at("wanted").display(),
        at("unwanted").display()
    );
    let (prefix, site) = (at("prefix"), at("site.pp"));
    write(&site, &code);
    let prefix = prefix.to_str().unwrap();
    let mut run = RunningProgram::start(&["run", "--prefix", prefix, "empty"]);
    run.wait_for("graph empty");
    let flags = ["--tags", "yes", "--puppet-certname", "web.example.com"];
    let deploy = ["deploy", "--prefix", prefix, "--no-git", "puppet", site.to_str().unwrap()];
    let deployed = mgmt_output(&[&deploy[..], &flags].concat());
    assert_eq!(deployed.code, 0, "{}", deployed.stderr);
    holds(&at("wanted"), "web.example.com");
    run.wait_for("deploy");
    run.signal(Signal::INT);
    assert_eq!(run.end().0, Some(0));
    assert!(!at("unwanted").exists());
}

#[test]
fn puppets_file_of_settings_is_followed() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let conf = at("puppet.conf");
    let settings = |interval: &str, certname: &str| {
        replace(&conf, &format!("[main]\ncertname = {certname}\n[agent]\nruninterval = {interval}\n"));
    };
    settings("1d", "one.example.com");
    let code = format!(
        "exec {{ '/bin/echo ran >> {}': provider => shell }}\nfile {{ '{}': content => $trusted['certname'] }}\n",
        at("runs").display(),
        at("name").display()
    );
    let mut run = RunningProgram::start(&[
        "run",
        "--tmp-prefix",
        "--puppet-conf",
        conf.to_str().unwrap(),
        "puppet",
        &code,
    ]);
    holds(&at("runs"), "ran\n");
    holds(&at("name"), "one.example.com");
    // What the manifest compiles to is the same; how often the command runs is not.
    settings("1", "one.example.com");
    eventually("the command runs every second", || {
        std::fs::read_to_string(at("runs")).unwrap().lines().count() > 3
    });
    settings("1d", "two.example.com");
    holds(&at("name"), "two.example.com");
    // Settings that cannot be read keep what runs, and settings that can are used again.
    replace(&conf, "[main\ncertname");
    run.wait_for("still running the previous graph");
    assert_eq!(std::fs::read_to_string(at("name")).unwrap(), "two.example.com");
    settings("1d", "three.example.com");
    holds(&at("name"), "three.example.com");
    run.signal(Signal::INT);
    let (code, lines) = run.end();
    assert_eq!(code, Some(0), "{lines}");
    assert!(lines.contains("puppet.conf:1:1"), "{lines}");
}

#[test]
fn the_usual_file_of_settings_is_followed_as_well() {
    let place = tempfile::tempdir().unwrap();
    let usual = Command::new("puppet").args(["config", "print", "config"]).output().unwrap();
    let usual = String::from_utf8(usual.stdout).unwrap();
    let directory = Path::new(usual.trim()).parent().unwrap();
    assert!(directory.is_dir(), "{usual}");
    // For this run alone, another directory is in its place.
    let (conf, out) = (place.path().join("etc/puppet.conf"), place.path().join("out"));
    write(&conf, "[main]\ncertname = one.example.com\n");
    let code = format!("file {{ '{}': content => $trusted['certname'] }}", out.display());
    let program = program::mgmt(&["run", "--tmp-prefix", "puppet", &code]);
    let mut command = Command::new("unshare");
    command.args(["--mount", "/bin/sh", "-c", "mount --bind \"$0\" \"$1\" && shift && exec \"$@\""]);
    command.arg(conf.parent().unwrap()).arg(directory).arg(program.get_program()).args(program.get_args());
    program::plain(&mut command);
    let run = RunningProgram::start_command(command);
    holds(&out, "one.example.com");
    replace(&conf, "[main]\ncertname = two.example.com\n");
    holds(&out, "two.example.com");
    run.signal(Signal::INT);
    assert_eq!(run.end().0, Some(0));
}

#[test]
fn a_manifest_that_does_not_compile_is_shown_in_the_status_until_it_does() {
    let place = tempfile::tempdir().unwrap();
    let (site, out, prefix) =
        (place.path().join("site.pp"), place.path().join("out"), place.path().join("prefix"));
    let good =
        |text: &str| replace(&site, &format!("\nfile {{ '{}': content => '{text}' }}\n", out.display()));
    good("1");
    let prefix = prefix.to_str().unwrap();
    let run = RunningProgram::start(&[
        "run",
        "--prefix",
        prefix,
        "--converger-timeout",
        "1",
        "puppet",
        site.to_str().unwrap(),
    ]);
    holds(&out, "1");
    let status = |more: &[&str]| mgmt_output(&[&["status", "--prefix", prefix], more].concat());
    eventually("all is well", || status(&[]).code == 0);
    assert!(!status(&[]).stdout.contains("program invalid"));
    replace(&site, "\n\nfile { '/nowhere': content -> 'x' }\n");
    eventually("the mistake is told", || status(&[]).stdout.contains("program invalid"));
    let told = status(&[]);
    assert!(told.code != 0 && told.stdout.contains(&format!("{}:3:", site.display())), "{}", told.stdout);
    let json: serde_json::Value = serde_json::from_str(&status(&["--format", "json"]).stdout).unwrap();
    let host = json["hosts"].as_object().unwrap().values().next().unwrap();
    assert!(host["report"]["program"].to_string().contains("site.pp:3:"), "{json}");
    // What runs goes on.
    std::fs::write(&out, "broken").unwrap();
    holds(&out, "1");
    good("2");
    holds(&out, "2");
    eventually("all is well again", || {
        let status = status(&[]);
        status.code == 0 && !status.stdout.contains("program invalid")
    });
    // The same as before is right as well.
    replace(&site, "notify { 'a' }\n");
    eventually("the mistake is told again", || status(&[]).stdout.contains("program invalid"));
    good("2");
    eventually("all is well in the end", || status(&[]).code == 0);
    run.signal(Signal::INT);
    assert_eq!(run.end().0, Some(0));
}

#[test]
fn what_is_exported_and_collected_without_a_store_is_told_with_its_place() {
    let place = tempfile::tempdir().unwrap();
    let (site, out) = (place.path().join("site.pp"), place.path().join("out"));
    let text = format!(
        "file {{ '{0}': content => 'x' }}\n@@file {{ '{0}-exported': content => 'x' }}\nFile <<| tag == 'y' |>>\n",
        out.display()
    );
    write(&site, &text);
    let path = site.to_str().unwrap();
    let check = mgmt_output(&["check", path]);
    assert_eq!(check.code, 0, "{}", check.stderr);
    assert_eq!(check.stderr.matches("warning[P0205]").count(), 2, "{}", check.stderr);
    for part in
        ["site.pp:2:1", "site.pp:3:1", "goes nowhere", "nothing is collected", "mgmt run puppet agent"]
    {
        assert!(check.stderr.contains(part), "{part}: {}", check.stderr);
    }
    let strict = mgmt_output(&["check", "--strict", path]);
    assert!(strict.code != 0 && strict.stderr.contains("error[P0205]"), "{}", strict.stderr);
    // A run tells it once, however often it compiles.
    let mut run = RunningProgram::start(&["run", "--tmp-prefix", "puppet", path]);
    holds(&out, "x");
    write(&site, &text.replacen("'x'", "'2'", 1));
    holds(&out, "2");
    run.wait_for("again");
    run.signal(Signal::INT);
    let (code, lines) = run.end();
    assert_eq!(code, Some(0));
    assert_eq!(lines.matches("[P0205]").count(), 2, "{lines}");
    assert!(!place.path().join("out-exported").exists());
}

/// Nothing but where it is written says which comes first.
const IN_ORDER: &str = "
define told { exec { \"say ${title}\": command => \"/bin/echo ${title} >> ROOT\", provider => shell } }
class last { told { 'i': } }
class first { told { ['a', 'b']: } -> told { 'c': } }
told { 'x': require => Told['y'] }
include first
told { 'd': }
range(1, 8).each |$n| { told { \"n${n}\": } }
told { 'y': }
include last
";

#[test]
fn in_the_order_of_the_manifest_resources_come_as_puppet_has_them_come() {
    let place = tempfile::tempdir().unwrap();
    let (theirs, ours) = (place.path().join("theirs"), place.path().join("ours"));
    let code = |root: &Path| IN_ORDER.replace("ROOT", root.to_str().unwrap());
    let apply =
        Command::new("puppet").args(["apply", "--color=false", "-e", &code(&theirs)]).output().unwrap();
    assert!(apply.status.success(), "{}", String::from_utf8_lossy(&apply.stdout));
    let site = code(&ours);
    let run = mgmt_output(&[&ONCE[..], &["--puppet-ordering", "manifest", "puppet", &site]].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(std::fs::read_to_string(&ours).unwrap(), std::fs::read_to_string(&theirs).unwrap());
    // Without it, nobody waits who does not have to.
    let edges =
        |more: &[&str]| mgmt_output(&[&["graph"], more, &["puppet", &site]].concat()).stdout.lines().count();
    assert!(edges(&[]) < edges(&["--puppet-ordering", "manifest"]));
}

#[test]
fn what_is_audited_is_left_to_puppet_and_its_changes_are_told() {
    let place = tempfile::tempdir().unwrap();
    let watched = place.path().join("watched");
    write(&watched, "one\n");
    let conf = place.path().join("puppet.conf");
    let settings = format!("[main]\nstatefile = {}\n", place.path().join("state.yaml").display());
    write(&conf, &settings);
    let code = format!("file {{ '{}': ensure => file, audit => content }}", watched.display());
    let stats = mgmt_output(&["puppet", "stats", &code]);
    assert!(
        stats.stdout.contains("1x file: ") && stats.stdout.contains("`audit` has no counterpart"),
        "{}",
        stats.stdout
    );
    let run =
        || mgmt_output(&[&ONCE[..], &["--puppet-conf", conf.to_str().unwrap(), "puppet", &code]].concat());
    let first = run();
    assert_eq!(first.code, 0, "{}", first.stderr);
    assert!(!first.stderr.contains("audit change"), "{}", first.stderr);
    write(&watched, "two\n");
    let second = run();
    assert_eq!(second.code, 0, "{}", second.stderr);
    assert!(second.stderr.contains("audit change"), "{}", second.stderr);
    assert_eq!(std::fs::read_to_string(&watched).unwrap(), "two\n");
}

#[test]
fn settings_that_an_environment_names_are_put_in_their_place() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let class = |name: &str| format!("class {name} {{ notify {{ 'from {name}': }} }}\n");
    write(&at("site/modules/own/manifests/init.pp"), &class("own"));
    write(&at("base/shared/manifests/init.pp"), &class("shared"));
    write(&at("site/manifests/site.pp"), "include own, shared\n");
    write(&at("site/environment.conf"), "modulepath = modules:$basemodulepath\n");
    write(&at("puppet.conf"), &format!("[main]\nbasemodulepath = {}\n", at("base").display()));
    let (conf, site) = (at("puppet.conf").display().to_string(), at("site").display().to_string());
    for flag in ["--puppet", "-p"] {
        let graph = mgmt_output(&["graph", "puppet", "--puppet-conf", &conf, flag, &site]);
        assert_eq!(graph.code, 0, "{}", graph.stderr);
        for name in ["from own", "from shared"] {
            assert!(graph.stdout.contains(name), "{name}: {}", graph.stdout);
        }
    }
}

#[test]
fn a_file_that_ends_too_early_is_named() {
    let place = tempfile::tempdir().unwrap();
    let site = place.path().join("site.pp");
    write(&site, "class x {\n  notify { 'x': }\n");
    let checked = mgmt_output(&["check", "puppet", site.to_str().unwrap()]);
    assert_eq!(checked.code, 1, "{}", checked.stderr);
    assert!(checked.stderr.contains("Syntax error at end of input"), "{}", checked.stderr);
    assert!(checked.stderr.contains(&format!("{}:2", site.display())), "{}", checked.stderr);
}

#[test]
fn a_plan_has_one_process_for_all_that_is_left_to_puppet_and_quotes_no_secret() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name).display().to_string();
    let mut text: String = (0..6)
        .map(|number| {
            format!("file {{ '{}': mode => '0600', audit => 'owner' }}\n", at(&format!("f{number}")))
        })
        .collect();
    text += "package { 'canary-package': ensure => installed, provider => gem, install_options => [{ '--password' => 'canary-one' }] }\n";
    text += "user { 'x': ensure => present, password => 'canary-two', password_max_age => '30' }\n";
    let site = place.path().join("site.pp");
    write(&site, &text);
    let plan = mgmt_output(&["plan", "puppet", site.to_str().unwrap()]);
    let ready = plan.stderr.lines().filter(|line| line.contains(" is ready")).count();
    // One has compiled.
    assert_eq!(ready, 2, "{}{}", plan.stdout, plan.stderr);
    for canary in ["canary-one", "canary-two"] {
        assert!(!plan.stderr.contains(canary) && !plan.stdout.contains(canary), "{canary}: {}", plan.stderr);
    }
    assert!(plan.stderr.contains("canary-package"), "{}", plan.stderr);
    // What is left to Puppet as a whole is not told parameter by parameter.
    let left = plan.stderr.lines().find(|line| line.contains(&at("f0")) && line.contains("left to Puppet"));
    assert!(left.is_some_and(|line| !line.contains("`mode` has no counterpart")), "{left:?}");
}
