//! The handle: one process at a time, started when it is needed and again when it has died.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::agent;
use crate::answer::{Applied, Compiled, Hello, Message, Raised, Refused, Relations, taken};
use crate::batch::Queue;
use crate::conversation::{Conversation, Ended};
use crate::installation::{Installation, Missing};
use crate::plain;
use crate::seen::{Stamp, stamp};

/// How long a compile may take.
const COMPILE: Duration = Duration::from_secs(300);

/// How often a question is asked again when the process dies over it.
const ATTEMPTS: u32 = 3;

/// The same when somebody else ends the process, for which the question is not to blame.
const KILLS: u32 = 50;

/// How often a question is asked of another process because Ruby code was edited since the last one loaded it.
const CODE_RESTARTS: u32 = 3;

/// A process in which a resource has failed is replaced before the next question, but not sooner than this after its start: types and
/// providers keep what they have found out about the host for as long as their process lives, and Puppet starts one for each run.
const MIN_AGE_AFTER_FAILURE: Duration = Duration::from_secs(30);

/// So many deaths without an answer in between, and nobody is asked for a while.
const DEATHS: u32 = 6;
const PAUSE: Duration = Duration::from_secs(30);

/// How Puppet is to be run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The file `puppet.conf`, if not the usual one.
    pub configuration: Option<PathBuf>,
    /// Puppet's own settings, by name.
    pub options: Vec<(String, String)>,
    /// Where Puppet is, if not where it is looked for.
    pub installation: Option<Installation>,
}

impl Settings {
    /// As arguments of Puppet.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let configuration = self.configuration.iter().map(|file| ("config", file.display().to_string()));
        let options = self.options.iter().map(|(name, value)| (name.as_str(), value.clone()));
        configuration.chain(options).flat_map(|(name, value)| [format!("--{name}"), value]).collect()
    }
}

/// What is to be compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A file, or a directory of which every manifest is read.
    Manifest(PathBuf),
    /// A directory that is an environment: with `manifests/`, `modules/`, `hiera.yaml` or `environment.conf`.
    Environment(PathBuf),
    /// A text.
    Code(String),
    /// What a Puppet server has for this host.
    Agent,
}

/// A resource for Puppet to bring about.
#[derive(Clone, Debug, PartialEq)]
pub struct Apply {
    /// The type.
    pub kind: String,
    /// The title.
    pub title: String,
    /// The parameters as they were compiled, in the form with rich data.
    pub parameters: Value,
    /// Parameters that must not be shown.
    pub sensitive: Vec<String>,
    /// It was notified.
    pub refresh: bool,
    /// Resources that Puppet has to know of besides, each a map with `type`, `title`, `parameters`, and `passive` if it is
    /// nothing by itself. None of the others is applied.
    pub context: Vec<Value>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum PuppetError {
    /// There is no Puppet.
    #[error(transparent)]
    Missing(#[from] Missing),
    /// It does not start.
    #[error("Puppet does not start with {}: {why}{}", ruby.display(), shown(output))]
    NotStarted {
        /// The Ruby that was used.
        ruby: PathBuf,
        /// What happened.
        why: String,
        /// The last lines that it wrote.
        output: Vec<String>,
        /// Somebody else has ended it.
        killed: bool,
    },
    /// It ended while it was asked, more than once.
    #[error("Puppet ended while it was working: {}{}", ended.how, shown(&ended.output))]
    Died {
        /// How.
        ended: Ended,
    },
    /// It has died too often.
    #[error("Puppet has ended {DEATHS} times in a row; it is left alone for {} s", PAUSE.as_secs())]
    TooOften,
    /// It has not answered.
    #[error("Puppet has not answered for {} s and was stopped", .0.as_secs())]
    TimedOut(Duration),
    /// It says no.
    #[error("{0}")]
    Refused(Box<Refused>),
    /// There is nothing from a Puppet server.
    #[error("{0}")]
    Server(String),
    /// It says something else than it was asked.
    #[error("Puppet's answer makes no sense: {0}")]
    Confused(String),
}

impl PuppetError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            PuppetError::Missing(_) => Some(Missing::HINT.to_owned()),
            PuppetError::NotStarted { .. } => Some(format!(
                "run `puppet apply --noop` by hand to see whether Puppet works; {}",
                Missing::HINT
            )),
            PuppetError::Server(_) => Some(
                "`puppet agent --test --noop` shows whether the agent works; its settings are used: server, certificate, environment"
                    .to_owned(),
            ),
            _ => None,
        }
    }
}

