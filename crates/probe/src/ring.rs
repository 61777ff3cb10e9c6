//! What a data thread leaves for a reader on another thread.

use std::sync::atomic::{AtomicU64, Ordering};

/// Entries a ring holds: half a second of 64,000 a second.
pub(crate) const ROOM: u64 = 1 << 15;
/// Words of an entry.
const WORDS: usize = 4;

/// One writer and one reader at a time; an entry is published by `head` and given free by `tail`. A full ring loses what
/// comes, and counts it: the writer never waits.
pub(crate) struct Ring {
    words: Box<[AtomicU64]>,
    head: AtomicU64,
    tail: AtomicU64,
    lost: AtomicU64,
}

impl Ring {
    pub(crate) fn new() -> Self {
        let zero = || AtomicU64::new(0);
        let words = (0..ROOM as usize * WORDS).map(|_| zero()).collect();
        Self { words, head: zero(), tail: zero(), lost: zero() }
    }

    /// Forgets what is left of earlier. Called by the reader.
    pub(crate) fn clear(&self) {
        self.tail.store(self.head.load(Ordering::Acquire), Ordering::Release);
        self.lost.store(0, Ordering::Relaxed);
    }

    /// Called by the writer.
    pub(crate) fn push(&self, entry: [u64; WORDS]) {
        let head = self.head.load(Ordering::Relaxed);
        if head - self.tail.load(Ordering::Acquire) >= ROOM {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        for (word, value) in self.place(head).iter().zip(entry) {
            word.store(value, Ordering::Relaxed);
        }
        self.head.store(head + 1, Ordering::Release);
    }

    /// Takes up to `most` entries; whether there are more. Called by the reader.
    pub(crate) fn take(&self, most: usize, mut each: impl FnMut([u64; WORDS])) -> bool {
        let (tail, head) = (self.tail.load(Ordering::Relaxed), self.head.load(Ordering::Acquire));
        let end = head.min(tail + most as u64);
        for at in tail..end {
            let mut entry = [0; WORDS];
            for (value, word) in entry.iter_mut().zip(self.place(at)) {
                *value = word.load(Ordering::Relaxed);
            }
            each(entry);
        }
        self.tail.store(end, Ordering::Release);
        end < head
    }

    /// Entries that found no room since [`Self::clear`].
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    fn place(&self, at: u64) -> &[AtomicU64] {
        let start = (at % ROOM) as usize * WORDS;
        &self.words[start..start + WORDS]
    }
}
