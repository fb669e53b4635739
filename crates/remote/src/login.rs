//! Logging in.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc;

use crate::prompt::{self, Prompts};
use crate::{HostKey, Target, clean};

/// Whom to reach, and how both sides prove who they are.
#[derive(Clone, Debug)]
pub struct Login {
    /// Whom.
    pub target: Target,
    /// Our key.
    pub identity: Identity,
    /// The key of the host. Without one, ssh has to know it already.
    pub host_key: Option<HostKey>,
    /// The configuration of ssh, if it is not the one of the user.
    pub config: Option<PathBuf>,
    /// What is done when a password is asked for.
    pub prompts: Prompts,
}

/// Which key proves who we are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Identity {
    /// Those that ssh would use.
    #[default]
    Usual,
    /// That of a file.
    File(PathBuf),
    /// None at all.
    None,
}

/// Why a host cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SshError {
    /// What happened.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl SshError {
    pub(crate) fn new(message: impl Into<String>) -> SshError {
        SshError { message: message.into(), hint: None }
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> SshError {
        SshError { hint: Some(hint.into()), ..self }
    }
}

/// How long it may take until the other side listens to us, apart from questions to people.
const PATIENCE: Duration = Duration::from_secs(20);

/// After so long without a sign of life from the other side, it is asked for one, and after three of those it is lost.
const SIGN_OF_LIFE: u64 = 5;

/// The most that is read before the other side says that it is ready.
const NOISE: u64 = 256 << 10;

/// How many lines of standard error wait to be read.
const LINES: usize = 256;

impl Login {
    /// Whatever ssh is configured to do.
    pub fn new(target: Target) -> Login {
        let host_key = target.host_key.clone();
        Login { target, identity: Identity::Usual, host_key, config: None, prompts: Prompts::default() }
    }

    /// Starts a script there. Its words arrive as they are, whatever is in them.
    pub(crate) async fn start(
        &self,
        options: &[OsString],
        script: &str,
        words: &[String],
    ) -> Result<Process, SshError> {
        let mut command = Command::new("ssh");
        command.args(self.options()).args(options).arg("--").arg(&self.target.host);
        let mut line = format!("exec /bin/sh -c {} mgmt", quoted(script));
        for word in words {
            line.push(' ');
            line.push_str(&quoted(word));
        }
        command.arg(line);
        // A group of its own: what is typed at the terminal is for this program alone.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        command.kill_on_drop(true);
        let asking = match self.prompts.may_be_asked(&self.target) {
            true => Some(prompt::serve(&self.prompts, &self.target, &mut command)?),
            false => None,
        };
        let mut child = command.spawn().map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => SshError::new("the program `ssh` is not installed")
                .hint("install the client of OpenSSH: on Debian the package openssh-client"),
            _ => SshError::new(format!("cannot start ssh: {error}")),
        })?;
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(SshError::new("ssh has no streams"));
        };
        let (sender, lines) = mpsc::channel(LINES);
        tokio::spawn(read_lines(stderr, sender));
        Ok(Process {
            name: self.target.to_string(),
            child,
            input: stdin,
            output: BufReader::new(stdout),
            lines,
            patience: (!self.prompts.may_be_asked(&self.target)).then_some(PATIENCE),
            _asking: asking,
        })
    }

    fn options(&self) -> Vec<OsString> {
        let mut all: Vec<OsString> = vec!["-T".into(), "-x".into(), "-a".into(), "-e".into(), "none".into()];
        if let Some(config) = &self.config {
            all.extend(["-F".into(), config.into()]);
        }
        let asks = self.prompts.may_be_asked(&self.target);
        let mut option = |text: String| all.extend(["-o".into(), text.into()]);
        option(format!("BatchMode={}", if asks { "no" } else { "yes" }));
        for fixed in [
            "StrictHostKeyChecking=yes",
            "UpdateHostKeys=no",
            "ForwardAgent=no",
            "PermitLocalCommand=no",
            "RequestTTY=no",
            "RemoteCommand=none",
            "ControlMaster=no",
            "ControlPath=none",
            "ConnectionAttempts=1",
            "ServerAliveCountMax=3",
            "LogLevel=ERROR",
        ] {
            option(fixed.to_owned());
        }
        option(format!("ConnectTimeout={}", PATIENCE.as_secs() * 3 / 4));
        option(format!("ServerAliveInterval={SIGN_OF_LIFE}"));
        option(format!("NumberOfPasswordPrompts={}", self.prompts.tries()));
        match &self.identity {
            Identity::Usual => {}
            Identity::None => option("PubkeyAuthentication=no".to_owned()),
            Identity::File(path) => {
                option("IdentitiesOnly=yes".to_owned());
                all.extend(["-i".into(), path.into()]);
            }
        }
        if let Some(key) = &self.host_key {
            let mut option = |text: String| all.extend(["-o".into(), text.into()]);
            // Nothing else counts. The key passes no file, so none is left behind.
            option("UserKnownHostsFile=/dev/null".to_owned());
            option("GlobalKnownHostsFile=/dev/null".to_owned());
            option(format!("KnownHostsCommand=/bin/echo %H {key}"));
        }
        all.extend(["-l".into(), self.target.user.clone().into()]);
        if let Some(port) = self.target.port {
            all.extend(["-p".into(), port.to_string().into()]);
        }
        all
    }
}

