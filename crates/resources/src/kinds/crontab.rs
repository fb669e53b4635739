//! `crontab`: jobs in the tables of cron.
//!
//! [`Crontab`] is the declaration. `table` finds, puts and removes a job in a text; it knows nothing of files.
//!
//! Deliberately absent: jobs of systemd, which are the kind `cron`; and the tables of the system in `/etc/cron.d`, which are files
//! that belong to whoever writes them.

mod table;

use mgmt_resource::{
    Checked, Context, Error, Identity, Invalid, Kind, Needed, Nothing, Order, Resource, Result, Want, Watch,
};
use mgmt_sys::ManagedPath;
use mgmt_sys::replace::InPlace;
use mgmt_value::Str;

use self::table::Job;
use crate::support::account;
use crate::support::presence::Presence;
use crate::support::text_file::TextFile;

/// Where the tables of users are.
const SPOOL: &str = "/var/spool/cron/crontabs";
/// Who the tables belong to besides, so that `crontab` can read them.
const GROUP: &str = "crontab";
const MODE: u32 = 0o600;
const USUAL_MARK: &str = "mgmt";

/// Keeps a job in the table of a user that cron reads, or keeps it out of it.
///
/// A job is known by a comment above it, which has the name of the resource: `# mgmt: NAME`. Lines for the environment
/// between that comment and the job belong to it. A job that differs is changed where it is, and a missing one is added at
/// the end; a line that is the same already, and that nobody has a name for, gets the comment. All other lines are left
/// alone.
///
/// The table is replaced in one step, which cron notices within a minute. Whenever it changes, it is looked at again.
///
/// Only this implementation has this kind.
///
/// ```mcl
/// crontab "nightly report" {
///     state => "exists",
///     user => "www-data",
///     command => "/usr/local/bin/report --mail",
///     minute => "30",
///     hour => "4",
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Resource)]
#[resource(kind = "crontab", edges, receive, blocking)]
pub struct Crontab {
    /// `exists`: the job is to be there. `absent`: it is not to be there.
    pub state: Str,
    /// Whose table it is in, by name. Unset, it is that of `root`.
    pub user: Str,
    /// The command. A `%` in it means a newline to cron, unless there is a backslash before it.
    pub command: Str,
    /// When: `hourly`, `daily`, `weekly`, `monthly`, `yearly` or `reboot`, instead of the other five.
    pub special: Str,
    /// Minutes of the hour, as cron has them: `0`, `*/15`, `5,35`.
    pub minute: Str,
    /// Hours of the day.
    pub hour: Str,
    /// Days of the month.
    pub monthday: Str,
    /// Months.
    pub month: Str,
    /// Days of the week, from 0, which is Sunday, or by name.
    pub weekday: Str,
    /// Variables for this job, each `NAME=VALUE`. Cron has them for all jobs below, too.
    pub environment: Vec<Str>,
    /// What stands before the name in the comment.
    pub mark: Str,
    /// The table, if it is another file.
    pub file: Str,
}

impl Default for Crontab {
    fn default() -> Crontab {
        let any = Str::from("*");
        Crontab {
            state: Str::EMPTY,
            user: Str::EMPTY,
            command: Str::EMPTY,
            special: Str::EMPTY,
            minute: any.clone(),
            hour: any.clone(),
            monthday: any.clone(),
            month: any.clone(),
            weekday: any,
            environment: Vec::new(),
            mark: USUAL_MARK.into(),
            file: Str::EMPTY,
        }
    }
}

/// The least and the greatest number of each field, and names that stand for numbers.
type FieldBounds = (u32, u32, &'static [&'static str]);

const FIELD_BOUNDS: [FieldBounds; 5] = [
    (0, 59, &[]),
    (0, 23, &[]),
    (1, 31, &[]),
    (1, 12, &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]),
    (0, 7, &["sun", "mon", "tue", "wed", "thu", "fri", "sat"]),
];

