//! Running real commands.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use std::ffi::OsString;
use std::future::{pending, ready};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mgmt_sys::process::{
    Command, Finished, Helper, LineEvent, Running, Signal, SpawnError, Status, find_program,
};

const PATIENCE: Duration = Duration::from_secs(20);

fn shell(text: &str) -> Command {
    let mut command = Command::shell("/bin/sh", text);
    command.env.insert("PATH".into(), "/usr/bin:/bin".into());
    command
}

async fn run(text: &str) -> Finished {
    patiently(shell(text).spawn().unwrap().wait()).await.unwrap()
}

async fn patiently<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(PATIENCE, future).await.expect("it hangs")
}

/// The living members of a process group; zombies are gone, somebody only has to notice.
fn members(group: u32) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        let mut fields = stat[stat.rfind(')')? + 1..].split_whitespace();
        let state = fields.next()?;
        let found: u32 = fields.nth(1)?.parse().ok()?;
        (found == group && state != "Z" && state != "X").then_some(stat)
    });
    processes.collect()
}

async fn assert_group_gone(group: u32) {
    let start = Instant::now();
    while !members(group).is_empty() {
        assert!(start.elapsed() < PATIENCE, "{:?}", members(group));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Starts a command and waits until it made the file, so that its traps and children are in place.
async fn started(text: &str) -> (Running, PathBuf, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let ready = directory.path().join("ready");
    let mut command = shell(text);
    command.cwd = Some(directory.path().to_owned());
    let running = command.spawn().unwrap();
    await_file(&ready).await;
    (running, ready, directory)
}

async fn await_file(path: &Path) {
    patiently(async {
        while !path.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn exit_codes_and_streams_are_reported() {
    let finished = run("echo out; echo err >&2; exit 3").await;
    assert_eq!(finished.status, Status::Exited(3));
    assert_eq!(finished.stdout.bytes, b"out\n");
    assert_eq!(finished.stderr.bytes, b"err\n");
    assert_eq!(finished.combined.bytes.len(), 8);
    assert!(!finished.status.success() && !finished.truncated());
    let quiet = run(":").await;
    assert!(quiet.status.success());
    assert!(!quiet.stdout.written() && !quiet.stderr.written() && !quiet.combined.written());
}

#[tokio::test]
async fn the_combined_output_keeps_the_order_of_writes_that_lie_apart() {
    // A machine too busy to read between two writes sees them at once, in no order; it gets more attempts.
    for _ in 0..20 {
        let finished = run("for i in 1 2 3; do echo o$i; sleep 0.05; echo e$i >&2; sleep 0.05; done").await;
        if finished.combined.bytes == b"o1\ne1\no2\ne2\no3\ne3\n" {
            return;
        }
    }
    panic!("never in order");
}

#[tokio::test]
async fn the_environment_is_exactly_what_was_given() {
    let mut command = Command::new(["/usr/bin/env"]);
    command.env.insert("B".into(), "two words".into());
    command.env.insert("A".into(), "".into());
    let finished = patiently(command.spawn().unwrap().wait()).await.unwrap();
    assert_eq!(finished.stdout.bytes, b"A=\nB=two words\n");
    let finished = patiently(Command::new(["env"]).spawn().unwrap().wait()).await.unwrap();
    assert_eq!(finished.stdout.bytes, b"", "found through our PATH, which it does not inherit");
}

#[tokio::test]
async fn standard_input_is_empty_and_the_directory_is_the_given_one() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = shell("cat; pwd -P; echo $0");
    command.cwd = Some(directory.path().to_owned());
    command.argv.push("zero".into());
    let finished = patiently(command.spawn().unwrap().wait()).await.unwrap();
    let expected = format!("{}\nzero\n", directory.path().canonicalize().unwrap().display());
    assert_eq!(String::from_utf8(finished.stdout.bytes).unwrap(), expected);
}

#[tokio::test]
async fn mistakes_have_names() {
    assert!(matches!(Command::new([""; 0]).spawn(), Err(SpawnError::Empty)));
    assert!(matches!(Command::new([""]).spawn(), Err(SpawnError::Empty)));
    let error = Command::new(["no-such-program-anywhere"]).spawn().unwrap_err();
    assert!(matches!(error, SpawnError::NotFound { .. }), "{error}");
    assert!(error.to_string().contains("no-such-program-anywhere"), "{error}");
    let error = Command::new(["/no/such/program"]).spawn().unwrap_err();
    assert!(matches!(error, SpawnError::Failed { .. }), "{error}");
    let mut command = shell(":");
    command.cwd = Some("/no/such/directory".into());
    let error = command.spawn().unwrap_err();
    assert!(matches!(error, SpawnError::WorkingDirectory { .. }), "{error}");
    let error = Command::new(["/bin/sh\0"]).spawn().unwrap_err();
    assert!(matches!(error, SpawnError::Failed { .. }), "{error}");
}

#[tokio::test]
async fn a_foreign_signal_is_not_an_exit_code() {
    let finished = run("kill -SEGV $$").await;
    assert_eq!(finished.status, Status::Signaled(11));
    assert_eq!(finished.status.to_string(), "killed by SIGSEGV");
}

#[tokio::test]
async fn a_background_child_that_holds_the_pipes_does_not_block() {
    let running = shell("echo before; sleep 1000 & echo $!").spawn().unwrap();
    let group = running.id().unwrap();
    let finished = patiently(running.wait()).await.unwrap();
    assert_eq!(finished.status, Status::Exited(0));
    assert!(finished.stdout.bytes.starts_with(b"before\n"));
    assert_eq!(members(group).len(), 1, "what it left in the background is its own business");
    let text = String::from_utf8(finished.stdout.bytes).unwrap();
    let pid: i32 = text.lines().nth(1).unwrap().parse().unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    assert_group_gone(group).await;
}

#[tokio::test]
async fn a_background_child_that_never_stops_writing_does_not_block() {
    let running = shell("yes & exit 0").spawn().unwrap();
    let group = running.id().unwrap();
    let finished = patiently(running.wait()).await.unwrap();
    assert_eq!(finished.status, Status::Exited(0));
    // Its pipe is closed now, so it ends by itself.
    assert_group_gone(group).await;
}

#[tokio::test]
async fn everything_the_command_wrote_is_there() {
    for _ in 0..50 {
        let finished = run("head -c 60000 /dev/zero; head -c 60000 /dev/zero >&2").await;
        assert_eq!((finished.stdout.bytes.len(), finished.stderr.bytes.len()), (60_000, 60_000));
        assert_eq!(finished.combined.bytes.len(), 120_000);
    }
}

#[tokio::test]
async fn ten_megabytes_are_read_and_the_head_is_kept() {
    let finished = run("head -c 10000000 /dev/zero | tr '\\0' x; echo end >&2").await;
    assert_eq!(finished.status, Status::Exited(0));
    assert_eq!(finished.stdout.bytes.len(), 1 << 20);
    assert_eq!(finished.stdout.dropped, 10_000_000 - (1 << 20));
    assert!(finished.stdout.bytes.iter().all(|&byte| byte == b'x'));
    assert_eq!(finished.stderr.bytes, b"end\n");
    assert!(finished.truncated());
    let mut command = shell("head -c 10000000 /dev/zero");
    command.capture_limit = 20_000_000;
    let finished = patiently(command.spawn().unwrap().wait()).await.unwrap();
    assert_eq!((finished.stdout.bytes.len(), finished.stdout.dropped), (10_000_000, 0));
}

#[tokio::test]
async fn a_chatty_standard_error_does_not_block() {
    let finished = run("head -c 1000000 /dev/zero >&2; echo done").await;
    assert_eq!(finished.stdout.bytes, b"done\n");
    assert_eq!(finished.stderr.bytes.len(), 1_000_000);
}

#[tokio::test]
async fn cancelling_signals_the_whole_group() {
    let (running, ..) = started("sleep 1000 & sleep 1000 & touch ready; wait").await;
    let group = running.id().unwrap();
    assert_eq!(members(group).len(), 3);
    let finished = patiently(running.wait_with(ready(()), pending(), Signal::TERM, None)).await.unwrap();
    assert_eq!(finished.status, Status::Cancelled);
    assert_group_gone(group).await;
}

#[tokio::test]
async fn a_trap_that_exits_with_zero_is_still_a_cancellation() {
    let (running, ..) =
        started("trap 'echo cleaned; exit 0' TERM; touch ready; while :; do sleep 0.05; done").await;
    let finished = patiently(running.wait_with(ready(()), pending(), Signal::TERM, None)).await.unwrap();
    assert_eq!(finished.status, Status::Cancelled);
    assert_eq!(finished.stdout.bytes, b"cleaned\n");
}

#[tokio::test]
async fn the_chosen_signal_is_sent() {
    let (running, ..) =
        started("trap 'echo chosen; exit 0' USR1; : >ready; while :; do sleep 0.05; done").await;
    // Not one that whoever started the tests may have ignored: a shell cannot trap these.
    let chosen = Signal::parse("SIGUSR1").unwrap();
    let finished = patiently(running.wait_with(ready(()), pending(), chosen, None)).await.unwrap();
    assert_eq!(finished.stdout.bytes, b"chosen\n");
}

#[tokio::test]
async fn who_ignores_the_signal_is_killed_after_the_grace() {
    let (running, ..) = started("trap '' TERM; sleep 1000 & touch ready; while :; do sleep 0.05; done").await;
    let group = running.id().unwrap();
    let grace = Some(Duration::from_millis(100));
    let finished = patiently(running.wait_with(ready(()), pending(), Signal::TERM, grace)).await.unwrap();
    assert_eq!(finished.status, Status::Cancelled);
    assert_group_gone(group).await;
}

#[tokio::test]
async fn a_member_that_outlives_its_cancelled_leader_is_killed_too() {
    let (running, ..) = started("(trap '' TERM; touch ready; exec sleep 1000) & wait").await;
    let group = running.id().unwrap();
    let finished = patiently(running.wait_with(ready(()), pending(), Signal::TERM, None)).await.unwrap();
    assert_eq!(finished.status, Status::Cancelled);
    assert_group_gone(group).await;
}

#[tokio::test]
async fn a_member_that_outlives_its_cancelled_leader_gets_the_grace() {
    let (running, ..) =
        started("(trap 'sleep 0.3; echo tidy; exit' TERM; touch ready; while :; do sleep 0.05; done) & wait")
            .await;
    let grace = Some(PATIENCE);
    let finished = patiently(running.wait_with(ready(()), pending(), Signal::TERM, grace)).await.unwrap();
    assert_eq!(finished.stdout.bytes, b"tidy\n");
}

#[tokio::test]
async fn an_interrupt_kills_at_once_even_during_a_cancellation() {
    let text = "trap '' TERM INT; touch ready; while :; do sleep 0.05; done";
    let (running, ..) = started(text).await;
    let group = running.id().unwrap();
    let finished = patiently(running.wait_with(pending(), ready(()), Signal::TERM, None)).await.unwrap();
    assert_eq!(finished.status, Status::Interrupted);
    assert_group_gone(group).await;

    let (running, ..) = started(text).await;
    let group = running.id().unwrap();
    let soon = tokio::time::sleep(Duration::from_millis(50));
    let finished = patiently(running.wait_with(ready(()), soon, Signal::TERM, None)).await.unwrap();
    assert_eq!(finished.status, Status::Interrupted);
    assert_group_gone(group).await;
}

#[tokio::test]
async fn a_storm_of_commands_is_told_apart() {
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..200 {
        tasks.spawn(async move {
            let ours = number % 4;
            let running =
                shell(&format!("echo {number}; [ {ours} = 3 ] && sleep 1000; exit {ours}")).spawn().unwrap();
            let group = running.id().unwrap();
            let finished = match ours {
                3 => {
                    let soon = tokio::time::sleep(Duration::from_millis(number));
                    patiently(running.wait_with(soon, pending(), Signal::TERM, Some(Duration::MAX)))
                        .await
                        .unwrap()
                }
                _ => {
                    let finished = patiently(running.wait()).await.unwrap();
                    assert_eq!(finished.stdout.bytes, format!("{number}\n").as_bytes());
                    finished
                }
            };
            let expected = if ours == 3 { Status::Cancelled } else { Status::Exited(ours as i32) };
            assert_eq!(finished.status, expected);
            assert_group_gone(group).await;
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
}

#[tokio::test]
async fn dropping_kills_the_whole_group() {
    let (running, ..) = started("sleep 1000 & touch ready; wait").await;
    let group = running.id().unwrap();
    drop(running);
    assert_group_gone(group).await;

    let (running, ..) = started("sleep 1000 & touch ready; wait").await;
    let group = running.id().unwrap();
    let waiting = tokio::time::timeout(Duration::from_millis(20), running.wait()).await;
    assert!(waiting.is_err());
    assert_group_gone(group).await;
}

#[tokio::test]
async fn lines_come_from_both_streams_while_the_command_runs() {
    let mut lines =
        shell("echo one; echo two >&2; printf 'three\\n\\nfour'; exit 5").spawn().unwrap().lines();
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let status = loop {
        match patiently(lines.next()).await.unwrap() {
            LineEvent::Line(line) if line.stderr => stderr.push(line.bytes),
            LineEvent::Line(line) => stdout.push(line.bytes),
            LineEvent::Ended(status) => break status,
            LineEvent::Closed => panic!("it exits right away"),
        }
    };
    assert_eq!(status, Status::Exited(5));
    assert_eq!(stdout, [&b"one"[..], b"three", b"", b"four"]);
    assert_eq!(stderr, [b"two"]);
    assert_eq!(lines.next().await.unwrap(), LineEvent::Ended(Status::Exited(5)));
    assert_eq!(lines.stop(Signal::TERM, None).await.unwrap(), Status::Exited(5));
}

#[tokio::test]
async fn a_long_line_is_cut_and_the_next_one_is_whole() {
    let mut lines = shell("head -c 200000 /dev/zero | tr '\\0' x; echo; echo next").spawn().unwrap().lines();
    let LineEvent::Line(long) = patiently(lines.next()).await.unwrap() else { panic!("no line") };
    assert_eq!((long.bytes.len(), long.truncated), (64 << 10, true));
    let LineEvent::Line(next) = patiently(lines.next()).await.unwrap() else { panic!("no line") };
    assert_eq!((next.bytes.as_slice(), next.truncated), (&b"next"[..], false));
}

#[tokio::test]
async fn a_watch_command_with_a_chatty_standard_error_does_not_block() {
    let mut lines =
        shell("for i in $(seq 20000); do echo noise $i >&2; done; echo event").spawn().unwrap().lines();
    let mut noise = 0;
    loop {
        match patiently(lines.next()).await.unwrap() {
            LineEvent::Line(line) if line.stderr => noise += 1,
            LineEvent::Line(line) => assert_eq!(line.bytes, b"event"),
            LineEvent::Ended(status) => break assert_eq!(status, Status::Exited(0)),
            LineEvent::Closed => panic!("it exits right away"),
        }
    }
    assert_eq!(noise, 20_000);
}

#[tokio::test]
async fn a_watch_command_can_be_stopped() {
    let mut lines = shell("sleep 1000 & echo up; wait").spawn().unwrap().lines();
    let LineEvent::Line(line) = patiently(lines.next()).await.unwrap() else { panic!("no line") };
    assert_eq!(line.bytes, b"up");
    // A call that is given up loses nothing and stops nothing.
    assert!(tokio::time::timeout(Duration::from_millis(20), lines.next()).await.is_err());
    let group = lines.id().unwrap();
    assert_eq!(patiently(lines.stop(Signal::TERM, None)).await.unwrap(), Status::Cancelled);
    assert_group_gone(group).await;
}

#[tokio::test]
async fn a_command_that_closes_its_streams_and_stays_is_noticed() {
    let mut lines = shell("exec >&- 2>&-; sleep 1000").spawn().unwrap().lines();
    assert_eq!(patiently(lines.next()).await.unwrap(), LineEvent::Closed);
    let group = lines.id().unwrap();
    drop(lines);
    assert_group_gone(group).await;
}

#[test]
fn programs_are_found_in_absolute_directories_only() {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("tool");
    std::fs::write(&program, "#!/bin/sh\n").unwrap();
    std::fs::create_dir(directory.path().join("folder")).unwrap();
    let path = OsString::from(format!("relative::{}:/bin", directory.path().display()));
    let find = |name: &str| find_program(name.as_ref(), &path);
    assert_eq!(find("tool"), None, "not executable");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&program, mode).unwrap();
    assert_eq!(find("tool"), Some(program));
    assert_eq!(find("folder"), None, "not a file");
    assert_eq!(find("sh").unwrap().as_os_str().as_bytes(), b"/bin/sh");
    assert_eq!(find(""), None);
    assert_eq!(find("/bin/sh"), None);
    assert_eq!(find("no-such-tool"), None);
}

/// The example that does nothing but change credentials.
///
/// `cargo test` builds it beside the tests, but not when told to build this file alone.
fn helper() -> Helper {
    static BUILT: std::sync::OnceLock<PathBuf> = std::sync::OnceLock::new();
    let path = BUILT.get_or_init(|| {
        let tests = std::env::current_exe().unwrap();
        let profile = tests.parent().and_then(Path::parent).unwrap();
        let path = profile.join("examples/exec_as");
        if !path.exists() {
            let name = profile.file_name().unwrap().to_str().unwrap();
            let status = std::process::Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()))
                .args(["build", "--quiet", "--package", "mgmt-sys", "--example", "exec_as", "--profile"])
                .arg(if name == "debug" { "dev" } else { name })
                .arg("--target-dir")
                .arg(profile.parent().unwrap())
                .status();
            assert!(status.is_ok_and(|status| status.success()) && path.exists(), "cannot build {path:?}");
        }
        path
    });
    Helper::program(path)
}

fn as_nobody(text: &str, groups: &[u32]) -> Command {
    use mgmt_sys::process::Credentials;
    let mut command = shell(text);
    command.credentials = Some(Credentials { uid: 65534, gid: 65533, groups: groups.to_vec() });
    command.helper = helper();
    command
}

#[tokio::test]
async fn another_user_means_all_its_ids_and_nothing_of_ours() {
    mgmt_test_support::require_root!();
    let text = "id -u; id -ru; id -g; id -rg; id -G; grep -E '^(Groups|CapEff|Uid):' /proc/self/status";
    let finished = patiently(as_nobody(text, &[]).spawn().unwrap().wait()).await.unwrap();
    let output = String::from_utf8(finished.stdout.bytes).unwrap();
    assert!(output.starts_with("65534\n65534\n65533\n65533\n65533\n"), "{output}");
    assert!(output.contains("Uid:\t65534\t65534\t65534\t65534"), "{output}");
    assert!(output.contains("CapEff:\t0000000000000000"), "{output}");
    let finished = patiently(as_nobody("id -G", &[7, 8]).spawn().unwrap().wait()).await.unwrap();
    assert_eq!(finished.stdout.bytes, b"65533 7 8\n");
}

#[tokio::test]
async fn the_environment_of_another_user_cannot_reach_the_step_that_has_our_privileges() {
    mgmt_test_support::require_root!();
    let mut command = as_nobody("", &[]);
    command.argv = vec!["/usr/bin/env".into()];
    command.env = [("LD_PRELOAD", "/nonexistent.so"), ("SECRET", "value")]
        .map(|(name, value)| (OsString::from(name), OsString::from(value)))
        .into();
    let finished = patiently(command.spawn().unwrap().wait()).await.unwrap();
    let output = String::from_utf8(finished.stdout.bytes).unwrap();
    assert_eq!(output, "LD_PRELOAD=/nonexistent.so\nSECRET=value\n");
    // The loader complains once, for the command itself.
    let complaints = String::from_utf8(finished.stderr.bytes).unwrap();
    assert_eq!(complaints.matches("/nonexistent.so").count(), 1, "{complaints}");
}

#[tokio::test]
async fn another_user_still_means_a_group_of_its_own_that_can_be_stopped() {
    mgmt_test_support::require_root!();
    let mut lines = as_nobody("sleep 1000 & echo up; wait", &[]).spawn().unwrap().lines();
    let LineEvent::Line(line) = patiently(lines.next()).await.unwrap() else { panic!("no line") };
    assert_eq!(line.bytes, b"up");
    let group = lines.id().unwrap();
    assert_eq!(members(group).len(), 2);
    assert_eq!(patiently(lines.stop(Signal::TERM, None)).await.unwrap(), Status::Cancelled);
    assert_group_gone(group).await;
}

#[tokio::test]
async fn a_program_that_another_user_cannot_run_says_so() {
    mgmt_test_support::require_root!();
    let mut command = as_nobody("", &[]);
    command.argv = vec!["/no/such/program".into()];
    let finished = patiently(command.spawn().unwrap().wait()).await.unwrap();
    assert_eq!(finished.status, Status::Exited(127));
    assert!(String::from_utf8_lossy(&finished.stderr.bytes).contains("cannot run /no/such/program"));

    let directory = tempfile::tempdir().unwrap();
    let secret = directory.path().join("secret");
    std::fs::write(&secret, "#!/bin/sh\necho ran\n").unwrap();
    std::fs::set_permissions(&secret, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    command.argv = vec![secret.into()];
    let finished = patiently(command.spawn().unwrap().wait()).await.unwrap();
    assert_eq!(finished.status, Status::Exited(126));
    assert!(finished.stdout.bytes.is_empty());
}

#[tokio::test]
async fn a_command_that_listens_hears_what_is_written_and_the_end_of_it() {
    use tokio::io::AsyncWriteExt as _;
    let (running, mut input) = shell("cat; echo end").spawn_listening().unwrap();
    let mut lines = running.lines().limit(1 << 20);
    let long = "x".repeat(200_000);
    let write = async {
        input.write_all(format!("{long}\n").as_bytes()).await.unwrap();
        drop(input);
    };
    let read = async {
        let mut found = Vec::new();
        while let LineEvent::Line(line) = lines.next().await.unwrap() {
            assert!(!line.truncated);
            found.push(String::from_utf8(line.bytes).unwrap());
        }
        found
    };
    let ((), found) = patiently(async { tokio::join!(write, read) }).await;
    assert_eq!(found, [long.as_str(), "end"]);
}

#[tokio::test]
async fn a_command_that_goes_with_us_ends_with_the_thread_that_started_it() {
    let mut command = shell("sleep 1000");
    command.helper = helper();
    command.with_us = true;
    let runtime = tokio::runtime::Handle::current();
    let running = tokio::task::spawn_blocking(move || {
        std::thread::spawn(move || {
            let _entered = runtime.enter();
            let running = command.spawn().unwrap();
            // From when on it is the command, it ends with the thread; whoever starts one has to last until then.
            let image = format!("/proc/{}/cmdline", running.id().unwrap());
            let end = std::time::Instant::now() + PATIENCE;
            // A shell may have become the last command of its text.
            let is_it = |words: Vec<u8>| words.starts_with(b"/bin/sh") || words.starts_with(b"sleep");
            while !std::fs::read(&image).is_ok_and(is_it) {
                assert!(std::time::Instant::now() < end, "it does not start");
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            running
        })
        .join()
        .unwrap()
    });
    let finished = patiently(running.await.unwrap().wait()).await.unwrap();
    assert!(matches!(finished.status, Status::Signaled(9)), "{finished:?}");
}

#[tokio::test]
async fn a_command_that_goes_with_us_is_the_command_itself() {
    let mut command = shell("echo $PPID; echo $0 $FOO");
    command.env.insert("FOO".into(), "bar".into());
    command.helper = helper();
    command.with_us = true;
    let finished = patiently(command.spawn().unwrap().wait()).await.unwrap();
    let expected = format!("{}\n/bin/sh bar\n", std::process::id());
    assert_eq!(String::from_utf8_lossy(&finished.stdout.bytes), expected);
}
