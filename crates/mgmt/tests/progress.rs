//! How far a run is, as people see it on a terminal, and everybody else does not.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;

use common::{eventually, mgmt, said};
use rustix::pty::OpenptFlags;
use rustix::termios::{Winsize, tcsetwinsize};

/// A terminal: what a program writes to it, and what is to be seen of that.
struct Screen {
    child: Child,
    controller: File,
    written: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl Screen {
    fn start(arguments: &[&str], environment: &[(&str, &str)]) -> Screen {
        let controller = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        rustix::pty::grantpt(&controller).unwrap();
        rustix::pty::unlockpt(&controller).unwrap();
        let name = rustix::pty::ptsname(&controller, Vec::new()).unwrap();
        let terminal = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        let controller = File::from(controller);
        let command = &mut mgmt(arguments);
        command.env("TERM", "xterm").env("TZ", "UTC").envs(environment.iter().copied());
        let child = command.stdout(Stdio::from(terminal.try_clone().unwrap())).stderr(Stdio::from(terminal));
        tcsetwinsize(&controller, size(80)).unwrap();
        let child = child.spawn().unwrap();
        // The command keeps the terminal open for as long as it is there.
        *command = mgmt(&[]);
        let written = Arc::new(Mutex::new(Vec::new()));
        let (mut input, output) = (controller.try_clone().unwrap(), Arc::clone(&written));
        let reader = std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // A terminal without anybody behind it is an error.
            while let Ok(length @ 1..) = input.read(&mut buffer) {
                output.lock().unwrap().extend_from_slice(&buffer[..length]);
            }
        });
        Screen { child, controller, written, reader }
    }

    fn written(&self) -> String {
        String::from_utf8_lossy(&self.written.lock().unwrap()).into_owned()
    }

    /// The lines that are there now, those that have scrolled away included.
    fn lines(&self) -> Vec<String> {
        shown(&self.written())
    }

    fn end(mut self) -> (Option<i32>, String) {
        let code = self.child.wait().unwrap().code();
        self.reader.join().unwrap();
        let written = String::from_utf8_lossy(&self.written.lock().unwrap()).into_owned();
        (code, written)
    }
}

fn size(columns: u16) -> Winsize {
    Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

/// What a terminal shows of a text: it knows the end of a line, the way back, up, and how to erase the rest; and colours.
fn shown(text: &str) -> Vec<String> {
    let (mut lines, mut row, mut column) = (vec![Vec::new()], 0_usize, 0_usize);
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\n' => {
                row += 1;
                lines.resize(lines.len().max(row + 1), Vec::new());
            }
            '\r' => column = 0,
            '\x1b' => {
                assert_eq!(characters.next(), Some('['), "{text:?}");
                let mut number = String::new();
                let end = loop {
                    match characters.next() {
                        Some(part @ ('0'..='9' | ';')) => number.push(part),
                        // The rest of it has not come yet.
                        None => return lines.into_iter().map(String::from_iter).collect(),
                        Some(end) => break end,
                    }
                };
                match end {
                    'A' => row = row.checked_sub(number.parse().unwrap()).unwrap(),
                    'J' => {
                        lines.truncate(row + 1);
                        lines[row].truncate(column);
                    }
                    'm' => {}
                    other => panic!("{other:?} in {text:?}"),
                }
            }
            other => {
                let line = &mut lines[row];
                line.resize(line.len().max(column + 1), ' ');
                line[column] = other;
                column += 1;
            }
        }
    }
    lines.into_iter().map(String::from_iter).collect()
}

fn program(directory: &Path, command: &str) -> String {
    let at = directory.display();
    format!(
        "file \"{at}/kept\" {{ state => \"exists\", content => \"right\\n\", }}\n\
         exec \"slow\" {{ cmd => \"{command}\", shell => \"/bin/sh\", }}\n\
         exec \"bad\" {{ cmd => \"/bin/false\", }}\n\
         print \"after\" {{ msg => \"all done\", Depend => Exec[\"slow\"], }}\n"
    )
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
    let mut screen = Screen::start(&[&RUN[..], &["lang", &program]].concat(), &[]);
    let is_whole = |seen: &[String]| {
        seen.len() == 2
            && seen[0] == "1 of 4 done, 1 running, 1 failed, 1 waiting"
            && seen[1].ends_with(" s  exec[slow]")
    };
    eventually("a view with the slow one", || {
        assert!(screen.child.try_wait().unwrap().is_none(), "{}", screen.written());
        is_whole(&view(&screen.lines()))
    });
    assert!(screen.written().contains("\x1b[1;31m1 failed\x1b[0m"), "{:?}", screen.written());

    // Lines of the log scroll away above it.
    let changes = |text: &str| text.matches("kept]: changed in ").count();
    for count in 2..4 {
        eventually("a repair", || {
            std::fs::write(&kept, "wrong\n").unwrap();
            changes(&screen.written()) >= count
        });
    }
    eventually("the view below them", || is_whole(&view(&screen.lines())));

    tcsetwinsize(&screen.controller, size(30)).unwrap();
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
    assert!(changes(&all) >= 3 && all.contains("all done") && all.contains("has failed for good"), "{all}");
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
                let (_, written) = Screen::start(arguments, &[variable]).end();
                assert!(written.contains("all done") && !written.contains('\x1b'), "{what}: {written:?}");
                assert!(!written.contains(" done, "), "{what}: {written:?}");
            });
        }
        scope.spawn(|| {
            let said = said(&arguments);
            assert!(said.stderr.contains("all done"), "{said:?}");
            assert!(!said.stderr.contains('\x1b') && !said.stderr.contains(" done, "), "{said:?}");
        });
        scope.spawn(|| {
            let json = [&["--message-format=json"], &arguments[..]].concat();
            let (_, written) = Screen::start(&json, &[]).end();
            assert!(written.lines().all(|line| line.starts_with('{')), "{written:?}");
        });
        scope.spawn(|| {
            let (_, written) = Screen::start(&arguments, &[("NO_COLOR", "1")]).end();
            assert!(written.contains(" done, ") && written.contains("\x1b[J"), "{written:?}");
            assert!(!written.contains("\x1b[1;31m") && !written.contains("\x1b[0m"), "{written:?}");
        });
    });
}
