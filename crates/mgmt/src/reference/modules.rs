//! The modules that are written in the language and come with the program: what each defines, and the comment above it.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::LazyLock;

use mgmt_lang::module::{EMBEDDED, Embedded};
use mgmt_syntax::ast::Statement;
use serde_json::json;

use super::{GENERATED, in_cell, indented, summary};

/// A module as its reader sees it.
#[derive(Debug)]
pub(crate) struct Module {
    /// What an import names.
    pub(crate) name: &'static str,
    /// The comment at its top.
    pub(crate) doc: String,
    /// What it defines, in the order of its text.
    pub(crate) definitions: Vec<Definition>,
}

/// Something that a module defines.
#[derive(Debug)]
pub(crate) struct Definition {
    what: What,
    /// How it is written after an `import` of its module: `systemd.unit`.
    pub(crate) name: String,
    /// How it begins: `class unit($name, $st)`.
    head: String,
    /// The comment above it.
    doc: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Class,
    Function,
    Variable,
}

impl What {
    fn word(self) -> &'static str {
        match self {
            What::Class => "class",
            What::Function => "function",
            What::Variable => "variable",
        }
    }
}

/// All of them, by name.
pub(crate) fn all() -> &'static [Module] {
    static MODULES: LazyLock<Vec<Module>> = LazyLock::new(|| EMBEDDED.iter().map(Module::new).collect());
    &MODULES
}

/// The one that an import names.
pub(crate) fn find(name: &str) -> Option<&'static Module> {
    all().iter().find(|module| module.name == name)
}

/// What a name stands for, with or without the directories of its module.
pub(crate) fn definition(name: &str) -> Option<(&'static Module, &'static Definition)> {
    let inside = |module: &'static Module| module.definitions.iter().map(move |found| (module, found));
    all()
        .iter()
        .flat_map(inside)
        .find(|(module, found)| found.name == name || found.full_name(module) == name)
}

impl Module {
    fn new(embedded: &Embedded) -> Module {
        let main = embedded.files().iter().find(|(path, _)| *path == "main.mcl");
        let text = main.map_or("", |(_, text)| text);
        let alias = embedded.name.rsplit('/').next().unwrap_or(embedded.name);
        let definitions = mgmt_syntax::parse(text)
            .tree()
            .statements()
            .filter_map(|statement| Definition::new(alias, text, &statement))
            .collect();
        let first: Vec<_> = text.lines().take_while(|line| line.starts_with('#')).collect();
        Module { name: embedded.name, doc: uncommented(&first), definitions }
    }
}

impl Definition {
    fn new(alias: &str, text: &str, statement: &Statement) -> Option<Definition> {
        let what = match statement {
            Statement::Class(_) => What::Class,
            Statement::Function(_) => What::Function,
            Statement::Bind(_) => What::Variable,
            _ => return None,
        };
        let range = statement.range();
        let (start, end) = (usize::from(range.start()), usize::from(range.end()));
        let own = text.get(start..end)?;
        let head = match what {
            What::Variable => own.lines().next().unwrap_or_default(),
            What::Class | What::Function => own.split('{').next().unwrap_or_default(),
        };
        let head = head.split_whitespace().collect::<Vec<_>>().join(" ");
        let bare = match what {
            What::Class | What::Function => head.split_once(' ')?.1.split('(').next()?.trim(),
            What::Variable => head.split_whitespace().next()?.strip_prefix('$')?,
        };
        let sigil = if what == What::Variable { "$" } else { "" };
        let above = text.get(..start)?.lines().rev().take_while(|line| line.starts_with('#'));
        let mut above: Vec<_> = above.collect();
        above.reverse();
        Some(Definition { what, name: format!("{sigil}{alias}.{bare}"), head, doc: uncommented(&above) })
    }

    fn full_name(&self, module: &Module) -> String {
        let bare = self.name.rsplit('.').next().unwrap_or(&self.name);
        let sigil = if self.what == What::Variable { "$" } else { "" };
        format!("{sigil}{}.{bare}", module.name)
    }
}

/// Lines of comment without what makes them one.
fn uncommented(lines: &[&str]) -> String {
    let lines: Vec<_> = lines.iter().map(|line| line.trim_start_matches('#').trim()).collect();
    lines.join("\n")
}

/// Every name that [`find`] and [`definition`] know.
pub(crate) fn names() -> impl Iterator<Item = String> {
    all().iter().flat_map(|module| {
        let defined =
            module.definitions.iter().flat_map(|found| [found.name.clone(), found.full_name(module)]);
        std::iter::once(module.name.to_owned()).chain(defined)
    })
}

