//! Programs of one expression, and a host for them.
#![allow(dead_code, reason = "each test file uses its own part of this")]

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mgmt_funcs::{Export, Failure, FileKind, Function, Host, Response, library};
use mgmt_lang::module::{Disk, Entry};
use mgmt_lang::{Environment, Outcome, Running, WatchChange};
use mgmt_state::LocalState;
use mgmt_value::{Str, Type, Value};

/// A host that has something of everything. Its clock goes faster than any other.
struct Everything {
    local: LocalState,
    uptime: AtomicU64,
    asked: Mutex<Vec<&'static str>>,
    _directory: tempfile::TempDir,
}

impl Everything {
    fn new() -> Everything {
        let directory = tempfile::tempdir().unwrap();
        let local = LocalState::open(directory.path().join("state")).unwrap();
        let (uptime, asked) = (AtomicU64::default(), Mutex::default());
        Everything { local, uptime, asked, _directory: directory }
    }
}

impl Host for Everything {
    fn hostname(&self) -> Str {
        "host1".into()
    }

    fn uptime(&self) -> Duration {
        Duration::from_secs(self.uptime.fetch_add(10, Ordering::SeqCst))
    }

    fn deploy_read(&self, _: &Path) -> io::Result<Vec<u8>> {
        Ok(b"hello\n".to_vec())
    }

    fn deploy_kind(&self, path: &Path) -> io::Result<Option<FileKind>> {
        Ok(Some(if path.ends_with("files") { FileKind::Directory } else { FileKind::File }))
    }

    fn deploy_list(&self, _: &Path) -> io::Result<Vec<Str>> {
        Ok(vec!["motd".into()])
    }

    fn local(&self) -> Result<&LocalState, Failure> {
        Ok(&self.local)
    }

    fn command_line(&self, command: &Str) -> Result<Option<Str>, Failure> {
        Ok(Some(if *command == "echo hello" { "hello".into() } else { "0.5".into() }))
    }

    fn http_response(&self, _: &Str) -> Option<Response> {
        Some(Response { status: 200, body: None })
    }

    fn world_string(&self, _: &Str) -> Result<Option<Str>, Failure> {
        Ok(Some("hello".into()))
    }

    fn world_strings(&self, _: &Str) -> Result<BTreeMap<Str, Str>, Failure> {
        Ok(BTreeMap::from([("host1".into(), "hello".into())]))
    }

    fn world_schedule(&self, _: &Str) -> Result<Vec<Str>, Failure> {
        Ok(vec!["host1".into(), "host2".into()])
    }

    fn world_exports(&self, _: &Str) -> Result<Vec<Export>, Failure> {
        let data = r#"{"format":1,"kind":"file","name":"/etc/motd","params":{},"meta":{}}"#;
        Ok(vec![Export { name: "/etc/motd".into(), host: "host1".into(), data: data.into() }])
    }

    fn provisioner_option(&self, name: &str) -> Option<Value> {
        let module = library().module("embedded/provisioner")?;
        let named = |function: &&&Function| {
            let plain = function.name.trim_start_matches("cli_").replace('_', "-");
            plain == name || (name == "dversion" && plain == "version")
        };
        let function = module.functions.iter().find(named)?;
        Some(match function.forms()[0].result {
            Type::Bool => Value::Bool(true),
            Type::Str => Value::str("text"),
            _ => Value::list(Type::Str, vec![Value::str("text")]),
        })
    }

    fn is_first(&self, name: &'static str) -> bool {
        let mut asked = self.asked.lock().unwrap();
        let is_first = !asked.contains(&name);
        asked.push(name);
        is_first
    }
}

/// The messages that a program declares, or what is wrong with it.
pub(crate) fn messages(program: &str) -> Result<Vec<String>, String> {
    let environment = Environment {
        kinds: &mgmt_resources::KINDS,
        library: library(),
        files: &Disk,
        module_path: None,
        lints: false,
    };
    let checked = mgmt_lang::check(&Entry::Code(program.to_owned()), &environment)
        .map_err(|error| error.to_string())?;
    if !checked.is_right() {
        let wrong: Vec<_> = checked.diagnostics.iter().map(|found| found.message.clone()).collect();
        return Err(format!("it is not right: {}", wrong.join("; ")));
    }
    let mut running = Running::new(Arc::new(checked), mgmt_resources::KINDS, Arc::new(Everything::new()));
    // What is not there at once comes with the first events.
    for _ in 0..3 {
        match running.settle() {
            Outcome::Graph(graph) => {
                let message = |spec: &mgmt_resource::Spec| match spec.resource.get("msg") {
                    Some(Value::Str(text)) => Some(text.display().to_string()),
                    _ => None,
                };
                return Ok(graph.nodes().filter_map(|(_, spec)| message(spec)).collect());
            }
            Outcome::Wrong(wrong) => {
                let wrong: Vec<_> = wrong.iter().map(|found| found.message.clone()).collect();
                return Err(wrong.join("; "));
            }
            _ => {}
        }
        for change in running.watch_changes() {
            if let WatchChange::Begin(watch) = change {
                running.happened(&watch);
            }
        }
    }
    Err("there is no value".to_owned())
}
