//! An entry as the line that is kept of it: what a [`Record`](crate::Record) reads, written without becoming one.
//!
//! Thousands of these are written in the time in which thousands of files are, so nothing is copied that only has to be
//! shown, and what most of them have is written without asking what it looks like in JSON. The tests hold both together.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mgmt_engine::{Cause, MemberEffects};
use mgmt_resource::{Effect, Id, Origin, Texts};
use mgmt_sys::aside::checksum;
use serde::Serialize;

use crate::record::version;
use crate::{CauseRecord, Outcome, unified};

/// The longest difference of texts that is kept.
const LONGEST_DIFF: usize = 4096;

/// A record to be: what is known, where it is.
pub(crate) struct Entry<'a> {
    pub(crate) time: SystemTime,
    pub(crate) id: &'a Id,
    pub(crate) outcome: Outcome,
    pub(crate) message: Option<&'a str>,
    pub(crate) took: Duration,
    pub(crate) since: Option<Duration>,
    pub(crate) deploy: u64,
    pub(crate) origin: Option<&'a Origin>,
    pub(crate) causes: &'a [Cause],
    pub(crate) effects: &'a Arc<Vec<MemberEffects>>,
    /// Values behind it may be in a parameter that is a secret.
    pub(crate) private: bool,
}

/// One that is written later, on another thread.
pub(crate) struct Kept {
    time: SystemTime,
    id: Id,
    outcome: Outcome,
    message: Option<Box<str>>,
    took: Duration,
    since: Option<Duration>,
    deploy: u64,
    origin: Option<Origin>,
    causes: Box<[Cause]>,
    effects: Arc<Vec<MemberEffects>>,
    private: bool,
}

impl Kept {
    pub(crate) fn entry(&self) -> Entry<'_> {
        Entry {
            time: self.time,
            id: &self.id,
            outcome: self.outcome,
            message: self.message.as_deref(),
            took: self.took,
            since: self.since,
            deploy: self.deploy,
            origin: self.origin.as_ref(),
            causes: &self.causes,
            effects: &self.effects,
            private: self.private,
        }
    }
}

impl Entry<'_> {
    /// Whether it takes no time worth mentioning to write it: no texts are compared.
    pub(crate) fn is_short(&self) -> bool {
        self.effects.iter().flat_map(|member| &member.effects).all(|effect| effect.shown_texts().is_none())
    }

    /// For later.
    pub(crate) fn keep(&self) -> Kept {
        Kept {
            time: self.time,
            id: self.id.clone(),
            outcome: self.outcome,
            message: self.message.map(Into::into),
            took: self.took,
            since: self.since,
            deploy: self.deploy,
            origin: self.origin.cloned(),
            causes: self.causes.into(),
            effects: Arc::clone(self.effects),
            private: self.private,
        }
    }

    /// Appends it to a text, as a line with its end: the fields of a `Record`, in its order and by its rules.
    pub(crate) fn write(&self, clock: &mut Clock, text: &mut Vec<u8>) {
        let microseconds = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let begin = text.len();
        let mut line = Object::begin(text);
        line.number("v", version(self.outcome).into());
        line.text("time", clock.shown(self.time));
        line.shown("resource", self.id);
        line.json("outcome", &self.outcome);
        line.if_any("message", self.message);
        line.number("took", microseconds(self.took));
        if let Some(since) = self.since {
            line.number("since", microseconds(since));
        }
        if self.deploy > 0 {
            line.number("deploy", self.deploy);
        }
        if let Some(origin) = self.origin {
            line.shown("origin", origin);
        }
        let private = self.is_private();
        line.list("causes", self.causes.iter(), |text, cause| write_cause(text, cause, private));
        let effects = self.effects.iter().flat_map(|member| {
            let whose = Some(&member.id).filter(|id| *id != self.id);
            member.effects.iter().map(move |effect| (whose, effect))
        });
        line.list("effects", effects, |text, (whose, effect)| write_effect(text, whose, effect));
        let sum = checksum(&text[begin..]);
        text.extend_from_slice(SUM.as_bytes());
        text.extend_from_slice(format!("{sum:016x}").as_bytes());
        text.extend_from_slice(SUM_END.as_bytes());
    }

    /// Whether the values in its causes are for nobody to see.
    fn is_private(&self) -> bool {
        let mut told = self.effects.iter().flat_map(|member| &member.effects).peekable();
        // Who failed before it said what it would change has not said either that nobody may see that.
        let is_silent = self.outcome == Outcome::Failed && told.peek().is_none();
        self.private || is_silent || told.any(|effect| effect.private)
    }
}

