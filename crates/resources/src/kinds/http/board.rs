//! Where offers and servers meet.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use mgmt_resource::{Cancel, Context, Declared, Error, GraphView, Host, Id, Result, Watch, WatchStream};
use mgmt_value::Str;
use tokio::sync::watch;

use super::file::Served;
use super::flag::Raised;
use super::input::Input;
use super::listen::Listener;
use super::lock;
use super::proxy::Proxied;
use super::server::HttpServer;
use super::ui::Page;

/// All listeners and offers of one engine.
#[derive(Default)]
pub(super) struct Board(
    // Held for a look-up or an insertion, by runs of resources and by every request.
    Mutex<Inner>,
);

#[derive(Default)]
struct Inner {
    /// By the name of the server.
    listeners: BTreeMap<Str, Arc<Listener>>,
    /// Those that have been stopped, and may not have let their address go yet.
    leaving: Vec<Arc<Listener>>,
    offers: HashMap<Id, Arc<Offer>>,
    /// By public path.
    routes: HashMap<Str, BTreeMap<Id, Arc<Offer>>>,
    inputs: BTreeMap<Id, Arc<Input>>,
    bells: HashMap<Id, watch::Sender<u64>>,
    /// How many workers there have been; see [`Board::begin`].
    turn: u64,
}

/// Something that is served.
pub(super) struct Offer {
    /// The name of the server that is to serve it; empty: any.
    pub(super) server: Str,
    /// The public path.
    pub(super) path: Str,
    /// Paths below it are meant, too. It ends with a slash then.
    pub(super) below: bool,
    pub(super) what: What,
}

pub(super) enum What {
    File(Arc<Served>),
    Flag(Arc<Raised>),
    Page(Arc<Page>),
    Proxy(Arc<Proxied>),
}

impl Board {
    /// The board of an engine. Two engines of one process have nothing to do with each other, and each keeps its state
    /// in another place.
    pub(super) fn of(host: &Host) -> Arc<Board> {
        static BOARDS: Mutex<BTreeMap<PathBuf, Weak<Board>>> = Mutex::new(BTreeMap::new());
        let mut boards = lock(&BOARDS);
        if let Some(board) = boards.get(&host.state).and_then(Weak::upgrade) {
            return board;
        }
        boards.retain(|_, board| board.strong_count() > 0);
        let board = Arc::<Board>::default();
        boards.insert(host.state.clone(), Arc::downgrade(&board));
        board
    }

    /// A worker begins, and with it a turn. What began to listen in a turn has to end with it.
    pub(super) fn begin(&self) -> u64 {
        let mut inner = lock(&self.0);
        inner.turn += 1;
        inner.turn
    }

    /// The turn ends: everything that began to listen in it, or before, stops.
    pub(super) fn end(&self, turn: u64) {
        lock(&self.0).stop_unless(|_, listener| listener.turn() > turn);
    }

    /// The listener of a server. It belongs to this turn from now on.
    pub(super) fn listener(&self, server: &Str) -> Option<Arc<Listener>> {
        let inner = lock(&self.0);
        let listener = inner.listeners.get(server)?;
        listener.keep(inner.turn);
        Some(Arc::clone(listener))
    }

    pub(super) fn put_listener(&self, server: &Str, listener: Arc<Listener>) {
        let mut inner = lock(&self.0);
        listener.keep(inner.turn);
        inner.stop_unless(|name, _| name != server);
        inner.listeners.insert(server.clone(), listener);
    }

    /// Waits until the addresses of those who have gone, or go to another address, are free. They may not have noticed yet.
    pub(super) async fn make_room(&self, host: &Host) {
        let mut declared = BTreeMap::new();
        let view = view(host);
        if let Some(view) = &view {
            view.each(&mut |id, resource| {
                if let Some(server) = resource.as_any().downcast_ref::<HttpServer>() {
                    declared.insert(id.name.clone(), server.listen_address(&id.name).ok());
                }
            });
        }
        let stays = |server: &Str, listener: &Listener| {
            view.is_none() || declared.get(server).is_some_and(|address| *address == Some(listener.wanted))
        };
        let leaving = {
            let mut inner = lock(&self.0);
            inner.stop_unless(stays);
            inner.leaving.clone()
        };
        for listener in leaving {
            listener.released().await;
        }
    }

    /// The offer that a resource has made.
    pub(super) fn offer(&self, id: &Id) -> Option<Arc<Offer>> {
        lock(&self.0).offers.get(id).cloned()
    }

