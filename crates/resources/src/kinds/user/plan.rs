//! What has to happen to an account.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use mgmt_resource::{Effect, Error, Result};
use mgmt_sys::path::clean;
use mgmt_value::Str;

use super::User;
use super::facts::{Account, Facts};
use crate::support::presence::Presence;

const ADD: &str = "useradd";
const CHANGE: &str = "usermod";
const REMOVE: &str = "userdel";

/// What has to happen.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Plan {
    /// The tool, and its arguments.
    pub(super) tool: Option<(&'static str, Vec<OsString>)>,
    /// The hash of the password has to be stored.
    pub(super) hash: bool,
    /// What is wrong, by the names of the parameters.
    wrong: Vec<&'static str>,
    /// A home directory that stays although it is to be removed, because it is a symbolic link.
    pub(super) kept_home: Option<Str>,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.tool {
            Some((ADD, _)) => f.write_str("made"),
            Some((REMOVE, _)) => f.write_str("removed"),
            _ => write!(f, "changed: {}", self.wrong.join(", ")),
        }
    }
}

impl Plan {
    /// What that changes. A password is named, and no more.
    pub(super) fn effects(&self, user: &User, name: &str) -> Vec<Effect> {
        match &self.tool {
            Some((ADD, _)) => {
                let made = Effect::create(name).aspect("user");
                let password = self.hash.then(|| Effect::change(name).aspect("password").secret());
                [made].into_iter().chain(password).collect()
            }
            Some((REMOVE, _)) => {
                let removed = Effect::remove(name).aspect("user");
                vec![match &self.kept_home {
                    Some(home) => removed.after(format_args!(
                        "the home directory {} stays, because it is a symbolic link",
                        home.display()
                    )),
                    None => removed,
                }]
            }
            _ => self.wrong.iter().map(|field| changed(user, name, field)).collect(),
        }
    }
}

fn changed(user: &User, name: &str, field: &'static str) -> Effect {
    let effect = Effect::change(name).aspect(field);
    let text = |text: &Str| text.to_text().into_owned();
    let declared = match field {
        "password" => return effect.secret(),
        "uid" => user.uid.map(|uid| uid.to_string()),
        "gid" => user.gid.map(|gid| gid.to_string()),
        "group" => user.group.as_ref().map(text),
        "homedir" => user.homedir.as_ref().map(text),
        "shell" => user.shell.as_ref().map(text),
        "comment" => user.comment.as_ref().map(text),
        _ => None,
    };
    match declared {
        Some(declared) => effect.after(declared),
        None => effect,
    }
}

/// What has to happen so that the account is as declared. Nothing if it is.
pub(super) fn plan(user: &User, facts: &Facts, name: &str) -> Result<Option<Plan>> {
    let presence = Presence::read(&user.state).map_err(Error::new)?;
    let account = match (presence, &facts.account) {
        (Presence::Absent, None) => return Ok(None),
        (Presence::Absent, Some(account)) => {
            // The tool removes nothing behind a link either, but says so by failing after it has removed the account.
            let removes = user.removehome && !account.home_is_link;
            let kept_home = (user.removehome && !removes).then(|| Str::new(&account.home));
            let words = removes.then_some("-r").into_iter().chain([name]);
            let tool = Some((REMOVE, words.map(OsString::from).collect()));
            return Ok(Some(Plan { tool, hash: false, wrong: vec!["state"], kept_home }));
        }
        (Presence::Exists, None) => {
            check_holder(user, facts, name)?;
            return Ok(Some(addition(user, facts, name)));
        }
        (Presence::Exists, Some(account)) => account,
    };
    let Words { words, mut wrong } = changes(user, facts, account);
    if wrong.contains(&"uid") {
        check_holder(user, facts, name)?;
    }
    let tool = (!wrong.is_empty()).then(|| (CHANGE, words.into_iter().chain([name.into()]).collect()));
    let hash = !account.hash_is_right;
    wrong.extend(hash.then_some("password"));
    Ok((!wrong.is_empty()).then_some(Plan { tool, hash, wrong, kept_home: None }))
}

/// A number that another user has is refused, unless it may be shared.
fn check_holder(user: &User, facts: &Facts, name: &str) -> Result<()> {
    match (&facts.holder, user.uid) {
        (Some(holder), Some(uid)) if holder != name && !user.allowduplicateuid => Err(Error::new(
            format_args!("the number {uid} belongs to the user {}", Str::from(holder.as_str()).display()),
        )
        .with_hint("choose another number, or set `allowduplicateuid => true`")),
        _ => Ok(()),
    }
}

