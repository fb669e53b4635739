//! Connection settings: where an etcd is and how to speak to it.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

/// The port that etcd offers to its clients.
const PORT: u16 = 2379;

/// A server that says nothing for this long is asked whether it is still there.
const ALIVE_INTERVAL: Duration = Duration::from_secs(2);

/// A server that does not answer that for this long is lost.
const ALIVE_TIMEOUT: Duration = Duration::from_secs(2);

/// Where an etcd is and how to speak to it.
#[derive(Clone)]
pub struct EtcdSettings {
    /// The servers: `http://HOST:PORT`, `https://HOST:PORT`, `unix:///PATH`, or just `HOST` or `HOST:PORT`. The port
    /// is 2379 where none is given. Those without a scheme are asked with TLS if [`EtcdSettings::tls`] is set.
    pub endpoints: Vec<String>,
    /// Stands in front of every key, with a slash behind it. `/mgmt` by default.
    pub namespace: String,
    /// Who is trusted, and who we are, on connections with TLS.
    pub tls: Option<EtcdTls>,
    /// The user to log in as.
    pub login: Option<EtcdLogin>,
    /// How long a call may take. Five seconds by default.
    pub deadline: Duration,
    /// How often watches are compared with what is really there. Ten minutes by default.
    pub compare_every: Duration,
    /// Whether other members of the cluster are asked, too, when the given endpoints do not answer. True by default.
    /// To be switched off where the endpoints are the near ends of tunnels.
    pub follow_members: bool,
}

/// Who is trusted, and who we are, on connections with TLS. All in PEM.
#[derive(Clone, Default)]
pub struct EtcdTls {
    /// The certificates of those who may vouch for servers. Those of the system if none are given.
    pub authorities: Option<Vec<u8>>,
    /// Our certificate, and its private key.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
    /// The name that servers have to prove. What stands in their address if none is given.
    pub server_name: Option<String>,
}

/// A user, and what proves it.
#[derive(Clone)]
pub struct EtcdLogin {
    /// The name.
    pub user: String,
    /// The password.
    pub password: String,
}

/// A setting that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EtcdSettingsError {
    /// There is nobody to ask.
    #[error("no endpoint of etcd is given; expected at least one, like http://localhost:2379")]
    NoEndpoint,
    /// An endpoint is no address.
    #[error("the endpoint {endpoint:?} of etcd cannot be used: {reason}")]
    Endpoint {
        /// What was given.
        endpoint: String,
        /// What is wrong with it.
        reason: String,
    },
    /// An endpoint holds a password, so it is not shown.
    #[error("an endpoint of etcd holds a user or a password; give them by their own settings")]
    LoginInEndpoint,
    /// A certificate or key is unusable.
    #[error("the {what} for etcd cannot be used: {reason}")]
    Tls {
        /// Which one.
        what: &'static str,
        /// What is wrong with it.
        reason: String,
    },
}

impl EtcdSettings {
    /// These servers, and everything else as it is by default.
    pub fn new<I: IntoIterator<Item = S>, S: Into<String>>(endpoints: I) -> Self {
        Self {
            endpoints: endpoints.into_iter().map(Into::into).collect(),
            namespace: "/mgmt".to_owned(),
            tls: None,
            login: None,
            deadline: Duration::from_secs(5),
            compare_every: Duration::from_secs(600),
            follow_members: true,
        }
    }

    /// Where the servers are, for whoever has to find a way to them.
    pub fn places(&self) -> Result<Vec<EtcdPlace>, EtcdSettingsError> {
        let place = |text: &String| {
            let address = Address::parse(text, self.tls.is_some())?;
            let rest = address.url.split_once("://").map_or("", |(_, rest)| rest);
            Ok(match address.scheme {
                Scheme::Unix => EtcdPlace::Socket(address.url.trim_start_matches("unix:").into()),
                scheme => {
                    let (host, port) = rest.rsplit_once(':').unwrap_or((rest, ""));
                    EtcdPlace::Address {
                        host: host.trim_matches(['[', ']']).to_owned(),
                        port: port.parse().unwrap_or(PORT),
                        tls: scheme == Scheme::Https,
                    }
                }
            })
        };
        self.endpoints.iter().map(place).collect()
    }
}

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EtcdPlace {
    /// A socket of its host.
    Socket(std::path::PathBuf),
    /// A port.
    Address {
        /// The host, without brackets.
        host: String,
        /// The port.
        port: u16,
        /// It speaks TLS.
        tls: bool,
    },
}

impl fmt::Debug for EtcdSettings {
    /// Without secrets.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("EtcdSettings")
            .field("endpoints", &self.endpoints)
            .field("namespace", &self.namespace)
            .field("tls", &self.tls)
            .field("login", &self.login)
            .field("deadline", &self.deadline)
            .field("compare_every", &self.compare_every)
            .field("follow_members", &self.follow_members)
            .finish()
    }
}

