//! `golang` and the modules below it, which follow the standard library of Go.

use std::cell::Cell;

use mgmt_funcs_derive::function;
use mgmt_value::{Str, Value};

use crate::declare::{arity, module};
use crate::{Failure, Host, Memory, template as engine};

pub(crate) mod exec;
pub(crate) mod filepath;
pub(crate) mod html;
pub(crate) mod math;
pub(crate) mod os;
pub(crate) mod path;
pub(crate) mod rand;
pub(crate) mod runtime;
pub(crate) mod strconv;
pub(crate) mod strings;

module! {
    path: "golang",
    doc: "Templates. The functions of Go's standard library are in the modules below this one.",
    functions: [template],
}

/// Text from a template in the language of Go's `text/template`, with a value as its dot.
///
/// A struct is a map whose keys begin with a capital: `{{ .Name }}` is the field `name`. Maps with text as keys keep them. All
/// functions that are not polymorphic and have no events can be called, with `_` in the places of `.` and `/`:
/// `{{ golang_strings_join .Names ", " }}`. A key that is missing, and any other mistake, is a fatal error; a catchable error of
/// a function that is called stays catchable.
///
/// ```mcl
/// golang.template("hello {{ . }}", "world") == "hello world"
/// golang.template("{{ range .Names }}<{{ . }}>{{ end }}", struct{names => ["a", "b",],}) == "<a><b>"
/// golang.template("{{ math_minus1 43 }}") == "42"
/// ```
#[function(reads, inference = Template, signature = "func(template str) str | func(template str, vars ?1) str")]
fn template(memory: &mut Memory, host: &dyn Host, arguments: &[Value]) -> Result<Str, Failure> {
    let has_read = Cell::new(false);
    let text = match arguments {
        [Value::Str(template)] => engine::run(host, &has_read, template, None),
        [Value::Str(template), vars] => engine::run(host, &has_read, template, Some(vars)),
        arguments => Err(arity(2, arguments.len())),
    };
    memory.reads_host(has_read.get());
    text
}
