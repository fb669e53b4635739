//! `mgmt repl`, through pipes and on a terminal.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use mgmt_test_support::program::{CommandOutput, EVENT_TIMEOUT, mgmt, mgmt_output, mgmt_output_with_input};
use rustix::pty::OpenptFlags;
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

fn typed(input: &str) -> CommandOutput {
    mgmt_output_with_input(&["--log", "off", "repl"], input)
}

#[track_caller]
fn answers(input: &str, expected: &str) {
    let said = typed(input);
    assert_eq!((said.stdout.as_str(), said.stderr.as_str(), said.code), (expected, "", 0), "{input}");
}

#[test]
fn expressions_print_their_values() {
    answers(
        "1 + 2\n\"a\"\n[1, 2]\n{\"k\" => 1.5,}\nstruct{x => true,}\n",
        "3\n\"a\"\n[1, 2]\n{\"k\": 1.5}\nstruct{x: true}\n",
    );
    answers("-5\n", "-5\n");
    answers("len([1, 2, 3])", "3\n");
    answers("\n# only a comment\n\n", "");
}

#[test]
fn definitions_are_kept_and_replaced() {
    answers(
        "$x = 2\nimport \"fmt\"\nfunc twice($n) { $n + $n }\nfmt.printf(\"%d\", twice($x))\n$x = 10\ntwice($x)\n",
        "\"4\"\n20\n",
    );
    answers("class c($n) {\n\t$m = $n + 1\n}\ninclude c(1) as k\n$k.m\n", "2\n");
}

#[test]
fn a_text_goes_on_until_its_brackets_are_closed() {
    answers("[\n1,\n2,\n]\nfunc f(\n$x) {\n\t$x +\n\t1\n}\nf(\n4)\n", "[1, 2]\n5\n");
}

#[test]
fn a_string_goes_on_until_it_is_closed() {
    answers("$x = \"a\nb\"\n$x\n\"c\n\"\n", "\"a\\nb\"\n\"c\\n\"\n");
}

#[test]
fn the_type_of_a_named_function_is_its_form_and_plain_words_are_commands() {
    answers(
        ":type fmt.printf\nfunc f($a int) int { $a }\n:type f\n:type strings.to_lower\nquit\n1\n",
        "func(format str, values ?1...) str\nfunc f($a int) int\nfunc(a str) str\n",
    );
    answers(
        "func g($x) { $x + 1 }\n:type g\nfunc id($x) { $x }\n:type id\nclass c {\n\tfunc f($s) { \"${s}\" }\n}\n\
         include c as k\n:type k.f\nquit()\n1\n",
        "func g($x int) int\nfunc id($x _) _\nfunc f($s str) str\n",
    );
    answers("func quit() { 5 }\nquit()\n", "5\n");
    let several = typed(":type to_upper\n");
    assert_eq!(several.code, 1);
    assert!(several.stderr.contains("several modules have one: "), "{}", several.stderr);
    assert!(!several.stderr.contains("M0010"), "{}", several.stderr);
    let said = typed("help\nexit\n1\n");
    assert!(said.stdout.contains(":watch EXPRESSION") && !said.stdout.ends_with("1\n"), "{}", said.stdout);
}

#[test]
fn templates_and_gamma_are_those_of_go() {
    let printf = |format: &str, values: &str| {
        format!(
            "golang.template(\"{{{{ printf `{format}` {values} }}}}\", struct{{l => [\"a\", \"b\",], n => 7}})\n"
        )
    };
    let calls = [
        printf("%+v", ".L"),
        printf("%[2]d-%[1]d", "1 2"),
        printf("%T %T", ".L .N"),
        printf("%!d", "5"),
        printf("%*d", "`x` 5"),
    ];
    answers(
        &format!("import \"golang\"\n{}", calls.concat()),
        "\"[a b]\"\n\"2-1\"\n\"[]string int64\"\n\"%!!(int=5)d\"\n\"%!(BADWIDTH)5\"\n",
    );
    answers("import \"golang/math\"\nmath.gamma(0.5)\nmath.gamma(5.0)\n", "1.7724538509055159\n24\n");
    let deep = typed(
        "import \"golang\"\ngolang.template(\"{{ define `t` }}{{ template `t` }}{{ end }}{{ template `t` }}\")\n",
    );
    assert!(deep.stderr.contains("exceeded maximum template depth (100000)"), "{}", deep.stderr);
}

