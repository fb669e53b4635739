//! `user`: accounts of users.
//!
//! [`User`] is the declaration. `facts` finds out what is there, `plan` says what has to happen, from plain facts; here it is
//! had done, and looked at again.
//!
//! Deliberately absent: expiry of accounts and passwords, subordinate numbers, and accounts that are not in `/etc/passwd`:
//! those of a directory service are found, but cannot be changed.

mod facts;
mod plan;

use mgmt_resource::{
    Checked, Context, Effect, Identity, Invalid, Kind, Needed, Nothing, Order, Resource, Result, Want, Watch,
};
use mgmt_sys::ManagedPath;
use mgmt_value::{Secret, Str};

use self::facts::Facts;
use self::plan::Plan;
use crate::support::account::local::Accounts;
use crate::support::account::{self, lookup};
use crate::support::presence::Presence;
use crate::support::shadow::{self, Managed, Turn};

/// Makes, changes or removes the account of a user.
///
/// The name of the resource is the name of the user. What is left out is not managed: an account that is there keeps what it
/// has, and a new one gets what `useradd` gives it on this host. A new account has no password that would let anybody in,
/// unless `password` is set.
///
/// Without `gid` and `group`, the primary group of a new account is the group of its own name. It is made if it is not there.
///
/// Whenever `/etc/passwd`, `/etc/group` or, with `password`, `/etc/shadow` change, whoever changes them, the account is looked
/// at again.
///
/// A user comes after its groups and after the package of its shell, and before files and commands that use it. A user that is
/// to be absent comes before its groups.
///
/// ```mcl
/// user "ada" {
///     state => "exists",
///     groups => ["sudo"],
///     shell => "/bin/bash",
///     homedir => "/home/ada/",
/// }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Resource)]
#[resource(kind = "user", edges, receive)]
pub struct User {
    /// `exists`: the account is to be there. `absent`: it is not to be there. Files of the user stay, unless `removehome` is
    /// set.
    pub state: Str,
    /// The number of the user.
    pub uid: Option<u32>,
    /// The primary group, by its number. Set either this or `group`.
    pub gid: Option<u32>,
    /// The primary group, by its name.
    pub group: Option<Str>,
    /// All other groups that the user is in. An empty list means that there are none. The order does not matter.
    pub groups: Option<Vec<Str>>,
    /// Let the user be in other groups, too: then `groups` are those that it is in at least. Only this implementation has it.
    pub othergroups: bool,
    /// The home directory. It has to end in a slash. The directory itself is made only with `createhome` and moved only with
    /// `movehome`; a `file` resource can do more.
    pub homedir: Option<Str>,
    /// The shell that the user gets at login.
    pub shell: Option<Str>,
    /// The full name of the user, or whatever else is to be in this field of the account.
    pub comment: Option<Str>,
    /// The hash of the password, as `mkpasswd` or the `hash` of a `password` resource give it. `*` or `!`: no password lets
    /// the user in. It appears neither in logs nor in arguments of commands.
    #[field(secret)]
    pub password: Option<Secret<Str>>,
    /// Let the user have a number that another user has, too.
    pub allowduplicateuid: bool,
    /// Make the account with a number from the range for system accounts, if `uid` is left out. This says nothing about an
    /// account that is there already.
    pub system: bool,
    /// Make the home directory together with the account, with the files that new users get.
    pub createhome: bool,
    /// When `homedir` is not where the home directory is, move what is in it.
    pub movehome: bool,
    /// When the account is removed, remove its home directory and its mail, too. A home directory that is a symbolic link, or
    /// belongs to somebody else, stays, with a warning.
    pub removehome: bool,
}

impl Kind for User {
    type State = ();
    type Sends = Nothing;

    fn validate(&self, name: &Str) -> Result<(), Invalid> {
        shadow::check_name("user", name).map_err(Invalid::new)?;
        Presence::read(&self.state)?;
        shadow::check_number("uid", self.uid)?;
        shadow::check_number("gid", self.gid)?;
        self.validate_groups(name)?;
        if let Some(home) = &self.homedir {
            validate_path("homedir", home)?;
            if !home.ends_with(b"/") {
                return Err(Invalid::field("homedir", format!("{home:?} does not end in a slash"))
                    .with_hint("a directory is written with a slash at its end"));
            }
        }
        if let Some(shell) = &self.shell {
            validate_path("shell", shell)?;
            if shell.ends_with(b"/") {
                return Err(Invalid::field(
                    "shell",
                    format!("{shell:?} ends in a slash, which means a directory"),
                ));
            }
        }
        if let Some(comment) = &self.comment
            && has_delimiters(comment)
        {
            return Err(Invalid::field(
                "comment",
                "has a colon or a control character, which cannot be stored",
            ));
        }
        self.password.as_ref().map_or(Ok(()), |password| validate_hash(password.reveal()))
    }

