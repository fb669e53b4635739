//! What a thread has made, for whoever runs work that it does not look into and watches the paths that the work is
//! about: the kernel tells of everything that appears, of our own files too, and such an echo is no news.

use std::cell::Cell;

thread_local! {
    /// Set while [`noting`] runs.
    static MADE: Cell<Option<Made>> = const { Cell::new(None) };
}

/// Which entries came to be that were not there before, complete from the first moment on.
///
/// Of each of them the kernel tells exactly once that it was created, before it tells of anything that happens to it
/// later: it got its name by a hard link, which fails if the name is taken. Entries that replaced others, or that were
/// renamed into place, are not among them: of two renames to one name the kernel may tell once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Made {
    /// None.
    #[default]
    Nothing,
    /// One, with this path as it was opened.
    One(Box<[u8]>),
    /// More than one.
    Several,
}

/// Does `work` and tells what it has made on this thread.
pub fn noting<T>(work: impl FnOnce() -> T) -> (T, Made) {
    let outer = MADE.replace(Some(Made::Nothing));
    let done = work();
    let made = MADE.replace(outer).unwrap_or_default();
    (done, made)
}

/// Notes an entry. The path is only asked for if somebody wants to know.
pub(crate) fn note(path: impl FnOnce() -> Box<[u8]>) {
    let noted = match MADE.take() {
        None => return,
        Some(Made::Nothing) => Made::One(path()),
        Some(Made::One(_) | Made::Several) => Made::Several,
    };
    MADE.set(Some(noted));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_made_meanwhile_on_this_thread_is_told() {
        let one = || note(|| b"/a".as_slice().into());
        one();
        assert_eq!(noting(|| ()).1, Made::Nothing);
        assert_eq!(noting(one).1, Made::One(b"/a".as_slice().into()));
        assert_eq!(noting(|| (one(), one())).1, Made::Several);
        assert_eq!(noting(|| std::thread::spawn(one).join().unwrap()).1, Made::Nothing);
        assert_eq!(noting(|| ()).1, Made::Nothing);
    }
}
