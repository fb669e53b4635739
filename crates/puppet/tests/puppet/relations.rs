//! The order that we find is the one that Puppet finds.
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::sync::LazyLock;

use crate::orders::{
    A_THOUSAND, AUTOMATIC_RELATIONS, AUTOMATIC_RELATIONS_OF_MODULES, COLLECTORS_AND_VIRTUAL_RESOURCES,
    CONTAINMENT, RELATIONSHIPS_OF_CONTAINERS, RELATIONSHIPS_OF_RESOURCES, compare, ours,
};
use mgmt_puppet_process::{Input, Puppet, Settings};
use tokio::runtime::Runtime;

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());
static PUPPET: LazyLock<Puppet> = LazyLock::new(|| Puppet::new(Settings::default()));

#[track_caller]
fn all_agree(codes: &[&str]) {
    for code in codes {
        RUNTIME.block_on(compare(&PUPPET, code)).unwrap_or_else(|why| panic!("{why}"));
    }
}

#[test]
fn containment() {
    all_agree(CONTAINMENT);
}

#[test]
fn relationships_of_resources() {
    all_agree(RELATIONSHIPS_OF_RESOURCES);
}

#[test]
fn relationships_of_containers() {
    all_agree(RELATIONSHIPS_OF_CONTAINERS);
}

#[test]
fn collectors_and_virtual_resources() {
    all_agree(COLLECTORS_AND_VIRTUAL_RESOURCES);
}

#[test]
fn automatic_relations() {
    all_agree(AUTOMATIC_RELATIONS);
}

#[test]
fn automatic_relations_of_types_that_come_with_modules() {
    all_agree(AUTOMATIC_RELATIONS_OF_MODULES);
}

#[test]
fn a_catalogue_of_a_thousand() {
    all_agree(&[A_THOUSAND]);
}

#[test]
fn the_command_line_leads_to_the_same_graph() {
    let code = "class a { file { ['/tmp/q', '/tmp/q/r']: } ~> service { 's': } } include a user { 'me': gid => 'us' } group { 'us': }";
    let input = Input::Code(code.to_owned());
    let (warm, plain) = RUNTIME.block_on(async {
        (PUPPET.compile_warm(&input).await.unwrap(), PUPPET.compile_plainly(&input).await.unwrap())
    });
    assert_eq!(
        ours(&warm.catalogue, &warm.relations).unwrap(),
        ours(&plain.catalogue, &plain.relations).unwrap()
    );
}
