//! File trees: the files of a deploy, cut into chunks that are named by their digests.

use std::collections::{BTreeMap, HashMap};

use mgmt_state::record::sha256 as digest;
use serde::{Deserialize, Serialize};

use crate::keys;
use crate::store::{Limits, Span, Store, StoreError};

/// Files by path. A path is relative, its parts separated by slashes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    files: BTreeMap<String, File>,
}

/// A file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct File {
    /// Somebody may run it.
    pub executable: bool,
    /// What is in it.
    pub content: Vec<u8>,
}

/// Bytes in the store, by the digests of their chunks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blob {
    /// How many they are.
    pub size: u64,
    /// In this order.
    pub chunks: Vec<String>,
}

/// What the files are, as it is stored.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Manifest {
    format: u64,
    pub(crate) files: BTreeMap<String, Listed>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Listed {
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    executable: bool,
    #[serde(flatten)]
    pub(crate) blob: Blob,
}

/// Files, ready to be stored.
pub(crate) struct Cut {
    /// Where the list of files is.
    pub(crate) blob: Blob,
    pub(crate) chunks: HashMap<String, Vec<u8>>,
}

const FORMAT: u64 = 1;

/// The largest chunk. What is small fits into fewer steps.
const CHUNK: usize = 256 << 10;

/// The most that all files together may have.
const LARGEST: u64 = 1 << 30;

/// The most files.
const MOST: usize = 100_000;

impl Tree {
    /// Adds a file, or says why there can be none of this path.
    pub fn insert(&mut self, path: &str, file: File) -> Result<(), String> {
        if !is_path(path) {
            return Err(format!("`{path}` is not a relative path without `.` and `..`"));
        }
        if self.files.len() >= MOST {
            return Err(format!("there are more than {MOST} files"));
        }
        self.files.insert(path.to_owned(), file);
        Ok(())
    }

    /// All files, by path.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &File)> {
        self.files.iter().map(|(path, file)| (path.as_str(), file))
    }

    /// One file.
    pub fn get(&self, path: &str) -> Option<&File> {
        self.files.get(path)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    pub(crate) fn cut(&self, limits: Limits) -> Result<Cut, String> {
        let size: u64 = self.files.values().map(|file| file.content.len() as u64).sum();
        if size > LARGEST {
            return Err(format!("the files have {size} bytes, more than {LARGEST}"));
        }
        let longest = CHUNK.min(limits.value);
        let mut chunks = HashMap::new();
        let mut manifest = Manifest { format: FORMAT, files: BTreeMap::new() };
        for (path, file) in &self.files {
            let blob = cut(&file.content, longest, &mut chunks);
            manifest.files.insert(path.clone(), Listed { executable: file.executable, blob });
        }
        let list = serde_json::to_vec(&manifest).map_err(|error| error.to_string())?;
        let blob = cut(&list, longest, &mut chunks);
        Ok(Cut { blob, chunks })
    }
}

/// No part of a path that comes from elsewhere leads out of where the files are put.
fn is_path(path: &str) -> bool {
    let is_part = |part: &str| !part.is_empty() && part != "." && part != ".." && !part.contains('\0');
    path.len() <= 4096 && path.split('/').all(|part| is_part(part) && part.len() <= 255)
}

fn cut(bytes: &[u8], longest: usize, chunks: &mut HashMap<String, Vec<u8>>) -> Blob {
    let mut blob = Blob { size: bytes.len() as u64, chunks: Vec::new() };
    for chunk in bytes.chunks(longest) {
        let digest = digest(chunk);
        chunks.entry(digest.clone()).or_insert_with(|| chunk.to_vec());
        blob.chunks.push(digest);
    }
    blob
}

/// Reads the list of files.
pub(crate) async fn manifest(store: &dyn Store, files: &Blob) -> Result<Manifest, StoreError> {
    let chunks = read(store, files.chunks.iter()).await?;
    listed(&join(files, &chunks)?)
}

/// Understands the list of files.
fn listed(list: &[u8]) -> Result<Manifest, StoreError> {
    let manifest: Manifest = serde_json::from_slice(list).map_err(|error| corrupt(&error.to_string()))?;
    if manifest.format > FORMAT {
        let format = manifest.format;
        return Err(corrupt(&format!("it has format {format}, and this version reads up to {FORMAT}")));
    }
    if manifest.files.len() > MOST || manifest.files.keys().any(|path| !is_path(path)) {
        return Err(corrupt("too many files, or a path that leads elsewhere"));
    }
    Ok(manifest)
}

/// Reads all files.
pub(crate) async fn fetch(store: &dyn Store, files: &Blob) -> Result<Tree, StoreError> {
    let manifest = manifest(store, files).await?;
    if manifest.files.values().map(|file| file.blob.size).fold(0, u64::saturating_add) > LARGEST {
        return Err(corrupt("the files are too large"));
    }
    let chunks = read(store, manifest.files.values().flat_map(|file| &file.blob.chunks)).await?;
    assembled(manifest, &chunks)
}

fn assembled(manifest: Manifest, chunks: &HashMap<String, Vec<u8>>) -> Result<Tree, StoreError> {
    let mut tree = Tree::default();
    for (path, Listed { executable, blob }) in manifest.files {
        tree.files.insert(path, File { executable, content: join(&blob, chunks)? });
    }
    Ok(tree)
}

/// The files that a list names, of one chunk that is the text behind the list: for tests with hostile lists. `ours` in it
/// stands for the name of that chunk.
pub(crate) fn read_hostile(list: &[u8], chunk: &[u8]) -> Result<Tree, StoreError> {
    let name = digest(chunk);
    let list = String::from_utf8_lossy(list).replace("ours", &name);
    assembled(listed(list.as_bytes())?, &HashMap::from([(name, chunk.to_vec())]))
}

/// Reads chunks, and makes sure that each is what its name says.
async fn read(
    store: &dyn Store,
    wanted: impl Iterator<Item = &String>,
) -> Result<HashMap<String, Vec<u8>>, StoreError> {
    // So many that one answer is not too long for anyone.
    const AT_ONCE: usize = 64;
    let mut wanted: Vec<&String> = wanted.collect();
    wanted.sort_unstable();
    wanted.dedup();
    let mut chunks = HashMap::new();
    for some in wanted.chunks(AT_ONCE) {
        let spans = some.iter().map(|digest| Span::Key(keys::chunk(digest))).collect();
        for entry in store.read(spans).await?.entries {
            let name = entry.key.strip_prefix(keys::CHUNKS).unwrap_or_default();
            if digest(&entry.value) != name {
                return Err(StoreError::Corrupt {
                    what: format!("a chunk `{name}`"),
                    reason: "its content is another".to_owned(),
                });
            }
            chunks.insert(name.to_owned(), entry.value);
        }
    }
    Ok(chunks)
}

fn join(blob: &Blob, chunks: &HashMap<String, Vec<u8>>) -> Result<Vec<u8>, StoreError> {
    let mut bytes = Vec::new();
    for digest in &blob.chunks {
        match chunks.get(digest) {
            Some(chunk) => bytes.extend_from_slice(chunk),
            None => return Err(corrupt(&format!("the chunk {digest} is missing"))),
        }
        if bytes.len() as u64 > blob.size {
            break;
        }
    }
    match bytes.len() as u64 == blob.size {
        true => Ok(bytes),
        false => Err(corrupt("a file has another size than it should")),
    }
}

fn corrupt(reason: &str) -> StoreError {
    StoreError::Corrupt { what: "files of a deploy".to_owned(), reason: reason.to_owned() }
}
