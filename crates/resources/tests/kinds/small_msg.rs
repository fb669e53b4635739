//! The kind `msg`, against sockets of our own.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics is a test that fails")]

use mgmt_test_support::booted_host;

use std::collections::BTreeMap;
use std::io::{IoSliceMut, Read, Seek};
use std::mem::MaybeUninit;
use std::os::unix::net::UnixDatagram;

use crate::common::{Log, Run, TestEnv, Vertex, refused};
use mgmt_resource::{Checked, Kind, Stage};
use mgmt_resources::msg::Msg;
use mgmt_value::Str;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use tracing::Level;

fn msg(body: &str) -> Msg {
    Msg { body: Str::from(body), priority: "Notice".into(), ..Msg::default() }
}

/// A socket that a log would listen on. It never waits: what is not there is not sent.
fn listen(bench: &TestEnv, name: &str) -> UnixDatagram {
    let socket = UnixDatagram::bind(bench.path(name)).unwrap();
    socket.set_nonblocking(true).unwrap();
    socket
}

fn received(socket: &UnixDatagram) -> Vec<Vec<u8>> {
    let mut buffer = vec![0; 1 << 20];
    let mut datagrams = Vec::new();
    while let Ok(length) = socket.recv(&mut buffer) {
        datagrams.push(buffer[..length].to_vec());
    }
    datagrams
}

fn texts(socket: &UnixDatagram) -> Vec<String> {
    received(socket).into_iter().map(|datagram| String::from_utf8(datagram).unwrap()).collect()
}

fn vertex<'a>(bench: &'a TestEnv, msg: Msg) -> Vertex<'a, Msg> {
    let mut vertex = bench.vertex("a", msg);
    vertex.state.sockets.journal = bench.path("journal");
    vertex.state.sockets.syslog = bench.path("syslog");
    vertex
}

#[tokio::test]
async fn a_message_is_logged_once_per_start_and_per_notification() {
    let bench = TestEnv::new();
    let log = Log::capture();
    let mut vertex = vertex(&bench, msg("hello\nworld"));
    assert_eq!(vertex.look().await.checked(), Checked::Changed);
    assert!(log.take().is_empty());
    assert_eq!(vertex.apply().await.checked(), Checked::Changed);
    assert_eq!(log.take(), [r"hello\nworld"]);
    assert_eq!(vertex.apply().await.checked(), Checked::Right);
    assert_eq!(vertex.look().await.checked(), Checked::Right);
    assert!(log.take().is_empty());
    assert_eq!(vertex.run(Run { refresh: true, ..Run::LOOK }).await.checked(), Checked::Changed);
    assert!(log.take().is_empty());
    assert_eq!(vertex.run(Run::REFRESH).await.checked(), Checked::Changed);
    assert_eq!(log.take(), [r"hello\nworld"]);
    assert_eq!(vertex.apply().await.checked(), Checked::Right);
    vertex.resource.body = "new".into();
    assert_eq!(vertex.apply().await.checked(), Checked::Changed);
    assert_eq!(log.take(), ["new"]);
}

