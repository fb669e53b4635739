//! `mgmt get` with real repositories.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use mgmt_test_support::program::{CommandOutput, RunningProgram, eventually, mgmt};
use serde_json::Value;

/// A program and the repositories of its modules, in a directory that goes away with the test.
struct TestEnv(tempfile::TempDir);

impl TestEnv {
    /// A program in `site/main.mcl`.
    fn new(program: &str) -> TestEnv {
        let place = TestEnv(tempfile::tempdir().unwrap());
        place.write("site/main.mcl", program);
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, content: &str) {
        let path = self.at(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.at(name)).unwrap()
    }

    /// The address of a repository.
    fn url(&self, name: &str) -> String {
        format!("file://{}", self.at(&format!("git/{name}")).display())
    }

    /// Where its module is put.
    fn module(&self, name: &str) -> PathBuf {
        self.at("site/modules").join(self.at(&format!("git/{name}")).strip_prefix("/").unwrap())
    }

    /// Runs git in a repository.
    fn git(&self, name: &str, arguments: &[&str]) -> String {
        git_in(&self.at(&format!("git/{name}")), arguments)
    }

    /// Writes files to a repository, which is made if it is not there, and commits everything. Gives the commit.
    fn commit(&self, name: &str, files: &[(&str, &str)]) -> String {
        for (file, content) in files {
            self.write(&format!("git/{name}/{file}"), content);
        }
        if !self.at(&format!("git/{name}/.git")).exists() {
            fs::create_dir_all(self.at(&format!("git/{name}"))).unwrap();
            self.git(name, &["init", "-q", "-b", "main"]);
        }
        self.git(name, &["add", "-A"]);
        self.git(name, &["commit", "-q", "--allow-empty", "-m", "a change"]);
        self.git(name, &["rev-parse", "HEAD"]).trim().to_owned()
    }

    fn get(&self, arguments: &[&str]) -> CommandOutput {
        self.command(arguments).output().unwrap().into()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = mgmt(&["get"]);
        command.args(arguments).current_dir(self.at("site"));
        command
    }

    fn lock(&self) -> Value {
        serde_json::from_str(&self.read("site/mgmt.lock")).unwrap()
    }

    /// What the lock says about the one module in it.
    fn locked(&self, what: &str) -> String {
        let lock = self.lock();
        let modules = lock["modules"].as_object().unwrap();
        assert_eq!(modules.len(), 1, "{modules:?}");
        modules.values().next().unwrap()[what].as_str().unwrap().to_owned()
    }
}

/// Runs git with an environment in which nothing changes what it does.
fn git_in(directory: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "protocol.file.allow=always", "-c", "user.name=t", "-c", "user.email=t@example.com"])
        .args(arguments)
        .current_dir(directory)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Everything below a directory.
fn names(top: &Path) -> Vec<String> {
    let mut names = Vec::new();
    let mut pending = vec![top.to_owned()];
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.symlink_metadata().unwrap().is_dir() {
                pending.push(path.clone());
            }
            names.push(path.strip_prefix(top).unwrap().display().to_string());
        }
    }
    names.sort();
    names
}

#[track_caller]
fn check(said: &CommandOutput, code: i32, parts: &[&str]) {
    for part in parts {
        assert!(said.stderr.contains(part), "no {part:?} in {}", said.stderr);
    }
    assert_eq!((said.code, said.stdout.as_str()), (code, ""), "{}", said.stderr);
}

