//! The queue of a disk: sorted by place, as the strategy routine of a driver has it.

use std::collections::BTreeMap;
use std::time::Duration;

use cards_core::Instant;

use super::volume::Heads;
use crate::machine::Machine;
use crate::model::Model;

/// A block that somebody wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Wanted {
    /// The server that it is for.
    pub(super) server: u16,
    /// In the document set.
    pub(super) block: u32,
}

/// A disk, and who waits for it.
#[derive(Debug)]
pub(super) struct Disk {
    number: usize,
    heads: Heads,
    /// Grows with the square root of the way, over all of the partition.
    seek_of_all: Duration,
    partition_blocks: u64,
    block_bytes: u64,
    /// By place.
    waiting: BTreeMap<u64, Vec<Wanted>>,
    /// The block after the last one read.
    at: u64,
    reads: Option<Vec<Wanted>>,
}

/// The mean of the square root of the way between two places drawn at random.
const MEAN_ROOT: f64 = 8.0 / 15.0;

impl Disk {
    pub(super) fn new(
        number: usize,
        heads: Heads,
        model: &Model,
        partition_blocks: u64,
        block_bytes: u32,
    ) -> Self {
        let rest = model.machine().disk.read_seek.saturating_sub(heads.turn / 2 + heads.settle);
        Self {
            number,
            heads,
            seek_of_all: rest.div_f64(MEAN_ROOT),
            partition_blocks,
            block_bytes: block_bytes.into(),
            waiting: BTreeMap::new(),
            at: 0,
            reads: None,
        }
    }

    /// A block is to be read. [`Self::go_on`] begins.
    pub(super) fn push(&mut self, place: u64, wanted: Wanted) {
        self.waiting.entry(place).or_default().push(wanted);
    }

    pub(super) fn is_idle(&self) -> bool {
        self.reads.is_none() && self.waiting.is_empty()
    }

    /// Begins with the next request, if there is one and none is under way: the next place in the direction of the heads, and
    /// its neighbours. Returns when it will have been read.
    pub(super) fn go_on(&mut self, now: Instant, model: &mut Model) -> Option<Instant> {
        if self.reads.is_some() {
            return None;
        }
        let first = self.waiting.range(self.at..).next().or_else(|| self.waiting.iter().next());
        let first = *first?.0;
        let mut wanted = Vec::new();
        let mut end = first;
        while end - first < self.heads.merged.into()
            && let Some(more) = self.waiting.remove(&end)
        {
            wanted.extend(more);
            end += 1;
        }
        let positioning = self.positioning(first, model);
        self.at = end;
        self.reads = Some(wanted);
        let bytes = (end - first) * self.block_bytes;
        Some(model.disk_move(now, self.number, positioning, bytes))
    }

    /// What has been read.
    pub(super) fn done(&mut self) -> Vec<Wanted> {
        self.reads.take().unwrap_or_default()
    }

    fn positioning(&self, to: u64, model: &Model) -> Duration {
        let way = to.abs_diff(self.at) as f64 / self.partition_blocks as f64;
        let moved = self.heads.turn / 2 + self.heads.settle + self.seek_of_all.mul_f64(way.sqrt());
        match to.checked_sub(self.at) {
            Some(passed) if passed <= self.heads.passed => {
                let over = Machine::transfer(passed * self.block_bytes, model.machine().disk.bandwidth);
                over.min(moved)
            }
            _ => moved,
        }
    }
}
