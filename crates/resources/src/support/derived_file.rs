//! A file whose content follows from something else: an archive of other files, a compressed copy.
//!
//! What is right is what would be written now. So nothing is remembered on disk that could be lost or wrong: the content is made
//! anew and compared with the file as it comes, and the first byte that differs ends that. While neither the file nor what it
//! is made of has been touched since, nothing is read at all.
//!
//! Invariants
//! - The file is replaced in one step, and only if it still is what was compared; a run that fails or is cancelled leaves it as
//!   it was, and nothing beside it.
//! - What changes while it is read is read again: the file is never a mixture of two states.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use mgmt_resource::{Checked, Context, Effect, Error, Identity, Needed, Result, Watch};
use mgmt_sys::ManagedPath;
use mgmt_sys::dir::Parent;
use mgmt_sys::error::Cause;
use mgmt_sys::file::OpenedFile;
use mgmt_sys::handle::Attributes;
use mgmt_sys::replace::{Expect, InPlace, Replacement};
use mgmt_sys::stat::{Stat, Timestamp};
use mgmt_value::Str;
use rustix::time::{ClockId, clock_gettime};

use crate::support::account::lookup_now;
use crate::support::declared_path::output_path;
use crate::support::text_file::explain;

/// How long something that changes under our hands is waited for: nothing tells when somebody is done with a tree.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long something that was there before may be away.
const ABSENCE: Duration = Duration::from_secs(2);
/// The longest pause before it is looked at again.
const PAUSE: Duration = Duration::from_millis(100);
/// The mode of a file that we make. What is in it may be a secret.
const NEW_MODE: u32 = 0o600;
/// Seconds after which two changes have different times on every file system.
const SETTLED: i64 = 2;
/// How much is compared at once.
const CHUNK: usize = 64 << 10;

/// What a file is made of.
pub(crate) trait Ingredients: PartialEq {
    /// When something about them last changed.
    fn changed(&self) -> Option<Timestamp>;
}

/// What is remembered from one run to the next.
pub(crate) struct Verified<I> {
    /// What was found right: the file, and what it was made of.
    right: Option<(I, Stat)>,
    /// There once was all that the file is made of.
    complete: bool,
}

impl<I> Default for Verified<I> {
    fn default() -> Verified<I> {
        Verified { right: None, complete: false }
    }
}

/// Why content could not be made.
pub(crate) enum Trouble {
    /// Something that is read cannot be.
    Input(mgmt_sys::Error),
    /// Something has changed while it was read.
    Changing(String),
    /// Where it goes to takes no more.
    Stopped,
    /// Anything else.
    Told(Error),
}

impl From<mgmt_sys::Error> for Trouble {
    fn from(error: mgmt_sys::Error) -> Trouble {
        Trouble::Input(error)
    }
}

impl From<io::Error> for Trouble {
    /// Nothing but the sink is read or written that way.
    fn from(_: io::Error) -> Trouble {
        Trouble::Stopped
    }
}

/// The watch of such a file itself, if its path can be one.
pub(crate) fn watch(path: &Str, name: &Str) -> Option<Watch> {
    let path = output_path(path, name).ok()?;
    Some(Watch::Path { path: path.as_bytes().into(), recursive: false })
}

/// What the resource of such a file provides: the file.
pub(crate) fn provides(path: &Str, name: &Str) -> Vec<Identity> {
    let path = output_path(path, name).ok();
    path.map(|path| Identity::Path(path.as_bytes().into())).into_iter().collect()
}

