//! The same manifest, by `puppet apply` and by a run of ours, on two places that begin alike: they have to end alike.
#![allow(missing_docs, clippy::unwrap_used)]

use mgmt_test_support::program;
use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};

use mgmt_test_support::program::{RunningProgram, holds, mgmt_output};
use rustix::process::Signal;

const ONCE: [&str; 5] = ["run", "--tmp-prefix", "--converger-timeout", "1", "--converged-exit"];

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// Everything below a directory: type and mode, and content or target.
fn tree(root: &Path) -> BTreeMap<PathBuf, (u32, String)> {
    let mut found = BTreeMap::new();
    let mut left = vec![root.to_owned()];
    while let Some(path) = left.pop() {
        let stat = path.symlink_metadata().unwrap();
        let content = match stat.file_type() {
            kind if kind.is_dir() => {
                left.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
                String::new()
            }
            kind if kind.is_symlink() => std::fs::read_link(&path).unwrap().display().to_string(),
            // Puppet tells in some files when it has written them.
            _ => String::from_utf8_lossy(&std::fs::read(&path).unwrap())
                .split_inclusive('\n')
                .filter(|line| !line.starts_with("# HEADER:"))
                .collect(),
        };
        found.insert(path.strip_prefix(root).unwrap().to_owned(), (stat.mode(), content));
    }
    found
}

/// Runs a manifest, in which `ROOT` is a place, both ways. Gives what is there in the end, which is the same, and what ours says.
#[track_caller]
fn alike(manifest: &str, begin: impl Fn(&Path)) -> (BTreeMap<PathBuf, (u32, String)>, String) {
    let place = tempfile::tempdir().unwrap();
    let (theirs, ours) = (place.path().join("theirs"), place.path().join("ours"));
    for root in [&theirs, &ours] {
        std::fs::create_dir(root).unwrap();
        begin(root);
        write(&root.with_extension("pp"), &manifest.replace("ROOT", root.to_str().unwrap()));
    }
    let apply = std::process::Command::new("puppet")
        .args(["apply", "--color=false", "--detailed-exitcodes"])
        .arg(theirs.with_extension("pp"))
        .env_remove("LC_ALL")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&apply.stdout).into_owned() + &String::from_utf8_lossy(&apply.stderr);
    assert!(matches!(apply.status.code(), Some(0 | 2)), "{text}");
    let manifest = ours.with_extension("pp");
    let run = mgmt_output(&[&ONCE[..], &["puppet", manifest.to_str().unwrap()]].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    let found = tree(&ours);
    let shown = |tree: BTreeMap<PathBuf, (u32, String)>| -> Vec<String> {
        tree.into_iter()
            .map(|(path, (mode, text))| {
                format!("{} {mode:o} {text:?}", path.display()).replace("theirs", "ours")
            })
            .collect()
    };
    assert_eq!(shown(found.clone()), shown(tree(&theirs)), "ours, and Puppet's:\n{text}");
    // And once more: there is nothing left to do.
    let again =
        mgmt_output(&[&ONCE[..], &["--detailed-exitcode", "puppet", manifest.to_str().unwrap()]].concat());
    assert_eq!(again.code, 0, "{}", again.stderr);
    (found, run.stderr)
}