#[test]
fn commands_answer() {
    answers(
        ":type [1.5]\n$f = func($x int) { $x }\n:type $f\n:t 1\n$f\n",
        "[]float\nfunc(int) int\nint\nfunc(int) int\n",
    );
    answers(
        "$x = 1\nimport \"fmt\"\nfunc f($a int) int { $a }\n:vars\n",
        "$x int\nimport \"fmt\"\nfunc f($a int) int\n",
    );
    answers("$x = 1\n:reset\n:vars\n:quit\n1 + 1\n", "");
    let help = typed(":help\n").stdout;
    for command in [":type", ":watch", ":graph", ":vars", ":doc", ":load", ":reset", ":help", ":quit"] {
        assert!(help.contains(command), "{help}");
    }
    assert!(typed(":doc strings.split\n").stdout.contains("import \"strings\""));
    assert!(typed(":doc noop\n").stdout.contains("noop"));
    let wrong = typed(":tipe 1\n:load\n:vars x\n:doc nothing_like_it\n");
    assert_eq!(wrong.code, 1);
    for message in ["did you mean `:type`?", "write `:load PATH`", "`:vars` stands alone", "nothing_like_it"]
    {
        assert!(wrong.stderr.contains(message), "{message} in {}", wrong.stderr);
    }
}

#[test]
fn mistakes_are_underlined_and_the_conversation_goes_on() {
    let said = typed("$x = 1\n1 + $missing\n$y = $x + \"a\"\n[1 2]\n$x\n");
    assert_eq!((said.stdout.as_str(), said.code), ("1\n", 1));
    assert!(said.stderr.contains("1 | 1 + $missing\n  |     ^^^^^^^^"), "{}", said.stderr);
    assert!(said.stderr.contains("1 | $y = $x + \"a\""), "{}", said.stderr);
    assert!(said.stderr.contains("<input 3>:1:11"), "{}", said.stderr);
    assert_eq!(said.stderr.matches("error[").count(), 3, "{}", said.stderr);
    // What is not right is not kept.
    let said = typed("$x = 1 + \"a\"\n:vars\n");
    assert_eq!(said.stdout, "");
}

#[test]
fn values_that_fail_are_shown_where_they_fail() {
    let said = typed("import \"os\"\n$x = os.readfile(\"/nowhere/at/all\")\n$x\n$x <|> \"none\"\n");
    assert_eq!((said.stdout.as_str(), said.code), ("\"none\"\n", 1));
    assert!(
        said.stderr.contains("/nowhere/at/all") && said.stderr.contains("<input 2>:1:6"),
        "{}",
        said.stderr
    );
}

#[test]
fn mistakes_are_json_when_that_is_asked_for() {
    let said =
        mgmt_output_with_input(&["--log", "off", "--message-format=json", "repl"], "1 + $missing\n2\n");
    let mistake: serde_json::Value = serde_json::from_str(said.stderr.lines().next().unwrap()).unwrap();
    assert_eq!(mistake["level"], "error");
    assert_eq!(mistake["spans"][0]["column_start"], 5);
    assert_eq!(said.stdout, "2\n");
}

