//! What becomes of resources.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use crate::translated;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::translated::{left, one, plain, refused, shown, spec, translated, translated_with};
use mgmt_diagnostics::Severity;
use mgmt_puppet::{Outcome, Reason, TranslateOptions};
use mgmt_puppet_process::Input;
use mgmt_value::Value;

#[test]
fn files() {
    for (code, expected) in [
        (
            "file { '/tmp/a': content => \"x\\n\", mode => '644' }",
            "file[/tmp/a] path=/tmp/a state=exists content=x\\n mode=0644 instead=true",
        ),
        ("file { '/tmp/a': ensure => file }", "file[/tmp/a] path=/tmp/a state=exists instead=true"),
        (
            "file { '/tmp/a': ensure => present, content => '' }",
            "file[/tmp/a] path=/tmp/a state=exists content= anytype=true",
        ),
        ("file { 'x': path => '/tmp//a/', ensure => absent }", "file[x] path=/tmp/a state=absent"),
        (
            "file { '/tmp/a': ensure => directory, mode => '0640', owner => 0, group => 'us' }",
            "file[/tmp/a] path=/tmp/a/ state=exists owner=0 group=us mode=0750 instead=true",
        ),
        (
            "file { '/tmp/a': ensure => link, target => '../b' }",
            "file[/tmp/a] path=/tmp/a state=exists source=../b symlink=true instead=true",
        ),
        (
            "file { '/tmp/a': ensure => '/b', force => true }",
            "file[/tmp/a] path=/tmp/a state=exists source=/b force=true symlink=true instead=true",
        ),
        (
            "file { '/tmp/a': source => '/nowhere/b' }",
            "file[/tmp/a] path=/tmp/a state=exists source=/nowhere/b sourcemode=false instead=true",
        ),
        (
            "file { '/tmp/a': source => 'file:///nowhere/b' }",
            "file[/tmp/a] path=/tmp/a state=exists source=/nowhere/b sourcemode=false instead=true",
        ),
        (
            "file { '/tmp/a': source => ['/nowhere/b', 'https://example.com/b', 'http://localhost/c/'] }",
            "file[/tmp/a] path=/tmp/a state=exists source=https://example.com/b instead=true mirrors=[\"http://localhost/c\"]",
        ),
        (
            "file { '/tmp/a': source => 'http://localhost/b', checksum => md5, \
             checksum_value => 'D41D8CD98F00B204E9800998ECF8427E' }",
            "file[/tmp/a] path=/tmp/a state=exists source=http://localhost/b instead=true \
             checksum=d41d8cd98f00b204e9800998ecf8427e",
        ),
        (
            "file { '/tmp/a': source => ['/etc/passwd', 'http://localhost/c'] }",
            "file[/tmp/a] path=/tmp/a state=exists source=/etc/passwd sourcemode=false instead=true",
        ),
        (
            "file { '/tmp/a/b': ensure => directory, recurse => true, purge => true, force => true }",
            "file[/tmp/a/b] path=/tmp/a/b/ state=exists recurse=true force=true purge=true instead=true",
        ),
        (
            "file { '/tmp/a/b': ensure => directory, recurse => true, purge => true }",
            "file[/tmp/a/b] path=/tmp/a/b/ state=exists recurse=true purge=true keepdirectories=true instead=true",
        ),
        (
            "file { '/tmp/a': content => 'x', replace => false, backup => '.old' }",
            "file[/tmp/a] path=/tmp/a state=exists content=x createonly=true backup=.old instead=true",
        ),
        (
            "file { '/tmp/a': content => 'x', validate_cmd => '/bin/check %' }",
            "file[/tmp/a] path=/tmp/a state=exists content=x validatecmd=/bin/check % instead=true",
        ),
        (
            "file { '/tmp/a': content => 'x', validate_cmd => '/bin/check FILE', validate_replacement => 'FILE' }",
            "file[/tmp/a] path=/tmp/a state=exists content=x validatecmd=/bin/check % instead=true",
        ),
        (
            "file { '/tmp/a': ensure => directory, recurse => true, owner => 'me', mode => '0644' }",
            "file[/tmp/a] path=/tmp/a/ state=exists owner=me mode=0644 recurse=true spread=true instead=true",
        ),
        (
            "file { '/tmp/a': ensure => directory, recurse => true, source => '/usr/share/doc' }",
            "file[/tmp/a] path=/tmp/a/ state=exists source=/usr/share/doc/ recurse=true sourcemode=false instead=true",
        ),
        (
            "file { '/tmp/a': ensure => absent, force => true }",
            "file[/tmp/a] path=/tmp/a state=absent recurse=true force=true",
        ),
        (
            "file { '/tmp/a': content => 'x', backup => 'puppet' }",
            "file[/tmp/a] path=/tmp/a state=exists content=x instead=true bucket=/var/cache/puppet/clientbucket",
        ),
    ] {
        assert_eq!(one(code), expected, "{code}");
    }
    for (code, expected) in [
        ("file { '/tmp/a': mode => '0644' }", "`ensure` is not given"),
        (
            "filebucket { 'b': path => false, server => 's' } file { '/tmp/a': content => 'x', backup => 'b' }",
            "on a server",
        ),
        ("file { '/tmp/a': content => 'x', mode => 'u+X' }", "`file` refuses it"),
        ("file { '/tmp/a': ensure => directory, recurse => true, ignore => '*.x' }", "`ignore`"),
        ("file { '/tmp/a': ensure => directory, recurse => true, mode => 'u+x' }", "`mode`"),
        (
            "file { '/tmp/a': source => ['https://example.com/a', '/tmp/b'] }",
            "`source` is at an address, and may also be elsewhere",
        ),
        (
            "file { '/tmp/a': source => ['puppet://server/modules/m/a', 'https://example.com/a'] }",
            "`source` is not on this host",
        ),
        (
            "file { '/tmp/a': source => 'https://example.com/a', checksum => mtime }",
            "`checksum` is not of the content",
        ),
        (
            "file { '/tmp/a': source => 'https://me:secret@example.com/a' }",
            "`file` refuses it: `source`: an address with a name and a password in it would be told with the resource",
        ),
        (
            "file { '/tmp/a': ensure => directory, recurse => remote, source => '/usr/share/doc', mode => '0600' }",
            "`mode` is for what is copied",
        ),
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
        format!("file[/tmp/a] path=/tmp/a state=exists source={usual} sourcemode=false instead=true")
    );
    // Puppet does not copy the mode.
    let copy = shown(spec(&translated, "file[/tmp/b]"));
    assert!(copy.ends_with("modules/m/files/program sourcemode=false instead=true"), "{copy}");
    let copy = shown(spec(&translated, "file[/tmp/c]"));
    assert!(copy.ends_with("modules/m/files/program mode=0700 sourcemode=false instead=true"), "{copy}");
}

