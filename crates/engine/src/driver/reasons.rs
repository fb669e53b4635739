//! Why a vertex runs: noted as it happens, put into words only for a run that changed something or failed.

use std::sync::Arc;

use mgmt_resource::{Id, Resource, Spec, Watch};
use mgmt_value::Value;

use super::node::{Node, specs};
use super::witness::{Cause, FieldChange, Handed};

/// The longest text of a parameter.
const LONGEST: usize = 256;

/// What has happened since the last run that succeeded. Empty for a vertex that was just declared.
#[derive(Default)]
pub(super) struct Reasons {
    /// What it was declared as before.
    pub(super) was: Option<Arc<Spec>>,
    pub(super) event: bool,
    /// The time of its poll has come.
    pub(super) polled: bool,
    /// Its window has opened.
    pub(super) opened: bool,
    pub(super) notified: Vec<Id>,
    pub(super) received: Vec<Handed>,
    /// Runs that have failed.
    pub(super) attempts: u32,
}

impl Reasons {
    /// Takes over what a failed run was for: the next one is for the same, and more.
    pub(super) fn absorb(&mut self, earlier: Reasons) {
        self.was = earlier.was.or_else(|| self.was.take());
        self.event |= earlier.event;
        self.polled |= earlier.polled;
        self.opened |= earlier.opened;
        earlier.notified.into_iter().for_each(|id| self.notified_by(id));
        for handed in earlier.received {
            if !self.received.contains(&handed) {
                self.received.push(handed);
            }
        }
        self.attempts += earlier.attempts;
    }

    /// A resource has notified it.
    pub(super) fn notified_by(&mut self, id: Id) {
        if !self.notified.contains(&id) {
            self.notified.push(id);
        }
    }

    /// Nothing but an event or a poll.
    pub(super) fn is_event_alone(&self) -> bool {
        (self.event || self.polled)
            && !self.opened
            && self.was.is_none()
            && self.notified.is_empty()
            && self.received.is_empty()
            && self.attempts == 0
    }

    /// In words. `settled`: it had been put right before as it is declared now.
    pub(super) fn causes(&self, node: &Node, settled: bool) -> Vec<Cause> {
        let mut causes = Vec::new();
        match &self.was {
            Some(was) => causes.push(redeclared(was, &node.spec)),
            None if !settled => causes.push(Cause::Declared { because: node.spec.because.clone() }),
            None => {}
        }
        if self.event {
            causes.push(Cause::Event(node.watches().iter().map(watched).collect()));
        }
        if self.polled {
            causes.push(Cause::Event(vec![format!("poll every {} s", node.spec.meta.poll)]));
        }
        if self.opened {
            causes.push(Cause::Event(vec!["its window opened".to_owned()]));
        }
        if !self.notified.is_empty() {
            causes.push(Cause::Notified(self.notified.clone()));
        }
        if !self.received.is_empty() {
            causes.push(Cause::Received(self.received.clone()));
        }
        if self.attempts > 0 {
            causes.push(Cause::Retried { attempts: self.attempts });
        }
        // Nothing runs without a reason. One that nobody noted is told as what it is: something happened.
        if causes.is_empty() {
            causes.push(Cause::Event(Vec::new()));
        }
        causes
    }
}

fn watched(watch: &Watch) -> String {
    match watch {
        Watch::Path { path, recursive } => {
            format!("{}{}", path.display(), if *recursive { " and below" } else { "" })
        }
        Watch::Interval(interval) => format!("every {interval:?}"),
        Watch::Stream { key, .. } => key.display().to_string(),
    }
}

fn redeclared(was: &Spec, is: &Spec) -> Cause {
    let mut fields = Vec::new();
    let mut because = is.because.clone();
    for now in specs(is) {
        let Some(before) = specs(was).find(|before| before.id == now.id) else { continue };
        if Arc::ptr_eq(&before.resource, &now.resource) {
            continue;
        }
        let member = (now.id != is.id).then(|| now.id.clone());
        let changed = differences(&*before.resource, &*now.resource, member);
        if !changed.is_empty() {
            because = because.or_else(|| now.because.clone());
        }
        fields.extend(changed);
    }
    Cause::Redeclared { fields, because }
}

/// The parameters that differ. What a secret one was and is, is not told.
fn differences(was: &dyn Resource, is: &dyn Resource, member: Option<Id>) -> Vec<FieldChange> {
    let fields = is.schema().fields.iter().filter_map(|field| {
        let (before, after) = (was.get(field.name), is.get(field.name));
        if before == after {
            return None;
        }
        let shown = |value: Option<Value>| value.filter(|_| !field.secret).map(|value| text(&value));
        let (before, after) = (shown(before), shown(after));
        Some(FieldChange { field: field.name, member: member.clone(), before, after })
    });
    fields.collect()
}

fn text(value: &Value) -> String {
    let mut text = value.to_string();
    if text.len() > LONGEST {
        let end = (0..=LONGEST).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}
