//! Pages for which one host is enough.

use crate::page_commands::test_env::{TestEnv, lines};
use mgmt_test_support::pages::{Mask, assert_shown, assert_shown_but, blocks, root};
use mgmt_test_support::terminal::TerminalSession;

#[test]
fn the_readme() {
    let mut env = TestEnv::of("../README.md");
    let [run, _chores] = <[String; 2]>::try_from(env.shell.clone()).unwrap();
    // What is built is the program that is tested.
    env.calls("cargo run --release --", "mgmt");
    let example = std::fs::read_to_string(root().join("examples/mcl/hello.mcl")).unwrap();
    env.write("examples/mcl/hello.mcl", &env.here(&example));
    env.types_well(&run);
    env.waits_for_text("mgmt-example/hello", "hello, world\n");
}

#[test]
fn tasks_are_moved_from_ansible() {
    let mut env = TestEnv::of("how-to/coming-from-ansible.md");
    let [beside, _push] = <[String; 2]>::try_from(env.shell.clone()).unwrap();
    let program = "file \"/tmp/page\" {\n\tstate => \"exists\",\n\tcontent => \"hello\\n\",\n}\n";
    env.write("site.mcl", &env.here(program));
    let [check, plan, run] = <[String; 3]>::try_from(lines(&beside)).unwrap();
    assert_eq!(env.types_well(&check).stdout, "");
    let said = env.types_well(&plan);
    assert!(said.stdout.contains(&env.here("create /tmp/page file")), "{}", said.stdout);
    env.leaves_running(&run);
    env.wait_for("what would be done", || env.log_of("here").contains(&env.here("file[/tmp/page]")));
    assert!(!env.path("page").exists());
}

#[test]
fn the_first_graph() {
    let mut env = TestEnv::of("tutorial/first-graph.md");
    let [_build, run, drift, noop] = <[String; 4]>::try_from(env.shell.clone()).unwrap();
    env.write("web.yaml", &env.block("yaml", 0));
    env.leaves_running(&run);
    let works = "<h1>It works</h1>\n";
    env.waits_for_text("web/index.html", works);
    env.types_until(&drift, works);
    // It reacts to a change, once.
    let reacting = env.block("yaml", 0) + &env.block("yaml", 1);
    env.write("web.yaml", &reacting);
    env.write("web.yaml", &reacting.replace("It works", "It works better"));
    env.waits_for_text("web/index.html", "<h1>It works better</h1>\n");
    env.wait_for("the reload", || env.path("web/log").exists());
    // A mistake leaves the running graph alone, a parameter that does not exist is told of.
    let log = || env.log_of("here");
    let better = reacting.replace("It works", "It works better");
    env.write("web.yaml", &better.replace("mode:", "contnet: x\n    mode:"));
    env.wait_for("the warning is shown", || log().contains("did you mean `content`?"));
    env.write("web.yaml", &better.replace("state: exists", "state: exits"));
    env.wait_for("the mistake is shown", || log().contains("exits"));
    env.types_until("echo oops > /tmp/web/index.html; sleep 0.1; cat /tmp/web/index.html", "better</h1>\n");
    env.write("web.yaml", &reacting.replace("It works", "It works better"));
    env.ends_it();
    env.types_well(&noop);
    env.types_well("mgmt check yaml web.yaml; mgmt graph yaml web.yaml");
}

#[test]
fn the_first_program() {
    let mut env = TestEnv::of("tutorial/first-program.md");
    let [_build, run, drift, opens, look] = <[String; 5]>::try_from(env.shell.clone()).unwrap();
    env.write("shop.mcl", &env.block("mcl", 0));
    env.leaves_running(&run);
    env.waits_for_text("shop/sign", "closed\n");
    env.types_until(&drift, "closed\n");
    let follows = env.block("mcl", 1);
    env.write("shop.mcl", &follows);
    env.types_until(&opens, "open\nclosed\n");
    // A mistake, and the sign still follows.
    env.write("shop.mcl", &follows.replace("if $open", "if $opne"));
    env.wait_for("the mistake is shown", || env.log_of("here").contains("$opne"));
    env.types_until(&opens, "open\nclosed\n");
    env.write("shop.mcl", &env.block("mcl", 2));
    env.waits_for_text("florist/sign", "florist is closed\n");
    env.types_until("touch /tmp/florist-is-open; sleep 0.1; cat /tmp/florist/sign", "florist is open\n");
    env.ends_it();
    let said = env.types_well(&look);
    assert!(said.stdout.contains("florist/sign"), "{}", said.stdout);
    env.types_well("mgmt check shop.mcl; mgmt explain M0301; mgmt functions os.file_exists");
}

