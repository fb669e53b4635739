//! Owner, group, mode and SELinux context.

use mgmt_resource::{Checked, Needed};
use mgmt_sys::dir::Parent;
use mgmt_sys::file::OpenedFile;
use mgmt_sys::handle::{Attributes, Handle, Node};
use mgmt_sys::mode::{Mode, is_dangerous};
use mgmt_sys::preflight::check_owner_changeable;
use mgmt_sys::stat::{Kind, Stat};
use mgmt_sys::xattr;
use mgmt_value::Str;

use super::accounts;
use super::check::Run;
use super::effects;
use super::trouble::{Result, Trouble, not_kept};
use crate::support::foresee;

/// The declared attributes with users and groups as numbers. What is `None` is left alone.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) owner: Option<u32>,
    pub(super) group: Option<u32>,
    pub(super) mode: Option<Mode>,
    pub(super) label: Option<&'a [u8]>,
    /// When only looking: the owner or group does not exist, and is expected to be made before us in earnest.
    pending: bool,
}

impl<'a> Wanted<'a> {
    /// Looks the declared user and group up. Done on every run: the number behind a name may change.
    pub(super) fn of(run: &Run<'a, '_>) -> Result<Wanted<'a>> {
        let file = &run.wish.file;
        let mut wanted = Wanted {
            owner: None,
            group: None,
            mode: match run.wish.mode {
                _ if file.symlink => None,
                Some(mode) if file.spread => Some(mode.with_search()),
                mode => mode,
            },
            label: file.selinux.as_deref(),
            pending: false,
        };
        let mut resolve = |declared: &Str, find: fn(&Str) -> mgmt_resource::Result<u32>, needed| {
            if declared.is_empty() {
                return Ok(None);
            }
            match find(declared) {
                Ok(number) => Ok(Some(number)),
                Err(_) if run.cx.may_come(needed) => {
                    wanted.pending = true;
                    Ok(None)
                }
                Err(error) => Err(error),
            }
        };
        wanted.owner = resolve(&file.owner, accounts::user, Needed::User(&file.owner))?;
        wanted.group = resolve(&file.group, accounts::group, Needed::Group(&file.group))?;
        Ok(wanted)
    }

    /// The same for something below the declared path: its owner is ours to say, its mode and label are its own.
    pub(super) fn below(&self) -> Wanted<'static> {
        Wanted { owner: self.owner, group: self.group, mode: None, label: None, pending: self.pending }
    }

    /// The same for something below a directory whose attributes are everything's below it.
    pub(super) fn spread(&self, mode: Option<Mode>) -> Wanted<'static> {
        Wanted { mode, ..self.below() }
    }

    /// The same for something of another type than was declared, which may stay: a link has no mode, and those who may
    /// read a directory may also search it.
    pub(super) fn for_kind(&self, kind: Kind) -> Wanted<'a> {
        let mode = match kind {
            Kind::Symlink => None,
            Kind::Directory => self.mode.map(Mode::with_search),
            _ => self.mode,
        };
        Wanted { mode, ..*self }
    }

    /// Whether nothing is declared.
    pub(super) fn is_empty(&self) -> bool {
        self.owner.is_none()
            && self.group.is_none()
            && self.mode.is_none()
            && self.label.is_none()
            && !self.pending
    }

    /// What to set on something whose permission bits are `mode` now.
    pub(super) fn over(&self, mode: u32) -> Attributes<'a> {
        Attributes {
            owner: self.owner,
            group: self.group,
            mode: self.mode.map(|wanted| wanted.apply(mode)),
            label: self.label,
        }
    }

    /// Whether owner, group and mode are as declared. The label is not known from this.
    pub(super) fn fits(&self, stat: &Stat) -> bool {
        !self.pending && kept(stat, &self.over(stat.mode)).is_none()
    }

    /// Fails if a file would become a program that anyone can write and that runs with the rights of another.
    pub(super) fn check_safe(&self, path: &[u8], mode: Option<u32>) -> Result<()> {
        match mode {
            Some(mode) if is_dangerous(mode) => Err(Trouble::new(format_args!(
                "the mode of {} would become {mode:o}, which lets anyone write a program that runs with the rights of \
                 another",
                mgmt_sys::error::Escaped(path)
            ))
            .with_hint("declare the whole mode, for example 0755")),
            _ => Ok(()),
        }
    }
}

