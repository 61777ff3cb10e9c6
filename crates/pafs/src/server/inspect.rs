//! What can be seen of a cache server from outside, and what must hold within.

use cards_core::BlockId;

use super::super::partition::Mark;
use super::super::{Frame, Level};
use super::{CacheServer, Purpose, ServerStats};

impl CacheServer {
    /// Buffers of the partition, those included that are about to leave it.
    #[must_use]
    pub const fn buffers(&self) -> u32 {
        self.partition.len()
    }

    /// Blocks in buffers.
    #[must_use]
    pub const fn resident(&self) -> u32 {
        self.partition.resident()
    }

    /// What the server has done with its buffers so far.
    #[must_use]
    pub const fn stats(&self) -> &ServerStats {
        &self.stats
    }

    /// Bytes of its tables.
    #[must_use]
    pub fn table_bytes(&self) -> usize {
        self.partition.table_bytes() + self.dirty.capacity() * size_of::<u32>()
    }

    /// Its blocks and where they are, in no useful order; without those that are still on their way.
    pub fn blocks(&self) -> impl Iterator<Item = (BlockId, Frame)> + '_ {
        let partition = &self.partition;
        let there = partition.all().filter(|&at| !partition.is(at, Mark::FILLING));
        there.filter_map(|at| Some((partition.block(at)?, partition.frame(at))))
    }

    /// The buffers that are in the parity of their lines (or will be, when the write under way is done).
    pub fn covered_frames(&self) -> impl Iterator<Item = Frame> + '_ {
        self.partition
            .all()
            .filter(|&at| self.partition.is(at, Mark::COVERED))
            .map(|at| self.partition.frame(at))
    }

    /// Blocks that a crash of all nodes would lose.
    #[must_use]
    pub fn dirty_blocks(&self) -> usize {
        let partition = &self.partition;
        partition.all().filter(|&at| partition.is(at, Mark::DIRTY.or(Mark::FLUSHING))).count()
    }

    /// Panics when an invariant is broken.
    pub fn check(&self) {
        let partition = &self.partition;
        partition.check();
        for at in partition.all() {
            let is = |mark| partition.is(at, mark);
            let reserved = is(Mark::FILLING.or(Mark::VACATING));
            assert!(
                partition.is_queued(at) != reserved,
                "a buffer may be reused unless its block comes or goes"
            );
            assert!(
                is(Mark::VACATING) == self.vacating.contains_key(&at),
                "a buffer is emptied for a purpose"
            );
            assert!(is(Mark::WRITING) == self.writes.contains_key(&at), "a covered write under way is known");
            assert!(!is(Mark::WRITING) || is(Mark::COVERED), "it covers its buffer");
            let safe = self.config.level != Level::C || !is(Mark::DIRTY) || is(Mark::COVERED);
            assert!(safe, "at level C every dirty buffer is covered");
            let known = partition.block(at).is_none() || !is(Mark::DIRTY) || is(Mark::LISTED);
            assert!(known, "the syncer knows every dirty buffer");
        }
        for block in &self.starved {
            assert!(self.waiting.contains_key(block) && partition.find(*block).is_none());
        }
        assert!(self.starved.is_empty() || partition.oldest().is_none(), "no one waits for a free buffer");
        for (block, waiting) in &self.waiting {
            assert!(waiting.iter().all(|access| access.block == *block));
            assert!(
                !waiting.is_empty() || partition.find(*block).is_some(),
                "somebody waits for a missing block"
            );
        }
        let hands = self.vacating.values().filter(|purpose| matches!(purpose, Purpose::Hand(_)));
        assert!(hands.count() == self.leaving as usize && self.leaving <= partition.len());
    }

    /// Whether nothing is under way.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        let busy = Mark::FILLING.or(Mark::FLUSHING).or(Mark::UNCOVERING).or(Mark::WRITING).or(Mark::VACATING);
        self.waiting.is_empty() && self.partition.all().all(|at| !self.partition.is(at, busy))
    }
}
