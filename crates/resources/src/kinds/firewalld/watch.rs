//! Changes of zones as events.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use mgmt_resource::{Cancel, Error, Host, Result, Watch, WatchStream};
use mgmt_watch::Followed;

use super::daemon::{Daemon, unreachable};

/// What firewalld says.
pub(super) fn daemon() -> Watch {
    let start = |_: &Host| {
        let daemon = Daemon::find();
        let followed = daemon.0.follow("");
        Ok(Box::new(Told { daemon, followed, has_stopped: false }) as Box<dyn WatchStream>)
    };
    Watch::Stream { key: "firewalld".into(), start: Arc::new(start) }
}

struct Told {
    daemon: Daemon,
    followed: Followed,
    has_stopped: bool,
}

impl Told {
    /// A firewalld that has stopped has nothing to be looked at; there is an event when it starts again.
    async fn event(&mut self) -> Result<()> {
        loop {
            self.followed.next().await.map_err(unreachable)?;
            match self.daemon.0.is_running().await {
                Ok(true) => {
                    self.has_stopped = false;
                    return Ok(());
                }
                Ok(false) if !self.has_stopped => {
                    self.has_stopped = true;
                    tracing::warn!(target: "mgmt::resource", "firewalld does not run; what it is to do is looked at when it starts");
                }
                // There is an event, too, when the bus is there again.
                _ => {}
            }
        }
    }
}

impl WatchStream for Told {
    fn next<'a>(&'a mut self, cancel: &'a Cancel) -> Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>> {
        Box::pin(async move {
            tokio::select! {
                event = self.event() => event,
                () = cancel.cancelled() => Err(Error::Cancelled),
            }
        })
    }
}
