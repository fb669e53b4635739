//! Looks at a mount point and makes it as declared.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use mgmt_resource::{Checked, Context, Effect, Error, Needed, Result};
use mgmt_sys::ManagedPath;
use mgmt_sys::dir::Parent;
use mgmt_sys::handle::Attributes;
use mgmt_sys::preflight::check_may_mount;
use mgmt_sys::process::{Command, Signal, Status, find_program};
use mgmt_sys::replace::InPlace;
use mgmt_value::Str;

use super::fstab::{self, Entry, FSTAB};
use super::live::{self, Difference, Mounted};
use super::{Mount, State, mount_point, options};
use crate::kinds::svc::manager::Manager;
use crate::support::account::lookup_now;
use crate::support::foresee;
use crate::support::text_file::{TextFile, explain};

/// Where the tools are.
const DIRECTORIES: &str = "/usr/sbin:/usr/bin:/sbin:/bin";
/// How many file systems may be mounted over each other.
const DEEPEST: usize = 64;
/// How long to wait, in milliseconds, before what has failed is tried again. Who mounts or unmounts something keeps it busy for a
/// moment after everybody has been told of it, and may not be done with the place.
const PAUSES: [u64; 5] = [20, 50, 100, 200, 400];
/// How long a tool that is to stop may take.
const GRACE: Duration = Duration::from_secs(10);
const LONGEST_COMPLAINT: usize = 500;

pub(super) async fn check(mount: &Mount, cx: &mut Context<'_>) -> Result<Checked> {
    let spelled_out = Mount { options: mount.wanted_options(), ..mount.clone() };
    let wanted = Wanted {
        mount: &spelled_out,
        point: mount_point(&cx.id.name).map_err(Error::new)?,
        state: State::read(&mount.state).map_err(Error::new)?,
    };
    let stored = match mount.persists().map_err(Error::new)? {
        true => wanted.store(cx).await?,
        false => Checked::Right,
    };
    let settled = wanted.settle(cx).await?;
    if cx.refresh && settled == Checked::Right && wanted.is_mounted()? {
        if cx.apply {
            wanted.remount(cx).await?;
        }
        return Ok(Checked::Changed);
    }
    Ok(stored.and(settled))
}

struct Wanted<'a> {
    mount: &'a Mount,
    point: ManagedPath,
    state: State,
}

