//! `group`: groups of users.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;

use mgmt_resource::{
    Checked, Context, Effect, Error, Identity, Invalid, Kind, Needed, Nothing, Order, Resource, Result, Want,
    Watch,
};
use mgmt_value::Str;

use crate::support::account::local::Accounts;
use crate::support::account::{lookup, lookup_now, user_id};
use crate::support::presence::Presence;
use crate::support::shadow::{self, Managed, Turn};

/// Makes, changes or removes a group of users.
///
/// The name of the resource is the name of the group. Who belongs to it is said by the `user` resources, with their `group`
/// and `groups`, or by `members`. Say it in one of the two places.
///
/// Whenever `/etc/group` changes, whoever changes it, the group is looked at again.
///
/// A group comes before the users that are declared to be in it, and before files and commands that use it. A group that
/// is to be absent comes after the users that are to be absent and were in it. A group comes after its `members`.
///
/// ```mcl
/// group "developers" {
///     state => "exists",
///     gid => 2000,
/// }
/// ```
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
    /// The users who belong to the group besides those whose own group it is. If it is left out, that is left alone. Only this
    /// implementation has it.
    pub members: Option<Vec<Str>>,
    /// Leave others who belong to the group in it: `members` is the least, and not all. Only this implementation has it.
    pub othermembers: bool,
}

impl Kind for Group {
    type State = ();
    type Sends = Nothing;

    fn validate(&self, name: &Str) -> Result<(), Invalid> {
        shadow::check_name("group", name).map_err(Invalid::new)?;
        Presence::read(&self.state)?;
        for member in self.members.iter().flatten() {
            shadow::check_name("user", member).map_err(|why| Invalid::field("members", why))?;
        }
        shadow::check_number("gid", self.gid)
    }

    fn watches(&self, _: &Str) -> Vec<Watch> {
        vec![Watch::Path { path: shadow::GROUP.into(), recursive: false }]
    }

    async fn check_apply(&self, (): &mut (), cx: &mut Context<'_>) -> Result<Checked> {
        self.foresee_members(cx)?;
        let name = cx.id.name.to_text().into_owned();
        if cx.foreseen.is_some()
            && !cx.apply
            && Presence::read(&self.state).is_ok_and(|state| state == Presence::Absent)
        {
            foresee_removal(&name, cx)?;
        }
        shadow::settle(&Named { group: self, name }, cx).await
    }

    fn provides(&self, name: &Str) -> Vec<Identity> {
        let number = self.gid.map(Identity::GroupNumber);
        std::iter::once(Identity::Group(name.clone())).chain(number).collect()
    }

    fn wants(&self, _: &Str) -> Vec<Want> {
        let members = self.members.iter().flatten().cloned().map(Identity::User);
        match Presence::read(&self.state) {
            Ok(Presence::Absent) => Vec::new(),
            _ => vec![Want::Each(Order::Before, members.collect())],
        }
    }

    fn equivalent(&self, _: &Str, other: &Group) -> bool {
        let plain = |group: &Group| {
            let mut group = group.clone();
            if let Some(members) = &mut group.members {
                members.sort_unstable();
                members.dedup();
            }
            group
        };
        self == other || plain(self) == plain(other)
    }
}

/// What has to be done.
#[derive(Clone, Debug, Default, PartialEq)]
struct Plan {
    /// To the group itself.
    step: Option<Step>,
    /// All who are to belong to it, if that is to be changed.
    members: Option<BTreeSet<String>>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    Add,
    Change,
    Remove,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let step = self.step.map(|step| match step {
            Step::Add => "made",
            Step::Change => "given another number",
            Step::Remove => "removed",
        });
        let members = self.members.as_ref().map(|_| "given other members");
        let words: Vec<&str> = step.into_iter().chain(members).collect();
        f.write_str(&words.join(" and "))
    }
}

impl From<Step> for Plan {
    fn from(step: Step) -> Plan {
        Plan { step: Some(step), members: None }
    }
}

/// What is there.
#[derive(Default)]
struct Facts {
    /// The number of the group, if it is there.
    gid: Option<u32>,
    /// The group that has the wanted number.
    holder: Option<String>,
    /// Who belongs to the group.
    members: BTreeSet<String>,
}

