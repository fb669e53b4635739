//! What a run changes, in words. Said before it is asked whether it may, so that a look and a run say the same.

use mgmt_resource::{Effect, LONGEST_TEXT};
use mgmt_sys::handle::Attributes;
use mgmt_sys::mode::default_file_mode;
use mgmt_sys::stat::{Kind, Stat};

use super::attributes::Wanted;
use super::check::Run;
use super::content::{Content, Place};

/// Who may read a file: everybody.
const READABLE: u32 = 0o004;

/// A regular file gets this content, instead of what was seen.
pub(super) fn content(
    run: &Run<'_, '_>,
    at: &[u8],
    place: Option<&Place<'_>>,
    content: &Content<'_>,
    (wanted, attributes): (&Wanted<'_>, &Attributes<'_>),
    seen: Option<&Stat>,
) {
    let what = path(at);
    let after = bytes(content.length());
    let mode = attributes.mode.unwrap_or_else(|| match seen {
        Some(stat) if stat.kind == Kind::File => stat.mode,
        _ => default_file_mode(),
    });
    let old = seen.filter(|stat| stat.kind == Kind::File);
    let private =
        !run.wish.file.showdiff || mode & READABLE == 0 || old.is_some_and(|stat| stat.mode & READABLE == 0);
    let effect = match seen {
        Some(stat) if stat.kind == Kind::File => {
            Effect::change(&what).aspect("content").before(bytes(stat.size)).after(after)
        }
        Some(stat) => {
            run.cx.describe(Effect::remove(&what).aspect(kind(stat.kind)));
            Effect::create(&what).aspect("file").after(after)
        }
        None => Effect::create(&what).aspect("file").after(after),
    };
    let only_looks = !run.cx.apply;
    let effect = match private || old.is_none() {
        // What is new is told by the declaration, what is private to nobody; whoever only looks shows what is new, and those that
        // come after it in a plan need both.
        true if !only_looks => effect,
        _ => {
            let before = old.zip(place).and_then(|(stat, place)| text_of(place, stat));
            match content.text() {
                Some(after) if old.is_none() || before.is_some() => {
                    effect.texts(before.as_deref(), Some(&after))
                }
                _ => effect,
            }
        }
    };
    // Whether the command finds it right is known only when it is there.
    let presumed = effect.presumed || (only_looks && !run.wish.file.validatecmd.is_empty());
    run.cx.describe(Effect { private, presumed, ..effect });
    self::attributes(run, &what, wanted, attributes, old);
}

/// The text that is there, if it is short enough to be shown.
fn text_of(place: &Place<'_>, stat: &Stat) -> Option<Vec<u8>> {
    let small = stat.size <= LONGEST_TEXT as u64;
    small.then(|| place.parent.open_regular(place.name).ok()?.read(LONGEST_TEXT as u64).ok()).flatten()
}

/// Something that is not a file comes to be.
pub(super) fn made(
    run: &Run<'_, '_>,
    at: &[u8],
    kind: Kind,
    wanted: &Wanted<'_>,
    attributes: &Attributes<'_>,
) {
    let what = path(at);
    run.cx.describe(Effect::create(&what).aspect(self::kind(kind)));
    self::attributes(run, &what, wanted, attributes, None);
}

/// A link gets this text.
pub(super) fn linked(
    run: &Run<'_, '_>,
    at: &[u8],
    text: &[u8],
    old: Option<(Kind, Option<Vec<u8>>)>,
    wanted: &Wanted<'_>,
) {
    let what = path(at);
    let after = path(text);
    match old {
        Some((_, Some(before))) => {
            run.cx.describe(Effect::change(&what).aspect("link").before(path(&before)).after(after));
        }
        Some((kind, None)) => {
            run.cx.describe(Effect::remove(&what).aspect(self::kind(kind)));
            run.cx.describe(Effect::create(&what).aspect("link").after(after));
        }
        None => run.cx.describe(Effect::create(&what).aspect("link").after(after)),
    }
    attributes(run, &what, wanted, &wanted.over(0), None);
}

/// Something goes.
pub(super) fn removed(run: &Run<'_, '_>, at: &[u8], kind: Kind) {
    run.cx.describe(Effect::remove(path(at)).aspect(self::kind(kind)));
}

/// Owner, group, mode and context, as far as they are declared and differ from what was seen.
pub(super) fn attributes(
    run: &Run<'_, '_>,
    what: &str,
    wanted: &Wanted<'_>,
    attributes: &Attributes<'_>,
    seen: Option<&Stat>,
) {
    let file = run.wish.file;
    let numbers = [
        ("owner", &file.owner, attributes.owner, seen.map(|stat| stat.uid)),
        ("group", &file.group, attributes.group, seen.map(|stat| stat.gid)),
    ];
    for (aspect, declared, number, before) in numbers {
        // One that is not known yet will be made before us.
        let differs = !declared.is_empty() && (number.is_none() || number != before);
        if differs {
            let effect = Effect::change(what).aspect(aspect).after(declared.display());
            run.cx.describe(match before {
                Some(before) => effect.before(before),
                None => effect,
            });
        }
    }
    if wanted.mode.is_some()
        && let Some(mode) = attributes.mode
        && seen.is_none_or(|stat| stat.mode != mode)
    {
        let effect = Effect::change(what).aspect("mode").after(format_args!("{mode:04o}"));
        run.cx.describe(match seen {
            Some(stat) => effect.before(format_args!("{:04o}", stat.mode)),
            None => effect,
        });
    }
}

/// The SELinux context.
pub(super) fn label(run: &Run<'_, '_>, at: &[u8], before: Option<&[u8]>, after: &[u8]) {
    let effect = Effect::change(path(at)).aspect("context").after(path(after));
    run.cx.describe(match before {
        Some(before) => effect.before(path(before)),
        None => effect,
    });
}

pub(super) fn path(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::File => "file",
        Kind::Directory => "directory",
        Kind::Symlink => "link",
        _ => "special file",
    }
}

pub(super) fn bytes(count: u64) -> String {
    if count == 1 { "1 byte".to_owned() } else { format!("{count} bytes") }
}