#[test]
fn modules_are_fetched_with_those_that_they_import_and_the_second_time_nothing_happens() {
    let place = TestEnv::new("");
    let inner = place.commit("mgmt-inner", &[("metadata.yaml", ""), ("main.mcl", "$x = 1\n")]);
    let import = format!("import \"{}\"\n", place.url("mgmt-inner"));
    let outer = place.commit(
        "mgmt-outer",
        &[
            ("metadata.yaml", "main: src/start.mcl\n"),
            ("src/start.mcl", "import \"more.mcl\"\n"),
            ("src/more.mcl", &import),
        ],
    );
    place.write("site/main.mcl", "import \"fmt\"\nimport \"lib/\"\n");
    place.write(
        "site/lib/main.mcl",
        &format!("class c {{\n\timport \"{}\" as o\n}}\n", place.url("mgmt-outer")),
    );
    let first = place.get(&["."]);
    check(
        &first,
        0,
        &["downloading file://", &outer[..12], &inner[..12], "wrote mgmt.lock", "2 modules: 2 downloaded\n"],
    );
    assert_eq!(fs::read_to_string(place.module("mgmt-inner").join("main.mcl")).unwrap(), "$x = 1\n");
    assert_eq!(
        names(&place.module("mgmt-outer")),
        [".mgmt-module.json", "metadata.yaml", "src", "src/more.mcl", "src/start.mcl"]
    );
    let lock = place.read("site/mgmt.lock");
    assert!(lock.contains(&inner) && lock.contains(&outer), "{lock}");
    let everything = names(&place.at("site"));
    assert!(everything.iter().all(|name| !name.contains(".mgmt-get")), "{everything:?}");

    let second = place.get(&["main.mcl"]);
    check(&second, 0, &["unchanged\n", "2 modules: 2 unchanged\n"]);
    assert!(!second.stderr.contains("downloading") && !second.stderr.contains("wrote"), "{}", second.stderr);
    assert_eq!((place.read("site/mgmt.lock"), names(&place.at("site"))), (lock, everything));
}

#[test]
fn what_is_locked_is_fetched_until_an_update() {
    let place = TestEnv::new("");
    let old = place.commit("m", &[("metadata.yaml", ""), ("main.mcl", "$x = 1\n")]);
    place.write("site/main.mcl", &format!("import \"{}\"\n", place.url("m")));
    check(&place.get(&["./"]), 0, &["1 downloaded"]);
    assert_eq!(place.locked("commit"), old);
    place.commit("m", &[("main.mcl", "$x = 2\n")]);
    let new = place.commit("m", &[("main.mcl", "$x = 3\n")]);

    check(&place.get(&["./"]), 0, &["1 unchanged"]);
    fs::remove_dir_all(place.at("site/modules")).unwrap();
    check(&place.get(&["./"]), 0, &["1 downloaded"]);
    assert_eq!(fs::read_to_string(place.module("m").join("main.mcl")).unwrap(), "$x = 1\n");

    let update = place.get(&["--update", "./"]);
    check(&update, 0, &[&format!("{} -> {}", &old[..12], &new[..12]), "wrote mgmt.lock"]);
    assert_eq!(fs::read_to_string(place.module("m").join("main.mcl")).unwrap(), "$x = 3\n");
    let newest = place.locked("commit");
    assert_eq!(newest, new);
    check(&place.get(&["--update", "./"]), 0, &["1 unchanged"]);

    // Somebody else has gone back in the lock file.
    let lock = place.read("site/mgmt.lock");
    fs::remove_dir_all(place.at("site/modules")).unwrap();
    fs::remove_file(place.at("site/mgmt.lock")).unwrap();
    place.git("m", &["reset", "-q", "--hard", &old]);
    check(&place.get(&["./"]), 0, &["1 downloaded"]);
    place.git("m", &["reset", "-q", "--hard", &new]);
    place.write("site/mgmt.lock", &lock);
    check(&place.get(&["./"]), 0, &[&format!("{} -> {}", &old[..12], &new[..12])]);
    assert_eq!(place.read("site/mgmt.lock"), lock);
}

