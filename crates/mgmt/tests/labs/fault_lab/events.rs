//! Watches that there are none of, and events that were lost.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};

use rustix::process::Signal;

use mgmt_test_support::address::reserved;
use mgmt_test_support::program::{RunningProgram, eventually, holds};

/// A number of the page for Prometheus; nothing while nobody answers.
fn metric(address: SocketAddr, name: &str) -> Option<f64> {
    let mut connection = TcpStream::connect(address).ok()?;
    connection.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").ok()?;
    let mut page = String::new();
    connection.read_to_string(&mut page).ok()?;
    page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

#[test]
fn without_watches_files_are_repaired_all_the_same() {
    let home = tempfile::tempdir().unwrap();
    let (file, graph, address) = (home.path().join("file"), home.path().join("graph.yaml"), reserved());
    std::fs::write(&graph, mgmt_test_support::program::one_file(&file, "right")).unwrap();
    // The limit is that of a user namespace, and goes with it.
    let script = format!(
        "echo 0 > /proc/sys/user/max_inotify_watches && exec {} run --tmp-prefix --prometheus-listen {address} yaml {}",
        env!("CARGO_BIN_EXE_mgmt"),
        graph.display()
    );
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "sh", "-c", &script]).stdin(Stdio::null());
    let mut running = RunningProgram::start_command(command);
    running.wait_for("max_user_watches");
    holds(&file, "right");
    eventually("what is scanned is counted", || {
        metric(address, "mgmt_file_scanned").is_some_and(|count| count >= 1.0)
    });
    assert_eq!(metric(address, "mgmt_file_watches"), Some(0.0));
    std::fs::write(&file, "wrong").unwrap();
    holds(&file, "right");
    std::fs::remove_file(&file).unwrap();
    holds(&file, "right");
    running.signal(Signal::TERM);
    let (code, told) = running.end();
    assert_eq!(code, Some(0), "{told}");
}

#[test]
fn events_that_were_lost_are_made_up_for() {
    let home = tempfile::tempdir_in("/dev/shm").unwrap();
    let (file, graph, address) = (home.path().join("file"), home.path().join("graph.yaml"), reserved());
    std::fs::write(&graph, mgmt_test_support::program::one_file(&file, "right")).unwrap();
    let port = address.to_string();
    let mut running = RunningProgram::start(&[
        "run",
        "--tmp-prefix",
        "--prometheus-listen",
        &port,
        "yaml",
        graph.to_str().unwrap(),
    ]);
    holds(&file, "right");
    let limit: usize =
        std::fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap().trim().parse().unwrap();
    for round in 1..=3 {
        // Nobody reads the events, until the kernel throws them away.
        running.signal(Signal::STOP);
        let (one, two) = (home.path().join("one"), home.path().join("two"));
        std::fs::write(&one, "").unwrap();
        // Far more than fit in, as the program may read some before the signal has reached all its threads.
        for _ in 0..limit {
            std::fs::rename(&one, &two).unwrap();
            std::fs::rename(&two, &one).unwrap();
        }
        std::fs::write(&file, "wrong").unwrap();
        running.signal(Signal::CONT);
        running.wait_for("the queue of file events overflowed");
        holds(&file, "right");
        eventually("the overflow is counted", || {
            metric(address, "mgmt_file_overflows_total").is_some_and(|count| count >= f64::from(round))
        });
    }
    running.signal(Signal::TERM);
    let (code, told) = running.end();
    assert_eq!(code, Some(0), "{told}");
}
