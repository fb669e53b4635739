//! What comes of a run that has ended.

use std::sync::Arc;
use std::time::Duration;

use mgmt_resource::{Checked, Effect, Error, Id, Loudness, Result, Spec};
use mgmt_sys::made::Made;

use super::failures::Of;
use super::node::{Reported, specs};
use super::reasons::Reasons;
use super::run::Done;
use super::strife::PEACE;
use super::witness::{Cause, Causes, Ended, Health, MemberEffects, Ran, Undone};
use super::{Alarm, Driver, messages};
use crate::core::{Outcome, Vertex};

/// Writes to the log what a resource has changed, or would, as loudly as is wanted: the level is part of the place in the
/// code, so that each has one of its own.
macro_rules! at_level {
    ($loudness:expr, $($fields:tt)*) => {
        match $loudness {
            Loudness::Debug => tracing::debug!(target: "mgmt::engine", $($fields)*),
            Loudness::Info => tracing::info!(target: "mgmt::engine", $($fields)*),
            Loudness::Warning => tracing::warn!(target: "mgmt::engine", $($fields)*),
            Loudness::Error => tracing::error!(target: "mgmt::engine", $($fields)*),
        }
    };
}

impl Driver {
    pub(super) fn finished(&mut self, done: Done) {
        let vertex = done.vertex;
        self.alarms.cancel(Alarm::Timeout(vertex));
        self.summary.checks += 1;
        let dirtied = self.publish(vertex, done.sent);
        let witnessed = self.witness.is_some();
        let Some(node) = self.node(vertex) else { return };
        node.cancel = None;
        node.take_back(done.members);
        let spec = Arc::clone(&node.spec);
        let timeout = std::mem::take(&mut node.timed_out).then_some(spec.meta.timeout);
        let result = timed(done.result, timeout);
        let made = match &done.made {
            Made::One(path) => result.is_ok() && node.watches_only(path),
            Made::Nothing | Made::Several => false,
        };
        let news = node.echo.end(made);
        let stirred = node.stirred.take();
        let reasons = node.running_for.take();
        let wanting = !matches!(result, Ok(Checked::Right | Checked::Forwarded) | Err(Error::Cancelled));
        let causes = match (wanting && witnessed, &reasons) {
            (false, _) => Vec::new(),
            (true, Some(reasons)) => reasons.causes(node, node.settled),
            (true, None) => Reasons::default().causes(node, node.settled),
        };
        let undone = node.settled && reasons.as_ref().is_some_and(|reasons| reasons.is_event_alone());
        match &result {
            Ok(_) => {
                node.settled = true;
                node.snapshot_done |= !spec.meta.noop;
                node.applied |= !spec.meta.noop;
                node.members.iter_mut().flat_map(|live| &mut live.received).for_each(|r| r.changed = false);
            }
            // The next attempt is for what this one was for.
            Err(error) => {
                let mut earlier = reasons.map(|reasons| *reasons).unwrap_or_default();
                earlier.attempts += u32::from(!error.is_cancelled());
                node.note().absorb(earlier);
            }
        }
        if !spec.meta.window.is_empty() && !matches!(result, Err(Error::Cancelled)) {
            self.has_run(&spec.id, done.took, !spec.meta.noop);
        }
        let effects = Arc::new(members(&spec, done.effects));
        self.witnessed(|witness| witness.over(&spec, done.waits, result.is_ok()));
        let now = self.now();
        let since = stirred.map(|stirred| Duration::from_nanos(now.saturating_sub(stirred)));
        let ended = End { vertex, spec: &spec, took: done.took, since, undone, causes, effects };
        let outcome = self.tell_end(ended, result);
        if done.rearm
            && let Some(interval) = self.node(vertex).and_then(|node| node.watch.interval)
        {
            self.alarms.insert(self.origin.elapsed() + interval, Alarm::Interval(vertex));
        }
        if news {
            if let Some(node) = self.node(vertex) {
                node.note().event = true;
            }
            self.core.changed(vertex, now);
        }
        self.core.finished(vertex, outcome, &dirtied, now);
        self.ended.push(spec.id.clone());
    }

    /// Tells everybody how a run has ended.
    fn tell_end(&mut self, end: End<'_>, result: Result<Checked>) -> Outcome {
        let (id, apply) = (&end.spec.id, !end.spec.meta.noop);
        let (ended, error, outcome) = match result {
            Ok(checked) => {
                self.succeeded(end.vertex, end.spec, checked, &end.effects);
                let ended = if checked == Checked::Changed { Ended::Changed } else { Ended::Right };
                (ended, None, self.report_success(&end, checked))
            }
            Err(Error::Cancelled) => return Outcome::Cancelled,
            Err(error) => {
                let text = error.to_string();
                self.keep_error(end.vertex, Of::Run, &text, error.hint(), &end.causes);
                (Ended::Failed, Some(text), Outcome::Failed)
            }
        };
        let ran = Ran {
            id,
            spec: end.spec,
            apply,
            ended,
            error: error.as_deref(),
            took: end.took,
            since: end.since,
            causes: &end.causes,
            effects: &end.effects,
        };
        self.witnessed(|witness| witness.ran(ran));
        if ended == Ended::Changed && apply && end.undone {
            self.put_right_again(&end);
        }
        outcome
    }

