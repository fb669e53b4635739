//! `kv`: a string under a key that all hosts can read.

use mgmt_resource::{
    Checked, Context, Effect, Error, Invalid, Kind, Nothing, OnLeave, Resource, Result, ResultExt, Scope,
    SharedStore, SharedStoreError, Watch,
};
use mgmt_value::Str;

use crate::support::follow;

/// Keeps a string under a key in the store that the hosts of a cluster share.
///
/// Any program on any host can read it, with the function `world.getval`, or with `world.kvlookup` if it is stored for
/// each host. Whenever somebody changes it, it is set again. On a host that belongs to no cluster the store is
/// its own, and survives a restart.
///
/// Two hosts that want different values for one key never come to an end; use `mapped`, so that each has a value of its
/// own, or `skiplessthan`, so that the largest one wins.
///
/// ```mcl
/// kv "colour" {
///     value => "green",
/// }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Resource)]
#[resource(kind = "kv", refresh, receive)]
pub struct Kv {
    /// The key; the name if it is not given.
    pub key: Str,
    /// The value. Unset, the key is removed.
    pub value: Option<Str>,
    /// Store the value under the key for this host alone. Each host then has a value of its own.
    pub mapped: bool,
    /// Leave a larger value as it is. When another resource notifies this one, the value is set whatever it is.
    pub skiplessthan: bool,
    /// How `skiplessthan` compares: 0 as whole numbers, where anything that is no number is replaced; 1 as text, byte by
    /// byte.
    pub skipcmpstyle: i64,
}

impl Kind for Kv {
    type State = ();
    type Sends = Nothing;

    fn validate(&self, name: &Str) -> Result<(), Invalid> {
        if self.key(name).is_empty() {
            return Err(Invalid::field("key", "is empty"));
        }
        if !self.skiplessthan {
            return Ok(());
        }
        match (self.skipcmpstyle, &self.value) {
            (0, Some(value)) if number(value).is_none() => Err(Invalid::field(
                "value",
                format!("expected a whole number to compare with others, found {value:?}"),
            )
            .with_hint("set `skipcmpstyle` to 1 to compare as text")),
            (0 | 1, _) => Ok(()),
            (other, _) => Err(Invalid::field(
                "skipcmpstyle",
                format!("expected 0, to compare as numbers, or 1, as text, found {other}"),
            )),
        }
    }

    fn watches(&self, name: &Str) -> Vec<Watch> {
        let (key, scope) = (self.key(name).clone(), self.scope());
        let told = Str::from(format!("kv {scope:?} {key:?}"));
        vec![follow::shared_value(told, key, scope)]
    }

    /// A store that does not answer may take for ever.
    fn on_stop(&self) -> OnLeave {
        OnLeave::Cancel
    }

    async fn check_apply(&self, (): &mut (), cx: &mut Context<'_>) -> Result<Checked> {
        let strings = cx.host.strings();
        let host = Str::from(cx.host.hostname.as_str());
        let key = self.key(&cx.id.name);

        let present = tokio::select! {
            present = self.present(strings, key, &host) => present.context("cannot read the key")?,
            () = cx.cancel.cancelled() => return Err(Error::Cancelled),
        };
        if present == self.value || (!cx.refresh && self.is_less_than(present.as_ref())) {
            return Ok(Checked::Right);
        }
        let effect = match (&present, &self.value) {
            (None, _) => Effect::create(key.display()),
            (Some(_), None) => Effect::remove(key.display()),
            (Some(_), Some(_)) => Effect::change(key.display()),
        };
        // What hosts share may be anything.
        cx.describe(Effect { private: true, ..effect.aspect("key") });
        if !cx.apply {
            return Ok(Checked::Changed);
        }
        cx.checkpoint()?;
        let value = self.value.as_ref();
        let set = async {
            match self.scope() {
                Scope::Shared => strings.set_shared(key, value).await,
                Scope::ByHost => strings.set_of_host(key, &host, value).await,
            }
        };
        // Whether it takes a moment or as long as the store is lost: it is not done before it is done.
        tokio::select! {
            set = set => set.context("cannot change the key")?,
            () = cx.cancel.cancelled() => return Err(Error::Cancelled),
        };
        cx.info(if value.is_some() { "stored" } else { "removed" });
        Ok(Checked::Changed)
    }