impl Login {
    /// Runs a script to its end and gives what it has printed behind its mark, in one line.
    pub async fn ask(&self, script: &str) -> Result<String, SshError> {
        let mark = crate::tunnel::mark();
        let options = ["-o".into(), "ClearAllForwardings=yes".into()];
        let script = format!("printf '%s ' \"$1\"; {script}; echo");
        self.start(&options, &script, std::slice::from_ref(&mark)).await?.answer(&mark).await
    }
}

/// An ssh that runs. It is killed when this is dropped.
pub(crate) struct Process {
    /// Where it goes.
    pub(crate) name: String,
    pub(crate) child: Child,
    pub(crate) input: ChildStdin,
    pub(crate) output: BufReader<ChildStdout>,
    /// What comes on standard error.
    pub(crate) lines: mpsc::Receiver<Vec<u8>>,
    /// How long an answer may take; for ever while people are asked.
    pub(crate) patience: Option<Duration>,
    _asking: Option<prompt::Asking>,
}

impl Process {
    /// Tells the script something.
    pub(crate) async fn say(&mut self, line: &str) -> Result<(), SshError> {
        let said = self.input.write_all(format!("{line}\n").as_bytes()).await;
        said.map_err(|error| SshError::new(format!("{}: {error}", self.name)))
    }

    /// Waits for a line of the script that begins with its mark, and gives the rest of it. What a shell prints there before is
    /// passed over.
    pub(crate) async fn answer(&mut self, mark: &str) -> Result<String, SshError> {
        let patience = self.patience;
        let reading = async {
            let mut noise = (&mut self.output).take(NOISE);
            let mut line = Vec::new();
            loop {
                line.clear();
                match noise.read_until(b'\n', &mut line).await {
                    Ok(0) | Err(_) => return None,
                    Ok(_) => {}
                }
                let text = String::from_utf8_lossy(&line);
                if let Some(rest) = text.trim_end().strip_prefix(mark) {
                    return Some(rest.trim_start().to_owned());
                }
            }
        };
        let answer = match patience {
            Some(patience) => tokio::time::timeout(patience, reading).await.map_err(|_| {
                SshError::new(format!("{} has not answered within {} seconds", self.name, patience.as_secs()))
            })?,
            None => reading.await,
        };
        match answer {
            Some(rest) => match rest.strip_prefix("fail ") {
                Some(why) => Err(SshError::new(format!("{}: {}", self.name, clean(why.as_bytes())))),
                None => Ok(rest),
            },
            None => Err(self.complaint().await),
        }
    }

    /// Why it has ended.
    async fn complaint(&mut self) -> SshError {
        const LAST_WORDS: Duration = Duration::from_secs(5);
        let mut said = Vec::new();
        let all = async {
            while let Some(line) = self.lines.recv().await {
                if said.len() < 20 {
                    said.push(clean(&line));
                }
            }
            self.child.wait().await
        };
        let status = tokio::time::timeout(LAST_WORDS, all).await;
        let status = status.ok().and_then(Result::ok);
        explained(&self.name, &said, status)
    }
}

