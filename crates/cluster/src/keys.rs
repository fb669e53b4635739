//! Cluster keys: the records that the cluster keeps about itself in the store, their keys, and their text.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::{Map, Value as Json, json};

use mgmt_store::{LeaseId, Snapshot};

/// All keys of the cluster begin with this.
pub const PREFIX: &str = "/cluster/";
/// Where the name of the cluster is. See [`Keys::identity`].
pub const IDENTITY: &str = "/cluster/identity";
/// Where the wanted number of servers is. See [`Keys::ideal`].
pub const SIZE: &str = "/cluster/size";
/// Where the one who decides is named. See [`Decider`].
pub const DECIDER: &str = "/cluster/decider";
/// Where the change under way is. See [`Plan`].
pub const PLAN: &str = "/cluster/plan";

const VOLUNTEER: &str = "/cluster/volunteer/";
const FAILURE: &str = "/cluster/failure/";
const DISMISSED: &str = "/cluster/dismissed/";
const FORMAT: u64 = 1;

/// The key of a host that offers to serve.
pub fn volunteer_key(host: &str) -> String {
    format!("{VOLUNTEER}{host}")
}

/// The key of the failures of a host.
pub fn failure_key(host: &str) -> String {
    format!("{FAILURE}{host}")
}

/// The key that says that a host shall not serve.
pub fn dismissed_key(host: &str) -> String {
    format!("{DISMISSED}{host}")
}

/// Everything that the store says about the cluster, at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Keys {
    /// The revision of that moment.
    pub revision: u64,
    /// A random name that no other cluster has. Without it, the store is not ours to change.
    pub identity: Option<String>,
    /// How many servers there shall be.
    pub ideal: Option<u32>,
    /// Who decides.
    pub decider: Option<Stored<Decider>>,
    /// What is being changed.
    pub plan: Option<Stored<Plan>>,
    /// The hosts that are there and willing to serve, by name.
    pub volunteers: BTreeMap<String, Stored<Volunteer>>,
    /// How often the joining of a host has failed in a row, by name.
    pub failures: BTreeMap<String, Stored<Failure>>,
    /// The hosts that shall not serve, whatever they offer.
    pub dismissed: BTreeSet<String>,
    /// Keys whose values were not understood, and why.
    pub unreadable: BTreeMap<String, String>,
    /// Hosts whose offer was not understood: they are there, that is all.
    pub unclear: BTreeSet<String>,
}

/// A record with its history.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored<T> {
    /// The record.
    pub value: T,
    /// The revision in which the key came to be.
    pub created: u64,
    /// The revision in which the record was written.
    pub modified: u64,
    /// The lease that the key is bound to.
    pub lease: Option<LeaseId>,
}

/// The number of a member. The store's servers give a new one to each that joins, and never one twice.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MemberId(pub u64);

impl fmt::Display for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

impl fmt::Debug for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// An offer to serve, kept under a lease for as long as the host is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volunteer {
    /// The run of the program that offers: a random word.
    pub instance: String,
    /// Where other servers will reach its server.
    pub peers: Vec<String>,
    /// Where clients will reach its server.
    pub clients: Vec<String>,
    /// The member whose data the host has, or has been asked to become.
    pub member: Option<MemberId>,
    /// The host finds its own server to be healthy.
    pub well: bool,
    /// The host wants to serve no longer.
    pub leaving: bool,
}

/// Who decides, kept under a lease. Every decision holds only while this key is the one that the decider created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decider {
    /// The host.
    pub host: String,
    /// The run of the program.
    pub instance: String,
}

/// The change under way, if there is one. Written by the decider alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Counts the changes of all time.
    pub attempt: u64,
    /// What is being done.
    pub change: Option<Change>,
}

/// One change of the membership.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A host joins: it is added as a learner, starts its server, catches up, and becomes a voter.
    Join {
        /// The host.
        host: String,
        /// The run of the program that offered. No other may answer for it.
        instance: String,
        /// Where its server will be.
        peers: Vec<String>,
        /// Its number, once it has been added.
        member: Option<MemberId>,
    },
    /// A member is removed.
    Remove {
        /// Its host, for people.
        host: String,
        /// Its number.
        member: MemberId,
        /// Why.
        reason: Reason,
    },
}

