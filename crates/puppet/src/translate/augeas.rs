//! `augeas` becomes `augeas`, if it removes, clears and sets values of one file, in this order, and `augtool` is on this host.
//!
//! Puppet has the library itself, and reads commands in a way of its own, which is read in the same way here. A command that may
//! reach beyond the file, or of which something is left over, is Puppet's.

use std::path::Path;

use mgmt_value::{Str, Value};

use super::rule::Rule;
use crate::data::Data;

pub(super) fn augeas(rule: &mut Rule<'_>) -> &'static str {
    rule.accept(&["name", "returns", "show_diff", "withpath"]);
    rule.accept_if("provider", &["augeas"]);
    rule.accept_if("root", &["/"]);
    rule.accept_if("force", &["false"]);
    rule.accept_if("type_check", &["false"]);
    rule.carry("lens", "lens");
    let Some(file) = rule.text("incl") else {
        rule.cannot("incl", "is not given, and so any file may be meant");
        return "augeas";
    };
    look_at(rule, &file);
    let below = format!("/files{file}");
    let context = rule.text("context").filter(|context| !context.is_empty());
    let context = context.unwrap_or_else(|| below.clone());
    let inside = match context.strip_prefix(&below) {
        Some(inside) if inside.is_empty() || inside.starts_with('/') => inside.trim_matches('/').to_owned(),
        _ => {
            rule.cannot("context", "is not below the file");
            return "augeas";
        }
    };
    rule.set("file", Str::from(file));
    let Some(lines) = lines(rule) else { return "augeas" };
    let mut edits = Edits::default();
    for line in lines {
        if let Err(why) = edits.add(&line, &below, &inside) {
            rule.cannot("changes", why);
        }
    }
    edits.set(rule);
    if !rule.around.has_augtool() {
        rule.cannot_at_all("augtool is not installed");
    }
    "augeas"
}

/// Says what about the file would be different with ours.
fn look_at(rule: &mut Rule<'_>, file: &str) {
    if file.contains(['*', '?', '[', '\\']) {
        rule.cannot("incl", "may mean several files");
        return;
    }
    let path = Path::new(file);
    rule.looks_for(path);
    let managed = rule.around.catalogue.resources.iter().any(|declared| {
        let own = declared.get("path").and_then(Data::text);
        declared.kind == "File" && own.as_deref().unwrap_or(&declared.title) == file
    });
    match path.symlink_metadata() {
        Ok(found) if found.is_symlink() => rule.cannot("incl", "is a link, which Puppet follows"),
        // It would be made with the usual mode, and by ours so that nobody else reads it.
        Err(_) if !managed => rule.cannot("incl", "is not there, and nobody says with which mode"),
        _ => {}
    }
}

/// A text has several commands, one in each line; a member of a list is one, whatever is in it.
fn lines(rule: &mut Rule<'_>) -> Option<Vec<String>> {
    let is_list = matches!(rule.declared.get("changes").map(Data::revealed), Some(Data::List(_)));
    let changes = rule.texts("changes")?;
    if is_list && changes.iter().any(|change| change.trim().contains('\n')) {
        rule.cannot("changes", "have several lines in one command");
        return None;
    }
    let lines = changes.iter().flat_map(|change| change.lines()).map(str::trim);
    Some(lines.filter(|line| !line.is_empty()).map(str::to_owned).collect())
}

#[derive(Default)]
struct Edits {
    removals: Vec<String>,
    clears: Vec<String>,
    sets: Vec<(String, String)>,
}

impl Edits {
    fn add(&mut self, line: &str, below: &str, inside: &str) -> Result<(), &'static str> {
        const ORDER: &str = "set something and then clear or remove, and here the order is another one";
        let (command, rest) = line.split_at(line.find(|letter| !is_word(letter)).unwrap_or(line.len()));
        let (path, rest) = match command {
            "set" | "clear" | "rm" | "remove" => path(rest.trim_start()).ok_or("are not understood")?,
            _ => return Err("have something else than `set`, `clear` and `rm`"),
        };
        let path = own(&path, below, inside)?;
        let (value, rest) = match command {
            "set" => string(rest.trim_start()).ok_or("are not understood")?,
            _ => (String::new(), rest),
        };
        if !rest.trim().is_empty() {
            return Err("have more in a command than belongs to it");
        }
        // Ours removes first, then clears, and then sets.
        match command {
            "set" => self.sets.push((path, value)),
            _ if !self.sets.is_empty() => return Err(ORDER),
            "clear" => self.clears.push(path),
            _ if !self.clears.is_empty() => return Err(ORDER),
            _ => self.removals.push(path),
        }
        Ok(())
    }

    fn set(self, rule: &mut Rule<'_>) {
        let text = |text: String| Value::Str(Str::from(text));
        let sets = self.sets.into_iter();
        let sets: Vec<Value> = sets
            .map(|(path, value)| Value::structure([("path", text(path)), ("value", text(value))]))
            .collect();
        if let Some(set) = sets.first() {
            rule.set_value("sets", Value::list(set.ty(), sets.clone()));
        }
        for (field, paths) in [("rm", self.removals), ("clear", self.clears)] {
            if !paths.is_empty() {
                rule.set(field, paths.into_iter().map(Str::from).collect::<Vec<_>>());
            }
        }
    }
}

