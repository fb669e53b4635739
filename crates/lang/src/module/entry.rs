//! The program argument of the command line.

use std::path::{Path, PathBuf};

use super::files::Files;
use super::import_name::BadImport;

/// Where a program starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A file.
    File(PathBuf),
    /// A directory with a module: its `metadata.yaml`, or else its `main.mcl`.
    Directory(PathBuf),
    /// The metadata of a module.
    Metadata(PathBuf),
    /// The program comes from standard input.
    StandardInput,
    /// The argument is the program.
    Code(String),
}

impl Entry {
    /// Understands the argument by its form alone.
    ///
    /// # Errors
    ///
    /// It is empty, or `metadata.yaml` without a directory.
    pub fn parse(argument: &str) -> Result<Entry, BadImport> {
        let error = |message: &str, hint: &str| {
            Err(BadImport { message: message.to_owned(), hint: Some(hint.to_owned()) })
        };
        match argument {
            "" => {
                error("there is no program: the argument is empty", "write the path of a file or a directory")
            }
            "-" => Ok(Entry::StandardInput),
            "metadata.yaml" => error(
                "`metadata.yaml` alone is taken for the text of a program",
                "write `./metadata.yaml`, or `./` for the directory",
            ),
            path if path.ends_with("/metadata.yaml") => Ok(Entry::Metadata(path.into())),
            path if path.ends_with(".mcl") => Ok(Entry::File(path.into())),
            path if path.ends_with('/') => Ok(Entry::Directory(path.into())),
            code => Ok(Entry::Code(code.to_owned())),
        }
    }

    /// Understands the argument, and takes what would be code for a path if it is one: no program is a single word.
    ///
    /// # Errors
    ///
    /// As for [`Entry::parse`]; and what looks like a path and is none.
    pub fn parse_among(argument: &str, files: &dyn Files) -> Result<Entry, BadImport> {
        let path = Path::new(argument);
        if argument == "metadata.yaml" && files.is_file(path) {
            return Ok(Entry::Metadata(Path::new("./").join(path)));
        }
        let entry = Entry::parse(argument)?;
        let Entry::Code(code) = &entry else { return Ok(entry) };
        let is_word = !code.contains(|character: char| {
            character.is_whitespace() || matches!(character, '"' | '{' | '(' | '[' | '=' | '$' | '#')
        });
        match () {
            () if !is_word => Ok(entry),
            () if files.is_directory(path) => Ok(Entry::Directory(path.into())),
            () if files.is_file(path) => Ok(Entry::File(path.into())),
            () => Err(BadImport {
                message: format!("there is no file or directory `{argument}`"),
                hint: Some(
                    "files end in `.mcl`; what is neither file nor directory is taken for a program".into(),
                ),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::module::files::Memory;

    #[test]
    fn the_form_of_the_argument_says_what_it_is() {
        for (argument, entry) in [
            ("-", Entry::StandardInput),
            ("a/metadata.yaml", Entry::Metadata("a/metadata.yaml".into())),
            ("/metadata.yaml", Entry::Metadata("/metadata.yaml".into())),
            ("x.mcl", Entry::File("x.mcl".into())),
            ("dir/", Entry::Directory("dir/".into())),
            ("dir", Entry::Code("dir".into())),
            ("noop \"x\" {}", Entry::Code("noop \"x\" {}".into())),
        ] {
            assert_eq!(Entry::parse(argument).unwrap(), entry, "{argument}");
        }
        assert!(Entry::parse("").unwrap_err().message.contains("empty"));
        assert!(Entry::parse("metadata.yaml").unwrap_err().hint.unwrap().contains("./metadata.yaml"));
    }

    #[test]
    fn a_word_that_is_a_path_is_taken_for_one() {
        let files = Memory::from([("/dir/main.mcl", ""), ("/metadata.yaml", ""), ("/script", "")]);
        let parse = |argument| Entry::parse_among(argument, &files);
        assert_eq!(parse("dir").unwrap(), Entry::Directory("dir".into()));
        assert_eq!(parse("script").unwrap(), Entry::File("script".into()));
        assert_eq!(parse("metadata.yaml").unwrap(), Entry::Metadata("./metadata.yaml".into()));
        assert_eq!(parse(".").unwrap(), Entry::Directory(".".into()));
        assert_eq!(parse("$x = 1").unwrap(), Entry::Code("$x = 1".into()));
        assert!(parse("nothing").unwrap_err().message.contains("no file or directory `nothing`"));
    }
}
