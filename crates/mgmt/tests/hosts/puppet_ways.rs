//! The ways in which a manifest is given, and what each command makes of it, with the real Puppet.
#![allow(missing_docs, clippy::unwrap_used)]

use mgmt_test_support::program;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

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

#[test]
fn a_manifest_is_named_by_a_flag_as_well_as_by_its_place() {
    let place = tempfile::tempdir().unwrap();
    let (site, out, prefix) =
        (place.path().join("site.pp"), place.path().join("out"), place.path().join("prefix"));
    write(&site, &format!("file {{ '{}': content => 'x' }}\n", out.display()));
    let (path, prefix) = (site.to_str().unwrap(), prefix.to_str().unwrap());
    for arguments in [&["check", "puppet", "--puppet", path][..], &["check", "--puppet", path]] {
        let checked = mgmt_output(arguments);
        assert_eq!(checked.code, 0, "{arguments:?}: {}", checked.stderr);
    }
    let graph = mgmt_output(&["graph", "puppet", "--puppet", path]);
    assert_eq!(
        (graph.code, &graph.stdout),
        (0, &mgmt_output(&["graph", "puppet", path]).stdout),
        "{}",
        graph.stderr
    );
    assert!(graph.stdout.contains(out.to_str().unwrap()), "{}", graph.stdout);
    let plan = mgmt_output(&["plan", "--detailed-exitcode", "puppet", "--puppet", path]);
    assert!(plan.code == 2 && plan.stdout.contains(out.to_str().unwrap()), "{}{}", plan.stdout, plan.stderr);
    for arguments in [&["puppet", "--puppet", path][..], &["--puppet", path]] {
        let _ = std::fs::remove_file(&out);
        let run = mgmt_output(&[&ONCE[..], arguments].concat());
        assert_eq!(run.code, 0, "{arguments:?}: {}", run.stderr);
        assert_eq!(std::fs::read_to_string(&out).unwrap(), "x");
    }
    std::fs::remove_file(&out).unwrap();
    let mut run = RunningProgram::start(&["run", "--prefix", prefix, "empty"]);
    run.wait_for("graph empty");
    let deploy = mgmt_output(&["deploy", "--prefix", prefix, "--no-git", "puppet", "--puppet", path]);
    assert_eq!(deploy.code, 0, "{}", deploy.stderr);
    holds(&out, "x");
    run.signal(Signal::INT);
    assert_eq!(run.end().0, Some(0));
    // Two are one too many, and a wrong one is wrong.
    for command in ["run", "graph", "plan", "deploy", "check"] {
        let two = mgmt_output(&[command, "puppet", path, "--puppet", path]);
        assert!(two.code == 2 && two.stderr.contains("two manifests"), "{command}: {}", two.stderr);
    }
    write(&site, "notify { 'a' }\n");
    let wrong = mgmt_output(&["check", "puppet", "--puppet", path]);
    assert!(wrong.code == 1 && wrong.stderr.contains("site.pp:1:14"), "{}", wrong.stderr);
}

#[test]
fn a_check_looks_at_the_resources_that_a_run_would_bring_about() {
    let code = "notify { 'a': tag => 'plain' }\npackage { 'x': provider => gem, tag => 'odd' }\n";
    let check = |more: &[&str]| mgmt_output(&[&["check", "--strict"], more, &["puppet", code]].concat());
    let all = check(&[]);
    assert!(all.code == 1 && all.stderr.contains("error[P0201]"), "{}", all.stderr);
    for more in [["--tags", "plain"], ["--skip-tags", "odd"]] {
        let some = check(&more);
        assert_eq!(some.code, 0, "{more:?}: {}", some.stderr);
    }
}

