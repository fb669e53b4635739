//! One process: its start, its questions and answers, its end.

use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mgmt_sys::process::{Command, Line, LineEvent, Lines, Status};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::pipe::Sender;
use tokio::sync::{mpsc, oneshot};

use crate::answer::{Hello, taken};
use crate::puppet::PuppetError;

/// The script that runs inside Puppet's Ruby.
const SCRIPT: &str = concat!(
    include_str!("helper.rb"),
    include_str!("inspect.rb"),
    include_str!("apply.rb"),
    "MgmtPuppet.run(ARGV)\n"
);

/// Takes the script from standard input, where nobody sees it and nothing has to be written to a disk. Nothing else is
/// written there before the script has said hello, so nothing of it can be lost in a buffer.
const LOADER: &str =
    "eval($stdin.read(Integer(ARGV.shift)).force_encoding('UTF-8'), TOPLEVEL_BINDING, 'mgmt-puppet.rb')";

/// The version of the conversation that both sides have to speak.
const PROTOCOL: u32 = 1;

/// How long Ruby may take to load Puppet. A busy host takes many seconds.
const START: Duration = Duration::from_secs(120);

/// How long it may take to end by itself. Whoever cancels is served within a second, and the process is killed if it has not ended by then.
const GRACE: Duration = Duration::from_millis(500);
const _: () = assert!(GRACE.as_millis() < 1000, "whoever cancels waits for at most a second");

/// The longest answer. A catalogue of ten thousand resources is a few megabytes long.
const LONGEST: usize = 512 << 20;

/// How many lines of output are kept to explain an end.
const LAST_LINES: usize = 10;

/// Settings of other Ruby programs that would break this one.
const FOREIGN: &[&str] = &["RUBYOPT", "RUBYLIB", "GEM_HOME", "GEM_PATH", "BUNDLE_GEMFILE", "BUNDLE_BIN_PATH"];

/// How Ruby's memory grows. Left alone, it looks for garbage again and again while it loads Puppet, which takes a quarter of the time. The
/// script takes these away, so that nobody whom Puppet starts has them.
const MEMORY: &[(&str, &str)] = &[
    ("RUBY_GC_HEAP_INIT_SLOTS", "800000"),
    ("RUBY_GC_MALLOC_LIMIT", "67108864"),
    ("RUBY_GC_MALLOC_LIMIT_MAX", "134217728"),
    ("RUBY_GC_OLDMALLOC_LIMIT", "134217728"),
];

/// A process that answers questions. Dropping it ends the process and all that it started.
#[derive(Debug)]
pub(crate) struct Conversation {
    pub(crate) hello: Hello,
    pub(crate) id: Option<u32>,
    /// Where questions go; taken away to end the process.
    requests: Mutex<Option<mpsc::UnboundedSender<String>>>,
    pending: Arc<Mutex<Pending>>,
}

/// Questions without an answer, and the end of the conversation.
#[derive(Debug, Default)]
struct Pending {
    waiting: HashMap<u64, oneshot::Sender<Result<Value, Ended>>>,
    last: u64,
    ended: Option<Ended>,
}

/// How a process ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    pub(crate) how: String,
    /// Somebody else has ended it; what it was asked is not to blame.
    pub(crate) killed: bool,
    pub(crate) output: Vec<String>,
}

impl Conversation {
    /// Starts a process and waits until it says hello.
    pub(crate) async fn start(ruby: &Path, arguments: &[String]) -> Result<Conversation, PuppetError> {
        let not_started = |why: String, output: VecDeque<String>| PuppetError::NotStarted {
            ruby: ruby.to_owned(),
            why,
            output: output.into(),
            killed: false,
        };
        let (running, mut input) = command(ruby, arguments)
            .spawn_listening()
            .map_err(|error| not_started(error.to_string(), VecDeque::new()))?;
        let mut lines = running.lines().limit(LONGEST);
        let id = lines.id();
        let mut output = VecDeque::new();
        let greeting = async {
            // If it ends before it has read this, its end tells why.
            let _ = input.write_all(SCRIPT.as_bytes()).await;
            greeting(&mut lines, &mut output).await
        };
        let greeting = match tokio::time::timeout(START, greeting).await {
            Ok(Ok(greeting)) => greeting,
            Ok(Err(NoGreeting { why, killed })) => {
                let (ruby, output) = (ruby.to_owned(), output.into());
                return Err(PuppetError::NotStarted { ruby, why, output, killed });
            }
            Err(_) => return Err(not_started(format!("it said nothing for {} s", START.as_secs()), output)),
        };
        let hello = match hello(greeting) {
            Ok(hello) => hello,
            Err(why) => return Err(not_started(why, output)),
        };
        let pending = Arc::new(Mutex::new(Pending::default()));
        let (requests, asked) = mpsc::unbounded_channel();
        tokio::spawn(talk(lines, output, input, asked, Arc::clone(&pending)));
        Ok(Conversation { hello, id, requests: Mutex::new(Some(requests)), pending })
    }

