//! `mgmt deploy`: a program for all hosts that share a store.

mod confirm;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use mgmt_signing::PublicKey;
use mgmt_store::{Commits, Deploy, DeployError, DeploySigner, Program, SharedState, UnreadableDeploy};
use mgmt_telemetry::{Format, escape, json_line};
use serde_json::json;

use crate::commands::exit_codes;
use crate::commands::graph::compute::Computing;
use crate::configuration::{self, Input};
use crate::connection::{self, Connection};
use crate::failure::{Exit, Failure};
use crate::legacy_lang::{LegacyIgnored, LegacySteps};
use crate::manifest::{self, Manifest, ManifestArguments};
use crate::program::{self, package};
use crate::signing::Signing;
use crate::terminal::Terminal;

/// Give a program to all hosts that share a store
///
/// The program is checked here and stored with its files; every host that runs takes it at once, and those that start
/// later take the newest. Unless `--no-git` is given, it has to be in a git repository without uncommitted changes, and
/// the commit that was deployed last has to be an ancestor of the one that is checked out.
///
/// On a terminal, the plan for this host is summed up first, if mgmt has run here, and it is asked whether to deploy. For
/// `rollback`, the deploy is named that is to be repeated. With `--json` on a terminal, `--yes` is needed.
///
/// `mgmt deploy list` shows what was deployed, `mgmt deploy show NUMBER` one of them with its files, and `mgmt deploy
/// rollback [NUMBER]` deploys the one before, or that of the number, again.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// `lang` for a program, `yaml` for a graph, `puppet` for a manifest, `langpuppet` for a program and a manifest as one graph,
    /// `empty` for nothing; or `list`, `show`, `rollback`
    #[arg(value_name = "FRONT-END")]
    what: String,

    /// The program for `lang`, the file for `yaml`, the manifest or environment for `puppet`; for `show` and `rollback` a number
    #[arg(value_name = "PATH", value_hint = clap::ValueHint::AnyPath)]
    input: Option<PathBuf>,

    /// Change nothing: hosts only report what would be changed
    #[arg(long)]
    noop: bool,

    /// Run at most so many resources at the same time on each host; -1 is no limit
    #[arg(long, value_name = "COUNT", allow_negative_numbers = true, default_value_t = -1)]
    sema: i64,

    /// Find no edges automatically
    #[arg(long)]
    no_autoedges: bool,

    /// Group no resources automatically
    #[arg(long)]
    no_autogroup: bool,

    /// Do not look at the git repository
    #[arg(long)]
    no_git: bool,

    /// Deploy without a question, on a terminal, too
    #[arg(long, short = 'y')]
    yes: bool,

    /// Deploy even if the commit that was deployed last is no ancestor of this one, or is this one
    #[arg(long)]
    force: bool,

    /// Download the modules of a program that are not there first, as `mgmt get` does
    #[arg(long, alias = "lp-download")]
    download: bool,

    /// Where downloaded modules are [env: MGMT_MODULE_PATH]
    #[arg(long, alias = "lp-module-path", value_name = "DIRECTORY", value_hint = clap::ValueHint::DirPath)]
    module_path: Option<PathBuf>,

    /// The working directory of the run on this host, if there are no `--seeds` [env: MGMT_PREFIX]
    #[arg(long, value_name = "DIRECTORY", value_hint = clap::ValueHint::DirPath)]
    prefix: Option<PathBuf>,

    #[command(flatten)]
    manifest: ManifestArguments,

    #[command(flatten)]
    connection: Connection,

    #[command(flatten)]
    signing: Signing,

    #[command(flatten)]
    steps: LegacySteps,
    #[command(flatten)]
    ignored: LegacyIgnored,
}

/// How long the values of a program may take to be there that is to be joined with a manifest.
const WAIT: Duration = Duration::from_secs(10);

