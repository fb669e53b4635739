//! The modules that come with the program: the graph of each class, and the files that it writes.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use mgmt_test_support::program;
use std::fs;
use std::path::Path;

use mgmt_test_support::program::{RunningProgram, eventually, mgmt, mgmt_output, mgmt_output_with_input};

/// The graph of a program with one include, as sorted lines without their first words.
#[track_caller]
fn graph(module: &str, include: &str) -> Vec<String> {
    let program = format!("import \"{module}\"\n\ninclude {include}\n");
    let said = mgmt_output_with_input(&["--log", "off", "graph", "lang", "-"], &program);
    assert_eq!((said.code, said.stderr.as_str()), (0, ""), "{include}");
    let mut lines: Vec<_> =
        said.stdout.lines().map(|line| line.split_once(": ").unwrap().1.to_owned()).collect();
    lines.sort();
    lines
}

/// Runs a program with one include until it has converged, below a directory of its own.
fn written(module: &str, include: &str, files: &[(&str, &str)]) {
    let home = tempfile::tempdir().unwrap();
    let root = home.path().join("root");
    let program = format!("import \"{module}\"\n\n$root = \"{}\"\ninclude {include}\n", root.display());
    fs::write(home.path().join("main.mcl"), program).unwrap();
    let main = home.path().join("main.mcl");
    let arguments = ["run", "--tmp-prefix", "--converger-timeout=0", "--converged-exit", "--max-runtime=100"];
    let arguments: Vec<_> = arguments.into_iter().chain(["lang", main.to_str().unwrap()]).collect();
    let said: program::CommandOutput = mgmt(&arguments).env("TMPDIR", home.path()).output().unwrap().into();
    assert_eq!(said.code, 0, "{}", said.stderr);
    let mut found = below(&root);
    found.sort();
    let mut wanted: Vec<_> =
        files.iter().map(|(path, content)| ((*path).to_owned(), (*content).to_owned())).collect();
    wanted.sort();
    assert_eq!(found, wanted, "{}", said.stderr);
}

/// All files below a directory, with what is in them.
fn below(directory: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut open = vec![directory.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => open.push(path),
                false => {
                    let name = path.strip_prefix(directory).unwrap().to_str().unwrap().to_owned();
                    found.push((name, fs::read_to_string(&path).unwrap()));
                }
            }
        }
    }
    found
}

#[test]
fn a_unit_is_a_file_and_a_service_that_listens_to_it() {
    let file = "file[/etc/systemd/system/hello.service]";
    let expected =
        [file.to_owned(), format!("{file} -> svc[hello.service] # notify"), "svc[hello.service]".into()];
    assert_eq!(
        graph("embedded/systemd", "systemd.unit(\"hello.service\", struct{exec => \"/bin/true\"})"),
        expected
    );
    let content = "struct{content => \"[Service]\", root => \"/image\"}";
    let only = graph("embedded/systemd", &format!("systemd.unit(\"hello.service\", {content})"));
    let directory = "file[/image/etc/systemd/system/]";
    let file = "file[/image/etc/systemd/system/hello.service]";
    assert_eq!(only, [directory.to_owned(), format!("{directory} -> {file}"), file.to_owned()]);
}

#[test]
fn a_unit_without_a_command_is_refused() {
    let program = "import \"embedded/systemd\"\n\ninclude systemd.unit(\"x.service\", struct{})\n";
    let said = mgmt_output_with_input(&["--log", "off", "graph", "lang", "-"], program);
    assert_ne!(said.code, 0);
    assert!(said.stderr.contains("the unit x.service needs `exec` or `content`"), "{}", said.stderr);
    assert!(said.stderr.contains("embeddedfs:///embedded/systemd/main.mcl:"), "{}", said.stderr);
}

