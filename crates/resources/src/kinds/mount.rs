//! `mount`: file systems in their places.
//!
//! [`Mount`] is the declaration. `fstab` edits the table of what is mounted at boot, `live` reads what is mounted now and says how
//! it differs, `check` makes both as declared.
//!
//! Invariants
//! - Of the table nothing changes but the lines for this mount point; comments and all other lines stay as they are written.
//! - What is mounted is found by its mount point, whatever device it is.
//! - Only what is declared is compared: options that the kernel adds by itself are its own business.
//!
//! Deliberately absent: swap space, automounts, and lazy or forced unmounting, which leave processes with half a file system.

mod check;
mod fstab;
mod live;
mod options;

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use mgmt_resource::{
    Cancel, Checked, Context, Error, Host, Identity, Invalid, Kind, Nothing, Order, Resource, Result,
    ResultExt, Want, Watch, WatchStream,
};
use mgmt_sys::ManagedPath;
use mgmt_value::Str;
use mgmt_watch::{KernelEvents, KernelTopic};

use self::fstab::FSTAB;
use crate::support::presence::Presence;

/// Mounts a file system, now and after every boot.
///
/// The name of the resource is the mount point, an absolute path; a directory that is missing there is made. The line for it in
/// `/etc/fstab` is kept as declared, and all other lines are left alone. When somebody unmounts it, mounts something else there,
/// changes its options or the line, it is put right at once: what differs only in options is remounted, something else is
/// unmounted first, which fails while it is in use.
///
/// Options are compared as far as the kernel shows them; those that are not declared are left to the kernel. Declare `rw` to have
/// a file system kept writable.
///
/// If another resource notifies this one, what is mounted there is remounted.
///
/// With `absent`, whatever is mounted there is unmounted, and has no line any more; the other parameters do not matter.
///
/// Managed paths below the mount point come after it, as do mounts below it.
///
/// ```mcl
/// mount "/srv/data" {
///     state => "exists",
///     device => "UUID=0e8c2a4f-6f0a-4c3e-9e55-6a1f4d7c7b11",
///     type => "ext4",
///     options => {"noatime" => ""},
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Resource)]
#[resource(kind = "mount", edges, receive, refresh)]
pub struct Mount {
    /// `exists` or `absent`; or `unmounted`: it has its line in `/etc/fstab` and is not mounted; or `defined`: it has its line,
    /// and may be mounted or not. Only this implementation has the last two.
    pub state: Str,
    /// What to mount: a device or a directory by its path, or `UUID=`, `LABEL=`, `PARTUUID=`, `PARTLABEL=` and an identifier, or
    /// what the type wants, such as `server:/path`; any word for types like `tmpfs` that have no device.
    pub device: Str,
    /// The type of the file system. `none` for a directory that is shown in another place, with the option `bind`.
    pub r#type: Str,
    /// Options, each with its value, which is empty for those that have none: `{noatime: "", size: 10m}`.
    pub options: BTreeMap<Str, Str>,
    /// The fifth column of `/etc/fstab`, for `dump`.
    pub freq: u32,
    /// The sixth column of `/etc/fstab`: when the file system is checked at boot; 0 is never.
    pub passno: u32,
    /// `fstab`: mount it at boot, too. `none`: only now, and leave `/etc/fstab` alone.
    pub persist: Str,
    /// The options as they are written in `/etc/fstab`, `rw,noatime` for example, instead of `options`: they keep their order.
    /// Only this implementation has it.
    pub optionstext: Str,
}

/// What a valid `state` means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Exists,
    Absent,
    Unmounted,
    Defined,
}

impl State {
    fn read(state: &Str) -> Result<State, Invalid> {
        match state.as_bytes() {
            b"unmounted" => Ok(State::Unmounted),
            b"defined" => Ok(State::Defined),
            _ => Presence::read(state).map(|presence| match presence {
                Presence::Exists => State::Exists,
                Presence::Absent => State::Absent,
            }),
        }
    }
}

impl Default for Mount {
    fn default() -> Mount {
        Mount {
            state: Str::EMPTY,
            device: Str::EMPTY,
            r#type: Str::EMPTY,
            options: BTreeMap::from([("defaults".into(), Str::EMPTY)]),
            freq: 0,
            passno: 0,
            persist: "fstab".into(),
            optionstext: Str::EMPTY,
        }
    }
}

