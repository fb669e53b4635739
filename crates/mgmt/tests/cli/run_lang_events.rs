//! Programs that follow what happens on the host: each with the real source of events, changed from outside.
#![allow(missing_docs, clippy::unwrap_used)]

use std::collections::{HashMap, HashSet};
use std::future::poll_fn;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use futures_core::Stream as _;

use mgmt_test_support::bus::Bus;
use mgmt_test_support::program::{RunningProgram, eventually, holds, mgmt, mgmt_output};
use rustix::process::Signal;
use tempfile::TempDir;

/// A directory with a program in it.
struct TestEnv(TempDir);

impl TestEnv {
    fn new() -> TestEnv {
        TestEnv(tempfile::tempdir().unwrap())
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        std::fs::write(self.at(name), text).unwrap();
        self.at(name)
    }

    /// The command that runs a program.
    fn runs(&self, text: &str) -> Command {
        let program = self.write("main.mcl", text);
        mgmt(&["run", "--tmp-prefix", "lang", program.to_str().unwrap()])
    }
}

/// Declares a file with a content, which is an expression.
fn file(path: &Path, content: &str) -> String {
    format!("file \"{}\" {{\n\tstate => \"exists\",\n\tcontent => {content},\n}}\n", path.display())
}

/// The same command in name spaces of its own, by the arguments of `unshare`. Its process is the one that is started.
fn apart(command: &Command, spaces: &[&str]) -> Command {
    let mut inside = Command::new("unshare");
    inside.args(spaces).arg(command.get_program()).args(command.get_args()).env_clear();
    inside.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    inside.stdin(std::process::Stdio::null());
    inside
}

fn shell(command: &str) {
    let status = Command::new("sh").args(["-ec", command]).status().unwrap();
    assert!(status.success(), "{command}");
}

/// Ends a program that has run well.
fn finish(run: RunningProgram) {
    run.signal(Signal::INT);
    let (code, lines) = run.end();
    assert_eq!(code, Some(0), "{lines}");
}

#[test]
fn interfaces_and_their_addresses_are_followed() {
    let env = TestEnv::new();
    let (cidr, macs, wired) = (env.at("cidr"), env.at("macs"), env.at("wired"));
    let text = [
        "import \"net\"\nimport \"fmt\"\n",
        &file(&cidr, "net.interface_cidr(\"test0\") <|> \"none\""),
        &file(&macs, "fmt.printf(\"%d\", len(net.macs()))"),
        &file(&wired, "net.wired_interface() <|> \"none\""),
    ];
    let run = RunningProgram::start_command(apart(&env.runs(&text.concat()), &["--net"]));
    let ip = |command: &str| shell(&format!("nsenter --target {} --net ip {command}", run.id()));
    let shows = |address: &str, count: &str, name: &str| {
        holds(&cidr, address);
        holds(&macs, count);
        holds(&wired, name);
    };
    shows("none", "0", "none");
    ip("link add test0 type veth peer name test1");
    shows("none", "2", "test1");
    ip("address add 192.0.2.1/24 dev test0");
    ip("link set test0 up");
    shows("192.0.2.1/24", "2", "test0");
    ip("address add 192.0.2.9/28 dev test0");
    ip("address del 192.0.2.1/24 dev test0");
    shows("192.0.2.9/28", "2", "test0");
    ip("link del test0");
    shows("none", "0", "none");
    finish(run);
}

/// Leaves a process room for so many more descriptors, or as much room as it wants.
fn leave_descriptors(process: u32, more: Option<usize>) {
    let open = std::fs::read_dir(format!("/proc/{process}/fd")).unwrap();
    let open: HashSet<usize> =
        open.map(|entry| entry.unwrap().file_name().to_str().unwrap().parse().unwrap()).collect();
    let limit = more.map_or(1024, |more| {
        let mut free = (0..).filter(|number| !open.contains(number));
        free.nth(more).unwrap()
    });
    shell(&format!("prlimit --pid {process} --nofile={limit}:"));
}

#[test]
fn a_source_of_events_that_cannot_be_had_is_named_and_set_up_again() {
    let env = TestEnv::new();
    let (out, name) = (env.at("out"), env.at("name"));
    let prefix = env.at("prefix");
    let text = [
        "import \"net\"\nimport \"sys\"\nimport \"os\"\nimport \"fmt\"\n",
        &file(&out, "fmt.printf(\"%d\", len(net.macs()))"),
        &file(&name, "fmt.printf(\"%s %t\", sys.hostname(), os.modinfo_loaded(\"none\"))"),
    ];
    let program = env.write("main.mcl", text[0]);
    let command = mgmt(&[
        "run",
        "--prefix",
        prefix.to_str().unwrap(),
        "--hostname",
        "h1",
        "lang",
        program.to_str().unwrap(),
    ]);
    let mut run = RunningProgram::start_command(apart(&command, &["--net"]));
    let status = || mgmt_output(&["status", "--prefix", prefix.to_str().unwrap()]).stdout;
    eventually("it has converged", || status().contains("h1  converged"));
    // The program can be read, and of its three sources of events one can be opened.
    leave_descriptors(run.id(), Some(1));
    env.write("main.mcl", &text.concat());
    // Which of them is refused depends on who comes first.
    run.wait_for("Too many open files");
    leave_descriptors(run.id(), None);
    eventually("it has converged", || status().contains("h1  converged"));
    holds(&out, "0");
    shell(&format!("nsenter --target {} --net ip link add test0 type veth peer name test1", run.id()));
    holds(&out, "2");
    finish(run);
}

