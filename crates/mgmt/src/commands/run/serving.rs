//! Whether this host serves the store that hosts share, and where.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::Duration;

use mgmt_cluster::{ClusterSettings, ServerSettings, ServerTls, Settings};
use mgmt_store_etcd::EtcdSettings;
use mgmt_sys::process::Helper;

use super::arguments;
use crate::connection::Connection;
use crate::environment::{self, Variable};
use crate::failure::Failure;

/// How many servers there are if nobody says otherwise.
const IDEAL: u32 = 5;
const CLIENTS: u16 = 2379;
const PEERS: u16 = 2380;
const QUOTA: u64 = 2 << 30;
const HISTORY: Duration = Duration::from_secs(600);
const UPKEEP: Duration = Duration::from_secs(60);

/// Where this host serves the store, and with whom.
///
/// A host serves because somebody asks for it: with a size, or with an address. `--seeds` alone does not, since a server opens
/// ports, and whoever reaches them without being asked for a certificate can change what runs here.
#[derive(Clone, Debug)]
pub(super) struct Serving {
    ideal: u32,
    seeds: Vec<String>,
    client: EtcdSettings,
    listen_clients: Vec<String>,
    listen_peers: Vec<String>,
    clients: Vec<String>,
    peers: Vec<String>,
    tls: Option<ServerTls>,
    quick: bool,
    quota: u64,
}

impl Serving {
    /// What the flags and variables ask for.
    pub(super) fn new(
        flags: &arguments::Serving,
        connection: &Connection,
        servers: Option<&EtcdSettings>,
        hostname: &str,
    ) -> Result<Option<Serving>, Failure> {
        let ideal = given(
            &flags.ideal_cluster_size.clone().into_iter().collect::<Vec<_>>(),
            &environment::IDEAL_CLUSTER_SIZE,
        );
        let listen_clients = given(&flags.client_urls, &environment::CLIENT_URLS);
        let listen_peers = given(&flags.server_urls, &environment::SERVER_URLS);
        let clients = given(&flags.advertise_client_urls, &environment::ADVERTISE_CLIENT_URLS);
        let peers = given(&flags.advertise_server_urls, &environment::ADVERTISE_SERVER_URLS);
        let asked = [&ideal, &listen_clients, &listen_peers, &clients, &peers];
        let asked = asked.iter().any(|each| !each.is_empty());
        if flags.no_server {
            return match servers {
                None if asked => Err(Failure::usage("`--no-server` needs to know where the servers are")
                    .hint("give their addresses with `--seeds`, or leave out the flags of the cluster")),
                _ => Ok(None),
            };
        }
        if !asked {
            return Ok(None);
        }
        if !hostname.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte)) {
            return Err(Failure::usage(format!("`{hostname}` cannot be the name of a host that serves"))
                .hint("choose one of letters, digits, `.`, `_` and `-` with `--hostname NAME`"));
        }
        let seeds = servers.map(|servers| servers.endpoints.clone()).unwrap_or_default();
        let parse = |flag: &str, urls: &[String]| -> Result<Vec<Url>, Failure> {
            urls.iter().map(|url| Url::parse(flag, url)).collect()
        };
        let addresses = Addresses {
            listen_clients: parse("--client-urls", &listen_clients)?,
            listen_peers: parse("--server-urls", &listen_peers)?,
            clients: parse("--advertise-client-urls", &clients)?,
            peers: parse("--advertise-server-urls", &peers)?,
        }
        .complete(&seeds, connection.files().is_some())?;
        let texts = |urls: &[Url]| urls.iter().map(Url::text).collect::<Vec<_>>();
        Ok(Some(Serving {
            ideal: size(ideal.first().map(String::as_str))?,
            seeds,
            client: match servers {
                Some(servers) => servers.clone(),
                None => connection.unaddressed()?,
            },
            tls: addresses.tls(connection)?,
            listen_clients: texts(&addresses.listen_clients),
            listen_peers: texts(&addresses.listen_peers),
            clients: texts(&addresses.clients),
            peers: texts(&addresses.peers),
            quick: environment::CLUSTER_PACE.text().as_deref() == Some("quick"),
            quota: quota()?,
        }))
    }

    /// What everybody should know who serves without asking who is there.
    pub(super) fn warning(&self) -> Option<String> {
        let open = self
            .listen_clients
            .iter()
            .chain(&self.listen_peers)
            .find(|url| Url::parse("", url).is_ok_and(|url| !url.encrypted && !url.is_local()))?;
        Some(format!(
            "whoever reaches {open} can change what runs on all hosts: use `https` with `--seeds-ca`, `--seeds-cert` and \
             `--seeds-key`, or a network that you trust"
        ))
    }

    /// Finds out whether the server can have its addresses, before anything is begun. One that has just been killed may
    /// still have them for a moment.
    pub(super) async fn check_addresses(&self) -> Result<(), Failure> {
        const PATIENCE: Duration = Duration::from_secs(5);
        let end = tokio::time::Instant::now() + PATIENCE;
        for text in self.listen_peers.iter().chain(&self.listen_clients) {
            let url = Url::parse("", text)?;
            loop {
                let error = match std::net::TcpListener::bind((url.host.trim_matches(['[', ']']), url.port)) {
                    Ok(_) => break,
                    Err(error) => error,
                };
                match error.kind() {
                    ErrorKind::AddrInUse if tokio::time::Instant::now() < end => {
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                    ErrorKind::AddrInUse => {
                        return Err(Failure::failed(format!("another program listens at {text} already"))
                            .hint(
                                "end it, or choose other addresses with `--server-urls` and `--client-urls`",
                            ));
                    }
                    ErrorKind::AddrNotAvailable => {
                        return Err(Failure::failed(format!(
                            "this host does not have the address of {text}"
                        ))
                        .hint(
                            "give one that it has, or listen at 0.0.0.0 and say where others reach it with \
                                   `--advertise-server-urls` and `--advertise-client-urls`",
                        ));
                    }
                    _ => return Err(Failure::failed(format!("cannot listen at {text}: {error}"))),
                }
            }
        }
        Ok(())
    }

    /// What it takes to take part.
    pub(super) fn cluster(&self, hostname: &str, directory: PathBuf) -> Result<ClusterSettings, Failure> {
        let times = if self.quick { Settings::quick() } else { Settings::default() };
        Ok(ClusterSettings {
            host: hostname.to_owned(),
            directory,
            seeds: self.seeds.clone(),
            ideal: self.ideal,
            client: self.client.clone(),
            server: ServerSettings {
                listen_clients: self.listen_clients.clone(),
                listen_peers: self.listen_peers.clone(),
                clients: self.clients.clone(),
                peers: self.peers.clone(),
                tls: self.tls.clone(),
                heartbeat: if self.quick { 50 } else { 100 },
                quota: self.quota,
                history: HISTORY,
                helper: Some(Helper::this_program()),
            },
            times,
            upkeep_every: if self.quick { Duration::from_secs(1) } else { UPKEEP },
        })
    }
}

