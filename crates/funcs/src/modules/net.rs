//! `net`

use mgmt_funcs_derive::function;
use mgmt_value::{Str, Value};

use crate::declare::module;
use crate::{Failure, Watch, text};

mod address;
pub(crate) mod interfaces;
mod url;

module! {
    path: "net",
    doc: "Addresses, and the network interfaces of this host. White space around addresses is ignored.",
    functions: [
        cidr_to_ip, cidr_to_prefix, cidr_to_mask, cidr_to_network, cidr_to_first, cidr_to_last, ip_in_cidr, is_mac, macfmt,
        oldmacfmt, split_hostport, url_parser, macs, interface_cidr, wired_interface,
    ],
}

fn network(a: &[u8]) -> Result<address::Network, Failure> {
    let trimmed = text::trim_space(a);
    address::Network::parse(trimmed).ok_or_else(|| {
        Failure::catchable(format!("invalid CIDR address: {:?}, expected one like 192.0.2.1/24", Str::new(a)))
    })
}

/// The address of an address with prefix length.
///
/// An IPv4 address that is written as an IPv6 address becomes an IPv4 address. Anything else is a catchable error.
///
/// ```mcl
/// net.cidr_to_ip("192.0.2.13/24") == "192.0.2.13"
/// (net.cidr_to_ip("hello") <|> "none") == "none"
/// ```
#[function]
fn cidr_to_ip(a: &[u8]) -> Result<String, Failure> {
    Ok(network(a)?.ip())
}

/// The prefix length of an address, as text.
///
/// ```mcl
/// net.cidr_to_prefix("192.0.2.13/24") == "24"
/// ```
#[function]
fn cidr_to_prefix(a: &[u8]) -> Result<String, Failure> {
    Ok(network(a)?.length.to_string())
}

/// The mask that a prefix length stands for, written like an address.
///
/// ```mcl
/// net.cidr_to_mask("192.0.2.13/24") == "255.255.255.0"
/// ```
#[function]
fn cidr_to_mask(a: &[u8]) -> Result<String, Failure> {
    Ok(network(a)?.mask_text())
}

/// The network of an address, with its prefix length.
///
/// ```mcl
/// net.cidr_to_network("192.0.2.13/24") == "192.0.2.0/24"
/// ```
#[function]
fn cidr_to_network(a: &[u8]) -> Result<String, Failure> {
    Ok(network(a)?.network())
}

/// The address after the given one, which for the address of a network is its first usable one.
///
/// When that is outside of the network it is a catchable error.
///
/// ```mcl
/// net.cidr_to_first("192.0.2.0/24") == "192.0.2.1"
/// (net.cidr_to_first("192.0.2.0/32") <|> "none") == "none"
/// ```
#[function]
fn cidr_to_first(a: &[u8]) -> Result<String, Failure> {
    network(a)?.next().ok_or_else(|| {
        Failure::catchable(format!(
            "there is no address after {:?} in its network",
            Str::new(text::trim_space(a))
        ))
    })
}

/// The last address of a network, which for IPv4 is the broadcast address.
///
/// ```mcl
/// net.cidr_to_last("192.0.2.0/24") == "192.0.2.255"
/// ```
#[function]
fn cidr_to_last(a: &[u8]) -> Result<String, Failure> {
    Ok(network(a)?.last())
}

/// Whether an address belongs to a network. Either being invalid is a catchable error.
///
/// ```mcl
/// net.ip_in_cidr("192.0.2.13", "192.0.2.0/24") == true
/// net.ip_in_cidr("2001:db8::1", "192.0.2.0/24") == false
/// ```
#[function]
fn ip_in_cidr(ip: &[u8], cidr: &[u8]) -> Result<bool, Failure> {
    let address = std::str::from_utf8(text::trim_space(ip)).ok().and_then(|ip| ip.parse().ok());
    let invalid = || Failure::catchable(format!("invalid IP address: {:?}", Str::new(ip)));
    Ok(network(cidr)?.contains(address.ok_or_else(invalid)?))
}

/// Whether a text is a hardware address of six bytes, in lower case and with colons.
///
/// ```mcl
/// net.is_mac("00:11:22:aa:bb:cc") == true
/// net.is_mac("00-11-22-AA-BB-CC") == false
/// ```
#[function]
fn is_mac(a: &[u8]) -> bool {
    address::mac(a, b":").is_some_and(|mac| mac.as_bytes() == a)
}

/// A hardware address in lower case and with colons. It may be given in any case, with colons or hyphens.
///
/// ```mcl
/// net.macfmt("00-11-22-AA-BB-CC") == "00:11:22:aa:bb:cc"
/// (net.macfmt("00:11") <|> "none") == "none"
/// ```
#[function]
fn macfmt(a: &[u8]) -> Result<String, Failure> {
    hardware(a)
}

