//! A new function of mcl: its description in the file of its module, and its line in the list of what reaches the host.

use std::path::Path;

use super::changes::Changes;
use super::names::{function_name, words};
use crate::step::Failed;

const PURE: &str = include_str!("templates/function.rs.txt");
const LIVE: &str = include_str!("templates/live_function.rs.txt");

const MODULES: &str = "crates/funcs/src/modules";
const HOST_ACCESS: &str = "crates/funcs/tests/host_access.rs";

/// The longest line of a list of functions.
const MAX_LINE_LEN: usize = 120;

/// Whether a function looks at the host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Effect {
    /// The same arguments give the same value.
    Pure,
    /// Follows the host: looks at a path, and is woken when it changes.
    Live,
}

/// Everything that a new function needs below the root of a workspace. `name` has its module in front: `strings.shout`.
pub(super) fn changes(root: &Path, name: &str, effect: Effect) -> Result<Changes, Failed> {
    let (module, function) = name.rsplit_once('.').unwrap_or(("", name));
    let rust_name = function_name(function)?;
    let path = file_of(root, module)?;
    let template = match effect {
        Effect::Pure => PURE,
        Effect::Live => LIVE,
    };
    let alias = module.rsplit('/').next().unwrap_or_default();
    let call = if alias.is_empty() { function.to_owned() } else { format!("{alias}.{function}") };
    // What belongs to a function cannot have a raw name.
    let text = template
        .replace("fn {{name}}(", &format!("fn {rust_name}("))
        .replace("{{name}}", function)
        .replace("{{call}}", &call);

    let mut changes = Changes::new(root);
    changes.edit(&path, |present| {
        if let Some(taken) = taken(present, function) {
            return Err(format!("`{function}` is taken: {taken}"));
        }
        let listed = listed(present, &rust_name)?;
        let at = listed.find("\n#[cfg(test)]\n").unwrap_or(listed.len());
        Ok(format!("{}{text}{}", &listed[..at], &listed[at..]))
    })?;
    if effect == Effect::Live {
        let row = format!("    (\"{name}\", Presence),");
        changes.edit(HOST_ACCESS, |present| with_row(present, module, &row))?;
    }
    Ok(changes)
}

/// The file of a module, below the root.
fn file_of(root: &Path, module: &str) -> Result<String, Failed> {
    let mut open = vec![MODULES.to_owned()];
    let mut known = Vec::new();
    while let Some(directory) = open.pop() {
        let cannot = |error| Failed::new(format!("cannot read {directory}: {error}"));
        for entry in std::fs::read_dir(root.join(&directory)).map_err(cannot)? {
            let entry = entry.map_err(cannot)?;
            let path = format!("{directory}/{}", entry.file_name().to_string_lossy());
            if entry.path().is_dir() {
                open.push(path);
                continue;
            }
            let text = std::fs::read_to_string(entry.path()).map_err(cannot)?;
            let declared =
                text.split("\nmodule! {\n    path: \"").nth(1).and_then(|rest| rest.split('"').next());
            match declared {
                Some(declared) if declared == module => return Ok(path),
                Some(declared) => known.push(declared.to_owned()),
                None => {}
            }
        }
    }
    known.sort();
    known.retain(|module| !module.is_empty());
    Err(Failed::new(format!(
        "there is no module `{module}`; there are {}; a new one is a file in {MODULES} and a line in {MODULES}.rs",
        known.join(", ")
    )))
}

/// What has this name in a file already.
fn taken(text: &str, name: &str) -> Option<String> {
    let is_used = |line: &&str| {
        let line = line.trim_start();
        let declares =
            ["fn ", "mod ", "pub(crate) fn ", "pub(crate) mod ", "pub(super) fn "].iter().any(|start| {
                let declared = line.strip_prefix(start).map(|rest| rest.trim_start_matches("r#"));
                declared.and_then(|rest| words(rest).next()) == Some(name)
            });
        declares || (line.contains("use ") && line.ends_with(';') && words(line).any(|word| word == name))
    };
    text.lines().find(is_used).map(|line| line.trim().to_owned())
}

/// The text with a name at the end of its list `functions:`.
fn listed(text: &str, name: &str) -> Result<String, String> {
    const START: &str = "\n    functions: [";
    let missing = || "there is no list `functions: […]`".to_owned();
    let start = text.find(START).ok_or_else(missing)?;
    let open = start + START.len();
    let end = text[open..].find(']').map(|at| open + at).ok_or_else(missing)?;
    let names = text[open..end].split(',').map(str::trim).filter(|name| !name.is_empty()).chain([name]);
    let names: Vec<&str> = names.collect();
    let line = format!("\n    functions: [{}", names.join(", "));
    if line.len() < MAX_LINE_LEN && !text[open..end].contains('\n') {
        return Ok(format!("{}{line}{}", &text[..start], &text[end..]));
    }
    let mut lines = String::new();
    let mut length = 0;
    for name in names {
        if length == 0 || length + name.len() + 2 > MAX_LINE_LEN {
            lines.push_str("\n       ");
            length = 7;
        }
        lines.push_str(&format!(" {name},"));
        length += name.len() + 2;
    }
    Ok(format!("{}{START}{lines}\n    {}", &text[..start], &text[end..]))
}

