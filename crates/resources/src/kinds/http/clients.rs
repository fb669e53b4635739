//! Limits per client address, so that one client cannot take the room of all others.
//!
//! A client is an address; of the newer protocol, a network of 64 bits, since a host has as many addresses there as it wants.
//! A connection is *half-open* until the head of its first request is there.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::lock;

/// Connections of one client at a time, unless the server says otherwise.
pub(super) const MAX_CONNECTIONS_PER_CLIENT: usize = 64;
/// Of these, connections without a request.
pub(super) const MAX_HALF_OPEN_PER_CLIENT: usize = 16;

/// How many connections each client has.
#[derive(Clone, Default)]
pub(super) struct Clients(Arc<Mutex<HashMap<IpAddr, Count>>>);

#[derive(Clone, Copy, Default)]
struct Count {
    open: usize,
    half_open: usize,
}

/// A connection that was let in. It is counted until it is dropped.
pub(super) struct Visit {
    clients: Clients,
    client: IpAddr,
    half_open: AtomicBool,
}

impl Clients {
    /// Lets a connection in, unless its client has too many. `limit` is for all of them; 0 is none.
    pub(super) fn admit(&self, address: IpAddr, limit: usize) -> Option<Visit> {
        let client = client(address);
        let mut counts = lock(&self.0);
        let count = counts.entry(client).or_default();
        let full =
            limit > 0 && (count.open >= limit || count.half_open >= MAX_HALF_OPEN_PER_CLIENT.min(limit));
        if full {
            return None;
        }
        count.open += 1;
        count.half_open += 1;
        Some(Visit { clients: self.clone(), client, half_open: AtomicBool::new(true) })
    }

    fn change(&self, client: IpAddr, change: impl Fn(&mut Count)) {
        let mut counts = lock(&self.0);
        if let Some(count) = counts.get_mut(&client) {
            change(count);
            if count.open == 0 {
                counts.remove(&client);
            }
        }
    }
}

impl Visit {
    /// The head of a request has come.
    pub(super) fn asked(&self) {
        if self.half_open.swap(false, Ordering::Relaxed) {
            self.clients.change(self.client, |count| count.half_open -= 1);
        }
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        let half_open = usize::from(*self.half_open.get_mut());
        self.clients.change(self.client, |count| {
            count.open -= 1;
            count.half_open -= half_open;
        });
    }
}

fn client(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let mut segments = address.segments();
            segments[4..].fill(0);
            IpAddr::V6(Ipv6Addr::from(segments))
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_client_has_so_many_connections_and_others_have_their_own() {
        let clients = Clients::default();
        let admit = |text: &str, limit| clients.admit(address(text), limit);
        let half: Vec<_> = std::iter::from_fn(|| admit("192.0.2.1", 64)).take(1000).collect();
        assert_eq!(half.len(), MAX_HALF_OPEN_PER_CLIENT);
        assert!(admit("::ffff:192.0.2.1", 64).is_none(), "the same in the words of the newer protocol");
        assert!(admit("192.0.2.2", 64).is_some());
        let ask = || admit("192.0.2.1", 64).inspect(Visit::asked);
        half.iter().for_each(Visit::asked);
        let rest: Vec<_> = std::iter::from_fn(ask).take(1000).collect();
        assert_eq!(half.len() + rest.len(), MAX_CONNECTIONS_PER_CLIENT);
        drop((half, rest));
        assert!(lock(&clients.0).is_empty());
        let network: Vec<_> = (0..100)
            .filter_map(|host| admit(&format!("2001:db8::{host}"), 4).inspect(Visit::asked))
            .collect();
        assert_eq!(network.len(), 4);
        assert!(admit("2001:db8:0:1::1", 4).is_some());
        let unlimited: Vec<_> = (0..500).filter_map(|_| admit("192.0.2.9", 0)).collect();
        assert_eq!(unlimited.len(), 500);
    }
}