/// The first item of a field that cron does not take.
fn wrong_item(text: &Str, (least, most, names): FieldBounds) -> Option<String> {
    let text = text.to_text();
    let is_value = |value: &str| match value.parse::<u32>() {
        Ok(number) => (least..=most).contains(&number) && value.bytes().all(|byte| byte.is_ascii_digit()),
        Err(_) => value.get(..3).is_some_and(|start| names.contains(&start.to_ascii_lowercase().as_str())),
    };
    let is_right = |item: &&str| {
        // Some crons choose at random between two values.
        let (range, step) = item.split_once('/').map_or((*item, None), |(range, step)| (range, Some(step)));
        let is_step = step.is_none_or(|step| step.parse::<u32>().is_ok_and(|step| step > 0));
        let is_range = match range.split_once(['-', '~']) {
            Some((from, to)) => {
                [from, to].iter().all(|end| is_value(end) || (end.is_empty() && range.contains('~')))
            }
            None => range == "*" || is_value(range),
        };
        is_step && is_range
    };
    text.split(',').find(|item| !is_right(item)).map(str::to_owned)
}

impl Kind for Crontab {
    type State = ();
    type Sends = Nothing;

    fn validate(&self, name: &Str) -> Result<(), Invalid> {
        let presence = Presence::read(&self.state)?;
        self.path()?;
        let fields = self.fields();
        let texts = fields.iter().map(|(field, text)| (*field, *text));
        let all = texts.chain([("command", &self.command), ("special", &self.special), ("mark", &self.mark)]);
        let all = all.chain(self.environment.iter().map(|text| ("environment", text)));
        for (field, text) in all {
            if text.iter().any(|byte| byte.is_ascii_control() && *byte != b'\t') {
                return Err(Invalid::field(field, format!("{text:?} has a control character")));
            }
        }
        if self.mark.is_empty() {
            return Err(Invalid::field("mark", "is empty; the job is known by it"));
        }
        if name.iter().any(u8::is_ascii_control) || name.is_empty() {
            return Err(Invalid::new("the job is known by its name, which has to be plain text"));
        }
        if presence == Presence::Absent {
            return Ok(());
        }
        if self.command.trim_ascii().is_empty() {
            return Err(Invalid::field("command", "is missing"));
        }
        for (field, text) in fields {
            if text.is_empty() || text.iter().any(u8::is_ascii_whitespace) {
                return Err(Invalid::field(
                    field,
                    format!("expected `*`, a number, a range or a list, found {text:?}"),
                ));
            }
        }
        for ((field, text), bounds) in fields.into_iter().zip(FIELD_BOUNDS) {
            if let Some(wrong) = wrong_item(text, bounds) {
                let (least, most, _) = bounds;
                let expected = format!("expected numbers from {least} to {most}, found {wrong:?}");
                return Err(Invalid::field(field, expected));
            }
        }
        if self.special.iter().any(|byte| !byte.is_ascii_lowercase()) {
            return Err(Invalid::field(
                "special",
                format!("expected a word such as `daily`, found {:?}", self.special),
            ));
        }
        match self.environment.iter().find(|line| !table::is_variable(line)) {
            Some(line) => {
                Err(Invalid::field("environment", format!("expected `NAME=VALUE`, found {line:?}")))
            }
            None => Ok(()),
        }
    }

    fn watches(&self, _: &Str) -> Vec<Watch> {
        let path = self.path().ok();
        path.map(|path| Watch::Path { path: path.as_bytes().into(), recursive: false }).into_iter().collect()
    }

    async fn check_apply(&self, (): &mut (), cx: &mut Context<'_>) -> Result<Checked> {
        let presence = Presence::read(&self.state).map_err(Error::new)?;
        let job = self.job(&cx.id.name);
        let file = self.text_file(cx)?;
        let checked = file.edit(cx, |text| match presence {
            Presence::Exists => job.put_into(text.unwrap_or_default()),
            Presence::Absent => job.removed_from(text.unwrap_or_default()),
        })?;
        if checked == Checked::Changed && cx.apply {
            cx.info(if presence == Presence::Exists {
                "put into the table"
            } else {
                "removed from the table"
            });
        }
        Ok(checked)
    }

    fn wants(&self, _: &Str) -> Vec<Want> {
        let Ok(path) = self.path() else { return Vec::new() };
        let path = Str::from(path.as_bytes());
        let before = vec![Identity::Path(path.clone()), account::user_identity(&self.user_name())];
        vec![Want::Each(Order::Before, before), Want::ParentOf(path)]
    }
}

impl Crontab {
    fn user_name(&self) -> Str {
        if self.user.is_empty() { "root".into() } else { self.user.clone() }
    }