/// Why a member is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A learner that nobody asked for.
    Orphan,
    /// A learner that did not become a voter in time.
    Late,
    /// A voter that is no longer there.
    Gone,
    /// A voter whose host wants to serve no longer.
    Leaving,
    /// A voter more than there shall be.
    Surplus,
}

impl Reason {
    const ALL: [Reason; 5] = [Reason::Orphan, Reason::Late, Reason::Gone, Reason::Leaving, Reason::Surplus];

    fn name(self) -> &'static str {
        match self {
            Reason::Orphan => "orphan",
            Reason::Late => "late",
            Reason::Gone => "gone",
            Reason::Leaving => "leaving",
            Reason::Surplus => "surplus",
        }
    }
}

/// How often a host has failed to join since it last did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// How often.
    pub count: u32,
}

impl Keys {
    /// Reads everything below [`PREFIX`]. What cannot be understood is named, never used.
    pub fn parse(snapshot: &Snapshot) -> Keys {
        let mut keys = Keys { revision: snapshot.revision, ..Keys::default() };
        for entry in snapshot.below(PREFIX) {
            let key = entry.key.as_str();
            // Whatever the value is: that there is one says it all.
            if let Some(host) = key.strip_prefix(DISMISSED) {
                keys.dismissed.insert(host.to_owned());
                continue;
            }
            let history =
                Stored { value: (), created: entry.created, modified: entry.modified, lease: entry.lease };
            let outcome = open(&entry.value).and_then(|json| {
                match key {
                    IDENTITY => keys.identity = Some(text(&json, "identity")?),
                    SIZE => keys.ideal = Some(ideal_of(&json)?),
                    DECIDER => keys.decider = Some(history.with(Decider::read(&json)?)),
                    PLAN => keys.plan = Some(history.with(Plan::read(&json)?)),
                    _ => {
                        if let Some(host) = key.strip_prefix(VOLUNTEER) {
                            let offer = history.with(Volunteer::read(&json)?);
                            keys.volunteers.insert(host.to_owned(), offer);
                        } else if let Some(host) = key.strip_prefix(FAILURE) {
                            let failure = Failure { count: small(&json, "count")? };
                            keys.failures.insert(host.to_owned(), history.with(failure));
                        }
                    }
                }
                Ok(())
            });
            if let Err(reason) = outcome {
                if let Some(host) = key.strip_prefix(VOLUNTEER) {
                    keys.unclear.insert(host.to_owned());
                }
                keys.unreadable.insert(key.to_owned(), reason);
            }
        }
        keys
    }

    /// One of the keys was not understood without which nothing may be decided.
    pub(crate) fn unreadable_basis(&self) -> Option<(&str, &str)> {
        let basis = [IDENTITY, SIZE, DECIDER, PLAN];
        let mut found = self.unreadable.iter().filter(|(key, _)| basis.contains(&key.as_str()));
        found.next().map(|(key, reason)| (key.as_str(), reason.as_str()))
    }
}

impl Stored<()> {
    fn with<T>(&self, value: T) -> Stored<T> {
        Stored { value, created: self.created, modified: self.modified, lease: self.lease }
    }
}

/// The stored form of an identity.
pub(crate) fn write_identity(identity: &str) -> Vec<u8> {
    close(json!({ "identity": identity }))
}

/// The stored form of the wanted size, for whoever wants to change it.
pub fn write_size(ideal: u32) -> Vec<u8> {
    close(json!({ "ideal": ideal }))
}

/// The stored form of a dismissal.
pub(crate) fn write_dismissed() -> Vec<u8> {
    close(json!({}))
}

impl Volunteer {
    pub(crate) fn write(&self) -> Vec<u8> {
        close(json!({
            "instance": self.instance,
            "peers": self.peers,
            "clients": self.clients,
            "member": self.member.map(|id| id.to_string()),
            "well": self.well,
            "leaving": self.leaving,
        }))
    }

    fn read(json: &Json) -> Result<Volunteer, String> {
        Ok(Volunteer {
            instance: text(json, "instance")?,
            peers: texts(json, "peers")?,
            clients: texts(json, "clients")?,
            member: member(json, "member")?,
            well: truth(json, "well")?,
            leaving: truth(json, "leaving")?,
        })
    }
}