const PROGRAM: &str = "print \"a\" {\n\tmsg => \"hello\",\n}\n";

#[test]
fn programs_are_checked() {
    let env = TestEnv::of("how-to/check-mcl.md");
    let [check, in_integration] = <[String; 2]>::try_from(env.shell.clone()).unwrap();
    env.write("site.mcl", PROGRAM);
    env.write("site/main.mcl", PROGRAM);
    env.write("x.yaml", "graph: x\nresources:\n  noop:\n  - name: x\n");
    // Each by itself: the last reads standard input.
    for line in check.lines() {
        let said = env.types_well(&format!("{line} <site.mcl\n"));
        assert_eq!(said.stdout, "", "{line}");
    }
    env.types_well(&in_integration);
    env.write("site.mcl", &PROGRAM.replace("\"hello\"", "1"));
    let said = env.types("mgmt check site.mcl");
    assert_eq!(said.code, 1);
    assert_shown(&env.block("text", 0), &said.stderr);
}

#[test]
fn programs_are_formatted() {
    let env = TestEnv::of("how-to/format-mcl.md");
    let [format, difference, check] = <[String; 3]>::try_from(env.shell.clone()).unwrap();
    let untidy = "print \"a\" { msg=>\"hello\" }\n";
    let lines: Vec<&str> = format.lines().collect();
    for line in lines {
        env.write("site.mcl", untidy);
        env.write("roles/web.mcl", untidy);
        assert_eq!(env.types(&check).code, 1);
        let said = env.types(&difference);
        assert!(said.stdout.contains("-print \"a\" { msg=>\"hello\" }"), "{}", said.stdout);
        env.types_well(line);
        env.types_well(&check);
    }
}

#[test]
fn the_language_is_explored() {
    let mut env = TestEnv::of("how-to/explore-with-the-repl.md");
    assert_eq!(env.types_well(&env.shell[0]).stdout, "3\n");
    // What is typed at the prompt says what is shown behind it, as it stands on the page, prompts and greeting included.
    env.calls("/etc/hostname", "/tmp/name");
    env.write("name", "web1\n");
    for nth in 0..3 {
        // Names are longer here than a line of a terminal may be.
        let (page, block) = (&blocks(&env.page, "text")[nth], env.block("text", nth));
        let mut screen = env.at_a_terminal("mgmt --log off repl --no-history");
        screen.becomes(200);
        let all = |screen: &TerminalSession| screen.lines().join("\n");
        let mut shown = String::new();
        for line in block.lines().filter(|line| *line != "$ mgmt repl") {
            if let Some(typed) = line.strip_prefix("mgmt> ").or(line.strip_prefix("  ... ")) {
                let prompt = format!("{shown}{}", &line[..line.len() - typed.len()]);
                env.wait_for(&format!("a prompt for `{line}` of {page}"), || {
                    all(&screen).trim_end().ends_with(prompt.trim_end())
                });
                screen.types(&format!("{typed}\r"));
            }
            // A value that is watched changes.
            if line == "\"web2\\n\"" {
                env.write("name", "web2\n");
            }
            shown.push_str(line);
            shown.push('\n');
            if !shown.contains("mgmt> ") {
                // The greeting is there before anything can be typed, and may be told of what is to be read.
                env.wait_for("the greeting", || all(&screen).contains("mgmt> "));
                assert!(all(&screen).starts_with(&shown), "{}", all(&screen));
            } else {
                env.wait_for(&format!("`{line}`"), || all(&screen).contains(shown.trim_end()));
            }
        }
        screen.kill();
    }
}

