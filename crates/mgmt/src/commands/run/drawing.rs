//! The picture of each graph, for `--graphviz`.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mgmt_sys::dir::Parent;
use mgmt_sys::handle::Attributes;
use mgmt_sys::path::ManagedPath;
use mgmt_sys::process::{Command, Credentials, Helper, Signal, SpawnError};
use mgmt_sys::replace::{Durability, Expect, InPlace, Replacement};

use tokio::sync::watch;

use crate::environment;
use crate::failure::Failure;

/// The programs of Graphviz that may make the picture. Only these: the name becomes a command of root.
const FILTERS: [&str; 8] = ["dot", "neato", "twopi", "circo", "fdp", "sfdp", "patchwork", "osage"];
/// A picture that takes longer is not worth waiting for.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often the file may change while it is written.
const ATTEMPTS: usize = 8;

/// Where to draw, with what, and for whom.
#[derive(Clone, Debug)]
pub(super) struct Drawing {
    file: PathBuf,
    filter: &'static str,
    /// Who ran `sudo`: the files are theirs.
    owner: Option<(u32, u32)>,
}

impl Drawing {
    pub(super) fn new(file: PathBuf, filter: Option<&str>, hostname: &str) -> Result<Drawing, Failure> {
        let wanted = filter.unwrap_or(FILTERS[0]);
        let Some(filter) = FILTERS.into_iter().find(|known| *known == wanted) else {
            return Err(Failure::usage(format!("`--graphviz-filter`: there is no filter `{wanted}`"))
                .hint(format!("choose one of {}", FILTERS.join(", "))));
        };
        let mut name = std::path::absolute(&file)
            .map_err(|error| Failure::usage(format!("`--graphviz {}`: {error}", file.display())))?
            .into_os_string();
        name.push(format!("@{hostname}"));
        let number = |variable: &environment::Variable| variable.text()?.parse::<u32>().ok();
        let owner = rustix::process::geteuid()
            .is_root()
            .then(|| number(&environment::SUDO_UID).zip(number(&environment::SUDO_GID)))
            .flatten();
        Ok(Drawing { file: name.into(), filter, owner })
    }

    /// Draws whatever comes, until nothing more can come. While a picture is being made, all graphs but the latest are
    /// passed over.
    pub(super) async fn follow(self, mut graphs: watch::Receiver<String>, helper: Helper) {
        while graphs.changed().await.is_ok() {
            let dot = graphs.borrow_and_update().clone();
            self.draw(&dot, &helper).await;
        }
    }

    /// Writes the text and makes the picture. Nothing that goes wrong here matters to the run.
    async fn draw(&self, dot: &str, helper: &Helper) {
        if let Err(error) = tokio::task::block_in_place(|| self.write(dot)) {
            tracing::warn!("cannot write {}: {error}", self.file.display());
            return;
        }
        match self.picture(helper).await {
            Ok(()) => {}
            Err(NoPicture::NotInstalled) => {
                tracing::info!(
                    "wrote {}; no picture, because `{}` is not installed",
                    self.file.display(),
                    self.filter
                );
            }
            Err(NoPicture::Failed(why)) => tracing::warn!("`{}` made no picture: {why}", self.filter),
        }
    }

    fn write(&self, dot: &str) -> Result<(), Box<dyn std::error::Error>> {
        // Whoever else is at work in the directory will not be in the way each time.
        for _ in 0..ATTEMPTS {
            match self.replace(dot) {
                Err(error)
                    if error.downcast_ref::<mgmt_sys::Error>().is_some_and(mgmt_sys::Error::is_raced) => {}
                result => return result,
            }
        }
        self.replace(dot)
    }

    fn replace(&self, dot: &str) -> Result<(), Box<dyn std::error::Error>> {
        let path = ManagedPath::new(self.file.as_os_str().as_bytes())?;
        let name = path.file_name().ok_or_else(|| io::Error::other("it is the root directory"))?;
        let parent = Parent::open(&path)?;
        let mut new = Replacement::begin(&parent, name, InPlace::Refuse)?;
        new.write_all(dot.as_bytes())?;
        let attributes = Attributes {
            owner: self.owner.map(|(user, _)| user),
            group: self.owner.map(|(_, group)| group),
            mode: Some(0o600),
            ..Attributes::default()
        };
        new.commit(&attributes, Expect::Anything, Durability::None)?;
        Ok(())
    }

    async fn picture(&self, helper: &Helper) -> Result<(), NoPicture> {
        let mut output = OsString::from("-o");
        output.push(&self.file);
        output.push(".png");
        let mut command =
            Command::new([self.filter.into(), "-Tpng".into(), output, self.file.clone().into()]);
        command.cwd = self.file.parent().map(Path::to_owned);
        command.helper = helper.clone();
        command.credentials = self.owner.map(|(uid, gid)| Credentials { uid, gid, groups: Vec::new() });
        let running = command.spawn().map_err(|error| match error {
            SpawnError::NotFound { .. } => NoPicture::NotInstalled,
            error => NoPicture::Failed(error.to_string()),
        })?;
        let over = tokio::time::sleep(PATIENCE);
        let finished = running
            .wait_with(std::future::pending(), over, Signal::TERM, None)
            .await
            .map_err(|error| NoPicture::Failed(error.to_string()))?;
        if finished.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&finished.stderr.bytes);
        Err(NoPicture::Failed(said.lines().next().unwrap_or("it failed").to_owned()))
    }
}

enum NoPicture {
    NotInstalled,
    Failed(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_filters_are_taken() {
        let drawing = Drawing::new("/tmp/graph".into(), None, "host").unwrap();
        assert_eq!((drawing.filter, drawing.file.to_str()), ("dot", Some("/tmp/graph@host")));
        assert!(Drawing::new("/tmp/graph".into(), Some("neato"), "host").is_ok());
        let failure = Drawing::new("/tmp/graph".into(), Some("/bin/sh"), "host").unwrap_err();
        assert_eq!(failure.code, 2);
    }
}
