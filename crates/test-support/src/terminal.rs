//! A terminal: what a program writes to it, and what is to be seen of that.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use rustix::pty::OpenptFlags;
use rustix::termios::{Winsize, tcsetwinsize};

/// A program on a terminal, which is 80 columns wide.
pub struct TerminalSession {
    /// The process.
    pub child: Child,
    controller: File,
    written: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl TerminalSession {
    /// Only what the program says goes to the terminal; it reads what it was going to.
    pub fn start(command: Command) -> TerminalSession {
        TerminalSession::on(command, false)
    }

    /// The program also reads what is typed.
    pub fn with_keyboard(command: Command) -> TerminalSession {
        TerminalSession::on(command, true)
    }

    fn on(mut command: Command, has_keyboard: bool) -> TerminalSession {
        let controller =
            rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        rustix::pty::grantpt(&controller).unwrap();
        rustix::pty::unlockpt(&controller).unwrap();
        let name = rustix::pty::ptsname(&controller, Vec::new()).unwrap();
        let terminal = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        let controller = File::from(controller);
        let side = || Stdio::from(terminal.try_clone().unwrap());
        if has_keyboard {
            command.stdin(side());
        }
        command.stdout(side()).stderr(side());
        tcsetwinsize(&controller, size(80)).unwrap();
        let child = command.spawn().unwrap();
        // Both keep the terminal open for as long as they are there.
        drop((command, terminal));
        let written = Arc::new(Mutex::new(Vec::new()));
        let (mut input, output) = (controller.try_clone().unwrap(), Arc::clone(&written));
        let reader = std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // A terminal without anybody behind it is an error.
            while let Ok(length @ 1..) = input.read(&mut buffer) {
                output.lock().unwrap().extend_from_slice(&buffer[..length]);
            }
        });
        TerminalSession { child, controller, written, reader }
    }

    /// Types these keys.
    pub fn types(&mut self, keys: &str) {
        self.controller.write_all(keys.as_bytes()).unwrap();
    }

    /// Makes it so many columns wide.
    pub fn becomes(&self, columns: u16) {
        tcsetwinsize(&self.controller, size(columns)).unwrap();
    }

    /// Everything that was written to the terminal, escape sequences included.
    pub fn written(&self) -> String {
        String::from_utf8_lossy(&self.written.lock().unwrap()).into_owned()
    }

    /// The lines that are there now, those that have scrolled away included.
    pub fn lines(&self) -> Vec<String> {
        shown(&self.written())
    }

    /// Waits for the end of the program. Gives its exit code and all that was written.
    pub fn end(mut self) -> (Option<i32>, String) {
        let code = self.child.wait().unwrap().code();
        self.reader.join().unwrap();
        let written = String::from_utf8_lossy(&self.written.lock().unwrap()).into_owned();
        (code, written)
    }

    /// Ends the program without a word.
    pub fn kill(mut self) {
        let _ = self.child.kill();
        self.end();
    }
}

fn size(columns: u16) -> Winsize {
    Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

/// What a terminal shows of a text: it knows the end of a line, the ways back, up and ahead, how to erase the rest, how pastes are
/// marked, and colours.
pub fn shown(text: &str) -> Vec<String> {
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
                match characters.next() {
                    Some('[') => {}
                    None => break,
                    other => panic!("{other:?} in {text:?}"),
                }
                let mut number = String::new();
                let end = loop {
                    match characters.next() {
                        Some(part @ ('0'..='9' | ';' | '?')) => number.push(part),
                        // The rest of it has not come yet.
                        None => return lines.into_iter().map(String::from_iter).collect(),
                        Some(end) => break end,
                    }
                };
                match end {
                    'A' => row = row.checked_sub(number.parse().unwrap()).unwrap(),
                    'C' => column += number.parse::<usize>().unwrap(),
                    'J' => {
                        lines.truncate(row + 1);
                        lines[row].truncate(column);
                    }
                    'm' => {}
                    'h' | 'l' if number == "?2004" => {}
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
