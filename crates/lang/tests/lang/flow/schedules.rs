//! Which resources are there because this host was chosen under a schedule.

use super::*;

/// The world and the program in it.
struct Site {
    world: Arc<World>,
    running: Running,
    graph: BTreeMap<String, Vec<String>>,
}

impl Site {
    fn new(program: &str) -> Site {
        let world = Arc::new(World::default());
        let running = Running::new(check(program), mgmt_resources::KINDS, world.clone());
        Site { world, running, graph: BTreeMap::new() }
    }

    /// Other hosts are chosen, and the program has not been evaluated since.
    fn choose(&self, schedule: &str, hosts: &[&str]) {
        let hosts = hosts.iter().map(|host| Str::from(*host)).collect();
        self.world.schedules.lock().unwrap().insert(schedule.into(), hosts);
    }

    /// The resources with the schedules that they depend on, after the program has heard of some.
    fn evaluated(&mut self, schedules: &[&str]) -> &BTreeMap<String, Vec<String>> {
        for schedule in schedules {
            self.running.happened(&Watch::Schedule(Str::from(*schedule)));
        }
        self.running.stabilize();
        let Outcome::Graph(graph) = self.running.whole() else { panic!("there is a graph") };
        let choices = |spec: &mgmt_resource::Spec| {
            spec.choices.iter().map(|name| name.to_text().into_owned()).collect::<Vec<_>>()
        };
        self.graph = graph.nodes().map(|(_, spec)| (spec.id.to_string(), choices(spec))).collect();
        &self.graph
    }

    fn choices(&self, id: &str) -> &[String] {
        &self.graph[id]
    }
}

#[test]
fn a_resource_that_stays_the_same_is_not_bound_to_a_choice_that_is_over() {
    let mut site = Site::new(
        r#"
        $chosen = world.schedule("job")
        test [fmt.printf("%d chosen", len($chosen))] {}
        if $hostname in $chosen {
            test "singleton" {}
        }
        "#,
    );
    site.choose("job", &["self"]);
    site.evaluated(&["job"]);
    assert_eq!(site.choices("test[1 chosen]"), ["job"]);
    assert_eq!(site.choices("test[singleton]"), ["job"]);
    // Another host takes its place: what depends on the number alone is declared as before.
    site.choose("job", &["other"]);
    site.evaluated(&["job"]);
    assert_eq!(site.choices("test[1 chosen]"), [""; 0]);
    assert!(!site.graph.contains_key("test[singleton]"));
}

#[test]
fn a_resource_that_another_choice_declares_too_depends_on_that_one_from_then_on() {
    let mut site = Site::new(
        r#"
        if $hostname in world.schedule("one") or $hostname in world.schedule("two") {
            test "singleton" {}
        }
        "#,
    );
    site.choose("one", &["self"]);
    site.choose("two", &["self"]);
    site.evaluated(&["one", "two"]);
    assert_eq!(site.choices("test[singleton]"), ["one", "two"]);
    site.choose("one", &["other"]);
    site.evaluated(&["one"]);
    assert_eq!(site.choices("test[singleton]"), ["two"]);
}

#[test]
fn what_was_declared_for_a_choice_stays_bound_to_it_until_the_program_is_evaluated() {
    let mut site = Site::new(
        r#"
        if $hostname in world.schedule("job") {
            test "singleton" {}
        }
        test [$a] {}
        "#,
    );
    site.choose("job", &["self"]);
    site.evaluated(&["job"]);
    assert_eq!(site.choices("test[singleton]"), ["job"]);
    // The choice is over, and the program hears of something else first.
    site.choose("job", &["other"]);
    site.world.strings.lock().unwrap().insert("a".into(), "other".into());
    site.running.happened(&Watch::WorldString("a".into()));
    site.evaluated(&[]);
    assert_eq!(site.choices("test[singleton]"), ["job"]);
    site.evaluated(&["job"]);
    assert!(!site.graph.contains_key("test[singleton]"));
}
