//! The files of a release: the program, and what belongs to it.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use flate2::Compression;

use crate::{Inventory, Release, ReleaseError, Result, Tree, deb, gzip, licenses, sbom};

const SERVICE: &str = include_str!("../../../contrib/systemd/mgmt.service");
const FIRSTBOOT: &str = include_str!("../../../contrib/systemd/mgmt-firstboot.service");
const CATALOG: &str = include_str!("../../../contrib/systemd/mgmt.catalog");
const SYSUSERS: &str = include_str!("../../../contrib/systemd/mgmt.sysusers");
const TMPFILES: &str = include_str!("../../../contrib/systemd/mgmt.tmpfiles");
const CONFIGURATION: &str = include_str!("../../../contrib/mgmt.conf");
const COPYRIGHT: &str = include_str!("../../../contrib/debian/copyright");
const CHANGES: &str = include_str!("../../../CHANGELOG.md");

/// Where systemd looks for the units of packages.
const UNITS: &str = "usr/lib/systemd/system";
const DOCUMENTS: &str = "usr/share/doc/mgmt";

/// Where each shell looks for completions.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/mgmt"),
    ("zsh", "usr/share/zsh/vendor-completions/_mgmt"),
    ("fish", "usr/share/fish/vendor_completions.d/mgmt.fish"),
];

/// Puts together what is shipped with a binary, which has to run here.
pub fn tree(binary: &Path, inventory: &Inventory, release: &Release) -> Result<Tree> {
    let mut tree = Tree::default();
    let program = std::fs::read(binary)
        .map_err(|error| ReleaseError::new(format!("cannot read {}: {error}", binary.display())))?;
    tree.add("usr/bin/mgmt", program).executable = true;
    tree.add(format!("{UNITS}/mgmt.service"), SERVICE);
    tree.add(format!("{UNITS}/mgmt-firstboot.service"), FIRSTBOOT);
    tree.add("usr/lib/systemd/catalog/mgmt.catalog", CATALOG);
    tree.add("usr/lib/sysusers.d/mgmt.conf", SYSUSERS);
    tree.add("usr/lib/tmpfiles.d/mgmt.conf", TMPFILES);
    tree.add("etc/mgmt/mgmt.conf", CONFIGURATION).configuration = true;
    for (shell, path) in COMPLETIONS {
        tree.add(path, told(binary, &["completions", shell])?);
    }
    pages(&mut tree, binary)?;
    let mut document = |name: &str, text: &str| -> Result<()> {
        tree.add(format!("{DOCUMENTS}/{name}.gz"), gzip(text.as_bytes(), Compression::best())?);
        Ok(())
    };
    document("changelog", CHANGES)?;
    document("changelog.Debian", &changelog(release))?;
    document("third-party-licenses", &licenses::text(inventory)?)?;
    document("mgmt.cdx.json", &format!("{:#}\n", sbom::cyclonedx(inventory, release)))?;
    document("mgmt.spdx.json", &format!("{:#}\n", sbom::spdx(inventory, release)))?;
    tree.add(format!("{DOCUMENTS}/copyright"), COPYRIGHT);
    Ok(tree)
}

/// The manual pages, as the program writes them.
fn pages(tree: &mut Tree, binary: &Path) -> Result<()> {
    // One process may put together several at once.
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let place = std::env::temp_dir().join(format!("mgmt-release-pages-{}-{number}", std::process::id()));
    let result = (|| {
        std::fs::create_dir(&place).map_err(ReleaseError::new)?;
        let directory = place.to_str().ok_or_else(|| ReleaseError::new("TMPDIR is not valid UTF-8"))?;
        told(binary, &["man", "--output", directory])?;
        for entry in std::fs::read_dir(&place).map_err(ReleaseError::new)? {
            let entry = entry.map_err(ReleaseError::new)?;
            let page = std::fs::read(entry.path()).map_err(ReleaseError::new)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            tree.add(format!("usr/share/man/man1/{name}.gz"), gzip(&page, Compression::best())?);
        }
        Ok(())
    })();
    // What stays behind in the directory for temporary files does no harm.
    let _ = std::fs::remove_dir_all(&place);
    result
}

/// What the program prints.
fn told(binary: &Path, arguments: &[&str]) -> Result<Vec<u8>> {
    let cannot =
        |why: String| ReleaseError::new(format!("{} {}: {why}", binary.display(), arguments.join(" ")));
    // Nothing of this machine may get in.
    let output = Command::new(binary).args(arguments).env_clear().output();
    let output = output.map_err(|error| cannot(error.to_string()))?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(cannot(String::from_utf8_lossy(&output.stderr).into_owned())),
    }
}

/// The changes of the package, of which there is one: its release.
fn changelog(release: &Release) -> String {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    let days = release.epoch / 86400;
    let (year, month, day) = sbom::date(days);
    let time = sbom::time(release.epoch);
    let clock = time.get(11..19).unwrap_or_default();
    let month = usize::try_from(month).ok().and_then(|month| MONTHS.get(month.wrapping_sub(1)));
    let weekday = usize::try_from(days % 7).ok().and_then(|day| DAYS.get(day));
    format!(
        "mgmt ({}) unstable; urgency=medium\n\n  * Release {}; see changelog.gz.\n\n -- {}  {}, {day:02} {} {year} {clock} +0000\n",
        deb::version(release),
        release.version,
        release.maintainer,
        weekday.copied().unwrap_or_default(),
        month.copied().unwrap_or_default(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_changelog_has_a_date_as_debian_writes_it() {
        let text = changelog(&Release::new("1.0.0", 1_763_290_000));
        assert!(text.ends_with(">  Sun, 16 Nov 2025 10:46:40 +0000\n"), "{text}");
        assert!(text.starts_with("mgmt (1.0.0-1) unstable; urgency=medium\n"), "{text}");
    }
}
