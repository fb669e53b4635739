//! Serving state on disk: whose member a host is, the data, and where the others are.
//!
//! ```text
//!   DIRECTORY/state.json         {"format":1,"disk":"member","identity":"5b1c…","member":"8e9e05c5"}
//!   DIRECTORY/state-copy.json    the same, used if state.json is damaged: nothing else says whose member this host is
//!   DIRECTORY/connection.json    {"format":1,"endpoints":["http://a:2379"],"namespace":"/mgmt", …}
//!   DIRECTORY/data/              the data of the server
//!   DIRECTORY/former-NUMBER/     data of a member that is one no longer
//!   DIRECTORY/recover            begin again with this data alone, at the next start and never after that
//!   DIRECTORY/data.new/, recovery.db, recovery:1 and :2    on the way there
//!   DIRECTORY/etcd.log           what the server says; the part before it is etcd.log.1
//! ```

use std::io;
use std::path::{Path, PathBuf};

use mgmt_sys::dir::Parent;
use mgmt_sys::path::ManagedPath;
use mgmt_sys::replace::Durability;
use serde_json::{Value as Json, json};

use super::{Disk, MemberId};
use mgmt_state::StateError;
use mgmt_state::record::{self, Record};

const STATE: &str = "state.json";
const STATE_COPY: &str = "state-copy.json";
const CONNECTION: &str = "connection.json";
const RECOVER: &str = "recover";

/// How many sets of data are kept that belong to members of the past.
const FORMER: usize = 2;

/// The directory of a host that serves.
#[derive(Clone, Debug)]
pub(super) struct Directory {
    path: PathBuf,
}

/// How other processes of this host reach the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remembered {
    /// Where the servers were when last seen.
    pub endpoints: Vec<String>,
    /// What stands in front of all keys.
    pub namespace: String,
    /// The certificates that may vouch for servers.
    pub authority: Option<PathBuf>,
    /// The certificate of this host, and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
}

impl Directory {
    pub(super) fn new(path: PathBuf) -> Directory {
        Directory { path }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn data(&self) -> PathBuf {
        self.path.join("data")
    }

    fn open(&self) -> Result<Parent, StateError> {
        open(&self.path)
    }

    /// There is data that a server can begin with.
    pub(super) fn has_data(&self) -> bool {
        let Ok(mut logs) = std::fs::read_dir(self.data().join("member/wal")) else { return false };
        logs.any(|entry| entry.is_ok_and(|entry| entry.path().extension().is_some_and(|it| it == "wal")))
    }

    /// What there is, in the light of what is really there.
    pub(super) fn disk(&self) -> Result<Disk, StateError> {
        match self.stored()? {
            Disk::Member { identity, .. } if !self.has_data() => {
                tracing::warn!("the data of the server is gone: this host joins the cluster as a new member");
                Ok(Disk::Former { identity })
            }
            disk => Ok(disk),
        }
    }

    /// What was written down. If that is damaged, its copy is.
    fn stored(&self) -> Result<Disk, StateError> {
        let error = match Record::read(&self.open()?, STATE) {
            Ok(None) => return Ok(Disk::Empty),
            Ok(Some(record)) => match parse(&record) {
                Ok(disk) => return Ok(disk),
                Err(error) => error,
            },
            Err(error) => error,
        };
        if !matches!(error, StateError::Corrupt { .. }) {
            return Err(error);
        }
        let copy = Record::read(&self.open()?, STATE_COPY).and_then(|copy| match copy {
            Some(copy) => parse(&copy.verified()?).map(Some),
            None => Ok(None),
        });
        let Ok(Some(disk)) = copy else { return Err(error) };
        record::set_aside(error, "nothing, as there is a copy", ())?;
        self.remember(&disk)?;
        Ok(disk)
    }

    /// Writes down what there is, for good.
    pub(super) fn remember(&self, disk: &Disk) -> Result<(), StateError> {
        let json = match disk {
            Disk::Empty => {
                record::remove(&self.open()?, STATE, Durability::Full)?;
                return record::remove(&self.open()?, STATE_COPY, Durability::Full);
            }
            Disk::Founder { identity } => json!({"format": 1, "disk": "founder", "identity": identity}),
            Disk::Former { identity } => json!({"format": 1, "disk": "former", "identity": identity}),
            Disk::Member { identity, member } => json!({
                "format": 1, "disk": "member", "identity": identity, "member": member.to_string(),
            }),
        };
        let text = record::text(&json);
        record::write(&self.open()?, STATE, &text, Durability::Full)?;
        record::write(&self.open()?, STATE_COPY, &text, Durability::Full)
    }

    /// Moves the data out of the way. Of what was moved before, only the newest is kept: each of these members had been
    /// replaced by others that have all there was.
    pub(super) fn set_aside(&self) -> io::Result<()> {
        let data = self.data();
        if data.exists() {
            let number = self.former()?.last().map_or(1, |(number, _)| number + 1);
            std::fs::rename(data, self.path.join(format!("former-{number}")))?;
            std::fs::File::open(&self.path)?.sync_all()?;
        }
        let former = self.former()?;
        for (_, path) in former.iter().rev().skip(FORMER) {
            std::fs::remove_dir_all(path)?;
        }
        Ok(())
    }

    /// Somebody has asked to begin again with this data alone.
    pub(super) fn wants_recovery(&self) -> bool {
        self.path.join(RECOVER).exists()
    }

    /// That has been done, and is not done again.
    pub(super) fn forget_recovery(&self) -> Result<(), StateError> {
        record::remove(&self.open()?, RECOVER, Durability::Full)
    }

    /// What was moved out of the way, the oldest first.
    fn former(&self) -> io::Result<Vec<(u64, PathBuf)>> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(&self.path)? {
            let entry = entry?;
            let name = entry.file_name();
            let number = name.to_str().and_then(|name| name.strip_prefix("former-")?.parse().ok());
            found.extend(number.map(|number| (number, entry.path())));
        }
        found.sort();
        Ok(found)
    }

