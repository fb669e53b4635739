//! `net` in a network of its own, with a pair of interfaces that are connected.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics is a test that fails")]

use std::fs;

use crate::common::{Run, TestEnv, refused};
use crate::host_common::{RunningEngine, disturb, edges, on_own_host, output, shell, soon};
use mgmt_resource::{Checked, Error, Id, Kind, Meta, Spec};
use mgmt_resources::file::File;
use mgmt_resources::net::Net;
use mgmt_test_support::booted_host::on_booted_host;
use mgmt_value::Str;

const FILE: &str = "/etc/systemd/network/mgmt-test0.network";

fn net(state: &str, addrs: &[&str], gateway: &str) -> Net {
    let addrs = Some(addrs.iter().map(|text| Str::from(*text)).collect());
    Net { state: state.into(), addrs, gateway: gateway.into(), ip_forward: None }
}

/// Makes the pair. The kernel gives them no addresses by itself, so that nothing moves but what the test moves.
fn pair() {
    shell(
        "mkdir -p /etc/systemd/network
        ip link add test0 type veth peer name test1
        echo 1 >/proc/sys/net/ipv6/conf/test1/disable_ipv6
        ip link set test1 up",
    );
}

#[track_caller]
fn outcome(bench: &TestEnv, name: &str, net: &Net, run: Run<'_>) -> Result<Checked, Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(bench.vertex(name, net.clone()).run(run)).result
}

/// Whether it is up, its addresses, the routes through it, and the file.
fn seen() -> [String; 3] {
    let is_up = shell("ip -o link show test0 | grep -qw UP && echo up || echo down");
    let addresses = shell(
        "ip -o address show test0 | grep -vw 'scope link' | awk '{print $4}' | sort
        ip route show dev test0 | sed 's/ linkdown//; s/ *$//'
        ip -6 route show dev test0 | grep -v ^fe80 | awk '{print $1, $2, $3}'",
    );
    [is_up, addresses, fs::read_to_string(FILE).unwrap_or_default()]
}

/// Looking changes nothing and says what applying does; applying again changes nothing.
#[track_caller]
fn settles(bench: &TestEnv, net: &Net) {
    let before = seen();
    assert_eq!(outcome(bench, "test0", net, Run::LOOK).unwrap(), Checked::Changed);
    assert_eq!(seen(), before, "looking has changed something");
    assert_eq!(outcome(bench, "test0", net, Run::APPLY).unwrap(), Checked::Changed);
    rests(bench, net);
}

#[track_caller]
fn rests(bench: &TestEnv, net: &Net) {
    let before = seen();
    assert_eq!(outcome(bench, "test0", net, Run::LOOK).unwrap(), Checked::Right);
    assert_eq!(outcome(bench, "test0", net, Run::APPLY).unwrap(), Checked::Right);
    assert_eq!(seen(), before, "something was touched although all was right");
}

#[test]
fn an_interface_is_put_up_with_its_addresses_and_down_again() {
    if !on_own_host("an_interface_is_put_up_with_its_addresses_and_down_again") {
        return;
    }
    pair();
    let bench = TestEnv::new();
    let addrs = ["192.0.2.1/24", "192.0.2.2/24", "198.51.100.1/32", "2001:db8::1/64", "2001:db8:1::1/128"];
    let wanted = Net { ip_forward: Some(false), ..net("up", &addrs, "192.0.2.254") };
    settles(&bench, &wanted);
    let [is_up, addresses, file] = seen();
    assert_eq!(is_up, "up");
    assert!(addrs.iter().all(|address| addresses.contains(address)), "{addresses}");
    assert!(addresses.contains("default via 192.0.2.254 proto static"), "{addresses}");
    assert!(addresses.contains("192.0.2.0/24 proto kernel scope link src 192.0.2.1"), "{addresses}");
    assert!(
        file.contains("Name=test0\n") && file.contains("Gateway=192.0.2.254\nIPForward=false\n"),
        "{file}"
    );

    // Others go, and a primary address takes the others of its network along.
    settles(&bench, &net("up", &["192.0.2.2/24", "2001:db8::2/64"], "192.0.2.253"));
    let addresses = seen()[1].clone();
    assert!(!addresses.contains("192.0.2.1") && !addresses.contains("198.51.100.1"), "{addresses}");
    assert!(
        addresses.contains("default via 192.0.2.253") && !addresses.contains("2001:db8::1"),
        "{addresses}"
    );
    // Another prefix of the same address, and a gateway of the other family.
    settles(&bench, &net("up", &["192.0.2.2/25", "2001:db8::2/56"], "2001:db8::fe"));
    assert!(seen()[1].contains("default via 2001:db8::fe"), "{:?}", seen());
    settles(&bench, &net("up", &[], ""));
    assert!(!seen()[1].contains('/'), "{:?}", seen());

    settles(&bench, &net("down", &[], ""));
    assert_eq!(seen()[0], "down");
    assert!(!fs::exists(FILE).unwrap());
}

