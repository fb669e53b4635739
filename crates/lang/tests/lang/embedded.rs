//! Modules that come with the program.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use crate::common::{checked, evaluated};
use mgmt_lang::Checked;
use mgmt_lang::module::{EMBEDDED, Memory};

/// Checks a program that consists of one file.
fn program(text: &str) -> (Checked, Memory) {
    let files = Memory::from([("/main.mcl", text)]);
    (checked(&files), files)
}

/// What is said about a program, without the places.
fn told(text: &str) -> String {
    let (checked, _) = program(text);
    let line = |found: &mgmt_diagnostics::Diagnostic| {
        format!("{}: {} ({})\n", found.code.unwrap(), found.message, found.hints.join(" "))
    };
    checked.diagnostics.iter().map(line).collect()
}

/// The resources of a program without a mistake, as text.
#[track_caller]
fn resources(text: &str) -> String {
    let (checked, files) = program(text);
    assert!(checked.diagnostics.is_empty(), "{}", told(text));
    let graph = evaluated(&checked, &files).unwrap();
    graph.nodes().map(|(_, spec)| format!("{} {:?}\n", spec.id, spec.resource)).collect()
}

#[test]
fn all_of_them_can_be_imported_and_have_nothing_to_warn_of() {
    for module in EMBEDDED {
        let text = format!("import \"{}\" as *\n", module.name);
        assert_eq!(told(&text), "", "{}", module.name);
    }
}

#[test]
fn their_classes_are_included_and_their_own_files_are_read() {
    let made = resources(
        "import \"embedded/apt\"\n\ninclude apt.pin(\"x\", struct{priority => 7})\n\
         import \"deploy\"\nprint \"own\" {\n\tmsg => deploy.abspath(\"/x\"),\n}\n",
    );
    assert!(made.contains("file[/etc/apt/preferences.d/x.pref]"), "{made}");
    // What is in it is `Package: *`, `Pin: release a=stable`, and `Pin-Priority: 7`.
    assert!(made.contains("49 bytes"), "{made}");
    // The program sees its own files, as before.
    assert!(made.contains("\"/x\""), "{made}");
}

#[test]
fn the_functions_of_the_library_stand_beside_the_definitions_of_the_module() {
    let made = resources(
        "import \"example\"\n\ninclude example.test1()\nprint \"sum\" {\n\t\
         msg => example.int2str(example.nativeanswer() + example.answer() + $example.test1),\n}\n",
    );
    assert!(made.contains("\"97\"") && made.contains("print[example]"), "{made}");
    let star =
        resources("import \"example\" as *\n\nprint \"sum\" {\n\tmsg => int2str(nativeanswer()),\n}\n");
    assert!(star.contains("\"42\""), "{star}");
}

#[test]
fn a_misspelt_name_is_told_the_right_one() {
    let module = told("import \"embedded/systmd\"\n");
    assert!(module.contains("did you mean `embedded/systemd`?"), "{module}");
    let class = told("import \"embedded/systemd\"\n\ninclude systemd.unti(\"x\", struct{})\n");
    assert!(class.contains("has no class `unti`") && class.contains("`systemd.unit`"), "{class}");
    let missing = told("include systemd.unit(\"x\", struct{})\n");
    assert!(missing.contains("add `import \"embedded/systemd\"`"), "{missing}");
    let merged = told("import \"example\"\n\nprint \"x\" {\n\tmsg => example.int2st(1),\n}\n");
    assert!(merged.contains("did you mean `example.int2str`?"), "{merged}");
}

#[test]
fn what_is_wrong_inside_is_shown_with_its_address() {
    let text = "import \"embedded/systemd\"\n\ninclude systemd.dropin(\"a.service\", \"b\", struct{})\n";
    let (checked, _) = program(text);
    let names: Vec<_> = checked.sources.iter().map(|(_, source)| source.name.to_string()).collect();
    assert!(names.iter().any(|name| name == "embeddedfs:///embedded/systemd/main.mcl"), "{names:?}");
    assert!(!checked.is_right(), "the field `content` is missing");
}

#[test]
fn a_module_that_several_import_is_read_once() {
    let files = Memory::from([
        (
            "/main.mcl",
            "import \"a.mcl\"\nimport \"embedded/apt\"\n\ninclude a.x()\ninclude apt.pin(\"y\", struct{})\n",
        ),
        ("/a.mcl", "import \"embedded/apt\"\n\nclass x() {\n\tinclude apt.pin(\"x\", struct{})\n}\n"),
    ]);
    let checked = checked(&files);
    assert!(checked.diagnostics.is_empty(), "{:?}", checked.diagnostics);
    let embedded = checked.sources.iter().filter(|(_, source)| source.name.starts_with("embeddedfs:"));
    assert_eq!(embedded.count(), 1);
}

#[test]
fn nothing_of_the_host_is_read_through_the_address() {
    let text = "import \"deploy\"\n\nprint \"x\" {\n\t\
                msg => deploy.readfileabs(\"/embeddedfs:/embedded/../../main.mcl\"),\n}\n";
    let (checked, files) = program(text);
    let wrong = evaluated(&checked, &files).unwrap_err();
    assert!(wrong[0].message.contains("leads out"), "{wrong:?}");
}