#[test]
fn plans_come_before_runs() {
    let mut env = TestEnv::of("how-to/plan-before-you-run.md");
    let [plans, apply] = <[String; 2]>::try_from(env.shell.clone()).unwrap();
    env.write(
        "main.mcl",
        &env.here("file \"/tmp/made\" {\n\tstate => \"exists\",\n\tcontent => \"made\\n\",\n}\n"),
    );
    env.write(
        "graph.yaml",
        &env.here("graph: g\nresources:\n  file:\n  - name: /tmp/other\n    state: exists\n"),
    );
    env.write("site.pp", &env.here("file { '/tmp/third': ensure => file, content => 'third' }\n"));
    let said = env.types_well(&plans);
    for name in ["made", "other", "third"] {
        assert!(said.stdout.contains(&format!("create {}", env.path(name).display())), "{}", said.stdout);
        assert!(!env.path(name).exists());
    }
    env.types_well(&apply);
    env.waits_for_text("made", "made\n");
    // What will fail.
    let program = "file \"/tmp/www/index.html\" {\n\tstate => \"exists\",\n}\nexec \"publish\" {\n\tcmd => \"/bin/true\",\n\n\t\
                   Depend => File[\"/tmp/www/index.html\"],\n}\n";
    env.write("main.mcl", &env.here(program));
    let said = env.types("mgmt plan --prefix none lang main.mcl");
    assert_eq!((said.code, said.stdout), (1, env.block("text", 1)), "{}", said.stderr);
    // What is no longer managed.
    let both = "file \"/tmp/motd\" {\n\tstate => \"exists\",\n\n\tMeta:reverse => true,\n}\nfile \"/tmp/issue\" {\n\tstate => \"exists\",\n}\n";
    env.write("both.mcl", &env.here(both));
    env.types_well("mgmt run --converger-timeout=0 --converged-exit lang both.mcl");
    let said = env.types_well("mgmt plan empty");
    assert!(said.stdout.starts_with(&env.block("text", 2)), "{}", said.stdout);
    // Beside a running service.
    let program = "file \"/tmp/config\" {\n\tstate => \"exists\",\n\tcontent => \"level = info\\n\",\n}\n";
    env.write("main.mcl", &env.here(program));
    env.leaves_running("mgmt run empty");
    env.waits_until_it_says("here", "mgmt retry", "nothing is failing");
    env.types_well("mgmt plan --out change.plan lang main.mcl");
    assert_eq!(env.types_well("mgmt apply change.plan").stdout, env.block("text", 3));
}

/// A program that runs with the working directory of the env, and has changed a file.
fn with_a_run(page: &str) -> TestEnv {
    let mut env = TestEnv::of(page);
    env.write(
        "main.mcl",
        &env.here("file \"/tmp/motd\" {\n\tstate => \"exists\",\n\tcontent => \"hello\\n\",\n}\n"),
    );
    env.leaves_running("mgmt run lang main.mcl");
    env.waits_for_text("motd", "hello\n");
    env
}

#[test]
fn the_log_is_turned_up_and_down() {
    let env = with_a_run("how-to/read-the-log.md");
    let [levels, _of_the_journal] = <[String; 2]>::try_from(env.shell.clone()).unwrap();
    let line = env.block("text", 0).replace("/etc/motd", &env.here("/tmp/motd"));
    env.wait_for("the line of the page", || env.log_of("here").contains("motd]"));
    assert_shown(&line, &env.log_of("here"));
    env.wait_for("the store", || env.types("mgmt log").code == 0);
    let said = env.types_well(&levels);
    assert!(said.stdout.contains("web1") && said.stdout.contains("debug"), "{}", said.stdout);
}

/// What a terminal shows of work that takes long: as many are done, run, have failed and wait as on the page.
#[test]
fn how_far_it_is_is_seen() {
    let mut env = TestEnv::of("how-to/read-the-log.md");
    env.calls("/etc/motd", "/tmp/motd");
    let file = |name: &str, more: &str| {
        format!("file \"/tmp/{name}\" {{\n\tstate => \"exists\",\n\tcontent => \"x\",\n{more}}}\n")
    };
    let exec = |name: &str, command: &str, more: &str| {
        format!("exec \"{name}\" {{\n\tcmd => \"{command}\",\n\tshell => \"/bin/sh\",\n{more}}}\n")
    };
    let mut program = file("motd", "");
    (0..10).for_each(|number| program += &file(&format!("done{number}"), ""));
    // Whoever waits is there until the env is gone, with all that is in it.
    let wait = "until test -e /tmp/go || ! test -e /tmp/begun; do sleep 0.05; done";
    program += &exec("restore the backup", &format!("touch /tmp/begun; {wait}"), "");
    // The second one is younger.
    program += &exec("unpack", "until test -e /tmp/begun; do sleep 0.05; done", "");
    program += &exec("make", wait, "\n\tDepend => Exec[\"unpack\"],\n");
    program += &exec("publish", "exit 1", "");
    (0..25).for_each(|number| {
        program += &file(&format!("waits{number}"), "\n\tDepend => Exec[\"make\"],\n");
    });
    env.write("main.mcl", &env.here(&program));
    let screen = env.at_a_terminal("mgmt run lang main.mcl");
    screen.becomes(200);
    let shown = env.block("text", 1);
    let [_, counts, ..] = shown.lines().collect::<Vec<_>>()[..] else { panic!("{shown}") };
    let is_there = || {
        let lines = screen.lines();
        lines.iter().any(|line| line == counts)
            && lines.iter().filter(|line| line.ends_with("  exec[make]")).count() == 1
    };
    env.wait_for(counts, is_there);
    assert_shown(&shown, &screen.lines().join("\n"));
    env.write("go", "");
    screen.kill();
}

