//! Storage of the embedded store: a file for what lasts, and memory for what ends with this run.
//!
//! Keys that are bound to a lease are never written, as nobody can hold a lease when the store is opened again. A step that
//! changes nothing else costs no write, and a store in which nothing lasting was ever put is an empty file.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::SystemTime;

use redb::backends::InMemoryBackend;
use redb::{
    Database, ReadTransaction, ReadableDatabase as _, ReadableTable, TableDefinition, TableError,
    WriteTransaction,
};

use mgmt_value::catch_expected_panic;

use crate::store::{Entry, LeaseId, Snapshot, Span, StoreError};

/// What all tables of this version look like.
const FORMAT: u64 = 2;

/// The version before, which kept keys with a lease in the file.
const FORMAT_WITH_LEASES: u64 = 1;

const ENTRIES: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("entries");
const ABOUT: TableDefinition<'_, &str, u64> = TableDefinition::new("about");

/// Pages that are kept in memory. What is stored is small, and the system keeps pages too.
const CACHE: usize = 4 << 20;

pub(super) struct Disk {
    path: PathBuf,
    /// Everything as it was after the last step. Nobody waits for the disk while holding it, except to open it again.
    view: RwLock<View>,
}

struct View {
    file: Lasting,
    leased: BTreeMap<String, Entry>,
    revision: u64,
}

/// What lasts.
enum Lasting {
    /// Nothing yet; the file is there, empty and ours.
    Nothing(File),
    /// The file, and how it was after the last step.
    Open { reading: ReadTransaction, database: Database },
    /// The disk has failed. It is opened again when it is needed.
    Failed,
}

impl Disk {
    /// One that is gone when the program ends.
    pub(super) fn in_memory() -> Result<Disk, StoreError> {
        let path = PathBuf::from("(memory)");
        let database = Database::builder().create_with_backend(InMemoryBackend::new());
        let database = database.map_err(|error| failed(&path, &error.into()))?;
        let lasting = begin(&path, database)?;
        Disk::with(path, lasting)
    }

    pub(super) fn open(path: &Path) -> Result<Disk, StoreError> {
        Disk::with(path.to_owned(), open(path)?)
    }

    pub(super) fn open_verified(path: &Path) -> Result<Disk, StoreError> {
        let disk = Disk::open(path)?;
        disk.verify()?;
        Ok(disk)
    }

    /// Reads every page, compares its checksum, and decodes every entry.
    fn verify(&self) -> Result<(), StoreError> {
        if !matches!(self.look().file, Lasting::Open { .. }) {
            return Ok(());
        }
        let verified = catch_expected_panic(|| {
            let mut view = self.look_alone();
            let Lasting::Open { reading, mut database } = std::mem::replace(&mut view.file, Lasting::Failed)
            else {
                return Ok(true);
            };
            drop(reading);
            let intact = database.check_integrity().map_err(|error| self.failed(error))?;
            let reading = database.begin_read().map_err(|error| self.failed(error))?;
            view.file = Lasting::Open { reading, database };
            Ok(intact)
        });
        if !verified.unwrap_or_else(|| Err(damaged(&self.path)))? {
            tracing::error!(
                "{} was damaged and has been repaired; the last changes may be lost",
                self.path.display()
            );
        }
        self.read(&[Span::Prefix(String::new())]).map(|_| ())
    }

    /// Revisions begin after the time in microseconds: those of steps that were not written are not given a second time, so
    /// whoever remembers one from before cannot take it for another.
    fn with(path: PathBuf, file: Lasting) -> Result<Disk, StoreError> {
        let stored = match &file {
            Lasting::Open { reading, .. } => {
                let about = reading.open_table(ABOUT).map_err(|error| failed(&path, &error.into()))?;
                let revision = about.get("revision").map_err(|error| failed(&path, &error.into()))?;
                revision.map_or(1, |revision| revision.value())
            }
            Lasting::Nothing(_) | Lasting::Failed => 1,
        };
        let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let revision = stored.max(u64::try_from(time.as_micros()).unwrap_or(0));
        Ok(Disk { path, view: RwLock::new(View { file, leased: BTreeMap::new(), revision }) })
    }

