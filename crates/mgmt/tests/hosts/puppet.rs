//! Manifests of Puppet, with the real Puppet.
#![allow(missing_docs, clippy::unwrap_used)]

use mgmt_test_support::program;
use mgmt_test_support::sandbox;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use mgmt_test_support::program::{CommandOutput, RunningProgram, holds, mgmt_output, mgmt_output_with_input};
use rustix::process::Signal;

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

const ONCE: [&str; 5] = ["run", "--tmp-prefix", "--converger-timeout", "1", "--converged-exit"];

/// Everything below a directory: type, mode, owner, group, and content or target.
fn tree(root: &Path) -> BTreeMap<PathBuf, (u32, u32, u32, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut left = vec![root.to_owned()];
    while let Some(path) = left.pop() {
        let stat = path.symlink_metadata().unwrap();
        let content = match stat.file_type() {
            kind if kind.is_dir() => {
                left.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
                Vec::new()
            }
            kind if kind.is_symlink() => {
                std::fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
            }
            _ => std::fs::read(&path).unwrap(),
        };
        let name = path.strip_prefix(root).unwrap().to_owned();
        found.insert(name, (stat.mode(), stat.uid(), stat.gid(), content));
    }
    found
}

/// A site in the style of public modules, below a directory.
fn site(root: &Path) -> String {
    SITE.replace("ROOT", root.to_str().unwrap())
}

const SITE: &str = r##"
class motd(String $text = "welcome\n") {
  file { 'ROOT/motd': content => $text, mode => '0644', owner => 'root', group => 'root' }
}
class web {
  contain web::config
  contain web::service
  Class['web::config'] ~> Class['web::service']
}
class web::config {
  file { ['ROOT/web', 'ROOT/web/sites-available', 'ROOT/web/sites-enabled']: ensure => directory, mode => '0640' }
  file { 'ROOT/web/conf.d': ensure => directory, recurse => true, purge => true, force => true, mode => '0755' }
  file { 'ROOT/web/conf.d/kept.conf': content => "kept\n" }
  web::site { ['one', 'two']: port => 8080 }
  concat { 'ROOT/web/ports.conf': mode => '0600' }
  concat::fragment { 'head': target => 'ROOT/web/ports.conf', content => "# made\n", order => '01' }
  concat::fragment { 'listen': target => 'ROOT/web/ports.conf', content => "Listen 80\n", order => '10' }
}
define web::site(Integer $port) {
  file { "ROOT/web/sites-available/${title}.conf": content => "port ${port}\n", mode => 'u=rw,go=r' }
  file { "ROOT/web/sites-enabled/${title}.conf": ensure => link, target => "../sites-available/${title}.conf" }
}
class web::service {
  exec { 'restart web': command => 'echo restarted >> ROOT/restarts', path => ['/bin', '/usr/bin'], refreshonly => true, provider => shell }
}
class hosts {
  host { 'db.example.com': ip => '192.0.2.10', host_aliases => ['db'], target => 'ROOT/hosts', before => File['ROOT/hosts-are-there'] }
  file { 'ROOT/hosts-are-there': content => '' }
}
class install {
  exec { 'unpack': command => 'mkdir ROOT/app && touch ROOT/app/installed', creates => 'ROOT/app/installed', path => '/bin:/usr/bin' }
  -> exec { 'configure': command => ['/usr/bin/install', '-m', '0700', '-d', 'ROOT/app/it is configured'], unless => 'test -d "ROOT/app/it is configured"', path => '/bin:/usr/bin' }
  file { 'ROOT/old': ensure => absent }
  file { 'ROOT/bytes': content => Binary('AAH/fw==') }
}
include motd, web, hosts, install
"##;