pub(crate) fn run(arguments: &Arguments, terminal: &Terminal) -> Result<Exit, Failure> {
    let warnings = [arguments.steps.warnings("deploy"), arguments.ignored.warnings()].concat();
    warnings.iter().for_each(|warning| terminal.warning(warning));
    if arguments.steps.only_download || arguments.steps.only_unify {
        let input = arguments.input.as_deref().filter(|_| arguments.what == "lang").ok_or_else(|| {
            Failure::usage("`--only-download` and `--only-unify` are for `deploy lang PATH`")
        })?;
        return program_of(input, arguments, terminal).map(|_| Exit::OK);
    }
    let action = Action::new(arguments, terminal)?;
    let signer = arguments.signing.signer()?;
    let (action, is_confirmed) = match action {
        Action::Rollback(number) if confirm::is_asked(arguments, terminal)? => {
            let deploy = connection::within(async {
                let world = arguments.connection.world(arguments.prefix.as_deref()).await?;
                to_repeat(&world, number).await
            })?;
            (Action::Rollback(Some(deploy.id)), confirm::rollback(&deploy, arguments, terminal)?)
        }
        Action::Add(..) if confirm::is_asked(arguments, terminal)? => {
            (action, confirm::deploy(arguments, terminal)?)
        }
        action => (action, true),
    };
    if !is_confirmed {
        return Err(Failure::failed("nothing was deployed"));
    }
    connection::within(async {
        let world = arguments.connection.world(arguments.prefix.as_deref()).await?;
        action.carry_out(&world, signer.as_ref().map(|signer| signer as _), terminal).await
    })
}

/// What is to be done. Everything that can be wrong with it has been looked at.
enum Action {
    List,
    Show(u64),
    Rollback(Option<u64>),
    Add(Box<Program>, package::Package, Option<Checkout>),
}

impl Action {
    fn new(arguments: &Arguments, terminal: &Terminal) -> Result<Action, Failure> {
        let input = arguments.input.as_deref();
        let number = || match input.map(|input| input.to_string_lossy().parse()) {
            None => Ok(None),
            Some(Ok(number)) => Ok(Some(number)),
            Some(Err(_)) => {
                Err(Failure::usage("expected the number of a deploy").hint("`mgmt deploy list` shows them"))
            }
        };
        let unwanted = |action: Action| match input {
            None => Ok(action),
            Some(_) => Err(Failure::usage(format!("`{}` takes no file", arguments.what))),
        };
        match arguments.what.as_str() {
            "list" => unwanted(Action::List),
            "show" => match number()? {
                Some(number) => Ok(Action::Show(number)),
                None => Err(Failure::usage("which deploy?").hint("write `mgmt deploy show NUMBER`")),
            },
            "rollback" => Ok(Action::Rollback(number()?)),
            "empty" => {
                let package = package::Package { files: mgmt_store::Tree::default(), entry: String::new() };
                unwanted(Action::add(arguments, package)?)
            }
            "lang" => {
                let input = input.ok_or_else(|| {
                    Failure::usage("there is no program").hint("write `mgmt deploy lang PATH`")
                })?;
                Action::add(arguments, program_of(input, arguments, terminal)?)
            }
            "yaml" => {
                let path = input.ok_or_else(|| {
                    Failure::usage("there is no file").hint("write `mgmt deploy yaml FILE`")
                })?;
                let loaded = configuration::load(&Input::new(path, false), terminal)?;
                Action::add(arguments, package::single("start.yaml", loaded.content)?)
            }
            "puppet" => {
                let flag = arguments.manifest.puppet.as_deref();
                let input = match (input, flag) {
                    (Some(_), Some(_)) => {
                        return Err(Failure::usage("there are two manifests").hint("leave out `--puppet`"));
                    }
                    (None, None) => {
                        return Err(Failure::usage("there is no manifest")
                            .hint("write `mgmt deploy puppet FILE.pp`"));
                    }
                    (Some(input), None) | (None, Some(input)) => input,
                };
                let manifest = Manifest::new(input.as_os_str(), &arguments.manifest.settings, false)?
                    .with_tags(&arguments.manifest);
                manifest::load_alone(&manifest, terminal)?.into_graph()?;
                Action::add(arguments, manifest.package()?)
            }
            "langpuppet" => {
                let (lang, puppet) = arguments.manifest.both()?;
                let manifest = Manifest::new(puppet.as_os_str(), &arguments.manifest.settings, false)?
                    .with_tags(&arguments.manifest);
                let program = program_of(lang, arguments, terminal)?;
                let computing = Computing {
                    command: "deploy",
                    terminal,
                    module_path: arguments.module_path.as_deref(),
                    hostname: "",
                    wait: WAIT,
                    strict: false,
                    manifest: &arguments.manifest,
                    secrets: std::cell::RefCell::default(),
                    files: std::cell::OnceCell::new(),
                };
                computing.both(lang.as_os_str(), puppet.as_os_str())?;
                let allow = arguments.manifest.allow_unmatched;
                let package = package::both(program, manifest.package()?, allow)?;
                unwanted(Action::add(arguments, package)?)
            }
            other => Err(Failure::usage(format!("`{other}` is nothing that can be deployed")).hint(
                "write `mgmt deploy lang PATH`, `mgmt deploy yaml FILE`, `mgmt deploy puppet PATH`, `mgmt deploy langpuppet --lang \
                 PATH --puppet PATH` or `mgmt deploy empty`; there are also `list`, `show` and `rollback`",
            )),
        }
    }

