//! What holds for every function.

use std::collections::HashSet;

use mgmt_value::{Type, Value};

use crate::{Body, Effect, Failure, Host, Memory, library};

/// A program that has nothing.
pub(crate) struct Nothing;

impl Host for Nothing {}

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
        let runs = !function.examples().is_empty();
        assert!(runs || function.doc.contains("```mcl,no_run"), "{function:?}");
        for example in function.examples() {
            assert!(example.lines().count() > usize::from(!function.module.is_empty()), "{function:?}");
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