/// The values of a flag that takes a list, or else of its variable.
fn given(flag: &[String], variable: &Variable) -> Vec<String> {
    let texts = if flag.is_empty() { variable.text().into_iter().collect() } else { flag.to_vec() };
    let parts = texts.iter().flat_map(|text| text.split([',', ';', ' ']));
    parts.filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

fn size(text: Option<&str>) -> Result<u32, Failure> {
    let Some(text) = text else { return Ok(IDEAL) };
    match text.parse() {
        Ok(size) if size > 0 => Ok(size),
        _ => Err(Failure::usage(format!(
            "--ideal-cluster-size: expected how many hosts shall serve, at least 1, found `{text}`"
        ))),
    }
}

fn quota() -> Result<u64, Failure> {
    let Some(text) = environment::CLUSTER_QUOTA.text() else { return Ok(QUOTA) };
    match text.parse() {
        Ok(bytes) if bytes > 0 => Ok(bytes),
        _ => Err(Failure::usage(format!("MGMT_CLUSTER_QUOTA: expected a number of bytes, found `{text}`"))),
    }
}

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Url {
    encrypted: bool,
    /// With brackets, where there have to be any.
    host: String,
    port: u16,
}

impl Url {
    fn parse(flag: &str, text: &str) -> Result<Url, Failure> {
        let wrong = |why: &str| {
            Failure::usage(format!("{flag}: `{text}` is not the address of a server: {why}"))
                .hint("write it like `http://10.0.0.1:2380` or `https://10.0.0.1:2380`")
        };
        let (scheme, rest) =
            text.split_once("://").ok_or_else(|| wrong("there is no `http://` or `https://`"))?;
        let encrypted = match scheme {
            "http" => false,
            "https" => true,
            _ => return Err(wrong("expected `http` or `https`")),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (host, port) = rest.rsplit_once(':').ok_or_else(|| wrong("there is no port"))?;
        let port =
            port.parse().ok().filter(|port| *port > 0).ok_or_else(|| wrong("the port is no number"))?;
        let inner = host.trim_start_matches('[').trim_end_matches(']');
        let named = |byte: u8| byte.is_ascii_alphanumeric() || b".-".contains(&byte);
        if inner.is_empty() || !(inner.parse::<IpAddr>().is_ok() || inner.bytes().all(named)) {
            return Err(wrong("there is no host in it"));
        }
        Ok(Url { encrypted, host: host.to_owned(), port })
    }

    fn text(&self) -> String {
        let scheme = if self.encrypted { "https" } else { "http" };
        format!("{scheme}://{}:{}", self.host, self.port)
    }

    fn address(&self) -> Option<IpAddr> {
        self.host.trim_matches(['[', ']']).parse().ok()
    }

    fn is_local(&self) -> bool {
        self.host == "localhost" || self.address().is_some_and(|address| address.is_loopback())
    }

    /// It means every address of this host, so nobody can be sent there.
    fn is_everywhere(&self) -> bool {
        self.address().is_some_and(|address| address.is_unspecified())
    }

    fn at(&self, port: u16) -> Url {
        Url { port, ..self.clone() }
    }
}

/// All addresses of a server.
struct Addresses {
    listen_clients: Vec<Url>,
    listen_peers: Vec<Url>,
    clients: Vec<Url>,
    peers: Vec<Url>,
}

impl Addresses {
    /// Fills in what was not given: a port follows from the other, and an address from where the others are.
    fn complete(mut self, seeds: &[String], certificates: bool) -> Result<Addresses, Failure> {
        let hosts = [&self.listen_peers, &self.listen_clients, &self.peers, &self.clients];
        let base = match hosts.iter().flat_map(|urls| urls.first()).next() {
            Some(url) => url.clone(),
            None => {
                let address = seeds.iter().find_map(|seed| towards(seed));
                let host = match address {
                    Some(IpAddr::V6(address)) => format!("[{address}]"),
                    Some(IpAddr::V4(address)) => address.to_string(),
                    None => "127.0.0.1".to_owned(),
                };
                Url { encrypted: certificates, host, port: PEERS }
            }
        };
        let bindable = |url: &Url| {
            if url.address().is_some() || url.host == "localhost" {
                url.clone()
            } else {
                Url { host: "0.0.0.0".to_owned(), ..url.clone() }
            }
        };
        if self.listen_peers.is_empty() {
            self.listen_peers =
                vec![bindable(&self.peers.first().cloned().unwrap_or_else(|| base.at(PEERS)))];
        }
        if self.listen_clients.is_empty() {
            self.listen_clients =
                vec![bindable(&self.clients.first().cloned().unwrap_or_else(|| base.at(CLIENTS)))];
        }
        // What else is wrong may follow from this.
        self.check_listening()?;
        for (told, listen, flag) in [
            (&mut self.peers, &self.listen_peers, "--advertise-server-urls"),
            (&mut self.clients, &self.listen_clients, "--advertise-client-urls"),
        ] {
            if told.is_empty() {
                *told = advertised(listen, seeds, flag)?;
            }
        }
        self.check()?;
        Ok(self)
    }

    fn check_listening(&self) -> Result<(), Failure> {
        let mut listens = self.listen_clients.iter().chain(&self.listen_peers);
        match listens.find(|url| url.address().is_none() && url.host != "localhost") {
            Some(url) => Err(Failure::usage(format!("`{}` cannot be listened on: expected an address", url.text()))
                .hint("listen on an address, and give the name with `--advertise-server-urls` or `--advertise-client-urls`")),
            None => Ok(()),
        }
    }

    fn check(&self) -> Result<(), Failure> {
        let listens = self.listen_clients.iter().chain(&self.listen_peers);
        let twice = self.listen_clients.iter().find(|client| {
            self.listen_peers.iter().any(|peer| (&peer.host, peer.port) == (&client.host, client.port))
        });
        if let Some(url) = twice {
            return Err(Failure::usage(format!("`{}` is for clients and for other servers", url.text()))
                .hint("use two ports, such as 2379 for clients and 2380 for servers"));
        }
        let all: Vec<&Url> = listens.chain(&self.clients).chain(&self.peers).collect();
        if all.iter().any(|url| url.encrypted) && !all.iter().all(|url| url.encrypted) {
            return Err(Failure::usage("some addresses of the server are `https` and some are not"));
        }
        Ok(())
    }

    fn tls(&self, connection: &Connection) -> Result<Option<ServerTls>, Failure> {
        if !self.listen_peers.iter().any(|url| url.encrypted) {
            return Ok(None);
        }
        let Some([authority, certificate, key]) = connection.files() else {
            return Err(Failure::usage("a server with `https` needs to prove who it is")
                .hint("give `--seeds-ca`, `--seeds-cert` and `--seeds-key`: they are for the server of this host as well"));
        };
        let whole = |path: &Path| {
            std::path::absolute(path).map_err(|error| Failure::usage(format!("{}: {error}", path.display())))
        };
        Ok(Some(ServerTls {
            authority: whole(authority)?,
            certificate: whole(certificate)?,
            key: whole(key)?,
        }))
    }
}

/// Where a server is reached that listens there.
fn advertised(listen: &[Url], seeds: &[String], flag: &str) -> Result<Vec<Url>, Failure> {
    let told = |url: &Url| {
        if !url.is_everywhere() {
            return Ok(url.clone());
        }
        let found = seeds.iter().find_map(|seed| towards(seed)).map(|address| match address {
            IpAddr::V6(address) => format!("[{address}]"),
            IpAddr::V4(address) => address.to_string(),
        });
        match found {
            Some(host) => Ok(Url { host, ..url.clone() }),
            None => Err(Failure::usage(format!("`{}` tells nobody where this host is", url.text()))
                .hint(format!("give the address that others reach with `{flag}`"))),
        }
    };
    listen.iter().map(told).collect()
}

/// The address of this host that something at a seed sees. Nothing is sent.
fn towards(seed: &str) -> Option<IpAddr> {
    let rest = seed.split_once("://").map_or(seed, |(_, rest)| rest).trim_end_matches('/');
    let target: SocketAddr = match rest.rsplit_once(':') {
        Some(_) => rest.to_socket_addrs().ok()?.next()?,
        None => (rest, CLIENTS).to_socket_addrs().ok()?.next()?,
    };
    let any: SocketAddr = if target.is_ipv4() { ([0; 4], 0).into() } else { ([0_u16; 8], 0).into() };
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect(target).ok()?;
    socket.local_addr().ok().map(|address| address.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn urls(texts: &[&str]) -> Vec<Url> {
        texts.iter().map(|text| Url::parse("", text).unwrap()).collect()
    }

    fn complete(clients: &[&str], peers: &[&str], seeds: &[&str]) -> Result<Vec<String>, Failure> {
        let seeds: Vec<String> = seeds.iter().map(|&seed| seed.to_owned()).collect();
        let addresses = Addresses {
            listen_clients: urls(clients),
            listen_peers: urls(peers),
            clients: Vec::new(),
            peers: Vec::new(),
        };
        let all = addresses.complete(&seeds, false)?;
        Ok([all.listen_clients, all.listen_peers, all.clients, all.peers]
            .iter()
            .map(|urls| urls.iter().map(Url::text).collect::<Vec<_>>().join(","))
            .collect())
    }

    #[test]
    fn what_is_not_given_follows_from_what_is() {
        let expected = ["http://10.0.0.1:2379", "http://10.0.0.1:2380"];
        let found = complete(&[], &["http://10.0.0.1:2380"], &[]).unwrap();
        assert_eq!(found, [expected, expected].concat());
        let found = complete(&["http://10.0.0.1:2379"], &[], &[]).unwrap();
        assert_eq!(found, [expected, expected].concat());
        let found = complete(&[], &[], &[]).unwrap();
        assert_eq!(found[..2], ["http://127.0.0.1:2379", "http://127.0.0.1:2380"]);
        let found = complete(&[], &[], &["http://127.0.0.1:5"]).unwrap();
        assert_eq!(found[3], "http://127.0.0.1:2380");
        let found = complete(&[], &["http://0.0.0.0:2380"], &["127.0.0.1:5"]).unwrap();
        assert_eq!(found[1], "http://0.0.0.0:2380");
        assert_eq!(found[3], "http://127.0.0.1:2380");
    }

    #[test]
    fn addresses_that_cannot_work_are_refused() {
        let nowhere = complete(&[], &["http://0.0.0.0:2380"], &[]).unwrap_err();
        assert!(nowhere.hints[0].contains("--advertise-server-urls"), "{nowhere:?}");
        let same = complete(&["http://10.0.0.1:1"], &["http://10.0.0.1:1"], &[]).unwrap_err();
        assert!(same.message.contains("for clients and for other servers"), "{same:?}");
        let mixed = complete(&["https://10.0.0.1:1"], &["http://10.0.0.1:2"], &[]).unwrap_err();
        assert!(mixed.message.contains("https"), "{mixed:?}");
        let named = complete(&[], &["http://a.example.org:2380"], &[]).unwrap_err();
        assert!(named.message.contains("cannot be listened on"), "{named:?}");
        for bad in ["10.0.0.1:1", "ftp://a:1", "http://a", "http://:1", "http://a:x", "http://a b:1"] {
            assert_eq!(Url::parse("--server-urls", bad).unwrap_err().code, 2, "{bad}");
        }
    }

    #[test]
    fn a_size_is_a_number_above_zero() {
        assert_eq!(size(None).unwrap(), 5);
        assert_eq!(size(Some("3")).unwrap(), 3);
        for bad in ["0", "-1", "three", ""] {
            assert_eq!(size(Some(bad)).unwrap_err().code, 2, "{bad}");
        }
    }
}
