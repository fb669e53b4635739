//! What is not lost by a restart: notifications, and when resources that may run at some times only ran last.
//!
//! A line is appended when a notification becomes pending, when it has been acknowledged, and around each run that
//! could cause one. A program that is killed in between finds at its next start what was pending, and which runs it
//! does not know the end of: those are taken to have changed something. Lines reach the page cache, which outlives the
//! program; they are not forced to the disk.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use mgmt_resource::Id;
use serde_json::{Value as Json, json};

/// Rewritten when it has more lines than this that say nothing any more.
const SLACK: usize = 4096;
/// A file larger than this is not ours.
const LIMIT: u64 = 64 << 20;

/// How long it is known when a resource ran last, in seconds: longer than any window keeps one waiting.
const MEMORY: i64 = 62 * 86_400;
/// Of how many resources it is known.
const MOST: usize = 100_000;

type Name = (String, Vec<u8>);

/// When resources ran last that may run at some times only, in seconds.
#[derive(Clone, Debug, Default)]
pub struct LastRuns(BTreeMap<Name, i64>);

impl LastRuns {
    /// What a journal says, be it that of a program that runs. Nothing, if there is none that can be read.
    pub fn read(journal: &Path) -> LastRuns {
        let readable = std::fs::metadata(journal).is_ok_and(|found| found.len() <= LIMIT);
        let text = readable.then(|| std::fs::read(journal).ok()).flatten().unwrap_or_default();
        Journal::replayed(PathBuf::new(), &String::from_utf8_lossy(&text)).last
    }

    /// When one did.
    pub fn of(&self, id: &Id) -> Option<i64> {
        self.0.get(&name(id)).copied()
    }

    /// Forgets what makes no difference any more, so that there is an end to it.
    fn forget_old(&mut self) {
        let Some(newest) = self.0.values().max().copied() else { return };
        self.0.retain(|_, last| newest.saturating_sub(*last) <= MEMORY);
        if self.0.len() > MOST {
            let mut times: Vec<i64> = self.0.values().copied().collect();
            times.sort_unstable_by_key(|last| Reverse(*last));
            self.0.retain(|_, last| *last > times[MOST]);
        }
    }
}

/// What is wrong with a journal, apart from its last line: that may be half of one, if the program was killed.
fn damage(text: &str) -> Option<String> {
    let lines = text.split_inclusive('\n').enumerate();
    let mut whole = lines.filter(|(_, line)| line.ends_with('\n'));
    let (at, _) = whole.find(|(_, line)| serde_json::from_str::<Json>(line).is_err())?;
    Some(format!("line {} is not one of a journal", at + 1))
}

fn set_aside(path: &Path, reason: &str) {
    let said = mgmt_sys::aside::set_aside_and_describe(path, reason);
    tracing::error!(
        "{said}; lost: notifications that were pending in damaged lines, and when resources ran last"
    );
}

/// What an earlier life left in a file. A damaged one is set aside. One that cannot be read now, for example for want of descriptors,
/// may be intact, and is an error.
fn earlier(path: &Path) -> io::Result<String> {
    let text = match std::fs::metadata(path) {
        Ok(found) if !found.is_file() => Err("it is no regular file".to_owned()),
        Ok(found) if found.len() > LIMIT => Err("it is too large to be a journal".to_owned()),
        Ok(_) => Ok(String::from_utf8_lossy(&std::fs::read(path)?).into_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(String::new()),
        Err(error) => return Err(error),
    };
    if let Some(reason) = text.as_ref().map_or_else(|reason| Some(reason.clone()), |text| damage(text)) {
        set_aside(path, &reason);
    }
    Ok(text.unwrap_or_default())
}

/// The file of pending notifications.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    file: Option<File>,
    pending: BTreeSet<(Name, Name)>,
    running: BTreeSet<Name>,
    /// Of the last life: runs whose end is not known.
    unfinished: BTreeSet<Name>,
    last: LastRuns,
    lines: usize,
}

