//! `test`: a parameter of every type.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mgmt_resource::{
    Background, Checked, Context, Error, Fields, Invalid, Kind, Resource, Result, StructValue,
};
use mgmt_value::{Complex, Function, Mismatch, Native, Str, Type, Value};

/// Changes nothing on the host. It has a parameter of every type, for tests of the language and of the engine.
///
/// Each run writes the parameters to the log and sends `hello` and `answer`. Some parameters make it fail on purpose.
///
/// ```mcl
/// test "shown" {
///     int64 => 42,
///     anotherstr => "forty-two",
///     onlyshow => ["int64", "anotherstr"],
/// }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Resource)]
#[resource(kind = "test", group, refresh, send, receive, background)]
pub struct Test {
    /// A truth value.
    pub bool: bool,
    /// A string.
    pub str: Str,
    /// A number of 64 bits.
    pub int: i64,
    /// A number of 8 bits.
    pub int8: i8,
    /// A number of 16 bits.
    pub int16: i16,
    /// A number of 32 bits.
    pub int32: i32,
    /// A number of 64 bits.
    pub int64: i64,
    /// A number of 64 bits that is not negative.
    pub uint: u64,
    /// A number of 8 bits that is not negative.
    pub uint8: u8,
    /// A number of 16 bits that is not negative.
    pub uint16: u16,
    /// A number of 32 bits that is not negative.
    pub uint32: u32,
    /// A number of 64 bits that is not negative.
    pub uint64: u64,
    /// One byte, as a number.
    pub byte: u8,
    /// One character, as the number of its code point.
    pub rune: i32,
    /// A floating point number of 32 bits.
    pub float32: f32,
    /// A floating point number of 64 bits.
    pub float64: f64,
    /// A complex number. The language has no such type, so it can't be set.
    pub complex64: Complex,
    /// A complex number. The language has no such type, so it can't be set.
    pub complex128: Complex,
    /// A truth value that may be unset.
    #[field(alias = "bool_ptr")]
    pub boolptr: Option<bool>,
    /// A string that may be unset.
    #[field(alias = "string_ptr")]
    pub stringptr: Option<Str>,
    /// A number of 64 bits that may be unset.
    pub int64ptr: Option<i64>,
    /// A number of 8 bits that may be unset.
    pub int8ptr: Option<i8>,
    /// A number of 8 bits that is not negative and may be unset.
    pub uint8ptr: Option<u8>,
    /// A number of 8 bits that may be unset on three levels.
    pub int8ptrptrptr: Option<Option<Option<i8>>>,
    /// A list of strings.
    pub slicestring: Vec<Str>,
    /// A map from numbers to floating point numbers.
    pub mapintfloat: BTreeMap<i64, f64>,
    /// A struct.
    pub mixedstruct: MixedStruct,
    /// A value of any type.
    pub interface: Option<Value>,
    /// A function, which is called with 42. It takes no part in comparing two resources.
    pub func1: Func1,
    /// Another string.
    pub anotherstr: Str,
    /// Fail validation.
    #[field(alias = "validate_bool")]
    pub validatebool: bool,
    /// Fail validation with this message, unless it is empty.
    #[field(alias = "validate_error")]
    pub validateerror: Str,
    /// Allow others of this kind to be grouped into this one.
    #[field(alias = "always_group")]
    pub alwaysgroup: bool,
    /// Differ from every resource when compared, also from an equal one.
    #[field(alias = "compare_fail")]
    pub comparefail: bool,
    /// What is sent as `hello`.
    #[field(alias = "send_value")]
    pub sendvalue: Option<Str>,
    /// Fail unless as many parameters are received as this list has members.
    #[field(alias = "expect_recv")]
    pub expectrecv: Option<Vec<Str>>,
    /// The names of the parameters to write to the log. Empty, all are written.
    #[field(alias = "only_show")]
    pub onlyshow: Vec<Str>,
    /// Wait for so many milliseconds, and then fail. Zero, do neither.
    pub waitforerror: i64,
    /// A remark for whoever reads the configuration.
    pub comment: Str,
}

/// The struct among the parameters of `test`. What is shown of it has one more field, which no program can set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MixedStruct(pub Mixture);

const PRIVATE: &str = "somePrivatefield";

impl Native for MixedStruct {
    fn ty() -> Type {
        Mixture::ty()
    }

    fn from_value(value: &Value) -> Result<MixedStruct, Mismatch> {
        let settable = match value {
            // As it is shown, and stored.
            Value::Struct(shown) => {
                let fields = shown.fields.iter().filter(|(name, _)| **name != *PRIVATE).cloned();
                &Value::structure(fields)
            }
            other => other,
        };
        Mixture::from_value(settable).map(MixedStruct)
    }

    fn to_value(&self) -> Value {
        let Value::Struct(shown) = self.0.to_value() else { return Value::Nil };
        let private = (PRIVATE.into(), Value::Str(Str::EMPTY));
        Value::structure(shown.fields.iter().cloned().chain([private]))
    }
}

/// What a program can set of it.
#[derive(Clone, Debug, Default, PartialEq, StructValue)]
pub struct Mixture {
    /// A truth value.
    pub somebool: bool,
    /// A string.
    pub somestr: Str,
    /// A number.
    pub someint: i64,
    /// A floating point number.
    pub somefloat: f64,
}

