//! `http:server:ui:input`: a value that people can change.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mgmt_resource::{
    Checked, Context, Declared, Error, Fields, Host, Invalid, Kind, Resource, Result, ResultExt, Scope,
    SharedStoreError, Watch,
};
use mgmt_value::{Str, Value};
use tokio::sync::watch;

use super::board::{Board, Lease, bell};
use super::{lock, or_name, request};
use crate::support::follow;

/// How long the store may take to answer.
const LIMIT: Duration = Duration::from_secs(5);
/// The longest value that can be posted.
const LONGEST: usize = 64 * 1024;

/// A value that people can change on a page of a web server.
///
/// The value is sent to the resources that receive it. It begins with `value`, and what is posted takes its place until
/// `value` is declared anew; or it is kept in a store, where others can change it, too, and where it is found
/// after a restart.
///
/// Without an `http:server:ui` it is on no page, and sends the value that it has.
///
/// ```mcl
/// http:server "127.0.0.1:8080" {}
/// http:server:ui "/settings/" {}
/// http:server:ui:input "volume" {
///     type => "range://?min=0&max=10&step=1",
///     store => "local://?key=volume",
/// }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Resource)]
#[resource(kind = "http:server:ui:input", group, send)]
pub struct HttpServerUiInput {
    /// The name of the `http:server:ui` that shows it; any if it is not given.
    pub path: Str,
    /// What it is called on the page; the name if it is not given. No two of a page have the same.
    pub id: Str,
    /// The value to begin with. Not together with `store`.
    pub value: Str,
    /// Where the value is kept: `local://?key=KEY` for a value of this host, as the `value` resource keeps it, or
    /// `world://?key=KEY` for one that hosts share, as the `kv` resource keeps it. Without the key it is the name.
    pub store: Str,
    /// How it is shown: `text://`, which it is if nothing is given, or `range://?min=0&max=5&step=1` for a whole number between
    /// two others.
    pub r#type: Str,
    /// Inputs are shown in the order of this, then of their names.
    pub sort: Str,
}

/// What an `http:server:ui:input` sends.
#[derive(Clone, Debug, Default, Fields)]
pub struct HttpServerUiInputSends {
    /// The value as it is now.
    pub value: Option<Str>,
}

/// What an input remembers.
#[derive(Default)]
pub struct HttpServerUiInputState {
    lease: Option<Lease>,
}

/// An input as it is shown.
pub(super) struct Input {
    /// The resource.
    pub(super) resource: mgmt_resource::Id,
    /// The name of the page; empty: any.
    pub(super) page: Str,
    pub(super) id: Str,
    pub(super) sort: Str,
    pub(super) shape: Shape,
    pub(super) live: Arc<Live>,
}

/// The value of an input. It stays when the input is declared anew.
#[derive(Default)]
pub(super) struct Live {
    now: Mutex<Now>,
    /// How often the value has changed.
    pub(super) changes: watch::Sender<u64>,
}

#[derive(Default)]
struct Now {
    value: Str,
    /// Somebody has posted the value, and those who receive do not have it yet.
    posted: bool,
    /// The value to begin with, as it was declared last.
    declared: Option<Str>,
    /// What those who receive have.
    sent: Option<Str>,
}

impl Live {
    pub(super) fn value(&self) -> Str {
        lock(&self.now).value.clone()
    }

    /// Somebody has posted a value.
    pub(super) fn post(&self, value: Str) {
        {
            let mut now = lock(&self.now);
            now.value = value;
            now.posted = true;
        }
        self.changes.send_modify(|changes| *changes += 1);
    }

    fn posted(&self) -> Option<Str> {
        let now = lock(&self.now);
        now.posted.then(|| now.value.clone())
    }

    /// The declaration says this value. If it says something new, that holds, unless somebody has just posted another.
    fn declare(&self, value: &Str) {
        let mut now = lock(&self.now);
        if now.declared.as_ref() == Some(value) {
            return;
        }
        now.declared = Some(value.clone());
        if !now.posted && now.value != *value {
            now.value = value.clone();
            drop(now);
            self.changes.send_modify(|changes| *changes += 1);
        }
    }

    /// The store has this value.
    fn adopt(&self, value: Str) {
        let mut now = lock(&self.now);
        if now.posted || now.value == value {
            return;
        }
        now.value = value;
        drop(now);
        self.changes.send_modify(|changes| *changes += 1);
    }