    /// Asks, and gives where the answer will be.
    pub(crate) fn ask(&self, mut request: Value) -> oneshot::Receiver<Result<Value, Ended>> {
        let (answer, answered) = oneshot::channel();
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ended) = &pending.ended {
            let _ = answer.send(Err(ended.clone()));
            return answered;
        }
        // Questions that nobody waits for any more are answered nevertheless.
        pending.last += 1;
        let id = pending.last;
        pending.waiting.insert(id, answer);
        request["id"] = id.into();
        // Fails only if the process has just ended, and then the answer tells.
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = requests.as_ref().map(|requests| requests.send(format!("{request}\n")));
        answered
    }

    /// Ends the process, and all that it started. Whoever waits for an answer is told.
    pub(crate) fn stop(&self) {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        pending.ended = Some(Ended { how: "it was stopped".to_owned(), killed: false, output: Vec::new() });
        pending.waiting.clear();
    }

    /// Whether it can still be asked.
    pub(crate) fn is_alive(&self) -> bool {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).ended.is_none()
    }
}

fn command(ruby: &Path, arguments: &[String]) -> Command {
    let mut argv = vec![ruby.as_os_str().to_owned(), "-e".into(), LOADER.into(), "--".into()];
    argv.push(SCRIPT.len().to_string().into());
    argv.extend(arguments.iter().map(Into::into));
    let mut command = Command::new(argv);
    command.env = std::env::vars_os().collect();
    for name in FOREIGN {
        command.env.remove(std::ffi::OsStr::new(name));
    }
    for (name, value) in MEMORY {
        command.env.entry((*name).into()).or_insert_with(|| (*value).into());
    }
    // Manifests are UTF-8, whatever the host speaks.
    command.env.insert("LC_ALL".into(), "C.UTF-8".into());
    command
}

/// Why a process has not said hello.
struct NoGreeting {
    why: String,
    killed: bool,
}

/// The first line of the process.
async fn greeting(lines: &mut Lines, output: &mut VecDeque<String>) -> Result<Vec<u8>, NoGreeting> {
    let because = |why: String| NoGreeting { why, killed: false };
    loop {
        match lines.next().await.map_err(|error| because(error.to_string()))? {
            LineEvent::Line(line) if !line.stderr => return Ok(line.bytes),
            LineEvent::Line(line) => keep(output, &line),
            LineEvent::Ended(status) => {
                let why = format!("it ended at once: {status}");
                return Err(NoGreeting { why, killed: is_killed(status) });
            }
            LineEvent::Closed => return Err(because("it closed its output".to_owned())),
        }
    }
}

/// Whether it was ended from outside. A process that breaks ends otherwise.
fn is_killed(status: Status) -> bool {
    let killing = [Signal::KILL, Signal::TERM, Signal::INT, Signal::HUP];
    matches!(status, Status::Signaled(number) if killing.iter().any(|signal| signal.as_raw() == number))
}

pub(crate) fn hello(line: Vec<u8>) -> Result<Hello, String> {
    let mut found: Value =
        serde_json::from_slice(&line).map_err(|error| format!("it does not say hello: {error}"))?;
    if let Some(missing) = found["missing"].as_str() {
        return Err(format!("this Ruby has no Puppet: {missing}"));
    }
    if let Some(failed) = found["failed"]["message"].as_str() {
        return Err(failed.to_owned());
    }
    let hello: Hello = serde_json::from_value(taken(&mut found, "hello"))
        .map_err(|error| format!("it does not say hello: {error}"))?;
    match hello.protocol {
        PROTOCOL => Ok(hello),
        other => Err(format!("it speaks version {other} of the conversation, and we speak {PROTOCOL}")),
    }
}

