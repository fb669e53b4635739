//! A program on another host that goes on without us.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};
use std::time::Duration;

use mgmt_remote::{Login, Place, Runs, Service, Visit};
use mgmt_resource::{Cancel, Checked, Context, Error, Result, Watch, WatchStream};
use mgmt_value::Str;
use sha2::{Digest as _, Sha256};
use tokio::sync::Notify;

use super::{Remote, failed, seeds};

const PROGRAM: &str = "/proc/self/exe";

/// Looks at it, and starts or stops it.
pub(super) async fn check(remote: &Remote, cx: &mut Context<'_>) -> Result<Checked> {
    let login = remote.login(&cx.id.name)?;
    let is_wanted = remote.is_to_run();
    let arguments = match is_wanted {
        true => arguments(remote, cx)?,
        false => Vec::new(),
    };
    let directory = directory(&cx.id.name);
    let service = Service {
        login: &login,
        program: Path::new(PROGRAM),
        place: remote.place(),
        install: remote.install_deps,
        name: &directory,
        arguments: &arguments,
    };
    let mut visit = tokio::select! {
        visit = service.visit() => visit.map_err(failed)?,
        () = cx.cancel.cancelled() => return Err(Error::Cancelled),
    };
    if matches!((is_wanted, visit.runs), (true, Runs::Right) | (false, Runs::No)) {
        return Ok(Checked::Right);
    }
    if !cx.apply {
        return Ok(Checked::Changed);
    }
    cx.checkpoint()?;
    // What has begun comes to its end, unless we have to stop at any cost.
    tokio::select! {
        done = change(&mut visit, is_wanted, cx) => done?,
        () = cx.cancel.interrupted() => return Err(Error::Cancelled),
    }
    Ok(Checked::Changed)
}

async fn change(visit: &mut Visit, is_wanted: bool, cx: &Context<'_>) -> Result<()> {
    if visit.runs != Runs::No {
        visit.stop().await.map_err(failed)?;
        cx.info("stopped");
    }
    if is_wanted {
        visit.start().await.map_err(failed)?;
        cx.info("started");
        started(&cx.id.name).notify_waiters();
    }
    Ok(())
}

fn arguments(remote: &Remote, cx: &Context<'_>) -> Result<Vec<String>> {
    let mut words = vec!["run".to_owned()];
    if !remote.hostname.is_empty() {
        words.extend(["--hostname".to_owned(), remote.hostname.to_text().into_owned()]);
    }
    words.extend(["--seeds".to_owned(), seeds::of(cx.host)?, "empty".to_owned()]);
    Ok(words)
}

/// The name of its directory there. It depends on nothing but the resource, so that whichever host declares it finds it.
fn directory(name: &Str) -> String {
    let digest = Sha256::digest([b"remote:", &name[..]].concat());
    digest.iter().take(5).fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// What tells a watch that the program was started, by the name of the resource.
fn started(name: &Str) -> Arc<Notify> {
    static KNOWN: LazyLock<Mutex<HashMap<Str, Weak<Notify>>>> = LazyLock::new(Mutex::default);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(notify) = known.get(name).and_then(Weak::upgrade) {
        return notify;
    }
    known.retain(|_, notify| notify.strong_count() > 0);
    let notify = Arc::new(Notify::new());
    known.insert(name.clone(), Arc::downgrade(&notify));
    notify
}

/// The end of the program is an event.
pub(super) fn watch(remote: &Remote, name: &Str) -> Watch {
    let key = Str::from(format!("remote {name:?} {remote:?}"));
    let (remote, name) = (remote.clone(), name.clone());
    let start = move |_: &mgmt_resource::Host| {
        let following = Following {
            login: remote.login(&name)?,
            place: remote.place(),
            directory: directory(&name),
            started: started(&name),
            pause: SHORTEST,
            is_expected: false,
        };
        Ok(Box::new(following) as Box<dyn WatchStream>)
    };
    Watch::Stream { key, start: Arc::new(start) }
}

/// While the program does not run, or its host cannot be reached, it is looked for now and then: whoever else starts it
/// tells nobody.
const SHORTEST: Duration = Duration::from_secs(5);
const LONGEST: Duration = Duration::from_secs(60);

struct Following {
    login: Login,
    place: Place,
    directory: String,
    started: Arc<Notify>,
    pause: Duration,
    /// It was started, and is to be seen.
    is_expected: bool,
}

impl Following {
    /// Waits until the program has ended, or the connection to its host.
    async fn ended(&mut self) {
        loop {
            let service = Service {
                login: &self.login,
                program: Path::new(PROGRAM),
                place: self.place,
                install: false,
                name: &self.directory,
                arguments: &[],
            };
            let started = Arc::clone(&self.started);
            let told = started.notified();
            match service.visit().await {
                Ok(visit) if visit.runs == Runs::No => {
                    // It was started, and has ended before anybody could look.
                    if std::mem::take(&mut self.is_expected) {
                        return;
                    }
                }
                Ok(mut visit) => {
                    (self.pause, self.is_expected) = (SHORTEST, false);
                    if let Err(error) = visit.ended().await {
                        tracing::debug!("{error}");
                    }
                    return;
                }
                Err(error) => tracing::debug!("{error}"),
            }
            self.is_expected |= tokio::time::timeout(self.pause, told).await.is_ok();
            self.pause = (self.pause * 2).min(LONGEST);
        }
    }
}

impl WatchStream for Following {
    fn next<'a>(&'a mut self, cancel: &'a Cancel) -> Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>> {
        Box::pin(async move {
            tokio::select! {
                () = self.ended() => Ok(()),
                () = cancel.cancelled() => Err(Error::Cancelled),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_depends_on_the_name_alone() {
        assert_eq!(directory(&"web1".into()), directory(&"web1".into()));
        assert_ne!(directory(&"web1".into()), directory(&"web2".into()));
        assert_eq!(directory(&"../x".into()).len(), 10);
        assert!(directory(&"../x".into()).bytes().all(|byte| byte.is_ascii_hexdigit()));
    }
}
