//! Key layout: which keys there are, and how names become parts of them.
//!
//! ```text
//!   /string/NAME                          a string that every host may set
//!   /host/HOST/string/NAME                the string of one host under a name
//!   /host/HOST/export/TO/KIND/NAME        a resource that a host offers to another, or to all (`*`)
//!   /host/HOST/volunteer/NAME             a host would do what is scheduled under a name
//!   /host/HOST/status                     what a host is doing
//!   /host/HOST/agent                      the agent that writes in the name of a host
//!   /host/HOST/rival/INSTANCE             another agent with the same host name, which stands back
//!   /host/HOST/member                     a host runs an agent, or did and is gone
//!   /host/HOST/log                        which log lines it shall show
//!   /schedule/NAME                        the hosts that have been chosen under a name
//!   /leader/scheduler                     the host that chooses
//!   /deploy/newest                        the number of the newest deploy
//!   /deploy/id/NUMBER                     one deploy
//!   /deploy/sweep                         counts the removals of chunks that nobody needs
//!   /chunk/DIGEST                         a piece of a file, by what is in it
//! ```
//!
//! Whatever belongs to one host is below `/host/HOST/`, so that a store that knows its users can let each host write
//! there and nowhere else. In a name, everything but letters, digits and a few signs is written as `%` and two digits.

use mgmt_value::Str;

/// The strings that every host may set.
pub const STRINGS: &str = "/string/";
pub(crate) const HOSTS: &str = "/host/";
/// The hosts that have been chosen.
pub const SCHEDULES: &str = "/schedule/";
/// The offices that one host holds at a time.
pub const LEADERS: &str = "/leader/";
pub(crate) const SCHEDULER: &str = "/leader/scheduler";
/// What is below this is about deploys.
pub(crate) const DEPLOY: &str = "/deploy/";
pub(crate) const NEWEST: &str = "/deploy/newest";
pub(crate) const DEPLOYS: &str = "/deploy/id/";
pub(crate) const SWEEP: &str = "/deploy/sweep";
pub(crate) const CHUNKS: &str = "/chunk/";

pub(crate) fn string(name: &Str) -> String {
    format!("{STRINGS}{}", part(name))
}

pub(crate) fn host_string(host: &Str, name: &Str) -> String {
    format!("{HOSTS}{}/string/{}", part(host), part(name))
}

/// What all keys of a host begin with.
pub fn host(host: &Str) -> String {
    format!("{HOSTS}{}/", part(host))
}

pub(crate) fn exports(host: &Str) -> String {
    format!("{HOSTS}{}/export/", part(host))
}

pub(crate) fn export(host: &Str, to: &Str, kind: &Str, name: &Str) -> String {
    format!("{}{}/{}/{}", exports(host), part(to), part(kind), part(name))
}

pub(crate) fn volunteer(host: &Str, name: &Str) -> String {
    format!("{HOSTS}{}/volunteer/{}", part(host), part(name))
}

pub(crate) fn status(host: &Str) -> String {
    format!("{HOSTS}{}/status", part(host))
}

/// The claim of the agent that writes in the name of a host.
pub(crate) fn agent(host: &Str) -> String {
    format!("{HOSTS}{}/agent", part(host))
}

/// The agents that stand back for the one that holds the name of a host.
pub(crate) fn rivals(host: &Str) -> String {
    format!("{HOSTS}{}/rival/", part(host))
}

pub(crate) fn rival(host: &Str, instance: &str) -> String {
    format!("{}{}", rivals(host), part(instance.as_bytes()))
}

pub(crate) fn member(host: &Str) -> String {
    format!("{HOSTS}{}/member", part(host))
}

pub(crate) fn log(host: &Str) -> String {
    format!("{HOSTS}{}/log", part(host))
}

pub(crate) fn schedule(name: &Str) -> String {
    format!("{SCHEDULES}{}", part(name))
}

pub(crate) fn deploy(number: u64) -> String {
    format!("{DEPLOYS}{number:020}")
}

pub(crate) fn chunk(digest: &str) -> String {
    format!("{CHUNKS}{digest}")
}

/// What a key is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Topic {
    String(Str),
    HostStrings(Str),
    Exports(Str),
    Schedule(Str),
    Volunteers,
    Status,
    LogLevels,
    Leader,
    /// Whatever belongs to a host.
    Host(Str),
}

/// A key, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    String(Str),
    HostString { host: Str, name: Str },
    Export { host: Str, to: Str, kind: Str, name: Str },
    Volunteer { host: Str, name: Str },
    Status { host: Str },
    Agent { host: Str },
    Rival { host: Str, instance: Str },
    Member { host: Str },
    Log { host: Str },
    Schedule(Str),
    Leader,
}

impl Key {
    /// Takes a key apart. One that is none of ours is none.
    pub(crate) fn parse(key: &str) -> Option<Key> {
        let mut parts = key.strip_prefix('/')?.split('/');
        let area = parts.next()?;
        let mut names = Vec::new();
        let found = match area {
            "string" | "schedule" | "leader" => {
                names.push(name(parts.next()?)?);
                area
            }
            "host" => {
                names.push(name(parts.next()?)?);
                let area = parts.next()?;
                for part in parts.by_ref() {
                    names.push(name(part)?);
                }
                area
            }
            _ => return None,
        };
        if parts.next().is_some() {
            return None;
        }
        let mut names = names.into_iter();
        let mut next = || names.next();
        let parsed = match (area, found) {
            ("string", _) => Key::String(next()?),
            ("schedule", _) => Key::Schedule(next()?),
            ("leader", _) => next().map(|_| Key::Leader)?,
            (_, "string") => Key::HostString { host: next()?, name: next()? },
            (_, "export") => Key::Export { host: next()?, to: next()?, kind: next()?, name: next()? },
            (_, "volunteer") => Key::Volunteer { host: next()?, name: next()? },
            (_, "status") => Key::Status { host: next()? },
            (_, "agent") => Key::Agent { host: next()? },
            (_, "rival") => Key::Rival { host: next()?, instance: next()? },
            (_, "member") => Key::Member { host: next()? },
            (_, "log") => Key::Log { host: next()? },
            _ => return None,
        };
        names.next().is_none().then_some(parsed)
    }

