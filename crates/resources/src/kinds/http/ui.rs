//! `http:server:ui`: a page with inputs.

use std::sync::Arc;

use mgmt_resource::{Checked, Context, Invalid, Kind, Nothing, Resource, Result, StructValue, Want};
use mgmt_value::Str;

use super::board::{Board, Lease, Offer, What};
use super::{before_server, check_public, or_name};

/// A page of a web server on which people see and change values.
///
/// Its inputs are `http:server:ui:input` resources. What somebody changes on the page is there for the program at once, and
/// what the program changes is there on the page.
///
/// Everything that the page does can be done by a program, too, with requests below its path:
///
/// - `GET list/` lists the inputs.
/// - `GET list/ID` gives the value of one.
/// - `GET watch/ID` does so as soon as it has changed.
/// - `POST save/` with the fields `id` and `value` of a form changes one.
/// - `GET ping` tells that somebody is there.
///
/// ```mcl
/// http:server "127.0.0.1:8080" {}
/// http:server:ui "/settings/" {
///     data => struct{
///         title => "Settings of the shop",
///         head => "",
///     },
/// }
/// http:server:ui:input "greeting" {
///     value => "hello",
/// }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Resource)]
#[resource(kind = "http:server:ui", edges, group)]
pub struct HttpServerUi {
    /// The name of the `http:server` that has the page; any if it is not given.
    pub server: Str,
    /// The path of the page, which begins and ends with a slash; the name if it is not given.
    pub path: Str,
    /// What the page looks like.
    pub data: Option<HttpServerUiData>,
}

/// What a page looks like.
#[derive(Clone, Debug, Default, PartialEq, StructValue)]
pub struct HttpServerUiData {
    /// Its title.
    pub title: Str,
    /// HTML that is put into the head of the page as it is.
    pub head: Str,
}

/// What a page remembers.
#[derive(Default)]
pub struct HttpServerUiState {
    lease: Option<Lease>,
}

/// A page as it is served.
#[derive(Debug, PartialEq)]
pub(super) struct Page {
    /// The name of the resource.
    pub(super) name: Str,
    /// Where it is.
    pub(super) path: Str,
    pub(super) title: Str,
    pub(super) head: Str,
}

impl Kind for HttpServerUi {
    type State = HttpServerUiState;
    type Sends = Nothing;

    fn validate(&self, name: &Str) -> Result<(), Invalid> {
        check_public("path", self.path(name), true)
    }

    async fn check_apply(&self, state: &mut HttpServerUiState, cx: &mut Context<'_>) -> Result<Checked> {
        if !cx.apply {
            return Ok(Checked::Right);
        }
        let board = Board::of(cx.host);
        let name = cx.id.name.clone();
        let HttpServerUiData { title, head } = self.data.clone().unwrap_or_default();
        let page = Page { path: self.path(&name).clone(), title, head, name };
        let (server, path) = (self.server.clone(), page.path.clone());
        board.put_offer(cx.id, Offer { server, path, below: true, what: What::Page(Arc::new(page)) });
        state.lease.get_or_insert_with(|| board.lease(cx));
        Ok(Checked::Right)
    }

    fn wants(&self, _: &Str) -> Vec<Want> {
        before_server(&self.server)
    }

    fn groups_alike(&self, other: &HttpServerUi) -> bool {
        self.server.is_empty() == other.server.is_empty()
    }

    fn equivalent(&self, name: &Str, other: &HttpServerUi) -> bool {
        let spelled_out =
            |page: &HttpServerUi| HttpServerUi { path: page.path(name).clone(), ..page.clone() };
        self == other || spelled_out(self) == spelled_out(other)
    }
}

impl HttpServerUi {
    fn path<'a>(&'a self, name: &'a Str) -> &'a Str {
        or_name(&self.path, name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_a_directory() {
        assert!(Kind::validate(&HttpServerUi::default(), &"/ui/".into()).is_ok());
        assert!(Kind::validate(&HttpServerUi::default(), &"/".into()).is_ok());
        for wrong in ["ui/", "/ui", "/a//b/", "/../"] {
            let refused = Kind::validate(&HttpServerUi::default(), &wrong.into()).unwrap_err();
            assert_eq!(refused.field, Some("path"), "{wrong}");
        }
    }

    #[test]
    fn a_title_is_part_of_the_declaration() {
        let titled = |title: &str| {
            let data = HttpServerUiData { title: title.into(), head: Str::EMPTY };
            HttpServerUi { data: Some(data), ..HttpServerUi::default() }
        };
        assert!(titled("a").equivalent(&"/".into(), &titled("a")));
        assert!(!titled("a").equivalent(&"/".into(), &titled("b")));
    }
}