#[test]
fn a_site_ends_up_as_with_puppet_itself_and_stays() {
    let place = tempfile::tempdir().unwrap();
    let (theirs, ours) = (place.path().join("theirs"), place.path().join("ours"));
    for root in [&theirs, &ours] {
        write(&root.join("web/conf.d/stray.conf"), "stray\n");
        write(&root.join("web/conf.d/dir/stray.conf"), "stray\n");
        write(&root.join("old"), "old\n");
        write(&root.with_extension("pp"), &site(root));
    }
    let apply = std::process::Command::new("puppet")
        .args(["apply", "--color=false", "--detailed-exitcodes"])
        .arg(theirs.with_extension("pp"))
        .output()
        .unwrap();
    assert_eq!(apply.status.code(), Some(2), "{}", String::from_utf8_lossy(&apply.stdout));
    let manifest = ours.with_extension("pp");
    let run = mgmt_output(&[&ONCE[..], &["puppet", "--strict", manifest.to_str().unwrap()]].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    let (theirs, found) = (tree(&theirs), tree(&ours));
    // What Puppet writes above its entries in a hosts file is its own.
    let without_hosts = |tree: &BTreeMap<PathBuf, (u32, u32, u32, Vec<u8>)>| {
        let mut tree = tree.clone();
        tree.remove(Path::new("hosts"));
        tree
    };
    assert_eq!(without_hosts(&theirs), without_hosts(&found));
    assert!(String::from_utf8_lossy(&found[Path::new("hosts")].3).contains("192.0.2.10"));
    assert_eq!(found[Path::new("restarts")].3, b"restarted\n");
    // A second run finds everything as it should be.
    let again =
        mgmt_output(&[&ONCE[..], &["--detailed-exitcode", "puppet", manifest.to_str().unwrap()]].concat());
    assert_eq!(again.code, 0, "{}", again.stderr);
    assert_eq!(tree(&ours), found);
}

#[test]
fn defect_22_every_source_is_followed_and_a_mistake_keeps_the_running_graph() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let out = at("out");
    write(&at("site/manifests/site.pp"), "include m\n");
    let class =
        format!("class m($who) {{ file {{ '{}': content => template('m/t.erb') }} }}\n", out.display());
    write(&at("site/modules/m/manifests/init.pp"), &class);
    write(&at("site/modules/m/templates/t.erb"), "hello <%= @who %>\n");
    write(
        &at("site/hiera.yaml"),
        "version: 5\nhierarchy:\n- {name: special, path: special.yaml}\n- {name: all, path: all.yaml}\n",
    );
    write(&at("site/data/all.yaml"), "m::who: one\n");
    let mut run = RunningProgram::start(&["run", "--tmp-prefix", "puppet", at("site").to_str().unwrap()]);
    holds(&out, "hello one\n");
    // Somebody else's change is repaired without Puppet.
    std::fs::write(&out, "broken\n").unwrap();
    holds(&out, "hello one\n");
    write(&at("site/data/all.yaml"), "m::who: two\n");
    holds(&out, "hello two\n");
    write(&at("site/modules/m/templates/t.erb"), "bye <%= @who %>\n");
    holds(&out, "bye two\n");
    // What is known of the host.
    write(&at("site/modules/m/facts.d/colour.yaml"), "colour: blue\n");
    write(&at("site/modules/m/templates/t.erb"), "bye <%= @who %> <%= @facts['colour'] %>\n");
    holds(&out, "bye two blue\n");
    write(&at("site/modules/m/facts.d/colour.yaml"), "colour: green\n");
    holds(&out, "bye two green\n");
    write(&at("site/modules/m/templates/t.erb"), "bye <%= @who %>\n");
    holds(&out, "bye two\n");
    // A file that was looked for and was not there.
    write(&at("site/data/special.yaml"), "m::who: three\n");
    holds(&out, "bye three\n");
    write(&at("site/modules/m/manifests/init.pp"), "class m($who) { file { '/x' } }\n");
    run.wait_for("still running the previous graph");
    std::fs::write(&out, "broken\n").unwrap();
    holds(&out, "bye three\n");
    write(&at("site/modules/m/manifests/init.pp"), &class.replace("content", "mode => '0600', content"));
    run.wait_for("1 changed");
    program::eventually("the mode", || out.metadata().unwrap().mode() & 0o777 == 0o600);
    run.signal(Signal::INT);
    let (code, lines) = run.end();
    assert_eq!(code, Some(0), "{lines}");
}

#[test]
fn defect_12_a_type_of_a_module_is_brought_about_by_puppet() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let mark = at("mark");
    write(&at("site/manifests/site.pp"), &format!("mark {{ '{}': ensure => present }}\n", mark.display()));
    write(
        &at("site/modules/m/lib/puppet/type/mark.rb"),
        "Puppet::Type.newtype(:mark) do\n  ensurable\n  newparam(:path, namevar: true)\n  provide(:ruby) do\n    \
         def exists?; File.exist?(resource[:path]); end\n    def create; File.write(resource[:path], 'made'); end\n    \
         def destroy; File.delete(resource[:path]); end\n  end\nend\n",
    );
    let run = mgmt_output(&[&ONCE[..], &["puppet", at("site").to_str().unwrap()]].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(std::fs::read_to_string(&mark).unwrap(), "made");
}

