//! What may be told of a panic.

use std::any::Any;
use std::borrow::Cow;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The forms of messages that the language puts together, with `#` for a number. What stands behind `…` may be any value.
const FORMS: &[&str] = &[
    "index out of bounds: the len is # but the index is #",
    "range start index # out of range for slice of length #",
    "range end index # out of range for slice of length #",
    "slice index starts at # but ends at #",
    "mid > len: mid = #, len = #",
    "copy_from_slice: source slice length (#) does not match destination slice length (#)",
    "byte index # is not a char boundary…",
    "start byte index # is not a char boundary…",
    "end byte index # is not a char boundary…",
    "byte index # is out of bounds…",
    "start byte index # is out of bounds…",
    "end byte index # is out of bounds…",
    "begin <= end (# <= #) when slicing…",
    "called `Result::unwrap()` on an `Err` value…",
    "called `Result::unwrap_err()` on an `Ok` value…",
    "called `Result::expect_err()` on an `Ok` value…",
    "assertion `left == right` failed…",
    "assertion `left != right` failed…",
    "internal error: entered unreachable code…",
    "not implemented…",
    "not yet implemented…",
    "already borrowed: BorrowMutError",
    "already mutably borrowed: BorrowError",
    "RefCell already borrowed",
    "RefCell already mutably borrowed",
    "failed to spawn thread…",
    "OS can't spawn worker thread…",
];

/// What may be shown of a panic: words that stand in the source of a program, and numbers that the language puts there.
///
/// A message that was put together can have any value in it, also one that nobody may see: a text that was cut in the wrong
/// place is told whole by the language, and an error that nobody expected with all that it knows. So of such a message only
/// what is like a known form is shown, up to where values begin.
///
/// ```
/// # use mgmt_value::panic_words;
/// let words = |panics: fn()| panic_words(&*std::panic::catch_unwind(panics).unwrap_err()).into_owned();
/// assert_eq!(words(|| panic!("the queue is empty")), "the queue is empty");
/// assert_eq!(words(|| panic!("{}", String::from("a value"))), mgmt_value::UNSHOWN);
/// ```
pub fn panic_words(payload: &(dyn Any + Send)) -> Cow<'_, str> {
    if let Some(words) = payload.downcast_ref::<&'static str>() {
        return Cow::Borrowed(words);
    }
    let Some(message) = payload.downcast_ref::<String>() else { return Cow::Borrowed("no message") };
    Cow::Borrowed(FORMS.iter().find_map(|form| shown(form, message)).unwrap_or(UNSHOWN))
}

thread_local! {
    static IS_EXPECTED: Cell<bool> = const { Cell::new(false) };
}

/// Calls other people's code that may panic over damaged input. Nothing if it did, and the panic hook [need not tell of
/// it](is_panic_expected).
///
/// ```
/// assert_eq!(mgmt_value::catch_expected_panic(|| 7), Some(7));
/// assert_eq!(mgmt_value::catch_expected_panic(|| panic!("page 3 is damaged")), None::<u8>);
/// assert!(!mgmt_value::is_panic_expected());
/// ```
pub fn catch_expected_panic<T>(work: impl FnOnce() -> T) -> Option<T> {
    let before = IS_EXPECTED.replace(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    IS_EXPECTED.set(before);
    done.ok()
}

/// Whether a panic of this thread is caught by [`catch_expected_panic`].
pub fn is_panic_expected() -> bool {
    IS_EXPECTED.get()
}

/// In place of a message that may have values in it.
pub const UNSHOWN: &str = "(the message may have values in it, and is not shown)";

/// The part of a message that is like a form, if its beginning is.
fn shown<'a>(form: &str, message: &'a str) -> Option<&'a str> {
    let (form, is_whole) = form.strip_suffix('…').map_or((form, true), |form| (form, false));
    let mut rest = message;
    let mut parts = form.split('#');
    rest = rest.strip_prefix(parts.next()?)?;
    for part in parts {
        let after = rest.trim_start_matches(|character: char| character.is_ascii_digit());
        if after.len() == rest.len() {
            return None;
        }
        rest = after.strip_prefix(part)?;
    }
    (rest.is_empty() || !is_whole).then(|| &message[..message.len() - rest.len()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Secret, Str};

    /// In every value that nobody may see.
    const CANARY: &str = "c4n4ry";

    fn words(panics: impl FnOnce() + std::panic::UnwindSafe) -> String {
        panic_words(&*std::panic::catch_unwind(panics).unwrap_err()).into_owned()
    }

    #[test]
    fn words_of_the_source_are_shown() {
        assert_eq!(words(|| panic!("told so")), "told so");
        assert_eq!(
            words(|| std::hint::black_box(None).unwrap()),
            "called `Option::unwrap()` on a `None` value"
        );
        assert_eq!(words(|| std::panic::panic_any(7)), "no message");
    }

    #[test]
    fn numbers_that_the_language_puts_there_are_shown() {
        let (list, at) = (vec![1, 2], std::hint::black_box(7));
        let range = list.clone();
        assert_eq!(
            words(move || _ = std::hint::black_box(list[at])),
            "index out of bounds: the len is 2 but the index is 7"
        );
        assert_eq!(
            words(move || drop(range[..at].to_vec())),
            "range end index 7 out of range for slice of length 2"
        );
    }

    #[test]
    fn no_value_is_shown() {
        let text = || format!("é {CANARY}\u{1b}[31m\nerror: forged");
        let error = || Err::<(), String>(text());
        let secret = || Secret::<Str>::from(CANARY);
        let told = [
            words(move || drop(text()[1..].to_owned())),
            words(move || drop(text()[..999].to_owned())),
            words(move || error().unwrap()),
            words(move || error().expect("it is there")),
            words(move || assert_eq!(text(), "")),
            words(move || panic!("{}", text())),
            words(move || panic!("{:?}", text())),
            words(move || unreachable!("{}", text())),
            words(move || panic!("{:?} {}", secret(), text())),
            words(move || panic!("index out of bounds: the len is 1 but the index is {}", text())),
        ];
        for told in &told {
            assert!(!told.contains(CANARY) && !told.contains(char::is_control), "{told:?}");
        }
        assert!(told[0].contains("byte index 1 is not a char boundary"), "{told:?}");
        assert_eq!(told[2], "called `Result::unwrap()` on an `Err` value");
        assert_eq!(told[3], UNSHOWN);
        assert_eq!(told[9], UNSHOWN);
    }
}
