//! Which bytes a client will probably read next.
//!
//! The requester reads ahead and exports its window as asynchronous requests (remote disk drivers, section 4:
//! Linux' window of 31 pages). Here the window can also adapt: it doubles while what was fetched ahead is
//! read, and halves when a client turns elsewhere with some of it unread.

use core::ops::Range;

/// The window of the paper: 31 pages of 4 KiB.
pub const WINDOW: u64 = 31 * 4096;
/// The largest adaptive window.
pub const WINDOW_MAX: u64 = 4 << 20;

/// How far to read ahead.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Window {
    /// Not at all.
    Off,
    /// Always so many bytes.
    Fixed(u64),
    /// From [`WINDOW`] up to so many bytes (at most [`WINDOW_MAX`]), down to one block. What is fetched ahead
    /// must leave room for what is in use: take a small part of the cache.
    Adaptive(u64),
}

/// Watches the reads of one client for sequences.
#[derive(Clone, Debug)]
pub struct ReadAhead {
    window: Window,
    block: u64,
    /// The next window, in bytes.
    bytes: u64,
    /// Where the last sequence began to be seen, and where its furthest read ended.
    start: u64,
    end: u64,
    /// Reads of the sequence.
    run: u32,
    /// Fetched ahead: from here ...
    mark: u64,
    /// ... to here.
    ahead: u64,
}

impl ReadAhead {
    /// A detector that has seen nothing. A window is at least one block of `block_bytes`.
    #[must_use]
    pub fn new(window: Window, block_bytes: u32) -> Self {
        let block = u64::from(block_bytes);
        let bytes = match window {
            Window::Off => 0,
            Window::Fixed(bytes) => bytes.max(block),
            Window::Adaptive(most) => WINDOW.min(most).max(block),
        };
        Self { window, block, bytes, start: 0, end: 0, run: 0, mark: 0, ahead: 0 }
    }

    /// Notes a read. Gives the range, in bytes, to fetch ahead now; it may reach past the end of the volume.
    ///
    /// A read belongs to the sequence if it begins within what was read or fetched ahead of late: requests of
    /// a client that keeps several in flight arrive in any order.
    pub fn on_read(&mut self, offset: u64, length: u32) -> Option<Range<u64>> {
        if self.window == Window::Off || length == 0 {
            return None;
        }
        let end = offset.saturating_add(u64::from(length));
        let horizon = self.end.max(self.ahead);
        if self.run == 0 || offset < self.start || offset > horizon {
            self.turn_elsewhere();
            (self.start, self.end, self.run) = (offset, end, 1);
            return None;
        }
        if end <= self.end {
            return None;
        }
        self.end = end;
        self.run = self.run.saturating_add(1);
        // What lies far behind is no longer part of the sequence.
        self.start = self.start.max(end.saturating_sub(4 * WINDOW_MAX));
        if self.ahead == 0 {
            return Some(self.fetch(end));
        }
        if end <= self.mark {
            return None;
        }
        // The client reads what was fetched ahead.
        if let Window::Adaptive(most) = self.window {
            self.bytes = (self.bytes * 2).min(most.min(WINDOW_MAX).max(self.block));
        }
        Some(self.fetch(self.ahead.max(end)))
    }

    /// The window from `from` on; the next one is due when its first byte is read.
    fn fetch(&mut self, from: u64) -> Range<u64> {
        self.mark = from;
        self.ahead = from.saturating_add(self.bytes);
        from..self.ahead
    }

    fn turn_elsewhere(&mut self) {
        if matches!(self.window, Window::Adaptive(_)) && self.ahead > self.end {
            self.bytes = (self.bytes / 2).max(self.block);
        }
        (self.mark, self.ahead) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: u32 = 4096;

    fn sequential(detector: &mut ReadAhead, from: u64, reads: u64) -> alloc::vec::Vec<Range<u64>> {
        let read = |i| detector.on_read(from + i * u64::from(BLOCK), BLOCK);
        (0..reads).filter_map(read).collect()
    }

    #[test]
    fn the_second_read_of_a_sequence_starts_a_window() {
        let mut detector = ReadAhead::new(Window::Adaptive(WINDOW_MAX), BLOCK);
        assert_eq!(detector.on_read(8192, 4096), None);
        assert_eq!(detector.on_read(12288, 4096), Some(16384..16384 + WINDOW));
    }

    #[test]
    fn windows_follow_each_other_without_gap_and_double_up_to_the_limit() {
        let mut detector = ReadAhead::new(Window::Adaptive(WINDOW_MAX), BLOCK);
        let windows = sequential(&mut detector, 0, 10_000);
        assert!(windows.windows(2).all(|pair| pair[0].end == pair[1].start));
        let sizes: alloc::vec::Vec<u64> = windows.iter().map(|w| w.end - w.start).collect();
        assert_eq!(sizes[..3], [WINDOW, 2 * WINDOW, 4 * WINDOW]);
        assert_eq!(sizes.last(), Some(&WINDOW_MAX));
    }

    #[test]
    fn a_small_cache_gets_small_windows() {
        let mut detector = ReadAhead::new(Window::Adaptive(64 << 10), BLOCK);
        let windows = sequential(&mut detector, 0, 1000);
        assert!(windows.iter().all(|w| w.end - w.start <= 64 << 10));
    }

    #[test]
    fn a_window_is_asked_for_before_the_last_one_is_used_up() {
        let mut detector = ReadAhead::new(Window::Fixed(65536), BLOCK);
        let mut ahead = 0;
        for i in 2..1000 {
            if let Some(window) = detector.on_read(i * 4096, BLOCK) {
                ahead = window.end;
            }
            assert!(i < 4 || ahead > (i + 1) * 4096, "read {i} overtook the window");
        }
    }

    #[test]
    fn random_reads_fetch_nothing_ahead() {
        let mut detector = ReadAhead::new(Window::Adaptive(WINDOW_MAX), BLOCK);
        for i in 0..1000u64 {
            assert_eq!(detector.on_read(cards_core::mix(i) % 1000 * (64 << 20), BLOCK), None);
        }
    }

    #[test]
    fn waste_halves_the_window_down_to_a_block() {
        let mut detector = ReadAhead::new(Window::Adaptive(WINDOW_MAX), BLOCK);
        for i in 0..20 {
            sequential(&mut detector, i << 30, 2);
        }
        let windows = sequential(&mut detector, 1 << 40, 2);
        assert_eq!(windows[0].end - windows[0].start, u64::from(BLOCK));
    }

    #[test]
    fn requests_in_flight_may_arrive_in_any_order() {
        let mut detector = ReadAhead::new(Window::Fixed(1 << 20), BLOCK);
        sequential(&mut detector, 0, 2);
        for block in [5u64, 3, 4, 2, 8, 7, 6] {
            detector.on_read(block * 4096, BLOCK);
        }
        assert!(detector.ahead > 1 << 20 && detector.run > 2, "still one sequence");
    }

    #[test]
    fn off_is_off_and_the_end_of_numbers_is_no_overflow() {
        assert!(sequential(&mut ReadAhead::new(Window::Off, BLOCK), 0, 100).is_empty());
        let mut detector = ReadAhead::new(Window::Adaptive(WINDOW_MAX), BLOCK);
        detector.on_read(u64::MAX - 4096, 4096);
        detector.on_read(u64::MAX - 10, u32::MAX);
        assert_eq!(ReadAhead::new(Window::Fixed(1), BLOCK).bytes, 4096);
    }
}