    /// Reads entries, as they all are after one step.
    pub(super) fn read(&self, spans: &[Span]) -> Result<Snapshot, StoreError> {
        self.looking(|view| {
            let mut entries = Vec::new();
            if let Some(table) = self.entries(view)? {
                for span in spans {
                    self.collect(&table, span, &mut entries)?;
                }
            }
            for span in spans {
                match span {
                    Span::Key(key) => entries.extend(view.leased.get(key).cloned()),
                    Span::Prefix(prefix) => {
                        let from = view.leased.range(prefix.clone()..);
                        let within = from.take_while(|(key, _)| key.starts_with(prefix.as_str()));
                        entries.extend(within.map(|(_, entry)| entry.clone()));
                    }
                }
            }
            entries.sort_unstable_by(|one, other| one.key.cmp(&other.key));
            entries.dedup_by(|one, other| one.key == other.key);
            Ok(Snapshot { revision: view.revision, entries })
        })
    }

    /// Makes changes in one step, or none. Those that last are on the disk after it. Only one thread may do this.
    pub(super) fn change<T>(
        &self,
        work: impl FnOnce(&mut Step<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let revision = self.look().revision;
        let done = catch_expected_panic(|| {
            let mut step = Step { disk: self, writing: None, leased: BTreeMap::new(), revision };
            let result = work(&mut step)?;
            step.finish()?;
            Ok(result)
        });
        let done = done.unwrap_or_else(|| Err(damaged(&self.path)));
        if let Err(StoreError::Unreachable { .. }) = &done {
            // After a failure, the library wants the file to be opened again.
            let file = std::mem::replace(&mut self.look_alone().file, Lasting::Failed);
            close(file);
        }
        done
    }

    fn look(&self) -> RwLockReadGuard<'_, View> {
        self.view.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn look_alone(&self) -> RwLockWriteGuard<'_, View> {
        self.view.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at what there is. The file is opened again if the disk had failed. The library trusts what it reads so far
    /// that it may panic over a file that somebody has damaged; here that is an error.
    fn looking<T>(&self, work: impl FnOnce(&View) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let done = catch_expected_panic(|| {
            let mut view = self.look();
            if matches!(view.file, Lasting::Failed) {
                drop(view);
                let mut alone = self.look_alone();
                if matches!(alone.file, Lasting::Failed) {
                    alone.file = open(&self.path)?;
                }
                drop(alone);
                view = self.look();
            }
            work(&view)
        });
        done.unwrap_or_else(|| Err(damaged(&self.path)))
    }

    fn entries(
        &self,
        view: &View,
    ) -> Result<Option<redb::ReadOnlyTable<&'static str, &'static [u8]>>, StoreError> {
        match &view.file {
            Lasting::Nothing(_) => Ok(None),
            Lasting::Open { reading, .. } => match reading.open_table(ENTRIES) {
                Ok(table) => Ok(Some(table)),
                Err(TableError::TableDoesNotExist(_)) => Ok(None),
                Err(error) => Err(self.failed(error)),
            },
            Lasting::Failed => Err(StoreError::Unreachable {
                reason: format!("{}: the disk has failed", self.path.display()),
            }),
        }
    }

    fn collect(
        &self,
        table: &impl ReadableTable<&'static str, &'static [u8]>,
        span: &Span,
        entries: &mut Vec<Entry>,
    ) -> Result<(), StoreError> {
        match span {
            Span::Key(key) => {
                if let Some(stored) = table.get(key.as_str()).map_err(|error| self.failed(error))? {
                    entries.push(decode(key, stored.value())?);
                }
            }
            Span::Prefix(prefix) => {
                for found in table.range(prefix.as_str()..).map_err(|error| self.failed(error))? {
                    let (key, stored) = found.map_err(|error| self.failed(error))?;
                    if !key.value().starts_with(prefix.as_str()) {
                        break;
                    }
                    entries.push(decode(key.value(), stored.value())?);
                }
            }
        }
        Ok(())
    }

    fn failed(&self, error: impl Into<redb::Error>) -> StoreError {
        failed(&self.path, &error.into())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let view = self.view.get_mut().unwrap_or_else(PoisonError::into_inner);
        close(std::mem::replace(&mut view.file, Lasting::Failed));
    }
}

/// Closing a damaged file is as good as leaving it.
fn close(file: Lasting) {
    let _ = catch_expected_panic(|| drop(file));
}

/// One step of changes, not yet done.
pub(super) struct Step<'a> {
    disk: &'a Disk,
    /// Begun when something is to last.
    writing: Option<WriteTransaction>,
    /// What becomes of keys with a lease; none for those that have it no longer.
    leased: BTreeMap<String, Option<Entry>>,
    revision: u64,
}

