//! One resource being translated: what was said about it, what has been understood, and what could not be.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mgmt_resource::{Loudness, Meta, Registry, Resource, Spec};
use mgmt_value::{Native, Str, Value};

use super::claims::Claims;
use super::looked::Looked;
use super::schedule;
use crate::catalogue::{Catalogue, Declared};
use crate::data::Data;

/// A resource in translation. A rule reads parameters, which marks them as understood, and sets fields of a kind of ours.
/// Whatever nobody has read in the end is a reason to leave the resource to Puppet.
pub(super) struct Rule<'a> {
    pub(super) declared: &'a Declared,
    pub(super) around: &'a Around<'a>,
    /// The name of our resource.
    pub(super) name: Str,
    pub(super) meta: Meta,
    taken: HashSet<&'a str>,
    fields: Vec<(&'static str, Value)>,
    reasons: Vec<Reason>,
    /// What is different from Puppet although it is one of ours.
    notes: Vec<Reason>,
    /// Parameters that may be secrets: our kind shows them to nobody.
    hidden: HashSet<&'a str>,
    /// What Puppet has to know of besides, if it is left to it: positions in the catalogue.
    context: Vec<usize>,
    /// Paths below it that others make or edit, should it be left to Puppet.
    spared: Vec<String>,
    /// Why nobody can bring it about, and Puppet would refuse it as well.
    wrong: Option<String>,
}

/// What a rule may look at besides its resource.
pub(super) struct Around<'a> {
    pub(super) catalogue: &'a Catalogue,
    /// Which paths its resources make or edit.
    pub(super) claims: &'a Claims,
    /// Only resources with one of these tags are brought about; all of them, if there is none.
    pub(super) tags: &'a [String],
    /// Resources with one of these tags are not.
    pub(super) skip_tags: &'a [String],
    pub(super) registry: &'a Registry,
    /// Where each module is.
    pub(super) modules: &'a BTreeMap<String, PathBuf>,
    /// Seconds between two looks at what has no events.
    pub(super) interval: i32,
    /// Where Puppet keeps old contents of files.
    pub(super) bucket: &'a Path,
    /// Nothing is changed, unless a resource says otherwise.
    pub(super) noop: bool,
    /// Files with authorities that are trusted for HTTPS, besides those of the host. They need not be there.
    pub(super) authorities: &'a [PathBuf],
    /// Puppet fetches what is at an address through a proxy.
    pub(super) proxied: bool,
    /// Schedules count.
    pub(super) schedules: bool,
    /// Everything is left to Puppet.
    pub(super) puppet_only: bool,
    /// Where programs of this host are.
    pub(super) programs: &'a [PathBuf],
    /// A file that is there if SELinux is on.
    pub(super) selinux: &'a Path,
    /// Whether `augtool` is among them, once somebody has asked.
    pub(super) augtool: OnceCell<bool>,
    /// What rules have looked at on this host.
    pub(super) looked: RefCell<Vec<Looked>>,
}

impl Around<'_> {
    /// Whether a resource is only looked at. What it says itself counts more than what is said of all.
    pub(super) fn is_noop(&self, declared: &Declared) -> bool {
        declared.get("noop").and_then(Data::truth).unwrap_or(self.noop)
    }

    /// Why a resource is not brought about, if its tags say so.
    pub(super) fn left_out(&self, declared: &Declared) -> Option<String> {
        let has = |tag: &&String| declared.tags.iter().any(|found| found.eq_ignore_ascii_case(tag));
        match self.skip_tags.iter().find(has) {
            Some(tag) => Some(format!("it is tagged with {tag}")),
            None if self.tags.is_empty() || self.tags.iter().any(|tag| has(&tag)) => None,
            None => Some(format!("it is not tagged with {}", self.tags.join(" or "))),
        }
    }

    /// The path in this host's file system that a source means, if it means one.
    pub(super) fn local_source(&self, source: &str) -> Option<PathBuf> {
        if let Some(path) = source.strip_prefix("puppet:///modules/") {
            let (module, path) = path.split_once('/')?;
            return Some(self.modules.get(module)?.join("files").join(path));
        }
        let path = source.strip_prefix("file://").unwrap_or(source);
        path.starts_with('/').then(|| Path::new(path).to_owned())
    }

    /// A resource because of which a directory is not purged: it may make files below it of which nobody knows. If everything is left to Puppet, so
    /// is what it purges.
    pub(super) fn unknown_below(&self, directory: &str) -> Option<usize> {
        self.claims.unknown_below(directory).filter(|_| !self.puppet_only)
    }

    /// Whether this host has the program that edits files of many formats.
    pub(super) fn has_augtool(&self) -> bool {
        *self.augtool.get_or_init(|| {
            let mut looked = self.looked.borrow_mut();
            let mut paths = self.programs.iter().map(|directory| directory.join("augtool"));
            paths.any(|path| {
                looked.push(Looked::for_presence(&path));
                path.is_file()
            })
        })
    }

    /// When a resource may run. `Err`: why only Puppet knows.
    pub(super) fn window(&self, declared: &Declared) -> Result<Vec<Str>, String> {
        if self.schedules { schedule::window(declared, self.catalogue) } else { Ok(Vec::new()) }
    }
}