#[test]
fn a_plan_of_a_program_and_a_manifest_tells_of_both() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name).display().to_string();
    let program = format!(
        "file \"{0}\" {{ state => \"exists\", content => \"1\", }}\nnoop \"puppet_x\" {{}}\nFile[\"{0}\"] -> Noop[\"puppet_x\"]\n",
        at("ours")
    );
    let manifest = format!(
        "class mgmt_x {{}}\ninclude mgmt_x\nfile {{ '{}': content => '1', require => Class['mgmt_x'] }}\n",
        at("theirs")
    );
    write(&place.path().join("main.mcl"), &program);
    write(&place.path().join("site.pp"), &manifest);
    let plan = || {
        let arguments = ["langpuppet", "--lang", &at("main.mcl"), "--puppet", &at("site.pp")];
        mgmt_output(&[&["plan", "--detailed-exitcode"], &arguments[..]].concat())
    };
    let found = plan();
    assert_eq!(found.code, 2, "{}", found.stderr);
    for name in ["ours", "theirs"] {
        assert!(found.stdout.contains(&at(name)), "{name}: {}", found.stdout);
        assert!(!place.path().join(name).exists(), "planning has made {name}");
        std::fs::write(at(name), "1").unwrap();
    }
    let found = plan();
    assert_eq!(found.code, 0, "{}{}", found.stdout, found.stderr);
}

#[test]
fn each_edit_is_compiled_once_and_the_start_not_again() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let out = at("out");
    let class = |mode: &str| {
        let path = out.display();
        format!("class m($who) {{ file {{ '{path}': mode => '{mode}', content => template('m/t.erb') }} }}\n")
    };
    write(&at("site/manifests/site.pp"), "include m\n");
    write(&at("site/modules/m/manifests/init.pp"), &class("0644"));
    write(&at("site/modules/m/templates/t.erb"), "hello <%= @who %> <%= @facts['colour'] %>\n");
    write(&at("site/modules/m/facts.d/colour.yaml"), "colour: blue\n");
    write(&at("site/hiera.yaml"), "version: 5\nhierarchy:\n- {name: all, path: all.yaml}\n");
    write(&at("site/data/all.yaml"), "m::who: one\n");
    let mut run = RunningProgram::start(&["run", "--tmp-prefix", "puppet", at("site").to_str().unwrap()]);
    holds(&out, "hello one blue\n");
    let edits = [
        ("data/all.yaml", "m::who: two\n".to_owned(), "hello two blue\n"),
        (
            "modules/m/templates/t.erb",
            "bye <%= @who %> <%= @facts['colour'] %>\n".to_owned(),
            "bye two blue\n",
        ),
        ("modules/m/facts.d/colour.yaml", "colour: green\n".to_owned(), "bye two green\n"),
        ("modules/m/manifests/init.pp", class("0600"), "bye two green\n"),
        ("manifests/site.pp", "class {\n".to_owned(), "bye two green\n"),
        ("manifests/site.pp", "include m\n\nnotify { 'more': }\n".to_owned(), "bye two green\n"),
    ];
    let count = edits.len();
    for (name, text, expected) in edits {
        replace(&at("site").join(name), &text);
        run.wait_for("compiling ");
        holds(&out, expected);
    }
    run.wait_for("(1 new, ");
    assert_eq!(out.metadata().unwrap().mode() & 0o777, 0o600);
    run.signal(Signal::INT);
    let (code, lines) = run.end();
    assert_eq!(code, Some(0), "{lines}");
    let compiled: Vec<&str> = lines.lines().filter(|line| line.contains("compiling ")).collect();
    assert_eq!(compiled.len(), count, "{lines}");
}

#[test]
fn what_changes_between_the_first_compile_and_the_first_watch_is_seen() {
    let place = tempfile::tempdir().unwrap();
    let (site, out, more) =
        (place.path().join("site.pp"), place.path().join("out"), place.path().join("more"));
    // The manifest is other than it was as soon as it was read, long before anybody watches it.
    let second = format!("file {{ '{}': content => 'second' }}\n", out.display());
    write(&more, &second);
    let first = format!(
        "generate('/bin/cp', '{}', '{}')\nfile {{ '{}': content => 'first' }}\n",
        more.display(),
        site.display(),
        out.display()
    );
    write(&site, &first);
    let run = RunningProgram::start(&["run", "--tmp-prefix", "puppet", site.to_str().unwrap()]);
    holds(&out, "second");
    run.signal(Signal::INT);
    assert_eq!(run.end().0, Some(0));
}

