//! Hosts without an agent: this program is started on each of them over ssh, and has the store of this one.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mgmt_remote::{Ended, Handed, Launch, Login, News, Place, Rest, SshError, Stop, Target};
use mgmt_store::Store;
use mgmt_telemetry::{Format, json_line};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::arguments::Arguments;
use super::repack::{self, Recipient};
use super::settings::{Given, hostname};
use crate::commands::exit_codes;
use crate::configuration::{self, Input};
use crate::environment;
use crate::failure::Failure;
use crate::terminal::Terminal;

/// Who is to run what. Nothing has been reached yet.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    members: Vec<Member>,
    /// How many are connected to at the same time.
    at_once: Option<usize>,
    place: Place,
}

#[derive(Clone, Debug)]
struct Member {
    /// What it is called among the hosts that share the store.
    name: String,
    login: Login,
    work: Work,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Work {
    /// What this run was given.
    Program,
    /// A graph of its own.
    Graph(PathBuf, Vec<u8>),
}

impl Plan {
    /// Reads the flags. None if there are no hosts.
    pub(super) fn new(arguments: &Arguments, terminal: &Terminal) -> Result<Option<Plan>, Failure> {
        let mut members = Vec::new();
        let words =
            arguments.remote.iter().flat_map(|list| list.split([',', ' '])).filter(|word| !word.is_empty());
        for word in words {
            let (url, work) = match is_graph(word) {
                true => graph_of(Path::new(word), arguments, terminal)?,
                false => (word.to_owned(), Work::Program),
            };
            let target = Target::parse(&url).map_err(|error| Failure::usage(format!("--remote: {error}")))?;
            let name = hostname(Some(target.host.clone().into()))?;
            members.push(Member { name, login: arguments.connection.ssh.login(target)?, work });
        }
        if members.is_empty() {
            return match &arguments.remote[..] {
                [] => Ok(None),
                _ => Err(Failure::usage("`--remote` names no host")),
            };
        }
        let mut names = BTreeSet::new();
        if let Some(twice) = members.iter().find(|member| !names.insert(&member.name)) {
            return Err(Failure::usage(format!("the host {} is there twice", twice.name)));
        }
        let at_once = at_once(arguments)?;
        if arguments.converged_exit && at_once.is_some_and(|at_once| at_once < members.len()) {
            return Err(Failure::usage(format!(
                "{} hosts can never have converged together when `--cconns` allows for {} at the same time",
                members.len(),
                at_once.unwrap_or_default()
            ))
            .hint("allow for more, or leave out `--converged-exit`"));
        }
        let place = if arguments.no_caching { Place::Temporary } else { Place::Cache };
        Ok(Some(Plan { members, at_once, place }))
    }

    /// Whether somebody else runs what this run was given.
    pub(super) fn takes_program(&self) -> bool {
        self.members.iter().any(|member| member.work == Work::Program)
    }

