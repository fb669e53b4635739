//! Values that fail: what depends on them is frozen, and everything else is as if computed from scratch.

use std::collections::{BTreeMap, BTreeSet};

use mgmt_lang::{FrozenPart, WatchChange, evaluate_statements};
use mgmt_resource::Spec;

use super::*;

/// Parts that fail by themselves, in blocks that come and go. No two of them are about one resource.
const INDEPENDENT: &[&str] = &[
    r#"
    test "always" { anotherstr => $c, }
    test "of a" { anotherstr => $a, }
    test "of both" { anotherstr => $a + $b, }
    if $a == "1" {
        test "in branch" { anotherstr => $b, }
        test "fixed in branch" {}
        if $c != "2" {
            test "deep" { anotherstr => $b, }
        } else {
            test "deep else" { anotherstr => $a, }
        }
    } else {
        test "in else" { anotherstr => $c, }
    }
    "#,
    r#"
    for $i, $host in $list {
        test "${host}" { anotherstr => $b, }
        if $hosts[$host] == "1" {
            test "one ${host}" { anotherstr => $c, }
        }
    }
    forkv $key, $value in $hosts {
        $number = convert.str_to_int($value)
        test "number ${key}" { int64 => $number, }
        test "kv ${key}" { anotherstr => $value + $a, }
    }
    test "apart" { anotherstr => $c, }
    "#,
    r#"
    class show($name, $text) {
        test "name ${name}" {}
        test "text of ${name}" { anotherstr => $text, }
        if $text == "1" {
            test "one ${name}" { anotherstr => $c, }
        }
    }
    include show("x", $a)
    include show("y", $b)
    test [$pick("z") + "z"] { anotherstr => $c, }
    $pick = if $a == "2" { func($x) { $x + $b } } else { func($x) { $x + "none" } }
    test "caught" { anotherstr => $hosts["x"] <|> $b, }
    "#,
];

/// Parts with edges between them, and names that depend on values.
const CONNECTED: &[&str] = &[
    r#"
    test "base" { anotherstr => $c, }
    test "on base" { anotherstr => $a, Depend => Test["base"], }
    if $b != "1" {
        test "extra" { anotherstr => $c, }
        test "on extra" { anotherstr => $a, Depend => Test["extra"], }
        Test["extra"] -> Test["base"]
    }
    test "before" { anotherstr => $c, Before => Test["on base"], }
    "#,
    r#"
    test "t${a}" { anotherstr => "a", }
    test ["t" + $b,] { anotherstr => if $a == $b { "a" } else { "b" }, }
    for $i, $host in $list {
        test "t${host}" { anotherstr => if $host == $a { "a" } else { if $host == $b { "b" } else { "h" } }, }
    }
    if $c == "1" {
        test "p" { Before => Test["q"], anotherstr => $a, }
        test "q" { anotherstr => $b, }
    } else {
        test "q" { Before => Test["p"], anotherstr => $b, }
        test "p" { anotherstr => $a, }
    }
    "#,
];

fn line(spec: &Spec) -> String {
    let fields = spec.resource.schema().fields.iter();
    let set: Vec<String> =
        fields.map(|field| format!("{}={:?}", field.name, spec.resource.get(field.name))).collect();
    format!("{} {}", spec.id, set.join(" "))
}

/// What a statement declares, in lines.
type Lines = Vec<String>;

/// What should be declared: by statement, the last that it declared.
#[derive(Default)]
struct Model {
    statements: BTreeMap<Vec<String>, Lines>,
    /// The lines of statements that are frozen.
    frozen: BTreeSet<String>,
    failed: usize,
}