#[test]
fn units_are_written_as_systemd_reads_them() {
    written(
        "embedded/systemd",
        "systemd.unit(\"hello.service\", struct{root => $root, exec => \"/bin/sleep 1h\", user => \"nobody\", \
         environment => {\"A\" => \"b c\"}, description => \"Hello\"})",
        &[(
            "etc/systemd/system/hello.service",
            "[Unit]\nDescription=Hello\nAfter=network.target\n\n[Service]\nExecStart=/bin/sleep 1h\nUser=nobody\n\
             Restart=on-failure\nEnvironment=\"A=b c\"\n\n[Install]\nWantedBy=multi-user.target\n",
        )],
    );
    written(
        "embedded/systemd",
        "systemd.unit(\"own.service\", struct{root => $root, content => \"[Service]\\n\"})",
        &[("etc/systemd/system/own.service", "[Service]\n")],
    );
}

#[test]
fn a_timer_starts_a_service() {
    let file = "file[/etc/systemd/system/tidy.timer]";
    let expected = [file.to_owned(), format!("{file} -> svc[tidy.timer] # notify"), "svc[tidy.timer]".into()];
    assert_eq!(graph("embedded/systemd", "systemd.timer(\"tidy\", struct{})"), expected);
    written(
        "embedded/systemd",
        "systemd.timer(\"tidy\", struct{root => $root, oncalendar => \"hourly\", persistent => false})",
        &[(
            "etc/systemd/system/tidy.timer",
            "[Unit]\nDescription=tidy\n\n[Timer]\nUnit=tidy.service\nOnCalendar=hourly\nPersistent=false\n\
             RandomizedDelaySec=0\n\n[Install]\nWantedBy=timers.target\n",
        )],
    );
}

#[test]
fn a_dropin_tells_systemd() {
    let file = "file[/etc/systemd/system/a.service.d/nice.conf]";
    let exec = "exec[drop-in nice of a.service]";
    let content = "content => \"[Service]\\nNice=5\\n\"";
    let include = format!("systemd.dropin(\"a.service\", \"nice\", struct{{{content}}})");
    let directory = "file[/etc/systemd/system/a.service.d/]";
    assert_eq!(
        graph("embedded/systemd", &include),
        [
            exec.to_owned(),
            directory.to_owned(),
            format!("{directory} -> {file}"),
            file.to_owned(),
            format!("{file} -> {exec} # notify"),
        ]
    );
    written(
        "embedded/systemd",
        &format!("systemd.dropin(\"a.service\", \"nice\", struct{{root => $root, {content}}})"),
        &[("etc/systemd/system/a.service.d/nice.conf", "[Service]\nNice=5\n")],
    );
}

#[test]
fn a_repository_is_a_source_and_its_key() {
    let fields = "uris => [\"https://deb.example.com/\"], suites => [\"bookworm\", \"trixie\"]";
    let source = "file[/etc/apt/sources.list.d/x.sources]";
    assert_eq!(graph("embedded/apt", &format!("apt.repository(\"x\", struct{{{fields}}})")), [source]);
    let key = "file[/etc/apt/keyrings/x.asc]";
    assert_eq!(
        graph("embedded/apt", &format!("apt.repository(\"x\", struct{{{fields}, key => \"KEY\"}})")),
        [
            "file[/etc/apt/keyrings/]".to_owned(),
            format!("file[/etc/apt/keyrings/] -> {key}"),
            key.to_owned(),
            format!("{key} -> {source}"),
            source.to_owned(),
        ]
    );
    written(
        "embedded/apt",
        &format!("apt.repository(\"x\", struct{{root => $root, {fields}, key => \"KEY\\n\"}})"),
        &[
            ("etc/apt/keyrings/x.asc", "KEY\n"),
            (
                "etc/apt/sources.list.d/x.sources",
                "Types: deb\nURIs: https://deb.example.com/\nSuites: bookworm trixie\nComponents: main\n\
                 Signed-By: /etc/apt/keyrings/x.asc\nEnabled: yes\n",
            ),
        ],
    );
}

