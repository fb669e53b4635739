//! What pages tell somebody to type is typed, in the order of the page.
//!
//! Each page has a scene: the files that its commands speak of, in a directory of its own that stands for `/tmp/`. What does
//! not end by itself goes on beside the rest until the scene is over. A block that needs more than a directory (a service
//! manager, other hosts, a cluster) is typed elsewhere: [`ELSEWHERE`] names the test program, and a test sees to it that no
//! page is forgotten.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;
mod pages;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use common::{PATIENCE, Said};
use pages::blocks;

/// Pages whose commands are typed by another test program, which has what they need.
const ELSEWHERE: &[(&str, &str)] = &[
    ("tutorial/self-repairing-service.md", "tutorial"),
    ("how-to/coming-from-puppet.md", "how_to"),
    ("how-to/write-a-function.md", "how_to"),
    ("how-to/run-a-cluster.md", "clustering"),
    ("how-to/run-as-a-service.md", "package"),
    ("how-to/run-on-hosts-without-an-agent.md", "remote"),
    ("how-to/share-between-hosts.md", "cluster"),
    ("how-to/use-modules.md", "get"),
    ("how-to/watch-with-prometheus.md", "metrics"),
    // Chores of the project.
    ("explanation/benchmarks.md", "usage"),
];

/// Pages whose commands are typed here.
const HERE: &[&str] = &[
    "tutorial/first-graph.md",
    "tutorial/first-program.md",
    "how-to/check-mcl.md",
    "how-to/format-mcl.md",
    "how-to/explore-with-the-repl.md",
    "how-to/plan-before-you-run.md",
    "how-to/read-the-log.md",
    "how-to/run-a-program.md",
    "how-to/see-what-was-changed.md",
];

fn documents() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// A page, and a directory in which it is followed.
struct Scene {
    place: tempfile::TempDir,
    page: String,
    shell: Vec<String>,
    running: Vec<Child>,
}

impl Scene {
    fn of(page: &str) -> Scene {
        assert!(HERE.contains(&page));
        let page = std::fs::read_to_string(documents().join(page)).unwrap();
        let shell = blocks(&page, "sh");
        Scene { place: tempfile::tempdir().unwrap(), page, shell, running: Vec::new() }
    }

    /// Where something is that the page says is in `/tmp/`.
    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// A text of the page, here.
    fn here(&self, text: &str) -> String {
        text.replace("/tmp/", &format!("{}/", self.place.path().display()))
    }

    /// The nth block of this language, here.
    fn block(&self, language: &str, nth: usize) -> String {
        self.here(&blocks(&self.page, language)[nth])
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        // In one step, as an editor does.
        let next = path.with_extension("next");
        std::fs::write(&next, text).unwrap();
        std::fs::rename(&next, &path).unwrap();
    }

    fn command(&self, text: &str) -> Command {
        let program = Path::new(env!("CARGO_BIN_EXE_mgmt")).parent().unwrap();
        let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
        let mut shell = Command::new("sh");
        shell.arg("-ec").arg(self.here(text)).env("PATH", path).current_dir(self.place.path());
        shell.env("MGMT_PREFIX", self.path("prefix")).env("HOME", self.place.path()).stdin(Stdio::null());
        shell
    }

    /// Types something that ends, and gives what was said.
    fn types(&self, text: &str) -> Said {
        self.command(text).output().unwrap().into()
    }

    #[track_caller]
    fn types_well(&self, text: &str) -> Said {
        let said = self.types(text);
        assert_eq!(said.code, 0, "{text}{}{}", said.stdout, said.stderr);
        said
    }

    /// Types the same again until it says this in the end. A machine that is slow is given more time than the page gives, and
    /// what is undone too often is left alone for a while: so twice as long each time.
    #[track_caller]
    fn types_until(&self, text: &str, shown: &str) {
        assert!(text.contains("sleep 0.1"), "{text}");
        let mut said = Vec::new();
        for seconds in ["0.1", "0.2", "0.5", "1", "2", "4", "8", "16", "32", "60"] {
            let now = self.types(&text.replace("sleep 0.1", &format!("sleep {seconds}")));
            if now.stdout.ends_with(shown) {
                return;
            }
            said.push(now);
        }
        panic!("{text} does not show {shown:?}, but {said:?}");
    }

    /// Types something that goes on, and leaves it alone.
    fn leaves_running(&mut self, text: &str) {
        let text = format!("exec {}", text.trim());
        let log = std::fs::File::create(self.path("log")).unwrap();
        let child = self.command(&text).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        self.running.push(child);
    }

