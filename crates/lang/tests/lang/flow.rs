//! A program that is kept up to date is held against the same program computed from scratch, after random events.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod freeze;
mod schedules;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use mgmt_funcs::{Failure, Host, Watch};
use mgmt_lang::module::{Entry, Memory};
use mgmt_lang::{Change, Checked, Environment, Outcome, Running};
use mgmt_resource::{Id, ResourceGraph};
use mgmt_value::Str;

/// A world whose values the test changes.
#[derive(Default)]
struct World {
    strings: Mutex<BTreeMap<Str, Str>>,
    hosts: Mutex<BTreeMap<Str, Str>>,
    /// The hosts that are chosen, by schedule.
    schedules: Mutex<BTreeMap<Str, Vec<Str>>>,
    /// What cannot be read.
    failing: Mutex<BTreeSet<Str>>,
}

impl World {
    fn look(&self, key: &Str) -> Result<(), Failure> {
        match self.failing.lock().unwrap().contains(key) {
            true => Err(Failure::fatal(format!("{} has failed", key.display()))),
            false => Ok(()),
        }
    }
}

impl Host for World {
    fn world_string(&self, key: &Str) -> Result<Option<Str>, Failure> {
        self.look(key)?;
        Ok(self.strings.lock().unwrap().get(key).cloned())
    }

    fn world_strings(&self, key: &Str) -> Result<BTreeMap<Str, Str>, Failure> {
        self.look(key)?;
        Ok(self.hosts.lock().unwrap().clone())
    }

    fn world_schedule(&self, name: &Str) -> Result<Vec<Str>, Failure> {
        Ok(self.schedules.lock().unwrap().get(name).cloned().unwrap_or_default())
    }

    fn hostname(&self) -> Str {
        "self".into()
    }
}

/// `$a`, `$b` and `$c` are texts that change, `$n` and `$m` numbers; `$hosts` is a map, `$list` the names in it.
const PRELUDE: &str = r#"
import "world"
import "convert"
import "map"
import "iter"
import "fmt"

$a = world.getval("a")->value
$b = world.getval("b")->value
$c = world.getval("c")->value
$n = convert.str_to_int($a) <|> 0 - 1
$m = convert.str_to_int($b) <|> 7
$hosts = world.kvlookup("h")
$list = map.keys($hosts)
"#;

const PROGRAMS: &[&str] = &[
    // Branches of all kinds, and binds inside of them.
    r#"
    if $n > $m {
        $inner = "more ${a}"
        test "${inner}" {}
        if $c == "1" {
            test "deep ${inner} ${b}" {}
        }
    } else {
        test "less" { anotherstr => $b, }
    }
    test [fmt.printf("%d", if $n == $m { $n + 1 } else { $m })] {}
    "#,
    // Loops, and what they capture.
    r#"
    for $i, $host in $list {
        $label = fmt.printf("%d %s %s", $i, $host, $a)
        $deco = func($x) { "<" + $x + $label + ">" }
        test [$deco("x")] { anotherstr => $hosts[$host], }
    }
    forkv $key, $value in $hosts {
        test ["kv ${key}"] { anotherstr => $value + $c, }
        if $value == $b {
            test ["same ${key}"] {}
        }
    }
    "#,
    // Function values that change, and are passed on.
    r#"
    $pick = if $n > $m { func($x) { "big " + $x + $b } } else { func($x) { "small " + $x } }
    $twice = func($f, $x) { $f($f($x)) }
    test [$twice($pick, $c)] {}
    $adder = func($k) { func($x) { $x + $k + $n } }
    $add = $adder($m)
    test [fmt.printf("%d", $add(1)),] {}
    $made = iter.map($list, func($x) { func($y) { $x + $y } })
    $all = iter.map($made, func($f) { $f($a) })
    test $all {}
    "#,
    // Errors as values.
    r#"
    $numbers = iter.map($list, func($x) { convert.str_to_int($hosts[$x]) <|> 0 })
    $third = $numbers[2] <|> $numbers[1] <|> 0 - $n
    test [fmt.printf("%d", $third)] {}
    $maybe = $hosts["x"] <|> $hosts["y"] <|> "none ${c}"
    test "${maybe}" {}
    test [fmt.printf("%v", 100.0 / convert.to_float($n) <|> 0.0)] {}
    "#,
    // Classes, aliases and generics.
    r#"
    class base($name, $value) {
        $both = [$name, $value]
        func swap() { [$value, $name] }
        class show($p) {
            test $both { anotherstr => $p, }
        }
        if $value == "1" {
            test "one ${name}" {}
        }
    }
    func first($l) { $l[0] }
    include base("x${a}", $b) as one
    include one.show($c)
    include base("y", $c) as two
    test "f ${first}" {}
    $first = first(two.swap())
    test [fmt.printf("%d", first([$n, $m]) <|> 1)] {}
    "#,
    // Conditional parameters, metaparameters and edges.
    r#"
    test "here" {
        anotherstr => $n > 2 ?: $b,
        int64 => $n == $m ?: $n,
        Meta:noop => $c == "1" ?: true,
        Depend => $n > $m ?: Test["other"],
    }
    test "other" {}
    test $list {}
    if $n == 3 {
        Test["here"] -> Test["last"]
        test "last" {}
    }
    test "gets" { anotherstr => $b, stringptr => $c, }
    test "sends" { sendvalue => $a, }
    if $m == 2 {
        Test["sends"].hello -> Test["gets"].stringptr
    }
    "#,
    // Folding, filtering and zipping.
    r#"
    $long = iter.filter($list, func($x) { $hosts[$x] == $b or $x == $a })
    test $long {}
    $joined = iter.reduce("", $list, func($sum, $x) { $sum + $x + $c })
    test ["j ${joined}"] {}
    $pairs = iter.zip($list, iter.map($list, func($x) { $hosts[$x] }), func($x, $y) { struct{l => $x, r => $y} })
    for $i, $pair in $pairs {
        test ["p ${c}" + $pair->l + $pair->r] {}
    }
    "#,
    // A panic that comes and goes.
    r#"
    panic($a == "4" and $b == "4", "both")
    test "calm" { anotherstr => $c, }
    "#,
];

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

