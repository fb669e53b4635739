//! `cargo xtask package` and `cargo xtask sbom`: what is shipped, and the list of what it is made of.

use std::process::Command;

use crate::setup;
use crate::step::{Failed, cargo, step, workspace};

/// A program for this target needs no library of the system.
const STATIC: &str = "x86_64-unknown-linux-musl";

/// What was asked for.
#[derive(Debug, PartialEq)]
struct Asked<'a> {
    target: &'a str,
    binary: Option<&'a str>,
    output: Option<&'a str>,
}

/// Builds the program as it is released, and writes a Debian package and a tarball.
pub(crate) fn run(arguments: &[&str]) -> Result<(), Failed> {
    let asked = read(arguments)?;
    let (output, epoch) = (output(&asked), epoch());
    let binary = match asked.binary {
        Some(binary) => binary.to_owned(),
        None => build(asked.target, &epoch)?,
    };
    let mut release = release(&epoch);
    step(release.args(["package", &binary, asked.target, &output]))
}

/// Writes the list of what the program is made of.
pub(crate) fn sbom(arguments: &[&str]) -> Result<(), Failed> {
    let asked = read(arguments)?;
    step(release(&epoch()).args(["sbom", asked.target, &output(&asked)]))
}

fn release(epoch: &str) -> Command {
    let mut command = Command::new(cargo());
    command.args(["run", "--quiet", "--package", "mgmt-release", "--"]).env("SOURCE_DATE_EPOCH", epoch);
    command
}

/// Builds for a target. The paths of this machine are no part of the program.
fn build(target: &str, epoch: &str) -> Result<String, Failed> {
    if setup::is_there("rustup") {
        step(Command::new("rustup").args(["target", "add", target]))?;
    }
    if target.ends_with("-linux-musl") && !setup::is_there("musl-gcc") {
        return Err(Failed::new("a static program needs musl-gcc (package musl-tools)"));
    }
    let mut command = Command::new(cargo());
    command.args(["build", "--release", "--locked", "--package", "mgmt", "--target", target]);
    let (mut flags, mut of_c) = (variable("RUSTFLAGS"), variable("CFLAGS"));
    let homes = [
        (Some(workspace()), "/mgmt"),
        (home("CARGO_HOME", ".cargo"), "/cargo"),
        (home("RUSTUP_HOME", ".rustup"), "/rustup"),
    ];
    for (path, name) in homes {
        if let Some(path) = path {
            flags.push_str(&format!(" --remap-path-prefix={}={name}", path.display()));
            of_c.push_str(&format!(" -ffile-prefix-map={}={name}", path.display()));
        }
    }
    command.env("SOURCE_DATE_EPOCH", epoch).env("RUSTFLAGS", flags.trim()).env("CFLAGS", of_c.trim());
    step(&mut command)?;
    let directory =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace().join("target"), Into::into);
    Ok(directory.join(target).join("release/mgmt").display().to_string())
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}

fn home(variable: &str, usual: &str) -> Option<std::path::PathBuf> {
    let home = || std::env::home_dir().map(|home| home.join(usual));
    std::env::var_os(variable).map(Into::into).or_else(home)
}

/// The time of the release: as somebody says, or that of the commit.
fn epoch() -> String {
    if let Ok(epoch) = std::env::var("SOURCE_DATE_EPOCH") {
        return epoch;
    }
    let output = Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(workspace()).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    text.ok().filter(|text| !text.is_empty()).unwrap_or_else(|| "0".to_owned())
}

fn output(asked: &Asked<'_>) -> String {
    asked.output.map_or_else(|| workspace().join("target/package").display().to_string(), str::to_owned)
}

fn read<'a>(mut arguments: &[&'a str]) -> Result<Asked<'a>, Failed> {
    let mut asked = Asked { target: STATIC, binary: None, output: None };
    while let [flag, rest @ ..] = arguments {
        let [value, rest @ ..] = rest else { return Err(Failed::new(format!("{flag}: expected a value"))) };
        match *flag {
            "--target" => asked.target = value,
            "--binary" => asked.binary = Some(value),
            "--output" => asked.output = Some(value),
            _ => return Err(Failed::new(format!("{flag}: expected --target, --binary or --output"))),
        }
        arguments = rest;
    }
    Ok(asked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_static_unless_told_otherwise() {
        assert_eq!(read(&[]).unwrap(), Asked { target: STATIC, binary: None, output: None });
        let told = read(&["--target", "t", "--binary", "b", "--output", "o"]).unwrap();
        assert_eq!(told, Asked { target: "t", binary: Some("b"), output: Some("o") });
        assert!(read(&["--target"]).is_err() && read(&["t", "u"]).is_err());
    }
}