fn shown(output: &[String]) -> String {
    if output.is_empty() { String::new() } else { format!("; its last words: {}", output.join(" / ")) }
}

/// An installed Puppet. Clones share one process.
#[derive(Clone, Debug)]
pub struct Puppet(Arc<Shared>);

/// A handle that keeps nothing alive.
#[derive(Clone, Debug)]
pub struct WeakPuppet(Weak<Shared>);

impl WeakPuppet {
    /// The handle, if somebody still has one.
    pub fn upgrade(&self) -> Option<Puppet> {
        self.0.upgrade().map(Puppet)
    }
}

#[derive(Debug)]
struct Shared {
    settings: Settings,
    /// Held while a process is started, so that those who come meanwhile wait for the same one.
    present: Mutex<Present>,
    /// Resources that wait to be applied.
    queue: Queue,
}

#[derive(Debug, Default)]
struct Present {
    conversation: Option<Arc<Conversation>>,
    /// Puppet's file of settings as it was when the process read it; nothing if that is not certain.
    settings_file: Option<Stamp>,
    /// The same, of the process that was asked for the last compile: any question may have replaced that process since.
    compiled_with: Option<Stamp>,
    /// What is wrong with that file now.
    mistake: Option<Raised>,
    deaths: u32,
    not_before: Option<Instant>,
    started: Option<Instant>,
    /// A resource has failed since the process was started.
    has_failed: bool,
}

impl Present {
    /// Whether what the process remembers of the host may be why something fails.
    fn is_suspect(&self) -> bool {
        self.has_failed && self.started.is_some_and(|started| started.elapsed() >= MIN_AGE_AFTER_FAILURE)
    }
}

impl Puppet {
    /// A handle. Nothing is started before something is asked.
    pub fn new(settings: Settings) -> Puppet {
        Puppet(Arc::new(Shared { settings, present: Mutex::default(), queue: Queue::default() }))
    }

    /// A handle that keeps nothing alive.
    pub fn downgrade(&self) -> WeakPuppet {
        WeakPuppet(Arc::downgrade(&self.0))
    }

    pub(crate) fn queue(&self) -> &Queue {
        &self.0.queue
    }

    /// How it is run.
    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// What it says about itself. Starts it.
    pub async fn hello(&self) -> Result<Hello, PuppetError> {
        Ok(self.conversation().await?.hello.clone())
    }

    /// Whether the settings file has changed since the last compile read it.
    pub async fn has_other_settings(&self) -> bool {
        let present = self.0.present.lock().await;
        let file = |conversation: &Arc<Conversation>| conversation.hello.config.as_deref().and_then(stamp);
        present.conversation.as_ref().is_some_and(|conversation| file(conversation) != present.compiled_with)
    }

    /// The process that there is now, if any.
    pub async fn process_id(&self) -> Option<u32> {
        let present = self.0.present.lock().await;
        present.conversation.as_ref().filter(|conversation| conversation.is_alive())?.id
    }

    /// Compiles a catalogue. Where our own process cannot be started, Puppet's command line is used instead.
    pub async fn compile(&self, input: &Input) -> Result<Compiled, PuppetError> {
        if self.conversation().await.is_ok() {
            let mut present = self.0.present.lock().await;
            present.compiled_with = present.settings_file;
            if let Some(mistake) = present.mistake.clone() {
                return Err(PuppetError::Refused(Box::new(Refused::new(mistake, Vec::new()))));
            }
        }
        if *input == Input::Agent {
            return agent::catalogue(self).await;
        }
        match self.compile_warm(input).await {
            Err(PuppetError::NotStarted { why, .. }) => {
                tracing::warn!(target: "mgmt::puppet", "compiling the slow way, with the command `puppet`: {why}");
                self.compile_plainly(input).await
            }
            compiled => compiled,
        }
    }

