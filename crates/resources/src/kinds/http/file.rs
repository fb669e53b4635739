//! `http:server:file`: a file, a directory or a text that is served.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hyper::body::Bytes;
use mgmt_resource::{
    Checked, Context, Error, Identity, Invalid, Kind, Nothing, Order, Resource, Result, Want, Watch,
};
use mgmt_sys::file::OpenedFile;
use mgmt_sys::path::ManagedPath;
use mgmt_sys::stat::Stat;
use mgmt_value::Str;
use tokio::sync::watch;

use super::board::{Board, Lease, Offer, What};
use super::{before_server, check_public, lock, or_name};

/// A file, a directory or a text that a web server serves.
///
/// A text comes from `data`, which can be received from another resource. A file or a directory comes from `path`. With
/// neither, an empty file is served.
///
/// With `longpoll` a client can wait for a change: when its request says in `If-Modified-Since` that it has what is
/// served now, the answer is held until that changes. If the server stops before, or `write_timeout` is over, the answer
/// is 503 with `Retry-After`. Every change has a later time in `Last-Modified`, even if there are several in a second.
///
/// It comes after the `file` resource for its path, or, with a directory, after all `file` resources in there.
///
/// ```mcl
/// http:server ":8080" {}
/// http:server:file "/motd" {
///     path => "/etc/motd",
///     longpoll => true,
/// }
/// http:server:file "/releases/" {
///     path => "/srv/releases/",
/// }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Resource)]
#[resource(kind = "http:server:file", edges, group, receive)]
pub struct HttpServerFile {
    /// The name of the `http:server` that serves it; any if it is not given.
    pub server: Str,
    /// The path that clients ask for; the name if it is not given. A slash at the beginning can be left out.
    pub filename: Str,
    /// The file to serve. If it ends with a slash, it is a directory, and all files in it are served, below `filename`;
    /// symbolic links in there are not followed.
    pub path: Str,
    /// The text to serve, instead of a file.
    pub data: Str,
    /// Let clients wait for a change.
    pub longpoll: bool,
}

/// What a file remembers.
#[derive(Default)]
pub struct HttpServerFileState {
    lease: Option<Lease>,
}

/// A file as it is served.
#[derive(Default)]
pub(super) struct Served {
    now: Mutex<Now>,
    /// How often it has changed.
    pub(super) changes: watch::Sender<u64>,
}

/// What is served now.
#[derive(Clone, Default)]
pub(super) struct Now {
    pub(super) origin: Origin,
    pub(super) longpoll: bool,
    /// The time of the last change, in seconds since 1970, never twice the same.
    cursor: u64,
    /// What the file was when we last looked, if clients can wait for its change.
    seen: Option<Stat>,
}

/// Where the content is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Origin {
    Data(Bytes),
    File(ManagedPath),
    /// A directory, served below this path.
    Directory(ManagedPath, Str),
}

impl Default for Origin {
    fn default() -> Origin {
        Origin::Data(Bytes::new())
    }
}

impl Now {
    /// The time of the last change.
    pub(super) fn changed(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(self.cursor)
    }
}

impl Served {
    pub(super) fn now(&self) -> Now {
        lock(&self.now).clone()
    }

    /// Serves this from now on. `true`: the content is another than before.
    fn update(&self, origin: Origin, longpoll: bool, seen: Option<Stat>) -> bool {
        let mut now = lock(&self.now);
        let first = now.cursor == 0;
        let replaced = now.origin != origin;
        let rewritten = match (&now.seen, &seen) {
            (Some(before), Some(after)) => !before.same_version(after),
            (before, after) => longpoll && now.longpoll && before.is_some() != after.is_some(),
        };
        if first || replaced || rewritten {
            let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
            now.cursor = seconds.max(now.cursor + 1);
        }
        now.origin = origin;
        now.longpoll = longpoll;
        now.seen = seen;
        drop(now);
        if !first && (replaced || rewritten) {
            self.changes.send_modify(|changes| *changes += 1);
        }
        !first && replaced
    }
}

impl Kind for HttpServerFile {
    type State = HttpServerFileState;
    type Sends = Nothing;

    fn validate(&self, name: &Str) -> Result<(), Invalid> {
        if or_name(&self.filename, name).is_empty() {
            return Err(Invalid::field("filename", "is empty"));
        }
        check_public("filename", &self.public(name), false)?;
        self.origin(name)?;
        if !self.path.is_empty() && !self.data.is_empty() {
            return Err(Invalid::new("`path` and `data` are both given")
                .with_hint("a file is served from `path`, a text from `data`"));
        }
        if self.longpoll && self.path.ends_with(b"/") {
            return Err(Invalid::field("longpoll", "nobody can wait for a change of a directory")
                .with_hint("give the path of a file, or leave `longpoll` out"));
        }
        Ok(())
    }

    fn watches(&self, _: &Str) -> Vec<Watch> {
        match self.longpoll && !self.path.is_empty() {
            true => vec![Watch::Path { path: self.path.clone(), recursive: false }],
            false => Vec::new(),
        }
    }

