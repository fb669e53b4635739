//! A source that is at an address: asked for, kept, and asked for again once in a while.
//!
//! What was fetched is kept in the state directory of the resource: `source` is the content, `source.json` says where it came from, how
//! the server tells it from others, and which sum it was found to have. From there the file is copied like from any other
//! source. So what somebody breaks is repaired at once, also while the server is away, and what has not changed on the server
//! is not fetched again, also not by the next process.
//!
//! Invariants:
//!
//! - The copy has its name only when all of it has come and its sum is right. `source.json` is removed before the copy is replaced and
//!   written after it, so it never speaks of another one.
//! - Who only looks keeps nothing. What comes is compared with what is there as it comes, up to the first difference.
//! - With a checksum, nobody is asked for what is here already, be it as the copy or at the path itself.

use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use mgmt_resource::{Context, Error, Invalid, Result};
use mgmt_sys::ManagedPath;
use mgmt_sys::dir::Parent;
use mgmt_sys::file::OpenedFile;
use mgmt_sys::handle::Attributes;
use mgmt_sys::replace::{Expect, InPlace, Replacement};
use mgmt_sys::stat::{Kind, Stat};
use mgmt_value::Str;
use sha2::digest::DynDigest;

use super::memory::{Memory, Moment, Verified};
use super::{File, aside};
use mgmt_http_client::Error as FetchError;

use crate::support::fetch::{self, Address, Answer, Body, Limits, Question, Version, is_address};

const CONTENT: &[u8] = b"source";
const RECORD: &[u8] = b"source.json";

/// How much of a file is read at once.
const CHUNK: usize = 128 << 10;

/// A longer record was never written.
const LONGEST: u64 = 1 << 16;

/// How often a server is asked again unless it is said: as often as Puppet does.
pub(super) const REFETCH: u32 = 1800;

/// What there is to compare the file with.
pub(super) enum Fetched {
    /// Nothing: whatever is there stays.
    Unneeded,
    /// What is there, which was found to have the right sum.
    Right(Stat),
    /// The content of this file.
    Copy(ManagedPath),
    /// Something else than what is there. Who only looks has not kept it.
    Other,
}

/// What is remembered from one run to the next.
#[derive(Default)]
pub(super) struct Asked {
    /// When the server was last asked.
    at: Option<Instant>,
    /// What was at the path when it was found to have the right sum.
    right: Verified,
}

/// What is written down of the copy.
#[derive(serde::Serialize, serde::Deserialize)]
struct Record {
    address: String,
    version: Version,
    length: u64,
    /// The sum that it was asked to have, and has.
    checksum: String,
}

impl File {
    /// Whether the content is at an address.
    pub(super) fn is_remote(&self) -> bool {
        !self.symlink && is_address(&self.source)
    }

    fn addresses(&self) -> Result<Vec<Address>, Invalid> {
        let read =
            |field, text: &Str| Address::new(&text.to_text()).map_err(|why| Invalid::field(field, why));
        let mirrors = self.mirrors.iter().map(|mirror| read("mirrors", mirror));
        std::iter::once(read("source", &self.source)).chain(mirrors).collect()
    }
}

/// Checks the parameters that are about an address.
pub(super) fn validate(file: &File, path: &ManagedPath) -> Result<(), Invalid> {
    if !file.is_remote() {
        for (field, set) in [
            ("checksum", !file.checksum.is_empty()),
            ("mirrors", !file.mirrors.is_empty()),
            ("authorities", !file.authorities.is_empty()),
        ] {
            if set {
                return Err(Invalid::field(field, "is for a `source` that is an address"));
            }
        }
        return Ok(());
    }
    if path.is_directory() {
        return Err(Invalid::field("source", "a directory can't be fetched from an address"));
    }
    file.addresses()?;
    if !file.checksum.is_empty() && Sum::of(&file.checksum.to_text()).is_none() {
        let message = "expected a sum in hexadecimal: MD5, SHA-1, SHA-224, SHA-256, SHA-384 or SHA-512";
        return Err(Invalid::field("checksum", message));
    }
    for authority in &file.authorities {
        ManagedPath::new(authority).map_err(|error| Invalid::field("authorities", error.to_string()))?;
    }
    match file.refetch {
        0 => Err(Invalid::field("refetch", "expected a number of seconds; 1 is the least")),
        _ => Ok(()),
    }
}

