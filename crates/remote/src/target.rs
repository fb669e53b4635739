//! Whom to reach.

use std::fmt;

use crate::host_key::HostKey;

/// A host and who to be there: `[ssh://][USER[:PASSWORD]@]HOST[:PORT][?hostkey=KEY]`.
///
/// The user is root where none is given. The port is what ssh is configured to use where none is given, which is 22
/// mostly. The host may be a name of the configuration of ssh.
#[derive(Clone, PartialEq, Eq)]
pub struct Target {
    /// Who to be there.
    pub user: String,
    /// Its name or address, without brackets.
    pub host: String,
    /// Where it listens.
    pub port: Option<u16>,
    /// What proves who we are, if it stands in the text.
    pub password: Option<String>,
    /// What it has to prove itself with.
    pub host_key: Option<HostKey>,
}

/// A text that says no such thing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}; expected `[ssh://][USER@]HOST[:PORT]`")]
pub struct TargetError {
    reason: String,
}

const USER: &str = "root";

/// The port of ssh.
const PORT: u16 = 22;

impl Target {
    /// Reads the text. Errors never show a password.
    pub fn parse(text: &str) -> Result<Target, TargetError> {
        let wrong = |reason: String| TargetError { reason };
        let rest = match text.split_once("://") {
            Some(("ssh", rest)) => rest,
            Some((scheme, _)) if !scheme.contains(['@', '/', '?']) => {
                return Err(wrong(format!("`{}` is not a scheme for this", scheme.escape_debug())));
            }
            _ => text,
        };
        let (rest, query) = match rest.split_once('?') {
            Some((rest, query)) => (rest, Some(query)),
            None => (rest, None),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (login, place) = match rest.rsplit_once('@') {
            Some((login, place)) => (Some(login), place),
            None => (None, rest),
        };
        let (user, password) = match login.map(|login| login.split_once(':').unwrap_or((login, ""))) {
            None => (USER.to_owned(), None),
            Some((user, password)) => {
                let has_password = login.is_some_and(|login| login.contains(':'));
                let decoded =
                    |text| decoded(text).ok_or_else(|| wrong("a `%` stands for nothing".to_owned()));
                let user = Some(decoded(user)?).filter(|user| !user.is_empty());
                (
                    user.unwrap_or_else(|| USER.to_owned()),
                    has_password.then(|| decoded(password)).transpose()?,
                )
            }
        };
        check_user(&user).map_err(wrong)?;
        let (host, port) = place_of(place).map_err(wrong)?;
        Ok(Target { user, host, port, password, host_key: query.map(host_key).transpose().map_err(wrong)? })
    }

    /// Its address as it is written, with brackets where it is needed.
    pub fn address(&self) -> String {
        match (self.host.contains(':'), self.port) {
            (true, Some(port)) => format!("[{}]:{port}", self.host),
            (true, None) => format!("[{}]", self.host),
            (false, Some(port)) => format!("{}:{port}", self.host),
            (false, None) => self.host.clone(),
        }
    }

    /// Whether both texts mean the same.
    pub fn is_same(&self, other: &Target) -> bool {
        let port = |target: &Target| target.port.unwrap_or(PORT);
        Target { port: None, ..self.clone() } == Target { port: None, ..other.clone() }
            && port(self) == port(other)
    }
}

/// Without the password.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.user, self.address())
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn place_of(text: &str) -> Result<(String, Option<u16>), String> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']').ok_or_else(|| "a `[` is not closed".to_owned())?;
            match rest.strip_prefix(':') {
                Some(port) => (host, Some(port)),
                None if rest.is_empty() => (host, None),
                None => return Err("something stands behind the `]`".to_owned()),
            }
        }
        None => match text.split_once(':') {
            // An address of version 6 without brackets has no port.
            Some((_, rest)) if rest.contains(':') => (text, None),
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let port = match port {
        None => None,
        Some(port) => Some(
            port.parse()
                .ok()
                .filter(|port| *port != 0)
                .ok_or_else(|| format!("`{}` is not a port", port.escape_debug()))?,
        ),
    };
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-:%".contains(&byte);
    match host {
        "" => Err("there is no host".to_owned()),
        host if host.len() > 253 || host.starts_with('-') || !host.bytes().all(is_plain) => {
            Err(format!("`{}` is not the name of a host", host.escape_debug()))
        }
        host => Ok((host.to_owned(), port)),
    }
}

fn check_user(user: &str) -> Result<(), String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-@\\+$".contains(&byte);
    match user.len() <= 256 && !user.starts_with('-') && user.bytes().all(is_plain) {
        true => Ok(()),
        false => Err(format!("`{}` is not the name of a user", user.escape_debug())),
    }
}

fn host_key(query: &str) -> Result<HostKey, String> {
    match query.split_once('=') {
        Some(("hostkey", key)) => {
            let key = decoded(key).ok_or_else(|| "a `%` stands for nothing".to_owned())?;
            HostKey::parse(&key).map_err(|error| error.to_string())
        }
        _ => Err(format!("`?{}` means nothing here", query.escape_debug())),
    }
}

/// Replaces `%41` and the like.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|digit| char::from(digit).to_digit(16));
        let (high, low) = (digit()?, digit()?);
        bytes.push(u8::try_from(high * 16 + low).ok()?);
    }
    String::from_utf8(bytes).ok().filter(|text| !text.contains(['\n', '\r', '\0']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_read_in_all_its_spellings() {
        let read = |text: &str| Target::parse(text).map(|target| target.to_string());
        assert_eq!(read("web1").unwrap(), "root@web1");
        assert_eq!(read("ssh://web1/").unwrap(), "root@web1");
        assert_eq!(read("ssh://admin@web1:2200").unwrap(), "admin@web1:2200");
        assert_eq!(read("admin@[::1]:22").unwrap(), "admin@[::1]:22");
        assert_eq!(read("::1").unwrap(), "root@[::1]");
        assert_eq!(read("fe80::1%eth0").unwrap(), "root@[fe80::1%eth0]");
        assert_eq!(read("u%40corp@h").unwrap(), "u@corp@h");
        let with_password = Target::parse("ssh://u:p%3Aq@h").unwrap();
        assert_eq!(with_password.password.as_deref(), Some("p:q"));
        assert!(!format!("{with_password:?}").contains("p:q"));
        assert!(Target::parse("h").unwrap().is_same(&Target::parse("ssh://root@h:22").unwrap()));
        assert!(!Target::parse("h").unwrap().is_same(&Target::parse("h:23").unwrap()));
    }

    #[test]
    fn what_ssh_would_take_for_a_flag_or_a_shell_for_a_command_is_refused() {
        for text in [
            "",
            "-oProxyCommand=id",
            "ssh://-v",
            "-l@host",
            "http://host",
            "h;id",
            "h id",
            "$(id)",
            "h\nid",
            "h:0",
            "h:99999",
            "h:x",
            "[::1",
            "[::1]x",
            "u;id@h",
            "%zz@h",
            "h?x=y",
            "h?hostkey=!",
            "a%0ab:c%0a@h",
        ] {
            assert!(Target::parse(text).is_err(), "{text:?}");
        }
        let refused = Target::parse("ftp://u:secret@h").unwrap_err().to_string();
        assert!(!refused.contains("secret"), "{refused}");
    }
}
