//! Every program in `examples/mcl` is in canonical form, checks, has a graph, and runs until it has converged.
#![allow(missing_docs, clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use mgmt_test_support::program::{CommandOutput, RunningProgram, eventually, holds, mgmt, plain};

/// What is expected of an example.
#[derive(Clone, Copy)]
enum Expect {
    /// It runs, converges, and ends with 0; these lines are in its log, and these files, below the directory of the
    /// examples, hold this.
    Runs { logs: &'static [&'static str], files: &'static [Content] },
    /// It changes something every second, so it cannot be waited for that long; this file is there in the end.
    Ticks(&'static str),
    /// It goes on for ever; after a while this file begins with this.
    Lives(&'static str, &'static str),
    /// It would change the machine beyond the directory of the examples, so it runs with `--noop`.
    OnlyLooks,
    /// The same, and it needs systemd, so that it fails in part where there is none; these lines are in its log.
    Looks(&'static [&'static str]),
}

use Expect::{Lives, Looks, OnlyLooks, Runs, Ticks};

const fn logs(logs: &'static [&'static str]) -> Expect {
    Runs { logs, files: &[] }
}

const fn files(files: &'static [Content]) -> Expect {
    Runs { logs: &[], files }
}

/// Each example, by its path.
const EXPECTED: &[(&str, Expect)] = &[
    ("addresses.mcl", logs(&["192.0.2.64/26, mask 255.255.255.192", "up to 192.0.2.127", "true false"])),
    ("base64.mcl", logs(&["b3BlbiBzZXNhbWU=", "open sesame"])),
    (
        "bundled-apt.mcl",
        files(&[
            (
                "image/etc/apt/sources.list.d/backports.sources",
                "Types: deb\nURIs: https://deb.debian.org/debian\nSuites: bookworm-backports\nComponents: main\n\
                 Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\nEnabled: yes\n",
            ),
            (
                "image/etc/apt/preferences.d/backports.pref",
                "Package: *\nPin: release n=bookworm-backports\nPin-Priority: 100\n",
            ),
        ]),
    ),
    ("bundled-service.mcl", files(&[("image/etc/nginx/conf.d/site.conf", "server { listen 8080; }\n")])),
    (
        "bundled-systemd.mcl",
        files(&[
            (
                "image/etc/systemd/system/backup.service",
                "[Unit]\nDescription=Copy what matters\nAfter=network.target\n\n[Service]\n\
                 ExecStart=/usr/local/bin/backup\nUser=root\nRestart=no\n\n[Install]\n\
                 WantedBy=multi-user.target\n",
            ),
            (
                "image/etc/systemd/system/backup.timer",
                "[Unit]\nDescription=backup\n\n[Timer]\nUnit=backup.service\nOnCalendar=03:00\n\
                 Persistent=true\nRandomizedDelaySec=0\n\n[Install]\nWantedBy=timers.target\n",
            ),
            ("image/etc/systemd/system/cron.service.d/calm.conf", "[Service]\nNice=10\n"),
        ]),
    ),
    (
        "classes.mcl",
        files(&[
            ("sites/one/index.html", "<title>The first</title>\n"),
            ("sites/two/index.html", "<title>The second</title>\n"),
        ]),
    ),
    ("clock.mcl", Ticks("clock")),
    ("closures.mcl", logs(&["hello, alice!", "good bye, bob! (nobody else)"])),
    ("collect.mcl", Runs { logs: &["exported files: 1"], files: &[("shared", "from example-host\n")] }),
    ("colon-classes.mcl", logs(&["example without encryption", "example with encryption on 443"])),
    ("compose.mcl", logs(&["print[composed]: 41"])),
    ("constants.mcl", logs(&["a relative of Debian"])),
    ("defaults.mcl", logs(&["http://www:80/", "https://shop:443/"])),
    ("deploy-tar/main.mcl", files(&[("contents", "files/\nfiles/note\nmain.mcl\n")])),
    (
        "edges-list.mcl",
        logs(&[
            "print[cook]: done",
            "print[clean]: done",
            "print[invite]: done",
            "print[party]: party",
            "print[sleep]: sleep",
        ]),
    ),
    ("edges.mcl", logs(&["print[one]: one", "print[two]: two", "print[three]: three", "print[four]: four"])),
    ("elvis.mcl", files(&[("private", "a note\n"), ("public", "a note\n")])),
    ("environment.mcl", logs(&["there is a /bin", "no language"])),
    ("except.mcl", logs(&["print[index]: 0", "print[division]: 0", "print[chain]: neither", "-1"])),
    ("exchange.mcl", logs(&["example-host says hello from example-host"])),
    ("exec.mcl", files(&[("exec/touched", ""), ("exec/who", "mgmt\n"), ("exec/a name with spaces", "")])),
    ("file-exists.mcl", files(&[("status", "all is well\n")])),
    ("files.mcl", files(&[("files/real", "I am real\n"), ("files/link", "I am real\n")])),
    ("fizzbuzz.mcl", logs(&["1 2 fizz 4 buzz fizz 7 8 fizz buzz 11 fizz 13 14 fizzbuzz"])),
    ("flatten.mcl", logs(&["ada bob carol", "ada bob carol dan"])),
    ("follow-file.mcl", files(&[("lower", "hello\n"), ("upper", "HELLO\n")])),
    (
        "for.mcl",
        files(&[("for/apple", "0: apple\n"), ("for/banana", "1: banana\n"), ("for/cherry", "2: cherry\n")]),
    ),
    ("forkv.mcl", logs(&["/bin/bash", "/bin/sh", "/usr/bin/fish"])),
    ("fragments.mcl", files(&[("whole", "head\nbody\n")])),
    ("functions.mcl", logs(&["so so ", "alice has 8 apples", "5"])),
    ("generic.mcl", logs(&["[1, 2]", "[\"a\", \"b\"]", "[[true, false], [false, true]]"])),
    ("guards.mcl", files(&[("once", "")])),
    ("hello.mcl", Runs { logs: &["hello, world: look at"], files: &[("hello", "hello, world\n")] }),
    ("hidden.mcl", logs(&["I am here"])),
    ("history.mcl", Lives("history", "3 seconds ago\n")),
    ("hostname.mcl", logs(&["example-host: no role"])),
    ("http-flag.mcl", Runs { logs: &["listening on 127.0.0.1:28082"], files: &[("word", "")] }),
    ("http-proxy.mcl", logs(&["listening on 127.0.0.1:28084"])),
    ("http-server.mcl", Runs { logs: &["listening on 127.0.0.1:28081"], files: &[("http/one", "a file\n")] }),
    ("http-ui.mcl", Runs { logs: &["print[name]: nobody yet"], files: &[("volume", "3")] }),
    ("if-else.mcl", logs(&["the switch is off"])),
    (
        "include-as.mcl",
        logs(&["http://web.example.com:80/start http://wiki.example.com:8080/help", "wiki.example.com:8080"]),
    ),
    ("json.mcl", logs(&["db1 listens on 5433", "db1 is owned by \"\""])),
    ("kv.mcl", logs(&["the color is green"])),
    ("lambdas.mcl", logs(&["<<lambda>>", "twice"])),
    ("limits.mcl", files(&[("limits", "calm\n")])),
    ("line.mcl", files(&[("hosts", "192.0.2.7 printer\n")])),
    (
        "listen.mcl",
        files(&[
            ("listen.conf", "all is well\n"),
            ("listen.rules", "all is well\n"),
            ("listen.log", "restarted\n"),
        ]),
    ),
    ("load.mcl", Ticks("load")),
    ("many.mcl", files(&[("red", "a color\n"), ("green", "a color\n"), ("blue", "a color\n")])),
    ("map-filter-reduce.mcl", logs(&["[1, 4, 9, 16, 25, 36]", "[16, 25, 36]", "77"])),
    ("maps.mcl", logs(&["700000 people", "print[rome]: 0 people", "3 towns", "[\"bern\"]"])),
    ("meta.mcl", files(&[("attempts", "x\nx\nx\n")])),
    ("modules/main.mcl", logs(&["Ada Lovelace", "greetings to nobody in particular"])),
    ("nested-loops.mcl", logs(&["web listens on 443", "mail listens on 587"])),
    ("noop.mcl", logs(&["would change"])),
    ("notify.mcl", files(&[("notify.conf", "listen 80\n"), ("notify.log", "reloaded\n")])),
    ("numbers.mcl", logs(&["4.242640687119285", "print[rounded]: 4", "print[rest]: 2", "print[none]: 0"])),
    ("order.mcl", logs(&["good morning, ORDER"])),
    ("own-files/main.mcl", files(&[("banner", "*** kept by mgmt ***\n")])),
    ("panic.mcl", logs(&["the color is green"])),
    ("pkg.mcl", OnlyLooks),
    ("poll.mcl", files(&[("polled", "still here\n")])),
    ("pool.mcl", logs(&["web listens on 800", "wiki listens on 800", "mail listens on 800"])),
    (
        "printf.mcl",
        logs(&[
            "text: plain and \"quoted\"",
            "numbers: 42 and 3.25",
            "truth: true",
            "and {\"a\": 1}",
            "100%",
        ]),
    ),
    ("ranges.mcl", logs(&["[0, 1, 2, 3, 4]", "[10, 6, 2]", "55"])),
    ("readfile/main.mcl", files(&[("motd", "Welcome to example-host. This text is kept by mgmt.\n")])),
    ("regexp.mcl", logs(&["web1 and web22"])),
    ("reverse.mcl", files(&[])),
    ("schedule.mcl", logs(&["chosen: example-host", "this host keeps the database"])),
    ("sema.mcl", logs(&["exec[d]: changed"])),
    ("send-receive.mcl", files(&[("kernel", "Linux\n")])),
    ("shadowing.mcl", logs(&["inner", "outer"])),
    ("structs.mcl", logs(&["db1:5432", "fast", "nobody yet"])),
    ("system.mcl", files(&[("count", "3\n")])),
    ("template-functions.mcl", files(&[("table", "A 1\nB 42\n")])),
    ("template.mcl", files(&[("template", "# example\nlisten 80\nlisten 443\nlog errors\n")])),
    ("texts.mcl", logs(&["WEB1", "print[domain]: example.com", "007!!!"])),
    ("timer.mcl", Lives("ticks", "tock\ntock\n")),
    ("tree.mcl", files(&[("tree/one", "declared\n"), ("tree/two", "declared\n")])),
    ("trio.mcl", Looks(&["file[/etc/cron.d/hello]: would change"])),
    ("types.mcl", logs(&["types [80, 443] {\"load\": 1.5} struct{x: 1; y: 2} [] 3"])),
    ("uptime.mcl", Lives("uptime", "up for ")),
    ("value-chain.mcl", files(&[("value-chain", "LINUX\n")])),
    ("values.mcl", logs(&["stored: 42"])),
    ("vardir.mcl", logs(&["kept from run to run"])),
    ("watch-exec.mcl", files(&[("count", "0\n")])),
    ("weekday.mcl", logs(&["day"])),
    (
        "window.mcl",
        logs(&[
            "print[once a day]: good morning",
            "print[put aside]: left alone: its window is never",
            "print[what comes after it]: does not wait",
        ]),
    ),
    ("zip.mcl", logs(&["alice brings cake, bob brings pie, carol brings pudding"])),
];

