//! `pippet`: a resource of Puppet, brought about by Puppet itself.
//!
//! One process of Puppet serves all resources with the same configuration, and ends with the last of them. Resources of one
//! type that run at the same time are given to it together: what a type looks at first, such as the list of all packages, is
//! looked at once. Each has an outcome of its own nevertheless.

mod worker;

use std::sync::atomic::Ordering;
use std::time::Duration;

use mgmt_puppet_process::{Applied, Apply, Change, Puppet, PuppetError};
use mgmt_resource::{Checked, Context, Effect, Error, Invalid, Kind, Nothing, Resource, Result, Watch};
use mgmt_value::{Secret, Str};
use serde_json::Value;

use crate::support::applied_often::AppliedOften;

/// Has Puppet bring a resource about.
///
/// This is for what has no kind of its own here. Puppet has to be installed; it is started once and kept. What Puppet
/// manages is looked at when the resource starts, when another one notifies it, when one of `watchfiles` changes, and every so often with
/// `interval`: Puppet has no events.
///
/// A resource that is notified is applied and then refreshed, if its type can be.
///
/// ```mcl
/// pippet "rake" {
///     type => "package",
///     title => "rake",
///     params => "{\"ensure\": \"installed\", \"provider\": \"gem\"}",
/// }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Resource)]
#[resource(kind = "pippet", refresh)]
pub struct Pippet {
    /// The type, `cron` for example.
    pub r#type: Str,
    /// The title.
    pub title: Str,
    /// The parameters: a map in JSON, in Puppet's form with rich data. Empty, there are none.
    #[field(secret)]
    pub params: Secret<Str>,
    /// Names of parameters that Puppet does not show.
    pub sensitive: Vec<Str>,
    /// Other resources that Puppet has to know of, and does not bring about: a list in JSON of maps with `type`, `title` and
    /// `parameters`. With `passive`, it is one that is nothing by itself, such as a schedule. Empty, there are none.
    #[field(secret)]
    pub context: Secret<Str>,
    /// Puppet's file of settings. Unset, it is the usual one.
    pub conf: Str,
    /// Puppet's settings by name, `modulepath` for example, as `NAME=VALUE`.
    pub settings: Vec<Str>,
    /// Absolute paths that Puppet makes or edits for this resource. Directories that are purged or tidied leave them alone. A `*` at the end stands
    /// for any ending. Empty, they are all absolute paths of the title and the parameters.
    pub paths: Vec<Str>,
    /// It may make files that `paths` does not name: below one of `paths`, or anywhere if there are none. Beside a manifest, a program purges and
    /// tidies nothing there.
    pub composes: bool,
    /// Files and directories whose change has Puppet look again. With a slash at the end, everything below counts too.
    pub watchfiles: Vec<Str>,
    /// Puppet looks again after so many seconds, besides after a change of `watchfiles`. 0 is never. A resource that every look changes is
    /// then looked at in this interval alone.
    pub interval: u32,
}

/// What is remembered of a resource.
#[derive(Debug, Default)]
pub struct PippetState {
    /// The process, from the first use on.
    worker: Option<worker::Worker>,
    often: AppliedOften,
}

/// Types that make no file that a parameter names.
const WITHOUT_FILES: [&str; 9] =
    ["cron", "group", "notify", "package", "resources", "schedule", "service", "tidy", "whit"];

/// Parameters that name paths which are read or run.
const READ: [&str; 11] = [
    "source",
    "sources",
    "cwd",
    "command",
    "refresh",
    "onlyif",
    "unless",
    "content",
    "provider",
    "shell",
    "validate_cmd",
];

/// How long Puppet may work on one resource. What takes longer is given up.
const PATIENCE: Duration = Duration::from_secs(3600);

impl Kind for Pippet {
    type State = PippetState;
    type Sends = Nothing;

    fn watches(&self, _: &Str) -> Vec<Watch> {
        let file = |path: &Str| Watch::Path { path: path.clone(), recursive: path.ends_with(b"/") };
        let interval = (self.interval > 0).then(|| Watch::Interval(self.interval()));
        self.watchfiles.iter().map(file).chain(interval).collect()
    }

