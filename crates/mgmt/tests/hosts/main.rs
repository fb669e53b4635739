//! The program on hosts: in sandboxes, on booted hosts, over networks, with etcd, ssh and Puppet.
//!
//! The runner (`cargo xtask test`) gives each of these modules a process of its own.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics is a test that fails")]

mod agent;
mod agent_real;
mod agreement;
mod bus_restart;
mod cluster;
mod clustering;
mod health;
mod host_examples;
mod kind_examples;
mod langpuppet;
mod package;
mod packaging;
mod page_commands;
mod plan;
mod plan_failing;
mod plan_packages;
mod puppet;
mod puppet_apply;
mod puppet_http;
mod puppet_options;
mod puppet_schedules;
mod puppet_server;
mod puppet_translate;
mod puppet_twins;
mod puppet_ways;
mod remote;
mod remote_kind;
mod scaffold;
mod secrets;
mod ssh;
mod tutorial;
mod web_server;
