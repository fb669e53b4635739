//! Parameters, one by one: what is carried over, what is told, what is left to Puppet and what is refused.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::path::Path;

use crate::translated::{left, one, plain, refused, spec, translated, translated_with};
use mgmt_puppet::{Outcome, TranslateOptions};
use mgmt_puppet_process::Input;
use mgmt_resource::Loudness;
use mgmt_value::Value;

#[test]
fn a_language_that_is_asked_for_is_not_overridden() {
    let found = one("exec { '/bin/a': environment => ['LANG=C.UTF-8'] }");
    assert!(found.contains("\"LANG\": \"C.UTF-8\"") && !found.contains("LC_ALL"), "{found}");
}

#[test]
fn a_program_that_nobody_would_find_is_refused_as_by_puppet() {
    for code in [
        "exec { 'true x': }",
        "exec { 'x': command => ['true', 'x'] }",
        "exec { '/bin/a': onlyif => ['/bin/b', 'test -e /x'] }",
        "exec { '/bin/a': unless => [['test', '-e', '/x']] }",
        "exec { '/bin/a': refresh => 'b' }",
        "exec { 'x': command => \"'a b' c\" }",
    ] {
        let found = refused(code);
        assert!(
            found.starts_with("P0001") && found.contains("is not qualified and no path"),
            "{code}: {found}"
        );
    }
    let code = "exec { '/bin/a': onlyif => ['/bin/b', 'test -e /x'] }";
    let apply = std::process::Command::new("puppet").args(["apply", "--noop", "-e", code]).output().unwrap();
    assert!(!apply.status.success(), "{code}");
    assert!(String::from_utf8_lossy(&apply.stderr).contains("is not qualified and no path"), "{code}");
    assert!(!refused("exec { 'x': command => Sensitive('hush') }").contains("hush"));
    for code in
        ["exec { 'a': provider => shell }", "exec { \"'/bin/a b' c\": }", "exec { 'a': path => '/x' }"]
    {
        assert!(one(code).starts_with("exec["), "{code}");
    }
    // Puppet, without a shell, looks for a program of that name.
    assert!(left("exec { 'cd /tmp && ls': path => '/bin' }").contains("`command` begins with `cd`"));
    assert!(
        left("exec { '/bin/a': unless => 'if /bin/b; then true; fi', path => '/bin' }").contains("`unless`")
    );
}

#[test]
fn whoever_purges_keys_knows_which_are_managed() {
    let translated = translated(
        "user { 'me': ensure => present, purge_ssh_keys => true } \
         ssh_authorized_key { 'mine': user => 'me', type => 'ssh-rsa', key => 'AAAA', target => '/x' } \
         user { 'you': ensure => present, expiry => '2030-01-01' }",
    );
    let context = |name: &str| plain(&spec(&translated, name).resource.get("context").unwrap());
    let found: serde_json::Value = serde_json::from_str(&context("pippet[User[me]]")).unwrap();
    assert_eq!((&found[0]["title"], &found[0]["passive"]), (&"mine".into(), &false.into()), "{found}");
    // Whoever purges nothing need not know.
    assert_eq!(context("pippet[User[you]]"), "");
}

#[test]
fn only_an_anchor_hands_a_notification_on() {
    let translated = translated(
        "anchor { 'a': } schedule { 's': } filebucket { 'b': path => '/x' } \
         concat_file { '/tmp/c': } concat_fragment { 'f': target => '/tmp/c', content => 'x' }",
    );
    for (name, forwards) in
        [("Anchor[a]", true), ("Schedule[s]", false), ("Filebucket[b]", false), ("Concat_fragment[f]", false)]
    {
        let found = spec(&translated, &format!("noop[{name}]")).resource.get("forward");
        assert_eq!(found, Some(Value::Bool(forwards)), "{name}");
    }
    // They are not what is meant by native.
    let count = |is: fn(&Outcome) -> bool| {
        translated.decisions.iter().filter(|decision| is(&decision.outcome)).count()
    };
    assert_eq!(count(|outcome| *outcome == Outcome::Passive), 4, "{:?}", translated.decisions);
    assert_eq!(count(|outcome| matches!(outcome, Outcome::Native(..))), 1);
}