fn check(program: &str) -> Arc<Checked> {
    let text = format!("{PRELUDE}{program}");
    let mut files = Memory::default();
    files.insert("/main.mcl", text.as_bytes());
    let environment = Environment {
        kinds: &mgmt_resources::KINDS,
        library: mgmt_funcs::library(),
        files: &files,
        module_path: None,
        lints: false,
    };
    let checked = mgmt_lang::check(&Entry::File("/main.mcl".into()), &environment).unwrap();
    assert!(checked.is_right(), "{text}\n{:#?}", checked.diagnostics);
    Arc::new(checked)
}

fn lines(graph: &ResourceGraph) -> Vec<String> {
    let mut lines: Vec<String> = graph
        .nodes()
        .map(|(_, spec)| {
            let fields = spec.resource.schema().fields.iter();
            let set: Vec<String> =
                fields.map(|field| format!("{}={:?}", field.name, spec.resource.get(field.name))).collect();
            format!("{} noop={} {} {:?}", spec.id, spec.meta.noop, set.join(" "), spec.receives)
        })
        .collect();
    for (from, to, edge) in graph.edges() {
        lines.push(format!(
            "{} -> {} {}",
            graph.node(from).unwrap().id,
            graph.node(to).unwrap().id,
            edge.notify
        ));
    }
    lines.sort();
    lines
}

/// What a program comes to: its resources, or the first thing that is wrong.
fn from_scratch(checked: &Checked, world: &World) -> Result<Vec<String>, ()> {
    mgmt_lang::evaluate(checked, &mgmt_resources::KINDS, world).map(|graph| lines(&graph)).map_err(|_| ())
}

/// Changes a graph as it was told.
fn apply(graph: &mut ResourceGraph, change: Change) {
    let find = |graph: &ResourceGraph, id: &Id| {
        graph.nodes().find(|(_, spec)| spec.id == *id && !spec.meta.hidden).map(|(node, _)| node)
    };
    for (from, to) in &change.edges_removed {
        let (from, to) = (find(graph, from).unwrap(), find(graph, to).unwrap());
        assert!(graph.remove_edge(from, to).is_some());
    }
    for id in &change.removed {
        let node = find(graph, id).unwrap();
        graph.remove_node(node);
    }
    for spec in change.changed {
        let node = find(graph, &spec.id).unwrap();
        *graph.node_mut(node).unwrap() = spec;
    }
    for spec in change.added {
        assert_eq!(find(graph, &spec.id), None);
        graph.add_node(spec);
    }
    for (from, to, edge) in change.edges_added {
        let (from, to) = (find(graph, &from).unwrap(), find(graph, &to).unwrap());
        assert_ne!(graph.set_edge(from, to, edge.clone()), Some(edge));
    }
}

