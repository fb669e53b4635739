//! Call failures: what went wrong with a call, and what follows from it.

use std::error::Error;

use tonic::{Code, Status};

use super::settings::said;
use mgmt_store::StoreError;

/// What went wrong with a call, by what may be done about it.
#[derive(Clone, Debug)]
pub(super) enum Failure {
    /// Nothing has been done. Another server may be asked.
    Untried(String),
    /// Nobody knows whether it has been done. Another server may be asked only if doing it twice is no harm.
    Unknown(String),
    /// Nothing has been done, since our proof of who we are has run out.
    Token(String),
    /// The answer does not fit into the memory that is set aside for one.
    TooLarge,
    /// The revision that was asked for is history.
    Compacted,
    /// The server has understood, and says no.
    Answer(Answer),
}

/// What a server said no with.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) code: Code,
    pub(super) text: String,
}

impl Failure {
    /// What a failed call means.
    ///
    /// What the server itself says about its state comes with its name in front. Everything else comes from what is
    /// between us and it, and then nobody knows how far a call has come, unless the connection was never there.
    pub(super) fn of(status: &Status) -> Self {
        if was_never_sent(status) {
            return Failure::Untried(reason(status));
        }
        if status.source().is_some() {
            return Failure::Unknown(reason(status));
        }
        let text = plain(status.message());
        let Some(own) = text.strip_prefix("etcdserver: ") else {
            return Self::of_stranger(status.code(), text);
        };
        match own {
            "no leader" | "too many requests" | "not capable" | "rpc not supported for learner" => {
                Failure::Untried(own.to_owned())
            }
            "mvcc: required revision has been compacted" => Failure::Compacted,
            "invalid auth token" | "user name is empty" | "revision of auth store is old" => {
                Failure::Token(own.to_owned())
            }
            _ => match status.code() {
                Code::Unavailable
                | Code::DeadlineExceeded
                | Code::Cancelled
                | Code::Unknown
                | Code::Internal => Failure::Unknown(own.to_owned()),
                code => Failure::Answer(Answer { code, text: own.to_owned() }),
            },
        }
    }

    /// What a failure means that does not come from the inside of etcd.
    fn of_stranger(code: Code, text: String) -> Self {
        match code {
            Code::OutOfRange if text.contains("decoded message length too large") => Failure::TooLarge,
            Code::ResourceExhausted if text.contains("larger than max") => Failure::Answer(Answer {
                code: Code::InvalidArgument,
                text: "request is too large".to_owned(),
            }),
            Code::Unknown if text == "raft proposal dropped" => Failure::Untried(text),
            Code::Unauthenticated => Failure::Token(text),
            Code::Unimplemented | Code::PermissionDenied | Code::InvalidArgument => {
                Failure::Answer(Answer { code, text })
            }
            _ => Failure::Unknown(text),
        }
    }

    /// The failure of a call that changes nothing, or that may be repeated without harm.
    pub(super) fn of_read(self) -> StoreError {
        match self {
            Failure::Untried(reason) | Failure::Unknown(reason) => StoreError::Unreachable { reason },
            Failure::Token(reason) if reason == "user name is empty" => {
                StoreError::Refused { reason: "this etcd asks for a user and a password".to_owned() }
            }
            Failure::Token(reason) => StoreError::Refused { reason },
            Failure::TooLarge => StoreError::Refused {
                reason: "one entry of etcd is larger than anything that can have been stored there"
                    .to_owned(),
            },
            Failure::Compacted => StoreError::Unreachable {
                reason: "etcd forgot its history faster than it could be read".to_owned(),
            },
            Failure::Answer(answer) => answer.explained(),
        }
    }

    /// The failure of a call that makes a change.
    pub(super) fn of_change(self) -> StoreError {
        match self {
            Failure::Unknown(reason) => StoreError::Unreachable {
                reason: format!("{reason}; it is not known whether the change was made"),
            },
            other => other.of_read(),
        }
    }
}

impl Answer {
    pub(super) fn is_lease_gone(&self) -> bool {
        self.code == Code::NotFound && self.text.contains("lease not found")
    }

    /// What the server said, for those who have to do something about it.
    fn explained(self) -> StoreError {
        if self.is_lease_gone() {
            return StoreError::LeaseEnded;
        }
        let reason = match self.text.as_str() {
            "request is too large" => {
                "the request is larger than etcd takes at once (1.5 MiB unless its --max-request-bytes says otherwise)"
                    .to_owned()
            }
            "too many operations in txn request" => {
                "the transaction has more operations than etcd takes (128 unless its --max-txn-ops says otherwise)"
                    .to_owned()
            }
            "permission denied" => {
                "the user may not do this; grant its role in etcd the range of keys below the namespace".to_owned()
            }
            "authentication failed, invalid user ID or password" => "the user or the password is wrong".to_owned(),
            "mvcc: database space exceeded" => {
                // Passes as soon as somebody makes room, so it is no refusal.
                let reason = "the database of etcd is full: compact it, defragment it, and disarm its alarm";
                return StoreError::Unreachable { reason: reason.to_owned() };
            }
            _ => self.text,
        };
        StoreError::Refused { reason }
    }
}

/// Whether the connection was not even there.
fn was_never_sent(status: &Status) -> bool {
    let mut cause = status.source();
    while let Some(error) = cause {
        if error.is::<tonic::ConnectError>() {
            return true;
        }
        cause = error.source();
    }
    false
}

fn reason(status: &Status) -> String {
    match status.source() {
        Some(source) => plain(&said(source)),
        None => plain(status.message()),
    }
}

/// Text of a stranger: of bounded length, without anything that moves a terminal.
pub(super) fn plain(text: &str) -> String {
    const LONGEST: usize = 300;
    let text = text.trim();
    let text = if text.is_empty() { "no reason was given" } else { text };
    let mut shown: String =
        text.chars().take(LONGEST).map(|each| if each.is_control() { ' ' } else { each }).collect();
    if text.chars().nth(LONGEST).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_whose_fate_is_unknown_says_so_and_others_do_not() {
        for (status, unknown) in [
            (Status::unavailable("etcdserver: request timed out"), true),
            (Status::unavailable("etcdserver: leader changed"), true),
            (Status::internal("whatever"), true),
            (Status::unavailable("etcdserver: no leader"), false),
            (Status::resource_exhausted("etcdserver: too many requests"), false),
        ] {
            let error = Failure::of(&status).of_change();
            assert!(error.is_passing(), "{error}");
            assert_eq!(error.to_string().contains("not known whether"), unknown, "{error}");
        }
    }

    #[test]
    fn a_refusal_says_what_to_do() {
        for (status, expected) in [
            (Status::invalid_argument("etcdserver: request is too large"), "1.5 MiB"),
            (Status::resource_exhausted("grpc: received message larger than max (9 vs. 8)"), "1.5 MiB"),
            (Status::invalid_argument("etcdserver: too many operations in txn request"), "128"),
            (Status::permission_denied("etcdserver: permission denied"), "grant its role"),
        ] {
            let error = Failure::of(&status).of_change();
            assert!(!error.is_passing() && error.to_string().contains(expected), "{error}");
        }
    }

    #[test]
    fn text_of_a_stranger_is_short_and_harmless() {
        let shown = plain(&format!("\x1b[2J{}", "x".repeat(10_000)));
        assert!(shown.len() < 400 && !shown.contains('\x1b'), "{shown}");
    }
}