#[test]
fn values_in_files_are_set_as_with_puppet() {
    let manifest = r#"
        augeas { 'sshd': incl => 'ROOT/sshd_config', lens => 'Sshd.lns', changes => [
            'rm AcceptEnv', 'set PermitRootLogin no', 'set Match[Condition/User="joe"]/Settings/PermitTTY yes' ] }
        augeas { 'hosts': incl => 'ROOT/hosts', lens => 'Hosts.lns', changes => "
            rm *[canonical='old']
            set 2/ipaddr 192.0.2.1
            set 2/canonical first.example.com
            set 2/alias[1] first" }
        augeas { 'sudoers': incl => 'ROOT/sudoers', lens => 'Sudoers.lns', changes => [
            'clear Defaults[2]/requiretty/negate' ] }
        augeas { 'sysctl': incl => 'ROOT/sysctl.conf', lens => 'Sysctl.lns', context => '/files/ROOT/sysctl.conf',
            changes => ['set net.ipv4.ip_forward 1', "set kernel.core_pattern '|/bin/x %p \"q\" \\'s\\''"] }
        augeas { 'grub': incl => 'ROOT/grub', lens => 'Shellvars.lns',
            changes => 'set GRUB_CMDLINE "\"quiet splash=é\""' }
        augeas { 'right': incl => 'ROOT/right', lens => 'Hosts.lns', changes => 'set 1/canonical localhost' }
        augeas { 'without': incl => 'ROOT/without', lens => 'Hosts.lns', changes => 'set 1/alias me' }
        augeas { 'values': incl => 'ROOT/settings.ini', lens => 'Puppet.lns', changes => [
            'rm agent', 'set main/server puppet.example.com', 'set "main/note" "a b"' ] }
    "#
    .replace("/files/ROOT", "/filesROOT");
    let (found, told) = alike(&manifest, |root| {
        let sshd = "# Who may come in\nPort 22\nPermitRootLogin yes\n\nAcceptEnv LANG LC_*\n\
                    Match User joe\n  PermitTTY no\n";
        for (name, text) in [
            ("sshd_config", sshd),
            ("hosts", "# für alle\n127.0.0.1 localhost\n192.0.2.8\told\n"),
            ("sudoers", "Defaults env_reset\n"),
            ("sysctl.conf", "# nothing\nvm.swappiness=10\n"),
            ("grub", "GRUB_CMDLINE=\"quiet\" # here\nexport A=1\n"),
            ("right", "127.0.0.1   localhost\n"),
            ("without", "127.0.0.1   localhost"),
            ("settings.ini", "[main]\nserver = x\n\n[agent]\nreport = true\n"),
        ] {
            write(&root.join(name), text);
        }
    });
    assert_eq!(found[Path::new("right")].1, "127.0.0.1   localhost\n");
    assert_eq!(found[Path::new("without")].1, "127.0.0.1   localhost me\n");
    assert!(!told.contains("left to Puppet"), "{told}");
}

#[test]
fn whatever_is_there_gives_way_or_stays_as_with_puppet() {
    let manifest = r"
        file { 'ROOT/present-link': ensure => present, content => 'new', mode => '0600' }
        file { 'ROOT/present-broken': ensure => present }
        file { 'ROOT/present-directory': ensure => present, content => 'new', mode => '0640' }
        file { 'ROOT/present-file': ensure => present, content => 'new', mode => '0640' }
        file { 'ROOT/present-none': ensure => present, content => 'new', mode => '0640' }
        file { 'ROOT/present-copied': ensure => present, source => 'ROOT/file' }
        file { 'ROOT/kept-link': ensure => file, replace => false, content => 'new', mode => '0600' }
        file { 'ROOT/kept-directory': ensure => file, replace => false, content => 'new', mode => '0640' }
        file { 'ROOT/kept-target': ensure => link, target => 'other', replace => false }
        file { 'ROOT/kept-file': ensure => directory, replace => false }
        file { 'ROOT/link-to-file': content => 'new' }
        file { 'ROOT/link-to-directory': ensure => directory }
        file { 'ROOT/file-to-directory': ensure => directory, mode => '0700' }
        file { 'ROOT/file-to-link': ensure => link, target => 'file' }
    ";
    let (found, _) = alike(manifest, |root| {
        write(&root.join("file"), "old\n");
        for name in ["present-file", "kept-file", "file-to-directory", "file-to-link"] {
            write(&root.join(name), "old");
        }
        for name in ["directory", "present-directory", "kept-directory"] {
            write(&root.join(name).join("below"), "x");
        }
        for name in ["present-link", "present-copied", "kept-link", "kept-target", "link-to-file"] {
            symlink("file", root.join(name)).unwrap();
        }
        symlink("nowhere", root.join("present-broken")).unwrap();
        symlink("directory", root.join("link-to-directory")).unwrap();
    });
    assert_eq!(found[Path::new("file")].1, "old\n");
    assert_eq!(found[Path::new("directory/below")].1, "x");
}

#[test]
fn a_link_that_appears_later_is_repaired() {
    let place = tempfile::tempdir().unwrap();
    let (file, other) = (place.path().join("file"), place.path().join("other"));
    write(&other, "other\n");
    let code = format!("file {{ '{}': content => \"right\\n\" }}", file.display());
    let run = RunningProgram::start(&["run", "--tmp-prefix", "puppet", &code]);
    holds(&file, "right\n");
    let aside = place.path().join("aside");
    symlink(&other, &aside).unwrap();
    std::fs::rename(&aside, &file).unwrap();
    program::eventually("the file", || file.symlink_metadata().is_ok_and(|found| found.is_file()));
    holds(&file, "right\n");
    holds(&other, "other\n");
    run.signal(Signal::INT);
    let (code, lines) = run.end();
    assert_eq!(code, Some(0), "{lines}");
}

#[test]
fn keys_that_are_managed_are_not_purged() {
    let key = "AAAAC3NzaC1lZDI1NTE5AAAAIOo1oDdOUgfGmHF5lFbSB5S82i2WY6azXvyagbwuBPqg";
    let manifest = format!(
        "user {{ 'root': ensure => present, purge_ssh_keys => ['ROOT/keys'] }}\n\
         ssh_authorized_key {{ 'mine': user => 'root', type => 'ssh-ed25519', key => '{key}', target => 'ROOT/keys' }}\n"
    );
    let (found, _) = alike(&manifest, |root| {
        let other = key.replace('O', "P");
        write(&root.join("keys"), &format!("ssh-ed25519 {other} stranger\nssh-ed25519 {key} mine\n"));
        std::fs::set_permissions(root.join("keys"), std::os::unix::fs::PermissionsExt::from_mode(0o600))
            .unwrap();
    });
    let keys = &found[Path::new("keys")].1;
    assert!(keys.contains(" mine") && !keys.contains("stranger"), "{keys}");
}

#[test]
fn a_command_speaks_the_language_that_it_is_given() {
    let manifest = r"
        exec { 'told': command => 'echo $LANG $LC_ALL > ROOT/told', environment => ['LANG=C.UTF-8'], provider => shell, creates => 'ROOT/told', path => '/bin' }
    ";
    let (found, _) = alike(manifest, |_| {});
    assert_eq!(found[Path::new("told")].1, "C.UTF-8\n");
}

#[test]
fn a_notification_ends_where_nobody_takes_notice_of_it() {
    let manifest = r"
        file { 'ROOT/changed': content => 'new' } ~> concat_fragment { 'f': target => 'ROOT/whole', content => 'x' }
        ~> exec { 'told': command => '/usr/bin/touch ROOT/told', refreshonly => true }
        concat_file { 'ROOT/whole': mode => '0644' }
        File['ROOT/changed'] ~> anchor { 'a': } ~> exec { 'heard': command => '/usr/bin/touch ROOT/heard', refreshonly => true }
        File['ROOT/changed'] ~> schedule { 's': } ~> exec { 'lost': command => '/usr/bin/touch ROOT/lost', refreshonly => true }
    ";
    let (found, _) = alike(manifest, |_| {});
    let names: Vec<_> = found.keys().map(|path| path.display().to_string()).collect();
    assert!(!names.contains(&"told".to_owned()) && !names.contains(&"lost".to_owned()), "{names:?}");
}

#[test]
fn sources_of_fragments_and_sources_that_come_to_be_are_followed() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    write(&at("fragment"), "one\n");
    write(&at("second"), "second\n");
    let code = "concat_file { 'ROOT/whole': } concat_fragment { 'a': target => 'ROOT/whole', source => 'ROOT/fragment' }\n\
                file { 'ROOT/copy': source => ['ROOT/first', 'ROOT/second'] }";
    let code = code.replace("ROOT", place.path().to_str().unwrap());
    let run = RunningProgram::start(&["run", "--tmp-prefix", "puppet", &code]);
    holds(&at("whole"), "one\n");
    holds(&at("copy"), "second\n");
    write(&at("fragment"), "two\n");
    holds(&at("whole"), "two\n");
    write(&at("first"), "first\n");
    holds(&at("copy"), "first\n");
    std::fs::remove_file(at("first")).unwrap();
    holds(&at("copy"), "second\n");
    run.signal(Signal::INT);
    let (code, lines) = run.end();
    assert_eq!(code, Some(0), "{lines}");
}

