//! Changes of names as events.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use mgmt_resource::{Cancel, Error, Host, Result, ResultExt, Watch, WatchStream};
use mgmt_watch::{Followed, KernelEvents, KernelTopic};

use super::hostnamed::Hostnamed;
use super::names::Which;

const UNTOLD: &str = "cannot hear of changes of the host's name";

/// Changes of one name.
pub(super) fn of(which: Which) -> Watch {
    if let Some(file) = which.file() {
        return Watch::Path { path: file.into(), recursive: false };
    }
    let start = |_: &Host| {
        let events = KernelEvents::follow(&KernelTopic::Hostname).context(UNTOLD)?;
        Ok(Box::new(Kernel(events)) as Box<dyn WatchStream>)
    };
    Watch::Stream { key: "hostname".into(), start: Arc::new(start) }
}

/// What the service says, if this host can have it. The files and the kernel tell as much, so nothing is lost without it.
pub(super) fn service() -> Option<Watch> {
    Hostnamed::is_likely().then(|| {
        let start = |_: &Host| {
            let followed = Hostnamed::find().map(|service| service.0.follow(""));
            Ok(Box::new(Told(followed)) as Box<dyn WatchStream>)
        };
        Watch::Stream { key: "hostnamed".into(), start: Arc::new(start) }
    })
}

struct Kernel(KernelEvents);

impl WatchStream for Kernel {
    fn next<'a>(&'a mut self, cancel: &'a Cancel) -> Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>> {
        Box::pin(async move {
            tokio::select! {
                event = self.0.next() => event.context(UNTOLD),
                () = cancel.cancelled() => Err(Error::Cancelled),
            }
        })
    }
}

/// Waits for an event. False if there is no bus; one that was there is waited for.
async fn heard(followed: &mut Followed) -> bool {
    loop {
        match followed.next().await {
            Ok(()) => return true,
            Err(_) if followed.was_ready() => {}
            Err(_) => return false,
        }
    }
}

struct Told(Option<Followed>);

impl WatchStream for Told {
    fn next<'a>(&'a mut self, cancel: &'a Cancel) -> Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>> {
        Box::pin(async move {
            let event = async {
                match &mut self.0 {
                    Some(followed) => heard(followed).await,
                    None => false,
                }
            };
            let heard = tokio::select! {
                heard = event => heard,
                () = cancel.cancelled() => return Err(Error::Cancelled),
            };
            if heard {
                return Ok(());
            }
            // There is no bus; the other sources go on without it.
            self.0 = None;
            cancel.cancelled().await;
            Err(Error::Cancelled)
        })
    }
}