fn run(program: &str, seed: u64, events: usize) {
    let mut random = Random(seed | 1);
    let checked = check(program);
    let world = Arc::new(World::default());
    let mut running = Running::new(Arc::clone(&checked), mgmt_resources::KINDS, world.clone());
    let mut shown: Result<Vec<String>, ()> = Err(());
    let mut last = ResourceGraph::new();
    let mut told = 0;
    for event in 0..=events {
        let texts = ["", "0", "1", "2", "3", "4", "x", "y"];
        for _ in 0..usize::from(event > 0) + random.below(2) {
            if random.below(3) == 0 {
                let host = Str::from(["x", "y", "z", "w"][random.below(4)]);
                let mut hosts = world.hosts.lock().unwrap();
                match random.below(4) {
                    0 => {
                        hosts.remove(&host);
                    }
                    _ => {
                        hosts.insert(host, Str::from(texts[random.below(texts.len())]));
                    }
                }
                running.happened(&Watch::WorldStrings("h".into()));
            } else {
                let key = Str::from(["a", "b", "c"][random.below(3)]);
                let text = Str::from(texts[random.below(texts.len())]);
                world.strings.lock().unwrap().insert(key.clone(), text);
                running.happened(&Watch::WorldString(key));
            }
        }
        match running.settle() {
            Outcome::Graph(graph) => {
                shown = Ok(lines(&graph));
                last = graph;
            }
            Outcome::Changed(change) => {
                told += 1;
                apply(&mut last, change);
                shown = Ok(lines(&last));
            }
            // What was wrong with the last one may be gone.
            Outcome::Unchanged => shown = shown.or_else(|()| Ok(lines(&last))),
            Outcome::Waiting => panic!("nothing here has to be waited for"),
            Outcome::Wrong(_) => shown = Err(()),
        }
        let expected = from_scratch(&checked, &world);
        assert_eq!(shown, expected, "seed {seed}, event {event}, {program}");
        running.watch_changes();
    }
    assert!(told > events / 20, "{told} of {events} events were told as a change, {program}");
}