impl fmt::Debug for EtcdTls {
    /// Without the key.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("EtcdTls")
            .field("authorities", &self.authorities.is_some())
            .field("identity", &self.identity.is_some())
            .field("server_name", &self.server_name)
            .finish()
    }
}

impl fmt::Debug for EtcdLogin {
    /// Without the password.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("EtcdLogin").field("user", &self.user).finish_non_exhaustive()
    }
}

/// How to get from an address to a connection.
#[derive(Debug)]
pub(super) struct Dialer {
    tls: Option<ClientTlsConfig>,
    deadline: Duration,
}

impl Dialer {
    pub(super) fn new(settings: &EtcdSettings) -> Result<Self, EtcdSettingsError> {
        let tls = settings.tls.as_ref().map(tls_config).transpose()?;
        Ok(Self { tls, deadline: settings.deadline })
    }

    /// How long a server has for letting us in. Less than a call has, so that one that is switched off leaves time for
    /// asking others, and it is certain that it was not asked.
    fn knock(&self) -> Duration {
        self.deadline / 3
    }

    /// How to connect to a server. Nothing is sent yet.
    pub(super) fn endpoint(&self, address: &Address) -> Result<Endpoint, EtcdSettingsError> {
        let unusable = |reason: String| EtcdSettingsError::Endpoint { endpoint: address.url.clone(), reason };
        let mut endpoint =
            Endpoint::from_shared(address.url.clone()).map_err(|error| unusable(said(&error)))?;
        if address.scheme == Scheme::Https {
            let config = self.tls.clone().unwrap_or_else(|| ClientTlsConfig::new().with_native_roots());
            endpoint = endpoint.tls_config(config.timeout(self.knock())).map_err(|error| {
                EtcdSettingsError::Tls { what: "certificate or key", reason: said(&error) }
            })?;
        }
        Ok(endpoint
            .connect_timeout(self.knock())
            .tcp_nodelay(true)
            .http2_keep_alive_interval(ALIVE_INTERVAL)
            .keep_alive_timeout(ALIVE_TIMEOUT)
            .keep_alive_while_idle(true))
    }
}

/// An error with all that caused it.
pub(super) fn said(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let more = next.to_string();
        if !text.ends_with(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = next.source();
    }
    text
}

fn tls_config(tls: &EtcdTls) -> Result<ClientTlsConfig, EtcdSettingsError> {
    let has = |pem: &[u8], what: &'static str, begin: &str| {
        let found = String::from_utf8_lossy(pem).contains(begin);
        if found {
            return Ok(());
        }
        Err(EtcdSettingsError::Tls { what, reason: "it holds none; expected a file in PEM".to_owned() })
    };
    let mut config = ClientTlsConfig::new();
    config = match &tls.authorities {
        Some(pem) => {
            has(pem, "certificate of the authority", "-----BEGIN CERTIFICATE-----")?;
            config.ca_certificate(Certificate::from_pem(pem))
        }
        None => config.with_native_roots(),
    };
    if let Some((certificate, key)) = &tls.identity {
        has(certificate, "client certificate", "-----BEGIN CERTIFICATE-----")?;
        has(key, "private key", "PRIVATE KEY-----")?;
        config = config.identity(Identity::from_pem(certificate, key));
    }
    if let Some(name) = &tls.server_name {
        config = config.domain_name(name);
    }
    Ok(config)
}

/// Where a server is, in one spelling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) url: String,
    pub(super) scheme: Scheme,
    /// Only this very host can mean the same by it.
    pub(super) local: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scheme {
    Http,
    Https,
    Unix,
}

impl Address {
    /// Reads an address as people write it. Who has settings for TLS means it.
    pub(super) fn parse(text: &str, tls: bool) -> Result<Self, EtcdSettingsError> {
        let text = text.trim();
        if text.contains('@') {
            return Err(EtcdSettingsError::LoginInEndpoint);
        }
        let wrong = |reason: &str| EtcdSettingsError::Endpoint {
            endpoint: text.to_owned(),
            reason: reason.to_owned(),
        };
        if let Some(path) = text.strip_prefix("unix:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            if !path.starts_with('/') {
                return Err(wrong(
                    "the path of a socket has to begin with a slash, as in unix:///run/etcd.sock",
                ));
            }
            return Ok(Self { url: format!("unix:{path}"), scheme: Scheme::Unix, local: true });
        }
        let (scheme, rest) = match text.split_once("://") {
            Some(("http", _)) if tls => {
                return Err(wrong("it is without TLS, although certificates are given; write https"));
            }
            Some(("http", rest)) => (Scheme::Http, rest),
            Some(("https", rest)) => (Scheme::Https, rest),
            Some(_) => return Err(wrong("expected http, https or unix in front of ://")),
            None if tls => (Scheme::Https, text),
            None => (Scheme::Http, text),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (host, port) = host_and_port(rest).map_err(wrong)?;
        let local = host == "localhost"
            || host
                .trim_matches(['[', ']'])
                .parse::<IpAddr>()
                .is_ok_and(|ip| ip.is_loopback() || ip.is_unspecified());
        let name = if scheme == Scheme::Https { "https" } else { "http" };
        Ok(Self { url: format!("{name}://{host}:{port}"), scheme, local })
    }
}

