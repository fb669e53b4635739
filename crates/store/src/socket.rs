//! Socket store: a store that another process has open, through a Unix socket of this host.
//!
//! The one who has the store [`serve`]s it; all others [`Socket::connect`] and have a store like any other. Every call is
//! a question and an answer: a length, then JSON. Following keys is asking again and again for what is new, so whoever
//! is slow slows down nobody else.
//!
//! Where two processes have another way to each other, one [`answer`]s there and the other has a [`Socket::over`] it.
//!
//! Who may ask: processes of the same user, and those of root. The kernel says who is at the other end.

mod client;
mod server;
pub(crate) mod wire;

pub use client::Socket;
pub use server::{Server, answer, serve};
