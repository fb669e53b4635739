//! A program, as it is brought to another host.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tokio::io::AsyncWriteExt as _;
use tokio::process::ChildStdin;

use crate::clean;
use crate::launch::Place;
use crate::login::{Login, Process, SshError};

/// A program, as it is brought to another host.
#[derive(Debug)]
pub(crate) struct Binary {
    path: PathBuf,
    digest: String,
    pub(crate) size: u64,
}

/// How long a part of the program may take to be copied.
const COPY: Duration = Duration::from_secs(60);

impl Binary {
    /// Reads it, once for each program.
    pub(crate) async fn find(path: &Path) -> Result<Arc<Binary>, SshError> {
        let path = path.to_owned();
        let read = tokio::task::spawn_blocking(move || Binary::of(&path)).await;
        read.map_err(io::Error::other)
            .flatten()
            .map_err(|error| SshError::new(format!("cannot read this program: {error}")))
    }

    fn of(path: &Path) -> io::Result<Arc<Binary>> {
        static KNOWN: Mutex<Vec<Arc<Binary>>> = Mutex::new(Vec::new());
        // Held while it is read, so that many hosts wait for one.
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(binary) = known.iter().find(|binary| binary.path == path) {
            return Ok(Arc::clone(binary));
        }
        let mut file = File::open(path)?;
        let mut hasher = Sha256::new();
        let mut size = 0;
        let mut piece = vec![0; 1 << 20];
        loop {
            let length = file.read(&mut piece)?;
            let Some(bytes) = piece.get(..length).filter(|bytes| !bytes.is_empty()) else { break };
            hasher.update(bytes);
            size += length as u64;
        }
        let mut digest = String::new();
        for byte in hasher.finalize() {
            let _ = write!(digest, "{byte:02x}");
        }
        let binary = Arc::new(Binary { path: path.to_owned(), digest, size });
        known.push(Arc::clone(&binary));
        Ok(binary)
    }

    /// The first words for a script.
    pub(crate) fn words(&self, mark: &str, place: Place, install: bool) -> Vec<String> {
        let yes_or_no = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
        vec![mark.to_owned(), self.digest.clone(), yes_or_no(place == Place::Cache), yes_or_no(install)]
    }

    /// Tells a script to receive it, and sends it.
    pub(crate) async fn copy(&self, process: &mut Process, mark: &str) -> Result<(), SshError> {
        process.say(&format!("copy {}", self.size)).await?;
        if let Err(error) = self.send(&mut process.input).await {
            // If it does not want all of it, it says why.
            process.answer(mark).await?;
            return Err(SshError::new(format!("cannot copy this program to {}: {error}", process.name)));
        }
        Ok(())
    }

    async fn send(&self, to: &mut ChildStdin) -> io::Result<()> {
        let slow = |_| io::Error::from(io::ErrorKind::TimedOut);
        let mut file = File::open(&self.path)?;
        let mut piece = vec![0; 256 << 10];
        loop {
            // From the cache of the system, mostly: it was read a moment ago.
            let length = file.read(&mut piece)?;
            let Some(bytes) = piece.get(..length).filter(|bytes| !bytes.is_empty()) else { break };
            tokio::time::timeout(COPY, to.write_all(bytes)).await.map_err(slow)??;
        }
        to.flush().await
    }
}

/// Whether the program is there already, and what else a script has found; an error if it could not run there.
pub(crate) fn fits<'a>(login: &Login, probe: &'a str) -> Result<(bool, &'a str), SshError> {
    let mut words = probe.splitn(4, ' ');
    let (Some(system), Some(machine), Some(have)) = (words.next(), words.next(), words.next()) else {
        return Err(SshError::new(format!("{}: {}", login.target, clean(probe.as_bytes()))));
    };
    let own = rustix::system::uname();
    let (own_system, own_machine) = (own.sysname().to_string_lossy(), own.machine().to_string_lossy());
    if system != own_system || machine != own_machine {
        let theirs = clean(format!("{system} on {machine}").as_bytes());
        return Err(SshError::new(format!(
            "{} is {theirs}, and this program is for {own_system} on {own_machine}",
            login.target
        ))
        .hint("run it from a host of the same kind, or install mgmt there"));
    }
    Ok((have == "yes", words.next().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Target;

    #[test]
    fn a_host_of_another_kind_is_refused_before_anything_is_copied() {
        let login = Login::new(Target::parse("web1").unwrap());
        let own = rustix::system::uname();
        let machine = own.machine().to_string_lossy();
        assert_eq!(fits(&login, &format!("Linux {machine} yes right")), Ok((true, "right")));
        assert_eq!(fits(&login, &format!("Linux {machine} no")), Ok((false, "")));
        for other in ["Linux s390x no", &format!("FreeBSD {machine} yes")] {
            let refused = fits(&login, other).unwrap_err();
            assert!(refused.message.contains("and this program is for Linux"), "{refused}");
        }
        assert!(fits(&login, "what").is_err());
    }

    #[test]
    fn a_program_is_read_once() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("program");
        std::fs::write(&path, "abc").unwrap();
        let binary = Binary::of(&path).unwrap();
        assert_eq!(binary.digest, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(binary.size, 3);
        assert!(Arc::ptr_eq(&binary, &Binary::of(&path).unwrap()));
    }
}
