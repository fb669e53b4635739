//! What can be declared, what is refused, and what follows from it for watches and edges.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests")]

use mgmt_resource::{Identity, Invalid, Kind, Order, Want, Watch};
use mgmt_resources::file::File;
use mgmt_value::Str;

fn file(path: &str) -> File {
    File { path: path.into(), ..File::default() }
}

fn validate(file: &File) -> Result<(), Invalid> {
    Kind::validate(file, &"/name".into())
}

#[track_caller]
fn refused(file: File, field: Option<&str>, message: &str) {
    let invalid = validate(&file).expect_err("must be refused");
    assert_eq!(invalid.field, field, "{invalid}");
    assert!(invalid.message.contains(message), "{invalid}");
}

#[track_caller]
fn accepted(file: File) {
    if let Err(invalid) = validate(&file) {
        assert_eq!(invalid.to_string(), "accepted");
    }
}

#[test]
fn the_parts_of_a_path_are_put_together() {
    for (path, dirname, basename, expected) in [
        ("", "", "", "/name"),
        ("/a/b", "", "", "/a/b"),
        ("/a/b/", "", "", "/a/b/"),
        ("/a//b/../c", "", "", "/a/c"),
        ("/a/b", "", "c", "/a/c"),
        ("/a/b", "", "c/", "/a/c/"),
        ("/a/b/", "", "c", "/a/c"),
        ("/a/b", "/x/", "", "/x/b"),
        ("/a/b/", "/x/", "", "/x/b/"),
        ("", "/x/", "", "/x/name"),
        ("", "", "c", "/c"),
        ("/a/b", "/x/y/", "c", "/x/y/c"),
        ("/", "", "c", "c"),
    ] {
        let file = File { dirname: dirname.into(), basename: basename.into(), ..file(path) };
        if expected.starts_with('/') {
            let provided = Kind::provides(&file, &"/name".into());
            assert_eq!(provided, [Identity::Path(expected.into())], "{path} {dirname} {basename}");
        } else {
            assert!(validate(&file).is_err());
        }
    }
}

#[test]
fn paths_that_cannot_be_are_refused() {
    refused(file("relative"), Some("path"), "not absolute");
    refused(file("/nul\0"), Some("path"), "NUL");
    refused(file(&format!("/{}", "x".repeat(256))), Some("path"), "255");
    refused(file(&"/x".repeat(3000)), Some("path"), "4095");
    let invalid = Kind::validate(&File::default(), &"~/x".into()).unwrap_err();
    assert!(invalid.field.is_none() && invalid.hint.unwrap().contains("`~` is not expanded"));
    refused(File { dirname: "/x".into(), ..file("/a") }, Some("dirname"), "must end in a slash");
    refused(File { basename: "/x".into(), ..file("/a") }, Some("basename"), "must not start with a slash");
    assert!(Kind::validate(&File::default(), &Str::EMPTY).unwrap_err().message.contains("empty"));
    accepted(File { path: Str::new(b"/\xff\n"), ..File::default() });
}

