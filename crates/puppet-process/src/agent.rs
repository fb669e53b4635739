//! What an agent of Puppet does: a catalogue from a server, for this host, with its facts and its certificate.
//!
//! The server compiles, so no Ruby of ours is asked for that; the process here only tells the settings and the facts, and finds what the
//! server left open. Types, providers and facts of the server's modules are fetched first (pluginsync), and files that the catalogue names
//! by `puppet:` addresses afterwards.

mod files;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use mgmt_http_client::{Identity, Tls};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use self::files::{Permissions, digest, make, prune, remove_others, set_executable, write};
use crate::answer::{Compiled, Generated, Relation, TypeFacts};
use crate::http::{Answer, Client, Unanswered, encoded, encoded_path};
use crate::puppet::{Input, Puppet, PuppetError};

/// How often a server may send this host to another environment.
const MOVES: usize = 3;

/// The form of a catalogue in which nothing is lost.
const RICH: &str = "application/vnd.puppet.rich+json";
const PLAIN: &str = "application/json";
const BYTES: &str = "application/octet-stream";

/// The most files that one directory may have.
const MOST: usize = 100_000;

/// How long servers may ask to be left alone, all in all, and how long they are at least.
const PATIENCE: Duration = Duration::from_secs(1800);
const SHORTEST: Duration = Duration::from_secs(1);

/// Puppet's settings for an agent.
#[derive(Debug, Deserialize)]
struct Settings {
    certname: String,
    environment: String,
    servers: Vec<(String, u16)>,
    certificate: PathBuf,
    key: PathBuf,
    authorities: PathBuf,
    revoked: Option<PathBuf>,
    vardir: PathBuf,
    pluginsync: bool,
    usecacheonfailure: bool,
    /// Where Puppet's own agent says that it is there, that it is at work, and that it is not to be.
    pidfile: PathBuf,
    run_lock: PathBuf,
    disabled_lock: PathBuf,
}

/// Puppet's own agent on this host, if it would work against whoever does its work: the number of its process.
pub(crate) async fn rival(puppet: &Puppet) -> Result<Option<u32>, PuppetError> {
    let settings: Settings = puppet.question(json!({ "method": "agent" })).await?;
    // Whoever was told to do nothing is no rival, as soon as it is done with what it is at.
    let is_enabled = !settings.disabled_lock.exists();
    let files = [Some(&settings.run_lock), is_enabled.then_some(&settings.pidfile)];
    Ok(files.into_iter().flatten().find_map(|file| puppet_in(file)))
}

/// The process of Puppet that a file names, if it is still there.
fn puppet_in(file: &Path) -> Option<u32> {
    let id: u32 = std::fs::read_to_string(file).ok()?.trim().parse().ok()?;
    let line = std::fs::read(format!("/proc/{id}/cmdline")).ok()?;
    line.windows(6).any(|part| part == b"puppet").then_some(id)
}

impl Settings {
    /// Where types, providers and facts of the server's modules are put: a module of its own.
    fn plugins(&self) -> PathBuf {
        self.vardir.join("mgmt/modules/plugins")
    }
}

/// The environment that a server gave to a host that asked for another one, so that it asks for the right one from then on.
#[derive(Debug, Deserialize, Serialize)]
struct GivenEnvironment {
    configured: String,
    given: String,
}

impl Settings {
    fn environment_file(&self) -> PathBuf {
        self.vardir.join("mgmt/environment.json")
    }

    /// The environment of the last catalogue, as long as Puppet's settings name the same one as then.
    fn last_environment(&self) -> String {
        let kept = std::fs::read(self.environment_file()).ok();
        let kept = kept.and_then(|text| serde_json::from_slice::<GivenEnvironment>(&text).ok());
        let same = kept.filter(|kept| kept.configured == self.environment);
        same.map_or_else(|| self.environment.clone(), |kept| kept.given)
    }

    fn keep_environment(&self, given: &str) {
        if self.last_environment() == given {
            return;
        }
        let kept = json!(GivenEnvironment { configured: self.environment.clone(), given: given.to_owned() });
        if let Err(error) = write(&self.environment_file(), kept.to_string().as_bytes()) {
            tracing::warn!(target: "mgmt::puppet", "the environment is not kept: {error}");
        }
    }
}

/// What this side makes of a catalogue.
#[derive(Debug, Deserialize)]
struct Received {
    /// The catalogue, if there was something in it that the server left open.
    catalogue: Option<Value>,
    #[serde(default)]
    relations: Vec<Relation>,
    #[serde(default)]
    types: BTreeMap<String, TypeFacts>,
    #[serde(default)]
    paths: Option<BTreeMap<String, Vec<String>>>,
    #[serde(default)]
    generated: BTreeMap<String, Option<Generated>>,
    /// Types that are not known here.
    #[serde(default)]
    unknown: Vec<String>,
}

