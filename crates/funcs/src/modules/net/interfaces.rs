//! The network interfaces of this host.

use std::net::Ipv4Addr;
use std::path::Path;

use mgmt_value::Str;
use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use nix::net::if_::InterfaceFlags;

use crate::Failure;

/// Everything that the kernel knows, in its own order: one entry per interface, then one per address.
fn entries() -> Result<Vec<InterfaceAddress>, Failure> {
    let entries = getifaddrs().map(Iterator::collect);
    entries.map_err(|error| Failure::fatal(format!("can't list the network interfaces: {error}")))
}

/// The hardware address of an entry that has one, except loopback.
fn hardware(entry: &InterfaceAddress) -> Option<[u8; 6]> {
    if entry.flags.contains(InterfaceFlags::IFF_LOOPBACK) {
        return None;
    }
    let link = entry.address.as_ref()?.as_link_addr()?;
    link.addr().filter(|address| link.halen() == 6 && *address != [0; 6])
}

pub(crate) fn macs() -> Result<Vec<String>, Failure> {
    let text = |address: [u8; 6]| address.map(|byte| format!("{byte:02x}")).join(":");
    Ok(entries()?.iter().filter_map(hardware).map(text).collect())
}

pub(super) fn cidr(interface: &Str) -> Result<String, Failure> {
    let entries = entries()?;
    let mut found =
        entries.iter().filter(|entry| entry.interface_name.as_bytes() == interface.as_bytes()).peekable();
    if found.peek().is_none() {
        return Err(Failure::catchable(format!("there is no interface {interface:?}")));
    }
    let address = |entry: &InterfaceAddress| {
        let address = entry.address.as_ref()?.as_sockaddr_in()?.ip();
        let mask = entry.netmask.as_ref()?.as_sockaddr_in()?.ip();
        is_reachable(address).then(|| format!("{address}/{}", mask.to_bits().count_ones()))
    };
    found.find_map(address).ok_or_else(|| {
        Failure::catchable(format!("the interface {interface:?} has no IPv4 address that others can reach"))
    })
}

/// Private addresses can be reached.
fn is_reachable(address: Ipv4Addr) -> bool {
    !(address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_broadcast()
        || address.is_unspecified())
}

pub(super) fn wired() -> Result<String, Failure> {
    let entries = entries()?;
    let is_wireless = |entry: &InterfaceAddress| {
        Path::new("/sys/class/net").join(&entry.interface_name).join("wireless").exists()
    };
    let wired: Vec<_> =
        entries.iter().filter(|entry| hardware(entry).is_some() && !is_wireless(entry)).collect();
    let up = wired.iter().find(|entry| entry.flags.contains(InterfaceFlags::IFF_UP));
    match up.or(wired.first()) {
        Some(entry) => Ok(entry.interface_name.clone()),
        None => Err(Failure::catchable("there is no wired network interface")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_addresses_can_be_reached() {
        let reachable = |text: &str| is_reachable(text.parse().unwrap());
        for text in ["192.168.0.1", "10.0.0.1", "8.8.8.8"] {
            assert!(reachable(text));
        }
        for text in ["127.0.0.1", "169.254.1.1", "224.0.0.1", "255.255.255.255", "0.0.0.0"] {
            assert!(!reachable(text));
        }
    }
}
