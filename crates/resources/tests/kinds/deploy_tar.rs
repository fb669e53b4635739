//! `deploy:tar` with the files of a program in a directory.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics is a test that fails")]

use crate::host_common;
use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use crate::common::{Run, TestEnv};
use crate::host_common::{RunningEngine, edges, run, shell, snapshot, soon, text};
use mgmt_resource::{Checked, Host, ProgramFile, ProgramFileKind, ProgramFiles, Spec, Stage};
use mgmt_resources::deploy_tar::DeployTar;
use mgmt_resources::file::File;

/// Everything below a directory.
struct Program(PathBuf);

impl ProgramFiles for Program {
    fn list(&self) -> io::Result<Vec<ProgramFile>> {
        let mut found = BTreeMap::new();
        let mut pending = vec![self.0.clone()];
        while let Some(directory) = pending.pop() {
            for entry in fs::read_dir(directory)? {
                let place = entry?.path();
                let metadata = fs::symlink_metadata(&place)?;
                let kind = if metadata.is_dir() {
                    pending.push(place.clone());
                    ProgramFileKind::Directory
                } else if metadata.is_symlink() {
                    ProgramFileKind::Link(fs::read_link(&place)?)
                } else {
                    ProgramFileKind::File { executable: metadata.mode() & 0o100 != 0 }
                };
                found.insert(place.strip_prefix(&self.0).unwrap().to_owned(), kind);
            }
        }
        Ok(found.into_iter().map(|(path, kind)| ProgramFile { path, kind }).collect())
    }

    fn read(&self, path: &Path, take: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        fs::read(self.0.join(path))?.chunks(1000).try_for_each(take)
    }

    fn places(&self) -> Vec<PathBuf> {
        vec![self.0.clone()]
    }
}

/// Says that this program runs.
fn runs(host: &Host, place: &Path) {
    host.program_files.send_replace(Some(Arc::new(Program(place.to_owned()))));
}

/// A program with all that there can be.
fn program(place: &Path) {
    fs::create_dir_all(place.join("files/deep/empty")).unwrap();
    fs::write(place.join("main.mcl"), "print \"hello\" {}\n").unwrap();
    fs::write(place.join("files/big"), vec![7; 70_000]).unwrap();
    fs::write(place.join("files/deep").join("long".repeat(40)), "x").unwrap();
    fs::write(place.join("files/tool"), "#!/bin/sh\n").unwrap();
    fs::set_permissions(place.join("files/tool"), fs::Permissions::from_mode(0o700)).unwrap();
    std::os::unix::fs::symlink("tool", place.join("files/link")).unwrap();
}

fn listed(archive: &Path) -> String {
    run("tar", &["--numeric-owner", "--utc", "-tvf", archive.to_str().unwrap()])
}

#[tokio::test]
async fn the_archive_is_the_program_and_nothing_else() {
    let bench = TestEnv::new();
    let (place, directory) = (bench.path("program"), bench.path("out"));
    let output = directory.join("a.tar");
    fs::create_dir(&directory).unwrap();
    program(&place);
    runs(&bench.host, &place);
    let seen = || snapshot(&[directory.to_str().unwrap()]);
    for format in [0, 4, 8] {
        let _ = fs::remove_file(&output);
        let mut vertex = bench.vertex(text(&output), DeployTar { format, ..DeployTar::default() });
        let before = seen();
        assert_eq!(vertex.look().await.checked(), Checked::Changed);
        assert_eq!(seen(), before, "looking has changed something");
        assert_eq!(vertex.apply().await.checked(), Checked::Changed);
        let before = seen();
        assert_eq!(vertex.apply().await.checked(), Checked::Right);
        assert_eq!(vertex.look().await.checked(), Checked::Right);
        vertex.state = Default::default();
        assert_eq!(vertex.apply().await.checked(), Checked::Right, "what is right is seen");
        assert_eq!(seen(), before, "something was touched although all was right");

        let unpacked = tempfile::tempdir().unwrap();
        let to = unpacked.path().to_str().unwrap();
        run("tar", &["-xpf", output.to_str().unwrap(), "-C", to]);
        run("diff", &["--recursive", "--no-dereference", place.to_str().unwrap(), to]);
    }
    let list = listed(&output);
    assert!(list.lines().all(|line| line.contains(" 0/0 ") && line.contains("1970-01-01 00:00")), "{list}");
    assert!(
        list.lines().any(|line| line.starts_with("-rwxr-xr-x") && line.ends_with(" files/tool")),
        "{list}"
    );
    assert!(
        list.lines().any(|line| line.starts_with("lrwxrwxrwx") && line.ends_with("link -> tool")),
        "{list}"
    );
    assert!(list.lines().any(|line| line.ends_with(" files/deep/empty/")), "{list}");
    assert!(!list.contains(" /"), "no leading slash: {list}");
}

