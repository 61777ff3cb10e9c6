//! Measures what a piece of code allocates on this thread, to hold decoders to their limits.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every call is passed on to the system allocator unchanged; the counters are const-initialised
// thread-locals without destructors, so touching them allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.get() + layout.size() as isize;
        LIVE.set(live);
        PEAK.set(PEAK.get().max(live));
        COUNT.set(COUNT.get() + 1);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.set(LIVE.get() - layout.size() as isize);
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Runs `code`; gives its result, the most bytes it held beyond what was held before, and its number of
/// allocations.
pub(crate) fn measure<T>(code: impl FnOnce() -> T) -> (T, usize, usize) {
    let (live, count) = (LIVE.get(), COUNT.get());
    PEAK.set(live);
    let result = code();
    (result, usize::try_from(PEAK.get() - live).unwrap_or(0), COUNT.get() - count)
}
