//! Each number of the page that can come and go does: failures, rest, deploys, the store. And where the page is without being told.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use mgmt_test_support::program;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;

use mgmt_test_support::etcd::EtcdCluster;
use mgmt_test_support::program::{RunningProgram, eventually, mgmt, mgmt_output, plain};
use rustix::process::Signal;

/// Where a run tells its numbers.
struct Page(SocketAddr);

impl Page {
    fn new() -> Page {
        Page(mgmt_test_support::address::reserved())
    }

    fn run(&self, arguments: &[&str]) -> RunningProgram {
        let address = self.0.to_string();
        let run = RunningProgram::start(&[&["run", "--prometheus-listen", &address], arguments].concat());
        eventually("it listens", || TcpStream::connect(self.0).is_ok());
        run
    }

    fn text(&self) -> String {
        let mut stream = TcpStream::connect(self.0).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn becomes(&self, line: &str) {
        eventually(line, || self.text().lines().any(|found| found == line));
    }
}

fn end(run: RunningProgram) {
    run.signal(Signal::INT);
    let (code, lines) = run.end();
    assert_eq!(code, Some(0), "{lines}");
}

const HARD: &str = "mgmt_failures{kind=\"exec\",failure=\"hard\"}";

#[test]
fn a_failure_for_good_is_counted_until_the_resource_is_well_again() {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("main.mcl");
    let write = |command: &str| {
        std::fs::write(&program, format!("exec \"x\" {{ cmd => \"{command}\", Meta:retry => 0, }}\n"))
            .unwrap();
    };
    write("/bin/false");
    let page = Page::new();
    let run = page.run(&["--tmp-prefix", "lang", program.to_str().unwrap()]);
    page.becomes(&format!("{HARD} 1"));
    page.becomes("mgmt_failures_total{kind=\"exec\",failure=\"hard\"} 1");
    page.becomes("mgmt_failures{kind=\"exec\",failure=\"soft\"} 0");
    write("/bin/true");
    page.becomes(&format!("{HARD} 0"));
    // What was is not forgotten.
    page.becomes("mgmt_failures_total{kind=\"exec\",failure=\"hard\"} 1");
    end(run);
}

#[test]
fn each_state_of_the_health_model_is_on_the_page() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (program, parent) = (at("main.mcl"), at("missing"));
    let text = format!(
        "file \"{parent}/a\" {{ state => \"exists\", content => \"x\", }}\n\
         noop \"behind\" {{ Depend => File[\"{parent}/a\"], }}\n\
         file \"{0}\" {{ state => \"exists\", Meta:noop => true, }}\n",
        at("looked-at")
    );
    std::fs::write(&program, &text).unwrap();
    let page = Page::new();
    let run = page.run(&["--tmp-prefix", "lang", &program]);
    for (state, count) in [("retrying", 1), ("blocked", 1), ("would_change", 1), ("failed", 0), ("ok", 0)] {
        page.becomes(&format!("mgmt_resource_state{{state=\"{state}\"}} {count}"));
    }
    page.becomes("mgmt_host_state{state=\"degraded\"} 1");
    page.becomes("mgmt_program_state{state=\"live\"} 1");
    page.becomes("mgmt_converged 0");
    eventually("it is retried", || {
        let text = page.text();
        let retries = text.lines().find_map(|line| line.strip_prefix("mgmt_retries_total{kind=\"file\"} "));
        retries.unwrap().parse::<u64>().unwrap() > 0
    });
    std::fs::create_dir(&parent).unwrap();
    std::fs::write(at("looked-at"), "").unwrap();
    // The file was written, the one that was looked at was found, and `noop` has nothing to change.
    page.becomes("mgmt_resource_state{state=\"changed\"} 1");
    page.becomes("mgmt_resource_state{state=\"ok\"} 2");
    page.becomes("mgmt_host_state{state=\"converged\"} 1");
    page.becomes("mgmt_converged 1");
    std::fs::write(&program, format!("{text}noop \"broken\" {{\n")).unwrap();
    page.becomes("mgmt_program_state{state=\"invalid\"} 1");
    page.becomes("mgmt_host_state{state=\"stale\"} 1");
    page.becomes("mgmt_converged 0");
    let waits = "import \"os\"\nprint \"waits\" {\n\tmsg => os.system(\"sleep 600\"),\n}\n";
    std::fs::write(&program, format!("{waits}{text}")).unwrap();
    page.becomes("mgmt_program_state{state=\"waiting\"} 1");
    page.becomes("mgmt_host_state{state=\"stale\"} 1");
    std::fs::write(&program, &text).unwrap();
    page.becomes("mgmt_program_state{state=\"live\"} 1");
    for none in ["mgmt_deploy_refused", "mgmt_duplicate_host", "mgmt_noop", "mgmt_hosts{state=\"lost\"}"] {
        page.becomes(&format!("{none} 0"));
    }
    end(run);
}

