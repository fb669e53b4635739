//! A translated manifest as a program in mcl.
//!
//! What is native is a resource; what is not is a comment that says why. The points at which a class begins and ends, and whatever else
//! only stands in the order of things, is taken out where that makes the program no longer: then those before it stand directly before
//! those behind it.
//!
//! Invariant: the program has the order and the notifications of the graph, on whatever way.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

use mgmt_graph::NodeId;
use mgmt_resource::{FieldSpec, Fields as _, Meta, Origin, ResourceGraph, Spec};
use mgmt_value::{Str, Value};

use crate::translate::{Decision, Outcome};

/// What to leave out of a program.
pub struct ProgramOptions<'a> {
    /// Whether the value of a field is nobody's business.
    pub is_secret: &'a dyn Fn(&Spec, &FieldSpec, &Value) -> bool,
}

/// Writes a program that has the same graph, as far as it is native. It is not in its canonical form yet.
pub fn program(graph: &ResourceGraph, decisions: &[Decision], options: &ProgramOptions<'_>) -> String {
    let order = Order::of(graph);
    let mut text = String::new();
    for (node, spec) in graph.nodes() {
        let fate =
            decisions.iter().find(|decision| Some(decision.reference.as_str()) == spec.id.name.as_str());
        match Part::of(spec, fate, order.is_kept(node)) {
            Part::Nothing => {}
            Part::Comment(why) => {
                comment(&mut text, &format!("{}{why}", place(spec.origin.as_ref())));
                if order.is_kept(node) {
                    resource(&mut text, spec, "noop", &order.before(graph, node), options);
                }
                text.push('\n');
            }
            Part::Resource => {
                if let Some(origin) = &spec.origin {
                    comment(&mut text, &format!("{}:{}", origin.file, origin.line));
                }
                resource(&mut text, spec, spec.id.kind, &order.before(graph, node), options);
                text.push('\n');
            }
        }
    }
    text
}

/// What becomes of a vertex.
enum Part {
    Nothing,
    Comment(String),
    Resource,
}

impl Part {
    fn of(spec: &Spec, fate: Option<&Decision>, is_kept: bool) -> Part {
        let because = |reasons: &[crate::Reason]| {
            reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
        };
        let fate = fate.map(|decision| (&decision.reference, &decision.outcome));
        match (spec.id.kind, fate) {
            ("pippet", Some((reference, Outcome::Puppet(reasons)))) => {
                Part::Comment(format!("{reference} is left to Puppet: {}", because(reasons)))
            }
            ("noop", Some((reference, Outcome::LeftOut(reasons)))) => {
                Part::Comment(format!("{reference} is left out: {}", because(reasons)))
            }
            ("pippet", _) => Part::Comment(format!("{} is left to Puppet", spec.id.name.display())),
            _ if unwritable(spec) => {
                Part::Comment(format!("{} has bytes that are no text, which mcl cannot say", spec.id))
            }
            ("noop", _) if !is_kept => Part::Nothing,
            _ => Part::Resource,
        }
    }
}

/// Whether something of it cannot be said in mcl, whose texts are UTF-8.
fn unwritable(spec: &Spec) -> bool {
    let values = spec.resource.schema().fields.iter().filter_map(|field| spec.resource.get(field.name));
    spec.id.name.as_str().is_none() || values.into_iter().any(|value| has_bytes(&value))
}

fn has_bytes(value: &Value) -> bool {
    match value {
        Value::Str(text) => text.as_str().is_none_or(|text| text.contains('\0')),
        Value::List(list) => list.items.iter().any(has_bytes),
        Value::Map(map) => map.entries().iter().any(|(key, value)| has_bytes(key) || has_bytes(value)),
        Value::Struct(value) => value.fields.iter().any(|(_, value)| has_bytes(value)),
        _ => false,
    }
}

/// Who stands before whom, without the points that need not be there.
struct Order {
    /// For each vertex, those directly before it, and whether it is told of their changes.
    before: HashMap<NodeId, BTreeMap<NodeId, bool>>,
    /// Points that are left.
    kept: Vec<NodeId>,
}

impl Order {
    fn of(graph: &ResourceGraph) -> Order {
        let mut before: HashMap<NodeId, BTreeMap<NodeId, bool>> = HashMap::new();
        let mut after: HashMap<NodeId, BTreeMap<NodeId, bool>> = HashMap::new();
        for (from, to, edge) in graph.edges() {
            before.entry(to).or_default().insert(from, edge.notify);
            after.entry(from).or_default().insert(to, edge.notify);
        }
        let mut kept = Vec::new();
        for (node, spec) in graph.nodes().filter(|(_, spec)| is_point(spec)) {
            let (into, out) =
                (before.remove(&node).unwrap_or_default(), after.remove(&node).unwrap_or_default());
            if into.len() * out.len() > into.len() + out.len() {
                kept.push(node);
                before.insert(node, into);
                after.insert(node, out);
                continue;
            }
            let forwards = spec.resource.get("forward") == Some(Value::Bool(true));
            for &to in out.keys() {
                before.entry(to).or_default().remove(&node);
            }
            for (&from, &told) in &into {
                after.entry(from).or_default().remove(&node);
                for (&to, &tells) in &out {
                    let notify = told && tells && forwards;
                    *before.entry(to).or_default().entry(from).or_default() |= notify;
                    *after.entry(from).or_default().entry(to).or_default() |= notify;
                }
            }
        }
        Order { before, kept }
    }

