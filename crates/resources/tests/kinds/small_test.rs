//! The kind `test`.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics is a test that fails")]

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::common::{Log, Run, TestEnv, refused};
use mgmt_resource::{Checked, Kind, Resource, schema_of};
use mgmt_resources::noop::Noop;
use mgmt_resources::test::{Func1, MixedStruct, Mixture, Test};
use mgmt_value::{Function, Native, Str, Type, Value};

#[test]
fn there_are_thirty_nine_parameters_with_the_documented_types() {
    let found: Vec<String> =
        schema_of::<Test>().fields.iter().map(|field| format!("{} {}", field.name, (field.ty)())).collect();
    let expected = [
        "bool bool",
        "str str",
        "int int",
        "int8 int",
        "int16 int",
        "int32 int",
        "int64 int",
        "uint int",
        "uint8 int",
        "uint16 int",
        "uint32 int",
        "uint64 int",
        "byte int",
        "rune int",
        "float32 float",
        "float64 float",
        "complex64 nil",
        "complex128 nil",
        "boolptr bool",
        "stringptr str",
        "int64ptr int",
        "int8ptr int",
        "uint8ptr int",
        "int8ptrptrptr int",
        "slicestring []str",
        "mapintfloat map{int: float}",
        "mixedstruct struct{somebool bool; somestr str; someint int; somefloat float}",
        "interface variant",
        "func1 func(0 int) str",
        "anotherstr str",
        "validatebool bool",
        "validateerror str",
        "alwaysgroup bool",
        "comparefail bool",
        "sendvalue str",
        "expectrecv []str",
        "onlyshow []str",
        "waitforerror int",
        "comment str",
    ];
    assert_eq!(found, expected);
    assert_eq!(expected.len(), 39);
}

#[test]
fn parameters_are_found_by_their_other_names() {
    let schema = schema_of::<Test>();
    for (alias, name) in [
        ("bool_ptr", "boolptr"),
        ("string_ptr", "stringptr"),
        ("validate_bool", "validatebool"),
        ("validate_error", "validateerror"),
        ("always_group", "alwaysgroup"),
        ("compare_fail", "comparefail"),
        ("send_value", "sendvalue"),
        ("expect_recv", "expectrecv"),
        ("only_show", "onlyshow"),
    ] {
        assert_eq!(schema.field(alias).unwrap().name, name);
    }
}

#[test]
fn optional_parameters_say_so() {
    let optional: Vec<_> =
        schema_of::<Test>().fields.iter().filter(|field| field.optional).map(|field| field.name).collect();
    let expected = [
        "boolptr",
        "stringptr",
        "int64ptr",
        "int8ptr",
        "uint8ptr",
        "int8ptrptrptr",
        "interface",
        "func1",
        "sendvalue",
        "expectrecv",
    ];
    assert_eq!(optional, expected);
}

#[test]
fn numbers_are_checked_against_their_width() {
    let mut test = Test::default();
    for (field, number, message) in [
        ("int8", 128, "int `128` does not fit a `int8` field: it will overflow it"),
        ("int32", 1 << 40, "int `1099511627776` does not fit a `int32` field: it will overflow it"),
        ("uint64", -1, "can't store negative int `-1` into unsigned `uint64` field"),
        ("byte", 256, "int `256` does not fit a `uint8` field: it will overflow it"),
        ("int8ptrptrptr", -129, "int `-129` does not fit a `int8` field: it will overflow it"),
    ] {
        let error = test.set(field, &Value::Int(number)).unwrap().unwrap_err();
        assert_eq!(error.to_string(), message);
    }
    assert_eq!(test, Test::default());
    assert!(test.set("complex64", &Value::Float(1.0)).unwrap().is_err());
    assert!(test.set("no_such", &Value::Int(1)).is_none());
    test.set("INT8PtrPtrPtr", &Value::Int(7)).unwrap().unwrap();
    assert_eq!(test.int8ptrptrptr, Some(Some(Some(7))));
}

#[test]
fn validation_fails_when_asked_to() {
    assert!(Kind::validate(&Test::default(), &Str::EMPTY).is_ok());
    assert!(refused(&Test { validatebool: true, ..Test::default() }).contains("validatebool"));
    assert!(refused(&Test { validateerror: "my words".into(), ..Test::default() }).contains("my words"));
    assert!(refused(&Test { waitforerror: -1, ..Test::default() }).contains("waitforerror"));
}

#[tokio::test]
async fn a_run_is_right_and_sends_hello_and_the_answer() {
    let bench = TestEnv::new();
    let mut vertex = bench.vertex("a", Test::default());
    for run in [Run::APPLY, Run::LOOK, Run::REFRESH] {
        let outcome = vertex.run(run).await;
        assert_eq!(outcome.sent("hello"), Value::Nil);
        assert_eq!(outcome.sent("answer"), Value::Int(42));
        assert_eq!(outcome.checked(), Checked::Right);
    }
    vertex.resource.sendvalue = Some("world".into());
    assert_eq!(vertex.apply().await.sent("hello"), Value::str("world"));
    let sends: Vec<_> = schema_of::<Test>().sends.iter().map(|field| (field.name, field.optional)).collect();
    assert_eq!(sends, [("hello", true), ("answer", false)]);
}