impl Model {
    fn step(&mut self, checked: &Checked, world: &World) {
        let old = std::mem::take(&mut self.statements);
        self.frozen.clear();
        self.failed = 0;
        let mut failed: BTreeSet<Vec<String>> = BTreeSet::new();
        for found in evaluate_statements(checked, &mgmt_resources::KINDS, world) {
            match found.declared {
                Ok(part) => {
                    let edges =
                        part.edges.iter().map(|(from, to, notify)| format!("{from} -> {to} {notify}"));
                    let lines = part.resources.iter().map(line).chain(edges).collect();
                    self.statements.insert(found.path, lines);
                }
                Err(_) => {
                    self.failed += 1;
                    if let Some(lines) = old.get(&found.path) {
                        self.frozen.extend(lines.iter().cloned());
                        self.statements.insert(found.path.clone(), lines.clone());
                    }
                    failed.insert(found.path);
                }
            }
        }
        let is_held = |path: &[String]| (1..path.len()).any(|end| failed.contains(&path[..end]));
        for (path, lines) in old {
            if !self.statements.contains_key(&path) && is_held(&path) {
                self.frozen.extend(lines.iter().cloned());
                self.statements.insert(path, lines);
            }
        }
    }

    /// All lines, each once.
    fn lines(&self) -> Vec<String> {
        let lines: BTreeSet<String> =
            self.statements.values().flatten().map(|line| line.to_lowercase()).collect();
        lines.into_iter().collect()
    }
}

fn graph_lines(graph: &ResourceGraph) -> Vec<String> {
    let name = |node| graph.node(node).unwrap().id.to_string();
    let edges =
        graph.edges().map(|(from, to, edge)| format!("{} -> {} {}", name(from), name(to), edge.notify));
    let lines: BTreeSet<String> =
        graph.nodes().map(|(_, spec)| line(spec)).chain(edges).map(|line| line.to_lowercase()).collect();
    lines.into_iter().collect()
}

struct Test {
    checked: Arc<Checked>,
    world: Arc<World>,
    running: Running,
    graph: ResourceGraph,
    parts: Vec<FrozenPart>,
}

impl Test {
    fn new(program: &str) -> Test {
        let (checked, world) = (check(program), Arc::new(World::default()));
        let running = Running::new(Arc::clone(&checked), mgmt_resources::KINDS, world.clone());
        Test { checked, world, running, graph: ResourceGraph::new(), parts: Vec::new() }
    }

    fn set(&mut self, key: &str, text: &str) {
        self.world.strings.lock().unwrap().insert(key.into(), text.into());
        self.running.happened(&Watch::WorldString(key.into()));
    }

    fn fails(&mut self, key: &str, fails: bool) {
        let mut failing = self.world.failing.lock().unwrap();
        match fails {
            true => failing.insert(key.into()),
            false => failing.remove(&Str::from(key)),
        };
        self.running.happened(&Watch::WorldString(key.into()));
        self.running.happened(&Watch::WorldStrings(key.into()));
    }

    fn stabilize(&mut self) {
        match self.running.stabilize() {
            Outcome::Graph(graph) => self.graph = graph,
            Outcome::Changed(change) => apply(&mut self.graph, change),
            Outcome::Unchanged => {}
            other => panic!("{other:?}"),
        }
        assert!(self.graph.check_acyclic().is_ok());
        if let Some(parts) = self.running.frozen_parts() {
            self.parts = parts;
        }
    }

    fn random_event(&mut self, random: &mut Random) {
        let texts = ["", "0", "1", "2", "x", "y"];
        let key = ["a", "b", "c", "h"][random.below(4)];
        match random.below(3) {
            0 => {
                let fails = random.below(2) == 0;
                self.fails(key, fails);
            }
            _ if key == "h" => {
                let host = Str::from(["x", "y", "z", "w"][random.below(4)]);
                let mut hosts = self.world.hosts.lock().unwrap();
                match random.below(4) {
                    0 => drop(hosts.remove(&host)),
                    _ => drop(hosts.insert(host, Str::from(texts[random.below(texts.len())]))),
                }
                drop(hosts);
                self.running.happened(&Watch::WorldStrings("h".into()));
            }
            _ => self.set(key, texts[random.below(texts.len())]),
        }
    }
}

/// The seeds, and the events of each.
fn seeds() -> (std::ops::Range<u64>, usize) {
    match std::env::var("MGMT_SEED").ok().and_then(|seed| seed.parse().ok()) {
        Some(seed) => (seed..seed + 1, 1000),
        None => (1..9, 400),
    }
}

