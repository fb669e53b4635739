//! `example/nested`

use mgmt_funcs_derive::function;

use crate::declare::module;

module! {
    path: "example/nested",
    doc: "A module within a module.",
    functions: [hello],
}

/// A greeting.
///
/// ```mcl
/// nested.hello() == "Hello!"
/// ```
#[function]
fn hello() -> String {
    "Hello!".to_owned()
}
