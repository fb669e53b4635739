//! Messages to and from the kernel about interfaces, addresses and routes: how they are written, and a socket to ask by.
//!
//! [`Connection`] asks and has things done. [`messages`] and [`attributes`] read what came; they take any bytes, and end where
//! these are not as they should be. Which number means what, is the business of those who ask.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrAny, SocketFlags, SocketType, bind, recvfrom, sendto,
    socket_with,
};

/// This message is one of several that answer one question. What the kernel tells by itself never has it.
pub const MULTI: u16 = 0x2;
/// Replace what is there.
pub const REPLACE: u16 = 0x100;
/// It must not be there yet.
pub const EXCLUSIVE: u16 = 0x200;
/// Make it if it is not there.
pub const CREATE: u16 = 0x400;
/// Put it behind what is there.
pub const APPEND: u16 = 0x800;
/// The last of several answers.
pub const DONE: u16 = 3;

const REQUEST: u16 = 0x1;
const ACKNOWLEDGE: u16 = 0x4;
/// Everything there is.
const DUMP: u16 = 0x300;
/// An answer that says how it went.
const ERROR: u16 = 2;
/// Things have changed while they were listed.
const INTERRUPTED: u16 = 0x10;
const HEADER: usize = 16;
const ATTRIBUTE_HEADER: usize = 4;
/// The kernel makes no answer longer.
const LONGEST: usize = 64 * 1024;
/// How often a list that changes meanwhile is asked for.
const ATTEMPTS: usize = 10;
/// The kernel answers while it is asked. This is for the case that it does not.
const LIMIT: Duration = Duration::from_secs(5);

/// A way to ask the kernel. Blocks, but for a moment only.
#[derive(Debug)]
pub struct Connection {
    socket: OwnedFd,
    buffer: Vec<u8>,
    last: u32,
}

/// What came: the kind of message and what is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'b> {
    /// What it is about.
    pub kind: u16,
    /// How it is meant.
    pub flags: u16,
    /// To which question it belongs.
    pub sequence: u32,
    /// The fixed part, and attributes behind it.
    pub payload: &'b [u8],
}

impl Connection {
    /// Opens one to the kernel, for the network name space that we are in.
    ///
    /// # Errors
    ///
    /// The kernel does not let us.
    pub fn open() -> io::Result<Connection> {
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
        bind(&socket, &SocketAddrNetlink::new(0, 0))?;
        set_socket_timeout(&socket, Timeout::Recv, Some(LIMIT))?;
        Ok(Connection { socket, buffer: vec![0; LONGEST], last: 0 })
    }

