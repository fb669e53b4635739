//! The driver without threads that run it.

use std::sync::Arc;
use std::time::Duration;

use mgmt_resource::{Host, Registry};
use mgmt_watch::{Change, FileHub, FileHubOptions, Notice, Sink, Token};
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::{mpsc, oneshot};

use super::helm::Helm;
use super::inbox::{Holds, Inbox, Share};
use super::pool::Pool;
use super::{Driver, Engine, EngineSettings, Message};
use crate::core::Vertex;
use crate::prepare::Preparation;

fn settings(directory: &tempfile::TempDir) -> EngineSettings {
    let host = Host {
        hostname: "host".into(),
        program: "mgmt".into(),
        version: "test".into(),
        state: directory.path().join("state"),
        local: Arc::new(mgmt_state::LocalState::open(directory.path().join("local")).unwrap()),
        shared: Arc::new(mgmt_store::SharedState::in_memory("host").unwrap()),
        helper: Default::default(),
        durability: mgmt_sys::replace::Durability::None,
        view: Default::default(),
        exit: tokio::sync::watch::Sender::new(None),
        program_files: tokio::sync::watch::Sender::new(None),
        ends_after: None,
        incomplete: Default::default(),
    };
    EngineSettings {
        host: Arc::new(host),
        registry: Registry::new(&[]),
        preparation: Preparation::default(),
        converge_after: Some(Duration::ZERO),
        threads: Some(1),
        export: None,
        witness: None,
        journal: None,
        dot: false,
        slow_down: false,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_thread_nothing_of_an_engine_is_left() {
    let directory = tempfile::tempdir().unwrap();
    let settings = settings(&directory);
    let host = Arc::downgrade(&settings.host);
    let (engine, mut events, life) = Engine::make(settings).unwrap();
    drop(life);
    assert_eq!(events.try_recv(), Err(TryRecvError::Disconnected));
    drop(engine);
    assert!(host.upgrade().is_none(), "something holds on to the host");
}

struct Nobody;

impl Sink for Nobody {
    fn changed(&self, _: Token) {}
    fn notice(&self, _: Notice) {}
}

/// A driver in its place, without a thread of the engine.
fn manned(directory: &tempfile::TempDir) -> (Arc<Inbox>, Arc<Helm>, Pool) {
    let inbox = Arc::new(Inbox::default());
    let helm = Arc::new(Helm::new(Arc::clone(&inbox)));
    let (hub, lookout) = FileHub::unattended(Arc::new(Nobody), FileHubOptions::default()).unwrap();
    let pool = Pool::start(1, &helm, hub.clone(), lookout).unwrap();
    // Nobody listens to what it tells.
    let (events, _) = mpsc::unbounded_channel();
    let driver = Driver::new(settings(directory), 1, Arc::clone(&inbox), pool.crew(), hub, events);
    helm.man(driver.unwrap());
    (inbox, helm, pool)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_graph_and_what_comes_behind_it_are_left_to_the_thread_of_the_engine() {
    let directory = tempfile::tempdir().unwrap();
    let (inbox, helm, _pool) = manned(&directory);
    let (first, mut before) = oneshot::channel();
    let (graph, mut swapped) = oneshot::channel();
    let (last, mut behind) = oneshot::channel();
    inbox.put(Message::Inspect(first));
    inbox.send(Message::Adjust(Vec::new(), graph));
    inbox.put(Message::Inspect(last));
    helm.attend(Duration::MAX);
    assert!(before.try_recv().is_ok());
    assert!(swapped.try_recv().is_err() && behind.try_recv().is_err());
    assert_eq!((inbox.holds(), inbox.len()), (Holds::Messages, 2));
    helm.attend_to(Share::All, Duration::MAX);
    assert!(swapped.try_recv().is_ok() && behind.try_recv().is_ok());
    assert_eq!(inbox.holds(), Holds::Nothing);
    helm.break_off();
    assert!(helm.keep().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_comes_while_the_lookout_steps_up_is_left_to_others() {
    let directory = tempfile::tempdir().unwrap();
    let (inbox, helm, _pool) = manned(&directory);
    // The lookout has found nothing but a change, and is on its way.
    inbox.put_changes([(Vertex(0), Change::Any)]);
    assert_eq!(inbox.holds(), Holds::Changes);
    let (reply, mut answer) = oneshot::channel();
    inbox.put(Message::Inspect(reply));
    helm.attend_to(Share::Changes, Duration::MAX);
    assert!(matches!(answer.try_recv(), Err(oneshot::error::TryRecvError::Empty)));
    assert_eq!((inbox.holds(), inbox.len()), (Holds::Messages, 1), "the change has been seen to");
    helm.attend(Duration::MAX);
    assert!(answer.try_recv().is_ok_and(|resources| resources.is_empty()));
    assert_eq!(inbox.holds(), Holds::Nothing);
    helm.break_off();
    assert!(helm.keep().is_none());
}