    /// The graphs that single hosts run, by the numbers of the hosts.
    pub(super) fn graphs(&self) -> impl Iterator<Item = (usize, &Path, &[u8])> {
        self.members.iter().enumerate().filter_map(|(number, member)| match &member.work {
            Work::Graph(path, content) => Some((number, path.as_path(), content.as_slice())),
            Work::Program => None,
        })
    }
}

fn at_once(arguments: &Arguments) -> Result<Option<usize>, Failure> {
    let given = Given::new("--cconns", &arguments.cconns, &environment::CCONNS);
    let expected = "a number of hosts, or 0 for no limit";
    match given.number(expected)? {
        None | Some(0) => Ok(None),
        Some(count) => usize::try_from(count).map(Some).map_err(|_| given.wrong(expected)),
    }
}

fn is_graph(word: &str) -> bool {
    [".yaml", ".yml"].iter().any(|end| word.ends_with(end)) || word.contains('/') && !word.contains("://")
}

/// A graph in a file that says where it is to run.
fn graph_of(path: &Path, arguments: &Arguments, terminal: &Terminal) -> Result<(String, Work), Failure> {
    let loaded = configuration::load(&Input::new(path, arguments.strict), terminal)?;
    match loaded.remote {
        Some(url) => Ok((url, Work::Graph(path.to_owned(), loaded.content))),
        None => Err(Failure::usage(format!("{} does not say where it is to run", path.display()))
            .hint("write `remote: ssh://USER@HOST` at its top level, or use `--remote HOST yaml FILE`")),
    }
}

/// What every host is told besides its program.
pub(super) struct Common {
    /// Words for each of them.
    pub(super) arguments: Vec<String>,
    /// How it is to be run.
    pub(super) how: mgmt_store::Program,
    /// What this run was given; if nothing, hosts run what is deployed.
    pub(super) handed: Option<Handed>,
    pub(super) store: Arc<dyn Store>,
}

/// The hosts. When this is dropped, they end.
pub(super) struct Fleet {
    hosts: Vec<Host>,
    news: mpsc::Receiver<(usize, Happening)>,
    terminal: Terminal,
    _tasks: JoinSet<()>,
}

struct Host {
    name: String,
    orders: mpsc::UnboundedSender<Order>,
    /// Runs what this run was given.
    takes_program: bool,
    rest: Rest,
    end: Option<End>,
    /// What the run there has said of itself in the end.
    summary: Option<String>,
}

#[derive(Clone)]
enum Order {
    Stop(Stop),
    Hand(Arc<Handed>),
}

enum Happening {
    Started { copied: Option<u64> },
    Line(String),
    Rest(Rest),
    End(End),
}

/// How it went.
#[derive(Clone, Debug, PartialEq, Eq)]
enum End {
    Code(u8),
    Lost,
    /// It could not be started.
    Refused(SshError),
    /// It was not even tried.
    NotReached,
}

/// How long a host may take to be interrupted by force.
const FORCE: Duration = Duration::from_secs(10);

impl Fleet {
    /// Starts on all of them.
    pub(super) fn start(plan: Plan, common: Common, terminal: &Terminal) -> Result<Fleet, Failure> {
        const WAITING: usize = 1024;
        let Plan { members, at_once, place } = plan;
        let places = Arc::new(Semaphore::new(at_once.unwrap_or(Semaphore::MAX_PERMITS)));
        let (tell, news) = mpsc::channel(WAITING);
        let handed = common.handed.map(Arc::new);
        let mut tasks = JoinSet::new();
        let mut hosts = Vec::new();
        for (number, member) in members.into_iter().enumerate() {
            let (orders, receiver) = mpsc::unbounded_channel();
            let takes_program = member.work == Work::Program;
            let program = match member.work {
                Work::Program => handed.clone(),
                Work::Graph(_, content) => Some(Arc::new(repack::graph(content, &common.how)?)),
            };
            let mut arguments = vec!["run".to_owned(), "--hostname".to_owned(), member.name.clone()];
            let launched = if program.is_some() { "program" } else { "world" };
            arguments.extend(["--launched".to_owned(), launched.to_owned()]);
            arguments.extend(common.arguments.clone());
            arguments.push("empty".to_owned());
            let attendant = Attendant {
                number,
                login: member.login,
                place,
                arguments,
                store: Arc::clone(&common.store),
                program,
                orders: receiver,
                tell: tell.clone(),
            };
            tasks.spawn(attendant.attend(Arc::clone(&places)));
            hosts.push(Host {
                name: member.name,
                orders,
                takes_program,
                rest: Rest::Active,
                end: None,
                summary: None,
            });
        }
        Ok(Fleet { hosts, news, terminal: terminal.clone(), _tasks: tasks })
    }

