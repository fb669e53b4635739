//! The file, and how entries lie in it.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

use redb::backends::InMemoryBackend;
use redb::{Database, ReadableDatabase as _, ReadableTable, TableDefinition, TableError, WriteTransaction};

use crate::store::{Entry, LeaseId, Snapshot, Span, StoreError};

/// What all tables of this version look like.
const FORMAT: u64 = 1;

const ENTRIES: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("entries");
const ABOUT: TableDefinition<'_, &str, u64> = TableDefinition::new("about");

/// Pages that are kept in memory. What is stored is small, and the system keeps pages too.
const CACHE: usize = 4 << 20;

pub(super) struct Disk {
    path: PathBuf,
    /// None after the disk has failed, until it is opened again. Held for reading by readers, and for writing only to
    /// open it.
    database: RwLock<Option<Database>>,
}

impl Disk {
    /// One that is gone when the program ends.
    pub(super) fn in_memory() -> Result<Disk, StoreError> {
        let path = PathBuf::from("(memory)");
        let database = Database::builder().create_with_backend(InMemoryBackend::new());
        let database = database.map_err(|error| failed(&path, &error.into()))?;
        let disk = Disk { path, database: RwLock::new(Some(database)) };
        disk.begin()?;
        Ok(disk)
    }

    pub(super) fn open(path: &Path) -> Result<Disk, StoreError> {
        let database = open(path)?;
        let disk = Disk { path: path.to_owned(), database: RwLock::new(Some(database)) };
        disk.begin()?;
        Ok(disk)
    }

    /// Makes sure that the tables are there, and that they are ours.
    fn begin(&self) -> Result<(), StoreError> {
        let found = self.with(|database| {
            let reading = database.begin_read().map_err(|error| self.failed(error))?;
            match reading.open_table(ABOUT) {
                Ok(about) => {
                    Ok(about.get("format").map_err(|error| self.failed(error))?.map(|format| format.value()))
                }
                Err(TableError::TableDoesNotExist(_)) => Ok(None),
                Err(error) => Err(self.failed(error)),
            }
        })?;
        match found {
            Some(FORMAT) => Ok(()),
            Some(other) => Err(StoreError::Refused {
                reason: format!(
                    "{} has format {other}, and this version knows {FORMAT}",
                    self.path.display()
                ),
            }),
            None => self.change(|step| {
                step.about("format", FORMAT)?;
                step.about("revision", 1)
            }),
        }
    }

    /// Reads entries, as they all are after one step.
    pub(super) fn read(&self, spans: &[Span]) -> Result<Snapshot, StoreError> {
        self.with(|database| {
            let reading = database.begin_read().map_err(|error| self.failed(error))?;
            let about = reading.open_table(ABOUT).map_err(|error| self.failed(error))?;
            let revision = about.get("revision").map_err(|error| self.failed(error))?;
            let revision = revision.map_or(0, |revision| revision.value());
            let mut entries = Vec::new();
            match reading.open_table(ENTRIES) {
                Ok(table) => {
                    for span in spans {
                        self.collect(&table, span, &mut entries)?;
                    }
                }
                Err(TableError::TableDoesNotExist(_)) => {}
                Err(error) => return Err(self.failed(error)),
            }
            entries.sort_unstable_by(|one, other| one.key.cmp(&other.key));
            entries.dedup_by(|one, other| one.key == other.key);
            Ok(Snapshot { revision, entries })
        })
    }

    /// All keys that are bound to a lease.
    pub(super) fn leased(&self) -> Result<Vec<String>, StoreError> {
        self.with(|database| {
            let reading = database.begin_read().map_err(|error| self.failed(error))?;
            let table = match reading.open_table(ENTRIES) {
                Ok(table) => table,
                Err(TableError::TableDoesNotExist(_)) => return Ok(Vec::new()),
                Err(error) => return Err(self.failed(error)),
            };
            let mut keys = Vec::new();
            for found in table.iter().map_err(|error| self.failed(error))? {
                let (key, stored) = found.map_err(|error| self.failed(error))?;
                if stored.value().get(16..24).is_some_and(|lease| lease != [0; 8]) {
                    keys.push(key.value().to_owned());
                }
            }
            Ok(keys)
        })
    }