impl Step<'_> {
    pub(super) fn get(&self, key: &str) -> Result<Option<Entry>, StoreError> {
        match self.leased(key) {
            Some(entry) => Ok(Some(entry)),
            None => self.lasting(key),
        }
    }

    pub(super) fn put(&mut self, entry: Entry) -> Result<(), StoreError> {
        if entry.lease.is_some() {
            self.delete_lasting(&entry.key)?;
            self.leased.insert(entry.key.clone(), Some(entry));
            return Ok(());
        }
        self.delete_leased(&entry.key);
        let disk = self.disk;
        let mut table = self.writing()?.open_table(ENTRIES).map_err(|error| disk.failed(error))?;
        table.insert(entry.key.as_str(), encode(&entry).as_slice()).map_err(|error| disk.failed(error))?;
        Ok(())
    }

    pub(super) fn delete(&mut self, key: &str) -> Result<(), StoreError> {
        self.delete_leased(key);
        self.delete_lasting(key)
    }

    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    pub(super) fn set_revision(&mut self, revision: u64) {
        self.revision = revision;
    }

    fn leased(&self, key: &str) -> Option<Entry> {
        match self.leased.get(key) {
            Some(changed) => changed.clone(),
            None => self.disk.look().leased.get(key).cloned(),
        }
    }

    fn lasting(&self, key: &str) -> Result<Option<Entry>, StoreError> {
        let failed = |error| self.disk.failed(error);
        if let Some(writing) = &self.writing {
            let table = writing.open_table(ENTRIES).map_err(|error| self.disk.failed(error))?;
            let stored = table.get(key).map_err(failed)?;
            return stored.map(|stored| decode(key, stored.value())).transpose();
        }
        self.disk.looking(|view| {
            let Some(table) = self.disk.entries(view)? else { return Ok(None) };
            let stored = table.get(key).map_err(failed)?;
            stored.map(|stored| decode(key, stored.value())).transpose()
        })
    }

    fn delete_leased(&mut self, key: &str) {
        if self.leased(key).is_some() {
            self.leased.insert(key.to_owned(), None);
        }
    }

    fn delete_lasting(&mut self, key: &str) -> Result<(), StoreError> {
        if self.lasting(key)?.is_some() {
            let disk = self.disk;
            let mut table = self.writing()?.open_table(ENTRIES).map_err(|error| disk.failed(error))?;
            table.remove(key).map_err(|error| disk.failed(error))?;
        }
        Ok(())
    }

    fn writing(&mut self) -> Result<&WriteTransaction, StoreError> {
        let writing = match self.writing.take() {
            Some(writing) => writing,
            None => self.disk.begin_writing()?,
        };
        Ok(self.writing.insert(writing))
    }

    fn finish(self) -> Result<(), StoreError> {
        let mut reading = None;
        if let Some(writing) = self.writing {
            about(&self.disk.path, &writing, "revision", self.revision)?;
            writing.commit().map_err(|error| self.disk.failed(error))?;
            if let Lasting::Open { database, .. } = &self.disk.look().file {
                reading = Some(database.begin_read().map_err(|error| self.disk.failed(error))?);
            }
        }
        let mut view = self.disk.look_alone();
        if let (Some(now), Lasting::Open { reading, .. }) = (reading, &mut view.file) {
            *reading = now;
        }
        for (key, entry) in self.leased {
            match entry {
                Some(entry) => drop(view.leased.insert(key, entry)),
                None => drop(view.leased.remove(&key)),
            }
        }
        view.revision = self.revision;
        Ok(())
    }
}

