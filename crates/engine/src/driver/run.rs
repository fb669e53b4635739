//! One run of a vertex: everything that it needs goes in, everything that comes of it comes out, no lock between.

use std::any::Any;
use std::convert::Infallible;
use std::future::Future;
use std::num::NonZeroU64;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context as TaskContext, Poll};
use std::time::{Duration, Instant};

use mgmt_resource::{
    Cancel, Checked, Child, Context, Effect, Effects, Error, Foreseen, Host, Received, Resource, Result,
    Sent, Spec, Stage, Watch,
};

use mgmt_sys::made::{Made, noting};
use mgmt_sys::unresponsive::{has_served_mounts, unresponsive_mount};
use tokio::runtime::Handle;

use crate::core::{Pool, Run, Vertex};
use crate::{Export, reversal};

/// How often a run that depends on a choice looks whether this host is still chosen, and until when.
const CHOICE_INTERVAL: Duration = Duration::from_millis(100);

/// What a member of a vertex brings to a run. The vertex itself is the first member; a group has more.
pub(super) struct Member {
    /// The declared resource with received values laid over it.
    pub(super) effective: Arc<dyn Resource>,
    pub(super) received: Vec<Received>,
    pub(super) state: Option<Box<dyn Any + Send>>,
}

/// A run to do: what is to be done, and with whom.
pub(super) struct Job {
    pub(super) order: Order,
    pub(super) members: Vec<Member>,
}

/// What is to be done. Apart from the members, because those belong to one thread at a time.
pub(super) struct Order {
    pub(super) run: Run,
    pub(super) spec: Arc<Spec>,
    pub(super) cancel: Cancel,
    pub(super) host: Arc<Host>,
    pub(super) export: Option<Arc<dyn Export>>,
    /// Take the snapshot that can undo this resource first.
    pub(super) snapshot: bool,
    /// While a plan is made: what those before it will have done.
    pub(super) foreseen: Option<Arc<Foreseen>>,
}

/// A run that is done.
pub(super) struct Done {
    pub(super) vertex: Vertex,
    /// It was of a kind that waits.
    pub(super) waits: bool,
    pub(super) members: Vec<Member>,
    pub(super) result: Result<Checked>,
    /// What each member sent.
    pub(super) sent: Vec<Option<Sent>>,
    /// What members changed: the member, and what it said.
    pub(super) effects: Vec<(usize, Vec<Effect>)>,
    pub(super) rearm: bool,
    pub(super) took: Duration,
    /// Which files came to be, as far as that is known.
    pub(super) made: Made,
}

/// What a run says besides how it ended.
#[derive(Default)]
struct Told {
    sent: Vec<Option<Sent>>,
    effects: Vec<(usize, Vec<Effect>)>,
    rearm: bool,
}

impl Job {
    /// Does it.
    pub(super) async fn run(self) -> Done {
        let Job { order, mut members } = self;
        let began = Instant::now();
        let mut told = Told::default();
        let result = CatchUnwind(Box::pin(order.check_apply(&mut members, &mut told))).await;
        let took = began.elapsed();
        let Told { sent, effects, rearm } = told;
        let waits = order.run.pool == Pool::Waiting;
        let vertex = order.run.vertex;
        Done { vertex, waits, members, result, sent, effects, rearm, took, made: Made::Nothing }
    }
}

impl Job {
    /// Does it, and asks it to stop as soon as this host is no longer chosen for it.
    pub(super) async fn run_while_chosen(self) -> Done {
        let (spec, cancel, host) =
            (Arc::clone(&self.order.spec), self.order.cancel.clone(), Arc::clone(&self.order.host));
        if spec.choices.is_empty() {
            return self.run().await;
        }
        let choice = Choice::new(&cancel);
        tokio::select! {
            // The deadline is known before a command starts that it is for.
            biased;
            never = choice.follow(&spec, &cancel, &host) => match never {},
            done = self.run() => done,
        }
    }

    /// Does it here and now, on a thread that does nothing else meanwhile.
    pub(super) fn run_here(self, runtime: &Handle) -> Done {
        let (done, made) = noting(|| runtime.block_on(self.run()));
        Done { made, ..done }
    }
}

impl Order {
    async fn check_apply(&self, members: &mut [Member], told: &mut Told) -> Result<Checked> {
        if let Some(export) = &self.export
            && self.run.apply
        {
            for spec in std::iter::once(&*self.spec).chain(&self.spec.children) {
                if !spec.meta.export.is_empty() {
                    export.export(spec)?;
                }
            }
        }
        if self.cancel.stage() > Stage::Run {
            return Err(Error::Cancelled);
        }
        if self.spec.meta.hidden {
            return Ok(Checked::Right);
        }
        if let Some(lost) = lost_choice(&self.spec, &self.host) {
            return Err(Error::new(format_args!("this host is no longer chosen for the schedule {lost:?}"))
                .with_hint("it runs again when the host is chosen again and the program declares it"));
        }
        for (spec, member) in self.specs().zip(members.iter()) {
            if !member.received.is_empty() {
                member
                    .effective
                    .validate(&spec.id.name)
                    .map_err(|invalid| Error::new(invalid.to_string()))?;
            }
        }
        if self.snapshot && self.run.apply {
            reversal::store(&self.host.state, &self.spec)?;
        }
        if self.spec.resource.schema().traits.batch {
            // Copies, because a member's state may not be looked at from another thread.
            let others: Vec<(Arc<dyn Resource>, Vec<Received>)> =
                members.iter().skip(1).map(|m| (Arc::clone(&m.effective), m.received.clone())).collect();
            let children = self.spec.children.iter().zip(&others);
            let children: Vec<Child<'_>> = children
                .map(|(spec, (resource, received))| Child { id: &spec.id, resource: &**resource, received })
                .collect();
            let Some(first) = members.first_mut() else { return Ok(Checked::Right) };
            return self.check_one((0, &self.spec), first, &children, told).await;
        }
        let mut checked = Checked::Right;
        for (spec, member) in self.specs().enumerate().zip(members) {
            checked = checked.and(self.check_one(spec, member, &[], told).await?);
        }
        Ok(checked)
    }

