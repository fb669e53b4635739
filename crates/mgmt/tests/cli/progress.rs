//! How far a run is, as people see it on a terminal, and everybody else does not.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;
use std::time::Instant;

use mgmt_test_support::program::{eventually, mgmt, mgmt_output};
use mgmt_test_support::terminal::{TerminalSession, shown};

fn program(directory: &Path, command: &str) -> String {
    let at = directory.display();
    format!(
        "file \"{at}/kept\" {{ state => \"exists\", content => \"right\\n\", }}\n\
         exec \"slow\" {{ cmd => \"{command}\", shell => \"/bin/sh\", }}\n\
         exec \"bad\" {{ cmd => \"/bin/false\", }}\n\
         print \"after\" {{ msg => \"all done\", Depend => Exec[\"slow\"], }}\n"
    )
}

fn start(arguments: &[&str], environment: &[(&str, &str)]) -> TerminalSession {
    let mut command = mgmt(arguments);
    command.env("TERM", "xterm").env("TZ", "UTC").envs(environment.iter().copied());
    TerminalSession::start(command)
}

const RUN: [&str; 4] = ["run", "--tmp-prefix", "--converger-timeout=1", "--converged-exit"];

/// The lines below the log.
fn view(lines: &[String]) -> Vec<String> {
    let from = lines.iter().rposition(|line| line.contains(" done, "));
    from.map(|from| lines[from..].iter().filter(|line| !line.is_empty()).cloned().collect())
        .unwrap_or_default()
}

#[test]
fn a_terminal_shows_how_far_it_is_below_whole_lines_and_nothing_of_it_stays() {
    let directory = tempfile::tempdir().unwrap();
    let (kept, go) = (directory.path().join("kept"), directory.path().join("go"));
    let program = program(directory.path(), &format!("until test -e {}; do sleep 0.05; done", go.display()));
    let began = Instant::now();
    let mut screen = start(&[&RUN[..], &["lang", &program]].concat(), &[]);
    let is_whole = |seen: &[String]| {
        seen.len() == 2
            && seen[0] == "1 of 4 done, 1 running, 1 retrying, 1 waiting"
            && seen[1].ends_with(" s  exec[slow]")
    };
    eventually("a view with the slow one", || {
        assert!(screen.child.try_wait().unwrap().is_none(), "{}", screen.written());
        is_whole(&view(&screen.lines()))
    });
    assert!(screen.written().contains("\x1b[1;33m1 retrying\x1b[0m"), "{:?}", screen.written());

    // Lines of the log scroll away above it.
    let changes = |text: &str| text.matches("kept]: changed in ").count();
    for count in 2..4 {
        eventually("a repair", || {
            std::fs::write(&kept, "wrong\n").unwrap();
            changes(&screen.written()) >= count
        });
    }
    eventually("the view below them", || is_whole(&view(&screen.lines())));

    screen.becomes(30);
    eventually("a view that fits", || {
        let lines = view(&screen.lines());
        lines.len() == 2 && lines.iter().all(|line| line.len() < 30) && lines[0].ends_with("..")
    });
    assert!(screen.child.try_wait().unwrap().is_none());
    std::fs::write(&go, "").unwrap();
    let (_, written) = screen.end();
    let time = began.elapsed();

    let lines = shown(&written);
    assert!(lines[0].starts_with("mgmt "), "{lines:#?}");
    assert_eq!(lines.last().map(String::as_str), Some(""), "the cursor is where the next line begins");
    let log = &lines[1..lines.len() - 1];
    for line in log {
        let mut words = line.split_whitespace();
        assert_eq!(words.next().map(|time| time.matches(':').count()), Some(2), "{line:?} in {lines:#?}");
        assert!(matches!(words.next(), Some("info" | "warn" | "error")), "{line:?} in {lines:#?}");
    }
    let all = log.join("\n");
    assert!(changes(&all) >= 3 && all.contains("all done") && all.contains("retrying in "), "{all}");
    assert!(log.last().unwrap().contains("ended: 4 resources"), "{all}");
    // With each line of the log once, and otherwise a few times each second.
    let drawn = written.matches("\x1b[J").count();
    assert!(drawn <= log.len() + 8 * (time.as_secs() as usize + 1), "{drawn} in {time:?}");
}

#[test]
fn without_a_terminal_or_if_nobody_wants_it_nothing_of_it_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let program = program(directory.path(), "sleep 3");
    let arguments = [&RUN[..], &["lang", &program]].concat();
    let quiet = [&["--color=never"], &arguments[..]].concat();
    let off = [&quiet[..], &["--no-progress"]].concat();
    let plain = [
        ("the flag", &off, ("LANG", "C")),
        ("the variable", &quiet, ("MGMT_NO_PROGRESS", "1")),
        ("a terminal that can do nothing", &quiet, ("TERM", "dumb")),
    ];
    std::thread::scope(|scope| {
        for (what, arguments, variable) in plain {
            scope.spawn(move || {
                let (_, written) = start(arguments, &[variable]).end();
                assert!(written.contains("all done") && !written.contains('\x1b'), "{what}: {written:?}");
                assert!(!written.contains(" done, "), "{what}: {written:?}");
            });
        }
        scope.spawn(|| {
            let said = mgmt_output(&arguments);
            assert!(said.stderr.contains("all done"), "{said:?}");
            assert!(!said.stderr.contains('\x1b') && !said.stderr.contains(" done, "), "{said:?}");
        });
        scope.spawn(|| {
            let json = [&["--message-format=json"], &arguments[..]].concat();
            let (_, written) = start(&json, &[]).end();
            assert!(written.lines().all(|line| line.starts_with('{')), "{written:?}");
        });
        scope.spawn(|| {
            let (_, written) = start(&arguments, &[("NO_COLOR", "1")]).end();
            assert!(written.contains(" done, ") && written.contains("\x1b[J"), "{written:?}");
            assert!(!written.contains("\x1b[1;31m") && !written.contains("\x1b[0m"), "{written:?}");
        });
    });
}