    fn is_kept(&self, node: NodeId) -> bool {
        self.kept.contains(&node)
    }

    /// Those directly before a vertex, in the order of the graph.
    fn before<'g>(&self, graph: &'g ResourceGraph, node: NodeId) -> Vec<(&'g Spec, bool)> {
        let before = self.before.get(&node).into_iter().flatten();
        before.filter_map(|(&from, &notify)| Some((graph.node(from)?, notify))).collect()
    }
}

/// Something that only stands in the order of things, in a program.
fn is_point(spec: &Spec) -> bool {
    spec.id.kind == "noop" || spec.id.kind == "pippet" || unwritable(spec)
}

fn resource(
    text: &mut String,
    spec: &Spec,
    kind: &str,
    before: &[(&Spec, bool)],
    options: &ProgramOptions<'_>,
) {
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(text, "{kind} {} {{", quoted(&spec.id.name));
    if kind == spec.id.kind {
        fields(text, spec, options);
    }
    for (from, notify) in before {
        let word = if *notify { "Listen" } else { "Depend" };
        let kind = if is_point(from) { "noop" } else { from.id.kind };
        let _ = writeln!(text, "{word} => {}[{}],", capitalised(kind), quoted(&from.id.name));
    }
    text.push_str("}\n");
}

/// What is not as usual.
fn fields(text: &mut String, spec: &Spec, options: &ProgramOptions<'_>) {
    let usual = (spec.resource.schema().make)();
    for field in spec.resource.schema().fields {
        let Some(value) = spec.resource.get(field.name) else { continue };
        if usual.get(field.name).as_ref() == Some(&value) {
            continue;
        }
        if (options.is_secret)(spec, field, &value) {
            comment(text, &format!("{} is a secret, and is left out", field.name));
            continue;
        }
        let _ = writeln!(text, "{} => {},", field.name, written(&value));
    }
    let usual = Meta::default();
    for field in Meta::FIELDS {
        let value = (field.get)(&*spec.meta);
        if value != (field.get)(&usual) {
            let _ = writeln!(text, "Meta:{} => {},", field.name, written(&value));
        }
    }
}

fn written(value: &Value) -> String {
    let all = |parts: Vec<String>| parts.join(" ");
    match value {
        Value::Str(text) => quoted(text),
        Value::List(list) => {
            format!("[{}]", all(list.items.iter().map(|item| format!("{},", written(item))).collect()))
        }
        Value::Map(map) => {
            let entries = map.entries().iter();
            let entries = entries.map(|(key, value)| format!("{} => {},", written(key), written(value)));
            format!("{{{}}}", all(entries.collect()))
        }
        Value::Struct(value) => {
            let fields = value.fields.iter().map(|(name, value)| format!("{name} => {},", written(value)));
            format!("struct{{{}}}", all(fields.collect()))
        }
        // A number without a point would be an integer.
        Value::Float(value) if value.is_finite() => format!("{value:?}"),
        other => other.to_string(),
    }
}

/// A text as mcl writes it. What has no escape there is itself.
fn quoted(text: &Str) -> String {
    let mut written = String::from("\"");
    for letter in text.to_text().chars() {
        match letter {
            '"' => written.push_str("\\\""),
            '\\' => written.push_str("\\\\"),
            '$' => written.push_str("\\$"),
            '\n' => written.push_str("\\n"),
            '\t' => written.push_str("\\t"),
            '\r' => written.push_str("\\r"),
            '\u{7}' => written.push_str("\\a"),
            '\u{8}' => written.push_str("\\b"),
            '\u{b}' => written.push_str("\\v"),
            '\u{c}' => written.push_str("\\f"),
            letter => written.push(letter),
        }
    }
    written.push('"');
    written
}

/// A kind as edges name it: `ssh:authorized_key` is `Ssh:Authorized_key`.
fn capitalised(kind: &str) -> String {
    let parts = kind.split(':').map(|part| {
        let mut letters = part.chars();
        letters
            .next()
            .map_or_else(String::new, |first| first.to_ascii_uppercase().to_string() + letters.as_str())
    });
    parts.collect::<Vec<_>>().join(":")
}

fn place(origin: Option<&Origin>) -> String {
    origin.map_or_else(String::new, |origin| format!("{}:{}: ", origin.file, origin.line))
}

/// A comment, of which no line is anything else.
fn comment(text: &mut String, what: &str) {
    for line in what.split(['\n', '\r']) {
        let _ = writeln!(text, "# {line}");
    }
}
