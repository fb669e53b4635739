//! `json:edit`: values in a JSON document that somebody else may have written.
//!
//! [`JsonEdit`] is the declaration. `edit` reads what is to be done, `document` does it to a text and knows nothing of files,
//! `store` says where the document is.
//!
//! Invariants
//! - Nothing but the declared values changes: not the order of keys, not white space, not how numbers are written.
//! - All edits are made, or none.
//! - Two resources of this process never edit one document at the same time.

mod document;
mod edit;
mod store;

use mgmt_resource::{
    Checked, Context, Effect, Error, Identity, Invalid, Kind, Needed, Nothing, Order, Resource, Result,
    ResultExt, Scope, Want, Watch,
};
use mgmt_sys::ManagedPath;
use mgmt_sys::replace::InPlace;
use mgmt_value::Str;

use self::edit::Edit;
use self::store::Store;
use crate::support::account::lookup_now;
use crate::support::follow;
use crate::support::text_file::TextFile;

/// Sets and deletes values in a JSON document, and leaves the rest of it alone.
///
/// An edit is `.path.to.key = VALUE`, with any JSON value, or `del(.path.to.key)`. Keys that are not made of letters, digits and
/// underscores are written in brackets: `.servers["www.example.com"].port = 80`. Objects on the way to a value that is set are
/// made if they are missing; something else than an object on the way is an error. Elements of lists cannot be named: set the
/// whole list.
///
/// Edits are made one after the other, and only if all of them can be. The document keeps the order of its keys, its white space
/// and the spelling of its numbers. A file is replaced in one step and keeps its owner and mode; it must be there, and must be
/// no symbolic link. Whenever somebody changes the document, it is looked at again.
///
/// ```mcl
/// json:edit "/etc/shop/settings.json" {
///     edits => [
///         ".log.level = \"info\"",
///         ".servers[\"www.example.com\"].port = 8080",
///         "del(.beta)",
///     ],
/// }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Resource)]
#[resource(kind = "json:edit", edges, receive)]
pub struct JsonEdit {
    /// Where the document is: an absolute path, `file:///path`, or `etcd:///key` for a string in the store that the hosts of a
    /// cluster share, where a missing key is an empty object. The name if it is not given.
    pub store: Str,
    /// What to do, in this order.
    pub edits: Vec<Str>,
}

impl Kind for JsonEdit {
    type State = ();
    type Sends = Nothing;

    fn validate(&self, name: &Str) -> Result<(), Invalid> {
        self.stored(name)?;
        if self.edits.is_empty() {
            return Err(Invalid::field("edits", "is empty; expected at least one, such as `.key = 1`"));
        }
        self.parsed().map(|_| ())
    }

    fn watches(&self, name: &Str) -> Vec<Watch> {
        match self.stored(name) {
            Ok(Store::File(path)) => vec![Watch::Path { path: path.as_bytes().into(), recursive: false }],
            Ok(Store::Cluster(key)) => {
                let told = Str::from(format!("json:edit {key:?}"));
                vec![follow::shared_value(told, key, Scope::Shared)]
            }
            // Such a store does not get past validation.
            Err(_) => Vec::new(),
        }
    }

    async fn check_apply(&self, (): &mut (), cx: &mut Context<'_>) -> Result<Checked> {
        let edits = self.parsed().map_err(Error::new)?;
        let checked = match self.stored(&cx.id.name).map_err(Error::new)? {
            Store::File(path) => lookup_now(|| edit_file(path, &edits, cx))?,
            Store::Cluster(key) => edit_key(&key, &edits, cx).await?,
        };
        if checked == Checked::Changed && cx.apply {
            cx.info("edited");
        }
        Ok(checked)
    }

    fn wants(&self, name: &Str) -> Vec<Want> {
        let Ok(Store::File(path)) = self.stored(name) else { return Vec::new() };
        let path = Str::from(path.as_bytes());
        let before = vec![Identity::Path(path.clone()), Identity::PackageFile(path.clone())];
        vec![Want::Each(Order::Before, before), Want::ParentOf(path)]
    }

    fn equivalent(&self, name: &Str, other: &JsonEdit) -> bool {
        let plain = |json: &JsonEdit| (json.stored(name).ok(), json.edits.clone());
        self == other || plain(self) == plain(other)
    }
}