    async fn check_apply(&self, state: &mut HttpServerFileState, cx: &mut Context<'_>) -> Result<Checked> {
        let board = Board::of(cx.host);
        let name = cx.id.name.clone();
        let origin = self.origin(&name).map_err(|invalid| Error::new(invalid.to_string()))?;
        let present = board.offer(cx.id);
        let served = match present.as_deref() {
            Some(Offer { what: What::File(served), .. }) => Some(Arc::clone(served)),
            _ => None,
        };
        if !cx.apply {
            let differs = served.is_some_and(|served| served.now().origin != origin);
            return Ok(if differs { Checked::Changed } else { Checked::Right });
        }
        let seen = match &origin {
            Origin::File(path) if self.longpoll => {
                let path = path.clone();
                let look = move || OpenedFile::open_trusted(&path).map(|file| *file.stat()).ok();
                tokio::task::spawn_blocking(look).await.ok().flatten()
            }
            _ => None,
        };
        let below = matches!(origin, Origin::Directory(..));
        let served = served.unwrap_or_default();
        let changed = served.update(origin, self.longpoll, seen);
        state.lease.get_or_insert_with(|| board.lease(cx));
        let (server, path) = (self.server.clone(), self.public(&name));
        board.put_offer(cx.id, Offer { server, path, below, what: What::File(served) });
        Ok(if changed { Checked::Changed } else { Checked::Right })
    }

    fn wants(&self, _: &Str) -> Vec<Want> {
        let mut wants = before_server(&self.server);
        if self.path.ends_with(b"/") {
            wants.push(Want::Below(self.path.clone()));
        } else if !self.path.is_empty() {
            wants.push(Want::First(Order::Before, vec![Identity::Path(self.path.clone())]));
        }
        wants
    }

    fn groups_alike(&self, other: &HttpServerFile) -> bool {
        self.server.is_empty() == other.server.is_empty()
    }

    fn equivalent(&self, name: &Str, other: &HttpServerFile) -> bool {
        let spelled_out =
            |file: &HttpServerFile| HttpServerFile { filename: file.public(name), ..file.clone() };
        self == other || spelled_out(self) == spelled_out(other)
    }
}

impl HttpServerFile {
    /// The path that clients ask for. That of a directory ends with a slash.
    fn public(&self, name: &Str) -> Str {
        let given = or_name(&self.filename, name);
        let mut path = if given.starts_with(b"/") { Vec::new() } else { vec![b'/'] };
        path.extend_from_slice(given);
        if self.path.ends_with(b"/") && !path.ends_with(b"/") {
            path.push(b'/');
        }
        path.into()
    }

    fn origin(&self, name: &Str) -> Result<Origin, Invalid> {
        if self.path.is_empty() {
            return Ok(Origin::Data(Bytes::copy_from_slice(&self.data)));
        }
        let path = ManagedPath::new(&self.path).map_err(|error| Invalid::field("path", error.to_string()))?;
        Ok(match self.path.ends_with(b"/") {
            true => Origin::Directory(path, self.public(name)),
            false => Origin::File(path),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, data: &str) -> HttpServerFile {
        HttpServerFile { path: path.into(), data: data.into(), ..HttpServerFile::default() }
    }

    #[test]
    fn a_file_or_a_text_but_not_both() {
        let check = |file: &HttpServerFile| Kind::validate(file, &"/x".into());
        for fine in [file("", ""), file("/a", ""), file("/a/", ""), file("", "a")] {
            assert!(check(&fine).is_ok(), "{fine:?}");
        }
        assert!(check(&file("/a", "b")).unwrap_err().message.contains("both"));
        assert_eq!(check(&file("a", "")).unwrap_err().field, Some("path"));
        let longpoll = |path: &str| HttpServerFile { longpoll: true, ..file(path, "") };
        assert!(check(&longpoll("/a")).is_ok());
        assert_eq!(check(&longpoll("/a/")).unwrap_err().field, Some("longpoll"));
        assert_eq!(Kind::validate(&file("", ""), &"/a//b".into()).unwrap_err().field, Some("filename"));
        assert!(Kind::validate(&file("", ""), &"plain".into()).is_ok());
        assert!(Kind::validate(&file("", ""), &Str::EMPTY).is_err());
    }

    #[test]
    fn times_of_changes_never_repeat() {
        let served = Served::default();
        let data = |text: &'static str| Origin::Data(Bytes::from_static(text.as_bytes()));
        assert!(!served.update(data("a"), true, None), "the first content is no change");
        let first = served.now().changed();
        assert!(!served.update(data("a"), true, None));
        assert_eq!(served.now().changed(), first);
        assert!(served.update(data("b"), true, None));
        let second = served.now().changed();
        assert!(served.update(data("c"), true, None));
        let third = served.now().changed();
        assert!(first < second && second < third);
        assert_eq!(*served.changes.borrow(), 2);
    }

    #[test]
    fn a_file_comes_after_what_writes_it() {
        assert!(Kind::wants(&file("", "x"), &"/x".into()).is_empty());
        let first = Want::First(Order::Before, vec![Identity::Path("/a".into())]);
        assert_eq!(Kind::wants(&file("/a", ""), &"/x".into()), [first]);
        assert_eq!(Kind::wants(&file("/a/", ""), &"/x".into()), [Want::Below("/a/".into())]);
    }
}