#[test]
fn a_change_is_told_at_the_level_that_its_resource_names() {
    let manifest = r"
        file { 'ROOT/quiet': content => 'x', loglevel => debug }
        file { 'ROOT/usual': content => 'x' }
        file { 'ROOT/loud': content => 'x', loglevel => warning }
    ";
    let (_, said) = alike(manifest, |_| {});
    let level = |name: &str| -> Option<String> {
        let line =
            said.lines().find(|line| line.contains(&format!("/{name}]")) && line.contains("changed in"))?;
        ["debug", "info", "warn"]
            .into_iter()
            .find(|level| line.to_lowercase().contains(level))
            .map(str::to_owned)
    };
    assert_eq!(level("quiet"), None, "{said}");
    assert_eq!(level("usual").as_deref(), Some("info"), "{said}");
    assert_eq!(level("loud").as_deref(), Some("warn"), "{said}");
}

#[test]
fn a_purge_spares_what_is_left_to_puppet() {
    let manifest = "\
        file { 'ROOT/d': ensure => directory, recurse => true, purge => true, force => true }\n\
        file { 'a title': path => 'ROOT/d/mode', mode => '0600' }\n\
        file { 'ROOT/d/audited': content => 'x', audit => 'mode' }\n\
        concat { 'ROOT/d/yaml': format => yaml }\n\
        concat::fragment { 'f': target => 'ROOT/d/yaml', content => 'a: 1' }\n\
        concat { 'ROOT/d/plain': }\n\
        concat::fragment { 'g': target => 'ROOT/d/plain', content => 'a' }\n";
    for was_right in [false, true] {
        let (found, said) = alike(manifest, |root| {
            write(&root.join("d/mode"), "kept");
            write(&root.join("d/stray"), "stray");
            write(&root.join("d/deep/stray"), "stray");
            if was_right {
                write(&root.join("d/yaml"), "---\na: 1\n");
                write(&root.join("d/audited"), "x");
            }
        });
        let names: Vec<String> = found.keys().map(|path| path.display().to_string()).collect();
        assert_eq!(names, ["", "d", "d/audited", "d/mode", "d/plain", "d/yaml"], "{said}");
        assert_eq!(found[Path::new("d/mode")].1, "kept");
    }
}

