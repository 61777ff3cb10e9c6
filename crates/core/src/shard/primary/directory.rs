//! The primary's directory: which cards may have copies of what, and the last writes, per region.
//!
//! It names at least what cards hold: a card is entered before it hears of a grant, or its command begins, and leaves
//! with its own word, or with the end of the card. Before a write only those are asked whom it names for the segment.
//! Who releases says so with a turn; a release that is older than the card's last acquire or command is ignored, since
//! the card holds what it was granted afterwards.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Range;

use super::marks::Marks;
use crate::ids::{BlockId, Generation, NodeId, PgId, Stamp};
use crate::io::Payload;
use crate::message::{Body, Grant};
use crate::mistakes::{Mistake, makes};
use crate::shard::Shard;
use crate::shard::regions::{Bounds, Place, Writes, run};

/// See the module's head.
pub(in crate::shard) struct Directory {
    regions: BTreeMap<u32, Region>,
    /// The limit in regions that are not listed.
    default: Stamp,
    /// Regions that are remembered.
    regions_max: usize,
    /// With so many regions some are forgotten, if any can be.
    forget_at: usize,
}

struct Region {
    writes: Writes,
    holders: Vec<Holder>,
}

/// What a card may hold in a region.
struct Holder {
    node: NodeId,
    held: u64,
    /// Of its last acquire or command.
    turn: u64,
}

impl Directory {
    /// Of a primary whose life begins with this stamp: what was written before is known from its last life, or else not in
    /// detail.
    pub(in crate::shard) fn new(first: Stamp, marks: Option<&Marks>, regions_max: usize) -> Self {
        let Some(marks) = marks.filter(|marks| marks.are_before(first) && marks.regions.len() <= regions_max)
        else {
            let default = if makes(Mistake::ForgetEarlierWrites) { Stamp(0) } else { first };
            return Self { regions: BTreeMap::new(), default, regions_max, forget_at: regions_max };
        };
        let region = |bounds| Region { writes: Writes::before(bounds), holders: Vec::new() };
        let regions = marks.regions.iter().map(|&(number, bounds)| (number, region(bounds))).collect();
        Self { regions, default: marks.default, regions_max, forget_at: regions_max }
    }

    /// For the next life.
    pub(in crate::shard) fn marks(&self) -> Marks {
        let regions = self.regions.iter().map(|(&number, region)| (number, region.writes.bounds()));
        let default = Bounds { base: self.default, ..Bounds::default() };
        Marks { default: self.default, regions: regions.filter(|(_, bounds)| *bounds != default).collect() }
    }

    pub(in crate::shard) fn bytes(&self) -> usize {
        let holders = self.regions.values().map(|region| region.holders.capacity()).sum::<usize>();
        self.regions.len() * size_of::<(u32, Region)>() + holders * size_of::<Holder>()
    }

    pub(in crate::shard) fn bounds(&self, region: u32) -> Bounds {
        let default = Bounds { base: self.default, ..Bounds::default() };
        self.regions.get(&region).map_or(default, |region| region.writes.bounds())
    }

    fn region(&mut self, number: u32) -> &mut Region {
        if !self.regions.contains_key(&number) && self.regions.len() >= self.forget_at {
            self.forget_coldest();
            // If cards hold nearly all of them, the next search is not for the next region.
            self.forget_at = self.regions_max.max(self.regions.len() + self.regions_max / 8);
        }
        let writes = Writes::since(self.default);
        self.regions.entry(number).or_insert_with(|| Region { writes, holders: Vec::new() })
    }

    /// Half of the regions that no card holds anything of go, those first that were written the longest ago: they are
    /// as good as written by the last of them.
    fn forget_coldest(&mut self) {
        let free = self.regions.iter().filter(|(_, region)| region.holders.is_empty());
        let mut free: Vec<(Stamp, u32)> = free.map(|(&n, region)| (region.writes.last(), n)).collect();
        if free.is_empty() {
            return;
        }
        let half = free.len() / 2;
        free.select_nth_unstable(half);
        for &(last, number) in &free[..=half] {
            self.regions.remove(&number);
            self.default = self.default.max(last);
        }
    }

    pub(in crate::shard) fn write(&mut self, place: Place, stamp: Stamp) {
        self.region(place.region).writes.write(place.segment, stamp);
    }

    /// A card may hold more from now on. All of it that it may hold.
    fn enter(&mut self, node: NodeId, region: u32, held: u64, turn: u64) -> u64 {
        let holders = &mut self.region(region).holders;
        match holders.iter_mut().find(|holder| holder.node == node) {
            Some(holder) => {
                holder.held |= held;
                holder.turn = holder.turn.max(turn);
                holder.held
            }
            None => {
                holders.push(Holder { node, held, turn });
                held
            }
        }
    }

