//! `augeas` becomes `augeas`, if it sets and removes values of one file, and this program has that kind.

use mgmt_value::{Str, Value};

use super::rule::Rule;

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
    let below = format!("/files{file}");
    let context = rule.text("context").unwrap_or_else(|| below.clone());
    let inside = match context.strip_prefix(&below) {
        Some(inside) if inside.is_empty() || inside.starts_with('/') => inside.trim_matches('/').to_owned(),
        _ => {
            rule.cannot("context", "is not below the file");
            return "augeas";
        }
    };
    rule.set("file", Str::from(file));
    let changes = rule.texts("changes").unwrap_or_default();
    let lines =
        changes.iter().flat_map(|change| change.lines()).map(str::trim).filter(|line| !line.is_empty());
    let (mut sets, mut removals) = (Vec::new(), Vec::new());
    for line in lines {
        let words = words(line);
        let path = |path: &str| match path.strip_prefix(&below) {
            Some(rest) => Some(rest.trim_start_matches('/').to_owned()),
            None if path.starts_with('/') => None,
            None if inside.is_empty() => Some(path.to_owned()),
            None => Some(format!("{inside}/{path}")),
        };
        let words: Option<Vec<&str>> = words.as_ref().map(|words| words.iter().map(String::as_str).collect());
        match words.as_deref() {
            Some(["set", at, value]) => match path(at) {
                Some(path) => sets.push((path, (*value).to_owned())),
                None => rule.cannot("changes", "name another file"),
            },
            Some(["rm" | "remove", at]) => match path(at) {
                Some(path) => removals.push(path),
                None => rule.cannot("changes", "name another file"),
            },
            _ => rule.cannot("changes", "have something else than `set` and `rm`"),
        }
    }
    // Ours removes first, whatever the order; and so it is only the same without one of the two.
    if !sets.is_empty() && !removals.is_empty() {
        rule.cannot("changes", "both set and remove, in an order that may matter");
    }
    let text = |text: String| Value::Str(Str::from(text));
    let sets: Vec<Value> = sets
        .into_iter()
        .map(|(path, value)| Value::structure([("path", text(path)), ("value", text(value))]))
        .collect();
    if let Some(set) = sets.first() {
        rule.set_value("sets", Value::list(set.ty(), sets.clone()));
    }
    rule.set("rm", removals.into_iter().map(Str::from).collect::<Vec<_>>());
    "augeas"
}

/// Words of a command: in quotes, or without blanks. The last of `set` may be anything. Nothing if a quote is not closed.
fn words(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut rest = line.trim_start();
    while !rest.is_empty() {
        let quote = rest.chars().next().filter(|letter| matches!(letter, '"' | '\''));
        let (word, after) = match quote {
            Some(quote) => rest[1..].split_once(quote)?,
            None => rest.split_once(char::is_whitespace).unwrap_or((rest, "")),
        };
        words.push(word.to_owned());
        rest = after.trim_start();
    }
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_may_be_in_quotes() {
        assert_eq!(words(r#"set a "b c" "#).unwrap(), ["set", "a", "b c"]);
        assert_eq!(words("rm  a[. = 'x']").unwrap(), ["rm", "a[.", "=", "x", "]"]);
        assert_eq!(words("set a 'b"), None);
    }
}