/// The list of what functions reach with a row more: behind the rows of its module, else at the end.
fn with_row(text: &str, module: &str, row: &str) -> Result<String, String> {
    let missing = || "there is no list `const ACCESS`".to_owned();
    let start = text.find("const ACCESS: ").ok_or_else(missing)?;
    let end = text[start..].find("\n];").map(|at| start + at + 1).ok_or_else(missing)?;
    let mut at = start;
    let mut found = end;
    for line in text[start..end].split_inclusive('\n') {
        at += line.len();
        let name = line.split('"').nth(1).unwrap_or_default();
        let present = name.rsplit_once('.').map_or("", |(module, _)| module);
        if !name.is_empty() && present == module {
            found = at;
        }
    }
    Ok(format!("{}{row}\n{}", &text[..found], &text[found..]))
}

#[cfg(test)]
mod tests {
    use super::super::tests::Copy;
    use super::*;

    fn copy() -> Copy {
        Copy::of(&[HOST_ACCESS], &[MODULES])
    }

    fn added(name: &str, effect: Effect) -> Copy {
        let copy = copy();
        let changes = changes(copy.root(), name, effect).unwrap_or_else(|Failed(why)| panic!("{why}"));
        changes.write().unwrap_or_else(|Failed(why)| panic!("{why}"));
        copy
    }

    #[test]
    fn a_pure_function_is_in_the_file_and_list_of_its_module() {
        for (name, file, call) in [
            ("strings.xtask_sample", "strings.rs", "strings.xtask_sample(21)"),
            ("golang/math.xtask_sample", "golang/math.rs", "math.xtask_sample(21)"),
            ("example/nested.xtask_sample", "example/nested.rs", "nested.xtask_sample(21)"),
            ("xtask_sample", "top.rs", "/ xtask_sample(21)"),
        ] {
            let copy = added(name, Effect::Pure);
            let path = format!("{MODULES}/{file}");
            let text = copy.read(&path);
            assert!(text.contains("#[function]\nfn xtask_sample(number: i64) -> i64 {\n"), "{name}: {text}");
            assert!(text.contains(&format!("{call} == 42\n")) && !text.contains("{{"), "{name}: {text}");
            let list = text.split("functions: [").nth(1).unwrap().split(']').next().unwrap();
            let listed: Vec<&str> = list.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
            assert!(listed.len() > 1 && listed.last() == Some(&"xtask_sample"), "{name}: {list}");
            assert!(list.lines().all(|line| line.len() <= MAX_LINE_LEN), "{name}: {list}");
            assert!(copy.is_as_before(HOST_ACCESS));
        }
    }

    #[test]
    fn a_live_function_says_what_it_reaches() {
        for name in ["os.xtask_sample", "strings.xtask_sample"] {
            let copy = added(name, Effect::Live);
            let access = copy.read(HOST_ACCESS);
            assert!(access.contains(&format!("\n    (\"{name}\", Presence),\n")), "{access}");
            assert_eq!(copy.lost(HOST_ACCESS), [""; 0]);
        }
        let text = added("os.xtask_sample", Effect::Live).read(&format!("{MODULES}/os.rs"));
        assert!(text.contains("#[function(live = vec![xtask_sample_watch(path)?], signature"));
        assert!(text.contains("fn xtask_sample_watch(path: &mgmt_value::Str)") && !text.contains("{{"));
    }

    #[test]
    fn a_function_is_before_the_tests_of_its_module() {
        let text = added("strings.xtask_sample", Effect::Pure).read(&format!("{MODULES}/strings.rs"));
        let (function, tests) = (text.find("fn xtask_sample(").unwrap(), text.find("#[cfg(test)]").unwrap());
        assert!(function < tests);
    }

    #[test]
    fn a_keyword_of_rust_is_written_raw() {
        let text = added("strings.virtual", Effect::Pure).read(&format!("{MODULES}/strings.rs"));
        assert!(text.contains("fn r#virtual(number") && text.contains(", r#virtual,"));
        assert!(text.contains("/// strings.virtual(21) == 42\n"));
    }

    #[test]
    fn what_cannot_be_a_function_is_refused_and_nothing_is_changed() {
        let copy = copy();
        for (name, why) in [
            ("strings.contains", "strings.rs: `contains` is taken: fn contains("),
            ("strings.text", "strings.rs: `text` is taken: use crate::{Failure, text};"),
            ("regexp.match", "`match` is taken"),
            ("string.xtask_sample", "there is no module `string`; there are convert, datetime, "),
            ("strings.Sample", "the function `Sample`: expected lower-case letters"),
            ("strings.", "the function ``: expected lower-case letters"),
            ("strings.class", "is a keyword of mcl"),
        ] {
            let Err(Failed(told)) = changes(copy.root(), name, Effect::Pure) else { panic!("{name}") };
            assert!(told.contains(why), "{told}");
        }
        assert!(copy.is_as_before(&format!("{MODULES}/strings.rs")));
    }
}