impl Disk {
    /// Makes sure that the file is found after a power loss.
    fn keep_name(&self) -> std::io::Result<()> {
        match self.path.parent() {
            Some(directory) => File::open(directory)?.sync_all(),
            None => Ok(()),
        }
    }

    fn begin_writing(&self) -> Result<WriteTransaction, StoreError> {
        let nothing = self.looking(|view| Ok(matches!(view.file, Lasting::Nothing(_))))?;
        if nothing {
            let mut view = self.look_alone();
            if let Lasting::Nothing(file) = std::mem::replace(&mut view.file, Lasting::Failed) {
                view.file = begin(&self.path, fill(&self.path, file)?)?;
                self.keep_name().map_err(|error| StoreError::Unreachable {
                    reason: format!("{}: {error}", self.path.display()),
                })?;
            }
        }
        match &self.look().file {
            Lasting::Open { database, .. } => database.begin_write().map_err(|error| self.failed(error)),
            Lasting::Nothing(_) | Lasting::Failed => Err(StoreError::Unreachable {
                reason: format!("{}: the disk has failed", self.path.display()),
            }),
        }
    }
}

fn about(path: &Path, writing: &WriteTransaction, what: &str, value: u64) -> Result<(), StoreError> {
    let mut table = writing.open_table(ABOUT).map_err(|error| failed(path, &error.into()))?;
    table.insert(what, value).map_err(|error| failed(path, &error.into()))?;
    Ok(())
}

fn open(path: &Path) -> Result<Lasting, StoreError> {
    let refused = |error: std::io::Error| StoreError::Refused {
        reason: format!("cannot open {}: {error}", path.display()),
    };
    let file: File = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed())
        .open(path)
        .map_err(refused)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(in_use(path)),
        Err(TryLockError::Error(error)) => return Err(refused(error)),
    }
    if file.metadata().map_err(refused)?.len() == 0 {
        return Ok(Lasting::Nothing(file));
    }
    begin(path, fill(path, file)?)
}

/// Opens what is in the file, or makes it.
fn fill(path: &Path, file: File) -> Result<Database, StoreError> {
    // A file that somebody has damaged must not end the program, whatever the library makes of it.
    let opened = catch_expected_panic(move || {
        let mut builder = Database::builder();
        builder.set_cache_size(CACHE);
        builder.create_file(file)
    });
    match opened {
        Some(Ok(database)) => Ok(database),
        Some(Err(redb::DatabaseError::DatabaseAlreadyOpen)) => Err(in_use(path)),
        Some(Err(error)) => Err(failed(path, &error.into())),
        None => Err(damaged(path)),
    }
}

/// Makes sure that the tables are there, and that they are ours.
fn begin(path: &Path, database: Database) -> Result<Lasting, StoreError> {
    let made = catch_expected_panic(move || {
        match format(path, &database)? {
            Some(FORMAT) => {}
            Some(FORMAT_WITH_LEASES) => {
                let writing = database.begin_write().map_err(|error| failed(path, &error.into()))?;
                {
                    let table = writing.open_table(ENTRIES);
                    let mut table = table.map_err(|error| failed(path, &error.into()))?;
                    let kept = table.retain(|_, stored| stored.get(16..24) == Some(&[0; 8]));
                    kept.map_err(|error| failed(path, &error.into()))?;
                }
                about(path, &writing, "format", FORMAT)?;
                writing.commit().map_err(|error| failed(path, &error.into()))?;
            }
            Some(other) => {
                return Err(StoreError::Corrupt {
                    what: format!("the file {}", path.display()),
                    reason: format!("it has format {other}, and this version knows {FORMAT}"),
                });
            }
            None => {
                let writing = database.begin_write().map_err(|error| failed(path, &error.into()))?;
                about(path, &writing, "format", FORMAT)?;
                about(path, &writing, "revision", 1)?;
                writing.commit().map_err(|error| failed(path, &error.into()))?;
            }
        }
        let reading = database.begin_read().map_err(|error| failed(path, &error.into()))?;
        Ok(Lasting::Open { reading, database })
    });
    made.unwrap_or_else(|| Err(damaged(path)))
}

