//! `gzip` and `tar`, held against the programs of the same names.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics is a test that fails")]

use crate::host_common;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use crate::common::{Run, TestEnv, Vertex};
use crate::host_common::{RunningEngine, edges, run, shell, snapshot, soon, text};
use mgmt_resource::{Checked, Kind, Spec, Stage};
use mgmt_resources::file::File;
use mgmt_resources::gzip::Gzip;
use mgmt_resources::tar::Tar;

/// Looking changes nothing and says what applying does; applying again changes nothing.
async fn settles<K: Kind>(vertex: &mut Vertex<'_, K>, directory: &Path) {
    let seen = || snapshot(&[directory.to_str().unwrap()]);
    let before = seen();
    assert_eq!(vertex.look().await.checked(), Checked::Changed);
    assert_eq!(seen(), before, "looking has changed something");
    assert_eq!(vertex.apply().await.checked(), Checked::Changed);
    let before = seen();
    assert_eq!(vertex.apply().await.checked(), Checked::Right);
    assert_eq!(vertex.look().await.checked(), Checked::Right);
    vertex.state = K::State::default();
    assert_eq!(vertex.apply().await.checked(), Checked::Right, "what is right is not remembered but seen");
    assert_eq!(seen(), before, "something was touched although all was right");
}

fn unpacked(path: &Path) -> String {
    run("gzip", &["--decompress", "--stdout", path.to_str().unwrap()])
}

fn gzip(input: &Path) -> Gzip {
    Gzip { input: Some(text(input)), ..Gzip::default() }
}

fn tar(inputs: &[&Path]) -> Tar {
    Tar { inputs: inputs.iter().map(|input| text(input)).collect(), ..Tar::default() }
}

#[tokio::test]
async fn a_copy_is_compressed_and_is_the_same_every_time() {
    let bench = TestEnv::new();
    let (input, output) = (bench.path("input"), bench.path("out.gz"));
    let directory = output.parent().unwrap();
    fs::write(&input, "hello\n".repeat(10_000)).unwrap();
    let mut vertex = bench.vertex(text(&output), gzip(&input));
    settles(&mut vertex, directory).await;
    assert_eq!(unpacked(&output), "hello\n".repeat(10_000).trim_end());
    assert_eq!(fs::metadata(&output).unwrap().mode() & 0o7777, 0o600);
    let first = fs::read(&output).unwrap();
    fs::remove_file(&output).unwrap();
    run("touch", &["-d", "2001-01-01", input.to_str().unwrap()]);
    settles(&mut vertex, directory).await;
    assert_eq!(fs::read(&output).unwrap(), first);
    // Another level, and another input.
    vertex.resource.level = 9;
    settles(&mut vertex, directory).await;
    fs::write(&input, "changed\n").unwrap();
    settles(&mut vertex, directory).await;
    assert_eq!(unpacked(&output), "changed");
    vertex.resource = Gzip { content: "by itself".into(), level: -2, ..Gzip::default() };
    settles(&mut vertex, directory).await;
    assert_eq!(unpacked(&output), "by itself");
    vertex.resource = Gzip::default();
    settles(&mut vertex, directory).await;
    assert_eq!(unpacked(&output), "");
}

#[tokio::test]
async fn a_copy_keeps_its_owner_and_mode_and_a_planted_link_is_not_followed() {
    let bench = TestEnv::new();
    let (output, secret) = (bench.path("out.gz"), bench.path("secret"));
    let mut vertex = bench.vertex(text(&output), Gzip { content: "a".into(), ..Gzip::default() });
    vertex.apply().await.checked();
    fs::set_permissions(&output, fs::Permissions::from_mode(0o640)).unwrap();
    std::os::unix::fs::chown(&output, Some(7), Some(8)).unwrap();
    vertex.resource.content = "b".into();
    assert_eq!(vertex.apply().await.checked(), Checked::Changed);
    let found = fs::metadata(&output).unwrap();
    assert_eq!((found.mode() & 0o7777, found.uid(), found.gid()), (0o640, 7, 8));

    fs::remove_file(&output).unwrap();
    fs::write(&secret, "secret").unwrap();
    std::os::unix::fs::symlink(&secret, &output).unwrap();
    for run in [Run::LOOK, Run::APPLY] {
        assert!(vertex.run(run).await.error().contains("a symbolic link"));
    }
    assert_eq!(fs::read(&secret).unwrap(), b"secret");
    // Nor does a FIFO hang it, as input or as output.
    fs::remove_file(&output).unwrap();
    run("mkfifo", &[output.to_str().unwrap()]);
    assert!(vertex.apply().await.error().contains("FIFO"));
    let mut reading = bench.vertex(text(&bench.path("other.gz")), gzip(&output));
    assert!(reading.apply().await.error().contains("FIFO"));
}

