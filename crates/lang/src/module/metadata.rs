//! The metadata of a module.

use std::fmt;
use std::ops::Range;

use mgmt_resource::did_you_mean;
use saphyr_parser::{Event, Parser, ScalarStyle};

/// What `metadata.yaml` says about a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// The file that is the module, relative to the directory of the metadata.
    pub main: String,
    /// The directory of its files, with a slash at the end; empty if it has none.
    pub files: String,
    /// The directory in which the modules are that it imports from elsewhere, with a slash at the end; may be empty.
    pub path: String,
    /// Under which terms it may be used.
    pub license: String,
    /// Modules are not looked for in the directories of those that import this one.
    pub parentpathblock: bool,
    /// What is probably not meant.
    pub warnings: Vec<MetadataNote>,
}

/// Something to tell about the metadata of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetadataNote {
    /// The bytes.
    pub span: Range<usize>,
    /// The line, from one.
    pub line: u32,
    /// The column, from one, in characters.
    pub column: u32,
    /// What is wrong, in one sentence without a final stop.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl fmt::Display for MetadataNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.message)
    }
}

impl std::error::Error for MetadataNote {}

impl Default for Metadata {
    fn default() -> Metadata {
        Metadata {
            main: "main.mcl".into(),
            files: "files/".into(),
            path: String::new(),
            license: String::new(),
            parentpathblock: false,
            warnings: Vec::new(),
        }
    }
}

const KEYS: [&str; 5] = ["main", "files", "path", "license", "parentpathblock"];

/// The metadata of a module has a handful of lines.
const MAX_SIZE: usize = 1 << 20;

impl Metadata {
    /// Reads the text of a `metadata.yaml`. An empty one means all defaults.
    ///
    /// # Errors
    ///
    /// It is not YAML, or a value cannot be what its key needs.
    pub fn parse(text: &str) -> Result<Metadata, Box<MetadataNote>> {
        let mut reader = Reader::new(text);
        if text.len() > MAX_SIZE {
            return Err(reader.note(0..0, "the file is larger than 1 MiB", None));
        }
        let mut metadata = Metadata::default();
        let mut seen: Vec<String> = Vec::new();
        if !reader.enter()? {
            return Ok(metadata);
        }
        while let Some(key) = reader.key()? {
            if seen.contains(&key.text) {
                let message = format!("`{}` stands here for the second time", key.text);
                return Err(reader.note(key.span, message, None));
            }
            seen.push(key.text.clone());
            if !KEYS.contains(&key.text.as_str()) {
                let near = did_you_mean(&key.text, KEYS.into_iter());
                let hint = near.map(|near| format!("did you mean `{near}`?"));
                let message = format!("`{}` means nothing in the metadata of a module", key.text);
                // More are not read by anybody.
                if metadata.warnings.len() < 20 {
                    metadata.warnings.push(*reader.note(key.span, message, hint));
                }
                reader.skip()?;
                continue;
            }
            let value = reader.value(&key)?;
            metadata.set(&key.text, &value).map_err(|(message, hint)| {
                let hint = (!hint.is_empty()).then(|| hint.to_owned());
                reader.note(value.span.clone(), format!("`{}` {message}", key.text), hint)
            })?;
        }
        Ok(metadata)
    }