    fn add(arguments: &Arguments, package: package::Package) -> Result<Action, Failure> {
        let checkout = match arguments.no_git {
            true => None,
            false => {
                let input = arguments.input.as_deref().or(arguments.manifest.either());
                Some(Checkout::find(input, arguments.force)?)
            }
        };
        let program = Program {
            frontend: arguments.what.clone(),
            entry: package.entry.clone(),
            noop: arguments.noop,
            sema: arguments.sema,
            no_autoedges: arguments.no_autoedges,
            no_autogroup: arguments.no_autogroup,
        };
        Ok(Action::Add(Box::new(program), package, checkout))
    }

    async fn carry_out(
        self,
        world: &SharedState,
        signer: Option<&dyn DeploySigner>,
        terminal: &Terminal,
    ) -> Result<Exit, Failure> {
        let deployed = match self {
            Action::List => {
                let list = world.deploys().await.map_err(Failure::failed)?;
                for deploy in &list.deploys {
                    terminal.data(&line(deploy, terminal));
                }
                for unreadable in &list.unreadable {
                    terminal.data(&unreadable_line(unreadable, terminal));
                }
                return Ok(Exit::OK);
            }
            Action::Show(number) => {
                let deploy = find(world, number).await?;
                terminal.data(&line(&deploy, terminal));
                let files = world.deployed_files(&deploy).await.map_err(Failure::failed)?;
                for (path, file) in files.iter() {
                    let size = file.content.len();
                    terminal.data(&match terminal.format() {
                        Format::Human => format!("  {size:>9}  {}\n", escape(path)),
                        Format::Json => json_line(&json!({ "type": "file", "path": path, "size": size })),
                    });
                }
                return Ok(Exit::OK);
            }
            Action::Rollback(number) => {
                let number = match number {
                    Some(number) => number,
                    None => before(world).await?,
                };
                world.repeat_deploy(number, signer).await
            }
            Action::Add(program, package, checkout) => {
                add(world, &program, &package, checkout.as_ref(), signer, terminal).await?
            }
        };
        match deployed {
            Ok(deploy) => {
                terminal.data(&line(&deploy, terminal));
                Ok(Exit::OK)
            }
            Err(error @ DeployError::Same { .. }) => {
                Err(Failure::failed(error).hint("`--force` deploys it again"))
            }
            Err(error) => Err(Failure::failed(error)),
        }
    }
}

/// How often another commit may be deployed between the comparison with the last one and the deploy.
const MAX_COMPARISONS: usize = 8;

/// Deploys a package, and compares its commit with the one that was deployed last.
async fn add(
    world: &SharedState,
    program: &Program,
    package: &package::Package,
    checkout: Option<&Checkout>,
    signer: Option<&dyn DeploySigner>,
    terminal: &Terminal,
) -> Result<Result<Deploy, DeployError>, Failure> {
    let mut commits = Commits::default();
    if let Some(checkout) = checkout {
        commits = Commits { hash: Some(checkout.hash.clone()), follows: None, forced: checkout.force };
        if checkout.force {
            checkout.say_what_is_skipped(world, terminal).await?;
        }
    }
    for _ in 0..MAX_COMPARISONS {
        let deployed = world.add_deploy(program, &package.files, &commits, signer).await;
        match (deployed, checkout) {
            (Err(DeployError::OtherCommit { found, id }), Some(checkout)) => {
                checkout.follows(&found, id)?;
                commits.follows = Some(found);
            }
            (deployed, _) => return Ok(deployed),
        }
    }
    Ok(Err(DeployError::Raced))
}

