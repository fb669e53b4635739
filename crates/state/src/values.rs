//! Key-value records of the local state, with an in-memory cache and change notification.

use std::cmp::Ordering;
use std::sync::{Mutex, MutexGuard};

use mgmt_value::{Str, Type, Value, from_json, to_json};
use rustc_hash::FxHashMap;
use serde_json::{Value as Json, json};
use tokio::sync::watch;

use crate::StateError;
use crate::error::Result;
use crate::local_state::StateDirectory;
use crate::lock;
use crate::record::{self, FORMAT, MAX_SIZE, Record};

/// What is known of the values stored in one folder, and who wants to know.
pub(crate) struct Values {
    folder: &'static str,
    /// Held by whoever reads or writes files, so that memory changes in the order in which the disk does. Taken
    /// before `memory`, and kept apart from it so that a look at a known value never waits for the disk.
    disk: Mutex<()>,
    /// Held for moments only.
    memory: Mutex<Memory>,
}

#[derive(Default)]
struct Memory {
    /// Keys that have been looked at; `None` is a key without a value.
    known: FxHashMap<Str, Option<Value>>,
    watchers: FxHashMap<Str, watch::Sender<u64>>,
    /// Watchers that have gone are swept out when there are more than this.
    sweep_at: usize,
}

impl Values {
    pub(crate) fn new(folder: &'static str) -> Values {
        Values { folder, disk: Mutex::default(), memory: Mutex::default() }
    }

    pub(crate) fn get(&self, directory: &StateDirectory, key: &Str) -> Result<Option<Value>> {
        if let Some(known) = self.memory().known.get(key) {
            return Ok(known.clone());
        }
        let _disk = lock(&self.disk);
        self.load(directory, key)
    }

    pub(crate) fn would_change(
        &self,
        directory: &StateDirectory,
        key: &Str,
        value: Option<&Value>,
    ) -> Result<bool> {
        Ok(!same(self.get(directory, key)?.as_ref(), value.filter(is_some_value)))
    }

    pub(crate) fn set(&self, directory: &StateDirectory, key: &Str, value: Option<&Value>) -> Result<bool> {
        let _disk = lock(&self.disk);
        let present = self.load(directory, key)?;
        let value = value.filter(is_some_value);
        if same(present.as_ref(), value) {
            return Ok(false);
        }
        let text = value.map(|value| stored_text(key, value)).transpose()?;
        // Until the disk has answered, nothing is known: a failure can leave the old value or the new one behind.
        self.memory().known.remove(key);
        let folder = directory.open(&[self.folder])?;
        let name = record::file_name(key);
        match text {
            Some(text) => record::write(&folder, &name, &text, directory.durability)?,
            None => record::remove(&folder, &name, directory.durability)?,
        }
        let mut memory = self.memory();
        memory.known.insert(key.clone(), value.cloned());
        memory.notify(key);
        Ok(true)
    }

    pub(crate) fn watch(&self, key: &Str) -> watch::Receiver<u64> {
        self.memory().watch(key)
    }

    /// To be called with `disk` held.
    fn load(&self, directory: &StateDirectory, key: &Str) -> Result<Option<Value>> {
        if let Some(known) = self.memory().known.get(key) {
            return Ok(known.clone());
        }
        let record = Record::read(&directory.open(&[self.folder])?, &record::file_name(key));
        let value = record.and_then(|record| record.map(|record| value_of(&record, key)).transpose());
        let value =
            value.or_else(|error| record::set_aside(error, &format!("the value of {key:?}"), None))?;
        self.memory().known.insert(key.clone(), value.clone());
        Ok(value)
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        lock(&self.memory)
    }
}

impl Memory {
    fn watch(&mut self, key: &Str) -> watch::Receiver<u64> {
        if self.watchers.len() >= self.sweep_at {
            self.watchers.retain(|_, watcher| watcher.receiver_count() > 0);
            // Twice as many as are alive, so that sweeping costs each watch a constant.
            self.sweep_at = 16 + 2 * self.watchers.len();
        }
        let sender = self.watchers.entry(key.clone()).or_insert_with(|| watch::Sender::new(0));
        let mut receiver = sender.subscribe();
        receiver.mark_changed();
        receiver
    }

    fn notify(&mut self, key: &Str) {
        if let Some(watcher) = self.watchers.get(key) {
            watcher.send_modify(|changes| *changes = changes.wrapping_add(1));
        }
    }
}

fn is_some_value(value: &&Value) -> bool {
    !matches!(value, Value::Nil)
}

/// Whether storing would change nothing. Unlike in the language, a NaN is the same as a NaN.
fn same(present: Option<&Value>, wanted: Option<&Value>) -> bool {
    match (present, wanted) {
        (Some(present), Some(wanted)) => {
            present.total_order(wanted) == Ordering::Equal && present.ty() == wanted.ty()
        }
        (None, None) => true,
        _ => false,
    }
}

fn stored_text(key: &Str, value: &Value) -> Result<String> {
    let ty = value.ty();
    let unstorable = |reason: &str| StateError::Unstorable {
        key: format!("{key:?}"),
        ty: ty.to_string(),
        reason: reason.to_owned(),
    };
    let text = record::text(&json!({
        "format": FORMAT,
        "key": record::string_to_json(key),
        "type": ty.to_string(),
        "value": to_json(value),
    }));
    if text.len() as u64 > MAX_SIZE {
        return Err(unstorable("it is too large"));
    }
    // What is written must be readable; otherwise the next start would find a corrupt file.
    let back = serde_json::from_str(&text).ok().and_then(|json: Json| {
        let ty = Type::parse(json.get("type")?.as_str()?)?;
        from_json(json.get("value")?, &ty).ok()
    });
    match back {
        Some(back) if same(Some(&back), Some(value)) => Ok(text),
        _ => Err(unstorable("it holds a function, nests too deep, or has names that are not plain words")),
    }
}

fn value_of(record: &Record, key: &Str) -> Result<Value> {
    let stored = record.string("key")?;
    if stored != *key {
        return Err(record.corrupt(format!("it holds the value of {stored:?}, expected that of {key:?}")));
    }
    let ty = record.string("type")?;
    let Some(ty) = ty.as_str().and_then(Type::parse) else {
        return Err(record.corrupt(format!("there is no type {ty:?}")));
    };
    match from_json(record.get("value")?, &ty) {
        Ok(Value::Nil) => Err(record.corrupt("the value is null")),
        Ok(value) => Ok(value),
        Err(error) => Err(record.corrupt(error.to_string())),
    }
}
