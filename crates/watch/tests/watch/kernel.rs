//! What the kernel tells, heard from the kernel.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use crate::test_env;
use std::time::Duration;

use mgmt_watch::{KernelEvents, KernelTopic};

const EVENT_TIMEOUT: Duration = Duration::from_secs(10);

fn in_runtime(test: impl Future<Output = ()>) {
    // One thread: nobody listens while a test waits for a command.
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
}

async fn heard(events: &mut KernelEvents) {
    tokio::time::timeout(EVENT_TIMEOUT, events.next()).await.expect("an event").unwrap();
}

fn shell(command: &str) {
    let status = std::process::Command::new("sh").args(["-ec", command]).status().unwrap();
    assert!(status.success(), "{command}");
}

/// Without looking away: whatever was told so far is there.
async fn is_quiet(events: &mut KernelEvents) -> bool {
    tokio::time::timeout(Duration::ZERO, events.next()).await.is_err()
}

#[test]
fn interfaces_and_addresses_are_told_of() {
    test_env::run_inside("unshare --net $TEST", "inside_links");
}

#[test]
#[ignore = "started by interfaces_and_addresses_are_told_of"]
fn inside_links() {
    if !test_env::inside() {
        return;
    }
    in_runtime(async {
        let mut one = KernelEvents::follow(&KernelTopic::Links).unwrap();
        let mut two = KernelEvents::follow(&KernelTopic::Links).unwrap();
        for command in [
            "ip link add test0 type veth peer name test1",
            "ip address add 192.0.2.1/24 dev test0",
            "ip address add 2001:db8::1/64 dev test0 nodad",
            "ip link set test0 up",
            "ip address del 192.0.2.1/24 dev test0",
            "ip link del test0",
        ] {
            while !is_quiet(&mut one).await || !is_quiet(&mut two).await {}
            shell(command);
            heard(&mut one).await;
            heard(&mut two).await;
        }
    });
}

#[test]
fn one_interface_is_told_of_by_its_name() {
    test_env::run_inside("unshare --net $TEST", "inside_one_interface");
}

#[test]
#[ignore = "started by one_interface_is_told_of_by_its_name"]
fn inside_one_interface() {
    if !test_env::inside() {
        return;
    }
    in_runtime(async {
        // Without these, the kernel says more about the interfaces by itself, and later.
        shell(
            "ip link add test0 type veth peer name test1; echo 1 >/proc/sys/net/ipv6/conf/test1/disable_ipv6",
        );
        shell("echo 1 >/proc/sys/net/ipv6/conf/test0/addr_gen_mode");
        let follow = |name: &str| KernelEvents::follow(&KernelTopic::Interface(name.into())).unwrap();
        let (mut one, mut two, mut renamed) = (follow("test0"), follow("test1"), follow("other"));
        let mut later = follow("later");
        for command in [
            "ip address add 192.0.2.1/24 dev test0",
            "ip address add 2001:db8::1/64 dev test0 nodad",
            "ip link set test0 mtu 1400",
            "ip link set test0 up; ip link set test1 up",
            "ip route add 198.51.100.0/24 dev test0",
            "ip route del 198.51.100.0/24 dev test0",
            "ip -6 route add 2001:db8:1::/64 dev test0",
            "ip -6 route add default via 2001:db8::2 dev test0",
        ] {
            shell(command);
            heard(&mut one).await;
            while !is_quiet(&mut one).await || !is_quiet(&mut two).await {}
            // Before all interfaces are known, everybody may hear of everything.
            while !is_quiet(&mut renamed).await || !is_quiet(&mut later).await {}
        }
        // All that is about the one is not about the other, in the order in which it comes.
        shell("ip link set test0 mtu 1300");
        heard(&mut one).await;
        assert!(is_quiet(&mut two).await && is_quiet(&mut renamed).await && is_quiet(&mut later).await);
        shell("ip link set test0 down && ip link set test0 name other");
        heard(&mut one).await;
        heard(&mut renamed).await;
        while !is_quiet(&mut one).await || !is_quiet(&mut renamed).await || !is_quiet(&mut two).await {}
        shell("ip address add 192.0.2.9/24 dev other");
        heard(&mut renamed).await;
        assert!(is_quiet(&mut one).await && is_quiet(&mut two).await && is_quiet(&mut later).await);
        shell("ip link add later type veth peer name last");
        heard(&mut later).await;
        assert!(is_quiet(&mut one).await && is_quiet(&mut two).await);
        shell("ip link del later");
        heard(&mut later).await;
    });
}

