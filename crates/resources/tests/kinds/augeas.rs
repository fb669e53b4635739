//! `augeas` with the real program and its lenses.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics is a test that fails")]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use crate::common::{Outcome, Run, TestEnv, Vertex, refused};
use crate::host_common::{RunningEngine, edges, on_own_host, shell, snapshot, soon, text};
use mgmt_resource::{Checked, Kind, Spec, Stage};
use mgmt_resources::augeas::{Augeas, AugeasInsert, AugeasSet};
use mgmt_resources::file::File;
use mgmt_sys::process::Helper;
use mgmt_value::Str;

const SSHD: &str = "# Who may come in\nPort 22\nPermitRootLogin yes\n\nAcceptEnv LANG LC_*\n\
                    Match User joe\n  PermitTTY no\n";

/// A host on which programs can be run as somebody else.
fn bench() -> TestEnv {
    let mut bench = TestEnv::new();
    let tests = std::env::current_exe().unwrap();
    let helper = tests.ancestors().nth(2).unwrap().join("examples/resources_exec_as");
    assert!(helper.exists(), "build the helper: cargo build -p mgmt-resources --examples");
    bench.host.helper = Helper::program(helper);
    bench
}

fn sets(sets: &[(&str, &str)]) -> Vec<AugeasSet> {
    sets.iter().map(|(path, value)| AugeasSet { path: (*path).into(), value: (*value).into() }).collect()
}

fn texts(texts: &[&str]) -> Vec<Str> {
    texts.iter().map(|text| Str::from(*text)).collect()
}

fn sshd(values: &[(&str, &str)]) -> Augeas {
    Augeas { lens: "Sshd.lns".into(), sets: sets(values), ..Augeas::default() }
}

/// Looking changes nothing and says what applying does; applying again changes nothing.
async fn settles(vertex: &mut Vertex<'_, Augeas>, file: &Path) {
    let seen = || snapshot(&[file.parent().unwrap().to_str().unwrap()]);
    let before = seen();
    let looked = vertex.look().await;
    assert_eq!(seen(), before, "looking has changed something");
    what_is_planned_is_what_is_done(looked, vertex.apply().await);
    let before = seen();
    assert_eq!(vertex.apply().await.checked(), Checked::Right);
    assert_eq!(vertex.look().await.checked(), Checked::Right);
    assert_eq!(seen(), before, "something was touched although all was right");
}

/// Both tell the same changes, line by line.
fn what_is_planned_is_what_is_done(looked: Outcome, applied: Outcome) {
    assert!(!looked.effects.is_empty());
    assert_eq!(looked.effects, applied.effects);
    assert_eq!((looked.checked(), applied.checked()), (Checked::Changed, Checked::Changed));
}

#[tokio::test]
async fn values_are_set_and_all_else_stays() {
    let bench = bench();
    let path = bench.path("sshd_config");
    fs::write(&path, SSHD).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    std::os::unix::fs::chown(&path, Some(7), Some(8)).unwrap();
    let values = [
        ("PermitRootLogin", "no"),
        ("Match[Condition/User = 'joe']/Settings/PermitTTY", "yes"),
        ("/UsePAM", "yes"),
    ];
    // What belongs to all has to come before what belongs to some.
    let ins = AugeasInsert {
        label: "UsePAM".into(),
        path: "Match[1]".into(),
        before: true,
        unless: "UsePAM".into(),
    };
    let mut vertex = bench.vertex(text(&path), Augeas { ins: vec![ins], ..sshd(&values) });
    settles(&mut vertex, &path).await;
    let wanted = SSHD.replace("Login yes", "Login no").replace("TTY no", "TTY yes");
    let wanted = wanted.replace("AcceptEnv LANG LC_*\n", "AcceptEnv LANG LC_*\nUsePAM yes\n");
    assert_eq!(fs::read_to_string(&path).unwrap(), wanted);
    let found = fs::metadata(&path).unwrap();
    assert_eq!((found.mode() & 0o7777, found.uid(), found.gid()), (0o640, 7, 8));
    // By its own parameter, and a value that is there.
    let same = Augeas { file: text(&path), ..sshd(&[("Port", "22")]) };
    assert_eq!(bench.vertex("any name", same).apply().await.checked(), Checked::Right);
    let names: Vec<_> =
        fs::read_dir(path.parent().unwrap()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["sshd_config"], "nothing is left beside it");
}

