//! The environment of a command.

use std::collections::BTreeMap;
use std::fmt;

use mgmt_value::{Mismatch, Native, Str, Type, Value};

/// Variables of a command. Their values may be secret, so only the names are ever shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Environment(pub BTreeMap<Str, Str>);

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl<K: Into<Str>, V: Into<Str>> FromIterator<(K, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(variables: I) -> Environment {
        Environment(variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

impl Native for Environment {
    fn ty() -> Type {
        BTreeMap::<Str, Str>::ty()
    }

    fn from_value(value: &Value) -> Result<Environment, Mismatch> {
        Native::from_value(value).map(Environment)
    }

    fn to_value(&self) -> Value {
        self.0.to_value()
    }
}
