//! Watching paths that are known only while the program runs: in the home directory of a user who may come or move, in our
//! own state directory, or among the files of the program; and values of the local store and the shared one.
//!
//! One hub for all paths, made when the first is watched and gone with the last.

use std::collections::HashMap;
use std::future::Future;
use std::os::unix::ffi::OsStrExt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use mgmt_resource::{
    Cancel, Error, Host, ProgramFiles, Result, ResultExt, Scope, SharedChanges, Watch, WatchStream,
};
use mgmt_value::Str;
use mgmt_watch::{FileHub, Notice, Sink, SubscriptionId, Token, WatchPath};
use tokio::sync::{Notify, watch};

use crate::support::account::lookup_now;

/// Says which paths are to be watched as things are now, and whether with all that is below them.
type Locate = Box<dyn Fn() -> Vec<(Str, bool)> + Send + Sync>;
/// Says so about one host.
type LocateOn = Arc<dyn Fn(&Host) -> Locate + Send + Sync>;
/// Tells of another program.
type Programs = watch::Receiver<Option<Arc<dyn ProgramFiles>>>;

/// A watch of the paths that `locate` names; it is asked again after every event. The key tells whether two watches are the
/// same.
pub(crate) fn paths(key: impl Into<Str>, locate: impl Fn() -> Vec<Str> + Send + Sync + 'static) -> Watch {
    let locate = Arc::new(locate);
    let locate = move |_: &Host| {
        let locate = Arc::clone(&locate);
        Box::new(move || locate().into_iter().map(alone).collect()) as Locate
    };
    located(key.into(), Arc::new(locate), None)
}

/// A watch of files in a resource's directory for its state.
pub(crate) fn state_files(directory: String, files: &'static [&'static str]) -> Watch {
    let key = Str::from(format!("state {directory}"));
    let locate = move |host: &Host| {
        let directory = host.state.join(&directory);
        let path = move |file: &&str| alone(Str::new(directory.join(file).as_os_str().as_bytes()));
        Box::new(move || files.iter().map(&path).collect()) as Locate
    };
    located(key, Arc::new(locate), None)
}

/// A watch of the files of the program that runs, whichever it is.
pub(crate) fn program_files() -> Watch {
    let locate = |host: &Host| {
        let programs = host.program_files.subscribe();
        Box::new(move || {
            let places = programs.borrow().as_ref().map(|files| files.places()).unwrap_or_default();
            places.iter().map(|place| (Str::new(place.as_os_str().as_bytes()), true)).collect()
        }) as Locate
    };
    located("program".into(), Arc::new(locate), Some(|host| host.program_files.subscribe()))
}

fn alone(path: Str) -> (Str, bool) {
    (path, false)
}

/// A watch of a value of the local store.
pub(crate) fn stored_value(key: &Str) -> Watch {
    let (told, key) = (Str::from(format!("value {key:?}")), key.clone());
    let start = move |host: &Host| Ok(Box::new(Stored(host.local.value_watch(&key))) as Box<dyn WatchStream>);
    Watch::Stream { key: told, start: Arc::new(start) }
}

struct Stored(watch::Receiver<u64>);

impl WatchStream for Stored {
    fn next<'a>(&'a mut self, cancel: &'a Cancel) -> Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>> {
        Box::pin(async move {
            tokio::select! {
                changed = self.0.changed() => changed.context("cannot follow the value any longer"),
                () = cancel.cancelled() => Err(Error::Cancelled),
            }
        })
    }
}

/// A watch of a value in the store that hosts share. The key of the watch tells whether two are the same.
pub(crate) fn shared_value(watch_key: Str, key: Str, scope: Scope) -> Watch {
    let start =
        move |host: &Host| Ok(Box::new(Shared(host.strings().watch(&key, scope))) as Box<dyn WatchStream>);
    Watch::Stream { key: watch_key, start: Arc::new(start) }
}

struct Shared(Box<dyn SharedChanges>);

impl WatchStream for Shared {
    fn next<'a>(&'a mut self, cancel: &'a Cancel) -> Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>> {
        Box::pin(async move {
            tokio::select! {
                changed = self.0.next() => changed.context("cannot follow the key any longer"),
                () = cancel.cancelled() => Err(Error::Cancelled),
            }
        })
    }
}