/// How often the server is to be asked. What has a checksum cannot become anything else.
pub(super) fn interval(file: &File) -> Option<Duration> {
    (file.is_remote() && file.checksum.is_empty()).then(|| Duration::from_secs(file.refetch.into()))
}

/// Finds what the file is to be compared with, and fetches it if need be.
pub(super) async fn bring(file: &File, memory: &mut Memory, cx: &Context<'_>) -> Result<Fetched> {
    let invalid = |invalid: Invalid| Error::new(invalid);
    memory.be_about(file, &cx.id.name);
    let asked = memory.asked.get_or_insert_default();
    let path = file.managed_path(&cx.id.name).ok_or_else(|| Error::new("the path is not absolute"))?;
    if is_left_alone(file, &path) {
        return Ok(Fetched::Unneeded);
    }
    let bringing = Bringing {
        cx,
        addresses: file.addresses().map_err(invalid)?,
        authorities: file.authorities.iter().map(|path| path.as_path().to_owned()).collect(),
        checksum: file.checksum.to_text().to_ascii_lowercase(),
        limits: Limits::default(),
        path: &path,
    };
    bringing.bring(asked, Duration::from_secs(file.refetch.into())).await
}

/// Something is there, and its content is not ours to change.
fn is_left_alone(file: &File, path: &ManagedPath) -> bool {
    let entry = || Parent::open(path).ok()?.lstat_entry(path.file_name()?).ok()?;
    match (file.createonly, file.anytype) {
        (false, false) => false,
        (true, _) => entry().is_some(),
        (false, true) => entry().is_some_and(|stat| stat.kind != Kind::File),
    }
}

struct Bringing<'a, 'c> {
    cx: &'a Context<'c>,
    addresses: Vec<Address>,
    authorities: Vec<PathBuf>,
    /// In small letters; empty if none is asked for.
    checksum: String,
    limits: Limits,
    path: &'a ManagedPath,
}

impl Bringing<'_, '_> {
    async fn bring(&self, asked: &mut Asked, refetch: Duration) -> Result<Fetched> {
        let kept = self.kept();
        if !self.checksum.is_empty() {
            if kept.is_some() {
                return self.copy();
            }
            if let Some(stat) = self.is_here(&mut asked.right)? {
                return Ok(Fetched::Right(stat));
            }
        }
        // An event that comes with the clock may be a little early.
        let due = asked.at.is_none_or(|at| at.elapsed() >= refetch.mul_f64(0.9));
        if kept.is_some() && !due {
            return self.copy();
        }
        let fetched = tokio::select! {
            fetched = self.fetch(kept.as_ref()) => fetched,
            () = self.cx.cancel.cancelled() => return Err(Error::Cancelled),
        };
        match fetched {
            Ok(fetched) => {
                asked.at = Some(Instant::now());
                Ok(fetched)
            }
            // What is here is what was there when it was last to be had.
            Err(Failed::Elsewhere(why)) if kept.is_some() => {
                asked.at = Some(Instant::now());
                self.cx.warn(format_args!("{why}; what was fetched before stays"));
                self.copy()
            }
            Err(Failed::Elsewhere(why)) => Err(Error::new(why)),
            Err(Failed::Here(error)) => Err(error),
        }
    }

    /// The record of the copy, if there is one that will do.
    fn kept(&self) -> Option<Record> {
        let directory = ManagedPath::new(self.cx.state_directory().as_os_str().as_bytes()).ok()?;
        let parent = Parent::open_itself(&directory).ok()?;
        let record = parent.open_regular(RECORD).ok()?.read(LONGEST).ok()?;
        let record: Record = serde_json::from_slice(&record).ok()?;
        let stat = parent.lstat_entry(CONTENT).ok()??;
        let is_whole = stat.kind == Kind::File && stat.size == record.length;
        let is_ours = match self.checksum.is_empty() {
            true => self.addresses.iter().any(|address| address.to_string() == record.address),
            false => record.checksum == self.checksum,
        };
        (is_whole && is_ours).then_some(record)
    }