    /// Waits until something is different, and shows what is said meanwhile.
    pub(super) async fn next(&mut self) {
        loop {
            let Some((number, happening)) = self.news.recv().await else {
                return std::future::pending().await;
            };
            let Some(host) = self.hosts.get_mut(number) else { continue };
            match happening {
                Happening::Line(line) => {
                    if let Some(summary) = summary_of(&line) {
                        host.summary = Some(summary);
                    }
                    let text = shown(&host.name, &line, self.terminal.format());
                    self.terminal.output().notice(&text);
                }
                Happening::Started { copied: Some(bytes) } => {
                    tracing::info!("{}: started, after a copy of {} MiB", host.name, bytes >> 20);
                }
                Happening::Started { copied: None } => {
                    tracing::info!("{}: started, the program was there", host.name);
                }
                Happening::Rest(rest) => {
                    host.rest = rest;
                    return;
                }
                Happening::End(end) => {
                    told(&host.name, &end);
                    // A run that did not come to its end has said nothing of itself.
                    if !matches!(end, End::Code(_)) {
                        host.summary = None;
                    }
                    host.end = Some(end);
                    return;
                }
            }
        }
    }

    /// All have ended.
    pub(super) fn is_done(&self) -> bool {
        self.hosts.iter().all(|host| host.end.is_some())
    }

    /// Whether all hosts are at rest: converged only if each of them is, or has ended well.
    pub(super) fn rest(&self, detailed: bool) -> Rest {
        let rests = || self.hosts.iter().map(|host| host.rest(detailed));
        if rests().any(|rest| rest == Rest::Active) {
            Rest::Active
        } else if rests().any(|rest| rest == Rest::Quiet) {
            Rest::Quiet
        } else {
            Rest::Converged
        }
    }

    /// The hosts that have not converged, and why not, such as `web1: not started`.
    pub(super) fn not_converged(&self, detailed: bool) -> String {
        let hosts = self.hosts.iter().filter(|host| host.rest(detailed) != Rest::Converged);
        let reasons = hosts.map(|host| {
            let reason = match &host.end {
                Some(End::Code(code)) => format!("ended with code {code}"),
                Some(End::Lost) => "connection lost".to_owned(),
                Some(End::Refused(_) | End::NotReached) => "not started".to_owned(),
                None => "not converged".to_owned(),
            };
            format!("{}: {reason}", host.name)
        });
        reasons.collect::<Vec<_>>().join(", ")
    }

    /// Tells all to end.
    pub(super) fn stop(&self, stop: Stop) {
        for host in &self.hosts {
            // Whoever has ended does not hear it.
            let _ = host.orders.send(Order::Stop(stop));
        }
    }

    /// Gives them something else to run.
    pub(super) fn hand(&self, recipient: Recipient, program: Handed) {
        let program = Arc::new(program);
        for (number, host) in self.hosts.iter().enumerate() {
            let is_meant = match recipient {
                Recipient::All => host.takes_program,
                Recipient::Host(one) => one == number,
            };
            if is_meant {
                let _ = host.orders.send(Order::Hand(Arc::clone(&program)));
            }
        }
    }

    /// Tells what became of each host.
    pub(super) fn summarize(&self, code: u8) {
        if self.terminal.format() == Format::Json {
            let hosts: Vec<_> = self.hosts.iter().map(Host::as_json).collect();
            let summary = serde_json::json!({ "type": "summary", "hosts": hosts, "exit_code": code });
            return self.terminal.data(&json_line(&summary));
        }
        for host in &self.hosts {
            let name = &host.name;
            let summary = host.summary.as_deref().unwrap_or("what it has done is not known");
            match &host.end {
                Some(End::Code(exit_codes::OK)) => tracing::info!("{name}: {summary}"),
                Some(End::Code(code)) => tracing::warn!("{name}: ended with code {code}: {summary}"),
                Some(End::Lost) => tracing::error!("{name}: connection lost: {summary}"),
                Some(End::Refused(error)) => tracing::error!("{name}: not started: {error}"),
                Some(End::NotReached) => tracing::warn!("{name}: not started"),
                None => tracing::warn!("{name}: did not end in time: {summary}"),
            }
        }
    }

