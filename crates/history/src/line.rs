//! An entry as the line that is kept of it: what a [`Record`](crate::Record) reads, written without becoming one.
//!
//! Thousands of these are written in the time in which thousands of files are, so nothing is copied that only has to be
//! shown.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mgmt_engine::{Cause, MemberEffects};
use mgmt_resource::{Action, Effect, Id, Origin, Texts};
use serde::{Serialize, Serializer};

use crate::record::VERSION;
use crate::{CauseRecord, Outcome, unified};

/// The longest difference of texts that is kept.
const LONGEST_DIFF: usize = 4096;

/// A record to be, with as little done to it as possible.
pub(crate) struct Entry {
    pub(crate) time: SystemTime,
    pub(crate) id: Id,
    pub(crate) outcome: Outcome,
    pub(crate) message: Option<String>,
    pub(crate) took: Duration,
    pub(crate) since: Option<Duration>,
    pub(crate) deploy: u64,
    pub(crate) origin: Option<Origin>,
    pub(crate) causes: Vec<Cause>,
    pub(crate) effects: Arc<Vec<MemberEffects>>,
    /// Values behind it may be in a parameter that is a secret.
    pub(crate) private: bool,
}

impl Entry {
    /// Appends it to a text, as a line with its end.
    pub(crate) fn write(&self, clock: &mut Clock, text: &mut Vec<u8>) {
        let whole = text.len();
        // Our own types always have a form in JSON.
        match serde_json::to_writer(&mut *text, &Line::of(self, clock.shown(self.time))) {
            Ok(()) => text.push(b'\n'),
            Err(_) => text.truncate(whole),
        }
    }

    /// Whether the values in its causes are for nobody to see.
    fn is_private(&self) -> bool {
        let mut told = self.effects.iter().flat_map(|member| &member.effects).peekable();
        // Who failed before it said what it would change has not said either that nobody may see that.
        let is_silent = self.outcome == Outcome::Failed && told.peek().is_none();
        self.private || is_silent || told.any(|effect| effect.private)
    }
}

/// The fields of a `Record`, in its order and by its rules.
#[derive(Serialize)]
struct Line<'a> {
    v: u32,
    time: &'a str,
    resource: Shown<&'a Id>,
    outcome: Outcome,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
    took: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deploy: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<Shown<&'a Origin>>,
    #[serde(skip_serializing_if = "Causes::is_empty")]
    causes: Causes<'a>,
    #[serde(skip_serializing_if = "Effects::is_empty")]
    effects: Effects<'a>,
}

impl<'a> Line<'a> {
    fn of(entry: &'a Entry, time: &'a str) -> Line<'a> {
        let microseconds = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        Line {
            v: VERSION,
            time,
            resource: Shown(&entry.id),
            outcome: entry.outcome,
            message: entry.message.as_deref(),
            took: microseconds(entry.took),
            since: entry.since.map(microseconds),
            deploy: Some(entry.deploy).filter(|deploy| *deploy > 0),
            origin: entry.origin.as_ref().map(Shown),
            causes: Causes { causes: &entry.causes, private: entry.is_private() },
            effects: Effects { id: &entry.id, members: &entry.effects },
        }
    }
}

/// Something in the words that it is shown with.
struct Shown<T>(T);

impl<T: fmt::Display> Serialize for Shown<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&self.0)
    }
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

struct Causes<'a> {
    causes: &'a [Cause],
    private: bool,
}

impl Causes<'_> {
    fn is_empty(&self) -> bool {
        self.causes.is_empty()
    }
}

impl Serialize for Causes<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.causes.iter().map(|cause| CauseRecord::new(cause, self.private)))
    }
}

struct Effects<'a> {
    id: &'a Id,
    members: &'a [MemberEffects],
}

impl Effects<'_> {
    fn is_empty(&self) -> bool {
        self.members.iter().all(|member| member.effects.is_empty())
    }
}

