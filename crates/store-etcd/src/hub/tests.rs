//! What the task does with each answer, without a server.

use super::*;
use crate::{EtcdSettings, Namespace, Servers};

/// A task that has asked for the changes of two keys and has got no answer yet, over a stream that leads nowhere.
struct Bench {
    follower: Follower,
    ids: [WatchId; 2],
    /// What was asked.
    questions: mpsc::UnboundedReceiver<wire::WatchAsk>,
}

impl Bench {
    fn new() -> Self {
        let settings = EtcdSettings::new(["127.0.0.1:1"]);
        let core = Core {
            servers: Servers::new(&settings).unwrap(),
            namespace: Namespace::new("/m"),
            compare_every: Duration::from_secs(600),
            endpoints: settings.endpoints,
        };
        let mut follower = Follower::new(Arc::new(core), Arc::default());
        let (stream, questions) = Stream::new(1);
        follower.stream = Some(stream);
        let ids = ["/a", "/b"].map(|key| {
            let mut table = follower.shared.watch_table();
            let id = table.add(Span::Key(key.to_owned()), Arc::default());
            assert!(matches!(table.take(id), Found::Wait(true)));
            assert!(table.start_listing(Instant::now()).is_some());
            table.listed(id, Snapshot { revision: 10, entries: Vec::new() });
            assert!(matches!(table.take(id), Found::News(_)));
            assert!(matches!(table.take(id), Found::Wait(true)));
            id
        });
        follower.follow();
        let mut bench = Self { follower, ids, questions };
        assert_eq!(bench.asked(), ["follow 1 from 11", "follow 2 from 11"]);
        bench
    }

    fn asked(&mut self) -> Vec<String> {
        let mut asked = Vec::new();
        while let Ok(question) = self.questions.try_recv() {
            asked.push(match question.kind {
                Some(wire::WatchAskKind::Create(create)) => {
                    format!("follow {} from {}", create.id, create.start)
                }
                Some(wire::WatchAskKind::Cancel(cancel)) => format!("leave {}", cancel.id),
                None => "nothing".to_owned(),
            });
        }
        asked
    }

    fn hear(&mut self, news: wire::WatchNews) {
        self.follower.news(news);
    }

    fn is_open(&self) -> bool {
        self.follower.stream.is_some()
    }

    /// Which of the two has to be read again.
    fn lost(&mut self) -> [bool; 2] {
        let mut table = self.follower.shared.watch_table();
        let mut found = Vec::new();
        while let Some(when) = table.next_listing()
            && let Some((id, _)) = table.start_listing(when)
        {
            found.push(id);
        }
        self.ids.map(|id| found.contains(&id))
    }
}

fn at(revision: i64) -> Option<wire::Header> {
    Some(wire::Header { revision, ..wire::Header::default() })
}

fn created(id: i64, revision: i64) -> wire::WatchNews {
    wire::WatchNews { header: at(revision), id, created: true, ..wire::WatchNews::default() }
}

fn written(id: i64, key: &str, modified: i64) -> wire::WatchNews {
    let entry = wire::KeyValue { key: key.into(), modified, ..wire::KeyValue::default() };
    let events = vec![wire::Event { kind: 0, entry: Some(entry) }];
    wire::WatchNews { header: at(modified), id, events, ..wire::WatchNews::default() }
}

#[test]
fn a_moment_is_shared_by_those_who_asked_together() {
    let names = ["/a", "/a/1", "/a/2", "/ab", "/b"];
    let entry = |key: &str| mgmt_store::Entry {
        key: key.to_owned(),
        value: Vec::new(),
        created: 1,
        modified: 1,
        lease: None,
    };
    let snapshot = Snapshot { revision: 3, entries: names.map(entry).to_vec() };
    let of =
        |span: Span| part(&snapshot, &span).entries.into_iter().map(|entry| entry.key).collect::<Vec<_>>();
    assert_eq!(of(Span::Key("/a".to_owned())), ["/a"]);
    assert_eq!(of(Span::Key("/aa".to_owned())), [""; 0]);
    assert_eq!(of(Span::Prefix("/a/".to_owned())), ["/a/1", "/a/2"]);
    assert_eq!(of(Span::Prefix("/a".to_owned())), ["/a", "/a/1", "/a/2", "/ab"]);
    assert_eq!(of(Span::Prefix("/c".to_owned())), [""; 0]);
    assert_eq!(of(Span::Prefix(String::new())), names);
}

