//! Descriptors that this process was started with.

use std::os::fd::BorrowedFd;

use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};

/// The numbers that are tried where `/proc` does not tell.
const MAX_UNKNOWN_DESCRIPTOR: i32 = 1024;

/// Keeps the descriptors that this process was started with, except for the first three, from its children. Every descriptor
/// that it opens itself is made that way. To be called before there is a second thread.
pub fn keep_inherited_descriptors() {
    let listed = std::fs::read_dir("/proc/self/fd").map(|entries| {
        let names = entries.flatten().map(|entry| entry.file_name());
        names.filter_map(|name| name.to_str()?.parse::<i32>().ok()).collect::<Vec<_>>()
    });
    for number in listed.unwrap_or_else(|_| (0..MAX_UNKNOWN_DESCRIPTOR).collect()) {
        if number > 2 {
            keep(number);
        }
    }
}

#[expect(unsafe_code, reason = "a number is all that there is of a descriptor from outside")]
fn keep(number: i32) {
    // SAFETY: nothing but a flag is read and written, and the calls fail for a number that is no descriptor. There is no other
    // thread that could close it meanwhile.
    let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
    if let Ok(flags) = fcntl_getfd(descriptor) {
        // A descriptor that is gone needs no flag.
        let _ = fcntl_setfd(descriptor, flags | FdFlags::CLOEXEC);
    }
}
