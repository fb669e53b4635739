//! `debconf`: answers to the questions that packages of Debian ask.
//!
//! [`Debconf`] is the declaration. `database` reads the files in which answers are stored, `program` has debconf's own programs change them.
//!
//! Invariants
//! - Looking starts no program and takes no lock.
//! - Answers reach the programs through their input, never through arguments, which everybody can see.
//! - An answer that was set is read again before it counts as set.
//!
//! Deliberately absent: databases elsewhere than in debconf's usual files, such as a directory service.

mod database;
mod program;

use mgmt_resource::{
    Checked, Context, Effect, Error, Identity, Invalid, Kind, Needed, Nothing, Order, Resource, Result, Want,
    Watch,
};
use mgmt_value::{Secret, Str};

use self::database::{Answer, FILES};
use self::program::{REMOVE, SET};
use crate::support::account::lookup;
use crate::support::presence::Presence;

/// The types of questions that debconf has.
const TYPES: [&[u8]; 8] =
    [b"boolean", b"multiselect", b"note", b"password", b"select", b"string", b"text", b"title"];

/// Keeps the answer to a question that a package of Debian or Ubuntu asks when it is installed or configured, so that it does not ask.
///
/// The name of the resource is the name of the question, such as `tzdata/Areas`. `debconf-show PACKAGE` lists the questions of a package that is
/// installed.
///
/// A package reads its answers when it is configured, so a `pkg` that needs one has to come after it: `Depend => Debconf["…"]`. What a package that is
/// installed already does about another answer is up to the package.
///
/// When somebody changes the answer, it is set again at once. While a package is being configured, debconf can change nothing; the resource then fails
/// and is tried again.
///
/// Only this implementation has this kind.
///
/// ```mcl
/// debconf "postfix/main_mailer_type" {
///     state => "exists",
///     type => "select",
///     value => "Local only",
/// }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Resource)]
#[resource(kind = "debconf", edges, receive)]
pub struct Debconf {
    /// `exists`: the question has this answer. `absent`: there is no such question of the package, and so no answer.
    pub state: Str,
    /// The question. If it is left out, it is the name of the resource.
    pub question: Str,
    /// The package that asks. If it is left out, it is the question up to the first slash.
    pub package: Str,
    /// What sort of question it is: `string`, `boolean`, `select`, `multiselect`, `password`, `note`, `text` or `title`.
    pub r#type: Str,
    /// The answer. That of a `boolean` is `true` or `false`; several ones of a `multiselect` are separated by a comma and a blank.
    pub value: Option<Str>,
    /// The answer to a question of the type `password`. It appears neither in logs nor in arguments of commands.
    #[field(secret)]
    pub password: Option<Secret<Str>>,
    /// Whether the question counts as asked already. If it is left out, it counts as asked when the answer is set, and is otherwise left as it is.
    pub seen: Option<bool>,
}

impl Kind for Debconf {
    type State = ();
    type Sends = Nothing;

    fn validate(&self, name: &Str) -> Result<(), Invalid> {
        let presence = Presence::read(&self.state)?;
        let question = self.question(name);
        if !is_word(question) {
            return Err(Invalid::field("question", format!("{question:?} is not the name of a question")));
        }
        let package = self.package(name);
        if !is_word(&package) || package.contains(&b'/') {
            return Err(Invalid::field("package", format!("{package:?} is not the name of a package"))
                .with_hint("the name of a question mostly begins with that of its package: `tzdata/Areas`"));
        }
        if presence == Presence::Absent {
            return match self.answer().is_some() || self.seen.is_some() {
                true => Err(Invalid::field("state", "a question that is absent has no answer")),
                false => Ok(()),
            };
        }
        self.validate_answer()
    }

    fn watches(&self, _: &Str) -> Vec<Watch> {
        FILES.map(|path| Watch::Path { path: path.into(), recursive: false }).into()
    }

