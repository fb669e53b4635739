//! `deploy:tar`: an archive of the program that runs.
//!
//! [`DeployTar`] is the declaration. The archive is written by what `tar` uses, and kept by what all files that follow from
//! something else use.

use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use mgmt_resource::{
    Checked, Context, Error, Identity, Invalid, Kind, Nothing, Order, ProgramFile, ProgramFileKind,
    ProgramFiles, Resource, Result, Want, Watch,
};
use mgmt_sys::ManagedPath;
use mgmt_sys::stat::Timestamp;
use mgmt_value::Str;
use sha2::{Digest, Sha256};

use crate::kinds::tar::{Archive, Content, Format, Member};
use crate::support::declared_path::output_path;
use crate::support::derived_file::{self, Ingredients, Trouble, Verified};
use crate::support::follow;

/// Keeps an archive of the program that runs, in the format of `tar`.
///
/// In it are the texts of the program and of the modules that it imports, their metadata, the lock file, and everything below
/// the directories for files of these modules, which are `files/` if the metadata does not say otherwise: all that the
/// functions of the module `deploy` see, but what comes with mgmt itself. The directory of the program is the root of the
/// archive; a module that is elsewhere is below `modules/`. Whenever one of the files changes, another program runs, or somebody
/// changes the archive, it is made again.
///
/// The archive depends on the program alone: files belong to root, can be read by all, and executed if their owner may do so, and
/// have no time. So the same program gives the same bytes on every host.
///
/// The archive is replaced in one step and keeps its owner and mode. A new one can be read by nobody but its owner; declare a
/// `file` of the same path without a content for something else. A graph that comes from YAML is no program, and has no files.
///
/// ```mcl
/// deploy:tar "/var/backups/program.tar" {}
/// ```
#[derive(Clone, Debug, Default, PartialEq, Resource)]
#[resource(kind = "deploy:tar", edges, receive)]
pub struct DeployTar {
    /// The archive; the name if it is not given.
    pub path: Str,
    /// The format: 2 is the one of 1988, in which names are short and files are smaller than 8 GiB; 4 is the one of 2001; 8 is
    /// that of GNU tar. 0 is the one of 1988 where that is enough, and else the one of 2001.
    pub format: i64,
}

/// What a `deploy:tar` remembers.
#[derive(Default)]
pub struct Remembered(Verified<Survey>);

impl Kind for DeployTar {
    type State = Remembered;
    type Sends = Nothing;

    fn validate(&self, name: &Str) -> Result<(), Invalid> {
        output_path(&self.path, name)?;
        Format::read(self.format)?;
        Ok(())
    }

    fn watches(&self, name: &Str) -> Vec<Watch> {
        derived_file::watch(&self.path, name).into_iter().chain([follow::program_files()]).collect()
    }

    async fn check_apply(&self, remembered: &mut Remembered, cx: &mut Context<'_>) -> Result<Checked> {
        let path = output_path(&self.path, &cx.id.name).map_err(Error::new)?;
        let format = Format::read(self.format).map_err(Error::new)?;
        let Some(files) = cx.host.program_files.borrow().clone() else {
            return Err(Error::new("there is no program that has files")
                .with_hint("run a program of the language, with `mgmt run lang`"));
        };
        refuse_itself(&*files, &path)?;
        let survey = || Survey::take(&files, cx);
        let write = |survey: &Survey, sink: &mut dyn Write| survey.write(&mut Archive::new(sink, format));
        derived_file::keep(&path, &mut remembered.0, cx, "archived", survey, write).await
    }

    fn provides(&self, name: &Str) -> Vec<Identity> {
        derived_file::provides(&self.path, name)
    }

    fn wants(&self, name: &Str) -> Vec<Want> {
        let Ok(path) = output_path(&self.path, name) else { return Vec::new() };
        let path = Str::from(path.as_bytes());
        vec![Want::Each(Order::Before, vec![Identity::Path(path.clone())]), Want::ParentOf(path)]
    }

    fn equivalent(&self, name: &Str, other: &DeployTar) -> bool {
        let plain = |tar: &DeployTar| (output_path(&tar.path, name).ok(), Format::read(tar.format).ok());
        self == other || plain(self) == plain(other)
    }
}

