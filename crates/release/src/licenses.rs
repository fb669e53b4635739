//! The texts of the licences of what the program is made of, which ask to go along with it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::metadata::Package;
use crate::{Inventory, Result};

/// How a file is called that has a licence in it.
const NAMES: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE"];

/// All texts, each once, with the crates that it is of.
pub(crate) fn text(inventory: &Inventory) -> Result<String> {
    let mut texts: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    let mut without = Vec::new();
    for (key, package) in inventory.packages.iter().filter(|(_, package)| package.is_foreign) {
        let found = of(package);
        if found.is_empty() {
            without.push((key.as_str(), package.license.as_deref().unwrap_or("unknown")));
        }
        for text in found {
            texts.entry(text).or_default().push(key);
        }
    }
    let mut ordered: Vec<_> = texts.into_iter().map(|(text, keys)| (keys, text)).collect();
    ordered.sort();
    let mut all = String::from("Licences of the libraries in mgmt\n");
    for (keys, text) in ordered {
        // Writing to a string cannot fail, here and below.
        let _ = write!(all, "\n{}\n{}\n\n{}\n", "=".repeat(78), keys.join(", "), text.trim_end());
    }
    if !without.is_empty() {
        let _ = write!(all, "\n{}\nThese bring no text of their licence along:\n\n", "=".repeat(78));
        for (key, license) in without {
            let _ = writeln!(all, "{key}: {license}");
        }
    }
    Ok(all)
}

fn of(package: &Package) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(&package.directory) else { return Vec::new() };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    let is_license = |path: &&std::path::PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        path.is_file() && NAMES.iter().any(|start| name.starts_with(start))
    };
    let read = |path: &std::path::PathBuf| std::fs::read(path).ok();
    let texts = paths.iter().filter(is_license).filter_map(read);
    texts.map(|bytes| String::from_utf8_lossy(&bytes).replace("\r\n", "\n")).collect()
}
