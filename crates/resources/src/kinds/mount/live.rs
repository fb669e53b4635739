//! What is mounted now.

use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use mgmt_resource::{Result, ResultExt};
use mgmt_sys::mount_table::unescape;
use mgmt_value::Str;

use super::Mount;
use super::options::{self, Options, contradicted};

const TABLE: &str = "/proc/self/mountinfo";
/// Where devices are found by what is written on them.
const TAGS: [(&str, &str); 4] = [
    ("UUID=", "/dev/disk/by-uuid/"),
    ("LABEL=", "/dev/disk/by-label/"),
    ("PARTUUID=", "/dev/disk/by-partuuid/"),
    ("PARTLABEL=", "/dev/disk/by-partlabel/"),
];

/// Something that is mounted.
#[derive(Debug)]
pub(super) struct Mounted {
    /// The number of the device, `8:1`.
    device: String,
    point: Vec<u8>,
    mount: Options,
    kind: Vec<u8>,
    source: Vec<u8>,
    file_system: Options,
}

/// How what is mounted differs from what is declared.
#[derive(Debug, PartialEq)]
pub(super) enum Difference {
    /// Something else is mounted.
    Other(String),
    /// This option is not as declared.
    Option(Str),
}

/// Whether a type of file system is on a device. A type that the kernel does not know yet is.
pub(super) fn needs_device(kind: &[u8]) -> bool {
    let known = std::fs::read("/proc/filesystems").unwrap_or_default();
    !known.split(|byte| *byte == b'\n').any(|line| line.strip_prefix(b"nodev\t") == Some(kind))
}

/// What is mounted at a mount point, the topmost last.
pub(super) fn at(point: &[u8]) -> Result<Vec<Mounted>> {
    let table = std::fs::read(TABLE).context(format_args!("cannot read {TABLE}"))?;
    let lines = table.split(|byte| *byte == b'\n');
    Ok(lines.filter_map(Mounted::read).filter(|mounted| mounted.point == point).collect())
}

impl Mounted {
    /// Reads `36 35 98:0 /root /point rw,noatime master:1 - ext3 /dev/root rw,errors=continue`.
    fn read(line: &[u8]) -> Option<Mounted> {
        let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        let dash = fields.iter().skip(6).position(|field| *field == b"-")? + 6;
        let [kind, source, file_system] = fields.get(dash + 1..dash + 4)? else { return None };
        Some(Mounted {
            device: String::from_utf8_lossy(fields[2]).into_owned(),
            point: unescape(fields[4]),
            mount: options::read(fields[5]),
            kind: unescape(kind),
            source: unescape(source),
            file_system: options::read(file_system),
        })
    }

    pub(super) fn difference(&self, wanted: &Mount) -> Option<Difference> {
        let is_bind = options::is_bind(&wanted.options);
        if !is_bind && !is_type(&wanted.r#type, &self.kind) {
            return Some(Difference::Other(Str::new(&self.kind).display().to_string()));
        }
        let is_device = match is_bind {
            true => is_same_directory(&wanted.device, &self.point),
            false => self.is_device(&wanted.device),
        };
        if !is_device {
            return Some(Difference::Other(Str::new(&self.source).display().to_string()));
        }
        contradicted(&wanted.options, &self.mount, &self.file_system).map(Difference::Option)
    }

    /// Whether this is what a declared device means.
    fn is_device(&self, wanted: &Str) -> bool {
        if self.source == wanted.as_bytes() {
            return true;
        }
        let tag = TAGS.iter().find_map(|(tag, place)| Some((place, wanted.strip_prefix(tag.as_bytes())?)));
        let path = match tag {
            Some((place, label)) => {
                let label =
                    label.strip_prefix(b"\"").and_then(|label| label.strip_suffix(b"\"")).unwrap_or(label);
                PathBuf::from(std::ffi::OsString::from_vec([place.as_bytes(), &tagged(label)].concat()))
            }
            None => wanted.as_path().to_owned(),
        };
        if !path.is_absolute() {
            return false;
        }
        let Ok(found) = std::fs::metadata(&path) else { return false };
        if found.file_type().is_block_device() {
            let number = found.rdev();
            return self.device == format!("{}:{}", rustix::fs::major(number), rustix::fs::minor(number));
        }
        // An image that the kernel sees through a loop device.
        let backing = std::fs::read(format!("/sys/dev/block/{}/loop/backing_file", self.device));
        let backing =
            backing.ok().map(|path| PathBuf::from(std::ffi::OsStr::from_bytes(path.trim_ascii_end())));
        backing.is_some() && backing == std::fs::canonicalize(&path).ok()
    }
}

/// Whether a declared type means what is mounted.
fn is_type(wanted: &[u8], kind: &[u8]) -> bool {
    match wanted {
        b"auto" => true,
        b"nfs" => matches!(kind, b"nfs" | b"nfs4"),
        _ => {
            wanted == kind
                || (kind.starts_with(b"fuse")
                    && kind.strip_prefix(wanted).is_some_and(|rest| rest.starts_with(b".")))
        }
    }
}

/// Names below `/dev/disk` have all but plain signs escaped.
fn tagged(label: &[u8]) -> Vec<u8> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"#+-.:=@_".contains(&byte) || byte >= 0x80;
    let sign = |byte: &u8| match is_plain(*byte) {
        true => vec![*byte],
        false => format!("\\x{byte:02x}").into_bytes(),
    };
    label.iter().flat_map(sign).collect()
}

fn is_same_directory(one: &Str, other: &[u8]) -> bool {
    let number = |path: &Path| std::fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
    let (one, other) = (number(one.as_path()), number(Path::new(std::ffi::OsStr::from_bytes(other))));
    one.is_some() && one == other
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_kernel_is_read() {
        let line = br"36 35 98:0 /mnt1 /mnt/a\040b rw,noatime master:1 shared:2 - tmpfs some\040where rw,size=10240k";
        let mounted = Mounted::read(line).unwrap();
        assert_eq!((&mounted.point[..], &mounted.source[..]), (&b"/mnt/a b"[..], &b"some where"[..]));
        let options = options::read(b"noatime,size=10m");
        let wanted =
            Mount { r#type: "tmpfs".into(), device: "some where".into(), options, ..Mount::default() };
        assert_eq!(mounted.difference(&wanted), None);
        let other = Mount { r#type: "ext4".into(), ..wanted.clone() };
        assert_eq!(mounted.difference(&other), Some(Difference::Other("tmpfs".into())));
        let other = Mount { device: "elsewhere".into(), ..wanted.clone() };
        assert_eq!(mounted.difference(&other), Some(Difference::Other("some where".into())));
        let other = Mount { options: options::read(b"ro"), ..wanted };
        assert_eq!(mounted.difference(&other), Some(Difference::Option("ro".into())));
        for strange in [&b""[..], b"36 35", b"36 35 98:0 / / rw -", b"1 2 3 4 5 6 - a b"] {
            assert!(Mounted::read(strange).is_none());
        }
    }

    #[test]
    fn types_are_compared_by_what_they_become() {
        assert!(is_type(b"nfs", b"nfs4") && is_type(b"auto", b"xfs") && is_type(b"fuse", b"fuse.sshfs"));
        assert!(!is_type(b"ext4", b"ext3") && !is_type(b"ext", b"ext.x"));
        assert_eq!(tagged(b"a b/c"), br"a\x20b\x2fc");
    }
}
