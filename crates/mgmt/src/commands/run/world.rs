//! The world that a run is part of.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mgmt_world::socket::{Server, serve as serve_store};
use mgmt_world::store::Store;
use mgmt_world::{Embedded, World};

use super::prefix::Prefix;
use crate::failure::Failure;

/// Where the store of this host is.
const STORE: &str = "store";

/// Where other processes of this host find it.
const SOCKET: &str = "socket";

/// Opens the store of this host.
pub(super) fn open(prefix: &Prefix) -> Result<Arc<dyn Store>, Failure> {
    let store = Embedded::open(&place(prefix)?.join(STORE))
        .map_err(|error| Failure::failed(format!("cannot open the store of this host: {error}")))?;
    Ok(Arc::new(store))
}

/// Lets other processes of this host use it.
pub(super) fn serve(world: &World, prefix: &Prefix) -> Result<Server, Failure> {
    let path = place(prefix)?.join(SOCKET);
    serve_store(Arc::clone(world.store()), &path)
        .map_err(|error| Failure::failed(format!("cannot listen on {}: {error}", path.display())))
}

/// Waits until it is known what is in the store, and says so if that takes long.
pub(super) async fn ready(world: &World) {
    const SOON: Duration = Duration::from_secs(2);
    if tokio::time::timeout(SOON, world.ready()).await.is_err() {
        tracing::warn!("waiting for the store");
        world.ready().await;
    }
}

fn place(prefix: &Prefix) -> Result<PathBuf, Failure> {
    prefix.directory("world")
}
