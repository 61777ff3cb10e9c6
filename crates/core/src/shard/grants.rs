//! Range locks for copies: who may have copies of which blocks, so that only they are asked before a write.
//!
//! A card begins with a read lock on the whole volume: a cold volume costs no lock message. Before a write the disk
//! node has the copies of every other card that holds a lock on the blocks dropped ([`super::coherence`]). A card that
//! drops them gives its lock up, not only on these blocks but on the largest range around them in which it has no copy
//! and waits for none: the range in which a write hurts nobody. From then on the writer holds it alone, and writes
//! there without a message to that card. A card that wants to read in a range it has given up asks the disk node for
//! its lock first, and gets all of it back. (The consistency module's multi-reader/single-writer grants in the single
//! I/O space, with the ranges chosen by those who lose them.)
//!
//! Ranges are counted in the blocks of a shard, in their order, and lie within a *region* of [`REGION`] of them; a card
//! gives up one range in a region.
//!
//! A command is a lock, too: whoever has sent one is asked before somebody else's write to its blocks, whatever it has
//! given up, until it has the answer or has confirmed such a write ([`super::answered`]). So it knows of every write that
//! came after a command which it may have to repeat.
//!
//! **Safety.** If the disk node believes that a card has given a range up, it has: it has no copy there, accepts none,
//! and knows that it must ask. Only a confirmation makes the disk node believe it. A grant makes it forget, and is
//! remembered by the card only if it has given nothing up there since it asked; a confirmation older than the last
//! question of its card says nothing about ranges. Both are told by a counter that the card advances whenever it
//! gives something up. A granted range may have been written meanwhile: the card uses nothing there that is older.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Range;

use super::Shard;
use crate::ids::{BlockId, Generation, NodeId, STRIPE_BLOCKS, Stamp, VolumeId};
use crate::io::Payload;
use crate::message::Body;
use crate::mistakes::{Mistake, makes};
use crate::time::Instant;

/// Blocks of a shard that one lock can cover at most. A multiple of [`STRIPE_BLOCKS`].
const REGION: u32 = 1024;

/// Regions that are remembered of a volume, at each end.
const REGIONS_MAX: usize = 4096;

/// What the disk node believes of other cards.
#[derive(Default)]
pub(super) struct Grants {
    regions: BTreeMap<u32, Region>,
    /// The counter in each card's last question.
    asked: BTreeMap<NodeId, u64>,
}

#[derive(Default)]
struct Region {
    /// What each card has given up.
    given_up: BTreeMap<NodeId, Range<u32>>,
    /// The last write that has begun here since the first card gave something up.
    written: Stamp,
}

impl Grants {
    /// Whether the card has no lock on any of the blocks.
    pub(super) fn is_given_up(&self, node: NodeId, blocks: &Range<u32>) -> bool {
        self.regions
            .get(&(blocks.start / REGION))
            .and_then(|region| region.given_up.get(&node))
            .is_some_and(|range| range.start <= blocks.start && blocks.end <= range.end)
    }

    /// The node has a new card, which has given nothing up, or none.
    pub(super) fn forget(&mut self, node: NodeId) {
        self.asked.remove(&node);
        for region in self.regions.values_mut() {
            region.given_up.remove(&node);
        }
        self.regions.retain(|_, region| !region.given_up.is_empty());
    }

    fn gave_up(&mut self, node: NodeId, range: Range<u32>, counter: u64, written: Stamp) {
        if range.is_empty() || self.asked.get(&node).is_some_and(|&asked| counter <= asked) {
            return;
        }
        let number = range.start / REGION;
        if !self.regions.contains_key(&number) && self.regions.len() >= REGIONS_MAX {
            self.regions.pop_first();
        }
        let region = self.regions.entry(number).or_insert_with(|| Region { written, ..Region::default() });
        region.given_up.insert(node, range);
    }

    /// The card has its lock back. Which write it must know of.
    fn grant(&mut self, node: NodeId, block: u32, counter: u64) -> Option<Stamp> {
        let asked = self.asked.entry(node).or_default();
        *asked = counter.max(*asked);
        let number = block / REGION;
        let region = self.regions.get_mut(&number)?;
        region.given_up.remove(&node);
        let written = region.written;
        if region.given_up.is_empty() {
            self.regions.remove(&number);
        }
        Some(written)
    }

    pub(super) fn write(&mut self, blocks: &Range<u32>, stamp: Stamp) {
        if let Some(region) = self.regions.get_mut(&(blocks.start / REGION)) {
            region.written = stamp;
        }
    }

    /// The range around a place on which a card has no lock, as places.
    pub(super) fn given_up_around(&self, node: NodeId, local: u32) -> Option<Range<u32>> {
        let range = self.regions.get(&(local / REGION))?.given_up.get(&node)?;
        Some(range.clone()).filter(|range| range.contains(&local))
    }

