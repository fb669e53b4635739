//! This program on another host.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mgmt_world::store::Store;
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::clean;
use crate::link::{Frame, Handed, Order, Report, Stop, send_store, write_frames};
use crate::login::{Login, Process, SshError};
use crate::tunnel::mark;

/// What is to be started where.
pub struct Launch<'a> {
    /// Where.
    pub login: &'a Login,
    /// The program: this one, or its path.
    pub program: &'a Path,
    /// Whether it stays there for the next time.
    pub place: Place,
    /// The words for it. It is also told to use a working directory that is removed at the end.
    pub arguments: Vec<String>,
    /// What it has as its store.
    pub store: Arc<dyn Store>,
}

/// Where the program is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Where it is found again the next time: below `/var/lib/mgmt`, or below the cache of users other than root.
    Cache,
    /// Into a new directory that is removed at the end.
    Temporary,
}

/// This program on another host. When this is dropped, it ends there.
pub struct Launched {
    frames: mpsc::Sender<Frame>,
    news: mpsc::Receiver<News>,
    /// How many bytes were copied there; none if it was there already.
    pub copied: Option<u64>,
    _tasks: JoinSet<()>,
}

/// What is new of a launched program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// It has printed a line, which can be shown as it is.
    Line(String),
    /// There is nothing to be done there, or there is again.
    Converged(bool),
    /// It has ended. Nothing comes after that.
    Ended(Ended),
}

/// How it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// By itself, with this code.
    Code(u8),
    /// Nobody knows: the connection is lost.
    Lost,
}

/// How often the other side hears from us.
const ALIVE: Duration = Duration::from_secs(10);

/// How long a part of the program may take to be copied.
const COPY: Duration = Duration::from_secs(60);

/// How long it may take from the last part until the program is in its place.
const ARRIVAL: Duration = Duration::from_secs(180);

/// The code of ssh when the connection ends before the program.
const LOST: i32 = 255;

/// Receives the program if need be, runs it, and cleans up. The first three words are a mark for what it says to us, the digest
/// of the program and whether to keep it; all others are for the program.
const SCRIPT: &str = r#"
mark=$1 hash=$2 keep=$3
shift 3
say() { printf '%s %s\n' "$mark" "$*"; }
fail() { say fail "$*"; exit 1; }
sum() { sha256sum < "$1" | cut -c 1-64; }
ours() {
	[ -d "$1" ] || mkdir "$1" 2>/dev/null || [ -d "$1" ] || fail "cannot make the directory $1"
	[ -n "$(find "$1" -prune -type d -user "$uid" ! -perm -020 ! -perm -002)" ] ||
		fail "the directory $1 cannot be used: it is a link, or others may write to it"
}
umask 077
uid=$(id -u) || fail "cannot tell who we are"
command -v sha256sum >/dev/null || fail "the program sha256sum is missing"
dir=$(mktemp -d "${TMPDIR:-/tmp}/mgmt.XXXXXXXXXX") || fail "cannot make a temporary directory"
part=$dir/part
trap 'rm -rf "$dir" "$part"' EXIT
trap 'exit 1' HUP INT TERM
if [ "$keep" = yes ]; then
	if [ "$uid" = 0 ]; then base=/var/lib; else base=${XDG_CACHE_HOME:-$HOME/.cache}; fi
	[ -d "$base" ] || mkdir -p "$base" || fail "cannot make the directory $base"
	ours "$base/mgmt"
	ours "$base/mgmt/remote"
	file=$base/mgmt/remote/mgmt-$hash
	find "$base/mgmt/remote" -type f ! -name "mgmt-$hash" -mtime +30 -exec rm -f {} +
	part=$(mktemp "$base/mgmt/remote/part.XXXXXXXXXX") || fail "cannot write to $base/mgmt/remote"
else
	file=$dir/mgmt
fi
have=no
if [ -f "$file" ] && [ ! -L "$file" ] && [ "$(sum "$file")" = "$hash" ]; then
	have=yes
	touch "$file"
fi
say "$(uname -s) $(uname -m) $have"
read -r word size || exit 1
case $word in
copy)
	head -c "$size" > "$part"
	[ "$(sum "$part")" = "$hash" ] || fail "the program has not arrived as it was sent"
	chmod 700 "$part" && mv -f "$part" "$file" || fail "cannot put the program into its place"
	;;