    fn watches(&self, _: &Str) -> Vec<Watch> {
        let files =
            [Some(shadow::PASSWD), Some(shadow::GROUP), self.password.as_ref().map(|_| shadow::hash::SHADOW)];
        let watch = |path: &str| Watch::Path { path: path.into(), recursive: false };
        files.into_iter().flatten().map(watch).collect()
    }

    fn claimed_paths(&self, name: &Str) -> Vec<Str> {
        let is_made = self.createhome || self.movehome;
        let home = self.homedir.clone().or_else(|| is_made.then(|| home_of(name)));
        home.filter(|home| home.starts_with(b"/") && home.len() > 1).into_iter().collect()
    }

    async fn check_apply(&self, (): &mut (), cx: &mut Context<'_>) -> Result<Checked> {
        let name = cx.id.name.to_text().into_owned();
        let checked = shadow::settle(&Named { user: self, name }, cx).await?;
        if checked == Checked::Changed && self.state.as_bytes() != b"absent" {
            account::lookup_now(|| self.foresee_groups(cx))?;
        }
        Ok(checked)
    }

    fn provides(&self, name: &Str) -> Vec<Identity> {
        let number = self.uid.map(Identity::UserNumber);
        std::iter::once(Identity::User(name.clone())).chain(number).collect()
    }

    fn wants(&self, name: &Str) -> Vec<Want> {
        let mut groups: Vec<Identity> = self.gid.into_iter().map(Identity::GroupNumber).collect();
        groups.extend(self.group.iter().chain(self.groups.iter().flatten()).cloned().map(Identity::Group));
        if self.gid.is_none() && self.group.is_none() {
            groups.push(Identity::Group(name.clone()));
        }
        match Presence::read(&self.state) {
            Ok(Presence::Absent) => vec![Want::Each(Order::After, groups)],
            _ => {
                let shell = self.shell.iter();
                let shell = shell
                    .flat_map(|shell| [Identity::Path(shell.clone()), Identity::PackageFile(shell.clone())]);
                vec![Want::Each(Order::Before, groups), Want::Each(Order::Before, shell.collect())]
            }
        }
    }

    fn equivalent(&self, _: &Str, other: &User) -> bool {
        let plain = |user: &User| {
            let mut user = user.clone();
            if let Some(groups) = &mut user.groups {
                groups.sort_unstable_by(|a, b| a.as_bytes().cmp(b.as_bytes()));
            }
            user.homedir = user.homedir.map(|home| Str::from(mgmt_sys::path::clean(&home)));
            user
        };
        self == other || plain(self) == plain(other)
    }
}

