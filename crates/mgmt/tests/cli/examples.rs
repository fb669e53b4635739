//! Every example is run by the real program until it has converged.
#![allow(missing_docs, clippy::unwrap_used)]

use std::path::Path;

use mgmt_test_support::program::mgmt_output;

#[test]
fn every_example_runs_converges_and_is_right_the_second_time() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/yaml");
    let mut files: Vec<_> = std::fs::read_dir(examples).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    assert!(files.len() >= 12, "only {} examples", files.len());
    for file in files {
        // Examples work below /tmp/mgmt; tests have a directory of their own.
        let home = tempfile::tempdir().unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        let text = text.replace("/tmp/mgmt", &format!("{}/mgmt", home.path().display()));
        let graph = home.path().join(file.file_name().unwrap());
        std::fs::write(&graph, text).unwrap();
        let prefix = home.path().join("prefix");
        let arguments = [
            "run",
            "--prefix",
            prefix.to_str().unwrap(),
            "--converger-timeout=0",
            "--converged-exit",
            "--max-runtime=60",
            "yaml",
            graph.to_str().unwrap(),
        ];
        for round in ["first", "second"] {
            let said = mgmt_output(&arguments);
            assert_eq!(said.code, 0, "{round} run of {}:\n{}", file.display(), said.stderr);
        }
    }
}