#[test]
fn a_pin_prefers_packages() {
    assert_eq!(graph("embedded/apt", "apt.pin(\"x\", struct{})"), ["file[/etc/apt/preferences.d/x.pref]"]);
    written(
        "embedded/apt",
        "apt.pin(\"x\", struct{root => $root, packages => [\"a\", \"b\"], priority => -1, explanation => \"never\"})",
        &[(
            "etc/apt/preferences.d/x.pref",
            "Explanation: never\nPackage: a b\nPin: release a=stable\nPin-Priority: -1\n",
        )],
    );
}

#[test]
fn lists_are_fetched_after_the_sources() {
    let program = "import \"embedded/apt\"\n\n\
        include apt.repository(\"x\", struct{uris => [\"https://deb.example.com/\"], suites => [\"bookworm\"]})\n\
        include apt.update_when_changed([\"x\"])\n";
    let said = mgmt_output_with_input(&["--log", "off", "graph", "lang", "-"], program);
    let edge = "file[/etc/apt/sources.list.d/x.sources] -> exec[apt-get update]";
    assert!(said.code == 0 && said.stdout.contains(edge), "{said:?}");
    // Without names it still follows whoever changes the sources.
    assert_eq!(graph("embedded/apt", "apt.update_when_changed([])"), ["exec[apt-get update]"]);
}

#[test]
fn a_key_is_made_for_a_user() {
    let (file, exec) = ("file[/root/.ssh/]", "exec[ssh-keygen for root, ed25519]");
    assert_eq!(
        graph("embedded/ssh", "ssh.keygen(\"root\", \"ed25519\")"),
        [exec.to_owned(), file.to_owned(), format!("{file} -> {exec}")]
    );
}

#[test]
fn a_known_host_is_a_line() {
    let include = "ssh.known_host([\"db1\", \"192.0.2.7\"], \"ssh-ed25519 AAAA\", struct{})";
    assert_eq!(graph("embedded/ssh", include), ["line[key of db1,192.0.2.7]"]);
    written(
        "embedded/ssh",
        "ssh.known_host([\"db1\", \"192.0.2.7\"], \"ssh-ed25519 AAAA\", struct{file => $root + \"/known\"})\n\
         file \"${root}/\" {\n\tstate => \"exists\",\n}",
        &[("known", "db1,192.0.2.7 ssh-ed25519 AAAA\n")],
    );
}

#[test]
fn interfaces_are_written_as_networkd_reads_them() {
    for include in [
        "networkd.dhcp(\"eth0\", struct{})",
        "networkd.static(\"eth0\", struct{addresses => [\"192.0.2.7/24\"]})",
    ] {
        let (file, exec) = ("file[/etc/systemd/network/50-eth0.network]", "exec[networkctl reload for eth0]");
        assert_eq!(
            graph("embedded/networkd", include),
            [exec.to_owned(), file.to_owned(), format!("{file} -> {exec} # notify")]
        );
    }
    assert_eq!(
        graph("embedded/networkd", "networkd.rename(\"52:54:00:AA:BB:CC\", \"lan0\")"),
        ["file[/etc/systemd/network/10-lan0.link]"]
    );
    written(
        "embedded/networkd",
        "networkd.dhcp(\"eth0\", struct{root => $root, version => \"ipv4\", required => false})",
        &[(
            "etc/systemd/network/50-eth0.network",
            "[Match]\nName=eth0\n\n[Link]\nRequiredForOnline=no\n\n[Network]\nDHCP=ipv4\n",
        )],
    );
    written(
        "embedded/networkd",
        "networkd.static(\"eth1\", struct{root => $root, addresses => [\"192.0.2.7/24\", \"2001:db8::7/64\"], \
         gateway => \"192.0.2.1\", dns => [\"192.0.2.53\"], domains => \"example.com\"})",
        &[(
            "etc/systemd/network/50-eth1.network",
            "[Match]\nName=eth1\n\n[Link]\nRequiredForOnline=yes\n\n[Network]\nDHCP=no\nAddress=192.0.2.7/24\n\
             Address=2001:db8::7/64\nGateway=192.0.2.1\nDNS=192.0.2.53\nDomains=example.com\n",
        )],
    );
}

