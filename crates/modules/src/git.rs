//! Git client: runs git to fetch a module, and trusts nothing that it fetches.
//!
//! Only arguments and environment reach git: its configuration files are not read, hooks do not run, no
//! question is asked, and transports other than those that are needed are off, also for submodules. Whatever the far end
//! does, git is stopped when it takes too much space or when nothing comes any more.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use mgmt_lang::module::without_password;

/// The program `git`, and how far it may go.
pub(super) struct Git {
    program: PathBuf,
    /// The most bytes that a clone may take on disk, everything counted.
    pub(super) most: u64,
}

/// Why there is no module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GitError {
    pub(super) message: String,
    pub(super) hint: Option<String>,
}

impl GitError {
    pub(super) fn new(message: impl Into<String>) -> GitError {
        GitError { message: message.into(), hint: None }
    }

    pub(super) fn hint(self, hint: impl Into<String>) -> GitError {
        GitError { hint: Some(hint.into()), ..self }
    }
}

/// Transports that anybody may ask for.
const TRANSPORTS: [&str; 4] = ["https", "ssh", "git", "http"];
/// The one that reads from this machine. Only a program that names it, and what comes from there, may use it.
const LOCAL: &str = "file";

/// A far end that sends nothing for so long is gone.
const SILENCE: Duration = Duration::from_secs(120);

/// What git says beyond this is not read by anybody.
const MOST_OUTPUT: u64 = 64 << 10;

/// Settings that hold whatever the repository, the user or the host have set.
const SETTINGS: &[&str] = &[
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.attributesFile=/dev/null",
    "core.askPass=",
    "core.sshCommand=ssh -oBatchMode=yes -oConnectTimeout=30 -oServerAliveInterval=15 \
     -oControlMaster=no -oControlPersist=no",
    "core.symlinks=true",
    "core.autocrlf=false",
    "core.protectHFS=true",
    "core.protectNTFS=true",
    "credential.helper=",
    "init.templateDir=",
    "gc.auto=0",
    "maintenance.auto=false",
    "submodule.recurse=false",
    "advice.detachedHead=false",
    "protocol.allow=never",
    "http.lowSpeedLimit=100",
    "http.lowSpeedTime=60",
    "transfer.fsckObjects=true",
    // Old and harmless: what early tools wrote.
    "fetch.fsck.zeroPaddedFilemode=ignore",
    "fetch.fsck.missingSpaceBeforeDate=ignore",
    "fetch.fsck.badTimezone=ignore",
    "fetch.fsck.missingNameBeforeEmail=ignore",
];

/// What git may know of our environment: how to find programs, keys, proxies and certificates.
const ENVIRONMENT: &[&str] = &[
    "PATH",
    "HOME",
    "TMPDIR",
    "SSH_AUTH_SOCK",
    "http_proxy",
    "https_proxy",
    "HTTPS_PROXY",
    "all_proxy",
    "ALL_PROXY",
    "no_proxy",
    "NO_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "GIT_SSL_CAINFO",
    "GIT_SSL_CAPATH",
];

