//! The functions of the language, from where they are declared.

use std::fmt::Write as _;
use std::path::PathBuf;

use mgmt_funcs::{Constant, Effect, Function, Library, Module, library};
use serde_json::json;

use super::modules::{self, Definition};
use super::{GENERATED, in_cell, indented, summary};
use crate::commands::run;

/// Something that can be asked about.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Found {
    /// Everything.
    All,
    /// What one `import` brings.
    Module(&'static Module),
    /// One function or operator.
    Function(&'static Function),
    /// A module that is written in the language.
    Embedded(&'static modules::Module),
    /// What such a module defines.
    Defined(&'static modules::Module, &'static Definition),
}

/// The module of the library with a name.
pub(crate) fn find_module(name: &str) -> Option<&'static Module> {
    modules().find(|module| title(module) == name)
}

/// Finds what a name stands for: a module, a function with or without the directories of its module, or an operator.
pub(crate) fn find(name: &str) -> Option<Found> {
    let library = library();
    if let Some(module) = find_module(name) {
        return Some(Found::Module(module));
    }
    if let Some(module) = modules::find(name) {
        return Some(Found::Embedded(module));
    }
    let by_path = all(library).find(|function| function.full_name() == name);
    // Modules may share their last word; the full name comes first, so that each can be asked for.
    let by_alias = || all(library).find(|function| written(function) == name);
    let found = by_path.or_else(by_alias).or_else(|| library.operator(name)).map(Found::Function);
    let found =
        found.or_else(|| modules::definition(name).map(|(module, found)| Found::Defined(module, found)));
    found.or_else(|| match namesakes(name)[..] {
        [only] => Some(Found::Function(only)),
        _ => None,
    })
}

/// The functions of all modules that have this name behind that of their module.
pub(crate) fn namesakes(name: &str) -> Vec<&'static Function> {
    all(library()).filter(|function| function.name == name).collect()
}

/// Every name that [`find`] knows.
pub(crate) fn names() -> Vec<String> {
    let library = library();
    let modules = library.modules().filter(|module| is_public(module)).map(|module| title(module).to_owned());
    let functions = all(library).flat_map(|function| [function.full_name(), written(function)]);
    let operators = library.operators().map(|operator| operator.name.to_owned());
    modules.chain(functions).chain(operators).chain(modules::names()).collect()
}

/// Lines for a terminal.
pub(crate) fn text(found: Found) -> String {
    match found {
        Found::All => {
            let embedded = modules::all().iter().filter(|module| find_module(module.name).is_none());
            modules().map(list).chain(embedded.map(modules::list)).collect::<Vec<_>>().join("\n")
        }
        Found::Module(module) => list(module),
        Found::Function(function) => function_text(function),
        Found::Embedded(module) => modules::list(module),
        Found::Defined(module, found) => modules::text(module, found),
    }
}

/// One line for each function of a module.
fn list(module: &Module) -> String {
    let mut text = format!("{}\n\n{}\n\n", title(module), indented(module.doc, 2));
    let functions: Vec<_> = public(module).collect();
    let names: Vec<_> = functions.iter().map(|function| written(function)).collect();
    let width = names.iter().map(String::len).max().unwrap_or_default();
    for (function, name) in functions.iter().zip(&names) {
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(text, "  {name:width$}  {}", summary(function.doc));
    }
    for constant in module.constants {
        let _ = writeln!(text, "  {} = {}", constant_name(module, constant), (constant.value)());
    }
    if let Some(embedded) = modules::find(module.path) {
        text.push_str(&modules::lines(embedded));
    }
    text
}

fn function_text(function: &Function) -> String {
    let mut text = format!("{}\n\n", written(function));
    for form in function.forms() {
        let _ = writeln!(text, "  {form}");
    }
    if let Some(import) = import(function.module) {
        let _ = writeln!(text, "  {import}");
    }
    let mut is_code = false;
    text.push('\n');
    for line in doc(function).lines() {
        match (line.starts_with("```"), is_code) {
            (true, _) => is_code = !is_code,
            (false, true) => text.push_str(&format!("      {}\n", line.trim_end())),
            (false, false) => text.push_str(format!("  {line}").trim_end()),
        }
        if !is_code && !line.starts_with("```") {
            text.push('\n');
        }
    }
    if let Some(meaning) = effect(function) {
        let _ = writeln!(text, "\n  {meaning}");
    }
    text
}