/// One line for each definition.
pub(crate) fn list(module: &Module) -> String {
    let mut text = format!("{}\n\n{}\n\n", module.name, indented(&module.doc, 2));
    text.push_str(&lines(module));
    text
}

/// The same without the heading.
pub(crate) fn lines(module: &Module) -> String {
    let width = module.definitions.iter().map(|found| found.name.len()).max().unwrap_or_default();
    let line = |found: &Definition| {
        format!("  {:width$}  {} ({})\n", found.name, summary(&found.doc), found.what.word())
    };
    module.definitions.iter().map(line).collect()
}

/// Everything about a definition, for a terminal.
pub(crate) fn text(module: &Module, found: &Definition) -> String {
    format!(
        "{}\n\n  {}\n  import \"{}\"\n\n{}\n",
        found.name,
        found.head,
        module.name,
        indented(&found.doc, 2)
    )
}

/// Everything about a module, for programs.
pub(crate) fn json(module: &Module) -> serde_json::Value {
    let definitions: Vec<_> = module.definitions.iter().map(|found| json_definition(module, found)).collect();
    json!({ "name": module.name, "doc": module.doc, "definitions": definitions })
}

/// Everything about a definition, for programs.
pub(crate) fn json_definition(module: &Module, found: &Definition) -> serde_json::Value {
    json!({
        "name": found.full_name(module),
        "module": module.name,
        "what": found.what.word(),
        "signature": found.head,
        "doc": found.doc,
    })
}

/// The page of a module.
pub(crate) fn page(module: &Module) -> String {
    let mut page = format!("{GENERATED}# `{}`\n\n{}\n", module.name, module.doc);
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(page, "\n```mcl\nimport \"{}\"\n```", module.name);
    if super::functions::find_module(module.name).is_some() {
        let file = module.name.replace('/', "-");
        let _ = writeln!(
            page,
            "\nThe same import brings [functions](../functions/{file}.md) that are part of the program."
        );
    }
    for found in &module.definitions {
        page.push_str(&section(found));
    }
    page
}

/// The part of a page that is about one definition.
pub(crate) fn section(found: &Definition) -> String {
    format!("\n## `{}`\n\n```text\n{}\n```\n\n{}\n", found.name, found.head, found.doc)
}

/// The pages of the book: where each goes, and what is in it.
pub(crate) fn pages() -> Vec<(PathBuf, String)> {
    all().iter().map(|module| (PathBuf::from("modules").join(file_of(module)), page(module))).collect()
}

/// The rows of the index.
pub(crate) fn index() -> String {
    let mut rows = String::from("| module | what it is for | classes |\n|---|---|---|\n");
    for module in all() {
        let classes = module.definitions.iter().filter(|found| found.what == What::Class);
        let classes: Vec<_> = classes.map(|found| format!("`{}`", found.name)).collect();
        let _ = writeln!(
            rows,
            "| [`{}`](modules/{}) | {} | {} |",
            module.name,
            file_of(module),
            in_cell(&summary(&module.doc)),
            classes.join(", ")
        );
    }
    rows
}

fn file_of(module: &Module) -> String {
    format!("{}.md", module.name.replace('/', "-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_definition_has_a_comment_and_is_on_the_page_of_its_module() {
        for module in all() {
            assert!(!module.doc.is_empty() && !module.definitions.is_empty(), "{}", module.name);
            let page = page(module);
            for found in &module.definitions {
                assert!(!found.doc.is_empty(), "{}", found.name);
                assert!(page.contains(&format!("\n## `{}`\n", found.name)), "{}", found.name);
                let (_, by_name) = definition(&found.full_name(module)).unwrap();
                assert_eq!(by_name.name, found.name);
            }
        }
        assert!(definition("systemd.unit").is_some() && definition("systemd.none").is_none());
        assert!(find("embedded/systemd").is_some() && find("embedded").is_none());
    }

    #[test]
    fn a_class_is_shown_with_its_parameters() {
        let (module, unit) = definition("embedded/systemd.unit").unwrap();
        let text = text(module, unit);
        assert!(
            text.starts_with("systemd.unit\n\n  class unit($name, $st)\n  import \"embedded/systemd\"\n\n"),
            "{text}"
        );
        assert!(text.contains("\n  - `exec`: the command line;"), "{text}");
        let (_, variable) = definition("$example.test1").unwrap();
        assert_eq!(variable.head, "$test1 = 13");
    }
}
