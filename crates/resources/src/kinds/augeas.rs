//! `augeas`: values in configuration files, whatever their format.
//!
//! [`Augeas`] is the declaration. What edits is the program `augtool`, a process of its own: a file that is too much for it is not
//! too much for us.
//!
//! Invariants
//! - The program sees a copy alone, in a directory that is made for it: the file is read, compared and replaced by us, in one step,
//!   like any other that is edited. Of the host it opens its lenses, and writes nothing.
//! - What is declared goes to it as it is, whatever is in it, and nobody else gets to see it.
//! - What edits would change again in their own result is an error, and is not written.
//! - A text that was right is not looked at again.
//!
//! Deliberately absent: the tree of all files of the host, and moving and renaming of nodes.

mod answer;
mod augtool;
mod edit;
mod place;
mod script;

use mgmt_resource::{
    Checked, Context, Error, Identity, Invalid, Kind, Nothing, Order, Resource, Result, StructValue, Want,
    Watch,
};
use mgmt_sys::ManagedPath;
use mgmt_value::Str;

use crate::support::declared_path::output_path;
use script::Inexpressible;

pub use edit::Memory;

/// Sets values in a configuration file, and leaves the rest of it as it is.
///
/// This kind needs the program `augtool`, which is in the package augeas-tools (Debian, Ubuntu) or augeas (Fedora). It knows the formats
/// of some two hundred files. It makes a tree of each, whose nodes have paths, as XPath has them, and shows them:
/// `augtool print /files/etc/hosts`. Paths here begin below the file: `1/canonical`, not `/files/etc/hosts/1/canonical`.
///
/// The edits are made in this order: `rm`, `ins`, `clear`, `sets`, each list from its beginning. All is right if they change
/// nothing. Edits that would change their own result again are refused: a node that is inserted needs a way to tell that it is there,
/// which is `unless`.
///
/// A file that is not there is made, if the edits make something of an empty one. The file is replaced in one step and keeps its owner,
/// mode and attributes. A symbolic link is not followed.
///
/// Paths and values may have any letter, but of the control characters only tabs and newlines. In a path, brackets have to be balanced,
/// also those in quotes.
///
/// ```mcl
/// augeas "/etc/ssh/sshd_config" {
///     lens => "Sshd.lns",
///     sets => [
///         struct{
///             path => "PermitRootLogin",
///             value => "no",
///         },
///     ],
/// }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Resource)]
#[resource(kind = "augeas", edges, receive)]
pub struct Augeas {
    /// The file; the name if it is not given.
    pub file: Str,
    /// The description of its format: a module and a lens, like `Sshd.lns`. Only this one is read.
    pub lens: Str,
    /// Nodes that are to have a value. One that is not there is made.
    pub sets: Vec<AugeasSet>,
    /// Paths of nodes that are not to be there.
    pub rm: Vec<Str>,
    /// Nodes that are to be put beside others.
    pub ins: Vec<AugeasInsert>,
    /// Paths of nodes that are to be there without a value.
    pub clear: Vec<Str>,
}

/// A node and its value.
#[derive(Clone, Debug, Default, PartialEq, StructValue)]
pub struct AugeasSet {
    /// Its path.
    pub path: Str,
    /// The value.
    pub value: Str,
}

/// A node that is put beside another.
#[derive(Clone, Debug, Default, PartialEq, StructValue)]
pub struct AugeasInsert {
    /// The last part of the path of the new node.
    pub label: Str,
    /// The path of the node beside it.
    pub path: Str,
    /// Before that node, and not behind it.
    pub before: bool,
    /// A path. If there is such a node, nothing is inserted.
    pub unless: Str,
}

impl Kind for Augeas {
    type State = Memory;
    type Sends = Nothing;

    fn validate(&self, name: &Str) -> Result<(), Invalid> {
        self.path(name)?;
        self.check_lens()?;
        for set in &self.sets {
            check_path("sets", &set.path)?;
            check_text("sets", &set.value)?;
        }
        for insert in &self.ins {
            check_path("ins", &insert.path)?;
            if !insert.unless.is_empty() {
                check_path("ins", &insert.unless)?;
            }
            check_text("ins", &insert.label)?;
            if insert.label.is_empty() || insert.label.contains(&b'/') {
                let message = format!("expected the name of a node, found {:?}", insert.label);
                return Err(Invalid::field("ins", message));
            }
        }
        self.rm.iter().try_for_each(|path| check_path("rm", path))?;
        self.clear.iter().try_for_each(|path| check_path("clear", path))
    }

    fn watches(&self, name: &Str) -> Vec<Watch> {
        let path = self.path(name).ok();
        path.map(|path| Watch::Path { path: path.as_bytes().into(), recursive: false }).into_iter().collect()
    }

    async fn check_apply(&self, memory: &mut Memory, cx: &mut Context<'_>) -> Result<Checked> {
        let path = self.path(&cx.id.name).map_err(Error::new)?;
        let checked = edit::edit(self, path, memory, cx).await?;
        if checked == Checked::Changed && cx.apply {
            cx.info("edited");
        }
        Ok(checked)
    }

    fn provides(&self, _: &Str) -> Vec<Identity> {
        Vec::new()
    }

    fn wants(&self, name: &Str) -> Vec<Want> {
        let Ok(path) = self.path(name) else { return Vec::new() };
        let path = Str::from(path.as_bytes());
        let before = vec![Identity::Path(path.clone()), Identity::PackageFile(path.clone())];
        vec![Want::Each(Order::Before, before), Want::ParentOf(path)]
    }

    fn equivalent(&self, name: &Str, other: &Augeas) -> bool {
        let plain = |augeas: &Augeas| {
            let path = augeas.path(name).ok().map(|path| Str::from(path.as_bytes()));
            Augeas { file: path.unwrap_or_default(), ..augeas.clone() }
        };
        self == other || plain(self) == plain(other)
    }
}

impl Augeas {
    fn path(&self, name: &Str) -> Result<ManagedPath, Invalid> {
        output_path(&self.file, name).map_err(|invalid| Invalid { field: Some("file"), ..invalid })
    }

    fn check_lens(&self) -> Result<(), Invalid> {
        let hint = "a lens is written like `Sshd.lns`; they are in /usr/share/augeas/lenses/dist";
        let message = match self.lens.strip_suffix(b".lns") {
            _ if self.lens.is_empty() => "is missing; expected the description of the format".to_owned(),
            // No part of a path, so that nothing but the places for lenses is looked at.
            Some(module)
                if !module.is_empty()
                    && module.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_') =>
            {
                return Ok(());
            }
            _ => format!("expected the name of a module and `.lns`, found {:?}", self.lens),
        };
        Err(Invalid::field("lens", message).with_hint(hint))
    }
}

fn check_path(field: &'static str, path: &Str) -> Result<(), Invalid> {
    check_null(field, path)?;
    if path.trim_ascii().is_empty() {
        return Err(Invalid::field(field, "expected the path of a node, found none"));
    }
    script::path(path)
        .map(|_| ())
        .map_err(|Inexpressible(why)| Invalid::field(field, format!("cannot use the path {:?}: {why}", path)))
}

fn check_text(field: &'static str, text: &Str) -> Result<(), Invalid> {
    check_null(field, text)?;
    // What it is may be a secret.
    script::value(text).map(|_| ()).map_err(|Inexpressible(why)| Invalid::field(field, why))
}

fn check_null(field: &'static str, text: &Str) -> Result<(), Invalid> {
    match text.contains(&0) {
        true => Err(Invalid::field(field, "has a null byte, which no configuration file can have")),
        false => Ok(()),
    }
}
