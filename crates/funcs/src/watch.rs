//! What wakes a live function.

use std::path::PathBuf;
use std::time::Duration;

use mgmt_value::Str;

/// Something to be told about, as data: equal watches can share one source of events.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Watch {
    /// Time passes: an event per period, the first one a period after the start.
    Interval(Duration),
    /// A new day begins in the time zone of the process.
    Midnight,
    /// A path, which need not exist: it, its content, or a directory above it changes.
    Path(PathBuf),
    /// Network interfaces and their addresses.
    Links,
    /// The name that the kernel has for this host.
    Hostname,
    /// Events of the kernel about devices of one subsystem: `cpu`, `module`.
    Kernel(&'static str),
    /// What the daemon for updates of firmware says on the system bus.
    Firmware,
    /// Lines that a shell command prints. It runs as long as somebody watches, and is started again if it fails.
    Command(Str),
    /// The value under a key of the local store.
    Value(Str),
    /// The last answer to the request of this name.
    Http(Str),
    /// One text of the cluster.
    WorldString(Str),
    /// The text of every host under one name of the cluster.
    WorldStrings(Str),
    /// Which hosts the cluster has chosen for a name.
    Schedule(Str),
    /// Resources of a kind that hosts export.
    Exports(Str),
    /// A call has failed, and may succeed at another time: an event after 1 s, and then after growing pauses. The number is the
    /// call's.
    Retry(u64),
    /// The next event comes as soon as the last one has been dealt with. For tests.
    Endless,
}

/// How long it is until [`Watch::Midnight`], in the time zone of the process. None if the calendar ends before.
pub fn until_midnight() -> Option<Duration> {
    let now = jiff::Zoned::now();
    let midnight = now.tomorrow().ok()?.start_of_day().ok()?;
    Duration::try_from(now.duration_until(&midnight)).ok()
}
