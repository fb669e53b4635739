//! `sysctl` with parameters of a network of the test's own.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics is a test that fails")]

use std::fs;

use crate::common::{Run, TestEnv};
use crate::host_common::{RunningEngine, edges, on_own_host, run, shell, snapshot, soon};
use mgmt_resource::{Checked, Error, Spec};
use mgmt_resources::file::File;
use mgmt_resources::sysctl::Sysctl;

const NAME: &str = "net.ipv4.ip_forward";
const CONF: &str = "/etc/sysctl.d/99-net.ipv4.ip_forward.conf";

fn sysctl(value: &str) -> Sysctl {
    Sysctl { value: value.into(), ..Sysctl::default() }
}

fn present(name: &str) -> String {
    run("sysctl", &["-n", name])
}

#[track_caller]
fn outcome(bench: &TestEnv, name: &str, sysctl: &Sysctl, run: Run<'_>) -> Result<Checked, Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(bench.vertex(name, sysctl.clone()).run(run)).result
}

/// Looking changes nothing and says what applying does; applying again changes nothing.
#[track_caller]
fn settles(bench: &TestEnv, name: &str, sysctl: &Sysctl) {
    let seen = || (snapshot(&["/etc/sysctl.d"]), present(name));
    let before = seen();
    assert_eq!(outcome(bench, name, sysctl, Run::LOOK).unwrap(), Checked::Changed);
    assert_eq!(seen(), before, "looking has changed something");
    assert_eq!(outcome(bench, name, sysctl, Run::APPLY).unwrap(), Checked::Changed);
    let before = seen();
    assert_eq!(outcome(bench, name, sysctl, Run::APPLY).unwrap(), Checked::Right);
    assert_eq!(outcome(bench, name, sysctl, Run::LOOK).unwrap(), Checked::Right);
    assert_eq!(seen(), before, "something was touched although all was right");
}

#[test]
fn a_parameter_is_set_now_and_for_the_next_boot() {
    if !on_own_host("a_parameter_is_set_now_and_for_the_next_boot") {
        return;
    }
    let bench = TestEnv::new();
    let (one, two) = if present(NAME) == "0" { ("1", "0") } else { ("0", "1") };
    settles(&bench, NAME, &sysctl(one));
    assert_eq!(present(NAME), one);
    assert_eq!(fs::read_to_string(CONF).unwrap(), format!("{NAME} = {one}\n"));
    // Each half alone.
    settles(&bench, NAME, &Sysctl { persist: false, ..sysctl(two) });
    assert_eq!(fs::read_to_string(CONF).unwrap(), format!("{NAME} = {one}\n"));
    let elsewhere = Sysctl { runtime: false, path: "/etc/sysctl.d/mine.conf".into(), ..sysctl(one) };
    settles(&bench, NAME, &elsewhere);
    assert_eq!(present(NAME), two);
    // What is stored is what the host reads when it boots.
    run("sysctl", &["-q", "-p", "/etc/sysctl.d/mine.conf"]);
    assert_eq!(present(NAME), one);

    // The kernel separates with tabs, people do not.
    settles(&bench, "net.ipv4.ping_group_range", &sysctl("7 9"));
    settles(&bench, "net.ipv4.ip_local_port_range", &sysctl("20000   30000"));
    run("ip", &["link", "add", "veth0.7", "type", "veth", "peer", "name", "peer0"]);
    settles(&bench, "net.ipv4.conf.veth0/7.forwarding", &sysctl(two));
    assert_eq!(fs::read_to_string("/proc/sys/net/ipv4/conf/veth0.7/forwarding").unwrap(), format!("{two}\n"));
    run("sysctl", &["-q", "-p", "/etc/sysctl.d/99-net.ipv4.conf.veth0-7.forwarding.conf"]);
}

#[test]
fn what_the_kernel_does_not_take_is_an_error() {
    if !on_own_host("what_the_kernel_does_not_take_is_an_error") {
        return;
    }
    let bench = TestEnv::new();
    for run in [Run::LOOK, Run::APPLY] {
        let error = outcome(&bench, "net.ipv4.no_such_thing", &sysctl("1"), run).unwrap_err();
        assert!(error.to_string().contains("no parameter net.ipv4.no_such_thing"), "{error}");
    }
    let error = outcome(&bench, NAME, &sysctl("green"), Run::APPLY).unwrap_err();
    assert!(error.hint().unwrap().contains("does not take this value"), "{error}");
    let error = outcome(&bench, NAME, &sysctl("0x1"), Run::APPLY).unwrap_err();
    assert!(error.to_string().contains("has made \"1\" of \"0x1\""), "{error}");
    assert!(!fs::exists(CONF).unwrap(), "what cannot be is not stored");
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_somebody_does_to_a_parameter_is_repaired() {
    if !on_own_host("whatever_somebody_does_to_a_parameter_is_repaired") {
        return;
    }
    let mut running = RunningEngine::start();
    running.swap(vec![Spec::new(NAME, sysctl("1"))]).await;
    let right = || {
        fs::read_to_string("/proc/sys/net/ipv4/ip_forward").unwrap() == "1\n"
            && fs::read_to_string(CONF).is_ok_and(|text| text == format!("{NAME} = 1\n"))
    };
    assert!(right());
    for drift in [
        "sysctl -q -w net.ipv4.ip_forward=0",
        "echo 0 >/proc/sys/net/ipv4/ip_forward",
        "rm /etc/sysctl.d/99-net.ipv4.ip_forward.conf",
        "echo net.ipv4.ip_forward = 0 >/etc/sysctl.d/99-net.ipv4.ip_forward.conf",
        "echo net.ipv4.ip_forward = 0 >/etc/x; mv /etc/x /etc/sysctl.d/99-net.ipv4.ip_forward.conf",
        // The kernel forgets what nobody uses.
        "echo 2 >/proc/sys/vm/drop_caches; echo 0 >/proc/sys/net/ipv4/ip_forward",
        "echo 3 >/proc/sys/vm/drop_caches; sysctl -q -w net.ipv4.ip_forward=0",
    ] {
        shell(&format!("({drift}) >/dev/null 2>&1 || true"));
        soon(drift, right).await;
    }
    running.stop();
}

#[test]
fn a_parameter_comes_after_the_directory_of_its_file() {
    let directory = File { state: "exists".into(), ..File::default() };
    let specs = vec![Spec::new(NAME, sysctl("1")), Spec::new("/etc/sysctl.d/", directory)];
    assert_eq!(edges(specs), ["file[/etc/sysctl.d/] -> sysctl[net.ipv4.ip_forward]"]);
}
