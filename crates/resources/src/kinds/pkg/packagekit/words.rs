//! What the numbers of PackageKit mean.

/// What a transaction is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Status(pub(super) u32);

impl Status {
    pub(super) fn words(self) -> &'static str {
        match self.0 {
            1 => "waiting for its turn",
            2 => "starting",
            3 => "working",
            4 | 5 => "looking up packages",
            6 => "removing",
            7 => "fetching the package lists",
            8 => "downloading",
            9 => "installing",
            10 => "updating",
            11 | 12 => "cleaning up",
            13 => "finding out what else is needed",
            14 => "checking signatures",
            15 => "trying the changes out",
            16 => "making the changes",
            17 => "preparing",
            18 => "finishing",
            19 => "stopping",
            20..=25 => "downloading package lists",
            26 => "repackaging",
            27..=29 => "reading the package lists",
            30 => "waiting until another program releases the package database",
            31 => "waiting for permission",
            32..=34 => "looking at what runs",
            35 => "copying files",
            36 => "running hooks",
            _ => "working",
        }
    }

    /// Whether people want to know.
    pub(super) fn is_news(self) -> bool {
        matches!(self.0, 6..=10 | 16 | 20..=25 | 30 | 31)
    }
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Exit(pub(super) u32);

impl Exit {
    pub(super) const SUCCESS: Exit = Exit(1);

    pub(super) fn is_cancelled(self) -> bool {
        matches!(self.0, 3 | 6 | 9)
    }

    pub(super) fn words(self) -> &'static str {
        match self.0 {
            3 | 9 => "somebody has cancelled the transaction",
            4 => "it needs a key that this host does not have",
            5 => "it needs somebody to accept a license",
            6 => "somebody has ended the transaction",
            7 => "it needs another disc",
            8 => "nobody has signed the package",
            11 => "the package database has to be repaired first",
            _ => "it has ended without saying why",
        }
    }

    /// The complaint that says the same.
    pub(super) fn code(self) -> Code {
        match self.0 {
            3 | 6 | 9 => Code(17),
            4 | 8 => Code(31),
            5 => Code(34),
            _ => Code(0),
        }
    }
}

/// What the daemon complains about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Code(pub(super) u32);

impl Code {
    /// It wants a network, and believes that there is none.
    pub(super) const NO_NETWORK: Code = Code(2);
    /// The lists name files that are not there any more.
    pub(super) const DOWNLOAD_FAILED: Code = Code(10);
    /// Somebody else is at work.
    pub(super) const LOCKED: Code = Code(26);

    /// What can be done about it.
    pub(super) fn hint(self) -> Option<&'static str> {
        Some(match self.0 {
            5 | 30 | 31 | 50 | 51 => {
                "set up the key of that package source, or set `allowuntrusted => true` to install what nobody has \
                 signed"
            }
            8 | 42 => "check the spelling, and that a package source of this host has it",
            9 | 41 => "set `allowdowngrade => true` to install an older version",
            10 | 43 | 64 => "see whether the package sources can be reached",
            13 | 35 | 36 => "see which packages contradict each other",
            17 => "somebody else has stopped it; it is tried again with the next change or retry",
            20 => "the host does not work without it; remove it by hand if that is meant",
            26 | 67 => "another program is installing packages; wait until it is done",
            34 => "accept the license by hand: install the package once with another tool",
            39 => "release the package; it is on hold or excluded",
            46 => "make room on that file system",
            48 => "run as root",
            56..=59 => {
                "a script of the package has failed; journalctl --unit packagekit and the log of the package \
                        tools have what it said"
            }
            _ => return None,
        })
    }
}
