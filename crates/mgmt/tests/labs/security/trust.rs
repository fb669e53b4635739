//! Functions that read the host, commands and what they inherit, and clients that ask too much or by another name.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;

use crate::security::resident;
use mgmt_test_support::program::{RunningProgram, eventually, holds, mgmt, mgmt_output, plain};

struct TestEnv {
    home: tempfile::TempDir,
}

impl TestEnv {
    fn new() -> TestEnv {
        TestEnv { home: tempfile::tempdir().unwrap() }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn path(&self, name: &str) -> String {
        self.at(name).to_str().unwrap().to_owned()
    }

    /// Writes a file in one step, as an editor does.
    fn write(&self, name: &str, text: &str) -> String {
        let next = self.at("next");
        std::fs::write(&next, text).unwrap();
        std::fs::rename(&next, self.at(name)).unwrap();
        self.path(name)
    }

    /// A program that copies what functions read of each of these to a file `out-NAME`.
    fn copies(&self, names: &[&str]) -> String {
        self.write("main.mcl", &self.copies_text(names))
    }

    fn copies_text(&self, names: &[&str]) -> String {
        let mut text = "import \"os\"\n".to_owned();
        for name in names {
            text += &format!(
                "file \"{}\" {{\n\tstate => \"exists\",\n\tcontent => os.readfile(\"{}\"),\n}}\n",
                self.path(&format!("out-{}", name.replace('/', "-"))),
                self.path(name)
            );
        }
        text
    }
}

/// A process is there, and has not ended.
pub(crate) fn runs(id: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", id.trim())).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

fn written(path: &Path) -> String {
    eventually(&format!("{} is written", path.display()), || {
        std::fs::read_to_string(path).is_ok_and(|text| text.ends_with('\n'))
    });
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn threat_09_functions_are_not_held_up_by_what_is_at_a_path() {
    let place = TestEnv::new();
    place.write("a", "a0");
    place.write("b", "b0");
    let program = place.copies(&["a", "b"]);
    let mut running = RunningProgram::start(&["run", "--tmp-prefix", "lang", &program]);
    holds(&place.at("out-a"), "a0");
    type Obstacle = (&'static str, fn(&Path), &'static str);
    let in_the_way: [Obstacle; 4] = [
        (
            "a FIFO",
            |path| assert!(Command::new("mkfifo").arg(path).status().unwrap().success()),
            "a FIFO, not",
        ),
        ("an endless device", |path| symlink("/dev/zero", path).unwrap(), "a character device, not"),
        ("a socket", |path| drop(std::os::unix::net::UnixListener::bind(path).unwrap()), "a socket, not"),
        (
            "a huge file",
            |path| std::fs::File::create(path).unwrap().set_len(1 << 40).unwrap(),
            "larger than 16777216 bytes",
        ),
    ];
    for (round, (told, put, error)) in in_the_way.iter().enumerate() {
        std::fs::remove_file(place.at("a")).unwrap();
        put(&place.at("a"));
        running.wait_for(error);
        // What does not depend on it goes on to live.
        place.write("b", &format!("b{}", round + 1));
        holds(&place.at("out-b"), &format!("b{}", round + 1));
        let plan = mgmt_output(&["plan", "lang", &program]);
        assert!(plan.code == 1 && plan.stderr.contains(error), "{told}: {}", plan.stderr);
        assert!(resident(running.id()) < 1 << 30, "{told}: it has filled the memory");
        std::fs::remove_file(place.at("a")).unwrap();
        place.write("a", &format!("a{}", round + 1));
        holds(&place.at("out-a"), &format!("a{}", round + 1));
    }
    // The limit can be another, and the kernel's own files are read.
    std::fs::File::create(place.at("a")).unwrap().set_len((16 << 20) + 1).unwrap();
    let graph = |limit: &str| -> mgmt_test_support::program::CommandOutput {
        mgmt(&["graph", "lang", &program]).env("MGMT_READ_LIMIT", limit).output().unwrap().into()
    };
    assert_eq!(graph("17000000").code, 0);
    assert_eq!(graph("16777216").code, 1);
    assert!(graph("much").stderr.contains("MGMT_READ_LIMIT"));
    let kernel = "import \"os\"\nprint \"p\" { msg => os.readfile(\"/proc/sys/kernel/ostype\"), }\n";
    assert_eq!(mgmt_output(&["graph", "lang", kernel]).code, 0);
}

/// A mount whose server never answers. It ends with this.
struct DeadMount {
    server: Child,
    at: PathBuf,
}

impl DeadMount {
    fn new(at: &Path) -> DeadMount {
        std::fs::create_dir(at).unwrap();
        let script = format!(
            "exec 3<>/dev/fuse && mount -i -t fuse dead {} -o fd=3,rootmode=40000,user_id=0,group_id=0 && \
             echo mounted && exec sleep 1000",
            at.display()
        );
        let mut server = Command::new("sh")
            .args(["-c", &script])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut told = [0; 8];
        server.stdout.take().unwrap().read_exact(&mut told).expect("FUSE is there");
        DeadMount { server, at: at.to_owned() }
    }
}

impl Drop for DeadMount {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
        let _ = Command::new("umount").arg("-l").arg(&self.at).status();
    }
}

#[test]
fn threat_09_functions_are_not_held_up_by_a_file_system_that_does_not_answer() {
    let place = TestEnv::new();
    let dead = DeadMount::new(&place.at("dead"));
    place.write("b", "b0");
    let program = place.copies(&["b", "dead/x", "dead/y", "dead/z"]);
    let mut running = RunningProgram::start(&["run", "--tmp-prefix", "lang", &program]);
    running.wait_for("timed out after 5 s");
    // What does not depend on it goes on to live. (A process that ends meanwhile is kept by the kernel until the mount is
    // gone, so no other one is asked here.)
    place.write("b", "b1");
    holds(&place.at("out-b"), "b1");
    drop(dead);
    for name in ["x", "y", "z"] {
        place.write(&format!("dead/{name}"), name);
    }
    for name in ["x", "y", "z"] {
        holds(&place.at(&format!("out-dead-{name}")), name);
    }
}

#[test]
fn threat_09_kinds_are_not_held_up_by_a_file_system_that_does_not_answer() {
    let place = TestEnv::new();
    let dead = DeadMount::new(&place.at("dead"));
    symlink(place.at("dead"), place.at("link")).unwrap();
    place.write("b", "b0");
    let files: String = (0..40)
        .map(|n| {
            format!(
                "file \"{}\" {{ state => \"exists\", content => \"{n}\", }}\n",
                place.path(&format!("dead/f{n}"))
            )
        })
        .chain([
            format!("file \"{}\" {{ state => \"exists\", content => \"l\", }}\n", place.path("link/l")),
            format!("file \"{}/\" {{ state => \"exists\", recurse => true, }}\n", place.path("dead/tree")),
        ])
        .collect();
    let program = place.write("main.mcl", &format!("{files}\n{}", place.copies_text(&["b"])));
    // A process that ends meanwhile is kept by the kernel until the mount is gone, so only its output is waited for.
    let plan = place.at("plan");
    let output = std::fs::File::create(&plan).unwrap();
    let mut planning = mgmt(&["plan", "lang", &program]);
    planning.stdin(Stdio::null()).stdout(output.try_clone().unwrap()).stderr(output);
    let mut planning = planning.spawn().unwrap();
    let said = || std::fs::read_to_string(&plan).unwrap_or_default();
    eventually("the plan says so", || said().contains("dead does not answer") && said().contains("out-b"));
    let mut running = RunningProgram::start(&["run", "--tmp-prefix", "lang", &program]);
    running.wait_for("dead does not answer");
    holds(&place.at("out-b"), "b0");
    for round in 1..4 {
        place.write("b", &format!("b{round}"));
        holds(&place.at("out-b"), &format!("b{round}"));
        std::fs::remove_file(place.at("out-b")).unwrap();
        holds(&place.at("out-b"), &format!("b{round}"));
    }
    drop(dead);
    planning.wait().unwrap();
    for n in 0..40 {
        holds(&place.at(&format!("dead/f{n}")), &n.to_string());
    }
    holds(&place.at("dead/l"), "l");
    eventually("the directory is made", || place.at("dead/tree").is_dir());
}

/// A process that is killed with this. It is not waited for: the kernel may keep it for as long as a mount is dead.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
    }
}

