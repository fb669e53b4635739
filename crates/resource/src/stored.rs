//! A resource written down: for reversal, and later for export. Versioned JSON that a person can read.

use std::sync::Arc;

use mgmt_value::{from_json, to_json, to_json_as};
use serde_json::{Map, Value as Json, json};

use crate::schema::Fields;
use crate::{Meta, Registry, Spec};

/// The version that this program writes. It reads all up to it.
const FORMAT: u64 = 1;

/// Why a stored resource cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct StoredError(String);

/// Writes a resource down: kind, name, and every parameter and metaparameter that is not at its default.
pub fn to_stored(spec: &Spec) -> Json {
    let defaults = (spec.resource.schema().make)();
    let mut params = Map::new();
    for field in spec.resource.schema().fields {
        let value = spec.resource.get(field.name);
        if value != defaults.get(field.name) {
            let json = value.map_or(Json::Null, |value| to_json_as(&value, &(field.ty)()));
            params.insert(field.name.into(), json);
        }
    }
    let mut meta = Map::new();
    for field in Meta::FIELDS {
        let value = (field.get)(&*spec.meta);
        if value != (field.get)(&Meta::default()) {
            meta.insert(field.name.into(), to_json(&value));
        }
    }
    json!({
        "format": FORMAT,
        "kind": spec.id.kind,
        "name": to_json(&mgmt_value::Value::Str(spec.id.name.clone())),
        "reversal": spec.is_reversal,
        "params": params,
        "meta": meta,
    })
}

/// Reads a resource back.
pub fn from_stored(json: &Json, registry: &Registry) -> Result<Spec, StoredError> {
    let fail = |message: String| Err(StoredError(message));
    match json.get("format").and_then(Json::as_u64) {
        Some(1..=FORMAT) => {}
        Some(newer) => {
            return fail(format!("format {newer} is newer than this program, which reads {FORMAT}"));
        }
        None => return fail("not a stored resource: there is no format number".into()),
    }
    let kind = json.get("kind").and_then(Json::as_str).unwrap_or_default();
    let Some(schema) = registry.get(kind) else { return fail(format!("unknown kind `{kind}`")) };
    let name = json.get("name").unwrap_or(&Json::Null);
    let Ok(mgmt_value::Value::Str(name)) = from_json(name, &mgmt_value::Type::Str) else {
        return fail("the name is missing".into());
    };

    let mut resource = (schema.make)();
    for (key, value) in json.get("params").and_then(Json::as_object).into_iter().flatten() {
        let Some(field) = schema.field(key) else { return fail(format!("{kind} has no parameter `{key}`")) };
        let value = from_json(value, &(field.ty)()).map_err(|e| StoredError(format!("`{key}`: {e}")))?;
        if let Some(Err(mismatch)) = resource.set(field.name, &value) {
            return fail(format!("`{key}`: {mismatch}"));
        }
    }
    let mut spec = Spec::of(name, Arc::from(resource));
    for (key, value) in json.get("meta").and_then(Json::as_object).into_iter().flatten() {
        let Some(field) = Meta::field(key) else { return fail(format!("no metaparameter `{key}`")) };
        let value = from_json(value, &(field.ty)()).map_err(|e| StoredError(format!("`{key}`: {e}")))?;
        (field.set)(&mut *spec.meta, &value).map_err(|e| StoredError(format!("`{key}`: {e}")))?;
    }
    spec.is_reversal = json.get("reversal").and_then(Json::as_bool).unwrap_or(false);
    Ok(spec)
}