/// An archive among the files that are archived would never be right.
fn refuse_itself(files: &dyn ProgramFiles, path: &ManagedPath) -> Result<()> {
    for place in files.places() {
        let Ok(place) = ManagedPath::new(place.as_os_str().as_bytes()) else { continue };
        if place == *path || place.contains(path) {
            let error = format!("{place} belongs to the program, and has the archive itself in it");
            return Err(Error::new(error).with_hint("put the archive somewhere else"));
        }
    }
    Ok(())
}

/// What goes into the archive, in its order.
struct Survey {
    files: Arc<dyn ProgramFiles>,
    found: Vec<Found>,
}

#[derive(PartialEq)]
struct Found {
    file: ProgramFile,
    size: u64,
    digest: [u8; 32],
}

impl PartialEq for Survey {
    fn eq(&self, other: &Survey) -> bool {
        self.found == other.found
    }
}

impl Ingredients for Survey {
    /// All that there is to know is in the digests.
    fn changed(&self) -> Option<Timestamp> {
        None
    }
}

impl Survey {
    fn take(files: &Arc<dyn ProgramFiles>, cx: &Context<'_>) -> Result<Survey, Trouble> {
        let mut found = Vec::new();
        for file in files.list().map_err(|error| trouble(&error))? {
            cx.checkpoint().map_err(Trouble::Told)?;
            let (mut size, mut digest) = (0, Sha256::new());
            if let ProgramFileKind::File { .. } = file.kind {
                let read = files.read(&file.path, &mut |piece| {
                    size += piece.len() as u64;
                    digest.update(piece);
                    Ok(())
                });
                read.map_err(|error| trouble(&error))?;
            }
            found.push(Found { file, size, digest: digest.finalize().into() });
        }
        Ok(Survey { files: Arc::clone(files), found })
    }

    fn write(&self, archive: &mut Archive<'_>) -> Result<(), Trouble> {
        for Found { file, size, digest } in &self.found {
            let mut name = file.path.as_os_str().as_bytes().to_vec();
            let member = |name, mode| Member { name, mode, uid: 0, gid: 0, modified: 0 };
            match &file.kind {
                ProgramFileKind::Directory => {
                    name.push(b'/');
                    archive.add(&member(&name, 0o755), Content::Directory)?;
                }
                ProgramFileKind::Link(target) => {
                    archive.add(&member(&name, 0o777), Content::Link(target.as_os_str().as_bytes()))?;
                }
                ProgramFileKind::File { executable } => {
                    let mode = if *executable { 0o755 } else { 0o644 };
                    let mut again = Sha256::new();
                    let mut pieces = |take: &mut dyn FnMut(&[u8]) -> io::Result<()>| {
                        self.files.read(&file.path, &mut |piece| {
                            again.update(piece);
                            take(piece)
                        })
                    };
                    archive.add(&member(&name, mode), Content::Pieces(*size, &mut pieces))?;
                    if <[u8; 32]>::from(again.finalize()) != *digest {
                        return Err(Trouble::Changing(file.path.display().to_string()));
                    }
                }
            }
        }
        archive.finish()
    }
}

fn trouble(error: &io::Error) -> Trouble {
    match error.kind() {
        // Editors remove files for a moment.
        io::ErrorKind::NotFound => Trouble::Changing(error.to_string()),
        _ => Trouble::Told(Error::new(format_args!("cannot read a file of the program: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_parameters_are_refused() {
        let refused = |tar: &DeployTar| Kind::validate(tar, &"/out/a.tar".into()).unwrap_err();
        for path in ["a.tar", "/a/", "/a\0"] {
            assert_eq!(refused(&DeployTar { path: path.into(), format: 0 }).field, Some("path"), "{path:?}");
        }
        assert_eq!(refused(&DeployTar { format: 1, ..DeployTar::default() }).field, Some("format"));
        assert!(Kind::validate(&DeployTar::default(), &"/out/a.tar".into()).is_ok());
    }

    #[test]
    fn the_name_spelled_out_is_the_same_declaration() {
        let long = DeployTar { path: "/out/./a.tar".into(), format: 4 };
        assert!(DeployTar::default().equivalent(&"/out/a.tar".into(), &long));
        assert!(!DeployTar { format: 8, ..long.clone() }.equivalent(&"/out/a.tar".into(), &long));
    }
}