    pub(super) fn remember_connection(&self, connection: &Remembered) -> Result<(), StateError> {
        let path = |path: &Path| path.to_string_lossy().into_owned();
        let json = json!({
            "format": 1,
            "endpoints": connection.endpoints,
            "namespace": connection.namespace,
            "authority": connection.authority.as_deref().map(path),
            "certificate": connection.identity.as_ref().map(|(certificate, _)| path(certificate)),
            "key": connection.identity.as_ref().map(|(_, key)| path(key)),
        });
        record::write(&self.open()?, CONNECTION, &record::text(&json), Durability::Data)
    }

    /// Where the others were when last seen. What is damaged is set aside: it is found out again.
    pub(super) fn connection(&self) -> Result<Option<Remembered>, StateError> {
        let lost = "where the servers of the cluster were when last seen";
        Remembered::read(&self.path).or_else(|error| record::set_aside(error, lost, None))
    }
}

/// What a record says there is.
fn parse(record: &Record) -> Result<Disk, StateError> {
    let text = |name: &str| match record.get(name)? {
        Json::String(text) => Ok(text.clone()),
        _ => Err(record.corrupt(format!("`{name}` is not a string"))),
    };
    let identity = text("identity")?;
    match text("disk")?.as_str() {
        // One that has never got as far as having data begins again.
        "founder" => Ok(Disk::Founder { identity }),
        "former" => Ok(Disk::Former { identity }),
        "member" => match u64::from_str_radix(&text("member")?, 16) {
            Ok(id) => Ok(Disk::Member { identity, member: MemberId(id) }),
            Err(_) => Err(record.corrupt("`member` is not the number of a member")),
        },
        other => Err(record.corrupt(format!("`disk` is {other:?}, which is not known"))),
    }
}

/// Has a host begin again with its data alone at its next start, after most of the servers have been lost for good. Fails if
/// it has none.
pub fn recover(directory: &Path) -> Result<(), RecoverError> {
    let directory = Directory::new(directory.to_owned());
    let member = directory.path.exists() && matches!(directory.disk()?, Disk::Member { .. });
    if !member {
        return Err(RecoverError::NoData { path: directory.path });
    }
    record::write(&directory.open()?, RECOVER, "", Durability::Full)?;
    Ok(())
}

