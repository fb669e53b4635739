//! What the program is made of, for programs that look for known weaknesses and for unwanted licences.
//!
//! Both documents say the same. There is no serial number in them, and the time is that of the release: the same sources give the same
//! documents.

use serde_json::{Value, json};

use crate::metadata::Package;
use crate::{Inventory, Release};

/// As CycloneDX 1.5.
pub fn cyclonedx(inventory: &Inventory, release: &Release) -> Value {
    let component = |key: &str, package: &Package, kind: &str| {
        let mut component = json!({
            "type": kind,
            "bom-ref": key,
            "name": package.name,
            "version": package.version,
            // A macro has made a part of the program, and is not in it.
            "scope": if package.is_macro { "excluded" } else { "required" },
        });
        if let Some(description) = &package.description {
            component["description"] = json!(description);
        }
        if let Some(sum) = &package.sha256 {
            component["hashes"] = json!([{ "alg": "SHA-256", "content": sum }]);
        }
        if let Some(license) = &package.license {
            component["licenses"] = json!([{ "expression": license }]);
        }
        if package.is_foreign {
            component["purl"] = json!(purl(package));
        }
        component
    };
    let others = inventory.packages.iter().filter(|(key, _)| **key != inventory.root);
    let components: Vec<Value> = others.map(|(key, package)| component(key, package, "library")).collect();
    let edges =
        inventory.packages.iter().map(|(key, package)| json!({ "ref": key, "dependsOn": package.uses }));
    let program = inventory.packages.get(&inventory.root);
    json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": time(release.epoch),
            "component": program.map(|program| component(&inventory.root, program, "application")),
        },
        "components": components,
        "dependencies": edges.collect::<Vec<_>>(),
    })
}

/// As SPDX 2.3.
pub fn spdx(inventory: &Inventory, release: &Release) -> Value {
    let package = |(key, package): (&String, &Package)| {
        let license = package.license.as_deref().unwrap_or("NOASSERTION");
        let mut found = json!({
            "SPDXID": id(key),
            "name": package.name,
            "versionInfo": package.version,
            "downloadLocation": match package.is_foreign {
                true => format!("https://crates.io/crates/{}/{}", package.name, package.version),
                false => "NOASSERTION".to_owned(),
            },
            "filesAnalyzed": false,
            "licenseConcluded": license,
            "licenseDeclared": license,
            "copyrightText": "NOASSERTION",
        });
        if let Some(sum) = &package.sha256 {
            found["checksums"] = json!([{ "algorithm": "SHA256", "checksumValue": sum }]);
        }
        if package.is_foreign {
            let reference = json!({
                "referenceCategory": "PACKAGE-MANAGER",
                "referenceType": "purl",
                "referenceLocator": purl(package),
            });
            found["externalRefs"] = json!([reference]);
        }
        found
    };
    let edge = |from: &str, kind: &str, to: &str| json!({ "spdxElementId": from, "relationshipType": kind, "relatedSpdxElement": to });
    let mut edges = vec![edge("SPDXRef-DOCUMENT", "DESCRIBES", &id(&inventory.root))];
    for (key, package) in &inventory.packages {
        edges.extend(package.uses.iter().map(|used| edge(&id(key), "DEPENDS_ON", &id(used))));
    }
    json!({
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": format!("mgmt-{}", release.version),
        "documentNamespace": format!("https://mgmt.invalid/spdx/mgmt-{}-{}", release.version, release.epoch),
        "creationInfo": { "created": time(release.epoch), "creators": ["Tool: mgmt-release"] },
        "packages": inventory.packages.iter().map(package).collect::<Vec<_>>(),
        "relationships": edges,
    })
}

fn purl(package: &Package) -> String {
    // A version may have a plus in it, which means a space there.
    format!("pkg:cargo/{}@{}", package.name, package.version.replace('+', "%2B"))
}

/// What SPDX allows in a name.
fn id(key: &str) -> String {
    let allowed = |letter: char| if letter.is_ascii_alphanumeric() || letter == '.' { letter } else { '-' };
    format!("SPDXRef-{}", key.chars().map(allowed).collect::<String>())
}

/// A time as both formats want it.
pub(crate) fn time(epoch: u64) -> String {
    let (days, seconds) = (epoch / 86400, epoch % 86400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Year, month and day of a day since 1970. Years begin with March here, so that the odd day is at their end.
pub(crate) fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let first = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + u64::from(first <= 2), first, day - (153 * month + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    fn inventory() -> Inventory {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        Inventory::of(&workspace, "x86_64-unknown-linux-gnu").unwrap()
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        assert_eq!(time(0), "1970-01-01T00:00:00Z");
        assert_eq!(time(951_827_696), "2000-02-29T12:34:56Z");
        assert_eq!(time(1_763_251_200), "2025-11-16T00:00:00Z");
    }

    #[test]
    fn every_crate_is_there_once_with_its_licence_and_sum_and_nothing_refers_into_the_void() {
        let inventory = inventory();
        let release = Release::new("1.0.0", 1_763_251_200);
        let bom = cyclonedx(&inventory, &release);
        assert_eq!(bom["metadata"]["component"]["name"], "mgmt");
        let components = bom["components"].as_array().unwrap();
        let mut names = BTreeSet::from([bom["metadata"]["component"]["bom-ref"].as_str().unwrap()]);
        for component in components {
            let name = component["bom-ref"].as_str().unwrap();
            assert!(names.insert(name), "{name} is there twice");
            assert!(component["licenses"][0]["expression"].is_string(), "{name} has no licence");
            let foreign = component["purl"].is_string();
            assert_eq!(component["hashes"][0]["content"].is_string(), foreign, "{name}");
            assert_eq!(name.starts_with("mgmt-"), !foreign, "{name}");
        }
        for name in ["tokio@", "clap@", "rustls@", "mgmt-engine@"] {
            assert!(names.iter().any(|found| found.starts_with(name)), "{name} is missing");
        }
        // Of tests and of this chore alone.
        for name in ["tempfile@", "proptest@", "mgmt-release@", "mgmt-bench@"] {
            assert!(!names.iter().any(|found| found.starts_with(name)), "{name} is not in the program");
        }
        for edge in bom["dependencies"].as_array().unwrap() {
            for used in edge["dependsOn"].as_array().unwrap() {
                assert!(names.contains(used.as_str().unwrap()), "{used} is referred to and not there");
            }
        }
        assert_eq!(bom, cyclonedx(&inventory, &release), "twice the same is not the same");
        let spdx = spdx(&inventory, &release);
        assert_eq!(spdx["packages"].as_array().unwrap().len(), names.len());
        let ids: BTreeSet<_> = spdx["packages"]
            .as_array()
            .unwrap()
            .iter()
            .map(|found| found["SPDXID"].as_str().unwrap())
            .collect();
        assert_eq!(ids.len(), names.len());
        for edge in spdx["relationships"].as_array().unwrap() {
            assert!(ids.contains(edge["relatedSpdxElement"].as_str().unwrap()), "{edge}");
        }
    }
}