#[test]
fn what_is_not_declared_is_left_alone() {
    if !on_own_host("what_is_not_declared_is_left_alone") {
        return;
    }
    pair();
    shell(
        "ip address add 192.0.2.7/24 dev test0; ip link set test0 up; ip route add default via 192.0.2.254 metric 7",
    );
    let bench = TestEnv::new();
    let before = seen();
    settles(&bench, &Net { state: "up".into(), ..Net::default() });
    assert_eq!(seen()[..2], before[..2]);
    rests(&bench, &net("", &["192.0.2.7/24"], ""));
    // Which one it is does not matter, if there is one.
    rests(&bench, &net("", &["192.0.2.7/24"], "192.0.2.254"));
    settles(&bench, &net("", &["192.0.2.7/24", "192.0.2.8/24"], ""));
    assert!(seen()[1].contains("default via 192.0.2.254 metric 7"), "{:?}", seen());
    // The address of the host itself is not one of ours.
    assert_eq!(
        outcome(&bench, "lo", &net("up", &["203.0.113.1/32"], ""), Run::APPLY).unwrap(),
        Checked::Changed
    );
    assert!(shell("ip address show lo").contains("127.0.0.1/8"));
}

#[test]
fn two_interfaces_have_their_default_routes_and_do_not_fight() {
    if !on_own_host("two_interfaces_have_their_default_routes_and_do_not_fight") {
        return;
    }
    pair();
    let bench = TestEnv::new();
    shell("ip link add test2 type veth peer name test3; ip link set test3 up");
    let other = net("up", &["198.51.100.1/24", "2001:db8:2::1/64"], "198.51.100.254");
    let apply = |name: &str, net: &Net| outcome(&bench, name, net, Run::APPLY).unwrap();
    assert_eq!(apply("test2", &other), Checked::Changed);
    let wanted = net("up", &["192.0.2.1/24", "2001:db8::1/64"], "192.0.2.254");
    settles(&bench, &wanted);
    assert_eq!(apply("test2", &other), Checked::Right);
    let (other, wanted) =
        (Net { gateway: "2001:db8:2::fe".into(), ..other }, Net { gateway: "2001:db8::fe".into(), ..wanted });
    assert_eq!(apply("test2", &other), Checked::Changed);
    assert_eq!(apply("test0", &wanted), Checked::Changed);
    assert_eq!((apply("test0", &wanted), apply("test2", &other)), (Checked::Right, Checked::Right));
    shell(
        "ip route add default via 192.0.2.9 dev test0 metric 5; ip -6 route add default via 2001:db8::9 dev test0 metric 5",
    );
    settles(&bench, &wanted);
    assert_eq!(apply("test2", &other), Checked::Right);
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_somebody_does_to_an_interface_is_repaired() {
    if !on_own_host("whatever_somebody_does_to_an_interface_is_repaired") {
        return;
    }
    pair();
    let mut running = RunningEngine::start();
    let wanted = net("up", &["192.0.2.1/24", "2001:db8::1/64"], "192.0.2.254");
    let mut spec = Spec::new("test0", wanted);
    // While the interface is not there, it fails.
    spec.meta = Meta { retry: Some(-1), delay: 20, ..Meta::default() }.into();
    running.swap(vec![spec]).await;
    let right = seen();
    assert!(right[1].contains("default via 192.0.2.254"), "{right:?}");
    for drift in [
        "ip link set test0 down",
        "ip address del 192.0.2.1/24 dev test0",
        "ip address del 2001:db8::1/64 dev test0",
        "ip address flush dev test0",
        "ip address add 203.0.113.1/24 dev test0",
        "ip address add 2001:db8:9::1/64 dev test0 nodad",
        "ip route del default dev test0",
        "ip route replace default via 192.0.2.9 dev test0",
        "ip route add default via 192.0.2.9 dev test0 metric 9",
        "ip route del 192.0.2.0/24 dev test0",
        "ip -6 route del 2001:db8::/64 dev test0",
        "ip route flush dev test0",
        "rm /etc/systemd/network/mgmt-test0.network",
        "echo >>/etc/systemd/network/mgmt-test0.network",
        // It comes again under another number.
        "ip link set test0 down; ip link set test0 name away; ip link set away name test0",
        "ip link set test1 down; ip address flush dev test0; ip link set test1 up",
    ] {
        disturb(drift);
        soon(drift, || seen() == right).await;
    }
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interface_that_is_not_declared_any_more_becomes_what_it_was() {
    if !on_own_host("an_interface_that_is_not_declared_any_more_becomes_what_it_was") {
        return;
    }
    pair();
    let reversed = |net: Net| {
        let mut spec = Spec::new("test0", net);
        spec.meta = Meta { reverse: true, ..Meta::default() }.into();
        vec![spec]
    };
    let mut running = RunningEngine::start();
    running.swap(reversed(net("up", &["192.0.2.1/24"], ""))).await;
    assert_eq!(seen()[0], "up");
    running.swap(Vec::new()).await;
    assert_eq!(seen()[0], "down");
    assert!(!fs::exists(FILE).unwrap());

    running.stop();

    let mut running = RunningEngine::start();
    shell("ip address flush dev test0; ip address add 192.0.2.7/24 dev test0; ip link set test0 up");
    shell("ip route add default via 192.0.2.254");
    let before = seen();
    running.swap(reversed(net("", &["192.0.2.1/24"], "192.0.2.9"))).await;
    assert!(seen()[1].contains("192.0.2.1/24"), "{:?}", seen());
    running.swap(Vec::new()).await;
    assert_eq!(seen()[1].replace(" proto static", ""), before[1]);
    running.stop();

    let mut running = RunningEngine::start();
    running.swap(reversed(net("down", &[], ""))).await;
    assert_eq!(seen()[0], "down");
    running.swap(Vec::new()).await;
    assert_eq!(seen()[1].replace(" proto static", ""), before[1]);
    running.stop();
}

#[test]
fn an_interface_that_is_not_there_is_told_of() {
    if !on_own_host("an_interface_that_is_not_there_is_told_of") {
        return;
    }
    let bench = TestEnv::new();
    let wanted = net("", &["192.0.2.1/24"], "");
    let error = outcome(&bench, "none0", &wanted, Run::APPLY).unwrap_err();
    assert!(error.to_string().contains("no interface none0") && error.hint().is_some(), "{error}");
    assert_eq!(outcome(&bench, "none0", &wanted, Run::LOOK).unwrap(), Checked::Changed, "others may make it");
    assert_eq!(outcome(&bench, "none0", &net("down", &[], ""), Run::APPLY).unwrap(), Checked::Right);

    pair();
    let unreachable = net("up", &["192.0.2.1/24"], "203.0.113.1");
    let error = outcome(&bench, "test0", &unreachable, Run::APPLY).unwrap_err();
    assert!(error.to_string().contains("cannot use the gateway 203.0.113.1"), "{error}");
    assert!(error.hint().unwrap().contains("in the network of an address"), "{error}");
    if output("ip", &["link", "property", "add", "dev", "test0", "altname", "long-name"]).status.success() {
        let error = outcome(&bench, "long-name", &wanted, Run::APPLY).unwrap_err();
        assert!(error.to_string().contains("another name of \"test0\""), "{error}");
    }
}

/// Starts `systemd-networkd`, which takes interfaces as they are if nobody could tell it of devices.
fn start_networkd() {
    shell("mount -o remount,bind,ro /sys; rm -f /etc/systemd/network/*; systemctl start systemd-networkd");
}

/// The file that the service has set an interface up from.
fn networkd_uses(file: &str) -> bool {
    let status = output("networkctl", &["status", "test0", "--no-pager", "--full"]);
    let status = String::from_utf8_lossy(&status.stdout);
    status
        .lines()
        .any(|line| line.trim_start().starts_with("Network File:") && line.trim_end().ends_with(file))
}

#[test]
fn a_networkd_that_runs_is_told() {
    if !on_booted_host("a_networkd_that_runs_is_told") {
        return;
    }
    pair();
    start_networkd();
    assert!(networkd_uses("n/a"));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut running = RunningEngine::start();
        running
            .swap(vec![Spec::new("test0", net("up", &["192.0.2.1/24", "2001:db8::1/64"], "192.0.2.254"))])
            .await;
        soon("networkd has it", || networkd_uses(FILE)).await;
        let right = |address: &str| {
            let [is_up, addresses, file] = seen();
            let lines: Vec<&str> = addresses.lines().collect();
            is_up == "up"
                && lines.contains(&address)
                && lines.iter().filter(|line| line.ends_with("/24")).count() == 1
                && addresses.contains("default via 192.0.2.254")
                && file.contains(&format!("Address={address}\n"))
                && networkd_uses(FILE)
        };
        soon("it is set up", || right("192.0.2.1/24")).await;
        for drift in [
            "ip address del 192.0.2.1/24 dev test0",
            "ip address add 192.0.2.9/24 dev test0",
            "networkctl down test0",
            "networkctl reconfigure test0",
            "sed -i s/192.0.2.1/192.0.2.8/ /etc/systemd/network/mgmt-test0.network; networkctl reload",
            "rm /etc/systemd/network/mgmt-test0.network; networkctl reload",
            "systemctl restart systemd-networkd",
            "systemctl stop systemd-networkd; ip address flush dev test0; systemctl start systemd-networkd",
        ] {
            disturb(drift);
            soon(drift, || right("192.0.2.1/24")).await;
        }
        // What is declared otherwise is told, too.
        running.swap(vec![Spec::new("test0", net("up", &["192.0.2.2/24"], "192.0.2.254"))]).await;
        soon("another address", || right("192.0.2.2/24")).await;
        running.swap(vec![Spec::new("test0", net("down", &[], ""))]).await;
        soon("networkd has left it", || networkd_uses("n/a")).await;
        soon("it is down", || seen()[0] == "down" && seen()[2].is_empty()).await;
        running.stop();
    });
}