    /// The process of Puppet's own agent on this host, if it is enabled or at work: two who do the same work would fight.
    pub async fn rival(&self) -> Result<Option<u32>, PuppetError> {
        agent::rival(self).await
    }

    /// Compiles with our own process, or not at all.
    pub async fn compile_warm(&self, input: &Input) -> Result<Compiled, PuppetError> {
        let Answer { ok, messages } = self.ask(&request("compile", input), COMPILE).await?;
        let mut compiled: Compiled = read(ok)?;
        compiled.messages = messages;
        Ok(compiled)
    }

    /// Compiles with `puppet catalog compile`, which needs nothing of ours in Ruby and tells nothing about the files that it
    /// reads.
    pub async fn compile_plainly(&self, input: &Input) -> Result<Compiled, PuppetError> {
        let installation = self.installation()?;
        match tokio::time::timeout(COMPILE, plain::compile(&installation, &self.0.settings, input)).await {
            Ok(compiled) => compiled,
            Err(_) => Err(PuppetError::TimedOut(COMPILE)),
        }
    }

    /// Asks something, and reads the answer.
    pub(crate) async fn question<T: serde::de::DeserializeOwned>(
        &self,
        request: Value,
    ) -> Result<T, PuppetError> {
        read(self.ask(&request, COMPILE).await?.ok)
    }

    /// What is known of this host now. A process of its own finds that out: it can take long, and nobody else waits for it.
    pub async fn gather_facts(&self, input: &Input) -> Result<Value, PuppetError> {
        let apart = Puppet::new(self.0.settings.clone());
        let mut request = request("facts", input);
        request["refresh"] = json!(true);
        Ok(taken(&mut apart.ask(&request, COMPILE).await?.ok, "values"))
    }

    /// Looks up again what compiles take as known of this host, after code that finds it out has come or changed.
    pub(crate) async fn refreshed_facts(&self, input: &Input) -> Result<Value, PuppetError> {
        let mut request = request("facts", input);
        request["refresh"] = json!(true);
        Ok(taken(&mut self.ask(&request, COMPILE).await?.ok, "values"))
    }

    /// What compiles take as known of this host.
    pub async fn known_facts(&self, input: &Input) -> Result<Value, PuppetError> {
        Ok(taken(&mut self.ask(&request("facts", input), COMPILE).await?.ok, "values"))
    }

    /// What compiles from now on take as known of this host.
    pub async fn use_facts(&self, values: &Value) -> Result<(), PuppetError> {
        self.ask(&json!({ "method": "use_facts", "values": values }), COMPILE).await.map(drop)
    }

    /// Puppet's own order of a catalogue.
    pub async fn relations(&self, input: &Input) -> Result<Relations, PuppetError> {
        read(self.ask(&request("relations", input), COMPILE).await?.ok)
    }

    /// Brings resources about, or looks what would have to be done. They share a transaction and know nothing of each
    /// other: one that fails makes no difference to the rest. `patience` is for all of them together.
    pub async fn apply(
        &self,
        resources: &[Apply],
        noop: bool,
        patience: Duration,
    ) -> Result<Vec<Applied>, PuppetError> {
        let list: Vec<Value> = resources
            .iter()
            .map(|resource| {
                json!({
                    "type": resource.kind,
                    "title": resource.title,
                    "parameters": resource.parameters,
                    "sensitive": resource.sensitive,
                    "refresh": resource.refresh,
                })
            })
            .collect();
        let mut context: Vec<&Value> = Vec::new();
        for item in resources.iter().flat_map(|resource| &resource.context) {
            if !context.contains(&item) {
                context.push(item);
            }
        }
        let request = json!({ "method": "apply", "resources": list, "context": context, "noop": noop });
        let applied: Vec<Applied> = read(self.ask(&request, patience).await?.ok)?;
        if applied.len() != resources.len() {
            return Err(PuppetError::Confused(
                "it tells of more or fewer resources than it was given".to_owned(),
            ));
        }
        if applied.iter().any(|applied| applied.failed) {
            self.0.present.lock().await.has_failed = true;
        }
        Ok(applied)
    }