/// The last member of a line: a checksum of all before it.
const SUM: &str = ",\"sum\":\"";
const SUM_END: &str = "\"}\n";

/// Whether a line is what was written. Lines of earlier versions have no checksum.
pub(crate) fn is_intact(line: &[u8]) -> bool {
    let sum = line
        .strip_suffix(SUM_END.as_bytes())
        .and_then(|line| line.split_at_checked(line.len().checked_sub(16)?));
    let Some((members, sum)) = sum.and_then(|(line, sum)| Some((line.strip_suffix(SUM.as_bytes())?, sum)))
    else {
        return true;
    };
    format!("{:016x}", checksum(members)).as_bytes() == sum
}

fn write_cause(text: &mut Vec<u8>, cause: &Cause, private: bool) {
    match cause {
        // That of most records.
        Cause::Declared { because: None } => text.extend_from_slice(br#"{"kind":"declared"}"#),
        cause => write_json(text, &CauseRecord::new(cause, private)),
    }
}

/// `whose`: the member of the group, if it is not the resource itself.
fn write_effect(text: &mut Vec<u8>, whose: Option<&Id>, effect: &Effect) {
    // Whoever gives an effect another field decides here whether it is kept.
    let Effect { action, what, aspect, before, after, opaque, private, texts: _, presumed: _ } = effect;
    let mut line = Object::begin(text);
    if let Some(whose) = whose {
        line.shown("resource", whose);
    }
    line.text("action", action.word());
    line.text("what", what);
    line.if_any("aspect", aspect.as_deref());
    line.if_any("before", before.as_deref());
    line.if_any("after", after.as_deref());
    for (name, is_so) in [("opaque", *opaque), ("private", *private)] {
        if is_so {
            line.json(name, &true);
        }
    }
    let diff = effect.shown_texts().and_then(|texts| difference(what, texts));
    line.if_any("diff", diff.as_deref());
    line.end();
}

/// An object that is being written at the end of a text.
struct Object<'a> {
    text: &'a mut Vec<u8>,
    is_empty: bool,
}

impl Object<'_> {
    fn begin(text: &mut Vec<u8>) -> Object<'_> {
        text.push(b'{');
        Object { text, is_empty: true }
    }

    /// Names are our own, and need no escapes.
    fn name(&mut self, name: &str) {
        if !std::mem::take(&mut self.is_empty) {
            self.text.push(b',');
        }
        self.text.push(b'"');
        self.text.extend_from_slice(name.as_bytes());
        self.text.extend_from_slice(b"\":");
    }

    fn text(&mut self, name: &str, value: &str) {
        self.name(name);
        self.text.push(b'"');
        write_in_quotes(self.text, value);
        self.text.push(b'"');
    }

    fn if_any(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.text(name, value);
        }
    }

    /// Something in the words that it is shown with.
    fn shown(&mut self, name: &str, value: impl fmt::Display) {
        use fmt::Write as _;
        self.name(name);
        self.text.push(b'"');
        // Writing to memory cannot fail.
        let _ = write!(InQuotes(self.text), "{value}");
        self.text.push(b'"');
    }

    fn number(&mut self, name: &str, value: u64) {
        self.json(name, &value);
    }

    fn json(&mut self, name: &str, value: &impl Serialize) {
        self.name(name);
        write_json(self.text, value);
    }

    /// Nothing, if there are none.
    fn list<T>(&mut self, name: &str, items: impl Iterator<Item = T>, write: impl Fn(&mut Vec<u8>, T)) {
        let mut is_first = true;
        for item in items {
            if std::mem::take(&mut is_first) {
                self.name(name);
                self.text.push(b'[');
            } else {
                self.text.push(b',');
            }
            write(self.text, item);
        }
        if !is_first {
            self.text.push(b']');
        }
    }

    fn end(self) {
        self.text.push(b'}');
    }
}

