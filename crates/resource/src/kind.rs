//! The contract between a kind and the engine.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use mgmt_value::{Mismatch, Str, Value};
use tokio::sync::oneshot;

use crate::schema::{Declared, Fields};
use crate::{Cancel, Context, Error, Identity, Result, Schema, Want};

/// A kind of resource. The struct is what a person declares; this is what it means.
///
/// Only [`validate`](Kind::validate) and [`check_apply`](Kind::check_apply) are required. The traits listed in the
/// derive's attribute say which of the others the engine calls.
pub trait Kind: Declared + Clone + PartialEq + fmt::Debug + Send + Sync + 'static {
    /// What is remembered from one run to the next: a cache, the last text printed. Dropped with the vertex.
    type State: Default + Send + 'static;

    /// The values that it sends; [`crate::Nothing`] for most.
    type Sends: Fields;

    /// Checks the parameters. Looks at nothing but the parameters: no file, no clock, no other resource.
    fn validate(&self, name: &Str) -> Result<(), Invalid>;

    /// What its state depends on. An empty list means that it is checked once, and again when told to.
    fn watches(&self, name: &Str) -> Vec<Watch> {
        let _ = name;
        Vec::new()
    }

    /// Looks whether the state is right and, if [`Context::apply`] says so, makes it right.
    fn check_apply(
        &self,
        state: &mut Self::State,
        cx: &mut Context<'_>,
    ) -> impl Future<Output = Result<Checked>> + Send;

    /// Trait `blocking`: whether this one only makes system calls. One that may wait for somebody else, such as a server, says no,
    /// so that no thread waits with it.
    fn blocks(&self) -> bool {
        true
    }

    /// What becomes of a run that is under way when the resource leaves the graph.
    fn on_leave(&self) -> OnLeave {
        OnLeave::Finish
    }

    /// What becomes of a run that is under way when the program is asked to end for the first time.
    fn on_stop(&self) -> OnLeave {
        OnLeave::Finish
    }

    /// Trait `edges`: what it is, for others to find.
    fn provides(&self, name: &Str) -> Vec<Identity> {
        let _ = name;
        Vec::new()
    }

    /// Trait `edges`: what it wants to stand before or after.
    fn wants(&self, name: &Str) -> Vec<Want> {
        let _ = name;
        Vec::new()
    }

    /// Absolute paths that it makes, edits or reads. A resource that purges or tidies a directory leaves them alone, with all below them.
    /// Unless a kind knows better, those are the paths that it watches.
    fn claimed_paths(&self, name: &Str) -> Vec<Str> {
        let path = |watch| match watch {
            Watch::Path { path, .. } => Some(path),
            _ => None,
        };
        Kind::watches(self, name).into_iter().filter_map(path).collect()
    }

    /// Trait `group`: whether `other` may be served together with this one. Both ends are asked only this way
    /// round: `self` is the future parent.
    fn groups_with(&self, other: &dyn Resource) -> bool {
        let _ = other;
        false
    }

    /// Trait `group`: whether another resource of the kind groups with the same others as this one, whoever takes in whom:
    /// then one can take the place of the other in a group, or outside of one.
    fn groups_alike(&self, other: &Self) -> bool {
        let _ = other;
        false
    }

    /// Trait `reverse`: the resource that undoes this one, as the host is now. `None`: nothing to undo.
    fn reversed(&self, name: &Str) -> Result<Option<Self>> {
        let _ = name;
        Ok(None)
    }

    /// Trait `background`: work for all resources of the kind together, while at least one of them is in the graph. No
    /// new resource is watched before the worker has said that it is ready. It ends soon after it is cancelled; an error
    /// ends the program.
    fn background(work: Background) -> impl Future<Output = Result<()>> + Send + 'static {
        drop(work);
        std::future::ready(Ok(()))
    }

    /// The same declaration in another spelling. Equality of parameters unless a kind knows better.
    fn equivalent(&self, name: &Str, other: &Self) -> bool {
        let _ = name;
        self == other
    }

    /// One declaration that fulfils both, where the same resource may be declared twice in different ways: a package
    /// that is to be installed and to be the newest is to be the newest. `None`: both cannot be had, which is an error
    /// unless they are [equivalent](Kind::equivalent). The order of the two does not matter.
    fn merged(&self, name: &Str, other: &Self) -> Option<Self> {
        let _ = (name, other);
        None
    }
}

/// What becomes of a run that is under way when its resource leaves the graph, or the program ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnLeave {
    /// It goes on to its end: half of the work would be worse than all of it.
    #[default]
    Finish,
    /// It is asked to stop, as by the metaparameter `timeout`.
    Cancel,
}

/// What a run found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checked {
    /// The state was right. Nothing was done.
    Right,
    /// The state was wrong, and has been made right — or would have been, when only looking.
    Changed,
    /// The state was right, and what comes after it is notified as if it had changed: a notification that is passed on, a tick, a message.
    Forwarded,
}