/// A type whose provider writes its content, and waits for a file to go away first.
const MARK: &str = r##"Puppet::Type.newtype(:mark) do
  ensurable
  newparam(:path, namevar: true)
  newparam(:content)
  newparam(:wait)
  provide(:ruby) do
    def exists?
      File.exist?(resource[:path])
    end

    def create
      File.write("#{resource[:wait]}.seen", '') if resource[:wait]
      sleep 0.05 while resource[:wait] && File.exist?(resource[:wait])
      File.write(resource[:path], resource[:content].to_s, perm: 0o600)
    end

    def destroy
      File.delete(resource[:path])
    end
  end
end
"##;

#[test]
fn settings_reach_whoever_compiles_and_whoever_applies() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let (out, mark) = (at("out"), at("mark"));
    write(&at("base/m/lib/puppet/type/mark.rb"), MARK);
    let class = format!(
        "class m {{ file {{ '{}': content => $colour }} mark {{ '{}': ensure => present, content => 'made' }} }}\n",
        out.display(),
        mark.display()
    );
    write(&at("base/m/manifests/init.pp"), &class);
    // Somebody else says what this host is.
    let nodes = at("nodes");
    write(&nodes, "#!/bin/sh\nprintf -- '---\\nclasses: [m]\\nparameters: {colour: blue}\\n'\n");
    std::fs::set_permissions(&nodes, std::fs::Permissions::from_mode(0o755)).unwrap();
    let conf = at("puppet.conf");
    let text = format!(
        "[main]\nbasemodulepath = {}\nnode_terminus = exec\nexternal_nodes = {}\n",
        at("base").display(),
        nodes.display()
    );
    write(&conf, &text);
    // A directory of manifests, all of which count.
    write(&at("manifests.d/1.pp"), "notify { 'one': }\n");
    write(&at("manifests.d/2.pp"), "Notify['one'] -> Class['m']\n");
    let (conf, directory) = (conf.to_str().unwrap().to_owned(), at("manifests.d"));
    let run =
        mgmt_output(&[&ONCE[..], &["puppet", "--puppet-conf", &conf, directory.to_str().unwrap()]].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(std::fs::read_to_string(&out).unwrap(), "blue");
    assert_eq!(std::fs::read_to_string(&mark).unwrap(), "made");
    // Without the settings, nobody knows of any of it.
    let plain = mgmt_output(&[&ONCE[..], &["puppet", directory.to_str().unwrap()]].concat());
    assert_eq!(plain.code, 2, "{}", plain.stderr);
}

#[test]
fn types_of_an_environment_that_is_not_on_this_host_are_applied() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let (mark, site, conf) = (at("mark"), at("site"), at("puppet.conf"));
    write(&site.join("modules/m/lib/puppet/type/mark.rb"), MARK);
    let text = format!("mark {{ '{}': ensure => present, content => $environment }}\n", mark.display());
    write(&site.join("manifests/site.pp"), &text);
    write(&conf, "[main]\nenvironment = special\n");
    let (site, conf) = (site.to_str().unwrap(), conf.to_str().unwrap());
    for (flags, environment) in
        [(["--puppet-environment", "special"], Some("special")), (["--puppet-conf", conf], None)]
    {
        let run = mgmt_output(&[&ONCE[..], &["puppet"], &flags, &[site]].concat());
        assert_eq!(run.code, 0, "{flags:?}: {}", run.stderr);
        let found = std::fs::read_to_string(&mark).unwrap();
        assert!(environment.is_none_or(|expected| found == expected), "{flags:?}: {found}");
        std::fs::remove_file(&mark).unwrap();
    }
}

