//! From a catalogue to a resource graph.

mod account;
mod augeas;
mod claims;
mod concat;
mod context;
mod cron;
mod exec;
mod file;
mod looked;
mod package;
mod rule;
mod schedule;
mod service;
mod small;
mod text;
mod tidy;
mod watched;

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use mgmt_diagnostics::Severity;
use mgmt_graph::NodeId;
use mgmt_puppet_process::{Compiled, TypeFacts};
use mgmt_resource::{Edge, Id, Meta, Origin, Registry, ResourceGraph, Spec};
use mgmt_value::{Native as _, Str};

use crate::catalogue::{Catalogue, Declared, squeezed};
use crate::codes;
use crate::conflict::{Writers, file_path};
use crate::diagnostic::{Diagnostic, of_message};
use crate::relations::{Relations, Vertex, relate};
use claims::Claims;
use context::PASSIVE;
use rule::{Around, Rule, Unfit, Wanting, loudness};

pub(crate) use claims::is_below;
pub(crate) use context::spared_path;
pub use looked::Looked;
pub use rule::Reason;

/// What came of a catalogue.
#[derive(Debug)]
pub struct Translated {
    /// The graph, if nothing is wrong. Warnings and notes may stand beside it.
    pub graph: Option<ResourceGraph>,
    /// The name of the host that it is for.
    pub name: String,
    /// What became of each resource that is more than a container.
    pub decisions: Vec<Decision>,
    /// What there is to tell.
    pub diagnostics: Vec<Diagnostic>,
    /// What it depends on besides what was compiled: sources that were read or looked for on this host.
    pub looked: Vec<Looked>,
}

/// What became of a resource.
#[derive(Clone, Debug)]
pub struct Decision {
    /// The resource, as a reference.
    pub reference: String,
    /// Its type, in lower case.
    pub kind: String,
    /// Where it was declared.
    pub origin: Option<Origin>,
    /// What it is now.
    pub outcome: Outcome,
}

/// What a resource is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// One of our kinds, and what is not quite the same.
    Native(&'static str, Vec<Reason>),
    /// Something that does nothing by itself: a fragment, a schedule, an anchor. It is in the order of things.
    Passive,
    /// Puppet brings it about, for these reasons.
    Puppet(Vec<Reason>),
    /// Nobody does, for these reasons.
    Refused(Vec<Reason>),
    /// Nobody is to, by its tags.
    LeftOut(Vec<Reason>),
}

/// How to translate.
#[derive(Clone, Debug)]
pub struct TranslateOptions {
    /// What is left to Puppet, and what it warns of, are errors.
    pub strict: bool,
    /// Puppet's file of settings, if not the usual one.
    pub configuration: Option<PathBuf>,
    /// Puppet's settings by name, for what is left to it.
    pub settings: Vec<(String, String)>,
    /// In which order resources come that have none of their own.
    pub ordering: Ordering,
    /// How often to look at what has no events, in seconds.
    pub interval: u64,
    /// What to call a text that is in no file.
    pub inline: Arc<str>,
    /// Where Puppet keeps old contents of files.
    pub bucket: PathBuf,
    /// Nothing is changed, unless a resource says otherwise.
    pub noop: bool,
    /// Only resources with one of these tags are brought about; all of them, if there is none.
    pub tags: Vec<String>,
    /// Resources with one of these tags are not.
    pub skip_tags: Vec<String>,
    /// Files with authorities that are trusted for HTTPS, besides those of the host. They need not be there.
    pub authorities: Vec<PathBuf>,
    /// Puppet fetches what is at an address through a proxy.
    pub proxied: bool,
    /// Resources with a schedule are brought about when it allows that, and not always.
    pub schedules: bool,
    /// Everything is left to Puppet.
    pub puppet_only: bool,
    /// Where programs of this host are, on which some kinds depend.
    pub programs: Vec<PathBuf>,
    /// A file that is there if SELinux is on.
    pub selinux: PathBuf,
}

