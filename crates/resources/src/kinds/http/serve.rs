//! From a request to its answer.

use std::sync::Arc;

use hyper::body::Incoming;
use hyper::header::{CACHE_CONTROL, HOST, HeaderMap, IF_MODIFIED_SINCE, ORIGIN, RETRY_AFTER};
use hyper::http::request::Parts;
use hyper::{Method, Request, StatusCode, Version};
use mgmt_value::Str;
use serde_json::json;
use tokio::time::Instant;

use super::board::{Board, What};
use super::content::{self, Source};
use super::file::{Origin, Served};
use super::input::{Input, Shape};
use super::listen::{Connection, Settings};
use super::reply::{self, Reply, set};
use super::request::{self, BodyError};
use super::ui::Page;

const SCRIPT: &str = include_str!("page.js");
const STYLE: &str = include_str!("page.css");

/// Answers a request.
pub(super) async fn answer(connection: &Connection, request: Request<Incoming>) -> Reply {
    let deadline = connection.begin();
    let settings = connection.settings();
    if request.version() >= Version::HTTP_11 && request.headers().get_all(HOST).iter().count() != 1 {
        return reply::plain(StatusCode::BAD_REQUEST, "a request has one header `Host`\n");
    }
    let Some(path) = request::path(request.uri().path()) else {
        return reply::status(StatusCode::BAD_REQUEST);
    };
    let clean = request::cleaned(&path);
    if clean != path {
        let query = request.uri().query().map(|query| format!("?{query}")).unwrap_or_default();
        return reply::moved(&(request::escaped(&clean) + &query));
    }
    let post = request.method() == Method::POST;
    let board = &connection.board;
    match board.find(&settings.server, &path, post).as_deref().map(|offer| &offer.what) {
        Some(What::File(served)) => file(connection, served, &request, &path, deadline).await,
        Some(What::Flag(_)) => flag(board, &settings, request, &path).await,
        Some(What::Page(page)) => self::page(connection, &settings, page, request, &path, deadline).await,
        Some(What::Proxy(_)) if !reads(request.method()) => reply::not_allowed("GET, HEAD"),
        Some(What::Proxy(proxied)) => proxied.answer(&request, &path).await,
        None => root(&settings, &request, path).await,
    }
}

/// Only what can be read is served as a file.
fn reads(method: &Method) -> bool {
    *method == Method::GET || *method == Method::HEAD
}

async fn root(settings: &Settings, request: &Request<Incoming>, path: Vec<u8>) -> Reply {
    let Some(root) = settings.root.clone() else { return reply::status(StatusCode::NOT_FOUND) };
    if !reads(request.method()) {
        return reply::not_allowed("GET, HEAD");
    }
    match content::open_below(root, path[1..].to_vec()).await {
        Ok(source) => content::answer(request.method(), request.headers(), &path, &source),
        Err(status) => reply::status(status),
    }
}

async fn file(
    connection: &Connection,
    served: &Arc<Served>,
    request: &Request<Incoming>,
    path: &[u8],
    deadline: Option<Instant>,
) -> Reply {
    if !reads(request.method()) {
        return reply::not_allowed("GET, HEAD");
    }
    // Before the content is looked at, so that no change after that is missed.
    let mut changes = served.changes.subscribe();
    changes.mark_unchanged();
    let mut headers = HeaderMap::clone(request.headers());
    let mut now = served.now();
    if now.longpoll
        && let Some(has) = content::date(&headers, IF_MODIFIED_SINCE)
        && httpdate::HttpDate::from(now.changed()) <= has
    {
        tokio::select! {
            biased;
            changed = changes.changed() => {
                if changed.is_err() {
                    return try_again();
                }
            }
            () = connection.over(deadline) => return try_again(),
        }
        now = served.now();
    }
    if now.longpoll {
        headers.remove(IF_MODIFIED_SINCE);
    }
    let source = match &now.origin {
        Origin::Data(data) => Ok(Source::data(data.clone(), Some(now.changed()))),
        Origin::File(file) => content::open(file.clone()).await,
        Origin::Directory(directory, public) => match path.strip_prefix(public.as_bytes()) {
            Some(below) => content::open_below(directory.clone(), below.to_vec()).await,
            None => Err(StatusCode::NOT_FOUND),
        },
    };
    match source {
        Ok(mut source) => {
            if now.longpoll {
                source.modified = Some(now.changed());
            }
            content::answer(request.method(), &headers, path, &source)
        }
        Err(status) => reply::status(status),
    }
}

