//! Watches: what a vertex depends on, handed to the hubs.

use std::convert::Infallible;
use std::sync::Arc;

use mgmt_resource::{Cancel, Error, Host, StartStream, Watch};
use mgmt_watch::{Token, WatchPath};
use tokio::task::AbortHandle;

use super::failures::Of;
use super::inbox::Inbox;
use super::node::Watching;
use super::run::CatchUnwind;
use super::{Alarm, Driver, Message};
use crate::core::Vertex;

impl Driver {
    /// Begins to watch. The old watch of the vertex, if it has one, ends only after the new one has begun.
    pub(super) fn watch(&mut self, vertex: Vertex, incarnation: u32) {
        let Some(node) = self.node(vertex) else { return };
        let watches = node.watches();
        match self.subscribe(vertex, incarnation, watches) {
            // With a source of its own the vertex is watched once that has started.
            Ok(true) => {}
            Ok(false) => self.watch_began(vertex, incarnation),
            Err(error) => self.watch_failed(vertex, incarnation, &error),
        }
    }

    /// Watches something else from now on, because a received value says so.
    pub(super) fn resubscribe(&mut self, vertex: Vertex) {
        let incarnation = self.core.incarnation(vertex);
        let Some(node) = self.node(vertex) else { return };
        let watches = node.watches();
        if let Err(error) = self.subscribe(vertex, incarnation, watches) {
            self.watch_failed(vertex, incarnation, &error);
        }
    }

    /// `Ok(true)`: a stream has to start first.
    fn subscribe(&mut self, vertex: Vertex, incarnation: u32, watches: Vec<Watch>) -> Result<bool, Error> {
        let mut watching = Watching::default();
        let mut streams = Vec::new();
        for watch in watches {
            match watch {
                Watch::Path { path, recursive } => {
                    let path = WatchPath::from_bytes(&path, recursive).map_err(Error::new)?;
                    watching.paths.push(self.hub.subscribe(Token(u64::from(vertex.0)), &path));
                }
                Watch::Interval(interval) => {
                    watching.interval = Some(watching.interval.map_or(interval, |i| i.min(interval)));
                }
                Watch::Stream { start, .. } => {
                    let (inbox, host) = (Arc::clone(&self.inbox), Arc::clone(&self.host));
                    let task = self.runtime.spawn(async move {
                        let follow = Box::pin(follow(&inbox, &host, &start, vertex, incarnation));
                        let Err(error) = CatchUnwind(follow).await;
                        inbox.send(Message::StreamFailed(vertex, incarnation, error));
                    });
                    streams.push(task.abort_handle());
                }
            }
        }
        watching.streams = (!streams.is_empty()).then(|| streams.into_boxed_slice());
        let streams = watching.streams.is_some();
        let interval = watching.interval;
        let Some(node) = self.node(vertex) else { return Ok(false) };
        let old = std::mem::replace(&mut node.watch, watching);
        node.echo.changed();
        self.drop_watching(old);
        match interval {
            Some(interval) => self.alarms.insert(self.origin.elapsed() + interval, Alarm::Interval(vertex)),
            None => {
                self.alarms.cancel(Alarm::Interval(vertex));
            }
        }
        Ok(streams)
    }

    /// A watch has begun, or has begun again: anything may have happened before.
    pub(super) fn watch_began(&mut self, vertex: Vertex, incarnation: u32) {
        if let Some(node) = self.node(vertex).filter(|node| node.settled) {
            node.note().event = true;
        }
        self.core.watching(vertex, incarnation, self.now());
    }

    pub(super) fn watch_failed(&mut self, vertex: Vertex, incarnation: u32, error: &Error) {
        if self.core.incarnation(vertex) != incarnation {
            return;
        }
        self.keep_error(vertex, Of::Watch, &format!("cannot watch: {error}"), error.hint(), &[]);
        // What is left of the watch goes on: an event of it has the rest set up again at once.
        if let Some(streams) = self.node(vertex).and_then(|node| node.watch.streams.take()) {
            streams.iter().for_each(AbortHandle::abort);
        }
        self.core.watch_failed(vertex, incarnation, self.now());
    }

    pub(super) fn unwatch(&mut self, vertex: Vertex) {
        let Some(node) = self.node(vertex) else { return };
        let old = std::mem::take(&mut node.watch);
        if old.interval.is_some() {
            self.alarms.cancel(Alarm::Interval(vertex));
        }
        self.drop_watching(old);
    }

    pub(super) fn drop_watching(&mut self, watching: Watching) {
        for id in watching.paths {
            self.hub.unsubscribe(id);
        }
        for task in watching.streams.into_iter().flatten() {
            task.abort();
        }
    }
}

/// Passes on what a source of a vertex's own tells, until it fails. A panic of it is caught by the caller: a vertex that is not
/// watched any more would be deaf, and nobody would know.
async fn follow(
    inbox: &Inbox,
    host: &Host,
    start: &StartStream,
    vertex: Vertex,
    incarnation: u32,
) -> Result<Infallible, Error> {
    let mut stream = start(host)?;
    inbox.send(Message::StreamStarted(vertex, incarnation));
    let cancel = Cancel::default();
    loop {
        stream.next(&cancel).await?;
        inbox.changed(vertex);
    }
}
