//! What becomes of resources.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::LazyLock;

use mgmt_puppet::{Level, Outcome, TranslateOptions, Translated, translate};
use mgmt_puppet_process::{Input, Puppet, Settings};
use mgmt_resource::Spec;
use mgmt_resources::KINDS;
use mgmt_value::Value;
use tokio::runtime::Runtime;

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());
static PUPPET: LazyLock<Puppet> = LazyLock::new(|| Puppet::new(Settings::default()));

fn translated_with(input: &Input, options: &TranslateOptions) -> Translated {
    let compiled = RUNTIME.block_on(PUPPET.compile_warm(input));
    translate(&compiled.unwrap_or_else(|error| panic!("{input:?}\n{error}")), &KINDS, options)
}

fn translated(code: &str) -> Translated {
    let translated = translated_with(&Input::Code(code.to_owned()), &TranslateOptions::default());
    assert!(translated.graph.is_some(), "{code}\n{:#?}", translated.diagnostics);
    translated
}

/// A resource of the graph by its name.
fn spec<'t>(translated: &'t Translated, name: &str) -> &'t Spec {
    let graph = translated.graph.as_ref().unwrap();
    let found = graph.nodes().find(|(_, spec)| spec.id.to_string() == name);
    found
        .unwrap_or_else(|| {
            panic!("{name} is not in {:?}", graph.nodes().map(|(_, s)| &s.id).collect::<Vec<_>>())
        })
        .1
}

/// The only resource of a manifest that is more than an end of a container, with the fields that are not as usual.
fn one(code: &str) -> String {
    let translated = translated(code);
    let graph = translated.graph.as_ref().unwrap();
    let mut specs = graph.nodes().map(|(_, spec)| spec).filter(|spec| spec.id.kind != "noop");
    let found = specs.next().unwrap_or_else(|| panic!("{code}"));
    assert!(specs.next().is_none(), "{code}");
    shown(found)
}

fn shown(spec: &Spec) -> String {
    let usual = (spec.resource.schema().make)();
    let mut text = spec.id.to_string();
    for field in spec.resource.schema().fields {
        let value = spec.resource.get(field.name).unwrap();
        if Some(&value) != usual.get(field.name).as_ref() {
            text.push_str(&format!(" {}={}", field.name, plain(&value)));
        }
    }
    text
}

fn plain(value: &Value) -> String {
    match value {
        Value::Str(text) => text.display().to_string(),
        other => other.to_string(),
    }
}