/// What `mgmt get` does today.
#[test]
fn old_flags_of_other_commands_download_and_update() {
    let place = TestEnv::new("");
    let first = place.commit("a", &[("metadata.yaml", ""), ("main.mcl", "$x = \"one\"\n")]);
    let import = format!("import \"{}\" as a\ntest \"x\" {{\n\tanotherstr => $a.x,\n}}\n", place.url("a"));
    place.write("site/main.mcl", &import);
    let says = |arguments: &[&str], parts: &[&str]| {
        let CommandOutput { code, stderr, .. } =
            mgmt(arguments).current_dir(place.at("site")).output().unwrap().into();
        assert_eq!(code, 0, "{arguments:?}: {stderr}");
        assert!(parts.iter().all(|part| stderr.contains(part)), "{arguments:?}: {stderr}");
    };
    for command in [&["run", "--tmp-prefix"][..], &["check"], &["deploy"]] {
        let _ = fs::remove_dir_all(place.at("site/modules"));
        let _ = fs::remove_file(place.at("site/mgmt.lock"));
        says(&[command, &["lang", "--only-download", "./"]].concat(), &["wrote mgmt.lock", &first[..12]]);
    }
    let second = place.commit("a", &[("main.mcl", "$x = \"two\"\n")]);
    says(
        &["run", "--tmp-prefix", "lang", "--update", "-t", "0", "./"],
        &["`mgmt get --update PATH`", &second[..12]],
    );
    let third = place.commit("a", &[("main.mcl", "$x = \"three\"\n")]);
    says(&["check", "lang", "--update", "./"], &[&third[..12]]);
}

#[test]
fn a_module_that_is_not_the_locked_one_is_reported_and_left_alone() {
    let place = TestEnv::new("");
    place.commit("m", &[("metadata.yaml", ""), ("main.mcl", "$x = 1\n")]);
    place.write("site/main.mcl", &format!("$y = 1\nimport \"{}\"\n", place.url("m")));
    check(&place.get(&["./"]), 0, &["1 downloaded"]);
    fs::write(place.module("m").join("main.mcl"), "$x = 666\n").unwrap();
    for arguments in [&["./"][..], &["--update", "./"]] {
        let said = place.get(arguments);
        check(
            &said,
            1,
            &["is not the one that `mgmt.lock` names", "main.mcl:2:8", "hint: remove that directory"],
        );
        assert_eq!(fs::read_to_string(place.module("m").join("main.mcl")).unwrap(), "$x = 666\n");
    }
    // The same from the far end: the commit is there and its content is not what was locked.
    fs::remove_dir_all(place.at("site/modules")).unwrap();
    let lock =
        place.read("site/mgmt.lock").replace(&place.locked("hash"), &format!("sha256:{}", "0".repeat(64)));
    place.write("site/mgmt.lock", &lock);
    check(&place.get(&["./"]), 1, &["its content is not what is locked"]);
    assert!(!place.module("m").exists());
    assert_eq!(place.read("site/mgmt.lock"), lock);
    // And the commit is not there at all.
    place.write("site/mgmt.lock", &lock.replace(&place.locked("commit"), &"a".repeat(40)));
    check(&place.get(&["./"]), 1, &["the commit aaaa", "--update"]);
}

#[test]
fn modules_that_are_there_by_other_means_are_used_as_they_are() {
    let place = TestEnv::new("");
    place.commit("m", &[("metadata.yaml", ""), ("main.mcl", "")]);
    place.commit("n", &[("metadata.yaml", ""), ("main.mcl", "")]);
    place.write("site/metadata.yaml", "path: vendor/\n");
    place.write("site/main.mcl", &format!("import \"{}\"\nimport \"{}\"\n", place.url("m"), place.url("n")));
    let vendored = |name| {
        place.at("site/vendor").join(place.module(name).strip_prefix(place.at("site/modules")).unwrap())
    };
    let common = tempfile::tempdir().unwrap();
    // One came with the program, the other was put into the common directory by hand.
    fs::create_dir_all(vendored("m")).unwrap();
    fs::write(vendored("m").join("metadata.yaml"), "").unwrap();
    fs::write(vendored("m").join("main.mcl"), "").unwrap();
    let by_hand = common.path().join(vendored("n").strip_prefix(place.at("site/vendor")).unwrap());
    fs::create_dir_all(by_hand.parent().unwrap()).unwrap();
    git_in(common.path(), &["clone", "-q", &place.url("n"), by_hand.to_str().unwrap()]);
    let said = place.get(&["--module-path", common.path().to_str().unwrap(), "lang", "./"]);
    check(&said, 0, &["was not downloaded by `mgmt get`, and is left alone", "1 module: 1 unchanged"]);
    assert!(by_hand.join(".git").exists());
    assert_eq!(place.lock()["modules"].as_object().unwrap().len(), 1);
    // Without another directory, what the metadata names is where modules go.
    fs::remove_dir_all(place.at("site/vendor")).unwrap();
    fs::remove_file(place.at("site/mgmt.lock")).unwrap();
    check(&place.get(&["./"]), 0, &["2 modules: 2 downloaded"]);
    assert!(vendored("n").join("metadata.yaml").exists());
}