    /// The value to send, and whether those who receive had another. Whether what was posted is in its place by now is for
    /// the caller to say.
    fn take(&self, is_kept: impl FnOnce(&Str) -> bool) -> (Str, bool) {
        let mut now = lock(&self.now);
        now.posted &= !is_kept(&now.value);
        let value = now.value.clone();
        let changed = now.sent.replace(value.clone()).is_some_and(|sent| sent != value);
        (value, changed)
    }
}

/// How an input is shown.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Shape {
    Text,
    Range { min: Option<i64>, max: Option<i64>, step: Option<i64> },
}

impl Shape {
    fn read(text: &Str) -> Result<Shape, Invalid> {
        let wrong = |why: String| {
            Invalid::field("type", why).with_hint("write `text://`, or `range://?min=0&max=5&step=1`")
        };
        if text.is_empty() {
            return Ok(Shape::Text);
        }
        let (scheme, query) =
            uri(text).ok_or_else(|| wrong(format!("expected `text://` or `range://`, found {text:?}")))?;
        let number = |name: &str| match request::field(query, name.as_bytes()) {
            None => Ok(None),
            Some(value) => match std::str::from_utf8(&value).ok().and_then(|value| value.parse::<i64>().ok())
            {
                Some(number) => Ok(Some(number)),
                None => {
                    Err(wrong(format!("expected a whole number for `{name}`, found {:?}", Str::new(value))))
                }
            },
        };
        match scheme {
            b"text" => Ok(Shape::Text),
            b"range" => {
                let (min, max, step) = (number("min")?, number("max")?, number("step")?);
                if min.zip(max).is_some_and(|(min, max)| min > max) {
                    return Err(wrong("`min` is larger than `max`".to_owned()));
                }
                if step.is_some_and(|step| step < 1) {
                    return Err(wrong("`step` is less than 1".to_owned()));
                }
                Ok(Shape::Range { min, max, step })
            }
            _ => Err(wrong(format!("expected `text://` or `range://`, found {text:?}"))),
        }
    }

    /// Why a value cannot be.
    pub(super) fn refuses(&self, value: &[u8]) -> Option<String> {
        if value.len() > LONGEST {
            return Some(format!("the value is longer than {LONGEST} bytes"));
        }
        let Shape::Range { min, max, step } = *self else { return None };
        let number = std::str::from_utf8(value).ok().and_then(|value| value.parse::<i64>().ok());
        let Some(number) = number else { return Some("expected a whole number".to_owned()) };
        if min.is_some_and(|min| number < min) || max.is_some_and(|max| number > max) {
            let end = |end: Option<i64>| end.map(|end| end.to_string()).unwrap_or_default();
            return Some(format!("expected a number from {} to {}", end(min), end(max)));
        }
        let from = i128::from(min.unwrap_or(0));
        match step {
            Some(step) if (i128::from(number) - from) % i128::from(step) != 0 => {
                Some(format!("expected a number in steps of {step} from {from}"))
            }
            _ => None,
        }
    }
}

/// Where a value is kept.
#[derive(Clone, Debug, PartialEq)]
enum Store {
    Local(Str),
    World(Str),
}

impl Store {
    fn read(text: &Str, name: &Str) -> Result<Option<Store>, Invalid> {
        if text.is_empty() {
            return Ok(None);
        }
        let wrong = || {
            let message = format!("expected `local://?key=KEY` or `world://?key=KEY`, found {text:?}");
            Invalid::field("store", message)
        };
        let (scheme, query) = uri(text).ok_or_else(wrong)?;
        let key = request::field(query, b"key").map(Str::from).filter(|key| !key.is_empty());
        let key = key.unwrap_or_else(|| name.clone());
        match scheme {
            b"local" => Ok(Some(Store::Local(key))),
            b"world" => Ok(Some(Store::World(key))),
            _ => Err(wrong()),
        }
    }

    async fn get(&self, host: &Host) -> Result<Option<Str>> {
        match self {
            Store::Local(key) => match host.local.value_get(key).context("cannot read the value")? {
                None => Ok(None),
                Some(Value::Str(value)) => Ok(Some(value)),
                Some(other) => Err(Error::new(format_args!(
                    "the value that is kept under {key:?} is not a str: {other:?}"
                ))
                .with_hint("use another key, or keep a str there")),
            },
            Store::World(key) => {
                let strings = host.strings();
                in_time("read", strings.shared(key)).await
            }
        }
    }