impl Git {
    /// Finds git.
    pub(super) fn find(most: u64) -> Result<Git, GitError> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        match mgmt_sys::process::find_program(OsStr::new("git"), &path) {
            Some(program) => Ok(Git { program, most }),
            None => Err(GitError::new("modules are downloaded with `git`, which is not installed")
                .hint("install the package `git`")),
        }
    }

    /// The newest commit, without fetching anything.
    pub(super) fn newest(&self, url: &str, local: bool) -> Result<String, GitError> {
        let arguments = ["ls-remote", "--quiet", "--", url, "HEAD"];
        let listed = self.run(&arguments, None, url, local)?;
        match listed.split_whitespace().next() {
            Some(commit) if is_commit(commit) => Ok(commit.to_owned()),
            _ => Err(no_commit(url)),
        }
    }

    /// Puts the files of a commit, or of the newest one, into a directory that is not there yet. Gives the commit.
    pub(super) fn fetch(
        &self,
        url: &str,
        commit: Option<&str>,
        into: &Path,
        local: bool,
    ) -> Result<String, GitError> {
        self.clone(url, into, local)?;
        let inside = |arguments: &[&str]| self.run(arguments, Some(into), url, local);
        let newest =
            inside(&["rev-parse", "--verify", "--quiet", "HEAD^{commit}"]).map_err(|_| no_commit(url))?;
        let commit = commit.unwrap_or(newest.trim()).to_owned();
        if !is_commit(&commit) {
            return Err(no_commit(url));
        }
        if commit != newest.trim() {
            // A server may refuse to give a commit by its name alone.
            let one = inside(&["fetch", "--quiet", "--depth=1", "--no-tags", "origin", &commit]);
            if one.is_err() {
                let all = ["--tags", "origin", "+refs/heads/*:refs/remotes/origin/*"];
                let unshallow = [&["fetch", "--quiet", "--unshallow"], &all[..]].concat();
                let _ = inside(&unshallow).or_else(|_| inside(&[&["fetch", "--quiet"], &all[..]].concat()));
            }
            let wanted = format!("{commit}^{{commit}}");
            inside(&["cat-file", "-e", &wanted]).map_err(|_| {
                GitError::new(format!("the commit {commit} is not in `{}`", without_password(url)))
                    .hint("`mgmt get --update` takes the newest commit instead")
            })?;
        }
        inside(&["checkout", "--quiet", "--detach", "--force", &commit, "--"])?;
        if into.join(".gitmodules").symlink_metadata().is_ok() {
            let update = ["submodule", "--quiet", "update", "--init", "--recursive", "--force"];
            let shallow = [&update[..], &["--depth=1"]].concat();
            if inside(&shallow).is_err() {
                inside(&update)?;
            }
        }
        Ok(commit)
    }

    fn clone(&self, url: &str, into: &Path, local: bool) -> Result<(), GitError> {
        let Some(directory) = into.to_str() else {
            return Err(GitError::new(format!("{} is not UTF-8", into.display())));
        };
        let clone = |more: &[&str]| {
            let common = ["clone", "--quiet", "--no-checkout", "--no-recurse-submodules", "--template="];
            let arguments = [&common[..], more, &["--", url, directory]].concat();
            self.run(&arguments, None, url, local)
        };
        match clone(&["--depth=1", "--single-branch", "--no-tags"]) {
            // Some servers know the whole history or nothing.
            Err(error) if error.message.contains("shallow") => clone(&[]).map(|_| ()),
            result => result.map(|_| ()),
        }
    }

    /// Runs git to its end. Gives what it printed.
    fn run(
        &self,
        arguments: &[&str],
        directory: Option<&Path>,
        url: &str,
        local: bool,
    ) -> Result<String, GitError> {
        let mut command = Command::new(&self.program);
        self.restrict(&mut command, local);
        command.args(arguments);
        if let Some(directory) = directory {
            command.current_dir(directory);
        }
        let failed = |error: io::Error| GitError::new(format!("cannot run git: {error}"));
        let mut child = command.spawn().map_err(failed)?;
        let (stdout, stderr) = (collect(child.stdout.take()), collect(child.stderr.take()));
        // What grows is the last argument of a clone, or the directory.
        let grows = directory.or_else(|| arguments.last().map(Path::new)).unwrap_or(Path::new(""));
        let status = self.wait(&mut child, grows, url)?;
        let (stdout, stderr) = (stdout.join().unwrap_or_default(), stderr.join().unwrap_or_default());
        if status.success() {
            return Ok(stdout);
        }
        Err(explain(url, &stderr, status))
    }

    fn restrict(&self, command: &mut Command, local: bool) {
        command.env_clear().stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        for name in ENVIRONMENT {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        let mut transports = TRANSPORTS.join(":");
        if local {
            transports = format!("{transports}:{LOCAL}");
        }
        command
            .env("LC_ALL", "C")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_SYSTEM", "/dev/null")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_ATTR_NOSYSTEM", "1")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("GIT_LFS_SKIP_SMUDGE", "1")
            .env("GIT_ALLOW_PROTOCOL", transports);
        for setting in SETTINGS {
            command.args(["-c", setting]);
        }
    }

    /// Waits for the end, and stops what takes too much or has gone quiet.
    fn wait(&self, child: &mut Child, grows: &Path, url: &str) -> Result<ExitStatus, GitError> {
        let url = without_password(url);
        let mut pause = Duration::from_millis(2);
        let mut next_look = Instant::now() + Duration::from_millis(250);
        let (mut last, mut changed) = (0, Instant::now());
        loop {
            match child.try_wait() {
                Ok(Some(status)) => return Ok(status),
                Ok(None) => {}
                Err(error) => return Err(GitError::new(format!("cannot wait for git: {error}"))),
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(50));
            let now = Instant::now();
            if now < next_look {
                continue;
            }
            let size = size_on_disk(grows, self.most);
            // Looking is never more than a small part of the work.
            next_look = Instant::now() + Duration::from_millis(250).max(now.elapsed() * 10);
            if size != last {
                (last, changed) = (size, now);
            }
            let stop = if size > self.most {
                GitError::new(format!("`{url}` is too large: it takes more than {} MiB", self.most >> 20))
                    .hint("`--max-size` allows more")
            } else if now.duration_since(changed) > SILENCE {
                GitError::new(format!("`{url}` has sent nothing for {} s", SILENCE.as_secs()))
            } else {
                continue;
            };
            // It may have ended meanwhile; then there is nothing to stop.
            let _ = child.kill();
            let _ = child.wait();
            return Err(stop);
        }
    }
}

/// Whether something is the name of a commit, and so no option.
fn is_commit(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn no_commit(url: &str) -> GitError {
    GitError::new(format!("the repository `{}` has no commit to take", without_password(url)))
}

/// Reads a stream to its end, and keeps as much of it as anybody reads.
fn collect(stream: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        if let Some(mut stream) = stream {
            let _ = stream.by_ref().take(MOST_OUTPUT).read_to_end(&mut kept);
            let _ = io::copy(&mut stream, &mut io::sink());
        }
        String::from_utf8_lossy(&kept).into_owned()
    })
}

