//! Chores of the project: `cargo xtask setup`, `cargo xtask test`, `cargo xtask bench`, `cargo xtask docs`,
//! `cargo xtask new-kind`, `cargo xtask package`.
//!
//! Plain Rust with next to no dependencies, so that it builds in a moment on a fresh machine. Each chore is one file. What a
//! chore runs is printed before it runs, so that it can be repeated by hand.

mod bench;
mod crates;
mod docs;
mod faults;
mod labs;
mod package;
mod profile;
mod programs;
mod proofs;
mod scaffold;
mod setup;
mod site;
mod soak;
mod step;
mod test;

use std::process::ExitCode;

use step::{Failed, say};

const HELP: &str = "\
Chores of the project

  cargo xtask setup           install the programs that the tests need (Debian and its kin)
  cargo xtask test [ARGS]     set up, then run all tests, or those of `-p PACKAGE`; ARGS go to `cargo test`; the last line has the counts
  cargo xtask test-hosts [ARGS]  the same for the tests of resources alone, on throw-away hosts
  cargo xtask faults [MINUTES] [SEED]  system calls that fail, hosts and servers that die at random, longer than the tests have them do
  cargo xtask races [FLIPS]   exchange what lies at managed paths while they are kept right, a million times for each attacker
  cargo xtask soak [--minutes N]  one run with 2000 resources, another graph each second and random breakage; an hour by default
  cargo xtask chaos [--minutes N]  a booted host whose disks, daemons, names and packages fail, and that heals; ten minutes by default
  cargo xtask fuzz [--minutes N] [TARGET]  hostile input for everything that reads, a minute for each target by default
  cargo xtask labs [SEED]     all labs twice in a row, no second chance: faults, races, threats, fuzzer, soak, threads, simulators, instructions
  cargo xtask bench [GROUPS]  measure, mostly against a raw loop: graphs, lang, flow, memory, latency, start, units, packages, users,
                              shared, deploys, history, puppet, files; all if none is named
  cargo xtask bench compare [--upstream PROGRAM] [--output FILE] [--idle SECONDS] [--largest FILES] [--limit SECONDS] [--without TOOLS] [--quick]
                              the same work by every tool found here (Puppet, CFEngine, Ansible, pyinfra); writes docs/benchmarks.md as it
                              goes; fails if mgmt is not first in every row, or too far from the raw loop
  cargo xtask profile         write where the time of the hottest works goes (docs/explanation/profiles.md); needs perf
  cargo xtask docs            generate docs/reference, the crate map of docs/architecture.md, the site of all documents (target/site) and the API
                              documentation
  cargo xtask docs --check    fail if docs/reference or the crate map is out of date, a crate has a dependency that it does not use, a link
                              leads nowhere, or the API documentation has warnings
  cargo xtask new-kind NAME   add a kind of resources: its file, its tests, and a line in every list that wants all kinds (--help)
  cargo xtask new-function [--live] MODULE.NAME  the same for a function of mcl (--help)
  cargo xtask package [--target T] [--binary FILE] [--output DIR]
                              build the program as it is released, static by default, and make a Debian package and a tarball
  cargo xtask sbom [--target T] [--output DIR]  write what the program is made of, as CycloneDX and SPDX
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["setup"] => setup::run(),
        ["test", rest @ ..] => setup::run().and_then(|()| test::run(rest)),
        ["test-hosts", rest @ ..] => setup::run().and_then(|()| test::hosts(rest)),
        ["faults", rest @ ..] if rest.len() <= 2 => setup::run().and_then(|()| faults::run(rest)),
        ["races", rest @ ..] if rest.len() <= 1 => setup::run().and_then(|()| faults::races(rest)),
        ["labs", rest @ ..] if rest.len() <= 1 => setup::run().and_then(|()| labs::run(rest)),
        ["soak", rest @ ..] => soak::soak(rest),
        ["chaos", rest @ ..] => setup::run().and_then(|()| soak::chaos(rest)),
        ["fuzz", rest @ ..] => soak::fuzz(rest),
        ["bench", rest @ ..] => bench::run(rest),
        ["profile"] => profile::run(),
        ["new-kind", rest @ ..] => scaffold::new_kind(rest),
        ["new-function", rest @ ..] => scaffold::new_function(rest),
        ["package", rest @ ..] => package::run(rest),
        ["sbom", rest @ ..] => package::sbom(rest),
        ["docs"] => docs::run(docs::Mode::Write),
        ["docs", "--check"] => docs::run(docs::Mode::Check),
        [] | ["help" | "-h" | "--help"] => {
            say(HELP);
            return ExitCode::SUCCESS;
        }
        _ => {
            say(HELP);
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failed(why)) if why.is_empty() => ExitCode::FAILURE,
        Err(Failed(why)) => {
            say(&format!("xtask: {why}\n"));
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the help has a chore of this name.
    fn is_known(chore: &str) -> bool {
        HELP.lines().filter_map(|line| line.strip_prefix("  cargo xtask ")).any(|line| {
            line.strip_prefix(chore)
                .is_some_and(|rest| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '-'))
        })
    }

    #[test]
    fn every_chore_in_the_pages_is_known() {
        let (mut open, mut found) = (vec![step::workspace().join("docs")], 0);
        let mut pages = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"]
            .map(|page| step::workspace().join(page))
            .to_vec();
        while let Some(directory) = open.pop() {
            for entry in std::fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() { open.push(path) } else { pages.push(path) }
            }
        }
        for page in pages {
            let text = std::fs::read_to_string(&page).unwrap();
            for rest in text.split("cargo xtask ").skip(1) {
                let chore: String =
                    rest.chars().take_while(|next| next.is_alphanumeric() || *next == '-').collect();
                assert!(is_known(&chore), "{}: there is no `cargo xtask {chore}`", page.display());
                found += 1;
            }
        }
        assert!(found >= 20, "only {found} were found");
        assert!(!is_known("tes") && !is_known("nothing"));
    }
}