#[test]
fn a_type_that_is_edited_claims_what_it_makes_now() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let directory = at("d").display().to_string();
    let of = |name: &str| {
        format!(
            "Puppet::Type.newtype(:spot) do\n  ensurable\n  newparam(:name, namevar: true)\n  \
             newparam(:at) {{ munge {{ |_| '{directory}/{name}' }} }}\n  provide(:ruby) do\n    \
             def exists?; File.exist?(resource[:at]); end\n    \
             def create; File.write(resource[:at], 'made'); end\n    \
             def destroy; end\n  end\nend\n"
        )
    };
    let code = at("site/modules/m/lib/puppet/type/spot.rb");
    write(&code, &of("one"));
    let text = format!(
        "file {{ '{directory}': ensure => directory, recurse => true, purge => true }}\n\
         spot {{ 's': ensure => present, at => 'there' }}\n"
    );
    write(&at("site/manifests/site.pp"), &text);
    let run = RunningProgram::start(&["run", "--tmp-prefix", "puppet", at("site").to_str().unwrap()]);
    holds(&at("d/one"), "made");
    replace(&code, &of("two"));
    holds(&at("d/two"), "made");
    program::eventually("the old path is purged", || !at("d/one").exists());
    let made = at("d/two").metadata().unwrap().ino();
    std::fs::write(at("d/stray"), "").unwrap();
    program::eventually("the rest is purged", || !at("d/stray").exists());
    assert_eq!(at("d/two").metadata().unwrap().ino(), made);
    run.signal(Signal::INT);
    let (code, lines) = run.end();
    assert_eq!(code, Some(0), "{lines}");
}

#[test]
fn files_of_modules_reach_what_is_left_to_puppet() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let module = at("site/modules/m");
    write(&module.join("files/greeting"), "hello\n");
    write(&module.join("files/tree/a/b"), "deep\n");
    write(&at("more/exported"), "mounted\n");
    write(&at("fileserver.conf"), &format!("[more]\n  path {}\n", at("more").display()));
    write(&at("puppet.conf"), &format!("[main]\nfileserverconfig = {}\n", at("fileserver.conf").display()));
    let text = "file { 'ROOT/plain': source => 'puppet:///modules/m/greeting' }\n\
         file { 'ROOT/audited': source => 'puppet:///modules/m/greeting', audit => 'owner' }\n\
         file { 'ROOT/mounted': source => 'puppet:///more/exported' }\n\
         file { 'ROOT/tree': ensure => directory, recurse => true, source => 'puppet:///modules/m/tree' }\n";
    write(&at("site/manifests/site.pp"), &text.replace("ROOT", at("out").to_str().unwrap()));
    let (conf, site) = (at("puppet.conf"), at("site"));
    for only in [&[][..], &["--puppet-only"]] {
        let _ = std::fs::remove_dir_all(at("out"));
        std::fs::create_dir(at("out")).unwrap();
        let flags = ["puppet", "--puppet-conf", conf.to_str().unwrap(), site.to_str().unwrap()];
        let run = mgmt_output(&[&ONCE[..], &flags[..], only].concat());
        assert_eq!(run.code, 0, "{only:?}: {}", run.stderr);
        for (name, content) in
            [("plain", "hello\n"), ("audited", "hello\n"), ("mounted", "mounted\n"), ("tree/a/b", "deep\n")]
        {
            let found = std::fs::read_to_string(at("out").join(name)).unwrap_or_default();
            assert_eq!(found, content, "{only:?} {name}: {}", run.stderr);
        }
    }
}

#[test]
fn a_hangup_has_a_manifest_compiled_again() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let (site, out, told) = (at("site.pp"), at("out"), at("told"));
    // What a command says is nothing that could be watched.
    write(&told, "one");
    let text =
        format!("file {{ '{}': content => generate('/bin/cat', '{}') }}\n", out.display(), told.display());
    write(&site, &text);
    let mut run = RunningProgram::start(&["run", "--tmp-prefix", "puppet", site.to_str().unwrap()]);
    holds(&out, "one");
    write(&told, "two");
    run.signal(Signal::HUP);
    run.wait_for("compiling ");
    holds(&out, "two");
    run.signal(Signal::INT);
    assert_eq!(run.end().0, Some(0));
}