/// A type of a module whose path has a name of its own, one that makes files of which only its Ruby knows, one that adds endings to its path, and one
/// that takes several paths in one text.
const TYPES: [(&str, &str); 4] = [
    (
        "mark",
        "Puppet::Type.newtype(:mark) do\n  ensurable\n  newparam(:name, namevar: true)\n  newparam(:whereabouts)\n  provide(:ruby) do\n    \
         def exists?; File.exist?(resource[:whereabouts]['at']); end\n    \
         def create; File.write(resource[:whereabouts]['at'], 'made'); end\n    \
         def destroy; end\n  end\nend\n",
    ),
    (
        "maker",
        "Puppet::Type.newtype(:maker) do\n  newparam(:name, namevar: true)\n  newparam(:parts)\n  def generate\n    \
         self[:parts].split(':').map { |at| Puppet::Type.type(:file).new(path: at, content: 'made', catalog: catalog) }\n  end\nend\n",
    ),
    (
        "pair",
        "Puppet::Type.newtype(:pair) do\n  ensurable\n  newparam(:path, namevar: true)\n  provide(:ruby) do\n    \
         def all; %w[.key .crt].map { |ending| resource[:path] + ending }; end\n    \
         def exists?; all.all? { |at| File.exist?(at) }; end\n    \
         def create; all.each { |at| File.write(at, 'made') }; end\n    \
         def destroy; end\n  end\nend\n",
    ),
    (
        "several",
        "Puppet::Type.newtype(:several) do\n  ensurable\n  newparam(:name, namevar: true)\n  newparam(:files)\n  newparam(:uri)\n  provide(:ruby) do\n    \
         def all; resource[:files].split(',') + [resource[:uri].delete_prefix('file://')]; end\n    \
         def exists?; all.all? { |at| File.exist?(at) }; end\n    \
         def create; all.each { |at| File.write(at, 'made') }; end\n    \
         def destroy; end\n  end\nend\n",
    ),
];

#[test]
fn no_purge_removes_what_a_type_of_a_module_manages_or_generates() {
    for ignored in ["", ", ignore => '*.swp'"] {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        let root = at("root").display().to_string();
        let manifest = format!(
            "file {{ 'ROOT/d': ensure => directory, recurse => true, purge => true, force => true{ignored} }}\n\
             mark {{ 'm': ensure => present, whereabouts => {{ 'at' => 'ROOT/d/mark' }}, require => File['ROOT/d'] }}\n\
             maker {{ 'k': parts => 'ROOT/d/one:ROOT/d/two', require => File['ROOT/d'] }}\n\
             file {{ 'ROOT/d/native': content => 'x' }}\n\
             file {{ 'ROOT/d/copied': ensure => directory, recurse => true, source => 'ROOT/source' }}\n\
             exec {{ 'e': command => '/bin/touch ROOT/d/created', creates => 'ROOT/d/created', require => File['ROOT/d'] }}\n"
        );
        write(&at("site/manifests/site.pp"), &manifest.replace("ROOT", &root));
        for (name, text) in TYPES {
            write(&at(&format!("site/modules/m/lib/puppet/type/{name}.rb")), text);
        }
        write(&at("root/source/deep/x"), "x");
        // A host that is right but for one file.
        for name in ["mark", "one", "two", "stray"] {
            write(&at(&format!("root/d/{name}")), "made");
        }
        write(&at("root/d/stray.swp"), "");
        let run = || {
            let site = at("site").display().to_string();
            mgmt_output(&[&ONCE[..], &["--detailed-exitcode", "puppet", &site]].concat())
        };
        let first = run();
        assert_eq!(first.code, 2, "{}", first.stderr);
        assert!(!first.stderr.contains("P0206"), "{}", first.stderr);
        let found = tree(&at("root/d"));
        let names: Vec<String> = found.keys().map(|path| path.display().to_string()).collect();
        let mut expected =
            vec!["", "copied", "copied/deep", "copied/deep/x", "created", "mark", "native", "one"];
        expected.extend(Some("stray.swp").filter(|_| !ignored.is_empty()));
        expected.push("two");
        assert_eq!(names, expected, "{}", first.stderr);
        let stamps = |name: &str| at(name).metadata().unwrap().ino();
        let before = ["root/d/mark", "root/d/one", "root/d/native", "root/d/copied/deep/x"].map(stamps);
        let second = run();
        assert_eq!(second.code, 0, "{}", second.stderr);
        assert_eq!(tree(&at("root/d")), found);
        let after = ["root/d/mark", "root/d/one", "root/d/native", "root/d/copied/deep/x"].map(stamps);
        assert_eq!(before, after, "something was removed and made again");
    }
}