go) rm -f "$part" ;;
*) exit 1 ;;
esac
say ready
"$file" "$@" --prefix "$dir/prefix"
"#;

impl Launch<'_> {
    /// Starts it.
    pub async fn start(self) -> Result<Launched, SshError> {
        let Launch { login, program, place, arguments, store } = self;
        let program = program.to_owned();
        let binary = tokio::task::spawn_blocking(move || Binary::of(&program))
            .await
            .map_err(io::Error::other)
            .flatten()
            .map_err(|error| SshError::new(format!("cannot read this program: {error}")))?;
        let mark = mark();
        let keep = if place == Place::Cache { "yes" } else { "no" };
        let mut words = vec![mark.clone(), binary.digest.clone(), keep.to_owned()];
        words.extend(arguments);
        let mut process =
            login.start(&["-o".into(), "ClearAllForwardings=yes".into()], SCRIPT, &words).await?;
        let probe = process.answer(&mark).await?;
        let is_there = fits(login, &probe)?;
        match is_there {
            true => say(&mut process, "go\n").await?,
            false => {
                say(&mut process, &format!("copy {}\n", binary.size)).await?;
                // If it does not want all of it, it says why.
                if let Err(error) = copy(&binary, &mut process.input).await {
                    process.answer(&mark).await?;
                    return Err(SshError::new(format!(
                        "cannot copy this program to {}: {error}",
                        login.target
                    )));
                }
            }
        }
        // What was copied may still be under way on a slow line.
        process.patience = Some(ARRIVAL);
        match process.answer(&mark).await?.as_str() {
            "ready" => Ok(Launched::new(process, store, (!is_there).then_some(binary.size))),
            other => Err(SshError::new(format!("{}: {}", login.target, clean(other.as_bytes())))),
        }
    }
}

async fn say(process: &mut Process, line: &str) -> Result<(), SshError> {
    process.input.write_all(line.as_bytes()).await.map_err(|error| SshError::new(format!("ssh: {error}")))
}

/// Whether the program is there already; an error if it could not run there.
fn fits(login: &Login, probe: &str) -> Result<bool, SshError> {
    let mut words = probe.split(' ');
    let (Some(system), Some(machine), Some(have), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(SshError::new(format!("{}: {}", login.target, clean(probe.as_bytes()))));
    };
    let own = rustix::system::uname();
    let (own_system, own_machine) = (own.sysname().to_string_lossy(), own.machine().to_string_lossy());
    if system != own_system || machine != own_machine {
        let theirs = clean(format!("{system} on {machine}").as_bytes());
        return Err(SshError::new(format!(
            "{} is {theirs}, and this program is for {own_system} on {own_machine}",
            login.target
        ))
        .hint("run it from a host of the same kind, or install mgmt there"));
    }
    Ok(have == "yes")
}

async fn copy(binary: &Binary, to: &mut ChildStdin) -> io::Result<()> {
    let slow = |_| io::Error::from(io::ErrorKind::TimedOut);
    let mut file = File::open(&binary.path)?;
    let mut piece = vec![0; 256 << 10];
    loop {
        // From the cache of the system, mostly: it was read a moment ago.
        let length = file.read(&mut piece)?;
        let Some(bytes) = piece.get(..length).filter(|bytes| !bytes.is_empty()) else { break };
        tokio::time::timeout(COPY, to.write_all(bytes)).await.map_err(slow)??;
    }
    to.flush().await
}

impl Launched {
    fn new(process: Process, store: Arc<dyn Store>, copied: Option<u64>) -> Launched {
        const WAITING: usize = 64;
        let Process { child, input, output, mut lines, .. } = process;
        let (frames, outgoing) = mpsc::channel(WAITING);
        let (tell, news) = mpsc::channel(WAITING);
        let mut tasks = JoinSet::new();
        tasks.spawn(write_frames(outgoing, input));
        let (near, far) = tokio::io::duplex(WAITING << 10);
        let (reading, writing) = tokio::io::split(near);
        tasks.spawn(mgmt_world::socket::answer(store, reading, writing));
        let (from_store, to_store) = tokio::io::split(far);
        tasks.spawn(send_store(from_store, frames.clone()));
        let alive = frames.clone();
        tasks.spawn(async move {
            loop {
                tokio::time::sleep(ALIVE).await;
                if alive.send(Frame::Order(Order::Alive)).await.is_err() {
                    return;
                }
            }
        });
        let said = tell.clone();
        let shown = async move {
            while let Some(line) = lines.recv().await {
                if said.send(News::Line(clean(&line))).await.is_err() {
                    return;
                }
            }
        };
        tasks.spawn(follow(child, output, to_store, tell, shown));
        Launched { frames, news, copied, _tasks: tasks }
    }

