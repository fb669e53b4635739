//! `line`: lines of a file that somebody else may have written.
//!
//! [`Line`] is the declaration. `edit` finds, adds and removes a block of lines in some bytes; `pattern` finds the place of
//! one line by regular expressions. Neither knows of files: `support::text_file` reads and replaces them.
//!
//! Invariant: nothing but the declared lines changes: not the ends of other lines, not what follows the last newline.

mod edit;
mod pattern;

use std::sync::Arc;

use mgmt_resource::{
    Checked, Context, Error, Identity, Invalid, Kind, Nothing, Order, Resource, Result, Want, Watch,
};
use mgmt_sys::ManagedPath;
use mgmt_sys::replace::InPlace;
use mgmt_value::Str;

use self::edit::Block;
use self::pattern::{Ambiguous, Patterns};
use crate::support::home::{self, Located};
use crate::support::text_file::TextFile;

/// The mode of a file that we make. Its content is not ours to show around.
const NEW_MODE: u32 = 0o600;

/// Keeps lines in a file, or keeps them out of it, and leaves the rest of the file alone.
///
/// A line is there if it is in the file exactly as it is written, white space included; how lines end, with or without
/// a carriage return, does not matter. Several lines have to stand one after the other. Missing lines are added at the
/// end of the file, which gets a newline before them if it needs one; a file that does not exist is made, readable by
/// its owner alone. Unwanted lines are removed wherever they are.
///
/// The file is replaced in one step and keeps its owner, mode and attributes. A symbolic link is not followed. Somebody
/// else who has just written to the file is given a tenth of a second to finish.
///
/// ```mcl
/// line "the printer" {
///     file => "/etc/hosts",
///     state => "exists",
///     content => "192.0.2.7 printer",
/// }
/// ```
///
/// With `match`, one line takes the place of another:
///
/// ```mcl
/// line "root stays out" {
///     file => "/etc/ssh/sshd_config",
///     state => "exists",
///     content => "PermitRootLogin no",
///     match => "^#?PermitRootLogin ",
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Resource)]
#[resource(kind = "line", edges, receive, blocking)]
pub struct Line {
    /// The file: an absolute path, or one that begins with `~/` or `~user/` and is found in that home directory. A new
    /// file in the home of a named user belongs to that user.
    pub file: Str,
    /// `exists`: the lines are to be in the file. `absent`: they are to be nowhere in it.
    pub state: Str,
    /// The line, or several lines with newlines between them. A newline at the end makes no difference. If it is empty,
    /// nothing is done.
    pub content: Str,
    /// Leave out white space at the beginning and at the end of `content`.
    pub trim: bool,
    /// A regular expression. Where `content`, which is one line then, is nowhere in the file, it takes the place of the line that matches.
    /// Only this implementation has it.
    pub r#match: Str,
    /// A regular expression. A new line goes behind the line that matches, instead of to the end. Only this implementation has it.
    pub after: Str,
    /// Several lines may match. Otherwise that is an error. Only this implementation has it.
    pub multiple: bool,
    /// A line that matches gives way. When false, it is as good as the wanted one. Only this implementation has it.
    pub replace: bool,
    /// Every line that matches gives way, also where the wanted one is there. Only this implementation has it.
    pub replaceall: bool,
    /// Where nothing matches, add the line. Only this implementation has it.
    pub append: bool,
    /// With `absent`: remove what matches, and not what is `content`. Only this implementation has it.
    pub removematches: bool,
}

impl Default for Line {
    fn default() -> Line {
        Line {
            file: Str::EMPTY,
            state: Str::EMPTY,
            content: Str::EMPTY,
            trim: false,
            r#match: Str::EMPTY,
            after: Str::EMPTY,
            multiple: false,
            replace: true,
            replaceall: false,
            append: true,
            removematches: false,
        }
    }
}

/// What a valid `state` means.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Exists,
    Absent,
}

impl Kind for Line {
    type State = ();
    type Sends = Nothing;

