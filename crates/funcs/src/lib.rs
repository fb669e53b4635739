//! The functions of the language.
//!
//! The central type is [`Function`]: one description with a name, a signature, docs with examples, and a body. It is
//! written once, as a Rust function with the attribute `#[function]`, and everything else reads that one description:
//! the type checker ([`Function::forms`]), the runtime ([`Function::body`]), reference pages, completion and hover.
//! [`library`] finds them by module and name.
//!
//! ```text
//!   modules/strings.rs      #[function] fn split(…)        one Rust function per function of the language
//!                           module! { path: "strings", … } one list per file
//!   modules.rs              one line per module
//! ```
//!
//! Invariants
//! - A pure function always answers the same to the same arguments, so it may be called while compiling. (The time zone
//!   of the process, which `datetime` uses, does not change while it runs.)
//! - What a function needs from outside it gets through [`Host`] or from the system at the moment of the call. It keeps
//!   nothing between calls except in the [`Memory`] of its node. What may block is asked through `look`, with a deadline.
//! - What wakes a live function is data, a list of [`Watch`]es. Equal watches can share one source of events.
//! - A [`Failure`] is either catchable by `<|>` or ends the program. No argument makes a function panic.
//! - Text is bytes; a function that needs characters says what happens to the rest.
//!
//! Deliberately absent: the sources of events behind the watches, the graph, and inference. Those functions for which a
//! signature is not enough are marked with [`Inference`], and the static half of `fmt.printf` is here: [`printf_verbs`].

mod declare;
mod failure;
mod function;
mod host;
mod layout;
mod library;
mod look;
mod modules;
mod numbers;
mod operators;
mod paths;
mod printf;
mod quote;
mod random;
mod signature;
mod template;
mod text;
mod watch;
mod zero;

pub use failure::Failure;
pub use function::{Body, Effect, Example, Function, GraphFunction, Inference, Promise, Signature};
pub use host::{Export, FileKind, Host, Memory, Response};
pub use library::{Constant, Library, Module, library};
pub use look::{
    DEFAULT_READ_LIMIT, LOOK_DEADLINE, Wake, answers, forget, read_deployed, set_read_limit, touch,
    wake_on_answers,
};
pub use printf::{BadFormat, Verb, VerbAt, printf_verbs};
pub use signature::{BadSignature, Form, Limit, Parameter, Shape};
pub use watch::{Watch, until_midnight};
