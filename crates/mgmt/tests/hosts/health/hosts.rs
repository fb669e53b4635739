//! Several hosts: those that are lost, and two that have one name.

use std::time::{Duration, Instant};

use crate::health::{TestEnv, file, finish};
use mgmt_test_support::etcd::EtcdCluster;
use mgmt_test_support::program::{CommandOutput, RunningProgram, eventually, mgmt_output};

struct Hosts {
    env: TestEnv,
    cluster: EtcdCluster,
}

impl Hosts {
    fn new() -> Hosts {
        Hosts { env: TestEnv::new(), cluster: EtcdCluster::start(1) }
    }

    fn seeds(&self) -> String {
        self.cluster.endpoints().join(",")
    }

    /// An agent with its own working directory.
    fn start(&self, directory: &str, name: &str, flags: &[&str]) -> RunningProgram {
        let (seeds, prefix) = (self.seeds(), self.env.text(directory));
        let mut all = vec!["run", "--seeds", &seeds, "--prefix", &prefix, "--hostname", name];
        all.extend(flags);
        RunningProgram::start(&all)
    }

    fn said(&self, command: &[&str]) -> CommandOutput {
        let seeds = self.seeds();
        let mut all = command.to_vec();
        all.extend(["--seeds", &seeds]);
        mgmt_output(&all)
    }

    fn status_has(&self, parts: &[&str]) -> CommandOutput {
        let mut last = self.said(&["status"]);
        eventually(&format!("{parts:?}"), || {
            last = self.said(&["status"]);
            parts.iter().all(|part| last.stdout.contains(part))
        });
        last
    }
}

#[test]
fn a_member_that_is_gone_is_lost_until_it_is_forgotten() {
    let hosts = Hosts::new();
    let nobody = hosts.said(&["status"]);
    assert!(nobody.code == 3 && nobody.stderr.contains("not running on any host"), "{nobody:?}");
    let (a, b) = (hosts.start("a", "a", &["empty"]), hosts.start("b", "b", &["empty"]));
    assert_eq!(hosts.status_has(&["a  converged", "b  converged", "store  healthy"]).code, 0);
    let running = hosts.said(&["forget", "b"]);
    assert!(running.code == 1 && running.stderr.contains("`b` is running"), "{running:?}");
    // Killed without a word.
    drop(b);
    let said = hosts.status_has(&["b  lost: last seen 20"]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.stdout.contains(" UTC (") && said.stdout.contains("`mgmt forget b`"), "{said:?}");
    let json = hosts.said(&["--json", "status"]);
    let json: serde_json::Value = serde_json::from_str(json.stdout.lines().next().unwrap()).unwrap();
    assert_eq!(
        (json["hosts"]["b"]["state"].as_str(), json["hosts"]["a"]["state"].as_str()),
        (Some("lost"), Some("converged"))
    );
    assert!(json["hosts"]["b"]["since"].as_u64().unwrap() > 0);
    // Its record expires by itself: the store holds it for at most seven days.
    let entry = hosts.cluster.etcdctl(&["get", "--prefix", "/mgmt/host/b/member", "-w", "json"]);
    let entry: serde_json::Value = serde_json::from_str(&entry).unwrap();
    let lease = format!("{:x}", entry["kvs"][0]["lease"].as_u64().unwrap());
    let lease = hosts.cluster.etcdctl(&["lease", "timetolive", &lease, "-w", "json"]);
    let lease: serde_json::Value = serde_json::from_str(&lease).unwrap();
    let (granted, left) = (lease["granted-ttl"].as_u64().unwrap(), lease["ttl"].as_u64().unwrap());
    assert!(granted == 7 * 24 * 3600 && left <= granted, "{lease}");
    // It comes back, at once: its claim is taken over. Then it is stopped in order.
    let b = hosts.start("b", "b", &["empty"]);
    assert_eq!(hosts.status_has(&["b  converged"]).code, 0);
    finish(b);
    assert_eq!(hosts.status_has(&["b  lost: stopped 20"]).code, 1);
    let forgotten = hosts.said(&["forget", "b"]);
    assert_eq!(forgotten.code, 0, "{forgotten:?}");
    let said = hosts.said(&["status"]);
    assert!(said.code == 0 && !said.stdout.contains("b  "), "{said:?}");
    let unknown = hosts.said(&["forget", "b"]);
    assert!(unknown.code == 1 && unknown.stderr.contains("there is no host `b`"), "{unknown:?}");
    // A run that was to end by itself was no member.
    let once = hosts.start("c", "c", &["--converger-timeout", "0", "--converged-exit", "empty"]);
    assert_eq!(once.end().0, Some(0));
    assert_eq!(hosts.said(&["status"]).code, 0);
    finish(a);
    let said = hosts.said(&["status"]);
    assert!(said.code == 3 && said.stdout.contains("a  lost: stopped"), "{said:?}");
}

