//! Questions to the host: files, links and accounts that functions ask about, off the evaluation thread and with a deadline.
//!
//! Every function that opens, resolves or looks up something on the host goes through here, and nowhere else. The rules for
//! paths are those of [`mgmt_sys::trusted`], which kinds follow as well; the threads are those of [`mgmt_sys::bounded`], one
//! pool for the process, so that a program that is read again does not ask a dead mount with more threads than before.

use std::fmt::Display;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};
use std::time::Duration;

use mgmt_sys::bounded::{Asked, Pool, Question as _};
use mgmt_sys::dir::Parent;
use mgmt_sys::handle::Attributes;
use mgmt_sys::{ManagedPath, trusted};
use mgmt_value::Str;

use crate::{Failure, Watch};

/// The most bytes that a function reads from one file, unless [`set_read_limit`] says otherwise.
pub const DEFAULT_READ_LIMIT: u64 = 16 << 20;
/// A question without an answer fails after this time.
pub const LOOK_DEADLINE: Duration = Duration::from_secs(5);
/// The evaluation waits this long before it goes on without the value.
const EVALUATION_PATIENCE: Duration = Duration::from_millis(100);

static READ_LIMIT: AtomicU64 = AtomicU64::new(DEFAULT_READ_LIMIT);
static POOL: LazyLock<Pool<Question>> = LazyLock::new(|| Pool::new(LOOK_DEADLINE, wake));
static WAKERS: Mutex<Vec<Weak<dyn Wake>>> = Mutex::new(Vec::new());

/// A program that evaluates again when something that its functions watch may have another value.
pub trait Wake: Send + Sync {
    /// The functions with this watch have to be evaluated again.
    fn wake(&self, watch: &Watch);
}

/// Sets the most bytes that a function reads from one file.
pub fn set_read_limit(bytes: u64) {
    READ_LIMIT.store(bytes, Ordering::Relaxed);
}

/// Has a program woken when an answer comes that it did not wait for, as long as it is there.
pub fn wake_on_answers(program: Weak<dyn Wake>) {
    let mut wakers = WAKERS.lock().unwrap_or_else(PoisonError::into_inner);
    wakers.retain(|waker| waker.strong_count() > 0);
    wakers.push(program);
}

/// Something has happened that a watch is for: what is known of it is asked again.
pub fn touch(watch: &Watch) {
    POOL.touch(watch);
}

/// Nobody watches this any more.
pub fn forget(watch: &Watch) {
    POOL.forget(watch);
}

/// Whether the file system of a path answers. If not, the watch on it wakes the program when it does.
pub fn answers(path: &Path) -> bool {
    let question = Question::Exists(Str::new(path.as_os_str().as_encoded_bytes()));
    let asked = POOL.ask(Watch::Path(path.to_owned()), question, EVALUATION_PATIENCE);
    matches!(asked, Asked::Answer(_))
}

fn wakers() -> Vec<Arc<dyn Wake>> {
    WAKERS.lock().unwrap_or_else(PoisonError::into_inner).iter().filter_map(Weak::upgrade).collect()
}

fn wake(watch: &Watch) {
    wakers().iter().for_each(|program| program.wake(watch));
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Question {
    /// The content of a regular file.
    Content(Str),
    /// Whether a path leads to something.
    Exists(Str),
    /// The text of a symbolic link.
    Link(Str),
    /// The path without links.
    Resolved(Str),
    /// Whether a path leads to a file that can be executed.
    Executable(Str),
    /// An account by its name, wherever the system keeps it.
    Account(Str),
    /// The account of this process.
    OwnAccount,
    /// Makes a directory that is not there yet, for this user alone. Asked once for each path.
    NewDirectory(Str),
    /// The content of a file that comes with the program, whose author decides about links.
    Deployed(Str),
}

/// An account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) uid: u32,
    pub(crate) home: Str,
}

/// What was found out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Bytes(Str),
    Truth(bool),
    Account(Option<Account>),
    /// Nothing is there.
    Nothing,
    /// The answer cannot be found out, because of this.
    Failed(String),
}

impl mgmt_sys::bounded::Question for Question {
    type Topic = Watch;
    type Answer = Answer;

    fn answer(&self) -> Answer {
        let bytes = |found: Result<Vec<u8>, mgmt_sys::Error>| match found {
            Ok(bytes) => Answer::Bytes(Str::from(bytes)),
            Err(error) if trusted::is_nothing(&error) => Answer::Nothing,
            Err(error) => Answer::Failed(explained(&error)),
        };
        let truth = |found: Result<bool, mgmt_sys::Error>| match found {
            Ok(truth) => Answer::Truth(truth),
            Err(error) => Answer::Failed(explained(&error)),
        };
        let limit = READ_LIMIT.load(Ordering::Relaxed);
        match self {
            Question::Content(path) => bytes(trusted::read(path, limit)),
            Question::Exists(path) => truth(trusted::stat(path).map(|stat| stat.is_some())),
            Question::Link(path) => bytes(trusted::read_link(path)),
            Question::Resolved(path) => bytes(trusted::resolve(path)),
            Question::Executable(path) => truth(trusted::is_executable(path)),
            Question::Account(name) => crate::modules::os::account_named(name),
            Question::OwnAccount => crate::modules::os::own_account(),
            Question::NewDirectory(path) => truth(new_directory(path)),
            Question::Deployed(path) => bytes(trusted::read_following(path, limit)),
        }
    }

