//! One interface as the kernel has it: whether it is up, its addresses, and the routes through it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use mgmt_resource::{Error, Result};
use mgmt_sys::netlink::{
    APPEND, CREATE, Connection, EXCLUSIVE, Message, REPLACE, attributes, push_attribute, read_u16, read_u32,
};
use mgmt_value::Str;
use rustix::io::Errno;

use super::cidr::Cidr;

/// Messages.
const NEW_LINK: u16 = 16;
const GET_LINK: u16 = 18;
const NEW_ADDRESS: u16 = 20;
const DELETE_ADDRESS: u16 = 21;
const GET_ADDRESS: u16 = 22;
const NEW_ROUTE: u16 = 24;
const DELETE_ROUTE: u16 = 25;
const GET_ROUTE: u16 = 26;
/// Attributes.
const LINK_NAME: u16 = 3;
const ADDRESS_PEER: u16 = 1;
const ADDRESS_LOCAL: u16 = 2;
const ADDRESS_BROADCAST: u16 = 4;
const ROUTE_NETWORK: u16 = 1;
const ROUTE_INTERFACE: u16 = 4;
const ROUTE_GATEWAY: u16 = 5;
const ROUTE_METRIC: u16 = 6;
const ROUTE_SOURCE: u16 = 7;
const ROUTE_SEVERAL: u16 = 9;
const ROUTE_TABLE: u16 = 15;
/// Numbers in messages.
const UP: u32 = 1;
const MAIN_TABLE: u8 = 254;
const BY_KERNEL: u8 = 2;
const BY_ADMINISTRATOR: u8 = 4;
const BY_ROUTER: u8 = 9;
const ANYWHERE: u8 = 0;
const ON_LINK: u8 = 253;
const ANY_SCOPE: u8 = 255;
const UNICAST: u8 = 1;
const FAMILY_4: u8 = 2;
const FAMILY_6: u8 = 10;

/// A way to one interface.
pub(super) struct Interface {
    connection: Connection,
    index: u32,
}

/// An address of the interface, as it is known to the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) cidr: Cidr,
    /// The other end, of a connection between two.
    peer: Option<IpAddr>,
}

/// A route through the interface, in the main table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Route {
    /// Where it leads.
    pub(super) network: IpAddr,
    pub(super) prefix: u8,
    pub(super) gateway: Option<IpAddr>,
    metric: Option<u32>,
    protocol: u8,
    service: u8,
}

impl Interface {
    /// Finds an interface by its name, and says whether it is up. `None`: there is none.
    pub(super) fn find(name: &Str) -> Result<Option<(Interface, bool)>> {
        let failed = |error| failure("look at the interface", error);
        let mut connection = Connection::open().map_err(failed)?;
        let mut payload = vec![0; 16];
        push_attribute(&mut payload, LINK_NAME, &[name.as_bytes(), b"\0"].concat());
        let mut found = None;
        let asked = connection.get(GET_LINK, &payload, |message| found = found.take().or(link(message)));
        match asked {
            Err(error) if is(&error, &[Errno::NODEV]) => return Ok(None),
            asked => asked.map_err(failed)?,
        }
        let Some((index, is_up, real)) = found else { return Ok(None) };
        if real != name.as_bytes() {
            return Err(Error::new(format_args!("{name:?} is another name of {:?}", Str::new(&real)))
                .with_hint("use that one as the name of the resource"));
        }
        Ok(Some((Interface { connection, index }, is_up)))
    }

    /// Puts it up or down.
    pub(super) fn set_up(&mut self, up: bool) -> Result<()> {
        let mut payload = vec![0; 4];
        payload.extend_from_slice(&self.index.to_ne_bytes());
        payload.extend_from_slice(&if up { UP } else { 0 }.to_ne_bytes());
        payload.extend_from_slice(&UP.to_ne_bytes());
        let set = self.connection.change(NEW_LINK, 0, &payload);
        set.map_err(|error| {
            failure(if up { "put the interface up" } else { "put the interface down" }, error)
        })
    }

    pub(super) fn addresses(&mut self) -> Result<Vec<Address>> {
        let index = self.index;
        let found = self.connection.list(GET_ADDRESS, &[0; 8], |message| address(message, index));
        found.map_err(|error| failure("list addresses", error))
    }

