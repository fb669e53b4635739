//! Watch table: all watches of one client, what each follows, how far it has come, and what its reader has not taken yet.
//!
//! Nothing here waits or speaks to anybody. The hub puts in what it hears, readers take out what there is, and both learn
//! from the answers what they have to do.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use rustc_hash::{FxBuildHasher, FxHashMap};
use tokio::sync::Notify;
use tokio::time::{Duration, Instant};

use super::keys::Namespace;
use super::wire;
use mgmt_store::{Batch, Entry, Snapshot, Span, StoreError};

/// What a reader that is not asking may leave lying here. Beyond that everything is read again when it asks.
const PENDING_KEYS: usize = 16 * 1024;
const PENDING_BYTES: usize = 8 << 20;

/// A watch is not listed again before this time is over, however often it is lost.
const PACE: Duration = Duration::from_millis(500);

/// The number of a watch, for as long as the client lives.
pub(super) type WatchId = u64;

/// The number under which etcd knows a watch. Never used twice by a client.
pub(super) type Line = i64;

/// All watches of one client.
#[derive(Debug, Default)]
pub(super) struct WatchTable {
    next: WatchId,
    watches: BTreeMap<WatchId, Follow>,
    /// Watches that are lost and whose reader asks, and from when on they may be listed.
    due: BTreeSet<(Instant, WatchId)>,
    /// Watches that have been listed and wait for a stream.
    listed: BTreeSet<WatchId>,
    /// Lines that nobody follows any more.
    unused: Vec<Line>,
}

/// One watch.
#[derive(Debug)]
struct Follow {
    span: Span,
    place: Place,
    /// The reader has asked since it was last given something.
    asked: bool,
    /// Everything up to here is in `pending` or has been taken.
    revision: u64,
    pending: Option<Pending>,
    /// The rest of what belongs to the latest news is still to come.
    torn: bool,
    ended: Option<StoreError>,
    /// What the reader knows, or will when it has taken what is pending: a digest of each key, and the revision in which
    /// it was written. Enough to compare with what there is.
    known: FxHashMap<u64, u64>,
    listed: Option<Instant>,
    compared: Instant,
    news: Arc<Notify>,
}

/// How far a watch has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// What there is has to be read.
    Lost,
    /// It is being read.
    Listing,
    /// It has been read, and what changes has to be asked for.
    Listed,
    /// Changes are followed on this line.
    Following(Line),
}

#[derive(Debug, Default)]
struct Pending {
    whole: bool,
    changes: BTreeMap<String, Option<Entry>>,
    /// The bytes of changes that came on top of a list.
    bytes: usize,
}

/// What a reader finds.
pub(super) enum Found {
    News(Batch),
    End(StoreError),
    /// Nothing yet. Somebody has to tell the hub, if that says so.
    Wait(bool),
}

impl WatchTable {
    pub(super) fn add(&mut self, span: Span, news: Arc<Notify>) -> WatchId {
        self.next += 1;
        self.watches.insert(
            self.next,
            Follow {
                span,
                place: Place::Lost,
                asked: false,
                revision: 0,
                pending: None,
                torn: false,
                ended: None,
                known: FxHashMap::default(),
                listed: None,
                compared: Instant::now(),
                news,
            },
        );
        self.next
    }

    /// Forgets a watch. Tells whether the hub has something to do about it.
    pub(super) fn remove(&mut self, id: WatchId) -> bool {
        self.listed.remove(&id);
        match self.watches.remove(&id).map(|watch| watch.place) {
            Some(Place::Following(line)) => {
                self.unused.push(line);
                true
            }
            _ => false,
        }
    }

    /// What there is for a reader.
    pub(super) fn take(&mut self, id: WatchId) -> Found {
        let Some(watch) = self.watches.get_mut(&id) else { return Found::End(StoreError::Ended) };
        if let Some(error) = &watch.ended {
            return Found::End(error.clone());
        }
        if !watch.torn
            && let Some(pending) = watch.pending.take()
        {
            watch.asked = false;
            let changes = pending.changes.into_iter().collect();
            return Found::News(Batch { revision: watch.revision, whole: pending.whole, changes });
        }
        let first = !watch.asked;
        watch.asked = true;
        if first && watch.place == Place::Lost {
            self.due.insert((watch.again(), id));
        }
        Found::Wait(first)
    }

