//! `util`

use std::collections::BTreeMap;

use mgmt_funcs_derive::function;
use mgmt_value::Str;

use crate::Failure;
use crate::declare::module;
use crate::modules::net::interfaces;

module! {
    path: "util",
    doc: "Odds and ends.",
    functions: [hostname_mapper],
}

/// The name of this host in a map from hardware addresses to names.
///
/// Addresses are written in lower case with colons. The empty text stands for "none of them", and empty names are ignored.
/// Two different names for one host are a fatal error.
///
/// ```mcl
/// util.hostname_mapper({"00:00:00:00:00:00" => "nobody",}) == ""
/// ```
#[function(reads)]
fn hostname_mapper(map: BTreeMap<Str, Str>) -> Result<Str, Failure> {
    lookup(&map, &interfaces::macs()?)
}

fn lookup(map: &BTreeMap<Str, Str>, macs: &[String]) -> Result<Str, Failure> {
    let names = macs.iter().filter_map(|mac| map.get(mac.as_bytes())).filter(|name| !name.is_empty());
    let mut found: Option<&Str> = None;
    for name in names {
        match found {
            Some(other) if other != name => {
                return Err(Failure::fatal(format!("this host has two names: {other:?} and {name:?}")));
            }
            _ => found = Some(name),
        }
    }
    Ok(found.cloned().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_name_fits_or_none() {
        let entry = |mac: &str, name: &str| (Str::from(mac), Str::from(name));
        let map =
            BTreeMap::from([entry("aa", "one"), entry("bb", "two"), entry("cc", ""), entry("dd", "one")]);
        let find =
            |macs: &[&str]| lookup(&map, &macs.iter().map(|mac| (*mac).to_owned()).collect::<Vec<_>>());
        assert_eq!(find(&["aa", "cc", "dd", "xx"]).unwrap(), "one");
        assert_eq!(find(&["xx"]).unwrap(), "");
        assert_eq!(find(&[]).unwrap(), "");
        assert!(find(&["aa", "bb"]).is_err());
    }
}
