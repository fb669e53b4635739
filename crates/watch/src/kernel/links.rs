//! Whom a message about interfaces, addresses or routes concerns.

use std::collections::{BTreeSet, HashMap};

use mgmt_sys::netlink::{DONE, MULTI, Message, attributes, messages, read_u16, read_u32};

use super::KernelTopic;

const NEW_LINK: u16 = 16;
const DELETED_LINK: u16 = 17;
const NEW_ADDRESS: u16 = 20;
const DELETED_ADDRESS: u16 = 21;
const NEW_ROUTE: u16 = 24;
const DELETED_ROUTE: u16 = 25;
/// Lists all interfaces.
pub(super) const GET_LINK: u16 = 18;
/// The length of what stands before the attributes.
pub(super) const LINK: usize = 16;
const ROUTE: usize = 12;
const NEXT_HOP: usize = 8;
/// Attributes.
const LINK_NAME: u16 = 3;
const ROUTE_INTERFACE: u16 = 4;
const ROUTE_SEVERAL: u16 = 9;

/// The names of all interfaces, by which their followers know them; the kernel mostly tells numbers.
#[derive(Debug, Default)]
pub(super) struct Links {
    names: HashMap<u32, String>,
    /// All that were there in the beginning are known.
    is_complete: bool,
}

/// Who has to hear of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Concerned {
    Some(BTreeSet<KernelTopic>),
    All,
}

impl Links {
    /// Forgets everything. The list of all interfaces is to be asked for again.
    pub(super) fn forget(&mut self) {
        *self = Links::default();
    }

    /// Whom this concerns, and learns names from it. An answer to the question for all interfaces concerns nobody.
    pub(super) fn concerned(&mut self, datagram: &[u8]) -> Concerned {
        let mut topics = BTreeSet::new();
        for message in messages(datagram) {
            if message.kind == DONE {
                self.is_complete = true;
                continue;
            }
            let is_list = message.flags & MULTI != 0;
            let names = self.names(&message);
            if is_list {
                continue;
            }
            if (NEW_LINK..=DELETED_ADDRESS).contains(&message.kind) {
                topics.insert(KernelTopic::Links);
            }
            let Some(names) = names else { return Concerned::All };
            topics.extend(names.into_iter().map(KernelTopic::Interface));
        }
        Concerned::Some(topics)
    }

    /// The interfaces that a message is about. `None`: that cannot be told.
    fn names(&mut self, message: &Message<'_>) -> Option<Vec<String>> {
        match message.kind {
            NEW_LINK | DELETED_LINK => {
                let index = read_u32(message.payload, 4)?;
                let name = attribute(message.payload.get(LINK..)?, LINK_NAME).map(text)?;
                let known = match message.kind {
                    NEW_LINK => self.names.insert(index, name.clone()),
                    _ => self.names.remove(&index),
                };
                // Whoever followed another name of it hears of that, too.
                match known {
                    Some(old) if old != name => Some(vec![old, name]),
                    None if !self.is_complete => None,
                    _ => Some(vec![name]),
                }
            }
            NEW_ADDRESS | DELETED_ADDRESS => {
                let index = read_u32(message.payload, 4)?;
                self.names.get(&index).map(|name| vec![name.clone()])
            }
            NEW_ROUTE | DELETED_ROUTE => {
                let interfaces = route_interfaces(message.payload.get(ROUTE..)?)?;
                interfaces.into_iter().map(|index| self.names.get(&index).cloned()).collect()
            }
            _ => Some(Vec::new()),
        }
    }
}

/// The interfaces that a route leads through.
fn route_interfaces(route: &[u8]) -> Option<Vec<u32>> {
    if let Some(index) = attribute(route, ROUTE_INTERFACE) {
        return Some(vec![read_u32(index, 0)?]);
    }
    let mut hops = attribute(route, ROUTE_SEVERAL)?;
    let mut interfaces = Vec::new();
    while !hops.is_empty() {
        let length = usize::from(read_u16(hops, 0)?);
        interfaces.push(read_u32(hops, 4)?);
        hops = hops.get(length.max(NEXT_HOP).next_multiple_of(4)..).unwrap_or_default();
    }
    Some(interfaces)
}

