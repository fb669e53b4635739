//! The page over a port, for who asks with HTTP. It answers one request per connection and knows one path.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::Metrics;
use super::page::CONTENT_TYPE;
use crate::failure::Failure;

/// A server that ends with this.
pub(crate) struct Server(JoinHandle<()>);

impl Drop for Server {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// How long a request may take, and its answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The longest request.
const LONGEST: usize = 16 << 10;

/// How many may ask at once. Others wait.
const AT_ONCE: usize = 64;

/// Of these, connections of one client. Further ones are closed, so that one client cannot starve another.
const MAX_CONNECTIONS_PER_CLIENT: usize = 8;

/// How many connections each client has. A client is an address; of the newer protocol, a network of 64 bits, since a host has as
/// many addresses there as it wants.
#[derive(Clone, Default)]
struct Clients(Arc<Mutex<HashMap<IpAddr, usize>>>);

/// A connection that is counted until it is dropped.
struct Counted(Clients, IpAddr);

impl Clients {
    fn admit(&self, address: IpAddr) -> Option<Counted> {
        let client = match address.to_canonical() {
            IpAddr::V6(address) => IpAddr::V6((address.to_bits() >> 64 << 64).into()),
            address => address,
        };
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(client).or_default();
        if *count >= MAX_CONNECTIONS_PER_CLIENT {
            return None;
        }
        *count += 1;
        Some(Counted(self.clone(), client))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut counts = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.1) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.1);
            }
        }
    }
}

