//! Manifests and the graphs that come of them. What is expected stands behind each manifest, as comments; with `UPDATE_GOLDEN=1` it
//! is written there.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::fmt::Write as _;
use std::path::Path;

use mgmt_puppet::{Outcome, TranslateOptions, Translated, translate};
use mgmt_puppet_process::{Input, Puppet, Settings};
use mgmt_resource::Spec;
use mgmt_resources::KINDS;
use mgmt_value::Value;

/// Where what is expected begins.
const MARK: &str = "#=>";

#[tokio::test]
async fn what_comes_of_manifests_is_as_it_was() {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut files: Vec<_> = std::fs::read_dir(place).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 50, "{} manifests", files.len());
    let (puppet, mut wrong) = (Puppet::new(Settings::default()), Vec::new());
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let lines = text.lines().take_while(|line| !line.starts_with(MARK));
        let code: String = lines.map(|line| format!("{line}\n")).collect();
        let compiled = puppet.compile_warm(&Input::Code(code.clone())).await;
        let compiled = compiled.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        // What becomes of labels depends on the host: here they count.
        let options = TranslateOptions { selinux: "/".into(), ..TranslateOptions::default() };
        let translated = translate(&compiled, &KINDS, &options);
        let expected = format!("{code}{}", told(&translated));
        if expected != text {
            if std::env::var_os("UPDATE_GOLDEN").is_some() {
                std::fs::write(&file, expected).unwrap();
            } else {
                wrong.push(format!("{}:\n{expected}", file.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn told(translated: &Translated) -> String {
    let mut text = String::new();
    let graph = translated.graph.as_ref().unwrap_or_else(|| panic!("{:?}", translated.diagnostics));
    let mut lines: Vec<String> =
        graph.nodes().filter(|(_, spec)| !is_marker(spec)).map(|(_, spec)| shown(spec)).collect();
    let named = |id| graph.node(id).map(|spec| spec.id.to_string()).unwrap_or_default();
    // The class of settings is in every graph, with nothing in it.
    let edges = graph.edges().filter_map(|(from, to, edge)| {
        let arrow = if edge.notify { "~>" } else { "->" };
        let line = format!("{} {arrow} {}", named(from), named(to));
        (!line.contains("Class[Settings]")).then_some(line)
    });
    let mut edges: Vec<String> = edges.collect();
    edges.sort();
    lines.append(&mut edges);
    for decision in &translated.decisions {
        if let Outcome::Puppet(reasons) = &decision.outcome {
            let reasons: Vec<String> = reasons.iter().map(ToString::to_string).collect();
            lines.push(format!("{} is left to Puppet: {}", decision.reference, reasons.join("; ")));
        }
    }
    for line in lines {
        writeln!(text, "{MARK} {line}").unwrap();
    }
    text
}

/// One end of a container.
fn is_marker(spec: &Spec) -> bool {
    let name = spec.id.name.to_text();
    spec.id.kind == "noop" && (name.starts_with("admissible_") || name.starts_with("completed_"))
}

/// A resource with the fields and metaparameters that are not as usual.
fn shown(spec: &Spec) -> String {
    let usual = (spec.resource.schema().make)();
    let mut text = spec.id.to_string();
    for field in spec.resource.schema().fields {
        let value = spec.resource.get(field.name).unwrap();
        // Where the modules are is another matter on each host.
        if Some(&value) != usual.get(field.name).as_ref() && field.name != "settings" {
            let value = match &value {
                Value::Str(text) => text.display().to_string(),
                other => other.to_string(),
            };
            write!(text, " {}={value}", field.name).unwrap();
        }
    }
    let meta = &spec.meta;
    for (name, value) in [
        ("noop", i64::from(meta.noop)),
        ("poll", meta.poll.into()),
        ("retry", meta.retry.unwrap_or(0).into()),
        ("delay", meta.delay.cast_signed()),
        ("timeout", meta.timeout.cast_signed()),
    ] {
        if value != 0 {
            write!(text, " meta:{name}={value}").unwrap();
        }
    }
    if !meta.window.is_empty() {
        let words: Vec<String> = meta.window.iter().map(|word| word.display().to_string()).collect();
        write!(text, " meta:window={}", words.join(" ")).unwrap();
    }
    text
}

#[tokio::test]
async fn ten_thousand_resources_are_a_graph_and_so_is_nothing() {
    let puppet = Puppet::new(Settings::default());
    for (code, count) in [("range(1, 10000).each |$n| { notify { \"n${n}\": } }", 10_000), ("", 0)] {
        let compiled = puppet.compile_warm(&Input::Code(code.to_owned())).await.unwrap();
        let translated = translate(&compiled, &KINDS, &TranslateOptions::default());
        let graph = translated.graph.unwrap();
        // Each is between the two ends of its class; the stage and both classes have two ends each.
        assert_eq!(
            (graph.node_count(), graph.edges().count()),
            (count + 6, 2 * count + if count == 0 { 6 } else { 5 })
        );
        assert_eq!(translated.decisions.len(), count);
    }
}
