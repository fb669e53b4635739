//! `tidy` becomes `tidy`.

use std::collections::BTreeSet;

use mgmt_value::Str;

use super::claims::is_below;
use super::context::asks;
use super::file::{kept_below, most_files};
use super::rule::Rule;
use crate::catalogue::{Declared, squeezed};

pub(super) fn tidy(rule: &mut Rule<'_>) -> &'static str {
    let path = squeezed(&rule.declared.subject());
    let is_managed = |declared: &Declared| {
        let file = squeezed(&declared.subject());
        declared.kind == "File" && (file == path || is_below(&file, &path))
    };
    // Puppet, should it be left to it, has to know of the files that others manage below; so has our kind.
    rule.needs_to_know(is_managed);
    let around = rule.around;
    let managed = around.catalogue.resources.iter().filter(|declared| is_managed(declared));
    let mut keep: BTreeSet<String> = managed.map(|declared| squeezed(&declared.subject())).collect();
    keep.extend(kept_below(rule, &path));
    // What is copied there, or made by what only its type knows, is not named one by one.
    let is_tree = |at: usize, file: &str| {
        let declared = &around.catalogue.resources[at];
        let is_copied =
            declared.kind == "File" && asks(declared, "recurse") && declared.get("source").is_some();
        (is_copied || around.claims.is_composing(at)) && !file.ends_with('*')
    };
    let trees = around.claims.below(&path).filter(|(at, file)| is_tree(*at, file));
    let trees: Vec<String> = trees.map(|(_, file)| format!("{file}/")).collect();
    keep.extend(trees);
    rule.set("keep", keep.into_iter().map(Str::from).collect::<Vec<_>>());
    let claims = around.claims;
    let others = claims.below(&path).map(|(_, path)| path).chain(claims.led_below(&path));
    rule.spares(others.map(str::to_owned).chain(claims.linked_below(&path)));
    rule.accept(&["path"]);
    most_files(rule);
    rule.accept_if("backup", &["false"]);
    rule.set("path", Str::from(path));
    if let Some(kind) = rule.text("type") {
        rule.set("by", Str::from(kind));
    }
    if let Some(age) = rule.text("age") {
        match number_with_unit(&age, 'd').and_then(|(number, unit)| number.checked_mul(seconds(unit)?)) {
            Some(seconds) => rule.set("age", Some(seconds)),
            None => rule.cannot("age", "is no time"),
        }
    }
    if let Some(size) = rule.text("size") {
        match number_with_unit(&size, 'k').and_then(|(number, unit)| number.checked_mul(bytes(unit)?)) {
            Some(bytes) => rule.set("size", Some(bytes)),
            None => rule.cannot("size", "is no size"),
        }
    }
    if let Some(matches) = rule.texts("matches") {
        rule.set("matches", matches.into_iter().map(Str::from).collect::<Vec<_>>());
    }
    match rule.text("recurse").as_deref() {
        None | Some("false" | "0") => {}
        Some("true" | "inf") => rule.set("recurse", true),
        Some(depth) => match depth.parse::<u32>() {
            Ok(depth) => {
                rule.set("recurse", true);
                rule.set("depth", Some(depth));
            }
            Err(_) => rule.cannot("recurse", "is neither true nor false nor a number"),
        },
    }
    if rule.truth("rmdirs") == Some(true) {
        rule.set("rmdirs", true);
    }
    // Nothing tells that something has grown old.
    rule.meta.poll = rule.around.interval;
    "tidy"
}

/// `10m`, `10 minutes` without the space: only the first letter counts.
fn number_with_unit(text: &str, usual: char) -> Option<(u64, char)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let is_word = unit.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let unit = unit.chars().next().map_or(usual, |letter| letter.to_ascii_lowercase());
    Some((number.parse().ok().filter(|_| is_word)?, unit))
}

fn seconds(unit: char) -> Option<u64> {
    match unit {
        's' => Some(1),
        'm' => Some(60),
        'h' => Some(3600),
        'd' => Some(86_400),
        'w' => Some(7 * 86_400),
        _ => None,
    }
}

fn bytes(unit: char) -> Option<u64> {
    let power = "bkmgt".find(unit)?;
    1_u64.checked_shl(10 * u32::try_from(power).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_are_read_as_puppet_reads_them() {
        let age = |text| number_with_unit(text, 'd').and_then(|(number, unit)| Some(number * seconds(unit)?));
        assert_eq!(
            ["1w", "2", "5Minutes", "0", "10s"].map(age),
            [Some(604_800), Some(172_800), Some(300), Some(0), Some(10)]
        );
        assert_eq!(["", "x", "1y", "-1", "1 d"].map(age), [None; 5]);
        let size = |text| number_with_unit(text, 'k').and_then(|(number, unit)| Some(number * bytes(unit)?));
        assert_eq!(
            ["3b", "3", "10m", "1gigabyte"].map(size),
            [Some(3), Some(3072), Some(10 << 20), Some(1 << 30)]
        );
    }
}