    fn installation(&self) -> Result<Installation, Missing> {
        self.0.settings.installation.clone().map_or_else(Installation::find, Ok)
    }

    /// The process, started if there is none.
    async fn conversation(&self) -> Result<Arc<Conversation>, PuppetError> {
        let mut present = self.0.present.lock().await;
        if let Some(conversation) = present.conversation.as_ref().filter(|present| present.is_alive()) {
            let now = conversation.hello.config.as_deref().and_then(stamp);
            let has_other_settings = now != present.settings_file;
            if !has_other_settings && !present.is_suspect() {
                return Ok(Arc::clone(conversation));
            }
            if has_other_settings {
                // Puppet reads its settings when it starts.
                tracing::info!(target: "mgmt::puppet", "Puppet's settings have changed; starting it again");
            }
        }
        let before = present.conversation.take();
        if present.not_before.is_some_and(|time| Instant::now() < time) {
            return Err(PuppetError::TooOften);
        }
        let installation = self.installation()?;
        let arguments = self.0.settings.arguments();
        let began = nanoseconds();
        let conversation = Arc::new(Conversation::start(&installation.ruby, &arguments).await?);
        let Hello { puppet, ruby, .. } = &conversation.hello;
        tracing::info!(
            target: "mgmt::puppet",
            "Puppet {puppet} on Ruby {ruby} ({}) is ready", installation.ruby.display()
        );
        let file = conversation.hello.config.as_deref().and_then(stamp);
        // Whoever was writing it meanwhile has it read once more.
        let meanwhile = began..=nanoseconds();
        present.settings_file = file.filter(|file| !meanwhile.contains(&file.4));
        present.mistake = conversation.hello.mistake.clone();
        // What is brought about goes on with the settings that there were, while those that there are cannot be read.
        let before = before.filter(|before| before.is_alive() && present.mistake.is_some());
        let conversation = before.unwrap_or(conversation);
        present.conversation = Some(Arc::clone(&conversation));
        (present.started, present.has_failed) = (Some(Instant::now()), false);
        Ok(conversation)
    }

    /// Asks until there is an answer, a no, or too many deaths.
    async fn ask(&self, request: &Value, patience: Duration) -> Result<Answer, PuppetError> {
        let (mut attempts, mut kills, mut restarts) = (0, 0, 0);
        loop {
            let conversation = match self.conversation().await {
                Err(PuppetError::NotStarted { killed: true, .. }) if kills < KILLS => {
                    kills += 1;
                    continue;
                }
                conversation => conversation?,
            };
            let answered = match tokio::time::timeout(patience, conversation.ask(request.clone())).await {
                Ok(Ok(answered)) => answered,
                // Whoever carries the answers is gone.
                Ok(Err(_)) => {
                    Err(Ended { how: "it was stopped".to_owned(), killed: false, output: Vec::new() })
                }
                Err(_) => {
                    self.end(&conversation).await;
                    return Err(PuppetError::TimedOut(patience));
                }
            };
            match answered {
                Ok(answer) if answer["outdated"] == true => {
                    restarts += 1;
                    if restarts > CODE_RESTARTS {
                        return Err(PuppetError::Confused(
                            "the Ruby code of its modules is edited faster than it starts".to_owned(),
                        ));
                    }
                    tracing::info!(target: "mgmt::puppet", "Ruby code of a module has changed; starting Puppet again");
                    self.replace(&conversation).await;
                }
                Ok(answer) => {
                    self.0.present.lock().await.deaths = 0;
                    return Answer::new(answer);
                }
                Err(ended) => {
                    self.died(&conversation, &ended).await;
                    *if ended.killed { &mut kills } else { &mut attempts } += 1;
                    if attempts >= ATTEMPTS || kills >= KILLS {
                        return Err(PuppetError::Died { ended });
                    }
                    tracing::warn!(target: "mgmt::puppet", "Puppet ended ({}); starting it again", ended.how);
                }
            }
        }
    }