    async fn check_apply(&self, (): &mut (), cx: &mut Context<'_>) -> Result<Checked> {
        let presence = Presence::read(&self.state).map_err(Error::new)?;
        let (question, package) = (self.question(&cx.id.name).clone(), self.package(&cx.id.name));
        let found = self.look(&question).await?;
        if self.is_right(presence, found.as_ref(), &package) {
            return Ok(Checked::Right);
        }
        let program = if presence == Presence::Exists { SET } else { REMOVE };
        if !program.is_installed() && !cx.may_come(Needed::Path(program.path.as_bytes())) {
            return Err(program.missing());
        }
        cx.describe(self.effect(presence, found.as_ref(), &question).presumed());
        if !cx.apply {
            return Ok(Checked::Changed);
        }
        cx.checkpoint()?;
        program.run(&package, &self.orders(presence, &question, &package), cx).await?;
        let found = self.look(&question).await?;
        if !self.is_right(presence, found.as_ref(), &package) {
            return Err(Error::new(format_args!(
                "debconf was asked to change {}, which is as before",
                question.display()
            ))
            .with_hint(
                "debconf may store its answers elsewhere (/etc/debconf.conf), or somebody else changes them",
            ));
        }
        cx.info(if presence == Presence::Exists { "answer set" } else { "question removed" });
        Ok(Checked::Changed)
    }

    fn wants(&self, _: &Str) -> Vec<Want> {
        let program = Str::from(SET.path);
        vec![Want::Each(Order::Before, vec![Identity::PackageFile(program.clone()), Identity::Path(program)])]
    }
}

impl Debconf {
    fn question<'a>(&'a self, name: &'a Str) -> &'a Str {
        if self.question.is_empty() { name } else { &self.question }
    }

    fn package(&self, name: &Str) -> Str {
        match self.package.is_empty() {
            true => self.question(name).split(|byte| *byte == b'/').next().unwrap_or_default().into(),
            false => self.package.clone(),
        }
    }

    fn is_password(&self) -> bool {
        self.r#type.as_bytes() == b"password"
    }

    fn answer(&self) -> Option<&Str> {
        self.value.as_ref().or_else(|| self.password.as_ref().map(Secret::reveal))
    }