/// Reads lines, of which only the beginning is kept if they are long.
async fn read_lines(stream: ChildStderr, lines: mpsc::Sender<Vec<u8>>) {
    const LONGEST: u64 = 64 << 10;
    let mut stream = BufReader::new(stream);
    loop {
        let mut line = Vec::new();
        match (&mut stream).take(LONGEST).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {
                if lines.send(line).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// What ssh means by what it says.
fn explained(name: &str, said: &[String], status: Option<ExitStatus>) -> SshError {
    let has = |part: &str| said.iter().any(|line| line.contains(part));
    let last = said.iter().rev().find(|line| !line.is_empty()).cloned();
    let quoted = last.clone().map(|last| format!(": {last}")).unwrap_or_default();
    if has("HOST IDENTIFICATION HAS CHANGED") {
        return SshError::new(format!("{name} is refused: its host key is not the one that is known")).hint(
            "either somebody listens in, or the host was set up anew; only if you are sure of the latter, remove its old \
             key with `ssh-keygen -R HOST`, and add the new one",
        );
    }
    if has("Host key verification failed") || has("host key is known") {
        return SshError::new(format!("{name} is refused: its host key is not known")).hint(
            "compare its key with /etc/ssh/ssh_host_ed25519_key.pub there, and add it to known_hosts, or give it with \
             `--ssh-hostkey`",
        );
    }
    if has("Permission denied") || has("Too many authentication failures") {
        return SshError::new(format!("{name} does not let us in{quoted}")).hint(
            "add your public key to ~/.ssh/authorized_keys there, or say which one to use with `--ssh-id`",
        );
    }
    if ["timed out", "refused", "No route", "Could not resolve", "unreachable", "reset by", "closed by"]
        .iter()
        .any(|part| has(part))
    {
        return SshError::new(format!("{name} cannot be reached{quoted}"));
    }
    match (last, status.and_then(|status| status.code())) {
        (Some(last), _) => SshError::new(format!("{name}: {last}")),
        (None, Some(code)) => SshError::new(format!("{name}: ssh ended with code {code}")),
        (None, None) => SshError::new(format!("{name}: ssh ended")),
    }
}

/// A word that every shell takes as it is.
pub(crate) fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(login: &Login) -> Vec<String> {
        login.options().into_iter().map(|word| word.into_string().unwrap()).collect()
    }

    #[test]
    fn nobody_is_asked_and_no_host_is_trusted_by_accident() {
        let login = Login::new(Target::parse("admin@web1:2200").unwrap());
        let options = words(&login);
        for wanted in ["BatchMode=yes", "StrictHostKeyChecking=yes", "ForwardAgent=no"] {
            assert!(options.iter().any(|option| option == wanted), "{wanted}");
        }
        assert!(options.join(" ").ends_with("-l admin -p 2200"));
        assert!(!options.join(" ").contains("KnownHostsCommand"));
    }

    #[test]
    fn an_identity_is_used_alone() {
        let mut login = Login::new(Target::parse("web1").unwrap());
        login.identity = Identity::File("/root/key".into());
        let options = words(&login).join(" ");
        assert!(options.contains("-o IdentitiesOnly=yes -i /root/key"), "{options}");
        login.identity = Identity::None;
        assert!(words(&login).join(" ").contains("PubkeyAuthentication=no"));
    }

    #[test]
    fn a_quoted_word_stays_one_word() {
        for word in ["", "plain", "it's", "$(id) `id` \"x\" \\", "a b\nc", "''"] {
            let output = std::process::Command::new("/bin/sh")
                .args(["-c", &format!("printf %s {}", quoted(word))])
                .output()
                .unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), word);
        }
    }

    #[test]
    fn what_ssh_says_is_explained() {
        let why = |line: &str| explained("root@web1", &[line.to_owned()], None);
        assert!(why("Host key verification failed.").hint.is_some());
        assert!(why("root@web1: Permission denied (publickey).").message.contains("does not let us in"));
        assert!(
            why("ssh: connect to host web1 port 22: Connection refused")
                .message
                .contains("cannot be reached")
        );
        assert_eq!(why("odd").message, "root@web1: odd");
    }
}
