//! Files, directories and symbolic links.
//!
//! [`File`] is what a person declares. `declaration` reads it into a form in which the impossible cannot be said and
//! which is kept between runs; `check` looks at the host and brings it there. The rest serves those two: `content`
//! compares and writes a regular file, `tree` copies and purges directories, `link` makes symbolic links, `attributes`
//! sets owner, group, mode and label, `accounts` knows the numbers of users and groups, `memory` remembers what was
//! verified, `download` fetches what is at an address, `reversal` undoes, `validation` asks a command about new content, `edges` says what is watched and what comes first, `trouble` explains what went wrong.
//!
//! Invariants:
//!
//! - Every change goes through a handle of the directory it happens in; nothing at the path itself is followed.
//! - A new file has its final content, owner, group, mode and label before it has its name.
//! - A check that may not change anything takes the same decisions as one that may, and stops before the first change.
//! - When something else changes the path between our look and our change, we look again, a few times at most.
//!
//! Deliberately absent: preserving times, copying device nodes, writing through a symbolic link.

mod accounts;
mod attributes;
mod bucket;
mod check;
mod content;
mod declaration;
mod download;
mod edges;
mod effects;
mod link;
mod memory;
mod reversal;
mod tree;
mod trouble;
mod validation;

use std::fmt;

use mgmt_resource::{
    Checked, Context, Identity, Invalid, Kind, Nothing, OnLeave, Resource as Derived, Result, Want, Watch,
};
use mgmt_value::Str;

use declaration::{Declaration, State};
pub use memory::Memory;