/// The deploy of this number, or the one before the newest one.
async fn to_repeat(world: &SharedState, number: Option<u64>) -> Result<Deploy, Failure> {
    let number = match number {
        Some(number) => number,
        None => before(world).await?,
    };
    find(world, number).await
}

async fn find(world: &SharedState, number: u64) -> Result<Deploy, Failure> {
    let found = world.deploy(number).await.map_err(Failure::failed)?;
    found.ok_or_else(|| Failure::failed(format!("there is no deploy {number}")))
}

/// The last deploy before the newest one that can be read. The newest one may be one that cannot.
async fn before(world: &SharedState) -> Result<u64, Failure> {
    let all = world.deploys().await.map_err(Failure::failed)?;
    let readable = || all.deploys.iter().map(|deploy| deploy.id);
    let newest = readable().chain(all.unreadable.iter().filter_map(|unreadable| unreadable.id)).max();
    let before = newest.and_then(|newest| readable().rfind(|id| *id < newest));
    before.ok_or_else(|| Failure::failed("there is no deploy before the newest one"))
}

/// The name by which the agent on this host is known, or else that of the system.
pub(super) fn running_hostname(prefix: Option<&Path>) -> Result<String, Failure> {
    match connection::working_directory(prefix) {
        Ok(directory) => confirm::hostname(&directory),
        Err(_) => super::run::hostname(None),
    }
}

fn program_of(input: &Path, arguments: &Arguments, terminal: &Terminal) -> Result<package::Package, Failure> {
    let module_path = program::module_path(arguments.module_path.as_deref());
    let entry = program::entry(input.as_os_str())?;
    if arguments.download || arguments.steps.downloads() {
        super::get::before(&entry, module_path.clone(), arguments.steps.update, terminal)?;
    }
    let options = program::Options { module_path: module_path.clone(), lints: false };
    let checked = program::check(&entry, &options).map_err(|error| {
        program::show_missing(&error, terminal);
        Failure::shown(exit_codes::USAGE)
    })?;
    terminal.diagnostics(&checked.diagnostics, &checked.sources);
    match checked.is_right() {
        true => package::package(&entry, &checked, module_path.as_deref()),
        false => Err(Failure::shown(exit_codes::USAGE)),
    }
}

fn line(deploy: &Deploy, terminal: &Terminal) -> String {
    let Deploy { id, program, hash, repeats, by, at, files, signature, .. } = deploy;
    let key = signature.as_ref().and_then(PublicKey::of).map(|key| key.to_string());
    match terminal.format() {
        Format::Human => {
            let time = moment(*at);
            let commit = hash.as_deref().map_or("-", |hash| hash.get(..12).unwrap_or(hash));
            let repeats = repeats.map(|number| format!(", again number {number}")).unwrap_or_default();
            let noop = if program.noop { ", noop" } else { "" };
            // The end of a key tells it from others.
            let signed = key.as_deref().and_then(|key| key.get(key.len().saturating_sub(8)..));
            let signed = signed.map(|end| format!(", signed …{end}")).unwrap_or_default();
            let entry = format!("{} {}", program.frontend, program.entry);
            format!(
                "{id:>5}  {time}  {commit:12}  {}  by {}{repeats}{noop}{signed}\n",
                escape(&entry),
                escape(by)
            )
        }
        Format::Json => json_line(&json!({
            "type": "deploy",
            "format_version": 1,
            "id": id,
            "frontend": program.frontend,
            "entry": program.entry,
            "noop": program.noop,
            "hash": hash,
            "repeats": repeats,
            "by": by,
            "at": at,
            "list_size": files.size,
            "key": key,
        })),
    }
}

fn unreadable_line(unreadable: &UnreadableDeploy, terminal: &Terminal) -> String {
    let UnreadableDeploy { id, reason } = unreadable;
    match terminal.format() {
        Format::Human => {
            let id = id.map_or("newest".to_owned(), |id| id.to_string());
            format!("{id:>5}  cannot be read: {}\n", escape(reason))
        }
        Format::Json => json_line(
            &json!({ "type": "unreadable_deploy", "format_version": 1, "id": id, "reason": reason }),
        ),
    }
}

/// A moment in seconds since 1970, for people.
pub(crate) fn moment(seconds: u64) -> String {
    let time = jiff::Timestamp::from_second(i64::try_from(seconds).unwrap_or_default()).unwrap_or_default();
    time.strftime("%F %T UTC").to_string()
}

