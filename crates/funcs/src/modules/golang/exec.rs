//! `golang/os/exec`

use mgmt_funcs_derive::function;
use mgmt_value::Str;

use crate::Failure;
use crate::declare::module;
use crate::look::{Answer, Question, absolute, look_now};

module! {
    path: "golang/os/exec",
    doc: "Commands.",
    functions: [look_path],
}

/// The path of a command, found in the directories of `$PATH`. A name with a slash is tested as it is.
///
/// A command that is not found, cannot be executed, or is found in a relative directory is a fatal error.
///
/// ```mcl
/// exec.look_path("/bin/sh") == "/bin/sh"
/// ```
#[function(reads)]
fn look_path(file: &Str) -> Result<Str, Failure> {
    find(file, std::env::var_os("PATH").unwrap_or_default().as_encoded_bytes())
}

fn find(file: &Str, path: &[u8]) -> Result<Str, Failure> {
    if file.contains(&b'/') {
        return match is_executable(file)? {
            true => Ok(file.clone()),
            false => Err(Failure::fatal(format!("{file:?} is not a file that can be executed"))),
        };
    }
    for directory in path.split(|byte| *byte == b':').filter(|_| !path.is_empty()) {
        let directory = if directory.is_empty() { b"." } else { directory };
        let found = Str::new([directory, b"/", file].concat());
        if !is_executable(&found)? {
            continue;
        }
        if !directory.starts_with(b"/") {
            let message = format!(
                "{file:?} was found through the relative directory {:?} of $PATH",
                Str::new(directory)
            );
            return Err(Failure::fatal(message));
        }
        return Ok(found);
    }
    Err(Failure::fatal(format!("{file:?} was not found in any directory of $PATH")))
}

/// A path that another user may have put there is none that can be executed, and one that does not answer is an error.
fn is_executable(path: &Str) -> Result<bool, Failure> {
    Ok(look_now(Question::Executable(absolute(path)?))? == Answer::Truth(true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn commands_are_found_in_order() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        for (name, mode) in [("a/plain", 0o644), ("b/plain", 0o755), ("b/other", 0o755)] {
            let path = root.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, "").unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        }
        let text = |name: &str| Str::new(root.join(name).as_os_str().as_encoded_bytes());
        let path = [text("a").as_bytes(), b":", &text("b")].concat();
        assert_eq!(find(&"plain".into(), &path), Ok(text("b/plain")));
        assert_eq!(find(&text("b/other"), b""), Ok(text("b/other")));
        for missing in ["a", "nothing"] {
            assert!(find(&missing.into(), &path).is_err());
        }
        assert!(find(&text("a/plain"), b"").is_err() && find(&text("a"), b"").is_err());
        assert!(find(&"x".into(), b"").is_err());
        let here = std::env::current_dir().unwrap();
        let up = "../".repeat(here.components().count());
        let relative = format!("{up}{}", root.join("b").display());
        assert!(find(&"other".into(), relative.as_bytes()).unwrap_err().to_string().contains("relative"));
    }
}
