//! Pages for which several hosts share a store.

use crate::page_commands::test_env::{TestEnv, lines};
use mgmt_test_support::network;
use mgmt_test_support::pages::{assert_shown, blocks};

/// A server of the store that somebody else runs, at the addresses of the page.
const ETCD: &str = "etcd --data-dir etcd --log-level error --listen-client-urls http://10.0.0.1:2379,http://10.0.0.2:2379 \
                    --advertise-client-urls http://10.0.0.1:2379 --listen-peer-urls http://10.0.0.1:2380 \
                    --initial-advertise-peer-urls http://10.0.0.1:2380 --initial-cluster default=http://10.0.0.1:2380";

#[test]
fn a_cluster_is_run() {
    let mut env = TestEnv::in_a_network("how-to/run-a-cluster.md");
    let [first, others, safe, size, _recover, backup] = <[String; 6]>::try_from(env.shell.clone()).unwrap();
    env.leaves_running_on("a", &first);
    env.waits_until_it_says("a", "mgmt members list", "1 serve, 3 shall");
    for (host, line) in ["b", "c"].into_iter().zip(lines(&others)) {
        env.leaves_running_on(host, &line);
    }
    env.waits_until_it_says("a", "mgmt members list", "\n3 serve, 3 shall");
    let said = env.waits_until_it_says("a", "mgmt members list", "leads");
    // Servers have no order among them.
    let sorted = |text: &str| {
        let mut lines: Vec<&str> = text.lines().collect();
        lines.sort_unstable();
        lines.join("\n")
    };
    assert_shown(&sorted(&blocks(&env.page, "text")[0]), &sorted(&said.stdout));
    env.types_well_on("a", &backup);
    let export = std::fs::read_to_string(env.path("backup.json")).unwrap();
    assert!(export.contains("/cluster/size"), "{export}");
    assert!(env.path("backup.db").metadata().unwrap().len() > 0);
    env.types_well_on("b", &size);
    env.waits_until_it_says("c", "mgmt members list", "3 serve, 5 shall");
    env.kills_it();
    // With certificates, those who have none are kept out.
    network::certificates_for(env.place.path(), &["10.0.0.1".to_owned()]);
    env.leaves_running_on("safe", &lines(&safe)[0]);
    let seeds = "--seeds https://10.0.0.1:2379 --seeds-ca ca.pem";
    let ours = format!("mgmt members list {seeds} --seeds-cert host.pem --seeds-key host.key");
    env.waits_until_it_says("safe", &ours, "1 serve, 3 shall");
    assert_ne!(env.types_on("a", &format!("mgmt members list {seeds}")).code, 0);
    env.kills_it();
}

/// A repository with a program that writes a file named after its host.
fn commit(env: &TestEnv, content: &str) {
    let program = format!(
        "$name = $hostname\nfile \"/tmp/out-${{name}}\" {{\n\tstate => \"exists\",\n\tcontent => \"{content}\",\n}}\n"
    );
    env.write("site/main.mcl", &env.here(&program));
    env.types_well(
        "cd site; git init -q -b main .; git add -A; git -c user.name=t -c user.email=t@example.com commit -q -m change",
    );
}