/// Files that are part of a program in their directory, and no programs themselves.
const PARTS: &[&str] = &["modules/greeting/card.mcl", "modules/names.mcl", "own-files/banner/main.mcl"];

/// A file below the directory of the examples, and what is in it.
type Content = (&'static str, &'static str);

/// What the examples say to try while they run: a file that is changed, and one that follows.
const FOLLOWED: &[(&str, Content, Content)] = &[
    ("follow-file.mcl", ("lower", "other\n"), ("upper", "OTHER\n")),
    ("fragments.mcl", ("pieces/30-foot", "foot\n"), ("whole", "head\nbody\nfoot\n")),
    ("listen.mcl", ("listen.conf", "edited\n"), ("listen.log", "restarted\nrestarted\n")),
    ("notify.mcl", ("notify.conf", "edited\n"), ("notify.log", "reloaded\nreloaded\n")),
    ("poll.mcl", ("polled", "edited\n"), ("polled", "still here\n")),
    ("watch-exec.mcl", ("lines", "a\nb\n"), ("count", "2\n")),
];

/// The examples that are about a warning.
const WARNED: &[(&str, &str)] = &[("shadowing.mcl", "M0806")];

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/mcl").canonicalize().unwrap()
}

/// All programs below a directory, by their path in it.
fn found(root: &Path) -> BTreeMap<String, PathBuf> {
    let mut found = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "mcl") {
                let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                found.insert(name, path);
            }
        }
    }
    found
}