    fn specs(&self) -> impl Iterator<Item = &Spec> {
        std::iter::once(&*self.spec).chain(&self.spec.children)
    }

    async fn check_one(
        &self,
        (index, spec): (usize, &Spec),
        member: &mut Member,
        children: &[Child<'_>],
        told: &mut Told,
    ) -> Result<Checked> {
        let mut cx = Context {
            id: &spec.id,
            meta: &spec.meta,
            apply: self.run.apply,
            refresh: self.run.refresh,
            received: &member.received,
            cancel: &self.cancel,
            host: &self.host,
            children,
            sent: None,
            rearm: false,
            effects: Effects::default(),
            foreseen: self.foreseen.as_deref(),
        };
        answers(&*member.effective, spec)?;
        let state = member.state.get_or_insert_with(|| member.effective.new_state());
        let result = member.effective.check_apply(&mut **state, &mut cx).await;
        told.rearm |= cx.rearm;
        told.sent.push(cx.sent);
        // What was described and came to nothing is no change. What was done before it failed may be one.
        if !matches!(result, Ok(Checked::Right | Checked::Forwarded)) {
            let mut effects = cx.effects.take();
            if effects.is_empty() && result.is_ok() {
                effects.push(Effect::change(&spec.id));
            }
            if !effects.is_empty() {
                told.effects.push((index, effects));
            }
        }
        result
    }
}

/// The schedule for which this host is no longer chosen, if a resource depends on one.
fn lost_choice<'s>(spec: &'s Spec, host: &Host) -> Option<&'s mgmt_value::Str> {
    spec.choices.iter().find(|name| host.shared.is_chosen(name).is_none())
}

/// What a run depends on that this host was chosen for. Dropping it tells the watchdog.
struct Choice(NonZeroU64);

impl Choice {
    fn new(cancel: &Cancel) -> Choice {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let choice = Choice(NonZeroU64::new(number).unwrap_or(NonZeroU64::MIN));
        cancel.depend_on_choice(choice.0);
        choice
    }

    /// Cancels the run when this host is no longer chosen, and tells the watchdog until when it is.
    async fn follow(&self, spec: &Spec, cancel: &Cancel, host: &Host) -> Infallible {
        loop {
            let chosen = spec.choices.iter().map(|name| host.shared.is_chosen(name));
            // The earliest end; none if one is over.
            match chosen.collect::<Option<Vec<_>>>() {
                Some(ends) => {
                    mgmt_sys::process::set_choice_deadline(self.0.get(), ends.into_iter().flatten().min());
                }
                None => {
                    tracing::info!(target: "mgmt::engine", resource = %spec.id, "this host is no longer chosen: cancelling");
                    cancel.raise(Stage::Cancel);
                    return std::future::pending().await;
                }
            }
            tokio::time::sleep(CHOICE_INTERVAL).await;
        }
    }
}

impl Drop for Choice {
    fn drop(&mut self) {
        mgmt_sys::process::set_choice_deadline(self.0.get(), None);
    }
}

/// Fails if something that a resource watches is on a mount whose server does not answer: the run would block its thread for ever.
fn answers(resource: &dyn Resource, spec: &Spec) -> Result<()> {
    if !has_served_mounts() {
        return Ok(());
    }
    for watch in resource.watches(&spec.id.name) {
        if let Watch::Path { path, .. } = watch
            && let Some(mount) = unresponsive_mount(&path)
        {
            let mount = mgmt_value::Str::from(mount);
            return Err(Error::new(format_args!("the file system at {} does not answer", mount.display()))
                .with_hint("is its server running? The resource is run again when it answers"));
        }
    }
    Ok(())
}

/// Turns a panic into an error: one broken resource must not end the program, nor go unheard.
pub(super) struct CatchUnwind<F>(pub(super) F);

impl<T, F: Future<Output = Result<T>> + Unpin> Future for CatchUnwind<F> {
    type Output = Result<T>;

    fn poll(mut self: std::pin::Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Result<T>> {
        let inner = &mut self.0;
        std::panic::catch_unwind(AssertUnwindSafe(|| std::pin::Pin::new(inner).poll(cx))).unwrap_or_else(
            |panic| {
                Poll::Ready(Err(Error::new(format_args!("panicked: {}", mgmt_value::panic_words(&*panic)))))
            },
        )
    }
}