/// A catalogue from the server, ready to be translated. If there is none, the last one is used where Puppet's settings say so.
pub(crate) async fn catalogue(puppet: &Puppet) -> Result<Compiled, PuppetError> {
    let settings: Settings = puppet.question(json!({ "method": "agent" })).await?;
    let kept = settings.vardir.join("mgmt/catalogue.json");
    let compiled = match fetch(puppet, &settings).await {
        Ok(compiled) => compiled,
        Err(unanswered) => {
            let why = unanswered.why();
            if !settings.usecacheonfailure || !kept.is_file() {
                return Err(PuppetError::Server(why));
            }
            tracing::warn!(target: "mgmt::puppet", "using the last catalogue: {why}");
            return last(puppet, &settings, &kept).await;
        }
    };
    if let Err(error) = write(&kept, compiled.catalogue.to_string().as_bytes()) {
        tracing::warn!(target: "mgmt::puppet", "the catalogue is not kept: {error}");
    }
    Ok(compiled)
}

/// The catalogue that was kept.
async fn last(puppet: &Puppet, settings: &Settings, kept: &Path) -> Result<Compiled, PuppetError> {
    let text = std::fs::read(kept).map_err(|error| PuppetError::Server(error.to_string()))?;
    let catalogue: Value =
        serde_json::from_slice(&text).map_err(|error| PuppetError::Confused(error.to_string()))?;
    let environment = catalogue["environment"].as_str().unwrap_or(&settings.environment).to_owned();
    // Types that are not known can be fetched from nobody, and whoever needs them tells.
    let received = receive(puppet, settings, &catalogue, &environment).await?;
    Ok(compiled(catalogue, received, settings))
}

/// Asks one server after the other, and all of them again if one has said when.
async fn fetch(puppet: &Puppet, settings: &Settings) -> Result<Compiled, Unanswered> {
    let tls = Tls {
        trusts_system: false,
        authorities: vec![settings.authorities.clone()],
        revoked: settings.revoked.clone(),
        identity: Some(Identity { certificate: settings.certificate.clone(), key: settings.key.clone() }),
    };
    let mut left = PATIENCE;
    loop {
        let mut last = Unanswered::Wrong("Puppet's settings name no server".to_owned());
        let mut later: Option<Duration> = None;
        for (server, port) in &settings.servers {
            let asking = Asking { client: Client::new(&tls, server, *port)?, settings };
            let unanswered = match asking.everything(puppet).await {
                Err(unanswered @ (Unanswered::OutOfReach(_) | Unanswered::Unable(..))) => unanswered,
                answered => return answered,
            };
            if let Unanswered::Unable(_, Some(after)) = unanswered {
                later = Some(later.map_or(after, |later| later.min(after)));
            }
            // What a server has to say is worth more than that another one is not there.
            if !matches!((&last, &unanswered), (Unanswered::Unable(..), Unanswered::OutOfReach(_))) {
                last = unanswered;
            }
        }
        let Some(later) = later.map(|later| later.max(SHORTEST)).filter(|later| *later <= left) else {
            return Err(last);
        };
        tracing::info!(target: "mgmt::puppet", "asking again in {} s: {}", later.as_secs(), last.why());
        tokio::time::sleep(later).await;
        left -= later;
    }
}

/// Lets this side look at a catalogue.
async fn receive(
    puppet: &Puppet,
    settings: &Settings,
    catalogue: &Value,
    environment: &str,
) -> Result<Received, PuppetError> {
    let plugins = settings.plugins();
    let modulepath: Vec<String> =
        plugins.parent().filter(|_| plugins.is_dir()).iter().map(|path| path.display().to_string()).collect();
    let request = json!({
        "method": "receive",
        "catalogue": catalogue,
        "environment": environment,
        "modulepath": modulepath,
    });
    puppet.question(request).await
}

/// One server, asked for one host.
struct Asking<'a> {
    client: Client,
    settings: &'a Settings,
}