    /// Has the next question start another process. This one ends when its last question is answered.
    async fn replace(&self, conversation: &Arc<Conversation>) {
        let mut present = self.0.present.lock().await;
        if present.conversation.as_ref().is_some_and(|present| Arc::ptr_eq(present, conversation)) {
            present.conversation = None;
        }
    }

    /// Forgets a process, which ends it when its last question is given up.
    async fn end(&self, conversation: &Arc<Conversation>) {
        let mut present = self.0.present.lock().await;
        if present.conversation.as_ref().is_some_and(|present| Arc::ptr_eq(present, conversation)) {
            present.conversation = None;
        }
        conversation.stop();
    }

    async fn died(&self, conversation: &Arc<Conversation>, ended: &Ended) {
        let mut present = self.0.present.lock().await;
        // Several who waited for the same process see one death.
        if present.conversation.as_ref().is_some_and(|present| Arc::ptr_eq(present, conversation)) {
            present.conversation = None;
            present.deaths += u32::from(!ended.killed);
            if present.deaths >= DEATHS {
                present.deaths = 0;
                present.not_before = Some(Instant::now() + PAUSE);
            }
        }
    }
}

/// What the clock shows.
fn nanoseconds() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

fn request(method: &str, input: &Input) -> Value {
    let path = |path: &Path| path.display().to_string();
    match input {
        Input::Manifest(file) => json!({ "method": method, "manifest": path(file) }),
        Input::Environment(directory) => {
            json!({ "method": method, "environment_directory": path(directory) })
        }
        Input::Code(code) => json!({ "method": method, "code": code }),
        Input::Agent => json!({ "method": method, "agent": true }),
    }
}

/// What was answered.
struct Answer {
    ok: Value,
    messages: Vec<Message>,
}

impl Answer {
    fn new(mut answer: Value) -> Result<Answer, PuppetError> {
        let messages: Vec<Message> = read(taken(&mut answer, "messages"))?;
        let messages: Vec<Message> = messages.into_iter().map(|message| message.located()).collect();
        let error = taken(&mut answer, "error");
        if error.is_null() {
            return Ok(Answer { ok: taken(&mut answer, "ok"), messages });
        }
        let mut refused = Refused::new(read(error)?, messages);
        let mut paths = |name: &str| read::<Vec<PathBuf>>(taken(&mut answer, name)).unwrap_or_default();
        (refused.files, refused.absent, refused.directories) =
            (paths("files"), paths("absent"), paths("directories"));
        refused.seen = read(answer["seen"].take()).unwrap_or_default();
        Err(PuppetError::Refused(Box::new(refused)))
    }
}

impl Refused {
    /// Puppet tells some mistakes before it gives up, and then says the last of them again in a wrapping.
    fn new(raised: Raised, messages: Vec<Message>) -> Refused {
        let Raised { message, file, line, column } = raised;
        let last = Message { level: "err".to_owned(), message, file, line, column, ..Message::default() };
        let last = last.located();
        let (mut errors, messages): (Vec<Message>, Vec<Message>) =
            messages.into_iter().partition(Message::is_error);
        let told = |told: &Message| {
            last.message.ends_with(&told.message)
                || (last.line.is_some() && last.line == told.line && last.file == told.file)
        };
        if !errors.iter().any(told) {
            errors.push(last);
        }
        if errors.len() > 1 {
            errors.retain(|error| !error.message.ends_with(". Giving up"));
        }
        errors.dedup();
        Refused { errors, messages, ..Refused::default() }
    }
}

/// A line that may come instead of a greeting or of an answer: for tests with hostile ones.
#[doc(hidden)]
pub fn hear_hostile(line: &[u8]) -> bool {
    let greeted = crate::conversation::hello(line.to_vec()).is_ok();
    let Ok(answer) = serde_json::from_slice(line) else { return greeted };
    let answer = Answer::new(answer);
    answer.is_ok_and(|mut answer| {
        !taken(&mut answer.ok, "values").is_null() || read::<Compiled>(answer.ok).is_ok()
    }) || greeted
}

fn read<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, PuppetError> {
    serde_json::from_value(value).map_err(|error| PuppetError::Confused(error.to_string()))
}