/// A hardware address in lower case and with hyphens. It may be given in any case, with colons or hyphens.
///
/// ```mcl
/// net.oldmacfmt("00:11:22:AA:BB:CC") == "00-11-22-aa-bb-cc"
/// ```
#[function]
fn oldmacfmt(a: &[u8]) -> Result<String, Failure> {
    Ok(hardware(a)?.replace(':', "-"))
}

fn hardware(a: &[u8]) -> Result<String, Failure> {
    address::mac(a, b":-").ok_or_else(|| {
        let found = Str::new(a);
        Failure::catchable(format!(
            "invalid hardware address: {found:?}, expected one like 00:11:22:aa:bb:cc"
        ))
    })
}

/// Splits `host:port`. An IPv6 address stands in brackets, which are removed.
///
/// The port may be empty or a name. A missing port, too many colons, or brackets in wrong places are a catchable error.
///
/// ```mcl
/// net.split_hostport("example.com:80") == struct{host => "example.com", port => "80",}
/// net.split_hostport("[::1]:http") == struct{host => "::1", port => "http",}
/// ```
#[function(signature = "func(str) struct{host str; port str}")]
fn split_hostport(a: &Str) -> Result<Value, Failure> {
    let (host, port) = address::split_host_port(a)
        .map_err(|reason| Failure::catchable(format!("can't split {a:?} into host and port: {reason}")))?;
    Ok(Value::structure([("host", Value::str(host)), ("port", Value::str(port))]))
}

/// The parts of a URL. The host includes the port; the path is decoded; user and fragment are left out.
///
/// A text that is no URL, or has no scheme, is a catchable error.
///
/// ```mcl
/// net.url_parser("https://me@example.com:1/a%20b?c=d#e") == struct{scheme => "https", host => "example.com:1", path => "/a b", raw_query => "c=d",}
/// ```
#[function(signature = "func(str) struct{scheme str; host str; path str; raw_query str}")]
fn url_parser(a: &Str) -> Result<Value, Failure> {
    let url = url::parse(a).and_then(|url| match url.scheme.is_empty() {
        true => Err("it has no scheme"),
        false => Ok(url),
    });
    let url = url.map_err(|reason| Failure::catchable(format!("can't read the URL {a:?}: {reason}")))?;
    Ok(Value::structure([
        ("scheme", Value::str(url.scheme)),
        ("host", Value::str(url.host)),
        ("path", Value::str(url.path)),
        ("raw_query", Value::str(url.query)),
    ]))
}

/// The hardware addresses of this host, except loopback, in the order of the kernel.
///
/// ```mcl,host
/// contains("00:11:22:aa:bb:cc", net.macs()) == true
/// ```
#[function(live = vec![Watch::Links])]
fn macs() -> Result<Vec<String>, Failure> {
    interfaces::macs()
}

/// The first IPv4 address of an interface that others can reach, with its prefix length.
///
/// When there is no such interface or address it is a catchable error, so that a cable can be pulled.
///
/// ```mcl,host
/// net.interface_cidr("eth0") == "192.0.2.13/24"
/// ```
#[function(live = vec![Watch::Links])]
fn interface_cidr(interface: &Str) -> Result<String, Failure> {
    interfaces::cidr(interface)
}

/// The first interface with a hardware address that is not wireless. One that is up is preferred.
///
/// When there is none it is a catchable error.
///
/// ```mcl,host
/// net.wired_interface() == "eth0"
/// ```
#[function(live = vec![Watch::Links])]
fn wired_interface() -> Result<String, Failure> {
    interfaces::wired()
}

#[cfg(test)]
mod tests {
    use crate::modules::tests::shown;
    use mgmt_value::Value;

    fn check(name: &str, argument: &str, expected: &str) {
        let found = shown(&format!("net.{name}"), &[Value::str(argument)]);
        match expected {
            "C" => assert!(found.starts_with("C: "), "{name}({argument}) is {found}"),
            expected => assert_eq!(found, format!("{expected:?}"), "{name}({argument})"),
        }
    }

