//! Numbers for Prometheus, and what the real Prometheus makes of them.
#![allow(missing_docs, clippy::unwrap_used)]

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};

use mgmt_test_support::address::reserved;
use mgmt_test_support::program::{RunningProgram, eventually, holds, mgmt_output};
use rustix::process::Signal;

fn asked(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn page(address: SocketAddr) -> String {
    let answer = asked(address, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4"), "{head}");
    body.to_owned()
}

/// Gives a program something on its standard input; what it says, and whether it is content.
fn fed(program: &str, arguments: &[&str], input: &str) -> (bool, String) {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child =
        command.spawn().unwrap_or_else(|_| panic!("{program} is missing: run `cargo xtask setup`"));
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(said).unwrap())
}

/// A run that repairs a file, fails at something, and looks at a third thing only.
fn run(directory: &std::path::Path, address: SocketAddr) -> RunningProgram {
    let program = directory.join("main.mcl");
    let text = format!(
        "file \"{0}/file\" {{\n\tstate => \"exists\",\n\tcontent => \"right\",\n}}\n\
         exec \"fails\" {{\n\tcmd => \"/bin/false\",\n\tMeta:retry => -1,\n\tMeta:delay => 100,\n}}\n\
         file \"{0}/looked-at\" {{\n\tstate => \"exists\",\n\tMeta:noop => true,\n}}\n",
        directory.display()
    );
    std::fs::write(&program, text).unwrap();
    let address = address.to_string();
    let flags = ["run", "--tmp-prefix", "--prometheus", "--prometheus-listen", &address, "lang"];
    let mut all: Vec<&str> = flags.to_vec();
    all.push(program.to_str().unwrap());
    let run = RunningProgram::start(&all);
    eventually("it listens", || TcpStream::connect(address.as_str()).is_ok());
    run
}

#[test]
fn what_a_run_does_can_be_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let (address, file) = (reserved(), directory.path().join("file"));
    let run = run(directory.path(), address);
    holds(&file, "right");
    std::fs::write(&file, "wrong").unwrap();
    holds(&file, "right");
    let value = |line: &str| -> f64 {
        let page = page(address);
        let found = page.lines().find_map(|found| found.strip_prefix(line)?.strip_prefix(' '));
        found.unwrap_or_else(|| panic!("{line}\n{page}")).parse().unwrap()
    };
    let checks = |kind: &str, rest: &str| value(&format!("mgmt_checkapply_total{{kind=\"{kind}\",{rest}}}"));
    eventually("the repair is counted", || {
        checks("file", "apply=\"true\",eventful=\"true\",errorful=\"false\"") >= 2.0
            && value("mgmt_repair_seconds_count{kind=\"file\"}") >= 1.0
    });
    eventually("failures grow", || value("mgmt_failures_total{kind=\"exec\",failure=\"soft\"}") >= 2.0);
    assert!(checks("file", "apply=\"false\",eventful=\"true\",errorful=\"false\"") >= 1.0);
    assert!(checks("exec", "apply=\"true\",eventful=\"false\",errorful=\"true\"") >= 1.0);
    for (line, expected) in [
        ("mgmt_failures{kind=\"exec\",failure=\"soft\"}", 1.0),
        ("mgmt_failures{kind=\"exec\",failure=\"hard\"}", 0.0),
        ("mgmt_resources{kind=\"file\"}", 2.0),
        ("mgmt_resources{kind=\"exec\"}", 1.0),
        ("mgmt_resources{kind=\"svc\"}", 0.0),
        ("mgmt_swap_seconds_count", 1.0),
        ("mgmt_deploy", 0.0),
        ("mgmt_store_up", 1.0),
        ("mgmt_queue_length{queue=\"runs\"}", 0.0),
        ("mgmt_file_scanned", 0.0),
        ("mgmt_file_overflows_total", 0.0),
    ] {
        assert_eq!(value(line), expected, "{line}");
    }
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    for start in ["mgmt_graph_start_time_seconds", "process_start_time_seconds"] {
        assert!((now - value(start)).abs() < 600.0, "{start}");
    }
    assert!(value("process_resident_memory_bytes") > 1e6 && value("process_open_fds") > 3.0);
    let (content, complaints) = fed("promtool", &["check", "metrics"], &page(address));
    assert!(content, "{complaints}");
    // What is not asked properly is answered, or not at all, and harms nobody.
    assert!(asked(address, "GET /other HTTP/1.1\r\nHost: localhost\r\n\r\n").starts_with("HTTP/1.1 404"));
    assert!(asked(address, "POST /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").starts_with("HTTP/1.1 405"));
    assert!(asked(address, "HEAD /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").ends_with("\r\n\r\n"));
    let _ = TcpStream::connect(address).unwrap().write_all(&[b'x'; 64 << 10]);
    let idle: Vec<TcpStream> = (0..4).map(|_| TcpStream::connect(address).unwrap()).collect();
    assert!(page(address).contains("mgmt_build_info"));
    drop(idle);
    let other = mgmt_output(&["run", "--tmp-prefix", "--prometheus-listen", &address.to_string(), "empty"]);
    assert!(other.code == 1 && other.stderr.contains("--prometheus-listen"), "{}", other.stderr);
    let wrong = mgmt_output(&["run", "--tmp-prefix", "--prometheus-listen", "nonsense", "empty"]);
    assert_eq!(wrong.code, 2, "{}", wrong.stderr);
    run.signal(Signal::INT);
    assert_eq!(run.end().0, Some(0));
}