    /// A watch that has to be listed now. It counts as being listed from now on.
    pub(super) fn start_listing(&mut self, now: Instant) -> Option<(WatchId, Span)> {
        while let Some(&(when, id)) = self.due.first() {
            if when > now {
                return None;
            }
            self.due.pop_first();
            if let Some(watch) = self.watches.get_mut(&id).filter(|watch| watch.place == Place::Lost) {
                watch.place = Place::Listing;
                watch.listed = Some(now);
                return Some((id, watch.span.clone()));
            }
        }
        None
    }

    /// When the next watch has to be listed.
    pub(super) fn next_listing(&self) -> Option<Instant> {
        self.due.first().map(|(when, _)| *when)
    }

    /// What there is has been read.
    pub(super) fn listed(&mut self, id: WatchId, snapshot: Snapshot) {
        let Some(watch) = self.watches.get_mut(&id) else { return };
        if watch.place != Place::Listing {
            return;
        }
        watch.place = Place::Listed;
        watch.revision = snapshot.revision;
        watch.compared = Instant::now();
        watch.torn = false;
        watch.known = snapshot.entries.iter().map(|entry| (digest(&entry.key), entry.modified)).collect();
        let changes = snapshot.entries.into_iter().map(|entry| (entry.key.clone(), Some(entry))).collect();
        watch.pending = Some(Pending { whole: true, changes, bytes: 0 });
        watch.news.notify_one();
        self.listed.insert(id);
    }

    /// Reading failed. If it may succeed later, it is tried again.
    pub(super) fn not_listed(&mut self, id: WatchId, error: StoreError) {
        let Some(watch) = self.watches.get_mut(&id) else { return };
        if error.is_passing() {
            self.lose(id);
        } else {
            watch.ended = Some(error);
            watch.news.notify_one();
        }
    }

    /// A watch that has been listed, with the revision from which on its changes are to be followed on this line.
    pub(super) fn start_following(&mut self, line: Line) -> Option<(WatchId, Span, u64)> {
        while let Some(id) = self.listed.pop_first() {
            if let Some(watch) = self.watches.get_mut(&id).filter(|watch| watch.place == Place::Listed) {
                watch.place = Place::Following(line);
                return Some((id, watch.span.clone(), watch.revision + 1));
            }
        }
        None
    }

    pub(super) fn wants_stream(&self) -> bool {
        !self.listed.is_empty()
    }

    /// Lines to be given up.
    pub(super) fn take_unused(&mut self) -> Vec<Line> {
        std::mem::take(&mut self.unused)
    }

    /// There is reason to doubt what is known: everything has to be read again as soon as the reader asks.
    pub(super) fn lose(&mut self, id: WatchId) {
        let Some(watch) = self.watches.get_mut(&id) else { return };
        if let Place::Following(line) = watch.place {
            self.unused.push(line);
        }
        self.listed.remove(&id);
        watch.place = Place::Lost;
        if watch.torn {
            watch.torn = false;
            watch.pending = None;
        }
        if watch.asked {
            let again = watch.again();
            self.due.insert((again, id));
        }
    }

    /// The revision that a server has is not even what this watch has seen already.
    pub(super) fn is_behind(&self, id: WatchId, revision: u64) -> bool {
        self.watches.get(&id).is_some_and(|watch| revision < watch.revision)
    }

    /// Takes in what has changed on a line. A watch for which that cannot be right, or is too much, is lost.
    pub(super) fn news(
        &mut self,
        (id, line): (WatchId, Line),
        namespace: &Namespace,
        events: Vec<wire::Event>,
        more: bool,
    ) {
        let Some(watch) = self.watches.get_mut(&id) else { return };
        if watch.place != Place::Following(line) {
            return;
        }
        if !watch.take_in(namespace, events, more) {
            watch.pending = None;
            self.lose(id);
        } else if !watch.torn {
            watch.news.notify_one();
        }
    }

