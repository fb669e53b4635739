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

/// What comes of resources, with what Puppet's types tell of their paths and of themselves.
fn told(resources: Value, paths: Value, types: Value) -> crate::translate::Translated {
    let mut all = vec![json!({ "type": "Stage", "title": "main" })];
    all.extend(resources.as_array().unwrap().iter().cloned());
    let catalogue = json!({ "name": "host", "environment": "production", "resources": all, "edges": [] });
    let compiled = json!({ "catalogue": catalogue, "paths": paths, "types": types });
    let compiled: Compiled = serde_json::from_value(compiled).unwrap();
    translate(&compiled, &KINDS, &TranslateOptions::default())
}

fn kept(graph: &ResourceGraph, kind: &str) -> Vec<String> {
    let (_, spec) =
        graph.nodes().find(|(_, spec)| spec.id.kind == kind && !texts(spec, "keep").is_empty()).unwrap();
    texts(spec, "keep")
}

#[test]
fn a_copy_leaves_each_file_of_the_catalogue_to_its_resource() {
    let copy = json!({ "ensure": "directory", "recurse": true, "source": "/usr", "force": true });
    let mut purging = copy.clone();
    purging["purge"] = json!(true);
    for parameters in [copy, purging] {
        let resources = json!([
            { "type": "File", "title": "/srv/d", "parameters": parameters },
            { "type": "File", "title": "/srv/d/own", "parameters": { "ensure": "directory" } },
            { "type": "File", "title": "/srv/d/deep//x", "parameters": { "content": "" } },
            { "type": "File", "title": "/srv/dd", "parameters": { "content": "" } },
        ]);
        let graph = told(resources, Value::Null, json!({})).graph.unwrap();
        assert_eq!(kept(&graph, "file"), ["/srv/d/deep/x", "/srv/d/own"]);
    }
}

#[test]
fn what_a_type_cannot_tell_is_read_off_the_parameters_and_dots_are_no_detour() {
    let resources = json!([
        { "type": "File", "title": "/srv/d", "parameters": { "ensure": "directory", "recurse": true, "purge": true } },
        { "type": "Thing", "title": "a", "parameters": { "where": "/srv/d/untold" } },
        { "type": "Thing", "title": "b", "parameters": {} },
        { "type": "Thing", "title": "c", "parameters": {} },
    ]);
    let paths = json!({ "Thing[b]": [], "Thing[c]": ["/srv/e/../d/./back"] });
    let graph = told(resources, paths, json!({})).graph.unwrap();
    assert_eq!(kept(&graph, "file"), ["/srv/d/back", "/srv/d/untold"]);
}

#[test]
fn what_a_link_of_the_catalogue_leads_to_is_spared_before_the_link_is_there() {
    for ignored in [false, true] {
        let mut purge = json!({ "ensure": "directory", "recurse": true, "purge": true });
        if ignored {
            purge["ignore"] = json!("x");
        }
        let resources = json!([
            { "type": "File", "title": "/srv/new", "parameters": purge },
            { "type": "File", "title": "/srv/current", "parameters": { "ensure": "link", "target": "../srv/next" } },
            { "type": "File", "title": "/srv/next", "parameters": { "ensure": "/srv/new" } },
            { "type": "File", "title": "/srv/current/conf", "parameters": { "content": "x", "replace": false } },
            { "type": "Exec", "title": "e", "parameters": { "command": "/bin/true", "creates": "/srv/next/made" } },
        ]);
        let graph = told(resources, Value::Null, json!({})).graph.unwrap();
        match ignored {
            false => assert_eq!(kept(&graph, "file"), ["/srv/new/conf", "/srv/new/made"]),
            true => {
                let declared = ["/srv/new/conf", "/srv/new/made"].map(str::to_owned);
                let lost = losses(&graph, &declared);
                assert!(lost.is_empty(), "{lost:?}");
            }
        }
    }
}

