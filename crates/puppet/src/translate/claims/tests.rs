//! No catalogue, however it is made, has a purge remove what one of its resources declares.

use std::collections::BTreeMap;

use mgmt_puppet_process::{Compiled, Generated};
use mgmt_resource::{ResourceGraph, Spec};
use mgmt_resources::KINDS;
use mgmt_value::{Native as _, Str, Value as Field};
use serde_json::{Value, json};

use crate::merge::{Half, merge};
use crate::translate::{TranslateOptions, translate};

/// Numbers that look random and come again with the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.0 >> 33) % bound as u64).unwrap()
    }

    fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }
}

/// A random catalogue, and the paths that its resources declare.
struct Case {
    catalogue: Value,
    declared: Vec<String>,
}

const ROOTS: [&str; 3] = ["/d", "/d/sub", "/e"];

fn case(random: &mut Random) -> Case {
    let mut resources = vec![
        json!({ "type": "Stage", "title": "main", "tags": ["stage"] }),
        json!({ "type": "Class", "title": "main", "tags": ["class"] }),
    ];
    let mut declared = Vec::new();
    for root in ROOTS {
        if random.one_in(4) {
            continue;
        }
        let mut parameters = json!({ "ensure": "directory", "recurse": true, "purge": true });
        if random.one_in(3) {
            parameters["ignore"] = json!("*.swp");
        }
        if random.one_in(2) {
            parameters["force"] = json!(true);
        }
        resources.push(json!({ "type": "File", "title": root, "parameters": parameters, "tags": ["file"] }));
    }
    for number in 0..1 + random.below(12) {
        let root = ROOTS[random.below(ROOTS.len())];
        let deep = if random.one_in(3) { "/deep" } else { "" };
        let path = format!("{root}{deep}/x{number}");
        let (kind, title, parameters) = resource(random, number, &path);
        let tag = if random.one_in(3) { "other" } else { "file" };
        resources.push(json!({ "type": kind, "title": title, "parameters": parameters, "tags": [tag] }));
        declared.push(path);
    }
    let edges = resources.iter().skip(2).map(|resource| {
        let (kind, title) = (resource["type"].as_str().unwrap(), resource["title"].as_str().unwrap());
        json!({ "source": "Class[main]", "target": format!("{kind}[{title}]") })
    });
    let mut edges: Vec<Value> = edges.collect();
    edges.push(json!({ "source": "Stage[main]", "target": "Class[main]" }));
    let catalogue =
        json!({ "name": "host", "environment": "production", "resources": resources, "edges": edges });
    Case { catalogue, declared }
}

/// A resource that declares a path in one of many ways.
fn resource(random: &mut Random, number: usize, path: &str) -> (&'static str, String, Value) {
    let name = format!("r{number}");
    match random.below(17) {
        0 => ("File", path.to_owned(), json!({ "ensure": "file", "content": "x" })),
        1 => ("File", name, json!({ "ensure": "file", "path": path.replacen('/', "//", 1) })),
        2 => ("File", path.to_owned(), json!({ "mode": "0600" })),
        3 => ("File", name, json!({ "path": path, "ensure": "file", "selrange": "s0" })),
        4 => ("Concat_file", name, json!({ "path": path })),
        5 => ("Concat_file", name, json!({ "path": path, "format": "yaml" })),
        6 => ("File_line", name, json!({ "path": path, "line": "x", "after": "y", "match": "(" })),
        7 => ("Thing", name, json!({ "where": { "is": [1, [path]] }, "source": "/elsewhere" })),
        8 => ("Thing", path.to_owned(), json!({})),
        9 => ("Exec", name, json!({ "command": "/bin/true", "creates": path })),
        10 => ("Filebucket", name, json!({ "path": path })),
        11 => ("Exec", name, json!({ "command": "/bin/true", "creates": ["/elsewhere", path] })),
        12 => {
            ("Exec", name, json!({ "command": "/bin/true", "creates": [path], "user": "nobody", "tag": "x" }))
        }
        13 => ("User", name, json!({ "ensure": "present", "home": path })),
        14 => ("Augeas", name, json!({ "context": path, "changes": ["set a 1"] })),
        15 => ("File", format!("/link{path}"), json!({ "ensure": "file", "path": path })),
        _ => ("User", name, json!({ "ensure": "present", "home": path, "managehome": true })),
    }
}

fn compiled(catalogue: &Value) -> Compiled {
    serde_json::from_value(json!({ "catalogue": catalogue })).unwrap()
}

fn texts(spec: &Spec, field: &str) -> Vec<String> {
    let list = spec.resource.get(field).and_then(|list| Vec::<Str>::from_value(&list).ok());
    list.unwrap_or_default().iter().map(|text| text.to_text().into_owned()).collect()
}

