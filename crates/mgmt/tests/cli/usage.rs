//! The command line: what is printed where, and how the program ends.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::process::{Command, Stdio};

use expect_test::expect_file;
use mgmt_test_support::program::{CommandOutput, mgmt, mgmt_output, mgmt_output_with_input};

#[test]
fn without_a_command_the_help_is_printed() {
    for arguments in [&[][..], &["help"], &["--help"]] {
        let CommandOutput { code, stdout, stderr } = mgmt_output(arguments);
        assert_eq!(code, 0);
        assert!(stdout.contains("Usage: mgmt") && stdout.contains("completions"), "{stdout}");
        assert_eq!(stderr, "");
    }
}

/// A build for others asks git; the script that does so is compiled and run as cargo would.
#[test]
fn a_build_in_a_checkout_knows_its_commit() {
    let place = tempfile::tempdir().unwrap();
    let script = place.path().join("script");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/build.rs");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let compiled = Command::new(rustc).args(["--edition=2024", source, "-o"]).arg(&script).output().unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let checkout = place.path().join("checkout");
    std::fs::create_dir(&checkout).unwrap();
    let git = |words: &[&str]| {
        let mut command = Command::new("git");
        command
            .args(["-c", "user.name=x", "-c", "user.email=x@example.com"])
            .args(words)
            .current_dir(&checkout);
        let output = command.env("GIT_COMMITTER_DATE", "1763251200 +0000").output().unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let told = |directory: &std::path::Path, variables: &[(&str, &str)]| {
        let mut command = Command::new(&script);
        command
            .env_remove("MGMT_COMMIT")
            .env_remove("SOURCE_DATE_EPOCH")
            .env("GIT_CEILING_DIRECTORIES", place.path());
        let output = command.current_dir(directory).envs(variables.iter().copied()).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let value = |name: &str| {
            let found =
                text.lines().find_map(|line| line.strip_prefix("cargo::rustc-env=")?.strip_prefix(name));
            found.unwrap_or_else(|| panic!("{name}: {text}")).to_owned()
        };
        (value("MGMT_BUILD_COMMIT="), value("MGMT_BUILD_EPOCH="))
    };
    git(&["init", "--quiet"]);
    git(&["commit", "--quiet", "--allow-empty", "--message=x"]);
    let commit = git(&["rev-parse", "HEAD"]);
    assert_eq!(told(&checkout, &[("PROFILE", "release")]), (commit, "1763251200".to_owned()));
    // Who builds without git says it; a build for development does not ask.
    let given = [("PROFILE", "release"), ("MGMT_COMMIT", "0123abc"), ("SOURCE_DATE_EPOCH", "7")];
    assert_eq!(told(place.path(), &given), ("0123abc".to_owned(), "7".to_owned()));
    assert_eq!(told(place.path(), &[("PROFILE", "release")]), (String::new(), "0".to_owned()));
    assert_eq!(told(&checkout, &[("PROFILE", "debug")]), (String::new(), "0".to_owned()));
}

#[test]
fn the_help_of_the_program_is_as_it_was() {
    let said = mgmt_output(&["--help"]);
    assert_eq!((said.code, said.stderr.as_str()), (0, ""));
    expect_file!["usage/help.txt"].assert_eq(&said.stdout);
}

#[test]
fn every_command_has_help_of_its_own() {
    for command in [
        "run",
        "check",
        "fmt",
        "get",
        "graph",
        "repl",
        "status",
        "forget",
        "explain",
        "kinds",
        "functions",
        "docs",
        "completions",
        "man",
        "setup",
        "firstboot",
        "help",
    ] {
        let by_flag = mgmt_output(&[command, "--help"]);
        let by_help = mgmt_output(&["help", command]);
        assert_eq!((by_flag.code, by_help.code), (0, 0), "{command}");
        assert!(by_flag.stdout.contains(&format!("Usage: mgmt {command}")), "{}", by_flag.stdout);
        assert_eq!(by_flag.stdout, by_help.stdout, "{command}");
    }
    assert_eq!(mgmt_output(&["run", "yaml", "--help"]).code, 0);
}

#[test]
fn version_and_license_are_data() {
    let short = concat!("mgmt ", env!("CARGO_PKG_VERSION"), "\n");
    let version = mgmt_output(&["-V"]);
    assert_eq!((version.code, version.stdout.as_str()), (0, short));
    let version = mgmt_output(&["--version"]);
    assert_eq!(version.code, 0);
    let lines: Vec<&str> = version.stdout.lines().collect();
    assert_eq!(lines[0], short.trim_end());
    for (line, name) in lines[1..].iter().zip(["commit ", "date ", "target "]) {
        assert!(line.strip_prefix(name).is_some_and(|value| !value.is_empty()), "{}", version.stdout);
    }
    assert_eq!(lines.len(), 4, "{}", version.stdout);
    let license = mgmt_output(&["--license"]);
    assert_eq!(license.code, 0);
    assert!(license.stdout.contains("MIT") && license.stdout.contains("Apache"));
}

#[test]
fn packages_are_named_for_features_and_none_for_the_program_itself() {
    let list = mgmt_output(&["setup", "pkg", "--distro", "debian"]);
    assert_eq!(list.code, 0, "{list:?}");
    assert!(list.stderr.contains("needs no other package"), "{list:?}");
    assert!(list.stdout.contains("puppet-agent") && list.stdout.contains("etcd-server"), "{list:?}");
    let line = mgmt_output(&[
        "setup",
        "pkg",
        "--distro",
        "fedora",
        "--sudo",
        "--feature",
        "cluster",
        "--feature",
        "modules",
    ]);
    assert_eq!(line.stdout, "sudo dnf install --assumeyes etcd git\n");
    let nothing = mgmt_output(&["setup", "pkg", "--distro", "arch", "--exec"]);
    assert_eq!((nothing.code, nothing.stdout.as_str()), (0, ""));
}

#[test]
fn mistakes_end_with_two_and_say_what_was_expected() {
    for (arguments, expected) in [
        (&["frobnicate"][..], "frobnicate"),
        (&["run"], "needs a front-end"),
        (&["run", "yaml"], "needs a file"),
        (&["run", "empty", "file"], "takes no file"),
        (&["run", "graph.yaml"], "run yaml graph.yaml"),
        (&["run", "lang"], "there is no program"),
        (&["run", "lang", "/no/such/x.mcl"], "there is no file `/no/such/x.mcl`"),
        (&["run", "lang", "nonsense"], "there is no file or directory `nonsense`"),
        (&["run", "--lang", "/no/such/x.mcl", "empty"], "cannot stand together"),
        (&["run", "nonsense"], "expected `lang`, `yaml`, `puppet`, `langpuppet` or `empty`"),
        (&["run", "--prefix", "/a", "--tmp-prefix", "empty"], "--tmp-prefix"),
        (&["run", "empty", "--prefix", "/a", "--tmp-prefix"], "--tmp-prefix"),
        (&["run", "--converged-exit", "empty"], "--converger-timeout"),
        (&["run", "--converger-timeout", "soon", "empty"], "`soon`"),
        (&["run", "--converger-timeout", "-2", "empty"], "`-2`"),
        (&["run", "--max-runtime", "-1", "empty"], "`-1`"),
        (&["run", "--converger-timeout", "1", "--converged-timeout", "1", "empty"], "--converged-timeout"),
        (&["run", "--converged-exit", "-t", "1", "--converged-timeout-no-exit", "empty"], "--converged-exit"),
        (&["run", "--sema", "-3", "empty"], "--sema"),
        (&["run", "--hostname", "a/b", "empty"], "a/b"),
        (&["run", "--graphviz", "g", "--graphviz-filter", "rm", "empty"], "neato"),
        (&["run", "--graphviz-filter", "dot", "empty"], "--graphviz FILE"),
        (&["run", "--wait", "yaml", "x"], "--wait"),
        (&["run", "--no-such-flag", "empty"], "--no-such-flag"),
        (&["--log", "verbos", "kinds"], "verbos"),
        (&["--color", "sometimes", "kinds"], "sometimes"),
        (&["check", "yaml"], "nothing to check"),
        (&["explain", "Y9999"], "Y9999"),
        (&["kinds", "flie"], "did you mean `file`?"),
        (&["functions", "fmt.prinft"], "did you mean `fmt.printf`?"),
        (&["functions", "frobnicate"], "lists all of them"),
        (&["help", "frobnicate"], "frobnicate"),
        (&["man", "frobnicate"], "frobnicate"),
        (&["setup", "svc"], "--install"),
        (&["setup", "svc", "--install", "--binary-path", "mgmt"], "begins with a slash"),
        (&["setup", "svc", "--install", "--binary-path", "/no/such/mgmt"], "no program /no/such/mgmt"),
        (&["setup", "svc", "--install", "--seeds", "gopher://x"], "--seeds"),
        (&["setup", "svc", "--install", "--ssh-url", "root:secret@host"], "password"),
        (&["setup", "pkg"], "--distro"),
        (&["setup", "pkg", "--distro", "plan9"], "debian"),
        (&["setup", "firstboot", "--mkdir", "--scripts-dir", "/no/slash"], "ends with a slash"),
        (&["firstboot", "start", "--done-dir", "/no/slash"], "ends with a slash"),
        (&["deploy", "yaml"], "there is no file"),
        (&["deploy", "frobnicate"], "nothing that can be deployed"),
        (&["run", "yaml", "/no/such/file"], "/no/such/file"),
    ] {
        let CommandOutput { code, stderr, .. } = mgmt_output(arguments);
        assert_eq!(code, 2, "{arguments:?}: {stderr}");
        assert!(stderr.contains(expected), "{arguments:?}: {stderr}");
    }
}

#[test]
fn a_mistake_is_json_where_json_was_asked_for() {
    for arguments in
        [&["--message-format=json", "run"][..], &["run", "--message-format", "json", "--oops", "empty"]]
    {
        let CommandOutput { code, stderr, .. } = mgmt_output(arguments);
        assert_eq!(code, 2);
        let value: serde_json::Value = serde_json::from_str(&stderr).unwrap();
        assert_eq!(value["level"], "error", "{stderr}");
    }
}

/// A run that ends at once, to see what it says about its arguments.
fn ended(arguments: &[&str], input: &str) -> CommandOutput {
    let all: Vec<&str> =
        ["run", "--tmp-prefix", "--log", "error"].into_iter().chain(arguments.iter().copied()).collect();
    mgmt_output_with_input(&all, input)
}

const EMPTY: &str = "graph: nothing\n";

#[test]
fn old_flags_warn_and_work() {
    for (arguments, warning) in [
        (&["--converged-timeout", "0", "yaml", "-"][..], "--converger-timeout 0 --converged-exit"),
        (&["-t", "0", "yaml", "-"], "--converger-timeout 0 --converged-exit"),
        (&["yaml", "-t=0", "-"], "--converger-timeout 0 --converged-exit"),
        (&["-t", "0", "--file", "-"], "`run yaml FILE`"),
        (&["-t", "0", "--yaml", "-"], "`run yaml FILE`"),
        (&["-t", "0", "--lang", "noop \"x\" {}"], "`run lang FILE`"),
        (&["-t", "0", "--no-magic", "empty"], "`--no-magic` has no effect"),
        (&["-t", "0", "--no-config-watch", "yaml", "-"], "`--no-watch`"),
        (&["-t", "0", "--stdin", "yaml"], "`-`"),
        (&["-t", "0", "--exittime", "600", "yaml", "-"], "`--max-runtime`"),
        (&["lang", "--only-download", "noop \"x\" {}"], "`mgmt get PATH`"),
        (&["lang", "--only-unify", "noop \"x\" {}"], "`mgmt check PATH`"),
        (&["-t", "0", "lang", "--update", "noop \"x\" {}"], "`mgmt get --update PATH`"),
        (&["-t", "0", "lang", "--skip-unify", "noop \"x\" {}"], "`--skip-unify` has no effect"),
        (&["-t", "0", "lang", "--unify-name", "x", "noop \"x\" {}"], "`--unify-name` has no effect"),
        (
            &["-t", "0", "lang", "--unify-optimizations", "x", "--unify-optimizations", "y", "noop \"x\" {}"],
            "`--unify-optimizations` has no effect",
        ),
        (&["-t", "0", "lang", "--depth", "-1", "noop \"x\" {}"], "`--depth` has no effect"),
        (&["-t", "0", "lang", "--retry", "3", "noop \"x\" {}"], "`--retry` has no effect"),
        (&["-t", "0", "--pprof", "localhost:6060", "lang", "noop \"x\" {}"], "--pprof has no effect"),
        (&["-t", "0", "--pprof", "lang", "noop \"x\" {}"], "--pprof has no effect"),
        (
            &["-t", "0", "lang", "noop \"x\" {}", "--unify-optimizations", "a", "b"],
            "`--unify-optimizations` has no effect",
        ),
        (&["lang", "--lp-only-download", "noop \"x\" {}"], "`mgmt get PATH`"),
        (&["-t", "0", "lang", "--lp-update", "noop \"x\" {}"], "`mgmt get --update PATH`"),
        (&["-t", "0", "lang", "--lp-skip-unify", "noop \"x\" {}"], "`--skip-unify` has no effect"),
        (&["-t", "0", "lang", "--lp-depth", "3", "noop \"x\" {}"], "`--depth` has no effect"),
    ] {
        let CommandOutput { code, stderr, .. } = ended(arguments, EMPTY);
        assert_eq!(code, 0, "{arguments:?}: {stderr}");
        assert!(stderr.contains("warning: ") && stderr.contains(warning), "{arguments:?}: {stderr}");
    }
    // The same for the other commands that take programs.
    let program = "noop \"x\" {}";
    for (arguments, warning) in [
        (&["check", "lang", "--skip-unify", program][..], "`--skip-unify` has no effect"),
        (&["check", "lang", "--skip-fmt", program], "`--skip-fmt` has no effect"),
        (&["check", "lang", "--unify-name", "x", program], "`--unify-name` has no effect"),
        (
            &["check", "lang", program, "--unify-optimizations", "a", "b"],
            "`--unify-optimizations` has no effect",
        ),
        (&["check", "lang", "--depth", "-1", program], "`--depth` has no effect"),
        (&["check", "lang", "--retry", "3", program], "`--retry` has no effect"),
        (&["check", "lang", "--update", program], "`mgmt get --update PATH`"),
        (&["check", "lang", "--lp-only-download", program], "`mgmt get PATH`"),
        (&["deploy", "lang", "--only-download", program], "`mgmt get PATH`"),
        (&["deploy", "lang", "--only-unify", program], "`mgmt check PATH`"),
        (&["deploy", "lang", "--only-unify", "--skip-unify", program], "`--skip-unify` has no effect"),
        (&["get", "--depth", "-1", program], "`--depth` has no effect"),
        (&["get", "--retry", "3", program], "`--retry` has no effect"),
        (&["get", "--noop", "--sema", "1", program], "`--sema` has no effect"),
    ] {
        let CommandOutput { code, stderr, .. } = mgmt_output(arguments);
        assert_eq!(code, 0, "{arguments:?}: {stderr}");
        assert!(stderr.contains("warning: ") && stderr.contains(warning), "{arguments:?}: {stderr}");
    }
    let wrong =
        mgmt_output(&["run", "--tmp-prefix", "lang", "--only-unify", "test \"x\" { int64 => \"a\", }"]);
    assert_eq!(wrong.code, 2, "{}", wrong.stderr);
    assert!(wrong.stderr.contains("M0603"), "{}", wrong.stderr);
    let short = mgmt_output_with_input(&["r", "--tmp-prefix", "-t", "0", "yaml", "-"], EMPTY);
    assert_eq!(short.code, 0);
    assert!(short.stderr.contains("`mgmt run` now"), "{}", short.stderr);
}

#[test]
fn the_old_variable_warns_and_works_and_yields_to_the_new() {
    let mut command = mgmt(&["run", "--tmp-prefix", "empty"]);
    let old: CommandOutput = command.env("MGMT_CONVERGED_TIMEOUT", "0").output().unwrap().into();
    assert_eq!(old.code, 0, "{}", old.stderr);
    assert!(old.stderr.contains("MGMT_CONVERGED_TIMEOUT"), "{}", old.stderr);
    let mut command = mgmt(&["run", "--tmp-prefix", "--converged-exit", "empty"]);
    let both: CommandOutput = command
        .env("MGMT_CONVERGED_TIMEOUT", "1000")
        .env("MGMT_CONVERGER_TIMEOUT", "0")
        .output()
        .unwrap()
        .into();
    assert_eq!(both.code, 0, "{}", both.stderr);
    assert!(!both.stderr.contains("warning"), "{}", both.stderr);
}

#[test]
fn what_is_gone_says_what_came_instead() {
    let CommandOutput { code, stderr, .. } = ended(&["--lp-lang", "x.mcl"], EMPTY);
    assert_eq!(code, 2);
    assert!(stderr.contains("`--puppet` is missing") && stderr.contains("hint: "), "{stderr}");
}

#[test]
fn flags_without_effect_are_named_in_one_warning() {
    let CommandOutput { code, stderr, .. } = ended(
        &["--converger-timeout", "0", "--converged-exit", "empty", "--no-pgp", "--pprof", "--no-network"],
        "",
    );
    assert_eq!(code, 0, "{stderr}");
    let warnings: Vec<_> = stderr.lines().filter(|line| line.starts_with("warning: ")).collect();
    assert_eq!(warnings.len(), 1, "{stderr}");
    for flag in ["--no-pgp", "--pprof", "--no-network"] {
        assert!(warnings[0].contains(flag), "{stderr}");
    }
}

#[test]
fn variables_without_effect_are_named_and_empty_ones_are_unset() {
    let mut command = mgmt(&["run", "--tmp-prefix", "empty", "--converged-exit"]);
    let CommandOutput { code, stderr, .. } = command
        .envs([
            ("MGMT_NO_NETWORK", "x"),
            ("MGMT_PPROF", ""),
            ("MGMT_CONVERGER_TIMEOUT", "0"),
            ("MGMT_MAX_RUNTIME", ""),
        ])
        .output()
        .unwrap()
        .into();
    assert_eq!(code, 0, "{stderr}");
    assert!(stderr.contains("MGMT_NO_NETWORK has no effect") && !stderr.contains("MGMT_PPROF"), "{stderr}");
}

#[test]
fn check_tells_right_wrong_and_unreadable_apart() {
    let scratch = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = scratch.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let good = file("good.yaml", EMPTY);
    let bad = file("bad.yaml", "graph: x\nresources:\n  flie:\n  - name: /a\n");
    let sloppy = file("sloppy.yaml", "graph: x\nwhatever: 1\n");
    assert_eq!(mgmt_output(&["check", "yaml", &good]).code, 0);
    let wrong = mgmt_output(&["check", "yaml", &good, &bad]);
    assert_eq!(wrong.code, 1);
    assert!(
        wrong.stderr.contains("bad.yaml:3:3") && wrong.stderr.contains("did you mean `file`?"),
        "{}",
        wrong.stderr
    );
    assert_eq!(wrong.stdout, "");
    assert_eq!(mgmt_output(&["check", "yaml", &bad, "/no/such/file"]).code, 2);
    assert_eq!(mgmt_output(&["check", "yaml", &sloppy]).code, 0);
    assert_eq!(mgmt_output(&["check", "yaml", "--strict", &sloppy]).code, 1);
    assert_eq!(mgmt_output_with_input(&["check", "yaml", "-"], EMPTY).code, 0);
    assert_eq!(mgmt_output(&["check", "empty"]).code, 0);
}

#[test]
fn check_for_programs_gives_one_object_per_line() {
    let text = "graph: x\nresources:\n  flie:\n  - name: /a\n  - name: /b\nedges:\n- from: 1\n";
    let CommandOutput { code, stderr, .. } =
        mgmt_output_with_input(&["--message-format", "json", "check", "yaml", "-"], text);
    assert_eq!(code, 1);
    let values: Vec<serde_json::Value> =
        stderr.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (summary, diagnostics) = values.split_last().unwrap();
    assert_eq!(
        (&summary["type"], summary["errors"].as_u64()),
        (&"summary".into(), Some(diagnostics.len() as u64))
    );
    assert!(diagnostics.len() >= 2, "{stderr}");
    for value in diagnostics {
        assert!(
            value["code"].as_str().unwrap().starts_with('Y') && value["spans"][0]["line_start"].is_u64(),
            "{value}"
        );
    }
}

#[test]
fn the_graph_is_printed_with_its_automatic_edges() {
    let text = "graph: demo\nresources:\n  file:\n  - name: /tmp/mgmt-a/b\n    state: exists\n  - name: /tmp/mgmt-a/\n    state: exists\n";
    let plain = mgmt_output_with_input(&["graph", "yaml", "-"], text);
    assert_eq!(plain.code, 0, "{}", plain.stderr);
    assert!(plain.stdout.contains("file[/tmp/mgmt-a/] -> file[/tmp/mgmt-a/b]"), "{}", plain.stdout);
    let without = mgmt_output_with_input(&["graph", "yaml", "-", "--no-autoedges"], text);
    assert!(!without.stdout.contains("->"), "{}", without.stdout);
    let dot = mgmt_output_with_input(&["graph", "--format", "dot", "yaml", "-"], text);
    assert!(dot.stdout.starts_with("digraph \"demo\""), "{}", dot.stdout);
    let json = mgmt_output_with_input(&["graph", "--format", "json", "yaml", "-"], text);
    let value: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(value["format_version"], 1);
    assert_eq!(value["vertices"].as_array().unwrap().len(), 2);
    assert_eq!(value["edges"][0]["to"], "file[/tmp/mgmt-a/b]");
    assert_eq!(mgmt_output_with_input(&["graph", "yaml", "-"], "graph: [").code, 2);
}

#[test]
fn codes_are_explained_in_any_case() {
    let all = mgmt_output(&["explain"]);
    let first = all.stdout.lines().next().unwrap().split(' ').next().unwrap();
    let one = mgmt_output(&["explain", &first.to_lowercase()]);
    assert_eq!(one.code, 0);
    assert!(one.stdout.starts_with(first), "{}", one.stdout);
    // Of every front-end.
    for (code, word) in [("M0001", "UTF-8"), ("m0301", "variable"), ("M0802", "not used"), ("y0001", "large")]
    {
        let found = mgmt_output(&["explain", code]);
        assert_eq!(found.code, 0, "{code}: {}", found.stderr);
        assert!(found.stdout.contains(word), "{}", found.stdout);
        let listed = all.stdout.lines().filter(|line| line.starts_with(&code.to_uppercase())).count();
        assert_eq!(listed, 1, "{code}");
    }
    assert!(
        mgmt_output(&["explain", "M0003"]).stdout.contains("\n    $rest = $a % 3\n"),
        "examples keep their form"
    );
    let mut codes: Vec<_> = all.stdout.lines().map(|line| line.split(' ').next().unwrap()).collect();
    let count = codes.len();
    codes.sort_unstable();
    codes.dedup();
    assert_eq!(codes.len(), count, "no code is used twice");
}

#[test]
fn kinds_are_described_for_people_and_programs() {
    assert!(mgmt_output(&["kinds"]).stdout.lines().any(|line| line.starts_with("file ")));
    let text = mgmt_output(&["kinds", "file"]).stdout;
    assert!(text.contains("content: str"), "{text}");
    let json: serde_json::Value =
        serde_json::from_str(&mgmt_output(&["kinds", "file", "--format", "json"]).stdout).unwrap();
    assert_eq!(json["kinds"][0]["kind"], "file");
    assert!(json["metaparameters"].as_array().unwrap().iter().any(|field| field["name"] == "retry"));
    assert!(mgmt_output(&["kinds", "file", "--format", "markdown"]).stdout.contains("### `content`"));
}

#[test]
fn functions_are_described_for_people_and_programs() {
    let all = mgmt_output(&["functions"]).stdout;
    assert!(all.lines().any(|line| line.starts_with("  fmt.printf ")), "{all}");
    let module = mgmt_output(&["functions", "golang/strings"]).stdout;
    assert!(module.contains("  strings.to_upper ") && !module.contains("printf"), "{module}");
    let one = mgmt_output(&["functions", "golang/strings.to_upper"]).stdout;
    assert!(one.contains("  func(") && one.contains("  import \"golang/strings\""), "{one}");
    assert!(mgmt_output(&["functions", "os.file_exists"]).stdout.contains("It follows the host"));
    assert!(mgmt_output(&["functions", "-"]).stdout.contains("Subtracts"));
    assert!(mgmt_output(&["functions", "printf"]).stdout.starts_with("fmt.printf\n"));
    for (wrong, hint) in [("fmt.print", "`fmt.printf`?"), ("strings.print", "`datetime.print`?")] {
        let CommandOutput { code, stderr, .. } = mgmt_output(&["functions", wrong]);
        assert_eq!(code, 2, "{stderr}");
        assert!(stderr.contains(&format!("did you mean {hint}")), "{wrong}: {stderr}");
    }
    let several = mgmt_output(&["functions", "to_upper"]);
    assert_eq!(several.code, 2, "{}", several.stdout);
    assert!(several.stderr.contains("`golang/strings.to_upper`"), "{}", several.stderr);
    let json: serde_json::Value =
        serde_json::from_str(&mgmt_output(&["functions", "os.readfile", "--format", "json"]).stdout).unwrap();
    assert_eq!(
        (&json["functions"][0]["name"], &json["functions"][0]["effect"]),
        (&"os.readfile".into(), &"live".into())
    );
    assert!(mgmt_output(&["functions", "os", "--format", "markdown"]).stdout.contains("\n## `os.system`\n"));
}

#[test]
fn the_reference_is_written_as_pages() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = scratch.path().join("reference");
    let output = directory.to_str().unwrap();
    assert_eq!(mgmt_output(&["docs", "reference", "--output", output]).code, 2);
    let CommandOutput { code, stderr, .. } =
        mgmt_output(&["docs", "reference", "--format", "markdown", "--output", output]);
    assert_eq!(code, 0, "{stderr}");
    for page in [
        "README.md",
        "command-line.md",
        "exit-codes.md",
        "environment.md",
        "metaparameters.md",
        "diagnostics.md",
        "kinds/file.md",
        "functions/builtin.md",
        "functions/golang-strings.md",
    ] {
        let text = std::fs::read_to_string(directory.join(page)).unwrap();
        assert!(text.contains("# "), "{page}");
    }
    let json: serde_json::Value =
        serde_json::from_str(&mgmt_output(&["docs", "reference", "--format", "json"]).stdout).unwrap();
    assert!(json["kinds"].as_array().unwrap().len() > 3);
}

