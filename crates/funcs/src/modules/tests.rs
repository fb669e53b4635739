//! What holds for every function.

mod arbitrary;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::PathBuf;

use mgmt_state::LocalState;
use mgmt_value::{Str, Type, Value};

use crate::{Body, Effect, Export, Failure, Host, Memory, library};

/// A program that has nothing.
pub(crate) struct Nothing;

impl Host for Nothing {}

/// A program with a store of its own.
pub(crate) struct Stored {
    pub(crate) local: LocalState,
    _directory: tempfile::TempDir,
}

impl Stored {
    pub(crate) fn new() -> Stored {
        let directory = tempfile::tempdir().unwrap();
        let local = LocalState::open(directory.path().join("state")).unwrap();
        Stored { local, _directory: directory }
    }
}

impl Host for Stored {
    fn local(&self) -> Result<&LocalState, Failure> {
        Ok(&self.local)
    }
}

/// A program in a cluster that never changes.
pub(crate) struct Cluster;

impl Host for Cluster {
    fn world_string(&self, key: &Str) -> Result<Option<Str>, Failure> {
        Ok((*key == "here").then(|| Str::from("text")))
    }
    fn world_strings(&self, namespace: &Str) -> Result<BTreeMap<Str, Str>, Failure> {
        let other = if *namespace == "bad" { "a/b" } else { "h2" };
        Ok(BTreeMap::from([("h1".into(), namespace.clone()), (other.into(), "x".into())]))
    }
    fn world_schedule(&self, _: &Str) -> Result<Vec<Str>, Failure> {
        Ok(vec!["h1".into()])
    }
    fn world_exports(&self, _: &Str) -> Result<Vec<Export>, Failure> {
        let export =
            |name: &str, host: &str| Export { name: name.into(), host: host.into(), data: "{}".into() };
        Ok(vec![export("b", "h1"), export("a", "h2"), export("a", "h1")])
    }
}

/// Calls a function by its full name.
pub(crate) fn call(name: &str, arguments: &[Value]) -> Result<Value, Failure> {
    call_on(&mut Memory::default(), &Nothing, name, arguments)
}

/// Calls a function by its full name on a host.
pub(crate) fn call_on(
    memory: &mut Memory,
    host: &dyn Host,
    name: &str,
    arguments: &[Value],
) -> Result<Value, Failure> {
    let (module, name) = name.rsplit_once('.').unwrap_or(("", name));
    let function = library().function(module, name).unwrap_or_else(|| panic!("there is no {module}.{name}"));
    match function.body {
        Body::Pure(body) => body(arguments),
        Body::Typed(body) => body(memory.result(), arguments),
        Body::Host(read) | Body::Live { read, .. } => read(memory, host, arguments),
        Body::Graph(_) => panic!("{module}.{name} is done by the runtime"),
    }
}

/// The text form of what a call gives, or of its error with `C:` or `F:` in front.
pub(crate) fn shown(name: &str, arguments: &[Value]) -> String {
    match call(name, arguments) {
        Ok(value) => value.to_string(),
        Err(Failure::Catchable(message)) => format!("C: {message}"),
        Err(Failure::Fatal(message)) => format!("F: {message}"),
    }
}

#[test]
fn every_signature_is_readable_and_every_name_is_unique() {
    let mut names = HashSet::new();
    for function in
        library().modules().flat_map(|module| module.functions).copied().chain(library().operators())
    {
        let forms = function.read_forms().unwrap_or_else(|error| panic!("{}: {error}", function.full_name()));
        assert!(!forms.is_empty());
        assert_eq!(forms, function.forms());
        assert!(names.insert(function.full_name()), "{} twice", function.full_name());
        for form in forms {
            let types = form.parameters.iter().map(|parameter| &parameter.ty).chain([&form.result]);
            assert!(!types.into_iter().any(|ty| *ty == Type::Variant || *ty == Type::Nil), "{function:?}");
            let names: HashSet<_> = form.parameters.iter().map(|parameter| &parameter.name).collect();
            let unnamed = form.parameters.iter().all(|parameter| parameter.name.is_empty());
            assert!(unnamed || names.len() == form.parameters.len(), "{function:?}");
        }
    }
}

#[test]
fn every_function_is_in_the_module_that_lists_it() {
    for module in library().modules() {
        assert!(!module.doc.is_empty(), "{}", module.path);
        for function in module.functions {
            assert_eq!(function.module, module.path);
            assert!(
                library()
                    .function(module.path, function.name)
                    .is_some_and(|found| std::ptr::eq(found, *function))
            );
        }
    }
    assert!(library().function("", "no such").is_none());
    assert!(library().module("no such").is_none());
}