/// The property that is not as wanted.
pub(super) fn kept(stat: &Stat, wanted: &Attributes<'_>) -> Option<&'static str> {
    if wanted.owner.is_some_and(|owner| owner != stat.uid) {
        return Some("owner");
    }
    if wanted.group.is_some_and(|group| group != stat.gid) {
        return Some("group");
    }
    if wanted.mode.is_some_and(|mode| mode != stat.mode) {
        return Some("mode");
    }
    None
}

/// Something open whose attributes can be changed.
pub(super) trait Changeable: Node {
    fn change(&self, wanted: &Attributes<'_>) -> mgmt_sys::Result<bool>;
    fn look(&self) -> mgmt_sys::Result<Stat>;
}

impl Changeable for OpenedFile {
    fn change(&self, wanted: &Attributes<'_>) -> mgmt_sys::Result<bool> {
        self.set_attributes(wanted)
    }

    fn look(&self) -> mgmt_sys::Result<Stat> {
        self.current_stat()
    }
}

impl Changeable for Handle {
    fn change(&self, wanted: &Attributes<'_>) -> mgmt_sys::Result<bool> {
        self.set_attributes(wanted)
    }

    fn look(&self) -> mgmt_sys::Result<Stat> {
        self.current_stat()
    }
}

impl Changeable for Parent {
    fn change(&self, wanted: &Attributes<'_>) -> mgmt_sys::Result<bool> {
        self.set_attributes(wanted)
    }

    fn look(&self) -> mgmt_sys::Result<Stat> {
        self.stat()
    }
}

/// Makes the attributes of something that is there, and was seen as `stat`, what they should be.
pub(super) fn settle(
    run: &Run<'_, '_>,
    node: &impl Changeable,
    stat: &Stat,
    wanted: &Wanted<'_>,
) -> Result<Checked> {
    if wanted.fits(stat) && has_label(node, wanted)? {
        return Ok(Checked::Right);
    }
    let attributes = wanted.over(stat.mode);
    if stat.kind == Kind::File {
        wanted.check_safe(&node.at(), attributes.mode)?;
    }
    foresee::changeable(run.cx, node)?;
    let at = node.at();
    foresee::ask(run.cx, || {
        check_owner_changeable(&at, (stat.uid, stat.gid), attributes.owner, attributes.group)
    })?;
    effects::attributes(run, &effects::path(&at), wanted, &attributes, Some(stat));
    if let Some(label) = wanted.label
        && !has_label(node, wanted)?
    {
        effects::label(run, &at, xattr::label(node)?.as_deref(), label);
    }
    if !run.cx.apply {
        return Ok(Checked::Changed);
    }
    change(run, node, &attributes)
}

/// The same for something that was just made, which has been described.
pub(super) fn settle_new(
    run: &Run<'_, '_>,
    node: &impl Changeable,
    stat: &Stat,
    wanted: &Wanted<'_>,
) -> Result<Checked> {
    if wanted.fits(stat) && has_label(node, wanted)? {
        return Ok(Checked::Right);
    }
    change(run, node, &wanted.over(stat.mode))
}

/// While a plan is made: fails if something new cannot be given to its declared owner and group, or to those of what it replaces.
pub(super) fn foresee_owner(
    run: &Run<'_, '_>,
    parent: &Parent,
    path: &[u8],
    wanted: &Wanted<'_>,
    replaced: Option<&Stat>,
) -> mgmt_sys::Result<()> {
    let owner = wanted.owner.or(replaced.map(|stat| stat.uid));
    let group = wanted.group.or(replaced.map(|stat| stat.gid));
    foresee::ask(run.cx, || check_owner_changeable(path, parent.owner_of_new()?, owner, group))
}

fn change(run: &Run<'_, '_>, node: &impl Changeable, attributes: &Attributes<'_>) -> Result<Checked> {
    node.change(attributes)?;
    // A file system that takes a change and forgets it would have us change it again at every check, for ever.
    if let Some(what) = kept(&node.look()?, attributes) {
        return Err(not_kept(&node.at(), what));
    }
    run.cx.info("changed owner, group, mode or context");
    Ok(Checked::Changed)
}

fn has_label(node: &impl Node, wanted: &Wanted<'_>) -> Result<bool> {
    match wanted.label {
        None => Ok(true),
        Some(label) => Ok(xattr::label(node)?.unwrap_or_default() == label),
    }
}