#[tokio::test]
async fn a_missing_input_is_an_error_unless_somebody_may_make_it_first() {
    let bench = TestEnv::new();
    let output = bench.path("out.gz");
    let mut vertex = bench.vertex(text(&output), gzip(&bench.path("missing")));
    assert_eq!(vertex.look().await.checked(), Checked::Changed);
    assert!(vertex.apply().await.error().contains("missing"));
    let mut vertex = bench.vertex(text(&output), tar(&[&bench.path("missing")]));
    assert_eq!(vertex.look().await.checked(), Checked::Changed);
    assert!(vertex.apply().await.error().contains("missing"));
    assert!(!output.exists());
    let nowhere = bench.path("no-such-directory").join("a.tar");
    let mut vertex = bench.vertex(text(&nowhere), tar(&[]));
    assert_eq!(vertex.look().await.checked(), Checked::Changed);
    let outcome = vertex.apply().await;
    assert!(outcome.result.unwrap_err().hint().unwrap().contains("declare file["));
}

#[tokio::test]
async fn a_run_that_is_cancelled_leaves_everything_as_it_was() {
    let bench = TestEnv::new();
    let (input, output) = (bench.path("input"), bench.path("out"));
    fs::write(&input, vec![7; 1 << 20]).unwrap();
    let mut vertex = bench.vertex(text(&output), gzip(&input));
    vertex.cancel.raise(Stage::Cancel);
    assert!(vertex.apply().await.result.unwrap_err().is_cancelled());
    let mut vertex = bench.vertex(text(&output), tar(&[&input]));
    vertex.cancel.raise(Stage::Cancel);
    assert!(vertex.apply().await.result.unwrap_err().is_cancelled());
    let left: Vec<_> =
        fs::read_dir(output.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(left, [input]);
}

/// A tree with all that there can be.
fn tree(bench: &TestEnv) -> std::path::PathBuf {
    let tree = bench.path("tree");
    fs::create_dir_all(tree.join("sub/empty")).unwrap();
    fs::write(tree.join("a"), "first").unwrap();
    fs::write(tree.join("sub/b"), vec![1; 5000]).unwrap();
    fs::write(tree.join("sub/none"), "").unwrap();
    fs::write(tree.join("sub").join("long".repeat(60)), "x").unwrap();
    std::os::unix::fs::symlink("../a", tree.join("sub/link")).unwrap();
    std::os::unix::fs::symlink("/nowhere", tree.join("dangling")).unwrap();
    fs::set_permissions(tree.join("a"), fs::Permissions::from_mode(0o4750)).unwrap();
    std::os::unix::fs::chown(tree.join("sub/b"), Some(7), Some(8)).unwrap();
    run("touch", &["-d", "2001-02-03 04:05:06 UTC", tree.join("sub/b").to_str().unwrap()]);
    tree
}

#[tokio::test]
async fn an_archive_is_what_tar_unpacks() {
    let bench = TestEnv::new();
    let (tree, output) = (tree(&bench), bench.path("out/a.tar"));
    fs::create_dir(output.parent().unwrap()).unwrap();
    for format in [0, 4, 8] {
        let _ = fs::remove_file(&output);
        let mut vertex = bench.vertex(text(&output), Tar { format, ..tar(&[&tree]) });
        settles(&mut vertex, output.parent().unwrap()).await;
        let place = tempfile::tempdir().unwrap();
        let (place, output) = (place.path(), output.to_str().unwrap());
        run("tar", &["-xpf", output, "--numeric-owner", "-C", place.to_str().unwrap()]);
        let shown = |at: &Path| {
            shell(&format!(
                "cd {} && find . -mindepth 1 -printf '%P %m %U %G %T@ %s %l\\n' | sed 's/\\.[0-9]* / /' | sort",
                at.display()
            ))
        };
        assert_eq!(shown(&place.join("tree")), shown(&tree), "format {format}");
        run(
            "diff",
            &[
                "--recursive",
                "--no-dereference",
                tree.to_str().unwrap(),
                place.join("tree").to_str().unwrap(),
            ],
        );
    }
    let ustar = bench.vertex(text(&output), Tar { format: 2, ..tar(&[&tree]) }).apply().await;
    assert!(ustar.error().contains("its name is too long"));
}

#[tokio::test]
async fn a_slash_puts_what_is_in_a_directory_at_the_top() {
    let bench = TestEnv::new();
    let (tree, output) = (tree(&bench), bench.path("a.tar"));
    let other = bench.path("other");
    fs::write(&other, "o").unwrap();
    let mut with_slash = tree.clone().into_os_string();
    with_slash.push("/");
    let listed = |output: &Path| run("tar", &["-tf", output.to_str().unwrap()]);
    let mut vertex =
        bench.vertex(text(&output), tar(&[Path::new(&with_slash), &other, &tree.join("sub/link")]));
    vertex.apply().await.checked();
    let long = "long".repeat(60);
    assert_eq!(
        listed(&output),
        format!("a\ndangling\nsub/\nsub/b\nsub/empty/\nsub/link\nsub/{long}\nsub/none\nother\nlink")
    );
    vertex.resource.inputs.reverse();
    assert_eq!(vertex.apply().await.checked(), Checked::Changed);
    assert!(listed(&output).starts_with("link\nother\na\n"));
    vertex.resource = Tar::default();
    assert_eq!(vertex.apply().await.checked(), Checked::Changed);
    assert_eq!(listed(&output), "");
}

#[tokio::test]
async fn what_cannot_be_archived_is_told_and_the_archive_stays() {
    let bench = TestEnv::new();
    let (tree, output, other) = (tree(&bench), bench.path("a.tar"), bench.path("other"));
    fs::write(&other, "o").unwrap();
    let mut vertex = bench.vertex(text(&output), tar(&[&other]));
    vertex.apply().await.checked();
    let archive = fs::read(&output).unwrap();
    for (wrong, field) in [
        (Tar { path: "a.tar".into(), ..Tar::default() }, "`path`"),
        (tar(&[Path::new("relative")]), "`inputs`"),
        (tar(&[output.parent().unwrap()]), "`inputs`"),
        (Tar { format: 3, ..Tar::default() }, "`format`"),
    ] {
        let told = bench.vertex(text(&output), wrong).validate().unwrap_err().to_string();
        assert!(told.starts_with(field), "{told}");
    }

    // Two of one name.
    fs::create_dir(bench.path("elsewhere")).unwrap();
    fs::write(bench.path("elsewhere").join("other"), "").unwrap();
    run("mkfifo", &[tree.join("fifo").to_str().unwrap()]);
    for (wrong, why) in [
        (tar(&[&other, &bench.path("elsewhere").join("other")]), "would have the same name"),
        (tar(&[&tree]), "a FIFO, which cannot be archived"),
        (tar(&[Path::new(&format!("{}/", other.display()))]), "a regular file"),
    ] {
        vertex.resource = wrong;
        for run in [Run::LOOK, Run::APPLY] {
            let told = vertex.run(run).await.error();
            assert!(told.contains(why), "{told}");
        }
    }
    assert_eq!(fs::read(&output).unwrap(), archive);
}

#[tokio::test]
async fn everything_that_happens_in_a_tree_is_seen() {
    let bench = TestEnv::new();
    let (tree, output) = (tree(&bench), bench.path("a.tar"));
    let mut vertex = bench.vertex(text(&output), tar(&[&tree]));
    vertex.apply().await.checked();
    for change in [
        "echo more >>a",
        "chmod 600 a",
        "chown 9 a",
        "touch -d 2002-01-01 sub/b",
        "ln -sfn elsewhere sub/link",
        "mkdir sub/empty/new",
        "rm dangling",
        "mv a z",
        "chmod 700 sub",
        "rm -r sub/empty",
    ] {
        shell(&format!("cd {}; {change}", tree.display()));
        assert_eq!(vertex.look().await.checked(), Checked::Changed, "{change}");
        assert_eq!(vertex.apply().await.checked(), Checked::Changed, "{change}");
        assert_eq!(vertex.apply().await.checked(), Checked::Right, "{change}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_somebody_does_is_an_event_and_repaired() {
    let mut running = RunningEngine::start();
    let (tree, archive) = (running.path("tree"), running.path("a.tar"));
    let copy = running.path("a.tar.gz");
    fs::create_dir_all(tree.join("sub")).unwrap();
    fs::write(tree.join("sub/a"), "one").unwrap();
    let tar = Spec::new(text(&archive), tar(&[&tree]));
    let gzip = Spec::new(text(&copy), gzip(&archive));
    assert_eq!(edges(vec![gzip.clone(), tar.clone()]).len(), 1, "the copy comes after the archive");
    running.swap(vec![gzip, tar]).await;
    let right = || {
        let (archive, copy) = (archive.display(), copy.display());
        let (tree, output) = (tree.display(), "set -e; cd $(dirname");
        let script = format!(
            "{output} {tree}); gzip -dc {copy} 2>/dev/null | cmp -s - {archive} && tar -df {archive} >/dev/null 2>&1 \
             && test $(tar -tf {archive} | wc -l) = $(find tree -mindepth 1 | wc -l)"
        );
        host_common::output("sh", &["-c", &script]).status.success()
    };
    assert!(right());
    for drift in [
        "echo two >tree/sub/a",
        "echo three >x; mv x tree/sub/b",
        "mkdir -p tree/deep/down; echo 4 >tree/deep/down/c",
        "echo 5 >>tree/deep/down/c",
        "rm -r tree/sub",
        "chmod 600 tree/deep/down/c",
        "rm a.tar",
        "rm a.tar.gz",
        "rm a.tar a.tar.gz",
        "echo broken >a.tar",
        "printf x | dd of=a.tar bs=1 seek=20 conv=notrunc status=none",
        "truncate -s 10 a.tar.gz",
        "echo x >>a.tar.gz",
        "mv a.tar.gz b; rm b",
        "mv tree away; sleep 0.1; mv away tree",
    ] {
        shell(&format!("cd {}; {drift}", tree.parent().unwrap().display()));
        soon(drift, right).await;
    }
    running.stop();
}

#[test]
fn archives_come_after_what_is_in_them_and_before_what_reads_them() {
    let file = |name: &str| Spec::new(name, File { state: "exists".into(), ..File::default() });
    let reader = File { source: "/out/a.tar".into(), state: "exists".into(), ..File::default() };
    let specs = vec![
        Spec::new("/out/a.tar", tar(&[Path::new("/in"), Path::new("/single")])),
        file("/in/deep/x"),
        file("/single"),
        file("/out/"),
        Spec::new("/reader", reader),
    ];
    let edges = edges(specs);
    for expected in [
        "file[/in/deep/x] -> tar[/out/a.tar]",
        "file[/single] -> tar[/out/a.tar]",
        "file[/out/] -> tar[/out/a.tar]",
        "tar[/out/a.tar] -> file[/reader]",
    ] {
        assert!(edges.contains(&expected.to_owned()), "{expected}: {edges:?}");
    }
    // A file that only gives the archive its mode comes first.
    let mode = File { mode: "u=rw,go=r".into(), state: "exists".into(), ..File::default() };
    let same = vec![Spec::new("/out/a.gz", Gzip::default()), Spec::new("/out/a.gz", mode)];
    assert_eq!(host_common::edges(same), ["file[/out/a.gz] -> gzip[/out/a.gz]"]);
}
