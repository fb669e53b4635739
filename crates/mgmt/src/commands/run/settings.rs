//! From flags and variables to what `run` is to do.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mgmt_engine::Preparation;
use mgmt_remote::Login;
use mgmt_signing::{PublicKey, Signer};
use mgmt_store_etcd::EtcdSettings;
use mgmt_sys::replace::Durability;

use super::arguments::{Arguments, Fsync, Launched};
use super::drawing::Drawing;
use super::fleet::Plan;
use super::historic;
use super::prefix;
use super::serving::Serving;
use mgmt_lang::module::Entry;

use crate::configuration::{FrontEnd, Input};
use crate::environment::{self, Variable};
use crate::failure::Failure;
use crate::manifest::Manifest;
use crate::program;
use crate::signing;
use crate::terminal::Terminal;

/// A century. Longer times mean the same, and do not fit every clock.
const LONGEST: u64 = 100 * 366 * 24 * 3600;

/// Where the graph comes from.
pub(super) enum Source {
    /// A graph in a file.
    Yaml(Input),
    /// A program.
    Lang(Entry, program::Options),
    /// A manifest of Puppet.
    Puppet(Manifest),
    /// A program and a manifest, as one graph.
    LangPuppet { entry: Entry, options: program::Options, manifest: Manifest, allow_unmatched: bool },
    /// Nothing at all.
    Empty,
}

/// What `run` is to do. Nothing in it can contradict itself any more.
pub(super) struct Settings {
    /// Where the graph comes from.
    pub(super) input: Source,
    /// Read the file again when it changes.
    pub(super) watch: bool,
    pub(super) noop: bool,
    pub(super) sema: Option<u32>,
    pub(super) autoedges: bool,
    pub(super) autogroup: bool,
    pub(super) converge_after: Option<Duration>,
    pub(super) converged_exit: bool,
    pub(super) status_file: Option<PathBuf>,
    pub(super) max_runtime: Option<Duration>,
    pub(super) detailed_exitcode: bool,
    /// Show on a terminal how far the work is.
    pub(super) progress: bool,
    /// Keep a record of what is changed and why.
    pub(super) history: bool,
    pub(super) prefix: prefix::Choice,
    pub(super) hostname: String,
    pub(super) raise_limits: bool,
    pub(super) durability: Durability,
    pub(super) drawing: Option<Drawing>,
    /// Download the modules of the program first.
    pub(super) download: bool,
    /// Download the newest of them, also of those that are there.
    pub(super) update: bool,
    /// End when they are downloaded.
    pub(super) only_download: bool,
    /// End when the program is checked.
    pub(super) only_check: bool,
    /// The servers of a store that hosts share.
    pub(super) servers: Option<EtcdSettings>,
    /// Hosts to run on.
    pub(super) fleet: Option<Plan>,
    /// This host runs nothing itself.
    pub(super) idle: bool,
    /// Another host has started this run.
    pub(super) launched: Option<Launched>,
    /// The host through which the store is reached.
    pub(super) way: Option<Login>,
    /// This host serves such a store.
    pub(super) serving: Option<Serving>,
    /// Do not run what is deployed already.
    pub(super) wait: bool,
    /// Where to serve numbers about this run.
    pub(super) metrics: Option<SocketAddr>,
    /// What this host may be called by those who ask for its metrics, besides its host name.
    pub(super) metrics_names: Vec<String>,
    /// How long what this host exports stays when it is gone.
    pub(super) export_time: Option<Duration>,
    /// Run deploys that come later.
    pub(super) deploy_watch: bool,
    /// Only deploys that are signed with one of these; all, if there are none.
    pub(super) trusted: Vec<PublicKey>,
    /// Who signs what this run deploys.
    pub(super) signer: Option<Arc<Signer>>,
    /// To be printed before anything starts.
    pub(super) warnings: Vec<String>,
}

impl Settings {
    /// What holds for every resource.
    pub(super) fn preparation(&self) -> Preparation {
        Preparation { noop: self.noop, sema: self.sema, autoedges: self.autoedges, autogroup: self.autogroup }
    }

    /// The words that have another mgmt do the same on another host.
    pub(super) fn for_others(&self, format: mgmt_telemetry::Format) -> Vec<String> {
        let mut words: Vec<String> = Vec::new();
        let mut add = |given: &[&str]| words.extend(given.iter().map(|word| (*word).to_owned()));
        if let Some(after) = self.converge_after {
            add(&["--converger-timeout", &after.as_secs().to_string()]);
        }
        if self.detailed_exitcode {
            add(&["--detailed-exitcode"]);
        }
        if !self.raise_limits {
            add(&["--no-raise-limits"]);
        }
        if !self.history {
            add(&["--no-history"]);
        }
        match self.durability {
            Durability::Full => {}
            Durability::Data => add(&["--fsync", "data"]),
            Durability::None => add(&["--fsync", "none"]),
        }
        if format == mgmt_telemetry::Format::Json {
            add(&["--message-format", "json"]);
        }
        if let Some(log) = crate::cli::log() {
            add(&["--log", &log]);
        }
        words
    }