#[test]
fn what_is_at_an_address_is_fetched_as_puppet_would() {
    let place = tempfile::tempdir().unwrap();
    let (authority, none) = (place.path().join("ca.pem"), place.path().join("none.pem"));
    std::fs::write(&authority, "").unwrap();
    let input = Input::Code("file { '/tmp/a': source => 'https://example.com/a' }".to_owned());
    let options = TranslateOptions {
        authorities: vec![authority.clone(), none],
        interval: 60,
        ..TranslateOptions::default()
    };
    let found = translated_with(&input, &options);
    let file = spec(&found, "file[/tmp/a]");
    assert_eq!(
        shown(file),
        format!(
            "file[/tmp/a] path=/tmp/a state=exists source=https://example.com/a instead=true authorities=[\"{}\"] refetch=60",
            authority.display()
        )
    );
    assert_eq!((file.meta.retry, file.meta.delay), (None, 0));
    // An authority that comes later counts from then on.
    assert!(found.looked.iter().any(|looked| looked.path().ends_with("none.pem")));
    // We ask servers ourselves, and only Puppet knows its proxy.
    let found = translated_with(&input, &TranslateOptions { proxied: true, ..options });
    let Outcome::Puppet(reasons) = &found.decisions[0].outcome else { panic!("{:?}", found.decisions) };
    assert_eq!(reasons[0].to_string(), "`source` is fetched through a proxy");
}

#[test]
fn commands() {
    let env =
        "env={\"LANG\": \"C\", \"PATH\": \"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\"}";
    for (code, expected) in [
        ("exec { '/bin/a b': }", format!("exec[/bin/a b] cmd=/bin/a b shell=/bin/sh {env}")),
        (
            "exec { 'x': command => 'a', path => ['/x', '/y'], environment => ['A=b=c'] }",
            "exec[x] cmd=a shell=/bin/sh env={\"A\": \"b=c\", \"LANG\": \"C\", \"PATH\": \"/x:/y\"}"
                .to_owned(),
        ),
        ("exec { 'x': command => ['/bin/a', 'b c'] }", format!("exec[x] cmd=/bin/a args=[\"b c\"] {env}")),
        (
            "exec { 'x': command => ['a', 'b'], path => '/x' }",
            "exec[x] cmd=/usr/bin/env args=[\"a\", \"b\"] env={\"LANG\": \"C\", \"PATH\": \"/x\"}".to_owned(),
        ),
        (
            "exec { '/bin/a': creates => '/b', cwd => '/c' }",
            format!("exec[/bin/a] cmd=/bin/a cwd=/c shell=/bin/sh {env} ifcwd=/c nifcwd=/c creates=/b"),
        ),
        (
            "exec { '/bin/a': onlyif => ['/bin/b', ['/bin/c', \"it's\"]], unless => '/bin/d' }",
            format!(
                "exec[/bin/a] cmd=/bin/a shell=/bin/sh {env} watchfiles=[\"/bin/b\", \"/bin/c\", \"/bin/d\"] interval=1800 ifcmd=(\\n/bin/b\\n) && (\\n'/bin/c' 'it'\\''s'\\n) ifshell=/bin/sh nifcmd=/bin/d nifshell=/bin/sh"
            ),
        ),
        (
            "exec { '/bin/a': creates => ['/b', '/c'] }",
            format!(
                "exec[/bin/a] cmd=/bin/a shell=/bin/sh {env} nifcmd=(\\ntest -e '/b'\\n) || (\\ntest -e '/c'\\n) nifshell=/bin/sh"
            ),
        ),
        (
            "exec { '/bin/a': umask => '027', returns => [0, 2], user => 'me' }",
            format!("exec[/bin/a] cmd=umask '027'\\n/bin/a shell=/bin/sh {env} user=me returns=[0, 2]"),
        ),
        (
            "exec { '/bin/a': refreshonly => true }",
            format!("exec[/bin/a] cmd=/bin/a shell=/bin/sh {env} refreshonly=true"),
        ),
    ] {
        assert_eq!(one(code), expected, "{code}");
    }
    let refresh = one("exec { '/bin/a': refresh => '/bin/b', cwd => '/c' }");
    assert!(refresh.contains("refreshcmd=/bin/b refreshcwd=/c refreshshell=/bin/sh"), "{refresh}");
}

