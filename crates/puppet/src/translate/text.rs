//! Types that edit a part of a text file: `file_line`, `ini_setting` and `ini_subsetting`; and `debconf`, which edits a database of answers.

use mgmt_value::Str;

use super::rule::Rule;
use super::small::state;

/// `file_line` becomes `line`.
pub(super) fn file_line(rule: &mut Rule<'_>) -> &'static str {
    rule.accept(&["name"]);
    rule.accept_if("provider", &["ruby"]);
    rule.accept_if("encoding", &["UTF-8"]);
    state(rule, "present");
    rule.carry("path", "file");
    rule.carry("line", "content");
    for (parameter, field) in [("match", "match"), ("after", "after")] {
        if let Some(pattern) = rule.text(parameter) {
            match is_same_in_ruby(&pattern) {
                true => rule.set(field, Str::from(pattern)),
                false => rule.cannot(parameter, "is a pattern that means something else here"),
            }
        }
    }
    for (parameter, field) in [
        ("multiple", "multiple"),
        ("replace", "replace"),
        ("replace_all_matches_not_matching_line", "replaceall"),
        ("append_on_no_match", "append"),
        ("match_for_absence", "removematches"),
    ] {
        if let Some(truth) = rule.truth(parameter) {
            rule.set(field, truth);
        }
    }
    "line"
}

/// Whether a regular expression has the same meaning in Ruby and here. What only one of the two can read is refused by the kind.
fn is_same_in_ruby(pattern: &str) -> bool {
    let groups =
        pattern.split("(?").skip(1).all(|rest| [":", "i)", "i:"].iter().any(|start| rest.starts_with(start)));
    // Possessive repetitions, ranges without a beginning, letters behind a backslash, and operations on sets.
    let differs =
        ["++", "*+", "?+", "}+", "{,", "\\<", "\\>", "\\u", "\\b{", "\\p", "\\P", "&&", "--", "~~", "[[^"];
    pattern.is_ascii() && groups && !differs.iter().any(|part| pattern.contains(part))
}

/// `debconf` becomes `debconf`.
pub(super) fn debconf(rule: &mut Rule<'_>) -> &'static str {
    let item = rule.text("item").unwrap_or_else(|| rule.declared.subject());
    rule.accept(&["name"]);
    rule.accept_if("provider", &["debian"]);
    rule.set("question", Str::from(item));
    rule.carry("package", "package");
    state(rule, "present");
    let kind = rule.text("type");
    let is_password = kind.as_deref() == Some("password");
    if is_password {
        rule.hide("value");
    }
    if rule.text("ensure").as_deref() == Some("absent") {
        // What a question has that is there makes no difference when it is not.
        rule.accept(&["value", "seen"]);
        rule.hide("value");
        return "debconf";
    }
    if let Some(kind) = kind {
        rule.set("type", Str::from(kind));
    }
    if let Some(values) = rule.texts("value") {
        let value = Str::from(values.join(", ").trim().to_owned());
        match is_password {
            true => rule.set("password", Some(value)),
            false => rule.set("value", Some(value)),
        }
    }
    if let Some(seen) = rule.truth("seen") {
        rule.set("seen", Some(seen));
    }
    "debconf"
}

/// `ini_setting` becomes `ini`.
pub(super) fn ini_setting(rule: &mut Rule<'_>) -> &'static str {
    file_and_setting(rule);
    if rule.declared.get("setting").is_none() {
        rule.cannot("setting", "is not given, and so only the section is managed");
    }
    rule.accept_if("refreshonly", &["false"]);
    rule.accept_if("force_new_section_creation", &["true"]);
    rule.carry("section_prefix", "prefix");
    rule.carry("section_suffix", "suffix");
    let letter = rule.text("indent_char");
    match (rule.integer("indent_width"), letter) {
        (None, None) => {}
        (Some(width), letter) => match usize::try_from(width).ok().filter(|width| *width <= 80) {
            Some(width) => {
                rule.set("indent", Some(Str::from(letter.unwrap_or_else(|| " ".to_owned()).repeat(width))));
            }
            None => rule.cannot("indent_width", "is no width of a line"),
        },
        (None, Some(_)) => rule.cannot("indent_char", "is not a space, and its number is not given"),
    }
    match rule.text("value") {
        Some(value) => rule.set("value", Some(Str::from(value.trim()))),
        None if rule.declared.get("ensure").and_then(crate::data::Data::text).as_deref()
            != Some("absent") =>
        {
            rule.cannot("value", "is not given");
        }
        None => {}
    }
    "ini"
}

/// `ini_subsetting` becomes `ini` with an item.
pub(super) fn ini_subsetting(rule: &mut Rule<'_>) -> &'static str {
    file_and_setting(rule);
    rule.carry("subsetting", "item");
    rule.carry("subsetting_key_val_separator", "itemjoin");
    rule.carry("quote_char", "itemquote");
    if let Some(separator) = rule.text("subsetting_separator") {
        // It is part of a pattern in Puppet.
        match separator.len() == 1
            && separator.bytes().all(|byte| byte == b' ' || byte.is_ascii_punctuation())
        {
            true => rule.set("itemseparator", Str::from(separator)),
            false => rule.cannot("subsetting_separator", "is no single sign"),
        }
    }
    let exact = rule.truth("use_exact_match") == Some(true);
    rule.set("itemexact", exact);
    if let Some(value) = rule.text("value") {
        match exact {
            true => rule.cannot("value", "is for an item that is told by its whole text"),
            false => rule.set("value", Some(Str::from(value))),
        }
    }
    match rule.text("insert_type").as_deref() {
        None => rule.accept(&["insert_value"]),
        Some(place @ ("start" | "end" | "before" | "after")) => {
            let place = Str::from(place);
            rule.set("itemplace", place);
            rule.carry("insert_value", "itemother");
        }
        Some(_) => rule.cannot("insert_type", "is a position"),
    }
    let absent = rule.declared.get("ensure").and_then(crate::data::Data::text).as_deref() == Some("absent");
    if rule.truth("delete_if_empty") != Some(true) && absent {
        rule.cannot(
            "delete_if_empty",
            "is not true: versions of Puppet's module differ in what becomes of an empty list",
        );
    }
    "ini"
}

/// What both have.
fn file_and_setting(rule: &mut Rule<'_>) {
    rule.accept(&["name"]);
    rule.accept_if("provider", &["ruby"]);
    rule.accept_if("show_diff", &["true"]);
    state(rule, "present");
    rule.carry("path", "file");
    rule.carry("section", "section");
    if let Some(setting) = rule.text("setting") {
        rule.set("setting", Str::from(setting.trim()));
    }
    if let Some(separator) = rule.text("key_val_separator") {
        // It is part of a pattern in Puppet, where most signs have a meaning of their own.
        let is_plain =
            matches!(separator.trim(), "=" | ":") || (separator.trim().is_empty() && separator.contains(' '));
        match is_plain {
            true => rule.set("separator", Str::from(separator)),
            false => rule.cannot("key_val_separator", "is neither `=` nor `:` nor a space"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_same_in_ruby;

    #[test]
    fn patterns_that_ruby_reads_otherwise_are_told() {
        for same in [
            "^export HTTP_PROXY\\=",
            "^\\s*#?\\s*PermitRootLogin",
            "(?:a|b)$",
            "(?i)x",
            "[a-z]{1,3}",
            "\\[x\\]",
        ] {
            assert!(is_same_in_ruby(same), "{same}");
        }
        for other in ["(?m)a.b", "a(?=b)", "(?<!a)b", "a++", "x{,3}", "\\<a\\>", "é", "[a--b]", "(?<n>a)"] {
            assert!(!is_same_in_ruby(other), "{other}");
        }
    }
}
