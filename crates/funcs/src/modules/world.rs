//! `world` and `world/collect`

use std::collections::BTreeMap;

use mgmt_funcs_derive::function;
use mgmt_value::{Str, Value};

use crate::declare::module;
use crate::{Failure, Host, Watch};

pub(crate) mod collect;

module! {
    path: "world",
    doc: "Text that the hosts of a cluster share. Keys and namespaces may change while the program runs.",
    functions: [getval, kvlookup, schedule],
}

fn named<'a>(what: &str, name: &'a Str) -> Result<&'a Str, Failure> {
    match name.is_empty() {
        true => Err(Failure::fatal(format!("the {what} must not be empty"))),
        false => Ok(name),
    }
}

/// The text under a key of the cluster. `exists` is false, and the text empty, while there is none.
///
/// ```mcl,host
/// world.getval("key") == struct{value => "hello", exists => true,}
/// ```
#[function(live = vec![Watch::WorldString(key.clone())], signature = "func(key str) struct{value str; exists bool}")]
fn getval(host: &dyn Host, key: &Str) -> Result<Value, Failure> {
    let found = host.world_string(named("key", key)?)?;
    let exists = Value::Bool(found.is_some());
    Ok(Value::structure([("value", Value::Str(found.unwrap_or_default())), ("exists", exists)]))
}

/// The texts that hosts have put under a name of the cluster, by host.
///
/// ```mcl,host
/// world.kvlookup("name") == {"host1" => "hello",}
/// ```
#[function(live = vec![Watch::WorldStrings(namespace.clone())])]
fn kvlookup(host: &dyn Host, namespace: &Str) -> Result<BTreeMap<Str, Str>, Failure> {
    let found = host.world_strings(named("namespace", namespace)?)?;
    match found.keys().find(|host| host.is_empty() || host.contains(&b'/')) {
        Some(host) => {
            Err(Failure::fatal(format!("{namespace:?} holds a text of {host:?}, which is no host")))
        }
        None => Ok(found),
    }
}

/// The hosts that the cluster has chosen for a name. Before the first choice there are none.
///
/// ```mcl,host
/// world.schedule("database") == ["host1", "host2",]
/// ```
#[function(live = vec![Watch::Schedule(namespace.clone())])]
fn schedule(host: &dyn Host, namespace: &Str) -> Result<Vec<Str>, Failure> {
    host.world_schedule(named("namespace", namespace)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Memory;
    use crate::modules::tests::{Cluster, call_on, shown};

    fn call(name: &str, argument: &str) -> String {
        match call_on(&mut Memory::default(), &Cluster, name, &[Value::str(argument)]) {
            Ok(value) => value.to_string(),
            Err(failure) => format!("{failure:?}"),
        }
    }

    #[test]
    fn the_cluster_is_asked() {
        assert_eq!(call("world.getval", "here"), r#"struct{value: "text"; exists: true}"#);
        assert_eq!(call("world.getval", "gone"), r#"struct{value: ""; exists: false}"#);
        assert_eq!(call("world.kvlookup", "n"), r#"{"h1": "n", "h2": "x"}"#);
        assert!(call("world.kvlookup", "bad").contains("which is no host"));
        assert_eq!(call("world.schedule", "n"), r#"["h1"]"#);
        for name in ["world.getval", "world.kvlookup", "world.schedule", "world/collect.res"] {
            assert!(call(name, "").contains("must not be empty"));
            assert!(shown(name, &[Value::str("x")]).starts_with("F: this program is not part of a cluster"));
        }
    }

    #[test]
    fn exports_are_listed_in_order() {
        let expected = r#"[struct{name: "a"; host: "h1"}, struct{name: "a"; host: "h2"}, struct{name: "b"; host: "h1"}]"#;
        assert_eq!(call("world/collect.res", "file"), expected);
    }
}
