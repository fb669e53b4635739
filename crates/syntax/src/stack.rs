//! Room on the stack for what is deep.

use std::{cell::Cell, io, panic, thread};

/// How deep constructs nest in each other: brackets, blocks, functions, branches, and the links of a chain of operators
/// or of `else if`. What is deeper gives an error.
pub const MAX_DEPTH: u32 = 3000;

/// Up to this depth every stack is large enough. Nearly all programs stay below it.
pub(crate) const SHALLOW: u32 = 64;

/// What a walk may use for each level, and no stack has less than that for [`SHALLOW`] ones. Pages that
/// are not used cost nothing, so this is generous: it must do for builds without optimisation too.
const BYTES_PER_LEVEL: usize = 64 << 10;

thread_local! {
    /// How deep a walk may go on the stack of this thread.
    static CAPACITY: Cell<u32> = const { Cell::new(SHALLOW) };
}

/// Runs a recursive walk over something of this depth, such as [`crate::Parse::depth`], with enough stack for it: right
/// here if that will do, otherwise on a thread of its own with 64 KiB for each level.
///
/// Nodes of a tree cannot be sent to another thread, so `work` takes the [`crate::Parse`] and makes them there. Calls
/// inside of `work` see that there is room already and start no other thread. A panic of `work` goes on in the caller.
///
/// # Errors
///
/// The system has no memory for the stack, or no room for another thread.
pub fn with_deep_stack<T: Send>(depth: u32, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    if has_room_for(depth) {
        return Ok(work());
    }
    let run = || {
        CAPACITY.set(depth);
        work()
    };
    thread::scope(|scope| {
        let thread = thread::Builder::new()
            .name("deep".to_owned())
            .stack_size(BYTES_PER_LEVEL.saturating_mul(depth as usize))
            .spawn_scoped(scope, run)?;
        thread.join().or_else(|panic| panic::resume_unwind(panic))
    })
}

/// A walk of this depth can be made on the stack of this thread.
pub(crate) fn has_room_for(depth: u32) -> bool {
    depth <= CAPACITY.get()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_deep_gets_a_thread_and_only_one() {
        let here = thread::current().id();
        assert_eq!(with_deep_stack(SHALLOW, || thread::current().id()).unwrap(), here);
        let (outer, inner) = with_deep_stack(1000, || {
            let outer = thread::current().id();
            (outer, with_deep_stack(1000, || thread::current().id()).unwrap())
        })
        .unwrap();
        assert_ne!(outer, here);
        assert_eq!(inner, outer);
        assert!(!has_room_for(1000));
    }

    #[test]
    fn a_stack_that_cannot_be_had_is_an_error() {
        assert!(with_deep_stack(u32::MAX, || ()).is_err());
    }

    #[test]
    fn a_panic_reaches_the_caller() {
        let caught = panic::catch_unwind(|| with_deep_stack(1000, || panic::panic_any(7_u8)));
        assert_eq!(caught.unwrap_err().downcast_ref::<u8>(), Some(&7));
    }
}
