//! Finding functions.

use std::collections::HashMap;
use std::fmt;
use std::sync::OnceLock;

use mgmt_value::Value;

use crate::Function;

/// Every function and constant.
pub struct Library {
    modules: &'static [&'static Module],
    by_path: HashMap<&'static str, &'static Module>,
    by_name: HashMap<(&'static str, &'static str), &'static Function>,
    operators: HashMap<&'static str, &'static Function>,
    templates: HashMap<String, &'static Function>,
}

/// Functions and constants that are imported together.
pub struct Module {
    /// What `import` names, `golang/strings` for example; the top level is the empty text and needs no import.
    pub path: &'static str,
    /// What it is for, in Markdown.
    pub doc: &'static str,
    /// The functions. Names with a leading `_` stand behind syntax and cannot be written.
    pub functions: &'static [&'static Function],
    /// The constants.
    pub constants: &'static [Constant],
}

/// A value with a name.
pub struct Constant {
    /// Its name within the module: `family_redhat`, or `const.res.file.state.exists` at the top level.
    pub name: &'static str,
    /// What it is for.
    pub doc: &'static str,
    /// The value.
    pub value: fn() -> Value,
}

/// The one library.
pub fn library() -> &'static Library {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    LIBRARY.get_or_init(|| Library::new(crate::modules::ALL))
}

impl Library {
    fn new(modules: &'static [&'static Module]) -> Library {
        let functions = || modules.iter().flat_map(|module| module.functions).copied();
        let operators = crate::operators::ALL.iter().map(|function| (function.name, *function));
        let templates = functions().filter_map(|function| Some((function.template_name()?, function)));
        Library {
            modules,
            by_path: modules.iter().map(|module| (module.path, *module)).collect(),
            by_name: functions().map(|function| ((function.module, function.name), function)).collect(),
            operators: operators.collect(),
            templates: templates.collect(),
        }
    }

    /// The module with this import path; the top level is the empty text.
    pub fn module(&self, path: &str) -> Option<&'static Module> {
        self.by_path.get(path).copied()
    }

    /// All modules, the top level first.
    pub fn modules(&self) -> impl Iterator<Item = &'static Module> {
        self.modules.iter().copied()
    }

    /// One function.
    pub fn function(&self, module: &str, name: &str) -> Option<&'static Function> {
        self.by_name.get(&(module, name)).copied()
    }

    /// The function behind an operator such as `+` or `not`.
    pub fn operator(&self, symbol: &str) -> Option<&'static Function> {
        self.operators.get(symbol).copied()
    }

    /// All operators.
    pub fn operators(&self) -> impl Iterator<Item = &'static Function> {
        crate::operators::ALL.iter().copied()
    }

    /// The function that templates call by this name; see [`Function::template_name`].
    pub fn template_function(&self, name: &str) -> Option<&'static Function> {
        self.templates.get(name).copied()
    }
}

impl Module {
    /// One constant.
    pub fn constant(&self, name: &str) -> Option<&'static Constant> {
        self.constants.iter().find(|constant| constant.name == name)
    }
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Library").field("modules", &self.modules.len()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} with {} functions", self.path, self.functions.len())
    }
}