    /// How a program is to be run, whatever it is.
    pub(super) fn program(&self) -> mgmt_store::Program {
        mgmt_store::Program {
            frontend: String::new(),
            entry: String::new(),
            noop: self.noop,
            sema: self.sema.map_or(-1, i64::from),
            no_autoedges: !self.autoedges,
            no_autogroup: !self.autogroup,
        }
    }

    /// After how long without work the program ends.
    pub(super) fn ends_after(&self) -> Option<Duration> {
        self.converge_after.filter(|_| self.converged_exit)
    }

    /// Other hosts share the store.
    pub(super) fn is_shared(&self) -> bool {
        self.servers.is_some() || self.way.is_some() || self.serving.is_some()
    }

    pub(super) fn new(mut arguments: Arguments, terminal: &Terminal) -> Result<Settings, Failure> {
        let mut warnings = historic::modernise(&mut arguments)?;
        warnings.extend(ineffective(&arguments));
        let fleet = Plan::new(&arguments, terminal)?;
        let input = match (&fleet, arguments.front_end) {
            (Some(fleet), None) if !fleet.takes_program() => Source::Empty,
            _ => input(&arguments)?,
        };
        let idle = fleet.as_ref().is_some_and(|fleet| fleet.takes_program() || arguments.front_end.is_none());
        let converge_after = converge_after(&arguments)?;
        if arguments.converged_exit && converge_after.is_none() {
            return Err(Failure::usage(
                "`--converged-exit` needs to know when the graph counts as converged",
            )
            .hint("add `--converger-timeout 5`, for 5 seconds without work"));
        }
        if arguments.converger_status_file.is_some() && converge_after.is_none() {
            warnings.push(
                "`--converger-status-file` stays empty, because there is no `--converger-timeout`".to_owned(),
            );
        }
        let hostname = hostname(arguments.hostname)?;
        let drawing = match (arguments.graphviz, arguments.graphviz_filter) {
            (Some(file), filter) => Some(Drawing::new(file, filter.as_deref(), &hostname)?),
            (None, Some(_)) => {
                return Err(Failure::usage("`--graphviz-filter` needs `--graphviz FILE`"));
            }
            (None, None) => None,
        };
        let servers = arguments.connection.servers()?;
        let serving = Serving::new(&arguments.serving, &arguments.connection, servers.as_ref(), &hostname)?;
        warnings.extend(serving.as_ref().and_then(Serving::warning));
        let way = arguments.connection.ssh.way()?;
        if way.is_some() && serving.is_some() {
            return Err(Failure::usage("a host that reaches its store over ssh cannot serve it")
                .hint("add `--no-server`, or leave out `--ssh-url`"));
        }
        Ok(Settings {
            input,
            watch: !arguments.no_watch && !arguments.no_stream_watch,
            noop: arguments.noop,
            sema: sema(arguments.sema)?,
            autoedges: !arguments.no_autoedges,
            autogroup: !arguments.no_autogroup,
            converge_after,
            converged_exit: arguments.converged_exit,
            status_file: arguments.converger_status_file,
            max_runtime: max_runtime(arguments.max_runtime)?,
            detailed_exitcode: arguments.detailed_exitcode,
            history: !arguments.no_history,
            progress: !arguments.no_progress && environment::NO_PROGRESS.get().is_none(),
            prefix: prefix::Choice::new(
                arguments.prefix,
                arguments.tmp_prefix,
                arguments.allow_tmp_prefix,
                &prefix::Surroundings::of_this_process(),
            )?,
            hostname,
            raise_limits: !arguments.no_raise_limits,
            durability: match arguments.fsync {
                Fsync::Full => Durability::Full,
                Fsync::Data => Durability::Data,
                Fsync::None => Durability::None,
            },
            drawing,
            download: arguments.download,
            update: arguments.steps.update,
            only_download: arguments.steps.only_download,
            only_check: arguments.steps.only_unify,
            servers,
            serving,
            fleet,
            idle,
            launched: arguments.launched,
            way,
            wait: arguments.wait,
            metrics: metrics(arguments.prometheus, arguments.prometheus_listen.as_deref())?,
            metrics_names: metrics_names(&arguments.prometheus_name, arguments.prometheus_listen.as_deref()),
            export_time: export_time(arguments.export_ttl)?,
            deploy_watch: !arguments.no_deploy_watch,
            trusted: signing::trusted(&arguments.deploy_key)?,
            signer: arguments.signing.signer()?.map(Arc::new),
            warnings,
        })
    }
}