#[test]
fn a_host_is_at_rest_and_at_work_and_at_rest_again() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (program, first, second) = (at("main.mcl"), at("first"), at("second"));
    let waits = |file: &str| {
        let command = format!("while ! test -e {file}; do sleep 0.05; done");
        let text = format!(
            "exec \"x\" {{ cmd => \"{command}\", shell => \"/bin/sh\", env => {{\"PATH\" => \"/usr/bin:/bin\",}}, }}\n"
        );
        std::fs::write(&program, text).unwrap();
    };
    waits(&first);
    let page = Page::new();
    let run = page.run(&["--tmp-prefix", "--converger-timeout=0", "lang", &program]);
    page.becomes("mgmt_resources{kind=\"exec\"} 1");
    page.becomes("mgmt_converged 0");
    std::fs::write(&first, "").unwrap();
    page.becomes("mgmt_converged 1");
    waits(&second);
    page.becomes("mgmt_converged 0");
    std::fs::write(&second, "").unwrap();
    page.becomes("mgmt_converged 1");
    end(run);
}

#[test]
fn a_tick_is_no_change_and_none_is_pending_under_noop() {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("main.mcl");
    std::fs::write(&program, "timer \"each second\" { interval => 1, }\n").unwrap();
    for (flags, apply) in [(&["--noop"][..], "false"), (&[][..], "true")] {
        let page = Page::new();
        let run = page.run(&[&["--tmp-prefix"][..], flags, &["lang", program.to_str().unwrap()]].concat());
        let looked = format!(
            "mgmt_checkapply_total{{kind=\"timer\",apply=\"{apply}\",eventful=\"false\",errorful=\"false\"}} "
        );
        // The first only begins; the others are ticks.
        eventually("ticks", || {
            let text = page.text();
            let count = text.lines().find_map(|line| line.strip_prefix(looked.as_str()));
            count.unwrap().parse::<u64>().unwrap() > 2
        });
        page.becomes("mgmt_resource_state{state=\"would_change\"} 0");
        page.becomes("mgmt_resource_state{state=\"changed\"} 0");
        page.becomes("mgmt_host_state{state=\"converged\"} 1");
        end(run);
    }
}

#[test]
fn the_deploy_that_runs_is_on_the_page_and_in_the_history() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (prefix, file) = (at("prefix"), at("file"));
    let page = Page::new();
    let run = page.run(&["--prefix", &prefix, "empty"]);
    page.becomes("mgmt_deploy 0");
    for (number, content) in [(1, "one"), (2, "two")] {
        let program = format!("file \"{file}\" {{ state => \"exists\", content => \"{content}\", }}");
        let deployed = mgmt_output(&["deploy", "--prefix", &prefix, "--no-git", "lang", &program]);
        assert_eq!(deployed.code, 0, "{deployed:?}");
        page.becomes(&format!("mgmt_deploy {number}"));
        program::holds(Path::new(&file), content);
    }
    let changes = || -> Vec<serde_json::Value> {
        let told = mgmt_output(&["--json", "history", "--prefix", &prefix, &file]);
        let told: serde_json::Value = serde_json::from_str(&told.stdout).unwrap();
        told["changes"].as_array().unwrap().clone()
    };
    eventually("both are in the history", || changes().len() >= 2);
    let deploys: Vec<_> = changes().iter().map(|change| change["deploy"].clone()).collect();
    assert_eq!(deploys, [1, 2]);
    let told = mgmt_output(&["history", "--prefix", &prefix]).stdout;
    assert!(told.contains(", deploy 1") && told.contains(", deploy 2"), "{told}");
    let why = mgmt_output(&["why", &file, "--prefix", &prefix]).stdout;
    assert!(why.contains(", deploy 2"), "{why}");
    end(run);
}

#[test]
fn a_store_that_does_not_answer_is_down_and_up_again_when_it_does() {
    let directory = tempfile::tempdir().unwrap();
    let cluster = EtcdCluster::start(1);
    let prefix = directory.path().join("prefix");
    let page = Page::new();
    let seeds = cluster.endpoints().join(",");
    let run =
        page.run(&["--seeds", &seeds, "--hostname", "h1", "--prefix", prefix.to_str().unwrap(), "empty"]);
    page.becomes("mgmt_store_up 1");
    assert!(page.text().contains("\nmgmt_store_read_seconds "));
    cluster.pause(0);
    page.becomes("mgmt_store_up 0");
    assert!(!page.text().contains("\nmgmt_store_read_seconds "), "nobody knows how long it takes");
    cluster.resume(0);
    page.becomes("mgmt_store_up 1");
    end(run);
}

#[test]
fn without_being_told_where_the_page_is_at_the_usual_place_for_this_host_alone() {
    // In a network of its own, where nobody else has that port.
    let mut command = Command::new("unshare");
    plain(&mut command);
    let program = mgmt(&[]).get_program().to_owned();
    command.args(["--net", "sh", "-c", "ip link set lo up && exec \"$@\"", "sh"]).arg(program);
    command.args(["run", "--tmp-prefix", "--prometheus", "empty"]);
    let mut run = RunningProgram::start_command(command);
    run.wait_for("serving metrics at http://127.0.0.1:9233/metrics");
    let target = run.id().to_string();
    let inside = |words: &[&str]| {
        let output =
            Command::new("nsenter").args(["--target", &target, "--net"]).args(words).output().unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let page = inside(&["curl", "--silent", "--show-error", "http://127.0.0.1:9233/metrics"]);
    assert!(page.contains("\nmgmt_build_info{"), "{page}");
    let listening = inside(&["ss", "--listening", "--tcp", "--numeric", "--no-header"]);
    let addresses: Vec<&str> = listening.lines().filter_map(|line| line.split_whitespace().nth(3)).collect();
    assert_eq!(addresses, ["127.0.0.1:9233"], "{listening}");
    end(run);
}
