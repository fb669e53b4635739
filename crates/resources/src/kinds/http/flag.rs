//! `http:server:flag`: a path that raises an event.

use std::sync::{Arc, Mutex};

use mgmt_resource::{Checked, Context, Declared, Fields, Invalid, Kind, Resource, Result, Want, Watch};
use mgmt_value::Str;

use super::board::{Board, Lease, Offer, What, bell};
use super::{before_server, check_public, lock, or_name};

/// A path of a web server that can be posted to, and sends on what was posted.
///
/// When a client posts a form to the path, the value of one of its fields is sent to the resources that receive
/// it. Several flags can have one path, and take one field each.
///
/// A value is kept until the next is posted, or until the flag has left the graph. Only the last is known: what
/// is posted twice in a moment is seen once.
///
/// ```mcl
/// http:server "127.0.0.1:8080" {}
/// http:server:flag "/release" {
///     key => "version",
/// }
/// file "/srv/version" {
///     state => "exists",
/// }
///
/// Http:Server:Flag["/release"].value -> File["/srv/version"].content
/// ```
#[derive(Clone, Debug, Default, PartialEq, Resource)]
#[resource(kind = "http:server:flag", edges, group, send)]
pub struct HttpServerFlag {
    /// The name of the `http:server` that has the path; any if it is not given.
    pub server: Str,
    /// The path, which begins with a slash; the name if it is not given.
    pub path: Str,
    /// The field of the form whose value is sent. If it is not given, a post is an event and nothing more.
    pub key: Str,
}

/// What an `http:server:flag` sends.
#[derive(Clone, Debug, Default, Fields)]
pub struct HttpServerFlagSends {
    /// The value that was posted; empty if there was none.
    pub value: Option<Str>,
}

/// What a flag remembers.
#[derive(Default)]
pub struct HttpServerFlagState {
    lease: Option<Lease>,
}

/// A flag as it is.
#[derive(Default)]
pub(super) struct Raised {
    /// The field that is taken.
    pub(super) key: Str,
    values: Mutex<Values>,
}

#[derive(Default)]
struct Values {
    posted: Str,
    /// What those who receive have.
    sent: Str,
}

impl Raised {
    /// Somebody has posted a form with this value.
    pub(super) fn post(&self, value: Option<Vec<u8>>) {
        lock(&self.values).posted = value.unwrap_or_default().into();
    }

    /// The value to send, and whether it is another than before.
    fn take(&self) -> (Str, bool) {
        let mut values = lock(&self.values);
        let changed = values.sent != values.posted;
        values.sent = values.posted.clone();
        (values.sent.clone(), changed)
    }
}

impl Kind for HttpServerFlag {
    type State = HttpServerFlagState;
    type Sends = HttpServerFlagSends;

    fn validate(&self, name: &Str) -> Result<(), Invalid> {
        check_public("path", self.path(name), false)
    }

    fn watches(&self, name: &Str) -> Vec<Watch> {
        vec![bell(HttpServerFlag::KIND, name)]
    }

    async fn check_apply(&self, state: &mut HttpServerFlagState, cx: &mut Context<'_>) -> Result<Checked> {
        let board = Board::of(cx.host);
        let present = board.offer(cx.id);
        let flag = match present.as_deref() {
            Some(Offer { what: What::Flag(flag), .. }) if flag.key == self.key => Arc::clone(flag),
            _ => Arc::new(Raised { key: self.key.clone(), values: Mutex::default() }),
        };
        // A flag that only looks is not offered, so nothing is posted to it.
        if cx.apply {
            state.lease.get_or_insert_with(|| board.lease(cx));
            let (server, path) = (self.server.clone(), self.path(&cx.id.name).clone());
            board.put_offer(cx.id, Offer { server, path, below: false, what: What::Flag(Arc::clone(&flag)) });
        }
        let (value, changed) = flag.take();
        cx.send(&HttpServerFlagSends { value: Some(value) });
        Ok(if changed { Checked::Changed } else { Checked::Right })
    }

    fn wants(&self, _: &Str) -> Vec<Want> {
        before_server(&self.server)
    }

    fn groups_alike(&self, other: &HttpServerFlag) -> bool {
        self.server.is_empty() == other.server.is_empty()
    }

    fn equivalent(&self, name: &Str, other: &HttpServerFlag) -> bool {
        let spelled_out =
            |flag: &HttpServerFlag| HttpServerFlag { path: flag.path(name).clone(), ..flag.clone() };
        self == other || spelled_out(self) == spelled_out(other)
    }
}

impl HttpServerFlag {
    fn path<'a>(&'a self, name: &'a Str) -> &'a Str {
        or_name(&self.path, name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_has_a_plain_path() {
        let flag = |path: &str| HttpServerFlag { path: path.into(), ..HttpServerFlag::default() };
        assert!(Kind::validate(&flag(""), &"/x".into()).is_ok());
        for wrong in ["x", "//x", "/x/../y", "/./x"] {
            assert_eq!(
                Kind::validate(&flag(wrong), &"/x".into()).unwrap_err().field,
                Some("path"),
                "{wrong}"
            );
        }
    }

    #[test]
    fn what_was_posted_is_news_once() {
        let flag = Raised::default();
        assert_eq!(flag.take(), (Str::EMPTY, false));
        flag.post(Some(b"a".to_vec()));
        flag.post(Some(b"b".to_vec()));
        assert_eq!(flag.take(), ("b".into(), true));
        assert_eq!(flag.take(), ("b".into(), false));
        flag.post(None);
        assert_eq!(flag.take(), (Str::EMPTY, true));
    }
}
