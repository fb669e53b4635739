//! Where the store is that hosts share, and how to get there.

pub(crate) mod deadline;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use mgmt_cluster::Remembered;
use mgmt_store::Store;
use mgmt_store::socket::Socket;
use mgmt_store::{Embedded, SharedState, StoreError};
use mgmt_store_etcd::{Etcd, EtcdLogin, EtcdSettings, EtcdTls};

use crate::commands::exit_codes;
use crate::commands::run::hostname;
use crate::commands::run::prefix::{Choice, Surroundings};
use crate::environment;
use crate::failure::Failure;
use crate::ssh::{self, Ssh};
use deadline::{Timeout, WithDeadline};

/// The store of this host, in its working directory.
pub(crate) const STORE: &str = "world/store";

/// Where a run lets other processes use its store.
pub(crate) const SOCKET: &str = "world/socket";

/// Where a run that serves a cluster keeps what belongs to that.
pub(crate) const CLUSTER: &str = "cluster";

/// The flags that say where the store is. Without any, it is that of this host.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Store")]
pub(crate) struct Connection {
    /// A server of the etcd cluster that hosts share, such as `http://10.0.0.1:2379`; may be given several times, or as
    /// a list with commas. Without any, the store is that of this host [env: MGMT_SEEDS]
    #[arg(long, short = 's', value_name = "URL")]
    seeds: Vec<String>,

    /// The certificates that may vouch for servers, in PEM
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    seeds_ca: Option<PathBuf>,

    /// The certificate of this host for the servers, in PEM
    #[arg(long, value_name = "FILE", requires = "seeds_key", value_hint = clap::ValueHint::FilePath)]
    seeds_cert: Option<PathBuf>,

    /// The private key of that certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "seeds_cert", value_hint = clap::ValueHint::FilePath)]
    seeds_key: Option<PathBuf>,

    /// A file with a user and a password for the servers: `USER:PASSWORD` in its first line
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    seeds_login: Option<PathBuf>,

    /// What stands in front of all keys in etcd
    #[arg(long, value_name = "PREFIX", default_value = "/mgmt")]
    namespace: String,

    /// How long a command waits for an answer of the store, such as `10s` or `2m`; 0 is for ever. `mgmt run` waits for ever
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = deadline::parse)]
    timeout: Timeout,

    #[command(flatten)]
    pub(crate) ssh: Ssh,
}

impl Connection {
    /// The servers, if there are any.
    pub(crate) fn servers(&self) -> Result<Option<EtcdSettings>, Failure> {
        let given = match self.seeds.is_empty() {
            true => environment::SEEDS.text().into_iter().collect(),
            false => self.seeds.clone(),
        };
        let separators = [',', ';', ' '];
        let seeds: Vec<&str> =
            given.iter().flat_map(|seeds| seeds.split(separators)).filter(|seed| !seed.is_empty()).collect();
        if seeds.is_empty() {
            return Ok(None);
        }
        let mut settings = self.unaddressed()?;
        settings.endpoints = seeds.into_iter().map(str::to_owned).collect();
        Ok(Some(settings))
    }

    /// How to speak to servers, wherever they are.
    pub(crate) fn unaddressed(&self) -> Result<EtcdSettings, Failure> {
        let mut settings = EtcdSettings::new(Vec::<String>::new());
        settings.namespace.clone_from(&self.namespace);
        if self.seeds_ca.is_some() || self.seeds_cert.is_some() {
            let file = |path: &Option<PathBuf>| path.as_deref().map(read).transpose();
            settings.tls = Some(EtcdTls {
                authorities: file(&self.seeds_ca)?,
                identity: file(&self.seeds_cert)?.zip(file(&self.seeds_key)?),
                server_name: None,
            });
        }
        if let Some(path) = &self.seeds_login {
            let content = read(path)?;
            let text = String::from_utf8_lossy(&content);
            let Some((user, password)) = text.lines().next().and_then(|line| line.split_once(':')) else {
                return Err(Failure::usage(format!(
                    "{}: expected `USER:PASSWORD` in the first line",
                    path.display()
                )));
            };
            settings.login = Some(EtcdLogin { user: user.to_owned(), password: password.to_owned() });
        }
        Ok(settings)
    }

    /// The servers that are given, or those of the cluster that this host is part of.
    pub(crate) fn known_servers(&self, prefix: Option<&Path>) -> Result<Option<EtcdSettings>, Failure> {
        self.known(prefix)?.servers()
    }

    /// The files of authority, certificate and key, for the same servers.
    pub(crate) fn known_files(&self, prefix: Option<&Path>) -> Result<[Option<PathBuf>; 3], Failure> {
        let known = self.known(prefix)?;
        Ok([known.seeds_ca, known.seeds_cert, known.seeds_key])
    }