#[test]
fn of_two_agents_with_one_name_the_younger_stands_back() {
    let hosts = Hosts::new();
    let path = hosts.env.at("managed");
    let program = hosts.env.write("main.mcl", &file(&path, ""));
    let page = mgmt_test_support::address::reserved().to_string();
    let mut elder = hosts.start("elder", "twin", &["--no-deploy-watch", "empty"]);
    hosts.status_has(&["twin  converged"]);
    let mut younger = hosts.start("younger", "twin", &["--prometheus-listen", &page, "lang", &program]);
    let line = younger.wait_for("another agent uses the host name \"twin\"");
    assert!(line.contains("stores nothing until the other one is gone"), "{line}");
    let line = elder.wait_for("another agent uses the host name \"twin\"");
    assert!(line.contains("it stands back"), "{line}");
    let said = hosts.status_has(&["twin  degraded", "another agent uses this host name since 20"]);
    assert_eq!(said.code, 1, "{said:?}");
    // It goes on managing its host.
    std::fs::write(&path, "wrong").unwrap();
    mgmt_test_support::program::holds(&path, "x");
    let metrics = || {
        let output =
            std::process::Command::new("curl").args(["-s", &format!("http://{page}/metrics")]).output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    assert!(metrics().contains("\nmgmt_duplicate_host 1\n"), "{}", metrics());
    // Nobody fights: keys of this host are written less than twice a second.
    let revision = || {
        let text = hosts.cluster.etcdctl(&["get", "x", "-w", "json"]);
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        json["header"]["revision"].as_u64().unwrap()
    };
    let (began, before) = (Instant::now(), revision());
    std::thread::sleep(Duration::from_secs(5));
    let (written, seconds) = (revision() - before, began.elapsed().as_secs() + 1);
    assert!(written <= seconds * 2, "{written} writes in {seconds} s");
    // When the elder is gone, the younger one takes over.
    finish(elder);
    younger.wait_for("no other agent uses the host name \"twin\" any more");
    hosts.status_has(&["twin  converged: 1 resource"]);
    assert!(metrics().contains("\nmgmt_duplicate_host 0\n"), "{}", metrics());
    finish(younger);
}

#[test]
fn what_changes_all_the_time_is_written_at_a_bounded_rate() {
    let hosts = Hosts::new();
    let input = hosts.env.write("input", "0");
    let text = format!(
        "import \"os\"\n$value = os.readfile({input:?})\nkv \"key\" {{\n\tvalue => $value,\n}}\n\
         noop \"offer\" {{\n\tcomment => $value,\n\tMeta:export => [\"*\",],\n}}\n"
    );
    let program = hosts.env.write("main.mcl", &text);
    let run = hosts.start("a", "a", &["--no-deploy-watch", "lang", &program]);
    hosts.status_has(&["a  converged"]);
    let revision = || {
        let text = hosts.cluster.etcdctl(&["get", "x", "-w", "json"]);
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        json["header"]["revision"].as_u64().unwrap()
    };
    let (began, before) = (Instant::now(), revision());
    let mut last = 0;
    while began.elapsed() < Duration::from_secs(8) {
        last += 1;
        std::fs::write(&input, last.to_string()).unwrap();
        std::thread::sleep(Duration::from_millis(1));
    }
    let (written, seconds) = (revision() - before, began.elapsed().as_secs() + 1);
    // Exports and the status: 20 at once and 10 in a second. Everything: 500 at once and 50 in a second.
    assert!(written <= 500 + 50 * seconds, "{written} writes in {seconds} s for {last} values");
    let stored = |prefix: &str| hosts.cluster.etcdctl(&["get", "--prefix", prefix, "-w", "json"]);
    let versions: serde_json::Value = serde_json::from_str(&stored("/mgmt/host/a/export/")).unwrap();
    let version = versions["kvs"][0]["version"].as_u64().unwrap();
    assert!(version <= 20 + 10 * seconds + 2, "an export was written {version} times in {seconds} s");
    // The last value always arrives.
    eventually("the last value is there", || {
        let text = hosts.cluster.etcdctl(&["get", "--prefix", "/mgmt/", "--print-value-only"]);
        text.matches(&format!("\"{last}\"")).count() >= 2
    });
    finish(run);
}
