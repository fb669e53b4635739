//! The servers of the store: one that is down, most of them, all of them, and one that is full.

use crate::health::TestEnv;
use mgmt_test_support::etcd::EtcdCluster;
use mgmt_test_support::program::{CommandOutput, RunningProgram, eventually, mgmt_output};

fn status(cluster: &EtcdCluster, flags: &[&str]) -> CommandOutput {
    let seeds = cluster.endpoints().join(",");
    mgmt_output(&[flags, &["status", "--seeds", &seeds, "--timeout", "20s"]].concat())
}

fn json(cluster: &EtcdCluster) -> serde_json::Value {
    let said = status(cluster, &["--json"]);
    serde_json::from_str(said.stdout.lines().next().unwrap_or_else(|| panic!("{said:?}"))).unwrap()
}

fn becomes(cluster: &EtcdCluster, state: &str) -> CommandOutput {
    let mut last = status(cluster, &[]);
    eventually(state, || {
        last = status(cluster, &[]);
        last.stdout.contains(&format!("store  {state}: "))
    });
    last
}

fn agent(env: &TestEnv, cluster: &EtcdCluster, flags: &[&str]) -> RunningProgram {
    let (seeds, prefix) = (cluster.endpoints().join(","), env.text("prefix"));
    let run = ["run", "--seeds", &seeds, "--prefix", &prefix, "--hostname", "h1"];
    RunningProgram::start(&[&run[..], flags, &["empty"]].concat())
}

fn metrics(page: &str) -> String {
    let output = std::process::Command::new("curl").args(["-s", &format!("http://{page}/metrics")]).output();
    String::from_utf8(output.unwrap().stdout).unwrap()
}

#[test]
fn a_server_that_is_down_degrades_the_store_and_most_of_them_make_it_unavailable() {
    let (env, mut cluster) = (TestEnv::new(), EtcdCluster::start(3));
    let page = mgmt_test_support::address::reserved().to_string();
    let run = agent(&env, &cluster, &["--prometheus-listen", &page]);
    eventually("all is well", || status(&cluster, &[]).code == 0);
    cluster.kill(2);
    let said = becomes(&cluster, "degraded");
    assert!(said.code == 1 && said.stdout.contains("m2: does not answer"), "{said:?}");
    let described = json(&cluster)["cluster"].clone();
    assert_eq!((&described["state"], &described["quorum"]), (&"degraded".into(), &2.into()), "{described}");
    let is = |state: &str| {
        let line = format!("mgmt_cluster_state{{state=\"{state}\"}} 1");
        eventually(&line, || metrics(&page).lines().any(|found| found == line));
    };
    is("degraded");
    // One that has stopped without closing its connections does not answer, either.
    cluster.pause(1);
    let said = becomes(&cluster, "unavailable");
    assert_eq!(said.code, 1, "{said:?}");
    assert_eq!(json(&cluster)["cluster"]["state"], "unavailable");
    is("unavailable");
    cluster.resume(1);
    cluster.restart_and_wait(2);
    eventually("all is well again", || status(&cluster, &[]).code == 0);
    is("healthy");
    crate::health::finish(run);
}

#[test]
fn a_full_store_is_unavailable() {
    let (env, cluster) = (TestEnv::new(), EtcdCluster::start_one_with(&["--quota-backend-bytes", "4194304"]));
    let run = agent(&env, &cluster, &[]);
    eventually("all is well", || status(&cluster, &[]).code == 0);
    let value = "x".repeat(100 << 10);
    for number in 0..100 {
        // The one that fills it up is refused.
        let (key, endpoint) = (format!("/filler/{number}"), &cluster.endpoints()[0]);
        let mut command = std::process::Command::new("etcdctl");
        command.env("ETCDCTL_API", "3").args(["--endpoints", endpoint, "put", &key, &value]);
        if !command.output().unwrap().status.success() {
            break;
        }
    }
    let said = becomes(&cluster, "unavailable");
    assert!(said.code == 1 && said.stdout.contains("store is full, nothing can be written"), "{said:?}");
    run.signal(rustix::process::Signal::INT);
    assert_eq!(run.end().0, Some(0));
}
