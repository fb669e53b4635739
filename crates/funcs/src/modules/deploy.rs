//! `deploy`

use std::io;
use std::path::{Path, PathBuf};

use mgmt_funcs_derive::function;
use mgmt_value::Str;

use crate::declare::module;
use crate::{Failure, FileKind, Host};

module! {
    path: "deploy",
    doc: "Files that were deployed together with the program. They change only with the next deploy.",
    functions: [abspath, readfile, readfileabs, file_exists, directory, binary_path, bootstrap_packages],
}

/// A path below the directory of the file with the call. It begins with a slash, also where none is needed.
fn based(host: &dyn Host, path: &Str) -> Result<PathBuf, Failure> {
    match path.starts_with(b"/") {
        true => Ok(Path::new(host.base()).join(Str::new(&path[1..]).as_path())),
        false => Err(Failure::fatal(format!("the path {path:?} must begin with a slash"))),
    }
}

fn read(host: &dyn Host, path: &Path) -> Result<Str, Failure> {
    let content = host.deploy_read(path);
    content.map(Str::from).map_err(|error| failed("read", path, &error))
}

fn failed(what: &str, path: &Path, error: &io::Error) -> Failure {
    Failure::fatal(format!("can't {what} {}: {error}", path.display()))
}

/// The path of a file within the deploy. The argument begins with a slash and is relative to the file with the call; the
/// empty text gives the directory of that file.
///
/// ```mcl,host
/// deploy.abspath("/files/motd") == "/module/files/motd"
/// ```
#[function(reads)]
fn abspath(host: &dyn Host, path: &Str) -> Result<Str, Failure> {
    if path.is_empty() {
        return Ok(Str::from(host.base()));
    }
    Ok(Str::new(based(host, path)?.as_os_str().as_encoded_bytes()))
}

/// The content of a file of the deploy. The path begins with a slash and is relative to the file with the call.
///
/// A file that cannot be read is a fatal error.
///
/// ```mcl,host
/// deploy.readfile("/files/motd") == "hello\n"
/// ```
#[function(reads)]
fn readfile(host: &dyn Host, filename: &Str) -> Result<Str, Failure> {
    read(host, &based(host, filename)?)
}

/// The content of a file of the deploy, by its path from the root of the deploy.
///
/// A file that cannot be read is a fatal error.
///
/// ```mcl,host
/// deploy.readfileabs("/metadata.yaml") == ""
/// ```
#[function(reads)]
fn readfileabs(host: &dyn Host, filename: &Str) -> Result<Str, Failure> {
    read(host, filename.as_path())
}

/// Whether the deploy has a file or directory. The path begins with a slash and is relative to the file with the call.
///
/// ```mcl,host
/// deploy.file_exists("/files/motd") == true
/// ```
#[function(reads)]
fn file_exists(host: &dyn Host, filename: &Str) -> Result<bool, Failure> {
    let path = based(host, filename)?;
    let kind = host.deploy_kind(&path).map_err(|error| failed("look at", &path, &error))?;
    Ok(kind.is_some())
}

/// Copies a directory of the deploy to this host and returns the path of the copy, which ends with a slash.
///
/// The path begins and ends with a slash and is relative to the file with the call. The copy is made the same as the
/// directory: what is missing is added, what differs is replaced, what is too much is removed. Any failure is fatal.
///
/// ```mcl,host
/// deploy.directory("/files/") == "/var/lib/mgmt/vardir/directory/files/"
/// ```
#[function(reads)]
fn directory(host: &dyn Host, directory: &Str) -> Result<Str, Failure> {
    if !directory.starts_with(b"/") || !directory.ends_with(b"/") {
        return Err(Failure::fatal(format!("the path {directory:?} must begin and end with a slash")));
    }
    let source = based(host, directory)?;
    let below = source.strip_prefix("/").unwrap_or(&source);
    let copy = host.local()?.directory(Path::new("directory").join(below));
    let copy =
        copy.map_err(|error| Failure::fatal(format!("can't make a copy of {directory:?}: {error}")))?;
    mirror(host, &source, &copy)?;
    Ok(Str::new(copy.as_os_str().as_encoded_bytes()))
}

