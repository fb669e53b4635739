//! What comes from outside of the program: its own echo, other servers, services on a bus, the clock.

use std::future::poll_fn;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use futures_core::Stream as _;
use rustix::process::Signal;
use serde_json::Value;

use crate::security::resident;
use mgmt_test_support::bus::Bus;
use mgmt_test_support::clock::Clock;
use mgmt_test_support::network::Network;
use mgmt_test_support::numbers::{Numbers, seed};
use mgmt_test_support::program::{RunningProgram, eventually, holds, mgmt, mgmt_output, one_file};

fn finish(run: RunningProgram) {
    run.signal(Signal::INT);
    let (code, told) = run.end();
    assert_eq!(code, Some(0), "{told}");
    assert!(!told.contains("panicked"), "{told}");
}

/// Asks a server, and gives all of its answer.
fn asked(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn threat_19_self_caused_event_loops() {
    const FILES: usize = 40;
    // Where files can be made without a name, which is how the program knows its own from those of others.
    let home = tempfile::tempdir_in("/dev/shm").unwrap();
    let at = |name: &str| home.path().join(name).to_str().unwrap().to_owned();
    let address = mgmt_test_support::address::reserved();
    let mut text = format!(
        "line \"marker\" {{\n\tfile => \"{}\",\n\tstate => \"exists\",\n\tcontent => \"right\",\n}}\n",
        at("marker")
    );
    for number in 0..FILES {
        text += &format!(
            "file \"{}\" {{\n\tstate => \"exists\",\n\tcontent => \"{number}\",\n}}\n",
            at(&format!("file{number}"))
        );
    }
    let program = home.path().join("main.mcl");
    std::fs::write(&program, text).unwrap();
    let listen = address.to_string();
    let flags = ["run", "--tmp-prefix", "--prometheus", "--prometheus-listen", &listen, "lang"];
    let run = RunningProgram::start(&[&flags[..], &[program.to_str().unwrap()]].concat());
    let marker = home.path().join("marker");
    // What happens to the marker is told after all that happened before it: the echo of every file has come by then.
    for round in 0..3 {
        eventually("the marker is right", || {
            std::fs::read_to_string(&marker).is_ok_and(|found| found.contains("right"))
        });
        std::fs::write(&marker, format!("wrong {round}\n")).unwrap();
    }
    eventually("the marker is right", || {
        std::fs::read_to_string(&marker).is_ok_and(|found| found.contains("right"))
    });
    let page = asked(address, "/metrics");
    let checks = page
        .lines()
        .filter_map(|line| line.strip_prefix("mgmt_checkapply_total{kind=\"file\",")?.rsplit_once(' '));
    let checks: f64 = checks.map(|(_, count)| count.parse::<f64>().unwrap()).sum();
    assert_eq!(checks, FILES as f64, "what the program has made is looked at again:\n{page}");
    finish(run);

    // Two that disagree are named, both of them, and left alone for longer and longer.
    let (prefix, contested) = (at("prefix"), at("contested"));
    let two = format!(
        "file \"{contested}\" {{\n\tstate => \"exists\",\n\tcontent => \"one\",\n}}\n\
         file \"other\" {{\n\tpath => \"{contested}\",\n\tstate => \"exists\",\n\tcontent => \"two\",\n\tMeta:autoedge => false,\n}}\n"
    );
    std::fs::write(&program, two).unwrap();
    let run = RunningProgram::start(&["run", "--prefix", &prefix, "lang", program.to_str().unwrap()]);
    let history = || -> Vec<Value> {
        let told = mgmt_output(&["history", "--prefix", &prefix, "--format", "json"]).stdout;
        let told: Value = serde_json::from_str(&told).unwrap_or_default();
        told["changes"].as_array().cloned().unwrap_or_default()
    };
    let names = [format!("file[{contested}]"), "file[other]".to_owned()];
    let undone = |history: &[Value]| -> Vec<String> {
        let undone = history.iter().filter(|change| change["outcome"] == "undone");
        undone.map(|change| format!("{} {}", change["resource"], change["message"])).collect()
    };
    eventually("each is told of, with the other", || {
        let undone = undone(&history());
        let is_told = |one: &str, by: &str| {
            undone.iter().any(|told| told.contains(one) && told.contains(&format!("reverted by {by}")))
        };
        is_told(&names[0], &names[1]) || is_told(&names[1], &names[0])
    });
    eventually("it is told of again", || undone(&history()).len() >= 4);
    let all = history();
    let changes = all.iter().filter(|change| change["outcome"] == "changed").count();
    // Twelve times each until it is no accident; from then on one telling for each time.
    let told = undone(&all).len();
    assert!(changes <= 2 * 12 + told + 2, "{changes} changes, told of {told} times");
    finish(run);
}

/// Does something in the network of a host.
fn on_host<T: Send>(network: &Network, at: usize, work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let inside = scope.spawn(|| {
            network.enter(at);
            work()
        });
        inside.join().unwrap()
    })
}

