//! The documents as a site that needs no server: a page for each, a list of all, and a search that runs in the browser.
//!
//! Links between documents become links between pages. One that leads nowhere is a mistake, and so is one to a heading that
//! is not there.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Component, Path, PathBuf};

use pulldown_cmark::{CowStr, Event, HeadingLevel, LinkType, Options, Parser, Tag, TagEnd, html};

use crate::step::{Failed, say, workspace};

/// The groups of the list, in its order: a title, and where its documents are.
const GROUPS: [(&str, &str); 6] = [
    ("Tutorial", "docs/tutorial"),
    ("How to", "docs/how-to"),
    ("Explanation", "docs/explanation"),
    ("Reference", "docs/reference"),
    ("Code", "docs"),
    ("Project", ""),
];

const STYLE: &str = include_str!("site/style.css");
const SCRIPT: &str = include_str!("site/search.js");

/// Writes the site below `target/site`, or only looks whether all links lead somewhere.
pub(crate) fn run(write: bool) -> Result<(), Failed> {
    let documents = documents()?;
    let site = Site::new(&documents);
    let mut wrong = Vec::new();
    let pages: Vec<(PathBuf, String)> = site
        .documents
        .iter()
        .map(|(path, document)| (page_of(path), site.page(path, document, &mut wrong)))
        .collect();
    if !wrong.is_empty() {
        return Err(Failed::new(format!("links that lead nowhere:\n  {}", wrong.join("\n  "))));
    }
    if !write {
        return Ok(());
    }
    put_all(&site, &pages, &workspace().join("target/site"))
}

/// Writes all pages of a site below a directory.
fn put_all(site: &Site<'_>, pages: &[(PathBuf, String)], root: &Path) -> Result<(), Failed> {
    let files = site.files()?;
    let failed = |path: &Path, error| Failed::new(format!("cannot write {}: {error}", path.display()));
    let put = |path: &Path, text: &str| {
        let path = root.join(path);
        let parent = path.parent().unwrap_or(root);
        std::fs::create_dir_all(parent).map_err(|error| failed(parent, error))?;
        std::fs::write(&path, text).map_err(|error| failed(&path, error))
    };
    for (path, text) in pages.iter().chain(&files) {
        put(path, text)?;
    }
    put(Path::new("style.css"), STYLE)?;
    put(Path::new("search.js"), SCRIPT)?;
    put(Path::new("index.js"), &site.index())?;
    say(&format!("the site is in {}: {} pages\n", root.display(), pages.len() + files.len()));
    Ok(())
}

/// All documents, by their path below the root of the workspace.
fn documents() -> Result<BTreeMap<PathBuf, String>, Failed> {
    let root = workspace();
    let mut found = BTreeMap::new();
    let mut take = |path: PathBuf| -> Result<(), Failed> {
        let text = std::fs::read_to_string(root.join(&path))
            .map_err(|error| Failed::new(format!("cannot read {}: {error}", path.display())))?;
        found.insert(path, text);
        Ok(())
    };
    for name in ["README.md", "CHANGELOG.md", "CONTRIBUTING.md"] {
        if root.join(name).exists() {
            take(name.into())?;
        }
    }
    let mut directories = vec![PathBuf::from("docs")];
    while let Some(directory) = directories.pop() {
        let failed = |error| Failed::new(format!("cannot read {}: {error}", directory.display()));
        for entry in std::fs::read_dir(root.join(&directory)).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let path = directory.join(entry.file_name());
            if entry.path().is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                take(path)?;
            }
        }
    }
    Ok(found)
}

/// Where the page of a document is. That of the first one is where people begin.
fn page_of(path: &Path) -> PathBuf {
    if path == Path::new("README.md") { "index.html".into() } else { path.with_extension("html") }
}

/// Where the page of a file is that is no document, or that of a directory.
fn page_of_file(path: &Path) -> PathBuf {
    if workspace().join(path).is_dir() {
        return path.join("index.html");
    }
    let mut name = path.as_os_str().to_owned();
    name.push(".html");
    name.into()
}

/// A document, as far as others need it.
struct Document<'a> {
    text: &'a str,
    title: String,
    /// The names of its headings in links, and the headings.
    headings: Vec<(String, String)>,
}