    fn validate(&self, _: &Str) -> Result<(), Invalid> {
        if self.file.is_empty() {
            let message = "is missing; expected the path of the file that the lines are in";
            return Err(Invalid::field("file", message));
        }
        home::check("file", &self.file)?;
        self.patterns()?;
        self.wanted_state().map(|_| ())
    }

    fn watches(&self, _: &Str) -> Vec<Watch> {
        match locate(&self.file) {
            Ok(located) => {
                vec![Watch::Path { path: located.path.as_bytes().into(), recursive: false }]
            }
            // The engine tries again, as the metaparameters say: the account may come later.
            Err(_) => {
                let file = self.file.clone();
                let start = move |_: &mgmt_resource::Host| match locate(&file) {
                    Ok(_) => {
                        Err(Error::new(format_args!("the home directory in {file:?} has just appeared")))
                    }
                    Err(error) => Err(error),
                };
                vec![Watch::Stream { key: self.file.clone(), start: Arc::new(start) }]
            }
        }
    }

    async fn check_apply(&self, (): &mut (), cx: &mut Context<'_>) -> Result<Checked> {
        let state = self.wanted_state().map_err(Error::new)?;
        let patterns = self.patterns().map_err(Error::new)?;
        let edit = match Block::new(&self.content, self.trim) {
            None if !self.removematches => return Ok(Checked::Right),
            block => How { block, patterns, line: self.single_line() },
        };
        let Located { path, owner } = locate(&self.file)?;
        let file = TextFile { path, owner, mode: NEW_MODE, in_place: InPlace::Refuse };
        let mut ambiguous = None;
        let checked = file.edit(cx, |text| {
            let edited = edit.edited(state, text.unwrap_or_default());
            // The file may be read again, and be clear then.
            ambiguous = None;
            edited.unwrap_or_else(|found| {
                ambiguous = Some(found);
                None
            })
        })?;
        if let Some(Ambiguous { field, count }) = ambiguous {
            let message = format!("{count} lines of {} match `{field}`, and one may", file.path);
            return Err(Error::new(message).with_hint("make the pattern stricter, or set `multiple => true`"));
        }
        if cx.apply && checked == Checked::Changed {
            cx.info(match state {
                State::Exists => "added",
                State::Absent => "removed",
            });
        }
        Ok(checked)
    }

    fn wants(&self, _: &Str) -> Vec<Want> {
        let Ok(path) = ManagedPath::new(&self.file) else { return Vec::new() };
        let path = Str::from(path.as_bytes());
        let before = vec![Identity::Path(path.clone()), Identity::PackageFile(path.clone())];
        vec![Want::Each(Order::Before, before), Want::ParentOf(path)]
    }
}

impl Line {
    /// The line without its end.
    fn single_line(&self) -> &[u8] {
        let content: &[u8] = if self.trim { self.content.trim_ascii() } else { &self.content };
        content.strip_suffix(b"\n").unwrap_or(content)
    }

    /// How the place of the line is found, if not by itself.
    fn patterns(&self) -> Result<Option<Patterns>, Invalid> {
        let read = |field: &'static str, pattern: &Str| match pattern.is_empty() {
            true => Ok(None),
            false => pattern::compile(&pattern.to_text()).map(Some).map_err(|why| Invalid::field(field, why)),
        };
        let (matching, after) = (read("match", &self.r#match)?, read("after", &self.after)?);
        if matching.is_none() && (self.removematches || self.replaceall || !self.replace || !self.append) {
            return Err(Invalid::field("match", "is missing"));
        }
        if matching.is_none() && after.is_none() {
            return Ok(None);
        }
        if self.single_line().contains(&b'\n') {
            return Err(Invalid::field(
                "content",
                "is more than one line, which cannot take the place of one",
            ));
        }
        Ok(Some(Patterns {
            matching,
            after,
            multiple: self.multiple,
            replace: self.replace,
            replace_all: self.replaceall,
            append: self.append,
            remove_matches: self.removematches,
        }))
    }

    fn wanted_state(&self) -> Result<State, Invalid> {
        match self.state.as_bytes() {
            b"exists" => Ok(State::Exists),
            b"absent" => Ok(State::Absent),
            b"" => Err(Invalid::field("state", "is missing; expected `exists` or `absent`")),
            _ => {
                Err(Invalid::field("state", format!("expected `exists` or `absent`, found {:?}", self.state)))
            }
        }
    }
}

/// What is to be in a file, or is not.
struct How<'a> {
    block: Option<Block<'a>>,
    patterns: Option<Patterns>,
    /// With patterns: the line.
    line: &'a [u8],
}

