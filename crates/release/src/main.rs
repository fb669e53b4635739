//! Writes what is shipped. Started by `cargo xtask package` and `cargo xtask sbom`, which say what to give it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use flate2::Compression;
use mgmt_release::{Inventory, Release, deb, elf, product, sbom, tarball};

const HELP: &str = "\
mgmt-release package BINARY TARGET OUTPUT   write a Debian package and a tarball
mgmt-release sbom TARGET OUTPUT             write the list of what the program is made of
mgmt-release needs BINARY                   say what a binary asks of a system

SOURCE_DATE_EPOCH is the time of everything in it. MGMT_MAINTAINER says who answers for the package.
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["package", binary, target, output] => package(Path::new(binary), target, Path::new(output)),
        ["sbom", target, output] => write_sbom(target, Path::new(output)),
        ["needs", binary] => needs(Path::new(binary)),
        _ => {
            say(HELP);
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("{error}\n"));
            ExitCode::FAILURE
        }
    }
}

type Done = Result<(), Box<dyn std::error::Error>>;

fn say(text: &str) {
    // There is nobody to tell if that fails.
    let _ = std::io::stderr().write_all(text.as_bytes());
}

fn release() -> Result<Release, Box<dyn std::error::Error>> {
    let epoch = std::env::var("SOURCE_DATE_EPOCH").unwrap_or_default();
    let epoch = epoch.trim().parse().map_err(|_| "SOURCE_DATE_EPOCH: expected seconds since 1970")?;
    let mut release = Release::new(env!("CARGO_PKG_VERSION"), epoch);
    if let Ok(maintainer) = std::env::var("MGMT_MAINTAINER") {
        release.maintainer = maintainer;
    }
    Ok(release)
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn package(binary: &Path, target: &str, output: &Path) -> Done {
    let release = release()?;
    let needs = elf::needs(&std::fs::read(binary)?)?;
    if target.ends_with("-musl") && !needs.is_static() {
        return Err(format!(
            "{} should be static, and asks for {}",
            binary.display(),
            needs.libraries.join(", ")
        )
        .into());
    }
    let tree = product::tree(binary, &Inventory::of(&workspace(), target)?, &release)?;
    std::fs::create_dir_all(output)?;
    let name = format!("mgmt-{}-{}", release.version, target);
    let archive = tarball::write(&tree, &release, &name, Compression::best())?;
    put(output, &format!("{name}.tar.gz"), &archive)?;
    put(
        output,
        &deb::file_name(&release, &needs),
        &deb::write(&tree, &release, &needs, Compression::best())?,
    )?;
    say(&told(&needs));
    Ok(())
}

fn write_sbom(target: &str, output: &Path) -> Done {
    let (release, inventory) = (release()?, Inventory::of(&workspace(), target)?);
    std::fs::create_dir_all(output)?;
    put(output, "mgmt.cdx.json", format!("{:#}\n", sbom::cyclonedx(&inventory, &release)).as_bytes())?;
    put(output, "mgmt.spdx.json", format!("{:#}\n", sbom::spdx(&inventory, &release)).as_bytes())
}

fn needs(binary: &Path) -> Done {
    say(&told(&elf::needs(&std::fs::read(binary)?)?));
    Ok(())
}

fn told(needs: &elf::Needs) -> String {
    let machine = needs.machine.debian();
    match needs.glibc {
        _ if needs.is_static() => format!("static: runs on every Linux for {machine}\n"),
        Some((major, minor)) => {
            format!("runs on {machine} with glibc {major}.{minor} or later: {}\n", needs.libraries.join(", "))
        }
        None => format!("runs on {machine} with {}\n", needs.libraries.join(", ")),
    }
}

fn put(directory: &Path, name: &str, content: &[u8]) -> Done {
    let path = directory.join(name);
    std::fs::write(&path, content)?;
    say(&format!("wrote {} ({} KiB)\n", path.display(), content.len() / 1024));
    Ok(())
}
