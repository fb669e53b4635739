//! `remote`: this program on another host.
//!
//! [`Remote`] is the declaration. `run` is a program there that ends with us, and `serve` one that goes on without us. Both
//! are started by the crate `remote`, which is about everything else of ssh.
//!
//! Invariants
//! - Looking changes nothing on the other host. A program that ends with us is not even looked for: it cannot be there.
//! - A program that goes on is watched by one connection that is told of its end by the kernel there; nothing is asked for
//!   repeatedly while it runs.
//!
//! Deliberately absent: copying programs of the language. The other host runs what is deployed, like every host that shares
//! the store.

mod run;
mod seeds;
mod serve;

use std::time::Duration;

use mgmt_remote::{HostKey, Identity, Login, Place, Prompts, Target};
use mgmt_resource::{Checked, Context, Error, Invalid, Kind, Nothing, Resource, Result, Watch};
use mgmt_value::Str;

use crate::support::home;

/// Runs this program on another host, over ssh.
///
/// Nothing has to be installed there but an sshd: the program is copied, and runs what is deployed in the store of this
/// host, as any host does that shares it. What it says is shown here.
///
/// There are two ways. A program that is `transient`, as it is by default, belongs to this resource: it is started when the resource
/// runs, which takes until the program ends, and ends when this program does or when the connection is lost. The resource fails
/// if the program ends with anything but 0. It is cancelled by the second ^C, like everything that runs. One that is not goes on there by itself, and is started again, and told by an event, whenever
/// it ends or is not the same version as this program; when this host is gone, it stays, and whichever host declares it next takes it over.
///
/// The key of the host has to be known to ssh, or be given. Nobody is asked whether to trust one.
///
/// ```mcl
/// remote "web1.example.com" {
///     converger_timeout => 5,
/// }
/// ```
///
/// In a graph of YAML:
///
/// ```yaml
/// resources:
///   remote:
///   - name: web1.example.com
///     converger_timeout: 5
///   - name: db1
///     remote: ssh://admin@10.0.0.7:2200
///     transient: false
///     tunnelled: false
/// ```
#[derive(Clone, Debug, PartialEq, Resource)]
#[resource(kind = "remote")]
pub struct Remote {
    /// The host: `[ssh://][USER@]HOST[:PORT]`; the name if it is not given. The user is root where none is given.
    pub remote: Str,
    /// What the host is called among those that share the store; as it calls itself if it is not given.
    pub hostname: Str,
    /// `running` or `stopped`. A host where it is to be stopped is connected to, to make sure.
    pub state: Str,
    /// The private key to log in with, and no other; `~/` and `~user/` stand for home directories. Without it, those that ssh
    /// would use; if it is empty, none.
    pub ssh_id: Option<Str>,
    /// The public key that the host has to prove itself with, as in `known_hosts`. Nothing else counts then.
    pub hostkey: Str,
    /// Ask at the terminal for passwords, where the host wants one.
    pub interactive: bool,
    /// For how many seconds; 0 is for ever.
    pub interactive_timeout: i64,
    /// How often; 0 is as often as the host allows.
    pub max_password_tries: i64,
    /// The password may stand in `remote`: `USER:PASSWORD@HOST`. Everybody who can read the program can read it.
    pub allow_cleartext_password: bool,
    /// Keep the program there for the next time.
    pub caching: bool,
    /// The program ends when this resource does.
    pub transient: bool,
    /// It has the store of this host through its connection. If not, it has to be able to reach the servers of `--seeds` itself.
    pub tunnelled: bool,
    /// Accepted, without effect: nothing has to listen there for the store.
    pub tunnel_addr: Str,
    /// Install what the program needs there, with the package manager of the host, if it does not run without.
    pub install_deps: bool,
    /// The program ends after so many seconds without work. Without it, it does if this program does, after the same time.
    pub converger_timeout: Option<i64>,
}

impl Default for Remote {
    fn default() -> Remote {
        Remote {
            remote: Str::default(),
            hostname: Str::default(),
            state: "running".into(),
            ssh_id: None,
            hostkey: Str::default(),
            interactive: false,
            interactive_timeout: 0,
            max_password_tries: 0,
            allow_cleartext_password: false,
            caching: true,
            transient: true,
            tunnelled: true,
            tunnel_addr: "127.0.0.1:2379".into(),
            install_deps: false,
            converger_timeout: None,
        }
    }
}

