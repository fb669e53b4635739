//! A new kind: its file, its tests, and a line in every list that a test wants all kinds to be in.

use std::path::Path;

use super::changes::Changes;
use super::lists::{append_to_result, insert_block, insert_item, insert_line};
use super::names::KindName;
use crate::step::Failed;

const KIND: &str = include_str!("templates/kind.rs.txt");
const KIND_TEST: &str = include_str!("templates/kind_test.rs.txt");

const KINDS: &str = "crates/resources/src/kinds.rs";
const TESTS: &str = "crates/resources/tests/kinds/main.rs";
const PROOFS: &str = "crates/resources/tests/PROOFS";
const SWAPS: &str = "crates/resources/tests/kinds/swaps.rs";
const EXAMPLES: &str = "crates/mgmt/tests/hosts/kind_examples.rs";
const PLANS: &str = "crates/mgmt/tests/hosts/plan.rs";
const FAILING_PLANS: &str = "crates/mgmt/tests/hosts/plan_failing/mod.rs";
const READERS: &str = "crates/mgmt/tests/labs/security/reading.rs";

/// What proves which column: tests of the template.
const PROVEN: &[(&str, &str)] = &[
    ("apply", "the_line_is_written_and_changed"),
    ("idempotent", "the_line_is_written_and_changed"),
    ("repaired", "a_change_from_outside_is_repaired"),
    ("noop", "the_line_is_written_and_changed"),
    ("refused", "invalid_parameters_are_refused"),
    ("edges", "the_line_comes_after_its_directory"),
];

/// Everything that a new kind needs below the root of a workspace.
pub(super) fn changes(root: &Path, name: &str) -> Result<(KindName, Changes), Failed> {
    if let Some(path) = declared_in(root, name)? {
        return Err(Failed::new(format!("the kind `{name}` exists already, in {path}")));
    }
    let name = KindName::read(name, &[KIND, KIND_TEST])?;
    let mut changes = Changes::new(root);
    let (kind, module) = (name.kind(), name.module());
    let order = KindName::order(kind);

    changes.create(format!("crates/resources/src/kinds/{module}.rs"), filled(KIND, &name))?;
    // A kind may be a folder, too, and so may its tests.
    for folder in ["crates/resources/src/kinds", "crates/resources/tests/kinds"] {
        if root.join(folder).join(&module).exists() {
            return Err(Failed::new(format!("{folder}/{module} exists already")));
        }
    }
    changes.create(format!("crates/resources/tests/kinds/{module}.rs"), filled(KIND_TEST, &name))?;

    changes.edit(KINDS, |text| {
        let text = insert_line(text, "pub mod ", &format!("pub mod {module};"))?;
        let item = filled("    schema_of::<{{module}}::{{Kind}}>,", &name);
        insert_item(&text, "ALL", &item, |present| {
            let structure = present.rsplit("::").next().and_then(|end| end.split('>').next());
            structure.is_some_and(|structure| KindName::order(structure) > order)
        })
    })?;
    changes.edit(TESTS, |text| insert_line(text, "mod ", &format!("mod {module};")))?;
    changes.edit(PROOFS, |text| {
        let rows = PROVEN.iter().map(|(column, test)| format!("{kind}: {column}: {module}::{test}\n"));
        let is_greater = |block: &str| {
            let present = block.split(": ").next().unwrap_or_default();
            KindName::order(present) > order
        };
        Ok(insert_block(text, &rows.collect::<String>(), is_greater))
    })?;
    changes.edit(SWAPS, |text| {
        let item = "        spec(at(\"{{module}}\"), mgmt_resources::{{module}}::{{Kind}} { text: \"text\".into(), ..Default::default() }),";
        append_to_result(text, "anywhere", &filled(item, &name))
    })?;
    changes.edit(EXAMPLES, |text| {
        let item = "    (\"{{kind}}\", View, \"\", Settles(\"grep -x hello /etc/{{module}}.conf\")),";
        insert_item(text, "EXAMPLES", &filled(item, &name), |present| {
            present.split('"').nth(1).is_some_and(|present| KindName::order(present) > order)
        })
    })?;
    for (path, list, item) in [
        (
            PLANS,
            "CASES",
            "    case(\"a line of {{kind}}\", \"\", r#\"{{kind}} \"/t/a\" { text => \"x\", }\"#),",
        ),
        (
            FAILING_PLANS,
            "FAILING",
            "    failing(\"\", r#\"{{kind}} \"/t/d/a\" { text => \"x\", }\"#, &[\"{{kind}}[/t/d/a]\"]),",
        ),
        (READERS, "READERS", "    refuses(\"{{kind}}\", r#\"{{kind}} \"{P}\" { text => \"x\", }\"#),"),
    ] {
        changes.edit(path, |text| insert_item(text, list, &filled(item, &name), |_| false))?;
    }
    Ok((name, changes))
}

/// A template with the names in it.
fn filled(template: &str, name: &KindName) -> String {
    template
        .replace("{{kind}}", name.kind())
        .replace("{{module}}", &name.module())
        .replace("{{Kind}}", &name.structure())
}