    /// The cards that something is remembered of, some more than once.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &NodeId> {
        self.asked.keys().chain(self.regions.values().flat_map(|region| region.given_up.keys()))
    }

    fn iter(&self) -> impl Iterator<Item = (NodeId, Range<u32>)> {
        self.regions
            .values()
            .flat_map(|region| region.given_up.iter().map(|(&node, range)| (node, range.clone())))
    }
}

/// What a card has given up.
#[derive(Default)]
pub(super) struct GivenUp {
    regions: BTreeMap<u32, Lost>,
    counter: u64,
}

struct Lost {
    range: Range<u32>,
    /// The counter when it grew last.
    counter: u64,
    /// It is asked for again then at the earliest.
    ask_at: Instant,
}

impl GivenUp {
    fn contains(&self, block: u32) -> bool {
        self.around(block).is_some()
    }

    /// The range around a place, as places.
    pub(super) fn around(&self, local: u32) -> Option<Range<u32>> {
        let lost = self.regions.get(&(local / REGION))?;
        Some(lost.range.clone()).filter(|range| range.contains(&local))
    }

    pub(super) fn len(&self) -> usize {
        self.regions.len()
    }

    /// The card is a new one, or gone.
    pub(super) fn clear(&mut self) {
        self.regions.clear();
    }
}

impl Shard {
    /// The block's place among those of this shard.
    pub(super) fn local(&self, index: u32) -> u32 {
        let stripe = index / STRIPE_BLOCKS / u32::from(self.config.shards);
        stripe * STRIPE_BLOCKS + index % STRIPE_BLOCKS
    }

    /// The block at a place; none beyond the numbers that blocks can have.
    pub(super) fn index_of(&self, local: u32) -> Option<u32> {
        let (stripe, size) = (u64::from(local / STRIPE_BLOCKS), u64::from(STRIPE_BLOCKS));
        let stripe = stripe * u64::from(self.config.shards) + u64::from(self.config.shard);
        u32::try_from(stripe * size + u64::from(local % STRIPE_BLOCKS)).ok()
    }

    /// Blocks of one stripe, by their places.
    pub(super) fn locals(&self, blocks: &Range<u32>) -> Range<u32> {
        let first = self.local(blocks.start);
        first..first + blocks.len() as u32
    }

    /// Whether this node's card must ask for its lock before it uses a copy of the block.
    pub(super) fn has_given_up(&self, block: BlockId) -> bool {
        self.volumes.get(&block.volume).is_some_and(|v| v.given_up.contains(self.local(block.index)))
            && !makes(Mistake::ForgetGivenUp)
    }

    /// Cards that must hear of a write to the blocks before it is done: those with a lock there, for their copies must
    /// go, and those with commands there that they may repeat.
    pub(super) fn holders(&self, id: VolumeId, writer: NodeId, blocks: &Range<u32>) -> Vec<NodeId> {
        let Some(volume) = self.volumes.get(&id) else { return Vec::new() };
        let locals = self.locals(blocks);
        let others = volume.desk.cards.keys().copied().filter(|&node| node != writer);
        let may_repeat =
            |node| volume.desk.answered.to(node).is_some_and(|answers| answers.may_repeat(blocks));
        others.filter(|&node| !volume.desk.grants.is_given_up(node, &locals) || may_repeat(node)).collect()
    }

    /// A card has confirmed that it has no copies: what it has given up with them.
    pub(super) fn gave_up(&mut self, node: NodeId, id: VolumeId, first: u32, count: u16, counter: u64) {
        let (last_region, size) = (first / REGION, u32::from(count));
        let Some(end) = first.checked_add(size).filter(|end| size > 0 && (end - 1) / REGION == last_region)
        else {
            return;
        };
        let Some(volume) = self.volumes.get_mut(&id) else { return };
        let written = volume.desk.last_stamp;
        volume.desk.grants.gave_up(node, first..end, counter, written);
    }