impl Kind for Remote {
    type State = ();
    type Sends = Nothing;

    fn validate(&self, name: &Str) -> Result<(), Invalid> {
        let target = self.target(name)?;
        if target.password.is_some() && !self.allow_cleartext_password {
            return Err(Invalid::field(
                "remote",
                "there is a password in it, which everybody can read who can read this",
            )
            .with_hint("log in with a key; or set `interactive`, or `allow_cleartext_password`"));
        }
        if ![&b"running"[..], b"stopped"].contains(&&*self.state) {
            return Err(Invalid::field(
                "state",
                format!("expected `running` or `stopped`, found {:?}", self.state),
            ));
        }
        if let Some(path) = self.ssh_id.as_ref().filter(|path| !path.is_empty()) {
            home::check("ssh_id", path)?;
        }
        self.host_key()?;
        self.check_hostname()?;
        self.check_numbers()?;
        check_address(&self.tunnel_addr)?;
        if self.transient || !self.is_to_run() {
            return Ok(());
        }
        if self.tunnelled {
            return Err(Invalid::field(
                "tunnelled",
                "a program that goes on without us has no connection to us",
            )
            .with_hint("set `tunnelled` to false, or leave `transient` as it is"));
        }
        match self.converger_timeout {
            Some(_) => Err(Invalid::field("converger_timeout", "a program that is to go on does not end")
                .with_hint("leave it out, or leave `transient` as it is")),
            None => Ok(()),
        }
    }

    fn watches(&self, name: &Str) -> Vec<Watch> {
        match !self.transient && self.is_to_run() {
            true => vec![serve::watch(self, name)],
            false => Vec::new(),
        }
    }

    async fn check_apply(&self, (): &mut (), cx: &mut Context<'_>) -> Result<Checked> {
        match self.transient && self.is_to_run() {
            true => run::run(self, cx).await,
            false => serve::check(self, cx).await,
        }
    }

    fn equivalent(&self, name: &Str, other: &Remote) -> bool {
        let others_are_same = Remote { remote: other.remote.clone(), ..self.clone() } == *other;
        match (self.target(name), other.target(name)) {
            (Ok(own), Ok(others)) => others_are_same && own.is_same(&others),
            _ => self == other,
        }
    }
}

impl Remote {
    fn is_to_run(&self) -> bool {
        *self.state == *b"running"
    }

    fn target(&self, name: &Str) -> Result<Target, Invalid> {
        let text = if self.remote.is_empty() { name } else { &self.remote };
        let text = text.as_str().ok_or_else(|| Invalid::field("remote", "is not text"))?;
        Target::parse(text).map_err(|error| Invalid::field("remote", error.to_string()))
    }

    fn host_key(&self) -> Result<Option<HostKey>, Invalid> {
        match self.hostkey.is_empty() {
            true => Ok(None),
            false => HostKey::parse(&self.hostkey.to_text())
                .map(Some)
                .map_err(|error| Invalid::field("hostkey", error.to_string())),
        }
    }

    fn check_hostname(&self) -> Result<(), Invalid> {
        let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-:".contains(byte);
        match self.hostname.len() <= 253
            && self.hostname.iter().all(is_plain)
            && !self.hostname.starts_with(b"-")
            && !self.hostname.starts_with(b".")
        {
            true => Ok(()),
            false => {
                Err(Invalid::field("hostname", format!("{:?} cannot be the name of a host", self.hostname)))
            }
        }
    }

    fn check_numbers(&self) -> Result<(), Invalid> {
        // All of them are small in practice; what counts is that none is negative, and that clocks can hold them.
        let longest = i64::from(u32::MAX);
        let numbers = [
            ("interactive_timeout", Some(self.interactive_timeout)),
            ("max_password_tries", Some(self.max_password_tries)),
            ("converger_timeout", self.converger_timeout),
        ];
        for (field, number) in numbers {
            if let Some(wrong) = number.filter(|number| !(0..=longest).contains(number)) {
                return Err(Invalid::field(
                    field,
                    format!("expected a number from 0 to {longest}, found {wrong}"),
                ));
            }
        }
        Ok(())
    }