#[tokio::test]
async fn nodes_are_removed_cleared_and_inserted() {
    let bench = bench();
    let path = bench.path("hosts");
    // The last line has no end.
    fs::write(&path, "127.0.0.1 localhost\n192.0.2.7 printer lp\n192.0.2.8 old").unwrap();
    let mut vertex = bench.vertex(
        text(&path),
        Augeas {
            lens: "Hosts.lns".into(),
            rm: texts(&["*[canonical = 'old']", "*[canonical = 'never there']", "//alias[. = 'lp']"]),
            ins: vec![AugeasInsert {
                label: "0".into(),
                path: "1".into(),
                before: true,
                unless: "*[canonical = 'first']".into(),
            }],
            // By the label that the new node has until the file is read again, and by what it has then.
            sets: sets(&[
                ("*[label() = '0' or canonical = 'first']/ipaddr", "192.0.2.1"),
                ("*[ipaddr = '192.0.2.1']/canonical", "first"),
            ]),
            ..Augeas::default()
        },
    );
    settles(&mut vertex, &path).await;
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        "192.0.2.1\tfirst\n127.0.0.1 localhost\n192.0.2.7 printer\n"
    );
    // Nodes without values.
    let exports = bench.path("sudoers");
    fs::write(&exports, "Defaults env_reset\n").unwrap();
    let mut vertex = bench.vertex(
        text(&exports),
        Augeas {
            lens: "Sudoers.lns".into(),
            clear: texts(&["Defaults[2]/requiretty/negate"]),
            ..Augeas::default()
        },
    );
    settles(&mut vertex, &exports).await;
    assert_eq!(fs::read_to_string(&exports).unwrap(), "Defaults env_reset\nDefaults !requiretty\n");
}

#[tokio::test]
async fn a_file_that_is_not_there_is_made_and_without_an_end_it_is_right_as_it_is() {
    let bench = bench();
    let path = bench.path("new");
    let mut vertex = bench.vertex(
        text(&path),
        Augeas {
            lens: "Hosts.lns".into(),
            sets: sets(&[("1/ipaddr", "::1"), ("1/canonical", "localhost")]),
            ..Augeas::default()
        },
    );
    settles(&mut vertex, &path).await;
    assert_eq!(fs::read_to_string(&path).unwrap(), "::1\tlocalhost\n");
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
    fs::write(&path, "::1\tlocalhost").unwrap();
    assert_eq!(vertex.apply().await.checked(), Checked::Right);
    fs::remove_file(&path).unwrap();
    vertex.resource = Augeas { lens: "Hosts.lns".into(), rm: texts(&["*"]), ..Augeas::default() };
    assert_eq!(vertex.apply().await.checked(), Checked::Right);
    assert!(!path.exists(), "there was nothing to remove");
}