/// Why a host cannot begin again.
#[derive(Debug, thiserror::Error)]
pub enum RecoverError {
    /// It never served, or its data is lost.
    #[error("there is no data of a server in {path}", path = path.display())]
    NoData {
        /// Where it would be.
        path: PathBuf,
    },
    /// The disk says no.
    #[error(transparent)]
    Disk(#[from] StateError),
}

impl Remembered {
    /// What a run with this directory has written, if there was one that serves.
    pub fn read(directory: &Path) -> Result<Option<Remembered>, StateError> {
        if !directory.exists() {
            return Ok(None);
        }
        let Some(record) = Record::read(&open(directory)?, CONNECTION)? else { return Ok(None) };
        let text = |name: &str| -> Result<Option<String>, StateError> {
            match record.get(name)? {
                Json::Null => Ok(None),
                Json::String(text) => Ok(Some(text.clone())),
                _ => Err(record.corrupt(format!("`{name}` is not a string"))),
            }
        };
        let listed = record.get("endpoints")?.as_array().map(Vec::as_slice).unwrap_or_default();
        let endpoints = listed.iter().filter_map(Json::as_str).map(str::to_owned).collect();
        let certificate = text("certificate")?.map(PathBuf::from);
        let key = text("key")?.map(PathBuf::from);
        Ok(Some(Remembered {
            endpoints,
            namespace: text("namespace")?.unwrap_or_default(),
            authority: text("authority")?.map(PathBuf::from),
            identity: certificate.zip(key),
        }))
    }
}

fn open(path: &Path) -> Result<Parent, StateError> {
    let absolute = std::path::absolute(path).map_err(|error| error.to_string());
    let managed = absolute.and_then(|path| {
        ManagedPath::new(path.as_os_str().as_encoded_bytes()).map_err(|error| error.to_string())
    });
    match managed {
        Ok(managed) => Ok(Parent::open_itself(&managed.to_directory())?),
        Err(reason) => Err(StateError::Root { path: path.to_owned(), reason }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory() -> (tempfile::TempDir, Directory) {
        let temporary = tempfile::tempdir().unwrap();
        let directory = Directory::new(temporary.path().to_owned());
        (temporary, directory)
    }

    fn make_data(directory: &Directory) {
        let logs = directory.data().join("member/wal");
        std::fs::create_dir_all(&logs).unwrap();
        std::fs::write(logs.join("0.wal"), "x").unwrap();
    }

    #[test]
    fn what_is_remembered_is_found_again() {
        let (_temporary, directory) = directory();
        assert_eq!(directory.disk().unwrap(), Disk::Empty);
        make_data(&directory);
        let identity = "5b1c".to_owned();
        for disk in [
            Disk::Founder { identity: identity.clone() },
            Disk::Member { identity: identity.clone(), member: MemberId(0x8e9e_05c5) },
            Disk::Former { identity },
        ] {
            directory.remember(&disk).unwrap();
            assert_eq!(directory.disk().unwrap(), disk);
        }
        directory.remember(&Disk::Empty).unwrap();
        assert_eq!(directory.disk().unwrap(), Disk::Empty);
        let connection = Remembered {
            endpoints: vec!["http://a:2379".into()],
            namespace: "/mgmt".into(),
            authority: Some("/ca".into()),
            identity: Some(("/cert".into(), "/key".into())),
        };
        directory.remember_connection(&connection).unwrap();
        assert_eq!(directory.connection().unwrap(), Some(connection));
    }

    #[test]
    fn a_member_without_its_data_is_one_no_longer() {
        let (_temporary, directory) = directory();
        let identity = "x".to_owned();
        directory.remember(&Disk::Member { identity: identity.clone(), member: MemberId(7) }).unwrap();
        assert_eq!(directory.disk().unwrap(), Disk::Former { identity });
    }

    #[test]
    fn a_damaged_state_is_replaced_by_its_copy_and_set_aside() {
        let (temporary, directory) = directory();
        make_data(&directory);
        let at = |name: &str| temporary.path().join(name);
        let disk = Disk::Member { identity: "5b1c".to_owned(), member: MemberId(7) };
        directory.remember(&disk).unwrap();
        let text = std::fs::read_to_string(at(STATE)).unwrap();
        for (number, damaged) in [text.replace("5b1c", "5b1d"), text[..20].to_owned()].iter().enumerate() {
            std::fs::write(at(STATE), damaged).unwrap();
            assert_eq!(directory.disk().unwrap(), disk);
            assert_eq!(std::fs::read_to_string(at(STATE)).unwrap(), text);
            let aside = at(&format!("{STATE}.damaged-{}", number + 1));
            assert_eq!(&std::fs::read_to_string(aside).unwrap(), damaged);
        }
        // A copy that is damaged, or has no checksum, is not used, and nothing is set aside.
        for copy in
            [text.replace("5b1c", "5b1d"), "{\"format\":1,\"disk\":\"former\",\"identity\":\"x\"}".to_owned()]
        {
            std::fs::write(at(STATE), "").unwrap();
            std::fs::write(at(STATE_COPY), copy).unwrap();
            assert!(directory.disk().is_err());
            assert!(at(STATE).exists());
        }
    }

    #[test]
    fn damaged_addresses_are_set_aside() {
        let (temporary, directory) = directory();
        std::fs::write(temporary.path().join(CONNECTION), "{").unwrap();
        assert_eq!(directory.connection().unwrap(), None);
        assert!(temporary.path().join(format!("{CONNECTION}.damaged-1")).exists());
    }

    #[test]
    fn data_is_moved_and_not_lost() {
        let (temporary, directory) = directory();
        for _ in 0..4 {
            make_data(&directory);
            directory.set_aside().unwrap();
            assert!(!directory.has_data());
        }
        directory.set_aside().unwrap();
        for (number, there) in [(1, false), (2, false), (3, true), (4, true)] {
            let log = temporary.path().join(format!("former-{number}/member/wal/0.wal"));
            assert_eq!(log.exists(), there, "{number}");
        }
    }

    #[test]
    fn a_host_begins_again_once_and_only_with_data() {
        let (temporary, directory) = directory();
        assert!(matches!(recover(temporary.path()), Err(RecoverError::NoData { .. })));
        assert!(matches!(recover(&temporary.path().join("nowhere")), Err(RecoverError::NoData { .. })));
        make_data(&directory);
        directory.remember(&Disk::Member { identity: "x".into(), member: MemberId(7) }).unwrap();
        assert!(!directory.wants_recovery());
        recover(temporary.path()).unwrap();
        assert!(directory.wants_recovery());
        directory.forget_recovery().unwrap();
        assert!(!directory.wants_recovery());
    }

    #[test]
    fn a_state_that_cannot_be_understood_is_an_error() {
        let (temporary, directory) = directory();
        for text in ["", "{}", "{\"format\":1}", "{\"format\":1,\"disk\":\"x\",\"identity\":\"y\"}"] {
            std::fs::write(temporary.path().join(STATE), text).unwrap();
            assert!(directory.disk().is_err(), "{text}");
        }
    }
}
