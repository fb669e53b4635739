//! Files that come with a program, wherever its modules are.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;

use std::fs;

use common::{Running, holds, mgmt, said};

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
    let _running = Running::start_command(mgmt(&["run", "--tmp-prefix", "lang", main.to_str().unwrap()]));
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
    let said = said(&["graph", "lang", "--module-path", modules.to_str().unwrap(), site.to_str().unwrap()]);
    assert_eq!(said.code, 0, "{}", said.stderr);
    assert!(said.stdout.contains("print[found]"), "{}", said.stdout);
}