#[tokio::test]
async fn news_go_to_the_watch_that_asked_for_them() {
    let mut bench = Bench::new();
    bench.hear(created(1, 10));
    bench.hear(created(2, 10));
    bench.hear(written(2, "/m/b", 11));
    bench.hear(written(77, "/m/a", 11));
    let [a, b] = bench.ids;
    let mut table = bench.follower.shared.watch_table();
    assert!(matches!(table.take(a), Found::Wait(_)));
    assert!(matches!(table.take(b), Found::News(batch) if batch.revision == 11 && !batch.whole));
    drop(table);
    assert_eq!(bench.lost(), [false, false]);
}

#[tokio::test]
async fn a_stream_that_makes_no_sense_is_given_up_with_all_that_it_told() {
    let nameless = wire::WatchNews { header: None, id: 1, ..wire::WatchNews::default() };
    let zero = wire::WatchNews { header: at(0), id: 1, ..wire::WatchNews::default() };
    let refused = wire::WatchNews { canceled: true, ..created(-1, 10) };
    for nonsense in [nameless, zero, refused, created(2, 10), created(5, 10)] {
        let mut bench = Bench::new();
        bench.hear(nonsense.clone());
        assert!(!bench.is_open(), "{nonsense:?}");
        assert_eq!(bench.lost(), [true, true], "{nonsense:?}");
        assert!(bench.follower.outage.is_some());
    }
    let mut bench = Bench::new();
    for (id, open) in [(1, true), (2, true), (3, false)] {
        bench.hear(created(id, 10));
        assert_eq!(bench.is_open(), open, "nobody asked for a third");
    }
}

#[tokio::test]
async fn a_watch_that_is_cancelled_is_read_again_and_others_go_on() {
    let mut bench = Bench::new();
    bench.hear(created(1, 10));
    bench.hear(wire::WatchNews {
        header: at(20),
        id: 1,
        canceled: true,
        compacted: 15,
        ..wire::WatchNews::default()
    });
    assert!(bench.is_open());
    assert_eq!(bench.lost(), [true, false]);
}

#[tokio::test]
async fn a_server_that_is_behind_what_was_read_is_doubted() {
    let mut bench = Bench::new();
    bench.hear(created(1, 9));
    assert!(bench.is_open());
    assert_eq!(bench.lost(), [true, false]);
    bench.follower.begin();
    assert_eq!(bench.asked(), ["leave 1"]);
    // What still comes for it is for nobody.
    bench.hear(written(1, "/m/a", 11));
    let id = bench.ids[0];
    assert!(matches!(bench.follower.shared.watch_table().take(id), Found::Wait(_)));
}

#[tokio::test]
async fn who_leaves_is_not_followed_any_more() {
    let mut bench = Bench::new();
    bench.hear(created(1, 10));
    bench.hear(created(2, 10));
    assert!(bench.follower.shared.watch_table().remove(bench.ids[1]));
    bench.follower.begin();
    assert_eq!(bench.asked(), ["leave 2"]);
    bench.hear(written(2, "/m/b", 11));
    assert!(bench.is_open());
}

#[tokio::test]
async fn pauses_grow_while_nothing_works_and_shrink_when_something_does() {
    let mut bench = Bench::new();
    bench.follower.broken("a test");
    let first = bench.follower.pause;
    bench.follower.trouble("still waiting");
    assert_eq!(bench.follower.pause, first, "what fails in one outage at the same time counts once");
    for _ in 0..20 {
        bench.follower.not_before = Instant::now();
        bench.follower.trouble("again");
    }
    assert_eq!(bench.follower.pause, LONGEST_PAUSE);
    let (mut stream, _questions) = Stream::new(2);
    stream.follow(9, 9, Vec::new(), Vec::new(), 1);
    bench.follower.stream = Some(stream);
    bench.hear(created(9, 10));
    assert_eq!((bench.follower.pause, bench.follower.outage), (FIRST_PAUSE, None));
}
