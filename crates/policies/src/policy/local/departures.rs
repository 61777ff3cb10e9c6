//! Blocks that have left a cache, gathered so that one note tells the primary of several.
//!
//! A note has its block and eight bytes besides. They stand for blocks that follow that one: a mask, for a stream, or gaps of 16 or 32 bits between a few
//! of them. So of blocks at random places in a volume of a few GiB five are told at a time, of larger volumes three.

use alloc::vec::Vec;

use cards_core::{BlockId, Note};

use crate::policy::words::note;

/// Kinds of a [`Note`]: the sender has neither the note's block nor those after it that the value stands for: those with a bit, the lowest being the next
/// block's; up to four, by 16 bits that say how far one is from the one before, the first in the lowest; up to two, by 32 bits.
pub(super) const GONE_NEAR: u8 = 0;
pub(super) const GONE_16: u8 = 1;
pub(super) const GONE_32: u8 = 2;

/// Indices of blocks of one volume, the first to leave first.
#[derive(Default)]
pub(super) struct Departures(Vec<u32>);

impl Departures {
    /// The block has left. If `most` have, a note tells of the first of them and as many others as it can, and they are forgotten.
    pub(super) fn add(&mut self, block: BlockId, most: usize) -> Option<(BlockId, Note)> {
        self.forget(block);
        self.0.push(block.index);
        if self.0.len() < most {
            return None;
        }
        let first = BlockId { index: *self.0.first()?, ..block };
        let mut distances: Vec<u32> =
            self.0.iter().skip(1).map(|index| index.wrapping_sub(first.index)).collect();
        distances.sort_unstable();
        let notes = [near(&distances), gaps(&distances, GONE_16, 16), gaps(&distances, GONE_32, 32)];
        let (_, note) = notes.into_iter().max_by_key(|(blocks, _)| *blocks)?;
        let told: Vec<u32> = Self::of(first, note).map(|block| block.index).collect();
        self.0.retain(|index| !told.contains(index));
        Some((first, note))
    }

    /// The block is asked for again: the primary will hear of that, and must not hear later that it has left.
    pub(super) fn forget(&mut self, block: BlockId) {
        self.0.retain(|&index| index != block.index);
    }

    /// The blocks that a note tells of; none, if it tells of something else.
    pub(super) fn of(block: BlockId, note: Note) -> impl Iterator<Item = BlockId> {
        let width = match note.kind {
            GONE_NEAR => 1,
            GONE_16 => 16,
            GONE_32 => 32,
            _ => 0,
        };
        let parts = u64::BITS.checked_div(width).unwrap_or(0);
        let part = move |nth: u32| (note.value >> (nth * width)) as u32 & (u32::MAX >> (u32::BITS - width));
        let mut at = block.index;
        let others = (0..parts).filter_map(move |nth| {
            let is_told = part(nth) > 0;
            at = at.wrapping_add(if width == 1 { 1 } else { part(nth) });
            is_told.then_some(at)
        });
        let first = (width > 0).then_some(block.index);
        first.into_iter().chain(others).map(move |index| BlockId { index, ..block })
    }
}

/// A mask of the first distances, and how many it has.
fn near(distances: &[u32]) -> (usize, Note) {
    let near = distances.iter().take_while(|&&distance| distance <= u64::BITS);
    (near.clone().count(), note(GONE_NEAR, near.fold(0, |mask, distance| mask | 1 << (distance - 1))))
}

/// Gaps between the first distances, as many as fit, and how many these are.
fn gaps(distances: &[u32], kind: u8, width: u32) -> (usize, Note) {
    let befores = core::iter::once(&0).chain(distances);
    let gaps = distances.iter().zip(befores).map(|(distance, before)| u64::from(distance - before));
    let fitting = gaps.take((u64::BITS / width) as usize).take_while(|gap| gap >> width == 0);
    let (count, value) =
        fitting.zip(0..).fold((0, 0), |(count, value), (gap, nth)| (count + 1, value | gap << (nth * width)));
    (count, note(kind, value))
}

#[cfg(test)]
mod tests {
    use std::vec;

    use cards_core::PgId;
    use proptest::prelude::*;

    use super::*;

    fn block(index: u32) -> BlockId {
        BlockId::new(PgId(3), index)
    }

    fn told(departures: &mut Departures, index: u32, most: usize) -> Option<Vec<u32>> {
        departures
            .add(block(index), most)
            .map(|(about, note)| Departures::of(about, note).map(|b| b.index).collect())
    }

    #[test]
    fn far_blocks_go_by_threes_others_by_fives_and_a_stream_goes_at_once() {
        let mut departures = Departures::default();
        assert_eq!((told(&mut departures, 7, 3), told(&mut departures, 700_000, 3)), (None, None));
        assert_eq!(told(&mut departures, 5, 3), Some(vec![7, 700_000, 5]), "the last one is the farthest");
        assert!([9, 70_000, 800, 7].iter().all(|&index| told(&mut departures, index, 5).is_none()));
        assert_eq!(told(&mut departures, 900, 5), Some(vec![9, 800, 900]));
        assert_eq!(departures.0, [70_000, 7]);
        departures.0.clear();
        assert!([9, 60_000, 800, 1_000].iter().all(|&index| told(&mut departures, index, 5).is_none()));
        assert_eq!(told(&mut departures, 900, 5), Some(vec![9, 800, 900, 1_000, 60_000]));
        assert!((64..95).all(|index| told(&mut departures, index, 32).is_none()));
        assert_eq!(told(&mut departures, 95, 32), Some((64..96).collect()));
        assert_eq!(told(&mut departures, 5, 1), Some(vec![5]));
    }

    #[test]
    fn a_block_that_is_asked_for_again_has_not_left() {
        let mut departures = Departures::default();
        [1, 200].iter().for_each(|&index| assert_eq!(told(&mut departures, index, 3), None));
        departures.forget(block(1));
        assert_eq!(told(&mut departures, 300, 3), None);
        assert_eq!(told(&mut departures, 400, 3), Some(vec![200, 300, 400]));
    }

    proptest! {
        /// Each departure is told of once, and not more than `most` are kept back.
        #[test]
        fn all_are_told_of(indices in prop::collection::btree_set(0u32..2000, 0..300), most in 1usize..40) {
            let mut departures = Departures::default();
            let mut all: Vec<u32> = Vec::new();
            for &index in &indices {
                all.extend(told(&mut departures, index, most).into_iter().flatten());
                assert!(departures.0.len() < most);
            }
            all.extend(&departures.0);
            all.sort_unstable();
            assert_eq!(all, indices.into_iter().collect::<Vec<_>>());
        }
    }
}