struct Named<'a> {
    group: &'a Group,
    name: String,
}

impl Managed for Named<'_> {
    type Plan = Plan;

    async fn plan(&self) -> Result<Option<Plan>> {
        let (name, gid, has_members) = (self.name.clone(), self.group.gid, self.group.members.is_some());
        let facts = lookup(move || {
            let failed = |errno: nix::errno::Errno| {
                Error::new(format_args!("cannot look up the group {name}: {}", errno.desc()))
            };
            let accounts = Accounts::now();
            let holder = match gid {
                Some(gid) => accounts.group_numbered(gid).map_err(failed)?,
                None => None,
            };
            let members = match has_members {
                true => nix::unistd::Group::from_name(&name).map_err(failed)?.map(|group| group.mem),
                false => None,
            };
            let members = members.into_iter().flatten().collect();
            Ok(Facts { gid: accounts.group_named(&name).map_err(failed)?, holder, members })
        });
        self.group.plan(&facts.await?, &self.name)
    }

    fn effects(&self, plan: &Plan) -> Vec<Effect> {
        let name = &self.name;
        let step = plan.step.map(|step| match step {
            Step::Add => Effect::create(name).aspect("group"),
            Step::Change => Effect::change(name).aspect("number of the group"),
            Step::Remove => Effect::remove(name).aspect("group"),
        });
        let step = step.map(|effect| match self.group.gid {
            Some(gid) if plan.step != Some(Step::Remove) => effect.after(gid),
            _ => effect,
        });
        let members = plan
            .members
            .as_ref()
            .map(|members| Effect::change(name).aspect("members of the group").after(joined(members)));
        step.into_iter().chain(members).collect()
    }

    async fn carry_out(&self, plan: &Plan, turn: &mut Turn, cx: &Context<'_>) -> Result<()> {
        if let Some(step) = plan.step {
            let tool = match step {
                Step::Add => "groupadd",
                Step::Change => "groupmod",
                Step::Remove => "groupdel",
            };
            let mut words: Vec<OsString> = Vec::new();
            if let (Some(gid), Step::Add | Step::Change) = (self.group.gid, step) {
                words.extend(self.group.allowduplicategid.then(|| "-o".into()));
                words.extend(["-g".into(), gid.to_string().into()]);
            }
            words.extend((step == Step::Add && self.group.system).then(|| "-r".into()));
            words.push(self.name.clone().into());
            turn.run(tool, &words, cx).await?;
        }
        if let Some(members) = &plan.members {
            let words: [OsString; 3] = ["-M".into(), joined(members).into(), self.name.clone().into()];
            turn.run("gpasswd", &words, cx).await?;
        }
        Ok(())
    }
}

/// As the tools and the files have them.
fn joined(members: &BTreeSet<String>) -> String {
    members.iter().map(String::as_str).collect::<Vec<_>>().join(",")
}