impl Journal {
    /// Reads what an earlier life left. A damaged line, such as the last one of a killed program, is passed over. A file that
    /// cannot be written, for example because the disk is full, keeps no host from being managed: what is written down later goes into
    /// the old file, or into a new one as soon as there is room.
    pub(crate) fn open(path: PathBuf) -> io::Result<Journal> {
        let text = earlier(&path)?;
        let mut journal = Journal::replayed(path, &text);
        if let Err(error) = journal.rewrite() {
            journal.report(&error);
            journal.file = OpenOptions::new().append(true).open(&journal.path).ok();
        }
        Ok(journal)
    }

    /// What a text says, before anything is written. What is right of a damaged one counts.
    fn replayed(path: PathBuf, text: &str) -> Journal {
        let mut journal = Journal {
            path,
            file: None,
            pending: BTreeSet::new(),
            running: BTreeSet::new(),
            unfinished: BTreeSet::new(),
            last: LastRuns::default(),
            lines: 0,
        };
        text.lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .for_each(|line| journal.replay(&line));
        journal.unfinished = std::mem::take(&mut journal.running);
        journal
    }

    fn replay(&mut self, line: &Json) {
        let Some((word, names)) = line.as_array().and_then(|parts| parts.split_first()) else { return };
        if word == "last" {
            if let [id, time] = names
                && let (Some(id), Some(time)) = (name_from_json(id), time.as_i64())
            {
                self.last.0.insert(id, time);
            }
            return;
        }
        let names: Option<Vec<Name>> = names.iter().map(name_from_json).collect();
        match (word.as_str(), names.as_deref()) {
            (Some("pending"), Some([from, to])) => {
                self.pending.insert((from.clone(), to.clone()));
            }
            (Some("done"), Some([from, to])) => {
                self.pending.remove(&(from.clone(), to.clone()));
            }
            (Some("run"), Some([id])) => {
                self.running.insert(id.clone());
            }
            (Some("ran"), Some([id])) => {
                self.running.remove(id);
            }
            _ => {}
        }
    }

    /// Whether a notification was pending when the program last ended, or may have been.
    pub(crate) fn was_pending(&self, from: &Id, to: &Id) -> bool {
        let (from, to) = (name(from), name(to));
        self.unfinished.contains(&from) || self.pending.contains(&(from, to))
    }

    /// When a resource ran last, if that was noted.
    pub(crate) fn last_run(&self, id: &Id) -> Option<i64> {
        self.last.of(id)
    }

    /// A resource that may run at some times only has run.
    pub(crate) fn ran_at(&mut self, id: &Id, time: i64) {
        let name = name(id);
        let line = json!(["last", to_json(&name), time]);
        if self.last.0.insert(name, time) != Some(time) {
            self.append(&line);
        }
    }

    /// A notification is pending, or no longer.
    pub(crate) fn set_pending(&mut self, from: &Id, to: &Id, pending: bool) {
        let pair = (name(from), name(to));
        let line = json!([if pending { "pending" } else { "done" }, to_json(&pair.0), to_json(&pair.1)]);
        let news = if pending { self.pending.insert(pair) } else { self.pending.remove(&pair) };
        if news {
            self.append(&line);
        }
    }

    /// A run begins that may cause notifications.
    pub(crate) fn begin(&mut self, id: &Id) {
        let name = name(id);
        let line = json!(["run", to_json(&name)]);
        if self.running.insert(name) {
            self.append(&line);
        }
    }

    /// It has ended, and what it causes has been written down.
    pub(crate) fn end(&mut self, id: &Id) {
        let name = name(id);
        self.unfinished.remove(&name);
        if self.running.remove(&name) {
            self.append(&json!(["ran", to_json(&name)]));
        }
    }

    fn append(&mut self, line: &Json) {
        self.lines += 1;
        let useful = self.pending.len() + self.running.len() + self.unfinished.len() + self.last.0.len();
        let result = match &mut self.file {
            // One write for the whole line, so that a kill leaves it whole or absent.
            Some(file) if self.lines <= useful * 2 + SLACK => file.write_all(format!("{line}\n").as_bytes()),
            _ => self.rewrite(),
        };
        if let Err(error) = result {
            self.report(&error);
        }
    }