/// Manages one file, directory or symbolic link.
///
/// A path that ends in a slash is a directory, here and in `source` and `fragments`. A file is replaced in one step:
/// whoever reads it sees the old content or the new one, with its final owner and mode. Its other hard links keep the
/// old content. A symbolic link at the path is never written through.
///
/// ```mcl
/// file "/etc/motd" {
///     state => "exists",
///     content => "welcome\n",
///     owner => "root",
///     mode => "u=rw,go=r",
/// }
/// ```
///
/// What comes from elsewhere has a checksum, so that it is what you have looked at:
///
/// ```mcl
/// file "/usr/local/bin/tool" {
///     state => "exists",
///     source => "https://example.com/tool-1.2",
///     checksum => "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
///     mode => "0755",
/// }
/// ```
#[derive(Clone, PartialEq, Derived)]
#[resource(kind = "file", edges, receive, reverse, query, blocking)]
pub struct File {
    /// The absolute path; the name if not given. A trailing slash makes it a directory.
    pub path: Str,
    /// Replaces the directory part of the path. Ends in a slash.
    pub dirname: Str,
    /// Replaces the last component of the path. A trailing slash makes it a directory.
    pub basename: Str,
    /// `exists` (or `present`), `absent`, or nothing: then it is never made and never removed, only changed.
    pub state: Str,
    /// The exact content. Unset leaves the content alone; the empty text makes an empty file.
    pub content: Option<Str>,
    /// The file or directory to copy from, or the address of a file: `https://HOST/PATH`. With `symlink`, the text of the link.
    ///
    /// A new copy of a file gets the permission bits of its source unless `mode` says otherwise. A directory is copied
    /// with all below it and needs `recurse`; links in it are copied as links. What the source does not have stays,
    /// unless `purge` is set. What other `file` resources manage below the path is left to them.
    ///
    /// What is at an address is fetched once and kept; the server is asked again every `refetch` seconds, and what has not changed
    /// there is not sent again. While the server cannot be reached, what was fetched before stays in force. A new file has the
    /// permissions of any new file. Addresses are only for this implementation.
    pub source: Str,
    /// Files to join, in this order. A directory stands for the files directly in it, sorted by name.
    pub fragments: Vec<Str>,
    /// The user who owns it, by name or number. With a directory to copy from, also of everything copied.
    pub owner: Str,
    /// Its group, by name or number. With a directory to copy from, also of everything copied.
    pub group: Str,
    /// The permissions: octal such as `0644`, or assignments such as `u=rw,go=r`, which leave those not named as they
    /// are. A symbolic link has none, so with `symlink` this does nothing.
    pub mode: Str,
    /// Include what is below: make missing parent directories, copy and remove whole trees, watch at any depth.
    pub recurse: bool,
    /// Replace what is there even if it is of another type, for example a directory by a file.
    pub force: bool,
    /// Remove everything in the directory that neither `source` nor another resource accounts for: what any resource of the graph makes,
    /// edits, reads or watches stays, with all below it, and so does `keep`. A file that another program has begun to write in order to
    /// rename it, told by its name, is left alone for a minute. Needs `recurse`. Never crosses into another mount.
    pub purge: bool,
    /// Be a symbolic link with `source` as its text.
    pub symlink: bool,
    /// The SELinux context. Unset leaves it alone; the empty text removes it.
    pub selinux: Option<Str>,
    /// Only ever replace the file in one step. When false, a file for which that is impossible, such as one that is
    /// bound into a container, is written into instead; readers may then see a mixture of old and new.
    pub atomic: bool,
    /// Permissions to add and to take away, each clause after the other: `u+x,g-w`. For files that are there, and for new
    /// ones, which begin with what any new file has. Set either this or `mode`. Only this implementation has it.
    pub modechange: Str,
    /// Make the file with its content, the directory or the link only if nothing is there. What is there stays what it is,
    /// of whatever type, with its content, and only gets its owner, group and mode. Only this implementation has it.
    pub createonly: bool,
    /// A command for `/bin/sh` that is asked about new content before it is put in place: `%` in it stands for the path of
    /// a file that has the content. If it fails, everything stays as it was. Only this implementation has it.
    pub validatecmd: Str,
    /// Keep the old content of a file that is replaced, under its name with this behind it: `.old`. Only this
    /// implementation has it.
    pub backup: Str,
    /// A new copy of a file or directory gets the permissions of its source. When false, it gets those of any new file or
    /// directory. Only this implementation has it.
    pub sourcemode: bool,
    /// Everything below the directory gets its owner, group and mode; those who may read a directory may also search it,
    /// and the directory itself is among them. What other `file` resources manage below is left to them. Needs `recurse`.
    /// Only this implementation has it.
    pub spread: bool,
    /// With `purge`: remove files and links, and leave directories where they are. Only this implementation has it.
    pub keepdirectories: bool,
    /// Replace a link that is in the place of a file, a file that is in the place of a link, and either of them in the
    /// place of a directory, also without `force`. Only this implementation has it.
    pub instead: bool,
    /// Anything that is there will do: a link or a directory at the path stays, and only gets its owner, group and mode.
    /// The content is for a regular file, and for when nothing is there. Only this implementation has it.
    pub anytype: bool,
    /// Tell how the content changes, in logs, plans and the history. When false, only that it does. What not everybody may
    /// read is never told. Only this implementation has it.
    pub showdiff: bool,
    /// Keep the content of a file that is replaced or removed in this directory, in the form of Puppet's `filebucket`, by which
    /// `puppet filebucket --local` finds and restores it. Only this implementation has it.
    pub bucket: Str,
    /// The sum that the content at an address must have, in hexadecimal: SHA-256, or SHA-512, SHA-384, SHA-224, SHA-1 or MD5, told
    /// by its length. What has another one is not taken, and what is here already is not fetched. Only this implementation has it.
    pub checksum: Str,
    /// Other addresses, to be asked in this order when the server before has nothing of that name. Only this implementation has it.
    pub mirrors: Vec<Str>,
    /// Files with certificates (PEM) of authorities that are trusted for `https`, besides those that the host trusts. Only this
    /// implementation has it.
    pub authorities: Vec<Str>,
    /// After how many seconds a server is asked again. Only this implementation has it.
    pub refetch: u32,
    /// With `recurse`: paths that stay as they are, with all below them, although no resource accounts for them. Nothing is copied to them, and
    /// nothing is purged there. Only this implementation has it.
    pub keep: Vec<Str>,
}