/// Types whose files are composed of several parameters: by the type alone, and by a provider with a method that says so.
const COMPOSING: [(&str, &str); 2] = [
    (
        "repo",
        "Puppet::Type.newtype(:repo) do\n  ensurable\n  newparam(:name, namevar: true)\n  newparam(:dir)\n  provide(:ruby) do\n    \
         def at; File.join(resource[:dir], \"#{resource[:name]}.repo\"); end\n    \
         def exists?; File.exist?(at); end\n    \
         def create; File.write(at, 'made'); end\n    \
         def destroy; end\n  end\nend\n",
    ),
    (
        "option",
        "Puppet::Type.newtype(:option) do\n  ensurable\n  newparam(:name, namevar: true)\n  provide(:ruby) do\n    \
         def file_path; \"ROOT/e/#{resource[:name]}.conf\"; end\n    \
         def exists?; File.exist?(file_path); end\n    \
         def create; File.write(file_path, 'made'); end\n    \
         def destroy; end\n  end\nend\n",
    ),
];

#[test]
fn no_purge_removes_what_a_type_of_a_module_composes_of_several_parameters() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let root = at("root").display().to_string();
    let manifest = "\
        file { ['ROOT/d', 'ROOT/e', 'ROOT/f']: ensure => directory, recurse => true, purge => true, force => true }\n\
        repo { 'one': ensure => present, dir => 'ROOT/d', require => File['ROOT/d'] }\n\
        option { 'two': ensure => present, require => File['ROOT/e'] }\n";
    write(&at("site/manifests/site.pp"), &manifest.replace("ROOT", &root));
    for (name, text) in COMPOSING {
        write(&at(&format!("site/modules/m/lib/puppet/type/{name}.rb")), &text.replace("ROOT", &root));
    }
    for name in ["d", "e", "f"] {
        write(&at(&format!("root/{name}/stray")), "");
    }
    for (run, code) in [("first", 2), ("second", 0)] {
        let site = at("site").display().to_string();
        let said = mgmt_output(&[&ONCE[..], &["--detailed-exitcode", "puppet", &site]].concat());
        assert_eq!(said.code, code, "{run}: {}", said.stderr);
        let found = tree(&at("root"));
        let names: Vec<String> = found.keys().map(|path| path.display().to_string()).collect();
        assert_eq!(names, ["", "d", "d/one.repo", "d/stray", "e", "e/two.conf", "f"], "{}", said.stderr);
        let told = said.stderr.lines().filter(|line| line.contains("P0206")).count();
        assert_eq!(told, 1, "{}", said.stderr);
    }
}

#[test]
fn a_copied_directory_leaves_the_directories_of_other_resources_alone_as_with_puppet() {
    let begin = |root: &Path| {
        write(&root.join("s/plain/x"), "s");
        write(&root.join("s/copied/x"), "s");
        write(&root.join("t/y"), "t");
        write(&root.join("d/plain/local"), "local");
        write(&root.join("d/copied/stray"), "");
        write(&root.join("d/stray"), "");
    };
    let manifest = "\
        file { 'ROOT/d': ensure => directory, recurse => true, purge => true, force => true, source => 'ROOT/s' }\n\
        file { 'ROOT/d/plain': ensure => directory }\n\
        file { 'ROOT/d/copied': ensure => directory, recurse => true, purge => true, force => true, source => 'ROOT/t' }\n";
    let (found, _) = alike(manifest, begin);
    let names: Vec<&str> = found.keys().filter_map(|path| path.strip_prefix("d").ok()?.to_str()).collect();
    assert_eq!(names, ["", "copied", "copied/y", "plain", "plain/local"]);
}

