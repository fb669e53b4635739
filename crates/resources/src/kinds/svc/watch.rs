//! Changes of a unit as events.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use mgmt_resource::{Cancel, Error, Host, Result, Watch, WatchStream};
use mgmt_value::Str;
use mgmt_watch::Followed;

use super::manager::{Manager, object_path};

/// What the service manager says about a unit.
pub(crate) fn unit(session: bool, unit: &str) -> Watch {
    let key = Str::from(format!("svc {session} {unit}"));
    let path = object_path(unit);
    let start = move |_: &Host| {
        let manager = Manager::of(session)?;
        Ok(Box::new(Unit(manager.0.follow(&path))) as Box<dyn WatchStream>)
    };
    Watch::Stream { key, start: Arc::new(start) }
}

struct Unit(Followed);

impl WatchStream for Unit {
    fn next<'a>(&'a mut self, cancel: &'a Cancel) -> Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>> {
        Box::pin(async move {
            tokio::select! {
                event = self.0.next() => event.map_err(super::manager::unreachable),
                () = cancel.cancelled() => Err(Error::Cancelled),
            }
        })
    }
}