    /// Waits for news. After its end, there is only that.
    pub async fn next(&mut self) -> News {
        self.news.recv().await.unwrap_or(News::Ended(Ended::Lost))
    }

    /// Tells it to end.
    pub fn stop(&self, stop: Stop) {
        // Orders are few. If there is no room for one, nothing gets through any more.
        let _ = self.frames.try_send(Frame::Order(Order::Stop(stop)));
    }

    /// Hands it a program to run from now on.
    ///
    /// # Errors
    ///
    /// The program is too large.
    pub async fn hand(&self, program: &Handed) -> io::Result<()> {
        let bytes = program.encoded()?;
        // If it has ended, that is news of its own.
        let _ = self.frames.send(Frame::Program(bytes)).await;
        Ok(())
    }
}

/// Sorts what comes, and tells the end when all of it has come.
async fn follow(
    mut child: Child,
    mut output: BufReader<ChildStdout>,
    mut to_store: tokio::io::WriteHalf<tokio::io::DuplexStream>,
    tell: mpsc::Sender<News>,
    shown: impl Future<Output = ()> + Send + 'static,
) {
    let sorting = async {
        while let Ok(Some(frame)) = Frame::read(&mut output).await {
            match frame {
                Frame::Report(Report::Converged(yes)) => {
                    let _ = tell.send(News::Converged(yes)).await;
                }
                Frame::Store(bytes) => {
                    let _ = to_store.write_all(&bytes).await;
                }
                Frame::Order(_) | Frame::Program(_) => {}
            }
        }
    };
    tokio::join!(sorting, shown);
    let ended = match child.wait().await.ok().and_then(|status| status.code()) {
        Some(LOST) | None => Ended::Lost,
        Some(code) => u8::try_from(code).map_or(Ended::Lost, Ended::Code),
    };
    let _ = tell.send(News::Ended(ended)).await;
}

/// A program, as it is copied.
#[derive(Debug)]
struct Binary {
    path: PathBuf,
    digest: String,
    size: u64,
}

impl Binary {
    /// Reads it. That is done once for each program.
    fn of(path: &Path) -> io::Result<Arc<Binary>> {
        static KNOWN: Mutex<Vec<Arc<Binary>>> = Mutex::new(Vec::new());
        // Held while it is read, so that many hosts wait for one.
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(binary) = known.iter().find(|binary| binary.path == path) {
            return Ok(Arc::clone(binary));
        }
        let mut file = File::open(path)?;
        let mut hasher = Sha256::new();
        let mut size = 0;
        let mut piece = vec![0; 1 << 20];
        loop {
            let length = file.read(&mut piece)?;
            let Some(bytes) = piece.get(..length).filter(|bytes| !bytes.is_empty()) else { break };
            hasher.update(bytes);
            size += length as u64;
        }
        let mut digest = String::new();
        for byte in hasher.finalize() {
            let _ = write!(digest, "{byte:02x}");
        }
        let binary = Arc::new(Binary { path: path.to_owned(), digest, size });
        known.push(Arc::clone(&binary));
        Ok(binary)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Target;

    #[test]
    fn a_host_of_another_kind_is_refused_before_anything_is_copied() {
        let login = Login::new(Target::parse("web1").unwrap());
        let own = rustix::system::uname();
        let machine = own.machine().to_string_lossy();
        assert_eq!(fits(&login, &format!("Linux {machine} yes")), Ok(true));
        assert_eq!(fits(&login, &format!("Linux {machine} no")), Ok(false));
        for other in ["Linux s390x no", &format!("FreeBSD {machine} yes")] {
            let refused = fits(&login, other).unwrap_err();
            assert!(refused.message.contains("and this program is for Linux"), "{refused}");
        }
        assert!(fits(&login, "what").is_err());
    }

    #[test]
    fn a_program_is_read_once() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("program");
        std::fs::write(&path, "abc").unwrap();
        let binary = Binary::of(&path).unwrap();
        assert_eq!(binary.digest, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(binary.size, 3);
        assert!(Arc::ptr_eq(&binary, &Binary::of(&path).unwrap()));
    }
}
