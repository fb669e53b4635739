//! The file from which the interface is set up at every boot, and the service that reads it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mgmt_resource::{Checked, Context, Effect, Error, Result};
use mgmt_sys::ManagedPath;
use mgmt_sys::dir::Parent;
use mgmt_sys::replace::InPlace;
use mgmt_value::Str;
use mgmt_watch::{Bus, BusService, Service, Topic};

use crate::support::text_file::{TextFile, explain};

const DIRECTORY: &str = "/etc/systemd/network";
const MODE: u32 = 0o644;
/// There if and only if the host was booted with systemd.
const BOOTED: &str = "/run/systemd/system";
const NAME: &str = "org.freedesktop.network1";
const PATH: &str = "/org/freedesktop/network1";
const MANAGER: &str = "org.freedesktop.network1.Manager";
/// How long it may take to read all files again.
const LIMIT: Duration = Duration::from_secs(25);

/// The file for an interface.
pub(super) fn path(interface: &Str) -> Str {
    [DIRECTORY.as_bytes(), b"/mgmt-", interface.as_bytes(), b".network"].concat().into()
}

/// Puts the content into the file, or removes the file if there is to be none. Blocks.
pub(super) fn keep(interface: &Str, content: Option<&str>, cx: &Context<'_>) -> Result<Checked> {
    let path = ManagedPath::new(path(interface)).map_err(Error::new)?;
    let Some(content) = content else { return remove(&path, cx) };
    let file = TextFile { path, owner: None, mode: MODE, in_place: InPlace::Refuse };
    file.edit(cx, |text| (text != Some(content.as_bytes())).then(|| content.into()))
}

fn remove(path: &ManagedPath, cx: &Context<'_>) -> Result<Checked> {
    let name = path.file_name().unwrap_or_default();
    let removed = Parent::open(path).and_then(|parent| {
        if !parent.exists(name)? {
            return Ok(Checked::Right);
        }
        cx.describe(Effect::remove(path).aspect("file"));
        if cx.apply {
            parent.unlink(name)?;
        }
        Ok(Checked::Changed)
    });
    match removed {
        Err(error) if error.is_not_found() => Ok(Checked::Right),
        removed => removed.map_err(|error| explain(&error)),
    }
}

/// Has the service read its files again, if it runs; it sets up anew those interfaces whose file has changed, and no others.
/// Without it, the file is for the next boot.
pub(super) async fn tell(cx: &Context<'_>) -> Result<()> {
    if !Path::new(BOOTED).is_dir() {
        return Ok(());
    }
    let service: Arc<BusService> =
        BusService::of(Bus::System, Service { name: NAME, subscribe: None, topic: |_| Topic::None });
    let told = async {
        match service.is_running().await {
            Ok(true) => service.call_within::<_, ()>(LIMIT, PATH, MANAGER, "Reload", &()).await,
            // Without a bus nobody can be told, and the interface is set up all the same.
            _ => Ok(()),
        }
    };
    tokio::select! {
        told = told => told.map_err(|error| {
            Error::new(format_args!("cannot make systemd-networkd read its files again: {error}"))
                .with_hint("systemctl status systemd-networkd tells more")
        }),
        () = cx.cancel.cancelled() => Err(Error::Cancelled),
    }
}
