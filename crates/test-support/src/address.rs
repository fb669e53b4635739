//! Reserved loopback addresses, for programs that can be handed neither a socket nor port 0.
//!
//! A port that was free a moment ago may be given to another process before the program under test listens on it. A reserved one
//! is not: one connection to it was closed on its own side, so that the kernel keeps the port in `TIME_WAIT` for a minute. It gives
//! such a port to nobody who asks for any, and lets a listener that sets `SO_REUSEADDR` have it, as the listeners of Rust,
//! Go and Java and that of sshd do.
//!
//! A server in the process of the test binds port 0 and keeps the listener instead.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};

/// An address on loopback whose port stays free for a program that listens on it within a minute.
pub fn reserved() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let client = TcpStream::connect(address).unwrap();
    let (server, _) = listener.accept().unwrap();
    // The side that closes first has its port in `TIME_WAIT`.
    drop(server);
    drop(client);
    address
}

/// The port of a reserved address.
pub fn reserved_port() -> u16 {
    reserved().port()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reserved_address_is_free_for_a_listener_and_is_given_to_nobody_else() {
        let address = reserved();
        let others: Vec<TcpListener> =
            (0..500).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()).collect();
        assert!(others.iter().all(|other| other.local_addr().unwrap() != address));
        TcpListener::bind(address).unwrap();
    }
}
