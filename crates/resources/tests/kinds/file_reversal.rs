//! Undoing: what was there before comes back exactly, through the stored form.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests")]

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use crate::file_common::{NAME, TestEnv};
use mgmt_resource::{Checked, Kind, Spec, from_stored, to_stored};
use mgmt_resources::KINDS;
use mgmt_resources::file::File;

trait Undo {
    fn undo_of(&self, file: &File) -> Option<File>;
    fn state(&self) -> BTreeMap<PathBuf, String>;
    fn comes_back(&self, file: &File);
}

impl Undo for TestEnv {
    /// The resource that undoes `file`, written down and read back as after a restart.
    fn undo_of(&self, file: &File) -> Option<File> {
        let undo = Kind::reversed(file, &NAME.into()).unwrap()?;
        let text = to_stored(&Spec::new(NAME, undo.clone())).to_string();
        let read = from_stored(&text.parse().unwrap(), &KINDS).unwrap();
        let read = read.resource.as_any().downcast_ref::<File>().unwrap().clone();
        assert_eq!(read, undo);
        Some(read)
    }

    /// Everything but times and numbers of inodes.
    fn state(&self) -> BTreeMap<PathBuf, String> {
        let mut seen = BTreeMap::new();
        for (path, _) in self.snapshot() {
            let metadata = path.symlink_metadata().unwrap();
            let inside = if metadata.is_symlink() {
                format!("{:?}", std::fs::read_link(&path).unwrap())
            } else if metadata.is_file() {
                format!("{:?}", std::fs::read(&path).unwrap())
            } else {
                String::new()
            };
            seen.insert(
                path,
                format!("{:o} {} {} {inside}", metadata.mode(), metadata.uid(), metadata.gid()),
            );
        }
        seen
    }

    /// Applying and undoing leads back to the present.
    #[track_caller]
    fn comes_back(&self, file: &File) {
        let before = self.state();
        let undo = self.undo_of(file).expect("there is something to undo");
        assert_eq!(self.apply(file).unwrap(), Checked::Changed);
        assert_ne!(self.state(), before);
        self.converges(&undo);
        assert_eq!(self.state(), before, "undone by {undo:?}");
    }
}

#[test]
fn what_was_not_there_goes_away_again() {
    let world = TestEnv::new();
    world.write("source", "text");
    let rest = |file: File| File { owner: "7".into(), group: "8".into(), mode: "0600".into(), ..file };
    world.comes_back(&world.exists("f"));
    world.comes_back(&rest(world.content("f", "x")));
    world.comes_back(&rest(File { source: world.path("source"), ..world.exists("f") }));
    world.comes_back(&rest(File { fragments: vec![world.path("source")], ..world.exists("f") }));
    world.comes_back(&File { symlink: true, source: "x".into(), owner: "7".into(), ..world.exists("l") });
    world.comes_back(&rest(world.exists("d/")));
    let missing = File { dirname: world.path("no/"), basename: "f".into(), ..world.exists("x") };
    assert_eq!(world.undo_of(&missing).unwrap().state, "absent");
}

#[test]
fn what_was_there_gets_its_content_owner_and_mode_back() {
    let world = TestEnv::new();
    world.write("f", b"old \xff\x00 bytes");
    world.set_owner("f", 7, 8);
    world.set_mode("f", 0o4750);
    world.write("source", "other");
    world.comes_back(&world.content("f", "new"));
    world.comes_back(&File { content: Some("new".into()), ..world.file("f") });
    world.comes_back(&File { owner: "9".into(), mode: "0600".into(), ..world.content("f", "new") });
    world.comes_back(&File { source: world.path("source"), ..world.exists("f") });
    world.comes_back(&File { fragments: vec![world.path("source")], ..world.exists("f") });
    world.comes_back(&world.absent("f"));
    world.comes_back(&File { mode: "0640".into(), ..world.file("f") });
    world.comes_back(&File { owner: "9".into(), mode: "4750".into(), ..world.file("f") });
    world.comes_back(&File { force: true, symlink: true, source: "x".into(), ..world.exists("f") });
    world.comes_back(&File { force: true, ..world.exists("f/") });
}