fn write_json(text: &mut Vec<u8>, value: &impl Serialize) {
    // Our own types always have a form in JSON, and memory takes everything.
    let _ = serde_json::to_writer(text, value);
}

/// What is written within the quotes of a string.
struct InQuotes<'a>(&'a mut Vec<u8>);

impl fmt::Write for InQuotes<'_> {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        write_in_quotes(self.0, part);
        Ok(())
    }
}

fn write_in_quotes(text: &mut Vec<u8>, part: &str) {
    let is_plain = part.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\');
    if is_plain {
        text.extend_from_slice(part.as_bytes());
        return;
    }
    // With its own quotes, of which those at both ends go again.
    let quote = text.len();
    write_json(text, &part);
    text.remove(quote);
    text.pop();
}

/// Moments as text, to the microsecond, in UTC. Of many records in a second, the date is worked out for the first alone.
#[derive(Default)]
pub(crate) struct Clock {
    /// Which second the text begins with.
    second: Option<u64>,
    text: String,
}

impl Clock {
    fn shown(&mut self, time: SystemTime) -> &str {
        use std::fmt::Write as _;
        let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        if self.second != Some(since.as_secs()) {
            let second = SystemTime::UNIX_EPOCH + Duration::from_secs(since.as_secs());
            self.text.clear();
            // Writing to a string cannot fail, here and below.
            let _ = write!(self.text, "{:.0}", jiff::Timestamp::try_from(second).unwrap_or_default());
            self.second = Some(since.as_secs());
        }
        self.text.truncate(SECOND);
        let _ = write!(self.text, ".{:06}Z", since.subsec_micros());
        &self.text
    }
}

/// How long a moment is without what is less than a second.
const SECOND: usize = "2023-11-14T22:13:20".len();