#[test]
fn what_makes_no_difference_here_is_told() {
    for (code, parameter) in [
        ("file { '/tmp/a': ensure => directory, recurse => true, max_files => 7 }", "max_files"),
        ("file { '/tmp/a': content => 'x', checksum => md5lite }", "checksum"),
        ("tidy { '/tmp/x': age => '1w', max_files => 7 }", "max_files"),
        ("package { 'a': allow_virtual => false }", "allow_virtual"),
        (
            "ssh_authorized_key { 'k': user => 'me', type => 'ed25519', key => 'AAAAC3NzaC1lZDI1NTE5AAAAIOo1oDdOUgfGmHF5lFbSB5S82i2WY6azXvyagbwuBPqg', drop_privileges => false }",
            "drop_privileges",
        ),
    ] {
        let translated = translated(code);
        let losses = translated.decisions.iter().find_map(|decision| match &decision.outcome {
            Outcome::Native(_, losses) => Some(losses.as_slice()),
            _ => None,
        });
        let [loss] = losses.unwrap_or_else(|| panic!("{code}: {:?}", translated.decisions)) else {
            panic!("{code}: {losses:?}")
        };
        assert_eq!(loss.parameter.as_deref(), Some(parameter), "{code}");
        assert!(translated.diagnostics.iter().any(|found| found.code == Some("P0204")), "{code}");
    }
    assert!(left("file { '/tmp/a': source => '/etc/hostname', checksum => mtime }").contains("`checksum`"));
    assert!(left("file { '/tmp/a': content => 'x', provider => windows }").contains("`provider`"));
}

#[test]
fn what_was_looked_at_is_told() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    std::fs::write(at("fragment"), "one\n").unwrap();
    std::fs::write(at("second"), "").unwrap();
    let code = "file { '/tmp/a': source => ['ROOT/first', 'ROOT/second', 'ROOT/third'] }\n\
                concat_file { '/tmp/c': } concat_fragment { 'f': target => '/tmp/c', source => 'ROOT/fragment' }";
    let translated = translated(&code.replace("ROOT", place.path().to_str().unwrap()));
    let changed = || -> Vec<&Path> {
        let mut paths: Vec<_> = translated
            .looked
            .iter()
            .filter(|looked| !looked.is_as_before())
            .map(|looked| looked.path())
            .collect();
        paths.sort();
        paths.dedup();
        paths
    };
    assert!(changed().is_empty());
    std::fs::write(at("fragment"), "another\n").unwrap();
    // Its content is the business of the file.
    std::fs::write(at("second"), "x").unwrap();
    std::fs::write(at("third"), "x").unwrap();
    assert_eq!(changed(), [at("fragment")]);
    std::fs::write(at("first"), "x").unwrap();
    std::fs::remove_file(at("second")).unwrap();
    assert_eq!(changed(), [at("first"), at("fragment"), at("second")]);
}

