//! What was declared, read once: everything that can be wrong with the parameters is found here.

use mgmt_resource::Invalid;
use mgmt_sys::ManagedPath;
use mgmt_sys::mode::{Mode, is_dangerous};
use mgmt_sys::path::{PATH_MAX, base_part, directory_part};
use mgmt_value::Str;

use super::{File, download};

/// The parameters of a `file` resource in the form that the rest of this folder works with.
pub(super) struct Declaration<'a> {
    /// The parameters that this was read from.
    pub(super) file: &'a File,
    pub(super) path: ManagedPath,
    pub(super) state: State,
    pub(super) target: Target,
    pub(super) mode: Option<Mode>,
}

/// Whether something is to be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Undefined,
    Exists,
    Absent,
}

/// What is to be there.
pub(super) enum Target {
    File(Input),
    Directory {
        source: Option<ManagedPath>,
    },
    /// With this text; empty unless the link is to exist.
    Link(Str),
}

/// Where the content of a file comes from.
pub(super) enum Input {
    /// It is left alone.
    Untouched,
    Content(Str),
    Source(ManagedPath),
    /// It is at an address, and somebody has fetched it.
    Remote,
    Fragments(Vec<ManagedPath>),
}

impl State {
    pub(super) fn read(word: &[u8]) -> Option<State> {
        match word {
            b"" => Some(State::Undefined),
            b"exists" | b"present" => Some(State::Exists),
            b"absent" => Some(State::Absent),
            _ => None,
        }
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            State::Undefined => "",
            State::Exists => "exists",
            State::Absent => "absent",
        }
    }
}

impl File {
    /// The path after `dirname` and `basename` have had their say, not yet cleaned.
    pub(super) fn effective_path(&self, name: &Str) -> Str {
        let path = if self.path.is_empty() { name } else { &self.path };
        let joined = |directory: &[u8], base: &[u8]| Str::from([directory, base].concat());
        match (self.dirname.is_empty(), self.basename.is_empty()) {
            (true, true) => path.clone(),
            (true, false) => joined(&directory_part(path), &self.basename),
            (false, true) => joined(&self.dirname, &base_part(path)),
            (false, false) => joined(&self.dirname, &self.basename),
        }
    }

    /// The same, cleaned. Nothing for a path that validation refuses.
    pub(super) fn managed_path(&self, name: &Str) -> Option<ManagedPath> {
        ManagedPath::new(self.effective_path(name)).ok()
    }
}

