//! Wire messages: the part of the protocol of etcd that is used here, field by field.
//!
//! They are written by hand from the published protocol, so that building needs no compiler of interface files. Fields
//! that nobody here reads are left out; a decoder skips what it does not know.

use prost::{Enumeration, Message, Oneof};

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct Header {
    #[prost(uint64, tag = "1")]
    pub(super) cluster: u64,
    #[prost(uint64, tag = "2")]
    pub(super) member: u64,
    #[prost(int64, tag = "3")]
    pub(super) revision: i64,
    #[prost(uint64, tag = "4")]
    pub(super) term: u64,
}

/// The answer to many questions, of which only the header matters.
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct Done {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<Header>,
}

/// A question without anything to say.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct Ask {}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct KeyValue {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
    #[prost(int64, tag = "2")]
    pub(super) created: i64,
    #[prost(int64, tag = "3")]
    pub(super) modified: i64,
    #[prost(int64, tag = "4")]
    pub(super) version: i64,
    #[prost(bytes = "vec", tag = "5")]
    pub(super) value: Vec<u8>,
    #[prost(int64, tag = "6")]
    pub(super) lease: i64,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct Range {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) end: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub(super) limit: i64,
    #[prost(int64, tag = "4")]
    pub(super) revision: i64,
    #[prost(bool, tag = "8")]
    pub(super) keys_only: bool,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct RangeDone {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<Header>,
    #[prost(message, repeated, tag = "2")]
    pub(super) entries: Vec<KeyValue>,
    #[prost(bool, tag = "3")]
    pub(super) more: bool,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct Put {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) value: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub(super) lease: i64,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct Delete {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct Operation {
    #[prost(oneof = "OperationKind", tags = "1, 2, 3")]
    pub(super) kind: Option<OperationKind>,
}

#[derive(Clone, PartialEq, Eq, Oneof)]
pub(super) enum OperationKind {
    #[prost(message, tag = "1")]
    Range(Range),
    #[prost(message, tag = "2")]
    Put(Put),
    #[prost(message, tag = "3")]
    Delete(Delete),
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct OperationDone {
    #[prost(message, optional, tag = "1")]
    pub(super) range: Option<RangeDone>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct Compare {
    #[prost(enumeration = "Relation", tag = "1")]
    pub(super) relation: i32,
    #[prost(enumeration = "Aspect", tag = "2")]
    pub(super) aspect: i32,
    #[prost(bytes = "vec", tag = "3")]
    pub(super) key: Vec<u8>,
    #[prost(oneof = "Compared", tags = "4, 5, 6, 7")]
    pub(super) with: Option<Compared>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub(super) enum Relation {
    Equal = 0,
    Greater = 1,
    Less = 2,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub(super) enum Aspect {
    Version = 0,
    Created = 1,
    Modified = 2,
    Value = 3,
}

#[derive(Clone, PartialEq, Eq, Oneof)]
pub(super) enum Compared {
    #[prost(int64, tag = "4")]
    Version(i64),
    #[prost(int64, tag = "5")]
    Created(i64),
    #[prost(int64, tag = "6")]
    Modified(i64),
    #[prost(bytes, tag = "7")]
    Value(Vec<u8>),
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct Txn {
    #[prost(message, repeated, tag = "1")]
    pub(super) compares: Vec<Compare>,
    #[prost(message, repeated, tag = "2")]
    pub(super) success: Vec<Operation>,
    #[prost(message, repeated, tag = "3")]
    pub(super) failure: Vec<Operation>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct TxnDone {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<Header>,
    #[prost(bool, tag = "2")]
    pub(super) succeeded: bool,
    #[prost(message, repeated, tag = "3")]
    pub(super) answers: Vec<OperationDone>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct Compact {
    #[prost(int64, tag = "1")]
    pub(super) revision: i64,
    #[prost(bool, tag = "2")]
    pub(super) physical: bool,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct WatchAsk {
    #[prost(oneof = "WatchAskKind", tags = "1, 2")]
    pub(super) kind: Option<WatchAskKind>,
}

#[derive(Clone, PartialEq, Eq, Oneof)]
pub(super) enum WatchAskKind {
    #[prost(message, tag = "1")]
    Create(WatchCreate),
    #[prost(message, tag = "2")]
    Cancel(WatchCancel),
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct WatchCreate {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) end: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub(super) start: i64,
    #[prost(bool, tag = "4")]
    pub(super) progress: bool,
    #[prost(int64, tag = "7")]
    pub(super) id: i64,
    #[prost(bool, tag = "8")]
    pub(super) fragment: bool,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct WatchCancel {
    #[prost(int64, tag = "1")]
    pub(super) id: i64,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct WatchNews {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<Header>,
    #[prost(int64, tag = "2")]
    pub(super) id: i64,
    #[prost(bool, tag = "3")]
    pub(super) created: bool,
    #[prost(bool, tag = "4")]
    pub(super) canceled: bool,
    #[prost(int64, tag = "5")]
    pub(super) compacted: i64,
    #[prost(string, tag = "6")]
    pub(super) reason: String,
    #[prost(bool, tag = "7")]
    pub(super) fragment: bool,
    #[prost(message, repeated, tag = "11")]
    pub(super) events: Vec<Event>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct Event {
    #[prost(enumeration = "EventKind", tag = "1")]
    pub(super) kind: i32,
    #[prost(message, optional, tag = "2")]
    pub(super) entry: Option<KeyValue>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub(super) enum EventKind {
    Put = 0,
    Delete = 1,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct LeaseGrant {
    #[prost(int64, tag = "1")]
    pub(super) seconds: i64,
}

/// The answer to granting a lease, and to keeping one.
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct LeaseDone {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<Header>,
    #[prost(int64, tag = "2")]
    pub(super) id: i64,
    #[prost(int64, tag = "3")]
    pub(super) seconds: i64,
    #[prost(string, tag = "4")]
    pub(super) error: String,
}

/// Names a lease that is to be kept or revoked.
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct LeaseAsk {
    #[prost(int64, tag = "1")]
    pub(super) id: i64,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct Member {
    #[prost(uint64, tag = "1")]
    pub(super) id: u64,
    #[prost(string, tag = "2")]
    pub(super) name: String,
    #[prost(string, repeated, tag = "3")]
    pub(super) peer_urls: Vec<String>,
    #[prost(string, repeated, tag = "4")]
    pub(super) client_urls: Vec<String>,
    #[prost(bool, tag = "5")]
    pub(super) learner: bool,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct MemberAdd {
    #[prost(string, repeated, tag = "1")]
    pub(super) peer_urls: Vec<String>,
    #[prost(bool, tag = "2")]
    pub(super) learner: bool,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct MemberAdded {
    #[prost(message, optional, tag = "2")]
    pub(super) member: Option<Member>,
}

/// Names a member that is to be removed, promoted or made leader.
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct MemberAsk {
    #[prost(uint64, tag = "1")]
    pub(super) id: u64,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct MemberList {
    #[prost(bool, tag = "1")]
    pub(super) linearizable: bool,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct Members {
    #[prost(message, repeated, tag = "2")]
    pub(super) members: Vec<Member>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct StatusDone {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<Header>,
    #[prost(string, tag = "2")]
    pub(super) version: String,
    #[prost(int64, tag = "3")]
    pub(super) size: i64,
    #[prost(uint64, tag = "4")]
    pub(super) leader: u64,
    #[prost(uint64, tag = "5")]
    pub(super) index: u64,
    #[prost(uint64, tag = "6")]
    pub(super) term: u64,
    #[prost(uint64, tag = "7")]
    pub(super) applied: u64,
    #[prost(string, repeated, tag = "8")]
    pub(super) errors: Vec<String>,
    #[prost(int64, tag = "9")]
    pub(super) size_in_use: i64,
    #[prost(bool, tag = "10")]
    pub(super) learner: bool,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct AlarmAsk {
    #[prost(int32, tag = "1")]
    pub(super) action: i32,
    #[prost(uint64, tag = "2")]
    pub(super) member: u64,
    #[prost(int32, tag = "3")]
    pub(super) alarm: i32,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct Alarms {
    #[prost(message, repeated, tag = "2")]
    pub(super) alarms: Vec<AlarmMember>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct AlarmMember {
    #[prost(uint64, tag = "1")]
    pub(super) member: u64,
    #[prost(int32, tag = "2")]
    pub(super) alarm: i32,
}

#[derive(Clone, PartialEq, Eq, Message)]
#[prost(skip_debug)]
pub(super) struct Authenticate {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) password: String,
}

impl std::fmt::Debug for Authenticate {
    /// Without the password.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Authenticate").field("name", &self.name).finish_non_exhaustive()
    }
}

#[derive(Clone, PartialEq, Eq, Message)]
#[prost(skip_debug)]
pub(super) struct Authenticated {
    #[prost(string, tag = "2")]
    pub(super) token: String,
}

impl std::fmt::Debug for Authenticated {
    /// Without the token.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Authenticated").finish_non_exhaustive()
    }
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct RoleName {
    #[prost(string, tag = "1")]
    pub(super) name: String,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct GrantRole {
    #[prost(string, tag = "1")]
    pub(super) user: String,
    #[prost(string, tag = "2")]
    pub(super) role: String,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct GrantRange {
    #[prost(string, tag = "1")]
    pub(super) role: String,
    #[prost(message, optional, tag = "2")]
    pub(super) permission: Option<Permission>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct Permission {
    #[prost(int32, tag = "1")]
    pub(super) what: i32,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    pub(super) end: Vec<u8>,
}