fn said(arguments: &[&str]) -> CommandOutput {
    mgmt(arguments).output().unwrap().into()
}

#[test]
fn every_example_is_expected_and_every_expectation_has_its_example() {
    let found = found(&examples());
    let mut expected: Vec<_> = EXPECTED.iter().map(|(name, _)| *name).chain(PARTS.iter().copied()).collect();
    expected.sort_unstable();
    assert!(EXPECTED.len() >= 66, "only {} examples", EXPECTED.len());
    assert_eq!(found.keys().collect::<Vec<_>>(), expected, "the list in this file is not what is there");
}

#[test]
fn every_example_begins_with_what_to_see_and_how_to_run_it() {
    for (name, path) in found(&examples()) {
        let text = std::fs::read_to_string(path).unwrap();
        let first: Vec<_> = text.lines().take_while(|line| line.starts_with('#')).collect();
        let comment = first.join("\n");
        assert!(comment.contains("\n# See: "), "{name} does not say what to see");
        let path = name.strip_suffix("main.mcl").or(name.strip_suffix("card.mcl")).unwrap_or(&name);
        assert!(comment.contains(&format!(" examples/mcl/{path}")), "{name} does not say how to run it");
    }
}

#[test]
fn every_example_is_in_the_table_with_its_first_line() {
    let root = examples();
    let mut table = String::from(TABLE);
    for (name, _) in EXPECTED {
        let text = std::fs::read_to_string(root.join(name)).unwrap();
        let title = text.lines().next().unwrap().trim_start_matches("# ").replace('|', "\\|");
        let path = name.strip_suffix("main.mcl").unwrap_or(name);
        let _ = writeln!(table, "| [{path}]({path}) | {title} |");
    }
    let path = root.join("README.md");
    if std::env::var_os("UPDATE_EXAMPLES").is_some() {
        std::fs::write(&path, &table).unwrap();
    }
    let found = std::fs::read_to_string(path).unwrap_or_default();
    assert!(found == table, "the table is out of date; run this test with UPDATE_EXAMPLES=1");
}