/// Where the kinds look for programs, too.
const PROGRAMS: [&str; 6] = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// In which order resources come that have none of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ordering {
    /// In any, and at the same time.
    #[default]
    Related,
    /// One after the other, as they are written.
    Manifest,
}

impl Default for TranslateOptions {
    fn default() -> TranslateOptions {
        TranslateOptions {
            strict: false,
            configuration: None,
            settings: Vec::new(),
            ordering: Ordering::default(),
            interval: 1800,
            inline: Arc::from("code"),
            bucket: PathBuf::from("/var/cache/puppet/clientbucket"),
            noop: false,
            tags: Vec::new(),
            skip_tags: Vec::new(),
            authorities: Vec::new(),
            proxied: false,
            schedules: true,
            puppet_only: false,
            programs: PROGRAMS.map(PathBuf::from).into(),
            selinux: PathBuf::from("/sys/fs/selinux/enforce"),
        }
    }
}

/// Reads a parameter after the other and gives the kind.
type Translate = for<'a> fn(&mut Rule<'a>) -> &'static str;

/// The types that have a kind of ours.
const TYPES: &[(&str, Translate)] = &[
    ("Anchor", small::passive),
    ("Augeas", augeas::augeas),
    ("Concat_file", concat::concat_file),
    ("Concat_fragment", small::passive),
    ("Cron", cron::cron),
    ("Debconf", text::debconf),
    ("Exec", exec::exec),
    ("File", file::file),
    ("File_line", text::file_line),
    ("Filebucket", small::passive),
    ("Group", account::group),
    ("Host", small::host),
    ("Ini_setting", text::ini_setting),
    ("Ini_subsetting", text::ini_subsetting),
    ("Mount", small::mount),
    ("Notify", small::notify),
    ("Package", package::package),
    ("Schedule", small::passive),
    ("Service", service::service),
    ("Ssh_authorized_key", small::ssh_authorized_key),
    ("Sshkey", small::sshkey),
    ("Tidy", tidy::tidy),
    ("User", account::user),
];

/// Whether a resource has a type with a kind of ours, which claims what it makes.
fn has_rule(declared: &Declared) -> bool {
    TYPES.iter().any(|(kind, _)| *kind == declared.kind)
}

/// The parameters that mean something only among all other resources.
const RELATIVE: &[&str] = &["require", "before", "notify", "subscribe", "alias", "stage", "noop"];

/// Makes a resource graph of what was compiled.
pub fn translate(compiled: &Compiled, registry: &Registry, options: &TranslateOptions) -> Translated {
    let mut diagnostics: Vec<Diagnostic> =
        compiled.messages.iter().filter_map(|message| of_message(message, &options.inline)).collect();
    // What went wrong and was no reason to give up is only worth a warning.
    for diagnostic in &mut diagnostics {
        diagnostic.severity = diagnostic.severity.max(Severity::Warning);
    }
    let catalogue = match Catalogue::new(&compiled.catalogue, &options.inline) {
        Ok(catalogue) => catalogue,
        Err(why) => {
            diagnostics.push(Diagnostic::error(why).with_code(codes::NO_CATALOGUE));
            return Translated {
                graph: None,
                name: String::new(),
                decisions: Vec::new(),
                diagnostics,
                looked: Vec::new(),
            };
        }
    };
    let relations = relate(&catalogue, &compiled.relations);
    let claims = Claims::new(&catalogue, compiled);
    let modulepath: Vec<String> = match compiled.modules.is_empty() {
        true => Vec::new(),
        false => compiled.modulepath.iter().map(|directory| directory.display().to_string()).collect(),
    };
    let around = Around {
        catalogue: &catalogue,
        claims: &claims,
        tags: &options.tags,
        skip_tags: &options.skip_tags,
        registry,
        modules: &compiled.modules,
        interval: i32::try_from(options.interval).unwrap_or(i32::MAX),
        bucket: &options.bucket,
        noop: options.noop,
        authorities: &options.authorities,
        proxied: options.proxied,
        schedules: options.schedules,
        puppet_only: options.puppet_only,
        programs: &options.programs,
        selinux: &options.selinux,
        augtool: OnceCell::new(),
        looked: RefCell::default(),
    };
    let mut translating = Translating {
        around: &around,
        options,
        modulepath: modulepath.join(":"),
        graph: ResourceGraph::new(),
        names: HashMap::new(),
        decisions: Vec::new(),
        diagnostics,
        types: &compiled.types,
    };
    translating.add_all(&relations);
    let Translating { graph, decisions, mut diagnostics, .. } = translating;
    let writers = Writers::of(&graph);
    diagnostics.extend(writers.against(&writers));
    drop(writers);
    if options.strict {
        for diagnostic in &mut diagnostics {
            diagnostic.severity = Severity::Error;
        }
    }
    let is_right = diagnostics.iter().all(|diagnostic| !diagnostic.is_error());
    let looked = around.looked.into_inner();
    Translated { graph: is_right.then_some(graph), name: catalogue.name, decisions, diagnostics, looked }
}