#[test]
fn what_was_changed_is_seen() {
    let mut env = TestEnv::of("how-to/see-what-was-changed.md");
    let [history, why] = <[String; 2]>::try_from(env.shell.clone()).unwrap();
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
        env.calls(name, here);
    }
    env.write("text", "one");
    let program = "import \"os\"\n\n$text = os.readfile(\"/srv/text\")\n\n\
                   file \"/etc/motd\" {\n\tstate => \"exists\",\n\tcontent => $text,\n}\n";
    env.write("main.mcl", &env.here(program));
    env.leaves_running("mgmt run lang main.mcl");
    env.waits_for_text("motd", "one");
    env.write("text", "two");
    env.waits_for_text("motd", "two");
    env.waits_until_it_says("here", "mgmt history", "became \"two\"");
    let motd = env.here("file[/tmp/motd]");
    for line in lines(&history).iter().chain(&lines(&why)) {
        let said = env.types_well(line);
        assert!(said.stdout.contains(&motd), "{line}\n{}", said.stdout);
    }
    assert_shown(&env.block("text", 0), &env.types_well("mgmt history").stdout);
    // Somebody who undoes it again and again is told of.
    env.wait_for("the warning", || {
        std::fs::write(env.path("motd"), "wrong").unwrap();
        env.log_of("here").contains("flapping: reverted by an external process")
    });
    assert_shown_but(&[Mask::Times], &env.block("text", 1), &env.log_of("here"));
}

#[test]
fn programs_are_run() {
    let mut env = TestEnv::of("how-to/run-a-program.md");
    let [ways, once, again] = <[String; 3]>::try_from(env.shell.clone()).unwrap();
    env.write("site.mcl", PROGRAM);
    env.write("site/main.mcl", PROGRAM);
    let said_hello = |env: &TestEnv| env.log_of("here").contains("hello");
    for line in ways.lines() {
        // Behind the comment, if there is one.
        let command = line.split("  #").next().unwrap();
        env.leaves_running(&format!("{command} <site.mcl"));
        env.wait_for(line, || said_hello(&env));
        env.ends_it();
    }
    env.types_well(&once);
    env.leaves_running("mgmt run --no-watch lang site.mcl");
    env.wait_for("the first text", || said_hello(&env));
    env.write("site.mcl", &PROGRAM.replace("hello", "once more"));
    let id = env.running[0].id().to_string();
    // This one, and not all that run on this machine.
    env.types_well(&again.replace("$(pidof mgmt)", &id));
    env.wait_for("the new text", || env.log_of("here").contains("once more"));
    env.ends_it();
    // The directory of the picture: a name, and what is in that file.
    let picture = env.block("text", 0);
    for part in
        ["metadata.yaml      main: main.mcl, files: files/", "content => deploy.readfile(\"/files/motd\")"]
    {
        assert!(picture.contains(part), "{picture}");
    }
    env.write("site/metadata.yaml", "main: main.mcl\nfiles: files/\n");
    env.write("site/files/motd", "of the day\n");
    env.write(
        "site/main.mcl",
        &env.here(
            "import \"deploy\"\n\nfile \"/tmp/motd\" {\n\tstate => \"exists\",\n\tcontent => deploy.readfile(\"/files/motd\"),\n}\n",
        ),
    );
    env.types_well("mgmt run --converger-timeout=1 --converged-exit lang site/");
    env.waits_for_text("motd", "of the day\n");
}
