//! Running the tools of `apt`.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::time::Duration;

use mgmt_resource::{Error, Result, Stage};
use mgmt_sys::process::{Command, LineEvent, Lines, Signal, Status};
use mgmt_value::Str;
use tokio::time::Instant;

use crate::kinds::pkg::backend::Job;

/// Between the signal that asks a tool to stop and the one that makes it.
const GRACE: Duration = Duration::from_secs(10);
/// How long packages that are being unpacked and configured may take to get done when we are to stop. Stopped in
/// the middle, they have to be repaired.
const PATIENCE: Duration = Duration::from_secs(60);
/// How many of the last lines are kept, and how much of each.
const KEPT: (usize, usize) = (100, 1000);
/// How much of what a tool answers is read.
const LONGEST: usize = 64 << 20;
/// How many percent of progress are worth a line in the log.
const STEP: u8 = 10;

/// What a tool said, and how it ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) status: Status,
    /// The last lines, without control characters.
    pub(super) lines: VecDeque<String>,
}

impl Ended {
    pub(super) fn said(&self, what: &str) -> bool {
        self.lines.iter().any(|line| line.contains(what))
    }

    /// The line that says best what went wrong.
    pub(super) fn complaint(&self) -> Option<&str> {
        let complains = |line: &&String| line.starts_with("E: ") || line.starts_with("dpkg: error");
        // The first complaint is the cause; those after it are its consequences.
        self.lines.iter().find(complains).or(self.lines.back()).map(String::as_str)
    }
}

/// Runs a tool that changes something, and follows what it does.
pub(super) async fn follow(command: &Command, job: &Job<'_>) -> Result<Ended> {
    let mut following = Following {
        lines: command.spawn().map_err(Error::new)?.lines(),
        kept: VecDeque::new(),
        progress: Progress::default(),
        job,
    };
    tracing::debug!(target: "mgmt::resource", resource = %job.id, "running {:?}", command.argv);
    match following.run().await? {
        Some(status) => Ok(Ended { status, lines: following.kept }),
        None => {
            let stop = following.lines.stop(Signal::TERM, Some(GRACE));
            // Giving it up kills the whole group.
            tokio::select! {
                _ = stop => {}
                () = job.cancel.interrupted() => {}
            }
            Err(Error::Cancelled)
        }
    }
}

/// Runs a tool that only answers, and gives its answer.
pub(super) async fn ask(mut command: Command, job: &Job<'_>) -> Result<(Ended, Vec<u8>)> {
    command.capture_limit = LONGEST;
    let running = command.spawn().map_err(Error::new)?;
    let (cancelled, interrupted) = (job.cancel.cancelled(), job.cancel.interrupted());
    let finished =
        running.wait_with(cancelled, interrupted, Signal::TERM, Some(GRACE)).await.map_err(Error::new)?;
    if matches!(finished.status, Status::Cancelled | Status::Interrupted) {
        return Err(Error::Cancelled);
    }
    if finished.stdout.dropped > 0 {
        return Err(Error::new(format_args!("{} says too much", shown(command.argv[0].as_encoded_bytes()))));
    }
    let errors = finished.stderr.bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let lines = errors.take(KEPT.0).map(shown).collect();
    Ok((Ended { status: finished.status, lines }, finished.stdout.bytes))
}

/// A command of `apt` or `dpkg` that asks nobody anything.
pub(super) fn command<A: Into<OsString>>(argv: impl IntoIterator<Item = A>) -> Command {
    let mut command = Command::new(argv);
    let fixed = [
        // Scripts of packages find their programs here.
        ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
        ("HOME", "/root"),
        ("TERM", "dumb"),
        // What is said is read by us.
        ("LC_ALL", "C"),
        ("DEBIAN_FRONTEND", "noninteractive"),
        ("DEBCONF_NONINTERACTIVE_SEEN", "true"),
        ("APT_LISTCHANGES_FRONTEND", "none"),
        ("APT_LISTBUGS_FRONTEND", "none"),
        ("UCF_FORCE_CONFFOLD", "1"),
        // Services are ours to restart, or not.
        ("NEEDRESTART_MODE", "l"),
    ];
    command.env = fixed.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
    let passed = ["http_proxy", "https_proxy", "ftp_proxy", "no_proxy", "all_proxy"];
    let passed = passed.into_iter().flat_map(|name| [name.to_owned(), name.to_uppercase()]);
    command.env.extend(passed.filter_map(|name| Some((OsString::from(&name), std::env::var_os(&name)?))));
    command
}

struct Following<'a> {
    lines: Lines,
    kept: VecDeque<String>,
    progress: Progress,
    job: &'a Job<'a>,
}

