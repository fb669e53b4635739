//! The protocol of `/dev/log`, RFC 3164: one line with a priority.

use std::path::Path;

use mgmt_resource::{Error, Result};
use tokio::net::UnixDatagram;

use super::Msg;

/// Facility `user`, shifted to its place.
const FACILITY: usize = 1 << 3;

/// `<PRIORITY>TAG[PID]: TEXT`.
///
/// The time is left out. The receiver then puts its own, which is the same to a fraction of a second and is in the zone
/// that it writes all others in. The text is made one line of printable characters, because many receivers write it to
/// their files as it comes.
pub(super) fn line(msg: &Msg, severity: usize, program: &str) -> String {
    format!("<{}>{program}[{}]: {}", FACILITY | severity, std::process::id(), msg.body.display())
}

/// Hands a line to syslog.
pub(super) async fn write(socket: &Path, line: &str) -> Result<()> {
    let failed = |error: std::io::Error| {
        Error::new(format_args!("cannot write to syslog at {}: {error}", socket.display()))
            .with_hint("`syslog` needs a running syslog daemon, and messages that are not too large for it")
    };
    let connection = UnixDatagram::unbound().map_err(failed)?;
    connection.connect(socket).map_err(failed)?;
    connection.send(line.as_bytes()).await.map(drop).map_err(failed)
}