impl Asking<'_> {
    async fn everything(&self, puppet: &Puppet) -> Result<Compiled, Unanswered> {
        let told = self.node().await?;
        let mut environment = told.unwrap_or_else(|| self.settings.last_environment());
        let mut catalogue = Value::Null;
        for left in (0..=MOVES).rev() {
            let is_new = self.sync_plugins(&environment).await?;
            let facts = match is_new {
                true => puppet.refreshed_facts(&Input::Agent).await,
                false => puppet.known_facts(&Input::Agent).await,
            };
            let facts = facts.map_err(|error| Unanswered::Wrong(error.to_string()))?;
            catalogue = self.catalogue(&environment, &facts).await?;
            let given = catalogue["environment"].as_str().unwrap_or(&environment).to_owned();
            if given == environment {
                break;
            }
            if left == 0 {
                return Err(Unanswered::Wrong(format!(
                    "the server goes on sending this host to other environments: last from `{environment}` to `{given}`"
                )));
            }
            tracing::info!(target: "mgmt::puppet", "the server wants the environment `{given}` for this host");
            environment = given;
        }
        let name = catalogue["name"].as_str().unwrap_or_default();
        if name != self.settings.certname {
            return Err(Unanswered::Wrong(format!(
                "the server sent the catalogue of `{name}`, and this is `{}`",
                self.settings.certname
            )));
        }
        self.settings.keep_environment(&environment);
        self.fetch_sources(&mut catalogue, &environment).await?;
        self.received(puppet, catalogue, &environment).await
    }

    /// Fetches types, providers and facts of an environment's modules. Says whether something is other than before. As with Puppet's own
    /// agent, a server that does not have them is no reason to go without a catalogue.
    async fn sync_plugins(&self, environment: &str) -> Result<bool, Unanswered> {
        if !self.settings.pluginsync {
            return Ok(false);
        }
        let mut is_new = false;
        for (path, directory, permissions) in
            [("pluginfacts", "facts.d", Permissions::Executable), ("plugins", "lib", Permissions::Plain)]
        {
            match self.tree(path, environment, &self.settings.plugins().join(directory), permissions).await {
                Ok(has_changed) => is_new |= has_changed,
                Err(unreachable @ Unanswered::OutOfReach(_)) => return Err(unreachable),
                Err(unanswered) => {
                    tracing::warn!(target: "mgmt::puppet", "could not fetch {path}: {}", unanswered.why());
                }
            }
        }
        Ok(is_new)
    }

    /// The environment that the server has this host in, if it says so.
    async fn node(&self) -> Result<Option<String>, Unanswered> {
        let Settings { certname, environment, .. } = self.settings;
        let path = format!("/puppet/v3/node/{}?environment={}", encoded(certname), encoded(environment));
        let Answer { status, body, .. } = self.client.get(&path, PLAIN).await?;
        if status != 200 {
            tracing::debug!(target: "mgmt::puppet", "the server does not tell about the node ({status})");
            return Ok(None);
        }
        let node: Value = serde_json::from_slice(&body).unwrap_or_default();
        Ok(node["environment"].as_str().map(str::to_owned))
    }

    async fn catalogue(&self, environment: &str, facts: &Value) -> Result<Value, Unanswered> {
        let certname = &self.settings.certname;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        let facts = json!({ "name": certname, "values": facts, "timestamp": moment(now), "expiration": moment(now + 1800) });
        let uuid = std::fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap_or_default();
        // The server decodes the facts once more than the rest of the form.
        let facts = encoded(&facts.to_string());
        let form: Vec<String> = [
            ("environment", environment),
            ("configured_environment", environment),
            ("facts_format", PLAIN),
            ("facts", &facts),
            ("transaction_uuid", uuid.trim()),
            ("static_catalog", "false"),
            ("checksum_type", "sha256"),
            ("fail_on_404", "true"),
        ]
        .iter()
        .map(|(name, value)| format!("{name}={}", encoded(value)))
        .collect();
        let path = format!("/puppet/v3/catalog/{}?environment={}", encoded(certname), encoded(environment));
        let answer = self.client.post(&path, RICH, form.join("&")).await?;
        if answer.status != 200 {
            return Err(refused("does not compile the catalogue", &answer));
        }
        serde_json::from_slice(&answer.body)
            .map_err(|error| Unanswered::Wrong(format!("the server's catalogue is not JSON: {error}")))
    }

    /// Lets this side look at a catalogue, and fetches types that only the server has.
    async fn received(
        &self,
        puppet: &Puppet,
        catalogue: Value,
        environment: &str,
    ) -> Result<Compiled, Unanswered> {
        let plugins = self.settings.plugins();
        let mut synced = false;
        loop {
            let received = receive(puppet, self.settings, &catalogue, environment)
                .await
                .map_err(|error| Unanswered::Wrong(error.to_string()))?;
            if !received.unknown.is_empty() && !synced {
                tracing::info!(target: "mgmt::puppet", "fetching types from the server: {}", received.unknown.join(", "));
                self.tree("plugins", environment, &plugins.join("lib"), Permissions::Plain).await?;
                synced = true;
                continue;
            }
            return Ok(compiled(catalogue, received, self.settings));
        }
    }

    /// Puts files from the server in the place of their addresses.
    async fn fetch_sources(&self, catalogue: &mut Value, environment: &str) -> Result<(), Unanswered> {
        let place = self.settings.vardir.join("mgmt/files");
        let mut known: BTreeMap<String, PathBuf> = BTreeMap::new();
        for resource in catalogue["resources"].as_array_mut().into_iter().flatten() {
            if resource["type"] != "File" {
                continue;
            }
            let Some(source) = resource.pointer_mut("/parameters/source") else { continue };
            let candidates: Vec<String> = match &*source {
                Value::String(one) => vec![one.clone()],
                Value::Array(list) => {
                    list.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect()
                }
                _ => continue,
            };
            if !candidates.iter().any(|candidate| candidate.starts_with("puppet:")) {
                continue;
            }
            for candidate in candidates {
                let Some(path) = address(&candidate) else {
                    // Something of this host, which is looked for here.
                    if Path::new(candidate.trim_start_matches("file:")).exists() {
                        *source = Value::String(candidate);
                        break;
                    }
                    continue;
                };
                let found = match known.get(&path) {
                    Some(found) => Some(found.clone()),
                    None => self.fetch_source(&path, environment, &place).await?,
                };
                if let Some(found) = found {
                    *source = Value::String(found.display().to_string());
                    known.insert(path, found);
                    break;
                }
            }
        }
        prune(&place, known.values());
        Ok(())
    }

    /// A file or a directory of the server, if it is there.
    async fn fetch_source(
        &self,
        path: &str,
        environment: &str,
        place: &Path,
    ) -> Result<Option<PathBuf>, Unanswered> {
        let asked = format!(
            "/puppet/v3/file_metadata/{}?environment={}&links=manage&checksum_type=sha256&source_permissions=ignore",
            encoded_path(path),
            encoded(environment)
        );
        let answer = self.client.get(&asked, PLAIN).await?;
        match answer.status {
            200 => {}
            404 => return Ok(None),
            _ => return Err(refused(&format!("does not tell about {path}"), &answer)),
        }
        let metadata: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        if metadata["type"] == "directory" {
            let name = format!("tree-{}", digest(path.as_bytes()));
            let directory = place.join(name);
            self.tree(path, environment, &directory, Permissions::Plain).await?;
            return Ok(Some(directory));
        }
        // What is here already is not fetched again, as long as nobody has changed it.
        if let Some(sum) = sum(&metadata) {
            let file = place.join(sum);
            if std::fs::read(&file).is_ok_and(|content| digest(&content) == sum) {
                return Ok(Some(file));
            }
        }
        let content = self.content(path, environment).await?;
        let file = place.join(digest(&content));
        write(&file, &content).map_err(|error| local(&file, &error))?;
        Ok(Some(file))
    }

    async fn content(&self, path: &str, environment: &str) -> Result<Vec<u8>, Unanswered> {
        let asked =
            format!("/puppet/v3/file_content/{}?environment={}", encoded_path(path), encoded(environment));
        let answer = self.client.get(&asked, BYTES).await?;
        match answer.status {
            200 => Ok(answer.body.to_vec()),
            _ => Err(refused(&format!("does not give {path}"), &answer)),
        }
    }

    /// Makes a directory the same as one of the server. Says whether something was different.
    async fn tree(
        &self,
        path: &str,
        environment: &str,
        directory: &Path,
        permissions: Permissions,
    ) -> Result<bool, Unanswered> {
        let asked = format!(
            "/puppet/v3/file_metadatas/{}?environment={}&recurse=true&links=follow&checksum_type=sha256&source_permissions={}",
            encoded_path(path),
            encoded(environment),
            permissions.parameter()
        );
        let answer = self.client.get(&asked, PLAIN).await?;
        if answer.status == 404 && permissions == Permissions::Executable {
            // No module of the server has any.
            return Ok(remove_others(directory, &[]));
        }
        if answer.status != 200 {
            return Err(refused(&format!("does not list {path}"), &answer));
        }
        let list: Vec<Value> = serde_json::from_slice(&answer.body).map_err(|error| {
            Unanswered::Wrong(format!("the server's list of {path} makes no sense: {error}"))
        })?;
        if list.len() > MOST {
            return Err(Unanswered::Wrong(format!("{path} has more than {MOST} files")));
        }
        let (mut wanted, mut has_changed) = (Vec::new(), false);
        make(directory).map_err(|error| local(directory, &error))?;
        for entry in &list {
            let relative = entry["relative_path"].as_str().unwrap_or_default();
            let is_inside = Path::new(relative)
                .components()
                .all(|part| matches!(part, std::path::Component::Normal(_) | std::path::Component::CurDir));
            if relative.is_empty() || relative == "." || !is_inside {
                continue;
            }
            let place = directory.join(relative);
            if entry["type"] == "directory" {
                make(&place).map_err(|error| local(&place, &error))?;
            } else {
                // What is the same already is not fetched again.
                let present = std::fs::read(&place).ok().map(|content| digest(&content));
                if present.is_none() || present.as_deref() != sum(entry) {
                    let content = self.content(&format!("{path}/{relative}"), environment).await?;
                    write(&place, &content).map_err(|error| local(&place, &error))?;
                    has_changed = true;
                }
                if permissions == Permissions::Executable {
                    has_changed |= set_executable(&place, entry).map_err(|error| local(&place, &error))?;
                }
            }
            wanted.push(place);
        }
        Ok(remove_others(directory, &wanted) || has_changed)
    }
}