#[test]
fn resources_are_shown_and_never_run() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("made");
    let path = path.to_str().unwrap();
    let declared = format!("file \"{path}\" {{\n\tstate => \"exists\",\n}}\n");
    let input = format!(
        "{declared}print \"p\" {{\n\tDepend => File[\"{path}\"],\n}}\n{declared}:graph\n$x = 1\n$x\n"
    );
    let vertex = format!("Vertex: file[{path}]\n");
    let rest = format!("Vertex: print[p]\nEdge: file[{path}] -> print[p]\n");
    answers(&input, &format!("{vertex}{rest}Vertex: print[p]\n{vertex}Edge: file[{path}] -> print[p]\n1\n"));
    assert!(!Path::new(path).exists());
    let said = typed("print \"p\" {\n\tDepend => Noop[\"missing\"],\n}\n:graph\n");
    assert_eq!((said.stdout.as_str(), said.code), ("", 1));
}

#[test]
fn a_program_can_be_loaded_with_what_it_imports() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("lib")).unwrap();
    std::fs::write(directory.path().join("lib/n.mcl"), "$two = 2\n").unwrap();
    let main = directory.path().join("main.mcl");
    std::fs::write(&main, "import \"lib/n.mcl\"\n\n$m = $n.two + 1\n\nnoop \"a\" {}\n").unwrap();
    let (main, folder) = (main.to_str().unwrap(), directory.path().to_str().unwrap());
    answers(
        &format!("$gone = 1\n:load {main}\n$m\n$m = $n.two * 4\n$m\n:graph\n:vars\n"),
        "3\n8\nVertex: noop[a]\nimport \"lib/n.mcl\"\n$m int\n",
    );
    let said = mgmt_output_with_input(&["--log", "off", "repl", folder], "$n.two\n");
    assert_eq!((said.stdout.as_str(), said.code), ("2\n", 0), "{}", said.stderr);
    assert_eq!(mgmt_output_with_input(&["repl", "/nowhere/at/all.mcl"], "").code, 2);
    let said = typed(":load /nowhere/at/all.mcl\n1\n");
    assert_eq!((said.stdout.as_str(), said.code), ("1\n", 1));
}

#[test]
fn the_command_has_help_of_its_own() {
    let said = mgmt_output(&["repl", "--help"]);
    assert_eq!(said.code, 0);
    assert!(
        said.stdout.contains("Usage: mgmt repl") && said.stdout.contains("--no-history"),
        "{}",
        said.stdout
    );
}

#[test]
fn no_line_is_a_reason_to_panic() {
    let mut input = String::new();
    for line in [
        ":",
        ": :",
        "::type",
        "$",
        "\"",
        "}",
        ")",
        "{",
        "]]]]",
        "}",
        "$x =",
        "import",
        "import \"",
        "\u{0}\u{1b}[31m",
        "é = 大",
        ":type",
        ":type }",
        ":watch",
        ":load \u{7}",
        "class",
        "func",
        "if true {",
        "}",
        "1 /* 2 */",
    ] {
        input.push_str(line);
        input.push('\n');
    }
    let said = typed(&input);
    assert_eq!(said.code, 1);
    assert!(!said.stderr.contains("panicked"), "{}", said.stderr);
}

/// Reads what comes, on a thread of its own, until it ends.
fn reader(mut from: impl std::io::Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            if sender.send(bytes[..count].to_vec()).is_err() {
                break;
            }
        }
    });
    receiver
}

/// Somebody at a terminal, or at a pipe that stays open.
struct TerminalSession {
    child: Child,
    keyboard: Box<dyn std::io::Write>,
    output: Receiver<Vec<u8>>,
    seen: String,
}

