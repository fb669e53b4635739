//! Events of `tracing` as entries of the journal, with fields of their own.
//!
//! The journal takes datagrams of fields (its native protocol). A line on standard error would come there too, but as
//! text alone: `journalctl MGMT_RESOURCE='file[/etc/motd]'` needs a field.

use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

use serde_json::Value;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

use crate::escape;
use crate::log::{MESSAGE_ID, Said, deploy, part_of};

const SOCKET: &str = "/run/systemd/journal/socket";

/// The longest text of a field. The system refuses datagrams that are much longer.
const LONGEST: usize = 64 << 10;

/// The journal.
pub(crate) struct Journal(UnixDatagram);

impl Journal {
    /// The journal that standard error goes to, if it does.
    pub(crate) fn of_standard_error() -> Option<Journal> {
        let stream = std::env::var("JOURNAL_STREAM").ok()?;
        let (device, inode) = stream.split_once(':')?;
        let stat = rustix::fs::fstat(std::io::stderr()).ok()?;
        let same = device.parse() == Ok(stat.st_dev) && inode.parse() == Ok(stat.st_ino);
        same.then(|| Journal::at(Path::new(SOCKET)).ok())?
    }

    fn at(path: &Path) -> io::Result<Journal> {
        let socket = UnixDatagram::unbound()?;
        socket.connect(path)?;
        Ok(Journal(socket))
    }

    fn tell(&self, level: Level, target: &str, said: &Said) -> io::Result<()> {
        let mut entry = Entry::default();
        entry.field("PRIORITY", priority(level));
        entry.field("SYSLOG_IDENTIFIER", "mgmt");
        entry.field("MGMT_PART", part_of(target));
        // The same words as in a line, where who speaks comes first.
        match &said.resource {
            Some(resource) => {
                entry.field("MESSAGE", &format!("{}: {}", escape(resource), escape(&said.text())));
                entry.field("MGMT_RESOURCE", resource);
                if let Some((kind, _)) = resource.split_once('[') {
                    entry.field("MGMT_KIND", kind);
                }
            }
            None => entry.field("MESSAGE", &escape(&said.text())),
        }
        if let Some(deploy) = deploy() {
            entry.field("MGMT_DEPLOY", &deploy.to_string());
        }
        for (name, value) in &said.fields {
            let name = if name == MESSAGE_ID { Some(name.to_uppercase()) } else { field_name(name) };
            if let Some(name) = name {
                match value {
                    Value::String(text) => entry.field(&name, text),
                    value => entry.field(&name, &value.to_string()),
                }
            }
        }
        self.0.send(&entry.0).map(drop)
    }
}

impl<S: Subscriber> Layer<S> for Journal {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut said = Said::default();
        event.record(&mut said);
        // A journal that is being started again loses what is said meanwhile, as from everybody.
        let _ = self.tell(*event.metadata().level(), event.metadata().target(), &said);
    }
}

/// One entry, as it is sent.
#[derive(Default)]
struct Entry(Vec<u8>);

impl Entry {
    fn field(&mut self, name: &str, text: &str) {
        let text = &text[..text.floor_char_boundary(LONGEST)];
        self.0.extend_from_slice(name.as_bytes());
        if text.contains('\n') {
            // A text of several lines says first how long it is.
            self.0.push(b'\n');
            self.0.extend_from_slice(&(text.len() as u64).to_le_bytes());
        } else {
            self.0.push(b'=');
        }
        self.0.extend_from_slice(text.as_bytes());
        self.0.push(b'\n');
    }
}

/// A name that the journal takes: capital letters, digits and underscores.
fn field_name(name: &str) -> Option<String> {
    let name: String = name
        .chars()
        .map(|character| if character.is_ascii_alphanumeric() { character.to_ascii_uppercase() } else { '_' })
        .collect();
    (!name.is_empty() && name.len() <= 58).then(|| format!("MGMT_{name}"))
}