#[test]
fn what_does_not_depend_on_a_failed_value_lives_and_what_does_is_frozen() {
    let (seeds, events) = seeds();
    for (seed, program) in seeds.flat_map(|seed| INDEPENDENT.iter().map(move |program| (seed, program))) {
        let mut random = Random(seed * 0x9E37_79B9);
        let (mut test, mut model) = (Test::new(program), Model::default());
        let mut frozen = 0;
        for event in 0..=events {
            for _ in 0..usize::from(event > 0) + random.below(2) {
                test.random_event(&mut random);
            }
            test.stabilize();
            model.step(&test.checked, &test.world);
            assert_eq!(graph_lines(&test.graph), model.lines(), "seed {seed}, event {event}, {program}");
            assert!(test.running.conflicts().is_empty());
            assert_eq!(
                test.parts.is_empty(),
                model.failed == 0,
                "seed {seed}, event {event}: {:?}",
                test.parts
            );
            // What is said to be frozen is, and the other way round.
            let named: BTreeSet<String> =
                test.parts.iter().flat_map(|part| &part.frozen).map(ToString::to_string).collect();
            for line in &model.frozen {
                assert!(named.iter().any(|name| line.starts_with(name.as_str())), "{line} {named:?}");
            }
            for name in &named {
                assert!(model.frozen.iter().any(|line| line.starts_with(name.as_str())), "{name}");
            }
            frozen += usize::from(!named.is_empty());
            test.running.watch_changes();
        }
        assert!(frozen > events / 10, "{frozen} of {events} events had something frozen");
    }
}

#[test]
fn frozen_and_current_parts_always_make_a_graph() {
    let (seeds, events) = seeds();
    let mut conflicts = 0;
    for (seed, program) in seeds.flat_map(|seed| CONNECTED.iter().map(move |program| (seed, program))) {
        let mut random = Random(seed * 0x9E37_79B9);
        let (mut test, mut model) = (Test::new(program), Model::default());
        // A conflict that is there without anything frozen is an error of the program, and not looked at here.
        for event in 0..=events {
            test.random_event(&mut random);
            model.step(&test.checked, &test.world);
            let from_scratch = from_scratch(&test.checked, &test.world);
            if model.failed == 0 && from_scratch.is_err() {
                assert!(matches!(test.running.stabilize(), Outcome::Wrong(_)));
                continue;
            }
            test.stabilize();
            conflicts += test.running.conflicts().len();
            if test.running.conflicts().is_empty() {
                assert_eq!(graph_lines(&test.graph), model.lines(), "seed {seed}, event {event}, {program}");
            }
            if let Ok(expected) = from_scratch {
                assert_eq!(lines(&test.graph), expected, "seed {seed}, event {event}, {program}");
            }
        }
    }
    assert!(conflicts > 10, "{conflicts}");
}

