//! The flags of `run`.

use std::ffi::OsString;
use std::path::PathBuf;

use super::historic::Historic;
use crate::configuration::{FrontEnd, FrontEndParser};
use crate::connection::Connection;
use crate::legacy_lang::LegacySteps;
use crate::signing::Signing;

/// Run the engine on this host
///
/// The engine applies a graph of resources, watches what they depend on, and applies again what has changed, until
/// it is told to stop. Flags may stand before or after the name of the front-end.
#[derive(Debug, Default, clap::Args)]
#[command(after_long_help = SIGNALS)]
pub(crate) struct Arguments {
    /// Where the graph comes from: `lang` runs a program, `yaml` reads a graph from a file, `puppet` has
    /// Puppet compile a manifest, `langpuppet` makes one graph of a program and a manifest, `empty` has none
    #[arg(value_name = "FRONT-END", value_parser = FrontEndParser)]
    pub(super) front_end: Option<FrontEnd>,

    /// The file for `yaml`; for `lang` a file, a directory with a module, or a program itself in quotes; `-` is
    /// standard input; for `puppet` a file, a directory with manifests or an environment, or the code itself in quotes
    #[arg(value_name = "PATH", value_hint = clap::ValueHint::AnyPath)]
    pub(super) input: Option<PathBuf>,

    /// Download the modules of a program that are not there first, as `mgmt get` does
    #[arg(long, alias = "lp-download")]
    pub(super) download: bool,

    #[command(flatten)]
    pub(super) steps: LegacySteps,

    /// Where downloaded modules are [env: MGMT_MODULE_PATH]
    #[arg(long, alias = "lp-module-path", value_name = "DIRECTORY", value_hint = clap::ValueHint::DirPath)]
    pub(super) module_path: Option<PathBuf>,

    /// Change nothing: only report what would be changed
    #[arg(long)]
    pub(super) noop: bool,

    /// Run at most so many resources at the same time; -1 is no limit
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true)]
    pub(super) sema: Option<i64>,

    /// Find no edges automatically
    #[arg(long)]
    pub(super) no_autoedges: bool,

    /// Group no resources automatically
    #[arg(long)]
    pub(super) no_autogroup: bool,

    /// Keep the first graph: do not read the file again when it changes
    #[arg(long)]
    pub(super) no_watch: bool,

    /// The same as --no-watch
    #[arg(long)]
    pub(super) no_stream_watch: bool,

    /// Keep the first deploy: do not run others that come later
    #[arg(long)]
    pub(super) no_deploy_watch: bool,

    /// On a terminal, show only lines of the log, not how far the work is [env: MGMT_NO_PROGRESS]
    #[arg(long)]
    pub(super) no_progress: bool,

    /// Keep no record of what is changed and why: `mgmt history` and `mgmt why` will know nothing of this run
    #[arg(long)]
    pub(super) no_history: bool,

    /// Serve numbers about this run to Prometheus
    #[arg(long)]
    pub(super) prometheus: bool,

    /// Where to serve them; an address and a port [default: 127.0.0.1:9233]
    #[arg(long, value_name = "ADDRESS")]
    pub(super) prometheus_listen: Option<String>,

    /// Answer requests for this host by another name than `localhost` and its host name, such as web1.example.com; several
    /// with commas. Addresses are always answered
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(super) prometheus_name: Vec<String>,

    /// Take back what this host exports once it is gone for so long; -1 is never
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub(super) export_ttl: Option<i64>,

    /// Run only deploys that are signed with a key of this file: lines as in `id_ed25519.pub`, or PEM; may be given several
    /// times [env: MGMT_DEPLOY_KEY]
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, help_heading = "Signatures")]
    pub(super) deploy_key: Vec<PathBuf>,

    /// With `empty`: do not run what is deployed already, only what is deployed from now on
    #[arg(long)]
    pub(super) wait: bool,

    /// Refuse a file with keys that nobody reads, instead of warning about them; for `puppet`, refuse what would be left to
    /// Puppet or is warned of
    #[arg(long)]
    pub(super) strict: bool,

    /// Seconds without work that count as converged; -1 never does [env: MGMT_CONVERGER_TIMEOUT]
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, help_heading = "Ending")]
    pub(super) converger_timeout: Option<String>,

    /// End when converged; needs --converger-timeout
    #[arg(long, help_heading = "Ending")]
    pub(super) converged_exit: bool,

    /// Append `true` or `false` to this file whenever the graph converges or no longer is
    #[arg(long, value_name = "FILE", help_heading = "Ending")]
    pub(super) converger_status_file: Option<PathBuf>,

    /// End after so many seconds, with exit code 1; 0 is never [env: MGMT_MAX_RUNTIME]
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, help_heading = "Ending")]
    pub(super) max_runtime: Option<String>,

    /// Tell changes and failures apart in the exit code; see `mgmt help exit-codes`
    #[arg(long, visible_alias = "detailed-exitcodes", help_heading = "Ending")]
    pub(super) detailed_exitcode: bool,

    /// The working directory [env: MGMT_PREFIX] [default: /var/lib/mgmt, or below the cache of users other than root]
    #[arg(long, value_name = "DIRECTORY", conflicts_with = "tmp_prefix", help_heading = "Host")]
    pub(super) prefix: Option<PathBuf>,

    /// Use a new working directory that is removed at the end
    #[arg(long, help_heading = "Host")]
    pub(super) tmp_prefix: bool,

    /// The same, but only if the usual one cannot be made
    #[arg(long, help_heading = "Host")]
    pub(super) allow_tmp_prefix: bool,

    /// What this host is called [default: as the system says]
    #[arg(long, value_name = "NAME", help_heading = "Host")]
    pub(super) hostname: Option<OsString>,

    /// Leave the system's limits on file watches as they are
    #[arg(long, help_heading = "Host")]
    pub(super) no_raise_limits: bool,

    /// How hard written files are pushed to the disk before they are put in place
    #[arg(long, value_name = "WHEN", default_value = "full", help_heading = "Host")]
    pub(super) fsync: Fsync,

    /// Draw each new graph: Graphviz text to FILE@HOSTNAME, and a picture if the filter is installed
    #[arg(long, short = 'g', value_name = "FILE", help_heading = "Drawing")]
    pub(super) graphviz: Option<PathBuf>,

    /// The program that makes the picture: dot, neato, twopi, circo, fdp, sfdp, patchwork, osage [default: dot]
    #[arg(long, value_name = "PROGRAM", help_heading = "Drawing")]
    pub(super) graphviz_filter: Option<String>,

    /// Run the program on these hosts instead of this one, over ssh: `[ssh://][USER@]HOST[:PORT]`, several with commas. The
    /// name of a YAML file is a graph for the host that its key `remote` names
    #[arg(long, value_name = "HOSTS", help_heading = "Remote hosts")]
    pub(super) remote: Vec<String>,

    /// Connect to so many of them at the same time; 0 is no limit [env: MGMT_CCONNS]
    #[arg(long, value_name = "COUNT", help_heading = "Remote hosts")]
    pub(super) cconns: Option<String>,

    /// Leave nothing there: not even this program, for the next time
    #[arg(long, help_heading = "Remote hosts")]
    pub(super) no_caching: bool,

    /// Another mgmt has started this one, over ssh
    #[arg(long, value_name = "WHAT", hide = true)]
    pub(super) launched: Option<Launched>,

    #[command(flatten)]
    pub(super) manifest: crate::manifest::ManifestArguments,

    #[command(flatten)]
    pub(super) connection: Connection,

    #[command(flatten)]
    pub(super) signing: Signing,

    #[command(flatten)]
    pub(super) serving: Serving,

    #[command(flatten)]
    pub(super) ineffective: Ineffective,

    #[command(flatten)]
    pub(super) historic: Historic,
}

