//! Graphs that really run.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use mgmt_test_support::program::{
    CommandOutput, RunningProgram, eventually, holds, mgmt, mgmt_output_with_input, one_file,
};
use rustix::process::Signal;
use tempfile::TempDir;

/// A directory with a graph in it.
struct TestEnv(TempDir);

impl TestEnv {
    fn new() -> TestEnv {
        TestEnv(tempfile::tempdir().unwrap())
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.at(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

/// Runs until converged.
fn once(arguments: &[&str], text: &str) -> CommandOutput {
    let all: Vec<&str> = ["run", "--tmp-prefix", "--converger-timeout", "0", "--converged-exit"]
        .into_iter()
        .chain(arguments.iter().copied())
        .chain(["yaml", "-"])
        .collect();
    mgmt_output_with_input(&all, text)
}

fn exec(name: &str, command: &str) -> String {
    format!("graph: one\nresources:\n  exec:\n  - name: {name}\n    cmd: {command:?}\n    shell: /bin/sh\n")
}

#[test]
fn a_graph_is_applied_and_the_program_ends_when_it_has_converged() {
    let env = TestEnv::new();
    let text = one_file(&env.at("file"), "hello\n");
    let CommandOutput { code, stdout, stderr } = once(&[], &text);
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(stdout, concat!("mgmt ", env!("CARGO_PKG_VERSION"), "\n"));
    assert_eq!(std::fs::read_to_string(env.at("file")).unwrap(), "hello\n");
    assert!(stderr.contains("ended: 1 resources, 1 changed, 0 failed"), "{stderr}");
    let again = once(&[], &text);
    assert!(again.stderr.contains("ended: 1 resources, 0 changed, 0 failed"), "{}", again.stderr);
}

#[test]
fn noop_changes_nothing_and_says_what_it_would() {
    let env = TestEnv::new();
    let CommandOutput { code, stderr, .. } = once(&["--noop"], &one_file(&env.at("file"), "x"));
    assert_eq!(code, 0, "{stderr}");
    assert!(!env.at("file").exists());
    assert!(stderr.contains("1 would be changed"), "{stderr}");
}

#[test]
fn noop_goes_on_to_tell_what_differs() {
    let env = TestEnv::new();
    let file = env.at("file");
    std::fs::write(&file, "right").unwrap();
    let graph = env.write("graph.yaml", &one_file(&file, "right"));
    let mut run =
        RunningProgram::start(&["run", "--tmp-prefix", "--noop", "--converger-timeout=0", "yaml", &graph]);
    run.wait_for("converged for 0 s");
    for wrong in ["once", "twice", "three times"] {
        std::fs::write(&file, wrong).unwrap();
        let told = run.wait_for("would change in");
        assert!(told.contains(&format!("file[{}]", file.display())), "{told}");
        let told = run.wait_for("would change ");
        assert!(told.contains(" content"), "{told}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), wrong, "it only looks");
    }
    std::fs::remove_file(&file).unwrap();
    run.wait_for("would create");
    assert!(!file.exists());
    run.signal(Signal::INT);
    let (code, lines) = run.end();
    assert_eq!(code, Some(0), "{lines}");
    assert!(lines.contains("0 changed") || lines.contains("would be changed"), "{lines}");
}

#[test]
fn exit_codes_follow_what_happened() {
    let env = TestEnv::new();
    let good = one_file(&env.at("file"), "x");
    let bad = exec("bad", "exit 3");
    assert_eq!(once(&["--detailed-exitcode"], &good).code, 2);
    assert_eq!(once(&["--detailed-exitcode"], &good).code, 0);
    let new = one_file(&env.at("new"), "x");
    assert_eq!(once(&["--noop", "--detailed-exitcode"], &new).code, 2);
    // A resource that only looks has changed nothing.
    let looks = format!("{}    meta:\n      noop: true\n", new.trim_end_matches(' '));
    let said = once(&["--detailed-exitcode"], &looks);
    assert_eq!(said.code, 0, "{looks}{}", said.stderr);
    assert!(said.stderr.contains("1 would be changed, 0 failed"), "{}", said.stderr);
    assert_eq!(once(&["--detailed-exitcode"], &bad).code, 4);
    assert_eq!(once(&[], &bad).code, 1);
    let both = format!("{}{}", one_file(&env.at("other"), "x"), &bad["graph: one\nresources:\n".len()..]);
    assert_eq!(once(&["--detailed-exitcode"], &both).code, 6);
    assert_eq!(once(&[], "graph: x\nresources:\n  exit:\n  - name: bye\n    code: 42\n").code, 42);
    assert_eq!(once(&[], "graph: x\nresources:\n  nonsense: []\n").code, 2);
}

#[test]
fn an_exit_resource_ends_a_run_that_would_go_on() {
    let text = "graph: x\nresources:\n  exit:\n  - name: bye\n    code: 7\n";
    let CommandOutput { code, stderr, .. } =
        mgmt_output_with_input(&["run", "--tmp-prefix", "yaml", "-"], text);
    assert_eq!(code, 7, "{stderr}");
}

#[test]
fn the_longest_time_to_run_ends_with_one() {
    let CommandOutput { code, stderr, .. } =
        mgmt_output_with_input(&["run", "--tmp-prefix", "--max-runtime=1", "empty"], "");
    assert_eq!(code, 1);
    assert!(stderr.contains("maximum time"), "{stderr}");
}

#[test]
fn times_beyond_every_clock_do_no_harm() {
    let forever = i64::MAX.to_string();
    let mut run = RunningProgram::start(&[
        "run",
        "--tmp-prefix",
        "--converger-timeout",
        &forever,
        "--max-runtime",
        &forever,
        "empty",
    ]);
    run.wait_for("graph empty");
    run.signal(Signal::INT);
    assert_eq!(run.end().0, Some(0));
}

#[test]
fn the_status_file_follows_convergence() {
    let env = TestEnv::new();
    let (file, status) = (env.at("file"), env.at("status"));
    let graph = env.write("graph.yaml", &one_file(&file, "x"));
    let mut run = RunningProgram::start(&[
        "run",
        "--tmp-prefix",
        "--converger-timeout=1",
        "--converger-status-file",
        status.to_str().unwrap(),
        "yaml",
        &graph,
    ]);
    run.wait_for("converged for 1 s");
    holds(&status, "true\n");
    assert_eq!(status.metadata().unwrap().mode() & 0o7777, 0o600);
    std::fs::write(&file, "damage").unwrap();
    holds(&status, "true\nfalse\ntrue\n");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "x");
    run.signal(Signal::INT);
    assert_eq!(run.end().0, Some(0));
}

#[test]
fn an_edit_is_followed_and_a_broken_one_keeps_the_graph() {
    let env = TestEnv::new();
    let (one, two) = (env.at("one"), env.at("two"));
    let graph = env.write("graph.yaml", &one_file(&one, "1"));
    let mut run = RunningProgram::start(&["run", "--tmp-prefix", "yaml", &graph]);
    holds(&one, "1");

    env.write("graph.yaml", "graph: one\nresources:\n  flie: []\n");
    run.wait_for("there is no kind `flie`");
    run.wait_for("still running the previous version");
    std::fs::write(&one, "damage").unwrap();
    holds(&one, "1");

    // An editor that writes a new file and renames it.
    let new = env.write("new.yaml", &one_file(&two, "2"));
    std::fs::rename(new, &graph).unwrap();
    holds(&two, "2");

    std::fs::remove_file(&graph).unwrap();
    run.wait_for("still running the previous version");
    std::fs::write(&two, "damage").unwrap();
    holds(&two, "2");
    env.write("graph.yaml", &one_file(&two, "3"));
    holds(&two, "3");
    run.signal(Signal::TERM);
    assert_eq!(run.end().0, Some(0));
}

#[test]
fn a_file_behind_a_link_is_followed() {
    let env = TestEnv::new();
    let one = env.at("one");
    let old = env.write("old.yaml", &one_file(&one, "1"));
    let new = env.write("new.yaml", &one_file(&one, "2"));
    let link = env.at("graph.yaml");
    std::os::unix::fs::symlink(&old, &link).unwrap();
    let mut run = RunningProgram::start(&["run", "--tmp-prefix", "yaml", link.to_str().unwrap()]);
    holds(&one, "1");
    std::os::unix::fs::symlink(&new, env.at("next")).unwrap();
    std::fs::rename(env.at("next"), &link).unwrap();
    holds(&one, "2");
    run.wait_for("reading");
    env.write("new.yaml", &one_file(&one, "3"));
    holds(&one, "3");
}

#[test]
fn without_watching_only_a_signal_reads_the_file_again() {
    let env = TestEnv::new();
    let one = env.at("one");
    let graph = env.write("graph.yaml", &one_file(&one, "1"));
    let mut run = RunningProgram::start(&["run", "--tmp-prefix", "--no-watch", "yaml", &graph]);
    holds(&one, "1");
    run.wait_for("graph one");
    env.write("graph.yaml", &one_file(&one, "2"));
    run.signal(Signal::HUP);
    holds(&one, "2");
    run.signal(Signal::INT);
    let (code, lines) = run.end();
    assert_eq!(code, Some(0));
    assert_eq!(lines.matches("reading").count(), 1, "{lines}");
}

#[test]
fn with_nothing_to_read_again_the_signal_says_so() {
    let mut run = RunningProgram::start(&["run", "--tmp-prefix", "empty"]);
    run.wait_for("graph empty");
    run.signal(Signal::HUP);
    run.wait_for("no file to read again");
}

#[test]
fn every_line_for_programs_is_an_object() {
    let env = TestEnv::new();
    let text = one_file(&env.at("file"), "x");
    let CommandOutput { code, stdout, stderr } = once(&["--message-format=json"], &text);
    assert_eq!(code, 0, "{stderr}");
    let parse = |text: &str| -> Vec<serde_json::Value> {
        text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect()
    };
    let (data, log) = (parse(&stdout), parse(&stderr));
    assert_eq!((&data[0]["type"], &data[1]["type"]), (&"hello".into(), &"summary".into()));
    assert_eq!((&data[1]["changed"], &data[1]["exit_code"]), (&1.into(), &0.into()));
    let id = format!("file[{}]", env.at("file").display());
    assert!(log.iter().any(|line| line["resource"] == id.as_str()), "{stderr}");
    assert!(log.iter().all(|line| line["type"] == "log" && line["timestamp"].is_string()), "{stderr}");
}

#[test]
fn a_name_can_neither_forge_a_line_nor_paint() {
    let text = "graph: \"g\\n\\e[31m\"\nresources:\n  print:\n  - name: \"a\\n00:00:00 error fake: \\e[31m\\x9b\"\n    msg: \"b\\r\\nc\\e]0;title\\a\"\n";
    for format in ["human", "json"] {
        let CommandOutput { code, stderr, .. } = once(&["--message-format", format], text);
        assert_eq!(code, 0, "{stderr}");
        assert!(stderr.contains("fake"), "{stderr}");
        let bad = stderr.chars().find(|character| character.is_control() && *character != '\n');
        assert_eq!(bad, None, "{stderr:?}");
        assert!(!stderr.lines().any(|line| line.starts_with("00:00:00 error fake")), "{stderr}");
    }
}

#[test]
fn each_graph_is_drawn() {
    let env = TestEnv::new();
    let drawing = env.at("drawing");
    let text = one_file(&env.at("file"), "x");
    let flags = ["--hostname", "here", "-g", drawing.to_str().unwrap()];
    let CommandOutput { code, stderr, .. } = once(&flags, &text);
    assert_eq!(code, 0, "{stderr}");
    let file = env.at("drawing@here");
    let dot = std::fs::read_to_string(&file).unwrap();
    assert!(dot.starts_with("digraph ") && dot.contains("file["), "{dot}");
    assert_eq!(file.metadata().unwrap().mode() & 0o7777, 0o600);
    let is_installed = std::process::Command::new("dot").arg("-V").output().is_ok();
    let picture = std::fs::read(env.at("drawing@here.png")).unwrap_or_default();
    assert_eq!(picture.starts_with(b"\x89PNG"), is_installed, "{stderr}");
}

#[test]
fn a_drawing_belongs_to_who_ran_sudo() {
    mgmt_test_support::require_root!();
    let env = TestEnv::new();
    let mut command = mgmt(&["run", "--tmp-prefix", "--hostname", "here", "-g"]);
    command.arg(env.at("drawing")).args(["--converger-timeout", "0", "--converged-exit", "empty"]);
    let CommandOutput { code, stderr, .. } =
        command.env("SUDO_UID", "12345").env("SUDO_GID", "54321").output().unwrap().into();
    assert_eq!(code, 0, "{stderr}");
    let found = env.at("drawing@here").metadata().unwrap();
    assert_eq!((found.uid(), found.gid()), (12345, 54321));
}

#[test]
fn a_file_that_anyone_can_write_to_is_mistrusted() {
    mgmt_test_support::require_root!();
    use std::os::unix::fs::PermissionsExt;
    let env = TestEnv::new();
    let graph = env.write("graph.yaml", "graph: x\n");
    std::fs::set_permissions(Path::new(&graph), std::fs::Permissions::from_mode(0o666)).unwrap();
    let CommandOutput { stderr, .. } = mgmt(&["check", "yaml", &graph]).output().unwrap().into();
    assert!(stderr.contains("anyone on this host"), "{stderr}");
}

#[test]
fn a_reader_of_the_log_that_goes_away_stops_nothing() {
    let env = TestEnv::new();
    let file = env.at("file");
    let graph = env.write("graph.yaml", &one_file(&file, "x"));
    let mut child = mgmt(&["run", "--tmp-prefix", "yaml", &graph])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop((child.stdout.take(), child.stderr.take()));
    holds(&file, "x");
    std::fs::write(&file, "damage").unwrap();
    holds(&file, "x");
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), Signal::INT).unwrap();
    let mut status = None;
    eventually("the program ends", || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    assert_eq!(status.and_then(|status| status.code()), Some(0));
}
