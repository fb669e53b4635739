//! A plan as people, programs and `mgmt apply` read it.

use std::path::Path;

use mgmt_engine::{Certainty, Plan, Preparation, StepError};
use mgmt_history::unified;
use mgmt_resource::{Action, Edge, Effect, Origin, Receive, ResourceGraph, from_stored, to_stored};
use serde_json::{Map, Value as Json, json};

use crate::failure::Failure;
use crate::private;

/// The version of the form. What it reads as never changes.
const FORMAT_VERSION: u64 = 1;

/// What a graph would change, and what it leaves.
pub(crate) struct Planned {
    pub(crate) plan: Plan,
    /// Resources that the last run managed and the graph does not declare, except for those that are undone.
    pub(crate) released: Vec<String>,
}

/// A plan.
pub(crate) struct Document {
    pub(super) name: String,
    hostname: String,
    pub(super) steps: Vec<Step>,
    /// Resources that the last run managed and this graph does not declare: they stay as they are.
    pub(super) released: Vec<String>,
    pub(super) totals: Totals,
}

/// One resource of it.
pub(super) struct Step {
    pub(super) resource: String,
    pub(super) origin: Option<String>,
    pub(super) lines: Vec<Line>,
    pub(super) error: Option<StepError>,
    /// The resource that will fail before it.
    pub(super) blocked_by: Option<String>,
    /// Why it is not looked at now.
    pub(super) held: Option<String>,
    /// It only looks.
    pub(super) noop: bool,
    /// It is no longer declared, and is undone.
    pub(super) is_reversal: bool,
}

/// One change.
pub(super) struct Line {
    /// The member of a group.
    pub(super) resource: Option<String>,
    pub(super) effect: Effect,
    pub(super) certainty: Certainty,
    pub(super) diff: Option<String>,
}

/// How much there is to do.
#[derive(Default)]
pub(super) struct Totals {
    pub(super) create: usize,
    pub(super) change: usize,
    pub(super) remove: usize,
    pub(super) run: usize,
    pub(super) right: usize,
    /// Resources that will fail.
    pub(super) errors: usize,
    /// Resources that will not run, because one before them will fail.
    pub(super) blocked: usize,
    /// Resources that cannot be looked at before something else is done.
    pub(super) open: usize,
    /// Resources that are left alone until their window opens.
    pub(super) held: usize,
    /// Changes of resources that only look, which a run does not make either.
    pub(super) noop: usize,
    /// Resources that are no longer managed.
    pub(super) released: usize,
}

impl Totals {
    pub(super) fn changes(&self) -> usize {
        self.create + self.change + self.remove + self.run
    }
}

impl Document {
    pub(crate) fn new(name: &str, hostname: &str, planned: &Planned) -> Document {
        let Planned { plan, released } = planned;
        let mut totals = Totals { released: released.len(), ..Totals::default() };
        let mut steps = Vec::new();
        for step in &plan.steps {
            let mut lines = Vec::new();
            for member in &step.effects {
                let resource = (member.id != step.id).then(|| member.id.to_string());
                for effect in &member.effects {
                    *match effect.action {
                        _ if step.noop => &mut totals.noop,
                        Action::Create => &mut totals.create,
                        Action::Change | Action::More => &mut totals.change,
                        Action::Remove => &mut totals.remove,
                        Action::Run => &mut totals.run,
                    } += 1;
                    lines.push(Line {
                        resource: resource.clone(),
                        certainty: step.certainty(effect),
                        diff: difference(effect),
                        effect: Effect { texts: None, ..effect.clone() },
                    });
                }
            }
            match &step.error {
                Some(StepError { is_certain: true, .. }) => totals.errors += 1,
                Some(_) => totals.open += 1,
                None if step.blocked_by.is_some() => totals.blocked += 1,
                None if step.held.is_some() => totals.held += 1,
                None if lines.is_empty() => totals.right += 1,
                None => {}
            }
            let origin = step.origin.as_ref().map(ToString::to_string);
            steps.push(Step {
                resource: step.id.to_string(),
                origin,
                lines,
                error: step.error.clone(),
                blocked_by: step.blocked_by.as_ref().map(ToString::to_string),
                held: step.held.clone(),
                noop: step.noop,
                is_reversal: step.is_reversal,
            });
        }
        let (name, hostname) = (name.to_owned(), hostname.to_owned());
        Document { name, hostname, steps, released: released.clone(), totals }
    }

    /// The same, with nothing in it of texts that nobody should see.
    pub(super) fn without(mut self, secrets: &[String]) -> Document {
        let tells =
            |text: &str| secrets.iter().any(|secret| !secret.is_empty() && text.contains(secret.as_str()));
        for line in self.steps.iter_mut().flat_map(|step| &mut step.lines) {
            let effect = &line.effect;
            let texts = [effect.before.as_deref(), effect.after.as_deref(), line.diff.as_deref()];
            if texts.into_iter().flatten().any(tells) {
                line.effect = line.effect.clone().secret();
                line.diff = None;
            }
        }
        self
    }

    /// How much there is to do, in one line.
    pub(crate) fn summary(&self) -> String {
        super::show::summary(&self.totals)
    }