    /// How to get there.
    fn login(&self, name: &Str) -> Result<Login> {
        let mut login = Login::new(self.target(name).map_err(Error::new)?);
        if let Some(key) = self.host_key().map_err(Error::new)? {
            login.host_key = Some(key);
        }
        login.identity = match &self.ssh_id {
            None => Identity::Usual,
            Some(path) if path.is_empty() => Identity::None,
            Some(path) => match home::locate(path)? {
                Some(located) => Identity::File(located.path.as_os_str().into()),
                None => return Err(Error::new(format_args!("there is no account for the key {path:?}"))),
            },
        };
        let positive = |number: i64| u32::try_from(number).ok().filter(|number| *number > 0);
        login.prompts = Prompts {
            interactive: self.interactive,
            timeout: positive(self.interactive_timeout).map(|seconds| Duration::from_secs(seconds.into())),
            tries: positive(self.max_password_tries),
            program: None,
        };
        Ok(login)
    }

    fn place(&self) -> Place {
        if self.caching { Place::Cache } else { Place::Temporary }
    }
}

/// What an error of ssh means for a resource.
fn failed(error: mgmt_remote::SshError) -> Error {
    let failure = Error::new(error.message);
    match error.hint {
        Some(hint) => failure.with_hint(hint),
        None => failure,
    }
}

fn check_address(address: &Str) -> Result<(), Invalid> {
    let text = address.to_text();
    match text.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => Ok(()),
        _ => Err(Invalid::field("tunnel_addr", format!("expected `ADDRESS:PORT`, found {address:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "AAAAC3NzaC1lZDI1NTE5AAAAIJ1Hh8yqdS2p1B2VO6gQ8rJlGz2s4mWq6f3JXk1o0aBc";

    #[test]
    fn what_cannot_be_is_refused() {
        let refused = |remote: Remote| Kind::validate(&remote, &"web1".into()).unwrap_err();
        let plain = Remote::default;
        for (field, remote) in [
            ("remote", Remote { remote: "http://web1".into(), ..plain() }),
            ("remote", Remote { remote: "-oProxyCommand=id".into(), ..plain() }),
            ("remote", Remote { remote: "root:secret@web1".into(), ..plain() }),
            ("state", Remote { state: "up".into(), ..plain() }),
            ("hostkey", Remote { hostkey: "what".into(), ..plain() }),
            ("ssh_id", Remote { ssh_id: Some("key".into()), ..plain() }),
            ("hostname", Remote { hostname: "a b".into(), ..plain() }),
            ("tunnel_addr", Remote { tunnel_addr: "2379".into(), ..plain() }),
            ("interactive_timeout", Remote { interactive_timeout: -1, ..plain() }),
            ("max_password_tries", Remote { max_password_tries: -1, ..plain() }),
            ("converger_timeout", Remote { converger_timeout: Some(-1), ..plain() }),
            ("tunnelled", Remote { transient: false, ..plain() }),
            (
                "converger_timeout",
                Remote { transient: false, tunnelled: false, converger_timeout: Some(5), ..plain() },
            ),
        ] {
            let refused = refused(remote);
            assert_eq!(refused.field, Some(field), "{refused}");
            assert!(!refused.to_string().contains("secret"), "{refused}");
        }
        for right in [
            plain(),
            Remote { remote: "ssh://admin@[::1]:2200".into(), hostkey: KEY.into(), ..plain() },
            Remote { remote: "root:secret@web1".into(), allow_cleartext_password: true, ..plain() },
            Remote { transient: false, tunnelled: false, ssh_id: Some("~/key".into()), ..plain() },
            Remote { state: "stopped".into(), ssh_id: Some("".into()), ..plain() },
        ] {
            assert_eq!(Kind::validate(&right, &"web1".into()), Ok(()), "{right:?}");
        }
    }

    #[test]
    fn two_spellings_of_a_host_are_the_same() {
        let spelled = |text: &str| Remote { remote: text.into(), ..Remote::default() };
        let name = Str::from("web1");
        assert!(spelled("").equivalent(&name, &spelled("ssh://root@web1:22")));
        assert!(!spelled("").equivalent(&name, &spelled("admin@web1")));
        let other = Remote { caching: false, ..spelled("") };
        assert!(!spelled("").equivalent(&name, &other));
    }
}
