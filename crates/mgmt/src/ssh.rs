//! Other hosts over ssh: the flags, and stores that are reached that way.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mgmt_remote::{Distant, HostKey, Identity, Login, Near, Prompts, SshError, Target, Tunnel};
use mgmt_store::socket::Socket;
use mgmt_store::{Commit, Lease, LeaseId, Limits, Pending, Snapshot, Span, Store, Transaction, Watch};
use mgmt_store_etcd::{Etcd, EtcdPlace, EtcdSettings, EtcdTls};

use crate::connection::SOCKET;
use crate::failure::Failure;

/// The flags that say how to log in.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Ssh")]
pub(crate) struct Ssh {
    /// Reach the store through this host: `[ssh://][USER@]HOST[:PORT]`. What `--seeds` names is as seen from there; without
    /// any, it is the store of the run that goes on there, in its `--prefix`
    #[arg(long, value_name = "URL")]
    ssh_url: Option<String>,

    /// The public key that the host of `--ssh-url` has to prove itself with, instead of what ssh knows already
    #[arg(long, value_name = "KEY", requires = "ssh_url")]
    ssh_hostkey: Option<String>,

    /// The private key to log in with, and no other [env: MGMT_SSH_PRIV_ID_RSA]
    #[arg(long, visible_alias = "ssh-priv-id-rsa", value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    ssh_id: Option<PathBuf>,

    /// The configuration of ssh, instead of the usual ones
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    ssh_config: Option<PathBuf>,

    /// Ask for passwords at the terminal, where a host wants one
    #[arg(long)]
    allow_interactive: bool,
}

impl Ssh {
    /// Somebody may be asked for a password, which takes as long as it takes.
    pub(crate) fn is_interactive(&self) -> bool {
        self.allow_interactive
    }

    /// How to get to the store, if it is not reached from here.
    pub(crate) fn way(&self) -> Result<Option<Login>, Failure> {
        let Some(url) = &self.ssh_url else { return Ok(None) };
        let target = Target::parse(url).map_err(|error| Failure::usage(format!("--ssh-url: {error}")))?;
        let mut login = self.login(target)?;
        if let Some(key) = &self.ssh_hostkey {
            let key =
                HostKey::parse(key).map_err(|error| Failure::usage(format!("--ssh-hostkey: {error}")))?;
            login.host_key = Some(key);
        }
        Ok(Some(login))
    }

    /// How to get to a host.
    pub(crate) fn login(&self, target: Target) -> Result<Login, Failure> {
        if target.password.is_some() {
            return Err(Failure::usage(format!(
                "the password of {target} can be seen by all who see this command"
            ))
            .hint("log in with a key, or leave it out and use `--allow-interactive`"));
        }
        let file =
            self.ssh_id.clone().or_else(|| crate::environment::SSH_PRIV_ID_RSA.get().map(PathBuf::from));
        let identity = match file {
            None => Identity::Usual,
            Some(path) if path.as_os_str().is_empty() => Identity::None,
            Some(path) if !path.is_file() => {
                return Err(Failure::usage(format!("there is no private key {}", path.display())));
            }
            Some(path) => Identity::File(path),
        };
        let prompts = Prompts { interactive: self.allow_interactive, ..Prompts::default() };
        Ok(Login { identity, config: self.ssh_config.clone(), prompts, ..Login::new(target) })
    }
}