#[test]
fn threat_09_commands_and_servers_are_not_held_up_by_a_file_system_that_does_not_answer() {
    let place = TestEnv::new();
    let dead = DeadMount::new(&place.at("dead"));
    // More of each than there are threads for them all.
    let commands = (0..20).flat_map(|n| {
        let exec = |name: &str, cmd: &str, more: &str| {
            format!("exec \"{name}{n}\" {{\n\tcmd => \"{cmd}\",\n{more}}}\n")
        };
        let at = |name: &str| place.path(&format!("dead/{name}{n}"));
        [
            exec("program", &at("program"), ""),
            exec("directory", "/bin/true", &format!("\tcwd => \"{}\",\n", place.path("dead"))),
            exec("guard", "/bin/true", &format!("\tifcmd => \"{}\",\n", at("guard"))),
            exec("watch", "/bin/true", &format!("\twatchcmd => \"{}\",\n", at("watch"))),
            exec("creates", "/bin/true", &format!("\tcreates => \"{}\",\n", at("creates"))),
        ]
    });
    let address = mgmt_test_support::address::reserved();
    let program = format!(
        "{}import \"os\"\nhttp:server \"{address}\" {{}}\nhttp:server:file \"/dead\" {{ path => \"{}\", }}\n\
         http:server:file \"/fine\" {{ data => \"fine\", }}\nexec \"fine\" {{\n\tcmd => \"/bin/sh {}\",\n}}\n\
         file \"{}\" {{\n\tstate => \"exists\",\n\tcontent => os.system(\"{}; echo said\"),\n}}\n",
        commands.collect::<String>(),
        place.path("dead/served"),
        place.write("fine.sh", &format!("echo fine >{}\n", place.path("out"))),
        place.path("said"),
        place.path("dead/tool"),
    );
    let program = place.write("main.mcl", &program);
    let (prefix, log) = (place.path("prefix"), place.at("log"));
    let output = std::fs::File::create(&log).unwrap();
    let mut command = mgmt(&["run", "--prefix", &prefix, "lang", &program]);
    command.stdin(Stdio::null()).stdout(output.try_clone().unwrap()).stderr(output);
    let mut running = Killed(command.spawn().unwrap());
    holds(&place.at("out"), "fine\n");
    let said = || std::fs::read_to_string(&log).unwrap_or_default();
    for name in ["program", "directory", "guard", "watch", "creates"] {
        let is_said = |line: &str| line.contains(&format!("exec[{name}")) && line.contains("does not answer");
        eventually(&format!("the error of {name}"), || said().lines().any(is_said));
    }
    eventually("the server listens", || std::net::TcpStream::connect(address).is_ok());
    for _ in 0..20 {
        let answer = answered(address, "GET /dead HTTP/1.1\r\nHost: x");
        assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
        let answer = answered(address, "GET /fine HTTP/1.1\r\nHost: x");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    eventually("the status says so", || {
        let status = mgmt_output(&["status", "--prefix", &prefix]);
        status.code == 1 && status.stdout.contains("exec[program0]  retrying")
    });
    // It ends although nothing answers.
    rustix::process::kill_process(rustix::process::Pid::from_child(&running.0), Signal::TERM).unwrap();
    eventually("the program has ended", || running.0.try_wait().unwrap().is_some());
    drop(dead);
}

#[test]
fn threat_01_functions_follow_no_planted_link() {
    let place = TestEnv::new();
    let secret = place.write("secret", "root's secret");
    std::fs::create_dir(place.at("theirs")).unwrap();
    std::os::unix::fs::chown(place.at("theirs"), Some(12345), Some(12345)).unwrap();
    let planted = place.at("theirs/link");
    symlink(&secret, &planted).unwrap();
    lchown(&planted, Some(12345), Some(12345)).unwrap();
    for call in ["os.readfile", "os.file_exists", "golang/os.read_file", "golang/path/filepath.eval_symlinks"]
    {
        let (module, function) = call.rsplit_once('.').unwrap();
        let out = place.path("out");
        let program = format!(
            "import \"{module}\" as m\nimport \"fmt\"\nfile \"{out}\" {{\n\tstate => \"exists\",\n\t\
             content => fmt.printf(\"%v\", m.{function}(\"{}\")),\n}}\n",
            planted.display()
        );
        let run = mgmt_output(&["run", "--tmp-prefix", "--converged-timeout", "0", "lang", &program]);
        assert!(run.code != 0 && run.stderr.contains("belongs to user 12345"), "{call}: {}", run.stderr);
        assert!(!Path::new(&out).exists(), "{call}: it was published");
    }
}

#[test]
fn threat_12_commands_inherit_only_what_they_are_given() {
    let place = TestEnv::new();
    let list = |name: &str| format!("cd /proc/$$/fd && echo * > {}; sleep 0.1", place.path(name));
    std::os::unix::fs::chown(place.home.path(), Some(65534), Some(65534)).unwrap();
    let exec = |name: &str, more: &str| {
        format!(
            "exec \"{name}\" {{\n\tcmd => \"{}\",\n\tshell => \"/bin/sh\",\n\tenv => {{\"PATH\" => \"/usr/bin:/bin\",}},\n{more}}}\n",
            list(name)
        )
    };
    let program = format!(
        "import \"os\"\n{}{}{}print \"system\" {{ msg => os.system(\"{}; echo done\"), }}\n",
        exec("plain", ""),
        exec("other-user", "\tuser => \"nobody\",\n"),
        exec("guarded", &format!("\tifcmd => \"{}\",\n\tifshell => \"/bin/sh\",\n", list("guard"))),
        list("function"),
    );
    let program = place.write("main.mcl", &program);
    let script = format!(
        "exec 7</etc/passwd 9</etc/shadow && exec {} run --tmp-prefix lang {program}",
        env!("CARGO_BIN_EXE_mgmt")
    );
    let mut command = Command::new("sh");
    plain(command.args(["-c", &script]));
    let _running = RunningProgram::start_command(command);
    for name in ["plain", "other-user", "guard", "guarded", "function"] {
        let listed = written(&place.at(name));
        // The shell opens the directory that it lists, with the next number.
        assert!(
            listed.split_whitespace().all(|number| ["0", "1", "2", "3"].contains(&number)),
            "{name}: {listed}"
        );
    }
}

/// A command that says who it is, and who it has started.
fn lasting(place: &TestEnv, more: &str) -> String {
    format!(
        "graph: g\nresources:\n  exec:\n  - name: lasting\n    shell: /bin/sh\n    env:\n      PATH: /usr/bin:/bin\n    \
         cmd: 'sleep 1000 & echo $! > {0}; echo $$ > {1}; wait'\n{more}",
        place.path("child"),
        place.path("leader")
    )
}

#[test]
fn threat_27_a_command_does_not_outlive_a_killed_agent() {
    let place = TestEnv::new();
    let (prefix, graph) = (place.path("prefix"), place.write("graph.yaml", &lasting(&place, "")));
    let first = RunningProgram::start(&["run", "--prefix", &prefix, "yaml", &graph]);
    let (leader, child) = (written(&place.at("leader")), written(&place.at("child")));
    // The record is written once the command has started.
    let records = place.at("prefix/engine/commands");
    eventually("the command is recorded", || {
        std::fs::read_dir(&records).is_ok_and(|entries| entries.flatten().next().is_some())
    });
    first.signal(Signal::KILL);
    let (code, _) = first.end_killed();
    assert_eq!(code, None);
    assert!(runs(&leader) && runs(&child), "a kill ends the agent alone");
    // Somebody else who happens to be in a group of its own is left alone.
    let mut bystander = Command::new("setsid").args(["sleep", "1000"]).spawn().unwrap();
    let mut second = RunningProgram::start(&["run", "--prefix", &prefix, "empty"]);
    let line = second.wait_for("still running since the last start");
    assert!(line.contains("exec[lasting]"), "{line}");
    assert!(!runs(&leader) && !runs(&child), "they are ended before anything is run");
    assert!(runs(&bystander.id().to_string()));
    bystander.kill().unwrap();
    bystander.wait().unwrap();
}

#[test]
fn threat_17_a_command_ends_when_its_resource_leaves() {
    for (more, stays) in [
        ("", false),
        ("    meta:\n      onleave: cancel\n", false),
        ("    meta:\n      onleave: finish\n", true),
    ] {
        let place = TestEnv::new();
        let graph = place.write("graph.yaml", &lasting(&place, more));
        let mark = place.at("mark");
        let mut running = RunningProgram::start(&["run", "--tmp-prefix", "yaml", &graph]);
        let (leader, child) = (written(&place.at("leader")), written(&place.at("child")));
        place.write("graph.yaml", &mgmt_test_support::program::one_file(&mark, "there"));
        holds(&mark, "there");
        if stays {
            assert!(runs(&leader) && runs(&child), "it was to finish");
            for id in [&child, &leader] {
                let id = id.trim().parse().ok().and_then(rustix::process::Pid::from_raw).unwrap();
                let _ = rustix::process::kill_process(id, Signal::KILL);
            }
        } else {
            running.wait_for("left the graph while it ran: cancelling");
            eventually("all of the command has ended", || !runs(&leader) && !runs(&child));
        }
    }
}

#[test]
fn threat_21_a_source_that_does_not_fit_is_refused_and_holes_stay_holes() {
    let place = TestEnv::new();
    let sparse = std::fs::File::create(place.at("sparse")).unwrap();
    sparse.set_len(1 << 40).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&sparse, b"end", (1 << 40) - 3).unwrap();
    std::fs::write(place.at("large"), vec![1; 8 << 20]).unwrap();
    std::fs::create_dir(place.at("small")).unwrap();
    let files = |names: &[(&str, &str)]| {
        let files = names.iter().map(|(name, source)| {
            format!("  - name: {}\n    state: exists\n    source: {}\n", place.path(name), place.path(source))
        });
        format!("graph: g\nresources:\n  file:\n{}", files.collect::<String>())
    };
    let once = ["run", "--tmp-prefix", "--converger-timeout=0", "--converged-exit", "yaml"];
    let graph = place.write("sparse.yaml", &files(&[("copy", "sparse")]));
    let run = mgmt_output(&[&once[..], &[&graph]].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    let copy = place.at("copy").metadata().unwrap();
    assert_eq!(copy.len(), 1 << 40);
    assert!(copy.blocks() * 512 < 1 << 20, "it has {} blocks", copy.blocks());
    // Nor are holes read when the two are compared.
    let again = mgmt_output(&[&once[..], &[&graph]].concat());
    assert!(again.code == 0 && again.stderr.contains(" 0 changed, 0 failed"), "{}", again.stderr);
    // A file system with little room, and one with room for few files, which go with the shell.
    let graph = place.write("large.yaml", &files(&[("small/copy", "large")]));
    let words = once.join(" ");
    for (options, error) in [("size=4m", "bytes are needed, and"), ("nr_inodes=1", "all inodes are in use")] {
        let script = format!(
            "mount -t tmpfs -o {options} small {} && exec {} {words} {graph}",
            place.path("small"),
            env!("CARGO_BIN_EXE_mgmt")
        );
        let mut command = Command::new("unshare");
        plain(command.args(["--mount", "sh", "-c", &script]));
        let (code, log) = RunningProgram::start_command(command).end();
        assert!(code != Some(0) && log.contains(error), "{options}: {code:?}\n{log}");
    }
}

#[test]
fn threat_21_a_long_copy_says_how_far_it_is_and_ends_when_asked() {
    let place = TestEnv::new();
    let source = std::fs::File::create(place.at("source")).unwrap();
    rustix::fs::fallocate(&source, rustix::fs::FallocateFlags::empty(), 0, 640 << 20).unwrap();
    let (copy, source) = (place.path("copy"), place.path("source"));
    let graph =
        format!("graph: g\nresources:\n  file:\n  - name: {copy}\n    state: exists\n    source: {source}\n");
    let graph = place.write("graph.yaml", &graph);
    // A disk that takes three seconds for every piece of the copy.
    let slow = ["-e", "trace=copy_file_range", "-e", "inject=copy_file_range:delay_enter=3000000"];
    let mut command = Command::new("strace");
    command.args(["-D", "-f", "-qqq", "-o", "/dev/null"]).args(slow);
    plain(command.args([env!("CARGO_BIN_EXE_mgmt"), "run", "--tmp-prefix", "yaml", &graph]));
    let mut running = RunningProgram::start_command(command);
    let line = running.wait_for("copying the source: ");
    assert!(line.contains(" of 640 MiB (") && line.contains(&copy), "{line}");
    running.signal(Signal::TERM);
    let (_, log) = running.end();
    assert!(log.contains("ended: 1 resources, 0 changed"), "{log}");
    assert!(!place.at("copy").exists(), "it was copied to the end");
}

/// A client at another address of the loopback network.
fn connect_from(client: [u8; 4], address: std::net::SocketAddr) -> std::net::TcpStream {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with};
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
    bind(&socket, &std::net::SocketAddr::from((client, 0))).unwrap();
    connect(&socket, &address).unwrap();
    socket.into()
}

