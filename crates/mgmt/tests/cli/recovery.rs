//! What failed heals: each trouble begins while the program runs, ends, and everything is repaired without a restart.
//!
//! Where a test declares `Meta:retry => 0`, no timer leads to another attempt, so that a repair proves that an event did.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use mgmt_test_support::program::{RunningProgram, eventually, holds, mgmt_output};
use rustix::process::Signal;
use tempfile::TempDir;

/// A directory, and paths in it.
struct Home(TempDir);

impl Home {
    fn new() -> Home {
        Home(tempfile::tempdir().unwrap())
    }

    fn at(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn program(&self, text: &str) -> String {
        let program = self.path("main.mcl");
        std::fs::write(self.path("main.new"), text).unwrap();
        std::fs::rename(self.path("main.new"), &program).unwrap();
        program.to_str().unwrap().to_owned()
    }
}

fn start(program: &str) -> RunningProgram {
    RunningProgram::start(&["run", "--tmp-prefix", "--converger-timeout=0", "lang", program])
}

/// Writes a program that notes each of its runs in a file.
fn write_tool(path: &Path, noted: &str) {
    let new = path.with_extension("new");
    std::fs::write(&new, format!("#!/bin/sh\necho ran >> {noted}\n")).unwrap();
    std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::rename(new, path).unwrap();
}

#[test]
fn a_missing_parent_that_appears_is_an_event() {
    let home = Home::new();
    let file = home.at("parent/deeper/file");
    let program = home.program(&format!(
        "file \"{file}\" {{ state => \"exists\", content => \"right\", Meta:retry => 0, }}\n"
    ));
    let mut running = start(&program);
    running.wait_for("failed, not retrying: ");
    running.wait_for("quiet for 0 s, not converged: ");
    std::fs::create_dir(home.path("parent")).unwrap();
    std::fs::create_dir(home.path("parent/deeper")).unwrap();
    holds(Path::new(&file), "right");
    running.wait_for("converged for 0 s");
    std::fs::write(&file, "wrong").unwrap();
    holds(Path::new(&file), "right");
}

#[test]
fn a_directory_that_is_renamed_away_and_back_is_managed_again() {
    for retry in ["", "Meta:retry => 0, "] {
        let home = Home::new();
        let (directory, file) = (home.at("t/dir/"), home.at("t/dir/file"));
        std::fs::create_dir(home.path("t")).unwrap();
        let program = home.program(&format!(
            "file \"{directory}\" {{ state => \"exists\", {retry}}}\n\
             file \"{file}\" {{ state => \"exists\", content => \"right\", {retry}}}\n"
        ));
        let mut running = start(&program);
        running.wait_for("converged for 0 s");
        std::fs::rename(home.path("t"), home.path("t2")).unwrap();
        running.wait_for("not converged: ");
        std::fs::write(home.path("t2/dir/file"), "wrong").unwrap();
        std::fs::rename(home.path("t2"), home.path("t")).unwrap();
        holds(Path::new(&file), "right");
        running.wait_for("converged for 0 s");
        // All of it is watched again.
        std::fs::write(&file, "wrong").unwrap();
        holds(Path::new(&file), "right");
        std::fs::remove_dir_all(&directory).unwrap();
        holds(Path::new(&file), "right");
    }
}

/// Sets or takes away the attribute that keeps even root from writing a file. It ends with this.
struct Immutable(PathBuf);

impl Immutable {
    fn new(path: &Path) -> Immutable {
        chattr("+i", path);
        Immutable(path.to_owned())
    }
}

impl Drop for Immutable {
    fn drop(&mut self) {
        chattr("-i", &self.0);
    }
}

fn chattr(how: &str, path: &Path) {
    let done = Command::new("chattr").arg(how).arg(path).stdin(Stdio::null()).output().unwrap();
    assert!(done.status.success(), "chattr {how}: {}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn a_file_that_could_not_be_written_is_repaired_by_time() {
    // The directory of the build is on a disk; a temporary one may be in memory, where files do not have the attribute.
    let home = Home(TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap());
    let file = home.at("file");
    std::fs::write(&file, "wrong").unwrap();
    let immutable = Immutable::new(Path::new(&file));
    let program =
        home.program(&format!("file \"{file}\" {{ state => \"exists\", content => \"right\", }}\n"));
    let mut running = start(&program);
    running.wait_for("(attempt 2)");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "wrong");
    drop(immutable);
    holds(Path::new(&file), "right");
    running.wait_for("recovered after ");
    running.wait_for("converged for 0 s");
}

#[test]
fn a_parent_that_appears_four_seconds_later_leads_to_the_next_attempt() {
    let home = Home::new();
    let file = home.at("parent/file");
    let program =
        home.program(&format!("file \"{file}\" {{ state => \"exists\", content => \"right\", }}\n"));
    let mut running = start(&program);
    running.wait_for("retrying in ");
    // Some attempts by time have failed until then.
    std::thread::sleep(std::time::Duration::from_secs(4));
    std::fs::create_dir(home.path("parent")).unwrap();
    holds(Path::new(&file), "right");
    running.wait_for("recovered after ");
    running.wait_for("converged for 0 s");
}

#[test]
fn a_file_system_that_is_read_only_for_a_while_is_repaired() {
    let home = Home::new();
    std::fs::create_dir(home.path("volume")).unwrap();
    let (volume, file) = (home.at("volume"), home.at("volume/file"));
    let program =
        home.program(&format!("file \"{file}\" {{ state => \"exists\", content => \"right\", }}\n"));
    let script = format!("mount -t tmpfs tmpfs {volume} && exec \"$@\"");
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script, "sh", env!("CARGO_BIN_EXE_mgmt")]);
    command.args(["run", "--tmp-prefix", "--converger-timeout=0", "lang", &program]).stdin(Stdio::null());
    let mut running = RunningProgram::start_command(command);
    running.wait_for("converged for 0 s");
    // Only the program has the volume.
    let target = running.id().to_string();
    let inside = |script: &str| {
        let words = ["--target", &target, "--mount", "sh", "-ec", script];
        let done = Command::new("nsenter").args(words).stdin(Stdio::null()).output().unwrap();
        assert!(done.status.success(), "{script}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    };
    // It is not repaired before nothing can be written.
    running.signal(Signal::STOP);
    inside(&format!("echo wrong > {file}; mount -o remount,ro {volume}"));
    running.signal(Signal::CONT);
    running.wait_for("(attempt 2)");
    assert_eq!(inside(&format!("cat {file}")), "wrong\n");
    inside(&format!("mount -o remount,rw {volume}"));
    eventually("the file is repaired", || inside(&format!("cat {file}")) == "right");
    running.wait_for("recovered after ");
    running.wait_for("converged for 0 s");
}

#[test]
fn a_command_whose_program_is_installed_later_runs() {
    let home = Home::new();
    let (tool, made, source) = (home.at("tool"), home.at("made"), home.at("source"));
    // By time.
    let program = home
        .program(&format!("exec \"x\" {{ cmd => \"{tool}\", ifcmd => \"/usr/bin/test ! -e {made}\", }}\n"));
    let mut running = start(&program);
    running.wait_for("cannot run ");
    write_tool(Path::new(&tool), &made);
    holds(Path::new(&made), "ran\n");
    running.wait_for("converged for 0 s");
    running.signal(Signal::TERM);
    running.end();
    // Because a resource before it has changed something.
    std::fs::remove_file(&tool).unwrap();
    std::fs::remove_file(&made).unwrap();
    std::fs::write(&source, "nothing that runs").unwrap();
    let program = home.program(&format!(
        "import \"os\"\n\
         file \"{tool}\" {{ state => \"exists\", content => os.readfile(\"{source}\"), mode => \"0755\", Before => Exec[\"x\"], }}\n\
         exec \"x\" {{ cmd => \"{tool}\", ifcmd => \"/usr/bin/test ! -e {made}\", Meta:retry => 0, }}\n"
    ));
    let mut running = start(&program);
    running.wait_for("exec[x]: failed, not retrying: ");
    write_tool(Path::new(&source), &made);
    holds(Path::new(&made), "ran\n");
    running.wait_for("converged for 0 s");
}

#[test]
fn a_name_that_resolves_again_is_found_again() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut connection in listener.incoming().map_while(Result::ok) {
            let mut request = [0; 4096];
            let _ = connection.read(&mut request);
            let _ = connection
                .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nright");
        }
    });
    let home = Home::new();
    let (hosts, file) = (home.at("hosts"), home.at("file"));
    std::fs::write(&hosts, "127.0.0.1 localhost\n").unwrap();
    let program = home.program(&format!(
        "file \"{file}\" {{ state => \"exists\", source => \"http://elsewhere.test:{port}/file\", }}\n"
    ));
    // Only the program has these names.
    let script = format!(
        "mount --bind {hosts} /etc/hosts && exec {} run --tmp-prefix --converger-timeout=0 lang {program}",
        env!("CARGO_BIN_EXE_mgmt")
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script]).stdin(Stdio::null());
    let mut running = RunningProgram::start_command(command);
    running.wait_for("retrying in ");
    assert!(!Path::new(&file).exists());
    // The same file: a mount is of a file, and not of its name.
    std::fs::write(&hosts, "127.0.0.1 localhost elsewhere.test\n").unwrap();
    holds(Path::new(&file), "right");
    running.wait_for("converged for 0 s");
}

