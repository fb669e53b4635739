//! A Puppet server for tests: it speaks HTTPS to those who have a certificate, and the real Puppet compiles.
#![allow(dead_code, reason = "each test program uses its own part of this")]

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use mgmt_puppet_process::{Input, Puppet, PuppetError, Settings};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig, crypto};

/// A server. It ends with this.
pub(crate) struct Server {
    pub(crate) port: u16,
    is_up: Arc<AtomicBool>,
    site: Arc<Site>,
    _runtime: Runtime,
}

struct Site {
    /// Where environments are.
    environments: PathBuf,
    puppet: Puppet,
    /// What the next questions for a catalogue are answered with: a status, and when to ask again.
    refusals: Mutex<Vec<(u16, Option<u32>)>>,
    /// How many files were fetched.
    downloads: AtomicUsize,
}

impl Server {
    /// Serves the environments below a directory. Whoever asks for `production` is sent to `special`.
    pub(crate) fn start(place: &Path, certificates: &Path) -> Server {
        let runtime = Runtime::new().unwrap();
        let provider = Arc::new(crypto::aws_lc_rs::default_provider());
        let read = |name: &str| -> Vec<CertificateDer<'static>> {
            CertificateDer::pem_file_iter(certificates.join(name)).unwrap().collect::<Result<_, _>>().unwrap()
        };
        let mut roots = RootCertStore::empty();
        read("ca.pem").into_iter().for_each(|authority| roots.add(authority).unwrap());
        let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(clients.build().unwrap())
            .with_single_cert(
                read("server.pem"),
                PrivateKeyDer::from_pem_file(certificates.join("server.key")).unwrap(),
            )
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let port = listener.local_addr().unwrap().port();
        let site = Arc::new(Site {
            environments: place.to_owned(),
            puppet: Puppet::new(Settings::default()),
            refusals: Mutex::default(),
            downloads: AtomicUsize::default(),
        });
        let served = Arc::clone(&site);
        let is_up = Arc::new(AtomicBool::new(true));
        let up = Arc::clone(&is_up);
        runtime.spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { return };
                if !up.load(Ordering::SeqCst) {
                    continue;
                }
                let (acceptor, site) = (acceptor.clone(), Arc::clone(&served));
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let answer = hyper::service::service_fn(move |request| {
                        let site = Arc::clone(&site);
                        async move { Ok::<_, std::convert::Infallible>(site.answer(request).await) }
                    });
                    let connection = hyper::server::conn::http1::Builder::new();
                    let _ = connection.serve_connection(TokioIo::new(stream), answer).await;
                });
            }
        });
        Server { port, is_up, site, _runtime: runtime }
    }

    /// Answers the next questions for a catalogue with these statuses.
    pub(crate) fn refuse(&self, refusals: &[(u16, Option<u32>)]) {
        *self.site.refusals.lock().unwrap() = refusals.iter().rev().copied().collect();
    }

    /// How many files were fetched.
    pub(crate) fn downloads(&self) -> usize {
        self.site.downloads.load(Ordering::SeqCst)
    }

    /// Takes no more questions, or takes them again.
    pub(crate) fn up(&self, is_up: bool) {
        self.is_up.store(is_up, Ordering::SeqCst);
    }
}