#[test]
fn defect_6_commands_that_are_lists_do_not_end_the_translation() {
    let translated = translated(
        "exec { 'a': command => ['/bin/a', 'b'], audit => all, onlyif => [['/bin/d', 'e']] } notify { 'x': }",
    );
    spec(&translated, "pippet[Exec[a]]");
    spec(&translated, "msg[x]");
}

#[test]
fn defect_7_equal_commands_are_two_resources() {
    for (audit, kind) in [(", audit => all", "pippet"), ("", "exec")] {
        let translated = translated(&format!(
            "exec {{ 'a': command => '/bin/x'{audit} }} exec {{ 'b': command => '/bin/x'{audit} }} \
             notify {{ 'before a': before => Exec['a'] }} notify {{ 'after b': subscribe => Exec['b'] }}",
        ));
        let graph = translated.graph.as_ref().unwrap();
        let name = |title: &str| match kind {
            "exec" => title.to_owned(),
            _ => format!("Exec[{title}]"),
        };
        let node = |name: &str| graph.nodes().find(|(_, spec)| spec.id.name.to_text() == name).unwrap().0;
        let (a, b, before, after) = (node(&name("a")), node(&name("b")), node("before a"), node("after b"));
        assert_ne!(a, b);
        // What was said of one is not said of the other.
        assert!(graph.edge(before, a).is_some_and(|edge| !edge.notify) && graph.edge(before, b).is_none());
        assert!(graph.edge(b, after).is_some_and(|edge| edge.notify) && graph.edge(a, after).is_none());
    }
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
        "exec { '/bin/a': umask => '022', audit => all } tidy { '/tmp/x': age => '1w', backup => 'x' } \
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
    assert_eq!((a.timeout, a.retry, a.delay), (5000, Some(2), 2000));
    assert_eq!(meta("exec[/bin/b]").timeout, 0);
    assert_eq!(meta("exec[/bin/c]").timeout, 300_000);
}

#[test]
fn defect_11_what_has_no_events_is_looked_at_again() {
    let options = TranslateOptions { interval: 77, ..TranslateOptions::default() };
    let code = "tidy { '/tmp/x': age => '1w', backup => 'x' } tidy { '/tmp/y': age => '1w' } exec { '/bin/a': } exec { '/bin/b': creates => '/c' } exec { '/bin/d': refreshonly => true }";
    let translated = translated_with(&Input::Code(code.to_owned()), &options);
    let poll = |name: &str| spec(&translated, name).meta.poll;
    assert_eq!((poll("pippet[Tidy[/tmp/x]]"), poll("tidy[/tmp/y]")), (0, 77));
    let interval = spec(&translated, "pippet[Tidy[/tmp/x]]").resource.get("interval").unwrap();
    assert_eq!(plain(&interval), "77");
    assert_eq!(poll("exec[/bin/a]"), 77);
    assert_eq!((poll("exec[/bin/b]"), poll("exec[/bin/d]")), (0, 0));
    // Tries that are used up are given back in the next run.
    let code = "exec { '/bin/e': creates => '/c', tries => 2 } exec { '/bin/f': refreshonly => true, tries => 2 } exec { '/bin/g': tries => 2 }";
    let translated = translated_with(&Input::Code(code.to_owned()), &options);
    let looks = |name: &str| {
        let spec = spec(&translated, name);
        (spec.meta.poll, plain(&spec.resource.get("interval").unwrap()))
    };
    assert_eq!(looks("exec[/bin/e]"), (0, "77".to_owned()));
    assert_eq!(looks("exec[/bin/f]"), (0, "0".to_owned()));
    assert_eq!(looks("exec[/bin/g]"), (77, "0".to_owned()));
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
            "svc[a] state=running startup=enabled restart=true unmask=true restart_interval=1800",
        ),
        (
            "service { 'a.socket': ensure => stopped, enable => false }",
            "svc[a.socket] state=stopped startup=disabled restart=true unmask=true",
        ),
        ("service { 'a': ensure => false }", "svc[a] state=stopped restart=true unmask=true"),
        ("package { 'a': ensure => purged }", "pkg[a] state=purged"),
        ("package { 'a': ensure => '1.2', mark => hold }", "pkg[a] state=1.2 allowdowngrade=true hold=true"),
    ] {
        assert_eq!(one(code), expected, "{code}");
    }
    for (code, expected) in [
        ("package { 'a': install_options => ['-x'] }", "`install_options`"),
        ("service { 'a': restart => '/bin/x' }", "`restart` has no counterpart"),
        ("service { 'a': status => '/bin/true' }", "`status`"),
    ] {
        assert!(left(code).contains(expected), "{code}: {}", left(code));
    }
}