/// Everything, for programs.
pub(crate) fn json(found: Found) -> String {
    let one = |function: &Function| {
        json!({
            "name": function.full_name(),
            "module": function.module,
            "signatures": function.forms().iter().map(ToString::to_string).collect::<Vec<_>>(),
            "effect": match function.effect {
                Effect::Pure => "pure",
                Effect::Reads => "reads",
                Effect::Live => "live",
            },
            "doc": doc(function),
        })
    };
    let (functions, constants): (Vec<_>, Vec<_>) = match found {
        Found::Function(function) => (vec![one(function)], Vec::new()),
        Found::Embedded(_) | Found::Defined(..) => (Vec::new(), Vec::new()),
        Found::Module(_) | Found::All => {
            let wanted = |module: &&'static Module| match found {
                Found::Module(wanted) => std::ptr::eq(wanted, *module),
                _ => true,
            };
            let modules: Vec<_> = modules().filter(wanted).collect();
            let constants = modules.iter().flat_map(|module| {
                module.constants.iter().map(|constant| {
                    json!({
                        "name": constant_name(module, constant),
                        "value": (constant.value)().to_string(),
                        "doc": constant.doc.trim(),
                    })
                })
            });
            (modules.iter().flat_map(|module| public(module)).map(one).collect(), constants.collect())
        }
    };
    let definitions: Vec<_> = match found {
        Found::All => modules::all().iter().map(modules::json).collect(),
        Found::Module(module) => modules::find(module.path).into_iter().map(modules::json).collect(),
        Found::Embedded(module) => vec![modules::json(module)],
        Found::Defined(module, found) => vec![modules::json_definition(module, found)],
        Found::Function(_) => Vec::new(),
    };
    mgmt_telemetry::json_line(&json!({
        "format_version": 1,
        "version": run::VERSION,
        "functions": functions,
        "constants": constants,
        "modules": definitions,
    }))
}

/// The text of pages.
pub(crate) fn markdown(found: Found) -> String {
    match found {
        Found::All => {
            modules().map(page).chain(modules::all().iter().map(modules::page)).collect::<Vec<_>>().join("\n")
        }
        Found::Module(module) => page(module),
        Found::Function(function) => section(function),
        Found::Embedded(module) => modules::page(module),
        Found::Defined(_, found) => modules::section(found),
    }
}

/// The pages of the book: where each goes, and what is in it.
pub(crate) fn pages() -> Vec<(PathBuf, String)> {
    let page = |module| (PathBuf::from("functions").join(file_of(module)), page(module));
    modules().map(page).collect()
}

/// The rows of the index.
pub(crate) fn index() -> String {
    let mut rows = String::from("| module | what it is for | functions |\n|---|---|---|\n");
    for module in modules() {
        let _ = writeln!(
            rows,
            "| [`{}`](functions/{}) | {} | {} |",
            title(module),
            file_of(module),
            in_cell(&summary(module.doc)),
            public(module).count()
        );
    }
    rows
}

fn page(module: &'static Module) -> String {
    let mut page = format!("{GENERATED}# `{}`\n\n{}\n", title(module), module.doc.trim());
    match import(module.path) {
        Some(import) => {
            let _ = writeln!(page, "\n```mcl\n{import}\n```");
        }
        None => page.push_str("\nThese need no import.\n"),
    }
    if modules::find(module.path).is_some() {
        let file = file_of(module);
        let _ = writeln!(page, "\nThe same import brings [definitions](../modules/{file}) in the language.");
    }
    page.push_str("\nIn the examples, every line is true.\n");
    for function in public(module) {
        page.push_str(&section(function));
    }
    if module.path.is_empty() {
        page.push_str("\n## Operators\n");
        for operator in library().operators() {
            page.push_str(&section(operator).replacen("\n## ", "\n### ", 1));
        }
    }
    if !module.constants.is_empty() {
        page.push_str("\n## Constants\n\n| name | value | what it is for |\n|---|---|---|\n");
        for constant in module.constants {
            let name = constant_name(module, constant);
            let _ = writeln!(
                page,
                "| `{name}` | `{}` | {} |",
                (constant.value)(),
                in_cell(&summary(constant.doc))
            );
        }
    }
    page
}