impl<'a> Document<'a> {
    fn new(path: &Path, text: &'a str) -> Document<'a> {
        let mut headings = Vec::new();
        let mut title = None;
        let mut names = BTreeSet::new();
        let mut open: Option<(HeadingLevel, String)> = None;
        for event in parser(text) {
            match event {
                Event::Start(Tag::Heading { level, .. }) => open = Some((level, String::new())),
                Event::Text(words) | Event::Code(words) => {
                    if let Some((_, heading)) = &mut open {
                        heading.push_str(&words);
                    }
                }
                Event::End(TagEnd::Heading(_)) => {
                    if let Some((level, heading)) = open.take() {
                        if level == HeadingLevel::H1 && title.is_none() {
                            title = Some(heading.clone());
                        }
                        headings.push((name(&heading, &mut names), heading));
                    }
                }
                _ => {}
            }
        }
        let file = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Document { text, title: title.unwrap_or(file), headings }
    }

    /// Its words, for the search.
    fn words(&self) -> String {
        let mut words = String::new();
        for event in parser(self.text) {
            if let Event::Text(text) | Event::Code(text) = event {
                words.push_str(&text);
                words.push(' ');
            }
        }
        words.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

fn parser(text: &str) -> Parser<'_> {
    Parser::new_ext(text, Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH)
}

/// The name of a heading in links, as the usual hosts of code make it.
fn name(heading: &str, taken: &mut BTreeSet<String>) -> String {
    let plain: String = heading
        .chars()
        .filter(|character| character.is_alphanumeric() || " -_".contains(*character))
        .map(|character| if character == ' ' { '-' } else { character })
        .flat_map(char::to_lowercase)
        .collect();
    let numbered = (0..).map(|number| if number == 0 { plain.clone() } else { format!("{plain}-{number}") });
    let free = numbered.into_iter().find(|name| !taken.contains(name)).unwrap_or(plain);
    taken.insert(free.clone());
    free
}

struct Site<'a> {
    documents: BTreeMap<&'a Path, Document<'a>>,
    /// Files and directories that documents lead to.
    linked: RefCell<BTreeSet<PathBuf>>,
}

impl<'a> Site<'a> {
    fn new(documents: &'a BTreeMap<PathBuf, String>) -> Site<'a> {
        let documents = documents.iter().map(|(path, text)| (path.as_path(), Document::new(path, text)));
        Site { documents: documents.collect(), linked: RefCell::default() }
    }

    fn page(&self, path: &Path, document: &Document<'_>, wrong: &mut Vec<String>) -> String {
        let page = page_of(path);
        let mut headings = document.headings.iter();
        let mut heading = None;
        let events = parser(document.text).map(|event| match event {
            Event::Start(Tag::Heading { level, classes, attrs, .. }) => {
                heading = headings.next();
                let id = heading.map(|(name, _)| CowStr::from(name.clone()));
                Event::Start(Tag::Heading { level, id, classes, attrs })
            }
            Event::Start(Tag::Link { link_type, dest_url, title, id }) if link_type != LinkType::Email => {
                let dest_url = self.target(path, &dest_url, wrong).into();
                Event::Start(Tag::Link { link_type, dest_url, title, id })
            }
            event => event,
        });
        let mut body = String::new();
        html::push_html(&mut body, events);
        self.frame(path, &page, &document.title, &body)
    }

    /// A page with the list of all of them beside it.
    fn frame(&self, path: &Path, page: &Path, title: &str, body: &str) -> String {
        let up = "../".repeat(page.components().count() - 1);
        let title = escaped(title);
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title} · mgmt</title>\n\
             <link rel=\"stylesheet\" href=\"{up}style.css\">\n</head>\n<body data-up=\"{up}\">\n\
             <input type=\"checkbox\" id=\"menu\"><label for=\"menu\" aria-label=\"Menu\">☰</label>\n\
             <nav>\n<a class=\"home\" href=\"{up}index.html\">mgmt</a>\n<form role=\"search\"><input id=\"search\" type=\"search\" placeholder=\"Search\" aria-label=\"Search\" autocomplete=\"off\"></form>\n\
             <ul id=\"found\" hidden></ul>\n<div id=\"list\">\n{}</div>\n</nav>\n<main>\n{body}</main>\n\
             <script src=\"{up}index.js\"></script>\n<script src=\"{up}search.js\"></script>\n</body>\n</html>\n",
            self.list(path, &up)
        )
    }

    /// The list of all pages.
    fn list(&self, here: &Path, up: &str) -> String {
        let mut list = String::new();
        for (title, place) in GROUPS {
            let of_group = self.documents.iter().filter(|(path, _)| group(path) == place);
            let mut items = String::new();
            let mut open = place != "docs/reference";
            for (path, document) in of_group {
                let current = if *path == here { " aria-current=\"page\"" } else { "" };
                open |= *path == here;
                let page = page_of(path);
                // Writing to a string cannot fail, here and below.
                let _ = writeln!(
                    items,
                    "<li><a href=\"{up}{}\"{current}>{}</a></li>",
                    page.display(),
                    escaped(&document.title)
                );
            }
            let open = if open { " open" } else { "" };
            let _ = writeln!(list, "<details{open}><summary>{title}</summary><ul>\n{items}</ul></details>");
        }
        list
    }

