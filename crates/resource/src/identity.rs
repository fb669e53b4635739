//! Identities: what a resource provides, and what it wants to stand before or after. Automatic edges come of it.

use mgmt_value::Str;

/// Something that a resource is, or brings along.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Identity {
    /// A managed path; a directory ends in a slash.
    Path(Str),
    /// A package.
    Package(Str),
    /// A file that a package ships.
    PackageFile(Str),
    /// A unit of the service manager.
    Unit {
        /// Its full name.
        name: Str,
        /// The session's manager and not the system's.
        session: bool,
    },
    /// A timer made by a `cron` resource.
    Cron {
        /// The unit.
        name: Str,
        /// The session's manager and not the system's.
        session: bool,
    },
    /// A user, by name.
    User(Str),
    /// A user, by number.
    UserNumber(u32),
    /// A group, by name.
    Group(Str),
    /// A group, by number.
    GroupNumber(u32),
    /// Anything else, told apart by a word.
    Other(&'static str, Str),
}

/// Which of the two comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The provider comes before me.
    Before,
    /// The provider comes after me.
    After,
}

/// A wish for an edge to whatever provides something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Want {
    /// An edge to each provider that is in the graph.
    Each(Order, Vec<Identity>),
    /// An edge to the first of these that is in the graph.
    First(Order, Vec<Identity>),
    /// The nearest directory above this path that is in the graph comes before me.
    ParentOf(Str),
    /// Any managed path at or below this directory comes before me.
    Below(Str),
}
