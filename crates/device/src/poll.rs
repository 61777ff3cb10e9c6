//! Waiting for descriptors.

use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::time::Duration;

/// Waits until one of the descriptors can be read, or, if so marked, written; or for `limit`. Which ones.
pub(crate) fn wait(descriptors: &[(BorrowedFd<'_>, bool)], limit: Option<Duration>, ready: &mut Vec<bool>) {
    let mut polled: Vec<libc::pollfd> = Vec::with_capacity(descriptors.len());
    for (descriptor, write) in descriptors {
        let events = libc::POLLIN | if *write { libc::POLLOUT } else { 0 };
        polled.push(libc::pollfd { fd: descriptor.as_raw_fd(), events, revents: 0 });
    }
    // Rounded up, so that a deadline has passed when the wait for it ends.
    let limit = limit.map_or(-1, |limit| i32::try_from(limit.as_millis() + 1).unwrap_or(i32::MAX));
    // SAFETY: the array lives through the call and has this length.
    let count = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, limit) };
    ready.clear();
    ready.extend(polled.iter().map(|one| count > 0 && one.revents != 0));
}