/// How the table of the examples begins.
const TABLE: &str = "# Small programs, one for each idea

Each says in its first lines what to see and how to run it. All of them only touch `/tmp/mgmt-example/`, unless they say otherwise. Start with [hello.mcl](hello.mcl):

```sh
mgmt run --tmp-prefix lang examples/mcl/hello.mcl
```

| program | what it is about |
|---|---|
";

#[test]
fn every_example_is_in_canonical_form() {
    let said = said(&["fmt", "--check", examples().to_str().unwrap()]);
    assert_eq!(said.code, 0, "{}{}", said.stdout, said.stderr);
}

#[test]
fn every_example_checks_without_a_warning() {
    let root = examples();
    for (name, _) in EXPECTED {
        let path = root.join(name);
        let said = said(&["check", "--deny-warnings", path.to_str().unwrap()]);
        match WARNED.iter().find(|(warned, _)| warned == name) {
            None => assert_eq!(said.code, 0, "{name}:\n{}", said.stderr),
            Some((_, code)) => {
                assert!(said.code == 1 && said.stderr.contains(code), "{name}:\n{}", said.stderr);
            }
        }
    }
}

#[test]
fn every_example_has_a_graph() {
    let root = examples();
    for (name, _) in EXPECTED {
        let path = root.join(name);
        let said = said(&["graph", "lang", path.to_str().unwrap()]);
        assert_eq!(said.code, 0, "{name}:\n{}", said.stderr);
        assert!(said.stdout.contains('['), "{name}:\n{}", said.stdout);
    }
}

#[test]
fn every_example_runs_and_converges() {
    // They spend most of their time waiting, so several run at once.
    let open = Mutex::new(EXPECTED.iter());
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                loop {
                    let next = open.lock().unwrap().next();
                    let Some((name, expect)) = next else { break };
                    run(name, *expect);
                }
            });
        }
    });
}