impl Wanted<'_> {
    /// Keeps the table of what is mounted at boot.
    async fn store(&self, cx: &Context<'_>) -> Result<Checked> {
        let path = ManagedPath::new(FSTAB).map_err(Error::new)?;
        // Where the table is bound into a container, it cannot be renamed over.
        let file = TextFile { path, owner: None, mode: 0o644, in_place: InPlace::Allow };
        let entry = Entry {
            device: self.mount.device.to_vec(),
            point: self.point.as_bytes().to_vec(),
            kind: self.mount.r#type.to_vec(),
            options: options::declared(&self.mount.options),
            text: self.mount.optionstext.to_vec(),
            freq: self.mount.freq,
            passno: self.mount.passno,
        };
        let change = |table: Option<&[u8]>| match self.state {
            State::Exists | State::Unmounted | State::Defined => {
                fstab::with(table.unwrap_or_default(), &entry)
            }
            State::Absent => fstab::without(table.unwrap_or_default(), self.point.as_bytes()),
        };
        let checked = lookup_now(|| file.edit(cx, change))?;
        if checked == Checked::Changed && cx.apply {
            cx.info(format_args!("stored in {FSTAB}"));
            reload(cx).await;
        }
        Ok(checked)
    }

    /// Makes what is mounted as declared.
    async fn settle(&self, cx: &Context<'_>) -> Result<Checked> {
        let mut pauses = PAUSES.iter();
        loop {
            let done = match self.state {
                State::Exists => self.mount(cx).await,
                State::Absent | State::Unmounted => self.unmount(cx).await,
                State::Defined => Ok(Checked::Right),
            };
            match (done, pauses.next()) {
                (Err(error), Some(pause)) if !error.is_cancelled() => {
                    tokio::time::sleep(Duration::from_millis(*pause)).await;
                    cx.checkpoint()?;
                }
                (done, _) => return done,
            }
        }
    }

    async fn mount(&self, cx: &Context<'_>) -> Result<Checked> {
        let found = live::at(self.point.as_bytes())?;
        let difference = match found.last() {
            None => None,
            Some(top) => match self.difference(top)? {
                None => return Ok(Checked::Right),
                different => different,
            },
        };
        self.describe_mount(difference.as_ref(), cx);
        if !cx.apply {
            self.foresee(difference.is_none(), cx)?;
            return Ok(Checked::Changed);
        }
        cx.checkpoint()?;
        match difference {
            Some(Difference::Option(_)) => self.remount(cx).await?,
            Some(Difference::Other(what)) => {
                cx.info(format_args!("unmounts {what}, which is in its place"));
                self.unmount_all(cx).await?;
                self.mount_here(cx).await?;
            }
            None => self.mount_here(cx).await?,
        }
        let now = live::at(self.point.as_bytes())?;
        let left = match now.last() {
            None => "nothing is mounted there".to_owned(),
            Some(top) => match self.difference(top)? {
                None => return Ok(Checked::Changed),
                Some(Difference::Option(option)) => {
                    format!("the option `{}` has no effect", option.display())
                }
                Some(Difference::Other(what)) => format!("{what} is mounted there"),
            },
        };
        Err(Error::new(format_args!("{} was mounted, but {left}", self.point))
            .with_hint(format_args!("findmnt {} shows what is mounted, and how", self.point)))
    }

    /// While a plan is made: fails if this process may not mount anything, or nothing can be mounted there.
    fn foresee(&self, is_new: bool, cx: &Context<'_>) -> Result<()> {
        let check = || {
            check_may_mount(self.point.as_bytes())?;
            let Ok(parent) = Parent::open(&self.point) else { return Ok(()) };
            let name = self.point.file_name().unwrap_or_default();
            match parent.lstat_entry(name)? {
                Some(_) if is_new => self.open_point(&parent, name),
                _ => Ok(()),
            }
        };
        foresee::ask(cx, check).map_err(|error| explain(&error))?;
        self.foresee_device(cx)
    }

    /// While a plan is made: fails if the device is missing and nothing before would make it.
    fn foresee_device(&self, cx: &Context<'_>) -> Result<()> {
        let device = &self.mount.device;
        let is_needed = options::is_bind(&self.mount.options) || live::needs_device(&self.mount.r#type);
        let is_missing = cx.foreseen.is_some()
            && device.starts_with(b"/")
            && is_needed
            && device.as_path().symlink_metadata().is_err();
        if !is_missing || cx.may_come(Needed::Path(device)) {
            return Ok(());
        }
        Err(Error::new(format_args!("there is no {} to mount on {}", device.display(), self.point))
            .with_hint("check the spelling; `lsblk --fs` lists the devices of this host"))
    }

    fn describe_mount(&self, difference: Option<&Difference>, cx: &Context<'_>) {
        let options = String::from_utf8_lossy(&options::written(&self.mount.options)).into_owned();
        let effect = match difference {
            None => Effect::create(&self.point).aspect("mount").after(self.mount.device.display()),
            Some(Difference::Option(_)) => Effect::change(&self.point).aspect("options").after(options),
            Some(Difference::Other(what)) => {
                Effect::change(&self.point).aspect("mount").before(what).after(self.mount.device.display())
            }
        };
        cx.effects_of_attempt(effect.presumed());
    }

    /// Whether it is mounted, and may be.
    fn is_mounted(&self) -> Result<bool> {
        let may_be = matches!(self.state, State::Exists | State::Defined);
        Ok(may_be && !live::at(self.point.as_bytes())?.is_empty())
    }

    /// How what is mounted differs. A server that does not answer keeps nobody else waiting.
    fn difference(&self, mounted: &Mounted) -> Result<Option<Difference>> {
        lookup_now(|| Ok(mounted.difference(self.mount)))
    }

    async fn mount_here(&self, cx: &Context<'_>) -> Result<()> {
        lookup_now(|| self.make_directory())?;
        let options = options::written(&self.mount.options);
        let arguments = [
            b"-t",
            self.mount.r#type.as_bytes(),
            b"-o",
            &options,
            b"--",
            self.mount.device.as_bytes(),
            self.point.as_bytes(),
        ];
        run("mount", &arguments, cx).await?;
        cx.info("mounted");
        Ok(())
    }

    async fn remount(&self, cx: &Context<'_>) -> Result<()> {
        // What a bound directory has of its own are its switches; the file system behind it is another's.
        let is_bind = options::is_bind(&self.mount.options);
        let declared = options::declared(&self.mount.options);
        let declared =
            declared.into_iter().filter(|(key, _)| !matches!(key.as_bytes(), b"bind" | b"rbind")).collect();
        let how: &[u8] = if is_bind { b"remount,bind," } else { b"remount," };
        let options = [how, &options::written(&declared)].concat();
        run("mount", &[b"-o", &options, b"--", self.point.as_bytes()], cx).await?;
        cx.info("remounted");
        Ok(())
    }

    /// Unmounts whatever is mounted there.
    async fn unmount(&self, cx: &Context<'_>) -> Result<Checked> {
        if live::at(self.point.as_bytes())?.is_empty() {
            return Ok(Checked::Right);
        }
        cx.effects_of_attempt(Effect::remove(&self.point).aspect("mount").presumed());
        if !cx.apply {
            foresee::ask(cx, || check_may_mount(self.point.as_bytes())).map_err(Error::new)?;
            return Ok(Checked::Changed);
        }
        self.unmount_all(cx).await
    }

    async fn unmount_all(&self, cx: &Context<'_>) -> Result<Checked> {
        let count = live::at(self.point.as_bytes())?.len();
        for _ in 0..count.min(DEEPEST) {
            cx.checkpoint()?;
            run("umount", &[b"--", self.point.as_bytes()], cx).await?;
            cx.info("unmounted");
            if live::at(self.point.as_bytes())?.is_empty() {
                return Ok(Checked::Changed);
            }
        }
        Err(Error::new(format_args!("something is still mounted at {}", self.point)))
    }

    /// Makes the mount point, unless it is there. What is shown of a file is a file.
    fn make_directory(&self) -> Result<()> {
        let make = || {
            let parent = Parent::open_or_create(&self.point)?;
            let name = self.point.file_name().unwrap_or_default();
            match parent.lstat_entry(name)? {
                None => parent.make_directory(name, &Attributes::default()).map(|_| ()),
                Some(_) => self.open_point(&parent, name),
            }
        };
        make().map_err(|error| explain(&error))
    }

    /// Fails if the mount point is neither a directory nor, for a file that is bound, a file.
    fn open_point(&self, parent: &Parent, name: &[u8]) -> mgmt_sys::Result<()> {
        let is_file = options::is_bind(&self.mount.options)
            && std::fs::metadata(self.mount.device.as_path()).is_ok_and(|found| found.is_file());
        match is_file {
            true => parent.open_regular(name).map(|_| ()),
            // A link could lead anywhere.
            false => parent.open_dir(name).map(|_| ()),
        }
    }
}

