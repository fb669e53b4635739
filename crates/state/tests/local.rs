//! The local store on a real file system.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics is a test that fails")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mgmt_state::{LocalState, StateError};
use mgmt_value::{Function, Str, Type, Value};
use tempfile::TempDir;

fn store() -> (TempDir, LocalState) {
    let directory = tempfile::tempdir().unwrap();
    let local = open(&directory);
    (directory, local)
}

fn open(directory: &TempDir) -> LocalState {
    LocalState::open(directory.path().join("local")).unwrap()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn files(directory: &TempDir, folder: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory.path().join("local").join(folder)).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

fn only_file(directory: &TempDir, folder: &str) -> PathBuf {
    let files = files(directory, folder);
    assert_eq!(files.len(), 1, "{files:?}");
    files[0].clone()
}

fn key(text: &str) -> Str {
    Str::from(text)
}

#[test]
fn the_store_and_its_files_are_for_their_owner_alone() {
    let (directory, local) = store();
    local.value_set(&key("a"), Some(&Value::Int(1))).unwrap();
    local.pool(&key("ns"), &key("a")).unwrap();
    assert_eq!(mode(&directory.path().join("local")), 0o700);
    assert_eq!(mode(&directory.path().join("local/value")), 0o700);
    assert_eq!(mode(&only_file(&directory, "value")), 0o600);
    let namespace = only_file(&directory, "pool");
    assert_eq!(mode(&namespace), 0o700);
    let number = fs::read_dir(namespace).unwrap().next().unwrap().unwrap().path();
    assert_eq!(mode(&number), 0o600);
}

#[test]
fn parents_that_are_missing_are_made_and_the_root_directory_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    LocalState::open(directory.path().join("deep/down/local")).unwrap();
    assert!(directory.path().join("deep/down/local/value").is_dir());
    assert!(matches!(LocalState::open(PathBuf::from("/")), Err(StateError::Root { .. })));
    assert!(matches!(LocalState::open(PathBuf::from("")), Err(StateError::Root { .. })));
    fs::write(directory.path().join("file"), "").unwrap();
    assert!(matches!(LocalState::open(directory.path().join("file")), Err(StateError::System(_))));
}

#[test]
fn a_value_of_any_type_is_found_again_and_again_also_after_a_restart() {
    let (directory, local) = store();
    let structure = Value::structure([("a", Value::Bool(true)), ("b", Value::list(Type::Float, vec![]))]);
    let values = [
        Value::Bool(false),
        Value::Int(i64::MIN),
        Value::Float(f64::NEG_INFINITY),
        Value::Float(f64::NAN),
        Value::str(""),
        Value::str(b"\xff\x00"),
        Value::list(Type::Int, vec![]),
        Value::list(Type::Variant, vec![Value::Int(1), Value::str("x")]),
        Value::map(Type::Str, Type::Int, [(Value::str("k"), Value::Int(1))]),
        Value::map(structure.ty(), Type::Bool, [(structure.clone(), Value::Bool(true))]),
        structure,
    ];
    for (i, value) in values.iter().enumerate() {
        assert!(local.value_set(&key(&format!("key {i}")), Some(value)).unwrap());
    }
    let restarted = open(&directory);
    for (i, value) in values.iter().enumerate() {
        for store in [&local, &restarted, &restarted] {
            let found = store.value_get(&key(&format!("key {i}"))).unwrap().unwrap();
            assert_eq!(found.to_string(), value.to_string());
            assert_eq!(found.ty(), value.ty());
        }
        assert!(
            !restarted.value_set(&key(&format!("key {i}")), Some(value)).unwrap(),
            "{value} is there already"
        );
    }
}

#[test]
fn a_value_that_exists_only_on_disk_can_be_removed() {
    let (directory, local) = store();
    local.value_set(&key("a"), Some(&Value::Int(1))).unwrap();
    let restarted = open(&directory);
    assert!(restarted.value_set(&key("a"), None).unwrap());
    assert!(!restarted.value_set(&key("a"), None).unwrap());
    assert_eq!(restarted.value_get(&key("a")).unwrap(), None);
    assert_eq!(open(&directory).value_get(&key("a")).unwrap(), None);
    assert!(files(&directory, "value").is_empty());
}

