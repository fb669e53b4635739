//! Insertion into lists of a source file, by their text.
//!
//! Each function gives the new text, or says what it did not find; then the list has moved, and this module has to follow.

/// Adds an item to a list `const NAME: … = &[ … ];`: before the first item whose key is greater, else at the end.
///
/// Items are as far from the margin as the first one. `key` gives the key of an item by its text, or nothing if it has none.
pub(super) fn insert_item(
    text: &str,
    list: &str,
    item: &str,
    comes_before: impl Fn(&str) -> bool,
) -> Result<String, String> {
    let missing = || format!("there is no list `const {list}`");
    let start = text.find(&format!("const {list}: ")).ok_or_else(missing)?;
    let open = text[start..].find("= &[\n").map(|at| start + at + "= &[\n".len()).ok_or_else(missing)?;
    let end = text[open..].find("\n];").map(|at| open + at + 1).ok_or_else(missing)?;
    let starts = item_starts(&text[open..end]);
    let ends = starts.iter().skip(1).copied().chain([end - open]);
    let items = starts.iter().copied().zip(ends);
    let next = items.map(|(from, to)| (open + from, &text[open + from..open + to]));
    let at = next.into_iter().find(|(_, item)| comes_before(item)).map_or(end, |(at, _)| at);
    Ok(format!("{}{item}\n{}", &text[..at], &text[at..]))
}

/// Where the items of a list begin: lines one level below the list that do not close what another line has opened.
fn item_starts(items: &str) -> Vec<usize> {
    let mut at = 0;
    let mut starts = Vec::new();
    for line in items.split_inclusive('\n') {
        let content = line.trim_start_matches(' ');
        if line.len() - content.len() == 4 && !content.starts_with([')', ']', '}']) {
            starts.push(at);
        }
        at += line.len();
    }
    starts
}

/// Adds a line to the lines that begin with `prefix`, behind the last that is less.
pub(super) fn insert_line(text: &str, prefix: &str, line: &str) -> Result<String, String> {
    if text.lines().any(|present| present == line) {
        return Err(format!("has the line `{line}` already"));
    }
    let mut at = None;
    let mut position = 0;
    for present in text.split_inclusive('\n') {
        if present.starts_with(prefix) {
            let is_less = present.trim_end() < line;
            // Before all others if all are greater.
            if is_less || at.is_none() {
                at = Some(if is_less { position + present.len() } else { position });
            }
        }
        position += present.len();
    }
    let at = at.ok_or_else(|| format!("there is no line `{prefix}…`"))?;
    Ok(format!("{}{line}\n{}", &text[..at], &text[at..]))
}

/// Adds a block to blocks with blank lines between them: before the first block whose first line is greater by `comes_before`,
/// else at the end. Comments have no order.
pub(super) fn insert_block(text: &str, block: &str, comes_before: impl Fn(&str) -> bool) -> String {
    let mut at = 0;
    for present in text.split_inclusive("\n\n") {
        if !present.starts_with('#') && comes_before(present) {
            return format!("{}{block}\n{}", &text[..at], &text[at..]);
        }
        at += present.len();
    }
    format!("{}\n\n{block}", text.trim_end())
}

/// Adds an item to the list that the function `name` gives at its end: `    ]` before its closing brace.
pub(super) fn append_to_result(text: &str, name: &str, item: &str) -> Result<String, String> {
    let start =
        text.find(&format!("\nfn {name}(")).ok_or_else(|| format!("there is no function `{name}`"))?;
    let body_end = text[start..].find("\n}\n").map(|at| start + at);
    let end = body_end.filter(|end| text[..*end].ends_with("\n    ]"));
    let end = end.ok_or_else(|| format!("the function `{name}` does not end in a list"))? - "    ]".len();
    Ok(format!("{}{item}\n{}", &text[..end], &text[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "const OTHER: &[u8] = &[\n    9,\n];\n\npub const ALL: &[Item] = &[\n    (\"b\", 1),\n    (\n        \"d\",\n        2,\n    ),\n];\n";

    fn key(item: &str) -> &str {
        item.split('"').nth(1).unwrap_or_default()
    }

    #[test]
    fn an_item_goes_to_its_place_or_to_the_end() {
        for (new, expected) in [
            ("a", "&[\n    (\"a\", 0),\n    (\"b\", 1),\n"),
            ("c", "    (\"b\", 1),\n    (\"c\", 0),\n    (\n        \"d\",\n"),
            ("e", "        2,\n    ),\n    (\"e\", 0),\n];\n"),
        ] {
            let item = format!("    (\"{new}\", 0),");
            let found = insert_item(LIST, "ALL", &item, |present| key(present) > new).unwrap();
            assert!(found.contains(expected) && found.contains("&[\n    9,\n];"), "{found}");
        }
        assert_eq!(insert_item(LIST, "NONE", "", |_| false).unwrap_err(), "there is no list `const NONE`");
    }

    #[test]
    fn a_line_goes_to_the_lines_that_begin_like_it() {
        let text = "//! doc\n\nmod b;\nmod d;\n\nuse x;\n";
        assert_eq!(
            insert_line(text, "mod ", "mod a;").unwrap(),
            "//! doc\n\nmod a;\nmod b;\nmod d;\n\nuse x;\n"
        );
        assert_eq!(
            insert_line(text, "mod ", "mod c;").unwrap(),
            "//! doc\n\nmod b;\nmod c;\nmod d;\n\nuse x;\n"
        );
        assert_eq!(
            insert_line(text, "mod ", "mod e;").unwrap(),
            "//! doc\n\nmod b;\nmod d;\nmod e;\n\nuse x;\n"
        );
        assert_eq!(insert_line(text, "mod ", "mod d;").unwrap_err(), "has the line `mod d;` already");
        assert!(insert_line("", "mod ", "mod d;").unwrap_err().contains("no line `mod …`"));
    }

    #[test]
    fn a_block_goes_to_its_place_or_to_the_end() {
        let text = "# z\n\nb: 1\nb: 2\n\nd: 1\n";
        let insert = |name: &str| insert_block(text, &format!("{name}: 0\n"), |block| &block[..1] > name);
        assert_eq!(insert("a"), "# z\n\na: 0\n\nb: 1\nb: 2\n\nd: 1\n");
        assert_eq!(insert("c"), "# z\n\nb: 1\nb: 2\n\nc: 0\n\nd: 1\n");
        assert_eq!(insert("e"), "# z\n\nb: 1\nb: 2\n\nd: 1\n\ne: 0\n");
    }

    #[test]
    fn an_item_goes_to_the_end_of_what_a_function_gives() {
        let text = "\nfn one() -> Vec<u8> {\n    vec![\n        1,\n    ]\n}\n\nfn two() {\n    0\n}\n";
        let found = append_to_result(text, "one", "        2,").unwrap();
        assert!(found.contains("vec![\n        1,\n        2,\n    ]\n}\n\nfn two"), "{found}");
        assert!(append_to_result(text, "two", "").unwrap_err().contains("does not end in a list"));
        assert!(append_to_result(text, "three", "").unwrap_err().contains("no function `three`"));
    }
}
