//! The one writer behind both standard streams.

use std::fmt;
use std::io::{self, ErrorKind, IsTerminal as _, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Both standard streams. A handle; clones share the streams.
///
/// Writing never fails for the caller: a reader that went away (`| head`) is no reason to do anything else than what
/// the command was asked to do, least of all to stop in the middle of a change to the host.
///
/// Below the last line, a terminal may have a [footer](Output::footer): lines that stay there while others scroll away above
/// them, until they are taken back.
#[derive(Clone)]
pub struct Output(Arc<Streams>);

struct Streams {
    /// Data. A lock, so that a line is written whole.
    data: Mutex<Stream>,
    /// Everything else. A lock of its own, so that a slow reader of data holds up no log line. Taken before that of data.
    notices: Mutex<Stream>,
    /// Data goes to a terminal: perhaps the one with the footer.
    is_shared: bool,
}

struct Stream {
    writer: Box<dyn Write + Send>,
    state: State,
    footer: Footer,
}

/// The lines below the last one.
#[derive(Default)]
struct Footer {
    /// Each with its end.
    text: String,
    /// They are on the screen, and the cursor is in the line after them.
    is_shown: bool,
    /// What was written last has not ended its line; there is no room before it has.
    is_inside_line: bool,
}

enum State {
    Open,
    /// The reader went away.
    Closed,
    /// The first failure that is somebody's fault.
    Failed(io::Error),
}

impl Output {
    /// The streams of this process.
    pub fn standard() -> Output {
        Output::new(Box::new(io::stdout()), Box::new(io::stderr()), io::stdout().is_terminal())
    }

    /// Other streams, for tests.
    pub fn to(data: Box<dyn Write + Send>, notices: Box<dyn Write + Send>) -> Output {
        Output::new(data, notices, false)
    }

    fn new(data: Box<dyn Write + Send>, notices: Box<dyn Write + Send>, is_shared: bool) -> Output {
        let stream = |writer| Mutex::new(Stream { writer, state: State::Open, footer: Footer::default() });
        Output(Arc::new(Streams { data: stream(data), notices: stream(notices), is_shared }))
    }

    /// Writes what the command was asked for to standard output, as it is.
    pub fn data(&self, text: &str) {
        if !self.0.is_shared {
            return lock(&self.0.data).write(text);
        }
        let mut notices = lock(&self.0.notices);
        let gone = notices.footer.take_away();
        notices.write(gone);
        lock(&self.0.data).write(text);
        let back = notices.footer.put_back(text);
        notices.write(back);
    }

    /// Writes anything else to standard error, as it is.
    pub fn notice(&self, text: &str) {
        let mut notices = lock(&self.0.notices);
        let (gone, back) = (notices.footer.take_away(), notices.footer.put_back(text));
        if gone.is_empty() && back.is_empty() {
            return notices.write(text);
        }
        notices.write(gone + text + &back);
    }

    /// Shows lines below all others on standard error, which is to be a terminal, in place of those that were there. No lines
    /// take them away. Nothing is written if they are there already.
    ///
    /// None of them may be wider than the terminal, or have control characters other than those that colour it.
    pub fn footer(&self, lines: &[String]) {
        let mut notices = lock(&self.0.notices);
        let text: String = lines.iter().flat_map(|line| [line, "\n"]).collect();
        if notices.footer.text != text {
            let gone = notices.footer.take_away();
            notices.footer.text = text;
            let back =
                if notices.footer.is_inside_line { String::new() } else { notices.footer.put_back("\n") };
            notices.write(gone + &back);
        }
    }

    /// What went wrong with standard output, unless its reader just went away. Given once.
    pub fn failure(&self) -> Option<io::Error> {
        let mut data = lock(&self.0.data);
        match std::mem::replace(&mut data.state, State::Closed) {
            State::Failed(error) => Some(error),
            state => {
                data.state = state;
                None
            }
        }
    }
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Output")
    }
}