#[test]
fn nil_is_no_value() {
    let (directory, local) = store();
    assert!(!local.value_set(&key("a"), Some(&Value::Nil)).unwrap());
    local.value_set(&key("a"), Some(&Value::Int(1))).unwrap();
    assert!(local.value_set(&key("a"), Some(&Value::Nil)).unwrap());
    assert_eq!(local.value_get(&key("a")).unwrap(), None);
    assert!(files(&directory, "value").is_empty());
}

#[test]
fn values_of_different_types_differ_even_when_they_look_alike() {
    let (_directory, local) = store();
    assert!(local.value_set(&key("a"), Some(&Value::list(Type::Int, vec![]))).unwrap());
    assert!(local.value_would_change(&key("a"), Some(&Value::list(Type::Str, vec![]))).unwrap());
    assert!(local.value_set(&key("a"), Some(&Value::list(Type::Str, vec![]))).unwrap());
    assert!(!local.value_would_change(&key("a"), Some(&Value::list(Type::Str, vec![]))).unwrap());
    assert!(local.value_would_change(&key("a"), None).unwrap());
    assert!(!local.value_set(&key("a"), Some(&Value::list(Type::Str, vec![]))).unwrap());
    assert_eq!(local.value_get(&key("a")).unwrap(), Some(Value::list(Type::Str, vec![])));
}

#[test]
fn any_key_is_a_key() {
    let (directory, local) = store();
    let long = "x".repeat(100_000);
    let keys: Vec<Str> = ["", "/", "..", "../../etc/passwd", "a/b", "a\0b", "é", &long]
        .into_iter()
        .map(Str::from)
        .chain([Str::new(b"\xff\xfe")])
        .collect();
    for (i, key) in keys.iter().enumerate() {
        local.value_set(key, Some(&Value::Int(i as i64))).unwrap();
        local.pool(key, key).unwrap();
    }
    let restarted = open(&directory);
    for (i, key) in keys.iter().enumerate() {
        assert_eq!(restarted.value_get(key).unwrap(), Some(Value::Int(i as i64)));
        assert_eq!(restarted.pool(key, key).unwrap(), 1);
    }
    assert_eq!(files(&directory, "value").len(), keys.len());
}

#[test]
fn a_stored_file_can_be_read_by_a_person() {
    let (directory, local) = store();
    let value = Value::map(Type::Str, Type::Int, [(Value::str("answer"), Value::Int(42))]);
    local.value_set(&key("my/key"), Some(&value)).unwrap();
    let text = fs::read_to_string(only_file(&directory, "value")).unwrap();
    let (members, checksum) = text.split_once(",\n  \"checksum\": ").unwrap();
    assert!(checksum.len() == 64 + 5 && checksum.ends_with("\"\n}\n"), "{checksum}");
    assert_eq!(
        format!("{members}\n}}\n"),
        r#"{
  "format": 1,
  "key": "my/key",
  "type": "map{str: int}",
  "value": {
    "answer": 42
  }
}
"#
    );
}

