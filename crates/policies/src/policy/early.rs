//! Words of the disk node about blocks that have not come yet.

use cards_core::BlockId;

use alloc::collections::VecDeque;

/// As many blocks as may well be on their way at the same time. A forgotten word makes a copy be taken for the only
/// one, or not, until the disk node has news again.
const MOST: usize = 64;

/// Whether blocks that are on their way will be duplicates.
#[derive(Default)]
pub(super) struct Early {
    words: VecDeque<(BlockId, bool)>,
}

impl Early {
    pub(super) fn put(&mut self, block: BlockId, duplicate: bool) {
        self.take(block);
        if self.words.len() == MOST {
            self.words.pop_front();
        }
        self.words.push_back((block, duplicate));
    }

    pub(super) fn take(&mut self, block: BlockId) -> Option<bool> {
        let at = self.words.iter().position(|&(known, _)| known == block)?;
        self.words.remove(at).map(|(_, duplicate)| duplicate)
    }
}

#[cfg(test)]
mod tests {
    use cards_core::PgId;

    use super::*;

    #[test]
    fn the_last_word_about_a_block_counts_once() {
        let block = |index| BlockId::new(PgId(0), index);
        let mut early = Early::default();
        early.put(block(1), true);
        early.put(block(1), false);
        assert_eq!((early.take(block(1)), early.take(block(1))), (Some(false), None));
        (0..=MOST as u32).for_each(|i| early.put(block(i), true));
        assert_eq!((early.take(block(0)), early.take(block(1))), (None, Some(true)));
    }
}