    /// Makes changes in one step that lasts, or none.
    pub(super) fn change<T>(
        &self,
        work: impl FnOnce(&mut Step<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let done = self.with(|database| {
            let writing = database.begin_write().map_err(|error| self.failed(error))?;
            let mut step = Step { disk: self, writing };
            let result = work(&mut step)?;
            step.writing.commit().map_err(|error| self.failed(error))?;
            Ok(result)
        });
        if let Err(StoreError::Unreachable { .. }) = &done {
            // After a failure, the library wants the file to be opened again.
            *self.database.write().unwrap_or_else(PoisonError::into_inner) = None;
        }
        done
    }

    /// Works with the file, which is opened again if it has failed. The library trusts what it reads from the disk so
    /// far that it may panic over a file that somebody has damaged; here that is an error.
    fn with<T>(&self, work: impl FnOnce(&Database) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let done = catch_unwind(AssertUnwindSafe(|| {
            {
                let database = self.database.read().unwrap_or_else(PoisonError::into_inner);
                if let Some(database) = &*database {
                    return work(database);
                }
            }
            let mut database = self.database.write().unwrap_or_else(PoisonError::into_inner);
            if database.is_none() {
                *database = Some(open(&self.path)?);
            }
            match &*database {
                Some(database) => work(database),
                None => Err(StoreError::Ended),
            }
        }));
        done.unwrap_or_else(|_| Err(damaged(&self.path)))
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
        let database = self.database.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        // Closing a damaged file is as good as leaving it.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(database)));
    }
}

/// One step of changes, not yet done.
pub(super) struct Step<'a> {
    disk: &'a Disk,
    writing: WriteTransaction,
}

impl Step<'_> {
    pub(super) fn get(&self, key: &str) -> Result<Option<Entry>, StoreError> {
        let table = self.writing.open_table(ENTRIES).map_err(|error| self.disk.failed(error))?;
        let stored = table.get(key).map_err(|error| self.disk.failed(error))?;
        stored.map(|stored| decode(key, stored.value())).transpose()
    }

    pub(super) fn put(&self, entry: &Entry) -> Result<(), StoreError> {
        let mut table = self.writing.open_table(ENTRIES).map_err(|error| self.disk.failed(error))?;
        table
            .insert(entry.key.as_str(), encode(entry).as_slice())
            .map_err(|error| self.disk.failed(error))?;
        Ok(())
    }

    pub(super) fn delete(&self, key: &str) -> Result<(), StoreError> {
        let mut table = self.writing.open_table(ENTRIES).map_err(|error| self.disk.failed(error))?;
        table.remove(key).map_err(|error| self.disk.failed(error))?;
        Ok(())
    }

    pub(super) fn revision(&self) -> Result<u64, StoreError> {
        let table = self.writing.open_table(ABOUT).map_err(|error| self.disk.failed(error))?;
        let revision = table.get("revision").map_err(|error| self.disk.failed(error))?;
        Ok(revision.map_or(1, |revision| revision.value()))
    }

    pub(super) fn set_revision(&self, revision: u64) -> Result<(), StoreError> {
        self.about("revision", revision)
    }

    fn about(&self, what: &str, value: u64) -> Result<(), StoreError> {
        let mut table = self.writing.open_table(ABOUT).map_err(|error| self.disk.failed(error))?;
        table.insert(what, value).map_err(|error| self.disk.failed(error))?;
        Ok(())
    }
}

fn open(path: &Path) -> Result<Database, StoreError> {
    let file: File = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed())
        .open(path)
        .map_err(|error| StoreError::Refused {
            reason: format!("cannot open {}: {error}", path.display()),
        })?;
    // A file that somebody has damaged must not end the program, whatever the library makes of it.
    let opened = catch_unwind(move || {
        let mut builder = Database::builder();
        builder.set_cache_size(CACHE);
        builder.create_file(file)
    });
    match opened {
        Ok(Ok(database)) => Ok(database),
        Ok(Err(redb::DatabaseError::DatabaseAlreadyOpen)) => {
            Err(StoreError::Refused { reason: format!("{} is in use by another process", path.display()) })
        }
        Ok(Err(error)) => Err(failed(path, &error.into())),
        Err(_) => Err(damaged(path)),
    }
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