/// What a `test` sends.
#[derive(Clone, Debug, Fields)]
pub struct TestSends {
    /// The parameter `sendvalue`.
    pub hello: Option<Str>,
    /// 42.
    pub answer: i64,
}

impl Default for TestSends {
    fn default() -> TestSends {
        TestSends { hello: None, answer: -1 }
    }
}

impl Kind for Test {
    type State = ();
    type Sends = TestSends;

    fn validate(&self, _: &Str) -> Result<(), Invalid> {
        if self.validatebool {
            return Err(Invalid::field("validatebool", "validation fails because it was asked to"));
        }
        if !self.validateerror.is_empty() {
            return Err(Invalid::field("validateerror", self.validateerror.display().to_string()));
        }
        if self.waitforerror < 0 {
            let message = format!("expected a time that is not negative, found {}", self.waitforerror);
            return Err(Invalid::field("waitforerror", message));
        }
        Ok(())
    }

    /// Says once a second that it is there, for whoever looks at the debug log.
    async fn background(mut work: Background) -> Result<()> {
        tracing::debug!(target: "mgmt::resource", "the worker of kind test has started");
        work.ready();
        let mut second = tokio::time::interval(Duration::from_secs(1));
        loop {
            tokio::select! {
                _ = second.tick() => tracing::debug!(target: "mgmt::resource", "the worker of kind test is at work"),
                () = work.cancel.cancelled() => break,
            }
        }
        tracing::debug!(target: "mgmt::resource", "the worker of kind test has ended");
        Ok(())
    }

    async fn check_apply(&self, (): &mut (), cx: &mut Context<'_>) -> Result<Checked> {
        for received in cx.received {
            let news = if received.changed { "has changed" } else { "has not changed" };
            cx.info(format_args!("received `{}`, which {news}", received.field));
        }
        if cx.refresh {
            cx.info("notified");
        }
        self.check_received(cx)?;
        self.wait_for_error(cx).await?;
        self.show(cx)?;
        cx.send(&TestSends { hello: self.sendvalue.clone(), answer: 42 });
        Ok(Checked::Right)
    }

    fn groups_with(&self, other: &dyn Resource) -> bool {
        self.alwaysgroup && other.as_any().is::<Test>()
    }

    fn groups_alike(&self, other: &Test) -> bool {
        self.alwaysgroup == other.alwaysgroup
    }

    fn equivalent(&self, _: &Str, other: &Test) -> bool {
        !self.comparefail && !other.comparefail && self == other
    }
}

impl Test {
    fn check_received(&self, cx: &Context<'_>) -> Result<()> {
        let Some(expected) = &self.expectrecv else { return Ok(()) };
        if expected.len() == cx.received.len() {
            return Ok(());
        }
        let names: Vec<_> = cx.received.iter().map(|received| received.field).collect();
        let (wanted, found) = (expected.len(), names.len());
        Err(Error::new(format_args!(
            "expected to receive {wanted} parameters {expected:?}, found {found} {names:?}"
        )))
    }

    async fn wait_for_error(&self, cx: &Context<'_>) -> Result<()> {
        let milliseconds = u64::try_from(self.waitforerror).unwrap_or(0);
        if milliseconds == 0 {
            return Ok(());
        }
        tokio::select! {
            () = cx.cancel.cancelled() => Err(Error::Cancelled),
            () = tokio::time::sleep(Duration::from_millis(milliseconds)) => {
                Err(Error::new(format_args!("waited for {milliseconds} milliseconds to fail")))
            }
        }
    }

    fn show(&self, cx: &Context<'_>) -> Result<()> {
        for field in Test::FIELDS {
            let is_wanted = |name: &Str| Test::field(&name.to_text()).is_some_and(|f| f.name == field.name);
            if self.onlyshow.is_empty() || self.onlyshow.iter().any(is_wanted) {
                cx.info(format_args!("{}: {}", field.name, (field.get)(self)));
            }
        }
        if let Some(function) = &self.func1.0 {
            let result = function.call(&[Value::Int(42)]);
            let result = result.map_err(|error| Error::new(format_args!("`func1` failed: {error}")))?;
            cx.info(format_args!("func1(42): {result}"));
        }
        Ok(())
    }
}

/// A function from a number to a string, or none.
#[derive(Clone, Default)]
pub struct Func1(pub Option<Arc<dyn Function>>);

/// Functions cannot be compared, so they do not take part.
impl PartialEq for Func1 {
    fn eq(&self, _: &Func1) -> bool {
        true
    }
}

impl std::fmt::Debug for Func1 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.to_value())
    }
}

impl Native for Func1 {
    const OPTIONAL: bool = true;

    fn ty() -> Type {
        Type::func([("", Type::Int)], Type::Str)
    }

    fn from_value(value: &Value) -> Result<Func1, Mismatch> {
        match value {
            Value::Nil => Ok(Func1(None)),
            Value::Func(function) if function.ty() == Func1::ty() => Ok(Func1(Some(function.clone()))),
            other => Err(Mismatch::types(Func1::ty(), other)),
        }
    }

    fn to_value(&self) -> Value {
        self.0.clone().map_or(Value::Nil, Value::Func)
    }
}