    /// This, or what the run on this host remembers of its cluster where no servers are given.
    fn known(&self, prefix: Option<&Path>) -> Result<Connection, Failure> {
        if self.servers()?.is_some() {
            return Ok(self.clone());
        }
        let directory = working_directory(prefix)?.join(CLUSTER);
        let Some(known) = Remembered::read(&directory).map_err(Failure::failed)? else {
            return Ok(self.clone());
        };
        let (certificate, key) = known.identity.unzip();
        Ok(Connection {
            seeds: known.endpoints,
            seeds_ca: self.seeds_ca.clone().or(known.authority),
            seeds_cert: self.seeds_cert.clone().or(certificate),
            seeds_key: self.seeds_key.clone().or(key),
            seeds_login: self.seeds_login.clone(),
            namespace: known.namespace,
            timeout: self.timeout,
            ssh: self.ssh.clone(),
        })
    }

    /// The files of authority, certificate and key.
    pub(crate) fn files(&self) -> Option<[&Path; 3]> {
        Some([self.seeds_ca.as_deref()?, self.seeds_cert.as_deref()?, self.seeds_key.as_deref()?])
    }

    /// The store is that of this host, unless a run on this host has joined others.
    pub(crate) fn is_local(&self) -> Result<bool, Failure> {
        Ok(self.servers()?.is_none() && self.ssh.way()?.is_none())
    }

    /// The world of the store that [`Connection::store`] finds, as soon as it is known.
    pub(crate) async fn world(&self, prefix: Option<&Path>) -> Result<SharedState, Failure> {
        let world = SharedState::new(self.store(prefix).await?, &hostname(None)?);
        self.in_time(prefix, async {
            world.ready().await;
            Ok(())
        })
        .await?;
        Ok(world)
    }

    /// Waits for something that the servers do, but not longer than the command may.
    pub(crate) async fn in_time<T>(
        &self,
        prefix: Option<&Path>,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, Failure> {
        let waited = deadline::within(&self.place(prefix), self.timeout, work).await;
        waited.map_err(Failure::failed)
    }

    /// The store, for people.
    fn place(&self, prefix: Option<&Path>) -> String {
        match self.known_servers(prefix) {
            Ok(Some(servers)) => format!("the store at {}", servers.endpoints.join(", ")),
            _ => match working_directory(prefix) {
                Ok(path) => format!("the store of the run in {}", path.display()),
                Err(_) => "the store".to_owned(),
            },
        }
    }

    /// Finds the store, for a command that has none of its own: the servers, that of the run that goes on on this host,
    /// or the file that the last one has left. Every call to it has the command's deadline.
    pub(crate) async fn store(&self, prefix: Option<&Path>) -> Result<Arc<dyn Store>, Failure> {
        let store = self.found(prefix).await?;
        Ok(Arc::new(WithDeadline::new(store, self.place(prefix), self.timeout)))
    }

    async fn found(&self, prefix: Option<&Path>) -> Result<Arc<dyn Store>, Failure> {
        let settings = self.servers()?;
        if let Some(login) = self.ssh.way()? {
            let host = login.target.to_string();
            let timeout = self.timeout.filter(|_| !self.ssh.is_interactive());
            let connect = async { Ok(ssh::store(login, settings, prefix).await) };
            return deadline::within(&host, timeout, connect).await.map_err(Failure::failed)?;
        }
        if let Some(settings) = settings {
            return servers(settings);
        }
        let path = working_directory(prefix)?;
        let connect = async { Ok(Socket::connect(&path.join(SOCKET)).await) };
        let unreachable = match self.in_time(prefix, connect).await? {
            Ok(socket) => return Ok(Arc::new(socket)),
            Err(error) => error,
        };
        if let Some(settings) = self.known_servers(prefix)? {
            return servers(settings);
        }
        let store = path.join(STORE);
        if !store.exists() {
            return Err(Failure::failed(format!("{unreachable}")).hint(
                "start `mgmt run` on this host, say where its `--prefix` is, or give the servers with `--seeds`",
            ));
        }
        let store = Embedded::open(&store)
            .map_err(|error| Failure::failed(format!("cannot open the store of this host: {error}")))?;
        Ok(Arc::new(store))
    }
}

/// Where a run on this host works.
pub(crate) fn working_directory(prefix: Option<&Path>) -> Result<PathBuf, Failure> {
    let choice = Choice::new(prefix.map(Path::to_owned), false, false, &Surroundings::of_this_process())?;
    match choice {
        Choice::Path(path) | Choice::PathOrTemporary(path) => Ok(path),
        Choice::Temporary => Err(Failure::usage("there is no working directory")),
    }
}

/// Does what a command asks of a store, for commands that do nothing else.
pub(crate) fn within<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = crate::runtime::start(Some(2))?;
    runtime.block_on(async {
        tokio::select! {
            done = work => done,
            // What has been begun is put away: tunnels, and a terminal that shows nothing of what is typed.
            Ok(()) = tokio::signal::ctrl_c() => Err(Failure::shown(exit_codes::INTERRUPTED)),
        }
    })
}

/// Connects to servers. Whether they answer is seen later.
pub(crate) fn servers(settings: EtcdSettings) -> Result<Arc<dyn Store>, Failure> {
    let etcd = Etcd::connect(settings).map_err(Failure::usage)?;
    Ok(Arc::new(etcd))
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(path).map_err(|error| Failure::usage(format!("cannot read {}: {error}", path.display())))
}