impl Kind for Mount {
    type State = ();
    type Sends = Nothing;

    fn validate(&self, name: &Str) -> Result<(), Invalid> {
        let point = mount_point(name)?;
        plain("name", name)?;
        if point.is_root() {
            return Err(Invalid::new("the root is mounted before anything can be said about it")
                .with_hint("choose another mount point"));
        }
        self.persists()?;
        let state = State::read(&self.state)?;
        if state == State::Absent {
            return Ok(());
        }
        if matches!(state, State::Unmounted | State::Defined) && !self.persists()? {
            return Err(Invalid::field(
                "persist",
                "expected `fstab`: there is nothing else to keep in this state",
            ));
        }
        if !self.optionstext.is_empty() {
            if self.options != Mount::default().options {
                return Err(Invalid::field("optionstext", "set either `options` or `optionstext`"));
            }
            if self.optionstext.iter().any(u8::is_ascii_whitespace) {
                return Err(Invalid::field(
                    "optionstext",
                    "expected options with commas between them, and no blanks",
                ));
            }
        }
        for (field, text, such) in [("device", &self.device, "/dev/sdb1"), ("type", &self.r#type, "ext4")] {
            if text.is_empty() {
                return Err(Invalid::field(
                    field,
                    format!("is missing; expected something such as `{such}`"),
                ));
            }
            plain(field, text)?;
        }
        if self.r#type.iter().any(|byte| b", \t".contains(byte)) {
            return Err(Invalid::field("type", format!("expected one type, found {:?}", self.r#type)));
        }
        if self.r#type.as_bytes() == b"swap" {
            return Err(Invalid::field("type", "swap space is not mounted"));
        }
        let options = self.wanted_options();
        if self.r#type.as_bytes() == b"none" && !options::is_bind(&options) {
            return Err(Invalid::field("type", "`none` is for a directory that is shown in another place")
                .with_hint("set the option `bind`, or the type of the file system"));
        }
        options::validate(&options)
    }

    fn watches(&self, _: &Str) -> Vec<Watch> {
        let start = |_: &Host| {
            let events =
                KernelEvents::follow(&KernelTopic::Mounts).context("cannot follow what is mounted")?;
            Ok(Box::new(Followed(events)) as Box<dyn WatchStream>)
        };
        let mut watches = vec![Watch::Stream { key: "mounts".into(), start: Arc::new(start) }];
        if self.persists() == Ok(true) {
            watches.push(Watch::Path { path: FSTAB.into(), recursive: false });
        }
        watches
    }

    // What is mounted there is not always mounted.
    fn claimed_paths(&self, name: &Str) -> Vec<Str> {
        let point = mount_point(name).ok().map(|point| Str::from(point.as_bytes()));
        point.into_iter().chain([Str::from(FSTAB)]).collect()
    }

    async fn check_apply(&self, (): &mut (), cx: &mut Context<'_>) -> Result<Checked> {
        check::check(self, cx).await
    }

    fn provides(&self, name: &Str) -> Vec<Identity> {
        let exists = State::read(&self.state) == Ok(State::Exists);
        let point = mount_point(name).ok().filter(|_| exists);
        point.map(|point| Identity::Path(point.to_directory().as_bytes().into())).into_iter().collect()
    }

    fn wants(&self, name: &Str) -> Vec<Want> {
        let Ok(point) = mount_point(name) else { return Vec::new() };
        let directory = Str::from(point.to_directory().as_bytes());
        let mut before = vec![Identity::Path(directory.clone()), Identity::Path(FSTAB.into())];
        if let Ok(device) = ManagedPath::new(&self.device) {
            before.push(Identity::Path(device.without_slash().into()));
            before.push(Identity::Path(device.to_directory().as_bytes().into()));
        }
        vec![Want::Each(Order::Before, before), Want::ParentOf(directory)]
    }

    fn equivalent(&self, _: &Str, other: &Mount) -> bool {
        let plain =
            |mount: &Mount| Mount { options: options::declared(&mount.wanted_options()), ..mount.clone() };
        self == other || plain(self) == plain(other)
    }
}

impl Mount {
    /// The options, however they are given.
    fn wanted_options(&self) -> BTreeMap<Str, Str> {
        match self.optionstext.is_empty() {
            true => self.options.clone(),
            false => options::read(&self.optionstext),
        }
    }