/// A type that removes every rule that the catalogue does not have.
const PURGER: [(&str, &str); 2] = [
    (
        "rule",
        "Puppet::Type.newtype(:rule) do\n  ensurable\n  newparam(:name, namevar: true)\n  provide(:ruby) do\n    \
         def self.table; 'ROOT/table'; end\n    \
         def self.lines; File.exist?(table) ? File.readlines(table, chomp: true) : []; end\n    \
         def self.instances; lines.map { |name| new(name: name, ensure: :present) }; end\n    \
         def exists?; self.class.lines.include?(resource[:name]); end\n    \
         def create; File.write(self.class.table, \"#{resource[:name]}\\n\", mode: 'a'); end\n    \
         def destroy; File.write(self.class.table, (self.class.lines - [resource[:name]]).map { |it| \"#{it}\\n\" }.join); end\n  end\nend\n",
    ),
    (
        "chain",
        "Puppet::Type.newtype(:chain) do\n  newparam(:name, namevar: true)\n  newparam(:purge)\n  def generate\n    \
         self[:purge] ? Puppet::Type.type(:rule).instances.each { |it| it[:ensure] = :absent } : []\n  end\nend\n",
    ),
];

#[test]
fn a_type_that_removes_what_is_not_declared_spares_the_objects_of_other_resources() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let manifest = "chain { 'input': purge => true }\n\
                    rule { ['ssh', 'web']: ensure => present }\n\
                    file { 'ROOT/x': content => 'x', backup => '.old', audit => 'owner' }\n";
    let root = at("root").display().to_string();
    write(&at("site/manifests/site.pp"), &manifest.replace("ROOT", &root));
    for (name, text) in PURGER {
        write(&at(&format!("site/modules/m/lib/puppet/type/{name}.rb")), &text.replace("ROOT", &root));
    }
    write(&at("root/table"), "ssh\nstray\nweb\n");
    for (run, code) in [("first", 2), ("second", 0)] {
        let site = at("site").display().to_string();
        let said = mgmt_output(&[&ONCE[..], &["--detailed-exitcode", "puppet", &site]].concat());
        assert_eq!(said.code, code, "{run}: {}", said.stderr);
        // A rule that had been removed would have been added at the end again.
        assert_eq!(
            std::fs::read_to_string(at("root/table")).unwrap(),
            "ssh\nweb\n",
            "{run}: {}",
            said.stderr
        );
        assert!(!said.stderr.contains("pippet[Rule[ssh]]: "), "{run}: {}", said.stderr);
    }
}

/// What `unless` asks for, what output goes to, keys of an account and the copies of contents that were there before.
#[test]
fn no_purge_removes_what_resources_make_without_a_parameter_for_it() {
    for ignored in ["", ", ignore => '*.swp'"] {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        let root = at("root").display().to_string();
        let manifest = format!(
            "file {{ 'ROOT/d': ensure => directory, recurse => true, purge => true, force => true{ignored} }}\n\
             exec {{ 'a': command => '/bin/touch ROOT/d/asked', unless => '/usr/bin/test -e ROOT/d/asked', require => File['ROOT/d'] }}\n\
             exec {{ 'b': command => '/bin/echo x > ROOT/d/written', onlyif => '/usr/bin/test ! -e ROOT/d/written', require => File['ROOT/d'] }}\n\
             file {{ 'ROOT/other/../d/back': content => 'x' }}\n\
             file {{ 'ROOT/other': ensure => directory }}\n"
        );
        write(&at("site.pp"), &manifest.replace("ROOT", &root));
        for name in ["asked", "written", "back", "stray"] {
            write(&at(&format!("root/d/{name}")), "x");
        }
        std::fs::create_dir(at("root/other")).unwrap();
        let inodes = || {
            ["asked", "written", "back"].map(|name| at(&format!("root/d/{name}")).metadata().unwrap().ino())
        };
        let before = inodes();
        for (run, code) in [("first", 2), ("second", 0)] {
            let file = at("site.pp").display().to_string();
            let said = mgmt_output(&[&ONCE[..], &["--detailed-exitcode", "puppet", &file]].concat());
            assert_eq!(said.code, code, "{run}: {}", said.stderr);
            assert_eq!(inodes(), before, "{run}: {}", said.stderr);
            assert!(!at("root/d/stray").exists(), "{run}: {}", said.stderr);
        }
    }
}