#[test]
fn a_frozen_resource_keeps_its_neighbours_and_one_that_depends_on_a_missing_one_waits() {
    let mut test = Test::new(CONNECTED[0]);
    test.fails("a", true);
    test.set("c", "1");
    test.stabilize();
    let names = |test: &Test| -> Vec<String> {
        graph_lines(&test.graph)
            .iter()
            .map(|line| line.split(" anotherstr").next().unwrap().to_owned())
            .collect()
    };
    let present = |test: &Test, name: &str| test.graph.nodes().any(|(_, spec)| spec.id.to_string() == name);
    // Not there yet, and named.
    assert!(present(&test, "test[before]") && !present(&test, "test[on base]"), "{:?}", names(&test));
    let part = test.parts.first().unwrap();
    assert_eq!(part.missing, ["test[on base]", "test[on extra]"]);
    assert!(part.error.as_ref().unwrap().message.contains("a has failed"));
    assert_eq!(test.checked.sources.text(part.span), r#"world.getval("a")"#);
    // There is an edge to nothing; that is no error.
    assert!(!test.running.conflicts().is_empty());
    test.fails("a", false);
    test.stabilize();
    assert!(present(&test, "test[on base]") && test.parts.is_empty() && test.running.conflicts().is_empty());
    // What a frozen resource depends on goes with it, not before it.
    test.fails("a", true);
    test.stabilize();
    assert_eq!(test.parts.first().unwrap().frozen.len(), 2);
    test.fails("b", true);
    test.stabilize();
    test.fails("b", false);
    test.set("b", "1");
    test.stabilize();
    assert!(!present(&test, "test[extra]"), "the branch is gone with all that is in it");
}

#[test]
fn a_value_that_no_event_can_change_is_an_error_of_the_program() {
    let mut test = Test::new("test [[\"a\"][3],] {}\ntest \"other\" {}\n");
    let Outcome::Wrong(wrong) = test.running.stabilize() else { panic!("nothing can change that") };
    assert_eq!(wrong.len(), 1);
    // A branch that may go is another matter.
    let mut test = Test::new("if $a == \"1\" {\n\ttest [[\"a\"][3],] {}\n}\ntest \"other\" {}\n");
    test.stabilize();
    assert!(test.parts.is_empty());
    test.set("a", "1");
    test.stabilize();
    assert_eq!((test.parts.len(), test.graph.node_count()), (1, 1));
    // A panic stops everything.
    let mut test = Test::new("panic($a == \"1\", \"no\")\ntest \"other\" { anotherstr => $b, }\n");
    test.stabilize();
    test.set("a", "1");
    assert!(matches!(test.running.stabilize(), Outcome::Wrong(_)));
    // A template that looks at nothing else does not change by itself.
    for text in ["golang.template(\"{{ .x\")", "golang.template(\"{{ .x }}\", struct{y => \"1\",})"] {
        let mut test = Test::new(&format!("import \"golang\"\ntest \"t\" {{ anotherstr => {text}, }}\n"));
        assert!(matches!(test.running.stabilize(), Outcome::Wrong(_)), "{text}");
    }
}

#[test]
fn a_panic_holds_until_its_value_is_back() {
    for text in [
        "panic($a == \"1\", \"no\")\ntest \"x\" { anotherstr => $a, }\n",
        "if $a == \"1\" {\n\tpanic(\"no\")\n}\ntest \"x\" { anotherstr => $a, }\n",
        "if $b != \"none\" {\n\tif $a == \"1\" {\n\t\tpanic(\"no\")\n\t}\n}\ntest \"x\" { anotherstr => $a, }\n",
    ] {
        let mut test = Test::new(text);
        test.stabilize();
        test.set("a", "1");
        let panics = |test: &mut Test| match test.running.stabilize() {
            Outcome::Wrong(wrong) => wrong.iter().any(|found| found.message.contains("no")),
            _ => false,
        };
        assert!(panics(&mut test), "{text}");
        // What was forbidden is no more allowed because nobody can tell what the value is.
        test.fails("a", true);
        assert!(panics(&mut test), "{text}");
        test.fails("b", true);
        assert!(panics(&mut test), "{text}");
        test.fails("b", false);
        assert!(panics(&mut test), "{text}");
        test.fails("a", false);
        assert!(panics(&mut test), "{text}");
        test.set("a", "2");
        test.stabilize();
        assert!(graph_lines(&test.graph).iter().any(|line| line.contains('2')), "{text}");
    }
}

#[test]
fn constants_that_fail_in_a_program_that_takes_the_place_of_another_freeze_only_what_depends_on_them() {
    let text = "test \"constant\" { anotherstr => [\"a\"][3], }\ntest \"other\" { anotherstr => $a, }\n";
    let mut before = Test::new("test \"constant\" { anotherstr => \"before\", }\n");
    before.stabilize();
    let mut test = Test::new(text);
    test.running.inherit(before.running.leave());
    test.running.freeze_constants();
    test.stabilize();
    let [part] = test.parts.as_slice() else { panic!("{:?}", test.parts) };
    assert!(part.is_final && part.error.is_some() && part.missing.is_empty());
    assert_eq!(part.frozen.iter().map(ToString::to_string).collect::<Vec<_>>(), ["test[constant]"]);
    let has = |test: &Test, text: &str| graph_lines(&test.graph).iter().any(|line| line.contains(text));
    assert!(has(&test, "before"), "{:?}", graph_lines(&test.graph));
    test.set("a", "moved");
    test.stabilize();
    assert!(has(&test, "moved"), "{:?}", graph_lines(&test.graph));
    // A panic still stops everything.
    let mut test = Test::new("panic(\"no\")\ntest \"other\" {}\n");
    test.running.freeze_constants();
    assert!(matches!(test.running.stabilize(), Outcome::Wrong(_)));
}

#[test]
fn a_failed_look_at_the_host_freezes_what_depends_on_it_and_is_made_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("input");
    let read = format!("gos.read_file(\"{}\")", path.display());
    let import = "import \"golang/os\" as gos\n";
    let other = "test \"other\" { anotherstr => $a, }\n";
    let retries = |changes: &[WatchChange], begin: bool| -> Vec<Watch> {
        let watch = |change: &WatchChange| match (change, begin) {
            (WatchChange::Begin(watch), true) | (WatchChange::End(watch), false) => Some(watch.clone()),
            _ => None,
        };
        changes.iter().filter_map(watch).filter(|watch| matches!(watch, Watch::Retry(_))).collect()
    };
    for (statement, wrong, right) in [
        (format!("test \"read\" {{ anotherstr => {read}, }}"), None, "text"),
        // The look succeeds, and what comes of it does not.
        (format!("test \"read\" {{ int64 => convert.str_to_int({read}), }}"), Some("many"), "5"),
        (format!("test [{read}] {{}}"), None, "name"),
        (format!("if {read} == \"on\" {{ test \"inside\" {{}} }}"), None, "on"),
        (format!("if \"1\" == \"1\" {{ test \"read\" {{ anotherstr => {read}, }} }}"), None, "text"),
        (format!("$f = func($x) {{ {read} + $x }}\ntest \"read\" {{ anotherstr => $f(\"x\"), }}"), None, "text"),
        (format!("for $i, $x in [{read},] {{ test \"in ${{x}}\" {{}} }}"), None, "name"),
        (
            "test \"read\" { anotherstr => golang.template(\"{{ golang_os_read_file .P }}\", struct{p => \"PATH\",}), }"
                .replace("PATH", path.to_str().unwrap()),
            None,
            "text",
        ),
    ] {
        match wrong {
            Some(wrong) => std::fs::write(&path, wrong).unwrap(),
            None => drop(std::fs::remove_file(&path)),
        }
        let import = format!("{import}import \"golang\"\n");
        let mut test = Test::new(&format!("{import}{statement}\n{other}"));
        test.stabilize();
        let [part] = test.parts.as_slice() else { panic!("{statement}: {:?}", test.parts) };
        assert!(!part.is_final && part.error.is_some(), "{statement}");
        let changes = test.running.watch_changes();
        let [retry] = &retries(&changes, true)[..] else { panic!("{statement}: {changes:?}") };
        // The rest goes on.
        test.set("a", "moved");
        test.stabilize();
        assert!(graph_lines(&test.graph).iter().any(|line| line.contains("moved")), "{statement}");
        // Another failure changes nothing.
        test.running.happened(retry);
        test.stabilize();
        assert_eq!((test.parts.len(), test.running.watch_changes().len()), (1, 0), "{statement}");
        std::fs::write(&path, right).unwrap();
        test.running.happened(retry);
        test.stabilize();
        assert!(test.parts.is_empty(), "{statement}: {:?}", test.parts);
        assert_eq!(test.graph.node_count(), 2, "{statement}");
        assert_eq!(retries(&test.running.watch_changes(), false), std::slice::from_ref(retry), "{statement}");
    }
}