    fn path(&self) -> Option<&[u8]> {
        match self {
            Question::Content(path)
            | Question::Exists(path)
            | Question::Link(path)
            | Question::Resolved(path)
            | Question::Executable(path)
            | Question::NewDirectory(path)
            | Question::Deployed(path) => Some(path),
            Question::Account(_) | Question::OwnAccount => None,
        }
    }
}

/// Makes a directory; false if something is there already.
fn new_directory(path: &[u8]) -> Result<bool, mgmt_sys::Error> {
    let place = ManagedPath::new(path).map_err(|error| mgmt_sys::Error::of_path("make", path, error))?;
    let Some(name) = place.file_name() else { return Ok(false) };
    let private = Attributes { mode: Some(0o700), ..Attributes::default() };
    match Parent::open(&place)?.make_directory(name, &private) {
        Ok(_) => Ok(true),
        Err(error) if error.is_exists() => Ok(false),
        Err(error) => Err(error),
    }
}

/// The message of an error, with what can be done about it.
fn explained(error: &mgmt_sys::Error) -> String {
    use mgmt_sys::error::Cause;
    match error.cause() {
        Cause::TooLarge(_) => format!("{error}; MGMT_READ_LIMIT sets another"),
        Cause::NotARegularFile(mgmt_sys::Kind::Directory) => error.to_string(),
        Cause::NotARegularFile(_) => format!("{error}; `os.system` can read from what is none"),
        _ => error.to_string(),
    }
}

/// Asks for a live function. Nothing while the answer is on its way: the watch then wakes the function.
pub(crate) fn look(watch: &Watch, question: Question) -> Result<Option<Answer>, Failure> {
    // A program that nobody wakes has to wait.
    let patience = if wakers().is_empty() { LOOK_DEADLINE } else { EVALUATION_PATIENCE };
    match POOL.ask(watch.clone(), question.clone(), patience) {
        Asked::Answer(answer) => Ok(Some(answer)),
        Asked::Pending if patience < LOOK_DEADLINE => Ok(None),
        Asked::Pending | Asked::TimedOut => Err(timed_out(&question)),
    }
}

/// Asks for a function that is not woken: it waits until the deadline.
pub(crate) fn look_now(question: Question) -> Result<Answer, Failure> {
    match POOL.ask_now(question.clone()) {
        Asked::Answer(answer) => Ok(answer),
        Asked::Pending | Asked::TimedOut => Err(timed_out(&question)),
    }
}

/// Reads a file that comes with a program: a regular one of limited size, without blocking, before the deadline.
///
/// # Errors
///
/// It cannot be read.
pub fn read_deployed(path: &Path) -> std::io::Result<Vec<u8>> {
    use std::io::{Error, ErrorKind};
    let path = std::path::absolute(path)?;
    let question = Question::Deployed(Str::new(path.as_os_str().as_encoded_bytes()));
    match look_now(question).map_err(|failure| Error::new(ErrorKind::TimedOut, failure.to_string()))? {
        Answer::Bytes(content) => Ok(content.as_bytes().to_vec()),
        Answer::Failed(message) => Err(Error::other(message)),
        _ => Err(Error::new(ErrorKind::NotFound, format!("{} does not exist", path.display()))),
    }
}

fn timed_out(question: &Question) -> Failure {
    let seconds = LOOK_DEADLINE.as_secs();
    Failure::fatal(match question {
        Question::Account(name) => {
            format!("looking up the user {name:?} timed out after {seconds} s")
        }
        Question::OwnAccount => format!("looking up the user of the program timed out after {seconds} s"),
        question => {
            let path = Str::new(question.path().unwrap_or_default());
            format!(
                "reading {path:?} timed out after {seconds} s; is it on a file system that does not answer?"
            )
        }
    })
}

/// The path of a function's argument: made absolute by the directory of the process.
pub(crate) fn absolute(path: &Str) -> Result<Str, Failure> {
    if path.starts_with(b"/") {
        return Ok(path.clone());
    }
    let failed = |error: &dyn Display| Failure::fatal(format!("can't resolve {path:?}: {error}"));
    let here = std::env::current_dir().map_err(|error| failed(&error))?;
    match path.is_empty() || path.contains(&0) {
        true => Err(failed(&"it is not a path")),
        false => Ok(Str::new([here.as_os_str().as_encoded_bytes(), b"/", path].concat())),
    }
}