    /// The run itself goes on: what is at stake is a notification or a time, and only if we are killed now.
    fn report(&self, error: &io::Error) {
        tracing::warn!("cannot write {}: {error}", self.path.display());
    }

    /// Writes the present state into a new file and puts it in place of the old one.
    fn rewrite(&mut self) -> io::Result<()> {
        let temporary = self.path.with_extension("new");
        let written = self.replace_with(&temporary);
        if written.is_err() {
            // A partial file would only take up space.
            let _ = std::fs::remove_file(&temporary);
        }
        written
    }

    fn replace_with(&mut self, temporary: &Path) -> io::Result<()> {
        let mut file = private(temporary)?;
        let mut text = String::new();
        for (from, to) in &self.pending {
            text += &format!("{}\n", json!(["pending", to_json(from), to_json(to)]));
        }
        for id in self.running.iter().chain(&self.unfinished) {
            text += &format!("{}\n", json!(["run", to_json(id)]));
        }
        self.last.forget_old();
        for (id, time) in &self.last.0 {
            text += &format!("{}\n", json!(["last", to_json(id), time]));
        }
        self.lines = text.lines().count();
        file.write_all(text.as_bytes())?;
        std::fs::rename(temporary, &self.path)?;
        self.file = Some(file);
        Ok(())
    }
}

fn private(path: &Path) -> io::Result<File> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    OpenOptions::new().create_new(true).append(true).mode(0o600).open(path)
}

fn name(id: &Id) -> Name {
    (id.kind.to_owned(), id.name.as_bytes().to_vec())
}

fn to_json(name: &Name) -> Json {
    json!([name.0, mgmt_value::to_json(&mgmt_value::Value::str(&name.1))])
}

fn name_from_json(json: &Json) -> Option<Name> {
    let [kind, name] = json.as_array()?.as_slice() else { return None };
    let mgmt_value::Value::Str(name) = mgmt_value::from_json(name, &mgmt_value::Type::Str).ok()? else {
        return None;
    };
    Some((kind.as_str()?.to_owned(), name.as_bytes().to_vec()))
}

