//! The crates that the program is made of, as cargo knows them.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::{ReleaseError, Result};

/// The program and all that it is made of: what it depends on, and what that depends on, for one target. What only tests or build
/// scripts use is not part of it.
#[derive(Clone, Debug)]
pub struct Inventory {
    /// The crates, by name and version; the program is one of them.
    pub(crate) packages: BTreeMap<String, Package>,
    /// The key of the program.
    pub(crate) root: String,
}

/// One crate.
#[derive(Clone, Debug)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    /// An SPDX expression, if the crate says one.
    pub(crate) license: Option<String>,
    pub(crate) description: Option<String>,
    /// From the registry, and not from this repository.
    pub(crate) is_foreign: bool,
    /// Of what the registry has.
    pub(crate) sha256: Option<String>,
    /// Runs in the compiler; what it makes is in the program, and itself is not.
    pub(crate) is_macro: bool,
    /// Where its sources are.
    pub(crate) directory: PathBuf,
    /// The keys of what it uses.
    pub(crate) uses: Vec<String>,
}

impl Inventory {
    /// Asks cargo about the workspace, for a target such as `x86_64-unknown-linux-musl`.
    pub fn of(workspace: &Path, target: &str) -> Result<Inventory> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
        let output = Command::new(cargo)
            .args(["metadata", "--format-version=1", "--locked", "--quiet", "--filter-platform", target])
            .current_dir(workspace)
            .output()
            .map_err(|error| ReleaseError::new(format!("cannot run cargo: {error}")))?;
        if !output.status.success() {
            return Err(ReleaseError::new(String::from_utf8_lossy(&output.stderr)));
        }
        let lock = std::fs::read_to_string(workspace.join("Cargo.lock"))
            .map_err(|error| ReleaseError::new(format!("cannot read Cargo.lock: {error}")))?;
        let metadata = serde_json::from_slice(&output.stdout).map_err(ReleaseError::new)?;
        Inventory::read(&metadata, &checksums(&lock))
    }

    fn read(metadata: &Value, checksums: &BTreeMap<String, String>) -> Result<Inventory> {
        let described: BTreeMap<&str, &Value> = list(&metadata["packages"])
            .filter_map(|package| Some((package["id"].as_str()?, package)))
            .collect();
        let nodes: BTreeMap<&str, &Value> = list(&metadata["resolve"]["nodes"])
            .filter_map(|node| Some((node["id"].as_str()?, node)))
            .collect();
        let key = |id: &str| described.get(id).map(|package| key(package));
        let root = described.iter().find(|(_, package)| package["name"] == "mgmt");
        let root = *root.ok_or_else(|| ReleaseError::new("the workspace has no program `mgmt`"))?.0;
        let mut packages = BTreeMap::new();
        let (mut seen, mut waiting) = (BTreeSet::from([root]), vec![root]);
        while let Some(id) = waiting.pop() {
            let Some(described) = described.get(id) else { continue };
            let mut package = package(described, checksums);
            let uses = nodes.get(id).map_or_else(Vec::new, |node| used(node));
            package.uses = uses.iter().filter_map(|id| key(id)).collect();
            package.uses.sort();
            waiting.extend(uses.into_iter().filter(|id| seen.insert(id)));
            packages.insert(self::key(described), package);
        }
        Ok(Inventory { packages, root: key(root).unwrap_or_default() })
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn key(package: &Value) -> String {
    let text = |name: &str| package[name].as_str().unwrap_or_default();
    format!("{}@{}", text("name"), text("version"))
}

/// The ids of what a crate uses when it runs.
fn used(node: &Value) -> Vec<&str> {
    let is_used = |dependency: &&Value| list(&dependency["dep_kinds"]).any(|kind| kind["kind"].is_null());
    list(&node["deps"]).filter(is_used).filter_map(|dependency| dependency["pkg"].as_str()).collect()
}

fn package(described: &Value, checksums: &BTreeMap<String, String>) -> Package {
    let text = |name: &str| described[name].as_str().map(str::to_owned);
    let kinds = list(&described["targets"]).flat_map(|target| list(&target["kind"]));
    let manifest = PathBuf::from(text("manifest_path").unwrap_or_default());
    Package {
        name: text("name").unwrap_or_default(),
        version: text("version").unwrap_or_default(),
        // Some still write a slash for `OR`, as was usual once.
        license: text("license").map(|license| license.replace(" / ", " OR ").replace('/', " OR ")),
        description: text("description").map(|text| text.split_whitespace().collect::<Vec<_>>().join(" ")),
        is_foreign: !described["source"].is_null(),
        sha256: checksums.get(&key(described)).cloned(),
        is_macro: kinds.into_iter().any(|kind| kind == "proc-macro"),
        directory: manifest.parent().map(Path::to_owned).unwrap_or_default(),
        uses: Vec::new(),
    }
}

/// What the lock says that the crates of the registry are.
fn checksums(lock: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for block in lock.split("[[package]]") {
        let value = |name: &str| {
            let mut lines = block.lines();
            lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(" = \"")?.strip_suffix('"'))
        };
        if let (Some(name), Some(version), Some(sum)) = (value("name"), value("version"), value("checksum")) {
            found.insert(format!("{name}@{version}"), sum.to_owned());
        }
    }
    found
}