#[tokio::test]
async fn another_text_is_another_archive_and_a_touched_one_is_not() {
    let bench = TestEnv::new();
    let (place, output) = (bench.path("program"), bench.path("a.tar"));
    program(&place);
    runs(&bench.host, &place);
    let mut vertex = bench.vertex(text(&output), DeployTar::default());
    vertex.apply().await.checked();
    let first = fs::read(&output).unwrap();
    run("touch", &[place.join("main.mcl").to_str().unwrap()]);
    run("chown", &["7:8", place.join("files/tool").to_str().unwrap()]);
    assert_eq!(vertex.apply().await.checked(), Checked::Right, "owner and time are no part of a program");
    for change in [
        "echo '# more' >>main.mcl",
        "chmod 600 files/tool",
        "mkdir new",
        "rm files/big",
        "ln -sfn x files/link",
    ] {
        shell(&format!("cd {}; {change}", place.display()));
        assert_eq!(vertex.look().await.checked(), Checked::Changed, "{change}");
        assert_eq!(vertex.apply().await.checked(), Checked::Changed, "{change}");
        assert_eq!(vertex.apply().await.checked(), Checked::Right, "{change}");
    }
    // The same program from another place gives the same bytes.
    let other = bench.path("elsewhere");
    program(&other);
    runs(&bench.host, &other);
    assert_eq!(vertex.apply().await.checked(), Checked::Changed);
    assert_eq!(fs::read(&output).unwrap(), first);
}

#[tokio::test]
async fn what_cannot_be_archived_is_told_and_the_archive_stays() {
    let bench = TestEnv::new();
    let (place, output) = (bench.path("program"), bench.path("a.tar"));
    for (wrong, field) in [
        (DeployTar { path: "a.tar".into(), format: 0 }, "`path`"),
        (DeployTar { path: "/a/".into(), format: 0 }, "`path`"),
        (DeployTar { path: "".into(), format: 1 }, "`format`"),
    ] {
        let told = bench.vertex(text(&output), wrong).validate().unwrap_err().to_string();
        assert!(told.starts_with(field), "{told}");
    }
    let mut vertex = bench.vertex(text(&output), DeployTar::default());
    for run in [Run::LOOK, Run::APPLY] {
        let error = vertex.run(run).await.result.unwrap_err();
        assert!(error.to_string().contains("no program"), "{error}");
        assert!(error.hint().unwrap().contains("mgmt run lang"));
    }
    program(&place);
    runs(&bench.host, &place);
    vertex.apply().await.checked();
    let before = fs::read(&output).unwrap();
    vertex.cancel.raise(Stage::Cancel);
    fs::write(place.join("main.mcl"), "").unwrap();
    assert!(vertex.apply().await.result.unwrap_err().is_cancelled());
    let mut inside = bench.vertex(text(&place.join("files/a.tar")), DeployTar::default());
    assert!(inside.look().await.error().contains("the archive itself"));
    let small = DeployTar { format: 2, ..DeployTar::default() };
    assert!(bench.vertex(text(&output), small).apply().await.error().contains("too long"));
    assert_eq!(fs::read(&output).unwrap(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_happens_to_program_or_archive_is_an_event_and_repaired() {
    let mut running = RunningEngine::start();
    let (place, archive) = (running.path("program"), running.path("a.tar"));
    program(&place);
    runs(running.host(), &place);
    running.swap(vec![Spec::new(text(&archive), DeployTar::default())]).await;
    let right = |place: &Path| {
        let script = format!(
            "cd {0} && tar -tf {1} | sed 's,/$,,' | sort >{1}.list && find . -mindepth 1 -printf '%P\\n' | sort | cmp -s - {1}.list \
             && tar -xOf {1} main.mcl | cmp -s - main.mcl && tar -xOf {1} files/big | cmp -s - files/big",
            place.display(),
            archive.display()
        );
        host_common::output("sh", &["-c", &script]).status.success()
    };
    assert!(right(&place));
    for drift in [
        "echo '# two' >>program/main.mcl",
        "echo '# three' >x; mv x program/main.mcl",
        "mkdir -p program/files/new/deep; echo 4 >program/files/new/deep/file",
        "echo 5 >>program/files/new/deep/file; echo 5 >program/files/big",
        "rm -r program/files/new",
        "rm a.tar",
        "echo broken >a.tar",
        "truncate -s 600 a.tar",
    ] {
        shell(&format!("cd {}; {drift}", place.parent().unwrap().display()));
        soon(drift, || right(&place)).await;
    }
    let other = running.path("other");
    program(&other);
    fs::write(other.join("more"), "more").unwrap();
    runs(running.host(), &other);
    soon("another program", || right(&other)).await;
    fs::write(other.join("more still"), "more").unwrap();
    soon("a file of the other program", || right(&other)).await;
    running.stop();
}

#[test]
fn an_archive_comes_after_its_directory_and_before_what_reads_it() {
    let file = |name: &str| Spec::new(name, File { state: "exists".into(), ..File::default() });
    let reader = File { source: "/out/a.tar".into(), state: "exists".into(), ..File::default() };
    let specs =
        vec![Spec::new("/out/a.tar", DeployTar::default()), file("/out/"), Spec::new("/reader", reader)];
    let edges = edges(specs);
    for expected in ["file[/out/] -> deploy:tar[/out/a.tar]", "deploy:tar[/out/a.tar] -> file[/reader]"] {
        assert!(edges.contains(&expected.to_owned()), "{expected}: {edges:?}");
    }
}