#[test]
fn defect_14_a_masked_service_is_not_a_disabled_one() {
    assert!(one("service { 'a': enable => mask }").contains("startup=masked"));
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
    let code = "group { 'us': ensure => present, members => ['me', 'you'] }";
    assert_eq!(one(code), "group[us] state=exists members=[\"me\", \"you\"] othermembers=true");
    let code = "group { 'us': ensure => present, members => 'me,you', auth_membership => true }";
    assert_eq!(one(code), "group[us] state=exists members=[\"me\", \"you\"]");
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
fn what_would_be_told_is_left_to_puppet_and_a_secret_file_is_discreet() {
    assert!(left("exec { 'a': command => Sensitive('/bin/a hush') }").contains("`command` is a secret"));
    assert!(left("host { 'a': ip => Sensitive('192.0.2.1') }").contains("`ip` is a secret"));
    let code = "exec { '/bin/a': environment => Sensitive(['A=hush']) }";
    assert!(one(code).starts_with("exec[/bin/a]"));
    for code in [
        "file { '/tmp/a': content => Sensitive('hush') }",
        "file { '/tmp/a': content => 'x', show_diff => false }",
        "concat_file { '/tmp/a': } concat_fragment { 'b': target => '/tmp/a', content => Sensitive('hush') }",
    ] {
        let translated = translated(code);
        let graph = translated.graph.as_ref().unwrap();
        let file = graph.nodes().find(|(_, spec)| spec.id.kind == "file").unwrap().1;
        assert_eq!(file.resource.get("showdiff").unwrap().to_string(), "false", "{code}");
    }
}

#[test]
fn tags_choose_and_what_they_do_not_choose_stays_in_the_order_of_things() {
    let code = "class web { file { '/tmp/a': content => 'x' } -> notify { 'b': tag => 'Loud' } }\n\
                class db { notify { 'c': } }\n include web\n include db";
    let outcomes = |tags: &[&str], skip_tags: &[&str]| {
        let words = |list: &[&str]| list.iter().map(|&tag| tag.to_owned()).collect();
        let options = TranslateOptions {
            tags: words(tags),
            skip_tags: words(skip_tags),
            ..TranslateOptions::default()
        };
        let translated = translated_with(&Input::Code(code.to_owned()), &options);
        let graph = translated.graph.as_ref().unwrap();
        assert_eq!(graph.node_count(), 13, "{:?}", translated.decisions);
        let outcomes = translated.decisions.iter().map(|decision| match &decision.outcome {
            Outcome::Native(kind, _) => (*kind).to_owned(),
            Outcome::LeftOut(reasons) => reasons[0].to_string(),
            other => panic!("{other:?}"),
        });
        outcomes.collect::<Vec<_>>()
    };
    assert_eq!(outcomes(&[], &[]), ["file", "msg", "msg"]);
    assert_eq!(outcomes(&["web"], &[]), ["file", "msg", "it is not tagged with web"]);
    assert_eq!(outcomes(&["db", "loud"], &[]), ["it is not tagged with db or loud", "msg", "msg"]);
    assert_eq!(
        outcomes(&["web"], &["loud"]),
        ["file", "it is tagged with loud", "it is not tagged with web"]
    );
}

#[test]
fn what_a_resource_says_of_noop_counts_more_than_what_is_said_of_all() {
    let code = "file { '/tmp/a': content => 'x' } file { '/tmp/b': content => 'x', noop => false }\n\
                file { '/tmp/c': content => 'x', noop => true } package { 'd': provider => gem, noop => false }";
    for all in [true, false] {
        let options = TranslateOptions { noop: all, ..TranslateOptions::default() };
        let translated = translated_with(&Input::Code(code.to_owned()), &options);
        let noop = |name: &str| spec(&translated, name).meta.noop;
        assert_eq!((noop("file[/tmp/a]"), noop("file[/tmp/b]"), noop("file[/tmp/c]")), (all, false, true));
        assert!(!noop("pippet[Package[d]]"));
    }
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
            "cron { 'c': command => ' x ', user => 'me', minute => [0, 30], weekday => 'Monday', month => absent, environment => 'A=b' }",
            "crontab[c] state=exists user=me command=x minute=0,30 weekday=1 environment=[\"A=b\"] mark=Puppet Name",
        ),
        (
            "cron { 'c': command => 'x', special => 'daily' }",
            "crontab[c] state=exists user=root command=x special=daily mark=Puppet Name",
        ),
        (
            "sshkey { 'h@rsa': key => 'AAAA', host_aliases => ['a', 'b'] }",
            "ssh:known_host[h@rsa] state=exists hostname=h aliases=[\"a\", \"b\"] type=ssh-rsa key=AAAA",
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
    assert_eq!(
        one(
            "tidy { '/tmp//x/': age => '1w', recurse => 2, matches => ['*.a', 'b?'], rmdirs => true, type => mtime }"
        ),
        "tidy[/tmp//x/] path=/tmp/x age=604800 by=mtime matches=[\"*.a\", \"b?\"] recurse=true depth=2 rmdirs=true"
    );
    assert_eq!(
        one("tidy { '/tmp/x': size => '10m', recurse => true }"),
        "tidy[/tmp/x] path=/tmp/x size=10485760 recurse=true"
    );
    assert!(left("tidy { '/tmp/x': backup => 'main' }").contains("`backup`"));
    assert!(
        left("augeas { 'a': context => '/files/etc/hosts', changes => 'set 1/ipaddr ::1' }")
            .contains("`incl`")
    );
    assert!(
        left("augeas { 'a': incl => '/etc/hosts', lens => 'Hosts.lns', changes => ['ins x after y'] }")
            .contains("`changes`")
    );
    assert!(
        left("file_line { 'l': path => '/etc/x', line => 'a = b', match => '^a(?=.)' }").contains("`match`")
    );
}

#[test]
fn values_in_files_are_native_where_augtool_is() {
    let code = "augeas { 'a': incl => '/etc/hosts', lens => 'Hosts.lns',
        changes => ['rm *[ipaddr = \"192.0.2.7\"]', 'clear 1/alias', 'set /files/etc/hosts/1/canonical \"a b\"'] }";
    assert_eq!(
        one(code),
        "augeas[a] file=/etc/hosts lens=Hosts.lns sets=[struct{path: \"1/canonical\"; value: \"a b\"}] \
         rm=[\"*[ipaddr = \\\"192.0.2.7\\\"]\"] clear=[\"1/alias\"]"
    );
    // As soon as it is there, the answer is another one.
    let place = tempfile::tempdir().unwrap();
    let options = TranslateOptions { programs: vec![place.path().to_owned()], ..TranslateOptions::default() };
    let translated = translated_with(&Input::Code(code.to_owned()), &options);
    let why = Reason { parameter: None, why: "augtool is not installed".to_owned() };
    assert_eq!(translated.decisions[0].outcome, Outcome::Puppet(vec![why]));
    let is_as_before = || translated.looked.iter().all(|looked| looked.is_as_before());
    assert!(is_as_before());
    std::fs::write(place.path().join("augtool"), "").unwrap();
    assert!(!is_as_before());
    for (other, why) in [
        (
            "incl => '/nowhere/hosts', lens => 'Hosts.lns', changes => 'set 1/ipaddr ::1'",
            "`incl` is not there",
        ),
        (
            "incl => '/etc/host*', lens => 'Hosts.lns', changes => 'set 1/ipaddr ::1'",
            "`incl` may mean several",
        ),
        ("incl => '/etc/mtab', lens => 'Hosts.lns', changes => 'set 1/ipaddr ::1'", "`incl` is a link"),
        ("incl => '/etc/hosts', lens => 'Hosts.lns', changes => ['set 1/ipaddr ::1', 'rm 2']", "the order"),
        ("incl => '/etc/hosts', lens => 'Hosts.lns', changes => 'touch 1'", "something else than"),
        ("incl => '/etc/hosts', lens => 'Hosts.lns', changes => [\"rm 1\\nrm 2\"]", "several lines"),
        (
            "incl => '/etc/hosts', lens => 'Hosts.lns', context => '/files/etc', changes => 'rm 1'",
            "`context`",
        ),
    ] {
        let told = left(&format!("augeas {{ 'a': {other} }}"));
        assert!(told.contains(why), "{other}: {told}");
    }
    let made = "file { '/nowhere/hosts': content => '' } augeas { 'a': incl => '/nowhere/hosts', lens => 'Hosts.lns',
        changes => \"set 1/ipaddr ::1\\nset 1/canonical a\" }";
    assert!(
        translated_with(&Input::Code(made.to_owned()), &TranslateOptions::default())
            .decisions
            .iter()
            .all(|decision| matches!(decision.outcome, Outcome::Native(..)))
    );
}