#[test]
fn hosts_share() {
    let mut env = TestEnv::in_a_network("how-to/share-between-hosts.md");
    let [run, deploy, deploys, sign, status, admit, to_a_cluster] =
        <[String; 7]>::try_from(env.shell.clone()).unwrap();
    env.calls("/etc/mgmt/", "/tmp/");
    env.leaves_running_on("etcd", ETCD);
    env.leaves_running_on("a", &run);
    env.leaves_running_on("b", &run);
    commit(&env, "first");
    env.wait_for("the deploy", || env.types(&deploy).code == 0);
    for host in ["out-a", "out-b"] {
        env.waits_for_text(host, "first");
    }
    // On a host alone, what was deployed is listed, shown and taken back.
    env.leaves_running_on("alone", "mgmt run empty");
    env.waits_until_it_says("alone", "mgmt status", "alone");
    for number in 1..=7 {
        env.types_well_on(
            "alone",
            &format!("mgmt deploy --no-git lang 'print \"a\" {{msg => \"text {number}\"}}'"),
        );
    }
    let said = env.types_well_on("alone", &deploys);
    assert!(
        said.stdout.contains("  main.mcl\n") && said.stdout.contains("again number 6"),
        "{}",
        said.stdout
    );
    env.wait_for("the text before the last", || {
        let log = env.log_of("alone");
        log.split_once("taking deploy 8").is_some_and(|(_, since)| since.contains("text 6"))
    });
    // Only what is signed is run where that is asked for.
    let [key, on_each_host, signed] = <[String; 3]>::try_from(lines(&sign)).unwrap();
    env.types_well(&key);
    env.leaves_running_on("c", on_each_host.split('#').next().unwrap());
    env.wait_for("the refusal", || env.log_of("c").contains("nobody has signed it"));
    assert!(!env.path("out-c").exists());
    commit(&env, "signed");
    env.types_well(&signed);
    for host in ["out-a", "out-b", "out-c"] {
        env.waits_for_text(host, "signed");
    }
    env.wait_for("all is well", || {
        let said = env.types(&status);
        said.code == 0
            && ["a  converged", "b  converged", "c  converged"].iter().all(|part| said.stdout.contains(part))
    });
    // Each host with a user of its own.
    let [operator, admit_a, admit_b, run_a, deploy] = <[String; 5]>::try_from(lines(&admit)).unwrap();
    env.kills_it();
    env.leaves_running_on("etcd", ETCD);
    env.wait_for("the store is closed", || env.types(operator.split('#').next().unwrap()).code == 0);
    env.types_well(&admit_a);
    env.types_well(&admit_b);
    env.leaves_running_on("a", run_a.split('#').next().unwrap());
    commit(&env, "admitted");
    env.types_well(&deploy);
    env.waits_for_text("out-a", "admitted");
    // What a host alone has is given to a cluster that is new.
    env.kills_it();
    env.leaves_running_on("etcd", &ETCD.replace("--data-dir etcd", "--data-dir another"));
    env.leaves_running_on("alone", "mgmt run empty");
    env.waits_until_it_says("alone", "mgmt status", "alone");
    env.types_well_on("alone", "mgmt deploy --no-git lang 'kv \"colour\" { value => \"green\", }'");
    env.waits_until_it_says("alone", "mgmt world export", "colour");
    env.wait_for("the cluster", || env.types_on("alone", &to_a_cluster).code == 0);
    let said =
        env.types_well("ETCDCTL_API=3 etcdctl --endpoints http://10.0.0.1:2379 get --prefix /mgmt/string/");
    assert!(said.stdout.contains("colour"), "{}", said.stdout);
}

#[test]
fn prometheus_watches() {
    let mut env = TestEnv::in_a_network("how-to/watch-with-prometheus.md");
    let [ways] = <[String; 1]>::try_from(env.shell.clone()).unwrap();
    env.write("site/main.mcl", "print \"a\" {\n\tmsg => \"hello\",\n}\n");
    for (line, address) in lines(&ways).iter().zip(["127.0.0.1:9233", "10.0.0.1:9233"]) {
        let command = line.split("  #").next().unwrap();
        env.leaves_running(command);
        let metrics = env.waits_until_it_says(
            "here",
            &format!("curl --silent http://{address}/metrics"),
            "mgmt_resources{kind=\"print\"} 1\n",
        );
        // Every metric of the table is there.
        for row in env.page.lines().filter_map(|line| line.strip_prefix("| `mgmt_")) {
            let name: String =
                row.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect();
            assert!(metrics.stdout.contains(&format!("\nmgmt_{name}")), "mgmt_{name}");
        }
        env.ends_it();
    }
    env.write("prometheus.yml", &env.block("yaml", 0));
    let said = env.types_well("promtool check config prometheus.yml");
    assert!(said.stdout.contains("SUCCESS"), "{}", said.stdout);
}
