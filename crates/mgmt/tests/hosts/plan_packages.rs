//! What a plan says of packages, with their versions, and what a run then does are the same, line by line.
//!
//! The packages are made for the test, and installed by `apt` on a view of this machine on which every change is thrown away.
#![allow(missing_docs, clippy::unwrap_used)]

use mgmt_test_support::sandbox;

use std::path::Path;

use crate::agreement::agrees;
use mgmt_test_support::package_source::{Package, PackageSource, package_state, run};
use mgmt_test_support::sandbox::Sandbox;

/// Where the program is inside.
const PROGRAM: &str = "/mgmt-test-mgmt";

/// A program, what somebody did before, the lines of its plan as people read them, and what `dpkg` says of `demo` afterwards.
struct Case {
    name: &'static str,
    before: &'static str,
    program: &'static str,
    lines: &'static [&'static str],
    after: &'static str,
}

const CASES: &[Case] = &[
    Case {
        name: "what is not there",
        before: "",
        program: r#"pkg "demo" { state => "installed", }"#,
        lines: &["predicted  create demo package: 2.0"],
        after: "installed 2.0",
    },
    Case {
        name: "what is right",
        before: "apt-get install -qq demo=1.0",
        program: r#"pkg "demo" { state => "installed", }"#,
        lines: &[],
        after: "installed 1.0",
    },
    Case {
        name: "a newer version",
        before: "apt-get install -qq demo=1.0",
        program: r#"pkg "demo" { state => "newest", }"#,
        lines: &["predicted  change demo package: 1.0 -> 2.0"],
        after: "installed 2.0",
    },
    Case {
        name: "a version of its own",
        before: "",
        program: r#"pkg "demo" { state => "1.5", }"#,
        lines: &["predicted  create demo package: 1.5"],
        after: "installed 1.5",
    },
    Case {
        name: "an older version",
        before: "apt-get install -qq demo=2.0",
        program: r#"pkg "demo" { state => "1.0", allowdowngrade => true, }"#,
        lines: &["predicted  change demo package: 2.0 -> 1.0"],
        after: "installed 1.0",
    },
    Case {
        name: "the newest that a pin allows",
        before: "apt-get install -qq demo=1.0; printf 'Package: demo\\nPin: version 1.5\\nPin-Priority: 900\\n' \
            >/etc/apt/preferences.d/demo",
        program: r#"pkg "demo" { state => "newest", }"#,
        lines: &["predicted  change demo package: 1.0 -> 1.5"],
        after: "installed 1.5",
    },
    Case {
        name: "a package that is put on hold",
        before: "apt-get install -qq demo=1.0",
        program: r#"pkg "demo" { state => "1.0", hold => true, }"#,
        lines: &["predicted  change demo hold: no -> yes"],
        after: "installed 1.0",
    },
    Case {
        name: "another version of what is on hold",
        before: "apt-get install -qq demo=1.0; apt-mark hold demo",
        program: r#"pkg "demo" { state => "1.5", hold => true, }"#,
        lines: &["predicted  change demo package: 1.0 -> 1.5"],
        after: "installed 1.5",
    },
    Case {
        name: "a version that stays",
        before: "",
        program: r#"pkg "demo" { state => "1.5", hold => true, }"#,
        lines: &["predicted  create demo package: 1.5", "predicted  change demo hold: yes"],
        after: "installed 1.5",
    },
    Case {
        name: "a package that is released",
        before: "apt-get install -qq demo=1.0; apt-mark hold demo",
        program: r#"pkg "demo" { state => "installed", hold => false, }"#,
        lines: &["predicted  change demo hold: yes -> no"],
        after: "installed 1.0",
    },
    Case {
        name: "several at once",
        before: "",
        program: r#"pkg ["demo", "other",] { state => "installed", }"#,
        lines: &["predicted  create demo package: 2.0", "predicted  create other package: 1:0.1-2"],
        after: "installed 2.0",
    },
    Case {
        name: "no package",
        before: "apt-get install -qq demo=1.5",
        program: r#"pkg "demo" { state => "uninstalled", }"#,
        lines: &["predicted  remove demo package: was 1.5"],
        after: "config-files 1.5",
    },
    Case {
        name: "nothing of a package",
        before: "apt-get install -qq demo=1.5",
        program: r#"pkg "demo" { state => "purged", }"#,
        lines: &["predicted  remove demo package and configuration: was 1.5"],
        after: "",
    },
    Case {
        name: "nothing of a package that is gone",
        before: "apt-get install -qq demo=1.5; apt-get remove -qq demo",
        program: r#"pkg "demo" { state => "purged", }"#,
        lines: &["predicted  remove demo package and configuration"],
        after: "",
    },
];

