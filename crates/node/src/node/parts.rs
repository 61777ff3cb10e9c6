//! The groups that a card's volume is shared among, and where each of its blocks is. Most volumes are one group, or a plain disk, and have one
//! part.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use cards_core::{BlockId, Instant, PgId, STRIPE_BLOCKS, Unflushed};
use cards_layout::stripes::{Run, Stripes};

/// All parts of a volume.
#[derive(Debug)]
pub(crate) struct Parts {
    stripes: Stripes,
    parts: Box<[Part]>,
}

/// One of them, and what this node's card has of it.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) id: PgId,
    /// When its lease ends, by the node's clock, in nanoseconds; zero while it has none.
    lease_until: AtomicU64,
    /// What is to be flushed.
    unflushed: Mutex<Unflushed>,
}

/// Blocks that follow one another in one part, and whose requests one shard answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stretch {
    /// Which part.
    pub(crate) part: u16,
    /// The first of them.
    pub(crate) block: BlockId,
    /// How many, at least one.
    pub(crate) blocks: u32,
}

impl Part {
    fn new(id: PgId) -> Self {
        Self { id, lease_until: AtomicU64::new(0), unflushed: Mutex::default() }
    }

    pub(crate) fn unflushed(&self) -> MutexGuard<'_, Unflushed> {
        self.unflushed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its lease runs until then.
    pub(crate) fn leased(&self, until: Instant) {
        self.lease_until.store(until.0, Relaxed);
    }

    /// When its lease ends, if it has one.
    pub(crate) fn lease(&self) -> Option<Instant> {
        let until = self.lease_until.load(Relaxed);
        (until > 0).then_some(Instant(until))
    }
}

impl Parts {
    /// A volume that is one group, or a plain disk.
    pub(crate) fn one(id: PgId) -> Self {
        Self { stripes: Stripes::One, parts: [Part::new(id)].into() }
    }

    /// A volume that is shared among several groups.
    pub(crate) fn several(stripes: Stripes, ids: impl IntoIterator<Item = PgId>) -> Self {
        Self { stripes, parts: ids.into_iter().map(Part::new).collect() }
    }

    /// Whether it is shared among several groups.
    pub(crate) const fn is_shared(&self) -> bool {
        !matches!(self.stripes, Stripes::One)
    }

    /// The first one: people and programs know the volume by it.
    pub(crate) fn first(&self) -> PgId {
        self.parts[0].id
    }

    /// How many losses of what this node had written its clients' flushes have told of.
    pub(crate) fn losses(&self) -> u64 {
        self.parts.iter().map(|part| part.unflushed().losses()).sum()
    }

    pub(crate) fn all(&self) -> &[Part] {
        &self.parts
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = PgId> + '_ {
        self.parts.iter().map(|part| part.id)
    }

    /// Which part it is; none if it is of another volume.
    pub(crate) fn number(&self, id: PgId) -> Option<usize> {
        self.parts.iter().position(|part| part.id == id)
    }

    /// Where a block of the volume is.
    pub(crate) fn block(&self, block: u32) -> BlockId {
        let Run { group, block, .. } = self.stripes.locate(block);
        BlockId::new(self.parts[group as usize].id, block)
    }

    /// The blocks from `first` to `last` of the volume that one shard answers: those that follow `first` in its part.
    pub(crate) fn stretch(&self, first: u32, last: u32) -> Stretch {
        let Run { group, block, blocks } = self.stripes.locate(first);
        let in_run = (block | (STRIPE_BLOCKS - 1)) - block;
        let more = (last - first).min(in_run).min(blocks - 1);
        Stretch {
            part: group as u16,
            block: BlockId::new(self.parts[group as usize].id, block),
            blocks: more + 1,
        }
    }

    /// Bytes of the volume as those of the part that has the first: the part, the offset in it, and how many of them are there.
    pub(crate) fn bytes(&self, block: u64, offset: u64, length: u32) -> (PgId, u64, u32) {
        if !self.is_shared() {
            return (self.first(), offset, length);
        }
        let Run { group, block: first, blocks } = self.stripes.locate((offset / block) as u32);
        let within = offset % block;
        let left = (u64::from(blocks) * block - within).min(length.into());
        (self.parts[group as usize].id, u64::from(first) * block + within, left as u32)
    }