#[test]
fn defect_4_the_message_of_a_notify_is_its_message() {
    assert!(one("notify { 'a': message => 'hello' }").contains("body=hello"));
}

#[test]
fn defect_29_options_of_a_mount_are_whole_and_present_is_not_mounted() {
    let code = "mount { '/m': ensure => mounted, device => 'x', fstype => 'tmpfs', options => 'ro,opt=a=b', pass => 0 }";
    assert!(one(code).contains("optionstext=ro,opt=a=b"), "{}", one(code));
    for (ensure, state) in
        [("mounted", "exists"), ("present", "defined"), ("unmounted", "unmounted"), ("absent", "absent")]
    {
        let code = format!("mount {{ '/m': ensure => {ensure}, device => 'x', fstype => 'tmpfs' }}");
        assert!(one(&code).contains(&format!("state={state}")), "{}", one(&code));
    }
}

#[test]
fn defect_16_quotes_stay_what_they_are() {
    let code = r#"exec { "it's": command => ["/bin/echo", "it's", "\"x\""], umask => '022' } tidy { "/tmp/it's \"x\"": age => '1w', audit => all }"#;
    let translated = translated(code);
    let command = plain(&spec(&translated, "exec[it's]").resource.get("cmd").unwrap());
    assert!(command.contains(r#"'/bin/echo' 'it'\''s' '"x"'"#), "{command}");
    let pippet = &spec(&translated, r#"pippet[Tidy[/tmp/it's "x"]]"#).resource;
    assert_eq!(plain(&pippet.get("title").unwrap()), r#"/tmp/it's "x""#);
}

#[test]
fn defect_25_a_home_directory_ends_in_a_slash() {
    for home in ["/home/me", "/home/me/"] {
        let found = one(&format!("user {{ 'me': ensure => present, home => '{home}' }}"));
        assert!(found.contains("homedir=/home/me/"), "{found}");
    }
}

#[test]
fn defect_33_the_ends_of_containers_hand_notifications_on() {
    let translated = translated("class a { notify { 'x': } } include a");
    for end in ["admissible", "completed"] {
        let marker = &spec(&translated, &format!("noop[{end}_Class[A]]")).resource;
        assert_eq!(marker.get("forward"), Some(Value::Bool(true)));
    }
}

#[test]
fn defect_17_bytes_are_bytes() {
    let translated = translated("file { '/tmp/a': content => Binary('AAH/') }");
    let content = spec(&translated, "file[/tmp/a]").resource.get("content").unwrap();
    let Value::Str(content) = content else { panic!("{content}") };
    assert_eq!(content.as_bytes(), [0, 1, 255]);
}

#[test]
fn defect_13_what_looks_at_the_whole_catalogue_is_computed_or_gets_to_see_it() {
    let translated = translated(
        "concat { '/tmp/c': order => 'numeric', ensure_newline => true } \
         concat::fragment { 'z': target => '/tmp/c', content => 'two', order => 9 } \
         concat::fragment { 'a': target => '/tmp/c', content => \"three\\n\", order => '10' } \
         concat::fragment { 'm': target => '/tmp/c', content => 'one', order => '01' }",
    );
    let content = spec(&translated, "file[/tmp/c]").resource.get("content").unwrap();
    assert_eq!(plain(&content), "one\\ntwo\\nthree\\n");
    for (code, name, context) in [
        (
            "resources { 'host': purge => true } host { 'h': ip => '192.0.2.1' }",
            "Resources[host]",
            r#"[{"parameters":{"ip":"192.0.2.1"},"passive":false,"sensitive":[],"title":"h","type":"host"}]"#,
        ),
        (
            "file { '/tmp/a/b': ensure => directory, recurse => true, ignore => 'x' } file { '/tmp/a/b/c': content => 'x' } file { '/tmp/a/bc': content => 'x' }",
            "File[/tmp/a/b]",
            r#"[{"parameters":{},"passive":false,"sensitive":[],"title":"/tmp/a/b/c","type":"file"}]"#,
        ),
        (
            "concat { '/tmp/c': format => 'yaml' } concat::fragment { 'z': target => '/tmp/c', content => 'a: 1', order => 7 }",
            "Concat_file[/tmp/c]",
            r#"[{"parameters":{"content":"a: 1","order":7,"tag":"_tmp_c","target":"/tmp/c"},"passive":true,"sensitive":[],"title":"z","type":"concat_fragment"}]"#,
        ),
        (
            "file { '/tmp/a': content => 'x', backup => 'far' } filebucket { 'far': server => 'there', path => false }",
            "File[/tmp/a]",
            r#"[{"parameters":{"path":false,"server":"there"},"passive":true,"sensitive":[],"title":"far","type":"filebucket"}]"#,
        ),
        (
            "file { '/tmp/a': ensure => directory, recurse => true, purge => true, ignore => 'x' } file_line { 'l': path => '/tmp/a/l', line => 'x' }",
            "File[/tmp/a]",
            r#"[{"parameters":{},"passive":false,"sensitive":[],"title":"/tmp/a/l","tree":true,"type":"file"}]"#,
        ),
    ] {
        let translated = translated::translated(code);
        let found = plain(&spec(&translated, &format!("pippet[{name}]")).resource.get("context").unwrap());
        let sorted = |text: &str| {
            let value: serde_json::Value = serde_json::from_str(text).unwrap();
            value
        };
        assert_eq!(sorted(&found), sorted(context), "{code}");
    }
}

#[test]
fn fragments_of_json_are_merged() {
    let fragments = r#"
        concat::fragment { 'a': target => '/tmp/c', content => '{"b": {"x": 1}, "l": [1, 2]}', order => '1' }
        concat::fragment { 'b': target => '/tmp/c', content => '{"b": {"y": []}, "a": "é", "l": [2, 3]}', order => '2' }"#;
    for (format, expected) in [
        ("json", r#"{"b":{"x":1,"y":[]},"l":[1,2,3],"a":"é"}"#),
        ("json-array", r#"[{"b":{"x":1},"l":[1,2]},{"b":{"y":[]},"a":"é","l":[2,3]}]"#),
    ] {
        let translated = translated(&format!("concat {{ '/tmp/c': format => '{format}' }} {fragments}"));
        let content = spec(&translated, "file[/tmp/c]").resource.get("content").unwrap();
        let Value::Str(content) = content else { panic!("{content}") };
        assert_eq!(content.to_text(), expected, "{format}");
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
    let cycle = translated.diagnostics.iter().find(|found| found.code == Some("P0102")).unwrap();
    assert!(cycle.message.contains("a (code:1) -> b (code:2) -> a (code:1)"), "{}", cycle.message);
}

#[test]
fn defect_5_a_directory_with_a_source_is_copied_with_all_below() {
    let code =
        "file { '/tmp/a': ensure => directory, recurse => true, source => '/usr/share/doc', owner => 'me' }";
    let expected = "file[/tmp/a] path=/tmp/a/ state=exists source=/usr/share/doc/ owner=me recurse=true sourcemode=false spread=true instead=true";
    assert_eq!(one(code), expected);
}

#[test]
fn defect_27_permissions_are_added_and_taken_away() {
    for (mode, expected) in
        [("u+x", "modechange=u+x"), ("a=r,u+w", "modechange=a=r,u+w"), ("u=rw,go=r", "mode=u=rw,go=r")]
    {
        let found = one(&format!("file {{ '/tmp/a': content => 'x', mode => '{mode}' }}"));
        assert!(found.contains(expected), "{found}");
    }
    assert!(
        one("file { '/tmp/a': ensure => directory, mode => 'u=rwx,go=' }").contains("modechange=u=rwx,go=")
    );
}

#[test]
fn what_is_not_quite_the_same_is_told_once_and_is_an_error_when_strict() {
    let code = "file { '/tmp/a': content => 'x', checksum => md5lite }\nexec { '/bin/a': logoutput => true }";
    let found = translated(code);
    let notes: Vec<_> = found.diagnostics.iter().map(|found| (found.severity, found.code.unwrap())).collect();
    assert_eq!(notes, [(Severity::Note, "P0204"), (Severity::Note, "P0204")]);
    assert!(
        found
            .decisions
            .iter()
            .all(|decision| matches!(&decision.outcome, Outcome::Native(_, losses) if losses.len() == 1))
    );
    let strict = TranslateOptions { strict: true, ..TranslateOptions::default() };
    assert!(translated_with(&Input::Code(code.to_owned()), &strict).graph.is_none());
}

#[test]
fn defect_32_recursion_may_be_a_word() {
    let code = "file { '/tmp/a': ensure => directory, recurse => remote, source => '/usr/share/doc' }";
    assert!(one(code).ends_with("recurse=true sourcemode=false instead=true"), "{}", one(code));
}

#[test]
fn what_is_left_to_puppet_is_told_once_with_its_place_and_is_an_error_when_strict() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("site.pp");
    std::fs::write(&file, "\n\ntidy { '/tmp/x':\n  backup => 'x' }\n").unwrap();
    let found = translated_with(&Input::Manifest(file.clone()), &TranslateOptions::default());
    let [note] = found.diagnostics.as_slice() else { panic!("{:?}", found.diagnostics) };
    assert_eq!((note.severity, note.code.unwrap()), (Severity::Note, "P0201"));
    assert_eq!(
        note.primary_label().map(|label| &label.span).map(|origin| (Path::new(&*origin.file), origin.line)),
        Some((file.as_path(), 3))
    );
    assert!(found.graph.is_some());
    let strict = TranslateOptions { strict: true, ..TranslateOptions::default() };
    let found = translated_with(&Input::Manifest(file), &strict);
    assert!(found.graph.is_none() && found.diagnostics.iter().all(|found| found.is_error()));
}

#[test]
fn two_that_are_the_same_are_told() {
    let code = "package { 'a': name => 'x' }\npackage { 'b': name => 'x', provider => 'apt' }";
    assert!(
        refused(code).contains("Package[b] and Package[a] (line: 1) are the same: x, apt"),
        "{}",
        refused(code)
    );
    let code = "file { '/tmp/a': ensure => file }\nfile { '/tmp//a/': ensure => file }";
    assert!(refused(code).contains("File[/tmp//a/] and File[/tmp/a] (line: 1) are the same: /tmp/a"));
    let code = "file { '/tmp/a': content => 'x', backup => 'none' }";
    assert!(refused(code).contains("the filebucket `none`, which is not in the catalogue"));
    // One file of two types, native and left to Puppet.
    for format in ["plain", "yaml"] {
        let concat = format!(
            "concat {{ '/tmp/q': format => {format} }} concat::fragment {{ 'f': target => '/tmp/q', content => 'a: 1' }}\n"
        );
        let code = Input::Code(format!("{concat}file {{ '/tmp//q': content => 'y' }}"));
        let translated = translated_with(&code, &TranslateOptions::default());
        assert!(translated.graph.is_none());
        let found = translated.diagnostics.iter().filter(|found| found.code == Some("P0203"));
        let found: Vec<&str> = found.map(|found| found.message.as_str()).collect();
        assert!(found.len() == 1 && found[0].contains("are both /tmp/q"), "{found:?}");
    }
    // One thing in two ways that Puppet tells apart.
    let code = "package { 'a': name => 'x' }\npackage { 'b': name => 'x', provider => 'gem' }";
    assert!(translated::translated(code).graph.is_some());
}

#[test]
fn labels_make_no_difference_where_selinux_is_off() {
    let code = "file { '/tmp/a': content => 'x', seltype => 'etc_t', selinux_ignore_defaults => true }";
    for (selinux, native) in [("/", false), ("/nowhere/selinux", true)] {
        let options = TranslateOptions { selinux: selinux.into(), ..TranslateOptions::default() };
        let translated = translated_with(&Input::Code(code.to_owned()), &options);
        let outcome = &translated.decisions[0].outcome;
        assert_eq!(matches!(outcome, mgmt_puppet::Outcome::Native("file", _)), native, "{outcome:?}");
        assert!(translated.looked.iter().any(|looked| looked.path() == Path::new(selinux)));
    }
}

#[test]
fn an_empty_concatenation_is_made_or_not() {
    // A `concat_file` as newer versions of the module have it; the one that is installed has no such parameter.
    let catalogue = |fragments: bool, made: bool| {
        let mut resources = vec![
            serde_json::json!({ "type": "Stage", "title": "main" }),
            serde_json::json!({ "type": "Concat_file", "title": "c", "parameters": {
                "path": "/tmp/c", "tag": ["_c", "other"], "create_empty_file": made, "mode": "0600" } }),
        ];
        if fragments {
            resources.push(serde_json::json!({ "type": "Concat_fragment", "title": "f", "parameters": {
                "target": "elsewhere", "tag": "other", "content": "x" } }));
        }
        let catalogue =
            serde_json::json!({ "name": "h", "environment": "e", "resources": resources, "edges": [] });
        let compiled = serde_json::from_value(serde_json::json!({ "catalogue": catalogue })).unwrap();
        let translated =
            mgmt_puppet::translate(&compiled, &mgmt_resources::KINDS, &TranslateOptions::default());
        shown(spec(&translated, "file[c]"))
    };
    assert_eq!(catalogue(false, true), "file[c] path=/tmp/c state=exists content= mode=0600 instead=true");
    assert_eq!(catalogue(false, false), "file[c] path=/tmp/c state=absent");
    assert_eq!(catalogue(true, false), "file[c] path=/tmp/c state=exists content=x mode=0600 instead=true");
}

#[test]
fn what_puppets_types_refuse_is_refused_before_anything_is_applied() {
    for (code, expected) in [
        ("cron { 'x': command => '/bin/a', minute => 77 }", "77 is not a valid minute"),
        ("cron { 'x': command => '/bin/a', hour => '25' }", "25 is not a valid hour"),
        ("cron { 'x': command => '/bin/a', special => 'fortnightly' }", "fortnightly"),
        ("file { 'relative': ensure => file }", "must be fully qualified"),
        ("file { '/tmp/a': ensure => file, mode => '0999' }", "mode"),
        ("file { '/tmp/a': content => 'x', source => '/y' }", "cannot specify more than one"),
        ("service { 'a': ensure => sideways }", "sideways"),
        ("mount { '/x': ensure => bogus }", "bogus"),
        ("group { 'a': ensure => present, gid => 'many' }", "gid"),
        ("host { 'h': ip => '1.2.3' }", "ip"),
        ("exec { '/bin/a': timeout => 'soon' }", "timeout"),
        ("exec { '/bin/a': tries => 0 }", "ries"),
        ("ssh_authorized_key { 'k': user => 'a', type => 'rot13', key => 'AAAA' }", "rot13"),
        ("ssh_authorized_key { 'k': user => 'a', type => 'rsa', key => 'A A' }", "key"),
        ("tidy { '/tmp/a': age => 'old' }", "age"),
        ("schedule { 's': period => 'often' }", "often"),
        ("package { 'a': ensure => present, provider => 'abacus' }", "abacus"),
        ("file_line { 'l': line => 'x' }", "path"),
    ] {
        let found = refused(code);
        assert!(found.starts_with("P0001") && found.contains(expected), "{code}: {found}");
    }
    // All of them are told, and no secret is.
    let both = "cron { 'x': command => '/bin/a', minute => 77 }\nssh_authorized_key { 'k': user => 'a', type => 'rsa', key => Sensitive('hu sh') }";
    let told = translated::errors(both);
    assert_eq!(told.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [Some(1), Some(2)], "{told:?}");
    assert!(told.iter().all(|(_, message)| !message.contains("hu sh")), "{told:?}");
}

#[test]
fn every_known_defect_is_in_the_table_and_has_a_test() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |path: &str| std::fs::read_to_string(workspace.join(path)).unwrap();
    let table = read("docs/explanation/puppet-defects.md");
    let tests = [
        "crates/puppet/tests/puppet/translate.rs",
        "crates/puppet/src/translate/file.rs",
        "crates/puppet-process/tests/process.rs",
        "crates/mgmt/tests/hosts/agent.rs",
        "crates/mgmt/tests/hosts/puppet.rs",
    ];
    let tests: String = tests.into_iter().map(read).collect();
    let named =
        |name: &str| tests.lines().filter(|line| line.contains("fn defect_")).any(|line| line.contains(name));
    for number in 1..=34 {
        assert!(table.contains(&format!("\n| {number} |")), "{number} is not in the table");
        assert!(
            named(&format!("fn defect_{number}_")) || named(&format!("_and_{number}_")),
            "{number} has no test"
        );
    }
}
