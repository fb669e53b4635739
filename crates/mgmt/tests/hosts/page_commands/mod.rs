//! What pages tell somebody to type is typed, in the order of the page.
//!
//! Each page has a env: the files that its commands speak of, in a directory of its own that stands for `/tmp/`. What does
//! not end by itself goes on beside the rest until the env is over. A page that needs more has it: hosts with the addresses
//! of the page in a network of their own, hosts with an sshd, a Puppet server, or a host that was booted for it. [`TYPED`]
//! says who types which page, and a test sees to it that no page is forgotten.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use mgmt_test_support::pages;
mod alone;
mod blocks;
mod booted;
mod hosts;
mod modules;
mod puppet;
mod test_env;
mod together;

use mgmt_test_support::pages::{blocks, written};

/// Pages with commands, and who types them: a file of tests, and a test in it.
const TYPED: &[(&str, &[(&str, &str)])] = &[
    ("README.md", &[("hosts/page_commands/alone.rs", "the_readme")]),
    ("docs/tutorial/first-graph.md", &[("hosts/page_commands/alone.rs", "the_first_graph")]),
    ("docs/tutorial/first-program.md", &[("hosts/page_commands/alone.rs", "the_first_program")]),
    (
        "docs/tutorial/self-repairing-service.md",
        &[("hosts/tutorial.rs", "a_service_repairs_itself_as_the_page_says")],
    ),
    ("docs/how-to/add-a-kind.md", &[("hosts/scaffold.rs", "a_kind_is_added_as_the_page_says")]),
    ("docs/how-to/check-mcl.md", &[("hosts/page_commands/alone.rs", "programs_are_checked")]),
    (
        "docs/how-to/coming-from-ansible.md",
        &[
            ("hosts/page_commands/alone.rs", "tasks_are_moved_from_ansible"),
            ("hosts/page_commands/hosts.rs", "ansible_is_left"),
        ],
    ),
    (
        "docs/how-to/coming-from-puppet.md",
        &[
            ("cli/how_to.rs", "a_module_is_moved_from_puppet_as_the_page_says"),
            ("hosts/page_commands/puppet.rs", "manifests_are_counted_and_joined"),
            ("hosts/page_commands/puppet.rs", "a_server_is_kept"),
            ("hosts/page_commands/booted.rs", "a_cluster_is_recovered_and_the_agent_of_puppet_turned_off"),
        ],
    ),
    ("docs/how-to/explore-with-the-repl.md", &[("hosts/page_commands/alone.rs", "the_language_is_explored")]),
    ("docs/how-to/format-mcl.md", &[("hosts/page_commands/alone.rs", "programs_are_formatted")]),
    ("docs/how-to/plan-before-you-run.md", &[("hosts/page_commands/alone.rs", "plans_come_before_runs")]),
    (
        "docs/how-to/read-the-log.md",
        &[
            ("hosts/page_commands/alone.rs", "the_log_is_turned_up_and_down"),
            ("hosts/page_commands/booted.rs", "the_service_is_installed_made_and_read"),
        ],
    ),
    (
        "docs/how-to/run-a-cluster.md",
        &[
            ("hosts/page_commands/together.rs", "a_cluster_is_run"),
            ("hosts/page_commands/booted.rs", "a_cluster_is_recovered_and_the_agent_of_puppet_turned_off"),
        ],
    ),
    ("docs/how-to/run-a-program.md", &[("hosts/page_commands/alone.rs", "programs_are_run")]),
    (
        "docs/how-to/run-as-a-service.md",
        &[("hosts/page_commands/booted.rs", "the_service_is_installed_made_and_read")],
    ),
    (
        "docs/how-to/run-on-hosts-without-an-agent.md",
        &[("hosts/page_commands/hosts.rs", "hosts_without_an_agent_are_reached")],
    ),
    ("docs/how-to/see-what-was-changed.md", &[("hosts/page_commands/alone.rs", "what_was_changed_is_seen")]),
    ("docs/how-to/share-between-hosts.md", &[("hosts/page_commands/together.rs", "hosts_share")]),
    ("docs/how-to/use-modules.md", &[("hosts/page_commands/modules.rs", "modules_come_from_elsewhere")]),
    ("docs/how-to/watch-with-prometheus.md", &[("hosts/page_commands/together.rs", "prometheus_watches")]),
    (
        "docs/how-to/write-a-function.md",
        &[
            ("cli/how_to.rs", "functions_are_written_as_the_page_says"),
            ("hosts/scaffold.rs", "a_function_is_added_as_the_page_says"),
        ],
    ),
];