/// Makes the file at `path` what `write` makes of what `survey` finds. The log says `done` when the file was written.
pub(crate) async fn keep<I: Ingredients>(
    path: &ManagedPath,
    verified: &mut Verified<I>,
    cx: &Context<'_>,
    done: &'static str,
    mut survey: impl FnMut() -> Result<I, Trouble> + Send,
    mut write: impl FnMut(&I, &mut dyn Write) -> Result<(), Trouble> + Send,
) -> Result<Checked> {
    let began = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        // Reading and compressing may take long, and others wait meanwhile.
        let attempt = lookup_now(|| Ok(once(path, verified, cx, &mut survey, &mut write)))?;
        let trouble = match attempt {
            Ok(checked) => {
                if checked == Checked::Changed && cx.apply {
                    cx.info(done);
                }
                return Ok(checked);
            }
            Err(trouble) => trouble,
        };
        cx.checkpoint()?;
        let again = began.elapsed() < PATIENCE;
        match trouble {
            Trouble::Input(error) if error.is_raced() && again => {}
            Trouble::Changing(_) if again => wait(&mut pause).await,
            // Who replaces a file may have to remove it first, and another resource may be about to make it again.
            Trouble::Input(error)
                if cx.apply && verified.complete && is_missing(&error) && began.elapsed() < ABSENCE =>
            {
                wait(&mut pause).await;
            }
            // Another resource may be about to make it, and only a run that changes things can tell.
            Trouble::Input(error) if is_missing(&error) && may_come(&error, cx) => {
                describe(path, Str::new(path.as_bytes()).as_path().exists(), cx);
                return Ok(Checked::Changed);
            }
            Trouble::Input(error) => return Err(explain(&error)),
            Trouble::Changing(what) => {
                return Err(Error::new(format_args!("{what} changes while it is read"))
                    .with_hint("find out who writes there all the time"));
            }
            Trouble::Stopped => return Err(Error::new("the content came to no end")),
            Trouble::Told(error) => return Err(error),
        }
    }
}

fn once<I: Ingredients>(
    path: &ManagedPath,
    verified: &mut Verified<I>,
    cx: &Context<'_>,
    survey: &mut impl FnMut() -> Result<I, Trouble>,
    write: &mut impl FnMut(&I, &mut dyn Write) -> Result<(), Trouble>,
) -> Result<Checked, Trouble> {
    let looked = clock_gettime(ClockId::RealtimeCoarse).tv_sec;
    let ingredients = survey()?;
    verified.complete = true;
    let parent = Parent::open(path)?;
    // The root is a directory, and refused before.
    let name = path.file_name().unwrap_or_default();
    let present = match parent.open_regular(name) {
        Ok(file) => Some(file),
        Err(error) if error.is_not_found() => None,
        Err(error) => return Err(error.into()),
    };
    if let Some(file) = &present {
        let stat = file.stat();
        if verified
            .right
            .as_ref()
            .is_some_and(|(made_of, seen)| seen.same_version(stat) && *made_of == ingredients)
        {
            return Ok(Checked::Right);
        }
        let mut comparison = Comparison { file, cx, offset: 0, buffer: vec![0; CHUNK], end: None };
        let made = write(&ingredients, &mut comparison);
        let equal = match (comparison.end.take(), made) {
            (Some(End::Different), _) => false,
            (Some(End::Trouble(trouble)), _) => return Err(trouble),
            (None, made) => {
                made?;
                comparison.offset == stat.size
            }
        };
        if equal {
            let settled = [Some(stat.changed), ingredients.changed()].into_iter().flatten();
            let settled = settled.into_iter().all(|changed| changed.seconds < looked.saturating_sub(SETTLED));
            verified.right = settled.then_some((ingredients, *stat));
            return Ok(Checked::Right);
        }
    }
    cx.effects.clear();
    describe(path, present.is_some(), cx);
    if !cx.apply {
        let old = present.as_ref().map(|file| file.stat().size);
        // How long it becomes is only known when it is made.
        let length = match cx.foreseen {
            Some(_) => {
                let mut counter = Counter { cx, length: 0, end: None };
                let made = write(&ingredients, &mut counter);
                if let Some(error) = counter.end {
                    return Err(Trouble::Told(error));
                }
                made?;
                counter.length
            }
            None => 0,
        };
        crate::support::foresee::replaceable(cx, &parent, name, length, old)?;
        return Ok(Checked::Changed);
    }
    let (new, attributes, expect) = match &present {
        // Owner, mode and all else are those of the file that is replaced.
        Some(file) => {
            let new = Replacement::begin(&parent, name, InPlace::Refuse)?;
            (new, Attributes::default(), Expect::Same(*file.stat()))
        }
        None => {
            let new = Replacement::begin_new(&parent, name, InPlace::Refuse, NEW_MODE)?;
            (new, Attributes { mode: Some(NEW_MODE), ..Attributes::default() }, Expect::Absent)
        }
    };
    let mut sink = Output { new, cx, end: None };
    let made = write(&ingredients, &mut sink);
    if let Some(trouble) = sink.end {
        return Err(trouble);
    }
    made?;
    // A file that came or went meanwhile makes the content neither old nor new.
    if survey()? != ingredients {
        return Err(Trouble::Changing("what it is made of".into()));
    }
    sink.new.commit(&attributes, expect, cx.host.durability)?;
    verified.right = None;
    Ok(Checked::Changed)
}

