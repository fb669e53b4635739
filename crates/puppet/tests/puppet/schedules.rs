//! Schedules: whether a resource may run at a time, held against Puppet's own word for it.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::io::Write as _;
use std::process::{Command, Stdio};

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use mgmt_puppet::{Outcome, TranslateOptions, Translated, translate};
use mgmt_resource::{Meta, Window};
use mgmt_resources::KINDS;
use serde_json::{Value, json};

const ZONE: &str = "Europe/Berlin";

/// Asks Puppet about `[[parameters, last, now], …]`. Answers with a list of truths.
const ASK: &str = r"
require 'json'
require 'puppet'
Puppet.initialize_settings
rows = JSON.parse($stdin.read)
known = Hash.new { |all, parameters| all[parameters] = Puppet::Type.type(:schedule).new(**parameters.transform_keys(&:to_sym)) }
puts JSON.generate(rows.map { |parameters, last, now| known[parameters.merge('name' => 's')].match?(last, Time.at(now)) })
";

fn puppet_says(rows: &Value) -> Vec<bool> {
    let mut ruby = Command::new("ruby");
    let ruby = ruby.args(["-e", ASK]).env("TZ", ZONE).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = ruby.spawn().expect("Puppet's Ruby");
    child.stdin.take().unwrap().write_all(rows.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    serde_json::from_slice(&output.stdout).unwrap()
}

/// What comes of a message with a schedule.
fn translated(parameters: &Value, name: &str) -> Translated {
    let catalogue = json!({
        "name": "host", "version": 1, "environment": "production", "classes": [], "edges": [],
        "resources": [
            { "type": "Schedule", "title": "s", "parameters": parameters, "tags": [] },
            { "type": "Notify", "title": "n", "parameters": { "schedule": name }, "tags": [] },
        ],
    });
    let compiled = serde_json::from_value(json!({ "catalogue": catalogue })).unwrap();
    translate(&compiled, &KINDS, &TranslateOptions::default())
}

/// The metaparameters of that message, and whether it is ours.
fn meta(translated: &Translated) -> (Meta, bool) {
    let graph = translated.graph.as_ref().unwrap_or_else(|| panic!("{:?}", translated.diagnostics));
    let (_, spec) = graph.nodes().find(|(_, spec)| spec.id.kind != "noop").unwrap();
    (Meta::clone(&spec.meta), spec.id.kind == "msg")
}

fn seconds(text: &str) -> i64 {
    format!("{text}[{ZONE}]").parse::<Zoned>().unwrap().timestamp().as_second()
}

fn schedules() -> Vec<Value> {
    let mut all = vec![
        json!({}),
        json!({ "range": "2 - 4" }),
        json!({ "range": "2:30 - 3:15:20" }),
        json!({ "range": ["1-2", "14:00 - 15:30"] }),
        json!({ "range": "22:00 - 04:00" }),
        json!({ "range": "4 - 4" }),
        json!({ "range": "0 - 0:00:01" }),
        json!({ "range": "22 - 4", "weekday": "Saturday" }),
        json!({ "range": "22 - 4", "weekday": ["Sun", "3"] }),
        json!({ "range": "9 - 17", "weekday": [1, "tues", "WED", "Thurs", "friday"] }),
        json!({ "weekday": ["satur", 0] }),
        json!({ "period": "never" }),
        json!({ "period": "never", "range": "2 - 4", "periodmatch": "number" }),
        json!({ "period": "hourly", "repeat": 6 }),
        json!({ "period": "hourly", "repeat": "2" }),
        json!({ "period": "weekly", "repeat": 7 }),
        json!({ "period": "daily", "repeat": 1, "range": "2 - 4" }),
        json!({ "period": "daily", "periodmatch": "number", "range": "22 - 4", "weekday": "Sat" }),
    ];
    for period in ["hourly", "daily", "weekly", "monthly"] {
        all.push(json!({ "period": period }));
        all.push(json!({ "period": period, "periodmatch": "number" }));
    }
    all
}

/// Times around everything that those mention, over two weeks and both nights on which the clock is set.
fn times() -> Vec<i64> {
    let mut times = Vec::new();
    let days =
        ["2026-11-14", "2026-11-15", "2026-11-16", "2026-11-17", "2026-11-21", "2026-11-22", "2026-12-31"];
    let nights = ["2026-03-28", "2026-03-29", "2026-10-24", "2026-10-25"];
    let hours = [
        "00:00:00", "01:59:59", "02:00:00", "02:45:00", "04:00:00", "04:00:01", "14:30:00", "21:59:59",
        "22:00:00", "23:30:00",
    ];
    for day in days.iter().chain(&nights) {
        times.extend(hours.iter().map(|hour| seconds(&format!("{day}T{hour}"))));
    }
    times
}

/// How long ago it was the last time.
const AGO: [i64; 15] = [
    0, 599, 600, 1799, 1800, 3599, 3600, 18_000, 86_399, 86_400, 100_000, 550_000, 604_800, 700_000,
    2_592_000,
];

/// By its calendar, Puppet compares the hour, day, weekday or month alone, as if there were no others of the same number. It asks so often
/// that this makes no difference; who waits for an event may be asked a day, a month or a year later.
fn differs_by_number(parameters: &Value, ago: i64) -> bool {
    let round = match parameters["period"].as_str() {
        Some("hourly") => 22 * 3600,
        Some("daily") => 27 * 86_400,
        Some("weekly") => 6 * 86_400,
        _ => i64::MAX,
    };
    parameters["periodmatch"] == "number" && ago >= round
}

#[test]
fn a_resource_may_run_when_puppet_would_run_it() {
    let zone = TimeZone::get(ZONE).unwrap();
    let mut rows = Vec::new();
    for parameters in schedules() {
        for now in times() {
            rows.extend(AGO.map(|ago| (parameters.clone(), now - ago, now)));
        }
    }
    let theirs = puppet_says(&json!(rows));
    assert_eq!(theirs.len(), rows.len());
    let (mut open, mut other, mut wrong) = (0, 0, Vec::new());
    let mut known: (Value, Option<Window>) = (Value::Null, None);
    for ((parameters, last, now), theirs) in rows.iter().zip(theirs) {
        if known.0 != *parameters {
            let (meta, is_ours) = meta(&translated(parameters, "s"));
            assert!(is_ours, "{parameters}");
            known = (parameters.clone(), Window::parse(&meta.window).unwrap());
        }
        let zoned = Timestamp::from_second(*now).unwrap().to_zoned(zone.clone());
        let ours = known.1.as_ref().is_none_or(|window| window.is_open(Some(*last), &zoned));
        open += usize::from(ours);
        if ours != theirs {
            match ours && differs_by_number(parameters, now - last) {
                true => other += 1,
                false => wrong.push(format!("{parameters} {zoned}, {} s ago: {ours}", now - last)),
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
    assert!(open > 1000 && rows.len() - open > 1000, "{open} of {}", rows.len());
    assert!(other > 0, "what is known to be other is");
}

#[test]
fn schedules_that_puppet_has_by_itself_have_their_meaning() {
    let words = |name: &str| {
        let (meta, is_ours) = meta(&translated(&json!({ "range": "1 - 2", "period": "weekly" }), name));
        assert!(is_ours, "{name}");
        meta.window.iter().map(|word| word.display().to_string()).collect::<Vec<_>>().join(" ")
    };
    let own = ["puppet", "hourly", "daily", "weekly", "monthly", "never", "s"].map(words);
    assert_eq!(own, ["hourly/2", "hourly", "daily", "weekly", "monthly", "never", "1-2 weekly"]);
}

#[test]
fn what_only_puppet_understands_of_a_schedule_is_left_to_it() {
    for (parameters, name, why) in [
        (json!({}), "nowhere", "`schedule` names the schedule `nowhere`, which there is not"),
        (json!({ "range": "1 - 25" }), "s", "is no range of hours"),
        (json!({ "range": "x1 - 2" }), "s", "is no range of hours"),
        (json!({ "period": "hourly", "repeat": 0 }), "s", "whose `repeat` only Puppet understands"),
        (json!({ "period": "hourly", "repeat": 2, "periodmatch": "number" }), "s", "whose `repeat` only"),
        (json!({ "period": "fortnightly" }), "s", "`fortnightly`"),
        (json!({ "weekday": 8 }), "s", "`8`"),
    ] {
        let translated = translated(&parameters, name);
        let (meta, is_ours) = meta(&translated);
        assert!(!is_ours && meta.window.is_empty(), "{parameters}");
        let left = translated.decisions.iter().find_map(|decision| match &decision.outcome {
            Outcome::Puppet(reasons) => Some(reasons[0].to_string()),
            _ => None,
        });
        assert!(left.as_ref().is_some_and(|left| left.contains(why)), "{parameters}: {left:?}");
    }
}

#[test]
fn schedules_do_not_count_where_puppet_is_told_to_ignore_them() {
    let catalogue = json!({
        "name": "host", "version": 1, "environment": "production", "classes": [], "edges": [],
        "resources": [{ "type": "Notify", "title": "n", "parameters": { "schedule": "never" }, "tags": [] }],
    });
    let compiled = serde_json::from_value(json!({ "catalogue": catalogue })).unwrap();
    let options = TranslateOptions { schedules: false, ..TranslateOptions::default() };
    let (meta, is_ours) = meta(&translate(&compiled, &KINDS, &options));
    assert!(is_ours && meta.window.is_empty());
}