/// A web server with one answer to all questions; counts who comes. It ends with the test program.
fn answering(listener: TcpListener, answer: String) -> Arc<AtomicUsize> {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            counted.fetch_add(1, Ordering::SeqCst);
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    count
}

/// The ports of this host at which somebody listens.
fn listening() -> Vec<u16> {
    // A server for TCP is in the state 0A; one for UDP has no such state.
    let tables = [("tcp", Some("0A")), ("tcp6", Some("0A")), ("udp", None), ("udp6", None)];
    let mut ports = Vec::new();
    for (table, wanted) in tables {
        let text = std::fs::read_to_string(format!("/proc/thread-self/net/{table}")).unwrap();
        for line in text.lines().skip(1) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let port = fields[1].rsplit(':').next().and_then(|port| u16::from_str_radix(port, 16).ok());
            if wanted.is_none_or(|state| fields[3] == state) {
                ports.extend(port);
            }
        }
    }
    ports
}

/// A request that somebody who means no good would send: one of these, damaged here and there.
fn hostile_request(numbers: &mut Numbers) -> Vec<u8> {
    const WHOLE: [&[u8]; 8] = [
        b"GET /page HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        b"GET /../secret HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        b"GET /%2e%2e%2fsecret HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        b"GET /link HTTP/1.1\r\nHost: x\r\nRange: bytes=0-,5-1,-9\r\nConnection: close\r\n\r\n",
        b"HEAD /inside/../../secret HTTP/1.0\r\n\r\n",
        b"POST /page HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\nx\r\n0\r\n\r\n",
        b"PUT /link HTTP/1.1\r\nHost: x\r\nContent-Length: 18446744073709551615\r\n\r\nx",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ];
    let mut request = numbers.one_of(&WHOLE).to_vec();
    for _ in 0..numbers.below(4) {
        let at = numbers.below(request.len());
        match numbers.below(4) {
            0 => request[at] = u8::try_from(numbers.below(256)).unwrap(),
            1 => request.truncate(at.max(1)),
            2 => request.extend_from_within(at..),
            _ => {
                let long = vec![request[at]; numbers.below(70_000)];
                request.splice(at..at, long);
            }
        }
    }
    request
}