/// The lists of the host do not know a package that its source has, and a run fetches them.
fn packages_that_new_lists_have(source: &mut PackageSource) {
    source.publish(&Package::new("fresh", "3.1"));
    let lists = || {
        let mut names: Vec<_> = std::fs::read_dir("/var/lib/apt/lists").unwrap().flatten().collect();
        names.sort_by_key(|entry| entry.path());
        let stamp = |entry: &std::fs::DirEntry| (entry.path(), entry.metadata().unwrap().modified().unwrap());
        names.iter().map(stamp).collect::<Vec<_>>()
    };
    let before = lists();
    let program = r#"pkg "fresh" { state => "installed", }"#;
    let text = run(PROGRAM, &["plan", "lang", program]);
    assert!(text.contains("  predicted  create fresh package: 3.1\n"), "{text}");
    assert_eq!(before, lists(), "a plan leaves the lists of the host alone");
    assert_eq!(agrees(PROGRAM, "lang", program, "/mgmt-test-prefix-fresh"), Ok(1));
    // What no source has will fail.
    let none = std::process::Command::new(PROGRAM)
        .args(["plan", "lang", r#"pkg "none" { state => "installed", }"#])
        .output()
        .unwrap();
    assert_eq!(none.status.code(), Some(1), "{none:?}");
    assert!(
        String::from_utf8_lossy(&none.stdout).contains("  will fail  not found in the package lists: "),
        "{none:?}"
    );
    let left: Vec<_> = std::fs::read_dir("/tmp")
        .unwrap()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("mgmt-lists-"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

const CLEAN: &str = "apt-mark unhold demo; apt-get purge -qq demo other; rm -f /etc/apt/preferences.d/demo";

#[test]
fn packages_are_planned_with_their_versions_and_that_is_what_is_done() {
    let name = "packages_are_planned_with_their_versions_and_that_is_what_is_done";
    if !sandbox::is_inside() {
        let sources =
            "etc/apt/sources.list etc/apt/sources.list.d etc/apt/preferences.d/* var/lib/apt/lists/*";
        return Sandbox {
            prepare: &format!("rm -rf {sources}"),
            also: Some((PROGRAM, Path::new(env!("CARGO_BIN_EXE_mgmt")))),
            ..Sandbox::default()
        }
        .run(name);
    }
    let mut source = PackageSource::new();
    for version in ["1.0", "1.5", "2.0"] {
        let configured = ("/etc/demo.conf", "demo\n");
        source.publish(&Package {
            files: &[configured],
            conffiles: "/etc/demo.conf\n",
            ..Package::new("demo", version)
        });
    }
    source.publish(&Package::new("other", "1:0.1-2"));
    run("apt-get", &["--quiet", "update"]);
    packages_that_new_lists_have(&mut source);
    let shell = |text: &str| {
        run("sh", &["-ec", &format!("exec 2>&1; export DEBIAN_FRONTEND=noninteractive; {text}")])
    };
    for (number, case) in CASES.iter().enumerate() {
        shell(CLEAN);
        shell(&case.before.replace("apt-get ", "apt-get --yes "));
        let text = run(PROGRAM, &["plan", "lang", case.program]);
        // Those of one transaction are in no order.
        let mut lines: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("  ")).collect();
        let mut expected = case.lines.to_vec();
        lines.sort_unstable();
        expected.sort_unstable();
        assert_eq!(lines, expected, "{}: {text}", case.name);
        let agreed = agrees(PROGRAM, "lang", case.program, &format!("/mgmt-test-prefix-{number}"));
        assert_eq!(agreed, Ok(case.lines.len()), "{}", case.name);
        assert_eq!(package_state("demo"), case.after, "{}", case.name);
    }
}