fn priority(level: Level) -> &'static str {
    match level {
        Level::ERROR => "3",
        Level::WARN => "4",
        Level::INFO => "6",
        Level::DEBUG | Level::TRACE => "7",
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::collections::BTreeMap;

    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    /// What the journal would make of an entry.
    fn fields(mut entry: &[u8]) -> BTreeMap<String, String> {
        let mut fields = BTreeMap::new();
        while !entry.is_empty() {
            let end = entry.iter().position(|byte| b"=\n".contains(byte)).unwrap();
            let name = String::from_utf8(entry[..end].to_vec()).unwrap();
            let (length, from) = if entry[end] == b'=' {
                (entry[end + 1..].iter().position(|byte| *byte == b'\n').unwrap(), end + 1)
            } else {
                let length = u64::from_le_bytes(entry[end + 1..end + 9].try_into().unwrap());
                (usize::try_from(length).unwrap(), end + 9)
            };
            let text = String::from_utf8(entry[from..from + length].to_vec()).unwrap();
            assert_eq!(entry[from + length], b'\n');
            fields.insert(name, text);
            entry = &entry[from + length + 1..];
        }
        fields
    }

    fn told(path: &Path, say: impl FnOnce()) -> BTreeMap<String, String> {
        let _ = std::fs::remove_file(path);
        let socket = UnixDatagram::bind(path).unwrap();
        let journal = Journal::at(path).unwrap();
        tracing::subscriber::with_default(tracing_subscriber::registry().with(journal), say);
        let mut buffer = vec![0; 1 << 20];
        socket.set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
        let length = socket.recv(&mut buffer).unwrap();
        std::fs::remove_file(path).unwrap();
        fields(&buffer[..length])
    }

    #[test]
    fn an_entry_has_fields_for_who_speaks_and_for_what_else_is_said() {
        let path = std::env::temp_dir().join(format!("mgmt-journal-{}", std::process::id()));
        let entry = told(&path, || {
            tracing::warn!(
                target: "mgmt_engine::driver", resource = %"file[/a]", message_id = "0123", cause = "event: /a", why = "one\ntwo",
                tries = 3, "not right\u{1b}"
            );
        });
        let expected = [
            ("PRIORITY", "4"),
            ("SYSLOG_IDENTIFIER", "mgmt"),
            ("MGMT_PART", "engine"),
            ("MESSAGE", "file[/a]: not right\\u{1b}"),
            ("MGMT_RESOURCE", "file[/a]"),
            ("MGMT_KIND", "file"),
            ("MESSAGE_ID", "0123"),
            ("MGMT_CAUSE", "event: /a"),
            ("MGMT_WHY", "one\ntwo"),
            ("MGMT_TRIES", "3"),
        ];
        let expected: BTreeMap<String, String> =
            expected.into_iter().map(|(name, text)| (name.to_owned(), text.to_owned())).collect();
        assert_eq!(entry, expected);
        // Which deploy runs is with every entry from then on; what led to it is left out if nobody knows.
        crate::set_deploy(Some(7));
        let entry = told(&path, || tracing::info!(cause = %"", "x"));
        crate::set_deploy(None);
        assert_eq!((entry["MGMT_DEPLOY"].as_str(), entry.contains_key("MGMT_CAUSE")), ("7", false));
        // What to do about it stands in the text, too, which is what most people see.
        let entry = told(&path, || tracing::error!(hint = "write x", "no"));
        assert_eq!(
            (entry["MESSAGE"].as_str(), entry["MGMT_HINT"].as_str()),
            ("no (hint: write x)", "write x")
        );
        // A text without end is cut, and no text can add a field.
        let long = format!("x\nPRIORITY=0\n{}", "é".repeat(LONGEST));
        let entry = told(&path, || tracing::info!("{long}"));
        assert_eq!(entry["PRIORITY"], "6");
        assert_eq!(entry.len(), 4);
        assert!(entry["MESSAGE"].len() <= LONGEST);
    }
}