#[tokio::test]
async fn what_cannot_be_is_told_and_the_file_stays() {
    let bench = bench();
    let path = bench.path("sshd_config");
    let at = |augeas: Augeas| Augeas { file: text(&path), ..augeas };
    for (wrong, field) in [
        (sshd(&[]), "`file`"),
        (Augeas { file: "/etc/".into(), ..sshd(&[]) }, "`file`"),
        (at(Augeas::default()), "`lens`: is missing"),
        (at(Augeas { lens: "Sshd".into(), ..sshd(&[]) }), "`lens`: expected"),
        (at(Augeas { lens: "../../tmp/Evil.lns".into(), ..sshd(&[]) }), "`lens`: expected"),
        (at(sshd(&[("", "x")])), "`sets`"),
        (at(sshd(&[("Port", "2\0")])), "`sets`"),
        (at(Augeas { rm: texts(&[" "]), ..sshd(&[]) }), "`rm`"),
        (
            at(Augeas {
                ins: vec![AugeasInsert { path: "Port".into(), ..AugeasInsert::default() }],
                ..sshd(&[])
            }),
            "`ins`",
        ),
    ] {
        let told = refused(&wrong);
        assert!(told.starts_with(field), "{told}");
    }
    let own = |label: &str, unless: &str| AugeasInsert {
        label: label.into(),
        path: "Port".into(),
        before: false,
        unless: unless.into(),
    };
    for (content, wrong, why, hint) in [
        (SSHD, Augeas { lens: "Nowhere.lns".into(), ..sshd(&[]) }, "lens Nowhere.lns", "augeas-lenses"),
        (
            "alone\n",
            Augeas { lens: "Hosts.lns".into(), ..sshd(&[]) },
            "in line 1, character",
            "mend the file",
        ),
        ("Port 22\0\n", sshd(&[("Port", "23")]), "null byte", ""),
        (SSHD, sshd(&[("Port[", "23")]), "cannot set Port[", ""),
        (SSHD, sshd(&[("AcceptEnv/*", "x")]), "cannot set AcceptEnv/*", ""),
        (SSHD, sshd(&[("Port/deeper", "x")]), "do not fit into the format", "augtool print"),
        (
            "127.0.0.1 localhost\n",
            Augeas {
                lens: "Hosts.lns".into(),
                ins: vec![AugeasInsert { path: "1".into(), before: true, ..own("0", "") }],
                ..sshd(&[("0/ipaddr", "::1"), ("0/canonical", "again")])
            },
            "never come to an end",
            "unless",
        ),
        (
            SSHD,
            Augeas { ins: vec![AugeasInsert { path: "Nothing".into(), ..own("Banner", "") }], ..sshd(&[]) },
            "insert beside Nothing",
            "",
        ),
    ] {
        fs::write(&path, content).unwrap();
        let mut vertex = bench.vertex(text(&path), wrong);
        for run in [Run::LOOK, Run::APPLY] {
            let error = vertex.run(run).await.result.unwrap_err();
            assert!(error.to_string().contains(why), "{why}: {error}");
            assert!(!error.to_string().contains('\n'), "{error}");
            assert!(error.hint().unwrap_or_default().contains(hint), "{:?}", error.hint());
        }
        assert_eq!(fs::read(&path).unwrap(), content.as_bytes());
    }
    // A planted link is not followed.
    let (target, link) = (bench.path("target"), bench.path("link"));
    fs::write(&target, SSHD).unwrap();
    std::os::unix::fs::symlink(&target, &link).unwrap();
    assert!(
        bench.vertex(text(&link), sshd(&[("Port", "23")])).apply().await.error().contains("symbolic link")
    );
    assert_eq!(fs::read_to_string(&target).unwrap(), SSHD);
    let nowhere = bench.path("no-such-directory").join("sshd_config");
    let mut vertex = bench.vertex(text(&nowhere), sshd(&[("Port", "23")]));
    assert_eq!(vertex.look().await.checked(), Checked::Changed, "somebody may be about to make it");
    assert!(vertex.apply().await.result.unwrap_err().hint().unwrap().contains("declare file["));
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_somebody_does_to_the_file_is_an_event_and_repaired() {
    let mut running = RunningEngine::start();
    let path = running.path("sshd_config");
    fs::write(&path, "Port 22\nPermitRootLogin yes # for now\n").unwrap();
    let unwanted = Augeas { file: text(&path), rm: texts(&["UseDNS"]), ..sshd(&[]) };
    running
        .swap(vec![
            Spec::new(text(&path), sshd(&[("PermitRootLogin", "no"), ("Port", "2222")])),
            Spec::new("unwanted", unwanted),
        ])
        .await;
    let right = || {
        let now = fs::read_to_string(&path).unwrap_or_default();
        let has = |line: &str| now.lines().any(|found| found.split(" #").next() == Some(line));
        has("PermitRootLogin no") && has("Port 2222") && !now.contains("UseDNS")
    };
    assert!(right());
    for drift in [
        "sed -i 's/Login no/Login yes/' FILE",
        "sed -i /^Port/d FILE",
        "sed -i '1iUseDNS yes' FILE",
        ": >FILE",
        "rm FILE",
        "echo 'Port 23' >x; mv x FILE",
        "mv FILE FILE.old",
    ] {
        shell(&format!("cd {}; {}", path.parent().unwrap().display(), drift.replace("FILE", "sshd_config")));
        soon(drift, right).await;
    }
    running.stop();
}

/// Everything that could be a key, an escape, the end of a word or another command.
const ODD: &[&str] = &[
    r"",
    r" ",
    r"  two  blanks  ",
    r"'",
    r"''",
    r"a'b",
    r#"""#,
    r#"a"b"#,
    r#"" ""#,
    r"\",
    r"\\",
    r"a\",
    r"\n",
    r"\t",
    r"\'",
    r#"\""#,
    r#"\\""#,
    r"\ ",
    r"\é",
    r"[",
    r"]",
    r"][",
    r"[]",
    r"a]b[c",
    r"\]",
    r"\[",
    r"/",
    r"//",
    r"\/",
    r"|",
    r"=",
    r"(",
    r")",
    r"!",
    r"!!",
    r"!$",
    r",",
    r"*",
    r"?",
    r"..",
    r"$there",
    r"$(id)",
    r"`id`",
    r"#",
    r"# comment",
    r";",
    r"&",
    r"~",
    r"%",
    r"{}",
    r"<>",
    r"@",
    r"-",
    r"--root /",
    r"^[",
    r"é",
    r"日本",
    "\t",
    "a\tb",
    "\u{80}\u{9b}",
    "'mgmt-mark'",
    "/mgmt-mark (o)",
];

#[tokio::test]
async fn a_value_is_what_it_is_whatever_is_in_it() {
    let bench = bench();
    let path = bench.path("lines");
    let all: Vec<u8> = (0x20..=0xff).filter(|byte| *byte != 0x7f).collect();
    let long = "0123456789".repeat(10_000);
    let odd = ODD.iter().map(|odd| odd.as_bytes());
    // Blanks at the ends have no place in this format.
    for value in odd.chain([&all[..], long.as_bytes()]).map(|value| [b"x", value, b"x"].concat()) {
        fs::write(&path, "first\nlast\n").unwrap();
        let set = AugeasSet { path: "1".into(), value: Str::new(&value) };
        let augeas = Augeas { lens: "Simplelines.lns".into(), sets: vec![set], ..Augeas::default() };
        let mut vertex = bench.vertex(text(&path), augeas);
        settles(&mut vertex, &path).await;
        assert_eq!(fs::read(&path).unwrap(), [&value[..], b"\nlast\n"].concat());
    }
    // Where a value may have more than one line.
    let path = bench.path("text.xml");
    for value in
        ["\n", "x\n\ny", "x\nrm /files\nsave\n", "\" \nrm /files/text\n\"", "\nmgmt-mark\nget /mgmt-mark\n"]
    {
        fs::write(&path, "<a>first</a>\n").unwrap();
        let augeas =
            Augeas { lens: "Xml.lns".into(), sets: sets(&[("a/#text", value)]), ..Augeas::default() };
        let mut vertex = bench.vertex(text(&path), augeas);
        assert_eq!(vertex.apply().await.checked(), Checked::Changed, "{value:?}");
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("<a>{value}</a>\n"));
    }
}