#[test]
fn threat_24_servers_inside_a_daemon_of_root() {
    const SECRET: &str = "for root alone";
    const PORT: u16 = 8080;
    let (home, network) = (tempfile::tempdir().unwrap(), Network::new(1));
    let at = |name: &str| home.path().join(name);
    std::fs::create_dir_all(at("served/inside")).unwrap();
    std::fs::write(at("served/page"), "fine").unwrap();
    std::fs::write(at("secret"), SECRET).unwrap();
    std::os::unix::fs::symlink(at("secret"), at("served/link")).unwrap();
    std::fs::hard_link(at("served/page"), at("served/inside/page")).unwrap();
    let program = at("main.mcl");
    let declare = |what: &str, server: &str| {
        let file = format!(
            "file \"{}\" {{\n\tstate => \"exists\",\n\tcontent => \"{what}\",\n}}\n",
            at("ready").display()
        );
        std::fs::write(&program, file + server).unwrap();
    };
    declare("first", "");
    let run = RunningProgram::start_command(
        network.mgmt(0, &["run", "--tmp-prefix", "lang", program.to_str().unwrap()]),
    );
    holds(&at("ready"), "first");
    // Nobody listens whom no resource asks to.
    assert_eq!(on_host(&network, 0, listening), [0; 0]);
    let root = at("served/");
    declare(
        "second",
        &format!("http:server \"127.0.0.1:{PORT}\" {{\n\troot => \"{}\",\n}}\n", root.display()),
    );
    holds(&at("ready"), "second");
    let address = SocketAddr::from(([127, 0, 0, 1], PORT));
    let (mut numbers, id) = (Numbers::new(seed()), run.id());
    on_host(&network, 0, || {
        eventually("the server listens", || TcpStream::connect(address).is_ok());
        assert_eq!(listening(), [PORT]);
        assert!(asked(address, "/page").ends_with("\r\n\r\nfine"));
        for way in
            ["/../secret", "/%2e%2e/secret", "/..%2fsecret", "/inside/../../secret", "//../secret", "/link"]
        {
            let answer = asked(address, way);
            assert!(!answer.starts_with("HTTP/1.1 2") && !answer.contains(SECRET), "{way}: {answer}");
        }
        let before = resident(id);
        for round in 0..40 {
            for _ in 0..10 {
                let mut stream = TcpStream::connect(address).unwrap();
                stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
                // It may be closed before it has been read.
                let _ = stream.write_all(&hostile_request(&mut numbers));
                let _ = stream.shutdown(std::net::Shutdown::Write);
                let mut answer = Vec::new();
                let _ = stream.read_to_end(&mut answer);
                assert!(!String::from_utf8_lossy(&answer).contains(SECRET));
            }
            let answer = asked(address, "/page");
            assert!(answer.ends_with("\r\n\r\nfine"), "round {round}: {answer}");
        }
        let more = resident(id).saturating_sub(before);
        assert!(more < 64 << 20, "{more} bytes more than before");
        assert_eq!(listening(), [PORT]);
    });
    // What is not declared any more is not open, either.
    declare("third", "");
    holds(&at("ready"), "third");
    on_host(&network, 0, || eventually("nobody listens", || listening().is_empty()));
    finish(run);
}

#[test]
fn threat_25_fetching_from_where_one_should_not() {
    const SECRET: &str = "keys of the cloud";
    let home = tempfile::tempdir().unwrap();
    let network = Network::new(1);
    // What only this host can ask, as in a cloud: whoever asks it through the host gets the keys of the host.
    network.ip(0, &["addr", "add", "169.254.169.254/32", "dev", "lo"]);
    let ok =
        format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{SECRET}", SECRET.len());
    let redirect = |to: &str| {
        format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
    };
    let (near, inner, plain) = on_host(&network, 0, || {
        let listen = |address: &str| TcpListener::bind(address).unwrap();
        let near = answering(listen("169.254.169.254:80"), ok.clone());
        // Others that must not be reached through a redirection, wherever they are.
        let inner = answering(listen("127.0.0.1:82"), ok.clone());
        let plain = answering(listen("127.0.0.1:83"), ok.clone());
        answering(listen("127.0.0.1:81"), redirect("http://169.254.169.254/latest/"));
        answering(listen("127.0.0.1:84"), redirect("http://127.0.0.1:82/"));
        answering(listen("127.0.0.1:85"), redirect("file:///etc/passwd"));
        (near, inner, plain)
    });
    let heads = [
        ("direct", "http://169.254.169.254/"),
        ("mapped", "http://[::ffff:169.254.169.254]/"),
        ("redirected", "http://127.0.0.1:81/"),
        ("inside", "http://127.0.0.1:84/"),
        ("file", "http://127.0.0.1:85/"),
        ("plain", "http://127.0.0.1:83/"),
    ];
    let mut text = "http:server \"127.0.0.1:8080\" {}\n".to_owned();
    for (name, head) in heads {
        let cache = home.path().join(name);
        text += &format!(
            "http:server:proxy \"/{name}/\" {{\n\tsub => \"/{name}/\",\n\thead => \"{head}\",\n\tcache => \"{}/\",\n}}\n",
            cache.display()
        );
    }
    let program = home.path().join("main.mcl");
    std::fs::write(&program, text).unwrap();
    let run = RunningProgram::start_command(
        network.mgmt(0, &["run", "--tmp-prefix", "lang", program.to_str().unwrap()]),
    );
    let address = SocketAddr::from(([127, 0, 0, 1], 8080));
    on_host(&network, 0, || {
        eventually("the server listens", || TcpStream::connect(address).is_ok());
        let fine = asked(address, "/plain/x");
        assert!(fine.contains(SECRET), "a proxy that fetches nothing proves nothing: {fine}");
        for (name, head) in &heads[..5] {
            let answer = asked(address, &format!("/{name}/x"));
            let is_refused = ["HTTP/1.1 4", "HTTP/1.1 5"].iter().any(|start| answer.starts_with(start));
            assert!(is_refused && !answer.contains(SECRET) && !answer.contains("root:"), "{head}: {answer}");
            let cache = home.path().join(name);
            let kept = std::fs::read_dir(&cache).map_or(0, Iterator::count);
            assert_eq!(kept, 0, "{head}: something is kept of it");
        }
        // What was not asked with a path of a proxy is not asked for there, either.
        for path in ["/plain/http://169.254.169.254/", "/plain/@169.254.169.254/", "/plain/..%2f..%2fx"] {
            let answer = asked(address, path);
            assert!(!answer.starts_with("HTTP/1.1 5"), "{path}: {answer}");
        }
    });
    assert_eq!((near.load(Ordering::SeqCst), inner.load(Ordering::SeqCst)), (0, 0), "they were asked");
    assert!(plain.load(Ordering::SeqCst) > 0);
    // There is no other way than that of the web.
    for head in ["file:///etc/", "ftp://127.0.0.1/", "gopher://127.0.0.1/", "/etc/"] {
        let text = format!(
            "http:server \"127.0.0.1:8080\" {{}}\nhttp:server:proxy \"/x/\" {{\n\thead => \"{head}\",\n}}\n"
        );
        std::fs::write(&program, text).unwrap();
        let graph = mgmt_output(&["graph", "lang", program.to_str().unwrap()]);
        assert!(
            graph.code == 1 && graph.stderr.contains("address of a directory"),
            "{head}: {}",
            graph.stderr
        );
    }
    finish(run);
}