    pub(super) fn add_address(&mut self, cidr: Cidr) -> Result<()> {
        let mut payload = self.address_payload(&Address { cidr, peer: None });
        // As systemd-networkd does: one without would be another address to it, which it would replace over and over.
        if let Some(broadcast) = cidr.broadcast() {
            push_attribute(&mut payload, ADDRESS_BROADCAST, &broadcast.octets());
        }
        match self.connection.change(NEW_ADDRESS, CREATE | EXCLUSIVE, &payload) {
            // Somebody else was faster.
            Err(error) if is(&error, &[Errno::EXIST]) => Ok(()),
            added => added.map_err(|error| failure(&format!("add the address {cidr}"), error)),
        }
    }

    pub(super) fn remove_address(&mut self, address: &Address) -> Result<()> {
        let payload = self.address_payload(address);
        match self.connection.change(DELETE_ADDRESS, 0, &payload) {
            // It has gone, perhaps with another one of its network.
            Err(error) if is(&error, &[Errno::ADDRNOTAVAIL]) => Ok(()),
            removed => {
                removed.map_err(|error| failure(&format!("remove the address {}", address.cidr), error))
            }
        }
    }

    /// The routes of one family through it, without those that routers announce.
    pub(super) fn routes(&mut self, like: IpAddr) -> Result<Vec<Route>> {
        let (index, family) = (self.index, family(like));
        let mut payload = vec![0; 12];
        payload[0] = family;
        let found = self.connection.list(GET_ROUTE, &payload, |message| route(message, index, family));
        let found = found.map_err(|error| failure("list routes", error))?;
        Ok(found.into_iter().filter(|route| route.protocol != BY_ROUTER).collect())
    }

    /// The way to the network of an address, as the kernel makes it with the address.
    pub(super) fn add_network_route(&mut self, cidr: Cidr) -> Result<()> {
        let is_4 = cidr.address.is_ipv4();
        let scope = if is_4 { ON_LINK } else { ANYWHERE };
        let mut payload = header(cidr.address, cidr.prefix, BY_KERNEL, scope);
        push_attribute(&mut payload, ROUTE_NETWORK, &bytes(cidr.network()));
        push_attribute(&mut payload, ROUTE_INTERFACE, &self.index.to_ne_bytes());
        if is_4 {
            push_attribute(&mut payload, ROUTE_SOURCE, &bytes(cidr.address));
        }
        match self.connection.change(
            NEW_ROUTE,
            if is_4 { CREATE | APPEND } else { CREATE | REPLACE },
            &payload,
        ) {
            Err(error) if is(&error, &[Errno::EXIST]) => Ok(()),
            added => added.map_err(|error| failure(&format!("add the way to the network of {cidr}"), error)),
        }
    }

    /// A default route, behind those of other interfaces.
    pub(super) fn add_default_route(&mut self, gateway: IpAddr) -> Result<()> {
        let mut payload = header(gateway, 0, BY_ADMINISTRATOR, ANYWHERE);
        push_attribute(&mut payload, ROUTE_INTERFACE, &self.index.to_ne_bytes());
        push_attribute(&mut payload, ROUTE_GATEWAY, &bytes(gateway));
        match self.connection.change(NEW_ROUTE, CREATE | APPEND, &payload) {
            Err(error) if is(&error, &[Errno::EXIST]) => Ok(()),
            Err(error) if is(&error, &[Errno::NETUNREACH, Errno::HOSTUNREACH, Errno::NETDOWN]) => {
                Err(failure(&format!("use the gateway {gateway}"), error)
                    .with_hint("it has to be in the network of an address, and the interface has to be up"))
            }
            added => added.map_err(|error| failure(&format!("use the gateway {gateway}"), error)),
        }
    }

    pub(super) fn remove_route(&mut self, route: &Route) -> Result<()> {
        let mut payload = header(route.network, route.prefix, 0, ANY_SCOPE);
        payload[3] = route.service;
        push_attribute(&mut payload, ROUTE_INTERFACE, &self.index.to_ne_bytes());
        if let Some(gateway) = route.gateway {
            push_attribute(&mut payload, ROUTE_GATEWAY, &bytes(gateway));
        }
        if let Some(metric) = route.metric {
            push_attribute(&mut payload, ROUTE_METRIC, &metric.to_ne_bytes());
        }
        match self.connection.change(DELETE_ROUTE, 0, &payload) {
            Err(error) if is(&error, &[Errno::SRCH]) => Ok(()),
            removed => removed.map_err(|error| failure("remove another default route", error)),
        }
    }