    /// Whether it is mounted at boot.
    fn persists(&self) -> Result<bool, Invalid> {
        match self.persist.as_bytes() {
            b"fstab" => Ok(true),
            b"none" => Ok(false),
            _ => Err(Invalid::field(
                "persist",
                format!("expected `fstab` or `none`, found {:?}", self.persist),
            )),
        }
    }
}

/// The mount point that a resource of this name means. It never ends in a slash.
fn mount_point(name: &Str) -> Result<ManagedPath, Invalid> {
    let wrong =
        |error: mgmt_sys::path::PathError| Invalid::new(format!("the name is the mount point: {error}"));
    let path = ManagedPath::new(name).map_err(wrong)?;
    ManagedPath::new(path.without_slash()).map_err(wrong)
}

/// Checks a text that becomes part of a line.
fn plain(field: &'static str, text: &Str) -> Result<(), Invalid> {
    match text.iter().any(u8::is_ascii_control) {
        true => Err(Invalid::field(field, format!("{text:?} has a control character"))),
        false => Ok(()),
    }
}

/// What the kernel tells of mounts, as events.
struct Followed(KernelEvents);

impl WatchStream for Followed {
    fn next<'a>(&'a mut self, cancel: &'a Cancel) -> Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>> {
        Box::pin(async move {
            tokio::select! {
                event = self.0.next() => event.context("cannot follow what is mounted any longer"),
                () = cancel.cancelled() => Err(Error::Cancelled),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount() -> Mount {
        Mount {
            state: "exists".into(),
            device: "/dev/sdb1".into(),
            r#type: "ext4".into(),
            ..Mount::default()
        }
    }

    fn with(options: &[(&str, &str)]) -> Mount {
        let options = options.iter().map(|(key, value)| (Str::from(*key), Str::from(*value))).collect();
        Mount { options, ..mount() }
    }

    #[test]
    fn bad_parameters_are_refused() {
        let refused = |mount: &Mount| Kind::validate(mount, &"/mnt".into()).unwrap_err().field;
        assert!(Kind::validate(&mount(), &"/mnt".into()).is_ok());
        for name in ["", "mnt", "/", "/a\nb", "/a\0"] {
            assert!(Kind::validate(&mount(), &name.into()).is_err(), "{name:?}");
        }
        assert_eq!(refused(&Mount { state: Str::EMPTY, ..mount() }), Some("state"));
        assert_eq!(refused(&Mount { state: "mounted".into(), ..mount() }), Some("state"));
        assert_eq!(refused(&Mount { device: Str::EMPTY, ..mount() }), Some("device"));
        assert_eq!(refused(&Mount { device: "a\nb".into(), ..mount() }), Some("device"));
        for wrong in ["", "ext4,xfs", "swap", "none", "a\tb"] {
            assert_eq!(refused(&Mount { r#type: wrong.into(), ..mount() }), Some("type"), "{wrong:?}");
        }
        assert_eq!(refused(&Mount { persist: "unit".into(), ..mount() }), Some("persist"));
        for wrong in
            [("", ""), ("a,b", ""), ("a b", ""), ("a", "b,c"), ("a", "b c"), ("a=b", ""), ("ro", "1\n")]
        {
            assert_eq!(refused(&with(&[wrong])), Some("options"), "{wrong:?}");
        }
        assert_eq!(refused(&with(&[("ro", ""), ("rw", "")])), Some("options"));
        let absent = Mount { state: "absent".into(), ..Mount::default() };
        assert!(Kind::validate(&absent, &"/mnt/".into()).is_ok());
    }

    #[test]
    fn default_options_are_no_options() {
        let name = Str::from("/mnt");
        assert!(mount().equivalent(&name, &with(&[])));
        assert!(with(&[("ro", ""), ("defaults", "")]).equivalent(&name, &with(&[("ro", "")])));
        assert!(!mount().equivalent(&name, &with(&[("ro", "")])));
    }
}