#[test]
fn after_every_event_a_program_is_as_if_computed_from_scratch() {
    let (seeds, events) = match std::env::var("MGMT_SEED").ok().and_then(|seed| seed.parse().ok()) {
        Some(seed) => (seed..seed + 1, 2000),
        None => (0..8, 100_000_usize.div_ceil(8 * PROGRAMS.len())),
    };
    let tasks: Mutex<Vec<(u64, &str)>> =
        Mutex::new(seeds.flat_map(|seed| PROGRAMS.iter().map(move |program| (seed, *program))).collect());
    let work = || {
        while let Some((seed, program)) = { tasks.lock().unwrap().pop() } {
            run(program, (seed + 1) * 0x9E37_79B9, events);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
}

/// Beyond a thousand statements, two threads find out what is fixed.
#[test]
fn a_long_program_means_what_a_short_one_means() {
    let statement = |number: usize| match number % 7 {
        3 => format!("test \"t{number}\" {{ anotherstr => $b, Before => Test[\"last\"], }}\n"),
        5 => format!("if $a == \"{}\" {{\n\ttest \"t{number}\" {{}}\n}}\n", number % 3),
        _ => format!("test \"t{number}\" {{ anotherstr => \"is {number}\", Notify => Test[\"last\"], }}\n"),
    };
    let long: String = (0..2_500).map(statement).chain(["test \"last\" {}\n".to_owned()]).collect();
    run(&long, 1, 20);
    let checked = check(&format!("{long}test \"t1\" {{ anotherstr => \"is another\", }}\n"));
    let world = Arc::new(World::default());
    let mut running = Running::new(checked, mgmt_resources::KINDS, world);
    let Outcome::Wrong(wrong) = running.settle() else { panic!("one of them is declared twice") };
    assert!(wrong[0].message.contains("test[t1] is declared twice"), "{wrong:?}");
}

#[test]
fn a_change_is_told_alone_unless_it_touches_what_is_out_of_the_ordinary() {
    let program = r#"
    for $i, $x in ["p", "q", "r"] {
        test "${x}" { anotherstr => if $x == "q" { $b } else { "same" }, }
    }
    test "twice" { anotherstr => $c, }
    test "twice" { anotherstr => $c, }
    test "sends" {}
    test "gets" { anotherstr => $b, }
    if $a != "3" {
        Test["sends"].hello -> Test["gets"].stringptr
    }
    if $a == "1" {
        test "more" { Before => Test["p"], }
    }
    if $a == "5" {
        Test["p"] -> Test["q"]
        Test["q"] -> Test["p"]
    }
    "#;
    let checked = check(program);
    let world = Arc::new(World::default());
    let mut running = Running::new(checked, mgmt_resources::KINDS, world.clone());
    let mut now = |key: &str, text: &str| {
        world.strings.lock().unwrap().insert(key.into(), text.into());
        running.happened(&Watch::WorldString(key.into()));
        match running.settle() {
            Outcome::Changed(change) => {
                let added = change.added.iter().map(|spec| format!("+{}", spec.id));
                let changed = change.changed.iter().map(|spec| spec.id.to_string());
                let removed = change.removed.iter().map(|id| format!("-{id}"));
                let edges = change.edges_added.iter().map(|(from, to, _)| format!("+{from}->{to}"));
                let gone = change.edges_removed.iter().map(|(from, to)| format!("-{from}->{to}"));
                let receives = change.changed.iter().flat_map(|spec| &spec.receives);
                let receives = receives.map(|found| format!("from {}", found.from));
                let all = added.chain(changed).chain(removed).chain(edges).chain(gone).chain(receives);
                all.collect::<Vec<_>>().join(" ")
            }
            Outcome::Graph(graph) => format!("{} resources", graph.node_count()),
            other => format!("{other:?}"),
        }
    };
    assert_eq!(now("b", "first"), "6 resources");
    assert_eq!(now("b", "second"), "test[gets] test[q] from test[sends]");
    assert_eq!(now("b", "second"), "Unchanged");
    // What is declared twice is put together anew.
    assert_eq!(now("c", "other"), "6 resources");
    assert_eq!(now("a", "1"), "+test[more] +test[more]->test[p]");
    assert_eq!(now("b", "third"), "test[gets] test[q] from test[sends]");
    assert_eq!(now("a", "2"), "-test[more]");
    assert_eq!(now("a", "3"), "test[gets] -test[sends]->test[gets]");
    assert_eq!(now("a", "4"), "test[gets] +test[sends]->test[gets] from test[sends]");
    // A circle is somebody else's matter.
    assert!(now("a", "5").starts_with("Wrong"));
    assert_eq!(now("a", "4"), "6 resources");
}

#[test]
fn readers_of_one_thing_share_one_watch() {
    let program = r#"
    $one = world.getval("shared")->value
    $two = world.getval("shared")->value
    test "${one}1" {}
    test "${two}2" {}
    "#;
    let checked = check(program);
    let mut running = Running::new(checked, mgmt_resources::KINDS, Arc::new(World::default()));
    running.settle();
    let begun = running.watch_changes();
    assert_eq!(begun, [mgmt_lang::WatchChange::Begin(Watch::WorldString("shared".into()))]);
}

#[test]
fn what_is_not_needed_is_not_watched() {
    let program = r#"
    if $a == "1" {
        $inner = world.getval("inner")->value
        test "${inner}" {}
    }
    "#;
    let checked = check(program);
    let world = Arc::new(World::default());
    let mut running = Running::new(checked, mgmt_resources::KINDS, world.clone());
    running.settle();
    let inner = Watch::WorldString("inner".into());
    assert!(!running.watch_changes().contains(&mgmt_lang::WatchChange::Begin(inner.clone())));
    for (text, expected) in
        [("1", mgmt_lang::WatchChange::Begin(inner.clone())), ("2", mgmt_lang::WatchChange::End(inner))]
    {
        world.strings.lock().unwrap().insert("a".into(), text.into());
        world.strings.lock().unwrap().insert("inner".into(), "some name".into());
        running.happened(&Watch::WorldString("a".into()));
        running.settle();
        assert!(running.watch_changes().contains(&expected), "{text}");
    }
}