impl JsonEdit {
    fn stored(&self, name: &Str) -> Result<Store, Invalid> {
        Store::read(if self.store.is_empty() { name } else { &self.store })
    }

    fn parsed(&self) -> Result<Vec<Edit>, Invalid> {
        let parse = |(place, edit): (usize, &Str)| {
            Edit::read(edit).map_err(|why| {
                Invalid::field("edits", format!("number {place}, {edit:?}: {why}"))
                    .with_hint("an edit is `.path.to.key = VALUE` or `del(.path.to.key)`")
            })
        };
        (1..).zip(&self.edits).map(parse).collect()
    }
}

fn edit_file(path: ManagedPath, edits: &[Edit], cx: &Context<'_>) -> Result<Checked> {
    let file = TextFile { path, owner: None, mode: 0o600, in_place: InPlace::Refuse };
    let mut failed = None;
    let checked = file.edit(cx, |content| {
        failed = None;
        let edited = match content {
            // Another resource may be about to make it, and only a run that changes things can tell.
            None if cx.may_come(Needed::Path(file.path.as_bytes())) => return Some(Vec::new()),
            None => Err(Error::new(format_args!("there is no file {}", file.path)).with_hint(
                "declare a file of this path with `{}` as its content, or let a package bring it",
            )),
            Some(content) => document::edited(content, edits)
                .map_err(|why| Error::new(format_args!("{}: {why}", file.path))),
        };
        match edited {
            Ok(new) => new,
            Err(error) => {
                failed = Some(error);
                None
            }
        }
    });
    match failed {
        Some(error) => Err(error),
        None => checked,
    }
}

async fn edit_key(key: &Str, edits: &[Edit], cx: &Context<'_>) -> Result<Checked> {
    let strings = cx.host.strings();
    loop {
        let present = tokio::select! {
            present = strings.shared(key) => present.context("cannot read the key")?,
            () = cx.cancel.cancelled() => return Err(Error::Cancelled),
        };
        let document = present.clone().unwrap_or_else(|| "{}".into());
        let edited =
            document::edited(&document, edits).map_err(|why| Error::new(format_args!("{key:?}: {why}")))?;
        let Some(new) = edited else { return Ok(Checked::Right) };
        cx.effects.clear();
        cx.describe(Effect { private: true, ..Effect::change(key.display()).aspect("key") });
        if !cx.apply {
            return Ok(Checked::Changed);
        }
        cx.checkpoint()?;
        // Whoever edits the same document meanwhile, on this host or another, is not undone: we look again.
        let new = Str::from(new);
        tokio::select! {
            replaced = strings.replace_shared(key, present.as_ref(), &new) => {
                if replaced.context("cannot change the key")? {
                    return Ok(Checked::Changed);
                }
            }
            () = cx.cancel.cancelled() => return Err(Error::Cancelled),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(store: &str, edits: &[&str]) -> JsonEdit {
        JsonEdit { store: store.into(), edits: edits.iter().map(|edit| Str::from(*edit)).collect() }
    }

    #[test]
    fn bad_parameters_are_refused() {
        let refused = |json: &JsonEdit| Kind::validate(json, &Str::EMPTY).unwrap_err();
        assert_eq!(refused(&json("", &[".a = 1"])).field, Some("store"));
        assert_eq!(refused(&json("/a", &[])).field, Some("edits"));
        let wrong = refused(&json("/a", &[".a = 1", "nonsense"]));
        assert!(wrong.message.contains("number 2, \"nonsense\""), "{wrong}");
        assert!(Kind::validate(&json("", &[".a = 1"]), &"/a".into()).is_ok());
    }

    #[test]
    fn only_a_file_has_a_place_among_others() {
        let name = Str::from("name");
        assert_eq!(Kind::wants(&json("file:///a/b", &[".a = 1"]), &name).len(), 2);
        assert!(Kind::wants(&json("etcd:///a/b", &[".a = 1"]), &name).is_empty());
        assert!(json("file:///a", &[".a = 1"]).equivalent(&name, &json("/a", &[".a = 1"])));
        assert!(!json("/a", &[".a = 1", ".b = 1"]).equivalent(&name, &json("/a", &[".b = 1", ".a = 1"])));
    }
}