/// Numbers that look random and come again with the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Random manifests with purging directories, native resources and such that are left to Puppet, on hosts that are right but for files of nobody: those go,
/// and nothing that is declared is ever removed, not even to be made again.
#[test]
fn no_random_manifest_loses_a_declared_path() {
    let mut strays = 0;
    for seed in 0..12 {
        let mut random = Random(seed);
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        let root = at("root").display().to_string();
        let (mut manifest, mut declared) = (String::new(), Vec::new());
        let directories = ["d", "d/sub", "e"];
        let mut purged = Vec::new();
        for directory in directories {
            std::fs::create_dir_all(at("root").join(directory)).unwrap();
            // With `ignore`, the directory is left to Puppet.
            let ignored = if random.below(2) == 0 { ", ignore => '*.swp'" } else { "" };
            let purge =
                if random.below(4) == 0 { "" } else { ", recurse => true, purge => true, force => true" };
            let options = if purge.is_empty() { String::new() } else { format!("{purge}{ignored}") };
            manifest += &format!("file {{ 'ROOT/{directory}': ensure => directory{options} }}\n");
            purged.extend(Some(directory).filter(|_| !purge.is_empty()));
        }
        // Another way to the same place.
        std::os::unix::fs::symlink(at("root/e"), at("root/way")).unwrap();
        for number in 0..10 + random.below(10) {
            let directory = directories[usize::try_from(random.below(3)).unwrap()];
            let path = format!("{directory}/x{number}");
            let require = format!("require => File['ROOT/{directory}']");
            let (text, content) = match random.below(15) {
                0 => (format!("file {{ 'ROOT/{path}': content => 'x' }}"), "x"),
                1 => (format!("file {{ 'r{number}': path => 'ROOT//{path}', content => 'x' }}"), "x"),
                2 => (format!("file {{ 'ROOT/{path}': mode => '0644' }}"), "x"),
                3 => (
                    format!(
                        "file_line {{ 'r{number}': path => 'ROOT/{path}', line => 'x', match => '^(?=x)', {require} }}"
                    ),
                    "x\n",
                ),
                4 => (
                    format!(
                        "mark {{ 'r{number}': ensure => present, whereabouts => {{ 'at' => 'ROOT/{path}' }}, {require} }}"
                    ),
                    "made",
                ),
                5 => (
                    format!("maker {{ 'r{number}': parts => 'ROOT/{path}:ROOT/{path}b', {require} }}"),
                    "made",
                ),
                6 => (
                    format!(
                        "exec {{ 'r{number}': command => '/bin/touch ROOT/{path} ROOT/{path}b', creates => ['ROOT/{path}', 'ROOT/{path}b'], {require} }}"
                    ),
                    "",
                ),
                7 => (format!("user {{ 'r{number}': ensure => absent, home => 'ROOT/{path}' }}"), ""),
                8 => (
                    format!(
                        "augeas {{ 'r{number}': incl => '/etc/hosts', lens => 'Hosts.lns', context => '/files/ROOT/{path}/main', changes => ['set port 2'], onlyif => 'match /files/nothing size > 5' }}"
                    ),
                    "[main]\n",
                ),
                9 => (
                    format!(
                        "augeas {{ 'r{number}': incl => '/etc/hosts', lens => 'Hosts.lns', changes => ['set /files/ROOT/{path}/main/port 2'], onlyif => 'match /files/nothing size > 5' }}"
                    ),
                    "[main]\n",
                ),
                10 => (
                    format!("file {{ 'ROOT/{path}': content => 'x', backup => 'b', audit => 'owner' }}"),
                    "x",
                ),
                11 => (format!("file {{ 'ROOT/way/x{number}': content => 'x' }}"), "x"),
                12 => (format!("pair {{ 'ROOT/{path}': ensure => present, {require} }}"), "made"),
                13 => (
                    format!(
                        "several {{ 'r{number}': ensure => present, files => 'ROOT/{path},ROOT/{path}b', uri => 'file://ROOT/{path}c', {require} }}"
                    ),
                    "made",
                ),
                _ => (
                    format!(
                        "exec {{ 'r{number}': command => '/bin/touch ROOT/{path}', creates => 'ROOT/{path}', {require} }}"
                    ),
                    "",
                ),
            };
            let (path, endings): (String, &[&str]) = match text.split(' ').next() {
                Some("maker" | "exec") => (path, &["", "b"]),
                Some("several") => (path, &["", "b", "c"]),
                Some("pair") => (path, &[".key", ".crt"]),
                _ if text.contains("ROOT/way/") => (format!("e/x{number}"), &[""]),
                _ if text.contains("backup =>") => (path, &["", ".orig"]),
                _ => (path, &[""]),
            };
            let text = text.replace("backup => 'b'", "backup => '.orig'");
            let single = text.starts_with("exec") && !text.contains("creates => [");
            let endings = if single { &endings[..1] } else { endings };
            for path in endings.iter().map(|ending| format!("{path}{ending}")) {
                write(&at("root").join(&path), content);
                declared.push(path);
            }
            manifest += &format!("{text}\n");
        }
        for directory in &purged {
            write(&at("root").join(directory).join("stray"), "");
            strays += 1;
        }
        write(&at("site/manifests/site.pp"), &manifest.replace("ROOT", &root));
        for (name, text) in TYPES {
            write(&at(&format!("site/modules/m/lib/puppet/type/{name}.rb")), text);
        }
        let seen = || -> Vec<(String, Option<u64>)> {
            let inode = |path: &String| at("root").join(path).metadata().ok().map(|stat| stat.ino());
            declared.iter().map(|path| (path.clone(), inode(path))).collect()
        };
        let before = seen();
        let run = mgmt_output(&[&ONCE[..], &["puppet", at("site").to_str().unwrap()]].concat());
        assert_eq!(run.code, 0, "seed {seed}: {}\n{manifest}", run.stderr);
        assert_eq!(seen(), before, "seed {seed}: {}\n{manifest}", run.stderr);
        for directory in purged {
            assert!(
                !at("root").join(directory).join("stray").exists(),
                "seed {seed}: {}\n{manifest}",
                run.stderr
            );
        }
    }
    assert!(strays > 8, "{strays}");
}