    #[track_caller]
    fn wait_for(&self, what: &str, is_so: impl Fn() -> bool) {
        let until = Instant::now() + PATIENCE;
        while !is_so() {
            let log = std::fs::read_to_string(self.path("log")).unwrap_or_default();
            assert!(Instant::now() < until, "waited in vain: {what}\n{log}");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }

    #[track_caller]
    fn waits_for_text(&self, name: &str, text: &str) {
        self.wait_for(&format!("{name} is {text:?}"), || {
            std::fs::read_to_string(self.path(name)).is_ok_and(|found| found == text)
        });
    }

    /// Ends what is left running, as Ctrl-C does.
    fn ends_it(&mut self) {
        for mut child in self.running.drain(..) {
            let id = rustix::process::Pid::from_child(&child);
            let _ = rustix::process::kill_process(id, rustix::process::Signal::INT);
            child.wait().unwrap();
        }
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.ends_it();
    }
}

#[test]
fn no_page_with_commands_is_forgotten() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    for directory in ["tutorial", "how-to", "explanation"] {
        for entry in std::fs::read_dir(documents().join(directory)).unwrap() {
            let page = entry.unwrap().path();
            let name = format!("{directory}/{}", page.file_name().unwrap().to_str().unwrap());
            let elsewhere = ELSEWHERE.iter().find(|(page, _)| *page == name);
            let has_commands = !blocks(&std::fs::read_to_string(&page).unwrap(), "sh").is_empty();
            assert_eq!(has_commands, HERE.contains(&&*name) || elsewhere.is_some(), "{name}");
            if let Some((_, program)) = elsewhere {
                let is_there = tests.join(format!("{program}.rs")).exists() || tests.join(program).exists();
                assert!(is_there, "{name}: there is no test program {program}");
            }
        }
    }
}

#[test]
fn the_first_graph() {
    let mut scene = Scene::of("tutorial/first-graph.md");
    let [_build, run, drift, noop] = <[String; 4]>::try_from(scene.shell.clone()).unwrap();
    scene.write("web.yaml", &scene.block("yaml", 0));
    scene.leaves_running(&run);
    let works = "<h1>It works</h1>\n";
    scene.waits_for_text("web/index.html", works);
    scene.types_until(&drift, works);
    // It reacts to a change, once.
    let reacting = scene.block("yaml", 0) + &scene.block("yaml", 1);
    scene.write("web.yaml", &reacting);
    scene.write("web.yaml", &reacting.replace("It works", "It works better"));
    scene.waits_for_text("web/index.html", "<h1>It works better</h1>\n");
    scene.wait_for("the reload", || scene.path("web/log").exists());
    // A mistake leaves the running graph alone, a parameter that does not exist is told of.
    let log = || std::fs::read_to_string(scene.path("log")).unwrap();
    let better = reacting.replace("It works", "It works better");
    scene.write("web.yaml", &better.replace("mode:", "contnet: x\n    mode:"));
    scene.wait_for("the warning is shown", || log().contains("did you mean `content`?"));
    scene.write("web.yaml", &better.replace("state: exists", "state: exits"));
    scene.wait_for("the mistake is shown", || log().contains("exits"));
    scene.types_until("echo oops > /tmp/web/index.html; sleep 0.1; cat /tmp/web/index.html", "better</h1>\n");
    scene.write("web.yaml", &reacting.replace("It works", "It works better"));
    scene.ends_it();
    scene.types_well(&noop);
    scene.types_well("mgmt check yaml web.yaml; mgmt graph yaml web.yaml");
}

#[test]
fn the_first_program() {
    let mut scene = Scene::of("tutorial/first-program.md");
    let [_build, run, drift, opens, look] = <[String; 5]>::try_from(scene.shell.clone()).unwrap();
    scene.write("shop.mcl", &scene.block("mcl", 0));
    scene.leaves_running(&run);
    scene.waits_for_text("shop/sign", "closed\n");
    scene.types_until(&drift, "closed\n");
    let follows = scene.block("mcl", 1);
    scene.write("shop.mcl", &follows);
    scene.types_until(&opens, "open\nclosed\n");
    // A mistake, and the sign still follows.
    scene.write("shop.mcl", &follows.replace("if $open", "if $opne"));
    scene.wait_for("the mistake is shown", || {
        std::fs::read_to_string(scene.path("log")).unwrap().contains("$opne")
    });
    scene.types_until(&opens, "open\nclosed\n");
    scene.write("shop.mcl", &scene.block("mcl", 2));
    scene.waits_for_text("florist/sign", "florist is closed\n");
    scene.types_until("touch /tmp/florist-is-open; sleep 0.1; cat /tmp/florist/sign", "florist is open\n");
    scene.ends_it();
    let said = scene.types_well(&look);
    assert!(said.stdout.contains("florist/sign"), "{}", said.stdout);
    scene.types_well("mgmt check shop.mcl; mgmt explain M0301; mgmt functions os.file_exists");
}

const PROGRAM: &str = "print \"a\" {\n\tmsg => \"hello\",\n}\n";

#[test]
fn programs_are_checked() {
    let scene = Scene::of("how-to/check-mcl.md");
    let [check, in_integration] = <[String; 2]>::try_from(scene.shell.clone()).unwrap();
    scene.write("site.mcl", PROGRAM);
    scene.write("site/main.mcl", PROGRAM);
    scene.write("x.yaml", "graph: x\nresources:\n  noop:\n  - name: x\n");
    // Each by itself: the last reads standard input.
    for line in check.lines() {
        let said = scene.types_well(&format!("{line} <site.mcl\n"));
        assert_eq!(said.stdout, "", "{line}");
    }
    scene.types_well(&in_integration);
    scene.write("site.mcl", &PROGRAM.replace("\"hello\"", "1"));
    let said = scene.types("mgmt check site.mcl");
    assert_eq!(said.code, 1);
    assert!(said.stderr.contains("the parameter `msg` takes `str`, not `int`"), "{}", said.stderr);
}

