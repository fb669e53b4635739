//! What the program can say about where it comes from: commit and date.
//!
//! Only builds for others look: a build for development would otherwise be made again after every commit, or lie. Whoever builds without
//! git says it in `MGMT_COMMIT`, or the program does without. Nothing here depends on when it was built, so that two builds of the
//! same sources are the same.
#![allow(clippy::print_stdout, reason = "this is how cargo is told")]

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=MGMT_COMMIT");
    println!("cargo::rerun-if-env-changed=SOURCE_DATE_EPOCH");
    println!("cargo::rerun-if-changed=build.rs");
    let variable = |name| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
    let is_release = variable("PROFILE").is_some_and(|profile| profile == "release");
    if is_release {
        for file in ["HEAD", "logs/HEAD"] {
            if let Some(path) = git(&["rev-parse", "--git-path", file]) {
                println!("cargo::rerun-if-changed={path}");
            }
        }
    }
    let look = |arguments: &[&str]| if is_release { git(arguments) } else { None };
    let commit = variable("MGMT_COMMIT").or_else(|| look(&["rev-parse", "--verify", "HEAD"]));
    // A date of zero is none at all.
    let epoch = variable("SOURCE_DATE_EPOCH").or_else(|| look(&["log", "-1", "--format=%ct"]));
    let epoch = epoch.and_then(|text| text.trim().parse().ok()).unwrap_or(0_u64);
    println!("cargo::rustc-env=MGMT_BUILD_COMMIT={}", commit.as_deref().map_or("", str::trim));
    println!("cargo::rustc-env=MGMT_BUILD_EPOCH={epoch}");
    println!("cargo::rustc-env=MGMT_BUILD_TARGET={}", variable("TARGET").unwrap_or_default());
}

/// What git says, if it is there and this is a repository.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned()).filter(|text| !text.is_empty())
}