/// Each parameter that has a rule of its own: what leaves a resource native, and what leaves it to Puppet.
#[test]
fn every_parameter_with_a_rule_is_native_or_left_as_it_should_be() {
    for (resource, native, left_to_puppet, parameter) in [
        ("file { '/tmp/a': content => 'x', PLACE }", "links => manage", "links => follow", "links"),
        (
            "file { '/tmp/a': source => '/nowhere/b', PLACE }",
            "source_permissions => ignore",
            "source_permissions => use",
            "source_permissions",
        ),
        (
            "file { '/tmp/a': ensure => directory, recurse => true, source => '/usr/share/doc', PLACE }",
            "sourceselect => first",
            "sourceselect => all",
            "sourceselect",
        ),
        (
            "file { '/tmp/a': source => '/etc/hostname', PLACE }",
            "checksum => sha512",
            "checksum => mtime",
            "checksum",
        ),
        (
            "file { '/tmp/a': content => 'x', PLACE }",
            "staging_location => '/x'",
            "recurselimit => 2",
            "recurselimit",
        ),
        (
            "file { '/tmp/a': content => 'x', PLACE }",
            "selinux_ignore_defaults => false",
            "selinux_ignore_defaults => true",
            "selinux_ignore_defaults",
        ),
        ("package { 'a': PLACE }", "configfiles => keep", "configfiles => replace", "configfiles"),
        (
            "package { 'a': PLACE }",
            "reinstall_on_refresh => false",
            "reinstall_on_refresh => true",
            "reinstall_on_refresh",
        ),
        ("package { 'a': PLACE }", "ensure => installed", "responsefile => '/x'", "responsefile"),
        // Without a status of its own, a service would be looked for by its pattern.
        ("service { 'a': PLACE }", "pattern => 'b', hasstatus => false", "status => '/bin/true'", "status"),
        ("service { 'a': PLACE }", "hasrestart => false", "start => '/bin/x'", "start"),
        (
            "user { 'a': ensure => present, PLACE }",
            "role_membership => minimum",
            "role_membership => inclusive",
            "role_membership",
        ),
        (
            "user { 'a': ensure => present, PLACE }",
            "auth_membership => minimum",
            "auth_membership => inclusive",
            "auth_membership",
        ),
        (
            "user { 'a': ensure => present, PLACE }",
            "profile_membership => minimum",
            "profile_membership => inclusive",
            "profile_membership",
        ),
        (
            "user { 'a': ensure => present, PLACE }",
            "key_membership => minimum",
            "key_membership => inclusive",
            "key_membership",
        ),
        (
            "user { 'a': ensure => present, PLACE }",
            "attribute_membership => minimum",
            "attribute_membership => inclusive",
            "attribute_membership",
        ),
        (
            "group { 'a': ensure => present, PLACE }",
            "attribute_membership => minimum",
            "attribute_membership => inclusive",
            "attribute_membership",
        ),
        (
            "group { 'a': ensure => present, PLACE }",
            "forcelocal => false",
            "forcelocal => true",
            "forcelocal",
        ),
        (
            "mount { '/m': ensure => mounted, device => 'x', fstype => 'tmpfs', PLACE }",
            "target => '/etc/fstab'",
            "target => '/etc/other'",
            "target",
        ),
        (
            "mount { '/m': ensure => mounted, device => 'x', fstype => 'tmpfs', PLACE }",
            "remounts => true",
            "remounts => false",
            "remounts",
        ),
        (
            "mount { '/m': ensure => mounted, device => 'x', fstype => 'tmpfs', PLACE }",
            "dump => 0",
            "atboot => no",
            "atboot",
        ),
        (
            "mount { '/m': ensure => mounted, device => 'x', fstype => 'tmpfs', PLACE }",
            "pass => 1",
            "blockdevice => 'y'",
            "blockdevice",
        ),
        (
            "augeas { 'a': incl => '/etc/hosts', lens => 'Hosts.lns', changes => 'set 1/ipaddr ::1', PLACE }",
            "root => '/'",
            "root => '/x'",
            "root",
        ),
        (
            "augeas { 'a': incl => '/etc/hosts', lens => 'Hosts.lns', changes => 'set 1/ipaddr ::1', PLACE }",
            "force => false",
            "force => true",
            "force",
        ),
        (
            "augeas { 'a': incl => '/etc/hosts', lens => 'Hosts.lns', changes => 'set 1/ipaddr ::1', PLACE }",
            "type_check => false",
            "load_path => '/x'",
            "load_path",
        ),
        (
            "augeas { 'a': incl => '/etc/hosts', lens => 'Hosts.lns', changes => 'set 1/ipaddr ::1', PLACE }",
            "returns => 0",
            "onlyif => 'match x size == 0'",
            "onlyif",
        ),
    ] {
        let reasons = left(&resource.replace("PLACE", left_to_puppet));
        assert!(reasons.contains(&format!("`{parameter}`")), "{resource} with {left_to_puppet}: {reasons}");
        let code = resource.replace("PLACE", native);
        let translated = translated(&code);
        for decision in &translated.decisions {
            let is_native = matches!(decision.outcome, Outcome::Native(..));
            assert!(is_native, "{code}: {:?}", translated.decisions);
        }
    }
}

#[test]
fn a_type_of_a_module_that_has_no_kind_is_left_to_puppet_with_all_its_parameters() {
    let place = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = place.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write(
        "modules/aws/lib/puppet/type/ec2_instance.rb",
        "Puppet::Type.newtype(:ec2_instance) do\n  newparam(:name, namevar: true)\n  ensurable\n\
         %i[region image_id instance_type].each { |name| newproperty(name) }\nend\n",
    );
    write(
        "manifests/site.pp",
        "ec2_instance { 'a': ensure => present, region => 'r', image_id => 'i', instance_type => 't' }",
    );
    let translated =
        translated_with(&Input::Environment(place.path().to_owned()), &TranslateOptions::default());
    let params = plain(&spec(&translated, "pippet[Ec2_instance[a]]").resource.get("params").unwrap());
    for part in ["region", "image_id", "instance_type", "ensure"] {
        assert!(params.contains(part), "{part}: {params}");
    }
}

#[test]
fn the_level_of_a_resource_is_that_at_which_its_changes_are_told() {
    let code = |level: &str| {
        format!(
            "file {{ '/tmp/a': content => 'x', loglevel => {level} }} notify {{ 'n': loglevel => {level} }} \
             package {{ 'p': provider => gem, loglevel => {level} }}"
        )
    };
    for (level, expected) in [
        ("debug", Loudness::Debug),
        ("info", Loudness::Info),
        ("notice", Loudness::Info),
        ("verbose", Loudness::Info),
        ("warning", Loudness::Warning),
        ("err", Loudness::Error),
        ("crit", Loudness::Error),
    ] {
        let translated = translated(&code(level));
        let loudness = |name: &str| spec(&translated, name).loudness;
        assert_eq!(
            (loudness("file[/tmp/a]"), loudness("pippet[Package[p]]")),
            (expected, expected),
            "{level}"
        );
        // It is the priority of a message.
        assert_eq!(loudness("msg[n]"), Loudness::Info);
        assert!(translated.diagnostics.iter().all(|found| found.code != Some("P0204")), "{level}");
    }
}