    /// Something undid what had been put right. If that goes on, it is named, and given more and more time.
    fn put_right_again(&mut self, end: &End<'_>) {
        let now = self.now();
        let Some(found) = self.strife.put_right(end.vertex, &end.effects, now) else { return };
        self.core.hold(end.vertex, found.until);
        let by = found.by.and_then(|by| self.id(by)).cloned();
        let wait = Duration::from_nanos(found.until.saturating_sub(now));
        let (id, times) = (&end.spec.id, found.times);
        match &by {
            Some(by) => tracing::warn!(
                target: "mgmt::engine", resource = %id, message_id = messages::UNDONE,
                "flapping: reverted by {by} {times} times; backing off {wait:?}"
            ),
            None => tracing::warn!(
                target: "mgmt::engine", resource = %id, message_id = messages::UNDONE,
                "flapping: reverted by an external process {times} times; backing off {wait:?}"
            ),
        }
        // Of a group, those that were reverted; all of them, if it is not known which.
        let members = end.effects.iter().filter(|member| !member.effects.is_empty()).map(|member| &member.id);
        let mut members: Vec<&Id> = members.collect();
        if members.is_empty() {
            members.extend(super::node::specs(end.spec).map(|spec| &spec.id));
        }
        for id in members {
            let undone = Undone { id, by: by.as_ref(), times, wait };
            self.witnessed(|witness| witness.health(id, Health::Flapping(undone)));
            self.reported.insert(id.clone(), Reported::Flapping);
        }
        let calm = Duration::from_nanos(found.until.saturating_add(PEACE));
        self.alarms.insert(calm, Alarm::Calm(end.vertex));
    }

    fn report_success(&mut self, end: &End<'_>, checked: Checked) -> Outcome {
        match checked {
            Checked::Right => return Outcome::Right,
            // For those that come after it, and for nobody else.
            Checked::Forwarded => return Outcome::Forwarded,
            Checked::Changed => {}
        }
        let (id, noop, took) = (&end.spec.id, end.spec.meta.noop, end.took);
        let what = if noop { "would change" } else { "changed" };
        *(if noop { &mut self.summary.would_change } else { &mut self.summary.changes }) += 1;
        // Of a group, the loudest counts.
        let loudness = end.spec.children.iter().map(|child| child.loudness).max();
        let loudness = loudness.unwrap_or(end.spec.loudness).max(end.spec.loudness);
        let (message_id, cause) = (messages::CHANGED, Causes(&end.causes));
        at_level!(loudness, resource = %id, message_id, %cause, "{what} in {took:.1?}");
        if noop {
            for effect in end.effects.iter().flat_map(|member| &member.effects) {
                at_level!(loudness, resource = %id, "would {effect}");
            }
        }
        Outcome::Changed
    }

    /// Keeps what a run sent, and tells who receives something new.
    fn publish(&mut self, vertex: Vertex, sent: Vec<Option<mgmt_resource::Sent>>) -> Vec<Vertex> {
        let mut dirtied = Vec::new();
        let Some(node) = self.nodes.get_mut(vertex.index()).and_then(Option::as_deref_mut) else {
            return dirtied;
        };
        let spec = Arc::clone(&node.spec);
        for ((live, spec), sent) in node.members.iter_mut().zip(specs(&spec)).zip(sent) {
            let Some(sent) = sent else { continue };
            if live.sent.as_ref() != Some(&sent) {
                live.sent = Some(sent);
                dirtied.extend(self.receivers.get(&spec.id).into_iter().flatten());
            }
        }
        dirtied.sort_unstable();
        dirtied.dedup();
        dirtied
    }
}

/// What is known of a run that has ended.
struct End<'a> {
    vertex: Vertex,
    spec: &'a Spec,
    took: Duration,
    since: Option<Duration>,
    /// It had been right, and nothing but an event led to this run.
    undone: bool,
    causes: Vec<Cause>,
    effects: Arc<Vec<MemberEffects>>,
}

/// The effects with the names of those who had them.
pub(super) fn members(spec: &Spec, effects: Vec<(usize, Vec<Effect>)>) -> Vec<MemberEffects> {
    let name = |index: usize| -> Option<Id> { specs(spec).nth(index).map(|spec| spec.id.clone()) };
    effects.into_iter().filter_map(|(at, effects)| Some(MemberEffects { id: name(at)?, effects })).collect()
}

/// The result of a run whose time may have been up: success is success; being stopped is a timeout; an error says both.
fn timed(result: Result<Checked>, timeout: Option<u64>) -> Result<Checked> {
    let Some(timeout) = timeout else { return result };
    let text = format!("timed out after {} s", Duration::from_millis(timeout).as_secs_f64());
    match result {
        Ok(checked) => Ok(checked),
        Err(Error::Cancelled) => Err(Error::new(text)),
        Err(error) => Err(error.context(text)),
    }
}
