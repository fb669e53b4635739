//! A Debian package of a tree.

use flate2::Compression;
use md5::{Digest as _, Md5};

use crate::elf::Needs;
use crate::tarball::Archive;
use crate::{File, Release, ReleaseError, Result, Tree, gzip};

/// What happens to the services with an installation, an upgrade and a removal. The same that debhelper would write.
const SCRIPTS: [(&str, &str); 3] = [
    ("postinst", include_str!("../../../contrib/debian/postinst")),
    ("prerm", include_str!("../../../contrib/debian/prerm")),
    ("postrm", include_str!("../../../contrib/debian/postrm")),
];

/// The part of the version that counts packages of one version.
const REVISION: &str = "1";

/// The version of the package.
pub fn version(release: &Release) -> String {
    // `-` parts the revision, and `~` sorts before everything: `1.0.0-rc.1` is older than `1.0.0`.
    format!("{}-{REVISION}", release.version.replace('-', "~"))
}

/// The usual name of the file.
pub fn file_name(release: &Release, needs: &Needs) -> String {
    format!("mgmt_{}_{}.deb", version(release), needs.machine.debian())
}

/// The package.
pub fn write(tree: &Tree, release: &Release, needs: &Needs, level: Compression) -> Result<Vec<u8>> {
    let mut data = Archive::new(release);
    data.directory("./")?;
    for directory in tree.directories() {
        data.directory(&format!("./{directory}/"))?;
    }
    for (path, file) in tree.files() {
        data.file(&format!("./{path}"), &file.content, file.executable)?;
    }
    let mut inside = Archive::new(release);
    inside.directory("./")?;
    inside.file("./conffiles", conffiles(tree).as_bytes(), false)?;
    inside.file("./control", control(tree, release, needs)?.as_bytes(), false)?;
    inside.file("./md5sums", sums(tree).as_bytes(), false)?;
    for (name, script) in SCRIPTS {
        inside.file(&format!("./{name}"), script.as_bytes(), true)?;
    }
    let mut package = b"!<arch>\n".to_vec();
    member(&mut package, release, "debian-binary", b"2.0\n");
    member(&mut package, release, "control.tar.gz", &gzip(&inside.finish()?, Compression::best())?);
    member(&mut package, release, "data.tar.gz", &gzip(&data.finish()?, level)?);
    Ok(package)
}

/// A file in the outer archive, which is that of `ar`.
fn member(package: &mut Vec<u8>, release: &Release, name: &str, content: &[u8]) {
    let (epoch, size) = (release.epoch, content.len());
    package.extend(format!("{name:16}{epoch:<12}{:6}{:6}{:8}{size:<10}`\n", 0, 0, 100_644).bytes());
    package.extend(content);
    if content.len() % 2 == 1 {
        package.push(b'\n');
    }
}

fn conffiles(tree: &Tree) -> String {
    let paths = tree.files().filter(|(_, file)| file.configuration);
    paths.map(|(path, _)| format!("/{path}\n")).collect()
}

/// The checksums of the files, by which `dpkg --verify` finds accidents. They guard nothing.
fn sums(tree: &Tree) -> String {
    let hex =
        |content: &[u8]| Md5::digest(content).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let line = |(path, file): (&str, &File)| format!("{}  {path}\n", hex(&file.content));
    tree.files().filter(|(_, file)| !file.configuration).map(line).collect()
}

fn control(tree: &Tree, release: &Release, needs: &Needs) -> Result<String> {
    let sizes = tree.files().map(|(_, file)| (file.content.len() as u64).div_ceil(1024));
    let size: u64 = sizes.sum::<u64>() + tree.directories().len() as u64;
    let depends = match depends(needs)? {
        depends if depends.is_empty() => String::new(),
        depends => format!("Depends: {}\n", depends.join(", ")),
    };
    Ok(format!(
        "Package: mgmt\n\
         Version: {version}\n\
         Architecture: {architecture}\n\
         Maintainer: {maintainer}\n\
         Installed-Size: {size}\n\
         {depends}\
         Suggests: augeas-tools, etcd-client, etcd-server, git, graphviz, openssh-client, packagekit, puppet-agent\n\
         Section: admin\n\
         Priority: optional\n\
         Description: keeps a host in a desired state, in real time\n \
         mgmt reads a description of what a host shall be like, brings it there, and\n \
         watches for whatever changes that: a file that is edited, a service that\n \
         stops, a package that goes. It puts it right as soon as it happens.\n \
         .\n \
         Descriptions are programs in a language of their own, graphs in YAML, or\n \
         manifests of Puppet. Hosts can share values and share work through a store\n \
         that they serve themselves.\n",
        version = version(release),
        architecture = needs.machine.debian(),
        maintainer = release.maintainer,
    ))
}