fn compiled(catalogue: Value, received: Received, settings: &Settings) -> Compiled {
    let plugins = settings.plugins();
    let modulepath = plugins.parent().filter(|_| plugins.is_dir()).map(Path::to_owned).into_iter().collect();
    let modules = plugins.is_dir().then(|| ("plugins".to_owned(), plugins)).into_iter().collect();
    Compiled {
        modulepath,
        types: received.types,
        paths: received.paths,
        generated: received.generated,
        lookups: BTreeMap::new(),
        catalogue: received.catalogue.unwrap_or(catalogue),
        relations: received.relations,
        modules,
        files: Vec::new(),
        absent: Vec::new(),
        directories: Vec::new(),
        fact_directories: Vec::new(),
        seen: None,
        messages: Vec::new(),
    }
}

/// The checksum in what a server tells about a file.
fn sum(metadata: &Value) -> Option<&str> {
    let sum = metadata["checksum"]["value"].as_str()?.strip_prefix("{sha256}")?;
    (sum.len() == 64 && sum.bytes().all(|letter| letter.is_ascii_hexdigit())).then_some(sum)
}

/// The path of a `puppet:` address on the server.
fn address(source: &str) -> Option<String> {
    let rest = source.strip_prefix("puppet://")?;
    let (_, path) = rest.split_once('/')?;
    Some(path.trim_matches('/').to_owned())
}

