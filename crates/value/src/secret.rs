//! What nobody may see.

use std::collections::BTreeMap;
use std::fmt;

use crate::{Mismatch, Native, Str, Type, Value};

/// A value that cannot be printed by accident: it has no [`Display`](fmt::Display) and cannot be serialised, and of its
/// [`Debug`](fmt::Debug) form nothing can be learned. Whoever needs it says so, with [`reveal`](Secret::reveal).
///
/// Once nobody has it any more, it is overwritten. That is true of what is kept in a secret: somebody who has revealed it and
/// keeps a copy has a copy.
///
/// ```
/// # use mgmt_value::{Secret, Str};
/// let secret = Secret::new(Str::from("hunter2"));
/// assert_eq!(format!("{secret:?}"), "(secret)");
/// assert_eq!(secret.reveal().as_bytes(), b"hunter2");
/// ```
///
/// ```compile_fail,E0277
/// # use mgmt_value::{Secret, Str};
/// println!("{}", Secret::new(Str::from("hunter2")));
/// ```
///
/// ```compile_fail,E0277
/// # use mgmt_value::{Secret, Str};
/// let text = serde_json::to_string(&Secret::new(Str::from("hunter2")));
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret<T: Wipe>(T);

impl<T: Wipe> Secret<T> {
    /// Hides a value.
    pub fn new(value: T) -> Secret<T> {
        Secret(value)
    }

    /// The value, for whoever uses it. It is not to be shown.
    pub fn reveal(&self) -> &T {
        &self.0
    }
}

/// Not even how long it is.
impl<T: Wipe> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

impl<T: Wipe> Drop for Secret<T> {
    fn drop(&mut self) {
        self.0.wipe();
    }
}

impl<T: Wipe> From<T> for Secret<T> {
    fn from(value: T) -> Secret<T> {
        Secret(value)
    }
}

impl From<&str> for Secret<Str> {
    fn from(text: &str) -> Secret<Str> {
        Secret(Str::from(text))
    }
}

impl<A, T: Wipe + FromIterator<A>> FromIterator<A> for Secret<T> {
    fn from_iter<I: IntoIterator<Item = A>>(items: I) -> Secret<T> {
        Secret(items.into_iter().collect())
    }
}

/// As the value that it is, so that a program can set it, and it can be stored where only this program reads.
impl<T: Native + Wipe> Native for Secret<T> {
    const SECRET: bool = true;
    const OPTIONAL: bool = T::OPTIONAL;
    fn ty() -> Type {
        T::ty()
    }
    fn from_value(value: &Value) -> Result<Secret<T>, Mismatch> {
        T::from_value(value).map(Secret)
    }
    fn to_value(&self) -> Value {
        self.0.to_value()
    }
}

/// Can be overwritten, so that nothing of it stays in memory.
pub trait Wipe {
    /// Overwrites what nobody else has.
    fn wipe(&mut self);
}

/// Bytes that others have, too, are overwritten by the last of them that is a [`Secret`].
impl Wipe for Str {
    fn wipe(&mut self) {
        if let Some(bytes) = self.own_bytes() {
            bytes.fill(0);
            // The compiler may not know that nobody reads them any more, or it would leave them as they are.
            std::hint::black_box(bytes);
        }
    }
}

impl Wipe for i32 {
    fn wipe(&mut self) {
        *std::hint::black_box(self) = 0;
    }
}

impl<K: Ord, T: Wipe> Wipe for BTreeMap<K, T> {
    fn wipe(&mut self) {
        self.values_mut().for_each(Wipe::wipe);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_form_is_asked_for_nothing_is_told() {
        let secret = Secret::<Str>::from("canary");
        for told in [format!("{secret:?}"), format!("{secret:#?}"), format!("{:?}", Some(&secret))] {
            assert!(!told.contains("canary"), "{told}");
        }
        assert_eq!(format!("{:?}", Secret::new(Str::EMPTY)), format!("{secret:?}"), "not even its length");
    }

    #[test]
    fn it_is_the_value_that_it_hides() {
        let secret = Secret::<Str>::from("canary");
        assert_eq!(Secret::<Str>::ty(), Type::Str);
        assert_eq!(Secret::from_value(&secret.to_value()), Ok(secret.clone()));
        assert_eq!(secret.reveal(), &Str::from("canary"));
        assert_ne!(secret, Secret::from("other"));
        const { assert!(Secret::<Str>::SECRET && Option::<Secret<Str>>::SECRET && !Option::<Str>::SECRET) };
    }

    #[test]
    fn the_last_one_that_has_it_overwrites_it() {
        let mut text = Str::from("canary");
        let mut other = text.clone();
        text.wipe();
        assert_eq!(other, "canary", "somebody else has it");
        drop(text);
        other.wipe();
        assert_eq!(other.as_bytes(), [0; 6]);
        let mut map = BTreeMap::from([(1, Str::from("canary"))]);
        map.wipe();
        assert_eq!(map[&1].as_bytes(), [0; 6]);
        let mut number = 13;
        number.wipe();
        assert_eq!(number, 0);
        let mut empty = Str::EMPTY;
        empty.wipe();
        assert_eq!(empty, Str::EMPTY);
    }
}
