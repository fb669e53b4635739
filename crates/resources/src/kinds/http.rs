//! The family `http:server`: a web server, and what it serves.
//!
//! [`HttpServer`] listens. Every other kind of the family makes an offer: a file, a flag that is raised by a request, a page
//! with inputs, another server's files. The `board` is where both meet: offers are put up there by those who
//! make them, and a request is answered by the offer that fits best. So an offer may come, change and go while
//! the server goes on listening, and it makes no difference to those outside whether the engine runs offers
//! together with their server or apart from it.
//!
//! ```text
//!   check and apply ─▶ board ◀── serve ◀── listen ◀── clients
//!          ▲             │
//!          └── events ◀──┘          a flag was posted, an input was changed
//! ```
//!
//! Invariants
//! - Nothing listens before the server's first run that may change something, and a server that has run listens.
//! - A listener, and an offer, is gone soon after its resource has left the graph; it stays when only the declaration is
//!   another.
//! - Everything that a client can make us keep is bounded: connections, the head and the body of a request, the time for
//!   each, the time for which nothing of an answer is taken.
//! - A file is opened relative to the handle of its directory and never through a link that is in the way, so that no
//!   request leaves the directory that it is for.
//!
//! Deliberately absent: TLS, host names as addresses, lists of directories, and any notion of who may ask for what.

mod board;
mod clients;
mod content;
mod file;
mod flag;
mod input;
mod listen;
mod proxy;
mod reply;
mod request;
mod serve;
mod server;
mod ui;

pub use file::HttpServerFile;
pub use flag::{HttpServerFlag, HttpServerFlagSends};
pub use input::{HttpServerUiInput, HttpServerUiInputSends};
pub use proxy::HttpServerProxy;
pub use server::HttpServer;
pub use ui::{HttpServerUi, HttpServerUiData};

use mgmt_resource::{Identity, Invalid, Order, Want};
use mgmt_value::Str;

/// What a server is to the offers that name it.
fn identity(server: &Str) -> Identity {
    Identity::Other("http:server", server.clone())
}

/// The place of an offer: before the server that it names. One that takes any server is grouped with it, and needs none.
fn before_server(server: &Str) -> Vec<Want> {
    match server.is_empty() {
        true => Vec::new(),
        false => vec![Want::First(Order::After, vec![identity(server)])],
    }
}

/// A parameter that stands for the name if it is not given.
fn or_name<'a>(parameter: &'a Str, name: &'a Str) -> &'a Str {
    if parameter.is_empty() { name } else { parameter }
}

/// Checks the public path of an offer.
fn check_public(field: &'static str, path: &Str, directory: bool) -> Result<(), Invalid> {
    let hint = "the path is what stands behind the server's address in a link, for example `/example/`";
    if !path.starts_with(b"/") {
        let message = format!("expected a path that begins with a slash, found {path:?}");
        return Err(Invalid::field(field, message).with_hint(hint));
    }
    if directory && !path.ends_with(b"/") {
        let message = format!("expected a path that ends with a slash, found {path:?}");
        return Err(Invalid::field(field, message).with_hint(hint));
    }
    if request::cleaned(path) != path.as_bytes() {
        let message = format!(
            "no request has the path {path:?}: requests for paths with `//`, `.` or `..` are sent to the plain path"
        );
        return Err(Invalid::field(field, message));
    }
    Ok(())
}

/// A lock whose holder panicked is taken all the same: what is in it is changed in one step.
fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