    /// The exit code of this run, where it would have been `own` without hosts.
    pub(super) fn code(&self, own: u8, detailed: bool) -> u8 {
        let failed = self.hosts.iter().filter(|host| !host.is_well(detailed)).count();
        if failed > 0 {
            tracing::error!("{failed} of {} hosts have failed", self.hosts.len());
        }
        combined(own, detailed, self.hosts.iter().filter_map(|host| host.end.as_ref()))
    }
}

impl Host {
    /// A host that has ended is at rest, as its end says.
    fn rest(&self, detailed: bool) -> Rest {
        match &self.end {
            None => self.rest,
            Some(End::NotReached) => Rest::Quiet,
            // One that was told to end while it was quiet ends with 0 as well.
            Some(_) if self.is_well(detailed) && self.rest != Rest::Quiet => Rest::Converged,
            Some(_) => Rest::Quiet,
        }
    }

    fn is_well(&self, detailed: bool) -> bool {
        match &self.end {
            Some(End::Code(code)) if detailed => matches!(*code, exit_codes::OK | exit_codes::CHANGED),
            Some(End::Code(code)) => *code == exit_codes::OK,
            Some(End::NotReached) => true,
            _ => false,
        }
    }
}

impl Host {
    fn as_json(&self) -> serde_json::Value {
        let (end, code) = match &self.end {
            Some(End::Code(code)) => ("ended", Some(*code)),
            Some(End::Lost) => ("lost", None),
            Some(End::Refused(_)) => ("refused", None),
            Some(End::NotReached) => ("not started", None),
            None => ("running", None),
        };
        serde_json::json!({ "host": self.name, "end": end, "exit_code": code, "summary": self.summary })
    }
}

/// What a run says of itself in its last line, if this is that line.
fn summary_of(line: &str) -> Option<String> {
    if let Ok(serde_json::Value::Object(object)) = serde_json::from_str(line) {
        let number = |name: &str| object.get(name).and_then(serde_json::Value::as_u64).unwrap_or(0);
        let is_summary = object.get("type").and_then(serde_json::Value::as_str) == Some("summary");
        let (resources, changed, failed) = (number("resources"), number("changed"), number("failed"));
        return is_summary.then(|| format!("{resources} resources, {changed} changed, {failed} failed"));
    }
    // After the time comes the level and the part of the program. What a resource says has the resource there, whatever it prints.
    let (time, summary) = line.split_once(" info  main: ended: ")?;
    let is_time =
        time.len() == "00:00:00".len() && time.bytes().all(|byte| byte.is_ascii_digit() || byte == b':');
    is_time.then(|| summary.trim_end().to_owned())
}

fn combined<'a>(own: u8, detailed: bool, ends: impl Iterator<Item = &'a End>) -> u8 {
    const DETAILS: u8 = exit_codes::CHANGED | exit_codes::FAILURES;
    let mut all = own;
    for end in ends {
        all = match end {
            End::NotReached | End::Code(exit_codes::OK) => all,
            // Something that is worse than a detail stays.
            _ if all & !DETAILS != 0 => all,
            End::Code(code) if detailed && code & !DETAILS == 0 => all | code,
            _ if detailed => all | exit_codes::FAILURES,
            _ => all.max(exit_codes::FAILED),
        };
    }
    all
}

fn told(name: &str, end: &End) {
    match end {
        End::Code(exit_codes::OK) => tracing::info!("{name}: ended"),
        End::Code(code) => tracing::warn!("{name}: ended with code {code}"),
        End::Lost => tracing::error!("{name}: the connection is lost; what ran there ends"),
        End::Refused(error) => match &error.hint {
            Some(hint) => tracing::error!("{error}; {hint}"),
            None => tracing::error!("{error}"),
        },
        End::NotReached => tracing::info!("{name}: not started"),
    }
}