/// Carries questions and answers until the process ends.
async fn talk(
    mut lines: Lines,
    mut output: VecDeque<String>,
    mut input: Sender,
    mut asked: mpsc::UnboundedReceiver<String>,
    pending: Arc<Mutex<Pending>>,
) {
    let write = async {
        while let Some(request) = asked.recv().await {
            if input.write_all(request.as_bytes()).await.is_err() {
                break;
            }
        }
        // At the end of its input, it ends what it has started, and then itself.
        drop(input);
        tokio::time::sleep(GRACE).await;
    };
    // Dropped before the process is ended, whatever ends this.
    let _offspring = Offspring(lines.id());
    // Whatever ends this, be it the end of the runtime: nobody waits for an answer that cannot come.
    let mut last_words =
        LastWords { pending: &pending, how: "it was stopped".to_owned(), killed: false, output: Vec::new() };
    let how = tokio::select! {
        how = listen(&mut lines, &mut output, &pending) => Some(how),
        () = write => None,
    };
    if let Some((how, killed)) = how {
        (last_words.how, last_words.killed) = (how, killed);
        last_words.output = output.into();
    }
}

/// Puppet starts commands in sessions of their own, so they do not end with its process group. They end with this.
struct Offspring(Option<u32>);

impl Drop for Offspring {
    fn drop(&mut self) {
        if let Some(id) = self.0 {
            end_children(id, 0);
        }
    }
}

/// Ends what a process has started, and what that has started.
fn end_children(parent: u32, depth: usize) {
    let tasks = std::fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    let children: Vec<i32> = lists
        .flat_map(|list| list.split_whitespace().filter_map(|id| id.parse().ok()).collect::<Vec<_>>())
        .collect();
    for child in children.into_iter().filter_map(Pid::from_raw) {
        // One that stands still starts no others meanwhile. It may be gone already.
        let _ = kill_process(child, Signal::STOP);
        if depth < DEEPEST {
            end_children(child.as_raw_nonzero().get().unsigned_abs(), depth + 1);
        }
        let _ = kill_process(child, Signal::KILL);
    }
}

/// How far down children of children are looked for.
const DEEPEST: usize = 16;

/// Tells all who wait that there will be no answer.
struct LastWords<'a> {
    pending: &'a Mutex<Pending>,
    how: String,
    killed: bool,
    output: Vec<String>,
}

impl Drop for LastWords<'_> {
    fn drop(&mut self) {
        let (how, output) = (std::mem::take(&mut self.how), std::mem::take(&mut self.output));
        let ended = Ended { how, killed: self.killed, output };
        let waiting = {
            let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
            pending.ended = Some(ended.clone());
            std::mem::take(&mut pending.waiting)
        };
        for answer in waiting.into_values() {
            let _ = answer.send(Err(ended.clone()));
        }
    }
}

/// Hands answers to whoever waits for them. Gives how the process ended, and whether somebody else has ended it.
async fn listen(
    lines: &mut Lines,
    output: &mut VecDeque<String>,
    pending: &Mutex<Pending>,
) -> (String, bool) {
    let how = loop {
        match lines.next().await {
            Ok(LineEvent::Line(line)) if line.stderr => {
                tracing::debug!(target: "mgmt::puppet", "(output) {}", shown(&line.bytes));
                keep(output, &line);
            }
            Ok(LineEvent::Line(line)) if line.truncated => {
                break format!("its answer is longer than {LONGEST} bytes");
            }
            Ok(LineEvent::Line(line)) => {
                let answer: Value = match serde_json::from_slice(&line.bytes) {
                    Ok(answer) => answer,
                    Err(error) => break format!("its answer cannot be read: {error}"),
                };
                let Some(id) = answer["id"].as_u64() else {
                    break "it answered something that was not asked".to_owned();
                };
                let waiting = pending.lock().unwrap_or_else(PoisonError::into_inner).waiting.remove(&id);
                if let Some(waiting) = waiting {
                    let _ = waiting.send(Ok(answer));
                }
            }
            Ok(LineEvent::Ended(status)) => return (status.to_string(), is_killed(status)),
            Ok(LineEvent::Closed) => break "it closed its output".to_owned(),
            Err(error) => break error.to_string(),
        }
    };
    (how, false)
}

fn keep(output: &mut VecDeque<String>, line: &Line) {
    if output.len() == LAST_LINES {
        output.pop_front();
    }
    output.push_back(shown(&line.bytes));
}

/// A line for people: bounded, and without anything that a terminal would obey.
fn shown(line: &[u8]) -> String {
    let line = &line[..line.len().min(1000)];
    String::from_utf8_lossy(line).chars().filter(|letter| !letter.is_control() || *letter == '\t').collect()
}
