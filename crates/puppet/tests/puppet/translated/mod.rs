//! Manifests that the real Puppet compiles, and what comes of them.
#![allow(dead_code, reason = "each test program uses its own part")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests are tests")]

use std::sync::LazyLock;

use mgmt_puppet::{Outcome, TranslateOptions, Translated, translate};
use mgmt_puppet_process::{Input, Puppet, PuppetError, Settings};
use mgmt_resource::Spec;
use mgmt_resources::KINDS;
use mgmt_value::Value;
use tokio::runtime::Runtime;

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());
static PUPPET: LazyLock<Puppet> = LazyLock::new(|| Puppet::new(Settings::default()));

/// What comes of an input.
pub(crate) fn translated_with(input: &Input, options: &TranslateOptions) -> Translated {
    let compiled = RUNTIME.block_on(PUPPET.compile_warm(input));
    translate(&compiled.unwrap_or_else(|error| panic!("{input:?}\n{error}")), &KINDS, options)
}

/// What comes of a manifest that is right.
pub(crate) fn translated(code: &str) -> Translated {
    // What becomes of labels depends on the host: here they count.
    let options = TranslateOptions { selinux: "/".into(), ..TranslateOptions::default() };
    let translated = translated_with(&Input::Code(code.to_owned()), &options);
    assert!(translated.graph.is_some(), "{code}\n{:#?}", translated.diagnostics);
    translated
}

/// A resource of the graph by its name.
pub(crate) fn spec<'t>(translated: &'t Translated, name: &str) -> &'t Spec {
    let graph = translated.graph.as_ref().unwrap();
    let found = graph.nodes().find(|(_, spec)| spec.id.to_string() == name);
    found
        .unwrap_or_else(|| {
            panic!("{name} is not in {:?}", graph.nodes().map(|(_, s)| &s.id).collect::<Vec<_>>())
        })
        .1
}

/// The only resource of a manifest that is more than an end of a container, with the fields that are not as usual.
pub(crate) fn one(code: &str) -> String {
    let translated = translated(code);
    let graph = translated.graph.as_ref().unwrap();
    let mut specs = graph.nodes().map(|(_, spec)| spec).filter(|spec| spec.id.kind != "noop");
    let found = specs.next().unwrap_or_else(|| panic!("{code}"));
    assert!(specs.next().is_none(), "{code}");
    shown(found)
}

/// A resource with the fields that are not as usual.
pub(crate) fn shown(spec: &Spec) -> String {
    let usual = (spec.resource.schema().make)();
    let mut text = spec.id.to_string();
    for field in spec.resource.schema().fields {
        let value = spec.resource.get(field.name).unwrap();
        if Some(&value) != usual.get(field.name).as_ref() {
            text.push_str(&format!(" {}={}", field.name, plain(&value)));
        }
    }
    text
}

/// A value without quotes around it.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::Str(text) => text.display().to_string(),
        other => other.to_string(),
    }
}

/// Why a resource is left to Puppet.
pub(crate) fn left(code: &str) -> String {
    let translated = translated(code);
    let reasons = translated.decisions.iter().find_map(|decision| match &decision.outcome {
        Outcome::Puppet(reasons) => {
            Some(reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
        }
        _ => None,
    });
    reasons.unwrap_or_else(|| panic!("{code}: {:?}", translated.decisions))
}

/// Why there is no graph: Puppet's own types refuse the catalogue, or it is not translated.
pub(crate) fn refused(code: &str) -> String {
    let compiled = match RUNTIME.block_on(PUPPET.compile_warm(&Input::Code(code.to_owned()))) {
        Ok(compiled) => compiled,
        Err(PuppetError::Refused(refused)) => return format!("P0001 {}", refused.errors[0].message),
        Err(error) => panic!("{code}\n{error}"),
    };
    let translated = translate(&compiled, &KINDS, &TranslateOptions::default());
    assert!(translated.graph.is_none(), "{code}");
    let wrong = translated.diagnostics.iter().find(|found| found.is_error());
    let wrong = wrong.unwrap_or_else(|| panic!("{code}"));
    format!("{} {}", wrong.code.unwrap(), wrong.message)
}

/// Everything that Puppet refuses about a manifest, with the line that it is about.
pub(crate) fn errors(code: &str) -> Vec<(Option<u32>, String)> {
    match RUNTIME.block_on(PUPPET.compile_warm(&Input::Code(code.to_owned()))) {
        Err(PuppetError::Refused(refused)) => {
            refused.errors.into_iter().map(|error| (error.line, error.message)).collect()
        }
        other => panic!("{code}\n{other:?}"),
    }
}
