//! What the functions of a program see of the world.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use mgmt_funcs::{Export, Failure, FileKind, Host};
use mgmt_lang::Deploy;
use mgmt_lang::module::{Disk, Files, WithEmbedded, is_embedded};
use mgmt_state::LocalState;
use mgmt_store::SharedState;
use mgmt_value::Str;

/// Where the files of a deploy are.
const FILES: WithEmbedded<'static> = WithEmbedded(&Disk);

/// The host that a program runs on.
pub(crate) struct Surroundings {
    hostname: Str,
    deploy: Deploy,
    local: Arc<LocalState>,
    world: Arc<SharedState>,
    /// The last line of each command, or why there will be none.
    lines: Mutex<HashMap<Str, Result<Str, String>>>,
    /// Whether a device waits for a restart, once that is known.
    firmware: Mutex<Option<bool>>,
    asked: Mutex<BTreeSet<&'static str>>,
    /// What the wall clock shows to all functions until the next look at it.
    moment: Mutex<Option<SystemTime>>,
    /// What functions have looked at in the deploy, and how it was.
    deployed: Mutex<BTreeMap<PathBuf, Look>>,
}

/// What is at a place, as far as it matters whether that has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    Nothing,
    File(u64),
    Directory(u64),
}

impl Look {
    fn at(place: &Path) -> Look {
        if FILES.is_file(place) {
            read(place).map_or(Look::Nothing, |content| Look::File(digest(&content)))
        } else if FILES.is_directory(place) {
            let Ok(entries) = FILES.entries(place) else { return Look::Nothing };
            let mut names: Vec<_> = entries.into_iter().map(|entry| entry.name).collect();
            names.sort_unstable();
            Look::Directory(digest(&names))
        } else {
            Look::Nothing
        }
    }
}

/// Reads a file of the deploy: whatever is at its place, without blocking and with a limit.
fn read(place: &Path) -> io::Result<Vec<u8>> {
    if is_embedded(place) { FILES.read(place) } else { mgmt_funcs::read_deployed(place) }
}

