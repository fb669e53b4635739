//! Files whose source is at an address, from a server on this host.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::{Log, TestEnv, Vertex, refused};
use mgmt_resource::{Checked, Kind as _, Watch};
use mgmt_resources::file::File;
use mgmt_value::Str;
use sha2::{Digest as _, Sha256};

/// A server: what it has, and what it was asked.
struct Server {
    port: u16,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Default)]
struct Shared {
    pages: BTreeMap<String, Page>,
    /// Each with the status that it was answered with.
    asked: Vec<(String, u16)>,
    is_down: bool,
}

/// What is at one address.
#[derive(Clone, Default)]
struct Page {
    status: u16,
    headers: String,
    body: Vec<u8>,
    /// Break off after so many bytes of the body.
    torn: Option<usize>,
}

impl Page {
    fn new(body: impl AsRef<[u8]>) -> Page {
        Page { status: 200, body: body.as_ref().to_vec(), ..Page::default() }
    }

    fn named(body: &str, etag: &str) -> Page {
        Page { headers: format!("ETag: \"{etag}\"\r\n"), ..Page::new(body) }
    }

    fn status(status: u16, headers: &str) -> Page {
        Page { status, headers: headers.to_owned(), ..Page::default() }
    }
}

impl Server {
    fn start() -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::<Mutex<Shared>>::default();
        let served = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                // Whoever hangs up in the middle has its reasons.
                let _ = serve(&stream, &served);
            }
        });
        Server { port, shared }
    }

    fn put(&self, path: &str, page: Page) {
        self.shared.lock().unwrap().pages.insert(path.to_owned(), page);
    }

    fn down(&self, is_down: bool) {
        self.shared.lock().unwrap().is_down = is_down;
    }

    /// What was asked since the last call: the path, and the status of the answer.
    fn asked(&self) -> Vec<(String, u16)> {
        std::mem::take(&mut self.shared.lock().unwrap().asked)
    }

    fn at(&self, path: &str) -> Str {
        format!("http://localhost:{}{path}", self.port).into()
    }
}

fn serve(mut stream: &TcpStream, shared: &Mutex<Shared>) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next().unwrap_or_else(|| Ok(String::new()))?;
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut known = None;
    for line in lines {
        let line = line?;
        if line.is_empty() {
            break;
        }
        if let Some(tag) = line.to_ascii_lowercase().strip_prefix("if-none-match: ") {
            known = Some(tag.to_owned());
        }
    }
    let page = {
        let mut shared = shared.lock().unwrap();
        if shared.is_down {
            return Ok(());
        }
        let page = shared.pages.get(&path).cloned().unwrap_or_else(|| Page::status(404, ""));
        let page = match known {
            Some(tag) if page.headers.to_ascii_lowercase().contains(&tag) => Page::status(304, ""),
            _ => page,
        };
        shared.asked.push((path, page.status));
        page
    };
    let length = page.body.len();
    let has_length = page.headers.contains("Content-Length");
    let length = if has_length { String::new() } else { format!("Content-Length: {length}\r\n") };
    let head = format!("HTTP/1.1 {} X\r\n{}{length}Connection: close\r\n\r\n", page.status, page.headers);
    stream.write_all(head.as_bytes())?;
    stream.write_all(&page.body[..page.torn.unwrap_or(page.body.len())])
}

fn file(path: &Path, source: Str) -> File {
    File { path: path.to_str().unwrap().into(), state: "exists".into(), source, ..File::default() }
}

fn vertex<'b>(bench: &'b TestEnv, source: Str) -> Vertex<'b, File> {
    bench.vertex("f", file(&bench.path("f"), source))
}

/// What is kept of the resource `f`, and anything that was left beside it.
fn kept(bench: &TestEnv) -> Vec<String> {
    let directories = std::fs::read_dir(&bench.host.state).into_iter().flatten().flatten();
    let entries = directories.flat_map(|directory| std::fs::read_dir(directory.path()).unwrap());
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn sum(content: &str) -> Str {
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect::<String>().into()
}

#[tokio::test]
async fn what_has_not_changed_is_not_sent_again_and_what_is_broken_is_repaired_from_the_copy() {
    let (server, mut bench) = (Server::start(), TestEnv::new());
    server.put("/a", Page::named("one", "1"));
    let source = server.at("/a");
    let path = bench.path("f");
    {
        let mut vertex = vertex(&bench, source.clone());
        assert_eq!(vertex.apply().await.checked(), Checked::Changed);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one");
        assert_eq!(server.asked(), [("/a".to_owned(), 200)]);
        // It has the mode of any new file, and not that of the copy, which is nobody else's.
        let mode = std::os::unix::fs::PermissionsExt::mode(&path.metadata().unwrap().permissions());
        assert_ne!(mode & 0o777, 0o600);
        // Whoever breaks it is undone without a question, also while nobody would answer.
        server.down(true);
        std::fs::write(&path, "broken").unwrap();
        assert_eq!(vertex.apply().await.checked(), Checked::Changed);
        assert_eq!(vertex.apply().await.checked(), Checked::Right);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one");
        server.down(false);
        assert_eq!(server.asked(), []);
    }
    // The next process asks, and is told that nothing has changed.
    bench.restart();
    {
        let mut vertex = vertex(&bench, source.clone());
        assert_eq!(vertex.apply().await.checked(), Checked::Right);
        assert_eq!(server.asked(), [("/a".to_owned(), 304)]);
    }
    // One that finds nobody goes on with what is here, and says so.
    server.down(true);
    let log = Log::capture();
    let mut vertex = vertex(&bench, source);
    std::fs::write(&path, "broken").unwrap();
    assert_eq!(vertex.apply().await.checked(), Checked::Changed);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "one");
    let said = log.take().join("\n");
    assert!(said.contains("cannot fetch") && said.contains("what was fetched before stays"), "{said}");
}