impl User {
    /// While a plan is made: fails if a group of the user is missing and nothing before would make it.
    fn foresee_groups(&self, cx: &Context<'_>) -> Result<()> {
        if cx.apply || cx.foreseen.is_none() {
            return Ok(());
        }
        for group in self.group.iter().chain(self.groups.iter().flatten()) {
            match account::group_id(group) {
                Err(error) if !cx.may_come(Needed::Group(group)) => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

impl User {
    fn validate_groups(&self, name: &Str) -> Result<(), Invalid> {
        if let Some(group) = &self.group {
            shadow::check_name("group", group).map_err(|why| Invalid::field("group", why))?;
            if self.gid.is_some() {
                return Err(Invalid::field("group", "is set, and `gid` too")
                    .with_hint("both say what the primary group is: leave one of them out"));
            }
        }
        let groups = self.groups.as_deref().unwrap_or_default();
        for (position, group) in groups.iter().enumerate() {
            shadow::check_name("group", group).map_err(|why| Invalid::field("groups", why))?;
            let wrong = if Some(group) == self.group.as_ref() {
                "it is the primary group"
            } else if group == name {
                "it has the name of the user, and is the primary group"
            } else if groups[..position].contains(group) {
                "it is there twice"
            } else {
                continue;
            };
            return Err(Invalid::field("groups", format!("{group:?} does not belong there: {wrong}")));
        }
        Ok(())
    }
}

/// The home directory that an account has, or is made with.
fn home_of(name: &Str) -> Str {
    let accounts = Accounts::now();
    match accounts.local_user_named(&name.to_text()) {
        Some(user) => Str::from(user.dir.as_os_str().as_encoded_bytes()),
        None => Str::from([b"/home/", name.as_bytes()].concat()),
    }
}

/// The status of `userdel` when the account is gone and its home directory is not.
const HOME_NOT_REMOVED: i32 = 12;

struct Named<'a> {
    user: &'a User,
    name: String,
}

impl Managed for Named<'_> {
    type Plan = Plan;

    async fn plan(&self) -> Result<Option<Plan>> {
        let (user, name) = (self.user.clone(), self.name.clone());
        let facts = lookup(move || Facts::find(&user, &name)).await?;
        plan::plan(self.user, &facts, &self.name)
    }

    fn effects(&self, plan: &Plan) -> Vec<Effect> {
        plan.effects(self.user, &self.name)
    }

    async fn carry_out(&self, plan: &Plan, turn: &mut Turn, cx: &Context<'_>) -> Result<()> {
        if let Some((tool, words)) = &plan.tool {
            if let Some(home) = &plan.kept_home {
                cx.warn(format_args!("the home directory {} is a symbolic link, and stays", home.display()));
            }
            if let Some(complaint) = turn.run_up_to(tool, words, HOME_NOT_REMOVED, cx).await? {
                cx.warn(format_args!("the account is removed, but not its home directory: {complaint}"));
            }
        }
        if let (true, Some(hash)) = (plan.hash, &self.user.password) {
            let (user, hash): (_, Secret<Str>) = (self.name.clone(), hash.clone());
            let (cancel, durability) = (cx.cancel.clone(), cx.host.durability);
            lookup(move || shadow::hash::write(&user, hash.reveal(), &cancel, durability)).await?;
            turn.changed();
        }
        Ok(())
    }
}

fn validate_path(field: &'static str, path: &Str) -> Result<(), Invalid> {
    ManagedPath::new(path).map_err(|error| Invalid::field(field, error.to_string()))?;
    match has_delimiters(path) {
        true => Err(Invalid::field(field, "has a colon or a control character, which cannot be stored")),
        false => Ok(()),
    }
}

/// What separates the parts of the files of accounts.
fn has_delimiters(text: &[u8]) -> bool {
    text.iter().any(|byte| *byte == b':' || byte.is_ascii_control())
}

/// Whether it can be a hash. What it is must not be said.
fn validate_hash(hash: &Str) -> Result<(), Invalid> {
    let wrong = |message: &str| {
        Err(Invalid::field("password", message)
            .with_hint("`mkpasswd` makes a hash of a password; so does the `hash` of a `password` resource"))
    };
    let locked = hash.iter().position(|byte| *byte != b'!').unwrap_or(hash.len());
    let rest = &hash[locked..];
    let plain = |byte: &u8| byte.is_ascii_graphic() && *byte != b':';
    match rest {
        b"" if locked == 0 => wrong("is empty, which would let everybody in; expected a hash, `*` or `!`"),
        b"" | b"*" => Ok(()),
        [b'$', rest @ ..] if rest.contains(&b'$') && rest.iter().all(plain) => Ok(()),
        _ => wrong("is no hash; expected something like `$y$…`, `$6$…`, `*` or `!`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user() -> User {
        User { state: "exists".into(), ..User::default() }
    }

    fn refused(user: &User) -> Invalid {
        Kind::validate(user, &"joe".into()).unwrap_err()
    }

    fn list(names: &[&str]) -> Option<Vec<Str>> {
        Some(names.iter().map(|name| Str::from(*name)).collect())
    }

    #[test]
    fn a_home_that_is_made_is_claimed_also_if_it_is_not_named() {
        let claimed = |user: User, name: &str| Kind::claimed_paths(&user, &name.into());
        let making = User { createhome: true, ..User::default() };
        assert_eq!(claimed(User { homedir: Some("/srv/a/".into()), ..making.clone() }, "a"), ["/srv/a/"]);
        assert_eq!(claimed(making.clone(), "nobody-of-that-name"), ["/home/nobody-of-that-name"]);
        assert_eq!(claimed(making, "root"), ["/root"]);
        assert!(claimed(User::default(), "root").is_empty());
    }

    #[test]
    fn bad_parameters_are_refused_with_their_name() {
        assert!(
            Kind::validate(&user(), &"joe doe".into())
                .unwrap_err()
                .message
                .contains("not the name of a user")
        );
        assert_eq!(refused(&User { state: Str::EMPTY, ..user() }).field, Some("state"));
        assert_eq!(refused(&User { state: "present".into(), ..user() }).field, Some("state"));
        assert_eq!(refused(&User { uid: Some(u32::MAX), ..user() }).field, Some("uid"));
        let both = User { gid: Some(7), group: Some("staff".into()), ..user() };
        assert!(refused(&both).hint.unwrap().contains("leave one of them out"));
        assert_eq!(refused(&User { group: Some(Str::EMPTY), ..user() }).field, Some("group"));
        for wrong in [&["a b"][..], &[""], &["staff"], &["joe"], &["audio", "audio"]] {
            let user = User { group: Some("staff".into()), groups: list(wrong), ..user() };
            assert_eq!(refused(&user).field, Some("groups"), "{wrong:?}");
        }
        for wrong in ["", "/home/joe", "home/joe/", "/home/a:b/", "/home/a\nb/"] {
            assert_eq!(
                refused(&User { homedir: Some(wrong.into()), ..user() }).field,
                Some("homedir"),
                "{wrong:?}"
            );
        }
        for wrong in ["", "sh", "/bin/", "/bin/a:b"] {
            assert_eq!(
                refused(&User { shell: Some(wrong.into()), ..user() }).field,
                Some("shell"),
                "{wrong:?}"
            );
        }
        assert_eq!(refused(&User { comment: Some("a:b".into()), ..user() }).field, Some("comment"));
    }

    #[test]
    fn what_is_no_hash_is_refused_and_never_shown() {
        for fine in ["*", "!", "!!", "!*", "$6$salt$hash", "!$6$salt$hash", "$y$j9T$ab./$cd"] {
            let user = User { password: Some(fine.into()), ..user() };
            assert!(Kind::validate(&user, &"joe".into()).is_ok(), "{fine}");
        }
        for wrong in ["", "hunter2", "$", "$hunter2", "$6$a:b$c", "$6$a$b\nc", "x*"] {
            let user = User { password: Some(wrong.into()), ..user() };
            let refused = refused(&user);
            assert_eq!(refused.field, Some("password"), "{wrong:?}");
            assert!(!format!("{refused:?}{user:?}").contains("hunter2"), "{refused:?}");
        }
    }

    #[test]
    fn the_order_of_groups_does_not_matter_but_none_is_not_the_same_as_any() {
        let with = |groups: Option<Vec<Str>>| User { groups, ..user() };
        let same = |a: &User, b: &User| a.equivalent(&"joe".into(), b);
        assert!(same(&with(list(&["a", "b"])), &with(list(&["b", "a"]))));
        assert!(!same(&with(list(&["a"])), &with(list(&["b"]))));
        assert!(!same(&with(list(&[])), &with(None)));
        let home = |home: &str| User { homedir: Some(home.into()), ..user() };
        assert!(same(&home("/home/joe/"), &home("/home//./joe/")));
    }

    #[test]
    fn a_user_comes_after_its_groups_and_before_them_when_it_is_to_go() {
        let declared =
            User { gid: Some(7), groups: list(&["audio"]), shell: Some("/bin/zsh".into()), ..user() };
        let groups = vec![Identity::GroupNumber(7), Identity::Group("audio".into())];
        let shell = vec![Identity::Path("/bin/zsh".into()), Identity::PackageFile("/bin/zsh".into())];
        assert_eq!(
            Kind::wants(&declared, &"joe".into()),
            [Want::Each(Order::Before, groups.clone()), Want::Each(Order::Before, shell)]
        );
        let absent = User { state: "absent".into(), ..declared };
        assert_eq!(Kind::wants(&absent, &"joe".into()), [Want::Each(Order::After, groups)]);
        assert_eq!(
            Kind::wants(&User { state: "absent".into(), ..User::default() }, &"joe".into()),
            [Want::Each(Order::After, vec![Identity::Group("joe".into())])],
            "the group of its own name"
        );
        let known = Kind::provides(&User { uid: Some(7), ..user() }, &"joe".into());
        assert_eq!(known, [Identity::User("joe".into()), Identity::UserNumber(7)]);
    }
}