fn attribute(bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    attributes(bytes).find(|(kind, _)| *kind == wanted).map(|(_, value)| value)
}

fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mgmt_sys::netlink::{list_request, push_attribute};

    fn message(kind: u16, flags: u16, payload: &[u8]) -> Vec<u8> {
        let mut bytes = list_request(kind, payload);
        bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
        bytes
    }

    fn link(kind: u16, flags: u16, index: u32, name: &str) -> Vec<u8> {
        let mut payload = vec![0; LINK];
        payload[4..8].copy_from_slice(&index.to_ne_bytes());
        push_attribute(&mut payload, LINK_NAME, &[name.as_bytes(), b"\0"].concat());
        message(kind, flags, &payload)
    }

    fn address(index: u32) -> Vec<u8> {
        message(NEW_ADDRESS, 0, &[[0; 4], index.to_ne_bytes()].concat())
    }

    fn route(attribute: u16, value: &[u8]) -> Vec<u8> {
        let mut payload = vec![0; ROUTE];
        push_attribute(&mut payload, attribute, value);
        message(NEW_ROUTE, 0, &payload)
    }

    fn topics(names: &[&str], links: bool) -> Concerned {
        let names = names.iter().map(|name| KernelTopic::Interface((*name).to_owned()));
        Concerned::Some(names.chain(links.then_some(KernelTopic::Links)).collect())
    }

    fn known() -> Links {
        let mut links = Links::default();
        let list = [link(NEW_LINK, MULTI, 1, "lo"), link(NEW_LINK, MULTI, 2, "eth0")].concat();
        assert_eq!(links.concerned(&list), topics(&[], false), "the list itself is no event");
        assert_eq!(links.concerned(&message(DONE, MULTI, &[0; 4])), topics(&[], false));
        links
    }

    #[test]
    fn what_happens_to_an_interface_concerns_those_who_follow_it() {
        let mut links = known();
        assert_eq!(links.concerned(&link(NEW_LINK, 0, 2, "eth0")), topics(&["eth0"], true));
        assert_eq!(links.concerned(&address(1)), topics(&["lo"], true));
        assert_eq!(links.concerned(&route(ROUTE_INTERFACE, &2_u32.to_ne_bytes())), topics(&["eth0"], false));
        assert_eq!(links.concerned(&link(NEW_LINK, 0, 3, "new")), topics(&["new"], true));
        assert_eq!(links.concerned(&link(DELETED_LINK, 0, 3, "new")), topics(&["new"], true));
        let both = [address(1), address(2)].concat();
        assert_eq!(links.concerned(&both), topics(&["lo", "eth0"], true));
    }

    #[test]
    fn both_names_of_what_is_renamed_hear_of_it() {
        let mut links = known();
        assert_eq!(links.concerned(&link(NEW_LINK, 0, 2, "lan")), topics(&["eth0", "lan"], true));
        assert_eq!(links.concerned(&address(2)), topics(&["lan"], true));
    }

    #[test]
    fn a_route_over_several_interfaces_concerns_each() {
        let hop = |index: u32| [&8_u16.to_ne_bytes()[..], &[0; 2], &index.to_ne_bytes()].concat();
        let several = route(ROUTE_SEVERAL, &[hop(1), hop(2)].concat());
        assert_eq!(known().concerned(&several), topics(&["lo", "eth0"], false));
    }

    #[test]
    fn what_cannot_be_told_concerns_all() {
        assert_eq!(Links::default().concerned(&link(NEW_LINK, 0, 2, "eth0")), Concerned::All);
        assert_eq!(known().concerned(&address(9)), Concerned::All);
        assert_eq!(known().concerned(&route(30, &[0; 4])), Concerned::All);
        assert_eq!(known().concerned(&message(NEW_LINK, 0, &[])), Concerned::All);
        let mut forgotten = known();
        forgotten.forget();
        assert_eq!(forgotten.concerned(&address(2)), Concerned::All);
    }
}