/// Takes `HOST`, `HOST:PORT`, `[V6]`, `[V6]:PORT` or a bare `V6` apart.
fn host_and_port(text: &str) -> Result<(String, u16), &'static str> {
    if text.parse::<Ipv6Addr>().is_ok() {
        return Ok((format!("[{text}]"), PORT));
    }
    let (host, port) = match text.strip_prefix('[').map(|rest| rest.split_once(']')) {
        Some(None) => return Err("the bracket [ is never closed"),
        Some(Some((inner, rest))) => {
            if inner.parse::<Ipv6Addr>().is_err() {
                return Err("expected an IPv6 address in the brackets");
            }
            let port = match rest.strip_prefix(':') {
                Some(port) => Some(port),
                None if rest.is_empty() => None,
                None => return Err("expected a colon and a port after the bracket"),
            };
            (format!("[{inner}]"), port)
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host.to_owned(), Some(port)),
            None => (text.to_owned(), None),
        },
    };
    let named = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    if host.is_empty() {
        return Err("there is no host in it");
    }
    if !host.starts_with('[') && !host.bytes().all(named) {
        return Err("expected a host, or a host and a port, like db1.example.com:2379");
    }
    match port.map(str::parse::<u16>) {
        None => Ok((host, PORT)),
        Some(Ok(port)) if port > 0 => Ok((host, port)),
        Some(_) => Err("the port has to be a number from 1 to 65535"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_the_servers_are_is_told_in_parts() {
        let settings = EtcdSettings::new(["http://a", "https://[::1]:99", "unix:///run/etcd"]);
        let address = |host: &str, port, tls| EtcdPlace::Address { host: host.to_owned(), port, tls };
        let places = settings.places().unwrap();
        assert_eq!(
            places,
            [address("a", 2379, false), address("::1", 99, true), EtcdPlace::Socket("/run/etcd".into())]
        );
    }

    fn url(text: &str, tls: bool) -> String {
        match Address::parse(text, tls) {
            Ok(address) => address.url,
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn an_endpoint_is_read_as_people_write_it() {
        for (text, tls, expected) in [
            ("http://a:1", false, "http://a:1"),
            ("https://a/", false, "https://a:2379"),
            ("a", false, "http://a:2379"),
            ("a", true, "https://a:2379"),
            ("10.0.0.1:99", false, "http://10.0.0.1:99"),
            ("::1", false, "http://[::1]:2379"),
            ("[::1]:5", true, "https://[::1]:5"),
            ("https://[fe80::1]", true, "https://[fe80::1]:2379"),
            ("unix:///run/etcd", true, "unix:/run/etcd"),
        ] {
            assert_eq!(url(text, tls), expected, "{text}");
        }
    }

    #[test]
    fn an_endpoint_that_is_none_is_refused_with_a_reason() {
        for (text, tls, expected) in [
            ("", false, "there is no host in it"),
            ("ftp://a", false, "expected http, https or unix"),
            ("a:0", false, "from 1 to 65535"),
            ("a:b", false, "from 1 to 65535"),
            ("a:1:2", false, "from 1 to 65535"),
            ("http://a/path", false, "expected a host"),
            ("http://a b", false, "expected a host"),
            ("[::1", false, "never closed"),
            ("[x]", false, "IPv6"),
            ("[::1]x", false, "colon"),
            ("unix:x", false, "begin with a slash"),
            ("http://a", true, "without TLS"),
        ] {
            let said = url(text, tls);
            assert!(said.contains(expected), "{text:?} gave {said}");
        }
    }

    #[test]
    fn a_password_is_shown_nowhere() {
        assert!(!url("http://root:hunter2@a", false).contains("hunter2"));
        let mut settings = EtcdSettings::new(["a"]);
        settings.login = Some(EtcdLogin { user: "root".to_owned(), password: "hunter2".to_owned() });
        settings.tls = Some(EtcdTls { identity: Some((vec![], b"hunter2".to_vec())), ..EtcdTls::default() });
        let shown = format!("{settings:?}");
        assert!(!shown.contains("hunter2") && shown.contains("root"), "{shown}");
    }

    #[test]
    fn certificates_that_are_none_are_refused() {
        let mut settings = EtcdSettings::new(["a"]);
        settings.tls = Some(EtcdTls { authorities: Some(b"x".to_vec()), ..EtcdTls::default() });
        assert!(matches!(Dialer::new(&settings), Err(EtcdSettingsError::Tls { .. })));
    }
}