    /// The block of the volume that a block of one of its parts is.
    pub(crate) fn index(&self, block: BlockId) -> Option<u32> {
        match self.stripes {
            Stripes::One => Some(block.index),
            _ => self.stripes.block(self.number(block.volume)? as u32, block.index),
        }
    }

    /// Ranges of blocks of the volume, the last one of each included, as those of each part.
    pub(crate) fn shared(&self, ranges: &[(u32, u32)]) -> Vec<Vec<(u32, u32)>> {
        let mut shared: Vec<Vec<(u32, u32)>> = vec![Vec::new(); self.parts.len()];
        for &(first, last) in ranges {
            let mut next = first;
            loop {
                let Run { group, block, blocks } = self.stripes.locate(next);
                let more = (last - next).min(blocks - 1);
                let of = &mut shared[group as usize];
                match of.last_mut() {
                    Some(before) if before.1.checked_add(1) == Some(block) => before.1 = block + more,
                    _ => of.push((block, block + more)),
                }
                if next + more == last {
                    break;
                }
                next += more + 1;
            }
        }
        shared
    }

    /// Ranges of blocks of a part as ranges of the volume.
    pub(crate) fn whole(&self, part: usize, ranges: impl Iterator<Item = (u32, u32)>) -> Vec<(u32, u32)> {
        let mut whole = Vec::new();
        for (first, last) in ranges {
            let mut next = first;
            while let Some(block) = self.stripes.block(part as u32, next) {
                let more = (last - next).min(self.stripes.locate(block).blocks - 1);
                whole.push((block, block + more));
                if next + more == last {
                    break;
                }
                next += more + 1;
            }
        }
        whole
    }

    /// Of the parts that have leases, when the first of these ends.
    pub(crate) fn lease(&self) -> Option<Instant> {
        self.parts.iter().filter_map(Part::lease).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn striped() -> Parts {
        let ids = [PgId(70_000), PgId(70_001), PgId(70_005)];
        Parts::several(Stripes::Striped { groups: 3, bundle: 24 }, ids)
    }

    #[test]
    fn stretches_cover_all_blocks_once_and_are_never_in_two_runs_or_bundles() {
        let parts = striped();
        for (first, last) in [(0, 0), (0, 500), (7, 333), (23, 24)] {
            let mut next = first;
            while next <= last {
                let Stretch { part, block, blocks } = parts.stretch(next, last);
                assert_eq!(parts.all()[usize::from(part)].id, block.volume);
                for ahead in 0..blocks {
                    let one = BlockId::new(block.volume, block.index + ahead);
                    assert_eq!((parts.block(next + ahead), parts.index(one)), (one, Some(next + ahead)));
                    assert_eq!(one.index / STRIPE_BLOCKS, block.index / STRIPE_BLOCKS);
                }
                next += blocks;
            }
            assert_eq!(next, last + 1);
        }
        assert_eq!(parts.index(BlockId::new(PgId(70_002), 0)), None);
    }

    #[test]
    fn one_part_has_the_blocks_of_the_volume() {
        let parts = Parts::one(PgId(5));
        assert!(!parts.is_shared());
        assert_eq!(parts.stretch(3, 40), Stretch { part: 0, block: BlockId::new(PgId(5), 3), blocks: 13 });
        assert_eq!(parts.stretch(u32::MAX, u32::MAX).blocks, 1);
        assert_eq!(parts.shared(&[(3, 900)]), [[(3, 900)]]);
    }

    #[test]
    fn ranges_of_a_volume_are_ranges_of_its_parts_and_back() {
        let parts = striped();
        let shared = parts.shared(&[(10, 200), (300, 301)]);
        let mut back: Vec<u32> = Vec::new();
        for (part, ranges) in shared.iter().enumerate() {
            assert!(
                ranges.windows(2).all(|pair| pair[0].1 + 1 < pair[1].0),
                "neighbours are one: {ranges:?}"
            );
            let whole = parts.whole(part, ranges.iter().copied());
            back.extend(whole.into_iter().flat_map(|(first, last)| first..=last));
        }
        back.sort_unstable();
        assert_eq!(back, (10..=200).chain(300..=301).collect::<Vec<_>>());
    }

    #[test]
    fn the_lease_is_that_of_the_part_whose_ends_first() {
        let parts = striped();
        assert_eq!(parts.lease(), None);
        parts.all()[2].leased(Instant(9));
        parts.all()[0].leased(Instant(12));
        assert_eq!(parts.lease(), Some(Instant(9)));
    }
}