    #[test]
    fn networks_have_parts() {
        for (cidr, ip, prefix, mask, network, first, last) in [
            ("192.0.2.0/24", "192.0.2.0", "24", "255.255.255.0", "192.0.2.0/24", "192.0.2.1", "192.0.2.255"),
            (
                " 192.0.2.13/024\n",
                "192.0.2.13",
                "24",
                "255.255.255.0",
                "192.0.2.0/24",
                "192.0.2.14",
                "192.0.2.255",
            ),
            ("192.0.2.13/32", "192.0.2.13", "32", "255.255.255.255", "192.0.2.13/32", "C", "192.0.2.13"),
            ("192.0.2.255/24", "192.0.2.255", "24", "255.255.255.0", "192.0.2.0/24", "C", "192.0.2.255"),
            ("255.255.255.255/0", "255.255.255.255", "0", "0.0.0.0", "0.0.0.0/0", "C", "255.255.255.255"),
            (
                "2001:db8::5/64",
                "2001:db8::5",
                "64",
                "ffff:ffff:ffff:ffff::",
                "2001:db8::/64",
                "2001:db8::6",
                "2001:db8::ffff:ffff:ffff:ffff",
            ),
            (
                "::ffff:192.0.2.13/120",
                "192.0.2.13",
                "120",
                "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ff00",
                "192.0.2.0/24",
                "::ffff:192.0.2.14",
                "::ffff:192.0.2.255",
            ),
            ("::/0", "::", "0", "::", "::/0", "::1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
        ] {
            check("cidr_to_ip", cidr, ip);
            check("cidr_to_prefix", cidr, prefix);
            check("cidr_to_mask", cidr, mask);
            check("cidr_to_network", cidr, network);
            check("cidr_to_first", cidr, first);
            check("cidr_to_last", cidr, last);
        }
    }

    #[test]
    fn what_is_no_network_can_be_caught() {
        for cidr in [
            "",
            "192.0.2.1",
            "192.0.2.1/",
            "192.0.2.1/33",
            "192.0.2/24",
            "192.0.2.1/-1",
            "192.0.2.1/+1",
            "192.0.2.01/24",
            "fe80::1%eth0/64",
            "::/129",
            "a/8",
            "192.0.2.1/24/24",
            "192.0.2.1/99999999999999999999",
        ] {
            for name in [
                "cidr_to_ip",
                "cidr_to_prefix",
                "cidr_to_mask",
                "cidr_to_network",
                "cidr_to_first",
                "cidr_to_last",
            ] {
                check(name, cidr, "C");
            }
        }
    }

    #[test]
    fn membership() {
        for (ip, cidr, expected) in [
            ("192.0.2.13", "192.0.2.0/24", "true"),
            ("192.0.3.13", "192.0.2.0/24", "false"),
            ("::ffff:192.0.2.13", "192.0.2.0/24", "true"),
            ("192.0.2.13", "::ffff:192.0.2.0/120", "true"),
            ("::1", "192.0.2.0/24", "false"),
            ("192.0.2.13", "::/0", "false"),
            ("2001:db8::1", "2001:db8::/32", "true"),
            ("x", "192.0.2.0/24", "C"),
            ("192.0.2.13", "x", "C"),
        ] {
            let found = shown("net.ip_in_cidr", &[Value::str(ip), Value::str(cidr)]);
            assert!(found == expected || expected == "C" && found.starts_with("C: "), "{ip} {cidr} {found}");
        }
    }

    #[test]
    fn hardware_addresses() {
        check("macfmt", "00:11:22:AA:bb:cC", "00:11:22:aa:bb:cc");
        check("macfmt", "00-11-22-AA-bb-cC", "00:11:22:aa:bb:cc");
        check("oldmacfmt", "00:11:22:AA:bb:cC", "00-11-22-aa-bb-cc");
        for wrong in [
            "",
            "00:11:22:aa:bb",
            "00:11:22:aa:bb-cc",
            "00:11:22:aa:bb:cg",
            "001122aabbcc",
            "00:11:22:aa:bb:cc:dd",
            "0:011:22:aa:bb:cc",
        ] {
            check("macfmt", wrong, "C");
            check("oldmacfmt", wrong, "C");
            assert_eq!(shown("net.is_mac", &[Value::str(wrong)]), "false");
        }
        assert_eq!(shown("net.is_mac", &[Value::str("00:11:22:aa:bb:cc")]), "true");
        assert_eq!(shown("net.is_mac", &[Value::str("00:11:22:AA:bb:cc")]), "false");
    }

    #[test]
    fn hosts_and_ports() {
        let split = |text: &str| shown("net.split_hostport", &[Value::str(text)]);
        let parts = |host: &str, port: &str| format!("struct{{host: {host:?}; port: {port:?}}}");
        assert_eq!(split("a:1"), parts("a", "1"));
        assert_eq!(split("a:"), parts("a", ""));
        assert_eq!(split(":http"), parts("", "http"));
        assert_eq!(split("[::1%lo]:80"), parts("::1%lo", "80"));
        assert_eq!(split("[a]:80"), parts("a", "80"));
        for wrong in [
            "",
            "a",
            "a:b:c",
            "::1",
            "[::1]",
            "[::1",
            "[::1]80",
            "[a]b:80",
            "a]:80",
            "a[:80",
            "[[a]:80",
            "[a]]:80",
            "[a]:80:90",
        ] {
            assert!(split(wrong).starts_with("C: can't split"), "{wrong}: {}", split(wrong));
        }
    }

    #[test]
    fn interfaces_can_be_listed_anywhere() {
        let macs = shown("net.macs", &[]);
        assert!(macs.starts_with('['), "{macs}");
        assert!(
            shown("net.interface_cidr", &[Value::str("no-such")]).starts_with("C: there is no interface")
        );
        assert!(shown("net.interface_cidr", &[Value::str("lo")]).starts_with("C: "));
        let wired = shown("net.wired_interface", &[]);
        assert!(wired.starts_with('"') || wired.starts_with("C: "), "{wired}");
    }
}
