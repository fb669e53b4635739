//! What a word can become.

use std::path::Path;

use mgmt_funcs::library;
use mgmt_lang::module::EMBEDDED;
use mgmt_lang::{Input, NameKind, Named, input_of};
use mgmt_resource::{Fields as _, Meta, Schema};

use super::editor::Assistant;
use super::meta;
use crate::reference;

const KEYWORDS: [&str; 11] =
    ["class", "collect", "else", "false", "for", "forkv", "func", "if", "import", "include", "true"];
const EDGE_WORDS: [&str; 4] = ["Before", "Depend", "Listen", "Notify"];

/// What is known about the session.
pub(super) struct Knowledge<'a> {
    pub(super) names: &'a [Named],
}

impl Assistant for Knowledge<'_> {
    fn is_finished(&self, text: &str) -> bool {
        meta::is_command(text) || input_of(text) != Input::Unfinished
    }

    fn complete(&self, text: &str, at: usize) -> (usize, Vec<String>) {
        let before = text.get(..at).unwrap_or_default();
        let (start, mut found) = self.candidates(before);
        let word = &before[start..];
        found.retain(|candidate| candidate.starts_with(word));
        found.sort();
        found.dedup();
        (start, found)
    }
}

impl Knowledge<'_> {
    /// Where the last word of a text starts, and what can stand in its place.
    fn candidates(&self, before: &str) -> (usize, Vec<String>) {
        if meta::is_command(before) {
            return self.of_command(before);
        }
        if let Some(start) = open_import(before) {
            let paths = library().modules().map(|module| module.path).filter(|path| !path.is_empty());
            let paths = paths.chain(EMBEDDED.iter().map(|module| module.name));
            return (start, paths.map(|path| format!("{path}\"")).collect());
        }
        if let Some(start) = open_interpolation(before) {
            let names = self.variables().map(|name| name.trim_start_matches('$').to_owned() + "}");
            return (start, names.collect());
        }
        let word = before.trim_end_matches(is_word);
        let start = word.strip_suffix('$').unwrap_or(word).len();
        if is_in_string(&before[..start]) {
            return (start, Vec::new());
        }
        if before[start..].starts_with('$') {
            return (start, self.variables().collect());
        }
        let ahead = before[..start].trim_end_matches([' ', '\t']);
        match open_resource(before) {
            Some(schema) if ahead.trim_end().ends_with(['{', ',']) => (start, fields(schema)),
            _ => {
                let is_statement = ahead.is_empty() || ahead.ends_with(['\n', '{']);
                (start, self.words(&before[start..], is_statement))
            }
        }
    }

    fn of_command(&self, before: &str) -> (usize, Vec<String>) {
        let Some((command, rest)) = before.split_once(char::is_whitespace) else {
            return (0, meta::names().map(str::to_owned).collect());
        };
        let start = before.len() - rest.trim_start().len();
        match meta::find(command) {
            Some(meta::Command::Load) => (start, files(&before[start..])),
            Some(meta::Command::Doc) => {
                let names = reference::functions::names().into_iter();
                (start, names.chain(kinds().map(str::to_owned)).collect())
            }
            Some(meta::Command::Type | meta::Command::Watch) => {
                let (within, found) = self.candidates(&before[start..]);
                (start + within, found)
            }
            _ => (start, Vec::new()),
        }
    }

    fn variables(&self) -> impl Iterator<Item = String> {
        let own =
            self.names.iter().filter(|name| name.what == NameKind::Variable).map(|name| name.text.clone());
        let top = library().module("").into_iter().flat_map(|module| module.constants);
        own.chain(top.map(|constant| format!("${}", constant.name))).chain(["$hostname".to_owned()])
    }

    /// Functions, and at the start of a statement what a statement starts with. What stands behind a dot is shown only
    /// there.
    fn words(&self, word: &str, is_statement: bool) -> Vec<String> {
        let mut found: Vec<String> = Vec::new();
        let is_qualified = word.contains('.');
        for name in self.names {
            match name.what {
                NameKind::Function if is_qualified || !name.text.contains('.') => {
                    found.push(format!("{}(", name.text));
                }
                NameKind::Alias if !is_qualified => found.push(format!("{}.", name.text)),
                NameKind::Class => found.push(name.text.clone()),
                NameKind::Function | NameKind::Alias | NameKind::Variable => {}
            }
        }
        let top = library().module("").into_iter().flat_map(|module| module.functions);
        let public = top.filter(|function| !function.name.starts_with('_'));
        found.extend(public.map(|function| format!("{}(", function.name)));
        found.extend(KEYWORDS.map(str::to_owned));
        if is_statement {
            found.extend(kinds().map(str::to_owned));
        }
        if word.starts_with(char::is_uppercase) {
            found.extend(kinds().map(|kind| {
                let mut letters = kind.chars();
                let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
                format!("{first}{}[", letters.as_str())
            }));
        }
        found
    }
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '_' | '.' | ':')
}

fn kinds() -> impl Iterator<Item = &'static str> {
    reference::public_kinds().map(|schema| schema.kind)
}

fn fields(schema: &'static Schema) -> Vec<String> {
    let own = schema.fields.iter().map(|field| format!("{} => ", field.name));
    let meta = Meta::FIELDS.iter().map(|field| format!("Meta:{} => ", field.name));
    own.chain(meta).chain(EDGE_WORDS.iter().map(|word| format!("{word} => "))).collect()
}