    async fn set(&self, host: &Host, value: &Str) -> Result<()> {
        match self {
            Store::Local(key) => {
                host.local
                    .value_set(key, Some(&Value::Str(value.clone())))
                    .context("cannot keep the value")?;
            }
            Store::World(key) => {
                let strings = host.strings();
                in_time("change", strings.set_shared(key, Some(value))).await?;
            }
        }
        Ok(())
    }

    fn watch(&self) -> Watch {
        match self {
            Store::Local(key) => follow::stored_value(key),
            Store::World(key) => {
                follow::shared_value(Str::from(format!("{self:?}")), key.clone(), Scope::Shared)
            }
        }
    }
}

/// Waits for the store, but not for ever.
async fn in_time<T>(what: &str, call: impl Future<Output = Result<T, SharedStoreError>>) -> Result<T> {
    match tokio::time::timeout(LIMIT, call).await {
        Ok(answer) => answer.context(format_args!("cannot {what} the value")),
        Err(_) => Err(Error::new(format_args!(
            "cannot {what} the value: the store has not answered within {} seconds",
            LIMIT.as_secs()
        ))),
    }
}

/// The scheme and the query of an address like `scheme://anything?query`.
fn uri(text: &Str) -> Option<(&[u8], &[u8])> {
    let at = text.windows(3).position(|window| window == b"://")?;
    let (scheme, rest) = (&text[..at], &text[at + 3..]);
    let query = rest.iter().position(|byte| *byte == b'?').map_or(&[][..], |at| &rest[at + 1..]);
    Some((scheme, query))
}

impl Kind for HttpServerUiInput {
    type State = HttpServerUiInputState;
    type Sends = HttpServerUiInputSends;