const FWUPD: &str = "org.freedesktop.fwupd";
const DONE: u32 = 2;
const NEEDS_RESTART: u32 = 4;
/// Answers that are none.
const NONSENSE: u32 = 100;
const SILENCE: u32 = 101;

/// A service with a device whose update is in a state; or one that answers nonsense, or nothing.
struct Firmware {
    connection: zbus::Connection,
    state: Arc<AtomicU32>,
    asked: Arc<AtomicUsize>,
}

impl Firmware {
    async fn start(address: &str, state: u32) -> Firmware {
        let connection = zbus::connection::Builder::address(address).build().await.unwrap();
        let (state, asked) = (Arc::new(AtomicU32::new(state)), Arc::new(AtomicUsize::new(0)));
        let mut calls = zbus::MessageStream::from(&connection);
        let (answering, shown, count) = (connection.clone(), Arc::clone(&state), Arc::clone(&asked));
        tokio::spawn(async move {
            while let Some(Ok(call)) = poll_fn(|cx| Pin::new(&mut calls).poll_next(cx)).await {
                let header = call.header();
                if header.member().is_none_or(|member| member.as_str() != "GetDevices") {
                    continue;
                }
                count.fetch_add(1, Ordering::SeqCst);
                match shown.load(Ordering::SeqCst) {
                    SILENCE => {}
                    NONSENSE => answering.reply(&header, &("nonsense", u64::MAX)).await.unwrap(),
                    state => {
                        let device =
                            std::collections::HashMap::from([("UpdateState", zbus::Variant::from(state))]);
                        answering.reply(&header, &vec![device]).await.unwrap();
                    }
                }
            }
        });
        connection.request_name(FWUPD).await.unwrap();
        Firmware { connection, state, asked }
    }