/// How many blocks of which page are chores of the project. They build it, and what is tested is what they have built; that
/// there are such chores, the tests of `xtask` know.
const CHORES: &[(&str, usize)] = &[
    ("CONTRIBUTING.md", 1),
    ("README.md", 1),
    ("docs/explanation/benchmarks.md", 1),
    ("docs/how-to/run-as-a-service.md", 1),
    ("docs/tutorial/first-graph.md", 1),
    ("docs/tutorial/first-program.md", 1),
];

fn is_chore(block: &str) -> bool {
    let chores = ["cargo xtask ", "cargo build ", "rustup ", "alias mgmt=", "#"];
    test_env::lines(block).iter().all(|line| chores.iter().any(|chore| line.trim_start().starts_with(chore)))
}

#[test]
fn no_page_with_commands_is_forgotten() {
    let tests = pages::root().join("crates/mgmt/tests");
    let (mut chores, mut commands) = (Vec::new(), 0);
    for (page, text) in written() {
        let (of_the_project, others): (Vec<_>, Vec<_>) =
            blocks(&text, "sh").into_iter().partition(|block| is_chore(block));
        if !of_the_project.is_empty() {
            chores.push((page.clone(), of_the_project.len()));
        }
        let typed = TYPED.iter().find(|(known, _)| *known == page);
        assert_eq!(!others.is_empty(), typed.is_some(), "{page}");
        commands += others.len();
        for (file, function) in typed.map(|(_, tests)| *tests).unwrap_or_default() {
            let source = std::fs::read_to_string(tests.join(file)).unwrap();
            let short = page.strip_prefix("docs/").unwrap_or(&page);
            assert!(source.contains(&format!("\nfn {function}(")), "{page}: no test {function} in {file}");
            assert!(source.contains(short), "{file} does not read {page}");
        }
    }
    let chores: Vec<(&str, usize)> = chores.iter().map(|(page, count)| (page.as_str(), *count)).collect();
    assert_eq!(chores, CHORES);
    assert_eq!(TYPED.iter().filter(|(page, _)| !pages::root().join(page).exists()).count(), 0);
    assert!(commands >= 75, "only {commands} blocks were found");
}

#[test]
fn blocks_in_lists_are_blocks() {
    let page = "1. do\n\n   ```sh\n   one\n     two\n\n   three\n   ```\n\n```text\nx\n```\n";
    assert_eq!(blocks(page, "sh"), ["one\n  two\n\nthree\n"]);
    assert_eq!(blocks(page, "text"), ["x\n"]);
}

#[test]
fn only_what_differs_each_time_may_differ() {
    for (page, said) in [
        ("14:03:07 info  file[/a]: changed in 312.4µs", "09:59:00 info  file[/a]: changed in 1.2ms"),
        ("2026-11-16 08:02:11.482  x in 1s", "2031-01-02 18:02:11.999  x in 0.5 s"),
        ("1 min 12 s  exec[make]", "       8 s  exec[make]"),
        ("a  serves, etcd 3.4.23, 20 KiB", "a  serves, etcd 3.5.1, 4 MiB"),
        ("two\nfour", "one\ntwo\nthree\nfour\nfive"),
    ] {
        pages::assert_shown(page, said);
    }
    pages::assert_shown_but(&[pages::Mask::Times], "put right 12 times", "put right 7 times");
    for (page, said) in [
        ("12 of 40 done", "13 of 40 done"),
        ("main.mcl:3:10", "main.mcl:3:9"),
        ("http://10.0.0.1:2379", "http://10.0.0.2:2379"),
        ("put right 12 times", "put right 7 times"),
        ("web1", "web2"),
        ("3 bytes -> 4 bytes", "3 bytes -> 3 bytes"),
        ("took 3 seconds", "took 4 seconds"),
        ("four\ntwo", "two\nfour"),
    ] {
        let compared = std::panic::catch_unwind(|| pages::assert_shown(page, said));
        assert!(compared.is_err(), "`{page}` is not `{said}`");
    }
}