#[test]
fn programs_are_formatted() {
    let scene = Scene::of("how-to/format-mcl.md");
    let [format, difference, check] = <[String; 3]>::try_from(scene.shell.clone()).unwrap();
    let untidy = "print \"a\" { msg=>\"hello\" }\n";
    let lines: Vec<&str> = format.lines().collect();
    for line in lines {
        scene.write("site.mcl", untidy);
        scene.write("roles/web.mcl", untidy);
        assert_eq!(scene.types(&check).code, 1);
        let said = scene.types(&difference);
        assert!(said.stdout.contains("-print \"a\" { msg=>\"hello\" }"), "{}", said.stdout);
        scene.types_well(line);
        scene.types_well(&check);
    }
}

#[test]
fn the_language_is_explored() {
    let scene = Scene::of("how-to/explore-with-the-repl.md");
    assert_eq!(scene.types_well(&scene.shell[0]).stdout, "3\n");
}

#[test]
fn plans_come_before_runs() {
    let scene = Scene::of("how-to/plan-before-you-run.md");
    let [plans, apply] = <[String; 2]>::try_from(scene.shell.clone()).unwrap();
    scene.write(
        "main.mcl",
        &scene.here("file \"/tmp/made\" {\n\tstate => \"exists\",\n\tcontent => \"made\\n\",\n}\n"),
    );
    scene.write(
        "graph.yaml",
        &scene.here("graph: g\nresources:\n  file:\n  - name: /tmp/other\n    state: exists\n"),
    );
    scene.write("site.pp", &scene.here("file { '/tmp/third': ensure => file, content => 'third' }\n"));
    let said = scene.types_well(&plans);
    for name in ["made", "other", "third"] {
        assert!(said.stdout.contains(&format!("create {}", scene.path(name).display())), "{}", said.stdout);
        assert!(!scene.path(name).exists());
    }
    scene.types_well(&apply);
    scene.waits_for_text("made", "made\n");
}

/// A program that runs with the working directory of the scene, and has changed a file.
fn with_a_run(page: &str) -> Scene {
    let mut scene = Scene::of(page);
    scene.write(
        "main.mcl",
        &scene.here("file \"/tmp/motd\" {\n\tstate => \"exists\",\n\tcontent => \"hello\\n\",\n}\n"),
    );
    scene.leaves_running("mgmt run lang main.mcl");
    scene.waits_for_text("motd", "hello\n");
    scene
}

#[test]
fn the_log_is_turned_up_and_down() {
    let scene = with_a_run("how-to/read-the-log.md");
    let [levels, _of_the_journal] = <[String; 2]>::try_from(scene.shell.clone()).unwrap();
    scene.wait_for("the store", || scene.types("mgmt log").code == 0);
    let said = scene.types_well(&levels);
    assert!(said.stdout.contains("web1") && said.stdout.contains("debug"), "{}", said.stdout);
}

#[test]
fn what_was_changed_is_seen() {
    let scene = with_a_run("how-to/see-what-was-changed.md");
    let [history, why] = <[String; 2]>::try_from(scene.shell.clone()).unwrap();
    // The resources of the page, under the names that they have here.
    let named = |text: &str| text.replace("/etc/motd", "/tmp/motd").replace("svc[nginx]", "file[/tmp/motd]");
    let motd = scene.here("file[/tmp/motd]");
    scene.wait_for("the record", || scene.types("mgmt history").stdout.contains(&motd));
    for line in named(&history).lines().chain(named(&why).lines()) {
        let said = scene.types_well(line);
        assert!(said.stdout.contains(&motd), "{line}\n{}", said.stdout);
    }
}

#[test]
fn programs_are_run() {
    let mut scene = Scene::of("how-to/run-a-program.md");
    let [ways, once, again] = <[String; 3]>::try_from(scene.shell.clone()).unwrap();
    scene.write("site.mcl", PROGRAM);
    scene.write("site/main.mcl", PROGRAM);
    let said_hello = |scene: &Scene| std::fs::read_to_string(scene.path("log")).unwrap().contains("hello");
    for line in ways.lines() {
        // Behind the comment, if there is one.
        let command = line.split("  #").next().unwrap();
        scene.leaves_running(&format!("{command} <site.mcl"));
        scene.wait_for(line, || said_hello(&scene));
        scene.ends_it();
    }
    scene.types_well(&once);
    scene.leaves_running("mgmt run --no-watch lang site.mcl");
    scene.wait_for("the first text", || said_hello(&scene));
    scene.write("site.mcl", &PROGRAM.replace("hello", "once more"));
    let id = scene.running[0].id().to_string();
    // This one, and not all that run on this machine.
    scene.types_well(&again.replace("$(pidof mgmt)", &id));
    scene.wait_for("the new text", || {
        std::fs::read_to_string(scene.path("log")).unwrap().contains("once more")
    });
}