    fn validate_answer(&self) -> Result<(), Invalid> {
        if !TYPES.contains(&self.r#type.as_bytes()) {
            let types = TYPES.map(|name| format!("`{}`", String::from_utf8_lossy(name))).join(", ");
            return Err(Invalid::field("type", format!("expected one of {types}, found {:?}", self.r#type)));
        }
        let (field, other) = match self.is_password() {
            true => ("password", self.value.is_some()),
            false => ("value", self.password.is_some()),
        };
        let Some(answer) = self.answer().filter(|_| !other) else {
            let why =
                format!("the answer to a question of the type {:?} goes here, and nowhere else", self.r#type);
            return Err(Invalid::field(field, why));
        };
        if answer.iter().any(|byte| matches!(byte, b'\n' | b'\r' | 0)) || answer.ends_with(b"\\") {
            return Err(Invalid::field(
                field,
                "has a line break, or a backslash at its end, which debconf cannot be told",
            ));
        }
        if answer.trim_ascii().len() != answer.len() {
            return Err(Invalid::field(field, "has white space at its beginning or end"));
        }
        let is_truth = matches!(answer.as_bytes(), b"true" | b"false");
        match self.r#type.as_bytes() == b"boolean" && !is_truth {
            true => Err(Invalid::field(field, format!("expected `true` or `false`, found {answer:?}"))),
            false => Ok(()),
        }
    }

    async fn look(&self, question: &Str) -> Result<Option<Answer>> {
        let question = question.clone();
        lookup(move || database::answer(&question)).await
    }

    fn is_right(&self, presence: Presence, found: Option<&Answer>, package: &Str) -> bool {
        match (presence, found) {
            (Presence::Absent, found) => found.is_none_or(|found| !found.owners.contains(package)),
            (Presence::Exists, None) => false,
            (Presence::Exists, Some(found)) => {
                found.value.as_ref() == self.answer() && self.seen.is_none_or(|seen| seen == found.seen)
            }
        }
    }

    fn effect(&self, presence: Presence, found: Option<&Answer>, question: &Str) -> Effect {
        let what = question.display();
        let (effect, after) = match (presence, found) {
            (Presence::Absent, _) => (Effect::remove(what), None),
            (Presence::Exists, None) => (Effect::create(what), self.answer()),
            (Presence::Exists, Some(_)) => (Effect::change(what), self.answer()),
        };
        // Of what type a question is that is to go, nobody says.
        if self.is_password() || found.is_some_and(|found| found.is_private) {
            return effect.secret();
        }
        let before = found.and_then(|found| found.value.as_ref());
        if before.is_some() && before == after {
            let seen = |seen: bool| if seen { "asked already" } else { "to be asked" };
            let (was, will) = (found.is_some_and(|found| found.seen), self.seen.unwrap_or_default());
            return effect.aspect("seen").before(seen(was)).after(seen(will));
        }
        let effect = match before {
            Some(before) => effect.before(before.display()),
            None => effect,
        };
        match after {
            Some(after) => effect.after(after.display()),
            None => effect,
        }
    }

    /// What the program is told.
    fn orders(&self, presence: Presence, question: &Str, package: &Str) -> Vec<u8> {
        let line = |words: &[&[u8]]| [&words.join(&b' '), &b"\n"[..]].concat();
        if presence == Presence::Absent {
            return line(&[b"UNREGISTER", question]);
        }
        let answer = self.answer().map(|answer| answer.as_bytes()).unwrap_or_default();
        let mut orders = line(&[package, question, &self.r#type, answer]);
        if let Some(seen) = self.seen {
            orders.extend(line(&[package, question, b"seen", if seen { b"true" } else { b"false" }]));
        }
        orders
    }
}

/// What debconf takes for one word.
fn is_word(text: &[u8]) -> bool {
    !text.is_empty() && !text.starts_with(b"#") && text.iter().all(u8::is_ascii_graphic)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn debconf() -> Debconf {
        Debconf {
            state: "exists".into(),
            r#type: "select".into(),
            value: Some("Europe".into()),
            ..Debconf::default()
        }
    }

    #[test]
    fn what_cannot_be_an_answer_is_refused_with_a_reason() {
        let absent = Debconf { state: "absent".into(), ..Debconf::default() };
        let secret = Debconf {
            r#type: "password".into(),
            value: None,
            password: Some(Secret::new("x".into())),
            ..debconf()
        };
        for right in [debconf(), absent.clone(), secret.clone()] {
            assert_eq!(Kind::validate(&right, &"tzdata/Areas".into()), Ok(()));
        }
        for (wrong, expected) in [
            (Debconf { state: "".into(), ..debconf() }, "`state`"),
            (Debconf { question: "a b".into(), ..debconf() }, "`question`"),
            (Debconf { package: "a/b".into(), ..debconf() }, "`package`"),
            (Debconf { r#type: "number".into(), ..debconf() }, "`type`"),
            (Debconf { r#type: "boolean".into(), ..debconf() }, "`true` or `false`"),
            (Debconf { value: None, ..debconf() }, "`value`"),
            (Debconf { value: Some("a\nb".into()), ..debconf() }, "line break"),
            (Debconf { value: Some("a\\".into()), ..debconf() }, "backslash"),
            (Debconf { value: Some(" a".into()), ..debconf() }, "white space"),
            (Debconf { r#type: "password".into(), ..debconf() }, "`password`"),
            (Debconf { r#type: "string".into(), ..secret }, "`value`"),
            (Debconf { seen: Some(true), ..absent }, "no answer"),
        ] {
            let found = Kind::validate(&wrong, &"tzdata/Areas".into()).unwrap_err().to_string();
            assert!(found.contains(expected), "{found}");
        }
    }

    #[test]
    fn orders_are_lines_of_words() {
        let (question, package) = (Str::from("tzdata/Areas"), debconf().package(&"tzdata/Areas".into()));
        let orders = |debconf: &Debconf, presence| {
            String::from_utf8(debconf.orders(presence, &question, &package)).unwrap()
        };
        assert_eq!(orders(&debconf(), Presence::Exists), "tzdata tzdata/Areas select Europe\n");
        let unseen = Debconf { seen: Some(false), ..debconf() };
        let expected = "tzdata tzdata/Areas select Europe\ntzdata tzdata/Areas seen false\n";
        assert_eq!(orders(&unseen, Presence::Exists), expected);
        assert_eq!(orders(&debconf(), Presence::Absent), "UNREGISTER tzdata/Areas\n");
    }
}