    /// At a card that has just dropped its copies of the blocks: gives its lock up on the largest range around them
    /// that it does not need. What it has given up, as places, and its counter.
    pub(super) fn give_up(&mut self, id: VolumeId, blocks: &Range<u32>) -> (Range<u32>, u64) {
        let locals = self.locals(blocks);
        let number = locals.start / REGION;
        let Some(volume) = self.volumes.get(&id) else { return (0..0, 0) };
        let size = volume.spec.blocks();
        let is_free = |local: u32| {
            let index = self.index_of(local).filter(|&index| u64::from(index) < size);
            let Some(block) = index.map(|index| BlockId::new(id, index)) else { return false };
            self.cache.lookup(block).is_none()
                && !self.leaving.contains_key(&block)
                && !self.fetches.is_under_way(block)
                && !self.is_being_written(block)
        };
        let known = volume.given_up.regions.get(&number).map(|lost| lost.range.clone());
        let full = known.is_none() && volume.given_up.regions.len() >= REGIONS_MAX;
        if full || locals.is_empty() || !locals.clone().all(is_free) {
            return (0..0, 0);
        }
        // What is given up already is free.
        let known = known.unwrap_or(locals.clone());
        let apart = known.end < locals.start || locals.end < known.start;
        if apart && !(locals.end.min(known.end)..locals.start.max(known.start)).all(is_free) {
            // Two ranges with copies between them: the first stays the only one.
            return (0..0, 0);
        }
        let (mut start, mut end) = (locals.start.min(known.start), locals.end.max(known.end));
        while start > number * REGION && is_free(start - 1) {
            start -= 1;
        }
        while end < u32::MAX && end / REGION == number && is_free(end) {
            end += 1;
        }
        let Some(volume) = self.volumes.get_mut(&id) else { return (0..0, 0) };
        volume.given_up.counter += 1;
        let counter = volume.given_up.counter;
        let lost = Lost { range: start..end, counter, ask_at: Instant(0) };
        volume.given_up.regions.insert(number, lost);
        self.stats.locks_given_up += 1;
        (start..end, counter)
    }

    /// Asks for the lock on the range around a block, unless it has just been asked for.
    pub(super) fn ask_for_lock(&mut self, block: BlockId) {
        let (now, again) = (self.now, self.now + self.config.peer_timeout);
        let local = self.local(block.index);
        let Some(volume) = self.volumes.get_mut(&block.volume) else { return };
        let (Some(generation), counter) = (volume.card, volume.given_up.counter) else { return };
        let Some(lost) = volume.given_up.regions.get_mut(&(local / REGION)) else { return };
        if lost.ask_at > now {
            return;
        }
        lost.ask_at = again;
        let body = Body::Acquire { generation, block: block.index, counter };
        self.stats.locks_asked += 1;
        self.send(block.volume.disk_node(), block.volume, body, Payload::None);
    }

    /// At the disk node: a card wants its lock back. Nobody has to agree: whoever writes there next asks it first.
    pub(super) fn acquire(
        &mut self,
        from: NodeId,
        id: VolumeId,
        generation: Generation,
        index: u32,
        counter: u64,
    ) {
        let local = self.local(index);
        let Some(volume) = self.volumes.get_mut(&id) else { return };
        if volume.desk.cards.get(&from) != Some(&generation) {
            return;
        }
        let written = volume.desk.grants.grant(from, local, counter);
        let stamp = written.unwrap_or(volume.desk.last_stamp);
        let body = Body::Granted { generation, block: index, counter, stamp };
        self.send(from, id, body, Payload::None);
    }

    /// The card has its lock on the range around the block back, unless it has given it up again since it asked.
    pub(super) fn granted(
        &mut self,
        from: NodeId,
        id: VolumeId,
        generation: Generation,
        index: u32,
        counter: u64,
        stamp: Stamp,
    ) {
        let number = self.local(index) / REGION;
        let Some(volume) = self.volumes.get_mut(&id) else { return };
        if from != id.disk_node() || volume.card != Some(generation) {
            return;
        }
        let current = |lost: &Lost| lost.counter <= counter || makes(Mistake::BelieveLateGrant);
        if volume.given_up.regions.get(&number).is_some_and(current) {
            volume.given_up.regions.remove(&number);
            if !makes(Mistake::UseBeforeGrant) {
                volume.accept_from = volume.accept_from.max(stamp);
                volume.horizon = volume.horizon.max(stamp);
            }
        } else if let Some(lost) = volume.given_up.regions.get_mut(&number) {
            // Whoever waits asks again, now.
            lost.ask_at = Instant(0);
        }
        self.resume_locked(id);
    }

    /// At the disk node: every range that it believes given up, as blocks, with the card.
    pub fn given_up_ranges(&self) -> impl Iterator<Item = (VolumeId, NodeId, Generation, Vec<u32>)> {
        self.volumes.iter().flat_map(move |(&id, volume)| {
            volume.desk.grants.iter().filter_map(move |(node, range)| {
                let generation = *volume.desk.cards.get(&node)?;
                Some((id, node, generation, range.filter_map(|local| self.index_of(local)).collect()))
            })
        })
    }

    /// Whether this node has a copy of the block, or would use one without asking.
    #[must_use]
    pub fn may_use(&self, block: BlockId) -> bool {
        self.contains(block) || !self.has_given_up(block)
    }

    /// This node's card of a volume, while it is attached.
    #[must_use]
    pub fn card(&self, id: VolumeId) -> Option<Generation> {
        self.volumes.get(&id).and_then(|volume| volume.card)
    }
}
