//! Messages about devices: `action@path`, then `NAME=value` lines, each ended by a zero.

/// The subsystem that a message is about.
pub(super) fn subsystem(message: &[u8]) -> Option<String> {
    let mut lines = message.split(|byte| *byte == 0);
    // Not a message of the kernel, whoever sent it.
    lines.next().filter(|title| title.contains(&b'@'))?;
    let subsystem = lines.find_map(|line| line.strip_prefix(b"SUBSYSTEM="))?;
    String::from_utf8(subsystem.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_its_subsystem() {
        let message = b"online@/devices/system/cpu/cpu1\0ACTION=online\0SUBSYSTEM=cpu\0SEQNUM=7\0";
        assert_eq!(subsystem(message).as_deref(), Some("cpu"));
    }

    #[test]
    fn what_is_no_such_message_is_about_nothing() {
        for message in
            [&b""[..], b"\0", b"libudev\0SUBSYSTEM=cpu\0", b"add@/x\0ACTION=add", b"add@/x\0SUBSYSTEM=\xff\0"]
        {
            assert_eq!(subsystem(message), None, "{message:?}");
        }
    }
}