/// Why a host cannot be used, for people.
pub(crate) fn failure(error: SshError) -> Failure {
    let failure = Failure::failed(error.message);
    match error.hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// A store on the other side of a tunnel.
#[derive(Debug)]
struct Through<S> {
    store: S,
    _tunnel: Tunnel,
}

/// Finds the store that is reached through a host: that of servers, or that of the run that goes on there.
pub(crate) async fn store(
    login: Login,
    servers: Option<EtcdSettings>,
    prefix: Option<&Path>,
) -> Result<Arc<dyn Store>, Failure> {
    match servers {
        Some(servers) => through_to_servers(login, servers).await,
        None => through_to_run(login, prefix).await,
    }
}

async fn through_to_servers(login: Login, mut servers: EtcdSettings) -> Result<Arc<dyn Store>, Failure> {
    let mut places = servers.places().map_err(Failure::usage)?;
    let named = places.iter().find_map(|place| match place {
        EtcdPlace::Address { host, tls: true, .. } => Some(host.clone()),
        _ => None,
    });
    if let Some(name) = named {
        // One name is to be proven by all of them.
        let name = servers.tls.as_ref().and_then(|tls| tls.server_name.clone()).unwrap_or(name);
        places.retain(|place| !matches!(place, EtcdPlace::Address { host, tls: true, .. } if *host != name));
        servers.tls = Some(EtcdTls { server_name: Some(name), ..servers.tls.take().unwrap_or_default() });
    }
    let distant = |place: &EtcdPlace| match place.clone() {
        EtcdPlace::Socket(path) => Distant::Socket(path),
        EtcdPlace::Address { host, port, tls: true } => Distant::Guarded(host, port),
        EtcdPlace::Address { host, port, tls: false } => Distant::Address(host, port),
    };
    let distant: Vec<Distant> = places.iter().map(distant).collect();
    let tunnel = Tunnel::open(login, &distant).await.map_err(failure)?;
    let endpoint = |near: &Near| match near {
        Near::Socket(path) => format!("unix://{}", path.display()),
        Near::Port(port) => format!("https://127.0.0.1:{port}"),
    };
    servers.endpoints = tunnel.near().iter().map(endpoint).collect();
    // Their own addresses are not ours.
    servers.follow_members = false;
    let store = Etcd::connect(servers).map_err(Failure::usage)?;
    Ok(Arc::new(Through { store, _tunnel: tunnel }))
}

async fn through_to_run(login: Login, prefix: Option<&Path>) -> Result<Arc<dyn Store>, Failure> {
    const AGAIN: Duration = Duration::from_millis(200);
    let prefix = match prefix {
        Some(prefix) if prefix.is_absolute() => prefix.to_owned(),
        Some(prefix) => {
            return Err(Failure::usage(format!("the prefix {} has to begin with a slash", prefix.display())));
        }
        None if login.target.user == "root" => PathBuf::from("/var/lib/mgmt"),
        None => {
            let cache = login.ask("printf %s \"${XDG_CACHE_HOME:-$HOME/.cache}\"").await.map_err(failure)?;
            PathBuf::from(cache).join("mgmt")
        }
    };
    let (socket, host) = (prefix.join(SOCKET), login.target.to_string());
    let tunnel = Tunnel::open(login, &[Distant::Socket(socket)]).await.map_err(failure)?;
    let Some(Near::Socket(near)) = tunnel.near().first().cloned() else {
        return Err(Failure::failed("the tunnel has no end"));
    };
    let mut connected = Socket::connect(&near).await;
    if connected.is_err() {
        tokio::time::sleep(AGAIN).await;
        connected = Socket::connect(&near).await;
    }
    match connected {
        Ok(store) => Ok(Arc::new(Through { store, _tunnel: tunnel })),
        Err(error) => {
            Err(Failure::failed(format!("no run with the prefix {} on {host}: {error}", prefix.display()))
                .hint("start `mgmt run` there, say where its `--prefix` is, or name servers with `--seeds`"))
        }
    }
}

impl<S: Store> Store for Through<S> {
    fn read(&self, spans: Vec<Span>) -> Pending<'_, Snapshot> {
        self.store.read(spans)
    }

    fn commit(&self, transaction: Transaction) -> Pending<'_, Commit> {
        self.store.commit(transaction)
    }

    fn watch(&self, span: Span) -> Box<dyn Watch> {
        self.store.watch(span)
    }

    fn grant(&self, time: Duration) -> Pending<'_, Lease> {
        self.store.grant(time)
    }

    fn keep(&self, lease: LeaseId) -> Pending<'_, bool> {
        self.store.keep(lease)
    }

    fn revoke(&self, lease: LeaseId) -> Pending<'_, ()> {
        self.store.revoke(lease)
    }

    fn ends_with_us(&self) -> bool {
        self.store.ends_with_us()
    }

    fn limits(&self) -> Limits {
        self.store.limits()
    }
}
