//! Resources that wait for Puppet at the same time are given to it together, by type.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::answer::Applied;
use crate::puppet::{Apply, Puppet, PuppetError};

/// The most that is given at once, so that the first of many do not wait for the last.
const MOST: usize = 500;

/// How often somebody asks again whose question was lost with the task that carried it.
const LOST: usize = 5;

/// What waits. Locked for a push or a pop only.
#[derive(Debug, Default)]
pub(crate) struct Queue(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    list: Vec<Asked>,
    /// A task takes care of the list.
    is_served: bool,
}

#[derive(Debug)]
struct Asked {
    resource: Apply,
    noop: bool,
    patience: Duration,
    answer: oneshot::Sender<Result<Applied, Arc<PuppetError>>>,
}

impl Asked {
    /// Whether both may be in one transaction. A command may take long, and others would wait for it; what has to know others
    /// would have others know them.
    fn goes_with(&self, other: &Asked) -> bool {
        let is_alone = |asked: &Asked| {
            !asked.resource.context.is_empty() || asked.resource.kind.eq_ignore_ascii_case("exec")
        };
        self.noop == other.noop
            && self.resource.kind.eq_ignore_ascii_case(&other.resource.kind)
            && !is_alone(self)
            && !is_alone(other)
    }
}

impl Queue {
    /// Puts one at the end. Gives whether nobody takes care of the list.
    fn push(&self, asked: Asked) -> bool {
        let mut waiting = self.lock();
        waiting.list.push(asked);
        !std::mem::replace(&mut waiting.is_served, true)
    }

    /// The one that has waited longest, and those that can go with it. If there is none, the list is nobody's.
    fn pop(&self) -> Option<Vec<Asked>> {
        let mut waiting = self.lock();
        // Whoever does not wait any more needs no answer.
        waiting.list.retain(|asked| !asked.answer.is_closed());
        if waiting.list.is_empty() {
            waiting.is_served = false;
            return None;
        }
        let mut batch = vec![waiting.list.remove(0)];
        let mut rest = Vec::with_capacity(waiting.list.len());
        for asked in waiting.list.drain(..) {
            let together = batch.len() < MOST && batch[0].goes_with(&asked);
            if together { &mut batch } else { &mut rest }.push(asked);
        }
        waiting.list = rest;
        Some(batch)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Puppet {
    /// Brings one resource about, or looks what would have to be done, together with others of its type that wait for Puppet
    /// as well. Giving up the future gives up the question.
    pub async fn apply_one(
        &self,
        resource: &Apply,
        noop: bool,
        patience: Duration,
    ) -> Result<Applied, Arc<PuppetError>> {
        for _ in 0..LOST {
            let (answer, answered) = oneshot::channel();
            let asked = Asked { resource: resource.clone(), noop, patience, answer };
            if self.queue().push(asked) {
                tokio::spawn(serve(Serving { puppet: self.clone(), is_done: false }));
            }
            if let Ok(answer) = answered.await {
                return answer;
            }
        }
        Err(Arc::new(PuppetError::Confused("nobody has carried the question".to_owned())))
    }
}

/// A task that takes care of the list. If it ends with its runtime, those that wait are told, and one of them begins anew.
struct Serving {
    puppet: Puppet,
    is_done: bool,
}

impl Drop for Serving {
    fn drop(&mut self) {
        if !self.is_done {
            *self.puppet.queue().lock() = Waiting::default();
        }
    }
}

async fn serve(mut serving: Serving) {
    // Others that are about to ask can do so first.
    tokio::task::yield_now().await;
    while let Some(batch) = serving.puppet.queue().pop() {
        let noop = batch.first().is_some_and(|asked| asked.noop);
        let patience = batch.iter().fold(Duration::ZERO, |sum, asked| sum.saturating_add(asked.patience));
        let (resources, mut waiting): (Vec<_>, Vec<_>) =
            batch.into_iter().map(|asked| (asked.resource, asked.answer)).unzip();
        let given_up = async {
            for answer in &mut waiting {
                answer.closed().await;
            }
        };
        let answers = tokio::select! {
            answers = answers(&serving.puppet, &resources, noop, patience) => answers,
            () = given_up => continue,
        };
        for (waiting, answer) in waiting.into_iter().zip(answers) {
            let _ = waiting.send(answer);
        }
    }
    serving.is_done = true;
}

/// One answer for each. If there is none for all together, each is asked for alone: one may be to blame.
async fn answers(
    puppet: &Puppet,
    resources: &[Apply],
    noop: bool,
    patience: Duration,
) -> Vec<Result<Applied, Arc<PuppetError>>> {
    let error = match puppet.apply(resources, noop, patience).await {
        Ok(applied) => return applied.into_iter().map(Ok).collect(),
        Err(error) => error,
    };
    if resources.len() == 1 || matches!(error, PuppetError::Missing(_) | PuppetError::NotStarted { .. }) {
        let error = Arc::new(error);
        return resources.iter().map(|_| Err(Arc::clone(&error))).collect();
    }
    let mut answers = Vec::with_capacity(resources.len());
    for resource in resources {
        let one = puppet.apply(std::slice::from_ref(resource), noop, patience).await;
        answers.push(match one.map(|mut applied| applied.pop()) {
            Ok(Some(applied)) => Ok(applied),
            Ok(None) => Err(Arc::new(PuppetError::Confused("it tells of nothing".to_owned()))),
            Err(error) => Err(Arc::new(error)),
        });
    }
    answers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(queue: &Queue, kind: &str, title: &str) -> oneshot::Receiver<Result<Applied, Arc<PuppetError>>> {
        let (answer, answered) = oneshot::channel();
        let resource = Apply {
            kind: kind.to_owned(),
            title: title.to_owned(),
            parameters: serde_json::json!({}),
            sensitive: Vec::new(),
            refresh: false,
            context: Vec::new(),
        };
        queue.push(Asked { resource, noop: false, patience: Duration::ZERO, answer });
        answered
    }

    fn titles(queue: &Queue) -> Vec<String> {
        queue.pop().unwrap_or_default().into_iter().map(|asked| asked.resource.title).collect()
    }

    #[test]
    fn those_of_one_type_go_together_and_the_longest_waiting_first() {
        let queue = Queue::default();
        let kept = [
            ask(&queue, "host", "a"),
            ask(&queue, "exec", "b"),
            ask(&queue, "Host", "c"),
            ask(&queue, "exec", "d"),
            ask(&queue, "user", "e"),
        ];
        // Whoever has gone is left out.
        drop(ask(&queue, "host", "gone"));
        assert_eq!(titles(&queue), ["a", "c"]);
        assert_eq!(titles(&queue), ["b"]);
        assert_eq!(titles(&queue), ["d"]);
        assert_eq!(titles(&queue), ["e"]);
        assert!(queue.pop().is_none());
        drop(kept);
    }

    #[test]
    fn what_is_given_at_once_is_bounded() {
        let queue = Queue::default();
        let kept: Vec<_> = (0..MOST + 1).map(|number| ask(&queue, "host", &number.to_string())).collect();
        assert_eq!(titles(&queue).len(), MOST);
        assert_eq!(titles(&queue), [MOST.to_string()]);
        drop(kept);
    }
}