    fn fields(&self) -> [(&'static str, &Str); 5] {
        [
            ("minute", &self.minute),
            ("hour", &self.hour),
            ("monthday", &self.monthday),
            ("month", &self.month),
            ("weekday", &self.weekday),
        ]
    }

    fn path(&self) -> Result<ManagedPath, Invalid> {
        if !self.file.is_empty() {
            return ManagedPath::new(&self.file).map_err(|error| Invalid::field("file", error.to_string()));
        }
        let user = self.user_name();
        if user.contains(&b'/') || user.starts_with(b".") {
            return Err(Invalid::field("user", format!("{user:?} is not the name of a user")));
        }
        let path = [SPOOL.as_bytes(), b"/", &user].concat();
        ManagedPath::new(path).map_err(|error| Invalid::field("user", error.to_string()))
    }

    fn job(&self, name: &Str) -> Job {
        let when = match self.special.is_empty() {
            false => [b"@", self.special.as_bytes()].concat(),
            true => self.fields().map(|(_, text)| text.as_bytes()).join(&b' '),
        };
        Job {
            comment: [b"# ", self.mark.as_bytes(), b": ", name].concat(),
            environment: self.environment.iter().map(|line| line.to_vec()).collect(),
            line: [&when, &b" "[..], self.command.trim_ascii()].concat(),
        }
    }

    /// A new table belongs to its user, or cron would not read it.
    fn text_file(&self, cx: &Context<'_>) -> Result<TextFile> {
        let path = self.path().map_err(Error::new)?;
        let owner = match account::user_id(&self.user_name()) {
            Ok(user) => {
                let group = account::group_id(&GROUP.into());
                Some((user, group.unwrap_or(0)))
            }
            // Another resource may be about to make the user.
            Err(_) if self.state.as_bytes() == b"absent" => None,
            Err(_) if cx.may_come(Needed::User(&self.user_name())) => None,
            Err(error) => return Err(error),
        };
        Ok(TextFile { path, owner, mode: MODE, in_place: InPlace::Allow })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_job_is_refused() {
        let job = || Crontab { state: "exists".into(), command: "true".into(), ..Crontab::default() };
        let refused = |crontab: Crontab| Kind::validate(&crontab, &"a".into()).unwrap_err().field;
        assert_eq!(Kind::validate(&job(), &"a".into()), Ok(()));
        for (wrong, field) in [
            (Crontab { command: " ".into(), ..job() }, "command"),
            (Crontab { command: "a\nb".into(), ..job() }, "command"),
            (Crontab { minute: "1 2".into(), ..job() }, "minute"),
            (Crontab { hour: Str::EMPTY, ..job() }, "hour"),
            (Crontab { special: "@daily".into(), ..job() }, "special"),
            (Crontab { environment: vec!["x".into()], ..job() }, "environment"),
            (Crontab { user: "../x".into(), ..job() }, "user"),
            (Crontab { state: "present".into(), ..job() }, "state"),
        ] {
            assert_eq!(refused(wrong), Some(field));
        }
    }

    #[test]
    fn fields_take_what_cron_takes() {
        let wrong = |field: usize, text: &str| wrong_item(&text.into(), FIELD_BOUNDS[field]);
        for (field, right) in [
            (0, "*"),
            (0, "0"),
            (0, "59"),
            (0, "*/15"),
            (0, "5,35"),
            (0, "1-5/2,40"),
            (0, "0~59"),
            (1, "23"),
            (2, "31"),
            (3, "12"),
            (3, "Jan-mar"),
            (4, "7"),
            (4, "mon,FRI"),
            (4, "sunday"),
        ] {
            assert_eq!(wrong(field, right), None, "{field}: {right}");
        }
        for (field, text) in [
            (0, "99"),
            (0, "60"),
            (0, "-1"),
            (0, "+1"),
            (0, "5,99"),
            (0, "*/0"),
            (0, "1-60"),
            (0, "mon"),
            (0, "a"),
            (0, ""),
            (0, "1,"),
            (1, "24"),
            (2, "0"),
            (2, "32"),
            (3, "0"),
            (3, "13"),
            (3, "mon"),
            (4, "8"),
            (4, "jan"),
        ] {
            assert!(wrong(field, text).is_some(), "{field}: {text}");
        }
        let job = Crontab {
            state: "exists".into(),
            command: "x".into(),
            minute: "99".into(),
            ..Crontab::default()
        };
        let invalid = Kind::validate(&job, &"x".into()).unwrap_err();
        assert!(invalid.to_string().contains("from 0 to 59"), "{invalid}");
    }
}