fn clean(path: &str) -> String {
    crate::catalogue::squeezed(path)
}

/// What would lose a path: a purge above it that knows of nobody who declares it.
fn losses(graph: &ResourceGraph, declared: &[String]) -> Vec<String> {
    let mut lost = Vec::new();
    for (purger, spec) in graph.nodes() {
        let (directory, spared) = match spec.id.kind {
            "file" if spec.resource.get("purge") == Some(Field::Bool(true)) => {
                let others = graph.nodes().filter(|(node, _)| *node != purger);
                let mut spared = texts(spec, "keep");
                let claimed = others.flat_map(|(_, other)| other.resource.claimed_paths(&other.id.name));
                spared.extend(claimed.map(|path| path.to_text().into_owned()));
                (clean(&spec.resource.claimed_paths(&spec.id.name)[0].to_text()), spared)
            }
            "pippet" => {
                let text = |field: &str| match spec.resource.get(field) {
                    Some(Field::Str(text)) => text.to_text().into_owned(),
                    _ => String::new(),
                };
                let parameters: Value = serde_json::from_str(&text("params")).unwrap_or_default();
                if parameters["purge"] != json!(true) {
                    continue;
                }
                let context: Vec<Value> = serde_json::from_str(&text("context")).unwrap_or_default();
                let known = context.iter().filter(|entry| entry["type"] == "file");
                let path = |entry: &Value| match entry["parameters"]["path"].as_str() {
                    Some(path) => path.to_owned(),
                    None => entry["title"].as_str().unwrap_or_default().to_owned(),
                };
                (clean(&text("title")), known.map(path).collect())
            }
            _ => continue,
        };
        let spared: Vec<String> = spared.iter().map(|path| clean(path)).collect();
        let is_spared = |path: &String| {
            spared.iter().any(|kept| match kept.strip_suffix('*') {
                Some(beginning) => path.starts_with(beginning),
                None => kept == path || super::is_below(path, kept),
            })
        };
        let below = declared.iter().filter(|path| super::is_below(path, &directory));
        lost.extend(below.filter(|path| !is_spared(path)).map(|path| format!("{} loses {path}", spec.id)));
    }
    lost
}

#[test]
fn no_purge_loses_a_declared_path() {
    let mut purges = 0;
    for seed in 0..1500 {
        let mut random = Random(seed);
        let Case { catalogue, declared } = case(&mut random);
        let tags = if random.one_in(3) { vec!["file".to_owned()] } else { Vec::new() };
        let options = TranslateOptions { tags, ..TranslateOptions::default() };
        let translated = translate(&compiled(&catalogue), &KINDS, &options);
        let graph = translated.graph.unwrap_or_else(|| panic!("seed {seed}: {:?}", translated.diagnostics));
        let lost = losses(&graph, &declared);
        assert!(lost.is_empty(), "seed {seed}: {lost:?}\n{catalogue:#}");
        purges +=
            graph.nodes().filter(|(_, spec)| spec.resource.get("purge") == Some(Field::Bool(true))).count();
        // A program beside it purges, too, and has files of its own.
        let mut program = ResourceGraph::new();
        let file = |path: &str, fields: &[(&str, Field)]| {
            let mut resource = (KINDS.get("file").unwrap().make)();
            for (field, value) in fields {
                resource.set(field, value).unwrap().unwrap();
            }
            Spec::of(Str::from(path), std::sync::Arc::from(resource))
        };
        let yes = Field::Bool(true);
        program.add_node(file("/e/of-the-program", &[("state", Str::from("exists").to_value())]));
        for directory in ["/d/own/", "/d/deep/", "/e/deep/"] {
            program.add_node(file(directory, &[("recurse", yes.clone()), ("purge", yes.clone())]));
        }
        let (ours, theirs) = (Half { graph: &program, name: "a" }, Half { graph: &graph, name: "b" });
        let merged = merge(ours, theirs, true);
        let graph = merged.graph.unwrap_or_else(|| panic!("seed {seed}: {:?}", merged.diagnostics));
        let declared = [declared, vec!["/e/of-the-program".to_owned()]].concat();
        let lost = losses(&graph, &declared);
        assert!(lost.is_empty(), "seed {seed}: {lost:?}");
    }
    assert!(purges > 100, "{purges}");
}

