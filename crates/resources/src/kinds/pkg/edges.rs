//! What a package is, and what it comes before.

use std::collections::HashSet;
use std::sync::Arc;

use mgmt_resource::{Identity, Order, Want};
use mgmt_value::Str;

use super::backend;

/// Where the service manager finds the units of packages.
const UNITS: [&[u8]; 2] = [b"/usr/lib/systemd/system/", b"/lib/systemd/system/"];
const UNIT_SUFFIXES: [&[u8]; 6] = [b".service", b".socket", b".timer", b".mount", b".path", b".target"];

/// Directories of programs that have two names on most hosts.
const MERGED: [&[u8]; 2] = [b"/bin/", b"/sbin/"];

pub(super) fn provides(name: &Str) -> Vec<Identity> {
    let contents = Contents::of(&files(name));
    let mut identities = vec![Identity::Package(plain_name(name))];
    for leaf in &contents.leaves {
        identities.extend(other_name(leaf).map(Identity::PackageFile));
        identities.push(Identity::PackageFile(leaf.clone()));
    }
    identities.extend(contents.directories.into_iter().map(Identity::PackageFile));
    identities
}

pub(super) fn wants(name: &Str) -> Vec<Want> {
    let contents = Contents::of(&files(name));
    if contents.leaves.is_empty() {
        return Vec::new();
    }
    let mut after = Vec::new();
    for leaf in &contents.leaves {
        after.extend(unit(leaf));
        after.push(Identity::Path(leaf.clone()));
        // A directory without anything in it looks like a file in the list.
        after.push(Identity::Path([leaf.as_bytes(), b"/"].concat().into()));
    }
    let mut wants = vec![Want::Each(Order::After, after)];
    // Whoever manages a directory that the package fills comes after it, too: the nearest one above each file.
    wants.extend(contents.nearest.iter().map(|directory| {
        let above = parents(directory).map(|directory| Identity::Path(directory.into()));
        Want::First(Order::After, above.collect())
    }));
    wants
}

fn files(name: &Str) -> Arc<[Str]> {
    backend::find().map(|backend| backend.files(name)).unwrap_or_default()
}

/// The name without an architecture, as others ask for it.
fn plain_name(name: &Str) -> Str {
    match name.iter().position(|byte| *byte == b':') {
        Some(colon) => name[..colon].into(),
        None => name.clone(),
    }
}

/// The list of a package, taken apart.
#[derive(Debug, Default)]
struct Contents {
    /// What nothing else in the list is below of.
    leaves: Vec<Str>,
    /// The rest, each with a slash at its end.
    directories: Vec<Str>,
    /// The directories that leaves are directly in, each with a slash at its end.
    nearest: Vec<Str>,
}

impl Contents {
    fn of(paths: &[Str]) -> Contents {
        let holders: HashSet<&[u8]> = paths.iter().filter_map(|path| holder(path)).collect();
        let mut contents = Contents::default();
        let mut nearest: Vec<&[u8]> = Vec::new();
        for path in paths {
            if path.as_bytes() == b"/" || path.as_bytes() == b"/." {
                continue;
            }
            let slashed = [path.as_bytes(), b"/"].concat();
            if holders.contains(&slashed[..]) {
                contents.directories.push(slashed.into());
            } else {
                contents.leaves.push(path.clone());
                nearest.extend(holder(path));
            }
        }
        nearest.sort_unstable();
        nearest.dedup();
        contents.nearest = nearest.into_iter().map(Str::from).collect();
        contents
    }
}

/// The directory that a path is in, with its slash.
fn holder(path: &[u8]) -> Option<&[u8]> {
    let slash = path.iter().rposition(|byte| *byte == b'/')?;
    path.get(..=slash)
}

/// A directory and those above it, nearest first, but not the root, which nothing but everything is in.
fn parents(directory: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(directory).filter(|directory| directory.len() > 1);
    std::iter::from_fn(move || {
        let this = rest?;
        rest = holder(&this[..this.len() - 1]).filter(|above| above.len() > 1);
        Some(this)
    })
}

fn unit(path: &Str) -> Option<Identity> {
    let name = UNITS.iter().find_map(|directory| path.strip_prefix(*directory))?;
    let is_unit = !name.contains(&b'/') && UNIT_SUFFIXES.iter().any(|suffix| name.ends_with(suffix));
    is_unit.then(|| Identity::Unit { name: name.into(), session: false })
}

/// The other path of a program where `/bin` and `/usr/bin` are the same directory.
fn other_name(path: &Str) -> Option<Str> {
    if MERGED.iter().any(|directory| path.starts_with(directory)) {
        return Some([b"/usr", path.as_bytes()].concat().into());
    }
    let rest = path.strip_prefix(b"/usr")?;
    MERGED.iter().any(|directory| rest.starts_with(directory)).then(|| rest.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(paths: &[&str]) -> Contents {
        Contents::of(&paths.iter().map(|path| Str::from(*path)).collect::<Vec<_>>())
    }

    #[test]
    fn what_something_else_is_below_of_is_a_directory() {
        let found = contents(&["/.", "/etc", "/etc/a", "/etc/a/b.conf", "/etc/ab", "/var", "/var/empty"]);
        assert_eq!(found.leaves, ["/etc/a/b.conf", "/etc/ab", "/var/empty"].map(Str::from));
        assert_eq!(found.directories, ["/etc/", "/etc/a/", "/var/"].map(Str::from));
        assert_eq!(found.nearest, ["/etc/", "/etc/a/", "/var/"].map(Str::from));
    }

    #[test]
    fn directories_are_climbed_up_to_the_root() {
        let list = |path: &'static str| {
            parents(path.as_bytes())
                .map(|path| String::from_utf8_lossy(path).into_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(list("/a/b/c/"), ["/a/b/c/", "/a/b/", "/a/"]);
        assert_eq!(list("/a/"), ["/a/"]);
        assert!(list("/").is_empty());
    }

    #[test]
    fn units_are_found_in_both_places_and_nothing_else_is_a_unit() {
        let named = |name: &str| Some(Identity::Unit { name: name.into(), session: false });
        assert_eq!(unit(&"/lib/systemd/system/a.service".into()), named("a.service"));
        assert_eq!(unit(&"/usr/lib/systemd/system/a@.socket".into()), named("a@.socket"));
        for other in ["/lib/systemd/system/a.service.d/b.conf", "/lib/systemd/system/a", "/etc/a.service"] {
            assert_eq!(unit(&other.into()), None, "{other}");
        }
    }

    #[test]
    fn programs_have_both_of_their_names() {
        let other = |path: &str| other_name(&path.into()).map(|path| path.to_text().into_owned());
        assert_eq!(other("/bin/sh").as_deref(), Some("/usr/bin/sh"));
        assert_eq!(other("/usr/sbin/nginx").as_deref(), Some("/sbin/nginx"));
        assert_eq!(other("/usr/share/doc"), None);
        assert_eq!(other("/etc/passwd"), None);
    }

    #[test]
    fn a_long_list_is_taken_apart_in_no_time() {
        let paths = (0..200_000).map(|number| Str::from(format!("/usr/share/{}/{number}", number / 100)));
        let found = Contents::of(&paths.collect::<Vec<_>>());
        assert_eq!((found.leaves.len(), found.nearest.len()), (200_000, 2_000));
    }

    #[test]
    fn an_architecture_is_no_part_of_the_name() {
        assert_eq!(plain_name(&"libc6:i386".into()), Str::from("libc6"));
        assert_eq!(plain_name(&"libc6".into()), Str::from("libc6"));
    }
}
