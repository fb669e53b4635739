//! Reversal: undoing a resource after it has disappeared from the graph, also over a restart.
//!
//! Before a reversible resource first applies, what would undo it is written to its state directory. A later graph
//! that lacks the resource gets that reversal as a vertex. The first snapshot is kept until it has been used, because
//! a later one would be of a host that is already in the managed state.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mgmt_resource::{Id, Meta, Registry, Result, ResultExt, Spec, from_stored, state_name, to_stored};
use mgmt_sys::path::ManagedPath;

/// The largest stored reversal that is read back.
const LIMIT: u64 = 64 << 20;

fn file(state: &Path, id: &Id) -> PathBuf {
    state.join(state_name(id)).join("reverse")
}

/// Writes down what would undo a resource, unless that has been done before.
pub(crate) fn store(state: &Path, spec: &Spec) -> Result<()> {
    let file = file(state, &spec.id);
    if file.exists() {
        return Ok(());
    }
    let Some(reversed) = spec.resource.reversed(&spec.id.name)? else { return Ok(()) };
    let mut stored = Spec::of(spec.id.name.clone(), Arc::from(reversed));
    stored.meta = Meta { reverse: false, export: Vec::new(), ..(*spec.meta).clone() }.into();
    stored.is_reversal = true;
    let text = mgmt_sys::aside::with_checksum(&format!("{:#}\n", to_stored(&stored)));
    write(&file, text.as_bytes()).context(format_args!("cannot store the reversal in {}", file.display()))
}

fn write(file: &Path, content: &[u8]) -> std::result::Result<(), Box<dyn std::error::Error>> {
    use mgmt_sys::replace::{Durability, Expect, InPlace, Replacement};
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::DirBuilderExt;

    if let Some(parent) = file.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
    }
    let path = ManagedPath::new(file.as_os_str().as_bytes())?;
    let parent = mgmt_sys::dir::Parent::open(&path)?;
    let name = path.file_name().unwrap_or_default();
    let mut replacement = Replacement::begin(&parent, name, InPlace::Refuse)?;
    replacement.write_all(content)?;
    let private = mgmt_sys::handle::Attributes { mode: Some(0o600), ..Default::default() };
    replacement.commit(&private, Expect::Anything, Durability::Full)?;
    Ok(())
}

/// The stored reversals whose resource is not among those declared. One that is damaged is set aside and reported.
pub(crate) fn pending(
    state: &Path,
    declared: &BTreeSet<Id>,
    registry: &Registry,
) -> (Vec<Spec>, Vec<String>) {
    let mut specs = Vec::new();
    let mut problems = Vec::new();
    let mut files: Vec<PathBuf> = match fs::read_dir(state) {
        Ok(entries) => {
            entries.filter_map(|entry| entry.ok().map(|entry| entry.path().join("reverse"))).collect()
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return (specs, problems),
        Err(error) => {
            return (specs, vec![format!("cannot look for reversals in {}: {error}", state.display())]);
        }
    };
    files.sort();
    for file in files {
        match read(&file, registry) {
            Ok(Some(spec)) if !declared.contains(&spec.id) => specs.push(spec),
            Ok(_) => {}
            Err(error) => {
                let said = mgmt_sys::aside::set_aside_and_describe(&file, &error);
                problems.push(format!("{said}; lost: how to undo a resource"));
            }
        }
    }
    (specs, problems)
}

fn read(file: &Path, registry: &Registry) -> std::result::Result<Option<Spec>, String> {
    match fs::metadata(file) {
        Ok(metadata) if metadata.len() > LIMIT => return Err("it is too large".into()),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    }
    let text = fs::read(file).map_err(|error| error.to_string())?;
    let text = mgmt_sys::aside::verified(&text)?;
    let json = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    let spec = from_stored(&json, registry).map_err(|error| error.to_string())?;
    Ok(spec.is_reversal.then_some(spec))
}

/// Forgets a reversal that has been used.
pub(crate) fn forget(state: &Path, id: &Id) {
    let file = file(state, id);
    match fs::remove_file(&file) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => tracing::warn!(resource = %id, "cannot remove {}: {error}", file.display()),
    }
}
