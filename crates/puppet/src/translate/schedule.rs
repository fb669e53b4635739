//! Schedules: from the metaparameter `schedule` to the window of a resource.

use mgmt_resource::Window;
use mgmt_value::Str;

use crate::catalogue::{Catalogue, Declared};
use crate::data::Data;

/// The schedules that Puppet has by itself, and the word for each.
const OWN: [(&str, &str); 6] = [
    ("puppet", "hourly/2"),
    ("hourly", "hourly"),
    ("daily", "daily"),
    ("weekly", "weekly"),
    ("monthly", "monthly"),
    ("never", "never"),
];

/// What Puppet calls the days besides their names, their first three letters and numbers from Sunday.
const SHORTER: [(&str, &str); 4] = [("tues", "tue"), ("wednes", "wed"), ("thurs", "thu"), ("satur", "sat")];

const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// When a resource may run, by its schedule: the words of a window. `Err`: why only Puppet knows.
pub(super) fn window(declared: &Declared, catalogue: &Catalogue) -> Result<Vec<Str>, String> {
    let Some(value) = declared.get("schedule").filter(|value| **value != Data::Undef) else {
        return Ok(Vec::new());
    };
    let name = value.text().ok_or("is not a text")?;
    let words = match (catalogue.named("Schedule", &name), OWN.iter().find(|(own, _)| *own == name)) {
        (Some(at), _) => words(&catalogue.resources[at])?,
        (None, Some((_, word))) => vec![(*word).to_owned()],
        (None, None) => return Err(format!("names the schedule `{name}`, which there is not")),
    };
    let words: Vec<Str> = words.into_iter().map(Str::from).collect();
    Window::parse(&words).map_err(|invalid| format!("names the schedule `{name}`: {}", invalid.message))?;
    Ok(words)
}

fn words(schedule: &Declared) -> Result<Vec<String>, String> {
    let given = |name: &str| schedule.get(name).filter(|value| **value != Data::Undef);
    let wrong = |name: &str| format!("names a schedule whose `{name}` only Puppet understands");
    let mut words = Vec::new();
    if let Some(ranges) = given("range") {
        for range in ranges.texts().ok_or_else(|| wrong("range"))? {
            words.push(range.split('-').map(str::trim).collect::<Vec<_>>().join("-"));
        }
    }
    if let Some(days) = given("weekday") {
        for day in days.texts().ok_or_else(|| wrong("weekday"))? {
            words.push(weekday(&day));
        }
    }
    let Some(period) = given("period") else { return Ok(words) };
    let period = period.text().ok_or_else(|| wrong("period"))?;
    let repeat = match given("repeat") {
        Some(repeat) => repeat.integer().filter(|times| *times > 0).ok_or_else(|| wrong("repeat"))?,
        None => 1,
    };
    let by_number = match given("periodmatch").and_then(Data::text).as_deref() {
        None | Some("distance") => false,
        Some("number") => true,
        Some(_) => return Err(wrong("periodmatch")),
    };
    if by_number && repeat != 1 {
        return Err(wrong("repeat"));
    }
    let counts = period != "never";
    words.push(if repeat > 1 && counts { format!("{period}/{repeat}") } else { period });
    if by_number && counts {
        words.push("calendar".to_owned());
    }
    Ok(words)
}

/// The name of a day. Whether it is one at all is for the window to say.
fn weekday(day: &str) -> String {
    let day = day.to_ascii_lowercase();
    let number = day.parse::<usize>().ok().and_then(|number| WEEKDAYS.get(number)).copied();
    let known = SHORTER.iter().find(|(longer, _)| *longer == day).map(|(_, short)| *short);
    number.or(known).unwrap_or(&day).to_owned()
}