impl Group {
    /// While a plan is made: fails if a member is missing and nothing before would make the user.
    fn foresee_members(&self, cx: &Context<'_>) -> Result<()> {
        let is_wanted = Presence::read(&self.state).is_ok_and(|state| state == Presence::Exists);
        if cx.apply || cx.foreseen.is_none() || !is_wanted {
            return Ok(());
        }
        let group = nix::unistd::Group::from_name(&cx.id.name.to_text()).ok().flatten();
        let present = group.map(|group| group.mem).unwrap_or_default();
        let is_new = |member: &&Str| !present.iter().any(|name| name.as_bytes() == member.as_bytes());
        for member in self.members.iter().flatten().filter(is_new) {
            match user_id(member) {
                Err(error) if !cx.may_come(Needed::User(member)) => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    fn plan(&self, facts: &Facts, name: &str) -> Result<Option<Plan>> {
        if Presence::read(&self.state).map_err(Error::new)? == Presence::Absent {
            return Ok(facts.gid.map(|_| Plan::from(Step::Remove)));
        }
        let plan = Plan { step: self.step(facts, name)?, members: self.other_members(facts) };
        Ok((plan != Plan::default()).then_some(plan))
    }

    fn step(&self, facts: &Facts, name: &str) -> Result<Option<Step>> {
        let (Some(wanted), present) = (self.gid, facts.gid) else {
            return Ok(if facts.gid.is_some() { None } else { Some(Step::Add) });
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
            _ => Ok(Some(if present.is_some() { Step::Change } else { Step::Add })),
        }
    }

    /// All who are to belong to the group, if others do.
    fn other_members(&self, facts: &Facts) -> Option<BTreeSet<String>> {
        let declared = self.members.as_ref()?.iter().map(|member| member.to_text().into_owned());
        let mut wanted: BTreeSet<String> = declared.collect();
        if self.othermembers {
            wanted.extend(facts.members.iter().cloned());
        }
        (wanted != facts.members).then_some(wanted)
    }
}

/// While a plan is made: fails if the group is the primary group of a user, and nothing before would change that.
fn foresee_removal(name: &str, cx: &Context<'_>) -> Result<()> {
    lookup_now(|| {
        let accounts = Accounts::now();
        let gid = accounts.group_named(name).ok().flatten();
        match gid.and_then(|gid| accounts.user_of_primary_group(gid)) {
            Some(user) if !cx.may_come(Needed::Other) => Err(Error::new(format_args!(
                "cannot remove the group {name}: it is the primary group of the user {}",
                user.name
            ))
            .with_hint(shadow::PRIMARY_GROUP_HINT)),
            _ => Ok(()),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(state: &str, gid: Option<u32>) -> Group {
        Group { state: state.into(), gid, ..Group::default() }
    }

    fn plan(group: &Group, gid: Option<u32>, holder: Option<&str>) -> Result<Option<Plan>> {
        group.plan(&Facts { gid, holder: holder.map(str::to_owned), ..Facts::default() }, "a")
    }

    #[test]
    fn what_differs_decides_which_tool_is_needed() {
        assert_eq!(plan(&group("absent", None), None, None).unwrap(), None);
        assert_eq!(plan(&group("absent", Some(7)), Some(8), None).unwrap(), Some(Step::Remove.into()));
        assert_eq!(plan(&group("exists", None), None, None).unwrap(), Some(Step::Add.into()));
        assert_eq!(plan(&group("exists", None), Some(8), None).unwrap(), None);
        assert_eq!(plan(&group("exists", Some(7)), None, None).unwrap(), Some(Step::Add.into()));
        assert_eq!(plan(&group("exists", Some(7)), Some(8), None).unwrap(), Some(Step::Change.into()));
        assert_eq!(plan(&group("exists", Some(7)), Some(7), Some("a")).unwrap(), None);
    }

    #[test]
    fn members_are_all_or_the_least() {
        let set =
            |names: &[&str]| -> BTreeSet<String> { names.iter().map(|name| (*name).to_owned()).collect() };
        let wanted = |declared: &[&str], othermembers: bool, present: &[&str]| {
            let members = Some(declared.iter().map(|name| Str::from(*name)).collect());
            let group = Group { members, othermembers, ..group("exists", None) };
            let facts = Facts { gid: Some(7), members: set(present), ..Facts::default() };
            group.plan(&facts, "a").unwrap().and_then(|plan| plan.members)
        };
        assert_eq!(wanted(&["x"], false, &["x"]), None);
        assert_eq!(wanted(&["x", "y"], false, &["x"]), Some(set(&["x", "y"])));
        assert_eq!(wanted(&["x"], false, &["x", "y"]), Some(set(&["x"])));
        assert_eq!(wanted(&[], false, &["y"]), Some(set(&[])));
        assert_eq!(wanted(&["x"], true, &["x", "y"]), None);
        assert_eq!(wanted(&["x"], true, &["y"]), Some(set(&["x", "y"])));
        // A new one is made, and filled.
        let group = Group { members: Some(vec!["x".into()]), ..group("exists", None) };
        let plan = group.plan(&Facts::default(), "a").unwrap().unwrap();
        assert_eq!((plan.step, plan.to_string().as_str()), (Some(Step::Add), "made and given other members"));
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
        let odd = Group { members: Some(vec!["a,b".into()]), ..group("exists", None) };
        assert_eq!(refused(odd, "a").field, Some("members"));
    }

    #[test]
    fn a_group_is_known_by_name_and_number() {
        let known = Kind::provides(&group("exists", Some(7)), &"a".into());
        assert_eq!(known, [Identity::Group("a".into()), Identity::GroupNumber(7)]);
    }
}