impl Serialize for Effects<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.members.iter().flat_map(|member| {
            let whose = Some(&member.id).filter(|id| *id != self.id).cloned();
            member.effects.iter().map(move |effect| EffectLine::of(whose.clone(), effect))
        }))
    }
}

#[derive(Serialize)]
struct EffectLine<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    resource: Option<Shown<Id>>,
    action: Action,
    what: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    aspect: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    opaque: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    private: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    diff: Option<Box<str>>,
}

impl<'a> EffectLine<'a> {
    fn of(whose: Option<Id>, effect: &'a Effect) -> EffectLine<'a> {
        // Whoever gives an effect another field decides here whether it is kept.
        let Effect { action, what, aspect, before, after, opaque, private, texts: _ } = effect;
        EffectLine {
            resource: whose.map(Shown),
            action: *action,
            what,
            aspect: aspect.as_deref(),
            before: before.as_deref(),
            after: after.as_deref(),
            opaque: *opaque,
            private: *private,
            diff: effect.shown_texts().and_then(|texts| difference(what, texts)),
        }
    }
}

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

    fn entry() -> Entry {
        let effect = |what: &str| Effect::change(what).aspect("mode").before("a\"").after("b\n");
        let text = effect("/t").texts(Some(b"one\n"), Some(b"two\n"));
        let members = vec![
            MemberEffects { id: Id::new("file", "/a"), effects: vec![effect("/a"), text] },
            MemberEffects { id: Id::new("file", "/b\u{1}"), effects: vec![Effect::run("/bin/true")] },
        ];
        Entry {
            time: SystemTime::UNIX_EPOCH + Duration::from_nanos(1_700_000_000_123_456_789),
            id: Id::new("file", "/a"),
            outcome: Outcome::Changed,
            message: Some("why \"not\"".to_owned()),
            took: Duration::from_micros(1500),
            since: Some(Duration::from_millis(2)),
            deploy: 7,
            origin: Some(Origin { file: "main.mcl".into(), line: 3, column: 5 }),
            causes: vec![Cause::Event(vec!["/a".to_owned()]), Cause::Retried { attempts: 2 }],
            effects: Arc::new(members),
            private: false,
        }
    }

    /// What is written and what is read are two descriptions of one form; this holds them together.
    #[track_caller]
    fn is_what_a_record_writes(entry: &Entry) -> Record {
        let mut line = Vec::new();
        entry.write(&mut Clock::default(), &mut line);
        let record: Record = serde_json::from_slice(&line).unwrap();
        let again = format!("{}\n", serde_json::to_string(&record).unwrap());
        assert_eq!(String::from_utf8(line).unwrap(), again);
        record
    }

    #[test]
    fn a_line_reads_as_a_record_that_writes_the_same_line() {
        let record = is_what_a_record_writes(&entry());
        assert_eq!(record.time.to_string(), "2023-11-14T22:13:20.123456Z");
        assert_eq!((record.took, record.since, record.deploy), (1500, Some(2000), Some(7)));
        assert_eq!(record.origin.as_deref(), Some("main.mcl:3:5"));
        assert_eq!(record.message.as_deref(), Some("why \"not\""));
        let [first, second, third] = &record.effects[..] else { panic!("{:?}", record.effects) };
        assert_eq!((&first.resource, first.effect.before.as_deref()), (&None, Some("a\"")));
        assert_eq!(second.diff.as_deref(), Some("--- /t\n+++ /t\n@@ -1,1 +1,1 @@\n-one\n+two\n"));
        assert_eq!(third.resource.as_deref(), Some(&*Id::new("file", "/b\u{1}").to_string()));
        assert!(third.effect.opaque);
        assert_eq!(record.causes.len(), 2);
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
        let bare = Entry {
            message: None,
            since: None,
            deploy: 0,
            origin: None,
            causes: Vec::new(),
            effects: Arc::default(),
            ..entry()
        };
        let record = is_what_a_record_writes(&bare);
        assert_eq!((record.message, record.since, record.deploy, record.origin), (None, None, None, None));
        assert!(record.causes.is_empty() && record.effects.is_empty());
    }
}