#[test]
fn every_function_has_a_summary_and_an_example() {
    for function in
        library().modules().flat_map(|module| module.functions).copied().chain(library().operators())
    {
        let summary = function.doc.split("\n\n").next().unwrap();
        assert!(summary.ends_with('.') || summary.ends_with(':'), "{function:?}: {summary}");
        assert_eq!(function.doc.matches("```").count() % 2, 0, "{function:?}");
        // That they hold is found out where programs can run.
        let examples = function.examples();
        assert!(!examples.is_empty(), "{function:?}");
        assert_eq!(function.doc.matches("```").count(), 2 * examples.len(), "{function:?}");
        for example in examples {
            assert!(example.text.lines().any(|line| !line.starts_with("import ")), "{function:?}");
        }
    }
}

#[test]
fn effects_and_bodies_agree() {
    for function in library().modules().flat_map(|module| module.functions) {
        let agrees = match function.body {
            Body::Pure(_) | Body::Typed(_) | Body::Graph(_) => function.effect == Effect::Pure,
            Body::Host(_) => function.effect == Effect::Reads,
            Body::Live { .. } => function.effect == Effect::Live,
        };
        assert!(agrees, "{function:?}");
    }
}

#[test]
fn too_many_arguments_are_an_error_and_never_a_panic() {
    let arguments = vec![Value::Nil; 9];
    for function in library().modules().flat_map(|module| module.functions) {
        let found = match function.body {
            Body::Pure(body) => body(&arguments),
            Body::Typed(body) => body(&Type::Nil, &arguments),
            Body::Host(read) | Body::Live { read, .. } => read(&mut Memory::default(), &Nothing, &arguments),
            Body::Graph(_) => continue,
        };
        assert!(found.is_err(), "{function:?}");
        if let Body::Live { watches, .. } = function.body {
            assert!(watches(&arguments).is_err(), "{function:?}");
        }
    }
}

/// A function that is written and in no list would be unknown to every program.
#[test]
fn every_function_of_the_sources_is_in_the_library() {
    let mut written = BTreeSet::new();
    let mut files = ["src/modules", "src/operators.rs"]
        .map(|path| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path))
        .to_vec();
    while let Some(path) = files.pop() {
        if path.is_dir() {
            files.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let starts = ["\nmodule! {\n    path: \"", "\nconst MODULE: &str = \""];
        let module = starts.iter().find_map(|start| text.split_once(start)?.1.split('"').next());
        for declared in text.split("\n#[function").skip(1) {
            let (attribute, function) = declared.split_once("\nfn ").unwrap();
            let effect = if attribute.contains("live = ") {
                Effect::Live
            } else if attribute.starts_with("(reads") {
                Effect::Reads
            } else {
                Effect::Pure
            };
            let named = attribute.split("name = \"").nth(1).and_then(|rest| rest.split('"').next());
            let name = function.trim_start_matches("r#").split(['(', '<']).next().unwrap();
            let module = module.unwrap_or_else(|| panic!("{}: {name} is in no module", path.display()));
            let is_new = written.insert(format!("{module}.{} {effect:?}", named.unwrap_or(name)));
            assert!(is_new, "{}: {name} twice", path.display());
        }
    }
    let functions = library().modules().flat_map(|module| module.functions).copied();
    let listed: BTreeSet<_> = functions
        .chain(library().operators())
        .map(|function| format!("{}.{} {:?}", function.module, function.name, function.effect))
        .collect();
    let differ: Vec<_> = written.symmetric_difference(&listed).collect();
    assert!(differ.is_empty(), "in the sources or in the library, not in both: {differ:#?}");
    assert!(!written.is_empty());
}

#[test]
fn templates_can_call_what_has_one_type_and_no_events() {
    let callable = |name: &str| library().template_function(name).map(|function| function.full_name());
    assert_eq!(callable("golang_strings_join").as_deref(), Some("golang/strings.join"));
    assert_eq!(callable("_concat").as_deref(), Some("concat"));
    assert_eq!(callable("golang_math_rand_int").as_deref(), Some("golang/math/rand.int"));
    for name in
        ["_len", "datetime_now", "iter_map", "fmt_printf", "__lookup", "list_concat", "golang_template"]
    {
        assert_eq!(callable(name), None, "{name}");
    }
}

#[test]
fn examples_import_their_module() {
    let function = library().function("strings", "split").unwrap();
    let examples = function.examples();
    assert!(examples[0].text.starts_with("import \"strings\"\nstrings.split("), "{}", examples[0].text);
    assert!(!library().function("", "len").unwrap().examples()[0].text.contains("import"));
    assert_eq!(function.signature(), "func(a str, b str) []str");
    assert_eq!(format!("{function:?}"), "strings.split func(a str, b str) []str");
}