#[test]
fn a_name_server_that_comes_back_is_asked_again() {
    let home = Home::new();
    let file = home.at("file");
    std::fs::write(home.path("resolv.conf"), "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n").unwrap();
    std::fs::write(home.path("hosts"), "127.0.0.1 localhost\n").unwrap();
    let program = home.program(&format!(
        "http:server \"127.0.0.1:8080\" {{}}\n\
         http:server:file \"/page\" {{ data => \"right\", }}\n\
         file \"{file}\" {{ state => \"exists\", source => \"http://elsewhere.test:8080/page\", }}\n"
    ));
    // A network of its own, in which no name server listens yet.
    let script = format!(
        "ip link set lo up && mount --bind {0}/resolv.conf /etc/resolv.conf && mount --bind {0}/hosts /etc/hosts && \
         exec {1} run --tmp-prefix --converger-timeout=0 lang {program}",
        home.0.path().display(),
        env!("CARGO_BIN_EXE_mgmt")
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "--net", "sh", "-c", &script]).stdin(Stdio::null());
    let mut running = RunningProgram::start_command(command);
    running.wait_for("retrying in ");
    assert!(!Path::new(&file).exists());
    let mut server = Command::new("nsenter")
        .args(["--net", "--target", &running.id().to_string(), "dnsmasq", "--keep-in-foreground"])
        .args(["--no-resolv", "--no-hosts", "--bind-interfaces", "--listen-address=127.0.0.1", "--user=root"])
        .args(["--conf-file=/dev/null", "--pid-file=", "--address=/elsewhere.test/127.0.0.1"])
        .stdin(Stdio::null())
        .spawn()
        .expect("this test needs dnsmasq: run `cargo xtask setup`");
    holds(Path::new(&file), "right");
    running.wait_for("converged for 0 s");
    server.kill().unwrap();
    server.wait().unwrap();
}

