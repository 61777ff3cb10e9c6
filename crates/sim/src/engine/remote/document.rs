//! A document: the blocks it has, where they are on a disk, and how far it is read ahead.

use std::ops::Range;

use cards_core::mix;

/// Blocks that ext2 allocates together.
const PREALLOCATED: u32 = 8;

/// A file of the document set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Document {
    /// Its first block in the set, which is its name.
    pub(super) first: u32,
    pub(super) blocks: u32,
}

/// Where documents are on a disk: contiguous, one after the other, or with some in pieces.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    pub(super) partition_blocks: u64,
    pub(super) fragmented: f64,
    /// Of the disk: another one has other pieces.
    pub(super) seed: u64,
}

impl Places {
    /// The block of the disk that has a block of the set. The first piece of a document is where it is on a disk without pieces, all
    /// others are anywhere.
    pub(super) fn of(&self, document: Document, block: u32) -> u64 {
        let Document { first, blocks } = document;
        let whole = u64::from(block) % self.partition_blocks;
        let drawn = mix(mix(self.seed) ^ u64::from(first));
        if blocks < 2 || unit(drawn) >= self.fragmented {
            return whole;
        }
        let index = block - first;
        // A short one is cut in two, anywhere.
        let cut = if blocks > PREALLOCATED {
            PREALLOCATED
        } else {
            1 + (mix(drawn) % u64::from(blocks - 1)) as u32
        };
        let piece = if blocks > PREALLOCATED { index / cut } else { u32::from(index >= cut) };
        if piece == 0 {
            return whole;
        }
        (mix(drawn.wrapping_add(piece.into())) + u64::from(index - piece * cut)) % self.partition_blocks
    }
}

fn unit(drawn: u64) -> f64 {
    (drawn >> 11) as f64 / (1u64 << 53) as f64
}

/// Blocks read ahead at first: `MIN_READAHEAD` of Linux 2.2.
const AT_FIRST: u32 = 3;

/// How far an open document is read ahead: a window that doubles up to a cap each time the reader comes to it, as in Linux 2.2
/// (RDD-9: of 31).
#[derive(Clone, Copy, Debug)]
pub(super) struct Ahead {
    cap: u32,
    window: u32,
    /// When this block of the document is read, the next window is due.
    due: u32,
    /// Blocks that have been asked for end here.
    end: u32,
}

impl Ahead {
    pub(super) fn new(cap: u32) -> Self {
        Self { cap, window: AT_FIRST.min(cap), due: 0, end: 0 }
    }

    /// Blocks of the document to fetch now that those of `read` are read.
    pub(super) fn on_read(&mut self, read: &Range<u32>, blocks: u32) -> Range<u32> {
        self.end = self.end.max(read.end);
        if self.cap == 0 || read.end <= self.due || self.end >= blocks {
            return 0..0;
        }
        let from = self.end;
        self.end = from.saturating_add(self.window).min(blocks);
        self.due = from;
        self.window = (self.window * 2).min(self.cap);
        from..self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_doubles_up_to_the_cap_and_stops_with_the_document() {
        let mut ahead = Ahead::new(10);
        let mut windows = Vec::new();
        for block in 0..40 {
            let window = ahead.on_read(&(block..block + 1), 40);
            if !window.is_empty() {
                windows.push(window);
            }
        }
        assert_eq!(windows, [1..4, 4..10, 10..20, 20..30, 30..40]);
        assert!(Ahead::new(0).on_read(&(0..2), 40).is_empty());
        assert!(Ahead::new(31).on_read(&(0..2), 2).is_empty());
    }

    #[test]
    fn as_many_documents_are_in_pieces_as_was_said_and_pieces_are_contiguous() {
        let places = Places { partition_blocks: 1 << 19, fragmented: 0.6, seed: 7 };
        let is_contiguous = |document: Document| {
            let blocks = document.first..document.first + document.blocks;
            blocks.clone().all(|block| places.of(document, block) == u64::from(block))
        };
        let of = |first| Document { first, blocks: 13 };
        let broken = (0..10_000).filter(|&number| !is_contiguous(of(number * 13))).count();
        assert!((5_800..6_200).contains(&broken), "{broken}");
        let broken = (0..).map(|number| of(number * 13)).find(|&one| !is_contiguous(one)).unwrap();
        let at = |index: u32| places.of(broken, broken.first + index);
        assert!((0..12).filter(|&index| at(index + 1) != at(index) + 1).eq([7]));
        assert!(is_contiguous(Document { first: 5, blocks: 1 }));
        let pairs = (0..1000).map(|number| Document { first: number * 2, blocks: 2 });
        assert!(pairs.filter(|&pair| !is_contiguous(pair)).count() > 500);
    }
}