#[test]
fn a_directory_is_not_tidied_where_something_unknown_may_be_made_and_what_is_copied_stays() {
    let facts = json!({ "repo": { "generates": false, "passive": false } });
    let resources = json!([
        { "type": "Tidy", "title": "/srv/t", "parameters": { "recurse": true, "age": "1w" } },
        { "type": "File", "title": "/srv/t/copied", "parameters": { "ensure": "directory", "recurse": true, "source": "/usr" } },
        { "type": "File", "title": "/srv/t/plain", "parameters": { "ensure": "directory" } },
        { "type": "Repo", "title": "r" },
    ]);
    for (claimed, told_of) in [("/srv/t/checkout", 0), ("/srv/t", 1), ("/srv", 1), ("/srv/other", 0)] {
        let paths = json!({ "Repo[r]": [claimed], "File[/srv/t/copied]": ["/srv/t/copied"], "File[/srv/t/plain]": ["/srv/t/plain"] });
        let translated = told(resources.clone(), paths, facts.clone());
        let warnings = translated.diagnostics.iter().filter(|found| found.code == Some("P0206"));
        let warnings: Vec<&str> = warnings.map(|found| found.message.as_str()).collect();
        assert_eq!(warnings.len(), told_of, "{warnings:?}");
        assert!(
            warnings.iter().all(|text| text.contains("Tidy[/srv/t] is not tidied: Repo[r]")),
            "{warnings:?}"
        );
        let graph = translated.graph.unwrap();
        assert_eq!(graph.nodes().filter(|(_, spec)| spec.id.kind == "tidy").count(), 1 - told_of);
        if told_of == 0 {
            let kept = kept(&graph, "tidy");
            assert!(
                kept.contains(&"/srv/t/copied/".to_owned()) && !kept.contains(&"/srv/t/plain/".to_owned())
            );
            assert_eq!(kept.contains(&format!("{claimed}/")), claimed == "/srv/t/checkout", "{kept:?}");
        }
    }
}

#[test]
fn a_type_that_makes_others_knows_all_that_the_catalogue_has() {
    let resources = json!([
        { "type": "Chain", "title": "input", "parameters": { "purge": true } },
        { "type": "Rule", "title": "100 web", "parameters": { "port": 80 } },
        { "type": "File", "title": "/srv/a", "parameters": { "content": "x", "audit": "owner" } },
        { "type": "Exec", "title": "e", "parameters": { "command": "/bin/true" } },
        { "type": "Other", "title": "o" },
    ]);
    let facts = |generates| json!({ "generates": generates, "passive": false, "silent": true });
    let types = json!({ "chain": facts(true), "rule": facts(false), "other": facts(false) });
    let graph = told(resources, json!({}), types).graph.unwrap();
    let known = |name: &str| -> Vec<Value> {
        let (_, spec) = graph.nodes().find(|(_, spec)| spec.id.name == name).unwrap();
        let Some(Field::Str(text)) = spec.resource.get("context") else { return Vec::new() };
        serde_json::from_str(&text.to_text()).unwrap_or_default()
    };
    let context = known("Chain[input]");
    let titles: Vec<&str> = context.iter().map(|entry| entry["title"].as_str().unwrap()).collect();
    assert_eq!(titles, ["100 web", "/srv/a", "o"]);
    assert_eq!(context[0]["parameters"], json!({ "port": 80 }));
    assert_eq!(context[1]["parameters"], json!({}));
    assert!(known("Rule[100 web]").is_empty());
}

#[test]
fn a_program_purges_nothing_beside_a_type_that_was_not_asked_what_it_makes() {
    for (generates, purging) in [(true, 0), (false, 1)] {
        let resources = json!([{ "type": "Maker", "title": "m", "parameters": { "where": "/elsewhere" } }]);
        let types = json!({ "maker": { "generates": generates, "passive": false } });
        let manifest = told(resources, json!({ "Maker[m]": ["/elsewhere"] }), types).graph.unwrap();
        let mut program = ResourceGraph::new();
        let mut resource = (KINDS.get("file").unwrap().make)();
        for field in ["recurse", "purge"] {
            resource.set(field, &Field::Bool(true)).unwrap().unwrap();
        }
        program.add_node(Spec::of(Str::from("/srv/d/"), std::sync::Arc::from(resource)));
        let merged = merge(Half { graph: &program, name: "a" }, Half { graph: &manifest, name: "b" }, true);
        let graph = merged.graph.unwrap();
        let found = graph.nodes().filter(|(_, spec)| spec.resource.get("purge") == Some(Field::Bool(true)));
        assert_eq!(found.count(), purging, "{:?}", merged.diagnostics);
    }
}