    /// A watch that has not been compared with what there is since then.
    pub(super) fn start_comparing(&mut self, before: Instant) -> Option<(WatchId, Span, Line)> {
        let stale = |watch: &Follow| watch.compared <= before && matches!(watch.place, Place::Following(_));
        let (id, watch) = self.watches.iter_mut().find(|(_, watch)| stale(watch))?;
        let Place::Following(line) = watch.place else { return None };
        watch.compared = Instant::now();
        Some((*id, watch.span.clone(), line))
    }

    /// Compares what is known with what there is, as long as the watch is still the one that was asked for. Tells
    /// whether they differ.
    pub(super) fn compare(&self, id: WatchId, line: Line, snapshot: &Snapshot) -> bool {
        let Some(watch) = self.watches.get(&id).filter(|watch| watch.place == Place::Following(line)) else {
            return false;
        };
        let known = |entry: &Entry| watch.known.get(&digest(&entry.key)) == Some(&entry.modified);
        snapshot.entries.len() != watch.known.len() || !snapshot.entries.iter().all(known)
    }

    /// Everything that is followed is in doubt.
    pub(super) fn lose_all(&mut self, ids: impl IntoIterator<Item = WatchId>) {
        for id in ids {
            self.lose(id);
        }
    }
}

impl Follow {
    /// When this may be listed again.
    fn again(&self) -> Instant {
        let now = Instant::now();
        self.listed.map_or(now, |listed| now.max(listed + PACE))
    }

    /// Takes in what has changed. Tells whether that can be right, and is not too much.
    fn take_in(&mut self, namespace: &Namespace, events: Vec<wire::Event>, more: bool) -> bool {
        let floor = self.revision;
        let mut newest = floor;
        let pending = self.pending.get_or_insert_default();
        for event in events {
            let Some(entry) = event.entry else { return false };
            let modified = u64::try_from(entry.modified).unwrap_or(0);
            // What comes in parts may go on with the revision that it began with.
            if modified < floor || (modified == floor && !self.torn) {
                return false;
            }
            newest = newest.max(modified);
            let Some(name) = namespace.name(&entry.key) else { continue };
            let size = name.len() + entry.value.len() + size_of::<Entry>();
            let entry = if event.kind == wire::EventKind::Delete as i32 {
                self.known.remove(&digest(&name));
                None
            } else {
                self.known.insert(digest(&name), modified);
                namespace.entry(entry)
            };
            pending.bytes += size;
            if pending.whole && entry.is_none() {
                pending.changes.remove(&name);
            } else {
                pending.changes.insert(name, entry);
            }
        }
        self.revision = newest;
        self.torn = more;
        let many = !pending.whole && pending.changes.len() > PENDING_KEYS;
        if pending.changes.is_empty() && !pending.whole {
            self.pending = None;
        } else if many || pending.bytes > PENDING_BYTES {
            return false;
        }
        true
    }
}