#[test]
fn the_directory_of_modules_comes_from_the_environment() {
    let place = TestEnv::new("");
    place.commit("m", &[("metadata.yaml", ""), ("main.mcl", "")]);
    place.write("site/main.mcl", &format!("import \"{}\"\n", place.url("m")));
    let said: CommandOutput =
        place.command(&["./"]).env("MGMT_MODULE_PATH", "../common/").output().unwrap().into();
    check(&said, 0, &["1 downloaded"]);
    assert!(place.at("common").exists() && !place.at("site/modules").exists());
    // Another program with the same directory takes what is there, and locks it.
    place.write("other/main.mcl", &place.read("site/main.mcl"));
    let said: CommandOutput =
        place.command(&["../other/"]).env("MGMT_MODULE_PATH", "../common/").output().unwrap().into();
    check(&said, 0, &["1 unchanged"]);
    assert_eq!(place.read("other/mgmt.lock"), place.read("site/mgmt.lock"));
}

#[test]
fn submodules_are_fetched_and_nothing_of_git_is_left() {
    let place = TestEnv::new("");
    place.commit("part", &[("part.mcl", "$x = 1\n")]);
    place.commit("m", &[("metadata.yaml", ""), ("main.mcl", "import \"sub/part.mcl\"\n")]);
    place.git("m", &["submodule", "--quiet", "add", "../part", "sub"]);
    place.commit("m", &[]);
    place.write("site/main.mcl", &format!("import \"{}\"\n", place.url("m")));
    check(&place.get(&["./"]), 0, &["1 downloaded"]);
    assert_eq!(
        names(&place.module("m")),
        [".gitmodules", ".mgmt-module.json", "main.mcl", "metadata.yaml", "sub", "sub/part.mcl"]
    );
}

