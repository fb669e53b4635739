//! `gzip`: a compressed copy.
//!
//! [`Gzip`] is the declaration, `compress` writes the format.

mod compress;

use std::io::Write;

use mgmt_resource::{
    Checked, Context, Error, Identity, Invalid, Kind, Nothing, Order, Resource, Result, Want, Watch,
};
use mgmt_sys::ManagedPath;
use mgmt_sys::dir::Parent;
use mgmt_sys::file::OpenedFile;
use mgmt_sys::stat::{Stat, Timestamp};
use mgmt_value::Str;

use self::compress::{Compressor, Level};
use crate::support::declared_path::{file_path, output_path};
use crate::support::derived_file::{self, Ingredients, Trouble, Verified};

/// Keeps a compressed copy of a file, or of some text, in the format of `gzip`.
///
/// Whenever the input changes, or somebody changes the copy, it is made again. The same input gives the same bytes: neither the
/// time nor the name of the input is stored.
///
/// The copy is replaced in one step and keeps its owner and mode. A new one can be read by nobody but its owner; declare a
/// `file` of the same path without a content for something else.
///
/// ```mcl
/// gzip "/srv/www/catalogue.json.gz" {
///     input => "/srv/www/catalogue.json",
///     level => 9,
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Resource)]
#[resource(kind = "gzip", edges, receive)]
pub struct Gzip {
    /// The compressed file; the name if it is not given.
    pub path: Str,
    /// The file to compress. If it is not given, `content` is compressed.
    pub input: Option<Str>,
    /// What to compress, if there is no `input`.
    pub content: Str,
    /// How hard to try: from 1, which is fast, to 9, which is small. 0 does not compress at all, -1 is a balance, -2 does not
    /// look for repetitions.
    pub level: i64,
}

impl Default for Gzip {
    fn default() -> Gzip {
        Gzip { path: Str::EMPTY, input: None, content: Str::EMPTY, level: -1 }
    }
}

/// What the copy is made of: a file, or a content that is part of the declaration.
#[derive(PartialEq)]
pub struct Input {
    stat: Option<Stat>,
    content: Str,
    level: i64,
}

impl Ingredients for Input {
    fn changed(&self) -> Option<Timestamp> {
        self.stat.map(|stat| stat.changed)
    }
}

/// What a `gzip` remembers.
#[derive(Default)]
pub struct Remembered(Verified<Input>);

impl Kind for Gzip {
    type State = Remembered;
    type Sends = Nothing;

    fn validate(&self, name: &Str) -> Result<(), Invalid> {
        let path = output_path(&self.path, name)?;
        Level::read(self.level)?;
        let Some(input) = &self.input else { return Ok(()) };
        if file_path("input", input)? == path {
            return Err(Invalid::field("input", "is the file that is written"));
        }
        match self.content.is_empty() {
            true => Ok(()),
            false => {
                Err(Invalid::field("content", "is given, and `input` too").with_hint("leave one of them out"))
            }
        }
    }

    fn watches(&self, name: &Str) -> Vec<Watch> {
        let input = self.input_path();
        let input = input.map(|path| Watch::Path { path: path.as_bytes().into(), recursive: false });
        derived_file::watch(&self.path, name).into_iter().chain(input).collect()
    }

    async fn check_apply(&self, remembered: &mut Remembered, cx: &mut Context<'_>) -> Result<Checked> {
        let path = output_path(&self.path, &cx.id.name).map_err(Error::new)?;
        let level = Level::read(self.level).map_err(Error::new)?;
        let input = self.input_path();
        let survey = || {
            let stat = match &input {
                Some(input) => Some(*open(input)?.stat()),
                None => None,
            };
            Ok(Input { stat, content: self.content.clone(), level: self.level })
        };
        let write = |made_of: &Input, sink: &mut dyn Write| {
            let mut compressor = Compressor::new(sink, level)?;
            match &input {
                Some(input) => copy(input, made_of, &mut compressor)?,
                None => compressor.write_all(&self.content)?,
            }
            compressor.finish()?;
            Ok(())
        };
        derived_file::keep(&path, &mut remembered.0, cx, "compressed", survey, write).await
    }

    fn provides(&self, name: &Str) -> Vec<Identity> {
        derived_file::provides(&self.path, name)
    }

