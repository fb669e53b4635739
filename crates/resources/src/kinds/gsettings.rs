//! `gsettings`: settings of desktops and their programs.
//!
//! [`Gsettings`] is the declaration. `variant` reads and writes values in the form that settings have, `session` says for whom and
//! in which environment the program `gsettings` runs, `check` runs it.
//!
//! Invariants
//! - Values are compared by what they mean, not by how they are spelled: `5`, `uint32 5` and `0x5` are the same.
//! - What was set is read again before it counts as set: the program says nothing if nobody has stored it.
//! - Nothing is asked for repeatedly: each change of the file in which a user's settings are stored is an event.
//!
//! Deliberately absent: removing a setting, so that the default holds.

mod check;
mod session;
mod variant;

use mgmt_resource::{
    Checked, Context, Identity, Invalid, Kind, Nothing, Order, Resource, Result, Want, Watch,
};
use mgmt_value::{Str, Value};

use self::variant::Variant;
use crate::support::{account, follow};

/// Keeps a setting of a desktop, or of a program that stores its settings in the same way, as `gsettings set` would set it.
///
/// The name of the resource may be schema and key with a blank between, as in `org.gnome.desktop.interface clock-show-date`. They have
/// to be installed.
///
/// The setting is that of one user. If the user has a session, it is set there, so that programs that run see it at once; else it is
/// stored for the next session. When the user, or somebody else, changes it, it is set again at once.
///
/// The resource comes after the `user` and the `group` that it names, and after the `pkg` or the `file` that brings the schema.
///
/// ```mcl
/// gsettings "org.gnome.desktop.interface clock-show-date" {
///     value => true,
///     user => "ada",
/// }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Resource)]
#[resource(kind = "gsettings", edges, receive)]
pub struct Gsettings {
    /// The schema, such as `org.gnome.desktop.interface`. One that is used in several places is followed by a colon and the place:
    /// `org.example.profile:/org/example/first/`. If it is left out, it is the first word of the resource's name.
    pub schema: Str,
    /// The key in the schema, such as `clock-show-date`. If it is left out, it is the second word of the resource's name.
    pub key: Str,
    /// What `value` is: `bool`, `str`, `int`, or `custom` for a text in the form that `gsettings get` shows, such as
    /// `['a', 'b']` or `uint32 5`. If it is left out, `value` is taken for what it is: also a float, a list or a map.
    pub r#type: Str,
    /// The value.
    pub value: Option<Value>,
    /// The user whose setting it is, by name or number. If it is left out, it is the one that runs this program.
    pub user: Str,
    /// The group that the setting is made as, by name or number. If it is left out, it is the one of the user.
    pub group: Str,
}

/// A value as it is declared.
#[derive(Clone, Debug)]
struct Wanted {
    variant: Variant,
    /// What the program is given.
    text: String,
    /// The text is somebody's own.
    is_custom: bool,
}

impl Wanted {
    /// Whether this is the value. A text of one's own that is no value is short for a text, as it is for the program itself.
    fn is(&self, found: &Variant) -> bool {
        self.variant == *found
            || (self.is_custom && matches!(found, Variant::Text(found) if *found == self.text))
    }
}

impl PartialEq for Wanted {
    fn eq(&self, other: &Wanted) -> bool {
        self.variant == other.variant && (self.text == other.text || !(self.is_custom && other.is_custom))
    }
}

impl Kind for Gsettings {
    type State = ();
    type Sends = Nothing;

    fn validate(&self, name: &Str) -> Result<(), Invalid> {
        let (schema, key) = self.names(name)?;
        check_schema(&schema)?;
        check_key(&key)?;
        for (field, account) in [("user", &self.user), ("group", &self.group)] {
            if account.contains(&0) {
                return Err(Invalid::field(field, "has a character that no name has"));
            }
        }
        self.wanted().map(|_| ())
    }

    fn watches(&self, _: &Str) -> Vec<Watch> {
        let user = self.user.clone();
        let key = Str::from([b"gsettings ", user.as_bytes()].concat());
        vec![follow::paths(key, move || session::stored_in(&user))]
    }

    async fn check_apply(&self, (): &mut (), cx: &mut Context<'_>) -> Result<Checked> {
        check::check(self, cx).await
    }

    fn wants(&self, name: &Str) -> Vec<Want> {
        let program = Str::from("/usr/bin/gsettings");
        let mut before = vec![Identity::PackageFile(program.clone()), Identity::Path(program)];
        if !self.user.is_empty() {
            before.push(account::user_identity(&self.user));
        }
        if !self.group.is_empty() {
            before.push(account::group_identity(&self.group));
        }
        if let Ok((schema, _)) = self.names(name) {
            let id = schema.split(':').next().unwrap_or_default();
            let file = Str::from(format!("{}{id}.gschema.xml", session::SCHEMAS));
            before.extend([Identity::PackageFile(file.clone()), Identity::Path(file)]);
        }
        vec![Want::Each(Order::Before, before), Want::Below(session::ADMINISTRATOR.into())]
    }

    fn equivalent(&self, name: &Str, other: &Gsettings) -> bool {
        let plain = |gsettings: &Gsettings| Some((gsettings.names(name).ok()?, gsettings.wanted().ok()?));
        self == other
            || ((&self.user, &self.group) == (&other.user, &other.group)
                && plain(self).is_some_and(|plain_self| Some(plain_self) == plain(other)))
    }
}

