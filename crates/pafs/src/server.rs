//! A cache server: it serves the blocks it owns from the buffers it owns.

mod handover;
mod inspect;
mod writing;

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use cards_core::{BlockId, PgId};

use super::partition::{Mark, Partition};
use super::{Access, AccessKind, Action, BufferNumber, Found, Frame, Level, Load};
use handover::Gains;
use writing::Write;

/// What a cache server must know from the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServerConfig {
    /// Nodes of the cluster.
    pub nodes: u16,
    /// The tip of the queue: percent of the partition's buffers (PAFS-6); 0 is plain LRU.
    pub tip_percent: u8,
    /// Which writes are covered by parity (PAFS-18).
    pub level: Level,
}

/// See the head of [the crate](crate). Each call appends what it wants done to `out`.
///
/// An access is served at once if its block is in a buffer. If not, a buffer is chosen by PG-LRU; a dirty block in
/// it is written to its disk first (a *miss on dirty*). Accesses to a block that is on its way in or out wait; so do
/// misses when all buffers are in use.
pub struct CacheServer {
    config: ServerConfig,
    partition: Partition,
    /// Accesses that wait until their block has come, has left, or has been written by the one before.
    waiting: BTreeMap<BlockId, VecDeque<Access>>,
    /// Missing blocks that wait for a buffer.
    starved: VecDeque<BlockId>,
    /// Buffers that leave their blocks, and what for.
    vacating: BTreeMap<u32, Purpose>,
    /// Buffers of these that leave the partition.
    leaving: u32,
    writes: BTreeMap<u32, Write>,
    /// For the syncer: all buffers that have become dirty since its last round.
    dirty: Vec<u32>,
    gains: Gains,
    /// Counts the intervals of the repartition.
    interval: u32,
    /// Different blocks accessed in this interval.
    working_set: u32,
    /// Those of them that have left their buffers.
    gone: BTreeSet<BlockId>,
    stats: ServerStats,
}

/// What a buffer is emptied for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Purpose {
    /// For a block that somebody waits for.
    Fill(BlockId),
    /// For another server.
    Hand(u16),
}

/// What a server has done with its buffers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ServerStats {
    /// Blocks discarded for others (not by [`CacheServer::discard`]).
    pub evictions: u64,
    /// Of these, those that had to be written to their disk before.
    pub dirty_evictions: u64,
    /// Buffers given to other servers.
    pub given: u64,
}

/// Blocks that are remembered in [`CacheServer::gone`]: beyond, one that leaves and comes back counts twice.
const GONE_MAX: usize = 1 << 20;

impl CacheServer {
    /// A server with these frames, all empty.
    #[must_use]
    pub fn new(config: ServerConfig, frames: &[Frame]) -> Self {
        let mut partition = Partition::new(config.nodes, config.tip_percent, frames.len());
        // What joins last is used first.
        frames.iter().rev().for_each(|&frame| {
            partition.add(frame);
        });
        Self {
            config,
            partition,
            waiting: BTreeMap::new(),
            starved: VecDeque::new(),
            vacating: BTreeMap::new(),
            leaving: 0,
            writes: BTreeMap::new(),
            dirty: Vec::new(),
            gains: Gains::default(),
            interval: 1,
            working_set: 0,
            gone: BTreeSet::new(),
            stats: ServerStats::default(),
        }
    }

    /// A client accesses a block that this server owns.
    pub fn access(&mut self, access: Access, out: &mut Vec<Action>) {
        match self.partition.find(access.block) {
            Some(at) if self.partition.is(at, Mark::FILLING.or(Mark::VACATING)) => self.wait(access),
            Some(at) => self.serve(at, access, Found::Cached, out),
            None => {
                let first = !self.waiting.contains_key(&access.block);
                self.wait(access);
                if first {
                    self.place(access.block, out);
                }
            }
        }
    }

    fn wait(&mut self, access: Access) {
        self.waiting.entry(access.block).or_default().push_back(access);
    }

    /// The block is in its buffer.
    fn serve(&mut self, at: u32, access: Access, found: Found, out: &mut Vec<Action>) {
        if self.partition.accessed(at) != self.interval {
            self.partition.set_accessed(at, self.interval);
            self.working_set += 1;
        }
        self.partition.touch(at);
        match access.kind {
            AccessKind::Read => {
                out.push(Action::Deliver { access, frame: self.partition.frame(at), found });
            }
            AccessKind::WritePart | AccessKind::WriteWhole => self.write(at, access, found, out),
        }
    }

    /// Finds a buffer for a missing block.
    fn place(&mut self, block: BlockId, out: &mut Vec<Action>) {
        let Some(first) = self.waiting.get(&block).and_then(VecDeque::front) else { return };
        match self.partition.victim(first.client) {
            Some(at) => self.take_out(at, Purpose::Fill(block), out),
            None => self.starved.push_back(block),
        }
    }

    /// A buffer gets another use, as soon as that is possible.
    fn take_out(&mut self, at: u32, purpose: Purpose, out: &mut Vec<Action>) {
        self.partition.dequeue(at);
        let is_hand_over = matches!(purpose, Purpose::Hand(_));
        self.leaving += u32::from(is_hand_over);
        if self.partition.block(at).is_some() {
            self.stats.evictions += 1;
            let dirty = self.partition.is(at, Mark::DIRTY.or(Mark::WRITING));
            self.stats.dirty_evictions += u64::from(dirty);
        }
        if self.partition.is(at, Mark::BUSY) {
            self.partition.mark(at, Mark::VACATING, true);
            self.vacating.insert(at, purpose);
            self.vacate(at, out);
        } else {
            self.vacated(at, purpose, out);
        }
    }

