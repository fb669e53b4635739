//! The one writer behind both standard streams.

use std::fmt;
use std::io::{self, ErrorKind, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Both standard streams. A handle; clones share the streams.
///
/// Writing never fails for the caller: a reader that went away (`| head`) is no reason to do anything else than what
/// the command was asked to do, least of all to stop in the middle of a change to the host.
#[derive(Clone)]
pub struct Output(Arc<Streams>);

struct Streams {
    /// Data. A lock, so that a line is written whole.
    data: Mutex<Stream>,
    /// Everything else. A lock of its own, so that a slow reader of data holds up no log line.
    notices: Mutex<Stream>,
}

struct Stream {
    writer: Box<dyn Write + Send>,
    state: State,
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
        Output::to(Box::new(io::stdout()), Box::new(io::stderr()))
    }

    /// Other streams, for tests.
    pub fn to(data: Box<dyn Write + Send>, notices: Box<dyn Write + Send>) -> Output {
        let stream = |writer| Mutex::new(Stream { writer, state: State::Open });
        Output(Arc::new(Streams { data: stream(data), notices: stream(notices) }))
    }

    /// Writes what the command was asked for to standard output, as it is.
    pub fn data(&self, text: &str) {
        lock(&self.0.data).write(text);
    }

    /// Writes anything else to standard error, as it is.
    pub fn notice(&self, text: &str) {
        lock(&self.0.notices).write(text);
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

impl Stream {
    fn write(&mut self, text: &str) {
        if !matches!(self.state, State::Open) {
            return;
        }
        match self.writer.write_all(text.as_bytes()).and_then(|()| self.writer.flush()) {
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