/// Connections that have sent half of a request, more than a server has room for.
fn half_open(address: std::net::SocketAddr) -> Vec<std::net::TcpStream> {
    let one = |_| {
        let mut stream = connect_from([127, 0, 0, 2], address);
        // One that is turned away may be gone before that.
        let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\nX-");
        stream
    };
    (0..300).map(one).collect()
}

/// The answer to a request with this line and these headers.
fn answered(address: std::net::SocketAddr, request: &str) -> String {
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(std::time::Duration::from_secs(60))).unwrap();
    write!(stream, "{request}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn threat_24_one_client_does_not_starve_another_and_names_the_host_it_asks() {
    let address = mgmt_test_support::address::reserved();
    let program =
        format!("http:server \"{address}\" {{}}\nhttp:server:file \"/a\" {{ data => \"fine\", }}\n");
    let mut running = RunningProgram::start(&["run", "--tmp-prefix", "lang", &program]);
    running.wait_for("listening on ");
    let crowd = half_open(address);
    for _ in 0..20 {
        let answer = answered(address, "GET /a HTTP/1.1\r\nHost: x");
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("fine"), "{answer}");
    }
    drop(crowd);
    for (head, status) in [
        ("GET /a HTTP/1.1", "HTTP/1.1 400"),
        ("GET /a HTTP/1.1\r\nHost: x\r\nHost: y", "HTTP/1.1 400"),
        ("GET /a HTTP/1.0", "HTTP/1.0 200"),
    ] {
        let answer = answered(address, head);
        assert!(answer.starts_with(status), "{head}: {answer}");
    }
}

