//! Addresses with the length of their network's prefix.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use mgmt_value::Str;

/// An address, and how many bits of it are those of its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Cidr {
    pub(super) address: IpAddr,
    pub(super) prefix: u8,
}

impl Cidr {
    /// Reads `192.0.2.1/24`. An error says what is wrong with it.
    pub(super) fn read(text: &Str) -> Result<Cidr, String> {
        let wrong =
            |why: &str| format!("{text:?} is not an address with a prefix like `192.0.2.1/24`: {why}");
        let plain = std::str::from_utf8(text).map_err(|_| wrong("it is no text"))?;
        let Some((address, prefix)) = plain.split_once('/') else {
            return Err(wrong("the length of the prefix is missing"));
        };
        let address: IpAddr = address.parse().map_err(|_| wrong("there is no address before the slash"))?;
        let longest = longest(address);
        let digits = prefix.bytes().all(|byte| byte.is_ascii_digit());
        let prefix = prefix.parse::<u8>().ok().filter(|prefix| digits && *prefix <= longest);
        let prefix = prefix.ok_or_else(|| wrong(&format!("the prefix is a number up to {longest}")))?;
        match is_usable(address) {
            true => Ok(Cidr { address, prefix }),
            false => Err(wrong("no interface can have this address")),
        }
    }

    /// The first address of its network.
    pub(super) fn network(self) -> IpAddr {
        match self.address {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.prefix)).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from_bits(address.to_bits() & mask))
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.prefix)).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & mask))
            }
        }
    }

    /// The address of all in its network, if it is so large that there is one.
    pub(super) fn broadcast(self) -> Option<Ipv4Addr> {
        match self.address {
            IpAddr::V4(address) if (1..=30).contains(&self.prefix) => {
                Some(Ipv4Addr::from_bits(address.to_bits() | (u32::MAX >> self.prefix)))
            }
            _ => None,
        }
    }

    /// Whether others are in its network, which is then reached through the interface.
    pub(super) fn has_network(self) -> bool {
        self.prefix > 0 && self.prefix < longest(self.address)
    }

    /// Whether it is one that the kernel gives by itself.
    pub(super) fn is_automatic(self) -> bool {
        match self.address {
            IpAddr::V4(address) => address.is_loopback(),
            IpAddr::V6(address) => address.is_loopback() || address.is_unicast_link_local(),
        }
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

/// Whether a host can have this address.
pub(super) fn is_usable(address: IpAddr) -> bool {
    let is_broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    !address.is_unspecified() && !address.is_multicast() && !is_broadcast
}

fn longest(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Cidr, String> {
        Cidr::read(&text.into())
    }

    #[test]
    fn a_network_of_more_than_two_has_an_address_of_all() {
        let broadcast = |text: &str| Cidr::read(&text.into()).unwrap().broadcast().map(|all| all.to_string());
        assert_eq!(broadcast("192.0.2.1/24").as_deref(), Some("192.0.2.255"));
        assert_eq!(broadcast("192.0.2.1/30").as_deref(), Some("192.0.2.3"));
        assert_eq!(broadcast("10.1.2.3/8").as_deref(), Some("10.255.255.255"));
        for none in ["192.0.2.1/31", "192.0.2.1/32", "192.0.2.1/0", "2001:db8::1/64"] {
            assert_eq!(broadcast(none), None, "{none}");
        }
    }

    #[test]
    fn addresses_are_read_and_have_a_network() {
        for (text, network) in [
            ("192.0.2.130/25", "192.0.2.128"),
            ("192.0.2.1/32", "192.0.2.1"),
            ("192.0.2.1/0", "0.0.0.0"),
            ("2001:db8::1:2/64", "2001:db8::"),
            ("2001:db8::1/128", "2001:db8::1"),
            ("2001:db8::1/0", "::"),
        ] {
            let cidr = read(text).unwrap();
            assert_eq!((cidr.to_string(), cidr.network().to_string()), (text.into(), network.into()));
        }
        assert_eq!(read("2001:DB8:0::1/64"), read("2001:db8::1/64"));
        assert!(read("192.0.2.1/24").unwrap().has_network() && !read("192.0.2.1/32").unwrap().has_network());
        assert!(read("fe80::1/64").unwrap().is_automatic() && !read("fd00::1/64").unwrap().is_automatic());
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for (wrong, told) in [
            ("192.0.2.1", "prefix is missing"),
            ("192.0.2.1/33", "up to 32"),
            ("::1/129", "up to 128"),
            ("192.0.2.1/+4", "up to 32"),
            ("192.0.2.1/", "up to 32"),
            ("192.0.2/24", "no address"),
            ("host/24", "no address"),
            ("192.0.2.1/24\n", "up to 32"),
            ("0.0.0.0/0", "no interface"),
            ("224.0.0.1/4", "no interface"),
            ("ff02::1/128", "no interface"),
        ] {
            let refused = read(wrong).unwrap_err();
            assert!(refused.contains(told), "{refused}");
        }
    }
}