/// A line of a host, as it is shown.
fn shown(name: &str, line: &str, format: Format) -> String {
    if format == Format::Json
        && let Ok(serde_json::Value::Object(mut object)) = serde_json::from_str(line)
    {
        object.insert("host".to_owned(), name.into());
        return json_line(&object.into());
    }
    match format {
        Format::Json => json_line(&serde_json::json!({ "type": "line", "host": name, "text": line })),
        Format::Human => format!("{name}: {line}\n"),
    }
}

/// Whoever looks after one host.
struct Attendant {
    number: usize,
    login: Login,
    place: Place,
    arguments: Vec<String>,
    store: Arc<dyn Store>,
    program: Option<Arc<Handed>>,
    orders: mpsc::UnboundedReceiver<Order>,
    tell: mpsc::Sender<(usize, Happening)>,
}

impl Attendant {
    async fn attend(mut self, places: Arc<Semaphore>) {
        let end = self.run(&places).await;
        self.say(Happening::End(end)).await;
    }

    async fn say(&self, happening: Happening) {
        // Only when everything ends is there nobody to hear it.
        let _ = self.tell.send((self.number, happening)).await;
    }

    async fn run(&mut self, places: &Semaphore) -> End {
        // Held until the end.
        let place = tokio::select! {
            place = places.acquire() => place,
            () = dismissed(&mut self.orders, &mut self.program) => return End::NotReached,
        };
        if place.is_err() {
            return End::NotReached;
        }
        tracing::info!("connecting to {}", self.login.target);
        let launch = Launch {
            login: &self.login,
            program: Path::new("/proc/self/exe"),
            place: self.place,
            install: false,
            arguments: std::mem::take(&mut self.arguments),
            store: Arc::clone(&self.store),
        };
        let launched = tokio::select! {
            launched = launch.start() => launched,
            () = dismissed(&mut self.orders, &mut self.program) => return End::NotReached,
        };
        let mut launched = match launched {
            Ok(launched) => launched,
            Err(error) => return End::Refused(error),
        };
        self.say(Happening::Started { copied: launched.copied }).await;
        if let Some(program) = &self.program
            && let Err(error) = launched.hand(program).await
        {
            return End::Refused(SshError { message: error.to_string(), hint: None });
        }
        let mut over: Option<Instant> = None;
        loop {
            tokio::select! {
                news = launched.next() => match news {
                    News::Line(line) => self.say(Happening::Line(line)).await,
                    News::Rest(rest) => self.say(Happening::Rest(rest)).await,
                    News::Ended(Ended::Code(code)) => return End::Code(code),
                    News::Ended(Ended::Lost) => return End::Lost,
                },
                Some(order) = self.orders.recv() => match order {
                    Order::Stop(stop) => {
                        launched.stop(stop);
                        if stop == Stop::Interrupt {
                            over = Some(Instant::now() + FORCE);
                        }
                    }
                    Order::Hand(program) => {
                        if let Err(error) = launched.hand(&program).await {
                            tracing::error!("{}: {error}", self.login.target);
                        }
                    }
                },
                () = until(over) => return End::Lost,
            }
        }
    }
}

/// Waits until the host is not wanted any more. The newest program is kept for it until then.
async fn dismissed(orders: &mut mpsc::UnboundedReceiver<Order>, program: &mut Option<Arc<Handed>>) {
    loop {
        match orders.recv().await {
            Some(Order::Hand(newer)) => *program = Some(newer),
            Some(Order::Stop(_)) | None => return,
        }
    }
}