/// Asks a `zsh` on a terminal of its own to complete, as somebody does who presses the tabulator.
const ZSH: &str = r#"
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell "fpath=($1 \$fpath); autoload -U compinit; compinit -u -D; show() { print -r -- \"<\$BUFFER>\"; BUFFER= }; zle -N show; bindkey '^X' show; print read''y"
zpty -r -m shell out '*ready*'
zpty -w -n shell "$2"$'\t\x18'
zpty -r -m shell out '*<*>*'
print -r -- "$out"
"#;

#[test]
fn shells_take_the_scripts_and_complete_with_them() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
    for (shell, file) in [("bash", "mgmt.bash"), ("zsh", "_mgmt"), ("fish", "mgmt.fish")] {
        std::fs::write(at(file), mgmt_output(&["completions", shell]).stdout).unwrap();
        let checked = shell_says(shell, &["-n", &at(file)]);
        assert_eq!((checked.code, checked.stderr.as_str()), (0, ""), "{shell}");
    }
    for (typed, word, completed) in [
        ("mgmt", "histo", "history"),
        ("mgmt run", "--converger-t", "--converger-timeout"),
        ("mgmt setup", "fi", "firstboot"),
        ("mgmt plan", "--no-d", "--no-diff"),
    ] {
        let line = format!("{typed} {word}");
        let fish = shell_says("fish", &["-c", &format!("source {}; complete -C '{line}'", at("mgmt.fish"))]);
        assert!(fish.stdout.starts_with(&format!("{completed}\t")), "{line}: {fish:?}");
        let zsh = shell_says("zsh", &["-f", "-c", ZSH, "zsh", place.path().to_str().unwrap(), &line]);
        assert!(zsh.stdout.contains(&format!("<{typed} {completed}")), "{line}: {zsh:?}");
        let words = line.split(' ').count() - 1;
        let script = format!(
            "source {}; COMP_WORDS=({line}); COMP_CWORD={words}; _mgmt mgmt {word} x; echo \"${{COMPREPLY[@]}}\"",
            at("mgmt.bash")
        );
        let bash = shell_says("bash", &["-c", &script]);
        assert!(bash.stdout.split_whitespace().any(|found| found == completed), "{line}: {bash:?}");
    }
}

