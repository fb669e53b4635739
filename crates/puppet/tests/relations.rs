//! The order that we find is the one that Puppet finds.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

use mgmt_puppet::{Catalogue, relate};
use mgmt_puppet_process::{Input, Puppet, Settings};
use tokio::runtime::Runtime;

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());
static PUPPET: LazyLock<Puppet> = LazyLock::new(|| Puppet::new(Settings::default()));

type Edges = BTreeMap<(String, String), bool>;

/// Our graph of a catalogue, by Puppet's names.
fn ours(
    catalogue: &serde_json::Value,
    custom: &[mgmt_puppet_process::Relation],
) -> (BTreeSet<String>, Edges) {
    let catalogue = Catalogue::new(catalogue, &Arc::from("code")).unwrap();
    let relations = relate(&catalogue, custom);
    assert!(relations.broken.is_empty(), "{:?}", relations.broken);
    let vertices = relations.vertices.iter().map(|vertex| vertex.name(&catalogue)).collect();
    let edges = relations
        .edges
        .iter()
        .map(|edge| ((edge.from.name(&catalogue), edge.to.name(&catalogue)), edge.notify))
        .collect();
    (vertices, edges)
}

fn compare(code: &str) {
    let input = Input::Code(code.to_owned());
    let (compiled, theirs) = RUNTIME.block_on(async {
        let compiled = PUPPET.compile_warm(&input).await;
        (compiled.unwrap_or_else(|error| panic!("{code}\n{error}")), PUPPET.relations(&input).await)
    });
    let theirs = theirs.unwrap_or_else(|error| panic!("{code}\n{error}"));
    let mut their_edges = Edges::new();
    for (from, to, notify) in theirs.edges {
        *their_edges.entry((from, to)).or_default() |= notify;
    }
    let (vertices, edges) = ours(&compiled.catalogue, &compiled.relations);
    assert_eq!(vertices, theirs.vertices.into_iter().collect(), "{code}");
    let missing: Vec<_> =
        their_edges.iter().filter(|(ends, notify)| edges.get(*ends) != Some(*notify)).collect();
    let extra: Vec<_> =
        edges.iter().filter(|(ends, notify)| their_edges.get(*ends) != Some(*notify)).collect();
    assert!(missing.is_empty() && extra.is_empty(), "{code}\nmissing: {missing:#?}\nextra: {extra:#?}");
}

#[test]
fn containment() {
    for code in [
        "",
        "notify { 'a': }",
        "class a { notify { 'a': } } include a",
        "class a { notify { 'a': } } class b { include a } include b",
        "class a { notify { 'a': } } class b { contain a notify { 'b': } } include b",
        "class a {} class b { contain a } include b",
        "class a::b::c { notify { 'x': } } include a::b::c",
        "define d($x) { notify { \"d ${x}\": } } d { 'one': x => 1 } d { 'two': x => 2 }",
        "define d { } d { 'empty': }",
        "define inner { notify { $title: } } define outer { inner { \"in ${title}\": } } outer { 'o': }",
        "node default { notify { 'n': } }",
        "node default { class { 'a': } } class a { notify { 'a': } }",
        "class a($p = 1) { notify { \"p ${p}\": } } class { 'a': p => 2 }",
    ] {
        compare(code);
    }
}

#[test]
fn relationships_of_resources() {
    for code in [
        "notify { 'a': before => Notify['b'] } notify { 'b': }",
        "notify { 'a': } notify { 'b': require => Notify['a'] }",
        "notify { 'a': notify => Notify['b'] } notify { 'b': }",
        "notify { 'a': } notify { 'b': subscribe => Notify['a'] }",
        "notify { 'a': notify => Notify['b'], before => Notify['b'] } notify { 'b': require => Notify['a'] }",
        "notify { ['a', 'b', 'c']: } notify { 'd': require => [Notify['a', 'b'], [Notify['c']]] }",
        "notify { ['a', 'b']: } notify { 'd': require => undef, before => [] }",
        "notify { 'a': } -> notify { 'b': } ~> notify { 'c': } <- notify { 'd': } <~ notify { 'e': }",
        "notify { ['a', 'b']: } -> notify { ['c', 'd']: }",
        "notify { 'a': alias => 'x' } notify { 'b': require => Notify['x'] }",
        "file { 'conf': path => '/tmp//some/', ensure => directory } file { '/tmp/some/thing': } notify { 'b': require => File['conf'] }",
        "file { '/tmp/dir/': ensure => directory } notify { 'b': require => File['/tmp/dir'] }",
        "notify { 'it is [odd] -> \" here': before => Notify['ü'] } notify { 'ü': }",
        "Notify { require => File['/tmp/x'] } file { '/tmp/x': } notify { 'a': }",
    ] {
        compare(code);
    }
}

#[test]
fn relationships_of_containers() {
    for code in [
        "class a { notify { 'a': } } class b { notify { 'b': } } include a, b Class['a'] -> Class['b']",
        "class a { notify { 'a': } } class b { notify { 'b': } } include a, b Class['a'] ~> Class['b']",
        "class a {} class b {} include a, b Class['a'] ~> Class['b']",
        "class a { notify { 'a': } } include a notify { 'x': require => Class['a'] }",
        "class a { notify { 'a': } } include a notify { 'x': notify => Class['A'] }",
        "class a { require b notify { 'a': } } class b { notify { 'b': } } include a",
        "define d { notify { $title: } } d { 'one': } d { 'two': require => D['one'] } notify { 'x': notify => D['two'] }",
        "define a::b { notify { $title: } } a::b { 'one': } ~> notify { 'z': }",
        "stage { 'first': before => Stage['main'] } class a { notify { 'a': } } class { 'a': stage => 'first' } notify { 'b': }",
        "stage { 'last': } Stage['main'] -> Stage['last'] class a { notify { 'a': } } class { 'a': stage => 'last' }",
        "class a { contain b, c Class['b'] -> Class['c'] } class b { notify { 'b': } } class c { notify { 'c': } } include a",
    ] {
        compare(code);
    }
}