#[test]
fn contradictions_are_refused() {
    let exists = |path: &str| File { state: "exists".into(), ..file(path) };
    let absent = |path: &str| File { state: "absent".into(), ..file(path) };
    let with_content = |file: File| File { content: Some("".into()), ..file };
    let with_source = |file: File, source: &str| File { source: source.into(), ..file };
    let with_fragments = |file: File| File { fragments: vec!["/f".into()], ..file };
    let recursive = |file: File| File { recurse: true, ..file };
    let linked = |file: File| File { symlink: true, ..file };
    let purged = |file: File| File { purge: true, ..recursive(file) };

    refused(File { state: "exist".into(), ..file("/a") }, Some("state"), "`exists`, `absent` or nothing");
    refused(with_content(with_source(file("/a"), "/b")), None, "only one of");
    refused(with_content(with_fragments(file("/a"))), None, "only one of");
    refused(with_fragments(with_source(file("/a"), "/b")), None, "only one of");
    refused(linked(exists("/a")), Some("source"), "needs a `source`");
    refused(with_content(absent("/a")), None, "`absent` has no");
    refused(with_source(absent("/a"), "/b"), None, "`absent` has no");
    refused(with_fragments(absent("/a")), None, "`absent` has no");
    refused(File { selinux: Some("".into()), ..absent("/a") }, Some("selinux"), "no context");
    refused(with_source(exists("/a"), "/b/"), Some("source"), "both");
    refused(recursive(with_source(exists("/a/"), "/b")), Some("source"), "both");
    refused(with_content(exists("/a/")), None, "a directory");
    refused(with_fragments(exists("/a/")), None, "a directory");
    refused(linked(with_source(exists("/a/"), "/b/")), None, "a directory");
    refused(with_source(exists("/a/"), "/b/"), Some("recurse"), "needs `recurse");
    refused(File { purge: true, ..exists("/a/b/") }, Some("purge"), "needs `recurse");
    refused(recursive(with_source(exists("/a"), "/b")), Some("recurse"), "nothing to recurse");
    refused(File { fragments: vec!["f".into()], ..exists("/a") }, Some("fragments"), "not absolute");
    refused(File { fragments: vec!["/a".into()], ..exists("/a") }, Some("fragments"), "made of it");
    refused(File { fragments: vec!["/a/".into()], ..exists("/a/b/c") }, Some("fragments"), "made of it");
    accepted(File { fragments: vec!["/aa".into(), "/a/b/cc".into()], ..exists("/a/b/c") });
    refused(purged(with_content(exists("/a/b"))), Some("purge"), "directories");
    refused(purged(with_fragments(exists("/a/b"))), Some("purge"), "directories");
    refused(purged(exists("/a/b")), Some("purge"), "ends in a slash");
    refused(linked(with_content(exists("/a"))), Some("source"), "needs a `source`");
    refused(linked(with_content(file("/a"))), None, "can't have");
    refused(linked(with_fragments(file("/a"))), None, "can't have");
    refused(recursive(linked(with_source(exists("/a"), "b"))), None, "nothing below");
    refused(purged(linked(with_source(exists("/a"), "b"))), None, "nothing below");
    refused(File { mode: "u+x".into(), ..exists("/a") }, Some("mode"), "relative");
    refused(File { mode: "4777".into(), ..exists("/a") }, Some("mode"), "anyone");
    accepted(File { mode: "2777".into(), ..exists("/a/") });
    refused(File { selinux: Some("a\0".into()), ..exists("/a") }, Some("selinux"), "NUL");

    accepted(linked(with_source(exists("/a"), "../relative")));
    accepted(linked(file("/a")));
    accepted(linked(absent("/a")));
    accepted(recursive(with_source(exists("/a/"), "/b/")));
    accepted(purged(exists("/a/b/")));
    accepted(File { owner: "nobody-yet".into(), group: "\u{e9}".into(), ..exists("/a") });
    refused(with_source(exists("/a"), "b"), Some("source"), "not absolute");
    refused(linked(with_source(exists("/a"), "b\0")), Some("source"), "NUL");
}

#[test]
fn a_slip_of_the_pen_does_not_remove_the_system() {
    let absent = |path: &str| File { state: "absent".into(), recurse: true, ..file(path) };
    let purge = |path: &str| File { state: "exists".into(), purge: true, recurse: true, ..file(path) };
    for path in ["/", "//", "/.", "/a/.."] {
        refused(File { force: true, ..absent(path) }, Some("state"), "root directory");
        refused(File { force: true, ..purge(path) }, Some("purge"), "root directory");
    }
    for removal in [absent("/etc/"), absent("/etc"), purge("/etc/")] {
        let invalid = validate(&removal).unwrap_err();
        assert!(invalid.message.contains("at the top of the file system"));
        assert!(invalid.hint.unwrap().contains("`force => true`"));
        accepted(File { force: true, ..removal });
    }
    accepted(absent("/srv/x/"));
    accepted(File { recurse: false, ..absent("/srv/") });
}

#[test]
fn a_tree_and_its_source_must_not_overlap() {
    let copy = |source: &str, path: &str| File {
        state: "exists".into(),
        source: source.into(),
        recurse: true,
        ..file(path)
    };
    refused(copy("/a/", "/a/"), Some("source"), "its own source");
    refused(copy("/a/", "/a/b/"), Some("source"), "its own source");
    refused(File { purge: true, ..copy("/a/b/c/", "/a/b/") }, Some("source"), "would be purged");
    accepted(copy("/a/b/", "/a/"));
    accepted(copy("/overlay/", "/"));
    accepted(File { purge: true, ..copy("/a/bb/", "/a/b/") });
}

#[test]
fn another_spelling_of_the_same_place_is_the_same_declaration() {
    let name = Str::from("/a/b");
    let same = |a: &File, b: &File| Kind::equivalent(a, &name, b) && Kind::equivalent(b, &name, a);
    let plain = File { state: "exists".into(), ..File::default() };
    for other in [
        File { path: "/a/b".into(), ..plain.clone() },
        File { dirname: "/a/".into(), ..plain.clone() },
        File { basename: "b".into(), ..plain.clone() },
        File { path: "/x/y".into(), dirname: "/a/".into(), basename: "b".into(), ..plain.clone() },
        File { state: "present".into(), ..plain.clone() },
    ] {
        assert!(same(&plain, &other), "{other:?}");
    }
    for other in [
        File { path: "/a/b/".into(), ..plain.clone() },
        File { state: "absent".into(), ..plain.clone() },
        File { content: Some("".into()), ..plain.clone() },
        File { mode: "0644".into(), ..plain.clone() },
        File { atomic: false, ..plain.clone() },
        File { selinux: Some("".into()), ..plain.clone() },
    ] {
        assert!(!same(&plain, &other), "{other:?}");
    }
    let octal = File { mode: "0660".into(), ..plain.clone() };
    assert!(!same(&octal, &File { mode: "ug=rw,o=".into(), ..plain }));
}

