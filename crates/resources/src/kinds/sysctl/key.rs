//! Names of parameters.

use mgmt_resource::Invalid;
use mgmt_value::Str;

/// The longest name that still fits a file name.
const LONGEST: usize = 200;

/// The name of a parameter: its parts, none of which is empty or leads anywhere else.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Key(Vec<String>);

impl Key {
    /// Reads a name in either form. Which one it is, the first separator tells.
    pub(super) fn read(name: &Str) -> Result<Key, Invalid> {
        let wrong = |why: &str| {
            Invalid::new(format!("{name:?} is not the name of a parameter: {why}"))
                .with_hint("use a name as `sysctl --all` lists it, like `net.ipv4.ip_forward`")
        };
        let allowed = |byte: &u8| byte.is_ascii_graphic() && !b"=*#;\\\"'".contains(byte);
        let text = name.as_str().ok_or_else(|| wrong("it is no text"))?;
        if !name.iter().all(allowed) {
            return Err(wrong("it has white space or a sign that no name has"));
        }
        if name.len() > LONGEST {
            return Err(wrong("it is too long"));
        }
        if text.starts_with('-') {
            return Err(wrong("it begins with a sign"));
        }
        let dotted = text.find(['.', '/']).is_none_or(|first| text[first..].starts_with('.'));
        let parts: Vec<String> = match dotted {
            true => text.split('.').map(|part| part.replace('/', ".")).collect(),
            false => text.split('/').map(str::to_owned).collect(),
        };
        if parts.iter().any(|part| part.is_empty() || part == "." || part == "..") {
            return Err(wrong("a part of it is missing"));
        }
        if parts.len() < 2 {
            return Err(wrong("it has only one part"));
        }
        Ok(Key(parts))
    }

    /// With dots, as in the files that are read when the host boots.
    pub(super) fn dotted(&self) -> String {
        self.0.iter().map(|part| part.replace('.', "/")).collect::<Vec<_>>().join(".")
    }

    /// Where the kernel has it, and the directory of that.
    pub(super) fn path(&self) -> String {
        format!("/proc/sys/{}", self.0.join("/"))
    }

    pub(super) fn directory(&self) -> String {
        format!("/proc/sys/{}", self.0[..self.0.len() - 1].join("/"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read() {
        let read = |name: &str| {
            let key = Key::read(&name.into()).unwrap();
            (key.path(), key.dotted())
        };
        let both = |path: &str, dotted: &str| (path.to_owned(), dotted.to_owned());
        assert_eq!(read("vm.swappiness"), both("/proc/sys/vm/swappiness", "vm.swappiness"));
        assert_eq!(read("vm/swappiness"), both("/proc/sys/vm/swappiness", "vm.swappiness"));
        let vlan = both("/proc/sys/net/conf/eth0.7/forwarding", "net.conf.eth0/7.forwarding");
        assert_eq!(read("net.conf.eth0/7.forwarding"), vlan);
        assert_eq!(read("net/conf/eth0.7/forwarding"), vlan);
        assert_eq!(Key::read(&"a.b.c".into()).unwrap().directory(), "/proc/sys/a/b");
    }

    #[test]
    fn nothing_leads_out_of_the_tree() {
        for wrong in [
            "", "a", ".a", "a.", "a..b", "/a/b", "a/b/", "a//b", "a/../b", "a/./b", "../a", "a.//.b",
            "a.b c", " a.b", "a=b.c", "a.*", "-a.b", "#a.b", "a.b\n", "a.\0", "é.a",
        ] {
            let refused = Key::read(&wrong.into()).unwrap_err();
            assert!(refused.message.contains("is not the name of a parameter"), "{wrong}: {refused}");
        }
        assert!(Key::read(&format!("a.{}", "b".repeat(300)).into()).is_err());
    }
}