struct Prometheus(Child);

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn dashboard() -> serde_json::Value {
    serde_json::from_str(include_str!("../../../../contrib/grafana/mgmt.json")).unwrap()
}

/// The expressions of the alerts, and those of the dashboard.
fn queries() -> Vec<String> {
    let rules = include_str!("../../../../contrib/prometheus/mgmt.rules.yml");
    let of_rules = rules.lines().filter_map(|line| line.trim().strip_prefix("expr: "));
    let dashboard = dashboard();
    let mut all: Vec<String> = of_rules.map(str::to_owned).collect();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            let query = target["expr"].as_str().unwrap();
            all.push(query.replace("$instance", ".*").replace("$__rate_interval", "5s"));
        }
    }
    all
}

/// The metric and the label of the dashboard's only question that is not an expression: by which hosts can be chosen.
fn label_query() -> (String, String) {
    let dashboard = dashboard();
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let asked: Vec<&str> =
        variables.iter().filter_map(|variable| variable["query"]["query"].as_str()).collect();
    let [query] = asked[..] else { panic!("{asked:?}") };
    let inside = query.strip_prefix("label_values(").and_then(|query| query.strip_suffix(')')).unwrap();
    let (metric, label) = inside.split_once(", ").unwrap();
    (metric.to_owned(), label.to_owned())
}

/// An answer of `promtool` with at least one number in it. That nothing is known is no number.
fn has_data(answer: &str) -> bool {
    let mut values = answer.lines().filter_map(|line| line.rsplit_once(" => ")?.1.split_whitespace().next());
    values.any(|value| value.parse::<f64>().is_ok_and(|value| !value.is_nan()))
}

#[test]
fn what_is_not_known_is_no_data() {
    assert!(has_data("{kind=\"file\"} => NaN @[1763.2]\n{kind=\"exec\"} => 0.1 @[1763.2]\n"));
    assert!(!has_data("{} => NaN @[1763.2]\n") && !has_data("\n"));
}

#[test]
fn alerts_and_dashboard_ask_for_what_there_is() {
    let rules = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib/prometheus");
    for check in [["check", "rules", "mgmt.rules.yml"], ["test", "rules", "mgmt.rules.test.yml"]] {
        let output = Command::new("promtool").args(check).current_dir(rules).output().unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&[output.stdout, output.stderr].concat())
        );
    }
    let directory = tempfile::tempdir().unwrap();
    let (address, prometheus) = (reserved(), reserved());
    let run = run(directory.path(), address);
    let config = directory.path().join("prometheus.yml");
    let text = format!(
        "global:\n  scrape_interval: 200ms\nscrape_configs:\n- job_name: mgmt\n  static_configs:\n  - targets: [\"{address}\"]\n"
    );
    std::fs::write(&config, text).unwrap();
    let mut command = Command::new("prometheus");
    command.arg("--config.file").arg(&config).arg("--storage.tsdb.path").arg(directory.path().join("data"));
    command.arg(format!("--web.listen-address={prometheus}"));
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let _prometheus = Prometheus(child);
    let url = format!("http://{prometheus}");
    let asked = |query: &str| fed("promtool", &["query", "instant", &url, query], "");
    // Repairs and other graphs, so that there is something to see in all of it.
    let mut broken = 0;
    let program = directory.path().join("main.mcl");
    let text = std::fs::read_to_string(&program).unwrap();
    let mut stir = || {
        broken += 1;
        std::fs::write(directory.path().join("file"), format!("wrong {broken}")).unwrap();
        std::fs::write(&program, format!("{text}noop \"{broken}\" {{}}\n")).unwrap();
    };
    eventually("the numbers arrive", || {
        stir();
        asked("rate(mgmt_repair_seconds_count{kind=\"file\"}[5s]) > 0").1.contains("file")
    });
    let (metric, label) = label_query();
    let request = format!("GET /api/v1/label/{label}/values?match[]={metric} HTTP/1.0\r\nHost: x\r\n\r\n");
    let answer = self::asked(prometheus, &request);
    let body: serde_json::Value = serde_json::from_str(answer.split("\r\n\r\n").nth(1).unwrap()).unwrap();
    assert_eq!(body["data"], serde_json::json!([address.to_string()]), "{answer}");
    for query in queries() {
        // What is compared says nothing as long as all is well; what it compares is there.
        let compared = [" > ", " == ", " != "].iter().find_map(|operator| query.rsplit_once(operator));
        let query = compared.map_or(query.as_str(), |(bare, _)| bare);
        eventually(query, || {
            stir();
            let (content, said) = asked(query);
            content && has_data(&said)
        });
    }
    run.signal(Signal::INT);
    assert_eq!(run.end().0, Some(0));
}
