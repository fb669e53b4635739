//! The names where they are: in two files and in the kernel.

use std::fmt;

use mgmt_resource::{Context, Error, Result, ResultExt};
use mgmt_sys::ManagedPath;
use mgmt_sys::replace::InPlace;
use mgmt_value::Str;

use crate::support::text_file::TextFile;

/// Where the static name is.
const HOSTNAME: &str = "/etc/hostname";
/// Where the pretty name is, among other things.
const MACHINE_INFO: &str = "/etc/machine-info";
const PRETTY: &[u8] = b"PRETTY_HOSTNAME";
const MODE: u32 = 0o644;

/// One of the names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    Pretty,
    Static,
    Transient,
}

impl fmt::Display for Which {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Which::Pretty => "pretty",
            Which::Static => "static",
            Which::Transient => "transient",
        })
    }
}

impl Which {
    /// The parameter for it.
    pub(super) fn field(self) -> &'static str {
        match self {
            Which::Pretty => "pretty_hostname",
            Which::Static => "static_hostname",
            Which::Transient => "transient_hostname",
        }
    }

    /// The file that it is in.
    pub(super) fn file(self) -> Option<&'static str> {
        match self {
            Which::Pretty => Some(MACHINE_INFO),
            Which::Static => Some(HOSTNAME),
            Which::Transient => None,
        }
    }

    /// What it is now. Nothing if it is not set. Blocks.
    pub(super) fn read(self) -> Result<Option<Str>> {
        let content = |file: &str| text_file(file)?.read();
        match self {
            Which::Pretty => Ok(content(MACHINE_INFO)?.and_then(|text| pretty(&text))),
            Which::Static => Ok(content(HOSTNAME)?.and_then(|text| fixed(&text))),
            Which::Transient => Ok(Some(Str::new(rustix::system::uname().nodename().to_bytes()))),
        }
    }

    /// Sets it directly. Blocks.
    pub(super) fn write(self, value: &Str, cx: &Context<'_>) -> Result<()> {
        match self {
            Which::Pretty => {
                let change = |text: Option<&[u8]>| {
                    let text = text.unwrap_or_default();
                    (pretty(text).as_ref() != Some(value)).then(|| with_pretty(text, value))
                };
                text_file(MACHINE_INFO)?.edit(cx, change)?;
            }
            Which::Static => {
                let line = [value.as_bytes(), b"\n"].concat();
                let change = |text: Option<&[u8]>| (text != Some(&line)).then(|| line.clone());
                text_file(HOSTNAME)?.edit(cx, change)?;
            }
            Which::Transient => rustix::system::sethostname(value)
                .context("cannot give the kernel another name")
                .map_err(|error| error.with_hint("run this program as root"))?,
        }
        Ok(())
    }
}

fn text_file(file: &str) -> Result<TextFile> {
    let path = ManagedPath::new(file).map_err(Error::new)?;
    // In a container these are often mounted from outside.
    Ok(TextFile { path, owner: None, mode: MODE, in_place: InPlace::Allow })
}

/// The name in `/etc/hostname`: its first line that is no comment.
fn fixed(text: &[u8]) -> Option<Str> {
    let mut lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    lines.find(|line| !line.is_empty() && !line.starts_with(b"#")).map(Str::new)
}

/// The pretty name in `/etc/machine-info`.
fn pretty(text: &[u8]) -> Option<Str> {
    let mut values = text.split(|byte| *byte == b'\n').filter_map(value_of);
    values.next_back().filter(|value| !value.is_empty()).map(Str::from)
}

/// The text with this pretty name, where the old one was or at the end.
fn with_pretty(text: &[u8], value: &Str) -> Vec<u8> {
    let mut line = [PRETTY, b"=\""].concat();
    for byte in value.iter() {
        if b"\"\\$`".contains(byte) {
            line.push(b'\\');
        }
        line.push(*byte);
    }
    line.extend_from_slice(b"\"\n");
    let mut new = Vec::with_capacity(text.len() + line.len());
    let mut is_there = false;
    for old in text.split_inclusive(|byte| *byte == b'\n') {
        match value_of(old) {
            None => new.extend_from_slice(old),
            Some(_) if is_there => {}
            Some(_) => {
                new.extend_from_slice(&line);
                is_there = true;
            }
        }
    }
    if !is_there {
        if !new.is_empty() && !new.ends_with(b"\n") {
            new.push(b'\n');
        }
        new.extend_from_slice(&line);
    }
    new
}

/// What a line assigns to the pretty name, without quotes.
fn value_of(line: &[u8]) -> Option<Vec<u8>> {
    let value = line.trim_ascii().strip_prefix(PRETTY)?.trim_ascii_start().strip_prefix(b"=")?.trim_ascii();
    let (value, escapes) = match value {
        [b'"', inner @ .., b'"'] => (inner, true),
        [b'\'', inner @ .., b'\''] => (inner, false),
        bare => (bare, true),
    };
    let mut plain = Vec::with_capacity(value.len());
    let mut bytes = value.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' if escapes => plain.extend(bytes.next()),
            byte => plain.push(*byte),
        }
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_static_name_is_the_first_line_that_is_no_comment() {
        assert_eq!(fixed(b"# mine\n\n host \nother\n"), Some("host".into()));
        assert_eq!(fixed(b""), None);
        assert_eq!(fixed(b"\n"), None);
    }

    #[test]
    fn the_pretty_name_is_read_in_all_quotes() {
        for (text, name) in [
            ("PRETTY_HOSTNAME=\"a \\\"b\\\"\"\n", "a \"b\""),
            ("X=1\n  PRETTY_HOSTNAME = 'a\\b'\n", "a\\b"),
            ("PRETTY_HOSTNAME=one\nPRETTY_HOSTNAME=two", "two"),
        ] {
            assert_eq!(pretty(text.as_bytes()), Some(name.into()), "{text}");
        }
        for none in
            ["", "PRETTY_HOSTNAME=", "PRETTY_HOSTNAME=\"\"", "#PRETTY_HOSTNAME=a", "PRETTY_HOSTNAME_X=a"]
        {
            assert_eq!(pretty(none.as_bytes()), None, "{none}");
        }
    }

    #[test]
    fn any_pretty_name_comes_back_and_all_else_stays() {
        for name in ["a", "Ada’s \"PC\"", "\\", "$HOME `id`", "'", "\"", "a=b # c"] {
            for text in ["", "ICON_NAME=x", "ICON_NAME=x\nPRETTY_HOSTNAME=y\nCHASSIS=z\nPRETTY_HOSTNAME=q\n"]
            {
                let new = with_pretty(text.as_bytes(), &name.into());
                assert_eq!(pretty(&new), Some(name.into()), "{name} in {text}");
                let new = String::from_utf8(new).unwrap();
                assert_eq!(new.contains("ICON_NAME=x\n"), text.contains("ICON_NAME"));
                assert_eq!(new.matches("PRETTY").count(), 1);
            }
        }
    }
}