#[test]
fn manifests_are_checked_and_what_becomes_of_them_is_shown() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("a.pp");
    write(&file, "notify { 'a': }\npackage { 'x': provider => gem }\n");
    let path = file.to_str().unwrap();
    let stats = mgmt_output(&["puppet", "stats", path]);
    assert_eq!(
        stats.stdout,
        "      1 native\n      0 native, not quite the same\n      1 left to Puppet\n      0 refused\n      0 left out\n      0 do nothing by themselves\n    1x package: `provider` only apt or dnf or yum or zypper is the same here\n"
    );
    let print = mgmt_output(&["--message-format", "json", "puppet", "print", path]);
    let document: serde_json::Value = serde_json::from_str(&print.stdout).unwrap();
    assert_eq!(document["resources"][1]["outcome"], "puppet");
    let graph = mgmt_output_with_input(&["graph", "puppet", "-"], "notify { 'a': } -> notify { 'b': }");
    assert!(graph.stdout.contains("Edge: msg[a] -> msg[b]\n"), "{}", graph.stdout);
    let strict = mgmt_output(&["check", "--strict", path]);
    assert_eq!(strict.code, 1, "{}", strict.stderr);
    assert!(strict.stderr.contains("error[P0201]") && strict.stderr.contains("a.pp:2"), "{}", strict.stderr);
    write(&file, "notify { 'a' }\n");
    let wrong = mgmt_output(&["check", path]);
    assert_eq!(wrong.code, 1);
    assert!(
        wrong.stderr.contains("error[P0001]: Syntax error at '}'") && wrong.stderr.contains("a.pp:1:14"),
        "{}",
        wrong.stderr
    );
}

#[test]
fn defect_20_a_manifest_that_is_not_there_is_an_error() {
    for (input, expected) in [("/nowhere/x.pp", "there is no file or directory"), (" ", "empty")] {
        let said = mgmt_output(&[&ONCE[..], &["puppet", input]].concat());
        assert_eq!(said.code, 2);
        assert!(said.stderr.contains(expected), "{}", said.stderr);
    }
}

#[test]
fn a_host_without_puppet_is_told_what_to_install() {
    let mut command = program::mgmt(&["run", "--tmp-prefix", "puppet", "notify { 'x': }"]);
    let output = command.env("PATH", "/nonexistent").output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    if !Path::new("/opt/puppetlabs/bin/puppet").exists() {
        assert!(text.contains("Puppet is not installed") && text.contains("puppet-agent"), "{text}");
        assert_eq!(output.status.code(), Some(1));
    }
}

#[test]
fn defect_18_a_secret_is_in_no_output() {
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("out");
    let code = format!(
        "$secret = Sensitive('canary')\nfile {{ '{}': content => $secret, mode => '0600' }}\n\
         file {{ '{}-2': content => $secret, mode => 'u+x' }}",
        out.display(),
        out.display()
    );
    let said = mgmt_output_with_input(&[&["--log", "trace"], &ONCE[..], &["puppet", "-"]].concat(), &code);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert_eq!(std::fs::read_to_string(&out).unwrap(), "canary");
    assert!(place.path().join("out-2").exists());
    assert!(!said.stderr.contains("canary") && !said.stdout.contains("canary"));
}

#[test]
fn what_says_what_becomes_of_a_resource_quotes_no_text() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("a.pp");
    write(
        &file,
        "exec { 'x': command => '/bin/x --password=canary-1', logoutput => true }\n\
         package { 'y': provider => gem, install_options => ['--token=canary-2'] }\n\
         exec { 'z': command => '/bin/z', environment => ['PGPASSWORD=canary-3'], audit => all }\n",
    );
    for flags in [&["check"][..], &["check", "--strict"]] {
        let said = mgmt_output(&[flags, &[file.to_str().unwrap()]].concat());
        for line in 1..=3 {
            assert!(said.stderr.contains(&format!("a.pp:{line}")), "{}", said.stderr);
        }
        assert!(!said.stderr.contains("canary"), "{}", said.stderr);
    }
}

