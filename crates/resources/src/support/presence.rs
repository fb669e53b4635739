//! Whether something is to be there: the parameter `state` of several kinds.

use mgmt_resource::Invalid;
use mgmt_value::Str;

/// What a valid `state` means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    Exists,
    Absent,
}

impl Presence {
    pub(crate) fn read(state: &Str) -> Result<Presence, Invalid> {
        match state.as_bytes() {
            b"exists" => Ok(Presence::Exists),
            b"absent" => Ok(Presence::Absent),
            b"" => Err(Invalid::field("state", "is missing; expected `exists` or `absent`")),
            _ => Err(Invalid::field("state", format!("expected `exists` or `absent`, found {state:?}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_is_one_of_two_words() {
        assert_eq!(Presence::read(&"exists".into()), Ok(Presence::Exists));
        assert_eq!(Presence::read(&"absent".into()), Ok(Presence::Absent));
        assert!(Presence::read(&Str::EMPTY).unwrap_err().message.contains("is missing"));
        assert!(Presence::read(&"present".into()).unwrap_err().message.contains("found \"present\""));
    }
}