#[test]
fn what_an_example_says_to_try_happens() {
    for (name, (changed, edit), (follows, content)) in FOLLOWED {
        let place = TestEnv::new(name);
        let _running = RunningProgram::start_command(place.run(&[]));
        let Some((_, Runs { files, .. })) = EXPECTED.iter().find(|(expected, _)| expected == name) else {
            panic!("{name} is not expected to run");
        };
        for (file, content) in *files {
            holds(&place.example(file), content);
        }
        std::fs::write(place.example(changed), edit).unwrap();
        holds(&place.example(follows), content);
    }
}

/// A copy of an example that works below a directory of its own.
struct TestEnv {
    home: tempfile::TempDir,
    program: PathBuf,
}

impl TestEnv {
    fn new(name: &str) -> TestEnv {
        let home = tempfile::tempdir().unwrap();
        let program = home.path().join("program");
        let place = home.path().join("example").to_str().unwrap().to_owned();
        match name.rsplit_once('/') {
            None => copy(&examples().join(name), &program.join(name), &place),
            Some((directory, _)) => copy(&examples().join(directory), &program.join(directory), &place),
        }
        TestEnv { program: program.join(name), home }
    }

    /// The command that runs it.
    fn run(&self, flags: &[&str]) -> std::process::Command {
        let mut arguments = vec!["run", "--tmp-prefix", "--hostname", "example-host", "--max-runtime=100"];
        arguments.extend(flags);
        arguments.extend(["lang", self.program.to_str().unwrap()]);
        let is_server = std::fs::read_to_string(&self.program).unwrap().contains("http:server");
        let mut command = if is_server {
            // With a network of its own: the ports of examples are fixed, and others may run the same example.
            let mut command = std::process::Command::new("unshare");
            let alone = ["--net", "--", "sh", "-ec", "ip link set lo up; exec \"$0\" \"$@\""];
            plain(command.args(alone).arg(env!("CARGO_BIN_EXE_mgmt")).args(&arguments));
            command
        } else {
            mgmt(&arguments)
        };
        command.env("TMPDIR", self.home.path());
        command
    }

    /// A file that it makes.
    fn example(&self, file: &str) -> PathBuf {
        self.home.path().join("example").join(file)
    }
}

/// Runs an example, and looks at what it has done.
fn run(name: &str, expect: Expect) {
    let place = TestEnv::new(name);
    if let Lives(file, begins) = expect {
        let _running = RunningProgram::start_command(place.run(&[]));
        return eventually(&format!("{name}: {file} begins with {begins:?}"), || {
            std::fs::read_to_string(place.example(file)).is_ok_and(|found| found.starts_with(begins))
        });
    }
    let mut flags = vec!["--converged-exit"];
    flags.push(if matches!(expect, Ticks(_)) { "--converger-timeout=0" } else { "--converger-timeout=1" });
    if matches!(expect, OnlyLooks | Looks(_)) {
        flags.push("--noop");
    }
    let said: CommandOutput = place.run(&flags).output().unwrap().into();
    if !matches!(expect, Looks(_)) || Path::new("/run/systemd/system").exists() {
        assert_eq!(said.code, 0, "{name}:\n{}", said.stderr);
    }
    let (logs, files) = match expect {
        Runs { logs, files } => (logs, files),
        Looks(logs) => (logs, &[][..]),
        Ticks(file) => return assert!(place.example(file).exists(), "{name}"),
        OnlyLooks | Lives(..) => return,
    };
    for line in logs {
        assert!(said.stderr.contains(line), "{name}: no {line:?} in\n{}", said.stderr);
    }
    for (file, content) in files {
        let found = std::fs::read_to_string(place.example(file));
        assert_eq!(found.as_deref().ok(), Some(*content), "{name}: {file}\n{}", said.stderr);
    }
}

fn copy(from: &Path, to: &Path, place: &str) {
    if from.is_dir() {
        for entry in std::fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            copy(&entry.path(), &to.join(entry.file_name()), place);
        }
        return;
    }
    std::fs::create_dir_all(to.parent().unwrap()).unwrap();
    let text = std::fs::read_to_string(from).unwrap();
    std::fs::write(to, text.replace("/tmp/mgmt-example", place)).unwrap();
}