impl Decider {
    pub(crate) fn write(&self) -> Vec<u8> {
        close(json!({ "host": self.host, "instance": self.instance }))
    }

    fn read(json: &Json) -> Result<Decider, String> {
        Ok(Decider { host: text(json, "host")?, instance: text(json, "instance")? })
    }
}

impl Failure {
    pub(crate) fn write(self) -> Vec<u8> {
        close(json!({ "count": self.count }))
    }
}

impl Plan {
    pub(crate) fn write(&self) -> Vec<u8> {
        let change = match &self.change {
            None => Json::Null,
            Some(Change::Join { host, instance, peers, member }) => json!({
                "join": host,
                "instance": instance,
                "peers": peers,
                "member": member.map(|id| id.to_string()),
            }),
            Some(Change::Remove { host, member, reason }) => {
                json!({ "remove": host, "member": member.to_string(), "reason": reason.name() })
            }
        };
        close(json!({ "attempt": self.attempt, "change": change }))
    }

    fn read(json: &Json) -> Result<Plan, String> {
        let attempt = json.get("attempt").and_then(Json::as_u64).ok_or("`attempt` is not a number")?;
        let change = json.get("change").ok_or("`change` is missing")?;
        let change = if change.is_null() { None } else { Some(Change::read(change)?) };
        Ok(Plan { attempt, change })
    }
}

impl Change {
    fn read(json: &Json) -> Result<Change, String> {
        if json.get("join").is_some() {
            return Ok(Change::Join {
                host: text(json, "join")?,
                instance: text(json, "instance")?,
                peers: texts(json, "peers")?,
                member: member(json, "member")?,
            });
        }
        let name = text(json, "reason")?;
        let reason = Reason::ALL.into_iter().find(|reason| reason.name() == name);
        Ok(Change::Remove {
            host: text(json, "remove")?,
            member: member(json, "member")?.ok_or("`member` is missing")?,
            reason: reason.ok_or_else(|| format!("the reason {name:?} is not known"))?,
        })
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::Join { host, member: None, .. } => write!(f, "add {host}"),
            Change::Join { host, member: Some(id), .. } => write!(f, "bring up {host} as {id}"),
            Change::Remove { host, member, reason } => {
                write!(f, "remove {host} ({member}, {})", reason.name())
            }
        }
    }
}

fn close(json: Json) -> Vec<u8> {
    let mut whole = Map::new();
    whole.insert("format".to_owned(), FORMAT.into());
    if let Json::Object(members) = json {
        whole.extend(members);
    }
    Json::Object(whole).to_string().into_bytes()
}

fn open(value: &[u8]) -> Result<Json, String> {
    let json: Json = serde_json::from_slice(value).map_err(|error| error.to_string())?;
    match json.get("format").and_then(Json::as_u64) {
        Some(1..=FORMAT) => Ok(json),
        Some(format) => Err(format!("it has format {format}, and this version reads up to {FORMAT}")),
        None => Err("there is no format number".to_owned()),
    }
}

fn text(json: &Json, name: &str) -> Result<String, String> {
    let found = json.get(name).and_then(Json::as_str);
    Ok(found.ok_or_else(|| format!("`{name}` is not a string"))?.to_owned())
}

fn truth(json: &Json, name: &str) -> Result<bool, String> {
    json.get(name).and_then(Json::as_bool).ok_or_else(|| format!("`{name}` is not a boolean"))
}

fn texts(json: &Json, name: &str) -> Result<Vec<String>, String> {
    let wrong = || format!("`{name}` is not a list of strings");
    let list = json.get(name).and_then(Json::as_array).ok_or_else(wrong)?;
    list.iter().map(|each| Ok(each.as_str().ok_or_else(wrong)?.to_owned())).collect()
}

fn small(json: &Json, name: &str) -> Result<u32, String> {
    let found = json.get(name).and_then(Json::as_u64).and_then(|number| u32::try_from(number).ok());
    found.ok_or_else(|| format!("`{name}` is not a small number"))
}