impl<'a> Declaration<'a> {
    /// Checks the parameters of `file`.
    pub(super) fn read(file: &'a File, name: &Str) -> Result<Declaration<'a>, Invalid> {
        let path = read_path(file, name)?;
        let state = State::read(&file.state).ok_or_else(|| {
            let message = format!("{:?} is no state; expected `exists`, `absent` or nothing", file.state);
            Invalid::field("state", message)
        })?;
        check_combination(file, &path, state)?;
        download::validate(file, &path)?;
        check_removal(file, &path, state)?;
        let target = read_target(file, &path)?;
        let mode = read_mode(file, &path)?;
        if file.selinux.as_ref().is_some_and(|context| context.contains(&0)) {
            return Err(Invalid::field("selinux", "a context can't hold a NUL byte"));
        }
        Ok(Declaration { file, path, state, target, mode })
    }
}

fn read_path(file: &File, name: &Str) -> Result<ManagedPath, Invalid> {
    let field = if file.path.is_empty() { None } else { Some("path") };
    let path = file.effective_path(name);
    if path.is_empty() {
        return Err(Invalid { field, ..Invalid::new("the path is empty; give an absolute path") });
    }
    if !file.dirname.is_empty() && !file.dirname.ends_with(b"/") {
        return Err(Invalid::field("dirname", format!("{:?} must end in a slash", file.dirname)));
    }
    if file.basename.starts_with(b"/") {
        return Err(Invalid::field("basename", format!("{:?} must not start with a slash", file.basename)));
    }
    ManagedPath::new(&path).map_err(|error| {
        let invalid = Invalid { field, ..Invalid::new(error.to_string()) };
        if path.starts_with(b"~") {
            return invalid.with_hint("`~` is not expanded here; write the whole path of the home directory");
        }
        invalid
    })
}

/// Parameters that contradict each other.
fn check_combination(file: &File, path: &ManagedPath, state: State) -> Result<(), Invalid> {
    let has_content = file.content.is_some();
    let has_source = !file.source.is_empty();
    let has_fragments = !file.fragments.is_empty();
    let fail = |message: &str| Err(Invalid::new(message));
    if usize::from(has_content) + usize::from(has_source) + usize::from(has_fragments) > 1 {
        return fail("only one of `content`, `source` and `fragments` can say what is in the file");
    }
    if file.symlink && !has_source && state == State::Exists {
        return Err(Invalid::field("source", "a link that `exists` needs a `source`, the text of the link"));
    }
    if state == State::Absent && (has_content || has_source || has_fragments) {
        return fail("what is `absent` has no `content`, `source` or `fragments`");
    }
    if state == State::Absent && file.selinux.is_some() {
        return Err(Invalid::field("selinux", "what is `absent` has no context"));
    }
    let source_directory = file.source.ends_with(b"/");
    if has_source && !file.symlink && !file.is_remote() && source_directory != path.is_directory() {
        let message =
            "either both the path and the source end in a slash, to copy a directory, or neither does";
        return Err(Invalid::field("source", message));
    }
    if path.is_directory() && (has_content || has_fragments || file.symlink) {
        return fail(
            "a path that ends in a slash is a directory, and can't have `content` or `fragments` or be a `symlink`",
        );
    }
    if path.is_directory() && has_source && !file.recurse {
        return Err(Invalid::field("recurse", "copying a directory needs `recurse => true`"));
    }
    if file.purge && !file.recurse {
        return Err(Invalid::field("purge", "needs `recurse => true`"));
    }
    if has_source && !path.is_directory() && file.recurse && !file.symlink {
        return Err(Invalid::field("recurse", "there is nothing to recurse into when copying a single file"));
    }
    if file.purge && (has_content || has_fragments) {
        return Err(Invalid::field("purge", "is for directories, which have no `content` or `fragments`"));
    }
    for (field, set) in
        [("keepdirectories", file.keepdirectories && !file.purge), ("spread", file.spread && !file.recurse)]
    {
        if set {
            let needed = if field == "spread" { "`recurse => true`" } else { "`purge => true`" };
            return Err(Invalid::field(field, format!("needs {needed}")));
        }
    }
    if file.spread && !path.is_directory() {
        return Err(Invalid::field("spread", "needs a directory, which is a path that ends in a slash"));
    }
    if file.anytype && (path.is_directory() || file.symlink) {
        return Err(Invalid::field("anytype", "is for files, and this is declared as a directory or a link"));
    }
    if file.backup.iter().any(|byte| b"/\0".contains(byte)) {
        return Err(Invalid::field(
            "backup",
            "expected what is put behind the name of the file, such as `.old`",
        ));
    }
    if !file.keep.is_empty() && !file.recurse {
        return Err(Invalid::field("keep", "needs `recurse => true`"));
    }
    for kept in &file.keep {
        ManagedPath::new(kept).map_err(|error| Invalid::field("keep", error.to_string()))?;
    }
    if !file.bucket.is_empty() {
        ManagedPath::new(&file.bucket).map_err(|error| Invalid::field("bucket", error.to_string()))?;
    }
    if file.symlink && (has_content || has_fragments) {
        return fail("a `symlink` can't have `content` or `fragments`");
    }
    if file.symlink && (file.recurse || file.purge) {
        return fail("a `symlink` has nothing below it to `recurse` into or to `purge`");
    }
    if file.purge && !path.is_directory() {
        return Err(Invalid::field("purge", "needs a directory, which is a path that ends in a slash"));
    }
    Ok(())
}

/// What one slip of the pen must not remove.
fn check_removal(file: &File, path: &ManagedPath, state: State) -> Result<(), Invalid> {
    let field = if file.purge { "purge" } else { "state" };
    if path.is_root() && (state == State::Absent || file.purge) {
        return Err(Invalid::field(field, "the root directory can't be removed or purged"));
    }
    let removes_tree = (state == State::Absent && file.recurse) || file.purge;
    if removes_tree && !file.force && path.components().count() == 1 {
        let message = format!("this would remove everything in {path}, at the top of the file system");
        return Err(Invalid::field(field, message).with_hint("set `force => true` if that is really meant"));
    }
    Ok(())
}

fn read_target(file: &File, path: &ManagedPath) -> Result<Target, Invalid> {
    if file.symlink {
        if file.source.contains(&0) || file.source.len() >= PATH_MAX {
            let message = "the text of a link can't hold a NUL byte or be longer than 4095 bytes";
            return Err(Invalid::field("source", message));
        }
        return Ok(Target::Link(file.source.clone()));
    }
    if file.is_remote() {
        return Ok(Target::File(Input::Remote));
    }
    let source = match file.source.is_empty() {
        true => None,
        false => {
            let invalid = |error| Invalid::field("source", format!("{error}"));
            Some(ManagedPath::new(&file.source).map_err(invalid)?)
        }
    };
    if path.is_directory() {
        if let Some(source) = &source {
            check_overlap(file, path, source)?;
        }
        return Ok(Target::Directory { source });
    }
    Ok(Target::File(match (&file.content, source) {
        (Some(content), _) => Input::Content(content.clone()),
        (None, Some(source)) => Input::Source(source),
        (None, None) if file.fragments.is_empty() => Input::Untouched,
        (None, None) => Input::Fragments(read_fragments(file, path)?),
    }))
}

fn check_overlap(file: &File, path: &ManagedPath, source: &ManagedPath) -> Result<(), Invalid> {
    if source == path || source.contains(path) {
        let message = format!("{path} lies in its own source {source}");
        return Err(Invalid::field("source", message));
    }
    if file.purge && path.contains(source) {
        let message = format!("{source} lies in {path}, and would be purged with it");
        return Err(Invalid::field("source", message));
    }
    Ok(())
}

fn read_fragments(file: &File, path: &ManagedPath) -> Result<Vec<ManagedPath>, Invalid> {
    let invalid = |message: String| Invalid::field("fragments", message);
    file.fragments
        .iter()
        .map(|fragment| {
            let fragment = ManagedPath::new(fragment).map_err(|error| invalid(error.to_string()))?;
            if fragment.without_slash() == path.without_slash() || fragment.contains(path) {
                return Err(invalid(format!("{fragment} is or contains {path}, which is made of it")));
            }
            Ok(fragment)
        })
        .collect()
}

fn read_mode(file: &File, path: &ManagedPath) -> Result<Option<Mode>, Invalid> {
    if !file.modechange.is_empty() {
        if !file.mode.is_empty() {
            return Err(Invalid::field("modechange", "set either `mode` or `modechange`"));
        }
        let changes = Mode::parse_changes(&file.modechange.to_text());
        return changes.map(Some).map_err(|error| Invalid::field("modechange", error.to_string()));
    }
    if file.mode.is_empty() {
        return Ok(None);
    }
    let text = file.mode.to_text();
    let mode = Mode::parse(&text).map_err(|error| Invalid::field("mode", error.to_string()))?;
    if !path.is_directory() && !file.symlink && is_dangerous(mode.apply(0)) {
        let message = format!("{text} lets anyone write a program that runs with the rights of another");
        return Err(Invalid::field("mode", message)
            .with_hint("take away either the setuid and setgid bits or write permission for others"));
    }
    Ok(Some(mode))
}
