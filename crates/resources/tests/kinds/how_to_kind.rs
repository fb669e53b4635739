//! The kind that the page "How to add a resource kind" shows is one.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics is a test that fails")]

#[allow(unreachable_pub, reason = "in its crate, it is reachable")]
mod empty;

use crate::common::{TestEnv, refused};
use empty::Empty;
use mgmt_resource::Checked;

#[tokio::test]
async fn the_kind_of_the_page_keeps_a_file_empty() {
    let bench = TestEnv::new();
    let path = bench.path("file");
    std::fs::write(&path, "something").unwrap();
    let mut vertex = bench.vertex(path.to_str().unwrap(), Empty::default());
    assert_eq!(vertex.look().await.checked(), Checked::Changed);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "something", "looking has changed something");
    assert_eq!(vertex.apply().await.checked(), Checked::Changed);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "");
    assert_eq!(vertex.apply().await.checked(), Checked::Right);
    assert!(refused(&Empty { path: "here".into() }).contains("absolute path"));
}

#[test]
fn the_page_shows_it_word_for_word() {
    let page = include_str!("../../../../docs/how-to/add-a-kind.md");
    let shown = page.split("   ```rust\n").nth(1).and_then(|rest| rest.split("   ```\n").next()).unwrap();
    let shown: String =
        shown.lines().map(|line| format!("{}\n", line.strip_prefix("   ").unwrap_or(line))).collect();
    assert_eq!(shown, include_str!("how_to_kind/empty.rs"));
}