/// The packages that have the libraries of the binary.
fn depends(needs: &Needs) -> Result<Vec<String>> {
    let mut packages = Vec::new();
    for library in &needs.libraries {
        let package = match library.as_str() {
            "libc.so.6"
            | "libm.so.6"
            | "ld-linux-x86-64.so.2"
            | "ld-linux-aarch64.so.1"
            | "libpthread.so.0"
            | "libdl.so.2"
            | "librt.so.1" => match needs.glibc {
                Some((major, minor)) => format!("libc6 (>= {major}.{minor})"),
                None => "libc6".to_owned(),
            },
            "libgcc_s.so.1" => "libgcc-s1".to_owned(),
            other => return Err(ReleaseError::new(format!("no package is known for {other}"))),
        };
        if !packages.contains(&package) {
            packages.push(package);
        }
    }
    Ok(packages)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elf::Machine;

    fn needs(libraries: &[&str]) -> Needs {
        let libraries = libraries.iter().map(|name| (*name).to_owned()).collect();
        Needs { machine: Machine::Amd64, libraries, glibc: Some((2, 34)) }
    }

    fn package(epoch: u64) -> Vec<u8> {
        let mut tree = Tree::default();
        tree.add("usr/bin/mgmt", "program").executable = true;
        tree.add("etc/mgmt/mgmt.conf", "# nothing\n").configuration = true;
        let release = Release::new("1.2.3-rc.1", epoch);
        write(&tree, &release, &needs(&[]), Compression::fast()).unwrap()
    }

    #[test]
    fn the_same_gives_the_same_bytes() {
        assert_eq!(package(1), package(1));
        assert_ne!(package(1), package(2));
    }

    #[test]
    fn files_are_listed_with_their_checksums() {
        let mut tree = Tree::default();
        tree.add("usr/bin/a", "abc");
        tree.add("usr/bin/b", "");
        tree.add("etc/c", "settings").configuration = true;
        let expected =
            "900150983cd24fb0d6963f7d28e17f72  usr/bin/a\nd41d8cd98f00b204e9800998ecf8427e  usr/bin/b\n";
        assert_eq!(sums(&tree), expected);
    }

    #[test]
    fn a_package_depends_on_what_its_binary_needs() {
        assert!(depends(&needs(&[])).unwrap().is_empty());
        let found = depends(&needs(&["libgcc_s.so.1", "libm.so.6", "libc.so.6"])).unwrap();
        assert_eq!(found, ["libgcc-s1", "libc6 (>= 2.34)"]);
        assert!(depends(&needs(&["libsurprise.so.1"])).is_err());
    }

    #[test]
    fn dpkg_reads_what_we_write() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("mgmt.deb");
        std::fs::write(&file, package(1_763_251_200)).unwrap();
        let told = |arguments: &[&str]| {
            let output = std::process::Command::new("dpkg-deb").args(arguments).arg(&file).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).unwrap()
        };
        let info = told(&["--info"]);
        for part in ["Version: 1.2.3~rc.1-1", "Architecture: amd64", "postinst", "/etc/mgmt/mgmt.conf"] {
            assert!(info.contains(part) || part.starts_with('/'), "{part}: {info}");
        }
        assert!(!info.contains("Depends:"), "{info}");
        let contents = told(&["--contents"]);
        assert!(contents.contains("-rwxr-xr-x root/root"), "{contents}");
        assert!(contents.contains("./usr/bin/mgmt"), "{contents}");
    }
}