#[test]
fn the_name_of_the_host_is_followed() {
    let env = TestEnv::new();
    let out = env.at("out");
    let text = format!("import \"sys\"\n{}", file(&out, "sys.hostname()"));
    let run = RunningProgram::start_command(apart(&env.runs(&text), &["--uts"]));
    let inside = |command: &str| shell(&format!("nsenter --target {} --uts {command}", run.id()));
    // The name before is that of the machine.
    eventually("there is a name", || std::fs::metadata(&out).is_ok_and(|found| found.len() > 0));
    for name in ["one", "two.example.com"] {
        inside(&format!("hostname {name}"));
        holds(&out, name);
    }
    finish(run);
}

#[test]
fn processors_that_are_switched_on_and_off_are_counted() {
    const LIST: &str = "/sys/devices/system/cpu/online";
    let env = TestEnv::new();
    let (out, list) = (env.at("out"), env.write("online", "0-3\n"));
    let text =
        format!("import \"sys\"\nimport \"fmt\"\n{}", file(&out, "fmt.printf(\"%d\", sys.cpu_count())"));
    // No processor is switched off for a test: the list is another file, the events are the kernel's.
    let mount = format!("mount --bind {} {LIST}; exec \"$0\" \"$@\"", list.display());
    let spaces = ["--mount", "--propagation", "private", "--", "sh", "-ec", &mount];
    let run = RunningProgram::start_command(apart(&env.runs(&text), &spaces));
    holds(&out, "4");
    for (online, count) in [("0,2-3\n", "3"), ("0\n", "1"), ("0-7\n", "8")] {
        std::fs::write(&list, online).unwrap();
        shell("echo online > /sys/devices/system/cpu/cpu0/uevent");
        holds(&out, count);
    }
    finish(run);
}

#[test]
fn what_this_host_exports_can_be_collected() {
    let env = TestEnv::new();
    let (switch, listed, collected) = (env.at("switch"), env.at("listed"), env.at("collected"));
    let content = env.write("content", "one");
    let text = format!(
        "import \"os\"\nimport \"fmt\"\nimport \"world/collect\"\n\
         if os.file_exists(\"{switch}\") {{\n\
         \tfile \"{collected}\" {{\n\t\tstate => \"exists\",\n\t\tcontent => os.readfile(\"{content}\"),\n\
         \t\tMeta:hidden => true,\n\t\tMeta:export => [\"*\",],\n\t}}\n}}\n\
         collect file \"{collected}\" {{\n\tMeta:hidden => false,\n}}\n{listing}",
        switch = switch.display(),
        collected = collected.display(),
        content = content.display(),
        listing = file(&listed, "fmt.printf(\"%d\", len(collect.res(\"file\")))"),
    );
    let run = RunningProgram::start_command(env.runs(&text));
    holds(&listed, "0");
    assert!(!collected.exists());
    std::fs::write(&switch, "").unwrap();
    holds(&listed, "1");
    holds(&collected, "one");
    std::fs::write(&content, "two").unwrap();
    holds(&collected, "two");
    std::fs::remove_file(&switch).unwrap();
    holds(&listed, "0");
    // Nobody declares it any more: it stays as it was left.
    std::fs::write(&collected, "three").unwrap();
    std::fs::write(&switch, "").unwrap();
    holds(&collected, "two");
    finish(run);
}

#[test]
fn a_host_that_volunteers_alone_is_chosen() {
    let env = TestEnv::new();
    let out = env.at("out");
    let text = format!(
        "import \"world\"\nschedule \"x\" {{}}\n{}",
        file(&out, "if world.schedule(\"x\") == [$hostname,] { \"me\" } else { \"others\" }")
    );
    let run = RunningProgram::start_command(env.runs(&text));
    holds(&out, "me");
    finish(run);
}

const FWUPD: &str = "org.freedesktop.fwupd";

/// A daemon for firmware with a device whose update is in the state that is told. It is there as long as this is.
struct Firmware {
    connection: zbus::Connection,
    state: Arc<AtomicU32>,
    answers: tokio::task::JoinHandle<()>,
}

impl Firmware {
    async fn start(address: &str, state: u32) -> Firmware {
        let connection = zbus::connection::Builder::address(address).build().await.unwrap();
        let state = Arc::new(AtomicU32::new(state));
        let mut calls = zbus::MessageStream::from(&connection);
        let (answering, shown) = (connection.clone(), Arc::clone(&state));
        let answers = tokio::spawn(async move {
            while let Some(Ok(call)) = poll_fn(|cx| Pin::new(&mut calls).poll_next(cx)).await {
                let header = call.header();
                if header.member().is_some_and(|member| member.as_str() == "GetDevices") {
                    let device = |state: u32| HashMap::from([("UpdateState", zbus::Variant::from(state))]);
                    let devices = vec![device(0), HashMap::new(), device(shown.load(Ordering::SeqCst))];
                    answering.reply(&header, &devices).await.unwrap();
                }
            }
        });
        connection.request_name(FWUPD).await.unwrap();
        Firmware { connection, state, answers }
    }

