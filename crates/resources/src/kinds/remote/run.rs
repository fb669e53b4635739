//! A program on another host that ends with us.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mgmt_remote::{Ended, Launch, Launched, News, Stop};
use mgmt_resource::{Checked, Context, Effect, Error, Result};
use mgmt_store::SharedState;

use super::{Remote, failed, seeds};

/// How many of its last lines are shown when it has failed.
const LAST: usize = 20;

/// How long it may take to end when it is told to.
const PATIENCE: Duration = Duration::from_secs(60);

/// Starts it, and is done when it is.
pub(super) async fn run(remote: &Remote, cx: &mut Context<'_>) -> Result<Checked> {
    cx.describe(Effect::run(format_args!("mgmt on {}", cx.id.name.display())));
    if !cx.apply {
        return Ok(Checked::Changed);
    }
    let login = remote.login(&cx.id.name)?;
    let shared = SharedState::of(cx.host).ok_or_else(|| Error::new("this host has no store to share"))?;
    let launch = Launch {
        login: &login,
        program: Path::new("/proc/self/exe"),
        place: remote.place(),
        install: remote.install_deps,
        arguments: arguments(remote, cx)?,
        store: Arc::clone(shared.store()),
    };
    let mut launched = tokio::select! {
        launched = launch.start() => launched.map_err(failed)?,
        () = cx.cancel.cancelled() => return Err(Error::Cancelled),
    };
    cx.info(format_args!("started on {}", login.target));
    let mut last = VecDeque::new();
    let ended = tokio::select! {
        ended = follow(&mut launched, &mut last, cx) => ended,
        () = cx.cancel.cancelled() => {
            end(launched, &mut last, cx).await;
            return Err(Error::Cancelled);
        }
    };
    let last = Vec::from(last).join("\n");
    match ended {
        Ended::Code(0) => {
            cx.info("has converged, and ended");
            Ok(Checked::Changed)
        }
        Ended::Code(code) => {
            Err(Error::new(format_args!("it ended on {} with code {code}: {last}", login.target)))
        }
        Ended::Lost => Err(Error::new(format_args!("the connection to {} is lost: {last}", login.target))),
    }
}

/// The words for it.
fn arguments(remote: &Remote, cx: &Context<'_>) -> Result<Vec<String>> {
    let mut words: Vec<String> = vec!["run".to_owned(), "--launched".to_owned(), "world".to_owned()];
    if !remote.hostname.is_empty() {
        words.extend(["--hostname".to_owned(), remote.hostname.to_text().into_owned()]);
    }
    if !remote.tunnelled {
        words.extend(["--seeds".to_owned(), seeds::of(cx.host)?]);
    }
    let own = cx.host.ends_after.map(|after| after.as_secs());
    let seconds = remote.converger_timeout.map(i64::unsigned_abs).or(own);
    if let Some(seconds) = seconds {
        words.extend(["--converger-timeout".to_owned(), seconds.to_string(), "--converged-exit".to_owned()]);
    }
    words.push("empty".to_owned());
    Ok(words)
}

/// Shows what it says, until it ends.
async fn follow(launched: &mut Launched, last: &mut VecDeque<String>, cx: &Context<'_>) -> Ended {
    loop {
        match launched.next().await {
            News::Line(line) => {
                cx.info(&line);
                if last.len() == LAST {
                    last.pop_front();
                }
                last.push_back(line);
            }
            News::Converged(_) => {}
            News::Ended(ended) => return ended,
        }
    }
}

/// Has it end. If that takes too long, the connection ends, and with it the program, as soon as it can.
async fn end(mut launched: Launched, last: &mut VecDeque<String>, cx: &Context<'_>) {
    launched.stop(Stop::Graceful);
    let ended = async {
        let soon = tokio::time::timeout(PATIENCE / 2, follow(&mut launched, last, cx)).await;
        if soon.is_err() {
            launched.stop(Stop::Cancel);
            let _ = tokio::time::timeout(PATIENCE / 2, follow(&mut launched, last, cx)).await;
        }
    };
    tokio::select! {
        () = ended => {}
        () = cx.cancel.interrupted() => {}
    }
}