#[test]
fn hostile_repositories_reach_nothing() {
    let place = TestEnv::new("");
    let attempt = |name: &str, part: &str, more: &[&str]| {
        place.write("site/main.mcl", &format!("import \"{}\"\n", place.url(name)));
        let said = place.get(&[more, &["./"]].concat());
        check(&said, 1, &[part, "main.mcl:1:8"]);
        assert!(!place.module(name).exists(), "{name}");
        assert!(!place.at("pwned").exists(), "{name}");
        let left = names(&place.at("site"));
        assert!(
            left.iter().all(|name| !name.contains(".mgmt-get") && !name.contains("mgmt.lock")),
            "{left:?}"
        );
    };
    let good = [("metadata.yaml", ""), ("main.mcl", "")];
    let touch = format!("touch {}", place.at("pwned").display());

    place.commit("link", &good);
    symlink("../../../../etc/shadow", place.at("git/link/files")).unwrap();
    place.commit("link", &[]);
    attempt("link", "points out of it", &[]);

    place.commit("absolute", &good);
    symlink("/etc", place.at("git/absolute/files")).unwrap();
    place.commit("absolute", &[]);
    attempt("absolute", "points out of it", &[]);

    place.commit("through", &good);
    fs::create_dir(place.at("git/through/d")).unwrap();
    symlink("..", place.at("git/through/d/x")).unwrap();
    symlink("d/x/../../../etc", place.at("git/through/files")).unwrap();
    place.commit("through", &[]);
    attempt("through", "points out of it", &[]);

    // The one is stopped at the transport, the other before it is even unpacked.
    let ext = format!("url = ext::sh -c {touch}");
    for (name, settings, part) in [
        ("transport", ext, "transport 'ext' not allowed"),
        ("update", format!("url = ../x\n\tupdate = !{touch}"), "cannot download"),
        ("option", format!("url = -u{touch}"), "cannot download"),
        ("around", "url = git://-oProxyCommand=x/y".into(), "cannot download"),
    ] {
        place.commit(name, &good);
        place.write(
            &format!("git/{name}/.gitmodules"),
            &format!("[submodule \"s\"]\n\tpath = s\n\t{settings}\n"),
        );
        let commit = place.git(name, &["rev-parse", "HEAD"]);
        place.git(name, &["update-index", "--add", "--cacheinfo", &format!("160000,{},s", commit.trim())]);
        place.git(name, &["add", ".gitmodules"]);
        place.git(name, &["commit", "-q", "-m", "x"]);
        attempt(name, part, &[]);
    }

    place.commit("huge", &good);
    fs::File::create(place.at("git/huge/huge")).unwrap().set_len(5 << 20).unwrap();
    place.commit("huge", &[]);
    attempt("huge", "it is too large", &["--max-size", "4"]);

    place.commit("bare", &[("main.mcl", "")]);
    attempt("bare", "it has no `metadata.yaml`", &[]);
    fs::create_dir_all(place.at("git/nothing")).unwrap();
    place.git("nothing", &["init", "-q", "-b", "main"]);
    attempt("nothing", "has no commit to take", &[]);
    attempt("gone", "cannot download", &[]);
}

