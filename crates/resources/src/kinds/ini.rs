//! `ini`: one setting of an INI file.
//!
//! [`Ini`] is the declaration. `edit` finds, sets and removes a setting in some bytes, `items` does the same with an item of a setting that is a
//! list; both know nothing of files. `text_file` reads and replaces the file.
//!
//! Invariants
//! - Nothing but the declared setting changes: not the order of lines, not comments, not blank lines.
//! - The file is replaced in one step, and only if it still is what was read.
//!
//! Deliberately absent: quoting and escaping of values, which every reader of such files has its own rules for.

mod edit;
mod items;

use mgmt_resource::{
    Checked, Context, Error, Identity, Invalid, Kind, Nothing, Order, Resource, Result, Want, Watch,
};
use mgmt_sys::ManagedPath;
use mgmt_sys::replace::InPlace;
use mgmt_value::Str;

use crate::support::presence::Presence;
use crate::support::text_file::TextFile;
use edit::Format;
use items::{Items, Place};

/// The mode of a file that we make.
const MODE: u32 = 0o644;

/// Manages one setting of an INI file, and leaves the rest of the file as it is.
///
/// A setting that is there is changed in its line. A new one goes behind a line that has it commented out, or else to the end of its section; a
/// section that is not there is added at the end of the file. A file that is not there is made. Removing the last line of a section removes
/// the section.
///
/// With `item`, the setting is a list, such as the flags of a command, and one item of it is managed.
///
/// Only this implementation has this kind.
///
/// ```mcl
/// ini "memory" {
///     file => "/etc/php.ini",
///     state => "exists",
///     section => "PHP",
///     setting => "memory_limit",
///     value => "512M",
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Resource)]
#[resource(kind = "ini", edges, receive, blocking)]
pub struct Ini {
    /// The file: an absolute path.
    pub file: Str,
    /// `exists`: the setting, or the item, is to be there. `absent`: it is not to be there.
    pub state: Str,
    /// The section. Empty, the setting is before the first section.
    pub section: Str,
    /// The name of the setting.
    pub setting: Str,
    /// The value, or the value of the item. Unset, an item may have any value, and a new one has none.
    pub value: Option<Str>,
    /// What is written between the name and the value of a new setting. Without blanks around it, it is one letter or sign, or nothing but
    /// blanks; that letter also separates names from values in the file.
    pub separator: Str,
    /// What is before the name of a section in its header.
    pub prefix: Str,
    /// What is behind it.
    pub suffix: Str,
    /// What is written before a new setting. Unset, as many spaces as the other settings of the section have.
    pub indent: Option<Str>,
    /// The name of an item, `-Xmx` for example. Empty, the setting is no list.
    pub item: Str,
    /// What separates items: one sign, or a space.
    pub itemseparator: Str,
    /// What is between the name of an item and its value.
    pub itemjoin: Str,
    /// Quotes around a new list: `"`, `'` or nothing. Quotes that are there stay.
    pub itemquote: Str,
    /// Items have no values, and one is told by its whole text.
    pub itemexact: bool,
    /// Where a new item goes: `end`, `start`, `before` or `after` the item that `itemother` names.
    pub itemplace: Str,
    /// The name of another item, for `itemplace`.
    pub itemother: Str,
}

impl Default for Ini {
    fn default() -> Ini {
        Ini {
            file: Str::EMPTY,
            state: Str::EMPTY,
            section: Str::EMPTY,
            setting: Str::EMPTY,
            value: None,
            separator: " = ".into(),
            prefix: "[".into(),
            suffix: "]".into(),
            indent: None,
            item: Str::EMPTY,
            itemseparator: " ".into(),
            itemjoin: Str::EMPTY,
            itemquote: Str::EMPTY,
            itemexact: false,
            itemplace: "end".into(),
            itemother: Str::EMPTY,
        }
    }
}

impl Kind for Ini {
    type State = ();
    type Sends = Nothing;