fn addition(user: &User, facts: &Facts, name: &str) -> Plan {
    let mut words = Words::default();
    if let Some(uid) = user.uid {
        words.uid(uid, user.allowduplicateuid);
    }
    match (user.gid, &user.group) {
        (Some(gid), _) => words.option("gid", "-g", gid.to_string()),
        (None, Some(group)) => words.option("group", "-g", group.as_bytes()),
        // Left over, or declared: to make another of the same name would fail.
        (None, None) if facts.namesake => words.option("group", "-g", name),
        // What happens without it depends on the host.
        (None, None) => words.flag("-U"),
    }
    if let Some(groups) = user.groups.as_ref().filter(|groups| !groups.is_empty()) {
        words.option("groups", "-G", joined(groups));
    }
    if let Some(home) = &user.homedir {
        words.option("homedir", "-d", clean_home(home));
    }
    if let Some(shell) = &user.shell {
        words.option("shell", "-s", shell.as_bytes());
    }
    if let Some(comment) = &user.comment {
        words.option("comment", "-c", comment.as_bytes());
    }
    if user.system {
        words.flag("-r");
    }
    words.flag(if user.createhome { "-m" } else { "-M" });
    words.words.push(name.into());
    Plan {
        tool: Some((ADD, words.words)),
        hash: user.password.is_some(),
        wrong: vec!["state"],
        kept_home: None,
    }
}

fn changes(user: &User, facts: &Facts, account: &Account) -> Words {
    let mut words = Words::default();
    if let Some(uid) = user.uid.filter(|uid| *uid != account.uid) {
        words.uid(uid, user.allowduplicateuid);
    }
    if let Some(gid) = user.gid.filter(|gid| *gid != account.gid) {
        words.option("gid", "-g", gid.to_string());
    }
    if let Some(group) = &user.group
        && account.group.as_deref().map(str::as_bytes) != Some(group.as_bytes())
    {
        words.option("group", "-g", group.as_bytes());
    }
    if let Some(groups) = &user.groups {
        let primary = facts.wanted_group.as_deref().or(account.group.as_deref());
        let primary = user.group.as_deref().or(primary.map(str::as_bytes));
        let wanted: BTreeSet<&[u8]> =
            groups.iter().map(Str::as_bytes).filter(|group| Some(*group) != primary).collect();
        let present: BTreeSet<&[u8]> =
            account.groups.iter().map(String::as_bytes).filter(|group| Some(*group) != primary).collect();
        if user.othergroups {
            if !wanted.is_subset(&present) {
                let all: Vec<Str> = wanted.union(&present).map(Str::new).collect();
                words.option("groups", "-G", joined(&all));
            }
        } else if wanted != present {
            words.option("groups", "-G", joined(groups));
        }
    }
    if let Some(home) = &user.homedir
        && clean_home(home) != clean_home(&account.home)
    {
        words.option("homedir", "-d", clean_home(home));
        if user.movehome {
            words.flag("-m");
        }
    }
    if let Some(shell) = &user.shell
        && clean(shell) != clean(&account.shell)
    {
        words.option("shell", "-s", shell.as_bytes());
    }
    if let Some(comment) = &user.comment
        && comment.as_bytes() != account.comment
    {
        words.option("comment", "-c", comment.as_bytes());
    }
    words
}

/// Arguments, and the names of the parameters that they come from.
#[derive(Default)]
struct Words {
    words: Vec<OsString>,
    wrong: Vec<&'static str>,
}

impl Words {
    fn flag(&mut self, flag: &str) {
        self.words.push(flag.into());
    }

    fn option(&mut self, parameter: &'static str, option: &str, value: impl AsRef<[u8]>) {
        self.wrong.push(parameter);
        self.words.extend([option.into(), OsStr::from_bytes(value.as_ref()).to_owned()]);
    }

    fn uid(&mut self, uid: u32, shared: bool) {
        if shared {
            self.flag("-o");
        }
        self.option("uid", "-u", uid.to_string());
    }
}

/// A home directory as it is stored: without the slash at its end.
fn clean_home(home: &[u8]) -> Vec<u8> {
    let home = clean(home);
    match home.strip_suffix(b"/") {
        Some(b"") | None => home,
        Some(stripped) => stripped.to_vec(),
    }
}

