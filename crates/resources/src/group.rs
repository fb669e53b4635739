//! `group`: groups of users.

use std::ffi::OsString;
use std::fmt;

use mgmt_resource::{
    Checked, Context, Effect, Error, Identity, Invalid, Kind, Nothing, Resource, Result, Watch,
};
use mgmt_value::Str;

use crate::account::local::Accounts;
use crate::account::lookup;
use crate::presence::Presence;
use crate::shadow::{self, Managed, Turn};

/// Makes, changes or removes a group of users.
///
/// The name of the resource is the name of the group. Who belongs to it is said by the `user` resources: see their `group`
/// and `groups`.
///
/// Whenever `/etc/group` changes, whoever changes it, the group is looked at again.
///
/// A group comes before the users that are declared to be in it, and before files and commands that use it. A group that
/// is to be absent comes after the users that are to be absent and were in it.
#[derive(Clone, Debug, Default, PartialEq, Resource)]
#[resource(kind = "group", edges)]
pub struct Group {
    /// `exists`: the group is to be there. `absent`: it is not to be there.
    pub state: Str,
    /// The number of the group. If it is left out, the group keeps the one that it has; a new one gets one that is free.
    pub gid: Option<u32>,
    /// Make the group with a number from the range for system accounts, if `gid` is left out. This says nothing about a group
    /// that is there already.
    pub system: bool,
    /// Let the group have a number that another group has, too.
    pub allowduplicategid: bool,
}

impl Kind for Group {
    type State = ();
    type Sends = Nothing;

    fn validate(&self, name: &Str) -> Result<(), Invalid> {
        shadow::check_name("group", name).map_err(Invalid::new)?;
        Presence::read(&self.state)?;
        shadow::check_number("gid", self.gid)
    }

    fn watches(&self, _: &Str) -> Vec<Watch> {
        vec![Watch::Path { path: shadow::GROUP.into(), recursive: false }]
    }

    async fn check_apply(&self, (): &mut (), cx: &mut Context<'_>) -> Result<Checked> {
        let name = cx.id.name.to_text().into_owned();
        shadow::settle(&Named { group: self, name }, cx).await
    }

    fn provides(&self, name: &Str) -> Vec<Identity> {
        let number = self.gid.map(Identity::GroupNumber);
        std::iter::once(Identity::Group(name.clone())).chain(number).collect()
    }
}

/// What has to be done.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Plan {
    Add,
    Change,
    Remove,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Plan::Add => "made",
            Plan::Change => "given another number",
            Plan::Remove => "removed",
        })
    }
}

/// What is there.
struct Facts {
    /// The number of the group, if it is there.
    gid: Option<u32>,
    /// The group that has the wanted number.
    holder: Option<String>,
}

struct Named<'a> {
    group: &'a Group,
    name: String,
}

impl Managed for Named<'_> {
    type Plan = Plan;

    async fn plan(&self) -> Result<Option<Plan>> {
        let (name, gid) = (self.name.clone(), self.group.gid);
        let facts = lookup(move || {
            let failed = |errno: nix::errno::Errno| {
                Error::new(format_args!("cannot look up the group {name}: {}", errno.desc()))
            };
            let accounts = Accounts::now();
            let holder = match gid {
                Some(gid) => accounts.group_numbered(gid).map_err(failed)?,
                None => None,
            };
            Ok(Facts { gid: accounts.group_named(&name).map_err(failed)?, holder })
        });
        self.group.plan(&facts.await?, &self.name)
    }

    fn effects(&self, plan: &Plan) -> Vec<Effect> {
        let name = &self.name;
        let effect = match plan {
            Plan::Add => Effect::create(name).aspect("group"),
            Plan::Change => Effect::change(name).aspect("number of the group"),
            Plan::Remove => return vec![Effect::remove(name).aspect("group")],
        };
        vec![match self.group.gid {
            Some(gid) => effect.after(gid),
            None => effect,
        }]
    }

    async fn carry_out(&self, plan: &Plan, turn: &mut Turn, cx: &Context<'_>) -> Result<()> {
        let tool = match plan {
            Plan::Add => "groupadd",
            Plan::Change => "groupmod",
            Plan::Remove => "groupdel",
        };
        let mut words: Vec<OsString> = Vec::new();
        if let (Some(gid), Plan::Add | Plan::Change) = (self.group.gid, plan) {
            words.extend(self.group.allowduplicategid.then(|| "-o".into()));
            words.extend(["-g".into(), gid.to_string().into()]);
        }
        words.extend((*plan == Plan::Add && self.group.system).then(|| "-r".into()));
        words.push(self.name.clone().into());
        turn.run(tool, &words, cx).await
    }
}