async fn until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_code_tells_whether_any_host_has_failed() {
        let code = |own, detailed, ends: &[End]| combined(own, detailed, ends.iter());
        let refused = End::Refused(SshError { message: String::new(), hint: None });
        assert_eq!(code(0, false, &[End::Code(0), End::NotReached]), 0);
        assert_eq!(code(0, false, &[End::Code(0), End::Code(4)]), 1);
        assert_eq!(code(0, false, &[refused.clone(), End::Code(0)]), 1);
        assert_eq!(code(0, false, &[End::Lost]), 1);
        assert_eq!(code(0, true, &[End::Code(2), End::Code(0)]), 2);
        assert_eq!(code(0, true, &[End::Code(2), End::Code(4)]), 6);
        assert_eq!(code(2, true, &[End::Lost]), 6);
        assert_eq!(code(0, true, &[End::Code(1)]), 4);
        assert_eq!(code(130, false, &[End::Code(130)]), 130);
        assert_eq!(code(130, true, &[refused]), 130);
    }

    #[test]
    fn hosts_have_converged_only_if_each_has_or_has_ended_well() {
        let fleet = |hosts: &[(Rest, Option<End>)]| {
            let host = |(rest, end): &(Rest, Option<End>)| Host {
                name: "web1".to_owned(),
                orders: mpsc::unbounded_channel().0,
                takes_program: true,
                rest: *rest,
                end: end.clone(),
                summary: None,
            };
            let hosts = hosts.iter().map(host).collect();
            Fleet {
                hosts,
                news: mpsc::channel(1).1,
                terminal: Terminal::new(Format::Human, mgmt_telemetry::ColorChoice::Never),
                _tasks: JoinSet::new(),
            }
        };
        let of = |hosts: &[(Rest, Option<End>)]| fleet(hosts).rest(false);
        let well = || (Rest::Active, Some(End::Code(0)));
        assert_eq!(of(&[(Rest::Converged, None), well()]), Rest::Converged);
        assert_eq!(of(&[(Rest::Converged, None), (Rest::Active, None)]), Rest::Active);
        assert_eq!(of(&[(Rest::Converged, None), (Rest::Quiet, None)]), Rest::Quiet);
        let refused = End::Refused(SshError { message: String::new(), hint: None });
        for end in [End::Code(1), End::Lost, refused, End::NotReached] {
            assert_eq!(of(&[well(), (Rest::Converged, Some(end))]), Rest::Quiet);
        }
        assert_eq!(of(&[(Rest::Quiet, Some(End::Code(0)))]), Rest::Quiet, "it was told to end");
        let changed = fleet(&[(Rest::Converged, Some(End::Code(2)))]);
        assert_eq!((changed.rest(true), changed.rest(false)), (Rest::Converged, Rest::Quiet));
        assert_eq!(changed.not_converged(false), "web1: ended with code 2");
    }

    #[test]
    fn lines_carry_the_name_of_their_host() {
        assert_eq!(shown("web1", "hello", Format::Human), "web1: hello\n");
        let line = shown("web1", "{\"type\":\"log\"}", Format::Json);
        assert_eq!(line, "{\"type\":\"log\",\"host\":\"web1\"}\n");
        assert!(shown("web1", "plain", Format::Json).contains("\"text\":\"plain\""));
    }

    #[test]
    fn only_the_run_itself_tells_its_summary() {
        let summary = "2 resources, 1 changed, 0 failed";
        let own = format!("12:34:56 info  main: ended: {summary}\n");
        assert_eq!(summary_of(&own).as_deref(), Some(summary));
        for forged in [
            format!("12:34:56 info  print[p]: ended: {summary}"),
            format!("12:34:56 info  print[p]: 12:34:56 info  main: ended: {summary}"),
            format!("print[p]: info  main: ended: {summary}"),
            format!("ended: {summary}"),
        ] {
            assert_eq!(summary_of(&forged), None, "{forged}");
        }
    }

    #[test]
    fn a_file_is_told_from_a_host() {
        for graph in ["a.yaml", "./a.yml", "graphs/a"] {
            assert!(is_graph(graph), "{graph}");
        }
        for host in ["a", "ssh://a", "root@a:22", "a.example.org"] {
            assert!(!is_graph(host), "{host}");
        }
    }
}