impl Default for File {
    fn default() -> File {
        File {
            path: Str::EMPTY,
            dirname: Str::EMPTY,
            basename: Str::EMPTY,
            state: Str::EMPTY,
            content: None,
            source: Str::EMPTY,
            fragments: Vec::new(),
            owner: Str::EMPTY,
            group: Str::EMPTY,
            mode: Str::EMPTY,
            recurse: false,
            force: false,
            purge: false,
            symlink: false,
            selinux: None,
            atomic: true,
            modechange: Str::EMPTY,
            createonly: false,
            validatecmd: Str::EMPTY,
            backup: Str::EMPTY,
            sourcemode: true,
            spread: false,
            keepdirectories: false,
            instead: false,
            anytype: false,
            showdiff: true,
            bucket: Str::EMPTY,
            checksum: Str::EMPTY,
            mirrors: Vec::new(),
            authorities: Vec::new(),
            refetch: download::REFETCH,
            keep: Vec::new(),
        }
    }
}

/// Shows everything but the content, which may be a secret, and long.
impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let content = self.content.as_ref().map(|content| format!("{} bytes", content.len()));
        f.debug_struct("File")
            .field("path", &self.path)
            .field("dirname", &self.dirname)
            .field("basename", &self.basename)
            .field("state", &self.state)
            .field("content", &content)
            .field("source", &self.source)
            .field("fragments", &self.fragments)
            .field("owner", &self.owner)
            .field("group", &self.group)
            .field("mode", &self.mode)
            .field("recurse", &self.recurse)
            .field("force", &self.force)
            .field("purge", &self.purge)
            .field("symlink", &self.symlink)
            .field("selinux", &self.selinux)
            .field("atomic", &self.atomic)
            .field("modechange", &self.modechange)
            .field("createonly", &self.createonly)
            .field("validatecmd", &self.validatecmd)
            .field("backup", &self.backup)
            .field("sourcemode", &self.sourcemode)
            .field("spread", &self.spread)
            .field("keepdirectories", &self.keepdirectories)
            .field("instead", &self.instead)
            .field("anytype", &self.anytype)
            .field("showdiff", &self.showdiff)
            .field("bucket", &self.bucket)
            .field("checksum", &self.checksum)
            .field("mirrors", &self.mirrors)
            .field("authorities", &self.authorities)
            .field("refetch", &self.refetch)
            .field("keep", &self.keep)
            .finish()
    }
}

impl Kind for File {
    type State = Memory;
    type Sends = Nothing;

    fn validate(&self, name: &Str) -> Result<(), Invalid> {
        Declaration::read(self, name).map(|_| ())
    }

    fn watches(&self, name: &Str) -> Vec<Watch> {
        edges::watches(self, name)
    }

    async fn check_apply(&self, memory: &mut Memory, cx: &mut Context<'_>) -> Result<Checked> {
        if !self.is_remote() {
            return check::check(self, None, memory, cx);
        }
        let fetched = download::bring(self, memory, cx).await?;
        aside(|| check::check(self, Some(&fetched), memory, cx))
    }

    fn blocks(&self) -> bool {
        !self.is_remote()
    }

    /// A copy may take long, and nothing is lost when it is given up: the file has its old content until the end.
    fn on_leave(&self) -> OnLeave {
        if self.source.is_empty() { OnLeave::Finish } else { OnLeave::Cancel }
    }

    fn on_stop(&self) -> OnLeave {
        Kind::on_leave(self)
    }

    fn provides(&self, name: &Str) -> Vec<Identity> {
        edges::provides(self, name)
    }

    fn wants(&self, name: &Str) -> Vec<Want> {
        edges::wants(self, name)
    }

    fn claimed_paths(&self, name: &Str) -> Vec<Str> {
        edges::claimed_paths(self, name)
    }

    fn reversed(&self, name: &Str) -> Result<Option<File>> {
        reversal::reversed(self, name)
    }

    fn equivalent(&self, name: &Str, other: &File) -> bool {
        // The same place and state in another spelling is the same declaration; everything else is compared as written.
        let plain = |file: &File| File {
            path: Str::EMPTY,
            dirname: Str::EMPTY,
            basename: Str::EMPTY,
            state: State::read(&file.state).map_or_else(|| file.state.clone(), |state| state.word().into()),
            ..file.clone()
        };
        self == other
            || (self.effective_path(name) == other.effective_path(name) && plain(self) == plain(other))
    }
}

/// Does what may take a while. If others are served by this thread, another one serves them meanwhile.
fn aside<T>(work: impl FnOnce() -> T) -> T {
    match tokio::runtime::Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(tokio::runtime::RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}
