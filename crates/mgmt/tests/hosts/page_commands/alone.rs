//! Pages for which one host is enough.

use crate::page_commands::scene::{Scene, lines};
use mgmt_test_support::pages::{Mask, assert_shown, assert_shown_but, blocks, root};
use mgmt_test_support::terminal::Screen;

#[test]
fn the_readme() {
    let mut scene = Scene::of("../README.md");
    let [run, _chores] = <[String; 2]>::try_from(scene.shell.clone()).unwrap();
    // What is built is the program that is tested.
    scene.calls("cargo run --release --", "mgmt");
    let example = std::fs::read_to_string(root().join("examples/mcl/hello.mcl")).unwrap();
    scene.write("examples/mcl/hello.mcl", &scene.here(&example));
    scene.types_well(&run);
    scene.waits_for_text("mgmt-example/hello", "hello, world\n");
}

#[test]
fn tasks_are_moved_from_ansible() {
    let mut scene = Scene::of("how-to/coming-from-ansible.md");
    let [beside, _push] = <[String; 2]>::try_from(scene.shell.clone()).unwrap();
    let program = "file \"/tmp/page\" {\n\tstate => \"exists\",\n\tcontent => \"hello\\n\",\n}\n";
    scene.write("site.mcl", &scene.here(program));
    let [check, plan, run] = <[String; 3]>::try_from(lines(&beside)).unwrap();
    assert_eq!(scene.types_well(&check).stdout, "");
    let said = scene.types_well(&plan);
    assert!(said.stdout.contains(&scene.here("create /tmp/page file")), "{}", said.stdout);
    scene.leaves_running(&run);
    scene.wait_for("what would be done", || scene.log_of("here").contains(&scene.here("file[/tmp/page]")));
    assert!(!scene.path("page").exists());
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
    let log = || scene.log_of("here");
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
    scene.wait_for("the mistake is shown", || scene.log_of("here").contains("$opne"));
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
    assert_shown(&scene.block("text", 0), &said.stderr);
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
    let mut scene = Scene::of("how-to/explore-with-the-repl.md");
    assert_eq!(scene.types_well(&scene.shell[0]).stdout, "3\n");
    // What is typed at the prompt says what is shown behind it, as it stands on the page, prompts and greeting included.
    scene.calls("/etc/hostname", "/tmp/name");
    scene.write("name", "web1\n");
    for nth in 0..3 {
        // Names are longer here than a line of a terminal may be.
        let (page, block) = (&blocks(&scene.page, "text")[nth], scene.block("text", nth));
        let mut screen = scene.at_a_terminal("mgmt --log off repl --no-history");
        screen.becomes(200);
        let all = |screen: &Screen| screen.lines().join("\n");
        let mut shown = String::new();
        for line in block.lines().filter(|line| *line != "$ mgmt repl") {
            if let Some(typed) = line.strip_prefix("mgmt> ").or(line.strip_prefix("  ... ")) {
                let prompt = format!("{shown}{}", &line[..line.len() - typed.len()]);
                scene.wait_for(&format!("a prompt for `{line}` of {page}"), || {
                    all(&screen).trim_end().ends_with(prompt.trim_end())
                });
                screen.types(&format!("{typed}\r"));
            }
            // A value that is watched changes.
            if line == "\"web2\\n\"" {
                scene.write("name", "web2\n");
            }
            shown.push_str(line);
            shown.push('\n');
            if !shown.contains("mgmt> ") {
                // The greeting is there before anything can be typed, and may be told of what is to be read.
                scene.wait_for("the greeting", || all(&screen).contains("mgmt> "));
                assert!(all(&screen).starts_with(&shown), "{}", all(&screen));
            } else {
                scene.wait_for(&format!("`{line}`"), || all(&screen).contains(shown.trim_end()));
            }
        }
        screen.kill();
    }
}

#[test]
fn plans_come_before_runs() {
    let mut scene = Scene::of("how-to/plan-before-you-run.md");
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
    // What will fail.
    let program = "file \"/tmp/www/index.html\" {\n\tstate => \"exists\",\n}\nexec \"publish\" {\n\tcmd => \"/bin/true\",\n\n\t\
                   Depend => File[\"/tmp/www/index.html\"],\n}\n";
    scene.write("main.mcl", &scene.here(program));
    let said = scene.types("mgmt plan --prefix none lang main.mcl");
    assert_eq!((said.code, said.stdout), (1, scene.block("text", 1)), "{}", said.stderr);
    // What is no longer managed.
    let both = "file \"/tmp/motd\" {\n\tstate => \"exists\",\n\n\tMeta:reverse => true,\n}\nfile \"/tmp/issue\" {\n\tstate => \"exists\",\n}\n";
    scene.write("both.mcl", &scene.here(both));
    scene.types_well("mgmt run --converger-timeout=0 --converged-exit lang both.mcl");
    let said = scene.types_well("mgmt plan empty");
    assert!(said.stdout.starts_with(&scene.block("text", 2)), "{}", said.stdout);
    // Beside a running service.
    let program = "file \"/tmp/config\" {\n\tstate => \"exists\",\n\tcontent => \"level = info\\n\",\n}\n";
    scene.write("main.mcl", &scene.here(program));
    scene.leaves_running("mgmt run empty");
    scene.waits_until_it_says("here", "mgmt retry", "nothing is failing");
    scene.types_well("mgmt plan --out change.plan lang main.mcl");
    assert_eq!(scene.types_well("mgmt apply change.plan").stdout, scene.block("text", 3));
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
    let line = scene.block("text", 0).replace("/etc/motd", &scene.here("/tmp/motd"));
    scene.wait_for("the line of the page", || scene.log_of("here").contains("motd]"));
    assert_shown(&line, &scene.log_of("here"));
    scene.wait_for("the store", || scene.types("mgmt log").code == 0);
    let said = scene.types_well(&levels);
    assert!(said.stdout.contains("web1") && said.stdout.contains("debug"), "{}", said.stdout);
}