    /// Puts an offer in the place of the one that the resource made before.
    pub(super) fn put_offer(&self, id: &Id, offer: Offer) {
        let offer = Arc::new(offer);
        let mut inner = lock(&self.0);
        inner.withdraw_offer(id);
        inner.routes.entry(offer.path.clone()).or_default().insert(id.clone(), Arc::clone(&offer));
        inner.offers.insert(id.clone(), offer);
    }

    pub(super) fn input(&self, id: &Id) -> Option<Arc<Input>> {
        lock(&self.0).inputs.get(id).cloned()
    }

    pub(super) fn put_input(&self, id: &Id, input: Arc<Input>) {
        lock(&self.0).inputs.insert(id.clone(), input);
    }

    /// The inputs of a page.
    pub(super) fn inputs(&self, page: &Str) -> Vec<Arc<Input>> {
        let inner = lock(&self.0);
        inner.inputs.values().filter(|input| input.page.is_empty() || input.page == *page).cloned().collect()
    }

    /// Who answers a request: whoever has exactly this path, else whoever has the longest path above it. Among those
    /// that are equal in this the one whose kind, then name, comes first.
    pub(super) fn find(&self, server: &Str, path: &[u8], post: bool) -> Option<Arc<Offer>> {
        let inner = lock(&self.0);
        let among = |path: &[u8], exactly: bool| {
            let offers = inner.routes.get(path)?.values();
            let fits = |offer: &&Arc<Offer>| {
                (exactly || offer.below)
                    && (offer.server.is_empty() || offer.server == *server)
                    && (post || !matches!(offer.what, What::Flag(_)))
            };
            // A request that may raise a flag is for the flag.
            let mut offers: Vec<_> = offers.filter(fits).collect();
            offers.sort_by_key(|offer| !matches!(offer.what, What::Flag(_)));
            offers.first().map(|offer| Arc::clone(offer))
        };
        let above = || {
            let slashes = path.iter().enumerate().rev().filter(|(_, byte)| **byte == b'/');
            slashes.map(|(at, _)| &path[..=at]).find_map(|path| among(path, false))
        };
        among(path, true).or_else(above)
    }

    /// All flags that a request to this path raises, and who they are.
    pub(super) fn flags(&self, server: &Str, path: &[u8]) -> Vec<(Id, Arc<Raised>)> {
        let inner = lock(&self.0);
        let offers = inner.routes.get(path).into_iter().flatten();
        let offers = offers.filter(|(_, offer)| offer.server.is_empty() || offer.server == *server);
        offers
            .filter_map(|(id, offer)| match &offer.what {
                What::Flag(flag) => Some((id.clone(), Arc::clone(flag))),
                _ => None,
            })
            .collect()
    }

    /// Tells a resource that something has happened.
    pub(super) fn ring(&self, id: &Id) {
        if let Some(bell) = lock(&self.0).bells.get(id) {
            bell.send_modify(|rung| *rung += 1);
        }
    }

    /// A resource's place on the board, until it is dropped and the graph has no such resource any more.
    pub(super) fn lease(self: &Arc<Board>, cx: &Context<'_>) -> Lease {
        Lease { board: Arc::clone(self), id: cx.id.clone(), view: view(cx.host) }
    }

    fn withdraw(&self, id: &Id) {
        let mut inner = lock(&self.0);
        inner.withdraw_offer(id);
        inner.inputs.remove(id);
        if id.kind == HttpServer::KIND {
            inner.stop_unless(|server, _| *server != id.name);
        }
    }
}

impl Inner {
    /// Stops all listeners but those that may stay.
    fn stop_unless(&mut self, may_stay: impl Fn(&Str, &Listener) -> bool) {
        self.leaving.retain(|listener| !listener.is_released());
        self.listeners.retain(|server, listener| {
            let stays = may_stay(server, listener);
            if !stays {
                listener.stop();
                self.leaving.push(Arc::clone(listener));
            }
            stays
        });
    }

    fn withdraw_offer(&mut self, id: &Id) {
        let Some(offer) = self.offers.remove(id) else { return };
        if let Some(offers) = self.routes.get_mut(&offer.path) {
            offers.remove(id);
            if offers.is_empty() {
                self.routes.remove(&offer.path);
            }
        }
    }
}