    fn validate(&self, name: &Str) -> Result<(), Invalid> {
        if self.id(name).is_empty() {
            return Err(Invalid::field("id", "is empty"));
        }
        if !self.value.is_empty() && !self.store.is_empty() {
            return Err(Invalid::new("`value` and `store` are both given")
                .with_hint("with a store the value is what is in the store"));
        }
        let shape = Shape::read(&self.r#type)?;
        Store::read(&self.store, name)?;
        match shape.refuses(&self.value) {
            Some(why) if !self.value.is_empty() => Err(Invalid::field("value", why)),
            _ => Ok(()),
        }
    }

    fn watches(&self, name: &Str) -> Vec<Watch> {
        let store = Store::read(&self.store, name).ok().flatten();
        [bell(HttpServerUiInput::KIND, name)].into_iter().chain(store.map(|store| store.watch())).collect()
    }

    async fn check_apply(&self, state: &mut HttpServerUiInputState, cx: &mut Context<'_>) -> Result<Checked> {
        let name = cx.id.name.clone();
        let invalid = |invalid: Invalid| Error::new(invalid.to_string());
        let store = Store::read(&self.store, &name).map_err(invalid)?;
        let shape = Shape::read(&self.r#type).map_err(invalid)?;
        let board = Board::of(cx.host);
        let live = board.input(cx.id).map(|input| Arc::clone(&input.live)).unwrap_or_default();
        if !cx.apply {
            let value = match &store {
                Some(store) => store.get(cx.host).await?.unwrap_or_default(),
                None => self.value.clone(),
            };
            cx.send(&HttpServerUiInputSends { value: Some(value) });
            return Ok(Checked::Right);
        }
        state.lease.get_or_insert_with(|| board.lease(cx));
        let (page, id, sort) = (self.path.clone(), self.id(&name).clone(), self.sort.clone());
        let input = Input { resource: cx.id.clone(), page, id, sort, shape, live: Arc::clone(&live) };
        board.put_input(cx.id, Arc::new(input));

        let mut stored = None;
        match &store {
            None => live.declare(&self.value),
            Some(store) => {
                let present = tokio::select! {
                    present = store.get(cx.host) => present?,
                    () = cx.cancel.cancelled() => return Err(Error::Cancelled),
                };
                stored = live.posted();
                match &stored {
                    // Who comes last is right.
                    Some(posted) if present.as_ref() != Some(posted) => store.set(cx.host, posted).await?,
                    Some(_) => {}
                    None => live.adopt(present.unwrap_or_default()),
                }
            }
        }
        let (value, changed) = live.take(|value| store.is_none() || stored.as_ref() == Some(value));
        cx.send(&HttpServerUiInputSends { value: Some(value) });
        Ok(if changed { Checked::Changed } else { Checked::Right })
    }

    fn groups_alike(&self, _: &HttpServerUiInput) -> bool {
        true
    }

    fn equivalent(&self, name: &Str, other: &HttpServerUiInput) -> bool {
        let spelled_out =
            |input: &HttpServerUiInput| HttpServerUiInput { id: input.id(name).clone(), ..input.clone() };
        self == other || spelled_out(self) == spelled_out(other)
    }
}

impl HttpServerUiInput {
    fn id<'a>(&'a self, name: &'a Str) -> &'a Str {
        or_name(&self.id, name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input() -> HttpServerUiInput {
        HttpServerUiInput::default()
    }

    #[test]
    fn types_and_stores_are_known_ones() {
        let check = |input: &HttpServerUiInput| Kind::validate(input, &"x".into());
        let typed = |text: &str| HttpServerUiInput { r#type: text.into(), ..input() };
        for fine in ["", "text://", "range://", "range://?min=0&max=5&step=1", "range://?other=x"] {
            assert!(check(&typed(fine)).is_ok(), "{fine}");
        }
        for wrong in
            ["text", "color://", "range://?min=a", "range://?min=2&max=1", "range://?step=0", "range://?min="]
        {
            assert_eq!(check(&typed(wrong)).unwrap_err().field, Some("type"), "{wrong}");
        }
        let stored = |text: &str| HttpServerUiInput { store: text.into(), ..input() };
        for fine in ["local://", "world://?key=a"] {
            assert!(check(&stored(fine)).is_ok(), "{fine}");
        }
        for wrong in ["local", "etcd://", "://"] {
            assert_eq!(check(&stored(wrong)).unwrap_err().field, Some("store"), "{wrong}");
        }
        assert!(check(&HttpServerUiInput { value: "a".into(), ..stored("local://") }).is_err());
        let range = HttpServerUiInput { value: "9".into(), ..typed("range://?max=5") };
        assert_eq!(check(&range).unwrap_err().field, Some("value"));
    }

    #[test]
    fn a_store_has_the_name_for_a_key() {
        let read = |text: &str| Store::read(&text.into(), &"x".into()).unwrap();
        assert_eq!(read(""), None);
        assert_eq!(read("local://"), Some(Store::Local("x".into())));
        assert_eq!(read("world://?key=a%20b"), Some(Store::World("a b".into())));
    }

    #[test]
    fn a_range_takes_its_numbers_and_no_others() {
        let range = Shape::read(&"range://?min=1&max=9&step=2".into()).unwrap();
        for fine in ["1", "3", "9"] {
            assert_eq!(range.refuses(fine.as_bytes()), None, "{fine}");
        }
        for wrong in ["", "0", "2", "10", "x", "1.0", "99999999999999999999"] {
            assert!(range.refuses(wrong.as_bytes()).is_some(), "{wrong}");
        }
        let wide = Shape::Range { min: Some(i64::MIN), max: Some(i64::MAX), step: Some(i64::MAX) };
        assert!(wide.refuses(b"9223372036854775807").is_some(), "and nothing overflows");
        assert_eq!(Shape::Text.refuses(b"\xff"), None);
        assert!(Shape::Text.refuses(&vec![b'x'; LONGEST + 1]).is_some());
    }

    #[test]
    fn what_was_posted_holds_until_something_else_is_declared() {
        let live = Live::default();
        live.declare(&"a".into());
        assert_eq!(live.take(|_| true), ("a".into(), false), "the first value is no change");
        live.post("b".into());
        live.declare(&"a".into());
        assert_eq!(live.take(|_| true), ("b".into(), true));
        live.declare(&"a".into());
        assert_eq!(live.take(|_| true), ("b".into(), false));
        live.declare(&"c".into());
        assert_eq!(live.take(|_| true), ("c".into(), true));
        // What comes back from where it was sent is not newer than what was posted since.
        live.post("d".into());
        live.declare(&"b".into());
        assert_eq!(live.take(|_| true), ("d".into(), true));
    }
}