    fn equivalent(&self, name: &Str, other: &Kv) -> bool {
        let spelled_out = |kv: &Kv| Kv { key: kv.key(name).clone(), ..kv.clone() };
        self == other || spelled_out(self) == spelled_out(other)
    }
}

impl Kv {
    fn key<'a>(&'a self, name: &'a Str) -> &'a Str {
        if self.key.is_empty() { name } else { &self.key }
    }

    fn scope(&self) -> Scope {
        if self.mapped { Scope::ByHost } else { Scope::Shared }
    }

    async fn present(
        &self,
        strings: &dyn SharedStore,
        key: &Str,
        host: &Str,
    ) -> Result<Option<Str>, SharedStoreError> {
        match self.scope() {
            Scope::Shared => strings.shared(key).await,
            Scope::ByHost => Ok(strings.by_host(key).await?.remove(host)),
        }
    }

    /// Whether what is stored is larger and may stay.
    fn is_less_than(&self, present: Option<&Str>) -> bool {
        let (true, Some(present), Some(wanted)) = (self.skiplessthan, present, &self.value) else {
            return false;
        };
        match self.skipcmpstyle {
            0 => {
                matches!((number(wanted), number(present)), (Some(wanted), Some(present)) if wanted < present)
            }
            _ => wanted.as_bytes() < present.as_bytes(),
        }
    }
}

fn number(text: &Str) -> Option<i64> {
    text.as_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kv(value: &str, style: i64) -> Kv {
        Kv { value: Some(value.into()), skiplessthan: true, skipcmpstyle: style, ..Kv::default() }
    }

    #[test]
    fn what_cannot_be_compared_is_refused() {
        let refused = |kv: &Kv| Kind::validate(kv, &"name".into()).unwrap_err().to_string();
        assert!(refused(&kv("x", 0)).contains("whole number"));
        assert!(refused(&kv("99999999999999999999", 0)).contains("whole number"));
        assert!(refused(&kv("1", 2)).contains("`skipcmpstyle`"));
        assert!(refused(&Kv { value: None, ..kv("1", -1) }).contains("`skipcmpstyle`"));
        for fine in [kv("1", 0), kv("x", 1), Kv { value: None, ..kv("", 0) }] {
            assert!(Kind::validate(&fine, &"name".into()).is_ok(), "{fine:?}");
        }
        let any = Kv { skiplessthan: false, ..kv("x", 7) };
        assert!(Kind::validate(&any, &"name".into()).is_ok());
        assert!(Kind::validate(&Kv::default(), &Str::EMPTY).is_err());
    }

    #[test]
    fn numbers_are_compared_as_numbers_and_text_as_text() {
        let less = |kv: Kv, present: &str| kv.is_less_than(Some(&present.into()));
        assert!(less(kv("9", 0), "10"));
        assert!(!less(kv("9", 1), "10"));
        assert!(less(kv("10", 1), "9"));
        assert!(!less(kv("-5", 0), "-10"));
        assert!(!less(kv("9", 0), "no number"));
        assert!(!less(kv("9", 0), "9"));
        assert!(!less(Kv { skiplessthan: false, ..kv("1", 0) }, "2"));
        assert!(!less(Kv { value: None, ..kv("1", 0) }, "2"));
    }

    #[test]
    fn the_name_spelled_out_as_key_is_the_same_declaration() {
        let (short, long) = (kv("1", 0), Kv { key: "name".into(), ..kv("1", 0) });
        assert!(short.equivalent(&"name".into(), &long));
        assert!(!short.equivalent(&"other".into(), &long));
        assert!(!short.equivalent(&"name".into(), &Kv { mapped: true, ..long.clone() }));
        let watches = |kv: &Kv| Kind::watches(kv, &"name".into());
        assert_eq!(watches(&short), watches(&long));
        assert_ne!(watches(&short), watches(&Kv { mapped: true, ..long }));
    }
}