/// What git meant.
fn explain(url: &str, stderr: &str, status: ExitStatus) -> GitError {
    // The last words of git are the least interesting: what to look at if nothing else helps.
    let is_reason =
        |line: &&str| ["fatal: ", "error: ", "ssh: "].iter().any(|prefix| line.starts_with(prefix));
    let mut lines = stderr.lines().skip_while(|line| !is_reason(line));
    let said = match lines.next().or_else(|| stderr.lines().rfind(|line| !line.trim().is_empty())) {
        // A list of hosts that were tried, one in each line.
        Some(line) if line.ends_with(':') => format!("{line} {}", lines.next().unwrap_or_default()),
        Some(line) => line.to_owned(),
        None => status.to_string(),
    };
    let shown = without_password(url);
    let said = said.trim_start_matches("fatal: ").trim_start_matches("error: ").replace(url, &shown);
    let hint = match () {
        () if stderr.contains("could not read Username") || stderr.contains("Authentication failed") => {
            Some("no password is ever asked for; use an ssh key, or a `.netrc` in your home directory")
        }
        () if stderr.contains("Host key verification failed") => {
            Some("connect once with `ssh` to look at the key of the host and accept it")
        }
        () if stderr.contains("Permission denied (") => {
            Some("the ssh key must be one that needs no password, or be in an agent")
        }
        () if stderr.contains("not allowed") && stderr.contains("transport") => {
            Some("modules come by `https`, `ssh`, `git` or `http`; only a program itself can name a `file`")
        }
        () => None,
    };
    let error = GitError::new(format!("cannot download `{shown}`: {said}"));
    match hint {
        Some(hint) => error.hint(hint),
        None => error,
    }
}

/// What a directory takes, counted until it is too much.
fn size_on_disk(top: &Path, enough: u64) -> u64 {
    let mut size = 0;
    let mut pending = vec![top.to_owned()];
    while let Some(directory) = pending.pop() {
        let Ok(entries) = std::fs::read_dir(directory) else { continue };
        for entry in entries.flatten() {
            let Ok(found) = entry.metadata() else { continue };
            if found.is_dir() {
                pending.push(entry.path());
            }
            // Many empty files are large too.
            size += found.len() + 512;
            if size > enough {
                return size;
            }
        }
    }
    size
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_too_much_is_stopped() {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::create_dir(scratch.path().join("deep")).unwrap();
        std::fs::write(scratch.path().join("deep/file"), vec![0; 4000]).unwrap();
        let git = Git { program: "/nonexistent".into(), most: 4000 };
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let error = git.wait(&mut child, scratch.path(), "https://me:secret@h/x").unwrap_err();
        assert!(error.message.starts_with("`https://me@h/x` is too large"), "{}", error.message);
        assert!(child.try_wait().unwrap().is_some(), "it has ended");
        let git = Git { most: 1 << 20, ..git };
        let mut child = Command::new("true").spawn().unwrap();
        assert!(git.wait(&mut child, scratch.path(), "u").unwrap().success());
    }

    #[test]
    fn nothing_of_our_environment_tells_git_what_to_do() {
        let mut command = Command::new("git");
        Git { program: "/nonexistent".into(), most: 0 }.restrict(&mut command, false);
        let names: Vec<_> =
            command.get_envs().filter(|(_, value)| value.is_some()).map(|(name, _)| name).collect();
        for name in ["GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM", "GIT_ALLOW_PROTOCOL", "GIT_TERMINAL_PROMPT"]
        {
            assert!(names.contains(&OsStr::new(name)), "{name}");
        }
        for name in
            ["GIT_SSH_COMMAND", "GIT_SSH", "GIT_ASKPASS", "GIT_DIR", "GIT_EXEC_PATH", "GIT_EXTERNAL_DIFF"]
        {
            assert!(!names.contains(&OsStr::new(name)), "{name}");
        }
        let allowed = command.get_envs().find(|(name, _)| *name == "GIT_ALLOW_PROTOCOL").unwrap().1.unwrap();
        assert_eq!(allowed, "https:ssh:git:http");
    }

    #[test]
    fn what_git_says_becomes_one_line() {
        let status = Command::new("false").status().unwrap();
        let error =
            explain("https://h/x", "Cloning\nfatal: could not read Username for 'https://h'\n", status);
        assert_eq!(error.message, "cannot download `https://h/x`: could not read Username for 'https://h'");
        assert!(error.hint.unwrap().contains(".netrc"));
        let error = explain("git://h/x", "fatal: unable to connect to h:\nh[0: ::1]: errno=x\n\n", status);
        assert_eq!(error.message, "cannot download `git://h/x`: unable to connect to h: h[0: ::1]: errno=x");
        let error =
            explain("https://me:secret@h/x", "fatal: unable to access 'https://me:secret@h/x/'", status);
        assert!(!error.message.contains("secret"), "{}", error.message);
        assert!(explain("u", "", status).message.contains("exit status: 1"));
    }
}