/// Has the service manager, if there is one, make its units of the new table. It would otherwise go by the old one.
async fn reload(cx: &Context<'_>) {
    let Ok(manager) = Manager::of(false) else { return };
    let reload = async {
        manager.ready().await?;
        manager.reload().await
    };
    tokio::select! {
        done = reload => if let Err(error) = done {
            cx.warn(format_args!("the service manager goes by the old {FSTAB}: {error}"));
        },
        () = cx.cancel.cancelled() => {}
    }
}

/// Runs a tool, and fails with what it says.
async fn run(tool: &str, arguments: &[&[u8]], cx: &Context<'_>) -> Result<()> {
    let own = std::env::var_os("PATH").unwrap_or_default();
    let program = find_program(OsStr::new(tool), OsStr::new(DIRECTORIES))
        .or_else(|| find_program(OsStr::new(tool), &own))
        .ok_or_else(|| {
            Error::new(format_args!("there is no program {tool} on this host"))
                .with_hint("install it: the package is mostly called mount or util-linux")
        })?;
    let arguments = arguments.iter().map(|argument| OsStr::from_bytes(argument).to_owned());
    let argv: Vec<OsString> = std::iter::once(program.into_os_string()).chain(arguments).collect();
    let mut command = Command::new(argv);
    let environment = [("PATH", DIRECTORIES), ("LC_ALL", "C")];
    command.env = environment.map(|(name, value)| (name.into(), value.into())).into();
    let running = command.spawn().map_err(Error::new)?;
    // A server that does not answer keeps it waiting.
    let (cancelled, interrupted) = (cx.cancel.cancelled(), cx.cancel.interrupted());
    let finished =
        running.wait_with(cancelled, interrupted, Signal::TERM, Some(GRACE)).await.map_err(Error::new)?;
    match finished.status {
        status if status.success() => Ok(()),
        Status::Cancelled | Status::Interrupted => Err(Error::Cancelled),
        status => Err(failure(tool, status, &finished.stderr.bytes)),
    }
}

fn failure(tool: &str, status: Status, complaint: &[u8]) -> Error {
    let lines = complaint.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let said = lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join(&b"; "[..]);
    let said = Str::new(said.get(..LONGEST_COMPLAINT).unwrap_or(&said));
    let error = match said.is_empty() {
        true => Error::new(format_args!("{tool} has failed with {status} and says nothing")),
        false => Error::new(format_args!("{tool} has failed: {}", said.display())),
    };
    let text = said.to_text();
    let hint = if text.contains("busy") {
        "end what uses it; fuser -vm shows who does"
    } else if text.contains("unknown filesystem type") {
        "check the type, and install the tools for it"
    } else if text.contains("bad option") || text.contains("wrong fs type") {
        "check the type, the options and the device; the log of the kernel may tell more"
    } else if text.contains("does not exist") || text.contains("can't find") {
        "check the device; lsblk -f shows what there is"
    } else if text.contains("permission denied") || text.contains("must be superuser") {
        "run this program as root, with the right to mount"
    } else {
        return error;
    };
    error.with_hint(hint)
}