#[tokio::test]
async fn a_path_is_one_path_whatever_is_in_it() {
    let bench = bench();
    let path = bench.path("lines");
    for odd in ODD.iter().chain(&["x\nset /files/text/1 evil\nsave", "1 evil\" \nset 1 \"evil"]) {
        // As a text that is compared with, and as a name.
        let compared = match (odd.contains('\''), odd.contains('"')) {
            (true, true) => continue,
            (true, false) => format!("*[. = \"x{odd}x\"]"),
            _ => format!("*[. = 'x{odd}x']"),
        };
        for (lines, wanted, at) in [
            // An odd text that is there is found.
            (format!("one\nx{odd}x\nlast\n"), Some("one\nlast\n"), compared),
            // And an odd name is that of no node.
            ("one\nlast\n".to_owned(), None, format!("1/{odd}x")),
        ] {
            fs::write(&path, &lines).unwrap();
            let augeas = Augeas { lens: "Simplelines.lns".into(), rm: texts(&[&at]), ..Augeas::default() };
            let refused = Kind::validate(&augeas, &text(&path)).err();
            let applied = bench.vertex(text(&path), augeas).apply().await.result;
            let now = fs::read_to_string(&path).unwrap();
            match (applied, wanted) {
                (Ok(Checked::Changed), Some(wanted)) => assert_eq!(now, wanted, "{at}"),
                (Ok(changed), _) => assert_eq!((changed, &now), (Checked::Right, &lines), "{at}"),
                (Err(error), _) => {
                    // No path, or one with brackets that cannot be told; nothing has become of it.
                    assert!(error.to_string().starts_with("cannot remove"), "{at}: {error}");
                    assert_eq!(now, lines, "{at}");
                }
            }
            // Lines of this format have no end of a line in them, so that one alone is not there.
            assert!(wanted.is_none() || refused.is_some() || now != lines || odd.contains('\n'), "{at}");
        }
    }
}