fn ideal_of(json: &Json) -> Result<u32, String> {
    match small(json, "ideal")? {
        0 => Err("`ideal` is 0, and there has to be at least one server".to_owned()),
        ideal => Ok(ideal),
    }
}

fn member(json: &Json, name: &str) -> Result<Option<MemberId>, String> {
    match json.get(name) {
        None | Some(Json::Null) => Ok(None),
        Some(Json::String(digits)) => match u64::from_str_radix(digits, 16) {
            Ok(id) => Ok(Some(MemberId(id))),
            Err(_) => Err(format!("`{name}` is not a number of a member")),
        },
        Some(_) => Err(format!("`{name}` is not a number of a member")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mgmt_store::Entry;

    fn snapshot(entries: &[(&str, Vec<u8>)]) -> Snapshot {
        let mut entries: Vec<Entry> = entries
            .iter()
            .map(|(key, value)| Entry {
                key: (*key).to_owned(),
                value: value.clone(),
                created: 3,
                modified: 4,
                lease: Some(LeaseId(5)),
            })
            .collect();
        entries.sort_by(|a, b| a.key.cmp(&b.key));
        Snapshot { revision: 9, entries }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let offer = Volunteer {
            instance: "i1".into(),
            peers: vec!["http://a:2380".into()],
            clients: vec!["http://a:2379".into()],
            member: Some(MemberId(0x8e9e_05c5_2164_694d)),
            well: true,
            leaving: false,
        };
        let decider = Decider { host: "a".into(), instance: "i1".into() };
        let join = Change::Join {
            host: "b".into(),
            instance: "i2".into(),
            peers: vec!["http://b:2380".into()],
            member: None,
        };
        let mut changes = vec![None, Some(join)];
        for reason in Reason::ALL {
            changes.push(Some(Change::Remove { host: "c".into(), member: MemberId(7), reason }));
        }
        for change in changes {
            let plan = Plan { attempt: 12, change };
            let keys = Keys::parse(&snapshot(&[
                (IDENTITY, write_identity("x")),
                (SIZE, write_size(3)),
                (DECIDER, decider.write()),
                (PLAN, plan.write()),
                ("/cluster/volunteer/a", offer.write()),
                ("/cluster/failure/b", Failure { count: 2 }.write()),
            ]));
            assert_eq!(keys.unreadable, BTreeMap::new());
            assert_eq!(keys.identity.as_deref(), Some("x"));
            assert_eq!(keys.ideal, Some(3));
            assert_eq!(keys.decider.as_ref().map(|it| &it.value), Some(&decider));
            assert_eq!(keys.plan.as_ref().map(|it| &it.value), Some(&plan));
            assert_eq!(keys.volunteers["a"].value, offer);
            assert_eq!(keys.failures["b"].value.count, 2);
        }
    }

    #[test]
    fn what_is_not_understood_is_named_and_not_used() {
        let keys = Keys::parse(&snapshot(&[
            (SIZE, write_size(0)),
            (PLAN, b"{\"format\":2}".to_vec()),
            (DECIDER, b"{".to_vec()),
            ("/cluster/volunteer/a", b"{\"format\":1}".to_vec()),
            ("/cluster/something/new", b"{\"format\":1}".to_vec()),
        ]));
        assert_eq!(keys.ideal, None);
        assert_eq!(keys.plan, None);
        assert!(keys.unclear.contains("a") && keys.volunteers.is_empty());
        let named: Vec<&str> = keys.unreadable.keys().map(String::as_str).collect();
        assert_eq!(named, [DECIDER, PLAN, SIZE, "/cluster/volunteer/a"]);
        assert!(keys.unreadable_basis().is_some());
    }

    #[test]
    fn any_bytes_are_read_without_harm() {
        let good = Plan {
            attempt: 1,
            change: Some(Change::Remove { host: "c".into(), member: MemberId(7), reason: Reason::Gone }),
        }
        .write();
        for at in 0..good.len() {
            for byte in [0_u8, b'"', b'{', b'9', b'n', 0xff] {
                let mut bad = good.clone();
                bad[at] = byte;
                Keys::parse(&snapshot(&[(PLAN, bad.clone()), (SIZE, bad)]));
            }
            Keys::parse(&snapshot(&[(PLAN, good[..at].to_vec())]));
        }
    }
}
