//! `tar`: an archive of files.
//!
//! [`Tar`] is the declaration, `survey` finds what is to be in the archive, `archive` writes it.
//!
//! Deliberately absent: owners by name, access control lists and extended attributes, hard links, sparse files, compression
//! (which is what `gzip` is for).

mod archive;
mod survey;

use std::io::Write;

use mgmt_resource::{
    Checked, Context, Error, Identity, Invalid, Kind, Nothing, Order, Resource, Result, Want, Watch,
};
use mgmt_sys::ManagedPath;
use mgmt_value::Str;

pub(crate) use self::archive::{Archive, Content, Format, Member};
use self::survey::Survey;
use crate::support::declared_path::output_path;
use crate::support::derived_file::{self, Verified};

/// Keeps an archive of files and directories, in the format of `tar`.
///
/// Whenever something in it changes, or somebody changes the archive, it is made again. A file is stored under its own name
/// without the directories above it. Of a directory, everything below it is stored: under the name of the directory, or, if it
/// is written with a slash at its end, as it is. Symbolic links are stored as such, and never followed; a FIFO, a socket or a
/// device is an error. Modes, owners by number, and times in seconds are those of the files; the order is that of the names, so
/// the same files give the same bytes.
///
/// The archive is replaced in one step and keeps its owner and mode. A new one can be read by nobody but its owner; declare a
/// `file` of the same path without a content for something else.
///
/// ```mcl
/// tar "/var/backups/shop.tar" {
///     inputs => ["/etc/shop", "/srv/shop/"],
/// }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Resource)]
#[resource(kind = "tar", edges, receive)]
pub struct Tar {
    /// The archive; the name if it is not given.
    pub path: Str,
    /// Files and directories, by their absolute paths.
    pub inputs: Vec<Str>,
    /// The format: 2 is the one of 1988, in which names are short and files are smaller than 8 GiB; 4 is the one of 2001; 8 is
    /// that of GNU tar. 0 is the one of 1988 where that is enough, and else the one of 2001.
    pub format: i64,
}

/// What a `tar` remembers.
#[derive(Default)]
pub struct Remembered(Verified<Survey>);

impl Kind for Tar {
    type State = Remembered;
    type Sends = Nothing;

    fn validate(&self, name: &Str) -> Result<(), Invalid> {
        let path = output_path(&self.path, name)?;
        Format::read(self.format)?;
        for input in &self.inputs {
            let input =
                ManagedPath::new(input).map_err(|error| Invalid::field("inputs", error.to_string()))?;
            if input == path || input.contains(&path) {
                return Err(Invalid::field("inputs", format!("{input} has the archive itself in it"))
                    .with_hint("put the archive somewhere else"));
            }
            if input.is_root() {
                return Err(Invalid::field("inputs", "the root directory cannot be archived"));
            }
        }
        Ok(())
    }

    fn watches(&self, name: &Str) -> Vec<Watch> {
        let inputs = self.input_paths();
        let inputs = inputs.map(|input| Watch::Path { path: input.without_slash().into(), recursive: true });
        derived_file::watch(&self.path, name).into_iter().chain(inputs).collect()
    }

    async fn check_apply(&self, remembered: &mut Remembered, cx: &mut Context<'_>) -> Result<Checked> {
        let path = output_path(&self.path, &cx.id.name).map_err(Error::new)?;
        let format = Format::read(self.format).map_err(Error::new)?;
        let inputs: Vec<ManagedPath> = self.input_paths().collect();
        let survey = || Survey::take(&inputs, &path, cx);
        let write = |survey: &Survey, sink: &mut dyn Write| survey.write(&mut Archive::new(sink, format));
        derived_file::keep(&path, &mut remembered.0, cx, "archived", survey, write).await
    }

    fn provides(&self, name: &Str) -> Vec<Identity> {
        derived_file::provides(&self.path, name)
    }

    fn wants(&self, name: &Str) -> Vec<Want> {
        let Ok(path) = output_path(&self.path, name) else { return Vec::new() };
        let mut before = vec![Identity::Path(path.as_bytes().into())];
        let mut wants = Vec::new();
        for input in self.input_paths() {
            // Only the host knows whether it is a directory.
            for path in [input.without_slash(), input.to_directory().as_bytes()] {
                before.push(Identity::Path(path.into()));
            }
            before.push(Identity::PackageFile(input.without_slash().into()));
            wants.push(Want::Below(input.to_directory().as_bytes().into()));
        }
        wants.extend([Want::Each(Order::Before, before), Want::ParentOf(path.as_bytes().into())]);
        wants
    }

    fn equivalent(&self, name: &Str, other: &Tar) -> bool {
        let plain = |tar: &Tar| {
            let path = output_path(&tar.path, name).ok();
            (path, tar.input_paths().collect::<Vec<_>>(), Format::read(tar.format).ok())
        };
        self == other || plain(self) == plain(other)
    }
}

impl Tar {
    fn input_paths(&self) -> impl Iterator<Item = ManagedPath> {
        self.inputs.iter().filter_map(|input| ManagedPath::new(input).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tar(inputs: &[&str]) -> Tar {
        Tar { inputs: inputs.iter().map(|input| Str::from(*input)).collect(), ..Tar::default() }
    }

    fn refused(tar: &Tar) -> Invalid {
        Kind::validate(tar, &"/out/a.tar".into()).unwrap_err()
    }

    #[test]
    fn bad_parameters_are_refused() {
        for path in ["a.tar", "/a/", "/a\0"] {
            assert_eq!(refused(&Tar { path: path.into(), ..tar(&[]) }).field, Some("path"), "{path:?}");
        }
        for input in ["", "etc", "/a\0b", "/", "/out", "/out/", "/out/a.tar", "/x/.."] {
            assert_eq!(refused(&tar(&["/etc", input])).field, Some("inputs"), "{input:?}");
        }
        assert!(refused(&tar(&["/out"])).message.contains("the archive itself"));
        for format in [-1, 1, 3, 16] {
            assert_eq!(refused(&Tar { format, ..tar(&[]) }).field, Some("format"));
        }
        for format in [0, 2, 4, 8] {
            assert!(
                Kind::validate(&Tar { format, ..tar(&["/etc/", "/out/b"]) }, &"/out/a.tar".into()).is_ok()
            );
        }
    }

    #[test]
    fn what_goes_in_comes_first() {
        let wants = Kind::wants(&tar(&["/etc/ssh"]), &"/out/a.tar".into());
        assert!(wants.contains(&Want::Below("/etc/ssh/".into())));
        assert!(wants.contains(&Want::ParentOf("/out/a.tar".into())));
        let Want::Each(Order::Before, before) = &wants[1] else { panic!("{wants:?}") };
        for path in ["/out/a.tar", "/etc/ssh", "/etc/ssh/"] {
            assert!(before.contains(&Identity::Path(path.into())), "{path}");
        }
    }

    #[test]
    fn a_slash_at_the_end_of_an_input_makes_a_difference() {
        let name = Str::from("/out/a.tar");
        assert!(!tar(&["/etc"]).equivalent(&name, &tar(&["/etc/"])));
        assert!(tar(&["/etc//x"]).equivalent(&name, &Tar { path: "/out/a.tar".into(), ..tar(&["/etc/x"]) }));
        assert!(
            !tar(&["/a", "/b"]).equivalent(&name, &tar(&["/b", "/a"])),
            "the order is that of the archive"
        );
    }
}
