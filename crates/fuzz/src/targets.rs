//! Everything that reads what others wrote.

use std::sync::Arc;

use mgmt_funcs::{Body, Host, Memory, library, printf_verbs};
use mgmt_lang::module::{Entry, ImportName, Lock, Metadata};
use mgmt_value::{Type, Value, from_json, to_json};

/// Something that reads.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name of its directory in the corpus, and on the command line.
    pub name: &'static str,
    /// Takes anything. A panic is a defect.
    pub run: fn(&[u8]),
}

/// All of them.
pub const TARGETS: &[Target] = &[
    Target { name: "mcl", run: mcl },
    Target { name: "yaml", run: yaml },
    Target { name: "metadata", run: metadata },
    Target { name: "imports", run: imports },
    Target { name: "templates", run: templates },
    Target { name: "printf", run: printf },
    Target { name: "modes", run: modes },
    Target { name: "paths", run: paths },
    Target { name: "types", run: types },
    Target { name: "values", run: values },
    Target { name: "deploys", run: deploys },
    Target { name: "keys", run: keys },
    Target { name: "catalogues", run: catalogues },
    Target { name: "deploy-files", run: deploy_files },
    Target { name: "statements", run: statements },
    Target { name: "sockets", run: sockets },
    Target { name: "links", run: links },
    Target { name: "stored", run: stored },
    Target { name: "records", run: records },
    Target { name: "journals", run: journals },
    Target { name: "puppet", run: puppet },
];

/// Text, with bytes that are none made readable: for what takes only text.
fn text(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

fn mcl(bytes: &[u8]) {
    let Ok(text) = mgmt_syntax::decode(bytes) else { return };
    let parsed = mgmt_syntax::parse(text);
    assert_eq!(parsed.syntax().to_string(), text, "the tree has every byte of the text");
    if let Ok(formatted) = mgmt_syntax::format(text) {
        assert_eq!(
            mgmt_syntax::format(&formatted).as_ref(),
            Ok(&formatted),
            "formatting again changes nothing"
        );
    }
    // What is right is also computed, if it is short: what it asks for is bounded, and a short text asks for little.
    let files = mgmt_lang::module::Memory::from([("/main.mcl", text)]);
    let environment = mgmt_lang::Environment {
        kinds: &mgmt_resources::KINDS,
        library: library(),
        files: &files,
        module_path: None,
        lints: true,
    };
    let Ok(checked) = mgmt_lang::check(&Entry::File("/main.mcl".into()), &environment) else { return };
    if checked.is_right() && text.len() < LONGEST_EVALUATED {
        let host = mgmt_lang::Onlooker::new(&files, checked.deploy.clone(), "host".into());
        let _ = mgmt_lang::evaluate(&checked, &mgmt_resources::KINDS, &host);
    }
}

/// A program of many nested loops is bounded, and takes long all the same.
const LONGEST_EVALUATED: usize = 2 << 10;

fn yaml(bytes: &[u8]) {
    let parsed = mgmt_yaml::parse(bytes, "fuzz.yaml", &mgmt_resources::KINDS);
    let errors = parsed.diagnostics.iter().any(mgmt_diagnostics::Diagnostic::is_error);
    assert_eq!(parsed.graph.is_none(), errors, "a graph, or a reason why there is none");
}

fn metadata(bytes: &[u8]) {
    let _ = Metadata::parse(&text(bytes));
    let _ = Lock::parse(bytes);
}

fn imports(bytes: &[u8]) {
    let _ = ImportName::parse(&text(bytes));
    let _ = Entry::parse(&text(bytes));
}

struct Nothing;

impl Host for Nothing {}

/// Calls a function of the language.
fn call(module: &str, name: &str, arguments: &[Value]) {
    let Some(function) = library().function(module, name) else {
        return assert!(module.is_empty(), "{module}.{name}");
    };
    let _ = match function.body {
        Body::Pure(body) => body(arguments),
        Body::Host(body) => body(&mut Memory::new(Type::Str), &Nothing, arguments),
        _ => return,
    };
}

fn templates(bytes: &[u8]) {
    let items = Value::list(Type::Int, vec![Value::Int(1), Value::Int(2)]);
    let dot = Value::structure([("name", Value::str("x")), ("items", items)]);
    call("golang", "template", &[Value::str(bytes), dot]);
}

fn printf(bytes: &[u8]) {
    let _ = printf_verbs(bytes);
    let rest = [Value::str("a"), Value::Int(-7), Value::Float(1.5), Value::Bool(true)];
    call("fmt", "printf", &[&[Value::str(bytes)], &rest[..]].concat());
}

fn modes(bytes: &[u8]) {
    let text = text(bytes);
    let _ = mgmt_sys::mode::Mode::parse(&text);
    let _ = mgmt_sys::mode::Mode::parse_changes(&text);
}

fn paths(bytes: &[u8]) {
    if let Ok(path) = mgmt_sys::path::ManagedPath::new(bytes) {
        assert!(path.as_bytes().starts_with(b"/") && !path.as_bytes().contains(&0));
        assert!(path.components().all(|part| !part.is_empty() && part != b"." && part != b".."));
        assert!(!path.to_string().contains(char::is_control), "a path is shown in one line");
    }
}

fn types(bytes: &[u8]) {
    if let Some(ty) = Type::parse(&text(bytes)) {
        assert_eq!(Type::parse(&ty.to_string()), Some(ty), "the text of a type is that type");
    }
}

/// The first line is a type, and the rest is what is stored as such.
fn values(bytes: &[u8]) {
    let mut parts = bytes.splitn(2, |byte| *byte == b'\n');
    let (first, rest) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let Some(ty) = Type::parse(&text(first)) else { return };
    let Ok(json) = serde_json::from_slice(rest) else { return };
    if let Ok(value) = from_json(&json, &ty) {
        // By text, because a NaN does not equal itself.
        let again = from_json(&to_json(&value), &ty).map(|value| value.to_string());
        assert_eq!(again.ok(), Some(value.to_string()), "what is stored is what was read");
    }
}

fn deploys(bytes: &[u8]) {
    if let Ok(deploy) = serde_json::from_slice::<mgmt_store::Deploy>(bytes) {
        let stored = serde_json::to_vec(&deploy).unwrap_or_default();
        let again = serde_json::from_slice::<mgmt_store::Deploy>(&stored);
        assert_eq!(again.ok(), Some(deploy), "what is stored is what was read");
    }
}

fn keys(bytes: &[u8]) {
    let _ = mgmt_signing::PublicKey::read_all(&text(bytes));
    let _ = mgmt_signing::SigningKey::read(&text(bytes));
}

fn catalogues(bytes: &[u8]) {
    let Ok(json) = serde_json::from_slice::<serde_json::Value>(bytes) else { return };
    let Ok(catalogue) = mgmt_puppet::Catalogue::new(&json, &Arc::from("code")) else { return };
    let _ = mgmt_puppet::relate(&catalogue, &[]);
    let _ = mgmt_puppet::secrets(&json);
    let answer = serde_json::json!({ "catalogue": json });
    let Ok(compiled) = serde_json::from_value::<mgmt_puppet_process::Compiled>(answer) else { return };
    let _ =
        mgmt_puppet::translate(&compiled, &mgmt_resources::KINDS, &mgmt_puppet::TranslateOptions::default());
}

/// Runs what never waits: its input is all there.
fn at_once<T>(work: impl Future<Output = T>) -> Option<T> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(work).poll(&mut context) {
        std::task::Poll::Ready(done) => Some(done),
        std::task::Poll::Pending => None,
    }
}