/// Whether the text ends inside a string.
fn is_in_string(text: &str) -> bool {
    let (mut inside, mut escaped) = (false, false);
    for character in text.chars() {
        match character {
            _ if escaped => escaped = false,
            '\\' if inside => escaped = true,
            '"' => inside = !inside,
            _ => {}
        }
    }
    inside
}

/// Where the name starts that an import is about to name.
fn open_import(text: &str) -> Option<usize> {
    let line = text.rfind('\n').map_or(0, |newline| newline + 1);
    let rest = text[line..].trim_start().strip_prefix("import")?.trim_start().strip_prefix('"')?;
    (!rest.contains('"')).then(|| text.len() - rest.len())
}

/// Where the name starts that stands open in a string.
fn open_interpolation(text: &str) -> Option<usize> {
    let start = text.trim_end_matches(is_word).len();
    (text[..start].ends_with("${") && is_in_string(&text[..start])).then_some(start)
}

/// The kind of the resource whose body the text ends in.
fn open_resource(text: &str) -> Option<&'static Schema> {
    let mut open = Vec::new();
    let (mut inside, mut escaped) = (false, false);
    for (at, character) in text.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' if inside => escaped = true,
            '"' => inside = !inside,
            _ if inside => {}
            '{' | '[' | '(' => open.push((at, character)),
            '}' | ']' | ')' => drop(open.pop()),
            _ => {}
        }
    }
    let &(at, '{') = open.last()? else { return None };
    let head = &text[..at];
    let line = head.rfind('\n').map_or(head, |newline| &head[newline + 1..]);
    let mut words = line.split_whitespace().skip_while(|word| *word == "collect" || *word == "{");
    mgmt_resources::KINDS.get(words.next()?)
}

/// The files that a path can become. Directories end in a slash.
fn files(path: &str) -> Vec<String> {
    let directory = &path[..path.rfind('/').map_or(0, |slash| slash + 1)];
    let place = if directory.is_empty() { Path::new(".") } else { Path::new(directory) };
    let Ok(entries) = std::fs::read_dir(place) else { return Vec::new() };
    let hidden = path[directory.len()..].starts_with('.');
    let names = entries.filter_map(Result::ok).filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let is_directory = std::fs::metadata(entry.path()).is_ok_and(|found| found.is_dir());
        let wanted = (is_directory || name.ends_with(".mcl") || name == "metadata.yaml")
            && name.starts_with('.') == hidden
            && mgmt_telemetry::escape(&name) == name;
        wanted.then(|| format!("{directory}{name}{}", if is_directory { "/" } else { "" }))
    });
    names.take(10_000).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(text: &str, what: NameKind) -> Named {
        Named { text: text.to_owned(), what, about: String::new(), is_own: true }
    }

    fn completed(text: &str) -> Vec<String> {
        let names = [
            named("$count", NameKind::Variable),
            named("$k.m", NameKind::Variable),
            named("twice", NameKind::Function),
            named("fmt", NameKind::Alias),
            named("fmt.printf", NameKind::Function),
        ];
        let (start, found) = Knowledge { names: &names }.complete(text, text.len());
        found.into_iter().map(|candidate| format!("{}{candidate}", &text[..start])).collect()
    }

    #[test]
    fn names_are_completed() {
        assert_eq!(completed("1 + $cou"), ["1 + $count"]);
        assert_eq!(completed("$k"), ["$k.m"]);
        assert_eq!(completed("tw"), ["twice("]);
        assert_eq!(completed("fm"), ["fmt."]);
        assert_eq!(completed("[fmt.pr"), ["[fmt.printf("]);
        assert_eq!(completed("\"a ${cou"), ["\"a ${count}"]);
        assert_eq!(completed("\"tw"), Vec::<String>::new());
    }

    #[test]
    fn kinds_and_their_fields_are_completed() {
        assert_eq!(completed("noo"), ["noop"]);
        assert_eq!(completed("file \"/x\" {\n\tcont"), ["file \"/x\" {\n\tcontent => "]);
        assert_eq!(
            completed("file \"/x\" {\n\tstate => \"exists\",\n\tMeta:noo"),
            ["file \"/x\" {\n\tstate => \"exists\",\n\tMeta:noop => "]
        );
        assert_eq!(completed("file \"/x\" {\n\tcontent => tw"), ["file \"/x\" {\n\tcontent => twice("]);
        assert_eq!(completed("Noo"), ["Noop["]);
    }

    #[test]
    fn modules_and_commands_are_completed() {
        assert_eq!(completed("import \"datet"), ["import \"datetime\""]);
        assert_eq!(completed(":ty"), [":type"]);
        assert_eq!(completed(":type $cou"), [":type $count"]);
        assert_eq!(completed(":doc fmt.printf"), [":doc fmt.printf"]);
    }

    #[test]
    fn files_are_completed() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("one.mcl"), "").unwrap();
        std::fs::write(directory.path().join("other.txt"), "").unwrap();
        std::fs::create_dir(directory.path().join("only")).unwrap();
        let path = directory.path().to_str().unwrap();
        assert_eq!(
            completed(&format!(":load {path}/o")),
            [format!(":load {path}/one.mcl"), format!(":load {path}/only/")]
        );
    }

    #[test]
    fn any_text_can_be_completed_anywhere() {
        let text = "file \"é${x\" {\n大 => [$a.b, struct{x => \"}\"},\n Meta:é => ]}}))\\\"\n:load ü $ ${";
        for at in (0..=text.len()).filter(|at| text.is_char_boundary(*at)) {
            let (start, _) = Knowledge { names: &[] }.complete(text, at);
            assert!(start <= at && text.is_char_boundary(start));
        }
    }
}