fn describe(path: &ManagedPath, is_there: bool, cx: &Context<'_>) {
    let is_there = is_there || matches!(cx.foreseen_file(path.as_bytes()), Some(Some(_)));
    cx.describe(match is_there {
        true => Effect::change(path).aspect("content"),
        false => Effect::create(path).aspect("file"),
    });
}

async fn wait(pause: &mut Duration) {
    tokio::time::sleep(*pause).await;
    *pause = PAUSE.min(*pause * 2);
}

/// When only looking: whether what is missing may be there in a run.
fn may_come(error: &mgmt_sys::Error, cx: &Context<'_>) -> bool {
    cx.may_come(Needed::Path(match error.cause() {
        Cause::Missing(missing) => missing,
        _ => error.path(),
    }))
}

fn is_missing(error: &mgmt_sys::Error) -> bool {
    error.is_not_found() || matches!(error.cause(), Cause::Missing(_))
}

/// Why a sink takes no more.
enum End {
    Different,
    Trouble(Trouble),
}

fn stop() -> io::Error {
    io::Error::other("stopped")
}

/// Compares what is written with a file.
struct Comparison<'a> {
    file: &'a OpenedFile,
    cx: &'a Context<'a>,
    offset: u64,
    buffer: Vec<u8>,
    end: Option<End>,
}

impl Write for Comparison<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Err(error) = self.cx.checkpoint() {
            self.end = Some(End::Trouble(Trouble::Told(error)));
            return Err(stop());
        }
        let wanted = bytes.len().min(self.buffer.len());
        match self.file.read_at(&mut self.buffer[..wanted], self.offset) {
            Ok(got) if !got.is_empty() && bytes.starts_with(got) => {
                self.offset += got.len() as u64;
                Ok(got.len())
            }
            Ok(_) if bytes.is_empty() => Ok(0),
            Ok(_) => {
                self.end = Some(End::Different);
                Err(stop())
            }
            Err(error) => {
                self.end = Some(End::Trouble(error.into()));
                Err(stop())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Counts what is written.
struct Counter<'a> {
    cx: &'a Context<'a>,
    length: u64,
    end: Option<Error>,
}

impl Write for Counter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Err(error) = self.cx.checkpoint() {
            self.end = Some(error);
            return Err(stop());
        }
        self.length += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes to what becomes the file.
struct Output<'a> {
    new: Replacement<'a>,
    cx: &'a Context<'a>,
    end: Option<Trouble>,
}

impl Write for Output<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.cx.checkpoint().map_err(Trouble::Told);
        let written = written.and_then(|()| self.new.write_all(bytes).map_err(Trouble::Input));
        match written {
            Ok(()) => Ok(bytes.len()),
            Err(trouble) => {
                self.end = Some(trouble);
                Err(stop())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
