//! `world/collect`

use mgmt_funcs_derive::function;
use mgmt_value::{Str, Type, Value};

use crate::declare::module;
use crate::{Failure, Host, Watch};

module! {
    path: "world/collect",
    doc: "Resources that other hosts export.",
    functions: [res],
}

/// The resources of a kind that are exported to this host or to everyone, ordered by name and host.
///
/// ```mcl,host
/// collect.res("file") == [struct{name => "/etc/motd", host => "host1",},]
/// ```
#[function(live = vec![Watch::Exports(kind.clone())], signature = "func(kind str) []struct{name str; host str}")]
fn res(host: &dyn Host, kind: &Str) -> Result<Value, Failure> {
    let mut exports = host.world_exports(super::named("kind", kind)?)?;
    exports.sort();
    let ty = Type::structure([("name", Type::Str), ("host", Type::Str)]);
    let items = exports.into_iter().map(|export| {
        Value::structure([("name", Value::Str(export.name)), ("host", Value::Str(export.host))])
    });
    Ok(Value::list(ty, items.collect()))
}

/// The exported resources that some names ask for, with their stored form.
pub(crate) fn collect(host: &dyn Host, kind: &Str, names: &Value) -> Result<Value, Failure> {
    let wanted = wanted(names)?;
    let ty = Type::structure([("name", Type::Str), ("host", Type::Str), ("data", Type::Str)]);
    let kind = super::named("kind", kind)?;
    if wanted.is_empty() {
        return Ok(Value::list(ty, Vec::new()));
    }
    let fits = |wanted: &Str, found: &Str| wanted.is_empty() || wanted == found;
    let mut exports = host.world_exports(kind)?;
    exports.retain(|export| {
        wanted.iter().any(|(name, host)| fits(name, &export.name) && fits(host, &export.host))
    });
    exports.sort();
    let items = exports.into_iter().map(|export| {
        let data = Value::Str(export.data);
        Value::structure([
            ("name", Value::Str(export.name)),
            ("host", Value::Str(export.host)),
            ("data", data),
        ])
    });
    Ok(Value::list(ty, items.collect()))
}

/// Names and hosts, where an empty text stands for any.
fn wanted(names: &Value) -> Result<Vec<(Str, Str)>, Failure> {
    let one = |name: &Value| match name {
        Value::Str(name) => Some((name.clone(), Str::EMPTY)),
        Value::Struct(pair) => match pair.fields.as_slice() {
            [(_, Value::Str(name)), (_, Value::Str(host))] => Some((name.clone(), host.clone())),
            _ => None,
        },
        _ => None,
    };
    let wanted = match names {
        Value::List(list) => list.items.iter().map(one).collect(),
        name => one(name).map(|one| vec![one]),
    };
    wanted.ok_or_else(|| Failure::fatal(format!("expected names of resources, found {}", names.ty())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modules::tests::{Cluster, Nothing};

    #[test]
    fn names_choose() {
        let count = |names: &Value| match collect(&Cluster, &"file".into(), names) {
            Ok(Value::List(list)) => list.items.len(),
            other => panic!("{other:?}"),
        };
        let names = |names: &[&str]| Value::list(Type::Str, names.iter().map(Value::str).collect());
        assert_eq!(count(&Value::str("a")), 2);
        assert_eq!(count(&Value::str("")), 3);
        assert_eq!(count(&names(&["a", "b", "c"])), 3);
        assert_eq!(count(&names(&["c"])), 0);
        let pair = |name: &str, host: &str| {
            Value::structure([("name", Value::str(name)), ("host", Value::str(host))])
        };
        assert_eq!(count(&Value::list(pair("", "").ty(), vec![pair("a", "h2"), pair("", "h1")])), 3);
        assert_eq!(count(&Value::list(pair("", "").ty(), vec![pair("a", "h2")])), 1);
        assert!(collect(&Cluster, &"file".into(), &Value::Int(1)).is_err());
        // Nobody is asked for nothing.
        assert!(collect(&Nothing, &"file".into(), &names(&[])).is_ok());
        assert!(collect(&Nothing, &"file".into(), &names(&["a"])).is_err());
    }
}