/// Why a resource cannot be one of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// The parameter that it is about, if it is about one.
    pub parameter: Option<String>,
    /// Why.
    pub why: String,
}

/// What holds for resources of every type.
const FOR_ALL: [&str; 10] =
    ["require", "before", "notify", "subscribe", "tag", "alias", "loglevel", "noop", "stage", "schedule"];

impl<'a> Rule<'a> {
    pub(super) fn new(declared: &'a Declared, around: &'a Around<'a>) -> Rule<'a> {
        let noop = around.is_noop(declared);
        let (window, unknown) = match around.window(declared) {
            Ok(window) => (window, None),
            Err(why) => (Vec::new(), Some(Reason { parameter: Some("schedule".to_owned()), why })),
        };
        Rule {
            declared,
            around,
            name: declared.title.as_str().into(),
            meta: Meta { noop, window, ..Meta::default() },
            taken: HashSet::new(),
            fields: Vec::new(),
            reasons: unknown.into_iter().collect(),
            notes: Vec::new(),
            hidden: HashSet::new(),
            context: Vec::new(),
            spared: Vec::new(),
            wrong: None,
        }
    }

    /// A parameter, if it is given.
    pub(super) fn take(&mut self, parameter: &'a str) -> Option<&'a Data> {
        self.taken.insert(parameter);
        self.declared.get(parameter)
    }

    /// A parameter that is one text.
    pub(super) fn text(&mut self, parameter: &'a str) -> Option<String> {
        let value = self.take(parameter)?;
        let text = value.text();
        if text.is_none() {
            self.cannot(parameter, "is not a text");
        }
        text
    }

    /// A parameter that is a text or a list of texts.
    pub(super) fn texts(&mut self, parameter: &'a str) -> Option<Vec<String>> {
        let value = self.take(parameter)?;
        let texts = value.texts();
        if texts.is_none() {
            self.cannot(parameter, "is not a list of texts");
        }
        texts
    }

    /// A parameter that is true or false.
    pub(super) fn truth(&mut self, parameter: &'a str) -> Option<bool> {
        let value = self.take(parameter)?;
        let truth = value.truth();
        if truth.is_none() {
            self.cannot(parameter, "is neither true nor false");
        }
        truth
    }

    /// A parameter that is a whole number.
    pub(super) fn integer(&mut self, parameter: &'a str) -> Option<i64> {
        let value = self.take(parameter)?;
        let number = value.integer();
        if number.is_none() {
            self.cannot(parameter, "is not a whole number");
        }
        number
    }

    /// Parameters that make no difference here.
    pub(super) fn accept(&mut self, parameters: &[&'a str]) {
        self.taken.extend(parameters);
    }

    /// A parameter that makes no difference if it is one of these words.
    pub(super) fn accept_if(&mut self, parameter: &'a str, words: &[&str]) {
        if let Some(value) = self.text(parameter)
            && !words.contains(&value.as_str())
        {
            self.cannot(parameter, format!("only {} is the same here", words.join(" or ")));
        }
    }

    /// Says that our kind shows a parameter to nobody. Gives whether it is a secret.
    pub(super) fn hide(&mut self, parameter: &'a str) -> bool {
        self.hidden.insert(parameter);
        self.is_secret(parameter)
    }

    /// Says the same of several.
    pub(super) fn hide_all(&mut self, parameters: &[&'a str]) {
        self.hidden.extend(parameters);
    }

    /// Whether nobody is to see it.
    pub(super) fn is_secret(&self, parameter: &str) -> bool {
        let named = self.declared.sensitive.iter().any(|name| name == parameter);
        named || self.declared.get(parameter).is_some_and(Data::is_secret)
    }

    /// Sets a field of our kind.
    pub(super) fn set(&mut self, field: &'static str, value: impl Native) {
        self.fields.push((field, value.to_value()));
    }

    /// Sets a field to a value.
    pub(super) fn set_value(&mut self, field: &'static str, value: Value) {
        self.fields.push((field, value));
    }

    /// Sets a field to a text, if there is one.
    pub(super) fn carry(&mut self, parameter: &'a str, field: &'static str) {
        if let Some(text) = self.text(parameter) {
            self.set(field, Str::from(text));
        }
    }

    /// Says why this cannot be one of ours.
    pub(super) fn cannot(&mut self, parameter: &str, why: impl Into<String>) {
        self.reasons.push(Reason { parameter: Some(parameter.to_owned()), why: why.into() });
    }

    /// Says why this cannot be one of ours, whatever its parameters are.
    pub(super) fn cannot_at_all(&mut self, why: impl Into<String>) {
        self.reasons.push(Reason { parameter: None, why: why.into() });
    }

    /// Says why nobody can bring it about: Puppet refuses a catalogue with it.
    pub(super) fn is_wrong(&mut self, why: String) {
        self.wrong.get_or_insert(why);
    }

    /// Says that the translation depends on whether this is there.
    pub(super) fn looks_for(&self, path: &Path) {
        self.around.looked.borrow_mut().push(Looked::for_presence(path));
    }

    /// Reads a file, on whose content the translation depends.
    pub(super) fn read(&self, path: &Path) -> Option<Vec<u8>> {
        self.around.looked.borrow_mut().push(Looked::for_content(path));
        std::fs::read(path).ok()
    }

    /// Says what is different here, although the state is the same.
    pub(super) fn note(&mut self, parameter: &str, why: impl Into<String>) {
        self.notes.push(Reason { parameter: Some(parameter.to_owned()), why: why.into() });
    }

    /// Says which other resources Puppet has to know of, should it be left to it. Alone, it would take for unmanaged what
    /// others manage.
    pub(super) fn needs_to_know(&mut self, of: impl Fn(&Declared) -> bool) {
        let others = self.around.catalogue.resources.iter().enumerate();
        self.context.extend(others.filter(|(_, declared)| of(declared)).map(|(at, _)| at));
    }

    /// Says which paths are not to be removed although no `file` of the catalogue is there, should it be left to Puppet.
    pub(super) fn spares(&mut self, paths: impl Iterator<Item = String>) {
        self.spared.extend(paths);
    }

    /// The path in this host's file system that a source means, if it means one.
    pub(super) fn local_source(&self, source: &str) -> Option<PathBuf> {
        self.around.local_source(source)
    }

    /// Makes the resource, or tells why there is none.
    pub(super) fn finish(mut self, kind: &'static str) -> Result<(Spec, Vec<Reason>), Unfit> {
        if let Some(why) = self.wrong {
            return Err(Unfit::Wrong(why));
        }
        if self.around.puppet_only {
            self.reasons.push(Reason { parameter: None, why: "everything is to be".to_owned() });
        }
        for (parameter, value) in &self.declared.parameters {
            let understood = self.taken.contains(parameter.as_str()) || FOR_ALL.contains(&parameter.as_str());
            if !understood && *value != Data::Undef {
                let why = "has no counterpart".to_owned();
                self.reasons.push(Reason { parameter: Some(parameter.clone()), why });
            } else if self.is_secret(parameter) && !self.hidden.contains(parameter.as_str()) {
                let why = "is a secret, which would be told with what is done".to_owned();
                self.reasons.push(Reason { parameter: Some(parameter.clone()), why });
            }
        }
        if self.reasons.is_empty()
            && let Some(resource) = self.build(kind)
        {
            let mut spec = Spec::of(self.name, resource);
            spec.meta = self.meta.into();
            spec.origin = self.declared.origin.clone();
            spec.loudness = loudness(self.declared);
            return Ok((spec, self.notes));
        }
        Err(Unfit::Wanting(Wanting { reasons: self.reasons, context: self.context, spared: self.spared }))
    }

    fn build(&mut self, kind: &'static str) -> Option<Arc<dyn Resource>> {
        let Some(schema) = self.around.registry.get(kind) else {
            let why = format!("this program has no kind `{kind}`");
            self.reasons.push(Reason { parameter: None, why });
            return None;
        };
        let mut resource = (schema.make)();
        for (field, value) in &self.fields {
            if let Some(Err(mismatch)) = resource.set(field, value) {
                self.reasons.push(Reason {
                    parameter: None,
                    why: format!("`{kind}` has no such `{field}`: {mismatch}"),
                });
            }
        }
        let valid =
            resource.validate(&self.name).map_err(|invalid| format!("`{kind}` refuses it: {invalid}"));
        let meta = self.meta.validate().map_err(|invalid| format!("a metaparameter is refused: {invalid}"));
        for why in [valid, meta].into_iter().filter_map(Result::err) {
            self.reasons.push(Reason { parameter: None, why });
        }
        self.reasons.is_empty().then(|| Arc::from(resource))
    }
}

/// Why there is no resource of ours.
pub(super) enum Unfit {
    /// It cannot be brought about at all.
    Wrong(String),
    /// It is left to Puppet.
    Wanting(Wanting),
}

/// Why something is left to Puppet, and what it has to know of then.
pub(super) struct Wanting {
    pub(super) reasons: Vec<Reason>,
    pub(super) context: Vec<usize>,
    /// Paths that it must not remove, each with all below it.
    pub(super) spared: Vec<String>,
}

/// The level at which a change is told. A message has it as its priority, and that it was given is told as usual.
pub(super) fn loudness(declared: &Declared) -> Loudness {
    let level = declared.get("loglevel").and_then(Data::text).filter(|_| declared.kind != "Notify");
    match level.as_deref() {
        Some("debug") => Loudness::Debug,
        Some("warning") => Loudness::Warning,
        Some("err" | "alert" | "emerg" | "crit") => Loudness::Error,
        _ => Loudness::Info,
    }
}

/// A word for a shell that means exactly this text.
pub(super) fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}
