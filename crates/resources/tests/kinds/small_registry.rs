//! What must hold for every kind in the list, whoever wrote it.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics is a test that fails")]

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use mgmt_resource::{FieldSpec, Fields, Resource, Schema, Spec, from_stored, to_stored};
use mgmt_resources::KINDS;
use mgmt_value::{Native, Str, Type, Value};

fn fields(schema: &Schema) -> impl Iterator<Item = &'static FieldSpec> {
    schema.fields.iter().chain(schema.sends)
}

#[test]
fn the_names_of_kinds_are_unique_and_well_formed() {
    let mut seen = HashSet::new();
    for schema in KINDS.schemas() {
        assert!(seen.insert(schema.kind), "{} is there twice", schema.kind);
        assert!(schema.kind.bytes().all(|byte| byte.is_ascii_lowercase() || b"_:0123456789".contains(&byte)));
        assert_eq!(KINDS.get(schema.kind).unwrap().kind, schema.kind);
        assert_eq!((schema.make)().schema().kind, schema.kind);
        assert!(schema.file.ends_with(".rs"));
    }
}

#[test]
fn the_small_kinds_have_the_traits_they_should_have() {
    let traits = |kind: &str| {
        let traits = KINDS.get(kind).unwrap_or_else(|| panic!("{kind} is not in the list")).traits;
        let named = [
            ("edges", traits.edges),
            ("group", traits.group),
            ("batch", traits.batch),
            ("refresh", traits.refresh),
            ("send", traits.send),
            ("receive", traits.receive),
            ("reverse", traits.reverse),
            ("query", traits.query),
            ("blocking", traits.blocking),
        ];
        named.into_iter().filter(|(_, has)| *has).map(|(name, _)| name).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(traits("noop"), "group refresh");
    assert_eq!(traits("print"), "group batch refresh receive");
    assert_eq!(traits("msg"), "refresh");
    assert_eq!(traits("test"), "group refresh send receive");
    assert_eq!(traits("value"), "send receive blocking");
    assert_eq!(traits("timer"), "refresh");
    assert_eq!(traits("exit"), "");
    assert_eq!(traits("_panic"), "");
}

#[test]
fn every_kind_and_field_is_documented() {
    for schema in KINDS.schemas() {
        let kind = schema.kind;
        assert!(schema.doc.len() > 20, "{kind} has no doc worth reading");
        for field in fields(schema) {
            assert!(field.doc.len() > 2, "{kind}.{} has no doc", field.name);
            let first = field.doc.chars().next().unwrap();
            assert!(!first.is_lowercase(), "{kind}.{}: a doc is a sentence", field.name);
            assert!(field.doc.ends_with(['.', ')', '`', '"']), "{kind}.{}: a doc ends in a stop", field.name);
        }
    }
}

#[test]
fn the_names_of_fields_are_unique_together_with_their_aliases() {
    for schema in KINDS.schemas() {
        for list in [schema.fields, schema.sends] {
            let mut seen = HashSet::new();
            for name in
                list.iter().flat_map(|field| [field.name].into_iter().chain(field.aliases.iter().copied()))
            {
                assert!(seen.insert(name.to_ascii_lowercase()), "{}.{name} is there twice", schema.kind);
            }
        }
    }
}

#[test]
fn values_are_sent_exactly_by_those_that_say_so() {
    for schema in KINDS.schemas() {
        assert_eq!(schema.traits.send, !schema.sends.is_empty(), "{}", schema.kind);
    }
}

#[test]
fn defaults_can_be_read_and_set_again() {
    for schema in KINDS.schemas() {
        let mut resource = (schema.make)();
        for field in schema.fields {
            let value = resource.get(field.name).unwrap();
            // This one shows more than can be set, on purpose.
            let shows_more = (schema.kind, field.name) == ("test", "mixedstruct");
            assert!(
                shows_more
                    || value.ty() == (field.ty)()
                    || (field.ty)() == Type::Variant
                    || value == Value::Nil,
                "{}.{} is {value}, which is not {}",
                schema.kind,
                field.name,
                (field.ty)()
            );
            assert!(value != Value::Nil || field.optional || (field.ty)() == Type::Nil);
            // A field without a type in the language cannot be set at all.
            if (field.ty)() != Type::Nil {
                resource.set(field.name, &value).unwrap().unwrap();
                assert_eq!(resource.get(field.name).unwrap(), value, "{}.{}", schema.kind, field.name);
            }
        }
        assert!(resource.same_as(&Str::EMPTY, &*(schema.make)()), "{}", schema.kind);
    }
}

#[test]
fn a_value_of_the_wrong_type_is_refused_and_changes_nothing() {
    for schema in KINDS.schemas() {
        let mut resource = (schema.make)();
        for field in schema.fields.iter().filter(|field| (field.ty)() != Type::Variant) {
            let wrong = Value::structure([("no_such_field", Value::Bool(true))]);
            let before = resource.get(field.name);
            assert!(resource.set(field.name, &wrong).unwrap().is_err(), "{}.{}", schema.kind, field.name);
            assert_eq!(resource.get(field.name), before);
        }
        assert!(resource.set("no such field", &Value::Bool(true)).is_none());
        assert!(resource.get("no such field").is_none());
    }
}

/// A value of this type that would be noticed wherever it comes out.
fn canary(ty: &Type) -> Value {
    let mut values = vec![Value::Str("canary".into())];
    if *ty == BTreeMap::<Str, Str>::ty() {
        let words: BTreeMap<Str, Str> = [("CANARY_NAME".into(), "canary".into())].into();
        values.push(words.to_value());
    }
    values.into_iter().find(|value| value.ty() == *ty).unwrap_or_else(|| panic!("no canary of type {ty}"))
}

#[test]
fn nothing_of_a_secret_field_is_in_the_debug_form_of_a_resource() {
    let mut kinds = Vec::new();
    for schema in KINDS.schemas() {
        let mut resource = (schema.make)();
        for field in schema.fields.iter().filter(|field| field.secret) {
            resource.set(field.name, &canary(&(field.ty)())).unwrap().unwrap();
            kinds.push(schema.kind);
        }
        for told in
            [format!("{resource:?}"), format!("{resource:#?}"), format!("{:?}", resource.boxed_clone())]
        {
            assert!(!told.to_lowercase().contains("canary"), "{}: {told}", schema.kind);
        }
    }
    for kind in ["exec", "pippet", "user"] {
        assert!(kinds.contains(&kind), "{kind} has no secret: {kinds:?}");
    }
    let mut sent = mgmt_resources::password::Secrets::default();
    for field in mgmt_resources::password::Secrets::FIELDS {
        assert!(field.secret, "{field:?}");
        (field.set)(&mut sent, &canary(&(field.ty)())).unwrap();
    }
    let told = format!("{sent:?}");
    assert!(told.contains("(secret)") && !told.contains("canary"), "{told}");
}

fn stored(resource: Arc<dyn Resource>) -> Spec {
    let spec = Spec::of(Str::new(b"a name/\xff"), resource);
    let json = to_stored(&spec);
    let back = from_stored(&json, &KINDS).unwrap_or_else(|error| panic!("{json}: {error}"));
    assert!(spec.same_as(&back), "{json}");
    back
}

#[test]
fn a_stored_resource_comes_back_as_it_was() {
    for schema in KINDS.schemas() {
        stored(Arc::from((schema.make)()));
        for field in schema.fields {
            for value in samples(&(field.ty)()) {
                let mut resource = (schema.make)();
                // A field may take fewer values than its type has.
                if !matches!(resource.set(field.name, &value), Some(Ok(())))
                    || resource.get(field.name) != Some(value)
                {
                    continue;
                }
                if resource.same_as(&Str::from("a"), &*resource) {
                    let back = stored(Arc::from(resource.boxed_clone()));
                    assert_eq!(back.resource.get(field.name), resource.get(field.name));
                }
            }
        }
    }
}

/// A few values of a type that differ from most defaults.
fn samples(ty: &Type) -> Vec<Value> {
    match ty {
        Type::Bool => vec![Value::Bool(true), Value::Bool(false)],
        Type::Str => vec![Value::str("some text"), Value::str(b"\xff"), Value::str("")],
        Type::Int => vec![Value::Int(7), Value::Int(0), Value::Int(-1), Value::Int(i64::MAX)],
        Type::Float => vec![Value::Float(0.5), Value::Float(f64::INFINITY)],
        Type::List(element) => {
            vec![Value::list((**element).clone(), vec![]), Value::list((**element).clone(), samples(element))]
        }
        Type::Map(types) => {
            let entries = samples(&types.0).into_iter().zip(samples(&types.1).into_iter().cycle());
            vec![Value::map(types.0.clone(), types.1.clone(), entries)]
        }
        Type::Struct(fields) => {
            let first = |ty: &Type| samples(ty).into_iter().next().unwrap_or(Value::Nil);
            vec![Value::structure(fields.iter().map(|(name, ty)| (name.clone(), first(ty))))]
        }
        Type::Variant => {
            vec![Value::Int(7), Value::str("text"), Value::list(Type::Bool, vec![Value::Bool(true)])]
        }
        _ => vec![Value::Nil],
    }
}

#[test]
fn a_misspelt_kind_is_suggested_and_a_hidden_one_is_not() {
    assert_eq!(KINDS.suggest("prnit"), Some("print"));
    assert_eq!(KINDS.suggest("_panik"), None);
}