impl Footer {
    /// What takes it away, and leaves the cursor where its first line was.
    fn take_away(&mut self) -> String {
        match std::mem::take(&mut self.is_shown) {
            true => format!("\r\x1b[{}A\x1b[J", self.text.lines().count()),
            false => String::new(),
        }
    }

    /// What shows it again after this text.
    fn put_back(&mut self, after: &str) -> String {
        self.is_inside_line = !after.is_empty() && !after.ends_with('\n');
        self.is_shown = !self.is_inside_line && !self.text.is_empty();
        if self.is_shown { self.text.clone() } else { String::new() }
    }
}

impl Stream {
    fn write(&mut self, text: impl AsRef<str>) {
        let text = text.as_ref().as_bytes();
        if !matches!(self.state, State::Open) || text.is_empty() {
            return;
        }
        match self.writer.write_all(text).and_then(|()| self.writer.flush()) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::BrokenPipe => self.state = State::Closed,
            Err(error) => self.state = State::Failed(error),
        }
    }
}

fn lock(stream: &Mutex<Stream>) -> MutexGuard<'_, Stream> {
    stream.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A stream that keeps what it was given.
    #[derive(Clone, Default)]
    pub(crate) struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Kept {
        fn take(&self) -> String {
            String::from_utf8(std::mem::take(&mut *self.0.lock().unwrap())).unwrap()
        }

        pub(crate) fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    struct Broken(ErrorKind, Arc<Mutex<usize>>);

    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            *self.1.lock().unwrap() += 1;
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn data_and_notices_go_to_their_own_streams() {
        let (data, notices) = (Kept::default(), Kept::default());
        let output = Output::to(Box::new(data.clone()), Box::new(notices.clone()));
        output.data("d");
        output.notice("n");
        assert_eq!((data.text().as_str(), notices.text().as_str()), ("d", "n"));
        assert!(output.failure().is_none());
    }

    #[test]
    fn lines_scroll_away_above_the_footer_and_leave_nothing_of_it() {
        let kept = Kept::default();
        let output = Output::new(Box::new(kept.clone()), Box::new(kept.clone()), true);
        let lines = |text: &[&str]| text.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
        output.footer(&lines(&["one", "two"]));
        assert_eq!(kept.take(), "one\ntwo\n");
        output.footer(&lines(&["one", "two"]));
        assert_eq!(kept.take(), "", "nothing is drawn that is there");
        output.notice("log\n");
        assert_eq!(kept.take(), "\r\x1b[2A\x1b[Jlog\none\ntwo\n");
        output.data("data\n");
        assert_eq!(kept.take(), "\r\x1b[2A\x1b[Jdata\none\ntwo\n");
        output.notice("a question? ");
        assert_eq!(kept.take(), "\r\x1b[2A\x1b[Ja question? ");
        output.footer(&lines(&["three"]));
        assert_eq!(kept.take(), "", "there is no room beside a question");
        output.notice("answered\n");
        assert_eq!(kept.take(), "answered\nthree\n");
        output.footer(&[]);
        output.notice("log\n");
        assert_eq!(kept.take(), "\r\x1b[1A\x1b[Jlog\n");
    }

    #[test]
    fn a_reader_that_went_away_is_no_failure_and_gets_nothing_more() {
        let writes = Arc::new(Mutex::new(0));
        let broken = Broken(ErrorKind::BrokenPipe, Arc::clone(&writes));
        let output = Output::to(Box::new(broken), Box::new(io::sink()));
        output.data("one");
        output.data("two");
        assert_eq!(*writes.lock().unwrap(), 1);
        assert!(output.failure().is_none());
    }

    #[test]
    fn a_full_disk_is_a_failure_that_is_given_once() {
        let broken = Broken(ErrorKind::StorageFull, Arc::default());
        let output = Output::to(Box::new(broken), Box::new(io::sink()));
        output.data("one");
        assert_eq!(output.failure().unwrap().kind(), ErrorKind::StorageFull);
        assert!(output.failure().is_none());
    }
}