/// What a terminal shows of work that takes long: as many are done, run, have failed and wait as on the page.
#[test]
fn how_far_it_is_is_seen() {
    let mut scene = Scene::of("how-to/read-the-log.md");
    scene.calls("/etc/motd", "/tmp/motd");
    let file = |name: &str, more: &str| {
        format!("file \"/tmp/{name}\" {{\n\tstate => \"exists\",\n\tcontent => \"x\",\n{more}}}\n")
    };
    let exec = |name: &str, command: &str, more: &str| {
        format!("exec \"{name}\" {{\n\tcmd => \"{command}\",\n\tshell => \"/bin/sh\",\n{more}}}\n")
    };
    let mut program = file("motd", "");
    (0..10).for_each(|number| program += &file(&format!("done{number}"), ""));
    // Whoever waits is there until the scene is gone, with all that is in it.
    let wait = "until test -e /tmp/go || ! test -e /tmp/begun; do sleep 0.05; done";
    program += &exec("restore the backup", &format!("touch /tmp/begun; {wait}"), "");
    // The second one is younger.
    program += &exec("unpack", "until test -e /tmp/begun; do sleep 0.05; done", "");
    program += &exec("make", wait, "\n\tDepend => Exec[\"unpack\"],\n");
    program += &exec("publish", "exit 1", "");
    (0..25).for_each(|number| {
        program += &file(&format!("waits{number}"), "\n\tDepend => Exec[\"make\"],\n");
    });
    scene.write("main.mcl", &scene.here(&program));
    let screen = scene.at_a_terminal("mgmt run lang main.mcl");
    screen.becomes(200);
    let shown = scene.block("text", 1);
    let [_, counts, ..] = shown.lines().collect::<Vec<_>>()[..] else { panic!("{shown}") };
    let is_there = || {
        let lines = screen.lines();
        lines.iter().any(|line| line == counts)
            && lines.iter().filter(|line| line.ends_with("  exec[make]")).count() == 1
    };
    scene.wait_for(counts, is_there);
    assert_shown(&shown, &screen.lines().join("\n"));
    scene.write("go", "");
    screen.kill();
}

#[test]
fn what_was_changed_is_seen() {
    let mut scene = Scene::of("how-to/see-what-was-changed.md");
    let [history, why] = <[String; 2]>::try_from(scene.shell.clone()).unwrap();
    // The resources of the page, under the names that they have here.
    for (name, here) in [
        ("svc[nginx]", "file[/etc/motd]"),
        ("/etc/motd", "/tmp/motd"),
        ("/etc/resolv.conf", "/tmp/motd"),
        ("/etc/mgmt/main.mcl", "main.mcl"),
        ("/srv/text", "/tmp/text"),
    ]
    .into_iter()
    .rev()
    {
        scene.calls(name, here);
    }
    scene.write("text", "one");
    let program = "import \"os\"\n\n$text = os.readfile(\"/srv/text\")\n\n\
                   file \"/etc/motd\" {\n\tstate => \"exists\",\n\tcontent => $text,\n}\n";
    scene.write("main.mcl", &scene.here(program));
    scene.leaves_running("mgmt run lang main.mcl");
    scene.waits_for_text("motd", "one");
    scene.write("text", "two");
    scene.waits_for_text("motd", "two");
    scene.waits_until_it_says("here", "mgmt history", "became \"two\"");
    let motd = scene.here("file[/tmp/motd]");
    for line in lines(&history).iter().chain(&lines(&why)) {
        let said = scene.types_well(line);
        assert!(said.stdout.contains(&motd), "{line}\n{}", said.stdout);
    }
    assert_shown(&scene.block("text", 0), &scene.types_well("mgmt history").stdout);
    // Somebody who undoes it again and again is told of.
    scene.wait_for("the warning", || {
        std::fs::write(scene.path("motd"), "wrong").unwrap();
        scene.log_of("here").contains("flapping: reverted by an external process")
    });
    assert_shown_but(&[Mask::Times], &scene.block("text", 1), &scene.log_of("here"));
}

#[test]
fn programs_are_run() {
    let mut scene = Scene::of("how-to/run-a-program.md");
    let [ways, once, again] = <[String; 3]>::try_from(scene.shell.clone()).unwrap();
    scene.write("site.mcl", PROGRAM);
    scene.write("site/main.mcl", PROGRAM);
    let said_hello = |scene: &Scene| scene.log_of("here").contains("hello");
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
    scene.wait_for("the new text", || scene.log_of("here").contains("once more"));
    scene.ends_it();
    // The directory of the picture: a name, and what is in that file.
    let picture = scene.block("text", 0);
    for part in
        ["metadata.yaml      main: main.mcl, files: files/", "content => deploy.readfile(\"/files/motd\")"]
    {
        assert!(picture.contains(part), "{picture}");
    }
    scene.write("site/metadata.yaml", "main: main.mcl\nfiles: files/\n");
    scene.write("site/files/motd", "of the day\n");
    scene.write(
        "site/main.mcl",
        &scene.here(
            "import \"deploy\"\n\nfile \"/tmp/motd\" {\n\tstate => \"exists\",\n\tcontent => deploy.readfile(\"/files/motd\"),\n}\n",
        ),
    );
    scene.types_well("mgmt run --converger-timeout=1 --converged-exit lang site/");
    scene.waits_for_text("motd", "of the day\n");
}
