//! Lines of a file of hosts.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use mgmt_value::Str;

use super::Address;

/// The longest name of a host.
const LONGEST: usize = 253;

/// What is declared about an entry.
pub(super) struct Wanted<'a> {
    pub(super) hostname: &'a Str,
    /// Empty if any address is meant.
    pub(super) ip: &'a Str,
    pub(super) aliases: Option<&'a [Str]>,
    pub(super) comment: Option<&'a Str>,
}

/// An entry as it is in the file.
#[derive(Debug, PartialEq)]
pub(super) struct Entry<'a> {
    pub(super) address: &'a str,
    pub(super) hostname: &'a [u8],
    pub(super) aliases: Vec<&'a [u8]>,
    pub(super) comment: &'a [u8],
}

impl Wanted<'_> {
    /// The text with the entry in it. Nothing if it is there already, and only once.
    pub(super) fn put_into(&self, text: &[u8]) -> Option<Vec<u8>> {
        let mut new = Vec::with_capacity(text.len() + 256);
        let (mut found, mut changed) = (false, false);
        for line in lines(text) {
            match Entry::parse(line).filter(|entry| self.is_about(entry)) {
                None => new.extend_from_slice(line),
                Some(_) if found => changed = true,
                Some(entry) => {
                    found = true;
                    if self.is_fulfilled_by(&entry) {
                        new.extend_from_slice(line);
                    } else {
                        new.extend(self.line(Some(&entry)));
                        new.extend_from_slice(&line[line.trim_ascii_end().len()..]);
                        changed = true;
                    }
                }
            }
        }
        if found {
            return changed.then_some(new);
        }
        if !text.is_empty() && !text.ends_with(b"\n") {
            new.push(b'\n');
        }
        new.extend(self.line(None));
        new.push(b'\n');
        Some(new)
    }

    /// The text without all entries that are meant. Nothing if there are none.
    pub(super) fn removed_from(&self, text: &[u8]) -> Option<Vec<u8>> {
        let is_meant = |entry: &Entry<'_>| {
            self.is_named(entry) && (self.ip.is_empty() || same_address(self.ip, entry.address.as_bytes()))
        };
        let is_other = |line: &&[u8]| !Entry::parse(line).is_some_and(|entry| is_meant(&entry));
        let new = lines(text).filter(is_other).collect::<Vec<_>>().concat();
        (new.len() != text.len()).then_some(new)
    }

    /// Whether the entry is the one that would be changed: of this name, and with an address of the same sort.
    pub(super) fn is_about(&self, entry: &Entry<'_>) -> bool {
        let same_sort = match (address(self.ip), address(entry.address.as_bytes())) {
            (Some((wanted, _)), Some((present, _))) => wanted.is_ipv4() == present.is_ipv4(),
            _ => true,
        };
        self.is_named(entry) && same_sort
    }

    fn is_named(&self, entry: &Entry<'_>) -> bool {
        entry.hostname.eq_ignore_ascii_case(self.hostname)
    }

    fn is_fulfilled_by(&self, entry: &Entry<'_>) -> bool {
        same_address(self.ip, entry.address.as_bytes())
            && entry.hostname == self.hostname.as_bytes()
            && self
                .aliases
                .is_none_or(|aliases| aliases.iter().map(Str::as_bytes).eq(entry.aliases.iter().copied()))
            && self.comment.is_none_or(|comment| comment.as_bytes() == entry.comment)
    }

    /// The line without its end; what is not declared is as it was.
    fn line(&self, present: Option<&Entry<'_>>) -> Vec<u8> {
        let aliases = match (self.aliases, present) {
            (Some(aliases), _) => aliases.iter().map(Str::as_bytes).collect(),
            (None, Some(present)) => present.aliases.clone(),
            (None, None) => Vec::new(),
        };
        let comment = match (self.comment, present) {
            (Some(comment), _) => comment.as_bytes(),
            (None, present) => present.map(|present| present.comment).unwrap_or_default(),
        };
        let mut line = [self.ip.as_bytes(), b"\t", self.hostname.as_bytes()].concat();
        for alias in aliases {
            line.push(b' ');
            line.extend_from_slice(alias);
        }
        if !comment.is_empty() {
            line.extend_from_slice(b" # ");
            line.extend_from_slice(comment);
        }
        line
    }
}

impl<'a> Entry<'a> {
    fn parse(line: &'a [u8]) -> Option<Entry<'a>> {
        let hash = line.iter().position(|byte| *byte == b'#').unwrap_or(line.len());
        let (names, comment) = line.split_at(hash);
        let mut words = names.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let address = std::str::from_utf8(words.next()?).ok()?;
        let hostname = words.next()?;
        let comment = comment.strip_prefix(b"#").unwrap_or(comment).trim_ascii();
        Some(Entry { address, hostname, aliases: words.collect(), comment })
    }
}

/// All entries of a text.
pub(super) fn entries(text: &[u8]) -> impl Iterator<Item = Entry<'_>> {
    lines(text).filter_map(Entry::parse)
}

/// Reads an address; one of a link may have the name of the link behind it.
pub(super) fn address(text: &[u8]) -> Option<Address<'_>> {
    let text = std::str::from_utf8(text).ok()?;
    if let Ok(plain) = text.parse::<Ipv4Addr>() {
        return Some((IpAddr::V4(plain), ""));
    }
    let (plain, scope) = match text.split_once('%') {
        Some((_, "")) => return None,
        Some((plain, scope)) if scope.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#') => {
            (plain, scope)
        }
        Some(_) => return None,
        None => (text, ""),
    };
    Some((IpAddr::V6(plain.parse::<Ipv6Addr>().ok()?), scope))
}