/// Whoever was waiting may come again.
fn try_again() -> Reply {
    let mut reply = reply::plain(StatusCode::SERVICE_UNAVAILABLE, "nothing has changed yet; ask again\n");
    set(&mut reply, RETRY_AFTER, "1");
    reply
}

async fn flag(board: &Board, settings: &Settings, request: Request<Incoming>, path: &[u8]) -> Reply {
    let (parts, body) = request::body(request, settings.body_limit()).await;
    let body = match body {
        Ok(body) => body,
        Err(error) => return refused(&error),
    };
    let flags = board.flags(&settings.server, path);
    let form = if request::is_form(&parts) { &body[..] } else { &[] };
    for (id, flag) in &flags {
        if !flag.key.is_empty() {
            flag.post(request::field(form, &flag.key));
        }
        board.ring(id);
    }
    reply::plain(StatusCode::OK, "")
}

fn refused(error: &BodyError) -> Reply {
    reply::status(match error {
        BodyError::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        BodyError::TooSlow => StatusCode::REQUEST_TIMEOUT,
        BodyError::Broken => StatusCode::BAD_REQUEST,
    })
}

/// A page and what belongs to it.
async fn page(
    connection: &Connection,
    settings: &Settings,
    page: &Page,
    request: Request<Incoming>,
    path: &[u8],
    deadline: Option<Instant>,
) -> Reply {
    let board = &connection.board;
    let below = path.strip_prefix(page.path.as_bytes()).unwrap_or_default();
    if below == b"save/" {
        return match *request.method() == Method::POST {
            true => save(board, settings, page, request).await,
            false => reply::not_allowed("POST"),
        };
    }
    if !reads(request.method()) {
        return reply::not_allowed("GET, HEAD");
    }
    match below {
        b"" => reply::moved(&(request::escaped(&page.path) + "index.html")),
        b"index.html" => reply::with_type(StatusCode::OK, "text/html; charset=utf-8", html(settings, page)),
        b"page.js" => reply::with_type(StatusCode::OK, "text/javascript; charset=utf-8", SCRIPT),
        b"page.css" => reply::with_type(StatusCode::OK, "text/css; charset=utf-8", STYLE),
        b"ping" => uncached(reply::json(StatusCode::OK, &json!({"message": "pong"}))),
        b"list/" => uncached(list(board, page)),
        _ => match (below.strip_prefix(b"list/"), below.strip_prefix(b"watch/")) {
            (Some(id), _) => match input(board, page, id) {
                Some(input) => value(&input),
                None => unknown(id),
            },
            (_, Some(id)) => match input(board, page, id) {
                Some(input) => {
                    let mut changes = input.live.changes.subscribe();
                    changes.mark_unchanged();
                    tokio::select! {
                        _ = changes.changed() => value(&input),
                        () = connection.over(deadline) => {
                            mistake(StatusCode::INTERNAL_SERVER_ERROR, "nothing has changed yet; ask again")
                        }
                    }
                }
                None => unknown(id),
            },
            _ => reply::status(StatusCode::NOT_FOUND),
        },
    }
}

/// Values change, and nobody is to keep them.
fn uncached(mut reply: Reply) -> Reply {
    set(&mut reply, CACHE_CONTROL, "no-store");
    reply
}

fn mistake(status: StatusCode, message: &str) -> Reply {
    let document = match status.is_server_error() {
        true => json!({"error": message, "code": status.as_u16()}),
        false => json!({"error": message}),
    };
    uncached(reply::json(status, &document))
}

