//! What the journal of the system knows messages by: with such a number, its catalogue explains what a message means.
//!
//! Each is in `contrib/systemd/mgmt.catalog`, too. A number is for ever.

/// A resource was put right.
pub(super) const CHANGED: &str = "273d662a212c5f301338f38a57b8c344";
/// A resource could not be put right this time.
pub(super) const FAILED: &str = "1e2f62c3d98fc195a061349fa99f72c0";
/// A resource is not tried again.
pub(super) const FAILED_FOR_GOOD: &str = "4b77fb4910ce17145b49acbe6750bcb2";
/// Something undoes a resource again and again.
pub(super) const UNDONE: &str = "6ef42ee29039ac9a926fee7ff8cd2089";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_catalogue_explains_each_of_them_and_nothing_else() {
        let catalogue = include_str!("../../../../contrib/systemd/mgmt.catalog");
        let mut known: Vec<&str> = catalogue.lines().filter_map(|line| line.strip_prefix("-- ")).collect();
        let mut ours = [CHANGED, FAILED, FAILED_FOR_GOOD, UNDONE];
        known.sort_unstable();
        ours.sort_unstable();
        assert_eq!(known, ours);
        for id in ours {
            assert!(id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
        }
    }
}