    fn wants(&self, name: &Str) -> Vec<Want> {
        let Ok(path) = output_path(&self.path, name) else { return Vec::new() };
        let path = Str::from(path.as_bytes());
        let input = self.input_path().map(|input| Str::from(input.as_bytes()));
        let mut before = vec![Identity::Path(path.clone())];
        before.extend(input.clone().map(Identity::Path));
        before.extend(input.map(Identity::PackageFile));
        vec![Want::Each(Order::Before, before), Want::ParentOf(path)]
    }

    fn equivalent(&self, name: &Str, other: &Gzip) -> bool {
        let plain = |gzip: &Gzip| {
            let path = output_path(&gzip.path, name).ok();
            (path, gzip.input_path(), gzip.content.clone(), gzip.level)
        };
        self == other || plain(self) == plain(other)
    }
}

impl Gzip {
    fn input_path(&self) -> Option<ManagedPath> {
        self.input.as_ref().and_then(|input| ManagedPath::new(input).ok())
    }
}

/// Opens a file that is no symbolic link: what is behind one is not watched.
fn open(path: &ManagedPath) -> Result<OpenedFile, Trouble> {
    // The root is a directory, and refused before.
    Ok(Parent::open(path)?.open_regular(path.file_name().unwrap_or_default())?)
}

/// Compresses a file that must be what it was when it was surveyed.
fn copy(input: &ManagedPath, made_of: &Input, compressor: &mut Compressor<'_>) -> Result<(), Trouble> {
    let file = open(input)?;
    let mut buffer = vec![0; 128 << 10];
    let mut offset = 0;
    loop {
        let chunk = file.read_at(&mut buffer, offset)?;
        if chunk.is_empty() {
            break;
        }
        compressor.write_all(chunk)?;
        offset += chunk.len() as u64;
    }
    match made_of.stat {
        Some(seen) if file.current_stat()?.same_version(&seen) => Ok(()),
        _ => Err(Trouble::Changing(input.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(gzip: &Gzip) -> Invalid {
        Kind::validate(gzip, &"/a.gz".into()).unwrap_err()
    }

    #[test]
    fn bad_parameters_are_refused() {
        let gzip = Gzip::default();
        for path in ["a.gz", "/a/", "/a\0"] {
            assert_eq!(refused(&Gzip { path: path.into(), ..gzip.clone() }).field, Some("path"), "{path:?}");
            let input = Gzip { input: Some(path.into()), ..gzip.clone() };
            assert_eq!(refused(&input).field, Some("input"), "{path:?}");
        }
        for level in [-3, 10, i64::MIN, i64::MAX] {
            assert_eq!(refused(&Gzip { level, ..gzip.clone() }).field, Some("level"));
        }
        let same = Gzip { input: Some("/x/../a.gz".into()), ..gzip.clone() };
        assert!(refused(&same).message.contains("the file that is written"));
        let both = Gzip { input: Some("/a".into()), content: "a".into(), ..gzip.clone() };
        assert_eq!(refused(&both).field, Some("content"));
        assert!(Kind::validate(&gzip, &"relative".into()).is_err());
        for level in -2..=9 {
            assert!(Kind::validate(&Gzip { level, ..gzip.clone() }, &"/a.gz".into()).is_ok());
        }
    }

    #[test]
    fn the_input_and_the_directory_come_first() {
        let gzip = Gzip { input: Some("/b//c".into()), ..Gzip::default() };
        let path = |path: &str| Identity::Path(path.into());
        let before = vec![path("/a/x.gz"), path("/b/c"), Identity::PackageFile("/b/c".into())];
        let wants = Kind::wants(&gzip, &"/a/x.gz".into());
        assert_eq!(wants, [Want::Each(Order::Before, before), Want::ParentOf("/a/x.gz".into())]);
        assert_eq!(Kind::provides(&gzip, &"/a/x.gz".into()), [path("/a/x.gz")]);
        assert_eq!(Kind::watches(&gzip, &"/a/x.gz".into()).len(), 2);
    }

    #[test]
    fn the_name_spelled_out_as_path_is_the_same_declaration() {
        let (short, name) = (Gzip::default(), Str::from("/a.gz"));
        let long = Gzip { path: "/a.gz".into(), ..Gzip::default() };
        assert!(short.equivalent(&name, &long));
        assert!(!short.equivalent(&name, &Gzip { level: 1, ..long }));
    }
}