#[test]
fn defect_18_a_secret_that_everybody_may_read_is_not_told_by_plan_and_history() {
    let place = tempfile::tempdir().unwrap();
    let (prefix, out) = (place.path().join("prefix"), place.path().join("out"));
    let prefix = prefix.to_str().unwrap();
    let code = |secret: &str| {
        format!("file {{ '{}': content => Sensitive(\"{secret}\\n\"), mode => '0644' }}", out.display())
    };
    let once = |secret: &str| {
        let run = ["run", "--prefix", prefix, "--converger-timeout", "1", "--converged-exit", "puppet"];
        let run = mgmt_output(&[&run[..], &[&code(secret)]].concat());
        assert_eq!(run.code, 0, "{}", run.stderr);
        assert_eq!(std::fs::read_to_string(&out).unwrap(), format!("{secret}\n"));
        run
    };
    once("canary one");
    let plan =
        mgmt_output(&["plan", "--detailed-exitcode", "--prefix", prefix, "puppet", &code("canary two")]);
    assert_eq!(plan.code, 2, "{}", plan.stderr);
    assert!(plan.stdout.contains("content"), "{}", plan.stdout);
    let run = once("canary two");
    let history = mgmt_output(&["history", "--prefix", prefix, "--format", "json"]);
    assert!(history.stdout.contains("content"), "{}", history.stdout);
    for said in [plan, run, history] {
        assert!(!said.stdout.contains("canary") && !said.stderr.contains("canary"), "{said:?}");
    }
}

#[test]
fn a_plan_tells_what_would_change_also_of_what_is_left_to_puppet_and_changes_nothing() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name).display().to_string();
    write(&place.path().join("there"), "old");
    write(&place.path().join("d/unmanaged"), "");
    let site = format!(
        "file {{ '{}': content => 'new' }}\n\
         file {{ '{}': ensure => directory, recurse => true, purge => true, ignore => 'x' }}\n\
         file {{ '{}': mode => '0600' }}\n\
         notify {{ 'told': }}\n\
         exec {{ '/bin/touch {}': onlyif => '/bin/true' }}\n",
        at("there"),
        at("d"),
        at("there2"),
        at("touched")
    );
    write(&place.path().join("there2"), "");
    let file = place.path().join("site.pp");
    write(&file, &site);
    let before = tree(place.path());
    let plan = mgmt_output(&["plan", "--detailed-exitcode", "puppet", file.to_str().unwrap()]);
    assert_eq!(plan.code, 2, "{}", plan.stderr);
    for expected in [at("there"), format!("File[{}]", at("d/unmanaged")), at("there2"), "touch".to_owned()] {
        assert!(plan.stdout.contains(&expected), "{expected}: {}", plan.stdout);
    }
    assert_eq!(tree(place.path()), before, "planning has changed something");
    // Tags leave out the rest.
    let plan = mgmt_output(&["plan", "--tags", "nobody", "puppet", file.to_str().unwrap()]);
    assert!(plan.code == 0 && !plan.stdout.contains(&at("there")), "{}{}", plan.stdout, plan.stderr);
}

#[test]
fn what_is_overwritten_and_removed_is_in_the_bucket_and_puppet_finds_it() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name).display().to_string();
    for name in ["changed", "removed"] {
        write(&place.path().join(name), &format!("old content of what is {name}\n"));
    }
    let code = format!(
        "filebucket {{ 'kept': path => '{}' }}\nFile {{ backup => 'kept' }}\n\
         file {{ '{}': content => 'new' }}\nfile {{ '{}': ensure => absent }}\n",
        at("bucket"),
        at("changed"),
        at("removed")
    );
    let run = mgmt_output(&[&ONCE[..], &["puppet", "--strict", &code]].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(std::fs::read_to_string(at("changed")).unwrap(), "new");
    let filebucket = |arguments: &[&str]| {
        let bucket = at("bucket");
        let mut command = std::process::Command::new("puppet");
        command.args(["filebucket", "--local", "--bucket", &bucket]).args(arguments);
        String::from_utf8_lossy(&command.output().unwrap().stdout).into_owned()
    };
    let list = filebucket(&["list"]);
    for name in ["changed", "removed"] {
        let line = list.lines().find(|line| line.ends_with(&at(name))).unwrap_or_else(|| panic!("{list}"));
        let content = filebucket(&["get", line.split_whitespace().next().unwrap()]);
        assert!(content.contains(&format!("old content of what is {name}")), "{content}");
    }
}

/// Where the program is in a view of this machine of its own.
const PROGRAM: &str = "/mgmt-test-mgmt";