    async fn says(&self) {
        changed(&self.connection).await;
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

/// Says that something has changed, as the service does or as anybody else can.
async fn changed(connection: &zbus::Connection) {
    connection.emit_signal(None::<&str>, "/", FWUPD, "Changed", &()).await.unwrap();
    // An answer means that the bus has passed it on.
    let bus = "org.freedesktop.DBus";
    connection.call_method(Some(bus), "/org/freedesktop/DBus", Some(bus), "GetId", &()).await.unwrap();
}

#[test]
fn threat_26_answers_that_are_forged_or_never_come() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(forged_or_never());
}

async fn forged_or_never() {
    let home = tempfile::tempdir().unwrap();
    let (out, kept, program) =
        (home.path().join("out"), home.path().join("kept"), home.path().join("main.mcl"));
    let text = format!(
        "import \"sys/fwupd\"\nfile \"{}\" {{\n\tstate => \"exists\",\n\tcontent => if fwupd.reboot_needed() {{ \"restart\" }} else {{ \"fine\" }},\n}}\n\
         file \"{}\" {{\n\tstate => \"exists\",\n\tcontent => \"right\",\n}}\n",
        out.display(),
        kept.display()
    );
    std::fs::write(&program, text).unwrap();
    let address = Bus::address(home.path());
    let _bus = Bus::start(home.path());
    let service = Firmware::start(&address, NEEDS_RESTART).await;
    let stranger = zbus::connection::Builder::address(address.as_str()).build().await.unwrap();
    let mut command = mgmt(&["run", "--tmp-prefix", "lang", program.to_str().unwrap()]);
    command.env("DBUS_SYSTEM_BUS_ADDRESS", &address);
    let run = RunningProgram::start_command(command);
    holds(&out, "restart");
    // A stranger says that it has changed. Whoever believes that asks, each time; what the start has led to is over soon.
    let (mut quiet, mut rounds) = (0, 0);
    while quiet < 3 {
        assert!(rounds < 20, "somebody else was believed");
        let before = service.asked();
        for _ in 0..20 {
            changed(&stranger).await;
        }
        std::thread::sleep(Duration::from_millis(500));
        quiet = if service.asked() == before { quiet + 1 } else { 0 };
        rounds += 1;
    }
    // And sees what the service has not told yet.
    service.state.store(DONE, Ordering::SeqCst);
    changed(&stranger).await;
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(std::fs::read_to_string(&out).unwrap(), "restart", "somebody else was believed");
    service.says().await;
    holds(&out, "fine");
    // Neither nonsense nor silence holds up anything else, and what was known stays.
    for state in [NONSENSE, SILENCE] {
        service.state.store(state, Ordering::SeqCst);
        let before = service.asked();
        service.says().await;
        eventually("it is asked", || service.asked() > before);
        std::fs::write(&kept, "wrong").unwrap();
        holds(&kept, "right");
        holds(&out, "fine");
    }
    // The call that is never answered ends, and the next one is made.
    service.state.store(NEEDS_RESTART, Ordering::SeqCst);
    service.says().await;
    holds(&out, "restart");
    // While one is waited for, the program can be ended.
    service.state.store(SILENCE, Ordering::SeqCst);
    let before = service.asked();
    service.says().await;
    eventually("it is asked", || service.asked() > before);
    finish(run);
}

#[test]
fn threat_28_clock_jumps() {
    let home = tempfile::tempdir().unwrap();
    let at = |name: &str| home.path().join(name);
    let (file, graph, flag, tries) = (at("file"), at("graph.yaml"), at("flag"), at("tries"));
    // One that is tried again and again, one that is looked at every second, and a run that ends when there is nothing to do.
    let polled = at("polled");
    let text = one_file(&file, "right")
        + &format!(
            "  - name: {}\n    content: polled\n    state: exists\n    meta:\n      poll: 1\n",
            polled.display()
        )
        + &format!(
            "  exec:\n  - name: again\n    shell: /bin/sh\n    cmd: echo x >> {}; test -e {}\n",
            tries.display(),
            flag.display()
        )
        + "    meta:\n      retry: -1\n      delay: 300\n";
    std::fs::write(&graph, text).unwrap();
    let clock = Clock::new(home.path());
    let mut command =
        mgmt(&["run", "--tmp-prefix", "--converger-timeout=2", "yaml", graph.to_str().unwrap()]);
    clock.given_to(&mut command);
    let run = RunningProgram::start_command(command);
    holds(&file, "right");
    let count = || std::fs::read_to_string(&tries).unwrap_or_default().lines().count();
    for step in ["-86400", "+86400", "-3650d", "+0"] {
        clock.set(step);
        let before = count();
        eventually(&format!("after {step} it is tried again"), || count() >= before + 2);
        std::fs::write(&polled, "wrong").unwrap();
        holds(&polled, "polled");
    }
    std::fs::write(&flag, "").unwrap();
    finish(run);
    // It has converged when nothing was to be done for so long, whatever the clock says.
    std::fs::write(&graph, one_file(&file, "right")).unwrap();
    let mut command = mgmt(&[
        "run",
        "--tmp-prefix",
        "--converger-timeout=3",
        "--converged-exit",
        "yaml",
        graph.to_str().unwrap(),
    ]);
    clock.given_to(&mut command);
    let mut run = RunningProgram::start_command(command);
    run.wait_for("graph one");
    clock.set("-400d");
    let (code, told) = run.end();
    assert_eq!(code, Some(0), "{told}");
}
