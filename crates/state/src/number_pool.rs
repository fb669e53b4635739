//! Number pools: each name of a namespace gets a number that is never given to another.

use std::sync::{Mutex, PoisonError};

use mgmt_sys::aside::MARK;
use mgmt_sys::dir::Parent;
use mgmt_sys::tree::{Limits, list};
use mgmt_value::Str;
use rustc_hash::FxHashMap;
use serde_json::{Value as Json, json};

use crate::StateError;
use crate::error::Result;
use crate::local_state::StateDirectory;
use crate::record::{self, FORMAT, Record};

/// The largest number that the language can say.
const MAX: u64 = i64::MAX as u64;

/// Numbers that have been given out, by namespace. A namespace is read once, as a whole.
#[derive(Default)]
pub(crate) struct Pools {
    // Held while files are read and written: giving out a number has to be one step. Nobody asks for numbers in a hurry.
    namespaces: Mutex<FxHashMap<Str, Pool>>,
}

#[derive(Default)]
struct Pool {
    numbers: FxHashMap<Str, u64>,
    largest: u64,
}

impl Pools {
    pub(crate) fn number(&self, directory: &StateDirectory, namespace: &Str, uid: &Str) -> Result<u64> {
        let mut namespaces = self.namespaces.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(number) = namespaces.get(namespace).and_then(|pool| pool.numbers.get(uid)) {
            return Ok(*number);
        }
        let folder = directory.open(&["pool".to_owned(), record::digest(namespace)])?;
        if !namespaces.contains_key(namespace) {
            namespaces.insert(namespace.clone(), Pool::load(&folder, namespace)?);
        }
        let pool = namespaces.entry(namespace.clone()).or_default();
        if let Some(number) = pool.numbers.get(uid) {
            return Ok(*number);
        }
        if pool.largest >= MAX {
            return Err(StateError::Exhausted { namespace: format!("{namespace:?}") });
        }
        let number = pool.largest + 1;
        let json = json!({
            "format": FORMAT,
            "namespace": record::string_to_json(namespace),
            "uid": record::string_to_json(uid),
            "number": number,
        });
        if let Err(error) =
            record::write(&folder, &record::file_name(uid), &record::text(&json), directory.durability)
        {
            // The file may be there or not; the next question reads the namespace again.
            namespaces.remove(namespace);
            return Err(error);
        }
        pool.largest = number;
        pool.numbers.insert(uid.clone(), number);
        Ok(number)
    }
}

impl Pool {
    fn load(folder: &Parent, namespace: &Str) -> Result<Pool> {
        record::sweep(folder);
        let mut pool = Pool::default();
        let mut owners: FxHashMap<u64, String> = FxHashMap::default();
        // Numbers are given one by one and never taken back, so a lost one is not above the number of files.
        let mut given = 0_u64;
        for entry in list(folder, &Limits { entries: u64::MAX, depth: 1 })? {
            given += u64::from(is_numbered(&entry.name));
            if !record::is_file_name(&entry.name) {
                continue;
            }
            let name = String::from_utf8_lossy(&entry.name);
            let read = || {
                let Some(record) = Record::read(folder, &name)? else { return Ok(None) };
                let (uid, number) = read_number(&record, namespace, &name)?;
                match owners.get(&number) {
                    Some(other) => {
                        Err(record.corrupt(format!("its number {number} is also that of {other}")))
                    }
                    None => Ok(Some((record.path().to_owned(), uid, number))),
                }
            };
            let lost = format!("a number of the pool {namespace:?}, which gives its owner a new one");
            let found = read().or_else(|error| record::set_aside(error, &lost, None))?;
            let Some((path, uid, number)) = found else { continue };
            owners.insert(number, path);
            pool.largest = pool.largest.max(number);
            pool.numbers.insert(uid, number);
        }
        pool.largest = pool.largest.max(given);
        Ok(pool)
    }
}

/// Whether a file is one of a number, be it set aside.
fn is_numbered(name: &[u8]) -> bool {
    record::is_file_name(name)
        || name
            .windows(MARK.len())
            .position(|part| part == MARK.as_bytes())
            .is_some_and(|at| record::is_file_name(&name[..at]))
}

fn read_number(record: &Record, namespace: &Str, name: &str) -> Result<(Str, u64)> {
    let stored = record.string("namespace")?;
    if stored != *namespace {
        return Err(record.corrupt(format!("it belongs to {stored:?}, expected {namespace:?}")));
    }
    let uid = record.string("uid")?;
    if record::file_name(&uid) != name {
        return Err(record.corrupt(format!("the name {uid:?} belongs into another file")));
    }
    match record.get("number").map(Json::as_u64)? {
        Some(number @ 1..=MAX) => Ok((uid, number)),
        _ => Err(record.corrupt("`number` is not a positive number")),
    }
}