/// Makes a directory of this host the same as one of the deploy.
fn mirror(host: &dyn Host, source: &Path, copy: &Path) -> Result<(), Failure> {
    let names = host.deploy_list(source).map_err(|error| failed("list", source, &error))?;
    let entries = std::fs::read_dir(copy).map_err(|error| failed("list", copy, &error))?;
    for entry in entries {
        let entry = entry.map_err(|error| failed("list", copy, &error))?;
        let name = entry.file_name();
        if !names.iter().any(|wanted| wanted.as_bytes() == name.as_encoded_bytes()) {
            remove(&entry.path())?;
        }
    }
    for name in names {
        if matches!(&*name, b"" | b"." | b"..") || name.contains(&b'/') {
            return Err(Failure::fatal(format!("the deploy has a file with the name {name:?}")));
        }
        let (source, copy) = (source.join(name.as_path()), copy.join(name.as_path()));
        let found = std::fs::symlink_metadata(&copy).ok();
        match host.deploy_kind(&source).map_err(|error| failed("look at", &source, &error))? {
            Some(FileKind::Directory) => {
                if !found.is_some_and(|found| found.is_dir()) {
                    remove(&copy)?;
                    std::fs::create_dir(&copy).map_err(|error| failed("make", &copy, &error))?;
                }
                mirror(host, &source, &copy)?;
            }
            Some(FileKind::File) => {
                let content = read(host, &source)?;
                let same = found.is_some_and(|found| found.is_file())
                    && std::fs::read(&copy).is_ok_and(|present| present == content.as_bytes());
                if !same {
                    remove(&copy)?;
                    std::fs::write(&copy, &*content).map_err(|error| failed("write", &copy, &error))?;
                }
            }
            None => return Err(Failure::fatal(format!("the deploy has lost {}", source.display()))),
        }
    }
    Ok(())
}

/// Removes whatever there is, without following links.
fn remove(path: &Path) -> Result<(), Failure> {
    let removed = match std::fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => std::fs::remove_dir_all(path),
        Ok(_) => std::fs::remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    };
    removed.map_err(|error| failed("remove", path, &error))
}

/// The real path of the running program.
///
/// ```mcl,host
/// deploy.binary_path() == "/usr/bin/mgmt"
/// ```
#[function(reads)]
fn binary_path() -> Result<Str, Failure> {
    let path = std::env::current_exe().and_then(std::fs::canonicalize);
    let path = path.map_err(|error| Failure::fatal(format!("can't find the program: {error}")))?;
    Ok(Str::new(path.as_os_str().as_encoded_bytes()))
}