#[test]
fn a_networkd_that_could_not_be_told_is_told_later() {
    if !on_booted_host("a_networkd_that_could_not_be_told_is_told_later") {
        return;
    }
    pair();
    start_networkd();
    let policy = "/etc/dbus-1/system.d/deny.conf";
    let reload = "busctl call org.freedesktop.DBus / org.freedesktop.DBus ReloadConfig";
    fs::write(
        policy,
        "<!DOCTYPE busconfig PUBLIC \"-//freedesktop//DTD D-BUS Bus Configuration 1.0//EN\" \
         \"http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd\">\n<busconfig><policy context=\"mandatory\">\
         <deny send_interface=\"org.freedesktop.network1.Manager\" send_member=\"Reload\"/></policy></busconfig>",
    )
    .unwrap();
    shell(reload);
    let bench = TestEnv::new();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut vertex = bench.vertex("test0", net("up", &["192.0.2.1/24"], ""));
        let error = vertex.apply().await.result.unwrap_err();
        assert!(error.to_string().contains("cannot make systemd-networkd read its files again"), "{error}");
        assert!(fs::exists(FILE).unwrap() && networkd_uses("n/a"));
        fs::remove_file(policy).unwrap();
        shell(reload);
        vertex.apply().await.result.unwrap();
        soon("networkd has it", || networkd_uses(FILE)).await;
    });
}