#[tokio::test]
async fn what_is_told_is_not_seen_and_nothing_of_the_host_is_touched() {
    let bench = bench();
    let path = bench.path("sshd_config");
    fs::write(&path, SSHD).unwrap();
    let homes = || snapshot(&["/root/.augeas", "/nonexistent"]);
    let before = homes();
    let secret = sshd(&[("Banner", "secret"), ("Port/deeper", "x")]);
    let error = bench.vertex(text(&path), secret).apply().await.error();
    assert!(
        error.contains("do not fit") && !error.contains("secret") && !error.contains("AcceptEnv"),
        "{error}"
    );
    assert_eq!(bench.vertex(text(&path), sshd(&[("Port", "23")])).apply().await.checked(), Checked::Changed);
    assert_eq!(homes(), before);
}

#[tokio::test]
async fn a_text_that_was_right_starts_nothing() {
    let mut bench = bench();
    let path = bench.path("sshd_config");
    fs::write(&path, SSHD).unwrap();
    let helper = bench.host.helper.clone();
    let mut vertex = bench.vertex(text(&path), sshd(&[("Port", "22")]));
    assert_eq!(vertex.apply().await.checked(), Checked::Right);
    let state = std::mem::take(&mut vertex.state);
    drop(vertex);
    // From here on, nothing can be started.
    bench.host.helper = Helper::program("/nonexistent/helper");
    let mut vertex = bench.vertex(text(&path), sshd(&[("Port", "22")]));
    vertex.state = state;
    for run in [Run::APPLY, Run::LOOK] {
        assert_eq!(vertex.run(run).await.checked(), Checked::Right);
    }
    // Another text, and another declaration, have to be looked at.
    vertex.resource = sshd(&[("Port", "23")]);
    assert!(vertex.apply().await.error().contains("cannot run"));
    vertex.resource = sshd(&[("Port", "22")]);
    fs::write(&path, SSHD.replace("joe", "jim")).unwrap();
    assert!(vertex.apply().await.error().contains("cannot run"));
    drop(vertex);
    bench.host.helper = helper;
    // What was made right is known to be right, too.
    let mut vertex = bench.vertex(text(&path), sshd(&[("Port", "23")]));
    assert_eq!(vertex.apply().await.checked(), Checked::Changed);
    let state = std::mem::take(&mut vertex.state);
    drop(vertex);
    bench.host.helper = Helper::program("/nonexistent/helper");
    let mut vertex = bench.vertex(text(&path), sshd(&[("Port", "23")]));
    vertex.state = state;
    assert_eq!(vertex.apply().await.checked(), Checked::Right);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_edits_of_one_file_do_not_undo_each_other() {
    let mut running = RunningEngine::start();
    let path = running.path("sysctl.conf");
    let specs = (0..20).map(|number| {
        let value = [(&*format!("net.number{number}"), "1")];
        let augeas =
            Augeas { file: text(&path), lens: "Sysctl.lns".into(), sets: sets(&value), ..Augeas::default() };
        Spec::new(format!("number{number}"), augeas)
    });
    running.swap(specs.collect()).await;
    let mut lines: Vec<String> = fs::read_to_string(&path).unwrap().lines().map(str::to_owned).collect();
    lines.sort_unstable();
    let mut wanted: Vec<String> = (0..20).map(|number| format!("net.number{number} = 1")).collect();
    wanted.sort_unstable();
    assert_eq!(lines, wanted);
    running.stop();
}

/// Has a script run in the place of `augtool`, which first tells what it was given.
fn instead(bench: &mut TestEnv, script: &str) -> impl Fn() -> String + use<> {
    let (helper, told) = (bench.path("helper"), bench.path("told"));
    let tell = format!("(echo \"$$ $*\"; env) >{0}.new; mv {0}.new {0}", told.display());
    fs::write(&helper, format!("#!/bin/sh\n{tell}\n{script}\n")).unwrap();
    fs::set_permissions(&helper, fs::Permissions::from_mode(0o755)).unwrap();
    bench.host.helper = Helper::program(helper);
    move || fs::read_to_string(&told).unwrap_or_default()
}

/// The directory that it was given.
fn root(told: &str) -> &Path {
    Path::new(told.lines().next().unwrap().rsplit(' ').next().unwrap())
}

#[tokio::test]
async fn who_is_stopped_leaves_no_process_and_no_directory() {
    for stage in [Stage::Cancel, Stage::Interrupt] {
        let mut bench = TestEnv::new();
        let path = bench.path("sshd_config");
        fs::write(&path, SSHD).unwrap();
        let told = instead(&mut bench, "exec sleep 1000");
        let mut vertex = bench.vertex(text(&path), sshd(&[("Port", "2323")]));
        let cancel = vertex.cancel.clone();
        let raise = async {
            while told().is_empty() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            assert!(root(&told()).is_dir());
            cancel.raise(stage);
        };
        let (applied, ()) = tokio::join!(vertex.apply(), raise);
        assert!(applied.result.unwrap_err().is_cancelled());
        let told = told();
        assert!(!root(&told).exists());
        assert!(!Path::new("/proc").join(told.split(' ').next().unwrap()).exists());
        assert_eq!(fs::read_to_string(&path).unwrap(), SSHD);
        // What everybody can see.
        assert!(!told.contains("2323") && !told.contains("sshd_config"), "{told}");
        assert!(told.contains("LC_ALL=C\n") && !told.contains("PATH=/root"), "{told}");
    }
}

#[tokio::test]
async fn a_program_that_breaks_is_an_error_and_the_file_stays() {
    for (script, why) in [
        ("kill -SEGV $$", "killed by SIGSEGV"),
        ("echo all is well; exit 0", "ended with exit status 0"),
        ("echo cannot do this >&2; exit 3", "exit status 3: cannot do this"),
    ] {
        let mut bench = TestEnv::new();
        let path = bench.path("sshd_config");
        fs::write(&path, SSHD).unwrap();
        let told = instead(&mut bench, script);
        let error = bench.vertex(text(&path), sshd(&[("Port", "23")])).apply().await.error();
        assert!(error.contains(why), "{error}");
        assert!(!root(&told()).exists());
        assert_eq!(fs::read_to_string(&path).unwrap(), SSHD);
    }
}

#[tokio::test]
async fn without_the_program_it_is_told_which_package_has_it() {
    if !on_own_host("without_the_program_it_is_told_which_package_has_it") {
        return;
    }
    let bench = TestEnv::new();
    let path = bench.path("sshd_config");
    fs::write(&path, SSHD).unwrap();
    shell("rm $(command -v augtool)");
    for run in [Run::LOOK, Run::APPLY] {
        let error = bench.vertex(text(&path), sshd(&[("Port", "23")])).run(run).await.result.unwrap_err();
        assert_eq!(error.to_string(), "the program augtool is not installed");
        assert!(error.hint().unwrap().contains("augeas-tools"), "{:?}", error.hint());
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), SSHD);
}