#[test]
fn nothing_is_purged_where_a_resource_tells_too_late_what_it_generates() {
    let resources = json!([
        { "type": "Stage", "title": "main" },
        { "type": "File", "title": "/d", "parameters": { "ensure": "directory", "recurse": true, "purge": true } },
        { "type": "File", "title": "/e", "parameters": { "ensure": "directory", "recurse": true, "purge": true, "ignore": "x" } },
        { "type": "Maker", "title": "m" },
    ]);
    let catalogue =
        json!({ "name": "host", "environment": "production", "resources": resources, "edges": [] });
    let mut compiled = compiled(&catalogue);
    let made = Generated { paths: vec!["/d/made".to_owned()], resources: Vec::new() };
    for (generated, purging, warnings) in [
        (BTreeMap::new(), 2, 0),
        (BTreeMap::from([("Maker[m]".to_owned(), Some(made))]), 2, 0),
        (BTreeMap::from([("Maker[m]".to_owned(), None)]), 0, 2),
    ] {
        compiled.generated = generated;
        let translated = translate(&compiled, &KINDS, &TranslateOptions::default());
        let graph = translated.graph.unwrap();
        let text = |spec: &Spec| format!("{:?}{:?}", spec.resource.get("purge"), spec.resource.get("params"));
        let found = graph.nodes().filter(|(_, spec)| {
            let text = text(spec);
            text.contains("Bool(true)") || text.contains("purge")
        });
        let found: Vec<String> = found.map(|(_, spec)| text(spec)).collect();
        assert_eq!(found.len(), purging, "{found:?}");
        let told = translated.diagnostics.iter().filter(|found| found.code == Some("P0206")).count();
        assert_eq!(told, warnings);
        assert!(
            losses(&graph, &["/d/made".to_owned()]).is_empty()
                || purging == 2 && compiled.generated.is_empty()
        );
    }
}

#[test]
fn nothing_is_purged_where_a_type_of_a_module_may_compose_a_path() {
    let purge = json!({ "ensure": "directory", "recurse": true, "purge": true });
    let facts = |passive: bool| json!({ "repo": { "generates": false, "passive": passive } });
    for (claimed, passive, told) in [
        (vec![], false, 2),
        (vec!["/srv/d"], false, 1),
        (vec!["/"], false, 2),
        (vec!["/srv/d/x/../y", "/srv/d/x"], false, 0),
        (vec!["/srv/d//"], false, 1),
        (vec!["/srv"], false, 2),
        (vec!["/srv/www"], false, 1),
        (vec!["/srv/w"], false, 0),
        (vec!["/srv/www/sub"], false, 0),
        (vec![], true, 0),
    ] {
        let resources = json!([
            { "type": "Stage", "title": "main" },
            { "type": "File", "title": "/srv/d", "parameters": purge },
            { "type": "File", "title": "/srv/www", "parameters": purge },
            { "type": "Repo", "title": "r" },
        ]);
        let catalogue =
            json!({ "name": "host", "environment": "production", "resources": resources, "edges": [] });
        let paths = json!({ "Repo[r]": claimed });
        let compiled = json!({ "catalogue": catalogue, "types": facts(passive), "paths": paths });
        let compiled: Compiled = serde_json::from_value(compiled).unwrap();
        let translated = translate(&compiled, &KINDS, &TranslateOptions::default());
        let warnings = translated.diagnostics.iter().filter(|found| found.code == Some("P0206")).count();
        assert_eq!(warnings, told, "{claimed:?}");
        let graph = translated.graph.unwrap();
        let purging =
            graph.nodes().filter(|(_, spec)| spec.resource.get("purge") == Some(Field::Bool(true))).count();
        assert_eq!(purging, 2 - told, "{claimed:?}");
    }
}

#[test]
fn a_type_that_names_no_path_and_writes_no_file_has_everything_purged() {
    for (silent, puppet_only, told) in [(true, false, 0), (false, false, 1), (false, true, 0)] {
        let resources = json!([
            { "type": "Stage", "title": "main" },
            { "type": "File", "title": "/srv/d", "parameters": { "ensure": "directory", "recurse": true, "purge": true } },
            { "type": "Db_user", "title": "bob" },
        ]);
        let catalogue =
            json!({ "name": "host", "environment": "production", "resources": resources, "edges": [] });
        let types = json!({ "db_user": { "generates": false, "passive": false, "silent": silent } });
        let compiled = json!({ "catalogue": catalogue, "types": types, "paths": {} });
        let compiled: Compiled = serde_json::from_value(compiled).unwrap();
        let options = TranslateOptions { puppet_only, ..TranslateOptions::default() };
        let translated = translate(&compiled, &KINDS, &options);
        let warnings = translated.diagnostics.iter().filter(|found| found.code == Some("P0206")).count();
        assert_eq!(warnings, told, "{silent} {puppet_only}");
        let graph = translated.graph.unwrap();
        let purges = |spec: &Spec| match spec.id.kind {
            "file" => spec.resource.get("purge") == Some(Field::Bool(true)),
            "pippet" => format!("{:?}", spec.resource.get("params")).contains("purge"),
            _ => false,
        };
        assert_eq!(
            graph.nodes().filter(|(_, spec)| purges(spec)).count(),
            1 - told,
            "{silent} {puppet_only}"
        );
    }
}