    /// The host that it belongs to.
    pub(crate) fn host(&self) -> Option<&Str> {
        match self {
            Key::HostString { host, .. }
            | Key::Export { host, .. }
            | Key::Volunteer { host, .. }
            | Key::Status { host }
            | Key::Agent { host }
            | Key::Rival { host, .. }
            | Key::Member { host }
            | Key::Log { host } => Some(host),
            Key::String(_) | Key::Schedule(_) | Key::Leader => None,
        }
    }

    pub(crate) fn topic(self) -> Topic {
        match self {
            Key::String(name) => Topic::String(name),
            Key::HostString { name, .. } => Topic::HostStrings(name),
            Key::Export { kind, .. } => Topic::Exports(kind),
            Key::Volunteer { .. } => Topic::Volunteers,
            Key::Status { .. } | Key::Agent { .. } | Key::Rival { .. } | Key::Member { .. } => Topic::Status,
            Key::Log { .. } => Topic::LogLevels,
            Key::Schedule(name) => Topic::Schedule(name),
            Key::Leader => Topic::Leader,
        }
    }
}

/// A name as a part of a key. Never empty, and never more than one part.
pub fn part(name: &[u8]) -> String {
    use std::fmt::Write as _;
    if name.is_empty() {
        return "%".to_owned();
    }
    let mut part = String::with_capacity(name.len());
    for byte in name {
        if byte.is_ascii_alphanumeric() || b"._-~:@+*=,".contains(byte) {
            part.push(char::from(*byte));
        } else {
            let _ = write!(part, "%{byte:02X}");
        }
    }
    part
}

/// The name that a part stands for.
pub(crate) fn name(part: &str) -> Option<Str> {
    if part == "%" {
        return Some(Str::EMPTY);
    }
    let mut name = Vec::with_capacity(part.len());
    let mut bytes = part.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let digit = |byte: u8| char::from(byte).to_digit(16);
            let (high, low) = (digit(bytes.next()?)?, digit(bytes.next()?)?);
            name.push(u8::try_from(high * 16 + low).ok()?);
        } else {
            name.push(byte);
        }
    }
    (!name.is_empty()).then(|| Str::new(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every_name() -> Vec<Str> {
        let all: Vec<u8> = (0..=255).collect();
        let mut names =
            vec![Str::EMPTY, "a/b".into(), "/".into(), "%".into(), "%2F".into(), "é".into(), "*".into()];
        names.push(Str::new(&all));
        names.extend(all.iter().map(|byte| Str::new([*byte])));
        names
    }

    #[test]
    fn every_name_becomes_one_part_and_comes_back() {
        for one in every_name() {
            let part = part(&one);
            assert!(!part.is_empty() && !part.contains('/'), "{part}");
            assert_eq!(name(&part), Some(one));
        }
        assert_eq!(part(b"config.web:8080"), "config.web:8080", "common names stay readable");
        for broken in ["", "%2", "%G0", "a%"] {
            assert_eq!(name(broken), None, "{broken:?}");
        }
    }

    #[test]
    fn every_key_can_be_taken_apart_and_no_two_are_the_same() {
        for one in every_name() {
            let host: Str = "h1".into();
            let export = Key::parse(&export(&host, &"*".into(), &"http:server".into(), &one));
            let expected = Key::Export {
                host: host.clone(),
                to: "*".into(),
                kind: "http:server".into(),
                name: one.clone(),
            };
            assert_eq!(export, Some(expected));
            assert_eq!(Key::parse(&string(&one)), Some(Key::String(one.clone())));
            let key = host_string(&host, &one);
            assert_eq!(Key::parse(&key), Some(Key::HostString { host: host.clone(), name: one.clone() }));
            assert_eq!(Key::parse(&schedule(&one)), Some(Key::Schedule(one.clone())));
            let key = volunteer(&host, &one);
            assert_eq!(Key::parse(&key), Some(Key::Volunteer { host: host.clone(), name: one }));
        }
        assert_eq!(Key::parse(&status(&"h".into())), Some(Key::Status { host: "h".into() }));
        assert_eq!(Key::parse(&agent(&"h".into())), Some(Key::Agent { host: "h".into() }));
        assert_eq!(Key::parse(&member(&"h".into())), Some(Key::Member { host: "h".into() }));
        let rival = Key::parse(&rival(&"h".into(), "5b1c"));
        assert_eq!(rival, Some(Key::Rival { host: "h".into(), instance: "5b1c".into() }));
        assert_eq!(Key::parse(SCHEDULER), Some(Key::Leader));
        for foreign in
            ["", "/", "/host", "/host/a", "/host/a/other/x", "/string", "/string/a/b", "/chunk/x", "x"]
        {
            assert_eq!(Key::parse(foreign), None, "{foreign:?}");
        }
    }
}