#[test]
fn a_link_gets_its_text_and_owner_back() {
    let world = TestEnv::new();
    world.link("l", "old/text");
    world.set_owner("l", 7, 8);
    world.comes_back(&File { symlink: true, source: "new".into(), ..world.exists("l") });
    world.comes_back(&File {
        symlink: true,
        source: "old/text".into(),
        owner: "9".into(),
        ..world.exists("l")
    });
    world.comes_back(&File { symlink: true, owner: "9".into(), ..world.file("l") });
    world.comes_back(&File { symlink: true, ..world.absent("l") });
    world.comes_back(&world.absent("l"));
    world.comes_back(&File { force: true, ..world.content("l", "file") });
}

#[test]
fn a_directory_gets_its_attributes_back_or_itself_if_it_was_empty() {
    let world = TestEnv::new();
    world.write("d/f", "inside");
    world.set_mode("d", 0o1711);
    world.set_owner("d", 7, 8);
    world.comes_back(&File { mode: "0700".into(), owner: "0".into(), ..world.exists("d/") });
    world.comes_back(&File { mode: "0700".into(), ..world.file("d/") });
    std::fs::create_dir(world.at("empty")).unwrap();
    world.set_owner("empty", 7, 8);
    world.comes_back(&world.absent("empty/"));
    world.comes_back(&world.absent("empty"));
    world.comes_back(&File { force: true, ..world.content("empty", "file") });
}

#[test]
fn only_what_is_declared_is_undone() {
    let world = TestEnv::new();
    world.write("f", "old");
    let file = File { mode: "0600".into(), ..world.exists("f") };
    let undo = world.undo_of(&file).unwrap();
    world.apply(&file).unwrap();
    world.write("f", "edited by somebody else");
    world.apply(&undo).unwrap();
    assert_eq!((world.read("f"), world.mode("f")), (b"edited by somebody else".to_vec(), 0o644));
}

#[test]
fn where_nothing_is_changed_there_is_nothing_to_undo() {
    let world = TestEnv::new();
    world.write("f", "");
    std::fs::create_dir(world.at("d")).unwrap();
    for file in [
        world.exists("f"),
        world.file("f"),
        world.file("no"),
        world.exists("d/"),
        world.file("d/"),
        world.absent("no"),
        world.absent("no/such/thing/"),
        File { content: Some("x".into()), ..world.file("no") },
        File { symlink: true, source: "x".into(), ..world.file("no") },
    ] {
        assert_eq!(world.undo_of(&file), None, "{file:?}");
    }
}

#[test]
fn what_cannot_be_brought_back_is_refused_beforehand() {
    let world = TestEnv::new();
    world.write("d/f", "");
    world.fifo("fifo");
    let large = std::fs::File::create(world.at("large")).unwrap();
    large.set_len((8 << 20) + 1).unwrap();
    for (file, why) in [
        (File { source: world.path("x/"), recurse: true, ..world.exists("d/") }, "copied or purged"),
        (File { purge: true, recurse: true, ..world.exists("d/") }, "copied or purged"),
        (File { recurse: true, ..world.absent("d/") }, "removed with all in it"),
        (File { force: true, ..world.content("d", "file") }, "removed with all in it"),
        (world.absent("fifo"), "is a FIFO"),
        (world.content("large", "x"), "at most 8388608 are kept"),
        (world.absent("large"), "at most 8388608 are kept"),
    ] {
        let error = Kind::reversed(&file, &NAME.into()).unwrap_err();
        assert!(error.to_string().contains("not supported") && error.to_string().contains(why), "{error}");
    }
}

#[test]
fn undoing_a_made_directory_never_takes_other_files_along() {
    let world = TestEnv::new();
    let file = File { recurse: true, ..world.exists("a/d/") };
    let undo = world.undo_of(&file).unwrap();
    assert!(!undo.recurse);
    world.apply(&file).unwrap();
    world.write("a/d/of-somebody-else", "");
    world.refuses(&undo, "the directory is not empty", "recurse");
}
