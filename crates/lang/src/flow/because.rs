//! Which values of the outside world have led to which declarations.
//!
//! A call that looks at the outside world notes when it gives another value. After the settling, the graph tells which
//! outputs that has reached. Both cost what has changed.

use std::sync::Arc;

use mgmt_dataflow::NodeId;
use mgmt_diagnostics::Span;
use mgmt_funcs::{Function, Watch};
use mgmt_resource::{Because, ChangedValue, Id, Origin};
use mgmt_value::Value;
use rustc_hash::FxHashMap;

use super::{Datum, Flow, Outcome, lock};
use crate::Checked;

/// So many values of one settling are followed.
const MOST_VALUES: usize = 16;
/// So far a value is followed.
const FURTHEST: usize = 1 << 16;
/// The longest text of a value.
const LONGEST: usize = 256;

/// A call that gives another value than before.
pub(super) struct Noted {
    pub(super) ticket: u64,
    pub(super) function: &'static Function,
    pub(super) span: Span,
    pub(super) before: Option<Value>,
    pub(super) after: Option<Value>,
}

/// The values behind the declarations that the last settling changed.
#[derive(Default)]
pub(super) struct Reasons(FxHashMap<Id, Arc<Because>>);

impl Reasons {
    /// Follows what was noted to what it declared.
    pub(super) fn find(program: &super::Program, graph: &Flow, woken: &FxHashMap<NodeId, Watch>) -> Reasons {
        let (noted, nodes) = lock(&program.watches).take_noted();
        let mut by_output: FxHashMap<NodeId, Vec<usize>> = FxHashMap::default();
        let mut values = Vec::new();
        for (noted, node) in noted.into_iter().zip(nodes).take(MOST_VALUES) {
            let Some(node) = node else { continue };
            for output in graph.reached(node, FURTHEST) {
                by_output.entry(output).or_default().push(values.len());
            }
            values.push(changed(&program.checked, &noted, woken.get(&node)));
        }
        let mut reasons = FxHashMap::default();
        let mut shared: FxHashMap<Vec<usize>, Arc<Because>> = FxHashMap::default();
        for (output, behind) in by_output {
            let Some(Datum::Declared(declared)) = graph.state(output).value() else { continue };
            let because = shared.entry(behind).or_insert_with_key(|behind| {
                Arc::new(Because { values: behind.iter().map(|at| values[*at].clone()).collect() })
            });
            for resource in &declared.resources {
                reasons.insert(resource.spec.id.clone(), Arc::clone(because));
            }
        }
        Reasons(reasons)
    }

    /// Says of what is told why it is so.
    pub(super) fn explain(&self, mut outcome: Outcome) -> Outcome {
        if self.0.is_empty() {
            return outcome;
        }
        match &mut outcome {
            Outcome::Graph(graph) => {
                graph.nodes_mut().for_each(|(_, spec)| spec.because = self.0.get(&spec.id).cloned());
            }
            Outcome::Changed(change) => {
                let told = change.added.iter_mut().chain(&mut change.changed);
                told.for_each(|spec| spec.because = self.0.get(&spec.id).cloned());
            }
            Outcome::Unchanged | Outcome::Waiting | Outcome::Wrong(_) => {}
        }
        outcome
    }
}

fn changed(checked: &Checked, noted: &Noted, woken: Option<&Watch>) -> ChangedValue {
    let (file, line, column) = checked.sources.position(noted.span);
    let function = match noted.function.module {
        "" => noted.function.name.to_owned(),
        module => format!("{}.{}", module.rsplit('/').next().unwrap_or(module), noted.function.name),
    };
    ChangedValue {
        function: function.into(),
        origin: Some(Origin { file, line, column }),
        before: noted.before.as_ref().map(text),
        after: noted.after.as_ref().map(text),
        event: woken.map(|watch| event(watch).into()),
    }
}

fn text(value: &Value) -> Arc<str> {
    let mut text = value.to_string();
    if text.len() > LONGEST {
        let end = (0..=LONGEST).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text.into()
}

/// What happened, in words.
fn event(watch: &Watch) -> String {
    match watch {
        Watch::Interval(period) => format!("time: {period:?} have passed"),
        Watch::Midnight => "time: a new day".to_owned(),
        Watch::Path(path) => path.display().to_string(),
        Watch::Links => "network interfaces".to_owned(),
        Watch::Hostname => "the name of the host".to_owned(),
        Watch::Kernel(subsystem) => format!("the kernel: {subsystem}"),
        Watch::Firmware => "the firmware".to_owned(),
        Watch::Command(_) => "a line of a command".to_owned(),
        Watch::Value(key) => format!("the local value `{}`", key.display()),
        Watch::Http(name) => format!("the answer to `{}`", name.display()),
        Watch::WorldString(name) | Watch::WorldStrings(name) => {
            format!("the shared text `{}`", name.display())
        }
        Watch::Schedule(name) => format!("the schedule `{}`", name.display()),
        Watch::Exports(kind) => format!("exports of {}", kind.display()),
        Watch::Retry(_) => "another attempt after a failure".to_owned(),
        Watch::Endless => "no end".to_owned(),
    }
}
