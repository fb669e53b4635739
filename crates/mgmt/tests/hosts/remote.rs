//! Runs on hosts that have nothing but an sshd.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use mgmt_test_support::program;
use mgmt_test_support::sshd;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use mgmt_test_support::program::{CommandOutput, RunningProgram, eventually, holds, mgmt};
use mgmt_test_support::sshd::Hosts;
use rustix::process::Signal;
use tempfile::TempDir;

struct TestEnv {
    hosts: Hosts,
    directory: TempDir,
}

impl TestEnv {
    fn new(names: &[&str]) -> TestEnv {
        TestEnv { hosts: Hosts::start(names), directory: tempfile::tempdir().unwrap() }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.at(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn words(&self, remote: &str, more: &[&str]) -> Vec<String> {
        let (prefix, config) = (self.at("prefix"), self.hosts.config());
        let mut all = vec!["run", "--prefix", prefix.to_str().unwrap(), "--remote", remote, "--ssh-config"];
        all.push(config.to_str().unwrap());
        all.extend(more);
        all.into_iter().map(str::to_owned).collect()
    }

    fn said(&self, remote: &str, more: &[&str]) -> CommandOutput {
        let words = self.words(remote, more);
        mgmt(&words.iter().map(String::as_str).collect::<Vec<_>>()).output().unwrap().into()
    }

    fn start(&self, remote: &str, more: &[&str]) -> RunningProgram {
        let words = self.words(remote, more);
        RunningProgram::start(&words.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// A program that writes a file named after its host.
    fn program(&self, content: &str) -> String {
        let out = self.directory.path().display();
        let text = format!(
            "$name = $hostname\nfile \"{out}/out-${{name}}\" {{\n\tstate => \"exists\",\n\tcontent => \"{content}\",\n}}\n"
        );
        self.write("program.mcl", &text)
    }

    fn no_residue(&self, host: &str) {
        let mut left = String::new();
        eventually(&format!("{host} is as it was"), || {
            left = self.hosts.residue(host);
            left.is_empty()
        });
    }
}

const CONVERGE: [&str; 3] = ["--converger-timeout", "1", "--converged-exit"];

#[test]
fn two_hosts_share_the_world_converge_together_and_are_left_as_they_were() {
    let env = TestEnv::new(&["one", "two"]);
    let out = env.directory.path().display().to_string();
    let text = format!(
        "import \"world\"\nimport \"fmt\"\n$name = $hostname\n\
         kv \"names\" {{\n\tmapped => true,\n\tvalue => $name,\n}}\n\
         file \"{out}/names-${{name}}\" {{\n\tstate => \"exists\",\n\tcontent => fmt.printf(\"%v\", world.kvlookup(\"names\")),\n}}\n\
         file \"{out}/from-${{name}}\" {{\n\tstate => \"exists\",\n\tcontent => \"by ${{name}}\",\n\tMeta:export => [\"*\",],\n\tMeta:hidden => true,\n}}\n\
         collect file [\n\tstruct{{name => \"{out}/from-one\", host => \"one\",}},\n] {{\n\tMeta:hidden => false,\n}}\n"
    );
    let program = env.write("shared.mcl", &text);
    let first = env.said("one,two", &[&CONVERGE[..], &["lang", &program]].concat());
    assert_eq!(first.code, 0, "{}", first.stderr);
    for host in ["one", "two"] {
        let names = std::fs::read_to_string(env.at(&format!("names-{host}"))).unwrap();
        assert_eq!(names, "{\"one\": \"one\", \"two\": \"two\"}");
        assert!(first.stderr.contains(&format!("{host}: started, after a copy")), "{}", first.stderr);
        assert!(first.stderr.lines().any(|line| line.starts_with(&format!("{host}: "))), "{}", first.stderr);
        env.no_residue(host);
    }
    assert_eq!(std::fs::read_to_string(env.at("from-one")).unwrap(), "by one");
    // What was run is run there alone, and no other run finds it.
    assert!(!first.stderr.contains("deployed as number"), "{}", first.stderr);
    // The program is kept for the next time, for its owner alone.
    let kept: Vec<_> =
        std::fs::read_dir(env.hosts.host("one").cache()).unwrap().map(Result::unwrap).collect();
    assert_eq!(kept.len(), 1);
    assert_eq!(kept[0].metadata().unwrap().mode() & 0o7777, 0o700);
    // One that is not what it was is not used.
    std::fs::write(kept[0].path(), "something else").unwrap();
    let second = env.said("one,two", &[&CONVERGE[..], &["lang", &program]].concat());
    assert_eq!(second.code, 0, "{}", second.stderr);
    assert!(second.stderr.contains("one: started, after a copy"), "{}", second.stderr);
    assert!(second.stderr.contains("two: started, the program was there"), "{}", second.stderr);
}

#[test]
fn hosts_run_beside_an_agent_here_and_share_its_store() {
    let env = TestEnv::new(&["one"]);
    let prefix = env.at("prefix");
    let here = ["run", "--prefix", prefix.to_str().unwrap(), "--converger-timeout=0", "lang"];
    let mut agent = RunningProgram::start(&[&here[..], &["kv \"colour\" { value => \"blue\", }\n"]].concat());
    agent.wait_for("converged for 0 s");
    let out = env.directory.path().display().to_string();
    let program = format!(
        "import \"world\"\nfile \"{out}/colour\" {{\n\tstate => \"exists\",\n\tcontent => world.getval(\"colour\")->value,\n}}\n"
    );
    let program = env.write("colour.mcl", &program);
    let run = env.said("one", &[&CONVERGE[..], &["lang", &program]].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(std::fs::read_to_string(env.at("colour")).unwrap(), "blue");
    assert!(run.stderr.contains("running beside it"), "{}", run.stderr);
    agent.signal(Signal::INT);
    let (code, lines) = agent.end();
    assert_eq!(code, Some(0), "{lines}");
}

#[test]
fn nothing_is_left_when_this_side_is_killed_interrupted_or_asked_to_leave_nothing() {
    let env = TestEnv::new(&["one"]);
    let program = env.program("first");
    let mut run = env.start("one", &["lang", &program]);
    run.wait_for("one: ");
    holds(&env.at("out-one"), "first");
    assert!(!env.hosts.residue("one").is_empty());
    // An edit is followed, and a mistake is not.
    env.write("program.mcl", "file \"x\" {");
    run.wait_for("program has errors; still running");
    env.program("second");
    holds(&env.at("out-one"), "second");
    env.program("first");
    holds(&env.at("out-one"), "first");
    run.signal(Signal::KILL);
    drop(run);
    env.no_residue("one");
    let run = env.start("one", &["lang", &program]);
    std::fs::remove_file(env.at("out-one")).unwrap();
    holds(&env.at("out-one"), "first");
    run.signal(Signal::INT);
    let (code, lines) = run.end();
    assert_eq!(code, Some(0), "{lines}");
    assert!(lines.contains("one: ended"), "{lines}");
    env.no_residue("one");
    std::fs::remove_dir_all(env.hosts.host("one").cache()).unwrap();
    let words = [&CONVERGE[..], &["--no-caching", "--message-format", "json", "lang", &program]].concat();
    let done = env.said("one", &words);
    assert_eq!(done.code, 0, "{}", done.stderr);
    assert!(done.stderr.lines().all(|line| line.starts_with('{')), "{}", done.stderr);
    assert!(done.stderr.contains("\"host\":\"one\""), "{}", done.stderr);
    env.no_residue("one");
    assert!(!env.hosts.host("one").cache().exists());
}

#[test]
fn hosts_that_fail_are_told_apart_from_those_that_do_not() {
    let mut env = TestEnv::new(&["one", "two"]);
    let program = env.program("text");
    // One cannot be reached at all.
    let done = env.said("one,ssh://127.0.0.1:1", &[&CONVERGE[..], &["lang", &program]].concat());
    assert_eq!(done.code, 1, "{}", done.stderr);
    assert!(done.stderr.contains("root@127.0.0.1:1 cannot be reached"), "{}", done.stderr);
    assert!(done.stderr.contains("1 of 2 hosts have failed"), "{}", done.stderr);
    for line in [" one: 1 resources, 1 changed, 0 failed\n", " 127.0.0.1: not started: "] {
        assert!(done.stderr.contains(line), "{line}: {}", done.stderr);
    }
    holds(&env.at("out-one"), "text");
    // The resources of one fail.
    let out = env.directory.path().display();
    let failing = env.write(
        "failing.mcl",
        &format!("$name = $hostname\nexec \"sh\" {{\n\tcmd => \"test ${{name}} = one\",\n\tshell => \"/bin/sh\",\n}}\nfile \"{out}/x\" {{\n\tstate => \"absent\",\n}}\n"),
    );
    let done = env.said("one,two", &[&CONVERGE[..], &["lang", &failing]].concat());
    assert_eq!(done.code, 1, "{}", done.stderr);
    assert!(
        done.stderr.contains("one: ended\n") && done.stderr.contains("two: ended with code 1"),
        "{}",
        done.stderr
    );
    for line in [
        " one: 2 resources, 1 changed, 0 failed\n",
        " two: ended with code 1: 2 resources, 0 changed, 1 failed",
    ] {
        assert!(done.stderr.contains(line), "{line}: {}", done.stderr);
    }
    // Quiet is not converged, on this side neither.
    let (status, failing) =
        (env.at("status-file"), env.write("false.mcl", "exec \"x\" {\n\tcmd => \"/bin/false\",\n}\n"));
    let flags = ["--converger-timeout", "1", "--converger-status-file", status.to_str().unwrap()];
    let mut run = env.start("one", &[&flags[..], &["lang", &failing]].concat());
    run.wait_for("not converged: one: not converged");
    assert!(!std::fs::read_to_string(&status).unwrap().contains("true"));
    run.signal(Signal::INT);
    let (_, lines) = run.end();
    assert!(!lines.contains("converged for 1 s"), "{lines}");
    // Held back by its rate is not failed, and not converged.
    let held = env.at("held");
    let text = format!(
        "file \"{}\" {{\n\tstate => \"exists\",\n\tcontent => \"x\",\n\tMeta:limit => 0.0,\n\tMeta:burst => 1,\n}}\nexec \"y\" {{\n\tcmd => \"echo disturbed > {}\",\n\tshell => \"/bin/sh\",\n\tDepend => File[\"{}\"],\n}}\n",
        held.display(),
        held.display(),
        held.display()
    );
    let held = env.write("held.mcl", &text);
    let done = env.said("one", &[&CONVERGE[..], &["lang", &held]].concat());
    assert_eq!(done.code, 1, "{}", done.stderr);
    // One is lost on the way; the others go on.
    let mut run = env.start("one,two", &["lang", &program]);
    for host in ["out-one", "out-two"] {
        holds(&env.at(host), "text");
    }
    env.hosts.kill("two");
    run.wait_for("two: the connection is lost");
    std::fs::remove_file(env.at("out-one")).unwrap();
    holds(&env.at("out-one"), "text");
    run.signal(Signal::INT);
    let (code, lines) = run.end();
    assert_eq!(code, Some(1), "{lines}");
    assert!(lines.contains("two: connection lost: what it has done is not known"), "{lines}");
    // Somebody else answers in its place.
    env.hosts.forget_keys();
    let refused = env.said("one", &["lang", &program]);
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("its host key is not known"), "{}", refused.stderr);
    env.no_residue("one");
}

#[test]
fn a_user_other_than_root_needs_nothing_else_either() {
    let env = TestEnv::new(&["one"]);
    let program = env.write(
        "program.mcl",
        "file \"/var/lib/plain/out\" {\n\tstate => \"exists\",\n\tcontent => \"mine\",\n}\n",
    );
    let done = env.said("plain@one", &[&CONVERGE[..], &["lang", &program]].concat());
    assert_eq!(done.code, 0, "{}", done.stderr);
    let home = env.hosts.host("one").state.join("plain");
    assert_eq!(std::fs::metadata(home.join("out")).unwrap().uid(), 4242);
    assert_eq!(std::fs::read_dir(home.join(".cache/mgmt/remote")).unwrap().count(), 1);
    env.no_residue("one");
    // Others may write to what is there: that is not used.
    let cache = home.join(".cache/mgmt/remote");
    std::fs::set_permissions(&cache, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let refused = env.said("plain@one", &[&CONVERGE[..], &["lang", &program]].concat());
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    assert!(refused.stderr.contains("others may write to it"), "{}", refused.stderr);
}

#[test]
fn passwords_are_asked_for_one_after_the_other_and_not_shown() {
    use std::io::{Read as _, Write as _};
    use std::process::{Command, Stdio};
    let env = TestEnv::new(&["one", "two"]);
    let config = std::fs::read_to_string(env.hosts.config()).unwrap();
    std::fs::write(env.hosts.config(), format!("PubkeyAuthentication no\n{config}")).unwrap();
    let program = env.program("text");
    // Nobody is asked unless that is allowed.
    let refused = env.said("one,two", &[&CONVERGE[..], &["lang", &program]].concat());
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("root@one does not let us in"), "{}", refused.stderr);
    let words = env.words("one,two", &[&CONVERGE[..], &["--allow-interactive", "lang", &program]].concat());
    let line = format!(
        "'{}' {}",
        env!("CARGO_BIN_EXE_mgmt"),
        words.iter().map(|word| format!("'{word}' ")).collect::<String>()
    );
    let mut command = Command::new("script");
    command.args(["--quiet", "--return", "--command", &line, "/dev/null"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut typed, mut shown) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let (mut seen, mut answered) = (String::new(), 0);
    let mut piece = [0; 4096];
    loop {
        let length = shown.read(&mut piece).unwrap();
        if length == 0 {
            break;
        }
        seen.push_str(&String::from_utf8_lossy(&piece[..length]));
        if seen.matches("password:").count() > answered {
            answered += 1;
            writeln!(typed, "{}", sshd::PASSWORD).unwrap();
        }
    }
    assert_eq!(child.wait().unwrap().code(), Some(0), "{seen}");
    assert_eq!(answered, 2, "{seen}");
    assert!(!seen.contains(sshd::PASSWORD), "{seen}");
    holds(&env.at("out-one"), "text");
    holds(&env.at("out-two"), "text");
}

#[test]
fn a_graph_names_its_host_and_another_keeps_running_here() {
    let env = TestEnv::new(&["one", "two"]);
    let graph = |name: &str, head: &str| {
        let path = env.at(&format!("out-{name}"));
        let text = format!("{head}{}", program::one_file(&path, name));
        env.write(&format!("{name}.yaml"), &text)
    };
    let (far, near) = (graph("far", "remote: ssh://root@one\n"), graph("near", ""));
    let words = [&CONVERGE[..], &["--noop", "yaml", &near]].concat();
    let done = env.said(&far, &words);
    assert_eq!(done.code, 0, "{}", done.stderr);
    assert!(!env.at("out-far").exists(), "only looked at");
    let words = [&CONVERGE[..], &["yaml", &near]].concat();
    let done = env.said(&far, &words);
    assert_eq!(done.code, 0, "{}", done.stderr);
    holds(&env.at("out-far"), "far");
    holds(&env.at("out-near"), "near");
    let done = env.said(&far, &["-t", "1"]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    // One after the other, if no more are allowed for at the same time; and when none is left, it is over.
    let ending = env.write("exit.yaml", "graph: end\nresources:\n  exit:\n  - name: end\n");
    let done = env.said("one,two", &["--cconns", "1", "yaml", &ending]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    let program = env.program("text");
    let run = env.start("one,two", &["--cconns", "1", "lang", &program]);
    eventually("one of them runs", || env.at("out-one").exists() || env.at("out-two").exists());
    run.signal(Signal::INT);
    let (code, lines) = run.end();
    assert_eq!(code, Some(0), "{lines}");
    assert_eq!(lines.matches("connecting to root@").count(), 1, "{lines}");
    assert!(lines.contains(": not started"), "{lines}");
    for (arguments, part) in [
        (&["--remote", "one,one", "empty"][..], "is there twice"),
        (&["--remote", &near], "does not say where it is to run"),
        (&["--remote", "one;id", "empty"], "is not the name of a host"),
        (&["--remote", ",", "empty"], "names no host"),
        (&["--remote", "one,two", "--cconns", "1", "-t", "5", "empty"], "can never have converged together"),
        (&["--remote", "one", "--cconns", "x", "empty"], "expected a number of hosts"),
        (&["--remote", "one"], "needs a front-end"),
    ] {
        let words = [&["run", "--tmp-prefix"], arguments].concat();
        let refused = program::mgmt_output(&words);
        assert_eq!(refused.code, 2, "{arguments:?}: {}", refused.stderr);
        assert!(refused.stderr.contains(part), "{arguments:?}: {}", refused.stderr);
    }
}

#[test]
fn edits_of_a_manifest_and_of_a_program_beside_it_are_handed_to_the_hosts() {
    let env = TestEnv::new(&["one"]);
    let at = |name: &str| env.at(name).display().to_string();
    let program = |text: &str| {
        let text = format!(
            "$name = $hostname\nfile \"{0}-${{name}}\" {{ state => \"exists\", content => \"{text}\", }}\n\
             noop \"puppet_x\" {{}}\nFile[\"{0}-${{name}}\"] -> Noop[\"puppet_x\"]\n",
            at("ours")
        );
        env.write("main.mcl", &text)
    };
    let manifest = |text: &str| {
        let text = format!(
            "class mgmt_x {{}}\ninclude mgmt_x\nfile {{ '{}': content => '{text}', require => Class['mgmt_x'] }}\n",
            at("theirs")
        );
        env.write("site.pp", &text)
    };
    let (lang, puppet) = (program("1"), manifest("1"));
    let run = env.start("one", &["langpuppet", "--lang", &lang, "--puppet", &puppet]);
    let (ours, theirs) = (env.at("ours-one"), env.at("theirs"));
    holds(&ours, "1");
    holds(&theirs, "1");
    manifest("2");
    holds(&theirs, "2");
    program("3");
    holds(&ours, "3");
    manifest("4");
    holds(&theirs, "4");
    run.signal(Signal::INT);
    let (code, lines) = run.end();
    assert_eq!(code, Some(0), "{lines}");
    // A manifest alone.
    let run = env.start("one", &["puppet", &puppet]);
    env.write("site.pp", &format!("file {{ '{}': content => 'alone' }}\n", at("theirs")));
    holds(&theirs, "alone");
    run.signal(Signal::INT);
    assert_eq!(run.end().0, Some(0));
    env.no_residue("one");
}

#[test]
fn tags_and_settings_of_puppet_count_on_the_hosts() {
    let env = TestEnv::new(&["one"]);
    let at = |name: &str| env.at(name).display().to_string();
    let text = format!(
        "file {{ '{}': content => $trusted['certname'], tag => 'yes' }}\n\
         file {{ '{}': content => 'x', tag => ['yes', 'no'] }}\nfile {{ '{}': content => 'x' }}\n",
        at("wanted"),
        at("skipped"),
        at("untagged")
    );
    let site = env.write("site.pp", &text);
    let flags =
        ["--tags", "yes", "--skip-tags", "no", "--puppet-certname", "web.example.com", "puppet", &site];
    let run = env.said("one", &[&CONVERGE[..], &flags].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(std::fs::read_to_string(env.at("wanted")).unwrap(), "web.example.com");
    assert!(!env.at("skipped").exists() && !env.at("untagged").exists());
    env.no_residue("one");
}