    pub(super) fn release(&mut self, node: NodeId, region: u32, released: u64, turn: u64) {
        let Some(region) = self.regions.get_mut(&region) else { return };
        let Some(at) = region.holders.iter().position(|holder| holder.node == node) else { return };
        let holder = &mut region.holders[at];
        if turn > holder.turn || makes(Mistake::ReleaseUnordered) {
            holder.held &= !released;
            if holder.held == 0 {
                region.holders.swap_remove(at);
            }
        }
    }

    /// The node has no card any more, or a new one, which holds nothing.
    pub(in crate::shard) fn forget(&mut self, node: NodeId) {
        for region in self.regions.values_mut() {
            region.holders.retain(|holder| holder.node != node);
        }
    }

    /// Cards that may have copies in a segment, but for one.
    fn holders(&self, place: Place, except: NodeId) -> Vec<NodeId> {
        let holders = self.regions.get(&place.region).into_iter().flat_map(|region| &region.holders);
        let others = holders.filter(|holder| holder.held & place.bit() != 0 && holder.node != except);
        others.map(|holder| holder.node).collect()
    }

    /// Every card that is named, once for each region.
    pub(in crate::shard) fn nodes(&self) -> impl Iterator<Item = &NodeId> {
        self.regions.values().flat_map(|region| region.holders.iter().map(|holder| &holder.node))
    }

    pub(in crate::shard) fn names(&self, node: NodeId, place: Place) -> bool {
        self.around(node, place).is_some()
    }

    /// The segments around one that a card may hold, as places in the shard; none if it holds not even that one.
    pub(in crate::shard) fn around(&self, node: NodeId, place: Place) -> Option<Range<u32>> {
        let holder = self.regions.get(&place.region)?.holders.iter().find(|holder| holder.node == node)?;
        run(holder.held, place)
    }
}

impl Shard {
    /// Cards whose copies of the blocks must go before they are written.
    pub(in crate::shard) fn holders(&self, id: PgId, writer: NodeId, blocks: &Range<u32>) -> Vec<NodeId> {
        let place = self.place(blocks.start);
        self.primary(id).map_or_else(Vec::new, |primary| primary.directory.holders(place, writer))
    }

    /// A card wants a lock. It is granted at once: whoever writes there next asks the card first. It gets the whole region but for
    /// what was written lately, so that a writer and a reader of different segments do not meet.
    pub(in crate::shard) fn acquire(
        &mut self,
        from: NodeId,
        id: PgId,
        generation: Generation,
        index: u32,
        turn: u64,
    ) {
        let place = self.place(index);
        let Some(volume) = self.volumes.get_mut(&id) else { return };
        let within = u64::from(index) < volume.spec.blocks();
        let Some(primary) = volume.primary.as_mut().filter(|p| within && p.is_live(from, generation)) else {
            return;
        };
        let bounds = primary.directory.bounds(place.region);
        let held = primary.directory.enter(from, place.region, !bounds.written | place.bit(), turn);
        let body = Body::Granted { generation, block: index, grant: Grant { turn, held, bounds } };
        self.send(from, id, body, Payload::None);
    }

    /// A command is an acquire of what it changes: while it may have been applied, and its sender does not know, no
    /// other card writes there without asking the sender.
    pub(in crate::shard) fn enter_commander(
        &mut self,
        node: NodeId,
        id: PgId,
        blocks: &Range<u32>,
        turn: u64,
    ) {
        if blocks.is_empty() || makes(Mistake::NoCommandLock) {
            return;
        }
        let place = self.place(blocks.start);
        if let Some(volume) = self.volumes.get_mut(&id).filter(|v| v.confirms())
            && let Some(primary) = &mut volume.primary
        {
            primary.directory.enter(node, place.region, place.bit(), turn);
        }
    }

    /// What the answer to a command grants: what the command acquired.
    pub(in crate::shard) fn grant_of(&self, node: NodeId, id: PgId, blocks: &Range<u32>, turn: u64) -> Grant {
        let place = self.place(blocks.start);
        let directory = self.primary(id).map(|primary| &primary.directory);
        match directory.filter(|d| !blocks.is_empty() && d.names(node, place)) {
            Some(directory) => Grant { turn, held: place.bit(), bounds: directory.bounds(place.region) },
            None => Grant::default(),
        }
    }

    /// Whether a card may hold the lock on a block, as far as the directory knows. None for a card that it does
    /// not know.
    #[must_use]
    pub fn may_hold_lock(&self, node: NodeId, generation: Generation, block: BlockId) -> Option<bool> {
        let primary = self.primary(block.volume)?;
        primary.is_live(node, generation).then(|| primary.directory.names(node, self.place(block.index)))
    }
}
