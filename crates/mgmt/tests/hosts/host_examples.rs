//! Every example that changes the host beyond a directory is run by the real program, on a view of this machine on which
//! every change is thrown away: it says what it would change and changes nothing, then it converges, and then all is right.
//! Those that need systemd run on a host that was booted for them.
#![allow(missing_docs, clippy::unwrap_used)]

use mgmt_test_support::booted_host;
use mgmt_test_support::sandbox;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use mgmt_test_support::program::CommandOutput;
use mgmt_test_support::sandbox::Sandbox;

/// Where the program is on a host of its own.
const PROGRAM: &str = "/mgmt-test-mgmt";
/// Names the example there.
const EXAMPLE: &str = "MGMT_TEST_EXAMPLE";

/// The examples in a directory, of which there are at least so many.
fn examples(directory: &str, least: usize) -> Vec<PathBuf> {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/yaml").join(directory);
    let mut files: Vec<_> = std::fs::read_dir(examples).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= least, "only {} examples", files.len());
    files
}

fn run(program: &str, more: &[&str], graph: &Path) -> CommandOutput {
    let mut command = Command::new(program);
    command.args(["run", "--prefix", "/mgmt-test-prefix", "--converger-timeout=0", "--converged-exit"]);
    command.arg("--max-runtime=60").args(more).arg("yaml").arg(graph);
    CommandOutput::from(command.output().unwrap())
}

fn told(said: &CommandOutput) -> String {
    format!("{}{}", said.stdout, said.stderr)
}

fn state() -> Output {
    // What others do on this machine meanwhile shows through in some places.
    let list = "find /etc /home /var \\( -path /var/log -o -path /var/cache -o -path /var/tmp \\) -prune -o -type f ! -name .pwd.lock -exec stat --format='%n %i %Z' {} + | sort";
    Command::new("sh").args(["-c", list]).output().unwrap()
}

/// Looking changes nothing and says what applying does; applying again changes nothing.
fn settles(program: &str, graph: &Path) {
    let before = state();
    let looking = run(program, &["--noop"], graph);
    assert_eq!(looking.code, 0, "{looking:?}");
    assert!(told(&looking).contains("would change"), "{looking:?}");
    assert_eq!(state(), before, "looking has changed something: {looking:?}");
    let applying = run(program, &[], graph);
    assert_eq!(applying.code, 0, "{applying:?}");
    assert!(!told(&applying).contains(" 0 changed, 0 failed"), "{applying:?}");
    let before = state();
    let again = run(program, &[], graph);
    assert_eq!(again.code, 0, "{again:?}");
    assert!(told(&again).contains(" 0 changed, 0 failed"), "{again:?}");
    assert_eq!(state(), before, "something was touched although all was right: {again:?}");
}

#[test]
fn examples_for_a_host_look_converge_and_are_right_the_second_time() {
    if sandbox::is_inside() {
        return settles(PROGRAM, Path::new(&std::env::var_os(EXAMPLE).unwrap()));
    }
    for file in examples("host", 6) {
        Sandbox {
            apart: true,
            prepare: &format!("hostname test-host; cp '{}' graph.yaml", file.display()),
            also: Some((PROGRAM, Path::new(env!("CARGO_BIN_EXE_mgmt")))),
            environment: &[(EXAMPLE, "/graph.yaml".as_ref())],
        }
        .run("examples_for_a_host_look_converge_and_are_right_the_second_time");
    }
}

#[test]
fn examples_for_systemd_look_converge_are_right_the_second_time_and_repaired() {
    if booted_host::is_booted() {
        return on_a_booted_host();
    }
    let program = Path::new(env!("CARGO_BIN_EXE_mgmt"));
    let name = "examples_for_systemd_look_converge_are_right_the_second_time_and_repaired";
    for file in examples("systemd", 4) {
        booted_host::on_booted_host_with(name, &[("mgmt", program), ("graph.yaml", &file)]);
    }
}

fn on_a_booted_host() {
    let (program, graph) = ("/mgmt-test-result/mgmt", Path::new("/mgmt-test-result/graph.yaml"));
    // A host need not have the service that an example is about, but a test does.
    let service = "[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n";
    if !Path::new("/lib/systemd/system/cron.service").exists() {
        std::fs::write("/etc/systemd/system/cron.service", service).unwrap();
        booted_host::run("systemctl", &["daemon-reload"]);
    }
    settles(program, graph);
    let declared = std::fs::read_to_string(graph).unwrap();
    let units = [
        ("graph: cron", "example-clean.timer"),
        ("graph: firewalld", "firewalld.service"),
        ("graph: nspawn", "systemd-nspawn@example.service"),
        ("graph: svc", "cron.service"),
    ];
    let (_, unit) = units.into_iter().find(|(graph, _)| declared.contains(graph)).unwrap();
    assert_eq!(booted_host::unit_state("is-active", unit), "active");
    assert_eq!(booted_host::unit_state("is-enabled", unit), "enabled");
    // What the examples say about themselves.
    let mut running = Command::new(program)
        .args(["run", "--prefix", "/mgmt-test-prefix", "yaml"])
        .arg(graph)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    for drift in ["stop", "disable"] {
        let end = Instant::now() + Duration::from_secs(60);
        // The program may not be there yet; whatever somebody does then is repaired in the beginning.
        booted_host::run("systemctl", &[drift, unit]);
        while booted_host::unit_state("is-active", unit) != "active"
            || booted_host::unit_state("is-enabled", unit) != "enabled"
        {
            assert!(Instant::now() < end, "{unit} is not repaired after {drift}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    running.kill().unwrap();
    running.wait().unwrap();
}