#[test]
fn purging_spares_what_is_managed_and_takes_the_rest() {
    let name = "purging_spares_what_is_managed_and_takes_the_rest";
    if !sandbox::is_inside() {
        let also = Some((PROGRAM, Path::new(env!("CARGO_BIN_EXE_mgmt"))));
        return sandbox::Sandbox { also, ..sandbox::Sandbox::default() }.run(name);
    }
    std::fs::write("/etc/hosts", "192.0.2.1\tmanaged\n192.0.2.2\tstranger\n192.0.2.3\tleft\n").unwrap();
    let code = "host { 'managed': ip => '192.0.2.1' }\n\
                host { 'left': ip => '192.0.2.3', provider => parsed }\n\
                maker { 'm': }\n\
                resources { 'host': purge => true }\n";
    let place = tempfile::tempdir().unwrap();
    let site = place.path().display().to_string();
    write(&place.path().join("manifests/site.pp"), code);
    write(
        &place.path().join("modules/m/lib/puppet/type/maker.rb"),
        "Puppet::Type.newtype(:maker) do\n  newparam(:name, namevar: true)\n  def generate\n    \
         [Puppet::Type.type(:host).new(name: 'generated', ip: '192.0.2.4', catalog: catalog)]\n  end\nend\n",
    );
    let run = |more: &[&str]| -> CommandOutput {
        let arguments = [&ONCE[..], more, &["--detailed-exitcode", "puppet", &site]].concat();
        std::process::Command::new(PROGRAM).args(arguments).output().unwrap().into()
    };
    let before = std::fs::read_to_string("/etc/hosts").unwrap();
    run(&["--noop"]);
    assert_eq!(std::fs::read_to_string("/etc/hosts").unwrap(), before);
    let first = run(&[]);
    assert_eq!(first.code, 2, "{}", first.stderr);
    let hosts = std::fs::read_to_string("/etc/hosts").unwrap();
    assert!(hosts.contains("managed") && hosts.contains("left") && !hosts.contains("stranger"), "{hosts}");
    assert!(hosts.contains("generated"), "{hosts}");
    assert_eq!(run(&[]).code, 0);
}

#[test]
fn purging_jobs_spares_those_that_are_managed_and_doubles_none() {
    let name = "purging_jobs_spares_those_that_are_managed_and_doubles_none";
    if !sandbox::is_inside() {
        let also = Some((PROGRAM, Path::new(env!("CARGO_BIN_EXE_mgmt"))));
        return sandbox::Sandbox { also, ..sandbox::Sandbox::default() }.run(name);
    }
    let crontab = Path::new("/var/cache/mgmt-tests/cron/usr/bin/crontab");
    assert!(crontab.exists(), "`cargo xtask setup` brings {}", crontab.display());
    std::fs::copy(crontab, "/usr/bin/crontab").unwrap();
    let table = Path::new("/var/spool/cron/crontabs/root");
    write(table, "7 7 * * * /bin/stranger\n");
    let code = "cron { 'mine': command => '/bin/mine', minute => 5 }\n\
                cron { 'other': command => '/bin/other', minute => 6, require => Cron['mine'] }\n\
                resources { 'cron': purge => true }\n";
    let run = || -> CommandOutput {
        let arguments = [&ONCE[..], &["--detailed-exitcode", "puppet", code]].concat();
        std::process::Command::new(PROGRAM).args(arguments).output().unwrap().into()
    };
    let first = run();
    assert_eq!(first.code, 2, "{}", first.stderr);
    for _ in 0..2 {
        let text = std::fs::read_to_string(table).unwrap();
        let jobs: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(jobs, ["5 * * * * /bin/mine", "6 * * * * /bin/other"], "{text}");
        let again = run();
        assert_eq!(again.code, 0, "{}\n{text}", again.stderr);
    }
}

/// A type like the one of the public module, with a provider that does the same.
const DEBCONF_TYPE: &str = "Puppet::Type.newtype(:debconf) do
  ensurable { defaultvalues; defaultto :present }
  newparam(:item, namevar: true)
  newparam(:package) { defaultto { @resource[:item].split('/').first } }
  newparam(:type) { newvalues(:string, :boolean, :select, :multiselect, :note, :text, :password, :title) }
  newproperty(:value)
  newproperty(:seen) { newvalues(:true, :false) }