impl Following<'_> {
    /// Reads until the end. Nothing if it has to be stopped before.
    async fn run(&mut self) -> Result<Option<Status>> {
        let mut patience: Option<Instant> = None;
        loop {
            let stage = self.job.cancel.stage();
            let event = tokio::select! {
                event = self.lines.next() => event.map_err(Error::new)?,
                () = self.job.cancel.cancelled(), if stage == Stage::Run => {
                    if !self.progress.is_working {
                        return Ok(None);
                    }
                    tracing::info!(
                        target: "mgmt::resource", resource = %self.job.id,
                        "asked to stop, but packages are being installed or removed; that is finished first"
                    );
                    patience = Some(Instant::now() + PATIENCE);
                    continue;
                }
                () = self.job.cancel.interrupted() => return Ok(None),
                () = tokio::time::sleep_until(patience.unwrap_or_else(Instant::now)), if patience.is_some() => {
                    return Ok(None);
                }
            };
            match event {
                LineEvent::Line(line) => self.hear(&line.bytes),
                LineEvent::Ended(status) => return Ok(Some(status)),
                LineEvent::Closed => {}
            }
        }
    }

    fn hear(&mut self, line: &[u8]) {
        let id = self.job.id;
        match self.progress.read(line) {
            Read::News(news) => tracing::info!(target: "mgmt::resource", resource = %id, "{news}"),
            Read::Progress => {}
            Read::Other => {
                // Some lines are written over and over again, with a carriage return before each.
                let last = line.rsplit(|byte| *byte == b'\r').find(|part| !part.trim_ascii().is_empty());
                let Some(last) = last else { return };
                let text = shown(last.trim_ascii_end());
                tracing::debug!(target: "mgmt::resource", resource = %id, "{text}");
                if self.kept.len() >= KEPT.0 {
                    self.kept.pop_front();
                }
                self.kept.push_back(text);
            }
        }
    }
}

/// How far a transaction is, from the lines that `apt` writes for programs.
#[derive(Debug, Default)]
struct Progress {
    /// Packages are being unpacked, configured or removed.
    is_working: bool,
    /// What was told last: of which phase, and how many percent.
    told: Option<(bool, u8)>,
}

#[derive(Debug, PartialEq)]
enum Read {
    /// Something worth telling.
    News(String),
    /// Nothing to tell.
    Progress,
    /// Not a line about progress.
    Other,
}

impl Progress {
    fn read(&mut self, line: &[u8]) -> Read {
        let (working, rest) = match (line.strip_prefix(b"pmstatus:"), line.strip_prefix(b"dlstatus:")) {
            (Some(rest), _) => (true, rest),
            (_, Some(rest)) => (false, rest),
            _ if line.starts_with(b"media-change:") || line.starts_with(b"pmconffile:") => {
                return Read::Progress;
            }
            _ => return Read::Other,
        };
        self.is_working |= working;
        let text = String::from_utf8_lossy(rest);
        // What it is about, percent, and a sentence.
        let mut parts = text.splitn(3, ':');
        let (_, percent, sentence) = (parts.next(), parts.next(), parts.next());
        let percent: f64 = percent.and_then(|percent| percent.parse().ok()).unwrap_or(0.0);
        // In range, and a fraction of a percent is nobody's concern.
        let percent = percent.clamp(0.0, 100.0) as u8;
        let due = match self.told {
            Some((phase, before)) if phase == working => percent >= before.saturating_add(STEP),
            _ => true,
        };
        if !due {
            return Read::Progress;
        }
        self.told = Some((working, percent));
        Read::News(format!("{percent}%: {}", shown(sentence.unwrap_or_default().as_bytes())))
    }
}

/// One line for people: bounded, and without anything that a terminal would obey.
fn shown(line: &[u8]) -> String {
    match line.get(..KEPT.1) {
        Some(head) if line.len() > KEPT.1 => format!("{}…", Str::new(head).display()),
        _ => Str::new(line).display().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_told_in_steps_and_everything_else_is_left() {
        let mut progress = Progress::default();
        assert_eq!(progress.read(b"Setting up demo (1.0) ..."), Read::Other);
        assert_eq!(progress.read(b"dlstatus:1:20.5:Retrieving"), Read::News("20%: Retrieving".into()));
        assert!(!progress.is_working);
        assert_eq!(progress.read(b"dlstatus:1:25:Retrieving"), Read::Progress);
        assert_eq!(progress.read(b"dlstatus:1:30.5:Retrieving"), Read::News("30%: Retrieving".into()));
        assert_eq!(progress.read(b"pmstatus:a:0:Preparing a: b"), Read::News("0%: Preparing a: b".into()));
        assert!(progress.is_working);
        for strange in
            [&b"pmstatus:"[..], b"pmstatus:a", b"pmstatus:a:x:", b"pmstatus:a:-7:", b"pmstatus:a:nan:y"]
        {
            assert_eq!(progress.read(strange), Read::Progress);
        }
        assert_eq!(progress.read(b"pmstatus:a:1e99:\x1b[2J"), Read::News("100%: \\x1b[2J".into()));
    }

    #[test]
    fn the_first_complaint_is_the_cause() {
        let ended = |lines: &[&str]| Ended {
            status: Status::Exited(100),
            lines: lines.iter().map(|line| (*line).to_owned()).collect(),
        };
        assert_eq!(ended(&["a", "E: one", "E: two", "b"]).complaint(), Some("E: one"));
        assert_eq!(ended(&["a", "b"]).complaint(), Some("b"));
        assert_eq!(ended(&[]).complaint(), None);
    }
}