impl TerminalSession {
    fn at_pipe() -> TerminalSession {
        let mut command = mgmt(&["--log", "off", "repl"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let keyboard = Box::new(child.stdin.take().unwrap());
        let output = reader(child.stdout.take().unwrap());
        TerminalSession { child, keyboard, output, seen: String::new() }
    }

    fn at_terminal(state: &Path) -> (TerminalSession, File) {
        let main =
            rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        rustix::pty::grantpt(&main).unwrap();
        rustix::pty::unlockpt(&main).unwrap();
        let name = rustix::pty::ptsname(&main, Vec::new()).unwrap();
        let other = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        tcsetwinsize(&other, Winsize { ws_row: 24, ws_col: 60, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let mut command = mgmt(&["--log", "off", "--color", "never", "repl"]);
        command.env("XDG_STATE_HOME", state).env("TERM", "xterm");
        let side = || Stdio::from(other.try_clone().unwrap());
        let child = command.stdin(side()).stdout(side()).stderr(side()).spawn().unwrap();
        let main = File::from(main);
        let output = reader(main.try_clone().unwrap());
        let mut typist = TerminalSession { child, keyboard: Box::new(main), output, seen: String::new() };
        typist.see("mgmt> ");
        (typist, other)
    }

    fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
        self.keyboard.flush().unwrap();
    }

    /// Waits until something is shown, and forgets it with all that was before.
    #[track_caller]
    fn see(&mut self, text: &str) -> String {
        let began = Instant::now();
        loop {
            if let Some(at) = self.seen.find(text) {
                let rest = self.seen.split_off(at + text.len());
                return std::mem::replace(&mut self.seen, rest);
            }
            let left = EVENT_TIMEOUT.saturating_sub(began.elapsed());
            match self.output.recv_timeout(left) {
                Ok(bytes) => self.seen.push_str(&String::from_utf8_lossy(&bytes)),
                Err(error) => panic!("{error}: `{text}` is not in {:?}", self.seen),
            }
        }
    }

    /// Waits for a line that is the answer, and for the next prompt.
    #[track_caller]
    fn answer(&mut self, keys: &str, answer: &str) {
        self.press(keys);
        self.see(&format!("\r\n\u{1b}[?2004l{answer}\r\n"));
        self.see("mgmt> ");
    }

    #[track_caller]
    fn end(&mut self) -> Option<i32> {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(began.elapsed() < EVENT_TIMEOUT, "it does not end");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }
}

impl Drop for TerminalSession {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_watched_value_is_printed_whenever_it_changes() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("watched");
    std::fs::write(&file, "one").unwrap();
    let mut typist = TerminalSession::at_pipe();
    typist.press(&format!("import \"os\"\n:watch os.readfile(\"{}\")\n", file.to_str().unwrap()));
    typist.see("\"one\"\n");
    std::fs::write(&file, "two").unwrap();
    typist.see("\"two\"\n");
    typist.press("\n1 + 1\n");
    typist.see("2\n");
    typist.press(":watch 7\n");
    typist.see("7\n");
    typist.press(":quit\n");
    assert_eq!(typist.end(), Some(0));
}

#[test]
fn a_signal_ends_it_while_it_waits_for_lines() {
    for (signal, code) in [(rustix::process::Signal::INT, 130), (rustix::process::Signal::TERM, 0)] {
        let mut typist = TerminalSession::at_pipe();
        typist.press("1 + 1\n");
        typist.see("2\n");
        let id = rustix::process::Pid::from_child(&typist.child);
        rustix::process::kill_process(id, signal).unwrap();
        assert_eq!(typist.end(), Some(code));
    }
}

#[test]
fn lines_are_edited_on_a_terminal() {
    let state = tempfile::tempdir().unwrap();
    let (mut typist, _side) = TerminalSession::at_terminal(state.path());
    typist.answer("1 + 2\r", "3");
    // The start of the line, the end of it, back over a character, forth over a word.
    typist.answer("2 + 3\x01\x1b[3~4\x05\x1b[D\x7f\x1b[C\x7f5\x1bb\x1bf\r", "9");
    typist.answer("\"ä大\"\x1b[D\x1b[D\x7f\x1b[Cx\r", "\"大x\"");
    typist.answer("99 + 1\x15\x19 - 50\x17\x17\r", "100");
    // Brackets that are open, and what is pasted.
    typist.answer("[1,\r2]\r", "[1, 2]");
    typist.answer("\x1b[200~[1,\n\t2,\n3]\x1b[201~\r", "[1, 2, 3]");
    // A line that is given up.
    typist.press("1 + oops\x03");
    typist.see("mgmt> ");
    typist.answer("8\r", "8");
    typist.press("\x04");
    assert_eq!(typist.end(), Some(0));
}

#[test]
fn a_line_longer_than_the_terminal_is_one_line() {
    let state = tempfile::tempdir().unwrap();
    let (mut typist, _side) = TerminalSession::at_terminal(state.path());
    let long = "x".repeat(150);
    typist.press(&format!("\"{long}\"\x01\x05\r"));
    typist.see(&format!("\u{1b}[?2004l\"{long}\"\r\n"));
    typist.see("mgmt> ");
}

#[test]
fn what_was_typed_before_comes_back_also_in_another_session() {
    let state = tempfile::tempdir().unwrap();
    {
        let (mut typist, _side) = TerminalSession::at_terminal(state.path());
        typist.answer("111\r", "111");
        typist.answer("[2,\r22]\r", "[2, 22]");
        typist.answer("333\r", "333");
        typist.answer("\x1b[A\x1b[A\x1b[B\r", "333");
        typist.press(":quit\r");
        assert_eq!(typist.end(), Some(0));
    }
    let file = state.path().join("mgmt/repl-history");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "111\n[2,\\n22]\n333\n:quit\n");
    let (mut typist, _side) = TerminalSession::at_terminal(state.path());
    typist.answer("\x121\x121\r", "111");
    typist.answer("\x1b[A\x1b[A\x1b[A\r", "333");
    typist.answer("\x12[2\x07444\r", "444");
}

#[test]
fn names_are_completed_on_a_terminal() {
    let state = tempfile::tempdir().unwrap();
    let (mut typist, _side) = TerminalSession::at_terminal(state.path());
    typist.press("$counter = 5\r");
    typist.see("\r\n\u{1b}[?2004l");
    typist.answer("$cou\t + 1\r", "6");
    typist.press("import \"stri\t\r");
    typist.see("\r\n\u{1b}[?2004l");
    typist.answer("strings.to_u\t\"a\")\r", "\"A\"");
    typist.answer(":ty\t 1\r", "int");
    // Several are listed.
    typist.press("strings.to_\t\t");
    typist.see("strings.to_lower(");
    typist.press("\x03");
    typist.see("mgmt> ");
}

#[test]
fn watching_ends_with_enter_and_with_an_interrupt() {
    let state = tempfile::tempdir().unwrap();
    let (mut typist, _side) = TerminalSession::at_terminal(state.path());
    typist.press(":watch 7\r");
    typist.see("\u{1b}[?2004l7\r\n");
    typist.press("\r");
    typist.see("mgmt> ");
    typist.press(":watch 8\r");
    typist.see("\u{1b}[?2004l8\r\n");
    // The terminal of a test is not in charge of the process, so the key does not become a signal by itself.
    rustix::process::kill_process(
        rustix::process::Pid::from_child(&typist.child),
        rustix::process::Signal::INT,
    )
    .unwrap();
    typist.see("mgmt> ");
    typist.answer("9\r", "9");
}

#[test]
fn the_terminal_is_given_back_however_it_ends() {
    let state = tempfile::tempdir().unwrap();
    for how in [":quit\r", "\x04", "TERM", "HUP"] {
        let (mut typist, side) = TerminalSession::at_terminal(state.path());
        // It reads keys, not lines.
        typist.answer("1\r", "1");
        assert!(!tcgetattr(&side).unwrap().local_modes.contains(LocalModes::ECHO));
        let signal = match how {
            "TERM" => Some(rustix::process::Signal::TERM),
            "HUP" => Some(rustix::process::Signal::HUP),
            _ => None,
        };
        match signal {
            Some(signal) => {
                let id = rustix::process::Pid::from_child(&typist.child);
                rustix::process::kill_process(id, signal).unwrap();
            }
            None => typist.press(how),
        }
        assert_eq!(typist.end(), Some(0), "{how}");
        let modes = tcgetattr(&side).unwrap().local_modes;
        assert!(modes.contains(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG), "{how}");
        typist.see("\u{1b}[?2004l");
    }
}
