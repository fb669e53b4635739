//! `local`

use std::path::Path;

use mgmt_funcs_derive::function;
use mgmt_value::Str;

use crate::declare::module;
use crate::{Failure, Host};

module! {
    path: "local",
    doc: "State of this host that outlives a run.",
    functions: [vardir, pool],
}

/// A directory for the program to use, made if it is missing. The path is absolute and ends with a slash.
///
/// The argument is relative and ends with a slash; `..` is refused. Anything else, and any failure, is fatal.
///
/// ```mcl,host
/// local.vardir("cache/") == "/var/lib/mgmt/vardir/functions/cache/"
/// ```
#[function(reads)]
fn vardir(host: &dyn Host, path: &Str) -> Result<Str, Failure> {
    if path.starts_with(b"/") || !path.ends_with(b"/") {
        return Err(Failure::fatal(format!("the path {path:?} must be relative and end with a slash")));
    }
    let made = host.local()?.directory(Path::new("functions").join(path.as_path()));
    let made = made.map_err(|error| Failure::fatal(format!("can't make the directory {path:?}: {error}")))?;
    Ok(Str::new(made.as_os_str().as_encoded_bytes()))
}

/// A small positive number for a name within a namespace. It stays the same for ever, also across runs.
///
/// A name that is new gets one more than the largest number so far. Names that are empty or contain a slash are a fatal error.
///
/// ```mcl,host
/// local.pool("guests", "web1") == 1
/// ```
#[function(reads)]
fn pool(host: &dyn Host, namespace: &Str, uid: &Str) -> Result<i64, Failure> {
    for name in [namespace, uid] {
        if name.is_empty() || name.contains(&b'/') {
            return Err(Failure::fatal(format!("the name {name:?} must not be empty or contain a slash")));
        }
    }
    let number = host.local()?.pool(namespace, uid);
    let number =
        number.map_err(|error| Failure::fatal(format!("there is no number for {uid:?}: {error}")))?;
    i64::try_from(number).map_err(|_| Failure::fatal(format!("the number of {uid:?} is too large")))
}

#[cfg(test)]
mod tests {
    use crate::modules::tests::{Stored, call_on, shown};
    use crate::{Failure, Memory};
    use mgmt_value::Value;

    fn call(host: &Stored, name: &str, arguments: &[&str]) -> Result<Value, Failure> {
        let arguments: Vec<_> = arguments.iter().map(Value::str).collect();
        call_on(&mut Memory::default(), host, &format!("local.{name}"), &arguments)
    }

    #[test]
    fn directories_are_made_below_the_state() {
        let host = Stored::new();
        let Ok(Value::Str(path)) = call(&host, "vardir", &["a/b/"]) else { panic!("expected a path") };
        assert!(path.ends_with(b"/vardir/functions/a/b/") && path.as_path().is_dir());
        for wrong in ["", "/", "a", "/a/", "../a/", "a/../../b/"] {
            assert!(matches!(call(&host, "vardir", &[wrong]), Err(Failure::Fatal(_))), "{wrong}");
        }
        assert!(shown("local.vardir", &[Value::str("a/")]).contains("without a state directory"));
    }

    #[test]
    fn numbers_stay() {
        let host = Stored::new();
        assert_eq!(call(&host, "pool", &["n", "a"]), Ok(Value::Int(1)));
        assert_eq!(call(&host, "pool", &["n", "b"]), Ok(Value::Int(2)));
        assert_eq!(call(&host, "pool", &["n", "a"]), Ok(Value::Int(1)));
        assert_eq!(call(&host, "pool", &["other", "a"]), Ok(Value::Int(1)));
        for wrong in [["", "a"], ["n", ""], ["a/b", "a"], ["n", "/"]] {
            assert!(matches!(call(&host, "pool", &wrong), Err(Failure::Fatal(_))));
        }
    }
}
