//! Manifests whose order is held against Puppet's own, and how.
#![allow(dead_code, reason = "each test program uses its own part")]
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mgmt_puppet::{Catalogue, relate};
use mgmt_puppet_process::{Compiled, Input, Puppet, Relation};

pub(crate) type Edges = BTreeMap<(String, String), bool>;

/// Our graph of a catalogue, by Puppet's names.
pub(crate) fn ours(
    catalogue: &serde_json::Value,
    custom: &[Relation],
) -> Result<(BTreeSet<String>, Edges), String> {
    let catalogue = Catalogue::new(catalogue, &Arc::from("code"))?;
    let relations = relate(&catalogue, custom);
    if !relations.broken.is_empty() {
        return Err(format!("{:?}", relations.broken));
    }
    let vertices = relations.vertices.iter().map(|vertex| vertex.name(&catalogue)).collect();
    let edges = relations
        .edges
        .iter()
        .map(|edge| ((edge.from.name(&catalogue), edge.to.name(&catalogue)), edge.notify))
        .collect();
    Ok((vertices, edges))
}

/// Whether our order of what was compiled is Puppet's own.
pub(crate) async fn same_order(puppet: &Puppet, input: &Input, compiled: &Compiled) -> Result<(), String> {
    let theirs = puppet.relations(input).await.map_err(|error| error.to_string())?;
    let mut their_edges = Edges::new();
    for (from, to, notify) in theirs.edges {
        *their_edges.entry((from, to)).or_default() |= notify;
    }
    let (vertices, edges) = ours(&compiled.catalogue, &compiled.relations)?;
    let their_vertices: BTreeSet<String> = theirs.vertices.into_iter().collect();
    if vertices != their_vertices {
        return Err(format!("ours: {vertices:#?}\ntheirs: {their_vertices:#?}"));
    }
    let missing: Vec<_> =
        their_edges.iter().filter(|(ends, notify)| edges.get(*ends) != Some(*notify)).collect();
    let extra: Vec<_> =
        edges.iter().filter(|(ends, notify)| their_edges.get(*ends) != Some(*notify)).collect();
    match missing.is_empty() && extra.is_empty() {
        true => Ok(()),
        false => Err(format!("missing: {missing:#?}\nextra: {extra:#?}")),
    }
}

/// Compiles some code, and compares the order.
pub(crate) async fn compare(puppet: &Puppet, code: &str) -> Result<(), String> {
    let input = Input::Code(code.to_owned());
    let compiled = puppet.compile_warm(&input).await.map_err(|error| format!("{code}\n{error}"))?;
    same_order(puppet, &input, &compiled).await.map_err(|why| format!("{code}\n{why}"))
}

/// All of them.
pub(crate) const ALL: &[&[&str]] = &[
    CONTAINMENT,
    RELATIONSHIPS_OF_RESOURCES,
    RELATIONSHIPS_OF_CONTAINERS,
    COLLECTORS_AND_VIRTUAL_RESOURCES,
    AUTOMATIC_RELATIONS,
    AUTOMATIC_RELATIONS_OF_MODULES,
    &[A_THOUSAND],
];

/// What is in what.
pub(crate) const CONTAINMENT: &[&str] = &[
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
];

/// Parameters and arrows between resources.
pub(crate) const RELATIONSHIPS_OF_RESOURCES: &[&str] = &[
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
];

/// The same between classes, defines and stages.
pub(crate) const RELATIONSHIPS_OF_CONTAINERS: &[&str] = &[
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
];

/// Resources that are found, and those that are not there before.
pub(crate) const COLLECTORS_AND_VIRTUAL_RESOURCES: &[&str] = &[
    "notify { ['a', 'b']: tag => 'x' } notify { 'c': } Notify<| tag == 'x' |> -> Notify['c']",
    "@notify { 'a': } @notify { 'b': } realize(Notify['a'])",
    "@notify { 'a': } Notify<| title == 'a' |> notify { 'z': before => Notify['a'] }",
    "@@notify { 'exported': } notify { 'a': }",
    "Package<| |> -> Service<| |> package { 'a': } package { 'b': } service { 'c': } service { 'd': }",
];

/// What types of Puppet itself find by themselves.
pub(crate) const AUTOMATIC_RELATIONS: &[&str] = &[
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
];

/// What types find that come with modules.
pub(crate) const AUTOMATIC_RELATIONS_OF_MODULES: &[&str] = &[
    "cron { 'c': command => 'x', user => 'me' } user { 'me': }",
    "cron { 'c': command => 'x', user => 'root' } user { 'root': }",
    "ssh_authorized_key { 'k': user => 'me', type => 'ssh-rsa', key => 'AAAA' } user { 'me': }",
    "mount { ['/m', '/m/n']: ensure => mounted, device => 'x', fstype => 'tmpfs' } file { ['/m/n/o', '/m', '/mm']: }",
    "host { 'h': ip => '127.0.0.1' } file { '/etc/hosts': }",
    "file_line { 'l': path => '/etc/x', line => 'a' } file { '/etc/x': }",
    "concat { '/tmp/c': } concat::fragment { 'a': target => '/tmp/c', content => 'x' }",
    "concat { '/tmp/q/c': } file { '/tmp/q': ensure => directory } concat::fragment { 'a': target => '/tmp/q/c', content => 'x' }",
    "anchor { 'a': } -> anchor { 'b': }",
];

/// Many of them.
pub(crate) const A_THOUSAND: &str = "class web { range(1, 300).each |$n| { file { \"/tmp/site/${n}\": ensure => directory } \
    file { \"/tmp/site/${n}/conf\": content => \"x\", notify => Service['web'] } } \
    service { 'web': } package { 'web': } -> File['/tmp/site/1'] } \
    class base { range(1, 300).each |$n| { user { \"u${n}\": gid => \"g${n}\" } group { \"g${n}\": } } } \
    contain base contain web Class['base'] -> Class['web']";