    fn address_payload(&self, address: &Address) -> Vec<u8> {
        let ip = address.cidr.address;
        let mut payload = vec![family(ip), address.cidr.prefix, 0, 0];
        payload.extend_from_slice(&self.index.to_ne_bytes());
        push_attribute(&mut payload, ADDRESS_LOCAL, &bytes(ip));
        push_attribute(&mut payload, ADDRESS_PEER, &bytes(address.peer.unwrap_or(ip)));
        payload
    }
}

/// What stands before the attributes of a route.
fn header(like: IpAddr, prefix: u8, protocol: u8, scope: u8) -> Vec<u8> {
    vec![family(like), prefix, 0, 0, MAIN_TABLE, protocol, scope, UNICAST, 0, 0, 0, 0]
}

/// Number, whether it is up, and name.
fn link(message: Message<'_>) -> Option<(u32, bool, Vec<u8>)> {
    let payload = message.payload;
    let (index, flags) = (read_u32(payload, 4)?, read_u32(payload, 8)?);
    let (_, name) = attributes(payload.get(16..)?).find(|(kind, _)| *kind == LINK_NAME)?;
    let name = name.strip_suffix(b"\0").unwrap_or(name).to_vec();
    (message.kind == NEW_LINK).then_some((index, flags & UP != 0, name))
}

fn address(message: Message<'_>, index: u32) -> Option<Address> {
    let payload = message.payload;
    if message.kind != NEW_ADDRESS || read_u32(payload, 4)? != index {
        return None;
    }
    let (family, prefix) = (*payload.first()?, *payload.get(1)?);
    let (mut local, mut peer) = (None, None);
    for (kind, value) in attributes(payload.get(8..)?) {
        match kind {
            ADDRESS_LOCAL => local = ip(family, value),
            ADDRESS_PEER => peer = ip(family, value),
            _ => {}
        }
    }
    let address = local.or(peer)?;
    Some(Address { cidr: Cidr { address, prefix }, peer: peer.filter(|peer| *peer != address) })
}

fn route(message: Message<'_>, index: u32, family: u8) -> Option<Route> {
    let payload = message.payload;
    let is_ours = message.kind == NEW_ROUTE && *payload.first()? == family && *payload.get(7)? == UNICAST;
    let (prefix, service) = (*payload.get(1)?, *payload.get(3)?);
    let (mut table, protocol) = (u32::from(*payload.get(4)?), *payload.get(5)?);
    let (mut network, mut interface, mut gateway, mut metric) = (None, None, None, None);
    for (kind, value) in attributes(payload.get(12..)?) {
        match kind {
            ROUTE_NETWORK => network = ip(family, value),
            ROUTE_INTERFACE => interface = read_u32(value, 0),
            ROUTE_GATEWAY => gateway = ip(family, value),
            ROUTE_METRIC => metric = read_u32(value, 0),
            ROUTE_TABLE => table = read_u32(value, 0)?,
            // One of several ways counts as one.
            ROUTE_SEVERAL => {
                if let Some(hop) = hop(value, index, family) {
                    (interface, gateway) = (Some(index), hop);
                }
            }
            _ => {}
        }
    }
    if !is_ours || table != u32::from(MAIN_TABLE) || interface != Some(index) {
        return None;
    }
    let unspecified = match family {
        FAMILY_4 => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        _ => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    Some(Route { network: network.unwrap_or(unspecified), prefix, gateway, metric, protocol, service })
}

/// The gateway of the way through an interface, among several ways.
fn hop(mut hops: &[u8], index: u32, family: u8) -> Option<Option<IpAddr>> {
    loop {
        let length = usize::from(read_u16(hops, 0)?).max(8);
        if read_u32(hops, 4)? == index {
            let gateway = attributes(hops.get(8..length)?).find(|(kind, _)| *kind == ROUTE_GATEWAY);
            return Some(gateway.and_then(|(_, value)| ip(family, value)));
        }
        hops = hops.get(length.next_multiple_of(4)..)?;
    }
}

fn ip(family: u8, bytes: &[u8]) -> Option<IpAddr> {
    match family {
        FAMILY_4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
        FAMILY_6 => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
        _ => None,
    }
}

fn bytes(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

fn family(address: IpAddr) -> u8 {
    if address.is_ipv4() { FAMILY_4 } else { FAMILY_6 }
}

fn is(error: &io::Error, expected: &[Errno]) -> bool {
    expected.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

fn failure(what: &str, error: io::Error) -> Error {
    let failed = Error::new(format_args!("cannot {what}: {error}"));
    match error.kind() {
        io::ErrorKind::PermissionDenied => failed.with_hint("run this program as root"),
        _ => failed,
    }
}