#[test]
fn an_interface_comes_after_the_directory_of_its_file() {
    let directory = File { state: "exists".into(), ..File::default() };
    let specs = || {
        vec![
            Spec::new("eth0", net("up", &[], "")),
            Spec::new("eth1", net("", &[], "")),
            Spec::new("/etc/systemd/network/", directory.clone()),
        ]
    };
    assert_eq!(edges(specs()), ["file[/etc/systemd/network/] -> net[eth0]"]);
}

#[test]
fn what_cannot_be_an_interface_is_refused() {
    for (wrong, told) in [
        (net("on", &[], ""), "`state`: expected `up` or `down`, found \"on\""),
        (net("up", &["192.0.2.1"], ""), "`addrs`: \"192.0.2.1\" is not an address with a prefix"),
        (net("up", &["192.0.2.1/24", "x"], ""), "`addrs`: \"x\""),
        (net("up", &[], "192.0.2.1/24"), "`gateway`: \"192.0.2.1/24\""),
        (net("up", &[], "::"), "`gateway`"),
        (net("up", &["192.0.2.1/24"], "192.0.2.1"), "`gateway`: is one of the interface's own"),
        (Net { ip_forward: Some(true), ..net("", &[], "") }, "`ip_forward`"),
        (Net::default(), "nothing to do"),
    ] {
        let refused = refused(&wrong);
        assert!(refused.contains(told), "{refused}");
    }
    let named = |name: &str| Kind::validate(&net("up", &[], ""), &Id::new("net", name).name);
    for wrong in ["", "a b", "a/b", "a*", "[a]", "a:1", "..", "a\nb", "!a", "sixteen-letters-", "é"] {
        assert!(
            named(wrong).unwrap_err().message.contains("not the name of a network interface"),
            "{wrong:?}"
        );
    }
    for right in ["eth0", "eth0.7", "wlp3s0", "fifteen-letters"] {
        named(right).unwrap();
    }
}
