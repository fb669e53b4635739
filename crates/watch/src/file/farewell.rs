//! The end of a process that watches files, without the wait for it.
//!
//! Whoever closes the last descriptor of an inotify instance with watches waits until no processor can be looking at them any
//! more: 10 to 20 ms, in which the program has ended for itself but not for whoever started it. What is in flight in a
//! socket that nobody can reach is closed by a thread of the kernel instead.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, sendmsg,
    socketpair,
};

/// A socket that holds a descriptor, and itself. When the process ends, nobody can reach either, and the kernel clears up.
///
/// It has to be closed after all other descriptors of the instance. At the end of a process that is so: they are closed in the
/// order of their numbers.
pub(super) fn hold(instance: &OwnedFd) -> rustix::io::Result<OwnedFd> {
    let (from, to) = socketpair(
        AddressFamily::UNIX,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )?;
    let descriptors = [instance.as_fd(), to.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    // There is room for it.
    control.push(SendAncillaryMessage::ScmRights(&descriptors));
    sendmsg(&from, &[IoSlice::new(b".")], &mut control, SendFlags::NOSIGNAL)?;
    Ok(to)
}