fn unknown(id: &[u8]) -> Reply {
    mistake(StatusCode::BAD_REQUEST, &format!("there is no input {:?}", Str::new(id).to_text()))
}

fn input(board: &Board, page: &Page, id: &[u8]) -> Option<Arc<Input>> {
    board.inputs(&page.name).into_iter().find(|input| input.id.as_bytes() == id)
}

fn value(input: &Input) -> Reply {
    uncached(reply::json(StatusCode::OK, &json!({"value": input.live.value().to_text()})))
}

fn list(board: &Board, page: &Page) -> Reply {
    let mut inputs = board.inputs(&page.name);
    inputs.sort_by(|a, b| (&a.sort, &a.id).cmp(&(&b.sort, &b.id)));
    let described = |input: &Arc<Input>| {
        json!({
            "kind": input.resource.kind,
            "id": input.id.to_text(),
            "type": described(&input.shape),
            "sort": input.sort.to_text(),
        })
    };
    let elements: Vec<_> = inputs.iter().map(described).collect();
    reply::json(StatusCode::OK, &json!({"elements": elements}))
}

/// All values are text, as they are in a page.
fn described(shape: &Shape) -> serde_json::Value {
    match shape {
        Shape::Text => json!({"type": "text"}),
        Shape::Range { min, max, step } => {
            let mut described = json!({"type": "range"});
            for (name, number) in [("min", min), ("max", max), ("step", step)] {
                if let Some(number) = number {
                    described[name] = number.to_string().into();
                }
            }
            described
        }
    }
}

async fn save(board: &Board, settings: &Settings, page: &Page, request: Request<Incoming>) -> Reply {
    let (parts, body) = request::body(request, settings.body_limit()).await;
    let body = match body {
        Ok(body) => body,
        Err(error) => return refused(&error),
    };
    let wrong = |message: &str| mistake(StatusCode::BAD_REQUEST, message);
    if is_from_elsewhere(&parts) {
        return mistake(StatusCode::FORBIDDEN, "the request comes from a page of another server");
    }
    if !request::is_form(&parts) {
        return wrong("expected a form (application/x-www-form-urlencoded) with the fields `id` and `value`");
    }
    let Some(id) = request::field(&body, b"id") else { return wrong("the field `id` is missing") };
    let Some(value) = request::field(&body, b"value") else { return wrong("the field `value` is missing") };
    let Some(input) = input(board, page, &id) else { return unknown(&id) };
    if let Some(why) = input.shape.refuses(&value) {
        return wrong(&why);
    }
    input.live.post(value.into());
    board.ring(&input.resource);
    uncached(reply::json(StatusCode::OK, &serde_json::Value::Null))
}

/// A browser says which page a request comes from. Pages of others have no business here, although a browser lets them
/// send forms.
fn is_from_elsewhere(parts: &Parts) -> bool {
    let Some(origin) = parts.headers.get(ORIGIN) else { return false };
    let host = parts.headers.get(HOST).map(|host| host.as_bytes()).unwrap_or_default();
    let origin = origin.as_bytes();
    let named = origin.windows(3).position(|window| window == b"://").map(|at| &origin[at + 3..]);
    named != Some(host)
}

fn html(settings: &Settings, page: &Page) -> String {
    let title = match page.title.is_empty() {
        true => settings.program.clone(),
        false => page.title.to_text().into_owned(),
    };
    let title = escaped(&title);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n\
         <link rel=\"stylesheet\" href=\"page.css\">\n<script src=\"page.js\" defer></script>\n{head}\n</head>\n<body>\n\
         <h1>{title}</h1>\n<form id=\"inputs\" autocomplete=\"off\"></form>\n<p id=\"state\" role=\"status\"></p>\n\
         <footer>{program} {version} on {hostname}, {path}</footer>\n</body>\n</html>\n",
        head = page.head.to_text(),
        program = escaped(&settings.program),
        version = escaped(&settings.version),
        hostname = escaped(&settings.hostname),
        path = escaped(&page.path.to_text()),
    )
}

/// Text as it stands in a page.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}