/// The file below the kinds that declares a kind.
fn declared_in(root: &Path, kind: &str) -> Result<Option<String>, Failed> {
    let mut open = vec!["crates/resources/src/kinds".to_owned()];
    let declaration = format!("kind = \"{kind}\"");
    while let Some(directory) = open.pop() {
        let cannot = |error| Failed::new(format!("cannot read {directory}: {error}"));
        for entry in std::fs::read_dir(root.join(&directory)).map_err(cannot)? {
            let entry = entry.map_err(cannot)?;
            let path = format!("{directory}/{}", entry.file_name().to_string_lossy());
            if entry.path().is_dir() {
                open.push(path);
            } else if std::fs::read_to_string(entry.path()).map_err(cannot)?.contains(&declaration) {
                return Ok(Some(path));
            }
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::super::tests::Copy;
    use super::*;

    /// What a new kind changes.
    const LISTS: [&str; 8] = [KINDS, TESTS, PROOFS, SWAPS, EXAMPLES, PLANS, FAILING_PLANS, READERS];

    fn added(kind: &str) -> Copy {
        let copy = Copy::of(&LISTS, &["crates/resources/src/kinds", "crates/resources/tests/kinds"]);
        let (_, changes) = changes(copy.root(), kind).unwrap_or_else(|Failed(why)| panic!("{why}"));
        changes.write().unwrap_or_else(|Failed(why)| panic!("{why}"));
        copy
    }

    #[test]
    fn a_new_kind_is_in_every_list() {
        let copy = added("sample:of_xtask");
        let kind = copy.read("crates/resources/src/kinds/sample_of_xtask.rs");
        assert!(kind.contains(
            "#[resource(kind = \"sample:of_xtask\", edges, blocking)]\npub struct SampleOfXtask {"
        ));
        let test = copy.read("crates/resources/tests/kinds/sample_of_xtask.rs");
        assert!(test.contains("use mgmt_resources::sample_of_xtask::SampleOfXtask;\n"));
        for text in [&kind, &test] {
            assert!(!text.contains("{{"), "{text}");
        }
        for (path, line) in [
            (KINDS, "\npub mod sample_of_xtask;\n"),
            (KINDS, "\n    schema_of::<sample_of_xtask::SampleOfXtask>,\n"),
            (TESTS, "\nmod sample_of_xtask;\n"),
            (PROOFS, "\n\nsample:of_xtask: apply: sample_of_xtask::the_line_is_written_and_changed\n"),
            (PROOFS, "\nsample:of_xtask: edges: sample_of_xtask::the_line_comes_after_its_directory\n\n"),
            (SWAPS, "mgmt_resources::sample_of_xtask::SampleOfXtask {"),
            (
                EXAMPLES,
                "\"sample:of_xtask\", View, \"\", Settles(\"grep -x hello /etc/sample_of_xtask.conf\")",
            ),
            (PLANS, "r#\"sample:of_xtask \"/t/a\" { text => \"x\", }\"#"),
            (FAILING_PLANS, "&[\"sample:of_xtask[/t/d/a]\"]"),
            (READERS, "refuses(\"sample:of_xtask\", r#\"sample:of_xtask \"{P}\" { text => \"x\", }\"#)"),
        ] {
            assert!(copy.read(path).contains(line), "{path} has no {line}");
        }
        for path in LISTS {
            assert_eq!(copy.lost(path), [""; 0], "{path}");
        }
    }

    #[test]
    fn every_column_of_the_coverage_matrix_is_proven_by_a_test_of_the_template() {
        for (column, test) in PROVEN {
            assert!(KIND_TEST.contains(&format!("fn {test}() {{")), "{column}: {test}");
        }
        let columns: Vec<&str> = PROVEN.iter().map(|(column, _)| *column).collect();
        let all = crate::proofs::columns(&["edges".to_owned()].into());
        assert_eq!(columns, all);
    }

    /// `kind_examples` compares the order of both.
    #[test]
    fn the_order_is_the_same_in_the_registry_and_among_the_examples() {
        for kind in ["aaa:sample", "http:aa_sample", "http:server:sample", "hosts_sample", "zzz", "ssh_x:y"] {
            let copy = added(kind);
            let name = KindName::read(kind, &[]).unwrap();
            let registry = copy.read(KINDS);
            let order: Vec<String> = registry
                .lines()
                .filter_map(|line| line.trim().strip_prefix("schema_of::<")?.strip_suffix(">,"))
                .map(|path| KindName::order(path.rsplit("::").next().unwrap()))
                .filter(|kind| kind != "panic")
                .collect();
            let examples = copy.read(EXAMPLES);
            let list = &examples[examples.find("const EXAMPLES").unwrap()..];
            let list = &list[..list.find("\n];").unwrap()];
            let at = |kind: &String| order_in(list, kind).unwrap_or_else(|| panic!("{kind} is no example"));
            let places: Vec<usize> = order.iter().map(at).collect();
            assert!(places.is_sorted(), "{kind}: {order:?}");
            assert!(order.contains(&KindName::order(name.kind())));
        }
    }

    /// Where the example of a kind is.
    fn order_in(list: &str, order: &str) -> Option<usize> {
        let mut at = 0;
        let mut lines = list.split_inclusive('\n').peekable();
        while let Some(line) = lines.next() {
            let is_first = line.starts_with("    (");
            let text = if line.trim() == "(" { lines.peek().copied().unwrap_or_default() } else { line };
            let kind = text.split('"').nth(1).unwrap_or_default();
            if is_first && KindName::order(kind) == order {
                return Some(at);
            }
            at += line.len();
        }
        None
    }

    #[test]
    fn a_kind_that_exists_is_left_alone() {
        let copy = Copy::of(&LISTS, &["crates/resources/src/kinds", "crates/resources/tests/kinds"]);
        for (kind, why) in [
            ("file", "the kind `file` exists already, in crates/resources/src/kinds/file.rs"),
            (
                "http:server",
                "the kind `http:server` exists already, in crates/resources/src/kinds/http/server.rs",
            ),
            ("file:safety", "crates/resources/tests/kinds/file_safety.rs exists already"),
            ("common", "crates/resources/tests/kinds/common exists already"),
        ] {
            let Err(Failed(told)) = changes(copy.root(), kind) else { panic!("{kind}") };
            assert_eq!(told, why);
        }
        for path in LISTS {
            assert!(copy.is_as_before(path), "{path} has changed");
        }
    }
}