fn view(host: &Host) -> Option<Arc<dyn GraphView>> {
    // A poisoned lock means that another reader panicked; the view itself is replaced whole.
    host.view.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// See [`Board::lease`]. When a resource is declared anew, what it remembers is dropped and it runs again. What it
/// has on the board stays meanwhile: nobody outside is to notice.
pub(super) struct Lease {
    board: Arc<Board>,
    id: Id,
    view: Option<Arc<dyn GraphView>>,
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut declared = false;
        if let Some(view) = &self.view {
            view.each(&mut |id, _| declared |= *id == self.id);
        }
        if !declared {
            self.board.withdraw(&self.id);
        }
    }
}

/// What [`Board::ring`] tells, as a source of events.
pub(super) fn bell(kind: &'static str, name: &Str) -> Watch {
    let id = Id::new(kind, name.clone());
    let key = Str::from(format!("bell of {id}"));
    let start = move |host: &Host| {
        let board = Board::of(host);
        let heard = lock(&board.0).bells.entry(id.clone()).or_default().subscribe();
        Ok(Box::new(Bell { board, id: id.clone(), heard: Some(heard) }) as Box<dyn WatchStream>)
    };
    Watch::Stream { key, start: Arc::new(start) }
}

struct Bell {
    board: Arc<Board>,
    id: Id,
    /// Set until it is dropped.
    heard: Option<watch::Receiver<u64>>,
}

impl WatchStream for Bell {
    fn next<'a>(&'a mut self, cancel: &'a Cancel) -> Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>> {
        Box::pin(async move {
            let Some(heard) = &mut self.heard else { return Err(Error::Cancelled) };
            tokio::select! {
                rung = heard.changed() => rung.map_err(|_| Error::new("the bell is gone")),
                () = cancel.cancelled() => Err(Error::Cancelled),
            }
        })
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        self.heard = None;
        let mut inner = lock(&self.board.0);
        if inner.bells.get(&self.id).is_some_and(|bell| bell.receiver_count() == 0) {
            inner.bells.remove(&self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::http::{HttpServerFile, HttpServerFlag};

    fn file(server: &str, path: &str) -> Offer {
        let what = What::File(Arc::default());
        Offer { server: server.into(), path: path.into(), below: path.ends_with('/'), what }
    }

    fn put(board: &Board, name: &str, offer: Offer) {
        board.put_offer(&Id::new(HttpServerFile::KIND, name), offer);
    }

    fn found(board: &Board, path: &str) -> Option<String> {
        board.find(&"a".into(), path.as_bytes(), false).map(|offer| offer.path.to_text().into_owned())
    }

    #[test]
    fn the_nearest_offer_answers() {
        let board = Board::default();
        for path in ["/", "/x/", "/x/y", "/x/y/"] {
            put(&board, path, file("", path));
        }
        for (path, expected) in [
            ("/x/y", "/x/y"),
            ("/x/y/z", "/x/y/"),
            ("/x/z", "/x/"),
            ("/x", "/"),
            ("/xy", "/"),
            ("/x/", "/x/"),
        ] {
            assert_eq!(found(&board, path).as_deref(), Some(expected), "{path}");
        }
    }

    #[test]
    fn an_offer_to_another_server_does_not_answer_and_a_changed_one_leaves_its_old_path() {
        let board = Board::default();
        put(&board, "one", file("b", "/x"));
        assert_eq!(found(&board, "/x"), None);
        put(&board, "one", file("a", "/x"));
        assert_eq!(found(&board, "/x").as_deref(), Some("/x"));
        put(&board, "one", file("a", "/y"));
        assert_eq!(found(&board, "/x"), None);
        assert_eq!(found(&board, "/y").as_deref(), Some("/y"));
        board.withdraw(&Id::new(HttpServerFile::KIND, "one"));
        assert_eq!(found(&board, "/y"), None);
        assert!(lock(&board.0).routes.is_empty());
    }

    #[test]
    fn only_a_post_is_for_a_flag() {
        let board = Board::default();
        let flag = What::Flag(Arc::default());
        let offer = Offer { server: Str::EMPTY, path: "/x".into(), below: false, what: flag };
        board.put_offer(&Id::new(HttpServerFlag::KIND, "f"), offer);
        put(&board, "one", file("", "/x"));
        let is_flag = |post| matches!(board.find(&"a".into(), b"/x", post).unwrap().what, What::Flag(_));
        assert!(is_flag(true));
        assert!(!is_flag(false));
        assert_eq!(board.flags(&"a".into(), b"/x").len(), 1);
    }
}
