//! Files that come with a program, wherever its modules are.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::process::Command;

use mgmt_test_support::program::{RunningProgram, eventually, holds, mgmt, mgmt_output};

const MODULE: &str = "import \"deploy\"\n\n# What stands in a file of the module.\nfunc text() {\n\tdeploy.readfile(\"/files/text\")\n}\n";

#[test]
fn a_module_beside_the_program_reads_its_own_files_and_follows_them() {
    let home = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = home.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("lib/main.mcl", MODULE);
    write("lib/files/text", "one");
    let made = home.path().join("made");
    write(
        "site/main.mcl",
        &format!(
            "import \"../lib/\"\n\nfile \"{}\" {{\n\tstate => \"exists\",\n\tcontent => lib.text(),\n}}\n",
            made.display()
        ),
    );
    let main = home.path().join("site/main.mcl");
    let _running =
        RunningProgram::start_command(mgmt(&["run", "--tmp-prefix", "lang", main.to_str().unwrap()]));
    holds(&made, "one");
    write("lib/files/text", "two");
    holds(&made, "two");
}

#[test]
fn a_module_in_the_module_path_reads_its_own_files() {
    let home = tempfile::tempdir().unwrap();
    let module = home.path().join("modules/example.com/lib");
    fs::create_dir_all(module.join("files")).unwrap();
    fs::write(module.join("metadata.yaml"), "").unwrap();
    fs::write(module.join("main.mcl"), MODULE).unwrap();
    fs::write(module.join("files/text"), "found").unwrap();
    let site = home.path().join("site/main.mcl");
    fs::create_dir(site.parent().unwrap()).unwrap();
    fs::write(&site, "import \"https://example.com/lib/\"\n\n$name = lib.text()\n\nprint \"${name}\" {}\n")
        .unwrap();
    let modules = home.path().join("modules");
    let said =
        mgmt_output(&["graph", "lang", "--module-path", modules.to_str().unwrap(), site.to_str().unwrap()]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(said.stdout.contains("print[found]"), "{}", said.stdout);
}

#[test]
fn a_program_is_archived_with_its_modules_and_their_files() {
    let home = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = home.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("lib/main.mcl", MODULE);
    write("lib/files/text", "one");
    write("lib/beside", "does not belong to it");
    write("site/metadata.yaml", "files: data/\n");
    write("site/data/deep/file", "of the program");
    write("site/part.mcl", "$part = \"part\"\n");
    write("site/beside", "does not belong to it");
    let archive = home.path().join("program.tar");
    let main = |more: &str| {
        format!(
            "import \"../lib/\"\nimport \"part.mcl\"\nimport \"strings\"\n\ndeploy:tar \"{}\" {{}}\n{more}",
            archive.display()
        )
    };
    write("site/main.mcl", &main(""));
    let site = format!("{}/", home.path().join("site").display());
    let _running = RunningProgram::start_command(mgmt(&["run", "--tmp-prefix", "lang", &site]));
    let unpacked = |name: &str| {
        let tar = Command::new("tar").arg("-xOf").arg(&archive).arg(name).output().unwrap();
        tar.status.success().then(|| String::from_utf8(tar.stdout).unwrap())
    };
    let is_in = |name: &str, text: &str| {
        eventually(&format!("{name} is {text:?}"), || unpacked(name).is_some_and(|found| found == text));
    };
    let text = format!("modules{}/files/text", home.path().join("lib").display());
    is_in("main.mcl", &main(""));
    is_in("metadata.yaml", "files: data/\n");
    is_in("part.mcl", "$part = \"part\"\n");
    is_in("data/deep/file", "of the program");
    is_in(&text, "one");
    let list = Command::new("tar").arg("-tf").arg(&archive).output().unwrap();
    let list = String::from_utf8(list.stdout).unwrap();
    assert!(!list.contains("beside") && list.lines().all(|name| !name.starts_with('/')), "{list}");
    assert!(!list.contains("strings"), "what comes with mgmt is no part of the program: {list}");

    // Nobody reads these, and yet they are followed.
    write("site/data/deep/file", "changed");
    is_in("data/deep/file", "changed");
    write("lib/files/text", "two");
    is_in(&text, "two");
    write("lib/files/new", "new");
    is_in(&text.replace("/text", "/new"), "new");
    // Another text of the program is another program.
    write("site/main.mcl", &main("\nprint \"more\" {}\n"));
    is_in("main.mcl", &main("\nprint \"more\" {}\n"));
}
