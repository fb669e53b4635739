//! The `mgmt` program.
fn main() {}