struct Translating<'a> {
    around: &'a Around<'a>,
    options: &'a TranslateOptions,
    modulepath: String,
    graph: ResourceGraph,
    names: HashMap<Id, usize>,
    decisions: Vec<Decision>,
    diagnostics: Vec<Diagnostic>,
    /// What is known of types that come from modules.
    types: &'a BTreeMap<String, TypeFacts>,
}

impl Translating<'_> {
    fn add_all(&mut self, relations: &Relations) {
        let catalogue = self.around.catalogue;
        let mut nodes: HashMap<Vertex, NodeId> = HashMap::new();
        let mut files: HashMap<String, usize> = HashMap::new();
        for &vertex in &relations.vertices {
            let spec = match vertex {
                Vertex::Resource(at) => self.resource(at, &catalogue.resources[at]),
                Vertex::Begin(at) | Vertex::End(at) => self.marker(vertex, &catalogue.resources[at]),
            };
            let Some(spec) = spec else { continue };
            if let Some(&other) = self.names.get(&spec.id) {
                self.same(vertex.position(), other, &spec.id);
                continue;
            }
            self.names.insert(spec.id.clone(), vertex.position());
            if let Some(path) = file_path(&spec) {
                let first = *files.entry(path.clone()).or_insert(vertex.position());
                if first != vertex.position() {
                    self.same(vertex.position(), first, &path);
                }
            }
            nodes.insert(vertex, self.graph.add_node(spec));
        }
        for edge in &relations.edges {
            if let (Some(&from), Some(&to)) = (nodes.get(&edge.from), nodes.get(&edge.to)) {
                self.graph.set_edge(from, to, Edge { notify: edge.notify });
            }
        }
        for broken in &relations.broken {
            let declared = &catalogue.resources[broken.at];
            let message = format!(
                "{declared}: `{}` names {}, which is not in the catalogue",
                broken.parameter, broken.reference
            );
            let diagnostic = Diagnostic::error(message).with_code(codes::BROKEN);
            self.diagnostics.push(diagnostic.at(declared.origin.clone()));
        }
        self.tell_unknown_purges();
        self.refuse_cycles();
        if self.options.ordering == Ordering::Manifest {
            self.chain(&nodes);
        }
    }

    /// Nothing is purged where something may make files of which nobody knows before it has run.
    fn tell_unknown_purges(&mut self) {
        let catalogue = self.around.catalogue;
        let is_tidy = |declared: &Declared| declared.kind == "Tidy";
        let removing = catalogue.resources.iter();
        for declared in removing.filter(|declared| file::purges(declared) || is_tidy(declared)) {
            let directory = squeezed(&declared.subject());
            let Some(maker) = self.around.unknown_below(&directory) else { continue };
            let maker = &catalogue.resources[maker];
            let place = maker.origin.as_ref().map_or_else(String::new, |origin| format!(" ({origin})"));
            let (done, hint) = match is_tidy(declared) {
                true => ("tidied", "tidy another directory, or leave both to `puppet apply`"),
                false => ("purged", "manage the directory without `purge`, or leave both to `puppet apply`"),
            };
            let message = format!(
                "{declared} is not {done}: {maker}{place} may make files below it that are not known before it is applied"
            );
            let diagnostic = Diagnostic::warning(message).with_code(codes::NOT_PURGED);
            self.diagnostics.push(diagnostic.at(declared.origin.clone()).hint(hint));
        }
    }

    /// Has resources come one after the other, as they are written, as far as what is said about their order allows.
    fn chain(&mut self, nodes: &HashMap<Vertex, NodeId>) {
        let vertex_of: HashMap<NodeId, Vertex> =
            nodes.iter().map(|(vertex, node)| (*node, *vertex)).collect();
        let mut waits_for: HashMap<NodeId, usize> =
            vertex_of.keys().map(|node| (*node, self.graph.predecessors(*node).count())).collect();
        let free = waits_for.iter().filter(|(_, count)| **count == 0);
        // What is written first goes first of all that could. The end of a container is there as soon as it can.
        let mut ready: BTreeSet<(usize, NodeId)> =
            free.map(|(node, _)| (vertex_of[node].position(), *node)).collect();
        let mut last: Option<NodeId> = None;
        while let Some((_, node)) = ready.pop_first() {
            if matches!(vertex_of[&node], Vertex::Resource(_))
                && let Some(before) = last.replace(node)
                && self.graph.edge(before, node).is_none()
            {
                self.graph.set_edge(before, node, Edge::ORDER);
            }
            let after: Vec<NodeId> = self.graph.successors(node).map(|(to, _)| to).collect();
            for to in after {
                let Some(count) = waits_for.get_mut(&to) else { continue };
                *count -= 1;
                if *count == 0 {
                    ready.insert((vertex_of[&to].position(), to));
                }
            }
        }
    }

    /// One end of a container. A notification goes through it.
    fn marker(&mut self, vertex: Vertex, declared: &Declared) -> Option<Spec> {
        let schema = self.around.registry.get("noop")?;
        let mut resource = (schema.make)();
        // It is a field of the kind, and takes a truth.
        let _ = resource.set("forward", &true.to_value());
        let mut spec = Spec::of(Str::from(vertex.name(self.around.catalogue)), Arc::from(resource));
        spec.meta = Meta { autogroup: false, ..Meta::default() }.into();
        spec.origin = declared.origin.clone();
        Some(spec)
    }

    /// Why a resource is none of our business. Whatever it would do, it is still in the order of things.
    fn left_out(&mut self, at: usize, declared: &Declared) -> Option<Spec> {
        let why = self.around.left_out(declared).or_else(|| self.not_tidied(declared))?;
        self.decide(declared, Outcome::LeftOut(vec![Reason { parameter: None, why }]));
        let schema = self.around.registry.get("noop")?;
        let mut spec = Spec::of(Str::from(declared.to_string()), Arc::from((schema.make)()));
        spec.meta = Meta { autogroup: false, ..Meta::default() }.into();
        spec.origin = declared.origin.clone();
        Some(self.claiming(at, spec))
    }

    /// Why a directory is not tidied.
    fn not_tidied(&self, declared: &Declared) -> Option<String> {
        let unknown = || self.around.unknown_below(&squeezed(&declared.subject()));
        let maker = (declared.kind == "Tidy").then(unknown).flatten()?;
        Some(format!("{} may make files there", self.around.catalogue.resources[maker]))
    }

    /// The same with the paths of the resource that its fields do not name, so that nobody purges them.
    fn claiming(&self, at: usize, mut spec: Spec) -> Spec {
        let claimed: Vec<String> = spec.resource.claimed_paths(&spec.id.name).iter().map(clean).collect();
        let missing = self.around.claims.of(at).iter().filter(|path| !claimed.contains(path));
        let missing: Vec<Str> = missing.map(|path| Str::from(path.as_str())).collect();
        if !missing.is_empty() && matches!(spec.id.kind, "exec" | "noop") {
            let mut resource = spec.resource.boxed_clone();
            // Both kinds have the field, of this type.
            let _ = resource.set("paths", &missing.to_value());
            spec.resource = Arc::from(resource);
        }
        spec
    }

    fn resource(&mut self, at: usize, declared: &Declared) -> Option<Spec> {
        if let Some(spec) = self.left_out(at, declared) {
            return Some(spec);
        }
        let translate = TYPES.iter().find(|(kind, _)| *kind == declared.kind);
        let wanting = match translate {
            Some((_, translate)) => {
                let mut rule = Rule::new(declared, self.around);
                let kind = translate(&mut rule);
                match rule.finish(kind) {
                    Ok((spec, notes)) => {
                        self.tell_losses(declared, &notes);
                        let is_passive = PASSIVE.contains(&declared.kind.as_str());
                        let outcome =
                            if is_passive { Outcome::Passive } else { Outcome::Native(kind, notes) };
                        self.decide(declared, outcome);
                        return Some(self.claiming(at, spec));
                    }
                    Err(Unfit::Wrong(why)) => {
                        self.refuse(declared, &why);
                        return None;
                    }
                    Err(Unfit::Wanting(wanting)) => wanting,
                }
            }
            None => Wanting {
                reasons: vec![Reason { parameter: None, why: "no kind does the same".to_owned() }],
                context: context::of_unknown(declared, self.around.catalogue, self.types),
                spared: Vec::new(),
            },
        };
        self.through_puppet(at, declared, wanting)
    }

    /// Whatever is different, although it is one of ours.
    fn tell_losses(&mut self, declared: &Declared, notes: &[Reason]) {
        if notes.is_empty() {
            return;
        }
        let what: Vec<String> = notes.iter().map(Reason::to_string).collect();
        let message = format!("{declared} is not quite the same: {}", what.join("; "));
        self.diagnostics.push(Diagnostic::note(message).with_code(codes::LOSS).at(declared.origin.clone()));
    }

    fn through_puppet(&mut self, at: usize, declared: &Declared, wanting: Wanting) -> Option<Spec> {
        let Wanting { reasons, context, spared } = wanting;
        let schema = self.around.registry.get("pippet")?;
        let mut resource = (schema.make)();
        let mut parameters = declared.raw.as_object().cloned().unwrap_or_default();
        let window = self.around.window(declared);
        // What we do not understand of schedules, Puppet does.
        let ours = |name: &str| RELATIVE.contains(&name) || (name == "schedule" && window.is_ok());
        parameters.retain(|name, _| !ours(name));
        context::spare_unknown(declared, self.around, &mut parameters);
        let named: &[_] = if window.is_ok() { &context::NAMED[1..] } else { &context::NAMED };
        let context = context::text(declared, &context, &spared, named, self.around, self.types);
        let texts =
            |list: &[String]| list.iter().map(|text| Str::from(text.as_str())).collect::<Vec<_>>().to_value();
        let path = Some(self.modulepath.as_str()).filter(|path| !path.is_empty());
        let given = self.options.settings.iter().filter(|(name, _)| path.is_none() || name != "modulepath");
        let given = given.map(|(name, value)| format!("{name}={value}"));
        let settings: Vec<String> = given.chain(path.map(|path| format!("modulepath={path}"))).collect();
        let configuration = self.options.configuration.as_ref().map(|file| file.display().to_string());
        let mut claimed = self.around.claims.of(at).to_vec();
        if self.around.claims.is_unknown(at) && !claimed.is_empty() {
            claimed.push("/".to_owned());
        }
        let fields = [
            ("type", Str::from(declared.type_name()).to_value()),
            ("title", Str::from(declared.title.as_str()).to_value()),
            ("params", Str::from(serde_json::Value::Object(parameters).to_string()).to_value()),
            ("sensitive", texts(&declared.sensitive)),
            ("context", Str::from(context).to_value()),
            ("conf", Str::from(configuration.unwrap_or_default()).to_value()),
            ("settings", texts(&settings)),
            ("paths", texts(&claimed)),
            ("composes", self.around.claims.composes(at).to_value()),
        ];
        for (field, value) in fields {
            if !matches!(resource.set(field, &value), Some(Ok(()))) {
                // The kind is ours; its fields are these.
                return None;
            }
        }
        let window = window.unwrap_or_default();
        let mut meta = Meta {
            noop: self.around.is_noop(declared),
            window,
            poll: self.around.interval,
            ..Meta::default()
        };
        let mut paths = match declared.kind.as_str() {
            "Exec" => watched::of_conditions(declared),
            _ => watched::of_parameters(declared, &|source| self.around.local_source(source)),
        };
        // Another version of its Ruby may bring about something else.
        let code =
            self.types.get(&declared.type_name()).map(|facts| facts.code.as_slice()).unwrap_or_default();
        paths.extend(code.iter().cloned());
        if !paths.is_empty() && meta.poll > 0 {
            // Both are fields of the kind.
            let interval = u32::try_from(meta.poll).unwrap_or(0);
            let _ = resource.set("watchfiles", &texts(&paths));
            let _ = resource.set("interval", &interval.to_value());
            watched::limit(&mut meta);
        }
        let name = Str::from(declared.to_string());
        if let Err(invalid) = resource.validate(&name) {
            self.refuse(declared, &format!("`pippet` refuses it: {invalid}"));
            return None;
        }
        let because: Vec<String> = reasons.iter().map(Reason::to_string).collect();
        let message = format!("{declared} is left to Puppet: {}", because.join("; "));
        self.diagnostics
            .push(Diagnostic::note(message).with_code(codes::THROUGH_PUPPET).at(declared.origin.clone()));
        self.decide(declared, Outcome::Puppet(reasons));
        let mut spec = Spec::of(name, Arc::from(resource));
        spec.meta = meta.into();
        spec.origin = declared.origin.clone();
        spec.loudness = loudness(declared);
        Some(spec)
    }

    fn refuse(&mut self, declared: &Declared, why: &str) {
        let message = format!("{declared} cannot be brought about: {why}");
        let diagnostic = Diagnostic::error(message).with_code(codes::REFUSED).at(declared.origin.clone());
        self.diagnostics.push(diagnostic);
        let reason = Reason { parameter: None, why: why.to_owned() };
        self.decide(declared, Outcome::Refused(vec![reason]));
    }

    fn same(&mut self, at: usize, other: usize, id: &dyn std::fmt::Display) {
        let (declared, other) =
            (&self.around.catalogue.resources[at], &self.around.catalogue.resources[other]);
        let place = other.origin.as_ref().map_or_else(String::new, |origin| format!(" ({origin})"));
        let message = format!("{declared} and {other}{place} are both {id}");
        self.diagnostics.push(Diagnostic::error(message).with_code(codes::SAME).at(declared.origin.clone()));
    }

    fn decide(&mut self, declared: &Declared, outcome: Outcome) {
        self.decisions.push(Decision {
            reference: declared.to_string(),
            kind: declared.type_name(),
            origin: declared.origin.clone(),
            outcome,
        });
    }

    fn refuse_cycles(&mut self) {
        let Err(cycle) = self.graph.check_acyclic() else { return };
        let named = |id: NodeId| {
            let Some(spec) = self.graph.node(id) else { return String::new() };
            match &spec.origin {
                Some(Origin { file, line, .. }) => format!("{} ({file}:{line})", spec.id.name.display()),
                None => spec.id.name.display().to_string(),
            }
        };
        let origin = cycle.nodes.iter().find_map(|&id| self.graph.node(id)?.origin.clone());
        let message = format!("resources wait for each other: {}", cycle.describe(named));
        self.diagnostics.push(Diagnostic::error(message).with_code(codes::CYCLE).at(origin));
    }
}

/// A path as claims have it.
fn clean(path: &Str) -> String {
    squeezed(&path.to_text())
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.parameter {
            Some(parameter) => write!(f, "`{parameter}` {}", self.why),
            None => f.write_str(&self.why),
        }
    }
}
