//! The unit file of a timer.

use std::fmt::Write;

use mgmt_resource::Invalid;
use mgmt_value::Str;

use super::Cron;

/// Checks a text that becomes part of a line.
pub(super) fn check_text(field: &'static str, text: &Str) -> Result<(), Invalid> {
    let plain = text.as_str().is_some_and(|text| !text.chars().any(char::is_control));
    match plain {
        false => Err(Invalid::field(field, "expected one line of plain text")),
        // The next line would be part of this one.
        true if text.ends_with(b"\\") => Err(Invalid::field(field, "ends in a backslash")),
        true => Ok(()),
    }
}

/// What the file is to be.
pub(super) fn content(cron: &Cron, name: &Str, unit: &str) -> Vec<u8> {
    let mut text = String::new();
    let description = match &cron.description {
        Some(description) => description.to_text().into_owned(),
        None => format!("{} (a timer that is kept by mgmt)", name.to_text()),
    };
    let mut line = |name: &str, value: &str| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{name}={value}");
    };
    if !description.is_empty() {
        // A percent sign would be taken for something that systemd is to fill in.
        line("[Unit]\nDescription", &description.replace('%', "%%"));
    }
    let before = if description.is_empty() { "" } else { "\n" };
    line(&format!("{before}[Timer]\n{}", cron.trigger.to_text()), &cron.time.to_text());
    for (name, value) in
        [("AccuracySec", &cron.accuracysec), ("RandomizedDelaySec", &cron.randomizeddelaysec)]
    {
        if !value.is_empty() {
            line(name, &value.to_text());
        }
    }
    line("Unit", unit);
    for (name, wanted, value) in [
        ("Persistent", cron.persistent, "true"),
        ("WakeSystem", cron.wakesystem, "true"),
        ("RemainAfterElapse", !cron.remainafterelapse, "false"),
    ] {
        if wanted {
            line(name, value);
        }
    }
    line("\n[Install]\nWantedBy", "timers.target");
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(cron: &Cron) -> String {
        String::from_utf8(content(cron, &"backup".into(), "backup.service")).unwrap()
    }

    #[test]
    fn a_unit_file_has_what_is_declared_and_nothing_else() {
        let cron = Cron { trigger: "OnCalendar".into(), time: "daily".into(), ..Cron::default() };
        assert_eq!(
            written(&cron),
            "[Unit]\nDescription=backup (a timer that is kept by mgmt)\n\n[Timer]\nOnCalendar=daily\nUnit=backup.service\n\n\
             [Install]\nWantedBy=timers.target\n"
        );
        let all = Cron {
            accuracysec: "1s".into(),
            randomizeddelaysec: "5min".into(),
            persistent: true,
            wakesystem: true,
            remainafterelapse: false,
            description: Some("100 %".into()),
            ..cron.clone()
        };
        assert_eq!(
            written(&all),
            "[Unit]\nDescription=100 %%\n\n[Timer]\nOnCalendar=daily\nAccuracySec=1s\nRandomizedDelaySec=5min\n\
             Unit=backup.service\nPersistent=true\nWakeSystem=true\nRemainAfterElapse=false\n\n[Install]\nWantedBy=timers.target\n"
        );
        assert!(written(&Cron { description: Some(Str::EMPTY), ..cron }).starts_with("[Timer]\n"));
    }
}