#[tokio::test]
async fn the_server_is_asked_again_and_another_content_is_taken() {
    let (server, bench) = (Server::start(), TestEnv::new());
    server.put("/a", Page::named("one", "1"));
    let mut vertex = vertex(&bench, server.at("/a"));
    vertex.resource.refetch = 1;
    assert_eq!(vertex.resource.watches(&"f".into()).last(), Some(&Watch::Interval(Duration::from_secs(1))));
    assert_eq!(vertex.apply().await.checked(), Checked::Changed);
    server.put("/a", Page::named("two", "2"));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(vertex.apply().await.checked(), Checked::Changed);
    assert_eq!(std::fs::read_to_string(bench.path("f")).unwrap(), "two");
    // A server that does not name what it has sends it each time, and that is no change.
    server.put("/a", Page::new("two"));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(vertex.apply().await.checked(), Checked::Right);
    assert_eq!(server.asked().iter().map(|(_, status)| *status).collect::<Vec<_>>(), [200, 200, 200]);
}

#[tokio::test]
async fn whatever_goes_wrong_leaves_the_file_as_it_is_and_nothing_beside_it() {
    let (server, bench) = (Server::start(), TestEnv::new());
    let path = bench.path("f");
    std::fs::write(&path, "present").unwrap();
    let wrong = sum("something else");
    let torn = Page { torn: Some(3), ..Page::new("whole") };
    let large = Page::status(200, &format!("Content-Length: {}\r\n", 1_u64 << 40));
    let lying = Page { headers: format!("X-Checksum-Sha256: {}\r\n", wrong.display()), ..Page::new("x") };
    for (name, page, checksum, expected) in [
        ("/missing", Page::status(404, ""), "".into(), vec!["is not there (status 404)"]),
        ("/broken", Page::status(500, ""), "".into(), vec!["answers with status 500"]),
        ("/torn", torn, "".into(), vec!["cannot fetch all of"]),
        ("/large", large, "".into(), vec!["larger than", "the most that is fetched"]),
        ("/packed", Page::status(200, "Content-Encoding: gzip\r\n"), "".into(), vec!["encoded as `gzip`"]),
        ("/lying", lying, "".into(), vec!["the server itself says"]),
        ("/other", Page::new("x"), wrong.clone(), vec!["its checksum is 2d711642", "expected"]),
        ("/away", Page::status(302, ""), "".into(), vec!["does not say where"]),
        ("/round", Page::status(302, "Location: round\r\n"), "".into(), vec!["goes on sending us elsewhere"]),
        ("/ftp", Page::status(302, "Location: ftp://h/x\r\n"), "".into(), vec!["`ftp` is no way to fetch"]),
    ] {
        server.put(name, page);
        let mut vertex = vertex(&bench, server.at(name));
        vertex.resource.checksum = checksum;
        let error = vertex.apply().await.error();
        for part in expected {
            assert!(error.contains(part), "{name}: {error}");
        }
        if name == "/other" {
            assert!(error.contains(&*wrong.to_text()), "{error}");
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "present", "{name}");
        assert_eq!(kept(&bench), [""; 0], "{name}");
    }
    server.down(true);
    let error = vertex(&bench, server.at("/a")).apply().await.error();
    assert!(error.contains("cannot fetch http://localhost:"), "{error}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "present");
}

#[tokio::test]
async fn what_has_the_right_sum_is_not_fetched() {
    let (server, bench) = (Server::start(), TestEnv::new());
    server.put("/a", Page::named("right", "1"));
    let path = bench.path("f");
    std::fs::write(&path, "right").unwrap();
    let mut vertex = vertex(&bench, server.at("/a"));
    vertex.resource.checksum = sum("right");
    assert_eq!(vertex.resource.watches(&"f".into()).len(), 1, "it cannot become anything else");
    assert_eq!(vertex.apply().await.checked(), Checked::Right);
    assert_eq!(server.asked(), []);
    // What is broken is fetched once, and from then on it is here.
    for _ in 0..2 {
        std::fs::write(&path, "wrong").unwrap();
        assert_eq!(vertex.apply().await.checked(), Checked::Changed);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "right");
    }
    assert_eq!(server.asked(), [("/a".to_owned(), 200)]);
    assert_eq!(kept(&bench), ["source", "source.json"]);
    // Another sum is another content.
    server.put("/a", Page::named("other", "2"));
    vertex.resource.checksum = sum("other");
    assert_eq!(vertex.apply().await.checked(), Checked::Changed);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "other");
}