fn shell_says(shell: &str, arguments: &[&str]) -> CommandOutput {
    let mut command = std::process::Command::new(shell);
    command.args(arguments).env("TERM", "xterm").stdin(std::process::Stdio::null());
    let output = command.output();
    output.unwrap_or_else(|_| panic!("{shell} is missing: run `cargo xtask setup`")).into()
}

#[test]
fn topics_and_scripts_are_printed() {
    assert!(mgmt_output(&["help", "exit-codes"]).stdout.contains("130"));
    assert!(mgmt_output(&["help", "environment"]).stdout.contains("MGMT_PREFIX"));
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let CommandOutput { code, stdout, .. } = mgmt_output(&["completions", shell]);
        assert_eq!(code, 0);
        for flag in ["converger-timeout", "deny-warnings", "no-lints", "module-path"] {
            assert!(stdout.contains(flag), "{shell}: {flag}");
        }
    }
    let page = mgmt_output(&["man"]).stdout;
    assert!(page.contains(".TH") && page.contains("EXIT STATUS") && page.contains("ENVIRONMENT"));
    assert!(mgmt_output(&["man", "run"]).stdout.contains("converger"));
    assert!(mgmt_output(&["man", "setup", "svc"]).stdout.contains("binary\\-path"));
    let check = mgmt_output(&["man", "check"]).stdout;
    assert!(check.contains("deny\\-warnings") && check.contains("lang"), "{check}");
    let help = mgmt_output(&["help", "check"]).stdout;
    assert!(help.contains("--no-lints") && help.contains("[lang|yaml|puppet|empty] PATH..."), "{help}");
}

