//! Addresses as text.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address with a prefix length.
pub(super) struct Network {
    address: IpAddr,
    pub(super) length: u32,
}

impl Network {
    pub(super) fn parse(text: &[u8]) -> Option<Network> {
        let text = std::str::from_utf8(text).ok()?;
        let (address, length) = text.split_once('/')?;
        let address: IpAddr = address.parse().ok()?;
        if length.is_empty() || !length.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let length = length.parse().ok()?;
        let network = Network { address, length };
        (length <= network.width()).then_some(network)
    }

    fn width(&self) -> u32 {
        if self.address.is_ipv4() { 32 } else { 128 }
    }

    fn bits(&self) -> u128 {
        match self.address {
            IpAddr::V4(address) => u128::from(address.to_bits()),
            IpAddr::V6(address) => address.to_bits(),
        }
    }

    /// The bits that belong to the host.
    fn host_bits(&self) -> u128 {
        let ones = |count: u32| u128::MAX.checked_shr(128 - count).unwrap_or(0);
        ones(self.width() - self.length)
    }

    /// An address of the same family.
    fn with(&self, bits: u128) -> IpAddr {
        match self.address {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::from_bits(bits as u32)),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::from_bits(bits)),
        }
    }

    pub(super) fn ip(&self) -> String {
        self.address.to_canonical().to_string()
    }

    pub(super) fn mask_text(&self) -> String {
        self.with(!self.host_bits()).to_string()
    }

    pub(super) fn network(&self) -> String {
        let (address, length) = self.canonical();
        format!("{address}/{length}")
    }

    /// The first address and the prefix length, both of IPv4 where an IPv6 address stands for one.
    fn canonical(&self) -> (IpAddr, u32) {
        let first = self.with(self.bits() & !self.host_bits());
        match (self.address, first.to_canonical()) {
            (IpAddr::V6(_), canonical @ IpAddr::V4(_)) if self.length >= 96 => (canonical, self.length - 96),
            _ => (first, self.length),
        }
    }

    pub(super) fn next(&self) -> Option<String> {
        let last = self.bits() | self.host_bits();
        (self.bits() < last).then(|| self.with(self.bits() + 1).to_string())
    }

    pub(super) fn last(&self) -> String {
        self.with(self.bits() | self.host_bits()).to_string()
    }

    pub(super) fn contains(&self, address: IpAddr) -> bool {
        let (first, length) = self.canonical();
        let network = Network { address: first, length };
        let other = Network { address: address.to_canonical(), length };
        first.is_ipv4() == other.address.is_ipv4() && network.bits() == other.bits() & !network.host_bits()
    }
}

/// A hardware address of six bytes in lower case and with colons, if the text is one with one of these separators.
pub(super) fn mac(text: &[u8], separators: &[u8]) -> Option<String> {
    if text.len() != 17 || !separators.contains(&text[2]) {
        return None;
    }
    let fits = |(at, byte): (usize, &u8)| match at % 3 {
        2 => *byte == text[2],
        _ => byte.is_ascii_hexdigit(),
    };
    let lower = |byte: &u8| if *byte == text[2] { ':' } else { char::from(byte.to_ascii_lowercase()) };
    text.iter().enumerate().all(fits).then(|| text.iter().map(lower).collect())
}

/// Splits at the colon before the port.
pub(super) fn split_host_port(text: &[u8]) -> Result<(&[u8], &[u8]), &'static str> {
    const MISSING: &str = "the port is missing";
    const TOO_MANY: &str = "there are too many colons";
    let colon = text.iter().rposition(|byte| *byte == b':').ok_or(MISSING)?;
    let (host, port) = (&text[..colon], &text[colon + 1..]);
    let bracket = |part: &[u8]| part.contains(&b'[') || part.contains(&b']');
    let host = match host {
        [b'[', inner @ ..] => match inner.iter().position(|byte| *byte == b']') {
            Some(end) if end + 1 == inner.len() => &inner[..end],
            Some(end) if inner[end + 1] == b':' => return Err(TOO_MANY),
            Some(_) => return Err("something stands between the bracket and the port"),
            None => return Err("a bracket is not closed"),
        },
        host if host.contains(&b':') => return Err(TOO_MANY),
        host => host,
    };
    if bracket(host) || bracket(port) {
        return Err("there is a bracket in the wrong place");
    }
    Ok((host, port))
}
