//! A setting in the text of an INI file.
//!
//! Where a new setting goes, what is a setting and what is left of an emptied section is as with Puppet's `ini_setting`, so that the two
//! agree on every file.

use std::ops::Range;

/// How settings and headers of sections are written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Format<'a> {
    /// Between the name and the value of a new setting.
    pub(super) separator: &'a [u8],
    /// Around the name of a section.
    pub(super) prefix: &'a [u8],
    pub(super) suffix: &'a [u8],
    /// Before a new setting. Nothing: as far in as the others of its section.
    pub(super) indent: Option<&'a [u8]>,
}

/// A line that is a setting.
struct Setting<'a> {
    indent: usize,
    name: &'a [u8],
    /// Everything before the value.
    before: &'a [u8],
    value: &'a [u8],
}

/// A section with the positions of its lines. The first one has no header and all that comes before the first header.
struct Section<'a> {
    name: &'a [u8],
    header: Option<usize>,
    body: Range<usize>,
}

impl Format<'_> {
    /// The letter that separates names from values in lines that are there.
    pub(super) fn letter(&self) -> u8 {
        self.separator.trim_ascii().first().copied().unwrap_or(b' ')
    }

    fn section_name<'l>(&self, line: &'l [u8]) -> Option<&'l [u8]> {
        line.trim_ascii().strip_prefix(self.prefix)?.strip_suffix(self.suffix)
    }

    fn setting<'l>(&self, line: &'l [u8]) -> Option<Setting<'l>> {
        let indent = line.len() - line.trim_ascii_start().len();
        let rest = &line[indent..];
        if rest.is_empty() || matches!(rest[0], b'#' | b';') {
            return None;
        }
        let (name, after) = self.split(rest)?;
        let start = line.len() - after.len();
        Some(Setting { indent, name, before: &line[..start], value: after })
    }

    /// The name of a setting that is commented out.
    fn commented<'l>(&self, line: &'l [u8]) -> Option<&'l [u8]> {
        let rest = line.trim_ascii_start();
        let marks = rest.iter().take_while(|byte| matches!(byte, b'#' | b';')).count();
        let rest = rest[marks..].trim_ascii_start();
        self.split(rest).filter(|_| marks > 0).map(|(name, _)| name)
    }

    /// What is before the first separator, and what is after it and the blanks behind it.
    fn split<'l>(&self, text: &'l [u8]) -> Option<(&'l [u8], &'l [u8])> {
        let at = (1..text.len()).find(|&at| text[at] == self.letter())?;
        let name = text[..at].trim_ascii_end();
        let after = &text[at + 1..];
        let blanks = after.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        (!name.is_empty()).then_some((name, &after[blanks..]))
    }

    fn sections<'l>(&self, lines: &[&'l [u8]]) -> Vec<Section<'l>> {
        let mut sections = vec![Section { name: &b""[..], header: None, body: 0..0 }];
        for (at, line) in lines.iter().enumerate() {
            match self.section_name(line) {
                Some(name) => sections.push(Section { name, header: Some(at), body: at + 1..at + 1 }),
                None => {
                    if let Some(section) = sections.last_mut() {
                        section.body.end = at + 1;
                    }
                }
            }
        }
        sections
    }

    /// The value of a setting now.
    pub(super) fn get(&self, text: &[u8], section: &[u8], name: &[u8]) -> Option<Vec<u8>> {
        let lines = lines(text);
        let sections = self.sections(&lines);
        let section = sections.iter().rfind(|found| found.name == section)?;
        let mut settings = lines[section.body.clone()].iter().filter_map(|line| self.setting(line));
        settings.rfind(|setting| setting.name == name).map(|setting| setting.value.to_vec())
    }

    /// The text with the setting in it.
    pub(super) fn set(&self, text: &[u8], section: &[u8], name: &[u8], value: &[u8]) -> Vec<u8> {
        let lines = lines(text);
        let sections = self.sections(&lines);
        let mut new: Vec<Vec<u8>> = lines.iter().map(|line| line.to_vec()).collect();
        let Some(found) = sections.iter().rfind(|found| found.name == section) else {
            // A line apart from what is before.
            if sections.len() > 1 || !lines.is_empty() {
                new.push(Vec::new());
            }
            new.push([self.prefix, section, self.suffix].concat());
            new.push([self.indent.unwrap_or_default(), name, self.separator, value].concat());
            return joined(&new);
        };
        let is_it = |at: &usize| self.setting(lines[*at]).is_some_and(|setting| setting.name == name);
        let there: Vec<usize> = found.body.clone().filter(is_it).collect();
        if !there.is_empty() {
            for at in there {
                let Some(setting) = self.setting(lines[at]) else { continue };
                new[at] = [setting.before, value].concat();
            }
            return joined(&new);
        }
        let settings = lines[found.body.clone()].iter().filter_map(|line| self.setting(line));
        let indent = match self.indent {
            Some(indent) => indent.to_vec(),
            None => vec![b' '; settings.map(|setting| setting.indent).min().unwrap_or(0)],
        };
        let line = [&indent[..], name, self.separator, value].concat();
        // Behind one that is commented out; or else before the blank lines at the end.
        if let Some(at) = found.body.clone().find(|at| self.commented(lines[*at]) == Some(name)) {
            new.insert(at + 1, line);
            return joined(&new);
        }
        let start = found.header.map_or(found.body.start, |header| header + 1);
        let last = found.body.clone().rfind(|at| !lines[*at].trim_ascii().is_empty());
        new.insert(last.map_or(start, |last| last + 1), line);
        if found.header.is_none() && found.body.is_empty() && sections.len() > 1 {
            new.insert(1, Vec::new());
        }
        joined(&new)
    }

    /// The text without the setting, and without its section if nothing else is in it.
    pub(super) fn removed(&self, text: &[u8], section: &[u8], name: &[u8]) -> Vec<u8> {
        let lines = lines(text);
        let sections = self.sections(&lines);
        let Some(found) = sections.iter().rfind(|found| found.name == section) else { return text.to_vec() };
        let is_it = |at: &usize| self.setting(lines[*at]).is_some_and(|setting| setting.name == name);
        let gone: Vec<usize> = found.body.clone().filter(is_it).collect();
        let is_empty = gone.len() == found.body.len();
        let kept =
            (0..lines.len()).filter(|at| !(gone.contains(at) || is_empty && found.header == Some(*at)));
        joined(&kept.map(|at| lines[at].to_vec()).collect::<Vec<_>>())
    }
}

