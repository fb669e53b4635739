//! The description of one function.

use std::fmt;
use std::sync::OnceLock;

use mgmt_value::{Type, Value};

use crate::{BadSignature, Failure, Form, Host, Memory, Watch};

/// A function of the language: what is known about it, and its body.
pub struct Function {
    /// The import path of its module, `golang/strings` for example; the top level is the empty text.
    pub module: &'static str,
    /// Its name within the module.
    pub name: &'static str,
    /// What it is declared with. See [`Function::forms`] for what it means.
    pub declared: Signature,
    /// Text for the reference page, in Markdown. The first paragraph is a summary.
    pub doc: &'static str,
    /// What it depends on besides its arguments.
    pub effect: Effect,
    /// Whether its forms are all that the type checker has to know.
    pub inference: Inference,
    /// What it does.
    pub body: Body,
    forms: OnceLock<Vec<Form>>,
}

/// How the signature is given: as text, or by the Rust types.
pub enum Signature {
    /// `func(?1) int where ?1 is str | list | map`
    Text(&'static str),
    /// One form without variables.
    Native(fn() -> Form),
}

/// What a result depends on besides the arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Nothing: it may be called while compiling.
    Pure,
    /// On the outside world, which does not tell when it changes.
    Reads,
    /// On the outside world, which tells.
    Live,
}

/// Who finds the type of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Inference {
    /// The forms say everything.
    Forms,
    /// A static format text says how many values follow, and of what types: [`printf_verbs`](crate::printf_verbs).
    Printf,
    /// A static second argument is the text of the type of the result.
    DecodeJson,
    /// The second argument may have any type, or be missing.
    Template,
}

/// What a function does. All arguments have been checked against one of the forms.
pub enum Body {
    /// A value from values.
    Pure(fn(&[Value]) -> Result<Value, Failure>),
    /// A value from values and from the type that the checker found for the result: the forms leave it open.
    Typed(fn(&Type, &[Value]) -> Result<Value, Failure>),
    /// Looks at the outside world. `nil` says that there is no value yet.
    Host(fn(&mut Memory, &dyn Host, &[Value]) -> Result<Value, Failure>),
    /// Looks at the outside world whenever one of the watches tells of a change. `nil` says that there is no value yet:
    /// the node waits for the next event.
    Live {
        /// What wakes it. Asked again when the arguments change.
        watches: fn(&[Value]) -> Result<Vec<Watch>, Failure>,
        /// Its value now.
        read: fn(&mut Memory, &dyn Host, &[Value]) -> Result<Value, Failure>,
    },
    /// Built by the runtime from function values.
    Graph(GraphFunction),
}

/// The functions that call other functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GraphFunction {
    /// `iter.map`
    Map,
    /// `iter.filter`
    Filter,
    /// `iter.reduce`
    Reduce,
    /// `iter.zip`
    Zip,
}

impl Function {
    pub(crate) const fn declared(
        module: &'static str,
        name: &'static str,
        declared: Signature,
        doc: &'static str,
        effect: Effect,
        inference: Inference,
        body: Body,
    ) -> Function {
        Function { module, name, declared, doc, effect, inference, body, forms: OnceLock::new() }
    }

    /// The ways in which it can be called. Variables are numbered per form.
    pub fn forms(&self) -> &[Form] {
        // A signature that cannot be read would be a function that cannot be called. A test reads them all.
        self.forms.get_or_init(|| self.read_forms().unwrap_or_default())
    }

    pub(crate) fn read_forms(&self) -> Result<Vec<Form>, BadSignature> {
        match self.declared {
            Signature::Text(text) => Form::parse_all(text),
            Signature::Native(form) => Ok(vec![form()]),
        }
    }

    /// The signature for people: every form, separated by ` | `.
    pub fn signature(&self) -> String {
        self.forms().iter().map(Form::to_string).collect::<Vec<_>>().join(" | ")
    }

    /// The full name, as in `net/http.response`.
    pub fn full_name(&self) -> String {
        match self.module {
            "" => self.name.to_owned(),
            module => format!("{module}.{}", self.name),
        }
    }

    /// The name under which templates can call it, as in `golang_strings_join`: those whose type says everything.
    pub fn template_name(&self) -> Option<String> {
        let fixed = matches!(self.forms(), [form] if !form.variadic && form.is_closed());
        let callable = matches!(self.body, Body::Pure(_) | Body::Host(_));
        (fixed && callable && !self.name.starts_with('_'))
            .then(|| format!("{}_{}", self.module.replace('/', "_"), self.name))
    }

    /// The examples of the docs. The module's own import is put in front where the example leaves it out.
    pub fn examples(&self) -> Vec<Example> {
        let mut examples = Vec::new();
        let mut lines = self.doc.lines();
        while let Some(line) = lines.next() {
            let Some(fence) = line.trim().strip_prefix("```") else { continue };
            let mut example: Vec<&str> = lines.by_ref().take_while(|line| line.trim() != "```").collect();
            let Some(promise) = Promise::of(fence) else { continue };
            let import = format!("import \"{}\"", self.module);
            let needs_import = !self.module.is_empty() && self.module != "_operator";
            if needs_import && !example.iter().any(|line| line.starts_with(&import)) {
                example.insert(0, &import);
            }
            examples.push(Example { promise, text: example.join("\n") });
        }
        examples
    }
}

/// An example of the docs: `import` lines, and then expressions, one per line, or a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Example {
    /// What holds for it.
    pub promise: Promise,
    /// What is written.
    pub text: String,
}

/// What an example shows. A test runs them all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// Every expression is true: ` ```mcl `.
    True,
    /// Every expression has a value, and which one depends on the host: ` ```mcl,host `.
    Value,
    /// Every expression is an error: ` ```mcl,fails `.
    Failure,
    /// It is a program that runs: ` ```mcl,program `.
    Program,
}

impl Promise {
    /// What the mark of a block of code promises, if it is an example.
    fn of(fence: &str) -> Option<Promise> {
        match fence {
            "mcl" => Some(Promise::True),
            "mcl,host" => Some(Promise::Value),
            "mcl,fails" => Some(Promise::Failure),
            "mcl,program" => Some(Promise::Program),
            _ => None,
        }
    }
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.full_name(), self.signature())
    }
}