    fn copy(&self) -> Result<Fetched> {
        ManagedPath::new(self.cx.state_directory().join("source").as_os_str().as_bytes())
            .map(Fetched::Copy)
            .map_err(Error::new)
    }

    /// What is at the path, if it has the right sum. It is not read again while it is as it was.
    fn is_here(&self, verified: &mut Verified) -> Result<Option<Stat>> {
        let looked = Moment::now();
        let Some(file) = self.open() else { return Ok(None) };
        let stat = *file.stat();
        if verified.holds(&stat, &[]) {
            return Ok(Some(stat));
        }
        let Some(mut sum) = Sum::of(&self.checksum) else { return Ok(None) };
        let (mut room, mut length) = (vec![0; CHUNK], 0);
        aside(|| {
            loop {
                self.cx.checkpoint()?;
                match file.read_at(&mut room, length) {
                    Ok([]) => break Ok(()),
                    Ok(piece) => {
                        sum.update(piece);
                        length += piece.len() as u64;
                    }
                    Err(error) => break Err(Error::new(error)),
                }
            }
        })?;
        let is_right = sum.finish() == self.checksum;
        if is_right {
            verified.keep(&stat, &[], looked);
        }
        Ok(is_right.then_some(stat))
    }

    /// The file at the path, if it is one.
    fn open(&self) -> Option<OpenedFile> {
        Parent::open(self.path).ok()?.open_regular(self.path.file_name()?).ok()
    }

    /// Asks one address after the other until one has something.
    async fn fetch(&self, kept: Option<&Record>) -> Result<Fetched, Failed> {
        let mut missing = Vec::new();
        for address in &self.addresses {
            let known = kept.filter(|record| record.address == address.to_string());
            let known = known.map(|record| &record.version).filter(|version| **version != Version::default());
            let question = Question {
                authorities: &self.authorities,
                known,
                checked: !self.checksum.is_empty(),
                limits: self.limits,
            };
            let failed = |why: FetchError| Failed::Elsewhere(format!("cannot fetch {address}: {}", why.0));
            match fetch::ask(address, &question).await.map_err(failed)? {
                Answer::Same => return self.copy().map_err(Failed::Here),
                Answer::Missing(status) => missing.push(format!("{address} is not there (status {status})")),
                Answer::Here(body) if self.cx.apply => return self.keep(address, body).await,
                Answer::Here(body) => return self.compare(address, body).await,
            }
        }
        Err(Failed::Elsewhere(missing.join("; ")))
    }

    /// Takes what comes as the new copy.
    async fn keep(&self, address: &Address, mut body: Body) -> Result<Fetched, Failed> {
        let failed = |error: mgmt_sys::Error| {
            Failed::Here(Error::new(format_args!("cannot keep what {address} has: {error}")))
        };
        let parent = self.make_directory()?;
        let mut new = Replacement::begin(&parent, CONTENT, InPlace::Refuse).map_err(failed)?;
        let mut sums = self.sums(&body);
        let mut length = 0;
        while let Some(piece) = self.next(address, &mut body).await? {
            for (_, sum) in &mut sums {
                sum.update(&piece);
            }
            length += piece.len() as u64;
            new.write_all(&piece).map_err(failed)?;
        }
        self.verify(address, sums)?;
        match parent.unlink(RECORD) {
            Err(error) if !error.is_not_found() => return Err(failed(error)),
            _ => {}
        }
        let (closed, durability) =
            (Attributes { mode: Some(0o600), ..Attributes::default() }, self.cx.host.durability);
        new.commit(&closed, Expect::Anything, durability).map_err(failed)?;
        let record = Record {
            address: address.to_string(),
            version: body.version,
            length,
            checksum: self.checksum.clone(),
        };
        let record = serde_json::to_vec(&record).map_err(|error| Failed::Here(Error::new(error)))?;
        let mut new = Replacement::begin(&parent, RECORD, InPlace::Refuse).map_err(failed)?;
        new.write_all(&record).map_err(failed)?;
        new.commit(&closed, Expect::Anything, durability).map_err(failed)?;
        self.cx.info(format_args!("fetched {address}, {length} bytes"));
        self.copy().map_err(Failed::Here)
    }