fn located(key: Str, locate: LocateOn, programs: Option<fn(&Host) -> Programs>) -> Watch {
    let start = move |host: &Host| {
        let programs = programs.map(|subscribe| subscribe(host));
        let mut followed = Followed::new(Hub::get()?, locate(host), programs);
        followed.subscribe()?;
        Ok(Box::new(followed) as Box<dyn WatchStream>)
    };
    Watch::Stream { key, start: Arc::new(start) }
}

/// The paths of one watch.
struct Followed {
    hub: Arc<Hub>,
    locate: Locate,
    /// If the paths depend on it.
    programs: Option<Programs>,
    token: Token,
    told: Arc<Notify>,
    paths: Vec<(Str, bool)>,
    subscriptions: Vec<SubscriptionId>,
}

impl Followed {
    fn new(hub: Arc<Hub>, locate: Locate, programs: Option<Programs>) -> Followed {
        let told = Arc::new(Notify::new());
        let token = hub.audience.add(Arc::clone(&told));
        Followed { hub, locate, programs, token, told, paths: Vec::new(), subscriptions: Vec::new() }
    }

    /// Watches what is to be watched now. The old watches end only after the new ones have begun.
    fn subscribe(&mut self) -> Result<()> {
        let paths = lookup_now(|| Ok((self.locate)()))?;
        if paths == self.paths {
            return Ok(());
        }
        let parse =
            |(path, recursive): &(Str, bool)| WatchPath::from_bytes(path, *recursive).context("cannot watch");
        let parsed = paths.iter().map(parse).collect::<Result<Vec<_>>>()?;
        let fresh = parsed.iter().map(|path| self.hub.files.subscribe(self.token, path)).collect();
        for old in std::mem::replace(&mut self.subscriptions, fresh) {
            self.hub.files.unsubscribe(old);
        }
        self.paths = paths;
        Ok(())
    }
}

impl WatchStream for Followed {
    fn next<'a>(&'a mut self, cancel: &'a Cancel) -> Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>> {
        Box::pin(async move {
            let another_program = async {
                // Fails only when the host is gone, and then there is nothing more to tell.
                if let Some(programs) = &mut self.programs
                    && programs.changed().await.is_ok()
                {
                    return;
                }
                std::future::pending::<()>().await;
            };
            tokio::select! {
                () = self.told.notified() => {}
                () = another_program => {}
                () = cancel.cancelled() => return Err(Error::Cancelled),
            }
            // Before the event is told, so that nothing is missed between it and the next one.
            self.subscribe()
        })
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        for subscription in self.subscriptions.drain(..) {
            self.hub.files.unsubscribe(subscription);
        }
        self.hub.audience.remove(self.token);
    }
}

/// The hub, and who listens.
struct Hub {
    files: FileHub,
    audience: Arc<Audience>,
}

impl Hub {
    fn get() -> Result<Arc<Hub>> {
        static PRESENT: Mutex<Weak<Hub>> = Mutex::new(Weak::new());
        let mut present = lock(&PRESENT);
        if let Some(hub) = present.upgrade() {
            return Ok(hub);
        }
        let audience = Arc::new(Audience::default());
        let files = FileHub::new(Arc::clone(&audience) as Arc<dyn Sink>).context("cannot watch files")?;
        let hub = Arc::new(Hub { files, audience });
        *present = Arc::downgrade(&hub);
        Ok(hub)
    }
}

#[derive(Default)]
struct Audience(Mutex<(u64, HashMap<Token, Arc<Notify>>)>);

impl Audience {
    fn add(&self, told: Arc<Notify>) -> Token {
        let (last, audience) = &mut *lock(&self.0);
        *last += 1;
        audience.insert(Token(*last), told);
        Token(*last)
    }

    fn remove(&self, token: Token) {
        lock(&self.0).1.remove(&token);
    }
}

impl Sink for Audience {
    fn changed(&self, token: Token) {
        if let Some(told) = lock(&self.0).1.get(&token) {
            told.notify_one();
        }
    }

    fn notice(&self, notice: Notice) {
        tracing::warn!(target: "mgmt::resource", "{notice}");
    }
}

/// A poisoned lock means that somebody panicked; what is in it is changed in one step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