/// A list of files and a chunk.
fn deploy_files(bytes: &[u8]) {
    for (path, _) in mgmt_store::fuzz_targets::files(bytes).iter().flat_map(mgmt_store::Tree::iter) {
        let is_inside = |part: &str| !matches!(part, "" | "." | "..");
        assert!(path.split('/').all(is_inside) && !path.contains('\0'), "{path:?} leads elsewhere");
    }
}

fn statements(bytes: &[u8]) {
    let _ = mgmt_signing::fuzz_targets::statement(&text(bytes));
}

/// What is said over a socket: lengths are made right, as a text has none.
fn sockets(bytes: &[u8]) {
    let framed = bytes.split(|byte| *byte == b'\n').flat_map(|line| {
        let length = u32::try_from(line.len()).unwrap_or(u32::MAX).to_be_bytes();
        length.into_iter().chain(line.iter().copied())
    });
    let framed: Vec<u8> = framed.collect();
    assert!(at_once(mgmt_store::fuzz_targets::conversation(&framed)).is_some(), "all of it is there");
    assert!(at_once(mgmt_store::fuzz_targets::conversation(bytes)).is_some(), "all of it is there");
}

/// What goes between a host and the same program elsewhere.
fn links(bytes: &[u8]) {
    assert!(at_once(mgmt_remote::read_hostile(bytes)).is_some(), "all of it is there");
}

fn stored(bytes: &[u8]) {
    let Ok(json) = serde_json::from_slice(bytes) else { return };
    if let Ok(spec) = mgmt_resource::from_stored(&json, &mgmt_resources::KINDS) {
        let again = mgmt_resource::from_stored(&mgmt_resource::to_stored(&spec), &mgmt_resources::KINDS);
        assert_eq!(again.ok().map(|spec| spec.id), Some(spec.id), "what is stored is what was read");
    }
}

fn records(bytes: &[u8]) {
    for line in bytes.split(|byte| *byte == b'\n') {
        if let Ok(record) = serde_json::from_slice::<mgmt_history::Record>(line) {
            let stored = serde_json::to_vec(&record).unwrap_or_default();
            assert!(
                serde_json::from_slice::<mgmt_history::Record>(&stored).is_ok(),
                "what is stored can be read"
            );
        }
    }
}

fn journals(bytes: &[u8]) {
    let _ = mgmt_engine::read_hostile_journal(bytes);
}

fn puppet(bytes: &[u8]) {
    let _ = mgmt_puppet_process::hear_hostile(bytes);
}
