//! The path of the running test, for tests that start their own program again with `--exact PATH`: in a sandbox, on a booted host,
//! as another user.
//!
//! The test harness gives each test a thread that has the path as its name, so no test has to know in which module it is.

/// The path of the test that runs on this thread: `module::name`.
///
/// # Panics
///
/// On a thread that is not the one of a test.
#[track_caller]
pub fn path() -> String {
    let thread = std::thread::current();
    match thread.name() {
        Some(name) if name != "main" => name.to_owned(),
        _ => panic!("this is not the thread of a test: ask on that one for the path"),
    }
}

/// The path of another test in the module of the test that runs on this thread.
///
/// # Panics
///
/// On a thread that is not the one of a test.
#[track_caller]
pub fn sibling(name: &str) -> String {
    match path().rsplit_once("::") {
        Some((module, _)) => format!("{module}::{name}"),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_is_that_of_the_test_and_siblings_are_beside_it() {
        assert_eq!(path(), "current_test::tests::the_path_is_that_of_the_test_and_siblings_are_beside_it");
        assert_eq!(sibling("other"), "current_test::tests::other");
    }
}