    fn validate(&self, _: &Str) -> Result<(), Invalid> {
        self.managed_path()?;
        let presence = Presence::read(&self.state)?;
        if self.setting.trim_ascii().is_empty() || self.setting.trim_ascii() != self.setting.as_bytes() {
            return Err(Invalid::field("setting", "expected a name without blanks around it"));
        }
        if presence == Presence::Exists && self.value.is_none() && self.item.is_empty() {
            return Err(Invalid::field("value", "is missing"));
        }
        for (field, text) in self.texts() {
            if text.iter().any(|byte| matches!(byte, b'\n' | b'\r' | 0)) {
                return Err(Invalid::field(field, format!("{text:?} is more than one line")));
            }
        }
        if self.separator.is_empty() || self.separator.trim_ascii().len() > 1 {
            let found = format!(
                "expected one letter or sign with or without blanks around it, found {:?}",
                self.separator
            );
            return Err(Invalid::field("separator", found));
        }
        if self.prefix.is_empty() || self.suffix.is_empty() {
            return Err(Invalid::field("prefix", "what is around the name of a section is empty"));
        }
        if self.itemseparator.len() != 1 || !matches!(self.itemquote.as_bytes(), b"" | b"\"" | b"'") {
            return Err(Invalid::field("itemseparator", "expected one sign, and quotes or none"));
        }
        self.place().map(|_| ())
    }

    fn watches(&self, _: &Str) -> Vec<Watch> {
        let path = self.managed_path().ok();
        path.map(|path| Watch::Path { path: path.as_bytes().into(), recursive: false }).into_iter().collect()
    }

    async fn check_apply(&self, (): &mut (), cx: &mut Context<'_>) -> Result<Checked> {
        let presence = Presence::read(&self.state).map_err(Error::new)?;
        let place = self.place().map_err(Error::new)?;
        let path = self.managed_path().map_err(Error::new)?;
        let file = TextFile { path, owner: None, mode: MODE, in_place: InPlace::Refuse };
        let checked = file.edit(cx, |text| self.changed(text.unwrap_or_default(), presence, place))?;
        if checked == Checked::Changed && cx.apply {
            cx.info(if presence == Presence::Exists { "setting changed" } else { "setting removed" });
        }
        Ok(checked)
    }

    fn wants(&self, _: &Str) -> Vec<Want> {
        let Ok(path) = self.managed_path() else { return Vec::new() };
        let path = Str::from(path.as_bytes());
        let before = vec![Identity::Path(path.clone()), Identity::PackageFile(path.clone())];
        vec![Want::Each(Order::Before, before), Want::ParentOf(path)]
    }
}

impl Ini {
    fn managed_path(&self) -> Result<ManagedPath, Invalid> {
        let path = ManagedPath::new(&self.file).map_err(|error| Invalid::field("file", error.to_string()))?;
        match path.is_directory() {
            true => Err(Invalid::field(
                "file",
                format!("{:?} ends in a slash, which means a directory", self.file),
            )),
            false => Ok(path),
        }
    }

    /// Every text that becomes part of a line.
    fn texts(&self) -> impl Iterator<Item = (&'static str, &Str)> {
        let given = [
            ("section", &self.section),
            ("setting", &self.setting),
            ("separator", &self.separator),
            ("prefix", &self.prefix),
            ("suffix", &self.suffix),
            ("item", &self.item),
            ("itemseparator", &self.itemseparator),
            ("itemjoin", &self.itemjoin),
        ];
        let value = self.value.iter().map(|value| ("value", value));
        given.into_iter().chain(value).chain(self.indent.iter().map(|indent| ("indent", indent)))
    }

