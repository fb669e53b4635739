//! Old contents, kept in the form in which Puppet's `filebucket` has them: by their digest, with the paths they were found at.

use mgmt_sys::ManagedPath;
use mgmt_sys::dir::Parent;
use mgmt_sys::file::OpenedFile;
use mgmt_sys::handle::Attributes;
use mgmt_sys::replace::{Expect, InPlace, Replacement};
use sha2::{Digest as _, Sha256};

use super::check::Run;
use super::content::{Place, copy_whole};
use super::trouble::{Result, Trouble, unless_gone};

/// The names of files in a bucket: so many letters of the digest are directories of their own.
const LEVELS: usize = 8;
const CONTENTS: &[u8] = b"contents";
const PATHS: &[u8] = b"paths";
/// The modes that Puppet gives them.
const CONTENTS_MODE: u32 = 0o440;
const PATHS_MODE: u32 = 0o640;
/// The longest list of paths.
const LONGEST: u64 = 16 << 20;

/// Copies what is about to go, unless it is there already.
pub(super) fn keep(run: &Run<'_, '_>, place: &Place<'_>) -> Result<()> {
    let old = unless_gone(place.parent.open_regular(place.name))?;
    let directory = directory(&run.wish.file.bucket, &digest(&old)?)?;
    let here = Parent::open_or_create(&directory)?;
    let attributes = |mode| Attributes { mode: Some(mode), ..Attributes::default() };
    if !here.exists(CONTENTS)? {
        let mut copy = Replacement::begin(&here, CONTENTS, InPlace::Refuse)?;
        copy_whole(run, &mut copy, &old)?;
        copy.commit(&attributes(CONTENTS_MODE), Expect::Anything, place.durability)?;
    }
    let mut paths = match here.exists(PATHS)? {
        true => here.open_regular(PATHS)?.read(LONGEST)?,
        false => Vec::new(),
    };
    if !paths.split(|byte| *byte == b'\n').any(|line| line == place.path) {
        paths.extend_from_slice(place.path);
        paths.push(b'\n');
        let mut list = Replacement::begin(&here, PATHS, InPlace::Refuse)?;
        list.write_all(&paths)?;
        list.commit(&attributes(PATHS_MODE), Expect::Anything, place.durability)?;
    }
    Ok(())
}

fn digest(old: &OpenedFile) -> Result<String> {
    let mut digest = Sha256::new();
    old.for_each_chunk(|chunk| {
        digest.update(chunk);
        Ok(())
    })?;
    Ok(digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// A path in the directory of one content.
fn directory(bucket: &[u8], digest: &str) -> Result<ManagedPath> {
    let bucket = bucket.strip_suffix(b"/").unwrap_or(bucket);
    let mut path = bucket.to_vec();
    for letter in digest.bytes().take(LEVELS) {
        path.extend([b'/', letter]);
    }
    path.push(b'/');
    path.extend_from_slice(digest.as_bytes());
    path.push(b'/');
    path.extend_from_slice(CONTENTS);
    ManagedPath::new(&path).map_err(Trouble::new)
}