    fn set(&mut self, key: &str, value: &Scalar) -> Result<(), (&'static str, &'static str)> {
        let text = if value.is_null() { "" } else { value.text.as_str() };
        match key {
            "license" => self.license = text.to_owned(),
            "parentpathblock" => {
                self.parentpathblock = match text.to_ascii_lowercase().as_str() {
                    "true" | "yes" | "on" => true,
                    "" | "false" | "no" | "off" => false,
                    _ => return Err(("must be `true` or `false`", "")),
                }
            }
            "main" if text.is_empty() => {}
            "main" => {
                check_path(text)?;
                if text.ends_with('/') {
                    return Err((
                        "must be a file, and this names a directory",
                        "leave out the slash at the end",
                    ));
                }
                self.main = text.to_owned();
            }
            "files" | "path" => {
                if !text.is_empty() {
                    check_path(text)?;
                    if !text.ends_with('/') {
                        return Err((
                            "must be a directory with a slash at the end",
                            "add a slash at the end",
                        ));
                    }
                }
                let of = if key == "files" { &mut self.files } else { &mut self.path };
                // A key without a value says nothing; an empty text says that there is none.
                if !value.is_null() || key == "path" {
                    *of = text.to_owned();
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// A path inside the module.
fn check_path(text: &str) -> Result<(), (&'static str, &'static str)> {
    let relative = "write it relative to the directory of the metadata";
    if text.starts_with('/') {
        return Err(("must be a relative path", relative));
    }
    if text.split('/').any(|part| part == "..") {
        return Err(("cannot lead out of the module", relative));
    }
    if text.contains(char::is_control) || text.split('/').any(|part| part == ".git") {
        return Err(("has a path that cannot be", ""));
    }
    Ok(())
}

struct Scalar {
    text: String,
    plain: bool,
    span: Range<usize>,
}

impl Scalar {
    fn is_null(&self) -> bool {
        self.plain && matches!(self.text.as_str(), "" | "~" | "null" | "Null" | "NULL")
    }
}

/// Reads one map of texts. Aliases are refused where they matter, so nothing can grow.
struct Reader<'t> {
    text: &'t str,
    /// The parser does not see the byte order mark.
    mark: usize,
    /// Where each character starts; empty if each is one byte.
    characters: Vec<usize>,
    events: Parser<'t, saphyr_parser::StrInput<'t>>,
}

impl<'t> Reader<'t> {
    fn new(text: &'t str) -> Reader<'t> {
        let unmarked = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mark = text.len() - unmarked.len();
        let characters = if unmarked.is_ascii() || text.len() > MAX_SIZE {
            Vec::new()
        } else {
            unmarked.char_indices().map(|(at, _)| mark + at).collect()
        };
        Reader { text, mark, characters, events: Parser::new_from_str(unmarked) }
    }

    /// Goes into the map. There is none in an empty file.
    fn enter(&mut self) -> Result<bool, Box<MetadataNote>> {
        loop {
            match self.next()? {
                (Event::MappingStart(..), _) => return Ok(true),
                (Event::StreamEnd, _) => return Ok(false),
                (Event::Scalar(text, ScalarStyle::Plain, ..), _) if matches!(&*text, "" | "~" | "null") => {
                    return Ok(false);
                }
                (Event::Scalar(..) | Event::SequenceStart(..) | Event::Alias(_), span) => {
                    let hint = "a line looks like `main: main.mcl`".to_owned();
                    return Err(self.note(span, "expected keys with values", Some(hint)));
                }
                _ => {}
            }
        }
    }

    /// The next key, until the map ends.
    fn key(&mut self) -> Result<Option<Scalar>, Box<MetadataNote>> {
        match self.next()? {
            (Event::Scalar(text, style, ..), span) => Ok(Some(scalar(&text, style, span))),
            (Event::MappingEnd | Event::StreamEnd, _) => Ok(None),
            (_, span) => Err(self.note(span, "a key must be a word", None)),
        }
    }

    fn value(&mut self, key: &Scalar) -> Result<Scalar, Box<MetadataNote>> {
        match self.next()? {
            (Event::Scalar(text, style, ..), span) if span.is_empty() => {
                Ok(scalar(&text, style, key.span.clone()))
            }
            (Event::Scalar(text, style, ..), span) => Ok(scalar(&text, style, span)),
            (_, span) => {
                let span = if span.is_empty() { key.span.clone() } else { span };
                Err(self.note(span, format!("`{}` takes one text", key.text), None))
            }
        }
    }

    /// Passes over a value of any shape.
    fn skip(&mut self) -> Result<(), Box<MetadataNote>> {
        let mut depth = 0_usize;
        loop {
            match self.next()?.0 {
                Event::MappingStart(..) | Event::SequenceStart(..) => depth += 1,
                Event::MappingEnd | Event::SequenceEnd => depth = depth.saturating_sub(1),
                Event::StreamEnd => return Ok(()),
                _ => {}
            }
            if depth == 0 {
                return Ok(());
            }
        }
    }

    fn next(&mut self) -> Result<(Event<'t>, Range<usize>), Box<MetadataNote>> {
        match self.events.next() {
            None => Ok((Event::StreamEnd, self.text.len()..self.text.len())),
            Some(Ok((event, span))) => {
                let span = self.byte(span.start.index())..self.byte(span.end.index());
                Ok((event, span))
            }
            Some(Err(error)) => {
                let start = self.byte(error.marker().index());
                let next = self.text[start..].chars().next().map_or(0, char::len_utf8);
                let line = self.text[..start].rsplit('\n').next().unwrap_or_default();
                let hint =
                    line.trim_start_matches(' ').starts_with('\t') || self.text[start..].starts_with('\t');
                let hint = hint.then(|| "indent with spaces; YAML does not take tabs there".to_owned());
                Err(self.note(start..start + next, format!("this is not YAML: {}", error.info()), hint))
            }
        }
    }

    /// The parser counts characters.
    fn byte(&self, character: usize) -> usize {
        if self.characters.is_empty() {
            return (self.mark + character).min(self.text.len());
        }
        self.characters.get(character).copied().unwrap_or(self.text.len())
    }

    fn note(
        &self,
        span: Range<usize>,
        message: impl Into<String>,
        hint: Option<String>,
    ) -> Box<MetadataNote> {
        let before = self.text.get(self.mark..span.start).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        // The file is far shorter than four thousand million lines.
        let (line, column) = (line as u32, column as u32);
        Box::new(MetadataNote { span, line, column, message: message.into(), hint })
    }
}

fn scalar(text: &str, style: ScalarStyle, span: Range<usize>) -> Scalar {
    Scalar { text: text.to_owned(), plain: style == ScalarStyle::Plain, span }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        let note = *Metadata::parse(text).expect_err(text);
        let underlined = &text[note.span.clone()];
        format!("{note} [{underlined}] {}", note.hint.as_deref().unwrap_or_default())
    }

    #[test]
    fn an_empty_file_means_all_defaults() {
        for text in ["", "# nothing\n", "---\n", "~\n", "{}\n", "main:\nfiles:\n", "\u{feff}", "main: ~"] {
            assert_eq!(Metadata::parse(text).unwrap(), Metadata::default(), "{text:?}");
        }
    }

    #[test]
    fn every_key_is_read() {
        let text = "main: \"hello/main.mcl\"\t# where\nfiles: \"\"\npath: modules/\nlicense: GPL\nparentpathblock: yes\n";
        let found = Metadata::parse(text).unwrap();
        let wanted = Metadata {
            main: "hello/main.mcl".into(),
            files: String::new(),
            path: "modules/".into(),
            license: "GPL".into(),
            parentpathblock: true,
            warnings: Vec::new(),
        };
        assert_eq!(found, wanted);
    }

    #[test]
    fn unknown_keys_are_passed_over_with_a_warning() {
        let text = "mian: x.mcl\nauthor: {name: [a, {b: c}]}\npath: \"p/\"\n";
        let found = Metadata::parse(text).unwrap();
        assert_eq!((found.main.as_str(), found.path.as_str()), ("main.mcl", "p/"));
        let warnings: Vec<_> = found.warnings.iter().map(ToString::to_string).collect();
        assert_eq!(
            warnings,
            [
                "1:1: `mian` means nothing in the metadata of a module",
                "2:1: `author` means nothing in the metadata of a module"
            ]
        );
        assert_eq!(found.warnings[0].hint.as_deref(), Some("did you mean `main`?"));
        assert_eq!(&text[found.warnings[1].span.clone()], "author");
    }

    #[test]
    fn every_mistake_is_underlined() {
        for (text, wanted) in [
            ("main: /x.mcl", "1:7: `main` must be a relative path [/x.mcl] write"),
            ("a: 1\nmain: x/", "2:7: `main` must be a file, and this names a directory [x/] leave out"),
            ("main: ../x.mcl", "1:7: `main` cannot lead out of the module [../x.mcl]"),
            ("main: .git/x.mcl", "1:7: `main` has a path that cannot be [.git/x.mcl]"),
            ("files: f", "1:8: `files` must be a directory with a slash at the end [f] add a slash"),
            ("path: 'ä'", "1:7: `path` must be a directory with a slash at the end ['ä'] add a slash"),
            ("# ä\npath: /m/", "2:7: `path` must be a relative path [/m/]"),
            ("\u{feff}path: /m/", "1:7: `path` must be a relative path [/m/]"),
            ("parentpathblock: maybe", "1:18: `parentpathblock` must be `true` or `false` [maybe]"),
            ("main: [a]", "1:7: `main` takes one text"),
            ("main: &a x\nfiles: *a", "2:8: `files` takes one text"),
            ("main: a.mcl\nmain: b.mcl", "2:1: `main` stands here for the second time [main]"),
            ("- main", "1:1: expected keys with values"),
            ("main", "1:1: expected keys with values [main]"),
            ("main: \"x", "this is not YAML"),
            ("[a]: b", "1:1: a key must be a word"),
        ] {
            assert!(error(text).contains(wanted), "{text:?}: {}", error(text));
        }
    }

    #[test]
    fn garbage_gives_an_error_and_nothing_worse() {
        let mut deep = "a: ".to_owned();
        deep.push_str(&"[".repeat(100_000));
        assert!(Metadata::parse(&deep).is_err());
        for text in ["\0", "{", "}", "a: b: c", "\t", "? \n", "*x", "&a [*a]", "%", "!!", "\u{85}ä: ["] {
            let _ = Metadata::parse(text);
        }
    }

    #[test]
    fn places_lie_within_any_text() {
        let words = [
            "main", "files", "path", ":", ": ", "\n", "\n  ", "- ", "[", "]", "{", "}", "'", "\"", "&a ",
            "*a", "|", ">", "#", " ", "ä", "\t", "!!x ", "? ", "---\n", "/", "x/", "\u{feff}", "~",
        ];
        let mut state = 1_u64;
        for _ in 0..50_000 {
            let mut text = String::new();
            for _ in 0..10 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                text.push_str(words[(state >> 33) as usize % words.len()]);
            }
            let notes = match Metadata::parse(&text) {
                Ok(metadata) => metadata.warnings,
                Err(note) => vec![*note],
            };
            for note in notes {
                assert!(text.get(note.span.clone()).is_some(), "{text:?}: {note:?}");
            }
        }
    }
}