    /// Only looking: whether what is there has what comes.
    async fn compare(&self, address: &Address, mut body: Body) -> Result<Fetched, Failed> {
        let Some(file) = self.open() else { return Ok(Fetched::Other) };
        let mut sums = self.sums(&body);
        let mut length = 0;
        let mut room = Vec::new();
        while let Some(piece) = self.next(address, &mut body).await? {
            for (_, sum) in &mut sums {
                sum.update(&piece);
            }
            let mut rest = &piece[..];
            while !rest.is_empty() {
                room.resize(rest.len(), 0);
                let here = file.read_at(&mut room, length).unwrap_or_default();
                if here.is_empty() || !rest.starts_with(here) {
                    return Ok(Fetched::Other);
                }
                length += here.len() as u64;
                rest = &rest[here.len()..];
            }
        }
        self.verify(address, sums)?;
        Ok(if length == file.stat().size { Fetched::Right(*file.stat()) } else { Fetched::Other })
    }

    async fn next(&self, address: &Address, body: &mut Body) -> Result<Option<hyper::body::Bytes>, Failed> {
        let failed = |why: FetchError| Failed::Elsewhere(format!("cannot fetch all of {address}: {}", why.0));
        body.next().await.map_err(failed)
    }

    /// The sums that the content must have: the one that was asked for, and those that the server tells.
    fn sums(&self, body: &Body) -> Vec<(String, Sum)> {
        let asked = std::iter::once(&self.checksum).chain(&body.sums);
        asked.filter_map(|text| Some((text.clone(), Sum::of(text)?))).collect()
    }

    fn verify(&self, address: &Address, sums: Vec<(String, Sum)>) -> Result<(), Failed> {
        for (wanted, sum) in sums {
            let found = sum.finish();
            if found != wanted {
                let whose = if wanted == self.checksum { "expected" } else { "the server itself says" };
                return Err(Failed::Elsewhere(format!(
                    "{address} is not what it should be: its checksum is {found}, {whose} {wanted}"
                )));
            }
        }
        Ok(())
    }

    /// The state directory of the resource, made if need be.
    fn make_directory(&self) -> Result<Parent, Failed> {
        let make = || {
            let path =
                ManagedPath::new(self.cx.state_directory().as_os_str().as_bytes()).map_err(Error::new)?;
            let name =
                path.file_name().ok_or_else(|| Error::new("the state directory cannot be the root"))?;
            let above = Parent::open_or_create(&path).map_err(Error::new)?;
            let closed = Attributes { mode: Some(0o700), ..Attributes::default() };
            let made = match above.make_directory(name, &closed) {
                Err(error) if error.is_exists() => above.open_dir(name),
                made => made,
            };
            let parent = made.map_err(Error::new)?;
            super::content::sweep_once(&parent);
            Ok(parent)
        };
        make().map_err(Failed::Here)
    }
}

/// Why there is nothing.
enum Failed {
    /// The server is not there, or what it has is not what it should be.
    Elsewhere(String),
    Here(Error),
}

/// A sum that is being made.
pub(super) struct Sum(Box<dyn DynDigest + Send>);

impl Sum {
    /// The kind of sum that this text is, by the number of its letters.
    fn of(text: &str) -> Option<Sum> {
        if !text.bytes().all(|letter| letter.is_ascii_hexdigit()) {
            return None;
        }
        Some(Sum(match text.len() {
            32 => Box::new(md5::Md5::default()),
            40 => Box::new(sha1::Sha1::default()),
            56 => Box::new(sha2::Sha224::default()),
            64 => Box::new(sha2::Sha256::default()),
            96 => Box::new(sha2::Sha384::default()),
            128 => Box::new(sha2::Sha512::default()),
            _ => return None,
        }))
    }

    fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(self) -> String {
        use std::fmt::Write as _;
        self.0.finalize().iter().fold(String::new(), |mut text, byte| {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
    }
}