impl Checked {
    /// Of both: `Changed` if either is, and `Forwarded` rather than `Right`.
    #[must_use]
    pub fn and(self, other: Checked) -> Checked {
        match (self, other) {
            (Checked::Right, other) => other,
            (Checked::Forwarded, Checked::Changed) => other,
            _ => self,
        }
    }
}

/// A parameter that cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// Which one, if it is about one.
    pub field: Option<&'static str>,
    /// What is wrong, and what was expected.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Invalid {
    /// Something about one parameter.
    pub fn field(field: &'static str, message: impl Into<String>) -> Invalid {
        Invalid { field: Some(field), message: message.into(), hint: None }
    }

    /// Something about the whole.
    pub fn new(message: impl Into<String>) -> Invalid {
        Invalid { field: None, message: message.into(), hint: None }
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn with_hint(self, hint: impl Into<String>) -> Invalid {
        Invalid { hint: Some(hint.into()), ..self }
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.field {
            Some(field) => write!(f, "`{field}`: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

/// Something that a resource's state depends on.
#[derive(Clone)]
pub enum Watch {
    /// A path; with all below it if recursive.
    Path {
        /// The path.
        path: Str,
        /// Everything below it too.
        recursive: bool,
    },
    /// Time passes.
    Interval(Duration),
    /// A source of its own. The key tells whether two declarations mean the same source.
    Stream {
        /// Compared instead of the function.
        key: Str,
        /// Starts it.
        start: StartStream,
    },
}

impl PartialEq for Watch {
    fn eq(&self, other: &Watch) -> bool {
        match (self, other) {
            (Watch::Path { path: a, recursive: x }, Watch::Path { path: b, recursive: y }) => {
                a == b && x == y
            }
            (Watch::Interval(a), Watch::Interval(b)) => a == b,
            (Watch::Stream { key: a, .. }, Watch::Stream { key: b, .. }) => a == b,
            _ => false,
        }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Watch::Path { path, recursive } => write!(f, "Path({path:?}, recursive: {recursive})"),
            Watch::Interval(interval) => write!(f, "Interval({interval:?})"),
            Watch::Stream { key, .. } => write!(f, "Stream({key:?})"),
        }
    }
}

/// Starts a source of events.
pub type StartStream = Arc<dyn Fn(&crate::Host) -> Result<Box<dyn WatchStream>> + Send + Sync>;

/// A source of events that no hub offers.
pub trait WatchStream: Send {
    /// Waits for the next event. An error ends the watch; the engine then retries as the metaparameters say.
    fn next<'a>(&'a mut self, cancel: &'a Cancel) -> Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>>;
}

/// What a background worker gets.
pub struct Background {
    /// The program around it.
    pub host: Arc<crate::Host>,
    /// Ends the worker.
    pub cancel: Cancel,
    ready: Option<oneshot::Sender<()>>,
}

impl Background {
    /// A worker's part, and what tells when it is ready. That fails if the worker ends before.
    pub fn new(host: Arc<crate::Host>, cancel: Cancel) -> (Background, oneshot::Receiver<()>) {
        let (ready, told) = oneshot::channel();
        (Background { host, cancel, ready: Some(ready) }, told)
    }

    /// Says that resources of the kind may start.
    pub fn ready(&mut self) {
        if let Some(ready) = self.ready.take() {
            // Whoever started us may have stopped waiting.
            let _ = ready.send(());
        }
    }
}

/// A resource whose kind is only known at run time. Implemented by every [`Kind`].
pub trait Resource: fmt::Debug + Send + Sync + 'static {
    /// The kind's schema.
    fn schema(&self) -> &'static Schema;
    /// Reads a parameter.
    fn get(&self, field: &str) -> Option<Value>;
    /// Stores a parameter. `None`: there is no such parameter.
    fn set(&mut self, field: &str, value: &Value) -> Option<Result<(), Mismatch>>;
    /// Copies it.
    fn boxed_clone(&self) -> Box<dyn Resource>;
    /// Whether both declare the same.
    fn same_as(&self, name: &Str, other: &dyn Resource) -> bool;
    /// See [`Kind::merged`]. `None` too if the other is of another kind.
    fn merged(&self, name: &Str, other: &dyn Resource) -> Option<Box<dyn Resource>>;
    /// The struct itself.
    fn as_any(&self) -> &dyn Any;
    /// See [`Kind::validate`].
    fn validate(&self, name: &Str) -> Result<(), Invalid>;
    /// See [`Kind::watches`].
    fn watches(&self, name: &Str) -> Vec<Watch>;
    /// An empty [`Kind::State`].
    fn new_state(&self) -> Box<dyn Any + Send>;
    /// See [`Kind::check_apply`].
    fn check_apply<'a>(
        &'a self,
        state: &'a mut (dyn Any + Send),
        cx: &'a mut Context<'_>,
    ) -> Pin<Box<dyn Future<Output = Result<Checked>> + Send + 'a>>;
    /// See [`Kind::blocks`].
    fn blocks(&self) -> bool;
    /// See [`Kind::on_leave`].
    fn on_leave(&self) -> OnLeave;
    /// See [`Kind::on_stop`].
    fn on_stop(&self) -> OnLeave;
    /// See [`Kind::provides`].
    fn provides(&self, name: &Str) -> Vec<Identity>;
    /// See [`Kind::wants`].
    fn wants(&self, name: &Str) -> Vec<Want>;
    /// See [`Kind::claimed_paths`].
    fn claimed_paths(&self, name: &Str) -> Vec<Str>;
    /// See [`Kind::groups_with`].
    fn groups_with(&self, other: &dyn Resource) -> bool;
    /// See [`Kind::groups_alike`]. Not if the other is of another kind.
    fn groups_alike(&self, other: &dyn Resource) -> bool;
    /// See [`Kind::reversed`].
    fn reversed(&self, name: &Str) -> Result<Option<Box<dyn Resource>>>;
    /// See [`Kind::background`].
    fn background(&self, work: Background) -> Pin<Box<dyn Future<Output = Result<()>> + Send>>;
}

impl<K: Kind> Resource for K {
    fn schema(&self) -> &'static Schema {
        schema_of::<K>()
    }

    fn get(&self, field: &str) -> Option<Value> {
        K::field(field).map(|spec| (spec.get)(self))
    }

    fn set(&mut self, field: &str, value: &Value) -> Option<Result<(), Mismatch>> {
        K::field(field).map(|spec| (spec.set)(self, value))
    }

    fn boxed_clone(&self) -> Box<dyn Resource> {
        Box::new(self.clone())
    }

    fn same_as(&self, name: &Str, other: &dyn Resource) -> bool {
        other.as_any().downcast_ref::<K>().is_some_and(|other| self.equivalent(name, other))
    }

    fn merged(&self, name: &Str, other: &dyn Resource) -> Option<Box<dyn Resource>> {
        let merged = Kind::merged(self, name, other.as_any().downcast_ref::<K>()?)?;
        Some(Box::new(merged))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn validate(&self, name: &Str) -> Result<(), Invalid> {
        Kind::validate(self, name)
    }

    fn watches(&self, name: &Str) -> Vec<Watch> {
        Kind::watches(self, name)
    }

    fn new_state(&self) -> Box<dyn Any + Send> {
        Box::new(K::State::default())
    }

    fn check_apply<'a>(
        &'a self,
        state: &'a mut (dyn Any + Send),
        cx: &'a mut Context<'_>,
    ) -> Pin<Box<dyn Future<Output = Result<Checked>> + Send + 'a>> {
        match state.downcast_mut::<K::State>() {
            Some(state) => Box::pin(Kind::check_apply(self, state, cx)),
            None => Box::pin(std::future::ready(Err(Error::new("the state belongs to another kind")))),
        }
    }

    fn blocks(&self) -> bool {
        Kind::blocks(self)
    }

    fn on_leave(&self) -> OnLeave {
        Kind::on_leave(self)
    }

    fn on_stop(&self) -> OnLeave {
        Kind::on_stop(self)
    }

    fn provides(&self, name: &Str) -> Vec<Identity> {
        Kind::provides(self, name)
    }

    fn wants(&self, name: &Str) -> Vec<Want> {
        Kind::wants(self, name)
    }

    fn claimed_paths(&self, name: &Str) -> Vec<Str> {
        Kind::claimed_paths(self, name)
    }

    fn groups_with(&self, other: &dyn Resource) -> bool {
        Kind::groups_with(self, other)
    }

    fn groups_alike(&self, other: &dyn Resource) -> bool {
        other.as_any().downcast_ref::<K>().is_some_and(|other| Kind::groups_alike(self, other))
    }

    fn reversed(&self, name: &Str) -> Result<Option<Box<dyn Resource>>> {
        Ok(Kind::reversed(self, name)?.map(|reversed| Box::new(reversed) as Box<dyn Resource>))
    }

    fn background(&self, work: Background) -> Pin<Box<dyn Future<Output = Result<()>> + Send>> {
        Box::pin(K::background(work))
    }
}

/// The schema of a kind.
pub fn schema_of<K: Kind>() -> &'static Schema {
    const {
        &Schema {
            kind: K::KIND,
            doc: K::DOC,
            file: K::FILE,
            fields: K::FIELDS,
            sends: <K::Sends as Fields>::FIELDS,
            traits: K::TRAITS,
            make: || Box::new(K::default()),
        }
    }
}