#[test]
fn a_purge_of_a_program_spares_what_the_manifest_names_and_nothing_is_purged_where_that_is_not_known() {
    let resources = json!([
        { "type": "Stage", "title": "main" },
        { "type": "Filebucket", "title": "b", "parameters": { "path": "/srv/e/bucket" } },
        { "type": "File", "title": "/srv/e/left", "parameters": { "content": "x" }, "tags": ["other"] },
        { "type": "Repo", "title": "r", "parameters": { "dir": "/srv/d" } },
        { "type": "Keypair", "title": "/srv/e/key" },
    ]);
    let catalogue =
        json!({ "name": "host", "environment": "production", "resources": resources, "edges": [] });
    let facts = json!({ "generates": false, "passive": false });
    let paths = json!({
        "Repo[r]": ["/srv/d"], "Filebucket[b]": ["/srv/e/bucket"], "File[/srv/e/left]": ["/srv/e/left"],
        "Keypair[/srv/e/key]": ["/srv/e/key"],
    });
    let compiled =
        json!({ "catalogue": catalogue, "types": { "repo": facts, "keypair": facts }, "paths": paths });
    let compiled: Compiled = serde_json::from_value(compiled).unwrap();
    let options = TranslateOptions { skip_tags: vec!["other".to_owned()], ..TranslateOptions::default() };
    let manifest = translate(&compiled, &KINDS, &options).graph.unwrap();
    let mut program = ResourceGraph::new();
    for (kind, name) in [("file", "/srv/d/"), ("file", "/srv/e/"), ("tidy", "/srv/d"), ("tidy", "/srv/e")] {
        let mut resource = (KINDS.get(kind).unwrap().make)();
        for field in ["recurse", "purge"] {
            let _ = resource.set(field, &Field::Bool(true));
        }
        program.add_node(Spec::of(Str::from(name), std::sync::Arc::from(resource)));
    }
    let (ours, theirs) = (Half { graph: &program, name: "a" }, Half { graph: &manifest, name: "b" });
    let merged = merge(ours, theirs, true);
    let told: Vec<&str> = merged.diagnostics.iter().map(|found| found.message.as_str()).collect();
    assert_eq!(
        told.iter().filter(|told| told.contains("pippet[Repo[r]]") || told.contains("Repo[r]")).count(),
        2,
        "{told:?}"
    );
    let graph = merged.graph.unwrap_or_else(|| panic!("{told:?}"));
    let mut purging: Vec<String> = graph
        .nodes()
        .filter(|(_, spec)| spec.id.kind == "tidy" || spec.resource.get("purge") == Some(Field::Bool(true)))
        .map(|(_, spec)| spec.id.to_string())
        .collect();
    purging.sort();
    assert_eq!(purging, ["file[/srv/e/]", "tidy[/srv/e]"]);
    let declared = ["bucket", "left", "key.crt"].map(|name| format!("/srv/e/{name}"));
    let lost = losses(&graph, &declared);
    assert!(lost.is_empty(), "{lost:?}");
}

#[test]
fn a_type_of_a_module_that_names_a_file_with_its_whole_content_is_a_warning() {
    for (claimed, told) in [("/d/a", 1), ("/d/b", 0)] {
        let resources = json!([
            { "type": "Stage", "title": "main" },
            { "type": "File", "title": "/d/a", "parameters": { "content": "x" } },
            { "type": "Repo", "title": "r" },
        ]);
        let catalogue =
            json!({ "name": "host", "environment": "production", "resources": resources, "edges": [] });
        let compiled =
            json!({ "catalogue": catalogue, "paths": { "Repo[r]": [claimed], "File[/d/a]": ["/d/a"] } });
        let compiled: Compiled = serde_json::from_value(compiled).unwrap();
        let translated = translate(&compiled, &KINDS, &TranslateOptions::default());
        let found = translated.diagnostics.iter().filter(|found| found.code == Some("P0207"));
        let found: Vec<&str> = found.map(|found| found.message.as_str()).collect();
        assert_eq!(found.len(), told, "{found:?}");
        assert!(found.iter().all(|found| found.contains("pippet[Repo[r]] may write /d/a")), "{found:?}");
    }
}