#[test]
fn a_compile_that_failed_is_tried_again_without_an_edit_and_its_error_told_once() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let (site, out, told) = (at("site.pp"), at("out"), at("told"));
    write(&site, &format!("file {{ '{}': content => 'one' }}\n", out.display()));
    let mut run = RunningProgram::start(&["run", "--tmp-prefix", "puppet", site.to_str().unwrap()]);
    holds(&out, "one");
    // What a command reads is nothing that could be watched.
    let text =
        format!("file {{ '{}': content => generate('/bin/cat', '{}') }}\n", out.display(), told.display());
    replace(&site, &text);
    run.wait_for("still running the previous graph");
    // The second attempt by itself, and the third.
    run.wait_for("retrying in ");
    run.wait_for("retrying in ");
    write(&told, "two");
    holds(&out, "two");
    run.signal(Signal::INT);
    let (code, lines) = run.end();
    assert_eq!(code, Some(0), "{lines}");
    for expected in ["still running the previous graph", "error[P"] {
        let count = lines.lines().filter(|line| line.contains(expected)).count();
        assert_eq!(count, 1, "{expected}: {lines}");
    }
}

#[test]
fn what_names_a_file_is_looked_at_when_the_file_changes() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    write(&at("site/modules/m/lib/puppet/type/mark.rb"), MARK);
    write(&at("wanted"), "no\n");
    let text = "mark { 'ROOT/mark': ensure => present, content => 'made' }\n\
         exec { 'native': command => '/bin/touch ROOT/native', onlyif => '/bin/grep -q yes ROOT/wanted', unless => '/bin/test -e ROOT/native' }\n\
         exec { 'left': command => Sensitive('/bin/touch ROOT/left'), onlyif => '/bin/grep -q yes ROOT/wanted', creates => 'ROOT/left' }\n";
    write(&at("site/manifests/site.pp"), &text.replace("ROOT", place.path().to_str().unwrap()));
    let run = RunningProgram::start(&["run", "--tmp-prefix", "puppet", at("site").to_str().unwrap()]);
    holds(&at("mark"), "made");
    std::fs::remove_file(at("mark")).unwrap();
    holds(&at("mark"), "made");
    assert!(!at("native").exists() && !at("left").exists());
    write(&at("wanted"), "yes\n");
    for name in ["native", "left"] {
        holds(&at(name), "");
        std::fs::remove_file(at(name)).unwrap();
        holds(&at(name), "");
    }
    run.signal(Signal::INT);
    let (code, lines) = run.end();
    assert_eq!(code, Some(0), "{lines}");
}

#[test]
fn what_is_named_indirectly_is_looked_at_when_it_changes() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    write(&at("modules/m/files/f"), "one\n");
    write(&at("source/sub/h"), "h\n");
    let marking = |content: &str| {
        format!(
            "Puppet::Type.newtype(:mark) do\n  ensurable\n  newparam(:path, namevar: true)\n  provide(:ruby) do\n    \
             def exists?; File.exist?(resource[:path]) && File.read(resource[:path]) == '{content}'; end\n    \
             def create; File.write(resource[:path], '{content}'); end\n    def destroy; end\n  end\nend\n"
        )
    };
    write(&at("modules/m/lib/puppet/type/mark.rb"), &marking("made"));
    std::fs::create_dir_all(at("site/manifests")).unwrap();
    std::fs::create_dir_all(at("site/modules")).unwrap();
    std::os::unix::fs::symlink(at("modules/m"), at("site/modules/m")).unwrap();
    let text = "file { 'ROOT/module': source => 'puppet:///modules/m/f', audit => 'owner' }\n\
         file { 'ROOT/local': source => 'file://ROOT/source/sub/h', audit => 'owner' }\n\
         file { 'ROOT/copy': ensure => directory, recurse => true, source => 'ROOT/source', ignore => '*.swp' }\n\
         mark { 'ROOT/mark': ensure => present }\n";
    write(&at("site/manifests/site.pp"), &text.replace("ROOT", place.path().to_str().unwrap()));
    let run = RunningProgram::start(&["run", "--tmp-prefix", "puppet", at("site").to_str().unwrap()]);
    for (name, content) in [("module", "one\n"), ("local", "h\n"), ("copy/sub/h", "h\n"), ("mark", "made")] {
        holds(&at(name), content);
    }
    write(&at("modules/m/files/f"), "two\n");
    holds(&at("module"), "two\n");
    write(&at("copy/sub/h"), "drift\n");
    holds(&at("copy/sub/h"), "h\n");
    write(&at("source/sub/h"), "new\n");
    holds(&at("local"), "new\n");
    holds(&at("copy/sub/h"), "new\n");
    // Other Ruby in a module that is a link, which compiles to the same catalogue.
    replace(&at("modules/m/lib/puppet/type/mark.rb"), &marking("edited"));
    holds(&at("mark"), "edited");
    run.signal(Signal::INT);
    let (code, lines) = run.end();
    assert_eq!(code, Some(0), "{lines}");
}