fn joined(groups: &[Str]) -> Vec<u8> {
    OsString::from_vec(groups.iter().map(Str::as_bytes).collect::<Vec<_>>().join(&b","[..])).into_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user() -> User {
        User { state: "exists".into(), ..User::default() }
    }

    fn account() -> Account {
        Account {
            uid: 1000,
            gid: 1000,
            group: Some("joe".into()),
            groups: ["audio".to_owned(), "video".to_owned()].into(),
            home: b"/home/joe".to_vec(),
            shell: b"/bin/sh".to_vec(),
            comment: b"Joe".to_vec(),
            hash_is_right: true,
            home_is_link: false,
        }
    }

    fn planned(user: &User, facts: &Facts) -> String {
        let Some(plan) = plan(user, facts, "joe").unwrap() else { return String::new() };
        let words = |words: &[OsString]| words.join(OsStr::new(" ")).into_string().unwrap();
        let tool = plan.tool.as_ref().map(|(tool, arguments)| format!("{tool} {}", words(arguments)));
        [tool, plan.hash.then(|| "hash".to_owned())].into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    fn there() -> Facts {
        Facts { account: Some(account()), namesake: true, ..Facts::default() }
    }

    fn list(names: &[&str]) -> Option<Vec<Str>> {
        Some(names.iter().map(|name| Str::from(*name)).collect())
    }

    #[test]
    fn a_new_account_gets_what_is_declared() {
        let nothing = Facts::default();
        assert_eq!(planned(&user(), &nothing), "useradd -U -M joe");
        let namesake = Facts { namesake: true, ..Facts::default() };
        assert_eq!(planned(&user(), &namesake), "useradd -g joe -M joe");
        let full = User {
            uid: Some(7),
            group: Some("staff".into()),
            groups: list(&["a", "b"]),
            homedir: Some("/srv//joe/".into()),
            shell: Some("/bin/sh".into()),
            comment: Some("Joe".into()),
            password: Some("*".into()),
            allowduplicateuid: true,
            system: true,
            createhome: true,
            ..user()
        };
        assert_eq!(
            planned(&full, &nothing),
            "useradd -o -u 7 -g staff -G a,b -d /srv/joe -s /bin/sh -c Joe -r -m joe, hash"
        );
        assert_eq!(planned(&User { gid: Some(9), ..user() }, &namesake), "useradd -g 9 -M joe");
    }

    #[test]
    fn only_what_differs_is_changed() {
        let right = User {
            uid: Some(1000),
            gid: Some(1000),
            groups: list(&["video", "audio"]),
            homedir: Some("/home/./joe/".into()),
            shell: Some("/bin/sh".into()),
            comment: Some("Joe".into()),
            ..user()
        };
        assert_eq!(planned(&right, &there()), "");
        assert_eq!(
            planned(&User { shell: Some("/bin/bash".into()), ..right.clone() }, &there()),
            "usermod -s /bin/bash joe"
        );
        assert_eq!(planned(&User { groups: list(&[]), ..right.clone() }, &there()), "usermod -G  joe");
        let at_least = |groups: &[&str]| User { groups: list(groups), othergroups: true, ..right.clone() };
        assert_eq!(planned(&at_least(&["audio"]), &there()), "");
        assert_eq!(planned(&at_least(&["audio", "disk"]), &there()), "usermod -G audio,disk,video joe");
        let moved = User { homedir: Some("/srv/joe/".into()), movehome: true, ..right.clone() };
        assert_eq!(planned(&moved, &there()), "usermod -d /srv/joe -m joe");
        let group = User { group: Some("staff".into()), gid: None, ..right.clone() };
        assert_eq!(planned(&group, &there()), "usermod -g staff joe");
        let mut facts = there();
        facts.account.as_mut().unwrap().hash_is_right = false;
        assert_eq!(planned(&User { password: Some("*".into()), ..right }, &facts), "hash");
    }

    #[test]
    fn the_primary_group_among_the_others_makes_no_difference() {
        let facts = Facts { wanted_group: Some("staff".into()), ..there() };
        let user = User { gid: Some(1000), groups: list(&["staff", "audio", "video"]), ..user() };
        assert_eq!(planned(&user, &facts), "");
    }

    #[test]
    fn an_account_is_removed_with_its_home_only_when_asked() {
        let absent = User { state: "absent".into(), ..User::default() };
        assert_eq!(planned(&absent, &Facts::default()), "");
        assert_eq!(planned(&absent, &there()), "userdel joe");
        assert_eq!(planned(&User { removehome: true, ..absent }, &there()), "userdel -r joe");
    }

    #[test]
    fn a_number_of_another_user_is_refused_unless_it_may_be_shared() {
        let taken = |account| Facts { account, holder: Some("ann".into()), ..Facts::default() };
        let wanted = User { uid: Some(7), ..user() };
        for account in [None, Some(account())] {
            let error = plan(&wanted, &taken(account), "joe").unwrap_err();
            assert!(error.to_string().contains("belongs to the user ann"), "{error}");
        }
        let shared = User { allowduplicateuid: true, ..wanted };
        assert_eq!(planned(&shared, &taken(None)), "useradd -o -u 7 -U -M joe");
        let already = User { uid: Some(1000), ..user() };
        assert_eq!(
            planned(&already, &taken(Some(account()))),
            "",
            "both have it, and the other is found first"
        );
    }
}