impl Gsettings {
    /// Schema and key.
    fn names(&self, name: &Str) -> Result<(String, String), Invalid> {
        let text = name.to_text();
        let words: Vec<&str> = text.split_whitespace().collect();
        let word = |field: &'static str, declared: &Str, place: usize| {
            match (declared.is_empty(), words.as_slice()) {
            (false, _) => Ok(declared.to_text().into_owned()),
            (true, [_, _]) => Ok(words[place].to_owned()),
            (true, _) => Err(Invalid::field(field, "is missing")
                .with_hint("set it, or call the resource by schema and key: `org.gnome.desktop.interface clock-show-date`")),
        }
        };
        Ok((word("schema", &self.schema, 0)?, word("key", &self.key, 1)?))
    }

    /// The value that is declared.
    fn wanted(&self) -> Result<Wanted, Invalid> {
        let Some(value) = self.value.as_ref().filter(|value| **value != Value::Nil) else {
            return Err(Invalid::field("value", "is missing"));
        };
        let expected = |what: &str| {
            Invalid::field("value", format!("expected {what}, as `type` is {:?}, found {value}", self.r#type))
        };
        match (self.r#type.as_bytes(), value) {
            (b"bool", Value::Bool(_)) | (b"str", Value::Str(_)) | (b"int", Value::Int(_)) | (b"", _) => {
                let variant = Variant::of(value).map_err(|why| Invalid::field("value", why))?;
                Ok(Wanted { text: variant.to_string(), variant, is_custom: false })
            }
            (b"bool", _) => Err(expected("true or false")),
            (b"str", _) => Err(expected("a text")),
            (b"int", _) => Err(expected("a whole number")),
            (b"custom", Value::Str(text)) => {
                let Some(text) = text.as_str().filter(|text| !text.contains('\0')) else {
                    return Err(Invalid::field("value", "expected plain text"));
                };
                let variant = Variant::read(text).unwrap_or_else(|| Variant::Text(text.to_owned()));
                Ok(Wanted { variant, text: text.to_owned(), is_custom: true })
            }
            (b"custom", _) => Err(expected("a text in the form that `gsettings get` shows")),
            _ => Err(Invalid::field(
                "type",
                format!("expected `bool`, `str`, `int` or `custom`, found {:?}", self.r#type),
            )),
        }
    }
}

fn check_schema(schema: &str) -> Result<(), Invalid> {
    let (id, path) = schema.split_once(':').map_or((schema, None), |(id, path)| (id, Some(path)));
    let is_id = !id.is_empty()
        && !id.starts_with(['-', '.'])
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte));
    if !is_id {
        return Err(Invalid::field("schema", format!("{schema:?} is not the name of a schema"))
            .with_hint("gsettings list-schemas lists them"));
    }
    let is_path = |path: &str| {
        path.starts_with('/')
            && path.ends_with('/')
            && !path.contains("//")
            && !path.contains(char::is_control)
    };
    match path.is_none_or(is_path) {
        true => Ok(()),
        false => Err(Invalid::field("schema", format!("after the colon of {schema:?} there is no place"))
            .with_hint("a place begins and ends with a slash: `org.example.profile:/org/example/first/`")),
    }
}

fn check_key(key: &str) -> Result<(), Invalid> {
    let is_key = key.starts_with(|first: char| first.is_ascii_alphabetic())
        && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
    match is_key {
        true => Ok(()),
        false => Err(Invalid::field("key", format!("{key:?} is not the name of a key"))
            .with_hint("gsettings list-keys lists those of a schema")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "org.example.demo size";

    fn of(r#type: &str, value: Value) -> Gsettings {
        Gsettings { r#type: r#type.into(), value: Some(value), ..Gsettings::default() }
    }

    fn text(text: &str) -> Value {
        Value::Str(text.into())
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let field =
            |gsettings: &Gsettings, name: &str| Kind::validate(gsettings, &name.into()).unwrap_err().field;
        let fine = of("int", Value::Int(5));
        assert!(Kind::validate(&fine, &NAME.into()).is_ok());
        for wrong in ["", "org.example.demo", "a b c"] {
            assert_eq!(field(&fine, wrong), Some("schema"), "{wrong}");
        }
        for wrong in ["-x size", "a/b size", "a:b size", "a:/b size", "a:/b//c/ size"] {
            assert_eq!(field(&fine, wrong), Some("schema"), "{wrong}");
        }
        for wrong in ["a --help", "a b.c", "a 7"] {
            assert_eq!(field(&fine, wrong), Some("key"), "{wrong}");
        }
        for (r#type, value) in [
            ("bool", text("true")),
            ("str", Value::Int(1)),
            ("int", text("1")),
            ("custom", Value::Int(1)),
            ("custom", text("a\0")),
        ] {
            assert_eq!(field(&of(r#type, value), NAME), Some("value"), "{}", r#type);
        }
        assert_eq!(field(&of("uint", Value::Int(1)), NAME), Some("type"));
        assert_eq!(field(&Gsettings { r#type: "int".into(), ..Gsettings::default() }, NAME), Some("value"));
    }

    #[test]
    fn two_spellings_of_one_declaration_are_the_same() {
        let name = Str::from(NAME);
        let one = of("int", Value::Int(5));
        let spelled = Gsettings { schema: "org.example.demo".into(), key: "size".into(), ..one.clone() };
        assert!(one.equivalent(&name, &spelled));
        assert!(one.equivalent(&name, &of("custom", text("uint32 0x5"))));
        assert!(one.equivalent(&name, &of("", Value::Int(5))));
        assert!(!one.equivalent(&name, &of("str", text("5"))));
        assert!(!one.equivalent(&name, &of("int", Value::Int(6))));
        assert!(!one.equivalent(&name, &Gsettings { user: "joe".into(), ..one.clone() }));
        assert!(
            !of("", Value::Nil).equivalent(&name, &of("int", text("wrong"))),
            "what is wrong equals nothing"
        );
    }
}