/// The packages that a distribution (`debian` or `fedora`) needs for all kinds of resources. Any other is a fatal error.
///
/// ```mcl
/// deploy.bootstrap_packages("fedora") == ["augeas-devel", "libvirt-devel", "PackageKit",]
/// ```
#[function(signature = "func(str) []str")]
fn bootstrap_packages(distro: &Str) -> Result<Vec<String>, Failure> {
    let packages = match distro.as_bytes() {
        b"debian" => ["libaugeas-dev", "libvirt-dev", "packagekit-tools"],
        b"fedora" => ["augeas-devel", "libvirt-devel", "PackageKit"],
        _ => {
            return Err(Failure::fatal(format!(
                "unknown distribution {distro:?}, expected debian or fedora"
            )));
        }
    };
    Ok(packages.map(str::to_owned).to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Memory;
    use crate::modules::tests::{Stored, call_on, shown};
    use mgmt_state::LocalState;
    use mgmt_value::Value;

    /// A deploy in a directory of this host.
    struct Deployed {
        files: tempfile::TempDir,
        stored: Stored,
    }

    impl Deployed {
        fn new(files: &[(&str, &str)]) -> Deployed {
            let deployed = Deployed { files: tempfile::tempdir().unwrap(), stored: Stored::new() };
            for (path, content) in files {
                deployed.write(path, content);
            }
            deployed
        }

        fn write(&self, path: &str, content: &str) {
            let path = self.files.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }

        fn at(&self, path: &Path) -> PathBuf {
            self.files.path().join(path.strip_prefix("/").unwrap())
        }

        fn call(&self, name: &str, argument: &str) -> String {
            match call_on(&mut Memory::default(), self, &format!("deploy.{name}"), &[Value::str(argument)]) {
                Ok(value) => value.to_string(),
                Err(Failure::Catchable(message)) => format!("C: {message}"),
                Err(Failure::Fatal(message)) => format!("F: {message}"),
            }
        }
    }

    impl Host for Deployed {
        fn base(&self) -> &str {
            "/module/"
        }
        fn deploy_read(&self, path: &Path) -> io::Result<Vec<u8>> {
            std::fs::read(self.at(path))
        }
        fn deploy_kind(&self, path: &Path) -> io::Result<Option<FileKind>> {
            match std::fs::metadata(self.at(path)) {
                Ok(found) if found.is_dir() => Ok(Some(FileKind::Directory)),
                Ok(_) => Ok(Some(FileKind::File)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(error),
            }
        }
        fn deploy_list(&self, path: &Path) -> io::Result<Vec<Str>> {
            let entries = std::fs::read_dir(self.at(path))?;
            entries.map(|entry| Ok(Str::new(entry?.file_name().as_encoded_bytes()))).collect()
        }
        fn local(&self) -> Result<&LocalState, Failure> {
            self.stored.local()
        }
    }

    #[test]
    fn paths_are_relative_to_the_file_with_the_call() {
        let host = Deployed::new(&[("module/a", "in module"), ("a", "at root"), ("b", "b")]);
        assert_eq!(host.call("abspath", "/a"), r#""/module/a""#);
        assert_eq!(host.call("abspath", ""), r#""/module/""#);
        assert_eq!(host.call("readfile", "/a"), r#""in module""#);
        assert_eq!(host.call("readfileabs", "/a"), r#""at root""#);
        assert_eq!(host.call("file_exists", "/a"), "true");
        assert_eq!(host.call("file_exists", "/b"), "false");
        assert_eq!(host.call("file_exists", "/"), "true");
        for name in ["abspath", "readfile", "file_exists"] {
            assert!(host.call(name, "a").starts_with("F: the path"), "{name}");
        }
        assert!(host.call("readfile", "/none").starts_with("F: can't read /module/none"));
        assert!(shown("deploy.readfile", &[Value::str("/a")]).contains("no deploy is being run"));
    }

    #[test]
    fn a_copy_becomes_the_same() {
        let host = Deployed::new(&[("module/d/a", "1"), ("module/d/sub/b", "2"), ("module/d/sub/c", "3")]);
        let path = host.call("directory", "/d/");
        let path = PathBuf::from(path.trim_matches('"'));
        assert!(path.to_str().unwrap().ends_with("/vardir/directory/module/d/"));
        assert_eq!(std::fs::read_to_string(path.join("sub/c")).unwrap(), "3");
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("kept"), "").unwrap();
        std::os::unix::fs::symlink(outside.path(), path.join("extra")).unwrap();
        std::fs::remove_file(path.join("a")).unwrap();
        std::fs::create_dir(path.join("a")).unwrap();
        std::fs::remove_file(host.files.path().join("module/d/sub/b")).unwrap();
        host.write("module/d/sub/c", "4");
        host.call("directory", "/d/");
        assert_eq!(std::fs::read_to_string(path.join("a")).unwrap(), "1");
        assert_eq!(std::fs::read_to_string(path.join("sub/c")).unwrap(), "4");
        assert!(!path.join("sub/b").exists() && std::fs::symlink_metadata(path.join("extra")).is_err());
        assert!(outside.path().join("kept").exists());
        for wrong in ["d/", "/d", "", "/none/"] {
            assert!(host.call("directory", wrong).starts_with("F: "), "{wrong}");
        }
    }

    #[test]
    fn distributions_have_packages() {
        assert!(shown("deploy.bootstrap_packages", &[Value::str("debian")]).contains("libvirt-dev"));
        assert!(
            shown("deploy.bootstrap_packages", &[Value::str("arch")]).starts_with("F: unknown distribution")
        );
        assert!(shown("deploy.binary_path", &[]).starts_with("\"/"));
    }
}