impl How<'_> {
    /// The text as it is to be. Nothing if that is as it is.
    fn edited(&self, state: State, text: &[u8]) -> Result<Option<Vec<u8>>, Ambiguous> {
        match (&self.patterns, &self.block, state) {
            (Some(patterns), _, State::Exists) => patterns.present(self.line, text),
            (Some(patterns), _, State::Absent) => patterns.absent(self.line, text),
            (None, Some(block), State::Exists) => Ok((!block.is_in(text)).then(|| block.added_to(text))),
            (None, Some(block), State::Absent) => Ok(block.removed_from(text)),
            (None, None, _) => Ok(None),
        }
    }
}

/// Finds a declared file. The account has to exist if the path begins with a tilde.
fn locate(declared: &Str) -> Result<Located> {
    home::locate(declared)?.ok_or_else(|| {
        let why = match home::user_of(declared) {
            Some(user) => format!("there is no user {user:?}"),
            None => "the present user has no account".to_owned(),
        };
        Error::new(format_args!("cannot tell where {declared:?} is: {why}"))
            .with_hint("declare the user before this resource, or write the whole path")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(file: &str, state: &str) -> Line {
        Line { file: file.into(), state: state.into(), content: "a".into(), ..Line::default() }
    }

    fn refused(line: &Line) -> String {
        Kind::validate(line, &"name".into()).unwrap_err().to_string()
    }

    #[test]
    fn what_cannot_be_a_file_is_refused_with_a_reason() {
        assert!(refused(&line("", "exists")).contains("is missing"));
        assert!(refused(&line("etc/motd", "exists")).contains("must start with a slash"));
        assert!(refused(&line("/etc/", "exists")).contains("ends in a slash"));
        assert!(refused(&line("~/x/", "exists")).contains("ends in a slash"));
        assert!(refused(&line("~joe", "exists")).contains("`~user/`"));
        assert!(refused(&line("/a\0b", "exists")).contains("NUL"));
        assert!(refused(&line("~/a\0b", "exists")).contains("`~user/`"));
        for fine in ["/etc/motd", "~/.profile", "~joe/.profile", "~no-such-user/x"] {
            assert!(Kind::validate(&line(fine, "absent"), &"name".into()).is_ok(), "{fine}");
        }
    }

    #[test]
    fn the_state_is_one_of_two_words() {
        assert!(refused(&line("/a", "")).contains("is missing"));
        assert!(refused(&line("/a", "present")).contains("found \"present\""));
    }

    #[test]
    fn the_file_its_package_and_its_directory_come_first() {
        let wants = Kind::wants(&line("/etc//x/../motd", "exists"), &"name".into());
        let path = Str::from("/etc/motd");
        let before = vec![Identity::Path(path.clone()), Identity::PackageFile(path.clone())];
        assert_eq!(wants, [Want::Each(Order::Before, before), Want::ParentOf(path)]);
    }

    #[test]
    fn an_unknown_user_is_an_error_with_a_hint() {
        let error = locate(&"~no-such-user/x".into()).unwrap_err();
        assert!(error.to_string().contains("there is no user \"no-such-user\""), "{error}");
        assert!(error.hint().is_some());
        assert!(locate(&Str::new(b"~\xff/x")).is_err());
    }
}