impl Site {
    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let path = decoded(request.uri().path());
        let query = request.uri().query().unwrap_or_default().to_owned();
        let Some((kind, rest)) = path.strip_prefix("/puppet/v3/").and_then(|path| path.split_once('/'))
        else {
            return told(404, &json!({ "message": "no such address" }));
        };
        let refused = (kind == "catalog").then(|| self.refusals.lock().unwrap().pop()).flatten();
        if let Some((status, later)) = refused {
            let body = Full::new(Bytes::from(r#"{"message": "not now"}"#));
            let answer = Response::builder().status(status);
            let answer = later.iter().fold(answer, |answer, later| answer.header("Retry-After", *later));
            return answer.body(body).unwrap();
        }
        match kind {
            "catalog" => {
                let form = request.into_body().collect().await.unwrap().to_bytes();
                self.catalogue(rest, &String::from_utf8_lossy(&form)).await
            }
            // Only a site that says so tells where its hosts belong.
            "node" if self.environments.join("node.json").exists() => {
                let node = std::fs::read_to_string(self.environments.join("node.json")).unwrap();
                told(200, &serde_json::from_str(&node).unwrap())
            }
            "file_metadata" => self.metadata(rest, &query),
            "file_metadatas" => self.plugins(rest, &query),
            "file_content" => match self.file(rest, &query).and_then(|file| std::fs::read(file).ok()) {
                Some(content) => {
                    self.downloads.fetch_add(1, Ordering::SeqCst);
                    Response::new(Full::new(Bytes::from(content)))
                }
                None => told(404, &json!({ "message": "no such file" })),
            },
            _ => told(404, &json!({ "message": "not found", "issue_kind": "RESOURCE_NOT_FOUND" })),
        }
    }

    async fn catalogue(&self, name: &str, form: &str) -> Response<Full<Bytes>> {
        let environment = field(form, "environment");
        // Once for the form, and once more.
        let facts: Value = serde_json::from_str(&decoded(&field(form, "facts"))).unwrap();
        assert_eq!(facts["name"], name);
        self.puppet.use_facts(&facts["values"]).await.unwrap();
        let directory = self.environments.join(&environment);
        match self.puppet.compile_warm(&Input::Environment(directory)).await {
            Ok(mut compiled) => {
                compiled.catalogue["name"] = json!(name);
                compiled.catalogue["environment"] = json!("special");
                told(200, &compiled.catalogue)
            }
            Err(PuppetError::Refused(refused)) => {
                let message = format!("Server Error: {}", refused.errors[0].message);
                told(500, &json!({ "message": message, "issue_kind": "RUNTIME_ERROR" }))
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// A file of a module, or of the library of any.
    fn file(&self, path: &str, query: &str) -> Option<PathBuf> {
        let modules = self.environments.join(field(query, "environment")).join("modules");
        for (prefix, directory) in [("plugins/", "lib"), ("pluginfacts/", "facts.d")] {
            if let Some(inside) = path.strip_prefix(prefix) {
                let modules = std::fs::read_dir(modules).ok()?;
                return modules
                    .map(|found| found.unwrap().path().join(directory).join(inside))
                    .find(|path| path.is_file());
            }
        }
        let (module, inside) = path.strip_prefix("modules/")?.split_once('/')?;
        Some(modules.join(module).join("files").join(inside)).filter(|path| path.exists())
    }

    fn metadata(&self, path: &str, query: &str) -> Response<Full<Bytes>> {
        match self.file(path, query) {
            Some(file) => {
                let kind = if file.is_dir() { "directory" } else { "file" };
                let sum = json!({ "type": "sha256", "value": checksum(&file) });
                told(
                    200,
                    &json!({ "path": file, "type": kind, "relative_path": null, "mode": 0o644, "checksum": sum }),
                )
            }
            None => told(404, &json!({ "message": "Not Found: Could not find file_metadata" })),
        }
    }

    /// Everything below the libraries of modules, or below a directory of files.
    fn plugins(&self, path: &str, query: &str) -> Response<Full<Bytes>> {
        let modules = self.environments.join(field(query, "environment")).join("modules");
        let below = |directory: &str| {
            let modules = std::fs::read_dir(&modules).into_iter().flatten();
            modules.map(|found| found.unwrap().path().join(directory)).collect()
        };
        let roots: Vec<PathBuf> = match path {
            "plugins" => below("lib"),
            "pluginfacts" => below("facts.d"),
            _ => self.file(path, query).into_iter().collect(),
        };
        let mut list = vec![json!({ "relative_path": ".", "type": "directory" })];
        for root in roots {
            let mut left = vec![root.clone()];
            while let Some(directory) = left.pop() {
                for entry in std::fs::read_dir(directory).into_iter().flatten() {
                    let path = entry.unwrap().path();
                    let kind = if path.is_dir() { "directory" } else { "file" };
                    let (inside, sum) = (path.strip_prefix(&root).unwrap(), checksum(&path));
                    let sum = json!({ "type": "sha256", "value": sum });
                    let mode = path.metadata().unwrap().permissions().mode() & 0o7777;
                    list.push(
                        json!({ "relative_path": inside, "type": kind, "checksum": sum, "mode": mode }),
                    );
                    if path.is_dir() {
                        left.push(path);
                    }
                }
            }
        }
        told(200, &json!(list))
    }
}

/// What a server tells of the content of a file.
fn checksum(file: &Path) -> Option<String> {
    let output = Command::new("sha256sum").arg("--zero").arg(file).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.split_whitespace().next().map(|sum| format!("{{sha256}}{sum}"))
}

fn told(status: u16, document: &Value) -> Response<Full<Bytes>> {
    Response::builder().status(status).body(Full::new(Bytes::from(document.to_string()))).unwrap()
}

fn field(form: &str, name: &str) -> String {
    let found = form.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
    decoded(found.unwrap_or_default())
}

fn decoded(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, more @ ..] = rest {
        match (first, more) {
            (b'%', [high, low, more @ ..]) => {
                let digits = String::from_utf8(vec![*high, *low]).unwrap();
                bytes.push(u8::from_str_radix(&digits, 16).unwrap());
                rest = more;
            }
            (byte, more) => {
                bytes.push(*byte);
                rest = more;
            }
        }
    }
    String::from_utf8(bytes).unwrap()
}

/// An authority, with a certificate for `localhost` and one for a client.
pub(crate) fn make_certificates(place: &Path, client: &str) {
    std::fs::create_dir_all(place).unwrap();
    let openssl = |arguments: &[&str]| {
        let output = Command::new("openssl").args(arguments).current_dir(place).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    let key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc"];
    openssl(
        &[
            &["req", "-x509", "-days", "2", "-subj", "/CN=Puppet CA", "-keyout", "ca.key", "-out", "ca.pem"],
            &key[..],
        ]
        .concat(),
    );
    for (name, host) in [("server", "localhost"), ("client", client)] {
        let (subject, names) = (format!("/CN={host}"), format!("subjectAltName=DNS:{host}\n"));
        std::fs::write(place.join("names"), names).unwrap();
        let (request, certificate, private) =
            (format!("{name}.csr"), format!("{name}.pem"), format!("{name}.key"));
        openssl(&[&["req", "-subj", &subject, "-keyout", &private, "-out", &request], &key[..]].concat());
        openssl(&[
            "x509",
            "-req",
            "-days",
            "2",
            "-CA",
            "ca.pem",
            "-CAkey",
            "ca.key",
            "-CAcreateserial",
            "-extfile",
            "names",
            "-in",
            &request,
            "-out",
            &certificate,
        ]);
    }
}

/// Writes a list of the certificates that do not count any more, `crl.pem`.
pub(crate) fn revoke(place: &Path, names: &[&str]) {
    let settings = "[ca]\ndefault_ca = it\n[it]\ndatabase = index\ncrlnumber = number\ndefault_md = sha256\n\
                    default_crl_days = 2\ncertificate = ca.pem\nprivate_key = ca.key\n";
    std::fs::write(place.join("ca.conf"), settings).unwrap();
    std::fs::write(place.join("index"), "").unwrap();
    std::fs::write(place.join("number"), "01\n").unwrap();
    let openssl = |arguments: &[&str]| {
        let arguments = [&["ca", "-config", "ca.conf"], arguments].concat();
        let output = Command::new("openssl").args(&arguments).current_dir(place).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    for name in names {
        openssl(&["-revoke", name]);
    }
    openssl(&["-gencrl", "-out", "crl.pem"]);
}