#[test]
fn settings_and_matched_lines_end_up_as_with_puppet_and_are_native() {
    let manifest = r#"
        Ini_setting { path => 'ROOT/a.ini', section => 'one' }
        ini_setting { 'new section': section => 'three', setting => 'k', value => 'v' }
        -> ini_setting { 'changed': setting => 'old', value => 'new value' }
        -> ini_setting { 'behind a comment': setting => 'commented', value => '5' }
        -> ini_setting { 'added': setting => 'added', value => true, key_val_separator => '=' }
        -> ini_setting { 'before all sections': section => '', setting => 'global', value => 'g' }
        -> ini_setting { 'gone': ensure => absent, setting => 'gone' }
        -> ini_setting { 'gone with its section': ensure => absent, section => 'two', setting => 'only' }
        -> ini_setting { 'indented': setting => 'deep', value => 'x', indent_char => "\t", indent_width => 2 }
        -> ini_setting { 'in a new file': path => 'ROOT/new.ini', setting => 'a', value => 1 }
        ini_setting { 'with colons': path => 'ROOT/colons', section => '', setting => 'a b', value => 'c', key_val_separator => ': ' }
        ini_subsetting { 'memory': path => 'ROOT/java', section => '', key_val_separator => '=', setting => 'ARGS', subsetting => '-Xmx', value => '512m' }
        -> ini_subsetting { 'flag': path => 'ROOT/java', section => '', key_val_separator => '=', setting => 'ARGS', subsetting => '-server', insert_type => 'start' }
        -> ini_subsetting { 'list': path => 'ROOT/java', section => '', key_val_separator => '=', setting => 'LIST', subsetting => 'b', subsetting_separator => ',', quote_char => '"', use_exact_match => true }
        file_line { 'matched': path => 'ROOT/lines', line => 'PermitRootLogin no', match => '^#?\s*PermitRootLogin\s' }
        -> file_line { 'behind': path => 'ROOT/lines', line => 'added', after => '^\[s\]$' }
        -> file_line { 'several': path => 'ROOT/lines', line => 'x=1', match => '^x=', multiple => true }
        -> file_line { 'not there': path => 'ROOT/lines', line => 'q=1', match => '^q=', append_on_no_match => false }
        -> file_line { 'kept': path => 'ROOT/lines', line => 'kept=2', match => '^kept=', replace => false }
        -> file_line { 'removed': ensure => absent, path => 'ROOT/lines', match => '^remove', match_for_absence => true }
        file { 'ROOT/labelled': content => 'x', seltype => 'etc_t', selinux_ignore_defaults => true }
    "#;
    let (found, _) = alike(manifest, |root| {
        let ini = "# top\n[one]\n  old = 1\n; commented = 4\ngone=1\n\n[two]\nonly = 1\n[four]\na = b\n";
        write(&root.join("a.ini"), ini);
        write(&root.join("colons"), "a b: x\nother: y\n");
        write(&root.join("java"), "ARGS=\"-Xmx1g  -a\"\n");
        let lines = "# PermitRootLogin yes\n[s]\nx=2\nx=3\nkept=1\nremove me\nlast";
        write(&root.join("lines"), lines);
    });
    assert!(found[Path::new("a.ini")].1.contains("\n[three]\nk = v\n"), "{:?}", found[Path::new("a.ini")]);
    assert!(
        found[Path::new("lines")].1.contains("PermitRootLogin no\n[s]\nadded\n"),
        "{:?}",
        found[Path::new("lines")]
    );
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("site.pp");
    let service = "service { 'nowhere': ensure => running, hasstatus => false }\n";
    write(&file, &format!("{}{service}", manifest.replace("ROOT", "/tmp/nowhere")));
    let stats = mgmt_output(&["puppet", "stats", file.to_str().unwrap()]);
    assert!(stats.stdout.contains("      0 left to Puppet\n"), "{}{}", stats.stdout, stats.stderr);
}