end
";
const DEBCONF_PROVIDER: &str = "Puppet::Type.type(:debconf).provide(:debian) do
  def ask(order)
    code, text = IO.popen(['debconf-communicate', resource[:package]], 'r+') { |io| io.puts(order); io.close_write; io.gets.to_s }.chomp.split(' ', 2)
    code == '0' ? text.to_s : nil
  end

  def set
    lines = [[resource[:package], resource[:item], resource[:type], resource[:value]].join(' ')]
    lines << [resource[:package], resource[:item], 'seen', resource[:seen]].join(' ') if resource[:seen]
    IO.popen('debconf-set-selections', 'w') { |io| io.puts(lines) }
  end

  def exists?; !ask(\"GET #{resource[:item]}\").nil?; end
  def create; set; end
  def destroy; ask(\"UNREGISTER #{resource[:item]}\"); end
  def value; ask(\"GET #{resource[:item]}\"); end
  def value=(_); set; end
  def seen; ask(\"FGET #{resource[:item]} seen\"); end
  def seen=(_); set; end
end
";

#[test]
fn answers_to_questions_of_packages_are_native_and_as_with_puppet() {
    let name = "answers_to_questions_of_packages_are_native_and_as_with_puppet";
    if !sandbox::is_inside() {
        let also = Some((PROGRAM, Path::new(env!("CARGO_BIN_EXE_mgmt"))));
        return sandbox::Sandbox { also, ..sandbox::Sandbox::default() }.run(name);
    }
    let site = Path::new("/tmp/site");
    write(&site.join("modules/debconf/lib/puppet/type/debconf.rb"), DEBCONF_TYPE);
    write(&site.join("modules/debconf/lib/puppet/provider/debconf/debian.rb"), DEBCONF_PROVIDER);
    let code = "debconf { 'PACKAGE/area': type => 'select', value => 'Europe and more' }\n\
                debconf { 'PACKAGE/yes': type => 'boolean', value => 'true', seen => false }\n\
                debconf { 'of another': item => 'shared/question', package => 'PACKAGE', type => 'string', value => 'x', seen => true }\n\
                debconf { 'PACKAGE/secret': type => 'password', value => 'canary' }\n\
                debconf { 'PACKAGE/gone': ensure => absent }\n";
    let stored = |package: &str| {
        let text = ["config", "passwords"].map(|file| {
            std::fs::read_to_string(format!("/var/cache/debconf/{file}.dat")).unwrap_or_default()
        });
        let text = text.concat();
        let records = text.split("\n\n").filter(|record| record.contains(package));
        records.map(|record| record.replace(package, "PACKAGE")).collect::<Vec<_>>()
    };
    let manifest = site.join("manifests/site.pp");
    let shell = |text: &str| std::process::Command::new("sh").args(["-c", text]).output().unwrap();
    for package in ["theirs", "ours"] {
        shell(&format!("echo {package} {package}/gone string x | debconf-set-selections"));
        write(&manifest, &code.replace("PACKAGE", package));
        if package == "theirs" {
            let applied = shell(
                "puppet apply --detailed-exitcodes --modulepath /tmp/site/modules /tmp/site/manifests/site.pp",
            );
            assert_eq!(applied.status.code(), Some(2), "{}", String::from_utf8_lossy(&applied.stderr));
            shell("echo UNREGISTER shared/question | debconf-communicate theirs");
        }
    }
    let run = |more: &[&str]| -> CommandOutput {
        let arguments = [&ONCE[..], more, &["--detailed-exitcode", "puppet", "/tmp/site"]].concat();
        std::process::Command::new(PROGRAM).args(arguments).output().unwrap().into()
    };
    let first = run(&[]);
    assert_eq!(first.code, 2, "{}", first.stderr);
    assert!(!first.stderr.contains("canary") && !first.stderr.contains("left to Puppet"), "{}", first.stderr);
    let shared = |record: &String| !record.contains("shared/question");
    let [theirs, ours] =
        ["theirs", "ours"].map(|package| stored(package).into_iter().filter(shared).collect::<Vec<_>>());
    assert_eq!(ours, theirs);
    assert!(ours.len() == 3 && stored("ours").len() == 4, "{ours:?}");
    assert_eq!(run(&[]).code, 0);
    let stats: CommandOutput =
        std::process::Command::new(PROGRAM).args(["puppet", "stats", "/tmp/site"]).output().unwrap().into();
    assert!(stats.stdout.contains("      0 left to Puppet\n"), "{}{}", stats.stdout, stats.stderr);
}

#[test]
fn defect_33_a_notification_goes_through_the_ends_of_classes() {
    let place = tempfile::tempdir().unwrap();
    let (graph, file, told) =
        (place.path().join("graph.yaml"), place.path().join("file"), place.path().join("told"));
    // As classes are translated: `one` with a file, which notifies `two` with a command.
    let edge =
        |from: &str, to: &str| format!("- {{name: e, from: {{{from}}}, to: {{{to}}}, notify: true}}\n");
    let (kind, end) =
        (format!("kind: file, name: {}", file.display()), |name: &str| format!("kind: noop, name: {name}"));
    let text = format!(
        "graph: x\nresources:\n  file:\n  - {{name: {}, state: exists, content: a}}\n  noop:\n\
         {}  exec:\n  - {{name: tell, cmd: 'echo x >> {}', shell: /bin/sh, refreshonly: true}}\nedges:\n{}{}{}",
        file.display(),
        ["completed", "admissible"].map(|name| format!("  - {{name: {name}, forward: true}}\n")).concat(),
        told.display(),
        edge(&kind, &end("completed")),
        edge(&end("completed"), &end("admissible")),
        edge(&end("admissible"), "kind: exec, name: tell"),
    );
    write(&graph, &text);
    let run = mgmt_output(&[&ONCE[..], &["yaml", graph.to_str().unwrap()]].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(std::fs::read_to_string(&told).unwrap(), "x\n");
}

#[test]
fn a_run_that_ends_while_puppet_compiles_leaves_nothing_behind() {
    let place = tempfile::tempdir().unwrap();
    let (site, out, pid) = (place.path().join("site.pp"), place.path().join("out"), place.path().join("pid"));
    let file = format!("file {{ '{}': content => 'x' }}\n", out.display());
    write(&site, &file);
    let run = RunningProgram::start(&["run", "--tmp-prefix", "puppet", site.to_str().unwrap()]);
    holds(&out, "x");
    // A compile that takes longer than anybody waits.
    let slow = format!("generate('/bin/sh', '-c', 'echo $$ > {}; exec sleep 1000')\n", pid.display());
    write(&site, &(slow + &file));
    let number = || std::fs::read_to_string(&pid).ok().and_then(|text| text.trim().parse::<u32>().ok());
    program::eventually("a compile that hangs", || number().is_some());
    run.signal(Signal::INT);
    let (code, lines) = run.end();
    assert_eq!(code, Some(0), "{lines}");
    let process = format!("/proc/{}", number().unwrap());
    program::eventually("its end", || !Path::new(&process).exists());
}

#[test]
fn a_run_that_is_ended_during_its_first_compile_leaves_nothing_behind() {
    let place = tempfile::tempdir().unwrap();
    let (site, pid) = (place.path().join("site.pp"), place.path().join("pid"));
    let slow = format!(
        "generate('/bin/sh', '-c', 'echo $$ $PPID > {0}.new; mv {0}.new {0}; exec sleep 1000')\n",
        pid.display()
    );
    write(&site, &slow);
    let run = RunningProgram::start(&["run", "--tmp-prefix", "puppet", site.to_str().unwrap()]);
    program::eventually("a compile that hangs", || pid.exists());
    // The command, and Puppet itself.
    let numbers = std::fs::read_to_string(&pid).unwrap();
    let processes: Vec<PathBuf> = numbers.split_whitespace().map(|id| Path::new("/proc").join(id)).collect();
    assert!(processes.len() == 2 && processes.iter().all(|process| process.exists()), "{numbers}");
    // Not INT, which is ignored by whoever was started in the background.
    run.signal(Signal::TERM);
    let (code, lines) = run.end();
    assert_ne!(code, Some(0), "{lines}");
    program::eventually("their end", || processes.iter().all(|process| !process.exists()));
}

#[test]
fn what_is_printed_as_yaml_is_read_as_the_same_graph() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().join("root");
    let (manifest, yaml) = (place.path().join("site.pp"), place.path().join("graph.yaml"));
    // Titles and values that YAML could take for something else.
    let strange = "\nnotify { ['null', '- x: [y]', 'ü \"q\" \\\\ #']: message => \"two\\nlines\" }\n";
    write(&manifest, &(site(&root) + strange));
    let (from, to) = (manifest.to_str().unwrap(), yaml.to_str().unwrap());
    let printed = mgmt_output(&["puppet", "print", "--format", "yaml", from]);
    assert_eq!(printed.code, 0, "{}", printed.stderr);
    write(&yaml, &printed.stdout);
    let checked = mgmt_output(&["check", "--strict", to]);
    assert_eq!((checked.code, checked.stderr.as_str()), (0, ""));
    let compared = mgmt_output(&["diff", from, to]);
    assert_eq!(compared.code, 0, "{}{}", compared.stdout, compared.stderr);
    // Containers are in it, too.
    let graph = |front_end: &str, input: &str| {
        let said = mgmt_output(&["graph", "--format", "json", "--no-autoedges", front_end, input]);
        let document: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
        let list = |name: &str, key: &str| -> std::collections::BTreeSet<String> {
            document[name].as_array().unwrap().iter().map(|it| format!("{} {}", it[key], it["to"])).collect()
        };
        (document["graph"].clone(), list("vertices", "id"), list("edges", "from"))
    };
    assert_eq!(graph("puppet", from), graph("yaml", to));
    // A secret is in none of it, and what has none cannot be run by mistake.
    write(&manifest, "file { '/tmp/x': content => Sensitive('canary') }\n");
    let printed = mgmt_output(&["puppet", "print", "--format", "yaml", from]);
    assert!(printed.stdout.contains("content: !secret left out") && !printed.stdout.contains("canary"));
    write(&yaml, &printed.stdout);
    assert!(mgmt_output(&["check", to]).stderr.contains("error[Y0012]"));
}

#[test]
fn a_difference_says_what_it_is_and_shows_no_secret() {
    let one = "file { '/tmp/x': content => Sensitive('canary'), mode => '0600' } -> file { '/tmp/y': content => 'y' }";
    let other = "file \"/tmp/x\" { state => \"exists\", content => \"z\", mode => \"0600\", }\nmsg \"m\" { priority => \"Info\", }\n\
                 file \"/tmp/y\" { state => \"exists\", content => \"y\", }\n";
    let (one, other) = (format!("puppet:{one}"), format!("lang:{other}"));
    let different = mgmt_output(&["diff", &one, &other]);
    assert_eq!(different.code, 1, "{}", different.stderr);
    for part in [
        "~ file[/tmp/x]",
        "content: (secret) | \"z\"",
        "+ msg[m]",
        "- file[/tmp/x] comes before file[/tmp/y]",
        "2 resources and 1 relation differ, 1 the same",
    ] {
        assert!(different.stdout.contains(part), "{part}: {}", different.stdout);
    }
    assert!(!different.stdout.contains("canary"));
    let json = mgmt_output(&["--message-format", "json", "diff", &one, &other]);
    let document: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!((document["equal"].as_bool(), document["same"].as_u64()), (Some(false), Some(1)));
    assert_eq!(document["resources"][0]["fields"][0]["first"], "(secret)");
    assert_eq!(document["order"][0]["change"], "removed");
    assert!(!json.stdout.contains("canary"));
    assert_eq!(mgmt_output(&["diff", "/nowhere/x.pp", &other]).code, 2);
    assert_eq!(mgmt_output(&["diff", "-", "-"]).code, 2);
}

#[test]
fn an_environment_is_given_to_a_host_that_runs() {
    let place = tempfile::tempdir().unwrap();
    let (prefix, out) = (place.path().join("prefix"), place.path().join("out"));
    let prefix = prefix.to_str().unwrap();
    let environment = place.path().join("environment");
    let text = format!("file {{ '{}': content => template('motd/motd.erb') }}\n", out.display());
    write(&environment.join("manifests/site.pp"), "include motd\n");
    write(&environment.join("modules/motd/manifests/init.pp"), &format!("class motd {{ {text} }}\n"));
    write(&environment.join("modules/motd/templates/motd.erb"), "from <%= 'puppet'.upcase %>\n");
    let mut run = RunningProgram::start(&["run", "--prefix", prefix, "empty"]);
    run.wait_for("graph empty");
    let path = environment.to_str().unwrap();
    let done = mgmt_output(&["deploy", "--prefix", prefix, "--no-git", "puppet", path]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    holds(&out, "from PUPPET\n");
    let wrong = mgmt_output(&["deploy", "--prefix", prefix, "--no-git", "puppet", "include nowhere"]);
    assert!(wrong.code == 2 && wrong.stderr.contains("nowhere"), "{}", wrong.stderr);
    let code = format!("file {{ '{}': content => 'code' }}", out.display());
    assert_eq!(mgmt_output(&["deploy", "--prefix", prefix, "--no-git", "puppet", &code]).code, 0);
    holds(&out, "code");
    run.signal(Signal::INT);
    assert_eq!(run.end().0, Some(0));
}