#[test]
fn a_file_that_cannot_be_understood_is_set_aside() {
    let (directory, local) = store();
    local.value_set(&key("a"), Some(&Value::Int(1))).unwrap();
    let path = only_file(&directory, "value");
    for (content, reason) in [
        ("", "EOF"),
        ("{", "EOF"),
        ("\u{0}\u{0}", "expected value"),
        ("[]", "no format number"),
        (r#"{"format": 0}"#, "no format number"),
        (r#"{"format": 1}"#, "`key` is missing"),
        (r#"{"format": 1, "key": 3}"#, "`key` is not a string"),
        (r#"{"format": 1, "key": "b", "type": "int", "value": 1}"#, r#"it holds the value of "b""#),
        (r#"{"format": 1, "key": "a", "type": "integer", "value": 1}"#, r#"there is no type "integer""#),
        (r#"{"format": 1, "key": "a", "type": "int"}"#, "`value` is missing"),
        (r#"{"format": 1, "key": "a", "type": "int", "value": "x"}"#, "expected int"),
        (r#"{"format": 1, "key": "a", "type": "int", "value": null}"#, "null"),
        (r#"{"format": 2, "key": "a", "type": "int", "value": 1}"#, "it has format 2"),
        (&"[".repeat(100_000), "recursion limit"),
    ] {
        fs::write(&path, content).unwrap();
        let restarted = open(&directory);
        assert_eq!(restarted.value_get(&key("a")).unwrap(), None, "{content}: {reason}");
        // It is neither used nor lost, and another value can be stored.
        let aside = path.with_file_name(format!("{}.damaged-1", path.file_name().unwrap().to_str().unwrap()));
        assert_eq!(fs::read_to_string(&aside).unwrap(), content);
        assert!(restarted.value_set(&key("a"), Some(&Value::Int(2))).unwrap());
        assert_eq!(open(&directory).value_get(&key("a")).unwrap(), Some(Value::Int(2)));
        fs::remove_file(&aside).unwrap();
        fs::write(&path, content).unwrap();
        assert!(open(&directory).value_set(&key("a"), Some(&Value::Int(3))).unwrap());
        fs::remove_file(&aside).unwrap();
    }
}

#[test]
fn no_damaged_byte_is_ever_used() {
    let (directory, local) = store();
    let value = Value::str("a value");
    local.value_set(&key("a"), Some(&value)).unwrap();
    let number = local.pool(&key("ns"), &key("a")).unwrap();
    let pool = fs::read_dir(only_file(&directory, "pool")).unwrap().next().unwrap().unwrap().path();
    for path in [only_file(&directory, "value"), pool] {
        let whole = fs::read(&path).unwrap();
        for at in 0..whole.len() {
            for bit in [1, 4, 32] {
                let mut bytes = whole.clone();
                bytes[at] ^= bit;
                fs::write(&path, &bytes).unwrap();
                let restarted = open(&directory);
                // What only stands beside the content may be damaged without harm.
                let found = restarted.value_get(&key("a")).unwrap();
                assert!(found.is_none() || found.as_ref() == Some(&value), "{at}: {found:?}");
                let found = restarted.pool(&key("ns"), &key("a")).unwrap();
                assert!(found >= number, "{at}: {found}");
                for entry in fs::read_dir(path.parent().unwrap()).unwrap() {
                    fs::remove_file(entry.unwrap().path()).unwrap();
                }
                fs::write(&path, &whole).unwrap();
            }
        }
    }
}

#[test]
fn something_else_in_place_of_a_file_is_an_error() {
    let (directory, local) = store();
    local.value_set(&key("a"), Some(&Value::Int(1))).unwrap();
    let path = only_file(&directory, "value");
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", &path).unwrap();
    assert!(matches!(open(&directory).value_get(&key("a")), Err(StateError::System(_))));
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(open(&directory).value_get(&key("a")).is_err());
}

struct Constant;

impl Function for Constant {
    fn ty(&self) -> Type {
        Type::func::<&str>([], Type::Int)
    }
    fn call(&self, _: &[Value]) -> Result<Value, String> {
        Ok(Value::Int(1))
    }
}

#[test]
fn what_could_not_be_read_back_is_not_written() {
    let (directory, local) = store();
    let function = Value::Func(std::sync::Arc::new(Constant));
    let deep = (0..200).fold(Value::Int(1), |inner, _| Value::list(inner.ty(), vec![inner]));
    let deep_variant = (0..200).fold(Value::Int(1), |inner, _| Value::list(Type::Variant, vec![inner]));
    for value in [
        Value::list(function.ty(), vec![function.clone()]),
        function,
        Value::structure([("two words", Value::Int(1))]),
        deep,
        deep_variant,
    ] {
        assert!(matches!(local.value_set(&key("a"), Some(&value)), Err(StateError::Unstorable { .. })));
        assert_eq!(local.value_get(&key("a")).unwrap(), None);
    }
    assert!(files(&directory, "value").is_empty());
}

#[test]
fn a_root_that_was_removed_comes_back() {
    let (directory, local) = store();
    local.value_set(&key("a"), Some(&Value::Int(1))).unwrap();
    fs::remove_dir_all(directory.path().join("local")).unwrap();
    assert!(local.value_set(&key("a"), Some(&Value::Int(2))).unwrap());
    assert_eq!(local.pool(&key("a"), &key("b")).unwrap(), 1);
    assert_eq!(open(&directory).value_get(&key("a")).unwrap(), Some(Value::Int(2)));
}

#[test]
fn leftovers_of_a_killed_process_are_swept_and_other_files_stay() {
    let (directory, local) = store();
    local.value_set(&key("a"), Some(&Value::Int(1))).unwrap();
    let folder = directory.path().join("local/value");
    fs::write(folder.join(".mgmt-0123456789abcdef.tmp"), "half").unwrap();
    fs::write(folder.join("notes.txt"), "mine").unwrap();
    let restarted = open(&directory);
    assert_eq!(restarted.value_get(&key("a")).unwrap(), Some(Value::Int(1)));
    assert!(!folder.join(".mgmt-0123456789abcdef.tmp").exists());
    assert!(folder.join("notes.txt").exists());
}

#[tokio::test]
async fn a_watcher_hears_at_once_and_after_each_change_of_its_key() {
    let (_directory, local) = store();
    let mut watcher = local.value_watch(&key("a"));
    let changed = tokio::time::timeout(Duration::from_secs(10), watcher.changed()).await;
    changed.expect("at once").unwrap();
    assert_eq!(*watcher.borrow_and_update(), 0);

    local.value_set(&key("b"), Some(&Value::Int(1))).unwrap();
    local.value_set(&key("a"), None).unwrap();
    assert!(!watcher.has_changed().unwrap(), "another key, and no change");

    local.value_set(&key("a"), Some(&Value::Int(1))).unwrap();
    assert!(watcher.has_changed().unwrap());
    assert_eq!(*watcher.borrow_and_update(), 1);
    local.value_set(&key("a"), Some(&Value::Int(1))).unwrap();
    assert!(!watcher.has_changed().unwrap(), "an equal value is no change");
    local.value_set(&key("a"), None).unwrap();
    assert_eq!(*watcher.borrow_and_update(), 2);
}

#[tokio::test]
async fn a_slow_or_absent_watcher_never_holds_up_a_change() {
    let (_directory, local) = store();
    let slow = local.value_watch(&key("a"));
    drop(local.value_watch(&key("a")));
    // A watcher that is in the middle of looking.
    let looking = local.value_watch(&key("b"));
    for i in 0..100 {
        local.value_set(&key("a"), Some(&Value::Int(i))).unwrap();
    }
    drop(looking);
    assert_eq!(*slow.borrow(), 100);
    for i in 0..10_000 {
        drop(local.value_watch(&key(&format!("{i}"))));
    }
    let mut late = local.value_watch(&key("a"));
    local.value_set(&key("a"), None).unwrap();
    assert!(late.changed().await.is_ok());
    assert_eq!(*late.borrow(), 101, "those that listen are not swept away");
}

#[test]
fn threads_agree_on_one_value_and_on_one_number_each() {
    let (directory, local) = store();
    let mut numbers: Vec<u64> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|thread: i64| {
                let local = &local;
                scope.spawn(move || {
                    for i in 0..10 {
                        local.value_set(&key("a"), Some(&Value::Int(thread * 100 + i))).unwrap();
                        local.value_get(&key("a")).unwrap().unwrap();
                        local.pool(&key("ns"), &key("same")).unwrap();
                    }
                    local.pool(&key("ns"), &key(&format!("thread {thread}"))).unwrap()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    numbers.push(local.pool(&key("ns"), &key("same")).unwrap());
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=9).collect::<Vec<_>>());
    assert_eq!(open(&directory).value_get(&key("a")).unwrap(), local.value_get(&key("a")).unwrap());
}

#[test]
fn numbers_are_positive_stable_and_grow_by_one() {
    let (directory, local) = store();
    for (uid, number) in [("a", 1), ("b", 2), ("a", 1), ("c", 3), ("b", 2)] {
        assert_eq!(local.pool(&key("ns"), &key(uid)).unwrap(), number);
    }
    assert_eq!(local.pool(&key("other"), &key("c")).unwrap(), 1);
    let restarted = open(&directory);
    for (uid, number) in [("c", 3), ("d", 4), ("a", 1), ("b", 2)] {
        assert_eq!(restarted.pool(&key("ns"), &key(uid)).unwrap(), number);
    }
}

#[test]
fn a_gap_is_not_filled() {
    let (directory, local) = store();
    for uid in ["a", "b", "c"] {
        local.pool(&key("ns"), &key(uid)).unwrap();
    }
    let namespace = only_file(&directory, "pool");
    for entry in fs::read_dir(namespace).unwrap() {
        let path = entry.unwrap().path();
        if fs::read_to_string(&path).unwrap().contains(r#""uid": "b""#) {
            fs::remove_file(path).unwrap();
        }
    }
    let restarted = open(&directory);
    assert_eq!(restarted.pool(&key("ns"), &key("d")).unwrap(), 4);
    assert_eq!(restarted.pool(&key("ns"), &key("b")).unwrap(), 5);
}

/// A file as an earlier version has written it.
fn without_checksum(text: &str) -> String {
    text.split_once(",\n  \"checksum\"").unwrap().0.to_owned() + "\n}\n"
}

#[test]
fn a_number_that_cannot_be_understood_is_set_aside_and_not_given_again() {
    let (directory, local) = store();
    local.pool(&key("ns"), &key("a")).unwrap();
    let namespace = only_file(&directory, "pool");
    let path = fs::read_dir(&namespace).unwrap().next().unwrap().unwrap().path();
    let good = without_checksum(&fs::read_to_string(&path).unwrap());
    for bad in [
        "{".to_owned(),
        good.replace("\"number\": 1", "\"number\": 0"),
        good.replace("\"number\": 1", "\"number\": -1"),
        good.replace("\"number\": 1", "\"number\": 9223372036854775808"),
        good.replace("\"ns\"", "\"sn\""),
        good.replace("\"a\"", "\"b\""),
        good.replace("\"format\": 1", "\"format\": 7"),
    ] {
        fs::write(&path, &bad).unwrap();
        let restarted = open(&directory);
        assert_eq!(restarted.pool(&key("ns"), &key("z")).unwrap(), 2, "{bad}");
        assert_eq!(restarted.pool(&key("ns"), &key("a")).unwrap(), 3, "{bad}");
        assert_eq!(open(&directory).pool(&key("ns"), &key("y")).unwrap(), 4, "{bad}");
        for entry in fs::read_dir(&namespace).unwrap() {
            fs::remove_file(entry.unwrap().path()).unwrap();
        }
    }
    fs::write(&path, good.replace("\"number\": 1", "\"number\": 9223372036854775807")).unwrap();
    let full = open(&directory);
    assert_eq!(full.pool(&key("ns"), &key("a")).unwrap(), i64::MAX as u64);
    assert!(matches!(full.pool(&key("ns"), &key("z")), Err(StateError::Exhausted { .. })));
}

#[test]
fn of_two_names_with_one_number_one_is_set_aside() {
    let (directory, local) = store();
    local.pool(&key("ns"), &key("a")).unwrap();
    local.pool(&key("ns"), &key("b")).unwrap();
    for entry in fs::read_dir(only_file(&directory, "pool")).unwrap() {
        let path = entry.unwrap().path();
        let text = without_checksum(&fs::read_to_string(&path).unwrap());
        fs::write(path, text.replace("\"number\": 2", "\"number\": 1")).unwrap();
    }
    let restarted = open(&directory);
    let mut numbers = ["a", "b"].map(|name| restarted.pool(&key("ns"), &key(name)).unwrap());
    numbers.sort_unstable();
    assert_eq!(numbers, [1, 3]);
}

#[test]
fn a_new_number_costs_one_file_whatever_the_size_of_the_pool() {
    let (directory, local) = store();
    for i in 1..=200 {
        assert_eq!(local.pool(&key("ns"), &key(&format!("{i}"))).unwrap(), i);
    }
    // Were the others read again, this one would be in the way.
    let namespace = only_file(&directory, "pool");
    for entry in fs::read_dir(namespace).unwrap() {
        fs::write(entry.unwrap().path(), "broken").unwrap();
    }
    assert_eq!(local.pool(&key("ns"), &key("next")).unwrap(), 201);
    assert_eq!(local.pool(&key("ns"), &key("7")).unwrap(), 7);
}

#[test]
fn a_directory_is_made_below_the_store_and_nowhere_else() {
    let (directory, local) = store();
    let path = local.directory("a/b/").unwrap();
    assert_eq!(path, directory.path().join("local/vardir/a/b"));
    assert!(path.to_str().unwrap().ends_with("/a/b/"));
    assert!(path.is_dir());
    assert_eq!(mode(&path), 0o750);
    assert_eq!(mode(&directory.path().join("local/vardir/a")), 0o750);
    fs::write(path.join("file"), "kept").unwrap();
    assert_eq!(local.directory("./a//b").unwrap(), path);
    assert!(path.join("file").exists());
    for bad in ["", ".", "/", "/etc/", "..", "a/../../b", "../x/"] {
        assert!(matches!(local.directory(bad), Err(StateError::Directory { .. })), "{bad}");
    }
    std::os::unix::fs::symlink("/tmp", directory.path().join("local/vardir/link")).unwrap();
    assert!(local.directory("link/x/").is_err(), "a link is not followed");
}