#[tokio::test]
async fn each_parameter_is_logged_with_its_own_value() {
    let bench = TestEnv::new();
    let log = Log::capture();
    let test = Test {
        int: 1,
        uint: 10,
        uint8: 11,
        uint16: 12,
        uint32: 13,
        uint64: 14,
        float64: 2.5,
        stringptr: Some("pointed".into()),
        slicestring: vec!["x".into()],
        mapintfloat: BTreeMap::from([(1, 0.5)]),
        mixedstruct: MixedStruct(Mixture { somestr: "inner".into(), ..Mixture::default() }),
        interface: Some(Value::list(Type::Bool, vec![Value::Bool(true)])),
        ..Test::default()
    };
    let mut vertex = bench.vertex("a", test);
    vertex.apply().await.checked();
    let lines = log.take();
    assert_eq!(lines.len(), 39);
    for line in [
        "int: 1",
        "uint: 10",
        "uint8: 11",
        "uint16: 12",
        "uint32: 13",
        "uint64: 14",
        "float64: 2.5",
        r#"stringptr: "pointed""#,
        "boolptr: nil",
        r#"slicestring: ["x"]"#,
        "mapintfloat: {1: 0.5}",
        r#"mixedstruct: struct{somebool: false; somestr: "inner"; someint: 0; somefloat: 0; somePrivatefield: ""}"#,
        "interface: [true]",
    ] {
        assert!(lines.iter().any(|found| found == line), "{line} is not in {lines:#?}");
    }
    vertex.resource.onlyshow = vec!["uint8".into(), "string_ptr".into(), "unknown".into()];
    let run = Run { refresh: true, received: &[("str", true), ("int", false)], ..Run::APPLY };
    vertex.run(run).await.checked();
    assert_eq!(
        log.take(),
        [
            "received `str`, which has changed",
            "received `int`, which has not changed",
            "notified",
            "uint8: 11",
            r#"stringptr: "pointed""#,
        ]
    );
}

#[tokio::test]
async fn a_run_fails_unless_the_expected_number_of_parameters_is_received() {
    let bench = TestEnv::new();
    let mut vertex = bench.vertex("a", Test { expectrecv: Some(vec!["str".into()]), ..Test::default() });
    let outcome = vertex.apply().await;
    assert!(outcome.sent.is_none());
    assert_eq!(outcome.error(), r#"expected to receive 1 parameters ["str"], found 0 []"#);
    let one = Run { received: &[("str", true)], ..Run::APPLY };
    assert_eq!(vertex.run(one).await.checked(), Checked::Right);
    vertex.resource.expectrecv = Some(Vec::new());
    assert!(vertex.run(one).await.result.is_err());
    vertex.resource.expectrecv = None;
    assert!(vertex.run(one).await.result.is_ok());
}

#[tokio::test]
async fn a_run_waits_and_then_fails_when_asked_to() {
    let bench = TestEnv::new();
    let mut vertex = bench.vertex("a", Test { waitforerror: 1, ..Test::default() });
    assert_eq!(vertex.apply().await.error(), "waited for 1 milliseconds to fail");
}

struct Double(Result<(), String>);

impl Function for Double {
    fn ty(&self) -> Type {
        Type::func([("number", Type::Int)], Type::Str)
    }
    fn call(&self, args: &[Value]) -> Result<Value, String> {
        self.0.clone()?;
        match args {
            [Value::Int(number)] => Ok(Value::str(format!("twice is {}", 2 * number))),
            other => Err(format!("unexpected {other:?}")),
        }
    }
}

#[tokio::test]
async fn the_function_is_called_with_forty_two_and_is_not_compared() {
    let bench = TestEnv::new();
    let log = Log::capture();
    let function = |result| Value::Func(Arc::new(Double(result)));
    let mut test = Test { onlyshow: vec!["comment".into()], ..Test::default() };
    let plain = test.clone();
    test.set("func1", &function(Ok(()))).unwrap().unwrap();
    assert!(Resource::same_as(&test, &Str::EMPTY, &plain));
    let mut vertex = bench.vertex("a", test);
    vertex.apply().await.checked();
    assert_eq!(log.take(), [r#"comment: """#, r#"func1(42): "twice is 84""#]);
    vertex.resource.func1 = Func1::from_value(&function(Err("no".into()))).unwrap();
    assert_eq!(vertex.apply().await.error(), "`func1` failed: no");
    vertex.resource.set("func1", &Value::Nil).unwrap().unwrap();
    assert!(vertex.resource.func1.0.is_none());
    let error = vertex.resource.set("func1", &Value::Int(1)).unwrap().unwrap_err();
    assert_eq!(error.to_string(), "expected func(0 int) str, found int");
}

#[test]
fn comparison_covers_the_rest_and_can_be_made_to_fail() {
    let plain = Test::default();
    let failing = Test { comparefail: true, ..Test::default() };
    let same = |a: &Test, b: &Test| Resource::same_as(a, &Str::EMPTY, b);
    assert!(same(&plain, &plain));
    assert!(!same(&failing, &failing) && !same(&plain, &failing) && !same(&failing, &plain));
    assert!(!same(&plain, &Test { interface: Some(Value::Int(1)), ..Test::default() }));
    assert!(!same(&plain, &Test { int8ptrptrptr: Some(None), ..Test::default() }));
}

#[test]
fn only_a_test_that_allows_it_takes_others_in() {
    let open = Test { alwaysgroup: true, ..Test::default() };
    assert!(Resource::groups_with(&open, &Test::default()));
    assert!(!Resource::groups_with(&Test::default(), &open));
    assert!(!Resource::groups_with(&open, &Noop::default()));
}
