//! Threats 1 and 9 as one table: everything that opens a path a program names, against everything hostile that could be there.
//!
//! Functions and kinds follow one rule (`mgmt_sys::trusted`): regular files only, a non-blocking open, and no symbolic link that
//! another user may have planted. Every kind is in one of the lists, so a new one cannot be forgotten; that every function is covered is
//! the table of `crates/funcs/tests/host_access.rs`.

use std::collections::BTreeSet;
use std::fs::FileType;
use std::os::unix::fs::{FileTypeExt as _, lchown, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

use mgmt_test_support::program::mgmt_output;

/// A program that opens the path `{P}`. What it makes is at `{O}`.
struct Reader {
    /// The kind, or the function with its module.
    name: &'static str,
    program: &'static str,
    /// A symbolic link is kept as a link, and not followed.
    keeps_links: bool,
}

const fn refuses(name: &'static str, program: &'static str) -> Reader {
    Reader { name, program, keeps_links: false }
}

const READERS: &[Reader] = &[
    refuses("file", r#"file "{P}" { state => "exists", content => "new", }"#),
    refuses("file", r#"file "{P}" { mode => "0600", fragments => ["/etc/hostname",], state => "exists", }"#),
    refuses("file", r#"file "{O}" { state => "exists", source => "{P}", }"#),
    refuses("line", r#"line "l" { file => "{P}", state => "exists", content => "x", }"#),
    refuses(
        "ini",
        r#"ini "i" { file => "{P}", state => "exists", section => "s", setting => "k", value => "v", }"#,
    ),
    refuses("json:edit", r#"json:edit "{P}" { edits => [".a = 1",], }"#),
    refuses("host", r#"host "h.test" { file => "{P}", state => "exists", ip => "192.0.2.1", }"#),
    refuses(
        "ssh:known_host",
        r#"ssh:known_host "h.test" { file => "{P}", state => "exists", type => "ssh-ed25519", key => "AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f", }"#,
    ),
    refuses(
        "ssh:authorized_key",
        r#"ssh:authorized_key "k" { file => "{P}", state => "exists", type => "ssh-ed25519", key => "AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f", }"#,
    ),
    refuses("gzip", r#"gzip "{O}" { input => "{P}", }"#),
    refuses("gzip", r#"gzip "{P}" { content => "new", }"#),
    Reader { name: "tar", program: r#"tar "{O}" { inputs => ["{P}",], }"#, keeps_links: true },
    refuses("tar", r#"tar "{P}" { inputs => ["/etc/hostname",], }"#),
    refuses("deploy:tar", r#"deploy:tar "{P}" {}"#),
    refuses("sysctl", r#"sysctl "kernel.ostype" { value => "Linux", runtime => false, path => "{P}", }"#),
    refuses(
        "os.readfile",
        "import \"os\"\nfile \"{O}\" { state => \"exists\", content => os.readfile(\"{P}\"), }",
    ),
    refuses(
        "golang/os.read_file",
        "import \"golang/os\" as os\nfile \"{O}\" { state => \"exists\", content => os.read_file(\"{P}\"), }",
    ),
];

/// The kinds that open no path of the program's choice.
const OTHERS: &str = "cron crontab debconf exec exit firewalld group gsettings hostname http:server http:server:flag \
    http:server:proxy http:server:ui http:server:ui:input kv mount msg net noop nspawn password pippet pkg print remote \
    schedule svc test tidy timer user value";

/// The kinds that do so through something else, and the test that shows what that makes of it.
const ELSEWHERE: [(&str, &str); 2] = [
    ("augeas", "crates/resources/tests/kinds/augeas.rs"),
    ("http:server:file", "crates/resources/tests/kinds/http_hostile.rs"),
];

#[test]
fn threat_09_every_kind_is_in_the_table_of_readers() {
    let known: BTreeSet<&str> = (READERS.iter().map(|reader| reader.name).filter(|name| !name.contains('.')))
        .chain(OTHERS.split_whitespace())
        .chain(ELSEWHERE.map(|(kind, _)| kind))
        .collect();
    let said = mgmt_output(&["kinds"]);
    let kinds: BTreeSet<&str> =
        said.stdout.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(known, kinds);
    for (_, test) in ELSEWHERE {
        assert!(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(test).exists(), "{test}");
    }
}

#[test]
fn threat_09_special_files_and_planted_links_are_refused() {
    let home = tempfile::tempdir().unwrap();
    let at = |name: &str| home.path().join(name);
    std::fs::write(at("secret"), "root's secret").unwrap();
    std::fs::create_dir(at("theirs")).unwrap();
    std::os::unix::fs::chown(at("theirs"), Some(12345), Some(12345)).unwrap();
    let make = |program: &str, path: &Path, last: &[&str]| {
        assert!(Command::new(program).arg(path).args(last).status().unwrap().success());
    };
    let plant = |path: &Path| {
        symlink(at("secret"), path).unwrap();
        lchown(path, Some(12345), Some(12345)).unwrap();
    };
    type Obstacle<'a> = (&'static str, &'a dyn Fn(&Path), fn(&FileType) -> bool);
    let obstacles: [Obstacle<'_>; 4] = [
        ("FIFO", &|path| make("mkfifo", path, &[]), FileType::is_fifo),
        ("character device", &|path| make("mknod", path, &["c", "1", "5"]), FileType::is_char_device),
        ("socket", &|path| drop(UnixListener::bind(path).unwrap()), FileType::is_socket),
        ("link", &plant, FileType::is_symlink),
    ];
    let (path, output) = (at("theirs/path.conf"), at("output"));
    for (word, put, is_still) in &obstacles {
        for reader in READERS {
            put(&path);
            let program = reader.program.replace("{P}", path.to_str().unwrap());
            let program = program.replace("{O}", output.to_str().unwrap());
            let run = mgmt_output(&[
                "run",
                "--tmp-prefix",
                "--converged-timeout=0",
                "--max-runtime=60",
                "lang",
                &program,
            ]);
            let context = format!("{}, {word}: {}", reader.name, run.stderr);
            if reader.keeps_links && *word == "link" {
                assert_eq!(run.code, 0, "{context}");
                let made = std::fs::read(&output).unwrap();
                assert!(!String::from_utf8_lossy(&made).contains("root's secret"), "{context}");
            } else {
                assert_eq!(run.code, 1, "{context}");
                assert!(run.stderr.contains(word), "{context}");
                assert!(!output.exists(), "{context}");
            }
            let found = std::fs::symlink_metadata(&path).unwrap().file_type();
            assert!(is_still(&found), "it was replaced: {context}");
            std::fs::remove_file(&path).unwrap();
            let _ = std::fs::remove_file(&output);
        }
    }
    assert_eq!(std::fs::read_to_string(at("secret")).unwrap(), "root's secret");
}
