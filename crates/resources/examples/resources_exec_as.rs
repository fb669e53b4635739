//! The smallest program that can change credentials for others; the tests of this crate use it as their helper.

fn main() {
    mgmt_sys::process::exec_as_entry();
    std::process::exit(64);
}