#[test]
fn a_failed_live_call_is_made_again_unless_its_failure_is_an_answer() {
    let mut test = Test::new("test \"t\" { anotherstr => $a, }\ntest \"u\" { anotherstr => $a, }\n");
    test.fails("a", true);
    test.stabilize();
    let changes = test.running.watch_changes();
    let begun = changes.iter().filter(|change| matches!(change, WatchChange::Begin(Watch::Retry(_))));
    assert_eq!(begun.count(), 1, "{changes:?}");
    let mut test = Test::new("import \"os\"\ntest \"t\" { anotherstr => os.readfile(\"/no/such/file\"), }\n");
    test.stabilize();
    let changes = test.running.watch_changes();
    assert!(matches!(changes.as_slice(), [WatchChange::Begin(Watch::Path(_))]), "{changes:?}");
}

#[test]
fn a_value_whose_source_is_broken_is_named_with_what_depends_on_it() {
    let mut test = Test::new(
        "test \"of a\" { anotherstr => $a, }\nif $a == \"\" { test \"inside\" {} }\ntest \"other\" { anotherstr => $b, }\n",
    );
    test.stabilize();
    let watch = Watch::WorldString("a".into());
    test.running.set_source_error(&watch, Some("no events"));
    test.stabilize();
    let [part] = test.parts.as_slice() else { panic!("{:?}", test.parts) };
    assert!(part.is_unwatched && part.missing.is_empty() && !part.is_final);
    assert_eq!(part.error.as_ref().unwrap().message, "no events");
    assert_eq!(test.checked.sources.text(part.span), r#"world.getval("a")"#);
    let named: Vec<String> = part.frozen.iter().map(ToString::to_string).collect();
    assert_eq!(named, ["test[inside]", "test[of a]"]);
    // It is read all the same.
    test.set("a", "1");
    test.stabilize();
    assert_eq!((test.parts[0].frozen.len(), test.graph.node_count()), (1, 2));
    // One that fails is named with its own error.
    test.fails("a", true);
    test.stabilize();
    assert!(test.parts.iter().all(|part| !part.is_unwatched), "{:?}", test.parts);
    test.fails("a", false);
    test.running.set_source_error(&watch, None);
    test.stabilize();
    assert!(test.parts.is_empty(), "{:?}", test.parts);
    // What nobody watches has no source.
    test.running.set_source_error(&Watch::Links, Some("no events"));
    test.stabilize();
    assert!(test.parts.is_empty(), "{:?}", test.parts);
}

#[test]
fn a_condition_or_loop_with_resources_that_never_had_a_value_is_missing_and_named() {
    let resource = "test \"inside\" {}";
    let class = format!("class c($x) {{\n if $x == \"1\" {{ {resource} }}\n}}\nclass d {{ {resource} }}\n");
    for (statement, expected) in [
        (format!("if $a == \"1\" {{ {resource} }}"), Some("if")),
        (format!("if $a == \"1\" {{ }} else {{ {resource} }}"), Some("if")),
        (format!("for $i, $x in [$a,] {{ {resource} }}"), Some("for")),
        (format!("forkv $k, $v in {{\"k\" => $a,}} {{ {resource} }}"), Some("forkv")),
        ("include c($a)".to_owned(), Some("if")),
        ("if $a == \"1\" { include d }".to_owned(), Some("if")),
        (
            format!("if $a == \"1\" {{ for $i, $x in [$b,] {{ if $b == \"1\" {{ {resource} }} }} }}"),
            Some("if"),
        ),
        ("if $a == \"1\" { $unused = $b }".to_owned(), None),
        ("panic($a == \"panic\")".to_owned(), None),
    ] {
        let mut test = Test::new(&format!("{class}{statement}\ntest \"other\" {{}}\n"));
        test.fails("a", true);
        test.stabilize();
        let part = test.parts.first().unwrap();
        match expected {
            Some(word) => {
                let [missing] = part.missing.as_slice() else { panic!("{statement}: {:?}", part.missing) };
                assert!(missing.starts_with(&format!("{word} at ")), "{statement}: {missing}");
            }
            None => assert!(part.missing.is_empty(), "{statement}: {:?}", part.missing),
        }
        // Once it has had a value, it goes on with what that meant.
        test.fails("a", false);
        test.stabilize();
        assert!(test.parts.is_empty(), "{statement}: {:?}", test.parts);
        test.fails("a", true);
        test.stabilize();
        assert!(test.parts.iter().all(|part| part.missing.is_empty()), "{statement}: {:?}", test.parts);
    }
}