#[tokio::test]
async fn nothing_is_left_of_many_runs() {
    let bench = bench();
    let path = bench.path("hosts");
    let held = || fs::read_dir("/proc/self/fd").unwrap().count();
    let before = held();
    for run in 0..100 {
        let values = [("1/ipaddr", "::1"), ("1/canonical", &format!("host-{run}"))];
        let augeas = Augeas { lens: "Hosts.lns".into(), sets: sets(&values), ..Augeas::default() };
        assert_eq!(bench.vertex(text(&path), augeas).apply().await.checked(), Checked::Changed);
    }
    // Other tests run at the same time, and hold some.
    assert!(held() < before + 100, "{} at the end, {before} at the beginning", held());
}

#[test]
fn an_edit_comes_after_the_file_it_edits() {
    let file = |name: &str| Spec::new(name, File { state: "exists".into(), ..File::default() });
    let edit = Augeas { file: "/etc/ssh/sshd_config".into(), ..sshd(&[("Port", "22")]) };
    let specs = vec![Spec::new("port", edit), file("/etc/ssh/sshd_config"), file("/etc/ssh/")];
    let edges = edges(specs);
    for expected in ["file[/etc/ssh/sshd_config] -> augeas[port]", "file[/etc/ssh/] -> augeas[port]"] {
        assert!(edges.contains(&expected.to_owned()), "{expected}: {edges:?}");
    }
}