impl Group {
    fn plan(&self, facts: &Facts, name: &str) -> Result<Option<Plan>> {
        if Presence::read(&self.state).map_err(Error::new)? == Presence::Absent {
            return Ok(facts.gid.map(|_| Plan::Remove));
        }
        let (Some(wanted), present) = (self.gid, facts.gid) else {
            return Ok(if facts.gid.is_some() { None } else { Some(Plan::Add) });
        };
        if present == Some(wanted) {
            return Ok(None);
        }
        match &facts.holder {
            Some(holder) if holder != name && !self.allowduplicategid => Err(Error::new(format_args!(
                "the number {wanted} belongs to the group {}",
                Str::from(holder.as_str()).display()
            ))
            .with_hint("choose another number, or set `allowduplicategid => true`")),
            _ => Ok(Some(if present.is_some() { Plan::Change } else { Plan::Add })),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(state: &str, gid: Option<u32>) -> Group {
        Group { state: state.into(), gid, ..Group::default() }
    }

    fn plan(group: &Group, gid: Option<u32>, holder: Option<&str>) -> Result<Option<Plan>> {
        group.plan(&Facts { gid, holder: holder.map(str::to_owned) }, "a")
    }

    #[test]
    fn what_differs_decides_which_tool_is_needed() {
        assert_eq!(plan(&group("absent", None), None, None).unwrap(), None);
        assert_eq!(plan(&group("absent", Some(7)), Some(8), None).unwrap(), Some(Plan::Remove));
        assert_eq!(plan(&group("exists", None), None, None).unwrap(), Some(Plan::Add));
        assert_eq!(plan(&group("exists", None), Some(8), None).unwrap(), None);
        assert_eq!(plan(&group("exists", Some(7)), None, None).unwrap(), Some(Plan::Add));
        assert_eq!(plan(&group("exists", Some(7)), Some(8), None).unwrap(), Some(Plan::Change));
        assert_eq!(plan(&group("exists", Some(7)), Some(7), Some("a")).unwrap(), None);
    }

    #[test]
    fn a_number_of_another_group_is_refused_unless_it_may_be_shared() {
        for present in [None, Some(8)] {
            let error = plan(&group("exists", Some(7)), present, Some("b")).unwrap_err();
            assert!(error.to_string().contains("belongs to the group b"), "{error}");
            let shared = Group { allowduplicategid: true, ..group("exists", Some(7)) };
            assert!(plan(&shared, present, Some("b")).unwrap().is_some());
        }
        // Shared already, and the other one is found first.
        assert_eq!(plan(&group("exists", Some(7)), Some(7), Some("b")).unwrap(), None);
    }

    #[test]
    fn bad_parameters_are_refused() {
        let refused = |group: Group, name: &str| Kind::validate(&group, &name.into()).unwrap_err();
        assert!(refused(group("exists", None), "a.b").message.contains("not the name of a group"));
        assert_eq!(refused(group("", None), "a").field, Some("state"));
        assert_eq!(refused(group("exists", Some(u32::MAX)), "a").field, Some("gid"));
    }

    #[test]
    fn a_group_is_known_by_name_and_number() {
        let known = Kind::provides(&group("exists", Some(7)), &"a".into());
        assert_eq!(known, [Identity::Group("a".into()), Identity::GroupNumber(7)]);
    }
}