fn lines(text: &[u8]) -> Vec<&[u8]> {
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    if text.is_empty() { Vec::new() } else { text.split(|byte| *byte == b'\n').collect() }
}

fn joined(lines: &[Vec<u8>]) -> Vec<u8> {
    lines.iter().flat_map(|line| [&line[..], b"\n"].concat()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Format<'_> = Format { separator: b" = ", prefix: b"[", suffix: b"]", indent: None };

    #[track_caller]
    fn becomes(text: &str, (section, name, value): (&str, &str, &str), expected: &str) {
        let new = PLAIN.set(text.as_bytes(), section.as_bytes(), name.as_bytes(), value.as_bytes());
        assert_eq!(String::from_utf8_lossy(&new), expected);
        let got = PLAIN.get(&new, section.as_bytes(), name.as_bytes());
        assert_eq!(got.as_deref(), Some(value.as_bytes()));
    }

    #[test]
    fn a_setting_is_changed_where_it_is_and_added_where_it_belongs() {
        becomes("", ("", "a", "1"), "a = 1\n");
        becomes("", ("s", "a", "1"), "[s]\na = 1\n");
        becomes("x=1\n", ("s", "a", "1"), "x=1\n\n[s]\na = 1\n");
        becomes("[r]\nx=1\n", ("s", "a", "1"), "[r]\nx=1\n\n[s]\na = 1\n");
        becomes("[s]\n  a=0\n  b = 2\n", ("s", "a", "1"), "[s]\n  a=1\n  b = 2\n");
        becomes("[s]\n  b=2\n\n[t]\n", ("s", "a", "1"), "[s]\n  b=2\n  a = 1\n\n[t]\n");
        becomes("[s]\n;a = 0\nb=2\n", ("s", "a", "1"), "[s]\n;a = 0\na = 1\nb=2\n");
        becomes("[s]\nb=2\n", ("", "a", "1"), "a = 1\n\n[s]\nb=2\n");
        becomes("[s]\n[t]\n", ("s", "a", "1"), "[s]\na = 1\n[t]\n");
        becomes("[s]\na==b\n", ("s", "a", "c"), "[s]\na=c\n");
        becomes("# x\n", ("", "a", "1"), "# x\na = 1\n");
    }

    #[test]
    fn a_setting_goes_with_its_section_if_it_was_all_of_it() {
        for (text, expected) in [
            ("[s]\na=1\n[t]\n", "[t]\n"),
            ("[s]\na=1\n\n[t]\n", "[s]\n\n[t]\n"),
            ("[s]\nb=1\n", "[s]\nb=1\n"),
            ("a=1\n", "a=1\n"),
        ] {
            let new = PLAIN.removed(text.as_bytes(), b"s", b"a");
            assert_eq!(String::from_utf8_lossy(&new), expected);
            assert_eq!(PLAIN.get(&new, b"s", b"a"), None);
        }
        assert_eq!(PLAIN.removed(b"a=1\nb=2\n", b"", b"a"), b"b=2\n");
    }

    #[test]
    fn names_and_values_are_told_apart_by_the_first_separator() {
        let get = |text: &str, separator: &str| {
            let format = Format { separator: separator.as_bytes(), ..PLAIN };
            let name = b"a b";
            let name = if separator.trim().is_empty() { &name[..1] } else { &name[..] };
            format.get(text.as_bytes(), b"", name).map(|value| String::from_utf8(value).unwrap())
        };
        assert_eq!(get("a b = c = d \n", " = ").as_deref(), Some("c = d "));
        assert_eq!(get("\ta b\t=\tc\n", "=").as_deref(), Some("c"));
        assert_eq!(get("a b: c\n", ": ").as_deref(), Some("c"));
        assert_eq!(get("a  b c\n", " ").as_deref(), Some("b c"));
        for none in ["#a b = c\n", "= c\n", "a b\n", "[a b = c]\n", ""] {
            assert_eq!(get(none, " = "), None, "{none}");
        }
    }
}
