//! The servers, for a host that is to reach them itself.

use std::collections::BTreeSet;
use std::net::IpAddr;

use mgmt_resource::{Error, Host, Result};
use mgmt_store::SharedState;

/// The servers of the store of this host, as one word.
pub(super) fn of(host: &Host) -> Result<String> {
    let usable = SharedState::of(host).map(|shared| usable(&shared.store().addresses())).unwrap_or_default();
    match usable.is_empty() {
        false => Ok(usable),
        true => Err(Error::new("no other host can reach the store of this one").with_hint(
            "leave `tunnelled` as it is, or have this host use servers that others can reach, with `--seeds`",
        )),
    }
}

/// Those that mean something elsewhere, each once, in order.
fn usable(addresses: &[String]) -> String {
    let usable: BTreeSet<&str> =
        addresses.iter().map(String::as_str).filter(|address| is_usable(address)).collect();
    usable.into_iter().collect::<Vec<_>>().join(",")
}

/// An address that stands for all addresses of a host means nothing to another one, and a socket even less.
fn is_usable(address: &str) -> bool {
    let (scheme, rest) = address.split_once("://").unwrap_or(("http", address));
    let rest = rest.trim_end_matches('/');
    let host = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, _)) => host,
        None => rest.rsplit_once(':').map_or(rest, |(host, _)| host),
    };
    let is_unspecified = host.parse::<IpAddr>().is_ok_and(|ip| ip.is_unspecified());
    matches!(scheme, "http" | "https") && !address.starts_with("unix:") && !host.is_empty() && !is_unspecified
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_mean_nothing_elsewhere_are_left_out() {
        let hosts = ["localhost", "127.0.0.1", "0.0.0.0", "[::1]", "[::]", "192.0.2.1", "etcd.example.com"];
        let mut addresses: Vec<String> = hosts.iter().map(|host| format!("http://{host}:2379")).collect();
        addresses.extend(["unix:///run/etcd".to_owned(), "http://localhost:2379".to_owned(), String::new()]);
        assert_eq!(
            usable(&addresses),
            "http://127.0.0.1:2379,http://192.0.2.1:2379,http://[::1]:2379,http://etcd.example.com:2379,http://localhost:2379"
        );
    }
}