/// Stands for a key where the key itself would take too much room.
fn digest(key: &str) -> u64 {
    let mut hasher = FxBuildHasher.build_hasher();
    key.hash(&mut hasher);
    std::hash::Hasher::finish(&hasher)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mgmt_store::LeaseId;

    /// A watch that follows everything from revision 10 on, when there is one key.
    fn following() -> (WatchTable, WatchId, Namespace) {
        let mut table = WatchTable::default();
        let id = table.add(Span::Prefix(String::new()), Arc::default());
        assert!(matches!(table.take(id), Found::Wait(true)));
        let namespace = Namespace::new("/m");
        list(&mut table, id, 10, &["/a"]);
        assert_eq!(table.start_following(1).map(|(_, _, start)| start), Some(11));
        assert!(table.start_following(2).is_none());
        let batch = taken(&mut table, id);
        assert!(batch.whole && batch.revision == 10 && batch.changes.len() == 1);
        (table, id, namespace)
    }

    fn list(table: &mut WatchTable, id: WatchId, revision: u64, keys: &[&str]) {
        let when = table.next_listing().unwrap();
        let (listing, _) = table.start_listing(when).unwrap();
        assert_eq!(listing, id);
        table.listed(id, snapshot(revision, keys));
    }

    fn snapshot(revision: u64, keys: &[&str]) -> Snapshot {
        let entry = |key: &&str| Entry {
            key: (*key).to_owned(),
            value: Vec::new(),
            created: 1,
            modified: 10,
            lease: None,
        };
        Snapshot { revision, entries: keys.iter().map(entry).collect() }
    }

    fn event(key: &str, modified: i64, there: bool) -> wire::Event {
        let entry = wire::KeyValue {
            key: format!("/m{key}").into_bytes(),
            created: 1,
            modified,
            version: 1,
            value: vec![0; 1024],
            lease: 7,
        };
        let kind = if there { wire::EventKind::Put } else { wire::EventKind::Delete };
        wire::Event { kind: kind as i32, entry: Some(entry) }
    }

    fn taken(table: &mut WatchTable, id: WatchId) -> Batch {
        match table.take(id) {
            Found::News(batch) => batch,
            Found::Wait(_) => panic!("there is nothing"),
            Found::End(error) => panic!("{error}"),
        }
    }

    fn nothing(table: &mut WatchTable, id: WatchId) -> bool {
        matches!(table.take(id), Found::Wait(_))
    }

    /// It has to be listed again.
    fn is_lost(table: &mut WatchTable) -> bool {
        table.take_unused() == [1] && table.next_listing().is_some()
    }

    #[tokio::test]
    async fn what_comes_in_parts_is_told_as_one() {
        let (mut table, id, namespace) = following();
        table.news((id, 1), &namespace, vec![event("/b", 11, true), event("/c", 12, true)], true);
        assert!(nothing(&mut table, id));
        table.news((id, 1), &namespace, vec![event("/d", 12, true)], true);
        assert!(nothing(&mut table, id));
        table.news((id, 1), &namespace, vec![event("/a", 12, false)], false);
        let batch = taken(&mut table, id);
        assert_eq!((batch.revision, batch.whole, batch.changes.len()), (12, false, 4));
        assert_eq!(batch.changes[0], ("/a".to_owned(), None));
        assert_eq!(batch.changes[1].1.as_ref().unwrap().lease, Some(LeaseId(7)));
        assert!(!is_lost(&mut table));
    }

    #[tokio::test]
    async fn a_part_without_an_end_is_never_told() {
        let (mut table, id, namespace) = following();
        table.news((id, 1), &namespace, vec![event("/b", 11, true)], true);
        table.lose(id);
        assert!(nothing(&mut table, id));
        list(&mut table, id, 20, &["/a", "/b"]);
        assert!(taken(&mut table, id).whole);
    }

    #[tokio::test]
    async fn news_that_cannot_be_right_are_not_told() {
        for wrong in [
            vec![event("/b", 10, true)],
            vec![event("/b", 9, true)],
            vec![event("/b", 11, true), event("/c", 10, true)],
            vec![event("/b", -1, true)],
            vec![wire::Event { kind: 0, entry: None }],
        ] {
            let (mut table, id, namespace) = following();
            assert!(nothing(&mut table, id));
            table.news((id, 1), &namespace, wrong, false);
            assert!(nothing(&mut table, id));
            assert!(is_lost(&mut table));
        }
        // The same again, later, is no better.
        let (mut table, id, namespace) = following();
        table.news((id, 1), &namespace, vec![event("/b", 11, true)], false);
        table.news((id, 1), &namespace, vec![event("/b", 11, true)], false);
        assert!(nothing(&mut table, id));
        assert!(is_lost(&mut table));
    }

    #[tokio::test]
    async fn what_was_told_before_a_loss_is_not_taken_back() {
        let (mut table, id, namespace) = following();
        table.news((id, 1), &namespace, vec![event("/b", 11, true)], false);
        table.lose(id);
        assert_eq!(taken(&mut table, id).revision, 11);
        assert!(nothing(&mut table, id));
        list(&mut table, id, 11, &["/a", "/b"]);
        assert!(taken(&mut table, id).whole);
    }

    #[tokio::test]
    async fn changes_on_top_of_a_list_become_part_of_it() {
        let (mut table, id, namespace) = following();
        assert!(nothing(&mut table, id));
        table.lose(id);
        list(&mut table, id, 20, &["/a", "/b"]);
        assert!(table.start_following(2).is_some());
        table.news((id, 1), &namespace, vec![event("/late", 22, true)], false);
        table.news((id, 2), &namespace, vec![event("/a", 21, false), event("/c", 21, true)], false);
        let batch = taken(&mut table, id);
        let names: Vec<&str> = batch.changes.iter().map(|(name, _)| name.as_str()).collect();
        assert!(batch.whole && batch.revision == 21);
        assert_eq!(names, ["/b", "/c"]);
    }

    #[tokio::test]
    async fn a_reader_that_does_not_ask_costs_a_bounded_amount() {
        let (mut table, id, namespace) = following();
        let mut revision = 10;
        for turn in 0..20_000 {
            revision += 1;
            table.news((id, 1), &namespace, vec![event(&format!("/{turn}"), revision, true)], false);
            let held = table.watches[&id].pending.as_ref().map_or(0, |pending| pending.bytes);
            assert!(held <= PENDING_BYTES);
        }
        assert_eq!(table.take_unused(), [1], "nobody follows for a reader that is too slow");
        assert!(table.next_listing().is_none(), "nor lists before it asks");
        assert!(nothing(&mut table, id));
        list(&mut table, id, 20_010, &["/a"]);
        assert!(taken(&mut table, id).whole);
    }

    #[tokio::test]
    async fn comparing_finds_what_the_stream_has_not_told() {
        let (mut table, id, namespace) = following();
        assert!(
            table.start_comparing(Instant::now()).is_some_and(|(found, _, line)| found == id && line == 1)
        );
        assert!(table.start_comparing(Instant::now() - PACE).is_none(), "not again so soon");
        assert!(!table.compare(id, 1, &snapshot(10, &["/a"])));
        assert!(table.compare(id, 1, &snapshot(10, &[])));
        assert!(table.compare(id, 1, &snapshot(10, &["/b"])));
        assert!(table.compare(id, 1, &snapshot(10, &["/a", "/b"])));
        assert!(!table.compare(id, 2, &snapshot(10, &[])), "that was about another stream");
        table.news((id, 1), &namespace, vec![event("/a", 11, true)], false);
        assert!(table.compare(id, 1, &snapshot(10, &["/a"])), "it was written since");
        table.news((id, 1), &namespace, vec![event("/a", 12, false)], false);
        assert!(!table.compare(id, 1, &snapshot(12, &[])));
    }

    #[tokio::test]
    async fn a_list_comes_at_a_bounded_pace() {
        let (mut table, id, _) = following();
        assert!(nothing(&mut table, id));
        table.lose(id);
        let now = Instant::now();
        assert!(table.start_listing(now).is_none(), "it was listed just now");
        assert!(table.next_listing().is_some_and(|next| next > now && next <= now + PACE));
    }

    #[tokio::test]
    async fn an_error_that_does_not_pass_is_the_end() {
        let mut table = WatchTable::default();
        let id = table.add(Span::Prefix(String::new()), Arc::default());
        assert!(nothing(&mut table, id));
        assert!(table.start_listing(Instant::now()).is_some());
        table.not_listed(id, StoreError::Refused { reason: "no".to_owned() });
        assert!(matches!(table.take(id), Found::End(StoreError::Refused { .. })));
        assert!(matches!(table.take(id), Found::End(StoreError::Refused { .. })));
        assert!(!table.remove(id));
        assert!(matches!(table.take(id), Found::End(StoreError::Ended)));
    }
}
