//! What a host has that somebody else may have prepared: directories, limits, names, processes, and what the program is made of.

use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::{Command, Stdio};

use mgmt_test_support::program::{RunningProgram, holds, mgmt_output, one_file};

const ONCE: [&str; 2] = ["--converger-timeout=0", "--converged-exit"];

#[test]
fn threat_14_planted_state() {
    let home = tempfile::tempdir().unwrap();
    let planted = |name: &str, owner: u32, mode: u32| {
        let prefix = home.path().join(name);
        std::fs::create_dir(&prefix).unwrap();
        std::fs::set_permissions(&prefix, std::fs::Permissions::from_mode(mode)).unwrap();
        chown(&prefix, Some(owner), Some(owner)).unwrap();
        prefix
    };
    for prefix in [planted("theirs", 12345, 0o700), planted("open", 0, 0o777)] {
        let arguments = [&["run", "--prefix", prefix.to_str().unwrap()][..], &ONCE, &["empty"]].concat();
        let refused = mgmt_output(&arguments);
        assert_eq!(refused.code, 1, "{}", refused.stderr);
        assert!(refused.stderr.contains(prefix.to_str().unwrap()), "{}", refused.stderr);
        assert_eq!(std::fs::read_dir(&prefix).unwrap().count(), 0, "nothing is put there");
    }
}

#[test]
fn threat_14_planted_module() {
    let home = tempfile::tempdir().unwrap();
    let (site, out) = (home.path().join("site"), home.path().join("out"));
    let modules = site.join("modules");
    let module = modules.join("example.com/module");
    std::fs::create_dir_all(&module).unwrap();
    let program = format!(
        "import \"git://example.com/module\" as module\nfile \"{}\" {{\n\tstate => \"exists\",\n\tcontent => $module.text,\n}}\n",
        out.display()
    );
    std::fs::write(site.join("main.mcl"), program).unwrap();
    std::fs::write(module.join("metadata.yaml"), "").unwrap();
    std::fs::write(module.join("main.mcl"), "$text = \"planted\"\n").unwrap();
    let run = || {
        mgmt_output(&[
            "run",
            "--tmp-prefix",
            "--converged-timeout",
            "0",
            "lang",
            site.join("main.mcl").to_str().unwrap(),
        ])
    };
    let fine = run();
    assert_eq!((fine.code, out.exists()), (0, true), "{}", fine.stderr);
    std::fs::remove_file(&out).unwrap();
    let mode =
        |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    let own = |path: &Path, owner| chown(path, Some(owner), Some(owner)).unwrap();
    let file = module.join("main.mcl");
    // Each is somebody else's to write, in one of its ways, and as it was again after that.
    let planted: [(&str, &Path, u32, u32, &str); 5] = [
        ("the file", &file, 0, 0o666, "chmod o-w"),
        ("the directory of the module", &module, 0, 0o777, "chmod o-w"),
        ("the directory of modules", &modules, 0, 0o777, "chmod o-w"),
        ("somebody's file", &file, 12345, 0o644, "chown root"),
        ("somebody's directory", &modules, 12345, 0o755, "chown root"),
    ];
    for (told, path, owner, bits, hint) in planted {
        let before = path.metadata().unwrap().permissions();
        own(path, owner);
        mode(path, bits);
        let refused = run();
        assert_ne!(refused.code, 0, "{told}: {}", refused.stderr);
        assert!(
            refused.stderr.contains("is not used") && refused.stderr.contains(hint),
            "{told}: {}",
            refused.stderr
        );
        assert!(!out.exists(), "{told}: it was used");
        own(path, 0);
        std::fs::set_permissions(path, before).unwrap();
    }
    // A link does not make it better.
    let elsewhere = home.path().join("elsewhere");
    std::fs::rename(&module, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &module).unwrap();
    own(&elsewhere, 12345);
    assert!(run().code != 0 && !out.exists(), "a link to it was followed");
    own(&elsewhere, 0);
    // Whoever owns the program decides what is done in any case.
    own(&site, 12345);
    own(&modules, 12345);
    let fine = run();
    assert_eq!((fine.code, out.exists()), (0, true), "{}", fine.stderr);
}

#[test]
fn threat_20_watch_limits_exhausted() {
    let home = tempfile::tempdir().unwrap();
    let (file, graph) = (home.path().join("file"), home.path().join("graph.yaml"));
    std::fs::write(&graph, one_file(&file, "right")).unwrap();
    // The limit is that of a user namespace, and goes with it.
    let script = format!(
        "echo 1 > /proc/sys/user/max_inotify_watches && exec {} run --tmp-prefix yaml {}",
        env!("CARGO_BIN_EXE_mgmt"),
        graph.display()
    );
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "sh", "-c", &script]).stdin(Stdio::null());
    let mut running = RunningProgram::start_command(command);
    running.wait_for("max_user_watches");
    holds(&file, "right");
    std::fs::write(&file, "wrong").unwrap();
    holds(&file, "right");
}

#[test]
fn threat_27_commands_in_a_storm_are_told_apart() {
    let home = tempfile::tempdir().unwrap();
    let graph = home.path().join("graph.yaml");
    // Each ends in its own way, at once, so that numbers of processes are used again while others still run.
    let mut text = "graph: storm\nresources:\n  exec:\n".to_owned();
    for command in 0..200 {
        let fails = command % 10 == 7;
        text += &format!("  - name: c{command}\n    cmd: /bin/{}\n", if fails { "false" } else { "true" });
    }
    std::fs::write(&graph, text).unwrap();
    let run =
        mgmt_output(&[&["run", "--tmp-prefix"][..], &ONCE, &["yaml", graph.to_str().unwrap()]].concat());
    assert_eq!(run.code, 1, "{}", run.stderr);
    for command in 0..200 {
        let has_failed = run
            .stderr
            .lines()
            .any(|line| line.contains(" error ") && line.contains(&format!("exec[c{command}]")));
        assert_eq!(has_failed, command % 10 == 7, "c{command}: {}", run.stderr);
    }
}

#[test]
fn threat_31_log_forging_by_managed_names() {
    let home = tempfile::tempdir().unwrap();
    let graph = home.path().join("graph.yaml");
    let text = "graph: g\nresources:\n  print:\n  - name: \"a\\n00:00:00 error fake: \\e[31m\"\n    msg: \"b\\r\\nc\\e]0;title\\a\"\n";
    std::fs::write(&graph, text).unwrap();
    let run =
        mgmt_output(&[&["run", "--tmp-prefix"][..], &ONCE, &["yaml", graph.to_str().unwrap()]].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stderr.contains("fake"), "{}", run.stderr);
    assert!(!run.stderr.lines().any(|line| line.starts_with("00:00:00 error fake")), "{}", run.stderr);
    assert_eq!(
        run.stderr.chars().find(|found| found.is_control() && *found != '\n'),
        None,
        "{:?}",
        run.stderr
    );
}

#[test]
fn threat_32_supply_chain() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let lock = std::fs::read_to_string(workspace.join("Cargo.lock")).unwrap();
    let packages: Vec<&str> = lock.split("[[package]]").skip(1).collect();
    assert!(packages.len() > 100, "{}", packages.len());
    for package in packages {
        // What is not ours comes from the one registry, and is what its sum says.
        let is_ours = package.contains("name = \"mgmt") || package.contains("name = \"xtask\"");
        let is_summed = package
            .contains("source = \"registry+https://github.com/rust-lang/crates.io-index\"")
            && package.contains("checksum = \"");
        assert!(is_ours != is_summed, "{package}");
    }
}
