//! The journal's native protocol: one datagram with all fields, or a file for an entry that is too large for one.

use std::io::{IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use mgmt_resource::{Error, Result};
use mgmt_value::Str;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use tokio::io::Interest;
use tokio::net::UnixDatagram;

use super::Msg;

/// One entry in the form that the journal reads.
pub(super) fn entry(msg: &Msg, severity: usize, program: &str) -> Vec<u8> {
    let mut entry = Vec::new();
    add(&mut entry, "MESSAGE", &msg.body);
    add(&mut entry, "PRIORITY", severity.to_string().as_bytes());
    let identifier = Str::from("SYSLOG_IDENTIFIER");
    if !msg.fields.contains_key(&identifier) {
        add(&mut entry, "SYSLOG_IDENTIFIER", program.as_bytes());
    }
    for (name, value) in &msg.fields {
        add(&mut entry, &name.to_text(), value);
    }
    entry
}

/// `NAME=value`, or with a length in front when the value has lines of its own.
fn add(entry: &mut Vec<u8>, name: &str, value: &[u8]) {
    entry.extend_from_slice(name.as_bytes());
    if value.contains(&b'\n') {
        entry.push(b'\n');
        entry.extend_from_slice(&(value.len() as u64).to_le_bytes());
    } else {
        entry.push(b'=');
    }
    entry.extend_from_slice(value);
    entry.push(b'\n');
}

/// Hands an entry to the journal.
pub(super) async fn write(socket: &Path, entry: &[u8]) -> Result<()> {
    let failed = |error: std::io::Error| {
        Error::new(format_args!("cannot write to the journal at {}: {error}", socket.display()))
            .with_hint("`journal` needs a running systemd-journald")
    };
    let connection = UnixDatagram::unbound().map_err(failed)?;
    connection.connect(socket).map_err(failed)?;
    match connection.send(entry).await {
        Err(error) if is_too_large(&error) => {}
        sent => return sent.map(drop).map_err(failed),
    }
    let file = sealed_file(entry).map_err(failed)?;
    connection.async_io(Interest::WRITABLE, || send_file(&connection, &file)).await.map_err(failed)
}

fn is_too_large(error: &std::io::Error) -> bool {
    let errno = rustix::io::Errno::from_io_error(error);
    matches!(errno, Some(rustix::io::Errno::MSGSIZE | rustix::io::Errno::NOBUFS))
}

/// The entry in a file that nobody can change any more; the journal accepts no other.
fn sealed_file(entry: &[u8]) -> std::io::Result<OwnedFd> {
    let file = memfd_create(c"journal-entry", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    let mut file = std::fs::File::from(file);
    file.write_all(entry)?;
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE | SealFlags::SEAL)?;
    Ok(file.into())
}

fn send_file(connection: &UnixDatagram, file: &OwnedFd) -> std::io::Result<()> {
    let files = [file.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    // The space was made for exactly this message.
    control.push(SendAncillaryMessage::ScmRights(&files));
    sendmsg(connection, &[IoSlice::new(&[])], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}
