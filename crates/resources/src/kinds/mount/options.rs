//! Options of mounts: which of them are the same, and which of them anybody can see.

use std::collections::BTreeMap;

use mgmt_resource::Invalid;
use mgmt_value::Str;

/// Options by name, as they are declared.
pub(super) type Options = BTreeMap<Str, Str>;

/// Pairs of options of which the kernel shows the first, or for some the second.
const SWITCHES: [(&str, &str); 9] = [
    ("ro", "rw"),
    ("nosuid", "suid"),
    ("nodev", "dev"),
    ("noexec", "exec"),
    ("nosymfollow", "symfollow"),
    ("noatime", "atime"),
    ("nodiratime", "diratime"),
    ("sync", "async"),
    ("dirsync", "nodirsync"),
];

pub(super) fn validate(options: &Options) -> Result<(), Invalid> {
    let wrong = |text: &[u8], more: &[u8]| {
        text.iter().any(|byte| byte.is_ascii_control() || b", \\\"".contains(byte) || more.contains(byte))
    };
    for (key, value) in options {
        if key.is_empty() || wrong(key, b"=") || wrong(value, b"") {
            return Err(Invalid::field("options", format!("{key:?} with the value {value:?} is no option"))
                .with_hint("write each option by itself, with its value if it has one"));
        }
    }
    for (one, other) in SWITCHES {
        if options.contains_key(&Str::from(one)) && options.contains_key(&Str::from(other)) {
            return Err(Invalid::field("options", format!("`{one}` and `{other}` contradict each other")));
        }
    }
    Ok(())
}

/// Without those that say nothing.
pub(super) fn declared(options: &Options) -> Options {
    let says = |(key, _): &(&Str, &Str)| key.as_bytes() != b"defaults";
    options.iter().filter(says).map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// One text of all of them.
pub(super) fn written(options: &Options) -> Vec<u8> {
    let written = |(key, value): (&Str, &Str)| match value.is_empty() {
        true => key.to_vec(),
        false => [key.as_bytes(), b"=", value.as_bytes()].concat(),
    };
    let declared = declared(options);
    match declared.is_empty() {
        true => b"defaults".to_vec(),
        false => declared.iter().map(written).collect::<Vec<_>>().join(&b','),
    }
}

/// Reads a text of options.
pub(super) fn read(text: &[u8]) -> Options {
    let parts = text.split(|byte| *byte == b',').filter(|part| !part.is_empty());
    parts
        .map(|part| match part.iter().position(|byte| *byte == b'=') {
            Some(at) => (Str::new(&part[..at]), Str::new(&part[at + 1..])),
            None => (Str::new(part), Str::EMPTY),
        })
        .collect()
}

/// Whether a directory is shown in another place.
pub(super) fn is_bind(options: &Options) -> bool {
    [&b"bind"[..], b"rbind"].iter().any(|bind| options.contains_key(&Str::new(bind)))
}

/// The first declared option that what is shown contradicts: those of the mount and those of the file system.
pub(super) fn contradicted(wanted: &Options, mount: &Options, file_system: &Options) -> Option<Str> {
    let shown =
        |name: &str| mount.contains_key(&Str::from(name)) || file_system.contains_key(&Str::from(name));
    let is_wrong = |(key, value): &(&Str, &Str)| {
        let key = key.to_text();
        for (on, off) in SWITCHES {
            if key == on {
                return !shown(on);
            }
            if key == off {
                return shown(on);
            }
        }
        match (value.is_empty(), file_system.get(&Str::from(&*key))) {
            (false, Some(shown)) => !is_same(&key, value, shown),
            // What is not shown cannot be told.
            _ => false,
        }
    };
    wanted.iter().find(is_wrong).map(|(key, _)| key.clone())
}

/// Whether two spellings mean the same value.
fn is_same(key: &str, wanted: &Str, shown: &Str) -> bool {
    if wanted == shown {
        return true;
    }
    match (key, wanted.as_str(), shown.as_str()) {
        // A part of the memory, which the kernel shows as a number.
        (_, Some(wanted), _) if wanted.ends_with('%') => true,
        ("mode" | "umask" | "fmask" | "dmask", Some(wanted), Some(shown)) => {
            let octal = |text: &str| u32::from_str_radix(text, 8).ok();
            octal(wanted).is_some() && octal(wanted) == octal(shown)
        }
        // Sizes are rounded up to whole pages.
        (_, Some(wanted), Some(shown)) if key == "size" || is_short(wanted) || is_short(shown) => {
            match (size(wanted), size(shown)) {
                (Some(wanted), Some(shown)) => shown >= wanted && shown - wanted < PAGE,
                _ => false,
            }
        }
        _ => false,
    }
}

/// Whether a number ends in a letter for thousands.
fn is_short(text: &str) -> bool {
    text.ends_with(|letter: char| letter.is_ascii_alphabetic())
}

/// The largest page of those that are common.
const PAGE: u64 = 64 << 10;

/// A number, perhaps with a letter for thousands.
fn size(text: &str) -> Option<u64> {
    let (digits, shift) = match text.as_bytes().last()?.to_ascii_lowercase() {
        b'k' => (&text[..text.len() - 1], 10),
        b'm' => (&text[..text.len() - 1], 20),
        b'g' => (&text[..text.len() - 1], 30),
        b't' => (&text[..text.len() - 1], 40),
        _ => (text, 0),
    };
    let number: u64 = digits.parse().ok()?;
    number.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contradicts(wanted: &str, mount: &str, file_system: &str) -> Option<String> {
        let read = |text: &str| read(text.as_bytes());
        contradicted(&read(wanted), &read(mount), &read(file_system)).map(|key| key.to_text().into_owned())
    }

    #[test]
    fn only_what_is_declared_and_shown_is_compared() {
        let shown = "rw,nosuid,relatime";
        assert_eq!(contradicts("", shown, "rw"), None);
        assert_eq!(contradicts("defaults,nofail,x-systemd.automount,_netdev", shown, "rw"), None);
        assert_eq!(contradicts("rw,nosuid", shown, "rw"), None);
        assert_eq!(contradicts("ro", shown, "rw").as_deref(), Some("ro"));
        assert_eq!(contradicts("ro", "rw,relatime", "ro"), None);
        assert_eq!(contradicts("rw", "ro,relatime", "rw").as_deref(), Some("rw"));
        assert_eq!(contradicts("suid", shown, "rw").as_deref(), Some("suid"));
        assert_eq!(contradicts("noexec", shown, "rw").as_deref(), Some("noexec"));
        assert_eq!(contradicts("size=10m,mode=0755", "rw", "rw,size=10240k,mode=755"), None);
        assert_eq!(contradicts("size=10m", "rw", "rw,size=20480k").as_deref(), Some("size"));
        assert_eq!(contradicts("size=10000001", "rw", "rw,size=9768k"), None);
        assert_eq!(contradicts("size=50%", "rw", "rw,size=20480k"), None);
        assert_eq!(contradicts("uid=7", "rw", "rw,uid=8").as_deref(), Some("uid"));
        assert_eq!(contradicts("unknown=7", "rw", "rw"), None);
    }

    #[test]
    fn options_are_written_in_one_order() {
        assert_eq!(written(&read(b"")), b"defaults");
        assert_eq!(written(&read(b"defaults")), b"defaults");
        assert_eq!(written(&read(b"size=1m,ro,defaults,mode=700")), b"mode=700,ro,size=1m");
        assert!(is_bind(&read(b"ro,rbind")) && !is_bind(&read(b"ro")));
    }
}