fn digest(what: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Surroundings {
    pub(crate) fn new(
        hostname: &str,
        deploy: impl Into<Deploy>,
        local: Arc<LocalState>,
        world: Arc<SharedState>,
    ) -> Surroundings {
        Surroundings {
            hostname: hostname.into(),
            deploy: deploy.into(),
            local,
            world,
            lines: Mutex::default(),
            firmware: Mutex::default(),
            asked: Mutex::default(),
            moment: Mutex::default(),
            deployed: Mutex::default(),
        }
    }

    /// Those of a program that runs here.
    pub(crate) fn of(
        host: &mgmt_resource::Host,
        shared: &Arc<SharedState>,
        deploy: impl Into<Deploy>,
    ) -> Surroundings {
        Surroundings::new(&host.hostname, deploy, Arc::clone(&host.local), Arc::clone(shared))
    }

    /// Looks at the wall clock, so that all who ask for the time until the next look see the same.
    pub(crate) fn look_at_the_clock(&self) {
        *lock(&self.moment) = Some(SystemTime::now());
    }

    pub(crate) fn store(&self) -> &Arc<LocalState> {
        &self.local
    }

    pub(crate) fn world(&self) -> &SharedState {
        &self.world
    }

    /// A command has printed a line.
    pub(crate) fn printed(&self, command: &Str, line: Str) {
        lock(&self.lines).insert(command.clone(), Ok(line));
    }

    /// A command has ended. If it has printed nothing, it never will.
    pub(crate) fn ended(&self, command: &Str, how: String) {
        lock(&self.lines).entry(command.clone()).or_insert(Err(how));
    }

    /// A command is not run any more.
    pub(crate) fn forget(&self, command: &Str) {
        lock(&self.lines).remove(command);
    }

    /// It is known whether a device waits for a restart to finish an update of its firmware.
    pub(crate) fn firmware(&self, wants_restart: bool) {
        *lock(&self.firmware) = Some(wants_restart);
    }

    /// What functions have looked at in the deploy so far.
    pub(crate) fn deployed(&self) -> Vec<PathBuf> {
        lock(&self.deployed).keys().cloned().collect()
    }

    /// Something of the deploy is not as it was when a function looked at it.
    pub(crate) fn deploy_has_changed(&self) -> bool {
        lock(&self.deployed).iter().any(|(place, look)| Look::at(place) != *look)
    }

    /// Remembers how a place was when a function first looked at it, unless it is one that never changes.
    fn looked_at(&self, place: &Path) {
        if is_embedded(place) {
            return;
        }
        lock(&self.deployed).entry(place.to_owned()).or_insert_with(|| Look::at(place));
    }
}

impl Surroundings {
    /// The world, unless the program runs before its store has ever answered: then nothing is known of it, which is something else
    /// than that nothing is there.
    fn heard_of(&self) -> Result<&SharedState, Failure> {
        match self.world.is_unheard() {
            false => Ok(&self.world),
            true => Err(Failure::fatal("the store has not answered since the start")),
        }
    }
}

fn failure(error: mgmt_store::StoreError) -> Failure {
    Failure::fatal(error.to_string())
}

impl Host for Surroundings {
    fn hostname(&self) -> Str {
        self.hostname.clone()
    }

    fn now(&self) -> SystemTime {
        lock(&self.moment).unwrap_or_else(SystemTime::now)
    }

    fn deploy_read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let place = self.deploy.place(path)?;
        // Looked at first: a change in between is one that is seen.
        self.looked_at(&place);
        read(&place)
    }

    fn deploy_kind(&self, path: &Path) -> io::Result<Option<FileKind>> {
        let place = self.deploy.place(path)?;
        self.looked_at(&place);
        Ok(if FILES.is_file(&place) {
            Some(FileKind::File)
        } else if FILES.is_directory(&place) {
            Some(FileKind::Directory)
        } else {
            None
        })
    }

    fn deploy_list(&self, path: &Path) -> io::Result<Vec<Str>> {
        use std::os::unix::ffi::OsStrExt as _;
        let place = self.deploy.place(path)?;
        self.looked_at(&place);
        let entries = FILES.entries(&place)?;
        Ok(entries.iter().map(|entry| Str::new(entry.name.as_bytes())).collect())
    }

    fn local(&self) -> Result<&LocalState, Failure> {
        Ok(&self.local)
    }

    fn command_line(&self, command: &Str) -> Result<Option<Str>, Failure> {
        lock(&self.lines).get(command).cloned().transpose().map_err(Failure::catchable)
    }

    fn world_string(&self, key: &Str) -> Result<Option<Str>, Failure> {
        self.heard_of()?.known_shared(key).map_err(failure)
    }

    fn world_strings(&self, namespace: &Str) -> Result<BTreeMap<Str, Str>, Failure> {
        self.heard_of()?.known_by_host(namespace).map_err(failure)
    }

    fn world_schedule(&self, namespace: &Str) -> Result<Vec<Str>, Failure> {
        self.heard_of()?.scheduled(namespace).map_err(failure)
    }

    fn world_exports(&self, kind: &Str) -> Result<Vec<Export>, Failure> {
        if !std::str::from_utf8(kind).is_ok_and(|kind| mgmt_resources::KINDS.get(kind).is_some()) {
            return Err(Failure::fatal(format!("there is no kind of resource {kind:?}")));
        }
        let exported = self.heard_of()?.exported(kind).into_iter();
        Ok(exported
            .map(|export| Export { name: export.name, host: export.host, data: export.data })
            .collect())
    }

    fn firmware_wants_restart(&self) -> Result<Option<bool>, Failure> {
        Ok(*lock(&self.firmware))
    }

    fn is_first(&self, name: &'static str) -> bool {
        lock(&self.asked).insert(name)
    }
}