#[test]
fn every_graph_and_every_reload_attempts_what_has_failed_and_reports_no_convergence() {
    let home = Home::new();
    let (noted, other) = (home.at("noted"), home.at("other"));
    let tool = home.path("tool");
    std::fs::write(&tool, format!("#!/bin/sh\necho ran >> {noted}\nexit 1\n")).unwrap();
    std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755)).unwrap();
    let text = format!("exec \"x\" {{ cmd => \"{}\", Meta:retry => 0, }}\n", tool.display());
    let program = home.program(&text);
    let mut running = start(&program);
    running.wait_for("failed, not retrying: ");
    holds(Path::new(&noted), "ran\n");
    // The same program, with a comment; then with another resource.
    home.program(&format!("# the same\n{text}"));
    holds(Path::new(&noted), "ran\nran\n");
    home.program(&format!("{text}file \"{other}\" {{ state => \"exists\", content => \"right\", }}\n"));
    holds(Path::new(&noted), "ran\nran\nran\n");
    holds(Path::new(&other), "right");
    running.wait_for("not converged: ");
    running.signal(Signal::HUP);
    let count = || std::fs::read_to_string(&noted).unwrap().lines().count();
    eventually("it is attempted again", || count() > 3);
    running.signal(Signal::TERM);
    let (_, all) = running.end();
    assert!(!all.contains("converged for 0 s"), "{all}");
}

#[test]
fn a_run_that_ends_when_it_converges_fails_if_anything_has() {
    let home = Home::new();
    let program = home.program("exec \"x\" { cmd => \"/bin/false\", }\nprint \"y\" { msg => \"fine\", }\n");
    let once = ["run", "--tmp-prefix", "--converger-timeout=0", "--converged-exit"];
    let run = mgmt_output(&[&once[..], &["lang", &program]].concat());
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.stderr.contains("not converged: "), "{run:?}");
    let run = mgmt_output(&[&once[..], &["--detailed-exitcode", "lang", &program]].concat());
    assert_eq!(run.code & 4, 4, "{run:?}");
    // Declared retries are waited for.
    let tool = home.path("tool");
    let tried = home.at("tried");
    std::fs::write(&tool, format!("#!/bin/sh\ntest -e {tried} || {{ touch {tried}; exit 1; }}\n")).unwrap();
    std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755)).unwrap();
    let program = home.program(&format!(
        "exec \"x\" {{ cmd => \"{}\", Meta:retry => 1, Meta:delay => 1500, }}\n",
        tool.display()
    ));
    let run = mgmt_output(&[&once[..], &["lang", &program]].concat());
    assert_eq!(run.code, 0, "{run:?}");
}

#[test]
fn a_flood_of_events_does_not_make_a_failing_resource_a_busy_loop() {
    let home = Home::new();
    let (directory, noted) = (home.at("chatty/"), home.at("noted"));
    std::fs::create_dir(&directory).unwrap();
    let tool = home.path("tool");
    // It fails, and is the cause of its own events.
    std::fs::write(&tool, format!("#!/bin/sh\necho ran >> {noted}\ndate +%N > {directory}event\nexit 1\n"))
        .unwrap();
    std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755)).unwrap();
    let program = home.program(&format!(
        "exec \"x\" {{ cmd => \"{}\", watchfiles => [\"{directory}event\",], env => {{\"PATH\" => \"/usr/bin:/bin\",}}, }}\n",
        tool.display()
    ));
    let mut running = start(&program);
    // Eight at once, then at growing intervals: the sixteenth comes after a quarter of a second, the thirty-second after a minute.
    running.wait_for("(attempt 16)");
    eventually("attempts go on", || std::fs::read_to_string(&noted).unwrap().lines().count() > 18);
    let before = std::fs::read_to_string(&noted).unwrap().lines().count();
    std::thread::sleep(std::time::Duration::from_secs(3));
    let after = std::fs::read_to_string(&noted).unwrap().lines().count();
    assert!(after - before <= 20, "{before} {after}");
}
