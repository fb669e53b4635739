//! `http:server:proxy` in a running engine: another server on the loopback interface, and a directory.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics is a test that fails")]

use std::fs;
use std::path::{Path, PathBuf};

use crate::http_common::{RunningEngine, get, graph, post, request, server, soon, spec};
use mgmt_resource::Spec;
use mgmt_resources::http::{HttpServer, HttpServerProxy};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// A server for a directory, that takes no part in anything else.
fn origin(root: &Path) -> (Spec, u16) {
    let (server, port) = server();
    (spec("origin", HttpServer { root: format!("{}/", root.display()).into(), ..server }), port)
}

fn proxy(head: u16, cache: &Path) -> HttpServerProxy {
    HttpServerProxy {
        server: "proxy".into(),
        sub: "/mirror/".into(),
        head: format!("http://127.0.0.1:{head}/").into(),
        cache: format!("{}/", cache.display()).into(),
        ..HttpServerProxy::default()
    }
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_been_asked_for_is_kept() {
    let mut running = RunningEngine::start();
    let (root, cache) = (running.path("root"), running.path("made/cache"));
    fs::create_dir_all(root.join("dist/deep")).unwrap();
    let content = "content".repeat(200_000);
    fs::write(root.join("dist/deep/a b.txt"), &content).unwrap();
    let then = std::time::UNIX_EPOCH + std::time::Duration::from_secs(784_111_777);
    fs::File::open(root.join("dist/deep/a b.txt")).unwrap().set_modified(then).unwrap();
    let (origin, head) = origin(&root);
    let (server, port) = server();
    let specs = |origin: &[Spec]| {
        [origin, &[spec("proxy", server.clone()), spec("/mirror/dist/", proxy(head, &cache))]].concat()
    };
    running.swap(graph(specs(&[origin]))).await;

    let asked = request(port, "HEAD", "/mirror/dist/deep/a%20b.txt", "", "").await;
    assert_eq!((asked.status, asked.header("content-length")), (200, Some("1400000")));
    assert!(files(&cache).is_empty(), "nothing was sent, and nothing is kept");
    let fetched = get(port, "/mirror/dist/deep/a%20b.txt").await;
    assert_eq!((fetched.status, fetched.text() == content), (200, true));
    assert_eq!(fetched.header("last-modified"), Some("Sun, 06 Nov 1994 08:49:37 GMT"));
    assert_eq!(fetched.header("content-type"), Some("text/plain; charset=utf-8"));
    let kept = cache.join("deep/a b.txt");
    soon("it is kept", async || fs::metadata(&kept).is_ok_and(|kept| kept.modified().unwrap() == then)).await;
    assert_eq!(fs::read_to_string(&kept).unwrap(), content);

    assert_eq!(get(port, "/mirror/dist/none").await.status, 404);
    assert_eq!(get(port, "/mirror/dist/deep/").await.status, 404);
    assert_eq!(get(port, "/mirror/other").await.status, 404);
    assert_eq!(post(port, "/mirror/dist/x", "a=b").await.status, 405);
    let outside = get(port, "/mirror/dist/..%2f..%2f..%2fetc/passwd").await;
    assert_eq!((outside.status, outside.header("location")), (301, Some("/etc/passwd")));
    assert_eq!(files(&cache), std::slice::from_ref(&kept));

    // The other server is not needed any more for what is kept.
    running.swap(graph(specs(&[]))).await;
    let again = get(port, "/mirror/dist/deep/a%20b.txt").await;
    assert_eq!((again.status, again.text() == content), (200, true));
    soon("it is gone", async || get(port, "/mirror/dist/deep/other").await.status == 500).await;
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_takes_away_is_fetched_and_kept_again() {
    let mut running = RunningEngine::start();
    let (root, cache) = (running.path("root"), running.path("cache"));
    fs::create_dir_all(&root).unwrap();
    fs::write(root.join("a"), "content").unwrap();
    let (origin, head) = origin(&root);
    let (server, port) = server();
    running.swap(graph(vec![origin, spec("proxy", server), spec("/mirror/", proxy(head, &cache))])).await;
    for lost in [None, Some(cache.join("a")), Some(cache.clone())] {
        match lost {
            Some(lost) if lost.is_dir() => fs::remove_dir_all(lost).unwrap(),
            Some(lost) => fs::remove_file(lost).unwrap(),
            None => {}
        }
        let answer = get(port, "/mirror/a").await;
        assert_eq!((answer.status, answer.text()), (200, "content"));
        soon("it is kept", async || fs::read(cache.join("a")).is_ok_and(|kept| kept == b"content")).await;
    }
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_only_in_part_is_not_kept() {
    let mut running = RunningEngine::start();
    let cache = running.path("cache");
    let broken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let head = broken.local_addr().unwrap().port();
    let (server, port) = server();
    running.swap(graph(vec![spec("proxy", server), spec("/mirror/", proxy(head, &cache))])).await;
    let answering = tokio::spawn(async move {
        let (mut stream, _) = broken.accept().await.unwrap();
        let mut asked = [0; 4096];
        let read = stream.read(&mut asked).await.unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf").await.unwrap();
        asked[..read].to_vec()
    });
    let answer = get(port, "/mirror/file").await;
    assert_eq!((answer.status, answer.header("content-length")), (200, Some("100")));
    // How much of it gets through before the end is a matter of luck.
    assert!("half".starts_with(answer.text()), "{}", answer.text());
    let asked = String::from_utf8(answering.await.unwrap()).unwrap();
    assert!(asked.starts_with("GET /file HTTP/1.1\r\n"), "{asked}");
    // Nobody answers there any more, so this comes from nowhere.
    assert_eq!(get(port, "/mirror/file").await.status, 500);
    soon("what was begun is taken away", async || files(&cache).is_empty()).await;
    running.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_cannot_be_asked_is_an_error_and_no_end() {
    let mut running = RunningEngine::start();
    let cache = running.path("cache");
    let (server, port) = server();
    let forbidden = HttpServerProxy { head: "http://169.254.169.254/".into(), ..proxy(0, &cache) };
    let only_kept = HttpServerProxy { head: "".into(), sub: "".into(), ..proxy(0, &cache) };
    running
        .swap(graph(vec![
            spec("proxy", server),
            spec("/mirror/nobody/", proxy(mgmt_test_support::address::reserved_port(), &cache)),
            spec("/mirror/forbidden/", forbidden),
            spec("/kept/", only_kept),
        ]))
        .await;
    for path in ["/mirror/nobody/x", "/mirror/forbidden/x", "/kept/x"] {
        assert_eq!(get(port, path).await.status, 500, "{path}");
    }
    fs::create_dir_all(&cache).unwrap();
    fs::write(cache.join("x"), "kept").unwrap();
    assert_eq!(get(port, "/kept/x").await.text(), "kept");
    running.stop();
}

/// A server that speaks HTTPS and answers every question with one text. Gives its port.
async fn secure_origin(directory: &Path, text: &'static str) -> u16 {
    use tokio_rustls::rustls::pki_types::pem::PemObject as _;
    use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use tokio_rustls::rustls::{ServerConfig, crypto};
    let arguments = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout key.pem -out ca.pem -days 2 \
                     -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1 -addext basicConstraints=CA:FALSE";
    let made = std::process::Command::new("openssl")
        .args(arguments.split_whitespace())
        .current_dir(directory)
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let certificate = CertificateDer::from_pem_file(directory.join("ca.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(directory.join("key.pem")).unwrap();
    let provider = std::sync::Arc::new(crypto::aws_lc_rs::default_provider());
    let builder =
        ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = builder.with_no_client_auth().with_single_cert(vec![certificate], key).unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(std::sync::Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // Whoever does not trust the certificate goes away.
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut asked = [0; 4096];
            let _ = stream.read(&mut asked).await;
            let head =
                format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", text.len());
            let _ = stream.write_all(format!("{head}{text}").as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    });
    port
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_asked_over_https_if_an_authority_vouches_for_it() {
    let mut running = RunningEngine::start();
    let (cache, place) = (running.path("cache"), running.path("origin"));
    fs::create_dir_all(&place).unwrap();
    let head = secure_origin(&place, "over TLS").await;
    let secure = |authorities: Vec<mgmt_value::Str>| HttpServerProxy {
        head: format!("https://127.0.0.1:{head}/").into(),
        authorities,
        ..proxy(head, &cache)
    };
    let (server, port) = server();
    let authority = place.join("ca.pem").display().to_string();
    running
        .swap(graph(vec![
            spec("proxy", server),
            spec("/mirror/trusted/", secure(vec![authority.as_str().into()])),
            spec("/mirror/unknown/", secure(Vec::new())),
        ]))
        .await;
    let fetched = get(port, "/mirror/trusted/x").await;
    assert_eq!((fetched.status, fetched.text()), (200, "over TLS"));
    assert_eq!(get(port, "/mirror/unknown/y").await.status, 500, "nobody vouches for it");
    running.stop();
}