/// How a text changed, if it was one and is not too long. Of what is new, the declaration tells enough.
fn difference(name: &str, texts: &Texts) -> Option<Box<str>> {
    let before = std::str::from_utf8(texts.before.as_deref()?).ok()?;
    let after = std::str::from_utf8(texts.after.as_deref()?).ok()?;
    let mut diff = unified(name, before, after);
    if diff.len() > LONGEST_DIFF {
        let end = (0..=LONGEST_DIFF).rev().find(|end| diff.is_char_boundary(*end)).unwrap_or(0);
        diff.truncate(end);
        diff.push('…');
    }
    Some(diff.into())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that panics is a test that fails")]
mod tests {
    use super::*;
    use crate::Record;

    fn kept() -> Kept {
        let effect = |what: &str| Effect::change(what).aspect("mode").before("a\"").after("b\n");
        let text = effect("/t").texts(Some(b"one\n"), Some(b"two\n"));
        let members = vec![
            MemberEffects { id: Id::new("file", "/a"), effects: vec![effect("/a"), text] },
            MemberEffects { id: Id::new("file", "/b\u{1}"), effects: vec![Effect::run("/bin/true")] },
        ];
        Kept {
            time: SystemTime::UNIX_EPOCH + Duration::from_nanos(1_700_000_000_123_456_789),
            id: Id::new("file", "/a"),
            outcome: Outcome::Changed,
            message: Some("why \"not\"".into()),
            took: Duration::from_micros(1500),
            since: Some(Duration::from_millis(2)),
            deploy: 7,
            origin: Some(Origin { file: "main.mcl".into(), line: 3, column: 5 }),
            causes: [
                Cause::Declared { because: None },
                Cause::Event(vec!["/a".to_owned()]),
                Cause::Retried { attempts: 2 },
            ]
            .into(),
            effects: Arc::new(members),
            private: false,
        }
    }

    /// What is written and what is read are two descriptions of one form; this holds them together.
    #[track_caller]
    fn is_what_a_record_writes(entry: &Entry<'_>) -> Record {
        let mut line = Vec::new();
        entry.write(&mut Clock::default(), &mut line);
        assert!(is_intact(&line));
        let record: Record = serde_json::from_slice(&line).unwrap();
        let again = serde_json::to_string(&record).unwrap();
        let line = String::from_utf8(line).unwrap();
        let (members, _) = line.split_once(SUM).unwrap();
        assert_eq!(format!("{members}}}"), again);
        record
    }

    #[test]
    fn a_line_reads_as_a_record_that_writes_the_same_line() {
        let kept = kept();
        let record = is_what_a_record_writes(&kept.entry());
        assert_eq!(is_what_a_record_writes(&kept.entry().keep().entry()), record);
        assert!(!kept.entry().is_short());
        assert_eq!(record.time.to_string(), "2023-11-14T22:13:20.123456Z");
        assert_eq!((record.took, record.since, record.deploy), (1500, Some(2000), Some(7)));
        assert_eq!(record.origin.as_deref(), Some("main.mcl:3:5"));
        assert_eq!(record.message.as_deref(), Some("why \"not\""));
        let [first, second, third] = &record.effects[..] else { panic!("{:?}", record.effects) };
        assert_eq!((&first.resource, first.effect.before.as_deref()), (&None, Some("a\"")));
        assert_eq!(second.diff.as_deref(), Some("--- /t\n+++ /t\n@@ -1,1 +1,1 @@\n-one\n+two\n"));
        assert_eq!(third.resource.as_deref(), Some(&*Id::new("file", "/b\u{1}").to_string()));
        assert!(third.effect.opaque);
        assert_eq!(record.causes.len(), 3);
    }

    #[test]
    fn a_flipped_bit_is_noticed_or_changes_nothing() {
        let mut line = Vec::new();
        kept().entry().write(&mut Clock::default(), &mut line);
        let record: Record = serde_json::from_slice(&line).unwrap();
        for at in 0..line.len() {
            for bit in 0..8 {
                let mut damaged = line.clone();
                damaged[at] ^= 1 << bit;
                let read = is_intact(&damaged).then(|| serde_json::from_slice::<Record>(&damaged).ok());
                assert!(read.flatten().is_none_or(|read| read == record), "{at}.{bit}");
            }
        }
    }

    #[test]
    fn a_clock_shows_what_the_library_shows() {
        let mut clock = Clock::default();
        for nanoseconds in [
            0,
            999,
            1_000,
            999_999_999,
            1_000_000_000,
            1_700_000_000_123_456_789,
            1_700_000_000_999_999_999,
            1_700_000_001_000_000_001,
            1_700_000_000_000_000_000,
        ] {
            let time = SystemTime::UNIX_EPOCH + Duration::from_nanos(nanoseconds);
            let expected = format!("{:.6}", jiff::Timestamp::try_from(time).unwrap());
            assert_eq!(clock.shown(time), expected);
        }
        // A clock that is far off stops nothing.
        assert_eq!(
            clock.shown(SystemTime::UNIX_EPOCH - Duration::from_secs(1)),
            "1970-01-01T00:00:00.000000Z"
        );
    }

    #[test]
    fn what_is_not_there_is_not_in_the_line() {
        let (kept, nothing) = (kept(), Arc::default());
        let bare = Entry {
            message: None,
            since: None,
            deploy: 0,
            origin: None,
            causes: &[],
            effects: &nothing,
            ..kept.entry()
        };
        assert!(bare.is_short());
        let record = is_what_a_record_writes(&bare);
        assert_eq!((record.message, record.since, record.deploy, record.origin), (None, None, None, None));
        assert!(record.causes.is_empty() && record.effects.is_empty());
    }
}