#[test]
fn colour_is_for_terminals_unless_asked_for() {
    let wrong = ["check", "yaml", "/no/such/file"];
    assert!(!mgmt_output(&wrong).stderr.contains('\u{1b}'));
    let forced: CommandOutput = mgmt(&wrong).env("CLICOLOR_FORCE", "1").output().unwrap().into();
    assert!(forced.stderr.contains('\u{1b}'));
    let refused: CommandOutput =
        mgmt(&wrong).env("CLICOLOR_FORCE", "1").env("NO_COLOR", "1").output().unwrap().into();
    assert!(!refused.stderr.contains('\u{1b}'));
    let flag: CommandOutput =
        mgmt(&["--color=always"]).args(wrong).env("NO_COLOR", "1").output().unwrap().into();
    assert!(flag.stderr.contains('\u{1b}'));
    let never: CommandOutput =
        mgmt(&["--color=never"]).args(wrong).env("CLICOLOR_FORCE", "1").output().unwrap().into();
    assert!(!never.stderr.contains('\u{1b}'));
}

#[test]
fn a_reader_that_goes_away_is_no_mistake() {
    let mut child = mgmt(&["docs", "reference", "--format", "markdown"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let CommandOutput { code, stderr, .. } = child.wait_with_output().unwrap().into();
    assert_eq!((code, stderr.as_str()), (0, ""));
}

#[test]
fn a_full_disk_is_a_failure() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let CommandOutput { code, stderr, .. } = mgmt(&["kinds"]).stdout(full).output().unwrap().into();
    assert_eq!(code, 1);
    assert!(stderr.contains("standard output"), "{stderr}");
}
