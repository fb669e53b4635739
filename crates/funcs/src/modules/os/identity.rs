//! What the system says about itself.

use std::path::Path;

use mgmt_value::Str;

use crate::Failure;
use crate::look::{Answer, Question, look_now};

/// The value of a name in a file of assignments, the last one if there are several.
pub(super) fn field(content: &[u8], name: &str) -> Option<Vec<u8>> {
    let assigned = |line: &[u8]| {
        let line = line.trim_ascii();
        line.strip_prefix(name.as_bytes())?.strip_prefix(b"=").map(unquote)
    };
    content.split(|byte| *byte == b'\n').filter_map(assigned).next_back()
}

/// Removes quotes and escapes, by the rules of shells.
fn unquote(text: &[u8]) -> Vec<u8> {
    if let [b'\'', inner @ .., b'\''] = text {
        return inner.to_vec();
    }
    let inner = if let [b'"', inner @ .., b'"'] = text { inner } else { text };
    let mut out = Vec::with_capacity(inner.len());
    let mut bytes = inner.iter().peekable();
    while let Some(byte) = bytes.next() {
        match (byte, bytes.peek()) {
            (b'\\', Some(next)) if b"\\\"$`'".contains(next) => out.extend(bytes.next()),
            (byte, _) => out.push(*byte),
        }
    }
    out
}

pub(super) fn distro_uid(uid: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let dash = uid.iter().position(|byte| *byte == b'-')?;
    let (left, arch) = (&uid[..dash], &uid[dash + 1..]);
    let digits = left.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let (distro, version) = left.split_at(left.len() - digits);
    let complete = !distro.is_empty() && !version.is_empty() && !arch.is_empty();
    complete.then_some((distro, version, arch))
}

/// What firmware of virtual machines calls itself.
const MAKERS: [&str; 15] = [
    "Amazon EC2",
    "Apple Virtualization",
    "BHYVE",
    "Bochs",
    "Google Compute Engine",
    "Hyper-V",
    "innotek GmbH",
    "KubeVirt",
    "KVM",
    "OpenStack",
    "Oracle Corporation",
    "Parallels",
    "QEMU",
    "VMware",
    "Xen",
];

const FIRMWARE: [&str; 5] = ["product_name", "sys_vendor", "board_vendor", "bios_vendor", "product_version"];

pub(super) fn is_virtual(root: &Path) -> Result<bool, Failure> {
    let cpuinfo = root.join("proc/cpuinfo");
    let contains = |content: &[u8], text: &str| memchr::memmem::find(content, text.as_bytes()).is_some();
    let read = |path: &Path| match look_now(Question::Content(Str::new(path.as_os_str().as_encoded_bytes())))?
    {
        Answer::Bytes(content) => Ok(content),
        Answer::Failed(message) => Err(Failure::fatal(message)),
        _ => Err(Failure::fatal(format!("{} does not exist", path.display()))),
    };
    let processor = read(&cpuinfo);
    if processor.as_ref().is_ok_and(|content| contains(content, "hypervisor")) {
        return Ok(true);
    }
    let firmware = FIRMWARE.iter().filter_map(|name| read(&root.join("sys/class/dmi/id").join(name)).ok());
    if firmware.into_iter().any(|content| MAKERS.iter().any(|maker| contains(&content, maker))) {
        return Ok(true);
    }
    // A machine without such firmware tells nothing by it; one without a processor tells nothing at all.
    processor.map(|_| false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_and_signs_within_values_are_understood() {
        let content = b"NAME=x\nID=debian\n VERSION_ID=\"12 \\\"a=b\\\"\"\nVARIANT_ID='a\\b'\nPRETTY=a=b\nID_LIKE=no\n# ID=no\n";
        let field = |name| field(content, name).map(|value| String::from_utf8(value).unwrap());
        assert_eq!(field("ID").as_deref(), Some("debian"));
        assert_eq!(field("VERSION_ID").as_deref(), Some("12 \"a=b\""));
        assert_eq!(field("VARIANT_ID").as_deref(), Some("a\\b"));
        assert_eq!(field("PRETTY").as_deref(), Some("a=b"));
        assert_eq!(field("NONE"), None);
    }

    #[test]
    fn names_of_distributions_need_all_parts() {
        let parts = |text: &'static str| distro_uid(text.as_bytes());
        assert_eq!(parts("fedora39-x86_64"), Some((&b"fedora"[..], &b"39"[..], &b"x86_64"[..])));
        assert_eq!(parts("a1-b-c"), Some((&b"a"[..], &b"1"[..], &b"b-c"[..])));
        for incomplete in ["", "-", "fedora-x", "39-x", "fedora39-", "fedora39"] {
            assert_eq!(parts(incomplete), None, "{incomplete}");
        }
    }

    #[test]
    fn processor_or_firmware_tell() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        assert!(is_virtual(root).is_err());
        std::fs::create_dir_all(root.join("proc")).unwrap();
        std::fs::create_dir_all(root.join("sys/class/dmi/id")).unwrap();
        std::fs::write(root.join("proc/cpuinfo"), "flags: fpu\n").unwrap();
        assert_eq!(is_virtual(root), Ok(false));
        std::fs::write(root.join("sys/class/dmi/id/sys_vendor"), "QEMU\n").unwrap();
        assert_eq!(is_virtual(root), Ok(true));
        std::fs::remove_file(root.join("sys/class/dmi/id/sys_vendor")).unwrap();
        std::fs::write(root.join("proc/cpuinfo"), "flags: fpu hypervisor\n").unwrap();
        assert_eq!(is_virtual(root), Ok(true));
    }
}