#[test]
fn threat_24_metrics_are_not_given_to_who_asks_by_another_name() {
    let mut running = RunningProgram::start(&[
        "run",
        "--tmp-prefix",
        "--prometheus-listen",
        "127.0.0.1:0",
        "--prometheus-name",
        "web1.example.com",
        "empty",
    ]);
    let line = running.wait_for("serving metrics at http://");
    let address = line.split("http://").nth(1).unwrap().split('/').next().unwrap().to_owned();
    let ask = |host: &str| {
        let mut stream = std::net::TcpStream::connect(&address).unwrap();
        write!(stream, "GET /metrics HTTP/1.1\r\n{host}\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.lines().next().unwrap_or_default().to_owned()
    };
    for fine in [&*address, "localhost", "web1.example.com:9233", "[::1]:1"] {
        assert_eq!(ask(&format!("Host: {fine}\r\n")), "HTTP/1.1 200 OK", "{fine}");
    }
    assert_eq!(ask("Host: rebound.example:9233\r\n"), "HTTP/1.1 421 Misdirected Request");
    assert_eq!(ask(""), "HTTP/1.1 400 Bad Request");
    // One client that opens all it can does not starve another.
    let address = address.parse().unwrap();
    let crowd = half_open(address);
    let answer = answered(address, "GET /metrics HTTP/1.1\r\nHost: localhost");
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    drop(crowd);
}