    /// The update is in another state, and the daemon says that something has changed.
    async fn becomes(&self, state: u32) {
        self.state.store(state, Ordering::SeqCst);
        self.connection.emit_signal(None::<&str>, "/", FWUPD, "Changed", &()).await.unwrap();
    }

    async fn end(self) {
        self.answers.abort();
        self.connection.close().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_daemon_for_firmware_is_followed() {
    const DONE: u32 = 2;
    const NEEDS_RESTART: u32 = 4;
    let env = TestEnv::new();
    let out = env.at("out");
    let content = "if fwupd.reboot_needed() { \"restart\" } else { \"fine\" }";
    let mut run = env.runs(&format!("import \"sys/fwupd\"\n{}", file(&out, content)));
    let address = Bus::address(env.0.path());
    run.env("DBUS_SYSTEM_BUS_ADDRESS", &address);
    let run = RunningProgram::start_command(run);
    // Neither a bus nor a daemon.
    holds(&out, "fine");
    let bus = Bus::start(env.0.path());
    let daemon = Firmware::start(&address, NEEDS_RESTART).await;
    holds(&out, "restart");
    daemon.becomes(DONE).await;
    holds(&out, "fine");
    daemon.becomes(NEEDS_RESTART).await;
    holds(&out, "restart");
    // One that has ended because nobody needed it has not changed its mind.
    daemon.end().await;
    let daemon = Firmware::start(&address, DONE).await;
    holds(&out, "fine");
    // A bus that is replaced is found again.
    daemon.end().await;
    drop(bus);
    let _bus = Bus::start(env.0.path());
    let daemon = Firmware::start(&address, NEEDS_RESTART).await;
    holds(&out, "restart");
    daemon.end().await;
    finish(run);
}

#[test]
fn a_new_day_is_noticed() {
    const DAYS: [&str; 7] = ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"];
    let env = TestEnv::new();
    let out = env.at("out");
    let text = format!("import \"datetime\"\n{}", file(&out, "datetime.weekday_fast()"));
    // On a machine that is busy the day may be over before the program looks.
    for left in [4, 20, 60] {
        let midnight = SystemTime::now() + Duration::from_secs(left);
        let mut run = env.runs(&text);
        run.env("TZ", zone_with_midnight_at(midnight));
        let run = RunningProgram::start_command(run);
        let day =
            || DAYS.iter().position(|day| std::fs::read_to_string(&out).is_ok_and(|found| found == *day));
        eventually("there is a day", || day().is_some());
        let first = day().unwrap();
        let in_time = SystemTime::now() < midnight - Duration::from_secs(1);
        if in_time {
            holds(&out, DAYS[(first + 1) % 7]);
        }
        finish(run);
        std::fs::remove_file(&out).unwrap();
        if in_time {
            return;
        }
    }
    panic!("the program never started within a minute");
}

/// A time zone in which a day begins then. It is written as what has to be added to get to UTC.
fn zone_with_midnight_at(time: SystemTime) -> String {
    let ahead = time.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() % 86400;
    format!("TST{:02}:{:02}:{:02}", ahead / 3600, ahead / 60 % 60, ahead % 60)
}

/// How often the threads of a process have gone to sleep by themselves.
fn rests(process: u32) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).unwrap().flatten();
    let of = |task: std::fs::DirEntry| -> u64 {
        let status = std::fs::read_to_string(task.path().join("status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
    };
    tasks.map(of).sum()
}

/// How often a program rests within some ticks of its clock.
fn rests_per_tick(readers: usize) -> f64 {
    const TICKS: u32 = 6;
    let env = TestEnv::new();
    let out = env.at("out");
    let mut text = format!("import \"datetime\"\n{}", file(&out, "datetime.str_now()"));
    for reader in 0..readers {
        text += &format!("if datetime.now() < 0 {{\n\tnoop \"n{reader}\" {{}}\n}}\n");
    }
    let run = RunningProgram::start_command(env.runs(&text));
    let shown = || std::fs::read_to_string(&out).unwrap_or_default();
    let tick = || {
        let before = shown();
        eventually("the clock goes on", || shown() != before);
    };
    tick();
    tick();
    let before = rests(run.id());
    (0..TICKS).for_each(|_| tick());
    let after = rests(run.id());
    finish(run);
    (after - before) as f64 / f64::from(TICKS)
}

#[test]
fn a_thousand_readers_of_the_clock_wake_the_program_as_often_as_one() {
    let (one, many) = std::thread::scope(|scope| {
        let one = scope.spawn(|| rests_per_tick(1));
        let many = scope.spawn(|| rests_per_tick(1000));
        (one.join().unwrap(), many.join().unwrap())
    });
    assert!(many < 3.0 * one + 10.0, "{many} times a second with a thousand readers, {one} with one");
}
