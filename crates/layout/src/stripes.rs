//! Which block of which group a block of a volume is, for groups of copies: what [`crate::geometry`] says of bytes, in whole blocks, as it is
//! asked for each block that is read or written.

use alloc::vec::Vec;

/// How the blocks of a volume are shared among its groups.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Stripes {
    /// All are in one group.
    One,
    /// A bundle goes to a group, the next to the next one.
    Striped {
        /// Groups, at least one.
        groups: u32,
        /// Blocks of a bundle, at least one.
        bundle: u32,
    },
    /// One group after another.
    Concatenated {
        /// Where each group ends, in blocks of the volume.
        ends: Vec<u32>,
    },
}

/// Blocks that follow one another in the volume and in one group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// The group.
    pub group: u32,
    /// The first of them, in the group.
    pub block: u32,
    /// How many there are, up to the end of the bundle or the group; at least one.
    pub blocks: u32,
}

impl Stripes {
    /// Where a block of the volume is, and how many follow it there. Beyond the end of a concatenation is the last group.
    #[must_use]
    pub fn locate(&self, block: u32) -> Run {
        match self {
            Self::One => Run { group: 0, block, blocks: (u32::MAX - block).max(1) },
            Self::Striped { groups, bundle } => {
                let (index, rest) = (block / bundle, block % bundle);
                Run { group: index % groups, block: index / groups * bundle + rest, blocks: bundle - rest }
            }
            Self::Concatenated { ends } => {
                let group = ends.partition_point(|end| *end <= block).min(ends.len().saturating_sub(1));
                let begin = group.checked_sub(1).map_or(0, |before| ends[before]);
                let end = ends.get(group).copied().unwrap_or(u32::MAX);
                Run { group: group as u32, block: block - begin, blocks: end.saturating_sub(block).max(1) }
            }
        }
    }

    /// The block of the volume that a block of a group is: the inverse of [`Self::locate`]. None if it is too large for a number, or there is no
    /// such group.
    #[must_use]
    pub fn block(&self, group: u32, block: u32) -> Option<u32> {
        match self {
            Self::One => Some(block).filter(|_| group == 0),
            Self::Striped { groups, bundle } => {
                let row = (block / bundle).checked_mul(*groups)?.checked_add(group)?;
                row.checked_mul(*bundle)?.checked_add(block % bundle).filter(|_| group < *groups)
            }
            Self::Concatenated { ends } => {
                let end = *ends.get(group as usize)?;
                let begin = group.checked_sub(1).map_or(0, |before| ends[before as usize]);
                begin.checked_add(block).filter(|block| *block < end)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;
    use crate::geometry::{Geometry, Parameters, Spread};
    use crate::layout::Shape;

    const BLOCK: u64 = 64 << 10;

    /// Stripes, and the geometry of the same volume.
    fn volumes() -> impl Strategy<Value = (Stripes, Geometry, u32)> {
        let geometry = |spread, bundle: Option<u64>| {
            let parameters = Parameters {
                shape: Shape::Copies(2),
                spread,
                block: BLOCK as u32,
                chunk: Some(BLOCK as u32),
                bundle,
            };
            Geometry::new(parameters).unwrap()
        };
        let striped = (1_u32..20, 1_u32..40, 1_u32..3_000).prop_map(move |(groups, bundle, blocks)| {
            let spread = Spread::Striped { groups, size: u64::from(blocks) * BLOCK };
            let geometry = geometry(spread, Some(u64::from(bundle) * BLOCK));
            (Stripes::Striped { groups, bundle }, geometry, blocks)
        });
        let concatenated = prop::collection::vec(1_u32..300, 1..12).prop_map(move |groups| {
            let mut ends = Vec::new();
            for blocks in &groups {
                ends.push(ends.last().copied().unwrap_or(0) + blocks);
            }
            let blocks = groups.iter().sum();
            let groups = groups.into_iter().map(|blocks| u64::from(blocks) * BLOCK).collect();
            (Stripes::Concatenated { ends }, geometry(Spread::Concatenated { groups }, None), blocks)
        });
        prop_oneof![striped, concatenated]
    }

    proptest! {
        #[test]
        fn every_block_is_in_one_group_where_the_geometry_has_it((stripes, geometry, blocks) in volumes()) {
            let mut seen = std::collections::BTreeSet::new();
            for block in 0..blocks {
                let run = stripes.locate(block);
                let location = geometry.locate(u64::from(block) * BLOCK).unwrap();
                prop_assert_eq!((run.group, run.block), (location.group, geometry.block_number(location)));
                prop_assert_eq!(stripes.block(run.group, run.block), Some(block));
                prop_assert!(seen.insert((run.group, run.block)), "{} has a place of its own", block);
                prop_assert!(run.blocks > 0);
                // Those that follow are in the same group, one after another.
                for ahead in 1..run.blocks.min(blocks - block) {
                    let Run { group, block, .. } = stripes.locate(block + ahead);
                    prop_assert_eq!((group, block), (run.group, run.block + ahead));
                }
            }
        }
    }

    #[test]
    fn one_group_has_all_blocks_under_their_own_numbers() {
        for block in [0, 1, 12_345, u32::MAX] {
            let run = Stripes::One.locate(block);
            assert_eq!((run.group, run.block), (0, block));
            assert!(run.blocks > 0);
            assert_eq!(Stripes::One.block(0, block), Some(block));
        }
    }

    #[test]
    fn what_no_volume_has_is_no_block() {
        let striped = Stripes::Striped { groups: 3, bundle: 16 };
        assert_eq!(striped.block(3, 0), None);
        assert_eq!(striped.block(2, u32::MAX), None);
        let concatenated = Stripes::Concatenated { ends: [10, 15].into() };
        assert_eq!((concatenated.block(0, 10), concatenated.block(1, 4)), (None, Some(14)));
        assert_eq!((concatenated.block(1, 5), concatenated.block(2, 0)), (None, None));
    }
}