#[test]
fn more_changes_than_the_kernel_keeps_are_heard_of() {
    test_env::run_inside("unshare --net $TEST", "inside_many_links");
}

#[test]
#[ignore = "started by more_changes_than_the_kernel_keeps_are_heard_of"]
fn inside_many_links() {
    if !test_env::inside() {
        return;
    }
    in_runtime(async {
        let mut events = KernelEvents::follow(&KernelTopic::Links).unwrap();
        let changes = "ip link add test0 type veth peer name test1\nfor i in $(seq 2000); do\necho link set test0 mtu $((1000 + i % 400))\ndone | ip -batch -";
        shell(changes);
        heard(&mut events).await;
        while !is_quiet(&mut events).await {}
        shell("ip link del test0");
        heard(&mut events).await;
    });
}

#[test]
fn devices_are_told_of_by_subsystem() {
    in_runtime(async {
        let mut cpus = KernelEvents::follow(&KernelTopic::Devices("cpu".into())).unwrap();
        let mut memory = KernelEvents::follow(&KernelTopic::Devices("mem".into())).unwrap();
        shell("echo online > /sys/devices/system/cpu/cpu0/uevent");
        heard(&mut cpus).await;
        assert!(is_quiet(&mut memory).await);
        shell("echo change > /sys/devices/virtual/mem/null/uevent");
        heard(&mut memory).await;
    });
}

#[test]
fn the_name_of_the_host_is_followed() {
    test_env::run_inside("unshare --uts $TEST", "inside_hostname");
}

#[test]
#[ignore = "started by the_name_of_the_host_is_followed"]
fn inside_hostname() {
    if !test_env::inside() {
        return;
    }
    in_runtime(async {
        let mut events = KernelEvents::follow(&KernelTopic::Hostname).unwrap();
        for name in ["one", "two", "three"] {
            shell(&format!("hostname {name}"));
            heard(&mut events).await;
        }
        shell("echo four > /proc/sys/kernel/hostname");
        heard(&mut events).await;
    });
}

#[test]
fn mounts_are_followed() {
    test_env::run_inside("unshare --mount --propagation private $TEST", "inside_mounts");
}

#[test]
#[ignore = "started by mounts_are_followed"]
fn inside_mounts() {
    if !test_env::inside() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let place = place.path().display();
    in_runtime(async {
        let mut events = KernelEvents::follow(&KernelTopic::Mounts).unwrap();
        for change in [
            format!("mount -t tmpfs one {place}"),
            format!("mount -o remount,ro {place}"),
            format!("mount -o remount,bind,rw,noexec {place}"),
            format!("mount --bind /etc {place}"),
            format!("umount {place}"),
            format!("umount --lazy {place}"),
        ] {
            shell(&change);
            heard(&mut events).await;
        }
    });
}

#[test]
fn a_source_ends_with_its_followers_and_begins_again() {
    in_runtime(async {
        let sockets = || {
            let entries = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
            entries
                .filter(|entry| {
                    let target = std::fs::read_link(entry.path()).unwrap_or_default();
                    target == std::path::Path::new("/proc/sys/kernel/hostname")
                })
                .count()
        };
        for _ in 0..2 {
            let followers: Vec<_> =
                (0..10).map(|_| KernelEvents::follow(&KernelTopic::Hostname).unwrap()).collect();
            assert_eq!(sockets(), 1);
            drop(followers);
            let until = std::time::Instant::now() + EVENT_TIMEOUT;
            while sockets() > 0 {
                assert!(std::time::Instant::now() < until);
                tokio::task::yield_now().await;
            }
        }
    });
}
