//! Items of a setting that is a list, such as the flags of a command.

/// How the list is written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Items<'a> {
    /// Between items.
    pub(super) separator: u8,
    /// Between the name of an item and its value.
    pub(super) join: &'a [u8],
    /// Around a list that is not quoted yet. Empty for nothing.
    pub(super) quote: &'a [u8],
    /// An item is its name, and has no value.
    pub(super) exact: bool,
}

/// Where a new item goes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place<'a> {
    End,
    Start,
    /// Next to the item of this name, or else to the end.
    Before(&'a [u8]),
    After(&'a [u8]),
}

impl Items<'_> {
    fn parse<'t>(&self, text: &'t [u8]) -> (Vec<&'t [u8]>, Vec<u8>) {
        let quote = match text {
            [first @ (b'"' | b'\''), .., last] if first == last => vec![*first],
            _ => Vec::new(),
        };
        let inside = &text[quote.len()..text.len() - quote.len()];
        let items = inside.split(|byte| *byte == self.separator).filter(|item| !item.is_empty());
        let quote = if quote.is_empty() { self.quote.to_vec() } else { quote };
        (items.map(<[u8]>::trim_ascii).collect(), quote)
    }

    fn is_it(&self, item: &[u8], name: &[u8]) -> bool {
        match self.exact {
            true => item == name,
            false => item.strip_prefix(name).is_some_and(|rest| rest.starts_with(self.join)),
        }
    }

    /// The list with the item in it, if that is another list than now. Without a value, any will do.
    pub(super) fn with(
        &self,
        text: Option<&[u8]>,
        name: &[u8],
        value: Option<&[u8]>,
        place: Place<'_>,
    ) -> Option<Vec<u8>> {
        let (mut items, quote) = match text {
            Some(text) => self.parse(text),
            None => (Vec::new(), self.quote.to_vec()),
        };
        let new = [name, self.join, value.unwrap_or_default()].concat();
        let find = |items: &[&[u8]], name: &[u8]| items.iter().position(|item| self.is_it(item, name));
        match find(&items, name) {
            Some(at) => {
                let now = items[at].get(name.len() + self.join.len()..).unwrap_or_default();
                if self.exact || value.is_none_or(|value| value == now) {
                    return None;
                }
                for item in items.iter_mut().filter(|item| self.is_it(item, name)) {
                    *item = &new;
                }
            }
            None => {
                let at = match place {
                    Place::End => None,
                    Place::Start => Some(0),
                    Place::Before(other) => find(&items, other),
                    Place::After(other) => find(&items, other).map(|at| at + 1),
                };
                items.insert(at.unwrap_or(items.len()), &new);
            }
        }
        Some([&quote[..], &items.join(&self.separator), &quote].concat())
    }

    /// The list without the item, if it is in it.
    pub(super) fn without(&self, text: &[u8], name: &[u8]) -> Option<Vec<u8>> {
        let (mut items, quote) = self.parse(text);
        let before = items.len();
        items.retain(|item| !self.is_it(item, name));
        (items.len() < before).then(|| [&quote[..], &items.join(&self.separator), &quote].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLAGS: Items<'_> = Items { separator: b' ', join: b"", quote: b"", exact: false };

    #[test]
    fn an_item_is_added_changed_and_removed() {
        let with = |text: &str, value: &str| {
            FLAGS.with(Some(text.as_bytes()), b"-Xmx", Some(value.as_bytes()), Place::End)
        };
        assert_eq!(with("-Xmx1g -a", "2g").unwrap(), b"-Xmx2g -a");
        assert_eq!(with("\"-a  -b\"", "2g").unwrap(), b"\"-a -b -Xmx2g\"");
        assert_eq!(with("-a -Xmx2g", "2g"), None);
        assert_eq!(FLAGS.with(None, b"-a", None, Place::End).unwrap(), b"-a");
        assert_eq!(FLAGS.without(b"-a -Xmx1g -Xmx2g", b"-Xmx").unwrap(), b"-a");
        assert_eq!(FLAGS.without(b"-a", b"-Xmx"), None);
        let exact = Items { exact: true, ..FLAGS };
        assert_eq!(exact.with(Some(b"quiet-not"), b"quiet", None, Place::Start).unwrap(), b"quiet quiet-not");
        let place = |place| FLAGS.with(Some(b"-a -b"), b"-c", None, place).unwrap();
        assert_eq!(place(Place::Before(b"-b")), b"-a -c -b");
        assert_eq!(place(Place::After(b"-a")), b"-a -c -b");
        assert_eq!(place(Place::After(b"-z")), b"-a -b -c");
        let quoted = Items { quote: b"\"", ..FLAGS };
        assert_eq!(quoted.with(None, b"-a", None, Place::End).unwrap(), b"\"-a\"");
        // One quote is no pair of them.
        assert_eq!(FLAGS.with(Some(b"\""), b"-a", None, Place::End).unwrap(), b"\" -a");
    }
}
