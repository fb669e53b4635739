//! A netlink socket that listens.

use std::io;
use std::os::fd::OwnedFd;

use mgmt_sys::netlink::{is_kernel, list_request};
use rustix::io::Errno;
use rustix::net::netlink::{KOBJECT_UEVENT, SocketAddrNetlink};
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recvfrom, sendto,
    socket_with,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// `RTMGRP_LINK`, `RTMGRP_IPV4_IFADDR`, `RTMGRP_IPV4_ROUTE`, `RTMGRP_IPV6_IFADDR` and `RTMGRP_IPV6_ROUTE`.
const LINK_GROUPS: u32 = 0x1 | 0x10 | 0x40 | 0x100 | 0x400;
/// What the kernel itself says. Programs that deal with devices talk in another group.
const KERNEL_GROUP: u32 = 0x1;
/// More than the kernel makes a message long, but for interfaces with very many virtual functions.
const LONGEST: usize = 32 * 1024;

/// A socket that the kernel sends to.
#[derive(Debug)]
pub(super) struct Socket {
    socket: AsyncFd<OwnedFd>,
    buffer: Vec<u8>,
}

/// What has come.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Heard<'b> {
    Message(&'b [u8]),
    /// The kernel had to drop messages, or one was longer than expected.
    Lost,
}

impl Socket {
    /// Hears of interfaces, addresses and routes.
    pub(super) fn links() -> io::Result<Socket> {
        // The protocol of these is number zero.
        Socket::open(None, LINK_GROUPS)
    }

    /// Hears of devices.
    pub(super) fn devices() -> io::Result<Socket> {
        Socket::open(Some(KOBJECT_UEVENT), KERNEL_GROUP)
    }

    fn open(protocol: Option<Protocol>, groups: u32) -> io::Result<Socket> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, protocol)?;
        bind(&socket, &SocketAddrNetlink::new(0, groups))?;
        let socket = super::waiting(socket, Interest::READABLE)?;
        Ok(Socket { socket, buffer: vec![0; LONGEST] })
    }

    /// Asks for a list. The answers come among everything else.
    pub(super) fn ask_for_all(&self, kind: u16, payload: &[u8]) -> io::Result<()> {
        let request = list_request(kind, payload);
        sendto(self.socket.get_ref(), &request, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
        Ok(())
    }

    /// Waits for the next message of the kernel. A call that is dropped loses nothing.
    pub(super) async fn next(&mut self) -> io::Result<Heard<'_>> {
        let buffer = &mut self.buffer;
        let length = loop {
            let mut ready = self.socket.readable().await?;
            let received = ready.try_io(|socket| {
                recvfrom(socket, &mut buffer[..], RecvFlags::TRUNC).map_err(io::Error::from)
            });
            match received {
                // Somebody else than the kernel: not for us.
                Ok(Ok((_, _, sender))) if !is_kernel(sender.as_ref()) => {}
                Ok(Ok((_, length, _))) => break Some(length),
                Ok(Err(error)) if error.raw_os_error() == Some(Errno::NOBUFS.raw_os_error()) => break None,
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(Err(error)) => return Err(error),
                Err(_would_block) => {}
            }
        };
        let message = length.and_then(|length| self.buffer.get(..length));
        Ok(message.map_or(Heard::Lost, Heard::Message))
    }
}
