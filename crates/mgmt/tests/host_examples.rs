//! Every example that changes the host beyond a directory is run by the real program, on a view of this machine on which
//! every change is thrown away: it says what it would change and changes nothing, then it converges, and then all is right.
#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use std::path::Path;
use std::process::Command;

use common::Said;

/// Mounts an empty file system of memory, this machine's files below it, and runs the program there, three times.
const HOST: &str = r#"
set -e
place=$1 program=$2 graph=$3
mount -t tmpfs tmpfs "$place"
mkdir "$place/upper" "$place/work" "$place/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$place/upper,workdir=$place/work" "$place/root"
cd "$place/root"
mount -t proc proc proc
mount -t tmpfs tmpfs run
mount --rbind /dev dev
touch mgmt-test-program
mount --bind "$program" mgmt-test-program
cp "$graph" mgmt-test-graph.yaml
hostname test-host
run() {
    echo "$1:"
    shift
    chroot . /mgmt-test-program run --prefix /mgmt-test-prefix --converger-timeout=0 --converged-exit --max-runtime=60 "$@" \
        yaml /mgmt-test-graph.yaml 2>&1
}
state() { find etc home var -type f ! -name .pwd.lock -exec stat --format='%n %i %Z' {} + | sort | sha256sum; }
before=$(state)
run looking --noop
test "$before" = "$(state)"
run applying
before=$(state)
run again
test "$before" = "$(state)"
"#;

#[test]
fn examples_for_a_host_look_converge_and_are_right_the_second_time() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/yaml/host");
    let mut files: Vec<_> = std::fs::read_dir(examples).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 6, "only {} examples", files.len());
    for file in files {
        let place = tempfile::tempdir().unwrap();
        let output = Command::new("unshare")
            .args([
                "--mount",
                "--propagation",
                "private",
                "--pid",
                "--fork",
                "--kill-child",
                "--uts",
                "--net",
                "--",
            ])
            .args(["sh", "-c", HOST, "host"])
            .arg(place.path())
            .arg(env!("CARGO_BIN_EXE_mgmt"))
            .arg(&file)
            .current_dir("/")
            .output()
            .unwrap_or_else(|error| panic!("this test needs unshare: {error}"));
        let said = Said::from(output);
        assert_eq!(said.code, 0, "{}:\n{}{}", file.display(), said.stdout, said.stderr);
        let (looking, rest) = said.stdout.split_once("applying:").unwrap();
        let (applying, again) = rest.split_once("again:").unwrap();
        assert!(looking.contains("would change"), "{}: {looking}", file.display());
        assert!(!applying.contains(" 0 changed, 0 failed"), "{}: {applying}", file.display());
        assert!(again.contains(" 0 changed, 0 failed"), "{}: {again}", file.display());
    }
}