fn format(path: &Path, database: &Database) -> Result<Option<u64>, StoreError> {
    let reading = database.begin_read().map_err(|error| failed(path, &error.into()))?;
    match reading.open_table(ABOUT) {
        Ok(about) => {
            let format = about.get("format").map_err(|error| failed(path, &error.into()))?;
            Ok(format.map(|format| format.value()))
        }
        Err(TableError::TableDoesNotExist(_)) => Ok(None),
        Err(error) => Err(failed(path, &error.into())),
    }
}

fn in_use(path: &Path) -> StoreError {
    StoreError::Refused { reason: format!("{} is in use by another process", path.display()) }
}

fn damaged(path: &Path) -> StoreError {
    StoreError::Corrupt {
        what: format!("the file {}", path.display()),
        reason: "its structure is damaged; move it away to start over".to_owned(),
    }
}

fn failed(path: &Path, error: &redb::Error) -> StoreError {
    match error {
        redb::Error::Corrupted(reason) => StoreError::Corrupt {
            what: format!("the file {}", path.display()),
            reason: format!("{reason}; move it away to start over"),
        },
        redb::Error::Io(error)
            if matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::UnexpectedEof) =>
        {
            StoreError::Corrupt {
                what: format!("the file {}", path.display()),
                reason: format!("{error}; move it away to start over"),
            }
        }
        redb::Error::UpgradeRequired(_) | redb::Error::RepairAborted => StoreError::Corrupt {
            what: format!("the file {}", path.display()),
            reason: format!("{error}; move it away to start over"),
        },
        redb::Error::ValueTooLarge(size) => {
            StoreError::Refused { reason: format!("a value of {size} bytes is too large") }
        }
        // A full disk may have room again; everything else that a disk can say is treated alike.
        other => StoreError::Unreachable { reason: format!("{}: {other}", path.display()) },
    }
}

fn encode(entry: &Entry) -> Vec<u8> {
    let mut stored = Vec::with_capacity(24 + entry.value.len());
    stored.extend_from_slice(&entry.created.to_be_bytes());
    stored.extend_from_slice(&entry.modified.to_be_bytes());
    stored.extend_from_slice(&entry.lease.map_or(0, |lease| lease.0).to_be_bytes());
    stored.extend_from_slice(&entry.value);
    stored
}

fn decode(key: &str, stored: &[u8]) -> Result<Entry, StoreError> {
    let number = |at: usize| {
        let bytes = stored.get(at..at + 8)?;
        Some(u64::from_be_bytes(bytes.try_into().ok()?))
    };
    let (Some(created), Some(modified), Some(lease)) = (number(0), number(8), number(16)) else {
        return Err(StoreError::Corrupt {
            what: format!("an entry `{key}`"),
            reason: "it is too short".to_owned(),
        });
    };
    let lease = (lease != 0).then(|| LeaseId(lease.cast_signed()));
    Ok(Entry {
        key: key.to_owned(),
        value: stored.get(24..).unwrap_or_default().to_vec(),
        created,
        modified,
        lease,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn a_file_of_the_version_before_loses_what_had_a_lease_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store");
        let entry = |key: &str, lease| Entry {
            key: key.to_owned(),
            value: b"value".to_vec(),
            created: 7,
            modified: 8,
            lease,
        };
        {
            let database = Database::create(&path).unwrap();
            let writing = database.begin_write().unwrap();
            for entry in [entry("/kept", None), entry("/leased", Some(LeaseId(3)))] {
                let mut table = writing.open_table(ENTRIES).unwrap();
                table.insert(entry.key.as_str(), encode(&entry).as_slice()).unwrap();
            }
            about(&path, &writing, "format", FORMAT_WITH_LEASES).unwrap();
            about(&path, &writing, "revision", u64::MAX - 10).unwrap();
            writing.commit().unwrap();
        }
        for _ in 0..2 {
            let disk = Disk::open(&path).unwrap();
            let found = disk.read(&[Span::Prefix("/".to_owned())]).unwrap();
            assert_eq!(found.entries, [entry("/kept", None)]);
            assert_eq!(found.revision, u64::MAX - 10);
        }
    }
}
