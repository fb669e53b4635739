//! The resource model: kinds, schemas, metaparameters and the resource graph.
//!
//! The central type is the trait [`Kind`]. A kind is one Rust struct that holds what a person declares: plain data, cloned and compared as a whole. The
//! derive reads its fields, their types, defaults and doc comments into a [`Schema`]; every front-end, the
//! reference pages and the stored forms work from that schema alone. The author writes one [`Kind`] impl beside
//! it: how to validate, what to watch, how to check and apply. A [`ResourceGraph`] is what every front-end makes of such declarations.
//!
//! ```text
//!   struct + derive  ──▶ Schema ──▶ type checker, YAML, Puppet, docs, completion, stored form
//!   impl Kind        ──▶ dyn Resource ──▶ engine
//! ```
//!
//! Invariants
//! - Parameters never change while a resource runs. What it remembers lives in [`Kind::State`]; what it receives
//!   from others lies over the declared parameters as a second copy, so comparing two declarations is comparing
//!   two structs, and no field can be forgotten.
//! - [`Kind::check_apply`] changes nothing when [`Context::apply`] is false.
//! - A kind says what it changes once ([`Context::describe`]), before it asks whether it may: log, history and plan tell
//!   the same.
//! - A watch is a value ([`Watch`]); no kind starts a thread or opens a descriptor to wait for events.
//! - An identity ([`Identity`]) is an enum, so equality of identities cannot be forgotten either.
//!
//! Deliberately absent: scheduling, retries, ordering. Those belong to the engine.

mod because;
mod context;
mod effect;
mod error;
mod graph;
mod host;
mod identity;
mod kind;
mod meta;
mod schema;
mod shared_store;
mod stored;
mod window;

pub use because::{Because, ChangedValue};
pub use context::{Cancel, Child, Context, Received, Sent, Stage, state_name};
pub use effect::{Action, Before, Effect, Effects, Foreseen, LONGEST_TEXT, Needed, Texts};
pub use error::{Error, Result, ResultExt};
pub use graph::{Edge, Id, Loudness, Origin, Receive, ResourceGraph, Spec};
pub use host::{GraphView, Host, ProgramFile, ProgramFileKind, ProgramFiles};
pub use identity::{Identity, Order, Want};
pub use kind::{
    Background, Checked, Invalid, Kind, OnLeave, Resource, StartStream, Watch, WatchStream, schema_of,
};
pub use meta::{Meta, SharedMeta};
pub use mgmt_resource_derive::{Fields, Resource, StructValue};
pub use schema::{Declared, FieldSpec, Fields, Nothing, Registry, Schema, Traits, did_you_mean};
pub use shared_store::{
    Offer, STOP_GRACE, Scope, SharedAnswer, SharedChanges, SharedStore, SharedStoreError, Strategy,
};
pub use stored::{StoredError, from_stored, to_stored};
pub use window::{Window, held};

/// What the derives expand to. Not for people.
#[doc(hidden)]
pub mod derive_support {
    pub use mgmt_value::{Mismatch, Native, Type, Value};

    /// Whether a field is secret. Its type and its attribute have to agree, or the kind does not compile: what is only called
    /// secret could be printed, and what only is one would be shown by those who ask the schema.
    ///
    /// ```
    /// use mgmt_resource::Fields;
    /// use mgmt_value::{Secret, Str};
    ///
    /// /// Something with a secret.
    /// #[derive(Clone, Default, Fields)]
    /// struct Account {
    ///     /// A password.
    ///     #[field(secret)]
    ///     password: Option<Secret<Str>>,
    /// }
    /// assert!(Account::FIELDS[0].secret);
    /// ```
    ///
    /// ```compile_fail,E0080
    /// # use mgmt_resource::Fields;
    /// # use mgmt_value::{Secret, Str};
    /// /// Something with a secret.
    /// #[derive(Clone, Default, Fields)]
    /// struct Account {
    ///     /// A password.
    ///     #[field(secret)]
    ///     password: Str,
    /// }
    /// # assert!(Account::FIELDS[0].secret);
    /// ```
    ///
    /// ```compile_fail,E0080
    /// # use mgmt_resource::Fields;
    /// # use mgmt_value::{Secret, Str};
    /// /// Something with a secret.
    /// #[derive(Clone, Default, Fields)]
    /// struct Account {
    ///     /// A password.
    ///     password: Secret<Str>,
    /// }
    /// # assert!(Account::FIELDS[0].secret);
    /// ```
    pub const fn agreed(is_secret: bool, is_called_secret: bool) -> bool {
        assert!(is_secret || !is_called_secret, "a field that is `secret` is a `mgmt_value::Secret`");
        assert!(!is_secret || is_called_secret, "a field that is a `Secret` needs `#[field(secret)]`");
        is_secret
    }
}