    /// Where a link of a document leads on the site.
    fn target(&self, from: &Path, link: &str, wrong: &mut Vec<String>) -> String {
        if link.contains("://") || link.starts_with("mailto:") {
            return link.to_owned();
        }
        let (file, heading) = link.split_once('#').unwrap_or((link, ""));
        let place = from.parent().unwrap_or(Path::new(""));
        let to = if file.is_empty() { from.to_owned() } else { plain(&place.join(file)) };
        let mut complain = || wrong.push(format!("{}: {link}", from.display()));
        let up = "../".repeat(page_of(from).components().count() - 1);
        let Some(document) = self.documents.get(to.as_path()) else {
            if !workspace().join(&to).exists() {
                complain();
            }
            let page = page_of_file(&to);
            self.linked.borrow_mut().insert(to);
            return format!("{up}{}", page.display());
        };
        if !heading.is_empty() && !document.headings.iter().any(|(name, _)| name == heading) {
            complain();
        }
        let heading = if heading.is_empty() { String::new() } else { format!("#{heading}") };
        format!("{up}{}{heading}", page_of(&to).display())
    }

    /// Pages of files and directories that documents lead to.
    fn files(&self) -> Result<Vec<(PathBuf, String)>, Failed> {
        let mut pages = BTreeMap::new();
        let mut open: Vec<PathBuf> = self.linked.borrow().iter().cloned().collect();
        while let Some(path) = open.pop() {
            let page = page_of_file(&path);
            if pages.contains_key(&page) {
                continue;
            }
            let place = workspace().join(&path);
            let failed = |error| Failed::new(format!("cannot read {}: {error}", path.display()));
            let title = path.to_string_lossy().into_owned();
            let mut body = format!("<h1><code>{}</code></h1>\n", escaped(&title));
            if place.is_dir() {
                let mut names = Vec::new();
                for entry in std::fs::read_dir(&place).map_err(failed)? {
                    names.push(PathBuf::from(entry.map_err(failed)?.file_name()));
                }
                names.sort();
                body.push_str("<ul>\n");
                for name in names {
                    // From the page of a directory, which is in it.
                    let file = page_of_file(&path.join(&name));
                    let link = file.strip_prefix(&path).unwrap_or(&file).to_owned();
                    let _ = writeln!(
                        body,
                        "<li><a href=\"{}\">{}</a></li>",
                        link.display(),
                        escaped(&name.to_string_lossy())
                    );
                    open.push(path.join(name));
                }
                body.push_str("</ul>\n");
            } else {
                let text = std::fs::read(&place).map_err(failed)?;
                let text = String::from_utf8_lossy(&text);
                let _ = writeln!(body, "<pre><code>{}</code></pre>", escaped(&text));
            }
            let whole = self.frame(&path, &page, &title, &body);
            pages.insert(page, whole);
        }
        Ok(pages.into_iter().collect())
    }

    /// What the search knows: of each page its place, title, headings and words.
    fn index(&self) -> String {
        let mut index = String::from("const PAGES = [\n");
        for (path, document) in &self.documents {
            let headings: Vec<String> = document
                .headings
                .iter()
                .map(|(name, heading)| format!("[{},{}]", quoted(name), quoted(heading)))
                .collect();
            let _ = writeln!(
                index,
                "[{},{},[{}],{}],",
                quoted(&page_of(path).to_string_lossy()),
                quoted(&document.title),
                headings.join(","),
                quoted(&document.words())
            );
        }
        index + "];\n"
    }
}

/// The place whose group a document belongs to: the longest that it is in.
fn group(path: &Path) -> &'static str {
    let places = GROUPS.iter().map(|(_, place)| *place).filter(|place| path.starts_with(place));
    places.max_by_key(|place| place.len()).unwrap_or_default()
}