    pub(crate) fn json(&self) -> Json {
        let steps: Vec<Json> = self.steps.iter().map(Step::json).collect();
        let Totals { create, change, remove, run, right, errors, blocked, open, held, noop, released } =
            self.totals;
        json!({
            "type": "plan",
            "format_version": FORMAT_VERSION,
            "name": self.name,
            "host": self.hostname,
            "steps": steps,
            "no_longer_managed": self.released,
            "totals": {
                "create": create, "change": change, "remove": remove, "run": run,
                "right": right, "errors": errors, "blocked": blocked, "open": open, "held": held,
                "noop": noop, "no_longer_managed": released,
            },
        })
    }

    /// What is compared to see whether the host has moved.
    pub(crate) fn steps(&self) -> Json {
        self.json().get_mut("steps").map(Json::take).unwrap_or_default()
    }

    /// Writes it for `mgmt apply`, with the graph.
    pub(super) fn store(&self, path: &Path, graph: &ResourceGraph, how: &Preparation) -> Result<(), Failure> {
        let failed =
            |error: std::io::Error| Failure::failed(format!("cannot write {}: {error}", path.display()));
        let mut document = self.json();
        if let Some(object) = document.as_object_mut() {
            object.insert("type".to_owned(), "plan-file".into());
            object.insert("autoedges".to_owned(), how.autoedges.into());
            object.insert("autogroup".to_owned(), how.autogroup.into());
            object.insert("graph".to_owned(), stored_graph(graph));
        }
        private::write(path, &mgmt_telemetry::json_line(&document)).map_err(failed)
    }
}

/// How a text would change.
pub(crate) fn difference(effect: &Effect) -> Option<String> {
    let texts = effect.shown_texts()?;
    let text = |side: &Option<Box<[u8]>>| -> Option<String> {
        String::from_utf8(side.as_deref().unwrap_or_default().to_vec()).ok()
    };
    Some(unified(&effect.what, &text(&texts.before)?, &text(&texts.after)?)).filter(|diff| !diff.is_empty())
}

impl Step {
    fn json(&self) -> Json {
        let mut step = Map::new();
        step.insert("resource".to_owned(), self.resource.as_str().into());
        if let Some(origin) = &self.origin {
            step.insert("origin".to_owned(), origin.as_str().into());
        }
        step.insert("lines".to_owned(), self.lines.iter().map(Line::json).collect());
        if let Some(StepError { message, hint, is_certain }) = &self.error {
            step.insert(if *is_certain { "error" } else { "open" }.to_owned(), message.as_str().into());
            if let Some(hint) = hint {
                step.insert("hint".to_owned(), hint.as_str().into());
            }
        }
        if let Some(by) = &self.blocked_by {
            step.insert("blocked_by".to_owned(), by.as_str().into());
        }
        for (key, is_so) in [("noop", self.noop), ("reversal", self.is_reversal)] {
            if is_so {
                step.insert(key.to_owned(), true.into());
            }
        }
        if let Some(why) = &self.held {
            step.insert("held".to_owned(), why.as_str().into());
        }
        Json::Object(step)
    }
}

impl Line {
    fn json(&self) -> Json {
        // There is nothing in an effect that has no form in JSON.
        let mut line = serde_json::to_value(&self.effect).unwrap_or_default();
        if let Some(object) = line.as_object_mut() {
            object.insert("certainty".to_owned(), self.certainty.word().into());
            if let Some(resource) = &self.resource {
                object.insert("resource".to_owned(), resource.as_str().into());
            }
            if let Some(diff) = &self.diff {
                object.insert("diff".to_owned(), diff.as_str().into());
            }
        }
        line
    }
}

fn stored_graph(graph: &ResourceGraph) -> Json {
    let mut numbers = std::collections::HashMap::new();
    let mut resources = Vec::new();
    for (node, spec) in graph.nodes() {
        numbers.insert(node, resources.len());
        let receives: Vec<Json> = spec
            .receives
            .iter()
            .map(|r| json!([r.field, r.from.kind, stored_name(&r.from), r.key]))
            .collect();
        let origin = spec.origin.as_ref().map(|at| json!([&*at.file, at.line, at.column]));
        resources.push(json!({ "resource": to_stored(spec), "receives": receives, "origin": origin }));
    }
    let number = |node| numbers.get(&node).copied();
    let edges: Vec<Json> = graph
        .edges()
        .filter_map(|(from, to, edge)| Some(json!([number(from)?, number(to)?, edge.notify])))
        .collect();
    json!({ "resources": resources, "edges": edges })
}

fn stored_name(id: &mgmt_resource::Id) -> Json {
    mgmt_value::to_json(&mgmt_value::Value::Str(id.name.clone()))
}

/// What `mgmt apply` reads.
pub(crate) struct Stored {
    pub(crate) name: String,
    pub(crate) hostname: String,
    pub(crate) how: Preparation,
    pub(crate) graph: ResourceGraph,
    /// What it would do.
    pub(crate) steps: Json,
}

