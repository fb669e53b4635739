//! What other programs around Puppet are known to get wrong.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

use std::time::Duration;

use mgmt_puppet_process::{Apply, Input, Puppet, Settings};
use serde_json::json;

const PATIENCE: Duration = Duration::from_secs(300);

fn apply(kind: &str, title: &str, parameters: serde_json::Value) -> Apply {
    Apply {
        kind: kind.to_owned(),
        title: title.to_owned(),
        parameters,
        sensitive: Vec::new(),
        refresh: false,
        context: Vec::new(),
    }
}

#[tokio::test]
async fn defects_16_30_and_31_quotes_colours_and_the_state_file() {
    let place = tempfile::tempdir().unwrap();
    let option = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let vardir = place.path().join("var");
    let options = vec![
        option("vardir", vardir.to_str().unwrap()),
        option("log_level", "debug"),
        option("color", "ansi"),
    ];
    let puppet = Puppet::new(Settings { options, ..Settings::default() });
    // 16: a quote in a title or a parameter is a quote.
    let path = place.path().join("it's \"$(touch x)\" `y`");
    let content = "'; touch /nowhere; echo '\\\" \n";
    let resource = apply("file", path.to_str().unwrap(), json!({ "content": content }));
    let applied = puppet.apply(&[resource], false, PATIENCE).await.unwrap();
    assert!(applied[0].changed && !applied[0].failed, "{applied:?}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
    // 30: whatever Puppet is told to log, and in which colours, an answer is an answer.
    let code = Input::Code("warning('careful')\nnotify { 'x': }".to_owned());
    let compiled = puppet.compile_warm(&code).await.unwrap();
    assert!(compiled.messages.iter().any(|message| message.message == "careful"), "{:?}", compiled.messages);
    assert!(compiled.messages.iter().all(|message| !message.message.contains('\u{1b}')));
    // 31: nothing is written down for each resource that was ever seen.
    let many: Vec<Apply> = (0..200).map(|number| apply("notify", &format!("n{number}"), json!({}))).collect();
    for some in many.chunks(50) {
        puppet.apply(some, false, PATIENCE).await.unwrap();
    }
    let state = vardir.join("state/state.yaml");
    assert!(!state.exists(), "{}", state.display());
}
