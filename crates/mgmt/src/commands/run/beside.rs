//! A run beside the one that has the working directory: `--noop`, and `--remote` without anything to run here.
//!
//! Such a run has a temporary working directory. What resources and functions keep is read from the other: their state where it
//! is, since a run that only looks never writes it; local values and last runs as a copy; the store through the other run's socket.
//! With `--noop` the store is a copy, too, so that nothing of this run is seen by other hosts. With `--remote` the hosts
//! share the store of the other run, or that of the servers that are given; this host has one of its own, so that it is not
//! there twice.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mgmt_store::Embedded;
use mgmt_store::Store;
use mgmt_store::socket::Socket;

use super::prefix::{Choice, Prefix};
use super::settings::Settings;
use super::world;
use crate::connection::{SOCKET, deadline};
use crate::failure::Failure;

/// How long the run that has the working directory may take to answer.
const STORE_TIMEOUT: Duration = Duration::from_secs(30);

/// The run that has the working directory.
pub(super) struct Beside {
    prefix: PathBuf,
}

/// Takes the working directory of the settings or, if another run has it and this one needs none of its own, a temporary one.
pub(super) fn open(settings: &Settings) -> Result<(Prefix, Option<Beside>), Failure> {
    let (Choice::Path(path) | Choice::PathOrTemporary(path)) = &settings.prefix else {
        return Ok((Prefix::open(&settings.prefix, &settings.hostname)?, None));
    };
    let needs_none =
        (settings.noop || settings.idle) && settings.launched.is_none() && settings.serving.is_none();
    if !needs_none || !Prefix::is_taken(path) {
        return Ok((Prefix::open(&settings.prefix, &settings.hostname)?, None));
    }
    let own = Prefix::open(&Choice::Temporary, &settings.hostname)?;
    tracing::info!("another mgmt has {}; running beside it", path.display());
    let beside = Beside { prefix: path.clone() };
    beside.copy_into(&own)?;
    Ok((own, Some(beside)))
}

impl Beside {
    /// What resources keep there. It is only read.
    pub(super) fn state(&self) -> PathBuf {
        self.prefix.join("engine/state")
    }

    /// The store for this host.
    pub(super) async fn store(&self, settings: &Settings) -> Result<Arc<dyn Store>, Failure> {
        let copy = match settings.idle {
            // Only the hosts of this run share anything.
            true => Embedded::in_memory(),
            false => {
                let store = self.shared_store().await?;
                deadline::within(&self.place(), Some(STORE_TIMEOUT), Embedded::copy_of(&*store)).await
            }
        };
        Ok(Arc::new(copy.map_err(Failure::failed)?))
    }

    /// The store that the hosts of this run share.
    pub(super) async fn store_for_hosts(
        &self,
        settings: &Settings,
        own: &Prefix,
    ) -> Result<Arc<dyn Store>, Failure> {
        match settings.is_shared() {
            true => world::open(settings, own).await.map(|(store, _)| store),
            false => self.shared_store().await,
        }
    }

    /// The store of the other run.
    async fn shared_store(&self) -> Result<Arc<dyn Store>, Failure> {
        let path = self.prefix.join(SOCKET);
        let socket = deadline::within(&self.place(), Some(STORE_TIMEOUT), Socket::connect(&path)).await;
        Ok(Arc::new(socket.map_err(|error| {
            Failure::failed(format!(
                "cannot reach the mgmt that is running with the prefix {}: {error}",
                self.prefix.display()
            ))
        })?))
    }

    /// The store of the other run, for people.
    fn place(&self) -> String {
        format!("the store of the run in {}", self.prefix.display())
    }

    fn copy_into(&self, own: &Prefix) -> Result<(), Failure> {
        let failed = |error: std::io::Error| {
            Failure::failed(format!("cannot copy from the prefix {}: {error}", self.prefix.display()))
        };
        let engine = own.directory("engine")?;
        copy_file(&self.prefix.join("engine/journal"), &engine.join("journal")).map_err(failed)?;
        copy_tree(&self.prefix.join("local"), &own.directory("local")?).map_err(failed)
    }
}

/// Copies the regular files of a directory, as far as they are there: the other run may be replacing them.
fn copy_tree(from: &Path, to: &Path) -> std::io::Result<()> {
    let entries = match std::fs::read_dir(from) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let (kind, to) = (entry.file_type()?, to.join(entry.file_name()));
        if kind.is_dir() {
            std::fs::create_dir_all(&to)?;
            copy_tree(&entry.path(), &to)?;
        } else if kind.is_file() {
            copy_file(&entry.path(), &to)?;
        }
    }
    Ok(())
}

fn copy_file(from: &Path, to: &Path) -> std::io::Result<()> {
    match std::fs::copy(from, to) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        copied => copied.map(drop),
    }
}
