//! Editing a text with the library.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Mutex, PoisonError};

use mgmt_resource::{Checked, Context, Error, Result};
use mgmt_sys::ManagedPath;
use mgmt_sys::replace::InPlace;
use mgmt_value::Str;
use raugeas::error::ErrorCode;
use raugeas::{Augeas as Library, Flags, Position};

use super::{Augeas, AugeasInsert};
use crate::text_file::TextFile;

/// The mode of a file that we make. What is in it may be a secret.
const NEW_MODE: u32 = 0o600;
/// Where the library keeps the text that it is given, its tree, and the text that is made of that.
const OLD: &str = "/mgmt/old";
const TREE: &str = "/mgmt/tree";
const NEW: &str = "/mgmt/new";

/// Makes a file what is declared, or tells whether it is. Blocks.
pub(super) fn edit(declared: &Augeas, path: ManagedPath, cx: &Context<'_>) -> Result<Checked> {
    let file = TextFile { path, owner: None, mode: NEW_MODE, in_place: InPlace::Refuse };
    let mut failed = None;
    let checked = file.edit(cx, |content| {
        failed = None;
        match edited(declared, content.unwrap_or_default()) {
            Ok(new) => new,
            Err(error) => {
                failed = Some(error);
                None
            }
        }
    })?;
    match failed {
        Some(error) => Err(error),
        None => Ok(checked),
    }
}

/// What becomes of a text; none if it is right.
fn edited(declared: &Augeas, text: &[u8]) -> Result<Option<Vec<u8>>> {
    // The library has variables that all its users share, and says nothing about threads.
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut session = Session::new(declared)?;
    // Formats are made of lines, and the last one may lack its end.
    let mut old = text.to_vec();
    if !old.is_empty() && !old.ends_with(b"\n") {
        old.push(b'\n');
    }
    let new = session.edited(&old)?;
    if new == old {
        return Ok(None);
    }
    if session.edited(&new).ok().as_ref() != Some(&new) {
        return Err(Error::new("the edits would change their own result again, and never come to an end")
            .with_hint("give each member of `ins` an `unless` that tells that its node is there"));
    }
    Ok(Some(new))
}

struct Session<'a> {
    library: Library,
    declared: &'a Augeas,
}

impl<'a> Session<'a> {
    /// Begins without any file of the host and without any lens.
    fn new(declared: &'a Augeas) -> Result<Session<'a>> {
        let flags = Flags::NO_LOAD | Flags::NO_MODULE_AUTOLOAD;
        let told = |error: raugeas::Error| failed("cannot use the library of Augeas", &error);
        let mut library = Library::init(Some("/"), "", flags).map_err(told)?;
        library.set("/augeas/context", TREE).map_err(told)?;
        Ok(Session { library, declared })
    }

    fn edited(&mut self, text: &[u8]) -> Result<Vec<u8>> {
        let lens = os(&self.declared.lens);
        if text.contains(&0) {
            return Err(Error::new("the file has a null byte, and is no configuration file"));
        }
        let told = |error: raugeas::Error| failed("cannot use the library of Augeas", &error);
        self.library.rm("/mgmt").map_err(told)?;
        self.library.set(OLD, OsStr::from_bytes(text)).map_err(told)?;
        self.library.text_store(lens, OLD, TREE).map_err(|error| self.unreadable(&error))?;
        // An empty file has no tree, but can get one.
        if self.library.matches_os(TREE).map_err(told)?.is_empty() {
            self.library.touch(TREE).map_err(told)?;
        }
        self.make_edits()?;
        self.library.text_retrieve(lens, OLD, TREE, NEW).map_err(|error| {
            failed(&format!("the edits do not fit into the format {}", self.declared.lens.display()), &error)
                .with_hint("look at the tree of a file that has what you want, with `augtool print`")
        })?;
        let new = self.library.get_os(NEW).map_err(told)?;
        Ok(new.map(|new| new.as_bytes().to_vec()).unwrap_or_default())
    }

    fn make_edits(&mut self) -> Result<()> {
        let Augeas { rm, ins, clear, sets, .. } = self.declared;
        for path in rm {
            self.library.rm(&*below(path)).map_err(|error| failed_at("remove", path, &error))?;
        }
        for insert in ins {
            self.insert(insert)?;
        }
        for path in clear {
            self.library.clear(&*below(path)).map_err(|error| failed_at("clear", path, &error))?;
        }
        for set in sets {
            let value = os(&set.value);
            self.library
                .set(&*below(&set.path), value)
                .map_err(|error| failed_at("set", &set.path, &error))?;
        }
        Ok(())
    }

    fn insert(&mut self, insert: &AugeasInsert) -> Result<()> {
        if !insert.unless.is_empty() {
            let found = self.library.matches_os(&*below(&insert.unless));
            if !found.map_err(|error| failed_at("look for", &insert.unless, &error))?.is_empty() {
                return Ok(());
            }
        }
        let position = if insert.before { Position::Before } else { Position::After };
        self.library
            .insert(&*below(&insert.path), os(&insert.label), position)
            .map_err(|error| failed_at("insert beside", &insert.path, &error))
    }

    fn unreadable(&self, error: &raugeas::Error) -> Error {
        let lens = self.declared.lens.display();
        if error.is_code(ErrorCode::NoLens) || error.is_code(ErrorCode::Syntax) {
            return failed(&format!("cannot use the lens {lens}"), error)
                .with_hint("lenses are in /usr/share/augeas/lenses; install augeas-lenses");
        }
        failed(&format!("the file is not what {lens} describes"), error)
            .with_hint("mend the file, or name the lens of its format")
    }
}

/// A path of the declaration, which begins below the tree however it begins. What stands behind a `|` begins there, too,
/// because the tree is the context.
fn below(path: &Str) -> Box<OsStr> {
    let path = path.trim_ascii();
    let slash: &[u8] = if path.starts_with(b"/") { b"" } else { b"/" };
    OsStr::from_bytes(&[TREE.as_bytes(), slash, path].concat()).into()
}

fn os(text: &Str) -> &OsStr {
    OsStr::from_bytes(text)
}

fn failed_at(what: &str, path: &Str, error: &raugeas::Error) -> Error {
    failed(&format!("cannot {what} {}", path.display()), error)
}

/// In one line, without the whole description of a format that something does not fit into.
fn failed(what: &str, error: &raugeas::Error) -> Error {
    let why = match error {
        raugeas::Error::Augeas(error) => {
            let parts = [&error.message, &error.minor_message, &error.details];
            parts.into_iter().flatten().map(|part| part.trim()).collect::<Vec<_>>().join(": ")
        }
        raugeas::Error::Tree(error) => {
            let place = error.position.as_ref();
            let place = place.map(|at| format!(" in line {}, character {}", at.line, at.char));
            format!("{}{}", error.message.to_string_lossy(), place.unwrap_or_default())
        }
        other => other.to_string(),
    };
    let why = why.split("with pattern").next().unwrap_or_default();
    let words: Vec<&str> = why.split_whitespace().collect();
    Error::new(format_args!("{what}: {}", Str::from(words.join(" ")).display()))
}