#[test]
fn tries_that_are_used_up_are_given_back_in_the_next_interval() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let text = "exec { 'a': command => '/bin/cp ROOT/from ROOT/a', creates => 'ROOT/a', tries => 2 }\n\
         exec { 'b': command => '/bin/cp $(cat ROOT/name) ROOT/b', unless => 'test -e ROOT/b', tries => 2, provider => shell }\n";
    write(&at("site.pp"), &text.replace("ROOT", place.path().to_str().unwrap()));
    let site = at("site.pp").display().to_string();
    let mut run = RunningProgram::start(&["run", "--tmp-prefix", "puppet", "--puppet-interval", "3", &site]);
    run.wait_for("exec[");
    std::thread::sleep(std::time::Duration::from_secs(2));
    write(&at("from"), "made");
    write(&at("name"), at("from").to_str().unwrap());
    for name in ["a", "b"] {
        holds(&at(name), "made");
    }
    run.signal(Signal::INT);
    let (code, lines) = run.end();
    assert_eq!(code, Some(0), "{lines}");
}

#[test]
fn what_every_look_changes_is_not_applied_at_each_event() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let kind = "Puppet::Type.newtype(:restless) do\n  newparam(:path, namevar: true)\n  newproperty(:state) do\n    \
                def retrieve; :absent; end\n    def set(_); File.write(resource[:path], '.', mode: 'a'); end\n  end\nend\n";
    write(&at("site/modules/m/lib/puppet/type/restless.rb"), kind);
    write(&at("site/modules/m/lib/puppet/type/mark.rb"), MARK);
    let text = format!(
        "restless {{ '{}': state => 'new' }}\nmark {{ '{}': ensure => present, content => 'made' }}\n",
        at("count").display(),
        at("mark").display()
    );
    write(&at("site/manifests/site.pp"), &text);
    let mut run = RunningProgram::start(&["run", "--tmp-prefix", "puppet", at("site").to_str().unwrap()]);
    run.wait_for("every check changes it");
    let count = || std::fs::read_to_string(at("count")).unwrap().len();
    assert_eq!(count(), 3);
    // Whatever happens to the file, an event is no reason any more. A later one of another resource is.
    holds(&at("mark"), "made");
    write(&at("count"), "");
    std::fs::remove_file(at("mark")).unwrap();
    holds(&at("mark"), "made");
    assert_eq!(count(), 0);
    run.signal(Signal::INT);
    assert_eq!(run.end().0, Some(0));
}

