//! The units that come with the program. Their text is in `contrib/systemd`, and here it is made to fit a host.

use crate::failure::Failure;

/// The unit of the service, as packages have it.
pub(crate) const SERVICE: &str = include_str!("../../../../../contrib/systemd/mgmt.service");
/// The unit for the first boot, as packages have it.
pub(crate) const FIRSTBOOT: &str = include_str!("../../../../../contrib/systemd/mgmt-firstboot.service");

/// The first systemd that tells a service itself to read its configuration again.
const TELLS_ITSELF: u32 = 253;

/// A unit with another command, for a systemd of this version if it is known.
pub(super) fn render(unit: &str, command: &str, systemd: Option<u32>) -> String {
    let is_for_this = |line: &&str| match systemd {
        None => true,
        Some(_) if line.contains("systemd before 253") || line.starts_with("# read again once") => false,
        // It says so with the usual signal.
        Some(_) if line.starts_with("ReloadSignal=") => false,
        Some(version) if version >= TELLS_ITSELF => {
            *line != "Type=notify" && !line.starts_with("ExecReload=")
        }
        Some(_) => *line != "Type=notify-reload",
    };
    let fitted = unit.lines().filter(is_for_this).map(|line| match line.strip_prefix("ExecStart=") {
        Some(_) => format!("ExecStart={command}\n"),
        None => format!("{line}\n"),
    });
    fitted.collect()
}

/// A word of a command in a unit, so that it arrives as it is.
pub(super) fn word(text: &str) -> Result<String, Failure> {
    quoted(text, true)
}

/// The program of a command, in which no variables are replaced.
pub(super) fn program(text: &str) -> Result<String, Failure> {
    quoted(text, false)
}

/// A path that is a whole setting, which has no quotes.
pub(super) fn path(text: &str) -> Result<String, Failure> {
    one_line(text)?;
    Ok(text.replace('%', "%%"))
}

fn one_line(text: &str) -> Result<(), Failure> {
    match text.chars().find(|letter| letter.is_control()) {
        None => Ok(()),
        Some(control) => Err(Failure::usage(format!(
            "`{}` cannot stand in a unit: it contains {control:?}",
            text.escape_debug()
        ))),
    }
}

fn quoted(text: &str, variables: bool) -> Result<String, Failure> {
    one_line(text)?;
    let mut word = String::with_capacity(text.len() + 2);
    for letter in text.chars() {
        match letter {
            '%' => word.push_str("%%"),
            '$' if variables => word.push_str("$$"),
            '"' | '\\' => word.extend(['\\', letter]),
            _ => word.push(letter),
        }
    }
    let is_plain = |letter: char| letter.is_alphanumeric() || "-_./:=@%$,+~".contains(letter);
    if !word.is_empty() && word.chars().all(is_plain) {
        return Ok(word);
    }
    Ok(format!("\"{word}\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines<'a>(unit: &'a str, key: &str) -> Vec<&'a str> {
        unit.lines().filter(|line| line.starts_with(key)).collect()
    }

    #[test]
    fn a_unit_fits_the_systemd_that_reads_it() {
        let old = render(SERVICE, "/x run empty $OPTS", Some(252));
        assert_eq!(lines(&old, "Type="), ["Type=notify"]);
        assert_eq!(lines(&old, "ExecReload="), ["ExecReload=/bin/sh -c 'kill -HUP $$MAINPID'"]);
        let new = render(SERVICE, "/x run empty $OPTS", Some(257));
        assert_eq!(lines(&new, "Type="), ["Type=notify-reload"]);
        assert!(lines(&new, "ExecReload=").is_empty());
        // As it is, both kinds tell the program once: one by the command, the other with a signal that is no reason to read.
        assert_eq!(lines(SERVICE, "ReloadSignal="), ["ReloadSignal=SIGCONT"]);
        for unit in [&old, &new] {
            assert!(lines(unit, "ReloadSignal=").is_empty(), "{unit}");
            assert_eq!(lines(unit, "ExecStart="), ["ExecStart=/x run empty $OPTS"]);
            assert!(!unit.contains("before 253"), "{unit}");
        }
        let any = render(SERVICE, "/usr/bin/mgmt run empty $OPTS", None);
        assert_eq!(any, SERVICE, "a unit for every systemd is the one that is shipped");
    }

    #[test]
    fn words_arrive_as_they_are() {
        for (text, written) in [
            ("http://10.0.0.1:2379", "http://10.0.0.1:2379"),
            ("", "\"\""),
            ("two words", "\"two words\""),
            ("100%", "100%%"),
            ("$HOME", "$$HOME"),
            ("a\"b\\c", "\"a\\\"b\\\\c\""),
            (";", "\";\""),
        ] {
            assert_eq!(word(text).unwrap(), written);
        }
        assert_eq!(program("/opt/$x").unwrap(), "/opt/$x");
        assert!(word("two\nlines").is_err());
    }

    #[test]
    fn both_units_are_whole() {
        for (unit, kind) in [(SERVICE, "Type=notify-reload"), (FIRSTBOOT, "Type=oneshot")] {
            for line in [kind, "[Unit]", "[Service]", "[Install]", "WantedBy=multi-user.target"] {
                assert!(unit.lines().any(|found| found == line), "{line}");
            }
        }
    }
}
