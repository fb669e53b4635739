//! Kinds to test with: small, and with a field of every type.

use std::collections::BTreeMap;

use mgmt_resource::{
    Checked, Context, Fields, Invalid, Kind, Nothing, Registry, Resource, Result, Schema, StructValue,
    schema_of,
};
use mgmt_value::{Str, Value};

pub const KINDS: Registry = Registry::new(ALL);

const ALL: &[fn() -> &'static Schema] =
    &[schema_of::<Noop>, schema_of::<File>, schema_of::<Exec>, schema_of::<Every>, schema_of::<Lock>];

macro_rules! inert {
    ($kind:ty, $sends:ty, $validate:expr) => {
        impl Kind for $kind {
            type State = ();
            type Sends = $sends;
            fn validate(&self, name: &Str) -> Result<(), Invalid> {
                let validate: fn(&$kind, &Str) -> Result<(), Invalid> = $validate;
                validate(self, name)
            }
            async fn check_apply(&self, _: &mut (), _: &mut Context<'_>) -> Result<Checked> {
                Ok(Checked::Right)
            }
        }
    };
}

/// Does nothing.
#[derive(Clone, Debug, Default, PartialEq, Resource)]
#[resource(kind = "noop")]
pub struct Noop {
    /// Anything.
    pub comment: Str,
}

inert!(Noop, Nothing, |_, _| Ok(()));

/// A file.
#[derive(Clone, Debug, Default, PartialEq, Resource)]
#[resource(kind = "file")]
pub struct File {
    /// Where it is.
    pub path: Str,
    /// Replaces the directory of the path.
    pub dirname: Str,
    /// Whether it is there.
    pub state: Str,
    /// What is in it.
    pub content: Option<Str>,
    /// Who may do what.
    pub mode: Str,
}

inert!(File, Nothing, |file, _| match file.state.as_bytes() {
    b"" | b"exists" | b"absent" => Ok(()),
    _ => Err(Invalid::field("state", "expected `exists` or `absent`").with_hint("leave it out for neither")),
});

/// A command.
#[derive(Clone, Debug, Default, PartialEq, Resource)]
#[resource(kind = "exec", send)]
pub struct Exec {
    /// The command.
    pub cmd: Str,
    /// The shell.
    pub shell: Str,
    /// A command that watches.
    pub watchcmd: Str,
    /// Its shell.
    pub watchshell: Str,
    /// A command that guards.
    pub ifcmd: Str,
    /// Its shell.
    pub ifshell: Str,
}

/// What a command sends.
#[derive(Clone, Debug, Default, Fields)]
pub struct Output {
    /// What it wrote.
    pub stdout: Option<Str>,
    /// How it ended.
    pub status: i64,
    /// Anything else.
    pub any: Option<Value>,
}

inert!(Exec, Output, |exec, _| match exec.cmd.is_empty() {
    true => Err(Invalid::new("there is no command")),
    false => Ok(()),
});

/// Has a field of every type.
#[derive(Clone, Debug, PartialEq, Resource)]
#[resource(kind = "every")]
pub struct Every {
    /// A truth value.
    pub flag: bool,
    /// A text.
    pub text: Str,
    /// A number.
    pub number: i64,
    /// A small number.
    pub small: u8,
    /// A fraction.
    pub float: f64,
    /// Some texts.
    pub list: Vec<Str>,
    /// Some lists of numbers.
    pub lists: Vec<Vec<i64>>,
    /// Numbers by name.
    pub map: BTreeMap<Str, i64>,
    /// Texts by number.
    pub numbered: BTreeMap<i64, Str>,
    /// Two things together.
    pub pair: Pair,
    /// Maybe a number.
    #[field(alias = "maybe_ptr")]
    pub maybe: Option<i64>,
    /// Maybe a text.
    pub maybe_text: Option<Str>,
    /// Anything.
    pub any: Option<Value>,
    /// Not to be set.
    pub complex: mgmt_value::Complex,
}

impl Default for Every {
    fn default() -> Every {
        Every {
            flag: true,
            text: "default".into(),
            number: 7,
            small: 7,
            float: 7.0,
            list: vec!["default".into()],
            lists: Vec::new(),
            map: BTreeMap::new(),
            numbered: BTreeMap::new(),
            pair: Pair::default(),
            maybe: Some(7),
            maybe_text: Some("default".into()),
            any: None,
            complex: mgmt_value::Complex::default(),
        }
    }
}

/// Two things.
#[derive(Clone, Debug, Default, PartialEq, StructValue)]
pub struct Pair {
    /// A name.
    pub name: Str,
    /// A number.
    pub number: i64,
}

inert!(Every, Nothing, |_, _| Ok(()));

/// Has a secret.
#[derive(Clone, Debug, Default, PartialEq, Resource)]
#[resource(kind = "lock")]
pub struct Lock {
    /// The number that opens it.
    #[field(secret)]
    pub code: i64,
}

inert!(Lock, Nothing, |lock, _| match lock.code {
    13 => Err(Invalid::field("code", "an unlucky number")),
    _ => Ok(()),
});