    fn place(&self) -> Result<Place<'_>, Invalid> {
        match self.itemplace.as_bytes() {
            b"end" => Ok(Place::End),
            b"start" => Ok(Place::Start),
            b"before" => Ok(Place::Before(&self.itemother)),
            b"after" => Ok(Place::After(&self.itemother)),
            _ => {
                let found =
                    format!("expected `end`, `start`, `before` or `after`, found {:?}", self.itemplace);
                Err(Invalid::field("itemplace", found))
            }
        }
    }

    /// The text as it is to be. Nothing if that is as it is.
    fn changed(&self, text: &[u8], presence: Presence, place: Place<'_>) -> Option<Vec<u8>> {
        let format = Format {
            separator: &self.separator,
            prefix: &self.prefix,
            suffix: &self.suffix,
            indent: self.indent.as_ref().map(|indent| indent.as_bytes()),
        };
        let now = format.get(text, &self.section, &self.setting);
        let value = self.value.as_ref().map(|value| value.as_bytes());
        if self.item.is_empty() {
            return match presence {
                Presence::Exists if now.as_deref() == value => None,
                Presence::Exists => {
                    Some(format.set(text, &self.section, &self.setting, value.unwrap_or_default()))
                }
                Presence::Absent => now.map(|_| format.removed(text, &self.section, &self.setting)),
            };
        }
        let items = Items {
            separator: self.itemseparator.first().copied().unwrap_or(b' '),
            join: &self.itemjoin,
            quote: &self.itemquote,
            exact: self.itemexact,
        };
        match presence {
            Presence::Exists => {
                let list = items.with(now.as_deref(), &self.item, value, place)?;
                Some(format.set(text, &self.section, &self.setting, &list))
            }
            Presence::Absent => match items.without(&now?, &self.item)? {
                list if list.is_empty() => Some(format.removed(text, &self.section, &self.setting)),
                list => Some(format.set(text, &self.section, &self.setting, &list)),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ini() -> Ini {
        Ini {
            file: "/etc/x.ini".into(),
            state: "exists".into(),
            section: "s".into(),
            setting: "a".into(),
            value: Some("1".into()),
            ..Ini::default()
        }
    }

    #[test]
    fn what_cannot_be_a_setting_is_refused_with_a_reason() {
        assert!(Kind::validate(&ini(), &"x".into()).is_ok());
        for (wrong, expected) in [
            (Ini { file: "x".into(), ..ini() }, "slash"),
            (Ini { file: "/x/".into(), ..ini() }, "directory"),
            (Ini { state: "".into(), ..ini() }, "`state`"),
            (Ini { setting: " a".into(), ..ini() }, "blanks"),
            (Ini { value: None, ..ini() }, "`value`"),
            (Ini { value: Some("a\nb".into()), ..ini() }, "more than one line"),
            (Ini { separator: "=>".into(), ..ini() }, "`separator`"),
            (Ini { prefix: "".into(), ..ini() }, "`prefix`"),
            (Ini { itemplace: "top".into(), ..ini() }, "`itemplace`"),
            (Ini { itemseparator: ", ".into(), ..ini() }, "`itemseparator`"),
        ] {
            let found = Kind::validate(&wrong, &"x".into()).unwrap_err().to_string();
            assert!(found.contains(expected), "{found}");
        }
    }

    #[test]
    fn a_change_is_its_own_fixed_point() {
        let texts = ["", "a=1\n", "[s]\na = 2\n", "[s]\n;a = 1\n\n[t]\na=3", "x\n[s]\nb=1\n\n\n"];
        let list = Ini { item: "-x".into(), value: Some("2".into()), ..ini() };
        for ini in [ini(), Ini { section: "".into(), ..ini() }, Ini { separator: " ".into(), ..ini() }, list]
        {
            for text in texts {
                for presence in [Presence::Exists, Presence::Absent] {
                    let new = ini.changed(text.as_bytes(), presence, Place::End);
                    let new = new.unwrap_or_else(|| text.as_bytes().to_vec());
                    assert_eq!(ini.changed(&new, presence, Place::End), None, "{ini:?} {text:?}");
                }
            }
        }
    }
}
