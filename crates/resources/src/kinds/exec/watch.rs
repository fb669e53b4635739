//! The command that reports events.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use mgmt_resource::{Cancel, Declared, Error, Host, Id, Result, Watch, WatchStream};
use mgmt_sys::process::{LineEvent, Lines, Signal, Status};
use mgmt_value::Str;
use sha2::{Digest, Sha256};

use super::Exec;
use super::run::GRACE;
use crate::support::account;

/// The watch of a resource that has a `watchcmd`.
pub(super) fn watch(exec: &Exec, name: &Str) -> Option<Watch> {
    exec.watch_line()?;
    let (exec, id) = (exec.clone(), Id::new(Exec::KIND, name.clone()));
    let key = key(&exec);
    Some(Watch::Stream { key, start: Arc::new(move |host| start(&exec, &id, host)) })
}

/// Equal for two declarations whose watches may stand for each other. A digest, because some of it is secret.
fn key(exec: &Exec) -> Str {
    let mut digest = Sha256::new();
    let mut add = |part: &Str| {
        digest.update((part.len() as u64).to_le_bytes());
        digest.update(part.as_bytes());
    };
    for part in [&exec.watchcmd, &exec.watchshell, &exec.watchcwd, &exec.user, &exec.group, &exec.sig] {
        add(part);
    }
    for (name, value) in &exec.env.reveal().0 {
        add(name);
        add(value);
    }
    let hex: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Str::from(format!("watchcmd {hex}"))
}

fn start(exec: &Exec, id: &Id, host: &Host) -> Result<Box<dyn WatchStream>> {
    let Some(line) = exec.watch_line() else { return Err(Error::new("there is no `watchcmd`")) };
    let who = if exec.user.is_empty() && exec.group.is_empty() {
        None
    } else {
        // Not later: whoever starts us may look at the host next, and no event after that look may be missed.
        account::lookup_now(|| account::credentials(&exec.user, &exec.group))?
    };
    let running = line.command(exec, id, who, host).spawn().map_err(|error| line.not_started(&error))?;
    Ok(Box::new(WatchCommand {
        lines: Some(running.lines()),
        last: None,
        signal: exec.signal()?,
        exec: exec.clone(),
        id: id.clone(),
    }))
}

struct WatchCommand {
    /// Unset once it has ended.
    lines: Option<Lines>,
    /// The last line on standard error, for the error when it ends.
    last: Option<String>,
    signal: Signal,
    exec: Exec,
    id: Id,
}

impl WatchStream for WatchCommand {
    fn next<'a>(&'a mut self, cancel: &'a Cancel) -> Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>> {
        Box::pin(self.next_line(cancel))
    }
}

impl WatchCommand {
    async fn next_line(&mut self, cancel: &Cancel) -> Result<()> {
        loop {
            let Some(lines) = &mut self.lines else { return Err(Error::new("`watchcmd` has ended")) };
            let event = tokio::select! {
                biased;
                () = cancel.cancelled() => {
                    self.stop(cancel).await;
                    return Err(Error::Cancelled);
                }
                event = lines.next() => event,
            };
            match event {
                Ok(LineEvent::Line(line)) => {
                    let text = self.exec.shown(&line.bytes);
                    let stream = if line.stderr { "stderr" } else { "stdout" };
                    tracing::debug!(target: "mgmt::resource", resource = %self.id, "watchcmd {stream}: {text}");
                    if line.bytes.is_empty() {
                        continue;
                    }
                    if line.stderr {
                        self.last = Some(text);
                    }
                    return Ok(());
                }
                Ok(LineEvent::Ended(status)) => {
                    self.lines = None;
                    return Err(self.ended(status));
                }
                Ok(LineEvent::Closed) => {
                    self.stop(cancel).await;
                    return Err(Error::new("`watchcmd` has closed its output and can report nothing more"));
                }
                Err(error) => {
                    self.stop(cancel).await;
                    return Err(Error::new(format_args!("`watchcmd`: {error}")));
                }
            }
        }
    }

    /// Stops the command and all of its group.
    async fn stop(&mut self, cancel: &Cancel) {
        let Some(lines) = self.lines.take() else { return };
        tokio::select! {
            _ = lines.stop(self.signal, Some(GRACE)) => {}
            // Giving it up kills the group.
            () = cancel.interrupted() => {}
        }
    }

    fn ended(&self, status: Status) -> Error {
        let mut message = format!("`watchcmd` has ended: {status}");
        if let Some(last) = &self.last {
            message.push_str(": ");
            message.push_str(last);
        }
        let hint = self.exec.watch_line().filter(|_| !status.success());
        let hint = hint.and_then(|line| line.hint(&self.exec, status)).unwrap_or_else(|| {
            "it has to run for as long as it watches; the metaparameter `retry` starts it again".into()
        });
        Error::new(message).with_hint(hint)
    }
}

impl Drop for WatchCommand {
    /// Whoever gives the watch up cannot wait. The command still gets its signal and its time; if the program ends
    /// before, the group is killed with the task.
    fn drop(&mut self) {
        if let Some(lines) = self.lines.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let signal = self.signal;
            runtime.spawn(async move { lines.stop(signal, Some(GRACE)).await });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_changes_with_everything_that_the_watch_depends_on() {
        let exec = Exec { watchcmd: "tail -f /x".into(), ..Exec::default() };
        let others = [
            Exec { watchcmd: "tail -f /y".into(), ..exec.clone() },
            Exec { watchshell: "/bin/sh".into(), ..exec.clone() },
            Exec { watchcwd: "/".into(), ..exec.clone() },
            Exec { env: [("A", "b")].into_iter().collect(), ..exec.clone() },
            Exec { env: [("A", "c")].into_iter().collect(), ..exec.clone() },
            Exec { user: "nobody".into(), ..exec.clone() },
            Exec { group: "nobody".into(), ..exec.clone() },
            Exec { sig: "SIGINT".into(), ..exec.clone() },
        ];
        let mut keys: Vec<Str> = others.iter().chain([&exec]).map(key).collect();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), others.len() + 1);
        assert_eq!(key(&Exec { cmd: "/bin/true".into(), ..exec.clone() }), key(&exec));
    }
}