    fn validate(&self, _: &Str) -> Result<(), Invalid> {
        for (field, text) in [("type", &self.r#type), ("title", &self.title)] {
            if text.is_empty() {
                return Err(Invalid::field(field, "is empty"));
            }
            if text.as_str().is_none() {
                return Err(Invalid::field(field, "is not UTF-8"));
            }
        }
        for setting in &self.settings {
            if !setting.contains(&b'=') || setting.as_str().is_none() {
                return Err(Invalid::field("settings", format!("expected `NAME=VALUE`, found {setting:?}")));
            }
        }
        if let Some(path) = self.paths.iter().find(|path| !path.starts_with(b"/")) {
            return Err(Invalid::field("paths", format!("expected absolute paths, found {path:?}")));
        }
        if context(self.context.reveal()).is_none() {
            return Err(Invalid::field("context", "expected a list of maps in JSON"));
        }
        if let Some(path) = self.watchfiles.iter().find(|path| !path.starts_with(b"/")) {
            return Err(Invalid::field("watchfiles", format!("expected absolute paths, found {path:?}")));
        }
        match parameters(self.params.reveal()) {
            Some(_) => Ok(()),
            None => Err(Invalid::field("params", "expected a map in JSON")
                .with_hint(r#"write `{}` for none, or `{"ensure": "present"}`"#)),
        }
    }

    async fn check_apply(&self, state: &mut PippetState, cx: &mut Context<'_>) -> Result<Checked> {
        if !cx.refresh && state.often.is_over(self.interval()) {
            return Ok(Checked::Right);
        }
        let puppet: Puppet = (**state.worker.get_or_insert_with(|| worker::shared(&self.settings()))).clone();
        let resource = self.request(cx.refresh)?;
        if cx.apply && cx.host.incomplete.load(Ordering::Acquire) {
            refuse_removals(&ask(&puppet, &resource, true, cx).await?)?;
        }
        let applied = ask(&puppet, &resource, !cx.apply, cx).await?;
        let checked = outcome(&applied, cx)?;
        if state.often.note(checked == Checked::Changed && cx.apply) && self.interval > 0 {
            cx.warn("every check changes it; it is checked once for each `interval` from now on");
        }
        Ok(checked)
    }

    fn claimed_paths(&self, _: &Str) -> Vec<Str> {
        if !self.paths.is_empty() || self.composes {
            return self.paths.clone();
        }
        let mut parameters = parameters(self.params.reveal()).unwrap_or_default();
        let mut texts = Vec::new();
        match self.r#type.as_bytes() {
            b"exec" => collect_texts(&parameters["creates"], &mut texts),
            b"user" => collect_texts(&parameters["home"], &mut texts),
            kind if WITHOUT_FILES.iter().any(|name| name.as_bytes() == kind) => {}
            _ => {
                // What a file is called comes first.
                collect_texts(&parameters["path"], &mut texts);
                texts.push(self.title.to_text().into_owned());
                if let Some(parameters) = parameters.as_object_mut() {
                    parameters.retain(|name, _| !READ.contains(&name.as_str()));
                }
                collect_texts(&parameters, &mut texts);
            }
        }
        let is_path = |text: &String| text.starts_with('/') && text.len() > 1 && !text.contains(['\n', '\0']);
        texts.into_iter().filter(is_path).map(Str::from).collect()
    }

    fn equivalent(&self, _: &Str, other: &Pippet) -> bool {
        let rest = |pippet: &Pippet| Pippet {
            params: Secret::default(),
            context: Secret::default(),
            ..pippet.clone()
        };
        // The order of keys and white space make no difference.
        rest(self) == rest(other)
            && parameters(self.params.reveal()) == parameters(other.params.reveal())
            && context(self.context.reveal()) == context(other.context.reveal())
    }
}

/// The parameters, if they are a map.
fn parameters(text: &[u8]) -> Option<Value> {
    match text.is_empty() {
        true => Some(Value::Object(serde_json::Map::new())),
        false => serde_json::from_slice(text).ok().filter(Value::is_object),
    }
}

/// Every text in a value.
fn collect_texts(value: &Value, into: &mut Vec<String>) {
    match value {
        Value::String(text) => into.push(text.clone()),
        Value::Array(list) => list.iter().for_each(|value| collect_texts(value, into)),
        Value::Object(map) => map.values().for_each(|value| collect_texts(value, into)),
        _ => {}
    }
}

/// The other resources, if they are a list of maps.
fn context(text: &[u8]) -> Option<Vec<Value>> {
    match text.is_empty() {
        true => Some(Vec::new()),
        false => {
            serde_json::from_slice::<Vec<Value>>(text).ok().filter(|list| list.iter().all(Value::is_object))
        }
    }
}

impl Pippet {
    fn interval(&self) -> Duration {
        Duration::from_secs(self.interval.into())
    }

    fn settings(&self) -> mgmt_puppet_process::Settings {
        let options = self.settings.iter().filter_map(|setting| {
            let (name, value) = setting.as_str()?.split_once('=')?;
            Some((name.to_owned(), value.to_owned()))
        });
        mgmt_puppet_process::Settings {
            configuration: (!self.conf.is_empty()).then(|| self.conf.as_path().to_owned()),
            options: options.collect(),
            installation: None,
        }
    }

    fn request(&self, refresh: bool) -> Result<Apply> {
        Ok(Apply {
            kind: self.r#type.to_text().into_owned(),
            title: self.title.to_text().into_owned(),
            parameters: parameters(self.params.reveal())
                .ok_or_else(|| Error::new("`params` is no map in JSON"))?,
            sensitive: self.sensitive.iter().map(|name| name.to_text().into_owned()).collect(),
            refresh,
            context: context(self.context.reveal())
                .ok_or_else(|| Error::new("`context` is no list in JSON"))?,
        })
    }
}

/// Has Puppet apply a resource, or look at it.
async fn ask(puppet: &Puppet, resource: &Apply, noop: bool, cx: &Context<'_>) -> Result<Applied> {
    tokio::select! {
        applied = puppet.apply_one(resource, noop, PATIENCE) => applied.map_err(|error| failure(&error)),
        () = cx.cancel.interrupted() => Err(Error::Cancelled),
    }
}

/// Fails if something would be removed that the resource is not about: for no other reason than that nobody declares it.
fn refuse_removals(foreseen: &Applied) -> Result<()> {
    let is_removal = |change: &&Change| {
        change.generated && change.after.is_none() && change.property.as_deref() == Some("ensure")
    };
    match foreseen.changes.iter().find(is_removal) {
        None => Ok(()),
        Some(Change { resource, .. }) => Err(Error::new(format_args!(
            "not applied, as it would remove {resource}: part of the program has no value yet, and may declare it"
        ))),
    }
}

fn outcome(applied: &Applied, cx: &Context<'_>) -> Result<Checked> {
    if applied.failed {
        let reason = match applied.errors.is_empty() {
            true => "Puppet did not say why".to_owned(),
            false => applied.errors.join("; "),
        };
        return Err(Error::new(format_args!("Puppet failed: {reason}")));
    }
    for warning in &applied.warnings {
        cx.warn(warning);
    }
    // What is only audited is told although it is nothing that is brought about.
    for message in &applied.messages {
        cx.info(message);
    }
    if !applied.changed && !applied.would_change {
        return Ok(Checked::Right);
    }
    for change in &applied.changes {
        cx.describe(effect(change).presumed());
    }
    Ok(Checked::Changed)
}

fn effect(change: &Change) -> Effect {
    let is_all = change.property.as_deref().is_none_or(|property| property == "ensure");
    let effect = match (&change.before, &change.after) {
        (_, Some(after)) if is_all && after == "absent" => return Effect::remove(&change.resource),
        (None, Some(_)) if is_all && !change.redacted => return Effect::create(&change.resource),
        _ => Effect::change(&change.resource),
    };
    let effect = match &change.property {
        Some(property) => effect.aspect(property.clone()),
        None => effect,
    };
    if change.redacted {
        return effect.secret();
    }
    let effect = match &change.before {
        Some(before) => effect.before(before),
        None => effect,
    };
    match &change.after {
        Some(after) => effect.after(after),
        None => effect,
    }
}

fn failure(error: &PuppetError) -> Error {
    let failed = Error::new(error);
    match error.hint() {
        Some(hint) => failed.with_hint(hint),
        None => failed,
    }
}
