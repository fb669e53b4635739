//! Kinds to test with: small, and with a field of every type.

use std::collections::BTreeMap;

use mgmt_resource::{
    Checked, Context, Fields, Invalid, Kind, Nothing, Registry, Resource, Result, Schema, StructValue,
    schema_of,
};
use mgmt_value::{Secret, Str, Value};

pub(crate) const KINDS: Registry = Registry::new(ALL);

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
pub(crate) struct Noop {
    /// Anything.
    pub(crate) comment: Str,
}

inert!(Noop, Nothing, |_, _| Ok(()));

/// A file.
#[derive(Clone, Debug, Default, PartialEq, Resource)]
#[resource(kind = "file")]
pub(crate) struct File {
    /// Where it is.
    pub(crate) path: Str,
    /// Replaces the directory of the path.
    pub(crate) dirname: Str,
    /// Whether it is there.
    pub(crate) state: Str,
    /// What is in it.
    pub(crate) content: Option<Str>,
    /// Who may do what.
    pub(crate) mode: Str,
}

inert!(File, Nothing, |file, _| match file.state.as_bytes() {
    b"" | b"exists" | b"absent" => Ok(()),
    _ => Err(Invalid::field("state", "expected `exists` or `absent`").with_hint("leave it out for neither")),
});

/// A command.
#[derive(Clone, Debug, Default, PartialEq, Resource)]
#[resource(kind = "exec", send)]
pub(crate) struct Exec {
    /// The command.
    pub(crate) cmd: Str,
    /// The shell.
    pub(crate) shell: Str,
    /// A command that watches.
    pub(crate) watchcmd: Str,
    /// Its shell.
    pub(crate) watchshell: Str,
    /// A command that guards.
    pub(crate) ifcmd: Str,
    /// Its shell.
    pub(crate) ifshell: Str,
}

/// What a command sends.
#[derive(Clone, Debug, Default, Fields)]
pub(crate) struct Output {
    /// What it wrote.
    pub(crate) stdout: Option<Str>,
    /// How it ended.
    pub(crate) status: i64,
    /// Anything else.
    pub(crate) any: Option<Value>,
}

inert!(Exec, Output, |exec, _| match exec.cmd.is_empty() {
    true => Err(Invalid::new("there is no command")),
    false => Ok(()),
});

/// Has a field of every type.
#[derive(Clone, Debug, PartialEq, Resource)]
#[resource(kind = "every")]
pub(crate) struct Every {
    /// A truth value.
    pub(crate) flag: bool,
    /// A text.
    pub(crate) text: Str,
    /// A number.
    pub(crate) number: i64,
    /// A small number.
    pub(crate) small: u8,
    /// A fraction.
    pub(crate) float: f64,
    /// Some texts.
    pub(crate) list: Vec<Str>,
    /// Some lists of numbers.
    pub(crate) lists: Vec<Vec<i64>>,
    /// Numbers by name.
    pub(crate) map: BTreeMap<Str, i64>,
    /// Texts by number.
    pub(crate) numbered: BTreeMap<i64, Str>,
    /// Two things together.
    pub(crate) pair: Pair,
    /// Maybe a number.
    #[field(alias = "maybe_ptr")]
    pub(crate) maybe: Option<i64>,
    /// Maybe a text.
    pub(crate) maybe_text: Option<Str>,
    /// Anything.
    pub(crate) any: Option<Value>,
    /// Not to be set.
    pub(crate) complex: mgmt_value::Complex,
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
pub(crate) struct Pair {
    /// A name.
    pub(crate) name: Str,
    /// A number.
    pub(crate) number: i64,
}

inert!(Every, Nothing, |_, _| Ok(()));

/// Has a secret.
#[derive(Clone, Debug, Default, PartialEq, Resource)]
#[resource(kind = "lock")]
pub(crate) struct Lock {
    /// The number that opens it.
    #[field(secret)]
    pub(crate) code: Secret<i32>,
}

inert!(Lock, Nothing, |lock, _| match lock.code.reveal() {
    13 => Err(Invalid::field("code", "an unlucky number")),
    _ => Ok(()),
});