#[test]
fn hooks_and_settings_of_user_and_repository_do_nothing() {
    let place = TestEnv::new("");
    place.commit("m", &[("metadata.yaml", ""), ("main.mcl", "")]);
    let script = format!("#!/bin/sh\ntouch {}\n", place.at("pwned").display());
    for hook in [
        "home/hooks/post-checkout",
        "home/templates/hooks/post-checkout",
        "home/filter",
        "git/m/.git/hooks/post-checkout",
    ] {
        place.write(hook, &script);
        fs::set_permissions(place.at(hook), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let home = place.at("home");
    let home = home.display();
    place.write(
        "home/.gitconfig",
        &format!(
            "[core]\n\thooksPath = {home}/hooks\n\tfsmonitor = {home}/filter\n[init]\n\ttemplateDir = {home}/templates\n\
             [filter \"evil\"]\n\tsmudge = {home}/filter\n[url \"file:///nowhere/\"]\n\tinsteadOf = file:///\n"
        ),
    );
    place.commit("m", &[(".gitattributes", "* filter=evil\n")]);
    place.write("site/main.mcl", &format!("import \"{}\"\n", place.url("m")));
    let mut command = place.command(&["./"]);
    command.env("HOME", place.at("home")).env("GIT_CONFIG_GLOBAL", place.at("home/.gitconfig"));
    command.env("GIT_SSH_COMMAND", place.at("home/filter")).env("GIT_TRACE", "1").env("GIT_DIR", "/nowhere");
    let said: CommandOutput = command.output().unwrap().into();
    check(&said, 0, &["1 downloaded"]);
    assert!(!place.at("pwned").exists());
}

#[test]
fn only_transports_of_modules_are_used_and_only_a_program_names_files() {
    let place = TestEnv::new(
        "import \"ext://sh/x\"\nimport \"ssh://-oProxyCommand=x@h/y\"\nimport \"git://-oProxyCommand=x/y\"\n",
    );
    let said = place.get(&["./"]);
    check(
        &said,
        1,
        &[
            "`ext` is not a way to get a module",
            "main.mcl:1:8",
            "has a user that cannot be",
            "has a host that cannot be",
        ],
    );
    // What comes from elsewhere cannot look around here.
    place.commit("m", &[("metadata.yaml", ""), ("main.mcl", "")]);
    place.write("site/main.mcl", "import \"https://127.0.0.1/x\"\n");
    place.write("site/modules/127.0.0.1/x/metadata.yaml", "");
    place.write("site/modules/127.0.0.1/x/main.mcl", &format!("import \"{}\"\n", place.url("m")));
    let said = place.get(&["./"]);
    check(&said, 1, &["a module that was downloaded cannot import", "modules/127.0.0.1/x/main.mcl:1:8"]);
    assert!(!place.module("m").exists());
}

#[test]
fn a_killed_get_leaves_nothing_half_made_and_the_next_one_cleans_up() {
    let place = TestEnv::new("");
    place.commit("m", &[("metadata.yaml", ""), ("main.mcl", "")]);
    place.write("site/main.mcl", &format!("import \"{}\"\n", place.url("m")));
    // A git that never comes to an end, in front of the real one.
    place.write("bin/git", "#!/bin/sh\nfor last; do :; done\nmkdir -p \"$last/.git\"\nwhile [ -d \"$last\" ]; do sleep 0.1; done\n");
    fs::set_permissions(place.at("bin/git"), fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = place.command(&["./"]);
    let path = std::env::var("PATH").unwrap();
    command.env("PATH", format!("{}:{path}", place.at("bin").display()));
    let mut running = RunningProgram::start_command(command);
    running.wait_for("downloading");
    let half = place.at("site/modules/.mgmt-get/1/.git");
    eventually("the clone has begun", || half.exists());
    // Somebody else waits.
    let mut second = RunningProgram::start_command(place.command(&["./"]));
    second.wait_for("waiting for another");
    running.signal(rustix::process::Signal::KILL);
    let (code, text) = second.end();
    assert_eq!(code, Some(0), "{text}");
    assert!(place.module("m").join("metadata.yaml").exists());
    assert!(!place.at("site/modules/.mgmt-get").exists());
    drop(running);
}

#[test]
fn mistakes_are_shown_where_they_are_and_the_rest_is_fetched() {
    let place = TestEnv::new("");
    place.commit("m", &[("metadata.yaml", ""), ("main.mcl", "")]);
    let program = format!("import \"/abs\"\nimport \"gone.mcl\"\nimport \"{}\"\n$x = [1,\n", place.url("m"));
    place.write("site/main.mcl", &program);
    let said = place.get(&["./"]);
    let parts = [
        "main.mcl:1:8",
        "is an absolute path",
        "main.mcl:2:8",
        "there is no file `gone.mcl`",
        "expected `]`",
    ];
    check(&said, 1, &parts);
    check(&said, 1, &["1 module: 1 downloaded, 3 problems\n"]);
    check(&place.get(&["nowhere/"]), 2, &["there is no module in `nowhere/`"]);
    check(&place.get(&["nowhere"]), 2, &["there is no file or directory `nowhere`"]);
    check(&place.get(&["$x = 1"]), 0, &["no modules to download"]);
    place.write("site/metadata.yaml", "main: /x\n");
    check(&place.get(&["./"]), 2, &["metadata.yaml:1:7", "must be a relative path"]);
    let said = place.get(&["--message-format=json", "./"]);
    let last: Value = serde_json::from_str(said.stderr.lines().last().unwrap()).unwrap();
    assert_eq!((&last["type"], &last["problems"]), (&"summary".into(), &1.into()));
}

#[test]
fn a_directory_of_modules_that_anyone_can_write_to_is_refused_as_root() {
    mgmt_test_support::require_root!();
    let place = TestEnv::new("");
    place.commit("m", &[("metadata.yaml", ""), ("main.mcl", "")]);
    place.write("site/main.mcl", &format!("import \"{}\"\n", place.url("m")));
    fs::create_dir(place.at("site/modules")).unwrap();
    fs::set_permissions(place.at("site/modules"), fs::Permissions::from_mode(0o777)).unwrap();
    check(&place.get(&["./"]), 2, &["anyone on this host can write to it"]);
}