#[test]
fn what_puppet_could_not_do_is_tried_again_and_so_is_what_comes_after_it() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    write(&at("site/modules/m/lib/puppet/type/mark.rb"), MARK);
    let text = format!(
        "mark {{ '{0}/parent/mark': ensure => present, content => 'made' }} -> file {{ '{0}/after': content => 'x' }}\n",
        place.path().display()
    );
    write(&at("site/manifests/site.pp"), &text);
    let mut run = RunningProgram::start(&["run", "--tmp-prefix", "puppet", at("site").to_str().unwrap()]);
    run.wait_for("No such file or directory");
    std::fs::create_dir(at("parent")).unwrap();
    holds(&at("parent/mark"), "made");
    holds(&at("after"), "x");
    run.signal(Signal::INT);
    let (code, lines) = run.end();
    assert_eq!(code, Some(0), "{lines}");
}

/// Files below a directory in which a text is found.
fn files_with(root: &Path, text: &str) -> Vec<PathBuf> {
    let (mut found, mut left) = (Vec::new(), vec![root.to_owned()]);
    while let Some(directory) = left.pop() {
        // What is gone meanwhile has nothing to tell.
        for path in std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()) {
            let Ok(kind) = path.symlink_metadata().map(|found| found.file_type()) else { continue };
            if kind.is_dir() {
                left.push(path);
            } else if kind.is_file() {
                let content = std::fs::read(&path).unwrap_or_default();
                if content.windows(text.len()).any(|part| part == text.as_bytes()) {
                    found.push(path);
                }
            }
        }
    }
    found
}

/// Processes that show a text to others.
fn processes_with(text: &str) -> Vec<PathBuf> {
    let shown = |path: &PathBuf| {
        let read = |name: &str| std::fs::read(path.join(name)).unwrap_or_default();
        [read("cmdline"), read("environ")]
            .iter()
            .any(|content| content.windows(text.len()).any(|part| part == text.as_bytes()))
    };
    let processes = std::fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
    processes.filter(shown).collect()
}

#[test]
fn a_secret_is_in_no_list_of_processes_and_in_no_file_that_others_may_read() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    // No other run of this test, at the same time or before, has the same one.
    let name = place.path().file_name().unwrap().to_str().unwrap().replace('.', "");
    let canary = format!("canary{}{name}", std::process::id());
    let (wait, mark, file) = (at("wait"), at("out/mark"), at("out/file"));
    write(&wait, "");
    std::fs::create_dir(at("out")).unwrap();
    write(&at("site/modules/m/lib/puppet/type/mark.rb"), MARK);
    let text = format!(
        "$secret = Sensitive('{canary}')\n\
         file {{ '{}': content => $secret, mode => '0600' }}\n\
         mark {{ '{}': ensure => present, content => $secret, wait => '{}' }}\n",
        file.display(),
        mark.display(),
        wait.display()
    );
    write(&at("site/manifests/site.pp"), &text);
    // Everything that Puppet writes is looked at, too.
    let conf = at("puppet.conf");
    write(
        &conf,
        &format!("[main]\nvardir = {0}/var\nlogdir = {0}/log\nrundir = {0}/run\n", place.path().display()),
    );
    let (prefix, site) = (at("prefix").display().to_string(), at("site").display().to_string());
    let run = ["run", "--prefix", &prefix, "puppet", "--puppet-conf", conf.to_str().unwrap(), &site];
    let run = RunningProgram::start(&run);
    // Puppet is in the middle of it, and what is native is done.
    holds(&file, &canary);
    eventually("it is with Puppet", || at("wait.seen").exists());
    assert_eq!(processes_with(&canary), Vec::<PathBuf>::new());
    std::fs::remove_file(&wait).unwrap();
    holds(&mark, &canary);
    assert_eq!(processes_with(&canary), Vec::<PathBuf>::new());
    run.signal(Signal::INT);
    let (code, lines) = run.end();
    assert_eq!(code, Some(0), "{lines}");
    assert!(!lines.contains(&canary), "{lines}");
    let mut found = files_with(place.path(), &canary);
    found.retain(|path| !path.starts_with(at("site")));
    assert!(found.contains(&mark) && found.contains(&file), "{found:?}");
    for path in found {
        assert_eq!(path.metadata().unwrap().mode() & 0o077, 0, "{}", path.display());
    }
}
