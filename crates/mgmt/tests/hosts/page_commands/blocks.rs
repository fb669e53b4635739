//! Every block of every page is run, compared, or has a reason why not.

use std::process::{Command, Stdio};

use crate::page_commands::test_env::TestEnv;
use mgmt_test_support::pages::{blocks, fences, root, written};
use mgmt_test_support::program::plain;

/// What becomes of a block.
enum How {
    /// A test in a file of tests reads it.
    Test(&'static str, &'static str),
    /// Nothing can be done with it, for this reason.
    Because(&'static str),
}

use How::{Because, Test};

const RUN_HERE: How = Test("hosts/page_commands/blocks.rs", "every_program_in_the_pages_can_be_run");
const MEASURED: How = Because("it was measured on a quiet machine, for minutes");

/// All blocks that are no commands, by page and language. Commands are in `TYPED`, and whole programs are all run here.
const BLOCKS: &[(&str, &str, &[How])] = &[
    ("docs/architecture.md", "text", &[Because("it is a picture")]),
    (
        "docs/explanation/failure-and-recovery.md",
        "text",
        &[Because("three lines of different runs; recovery.rs waits for each of these wordings")],
    ),
    (
        "docs/explanation/benchmarks.md",
        "text",
        &[MEASURED, MEASURED, MEASURED, MEASURED, MEASURED, MEASURED, MEASURED, MEASURED],
    ),
    (
        "docs/explanation/service.md",
        "ini",
        &[Test("hosts/page_commands/booted.rs", "the_service_is_installed_made_and_read")],
    ),
    ("docs/how-to/add-a-kind.md", "rust", &[Test("hosts/scaffold.rs", "a_kind_is_added_as_the_page_says")]),
    ("docs/how-to/add-a-kind.md", "text", &[Test("hosts/scaffold.rs", "a_kind_is_added_as_the_page_says")]),
    ("docs/how-to/check-mcl.md", "text", &[Test("hosts/page_commands/alone.rs", "programs_are_checked")]),
    (
        "docs/how-to/coming-from-ansible.md",
        "yaml",
        &[Because("it is for Ansible, and stands beside what is written here in its place")],
    ),
    (
        "docs/how-to/coming-from-puppet.md",
        "text",
        &[
            Test("hosts/page_commands/puppet.rs", "manifests_are_counted_and_joined"),
            Test("cli/how_to.rs", "a_module_is_moved_from_puppet_as_the_page_says"),
        ],
    ),
    (
        "docs/how-to/coming-from-puppet.md",
        "puppet",
        &[
            Test("hosts/page_commands/puppet.rs", "manifests_are_counted_and_joined"),
            Test("cli/how_to.rs", "a_module_is_moved_from_puppet_as_the_page_says"),
            Test("cli/how_to.rs", "a_module_is_moved_from_puppet_as_the_page_says"),
            Test(
                "hosts/page_commands/booted.rs",
                "a_cluster_is_recovered_and_the_agent_of_puppet_turned_off",
            ),
        ],
    ),
    (
        "docs/how-to/explore-with-the-repl.md",
        "text",
        &[
            Test("hosts/page_commands/alone.rs", "the_language_is_explored"),
            Test("hosts/page_commands/alone.rs", "the_language_is_explored"),
            Test("hosts/page_commands/alone.rs", "the_language_is_explored"),
        ],
    ),
    (
        "docs/how-to/plan-before-you-run.md",
        "text",
        &[
            Test("hosts/page_commands/booted.rs", "the_service_is_installed_made_and_read"),
            Test("hosts/page_commands/alone.rs", "plans_come_before_runs"),
            Test("hosts/page_commands/alone.rs", "plans_come_before_runs"),
            Test("hosts/page_commands/alone.rs", "plans_come_before_runs"),
        ],
    ),
    (
        "docs/how-to/read-the-log.md",
        "text",
        &[
            Test("hosts/page_commands/alone.rs", "the_log_is_turned_up_and_down"),
            Test("hosts/page_commands/alone.rs", "how_far_it_is_is_seen"),
        ],
    ),
    (
        "docs/how-to/reverse.md",
        "yaml",
        &[Test("hosts/page_commands/blocks.rs", "graphs_of_the_pages_are_right")],
    ),
    ("docs/how-to/run-a-cluster.md", "text", &[Test("hosts/page_commands/together.rs", "a_cluster_is_run")]),
    ("docs/how-to/run-a-program.md", "text", &[Test("hosts/page_commands/alone.rs", "programs_are_run")]),
    (
        "docs/how-to/run-as-a-service.md",
        "ini",
        &[Test("hosts/page_commands/booted.rs", "the_service_is_installed_made_and_read")],
    ),
    (
        "docs/how-to/run-as-a-service.md",
        "conf",
        &[Test("hosts/page_commands/booted.rs", "the_service_is_installed_made_and_read")],
    ),
    (
        "docs/how-to/run-as-a-service.md",
        "yaml",
        &[Test("hosts/page_commands/booted.rs", "the_service_is_installed_made_and_read")],
    ),
    (
        "docs/how-to/run-on-hosts-without-an-agent.md",
        "yaml",
        &[Test("hosts/page_commands/hosts.rs", "hosts_without_an_agent_are_reached")],
    ),
    (
        "docs/how-to/see-what-was-changed.md",
        "text",
        &[
            Test("hosts/page_commands/alone.rs", "what_was_changed_is_seen"),
            Test("hosts/page_commands/alone.rs", "what_was_changed_is_seen"),
        ],
    ),
    (
        "docs/how-to/use-modules.md",
        "mcl part",
        &[Test("hosts/page_commands/modules.rs", "modules_come_from_elsewhere")],
    ),
    (
        "docs/how-to/use-modules.md",
        "yaml",
        &[Test("hosts/page_commands/modules.rs", "modules_come_from_elsewhere")],
    ),
    (
        "docs/how-to/use-modules.md",
        "text",
        &[Test("hosts/page_commands/modules.rs", "modules_come_from_elsewhere")],
    ),
    (
        "docs/how-to/use-modules.md",
        "json",
        &[Test("hosts/page_commands/modules.rs", "modules_come_from_elsewhere")],
    ),
    (
        "docs/how-to/watch-with-prometheus.md",
        "yaml",
        &[Test("hosts/page_commands/together.rs", "prometheus_watches")],
    ),
    (
        "docs/how-to/write-a-function.md",
        "mcl part",
        &[Test("cli/how_to.rs", "functions_are_written_as_the_page_says")],
    ),
    (
        "docs/how-to/write-a-function.md",
        "rust",
        &[
            Test("hosts/scaffold.rs", "a_function_is_added_as_the_page_says"),
            Test("cli/how_to.rs", "functions_are_written_as_the_page_says"),
        ],
    ),
    (
        "docs/how-to/write-a-graph-file.md",
        "yaml",
        &[Test("hosts/page_commands/blocks.rs", "graphs_of_the_pages_are_right")],
    ),
    (
        "docs/tutorial/first-graph.md",
        "yaml",
        &[
            Test("hosts/page_commands/alone.rs", "the_first_graph"),
            Test("hosts/page_commands/alone.rs", "the_first_graph"),
        ],
    ),
    ("docs/tutorial/first-program.md", "mcl part", &[RUN_HERE]),
];

#[test]
fn no_block_is_forgotten() {
    let tests = root().join("crates/mgmt/tests");
    let mut known = 0;
    for (page, text) in written() {
        let mut languages: Vec<String> = fences(&text).into_iter().map(|fence| fence.language).collect();
        languages.sort();
        languages.dedup();
        for language in languages.iter().filter(|language| !["sh", "mcl"].contains(&language.as_str())) {
            let found = BLOCKS.iter().find(|(of, kind, _)| *of == page && kind == language);
            let (_, _, hows) = found.unwrap_or_else(|| panic!("{page}: who reads blocks of `{language}`?"));
            assert_eq!(blocks(&text, language).len(), hows.len(), "{page}: {language}");
            known += 1;
            for how in *hows {
                match how {
                    Because(reason) => assert!(reason.len() > 10),
                    Test(file, function) => {
                        let source = std::fs::read_to_string(tests.join(file)).unwrap();
                        assert!(
                            source.contains(&format!("\nfn {function}(")),
                            "no test {function} in {file}"
                        );
                        let short = page.strip_prefix("docs/").unwrap_or(&page);
                        assert!(source.contains(short), "{file} does not read {page}");
                    }
                }
            }
        }
    }
    assert_eq!(known, BLOCKS.len(), "something is listed that no page has");
}

/// Nothing that a program of a page declares is changed, and there is no network to reach anybody through. A machine without
/// systemd has failures of its own, so what counts is that there is a graph and an orderly end.
#[test]
fn every_program_in_the_pages_can_be_run() {
    let place = tempfile::tempdir().unwrap();
    let program = place.path().join("main.mcl");
    let mut ran = 0;
    for (page, text) in written() {
        let mut programs = blocks(&text, "mcl");
        if page == "docs/tutorial/first-program.md" {
            programs.extend(
                blocks(&text, "mcl part")
                    .iter()
                    .map(|part| format!("import \"os\"\n\n{part}\nprint \"name\" {{\n\tmsg => $name,\n}}\n")),
            );
        }
        for text in programs {
            std::fs::write(&program, &text).unwrap();
            let mut command = Command::new("unshare");
            plain(command.args(["--net", "--", env!("CARGO_BIN_EXE_mgmt"), "run", "--tmp-prefix", "--noop"]));
            command
                .args(["--converger-timeout=1", "--converged-exit", "--max-runtime=60", "lang"])
                .arg(&program);
            let output = command.stdin(Stdio::null()).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            // A part of a module declares nothing by itself.
            assert!(said.contains("graph ") && said.contains("ended: "), "{page}\n{text}\n{said}");
            let may_fail = ["svc ", "pkg ", "remote ", "include "].iter().any(|word| text.contains(word));
            assert!(output.status.code() == Some(0) || may_fail, "{page}\n{text}\n{said}");
            ran += 1;
        }
    }
    assert!(ran >= 13, "only {ran} programs were found");
}

#[test]
fn graphs_of_the_pages_are_right() {
    let env = TestEnv::of("how-to/write-a-graph-file.md");
    env.write("graph.yaml", &env.block("yaml", 0));
    env.types_well("mgmt check --deny-warnings yaml graph.yaml");
    // A part of a graph, with what is around it in its file; and it is undone.
    let mut env = TestEnv::of("how-to/reverse.md");
    env.calls("/etc/motd", "/tmp/motd");
    env.write("before.yaml", &format!("graph: x\nresources:\n{}", env.block("yaml", 0)));
    env.write("after.yaml", "graph: x\n");
    let run = "mgmt run --converger-timeout=1 --converged-exit yaml";
    env.types_well(&format!("{run} before.yaml"));
    env.waits_for_text("motd", "maintenance tonight");
    env.types_well(&format!("{run} after.yaml"));
    assert!(!env.path("motd").exists());
}