fn section(function: &Function) -> String {
    let mut text = format!("\n## `{}`\n\n```text\n", written(function));
    for form in function.forms() {
        let _ = writeln!(text, "{form}");
    }
    let _ = write!(text, "```\n\n{}\n", doc(function));
    if let Some(meaning) = effect(function) {
        let _ = writeln!(text, "\n{meaning}");
    }
    text
}

/// The docs, with what holds for each example in words.
fn doc(function: &Function) -> String {
    let doc = function.doc.trim().replace("```mcl,host", "On some host:\n\n```mcl");
    doc.replace("```mcl,fails", "This is an error:\n\n```mcl").replace("```mcl,program", "```mcl")
}

/// What a reader has to know about when the value changes.
fn effect(function: &Function) -> Option<&'static str> {
    match function.effect {
        Effect::Pure => None,
        Effect::Reads => Some("It looks at the host, and is not told when that changes."),
        Effect::Live => {
            Some("It follows the host: when that changes, so does the value, and all that depends on it.")
        }
    }
}

fn modules() -> impl Iterator<Item = &'static Module> {
    library().modules().filter(|module| is_public(module))
}

fn is_public(module: &Module) -> bool {
    public(module).next().is_some()
}

/// The functions that can be written.
fn public(module: &Module) -> impl Iterator<Item = &'static Function> {
    module.functions.iter().copied().filter(|function| !function.name.starts_with('_'))
}

fn all(library: &'static Library) -> impl Iterator<Item = &'static Function> {
    library.modules().flat_map(public)
}

/// How it is called after an `import` of its module: `http.response`, not `net/http.response`.
fn written(function: &Function) -> String {
    match alias(function.module) {
        "" | "_operator" => function.name.to_owned(),
        alias => format!("{alias}.{}", function.name),
    }
}

fn alias(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn constant_name(module: &Module, constant: &Constant) -> String {
    match alias(module.path) {
        "" => format!("${}", constant.name),
        alias => format!("${alias}.{}", constant.name),
    }
}

fn import(path: &str) -> Option<String> {
    (!path.is_empty() && path != "_operator").then(|| format!("import \"{path}\""))
}

fn title(module: &Module) -> &'static str {
    if module.path.is_empty() { "builtin" } else { module.path }
}

fn file_of(module: &Module) -> String {
    format!("{}.md", title(module).replace('/', "-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_is_found_by_its_names_and_is_on_the_page_of_its_module() {
        for module in modules() {
            let page = page(module);
            assert!(matches!(find(title(module)), Some(Found::Module(found)) if std::ptr::eq(found, module)));
            for function in public(module) {
                let found = find(&function.full_name());
                assert!(matches!(found, Some(Found::Function(found)) if std::ptr::eq(found, function)));
                assert!(page.contains(&format!("\n## `{}`\n", written(function))), "{}", written(function));
                assert!(!function.doc.trim().is_empty() && !function.forms().is_empty(), "{function:?}");
            }
        }
        assert!(matches!(find("+"), Some(Found::Function(_))));
        assert!(find("_lookup").is_none() && find("no.such").is_none());
    }

    #[test]
    fn examples_stand_out_in_a_terminal() {
        let Some(Found::Function(add)) = find("+") else { panic!("no +") };
        let text = function_text(add);
        assert!(text.contains("\n      1 + 2 == 3\n") && !text.contains("```"), "{text}");
    }
}