#[test]
fn everything_that_the_content_comes_from_is_watched() {
    let watch = |path: &str, recursive| Watch::Path { path: path.into(), recursive };
    let watches = |file: &File| Kind::watches(file, &"/name".into());
    assert_eq!(watches(&File::default()), [watch("/name", false)]);
    assert_eq!(watches(&File { recurse: true, ..file("/a/") }), [watch("/a/", true)]);
    let copy = File { source: "/s".into(), ..file("/a") };
    assert_eq!(watches(&copy), [watch("/a", false), watch("/s", false)]);
    let tree = File { source: "/s/".into(), recurse: true, ..file("/a/") };
    assert_eq!(watches(&tree), [watch("/a/", true), watch("/s/", true)]);
    let joined = File { fragments: vec!["/x".into(), "/y/".into()], ..file("/a") };
    assert_eq!(watches(&joined), [watch("/a", false), watch("/x", false), watch("/y/", false)]);
    let link = File { source: "../text".into(), symlink: true, ..file("/a") };
    assert_eq!(watches(&link), [watch("/a", false)]);
    assert_eq!(watches(&file("not a path")), []);
}

#[test]
fn parents_accounts_and_inputs_come_first() {
    let path = |path: &str| Identity::Path(path.into());
    let before = |identities: &[Identity]| Want::Each(Order::Before, identities.to_vec());
    let wants = |file: &File| Kind::wants(file, &"/name".into());
    assert_eq!(wants(&file("/a/b")), [Want::ParentOf("/a/b".into())]);
    assert_eq!(
        wants(&File { state: "absent".into(), owner: "joe".into(), ..file("/a/b/") }),
        [Want::ParentOf("/a/b/".into())]
    );
    let owned = File { owner: "joe".into(), group: "100".into(), source: "/s".into(), ..file("/a/b") };
    let identities = [path("/s"), Identity::User("joe".into()), Identity::GroupNumber(100)];
    assert_eq!(wants(&owned), [before(&identities), Want::ParentOf("/a/b".into())]);
    let joined = File { fragments: vec!["/x".into(), "/y/".into()], ..file("/a") };
    assert_eq!(wants(&joined), [before(&[path("/x"), path("/y/")]), Want::ParentOf("/a".into())]);
    let tree = File { source: "/s/".into(), recurse: true, ..file("/a/") };
    assert_eq!(
        wants(&tree),
        [Want::Below("/s/".into()), before(&[path("/s/")]), Want::ParentOf("/a/".into())]
    );
    let link = File { source: "/target".into(), symlink: true, ..file("/a") };
    assert_eq!(wants(&link), [Want::ParentOf("/a".into())]);
    assert_eq!(Kind::provides(&file("/a//b/"), &"/name".into()), [path("/a/b/")]);
}

#[test]
fn the_schema_has_all_parameters_in_their_order() {
    let schema = mgmt_resource::schema_of::<File>();
    let names: Vec<_> = schema.fields.iter().map(|field| field.name).collect();
    assert_eq!(
        names,
        [
            "path",
            "dirname",
            "basename",
            "state",
            "content",
            "source",
            "fragments",
            "owner",
            "group",
            "mode",
            "recurse",
            "force",
            "purge",
            "symlink",
            "selinux",
            "atomic",
            "modechange",
            "createonly",
            "validatecmd",
            "backup",
            "sourcemode",
            "spread",
            "keepdirectories",
            "instead",
            "anytype",
            "showdiff",
            "bucket",
            "checksum",
            "mirrors",
            "authorities",
            "refetch",
            "keep"
        ]
    );
    assert!(schema.field("content").unwrap().optional && schema.field("selinux").unwrap().optional);
    let traits = schema.traits;
    assert!(
        traits.edges && traits.receive && traits.reverse && traits.query && traits.blocking && !traits.group
    );
    assert!(File::default().atomic);
}

#[test]
fn the_content_is_not_shown_to_those_who_only_debug() {
    let shown = format!("{:?}", File { content: Some("secret".into()), ..file("/a") });
    assert!(shown.contains("6 bytes") && !shown.contains("secret"), "{shown}");
}