#[test]
fn the_journal_of_a_host_has_the_message_once_per_place_and_notification() {
    if !booted_host::on_booted_host("the_journal_of_a_host_has_the_message_once_per_place_and_notification") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let bench = TestEnv::new();
    let fields = BTreeMap::from([("DEMO_FIELD".into(), "with a\nline of its own".into())]);
    let declared = Msg { journal: true, syslog: true, fields, ..msg("from the demo: é") };
    let mut vertex = bench.vertex("a", declared);
    let found = |matches: &str| {
        booted_host::run("journalctl", &["--sync"]);
        let shown = booted_host::run("journalctl", &["--output=json", "--quiet", "--all", matches]);
        let lines = shown.lines().filter(|line| line.contains("from the demo"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let (journal, syslog) = ("_TRANSPORT=journal", "_TRANSPORT=syslog");
    assert_eq!(runtime.block_on(vertex.look()).checked(), Checked::Changed);
    assert_eq!((found(journal).len(), found(syslog).len()), (0, 0), "looking writes nothing");
    assert_eq!(runtime.block_on(vertex.apply()).checked(), Checked::Changed);
    let (own, old) = (found(journal), found(syslog));
    assert_eq!((own.len(), old.len()), (1, 1), "{own:?} {old:?}");
    for part in [
        r#""MESSAGE":"from the demo: é""#,
        r#""PRIORITY":"5""#,
        r#""SYSLOG_IDENTIFIER":"mgmt""#,
        r#""DEMO_FIELD":"with a\nline of its own""#,
    ] {
        assert!(own[0].contains(part), "{}", own[0]);
    }
    assert!(old[0].contains(r#""SYSLOG_FACILITY":"1""#), "{}", old[0]);
    assert_eq!(runtime.block_on(vertex.apply()).checked(), Checked::Right);
    assert_eq!((found(journal).len(), found(syslog).len()), (1, 1));
    assert_eq!(runtime.block_on(vertex.run(Run::REFRESH)).checked(), Checked::Changed);
    assert_eq!((found(journal).len(), found(syslog).len()), (2, 2));
}

#[tokio::test]
async fn urgent_messages_are_warnings() {
    let bench = TestEnv::new();
    let log = Log::capture();
    for (priority, level) in
        [("Emerg", Level::WARN), ("Warning", Level::WARN), ("Notice", Level::INFO), ("Debug", Level::INFO)]
    {
        vertex(&bench, Msg { priority: priority.into(), ..msg("x") }).apply().await.checked();
        assert_eq!(log.take_with_levels(), [(level, "x".to_owned())]);
    }
}

#[tokio::test]
async fn the_journal_gets_one_entry_with_all_fields() {
    let bench = TestEnv::new();
    let socket = listen(&bench, "journal");
    let fields = BTreeMap::from([("CODE_LINE".into(), "7".into()), ("A1".into(), Str::new(b"x\xff"))]);
    let mut vertex = vertex(&bench, Msg { journal: true, fields, ..msg("hello") });
    vertex.apply().await.checked();
    let entry = b"MESSAGE=hello\nPRIORITY=5\nSYSLOG_IDENTIFIER=mgmt\nA1=x\xff\nCODE_LINE=7\n";
    assert_eq!(received(&socket), [entry]);
    vertex.apply().await.checked();
    vertex.run(Run { refresh: true, ..Run::LOOK }).await.checked();
    assert!(received(&socket).is_empty());
    vertex.run(Run::REFRESH).await.checked();
    assert_eq!(received(&socket), [entry]);
}

#[tokio::test]
async fn a_journal_field_with_lines_of_its_own_has_a_length_and_an_identifier_can_be_given() {
    let bench = TestEnv::new();
    let socket = listen(&bench, "journal");
    let fields = BTreeMap::from([("SYSLOG_IDENTIFIER".into(), "me".into())]);
    vertex(&bench, Msg { journal: true, fields, ..msg("a\nPRIORITY=0") }).apply().await.checked();
    let mut entry = b"MESSAGE\n".to_vec();
    entry.extend(12_u64.to_le_bytes());
    entry.extend(b"a\nPRIORITY=0\nPRIORITY=5\nSYSLOG_IDENTIFIER=me\n");
    assert_eq!(received(&socket), [entry]);
}

#[tokio::test]
async fn an_entry_that_is_too_large_for_a_datagram_comes_as_a_sealed_file() {
    let bench = TestEnv::new();
    let socket = listen(&bench, "journal");
    let body = "x".repeat(4 << 20);
    vertex(&bench, Msg { journal: true, ..msg(&body) }).apply().await.checked();

    let mut byte = [0; 16];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let message =
        recvmsg(&socket, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC).unwrap();
    assert_eq!(message.bytes, 0);
    let Some(RecvAncillaryMessage::ScmRights(mut files)) = control.drain().next() else { panic!("no file") };
    let mut file = std::fs::File::from(files.next().unwrap());
    let mut entry = String::new();
    file.rewind().unwrap();
    file.read_to_string(&mut entry).unwrap();
    assert_eq!(entry, format!("MESSAGE={body}\nPRIORITY=5\nSYSLOG_IDENTIFIER=mgmt\n"));
    assert!(std::io::Write::write_all(&mut file, b"more").is_err(), "it can be changed");
}

#[tokio::test]
async fn syslog_gets_one_line_with_facility_user() {
    let bench = TestEnv::new();
    let socket = listen(&bench, "syslog");
    let pid = std::process::id();
    for (severity, priority) in
        ["Emerg", "Alert", "Crit", "Err", "Warning", "Notice", "Info", "Debug"].into_iter().enumerate()
    {
        let msg = Msg { syslog: true, priority: priority.into(), ..msg("two\nlines é") };
        let mut vertex = vertex(&bench, msg);
        vertex.apply().await.checked();
        assert_eq!(texts(&socket), [format!(r"<{}>mgmt[{pid}]: two\nlines é", 8 + severity)]);
        assert_eq!(vertex.apply().await.checked(), Checked::Right);
        vertex.run(Run::REFRESH).await.checked();
        assert_eq!(texts(&socket).len(), 1);
    }
}

#[tokio::test]
async fn a_log_that_is_not_there_is_an_error_that_says_which() {
    let bench = TestEnv::new();
    let path = bench.path("journal");
    let error = vertex(&bench, Msg { journal: true, ..msg("x") }).apply().await.result.unwrap_err();
    assert!(error.to_string().starts_with(&format!("cannot write to the journal at {}: ", path.display())));
    assert!(error.hint().unwrap().contains("systemd-journald"));
    let error = vertex(&bench, Msg { syslog: true, ..msg("x") }).apply().await.result.unwrap_err();
    assert!(error.to_string().starts_with("cannot write to syslog at "));
    assert!(error.hint().unwrap().contains("syslog daemon"));
    assert_eq!(vertex(&bench, Msg { syslog: true, ..msg("x") }).look().await.checked(), Checked::Changed);
}

#[tokio::test]
async fn what_was_written_before_a_failure_is_not_written_again() {
    let bench = TestEnv::new();
    let journal = listen(&bench, "journal");
    let mut vertex = vertex(&bench, Msg { journal: true, syslog: true, ..msg("x") });
    assert!(vertex.apply().await.result.is_err());
    assert!(vertex.apply().await.result.is_err());
    assert_eq!(received(&journal).len(), 1);
    let syslog = listen(&bench, "syslog");
    assert_eq!(vertex.apply().await.checked(), Checked::Changed);
    assert_eq!((received(&journal).len(), received(&syslog).len()), (0, 1));
    assert_eq!(vertex.apply().await.checked(), Checked::Right);

    drop(syslog);
    std::fs::remove_file(bench.path("syslog")).unwrap();
    assert!(vertex.run(Run::REFRESH).await.result.is_err());
    assert!(vertex.run(Run::REFRESH).await.result.is_err(), "the notification stays until a run succeeds");
    assert_eq!(received(&journal).len(), 1);
    let syslog = listen(&bench, "syslog");
    assert_eq!(vertex.run(Run::REFRESH).await.checked(), Checked::Changed);
    assert_eq!((received(&journal).len(), received(&syslog).len()), (0, 1));
    assert_eq!(vertex.apply().await.checked(), Checked::Right);
}

#[tokio::test]
async fn a_log_that_does_not_read_does_not_hold_a_run_that_is_cancelled() {
    let bench = TestEnv::new();
    let socket = listen(&bench, "syslog");
    let filler = UnixDatagram::unbound().unwrap();
    filler.set_nonblocking(true).unwrap();
    while filler.send_to(b"x", bench.path("syslog")).is_ok() {}
    let mut vertex = vertex(&bench, Msg { syslog: true, ..msg("x") });
    vertex.cancel.raise(Stage::Cancel);
    assert!(vertex.apply().await.result.unwrap_err().is_cancelled());
    drop(socket);
}

#[test]
fn a_priority_is_one_of_eight() {
    assert_eq!(refused(&Msg::default()), "`priority`: expected a priority, found none");
    let invalid =
        Kind::validate(&Msg { priority: "warning".into(), ..Msg::default() }, &Str::EMPTY).unwrap_err();
    assert_eq!(invalid.to_string(), r#"`priority`: there is no priority "warning""#);
    assert_eq!(invalid.hint.as_deref(), Some("did you mean `Warning`?"));
    let invalid =
        Kind::validate(&Msg { priority: "urgent!".into(), ..Msg::default() }, &Str::EMPTY).unwrap_err();
    assert_eq!(
        invalid.hint.as_deref(),
        Some("it is one of Emerg, Alert, Crit, Err, Warning, Notice, Info, Debug")
    );
    assert!(Kind::validate(&msg("x"), &Str::EMPTY).is_ok());
}

#[test]
fn field_names_are_those_of_the_journal() {
    let with = |name: &[u8]| Msg { fields: BTreeMap::from([(Str::new(name), Str::EMPTY)]), ..msg("") };
    for good in ["A", "CODE_FILE", "X1", "X_", &"X".repeat(64)] {
        assert!(Kind::validate(&with(good.as_bytes()), &Str::EMPTY).is_ok(), "{good}");
    }
    for (bad, reason) in [
        (&b""[..], "needs a name"),
        (b"_PID", "belong to the journal"),
        (b"1A", "begin with a digit"),
        (b"lower", "expected capital letters"),
        (b"A B", "expected letters, digits"),
        (b"A=B", "expected letters, digits"),
        (b"A\nB", "expected letters, digits"),
        (b"\xff", "expected letters, digits"),
        ("É".as_bytes(), "expected letters, digits"),
        (&[b'X'; 65], "the longest has 64"),
        (b"MESSAGE", "is taken"),
        (b"PRIORITY", "is taken"),
    ] {
        let message = refused(&with(bad));
        assert!(message.starts_with("`fields`: ") && message.contains(reason), "{message}");
    }
}

#[test]
fn every_parameter_takes_part_in_comparison() {
    assert_ne!(msg("x"), Msg { journal: true, ..msg("x") });
    assert_ne!(msg("x"), Msg { syslog: true, ..msg("x") });
}
