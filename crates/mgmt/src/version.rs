//! Which program this is, and where it comes from.

use std::sync::LazyLock;

/// The version alone.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The version with commit, date and target, one per line.
pub(crate) fn long() -> &'static str {
    static LONG: LazyLock<String> = LazyLock::new(|| {
        text(env!("MGMT_BUILD_COMMIT"), env!("MGMT_BUILD_EPOCH"), env!("MGMT_BUILD_TARGET"))
    });
    &LONG
}

fn text(commit: &str, epoch: &str, target: &str) -> String {
    let mut text = format!("{VERSION}\n");
    let mut line = |name: &str, value: &str| text.push_str(&format!("{name} {value}\n"));
    match commit {
        "" => line("commit", "unknown"),
        commit => line("commit", commit),
    }
    let date = epoch.parse().ok().filter(|seconds| *seconds > 0).map(jiff::Timestamp::from_second);
    match date {
        Some(Ok(date)) => line("date", &date.strftime("%Y-%m-%d").to_string()),
        _ => line("date", "unknown"),
    }
    line("target", target);
    text.truncate(text.trim_end().len());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_the_program_comes_from_is_told_as_far_as_it_is_known() {
        let known = text("0123abc", "1763251200", "x86_64-unknown-linux-musl");
        let lines: Vec<&str> = known.lines().collect();
        assert_eq!(lines, [VERSION, "commit 0123abc", "date 2025-11-16", "target x86_64-unknown-linux-musl"]);
        let unknown = text("", "0", "x");
        assert_eq!(
            unknown.lines().collect::<Vec<_>>(),
            [VERSION, "commit unknown", "date unknown", "target x"]
        );
    }
}
