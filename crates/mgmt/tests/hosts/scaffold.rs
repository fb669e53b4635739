//! `cargo xtask new-kind` and `cargo xtask new-function`: the pages that begin with them are followed on a view of the work tree.
//!
//! The view is the work tree itself, with the programs that are built already, so that only what a new kind or function changes
//! is compiled. Every change to it is thrown away.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use mgmt_test_support::pages::{blocks, root};
use mgmt_test_support::program::CommandOutput;

/// Lays an overlay over each folder, with its upper layer in memory, and runs commands in the first folder. What is mounted below a
/// folder would be hidden, so all are bound before any is covered; paths are relative because the place itself may be below one.
const SCRIPT: &str = r#"
set -e
place=$1 commands=$2
shift 2
mount -t tmpfs tmpfs "$place"
cd "$place"
number=0
for folder in "$@"; do
    number=$((number + 1))
    mkdir lower$number upper$number work$number
    mount --bind "$folder" lower$number
done
number=0
for folder in "$@"; do
    number=$((number + 1))
    mount -t overlay overlay -o lowerdir=lower$number,upperdir=upper$number,workdir=work$number "$folder"
done
cd "$1"
exec sh -exc "$commands"
"#;

/// Runs commands in the work tree; what they change is gone afterwards.
fn run_on_view(commands: &str) -> CommandOutput {
    mgmt_test_support::require_root!();
    // One at a time: each of them keeps all processors busy.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let place = tempfile::tempdir().unwrap();
    let (root, target) = (root().canonicalize().unwrap(), target());
    let output = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc"])
        .args(["--", "sh", "-c", SCRIPT, "view"])
        .arg(place.path())
        .arg(commands)
        .args([&root, &target])
        .env("CARGO_TARGET_DIR", &target)
        // All that is needed was there to build this test.
        .env("CARGO_NET_OFFLINE", "true")
        .env("CARGO_TERM_COLOR", "never")
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("this test needs unshare: {error}"));
    let said = CommandOutput::from(output);
    assert_eq!(said.code, 0, "{commands}\n{}\n{}", said.stdout, said.stderr);
    said
}

/// The folder that cargo builds in: above this program.
fn target() -> PathBuf {
    let program = std::env::current_exe().unwrap().canonicalize().unwrap();
    let target = program.ancestors().find(|folder| folder.join("CACHEDIR.TAG").exists());
    target.unwrap_or_else(|| panic!("{} is in no folder of cargo", program.display())).to_owned()
}

/// The names of tests that passed, without their modules.
fn passed(said: &CommandOutput, module: &str) -> BTreeSet<String> {
    let lines = said.stdout.lines();
    let names =
        lines.filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... ok")?.strip_prefix(module));
    names.map(str::to_owned).collect()
}

fn page(name: &str) -> String {
    std::fs::read_to_string(root().join("docs").join(name)).unwrap()
}

#[test]
fn a_kind_is_added_as_the_page_says() {
    let page = page("how-to/add-a-kind.md");
    let commands = &blocks(&page, "sh")[0];
    // Whatever else wants every kind is in the same program. In the end, a kind that does nothing has to fail its test.
    let more = "cargo fmt --all --check\n\
                cargo test --workspace --test kinds -- --exact swaps::every_kind_is_in_one_of_the_graphs\n\
                cargo test --workspace --test kinds small_registry::\n\
                echo 'the kind:'; cat crates/resources/src/kinds/motd.rs; echo 'the end of the kind'\n\
                sed -i 's/ file.edit(.*/ Ok(Checked::Right)/' crates/resources/src/kinds/motd.rs\n\
                ! cargo test --workspace --test kinds motd::the_line_is_written_and_changed\n";
    let said = run_on_view(&format!("{commands}{more}"));
    let expected = [
        "a_change_from_outside_is_repaired",
        "invalid_parameters_are_refused",
        "the_line_comes_after_its_directory",
        "the_line_is_written_and_changed",
    ];
    assert_eq!(passed(&said, "motd::"), expected.map(str::to_owned).into(), "{said:?}");
    assert_eq!(passed(&said, "swaps::").len(), 1, "{said:?}");
    assert!(passed(&said, "small_registry::").len() > 5, "{said:?}");
    for listed in blocks(&page, "text") {
        assert!(said.stderr.contains(&listed), "the page shows\n{listed}\n{}", said.stderr);
    }
    let (_, kind) = said.stdout.split_once("the kind:\n").unwrap();
    let (kind, emptied) = kind.split_once("the end of the kind\n").unwrap();
    assert_eq!(blocks(&page, "rust")[0], kind, "the page shows another kind");
    let failed = "test motd::the_line_is_written_and_changed ... FAILED";
    assert!(emptied.contains(failed), "a kind that does nothing passes its test: {said:?}");
    assert!(!root().join("crates/resources/src/kinds/motd.rs").exists(), "the work tree has changed");
}

#[test]
fn a_function_is_added_as_the_page_says() {
    let page = page("how-to/write-a-function.md");
    let chores = |block: &&String| block.starts_with("cargo xtask new-function");
    let commands = blocks(&page, "sh").iter().find(chores).unwrap().clone();
    let more = "cargo xtask new-function --live os.present\n\
                cargo fmt --all --check\n\
                cargo test --workspace --test lang function_examples::\n\
                cargo test --workspace --test host_access\n\
                cat crates/funcs/src/modules/math.rs\n";
    let said = run_on_view(&format!("{commands}{more}"));
    let expected = "every_example_of_every_function_and_operator_holds";
    assert!(passed(&said, "function_examples::").contains(expected), "{said:?}");
    let reached = passed(&said, "");
    for expected in [
        "every_function_that_is_not_pure_says_what_it_reaches",
        "whatever_is_at_a_path_a_function_comes_back_and_is_not_misled",
    ] {
        assert!(reached.contains(expected), "{said:?}");
    }
    let shown = &blocks(&page, "rust")[0];
    assert!(said.stdout.contains(shown), "the page shows\n{shown}\n{}", said.stdout);
}
