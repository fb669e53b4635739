//! The comparison of tools works: mgmt and the raw loop with a few files, everything once, without other tools and without waiting.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics is a test that fails")]

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The program, which lies beside the benchmarks; built now if somebody has built only these.
fn mgmt() -> PathBuf {
    let path = Path::new(env!("CARGO_BIN_EXE_mgmt-bench")).with_file_name("mgmt");
    if !path.exists() {
        let built = Command::new(env!("CARGO")).args(["build", "--package", "mgmt"]).status().unwrap();
        assert!(built.success() && path.exists(), "{} is not built", path.display());
    }
    path
}

fn compare(arguments: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_mgmt-bench"))
        .arg("--mgmt")
        .arg(mgmt())
        .arg("compare")
        .args(arguments)
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    (output.status.code(), said.concat())
}

#[test]
fn a_small_comparison_has_a_figure_of_ours_in_every_row() {
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("page.md");
    let words = "--quick --largest 20 --idle 1 --without puppet,cfengine,ansible,pyinfra --output";
    let arguments: Vec<&str> = words.split(' ').chain(page.to_str()).collect();
    let (code, said) = compare(&arguments);
    assert_eq!(code, Some(0), "{said}");

    let page = std::fs::read_to_string(&page).unwrap();
    assert!(page.contains("first in every row, apart from the raw loop: **yes**"), "{page}");
    assert!(!page.contains("has not ended"), "{page}");
    let text = std::fs::read_to_string(directory.path().join("page.json")).unwrap();
    let all: Value = serde_json::from_str(&text).unwrap();
    let rows = all["rows"].as_array().unwrap();
    let works: Vec<&str> = rows.iter().filter_map(|row| row["work"].as_str()).collect();
    let expected = [
        "20 files, cold",
        "20 files, warm",
        "one file, start to done",
        "edit to repaired",
        "20 commands in a chain",
        "check of 20 resources",
        "idle with 20 files: memory",
        "idle with 20 files: processor",
    ];
    assert_eq!(works, expected);
    for row in rows {
        let has = |tool: &str| row["figures"][tool]["value"].is_number();
        assert!(has("mgmt"), "{row}");
        let has_floor =
            ["files,", "one file", "chain"].iter().any(|work| row["work"].to_string().contains(work));
        assert_eq!(has("raw loop"), has_floor, "{row}");
    }
}

#[test]
fn a_comparison_in_which_we_have_no_figure_fails() {
    let words = "--quick --largest 20 --idle 0 --limit 0 --without puppet,cfengine,ansible,pyinfra";
    let (code, said) = compare(&words.split(' ').collect::<Vec<_>>());
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("20 files, cold: no figure of ours"), "{said}");
    assert_eq!(compare(&["--largest", "none"]).0, Some(2));
}