fn input(arguments: &Arguments) -> Result<Source, Failure> {
    match (arguments.front_end, &arguments.input) {
        (Some(front_end), _) if arguments.wait && front_end != FrontEnd::Empty => {
            Err(Failure::usage("`--wait` belongs to the front-end `empty`"))
        }
        (Some(FrontEnd::Yaml), Some(path)) => Ok(Source::Yaml(Input::new(path, arguments.strict))),
        (Some(FrontEnd::Yaml), None) => Err(Failure::usage("the front-end `yaml` needs a file")
            .hint("write `mgmt run yaml FILE`; `-` is standard input")),
        (Some(FrontEnd::Lang), Some(input)) => {
            let module_path = program::module_path(arguments.module_path.as_deref());
            let options = program::Options { module_path, lints: false };
            Ok(Source::Lang(program::entry(input.as_os_str())?, options))
        }
        (Some(FrontEnd::Lang), None) => Err(Failure::usage("there is no program").hint(
            "write `mgmt run lang PATH`; `.` is the module in this directory, and `-` is standard input",
        )),
        (Some(FrontEnd::Puppet), input) => {
            let argument = match (input, &arguments.manifest.puppet) {
                (Some(_), Some(_)) => {
                    return Err(Failure::usage("there are two manifests").hint("leave out `--puppet`"));
                }
                (Some(input), None) | (None, Some(input)) => input,
                (None, None) => {
                    return Err(Failure::usage("the front-end `puppet` needs a manifest").hint(
                        "write `mgmt run puppet FILE.pp`, or a directory, or the code itself in quotes",
                    ));
                }
            };
            let settings = &arguments.manifest.settings;
            let manifest = Manifest::new(argument.as_os_str(), settings, arguments.strict)?;
            Ok(Source::Puppet(manifest.with_tags(&arguments.manifest)))
        }
        (Some(FrontEnd::LangPuppet), Some(input)) => Err(Failure::usage(format!(
            "the front-end `langpuppet` takes a program and a manifest, found `{}`",
            input.display()
        ))
        .hint("write `mgmt run langpuppet --lang PROGRAM --puppet MANIFEST`")),
        (Some(FrontEnd::LangPuppet), None) => {
            let (lang, puppet) = arguments.manifest.both()?;
            let module_path = program::module_path(arguments.module_path.as_deref());
            let settings = &arguments.manifest.settings;
            Ok(Source::LangPuppet {
                entry: program::entry(lang.as_os_str())?,
                options: program::Options { module_path, lints: false },
                manifest: Manifest::new(puppet.as_os_str(), settings, arguments.strict)?
                    .with_tags(&arguments.manifest),
                allow_unmatched: arguments.manifest.allow_unmatched,
            })
        }
        (Some(FrontEnd::Empty), None) => Ok(Source::Empty),
        (Some(FrontEnd::Empty), Some(path)) => {
            Err(Failure::usage(format!("the front-end `empty` takes no file, found `{}`", path.display())))
        }
        (None, _) => Err(Failure::usage("`run` needs a front-end")
            .hint("write `mgmt run lang PATH` to run a program, or `mgmt run yaml FILE` to run a graph")),
    }
}

fn converge_after(arguments: &Arguments) -> Result<Option<Duration>, Failure> {
    let given =
        Given::new("--converger-timeout", &arguments.converger_timeout, &environment::CONVERGER_TIMEOUT);
    let Some(seconds) = given.number("a number of seconds, or -1 for never")? else { return Ok(None) };
    match seconds {
        -1 => Ok(None),
        seconds => match u64::try_from(seconds) {
            Ok(seconds) => Ok(Some(Duration::from_secs(seconds.min(LONGEST)))),
            Err(_) => Err(given.wrong("a number of seconds, or -1 for never")),
        },
    }
}

fn max_runtime(flag: Option<String>) -> Result<Option<Duration>, Failure> {
    let given = Given::new("--max-runtime", &flag, &environment::MAX_RUNTIME);
    let Some(seconds) = given.number("a number of seconds, or 0 for no end")? else { return Ok(None) };
    match u64::try_from(seconds) {
        Ok(0) => Ok(None),
        Ok(seconds) => Ok(Some(Duration::from_secs(seconds.min(LONGEST)))),
        Err(_) => Err(given.wrong("a number of seconds, or 0 for no end")),
    }
}

/// Whoever says where wants it, too.
fn metrics(wanted: bool, listen: Option<&str>) -> Result<Option<SocketAddr>, Failure> {
    const USUAL: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9233);
    let Some(text) = listen else { return Ok(wanted.then_some(USUAL)) };
    // An address may be left out, as in `:9233`.
    let text = if text.starts_with(':') { format!("0.0.0.0{text}") } else { text.to_owned() };
    let found = text.to_socket_addrs().ok().and_then(|mut found| found.next());
    found.map(Some).ok_or_else(|| {
        Failure::usage(format!("`--prometheus-listen {text}`: expected an address and a port"))
            .hint("for example 127.0.0.1:9233, or [::1]:9233")
    })
}

