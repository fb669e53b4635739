//! The numbers of users and groups, for thousands of files in a row that all belong to the same few.
//!
//! A lookup opens and reads a file or asks a service, several times the cost of checking a file. What was found is used
//! again for a second, as long as the local database has not changed: a user that was changed a moment ago by another
//! resource is seen at once, one that was changed in a directory service with the next lookup.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use mgmt_resource::{Identity, Result};
use mgmt_value::Str;

use crate::support::account;

const FRESH: Duration = Duration::from_secs(1);

static USERS: Mutex<Option<Known>> = Mutex::new(None);
static GROUPS: Mutex<Option<Known>> = Mutex::new(None);

/// What was found since `since`, while the database was `version`.
struct Known {
    since: Instant,
    version: Version,
    numbers: HashMap<Str, u32>,
}

/// Which file the database is, and when it changed; nothing if there is none.
type Version = Option<[u64; 5]>;

/// The number of a declared user.
pub(super) fn user(declared: &Str) -> Result<u32> {
    match account::user_identity(declared) {
        // A number is itself.
        Identity::UserNumber(number) => Ok(number),
        _ => number(&USERS, "/etc/passwd", declared, account::user_id),
    }
}

/// The number of a declared group.
pub(super) fn group(declared: &Str) -> Result<u32> {
    match account::group_identity(declared) {
        Identity::GroupNumber(number) => Ok(number),
        _ => number(&GROUPS, "/etc/group", declared, account::group_id),
    }
}

fn number(
    known: &Mutex<Option<Known>>,
    database: &str,
    declared: &Str,
    find: fn(&Str) -> Result<u32>,
) -> Result<u32> {
    // Taken before the lookup: if the database changes meanwhile, what is found now is forgotten the next time.
    let (now, version) = (Instant::now(), version(database));
    {
        // Each entry is complete when it is there, so a panic elsewhere does no harm.
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        match &*known {
            Some(known) if known.version == version && now.duration_since(known.since) < FRESH => {
                if let Some(number) = known.numbers.get(declared) {
                    return Ok(*number);
                }
            }
            _ => *known = Some(Known { since: now, version, numbers: HashMap::new() }),
        }
    }
    // Not under the lock: a lookup may wait for the network.
    let number = find(declared)?;
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = &mut *known
        && known.version == version
    {
        known.numbers.insert(declared.clone(), number);
    }
    Ok(number)
}

#[allow(clippy::unnecessary_cast, reason = "the field types differ by architecture")]
fn version(database: &str) -> Version {
    let stat = rustix::fs::stat(database).ok()?;
    Some([
        stat.st_dev as u64,
        stat.st_ino as u64,
        stat.st_size as u64,
        stat.st_ctime as u64,
        stat.st_ctime_nsec as u64,
    ])
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn a_change_of_the_database_is_seen_at_once() {
        static KNOWN: Mutex<Option<Known>> = Mutex::new(None);
        static ANSWER: AtomicU32 = AtomicU32::new(7);
        static LOOKUPS: AtomicU32 = AtomicU32::new(0);
        let scratch = tempfile::tempdir().unwrap();
        let database = scratch.path().join("passwd");
        let ask = |name: &str| {
            number(&KNOWN, database.to_str().unwrap(), &name.into(), |_| {
                LOOKUPS.fetch_add(1, Ordering::Relaxed);
                Ok(ANSWER.load(Ordering::Relaxed))
            })
            .unwrap()
        };
        std::fs::write(&database, "one").unwrap();
        assert_eq!((ask("a"), ask("b")), (7, 7));
        ANSWER.store(8, Ordering::Relaxed);
        std::fs::write(scratch.path().join("new"), "one").unwrap();
        std::fs::rename(scratch.path().join("new"), &database).unwrap();
        assert_eq!((ask("a"), ask("b")), (8, 8));
        assert_eq!(LOOKUPS.load(Ordering::Relaxed), 4);
    }

    #[test]
    fn what_is_not_found_is_not_remembered() {
        static KNOWN: Mutex<Option<Known>> = Mutex::new(None);
        static FOUND: AtomicU32 = AtomicU32::new(0);
        let ask = || {
            number(&KNOWN, "/no/such/file", &"a".into(), |_| match FOUND.load(Ordering::Relaxed) {
                0 => Err(mgmt_resource::Error::new("not there")),
                found => Ok(found),
            })
        };
        assert!(ask().is_err());
        FOUND.store(5, Ordering::Relaxed);
        assert_eq!(ask().unwrap(), 5);
    }
}