/// Checks the name of a host.
pub(super) fn check_name(name: &Str) -> Result<(), String> {
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_".contains(byte);
    let is_label = |label: &[u8]| {
        !label.is_empty() && label.len() <= 63 && !label.starts_with(b"-") && label.iter().all(allowed)
    };
    match name.len() <= LONGEST && name.split(|byte| *byte == b'.').all(is_label) {
        true => Ok(()),
        false => Err(format!(
            "{name:?} is not the name of a host: expected letters, digits, `-` and `_`, with dots between the parts"
        )),
    }
}

fn same_address(a: &[u8], b: &[u8]) -> bool {
    address(a).is_some_and(|a| Some(a) == address(b))
}

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split_inclusive(|byte| *byte == b'\n')
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTS: &str = "127.0.0.1\tlocalhost\n::1 localhost ip6-localhost # six\n\n# 192.0.2.7 printer\n";

    struct Declared {
        hostname: Str,
        ip: Str,
        aliases: Option<Vec<Str>>,
        comment: Option<Str>,
    }

    fn declared(hostname: &str, ip: &str) -> Declared {
        Declared { hostname: hostname.into(), ip: ip.into(), aliases: None, comment: None }
    }

    impl Declared {
        fn wanted(&self) -> Wanted<'_> {
            let Declared { hostname, ip, aliases, comment } = self;
            Wanted { hostname, ip, aliases: aliases.as_deref(), comment: comment.as_ref() }
        }

        fn put(&self, text: &str) -> Option<String> {
            let new = self.wanted().put_into(text.as_bytes())?;
            assert_eq!(self.wanted().put_into(&new), None, "once is enough");
            Some(String::from_utf8(new).unwrap())
        }

        fn removed(&self, text: &str) -> Option<String> {
            let new = self.wanted().removed_from(text.as_bytes())?;
            assert_eq!(self.wanted().removed_from(&new), None, "once is enough");
            Some(String::from_utf8(new).unwrap())
        }
    }

    #[test]
    fn a_missing_entry_is_added_and_all_else_stays() {
        let full = Declared {
            aliases: Some(vec!["lp".into(), "ink".into()]),
            comment: Some("first floor".into()),
            ..declared("printer", "192.0.2.7")
        };
        let line = "192.0.2.7\tprinter lp ink # first floor\n";
        assert_eq!(full.put(HOSTS), Some(format!("{HOSTS}{line}")));
        assert_eq!(full.put(""), Some(line.to_owned()));
        assert_eq!(declared("a", "::2").put("x"), Some("x\n::2\ta\n".to_owned()));
    }

    #[test]
    fn an_entry_is_changed_where_it_is_and_keeps_what_is_not_declared() {
        let text = "1.1.1.1 a\n192.0.2.7   printer  lp#old\r\n2.2.2.2 b printer\n";
        assert_eq!(declared("printer", "192.0.2.7").put(text), None);
        assert_eq!(
            declared("printer", "192.0.2.8").put(text).unwrap(),
            "1.1.1.1 a\n192.0.2.8\tprinter lp # old\r\n2.2.2.2 b printer\n"
        );
        let bare =
            Declared { aliases: Some(vec![]), comment: Some("".into()), ..declared("printer", "192.0.2.7") };
        assert_eq!(bare.put(text).unwrap(), "1.1.1.1 a\n192.0.2.7\tprinter\r\n2.2.2.2 b printer\n");
        // The case of a name does not matter to find it.
        assert_eq!(
            declared("Printer", "192.0.2.7").put("192.0.2.7 PRINTER lp\n").unwrap(),
            "192.0.2.7\tPrinter lp\n"
        );
    }

    #[test]
    fn each_sort_of_address_has_its_entry_and_only_one() {
        assert_eq!(declared("localhost", "127.0.0.1").put(HOSTS), None);
        assert_eq!(declared("localhost", "0::1").put(HOSTS), None, "another spelling is the same address");
        let changed = declared("localhost", "::2").put(HOSTS).unwrap();
        assert!(
            changed.starts_with("127.0.0.1\tlocalhost\n::2\tlocalhost ip6-localhost # six\n"),
            "{changed}"
        );
        assert_eq!(
            declared("a", "1.1.1.1").put("1.1.1.1 a\n1.1.1.2 a\n::1 a\n").unwrap(),
            "1.1.1.1 a\n::1 a\n"
        );
    }

    #[test]
    fn entries_are_removed_by_name_and_perhaps_by_address() {
        assert_eq!(declared("localhost", "").removed(HOSTS).unwrap(), "\n# 192.0.2.7 printer\n");
        assert_eq!(
            declared("localhost", "::1").removed(HOSTS).unwrap(),
            "127.0.0.1\tlocalhost\n\n# 192.0.2.7 printer\n"
        );
        assert_eq!(declared("localhost", "::2").removed(HOSTS), None);
        assert_eq!(declared("printer", "").removed(HOSTS), None, "a comment is no entry");
        assert_eq!(declared("ip6-localhost", "").removed(HOSTS), None, "an alias is another's");
    }

    #[test]
    fn no_text_makes_it_stumble() {
        let wanted = declared("a", "::2");
        for text in ["#", "a", "::2", "::2 #a", "\n\n", "\t \t", "a a a", "::2%x a", "\u{e9} a"] {
            assert!(wanted.put(text).is_some() || text.contains(" a"), "{text}");
        }
        assert!(wanted.wanted().put_into(b"\xff \xfe\n\0").is_some());
    }
}