#[test]
fn collectors_and_virtual_resources() {
    for code in [
        "notify { ['a', 'b']: tag => 'x' } notify { 'c': } Notify<| tag == 'x' |> -> Notify['c']",
        "@notify { 'a': } @notify { 'b': } realize(Notify['a'])",
        "@notify { 'a': } Notify<| title == 'a' |> notify { 'z': before => Notify['a'] }",
        "@@notify { 'exported': } notify { 'a': }",
        "Package<| |> -> Service<| |> package { 'a': } package { 'b': } service { 'c': } service { 'd': }",
    ] {
        compare(code);
    }
}

#[test]
fn automatic_relations() {
    for code in [
        "file { ['/tmp/q', '/tmp/q/r']: ensure => directory } file { '/tmp/q/r/s/t': }",
        "file { '/': } file { '/tmp/q': }",
        "file { '/tmp/l': ensure => link, target => '/tmp/t' } file { '/tmp/t': }",
        "file { '/tmp/l': ensure => '/tmp/t' } file { '/tmp/t': }",
        "file { '/tmp/q': owner => 'me', group => 'us' } user { 'me': } group { 'us': }",
        "file { '/tmp/q': owner => 0, group => '0' } user { '0': } group { '0': }",
        "user { 'me': gid => 'us', groups => ['a', 'b'] } group { ['us', 'a', 'b']: }",
        "user { 'me': gid => 77 } group { 'g': gid => 77 } group { 'h': gid => '77' }",
        "user { 'me': gid => '78' } group { 'g': gid => 78 }",
        "exec { '/opt/x/run a': cwd => '/opt' } file { ['/opt', '/opt/x/run']: }",
        "exec { 'e': command => '\"/opt/a b\" c', user => 'me' } file { '/opt/a b': } user { 'me': }",
        "exec { '/bin/true': onlyif => '/opt/x -a', unless => ['/opt/y', '/usr/bin/test -e /opt/z'] } file { ['/opt/x', '/opt/y', '/opt/z']: }",
        "exec { 'l': command => ['/opt/x', '/opt/y'], onlyif => [['/opt/z', 'a']] } file { ['/opt/x', '/opt/y', '/opt/z']: }",
        "exec { 'lines': command => \"/opt/x\\n/opt/y\\n\", provider => shell } file { ['/opt/x', '/opt/y']: }",
        "package { 'p': source => '/opt/p.deb', provider => dpkg } file { '/opt/p.deb': }",
        "file { '/tmp/d': ensure => directory, require => File['/tmp/d/f'] } file { '/tmp/d/f': }",
        "file { '/tmp/d': ensure => directory } file { '/tmp/d/f': subscribe => File['/tmp/d'] }",
        "group { 'us': } user { 'me': gid => 'us', before => Group['us'] }",
        "service { 's': ensure => running } package { 's': } file { '/etc/s': }",
        "tidy { '/tmp/q/': recurse => true } file { '/tmp/q': }",
        "file { '/tmp/q': } exec { 'a': command => '/bin/true' } exec { 'b': command => '/bin/true', require => Exec['a'] }",
    ] {
        compare(code);
    }
}

#[test]
fn automatic_relations_of_types_that_come_with_modules() {
    for code in [
        "cron { 'c': command => 'x', user => 'me' } user { 'me': }",
        "cron { 'c': command => 'x' } user { 'root': }",
        "ssh_authorized_key { 'k': user => 'me', type => 'ssh-rsa', key => 'AAAA' } user { 'me': }",
        "mount { ['/m', '/m/n']: ensure => mounted, device => 'x', fstype => 'tmpfs' } file { ['/m/n/o', '/m', '/mm']: }",
        "host { 'h': ip => '127.0.0.1' } file { '/etc/hosts': }",
        "file_line { 'l': path => '/etc/x', line => 'a' } file { '/etc/x': }",
        "concat { '/tmp/c': } concat::fragment { 'a': target => '/tmp/c', content => 'x' }",
        "concat { '/tmp/q/c': } file { '/tmp/q': ensure => directory } concat::fragment { 'a': target => '/tmp/q/c', content => 'x' }",
        "anchor { 'a': } -> anchor { 'b': }",
    ] {
        compare(code);
    }
}

#[test]
fn a_catalogue_of_a_thousand() {
    let code = "class web { range(1, 300).each |$n| { file { \"/tmp/site/${n}\": ensure => directory } \
                file { \"/tmp/site/${n}/conf\": content => \"x\", notify => Service['web'] } } \
                service { 'web': } package { 'web': } -> File['/tmp/site/1'] } \
                class base { range(1, 300).each |$n| { user { \"u${n}\": gid => \"g${n}\" } group { \"g${n}\": } } } \
                contain base contain web Class['base'] -> Class['web']";
    compare(code);
}

#[test]
fn the_command_line_leads_to_the_same_graph() {
    let code = "class a { file { ['/tmp/q', '/tmp/q/r']: } ~> service { 's': } } include a user { 'me': gid => 'us' } group { 'us': }";
    let input = Input::Code(code.to_owned());
    let (warm, plain) = RUNTIME.block_on(async {
        (PUPPET.compile_warm(&input).await.unwrap(), PUPPET.compile_plainly(&input).await.unwrap())
    });
    assert_eq!(ours(&warm.catalogue, &warm.relations), ours(&plain.catalogue, &plain.relations));
}