#[tokio::test]
async fn one_goes_where_one_is_sent_and_to_the_next_who_has_it() {
    let (server, bench) = (Server::start(), TestEnv::new());
    server.put("/one/a", Page::status(302, "Location: b?c=d\r\n"));
    let on = format!("Location: {}\r\n", server.at("/e").display());
    server.put("/one/b?c=d", Page::status(301, &on));
    server.put("/e", Page::status(307, "Location: /f\r\n"));
    server.put("/f", Page::named("there", "1"));
    let mut vertex = vertex(&bench, server.at("/none"));
    vertex.resource.mirrors = vec![server.at("/one/a"), server.at("/never")];
    assert_eq!(vertex.apply().await.checked(), Checked::Changed);
    assert_eq!(std::fs::read_to_string(bench.path("f")).unwrap(), "there");
    let paths: Vec<String> = server.asked().into_iter().map(|(path, _)| path).collect();
    assert_eq!(paths, ["/none", "/one/a", "/one/b?c=d", "/e", "/f"]);
    // Who cannot answer now may have it: nobody else is asked instead.
    server.put("/none", Page::status(503, ""));
    vertex.resource.mirrors = vec![server.at("/f")];
    vertex.resource.source = server.at("/none");
    std::fs::remove_dir_all(&bench.host.state).unwrap();
    let error = vertex.apply().await.error();
    assert!(error.contains("status 503"), "{error}");
}

#[tokio::test]
async fn who_only_looks_keeps_nothing() {
    let (server, bench) = (Server::start(), TestEnv::new());
    server.put("/a", Page::named(&"long ".repeat(100_000), "1"));
    let path = bench.path("f");
    let mut vertex = vertex(&bench, server.at("/a"));
    for (content, expected) in [
        (None, Checked::Changed),
        (Some("long ".repeat(99_999)), Checked::Changed),
        (Some("long ".repeat(100_001)), Checked::Changed),
        (Some("long ".repeat(50_000) + "x"), Checked::Changed),
        (Some("long ".repeat(100_000)), Checked::Right),
    ] {
        if let Some(content) = &content {
            std::fs::write(&path, content).unwrap();
        }
        let looked = vertex.look().await;
        assert_eq!(looked.effects.len(), usize::from(expected == Checked::Changed));
        assert_eq!(looked.checked(), expected, "{}", content.as_ref().map_or(0, String::len));
        assert_eq!(kept(&bench), [""; 0]);
        assert_eq!(path.exists(), content.is_some());
    }
}

#[tokio::test]
async fn what_is_only_made_and_is_there_is_not_asked_for() {
    let (server, bench) = (Server::start(), TestEnv::new());
    server.put("/a", Page::new("new"));
    let mut vertex = vertex(&bench, server.at("/a"));
    vertex.resource.createonly = true;
    std::fs::write(bench.path("f"), "old").unwrap();
    assert_eq!(vertex.apply().await.checked(), Checked::Right);
    assert_eq!(server.asked(), []);
    std::fs::remove_file(bench.path("f")).unwrap();
    assert_eq!(vertex.apply().await.checked(), Checked::Changed);
    assert_eq!(std::fs::read_to_string(bench.path("f")).unwrap(), "new");
}

#[test]
fn what_cannot_be_is_refused() {
    let at = |source: &str| file(Path::new("/f"), source.into());
    for (wrong, expected) in [
        (at("http://"), "`source`"),
        (at("https:///x"), "`source`"),
        (at("http://me:secret@h/x"), "`source`: an address with a name and a password"),
        (File { mirrors: vec!["/x".into()], ..at("http://h/x") }, "`mirrors`"),
        (File { checksum: "abc".into(), ..at("http://h/x") }, "`checksum`: expected a sum in hexadecimal"),
        (File { checksum: "x".repeat(64).into(), ..at("http://h/x") }, "`checksum`"),
        (File { checksum: sum("x"), ..at("/x") }, "`checksum`: is for a `source` that is an address"),
        (File { authorities: vec!["ca.pem".into()], ..at("https://h/x") }, "`authorities`"),
        (File { refetch: 0, ..at("https://h/x") }, "`refetch`"),
        (File { path: "/d/".into(), recurse: true, ..at("https://h/x") }, "`source`: a directory"),
    ] {
        let said = refused(&wrong);
        assert!(said.contains(expected), "{said}");
        assert!(!said.contains("secret"), "{said}");
    }
}