/// Begins to listen. Who asks for this host by a name has to use one of `names`, or `localhost`.
pub(crate) async fn serve(
    metrics: Arc<Metrics>,
    address: SocketAddr,
    names: Vec<String>,
) -> Result<Server, Failure> {
    let listener = TcpListener::bind(address).await.map_err(|error| {
        Failure::failed(format!("cannot serve metrics at {address}: {error}"))
            .hint("choose another address with `--prometheus-listen ADDRESS:PORT`")
    })?;
    let address = listener.local_addr().map_err(|error| Failure::failed(format!("metrics: {error}")))?;
    tracing::info!("serving metrics at http://{address}/metrics");
    let places = Arc::new(Semaphore::new(AT_ONCE));
    let names: Arc<[String]> = names.into();
    let clients = Clients::default();
    Ok(Server(tokio::spawn(async move {
        loop {
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
            match listener.accept().await {
                Ok((stream, client)) => {
                    let Some(counted) = clients.admit(client.ip()) else {
                        tracing::debug!("metrics: too many connections of {}", client.ip());
                        continue;
                    };
                    let (metrics, names) = (Arc::clone(&metrics), Arc::clone(&names));
                    tokio::spawn(async move {
                        // Whoever is too slow, or goes away, gets nothing.
                        let _ = tokio::time::timeout(PATIENCE, answer(stream, &metrics, &names)).await;
                        drop((place, counted));
                    });
                }
                // Too many descriptors, mostly; that may pass.
                Err(error) => {
                    tracing::debug!("metrics: {error}");
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
            }
        }
    })))
}

async fn answer(mut stream: TcpStream, metrics: &Metrics, names: &[String]) -> std::io::Result<()> {
    let mut request = Vec::new();
    let mut piece = [0; 2048];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        let length = stream.read(&mut piece).await?;
        request.extend_from_slice(piece.get(..length).unwrap_or_default());
        if length == 0 || request.len() > LONGEST {
            return Ok(());
        }
    }
    let line = request.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let mut words = line.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = path.split('?').next().unwrap_or_default();
    let plain = "text/plain; charset=utf-8";
    let refused = refuses(&request, words.next().unwrap_or_default(), names);
    let (status, kind, body) = match (method, path) {
        _ if refused.is_some() => {
            let (status, why) = refused.unwrap_or_default();
            (status, plain, why)
        }
        ("GET" | "HEAD", "/metrics") => ("200 OK", CONTENT_TYPE, metrics.page().await),
        ("GET" | "HEAD", "/") => ("200 OK", plain, "the numbers are at /metrics\n".to_owned()),
        ("GET" | "HEAD", _) => ("404 Not Found", plain, "only /metrics is here\n".to_owned()),
        _ => ("405 Method Not Allowed", plain, "only GET is understood\n".to_owned()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    if method != "HEAD" {
        stream.write_all(body.as_bytes()).await?;
    }
    stream.shutdown().await
}

/// Why a request is refused for the host that it names.
///
/// A page in a browser can have its own name resolve to this address and then read what is answered. Such a request carries
/// that name; an address, or a name that belongs to this host, cannot come from there.
fn refuses(request: &[u8], version: &str, names: &[String]) -> Option<(&'static str, String)> {
    let text = String::from_utf8_lossy(request);
    let headers = text.lines().skip(1).filter_map(|line| line.split_once(':'));
    let mut hosts =
        headers.filter(|(name, _)| name.eq_ignore_ascii_case("host")).map(|(_, host)| host.trim());
    match (hosts.next(), hosts.next()) {
        (None, _) if version == "HTTP/1.0" => None,
        (None, _) | (_, Some(_)) => Some(("400 Bad Request", "a request has one header `Host`\n".to_owned())),
        (Some(host), None) if is_ours(host, names) => None,
        (Some(host), None) => {
            let host: String = host.chars().filter(|letter| letter.is_ascii_graphic()).take(255).collect();
            let why = format!("this host is not called {host} here; `--prometheus-name` adds a name\n");
            Some(("421 Misdirected Request", why))
        }
    }
}

fn is_ours(host: &str, names: &[String]) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) && !name.ends_with(':') => {
            name
        }
        _ => host,
    };
    let inner = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    let name = name.strip_suffix('.').unwrap_or(name);
    inner.unwrap_or(name).parse::<std::net::IpAddr>().is_ok()
        || name.eq_ignore_ascii_case("localhost")
        || names.iter().any(|known| name.eq_ignore_ascii_case(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_has_a_part_of_the_connections_whatever_addresses_it_uses() {
        let clients = Clients::default();
        let admit = |address: String| clients.admit(address.parse().unwrap());
        for [one, another, other] in [
            ["192.0.2.1", "::ffff:192.0.2.1", "192.0.2.2"],
            ["2001:db8::1", "2001:db8::2", "2001:db8:0:1::1"],
        ] {
            let open: Vec<Counted> = (0..100).filter_map(|_| admit(one.to_owned())).collect();
            assert_eq!(open.len(), MAX_CONNECTIONS_PER_CLIENT);
            assert!(admit(another.to_owned()).is_none(), "{another} is the same client");
            assert!(admit(other.to_owned()).is_some());
            drop(open);
            assert!(admit(one.to_owned()).is_some());
        }
        assert!(clients.0.lock().unwrap().is_empty());
    }

    #[test]
    fn a_name_that_is_not_ours_is_refused() {
        let names = ["web1".to_owned(), "web1.example.com".to_owned()];
        for ours in [
            "127.0.0.1:9233",
            "[::1]:9233",
            "[::1]",
            "10.0.0.1",
            "localhost",
            "LocalHost:9233",
            "web1:9233",
            "WEB1.example.com.:9233",
        ] {
            assert!(is_ours(ours, &names), "{ours}");
        }
        for other in [
            "",
            ":9233",
            "evil.example:9233",
            "web1.evil.example",
            "127.0.0.1.evil.example",
            "localhost.evil",
        ] {
            assert!(!is_ours(other, &names), "{other}");
        }
        let refused =
            |request: &str, version| refuses(request.as_bytes(), version, &names).map(|(status, _)| status);
        assert_eq!(refused("GET / HTTP/1.1\r\nhost: web1\r\n\r\n", "HTTP/1.1"), None);
        assert_eq!(refused("GET / HTTP/1.0\r\n\r\n", "HTTP/1.0"), None);
        assert_eq!(refused("GET / HTTP/1.1\r\n\r\n", "HTTP/1.1"), Some("400 Bad Request"));
        let two = "GET / HTTP/1.1\r\nHost: web1\r\nHost: web1\r\n\r\n";
        assert_eq!(refused(two, "HTTP/1.1"), Some("400 Bad Request"));
        let evil = "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n";
        assert_eq!(refused(evil, "HTTP/1.1"), Some("421 Misdirected Request"));
    }
}
