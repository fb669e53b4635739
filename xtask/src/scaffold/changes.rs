//! Changes to files of the workspace: made in memory, and written only when all of them have worked.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::step::Failed;

/// New and edited files, by their paths below the root of the workspace.
pub(super) struct Changes {
    root: PathBuf,
    files: BTreeMap<String, Change>,
}

struct Change {
    text: String,
    is_new: bool,
}

impl Changes {
    pub(super) fn new(root: &Path) -> Changes {
        Changes { root: root.to_owned(), files: BTreeMap::new() }
    }

    /// The text of a file, with what was changed before.
    pub(super) fn read(&self, path: &str) -> Result<String, Failed> {
        if let Some(change) = self.files.get(path) {
            return Ok(change.text.clone());
        }
        let text = std::fs::read_to_string(self.root.join(path));
        text.map_err(|error| Failed::new(format!("cannot read {path}: {error}")))
    }

    /// Adds a file, which must not exist.
    pub(super) fn create(&mut self, path: String, text: String) -> Result<(), Failed> {
        // A dangling link is in the way, too.
        if self.root.join(&path).symlink_metadata().is_ok() {
            return Err(Failed::new(format!("{path} exists already")));
        }
        self.files.insert(path, Change { text, is_new: true });
        Ok(())
    }

    /// Replaces the text of a file that exists. `edit` gives the new text, or what it did not find.
    pub(super) fn edit(
        &mut self,
        path: &str,
        edit: impl FnOnce(&str) -> Result<String, String>,
    ) -> Result<(), Failed> {
        let text = edit(&self.read(path)?).map_err(|why| Failed::new(format!("{path}: {why}")))?;
        let is_new = self.files.get(path).is_some_and(|change| change.is_new);
        self.files.insert(path.to_owned(), Change { text, is_new });
        Ok(())
    }

    /// Formats and writes all files, and gives a line about each.
    pub(super) fn write(mut self) -> Result<Vec<String>, Failed> {
        for (path, change) in &mut self.files {
            if path.ends_with(".rs") {
                change.text = formatted(&self.root, path, &change.text)?;
            }
        }
        let mut lines = Vec::new();
        for (path, change) in &self.files {
            let cannot = |error| Failed::new(format!("cannot write {path}: {error}"));
            let mut options = std::fs::OpenOptions::new();
            let options = match change.is_new {
                // Somebody may have made it since we looked.
                true => options.write(true).create_new(true),
                false => options.write(true).truncate(true),
            };
            let mut file = options.open(self.root.join(path)).map_err(cannot)?;
            file.write_all(change.text.as_bytes()).map_err(cannot)?;
            lines.push(format!("{} {path}", if change.is_new { "new    " } else { "changed" }));
        }
        Ok(lines)
    }
}

/// The text as `cargo fmt` wants it.
fn formatted(root: &Path, path: &str, text: &str) -> Result<String, Failed> {
    let cannot = |why: &dyn std::fmt::Display| Failed::new(format!("cannot format {path}: rustfmt: {why}"));
    let mut rustfmt = Command::new("rustfmt")
        .args(["--edition", "2024"])
        .current_dir(root)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| cannot(&error))?;
    // It reads everything before it writes anything.
    if let Some(mut input) = rustfmt.stdin.take() {
        input.write_all(text.as_bytes()).map_err(|error| cannot(&error))?;
    }
    let output = rustfmt.wait_with_output().map_err(|error| cannot(&error))?;
    if !output.status.success() {
        return Err(cannot(&String::from_utf8_lossy(&output.stderr).trim()));
    }
    String::from_utf8(output.stdout).map_err(|error| cannot(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_written_unless_everything_can_be() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        std::fs::write(at("list.rs"), "mod a;\n").unwrap();
        std::fs::write(at("there.rs"), "").unwrap();

        let mut changes = Changes::new(root.path());
        changes.create("new.rs".to_owned(), "fn new( ) {}\n".to_owned()).unwrap();
        changes.edit("list.rs", |text| Ok(format!("{text}mod b;\n"))).unwrap();
        let Err(Failed(why)) = changes.create("there.rs".to_owned(), String::new()) else { panic!() };
        assert_eq!(why, "there.rs exists already");
        let Err(Failed(why)) = changes.edit("list.rs", |_| Err("no list".to_owned())) else { panic!() };
        assert_eq!(why, "list.rs: no list");
        let Err(Failed(why)) = changes.edit("gone.rs", |text| Ok(text.to_owned())) else { panic!() };
        assert!(why.starts_with("cannot read gone.rs"), "{why}");
        assert!(!at("new.rs").exists());
        assert_eq!(std::fs::read_to_string(at("list.rs")).unwrap(), "mod a;\n");

        assert_eq!(changes.read("list.rs").unwrap(), "mod a;\nmod b;\n");
        assert_eq!(changes.write().unwrap(), ["changed list.rs", "new     new.rs"]);
        assert_eq!(std::fs::read_to_string(at("new.rs")).unwrap(), "fn new() {}\n");
        assert_eq!(std::fs::read_to_string(at("list.rs")).unwrap(), "mod a;\nmod b;\n");
    }

    #[test]
    fn text_that_is_not_rust_is_not_written() {
        let root = tempfile::tempdir().unwrap();
        let mut changes = Changes::new(root.path());
        changes.create("a.rs".to_owned(), "fn a() {}\n".to_owned()).unwrap();
        changes.create("b.rs".to_owned(), "fn b( {\n".to_owned()).unwrap();
        let Err(Failed(why)) = changes.write() else { panic!() };
        assert!(why.starts_with("cannot format b.rs: rustfmt: "), "{why}");
        assert!(!root.path().join("a.rs").exists());
    }
}