/// Why a resource is left to Puppet.
fn left(code: &str) -> String {
    let translated = translated(code);
    let reasons = translated.decisions.iter().find_map(|decision| match &decision.outcome {
        Outcome::Puppet(reasons) => {
            Some(reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
        }
        _ => None,
    });
    reasons.unwrap_or_else(|| panic!("{code}: {:?}", translated.decisions))
}

#[test]
fn files() {
    for (code, expected) in [
        (
            "file { '/tmp/a': content => \"x\\n\", mode => '644' }",
            "file[/tmp/a] path=/tmp/a state=exists content=x\\n mode=0644",
        ),
        ("file { '/tmp/a': ensure => file }", "file[/tmp/a] path=/tmp/a state=exists"),
        (
            "file { '/tmp/a': ensure => present, content => '' }",
            "file[/tmp/a] path=/tmp/a state=exists content=",
        ),
        ("file { 'x': path => '/tmp//a/', ensure => absent }", "file[x] path=/tmp/a state=absent"),
        (
            "file { '/tmp/a': ensure => directory, mode => '0640', owner => 0, group => 'us' }",
            "file[/tmp/a] path=/tmp/a/ state=exists owner=0 group=us mode=0750",
        ),
        (
            "file { '/tmp/a': ensure => link, target => '../b' }",
            "file[/tmp/a] path=/tmp/a state=exists source=../b symlink=true",
        ),
        (
            "file { '/tmp/a': ensure => '/b', force => true }",
            "file[/tmp/a] path=/tmp/a state=exists source=/b force=true symlink=true",
        ),
        (
            "file { '/tmp/a': source => '/nowhere/b' }",
            "file[/tmp/a] path=/tmp/a state=exists source=/nowhere/b",
        ),
        (
            "file { '/tmp/a': source => 'file:///nowhere/b' }",
            "file[/tmp/a] path=/tmp/a state=exists source=/nowhere/b",
        ),
        (
            "file { '/tmp/a/b': ensure => directory, recurse => true, purge => true, force => true }",
            "file[/tmp/a/b] path=/tmp/a/b/ state=exists recurse=true force=true purge=true",
        ),
    ] {
        assert_eq!(one(code), expected, "{code}");
    }
    for (code, expected) in [
        ("file { '/tmp/a': mode => '0644' }", "`ensure` is not given"),
        ("file { '/tmp/a': content => 'x', mode => 'u+x' }", "`mode` changes single permissions"),
        ("file { '/tmp/a': content => 'x', replace => false }", "`replace`"),
        (
            "file { '/tmp/a': content => 'x', validate_cmd => '/bin/true %' }",
            "`validate_cmd` has no counterpart",
        ),
        ("file { '/tmp/a': content => 'x', backup => '.old' }", "`backup`"),
        ("file { '/tmp/a': source => 'https://example.com/a' }", "`source` is not on this host"),
        (
            "file { '/tmp/a': ensure => directory, recurse => true, owner => 'me' }",
            "`recurse` gives everything below",
        ),
        ("file { '/tmp/a': ensure => absent, force => true }", "`force`"),
    ] {
        assert!(left(code).contains(expected), "{code}: {}", left(code));
    }
}

#[test]
fn defect_3_the_source_of_a_file_is_not_dropped() {
    let place = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str, mode: u32| {
        let path = place.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path.display().to_string()
    };
    let usual = write("modules/m/files/a/usual", "one", 0o644);
    write("modules/m/files/program", "two", 0o755);
    write(
        "manifests/site.pp",
        "file { '/tmp/a': source => ['puppet:///modules/m/none', 'puppet:///modules/m/a/usual'] }\n\
         file { '/tmp/b': source => 'puppet:///modules/m/program' }\n\
         file { '/tmp/c': source => 'puppet:///modules/m/program', mode => '0700' }",
        0o644,
    );
    let translated =
        translated_with(&Input::Environment(place.path().to_owned()), &TranslateOptions::default());
    assert_eq!(
        shown(spec(&translated, "file[/tmp/a]")),
        format!("file[/tmp/a] path=/tmp/a state=exists source={usual}")
    );
    // Puppet does not copy the mode, and a copy of ours would.
    assert_eq!(shown(spec(&translated, "file[/tmp/b]")), "file[/tmp/b] path=/tmp/b state=exists content=two");
    assert!(shown(spec(&translated, "file[/tmp/c]")).ends_with("modules/m/files/program mode=0700"));
}

#[test]
fn commands() {
    let env = "env={\"LANG\": \"C\", \"LC_ALL\": \"C\", \"PATH\": \"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\"}";
    for (code, expected) in [
        ("exec { '/bin/a b': }", format!("exec[/bin/a b] cmd=/bin/a b shell=/bin/sh {env}")),
        (
            "exec { 'x': command => 'a', path => ['/x', '/y'], environment => ['A=b=c'] }",
            "exec[x] cmd=a shell=/bin/sh env={\"A\": \"b=c\", \"LANG\": \"C\", \"LC_ALL\": \"C\", \"PATH\": \"/x:/y\"}".to_owned(),
        ),
        ("exec { 'x': command => ['/bin/a', 'b c'] }", format!("exec[x] cmd=/bin/a args=[\"b c\"] {env}")),
        ("exec { 'x': command => ['a', 'b'], path => '/x' }", "exec[x] cmd=/usr/bin/env args=[\"a\", \"b\"] env={\"LANG\": \"C\", \"LC_ALL\": \"C\", \"PATH\": \"/x\"}".to_owned()),
        ("exec { '/bin/a': creates => '/b', cwd => '/c' }", format!("exec[/bin/a] cmd=/bin/a cwd=/c shell=/bin/sh {env} ifcwd=/c nifcwd=/c creates=/b")),
        (
            "exec { '/bin/a': onlyif => ['/bin/b', ['/bin/c', \"it's\"]], unless => '/bin/d' }",
            format!("exec[/bin/a] cmd=/bin/a shell=/bin/sh {env} ifcmd=(\\n/bin/b\\n) && (\\n'/bin/c' 'it'\\''s'\\n) ifshell=/bin/sh nifcmd=/bin/d nifshell=/bin/sh"),
        ),
        ("exec { '/bin/a': creates => ['/b', '/c'] }", format!("exec[/bin/a] cmd=/bin/a shell=/bin/sh {env} nifcmd=(\\ntest -e '/b'\\n) || (\\ntest -e '/c'\\n) nifshell=/bin/sh")),
        ("exec { '/bin/a': umask => '027', returns => [0, 2], user => 'me' }", format!("exec[/bin/a] cmd=umask '027'\\n/bin/a shell=/bin/sh {env} user=me returns=[0, 2]")),
        ("exec { '/bin/a': refreshonly => true }", format!("exec[/bin/a] cmd=/bin/a shell=/bin/sh {env} refreshonly=true")),
    ] {
        assert_eq!(one(code), expected, "{code}");
    }
    assert!(left("exec { '/bin/a': refresh => '/bin/b' }").contains("`refresh` has no counterpart"));
}

#[test]
fn defect_6_commands_that_are_lists_do_not_end_the_translation() {
    let translated = translated(
        "exec { 'a': command => ['/bin/a', 'b'], refresh => '/bin/c', onlyif => [['/bin/d', 'e']] } notify { 'x': }",
    );
    spec(&translated, "pippet[Exec[a]]");
    spec(&translated, "msg[x]");
}

#[test]
fn defect_7_equal_commands_are_two_resources() {
    let translated = translated(
        "exec { 'a': command => '/bin/x', refresh => '/bin/y' } exec { 'b': command => '/bin/x', refresh => '/bin/y' }",
    );
    assert_ne!(spec(&translated, "pippet[Exec[a]]").id, spec(&translated, "pippet[Exec[b]]").id);
}

#[test]
fn defect_8_metaparameters_leave_a_resource_native() {
    let translated = translated(
        "file { '/tmp/a': content => 'x', tag => ['y'], alias => 'z', noop => true, loglevel => debug }",
    );
    assert!(spec(&translated, "file[/tmp/a]").meta.noop);
}

#[test]
fn defect_9_puppet_gets_what_was_compiled() {
    let translated = translated(
        "exec { '/bin/a': umask => '022', refresh => '/bin/b' } tidy { '/tmp/x': age => '1w' } \
         ssh_authorized_key { 'k': user => 'me', type => 'ssh-rsa', key => 'AAAA', ensure => absent }",
    );
    let params = |name: &str| plain(&spec(&translated, name).resource.get("params").unwrap());
    assert!(params("pippet[Exec[/bin/a]]").contains("022"));
    assert!(params("pippet[Tidy[/tmp/x]]").contains("1w"));
}

#[test]
fn defect_10_time_limits_and_repetitions_are_kept() {
    let translated = translated(
        "exec { '/bin/a': timeout => 5, tries => 3, try_sleep => 2 } exec { '/bin/b': timeout => 0 } exec { '/bin/c': }",
    );
    let meta = |name: &str| spec(&translated, name).meta.clone();
    let a = meta("exec[/bin/a]");
    assert_eq!((a.timeout, a.retry, a.delay), (5000, 2, 2000));
    assert_eq!(meta("exec[/bin/b]").timeout, 0);
    assert_eq!(meta("exec[/bin/c]").timeout, 300_000);
}

#[test]
fn defect_11_what_has_no_events_is_looked_at_again() {
    let options = TranslateOptions { interval: 77, ..TranslateOptions::default() };
    let code = "tidy { '/tmp/x': age => '1w' } exec { '/bin/a': } exec { '/bin/b': creates => '/c' } exec { '/bin/d': refreshonly => true }";
    let translated = translated_with(&Input::Code(code.to_owned()), &options);
    let poll = |name: &str| spec(&translated, name).meta.poll;
    assert_eq!(poll("pippet[Tidy[/tmp/x]]"), 77);
    assert_eq!(poll("exec[/bin/a]"), 77);
    assert_eq!((poll("exec[/bin/b]"), poll("exec[/bin/d]")), (0, 0));
}

#[test]
fn packages_and_services() {
    for (code, expected) in [
        ("package { 'a': }", "pkg[a]"),
        ("package { 'x': name => 'a', ensure => latest, provider => 'apt' }", "pkg[a] state=newest"),
        ("package { 'a': ensure => '1.2-3' }", "pkg[a] state=1.2-3 allowdowngrade=true"),
        ("package { 'a': ensure => absent }", "pkg[a] state=uninstalled"),
        (
            "service { 'a': ensure => running, enable => true, hasrestart => true, hasstatus => true }",
            "svc[a] state=running startup=enabled restart=true",
        ),
        (
            "service { 'a.socket': ensure => stopped, enable => false }",
            "svc[a.socket] state=stopped startup=disabled restart=true",
        ),
        ("service { 'a': ensure => false }", "svc[a] state=stopped restart=true"),
    ] {
        assert_eq!(one(code), expected, "{code}");
    }
    for (code, expected) in [
        ("package { 'a': ensure => purged }", "`purged` has no counterpart"),
        ("package { 'a': install_options => ['-x'] }", "`install_options`"),
        ("service { 'a': restart => '/bin/x' }", "`restart` has no counterpart"),
        ("service { 'a': hasstatus => false }", "`hasstatus`"),
    ] {
        assert!(left(code).contains(expected), "{code}: {}", left(code));
    }
}

#[test]
fn defect_14_a_masked_service_is_not_a_disabled_one() {
    assert!(left("service { 'a': enable => mask }").contains("`mask` has no counterpart"));
}

#[test]
fn defect_28_packages_of_other_providers_are_left_to_puppet() {
    assert!(left("package { 'a': provider => 'gem' }").contains("`provider`"));
}

#[test]
fn defect_34_a_service_that_is_notified_is_restarted() {
    assert!(one("service { 'a': ensure => running }").contains("restart=true"));
}

#[test]
fn accounts() {
    for (code, expected) in [
        (
            "user { 'me': ensure => present, uid => '77', gid => 'us', home => '/home/me', shell => '/bin/sh', comment => 'I', managehome => true }",
            "user[me] state=exists uid=77 group=us homedir=/home/me/ shell=/bin/sh comment=I createhome=true movehome=true",
        ),
        (
            "user { 'me': ensure => absent, managehome => true, uid => 7 }",
            "user[me] state=absent removehome=true",
        ),
        (
            "group { 'us': ensure => present, gid => 77, system => true }",
            "group[us] state=exists gid=77 system=true",
        ),
    ] {
        assert_eq!(one(code), expected, "{code}");
    }
    assert!(left("user { 'me': ensure => present, expiry => '2030-01-01' }").contains("`expiry`"));
    assert!(left("group { 'us': ensure => present, members => ['me'] }").contains("`members`"));
}

#[test]
fn defect_15_groups_are_a_minimum_unless_said_otherwise() {
    let code = "user { 'me': ensure => present, groups => ['a', 'b'] }";
    assert_eq!(one(code), "user[me] state=exists groups=[\"a\", \"b\"] othergroups=true");
    let code = "user { 'me': ensure => present, groups => 'a', membership => inclusive }";
    assert_eq!(one(code), "user[me] state=exists groups=[\"a\"]");
}

#[test]
fn defect_18_secrets_are_not_shown() {
    let translated = translated(
        "user { 'me': ensure => present, password => Sensitive('canary1'), expiry => '2030-01-01' } \
         user { 'you': ensure => present, password => Sensitive('canary2') } \
         file { '/tmp/a': content => Sensitive('canary3') }",
    );
    let shown = format!("{translated:?}");
    assert!(!shown.contains("canary"), "{shown}");
    assert!(plain(&spec(&translated, "file[/tmp/a]").resource.get("content").unwrap()) == "canary3");
    let pippet = &spec(&translated, "pippet[User[me]]").resource;
    assert_eq!(pippet.get("sensitive").unwrap().to_string(), "[\"password\"]");
}

#[test]
fn small_types() {
    for (code, expected) in [
        ("notify { 'a': message => 'hello', loglevel => warning }", "msg[a] body=hello priority=Warning"),
        ("notify { 'a': }", "msg[a] body=a priority=Notice"),
        (
            "host { 'h': ip => '192.0.2.1', host_aliases => ['a', 'b'], comment => 'c' }",
            "host[h] state=exists hostname=h ip=192.0.2.1 aliases=[\"a\", \"b\"] comment=c",
        ),
        (
            "file_line { 'l': path => '/etc/x', line => 'a = b' }",
            "line[l] file=/etc/x state=exists content=a = b",
        ),
        (
            "ssh_authorized_key { 'me@here': user => 'me', type => 'ed25519', key => 'AAAAC3NzaC1lZDI1NTE5AAAAIOo1oDdOUgfGmHF5lFbSB5S82i2WY6azXvyagbwuBPqg', options => ['no-pty'] }",
            "ssh:authorized_key[me@here] state=exists user=me options=[\"no-pty\"] type=ssh-ed25519 key=AAAAC3NzaC1lZDI1NTE5AAAAIOo1oDdOUgfGmHF5lFbSB5S82i2WY6azXvyagbwuBPqg comment=me@here",
        ),
    ] {
        assert_eq!(one(code), expected, "{code}");
    }
    assert!(left("cron { 'c': command => 'x', user => 'root' }").contains("no kind does the same"));
    assert!(left("file_line { 'l': path => '/etc/x', line => 'a = b', match => '^a' }").contains("`match`"));
}

#[test]
fn defect_4_the_message_of_a_notify_is_its_message() {
    assert!(one("notify { 'a': message => 'hello' }").contains("body=hello"));
}

#[test]
fn defect_29_options_of_a_mount_are_whole_and_present_is_not_mounted() {
    let code = "mount { '/m': ensure => mounted, device => 'x', fstype => 'tmpfs', options => 'ro,opt=a=b', pass => 0 }";
    assert!(one(code).contains("options={\"opt\": \"a=b\", \"ro\": \"\"}"), "{}", one(code));
    assert!(
        left("mount { '/m': ensure => present, device => 'x', fstype => 'tmpfs' }").contains("`present`")
    );
}

#[test]
fn defect_17_bytes_are_bytes() {
    let translated = translated("file { '/tmp/a': content => Binary('AAH/') }");
    let content = spec(&translated, "file[/tmp/a]").resource.get("content").unwrap();
    let Value::Str(content) = content else { panic!("{content}") };
    assert_eq!(content.as_bytes(), [0, 1, 255]);
}

#[test]
fn defect_13_what_looks_at_the_whole_catalogue_is_computed_or_refused() {
    let translated = translated(
        "concat { '/tmp/c': order => 'numeric', ensure_newline => true } \
         concat::fragment { 'z': target => '/tmp/c', content => 'two', order => 9 } \
         concat::fragment { 'a': target => '/tmp/c', content => \"three\\n\", order => '10' } \
         concat::fragment { 'm': target => '/tmp/c', content => 'one', order => '01' }",
    );
    let content = spec(&translated, "file[/tmp/c]").resource.get("content").unwrap();
    assert_eq!(plain(&content), "one\\ntwo\\nthree\\n");
    for code in [
        "resources { 'host': purge => true }",
        "file { '/tmp/a/b': ensure => directory, recurse => true, purge => true }",
        "file { '/tmp/a/b': ensure => directory, recurse => true, owner => 'me' } file { '/tmp/a/b/c': content => 'x', owner => 'you' }",
        "file { '/tmp/a/b': ensure => directory, recurse => true, source => '/usr/share/doc' } file { '/tmp/a/b/c': content => 'x' }",
        "concat { '/tmp/c': format => 'json' } concat::fragment { 'z': target => '/tmp/c', content => '{}' }",
        "file { '/tmp/a': mode => '0644', schedule => 'daily' } schedule { 'daily': }",
    ] {
        let translated = translated_with(&Input::Code(code.to_owned()), &TranslateOptions::default());
        assert!(translated.graph.is_none(), "{code}");
        assert!(translated.diagnostics.iter().any(|found| found.code == "P0202"), "{code}");
    }
}

#[test]
fn defect_2_notifications_are_in_the_graph() {
    let translated = translated(
        "class a { file { '/tmp/a': content => 'x' } } class b { service { 's': } } include a, b Class['a'] ~> Class['b']",
    );
    let graph = translated.graph.as_ref().unwrap();
    let node =
        |name: &str| graph.nodes().find(|(_, spec)| spec.id.name.as_bytes() == name.as_bytes()).unwrap().0;
    for (from, to) in [
        ("/tmp/a", "completed_Class[A]"),
        ("completed_Class[A]", "admissible_Class[B]"),
        ("admissible_Class[B]", "s"),
    ] {
        assert!(graph.edge(node(from), node(to)).unwrap().notify, "{from} -> {to}");
    }
    // Whoever stands between hands it on.
    let marker = &spec(&translated, "noop[completed_Class[A]]").resource;
    assert_eq!(marker.get("forward"), Some(Value::Bool(true)));
}

#[test]
fn defect_20_cycles_are_told_with_their_places() {
    let code = "notify { 'a': require => Notify['b'] }\nnotify { 'b': require => Notify['a'] }";
    let translated = translated_with(&Input::Code(code.to_owned()), &TranslateOptions::default());
    let cycle = translated.diagnostics.iter().find(|found| found.code == "P0102").unwrap();
    assert!(cycle.message.contains("a (code:1) -> b (code:2) -> a (code:1)"), "{}", cycle.message);
}

#[test]
fn defect_5_a_directory_with_a_source_is_left_to_puppet_whole() {
    let code =
        "file { '/tmp/a': ensure => directory, recurse => true, source => '/usr/share/doc', owner => 'me' }";
    assert!(left(code).contains("`source`"));
}

#[test]
fn defect_32_recursion_may_be_a_word() {
    assert!(
        left("file { '/tmp/a': ensure => directory, recurse => remote, source => '/usr/share/doc' }")
            .contains("`source`")
    );
}

#[test]
fn what_is_left_to_puppet_is_told_once_with_its_place_and_is_an_error_when_strict() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("site.pp");
    std::fs::write(&file, "\n\ntidy { '/tmp/x':\n  age => '1w' }\n").unwrap();
    let found = translated_with(&Input::Manifest(file.clone()), &TranslateOptions::default());
    let [note] = found.diagnostics.as_slice() else { panic!("{:?}", found.diagnostics) };
    assert_eq!((note.level, note.code), (Level::Note, "P0201"));
    assert_eq!(
        note.origin.as_ref().map(|origin| (Path::new(&*origin.file), origin.line)),
        Some((file.as_path(), 3))
    );
    assert!(found.graph.is_some());
    let strict = TranslateOptions { strict: true, ..TranslateOptions::default() };
    let found = translated_with(&Input::Manifest(file), &strict);
    assert!(found.graph.is_none() && found.diagnostics.iter().all(|found| found.level == Level::Error));
}

#[test]
fn two_that_are_the_same_are_told() {
    let code = "package { 'a': name => 'x' }\npackage { 'b': name => 'x', provider => 'apt' }";
    let translated = translated_with(&Input::Code(code.to_owned()), &TranslateOptions::default());
    assert!(translated.diagnostics.iter().any(|found| found.code == "P0203"), "{:?}", translated.diagnostics);
}
