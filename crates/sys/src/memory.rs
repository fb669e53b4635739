//! Memory that is about to be used, and memory that is not needed any more.
//!
//! The kernel hands out memory page by page, when a page is touched for the first time, and that takes longer than most of
//! what a program does with the page. Who knows that it is about to fill many megabytes has them handed out beforehand, on
//! another processor. At the end the kernel takes everything back at once, in a fraction of the time that it takes a program to
//! give it back piece by piece.
//!
//! Huge pages would be another way, and a faster one where memory is at hand. A virtual machine often has given its free memory
//! back to its host, in pieces of that size: each huge page is then fetched from there, which took ten times as long.

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::{c_int, c_void};
use std::io::Write as _;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::mm::Advice;

/// The allocator gives each thread stretches of this length, which begin at a multiple of it.
const STRETCH: usize = 32 << 20;
/// How much is asked for at once.
const STEP: usize = 512 << 10;

/// Has the kernel hand out so much memory for what this thread allocates from now on, while it does so. At most what is left of
/// the stretch in which the allocator is.
pub fn ahead(bytes: usize) {
    // Where the allocator has something of this size, it will have more.
    let sample: Box<[u8]> = vec![0; 64 << 10].into();
    let range = range(sample.as_ptr().addr(), bytes);
    // Without a thread, pages come one by one as always.
    let _ = std::thread::Builder::new()
        .name("mgmt-memory".into())
        .spawn(move || range.step_by(STEP).all(|start| hand_out(start..start + STEP)));
}

/// From an address on, in whole steps.
fn range(address: usize, bytes: usize) -> Range<usize> {
    let start = address.next_multiple_of(STEP);
    let end = (address + 1).next_multiple_of(STRETCH).min(start.saturating_add(bytes));
    start..end - end % STEP
}

/// False if the kernel has nothing to hand out there, or does not know how to.
#[expect(unsafe_code, reason = "the call can do harm with other advice")]
fn hand_out(part: Range<usize>) -> bool {
    let start = std::ptr::without_provenance_mut::<c_void>(part.start);
    // SAFETY: this only does now what the kernel would do when these pages are written to. It changes no content, no protection
    // and no mapping, wherever it points.
    unsafe { rustix::mm::madvise(start, part.len(), Advice::LinuxPopulateWrite) }.is_ok()
}

/// The process is about to end.
static LAST_MOMENT: AtomicBool = AtomicBool::new(false);

/// From now on, nothing is given back to the allocator: the process ends in a moment, and gives everything back at once.
pub fn last_moment() {
    LAST_MOMENT.store(true, Ordering::Relaxed);
}

/// Whether the process is about to end.
pub fn is_last_moment() -> bool {
    LAST_MOMENT.load(Ordering::Relaxed)
}

/// Ends the process at once. Whatever is written has been, and nobody tidies up memory that is gone in a moment, as the
/// allocator otherwise does at the end.
pub fn leave(code: u8) -> ! {
    #[expect(unsafe_code, reason = "the declaration is as in `unistd.h`")]
    // SAFETY: it takes a number and does not come back; no state of ours is looked at by anybody afterwards.
    unsafe extern "C" {
        safe fn _exit(code: c_int) -> !;
    }
    // What cannot be written now has been reported when it was tried before.
    let _ = std::io::stdout().flush();
    _exit(code.into())
}

/// An allocator to which nothing is given back once it is the [`last_moment`].
#[derive(Debug)]
pub struct UntilTheEnd<A>(pub A);

#[expect(unsafe_code, reason = "so is every allocator")]
// SAFETY: everything is passed on as it is, or, at the end, not given back, which nobody can tell from memory that is still
// in use.
unsafe impl<A: GlobalAlloc> GlobalAlloc for UntilTheEnd<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the same promises to us.
        unsafe { self.0.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above; every block came from the allocator within.
        unsafe { self.0.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if !LAST_MOMENT.load(Ordering::Relaxed) {
            // SAFETY: as above.
            unsafe { self.0.dealloc(block, layout) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many bytes of a part of our memory are there.
    fn there(part: Range<usize>) -> u64 {
        use std::os::unix::fs::FileExt;
        let pages = std::fs::File::open("/proc/self/pagemap").unwrap();
        let mut entry = [0; 8];
        let mut bytes = 0;
        for page in part.step_by(4096) {
            pages.read_exact_at(&mut entry, (page / 4096 * 8) as u64).unwrap();
            bytes += 4096 * (u64::from_ne_bytes(entry) >> 63);
        }
        bytes
    }

    #[test]
    fn memory_is_there_before_it_is_touched_and_keeps_what_is_in_it() {
        let mut block: Vec<u8> = Vec::with_capacity(8 << 20);
        block.push(7);
        let first = block.as_ptr().addr() & !4095;
        // Far from what was touched, which may have brought a whole huge page.
        let untouched = first + (4 << 20)..first + (4 << 20) + STEP;
        assert_eq!(there(untouched.clone()), 0);
        assert!(hand_out(untouched.clone()));
        assert_eq!(there(untouched), STEP as u64);
        assert!(hand_out(first..first + STEP));
        assert_eq!(block, [7]);
    }

    #[test]
    fn what_is_not_there_is_not_handed_out() {
        assert!(!hand_out(0..STEP));
    }

    #[test]
    fn no_stretch_is_left() {
        let stretch = 7 * STRETCH;
        assert_eq!(range(stretch + 1, 2 * STEP), stretch + STEP..stretch + 3 * STEP);
        assert_eq!(
            range(stretch + STRETCH - 3 * STEP, STRETCH),
            stretch + STRETCH - 3 * STEP..stretch + STRETCH
        );
        assert!(range(stretch + STRETCH - 1, STRETCH).is_empty());
        assert!(range(stretch, STEP - 1).is_empty());
        assert_eq!(range(stretch, usize::MAX), stretch..stretch + STRETCH);
    }
}