/// The path below the file that is meant. What may have to do with anything else has no counterpart.
fn own(path: &str, below: &str, inside: &str) -> Result<String, &'static str> {
    let own = match path.strip_prefix(below) {
        Some(rest) if rest.starts_with('/') => rest.trim_start_matches('/').to_owned(),
        Some("") => return Err("name the whole file"),
        _ if path.starts_with('/') => return Err("name another file"),
        _ if inside.is_empty() => path.to_owned(),
        _ => format!("{inside}/{path}"),
    };
    if own.is_empty() || ["|", "$", "..", "/files", "/augeas"].iter().any(|word| own.contains(word)) {
        return Err("may name something else than nodes of the file");
    }
    // Whoever reads the file again finds it under another number, and so Puppet adds one each time.
    let new = |label: &str| label.starts_with('0') && label.bytes().all(|byte| byte.is_ascii_digit());
    if own.split('/').any(new) {
        return Err("add a node whenever they are made");
    }
    Ok(own)
}

fn is_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

/// A path, and what comes after it: it ends at a blank that is neither in brackets nor in quotes.
fn path(text: &str) -> Option<(String, &str)> {
    let (mut brackets, mut single, mut double) = (0_usize, false, false);
    let mut letters = text.char_indices();
    let mut end = text.len();
    while let Some((at, letter)) = letters.next() {
        match letter {
            // Whatever it is, it is a part of the path.
            '\\' => drop(letters.next()),
            '[' => brackets += 1,
            ']' => brackets = brackets.checked_sub(1)?,
            '\'' => single = !single,
            '"' => double = !double,
            letter if letter.is_ascii_whitespace() && brackets == 0 && !single && !double => {
                end = at;
                break;
            }
            _ => {}
        }
    }
    let (path, rest) = text.split_at(end);
    // Quotes around it are taken off, whatever stands at its end.
    let path = match path.starts_with(['\'', '"']) {
        true => path.get(1..path.len().checked_sub(1)?)?,
        false => path,
    };
    let path = path.strip_suffix('/').unwrap_or(path);
    (!path.is_empty()).then(|| (path.to_owned(), rest))
}

/// A text, and what comes after it: in quotes, or without a blank. In quotes, only the quote itself is escaped.
fn string(text: &str) -> Option<(String, &str)> {
    let Some(quote) = text.chars().next().filter(|letter| matches!(letter, '"' | '\'')) else {
        let end = text.find(|letter: char| letter.is_ascii_whitespace()).unwrap_or(text.len());
        let (string, rest) = text.split_at(end);
        return (!string.is_empty()).then(|| (string.to_owned(), rest));
    };
    let (mut string, mut letters) = (String::new(), text[1..].char_indices());
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' => match letters.next()?.1 {
                escaped if escaped == quote => string.push(escaped),
                other => string.extend(['\\', other]),
            },
            letter if letter == quote => return Some((string, &text[at + 2..])),
            letter => string.push(letter),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edits(lines: &[&str]) -> Result<Edits, &'static str> {
        let mut edits = Edits::default();
        lines.iter().try_for_each(|line| edits.add(line, "/files/etc/hosts", "1"))?;
        Ok(edits)
    }

    #[test]
    fn commands_are_read_as_puppet_reads_them() {
        for (line, path, value) in [
            ("set a b", "1/a", "b"),
            ("set  a/  'b c' ", "1/a", "b c"),
            (r#"set a[. = 'x y']/z "it's""#, "1/a[. = 'x y']/z", "it's"),
            (r#"set "a b" "say \"hi\" \n \\""#, "1/a b", r#"say "hi" \n \\"#),
            ("set /files/etc/hosts/2/alias ''", "2/alias", ""),
            (r"set a\ b c", r"1/a\ b", "c"),
        ] {
            let edits = edits(&[line]).unwrap();
            assert_eq!(edits.sets, [(path.to_owned(), value.to_owned())], "{line}");
        }
        let edits = edits(&["rm a", "remove b[. = ' ']", "clear c", "set d e"]).unwrap();
        assert_eq!(
            (edits.removals, edits.clears),
            (vec!["1/a".into(), "1/b[. = ' ']".into()], vec!["1/c".into()])
        );
    }

    #[test]
    fn what_means_something_else_is_left() {
        for line in [
            "set a",
            "set a b c",
            "set a 'b",
            "set 'a b",
            "set a] b",
            "rm",
            "rm a b",
            "ins x after y",
            "touch a",
            "setm a b c",
            "rm /files/etc/hosts",
            "rm /files/etc/hosts2/1",
            "rm /augeas/load",
            "rm $x",
            "rm ../2",
            "rm a|b",
            "set 01/ipaddr ::1",
            "set *[x=/files/etc/passwd/root] y",
        ] {
            assert!(edits(&[line]).is_err(), "{line}");
        }
        for lines in [["set a b", "rm c"], ["clear a", "rm b"], ["set a b", "clear c"]] {
            assert!(edits(&lines).is_err(), "{lines:?}");
        }
    }
}