/// What a server says when it says no.
fn refused(what: &str, answer: &Answer) -> Unanswered {
    let Answer { status, retry_after, body } = answer;
    let said: Value = serde_json::from_slice(body).unwrap_or_default();
    let text = String::from_utf8_lossy(body);
    let why = said["message"].as_str().unwrap_or_else(|| text.lines().next().unwrap_or_default());
    let why: String = why.chars().take(1000).collect();
    let why = format!("the Puppet server {what} (status {status}): {why}");
    match status {
        429 | 500..=599 => Unanswered::Unable(why, *retry_after),
        _ => Unanswered::Wrong(why),
    }
}

impl Unanswered {
    fn why(self) -> String {
        match self {
            Unanswered::OutOfReach(why) | Unanswered::Unable(why, _) | Unanswered::Wrong(why) => why,
        }
    }
}

fn local(path: &Path, error: &io::Error) -> Unanswered {
    Unanswered::Wrong(format!("{}: {error}", path.display()))
}

/// A moment as Puppet writes it.
fn moment(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Civil from days, counted in eras of 400 years that begin in March.
    let shifted = days + 719_468;
    let (era, day) = (shifted / 146_097, shifted % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (day, month) = (day - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    let year = year + era * 400 + u64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.000000000+00:00",
        rest / 3600,
        rest / 60 % 60,
        rest % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_those_of_the_calendar() {
        assert_eq!(moment(0), "1970-01-01T00:00:00.000000000+00:00");
        assert_eq!(moment(951_827_696), "2000-02-29T12:34:56.000000000+00:00");
        assert_eq!(moment(1_798_761_599), "2026-12-31T23:59:59.000000000+00:00");
    }

    #[test]
    fn addresses_name_what_is_on_the_server() {
        assert_eq!(address("puppet:///modules/m/f").as_deref(), Some("modules/m/f"));
        assert_eq!(address("puppet://host/modules/m/").as_deref(), Some("modules/m"));
        assert_eq!(address("/etc/x"), None);
    }
}
