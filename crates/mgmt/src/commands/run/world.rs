//! The world that a run is part of.

use std::sync::Arc;
use std::time::Duration;

use mgmt_world::socket::{Server, serve as serve_store};
use mgmt_world::store::Store;
use mgmt_world::{Embedded, World};

use super::prefix::Prefix;
use super::settings::Settings;
use crate::connection::{self, SOCKET, STORE};
use crate::failure::Failure;
use crate::ssh;

/// Opens the store: that of the servers, or that of this host.
pub(super) async fn open(settings: &Settings, prefix: &Prefix) -> Result<Arc<dyn Store>, Failure> {
    if let Some(login) = settings.way.clone() {
        return ssh::store(login, settings.servers.clone(), None).await;
    }
    if let Some(servers) = settings.servers.clone() {
        return connection::servers(servers);
    }
    prefix.directory("world")?;
    let store = Embedded::open(&prefix.path().join(STORE))
        .map_err(|error| Failure::failed(format!("cannot open the store of this host: {error}")))?;
    Ok(Arc::new(store))
}

/// Lets other processes of this host use it.
pub(super) fn serve(world: &World, prefix: &Prefix) -> Result<Server, Failure> {
    prefix.directory("world")?;
    let path = prefix.path().join(SOCKET);
    serve_store(Arc::clone(world.store()), &path)
        .map_err(|error| Failure::failed(format!("cannot listen on {}: {error}", path.display())))
}

/// Waits until it is known what is in the store, and says so if that takes long.
pub(super) async fn ready(world: &World) {
    const SOON: Duration = Duration::from_secs(2);
    if tokio::time::timeout(SOON, world.ready()).await.is_err() {
        tracing::warn!("waiting for the store");
        world.ready().await;
        tracing::info!("the store has answered");
    }
}