    /// Has something done.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn change(&mut self, kind: u16, flags: u16, payload: &[u8]) -> io::Result<()> {
        let mut nothing = |_: Message<'_>| {};
        self.ask(kind, ACKNOWLEDGE | flags, payload, &mut nothing).map(|_| ())
    }

    /// Asks about one thing.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn get(&mut self, kind: u16, payload: &[u8], mut found: impl FnMut(Message<'_>)) -> io::Result<()> {
        self.ask(kind, ACKNOWLEDGE, payload, &mut found).map(|_| ())
    }

    /// Lists things. What changes meanwhile may be missing, twice or neither; then they are listed again.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn list<T>(
        &mut self,
        kind: u16,
        payload: &[u8],
        read: impl Fn(Message<'_>) -> Option<T>,
    ) -> io::Result<Vec<T>> {
        for _ in 0..ATTEMPTS {
            let mut all = Vec::new();
            let whole = self.ask(kind, DUMP, payload, &mut |message| all.extend(read(message)))?;
            if whole {
                return Ok(all);
            }
        }
        Err(io::Error::new(io::ErrorKind::Interrupted, "it changes faster than it can be listed"))
    }

    /// Asks, and hands on all answers. False: they do not belong together.
    fn ask(
        &mut self,
        kind: u16,
        flags: u16,
        payload: &[u8],
        found: &mut dyn FnMut(Message<'_>),
    ) -> io::Result<bool> {
        self.last = self.last.wrapping_add(1);
        let request = request(kind, flags, self.last, payload);
        sendto(&self.socket, &request, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
        let mut is_whole = true;
        loop {
            let received = recvfrom(&self.socket, &mut self.buffer[..], RecvFlags::TRUNC);
            let (_, length, sender) = match received {
                Err(Errno::INTR) => continue,
                received => received?,
            };
            if !is_kernel(sender.as_ref()) {
                continue;
            }
            let datagram = self.buffer.get(..length).ok_or(io::ErrorKind::InvalidData)?;
            for message in messages(datagram).filter(|message| message.sequence == self.last) {
                is_whole &= message.flags & INTERRUPTED == 0;
                match message.kind {
                    ERROR => {
                        let code = read_u32(message.payload, 0).ok_or(io::ErrorKind::InvalidData)?;
                        return match code.cast_signed() {
                            0 => Ok(is_whole),
                            code => Err(io::Error::from_raw_os_error(code.saturating_neg())),
                        };
                    }
                    DONE => return Ok(is_whole),
                    _ => found(message),
                }
            }
        }
    }
}

/// Whether it was the kernel that sent something, and no other program.
pub fn is_kernel(sender: Option<&SocketAddrAny>) -> bool {
    let sender = sender.cloned().map(SocketAddrNetlink::try_from);
    matches!(sender, Some(Ok(sender)) if sender.pid() == 0)
}

/// A question for everything of a kind, to be sent to the kernel.
pub fn list_request(kind: u16, payload: &[u8]) -> Vec<u8> {
    request(kind, DUMP, 1, payload)
}

fn request(kind: u16, flags: u16, sequence: u32, payload: &[u8]) -> Vec<u8> {
    // Nothing that is asked here comes near the limit.
    let length = u32::try_from(HEADER + payload.len()).unwrap_or(u32::MAX);
    let mut bytes = Vec::with_capacity(HEADER + payload.len());
    bytes.extend_from_slice(&length.to_ne_bytes());
    bytes.extend_from_slice(&kind.to_ne_bytes());
    bytes.extend_from_slice(&(REQUEST | flags).to_ne_bytes());
    bytes.extend_from_slice(&sequence.to_ne_bytes());
    bytes.extend_from_slice(&0_u32.to_ne_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// Adds an attribute.
pub fn push_attribute(payload: &mut Vec<u8>, kind: u16, value: &[u8]) {
    payload.resize(padded(payload.len()), 0);
    let length = u16::try_from(ATTRIBUTE_HEADER + value.len()).unwrap_or(u16::MAX);
    payload.extend_from_slice(&length.to_ne_bytes());
    payload.extend_from_slice(&kind.to_ne_bytes());
    payload.extend_from_slice(value);
    payload.resize(padded(payload.len()), 0);
}

/// The messages in what came at once.
pub fn messages(mut bytes: &[u8]) -> impl Iterator<Item = Message<'_>> {
    std::iter::from_fn(move || {
        let length = usize::try_from(read_u32(bytes, 0)?).ok()?;
        let message = Message {
            kind: read_u16(bytes, 4)?,
            flags: read_u16(bytes, 6)?,
            sequence: read_u32(bytes, 8)?,
            payload: bytes.get(HEADER..length)?,
        };
        bytes = bytes.get(padded(length)..).unwrap_or_default();
        Some(message)
    })
}

/// The attributes that stand behind the fixed part of a message, or in another attribute.
pub fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(read_u16(bytes, 0)?);
        // The two highest bits say how the value is built, and not what it is.
        let kind = read_u16(bytes, 2)? & 0x3fff;
        let value = bytes.get(ATTRIBUTE_HEADER..length)?;
        bytes = bytes.get(padded(length)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// A number in a message.
pub fn read_u16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().copied().map(u16::from_ne_bytes)
}

/// A number in a message.
pub fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().copied().map(u32::from_ne_bytes)
}

/// Everything begins at a multiple of four.
fn padded(length: usize) -> usize {
    length.next_multiple_of(4)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asks for the routes, interfaces and addresses.
    const KINDS: [u16; 3] = [18, 22, 26];

    #[test]
    fn what_is_written_is_read_again() {
        let mut payload = vec![7; 8];
        push_attribute(&mut payload, 3, b"abc\0");
        push_attribute(&mut payload, 4, b"x");
        push_attribute(&mut payload, 5 | 0x8000, b"");
        let mut bytes = request(16, MULTI, 9, &payload);
        bytes.extend(request(17, 0, 10, &[1; 4]));
        let all: Vec<_> = messages(&bytes).collect();
        assert_eq!((all.len(), all[0].kind, all[0].sequence, all[1].payload), (2, 16, 9, &[1; 4][..]));
        let attributes: Vec<_> = attributes(&all[0].payload[8..]).collect();
        assert_eq!(attributes, [(3, &b"abc\0"[..]), (4, &b"x"[..]), (5, &b""[..])]);
    }

    #[test]
    fn whatever_comes_is_read_to_an_end() {
        proptest::proptest!(|(bytes: Vec<u8>)| {
            for message in messages(&bytes) {
                proptest::prop_assert!(attributes(message.payload).count() <= bytes.len());
            }
        });
    }

    #[test]
    fn a_length_that_cannot_be_ends_the_reading() {
        let mut message = request(16, 0, 1, &[0; 4]);
        for length in [0_u32, 3, 15, 21, u32::MAX] {
            message[..4].copy_from_slice(&length.to_ne_bytes());
            assert_eq!(messages(&message).count(), 0, "{length}");
        }
        for length in [0_u16, 1, 3, 9] {
            let mut attribute = vec![0; 8];
            attribute[..2].copy_from_slice(&length.to_ne_bytes());
            assert_eq!(attributes(&attribute).count(), 0, "{length}");
        }
    }

    #[test]
    fn the_kernel_answers() {
        let mut connection = Connection::open().unwrap();
        for kind in KINDS {
            let payload = if kind == 18 { vec![0; 16] } else { vec![0; 12] };
            let all = connection.list(kind, &payload, |message| Some(message.kind)).unwrap();
            assert!(all.iter().all(|found| *found == kind - 2), "{kind}: {all:?}");
        }
        let error = connection.get(18, &[255; 16], |_| {}).unwrap_err();
        assert!(error.raw_os_error().is_some(), "{error}");
    }
}