/// The names that were given, and the one of the address.
fn metrics_names(names: &[String], listen: Option<&str>) -> Vec<String> {
    let listen = listen.and_then(|listen| listen.rsplit_once(':')).map(|(name, _)| name.to_owned());
    names.iter().cloned().chain(listen.filter(|name| !name.is_empty())).collect()
}

fn export_time(seconds: Option<i64>) -> Result<Option<Duration>, Failure> {
    match seconds {
        None | Some(-1) => Ok(None),
        Some(seconds) => match u64::try_from(seconds) {
            Ok(seconds @ 1..) => Ok(Some(Duration::from_secs(seconds.min(LONGEST)))),
            _ => Err(Failure::usage(format!(
                "`--export-ttl {seconds}`: expected a number of seconds, or -1 for ever"
            ))),
        },
    }
}

fn sema(count: Option<i64>) -> Result<Option<u32>, Failure> {
    match count {
        None | Some(-1 | 0) => Ok(None),
        Some(count) => u32::try_from(count).map(Some).map_err(|_| {
            Failure::usage(format!(
                "`--sema {count}`: expected how many resources may run, or -1 for no limit"
            ))
        }),
    }
}

/// A value from a flag or else a variable, and which of them.
pub(super) struct Given {
    named: String,
    text: Option<String>,
}

impl Given {
    pub(super) fn new(flag: &str, value: &Option<String>, variable: &Variable) -> Given {
        match value {
            Some(text) => Given { named: flag.to_owned(), text: Some(text.clone()) },
            None => Given { named: variable.name.to_owned(), text: variable.text() },
        }
    }

    pub(super) fn number(&self, expected: &str) -> Result<Option<i64>, Failure> {
        let Some(text) = &self.text else { return Ok(None) };
        text.trim().parse().map(Some).map_err(|_| self.wrong(expected))
    }

    pub(super) fn wrong(&self, expected: &str) -> Failure {
        let text = self.text.as_deref().unwrap_or_default();
        Failure::usage(format!("{}: expected {expected}, found `{text}`", self.named))
    }
}

/// One warning for everything that was asked for and does nothing.
fn ineffective(arguments: &Arguments) -> Option<String> {
    let variables = [&environment::NO_NETWORK, &environment::PPROF, &environment::PPROF_PATH];
    let mut given = arguments.ineffective.given();
    given.extend(variables.iter().filter(|variable| variable.get().is_some()).map(|variable| variable.name));
    if given.is_empty() {
        return None;
    }
    let have = if given.len() == 1 { "has" } else { "have" };
    Some(format!("{} {have} no effect in this version", given.join(", ")))
}

/// The name of this host, as given or else as the system says.
pub(crate) fn hostname(given: Option<OsString>) -> Result<String, Failure> {
    let (name, from) = match given {
        Some(name) => (name.to_string_lossy().into_owned(), "--hostname"),
        None => (rustix::system::uname().nodename().to_string_lossy().into_owned(), "the system's host name"),
    };
    let wrong = |why: &str| {
        Failure::usage(format!("{from}: `{name}` cannot be the name of a host: {why}"))
            .hint("choose another with `--hostname NAME`")
    };
    // It becomes a part of file names and keys.
    match &name {
        name if name.is_empty() => Err(wrong("it is empty")),
        name if name.len() > 253 => Err(wrong("it is longer than 253 bytes")),
        name if name == "." || name == ".." || name.contains('/') => Err(wrong("it is a path")),
        name if name.chars().any(|character| character.is_control() || character.is_whitespace()) => {
            Err(wrong("it contains a blank or a control character"))
        }
        name if name.contains(char::REPLACEMENT_CHARACTER) => Err(wrong("it is not UTF-8")),
        _ => Ok(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_name_is_one_word_that_can_be_a_file_name() {
        assert_eq!(hostname(Some("web-1.example.org".into())).unwrap(), "web-1.example.org");
        for bad in ["", "..", "a/b", "a b", "a\nb"] {
            assert_eq!(hostname(Some(bad.into())).unwrap_err().code, 2, "{bad:?}");
        }
        assert!(hostname(None).is_ok());
    }

    #[test]
    fn a_semaphore_of_nothing_is_no_limit() {
        assert_eq!(sema(Some(-1)).unwrap(), None);
        assert_eq!(sema(Some(0)).unwrap(), None);
        assert_eq!(sema(Some(3)).unwrap(), Some(3));
        assert!(sema(Some(-2)).is_err());
    }
}