/// A path without steps back.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    plain
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A text as a literal of a script that stands in a page.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '<' => quoted.push_str("\\u003c"),
            character if character.is_control() || "\u{2028}\u{2029}".contains(character) => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(character));
            }
            character => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(texts: &[(&str, &str)]) -> BTreeMap<PathBuf, String> {
        texts.iter().map(|(path, text)| (PathBuf::from(path), (*text).to_owned())).collect()
    }

    #[test]
    fn links_between_documents_become_links_between_pages() {
        let documents = given(&[
            ("README.md", "# First\n[one](docs/how-to/one.md#a-b)\n"),
            (
                "docs/how-to/one.md",
                "# One\n## A `b`\n[back](../../README.md) [here](#one) [out](https://example.org/x)\n",
            ),
        ]);
        let site = Site::new(&documents);
        let mut wrong = Vec::new();
        let page = |path: &str, wrong: &mut Vec<String>| {
            site.page(Path::new(path), &site.documents[Path::new(path)], wrong)
        };
        assert!(page("README.md", &mut wrong).contains("<a href=\"docs/how-to/one.html#a-b\">one</a>"));
        let one = page("docs/how-to/one.md", &mut wrong);
        assert!(
            one.contains("<h2 id=\"a-b\">") && one.contains("<a href=\"../../index.html\">back</a>"),
            "{one}"
        );
        assert!(one.contains("<a href=\"../../docs/how-to/one.html#one\">here</a>"), "{one}");
        assert!(one.contains("<a href=\"https://example.org/x\">out</a>"), "{one}");
        assert!(one.contains("<title>One · mgmt</title>"), "{one}");
        assert_eq!(wrong, [""; 0]);
    }

    #[test]
    fn links_that_lead_nowhere_are_found() {
        let documents =
            given(&[("README.md", "# First\n[a](docs/none.md) [b](#none) [c](Cargo.toml) [d](#first)\n")]);
        let site = Site::new(&documents);
        let mut wrong = Vec::new();
        site.page(Path::new("README.md"), &site.documents[Path::new("README.md")], &mut wrong);
        assert_eq!(wrong, ["README.md: docs/none.md", "README.md: #none"]);
    }

    #[test]
    fn no_text_can_end_the_script_of_the_index() {
        assert_eq!(quoted("a\"\\</script>\n\u{2028}"), "\"a\\\"\\\\\\u003c/script>\\u000a\\u2028\"");
    }

    #[test]
    fn headings_of_the_same_words_have_different_names() {
        let documents = given(&[("README.md", "# A\n## `x::y` (z)\n## Again\n## Again\n")]);
        let names: Vec<String> = Site::new(&documents).documents[Path::new("README.md")]
            .headings
            .iter()
            .map(|(name, _)| name.clone())
            .collect();
        assert_eq!(names, ["a", "xy-z", "again", "again-1"]);
    }

    /// The page of a site as a browser has it when all scripts have run.
    fn in_a_browser(site: &Path, address: &str) -> String {
        let own = tempdir("browser");
        let mut chromium = std::process::Command::new("chromium");
        chromium.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]);
        chromium.args(["--disable-background-networking", "--disable-component-update", "--disable-sync"]);
        chromium.arg(format!("--user-data-dir={}", own.display())).arg("--dump-dom");
        let output = chromium.arg(format!("file://{}/{address}", site.display())).output();
        let output = output.expect("chromium is missing: run `cargo xtask setup`");
        std::fs::remove_dir_all(own).unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// A new directory, which whoever asks for it removes.
    fn tempdir(what: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("mgmt-xtask-{what}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    #[test]
    fn a_browser_finds_what_is_searched_for() {
        let documents = documents().unwrap();
        let site = Site::new(&documents);
        let mut wrong = Vec::new();
        let pages: Vec<_> = site
            .documents
            .iter()
            .map(|(path, document)| (page_of(path), site.page(path, document, &mut wrong)))
            .collect();
        let root = tempdir("site");
        put_all(&site, &pages, &root).unwrap();
        let found = |address: &str| {
            let whole = in_a_browser(&root, address);
            let (_, rest) = whole.split_once("<ul id=\"found\"").unwrap_or_else(|| panic!("{whole}"));
            rest.split_once("</ul>").unwrap().0.to_owned()
        };
        // Without a question there is no answer; with one, the best page comes first, from wherever it is asked.
        assert!(found("index.html").contains("hidden"));
        let hits = found("index.html?q=run+a+cluster");
        assert!(!hits.contains("hidden"), "{hits}");
        let first = hits.split("</a>").next().unwrap();
        assert!(first.ends_with("<a href=\"docs/how-to/run-a-cluster.html\">How to run a cluster"), "{hits}");
        let hits = found("docs/reference/README.html?q=Converger+TIMEOUT");
        assert!(hits.contains("<a href=\"../../docs/reference/") && hits.contains("<small>"), "{hits}");
        assert!(found("index.html?q=xyzzyxyzzy").contains("Nothing has these words."));
        std::fs::remove_dir_all(root).unwrap();
    }
}