#[test]
fn a_trio_is_a_package_its_files_and_a_service_that_hears_of_them() {
    let file = "file[/etc/nginx/nginx.conf]";
    assert_eq!(
        graph(
            "embedded/service",
            "service.trio(\"nginx\", struct{files => {\"/etc/nginx/nginx.conf\" => \"x\"}})"
        ),
        [
            file.to_owned(),
            format!("{file} -> svc[nginx] # notify"),
            "pkg[nginx]".to_owned(),
            format!("pkg[nginx] -> {file}"),
            "pkg[nginx] -> svc[nginx]".to_owned(),
            "svc[nginx]".to_owned(),
        ]
    );
    assert_eq!(
        graph("embedded/service", "service.trio(\"own\", struct{package => \"\", service => \"owned\"})"),
        ["svc[owned]"]
    );
    written(
        "embedded/service",
        "service.trio(\"nginx\", struct{root => $root, files => {\"/etc/a.conf\" => \"a\\n\", \"/etc/b/b.conf\" => \"b\\n\"}})",
        &[("etc/a.conf", "a\n"), ("etc/b/b.conf", "b\n")],
    );
}

#[test]
fn they_are_listed_and_described() {
    let all = mgmt_output(&["functions"]);
    assert!(all.stdout.contains("\nembedded/systemd\n"), "{}", all.stdout);
    let one = mgmt_output(&["functions", "systemd.unit"]);
    assert!(one.stdout.contains("class unit($name, $st)"), "{}", one.stdout);
    let both = mgmt_output(&["functions", "example"]);
    assert!(both.stdout.contains("example.answer") && both.stdout.contains("example.nativeanswer"));
    let json = mgmt_output(&["functions", "--format", "json", "embedded/apt"]);
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json["modules"][0]["definitions"][0]["signature"], "class repository($name, $st)");
    let wrong = mgmt_output(&["functions", "systemd.unti"]);
    assert!(wrong.code != 0 && wrong.stderr.contains("did you mean `systemd.unit`?"), "{}", wrong.stderr);
}

#[test]
fn there_is_nothing_to_download() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("main.mcl"), "import \"embedded/apt\"\n\ninclude apt.pin(\"x\", struct{})\n")
        .unwrap();
    let said: program::CommandOutput = mgmt(&["get", home.path().to_str().unwrap()]).output().unwrap().into();
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(!home.path().join("modules").exists());
}

#[test]
fn the_repl_knows_them() {
    let input = "import \"embedded/apt\"\ninclude apt.pin(\"x\", struct{})\n:graph\n:doc apt.pin\n";
    let said = mgmt_output_with_input(&["repl"], input);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(said.stdout.contains("file[/etc/apt/preferences.d/x.pref]"), "{}", said.stdout);
    assert!(said.stdout.contains("class pin($name, $st)"), "{}", said.stdout);
}

#[test]
fn a_running_program_can_begin_to_use_one() {
    let home = tempfile::tempdir().unwrap();
    let main = home.path().join("main.mcl");
    fs::write(&main, "noop \"x\" {}\n").unwrap();
    let mut command = mgmt(&["run", "--tmp-prefix", "lang", main.to_str().unwrap()]);
    command.env("TMPDIR", home.path());
    let mut running = RunningProgram::start_command(command);
    running.wait_for("main.mcl");
    let program = format!(
        "import \"embedded/apt\"\n\ninclude apt.pin(\"x\", struct{{root => \"{}\"}})\n",
        home.path().display()
    );
    fs::write(home.path().join("new"), program).unwrap();
    fs::rename(home.path().join("new"), &main).unwrap();
    eventually("the file", || home.path().join("etc/apt/preferences.d/x.pref").exists());
    drop(running);
}
