//! Pages about hosts that are reached with ssh. They have an sshd and nothing else.

use crate::page_commands::test_env::{TestEnv, lines};
use mgmt_test_support::address::reserved_port;
use mgmt_test_support::sshd::Hosts;

/// A env whose user knows hosts by their names, as somebody has them in `~/.ssh/config`, and who has a `/var/lib` of their own.
fn env(page: &str, hosts: &Hosts) -> TestEnv {
    let mut env = TestEnv::of(page);
    for directory in ["home/.ssh", "lib"] {
        std::fs::create_dir_all(env.path(directory)).unwrap();
    }
    std::fs::copy(hosts.config(), env.path("home/.ssh/config")).unwrap();
    let own = "mount --bind \"$1/home\" /root && mount --bind \"$1/lib\" /var/lib && export HOME=/root && shift && exec \"$@\"";
    let place = env.place.path().to_str().unwrap().to_owned();
    env.arranges(&["unshare", "--mount", "--", "sh", "-ec", own, "sh", &place]);
    env.has_no_prefix();
    env
}

/// A program that writes a file named after its host, in a repository.
fn program(env: &TestEnv, content: &str) {
    let text = format!(
        "$name = $hostname\nfile \"/tmp/out-${{name}}\" {{\n\tstate => \"exists\",\n\tcontent => \"{content}\",\n}}\n"
    );
    env.write("site.mcl", &env.here(&text));
    env.write(".gitignore", "*\n");
    env.types_well(
        "git init -q -b main .; git add -f site.mcl; git -c user.name=t -c user.email=t@example.com commit -q -m change",
    );
}

#[test]
fn ansible_is_left() {
    let hosts = Hosts::start(&["web1", "web2"]);
    let mut env = env("how-to/coming-from-ansible.md", &hosts);
    program(&env, "pushed");
    let [_beside, push] = <[String; 2]>::try_from(env.shell.clone()).unwrap();
    env.leaves_running(&push);
    for host in ["out-web1", "out-web2"] {
        env.waits_for_text(host, "pushed");
    }
    env.ends_it();
}

#[test]
fn hosts_without_an_agent_are_reached() {
    let hosts = Hosts::start(&["web1", "web2", "db1", "jump.example.org"]);
    let mut env = env("how-to/run-on-hosts-without-an-agent.md", &hosts);
    let [run, to_the_end, graphs, stores] = <[String; 4]>::try_from(env.shell.clone()).unwrap();
    program(&env, "first");
    env.leaves_running(&run);
    for host in ["out-web1", "out-web2", "out-db1"] {
        env.waits_for_text(host, "first");
    }
    env.ends_it();
    std::fs::remove_file(env.path("out-web2")).unwrap();
    env.types_well(&to_the_end);
    env.waits_for_text("out-web2", "first");
    // Graphs that name their host, of which the page has one.
    let graph = env.block("yaml", 0);
    assert!(graph.contains("/etc/motd"));
    for host in ["web1", "db1"] {
        let own = graph.replace("web1", host).replace("/etc/motd", &env.here(&format!("/tmp/motd-{host}")));
        env.write(&format!("{host}.yaml"), &own);
    }
    env.types_well(&graphs);
    for name in ["motd-web1", "motd-db1"] {
        env.waits_for_text(name, "hello\n");
    }
    // Stores of others: that of the run on a host, and that of servers which a host can reach.
    let port = reserved_port();
    env.calls("etcd1:2379", &format!("etcd1:{port}"));
    let peers = reserved_port();
    env.leaves_running_on(
        "etcd",
        &format!(
            "etcd --data-dir etcd --log-level error --listen-client-urls http://127.0.0.1:{port} \
             --advertise-client-urls http://etcd1:{port} --listen-peer-urls http://127.0.0.1:{peers}"
        ),
    );
    let there = format!("ssh web1 'exec {} run empty'", env!("CARGO_BIN_EXE_mgmt"));
    env.leaves_running_on("web1", &there);
    let [to_web1, to_servers, status, member] = <[String; 4]>::try_from(lines(&stores)).unwrap();
    std::fs::remove_file(env.path("out-web1")).unwrap();
    env.wait_for("the run on web1", || env.types(&to_web1).code == 0);
    env.waits_for_text("out-web1", "first");
    env.waits_until_it_says("here", &status, "web1  converged");
    env.wait_for("the servers", || env.types(&to_servers).code == 0);
    let member = member.split('#').next().unwrap().to_owned();
    env.leaves_running_on("member", &member);
    let own = rustix::system::uname().nodename().to_string_lossy().into_owned();
    env.waits_for_text(&format!("out-{own}"), "first");
}
