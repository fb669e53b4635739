//! Memory that is about to be used, and memory that is not needed any more.
//!
//! The kernel hands out memory page by page, when a page is touched for the first time, and that takes longer than most of
//! what a program does with the page. Who knows that it is about to fill many megabytes can say so. At the end it takes all of
//! it back at once, in a fraction of the time that it takes a program to give it back piece by piece.

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::c_void;
use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::mm::Advice;

/// Until it is dropped, the kernel may back the memory of the allocator by huge pages: few and large ones, that it can
/// hand out in a fraction of the time.
///
/// Not for always: whoever lives long would hold much memory that is hardly used.
#[derive(Debug)]
pub struct Expecting(Range<usize>);

/// Says that many megabytes are about to be allocated. `None`, if the kernel does not care.
#[must_use]
pub fn expect_much() -> Option<Expecting> {
    // Where the allocator has something of this size, it will have more.
    let sample: Box<[u8]> = vec![0; 64 << 10].into();
    let region = mapping_around(sample.as_ptr().addr())?;
    advise(&region, Advice::LinuxHugepage).then_some(Expecting(region))
}

impl Drop for Expecting {
    fn drop(&mut self) {
        advise(&self.0, Advice::LinuxNoHugepage);
    }
}

/// The part of our memory, as the kernel sees it, that an address is in.
fn mapping_around(address: usize) -> Option<Range<usize>> {
    let maps = BufReader::new(std::fs::File::open("/proc/self/maps").ok()?);
    maps.lines().map_while(Result::ok).filter_map(|line| mapping(&line)).find(|part| part.contains(&address))
}

/// Where the mapping is that a line of the kernel's list is about.
fn mapping(line: &str) -> Option<Range<usize>> {
    let (start, rest) = line.split_once('-')?;
    let (end, _) = rest.split_once(' ')?;
    let number = |text| usize::from_str_radix(text, 16).ok();
    Some(number(start)?..number(end)?)
}

#[expect(unsafe_code, reason = "the call can do harm with other advice")]
fn advise(region: &Range<usize>, advice: Advice) -> bool {
    let start = std::ptr::without_provenance_mut::<c_void>(region.start);
    // SAFETY: both pieces of advice only say how large the pages should be. They change no content, no protection and no
    // mapping, wherever they point.
    unsafe { rustix::mm::madvise(start, region.len(), advice) }.is_ok()
}

/// The process is about to end.
static LAST_MOMENT: AtomicBool = AtomicBool::new(false);

/// From now on, nothing is given back to the allocator: the process ends in a moment, and gives everything back at once.
pub fn last_moment() {
    LAST_MOMENT.store(true, Ordering::Relaxed);
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

    /// The flags of the mapping around an address, as the kernel tells them.
    fn flags(address: usize) -> String {
        let all = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut is_here = false;
        for line in all.lines() {
            match line.strip_prefix("VmFlags:") {
                Some(flags) if is_here => return flags.to_owned(),
                Some(_) => {}
                None => {
                    if let Some(part) = mapping(line) {
                        is_here = part.contains(&address);
                    }
                }
            }
        }
        panic!("no mapping around {address:x}");
    }

    #[test]
    fn the_advice_holds_as_long_as_it_is_held() {
        // A mapping of the test's own: the allocator may give its memory back in the meantime.
        let page = vec![0_u8; 32 << 20];
        let region = mapping_around(page.as_ptr().addr()).unwrap();
        assert!(region.contains(&(page.as_ptr().addr() + page.len() - 1)));
        assert!(advise(&region, Advice::LinuxHugepage));
        let expecting = Expecting(region);
        assert!(flags(page.as_ptr().addr()).split(' ').any(|flag| flag == "hg"));
        drop(expecting);
        let flags = flags(page.as_ptr().addr());
        assert!(flags.split(' ').any(|flag| flag == "nh") && !flags.split(' ').any(|flag| flag == "hg"));
    }

    #[test]
    fn a_program_can_expect_much() {
        let held = expect_much().expect("the kernel knows of huge pages");
        assert!(!held.0.is_empty());
    }

    #[test]
    fn lines_that_are_no_mappings_are_none() {
        assert_eq!(mapping("1000-3000 rw-p 00000000 00:00 0"), Some(0x1000..0x3000));
        for line in ["", "Size: 4 kB", "1000-", "x-y z", "VmFlags: rd wr"] {
            assert_eq!(mapping(line), None, "{line}");
        }
    }
}