/// How much a journal says is open: for tests with hostile ones.
#[doc(hidden)]
pub fn read_hostile_journal(bytes: &[u8]) -> usize {
    let journal = Journal::replayed(PathBuf::new(), &String::from_utf8_lossy(bytes));
    journal.pending.len() + journal.unfinished.len() + journal.last.0.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(directory: &tempfile::TempDir) -> Journal {
        Journal::open(directory.path().join("notifications")).unwrap()
    }

    #[test]
    fn what_was_pending_is_known_to_the_next_life() {
        let directory = tempfile::tempdir().unwrap();
        let (a, b, c) = (Id::new("file", "/a"), Id::new("exec", "b\nc"), Id::new("exec", b"\xff".as_slice()));
        let mut journal = open(&directory);
        journal.set_pending(&a, &b, true);
        journal.set_pending(&a, &c, true);
        journal.set_pending(&a, &b, false);
        drop(journal);
        let journal = open(&directory);
        assert!(!journal.was_pending(&a, &b));
        assert!(journal.was_pending(&a, &c));
    }

    #[test]
    fn a_run_whose_end_is_unknown_counts_as_a_change() {
        let directory = tempfile::tempdir().unwrap();
        let (a, b) = (Id::new("file", "/a"), Id::new("exec", "b"));
        let mut journal = open(&directory);
        journal.begin(&a);
        drop(journal);
        let mut journal = open(&directory);
        assert!(journal.was_pending(&a, &b));
        journal.begin(&a);
        journal.end(&a);
        assert!(!journal.was_pending(&a, &b));
        drop(journal);
        assert!(!open(&directory).was_pending(&a, &b));
    }

    #[test]
    fn a_torn_or_foreign_line_is_passed_over() {
        let directory = tempfile::tempdir().unwrap();
        let (a, b) = (Id::new("file", "/a"), Id::new("exec", "b"));
        open(&directory).set_pending(&a, &b, true);
        let path = directory.path().join("notifications");
        let mut text = std::fs::read(&path).unwrap();
        text.extend_from_slice(b"\xff\xfe{\n[1,2]\n[\"pending\", [\"file");
        std::fs::write(&path, text).unwrap();
        assert!(open(&directory).was_pending(&a, &b));
    }

    #[test]
    fn where_no_file_can_be_made_the_old_one_goes_on_and_a_new_one_is_made_later() {
        let directory = tempfile::tempdir().unwrap();
        let (a, b) = (Id::new("file", "/a"), Id::new("exec", "b"));
        open(&directory).set_pending(&a, &b, true);
        let in_the_way = directory.path().join("notifications.new");
        std::fs::create_dir(&in_the_way).unwrap();
        let mut journal = open(&directory);
        assert!(journal.was_pending(&a, &b));
        journal.set_pending(&a, &b, false);
        journal.set_pending(&b, &a, true);
        drop(journal);
        let journal = open(&directory);
        assert!(!journal.was_pending(&a, &b) && journal.was_pending(&b, &a));
        drop(journal);
        std::fs::remove_file(directory.path().join("notifications")).unwrap();
        let mut journal = open(&directory);
        journal.set_pending(&a, &b, true);
        std::fs::remove_dir(&in_the_way).unwrap();
        journal.set_pending(&b, &a, true);
        drop(journal);
        let journal = open(&directory);
        assert!(journal.was_pending(&a, &b) && journal.was_pending(&b, &a));
    }

    #[test]
    fn what_is_no_file_is_set_aside() {
        let directory = tempfile::tempdir().unwrap();
        let (a, b) = (Id::new("file", "/a"), Id::new("exec", "b"));
        std::fs::create_dir(directory.path().join("notifications")).unwrap();
        open(&directory).set_pending(&a, &b, true);
        assert!(directory.path().join("notifications.damaged-1").is_dir());
        assert!(open(&directory).was_pending(&a, &b));
    }

    #[test]
    fn the_file_does_not_grow_without_bound() {
        let directory = tempfile::tempdir().unwrap();
        let mut journal = open(&directory);
        let a = Id::new("file", "/a");
        for _ in 0..20_000 {
            journal.begin(&a);
            journal.end(&a);
        }
        assert!(std::fs::metadata(directory.path().join("notifications")).unwrap().len() < 400_000);
    }

    #[test]
    fn when_something_ran_last_is_known_to_the_next_life_and_forgotten_in_the_end() {
        let directory = tempfile::tempdir().unwrap();
        let (a, b) = (Id::new("exec", "a"), Id::new("file", b"/\xff\n".as_slice()));
        let mut journal = open(&directory);
        journal.ran_at(&a, 1000);
        journal.ran_at(&a, 2000);
        journal.ran_at(&b, 3000);
        drop(journal);
        let path = directory.path().join("notifications");
        assert_eq!((LastRuns::read(&path).of(&a), LastRuns::read(&path).of(&b)), (Some(2000), Some(3000)));
        let mut journal = open(&directory);
        assert_eq!((journal.last_run(&a), journal.last_run(&b)), (Some(2000), Some(3000)));
        journal.ran_at(&b, 2001 + MEMORY);
        drop(journal);
        let journal = open(&directory);
        assert_eq!((journal.last_run(&a), journal.last_run(&b)), (None, Some(2001 + MEMORY)));
        assert_eq!(LastRuns::read(&directory.path().join("none")).of(&a), None);
    }

    #[test]
    fn of_too_many_the_latest_are_known() {
        let mut last = LastRuns::default();
        for number in 0..=MOST {
            last.0
                .insert(("exec".to_owned(), number.to_string().into_bytes()), i64::try_from(number).unwrap());
        }
        last.forget_old();
        assert_eq!((last.0.len(), last.of(&Id::new("exec", "0"))), (MOST, None));
    }
}