/// A git repository, and the commit that is checked out there.
struct Checkout {
    directory: PathBuf,
    hash: String,
    force: bool,
}

/// How the commit that was deployed last is related to the one that is checked out.
enum Relation {
    Ancestor,
    Other,
    /// Git does not know it, or says why it cannot tell.
    Unknown(String),
}

impl Checkout {
    fn find(input: Option<&Path>, force: bool) -> Result<Checkout, Failure> {
        let directory = match input {
            Some(path) if path.is_dir() => path.to_owned(),
            Some(path) if path.is_file() => match path.parent() {
                Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
                _ => PathBuf::from("."),
            },
            _ => PathBuf::from("."),
        };
        let hash = git(&directory, &["rev-parse", "--verify", "HEAD"])?.map_err(|why| {
            Failure::usage(format!("cannot tell which commit this is: {why}"))
                .hint("`--no-git` deploys without looking at the repository")
        })?;
        let changes = git(&directory, &["status", "--porcelain"])?.map_err(Failure::usage)?;
        if !changes.is_empty() {
            return Err(Failure::usage("there are changes that are not committed")
                .hint("commit them, or use `--no-git`"));
        }
        Ok(Checkout { directory, hash, force })
    }

    fn relation(&self, deployed: &str) -> Result<Relation, Failure> {
        // It comes from the store, and could be taken for an option.
        if deployed.is_empty() || !deployed.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Ok(Relation::Unknown("it is not the name of a commit".to_owned()));
        }
        let arguments = ["merge-base", "--is-ancestor", deployed, &self.hash];
        Ok(match git(&self.directory, &arguments)? {
            Ok(_) => Relation::Ancestor,
            Err(why) if why.is_empty() => Relation::Other,
            Err(why) => Relation::Unknown(why),
        })
    }

    /// Refuses unless the commit that was deployed last is an ancestor: what is in it would be lost.
    fn follows(&self, deployed: &str, id: u64) -> Result<(), Failure> {
        let (old, new) = (short(deployed), short(&self.hash));
        match self.relation(deployed)? {
            Relation::Ancestor => Ok(()),
            Relation::Other => Err(Failure::failed(format!(
                "commit {old}, deployed last (deploy {id}), is not an ancestor of {new}: what is new in it would be undone"
            ))
            .hint("merge it, or rebase onto it; `--force` deploys without this check")),
            Relation::Unknown(why) => Err(Failure::failed(format!(
                "cannot tell whether commit {old}, deployed last (deploy {id}), is an ancestor of {new}: {why}"
            ))
            .hint("`git fetch` it, with `--unshallow` in a shallow clone; `--force` deploys without this check")),
        }
    }

    /// Says what `--force` skips, if it skips anything.
    async fn say_what_is_skipped(&self, world: &SharedState, terminal: &Terminal) -> Result<(), Failure> {
        let list = world.deploys().await.map_err(Failure::failed)?;
        let Some(last) = list.deploys.last() else { return Ok(()) };
        let Some(chain) = &last.chain else { return Ok(()) };
        let skipped = match last.hash.as_ref() == Some(&self.hash) {
            true => format!("commit {} is deployed already, as number {}", short(&self.hash), last.id),
            false => match self.follows(chain, last.id) {
                Ok(()) => return Ok(()),
                Err(failure) => failure.message,
            },
        };
        terminal.warning(&format!("deploying all the same because of `--force`: {skipped}"));
        Ok(())
    }
}

/// A commit, as people name it.
fn short(hash: &str) -> std::borrow::Cow<'_, str> {
    escape(hash.get(..12).unwrap_or(hash))
}

/// Asks git something, without anything that the repository could have it do.
fn git(directory: &Path, arguments: &[&str]) -> Result<Result<String, String>, Failure> {
    let output = Command::new("git")
        .args(["-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-C"])
        .arg(directory)
        .args(arguments)
        .env("GIT_OPTIONAL_LOCKS", "0")
        .env("GIT_TERMINAL_PROMPT", "0")
        .output()
        .map_err(|error| {
            Failure::failed(format!("cannot run git: {error}"))
                .hint("install git, or use `--no-git` to deploy without looking at a repository")
        })?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    Ok(match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(text(&output.stderr)),
    })
}