impl Stored {
    /// Reads a file, and gives its text, too.
    pub(crate) fn read(path: &Path) -> Result<(Stored, Vec<u8>), Failure> {
        let place = path.display();
        let text = match private::read(path) {
            Ok(Ok(text)) => text,
            Ok(Err(who)) => {
                return Err(Failure::usage(format!("{place} is not trusted: {who} may write to it")).hint(
                    "whoever can write a plan decides what is done; keep it where only you can write",
                ));
            }
            Err(error) => return Err(Failure::usage(format!("cannot read {place}: {error}"))),
        };
        Stored::parse(path, &text).map(|stored| (stored, text))
    }

    /// What a file of this name says.
    pub(crate) fn parse(path: &Path, text: &[u8]) -> Result<Stored, Failure> {
        let document: Json = serde_json::from_slice(text).map_err(|error| not_a_plan(path, error))?;
        if document["type"] != "plan-file" {
            return Err(not_a_plan(path, "it does not say so"));
        }
        match document["format_version"].as_u64() {
            Some(1..=FORMAT_VERSION) => {}
            _ => return Err(not_a_plan(path, "it is of a version that this program does not know")),
        }
        let text = |key: &str| document[key].as_str().unwrap_or_default().to_owned();
        let flag = |key: &str| document[key].as_bool().unwrap_or(true);
        Ok(Stored {
            name: text("name"),
            hostname: text("host"),
            how: Preparation {
                autoedges: flag("autoedges"),
                autogroup: flag("autogroup"),
                ..Preparation::default()
            },
            graph: read_graph(&document["graph"]).map_err(|error| not_a_plan(path, error))?,
            steps: document["steps"].clone(),
        })
    }
}

fn not_a_plan(path: &Path, why: impl std::fmt::Display) -> Failure {
    Failure::usage(format!("{} is not a plan that can be applied: {why}", path.display()))
        .hint("`mgmt plan --out FILE` writes one")
}

fn read_graph(json: &Json) -> Result<ResourceGraph, String> {
    let mut graph = ResourceGraph::new();
    let mut nodes = Vec::new();
    for stored in json["resources"].as_array().ok_or("there are no resources")? {
        let mut spec =
            from_stored(&stored["resource"], &mgmt_resources::KINDS).map_err(|error| error.to_string())?;
        for receive in stored["receives"].as_array().into_iter().flatten() {
            spec.receives.push(read_receive(receive, &spec).ok_or("a received value cannot be read")?);
        }
        spec.origin = read_origin(&stored["origin"]);
        nodes.push(graph.add_node(spec));
    }
    for edge in json["edges"].as_array().into_iter().flatten() {
        let node = |at: usize| nodes.get(usize::try_from(edge[at].as_u64()?).ok()?).copied();
        let (Some(from), Some(to)) = (node(0), node(1)) else {
            return Err("an edge leads nowhere".to_owned());
        };
        graph.set_edge(from, to, Edge { notify: edge[2].as_bool().unwrap_or(false) });
    }
    Ok(graph)
}

fn read_origin(json: &Json) -> Option<Origin> {
    let number = |at: usize| u32::try_from(json[at].as_u64()?).ok();
    Some(Origin { file: json[0].as_str()?.into(), line: number(1)?, column: number(2)? })
}

fn read_receive(json: &Json, spec: &mgmt_resource::Spec) -> Option<Receive> {
    let kind = mgmt_resources::KINDS.get(json[1].as_str()?)?;
    let mgmt_value::Value::Str(name) = mgmt_value::from_json(&json[2], &mgmt_value::Type::Str).ok()? else {
        return None;
    };
    let field = spec.resource.schema().field(json[0].as_str()?)?.name;
    let key = kind.sent(json[3].as_str()?)?.name;
    Some(Receive { field, from: mgmt_resource::Id { kind: kind.kind, name }, key })
}

#[cfg(test)]
mod tests {
    use super::*;
    use mgmt_resource::{Id, Spec};
    use mgmt_resources::exec::Exec;
    use mgmt_resources::file::File;

    #[test]
    fn a_graph_reads_back_as_it_was_written() {
        let mut graph = ResourceGraph::new();
        let exec = graph.add_node(Spec::new("e", Exec { cmd: "date".into(), ..Exec::default() }));
        let file = File { state: "exists".into(), ..File::default() };
        let mut spec = Spec::new("/x\n\u{1b}", file);
        spec.meta.noop = true;
        spec.receives.push(Receive { field: "content", from: Id::new("exec", "e"), key: "stdout" });
        let file = graph.add_node(spec);
        graph.set_edge(exec, file, Edge::NOTIFY);
        let read = read_graph(&stored_graph(&graph)).unwrap_or_else(|error| panic!("{error}"));
        let specs: Vec<_> = read.nodes().map(|(_, spec)| spec).collect();
        assert!(graph.nodes().zip(specs).all(|((_, before), after)| before.same_as(after)));
        assert_eq!(read.edges().map(|(_, _, edge)| edge.notify).collect::<Vec<_>>(), [true]);
        assert!(read_graph(&json!({})).is_err());
        assert!(read_graph(&json!({"resources": [{}]})).is_err());
    }
}
