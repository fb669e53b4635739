//! Puppet 8, in a root of its own that `cargo xtask setup` makes: the same manifests become the same graphs as with Puppet 7, in Puppet
//! 8's own order.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::orders::{ALL, compare, same_order};
use mgmt_puppet::{TranslateOptions, translate};
use mgmt_puppet_process::{Compiled, Input, Installation, Puppet, Settings};
use mgmt_resources::KINDS;

/// Where Debian 13 is, with its Puppet.
const ROOT: &str = "/var/cache/mgmt-tests/puppet-8";

/// Manifests of which Puppet does not tell its order there: the root runs no services, and `sshkey` renames its resources when it is
/// applied, as with Puppet 7. Their graphs are compared nevertheless.
const WITHOUT_ORDER: [&str; 2] = ["services.pp", "ssh-keys.pp"];

/// A program that runs another in the root.
fn inside(place: &Path, name: &str) -> PathBuf {
    let path = place.join(name);
    let text = format!(
        "#!/bin/sh\nexec unshare --mount /bin/sh -c 'mount -t proc proc {ROOT}/proc && exec chroot {ROOT} /usr/bin/{name} \"$@\"' {name} \"$@\"\n"
    );
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// Puppet 8, started by programs in this place.
async fn puppet_8(place: &Path) -> Puppet {
    assert!(Path::new(ROOT).join("usr/bin/puppet").exists(), "`cargo xtask setup` makes {ROOT}");
    let installation = Installation { ruby: inside(place, "ruby"), puppet: inside(place, "puppet") };
    let puppet = Puppet::new(Settings { installation: Some(installation), ..Settings::default() });
    let version = puppet.hello().await.unwrap().puppet;
    assert!(version.starts_with("8."), "{version}");
    puppet
}

/// The resources with their fields, and the edges, in an order of their own.
fn told(compiled: &Compiled) -> Result<Vec<String>, String> {
    let translated = translate(compiled, &KINDS, &TranslateOptions::default());
    let graph = translated.graph.ok_or_else(|| format!("{:?}", translated.diagnostics))?;
    let mut lines = Vec::new();
    for (_, spec) in graph.nodes() {
        let fields = spec.resource.schema().fields.iter().filter(|field| field.name != "settings");
        let fields: Vec<String> =
            fields.map(|field| format!("{}={:?}", field.name, spec.resource.get(field.name))).collect();
        lines.push(format!("{} {}", spec.id, fields.join(" ")));
    }
    let name = |id| graph.node(id).unwrap().id.to_string();
    lines
        .extend(graph.edges().map(|(from, to, edge)| format!("{} {} {}", name(from), edge.notify, name(to))));
    lines.sort();
    Ok(lines)
}

#[tokio::test]
async fn puppet_8_gives_the_same_graphs_as_puppet_7_in_its_own_order() {
    let place = tempfile::tempdir().unwrap();
    let eight = puppet_8(place.path()).await;
    let seven = Puppet::new(Settings::default());
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut files: Vec<_> = std::fs::read_dir(golden).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 50, "{} manifests", files.len());
    let mut wrong = Vec::new();
    for file in files {
        let name = file.file_name().unwrap().to_str().unwrap().to_owned();
        let input = Input::Code(std::fs::read_to_string(&file).unwrap());
        let of_seven = told(&seven.compile_warm(&input).await.unwrap()).unwrap();
        let compiled = match eight.compile_warm(&input).await {
            Ok(compiled) => compiled,
            Err(error) => {
                wrong.push(format!("{name}: {error}"));
                continue;
            }
        };
        let of_eight = told(&compiled);
        if of_eight.as_ref() != Ok(&of_seven) {
            let lines = of_eight.clone().unwrap_or_default();
            let gone: Vec<_> = of_seven.iter().filter(|line| !lines.contains(line)).collect();
            let new: Vec<_> = lines.iter().filter(|line| !of_seven.contains(line)).collect();
            wrong.push(format!("{name}: gone {gone:#?}, new {new:#?} {:?}", of_eight.err()));
        }
        if let Err(why) = same_order(&eight, &input, &compiled).await
            && !WITHOUT_ORDER.contains(&name.as_str())
        {
            wrong.push(format!("{name}: {why}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn every_order_that_we_find_is_the_one_that_puppet_8_finds() {
    let place = tempfile::tempdir().unwrap();
    let puppet = puppet_8(place.path()).await;
    let (mut wrong, mut right) = (Vec::new(), 0);
    for code in ALL.iter().copied().flatten() {
        match compare(&puppet, code).await {
            Ok(()) => right += 1,
            Err(why) => wrong.push(why),
        }
    }
    assert!(wrong.is_empty(), "{right} are right, these are not:\n{}", wrong.join("\n"));
    assert!(right >= 70, "{right}");
}
