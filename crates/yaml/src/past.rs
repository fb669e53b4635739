//! What older graphs carry and this version has not, or not yet.

/// A parameter that a kind once had.
#[derive(Debug)]
pub(crate) struct Removed {
    kind: &'static str,
    key: &'static str,
    /// What its value becomes.
    pub(crate) instead: Instead,
    /// What to write instead.
    pub(crate) hint: &'static str,
}

/// What takes the place of a removed parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Instead {
    /// The metaparameter `timeout`, which counts milliseconds where the parameter counted seconds.
    Timeout,
    /// The metaparameter `poll`.
    Poll,
    /// Nothing.
    Nothing,
}

const REMOVED: &[Removed] = &[
    Removed {
        kind: "exec",
        key: "timeout",
        instead: Instead::Timeout,
        hint: "write `meta: {timeout: 10000}`, in milliseconds; seconds that are given here and are not 0 are \
               taken over",
    },
    Removed {
        kind: "exec",
        key: "pollint",
        instead: Instead::Poll,
        hint: "write `meta: {poll: 10}`, in seconds; a number that is given here and is not 0 is taken over",
    },
    Removed {
        kind: "exec",
        key: "state",
        instead: Instead::Nothing,
        hint: "leave it out: a command has no state of its own; guard it with `ifcmd`, `nifcmd` or `creates`",
    },
];

/// Looks a parameter up that a kind no longer has.
pub(crate) fn removed(kind: &str, key: &str) -> Option<&'static Removed> {
    REMOVED.iter().find(|removed| removed.kind == kind && removed.key == key)
}

/// Whether a kind is known to exist elsewhere.
pub(crate) fn exists_elsewhere(kind: &str) -> bool {
    KINDS_ELSEWHERE.contains(&kind)
}

const KINDS_ELSEWHERE: &[&str] = &[
    "augeas",
    "aws:ec2",
    "bmc:firmware",
    "bmc:power",
    "config:etcd",
    "consul:kv",
    "cron",
    "deploy:tar",
    "dhcp:host",
    "dhcp:range",
    "dhcp:server",
    "docker:container",
    "docker:image",
    "exec",
    "exit",
    "file",
    "firewalld",
    "fwattr",
    "fwupd:device",
    "fwupd:remote",
    "fwupd:system",
    "group",
    "gsettings",
    "gzip",
    "hetzner:vm",
    "hostname",
    "http:client",
    "http:server",
    "http:server:file",
    "http:server:flag",
    "http:server:proxy",
    "http:server:ui",
    "http:server:ui:input",
    "json:edit",
    "kv",
    "line",
    "mount",
    "msg",
    "net",
    "noop",
    "nspawn",
    "password",
    "pippet",
    "pkg",
    "print",
    "remote",
    "schedule",
    "ssh:authorized_key",
    "svc",
    "sysctl",
    "tar",
    "test",
    "tftp:file",
    "tftp:server",
    "timer",
    "user",
    "value",
    "virt",
    "virt:builder",
    "virt:network",
    "virt:network:host",
    "virt:network:range",
];