const SIGNALS: &str = "\
Signals:
  SIGINT (^C), SIGTERM  the first lets what is running finish; the second cancels it; the third interrupts it by
                        force. After a first SIGTERM the next steps follow by themselves, 15 seconds apart.
  SIGHUP                reads the file again";

/// The flags that make a host serve the store that hosts share.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Cluster")]
pub(super) struct Serving {
    /// Serve the store together with other hosts, so many of them at a time; the first host, the one without `--seeds`, begins.
    /// Counts for the first host only, `mgmt members size` changes it [env: MGMT_IDEAL_CLUSTER_SIZE] [default: 5, if
    /// another flag of these is given]
    #[arg(long, value_name = "COUNT")]
    pub(super) ideal_cluster_size: Option<String>,

    /// Run no server on this host, whatever the other flags say
    #[arg(long)]
    pub(super) no_server: bool,

    /// Where a server on this host listens for clients, such as `http://10.0.0.1:2379` [env: MGMT_CLIENT_URLS]
    /// [default: port 2379 where it listens for other servers]
    #[arg(long, value_name = "URL")]
    pub(super) client_urls: Vec<String>,

    /// Where a server on this host listens for other servers, such as `http://10.0.0.1:2380` [env: MGMT_SERVER_URLS]
    /// [default: port 2380 of the address that reaches the seeds; without any, of localhost]
    #[arg(long, value_name = "URL")]
    pub(super) server_urls: Vec<String>,

    /// Where clients reach it, if that is elsewhere [env: MGMT_ADVERTISE_CLIENT_URLS]
    #[arg(long, value_name = "URL")]
    pub(super) advertise_client_urls: Vec<String>,

    /// Where other servers reach it, if that is elsewhere [env: MGMT_ADVERTISE_SERVER_URLS]
    #[arg(long, value_name = "URL")]
    pub(super) advertise_server_urls: Vec<String>,
}

/// Flags of servers that this version has not. They are accepted so that scripts and units go on
/// working, and one warning says that they do nothing.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Accepted, without effect in this version")]
pub(super) struct Ineffective {
    /// Open no port; none is opened unless a flag of the cluster asks for it
    #[arg(long, conflicts_with_all = ["ideal_cluster_size", "client_urls", "server_urls", "advertise_client_urls", "advertise_server_urls"])]
    no_network: bool,
    /// Make no key pair; none is ever made
    #[arg(long)]
    no_pgp: bool,
    /// The file of the key pair
    #[arg(long, value_name = "FILE")]
    pgp_key_path: Option<OsString>,
    /// The identity of a new key pair
    #[arg(long, value_name = "TEXT")]
    pgp_identity: Option<OsString>,
    /// Serve profiles
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "")]
    pprof: Option<OsString>,
}

impl Ineffective {
    /// The flags that were given.
    pub(super) fn given(&self) -> Vec<&'static str> {
        [
            ("--no-network", self.no_network),
            ("--no-pgp", self.no_pgp),
            ("--pgp-key-path", self.pgp_key_path.is_some()),
            ("--pgp-identity", self.pgp_identity.is_some()),
            ("--pprof", self.pprof.is_some()),
        ]
        .into_iter()
        .filter_map(|(flag, given)| given.then_some(flag))
        .collect()
    }
}

/// What a run runs that was started by another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Launched {
    /// What it is handed
    Program,
    /// What is deployed
    World,
}

/// What survives a power failure. A killed program leaves every file whole in all three cases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Fsync {
    /// The new file, under its name
    #[default]
    Full,
    /// The old file or the new one, never a part of it
    Data,
    /// Left to the file system
    None,
}