    /// The next step towards an empty buffer.
    fn vacate(&mut self, at: u32, out: &mut Vec<Action>) {
        let partition = &mut self.partition;
        if partition.is(at, Mark::WRITING.or(Mark::FLUSHING).or(Mark::UNCOVERING)) {
            // Its end will call again.
        } else if partition.is(at, Mark::DIRTY) {
            self.flush(at, out);
        } else if partition.is(at, Mark::COVERED) {
            self.uncover(at, out);
        } else if let Some(purpose) = self.vacating.remove(&at) {
            partition.mark(at, Mark::VACATING, false);
            self.vacated(at, purpose, out);
        }
    }

    fn vacated(&mut self, at: u32, purpose: Purpose, out: &mut Vec<Action>) {
        let late = self.empty(at).and_then(|block| self.waiting.remove(&block));
        let was_ahead = self.gains.is_used(at);
        match purpose {
            Purpose::Fill(block) => self.fill(at, block, out),
            Purpose::Hand(to) => {
                self.leaving -= 1;
                self.stats.given += 1;
                out.push(Action::Hand { to, frame: self.partition.remove(at) });
            }
        }
        if was_ahead {
            self.ask(out);
        }
        for access in late.into_iter().flatten() {
            self.access(access, out);
        }
    }

    /// A block leaves its buffer; it may come back in the same interval.
    fn empty(&mut self, at: u32) -> Option<BlockId> {
        let block = self.partition.empty(at)?;
        if self.partition.accessed(at) == self.interval && self.gone.len() < GONE_MAX {
            self.gone.insert(block);
        }
        Some(block)
    }

    /// A missing block has a buffer.
    fn fill(&mut self, at: u32, block: BlockId, out: &mut Vec<Action>) {
        self.partition.assign(at, block);
        let known = self.gone.remove(&block);
        let interval = if known { self.interval } else { self.interval.wrapping_sub(1) };
        self.partition.set_accessed(at, interval);
        self.partition.mark(at, Mark::FILLING, true);
        let waiting = self.waiting.get_mut(&block);
        let whole =
            waiting.and_then(|queue| queue.pop_front_if(|first| first.kind == AccessKind::WriteWhole));
        match whole {
            Some(access) => {
                self.serve(at, access, Found::Absent, out);
                // Until a covered write may begin, the bytes of another block are in there.
                if !self.partition.is(at, Mark::WRITING) {
                    self.filled(at, Found::Cached, out);
                }
            }
            None => {
                let frame = self.partition.frame(at);
                out.push(Action::Fetch { block, frame, buffer: BufferNumber(at) });
            }
        }
    }

    /// The block of an [`Action::Fetch`] is in its frame.
    pub fn fetched(&mut self, buffer: BufferNumber, out: &mut Vec<Action>) {
        let at = buffer.0;
        assert!(self.partition.is(at, Mark::FILLING), "only what was fetched comes");
        self.filled(at, Found::OnDisk, out);
    }

    /// The block is in its buffer: those who have waited are served.
    /// Only the first of them has missed it.
    fn filled(&mut self, at: u32, first: Found, out: &mut Vec<Action>) {
        self.partition.mark(at, Mark::FILLING, false);
        self.partition.enqueue(at);
        let waiting = self.partition.block(at).and_then(|block| self.waiting.remove(&block));
        let found = core::iter::once(first).chain(core::iter::repeat(Found::Cached));
        for (access, found) in waiting.into_iter().flatten().zip(found) {
            self.serve(at, access, found, out);
        }
        self.feed(out);
    }

    /// Buffers for those who wait for one.
    fn feed(&mut self, out: &mut Vec<Action>) {
        while !self.starved.is_empty() && self.partition.oldest().is_some() {
            if let Some(block) = self.starved.pop_front() {
                self.place(block, out);
            }
        }
    }

    /// Blocks `first` to `end` (exclusive) of a volume are given up, those of them that this server has: they are
    /// forgotten, dirty or not. What is on its way in or out, or being written, is left alone.
    pub fn discard(&mut self, volume: PgId, first: u64, end: u64, out: &mut Vec<Action>) {
        let partition = &self.partition;
        let buffers: Vec<u32> = if end.saturating_sub(first) <= u64::from(partition.len()) {
            let find = |index: u64| partition.find(BlockId::new(volume, u32::try_from(index).ok()?));
            (first..end).filter_map(find).collect()
        } else {
            let given_up = |b: BlockId| b.volume == volume && (first..end).contains(&b.index.into());
            partition.all().filter(|&at| partition.block(at).is_some_and(given_up)).collect()
        };
        let under_way = Mark::FILLING.or(Mark::VACATING).or(Mark::WRITING);
        for at in buffers {
            if self.partition.is(at, under_way) {
                continue;
            }
            self.partition.mark(at, Mark::DIRTY, false);
            if self.partition.is(at, Mark::COVERED) {
                self.uncover(at, out);
            }
            self.empty(at);
            self.partition.requeue_first(at);
        }
        self.feed(out);
    }

    /// The interval of the repartition ends: what it was like (PAFS-9).
    pub fn end_interval(&mut self) -> Load {
        let load = Load { buffers: self.partition.len() - self.leaving, working_set: self.working_set };
        self.working_set = 0;
        self.gone.clear();
        self.interval = self.interval.wrapping_add(1);
        load
    }
}
