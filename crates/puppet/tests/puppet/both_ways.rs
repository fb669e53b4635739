//! What our own process tells besides the catalogue is needed for types of modules alone: without it, the graph is the same.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::path::Path;

use mgmt_puppet::{TranslateOptions, translate};
use mgmt_puppet_process::{Compiled, Input, Puppet, Settings};
use mgmt_resources::KINDS;

/// Manifests with types of modules that have relations of their own.
const CUSTOM: [&str; 4] = ["anchors.pp", "concat-json.pp", "concat-secret.pp", "concat.pp"];

/// Each so many of the manifests is compiled by the command line, too, which takes its time.
const EACH: usize = 12;

/// Fields that depend on what Puppet tells besides the catalogue.
const FROM_PUPPET: [&str; 2] = ["settings", "paths"];

/// The resources with their fields, and the edges, in an order of their own.
fn told(compiled: &Compiled, code: &str) -> Vec<String> {
    let translated = translate(compiled, &KINDS, &TranslateOptions::default());
    let graph = translated.graph.unwrap_or_else(|| panic!("{code}: {:?}", translated.diagnostics));
    let mut lines = Vec::new();
    for (_, spec) in graph.nodes() {
        let fields = spec.resource.schema().fields.iter().filter(|field| !FROM_PUPPET.contains(&field.name));
        let fields: Vec<String> =
            fields.map(|field| format!("{}={:?}", field.name, spec.resource.get(field.name))).collect();
        lines.push(format!("{} {}", spec.id, fields.join(" ")));
    }
    let name = |id| graph.node(id).unwrap().id.to_string();
    lines
        .extend(graph.edges().map(|(from, to, edge)| format!("{} {} {}", name(from), edge.notify, name(to))));
    lines.sort();
    lines
}

#[tokio::test]
async fn the_catalogue_alone_gives_the_same_graph() {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut files: Vec<_> = std::fs::read_dir(place).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| !CUSTOM.iter().any(|name| file.ends_with(name)));
    files.sort();
    assert!(files.len() >= 50, "{} manifests", files.len());
    let puppet = Puppet::new(Settings::default());
    for (number, file) in files.iter().enumerate() {
        let code = std::fs::read_to_string(file).unwrap();
        let input = Input::Code(code);
        let mut compiled = puppet.compile_warm(&input).await.unwrap();
        let (name, ours) = (file.display().to_string(), told(&compiled, "ours"));
        compiled.relations.clear();
        compiled.types.clear();
        assert_eq!(ours, told(&compiled, &name), "{name}");
        // The command line leaves what is deferred as it is.
        if number % EACH == 0 && !file.ends_with("deferred.pp") {
            let plain = puppet.compile_plainly(&input).await.unwrap();
            assert_eq!(ours, told(&plain, &name), "{name}");
        }
    }
}
